package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	"tmpproxy/rewrite"
	"tmpproxy/session"
	"tmpproxy/wire"
)

// The server of these tests: it understands packets and answers by a few rules, without sockets.

const testCaps = wire.ClientLongPassword | wire.ClientProtocol41 | wire.ClientTransactions | wire.ClientSecureConnection |
	wire.ClientPluginAuth | wire.ClientConnectWithDB | wire.ClientMultiResults | wire.ClientMultiStatements | wire.ClientLocalFiles |
	wire.ClientPluginAuthLenencData

type fakeServer struct {
	caps   wire.Capability // offered
	plugin string
	in     []byte
	out    []byte
	log    []string // commands as understood
	stage  int      // 0 login, 1 authentication switch answered, 2 commands, 3 file
	status uint16
	handle uint32
	answer func(sql string) []byte // overrides the rules; nil: the rule's
	eof    bool
	seq    byte // of the file's next packet

	// turns are the payloads that answer the client's packets in an authentication; nil is an OK.
	turns [][][]byte
	turn  int
	whole int // bytes that were received
}

// switchedTurns have the client answer for another plugin.
var switchedTurns = [][][]byte{{[]byte("\xfecaching_sha2_password\x00abcdefghijklmnopqrst\x00")}, {{1, 3}, nil}}

func newFakeServer(caps wire.Capability) *fakeServer {
	s := &fakeServer{caps: caps, plugin: "mysql_native_password", status: wire.StatusAutocommit, turns: switchedTurns}
	s.out = s.greeting()
	return s
}

func pack(seq byte, payload []byte) []byte {
	b := make([]byte, wire.HeaderSize, wire.HeaderSize+len(payload))
	wire.PutHeader(b, len(payload), seq)
	return append(b, payload...)
}

func (s *fakeServer) greeting() []byte {
	p := append([]byte{10}, "9.7.4\x00"...)
	p = binary.LittleEndian.AppendUint32(p, 42)
	p = append(p, "12345678\x00"...)
	p = binary.LittleEndian.AppendUint16(p, uint16(s.caps))
	p = append(p, 255)
	p = binary.LittleEndian.AppendUint16(p, s.status)
	p = binary.LittleEndian.AppendUint16(p, uint16(s.caps>>16))
	p = append(p, 21)
	p = append(p, make([]byte, 10)...)
	p = append(p, "123456789012\x00"...)
	p = append(p, s.plugin+"\x00"...)
	return pack(0, p)
}

func (s *fakeServer) ok(seq byte) []byte {
	return wire.AppendOK(nil, seq, s.caps, wire.OK{Status: s.status})
}

func (s *fakeServer) rows(seq byte, status uint16, values ...string) []byte {
	b := pack(seq, []byte{1})
	def := []byte{3, 'd', 'e', 'f', 0, 0, 0, 1, 'a', 0, 12, 33, 0, 10, 0, 0, 0, 0xfd, 0, 0, 0, 0, 0}
	b = append(b, pack(seq+1, def)...)
	b = append(b, pack(seq+2, []byte{0xfe, 0, 0, byte(status), byte(status >> 8)})...)
	seq += 3
	for _, v := range values {
		b = append(b, pack(seq, append([]byte{byte(len(v))}, v...))...)
		seq++
	}
	return append(b, pack(seq, []byte{0xfe, 0, 0, byte(status), byte(status >> 8)})...)
}

// definition is the result set of a SHOW CREATE TABLE.
func (s *fakeServer) definition(text string) []byte {
	b := pack(1, []byte{2})
	def := []byte{3, 'd', 'e', 'f', 0, 0, 0, 1, 'a', 0, 12, 33, 0, 10, 0, 0, 0, 0xfd, 0, 0, 0, 0, 0}
	b = append(b, pack(2, def)...)
	b = append(b, pack(3, def)...)
	end := []byte{0xfe, 0, 0, byte(s.status), byte(s.status >> 8)}
	b = append(b, pack(4, end)...)
	n := len(text)
	row := append([]byte{1, 't', 0xfd, byte(n), byte(n >> 8), byte(n >> 16)}, text...)
	b = append(b, pack(5, row)...)
	return append(b, pack(6, end)...)
}

func fail(code uint16, message string) []byte {
	return wire.AppendErr(nil, 1, testCaps, wire.Err{Code: code, State: "42S02", Message: message})
}

