package proxy

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tmpproxy/session"
	"tmpproxy/wire"
)

// Bad input: whole sessions in which either side says what it should not. Of what was recorded from servers and clients, and of what the
// server of these tests answers, packets are changed, before the login and after it; conversations, and drivers with sockets, have to get
// through it without a panic or a hang, with bounded memory, and without passing on anything that was not said to them.

var (
	badPackets = flag.Int("badinput.packets", 6_000, "packets of bad input: those that were changed, not those beside them")
	badSeed    = flag.Uint64("badinput.seed", 1, "seed of the bad input")
	badOnly    = flag.Uint64("badinput.only", 0, "number of the one world of bad input that is to be played; 0: all")
)

// share of the bad packets that go through sockets.
const badSocketShare = 100

// tale is a session as it should be: what either side says, in the order in which it is caused.
type tale struct {
	name  string
	steps []step
	login int       // how many of them are the login
	frame algorithm // of what follows the login; nil: not compressed
	plain [2]int    // with frame: bytes of the login, by who says them
}

// badSource makes bad sessions out of good ones. One goroutine uses it.
type badSource struct {
	*rand.Rand
	recorded []recording
	made     []step
}

func newBadSource(t testing.TB) *badSource {
	b := &badSource{recorded: recordings(t)}
	s := newFakeServer(testCaps)
	b.made = append(b.made, step{backendSide, s.out})
	s.out = nil
	for _, p := range relayScript() {
		if len(p) > 64<<10 {
			continue // such are made of others
		}
		for _, p := range apart(p) {
			s.receive(p)
			b.made = append(b.made, step{clientSide, p}, step{backendSide, s.out})
			s.out = nil
		}
	}
	return b
}

// seeded makes what follows depend on a session's number alone.
func (b *badSource) seeded(n uint64) { b.Rand = rand.New(rand.NewPCG(*badSeed, n)) }

// tale picks a session. It may be changed.
func (b *badSource) tale() tale {
	if b.IntN(8) == 0 {
		return tale{name: "made", steps: append([]step(nil), b.made...), login: 5}
	}
	rec := b.recorded[b.IntN(len(b.recorded))]
	t := tale{name: rec.name}
	switch b.IntN(30) {
	case 0:
		rec.caps |= wire.ClientCompress
		t.frame = zlibAlgorithm{}
	case 1:
		if !rec.mariadb {
			rec.caps = rec.caps&^wire.ClientCompress | wire.ClientZstdCompression
			t.frame = zstdAlgorithm{1}
		}
	}
	t.steps = []step{{backendSide, rec.greeting()}, {clientSide, rec.login()}, {backendSide, rec.ok()}}
	t.login = len(t.steps)
	for range 1 + b.IntN(8) {
		e := rec.exchanges[b.IntN(len(rec.exchanges))]
		if len(e.before) > 16<<10 || len(e.sent) > 16<<10 {
			continue // there are few, and they take most of the time
		}
		one := recording{exchanges: []exchange{e}}
		t.steps = append(t.steps, one.steps()[3:]...)
	}
	if t.frame != nil {
		for _, s := range t.steps[:t.login] { // which is not spoilt then
			t.plain[s.from] += len(s.b)
		}
		p := packing{algorithm: t.frame}
		for i := t.login; i < len(t.steps); i++ {
			s := &t.steps[i]
			r := []run{{to: s.from, begins: s.from == clientSide, b: s.b}}
			p.pack(r)
			s.b = r[0].b
		}
	}
	return t
}

// spoil changes steps of a tale, and returns how many.
func (b *badSource) spoil(t *tale) (changed int) {
	rate := []float64{0.15, 0.5, 1}[b.IntN(3)]
	first, last := 0, t.login
	if t.frame != nil || b.IntN(2) == 0 {
		first, last = t.login, len(t.steps)
	}
	for i := first; i < min(last, len(t.steps)); i++ {
		if b.Float64() >= rate {
			continue
		}
		changed++
		switch b.IntN(16) {
		case 0:
			t.steps = append(t.steps[:i], t.steps[i+1:]...)
		case 1:
			j := first + b.IntN(min(last, len(t.steps))-first)
			t.steps[i], t.steps[j] = t.steps[j], t.steps[i]
		case 2:
			t.steps[i].from = t.steps[i].from.other()
		default:
			t.steps[i].b = b.spoilt(t.steps[i].b)
		}
	}
	return changed
}

