package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tmpproxy/wire"
)

var everyFault = flag.Bool("faults", false, "try faults at every byte of every conversation, not only at some")

// forbearance is how long both ends wait for each other: only a session that hangs is left alone for so long, or a machine that stands still.
const forbearance = 3 * time.Minute

// cut is what happens to a connection.
type cut uint8

const (
	cutFIN   cut = iota // half-closed: nothing more is said, but heard
	cutClose            // closed
	cutReset            // closed with a RST
	cutStall            // neither says nor hears anything, until the other side has given up
)

func (k cut) String() string { return [...]string{"half-closed", "closed", "reset", "stalled"}[k] }

// fault is a cut at one place of a connection.
type fault struct {
	kind cut
	said bool // at is counted in bytes said, not heard
	at   int
	step int // of the client: instead, once it has the whole answer to this step; 0: not
}

func (f *fault) String() string {
	switch {
	case f == nil:
		return "no fault"
	case f.step > 0:
		return fmt.Sprintf("%v behind step %d", f.kind, f.step)
	case f.said:
		return fmt.Sprintf("%v after saying %d bytes", f.kind, f.at)
	}
	return fmt.Sprintf("%v after hearing %d bytes", f.kind, f.at)
}

var errCut = errors.New("cut, as planned")

// wounded is a connection to which its fault happens, if it has one. One goroutine may read while another one writes.
type wounded struct {
	*net.TCPConn
	fault   *fault
	onStall func()
	wait    func() // returns when a stall is over

	mu          sync.Mutex
	said, heard int
	done        bool // it has happened
}

func (w *wounded) begin() {
	w.SetDeadline(time.Now().Add(forbearance))
	if w.fault != nil && w.fault.at == 0 && w.fault.step == 0 {
		w.happen()
	}
}

func (w *wounded) happen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return
	}
	w.done = true
	switch w.fault.kind {
	case cutFIN:
		w.CloseWrite()
	case cutClose:
		w.Close()
	case cutReset:
		w.SetLinger(0)
		w.Close()
	case cutStall:
		w.onStall()
		w.SetReadDeadline(time.Unix(1, 0))
	}
}

func (w *wounded) stalled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done && w.fault.kind == cutStall
}

// limit is how many of n bytes come before the fault.
func (w *wounded) limit(n, have int, said bool) int {
	if f := w.fault; f != nil && f.step == 0 && f.said == said && !w.done {
		return min(n, f.at-have)
	}
	return n
}

// count adds n bytes, and has the fault happen if its place is reached.
func (w *wounded) count(n int, counter *int, said bool) bool {
	w.mu.Lock()
	*counter += n
	f := w.fault
	now := f != nil && f.step == 0 && f.said == said && *counter == f.at && !w.done
	w.mu.Unlock()
	if now {
		w.happen()
	}
	return now
}

func (w *wounded) Write(b []byte) (int, error) {
	w.mu.Lock()
	n, done := w.limit(len(b), w.said, true), w.done
	w.mu.Unlock()
	if done && !w.stalled() {
		return 0, errCut
	}
	n, err := w.TCPConn.Write(b[:n])
	if !w.count(n, &w.said, true) {
		return n, err
	}
	if !w.stalled() {
		return n, errCut
	}
	w.goOn()
	rest, err := w.TCPConn.Write(b[n:])
	return n + rest, err
}

// goOn returns when a stall is over.
func (w *wounded) goOn() {
	w.wait()
	w.SetDeadline(time.Now().Add(forbearance))
}

func (w *wounded) Read(b []byte) (int, error) {
	for {
		w.mu.Lock()
		n := w.limit(len(b), w.heard, false)
		w.mu.Unlock()
		n, err := w.TCPConn.Read(b[:n])
		w.count(n, &w.heard, false)
		if !w.stalled() {
			return n, err
		}
		w.goOn()
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
}

// goodbye is what a server says to a client that it is tired of, as MySQL does.
var goodbye = pack(0, append([]byte{0xff, 0xbf, 0x0f}, "#HY000The client was disconnected by the server because of inactivity."...))

// duo is one session's two ends. The lock guards what is below it.
type duo struct {
	tag   string
	after [][2]int // as of the play

	mu      sync.Mutex
	changed sync.Cond
	heard   [2][]byte // what each side has received
	over    [2]bool   // each side has seen the end, or made it
	stalled [2]bool
	backend *wounded // once it knows its session
	steps   int      // that the client has said whole
	done    bool     // the client has had the answer to the last one
}

func (p *duo) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed.Broadcast()
}

