package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	"tmpproxy/session"
	"tmpproxy/wire"
)

// tagMark stands for the tag of a session in what is said there: each has its own, of the same length.
const tagMark = "~user~"

// play is a session as both ends have it: what the client says, and a server that answers.
type play struct {
	name     string
	caps     wire.Capability // beside testCaps
	strategy session.Strategy
	tls      [2]bool
	safe     [2]bool // in memory, stands for the TLS of a leg
	plugin   string
	turns    [][][]byte // of the login
	login    int        // steps of the client until it is logged in
	steps    [][]byte   // what the client says, each when the answer to the last is whole
	relayed  bool       // behind the login all passes as it comes
	recorded []step     // from a real server, which answers so; then there are no tags but in the login
	blurred  [2]int     // where the backend gets what is different each time

	// Found out by study.
	first [][][2]int // as after, of the first sessions in a process
	after [][2]int   // bytes each side has received before the first step, and behind each
	got   [2][]byte  // what each side receives
}

// answering is the server of a play.
type answering interface {
	receive(b []byte)
	take() []byte // what it says now
	over() bool   // it closes the connection behind that
}

func (s judging) take() []byte {
	b := s.out
	s.out = nil
	return b
}

// judging is a fakeServer whose rows hold the session's tag.
type judging struct{ *fakeServer }

func (s judging) over() bool { return s.eof }

// prompted says what was recorded, piece by piece, once it has received what comes before.
type prompted struct {
	steps    []step
	received int
	due      int
	out      []byte
}

func newPrompted(steps []step) *prompted {
	s := &prompted{steps: steps}
	s.receive(nil)
	return s
}

func (s *prompted) receive(b []byte) {
	s.received += len(b)
	for len(s.steps) > 0 {
		if next := s.steps[0]; next.from == clientSide {
			s.due += len(next.b)
		} else if s.received >= s.due {
			s.out = append(s.out, next.b...)
		} else {
			return
		}
		s.steps = s.steps[1:]
	}
}

func (s *prompted) take() []byte {
	b := s.out
	s.out = nil
	return b
}

func (s *prompted) over() bool { return false }

// compression are the capabilities that need frames.
const compression = wire.ClientCompress | wire.ClientZstdCompression

// server makes the play's server. tame: it neither compresses nor has TLS.
func (p *play) server(tame bool) answering {
	if p.recorded != nil {
		return newPrompted(p.recorded)
	}
	s := newFakeServer(p.capabilities(backendSide, tame))
	if p.plugin != "" {
		s.plugin = p.plugin
		s.out = s.greeting()
	}
	if p.turns != nil {
		s.turns = p.turns
	}
	s.answer = func(sql string) []byte {
		if strings.HasPrefix(sql, "SELECT") && !strings.HasPrefix(sql, "SELECT TWO") {
			return s.rows(1, s.status, "a row of "+tagMark, "\xfe", tagMark)
		}
		return nil
	}
	return judging{s}
}

func (p *play) capabilities(at side, tame bool) wire.Capability {
	caps := testCaps | p.caps
	if p.tls[at] {
		caps |= wire.ClientSSL
	}
	if tame {
		caps &^= compression | wire.ClientSSL
	}
	return caps
}

// said is what the client says in a step.
func (p *play) said(i int, tame bool) []byte {
	b := p.steps[i]
	if i >= p.login || p.recorded != nil {
		return b
	}
	b = bytes.Clone(b)
	if i == 0 {
		binary.LittleEndian.PutUint32(b[wire.HeaderSize:], uint32(p.capabilities(clientSide, tame)))
	}
	if p.tls[clientSide] && !tame {
		b[3]++ // the SSLRequest has taken a number
	}
	return b
}

