package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestServeEndsBySignal(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		s := serve(t, nil)
		s.signal(sig)
		if line := s.await("shutting down"); line["signal"] != sig.String() {
			t.Errorf("%v: %v", sig, line)
		}
		s.await("stopped")
		if code := s.exit(); code != want {
			t.Errorf("%v: exit code %d, want %d", sig, code, want)
		}
	}
}

func TestServeDrains(t *testing.T) {
	for _, driver := range []string{"loop", "pump"} {
		t.Run(driver, func(t *testing.T) {
			s := serve(t, nil, "--backend.address="+startBackend(t).address(), "--shutdown.grace=10m", "--relay.driver="+driver)
			idle, busy := connect(t, "tcp", s.listen[0]), connect(t, "tcp", s.listen[0])
			idle.query("SELECT 1")
			busy.query("BEGIN")
			s.signal(syscall.SIGTERM)
			s.await("shutting down")
			idle.gone()
			busy.query("UPDATE t SET a = 1") // the transaction goes on
			if status, body := s.get("/readyz"); status != 503 || !strings.Contains(body, "shutting down") {
				t.Errorf("ready while shutting down: %d %s", status, body)
			}
			busy.query("COMMIT")
			busy.gone()
			if code := s.exit(); code != 143 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

func TestServeGrace(t *testing.T) {
	s := serve(t, nil, "--backend.address="+startBackend(t).address(), "--shutdown.grace=50ms")
	busy := connect(t, "tcp", s.listen[0])
	busy.query("BEGIN")
	s.signal(syscall.SIGTERM)
	busy.gone()
	if code := s.exit(); code != 143 {
		t.Errorf("exit code %d", code)
	}
}

func TestServeSecondSignal(t *testing.T) {
	s := serve(t, nil, "--backend.address="+startBackend(t).address(), "--shutdown.grace=10m")
	busy := connect(t, "tcp", s.listen[0])
	busy.query("BEGIN")
	s.signal(syscall.SIGTERM)
	s.await("shutting down")
	busy.query("SELECT 1") // it still serves
	s.signal(syscall.SIGINT)
	if code := s.exit(); code != 130 {
		t.Errorf("exit code %d", code)
	}
}

func TestServeListensEverywhere(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "p.sock")
	s := serve(t, []string{"TMPPROXY_BACKEND_ADDRESS=" + startBackend(t).address()}, "--listen.addresses=127.0.0.1:0,127.0.0.1:0,"+socket)
	if len(s.listen) != 3 {
		t.Fatalf("listens on %v", s.listen)
	}
	for _, address := range s.listen {
		network := "tcp"
		if address == socket {
			network = "unix"
		}
		connect(t, network, address).query("SELECT 1")
	}
}

// TestServeListEnvironment takes the list of listeners from a variable alone.
func TestServeListEnvironment(t *testing.T) {
	dir := t.TempDir()
	sockets := []string{filepath.Join(dir, "a.sock"), filepath.Join(dir, "b.sock")}
	c := command(t, "serve", "--admin.address=none", "--backend.address="+startBackend(t).address())
	c.Env = append(c.Env, "TMPPROXY_LISTEN_ADDRESSES="+strings.Join(sockets, ","))
	s := startServed(t, c)
	if !slices.Equal(s.listen, sockets) || s.admin != "none" {
		t.Errorf("listens on %v, admin %s", s.listen, s.admin)
	}
	for _, socket := range sockets {
		connect(t, "unix", socket).query("SELECT 1")
	}
}

func (s *served) get(path string) (status int, body string) {
	s.t.Helper()
	response, err := http.Get("http://" + s.admin + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(b)
}

func TestServeAdmin(t *testing.T) {
	s := serve(t, nil, "--backend.address="+startBackend(t).address())
	if status, body := s.get("/api/sessions"); status != 200 || body != "[]\n" {
		t.Errorf("sessions when there are none: %d %s", status, body)
	}
	connect(t, "tcp", s.listen[0]).query("SELECT 1")
	for path, want := range map[string]string{
		"/healthz":      "ok",
		"/readyz":       "ok",
		"/metrics":      `tmpproxy_commands_total{answered_by="backend"} `,
		"/api/version":  `"go": "go1.`,
		"/api/sessions": `"client": "127.0.0.1:`,
		"/api/shapes":   "[]",
	} {
		if status, body := s.get(path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d, lacks %q\n%s", path, status, want, body)
		}
	}
	if code, stdout, stderr := told(t, "ready", "--admin.address="+s.admin); code != exitOK || stdout != "" || stderr != "" {
		t.Errorf("ready: %d %s %s", code, stdout, stderr)
	}
	if status, _ := s.get("/debug/pprof/"); status != 404 {
		t.Errorf("profiles without being asked for: %d", status)
	}
}

// TestServeWithoutLogReader lets whoever reads the log leave.
func TestServeWithoutLogReader(t *testing.T) {
	s := serve(t, nil)
	s.pipe.Close()
	s.signal(syscall.SIGHUP) // makes it write
	for i := 0; ; i++ {
		if _, metrics := s.get("/metrics"); strings.Contains(metrics, `tmpproxy_config_reloads_total{result="success"} 1`) {
			break
		} else if i > 1000 {
			t.Fatal("the settings were not reloaded")
		}
	}
	s.signal(syscall.SIGTERM)
	if code := s.exit(); code != 143 {
		t.Errorf("exit code %d", code)
	}
}

func TestServeNotReady(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	s := serve(t, nil, "--backend.address="+address)
	if status, body := s.get("/readyz"); status != 503 || !strings.Contains(body, address) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := s.get("/healthz"); status != 200 {
		t.Errorf("not alive without a backend: %d", status)
	}
	if code, stdout, stderr := told(t, "ready", "--admin.address="+s.admin); code != exitRun || stdout != "" || !strings.Contains(stderr, address) {
		t.Errorf("ready: %d %s %s", code, stdout, stderr)
	}
}

func TestServeReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "proxy.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rewrite: {strategy: innodb}\n")
	s := serve(t, nil, "--config", file, "--backend.address="+startBackend(t).address())
	c := connect(t, "tcp", s.listen[0])
	c.query("SELECT 1")

	write("rewrite: {strategy: native}\nlog: {level: warn}\nrelay: {loops: 2}\n")
	s.signal(syscall.SIGHUP)
	if line := s.await("settings that take a restart were changed"); fmt.Sprint(line["keys"]) != "[relay.loops]" {
		t.Errorf("keys: %v", line)
	}
	c.query("SELECT 2") // on the same connection

	write("rewrite: {strategy: keep, max_age: 1}\nlog: {level: info}\n")
	s.signal(syscall.SIGHUP)
	if line := s.await("settings not reloaded: the old ones stay in force"); !strings.Contains(fmt.Sprint(line["error"]), `"1" has no unit`) {
		t.Errorf("error: %v", line)
	}
	c.query("SELECT 3")

	write("rewrite: {strategy: keep}\nlog: {level: info}\n")
	s.signal(syscall.SIGHUP)
	line := s.await("settings reloaded")
	if fmt.Sprint(line["applied"]) != "[rewrite.strategy log.level]" || line["strategy"] != "keep" {
		t.Errorf("reloaded: %v", line)
	}
	c.query("SELECT 4")

	_, metrics := s.get("/metrics")
	for _, want := range []string{`tmpproxy_config_reloads_total{result="success"} 2`, `tmpproxy_config_reloads_total{result="failure"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}