// spoilt is a changed copy of the bytes of a step.
func (b *badSource) spoilt(p []byte) []byte {
	p = bytes.Clone(p)
	at := func() int { return b.IntN(len(p)) }
	if len(p) == 0 {
		return b.garbage(1 + b.IntN(40))
	}
	switch b.IntN(12) {
	case 0: // bits
		for range 1 + b.IntN(8) {
			p[at()] ^= 1 << b.IntN(8)
		}
	case 1: // bytes that mean something
		const special = "\x00\x01\x02\x03\x04\x11\x16\x17\x19\x1a\x1b\x1f\x7f\x80\xfa\xfb\xfc\xfd\xfe\xff"
		for range 1 + b.IntN(3) {
			p[at()] = special[b.IntN(len(special))]
		}
	case 2: // a length
		if h := b.header(p); h != nil {
			n, seq := wire.Header(h)
			wire.PutHeader(h, []int{0, 1, n - 1, n + 1, 2 * n, b.IntN(1 << 8), b.IntN(1 << 16), b.IntN(1 << 24), wire.MaxPayload}[b.IntN(9)]&wire.MaxPayload, seq)
		}
	case 3: // a sequence number
		if h := b.header(p); h != nil {
			h[3] = byte(b.IntN(256))
		}
	case 4: // the end missing
		p = p[:at()]
	case 5: // bytes more
		i := at()
		p = append(p[:i:i], append(b.garbage(1+b.IntN(64)), p[i:]...)...)
	case 6: // bytes less
		i := at()
		p = append(p[:i:i], p[min(len(p), i+1+b.IntN(8)):]...)
	case 7: // twice
		p = append(p, p...)
	case 8: // the rest of another one
		other := b.other()
		p = append(p[:at():len(p)], other[b.IntN(len(other)):]...)
	case 9: // another one, whole
		p = bytes.Clone(b.other())
	case 10: // a packet of any content
		p = pack(byte(b.IntN(4)), b.garbage(b.IntN(80)))
		if len(p) > wire.HeaderSize {
			p[wire.HeaderSize] = byte(b.IntN(0x22))
		}
	default: // no packet
		p = b.garbage(1 + b.IntN(200))
	}
	if b.IntN(400) == 0 { // without end
		p = append(p, bytes.Repeat(b.garbage(997), 400)...)
	}
	return p
}

// header is that of one of the packets of p.
func (b *badSource) header(p []byte) []byte {
	var all [][]byte
	for len(p) >= wire.HeaderSize {
		all = append(all, p[:wire.HeaderSize])
		n, _ := wire.Header(p)
		p = p[min(len(p), wire.HeaderSize+n):]
	}
	if len(all) == 0 {
		return nil
	}
	return all[b.IntN(len(all))]
}

func (b *badSource) garbage(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(b.Uint32())
	}
	return p
}

// other is what was said in some session, by either side.
func (b *badSource) other() []byte {
	rec := b.recorded[b.IntN(len(b.recorded))]
	for {
		e := rec.exchanges[b.IntN(len(rec.exchanges))]
		for _, p := range [][]byte{e.before, e.sent} {
			if len(p) > 0 && len(p) < 16<<10 && b.IntN(2) == 0 {
				return p
			}
		}
	}
}

// actor plays both sides of a session, and the driver between.
type actor struct {
	c       *conversation
	random  *rand.Rand
	tale    tale
	server  *badServer // answers instead of the tale; nil: the tale has the answers
	native  bool
	sockets bool // what it got may not be all

	out     output
	now     int64
	queue   [2][]byte // what a side has said and nobody has read
	sent    [2][]byte // what was read of it
	got     [2][]byte
	work    func()
	ended   bool
	fin     bool // the client says nothing more
	batches bool // it has sent several statements in a packet
	most    int  // bytes of the longest input
}

