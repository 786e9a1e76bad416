package proxy

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"go.uber.org/zap"

	"tmpproxy/advice"
)

const (
	hopTrips = 100 // round trips each way
	hopBytes = 64
	hopPause = 500 * time.Microsecond // before each: most clients think, and what sleeps wakes up slowly
	hopAge   = time.Minute            // how long a figure is used
	hopLimit = 5 * time.Second

	// realHop is how many times as long the way through the proxy is for a statement between three processes as for bytes between threads of
	// one: 52 to 80 µs, measured on MySQL 9.7 and MariaDB 10.11, against 21 to 30 µs.
	realHop = 2.6
)

// hop knows what the way through the proxy costs a statement. Safe for concurrent use; the zero value is ready.
type hop struct {
	mu     sync.Mutex
	at     int64
	figure advice.Assumptions
}

// measure returns by how many seconds a statement is slower through a proxy like this one, with a driver of that name: measured through
// one that serves nobody else, with statements of the monitor account or else with bytes that are sent back.
func (h *hop) measure(driver string, m *Monitor) advice.Assumptions {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == 0 || monotonic()-h.at > int64(hopAge) {
		h.figure = measureHop(driver, m)
		h.at = monotonic()
	}
	return h.figure
}

func measureHop(driver string, m *Monitor) advice.Assumptions {
	ctx, cancel := context.WithTimeout(context.Background(), hopLimit)
	defer cancel()
	if m != nil && m.User != "" {
		if s, err := statementHop(ctx, driver, m); err == nil {
			return advice.Assumptions{Hop: s, HopBy: advice.ByStatements}
		}
	}
	if s, err := echoHop(ctx, driver); err == nil {
		return advice.Assumptions{Hop: realHop * s, HopBy: advice.ByEcho}
	}
	return advice.Assumptions{}
}

// statementHop measures with a statement that does nothing.
func statementHop(ctx context.Context, driver string, m *Monitor) (float64, error) {
	var seconds float64
	err := withProxy(ctx, driver, m.Address, newConversation, func(address string) error {
		through := *m
		through.Address = address
		return m.login(ctx, func(direct *client.Conn) error {
			return through.login(ctx, func(proxied *client.Conn) error {
				do := func(c *client.Conn) func() error {
					return func() error {
						_, err := c.Execute("DO 0")
						return err
					}
				}
				var err error
				seconds, err = longer(do(direct), do(proxied))
				return err
			})
		})
	})
	return seconds, err
}

// echoHop measures with bytes over loopback.
func echoHop(ctx context.Context, driver string) (float64, error) {
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
	var seconds float64
	raw := func(*shared) *conversation { return newRawConversation() }
	err = withProxy(ctx, driver, echo.Addr().String(), raw, func(address string) error {
		var trips [2]func() error
		for i, address := range []string{echo.Addr().String(), address} {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				return err
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(hopLimit))
			b := make([]byte, hopBytes)
			trips[i] = func() error {
				if _, err := conn.Write(b); err != nil {
					return err
				}
				_, err := io.ReadFull(conn, b)
				return err
			}
		}
		var err error
		seconds, err = longer(trips[0], trips[1])
		return err
	})
	return seconds, err
}

// withProxy calls f with the address of a proxy that serves only the caller.
func withProxy(ctx context.Context, driver, backend string, of func(*shared) *conversation, f func(address string) error) error {
	s, err := NewServer(zap.NewNop(), Options{Listen: []string{"127.0.0.1:0"}, Backends: []string{backend}, Driver: driver, Loops: 1, ConnectTimeout: hopLimit})
	if err != nil {
		return err
	}
	s.newConversation = func() *conversation { return of(s.shared) }
	if err := s.Listen(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	defer func() {
		cancel()
		<-served
	}()
	return f(s.Addresses()[0].String())
}

// longer returns by how many seconds the median of one kind of round trip is longer than that of another, taken in turns.
func longer(than, what func() error) (float64, error) {
	var times [2][]int64
	for trip := range hopTrips + hopTrips/4 {
		for i, f := range []func() error{than, what} {
			time.Sleep(hopPause)
			began := monotonic()
			if err := f(); err != nil {
				return 0, err
			}
			if trip >= hopTrips/4 { // the first ones find nothing in the caches
				times[i] = append(times[i], monotonic()-began)
			}
		}
	}
	return float64(max(median(times[1])-median(times[0]), 0)) / float64(time.Second), nil
}
