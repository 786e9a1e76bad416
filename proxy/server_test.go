package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// tooMany is what a server sends in place of its greeting (observed on MariaDB 10.11; MySQL sends the same).
const tooMany = "\x17\x00\x00\x00\xff\x10\x04Too many connections"

func TestMaxSessions(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		o.change = func(o *Options) { o.MaxSessions = 2 }
		core, logs := observer.New(zap.WarnLevel)
		o.log = zap.New(core)
		r := newRig(t, o)
		first, itsBackend := r.session()
		second, other := r.session()
		for range 3 {
			refused := r.client()
			refused.expectEnd(tooMany)
			refused.Close()
		}
		if n := r.server.Counts().RefusedSessions.Load(); n != 3 {
			t.Errorf("%d refusals were counted", n)
		}
		first.Close()
		itsBackend.expectEnd("")
		itsBackend.Close()
		r.eventually("there is room", func() bool { return r.server.active.Load() == 1 })
		third, its := r.session() // the backend was not dialled for those refused
		third.send("ping")
		its.expect("ping")
		third.Close()
		second.Close()
		for _, b := range []*end{other, its} {
			b.expectEnd("")
			b.Close()
		}
		r.empty()
		r.stop()
		if all := logs.FilterMessage("client refused").All(); len(all) == 0 || all[0].ContextMap()["limit"] != "max_sessions" {
			t.Errorf("log records: %v", all)
		}
	})
}

func TestMaxHostSessions(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		o.change = func(o *Options) {
			o.MaxHostSessions = 2
			o.ProxyNetworks, o.ProxyUnix = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, true
		}
		r := newRig(t, o)
		from := func(host string) (client, backend *end) {
			client = r.client()
			client.send("PROXY TCP4 " + host + " 10.0.0.1 12345 3306\r\n")
			return client, r.served()
		}
		first, itsBackend := from("10.1.2.3")
		second, other := from("10.1.2.3")
		refused := r.client()
		refused.send("PROXY TCP4 10.1.2.3 10.0.0.1 12345 3306\r\n")
		const message = "Too many connections: tmpproxy takes 2 of one host (limits.max_host_sessions)"
		refused.expectEnd(fmt.Sprintf("%c\x00\x00\x00\xff\x10\x04%s", 3+len(message), message))
		refused.Close()
		third, its := from("10.1.2.4")
		first.Close()
		itsBackend.expectEnd("")
		itsBackend.Close()
		r.eventually("there is room", func() bool { return r.server.active.Load() == 2 })
		fourth, last := from("10.1.2.3")
		for _, e := range []*end{second, third, fourth} {
			e.Close()
		}
		for _, e := range []*end{other, its, last} {
			e.expectEnd("")
			e.Close()
		}
		r.empty()
		if n := r.server.Counts().RefusedHosts.Load(); n != 1 || len(r.server.hosts.counts) != 0 {
			t.Errorf("%d refusals were counted, %v", n, r.server.hosts.counts)
		}
	})
}

func TestMaxSessionsIsWhatDescriptorsAllow(t *testing.T) {
	limit, err := descriptorLimit()
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(zap.NewNop(), Options{Listen: []string{"127.0.0.1:0"}, Backends: []string{"127.0.0.1:1"}, Limits: Limits{MaxSessions: limit}})
	if err != nil {
		t.Fatal(err)
	}
	if s.limits().MaxSessions >= limit/2 || s.limits().MaxSessions < limit/2-reserved {
		t.Errorf("%d sessions with %d descriptors", s.limits().MaxSessions, limit)
	}
}

func TestMaxHandshakes(t *testing.T) {
	eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
		o.change = func(o *Options) { o.MaxHandshakes = 2 }
		o.script = func() *script {
			return &script{greeted: true, on: func(s *script, in input, from side, b []byte, out *output) bool {
				if in == inputReceived && from == clientSide {
					s.greeted = false // logged in
				}
				return false
			}}
		}
		r := newRig(t, o)
		first, itsBackend := r.session()
		second, other := r.session()
		refused := r.client()
		const message = "Too many connections: 2 clients of tmpproxy are logging in already (limits.max_handshakes)"
		refused.expectEnd(fmt.Sprintf("%c\x00\x00\x00\xff\x10\x04%s", 3+len(message), message))
		if n := r.server.Counts().RefusedHandshakes.Load(); n != 1 {
			t.Errorf("%d refusals were counted", n)
		}
		first.send("login")
		itsBackend.expect("login")
		third, its := r.session()
		third.Close() // before its login: there is room again
		its.expectEnd("")
		its.Close()
		r.eventually("there is room", func() bool { return r.server.handshakes.Load() == 1 })
		fourth, last := r.session()
		for _, e := range []*end{refused, first, second, third, fourth} {
			e.Close()
		}
		for _, e := range []*end{itsBackend, other, last} {
			e.expectGone()
			e.Close()
		}
		r.empty()
		if n := r.server.handshakes.Load(); n != 0 {
			t.Errorf("%d handshakes are left", n)
		}
	})
}

