package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"tmpproxy/rewrite"
)

// watcher keeps what an Observer tells.
type watcher struct {
	*memory
	sum      map[string]*Observation
	names    map[string]int
	sessions Observation
}

func newWatcher() *watcher {
	return &watcher{memory: newMemory(), sum: map[string]*Observation{}, names: map[string]int{}}
}

func (w *watcher) Observe(o *Observation) {
	if o.Shape == "" {
		w.sessions.Add(o)
		return
	}
	if w.sum[o.Shape] == nil {
		w.sum[o.Shape] = &Observation{}
	}
	w.sum[o.Shape].Add(o)
	if o.Cycles > 0 {
		w.names[o.Name.Name]++
	}
}

// observed is a session whose client is answered by a make-believe server: BEGIN and COMMIT are known to it, a text with ERR in it
// fails.
type observedSession struct {
	t      *testing.T
	m      *Machine
	o      *Observer
	w      *watcher
	policy *Policy
	now    int64
	status uint16
	ids    map[string]uint32
}

func newObservedSession(t *testing.T, w *watcher, server Server) *observedSession {
	convert, _ := rewrite.ParseEngineSet([]string{"MEMORY", "MyISAM"})
	s := &observedSession{t: t, w: w, now: int64(time.Minute), status: statusAutocommit, ids: map[string]uint32{}}
	s.policy = &Policy{Strategy: StrategyNative, Convert: convert, MaxStatement: 1 << 16, MaxParked: 8, ParkTTL: int64(time.Hour), MaxAge: int64(time.Hour)}
	dry := *s.policy
	dry.Strategy = StrategyInnoDB
	s.policy.Observe = &dry
	s.m = New(Options{Server: server, Schema: "db", Collation: 45, Status: statusAutocommit, Ledger: newMemory()})
	s.o = NewObserver(s.m, w)
	return s
}

// run has a statement answered 100 µs later, and waits 1 ms for the next. "prepare X" and "execute X" are the commands of prepared
// statements, "reset" is COM_RESET_CONNECTION, "rows=N X" tells so many affected rows, "+N X" comes N µs later than others.
func (s *observedSession) run(text string) {
	ev := &Event{Kind: EventQuery, Whole: true, Policy: s.policy}
	out := &Outcome{}
	var pause int64
	for strings.HasPrefix(text, "+") || strings.HasPrefix(text, "rows=") {
		word, rest, _ := strings.Cut(text, " ")
		_, _ = fmt.Sscanf(word, "rows=%d", &out.Affected)
		_, _ = fmt.Sscanf(word, "+%d", &pause)
		text = rest
	}
	s.now += int64(time.Millisecond) + pause*1000
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "prepare":
		ev.Kind, text = EventPrepare, rest
		s.ids[rest] = uint32(len(s.ids) + 1)
		out.Handle = s.ids[rest]
	case "execute":
		ev.Kind, ev.Handle, text = EventExecute, s.ids[rest], ""
	case "reset":
		ev.Kind, text = EventReset, ""
	}
	ev.Now, ev.Text = s.now, []byte(text)
	ev.Statement = rewrite.Classify(ev.Text, s.m.mode())
	create := ev.Text
	if ev.Statement.Verb == rewrite.VerbPrepare {
		_, create, _ = rewrite.ParsePrepare(ev.Text, s.m.mode())
	}
	if rewrite.Classify(create, s.m.mode()).Verb == rewrite.VerbCreateTemporary {
		ev.Create = rewrite.Analyze(create, rewrite.Options{Mode: s.m.mode(), Convert: s.policy.Convert})
	}
	switch {
	case strings.Contains(text, "ERR"):
		out.Kind, out.Code = OutcomeErr, 1062
	case ev.Statement.Verb == rewrite.VerbBegin:
		s.status |= statusInTrans
	case ev.Statement.Verb == rewrite.VerbCommit, ev.Statement.Verb == rewrite.VerbRollback:
		s.status &^= statusInTrans
	case text == "SET autocommit = 0":
		s.status &^= statusAutocommit
	case s.status&statusAutocommit == 0 && ev.Statement.Verbs&(1<<rewrite.VerbCreateTemporary|1<<rewrite.VerbDropTable|dataVerbs) != 0:
		s.status |= statusInTrans // as MySQL does
	}
	if out.Kind != OutcomeErr {
		out.Status = s.status
		if strings.HasPrefix(text, "DROP TEMPORARY TABLE IF EXISTS") && !slices.ContainsFunc(s.o.tables, func(t *observed) bool { return strings.HasSuffix(text, t.key.Name) }) {
			out.Warnings = 1
		}
	}
	s.o.Begin(ev)
	if step := s.m.Begin(ev); step.Kind != StepForward {
		s.t.Fatalf("%s: %v", text, step)
	}
	s.now += 100_000
	out.Now = s.now
	s.o.End(out)
	if step := s.m.Next(out); step.Kind != StepDone || s.m.HasBackground() {
		s.t.Fatalf("%s: %v", text, step)
	}
}

