package proxy

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
)

const (
	batchSize  = 128 // events of one wait
	maxBuffers = 16  // free queue buffers that a loop keeps
	wakeUp     = -1  // epoll data of the wake-up counter; sessions' is not negative
)

// newLoops makes the driver of event loops. n is the number of loops; 0 leaves it to us.
func newLoops(s *Server, n int) (driver, error) {
	if n <= 0 {
		n = automaticLoops(runtime.NumCPU())
	}
	ls := new(loops)
	for range n {
		l, err := newLoop(s)
		if err != nil {
			ls.stop()
			return nil, err
		}
		ls.all = append(ls.all, l)
		ls.running.Add(1)
		go func() {
			defer ls.running.Done()
			l.run()
		}()
	}
	return ls, nil
}

// automaticLoops is the number of loops on a machine with that many processors: mostly, the server is on it too, and needs far
// more of them for the same queries.
func automaticLoops(processors int) int { return max(1, min(processors/4, 8)) }

// loops carries sessions on event loops.
type loops struct {
	all     []*loop
	running sync.WaitGroup
}

// idlest is the loop that has the fewest sessions.
func (ls *loops) idlest() *loop {
	l := ls.all[0]
	for _, other := range ls.all[1:] {
		if other.load.Load() < l.load.Load() {
			l = other
		}
	}
	return l
}

func (ls *loops) carry(r *relay, client, backend net.Conn, greeting []byte) {
	ls.idlest().carry(r, client, backend, greeting)
}

func (ls *loops) open(r *relay, client net.Conn) bool {
	address := socketAddress(r.backend.address)
	if address == nil || r.server.options.ProxyProtocol {
		return false // it has to be looked up, or to be told first for whom it is
	}
	fd, connected, err := connect(address)
	if err != nil {
		return false // whoever tries again will find out what it is
	}
	c, err := take(client)
	if err != nil {
		unix.Close(fd)
		r.server.shortage(r, client, err)
		return true
	}
	m := &member{relay: *r, connecting: !connected, legs: [2]leg{clientSide: {fd: c}, backendSide: {fd: int32(fd)}}}
	m.dialled = monotonic()
	if connected {
		r.server.backends.dialled(r.backend, nil)
	}
	ls.idlest().take(m, nil)
	return true
}

func (ls *loops) visit(f func(*relay)) {
	for _, l := range ls.all {
		l.do(func() {
			for _, slot := range l.slots {
				if slot.s != nil {
					f(&slot.s.relay)
				}
			}
		})
	}
}

func (ls *loops) alive(ctx context.Context) error {
	for i, l := range ls.all {
		turn := make(chan struct{})
		if !l.post(func() { close(turn) }) {
			continue // it has ended, as it was told to
		}
		select {
		case <-turn:
		case <-ctx.Done():
			return fmt.Errorf("event loop %d of %d does not answer: %w", i+1, len(ls.all), ctx.Err())
		}
	}
	return nil
}

func (ls *loops) drain() {
	for _, l := range ls.all {
		l.post(l.drain)
	}
}

func (ls *loops) expire(before int64) {
	for _, l := range ls.all {
		l.post(func() { l.expireIdle(before) })
	}
}

func (ls *loops) stop() {
	for _, l := range ls.all {
		l.post(func() { l.stopping = true })
	}
	ls.running.Wait()
}

// leg is one connection of a session.
type leg struct {
	fd      int32  // -1: closed, or given away
	events  uint32 // what epoll is asked for
	watched bool   // in the epoll set
	eof     bool   // there is nothing more to read
	dead    bool   // writing failed: what would be written is dropped
	untold  bool   // ... and the conversation does not know yet
	shut    bool   // a FIN goes behind what is queued
	queue   []byte // what the socket would not take yet; nil when there is nothing
	taken   int    // bytes of queue that it took since
}

func (g *leg) queued() int { return len(g.queue) - g.taken }

// state is the life of a session in a loop.
type state uint8

