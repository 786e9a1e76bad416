package proxy

import "tmpproxy/session"

// Trial treats sessions in ways of its own and measures them: see Server.SetTrial. Safe for concurrent use. It is called on the way of
// commands and must not block for long.
type Trial interface {
	// Enrol takes in a session that has logged in, or that was there when the trial began, before its next command. host is the client's
	// address without the port, or "" on a unix socket; now is in monotonic nanoseconds. nil: the session takes no part.
	Enrol(user, schema, host string, now int64) Participant
}

// Participant is a session in a trial. Its methods are called by one goroutine at a time, under the same rule.
type Participant interface {
	// Policy returns what the next command obeys, made of what it would obey without the trial.
	Policy(base *session.Policy, now int64) *session.Policy
	// Statement takes the duration of a statement as the client saw it, in nanoseconds, and whether it was answered with an error.
	Statement(ns int64, failed bool)
	// Cycle takes a cycle that has ended. It must not be kept.
	Cycle(*session.Cycle)
	// Arm names the way in which the session is treated.
	Arm() string
	// End is the last call: the session is over.
	End()
}

// SetTrial puts a trial into force, for the next command of every session; nil ends it. Safe for concurrent use.
func (s *Server) SetTrial(t Trial) { s.shared.setTrial(t) }

// running is a trial that is in force; each has one of its own, by which sessions know whether they are part of it.
type running struct{ trial Trial }

func (sh *shared) setTrial(t Trial) {
	if t == nil {
		sh.trial.Store(nil)
	} else {
		sh.trial.Store(&running{t})
	}
}

// subject is what a trial is told of a session.
type subject struct{ user, schema, host string }

// policy returns what the next command obeys.
func (c *conversation) policy(now int64) *session.Policy {
	base := c.sh.policy.Load()
	if t := c.sh.trial.Load(); t != c.trial {
		c.enrol(t, now)
	}
	if c.part == nil {
		return base
	}
	return c.part.Policy(base, now)
}

// enrol makes the session a part of a trial that has begun, or none that has ended.
func (c *conversation) enrol(t *running, now int64) {
	c.trial, c.part = t, nil
	if t != nil {
		c.part = t.trial.Enrol(c.who.user, c.who.schema, c.who.host, now)
	}
}

// gone is the last call: the session is over.
func (c *conversation) gone() {
	c.abandon()
	c.leave()
	if c.part != nil {
		c.part.End()
		c.part = nil
	}
}

// book is the ledger as the machine of one session sees it: what is measured goes to the session's trial as well.
type book struct {
	*ledger
	c *conversation
}

// Note implements session.Ledger.
func (b book) Note(n session.Note) {
	if n.Kind == session.NoteEnd && b.c.part != nil {
		b.c.part.Cycle(n.Cycle)
	}
	b.ledger.Note(n)
}
