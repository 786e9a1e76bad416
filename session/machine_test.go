package session

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"tmpproxy/rewrite"
)

// driver feeds a machine with commands that are all answered OK.
type driver struct {
	m      *Machine
	l      *memory
	policy *Policy
	now    int64
	sent   []string // statements that were sent in place of the client's, or before them
}

func newDriver(server Server) *driver {
	convert, _ := rewrite.ParseEngineSet([]string{"MEMORY"})
	d := &driver{
		l: newMemory(), now: int64(time.Minute),
		policy: &Policy{Strategy: StrategyInnoDB, Convert: convert, MaxStatement: 1 << 16, MaxParked: 8, ParkTTL: int64(time.Hour), MaxAge: int64(time.Hour)},
	}
	d.m = New(Options{Server: server, Schema: "db", Collation: 45, Status: statusAutocommit, Ledger: d.l})
	return d
}

func (d *driver) event(text string) *Event {
	ev := &Event{Kind: EventQuery, Text: []byte(text), Whole: true, Now: d.now, Policy: d.policy}
	ev.Statement = rewrite.Classify(ev.Text, d.m.mode())
	if ev.Statement.Verb == rewrite.VerbCreateTemporary {
		ev.Create = rewrite.Analyze(ev.Text, rewrite.Options{Mode: d.m.mode(), Convert: d.policy.Convert})
	}
	return ev
}

// query runs a statement, and what is to be sent in the background behind it. It returns the kind of the last step.
func (d *driver) query(text string) StepKind {
	d.now += int64(time.Millisecond)
	step := d.m.Begin(d.event(text))
	kind := d.finish(step)
	for {
		s, ok := d.m.Background(d.now, d.policy)
		if !ok {
			return kind
		}
		d.sent = append(d.sent, s.SQL)
		o := d.outcome(s)
		d.m.BackgroundDone(&o)
	}
}

func (d *driver) outcome(s Step) Outcome {
	o := Outcome{Status: statusAutocommit, Now: d.now}
	if s.Class == ClassCheck {
		o.Kind, o.Definition = OutcomeSet, rewrite.Definition("CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=MEMORY")
	}
	return o
}

func (d *driver) finish(step Step) StepKind {
	for {
		switch step.Kind {
		case StepForward, StepReplace, StepInject:
			if step.SQL != "" {
				d.sent = append(d.sent, step.SQL)
			}
			o := d.outcome(step)
			step = d.m.Next(&o)
		default:
			return step.Kind
		}
	}
}

// A statement that has nothing to do with temporary tables costs no memory, whatever tables there are.
func TestAllocations(t *testing.T) {
	states := map[string][]string{
		"no tables":     nil,
		"live":          {"CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY"},
		"parked":        {"CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY", "DROP TEMPORARY TABLE t"},
		"live and more": {"DROP TEMPORARY TABLE IF EXISTS x", "CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY", "CREATE TEMPORARY TABLE u (a INT)", "DROP TEMPORARY TABLE t"},
	}
	texts := []string{
		"SELECT * FROM base WHERE a = 1", "INSERT INTO base (a, b) VALUES (1, 'x')", "UPDATE base SET a = COUNT(*)", "COMMIT", "BEGIN", "ROLLBACK",
		"SHOW VARIABLES LIKE 'x'", "DELETE FROM base",
	}
	for title, before := range states {
		for _, server := range []Server{{Version: 90704}, {MariaDB: true, Version: 110800}} {
			d := newDriver(server)
			d.l.name(Key{"db", "t"}).Seen = true
			for _, text := range before {
				d.query(text)
			}
			for _, text := range texts {
				ev := d.event(text)
				o := &Outcome{Status: statusAutocommit, Now: d.now}
				n := testing.AllocsPerRun(100, func() {
					if s := d.m.Begin(ev); s.Kind != StepForward {
						t.Fatal(s)
					}
					if s := d.m.Next(o); s.Kind != StepDone {
						t.Fatal(s)
					}
					d.m.HasBackground()
				})
				if n != 0 {
					t.Errorf("%s, MariaDB %v: %q allocates %v times", title, server.MariaDB, text, n)
				}
			}
		}
	}
}

// A statement that names a live table costs nothing either.
func TestAllocationsOfUse(t *testing.T) {
	d := newDriver(Server{Version: 90704})
	d.query("CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY")
	ev := d.event("INSERT INTO t VALUES (1)")
	o := &Outcome{Status: statusAutocommit, Affected: 1}
	if n := testing.AllocsPerRun(100, func() { d.m.Begin(ev); d.m.Next(o) }); n != 0 {
		t.Errorf("allocates %v times", n)
	}
}