const (
	carrying   state = iota // the conversation goes on
	flushing                // it is over; the client gets what is queued
	discarding              // and a FIN; its input is thrown away for a while, lest a reset destroy what it has not read
	released                // both descriptors are closed
)

// member is one session in a loop. Only the loop's thread touches it.
type member struct {
	relay
	slot       uint32
	generation uint32
	state      state
	connecting bool // the backend connection is being made; the conversation has not begun
	eager      bool // in loop.eager
	postponed  bool // in loop.parcels
	discarded  int32
	legs       [2]leg
}

// slot is a place for a session. Its generation changes with its tenant: events and deadlines name both.
type slot struct {
	s          *member
	generation uint32
}

// deadline is a time at which something is to be looked at.
type deadline struct {
	at               int64 // monotonic nanoseconds
	slot, generation uint32
}

// loop carries sessions in one locked thread. It reads and writes inline and waits in epoll, level-triggered. All fields below
// the mutex's belong to that thread.
//
// A batch's events are all read before what follows from them is written, in one system call if there is more than one write: the
// readers that are waked otherwise take over the processor after every single write.
//
// Interest in a descriptor is seldom changed. A side that should not be read now stays in the set until it reports something: most
// pauses end before. Writability is asked for only while bytes are queued.
type loop struct {
	server *Server
	epoll  int
	wake   int // an eventfd
	load   atomic.Int64

	mu     sync.Mutex
	posted []func()
	ended  bool // nothing is taken any more

	calls    calls
	buf      []byte // what was read in this batch
	used     int    // bytes of buf that postponed writes may point to
	joint    []byte // runs that are written at once
	out      output
	bundler  *bundler // nil if there is none
	parcels  []parcel // writes that are postponed, at most one of a session
	postpone bool     // writes may be
	events   [batchSize]unix.EpollEvent
	slots    []slot
	vacant   []uint32
	eager    []*member // sessions that have something to do after the batch
	closing  []int32   // descriptors to be closed after the batch, so that none of its events names a newer one
	buffers  [][]byte  // free queue buffers of readSize bytes
	called   bool      // something was posted
	draining bool
	stopping bool

	// Deadlines of each kind, in the order of time.
	dials   []deadline
	logins  []deadline
	lingers []deadline
	later   []deadline // of sessions whose clients think: see background
}

func newLoop(s *Server) (*loop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make event loop: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(epoll)
		return nil, fmt.Errorf("make event loop: %w", err)
	}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: wakeUp}); err != nil {
		unix.Close(wake)
		unix.Close(epoll)
		return nil, fmt.Errorf("make event loop: %w", err)
	}
	l := &loop{server: s, epoll: epoll, wake: wake, buf: make([]byte, 2*readSize), joint: make([]byte, 0, readSize),
		parcels: make([]parcel, 0, maxParcels)}
	if s.options.Bundle {
		if l.bundler, err = newBundler(); err != nil {
			s.journal.write(zapcore.InfoLevel, "writes go one by one", zap.Error(err))
		} else {
			s.bundling.Store(true)
		}
	}
	return l, nil
}

// post has f called in the loop's thread. It never blocks and may be called from anywhere. It returns false when the loop has
// ended: then f is not called.
func (l *loop) post(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.posted = append(l.posted, f)
	if len(l.posted) == 1 {
		one := uint64(1)
		unix.Write(l.wake, unsafe.Slice((*byte)(unsafe.Pointer(&one)), 8)) // fails only when the counter is full: it is awake then
	}
	return true
}

// do calls f in the loop's thread and returns when it has been called, or false when the loop has ended. The loop itself must
// not call it.
func (l *loop) do(f func()) bool {
	done := make(chan struct{})
	if !l.post(func() {
		defer close(done)
		f()
	}) {
		return false
	}
	<-done
	return true
}

// carry takes a session over.
func (l *loop) carry(r *relay, client, backend net.Conn, greeting []byte) {
	b, err := take(backend)
	if err != nil {
		backend.Close()
		r.server.shortage(r, client, err)
		return
	}
	c, err := take(client)
	if err != nil {
		unix.Close(int(b))
		r.server.shortage(r, client, err)
		return
	}
	l.take(&member{relay: *r, legs: [2]leg{clientSide: {fd: c}, backendSide: {fd: b}}}, greeting)
}

