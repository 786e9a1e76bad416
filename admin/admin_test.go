package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type row struct {
	ID int `json:"id"`
}

// options are complete and ready.
func options() Options {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "tmpproxy_things_total", Help: "Things."})
	registry.MustRegister(counter)
	counter.Add(3)
	return Options{
		Network: "tcp", Address: "127.0.0.1:0",
		Metrics: registry,
		Alive:   func(context.Context) error { return nil },
		Ready:   func(context.Context) error { return nil },
		Pages: map[string]func() any{
			"/api/sessions": func() any { return []row{{1}, {2}} },
			"/api/broken":   func() any { return func() {} },
		},
	}
}

// start runs a server until the test ends.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	s := New(zaptest.NewLogger(t), o)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestPages(t *testing.T) {
	s := start(t, options())
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for _, test := range []struct {
		path   string
		status int
		kind   string
		body   string
	}{
		{"/metrics", 200, "text/plain", "tmpproxy_things_total 3\n"},
		{"/healthz", 200, "text/plain", "ok\n"},
		{"/readyz", 200, "text/plain", "ok\n"},
		{"/api/sessions", 200, "application/json", `"id": 2`},
		{"/api/broken", 500, "text/plain", "could not be encoded"},
		{"/api/none", 404, "text/plain", ""},
		{"/debug/pprof/", 404, "text/plain", ""},
		{"/debug/pprof/profile?seconds=1", 404, "text/plain", ""},
	} {
		t.Run(test.path, func(t *testing.T) {
			response, err := client.Get("http://" + s.Addr().String() + test.path)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != test.status || !strings.HasPrefix(response.Header.Get("Content-Type"), test.kind) || !strings.Contains(string(body), test.body) {
				t.Errorf("%d %s\n%s", response.StatusCode, response.Header.Get("Content-Type"), body)
			}
			if response.Header.Get("Cache-Control") != "no-store" || response.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("headers %v", response.Header)
			}
		})
	}
}

func get(s *Server, method, path, host string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	ctx := context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 9104})
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r.WithContext(ctx))
	return w
}

