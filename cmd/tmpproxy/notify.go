package main

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// manager is the service manager, which wants to know how the process does, as sd_notify(3) says. Safe for concurrent use.
type manager struct {
	conn     *net.UnixConn // nil: nobody wants to know
	watchdog time.Duration // within which it wants to hear from us each time; 0: it does not
}

// newManager finds out who wants to know, and has none of our children believe that it is they who should tell.
func newManager(log *zap.Logger) *manager {
	m := new(manager)
	socket, within, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		os.Unsetenv(name)
	}
	if socket == "" {
		return m
	}
	var err error
	if m.conn, err = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"}); err != nil {
		log.Warn("the service manager cannot be told anything", zap.Error(err))
		return m
	}
	if us, err := strconv.ParseInt(within, 10, 64); err == nil && us > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		m.watchdog = time.Duration(us) * time.Microsecond
	}
	return m
}

// tell sends assignments such as READY=1. That it fails is nobody's business: the manager has gone.
func (m *manager) tell(assignments ...string) {
	if m.conn != nil {
		for i, a := range assignments {
			assignments[i] = strings.ReplaceAll(a, "\n", " ")
		}
		_, _ = m.conn.Write([]byte(strings.Join(assignments, "\n")))
	}
}

// watch tells a watchdog, twice within its time, that all is well, as long as alive says so, until ctx is done.
func (m *manager) watch(ctx context.Context, log *zap.Logger, alive func(context.Context) error) {
	if m.conn == nil || m.watchdog == 0 {
		return
	}
	every := m.watchdog / 2
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		look, cancel := context.WithTimeout(ctx, every)
		err := alive(look)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Error("the watchdog is not told that all is well", zap.Error(err))
		default:
			m.tell("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
