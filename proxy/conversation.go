package proxy

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
//
// Between calls the driver asks wants(side): whether bytes of that side should be read now. The driver adds its own flow control:
// while bytes for one side are queued, the other side is not read.
type conversation struct {
	raw bool
}

func (c *conversation) start(greeting []byte, now int64, out *output) {
	c.received(backendSide, greeting, now, out)
}

func (c *conversation) received(from side, b []byte, now int64, out *output) {
	out.to(from.other(), b)
}

func (c *conversation) ended(from side, now int64, out *output) {
	if from == backendSide {
		out.end = true
		return
	}
	out.shut[backendSide] = true
}

func (c *conversation) broken(at side, writing bool, now int64, out *output) {
	if writing && at == backendSide {
		return // what the backend still says is delivered; its end will come
	}
	out.end = true
}

func (c *conversation) resumed(now int64, out *output) {}

func (c *conversation) background(now int64, out *output) {}

func (c *conversation) drain(now int64, out *output) { out.end = true }

// wants says whether bytes of that side should be read now.
func (c *conversation) wants(from side) bool { return true }

// wantsBackground says whether background should be called when the loop's batch is done.
func (c *conversation) wantsBackground() bool { return false }

// handshaking says whether the session is not logged in yet: it counts against limits.max_handshakes and its time is bounded.
func (c *conversation) handshaking() bool { return false }

// spare says whether the backend connection, greeted but not logged in to, can serve another client, and with which greeting
// bytes. It may be called when the client has left or was given up.
func (c *conversation) spare() (greeting []byte, ok bool) { return nil, false }
