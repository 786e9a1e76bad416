package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"tmpproxy/session"
	"tmpproxy/wire"
)

// loggedIn makes a talk whose login is done.
func loggedIn(t *testing.T, s *fakeServer, strategy session.Strategy, chunk int) *talk {
	t.Helper()
	r := newTalk(t, s, strategy, chunk)
	r.settle()
	r.client(login(testCaps, "db"))
	r.client(pack(3, []byte("answer")))
	if r.c.m == nil {
		t.Fatal("not logged in")
	}
	return r
}

const (
	create = "CREATE TEMPORARY TABLE t (a INT PRIMARY KEY) ENGINE=MEMORY"
	insert = "INSERT INTO t VALUES (1)"
	drop   = "DROP TEMPORARY TABLE t"
)

// queries are the statements among the commands that the server understood since mark.
func queries(s *fakeServer, mark int) []string {
	var q []string
	for _, l := range s.log[mark:] {
		if text, ok := strings.CutPrefix(l, "COM_QUERY "); ok {
			q = append(q, strings.Trim(text, `"`))
		}
	}
	return q
}

// From the third cycle on neither CREATE nor DROP reaches the server, and the client sees OKs, however the bytes are cut.
func TestCycleEverySplit(t *testing.T) {
	type transcript struct{ got, log string }
	var first transcript
	for i, chunk := range []int{1 << 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 17, 32, 100} {
		s := newFakeServer(testCaps)
		r := loggedIn(t, s, session.StrategyInnoDB, chunk)
		var got bytes.Buffer
		marks := []int{}
		for range 5 {
			marks = append(marks, len(s.log))
			for _, sql := range []string{create, insert, "SELECT * FROM t", drop} {
				got.Write(r.client(query(sql)))
			}
		}
		x := transcript{got.String(), strings.Join(s.log, "\n")}
		if i == 0 {
			first = x
		} else if x != first {
			t.Fatalf("chunk %d: differs from whole packets:\n%s\nwant\n%s", chunk, x.log, first.log)
		}
		for cycle := 2; cycle < 5; cycle++ {
			end := len(s.log)
			if cycle < 4 {
				end = marks[cycle+1]
			}
			for _, q := range s.log[marks[cycle]:end] {
				if strings.Contains(q, "CREATE TEMPORARY") || strings.Contains(q, "DROP") {
					t.Fatalf("chunk %d, cycle %d: the server got %s", chunk, cycle, q)
				}
			}
		}
		if q := queries(s, 0); !strings.Contains(strings.Join(q, "\n"), "ENGINE=InnoDB") {
			t.Fatalf("not converted: %q", q)
		}
	}
}

// The statement that replaces a client's carries the client's query attributes, our own an empty block.
func TestQueryAttributes(t *testing.T) {
	caps := testCaps | wire.ClientQueryAttributes
	s := newFakeServer(caps)
	s.answer = func(sql string) []byte { return s.ok(1) }
	r := newTalk(t, s, session.StrategyInnoDB, 1<<20)
	r.settle()
	r.client(login(caps, "db"))
	r.client(pack(3, []byte("answer")))
	attributes := "\x01\x01\x00\x01\xfe\x00\x01k\x01v" // one string attribute k=v
	mark := len(s.log)
	r.client(query(attributes + create))
	if got := s.log[mark]; !strings.Contains(got, fmt.Sprintf("%q", attributes)[1:20]) || !strings.Contains(got, "InnoDB") {
		t.Errorf("the spliced CREATE lost the attributes: %s", got)
	}
	r.client(query("\x00\x01" + drop))
	r.client(query("\x00\x01" + create))
	r.client(query("\x00\x01" + insert))
	mark = len(s.log)
	r.client(query("\x00\x01" + drop))
	for _, q := range s.log[mark:] {
		if !strings.HasPrefix(q, `COM_QUERY "\x00\x01`) {
			t.Errorf("own statement without an attribute block: %s", q)
		}
	}
	if len(s.log) == mark {
		t.Error("nothing was sent in the background")
	}
}

