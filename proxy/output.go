package proxy

// side names one of the two connections of a session.
type side uint8

const (
	clientSide  side = iota // the application
	backendSide             // the server
)

func (s side) String() string {
	if s == clientSide {
		return "client"
	}
	return "backend"
}

func (s side) other() side { return 1 - s }

// run is a run of bytes for one side.
type run struct {
	to     side
	begins bool // the first bytes of a command: packets and frames are counted anew
	sealed bool // as it goes to the socket: neither put into frames nor encrypted
	b      []byte
}

// output is what a conversation asks its driver to do after one input. The driver owns it, resets it before each call and acts on
// it: the runs point into the input's buffer or the conversation's own memory, and are valid only until the next call for that
// conversation.
//
// Order: write the runs; then shut, then end.
type output struct {
	runs []run
	// plain is the number of runs that were there before the session turned to compression.
	plain int
	// work, if not nil, is to be called on a worker, never in the loop. When it has returned, the driver calls
	// conversation.resumed. One work is out at a time; bytes of either side may arrive meanwhile.
	work func()
	// shut asks for a FIN to that side (shutdown of writing) behind everything queued for it.
	shut [2]bool
	// end asks for the session's end: the client gets what is queued, then a FIN, its input is discarded for a bounded time;
	// the backend connection is closed. Nothing is called afterwards.
	end bool
}

func (o *output) reset() {
	o.runs = o.runs[:0]
	o.plain = 0
	o.work = nil
	o.shut = [2]bool{}
	o.end = false
}

// to appends a run; adjacent runs of the same buffer are joined, so that one write carries them.
func (o *output) to(s side, b []byte) {
	if len(b) == 0 {
		return
	}
	if n := len(o.runs); n > o.plain {
		last := &o.runs[n-1]
		if last.to == s && !last.sealed && cap(last.b) > len(last.b) {
			if end := last.b[:len(last.b)+1]; &end[len(last.b)] == &b[0] && cap(last.b) >= len(last.b)+len(b) {
				last.b = last.b[: len(last.b)+len(b) : cap(last.b)]
				return
			}
		}
	}
	o.runs = append(o.runs, run{to: s, b: b})
}

// begin appends the first bytes of a command for the backend.
func (o *output) begin(b []byte) {
	o.runs = append(o.runs, run{to: backendSide, begins: true, b: b})
}

// seal appends bytes that go to the socket as they are.
func (o *output) seal(s side, b []byte) {
	if len(b) > 0 {
		o.runs = append(o.runs, run{to: s, sealed: true, b: b})
	}
}
