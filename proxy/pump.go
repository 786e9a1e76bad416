package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"time"
)

// pump carries sessions with goroutines over net.Conn: a reader and a writer for each side, around a lock. It is the driver on
// systems without event loops, and what these are compared with. A pause is no promise: a reader that is at it goes on for one
// read. The reset of a client that is paused is noticed only when it is read again.
type pump struct {
	server *Server

	mu       sync.Mutex
	sessions map[*pumped]struct{}
	draining bool
	stopped  bool
}

func newPump(s *Server) *pump { return &pump{server: s, sessions: map[*pumped]struct{}{}} }

// pumped is one session. The lock guards everything but reading from and writing to the connections; the condition tells the
// goroutines of any change.
type pumped struct {
	relay
	mu      sync.Mutex
	changed sync.Cond
	legs    [2]hose
	out     output
	over    bool // the conversation is not called any more
	another bool // and the session goes on with another backend
	aborted bool // and nobody gets anything
}

// hose is one connection of a session.
type hose struct {
	conn    net.Conn
	queue   []byte // for the writer
	writing bool   // the writer is at what it took from queue
	taken   int    // the memory of that
	eof     bool   // there is nothing more to read
	dead    bool   // writing failed
	shut    bool   // a FIN goes behind what is queued
}

func (h *hose) idle() bool { return len(h.queue) == 0 && !h.writing }

func (*pump) open(*relay, net.Conn) bool { return false }

func (p *pump) carry(r *relay, client, backend net.Conn, greeting []byte) {
	s := &pumped{relay: *r, legs: [2]hose{clientSide: {conn: client}, backendSide: {conn: backend}}}
	s.changed.L = &s.mu
	p.mu.Lock()
	p.sessions[s] = struct{}{}
	draining := p.draining
	s.aborted = p.stopped
	p.mu.Unlock()

	s.run(greeting, draining)

	p.mu.Lock()
	delete(p.sessions, s)
	p.mu.Unlock()
	if s.another {
		next := s.relay
		p.server.connect(&next, client)
		return
	}
	s.mu.Lock() // a visit may have begun before
	s.gone()
	s.mu.Unlock()
}

// each calls f for every session, its lock held.
func (p *pump) each(f func(*pumped)) {
	p.mu.Lock()
	all := make([]*pumped, 0, len(p.sessions))
	for s := range p.sessions {
		all = append(all, s)
	}
	p.mu.Unlock()
	for _, s := range all {
		s.mu.Lock()
		f(s)
		s.mu.Unlock()
	}
}

func (p *pump) visit(f func(*relay)) {
	p.each(func(s *pumped) { f(&s.relay) })
}

// alive says nothing of single sessions, which have goroutines of their own: they cannot hold up one another.
func (p *pump) alive(context.Context) error { return nil }

func (p *pump) drain() {
	p.mu.Lock()
	p.draining = true
	p.mu.Unlock()
	p.each(func(s *pumped) { s.say(inputDrain, clientSide, nil) })
}

func (p *pump) expire(before int64) {
	p.each(func(s *pumped) {
		switch waiting := !s.legs[clientSide].idle(); {
		case !s.over && !waiting && s.overdue(before):
			s.timedOut()
			s.say(inputIdle, clientSide, nil)
		case s.over && waiting && s.active < before:
			s.abort() // what is left for it is not taken
		}
	})
}

func (p *pump) stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.each(func(s *pumped) {
		s.because(cutOff)
		s.abort()
	})
}

// run is the session's life.
func (s *pumped) run(greeting []byte, draining bool) {
	var readers sync.WaitGroup
	var writers [2]sync.WaitGroup
	s.mu.Lock()
	if s.aborted {
		s.abort()
	}
	s.say(inputStart, backendSide, greeting)
	if draining {
		s.say(inputDrain, clientSide, nil)
	}
	for _, at := range []side{clientSide, backendSide} {
		readers.Go(func() { s.read(at) })
		writers[at].Go(func() { s.write(at) })
	}
	if limit := s.server.limits().HandshakeTimeout; limit > 0 {
		timer := time.AfterFunc(limit, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.handshaking && !s.over {
				s.overtime()
				s.end()
			}
		})
		defer timer.Stop()
	}
	for !s.over {
		s.changed.Wait()
	}
	client, backend := &s.legs[clientSide], &s.legs[backendSide]
	keep := !s.aborted && !backend.eof && !backend.dead && !backend.shut && backend.idle()
	var last []byte // that the backend is told
	if !s.aborted && !backend.dead && !backend.shut {
		last, backend.queue = backend.queue, nil
	}
	s.mu.Unlock()

	// Readers and the backend's writer end by their deadlines; the client's writer ends when it has written what is queued.
	client.conn.SetReadDeadline(time.Unix(1, 0))
	backend.conn.SetDeadline(time.Unix(1, 0))
	if len(last) > 0 { // behind what the writer is at, which has most likely gone
		backend.conn.SetWriteDeadline(time.Now().Add(time.Second))
	}
	readers.Wait()
	var spare []byte
	if keep {
		spare, keep = s.spare()
	}
	if keep {
		backend.conn.SetDeadline(time.Time{})
		s.backend.spares.adopt(func() (net.Conn, error) { return backend.conn, nil }, spare, s.dialled)
	} else {
		writers[backendSide].Wait()
		if len(last) > 0 && !backend.dead {
			backend.conn.Write(last)
		}
		backend.conn.Close()
	}
	writers[backendSide].Wait()
	writers[clientSide].Wait()
	if s.another {
		client.conn.SetReadDeadline(time.Time{})
		return
	}
	if !client.eof && !client.dead {
		farewell(client.conn, s.server.linger)
	}
	client.conn.Close()
}

