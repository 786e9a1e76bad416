package main

import (
	"errors"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServeDelay admits clients, and says that it is not ready, between a signal and the end of shutdown.delay.
func TestServeDelay(t *testing.T) {
	s := serve(t, nil, "--backend.address="+startBackend(t).address(), "--shutdown.delay=10m")
	early := connect(t, "tcp", s.listen[0])
	early.query("SELECT 1")
	s.signal(syscall.SIGTERM)
	if line := s.await("shutting down"); line["delay"] != 600.0 {
		t.Errorf("log: %v", line)
	}
	if status, body := s.get("/readyz"); status != 503 || !strings.Contains(body, "shutting down") {
		t.Errorf("ready: %d %s", status, body)
	}
	if status, _ := s.get("/healthz"); status != 200 {
		t.Errorf("healthy: %d", status)
	}
	early.query("SELECT 2")
	connect(t, "tcp", s.listen[0]).query("SELECT 3")
	s.signal(syscall.SIGTERM)
	s.await("ended at once by a signal while shutting down")
	if code := s.exit(); code != 143 {
		t.Errorf("exit code %d", code)
	}
}

func TestServeDelayEnds(t *testing.T) {
	s := serve(t, nil, "--backend.address="+startBackend(t).address(), "--shutdown.delay=50ms", "--shutdown.grace=10m")
	busy := connect(t, "tcp", s.listen[0])
	busy.query("BEGIN")
	s.signal(syscall.SIGTERM)
	s.await("no more clients are admitted")
	busy.query("UPDATE t SET a = 1")
	busy.query("COMMIT")
	busy.gone()
	if code := s.exit(); code != 143 {
		t.Errorf("exit code %d", code)
	}
	if conn, err := net.Dial("tcp", s.listen[0]); err == nil {
		conn.Close()
		t.Error("somebody listens still")
	}
}

// TestServeExitZero has the exit code say whether sessions were cut off.
func TestServeExitZero(t *testing.T) {
	for _, test := range []struct {
		name string
		busy bool // a session that does not end by itself
		quit bool // by request, not by a signal
		zero string
		code int
		cut  float64
	}{
		{"signal", false, false, "true", 0, 0},
		{"signal, cut off", true, false, "true", 143, 1},
		{"signal, not asked for", false, false, "false", 143, 0},
		{"request", false, true, "false", 0, 0},
		{"request, cut off", true, true, "true", 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, nil, "--backend.address="+startBackend(t).address(), "--shutdown.grace=50ms", "--shutdown.quitquitquit",
				"--shutdown.exit_zero="+test.zero)
			c := connect(t, "tcp", s.listen[0])
			c.query("SELECT 1")
			if test.busy {
				c.query("BEGIN")
			}
			if test.quit {
				if code, _, stderr := told(t, "quit", "--admin.address="+s.admin); code != 0 {
					t.Fatalf("quit: %d %s", code, stderr)
				}
			} else {
				s.signal(syscall.SIGTERM)
			}
			c.gone()
			if line := s.await("stopped"); line["cut_off"] != test.cut {
				t.Errorf("log: %v", line)
			}
			if code := s.exit(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
		})
	}
}

// quitBare asks without a token, a type or a body.
func (s *served) quitBare(header, value string) int {
	s.t.Helper()
	request, err := http.NewRequest("POST", "http://"+s.admin+"/quitquitquit", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if header != "" {
		request.Header.Set(header, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

func TestQuit(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	writeToken(t, token, "the-first-token-of-all")
	s := serve(t, nil, "--admin.token_file="+token)
	if status := s.quitBare("", ""); status != 401 {
		t.Errorf("without the token: %d", status)
	}
	if status, _ := s.get("/readyz"); status == 503 {
		if _, body := s.get("/readyz"); strings.Contains(body, "shutting down") {
			t.Error("it shuts down all the same")
		}
	}
	if code, _, stderr := told(t, "quit", "--admin.address="+s.admin, "--admin.token_file="+token); code != 0 {
		t.Errorf("with the token: %d %s", code, stderr)
	}
	if line := s.await("shutting down"); line["signal"] != "request" {
		t.Errorf("log: %v", line)
	}
	if code := s.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestQuitLocal is asked by a program of the same machine, and by a page in its browser.
func TestQuitLocal(t *testing.T) {
	s := serve(t, nil, "--shutdown.quitquitquit", "--backend.address="+startBackend(t).address())
	if status, _ := s.get("/quitquitquit"); status != 405 {
		t.Errorf("GET: %d", status)
	}
	if status := s.quitBare("Origin", "http://evil.example"); status != 403 {
		t.Errorf("from another site: %d", status)
	}
	if status, body := s.get("/readyz"); status != 200 {
		t.Errorf("ready: %d %s", status, body)
	}
	if status := s.quitBare("", ""); status != 200 {
		t.Errorf("from here: %d", status)
	}
	if code := s.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestServeCrash has a watchdog's SIGABRT end the process as every crash does: with the stacks, and by a signal, for an exit code of 2 would
// tell the service manager not to start it again.
func TestServeCrash(t *testing.T) {
	s := serve(t, nil, "--backend.address="+startBackend(t).address())
	s.signal(syscall.SIGABRT)
	timeout := time.AfterFunc(patience, func() { s.process.Process.Kill() })
	defer timeout.Stop()
	stacks := 0
	for line := range s.lines {
		if strings.HasPrefix(line["message"].(string), "not JSON: goroutine ") {
			stacks++
		}
	}
	s.ended = true
	var exit *exec.ExitError
	if err := s.process.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGABRT {
		t.Errorf("ended with %v", err)
	}
	if stacks < 5 {
		t.Errorf("%d stacks were written", stacks)
	}
}
