package bench

import (
	"fmt"
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
	}()
	for i, name := range p.arms {
		w := way{name: name}
		if !p.bare {
			var err error
			if w, err = b.way(name, p.roundTrip); err != nil {
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
		for i := range p.arms {
			at := statistics.Order(round, i, len(p.arms))
			t, err := b.take(p, ways[at], players[at])
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
	}
	p.cell.summarize()
	return nil
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
func (b *bench) take(p *plan, w way, player player) (turn, error) {
	count := p.allocations && w.process != nil && w.process.admin != ""
	var allocated [3]float64
	var err error
	if count { // twice, for what reading the count allocates
		for i := range 2 {
			if allocated[i], err = w.process.allocations(b.ctx); err != nil {
				return turn{}, err
			}
		}
	}
	var before, after time.Duration
	var timeErr error
	if w.process != nil {
		before, timeErr = w.process.time()
	}
	t, err := player.turn(b.options.Turn)
	if err != nil {
		return t, err
	}
	if w.process != nil && timeErr == nil && t.statements > 0 {
		if after, timeErr = w.process.time(); timeErr == nil {
			t.values[cpuMetric.Key] = (after - before).Seconds() / float64(t.statements)
		}
	}
	if count && t.statements > 0 {
		if allocated[2], err = w.process.allocations(b.ctx); err != nil {
			return t, err
		}
		t.values[allocationMetric.Key] = max(0, allocated[2]-2*allocated[1]+allocated[0]) / float64(t.statements)
	}
	return t, nil
}
