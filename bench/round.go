package bench

import (
	"fmt"
	"math"
	"slices"
	"time"

	"tmpproxy/bench/statistics"
)

// cpuMetric is measured in every cell by the way, of the proxy's process.
var cpuMetric = Metric{Key: "cpu", Title: "processor time of the proxy per statement", Unit: Seconds}

var allocationMetric = Metric{Key: "allocations", Title: "allocations of tmpproxy per statement", Unit: Count}

// run measures one cell: all arms in every round, each for one turn, right after one another, in changing order.
func (b *bench) run(p *plan) error {
	if p.prepare != nil {
		if err := p.prepare(b.ctx); err != nil {
			return err
		}
	}
	ways := make([]way, len(p.arms))
	players := make([]player, len(p.arms))
	defer func() {
		for _, player := range players {
			if player != nil {
				player.close()
			}
		}
		for _, w := range ways {
			if w.process != nil {
				_ = w.process.stop() // what is wrong with it shows in its work
			}
		}
	}()
	for i, name := range p.arms {
		w := way{name: name}
		if !p.bare {
			var err error
			if w, err = b.way(name, p.roundTrip, p.tls); err != nil {
				return err
			}
		}
		ways[i] = w
		var err error
		if players[i], err = p.open(w, i); err != nil {
			return fmt.Errorf("%s: %w", name, b.reason(w, err))
		}
		p.cell.Arms = append(p.cell.Arms, &Arm{Name: name, Results: make(map[string]Result)})
	}
	rounds := b.options.Rounds
	if p.mostRounds > 0 {
		rounds = min(rounds, p.mostRounds)
	}
	for round := range rounds {
		working := b.working(p, round)
		if !slices.Contains(working, true) {
			break
		}
		for i := range p.arms {
			at := statistics.Order(round, i, len(p.arms))
			if !working[at] {
				continue
			}
			t, err := b.take(ways[at], players[at], time.Duration(max(1, p.stretch))*b.options.Turn)
			if err != nil {
				return fmt.Errorf("%s: %w", ways[at].name, b.reason(ways[at], err))
			}
			for key, value := range t.values {
				r := p.cell.Arms[at].Results[key]
				r.Rounds = append(r.Rounds, value)
				p.cell.Arms[at].Results[key] = r
			}
		}
	}
	p.cell.Metrics = append(p.cell.Metrics, cpuMetric)
	if p.allocations {
		p.cell.Metrics = append(p.cell.Metrics, allocationMetric)
		for i, w := range ways {
			if err := b.countAllocations(p.cell.Arms[i], w, players[i]); err != nil {
				return fmt.Errorf("%s: %w", w.name, b.reason(w, err))
			}
		}
	}
	p.cell.summarize()
	return nil
}

// deciding is how many rounds a verdict takes at the least: then all of them on the wrong side of a goal are less than one chance in 50.
const deciding = 7

// working says which arms of a cell take part in its next round: every one at first, later those that a target is about which is not
// decided, and what it compares them with. An arm that has left comes back no more, so that rounds of the same number stay side by side.
func (b *bench) working(p *plan, done int) []bool {
	working := make([]bool, len(p.arms))
	for i := range working {
		working[i] = done < b.options.Inform || b.options.Inform >= b.options.Rounds
	}
	if slices.Contains(working, true) {
		return working
	}
	for _, t := range targets(b.backend.mariaDB) {
		if t.workload != p.cell.Workload || t.about != nil && !t.about(p.cell) {
			continue
		}
		value, measured := t.measured(p.cell)
		if !measured || done >= deciding && t.decided(value) {
			continue
		}
		for i, name := range p.arms {
			if len(p.cell.Arms[i].Results[t.metric].Rounds) == done && (name == t.arm || name == t.against) {
				working[i] = true
			}
		}
	}
	return working
}

// reason adds that the process of a way has ended, if it has.
func (b *bench) reason(w way, err error) error {
	if w.process != nil {
		if ended := w.process.running(); ended != nil {
			return fmt.Errorf("%w; %w", err, ended)
		}
	}
	return err
}

// take lets one arm have its turn, and measures its process meanwhile.
func (b *bench) take(w way, player player, d time.Duration) (turn, error) {
	if w.process == nil {
		return player.turn(d)
	}
	before, timeErr := w.process.time()
	t, err := player.turn(d)
	if err != nil || timeErr != nil || t.statements == 0 {
		return t, err
	}
	if after, err := w.process.time(); err == nil {
		t.values[cpuMetric.Key] = (after - before).Seconds() / float64(t.statements)
	}
	return t, nil
}

// So many statements, in at most so many turns, are counted together, that what the process does by the way does not count.
const (
	allocationStatements = 20_000
	allocationTurns      = 50
	allocationCounts     = 4
)

// countAllocations measures what tmpproxy allocates, in turns of their own: the least of several counts, since what else the
// process does can only add to them.
func (b *bench) countAllocations(a *Arm, w way, player player) error {
	if w.process == nil || w.process.admin == "" {
		return nil
	}
	least := math.Inf(1)
	for range allocationCounts {
		var counted [3]float64
		statements := 0
		for i := range counted {
			if i == 2 { // the two before tell what reading the count allocates
				for turns := 0; turns < allocationTurns && statements < allocationStatements; turns++ {
					t, err := player.turn(b.options.Turn)
					if err != nil {
						return err
					}
					statements += t.statements
				}
			}
			var err error
			if counted[i], err = w.process.allocations(b.ctx); err != nil {
				return err
			}
		}
		if least = min(least, max(0, counted[2]-2*counted[1]+counted[0])/float64(max(1, statements))); least == 0 {
			break
		}
	}
	a.Results[allocationMetric.Key] = Result{Rounds: []float64{least}}
	return nil
}