// take has the loop's thread admit a session.
func (l *loop) take(m *member, greeting []byte) {
	l.load.Add(1)
	if !l.post(func() { l.admit(m, greeting) }) {
		for _, g := range m.legs {
			unix.Close(int(g.fd))
		}
		m.because(cutOff)
		m.gone()
	}
}

// run is the loop. It returns after stopping was set, with everything closed.
func (l *loop) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for !l.stopping {
		l.batch(l.events[:l.calls.wait(l.epoll, l.events[:], l.timeout())])
	}
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.callPosted() // what was posted in the meantime: sessions come and are closed
	for _, slot := range l.slots {
		if slot.s != nil {
			slot.s.because(cutOff)
			l.release(slot.s)
		}
	}
	l.closeDescriptors()
	l.free()
}

// free gives back what the loop has of the system.
func (l *loop) free() {
	if l.bundler != nil {
		l.bundler.close()
	}
	unix.Close(l.wake)
	unix.Close(l.epoll)
}

// batch handles the events of one wait and what follows from them.
func (l *loop) batch(events []unix.EpollEvent) {
	l.postpone = true
	for i := range events {
		e := &events[i]
		if e.Fd == wakeUp {
			l.called = true
			continue
		}
		slot := l.slots[e.Fd>>1]
		if slot.s == nil || slot.generation != uint32(e.Pad) {
			continue // a session that ended in this batch
		}
		l.handle(slot.s, side(e.Fd&1), e.Events)
	}
	l.dispatch()
	l.postpone = false
	l.expire()
	if l.called {
		l.called = false
		l.calls.others++
		var count [8]byte
		unix.Read(l.wake, count[:])
		l.callPosted()
	}
	l.afterBatch()
	l.closeDescriptors()
}

func (l *loop) callPosted() {
	l.mu.Lock()
	posted := l.posted
	l.posted = nil
	l.mu.Unlock()
	for _, f := range posted {
		l.call(f)
	}
}

// call calls f, which is not any session's, under recover.
func (l *loop) call(f func()) {
	defer func() {
		if reason := recover(); reason != nil {
			l.server.panicked(reason, debug.Stack())
		}
	}()
	f()
}

// rescue is deferred around everything that is done for a session: a panic ends that session and nothing else.
func (l *loop) rescue(m *member) {
	if reason := recover(); reason != nil {
		m.panicked(reason, debug.Stack())
		l.release(m)
	}
}

// admit begins a session.
func (l *loop) admit(m *member, greeting []byte) {
	if n := len(l.vacant); n > 0 {
		m.slot = l.vacant[n-1]
		l.vacant = l.vacant[:n-1]
	} else {
		m.slot = uint32(len(l.slots))
		l.slots = append(l.slots, slot{})
	}
	m.generation = l.slots[m.slot].generation
	l.slots[m.slot].s = m
	defer l.rescue(m)
	switch {
	case l.stopping: // run releases it
	case !m.connecting:
		l.begin(m, greeting)
	case l.draining:
		l.unreached(m, context.Canceled)
	default:
		if after := l.server.options.ConnectTimeout; after > 0 {
			l.dials = append(l.dials, l.deadline(m, after))
		}
		l.arm(m)
	}
}

// begin has a session's conversation begin.
func (l *loop) begin(m *member, greeting []byte) {
	m.tell(inputStart, backendSide, greeting, &l.out)
	l.act(m)
	if after := l.server.limits().HandshakeTimeout; m.state == carrying && m.handshaking && after > 0 {
		d := l.deadline(m, after)
		i := len(l.logins)
		for ; i > 0 && l.logins[i-1].at > d.at; i-- { // the limit was lowered a moment ago
		}
		l.logins = slices.Insert(l.logins, i, d)
	}
	if m.state == carrying && l.draining {
		m.tell(inputDrain, clientSide, nil, &l.out)
		l.act(m)
	}
}

