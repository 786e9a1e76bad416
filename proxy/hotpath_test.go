package proxy

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"tmpproxy/session"
)

// rehearsed are the packets of a cycle that the conversation has gone through several times, and what the server says to what it is sent
// meanwhile.
type rehearsed struct {
	*talk
	create, insert, drop []byte
	replies              map[string][]byte
}

// rehearse brings a session to the point where its cycles are always the same.
func rehearse(t *testing.T, s *fakeServer, r *talk, table string) *rehearsed {
	t.Helper()
	p := &rehearsed{talk: r, create: query(strings.Replace(create, " t ", " "+table+" ", 1)), insert: query(strings.Replace(insert, " t ", " "+table+" ", 1)),
		drop: query("DROP TEMPORARY TABLE " + table), replies: map[string][]byte{}}
	for range 4 {
		for _, q := range [][]byte{p.create, p.insert, p.drop} {
			r.client(q)
		}
	}
	s.answer = func(string) []byte { return s.ok(1) }
	for _, q := range [][]byte{p.create, p.insert, p.drop} {
		p.say(clientSide, q)
	}
	return p
}

// say gives the conversation a command, the answers to what that makes it send, and its turns in the background, and returns how often it
// sent something to either side. It allocates nothing itself once the answers are known.
func (p *rehearsed) say(from side, b []byte) (sent [2]int) {
	p.out.reset()
	p.now++
	p.c.received(from, b, p.now, &p.out)
	for {
		var reply []byte
		for _, run := range p.out.runs {
			sent[run.to]++
			if run.to == backendSide {
				known := false
				if reply, known = p.replies[string(run.b)]; !known {
					p.s.out = nil
					p.s.receive(run.b)
					reply = p.s.out
					p.s.out = nil
					p.replies[string(run.b)] = reply
				}
			}
		}
		p.out.reset()
		p.now++
		switch {
		case reply != nil:
			p.c.received(backendSide, reply, p.now, &p.out)
		case p.c.wantsBackground():
			p.c.background(p.now, &p.out)
		default:
			return sent
		}
	}
}

// Of a cycle of a cached table the server gets the INSERT and what empties the table, each once; and the proxy allocates little.
func TestCycleAllocations(t *testing.T) {
	const most = 11 // the two answers, the reset and its text, names, what is planned; none of more than a few dozen bytes
	for _, strategy := range []session.Strategy{session.StrategyKeep, session.StrategyInnoDB} {
		for _, measured := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, measured %v", strategy, measured), func(t *testing.T) {
				s := newFakeServer(testCaps)
				r := loggedIn(t, s, strategy, 1<<20)
				p := *r.c.sh.policy.Load()
				p.Measure = measured
				r.c.sh.setPolicy(&p)
				cycle := rehearse(t, s, r, "t")
				for range 3 {
					for _, step := range []struct {
						q    []byte
						want [2]int
					}{
						{cycle.create, [2]int{clientSide: 1}}, {cycle.insert, [2]int{clientSide: 1, backendSide: 1}}, {cycle.drop, [2]int{clientSide: 1, backendSide: 1}},
					} {
						if sent := cycle.say(clientSide, step.q); sent != step.want {
							t.Fatalf("%q: sent %v, want %v; %q", step.q, sent, step.want, s.log)
						}
					}
				}
				if n := testing.AllocsPerRun(100, func() {
					cycle.say(clientSide, cycle.create)
					cycle.say(clientSide, cycle.insert)
					cycle.say(clientSide, cycle.drop)
				}); n > most {
					t.Errorf("%v allocations in a cycle, want at most %v", n, most)
				}
			})
		}
	}
}

// soon fails if f does not return.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s waits for a lock", what)
	}
}