func TestHandshakeTimeout(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		o.change = func(o *Options) { o.HandshakeTimeout = 50 * time.Millisecond }
		o.script = func() *script {
			return &script{greeted: true, on: func(s *script, in input, from side, b []byte, out *output) bool {
				s.greeted = s.greeted && in != inputReceived
				return false
			}}
		}
		r := newRig(t, o)
		var silent, backends []*end
		quick, its := r.session()
		quick.send("login")
		its.expect("login")
		for range 3 {
			client, backend := r.session()
			silent = append(silent, client)
			backends = append(backends, backend)
		}
		for i, client := range silent {
			client.expectEnd("")
			client.Close()
			backends[i].expectEnd("")
			backends[i].Close()
		}
		if n := r.server.Counts().HandshakeTimeouts.Load(); n != 3 {
			t.Errorf("%d timeouts were counted", n)
		}
		quick.send("still there")
		its.expect("still there")
		quick.Close()
		its.expectEnd("")
		its.Close()
		r.empty()
	})
}

func TestBackendNotReached(t *testing.T) {
	nobody := func() string { // an address that refuses
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}()
	tests := []struct {
		name, backend, reason string
	}{
		{"refused", nobody, "connection refused"},
		{"no such socket", "/nowhere/mysqld.sock", "no such file or directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
				o.backend = test.backend
				core, logs := observer.New(zap.WarnLevel)
				o.log = zap.New(core)
				r := newRig(t, o)
				message := fmt.Sprintf("Can't connect to MySQL server on '%s' (%s)", test.backend, test.reason)
				for range 3 {
					client := r.client()
					client.send("a login that is sent blindly") // must not cost the client its answer
					client.expectEnd(fmt.Sprintf("%c\x00\x00\x00\xff\xd3\x07%s", 3+len(message), message))
					client.Close()
				}
				r.empty()
				r.stop()
				if n := r.server.Counts().DialFailures.Load(); n != 3 {
					t.Errorf("%d failures were counted", n)
				}
				entries := logs.FilterMessage("backend not reached").All()
				if len(entries) != 3 {
					t.Fatalf("%d log records: %v", len(entries), logs.All())
				}
				if f := entries[0].ContextMap(); f["backend"] != test.backend || f["client"] == "" || !strings.Contains(fmt.Sprint(f["error"]), test.reason) {
					t.Errorf("log record: %v", f)
				}
			})
		})
	}
}

func TestReasonOfAFailedDial(t *testing.T) {
	s := &Server{options: Options{ConnectTimeout: 3 * time.Second}}
	tests := []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, "no route to host"},
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, "no answer within 3s"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "db", IsNotFound: true}}, "lookup db: no such host"},
		{&net.OpError{Op: "dial", Err: context.Canceled}, "tmpproxy is shutting down"},
		{errors.New("something else"), "something else"},
	}
	for _, test := range tests {
		if got := s.reason(test.err); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

func TestDrain(t *testing.T) {
	busy := func() *script { // a transaction: ends only when the client says so
		return &script{on: func(s *script, in input, from side, b []byte, out *output) bool {
			switch {
			case in == inputDrain:
				out.to(clientSide, []byte("asked"))
				return true
			case in == inputReceived && string(b) == "commit":
				out.to(clientSide, []byte("bye"))
				out.end = true
				return true
			}
			return false
		}}
	}
	t.Run("sessions end in their own time", func(t *testing.T) {
		eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
			o.script = busy
			r := newRig(t, o)
			address := r.server.Addresses()[0]
			client, backend := r.session()
			client.send("x")
			backend.expect("x")
			stopped := make(chan struct{})
			go func() { r.stop(); close(stopped) }()
			client.expect("asked")
			if conn, err := net.Dial(address.Network(), address.String()); err == nil {
				conn.Close()
				t.Error("a client was let in")
			}
			if _, err := os.Stat(address.String()); o.network == "unix" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket's file: %v", err)
			}
			select {
			case <-stopped:
				t.Error("a session was not waited for")
			default:
			}
			client.send("commit")
			client.expectEnd("bye")
			client.Close()
			backend.expectEnd("")
			<-stopped
		})
	})
	t.Run("newcomers", func(t *testing.T) { // those that were still dialling
		eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
			o.script = busy
			r := newRig(t, o)
			r.settled()
			r.driver().drain()
			client, backend := r.session()
			client.expect("asked")
			client.Close()
			backend.expectEnd("")
			backend.Close()
			r.empty()
		})
	})
	t.Run("grace", func(t *testing.T) {
		eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
			o.script = busy
			o.change = func(o *Options) { o.ShutdownGrace = 50 * time.Millisecond }
			r := newRig(t, o)
			client, backend := r.session()
			client.send("x")
			backend.expect("x")
			stalled, source := r.session()
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				source.Write([]byte(pattern(32 << 20)))
			}()
			r.eventually("a client is stalled", func() bool { return r.queued(clientSide) > 0 })
			r.stop()
			client.expectEnd("asked")
			backend.expectGone()
			<-sent
			stalled.Close()
		})
	})
	t.Run("a stalled client's last bytes", func(t *testing.T) {
		eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
			o.script = func() *script { return &script{} } // ends when it is asked
			r := newRig(t, o)
			stalled, source := r.session()
			data := pattern(16 << 20)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				source.Write([]byte(data))
			}()
			r.eventually("the client is stalled", func() bool { return r.queued(clientSide) > 0 })
			r.stopLater(t)
			stalled.expectPrefixOf(data)
			stalled.Close()
			<-sent
		})
	})
}