// study finds out, in memory, what both ends receive. TLS and frames are left out: they change the content, but not its length.
func (p *play) study(t *testing.T) {
	t.Helper()
	if p.recorded != nil {
		p.after = [][2]int{{}}
		for _, s := range p.recorded {
			p.got[s.from.other()] = append(p.got[s.from.other()], s.b...)
			if s.from == clientSide {
				p.after = append(p.after, p.after[len(p.after)-1])
			}
			p.after[len(p.after)-1][s.from.other()] += len(s.b)
		}
		p.first = [][][2]int{p.after}
		return
	}
	sh := newShared(testPolicy(p.strategy), newJournal(zap.NewNop()))
	var err error
	if sh.tls.Key, err = ownKey(); err != nil {
		t.Fatal(err)
	}
	for range 3 { // a process caches only what it has seen before
		s := p.server(true).(judging).fakeServer
		r := newTalkOf(t, sh, s, 1<<20)
		r.c.safe = p.safe
		r.settle()
		p.after = [][2]int{{len(r.got), s.whole}}
		for i := range p.steps {
			r.client(bytes.Clone(p.said(i, true)))
			p.after = append(p.after, [2]int{len(r.got), s.whole})
		}
		p.first = append(p.first, p.after)
		if i := p.login; i < len(p.steps) && r.c.m == nil {
			t.Fatalf("%s: not logged in after %d steps: %q", p.name, i, s.log)
		}
		p.got[clientSide] = r.got
	}
}

func taggedLogin(plugin string) []byte {
	p := binary.LittleEndian.AppendUint32(nil, uint32(testCaps))
	p = append(p, 0, 0, 0, 1, 45)
	p = append(p, make([]byte, 23)...)
	p = append(p, tagMark+"\x00\x03pwd"...)
	return pack(1, append(p, "db\x00"+plugin+"\x00"...))
}

// tagOf is the tag in the first packet behind a greeting; "" if there is none.
func tagOf(b []byte) string {
	const at = wire.HeaderSize + 32
	if len(b) < at+len(tagMark) || b[at] != tagMark[0] {
		return ""
	}
	return string(b[at : at+len(tagMark)])
}