// No command but temporary-table DDL needs a lock of the process, whatever tables the session has.
func TestRelayTakesNoLock(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyInnoDB, 1<<20)
	rehearse(t, s, r, "t")
	r.client(query("CREATE TEMPORARY TABLE live (a INT) ENGINE=MEMORY"))
	if live, parked := r.c.m.Counts(); live != 1 || parked != 1 {
		t.Fatalf("%d live, %d parked", live, parked)
	}
	l := r.c.sh.ledger
	for i := range ledgerParts {
		l.shapes[i].mu.Lock()
		defer l.shapes[i].mu.Unlock()
		l.names[i].mu.Lock()
		defer l.names[i].mu.Unlock()
	}
	r.c.sh.observed.mu.Lock()
	defer r.c.sh.observed.mu.Unlock()
	for _, sql := range []string{"SELECT a FROM x WHERE id = 17", "INSERT INTO x VALUES (1)", "INSERT INTO live VALUES (1)", "SELECT * FROM live", "BEGIN", "COMMIT"} {
		soon(t, sql, func() {
			r.out.reset()
			r.c.received(clientSide, query(sql), 1, &r.out)
			if len(r.out.runs) != 1 {
				t.Error("not forwarded")
			}
			r.out.reset()
			r.c.received(backendSide, s.ok(1), 2, &r.out)
		})
	}
}

// A cycle needs the locks of its own shape's and name's parts of the ledger, and of no other.
func TestCycleTakesItsOwnLocks(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyKeep, 1<<20)
	cycle := rehearse(t, s, r, "t")
	l := r.c.sh.ledger
	shapes := l.Shapes()
	if len(shapes) != 1 {
		t.Fatalf("%d shapes", len(shapes))
	}
	shape, name := maphash.String(l.seed, shapes[0].Shape)%ledgerParts, maphash.Comparable(l.seed, session.Key{Schema: "db", Name: "t"})%ledgerParts
	for i := range uint64(ledgerParts) {
		if i != shape {
			l.shapes[i].mu.Lock()
			defer l.shapes[i].mu.Unlock()
		}
		if i != name {
			l.names[i].mu.Lock()
			defer l.names[i].mu.Unlock()
		}
	}
	r.c.sh.observed.mu.Lock()
	defer r.c.sh.observed.mu.Unlock()
	soon(t, "a cycle", func() {
		for _, q := range [][]byte{cycle.create, cycle.insert, cycle.drop} {
			cycle.say(clientSide, q)
		}
	})
}

// BenchmarkCycles runs cycles of 16 sessions, each with a table of its own and without sockets, and measures how long they wait for each
// other's locks.
func BenchmarkCycles(b *testing.B) {
	const sessions = 16
	t := new(testing.T)
	sh := newShared(testPolicy(session.StrategyKeep), newJournal(zap.NewNop()))
	var cycles []*rehearsed
	for i := range sessions {
		s := newFakeServer(testCaps)
		r := newTalkOf(t, sh, s, 1<<20)
		r.settle()
		r.client(login(testCaps, "db"))
		r.client(pack(3, []byte("answer")))
		cycles = append(cycles, rehearse(t, s, r, fmt.Sprint("report_", i)))
	}
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	before := waited(b)
	b.ReportAllocs()
	b.ResetTimer()
	done := make(chan struct{})
	for i, c := range cycles {
		go func() {
			defer func() { done <- struct{}{} }()
			for range (b.N + i) / sessions {
				c.say(clientSide, c.create)
				c.say(clientSide, c.insert)
				c.say(clientSide, c.drop)
			}
		}()
	}
	for range cycles {
		<-done
	}
	b.ReportMetric((waited(b)-before)/float64(b.N), "ns-waited/op")
}

// waited is how long goroutines have waited for locks that ours held, in nanoseconds together, since the process began.
func waited(b *testing.B) (ns float64) {
	var text strings.Builder
	if err := pprof.Lookup("mutex").WriteTo(&text, 1); err != nil {
		b.Fatal(err)
	}
	perSecond, ticks := 1e9, 0.0
	for line := range strings.Lines(text.String()) {
		var count float64
		switch n, _ := fmt.Sscanf(line, "cycles/second=%g", &perSecond); {
		case n == 1:
		case strings.Contains(line, " @ "):
			fmt.Sscanf(line, "%g %g @", &ticks, &count)
		case strings.Contains(line, "tmpproxy/") && ticks > 0:
			ns += ticks / perSecond * 1e9
			ticks = 0 // once for each
		}
	}
	return ns
}
