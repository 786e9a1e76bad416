package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"tmpproxy/wire"
)

// greetingPacket is a server's, as far as anybody here looks.
func greetingPacket(message string) string {
	p := "\n9.7.4\x00" + message + strings.Repeat("\x00", 80)
	b := make([]byte, wire.HeaderSize)
	wire.PutHeader(b, len(p), 0)
	return string(b) + p
}

// polite is a conversation that relays and lets its backend connection go on while the client has not spoken.
func polite() *script {
	s := &script{greeted: true, greeting: []byte{}}
	s.on = func(s *script, in input, from side, b []byte, out *output) bool {
		switch {
		case in == inputStart, in == inputReceived && from == backendSide:
			s.greeting = append(s.greeting, b...)
		case in == inputReceived:
			s.greeted, s.greeting = false, nil
		case in == inputEnded && from == clientSide && s.greeted:
			out.end = true
			return true
		}
		return false
	}
	return s
}

func TestSpareServesTheNextClient(t *testing.T) {
	greeting := greetingPacket("of the first")
	leave := map[string]func(r *rig, client, backend *end){
		"before the greeting": func(r *rig, client, backend *end) {
			client.Close()
			r.empty()
			backend.send(greeting)
		},
		"in the middle of it": func(r *rig, client, backend *end) {
			backend.send(greeting[:10])
			client.expect(greeting[:10])
			client.Close()
			r.empty()
			backend.send(greeting[10:])
		},
		"after it": func(r *rig, client, backend *end) {
			backend.send(greeting)
			client.expect(greeting)
			client.Close()
			r.empty()
		},
	}
	for name, leave := range leave {
		t.Run(name, func(t *testing.T) {
			eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
				o.script = polite
				o.server = func(s *Server) { s.backends.first().spares.age = patience }
				r := newRig(t, o)
				client, backend := r.session()
				leave(r, client, backend)
				for range 3 { // clients come and go, the connection stays
					r.eventually("there is a spare", func() bool { return r.spares() == 1 })
					client = r.client()
					client.expect(greeting)
					client.Close()
					r.empty()
				}
				r.eventually("there is a spare", func() bool { return r.spares() == 1 })
				client = r.client()
				client.expect(greeting)
				client.send("login")
				backend.expect("login")
				backend.send("ok")
				client.expect("ok")
				client.Close()
				backend.expectEnd("")
				backend.Close()
				r.empty()
				if r.spares() != 0 || r.server.backends.first().spares.used.Load() != 4 {
					t.Errorf("%d spares, %d used", r.spares(), r.server.backends.first().spares.used.Load())
				}
			})
		})
	}
}

// spares is how many spares are ready.
func (r *rig) spares() (n int) {
	p := &r.server.backends.first().spares
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.list {
		if s.ready {
			n++
		}
	}
	return n
}

func TestSpareOfASilentClient(t *testing.T) {
	eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
		o.script = polite
		o.change = func(o *Options) { o.HandshakeTimeout = 20 * time.Millisecond }
		o.server = func(s *Server) { s.backends.first().spares.age = patience }
		r := newRig(t, o)
		silent, backend := r.session()
		backend.send(greetingPacket(""))
		silent.expectEnd(greetingPacket(""))
		silent.Close()
		r.eventually("there is a spare", func() bool { return r.spares() == 1 })
		backend.Close()
		r.eventually("the server has given it up", func() bool { return r.spares() == 0 })
		client, next := r.session() // a new connection
		client.send("login")
		next.expect("login")
		client.Close()
		next.expectEnd("")
		next.Close()
		r.empty()
	})
}

func TestSparesTakeTheirLeave(t *testing.T) {
	tests := []struct {
		name string
		set  func(*Server)
		end  func(r *rig)
	}{
		{"when their time is over", func(s *Server) { s.backends.first().spares.age = 100 * time.Millisecond }, func(*rig) {}},
		{"when there are enough", func(s *Server) { s.backends.first().spares.max = 0 }, func(*rig) {}},
		{"at the server's end", func(s *Server) { s.backends.first().spares.age = patience }, func(r *rig) {
			r.eventually("there is a spare", func() bool { return r.spares() == 1 })
			r.stopLater(r.TB.(*testing.T))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
				o.script = polite
				o.server = test.set
				r := newRig(t, o)
				client, backend := r.session()
				backend.send(greetingPacket(""))
				client.expect(greetingPacket(""))
				client.Close()
				test.end(r)
				// A server counts a mere close against the address. It gets a login that it refuses instead.
				b, err := readPacket(backend, nil)
				if err != nil {
					t.Fatal(err)
				}
				l, err := wire.ParseLogin(b[wire.HeaderSize:], ^wire.Capability(0))
				if err != nil || b[3] != 1 || l.SSLRequest || l.Old {
					t.Fatalf("login %q: %+v, %v", b, l, err)
				}
				backend.send("\x01\x00\x00\x02\xfe") // another plugin is asked for
				backend.expect("\x00\x00\x00\x03")
				backend.send("\x03\x00\x00\x04\xff\x15\x04")
				backend.expectEnd("")
				r.empty()
			})
		})
	}
}

func TestReady(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		o.server = func(s *Server) { s.backends.first().spares.age = patience }
		r := newRig(t, o)
		ready := func() <-chan error {
			c := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				c <- r.server.Ready(ctx)
			}()
			return c
		}
		// A server that is too busy greets with an error.
		answer := ready()
		busy := r.served()
		busy.send(tooMany)
		var code *wire.Err
		if err := <-answer; !errors.As(err, &code) || code.Code != 1040 {
			t.Errorf("a busy server: %v", err)
		}
		busy.expectEnd("")
		busy.Close()
		// One that says nothing sensible is not ready.
		answer = ready()
		odd := r.served()
		odd.send("HTTP/1.1 400 Bad Request\r\n")
		odd.Close()
		if err := <-answer; err == nil {
			t.Error("a web server was ready")
		}
		// One that greets is, and its connection is not wasted.
		answer = ready()
		backend := r.served()
		backend.send(greetingPacket(""))
		if err := <-answer; err != nil {
			t.Errorf("a good server: %v", err)
		}
		accepted := r.accepted.Load()
		for range 200 { // asked again and again, it is not bothered
			if err := <-ready(); err != nil {
				t.Fatal(err)
			}
		}
		r.eventually("there is a spare", func() bool { return r.spares() == 1 })
		client := r.client()
		client.expect(greetingPacket(""))
		client.send("login")
		backend.expect("login")
		if n := r.accepted.Load(); n != accepted {
			t.Errorf("%d connections more", n-accepted)
		}
		client.Close()
		backend.expectEnd("")
		backend.Close()
		r.empty()
		// A failure since makes it ask.
		address := r.backend.Addr()
		r.backend.Close()
		lost := r.client()
		if _, err := io.ReadAll(lost); err != nil {
			t.Error(err)
		}
		if err := <-ready(); err == nil {
			t.Error("a server that is gone was ready")
		}
		var err error
		if r.backend, err = net.Listen(address.Network(), address.String()); err != nil {
			t.Fatal(err)
		}
		defer r.backend.Close()
		answer = ready()
		backend = r.served()
		backend.send(greetingPacket(""))
		if err := <-answer; err != nil {
			t.Errorf("a server that is back: %v", err)
		}
		// The caller's patience counts.
		r.server.backends.first().lastFailure.Store(monotonic())
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if err := r.server.Ready(ctx); err == nil {
			t.Error("a silent server was ready")
		}
		r.served().Close()
		go backend.Close()
	})
}