// settled waits until Serve has its driver.
func (r *rig) settled() {
	r.eventually("the server serves", func() bool { return r.driver() != nil })
}

// stopLater stops the server while the test goes on.
func (r *rig) stopLater(t *testing.T) {
	done := make(chan struct{})
	go func() { r.stop(); close(done) }()
	t.Cleanup(func() { <-done })
}

// expectPrefixOf reads until the FIN.
func (e *end) expectPrefixOf(s string) {
	e.Helper()
	buf := make([]byte, readSize)
	for at := 0; ; {
		n, err := e.Read(buf)
		if !strings.HasPrefix(s[at:], string(buf[:n])) {
			e.Fatalf("bytes %d to %d are not what was sent", at, at+n)
		}
		if at += n; err != nil {
			if err.Error() != "EOF" || at == 0 {
				e.Fatalf("%v after %d bytes", err, at)
			}
			return
		}
	}
}

func TestOptions(t *testing.T) {
	tests := []struct {
		name string
		o    Options
	}{
		{"no address", Options{Backends: []string{"127.0.0.1:1"}}},
		{"no backend", Options{Listen: []string{"127.0.0.1:0"}}},
		{"no such driver", Options{Listen: []string{"127.0.0.1:0"}, Backends: []string{"127.0.0.1:1"}, Driver: "horse"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := NewServer(zap.NewNop(), test.o); err == nil {
				t.Error("it was accepted")
			}
		})
	}
}

func TestSeveralListeners(t *testing.T) {
	dir := t.TempDir()
	eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
		sockets := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
		o.change = func(o *Options) { o.Listen = append([]string{"127.0.0.1:0", "127.0.0.1:0"}, sockets...) }
		r := newRig(t, o)
		for i, a := range r.server.Addresses() {
			client := r.end(net.Dial(a.Network(), a.String()))
			backend := r.served()
			client.send(fmt.Sprint(i))
			backend.expect(fmt.Sprint(i))
			client.Close()
			backend.expectEnd("")
			backend.Close()
		}
		r.empty()
	})
}

func TestSessionEndIsLogged(t *testing.T) {
	eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
		core, logs := observer.New(zap.DebugLevel)
		o.log = zap.New(core)
		r := newRig(t, o)
		ends := []struct {
			cause string
			end   func(client, backend *end)
		}{
			{"client closed", func(client, backend *end) { client.Close(); backend.expectEnd(""); backend.Close() }},
			{"backend closed", func(client, backend *end) { backend.Close(); client.expectEnd(""); client.Close() }},
			{"client reset", func(client, backend *end) { client.reset(); backend.expectEnd(""); backend.Close() }},
			{"backend reset", func(client, backend *end) { backend.reset(); client.expectEnd(""); client.Close() }},
		}
		for _, e := range ends {
			client, backend := r.session()
			client.send("x")
			backend.expect("x")
			e.end(client, backend)
			r.empty()
		}
		r.stop()
		records := logs.FilterMessage("session ended").All()
		if len(records) != len(ends) {
			t.Fatalf("%d records for %d sessions", len(records), len(ends))
		}
		for i, e := range ends {
			if f := records[i].ContextMap(); f["cause"] != e.cause || f["conn_id"] != uint64(i+1) || f["client"] == "" {
				t.Errorf("%s: %v", e.cause, f)
			}
		}
	})
}
