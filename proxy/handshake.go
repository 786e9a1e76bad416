package proxy

import (
	"bytes"
	"fmt"

	"tmpproxy/session"
	"tmpproxy/wire"
)

const (
	maxGreeting  = 64 << 10        // bytes of a packet of the backend before the login is answered
	maxLogin     = 64<<10 + 64<<10 // bytes of a login or authentication packet, connection attributes included
	maxAuthTurns = 32              // packets either side may send before the login is answered
)

// framing are the capabilities that decide what packets follow each other and what is in them.
const framing = wire.ClientQueryAttributes | wire.ClientDeprecateEOF | wire.ClientSessionTrack | wire.ClientOptionalResultsetMeta |
	wire.ClientProgress | wire.MariaDBProgress | wire.MariaDBCacheMetadata | wire.MariaDBExtendedMetadata | wire.MariaDBBulkUnitResults

type stage uint8

const (
	stageGreeting stage = iota // the backend's greeting has not arrived whole
	stageLogin                 // the client has the greeting; its login is awaited
	stageSecure                // the login waits for TLS with the backend
	stageAuth                  // the login is sent on; authentication turns
)

// handshake is what a conversation keeps only until the login, or a COM_CHANGE_USER, is answered.
type handshake struct {
	stage      stage
	changeUser bool
	clientTurn bool // the client speaks next
	turns      int
	buf        []byte // the backend's packet in progress
	greeting   []byte // as the backend sent it, until the login is sent on
	opening    []byte // the client's login, while it waits
	awaited    byte   // number of the login, or of the request for TLS before it
	next       byte   // number of the next packet on the client's leg
	shift      byte   // how much further the numbers are on the backend's
	server     wire.Greeting
	login      wire.Login
	flow       wire.AuthFlow
	translation
	backend string                       // address
	then    func(now int64, out *output) // goes on when output.work has returned
}

func (h *handshake) loggedIn() bool { return h.stage >= stageSecure }

// wantsClient says whether the client's next bytes can be used.
func (h *handshake) wantsClient() bool {
	return h.stage == stageLogin || h.stage == stageAuth && h.clientTurn
}

// packet cuts one whole packet off b.
func packet(b []byte) (p, rest []byte, ok bool) {
	if len(b) < wire.HeaderSize {
		return nil, b, false
	}
	length, _ := wire.Header(b)
	if len(b) < wire.HeaderSize+length {
		return nil, b, false
	}
	return b[:wire.HeaderSize+length], b[wire.HeaderSize+length:], true
}

// authFromBackend takes the backend's bytes until the login is answered.
func (c *conversation) authFromBackend(b []byte, now int64, out *output) {
	h := c.hs
	h.buf = append(h.buf, b...)
	for c.hs == h && !out.end && h.then == nil && h.stage != stageSecure {
		p, rest, ok := packet(h.buf)
		if !ok {
			if len(h.buf) > maxGreeting {
				c.authRaw("handshake", out)
			}
			return
		}
		h.buf = rest
		switch h.stage {
		case stageGreeting:
			c.greet(p, now, out)
		case stageLogin:
			c.toClient(p, out) // the server gave up waiting
		case stageAuth:
			c.turn(p, now, out)
		}
	}
}

// greet relays the backend's greeting without the capabilities that cannot be carried.
func (c *conversation) greet(p []byte, now int64, out *output) {
	h := c.hs
	g, err := wire.ParseGreeting(p[wire.HeaderSize:])
	if err != nil || g.Err != nil {
		h.buf = append(bytes.Clone(p), h.buf...)
		why := "" // the server refuses: relayed, nothing to count
		if err != nil {
			why = "greeting"
		}
		c.authRaw(why, out)
		return
	}
	h.server = g
	if c.sh.tls.Listen != ListenTLSOff || c.sh.tls.Backend != BackendTLSDisabled || c.safe[clientSide] != c.safe[backendSide] {
		c.legs = new(legs)
		copy(c.legs.scramble[:], g.Scramble)
	}
	h.greeting = bytes.Clone(p)
	c.mariadb, c.version, c.thread = g.MariaDB, g.VersionID, g.ThreadID
	masked := bytes.Clone(p)
	carried := wire.Carried
	if c.sh.tls.Listen == ListenTLSPassthrough {
		carried |= wire.ClientSSL
	}
	err = wire.MaskGreeting(masked[wire.HeaderSize:], carried)
	if err == nil && c.offersTLS() {
		err = wire.OfferTLS(masked[wire.HeaderSize:])
	}
	if err != nil {
		h.buf = append(h.greeting, h.buf...)
		c.authRaw("greeting", out)
		return
	}
	c.toClient(masked, out)
	h.stage, h.awaited = stageLogin, 1
	c.authFromClient(now, out)
}