func (p *duo) await(f func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !f() {
		p.changed.Wait()
	}
}

func (p *duo) is(f func() bool) (yes bool) {
	p.change(func() { yes = f() })
	return yes
}

// answered says whether both sides have received what they should after n steps.
func (p *duo) answered(n int) bool {
	due := p.after[n]
	return len(p.heard[clientSide]) >= due[clientSide] && len(p.heard[backendSide]) >= due[backendSide]
}

// line is one end's way to say and hear things: through TLS and frames where the play has them.
type line struct {
	conn   net.Conn // over the wounded one
	mu     sync.Mutex
	frames *packing // nil: there are none
	heard  int      // bytes to be heard before them
	said   int      // bytes to be said before them
}

func (l *line) say(b []byte) error {
	l.mu.Lock()
	if l.frames != nil && l.said > 0 {
		l.said -= len(b)
	} else if l.frames != nil {
		r := []run{{to: clientSide, begins: b[3] == 0, b: b}}
		l.frames.pack(r)
		b = r[0].b
	}
	l.mu.Unlock()
	_, err := l.conn.Write(b)
	return err
}

func (l *line) hear(b []byte) (all []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frames == nil {
		return b, nil
	}
	n := min(l.heard, len(b))
	if l.said > 0 {
		n = len(b) // perhaps an error in place of a turn
	}
	l.heard -= n
	all = append(all, b[:n]...)
	err = l.frames.unpack(clientSide, b[n:], anyRoom, func(b []byte) { all = append(all, b...) })
	return all, err
}

// theatre is a proxy with the ends of many sessions of one play.
type theatre struct {
	*rig
	play                 *play
	timeout              time.Duration // of logins
	serverTLS, clientTLS *tls.Config

	tags   atomic.Int64
	pairs  sync.Map // of tag to *duo
	faults chan *fault
	actors sync.WaitGroup
}

func newTheatre(t *testing.T, driver string, p *play, stalls bool) *theatre {
	t.Helper()
	th := &theatre{play: p, timeout: forbearance, faults: make(chan *fault, 1<<20)}
	if stalls {
		th.timeout = 100 * time.Millisecond
	}
	server, client := testCertificate()
	th.serverTLS, th.clientTLS = server.Clone(), client.Clone()
	// Short handshakes.
	th.serverTLS.CurvePreferences, th.clientTLS.CurvePreferences = []tls.CurveID{tls.X25519}, []tls.CurveID{tls.X25519}
	key, err := ownKey()
	if err != nil {
		t.Fatal(err)
	}
	th.rig = newRig(t, rigOptions{driver: driver,
		change: func(o *Options) {
			o.HandshakeTimeout = th.timeout
			o.Policy = testPolicy(p.strategy)
			o.TLS = TLS{Server: func() *tls.Config { return th.serverTLS }, Client: func(string) *tls.Config { return th.clientTLS }, Key: key}
			if p.tls[clientSide] {
				o.TLS.Listen = ListenTLSRequired
			}
			if p.tls[backendSide] {
				o.TLS.Backend = BackendTLSVerified
			}
		},
		server: func(s *Server) {
			s.newConversation = func() *conversation { return newConversation(s.shared) }
			s.backends.list[0].spares.age = 50 * time.Millisecond
			if stalls {
				s.linger = 50 * time.Millisecond
			}
		}})
	t.Cleanup(th.actors.Wait)
	th.actors.Go(func() {
		for {
			conn, err := th.backend.Accept()
			if err != nil {
				return
			}
			var f *fault
			select {
			case f = <-th.faults:
			default:
			}
			th.actors.Go(func() { th.serve(&wounded{TCPConn: conn.(*net.TCPConn), fault: f}) })
		}
	})
	t.Cleanup(func() { th.backend.Close() })
	return th
}

