package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"tmpproxy/config"
	"tmpproxy/proxy"
	"tmpproxy/slowlog"
)

// slowStatements is what slow logs ask of a proxy.Server.
type slowStatements interface {
	SetSlowLog(l proxy.SlowLog, threshold time.Duration)
}

// slowLogs opens and closes the slow log as the settings say. Its methods are not safe for concurrent use, but for collectors.
type slowLogs struct {
	log     *zap.Logger
	server  slowStatements
	counts  slowlog.Counts
	current *slowlog.Log // nil: there is none
	file    string
}

// slowTap makes a log what the proxy asks of one.
type slowTap struct{ log *slowlog.Log }

func (t slowTap) Statement(s proxy.SlowStatement) { t.log.Add(slowlog.Statement(s)) }

// open makes ready for settings: a file of the same name is opened anew, as it may have been renamed. What it returns is for put.
func (l *slowLogs) open(c *config.Config) (*slowlog.Log, error) {
	switch {
	case c.SlowLog.File == "":
		return nil, nil
	case l.current != nil && c.SlowLog.File == l.file:
		return l.current, l.current.Reopen()
	}
	return slowlog.Open(c.SlowLog.File, thisBuild().Version, &l.counts, func(err error) {
		l.log.Error("slow log not written", zap.Error(err))
	})
}

// put has statements written as the settings say, to what open has returned.
func (l *slowLogs) put(c *config.Config, next *slowlog.Log) {
	before := l.current
	if l.current, l.file = next, c.SlowLog.File; next == nil {
		l.server.SetSlowLog(nil, 0)
	} else {
		next.SetFull(c.SlowLog.Text == "full")
		l.server.SetSlowLog(slowTap{next}, c.SlowLog.Threshold)
	}
	if before != nil && before != next {
		before.Close()
	}
}

// drop closes what open has returned, and will not be put.
func (l *slowLogs) drop(next *slowlog.Log) {
	if next != nil && next != l.current {
		next.Close()
	}
}

// close writes what waits. No statement may come any more.
func (l *slowLogs) close() {
	if l.current != nil {
		l.current.Close()
	}
}

// collectors are the metrics of slow logs.
func (l *slowLogs) collectors() []prometheus.Collector {
	const dropped = "tmpproxy_slow_log_dropped_total"
	help := "Statements missing in the slow log: they came too fast, or the file could not be written."
	counter := func(name, help string, value func() uint64, labels prometheus.Labels) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(value()) })
	}
	return []prometheus.Collector{
		counter("tmpproxy_slow_statements_total", "Statements written to the slow log.", l.counts.Written.Load, nil),
		counter(dropped, help, l.counts.TooFast.Load, prometheus.Labels{"reason": "queue"}),
		counter(dropped, help, l.counts.Failed.Load, prometheus.Labels{"reason": "write"}),
	}
}