// authFromClient takes the client's bytes, kept in pending, until the login is answered.
func (c *conversation) authFromClient(now int64, out *output) {
	h := c.hs
	if h == nil || h.then != nil || !h.wantsClient() {
		return
	}
	if len(c.pending) < wire.HeaderSize {
		return
	}
	_, seq := wire.Header(c.pending)
	if h.stage == stageLogin && seq != h.awaited {
		h.next = h.awaited
		c.refuse(wire.Err{Code: 1156, State: "08S01", Message: "Got packets out of order"}, out)
		return
	}
	h.next = seq + 1
	p, rest, ok := packet(c.pending)
	if !ok {
		if len(c.pending) > maxLogin {
			c.refuse(wire.Err{Code: 1043, State: "08S01", Message: "Bad handshake: tmpproxy takes login packets up to 128 KiB"}, out)
		}
		return
	}
	if h.turns++; h.turns > maxAuthTurns {
		c.refuse(wire.Err{Code: 1043, State: "08S01", Message: "Bad handshake: tmpproxy takes up to 32 authentication turns"}, out)
		return
	}
	c.pending = rest
	if len(rest) == 0 {
		c.pending = nil
	}
	if h.stage == stageAuth {
		h.clientTurn = false
		if !c.translates(h.flow.Plugin()) || !c.answerAuth(p, now, out) {
			p[3] += h.shift
			c.toBackend(p, out)
		}
		return
	}
	l, err := wire.ParseLogin(p[wire.HeaderSize:], h.server.Capabilities)
	if err == nil && l.SSLRequest {
		c.tlsRequested(p, now, out)
		return
	}
	if c.sh.tls.Listen == ListenTLSRequired && !c.secure(clientSide) {
		c.refuse(errSecureTransport, out)
		return
	}
	wanted, reason := c.wantsTLS()
	if reason != nil {
		c.untrusted(reason, out)
		return
	}
	if err == nil && !l.Old {
		// Servers honour a bit that only the client set. Those that shape packets must mean the same to both and to us.
		err = wire.MaskLogin(p[wire.HeaderSize:], wire.Carried&(h.server.Capabilities|^framing))
	}
	if err != nil || l.Old && (wanted || c.tls(clientSide) != nil) {
		// The server would say so, too, but count it against our host.
		c.refuseTo(wire.LoginSpeaks(p[wire.HeaderSize:]), wire.Err{Code: 1043, State: "08S01", Message: "Bad handshake"}, out)
		return
	}
	if l.Old { // both sides may know it, and nothing is managed
		c.toBackend(p, out)
		c.authRaw("login", out)
		return
	}
	h.login = l
	h.opening = p
	h.greeting = nil
	c.caps = h.server.Capabilities & l.Capabilities & wire.Carried
	if wanted {
		request, err := wire.AskForTLS(p[wire.HeaderSize:])
		if err != nil {
			c.untrusted(err, out)
			return
		}
		out.seal(backendSide, packetOf(seq+h.shift, request))
		h.shift++
		h.stage = stageSecure
		c.legs.tls[backendSide] = secureClient(c.sh.tls.Client(c.hs.backend))
		c.shake(c.tls(backendSide), out)
		return
	}
	c.logIn(now, out)
}

// errSecureTransport is what servers say under require_secure_transport.
var errSecureTransport = wire.Err{Code: 3159, State: "HY000", Message: "Connections using insecure transport are prohibited while --require_secure_transport=ON."}

