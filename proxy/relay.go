package proxy

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// input names the calls of a conversation.
type input uint8

const (
	inputStart input = iota
	inputReceived
	inputEnded
	inputReadFailed
	inputWriteFailed
	inputResumed
	inputBackground
	inputDrain
	inputIdle
)

// double stands in for a conversation in the tests of the drivers, which need one that panics, works or holds back at will.
type double interface {
	tell(in input, at side, b []byte, now int64, out *output)
	wants(from side) bool
	wantsBackground() bool
	leavesTime() bool
	handshaking() bool
	idles() bool
	spare() (greeting []byte, ok bool)
}

// relay is what a driver and the server keep of one session beside its connections. Between admission and gone it belongs to the
// goroutine that dials, then to its driver.
type relay struct {
	server *Server
	id     uint64
	client string // address
	host   string // its host; "" on a unix socket
	since  time.Time

	header string // the PROXY header for backends; "" where none is sent

	backend *backend    // where the session is, or is being connected to
	order   *[]*backend // where it may go, one after the other, as long as the client has seen nothing

	conversation *conversation
	double       double // takes the conversation's place if not nil

	active      int64  // when something arrived last, or what was queued for the client went: monotonic nanoseconds
	dialled     int64  // when the backend connection was made: monotonic nanoseconds
	tried       uint16 // backends of order
	counted     bool   // in Server.hosts
	handshaking bool   // counts against limits.max_handshakes
	local       bool   // the client came over a unix socket
	cause       string // why the session ended: the first reason counts
}

// tell gives the conversation one input. out is reset before.
func (r *relay) tell(in input, at side, b []byte, out *output) {
	out.reset()
	now := monotonic()
	if in == inputReceived || in == inputStart {
		r.active = now
	}
	if r.double != nil {
		r.double.tell(in, at, b, now, out)
	} else {
		switch in {
		case inputStart:
			r.conversation.connectedTo(r.backend)
			r.conversation.start(b, now, out)
		case inputReceived:
			r.conversation.received(at, b, now, out)
		case inputEnded:
			r.conversation.ended(at, now, out)
		case inputReadFailed:
			r.conversation.broken(at, false, now, out)
		case inputWriteFailed:
			r.conversation.broken(at, true, now, out)
		case inputResumed:
			r.conversation.resumed(now, out)
		case inputBackground:
			r.conversation.background(now, out)
		case inputDrain:
			r.conversation.drain(now, out)
		case inputIdle:
			r.conversation.expire(now, out)
		}
	}
	if r.handshaking && !r.greeting() {
		r.loggedIn()
	}
	if out.end || in == inputEnded {
		r.because(causes[in][at])
	}
}

// causes says why a session ended by the input that ended it, for the log.
var causes = [...][2]string{
	inputStart:       {"conversation", "conversation"},
	inputReceived:    {"conversation", "conversation"},
	inputEnded:       {"client closed", "backend closed"},
	inputReadFailed:  {"client reset", "backend reset"},
	inputWriteFailed: {"client gone", "backend gone"},
	inputResumed:     {"conversation", "conversation"},
	inputBackground:  {"conversation", "conversation"},
	inputDrain:       {"drained", "drained"},
	inputIdle:        {"idle timeout", "idle timeout"},
}

// cutOff is the cause of sessions that had not ended by themselves when the server did.
const cutOff = "shutdown"

func (r *relay) because(cause string) {
	if r.cause == "" {
		r.cause = cause
	}
}

func (r *relay) wants(from side) bool {
	if r.double != nil {
		return r.double.wants(from)
	}
	return r.conversation.wants(from)
}

func (r *relay) wantsBackground() bool {
	if r.double != nil {
		return r.double.wantsBackground()
	}
	return r.conversation.wantsBackground()
}

func (r *relay) leavesTime() bool {
	if r.double != nil {
		return r.double.leavesTime()
	}
	return r.conversation.leavesTime()
}

// greeting says whether the conversation is still in its handshake.
func (r *relay) greeting() bool {
	if r.double != nil {
		return r.double.handshaking()
	}
	return r.conversation.handshaking()
}

