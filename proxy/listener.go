package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tmpproxy/wire"
)

// keepAlive finds peers that vanished without a word, within two minutes.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}

const (
	maxBackOff   = time.Second
	reserveGrace = 10 * time.Millisecond // how long the reserve descriptor serves connections that find no other
)

var errTooManyConnections = wire.Err{Code: 1040, State: "08004", Message: "Too many connections"}

// network says what kind of address a string is: a path is a unix socket's.
func network(address string) string {
	if strings.HasPrefix(address, "/") {
		return "unix"
	}
	return "tcp"
}

// listen binds host:port, or the path of a unix socket. The file of a socket that nobody answers on is replaced.
func listen(address string) (net.Listener, error) {
	kind := network(address)
	if kind == "unix" {
		if err := removeStale(address); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", address, err)
		}
	}
	config := net.ListenConfig{KeepAliveConfig: keepAlive}
	config.SetMultipathTCP(false)
	l, err := config.Listen(context.Background(), kind, address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}

// removeStale removes a unix socket that a process left behind.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return errors.New("the file exists and is not a socket")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return errors.New("another process listens there")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// accept admits clients of one listener until it is closed.
func (s *Server) accept(l net.Listener) {
	reserve, _ := os.Open(os.DevNull)
	defer func() { reserve.Close() }()
	var backOff time.Duration
	for {
		last := s.lastCall(l)
		conn, err := l.Accept()
		switch {
		case err == nil:
			backOff = 0
			s.admit(conn, l.Addr())
			continue
		case waked(err) && s.last.Load():
			if last && !queued(l) {
				return
			}
			continue
		case errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
			// The connection that found no descriptor stays in the listener's queue, and wakes us again and again. The reserve
			// is given up for it so that it can be told.
			s.counts.Shortages.Add(1)
			reserve.Close()
			s.acceptLast(l)
			reserve, _ = os.Open(os.DevNull)
		}
		backOff = min(max(2*backOff, 5*time.Millisecond), maxBackOff)
		s.journal.write(zapcore.WarnLevel, "accept failed", zap.Stringer("listener", l.Addr()), zap.Error(err), zap.Duration("back_off", backOff))
		select {
		case <-time.After(backOff):
		case <-s.closing:
			return
		}
	}
}

// acceptLast takes the connections that wait, with the descriptor that the reserve had, and refuses them.
func (s *Server) acceptLast(l net.Listener) {
	d, ok := l.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return
	}
	d.SetDeadline(time.Now().Add(reserveGrace))
	defer d.SetDeadline(time.Time{})
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.refuse(conn, errTooManyConnections)
	}
}

// admit begins a session, or refuses it because of a limit, before anything is dialled.
func (s *Server) admit(conn net.Conn, listener net.Addr) {
	s.counts.Accepted.Add(1)
	limits := s.limits()
	if s.active.Add(1) > int64(limits.MaxSessions) {
		s.active.Add(-1)
		s.counts.RefusedSessions.Add(1)
		s.logRefusal("max_sessions", clientAddress(conn, listener))
		s.refuse(conn, errTooManyConnections)
		return
	}
	if limits.MaxBuffered > 0 && s.shared.buffered.Load() >= int64(limits.MaxBuffered) {
		s.active.Add(-1)
		s.shared.noRoom(clientAddress(conn, listener))
		s.refuse(conn, s.shared.fullOf(0))
		return
	}
	if s.handshakes.Add(1) > int64(limits.MaxHandshakes) {
		s.handshakes.Add(-1)
		s.active.Add(-1)
		s.counts.RefusedHandshakes.Add(1)
		s.logRefusal("max_handshakes", clientAddress(conn, listener))
		s.refuse(conn, wire.Err{Code: 1040, State: "08004", Message: fmt.Sprintf(
			"Too many connections: %d clients of tmpproxy are logging in already (limits.max_handshakes)", limits.MaxHandshakes)})
		return
	}
	s.sessions.Add(1)
	r := &relay{server: s, id: s.ids.Add(1), client: clientAddress(conn, listener), host: clientHost(conn), local: listener.Network() == "unix", since: time.Now(), handshaking: true,
		order: s.backends.order.Load()}
	r.next()
	if s.fromProxy(conn) {
		go s.introduce(r, conn)
		return
	}
	s.begin(r, conn, tcpAddress(conn.RemoteAddr()))
}

// headerTime is how long the header of the PROXY protocol may take.
const headerTime = time.Second

// fromProxy says whether a connection has to begin with a header of the PROXY protocol.
func (s *Server) fromProxy(conn net.Conn) bool {
	a := tcpAddress(conn.RemoteAddr())
	for _, network := range s.options.ProxyNetworks {
		if a.IsValid() && network.Contains(a.Addr()) {
			return true
		}
	}
	return s.options.ProxyUnix && !a.IsValid()
}

