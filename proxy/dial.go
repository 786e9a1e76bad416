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

// dial connects to a backend. header says for whom, where that is to be said.
func (s *Server) dial(ctx context.Context, b *backend, header []byte) (net.Conn, error) {
	d := net.Dialer{Timeout: s.options.ConnectTimeout, KeepAliveConfig: keepAlive}
	conn, err := d.DialContext(ctx, network(b.address), b.address)
	if err != nil {
		return nil, err
	}
	if s.options.ProxyProtocol {
		if _, err := conn.Write(header); err != nil { // a new connection takes it at once
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// unreached notes that no backend was reached for a session, and says what to tell the client of the last.
func (s *Server) unreached(r *relay, err error) []byte {
	s.counts.DialFailures.Add(1)
	s.journal.write(zapcore.WarnLevel, "backend not reached", zap.Uint64("conn_id", r.id), zap.String("client", r.client),
		zap.String("backend", r.backend.address), zap.Error(err))
	r.because("backend not reached")
	return refusal(wire.Err{Code: 2003, State: "HY000", Message: fmt.Sprintf(
		"Can't connect to MySQL server on '%s' (%s)", r.backend.address, s.reason(err))})
}

// connect gives a new session its backend connection and hands both over to the driver.
func (s *Server) connect(r *relay, client net.Conn) {
	backend, greeting, dialled := r.backend.spares.take() // none is kept where each is one client's
	if backend == nil {
		var err error
		if backend, err = s.dial(s.dialing, r.backend, []byte(r.header)); err != nil {
			if r.failedOver(err) {
				s.connect(r, client)
				return
			}
			answer := s.unreached(r, err)
			client.SetWriteDeadline(time.Now().Add(time.Second))
			client.Write(answer)
			farewell(client, s.linger)
			client.Close()
			r.gone()
			return
		}
		dialled = monotonic()
		s.backends.dialled(r.backend, nil)
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

// Ready says whether there is a backend that can be reached: nil, or why not. It asks a backend only if no session and no check shows
// it and if it was not reached lately; then it waits for a greeting, and the connection serves the next client. Safe for concurrent use.
func (s *Server) Ready(ctx context.Context) error {
	select {
	case s.probing <- struct{}{}:
		defer func() { <-s.probing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var all []error
	order := *s.backends.order.Load()
	for _, b := range order {
		if len(order) > 1 && s.backends.isDown(b) {
			all = append(all, fmt.Errorf("reach backend: %s is down", b.address))
			continue
		}
		if len(order) > 1 && s.backends.watched(b) && b.lastContact.Load() == 0 {
			all = append(all, fmt.Errorf("reach backend: %s is not checked yet", b.address))
			continue
		}
		contact, failure := b.lastContact.Load(), b.lastFailure.Load()
		if contact > failure && (s.active.Load() > s.handshakes.Load() || monotonic()-contact < int64(readyFor)) {
			return nil
		}
		err := s.greeted(ctx, b)
		s.backends.dialled(b, err)
		if err == nil {
			return nil
		}
		all = append(all, fmt.Errorf("reach backend: %w", err))
	}
	return errors.Join(all...)
}

// greeted says whether a backend greets: nil, or why not. The connection serves the next client.
func (s *Server) greeted(ctx context.Context, b *backend) error {
	conn, err := s.dial(ctx, b, appendProxyLocal(nil))
	if err != nil {
		return err
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
		conn.Close()
		return fmt.Errorf("no greeting: %w", err)
	}
	conn.SetReadDeadline(time.Time{})
	if s.options.ProxyProtocol {
		takeLeave(conn, greeting)
		conn.Close()
		return nil
	}
	b.spares.adopt(func() (net.Conn, error) { return conn, nil }, greeting, dialled)
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