func TestSize(t *testing.T) {
	if size := unsafe.Sizeof(Machine{}); size > 400 {
		t.Errorf("a machine takes %d bytes", size)
	}
}

// From the third cycle of a name on, the second in a process that knows it, no CREATE and no DROP reach the server.
func TestCycles(t *testing.T) {
	for _, server := range []Server{{Version: 90704}, {MariaDB: true, Version: 101119}} {
		for _, strategy := range []Strategy{StrategyKeep, StrategyInnoDB} {
			d := newDriver(server)
			d.policy.Strategy = strategy
			for cycle := 1; cycle <= 5; cycle++ {
				if cycle == 4 { // another session
					m := New(Options{Server: server, Schema: "db", Collation: 45, Status: statusAutocommit, Ledger: d.l})
					d.m = m
				}
				create := d.query("CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY")
				d.query("INSERT INTO t VALUES (1)")
				drop := d.query("DROP TEMPORARY TABLE t")
				answered := [...]int{1: 0, 2: 1, 3: 2, 4: 1, 5: 2}[cycle]
				n := 0
				if create == StepReply {
					n++
				}
				if drop == StepReply {
					n++
				}
				if n != answered {
					t.Errorf("MariaDB %v, strategy %d, cycle %d: %d of CREATE and DROP were answered, want %d", server.MariaDB, strategy, cycle, n, answered)
				}
			}
		}
	}
}

// P7: a reload to native counts from the next statement on.
func TestReload(t *testing.T) {
	d := newDriver(Server{Version: 90704})
	for _, name := range []string{"t", "u"} {
		d.l.name(Key{"db", name}).Seen = true
	}
	d.query("CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY")
	d.query("CREATE TEMPORARY TABLE u (a INT) ENGINE=MEMORY")
	d.query("DROP TEMPORARY TABLE u")
	native := *d.policy
	native.Strategy = StrategyNative
	d.policy = &native
	d.sent = nil
	for _, text := range []string{"DROP TEMPORARY TABLE t", "CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY", "CREATE TEMPORARY TABLE u (a INT) ENGINE=MEMORY", "DROP TEMPORARY TABLE t"} {
		if kind := d.query(text); kind != StepDone {
			t.Errorf("%s was answered", text)
		}
	}
	if want := []string{dropSQL(Key{"db", "u"})}; fmt.Sprint(d.sent) != fmt.Sprint(want) {
		t.Errorf("sent %q, want %q", d.sent, want)
	}
	if live, parked := d.m.Counts(); live+parked != 0 {
		t.Errorf("%d live, %d parked", live, parked)
	}
}

// P8: whatever a client does, a machine does not grow without bounds.
func TestBounds(t *testing.T) {
	t.Run("live tables", func(t *testing.T) {
		d := newDriver(Server{Version: 90704})
		for i := range 3 * maxTables {
			d.query(fmt.Sprintf("CREATE TEMPORARY TABLE t%d (a INT) ENGINE=MEMORY", i))
		}
		if n := len(d.m.tables); n > maxTables {
			t.Errorf("%d tables", n)
		}
		d.query("CALL p()") // they are all tainted now, and make room
		d.query("CREATE TEMPORARY TABLE x (a INT) ENGINE=MEMORY")
		if live, _ := d.m.Counts(); live != 1 || len(d.m.tables) > maxTables {
			t.Errorf("%d live of %d tables", live, len(d.m.tables))
		}
	})
	t.Run("parked tables", func(t *testing.T) {
		d := newDriver(Server{Version: 90704})
		for i := range 5 * d.policy.MaxParked {
			name := fmt.Sprintf("t%d", i)
			d.l.name(Key{"db", name}).Seen = true
			d.query("CREATE TEMPORARY TABLE " + name + " (a INT) ENGINE=MEMORY")
			d.query("DROP TEMPORARY TABLE " + name)
			if _, parked := d.m.Counts(); parked > d.policy.MaxParked {
				t.Fatalf("%d parked", parked)
			}
		}
	})
	t.Run("prepared statements", func(t *testing.T) {
		d := newDriver(Server{Version: 90704})
		prepare := func(id uint32, text string) {
			ev := d.event(text)
			ev.Kind = EventPrepare
			d.m.Begin(ev)
			d.m.Next(&Outcome{Handle: id})
		}
		for id := range uint32(2 * maxHandles) {
			prepare(id, "SELECT 1")
		}
		if n := len(d.m.prepared.list); n != maxHandles {
			t.Errorf("%d handles", n)
		}
		for id := range uint32(2 * maxHandles) {
			d.m.Begin(&Event{Kind: EventCloseHandle, Handle: id, Policy: d.policy})
			d.m.Next(&Outcome{Kind: OutcomeNone})
		}
		if n := len(d.m.prepared.list); n != 0 || d.m.prepared.bytes != 0 {
			t.Errorf("%d handles, %d bytes left", n, d.m.prepared.bytes)
		}
		long := "SELECT '" + strings.Repeat("x", maxPreparedBytes/10) + "'"
		for id := range uint32(20) {
			prepare(id, long)
		}
		if d.m.prepared.bytes > maxPreparedBytes {
			t.Errorf("%d bytes", d.m.prepared.bytes)
		}
	})
	t.Run("settings", func(t *testing.T) {
		d := newDriver(Server{Version: 90704})
		for i := range 10 * maxSettings {
			d.query(fmt.Sprintf("SET SESSION x%d = 1", i))
			if n := len(d.m.ctx.settings.all()); n > maxSettings {
				t.Fatalf("%d settings", n)
			}
		}
		for range 10 {
			d.query("SET SESSION sql_mode = '" + strings.Repeat("X", maxSettingBytes) + "'")
			size := 0
			for _, s := range d.m.ctx.settings.all() {
				size += len(s.key) + len(s.value)
			}
			if size > maxSettingBytes {
				t.Fatalf("%d bytes of settings", size)
			}
		}
	})
}

