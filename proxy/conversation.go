package proxy

import (
	"bytes"
	"errors"
	"runtime/debug"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tmpproxy/rewrite"
	"tmpproxy/session"
	"tmpproxy/wire"
)

// phase says what a conversation is in the middle of.
type phase uint8

const (
	phaseHandshake phase = iota // until the login is answered: see handshake
	phaseCommand                // between commands, or a command has not arrived far enough to be judged
	phaseWork                   // the command's text is being analysed on a worker
	phaseWait                   // the command waits for the reply to a background statement
	phaseReply                  // something was sent to the backend for the command; its reply is awaited
	phaseTail                   // the reply is complete, but the client is still sending the command, or the file that it asks for
	phaseAuth                   // COM_CHANGE_USER: authentication turns
	phaseRaw                    // bytes are relayed both ways, nothing is understood any more
)

// delivery says what becomes of the backend's reply.
type delivery uint8

const (
	relayReply delivery = iota // to the client as it comes
	holdReply                  // kept until the machine decides
	dropReply                  // ours; kept only as long as StepFail may ask for it, or to read a definition from it
)

// trackers are lent to conversations while a reply is in progress.
var trackers = sync.Pool{New: func() any { return new(wire.ResponseTracker) }}

const (
	// maxHeld bounds what is kept of a held reply: the statements whose replies are held answer with one OK or ERR packet.
	maxHeld = 4 << 10

	// maxDefinition bounds what is kept of the reply to SHOW CREATE TABLE. A table with a longer definition is not trusted.
	maxDefinition = 64 << 10
)

// conversation is one session's whole protocol life as a resumable state machine without I/O. A driver gives it what arrived and
// acts on the output. It never blocks; it is not safe for concurrent use: one driver thread calls it.
//
// Calls, all with the monotonic time in nanoseconds:
//
//	start        once, with the bytes of the backend's greeting read so far (none, or a spare connection's)
//	received     bytes that arrived from a side; all of them are consumed (what cannot go on yet is copied)
//	ended        a side's FIN, behind all its bytes (a side ends once)
//	broken       a side's read failed (reset); or writing to it failed, in which case reading from it goes on
//	resumed      output.work has returned
//	background   the loop's batch is done and wantsBackground said true
//	drain        the process is going down: end at the next statement boundary outside a transaction
//	expire       idles has said true for too long
//
// Between calls the driver asks wants(side): whether bytes of that side should be read now. The driver adds its own flow control:
// while bytes for one side are queued, the other side is not read.
type conversation struct {
	sh *shared
	m  *session.Machine // nil until logged in
	hs *handshake       // nil but for phaseHandshake and phaseAuth

	observer *session.Observer // nil but under strategy observe

	phase    phase
	delivery delivery
	class    session.Class // of the client's command in progress: create, drop, use
	ourClass session.Class // of our statement that is out
	command  wire.Command  // the client's, in progress

	out       bool // a background statement is out: its reply is swallowed
	upOpen    bool // the client has not sent the whole command yet
	unsent    bool // nor was what has arrived of it sent on: the rest is dropped
	infile    bool // the client is sending the file of LOCAL INFILE
	upBroken  bool // writing to the backend failed: nothing more is sent there
	goodbye   bool // the backend said something unasked: it is going
	clientFIN bool // the client's FIN has arrived
	draining  bool
	multi     bool    // multi-statements are on
	safe      [2]bool // legs that do not leave the machine: unix sockets

	blind      bool // its observation has panicked
	wantsMulti bool // what the present COM_SET_OPTION asks for
	shut       bool // the client's FIN was passed on
	entered    bool // it counts for its user
	streams    bool // relayed, and the backend speaks without being asked
	spoken     bool // relayed, and the backend has spoken since the client has

	mariadb bool
	local   bool // the present command was answered without the backend
	failed  bool // it was answered with an error
	fresh   bool // nothing was sent since the last was answered without the backend
	thinks  bool // the client has taken its time, last, behind such an answer
	status  uint16
	thread  uint32
	version int
	caps    wire.Capability // negotiated
	packed  *packing        // on a compressed session
	legs    *legs           // nil: neither has TLS, and no password is translated
	batch   *batch          // a multi-statement packet that is run one by one

	first [wire.HeaderSize + 1]byte // the beginning of a reply that is not relayed,
	head  uint8                     // and how much of it is there

	tracker *wire.ResponseTracker // of the reply in progress; borrowed, so that an idle session holds none
	up      wire.Framer           // the client's command or file in progress

	examined int    // bytes of the present command's payload that are looked at
	pending  []byte // the client's bytes that could not be judged or sent yet
	cmd      []byte // the present command's bytes as far as they have arrived, while it is not forwarded
	held     []byte // the reply held back, or the beginning of a swallowed one
	event    session.Event
	create   *rewrite.Create // result of the analysis on a worker
	shape    string          // of the table that the client's command concerns
	ourShape string          // of the table that our statement concerns
	tap      tap             // for recordings
	slow     *slow           // for the logs of statements; nil when there is nothing to keep
	began    int64           // when the present command was taken up
	asked    int64           // when the present statement of ours was sent
	counted  int32           // of shared.buffered
	last     uint32          // MariaDB: the id of the last prepared statement; session.NoHandle: none; 0: not known

	answered int64 // when the last command was answered without the backend; 0 if it was not

	who   subject     // for trials and limits
	trial *running    // that was in force when the session was asked last
	part  Participant // in it; nil: none
}