const (
	createT = "CREATE TEMPORARY TABLE t (a INT PRIMARY KEY) ENGINE=MEMORY"
	shapeT  = "(a INT PRIMARY KEY) ENGINE=MEMORY"
	dropT   = "DROP TEMPORARY TABLE t"
)

func TestObserver(t *testing.T) {
	type counts map[string]int64
	for name, test := range map[string]struct {
		first  []string
		cycle  []string // ten times
		last   []string
		shape  string
		want   counts
		notes  map[NoteKind]int
		before func(*watcher)
		like   bool
	}{
		"plain": {
			cycle: []string{createT, "rows=3 INSERT INTO t VALUES (1), (2), (3)", "SELECT * FROM t ORDER BY a", "SELECT 1", dropT},
			want: counts{"cycles": 10, "rows": 30, "most": 3, "creates": 10, "drops": 10, "uses": 20, "busy": 50, "answered": 17, "resets": 9, "gaps": 8,
				"sessions": 1, "commits": 10},
			notes: map[NoteKind]int{NoteReuse: 8, NotePark: 9, NoteSettle: 0, NoteFallback: 0},
		},
		"one cycle in each session": {
			cycle: []string{createT, dropT, "reset"},
			want:  counts{"cycles": 10, "answered": 9, "creates": 10},
			notes: map[NoteKind]int{NoteReuse: 0},
		},
		"never dropped": {
			cycle: []string{createT, "reset"},
			want:  counts{"cycles": 10, "undropped": 10, "answered": 0},
		},
		"in transactions": {
			cycle: []string{"BEGIN", createT, "INSERT INTO t VALUES (1)", dropT, "COMMIT"},
			want:  counts{"cycles": 10, "transactions": 10, "answered": 17, "resets": 9, "gaps": 8, "commits": 0},
		},
		"autocommit off, as RelStorage": {
			first: []string{"SET autocommit = 0"},
			cycle: []string{"ROLLBACK", "DROP TEMPORARY TABLE IF EXISTS t", createT, "INSERT INTO t VALUES (1)", "COMMIT"},
			// The first DROP is of nothing and belongs to no shape yet; the second is the server's; the last cycle ends with the session.
			want:  counts{"cycles": 10, "transactions": 10, "undropped": 1, "drops": 9, "answered": 16, "resets": 8},
			notes: map[NoteKind]int{NoteReuse: 8, NoteSettle: 0},
		},
		"rolled back, read without an order, in error": {
			first: []string{"SET @x = 1"},
			cycle: []string{createT, "BEGIN", "INSERT INTO t VALUES (1)", "ROLLBACK", "SELECT a FROM t", "SELECT COUNT(*) FROM t",
				"INSERT INTO t VALUES (1), (1) /* ERR */", dropT},
			want:  counts{"cycles": 10, "rolled_back": 10, "unordered": 10, "failed": 10, "transactions": 0},
			notes: map[NoteKind]int{NoteHazard: 20},
		},
		"mentioned between the cycles": {
			cycle: []string{createT, dropT, "SELECT 1 FROM t LIMIT 1 /* ERR */"},
			want:  counts{"cycles": 10, "answered": 9},
			notes: map[NoteKind]int{NoteSettle: 9, NoteReuse: 0},
		},
		"a call between the cycles": {
			cycle: []string{createT, dropT, "CALL p()"},
			want:  counts{"cycles": 10},
			notes: map[NoteKind]int{NoteSettle: 9, NoteReuse: 0},
		},
		"made of a SELECT": {
			cycle: []string{"CREATE TEMPORARY TABLE t AS SELECT 1 AS a", "SELECT a FROM t", dropT},
			shape: "AS SELECT 1 AS a",
			want:  counts{"cycles": 10, "unordered": 10, "creates": 10, "drops": 10, "uses": 10, "answered": 0, "keep": int64(rewrite.ReasonAsSelect)},
			notes: map[NoteKind]int{NoteFallback: 10, NoteReuse: 0},
		},
		"like another": {
			cycle: []string{"CREATE TEMPORARY TABLE t LIKE base", "INSERT INTO t VALUES (1)", dropT},
			shape: "LIKE base",
			want:  counts{"cycles": 10, "answered": 0, "keep": int64(rewrite.ReasonLike)},
			notes: map[NoteKind]int{NoteFallback: 10, NoteReuse: 0},
		},
		"like another, cached": {
			like:  true,
			cycle: []string{"CREATE TEMPORARY TABLE t LIKE base", "INSERT INTO t VALUES (1)", dropT},
			shape: "LIKE base",
			want:  counts{"cycles": 10, "answered": 17, "keep": int64(rewrite.ReasonNone)},
			notes: map[NoteKind]int{NoteFallback: 0, NoteReuse: 8, NoteBlockName: 0},
		},
		"prepared": {
			first: []string{"prepare " + createT, "prepare INSERT INTO t VALUES (1)", "prepare " + dropT},
			cycle: []string{"execute " + createT, "rows=1 execute INSERT INTO t VALUES (1)", "execute " + dropT},
			want:  counts{"cycles": 10, "rows": 10, "uses": 10, "answered": 17},
			notes: map[NoteKind]int{NoteReuse: 8},
		},
		"dropped before and after": {
			cycle: []string{"DROP TEMPORARY TABLE IF EXISTS t", createT, dropT},
			want:  counts{"cycles": 10, "spare": 9, "drops": 10, "answered": 17 + 8},
		},
		"two tables in one DROP": {
			cycle: []string{createT, "CREATE TEMPORARY TABLE u (a INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO t VALUES (1)",
				"INSERT INTO u VALUES (1)", "DROP TEMPORARY TABLE t, u"},
			want: counts{"cycles": 20, "drops": 20, "resets": 18, "gaps": 16},
		},
		"altered": {
			cycle: []string{createT, "ALTER TABLE t ADD b INT", dropT},
			want:  counts{"cycles": 10, "answered": 0},
			notes: map[NoteKind]int{NoteTaint: 10, NoteReuse: 0},
		},
		"a routine of that name": {
			before: func(w *watcher) { w.name(Key{"db", "t"}).Native = 1 << 62 },
			cycle:  []string{createT, dropT},
			want:   counts{"cycles": 10, "answered": 0},
			notes:  map[NoteKind]int{NoteFallback: 10},
		},
		"prepared by name": {
			first: []string{"PREPARE c FROM '" + createT + "'", "PREPARE d FROM '" + dropT + "'"},
			cycle: []string{"EXECUTE c", "EXECUTE d", "PREPARE e FROM '" + createT + "'"},
			want:  counts{"cycles": 10, "answered": 17, "creates": 10},
			notes: map[NoteKind]int{NoteReuse: 8},
		},
		"written in and out of transactions": {
			cycle: []string{createT, "INSERT INTO t VALUES (1)", "INSERT INTO base SELECT a FROM t", "UPDATE t SET a = 2", "UPDATE t SET a = 1 /* ERR */", "BEGIN",
				"DELETE FROM t", "COMMIT", "DELETE FROM t", dropT},
			want: counts{"commits": 30, "uses": 60},
		},
		"a failing CREATE": {
			cycle: []string{createT, dropT, "CREATE TEMPORARY TABLE t (a INT PRIMARY KEY) /* ERR */ ENGINE=MEMORY"},
			want:  counts{"cycles": 10, "creates": 10},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatcher()
			if test.before != nil {
				test.before(w)
			}
			s := newObservedSession(t, w, Server{Version: 90704})
			s.policy.Observe.CacheLike = test.like
			for _, text := range test.first {
				s.run(text)
			}
			for range 10 {
				for _, text := range test.cycle {
					s.run(text)
				}
			}
			s.o.Close()
			shape := test.shape
			if shape == "" {
				shape = shapeT
			}
			o := w.sum[shape]
			if o == nil {
				t.Fatalf("shapes: %v", w.sum)
			}
			gaps := int64(0)
			for _, n := range o.Gaps {
				gaps += n
			}
			got := counts{
				"sessions": o.Sessions, "cycles": o.Cycles, "undropped": o.Undropped, "transactions": o.Transactions, "unordered": o.Unordered,
				"rolled_back": o.RolledBack, "deadlocks": o.Deadlocks, "failed": o.Failed, "rows": o.Rows, "most": o.MostRows,
				"creates": o.Create.Count, "drops": o.Drop.Count, "uses": o.Use.Count, "spare": o.Spare.Count, "busy": o.Busy.Count,
				"answered": o.Answered.Count, "emptied": o.Emptied.Count, "resets": o.Resets, "checks": o.Checks, "commits": o.Commits, "gaps": gaps, "keep": int64(o.Keep),
			}
			for k, want := range test.want {
				if got[k] != want {
					t.Errorf("%s: %d, want %d", k, got[k], want)
				}
			}
			for kind, want := range test.notes {
				if got := w.counts[kind]; got != want {
					t.Errorf("note %d: %d, want %d", kind, got, want)
				}
			}
			if o.Sessions != 1 || w.sessions.Sessions != 1 || w.sessions.Busy.Count != int64(len(test.first)+10*len(test.cycle)) {
				t.Errorf("%d sessions, %d, %+v", o.Sessions, w.sessions.Sessions, w.sessions.Busy)
			}
			if o.Create.Count > 0 && o.Create.Nanos != o.Create.Count*100_000 || o.Busy.Nanos != o.Busy.Count*100_000 {
				t.Errorf("times: %+v, %+v", o.Create, o.Busy)
			}
		})
	}
}

