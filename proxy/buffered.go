package proxy

import (
	"fmt"

	"tmpproxy/wire"
)

// smallFrame is what a session may hold without asking, of a compressed frame and what is in it: no more than of what is not compressed.
const smallFrame = 2 * readSize

// noRoomError says that Limits.MaxBuffered leaves no room for so many bytes of a compressed frame, which has to be there whole before it goes on.
type noRoomError int

func (e noRoomError) Error() string {
	return fmt.Sprintf("no room for %d bytes of a compressed frame", int(e))
}

// room says whether there is room for n bytes, and counts them until the session's memory is counted next.
func (c *conversation) room(n int) bool {
	for limit := c.sh.limits.Load().MaxBuffered; ; {
		held := c.sh.buffered.Load()
		if limit > 0 && held+int64(n) > int64(limit) {
			return false
		}
		if c.sh.buffered.CompareAndSwap(held, held+int64(n)) {
			c.counted += int32(n)
			return true
		}
	}
}

// account counts what the session holds: queued bytes of its driver's and its own.
func (c *conversation) account(queued int) {
	if c.sh == nil {
		return
	}
	if n := int32(queued + c.holds()); n != c.counted {
		c.sh.buffered.Add(int64(n - c.counted))
		c.counted = n
	}
}

// forget is account for a session that has ended.
func (c *conversation) forget() {
	if c.sh != nil && c.counted != 0 {
		c.sh.buffered.Add(-int64(c.counted))
		c.counted = 0
	}
}

// holds is the size of the buffers that the conversation has between two inputs. A compressed frame counts as whole, with its content,
// from its header on.
func (c *conversation) holds() int {
	n := cap(c.pending) + cap(c.cmd) + cap(c.held)
	h := c.hs
	if h != nil {
		n += cap(h.buf) + cap(h.greeting) + cap(h.opening)
	}
	if c.packed != nil {
		for i := range c.packed.legs {
			leg := &c.packed.legs[i]
			n += max(cap(leg.in), leg.announced)
		}
	}
	if c.batch != nil {
		n += cap(c.batch.in)
		for _, text := range c.batch.rest {
			n += len(text)
		}
	}
	if c.legs != nil && (h == nil || h.then == nil) { // else a handshake has them
		for _, s := range c.legs.tls {
			if s != nil {
				n += cap(s.in) + cap(s.out) + cap(s.arrived)
			}
		}
	}
	return n
}

// noRoom ends a session by Limits.MaxBuffered. A client that is not in the middle of anything is told as by MySQL.
func (c *conversation) noRoom(from side, need int, out *output) {
	c.sh.noRoom(c.tap.client)
	if from == clientSide && c.phase == phaseCommand && c.cmd == nil && len(c.pending) == 0 {
		c.toClient(wire.AppendErr(nil, 1, c.caps, c.sh.fullOf(need)), out)
	}
	out.end = true
}

// fullOf is what MySQL says at its own limit of that kind, but for where it is set.
func (sh *shared) fullOf(need int) wire.Err {
	return wire.Err{Code: 4081, State: "HY000", Message: fmt.Sprintf(
		"Connection closed. Global connection memory limit %d bytes exceeded. Consumed %d bytes. (limits.max_buffered of tmpproxy)",
		sh.limits.Load().MaxBuffered, sh.buffered.Load()+int64(need))}
}