func TestMethods(t *testing.T) {
	s := New(zaptest.NewLogger(t), options())
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "STRANGE"} {
		for _, path := range []string{"/metrics", "/api/sessions", "/none"} {
			w := get(s, method, path, "localhost")
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
	if w := get(s, "HEAD", "/healthz", "localhost"); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
}

func TestHost(t *testing.T) {
	for _, test := range []struct {
		network, address string
		hosts            []string
		host             string
		ok               bool
	}{
		{"tcp", "127.0.0.1:9104", nil, "127.0.0.1:9104", true},
		{"tcp", "127.0.0.1:9104", nil, "localhost:9104", true},
		{"tcp", "127.0.0.1:9104", nil, "LocalHost", true},
		{"tcp", "127.0.0.1:9104", nil, "localhost.:9104", true},
		{"tcp", "127.0.0.1:9104", nil, "[::1]:9104", true},
		{"tcp", "127.0.0.1:9104", nil, "[::1]", true},
		{"tcp", "127.0.0.1:9104", nil, "evil.example:9104", false},
		{"tcp", "127.0.0.1:9104", nil, "127.0.0.1.evil.example", false},
		{"tcp", "127.0.0.1:9104", nil, "localhost.evil.example", false},
		{"tcp", "127.0.0.1:9104", nil, "", false},
		{"tcp", ":9104", nil, "", false},
		{"tcp", ":9104", nil, "10.1.2.3:9104", true}, // where the connection came to
		{"tcp", ":9104", nil, "10.1.2.4:9104", false},
		{"tcp", "proxy.example:9104", nil, "proxy.example:9104", true},
		{"tcp", "proxy.example:9104", nil, "other.example:9104", false},
		{"tcp", ":9104", []string{"metrics.example", "10.9.9.9"}, "Metrics.Example:80", true},
		{"tcp", ":9104", []string{"metrics.example", "10.9.9.9"}, "10.9.9.9:9104", true},
		{"tcp", ":9104", []string{"fd00::1"}, "[fd00::1]:9104", true},
		{"tcp", ":9104", []string{"metrics.example"}, "x.metrics.example", false},
		{"unix", "/run/x.sock", nil, "anything", true},
	} {
		t.Run(test.address+" "+test.host, func(t *testing.T) {
			o := options()
			o.Network, o.Address, o.Hosts = test.network, test.address, test.hosts
			w := get(New(zaptest.NewLogger(t), o), "GET", "/api/sessions", test.host)
			want := http.StatusOK
			if !test.ok {
				want = http.StatusMisdirectedRequest
			}
			if w.Code != want {
				t.Errorf("got %d, want %d", w.Code, want)
			}
			if !test.ok && strings.Contains(w.Body.String(), "id") {
				t.Errorf("a refused request got an answer: %s", w.Body)
			}
		})
	}
}

func TestPProf(t *testing.T) {
	o := options()
	o.PProf = true
	s := New(zaptest.NewLogger(t), o)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=1", "/debug/pprof/symbol"} {
		if w := get(s, "GET", path, "localhost"); w.Code != 200 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestReadiness(t *testing.T) {
	clock := time.Unix(1000, 0)
	looks := 0
	var answer error
	r := readiness{now: func() time.Time { return clock }, look: func(ctx context.Context) error {
		looks++
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a look without end")
		}
		return answer
	}}
	expect := func(what string, want error, wantLooks int) {
		t.Helper()
		if err := r.check(); err != want || looks != wantLooks {
			t.Errorf("%s: got %v after %d looks, want %v after %d", what, err, looks, want, wantLooks)
		}
	}
	expect("first", nil, 1)
	clock = clock.Add(readyAge - 1)
	answer = errors.New("backend is down")
	expect("within a second", nil, 1)
	clock = clock.Add(1)
	expect("later", answer, 2)
	expect("the failure too is remembered", answer, 2)
	failure := answer
	answer = nil
	clock = clock.Add(readyAge / 2)
	expect("still", failure, 2)
	clock = clock.Add(readyAge / 2)
	expect("up again", nil, 3)
}

func TestReadinessTogether(t *testing.T) {
	var looks atomic.Int32
	gate := make(chan struct{})
	o := options()
	o.Ready = func(context.Context) error { looks.Add(1); <-gate; return errors.New("backend is down") }
	s := New(zaptest.NewLogger(t), o)
	var probes sync.WaitGroup
	for range 20 {
		probes.Go(func() {
			w := get(s, "GET", "/readyz", "localhost")
			if w.Code != http.StatusServiceUnavailable || w.Body.String() != "backend is down\n" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	close(gate)
	probes.Wait()
	if n := looks.Load(); n != 1 {
		t.Errorf("20 probes looked at the backend %d times", n)
	}
	if w := get(s, "GET", "/healthz", "localhost"); w.Code != 200 {
		t.Errorf("alive although the backend is down: %d", w.Code)
	}
}

func TestJSON(t *testing.T) {
	s := New(zaptest.NewLogger(t), options())
	var got []row
	if err := json.Unmarshal(get(s, "GET", "/api/sessions", "localhost").Body.Bytes(), &got); err != nil || len(got) != 2 || got[1].ID != 2 {
		t.Errorf("%v %v", got, err)
	}
}

func TestUnixSocket(t *testing.T) {
	o := options()
	o.Network, o.Address = "unix", filepath.Join(t.TempDir(), "admin.sock")

	// What a process that was killed leaves behind.
	left, err := net.Listen("unix", o.Address)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close()

	s := start(t, o)
	conn, err := net.Dial("unix", o.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: whatever\r\nConnection: close\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("%v %v", response, err)
	}

	// One that is in use is not taken away.
	if err := New(zaptest.NewLogger(t), o).Listen(); err == nil {
		t.Error("two servers listen at one socket")
	}
	again, err := net.Dial("unix", s.Addr().String())
	if err != nil {
		t.Fatalf("the first server's socket is gone: %v", err)
	}
	again.Close()
}

func TestAddressInUse(t *testing.T) {
	s := start(t, options())
	o := options()
	o.Address = s.Addr().String()
	if err := New(zaptest.NewLogger(t), o).Listen(); err == nil || !strings.HasPrefix(err.Error(), "admin: listen tcp") {
		t.Errorf("got %v", err)
	}
}

func TestSlowRequest(t *testing.T) {
	s := New(zaptest.NewLogger(t), options())
	if s.http.ReadHeaderTimeout <= 0 || s.http.ReadTimeout <= 0 || s.http.WriteTimeout <= 0 || s.http.IdleTimeout <= 0 || s.http.MaxHeaderBytes <= 0 {
		t.Errorf("a request without bounds: %+v", &s.http)
	}
}

// TestHealth has a proxy that hangs say so to who asks whether it lives, and to nobody else.
func TestHealth(t *testing.T) {
	o := options()
	o.Alive = func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the look may take for ever")
		}
		return errors.New("a loop does not turn")
	}
	s := New(zaptest.NewLogger(t), o)
	if w := get(s, "GET", "/healthz", "localhost"); w.Code != 503 || !strings.Contains(w.Body.String(), "a loop does not turn") {
		t.Errorf("healthz: %d %s", w.Code, w.Body)
	}
	if w := get(s, "GET", "/readyz", "localhost"); w.Code != 200 {
		t.Errorf("readyz: %d %s", w.Code, w.Body)
	}
}
