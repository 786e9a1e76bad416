package proxy

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// servers are listeners of a test that stand for backends.
type servers struct {
	*rig
	addresses []string
	listeners []net.Listener
	closed    []atomic.Bool
}

// newServers starts a server with n backends whose sessions are what o says. Checks come often.
func newServers(t *testing.T, n int, o rigOptions) *servers {
	t.Helper()
	s := &servers{}
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.listeners = append(s.listeners, l)
		s.addresses = append(s.addresses, l.Addr().String())
	}
	change := o.change
	o.backend = s.addresses[0]
	o.change = func(options *Options) {
		options.Backends = s.addresses
		options.Check = Check{Interval: 5 * time.Millisecond, Timeout: patience, Fall: 2, Rise: 3}
		if change != nil {
			change(options)
		}
	}
	server := o.server
	o.server = func(p *Server) {
		// On a busy machine a knock may turn out a connection, which a test would take for a client's.
		p.knock = func(_ context.Context, address string) error {
			if i := slices.Index(s.addresses, address); s.closed[i].Load() {
				return syscall.ECONNREFUSED
			}
			return nil
		}
		if server != nil {
			server(p)
		}
	}
	s.closed = make([]atomic.Bool, n)
	s.rig = newRig(t, o)
	t.Cleanup(func() {
		for _, l := range s.listeners {
			l.Close()
		}
	})
	return s
}

// accept is the next connection to a backend.
func (s *servers) accept(i int) *end {
	s.Helper()
	s.listeners[i].(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	return s.end(s.listeners[i].Accept())
}

// shutDown has a backend listen no more.
func (s *servers) shutDown(i int) {
	s.listeners[i].Close()
	s.closed[i].Store(true)
}

// reopen has a backend listen again.
func (s *servers) reopen(i int) {
	s.Helper()
	l, err := net.Listen("tcp", s.addresses[i])
	if err != nil {
		s.Fatal(err)
	}
	s.listeners[i] = l
	s.closed[i].Store(false)
}

// serves expects that a new client gets this backend.
func (s *servers) serves(i int, client *end) *end {
	s.Helper()
	b := s.accept(i)
	b.send(greetingPacket("of a server"))
	client.expect(greetingPacket("of a server"))
	return b
}

func (s *servers) metric(name string) (values []float64) {
	s.Helper()
	for _, b := range s.server.backends.list {
		switch name {
		case "up":
			values = append(values, 1)
			if s.server.backends.isDown(b) {
				values[len(values)-1] = 0
			}
		case "sessions":
			values = append(values, float64(b.sessions.Load()))
		}
	}
	return values
}

func TestFailover(t *testing.T) {
	eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
		core, logs := observer.New(zap.InfoLevel)
		o.log, o.script = zap.New(core), polite
		s := newServers(t, 3, o)
		old := s.client()
		itsBackend := s.serves(0, old)
		old.send("login")
		itsBackend.expect("login")

		// The client's own connect finds the first gone and goes on to the second.
		s.shutDown(0)
		second := s.client()
		other := s.serves(1, second)
		s.eventually("the first is down", func() bool { return fmt.Sprint(s.metric("up")) == "[0 1 1]" })
		old.send("still here")
		itsBackend.expect("still here")
		if got := fmt.Sprint(s.metric("sessions")); got != "[1 1 0]" {
			t.Errorf("sessions %s", got)
		}

		// A server that ends connections before it greets is passed over as well.
		third := s.client()
		s.accept(1).Close()
		last := s.serves(2, third)

		// The first is back only when it has greeted three times in a row.
		s.reopen(0)
		for range 3 {
			if got := fmt.Sprint(s.metric("up")); got[1] != '0' {
				t.Errorf("up %s before it has greeted", got)
			}
			b := s.accept(0)
			b.send(greetingPacket("back"))
			defer b.Close()
		}
		s.eventually("the first is up", func() bool { return s.metric("up")[0] == 1 })
		again := s.client()
		again.expect(greetingPacket("back")) // a connection of the checks serves the client
		for _, e := range []*end{old, itsBackend, second, other, third, last, again} {
			e.Close()
		}
		s.empty()
		if got := fmt.Sprint(s.metric("sessions")); got != "[0 0 0]" {
			t.Errorf("sessions %s", got)
		}
		s.stop()
		for _, message := range []string{"backend is down", "backend is up"} {
			if n := logs.FilterMessage(message).Len(); n != 1 {
				t.Errorf("%d records of %q: %v", n, message, logs.All())
			}
		}
		if n := s.server.Counts().DialFailures.Load(); n != 0 {
			t.Errorf("%d clients were refused", n)
		}
	})
}

