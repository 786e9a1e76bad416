package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// script is a conversation as a test wants it: a raw relay but for what its fields say.
type script struct {
	// on is called first; when it returns true nothing else is done.
	on          func(s *script, in input, at side, b []byte, out *output) bool
	paused      [2]bool // wants says no
	eager       bool    // wantsBackground
	thinks      bool    // leavesTime
	idle        bool    // idles
	greeted     bool    // handshaking
	greeting    []byte  // spare, if not nil
	panicsOnAsk bool    // wants panics
}

func (s *script) tell(in input, at side, b []byte, now int64, out *output) {
	if s.on != nil && s.on(s, in, at, b, out) {
		return
	}
	switch in {
	case inputStart:
		out.to(clientSide, b)
	case inputReceived:
		out.to(at.other(), b)
	case inputEnded:
		out.shut[backendSide] = at == clientSide
		out.end = at == backendSide
	case inputReadFailed, inputDrain, inputIdle:
		out.end = true
	case inputWriteFailed:
		out.end = at == clientSide
	}
}

func (s *script) wants(from side) bool {
	if s.panicsOnAsk {
		panic("asked")
	}
	return !s.paused[from]
}
func (s *script) wantsBackground() bool      { return s.eager }
func (s *script) leavesTime() bool           { return s.thinks }
func (s *script) idles() bool                { return s.idle }
func (s *script) handshaking() bool          { return s.greeted }
func (s *script) spare() (b []byte, ok bool) { return s.greeting, s.greeting != nil }

// rig is a server between a test's clients and the test's backend.
type rig struct {
	testing.TB
	server   *Server
	backend  net.Listener
	accepted atomic.Int64 // by the backend
	stop     func()       // ends Serve and waits for it
}

type rigOptions struct {
	driver  string
	network string // of both legs: tcp (default) or unix
	change  func(*Options)
	server  func(*Server) // before Serve
	script  func() *script
	log     *zap.Logger
	backend string // if not "", there is no listener
}

// loopOneByOne is the driver "loop" without bundled writes.
const loopOneByOne = "loop one by one"

// newRig starts a server. At the test's end it is stopped, and neither goroutines nor descriptors may be left.
func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	if o.network == "" {
		o.network = "tcp"
	}
	if o.log == nil {
		o.log = zap.NewNop()
	}
	watchLeaks(t)
	r := &rig{TB: t}
	options := Options{Driver: o.driver, Backends: []string{o.backend}, ShutdownGrace: patience, Loops: 1, Bundle: true, ConnectTimeout: patience}
	if o.driver == loopOneByOne {
		options.Driver, options.Bundle = "loop", false
	}
	if o.backend == "" {
		r.backend = r.listen(o.network)
		options.Backends[0] = r.backend.Addr().String()
	}
	if options.Listen = []string{"127.0.0.1:0"}; o.network == "unix" {
		options.Listen = []string{filepath.Join(t.TempDir(), "s")}
	}
	if o.change != nil {
		o.change(&options)
	}
	s, err := NewServer(o.log, options)
	if err != nil {
		t.Fatal(err)
	}
	s.newConversation = func() *conversation {
		c := newRawConversation()
		c.sh = s.shared
		return c
	}
	if o.script != nil {
		s.newDouble = func() double { return o.script() }
	}
	if o.server != nil {
		o.server(s)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	r.server = s
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		case <-time.After(2 * patience):
			t.Error("the server does not end")
		}
	})
	t.Cleanup(r.stop)
	return r
}