// receive takes bytes of the client's and appends the answers to out.
func (s *fakeServer) receive(b []byte) {
	s.in = append(s.in, b...)
	s.whole += len(b)
	for {
		p, rest, ok := packet(s.in)
		if !ok {
			return
		}
		s.in = rest
		_, seq := wire.Header(p)
		s.take(p[wire.HeaderSize:], seq)
	}
}

func (s *fakeServer) take(p []byte, seq byte) {
	switch s.stage {
	case 0:
		s.log = append(s.log, "login")
		s.authenticate(seq)
		return
	case 1:
		s.log = append(s.log, "auth "+string(p))
		s.authenticate(seq)
		return
	case 3:
		s.log = append(s.log, "file "+string(p))
		if seq != s.seq {
			s.log = append(s.log, fmt.Sprintf("packets out of order: %d, not %d", seq, s.seq))
		}
		s.seq++
		if len(p) == 0 {
			s.stage = 2
			s.out = append(s.out, s.ok(seq+1)...)
		}
		return
	}
	if len(p) == 0 {
		s.out = append(s.out, fail(1047, "no command")...)
		return
	}
	cmd := wire.Command(p[0])
	s.log = append(s.log, fmt.Sprintf("%v %q", cmd, p[1:]))
	switch cmd {
	case wire.ComQuery:
		sql := string(p[1:])
		if s.answer != nil {
			if b := s.answer(sql); b != nil {
				s.out = append(s.out, b...)
				return
			}
		}
		switch {
		case strings.HasPrefix(sql, "SELECT TWO"):
			s.out = append(s.out, s.rows(1, s.status|wire.StatusMoreResultsExists, "x", "y")...)
			s.out = append(s.out, s.rows(7, s.status, "z")...)
		case strings.HasPrefix(sql, "SELECT"):
			s.out = append(s.out, s.rows(1, s.status, "one", "\xfe", "")...)
		case strings.HasPrefix(sql, "LOAD DATA LOCAL"):
			s.stage, s.seq = 3, 2
			s.out = append(s.out, pack(1, append([]byte{0xfb}, "file"...))...)
		case strings.Contains(sql, "SHOW CREATE TABLE"):
			s.out = append(s.out, s.definition("CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=InnoDB")...)
		case strings.HasPrefix(sql, "BAD"):
			s.out = append(s.out, fail(1064, "syntax")...)
		default:
			s.out = append(s.out, s.ok(1)...)
		}
	case wire.ComStmtPrepare:
		s.handle++
		h := []byte{0}
		h = binary.LittleEndian.AppendUint32(h, s.handle)
		h = append(h, 0, 0, 1, 0, 0, 0, 0)
		s.out = append(s.out, pack(1, h)...)
		s.out = append(s.out, pack(2, []byte{3, 'd', 'e', 'f', 0, 0, 0, 1, '?', 0, 12, 33, 0, 10, 0, 0, 0, 0xfd, 0, 0, 0, 0, 0})...)
		s.out = append(s.out, pack(3, []byte{0xfe, 0, 0, 2, 0})...)
	case wire.ComStmtClose, wire.ComStmtSendLongData:
	case wire.ComQuit:
		s.eof = true
	case wire.ComStatistics:
		s.out = append(s.out, pack(1, []byte("Uptime: 1"))...)
	case wire.ComFieldList:
		s.out = append(s.out, pack(1, []byte{3, 'd', 'e', 'f'})...)
		s.out = append(s.out, pack(2, []byte{0xfe, 0, 0, 2, 0})...)
	case wire.ComChangeUser:
		s.authenticate(seq)
	default:
		s.out = append(s.out, s.ok(1)...)
	}
}

// authenticate answers a packet of the client's in an authentication.
func (s *fakeServer) authenticate(seq byte) {
	s.stage = 1
	answers := s.turns[s.turn]
	for i, p := range answers {
		if seq++; p == nil {
			s.out = append(s.out, s.ok(seq)...)
		} else {
			s.out = append(s.out, pack(seq, p)...)
			s.eof = i == len(answers)-1 && p[0] == 0xFF
		}
	}
	if s.turn++; s.turn == len(s.turns) {
		s.stage, s.turn = 2, 0
	}
}