// introduce begins a session for the client that the header of the PROXY protocol names. Without one it is refused.
func (s *Server) introduce(r *relay, conn net.Conn) {
	conn.SetReadDeadline(time.Now().Add(headerTime))
	from, err := readProxyHeader(conn)
	if err != nil {
		s.counts.RefusedHeaders.Add(1)
		s.journal.write(zapcore.WarnLevel, "client refused", zap.String("limit", "proxy_networks"), zap.String("client", r.client), zap.Error(err))
		s.refuse(conn, wire.Err{Code: 1043, State: "08S01", Message: "Bad handshake: tmpproxy expects a PROXY protocol header from here (listen.proxy_networks)"})
		r.because("no PROXY header")
		r.gone()
		return
	}
	conn.SetReadDeadline(time.Time{})
	source := tcpAddress(conn.RemoteAddr())
	switch {
	case from.address.IsValid():
		source, r.client, r.host = from.address, from.address.String(), from.address.Addr().String()
	case from.unix:
		source, r.client, r.host = from.address, "unix by "+r.client, ""
	}
	s.begin(r, conn, source)
}

// begin gives a session its conversation and has it connected. source is the client's address, zero on a unix socket.
func (s *Server) begin(r *relay, conn net.Conn, source netip.AddrPort) {
	if s.options.ProxyProtocol {
		r.header = string(appendProxyHeader(nil, source, tcpAddress(conn.LocalAddr())))
	}
	limit := s.limits().MaxHostSessions
	if r.counted = s.hosts.enter(r.host, limit); !r.counted {
		s.counts.RefusedHosts.Add(1)
		s.logRefusal("max_host_sessions", r.client)
		s.refuse(conn, wire.Err{Code: 1040, State: "08004", Message: fmt.Sprintf(
			"Too many connections: tmpproxy takes %d of one host (limits.max_host_sessions)", limit)})
		r.because("max_host_sessions")
		r.gone()
		return
	}
	s.prepare(r)
	if !s.options.ProxyProtocol && r.backend.spares.empty() && s.driver.open(r, conn) {
		return
	}
	go s.connect(r, conn)
}

// prepare gives a session a conversation that has not begun.
func (s *Server) prepare(r *relay) {
	if s.newDouble != nil {
		r.double = s.newDouble()
	} else {
		if r.conversation != nil {
			r.conversation.forget() // its backend has not greeted
		}
		r.conversation = s.newConversation()
		r.conversation.who.host = r.host
		r.conversation.tap.client = r.client
		r.conversation.safe[clientSide] = r.local
	}
}

// logRefusal logs one refusal a second; all are counted.
func (s *Server) logRefusal(limit, client string, more ...zap.Field) {
	now, last := monotonic(), s.refusalLogged.Load()
	if last == 0 || now-last > int64(time.Second) {
		if s.refusalLogged.CompareAndSwap(last, now) {
			s.journal.write(zapcore.WarnLevel, "client refused", append(more, zap.String("limit", limit), zap.String("client", client))...)
		}
	}
}

// refusedUser notes a client that Limits.MaxUserSessions has no room for.
func (s *Server) refusedUser(user, client string) {
	s.counts.RefusedUsers.Add(1)
	s.logRefusal("max_user_sessions", client, zap.String("user", user))
}

// clientHost is the address of a client's host; "" on a unix socket.
func clientHost(conn net.Conn) string {
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return a.IP.String()
	}
	return ""
}

// clientAddress names a client. On a unix socket clients have no address; the listener's is what there is to say.
func clientAddress(conn net.Conn, listener net.Addr) string {
	if listener.Network() == "unix" {
		return "unix:" + listener.String()
	}
	return conn.RemoteAddr().String()
}

// refusal is an error packet in place of the greeting: a server's has number 0 and no SQLSTATE, as nothing is negotiated.
func refusal(e wire.Err) []byte { return wire.AppendErr(nil, 0, 0, e) }

// refuse answers a client that gets no session, and closes.
func (s *Server) refuse(conn net.Conn, e wire.Err) {
	conn.SetWriteDeadline(time.Now().Add(time.Second)) // a new connection takes a packet at once
	conn.Write(refusal(e))
	conn.Close()
}

// farewell ends a client's connection politely: a FIN, then its input is thrown away for a while, lest a reset destroy what it has
// not read. The caller closes it.
func farewell(conn net.Conn, linger time.Duration) {
	conn.SetReadDeadline(time.Now().Add(linger))
	if w, ok := conn.(interface{ CloseWrite() error }); ok && w.CloseWrite() == nil {
		io.CopyN(io.Discard, conn, maxDiscard)
	}
}