// call makes one input and takes what comes of it.
func (a *actor) call(f func()) error {
	a.out.reset()
	a.now += 1000
	f()
	for _, r := range a.out.runs {
		a.got[r.to] = append(a.got[r.to], r.b...)
		if r.to == backendSide && a.server != nil {
			a.queue[backendSide] = append(a.queue[backendSide], a.server.hear(r.b)...)
		}
	}
	if a.out.work != nil {
		if a.work != nil {
			return errors.New("two pieces of work at once")
		}
		a.work = a.out.work
	}
	a.ended = a.ended || a.out.end
	limit := 512<<10 + 4*a.most
	if a.tale.frame != nil {
		limit += 2 * wire.MaxPayload
	}
	if n := kept(a.c); n > limit {
		return fmt.Errorf("%d bytes are kept, where %d were read at a time", n, a.most)
	}
	return nil
}

// kept is how many bytes a conversation holds on to.
func kept(c *conversation) int {
	n := cap(c.pending) + cap(c.cmd) + cap(c.held)
	if c.hs != nil {
		n += cap(c.hs.buf) + cap(c.hs.greeting) + cap(c.hs.opening)
	}
	if c.batch != nil {
		n += cap(c.batch.in)
	}
	if c.packed != nil {
		n += cap(c.packed.legs[0].in) + cap(c.packed.legs[1].in)
	}
	if c.legs != nil {
		for _, s := range c.legs.tls {
			if s != nil {
				n += cap(s.in) + cap(s.out) + cap(s.arrived)
			}
		}
	}
	return n
}

// read delivers some of what a side has said, in memory that is spoilt afterwards as a driver's is used again.
func (a *actor) read(from side) error {
	n := len(a.queue[from])
	if a.random.IntN(4) == 0 {
		n = min(n, 1+a.random.IntN(24))
	}
	n = min(n, readSize)
	b := bytes.Clone(a.queue[from][:n])
	a.queue[from] = a.queue[from][n:]
	a.sent[from] = append(a.sent[from], b...)
	a.most = max(a.most, n)
	err := a.call(func() { a.c.received(from, b, a.now, &a.out) })
	for i := range b {
		b[i] = 0xEE
	}
	return err
}

// move does what is to be done next; false: nothing is.
func (a *actor) move() (bool, error) {
	switch {
	case a.ended:
		return false, nil
	case a.work != nil && a.random.IntN(2) == 0:
		return true, a.resume()
	case len(a.queue[backendSide]) > 0:
		return true, a.read(backendSide)
	case len(a.queue[clientSide]) > 0 && a.c.wants(clientSide):
		return true, a.read(clientSide)
	case a.work != nil:
		return true, a.resume()
	case a.c.wantsBackground():
		out := a.c.out
		err := a.call(func() { a.c.background(a.now, &a.out) })
		if err == nil && !out && !a.c.out && a.c.wantsBackground() {
			err = errors.New("it goes on wanting what it does not do")
		}
		return true, err
	case len(a.tale.steps) > 0:
		s := a.tale.steps[0]
		a.tale.steps = a.tale.steps[1:]
		if !a.fin || s.from == backendSide {
			a.queue[s.from] = append(a.queue[s.from], s.b...)
		}
		return true, nil
	}
	return false, nil
}

func (a *actor) resume() error {
	w := a.work
	a.work = nil
	w()
	return a.call(func() { a.c.resumed(a.now, &a.out) })
}

// leave ends the session in one of the ways there are.
func (a *actor) leave() error {
	if a.ended {
		return nil
	}
	var err error
	switch a.random.IntN(5) {
	case 0:
		a.fin = true
		a.queue[clientSide] = nil
		err = a.call(func() { a.c.ended(clientSide, a.now, &a.out) })
	case 1:
		if err = a.call(func() { a.c.broken(clientSide, false, a.now, &a.out) }); err == nil && !a.ended {
			return errors.New("the client is gone, the session is not")
		}
	case 2:
		err = a.call(func() { a.c.broken(backendSide, true, a.now, &a.out) })
	case 3:
		err = a.call(func() { a.c.drain(a.now, &a.out) })
	}
	for err == nil && !a.ended {
		var more bool
		if more, err = a.move(); !more {
			break
		}
	}
	if err != nil || a.ended {
		return err
	}
	if err := a.call(func() { a.c.ended(backendSide, a.now, &a.out) }); err != nil {
		return err
	}
	if !a.ended {
		return errors.New("the backend is gone, the session is not")
	}
	return nil
}