// parked brings a talk to the point where t has just been parked and its reset is out, unanswered.
func parked(t *testing.T) (*talk, *fakeServer) {
	t.Helper()
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyInnoDB, 1<<20)
	for range 2 {
		r.client(query(create))
		r.client(query(insert))
		r.client(query(drop))
	}
	r.client(query(create))
	r.client(query(insert))
	r.call(func() { r.c.received(clientSide, query(drop), r.now, &r.out) })
	if !r.c.wantsBackground() {
		t.Fatal("nothing to reset")
	}
	r.call(func() { r.c.background(r.now, &r.out) })
	if !r.c.out {
		t.Fatal("no reset is out")
	}
	return r, s
}

// Whether the reset may wait a little is told by what the client did last behind an answer that nothing was sent for.
func TestLeavesTime(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyInnoDB, 1<<20)
	cycle := func(pause int64) {
		r.client(query(create))
		r.client(query(insert))
		r.call(func() { r.c.received(clientSide, query(drop), r.now, &r.out) })
		r.now += pause
	}
	for range 3 {
		cycle(0)
	}
	for _, step := range []struct {
		pause int64
		want  bool // behind the DROP before the pause
	}{{0, false}, {thinkTime, false}, {thinkTime, true}, {0, true}, {0, false}} {
		cycle(0)
		if got := r.c.leavesTime(); got != step.want {
			t.Errorf("%+v: %v", step, got)
		}
		r.now += step.pause
	}
	r.client(query(create))
	cycle(thinkTime)
	cycle(0)
	r.call(func() { r.c.background(r.now, &r.out) })
	if !r.c.out || r.c.leavesTime() {
		t.Error("what follows the first statement waits again")
	}
}

// Behind a statement that may have run a trigger the table is looked at before it is emptied, in the background and in front of
// a client's command, however the reply is cut; what is not ours is dropped.
func TestLookBeforeReset(t *testing.T) {
	for name, test := range map[string]struct {
		definition string
		want       []string // what the background sends
	}{
		"ours":      {"CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=InnoDB", []string{"SHOW CREATE TABLE", "TRUNCATE"}},
		"MERGE":     {"CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=MRG_MyISAM UNION=(`base`)", []string{"SHOW CREATE TABLE", "DROP TEMPORARY"}},
		"permanent": {"CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB", []string{"SHOW CREATE TABLE", "DROP TEMPORARY"}},
		"long":      {"CREATE TEMPORARY TABLE `t` (\n  `a` int COMMENT '" + strings.Repeat("x", maxDefinition) + "'\n) ENGINE=InnoDB", []string{"SHOW CREATE TABLE", "DROP TEMPORARY"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, chunk := range []int{1, 2, 7, 50, 1 << 20} {
				if chunk == 1 && name == "long" {
					continue
				}
				s := newFakeServer(testCaps)
				s.answer = func(sql string) []byte {
					if strings.Contains(sql, "SHOW CREATE TABLE") {
						return s.definition(test.definition)
					}
					return nil
				}
				r := loggedIn(t, s, session.StrategyInnoDB, chunk)
				for range 2 {
					r.client(query(create))
					r.client(query("INSERT INTO log VALUES (1)"))
					mark := len(s.log)
					had := len(r.got)
					r.client(query(drop))
					if want := wire.AppendOK(nil, 1, testCaps, wire.OK{Status: wire.StatusAutocommit}); !bytes.Equal(r.got[had:], want) {
						t.Fatalf("chunk %d: the client got %x", chunk, r.got[had:])
					}
					if len(s.log) == mark+1 && strings.Contains(s.log[mark], drop) {
						continue // the first DROP of a name is the client's own
					}
					if len(s.log) != mark+len(test.want) {
						t.Fatalf("chunk %d: sent %q", chunk, s.log[mark:])
					}
					for i, w := range test.want {
						if !strings.Contains(s.log[mark+i], "tmpproxy */ "+w) {
							t.Errorf("chunk %d: sent %q", chunk, s.log[mark:])
						}
					}
				}
			}
		})
	}
}

