package proxy

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
)

// late is a listener whose deadline has passed every other time before Accept is called, as when its thread is kept from the processor.
type late struct {
	listening
	calls int
}

type listening interface {
	net.Listener
	syscall.Conn
	SetDeadline(time.Time) error
}

func (l *late) SetDeadline(at time.Time) error {
	if l.calls++; l.calls%2 == 1 {
		at = time.Unix(1, 0)
	}
	return l.listening.SetDeadline(at)
}

// TestHandOverQueue fills the queues of listeners that nobody accepts from yet, and ends the server at once: every client gets its
// session, and none that comes later is reset.
func TestHandOverQueue(t *testing.T) {
	const n = 50
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			watchLeaks(t)
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "p.sock")
			}
			l, err := Listen(address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if queued(l) {
				t.Error("somebody waits where nobody came")
			}
			var clients []net.Conn
			for range n {
				conn, err := net.Dial(network, l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				clients = append(clients, conn)
			}
			if !queued(l) {
				t.Error("nobody waits")
			}
			s, err := NewServer(zap.NewNop(), Options{Listen: []string{address}, Backends: []string{"127.0.0.1:1"}, Driver: "loop", Limits: Limits{MaxSessions: 1}})
			if err != nil {
				t.Fatal(err)
			}
			s.active.Store(1) // all are refused, with an answer
			s.listeners = []net.Listener{l}
			s.last.Store(true)
			s.accept(&late{listening: l.(listening)})
			for i, conn := range clients {
				conn.SetReadDeadline(time.Now().Add(patience))
				if p, err := readPacket(conn, nil); err != nil || p[4] != 0xFF {
					t.Fatalf("client %d: %q, %v", i, p, err)
				}
			}
			s.cancel()
		})
	}
}