// What an Observer says would be done is what a machine does with the same statements.
func TestObserverIsRight(t *testing.T) {
	for _, cycle := range [][]string{
		{createT, "INSERT INTO t VALUES (1)", dropT},
		{"DROP TABLE IF EXISTS t", createT, "INSERT INTO t VALUES (1)", "SELECT 1"},
		{createT, "INSERT INTO base SELECT * FROM t", "DROP TABLE t", "SHOW WARNINGS"},
		{createT, dropT, "SELECT * FROM t"},
		{createT, "SET NAMES utf8mb4", "SELECT f()", dropT},
		{createT, "CREATE INDEX i ON t (a)", dropT, "CREATE TEMPORARY TABLE u (a INT)", dropT, "DROP TABLE u"},
		{createT, "LOCK TABLES t WRITE", dropT, "UNLOCK TABLES"},
		{"CREATE TEMPORARY TABLE IF NOT EXISTS t LIKE base", dropT, createT, "RENAME TABLE t TO u", "DROP TABLE u"},
	} {
		d := newDriver(Server{Version: 90704})
		w := newWatcher()
		s := newObservedSession(t, w, Server{Version: 90704})
		s.policy.Observe.Convert = d.policy.Convert
		for range 30 {
			for _, text := range cycle {
				d.query(text)
				s.run(text)
			}
		}
		for _, kind := range []NoteKind{NoteCycle, NoteSeen, NoteReuse, NotePark, NoteSettle, NoteReplay, NoteFallback, NoteTaint, NoteBlockShape} {
			if got, want := w.counts[kind], d.l.counts[kind]; got != want {
				t.Errorf("%s: note %d: %d, but %d were", cycle, kind, got, want)
			}
		}
	}
}