// faultPlays are what the faults are tried on.
func faultPlays(t *testing.T) []*play {
	t.Helper()
	key, err := ownKey()
	if err != nil {
		t.Fatal(err)
	}
	const scramble = "12345678123456789012"
	secret := func() []byte { return []byte("secret\x00") }
	sealed, err := encryptPassword(secret(), []byte(scramble), key.public)
	if err != nil {
		t.Fatal(err)
	}
	publicKey := append([]byte{1}, key.public...)

	exec := binary.LittleEndian.AppendUint32(nil, 1)
	tagged := " /* " + tagMark + " */"
	switched := [][]byte{taggedLogin("mysql_native_password"), pack(3, []byte("answer"))}
	plain := func(more ...[]byte) [][]byte { return append(append([][]byte{}, switched...), more...) }
	quit := command(wire.ComQuit, "")
	mixed := plain(
		query("SELECT 1"+tagged), query("SELECT TWO"+tagged), query("BAD"+tagged), query("INSERT INTO x VALUES ('"+tagMark+"')"),
		command(wire.ComPing, ""), command(wire.ComStatistics, ""),
		command(wire.ComStmtPrepare, "SELECT ?"+tagged), command(wire.ComStmtSendLongData, string(exec)+"\x00\x00"+tagMark),
		command(wire.ComStmtExecute, string(exec)+"\x00\x01\x00\x00\x00"), command(wire.ComStmtClose, string(exec)),
		command(wire.ComFieldList, "x\x00"), command(wire.ComInitDB, "other"),
		query("LOAD DATA LOCAL INFILE 'f' INTO TABLE x"), append(pack(2, []byte("line of "+tagMark+"\n")), pack(3, nil)...),
		command(wire.ComChangeUser, tagMark+"\x00\x03pwddb\x00\x2d\x00mysql_native_password\x00"), pack(2, []byte("answer2")),
		query("SELECT 2"+tagged), command(wire.ComResetConnection, ""), quit)
	write := "INSERT INTO t VALUES ('" + tagMark + "')"
	var cycles [][]byte
	for range 3 {
		cycles = append(cycles, query(create), query(write), query("SELECT * FROM t"+tagged), query(drop))
	}
	batch := query(create + "; " + write + "; SELECT * FROM t" + tagged + "; " + drop)
	short := plain(query("SELECT 1"+tagged), query(create), query(write), query(drop), query(create), query(write), query(drop), quit)
	// A session whose password itself has to reach the server, with a first query.
	full := func(answers ...[]byte) [][]byte {
		list := [][]byte{taggedLogin(cachingSHA2Password)}
		for i, a := range answers {
			list = append(list, pack(byte(3+2*i), a))
		}
		return append(list, query("SELECT 1"+tagged), quit)
	}
	askedTwice := [][][]byte{{{moreData, wantsFull}}, {publicKey}, {nil}}
	asked := [][][]byte{{{moreData, wantsFull}}, {nil}}
	plays := []*play{
		{name: "commands", login: 2, steps: mixed, relayed: true},
		{name: "login at once", turns: [][][]byte{{nil}}, login: 1, steps: [][]byte{taggedLogin("mysql_native_password"), query("SELECT 1" + tagged), quit}, relayed: true},
		{name: "login refused", turns: [][][]byte{{switchedTurns[0][0]}, {append([]byte{0xff, 0x15, 4}, "#28000Access denied"...)}}, login: 2, steps: switched, relayed: true},
		{name: "login with a key", plugin: cachingSHA2Password, turns: askedTwice, login: 3, steps: full([]byte{2}, sealed), relayed: true},
		{name: "login with two factors", turns: [][][]byte{switchedTurns[0], {append([]byte{2}, "authentication_ldap\x00question\x00"...)}, {nil}}, login: 3,
			steps: plain(pack(5, []byte("answer3")), query("SELECT 1"+tagged), quit), relayed: true},
		{name: "cycles", strategy: session.StrategyInnoDB, login: 2, steps: plain(append(append([][]byte{}, cycles...), query("SELECT 1"+tagged), quit)...)},
		{name: "batches", strategy: session.StrategyKeep, login: 2, steps: plain(batch, batch, batch, quit)},
		{name: "zlib", caps: wire.ClientCompress, strategy: session.StrategyInnoDB, login: 2, steps: short},
		{name: "zstd", caps: wire.ClientZstdCompression, strategy: session.StrategyInnoDB, login: 2, steps: short},
		{name: "TLS with the client", tls: [2]bool{clientSide: true}, strategy: session.StrategyInnoDB, login: 2, steps: short},
		{name: "TLS with both", tls: [2]bool{true, true}, strategy: session.StrategyInnoDB, login: 2, steps: short},
		{name: "TLS with both, zlib", tls: [2]bool{true, true}, caps: wire.ClientCompress, strategy: session.StrategyInnoDB, login: 2, steps: short},
		{name: "password from TLS to a key", tls: [2]bool{clientSide: true}, safe: [2]bool{clientSide: true}, plugin: cachingSHA2Password, turns: askedTwice, login: 2,
			steps: full(secret())},
		{name: "password from a key to TLS", tls: [2]bool{backendSide: true}, safe: [2]bool{backendSide: true}, plugin: cachingSHA2Password, turns: asked, login: 3,
			steps: full([]byte{2}, sealed)},
	}
	for i, rec := range recordings(t) {
		p := &play{name: "recorded " + rec.name, login: 1, relayed: true}
		for j, s := range rec.steps() {
			if j == 1 { // the login, with the tag as the user
				s.b = bytes.Replace(s.b, []byte("user\x00"), []byte(tagMark+"\x00"), 1)
				wire.PutHeader(s.b, len(s.b)-wire.HeaderSize, 1)
			}
			if n := len(p.recorded); n > 0 && p.recorded[n-1].from == s.from {
				p.recorded[n-1].b = append(bytes.Clone(p.recorded[n-1].b), s.b...)
			} else {
				p.recorded = append(p.recorded, s)
			}
		}
		for _, s := range p.recorded {
			if s.from == clientSide {
				p.steps = append(p.steps, s.b)
			}
		}
		if *everyFault || i == 0 {
			plays = append(plays, p)
		}
	}
	for _, p := range plays {
		p.study(t)
		if p.name == "password from TLS to a key" { // what is encrypted, behind the login and the question for the key
			from := p.after[1][backendSide] + wire.HeaderSize + 1 + wire.HeaderSize
			p.blurred = [2]int{from, from + 256}
		}
	}
	return plays
}

func tagged(b []byte, tag string) []byte { return bytes.ReplaceAll(b, []byte(tagMark), []byte(tag)) }

func nextTag(n int64) string { return fmt.Sprintf("~%05d", n%100000) }

// authenticates says whether the answer to a step is turns of a COM_CHANGE_USER, which go on in whole packets.
func (p *play) authenticates(step int) bool {
	for p.steps[step][3] > 0 && step > p.login {
		step--
	}
	return p.steps[step][3] == 0 && wire.Command(p.steps[step][wire.HeaderSize]) == wire.ComChangeUser
}