// A context that outgrew the bounds equals nothing before it.
func TestContextOverflow(t *testing.T) {
	d := newDriver(Server{Version: 90704})
	before := d.m.ctx
	for i := range maxSettings + 1 {
		d.query(fmt.Sprintf("SET SESSION x%d = 1", i))
	}
	if d.m.ctx.settings != nil || d.m.ctx.equal(before) {
		t.Errorf("%+v", d.m.ctx)
	}
}

func BenchmarkSelectWithTables(b *testing.B) {
	d := newDriver(Server{Version: 90704})
	d.l.name(Key{"db", "t"}).Seen = true
	d.query("CREATE TEMPORARY TABLE u (a INT) ENGINE=MEMORY")
	d.query("CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY")
	d.query("DROP TEMPORARY TABLE t")
	ev := d.event("SELECT a, b, c FROM base JOIN other USING (a) WHERE base.id = 12345 AND name = 'somebody'")
	o := &Outcome{Kind: OutcomeSet, Status: statusAutocommit}
	b.ReportAllocs()
	for b.Loop() {
		d.m.Begin(ev)
		d.m.Next(o)
	}
}

func BenchmarkCycle(b *testing.B) {
	d := newDriver(Server{Version: 90704})
	d.l.name(Key{"db", "t"}).Seen = true
	create, insert, drop := d.event("CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY"), d.event("INSERT INTO t VALUES (1)"), d.event("DROP TEMPORARY TABLE t")
	o := &Outcome{Status: statusAutocommit}
	b.ReportAllocs()
	for b.Loop() {
		d.finish(d.m.Begin(create))
		d.m.Begin(insert)
		d.m.Next(o)
		d.finish(d.m.Begin(drop))
		for {
			s, ok := d.m.Background(d.now, d.policy)
			if !ok {
				break
			}
			out := d.outcome(s)
			d.m.BackgroundDone(&out)
		}
	}
}

// BenchmarkLongInsert takes an INSERT of 100 rows of 128 bytes, while the session has tables, one of which it names.
func BenchmarkLongInsert(b *testing.B) {
	d := newDriver(Server{MariaDB: true, Version: 101119})
	for _, name := range []string{"temp_store", "temp_read_current"} {
		d.l.name(Key{"db", name}).Seen = true
		d.query("CREATE TEMPORARY TABLE " + name + " (zoid BIGINT UNSIGNED NOT NULL PRIMARY KEY) ENGINE=MEMORY")
	}
	text := []byte("REPLACE INTO temp_store (zoid, prev_tid, md5, state) VALUES ")
	for i := range 100 {
		text = fmt.Appendf(text, "(%d, 1234567, NULL, '%s'), ", 100000+i, strings.Repeat(`state(\0`, 16))
	}
	ev := d.event(string(text[:len(text)-2]))
	o := &Outcome{Status: statusAutocommit}
	b.SetBytes(int64(len(ev.Text)))
	b.ReportAllocs()
	for b.Loop() {
		d.m.Begin(ev)
		d.m.Next(o)
	}
}