// While a reset is out: local answers do not wait, what needs the backend does, and so does the CREATE of that very table.
func TestCommandsBehindReset(t *testing.T) {
	t.Run("select waits", func(t *testing.T) {
		r, s := parked(t)
		had, log := len(r.got), len(s.log)
		r.call(func() { r.c.received(clientSide, query("SELECT 1"), r.now, &r.out) })
		if len(s.log) != log || len(r.got) != had {
			t.Fatal("the SELECT did not wait for the reset's reply")
		}
		r.settle()
		if q := s.log[len(s.log)-1]; !strings.Contains(q, "SELECT 1") {
			t.Errorf("last at the server: %s", q)
		}
		if !bytes.Contains(r.got[had:], []byte("one")) {
			t.Error("no rows")
		}
	})
	t.Run("create waits", func(t *testing.T) {
		r, s := parked(t)
		had := len(r.got)
		r.call(func() { r.c.received(clientSide, query(create), r.now, &r.out) })
		if len(r.got) != had {
			t.Fatal("the CREATE was answered before the reset was")
		}
		r.settle()
		if want := wire.AppendOK(nil, 1, testCaps, wire.OK{Status: wire.StatusAutocommit}); !bytes.Equal(r.got[had:], want) {
			t.Errorf("got %x, want %x", r.got[had:], want)
		}
		if q := s.log[len(s.log)-1]; !strings.Contains(q, "TRUNCATE") {
			t.Errorf("last at the server: %s", q)
		}
	})
}

// A reply that is not understood, to a statement of ours, ends the session: neither may the client get it, nor the server what the client
// has said behind a command that waits for it.
func TestReplyToOursNotUnderstood(t *testing.T) {
	for _, chunk := range []int{1 << 20, 7, 1} {
		r, s := parked(t)
		r.chunk = chunk
		s.answer = func(sql string) []byte {
			if strings.Contains(sql, "tmpproxy */ DROP") {
				return pack(1, []byte("\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe"))
			}
			return nil
		}
		mark := len(s.log)
		got := r.client(append(query("SELECT * FROM t"), query("SELECT 'behind'")...))
		if len(got) > 0 || !r.ended {
			t.Errorf("chunk %d: the client got %q, ended %v", chunk, got, r.ended)
		}
		if q := queries(s, mark); len(q) == 0 || !strings.Contains(q[len(q)-1], "DROP") {
			t.Errorf("chunk %d: the server got %q", chunk, q)
		}
	}
}

// A server may answer before it has had the whole file. The rest of that is the server's all the same, and nothing goes before it.
func TestAnswerBeforeEndOfFile(t *testing.T) {
	for _, chunk := range []int{1 << 20, 3, 1} {
		s := newFakeServer(testCaps)
		r := loggedIn(t, s, session.StrategyInnoDB, chunk)
		s.answer = func(sql string) []byte {
			if strings.HasPrefix(sql, "LOAD DATA") {
				return append(pack(1, []byte("\xfbfile")), wire.AppendErr(nil, 2, testCaps, wire.Err{Code: 1146, State: "42S02", Message: "no table"})...)
			}
			return nil
		}
		r.client(query("LOAD DATA LOCAL INFILE 'f' INTO TABLE x"))
		mark := len(s.log)
		r.client(append(append(pack(2, []byte("line 1\n")), pack(3, []byte("line 2\n"))...), pack(4, nil)...))
		s.answer = nil
		if got := r.client(query("SELECT 1")); !bytes.Contains(got, []byte("one")) {
			t.Errorf("chunk %d: got %q behind the file", chunk, got)
		}
		if l := s.log[mark:]; len(l) != 3 || !strings.Contains(l[0]+l[1], "ne 1\\n") || !strings.Contains(l[2], "SELECT 1") {
			t.Errorf("chunk %d: the server got %q", chunk, l)
		}
	}
}