func (th *theatre) line(w *wounded, at side) *line {
	return &line{conn: w, frames: newPacking(th.play.caps, 3), heard: th.play.after[th.play.login][at], said: th.play.after[th.play.login][at.other()]}
}

// readOn reads what nobody understands, to the end.
func readOn(w *wounded) { io.Copy(io.Discard, struct{ io.Reader }{w}) }

// serve is the backend's part.
func (th *theatre) serve(w *wounded) {
	defer w.Close()
	var p *duo // once the login is there
	w.onStall = func() {
		if p != nil {
			p.change(func() { p.stalled[backendSide] = true })
		}
	}
	w.wait = func() {
		if p == nil {
			time.Sleep(2 * th.timeout) // its session, whichever it is, ends by then
		} else {
			p.await(func() bool { return p.over[clientSide] })
		}
	}
	w.begin()
	l := th.line(w, backendSide)
	s := th.play.server(false)
	err := l.say(s.take())
	if err == nil && th.play.tls[backendSide] {
		var request []byte
		if request, err = readPacket(w, nil); err == nil && len(request) != wire.HeaderSize+32 {
			return // the farewell to a spare
		}
		if err == nil {
			secure := tls.Server(w, th.serverTLS)
			if err = secure.Handshake(); err == nil {
				l.conn = secure
			}
		}
	}
	if err != nil && th.play.tls[backendSide] {
		readOn(w)
		return
	}
	defer func() {
		if p != nil {
			p.change(func() { p.over[backendSide] = true })
		}
	}()
	var opening []byte
	buf := make([]byte, 16<<10)
	for {
		n, readErr := l.conn.Read(buf)
		b := bytes.Clone(buf[:n])
		if p == nil {
			opening = append(opening, b...)
			b = nil
			if login, _, whole := packet(opening); whole {
				found, ok := th.pairs.Load(tagOf(login))
				if !ok { // the proxy takes leave of a spare
					l.say(pack(login[3]+1, append([]byte{0xff, 0x15, 4}, "#28000Access denied"...)))
					return
				}
				b, p = opening, found.(*duo)
				p.change(func() {
					if p.backend, p.stalled[backendSide] = w, w.stalled(); p.stalled[clientSide] {
						w.SetReadDeadline(time.Unix(1, 0))
					}
				})
			}
		}
		if len(b) > 0 {
			if b, err = l.hear(b); err != nil {
				th.Errorf("%v: the backend got frames that cannot be read: %v", w.fault, err)
				return
			}
			s.receive(b)
			p.change(func() { p.heard[backendSide] = append(p.heard[backendSide], b...) })
			if words := s.take(); len(words) > 0 {
				l.say(tagged(words, p.tag)) // what went wrong shows in reading
			}
			if s.over() {
				return
			}
		}
		switch {
		case readErr == nil:
		case errors.Is(readErr, os.ErrDeadlineExceeded) && p != nil && p.is(func() bool { return p.stalled[clientSide] }):
			w.SetDeadline(time.Now().Add(forbearance))
			l.say(goodbye)
			return
		case errors.Is(readErr, os.ErrDeadlineExceeded):
			th.Errorf("%v: the backend is left alone", w.fault)
			return
		default:
			return
		}
	}
}