// over checks what went through.
func (a *actor) over() error {
	if a.c.legs != nil {
		a.c.abandon()
	}
	a.c.unobserve()
	if !a.native {
		return a.managed()
	}
	for _, to := range []side{backendSide, clientSide} {
		got, sent := a.got[to], a.sent[to.other()]
		if to == clientSide && a.ended && refused(got, passed(got, sent, to)) {
			continue
		}
		if a.tale.frame != nil {
			var err error
			if got, sent, err = a.unframed(to); err != nil {
				return fmt.Errorf("what the %v got: %w", to, err)
			}
		}
		n := passed(got, sent, to)
		if n < len(got) && !(to == clientSide && a.ended && a.tale.frame != nil && refused(got, n)) {
			return fmt.Errorf("the %v got %d bytes that were not said: %.60q, where %.60q was said", to, len(got)-n, got[n:], sent[min(n, len(sent)):])
		}
	}
	return nil
}

// passed is how many bytes of got are those of sent, but for capabilities that were cleared in the first packet.
func passed(got, sent []byte, to side) int {
	first := 0
	if len(sent) >= wire.HeaderSize {
		length, _ := wire.Header(sent)
		first = wire.HeaderSize + length
	}
	for i, b := range got {
		switch {
		case i < len(sent) && b == sent[i]:
		case i < len(sent) && i < first && b&^sent[i] == 0 && (to == clientSide || i >= 4 && i < 8 || i >= 32 && i < 36):
		default:
			return i
		}
	}
	return len(got)
}

// refused says whether the bytes of got from n on, or a few before, are an error of the proxy's own.
func refused(got []byte, n int) bool {
	for i := max(0, n-16); i <= n; i++ {
		p, rest, ok := packet(got[i:])
		if !ok || len(rest) > 0 {
			continue
		}
		if e, err := wire.ParseErr(p[wire.HeaderSize:]); err == nil && (e.Code == 1043 || e.Code == 1156 || e.Code == 2003 || e.Code == 3159) {
			return true
		}
	}
	return false
}

// unframed takes the frames behind the login off what a side got, and off what the other one has said.
func (a *actor) unframed(to side) (got, sent []byte, err error) {
	n := a.tale.plain[to.other()]
	plain := func(b []byte) (head []byte, whole bool) {
		head = bytes.Clone(b[:min(n, len(b))])
		if len(b) < n {
			return head, true
		}
		b = b[n:]
		p := packing{algorithm: a.tale.frame}
		err := p.unpack(clientSide, b, anyRoom, func(c []byte) { head = append(head, c...) })
		return head, err == nil && (a.sockets || len(p.legs[clientSide].in) == 0)
	}
	sent, _ = plain(a.sent[to.other()])
	got, whole := plain(a.got[to])
	if !whole && !bytes.HasPrefix(a.sent[to.other()], a.got[to]) { // behind a server's goodbye frames are relayed as they are
		err = errors.New("malformed frames")
	}
	return got, sent, err
}

// world is what conversations of one strategy share.
type world struct {
	*shared
	native bool
}

