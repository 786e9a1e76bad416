package proxy

import (
	"tmpproxy/rewrite"
	"tmpproxy/session"
	"tmpproxy/wire"
)

// Recorder chooses sessions whose commands are recorded. It is called by several goroutines at once and must not wait.
type Recorder interface {
	// Session returns what takes the client's commands, nil if it is not recorded.
	Session(Client) Recording
}

// Client is what is known of a session's client.
type Client struct {
	User, Schema string // Schema is the current one, "" if it is not known
	Address      string // as in SessionInfo
	MariaDB      bool
	Version      int
	Collation    uint16
	Capabilities wire.Capability // negotiated
	Joined       bool            // it has sent commands before
}

// Recording takes the commands of one session, one after the other. It is called by the session's driver and must not wait.
// Nothing of an authentication is given to it.
type Recording interface {
	// Command begins a command, in the lexical state mode.
	Command(c wire.Command, mode rewrite.Mode)
	// Bytes are the next of the command's packets, with headers. They are the caller's.
	Bytes(b []byte)
	// Account stands for the bytes of a COM_CHANGE_USER.
	Account(user, schema string)
	// Done is the end of the reply: code of an ERR or 0, id and number of parameters of a prepared statement.
	Done(code uint16, id uint32, params int)
	// Lost says that the session is relayed from here on without being understood.
	Lost()
	// End is the session's.
	End()
}

// SetRecorder has sessions recorded from their next command outside a transaction on; nil ends it. Safe for concurrent use.
func (s *Server) SetRecorder(r Recorder) {
	if r == nil {
		s.shared.recorder.Store(nil)
		return
	}
	s.shared.recorder.Store(&r)
}

// tap is what a conversation keeps for recordings.
type tap struct {
	asked     *Recorder // that was asked for this session
	recording Recording // nil: it is not recorded
	client    string    // address
	user      string
	collation uint16
	commands  bool // there was one
	taken     bool // the present command is being recorded
	code      uint16
	params    uint16
	id        uint32
}

// record begins the recording of the present command, of which b is the first part.
func (c *conversation) record(b []byte) {
	t := &c.tap
	if r := c.sh.recorder.Load(); r != t.asked && !c.inTransaction() {
		t.asked, t.recording = r, nil
		if r != nil {
			schema, _ := c.m.Schema()
			t.recording = (*r).Session(Client{
				User: t.user, Schema: schema, Address: t.client, MariaDB: c.mariadb, Version: c.version, Collation: t.collation,
				Capabilities: c.caps, Joined: t.commands,
			})
		}
	}
	t.commands = true
	if t.recording == nil {
		return
	}
	t.taken = true
	t.code, t.id, t.params = 0, 0, 0
	t.recording.Command(c.command, c.mode())
	if c.command != wire.ComChangeUser {
		t.recording.Bytes(b)
	} else if u, err := wire.ParseChangeUser(c.cmd[wire.HeaderSize:][:min(len(c.cmd)-wire.HeaderSize, c.examined)], c.caps); err == nil {
		t.user, t.collation = u.User, u.Collation
		t.recording.Account(u.User, u.Schema)
	}
}

// recordMore takes a further part of the present command.
func (c *conversation) recordMore(b []byte) {
	if c.tap.taken && c.command != wire.ComChangeUser {
		c.tap.recording.Bytes(b)
	}
}

// recordReply notes what the present command was answered with.
func (c *conversation) recordReply(o *session.Outcome, params uint16) {
	if t := &c.tap; t.taken {
		t.code, t.id, t.params = 0, o.Handle, params
		if o.Kind == session.OutcomeErr {
			t.code = o.Code
		}
	}
}

// recorded ends the recording of the present command.
func (c *conversation) recorded() {
	if t := &c.tap; t.taken {
		t.taken = false
		t.recording.Done(t.code, t.id, int(t.params))
	}
}

// recordEnd is the session's end.
func (c *conversation) recordEnd() {
	if r := c.tap.recording; r != nil {
		r.End()
		c.tap.recording, c.tap.taken = nil, false
	}
}