// act is the client's part: it plays until the end, or until its fault f. pace, if not nil, is called before each step.
func (th *theatre) act(f *fault, after [][2]int, pace func(step int)) (p *duo, said, heard int) {
	p = &duo{tag: nextTag(th.tags.Add(1)), after: after}
	p.changed.L = &p.mu
	th.pairs.Store(p.tag, p)
	defer th.pairs.Delete(p.tag)
	a := th.server.Addresses()[0]
	conn, err := net.Dial(a.Network(), a.String())
	if err != nil {
		th.Errorf("%v: connect: %v", f, err)
		return p, 0, 0
	}
	w := &wounded{TCPConn: conn.(*net.TCPConn), fault: f}
	defer w.Close()
	w.onStall = func() {
		p.change(func() {
			p.stalled[clientSide] = true
			if p.backend != nil {
				p.backend.SetReadDeadline(time.Unix(1, 0)) // its patience is over
			}
		})
	}
	w.wait = func() {
		if p.is(func() bool { return p.backend == nil }) {
			time.Sleep(2 * th.timeout) // not logged in in time
		} else {
			p.await(func() bool { return p.over[backendSide] })
		}
	}
	defer p.change(func() { p.over[clientSide] = true })
	w.begin()
	l := th.line(w, clientSide)
	greeting, err := readPacket(w, nil)
	l.heard -= len(greeting)
	p.change(func() { p.heard[clientSide] = greeting })
	if err == nil && th.play.tls[clientSide] {
		if _, err = w.Write(pack(1, th.play.said(0, false)[wire.HeaderSize:][:32])); err == nil {
			secure := tls.Client(w, th.clientTLS)
			if err = secure.Handshake(); err == nil {
				l.conn = secure
			}
		}
		if err != nil {
			readOn(w)
		}
	}
	if err != nil {
		return p, 0, 0
	}
	var reading sync.WaitGroup
	reading.Go(func() { th.listen(p, l, f) })
	for i := range th.play.steps {
		if pace != nil {
			pace(i)
		}
		if err = l.say(tagged(th.play.said(i, false), p.tag)); err != nil {
			break
		}
		p.change(func() { p.steps = i + 1 })
		var gaveUp, over bool
		p.await(func() bool {
			gaveUp, over = p.stalled[backendSide], p.over[clientSide]
			return p.answered(i+1) || gaveUp || over
		})
		if f != nil && f.step == i+1 {
			w.happen()
			break
		}
		if p.is(func() bool { return p.answered(i + 1) }) {
			continue
		}
		if over {
			break
		}
		if gaveUp {
			if i%2 == 0 {
				w.SetLinger(0)
			}
			w.Close()
			break
		}
	}
	if p.is(func() bool { p.done = p.answered(len(th.play.steps)); return p.done }) && th.play.recorded != nil {
		w.CloseWrite() // the server closes by itself else
	}
	reading.Wait()
	return p, w.said, w.heard
}

// listen hears what the client receives, to the end.
func (th *theatre) listen(p *duo, l *line, f *fault) {
	defer p.change(func() { p.over[clientSide] = true })
	buf := make([]byte, 16<<10)
	for {
		n, err := l.conn.Read(buf)
		b, bad := l.hear(bytes.Clone(buf[:n]))
		if bad != nil {
			th.Errorf("%v: the client got frames that cannot be read: %v", f, bad)
			return
		}
		p.change(func() { p.heard[clientSide] = append(p.heard[clientSide], b...) })
		if err == nil {
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			th.Errorf("%v: the client is left alone", f)
		}
		return
	}
}

// check compares what both ends have received with what they should have, but for the fault.
func (th *theatre) check(p *duo, of side, f *fault) {
	want := [2][]byte{tagged(th.play.got[clientSide], p.tag), tagged(th.play.got[backendSide], p.tag)}
	blur := func(b []byte) []byte {
		from, to := min(th.play.blurred[0], len(b)), min(th.play.blurred[1], len(b))
		b = bytes.Clone(b)
		clear(b[from:to])
		return b
	}
	want[backendSide] = blur(want[backendSide])
	heard := [2][]byte{p.heard[clientSide], blur(p.heard[backendSide])}
	complain := func(at side, format string, args ...any) {
		th.Errorf("%v of the %v, step %d: the %v got %d bytes, wrong from byte %d of %d: %s\n%.200q", f, of, p.steps, at, len(heard[at]),
			difference(heard[at], want[at]), len(want[at]), fmt.Sprintf(format, args...), heard[at][difference(heard[at], want[at]):])
	}
	if f == nil {
		for at := range heard {
			if !bytes.Equal(heard[at], want[at]) {
				complain(side(at), "not what was said")
			}
		}
		return
	}
	if rest := beyond(heard[clientSide], want[clientSide], func(rest []byte) bool {
		e, err := errPacket(rest)
		return err == nil && (bytes.Equal(rest[wire.HeaderSize:], goodbye[wire.HeaderSize:]) || (e.Code == errTLS || e.Code == 2003) && len(e.Message) > 20)
	}); rest != nil {
		complain(clientSide, "neither what was said nor an error")
	}
	// A command that the client does not complete is the server's to judge.
	if rest := beyond(heard[backendSide], want[backendSide], func(rest []byte) bool {
		return p.steps < len(th.play.steps) && unfinished(rest, tagged(th.play.said(p.steps, false), p.tag))
	}); rest != nil {
		complain(backendSide, "not what was said")
	}
	if f.kind == cutFIN && of == clientSide && (f.said || f.step > 0) && len(heard[clientSide]) < th.play.after[p.steps][clientSide] && p.steps > 0 {
		complain(clientSide, "not the whole answer to what it had said")
	}
	if of == backendSide && f.said && (f.kind == cutFIN || f.kind == cutClose) && th.play.relayed {
		// All that the server could say has to arrive; in whole packets during an authentication.
		due := f.at
		if login := th.play.after[th.play.login][clientSide]; due < login || th.play.authenticates(p.steps-1) {
			due = wholePackets(want[clientSide][:due])
		}
		if len(heard[clientSide]) < due {
			complain(clientSide, "not all that the server had said: %d bytes", due)
		}
	}
}