// connected acts on an event of a backend connection that is being made, and says whether it is there.
func (l *loop) connected(m *member) bool {
	l.calls.others++
	errno, err := unix.GetsockoptInt(int(m.legs[backendSide].fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno == 0 && toItself(int(m.legs[backendSide].fd)) {
		errno = int(unix.ECONNREFUSED)
	}
	if err == nil && errno != 0 {
		err = os.NewSyscallError("connect", unix.Errno(errno))
	}
	if err != nil {
		l.unreached(m, err)
		return false
	}
	m.connecting = false
	l.server.backends.dialled(m.backend, nil)
	l.begin(m, nil)
	return m.state == carrying
}

// unreached ends a session whose backend connection could not be made.
func (l *loop) unreached(m *member, err error) {
	m.connecting = false
	if l.another(m, err) {
		return
	}
	answer := l.server.unreached(&m.relay, err)
	m.legs[backendSide].eof = true // nobody can use it
	l.send(m, clientSide, answer)
	l.finish(m)
}

// handle acts on one event of epoll.
func (l *loop) handle(m *member, at side, events uint32) {
	defer l.rescue(m)
	if m.postponed {
		l.dispatch() // what it said before comes first
	}
	g := &m.legs[at]
	if g.fd < 0 {
		return // closed in this batch
	}
	if m.connecting && (at == clientSide || !l.connected(m)) {
		return
	}
	if events&unix.EPOLLOUT != 0 && g.queued() > 0 {
		l.flush(m, at)
		if g.fd < 0 {
			return
		}
	}
	if events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) == 0 {
		return
	}
	if !l.readable(m, at) {
		l.pause(m, at, events)
		return
	}
	if m.state == discarding {
		l.discard(m)
		return
	}
	b := l.unused()
	n, errno := l.calls.receive(g.fd, b)
	switch {
	case n > 0:
		m.tell(inputReceived, at, b[:n], &l.out)
	case !again(errno) && at == backendSide && m.ungreeted() && l.another(m, errNoGreeting):
		return
	case again(errno):
		return
	case errno == 0:
		g.eof = true
		m.tell(inputEnded, at, nil, &l.out)
	default:
		g.eof = true
		m.tell(inputReadFailed, at, nil, &l.out)
	}
	if l.act(m); m.postponed {
		if l.used += n; l.used > len(l.buf)-readSize || len(l.parcels) == maxParcels {
			l.dispatch()
		}
	}
}

// unused is where the next read goes: postponed writes do not point there.
func (l *loop) unused() []byte { return l.buf[l.used : l.used+readSize] }

// readable says whether a side should be read now.
func (l *loop) readable(m *member, at side) bool {
	if m.legs[at].eof || m.connecting && at == clientSide {
		return false
	}
	if m.state == carrying {
		return m.legs[at.other()].queued() == 0 && m.wants(at)
	}
	return m.state == discarding && at == clientSide
}

// pause is called when a side reports something that should not be read now. Input is no longer asked for; a descriptor that
// reports a hang-up or an error does so always, so it leaves the set. Both come back when the side is readable again: reading then
// finds what was hidden.
func (l *loop) pause(m *member, at side, events uint32) {
	g := &m.legs[at]
	if events&(unix.EPOLLHUP|unix.EPOLLERR) == 0 {
		l.watch(m, at, g.events&^unix.EPOLLIN)
		return
	}
	if events&unix.EPOLLERR != 0 && at == clientSide {
		// A reset is immediate: nobody is there to be answered. (A backend's last words may be in its socket still.)
		g.eof = true
		if m.state == carrying {
			m.tell(inputReadFailed, at, nil, &l.out)
			l.act(m)
			return
		}
		l.release(m)
		return
	}
	if g.queued() > 0 && !g.dead {
		// Hung up with bytes queued: writing tells what it is, and takes the queue away.
		l.flush(m, at)
	}
	if g.fd >= 0 {
		l.unwatch(m, at)
	}
}

// act carries out what the conversation said, and tells it of writes that failed.
func (l *loop) act(m *member) {
	out := &l.out
	for {
		if !l.setAside(m, out) {
			l.write(m, out.runs)
		}
		for at := range out.shut {
			if out.shut[at] {
				l.shut(m, side(at))
			}
		}
		if m.state == released {
			return
		}
		if out.end {
			l.finish(m)
			return
		}
		if out.work != nil {
			l.work(m, out.work)
		}
		at := clientSide
		if !m.legs[at].untold {
			if at = backendSide; !m.legs[at].untold {
				break
			}
		}
		m.legs[at].untold = false
		m.tell(inputWriteFailed, at, nil, out)
	}
	if !m.eager && m.wantsBackground() {
		m.eager = true
		if m.leavesTime() && !l.calls.coarse {
			l.later = append(l.later, l.deadline(m, backgroundDelay))
		} else {
			l.eager = append(l.eager, m)
		}
	}
	l.arm(m)
}

// setAside postpones what a session says if that is one run and nothing depends on it.
func (l *loop) setAside(m *member, out *output) bool {
	if !l.postpone || len(l.parcels) == maxParcels || len(out.runs) != 1 || out.end || out.shut != [2]bool{} {
		return false
	}
	r := &out.runs[0]
	g := &m.legs[r.to]
	if g.queue != nil || g.dead || g.shut || g.fd < 0 || m.legs[r.to.other()].untold {
		return false
	}
	m.postponed = true
	l.parcels = append(l.parcels, parcel{m: m, to: r.to, fd: g.fd, b: r.b})
	return true
}

// dispatch makes the writes that were postponed.
func (l *loop) dispatch() {
	l.used = 0
	parcels := l.parcels
	if len(parcels) == 0 {
		return
	}
	if l.bundler != nil && len(parcels) > 1 {
		l.calls.bundle(l.bundler, parcels)
	} else {
		for i := range parcels {
			p := &parcels[i]
			p.n, p.errno = l.calls.transmit(p.fd, p.b)
		}
	}
	for i := range parcels {
		parcels[i].m.postponed = false
	}
	postpone := l.postpone
	l.postpone = false
	for i := range parcels {
		if p := &parcels[i]; p.n < len(p.b) {
			l.undelivered(p)
		}
	}
	l.postpone = postpone
	clear(parcels)
	l.parcels = parcels[:0]
}

// undelivered takes a parcel of which the socket did not take everything.
func (l *loop) undelivered(p *parcel) {
	m, g := p.m, &p.m.legs[p.to]
	if m.state == released || g.fd < 0 {
		return
	}
	defer l.rescue(m)
	if p.errno == 0 || again(p.errno) {
		l.enqueue(m, p.to, p.b[p.n:])
		l.arm(m)
		return
	}
	l.fail(m, p.to)
	l.out.reset()
	l.act(m)
}

// write sends runs; those that follow each other to the same side go in one call if they are small.
func (l *loop) write(m *member, runs []run) {
	for len(runs) > 0 && m.state != released {
		to, b := runs[0].to, runs[0].b
		n, size := 1, len(b)
		for n < len(runs) && runs[n].to == to && size+len(runs[n].b) <= cap(l.joint) {
			size += len(runs[n].b)
			n++
		}
		if n > 1 {
			b = l.joint[:0]
			for _, r := range runs[:n] {
				b = append(b, r.b...)
			}
		}
		l.send(m, to, b)
		runs = runs[n:]
	}
}

// send writes b to a side, and queues what the socket does not take.
func (l *loop) send(m *member, to side, b []byte) {
	g := &m.legs[to]
	if g.dead || g.shut || g.fd < 0 {
		return
	}
	if g.queue == nil {
		n, errno := l.calls.transmit(g.fd, b)
		if errno != 0 && !again(errno) {
			l.fail(m, to)
			return
		}
		if b = b[n:]; len(b) == 0 {
			return
		}
	}
	l.enqueue(m, to, b)
}

// enqueue keeps what a socket did not take.
func (l *loop) enqueue(m *member, to side, b []byte) {
	g := &m.legs[to]
	if g.queued()+len(b) > m.mayQueue() {
		m.overflow(to)
		l.release(m)
		return
	}
	if g.queue == nil {
		g.queue = l.buffer()
	}
	g.queue = append(g.queue, b...)
}

// flush writes what is queued for a side, because it has become writable.
func (l *loop) flush(m *member, to side) {
	g := &m.legs[to]
	n, errno := l.calls.transmit(g.fd, g.queue[g.taken:])
	if errno != 0 && !again(errno) {
		l.fail(m, to)
	} else if g.taken += n; g.queued() == 0 {
		l.recycle(g)
		if g.shut {
			l.sendFIN(g)
		}
	}
	if n > 0 && to == clientSide {
		m.active = monotonic()
	}
	if m.state != carrying {
		l.depart(m)
		return
	}
	l.out.reset()
	l.act(m)
}

// fail notes that a side takes nothing any more.
func (l *loop) fail(m *member, at side) {
	g := &m.legs[at]
	g.dead, g.untold = true, true
	l.recycle(g)
}

// shut sends a FIN behind what is queued.
func (l *loop) shut(m *member, to side) {
	g := &m.legs[to]
	if g.shut || g.dead || g.fd < 0 {
		return
	}
	g.shut = true
	if g.queued() == 0 {
		l.sendFIN(g)
	}
}

func (l *loop) sendFIN(g *leg) {
	l.calls.others++
	unix.Shutdown(int(g.fd), unix.SHUT_WR) // fails when the peer has reset: reading finds that
}

// work gives a function of the conversation's to a worker.
func (l *loop) work(m *member, f func()) {
	l.server.workers.submit(func() {
		reason, stack := attempt(f)
		l.post(func() {
			if m.state != carrying {
				return
			}
			defer l.rescue(m)
			if stack != nil {
				m.panicked(reason, stack)
				l.release(m)
				return
			}
			m.tell(inputResumed, clientSide, nil, &l.out)
			l.act(m)
		})
	})
}

// arm asks epoll for what a session waits for.
func (l *loop) arm(m *member) {
	if m.state == released {
		return
	}
	m.account(cap(m.legs[clientSide].queue) + cap(m.legs[backendSide].queue))
	for at := range m.legs {
		g := &m.legs[at]
		if g.fd < 0 {
			continue
		}
		events := g.events & unix.EPOLLIN // given up only in pause
		if events == 0 && l.readable(m, side(at)) {
			events = unix.EPOLLIN
		}
		if g.queue != nil || m.connecting && side(at) == backendSide {
			events |= unix.EPOLLOUT
		}
		if events != g.events {
			l.watch(m, side(at), events)
		}
	}
}

// watch sets what epoll is asked for.
func (l *loop) watch(m *member, at side, events uint32) {
	g := &m.legs[at]
	op := unix.EPOLL_CTL_MOD
	if !g.watched {
		op = unix.EPOLL_CTL_ADD
	}
	l.calls.controls++
	e := unix.EpollEvent{Events: events, Fd: int32(m.slot<<1) | int32(at), Pad: int32(m.generation)}
	if err := unix.EpollCtl(l.epoll, op, int(g.fd), &e); err != nil {
		m.because("epoll")
		l.release(m)
		return
	}
	g.watched, g.events = true, events
}

// unwatch takes a descriptor out of the set.
func (l *loop) unwatch(m *member, at side) {
	g := &m.legs[at]
	if !g.watched {
		return
	}
	l.calls.controls++
	unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, int(g.fd), nil)
	g.watched, g.events = false, 0
}