// overdue says whether the session has waited for its client since before that time. A client that is not logged in yet has its own limit.
func (r *relay) overdue(before int64) bool {
	if r.active >= before || r.handshaking {
		return false
	}
	if r.double != nil {
		return r.double.idles()
	}
	return r.conversation.idles()
}

// timedOut notes that the client has kept the session waiting for too long.
func (r *relay) timedOut() {
	r.because(causes[inputIdle][clientSide])
	r.server.counts.IdleTimeouts.Add(1)
	r.server.journal.write(zapcore.InfoLevel, "client was idle for too long", zap.Uint64("conn_id", r.id), zap.String("client", r.client),
		zap.Duration("duration", time.Duration(monotonic()-r.active)))
}

// spare says whether the backend connection can serve another client, for the driver that sees it whole.
func (r *relay) spare() (greeting []byte, ok bool) {
	if !r.handshaking || r.server.isClosing() || r.server.options.ProxyProtocol {
		return nil, false // by its header the connection is one client's
	}
	return r.reusable()
}

func (r *relay) reusable() (greeting []byte, ok bool) {
	if r.double != nil {
		return r.double.spare()
	}
	return r.conversation.spare()
}

func (r *relay) loggedIn() {
	r.handshaking = false
	r.server.handshakes.Add(-1)
}

// panicked notes a panic in the session's conversation or its work.
func (r *relay) panicked(reason any, stack []byte) {
	r.because("panic")
	r.server.counts.Panics.Add(1)
	r.server.journal.write(zapcore.ErrorLevel, "session panicked", zap.Uint64("conn_id", r.id), zap.String("client", r.client),
		zap.Any("error", reason), zap.ByteString("stack", stack))
}

// overtime notes that the client did not log in in time.
func (r *relay) overtime() {
	r.because("handshake timeout")
	r.server.counts.HandshakeTimeouts.Add(1)
	r.server.journal.write(zapcore.WarnLevel, "client did not log in in time", zap.Uint64("conn_id", r.id), zap.String("client", r.client),
		zap.Duration("duration", time.Since(r.since)))
}

// overflow notes that a conversation had more to send than a queue may hold.
func (r *relay) overflow(to side) {
	r.because("queue overflow")
	r.server.counts.Overflows.Add(1)
	r.server.journal.write(zapcore.ErrorLevel, "queue of a session is over its bound", zap.Uint64("conn_id", r.id),
		zap.String("client", r.client), zap.Stringer("side", to))
}

// mayQueue is what may wait for one side.
func (r *relay) mayQueue() int {
	if r.conversation != nil && r.conversation.packed != nil {
		return maxFrames
	}
	return maxQueue
}

// account counts what the session holds; queued is the size of its queues.
func (r *relay) account(queued int) {
	if r.conversation != nil {
		r.conversation.account(queued)
	}
}

// gone is the last call: both connections are closed or given away.
func (r *relay) gone() {
	if r.conversation != nil {
		r.conversation.recordEnd()
	}
	if r.handshaking {
		r.loggedIn()
	}
	r.leaveBackend()
	if r.counted {
		r.server.hosts.leave(r.host)
	}
	if r.cause == cutOff {
		r.server.counts.CutOff.Add(1)
	}
	if r.conversation != nil {
		r.conversation.forget()
		r.conversation.unobserve()
		r.conversation.gone()
	}
	r.server.journal.write(zapcore.DebugLevel, "session ended", zap.Uint64("conn_id", r.id), zap.String("client", r.client),
		zap.Duration("duration", time.Since(r.since)), zap.String("cause", r.cause))
	r.server.active.Add(-1)
	r.server.sessions.Done()
}

// info is called by the session's driver, where the conversation may be asked.
func (r *relay) info() SessionInfo {
	i := SessionInfo{ID: r.id, Client: r.client, Backend: r.backend.address, Since: r.since, LoggedIn: !r.handshaking}
	if r.conversation != nil {
		r.conversation.describe(&i)
	}
	return i
}
