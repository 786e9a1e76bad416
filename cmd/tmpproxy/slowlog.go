package main

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"tmpproxy/config"
	"tmpproxy/proxy"
	"tmpproxy/slowlog"
	"tmpproxy/telemetry"
	"tmpproxy/tracing"
)

// statements is what logs of statements ask of a proxy.Server.
type statements interface {
	SetStatementLogs(...proxy.StatementLog)
}

// statementLogs opens and closes the slow log, and the way to a collector of spans, as the settings say. Its methods are not safe for
// concurrent use, but for collectors.
type statementLogs struct {
	log    *zap.Logger
	server statements
	slow   *slowlog.Log // nil: there is none
	file   string
	tracer *tracing.Tracer // likewise
	to     destination

	counts slowlog.Counts
	spans  tracing.Counts
}

// slowTap makes a slow log what the proxy asks of one.
type slowTap struct {
	log       *slowlog.Log
	threshold time.Duration
}

func (t slowTap) Wants(took time.Duration) bool   { return took >= t.threshold }
func (t slowTap) Statement(s telemetry.Statement) { t.log.Add(s) }

// spanTap does so for spans.
type spanTap struct {
	tracer    *tracing.Tracer
	threshold time.Duration
	share     int // percent of the faster ones
}

func (t spanTap) Wants(took time.Duration) bool {
	return took >= t.threshold || t.share > 0 && rand.IntN(100) < t.share
}

func (t spanTap) Statement(s telemetry.Statement) { t.tracer.Add(s) }

// destination is where spans go; headers are nil or not empty.
type destination struct {
	endpoint string
	headers  http.Header
}

func (d destination) equal(other destination) bool {
	return d.endpoint == other.endpoint && maps.EqualFunc(d.headers, other.headers, slices.Equal[[]string])
}

// statementOutputs are what open has made ready.
type statementOutputs struct {
	slow *slowlog.Log // nil: there is none
	to   destination
}

// open makes ready for settings: a file of the same name is opened anew, as it may have been renamed. What it returns is for put or drop.
func (l *statementLogs) open(c *config.Config) (next statementOutputs, err error) {
	next.to.endpoint = c.Tracing.Endpoint
	if next.to.headers, err = c.TracingHeaders(); err != nil {
		return next, err
	}
	switch {
	case c.SlowLog.File == "":
	case l.slow != nil && c.SlowLog.File == l.file:
		next.slow, err = l.slow, l.slow.Reopen()
	default:
		next.slow, err = slowlog.Open(c.SlowLog.File, thisBuild().Version, &l.counts, func(err error) {
			l.log.Error("slow log not written", zap.Error(err))
		})
	}
	return next, err
}

// put has statements written as the settings say, to what open has returned, and sent.
func (l *statementLogs) put(c *config.Config, next statementOutputs) {
	slow, tracer := l.slow, l.tracer
	l.slow, l.file = next.slow, c.SlowLog.File
	if !next.to.equal(l.to) {
		l.tracer, l.to = nil, next.to
		if l.to.endpoint != "" {
			l.tracer = tracing.Start(tracing.Options{Endpoint: l.to.endpoint, Headers: l.to.headers, Version: thisBuild().Version, Counts: &l.spans, Failed: func(err error) {
				l.log.Warn("spans not sent", zap.Error(err))
			}})
		}
	}
	var logs []proxy.StatementLog
	if l.slow != nil {
		l.slow.SetFull(c.SlowLog.Text == "full")
		logs = append(logs, slowTap{l.slow, c.SlowLog.Threshold})
	}
	if l.tracer != nil {
		logs = append(logs, spanTap{l.tracer, c.Tracing.Threshold, c.Tracing.Share})
	}
	l.server.SetStatementLogs(logs...)
	if slow != nil && slow != l.slow {
		slow.Close()
	}
	if tracer != nil && tracer != l.tracer {
		tracer.Close()
	}
}

// drop closes what open has returned, and will not be put.
func (l *statementLogs) drop(next statementOutputs) {
	if next.slow != nil && next.slow != l.slow {
		next.slow.Close()
	}
}

// close writes and sends what waits. No statement may come any more.
func (l *statementLogs) close() {
	if l.slow != nil {
		l.slow.Close()
	}
	if l.tracer != nil {
		l.tracer.Close()
	}
}

// collectors are the metrics of both.
func (l *statementLogs) collectors() []prometheus.Collector {
	const dropped, unsent = "tmpproxy_slow_log_dropped_total", "tmpproxy_spans_dropped_total"
	help := "Statements missing in the slow log: they came too fast, or the file could not be written."
	unsentHelp := "Spans that the collector has not got: they came too fast, or could not be sent."
	counter := func(name, help string, value func() uint64, labels prometheus.Labels) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(value()) })
	}
	return []prometheus.Collector{
		counter("tmpproxy_slow_statements_total", "Statements written to the slow log.", l.counts.Written.Load, nil),
		counter(dropped, help, l.counts.TooFast.Load, prometheus.Labels{"reason": "queue"}),
		counter(dropped, help, l.counts.Failed.Load, prometheus.Labels{"reason": "write"}),
		counter("tmpproxy_spans_total", "Spans that were sent to the collector.", l.spans.Sent.Load, nil),
		counter(unsent, unsentHelp, l.spans.TooFast.Load, prometheus.Labels{"reason": "queue"}),
		counter(unsent, unsentHelp, l.spans.Failed.Load, prometheus.Labels{"reason": "send"}),
	}
}
