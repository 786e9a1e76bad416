package bench

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A relay stands for a network between its clients and a server: it passes all bytes on, each way half a round trip later.
// One thread does it with a timer of the kernel's, since the runtime's are up to a millisecond late when the process is
// idle. What it really takes is for the user to measure.
type relay struct {
	address  string
	target   string
	oneWay   time.Duration
	listener net.Listener
	done     chan struct{} // closed when the loop has ended

	mu     sync.Mutex // of what follows, which the loop and accept use
	epoll  int
	timer  int
	wake   int // an eventfd that ends the loop
	ended  bool
	halves map[int32]*half // by the number in their events
	last   int32
	queue  []chunk // in the order in which they are due
	armed  bool    // the timer is set, for the queue's first
}

// A half is one direction of a connection.
type half struct {
	number  int32
	from    int   // descriptor
	back    *half // the other direction: it reads what this one writes to
	pending []byte
	held    int    // bytes that were read and not yet written
	events  uint32 // that from is waited for
	deaf    bool   // from has nothing to tell any more and is waited for no longer
	paused  bool
	ending  bool // the end has been read
	ended   bool // and passed on
	closed  bool
}

// A chunk is what was read at once; no bytes stand for the end.
type chunk struct {
	half *half
	data []byte
	due  time.Duration // on the monotonic clock
}

const mostHeld = 4 << 20 // bytes of one direction that may be under way

// The numbers of events that are no connection's.
const (
	timerEvent = -1
	wakeEvent  = -2
)

// newRelay starts a relay to the server at target, host:port. The caller closes it.
func newRelay(target string, roundTrip time.Duration) (*relay, error) {
	r := &relay{target: target, oneWay: roundTrip / 2, done: make(chan struct{}), halves: make(map[int32]*half), epoll: -1, timer: -1, wake: -1}
	if err := r.open(); err != nil {
		r.closeDescriptors()
		return nil, fmt.Errorf("relay with a round trip of %v: %w", roundTrip, err)
	}
	r.address = r.listener.Addr().String()
	go r.accept()
	go r.loop()
	return r, nil
}

func (r *relay) open() error {
	var err error
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if r.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	if r.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	for number, fd := range map[int32]int{timerEvent: r.timer, wakeEvent: r.wake} {
		if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: number}); err != nil {
			return os.NewSyscallError("epoll_ctl", err)
		}
	}
	r.listener, err = net.Listen("tcp", "127.0.0.1:0")
	return err
}

// close ends the relay and all its connections.
func (r *relay) close() error {
	err := r.listener.Close()
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	_, wakeErr := unix.Write(r.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	if wakeErr == nil {
		<-r.done
	}
	return errors.Join(err, wakeErr)
}

func (r *relay) closeDescriptors() {
	for _, fd := range []int{r.epoll, r.timer, r.wake} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// accept connects every client to the server. A client whose server cannot be reached is closed.
func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			client.Close()
			continue
		}
		r.add(client, server)
	}
}

// add takes both connections.
func (r *relay) add(client, server net.Conn) {
	a, err := takeDescriptor(client)
	if err != nil {
		server.Close()
		return
	}
	b, err := takeDescriptor(server)
	if err != nil {
		_ = unix.Close(a)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		_ = unix.Close(a)
		_ = unix.Close(b)
		return
	}
	up, down := &half{number: r.last + 1, from: a, events: unix.EPOLLIN}, &half{number: r.last + 2, from: b, events: unix.EPOLLIN}
	r.last += 2
	up.back, down.back = down, up
	r.halves[up.number], r.halves[down.number] = up, down
	for _, h := range []*half{up, down} {
		if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, h.from, &unix.EpollEvent{Events: h.events, Fd: h.number}); err != nil {
			r.drop(h)
			return
		}
	}
}

func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail
	return time.Duration(t.Nano())
}