// watchLeaks fails the test if it leaves goroutines or descriptors behind.
func watchLeaks(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the runtime's own descriptors
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	before := descriptors(t)
	others := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		goleak.VerifyNone(t, others)
		if after := descriptors(t); after > before { // fewer: what a test before left to the collector is gone
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

func (r *rig) listen(network string) net.Listener {
	r.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(r.TempDir(), "b")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { l.Close() })
	return l
}

// end is one end of a connection in a test, with what both kinds of sockets have.
type end struct {
	testing.TB
	socket
}

type socket interface {
	net.Conn
	CloseRead() error
	CloseWrite() error
	SetReadBuffer(int) error
	SetWriteBuffer(int) error
}

func (r *rig) end(conn net.Conn, err error) *end {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	r.Cleanup(func() { conn.Close() })
	return &end{r, conn.(socket)}
}

// client connects to the server.
func (r *rig) client() *end {
	r.Helper()
	a := r.server.Addresses()[0]
	return r.end(net.Dial(a.Network(), a.String()))
}

// served is the backend's end of the next connection made to it.
func (r *rig) served() *end {
	r.Helper()
	r.backend.(interface{ SetDeadline(time.Time) error }).SetDeadline(time.Now().Add(patience))
	conn, err := r.backend.Accept()
	r.accepted.Add(1)
	return r.end(conn, err)
}

// session connects a client, and returns both ends.
func (r *rig) session() (client, backend *end) {
	r.Helper()
	client = r.client()
	return client, r.served()
}

// send may be called from any goroutine.
func (e *end) send(s string) {
	e.Helper()
	if _, err := io.WriteString(e.socket, s); err != nil {
		e.Errorf("send %.20q: %v", s, err)
	}
}

// expect reads exactly s.
func (e *end) expect(s string) {
	e.Helper()
	b := make([]byte, len(s))
	n, err := io.ReadFull(e.socket, b)
	if err != nil || string(b) != s {
		e.Fatalf("got %.80q, %v; want %.80q", b[:n], err, s)
	}
}

// expectEnd reads the rest, which has to be s, and the FIN.
func (e *end) expectEnd(s string) {
	e.Helper()
	b, err := io.ReadAll(e.socket)
	if err != nil || string(b) != s {
		e.Fatalf("got %.80q (%d bytes), %v; want %.80q (%d bytes) and the end", b, len(b), err, s, len(s))
	}
}

// expectGone reads until the connection is over, be it by a FIN or a reset.
func (e *end) expectGone() {
	e.Helper()
	if _, err := io.Copy(io.Discard, e.socket); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		e.Fatalf("not over: %v", err)
	}
}

func (e *end) shut() {
	e.Helper()
	if err := e.CloseWrite(); err != nil {
		e.Fatal(err)
	}
}

// reset closes with a RST, on TCP.
func (e *end) reset() {
	e.Helper()
	if err := e.socket.(*net.TCPConn).SetLinger(0); err != nil {
		e.Fatal(err)
	}
	e.Close()
}

// eventually waits for a condition.
func (r *rig) eventually(what string, f func() bool) {
	r.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatalf("never: %s", what)
		}
	}
}

// empty waits until the server has no session.
func (r *rig) empty() {
	r.Helper()
	r.eventually("no session is left", func() bool { return r.server.active.Load() == 0 })
	if n := r.server.shared.buffered.Load(); n != 0 {
		r.Errorf("%d bytes are still counted as buffered", n)
	}
}

// eachDriver runs a test with every driver there is, over TCP and unix sockets.
func eachDriver(t *testing.T, networks string, test func(t *testing.T, o rigOptions)) {
	drivers := []string{"pump"}
	if runtime.GOOS == "linux" {
		drivers = append(drivers, "loop", loopOneByOne)
	}
	for _, driver := range drivers {
		for _, network := range strings.Fields(networks) {
			t.Run(driver+"/"+network, func(t *testing.T) { test(t, rigOptions{driver: driver, network: network}) })
		}
	}
}

func pattern(n int) string {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

func TestRelayIsExact(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		r := newRig(t, o)
		var all sync.WaitGroup
		for i := range 8 {
			client, backend := r.session()
			upDone := make(chan struct{})
			up, down := pattern(1<<20+i*77777), pattern(1<<20+i*55555+1)
			all.Go(func() {
				client.sendOddly(up)
				client.CloseWrite()
			})
			all.Go(func() {
				backend.expectOddly(up)
				close(upDone)
			})
			all.Go(func() {
				backend.sendOddly(down)
				<-upDone // the backend's end is the session's
				backend.CloseWrite()
			})
			all.Go(func() {
				client.expectOddly(down)
			})
		}
		all.Wait()
		r.empty()
	})
}