// newConversation makes the conversation of one accepted client.
func newConversation(sh *shared) *conversation {
	return &conversation{sh: sh, hs: &handshake{}}
}

// newRawConversation makes a conversation that relays bytes and understands nothing.
func newRawConversation() *conversation { return &conversation{phase: phaseRaw} }

func (c *conversation) start(greeting []byte, now int64, out *output) {
	if len(greeting) > 0 {
		c.received(backendSide, greeting, now, out)
	}
}

func (c *conversation) received(from side, b []byte, now int64, out *output) {
	if s := c.tls(from); s != nil {
		c.decrypt(s, b, now, out)
	} else {
		c.arrived(from, b, now, out)
	}
	c.pack(out)
}

// arrived takes bytes without TLS.
func (c *conversation) arrived(from side, b []byte, now int64, out *output) {
	if c.packed == nil {
		c.take(from, b, now, out)
	} else {
		c.unpack(from, b, now, out)
	}
}

// unpack takes bytes of a compressed session. What is not understood there cannot even be relayed.
func (c *conversation) unpack(from side, b []byte, now int64, out *output) {
	none := noRoomError(0)
	err := c.packed.unpack(from, b, c.room, func(b []byte) { c.take(from, b, now, out) })
	switch {
	case err == nil:
	case errors.As(err, &none):
		if !out.end {
			c.noRoom(from, int(none), out)
		}
	default:
		c.sh.metrics.rawSession("compression")
		out.end = true
	}
}

// pack puts what an input brought forth into frames, on a compressed session, and encrypts it. Every input ends with it.
func (c *conversation) pack(out *output) {
	if c.packed != nil {
		c.packed.pack(out.runs[out.plain:])
	}
	if c.legs != nil {
		c.encrypt(out)
	}
}

func (c *conversation) take(from side, b []byte, now int64, out *output) {
	if out.end {
		return
	}
	if from == clientSide {
		c.fromClient(b, now, out)
	} else {
		c.fromBackend(b, now, out)
	}
}

func (c *conversation) fromClient(b []byte, now int64, out *output) {
	switch c.phase {
	case phaseRaw:
		c.spoken = false
		c.toBackend(b, out)
		return
	case phaseHandshake, phaseAuth:
		c.pending = append(c.pending, b...)
		c.authFromClient(now, out)
		return
	}
	if len(c.pending) == 0 {
		c.feed(b, false, now, out)
		return
	}
	b = append(c.pending, b...)
	c.pending = nil
	c.feed(b, true, now, out)
}

// feed goes on with b, all bytes of the client's that are there, and keeps what cannot go on yet. Runs of out may point into b, so
// it is never written to. own: b is memory of the conversation's, not the driver's.
func (c *conversation) feed(b []byte, own bool, now int64, out *output) {
	for len(b) > 0 && !out.end {
		var n int
		switch c.phase {
		case phaseCommand:
			n = c.takeCommand(b, now, out)
		case phaseReply, phaseTail:
			n = c.stream(b, now, out)
		case phaseRaw:
			c.toBackend(b, out)
			n = len(b)
		}
		if n == 0 {
			break
		}
		b = b[n:]
	}
	switch {
	case len(b) == 0 || out.end:
		c.pending = nil
	case own:
		c.pending = b
	default:
		c.pending = bytes.Clone(b)
	}
	if c.phase == phaseAuth {
		c.authFromClient(now, out)
	}
	if c.clientFIN {
		c.finish(out)
	}
}