// A server that asks for a file in reply to a statement of ours gets none.
func TestFileForOurs(t *testing.T) {
	r, s := parked(t)
	s.answer = func(sql string) []byte {
		if strings.Contains(sql, "tmpproxy */ DROP") {
			return pack(1, []byte("\xfb/etc/passwd"))
		}
		return nil
	}
	had := len(r.got)
	r.client(query("SELECT * FROM t"))
	if len(r.got) > had || !r.ended {
		t.Errorf("the client got %q, ended %v", r.got[had:], r.ended)
	}
}

// A long statement whose tables cannot be given back is not sent: neither its beginning nor its rest, which would be taken for packets.
func TestLongStatementNotSent(t *testing.T) {
	for _, chunk := range []int{1 << 20, 1000, 7} {
		r, s := parked(t)
		r.chunk = chunk
		s.answer = func(sql string) []byte {
			if strings.Contains(sql, "tmpproxy */ DROP") {
				return fail(1317, "interrupted")
			}
			return nil
		}
		mark := len(s.log)
		got := r.client(query("SELECT * FROM t -- " + strings.Repeat(string(query("SELECT 'smuggled'")), 5000)))
		if want := fail(1317, "interrupted"); !bytes.Equal(got, want) {
			t.Errorf("chunk %d: the client got %.100q", chunk, got)
		}
		if got := r.client(query("SELECT 1")); !bytes.Contains(got, []byte("one")) {
			t.Errorf("chunk %d: behind it the client got %.100q", chunk, got)
		}
		for _, l := range s.log[mark:] {
			if strings.Contains(l, "smuggled") {
				t.Fatalf("chunk %d: the server got %.100q", chunk, l)
			}
		}
	}
}

// A server that ends the connection while a reset is out says so to the client; the client does not see the reset's reply.
func TestGoodbyeDuringReset(t *testing.T) {
	for chunk := 1; chunk < 40; chunk++ {
		r, s := parked(t)
		had := len(r.got)
		s.out = wire.AppendErr(nil, 0, testCaps, wire.Err{Code: 4031, State: "HY000", Message: "The client was disconnected"})
		want := bytes.Clone(s.out)
		r.chunk = chunk
		r.settle()
		if !bytes.Equal(r.got[had:], want) {
			t.Fatalf("chunk %d: client got %q, want %q", chunk, r.got[had:], want)
		}
		r.call(func() { r.c.ended(backendSide, r.now, &r.out) })
		if !r.ended {
			t.Fatal("not ended")
		}
	}
}

// Behind a server's goodbye nothing is answered in its place: the client, whose command has crossed it, would take that for the answer to
// its next one.
func TestNoAnswerBehindGoodbye(t *testing.T) {
	goodbye := wire.AppendErr(nil, 0, testCaps, wire.Err{Code: 4031, State: "HY000", Message: "The client was disconnected"})
	for _, test := range []struct {
		name    string
		ready   func(r *talk, s *fakeServer) // up to the goodbye
		command string
	}{
		{"idle, CREATE", func(r *talk, s *fakeServer) { r.settle() }, create},
		{"a reset is out, CREATE", func(r *talk, s *fakeServer) { s.out = nil }, create},
		{"in use, DROP", func(r *talk, s *fakeServer) {
			r.settle()
			r.client(query(create))
			r.client(query(insert))
		}, drop},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, s := parked(t)
			test.ready(r, s)
			had := len(r.got)
			s.out = append(s.out, goodbye...)
			r.settle()
			r.call(func() { r.c.received(clientSide, query(test.command), r.now, &r.out) })
			s.out = nil
			r.settle()
			if got := r.got[had:]; !bytes.Equal(got, goodbye) {
				t.Errorf("the client got %q", got)
			}
			r.call(func() { r.c.ended(backendSide, r.now, &r.out) })
			if !r.ended {
				t.Error("not ended")
			}
		})
	}
}

