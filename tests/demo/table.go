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
}

// writeTable writes the blocks, which have the same rows: a line for each in either part. An error is the writer's.
func writeTable(w io.Writer, blocks []block) error {
	var b strings.Builder
	for _, part := range []struct {
		title string
		of    func(figures) float64
	}{
		{"One CREATE and one DROP", func(f figures) float64 { return f.ddl }},
		{"All statements of a cycle", func(f figures) float64 { return f.cycle }},
	} {
		fmt.Fprintf(&b, "%-48s", part.title)
		for i, r := range blocks[0].rows {
			fmt.Fprintf(&b, "%*s", columnWidth(i), r.name)
		}
		b.WriteString("\n")
		for _, block := range blocks {
			fmt.Fprintf(&b, "  %-46s%*s", block.title, columnWidth(0), formatTime(part.of(medians(block.rows[0].rounds))))
			for i, r := range block.rows[1:] {
				fmt.Fprintf(&b, "%*s", columnWidth(i+1), formatRatio(part.of(ratios(r.rounds, block.rows[0].rounds))))
			}
			b.WriteString("\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func columnWidth(i int) int {
	if i == 0 {
		return 10
	}
	return 9
}

// formatTime writes seconds with three digits.
func formatTime(seconds float64) string {
	value, unit := seconds*1e6, "µs"
	switch {
	case value >= 999.5e3:
		value, unit = seconds, "s"
	case value >= 999.5:
		value, unit = seconds*1e3, "ms"
	}
	decimals := 2
	if value >= 99.95 {
		decimals = 0
	} else if value >= 9.995 {
		decimals = 1
	}
	return fmt.Sprintf("%.*f %s", decimals, value, unit)
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