// offersTLS says whether clients may have TLS with us.
func (c *conversation) offersTLS() bool {
	return c.sh.tls.Listen == ListenTLSOptional || c.sh.tls.Listen == ListenTLSRequired
}

// tlsRequested takes the client's SSLRequest.
func (c *conversation) tlsRequested(p []byte, now int64, out *output) {
	h := c.hs
	switch {
	case c.sh.tls.Listen == ListenTLSPassthrough && h.server.Capabilities.Has(wire.ClientSSL):
		c.toBackend(p, out)
		c.authRaw("tls", out)
	case c.tls(clientSide) != nil:
		c.refuse(wire.Err{Code: 1043, State: "08S01", Message: "Bad handshake"}, out)
	case !c.offersTLS():
		c.refuse(wire.Err{Code: 3159, State: "HY000", Message: "tmpproxy does not offer TLS on this listener"}, out)
	default:
		h.awaited++
		h.shift--
		s := secureServer(c.sh.tls.Server())
		c.legs.tls[clientSide] = s
		first := c.pending
		c.pending = nil
		if len(first) > 0 {
			c.decrypt(s, first, now, out)
		}
	}
}

// logIn sends the client's login on.
func (c *conversation) logIn(now int64, out *output) {
	h := c.hs
	p, l := h.opening, &h.login
	h.opening = nil
	h.stage = stageAuth
	plugin := l.Plugin
	if plugin == "" {
		plugin = h.server.Plugin
	}
	if plugin == sha256Password && c.translates(plugin) {
		// The answer is the password, in clear, or asks for a key. It is asked for again, as the leg needs it.
		other, err := wire.LoginWithoutAnswer(p[wire.HeaderSize:], h.server.Capabilities, otherPlugin)
		if err != nil {
			c.refuse(wire.Err{Code: 1043, State: "08S01", Message: "Bad handshake"}, out)
			return
		}
		p = packetOf(p[3], other)
		plugin = otherPlugin
	}
	h.flow.Start(plugin)
	p[3] += h.shift
	c.toBackend(p, out)
	c.finishLater(out)
}

// turn takes one packet of the backend's in an authentication.
func (c *conversation) turn(p []byte, now int64, out *output) {
	h := c.hs
	payload := p[wire.HeaderSize:]
	if len(payload) > 0 && c.sealSecret(p, out) {
		return
	}
	p[3] -= h.shift
	who := h.flow.Server(payload)
	if who == wire.AuthDone && !c.enter(h.login.User) {
		c.refuseUser(p[3], out)
		return
	}
	c.toClient(p, out)
	if h.turns++; h.turns > maxAuthTurns {
		out.end = true
		return
	}
	if scramble := h.flow.Scramble(); c.legs != nil && len(scramble) == len(c.legs.scramble) {
		copy(c.legs.scramble[:], scramble)
	}
	if who == wire.AuthClient {
		h.note(h.flow.Plugin(), payload)
	}
	switch who {
	case wire.AuthServer:
	case wire.AuthClient:
		h.clientTurn = true
		c.authFromClient(now, out)
	case wire.AuthFailed:
		if h.changeUser {
			c.changedUser(session.Outcome{Kind: session.OutcomeErr, Now: now}, payload, now, out)
			return
		}
		c.authRaw("", out)
	case wire.AuthDone:
		ok, err := wire.ParseOK(payload, c.caps)
		if err != nil {
			c.authRaw("login", out)
			return
		}
		c.status = ok.Status
		if h.changeUser {
			c.changedUser(session.Outcome{Status: ok.Status, Warnings: ok.Warnings, Now: now}, payload, now, out)
			return
		}
		c.m = session.New(session.Options{
			Server:    session.Server{MariaDB: c.mariadb, Version: c.version},
			Schema:    h.login.Schema,
			Collation: h.login.Collation,
			Status:    ok.Status,
			Ledger:    book{c.sh.ledger, c},
		})
		c.who.schema = h.login.Schema
		c.tap.user, c.tap.collation = h.login.User, h.login.Collation
		c.phase, c.hs, c.multi = phaseCommand, nil, c.caps.Has(wire.ClientMultiStatements)
		c.idle(out)
		if c.packed = newPacking(c.caps, h.login.ZstdLevel); c.packed == nil {
			c.toClient(h.buf, out)
			c.resumeClient(now, out)
			return
		}
		// What either side has sent behind the login's end is in frames.
		out.plain = len(out.runs)
		fromClient := c.pending
		c.pending = nil
		c.unpack(backendSide, h.buf, now, out)
		c.unpack(clientSide, fromClient, now, out)
	}
}