// sendOddly sends s in pieces of one byte up to several reads.
func (e *end) sendOddly(s string) {
	random := rand.New(rand.NewPCG(2, uint64(len(s))))
	for len(s) > 0 {
		n := min(1+random.IntN(1<<random.IntN(18)), len(s))
		e.send(s[:n])
		s = s[n:]
	}
}

// expectOddly reads the rest, which has to be s, in pieces of any size.
func (e *end) expectOddly(s string) {
	random := rand.New(rand.NewPCG(3, uint64(len(s))))
	buf := make([]byte, 100000)
	for at := 0; ; {
		n, err := e.Read(buf[:1+random.IntN(len(buf))])
		if !strings.HasPrefix(s[at:], string(buf[:n])) {
			e.Errorf("bytes %d to %d are not what was sent", at, at+n)
			return
		}
		if at += n; err != nil {
			if err != io.EOF || at != len(s) {
				e.Errorf("%v after %d bytes of %d", err, at, len(s))
			}
			return
		}
	}
}

func TestEnds(t *testing.T) {
	big := pattern(3 << 20)
	tests := []struct {
		name     string
		networks string
		run      func(r *rig, client, backend *end)
	}{
		{"client's FIN is behind its bytes", "tcp unix", func(r *rig, client, backend *end) {
			go func() { client.send(big); client.CloseWrite() }()
			backend.expectEnd(big)
			// the backend goes on until it has said all
			go func() { backend.send(big); backend.Close() }()
			client.expectEnd(big)
		}},
		{"client closes with bytes under way", "tcp unix", func(r *rig, client, backend *end) {
			go func() { client.send(big); client.Close() }()
			backend.expectEnd(big)
			backend.Close()
		}},
		{"client closes without a word", "tcp unix", func(r *rig, client, backend *end) {
			client.Close()
			backend.expectEnd("")
			backend.Close()
		}},
		{"backend closes", "tcp unix", func(r *rig, client, backend *end) {
			go func() { backend.send(big); backend.Close() }()
			client.expectEnd(big)
			client.Close()
		}},
		{"backend shuts its side only", "tcp unix", func(r *rig, client, backend *end) {
			go func() { backend.send(big); backend.CloseWrite() }()
			client.expectEnd(big)
			backend.expectGone()
			client.Close()
		}},
		{"backend resets", "tcp", func(r *rig, client, backend *end) {
			backend.send("last words")
			client.expect("last words")
			backend.reset()
			client.expectEnd("")
			client.Close()
		}},
		{"client resets", "tcp", func(r *rig, client, backend *end) {
			client.send("x")
			backend.expect("x")
			client.reset()
			backend.expectEnd("")
		}},
		{"client that is still sending reads the last words", "tcp unix", func(r *rig, client, backend *end) {
			go backend.Close()
			client.send(strings.Repeat("x", 8<<20)) // into the void, but without an error
			client.shut()
			client.expectEnd("")
		}},
		{"last words of a backend that does not read on", "tcp", func(r *rig, client, backend *end) {
			client.send("the beginning of a statement that is too long")
			backend.expect("the beg")
			sent := make(chan struct{})
			go func() {
				client.send(strings.Repeat("x", 8<<20))
				close(sent)
			}()
			r.eventually("there is something unread", func() bool { return r.queued(backendSide) > 0 })
			backend.send("ERR")
			backend.Close() // a reset, as bytes are unread
			<-sent
			client.expectEnd("ERR")
			client.Close()
		}},
		{"failed write to the backend stops upstream only", "unix", func(r *rig, client, backend *end) {
			client.send("x")
			backend.expect("x")
			if err := backend.CloseRead(); err != nil {
				r.Fatal(err)
			}
			client.send(big) // taken, and dropped
			go func() { backend.send(big); backend.send("ERR"); backend.Close() }()
			client.expectEnd(big + "ERR")
			client.Close()
		}},
		{"client that takes nothing more", "unix", func(r *rig, client, backend *end) {
			client.CloseRead()
			go io.WriteString(backend.socket, big)
			backend.expectGone()
			client.Close()
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			eachDriver(t, test.networks, func(t *testing.T, o rigOptions) {
				r := newRig(t, o)
				client, backend := r.session()
				test.run(r, client, backend)
				r.empty()
				client.Close()
				backend.Close()
			})
		})
	}
}