// stream sends on the rest of a command, or of a file for LOCAL INFILE, of which the beginning has gone.
func (c *conversation) stream(b []byte, now int64, out *output) int {
	switch {
	case c.infile:
		n, end := c.up.SkipInfile(b)
		file := b[:n]
		if c.batch != nil {
			file = c.batch.file.subtract(file, c.batch.base)
		}
		c.toBackend(file, out)
		if end {
			c.infile = false
			if c.phase == phaseTail {
				c.recorded()
				c.idle(out)
			}
		}
		return n
	case c.upOpen && c.cmd == nil:
		n, end := c.up.Skip(b)
		c.recordMore(b[:n])
		if !c.unsent {
			c.toBackend(b[:n], out)
		}
		if end {
			c.upOpen, c.unsent = false, false
			if c.phase == phaseTail {
				c.recorded()
				c.idle(out)
			} else if c.command.Shape() == wire.ShapeNone {
				c.next(&session.Outcome{Kind: session.OutcomeNone, Now: now}, now, out)
			}
		}
		return n
	}
	return 0
}

func (c *conversation) fromBackend(b []byte, now int64, out *output) {
	switch c.phase {
	case phaseRaw:
		c.spoken = true
		c.toClient(b, out)
		return
	case phaseHandshake, phaseAuth:
		c.authFromBackend(b, now, out)
		return
	}
	for len(b) > 0 && !out.end {
		if c.phase != phaseRaw && !c.goodbye && (c.phase != phaseReply && !c.out || c.tracker == nil) {
			// Nothing was asked, or what has no reply is still being said: the server says goodbye (ERR 4031 and the like). It is
			// the client's to read.
			c.farewell(out)
		}
		if c.phase == phaseRaw || c.goodbye {
			c.toClient(b, out)
			return
		}
		var n int
		var done bool
		if c.batch != nil && c.delivery == relayReply && !c.out {
			n, done = c.stitch(b, out)
		} else {
			n, done = c.tracker.Scan(b)
			c.deliver(b[:n], out)
		}
		if c.goodbye {
			b = b[n:]
			continue
		}
		if c.tracker.Raw() {
			if c.ours() || c.batch != nil {
				c.lost(out)
				return
			}
			c.becomeRaw("reply", out)
			b = b[n:]
			continue
		}
		if done {
			c.complete(now, out)
		} else if n == len(b) && !c.infile && c.tracker.Infile() && (c.batch == nil || len(c.batch.in) == 0) {
			if c.ours() || c.delivery == holdReply {
				c.lost(out) // the client is not to send a file for it
				return
			}
			c.infile = true
			c.up = wire.Framer{}
			c.resumeClient(now, out)
		}
		b = b[n:]
	}
}

// ours says whether the reply in progress is to a statement of ours, of which the client knows nothing.
func (c *conversation) ours() bool { return c.out || c.delivery == dropReply }

// lost ends a session in which a reply is not understood that cannot be relayed either: it answers a statement of ours, or one of several
// in a packet, and what follows is not what the client waits for.
func (c *conversation) lost(out *output) {
	c.sh.metrics.rawSession("reply")
	out.end = true
}

// deliver puts a piece of the present reply where it belongs.
func (c *conversation) deliver(b []byte, out *output) {
	if c.delivery == relayReply && !c.out {
		c.toClient(b, out)
		return
	}
	if int(c.head) < len(c.first) {
		// A reply to a statement begins with sequence number 1. An ERR with 0 is no reply: the server ends the connection.
		k := copy(c.first[c.head:], b)
		if c.head += uint8(k); int(c.head) == len(c.first) && c.first[3] == 0 && c.first[4] == 0xFF {
			c.farewell(out)
			c.toClient(bytes.Clone(c.first[:int(c.head)-k]), out)
			c.toClient(b, out)
			return
		}
	}
	limit := maxHeld
	switch {
	case c.delivery == dropReply && c.ourClass == session.ClassCheck:
		limit = maxDefinition
	case c.out:
		return
	}
	if room := limit - len(c.held); room > 0 {
		c.held = append(c.held, b[:min(room, len(b))]...)
	}
}