// Behind a server's goodbye the rest of a command is not sent of which the beginning was not: it failed before it, with a statement of
// ours.
func TestNoRestBehindGoodbye(t *testing.T) {
	r, s := parked(t)
	r.settle()
	command := packetOf(0, append([]byte{0x83}, make([]byte, 100)...)) // unknown: what is parked is dropped first
	s.answer = func(sql string) []byte {
		return wire.AppendErr(nil, 1, testCaps, wire.Err{Code: 1205, State: "HY000", Message: "Lock wait timeout exceeded"})
	}
	had := len(r.got)
	r.client(command[:20])
	if got := r.got[had:]; len(got) == 0 {
		t.Fatal("the command has not failed")
	}
	s.out = append(s.out, wire.AppendErr(nil, 0, testCaps, wire.Err{Code: 4031, State: "HY000", Message: "The client was disconnected"})...)
	r.settle()
	sent := s.whole
	r.client(command[20:])
	if s.whole != sent {
		t.Errorf("the backend got %d bytes", s.whole-sent)
	}
}

// A client's FIN is an event behind its bytes: pipelined commands still run.
func TestClientEnd(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyInnoDB, 1<<20)
	mark := len(s.log)
	var b []byte
	for range 3 {
		for _, sql := range []string{create, insert, drop} {
			b = append(b, query(sql)...)
		}
	}
	b = append(b, query("SELECT 1")...)
	r.call(func() { r.c.received(clientSide, b, r.now, &r.out) })
	r.call(func() { r.c.ended(clientSide, r.now, &r.out) })
	if r.shut[backendSide] {
		t.Fatal("the FIN overtook the commands")
	}
	r.settle()
	if !r.shut[backendSide] || r.ended {
		t.Fatalf("shut %v, ended %v", r.shut, r.ended)
	}
	if q := queries(s, mark); q[len(q)-1] != "SELECT 1" {
		t.Errorf("last statement %q", q[len(q)-1])
	}
	r.call(func() { r.c.ended(backendSide, r.now, &r.out) })
	if !r.ended {
		t.Error("not ended after the backend's end")
	}
}

// A client that leaves after the greeting leaves a backend connection that serves the next one.
func TestSpare(t *testing.T) {
	s := newFakeServer(testCaps)
	r := newTalk(t, s, session.StrategyNative, 1<<20)
	r.settle()
	r.call(func() { r.c.ended(clientSide, r.now, &r.out) })
	greeting, ok := r.c.spare()
	if !r.ended || !ok {
		t.Fatalf("ended %v, spare %v", r.ended, ok)
	}
	if !bytes.Equal(greeting, newFakeServer(testCaps).out) {
		t.Error("not the backend's own greeting")
	}
	n := newTalk(t, s, session.StrategyNative, 1<<20)
	n.call(func() { n.c.start(greeting, n.now, &n.out) })
	n.client(login(testCaps, "db"))
	n.client(pack(3, []byte("answer")))
	if _, ok := n.c.spare(); ok || n.c.m == nil {
		t.Error("not logged in over the spare")
	}
}

// Draining ends sessions between statements, not in a transaction.
func TestDrainAtBoundary(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyNative, 1<<20)
	s.status |= wire.StatusInTrans
	r.client(query("BEGIN"))
	r.call(func() { r.c.drain(r.now, &r.out) })
	if r.ended {
		t.Fatal("ended in a transaction")
	}
	r.client(query("INSERT INTO x VALUES (1)"))
	if r.ended {
		t.Fatal("ended in a transaction")
	}
	s.status &^= wire.StatusInTrans
	r.client(query("COMMIT"))
	if !r.ended {
		t.Error("not ended after COMMIT")
	}
}