// finish ends a conversation: the backend's connection goes, the client's when it has what is queued.
func (l *loop) finish(m *member) {
	m.state = flushing
	l.part(m)
	l.depart(m)
}

// part closes the backend connection, or keeps it for another client.
func (l *loop) part(m *member) {
	g := &m.legs[backendSide]
	if !g.eof && !g.dead && !g.shut && g.queue == nil {
		if greeting, ok := m.spare(); ok {
			l.unwatch(m, backendSide)
			fd := g.fd
			g.fd = -1
			m.backend.spares.adopt(func() (net.Conn, error) { return give(fd) }, greeting, m.dialled)
			return
		}
	}
	l.close(g)
}

// depart takes the client's connection one step further towards its end.
func (l *loop) depart(m *member) {
	g := &m.legs[clientSide]
	switch {
	case g.dead:
		l.release(m)
	case g.queue != nil:
		l.arm(m)
	case g.eof:
		l.release(m) // close sends the FIN
	default:
		l.shut(m, clientSide)
		m.state = discarding
		l.lingers = append(l.lingers, l.deadline(m, l.server.linger))
		l.arm(m)
	}
}

// discard throws away what a client still sends.
func (l *loop) discard(m *member) {
	g := &m.legs[clientSide]
	n, errno := l.calls.receive(g.fd, l.unused())
	if again(errno) {
		return
	}
	if m.discarded += int32(n); n == 0 || m.discarded > maxDiscard {
		l.release(m)
	}
}

