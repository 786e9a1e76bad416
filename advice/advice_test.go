package advice

import (
	"math"
	"strings"
	"testing"
)

// cached are the counts of a shape whose 1,000 cycles in one session are cached from the third on, between which 10 statements run: a
// CREATE takes 200 µs, a DROP 100 µs, any other statement 100 µs, and the client pauses for a millisecond.
func cached(change func(*Counts)) Counts {
	c := Counts{
		Shape: "(a INT) ENGINE=MEMORY", Server: "MySQL", Engine: "MEMORY", Keep: eligible, Convert: eligible,
		Sessions: 1, Cycles: 1000, Names: 1, Rows: 3000, MostRows: 3,
		Create: Took{1000, 0.2}, Drop: Took{1000, 0.1}, Busy: Took{12000, 1.3}, Share: 12000,
		Reuses: 998, Answered: Took{1997, 0.2996}, Resets: 999, Gaps: make([]int64, 24),
	}
	c.Gaps[10] = 999
	if change != nil {
		change(&c)
	}
	return c
}

func TestAdvise(t *testing.T) {
	cheap := Assumptions{Hop: 5e-6}
	dear := Assumptions{Hop: 60e-6}
	for name, test := range map[string]struct {
		counts   Counts
		a        Assumptions
		choice   string
		sentence string
	}{
		"none": {Counts{}, cheap, unknown, "no cycle has ended yet"},
		"few": {cached(func(c *Counts) { c.Cycles, c.Sessions = 6, 1 }), cheap, unknown,
			"6 cycles per session: too few yet to say anything, 6 of 20"},
		"short sessions": {cached(func(c *Counts) { c.Cycles, c.Sessions = 12, 10 }), cheap, none,
			"1.2 cycles per session: no gain to expect"},
		"one each": {cached(func(c *Counts) { c.Cycles, c.Sessions = 1000, 1000 }), cheap, none,
			"1 cycle per session: no gain to expect"},
		"random names": {cached(func(c *Counts) { c.Names = 990 }), cheap, none,
			"1,000 cycles per session, nearly always a new name: no table could be used twice, no gain to expect"},
		"made of a SELECT": {cached(func(c *Counts) { c.Fallbacks, c.Reuses = map[string]int64{"as_select": 1000}, 0 }), cheap, none,
			"1,000 cycles per session: left to the server: made AS SELECT, which is never cached"},
		"mentioned": {cached(func(c *Counts) { c.Settles, c.Reuses = map[string]int64{"mentioned": 900, "opaque": 3}, 90 }), cheap, none,
			"fixed name, 1,000 cycles per session: no gain to expect: a parked table would mostly have to be dropped before it is reused, because a statement names it in between"},
		"churned": {cached(func(c *Counts) { c.Settles, c.Reuses, c.Churned = map[string]int64{"opaque": 20}, 3, true }), cheap, none,
			"fixed name, 1,000 cycles per session: no gain to expect: a parked table would mostly have to be dropped before it is reused, " +
				"because a CALL, a stored function or the like runs in between"},
		"warnings": {cached(func(c *Counts) { c.Replays, c.Reuses = 900, 500 }), cheap, none,
			"fixed name, 1,000 cycles per session: no gain to expect: a parked table would mostly have to be dropped before it is reused, " +
				"because warnings are asked for behind CREATE or DROP"},
		"altered": {cached(func(c *Counts) { c.Taints, c.Reuses = map[string]int64{"statement": 1000}, 0 }), cheap, none,
			"fixed name, 1,000 cycles per session: no gain to expect: it is altered, indexed or locked after its creation"},
		"locked": {cached(func(c *Counts) { c.Fallbacks, c.Reuses = map[string]int64{"lock_tables": 800}, 0 }), cheap, none,
			"fixed name, 1,000 cycles per session: mostly left to the server: under LOCK TABLES"},
		"never reused": {cached(func(c *Counts) { c.Reuses = 10 }), cheap, none,
			"fixed name, 1,000 cycles per session: no gain to expect: only 1 % of the CREATEs would find a table to reuse"},
		"rolled back": {cached(func(c *Counts) { c.RolledBack, c.Transactions, c.Cycles, c.Sessions = 57, 1900, 1900, 1 }), cheap, keep,
			"fixed name, 1,900 cycles per session, always in transactions, rolled back after writes in 3 %: keep, not innodb; estimated gain"},
		"quiet": {cached(nil), cheap, keep,
			"fixed name, 1,000 cycles per session: keep, or innodb if a trial shows that it gains more; estimated gain 240 µs per cycle, 18 % of the time these sessions wait"},
		"read without an order": {cached(func(c *Counts) { c.Unordered = 400 }), cheap, keep,
			"fixed name, 1,000 cycles per session, read without ORDER BY in 40 %: keep (with innodb rows may come in another order); estimated gain"},
		"InnoDB": {cached(func(c *Counts) { c.Engine, c.Convert, c.RolledBack = "InnoDB", "", 900 }), cheap, keep,
			"fixed name, 1,000 cycles per session: keep (innodb does the same); estimated gain"},
		"MyISAM": {cached(func(c *Counts) { c.Engine, c.Keep = "MyISAM", "myisam" }), cheap, innodb,
			"fixed name, 1,000 cycles per session: innodb; estimated gain"},
		"MyISAM outside transactions": {cached(func(c *Counts) { c.Engine, c.Keep, c.Commits = "MyISAM", "myisam", 3000 }), cheap, trial,
			"fixed name, 1,000 cycles per session: only innodb could cache it, and would commit 3 writes per cycle outside transactions, " +
				"which may cost more than it saves: only a trial can tell; estimated gain 240 µs per cycle, 18 % of the time these sessions wait without that"},
		"MyISAM, rolled back": {cached(func(c *Counts) { c.Engine, c.Keep, c.RolledBack = "MyISAM", "myisam", 3 }), cheap, innodb,
			"fixed name, 1,000 cycles per session, rolled back after writes in 0.3 %: innodb only with on_rollback: preserve, or leave it; estimated gain"},
		"MyISAM, failing": {cached(func(c *Counts) { c.Engine, c.Keep, c.FailedWrites = "MyISAM", "myisam", 100 }), cheap, none,
			"fixed name, 1,000 cycles per session, failing in writes of several rows in 10 %: only innodb could cache it, and it would show: leave it; estimated gain"},
		"MyISAM, without an order": {cached(func(c *Counts) { c.Engine, c.Keep, c.Unordered = "MyISAM", "myisam", 1000 }), cheap, innodb,
			"fixed name, 1,000 cycles per session, always read without ORDER BY: innodb, if nothing relies on the order of rows; estimated gain"},
		"cannot be converted": {cached(func(c *Counts) { c.Convert = "innodb_fulltext" }), cheap, keep,
			"fixed name, 1,000 cycles per session: keep (innodb cannot convert it and does the same); estimated gain"},
		"neither": {cached(func(c *Counts) { c.Keep, c.Convert = "myisam", "innodb_fulltext" }), cheap, none,
			"fixed name, 1,000 cycles per session: left to the server: neither cached as it is nor converted (myisam)"},
		"several names": {cached(func(c *Counts) { c.Names = 4 }), cheap, keep, "4 names, 1,000 cycles per session: keep"},
		"hardly": {cached(func(c *Counts) { c.Busy, c.Share = Took{12000, 30}, 12000 }), cheap, keep,
			"fixed name, 1,000 cycles per session: keep, or innodb if a trial shows that it gains more; hardly worth it, estimated gain 240 µs per cycle, 0.8 % of the time"},
		"other statements": {cached(nil), dear, none,
			"fixed name, 1,000 cycles per session: not worth it: 12 statements per cycle each pay for the way through the proxy; it gains up to 5"},
		"no pause": {cached(func(c *Counts) {
			c.Gaps = make([]int64, 24)
			c.Gaps[0], c.Engine, c.Keep, c.Server = 999, "MyISAM", "myisam", "MySQL"
			c.Answered = Took{1997, 0.15}
		}), cheap, none, "fixed name, 1,000 cycles per session: no gain to expect: to empty the table would take as long as CREATE and DROP do now"},
	} {
		t.Run(name, func(t *testing.T) {
			v := Advise(test.counts, test.a)
			if v.Choice != test.choice {
				t.Errorf("choice %s, want %s", v.Choice, test.choice)
			}
			if !strings.HasPrefix(v.Sentence, test.sentence) {
				t.Errorf("said\n%s\nwant\n%s", v.Sentence, test.sentence)
			}
		})
	}
}

