package main

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// A block is the part of the table that holds one workload with one pause between its statements.
type block struct {
	title string
	rows  []row // the first is what the others are compared with
}

// A row is one way to the server.
type row struct {
	name   string
	rounds []figures // as many as in the other rows of the block, in the same order
	cycles int       // all that were made, warm-up included
	sent   counters  // in these cycles
}

// counters are what reached the server, by its own count.
type counters struct {
	create, drop, truncate int
}

const heading = `                      median time the client sees of            all     reached the server
           cycles/s      one CREATE     one DROP   a whole cycle  cycles  CREATE   DROP TRUNC.
`

// writeTable writes the blocks. An error is the writer's.
func writeTable(w io.Writer, blocks []block) error {
	var b strings.Builder
	b.WriteString(heading)
	for _, block := range blocks {
		b.WriteString(block.title + "\n")
		for i, r := range block.rows {
			value, ratio := medians(r.rounds), each(figures{}, figures{}, func(_, _ float64) float64 { return math.NaN() })
			if i > 0 {
				ratio = ratios(r.rounds, block.rows[0].rounds)
			}
			fmt.Fprintf(&b, " %-7s %6.0f %-5s %s %-5s %s %-5s %s %-5s %7d %7d%7d%7d\n", r.name,
				value.rate, formatRatio(ratio.rate), formatTime(value.create), formatRatio(ratio.create),
				formatTime(value.drop), formatRatio(ratio.drop), formatTime(value.cycle), formatRatio(ratio.cycle),
				r.cycles, r.sent.create, r.sent.drop, r.sent.truncate)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// formatTime writes seconds with three digits, always as wide.
func formatTime(seconds float64) string {
	value, unit := seconds*1e6, "µs"
	switch {
	case value >= 999.5e3:
		value, unit = seconds, "s "
	case value >= 999.5:
		value, unit = seconds*1e3, "ms"
	}
	decimals := 2
	if value >= 99.95 {
		decimals = 0
	} else if value >= 9.995 {
		decimals = 1
	}
	return fmt.Sprintf("%5.*f %s", decimals, value, unit)
}

// formatRatio writes a quotient with two decimals as long as that is short; nothing when there is none.
func formatRatio(q float64) string {
	switch {
	case math.IsNaN(q) || math.IsInf(q, 0):
		return ""
	case q >= 9.995:
		return fmt.Sprintf("%.0fx", q)
	}
	return fmt.Sprintf("%.2fx", q)
}