// beyond is what follows what was to be received; nil if that is nothing or allowed.
func beyond(heard, want []byte, allowed func([]byte) bool) []byte {
	d := difference(heard, want)
	if d == len(heard) {
		return nil
	}
	for from := d; from >= 0; from-- { // what comes may begin alike
		if allowed(heard[from:]) {
			return nil
		}
	}
	return heard[d:]
}

func errPacket(b []byte) (*wire.Err, error) {
	p, rest, whole := packet(b)
	if !whole || len(rest) > 0 {
		return nil, errors.New("not one packet")
	}
	return wire.ParseErr(p[wire.HeaderSize:])
}

// unfinished says whether b is the beginning of a packet in step, and not the whole of it.
func unfinished(b, step []byte) bool {
	for len(step) > 0 {
		p, rest, _ := packet(step)
		if len(b) < len(p) && bytes.HasPrefix(p, b) {
			return true
		}
		step = rest
	}
	return false
}

// wholePackets is how many bytes of b are whole packets.
func wholePackets(b []byte) int {
	n := len(b)
	for {
		_, rest, whole := packet(b)
		if !whole {
			return n - len(b)
		}
		b = rest
	}
}

// rehearse plays without a fault, until the process knows the play, and notes what both ends receive and how many bytes go over their
// sockets.
func (th *theatre) rehearse() (sockets [2][2]int) {
	th.Helper()
	for pass, after := range th.play.first {
		p, said, heard := th.act(nil, after, nil)
		if !p.done {
			th.Fatalf("stopped in step %d: the client got %d bytes, the backend %d", p.steps, len(p.heard[clientSide]), len(p.heard[backendSide]))
		}
		sockets[clientSide] = [2]int{heard, said}
		p.await(func() bool { return p.over[backendSide] })
		sockets[backendSide] = [2]int{p.backend.heard, p.backend.said}
		for at := range p.heard {
			b := bytes.ReplaceAll(p.heard[at], []byte(p.tag), []byte(tagMark))
			if len(b) != after[len(after)-1][at] {
				th.Fatalf("the %v got %d bytes, in memory %d", side(at), len(b), after[len(after)-1][at])
			}
			if at == int(clientSide) && th.play.tls == [2]bool{} && th.play.caps == 0 && pass == len(th.play.first)-1 && !bytes.Equal(b, th.play.got[at]) {
				th.Fatalf("the client got other bytes than in memory, from byte %d on", difference(b, th.play.got[at]))
			}
			if pass == len(th.play.first)-1 {
				th.play.got[at] = b
			}
		}
	}
	return sockets
}

// places are the faults to be tried on one side.
func (th *theatre) places(of side, sockets [2][2]int, stride int, kinds ...cut) (all []*fault) {
	for i, kind := range kinds {
		for direction, n := range sockets[of] {
			// Each kind at other places, unless it is at all.
			for at := (5*i + 3*direction) % stride; at <= n; at += stride {
				all = append(all, &fault{kind: kind, said: direction == 1, at: at})
			}
		}
		for step := range th.play.steps {
			if of == clientSide && (stride < 10 || step%4 == i) {
				all = append(all, &fault{kind: kind, step: step + 1})
			}
		}
	}
	return all
}

