package proxy

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tmpproxy/wire"
)

// spares keeps backend connections that were greeted but not logged in to, for the next clients. Servers count connections that
// end before the login against the address they come from, and block it after 100 without a success in between: clients that
// leave early should not cost that. Safe for concurrent use.
type spares struct {
	max int
	age time.Duration // since the dial; well below the server's connect_timeout

	kept, used, expired atomic.Uint64

	mu      sync.Mutex
	list    []*spare // the oldest first
	closed  bool
	watches sync.WaitGroup
}

// spare is one connection. A goroutine reads from it: a server that speaks or closes has given it up.
type spare struct {
	conn     net.Conn
	greeting []byte
	dialled  int64
	ready    bool      // the greeting is whole
	taken    bool      // not on the list any more
	answer   chan bool // when taken: whether it is good
}

// adopt takes a connection over. greeting is what has been read of the greeting; what is missing is awaited. It does not block:
// open, which makes the connection, is called in another goroutine.
func (p *spares) adopt(open func() (net.Conn, error), greeting []byte, dialled int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		if conn, err := open(); err == nil {
			conn.Close()
		}
		return
	}
	p.watches.Go(func() {
		if conn, err := open(); err == nil {
			p.watch(&spare{conn: conn, greeting: greeting, dialled: dialled, answer: make(chan bool, 1)})
		}
	})
}

// watch keeps a spare until its time is over, the server speaks or closes, or it is taken.
func (p *spares) watch(s *spare) {
	s.conn.SetReadDeadline(time.Now().Add(p.age - time.Duration(monotonic()-s.dialled)))
	if !p.add(s) {
		takeLeave(s.conn, s.greeting)
		s.conn.Close()
		return
	}
	greeting, err := readPacket(s.conn, s.greeting)
	n := 0
	if err == nil {
		p.mu.Lock()
		s.greeting, s.ready = greeting, true
		p.mu.Unlock()
		n, err = s.conn.Read(make([]byte, 1))
	}
	silent := n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
	if p.remove(s) {
		s.answer <- silent
		return
	}
	if silent {
		takeLeave(s.conn, s.greeting)
	}
	s.conn.Close()
}

// add puts a spare on the list if there is room.
func (p *spares) add(s *spare) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.list) >= p.max {
		return false
	}
	p.kept.Add(1)
	p.list = append(p.list, s)
	return true
}

// remove takes a spare from the list unless that was done: then it returns true.
func (p *spares) remove(s *spare) (taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.taken {
		return true
	}
	p.list = slices.DeleteFunc(p.list, func(other *spare) bool { return other == s })
	p.expired.Add(1)
	return false
}

// take returns the oldest spare, its greeting and when it was dialled, or nil.
func (p *spares) take() (conn net.Conn, greeting []byte, dialled int64) {
	for {
		s := p.first()
		if s == nil {
			return nil, nil, 0
		}
		s.conn.SetReadDeadline(time.Unix(1, 0))
		if <-s.answer {
			s.conn.SetReadDeadline(time.Time{})
			p.used.Add(1)
			return s.conn, s.greeting, s.dialled
		}
		s.conn.Close()
	}
}

// empty says whether there is none to take.
func (p *spares) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list) == 0
}

func (p *spares) first() *spare {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.list, func(s *spare) bool { return s.ready })
	if i < 0 {
		return nil
	}
	s := p.list[i]
	s.taken = true
	p.list = slices.Delete(p.list, i, i+1)
	return s
}

// close ends all spares and returns when they are closed.
func (p *spares) close() {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.list {
		s.conn.SetReadDeadline(time.Unix(1, 0))
	}
	p.mu.Unlock()
	p.watches.Wait()
}

// takeLeave tries to log in as an account that should not exist, without a password, and waits for the refusal. That is how a
// greeted connection ends without being counted against our address (observed on MySQL 9.7 and MariaDB 10.11; a mere close is
// counted).
func takeLeave(conn net.Conn, greeting []byte) {
	conn.SetDeadline(time.Now().Add(time.Second))
	greeting, err := readPacket(conn, greeting)
	if err != nil {
		return
	}
	g, err := wire.ParseGreeting(greeting[wire.HeaderSize:])
	if err != nil || g.Err != nil {
		return
	}
	const capabilities = wire.ClientLongPassword | wire.ClientProtocol41 | wire.ClientSecureConnection | wire.ClientPluginAuth
	login := binary.LittleEndian.AppendUint32(make([]byte, wire.HeaderSize), uint32(capabilities))
	login = append(login, 0, 0, 0, 1, 45)         // the largest packet; utf8mb4
	login = append(login, make([]byte, 23)...)    // reserved
	login = append(login, "tmpproxy\x00\x00"...)  // account; no password
	login = append(append(login, g.Plugin...), 0) // the server's own plugin
	wire.PutHeader(login, len(login)-wire.HeaderSize, 1)
	conn.Write(login)
	answer, err := readPacket(conn, nil)
	if err == nil && len(answer) > wire.HeaderSize && answer[wire.HeaderSize] == 0xFE { // another plugin is asked for: nothing again
		conn.Write([]byte{0, 0, 0, answer[3] + 1})
		readPacket(conn, nil)
	}
}
