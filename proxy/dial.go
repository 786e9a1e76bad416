package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tmpproxy/wire"
)

// dial connects to the backend.
func (s *Server) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: s.options.ConnectTimeout, KeepAliveConfig: keepAlive}
	conn, err := d.DialContext(ctx, network(s.options.Backend), s.options.Backend)
	if err != nil {
		s.dialFailed()
		return nil, err
	}
	s.lastContact.Store(monotonic())
	return conn, nil
}

func (s *Server) dialFailed() {
	s.counts.DialFailures.Add(1)
	s.lastFailure.Store(monotonic())
}

// unreached notes that a session's backend was not reached, and says what to tell the client.
func (s *Server) unreached(r *relay, err error) []byte {
	s.journal.write(zapcore.WarnLevel, "backend not reached", zap.Uint64("conn_id", r.id), zap.String("client", r.client),
		zap.String("backend", s.options.Backend), zap.Error(err))
	r.because("backend not reached")
	return refusal(wire.Err{Code: 2003, State: "HY000", Message: fmt.Sprintf(
		"Can't connect to MySQL server on '%s' (%s)", s.options.Backend, s.reason(err))})
}

// connect gives a new session its backend connection and hands both over to the driver.
func (s *Server) connect(r *relay, client net.Conn) {
	backend, greeting, dialled := s.spares.take()
	if backend == nil {
		var err error
		if backend, err = s.dial(s.dialing); err != nil {
			answer := s.unreached(r, err)
			client.SetWriteDeadline(time.Now().Add(time.Second))
			client.Write(answer)
			farewell(client, s.linger)
			client.Close()
			r.gone()
			return
		}
		dialled = monotonic()
	}
	r.dialled = dialled
	s.driver.carry(r, client, backend, greeting)
}

// reason says in a few words why a dial failed.
func (s *Server) reason(err error) string {
	var (
		network net.Error
		dns     *net.DNSError
		errno   syscall.Errno
	)
	switch {
	case errors.Is(err, context.Canceled):
		return "tmpproxy is shutting down"
	case errors.As(err, &dns):
		return dns.Error()
	case errors.As(err, &network) && network.Timeout():
		return fmt.Sprintf("no answer within %v", s.options.ConnectTimeout)
	case errors.As(err, &errno):
		return errno.Error()
	}
	return err.Error()
}

// shortage ends a session that found no descriptors.
func (s *Server) shortage(r *relay, client net.Conn, err error) {
	s.counts.Shortages.Add(1)
	s.journal.write(zapcore.WarnLevel, "no descriptors for a session", zap.Uint64("conn_id", r.id), zap.String("client", r.client), zap.Error(err))
	s.refuse(client, errTooManyConnections)
	r.because("descriptors")
	r.gone()
}

// readyFor is how long a backend that was reached, and has not failed since, counts as reachable without being asked again. Asking
// costs it an aborted connection, or a spare's.
const readyFor = 5 * time.Minute

// Ready says whether the backend can be reached: nil, or why not. It asks the backend only if no session shows it and if it was
// not reached lately; then it waits for a greeting, and the connection serves the next client. Safe for concurrent use.
func (s *Server) Ready(ctx context.Context) error {
	select {
	case s.probing <- struct{}{}:
		defer func() { <-s.probing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	contact, failure := s.lastContact.Load(), s.lastFailure.Load()
	if contact > failure {
		if s.active.Load() > s.handshakes.Load() || monotonic()-contact < int64(readyFor) {
			return nil
		}
	}
	conn, err := s.dial(ctx)
	if err != nil {
		return fmt.Errorf("reach backend: %w", err)
	}
	dialled := monotonic()
	if s.options.ConnectTimeout > 0 {
		conn.SetReadDeadline(time.Now().Add(s.options.ConnectTimeout))
	}
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	greeting, err := readPacket(conn, nil)
	if err == nil {
		var g wire.Greeting
		if g, err = wire.ParseGreeting(greeting[wire.HeaderSize:]); err == nil && g.Err != nil {
			err = g.Err
		}
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		s.lastFailure.Store(monotonic())
		conn.Close()
		return fmt.Errorf("reach backend: no greeting: %w", err)
	}
	conn.SetReadDeadline(time.Time{})
	s.spares.adopt(func() (net.Conn, error) { return conn, nil }, greeting, dialled)
	return nil
}

// maxFirstPacket bounds a greeting.
const maxFirstPacket = 64 << 10

// readPacket reads the rest of a packet of which b has arrived, and nothing behind it.
func readPacket(conn io.Reader, b []byte) ([]byte, error) {
	fill := func(size int) error {
		if len(b) >= size {
			return nil
		}
		have := len(b)
		b = append(b, make([]byte, size-have)...)
		_, err := io.ReadFull(conn, b[have:])
		return err
	}
	if err := fill(wire.HeaderSize); err != nil {
		return nil, fmt.Errorf("read packet: %w", err)
	}
	length, _ := wire.Header(b)
	if length > maxFirstPacket {
		return nil, fmt.Errorf("read packet: %d bytes are too many", length)
	}
	if err := fill(wire.HeaderSize + length); err != nil {
		return nil, fmt.Errorf("read packet: %w", err)
	}
	return b, nil
}