// release ends a session at once.
func (l *loop) release(m *member) {
	if m.state == released {
		return
	}
	l.vacate(m)
	m.gone()
}

// vacate closes what a session has in the loop, and its place is another's.
func (l *loop) vacate(m *member) {
	m.state = released
	for at := range m.legs {
		l.close(&m.legs[at])
	}
	l.slots[m.slot] = slot{generation: m.generation + 1}
	l.vacant = append(l.vacant, m.slot)
	l.load.Add(-1)
}

// another gives a session whose backend failed back to the server if there is another backend for it. The client has seen nothing.
func (l *loop) another(m *member, err error) bool {
	if l.draining || l.stopping || !m.failedOver(err) {
		return false
	}
	l.unwatch(m, clientSide)
	fd, r := m.legs[clientSide].fd, m.relay
	m.legs[clientSide].fd = -1
	l.vacate(m)
	go func() {
		client, err := give(fd)
		if err != nil {
			r.because("descriptors")
			r.gone()
			return
		}
		l.server.connect(&r, client)
	}()
	return true
}

// close closes a leg's descriptor after the batch.
func (l *loop) close(g *leg) {
	if g.fd >= 0 {
		l.closing = append(l.closing, g.fd)
		g.fd = -1
		l.recycle(g)
	}
}

