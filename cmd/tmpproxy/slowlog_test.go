package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// holds waits until a file holds a text.
func holds(t *testing.T, file, want string) string {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), want) {
			return string(text)
		}
		if time.Now().After(end) {
			t.Fatalf("%s lacks %q: %s, %v", file, want, text, err)
		}
	}
}

// TestServeSlowLog rotates the slow log, changes what is written by reloads, and looks for values where none should be.
func TestServeSlowLog(t *testing.T) {
	dir := t.TempDir()
	file, log := filepath.Join(dir, "proxy.yaml"), filepath.Join(dir, "slow.log")
	writeFile(t, file, "slow_log: {file: "+log+", threshold: 0s}\n")
	s := serve(t, nil, "--config", file, "--backend.address="+startBackend(t).address())
	c := connect(t, "tcp", s.listen[0])
	c.query("SELECT 'a-value-of-somebody'")
	text := holds(t, log, "SELECT ?;\n")
	if strings.Contains(text, "a-value-of-somebody") {
		t.Errorf("a value is in the digest:\n%s", text)
	}
	if !strings.Contains(text, "# User@Host: somebody[somebody] @  [127.0.0.1]  Id:     7\n") {
		t.Errorf("no user:\n%s", text)
	}

	// As logrotate does it.
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	s.await("settings reloaded")
	c.query("DO 1")
	holds(t, log, "DO ?;\n")

	writeFile(t, file, "slow_log: {file: "+log+", threshold: 0s, text: full}\n")
	s.signal(syscall.SIGHUP)
	s.await("settings reloaded")
	c.query("SELECT 'a-value-of-somebody'")
	c.query("SET PASSWORD = 'a-password'")
	if text := holds(t, log, "SET PASSWORD = ?;\n"); !strings.Contains(text, "SELECT 'a-value-of-somebody';\n") {
		t.Errorf("not in full:\n%s", text)
	}

	// What cannot be opened changes nothing.
	writeFile(t, file, "slow_log: {file: "+filepath.Join(dir, "none", "slow.log")+", threshold: 1h}\nrewrite: {max_parked: 3}\n")
	s.signal(syscall.SIGHUP)
	s.await("settings not reloaded: the old ones stay in force")
	if got := s.configuration().setting("rewrite.max_parked"); got.Value != 64.0 {
		t.Errorf("half of it was put into force: %+v", got)
	}
	c.query("DO 1, 2")
	holds(t, log, "DO 1, 2;\n")
	if _, metrics := s.get("/metrics"); !strings.Contains(metrics, "\ntmpproxy_slow_statements_total 5\n") || !strings.Contains(metrics, `tmpproxy_slow_log_dropped_total{reason="queue"} 0`) {
		t.Error("metrics do not say so")
	}

	writeFile(t, file, "rewrite: {max_parked: 3}\n")
	s.signal(syscall.SIGHUP)
	s.await("settings reloaded")
	c.query("DO 1, 2, 3")
	s.signal(syscall.SIGTERM)
	s.exit()
	if text := holds(t, log, "DO 1, 2;\n"); strings.Contains(text, "DO 1, 2, 3") {
		t.Errorf("it is written still:\n%s", text)
	}
}

// TestServeSpans has a collector of spans, and takes it away by a reload.
func TestServeSpans(t *testing.T) {
	bodies := make(chan string, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies <- string(body)
	}))
	defer collector.Close()
	file := filepath.Join(t.TempDir(), "proxy.yaml")
	writeFile(t, file, "tracing: {endpoint: '"+collector.URL+"/v1/traces', threshold: 1h, share: 100}\n")
	s := serve(t, nil, "--config", file, "--backend.address="+startBackend(t).address())
	c := connect(t, "tcp", s.listen[0])
	c.query("SELECT 'a-value-of-somebody' FROM account")
	select {
	case body := <-bodies:
		if !strings.Contains(body, "SELECT ? FROM account") || !strings.Contains(body, "127.0.0.1") || strings.Contains(body, "a-value-of-somebody") {
			t.Errorf("sent: %q", body)
		}
	case <-time.After(patience):
		t.Fatal("nothing is sent")
	}
	c.query("DO 2")
	writeFile(t, file, "log: {level: info}\n") // sends what waits
	s.signal(syscall.SIGHUP)
	s.await("settings reloaded")
	if body := <-bodies; !strings.Contains(body, "DO ?") {
		t.Errorf("sent: %q", body)
	}
	c.query("DO 3")
	if _, metrics := s.get("/metrics"); !strings.Contains(metrics, "\ntmpproxy_spans_total 2\n") {
		t.Error("not counted")
	}
	s.signal(syscall.SIGTERM)
	s.exit()
	if n := len(bodies); n > 0 {
		t.Errorf("%d more batches were sent", n)
	}
}

// TestServeSpanHeaders has a collector that takes nobody without a token, which changes.
func TestServeSpanHeaders(t *testing.T) {
	tokens := make(chan string, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens <- r.Header.Get("Authorization")
		if r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer collector.Close()
	headers := filepath.Join(t.TempDir(), "headers")
	writeToken(t, headers, "Authorization: Bearer first-s3cr3t")
	s := serve(t, nil, "--backend.address="+startBackend(t).address(), "--tracing.endpoint="+collector.URL+"/v1/traces", "--tracing.share=100",
		"--tracing.headers_file="+headers, "--reload.watch=5ms")
	c := connect(t, "tcp", s.listen[0])
	got := func(want string) {
		t.Helper()
		c.query("DO 1")
		for timeout := time.After(patience); ; {
			select {
			case token := <-tokens:
				if token == want {
					return
				}
			case <-timeout:
				t.Fatalf("nothing is sent with %q", want)
			}
		}
	}
	got("Bearer first-s3cr3t")

	writeToken(t, headers, "Authorization Bearer second-s3cr3t")
	if line := s.await("settings not reloaded: the old ones stay in force"); strings.Contains(fmt.Sprint(line), "s3cr3t") {
		t.Errorf("the log shows it: %v", line)
	}
	if _, page := s.get("/api/config"); strings.Contains(page, "s3cr3t") || !strings.Contains(page, headers) {
		t.Errorf("the page: %s", page)
	}
	got("Bearer first-s3cr3t")
	writeToken(t, headers, "Authorization: Bearer third-s3cr3t")
	s.await("settings reloaded")
	got("Bearer third-s3cr3t")
	if _, metrics := s.get("/metrics"); !strings.Contains(metrics, `tmpproxy_spans_dropped_total{reason="send"} 0`) {
		t.Error("spans were refused")
	}
}
