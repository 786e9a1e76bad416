package trial

import (
	"math"
	"math/rand/v2"
	"testing"
)

// world is a made-up application: what a trial is run on.
type world struct {
	sessions  int
	alive     int                         // sessions at a time
	cycles    func(r *rand.Rand) int      // of a session
	between   float64                     // standard deviation between sessions, of the log of times
	within    float64                     // and between cycles of a session
	stalls    float64                     // share of cycles that take 10 to 1000 times as long
	drift     func(at float64) float64    // of the log of times, at 0 to 1 of the trial
	effect    float64                     // of the treatment, on the log of times
	spread    float64                     // of the effect between sessions
	compare   func(a, b *series) interval // nil: compare
	treatment float64                     // share of sessions
	skew      bool                        // sessions' means have an exponential distribution
}

// run runs a trial and looks at it whenever anything could have changed. It returns whether the interval ever left out the truth, and
// whether it ever showed that the treatment's times are shorter.
func (w *world) run(r *rand.Rand) (wrong, found bool) {
	type session struct {
		cluster
		treated bool
		mean    float64
		left    int
	}
	var arms [2]series
	begun := 0
	begin := func() session {
		begun++
		s := session{treated: r.Float64() < w.treatment, mean: w.between * r.NormFloat64(), left: w.cycles(r)}
		if w.skew {
			s.mean = w.between * (r.ExpFloat64() - 1)
		}
		if w.drift != nil {
			s.mean += w.drift(float64(begun) / float64(w.sessions))
		}
		if s.treated {
			s.mean += w.effect + w.spread*r.NormFloat64()
		}
		return s
	}
	alive := make([]session, min(w.alive, w.sessions))
	for i := range alive {
		alive[i] = begin()
	}
	for len(alive) > 0 {
		i := r.IntN(len(alive))
		s := &alive[i]
		arm := &arms[0]
		if s.treated {
			arm = &arms[1]
		}
		x := s.mean + w.within*r.NormFloat64()
		if w.stalls > 0 && r.Float64() < w.stalls {
			x += math.Log(10) * (1 + 2*r.Float64())
		}
		changed := s.add(x, arm)
		if s.left--; s.left == 0 {
			changed = s.end(arm) || changed
			if begun < w.sessions {
				*s = begin()
			} else {
				alive[i] = alive[len(alive)-1]
				alive = alive[:len(alive)-1]
			}
		}
		if changed {
			v := w.judge(&arms[1], &arms[0])
			wrong = wrong || v.low() > w.effect || v.high() < w.effect
			found = found || v.high() < 0
		}
	}
	return wrong, found
}

func (w *world) judge(a, b *series) interval {
	if w.compare != nil {
		return w.compare(a, b)
	}
	return compare(a, b)
}

func between(from, to int) func(*rand.Rand) int {
	return func(r *rand.Rand) int { return from + r.IntN(to-from+1) }
}

// rates runs many trials of a world and returns the shares of those that were ever wrong, and that ever found the treatment better.
func (w *world) rates(trials int, seed uint64) (wrong, found float64) {
	for i := range trials {
		bad, good := w.run(rand.New(rand.NewPCG(seed, uint64(i))))
		if bad {
			wrong++
		}
		if good {
			found++
		}
	}
	return wrong / float64(trials), found / float64(trials)
}

// An A/A trial cries wolf in at most 5 % of trials, though one looks at it after every cycle: 2000 trials for each kind of application.
func TestFalseAlarms(t *testing.T) {
	for name, w := range map[string]world{
		"web":               {sessions: 400, alive: 16, cycles: between(1, 20), between: 0.4, within: 0.8, stalls: 0.02, treatment: 0.5},
		"few cycles":        {sessions: 400, alive: 16, cycles: between(1, 3), between: 0.1, within: 1, stalls: 0.05, treatment: 0.5},
		"sessions differ":   {sessions: 400, alive: 8, cycles: between(1, 40), between: 1.5, within: 0.3, treatment: 0.5, skew: true},
		"a small share":     {sessions: 600, alive: 16, cycles: between(5, 15), between: 0.5, within: 0.8, stalls: 0.02, treatment: 0.1},
		"a pool":            {sessions: 12, alive: 12, cycles: between(600, 600), between: 0.02, within: 0.8, stalls: 0.02, treatment: 0.5},
		"a pool of unequal": {sessions: 20, alive: 20, cycles: between(300, 300), between: 0.5, within: 0.8, stalls: 0.02, treatment: 0.5},
		"day and night": {sessions: 400, alive: 16, cycles: between(1, 20), between: 0.3, within: 0.6, stalls: 0.02, treatment: 0.5,
			drift: func(at float64) float64 { return 0.5 * math.Sin(at*8*math.Pi) }},
		"an effect that differs": {sessions: 400, alive: 16, cycles: between(1, 20), between: 0.3, within: 0.6, effect: -0.2, spread: 0.6, treatment: 0.3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong, found := w.rates(simulatedAA, 1)
			t.Logf("wrong in %.2f %%, better in %.2f %%", 100*wrong, 100*found)
			if wrong > alpha {
				t.Errorf("wrong in %.2f %% of trials", 100*wrong)
			}
		})
	}
}

// A gain of 10 % is found in at least 90 % of trials with 2000 sessions of 20 cycles. The connections of a pool need a greater one, as
// there are few of them, and three are too few for any.
func TestPower(t *testing.T) {
	for name, test := range map[string]struct {
		world
		least, most float64
	}{
		"2000 sessions": {world{sessions: 2000, alive: 16, cycles: between(20, 20), between: 0.4, within: 0.8, stalls: 0.02, effect: math.Log(0.9), treatment: 0.5}, 0.9, 1},
		"a pool of 20":  {world{sessions: 20, alive: 20, cycles: between(1500, 1500), between: 0.03, within: 0.8, stalls: 0.02, effect: math.Log(0.8), treatment: 0.5}, 0.9, 1},
		"a pool of 3":   {world{sessions: 3, alive: 3, cycles: between(1500, 1500), between: 0.03, within: 0.8, effect: math.Log(0.5), treatment: 0.5}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong, found := test.rates(simulatedPower, 1)
			t.Logf("found in %.1f %%, wrong in %.2f %%", 100*found, 100*wrong)
			if found < test.least || found > test.most {
				t.Errorf("found in %.1f %% of trials", 100*found)
			}
			if wrong > alpha {
				t.Errorf("wrong in %.2f %% of trials", 100*wrong)
			}
		})
	}
}

// The simulation shows what looking again and again does to an interval that is made for looking once.
func TestPeekingMatters(t *testing.T) {
	w := world{sessions: 400, alive: 16, cycles: between(1, 20), between: 0.4, within: 0.8, treatment: 0.5, compare: func(a, b *series) interval {
		x, y := a[0], b[0]
		i := interval{difference: x.Mean - y.Mean, half: math.Inf(1)}
		if x.N > 20 && y.N > 20 {
			i.half = 1.96 * math.Sqrt(x.M2/float64(x.N*(x.N-1))+y.M2/float64(y.N*(y.N-1)))
		}
		return i
	}}
	if wrong, _ := w.rates(100, 1); wrong < 2*alpha {
		t.Errorf("wrong in %.0f %% only", 100*wrong)
	}
}
