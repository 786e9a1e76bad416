package proxy

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	hopTrips = 200 // round trips each way
	hopBytes = 64
	hopAge   = time.Minute // how long a figure is used
	hopLimit = 2 * time.Second
)

// hop knows what the way through the proxy costs a statement. Safe for concurrent use; the zero value is ready.
type hop struct {
	mu      sync.Mutex
	at      int64
	seconds float64
}

// measure returns by how many seconds a round trip is longer through a proxy like this one: one of its own, with a driver of that name,
// that relays bytes over loopback to an echo, against the echo alone. 0: it could not be measured.
func (h *hop) measure(driver string) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == 0 || monotonic()-h.at > int64(hopAge) {
		h.seconds, _ = measureHop(driver)
		h.at = monotonic()
	}
	return h.seconds
}

func measureHop(driver string) (float64, error) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer echo.Close()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}, make([]byte, hopBytes))
			}()
		}
	}()
	s, err := NewServer(zap.NewNop(), Options{Listen: []string{"127.0.0.1:0"}, Backend: echo.Addr().String(), Driver: driver, Loops: 1})
	if err != nil {
		return 0, err
	}
	s.newConversation = newRawConversation
	if err := s.Listen(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	defer func() {
		cancel()
		<-served
	}()

	var conns [2]net.Conn // directly, and through the proxy
	for i, address := range []net.Addr{echo.Addr(), s.Addresses()[0]} {
		if conns[i], err = net.Dial("tcp", address.String()); err != nil {
			return 0, err
		}
		defer conns[i].Close()
		_ = conns[i].SetDeadline(time.Now().Add(hopLimit))
	}
	var times [2][]int64
	b := make([]byte, hopBytes)
	for trip := range hopTrips + hopTrips/4 {
		for i, conn := range conns {
			began := monotonic()
			if _, err := conn.Write(b); err != nil {
				return 0, err
			}
			if _, err := io.ReadFull(conn, b); err != nil {
				return 0, err
			}
			if trip >= hopTrips/4 { // the first ones find nothing in the caches
				times[i] = append(times[i], monotonic()-began)
			}
		}
	}
	return float64(max(median(times[1])-median(times[0]), 0)) / float64(time.Second), nil
}
