package proxy

import (
	"bytes"
	"encoding/binary"

	"tmpproxy/rewrite"
	"tmpproxy/session"
	"tmpproxy/wire"
)

// lastPrepared is the statement id by which MariaDB clients mean the statement prepared last.
const lastPrepared = 0xFFFFFFFF

// lastAfter is which statement that is behind a preparation that has failed. There is none when the statement was found wrong; what was
// not even looked at, as there are too many statements (1461), leaves the one before in its place.
func lastAfter(code uint16) uint32 {
	switch code {
	case 1046, 1049, 1052, 1054, 1064, 1065, 1142, 1143, 1146, 1295, 1305:
		return session.NoHandle
	}
	return 0
}

// kind is what a command means to the machine, and whether it is judged by its text.
func kind(cmd wire.Command) (k session.EventKind, text bool) {
	switch cmd {
	case wire.ComQuery:
		return session.EventQuery, true
	case wire.ComStmtPrepare:
		return session.EventPrepare, true
	case wire.ComInitDB:
		return session.EventInitDB, true
	case wire.ComFieldList:
		return session.EventFieldList, true
	case wire.ComChangeUser:
		return session.EventChangeUser, true
	case wire.ComStmtExecute, wire.ComStmtBulkExecute:
		return session.EventExecute, false
	case wire.ComStmtClose:
		return session.EventCloseHandle, false
	case wire.ComResetConnection:
		return session.EventReset, false
	case wire.ComQuit:
		return session.EventQuit, false
	case wire.ComPing, wire.ComStatistics, wire.ComStmtSendLongData, wire.ComStmtFetch, wire.ComStmtReset:
		return session.EventQuiet, false
	case wire.ComSetOption:
		return session.EventSetOption, false
	}
	switch cmd.Shape() {
	case wire.ShapeRaw:
		return session.EventRaw, false
	case wire.ShapeUnknown:
		return session.EventUnknown, false
	}
	return session.EventOther, false
}

// malformed says whether a command that has no reply is too short to be one: MySQL answers it with ERR 1835, MariaDB says nothing.
func malformed(cmd wire.Command, length int) bool {
	return cmd == wire.ComStmtClose && length < 5 || cmd == wire.ComStmtSendLongData && length < 7
}

// plainExecute is the length of a COM_STMT_EXECUTE without parameters: the command, the statement id, flags, an iteration count.
const plainExecute = 10

// isPlainExecute says whether a COM_STMT_EXECUTE asks for nothing but the execution: no cursor, which DDL would fail for, and
// neither parameters nor query attributes. Some clients say that types of parameters follow, though there are none.
func isPlainExecute(p []byte) bool {
	const counted = 8 // PARAMETER_COUNT_AVAILABLE: the number of parameters follows
	switch len(p) {
	case plainExecute:
		return p[5] == 0
	case plainExecute + 1:
		return p[5] == counted && p[plainExecute] == 0 || p[5] == 0 && p[plainExecute] == 1
	}
	return false
}

// takeCommand judges the command that b begins with and sets it going. It answers how many bytes of b it took; 0: too little has
// arrived to judge.
func (c *conversation) takeCommand(b []byte, now int64, out *output) int {
	if len(b) < wire.HeaderSize {
		return 0
	}
	length, _ := wire.Header(b)
	policy := c.policy(now)
	need, ev := wire.HeaderSize+min(length, 1), session.Event{Kind: session.EventUnknown, Now: now, Policy: policy}
	c.examined = length
	text := false
	c.command = wire.ComSleep
	if length > 0 {
		if len(b) < need {
			return 0
		}
		c.command = wire.Command(b[wire.HeaderSize])
		if malformed(c.command, length) && !c.mariadb {
			c.command = wire.ComSleep
		}
		ev.Kind, text = kind(c.command)
		switch {
		case ev.Kind == session.EventChangeUser:
			c.examined = min(length, maxLogin)
			need = wire.HeaderSize + c.examined
		case text:
			c.examined = min(length, max(policy.MaxStatement, 1))
			need = wire.HeaderSize + c.examined
		case ev.Kind == session.EventExecute:
			need = wire.HeaderSize + min(length, plainExecute+1)
		case ev.Kind == session.EventCloseHandle:
			need = wire.HeaderSize + min(length, 5)
		case c.command == wire.ComSetOption:
			need = wire.HeaderSize + min(length, 3)
		}
		if len(b) < need {
			return 0
		}
	}
	c.up = wire.Framer{}
	n, end := c.up.Skip(b)
	c.upOpen = !end
	c.cmd = b[:n]
	c.began = now
	if c.answered != 0 {
		c.thinks = now-c.answered >= thinkTime
	}
	c.record(b[:n])
	if c.command == wire.ComSetOption && n > wire.HeaderSize+1 {
		c.wantsMulti = b[wire.HeaderSize+1] == 0
	}
	ev.Whole = end && c.examined == length
	switch ev.Kind {
	case session.EventExecute:
		ev.Handle = c.handle(b[:n])
		ev.Whole = ev.Whole && c.command == wire.ComStmtExecute && isPlainExecute(b[wire.HeaderSize:n])
	case session.EventCloseHandle:
		ev.Handle = c.handle(b[:n])
	case session.EventQuery, session.EventPrepare:
		ev.Text = c.text()
		ev.Statement = rewrite.Classify(ev.Text, c.mode())
	case session.EventChangeUser:
		ev.Text, ev.Collation = c.changeUser()
	default:
		ev.Text = c.text()
	}
	c.event = ev
	c.slowBegin(&ev, ev.Text)
	if ev.Kind == session.EventQuery && ev.Statement.Multi && c.split(now, out) {
		return n
	}
	if c.judge(now, out); c.cmd != nil && c.batch == nil && c.phase != phaseWork {
		c.cmd = bytes.Clone(c.cmd) // not sent yet, and the input buffer is not ours
	}
	return n
}