// complete is called when the reply in progress has arrived whole.
func (c *conversation) complete(now int64, out *output) {
	r := c.tracker.Result()
	trackers.Put(c.tracker)
	c.tracker = nil
	if c.infile && c.batch != nil {
		c.lost(out) // the server has not waited for the file, whose packets are numbered for it alone
		return
	}
	if !c.out && c.event.Statement.Borrows {
		// The flags tell of settings that were in force while the statement ran and are not any more.
		const lexical = wire.StatusNoBackslashEscapes | wire.StatusAnsiQuotes
		r.Status = r.Status&^lexical | c.status&lexical
	}
	o := outcome(&r, now)
	if r.HasStatus {
		c.status = r.Status
	}
	if c.delivery == dropReply && c.ourClass == session.ClassCheck {
		o.Definition = wire.ShowCreate(c.held)
	}
	if c.out {
		c.out, c.held = false, nil
		c.sh.ledger.measure(c.ourClass, c.ourShape, now-c.asked)
		c.m.BackgroundDone(&o)
		if c.phase == phaseWait {
			c.begin(now, out)
			c.resumeClient(now, out)
		} else if c.clientFIN {
			c.finish(out)
		}
		return
	}
	if c.delivery != dropReply {
		c.failed = r.Kind == wire.ResultErr
		c.recordReply(&o, r.Params)
	}
	switch c.delivery {
	case relayReply:
		if r.Kind == wire.ResultErr {
			if c.command == wire.ComStmtPrepare {
				c.last = lastAfter(r.Code)
			}
			break
		}
		switch c.command {
		case wire.ComStmtPrepare:
			c.last = r.StatementID
			c.slowKnow(r.StatementID)
		case wire.ComSetOption:
			c.multi = c.wantsMulti
		}
	case dropReply:
		c.sh.ledger.measure(c.ourClass, c.ourShape, now-c.asked)
	}
	c.next(&o, now, out)
	c.resumeClient(now, out)
}

func outcome(r *wire.Result, now int64) session.Outcome {
	o := session.Outcome{
		Code: r.Code, Status: r.Status, Warnings: r.Warnings, Affected: r.Affected,
		Handle: r.StatementID, StateTracked: r.StateChange, Results: r.Results, Now: now,
	}
	switch r.Kind {
	case wire.ResultErr:
		o.Kind = session.OutcomeErr
	case wire.ResultSet:
		o.Kind = session.OutcomeSet
	}
	return o
}

// resumeClient goes on with the client's bytes that were kept while the backend was answering.
func (c *conversation) resumeClient(now int64, out *output) {
	if out.end {
		return
	}
	if b := c.pending; len(b) > 0 {
		c.pending = nil
		c.feed(b, true, now, out)
	} else if c.clientFIN {
		c.finish(out)
	}
}

// next reports an outcome to the machine and does what it says.
func (c *conversation) next(o *session.Outcome, now int64, out *output) {
	if c.observer != nil && c.delivery == relayReply {
		c.observed(o)
	}
	step := c.m.Next(o)
	c.do(&step, now, out)
}

// observe has the present command looked at, under strategy observe.
func (c *conversation) observe() {
	defer c.unwatch()
	switch ev := &c.event; {
	case ev.Policy.Observe == nil:
		c.unobserve()
	case c.blind:
	case c.observer == nil:
		c.observer = session.NewObserver(c.m, c.sh.observed)
		fallthrough
	default:
		c.observer.Begin(ev)
	}
}

// observed has the backend's reply to it looked at.
func (c *conversation) observed(o *session.Outcome) {
	defer c.unwatch()
	c.observer.End(o)
}

// unwatch ends the observation of a session in which it panicked: the session itself goes on.
func (c *conversation) unwatch() {
	if reason := recover(); reason != nil {
		c.observer, c.blind = nil, true
		c.sh.ledger.log.write(zapcore.ErrorLevel, "observation panicked", zap.Any("error", reason), zap.ByteString("stack", debug.Stack()))
	}
}

// unobserve ends the observation of the session.
func (c *conversation) unobserve() {
	if c.observer != nil {
		defer c.unwatch()
		c.observer.Close()
		c.observer = nil
	}
}

// begin asks the machine about the present command, whose bytes are in c.cmd, and does what it says.
func (c *conversation) begin(now int64, out *output) {
	c.event.Now, c.event.Began = now, c.began
	c.event.Policy = c.policy(now)
	c.event.Text = c.text()
	step := c.m.Begin(&c.event)
	c.event.Text = nil
	c.do(&step, now, out)
}

