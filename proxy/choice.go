package proxy

import (
	"slices"

	"tmpproxy/session"
)

// The strategy auto measures before it chooses, and again from time to time.
const (
	turnCycles   = 8    // cycles that an arm is measured in before the next one has its turn
	firstRounds  = 3    // turns that each arm has before the first choice
	laterRounds  = 1    // and before a later one
	revisitAfter = 5000 // cycles behind a choice after which it is made anew
	driftWindow  = 32   // cycles whose median tells whether the chosen arm is what it was
	driftMost    = 1024 // the same, at most: twice as many behind each drift, so that times that swing are not measured all the time
	unusedTurns  = 6    // an arm that was given so many times turnCycles and was never reused saves nothing

	// margin is what a choice has to gain against leaving the cycles alone.
	margin = 0.97
	// drift is by how much the cycle time may change, up or down, before the choice is made anew.
	drift = 1.4
)

// choice finds the fastest arm of a shape by the time that clients spend in its cycles: the CREATE, the DROP and the statements
// between them that name the table. It needs no clock and no randomness: arms have turns, so that what changes with the hour
// changes for all of them. Not safe for concurrent use; the zero value is ready.
type choice struct {
	arms    []session.Strategy // that take part; native is always the first
	turn    int                // index of the arm that is measured now; meaningless once settled
	rounds  int                // turns that each arm still has, this one included
	left    int                // cycles still to be measured in this turn
	given   int                // cycles begun in this turn
	samples [session.StrategyAuto][]int64
	settled bool
	chosen  session.Strategy
	base    int64 // median of the chosen arm when it was chosen, ns
	since   int   // cycles since then
	window  int   // cycles whose median is compared with base
	recent  []int64
	out     [session.StrategyAuto]bool // arms that take no part any more
	choices int
	decided bool // since decided was last asked
}

// pick says what is done with the cycle that begins now. arms are those that its CREATE allows.
func (c *choice) pick(arms session.ArmSet) session.Strategy {
	if c.arms == nil || !c.settled && !slices.ContainsFunc(c.arms, func(a session.Strategy) bool { return a != session.StrategyNative }) {
		c.start(arms, firstRounds)
	}
	if c.settled {
		if c.since++; c.since >= revisitAfter {
			c.window = 0
			c.start(arms, laterRounds)
		}
	}
	arm := c.chosen
	if !c.settled {
		arm = c.arms[c.turn]
		if c.given++; c.given > unusedTurns*turnCycles {
			c.out[arm] = arm != session.StrategyNative // sessions end before they could reuse anything
			c.next()
			if arm = c.chosen; !c.settled {
				arm = c.arms[c.turn]
			}
		}
	}
	if !arms.Has(arm) {
		return session.StrategyNative
	}
	return arm
}

// measuring says whether the arms have turns.
func (c *choice) measuring() bool { return c.arms != nil && !c.settled }

// start has the arms measured.
func (c *choice) start(arms session.ArmSet, rounds int) {
	c.arms = c.arms[:0]
	for arm := session.StrategyNative; arm < session.StrategyAuto; arm++ {
		if arms.Has(arm) && !c.out[arm] {
			c.arms = append(c.arms, arm)
		}
		c.samples[arm] = c.samples[arm][:0]
	}
	c.settled, c.turn, c.rounds, c.left, c.given, c.recent = false, 0, rounds, turnCycles, 0, c.recent[:0]
	if len(c.arms) < 2 {
		c.decide()
	}
}

// measured takes the time of a cycle, in nanoseconds. A cycle of a cached table counts only if the table was reused.
func (c *choice) measured(arm session.Strategy, ns int64) {
	switch {
	case c.arms == nil: // of another strategy's session: nothing is to be chosen
	case c.settled && arm == c.chosen:
		if c.recent = append(c.recent, ns); len(c.recent) == c.window {
			m := median(c.recent)
			c.recent = c.recent[:0]
			if float64(m) > float64(c.base)*drift || float64(m)*drift < float64(c.base) {
				set := session.ArmSet(0)
				for _, a := range c.arms {
					set |= 1 << a
				}
				c.start(set, laterRounds)
			}
		}
	case !c.settled && arm == c.arms[c.turn]:
		c.samples[arm] = append(c.samples[arm], ns)
		if c.left--; c.left == 0 {
			c.next()
		}
	}
}

// next gives the next arm its turn.
func (c *choice) next() {
	c.left, c.given = turnCycles, 0
	for {
		if c.turn++; c.turn == len(c.arms) {
			c.turn = 0
			if c.rounds--; c.rounds == 0 {
				c.decide()
				return
			}
		}
		if !c.out[c.arms[c.turn]] {
			return
		}
	}
}

// decide chooses by the medians.
func (c *choice) decide() {
	c.chosen, c.base = session.StrategyNative, median(c.samples[session.StrategyNative])
	limit := float64(c.base) * margin
	for _, arm := range c.arms {
		if m := median(c.samples[arm]); arm != session.StrategyNative && !c.out[arm] && len(c.samples[arm]) > 0 && float64(m) < limit {
			c.chosen, c.base, limit = arm, m, float64(m)
		}
	}
	c.window = max(driftWindow, min(2*c.window, driftMost))
	c.settled, c.since, c.decided = true, 0, true
	c.choices++
}

// exclude ends an arm's part: a difference that it makes may have shown.
func (c *choice) exclude(arm session.Strategy) {
	if c.out[arm] {
		return
	}
	c.out[arm] = true
	switch {
	case c.settled && c.chosen == arm:
		set := session.ArmSet(0)
		for _, a := range c.arms {
			set |= 1 << a
		}
		c.start(set, laterRounds)
	case !c.settled && c.arms != nil && c.arms[c.turn] == arm:
		c.next()
	}
}

// median returns the lower median, 0 of nothing. The order of list is not kept.
func median(list []int64) int64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[(len(sorted)-1)/2]
}

// ChoiceInfo tells what the strategy auto does with a shape and why.
type ChoiceInfo struct {
	Strategy string             `json:"strategy"` // chosen, or measured now
	Settled  bool               `json:"settled"`  // chosen
	Choices  int                `json:"choices"`  // so far
	Medians  map[string]float64 `json:"medians"`  // seconds that clients spent in a cycle, by strategy, when the choice was made last
	Excluded []string           `json:"excluded,omitempty"`
}

var strategyNames = [...]string{session.StrategyNative: "native", session.StrategyKeep: "keep", session.StrategyInnoDB: "innodb"}

func (c *choice) info() *ChoiceInfo {
	if c.arms == nil {
		return nil
	}
	i := &ChoiceInfo{Settled: c.settled, Choices: c.choices, Medians: map[string]float64{}}
	arm := c.chosen
	if !c.settled {
		arm = c.arms[c.turn]
	}
	i.Strategy = strategyNames[arm]
	for arm, name := range strategyNames {
		if len(c.samples[arm]) > 0 {
			i.Medians[name] = float64(median(c.samples[arm])) / 1e9
		}
		if c.out[arm] {
			i.Excluded = append(i.Excluded, name)
		}
	}
	return i
}
