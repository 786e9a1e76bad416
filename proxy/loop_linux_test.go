package proxy

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"tmpproxy/session"
	"tmpproxy/wire"
)

// loopQueued is how many bytes wait for a side in the loops.
func loopQueued(d driver, to side) (n int) {
	for _, l := range d.(*loops).all {
		l.do(func() {
			for _, slot := range l.slots {
				if slot.s != nil {
					n += slot.s.legs[to].queued()
				}
			}
		})
	}
	return n
}

// loop is the rig's one loop.
func (r *rig) loop() *loop { return r.driver().(*loops).all[0] }

// calls are the system calls of the rig's loop so far.
func (r *rig) calls() (c calls) {
	l := r.loop()
	l.do(func() { c = l.calls })
	return c
}

func roundTrips(n int, client, backend *end) {
	for range n {
		client.send("SELECT 1, a small query of some fifty bytes")
		backend.expect("SELECT 1, a small query of some fifty bytes")
		backend.send("and its reply")
		client.expect("and its reply")
	}
}

func TestSystemCallsOfASmallQuery(t *testing.T) {
	const n = 2000
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			// A conversation that pauses the client while a reply is out must not cost more.
			for name, script := range map[string]func() *script{"raw": nil, "pausing": func() *script {
				return &script{on: func(s *script, in input, at side, b []byte, out *output) bool {
					if in == inputReceived {
						s.paused[clientSide] = at == clientSide
					}
					return false
				}}
			}} {
				t.Run(name, func(t *testing.T) {
					r := newRig(t, rigOptions{driver: "loop", network: network, script: script})
					client, backend := r.session()
					roundTrips(10, client, backend)
					before := r.calls()
					roundTrips(n, client, backend)
					after := r.calls()
					if reads, writes := after.reads-before.reads, after.writes-before.writes; reads != 2*n || writes != 2*n {
						t.Errorf("%d reads and %d writes for %d round trips, want two each", reads, writes, n)
					}
					if controls := after.controls - before.controls; controls != 0 {
						t.Errorf("%d calls of epoll_ctl", controls)
					}
					// Signals of the scheduler's may wake the loop besides.
					if waits := after.waits - before.waits; waits > 2*n+n/100 {
						t.Errorf("%d waits for %d round trips, want two each", waits, n)
					}
					client.Close()
					backend.expectEnd("")
				})
			}
		})
	}
}

func TestHangUpOfAPausedSideDoesNotSpin(t *testing.T) {
	tests := []struct {
		name    string
		network string
		paused  side
		hangUp  func(e *end)
		want    string
	}{
		{"backend resets", "tcp", backendSide, func(e *end) { e.send("words"); e.reset() }, "words"},
		{"backend closes", "unix", backendSide, func(e *end) { e.send("words"); e.Close() }, "words"},
		{"client closes", "unix", clientSide, func(e *end) { e.send("words"); e.Close() }, "words"},
		{"client sends a FIN", "tcp", clientSide, func(e *end) { e.send("words"); e.shut() }, "words"},
		{"client sends nothing but a FIN", "tcp", clientSide, func(e *end) { e.shut() }, ""},
		{"backend closes without a word", "unix", backendSide, func(e *end) { e.Close() }, ""},
		{"backend resets without a word", "tcp", backendSide, func(e *end) { e.reset() }, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, rigOptions{driver: "loop", network: test.network, script: func() *script {
				return &script{on: func(s *script, in input, from side, b []byte, out *output) bool {
					if in == inputReceived && (string(b) == "stop" || string(b) == "go") {
						s.paused[test.paused] = string(b) == "stop"
						return true
					}
					return false
				}}
			}})
			client, backend := r.session()
			other, its := r.session()
			roundTrips(1, client, backend) // both sides are in the set
			quiet, busy := client, backend
			if test.paused == backendSide {
				quiet, busy = backend, client
			}
			busy.send("stop")
			r.eventually("it is heard", func() bool { return r.calls().reads == 3 })
			test.hangUp(quiet)
			const n = 500
			before := r.calls()
			roundTrips(n, other, its)
			after := r.calls()
			if waits := after.waits - before.waits; waits > 2*n+20 {
				t.Errorf("%d waits for %d round trips of another session", waits, n)
			}
			busy.send("go")
			busy.expectEnd(test.want)
			for _, e := range []*end{client, backend, other, its} {
				e.Close()
			}
			r.empty()
		})
	}
}

