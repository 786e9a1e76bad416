package main

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// listening is a service manager's socket.
type listening struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

func listenAsManager(t *testing.T) *listening {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetReadDeadline(time.Now().Add(patience))
	return &listening{t, conn, path}
}

// next returns the next message whose first assignment is none of these.
func (l *listening) next(but string) string {
	l.t.Helper()
	for b := make([]byte, 4096); ; {
		n, err := l.conn.Read(b)
		if err != nil {
			l.t.Fatal(err)
		}
		if message := string(b[:n]); but == "" || !strings.HasPrefix(message, but) {
			return message
		}
	}
}

// TestServeNotifies lives a whole life before a service manager that has a watchdog.
func TestServeNotifies(t *testing.T) {
	m := listenAsManager(t)
	file := filepath.Join(t.TempDir(), "proxy.yaml")
	writeFile(t, file, "log: {level: info}\n")
	s := serve(t, []string{"NOTIFY_SOCKET=" + m.path, "WATCHDOG_USEC=20000"}, "--config", file, "--backend.address="+startBackend(t).address())
	if got := m.next(""); got != "READY=1\nSTATUS=serving" {
		t.Errorf("at the start: %q", got)
	}
	for range 3 {
		if got := m.next(""); got != "WATCHDOG=1" {
			t.Errorf("to the watchdog: %q", got)
		}
	}
	s.signal(syscall.SIGHUP)
	if got := m.next("WATCHDOG=1"); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") {
		t.Errorf("on a reload: %q", got)
	}
	if got := m.next("WATCHDOG=1"); got != "READY=1\nSTATUS=serving" {
		t.Errorf("behind the reload: %q", got)
	}
	writeFile(t, file, "log: {level: loud}\nlimits: {max_sessions: x}\n")
	s.signal(syscall.SIGHUP)
	m.next("WATCHDOG=1")
	got := m.next("WATCHDOG=1")
	if ready, status, _ := strings.Cut(got, "\n"); ready != "READY=1" || !strings.HasPrefix(status, "STATUS=serving; settings not reloaded: configuration: 2 faults ") || strings.Contains(status, "\n") {
		t.Errorf("behind a reload that failed: %q", got)
	}
	busy := connect(t, "tcp", s.listen[0])
	busy.query("BEGIN")
	s.signal(syscall.SIGTERM)
	if got := m.next("WATCHDOG=1"); got != "STOPPING=1\nSTATUS=shutting down" {
		t.Errorf("at the end: %q", got)
	}
	if got := m.next(""); got != "WATCHDOG=1" {
		t.Errorf("while it drains: %q", got)
	}
	busy.query("COMMIT")
	if code := s.exit(); code != 143 {
		t.Errorf("exit code %d", code)
	}
}

// TestWatchdog tells the watchdog nothing while something does not answer.
func TestWatchdog(t *testing.T) {
	m := listenAsManager(t)
	t.Setenv("NOTIFY_SOCKET", m.path)
	t.Setenv("WATCHDOG_USEC", "2000")
	core, logs := observer.New(zap.ErrorLevel)
	manager := newManager(zap.New(core))
	if manager.watchdog != 2*time.Millisecond {
		t.Fatalf("watchdog within %v", manager.watchdog)
	}
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	manager.watch(ctx, zap.New(core), func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the look may take for ever")
		}
		switch looks++; {
		case looks == 6:
			cancel()
		case looks > 3:
			return errors.New("a loop does not turn")
		}
		return nil
	})
	manager.tell("END=1")
	for i := range 4 {
		if got, want := m.next(""), []string{"WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1", "END=1"}[i]; got != want {
			t.Errorf("message %d: %q", i+1, got)
		}
	}
	if logs.Len() != 2 {
		t.Errorf("%d complaints", logs.Len())
	}
}

func TestManagerOfOthers(t *testing.T) {
	m := listenAsManager(t)
	t.Setenv("NOTIFY_SOCKET", m.path)
	t.Setenv("WATCHDOG_USEC", "2000")
	t.Setenv("WATCHDOG_PID", "1")
	if manager := newManager(zap.NewNop()); manager.conn == nil || manager.watchdog != 0 {
		t.Errorf("another process's watchdog: %+v", manager)
	}
	if manager := newManager(zap.NewNop()); manager.conn != nil { // the variables are gone
		t.Errorf("nobody wants to know: %+v", manager)
	}
}