// A session that is observed in the middle of its life is known as well as before.
func TestObserverStartsLate(t *testing.T) {
	w := newWatcher()
	s := newObservedSession(t, w, Server{Version: 90704})
	s.run("USE other")
	s.run("prepare " + createT)
	s.run("prepare " + dropT)
	id := s.ids[createT]
	for range 3 {
		s.o = NewObserver(s.m, w)
		s.ids[createT] = id
		s.run("execute " + createT)
		s.run("execute " + dropT)
		s.o.Close()
	}
	if o := w.sum[shapeT]; o == nil || o.Cycles != 3 || w.names["t"] != 3 || o.Sessions != 3 {
		t.Errorf("%+v, %v", o, w.names)
	}
}

// A DROP that fails although it would have been answered makes nothing of what would be cached certain.
func TestObserverDoubts(t *testing.T) {
	w := newWatcher()
	s := newObservedSession(t, w, Server{Version: 90704})
	for range 3 {
		s.run(createT)
		s.run(dropT)
	}
	if _, parked := s.o.dry.Counts(); parked != 1 {
		t.Fatalf("%d parked", parked)
	}
	s.run(createT + " /* ERR */")
	if live, parked := s.o.dry.Counts(); live+parked != 0 {
		t.Errorf("%d live, %d parked", live, parked)
	}
}

