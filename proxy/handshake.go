package proxy

import (
	"bytes"

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
	server     wire.Greeting
	login      wire.Login
	flow       wire.AuthFlow
}

func (h *handshake) loggedIn() bool { return h.stage == stageAuth }

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
	for c.hs == h && !out.end {
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
	h.greeting = bytes.Clone(p)
	c.mariadb, c.version, c.thread = g.MariaDB, g.VersionID, g.ThreadID
	masked := bytes.Clone(p)
	if err := wire.MaskGreeting(masked[wire.HeaderSize:], wire.Carried); err != nil {
		h.buf = append(h.greeting, h.buf...)
		c.authRaw("greeting", out)
		return
	}
	c.toClient(masked, out)
	h.stage = stageLogin
	c.authFromClient(now, out)
}

// authFromClient takes the client's bytes, kept in pending, until the login is answered.
func (c *conversation) authFromClient(now int64, out *output) {
	h := c.hs
	if h == nil || !h.wantsClient() {
		return
	}
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
		c.toBackend(p, out)
		return
	}
	l, err := wire.ParseLogin(p[wire.HeaderSize:], h.server.Capabilities)
	switch {
	case err != nil || l.Old:
		// Not a login that we know: both sides may, and nothing is managed.
		c.toBackend(p, out)
		c.authRaw("login", out)
		return
	case l.SSLRequest:
		c.refuse(wire.Err{Code: 3159, State: "HY000", Message: "tmpproxy does not offer TLS on this listener"}, out)
		return
	}
	// Servers honour a bit that only the client set. Those that shape packets must mean the same to both and to us.
	if err := wire.MaskLogin(p[wire.HeaderSize:], wire.Carried&(h.server.Capabilities|^framing)); err != nil {
		c.toBackend(p, out)
		c.authRaw("login", out)
		return
	}
	h.login = l
	h.stage = stageAuth
	h.greeting = nil
	c.caps = h.server.Capabilities & l.Capabilities & wire.Carried
	plugin := l.Plugin
	if plugin == "" {
		plugin = h.server.Plugin
	}
	h.flow.Start(plugin)
	c.toBackend(p, out)
}

// turn takes one packet of the backend's in an authentication.
func (c *conversation) turn(p []byte, now int64, out *output) {
	h := c.hs
	c.toClient(p, out)
	payload := p[wire.HeaderSize:]
	if h.turns++; h.turns > maxAuthTurns {
		out.end = true
		return
	}
	switch h.flow.Server(payload) {
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
		c.who.user, c.who.schema = h.login.User, h.login.Schema
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
func (c *conversation) refuse(e wire.Err, out *output) {
	seq := byte(1)
	if len(c.pending) >= wire.HeaderSize {
		_, s := wire.Header(c.pending)
		seq = s + 1
	}
	c.pending = nil
	c.toClient(wire.AppendErr(nil, seq, wire.ClientProtocol41, e), out)
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
