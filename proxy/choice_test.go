package proxy

import (
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/zap"

	"tmpproxy/session"
)

const allArms = session.ArmSet(1<<session.StrategyNative | 1<<session.StrategyKeep | 1<<session.StrategyInnoDB)

// drive runs cycles whose times are those of cost, with noise, and returns how many each arm got.
func drive(c *choice, n int, arms session.ArmSet, r *rand.Rand, cost func(session.Strategy) float64) (got [session.StrategyAuto]int) {
	for range n {
		arm := c.pick(arms)
		got[arm]++
		if v := cost(arm); v > 0 { // 0: not reused
			c.measured(arm, int64(v*(1+0.3*r.Float64())*1000))
		}
	}
	return got
}

func fixed(native, keep, innodb float64) func(session.Strategy) float64 {
	return func(a session.Strategy) float64 { return [...]float64{native, keep, innodb}[a] }
}

func TestChoice(t *testing.T) {
	for name, test := range map[string]struct {
		arms                 session.ArmSet
		native, keep, innodb float64
		want                 session.Strategy
	}{
		"keep is fastest":                {allArms, 100, 60, 90, session.StrategyKeep},
		"innodb is fastest":              {allArms, 100, 80, 60, session.StrategyInnoDB},
		"nothing gains":                  {allArms, 100, 130, 120, session.StrategyNative},
		"innodb is not possible":         {1<<session.StrategyNative | 1<<session.StrategyKeep, 100, 80, 10, session.StrategyKeep},
		"nothing is possible but native": {1 << session.StrategyNative, 100, 10, 10, session.StrategyNative},
		"sessions end too early":         {allArms, 100, 0, 0, session.StrategyNative},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				var c choice
				r := rand.New(rand.NewPCG(seed, 1))
				drive(&c, 400, test.arms, r, fixed(test.native, test.keep, test.innodb))
				if !c.settled || c.chosen != test.want {
					t.Fatalf("seed %d: chosen %v, settled %v, medians %v", seed, c.chosen, c.settled, c.info().Medians)
				}
			}
		})
	}
}

// What is not the fastest costs little: the first measuring, and a round every few thousand cycles.
func TestChoiceExploration(t *testing.T) {
	var c choice
	got := drive(&c, 20000, allArms, rand.New(rand.NewPCG(1, 1)), fixed(100, 300, 300))
	if wrong := got[session.StrategyKeep] + got[session.StrategyInnoDB]; wrong > 20000/100 {
		t.Errorf("%d of 20000 cycles were spent on slow arms", wrong)
	}
	if c.choices < 3 {
		t.Errorf("%d choices", c.choices)
	}
}

// When the chosen arm becomes another one than it was, the choice is made anew at once.
func TestChoiceDrift(t *testing.T) {
	var c choice
	r := rand.New(rand.NewPCG(1, 1))
	drive(&c, 300, allArms, r, fixed(100, 60, 90))
	if c.chosen != session.StrategyKeep {
		t.Fatalf("chosen %v", c.chosen)
	}
	drive(&c, 300, allArms, r, fixed(100, 200, 90))
	if c.chosen != session.StrategyInnoDB && c.chosen != session.StrategyNative || c.choices < 2 {
		t.Errorf("chosen %v after %d choices", c.chosen, c.choices)
	}
}

// Times that swing for all arms alike do not have them measured all the time.
func TestChoiceNoise(t *testing.T) {
	var c choice
	r := rand.New(rand.NewPCG(1, 1))
	for swing := range 600 {
		slow := 1 + float64(swing%2)
		drive(&c, 40, allArms, r, fixed(60*slow, 100*slow, 100*slow))
	}
	if c.choices > 40 {
		t.Errorf("%d choices in 24000 cycles", c.choices)
	}
}

// An arm whose difference has shown takes no part any more, whether it is measured or chosen.
func TestChoiceExclude(t *testing.T) {
	for cycles := range 300 {
		var c choice
		r := rand.New(rand.NewPCG(1, 1))
		drive(&c, cycles, allArms, r, fixed(100, 80, 50))
		c.exclude(session.StrategyInnoDB)
		if got := drive(&c, 300, allArms, r, fixed(100, 80, 50)); got[session.StrategyInnoDB] > 0 || c.chosen != session.StrategyKeep {
			t.Fatalf("after %d cycles: %d more, chosen %v", cycles, got[session.StrategyInnoDB], c.chosen)
		}
	}
}

// A CREATE that does not allow the chosen arm is left alone.
func TestChoiceMask(t *testing.T) {
	var c choice
	r := rand.New(rand.NewPCG(1, 1))
	drive(&c, 300, allArms, r, fixed(100, 80, 50))
	if arm := c.pick(1 << session.StrategyNative); arm != session.StrategyNative {
		t.Errorf("picked %v", arm)
	}
	if arm := c.pick(allArms); arm != session.StrategyInnoDB {
		t.Errorf("picked %v", arm)
	}
}

// Six sessions make cycles of one shape by turns while its arms are measured: each new arm costs each of them the table that it has
// parked, which must not have the shape taken for one that is not worth it.
func TestChoiceOfManySessions(t *testing.T) {
	const sessions, cycles = 6, 100
	policy := testPolicy(session.StrategyAuto)
	policy.Measure = true
	sh := newShared(policy, newJournal(zap.NewNop()))
	var talks []*talk
	for range sessions {
		r := newTalkOf(t, sh, newFakeServer(testCaps), 1<<20)
		r.settle()
		r.client(login(testCaps, "db"))
		r.client(pack(3, []byte("answer")))
		talks = append(talks, r)
	}
	for range cycles {
		for _, sql := range []string{create, insert, drop} {
			for _, r := range talks {
				r.client(query(sql))
			}
		}
	}
	shapes := sh.ledger.Shapes()
	if len(shapes) != 1 || shapes[0].Native || shapes[0].Choice == nil || !shapes[0].Choice.Settled || len(shapes[0].Choice.Medians) != 3 || shapes[0].Choice.Excluded != nil {
		t.Errorf("%+v, choice %+v", shapes, shapes[0].Choice)
	}
}

// Tables that are dropped oftener than reused do not count while arms have turns, and count behind the choice.
func TestChurnBehindTheChoice(t *testing.T) {
	l := newLedger(newJournal(zap.NewNop()), newMetrics(), monotonic)
	l.maxAge.Store(int64(time.Hour))
	const shape = "(a INT)"
	churn := func() bool {
		for range 2 * churnWindow {
			l.Note(session.Note{Kind: session.NoteCycle, Shape: shape})
			l.Note(session.Note{Kind: session.NoteSettle, Shape: shape, Reason: "not_quiet"})
		}
		return l.Shape(shape).Native > monotonic()
	}
	l.Choose(shape, allArms)
	if churn() {
		t.Error("left to the server while arms have turns")
	}
	for range 1000 {
		l.Note(session.Note{Kind: session.NoteEnd, Shape: shape, Cycle: &session.Cycle{Shape: shape, Strategy: l.Choose(shape, allArms), Reused: true, Create: 10}})
	}
	if choice := l.Shapes()[0].Choice; choice == nil || !choice.Settled {
		t.Fatalf("nothing is chosen: %+v", choice)
	}
	if !churn() {
		t.Error("not left to the server")
	}
}
