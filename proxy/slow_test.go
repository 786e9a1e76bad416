package proxy

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tmpproxy/session"
	"tmpproxy/telemetry"
	"tmpproxy/wire"
)

// slowNotes keeps what it is told.
type slowNotes struct {
	mu   sync.Mutex
	list []string
	last telemetry.Statement
	from time.Duration // what it wants
}

func (n *slowNotes) Wants(took time.Duration) bool { return took >= n.from }

func (n *slowNotes) Statement(s telemetry.Statement) {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := string(s.Text)
	if len(text) > 100 {
		text = fmt.Sprintf("%d bytes", len(text))
	}
	line := text
	for _, mark := range []struct {
		is   bool
		word string
	}{{!s.Whole, "cut"}, {s.Prepared, "prepared"}, {s.Failed, "failed"}} {
		if mark.is {
			line += " [" + mark.word + "]"
		}
	}
	n.list = append(n.list, line)
	n.last = s
}

// TestSlowEveryStatement has everything that a client runs told, under a threshold of nothing, however it is cut, and nothing else.
func TestSlowEveryStatement(t *testing.T) {
	want := []string{
		"SELECT 1", "SELECT TWO", "BAD [failed]", "INSERT INTO x VALUES (1)", "SELECT ?", "SELECT ? [prepared]",
		"LOAD DATA LOCAL INFILE 'f' INTO TABLE x", "CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY", "DROP TEMPORARY TABLE t", "65535 bytes [cut]",
	}
	for _, strategy := range []session.Strategy{session.StrategyNative, session.StrategyInnoDB} {
		for _, chunk := range []int{1 << 20, 1, 3, 1000} {
			n := new(slowNotes)
			r := newTalk(t, newFakeServer(testCaps), strategy, chunk)
			r.c.sh.slow.Store(&statementLogs{[]StatementLog{n}})
			r.c.who.host = "10.0.0.1"
			r.settle()
			for _, p := range relayScript() {
				r.client(p)
			}
			// The statement that is too long to be examined whole is told as far as it was.
			for i, line := range n.list {
				if strings.HasSuffix(line, "bytes [cut]") {
					n.list[i] = "65535 bytes [cut]"
				}
			}
			if got := strings.Join(n.list, "\n"); got != strings.Join(want, "\n") {
				t.Fatalf("strategy %v, chunk %d:\n%s\nwant\n%s", strategy, chunk, got, strings.Join(want, "\n"))
			}
			if s := n.last; s.User != "user" || s.Host != "10.0.0.1" || s.Schema != "db" {
				t.Errorf("%+v", s)
			}
			if r.c.slow != nil {
				t.Error("an idle session that knows no prepared statement keeps something")
			}
		}
	}
}

// TestSlowThreshold has one statement that takes as long as the threshold, and one that takes a little less.
func TestSlowThreshold(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyNative, 1<<20)
	n, other := &slowNotes{from: 1000}, &slowNotes{from: 999}
	r.c.sh.slow.Store(&statementLogs{[]StatementLog{n, other}})
	run := func(text string, took int64) {
		r.out.reset()
		r.c.received(clientSide, query(text), 5000, &r.out)
		r.out.reset()
		r.c.received(backendSide, s.rows(1, wire.StatusAutocommit, "a"), 5000+took, &r.out)
	}
	run("SELECT 'fast'", 999)
	run("SELECT 'slow'", 1000)
	r.c.sh.slow.Store(nil)
	run("SELECT 'unseen'", 2000)
	if got := strings.Join(n.list, "\n"); got != "SELECT 'slow'" || n.last.Took != 1000 {
		t.Errorf("told %s, of %v", got, n.last.Took)
	}
	if got := strings.Join(other.list, "\n"); got != "SELECT 'fast'\nSELECT 'slow'" {
		t.Errorf("the other log is told %s", got)
	}
	if r.c.slow != nil {
		t.Error("without a slow log something is kept")
	}
}

// TestSlowPrepared knows the texts of prepared statements as long as they live, and of so many only.
func TestSlowPrepared(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyNative, 1<<20)
	n := new(slowNotes)
	r.c.sh.slow.Store(&statementLogs{[]StatementLog{n}})
	last := func() string { return n.list[len(n.list)-1] }
	execute := func(id uint32) {
		r.client(command(wire.ComStmtExecute, string(binary.LittleEndian.AppendUint32(nil, id))+"\x00\x01\x00\x00\x00"))
	}
	id := func() uint32 { return r.c.last }
	r.client(command(wire.ComStmtPrepare, "SELECT 1 + ?"))
	first := id()
	execute(first)
	if last() != "SELECT 1 + ? [prepared]" {
		t.Errorf("told %s", last())
	}
	r.client(command(wire.ComStmtPrepare, "SELECT "+strings.Repeat("1 + ", 500)+"?"))
	if execute(id()); last() != "1024 bytes [cut] [prepared]" {
		t.Errorf("of a long one told %s", last())
	}
	for range maxKnown {
		r.client(command(wire.ComStmtPrepare, "SELECT 2 + ?"))
	}
	if got := len(r.c.slow.known); got > maxKnown {
		t.Errorf("%d are known", got)
	}
	r.client(command(wire.ComResetConnection, ""))
	if r.c.slow != nil {
		t.Error("they are known beyond a reset")
	}
	if execute(first); last() != " [cut] [prepared]" {
		t.Errorf("of one that nobody knows told %s", last())
	}
}

// TestSlowBatch has each statement of a packet that is run one by one told for itself.
func TestSlowBatch(t *testing.T) {
	n := new(slowNotes)
	r := newTalk(t, newFakeServer(testCaps), session.StrategyInnoDB, 7)
	r.c.sh.slow.Store(&statementLogs{[]StatementLog{n}})
	r.settle()
	r.client(login(testCaps|wire.ClientMultiStatements, "db"))
	r.client(pack(3, []byte("answer")))
	r.c.multi = true
	r.client(query(create + "; " + insert + "; " + drop))
	if got := strings.Join(n.list, "\n"); got != create+"\n"+insert+"\n"+drop {
		t.Errorf("told\n%s", got)
	}
}

// TestSlowAllocations: while nothing is slow, the slow log allocates nothing.
func TestSlowAllocations(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyInnoDB, 1<<20)
	r.c.sh.slow.Store(&statementLogs{[]StatementLog{&slowNotes{from: time.Second}}})
	q, reply := query("SELECT a, b FROM x WHERE id = 17"), s.rows(1, wire.StatusAutocommit, "a")
	for range 100 { // the pool may lose what it has
		if n := testing.AllocsPerRun(100, func() {
			r.out.reset()
			r.c.received(clientSide, q, 1, &r.out)
			r.out.reset()
			r.c.received(backendSide, reply, 2, &r.out)
		}); n == 0 {
			return
		}
	}
	t.Error("every command allocates")
}