// The pump notices such a reset only when it reads again.
func TestResetOfAPausedClientIsImmediate(t *testing.T) {
	r := newRig(t, rigOptions{driver: "loop"})
	client, backend := r.session()
	stalled := make(chan error)
	go func() {
		_, err := io.Copy(client.socket, neverEnding{}) // until the reset
		stalled <- err
	}()
	r.eventually("the client is paused", func() bool {
		var events uint32
		l := r.loop()
		l.do(func() { events = l.slots[0].s.legs[clientSide].events })
		return events == 0
	})
	client.reset()
	if err := <-stalled; err == nil {
		t.Error("writing did not end")
	}
	r.empty() // although the backend has read nothing yet
	backend.expectGone()
}

func TestQueueIsFreed(t *testing.T) {
	r := newRig(t, rigOptions{driver: "loop"})
	client, backend := r.session()
	data := pattern(32 << 20)
	go backend.send(data)
	r.eventually("the client is stalled", func() bool { return r.queued(clientSide) > 0 })
	client.expect(data)
	l := r.loop()
	l.do(func() {
		for at, g := range l.slots[0].s.legs {
			if g.queue != nil || g.events != unix.EPOLLIN {
				t.Errorf("%v: a queue of %d bytes is kept, events %#x", side(at), cap(g.queue), g.events)
			}
		}
		if len(l.buffers) == 0 || len(l.buffers) > maxBuffers {
			t.Errorf("%d free buffers", len(l.buffers))
		}
	})
	client.Close()
	backend.expectEnd("")
}

func TestRunsToOneSideAreOneWrite(t *testing.T) {
	r := newRig(t, rigOptions{driver: "loop", script: func() *script {
		return &script{on: func(s *script, in input, from side, b []byte, out *output) bool {
			if in != inputReceived {
				return false
			}
			out.to(clientSide, []byte("a"))
			out.to(clientSide, []byte("b"))
			out.to(clientSide, []byte("c"))
			out.to(backendSide, []byte("d"))
			out.to(clientSide, []byte("e"))
			return true
		}}
	}})
	client, backend := r.session()
	before := r.calls()
	client.send("x")
	client.expect("abce")
	backend.expect("d")
	if writes := r.calls().writes - before.writes; writes != 3 {
		t.Errorf("%d writes, want 3", writes)
	}
	client.Close()
	backend.expectEnd("")
}

// still is a loop that does not run: a test calls its parts.
type still struct {
	*loop
	far      []int // the far ends of its sessions' legs
	received [4096]byte
}

