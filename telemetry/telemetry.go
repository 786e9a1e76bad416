// Package telemetry is the way of statements from sessions, which must never wait, to who writes them down or sends them on.
package telemetry

import (
	"sync/atomic"
	"time"

	"tmpproxy/rewrite"
)

// Statement is one of a client's, when its reply has arrived whole.
type Statement struct {
	End                time.Time     // of its reply; Queue.Add fills it in
	Took               time.Duration // from the statement's arrival to the end of its reply
	Thread             uint32        // the server's
	User, Host, Schema string        // Host is "" on a unix socket; Schema if it is not known
	// Text is the receiver's to keep: of a prepared statement the text that was prepared. nil: it is not known.
	Text     []byte
	Whole    bool // Text is all of it
	Prepared bool // it was executed by its id
	Mode     rewrite.Mode
	Failed   bool // it was answered with an error
}

// Queue holds statements for one goroutine to take. The zero value holds none.
type Queue struct {
	waiting  atomic.Int64 // bytes of texts
	maxBytes int64
	list     chan Statement
}

// NewQueue returns one for so many statements, whose texts have so many bytes in all.
func NewQueue(statements int, bytes int64) *Queue {
	return &Queue{maxBytes: bytes, list: make(chan Statement, statements)}
}

// Add says whether there was room. It never waits, and is safe for concurrent use.
func (q *Queue) Add(s Statement) bool {
	s.End = time.Now()
	if q.waiting.Add(int64(len(s.Text))) <= q.maxBytes {
		select {
		case q.list <- s:
			return true
		default:
		}
	}
	q.waiting.Add(-int64(len(s.Text)))
	return false
}

// Waiting is where statements are received; Taken is to be called with each.
func (q *Queue) Waiting() <-chan Statement { return q.list }

// Taken makes room.
func (q *Queue) Taken(s *Statement) { q.waiting.Add(-int64(len(s.Text))) }

// Drain gives each statement that waits now to take.
func (q *Queue) Drain(take func(Statement)) {
	for {
		select {
		case s := <-q.list:
			take(s)
		default:
			return
		}
	}
}