// TestRandomEnds lets both ends of many sessions do anything in any order.
func TestRandomEnds(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		o.server = func(s *Server) { s.linger = 20 * time.Millisecond }
		r := newRig(t, o)
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		var all sync.WaitGroup
		for i := range 150 {
			for j, e := range func() [2]*end { c, b := r.session(); return [2]*end{c, b} }() {
				random := rand.New(rand.NewPCG(seed, uint64(2*i+j)))
				all.Go(func() {
					e.SetDeadline(time.Now().Add(200 * time.Millisecond)) // some wait for each other
					buf := make([]byte, 1<<20)
					for {
						switch n := 1 + random.IntN(1<<random.IntN(20)); random.IntN(8) {
						case 0, 1, 2:
							e.Write(buf[:n])
						case 3, 4:
							e.Read(buf[:n])
						case 5:
							e.CloseWrite()
						case 6:
							if random.IntN(4) == 0 {
								e.CloseRead()
							}
						case 7:
							if tcp, ok := e.socket.(*net.TCPConn); ok && random.IntN(2) == 0 {
								tcp.SetLinger(0)
							}
							e.Close()
							return
						}
					}
				})
			}
		}
		all.Wait()
		r.empty()
		if n := r.server.Counts().Panics.Load(); n != 0 {
			t.Errorf("%d panics", n)
		}
	})
}

// neverEnding is a reader of bytes without end.
type neverEnding struct{}

func (neverEnding) Read(b []byte) (int, error) { return len(b), nil }

// queued is how many bytes of all sessions wait for a side.
func (r *rig) queued(to side) (n int) {
	switch d := r.driver().(type) {
	case *pump:
		d.each(func(s *pumped) {
			n += len(s.legs[to].queue)
			if s.legs[to].writing {
				n++
			}
		})
	default:
		n = loopQueued(d, to)
	}
	return n
}

func (r *rig) driver() driver {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	return r.server.driver
}

func TestClientLingersWithinBounds(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		t.Run("time", func(t *testing.T) {
			o.server = func(s *Server) { s.linger = 20 * time.Millisecond }
			r := newRig(t, o)
			client, backend := r.session()
			backend.Close()
			client.expectEnd("")
			r.empty() // although the client has not closed
		})
		t.Run("bytes", func(t *testing.T) {
			o.server = func(s *Server) { s.linger = patience }
			r := newRig(t, o)
			client, backend := r.session()
			backend.Close()
			n, err := io.Copy(client.socket, neverEnding{})
			if err == nil || n < maxDiscard/2 || n > maxDiscard+32<<20 {
				t.Errorf("%d bytes were taken (%v), want about %d", n, err, maxDiscard)
			}
			r.empty()
		})
	})
}

func TestStalledClient(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		r := newRig(t, o)
		stalled, backend := r.session()
		data := pattern(32 << 20)
		go func() { backend.send(data); backend.CloseWrite() }()
		r.eventually("the client is stalled", func() bool { return r.queued(clientSide) > 0 })
		client, other := r.session()
		for range 500 {
			client.send("ping")
			other.expect("ping")
			other.send("pong")
			client.expect("pong")
			if n := r.queued(clientSide); n > 3*readSize {
				t.Fatalf("%d bytes are queued for a stalled client", n)
			}
		}
		stalled.expectEnd(data)
		stalled.Close()
		client.Close()
		other.expectEnd("")
		other.Close()
		r.empty()
	})
}

