package trial

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tmpproxy/session"
)

// bench is a Trials with a clock and chance of its own.
type bench struct {
	*Trials
	clock  time.Time
	native bool
	events []bool
	log    *observer.ObservedLogs
}

func newBench(t *testing.T, dir string) *bench {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	b := &bench{clock: time.Unix(1_700_000_000, 0).UTC(), log: logs}
	r := rand.New(rand.NewPCG(1, 2))
	var err error
	b.Trials, err = New(zap.New(core), Options{
		Dir: dir, Guardrail: 0.2, Native: func() bool { return b.native }, Changed: func(running bool) { b.events = append(b.events, running) },
		now: func() time.Time { return b.clock }, random: r.Float64, still: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) start(t *testing.T, assignment string, arms ...string) {
	t.Helper()
	list, err := ParseArms(arms)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(Spec{Name: "x", Arms: list, Assignment: assignment}); err != nil {
		t.Fatal(err)
	}
}

var base = &session.Policy{Strategy: session.StrategyKeep, MaxParked: 7}

const shape = "(a INT) ENGINE=MEMORY"

// spend has a session run cycles that take so many nanoseconds each, and some more by chance.
func spend(p *Participant, cycles int, ns int64, r *rand.Rand) {
	p.Policy(base, 1)
	for i := range cycles {
		took := ns + r.Int64N(ns/4+1)
		p.Statement(took, false)
		p.Cycle(&session.Cycle{Shape: shape, Began: int64(10 + i), Create: took / 2, Use: took / 4, Drop: took - took/2 - took/4, Reused: true, Affected: 2, Reset: 5000})
	}
}

func TestAssignment(t *testing.T) {
	t.Run("random", func(t *testing.T) {
		b := newBench(t, "")
		b.start(t, AssignRandom, "native", "keep*3")
		for range 4000 {
			b.Enrol("u", "s", "h", 1)
		}
		arms := b.Report().Arms
		if n := arms[0].Sessions; n < 900 || n > 1100 || n+arms[1].Sessions != 4000 {
			t.Errorf("%d of 4000 sessions in an arm of weight 1 in 4", n)
		}
	})
	for by, who := range map[string]func(int) [3]string{
		AssignUser:   func(i int) [3]string { return [3]string{fmt.Sprint("u", i), "s", "h"} },
		AssignSchema: func(i int) [3]string { return [3]string{"u", fmt.Sprint("s", i), "h"} },
		AssignHost:   func(i int) [3]string { return [3]string{"u", "s", fmt.Sprint("10.0.0.", i)} },
	} {
		t.Run(by, func(t *testing.T) {
			first := map[int]string{}
			for replica := range 2 {
				b := newBench(t, "")
				b.start(t, by, "native", "keep", "innodb*2")
				count := map[string]int{}
				for i := range 2000 {
					w := who(i)
					a, again := b.Enrol(w[0], w[1], w[2], 1).Arm(), b.Enrol(w[0], w[1], w[2], 1).Arm()
					if replica == 0 {
						first[i] = a
					}
					if a != again || a != first[i] {
						t.Fatalf("%v: %s, %s, %s", w, first[i], a, again)
					}
					count[a]++
				}
				if count["native"] < 420 || count["native"] > 580 || count["innodb"] < 900 || count["innodb"] > 1100 {
					t.Errorf("assigned %v", count)
				}
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	b := newBench(t, "")
	b.start(t, AssignRandom, "native", "innodb", "fast=innodb/auto", "auto/truncate")
	want := map[string]session.Policy{
		"native":        {Strategy: session.StrategyNative, Measure: true, MaxParked: 7},
		"innodb":        {Strategy: session.StrategyInnoDB, Measure: true, MaxParked: 7},
		"fast":          {Strategy: session.StrategyInnoDB, Measure: true, Deletes: true, MaxParked: 7},
		"auto-truncate": {Strategy: session.StrategyAuto, Measure: true, MaxParked: 7},
	}
	seen := map[string]*Participant{}
	for range 100 {
		p := b.Enrol("u", "s", "h", 1)
		if got := *p.Policy(base, 1); got != want[p.Arm()] {
			t.Fatalf("%s: %+v", p.Arm(), got)
		}
		seen[p.Arm()] = p
	}
	p := seen["fast"]
	if p == nil || p.Policy(base, 2) != p.Policy(base, 3) {
		t.Error("a policy is made for each command")
	}
	if n := testing.AllocsPerRun(100, func() { p.Policy(base, 2); p.Statement(1000, false) }); n != 0 {
		t.Errorf("%v allocations for a command", n)
	}
	// The switch to native goes before the trial, and a reload counts in all arms.
	off := &session.Policy{Strategy: session.StrategyNative}
	if got := p.Policy(off, 4); got.Strategy != session.StrategyNative || got.Measure {
		t.Errorf("under native: %+v", got)
	}
	p.Cycle(&session.Cycle{Shape: shape, Began: 5, Create: 1})
	p.Policy(base, 10)
	p.Cycle(&session.Cycle{Shape: shape, Began: 9, Create: 1}) // it began while native was in force
	if n := b.Report().Overall.cycles(); n != 0 {
		t.Errorf("%d cycles were counted that were not the arm's", n)
	}
	p.Cycle(&session.Cycle{Shape: shape, Began: 11, Create: 1})
	if n := b.Report().Overall.cycles(); n != 1 {
		t.Errorf("%d cycles", n)
	}
	if got := p.Policy(&session.Policy{Strategy: session.StrategyNative, Observe: base, MaxParked: 7}, 11); *got != want[p.Arm()] {
		t.Errorf("under observe: %+v", got)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	p.Cycle(&session.Cycle{Shape: shape, Began: 12, Create: 1})
	p.End()
	if r := b.Report(); r.State != StateStopped || r.Stopped == nil || r.Overall.cycles() != 1 {
		t.Errorf("after the end: %+v", r)
	}
	if b.Enrol("u", "s", "h", 1) != nil {
		t.Error("a session was assigned behind the end")
	}
	if want := []bool{true, false}; !reflect.DeepEqual(b.events, want) {
		t.Errorf("told %v", b.events)
	}
}

func TestSums(t *testing.T) {
	b := newBench(t, "")
	b.start(t, AssignRandom, "native", "keep")
	p := b.Enrol("u", "s", "h", 1)
	p.Policy(base, 2)
	p.Cycle(&session.Cycle{Shape: shape, Began: 1, Create: 1}) // it began before the trial
	for range 10 {
		p.Cycle(&session.Cycle{Shape: shape, Began: 3, Create: 2e6, Use: 3e6, Drop: 5e6, Reset: 7e6, Reused: true, Errors: 1, Affected: 4})
	}
	p.Statement(1e6, true)
	p.Statement(3e6, false)
	p.End()
	r := b.Report()
	i := 0
	if p.Arm() == "keep" {
		i = 1
	}
	got := r.Shapes[0].Arms[i]
	got.Histogram = nil
	want := ShapeArm{Arm: p.Arm(), Cycles: 10, Sessions: 1, Median: got.Median, P99: got.P99, Create: 0.002, Drop: 0.005, Statements: 0.003, Reset: 0.007, Reused: 10, Errors: 10, Rows: 40}
	near := func(a, b float64) bool { return math.Abs(a-b) < 0.011*b }
	if !near(got.Median, 0.01) || !near(got.P99, 0.01) {
		t.Errorf("median %v, p99 %v", got.Median, got.P99)
	}
	got.Create, got.Drop, got.Statements, got.Reset = math.Round(got.Create*1e6)/1e6, math.Round(got.Drop*1e6)/1e6, math.Round(got.Statements*1e6)/1e6, math.Round(got.Reset*1e6)/1e6
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if a := r.Arms[i]; a.Cycles != 10 || a.Errors != 1 || a.Statements.Count != 2 || a.Sessions != 1 {
		t.Errorf("arm %+v", a)
	}
}

// A difference is found and told; an arm that takes longer is stopped, and its sessions are left alone.
func TestVerdictAndGuardrail(t *testing.T) {
	for _, test := range []struct {
		name    string
		keep    int64
		stopped bool
		words   string
	}{
		{"faster", 700_000, false, "keep's cycles take 29."},
		{"a little slower", 1_050_000, false, "keep's cycles take 4."},
		{"much slower", 1_500_000, true, "keep was stopped: its cycles take 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, "")
			b.start(t, AssignRandom, "native", "keep")
			r := rand.New(rand.NewPCG(3, 4))
			var last *Participant
			for range 200 {
				p := b.Enrol("u", "s", "h", 1)
				cost := int64(1_000_000)
				if p.Arm() == "keep" {
					cost, last = test.keep, p
				}
				spend(p, 40, cost, r)
				p.End()
			}
			report := b.Report()
			arm := report.Arms[1]
			if (arm.StoppedReason != "") != test.stopped || (arm.StoppedAt != nil) != test.stopped {
				t.Errorf("stopped: %q", arm.StoppedReason)
			}
			if words := report.Overall.Verdicts[0].Words; !strings.HasPrefix(words, test.words) {
				t.Errorf("words %q, want %q", words, test.words)
			}
			if report.Overall.Verdicts[0].Words != report.Shapes[0].Verdicts[0].Words {
				t.Error("the only shape and all shapes differ")
			}
			want := session.StrategyKeep
			if test.stopped {
				want = session.StrategyNative
				if n := b.log.FilterMessageSnippet("stopped: its sessions").Len(); n != 1 {
					t.Errorf("%d log records", n)
				}
				if len(report.History) == 0 || report.History[0].Low < 1.2 {
					t.Errorf("history %v", report.History)
				}
			}
			if got := last.Policy(base, 1).Strategy; got != want {
				t.Errorf("its sessions have strategy %v", got)
			}
			cycles := b.Report().Arms[1].Cycles
			spend(last, 1, 1000, r)
			if n := b.Report().Arms[1].Cycles - cycles; (n == 0) != test.stopped {
				t.Errorf("%d cycles were counted", n)
			}
		})
	}
}

// An arm whose statements fail oftener than the control's is stopped, also if it never ends a cycle. Errors that both have do no harm.
func TestErrorGuardrail(t *testing.T) {
	for _, test := range []struct {
		name         string
		native, keep float64
		stopped      bool
	}{{"only there", 0, 0.1, true}, {"in both", 0.1, 0.1, false}, {"none", 0, 0, false}, {"in the control", 0.1, 0, false}, {"all", 0, 1, true}} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, "")
			b.start(t, AssignRandom, "native", "keep")
			r := rand.New(rand.NewPCG(5, 6))
			for range 300 {
				p := b.Enrol("u", "s", "h", 1)
				p.Policy(base, 1)
				share := test.native
				if p.Arm() == "keep" {
					share = test.keep
				}
				for range 20 {
					p.Statement(1000, r.Float64() < share)
				}
				p.End()
			}
			if got := b.Report().Arms[1].StoppedReason; (got != "") != test.stopped || test.stopped && !strings.Contains(got, "of its statements fail") {
				t.Errorf("stopped: %q", got)
			}
		})
	}
}

// Sessions of one user are one observation when users are assigned.
func TestSharedUnits(t *testing.T) {
	b := newBench(t, "")
	b.start(t, AssignUser, "native", "keep")
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 60 {
		p := b.Enrol(fmt.Sprint("user", i%3), "s", "h", 1)
		spend(p, 20, 1_000_000, r)
		p.End()
	}
	n := int64(0)
	for _, a := range b.Report().Overall.Arms {
		n += a.Sessions
	}
	if v := b.Report().Overall.Verdicts[0]; n != 3 || v.High != nil || !strings.Contains(v.Words, "too few users") {
		t.Errorf("%d observations: %+v", n, v)
	}
}

func TestChange(t *testing.T) {
	b := newBench(t, "")
	b.start(t, AssignRandom, "native", "keep")
	r := rand.New(rand.NewPCG(1, 1))
	long := b.Enrol("u", "s", "h", 1)
	for range 100 {
		p := b.Enrol("u", "s", "h", 1)
		spend(p, 20, 1_000_000, r)
		p.End()
	}
	spend(long, 31, 1_000_000, r)
	for name, change := range map[string]Change{"unknown": {map[string]float64{"innodb": 1}}, "negative": {map[string]float64{"keep": -1}}, "nothing left": {map[string]float64{"keep": 0, "native": 0}}, "no number": {map[string]float64{"keep": math.NaN()}}} {
		if b.Change(change) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if n := b.Report().Overall.Verdicts[0].Sessions; n != 100 {
		t.Fatalf("%d sessions count", n)
	}
	if err := b.Change(Change{map[string]float64{"keep": 0}}); err != nil {
		t.Fatal(err)
	}
	if v := b.Report().Overall.Verdicts[0]; v.Sessions != 0 || v.High != nil {
		t.Errorf("the verdict goes on: %+v", v)
	}
	for range 50 {
		if arm := b.Enrol("u", "s", "h", 1).Arm(); arm != "native" {
			t.Fatalf("assigned to %s, which has no weight", arm)
		}
	}
	spend(long, 31, 1_000_000, r)
	if n := b.Report().Overall.Verdicts[0].Sessions; n != 0 {
		t.Error("cycles of before count with those of after")
	}
	spend(long, 1, 1_000_000, r)
	if n := b.Report().Overall.Verdicts[0].Sessions; n != 1 {
		t.Errorf("%d sessions count", n)
	}
	if n := b.Report().Overall.cycles(); n != 2000+63 {
		t.Errorf("%d cycles", n)
	}
}

func TestStartAndStop(t *testing.T) {
	b := newBench(t, "")
	if r := b.Report(); r.State != StateNone || b.Results() != nil {
		t.Errorf("at first %+v", r)
	}
	if text, err := json.Marshal(b.Report()); err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v", text, err)
	}
	two, _ := ParseArms([]string{"native", "keep"})
	for name, s := range map[string]Spec{
		"no name":                  {Arms: two},
		"a path":                   {Name: "../x", Arms: two},
		"one arm":                  {Name: "x", Arms: two[:1]},
		"an arm twice":             {Name: "x", Arms: append(two, two...)},
		"no such strategy":         {Name: "x", Arms: []ArmSpec{{Strategy: "native"}, {Strategy: "fast"}}},
		"no such assignment":       {Name: "x", Arms: two, Assignment: "moon"},
		"a guardrail below 0":      {Name: "x", Arms: two, Guardrail: -1},
		"a guardrail that is none": {Name: "x", Arms: two, Guardrail: math.NaN()},
	} {
		if b.Start(s) == nil {
			t.Errorf("%s: started", name)
		}
	}
	b.native = true
	if err := b.Start(Spec{Name: "x", Arms: two}); err == nil || !strings.Contains(err.Error(), "native, which goes before") {
		t.Errorf("under native: %v", err)
	}
	b.native = false
	if b.Stop() == nil || b.Change(Change{map[string]float64{"keep": 2}}) == nil {
		t.Error("nothing was stopped or changed")
	}
	if err := b.Start(Spec{Name: "x", Arms: two}); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(Spec{Name: "y", Arms: two}); err == nil || !strings.Contains(err.Error(), `"x" is running`) {
		t.Errorf("a second one: %v", err)
	}
	same := &Spec{Name: "x", Arms: b.Results().Spec.Arms, Assignment: AssignRandom}
	b.SetGuardrail(0.3, &Spec{Name: "y", Arms: two})
	if r := b.Report(); r.Guardrail != 0.2 {
		t.Errorf("another trial's guardrail was taken: %v", r.Guardrail)
	}
	b.SetGuardrail(0.4, same)
	if r := b.Report(); r.Guardrail != 0.4 || !b.Has(same) {
		t.Errorf("guardrail %v", r.Guardrail)
	}
	if r := b.Report(); r.Control != "native" || r.Assignment != AssignRandom {
		t.Errorf("%+v", r)
	}
}

func TestParseArm(t *testing.T) {
	for text, want := range map[string]ArmSpec{
		"native":             {Name: "native", Strategy: "native"},
		" keep*2.5":          {Name: "keep", Strategy: "keep", Weight: 2.5},
		"innodb/auto":        {Name: "innodb-auto", Strategy: "innodb", Reset: "auto"},
		"fast=innodb/auto*3": {Name: "fast", Strategy: "innodb", Reset: "auto", Weight: 3},
	} {
		if got, err := ParseArm(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "fast", "keep*", "keep*0", "keep*-1", "keep*NaN", "keep/slow", "a b=keep", "=", "keep*1e9"} {
		if got, err := ParseArm(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// Two replicas together say what one would have said that had all their sessions.
func TestMerge(t *testing.T) {
	whole, parts := newBench(t, ""), []*bench{newBench(t, ""), newBench(t, "")}
	all := append(parts, whole)
	for _, b := range all {
		b.start(t, AssignRandom, "native", "keep")
	}
	for i := range 200 {
		for _, b := range []*bench{whole, parts[i%2]} {
			p := b.Enrol("u", "s", "h", 1)
			for (p.Arm() == "native") != (i/2%2 == 0) { // both have it in the same arm
				p = b.Enrol("u", "s", "h", 1)
			}
			spend(p, 40, 1_000_000, rand.New(rand.NewPCG(9, uint64(i))))
			p.End()
		}
	}
	sum := parts[0].Results()
	text, err := json.Marshal(parts[1].Results())
	if err != nil {
		t.Fatal(err)
	}
	var other Results
	if err := json.Unmarshal(text, &other); err != nil {
		t.Fatal(err)
	}
	if err := sum.Merge(&other); err != nil {
		t.Fatal(err)
	}
	got, want := sum.Report(), whole.Report()
	near := func(what string, a, b float64) {
		if math.Abs(a-b) > 1e-9*math.Abs(b) {
			t.Errorf("%s: %v, want %v", what, a, b)
		}
	}
	for i, v := range want.Shapes[0].Verdicts {
		w := got.Shapes[0].Verdicts[i]
		near("ratio", w.Ratio, v.Ratio)
		near("low", w.Low, v.Low)
		near("high", *w.High, *v.High)
		if w.Sessions != v.Sessions {
			t.Errorf("%d sessions, want %d", w.Sessions, v.Sessions)
		}
	}
	for i, a := range want.Overall.Arms {
		b := got.Overall.Arms[i]
		if a.Cycles != b.Cycles || a.Rows != b.Rows || a.Median != b.Median || a.P99 != b.P99 || !reflect.DeepEqual(a.Histogram, b.Histogram) {
			t.Errorf("got %+v, want %+v", b, a)
		}
	}
	other.Spec.Arms[1].Strategy = "innodb"
	if err := sum.Merge(&other); err == nil {
		t.Error("trials with other arms were added up")
	}
	other.Arms = other.Arms[:1]
	if err := sum.Merge(&other); err == nil {
		t.Error("results without an arm were added up")
	}
}

// What several replicas know of the same users is not added up.
func TestMergeOfUsers(t *testing.T) {
	var parts []*bench
	for i := range 2 {
		b := newBench(t, "")
		b.start(t, AssignUser, "native", "keep")
		for u := range 10 + 10*i {
			spend(b.Enrol(fmt.Sprint("user", u), "s", "h", 1), 40, 1_000_000, rand.New(rand.NewPCG(1, uint64(u))))
		}
		parts = append(parts, b)
	}
	sum := parts[0].Results()
	if err := sum.Merge(parts[1].Results()); err != nil {
		t.Fatal(err)
	}
	if r := sum.Report(); r.Overall.Verdicts[0].Sessions != 20 || r.Overall.cycles() != 30*40 {
		t.Errorf("%d observations, %d cycles", r.Overall.Verdicts[0].Sessions, r.Overall.cycles())
	} else if !strings.Contains(r.Note, "has seen the most users") || parts[0].Results().Report().Note != "" {
		t.Errorf("the note is %q, without a sum %q", r.Note, parts[0].Results().Report().Note)
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.count() != 0 || h.quantile(0.5) != 0 || len(h.buckets()) != 0 {
		t.Error("an empty one is not")
	}
	for i := range 1000 {
		h.add(float64(i+1) / 1e6)
	}
	h.add(0)
	total, upper := 0.0, -1.0
	for _, b := range h.buckets() {
		if b[0] <= upper || b[1] <= 0 {
			t.Errorf("bucket %v behind %v", b, upper)
		}
		upper = b[0]
		total += b[1]
	}
	if total != 1001 || upper < 0.00099 || upper > 0.0013 {
		t.Errorf("%v in buckets up to %v", total, upper)
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var again Histogram
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.buckets(), h.buckets()) || again.latency() != h.latency() {
		t.Errorf("%v became %v", h.latency(), again.latency())
	}
	if len(text) > 4000 {
		t.Errorf("%d bytes", len(text))
	}
	for _, bad := range []string{`"AQ=="`, `"////"`, `7`} {
		if json.Unmarshal([]byte(bad), &again) == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

// The history stays bounded and covers the whole trial.
func TestHistory(t *testing.T) {
	b := newBench(t, "")
	b.start(t, AssignRandom, "native", "keep", "innodb")
	r := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		p := b.Enrol("u", "s", "h", 1)
		spend(p, 40, 1_000_000, r)
		p.End()
	}
	begin := b.clock
	for range 20_000 {
		b.clock = b.clock.Add(saveEvery)
		b.tick(b.clock)
	}
	h := b.Report().History
	if len(h) < maxHistory/3 || len(h) > maxHistory {
		t.Errorf("%d points", len(h))
	}
	arms := map[string]int{}
	for i, p := range h {
		arms[p.Arm]++
		if i > 0 && p.At.Before(h[i-1].At) {
			t.Fatal("not in order")
		}
	}
	if arms["keep"] != arms["innodb"] || h[0].At.Sub(begin) > 2*time.Hour || b.clock.Sub(h[len(h)-1].At) > 2*time.Hour {
		t.Errorf("%v, from %v to %v", arms, h[0].At.Sub(begin), h[len(h)-1].At.Sub(begin))
	}
}

func TestConcurrency(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.start(t, AssignRandom, "native", "keep")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range 20 {
				p := b.Enrol("u", "s", "h", 1)
				spend(p, 40, 1_000_000, r)
				p.End()
			}
		})
	}
	all.Go(func() {
		for range 20 {
			b.Report()
			b.tick(b.options.now())
			if err := b.Change(Change{map[string]float64{"keep": 2}}); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	if n := b.Report().Overall.cycles(); n != 8*20*40 {
		t.Errorf("%d cycles", n)
	}
}

func TestRestart(t *testing.T) {
	for _, by := range []string{AssignRandom, AssignUser} {
		t.Run(by, func(t *testing.T) {
			dir := t.TempDir()
			b := newBench(t, filepath.Join(dir, "new"))
			b.start(t, by, "native", "keep")
			r := rand.New(rand.NewPCG(1, 1))
			for i := range 100 {
				p := b.Enrol(fmt.Sprint(i), "s", "h", 1)
				spend(p, 40, 1_000_000, r)
				p.End()
			}
			b.tick(b.clock)
			want := b.Report()
			// The process is killed: b is never closed as far as the file is concerned.
			c := newBench(t, filepath.Join(dir, "new"))
			got := c.Report()
			if !c.Running() {
				t.Fatal("the trial does not go on")
			}
			if by == AssignUser { // who has counted is not known any more
				if got.Overall.Verdicts[0].Sessions != 0 || got.Overall.cycles() != 4000 {
					t.Errorf("%d observations, %d cycles", got.Overall.Verdicts[0].Sessions, got.Overall.cycles())
				}
				return
			}
			a, _ := json.Marshal(want)
			if z, _ := json.Marshal(got); string(a) != string(z) {
				t.Errorf("got %s\nwant %s", z, a)
			}
			if err := c.Stop(); err != nil {
				t.Fatal(err)
			}
			d := newBench(t, filepath.Join(dir, "new"))
			if d.Running() || d.Report().State != StateStopped || d.Report().Overall.cycles() != 4000 {
				t.Errorf("a stopped trial came back as %+v", d.Report().State)
			}
			// One that runs goes before one that was stopped.
			d.start(t, by, "native", "innodb")
			if err := os.Rename(filepath.Join(dir, "new", "x.trial"), filepath.Join(dir, "new", "y.trial")); err != nil {
				t.Fatal(err)
			}
			if e := newBench(t, filepath.Join(dir, "new")); e.Report().State != StateNone {
				t.Error("a file of another name was taken")
			}
		})
	}
}
