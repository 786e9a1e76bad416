package main

import (
	"testing"
	"time"
)

func TestSummarize(t *testing.T) {
	const ms = time.Millisecond
	got := summarize([]samples{
		{create: []time.Duration{1 * ms, 9 * ms}, drop: []time.Duration{4 * ms}, cycle: []time.Duration{20 * ms}},
		{create: []time.Duration{2 * ms}, drop: []time.Duration{6 * ms}, cycle: []time.Duration{40 * ms, 50 * ms}},
	})
	if want := (figures{ddl: 0.007, cycle: 0.040}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestRatios has a machine that grows four times slower from round to round: the ratio of the medians would still be
// right, but that of any two rounds that do not belong together would not.
func TestRatios(t *testing.T) {
	direct := []figures{{1, 4}, {4, 16}, {16, 64}}
	through := []figures{{0.5, 8}, {2, 32}, {8, 64}}
	if got, want := ratios(through, direct), (figures{0.5, 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := medians(direct), (figures{4, 16}); got != want {
		t.Errorf("medians: got %+v, want %+v", got, want)
	}
}

func TestSpread(t *testing.T) {
	direct := func(cycles ...float64) block {
		r := row{name: "direct"}
		for _, cycle := range cycles {
			r.rounds = append(r.rounds, figures{cycle: cycle})
		}
		return block{rows: []row{r, {name: "other", rounds: []figures{{cycle: 1}, {cycle: 1e6}}}}}
	}
	least, most := spread([]block{direct(100, 110, 90), direct(50, 50, 50.5), direct(10, 20, 40)})
	if least != 0.01 || most != 1.5 {
		t.Errorf("spread %v to %v, want 0.01 to 1.5", least, most)
	}
}

func TestSchedule(t *testing.T) {
	for _, test := range []struct {
		duration time.Duration
		rounds   int
	}{
		{time.Second, 5},
		{10 * time.Second, 5},
		{20 * time.Second, 10},
		{60 * time.Second, 15},
	} {
		rounds, turn := schedule(test.duration, 16)
		if rounds != test.rounds {
			t.Errorf("%v: %d rounds, want %d", test.duration, rounds, test.rounds)
		}
		if all := turn * time.Duration(rounds*16); all > test.duration || all < test.duration*99/100 {
			t.Errorf("%v: turns of %v take %v in all", test.duration, turn, all)
		}
	}
}