// judge sets the present command going, whose event is made: the machine says how, after the analysis of a CREATE.
func (c *conversation) judge(now int64, out *output) {
	ev := &c.event
	ev.Text = c.text()
	if text := c.createText(); text != nil && c.analyse(text, out) {
		return
	}
	c.observe()
	step := c.m.Begin(ev)
	ev.Text = nil
	c.do(&step, now, out)
}

// createText is the CREATE TEMPORARY TABLE that the present command runs or prepares; nil for any other command.
func (c *conversation) createText() []byte {
	ev := &c.event
	if ev.Kind != session.EventQuery && ev.Kind != session.EventPrepare || !ev.Whole || ev.Statement.Multi {
		return nil
	}
	switch ev.Statement.Verb {
	case rewrite.VerbCreateTemporary:
		return ev.Text
	case rewrite.VerbPrepare:
		_, inner, ok := rewrite.ParsePrepare(ev.Text, c.mode())
		if s := rewrite.Classify(inner, c.mode()); ok && s.Verb == rewrite.VerbCreateTemporary && !s.Multi {
			return inner
		}
	}
	return nil
}

// analyse looks up what is known of a CREATE TEMPORARY TABLE; it answers true if a worker has to find out.
func (c *conversation) analyse(text []byte, out *output) bool {
	policy := c.event.Policy
	left := policy.Strategy == session.StrategyNative && !policy.Measure && policy.Observe == nil
	if live, parked := c.m.Counts(); left && live+parked == 0 {
		return false
	}
	opt := rewrite.Options{
		Mode: c.mode(), Convert: policy.Convert, MaxCreate: policy.MaxCreate, Version: c.version, ConvertSelect: policy.ConvertSelect,
	}
	d, ok := c.sh.cache.Get(text, opt)
	if ok {
		c.event.Create = d
		return false
	}
	text = bytes.Clone(text)
	c.cmd = bytes.Clone(c.cmd)
	c.event.Text = nil
	c.phase = phaseWork
	out.work = func() {
		d := rewrite.Analyze(text, opt)
		c.sh.cache.Put(text, opt, d)
		c.create = d
	}
	return true
}

// mode is the lexical state that the server's flags tell.
func (c *conversation) mode() rewrite.Mode {
	var m rewrite.Mode
	if c.status&wire.StatusNoBackslashEscapes != 0 {
		m |= rewrite.NoBackslashEscapes
	}
	if c.mariadb {
		m |= rewrite.MariaDB
		if c.status&wire.StatusAnsiQuotes != 0 {
			m |= rewrite.ANSIQuotes
		}
	}
	return m
}

// text is the text of the present command, as far as it is examined: see session.Event.
func (c *conversation) text() []byte {
	p := c.cmd[wire.HeaderSize:]
	p = p[:min(len(p), c.examined)]
	switch c.command {
	case wire.ComQuery:
		_, text, err := wire.SplitQuery(p, c.caps)
		if err != nil {
			return nil
		}
		return text
	case wire.ComStmtPrepare, wire.ComInitDB:
		return p[1:]
	case wire.ComFieldList:
		name, _, _ := bytes.Cut(p[1:], []byte{0})
		return name
	case wire.ComChangeUser:
		schema, _ := c.changeUser()
		return schema
	}
	return nil
}

// changeUser is the schema and the collation that the present COM_CHANGE_USER asks for.
func (c *conversation) changeUser() (schema []byte, collation uint16) {
	p := c.cmd[wire.HeaderSize:]
	u, err := wire.ParseChangeUser(p[:min(len(p), c.examined)], c.caps)
	if err != nil {
		return nil, 0
	}
	return []byte(u.Schema), u.Collation
}

// attributes is the query attributes block of the present command, for a statement that replaces it.
func (c *conversation) attributes() []byte {
	if c.command != wire.ComQuery || !c.caps.Has(wire.ClientQueryAttributes) {
		return nil
	}
	a, _, err := wire.SplitQuery(c.cmd[wire.HeaderSize:], c.caps)
	if err != nil {
		return nil
	}
	return a
}

// handle is the statement id of a command that carries one.
func (c *conversation) handle(cmd []byte) uint32 {
	if len(cmd) < wire.HeaderSize+5 {
		return 0
	}
	id := binary.LittleEndian.Uint32(cmd[wire.HeaderSize+1:])
	switch {
	case id != lastPrepared:
		return id
	case c.mariadb:
		return c.last
	}
	return 0
}