// read hands what arrives from a side to the conversation.
func (s *pumped) read(at side) {
	h, other := &s.legs[at], &s.legs[at.other()]
	buf := make([]byte, readSize)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.rescue()
	for {
		for !s.over && !(other.idle() && s.wants(at)) {
			s.changed.Wait()
		}
		if s.over {
			return
		}
		s.mu.Unlock()
		n, err := h.conn.Read(buf)
		s.mu.Lock()
		if n > 0 {
			s.say(inputReceived, at, buf[:n])
		}
		if err != nil && !s.over {
			h.eof = true
			if at == backendSide && s.ungreeted() && s.failedOver(errNoGreeting) {
				s.another = true
				s.end()
				return
			}
			if errors.Is(err, io.EOF) {
				s.say(inputEnded, at, nil)
			} else {
				s.say(inputReadFailed, at, nil)
			}
			return
		}
	}
}

// write writes what is queued for a side, and the FIN behind it.
func (s *pumped) write(to side) {
	h := &s.legs[to]
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(h.queue) == 0 && !h.shut && !s.over {
			s.changed.Wait()
		}
		if len(h.queue) == 0 || h.dead || s.aborted || s.over && to == backendSide {
			if h.shut && !h.dead && !s.aborted {
				h.conn.(interface{ CloseWrite() error }).CloseWrite()
			}
			return
		}
		b := h.queue
		h.queue, h.writing, h.taken = nil, true, cap(b)
		s.mu.Unlock()
		_, err := h.conn.Write(b)
		s.mu.Lock()
		h.writing, h.taken = false, 0
		if h.queue == nil && cap(b) <= 2*readSize {
			h.queue = b[:0] // garbage of a whole result would pile up where the collector is slow
		}
		if to == clientSide {
			s.active = monotonic()
		}
		s.count()
		s.changed.Broadcast()
		if err != nil {
			h.dead, h.queue = true, nil
			s.count()
			s.say(inputWriteFailed, to, nil)
			return
		}
	}
}

// say gives the conversation an input and carries out what it says.
func (s *pumped) say(in input, at side, b []byte) {
	defer s.rescue()
	if s.over {
		return
	}
	s.tell(in, at, b, &s.out)
	s.act()
	if !s.over && s.wantsBackground() {
		s.tell(inputBackground, backendSide, nil, &s.out)
		s.act()
	}
}

func (s *pumped) act() {
	for _, r := range s.out.runs {
		h := &s.legs[r.to]
		if h.dead || h.shut {
			continue
		}
		if len(h.queue)+len(r.b) > s.mayQueue() {
			s.overflow(r.to)
			s.abort()
			return
		}
		h.queue = append(h.queue, r.b...)
	}
	for at, shut := range s.out.shut {
		s.legs[at].shut = s.legs[at].shut || shut
	}
	if s.out.end {
		s.end()
	} else if work := s.out.work; work != nil {
		s.server.workers.submit(func() {
			reason, stack := attempt(work)
			s.mu.Lock()
			defer s.mu.Unlock()
			if stack != nil && !s.over {
				s.panicked(reason, stack)
				s.abort()
				return
			}
			s.say(inputResumed, clientSide, nil)
		})
	}
	s.count()
	s.changed.Broadcast()
}

// count accounts for what the session holds. An empty queue is one of the writer's two buffers.
func (s *pumped) count() {
	queued := 0
	for at := range s.legs {
		h := &s.legs[at]
		if queued += h.taken; len(h.queue) > 0 {
			queued += cap(h.queue)
		}
	}
	s.account(queued)
}

// rescue is deferred where the conversation is called: a panic ends its session and nothing else.
func (s *pumped) rescue() {
	if reason := recover(); reason != nil {
		s.panicked(reason, debug.Stack())
		s.abort()
	}
}

func (s *pumped) end() {
	s.over = true
	s.changed.Broadcast()
}

func (s *pumped) abort() {
	s.aborted = true
	for at := range s.legs {
		s.legs[at].conn.Close()
	}
	s.end()
}