func TestNoBackendIsUp(t *testing.T) {
	eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
		o.change = func(options *Options) { options.Check.Rise = math.MaxInt } // what is down stays down
		s := newServers(t, 2, o)
		s.shutDown(0)
		s.shutDown(1)
		s.eventually("both are down", func() bool { return fmt.Sprint(s.metric("up")) == "[0 0]" })
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.server.Ready(ctx); err == nil || !strings.Contains(err.Error(), s.addresses[1]+" is down") {
			t.Errorf("ready: %v", err)
		}
		client := s.client()
		message := fmt.Sprintf("Can't connect to MySQL server on '%s' (connection refused)", s.addresses[1])
		client.expectEnd(fmt.Sprintf("%c\x00\x00\x00\xff\xd3\x07%s", 3+len(message), message))
		client.Close()
		if n := s.server.Counts().DialFailures.Load(); n != 1 {
			t.Errorf("%d clients were refused", n)
		}
		s.eventually("the refused client is gone", func() bool { return fmt.Sprint(s.metric("sessions")) == "[0 0]" })
		// Down is no reason not to try when there is nothing else.
		s.reopen(1)
		var greets sync.WaitGroup
		greets.Go(func() { // the checks as well: which connection is whose cannot be told
			for {
				conn, err := s.listeners[1].Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				io.WriteString(conn, greetingPacket("of a server"))
			}
		})
		defer greets.Wait()
		defer s.listeners[1].Close()
		client = s.client()
		client.expect(greetingPacket("of a server"))
		if up, sessions := fmt.Sprint(s.metric("up")), fmt.Sprint(s.metric("sessions")); up != "[0 0]" || sessions != "[0 1]" {
			t.Errorf("up %s, sessions %s", up, sessions)
		}
		client.Close()
	})
}

func TestChecksLeaveNoTrace(t *testing.T) {
	var knocks atomic.Int64
	s := newServers(t, 2, rigOptions{driver: "pump", server: func(p *Server) {
		p.knock = func(ctx context.Context, address string) error {
			defer knocks.Add(1)
			return knock(ctx, address)
		}
	}})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.eventually("both were checked", func() bool { return s.server.Ready(ctx) == nil && knocks.Load() >= 40 })
	connections := 0
	for _, l := range s.listeners {
		l.(*net.TCPListener).SetDeadline(time.Now().Add(50 * time.Millisecond))
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			conn.Close()
			connections++
		}
	}
	// The last packet of the handshake is held back for 40 ms; a busy machine may take longer to send the other.
	if n := knocks.Load(); int64(connections) > n/4 {
		t.Errorf("%d of %d checks were connections", connections, n)
	}
}

func TestSetBackends(t *testing.T) {
	eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
		o.script = polite
		s := newServers(t, 2, o)
		old := s.client()
		itsBackend := s.serves(0, old)
		old.send("login")
		itsBackend.expect("login")
		early := s.client()
		left := s.serves(0, early)
		early.Close() // its connection is kept
		s.eventually("a connection is kept", func() bool { return s.spares() == 1 })

		s.server.SetBackends(s.addresses[1:])
		left.expectGone()
		left.Close()
		next := s.client()
		other := s.serves(1, next)
		old.send("still here")
		itsBackend.expect("still here")
		registry := prometheus.NewRegistry()
		registry.MustRegister(newBackendMetrics(&s.server.backends))
		families, err := registry.Gather()
		if err != nil || len(families) != 3 {
			t.Fatalf("%d families: %v", len(families), err)
		}
		for _, f := range families {
			if len(f.Metric) != 1 || f.Metric[0].Label[0].GetValue() != s.addresses[1] {
				t.Errorf("metrics of backends that are not on the list: %v", f)
			}
		}
		s.server.SetBackends(s.addresses)
		third := s.client()
		its := s.serves(0, third)
		for _, e := range []*end{old, itsBackend, next, other, third, its} {
			e.Close()
		}
		s.empty()
	})
}