// What an Observer remembers is bounded, whatever the client does.
func TestObserverBounds(t *testing.T) {
	w := newWatcher()
	s := newObservedSession(t, w, Server{Version: 90704})
	for i := range maxTables + 100 {
		s.run(fmt.Sprintf("CREATE TEMPORARY TABLE t%d (a INT, b%d INT) ENGINE=MEMORY", i, i))
	}
	if len(s.o.tables) > maxTables || len(s.o.shapes) > maxObservedShapes {
		t.Errorf("%d tables, %d shapes", len(s.o.tables), len(s.o.shapes))
	}
}

// Commands that have nothing to do with temporary tables, and those that use them, cost no memory.
func TestObserverAllocations(t *testing.T) {
	for title, before := range map[string][]string{
		"none": nil, "live": {createT}, "parked": {createT, dropT, createT, dropT},
	} {
		s := newObservedSession(t, newWatcher(), Server{Version: 90704})
		for _, text := range before {
			s.run(text)
		}
		for _, text := range []string{"SELECT * FROM base WHERE a = 1", "INSERT INTO base VALUES (1)", "COMMIT", "SELECT a FROM t JOIN base", "INSERT INTO t VALUES (1)"} {
			ev := &Event{Kind: EventQuery, Text: []byte(text), Whole: true, Now: s.now, Policy: s.policy}
			ev.Statement = rewrite.Classify(ev.Text, 0)
			if title == "parked" && rewrite.Mentions(ev.Text, "t") {
				continue
			}
			out := &Outcome{Status: statusAutocommit, Now: s.now + 1000}
			if n := testing.AllocsPerRun(100, func() { s.o.Begin(ev); s.o.End(out) }); n != 0 {
				t.Errorf("%s: %s: allocates %v times", title, text, n)
			}
		}
	}
}

func BenchmarkObserver(b *testing.B) {
	for name, before := range map[string][]string{"no table": nil, "live table": {createT}} {
		for _, text := range []string{"SELECT a FROM base WHERE a = 1", "SELECT a FROM t WHERE a = 1"} {
			b.Run(name+"/"+text, func(b *testing.B) {
				s := newObservedSession(&testing.T{}, newWatcher(), Server{Version: 90704})
				for _, text := range before {
					s.run(text)
				}
				ev := &Event{Kind: EventQuery, Text: []byte(text), Whole: true, Now: s.now, Policy: s.policy}
				ev.Statement = rewrite.Classify(ev.Text, 0)
				out := &Outcome{Status: statusAutocommit, Now: s.now + 1000}
				b.ReportAllocs()
				for b.Loop() {
					s.o.Begin(ev)
					s.o.End(out)
				}
			})
		}
	}
}

// What an idle session costs while it is observed.
func TestObserverSize(t *testing.T) {
	if n := unsafe.Sizeof(Observer{}) + unsafe.Sizeof(Machine{}); n > 2<<10 {
		t.Errorf("%d bytes", n)
	}
}
