package main

import (
	"slices"
	"time"

	"tmpproxy/bench/statistics"
)

// figures are what one turn of one line, or a summary of several, shows. Times are in seconds.
type figures struct {
	rate   float64 // cycles per second, all connections together
	create float64 // one CREATE as the client sees it
	drop   float64 // one DROP, likewise
	cycle  float64 // all statements of a cycle without the pauses between them
}

// each returns f of every figure of a and b.
func each(a, b figures, f func(a, b float64) float64) figures {
	return figures{f(a.rate, b.rate), f(a.create, b.create), f(a.drop, b.drop), f(a.cycle, b.cycle)}
}

// samples are the times that one connection saw during one turn.
type samples struct {
	create, drop, cycle []time.Duration
}

// summarize returns the figures of one turn: medians over the samples of all its connections, which together made rate
// cycles per second.
func summarize(rate float64, connections []samples) figures {
	var all samples
	for _, c := range connections {
		all.create = append(all.create, c.create...)
		all.drop = append(all.drop, c.drop...)
		all.cycle = append(all.cycle, c.cycle...)
	}
	return figures{rate, medianSeconds(all.create), medianSeconds(all.drop), medianSeconds(all.cycle)}
}

func medianSeconds(durations []time.Duration) float64 {
	seconds := make([]float64, len(durations))
	for i, d := range durations {
		seconds[i] = d.Seconds()
	}
	return statistics.Median(seconds)
}

// medians returns the median over rounds of every figure.
func medians(rounds []figures) figures {
	column := func(of func(figures) float64) float64 {
		values := make([]float64, len(rounds))
		for i, r := range rounds {
			values[i] = of(r)
		}
		return statistics.Median(values)
	}
	return figures{
		rate:   column(func(f figures) float64 { return f.rate }),
		create: column(func(f figures) float64 { return f.create }),
		drop:   column(func(f figures) float64 { return f.drop }),
		cycle:  column(func(f figures) float64 { return f.cycle }),
	}
}

// ratios returns the median over rounds of what the rounds of through are to those of direct. Comparing within a round
// keeps out what changes on the machine from one round to the next. Both have as many rounds.
func ratios(through, direct []figures) figures {
	quotients := make([]figures, len(through))
	for i := range through {
		quotients[i] = each(through[i], direct[i], func(a, b float64) float64 { return a / b })
	}
	return medians(quotients)
}

// spread returns how far the rounds of direct, the first row of a block, lie apart: the least and the greatest over
// blocks of (highest rate - lowest rate) / median rate.
func spread(blocks []block) (least, most float64) {
	for i, b := range blocks {
		var rates []float64
		for _, f := range b.rows[0].rounds {
			rates = append(rates, f.rate)
		}
		width := (slices.Max(rates) - slices.Min(rates)) / statistics.Median(rates)
		if i == 0 {
			least = width
		}
		least, most = min(least, width), max(most, width)
	}
	return least, most
}