func login(caps wire.Capability, schema string) []byte {
	p := binary.LittleEndian.AppendUint32(nil, uint32(caps))
	p = append(p, 0, 0, 0, 1, 45)
	p = append(p, make([]byte, 23)...)
	p = append(p, "user\x00\x03pwd"...)
	p = append(p, schema+"\x00mysql_native_password\x00"...)
	return pack(1, p)
}

func command(cmd wire.Command, arg string) []byte {
	return pack(0, append([]byte{byte(cmd)}, arg...))
}

func query(sql string) []byte { return command(wire.ComQuery, sql) }

// talk drives one conversation against a fakeServer, every piece of bytes cut into chunks.
type talk struct {
	t       *testing.T
	c       *conversation
	s       *fakeServer
	chunk   int
	send    []byte // the client's bytes not delivered yet
	got     []byte // what the client received
	out     output
	now     int64
	ended   bool
	shut    [2]bool
	work    func()
	pending int // high-water mark of what the conversation kept of the client's bytes
}

func testPolicy(s session.Strategy) *session.Policy {
	convert, err := rewrite.ParseEngineSet([]string{"MEMORY", "MyISAM"})
	if err != nil {
		panic(err)
	}
	return &session.Policy{Strategy: s, Convert: convert, MaxStatement: 64 << 10, MaxCreate: 16 << 10, MaxParked: 16, ParkTTL: 1e12, MaxAge: 1e13}
}

func newTalk(t *testing.T, s *fakeServer, strategy session.Strategy, chunk int) *talk {
	sh := newShared(testPolicy(strategy), newJournal(zap.NewNop()))
	return newTalkOf(t, sh, s, chunk)
}

func newTalkOf(t *testing.T, sh *shared, s *fakeServer, chunk int) *talk {
	r := &talk{t: t, c: newConversation(sh), s: s, chunk: chunk, now: 1}
	r.call(func() { r.c.start(nil, r.now, &r.out) })
	return r
}

// call runs one input and does what the conversation asks.
func (r *talk) call(f func()) {
	r.out.reset()
	r.now++
	f()
	for _, run := range r.out.runs {
		if run.to == clientSide {
			r.got = append(r.got, run.b...)
		} else {
			r.s.receive(run.b)
		}
	}
	// What the runs pointed to is the driver's again: spoil it, so that anything kept by reference shows.
	for _, run := range r.out.runs {
		if run.to == backendSide {
			continue
		}
	}
	if r.out.work != nil {
		if r.work != nil {
			r.t.Fatal("two pieces of work at once")
		}
		r.work = r.out.work
	}
	r.shut[0] = r.shut[0] || r.out.shut[0]
	r.shut[1] = r.shut[1] || r.out.shut[1]
	r.ended = r.ended || r.out.end
	r.pending = max(r.pending, len(r.c.pending))
}

// feedChunk delivers a chunk in a buffer that is spoilt afterwards, as a driver's shared buffer is.
func (r *talk) feedChunk(from side, b []byte) {
	buf := bytes.Clone(b)
	r.call(func() { r.c.received(from, buf, r.now, &r.out) })
	for i := range buf {
		buf[i] = 0xEE
	}
}

// settle runs until nothing moves any more.
func (r *talk) settle() {
	for i := 0; !r.ended; i++ {
		if i > 1e6 {
			r.t.Fatal("no end")
		}
		switch {
		case len(r.s.out) > 0:
			n := min(r.chunk, len(r.s.out))
			b := bytes.Clone(r.s.out[:n])
			r.s.out = r.s.out[n:]
			r.feedChunk(backendSide, b)
		case r.work != nil:
			w := r.work
			r.work = nil
			w()
			r.call(func() { r.c.resumed(r.now, &r.out) })
		case len(r.send) > 0 && r.c.wants(clientSide):
			n := min(r.chunk, len(r.send))
			b := r.send[:n]
			r.send = r.send[n:]
			r.feedChunk(clientSide, b)
		case r.c.wantsBackground():
			r.call(func() { r.c.background(r.now, &r.out) })
		case r.s.eof:
			r.s.eof = false
			r.call(func() { r.c.ended(backendSide, r.now, &r.out) })
		default:
			return
		}
	}
}

// client sends bytes and runs until nothing moves; it returns what the client received for them.
func (r *talk) client(b []byte) []byte {
	r.t.Helper()
	had := len(r.got)
	r.send = append(r.send, b...)
	r.settle()
	return r.got[had:]
}