// play plays sessions side by side, so that what is one's could get to another. It returns how many packets there were, and how many
// of them were changed.
func (b *badSource) play(worlds []world, numbers ...uint64) (packets, changed int, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v\n%s", reason, debug.Stack())
		}
		if err != nil {
			err = fmt.Errorf("sessions %v of seed %d: %w", numbers, *badSeed, err)
		}
	}()
	var open []*actor
	for _, n := range numbers {
		b.seeded(n)
		w := worlds[b.IntN(len(worlds))]
		a := &actor{c: newConversation(w.shared), random: b.Rand, now: 1, native: w.native}
		if a.native {
			a.tale = b.tale()
			changed += b.spoil(&a.tale)
		} else {
			changed += b.cycles(a)
		}
		packets += len(a.tale.steps)
		open = append(open, a)
	}
	for order := b.Rand; len(open) > 0; {
		i := order.IntN(len(open))
		a := open[i]
		more, err := a.move()
		if err == nil && !more {
			if err = a.leave(); err == nil {
				err = a.over()
			}
			open = append(open[:i], open[i+1:]...)
		}
		if err != nil {
			return packets, changed, fmt.Errorf("%s: %w", a.tale.name, err)
		}
	}
	return packets, changed, nil
}

// badServer is a server that knows which temporary tables it has. Some of what it says is spoilt.
type badServer struct {
	*fakeServer
	tables map[string]bool
	wrong  string // what it was told and should not have been
	truth  bool   // nothing that it has said was spoilt
	spoil  func([]byte) []byte
}

var (
	badCreate = regexp.MustCompile(`^(?:/\* tmpproxy \*/ )?(?i:CREATE TEMPORARY TABLE) ([a-z]+) \([a-zA-Z ]*\)(?: ENGINE=(?:MEMORY|InnoDB))?$`)
	badDrop   = regexp.MustCompile("^(?:/\\* tmpproxy \\*/ )?(?i:DROP TEMPORARY TABLE) (?:IF EXISTS )?(?:`[^`]*`.)?`?([a-z]+)`?$")
	badEmpty  = regexp.MustCompile("^/\\* tmpproxy \\*/ TRUNCATE TABLE `[^`]*`.`([a-z]+)`$")
	badAbout  = regexp.MustCompile("(?i)CREATE|DROP")
	badMayGo  = regexp.MustCompile("(?i)IF NOT EXISTS |OR REPLACE ")
	badShow   = regexp.MustCompile("^/\\* tmpproxy \\*/ SHOW CREATE TABLE `[^`]*`.`([a-z]+)`$")
)

func newBadServer() *badServer {
	s := &badServer{fakeServer: newFakeServer(testCaps), tables: map[string]bool{}, truth: true}
	s.answer = func(sql string) []byte {
		switch {
		case strings.HasPrefix(sql, "/* tmpproxy */ TRUNCATE"):
			m := badEmpty.FindStringSubmatch(sql)
			if m == nil || !s.tables[m[1]] {
				s.wrong = sql
				return fail(1146, "no such table")
			}
		case badCreate.MatchString(sql):
			name := badCreate.FindStringSubmatch(sql)[1]
			if s.tables[name] {
				return fail(1050, "exists")
			}
			s.tables[name] = true
		case badDrop.MatchString(sql):
			name := badDrop.FindStringSubmatch(sql)[1]
			if !s.tables[name] {
				return fail(1051, "unknown table")
			}
			delete(s.tables, name)
		case badShow.MatchString(sql):
			if !s.tables[badShow.FindStringSubmatch(sql)[1]] {
				return fail(1146, "no such table")
			}
			return nil // as the rules say
		case strings.HasPrefix(sql, "SELECT"), strings.HasPrefix(sql, "LOAD DATA LOCAL"):
			return nil
		case strings.HasPrefix(sql, "INSERT"), strings.HasPrefix(sql, "/* tmpproxy */ "):
		default:
			return fail(1064, "syntax")
		}
		return s.ok(1)
	}
	return s
}

// hear takes what the proxy sends and returns the answers.
func (s *badServer) hear(b []byte) []byte {
	s.receive(b)
	said := s.out
	s.out = nil
	if len(said) > 0 && s.spoil != nil {
		if other := s.spoil(said); other != nil {
			s.truth = false
			return other
		}
	}
	return said
}

