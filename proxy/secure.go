package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

const (
	// maxHandshake bounds what either peer may send of a TLS handshake before the other one is to speak: certificates, that is.
	maxHandshake = 128 << 10
	recordSize   = 16 << 10 // most content of a record
	recordExtra  = 64       // bytes that a record has besides, at most
)

// errAbandoned ends handshakes of sessions that have ended.
var errAbandoned = errors.New("the session has ended")

// secured is TLS on one leg of a conversation: what arrives is given to it, what is to be sent comes out of it. It does no I/O and,
// but for step, never waits.
//
// The handshake, which crypto/tls cannot leave and take up again, runs in a goroutine of its own that is awake only during step.
// After that the connection reads until it is told that there is no more for now, which is a temporary error to it, and writes to
// memory. Reading always goes on until then: nothing stays behind in the connection but the beginning of a record.
type secured struct {
	side    side
	conn    *tls.Conn
	in      []byte // what conn may read: the leg's own memory in the handshake, the driver's after it
	out     []byte // what conn has written
	arrived []byte // what came while a step of the handshake was under way

	established bool
	protocol    uint16
	over        bool // the peer says nothing more
	parted      bool // nor do we

	started   bool
	more      chan struct{} // conn may read in again
	waiting   chan struct{} // conn has read everything
	finished  chan struct{} // closed behind err
	err       error         // of the handshake
	abandoned chan struct{} // closed: the handshake fails
}

// secureServer makes the leg of a client.
func secureServer(config *tls.Config) *secured {
	s := newSecured(clientSide)
	s.conn = tls.Server(transport{s}, config)
	return s
}

// secureClient makes the leg of a backend.
func secureClient(config *tls.Config) *secured {
	s := newSecured(backendSide)
	s.conn = tls.Client(transport{s}, config)
	return s
}

func newSecured(at side) *secured {
	return &secured{side: at, more: make(chan struct{}, 1), waiting: make(chan struct{}, 1), finished: make(chan struct{}), abandoned: make(chan struct{})}
}

// step goes on with the handshake, with what has arrived, until more is needed or it is done: see done. It is called on a worker.
func (s *secured) step() {
	if s.started {
		s.more <- struct{}{}
	} else {
		s.started = true
		go func() {
			defer close(s.finished)
			if reason, stack := attempt(func() { s.err = s.conn.Handshake() }); stack != nil {
				s.err = fmt.Errorf("panic: %v", reason)
			}
		}()
	}
	select {
	case <-s.waiting:
	case <-s.finished:
	}
}

// done says whether the handshake is over, and how it went. It is called between steps.
func (s *secured) done() (bool, error) {
	select {
	case <-s.finished:
		s.established = s.err == nil
		return true, s.err
	default:
		return false, nil
	}
}

// abandon ends the handshake if there is one. It is called once, at any time but in the middle of another call than step.
func (s *secured) abandon() { close(s.abandoned) }

// open decrypts b, behind what arrived in the handshake. It returns new memory. The peer's farewell is io.EOF.
func (s *secured) open(b []byte) (plain []byte, err error) {
	if len(s.in) > 0 {
		b = append(s.in, b...)
	}
	s.in = b
	plain = make([]byte, 0, len(b)+recordExtra)
	for err == nil {
		plain = slices.Grow(plain, 1) // twice as much, if any
		var n int
		n, err = s.conn.Read(plain[len(plain):cap(plain)])
		plain = plain[:len(plain)+n]
	}
	s.in = nil
	if err == errNoMore {
		err = nil
	}
	return plain, err
}

// seal encrypts b. It returns new memory.
func (s *secured) seal(b []byte) []byte {
	s.out = append(make([]byte, 0, len(s.out)+len(b)+(len(b)/recordSize+1)*recordExtra), s.out...)
	s.conn.Write(b) // to memory: it fails only when the connection has failed before, and then the session ends
	return s.take()
}

// farewell is what tells the peer that nothing more comes; nil if it was told.
func (s *secured) farewell() []byte {
	if s.parted {
		return nil
	}
	s.parted = true
	s.conn.CloseWrite()
	return s.take()
}

// take returns what is to be sent.
func (s *secured) take() []byte {
	b := s.out
	s.out = nil
	return b
}

// transport is what the connection of a secured leg reads from and writes to.
type transport struct{ s *secured }

// errNoMore says that nothing is there to be read now. crypto/tls takes up reading again after a temporary error.
var errNoMore net.Error = noMore{}

type noMore struct{}

func (noMore) Error() string   { return "nothing more for now" }
func (noMore) Timeout() bool   { return true }
func (noMore) Temporary() bool { return true }

func (t transport) Read(b []byte) (int, error) {
	s := t.s
	for len(s.in) == 0 {
		if s.established {
			return 0, errNoMore
		}
		s.waiting <- struct{}{}
		select {
		case <-s.more:
		case <-s.abandoned:
			return 0, errAbandoned
		}
	}
	n := copy(b, s.in)
	s.in = s.in[n:]
	return n, nil
}

func (t transport) Write(b []byte) (int, error) {
	t.s.out = append(t.s.out, b...)
	return len(b), nil
}

func (transport) Close() error                     { return nil }
func (transport) LocalAddr() net.Addr              { return memory{} }
func (transport) RemoteAddr() net.Addr             { return memory{} }
func (transport) SetDeadline(time.Time) error      { return nil }
func (transport) SetReadDeadline(time.Time) error  { return nil }
func (transport) SetWriteDeadline(time.Time) error { return nil }

// memory is the address of what has none.
type memory struct{}

func (memory) Network() string { return "memory" }
func (memory) String() string  { return "memory" }
