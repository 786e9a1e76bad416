package proxy

import (
	"context"
	"fmt"
	"net"
	"strings"
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

// reopen has a backend listen again.
func (s *servers) reopen(i int) {
	s.Helper()
	l, err := net.Listen("tcp", s.addresses[i])
	if err != nil {
		s.Fatal(err)
	}
	s.listeners[i] = l
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
		s.listeners[0].Close()
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
		s := newServers(t, 2, o)
		for _, l := range s.listeners {
			l.Close()
		}
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
		// Down is no reason not to try when there is nothing else.
		s.reopen(1)
		client = s.client()
		backend := s.accept(1)
		client.send("x")
		backend.expect("x")
		client.Close()
		backend.Close()
		s.empty()
	})
}

func TestChecksLeaveNoTrace(t *testing.T) {
	s := newServers(t, 2, rigOptions{driver: "pump"})
	s.eventually("both were checked", func() bool {
		for _, b := range s.server.backends.list {
			if b.lastContact.Load() == 0 {
				return false
			}
		}
		return true
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.server.Ready(ctx); err != nil {
		t.Errorf("ready: %v", err)
	}
	for i, l := range s.listeners {
		l.(*net.TCPListener).SetDeadline(time.Now().Add(50 * time.Millisecond))
		if conn, err := l.Accept(); err == nil {
			conn.Close()
			t.Errorf("the check of backend %d was a connection", i)
		}
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