func (l *loop) closeDescriptors() {
	for _, fd := range l.closing {
		l.calls.others++
		unix.Close(int(fd)) // leaves the epoll set by that: the loop has the only descriptor of the socket
	}
	l.closing = l.closing[:0]
}

// buffer is an empty queue.
func (l *loop) buffer() []byte {
	if n := len(l.buffers); n > 0 {
		b := l.buffers[n-1]
		l.buffers = l.buffers[:n-1]
		return b
	}
	return make([]byte, 0, readSize)
}

// recycle takes a leg's queue away.
func (l *loop) recycle(g *leg) {
	if cap(g.queue) == readSize && len(l.buffers) < maxBuffers {
		l.buffers = append(l.buffers, g.queue[:0])
	}
	g.queue, g.taken = nil, 0
}

// afterBatch lets the sessions that asked for it do what no client waits for. One that asks again has to wait for the next batch.
func (l *loop) afterBatch() {
	n := len(l.eager)
	l.postpone = true
	for i := range n {
		m := l.eager[i]
		m.eager = false
		l.background(m)
		if len(l.parcels) == maxParcels {
			l.dispatch()
		}
	}
	l.dispatch()
	l.postpone = false
	rest := copy(l.eager, l.eager[n:])
	clear(l.eager[rest:])
	l.eager = l.eager[:rest]
}

// backgroundDelay is how long the reset of a table waits if the client is one that thinks behind the answer to its DROP: the
// server, waking at the same moment, would take the processor that the client wakes on.
const backgroundDelay = 100 * time.Microsecond

func (l *loop) background(m *member) {
	if m.state != carrying || !m.wantsBackground() {
		return
	}
	defer l.rescue(m)
	m.tell(inputBackground, backendSide, nil, &l.out)
	l.act(m)
}

