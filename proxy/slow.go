package proxy

import (
	"bytes"
	"sync"
	"time"

	"tmpproxy/session"
	"tmpproxy/telemetry"
)

// StatementLog takes statements, those that took long for one. It is called by several goroutines at once and must not wait.
type StatementLog interface {
	// Wants says whether it takes one that took so long.
	Wants(took time.Duration) bool
	Statement(telemetry.Statement)
}

// SetStatementLogs has statements given to these logs, from the next one of every session on; none ends it. Safe for concurrent use.
func (s *Server) SetStatementLogs(logs ...StatementLog) {
	if len(logs) == 0 {
		s.shared.slow.Store(nil)
		return
	}
	s.shared.slow.Store(&statementLogs{logs})
}

type statementLogs struct{ list []StatementLog }

// slow is what a conversation keeps for the logs of statements: while a statement runs, and as long as it knows prepared ones.
type slow struct {
	logs     *statementLogs
	timed    bool // a statement is running
	text     []byte
	whole    bool
	prepared bool
	known    map[uint32]knownText
}

type knownText struct {
	text  []byte
	whole bool
}

// Bounds of one session.
const (
	maxKnown     = 128     // prepared statements whose texts are kept
	maxKnownText = 1 << 10 // bytes of each
	maxIdleText  = 1 << 10 // bytes of the buffer that it keeps while it is idle
)

// slows are for sessions that have a statement running.
var slows = sync.Pool{New: func() any { return new(slow) }}

// slowBegin notes that the present command runs.
func (c *conversation) slowBegin(ev *session.Event, text []byte) {
	l := c.sh.slow.Load()
	if l == nil && c.slow == nil {
		return
	}
	s := c.slow
	switch ev.Kind {
	case session.EventQuery, session.EventPrepare, session.EventExecute:
	case session.EventCloseHandle:
		if s != nil {
			delete(s.known, ev.Handle)
		}
		fallthrough
	default:
		if s != nil && (l == nil || ev.Kind == session.EventReset || ev.Kind == session.EventChangeUser) {
			c.slow = nil
		}
		return
	}
	if l == nil {
		c.slow = nil
		return
	}
	if s == nil {
		s = slows.Get().(*slow)
		c.slow = s
	}
	s.logs, s.timed, s.prepared, s.whole = l, true, ev.Kind == session.EventExecute, ev.Whole
	if s.prepared {
		k := s.known[ev.Handle]
		text, s.whole = k.text, k.whole
	}
	s.text = append(s.text[:0], text...)
}

// slowKnow notes which id the present statement was prepared under.
func (c *conversation) slowKnow(id uint32) {
	s := c.slow
	if s == nil || !s.timed || len(s.known) >= maxKnown {
		return
	}
	if s.known == nil {
		s.known = make(map[uint32]knownText)
	}
	n := min(len(s.text), maxKnownText)
	s.known[id] = knownText{bytes.Clone(s.text[:n]), s.whole && n == len(s.text)}
}

// slowEnd is the end of the present command.
func (c *conversation) slowEnd(now int64) {
	s := c.slow
	if s == nil || !s.timed {
		return
	}
	s.timed = false
	for _, log := range s.logs.list {
		took := time.Duration(now - c.began)
		if !log.Wants(took) {
			continue
		}
		schema, _ := c.m.Schema()
		log.Statement(telemetry.Statement{
			Took: took, Thread: c.thread, User: c.who.user, Host: c.who.host, Schema: schema,
			Text: bytes.Clone(s.text), Whole: s.whole, Prepared: s.prepared, Mode: c.mode(), Failed: c.failed,
		})
	}
	if cap(s.text) > maxIdleText && s.known != nil {
		s.text = nil
	}
	if len(s.known) == 0 {
		s.logs, s.known = nil, nil
		slows.Put(s)
		c.slow = nil
	}
}