// enter counts the session for the user that the backend has just let in, in place of the one before. It returns false if that has as many
// as it may. Nobody can use up what is another's: who does not know the password is not counted.
func (c *conversation) enter(user string) bool {
	limit := c.sh.limits.Load().MaxUserSessions
	if c.entered {
		if !c.sh.users.move(c.who.user, user, limit) {
			return false
		}
	} else if c.entered = c.sh.users.enter(user, limit); !c.entered {
		return false
	}
	c.who.user = user
	return true
}

// leave is the end of what enter has begun.
func (c *conversation) leave() {
	if c.entered {
		c.sh.users.leave(c.who.user)
		c.entered = false
	}
}

// refuseUser ends a session whose user has as many as it may: with an ERR in place of the OK with that number, as servers do it (so MySQL
// at a COM_CHANGE_USER as well, where MariaDB stays with the user before). The backend is told that nothing more comes, lest it counts
// an aborted client.
func (c *conversation) refuseUser(seq byte, out *output) {
	user := c.hs.login.User
	c.sh.refused(user, c.tap.client)
	const shown = 64 // bytes; servers cut it as well
	c.toClient(wire.AppendErr(nil, seq, c.caps, wire.Err{Code: 1203, State: "42000", Message: fmt.Sprintf(
		"User %.*s already has more than 'max_user_connections' active connections (limits.max_user_sessions of tmpproxy)", shown, user)}), out)
	if c.packed == nil {
		if c.packed = newPacking(c.caps, c.hs.login.ZstdLevel); c.packed != nil {
			out.plain = len(out.runs) // what follows is in frames
		}
	}
	c.toBackendFirst(packetOf(0, []byte{byte(wire.ComQuit)}), out)
	out.end = true
}

// changedUser ends a COM_CHANGE_USER.
func (c *conversation) changedUser(o session.Outcome, payload []byte, now int64, out *output) {
	if e, err := wire.ParseErr(payload); o.Kind == session.OutcomeErr && err == nil {
		o.Code = e.Code
	}
	c.endAuth(out)
	c.recordReply(&o, 0)
	c.phase = phaseReply
	c.next(&o, now, out)
	c.resumeClient(now, out)
}

// endAuth leaves the authentication; bytes of the backend behind it go to the client.
func (c *conversation) endAuth(out *output) {
	c.toClient(c.hs.buf, out)
	c.hs = nil
}

// authRaw gives up understanding in the middle of a handshake: what is there goes on, and so does all that follows.
func (c *conversation) authRaw(why string, out *output) {
	c.toClient(c.hs.buf, out)
	c.becomeRaw(why, out)
}

// refuse ends a session in the handshake with an error of ours.
func (c *conversation) refuse(e wire.Err, out *output) { c.refuseTo(wire.ClientProtocol41, e, out) }

// refuseTo does so to a client of these capabilities.
func (c *conversation) refuseTo(caps wire.Capability, e wire.Err, out *output) {
	c.pending = nil
	c.toClient(wire.AppendErr(nil, max(c.hs.next, 1), caps, e), out)
	out.end = true
}

// spare says whether the backend connection, not logged in to, can serve another client, and with which greeting bytes, which may
// be only the first of it. It may be called when the client has left or was given up.
func (c *conversation) spare() (greeting []byte, ok bool) {
	switch {
	case c.hs == nil || c.hs.loggedIn():
		return nil, false
	case c.hs.stage == stageGreeting:
		return c.hs.buf, true // the rest is awaited by whoever takes it
	}
	return c.hs.greeting, true
}