// TestRelayMakesNoGarbage has a long answer relayed: what passes through is not memory anew each time.
func TestRelayMakesNoGarbage(t *testing.T) {
	eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
		r := newRig(t, o)
		client, backend := r.session()
		const long, rounds = 1 << 20, 64
		data := []byte(pattern(long))
		read := make([]byte, long)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		go func() {
			for range rounds {
				backend.Write(data)
			}
		}()
		for i := range rounds {
			if _, err := io.ReadFull(client, read); err != nil || !bytes.Equal(read, data) {
				t.Fatalf("round %d: %v", i, err)
			}
		}
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; made > rounds*long/4 {
			t.Errorf("%d KiB were allocated for %d", made>>10, rounds*long>>10)
		}
		client.Close()
		backend.expectEnd("")
		backend.Close()
		r.empty()
	})
}

func TestPausedSides(t *testing.T) {
	// A script that does not want a side's bytes, from the start, until the other side says "go".
	paused := func(at side) func() *script {
		return func() *script {
			s := &script{on: func(s *script, in input, from side, b []byte, out *output) bool {
				if in == inputReceived && from != at && string(b) == "go" {
					s.paused[at] = false
					return true
				}
				if in != inputStart && from == at && s.paused[at] {
					panic("read while paused")
				}
				return false
			}}
			s.paused[at] = true
			return s
		}
	}
	tests := []struct {
		name     string
		networks string
		paused   side
		run      func(paused *end)
		want     string
	}{
		{"client's bytes and FIN", "tcp unix", clientSide, func(e *end) { e.send("words"); e.shut() }, "words"},
		{"client's bytes and close", "tcp unix", clientSide, func(e *end) { e.send("words"); e.Close() }, "words"},
		{"client's FIN alone", "tcp unix", clientSide, func(e *end) { e.shut() }, ""},
		{"backend's bytes and FIN", "tcp unix", backendSide, func(e *end) { e.send("words"); e.shut() }, "words"},
		{"backend's bytes and close", "tcp unix", backendSide, func(e *end) { e.send("words"); e.Close() }, "words"},
		{"backend's FIN alone", "tcp unix", backendSide, func(e *end) { e.Close() }, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			eachDriver(t, test.networks, func(t *testing.T, o rigOptions) {
				o.script = paused(test.paused)
				r := newRig(t, o)
				client, backend := r.session()
				quiet, busy := client, backend
				if test.paused == backendSide {
					quiet, busy = backend, client
				}
				test.run(quiet)
				busy.send("go")
				busy.expectEnd(test.want)
				client.Close()
				backend.Close()
				r.empty()
			})
		})
	}
}

func TestPanicEndsItsSessionOnly(t *testing.T) {
	fatal := func(when input, at side) func() *script {
		return func() *script {
			return &script{on: func(s *script, in input, from side, b []byte, out *output) bool {
				if in == inputReceived && string(b) == "eager" {
					s.eager = true
				}
				if in == inputReceived && string(b) == "work" {
					out.work = func() {}
				}
				if in == inputReceived && string(b) == "panic" || in == when && from == at && when != inputReceived {
					panic("as planned")
				}
				return false
			}}
		}
	}
	tests := []struct {
		name string
		when input
		at   side
		run  func(client, backend *end)
	}{
		{"start", inputStart, backendSide, func(client, backend *end) {}},
		{"received from client", inputReceived, clientSide, func(client, backend *end) { client.send("panic") }},
		{"received from backend", inputReceived, backendSide, func(client, backend *end) { backend.send("panic") }},
		{"client ended", inputEnded, clientSide, func(client, backend *end) { client.shut() }},
		{"backend ended", inputEnded, backendSide, func(client, backend *end) { backend.shut() }},
		{"client reset", inputReadFailed, clientSide, func(client, backend *end) {
			client.send("x")
			backend.expect("x")
			client.reset()
		}},
		{"backend reset", inputReadFailed, backendSide, func(client, backend *end) {
			backend.send("x") // once it is through, the dial is over: that would have failed by the reset
			client.expect("x")
			backend.reset()
		}},
		{"background", inputBackground, backendSide, func(client, backend *end) { client.send("eager") }},
		{"resumed", inputResumed, clientSide, func(client, backend *end) { client.send("work") }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
				var sick atomic.Bool
				o.script = func() *script {
					if sick.Load() {
						return fatal(test.when, test.at)()
					}
					return &script{}
				}
				r := newRig(t, o)
				client, backend := r.session()
				sick.Store(true)
				test.run(r.session())
				r.eventually("one session is left", func() bool { return r.server.active.Load() == 1 })
				if n := r.server.Counts().Panics.Load(); n != 1 {
					t.Errorf("%d panics were counted", n)
				}
				client.send("ping")
				backend.expect("ping")
				client.Close()
				backend.expectEnd("")
				backend.Close()
				r.empty()
			})
		})
	}
	t.Run("work", func(t *testing.T) {
		eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
			o.script = func() *script {
				return &script{on: func(s *script, in input, from side, b []byte, out *output) bool {
					if in == inputReceived {
						out.work = func() { panic("as planned") }
					}
					return in == inputReceived
				}}
			}
			r := newRig(t, o)
			client, backend := r.session()
			client.send("x")
			client.expectGone()
			backend.expectGone()
			r.empty()
			if n := r.server.Counts().Panics.Load(); n != 1 {
				t.Errorf("%d panics were counted", n)
			}
		})
	})
	t.Run("wants", func(t *testing.T) {
		eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
			o.script = func() *script { return &script{panicsOnAsk: true} }
			r := newRig(t, o)
			client, backend := r.session()
			client.expectGone()
			backend.expectGone()
			r.empty()
		})
	})
}