// direct runs the same client bytes without a proxy.
func direct(s *fakeServer, pieces [][]byte) []byte {
	got := bytes.Clone(s.out)
	s.out = nil
	for _, p := range pieces {
		s.receive(p)
		got = append(got, s.out...)
		s.out = nil
	}
	return got
}

func relayScript() [][]byte {
	exec := binary.LittleEndian.AppendUint32(nil, 1)
	return [][]byte{
		login(testCaps, "db"),
		pack(3, []byte("answer")),
		query("SELECT 1"),
		query("SELECT TWO"),
		query("BAD"),
		query("INSERT INTO x VALUES (1)"),
		command(wire.ComPing, ""),
		command(wire.ComStatistics, ""),
		command(wire.ComStmtPrepare, "SELECT ?"),
		command(wire.ComStmtSendLongData, string(exec)+"\x00\x00abc"),
		command(wire.ComStmtExecute, string(exec)+"\x00\x01\x00\x00\x00"),
		command(wire.ComStmtClose, string(exec)),
		command(wire.ComFieldList, "x\x00"),
		command(wire.ComInitDB, "other"),
		append(append(query("LOAD DATA LOCAL INFILE 'f' INTO TABLE x"), pack(2, []byte("line 1\n"))...), pack(3, nil)...),
		query("CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY"),
		query("DROP TEMPORARY TABLE t"),
		append(command(wire.ComChangeUser, "user\x00\x03pwddb\x00\x2d\x00mysql_native_password\x00"), pack(2, []byte("answer2"))...),
		command(wire.ComResetConnection, ""),
		query(strings.Repeat("SELECT 'long' ", 8000)),
		command(wire.ComQuit, ""),
	}
}

// Everything passes untouched under native, however it is cut, whether the client waits for answers or not.
func TestRelayEverySplit(t *testing.T) {
	want := newFakeServer(testCaps)
	wantGot := direct(want, relayScript())
	chunks := []int{1, 2, 3, 4, 5, 7, 11, 64, 1000, 32 << 10, 1 << 20}
	for _, pipelined := range []bool{false, true} {
		for _, chunk := range chunks {
			t.Run(fmt.Sprintf("pipelined=%v/chunk=%d", pipelined, chunk), func(t *testing.T) {
				s := newFakeServer(testCaps)
				r := newTalk(t, s, session.StrategyNative, chunk)
				r.settle()
				if pipelined {
					r.client(bytes.Join(relayScript(), nil))
				} else {
					for _, p := range relayScript() {
						r.client(p)
					}
				}
				if !bytes.Equal(r.got, wantGot) {
					t.Errorf("client received %d bytes, want %d, first difference at %d", len(r.got), len(wantGot), difference(r.got, wantGot))
				}
				if a, b := strings.Join(s.log, "\n"), strings.Join(want.log, "\n"); a != b {
					t.Errorf("server received\n%.2000s\nwant\n%.2000s", a, b)
				}
				if !r.ended {
					t.Error("the server has closed, the session has not ended")
				}
				if r.c.pending != nil || r.c.cmd != nil || r.c.held != nil || r.c.hs != nil || r.c.tracker != nil {
					t.Error("the idle conversation keeps a buffer")
				}
				if limit := 2*chunk + 64<<10 + wire.HeaderSize; r.pending > limit {
					t.Errorf("kept %d bytes of the client's, limit %d", r.pending, limit)
				}
			})
		}
	}
}

// A server may leave in the middle of a command that has no reply: what it says then is the client's.
func TestGoodbyeDuringLongData(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyNative, 1<<20)
	data := command(wire.ComStmtSendLongData, "\x01\x00\x00\x00\x00\x00"+strings.Repeat("x", 1000))
	r.client(data[:500])
	goodbye := wire.AppendErr(nil, 0, testCaps, wire.Err{Code: 4031, State: "HY000", Message: "The client was disconnected"})
	had := len(r.got)
	r.feedChunk(backendSide, goodbye)
	if !bytes.Equal(r.got[had:], goodbye) {
		t.Errorf("the client got %q", r.got[had:])
	}
	r.client(data[500:])
	if !strings.Contains(s.log[len(s.log)-1], "xxx") {
		t.Errorf("the server got %.60q last", s.log[len(s.log)-1])
	}
}

func difference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