// do carries out one step.
func (c *conversation) do(step *session.Step, now int64, out *output) {
	switch step.Class {
	case session.ClassCreate, session.ClassDrop, session.ClassUse:
		c.class, c.shape = step.Class, step.Shape
	}
	switch step.Kind {
	case session.StepForward:
		c.forward(now, out)
	case session.StepReplace:
		c.ask(step, holdReply, c.attributes(), now, out)
	case session.StepInject:
		c.ask(step, dropReply, nil, now, out)
	case session.StepWait:
		c.phase = phaseWait
	case session.StepRelease, session.StepFail:
		c.failed = c.failed || step.Kind == session.StepFail
		c.unsent = c.upOpen && step.Kind == session.StepFail
		c.answer(c.held, out)
		c.over(now, out)
	case session.StepReply:
		c.answer(wire.AppendOK(nil, 1, c.caps, wire.OK{Status: step.Status, Warnings: step.Warnings}), out)
		c.local, c.failed = true, false
		if c.event.Policy.Measure {
			c.sh.ledger.answeredHere(c.sh.ledger.now() - now)
		}
		c.over(now, out)
	case session.StepRaw:
		c.toBackendFirst(c.cmd, out)
		c.streams = true
		c.becomeRaw("command", out)
	case session.StepDone:
		c.over(now, out)
	}
}

// answer gives the client one packet that ends the present command.
func (c *conversation) answer(p []byte, out *output) {
	if c.batch != nil {
		p = c.stitchPacket(p)
	}
	c.toClient(p, out)
}

// forward sends the client's command as it is.
func (c *conversation) forward(now int64, out *output) {
	user := c.who.user
	if c.command.Shape() == wire.ShapeAuth {
		p := c.cmd[wire.HeaderSize:]
		if u, err := wire.ParseChangeUser(p[:min(len(p), c.examined)], c.caps); err == nil {
			user = u.User
		}
		c.reviseChangeUser()
	}
	c.toBackendFirst(c.cmd, out)
	c.cmd = nil
	c.held = nil
	c.delivery = relayReply
	c.phase = phaseReply
	c.asked = now
	switch c.command.Shape() {
	case wire.ShapeNone:
		if !c.upOpen {
			c.next(&session.Outcome{Kind: session.OutcomeNone, Now: now}, now, out)
		}
	case wire.ShapeAuth:
		c.phase = phaseAuth
		c.hs = &handshake{stage: stageAuth, changeUser: true, next: 1}
		c.hs.login.User = user
		c.hs.flow.Start("")
	default:
		c.track(c.command)
	}
}

// track makes ready for the reply to a command.
func (c *conversation) track(cmd wire.Command) {
	if c.tracker == nil {
		c.tracker = trackers.Get().(*wire.ResponseTracker)
	}
	c.tracker.Begin(cmd, c.caps, c.mariadb)
}

// ask sends a statement of ours.
func (c *conversation) ask(step *session.Step, d delivery, attributes []byte, now int64, out *output) {
	c.toBackendFirst(wire.AppendQuery(nil, c.caps, attributes, step.SQL), out)
	c.held = nil
	c.delivery = d
	c.phase = phaseReply
	c.sent(step, now)
}

// sent notes that a statement of ours is out.
func (c *conversation) sent(step *session.Step, now int64) {
	c.ourClass, c.ourShape = step.Class, step.Shape
	c.asked = now
	c.head = 0
	c.track(wire.ComQuery)
}

// answerer says who answered the present command.
func (c *conversation) answerer() answerer {
	switch {
	case c.local:
		return byUs
	case c.delivery == relayReply:
		return byServer
	}
	return bySplicing
}

// over ends the present command.
func (c *conversation) over(now int64, out *output) {
	c.sh.metrics.command(c.command, c.local)
	if c.class != session.ClassOther {
		c.sh.ledger.answered(c.class, c.shape, now-c.began, c.answerer(), now-c.asked)
		c.class, c.shape = session.ClassOther, ""
	}
	c.answered, c.fresh = 0, c.local
	if c.local {
		c.answered = now
	}
	if c.part != nil && (c.event.Kind == session.EventQuery || c.event.Kind == session.EventExecute) {
		took := now - c.began
		if c.local {
			took += c.sh.ledger.Answering()
		}
		c.part.Statement(took, c.failed)
	}
	c.slowEnd(now)
	c.local, c.failed = false, false
	c.cmd, c.held, c.create = nil, nil, nil
	c.event = session.Event{}
	if c.batch != nil && !c.endOfBatch() {
		c.nextOfBatch(now, out)
		return
	}
	if c.upOpen || c.infile {
		c.phase = phaseTail
		return
	}
	c.recorded()
	c.idle(out)
}

