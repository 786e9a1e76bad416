package main

import (
	"slices"
	"time"

	"tmpproxy/bench/statistics"
)

// figures are what one turn of one line, or a summary of several, shows, in seconds.
type figures struct {
	ddl   float64 // one CREATE and one DROP as the client sees them
	cycle float64 // all statements of a cycle without the pauses between them
}

// samples are the times that one connection saw during one turn.
type samples struct {
	create, drop, cycle []time.Duration
}

// summarize returns the figures of one turn: medians over the samples of all its connections.
func summarize(connections []samples) figures {
	var all samples
	for _, c := range connections {
		all.create = append(all.create, c.create...)
		all.drop = append(all.drop, c.drop...)
		all.cycle = append(all.cycle, c.cycle...)
	}
	return figures{medianSeconds(all.create) + medianSeconds(all.drop), medianSeconds(all.cycle)}
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
		ddl:   column(func(f figures) float64 { return f.ddl }),
		cycle: column(func(f figures) float64 { return f.cycle }),
	}
}

// ratios returns the median over rounds of what the rounds of through are to those of direct. Comparing within a round
// keeps out what changes on the machine from one round to the next. Both have as many rounds.
func ratios(through, direct []figures) figures {
	quotients := make([]figures, len(through))
	for i, f := range through {
		quotients[i] = figures{f.ddl / direct[i].ddl, f.cycle / direct[i].cycle}
	}
	return medians(quotients)
}

// spread returns how far the rounds of direct, the first row of a block, lie apart: the least and the greatest over
// blocks of (longest cycle - shortest cycle) / median cycle.
func spread(blocks []block) (least, most float64) {
	for i, b := range blocks {
		var cycles []float64
		for _, f := range b.rows[0].rounds {
			cycles = append(cycles, f.cycle)
		}
		width := (slices.Max(cycles) - slices.Min(cycles)) / statistics.Median(cycles)
		if i == 0 {
			least = width
		}
		least, most = min(least, width), max(most, width)
	}
	return least, most
}