// cycles has an actor play cycles of temporary tables with a badServer.
func (b *badSource) cycles(a *actor) (changed int) {
	a.server = newBadServer()
	a.queue[backendSide] = a.server.out
	a.server.out = nil
	a.tale = tale{name: "cycles", steps: []step{{clientSide, login(testCaps, "db")}, {clientSide, pack(3, []byte("answer"))}}, login: 2}
	say := func(p []byte) { a.tale.steps = append(a.tale.steps, step{clientSide, p}) }
	for range 2 + b.IntN(4) {
		name := string(rune('a'+b.IntN(3))) + "x"
		create := fmt.Sprintf("CREATE TEMPORARY TABLE %s (a INT) ENGINE=MEMORY", name)
		drop := "DROP TEMPORARY TABLE " + name
		switch b.IntN(6) {
		case 0: // prepared, and not always executed
			say(command(wire.ComStmtPrepare, create))
		case 1: // in one packet
			a.batches = true
			say(query(create + "; INSERT INTO " + name + " VALUES (1); " + drop))
			continue
		}
		say(query(create))
		for range b.IntN(3) {
			say([][]byte{query("INSERT INTO " + name + " VALUES (1)"), query("SELECT a FROM " + name), command(wire.ComPing, ""), query("SELECT 1"), query("BAD"),
				append(append(query("LOAD DATA LOCAL INFILE 'f' INTO TABLE "+name), pack(2, []byte("line 1\n"))...), pack(3, nil)...),
				command(wire.ComInitDB, "db"), command(wire.ComResetConnection, "")}[b.IntN(8)])
		}
		say(query(drop))
	}
	whom := b.IntN(3) // whose words are changed: 0 the client's, 1 the server's, 2 both
	if whom != 1 {
		changed += b.spoil(&a.tale)
		for i := range a.tale.steps {
			a.tale.steps[i].from = clientSide
		}
	}
	if whom != 0 {
		a.server.spoil = func(p []byte) []byte {
			if b.IntN(8) > 0 {
				return nil
			}
			return b.spoilt(p)
		}
	}
	return changed
}

// managed checks a session under a strategy: the backend got what the client said, in order, but for statements about temporary tables,
// and statements of the proxy's own about tables that the client has named.
func (a *actor) managed() error {
	if a.server.wrong != "" && a.server.truth {
		return fmt.Errorf("the server was told %q, and has no such table of the session's", a.server.wrong)
	}
	said, got := apart(a.sent[clientSide]), apart(a.got[backendSide])
	if a.batches && !a.server.truth {
		return nil // where the server asks for a file in between, what the client says next is that
	}
	// Parts of a packet may equal a later one: at are all the places in what was said that may be reached.
	at := make([]bool, len(said)+1)
	at[0] = true
	for i, p := range got {
		if text, ok := bytes.CutPrefix(p[min(len(p), wire.HeaderSize):], []byte("\x03/* tmpproxy */ ")); ok {
			if err := a.justified(text); err != nil {
				return err
			}
			continue
		}
		next, open, reached := make([]bool, len(at)), false, false
		for j, q := range said {
			open = open || at[j]
			if !open {
				continue
			}
			if bytes.Equal(p, q) || i == 0 && j == 0 && passed(p, q, backendSide) == len(p) || j == len(said)-1 && i == len(got)-1 && bytes.HasPrefix(q, p) {
				next[j+1], reached = true, true
			}
			about := false
			for _, text := range texts(said[:j+1]) {
				about = about || aboutTables(text)
				if aboutTables(text) && derived(p, text) {
					next[j], reached = true, true
				}
			}
			// A command is not sent if a table cannot be given back before it.
			open = about || !a.server.truth
		}
		if !reached {
			return fmt.Errorf("the backend got %.100q out of turn:\n%q\nwhere the client said\n%q", p, got, said)
		}
		at = next
	}
	return nil
}

// texts are what the last of the packets may have run: what it says or, if it is the execution of a statement, what was prepared before,
// as queries.
func texts(said [][]byte) (all [][]byte) {
	last := said[len(said)-1]
	if len(last) <= wire.HeaderSize || wire.Command(last[wire.HeaderSize]) != wire.ComStmtExecute {
		return [][]byte{last}
	}
	for _, p := range said {
		if len(p) > wire.HeaderSize && wire.Command(p[wire.HeaderSize]) == wire.ComStmtPrepare {
			p = bytes.Clone(p)
			p[wire.HeaderSize] = byte(wire.ComQuery)
			all = append(all, p)
		}
	}
	return all
}