func TestWork(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		release := make(chan struct{})
		var resumed atomic.Int64
		o.script = func() *script {
			return &script{on: func(s *script, in input, from side, b []byte, out *output) bool {
				switch {
				case in == inputReceived && string(b) == "work":
					out.work = func() { <-release }
					return true
				case in == inputResumed:
					resumed.Add(1)
					out.to(clientSide, []byte("done"))
					return true
				}
				return false
			}}
		}
		r := newRig(t, o)
		client, backend := r.session()
		gone, itsBackend := r.session()
		client.send("work")
		gone.send("work")
		// Bytes of both sides pass in the meantime, and other sessions go on.
		backend.send("meanwhile")
		client.expect("meanwhile")
		other, its := r.session()
		other.send("ping")
		its.expect("ping")
		gone.shut()
		itsBackend.expectEnd("")
		itsBackend.Close()
		gone.expectEnd("")
		r.eventually("that session is over", func() bool { return r.server.active.Load() == 2 })
		close(release)
		client.expect("done")
		if n := resumed.Load(); n != 1 {
			t.Errorf("resumed %d times, once for a session that was over", n)
		}
		for _, e := range []*end{client, other} {
			e.Close()
		}
		for _, e := range []*end{backend, its} {
			e.expectEnd("")
			e.Close()
		}
		r.empty()
	})
}

func TestBackground(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		o.script = func() *script {
			return &script{on: func(s *script, in input, from side, b []byte, out *output) bool {
				switch {
				case in == inputReceived && from == backendSide && string(b) == "reply":
					s.eager = true
				case in == inputBackground:
					s.eager = false
					out.to(backendSide, []byte("ours"))
					return true
				}
				return false
			}}
		}
		r := newRig(t, o)
		client, backend := r.session()
		for range 10 {
			client.send("query")
			backend.expect("query")
			backend.send("reply")
			client.expect("reply")
			backend.expect("ours")
		}
		client.Close()
		backend.expectEnd("")
		backend.Close()
		r.empty()
	})
}

func TestQueueIsBounded(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		o.script = func() *script {
			return &script{on: func(s *script, in input, from side, b []byte, out *output) bool {
				if in == inputReceived { // answers without measure
					out.to(clientSide, make([]byte, 2*maxQueue+16<<20))
				}
				return true
			}}
		}
		r := newRig(t, o)
		client, backend := r.session()
		client.send("x")
		backend.expectEnd("")
		r.empty()
		if n := r.server.Counts().Overflows.Load(); n != 1 {
			t.Errorf("%d overflows were counted", n)
		}
	})
}