func newStill(t *testing.T) *still {
	t.Helper()
	s, err := NewServer(zap.NewNop(), Options{Listen: []string{"127.0.0.1:0"}, Backends: []string{"127.0.0.1:1"}, Bundle: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLoop(s)
	if err != nil {
		t.Fatal(err)
	}
	still := &still{loop: l}
	t.Cleanup(func() {
		for _, slot := range l.slots {
			if slot.s != nil {
				l.release(slot.s)
			}
		}
		l.closeDescriptors()
		for _, fd := range still.far {
			unix.Close(fd)
		}
		l.free()
	})
	return still
}

// member admits a session of socket pairs and returns the far ends of its legs.
func (l *still) member(t *testing.T, s *script) (m *member, far [2]int) {
	t.Helper()
	m = &member{relay: relay{server: l.server, conversation: newRawConversation()}}
	if s != nil {
		m.double = s
		m.handshaking = s.greeted
	}
	for at := range m.legs {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		m.legs[at].fd = int32(pair[0])
		far[at] = pair[1]
		l.far = append(l.far, pair[1])
	}
	l.server.active.Add(1)
	l.server.sessions.Add(1)
	l.load.Add(1)
	l.admit(m, nil)
	return m, far
}

func (m *member) event(at side, events uint32) unix.EpollEvent {
	return unix.EpollEvent{Events: events, Fd: int32(m.slot<<1) | int32(at), Pad: int32(m.generation)}
}

func TestEventsOfASessionThatEndedInTheBatch(t *testing.T) {
	l := newStill(t)
	a, farA := l.member(t, &script{on: func(*script, input, side, []byte, *output) bool { panic("as planned") }})
	if a.state != released {
		t.Fatal("the session should have panicked at its start")
	}
	l.closeDescriptors()

	a, farA = l.member(t, nil)
	var reused []int
	b, farB := l.member(t, &script{on: func(s *script, in input, at side, by []byte, out *output) bool {
		if in == inputReceived { // opens descriptors between the end of a and the end of the batch
			fd, err := unix.Dup(l.epoll)
			if err != nil {
				t.Error(err)
			}
			reused = append(reused, fd)
		}
		return false
	}})
	descriptors := []int32{a.legs[clientSide].fd, a.legs[backendSide].fd}
	unix.Write(farA[clientSide], []byte("x"))
	unix.Shutdown(farA[backendSide], unix.SHUT_RDWR)
	unix.Shutdown(farA[clientSide], unix.SHUT_WR)
	unix.Write(farB[clientSide], []byte("x"))
	reads := l.calls.reads
	l.batch([]unix.EpollEvent{
		a.event(backendSide, unix.EPOLLIN|unix.EPOLLHUP),
		a.event(clientSide, unix.EPOLLIN|unix.EPOLLHUP), // reads x: the input is discarded
		a.event(clientSide, unix.EPOLLIN|unix.EPOLLHUP), // reads the FIN
		a.event(clientSide, unix.EPOLLIN|unix.EPOLLHUP), // is over
		b.event(clientSide, unix.EPOLLIN),
	})
	if a.state != released || l.calls.reads-reads != 4 {
		t.Errorf("state %d after %d reads; want the session released, and three reads of it and one of another", a.state, l.calls.reads-reads)
	}
	for _, fd := range reused {
		if slices.Contains(descriptors, int32(fd)) {
			t.Errorf("descriptor %d was closed within the batch", fd)
		}
		unix.Close(fd)
	}

	// The next session has the slot; what epoll had to say of the old one does not concern it.
	c, _ := l.member(t, &script{greeted: true})
	if c.slot != a.slot {
		t.Fatalf("slot %d is not reused, but %d", a.slot, c.slot)
	}
	reads = l.calls.reads
	l.batch([]unix.EpollEvent{a.event(clientSide, unix.EPOLLIN), a.event(backendSide, unix.EPOLLHUP|unix.EPOLLERR)})
	if c.state != carrying || l.calls.reads != reads || !c.legs[backendSide].watched {
		t.Error("a stale event reached another session")
	}
	// Nor do its deadlines.
	l.logins = []deadline{{1, a.slot, a.generation}}
	l.lingers = []deadline{{1, a.slot, a.generation}}
	if l.expire(); c.state != carrying || len(l.logins) != 0 || len(l.lingers) != 0 {
		t.Error("a stale deadline reached another session, or stays")
	}
	if l.timeout() != -1 {
		t.Error("the loop does not wait for ever without deadlines")
	}
}

func TestBackgroundComesAfterTheBatch(t *testing.T) {
	l := newStill(t)
	var order []string
	note := func(name string, eager bool) *script {
		return &script{on: func(s *script, in input, at side, b []byte, out *output) bool {
			switch in {
			case inputReceived:
				order = append(order, name+" received")
				s.eager = eager
			case inputBackground:
				order = append(order, name+" background") // and stays eager
			}
			return false
		}}
	}
	a, farA := l.member(t, note("a", true))
	b, farB := l.member(t, note("b", false))
	for _, far := range [][2]int{farA, farB} {
		unix.Write(far[clientSide], []byte("x"))
		unix.Write(far[backendSide], []byte("x"))
	}
	l.batch([]unix.EpollEvent{
		a.event(clientSide, unix.EPOLLIN), a.event(backendSide, unix.EPOLLIN),
		b.event(clientSide, unix.EPOLLIN), b.event(backendSide, unix.EPOLLIN),
	})
	want := []string{"a received", "a received", "b received", "b received", "a background"}
	if !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	// It asks again, but that does not make the loop spin.
	if l.timeout() != -1 {
		t.Error("the loop does not wait")
	}
	l.batch(nil)
	if want = append(want, "a background"); !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	// The end of a session forgets its wish.
	unix.Shutdown(farA[backendSide], unix.SHUT_WR)
	l.batch([]unix.EpollEvent{a.event(backendSide, unix.EPOLLIN)})
	if l.batch(nil); !slices.Equal(order, want) || len(l.eager) != 0 {
		t.Errorf("%q after the end", order[len(want):])
	}
}

// settle handles events until there are none.
func (l *still) settle() {
	for {
		n := l.calls.wait(l.epoll, l.events[:], 0)
		if n == 0 {
			return
		}
		l.batch(l.events[:n])
	}
}

// TestIdleSessionHoldsLittle bounds what a session that has logged in and asked something keeps: the limit in README.md is of the
// process's resident memory, in which there is also what the heap has of garbage and holes.
func TestIdleSessionHoldsLittle(t *testing.T) {
	l := newStill(t)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 500
	server := newFakeServer(testCaps)
	dialogue := []struct {
		from side
		b    []byte
	}{
		{backendSide, server.greeting()},
		{clientSide, login(testCaps, "db")},
		{backendSide, server.ok(2)},
		{clientSide, query("SELECT 1")},
		{backendSide, server.rows(1, wire.StatusAutocommit, "1")},
	}
	l.slots = make([]slot, 0, n+1) // its growth is not a session's
	l.far = make([]int, 0, 2*n+2)
	members := make([]*member, 0, n+1)
	far := make([][2]int, 0, n+1)
	talk := func(sessions int) {
		first := len(far)
		for range sessions {
			m, f := l.member(t, nil)
			m.conversation = newConversation(l.server.shared)
			m.handshaking = true
			l.server.handshakes.Add(1)
			members, far = append(members, m), append(far, f)
		}
		for _, d := range dialogue {
			for _, f := range far[first:] {
				if _, err := unix.Write(f[d.from], d.b); err != nil {
					t.Fatal(err)
				}
			}
			l.settle()
			for _, f := range far[first:] {
				if n, err := unix.Read(f[d.from.other()], l.received[:]); n < len(d.b) {
					t.Fatalf("%d bytes of %d: %v", n, len(d.b), err)
				}
			}
		}
	}
	talk(1) // what is made once is no session's
	before := heap()
	talk(n)
	per := (int64(heap()) - int64(before)) / n
	for _, m := range members {
		if m.handshaking || m.conversation.phase != phaseCommand {
			t.Fatalf("a session is in phase %d", m.conversation.phase)
		}
	}
	t.Logf("%d bytes per idle session", per)
	if per > 1280 {
		t.Errorf("an idle session holds %d bytes", per)
	}
	runtime.KeepAlive(l)
}

// Where a client thinks, what it does not wait for comes a little behind the batch, and once.
func TestBackgroundLeavesTime(t *testing.T) {
	for _, coarse := range []bool{false, true} {
		t.Run(fmt.Sprintf("coarse %v", coarse), func(t *testing.T) {
			l := newStill(t)
			l.calls.coarse = coarse
			var began, done int64
			times := 0
			m, far := l.member(t, &script{thinks: true, on: func(s *script, in input, at side, b []byte, out *output) bool {
				switch in {
				case inputReceived:
					if s.eager = true; began == 0 {
						began = monotonic()
					}
				case inputBackground:
					s.eager, done = false, monotonic()
					times++
				}
				return false
			}})
			unix.Write(far[clientSide], []byte("x"))
			l.batch([]unix.EpollEvent{m.event(clientSide, unix.EPOLLIN)})
			if coarse { // it cannot be waited for so short a time
				if times != 1 {
					t.Errorf("%d times behind the batch", times)
				}
				return
			}
			unix.Write(far[clientSide], []byte("x"))
			l.batch([]unix.EpollEvent{m.event(clientSide, unix.EPOLLIN)}) // it does not ask twice
			if len(l.later) != 1 {
				t.Errorf("%d deadlines", len(l.later))
			}
			for end := time.Now().Add(patience); times == 0 && time.Now().Before(end); {
				l.batch(l.events[:l.calls.wait(l.epoll, l.events[:], l.timeout())])
			}
			if wait := done - began; times != 1 || wait < int64(backgroundDelay) {
				t.Errorf("%d times, after %d ns", times, wait)
			}
			if l.timeout() != -1 {
				t.Error("the loop does not wait for ever")
			}
			// A session that has ended meanwhile is left alone, and so is the next one in its place.
			unix.Write(far[clientSide], []byte("x"))
			l.batch([]unix.EpollEvent{m.event(clientSide, unix.EPOLLIN)})
			l.release(m)
			l.member(t, &script{eager: true})
			for len(l.later) > 0 {
				l.batch(l.events[:l.calls.wait(l.epoll, l.events[:], l.timeout())])
			}
			if times != 1 {
				t.Error("a session that has ended was told")
			}
		})
	}
}

func TestNumberOfLoops(t *testing.T) {
	for processors, want := range map[int]int{1: 1, 2: 1, 4: 1, 8: 2, 16: 4, 64: 8} {
		if got := automaticLoops(processors); got != want {
			t.Errorf("%d loops on %d processors, want %d", got, processors, want)
		}
	}
	r := newRig(t, rigOptions{driver: "loop", change: func(o *Options) { o.Loops = 3 }})
	var ends []*end
	for range 6 {
		client, backend := r.session()
		roundTrips(1, client, backend)
		ends = append(ends, client, backend)
	}
	for i, l := range r.driver().(*loops).all {
		if n := l.load.Load(); n != 2 {
			t.Errorf("loop %d has %d sessions of 6", i, n)
		}
	}
	for _, e := range ends {
		e.Close()
	}
	r.empty()
}

// TestAlive has a loop that hangs.
func TestAlive(t *testing.T) {
	r := newRig(t, rigOptions{driver: "loop", change: func(o *Options) { o.Loops = 2 }})
	client, backend := r.session() // it serves
	defer client.Close()
	defer backend.Close()
	if err := r.server.Alive(t.Context()); err != nil {
		t.Errorf("all loops turn: %v", err)
	}
	block, blocked := make(chan struct{}), make(chan struct{})
	r.driver().(*loops).all[1].post(func() { close(blocked); <-block })
	<-blocked
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.server.Alive(ctx); err == nil || !strings.Contains(err.Error(), "event loop 2 of 2 does not answer") {
		t.Errorf("a loop hangs: %v", err)
	}
	close(block)
	if err := r.server.Alive(t.Context()); err != nil {
		t.Errorf("it goes on: %v", err)
	}
}

// TestSystemCallsOfACycle counts the calls for a cycle of a cached table: a read and a write for each of CREATE and DROP, two of each for
// the INSERT, one write for the reset and one read for its answer.
func TestSystemCallsOfACycle(t *testing.T) {
	const n = 50
	for name, strategy := range map[string]session.Strategy{"keep": session.StrategyKeep, "innodb": session.StrategyInnoDB} {
		t.Run(name, func(t *testing.T) {
			s := newFakeServer(testCaps)
			cycle := rehearse(t, s, loggedIn(t, s, strategy, 1<<20), "t")
			l := newStill(t)
			m, far := l.member(t, nil)
			m.conversation = cycle.c
			wait := func() { l.batch(l.events[:l.calls.wait(l.epoll, l.events[:], l.timeout())]) }
			// reply reads what the server gets, answers it, and has the loop read that.
			reply := func() {
				b := make([]byte, 1000)
				size, err := unix.Read(far[backendSide], b)
				if err != nil || cycle.replies[string(b[:size])] == nil {
					t.Fatalf("the server got %q, %v", b[:max(size, 0)], err)
				}
				unix.Write(far[backendSide], cycle.replies[string(b[:size])])
				wait()
			}
			expect := func(what string) {
				b := make([]byte, 1000)
				if size, err := unix.Read(far[clientSide], b); err != nil || size < 5 || b[4] != 0 {
					t.Fatalf("%s: the client got %q, %v", what, b[:max(size, 0)], err)
				}
			}
			once := func() {
				unix.Write(far[clientSide], cycle.create)
				wait()
				expect("CREATE")
				unix.Write(far[clientSide], cycle.insert)
				wait()
				reply()
				expect("INSERT")
				unix.Write(far[clientSide], cycle.drop)
				wait()
				expect("DROP")
				for l.timeout() >= 0 { // a client that thinks: the reset goes out a little later
					wait()
				}
				reply()
			}
			once() // both sides come into the set
			l.calls = calls{coarse: l.calls.coarse}
			for range n {
				once()
			}
			got := l.calls
			// Where the machine is slow the client seems to think: the reset goes out a little later, behind a wait of its own.
			if got.reads != 5*n || got.writes+got.bundled != 5*n || got.controls != 0 || got.waits < 5*n || got.waits > 7*n {
				t.Errorf("%d cycles took %+v, want 5 reads and 5 writes each, and hardly more waits", n, got)
			}
		})
	}
}