// drain tells all sessions that the process is going down.
func (l *loop) drain() {
	l.draining = true
	for _, slot := range l.slots {
		if slot.s != nil && slot.s.state == carrying {
			l.drainOne(slot.s)
		}
	}
}

func (l *loop) drainOne(m *member) {
	defer l.rescue(m)
	if m.connecting {
		l.unreached(m, context.Canceled)
		return
	}
	m.tell(inputDrain, clientSide, nil, &l.out)
	l.act(m)
}

// expireIdle ends the sessions whose clients have said nothing, or taken nothing of what is left for them, since before that time.
func (l *loop) expireIdle(before int64) {
	for _, slot := range l.slots {
		m := slot.s
		switch {
		case m == nil || m.connecting:
		case m.state == carrying && m.legs[clientSide].queue == nil:
			l.attempt(m, func(m *member) {
				if m.overdue(before) {
					m.timedOut()
					m.tell(inputIdle, clientSide, nil, &l.out)
					l.act(m)
				}
			})
		case m.state == flushing && m.active < before:
			l.attempt(m, l.release)
		}
	}
}

func (l *loop) deadline(m *member, after time.Duration) deadline {
	return deadline{monotonic() + int64(after), m.slot, m.generation}
}

// due returns the session of a deadline if it still stands.
func (l *loop) due(d deadline, stands func(*member) bool) *member {
	slot := l.slots[d.slot]
	if slot.s == nil || slot.generation != d.generation || !stands(slot.s) {
		return nil
	}
	return slot.s
}

func dialling(m *member) bool  { return m.state == carrying && m.connecting }
func loggingIn(m *member) bool { return m.state == carrying && m.handshaking }
func lingering(m *member) bool { return m.state == discarding }

// next returns the deadlines of one kind without those in front that do not stand any more, and the earlier of t and the first
// of the rest. 0 is no time.
func (l *loop) next(list []deadline, stands func(*member) bool, t int64) ([]deadline, int64) {
	for len(list) > 0 && l.due(list[0], stands) == nil {
		list = list[1:]
	}
	if len(list) > 0 && (t == 0 || list[0].at < t) {
		t = list[0].at
	}
	return list, t
}

// timeout says how long to wait for events: until the next deadline, or -1 for ever. Deadlines that do not stand
// any more are dropped.
func (l *loop) timeout() time.Duration {
	var next int64
	l.dials, next = l.next(l.dials, dialling, next)
	l.logins, next = l.next(l.logins, loggingIn, next)
	l.lingers, next = l.next(l.lingers, lingering, next)
	if len(l.later) > 0 && (next == 0 || l.later[0].at < next) {
		next = l.later[0].at
	}
	if next == 0 {
		return -1
	}
	return time.Duration(max(next-monotonic(), 0))
}

// expire acts on deadlines that have come.
func (l *loop) expire() {
	if len(l.dials) == 0 && len(l.logins) == 0 && len(l.lingers) == 0 && len(l.later) == 0 {
		return
	}
	now := monotonic()
	for len(l.later) > 0 && l.later[0].at <= now {
		if slot := l.slots[l.later[0].slot]; slot.s != nil && slot.generation == l.later[0].generation {
			slot.s.eager = false
			l.background(slot.s)
		}
		l.later = l.later[1:]
	}
	l.dials = l.past(l.dials, now, dialling, func(m *member) { l.unreached(m, os.ErrDeadlineExceeded) })
	l.logins = l.past(l.logins, now, loggingIn, func(m *member) {
		m.overtime()
		l.finish(m)
	})
	l.lingers = l.past(l.lingers, now, lingering, l.release)
}

// past acts on the deadlines of one kind that have come, and returns the others.
func (l *loop) past(list []deadline, now int64, stands func(*member) bool, act func(*member)) []deadline {
	for len(list) > 0 && list[0].at <= now {
		if m := l.due(list[0], stands); m != nil {
			l.attempt(m, act)
		}
		list = list[1:]
	}
	return list
}

func (l *loop) attempt(m *member, act func(*member)) {
	defer l.rescue(m)
	act(m)
}
