package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tmpproxy/wire"
)

// ListenTLS says what clients are offered.
type ListenTLS uint8

const (
	ListenTLSOff         ListenTLS = iota // clients are told that there is none
	ListenTLSOptional                     // clients choose
	ListenTLSRequired                     // clients that log in without it are refused, but for those on unix sockets
	ListenTLSPassthrough                  // the backend's own: what such a session says is relayed and not understood
)

// BackendTLS says what is asked of the backend. Over a unix socket BackendTLSPreferred asks for TLS only if the client has it.
type BackendTLS uint8

const (
	BackendTLSDisabled  BackendTLS = iota
	BackendTLSPreferred            // if the backend offers it
	BackendTLSRequired             // else there is no session
	BackendTLSVerified             // likewise, and what Client returns verifies it
)

// TLS are the settings of both legs. Server and Client may be called at any time, from any goroutine, for each new connection: what
// they return must not change afterwards.
type TLS struct {
	Listen  ListenTLS
	Server  func() *tls.Config // for Listen optional and required
	Backend BackendTLS
	Client  func(backend string) *tls.Config // for Backend other than disabled; backend is an address
	Key     *RSAKey                          // given to clients that need the server's public key; nil: one of its own
}

// errTLS is the client library's code for what goes wrong with TLS.
const errTLS = 2026

// legs is what a conversation keeps where its legs may have TLS, or may not be alike.
type legs struct {
	tls      [2]*secured // nil: without
	scramble [20]byte    // the server's last, with which passwords are mixed
}

// tls is the TLS of a leg; nil if it has none.
func (c *conversation) tls(at side) *secured {
	if c.legs == nil {
		return nil
	}
	return c.legs.tls[at]
}

// abandon ends the handshakes of a session that is over.
func (c *conversation) abandon() {
	if c.legs == nil {
		return
	}
	for _, s := range c.legs.tls {
		if s != nil {
			s.abandon()
		}
	}
}

// version names the version of TLS; "" without TLS.
func (s *secured) version() string {
	if s == nil || !s.established {
		return ""
	}
	return tls.VersionName(s.protocol)
}

// connectedTo says which backend the conversation is with.
func (c *conversation) connectedTo(b *backend) {
	if c.hs != nil && b != nil {
		c.hs.backend = b.address
		c.safe[backendSide] = network(b.address) == "unix"
	}
}

// decrypt takes bytes of a leg with TLS.
func (c *conversation) decrypt(s *secured, b []byte, now int64, out *output) {
	switch {
	case s.over || out.end:
		return
	case !s.established:
		if s.arrived = append(s.arrived, b...); len(s.arrived) > maxHandshake {
			out.end = true
			return
		}
		c.shake(s, out)
		return
	}
	plain, err := s.open(b)
	out.seal(s.side, s.take())
	if len(plain) > 0 {
		c.arrived(s.side, plain, now, out)
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		s.over = true
		c.end(s.side, out)
	default:
		s.over = true
		out.end = true
	}
}

// encrypt puts what goes to legs with TLS into records, and takes leave of them.
func (c *conversation) encrypt(out *output) {
	kept := out.runs[:0]
	for _, r := range out.runs {
		if s := c.tls(r.to); s != nil && !r.sealed {
			if !s.established {
				continue // the peer waits for something else, and cannot read this
			}
			r.b, r.sealed = s.seal(r.b), true
		}
		kept = append(kept, r)
	}
	out.runs = kept
	for at, s := range c.legs.tls {
		if s != nil && s.established && (out.end && side(at) == clientSide || out.shut[at]) {
			out.seal(s.side, s.farewell())
		}
	}
}

// shake goes on with a leg's handshake.
func (c *conversation) shake(s *secured, out *output) {
	switch {
	case c.hs == nil:
		out.end = true // the other leg's handshake went wrong
		return
	case c.hs.then != nil:
		return // it is at it
	}
	s.in = append(s.in, s.arrived...)
	s.arrived = nil
	out.work = s.step
	c.hs.then = func(now int64, out *output) { c.shaken(s, now, out) }
}

// shaken is called behind each step of a handshake.
func (c *conversation) shaken(s *secured, now int64, out *output) {
	out.seal(s.side, s.take())
	switch over, err := s.done(); {
	case !over:
		if len(s.arrived) > 0 {
			c.shake(s, out)
		}
	case err != nil:
		c.sh.metrics.tlsFailed(s.side)
		c.sh.ledger.log.write(zapcore.WarnLevel, "TLS handshake failed", zap.String("client", c.tap.client), zap.Stringer("side", s.side), zap.Error(err))
		if s.side == backendSide {
			c.untrusted(err, out)
		}
		out.end = true
	default:
		c.sh.metrics.tlsSession(s.side)
		s.protocol = s.conn.ConnectionState().Version
		if s.side == backendSide {
			c.logIn(now, out)
		}
		arrived := s.arrived
		s.arrived = nil
		c.decrypt(s, arrived, now, out)
	}
}

// untrusted tells the client that there is no TLS with the backend.
func (c *conversation) untrusted(err error, out *output) {
	if c.phase == phaseHandshake {
		c.refuse(wire.Err{Code: errTLS, State: "HY000", Message: fmt.Sprintf("SSL connection error between tmpproxy and the server: %v", err)}, out)
	}
}

// secure says whether nobody can listen to a leg.
func (c *conversation) secure(at side) bool { return c.safe[at] || c.tls(at) != nil }

// wantsTLS says whether the backend leg is to have TLS, or why there can be no session.
func (c *conversation) wantsTLS() (bool, error) {
	offered := c.hs.server.Capabilities.Has(wire.ClientSSL)
	switch mode := c.sh.tls.Backend; {
	case mode == BackendTLSDisabled:
		return false, nil
	case mode == BackendTLSPreferred:
		return offered && (!c.safe[backendSide] || c.tls(clientSide) != nil), nil
	case !offered:
		return false, errors.New("SSL is required but the server doesn't support it")
	}
	return true, nil
}