// idle is the boundary between two commands.
func (c *conversation) idle(out *output) {
	c.phase = phaseCommand
	if c.draining && !c.inTransaction() {
		out.end = true
	}
}

func (c *conversation) inTransaction() bool { return c.status&wire.StatusInTrans != 0 }

// farewell is called when the server says goodbye. Nothing is answered in its place any more: the client would take that for the answer to
// what it says next.
func (c *conversation) farewell(out *output) {
	c.goodbye = true
	switch c.phase {
	case phaseCommand, phaseWork, phaseWait, phaseTail:
		if c.cmd != nil {
			c.toBackendFirst(c.cmd, out)
		}
		c.upBroken = c.upBroken || c.unsent // the rest of a command of which the beginning was not sent is no command
		c.becomeRaw("", out)
	}
}

// becomeRaw gives up understanding: bytes are relayed both ways from here on.
func (c *conversation) becomeRaw(why string, out *output) {
	c.phase = phaseRaw
	c.unobserve()
	if c.tap.recording != nil && !c.goodbye {
		c.tap.recording.Lost()
	}
	c.sh.metrics.rawSession(why)
	if c.delivery == holdReply {
		c.toClient(c.held, out)
	}
	c.toBackend(c.pending, out)
	c.held, c.pending, c.cmd, c.hs, c.batch = nil, nil, nil, nil, nil
	if c.clientFIN {
		c.finish(out)
	}
}

func (c *conversation) toClient(b []byte, out *output) { out.to(clientSide, b) }

func (c *conversation) toBackend(b []byte, out *output) {
	if !c.upBroken {
		out.to(backendSide, b)
	}
}

// toBackendFirst sends the first bytes of a command.
func (c *conversation) toBackendFirst(b []byte, out *output) {
	if !c.upBroken {
		out.begin(b)
	}
}

// ended is a side's FIN, behind its bytes.
func (c *conversation) ended(from side, now int64, out *output) {
	if s := c.tls(from); s == nil || !s.over { // or it has said so before
		c.end(from, out)
	}
	c.pack(out)
}

// end is the end of what a side says.
func (c *conversation) end(from side, out *output) {
	if from == backendSide {
		if s := c.tls(backendSide); s != nil && !s.established {
			c.untrusted(errors.New("the server has closed the connection"), out)
		}
		out.end = true
		return
	}
	c.clientFIN = true
	if c.phase == phaseHandshake && !c.hs.loggedIn() {
		out.end = true // the backend connection may serve another client: see spare
		return
	}
	c.finish(out)
}

// finish passes the client's FIN on once nothing of the client's is left to be done.
func (c *conversation) finish(out *output) {
	switch c.phase {
	case phaseWork, phaseWait:
		return
	case phaseHandshake, phaseAuth:
		if c.hs.then != nil || c.hs.stage == stageSecure {
			return
		}
	case phaseReply:
		// Commands behind the present one still run. A command or file that will never be whole is the server's to judge.
		if len(c.pending) > 0 && !c.upOpen && !c.infile || c.cmd != nil || c.delivery != relayReply || c.batch != nil {
			return
		}
	case phaseCommand:
		if c.out {
			return
		}
	}
	if c.shut {
		return
	}
	c.shut = true
	c.toBackend(c.pending, out)
	c.pending = nil
	out.shut[backendSide] = true
}

// broken is a failed read of a side (reset), or a failed write to it.
func (c *conversation) broken(at side, writing bool, now int64, out *output) {
	if writing && at == backendSide {
		c.upBroken = true // what the backend still says is delivered (ERR 1153, say); its end will come
		return
	}
	out.end = true
	c.pack(out)
}