// Relaying a command allocates nothing, with tables parked and live or without.
func TestRelayAllocations(t *testing.T) {
	for _, test := range []struct{ tables, measure bool }{{false, false}, {true, false}, {true, true}} {
		tables := test.tables
		t.Run(fmt.Sprintf("tables=%v measured=%v", tables, test.measure), func(t *testing.T) {
			s := newFakeServer(testCaps)
			r := loggedIn(t, s, session.StrategyInnoDB, 1<<20)
			p := *r.c.sh.policy.Load()
			p.Measure = test.measure
			r.c.sh.setPolicy(&p)
			if tables {
				for range 3 {
					r.client(query(create))
					r.client(query(drop))
				}
				r.client(query("CREATE TEMPORARY TABLE live (a INT) ENGINE=MEMORY"))
				if live, parked := r.c.m.Counts(); live != 1 || parked != 1 {
					t.Fatalf("%d live, %d parked", live, parked)
				}
			}
			for _, sql := range []string{"SELECT a, b FROM x WHERE id = 17", "INSERT INTO x VALUES (1, 'a')", "UPDATE x SET a = MAX(1) WHERE b = 2", "INSERT INTO live VALUES (1)", "SELECT * FROM live WHERE a = 1"} {
				q, reply := query(sql), s.rows(1, wire.StatusAutocommit, "a")
				if n := testing.AllocsPerRun(100, func() {
					r.out.reset()
					r.c.received(clientSide, q, 1, &r.out)
					if len(r.out.runs) != 1 {
						t.Fatal("not forwarded")
					}
					r.out.reset()
					r.c.received(backendSide, reply, 2, &r.out)
				}); n != 0 {
					t.Errorf("%s: %v allocations", sql, n)
				}
			}
		})
	}
}

// DDL by prepared statements is answered here, unless the execution asks for something that DDL fails for.
func TestPreparedDDL(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyInnoDB, 1<<20)
	prepare := func(sql string) []byte { // the id, as it is sent
		r.client(command(wire.ComStmtPrepare, sql))
		return binary.LittleEndian.AppendUint32(nil, s.handle)
	}
	c, d := prepare(create), prepare(drop)
	execute := func(id []byte, rest ...byte) (sent int) {
		mark := len(s.log)
		r.client(command(wire.ComStmtExecute, string(id)+string(rest)))
		for _, q := range s.log[mark:] {
			if !strings.Contains(q, "TRUNCATE") {
				sent++
			}
		}
		return sent
	}
	plain := []byte{0, 1, 0, 0, 0}
	for cycle := range 4 {
		sent := execute(c, plain...)
		r.client(query(insert))
		if sent += execute(d, plain...); cycle >= 2 && sent > 0 {
			t.Errorf("cycle %d: %d statements were sent: %q", cycle, sent, s.log)
		}
	}
	if sent := execute(c, 8, 1, 0, 0, 0, 0) + execute(d, 8, 1, 0, 0, 0, 0); sent > 0 {
		t.Errorf("without attributes: %d statements were sent", sent)
	}
	if sent := execute(c, 0, 1, 0, 0, 0, 1) + execute(d, 0, 1, 0, 0, 0, 1); sent > 0 {
		t.Errorf("with types of no parameters: %d statements were sent", sent)
	}
	for name, rest := range map[string][]byte{
		"cursor": {1, 1, 0, 0, 0}, "attributes": {8, 1, 0, 0, 0, 1, 0, 1, 0xfe, 0, 1, 'k', 1, 'v'}, "short": {0}, "parameters": {0, 1, 0, 0, 0, 0, 1, 3, 0, 1, 0, 0, 0},
	} {
		if execute(c, rest...) == 0 {
			t.Errorf("%s: answered here", name)
		}
		execute(d, plain...)
	}
}