// apart cuts a stream into packets; the last one may not be whole.
func apart(b []byte) (all [][]byte) {
	for len(b) > 0 {
		n := len(b)
		if n >= wire.HeaderSize {
			length, _ := wire.Header(b)
			n = min(n, wire.HeaderSize+length)
		}
		all = append(all, b[:n])
		b = b[n:]
	}
	return all
}

// aboutTables says whether a packet of the client's is one that may be answered here, or run in parts.
func aboutTables(p []byte) bool {
	return len(p) <= wire.HeaderSize || wire.Command(p[wire.HeaderSize]) == wire.ComQuery && badAbout.Match(p[wire.HeaderSize:])
}

// derived says whether the text of a query is a part of another's, or that with another engine.
func derived(p, whole []byte) bool {
	if len(p) <= wire.HeaderSize+1 || wire.Command(p[wire.HeaderSize]) != wire.ComQuery {
		return false
	}
	text := p[wire.HeaderSize+1:]
	if bytes.Contains(whole, text) {
		return true
	}
	if whole = badMayGo.ReplaceAll(whole, nil); bytes.Contains(whole, text) {
		return true
	}
	before, behind, found := bytes.Cut(text, []byte("InnoDB"))
	i := bytes.Index(whole, before)
	return found && i >= 0 && bytes.Contains(whole[i+len(before):], behind)
}

// justified says whether the client has given cause for a statement of the proxy's own.
func (a *actor) justified(text []byte) error {
	said := a.sent[clientSide]
	if !badAbout.Match(said) {
		return fmt.Errorf("%q without a temporary table", text)
	}
	parts := bytes.Split(text, []byte("`"))
	if len(parts) == 5 && !bytes.Contains(said, parts[3]) {
		return fmt.Errorf("%q, a name that the client has not said", text)
	}
	return nil
}

// world plays the sessions of a number, in a world of their own.
func (b *badSource) world(number uint64) (packets, changed int, parks float64, err error) {
	under := func(p *session.Policy) world {
		return world{newShared(p, newJournal(zap.NewNop())), p.Strategy == session.StrategyNative}
	}
	worlds := []world{under(testPolicy(session.StrategyNative)), under(observing()), under(testPolicy(session.StrategyInnoDB)), under(testPolicy(session.StrategyKeep))}
	const groups, side = 100, 3
	for i := range uint64(groups) {
		n := number*groups*side + i*side
		p, c, err := b.play(worlds, n, n+1, n+2)
		packets, changed = packets+p, changed+c
		if err != nil {
			return packets, changed, 0, err
		}
	}
	for _, w := range worlds[2:] {
		for _, s := range w.ledger.Shapes() {
			parks += float64(s.Reuses)
		}
	}
	return packets, changed, parks, nil
}

// badWorkers is how many worlds are played at a time.
const badWorkers = 2

func TestBadInput(t *testing.T) {
	var next, packets, changed, reuses atomic.Int64
	var all sync.WaitGroup
	done := make(chan struct{})
	defer close(done)
	began := time.Now()
	for range badWorkers {
		b := newBadSource(t)
		playing := new(atomic.Uint64)
		go func() { // a process that gets no time is not one that hangs: five minutes have to be seen
			var last uint64
			var same int
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Minute):
				}
				if n := playing.Load(); n == 0 || n != last {
					last, same = n, 0
				} else if same++; same == 5 {
					panic(fmt.Sprintf("world %d of seed %d hangs", n, *badSeed))
				}
			}
		}()
		all.Go(func() {
			defer playing.Store(0)
			for changed.Load() < int64(*badPackets) && !t.Failed() {
				n := uint64(next.Add(1))
				if *badOnly != 0 {
					if n > 1 {
						return
					}
					n = *badOnly
				}
				playing.Store(n)
				p, c, r, err := b.world(n)
				packets.Add(int64(p))
				changed.Add(int64(c))
				reuses.Add(int64(r))
				if err != nil {
					t.Errorf("-badinput.only=%d: %v", n, err)
				}
			}
		})
	}
	all.Wait()
	if reuses.Load() == 0 {
		t.Error("no session has used a table again")
	}
	t.Logf("%d packets in %d sessions, %d of them changed, %d tables used again, %v", packets.Load(), 300*next.Load(), changed.Load(), reuses.Load(),
		time.Since(began).Round(time.Millisecond))
}