// resumed continues after output.work has returned.
func (c *conversation) resumed(now int64, out *output) {
	if h := c.hs; h != nil && h.then != nil {
		then := h.then
		h.then = nil
		then(now, out)
		if c.hs == h && h.then == nil {
			c.authFromBackend(nil, now, out)
		}
		c.pack(out)
		return
	}
	if c.phase != phaseWork {
		return
	}
	c.phase = phaseCommand
	c.event.Create = c.create
	c.event.Now, c.event.Policy, c.event.Text = now, c.policy(now), c.text()
	c.observe()
	c.begin(now, out)
	c.resumeClient(now, out)
	c.pack(out)
}

// background sends the next statement of ours that the client does not wait for.
func (c *conversation) background(now int64, out *output) {
	if !c.wantsBackground() {
		return
	}
	step, ok := c.m.Background(now, c.policy(now))
	if !ok {
		return
	}
	c.out, c.held, c.delivery, c.fresh = true, nil, dropReply, false
	c.toBackendFirst(wire.AppendQuery(nil, c.caps, nil, step.SQL), out)
	c.sent(&step, now)
	c.pack(out)
}

// wantsBackground says whether background should be called when the loop's batch is done.
func (c *conversation) wantsBackground() bool {
	return c.phase == phaseCommand && !c.out && !c.upBroken && !c.clientFIN && c.m.HasBackground()
}

// thinkTime is what a client takes at least, behind an answer, that is said to think.
const thinkTime = 500_000

// leavesTime says whether what is to be done in the background may wait a little.
func (c *conversation) leavesTime() bool { return c.fresh && c.thinks }

// drain asks for the session's end at the next boundary of commands outside a transaction.
func (c *conversation) drain(now int64, out *output) {
	c.draining = true
	switch c.phase {
	case phaseHandshake:
		out.end = true
	case phaseCommand:
		if len(c.pending) == 0 && !c.inTransaction() {
			out.end = true
		}
	}
	c.pack(out)
}

// idles says whether the session waits for its client: for a command, the rest of one, or a turn of COM_CHANGE_USER. What is only relayed
// is taken to do so when the backend has spoken last, but for streams of events.
func (c *conversation) idles() bool {
	switch c.phase {
	case phaseCommand:
		return !c.out
	case phaseAuth:
		return c.hs.then == nil && c.hs.wantsClient()
	case phaseRaw:
		return c.spoken && !c.streams
	}
	return false
}

// errIdle is what MySQL says at the end of wait_timeout, but for what is to be set. MariaDB says nothing.
var errIdle = wire.Err{Code: 4031, State: "HY000", Message: "The client was disconnected by the server because of inactivity. See limits.idle_timeout of tmpproxy for configuring this behavior."}

// expire ends a session whose client keeps it waiting. The backend is told, lest it counts an aborted client.
func (c *conversation) expire(now int64, out *output) {
	if c.phase == phaseCommand {
		if !c.mariadb && !c.goodbye {
			c.toClient(wire.AppendErr(nil, 0, c.caps, errIdle), out)
		}
		if !c.shut {
			c.toBackendFirst(packetOf(0, []byte{byte(wire.ComQuit)}), out)
		}
	}
	out.end = true
	c.pack(out)
}

// wants says whether bytes of that side should be read now.
func (c *conversation) wants(from side) bool {
	if from == backendSide {
		return true
	}
	switch c.phase {
	case phaseRaw, phaseCommand, phaseTail:
		return true
	case phaseHandshake, phaseAuth:
		switch s := c.tls(clientSide); {
		case c.hs.then != nil:
			return false
		case s != nil && !s.established:
			return true
		}
		return c.hs.wantsClient() || len(c.pending) == 0
	case phaseReply:
		return len(c.pending) == 0 || c.infile || c.upOpen && c.cmd == nil
	}
	return len(c.pending) == 0
}

// handshaking says whether the session is not logged in yet: it counts against limits.max_handshakes and its time is bounded.
func (c *conversation) handshaking() bool { return c.phase == phaseHandshake }

// describe fills in what is known of the session.
func (c *conversation) describe(i *SessionInfo) {
	i.ThreadID = c.thread
	i.Raw = c.phase == phaseRaw
	i.InTransaction = c.inTransaction()
	i.ClientTLS, i.BackendTLS = c.tls(clientSide).version(), c.tls(backendSide).version()
	if c.m != nil {
		i.Live, i.Parked = c.m.Counts()
	}
	if c.part != nil && c.trial == c.sh.trial.Load() {
		i.Arm = c.part.Arm()
	}
}