// TestFaults has clients and backends fail in the middle of conversations: after each byte that they say or hear. Whatever is cut, the
// other side gets a beginning of what it would have got, and the end; nothing is left behind; sessions beside go on and get what is theirs.
func TestFaults(t *testing.T) {
	plays := faultPlays(t)
	var cases atomic.Int64
	for _, driver := range []string{"loop", "pump"} {
		if driver == "loop" && runtime.GOOS != "linux" {
			continue
		}
		for _, play := range plays {
			for _, of := range []side{clientSide, backendSide} {
				for _, kinds := range [][]cut{{cutFIN, cutClose, cutReset}, {cutStall}} {
					t.Run(fmt.Sprintf("%s/%s/%v/%v", driver, play.name, of, kinds[0]), func(t *testing.T) {
						th := newTheatre(t, driver, play, kinds[0] == cutStall)
						sockets := th.rehearse()
						total := sockets[of][0] + sockets[of][1]
						stride := 1
						switch {
						case !*everyFault && kinds[0] == cutStall:
							stride = max(1, total/12)
						case !*everyFault:
							stride = max(1, total/24)
						case play.recorded != nil: // 50 KB, of which little is new
							stride = 17
						}
						cases.Add(int64(th.try(of, th.places(of, sockets, stride, kinds...))))
					})
				}
			}
		}
	}
	t.Logf("%d faults", cases.Load())
}

// try has all these faults happen to sessions of one server, while others go on.
func (th *theatre) try(of side, faults []*fault) int {
	const (
		beside = 2
		crowd  = 64
	)
	var gone atomic.Int64
	progress := make(chan struct{}, len(faults)+1)
	var others sync.WaitGroup
	seated := make(chan struct{}, beside)
	for range beside {
		others.Go(func() {
			pace := func(step int) {
				if step == th.play.login {
					seated <- struct{}{}
				}
				if step < th.play.login {
					return
				}
				for int(gone.Load()) < len(faults)*(step-th.play.login)/len(th.play.steps) {
					if _, open := <-progress; !open {
						return
					}
				}
			}
			p, _, _ := th.act(nil, th.play.after, pace)
			if th.timeout == forbearance || p.steps > th.play.login { // or the machine was too slow for the login
				th.check(p, clientSide, nil)
			} else {
				seated <- struct{}{}
			}
		})
	}
	if th.play.login < len(th.play.steps) {
		for range beside {
			<-seated
		}
	} else {
		others.Wait()
	}
	active, before, goroutines := th.server.active.Load(), descriptors(th.TB), runtime.NumGoroutine()
	if of == backendSide {
		for _, f := range faults {
			th.faults <- f
		}
	}
	var actors sync.WaitGroup
	next := make(chan *fault)
	for range crowd {
		actors.Go(func() {
			for f := range next {
				if of == clientSide {
					p, _, _ := th.act(f, th.play.after, nil)
					th.settle(p)
					th.check(p, of, f)
				} else if p, _, _ := th.act(nil, th.play.after, nil); true {
					th.settle(p)
					th.check(p, of, p.fault(f))
				}
				gone.Add(1)
				progress <- struct{}{}
			}
		})
	}
	for _, f := range faults {
		next <- f
	}
	close(next)
	actors.Wait()
	th.eventually("sessions are gone", func() bool { return th.server.active.Load() <= active })
	th.eventually("descriptors are given back", func() bool { return descriptors(th.TB) <= before })
	th.eventually("goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
	close(progress)
	others.Wait()
	if p, _, _ := th.act(nil, th.play.after, nil); th.timeout == forbearance {
		th.check(p, of, nil)
	}
	if n := th.server.Counts().Panics.Load() + th.server.Counts().Overflows.Load(); n > 0 {
		th.Errorf("%d panics and overflows", n)
	}
	return len(faults)
}

// settle waits until the backend's part is over as well.
func (th *theatre) settle(p *duo) {
	p.await(func() bool { return p.backend == nil || p.over[backendSide] })
}

// fault is the backend's; another one if it does not know its session.
func (p *duo) fault(other *fault) *fault {
	if p.backend != nil {
		return p.backend.fault
	}
	return &fault{kind: cutReset, at: other.at}
}