func TestEndsAreBehindWhatIsQueued(t *testing.T) {
	big := pattern(maxQueue - 1)
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		o.script = func() *script {
			return &script{on: func(s *script, in input, from side, b []byte, out *output) bool {
				switch {
				case in == inputReceived && from == clientSide:
					out.to(backendSide, []byte(big))
					out.shut[backendSide] = true
					return true
				case in == inputReceived:
					out.to(clientSide, []byte(big))
					out.end = true
					return true
				}
				return false
			}}
		}
		r := newRig(t, o)
		client, backend := r.session()
		client.SetReadBuffer(64 << 10)
		backend.SetReadBuffer(64 << 10)
		client.send("x")
		r.eventually("bytes are queued", func() bool { return r.queued(backendSide) > 0 })
		backend.expectEnd(big)
		backend.send("x")
		r.eventually("bytes are queued", func() bool { return r.queued(clientSide) > 0 })
		backend.expectGone()
		client.expectEnd(big)
		client.Close()
		r.empty()
	})
}

// lateDriver has writes to the backend return late, as they do on a busy machine: what was written has long arrived.
type lateDriver struct {
	driver
	returns chan struct{}
}

func (d lateDriver) carry(r *relay, client, backend net.Conn, greeting []byte) {
	d.driver.carry(r, client, lateConn{backend.(*net.TCPConn), d.returns}, greeting)
}

type lateConn struct {
	*net.TCPConn
	returns chan struct{}
}

func (c lateConn) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	<-c.returns
	return n, err
}

// TestLastWords has the backend told something with the session's end, while the pump's write before has not returned yet.
func TestLastWords(t *testing.T) {
	returns := make(chan struct{})
	var server *Server
	r := newRig(t, rigOptions{driver: "pump", server: func(s *Server) { server = s }, script: func() *script {
		server.mu.Lock() // it is about to ask the driver to carry its first session
		server.driver = lateDriver{server.driver, returns}
		server.mu.Unlock()
		return &script{on: func(s *script, in input, from side, b []byte, out *output) bool {
			if in != inputReceived || from != backendSide {
				return false
			}
			out.to(backendSide, []byte("last words"))
			out.end = true
			time.AfterFunc(100*time.Millisecond, func() { close(returns) })
			return true
		}}
	}})
	client, backend := r.session()
	client.send("x")
	backend.expect("x")
	backend.send("y")
	backend.expectEnd("last words")
	client.Close()
	r.empty()
}

func TestSessions(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		begin := time.Now()
		r := newRig(t, o)
		var ends []*end
		for range 5 {
			client, backend := r.session()
			client.send("x")
			backend.expect("x")
			ends = append(ends, client, backend)
		}
		all := r.server.Sessions()
		seen := map[uint64]bool{}
		for _, s := range all {
			seen[s.ID] = true
			if s.Client == "" || !s.LoggedIn || s.Since.Before(begin) || s.Since.After(time.Now()) {
				t.Errorf("odd: %+v", s)
			}
		}
		if len(all) != 5 || len(seen) != 5 {
			t.Errorf("5 sessions, but %+v", all)
		}
		for _, e := range ends {
			e.Close()
		}
		r.empty()
		if all := r.server.Sessions(); len(all) != 0 {
			t.Errorf("no session, but %+v", all)
		}
		r.stop()
		if all := r.server.Sessions(); len(all) != 0 {
			t.Errorf("no server, but %+v", all)
		}
	})
}

func TestManyRuns(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		var want strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&want, "run %d;", i)
		}
		o.script = func() *script {
			return &script{on: func(s *script, in input, from side, b []byte, out *output) bool {
				if in != inputReceived {
					return false
				}
				for i := range 5000 {
					out.to(clientSide, fmt.Appendf(nil, "run %d;", i))
					if i%1000 == 0 {
						out.to(backendSide, fmt.Appendf(nil, "up %d;", i))
					}
				}
				out.end = true
				return true
			}}
		}
		r := newRig(t, o)
		client, backend := r.session()
		client.send("x")
		backend.expectGone()
		client.expectEnd(want.String())
		client.Close()
		r.empty()
	})
}