// TestBadInputThroughDrivers plays such sessions through sockets.
func TestBadInputThroughDrivers(t *testing.T) {
	drivers := []string{"pump"}
	if runtime.GOOS == "linux" {
		drivers = append(drivers, "loop")
	}
	for i, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			log, logged := observer.New(zap.ErrorLevel)
			r := newRig(t, rigOptions{driver: driver, log: zap.New(log), server: func(s *Server) {
				s.linger = 20 * time.Millisecond
				s.newConversation = func() *conversation { return newConversation(s.shared) }
			}})
			b := newBadSource(t)
			packets, changed, sessions := 0, 0, 0
			for changed < max(*badPackets/badSocketShare, 400)/len(drivers) && !t.Failed() {
				sessions++
				n := uint64(sessions)<<32 + uint64(i)
				b.seeded(n)
				story := b.tale()
				good := append([]step(nil), story.steps...)
				changed += b.spoil(&story)
				packets += len(story.steps)
				if err := r.act(b, &story, good); err != nil {
					t.Errorf("session %d of seed %d (%s): %v", n, *badSeed, story.name, err)
				}
			}
			r.empty()
			if n := r.server.Counts().Panics.Load(); n > 0 {
				t.Errorf("%d panics: %v", n, logged.All())
			}
			t.Logf("%d packets in %d sessions, %d of them changed", packets, sessions, changed)
		})
	}
}

// act plays a session through sockets. Where it is as it should be, each step waits for the one before to arrive.
func (r *rig) act(b *badSource, story *tale, good []step) error {
	ends := [2]*net.TCPConn{}
	for at := range ends {
		var conn net.Conn
		var err error
		if side(at) == clientSide {
			conn, err = net.Dial("tcp", r.server.Addresses()[0].String())
		} else {
			conn, err = r.backend.Accept()
		}
		if err != nil {
			return err
		}
		defer conn.Close()
		ends[at] = conn.(*net.TCPConn)
		ends[at].SetDeadline(time.Now().Add(patience))
	}
	var sent, got [2][]byte
	var arrived [2]chan struct{}
	var mu sync.Mutex
	var readers sync.WaitGroup
	errs := [2]error{}
	for at, e := range ends {
		arrived[at] = make(chan struct{}, 1)
		readers.Go(func() {
			buf := make([]byte, 32<<10)
			for {
				n, err := e.Read(buf)
				mu.Lock()
				got[at] = append(got[at], buf[:n]...)
				mu.Unlock()
				select {
				case arrived[at] <- struct{}{}:
				default:
				}
				if err != nil {
					if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
						errs[at] = fmt.Errorf("the %v waits in vain", side(at))
					}
					return
				}
			}
		})
	}
	as := true // it is as it should be, so far
	for i, s := range story.steps {
		as = as && i < len(good) && s.from == good[i].from && bytes.Equal(s.b, good[i].b)
		sent[s.from] = append(sent[s.from], s.b...)
		if _, err := ends[s.from].Write(s.b); err != nil {
			break // it is over
		}
		for to := s.from.other(); as && story.frame == nil; {
			mu.Lock()
			all := len(got[to]) >= len(sent[s.from])
			mu.Unlock()
			if all {
				break
			}
			select {
			case <-arrived[to]:
			case <-time.After(patience):
				return fmt.Errorf("step %d, as it should be, does not arrive", i)
			}
		}
	}
	for _, at := range b.Perm(2) {
		if b.IntN(4) == 0 {
			ends[at].SetLinger(0)
			ends[at].Close()
		} else {
			ends[at].CloseWrite()
		}
	}
	readers.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	a := actor{native: true, sockets: true, tale: *story, sent: sent, got: got, ended: true, c: newRawConversation()}
	return a.over()
}