// The figures follow from the counts by the rules that the notes tell.
func TestEstimate(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-7 {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	a := Assumptions{Hop: 10e-6}
	v := Advise(cached(nil), a)
	near("a reset of MEMORY", v.AsKept.Reset, 0.51*300e-6)
	near("a reset of InnoDB in its place", v.AsInnoDB.Reset, 0.81*300e-6)
	near("saved", v.AsKept.Saved, 299.6e-6) // the pause of half a millisecond and more covers the reset
	near("cost", v.AsKept.Cost, 120e-6)
	near("gain", v.AsKept.Gain, 179.6e-6)
	near("part", v.AsKept.Part, 0.1796/1.3)
	near("even at", v.BreakEven, 29.96)
	near("DDL", v.DDL, 0.3/1.3)
	near("statements", v.Statements, 12)

	// Without a pause all of the reset is waited for, and of the look before it.
	hasty := cached(func(c *Counts) { c.Gaps = make([]int64, 24); c.Gaps[0] = 1000; c.Resets, c.Checks = 1000, 1000 })
	near("hasty", Advise(hasty, a).AsKept.Saved, 299.6e-6-153e-6-100e-6)

	// In place of a DROP TABLE in a transaction, a TRUNCATE is sent and waited for.
	emptied := cached(func(c *Counts) { c.Answered, c.Emptied = Took{1000, 0.2}, Took{1000, 0.1} })
	near("emptied", Advise(emptied, a).AsKept.Saved, 300e-6-153e-6)

	// What is given back costs a DROP that the client waits for.
	settled := cached(func(c *Counts) { c.Settles, c.Replays = map[string]int64{"mentioned": 80, "opaque": 10}, 10 })
	near("settled", Advise(settled, a).AsKept.Saved, 299.6e-6-10e-6)
}

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 1: "1", 1.2: "1.2", 2.04: "2", 9.96: "10", 12.3: "12", 999: "999", 1900: "1,900", 1234567: "1,234,567"} {
		if got := number(x); got != want {
			t.Errorf("number %g: %s, want %s", x, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0 %", 0.0004: "less than 0.1 %", 0.004: "0.4 %", 0.03: "3 %", 0.996: "100 %", -0.2: "-20 %"} {
		if got := percent(x); got != want {
			t.Errorf("percent %g: %s, want %s", x, got, want)
		}
	}
	for x, want := range map[float64]string{1.5: "1.50 s", 0.0123: "12.3 ms", 240e-6: "240 µs", 1.25e-6: "1.25 µs", -3e-3: "-3.00 ms", 0: "0.00 µs", 0.9999e-3: "1.00 ms"} {
		if got := duration(x); got != want {
			t.Errorf("duration %g: %s, want %s", x, got, want)
		}
	}
	for x, want := range map[float64]string{3: "3 s", 123: "2 min 3 s", 7260: "2 h 1 min"} {
		if got := age(x); got != want {
			t.Errorf("age %g: %s, want %s", x, got, want)
		}
	}
}

func TestReport(t *testing.T) {
	none := New(Report{}, nil)
	if got := none.Text(); got != "Nothing was observed: set rewrite.strategy to observe.\n" {
		t.Error(got)
	}
	r := New(Report{Observing: true, Seconds: 123, Sessions: 3, Busy: Took{20000, 2}, Assumptions: Assumptions{10e-6, ByStatements}, Unread: map[string]int64{"multi": 7}}, []Counts{
		cached(func(c *Counts) {
			c.Shape, c.Cycles, c.Sessions, c.Reuses, c.Create, c.Busy, c.Share = "(b INT) ENGINE=MEMORY", 12, 10, 2, Took{12, 0.0024}, Took{100, 0.01}, 100
		}),
		cached(nil),
	})
	if r.Shapes[0].Shape != "(a INT) ENGINE=MEMORY" || math.Abs(r.Saved-0.1498) > 1e-6 || math.Abs(r.Cost-0.1) > 1e-9 {
		t.Errorf("%+v", r)
	}
	text := r.Text()
	for _, want := range []string{
		"Observed for 2 min 3 s: 3 sessions, 20,000 statements.", "\n 1  fixed name, 1,000 cycles per session: keep", "\n 2  1.2 cycles per session: no gain to expect\n",
		"All together: worth a trial: about 15 % of the time that all sessions wait would be saved, less 10 % that the proxy\nitself costs.",
		"10.0 µs slower through the proxy, as statements of the monitor account were just now.", "is not known before it is tried", "7 packets of several statements",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if len([]rune(line)) > 160 {
			t.Errorf("long: %s", line)
		}
	}
}

func TestReportOfMany(t *testing.T) {
	var list []Counts
	for i := range 3 * MaxShapes {
		list = append(list, cached(func(c *Counts) { c.Shape = strings.Repeat("x", i+1) }))
	}
	r := New(Report{Sessions: 1, Busy: Took{1, 1}}, list)
	if len(r.Shapes) != MaxShapes || r.More != 2*MaxShapes || !strings.Contains(r.Text(), "and 400 more shapes") {
		t.Errorf("%d shapes, %d more", len(r.Shapes), r.More)
	}
}

func TestSentence(t *testing.T) {
	for name, test := range map[string]struct {
		r    Report
		want string
	}{
		"no session":  {Report{}, "no session was observed"},
		"no table":    {Report{Sessions: 1}, "no temporary table was seen"},
		"no gain":     {Report{Sessions: 1, Shapes: make([]Advice, 1), Cost: 0.02}, "no gain to expect; the proxy itself costs these sessions 2 % of the time they wait"},
		"costs more":  {Report{Sessions: 1, Shapes: make([]Advice, 1), Saved: 0.05, Cost: 0.3}, "not worth it for all sessions together"},
		"worth while": {Report{Sessions: 1, Shapes: make([]Advice, 1), Saved: 0.3, Cost: 0.05}, "worth a trial"},
	} {
		if got := test.r.sentence(); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