func (r *relay) loop() {
	defer ownThread()()
	defer close(r.done)
	events := make([]unix.EpollEvent, 64)
	buffer := make([]byte, 64<<10)
	for {
		n, err := unix.EpollWait(r.epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return
		}
		r.mu.Lock()
		for _, e := range events[:max(n, 0)] {
			switch {
			case e.Fd == timerEvent:
				var expirations [8]byte
				_, _ = unix.Read(r.timer, expirations[:])
				r.armed = false
			case e.Fd == wakeEvent:
			default:
				r.handle(e, buffer)
			}
		}
		r.pass()
		if r.ended {
			for _, h := range r.halves {
				r.drop(h)
			}
			r.closeDescriptors()
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
	}
}

// handle takes an event of one connection's descriptor.
func (r *relay) handle(e unix.EpollEvent, buffer []byte) {
	h := r.halves[e.Fd]
	if h == nil {
		return // closed by an event before this one
	}
	if e.Events&unix.EPOLLOUT != 0 && !r.flush(h.back) {
		return
	}
	if h.paused || h.ending {
		switch {
		case e.Events&unix.EPOLLERR != 0:
			r.drop(h)
		case e.Events&unix.EPOLLHUP != 0: // it would be told over and over
			h.deaf = unix.EpollCtl(r.epoll, unix.EPOLL_CTL_DEL, h.from, nil) == nil
		}
		return
	}
	n, err := unix.Read(h.from, buffer)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return
	case err != nil:
		r.drop(h)
		return
	}
	h.ending = n == 0
	h.held += n
	r.queue = append(r.queue, chunk{h, append([]byte(nil), buffer[:n]...), monotonic() + r.oneWay})
	r.watch(h)
}

// watch says what the descriptor that h reads from is waited for.
func (r *relay) watch(h *half) {
	h.paused = h.held >= mostHeld
	var events uint32
	if !h.paused && !h.ending {
		events |= unix.EPOLLIN
	}
	if len(h.back.pending) > 0 {
		events |= unix.EPOLLOUT
	}
	if h.deaf || events == h.events {
		return
	}
	h.events = events
	if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_MOD, h.from, &unix.EpollEvent{Events: events, Fd: h.number}); err != nil {
		r.drop(h)
	}
}

// pass writes what is due and sets the timer for what is not.
func (r *relay) pass() {
	now := monotonic()
	passed := 0
	for _, c := range r.queue {
		if c.due > now {
			break
		}
		passed++
		if !c.half.closed {
			c.half.pending = append(c.half.pending, c.data...)
			c.half.ended = len(c.data) == 0
			r.flush(c.half)
		}
	}
	if passed > 0 {
		r.queue = append(r.queue[:0], r.queue[passed:]...)
	}
	if len(r.queue) == 0 || r.armed {
		return
	}
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(r.queue[0].due.Nanoseconds())}
	r.armed = unix.TimerfdSettime(r.timer, unix.TFD_TIMER_ABSTIME, &at, nil) == nil
}

// flush writes what is due of a direction, and says whether the connection is still there.
func (r *relay) flush(h *half) bool {
	for len(h.pending) > 0 {
		n, err := unix.Write(h.back.from, h.pending)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			break
		}
		if err != nil {
			r.drop(h)
			return false
		}
		h.pending = h.pending[n:]
		h.held -= n
	}
	if len(h.pending) == 0 {
		h.pending = nil
		if h.ended {
			if h.back.ended && len(h.back.pending) == 0 {
				r.drop(h)
				return false
			}
			_ = unix.Shutdown(h.back.from, unix.SHUT_WR)
		}
	}
	r.watch(h.back) // it is waited for until it takes the rest
	if !h.closed && h.paused {
		r.watch(h)
	}
	return !h.closed
}

// drop closes a connection, both ways.
func (r *relay) drop(h *half) {
	if h.closed {
		return
	}
	for _, side := range []*half{h, h.back} {
		side.closed = true
		side.pending = nil
		delete(r.halves, side.number)
		_ = unix.Close(side.from)
	}
}
