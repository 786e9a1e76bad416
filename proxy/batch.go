package proxy

import (
	"bytes"

	"tmpproxy/rewrite"
	"tmpproxy/session"
	"tmpproxy/wire"
)

// maxStitched bounds the packets that are looked at whole in the replies to a batch; a longer one is a row.
const maxStitched = 64 << 10

// batch is a multi-statement packet that is run statement by statement, because temporary-table DDL is among them. The replies are
// stitched: sequence numbers go on counting, every reply but the last says MORE_RESULTS, an ERR ends the batch.
type batch struct {
	rest       [][]byte // statements still to be run, ours
	attributes []byte   // the packet's query attributes, which go with each
	base       byte     // sequence number that the present statement's packets follow
	last       byte     // sequence number sent to the client last
	erred      bool     // the present statement's reply was an ERR
	in         []byte   // the packet of the present reply that has not arrived whole
	row        int      // bytes still to come of a packet that is too long to be looked at
	file       numbering
}

// batchVerbs are the statements among which temporary-table DDL is run one by one. The bodies of others may hold a ';'.
const batchVerbs = 1<<rewrite.VerbEmpty | 1<<rewrite.VerbSelect | 1<<rewrite.VerbInsert | 1<<rewrite.VerbReplace | 1<<rewrite.VerbUpdate |
	1<<rewrite.VerbDelete | 1<<rewrite.VerbTruncate | 1<<rewrite.VerbLoad | 1<<rewrite.VerbShow | 1<<rewrite.VerbShowDiagnostics |
	1<<rewrite.VerbShowTables | 1<<rewrite.VerbDescribe | 1<<rewrite.VerbExplain | 1<<rewrite.VerbDo | 1<<rewrite.VerbSet | 1<<rewrite.VerbUse |
	1<<rewrite.VerbBegin | 1<<rewrite.VerbCommit | 1<<rewrite.VerbRollback | 1<<rewrite.VerbRollbackTo | 1<<rewrite.VerbSavepoint |
	1<<rewrite.VerbRelease | 1<<rewrite.VerbLockTables | 1<<rewrite.VerbUnlockTables | 1<<rewrite.VerbCreateTemporary |
	1<<rewrite.VerbCreateTable | 1<<rewrite.VerbDropTable | 1<<rewrite.VerbAlterTable | 1<<rewrite.VerbCall

// split starts a batch if the present command is one; false: it is not.
func (c *conversation) split(now int64, out *output) bool {
	s := &c.event.Statement
	if !c.multi || !c.event.Whole || s.Doubtful || s.Executable || s.Verbs&^batchVerbs != 0 ||
		!s.Has(rewrite.VerbCreateTemporary) && !s.Has(rewrite.VerbDropTable) {
		return false
	}
	if live, parked := c.m.Counts(); c.event.Policy.Strategy == session.StrategyNative && live+parked == 0 {
		return false
	}
	command := bytes.Clone(c.cmd)
	c.cmd = command
	list := rewrite.Statements(c.text(), c.mode())
	if len(list) < 2 {
		return false
	}
	c.batch = &batch{rest: list, attributes: c.attributes()}
	c.nextOfBatch(now, out)
	return true
}

// nextOfBatch sets the batch's next statement going.
func (c *conversation) nextOfBatch(now int64, out *output) {
	b := c.batch
	b.base = b.last
	text := b.rest[0]
	b.rest = b.rest[1:]
	c.phase = phaseCommand
	c.cmd = wire.AppendQuery(nil, c.caps, b.attributes, string(text))
	c.examined = len(c.cmd) - wire.HeaderSize
	c.began = now
	c.event = session.Event{Kind: session.EventQuery, Now: now, Policy: c.policy(now), Whole: true, Statement: rewrite.Classify(text, c.mode())}
	c.slowBegin(&c.event, text)
	c.judge(now, out)
}

// stitch takes bytes of the present statement's reply: n of them belong to it.
func (c *conversation) stitch(b []byte, out *output) (n int, done bool) {
	t := c.batch
	if t.row > 0 {
		n = min(t.row, len(b))
		t.row -= n
		c.tracker.Scan(b[:n])
		c.toClient(b[:n], out)
		return n, false
	}
	if need := wire.HeaderSize - len(t.in); need > 0 {
		n = min(need, len(b))
		if t.in = append(t.in, b[:n]...); n < need {
			return n, false
		}
	}
	length, seq := wire.Header(t.in)
	if length > maxStitched {
		c.tracker.Scan(t.in)
		t.number(t.in, seq)
		c.toClient(t.in, out)
		t.in, t.row = nil, length
		return n, false
	}
	take := min(wire.HeaderSize+length-len(t.in), len(b)-n)
	t.in = append(t.in, b[n:n+take]...)
	n += take
	if len(t.in) < wire.HeaderSize+length {
		return n, false
	}
	p := t.in
	t.in = nil
	_, done = c.tracker.Scan(p)
	t.number(p, seq)
	// The EOF behind column definitions tells of further results, too. No row is as short as that.
	if done || len(p) == wire.HeaderSize+5 && p[wire.HeaderSize] == 0xFE && !c.caps.Has(wire.ClientDeprecateEOF) {
		c.more(p)
	}
	c.toClient(p, out)
	return n, done
}

// number gives a packet the sequence number that the client waits for.
func (t *batch) number(p []byte, seq byte) {
	t.last = t.base + seq
	p[wire.HeaderSize-1] = t.last
}

// more marks a packet of a statement with the flag that other results follow, unless it is an ERR.
func (c *conversation) more(p []byte) {
	if len(p) <= wire.HeaderSize {
		return
	}
	if c.batch.erred = p[wire.HeaderSize] == 0xFF; !c.batch.erred && len(c.batch.rest) > 0 {
		wire.SetStatus(p[wire.HeaderSize:], c.caps, wire.StatusMoreResultsExists)
	}
}

// stitchPacket is stitch for a packet that is there whole: one held back, or made up.
func (c *conversation) stitchPacket(p []byte) []byte {
	p = bytes.Clone(p)
	_, seq := wire.Header(p)
	c.batch.number(p, seq)
	c.more(p)
	return p
}

// endOfBatch says whether the batch is over.
func (c *conversation) endOfBatch() bool {
	if c.batch.erred || len(c.batch.rest) == 0 {
		c.batch = nil
		return true
	}
	return false
}

// numbering rewrites the sequence numbers of a stream of packets.
type numbering struct {
	header [wire.HeaderSize]byte
	have   int
	left   int // bytes of the present packet still to come
}

// subtract returns b with delta taken from every sequence number. A header that has not arrived whole is kept back.
func (n *numbering) subtract(b []byte, delta byte) []byte {
	dst := make([]byte, 0, len(b)+wire.HeaderSize)
	for len(b) > 0 {
		if n.left > 0 {
			k := min(n.left, len(b))
			dst = append(dst, b[:k]...)
			n.left -= k
			b = b[k:]
			continue
		}
		k := copy(n.header[n.have:], b)
		n.have += k
		b = b[k:]
		if n.have == wire.HeaderSize {
			n.have = 0
			n.left, _ = wire.Header(n.header[:])
			n.header[wire.HeaderSize-1] -= delta
			dst = append(dst, n.header[:]...)
		}
	}
	return dst
}
