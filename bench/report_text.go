package bench

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// headings of the workloads.
var headings = map[string]string{
	"cycles":     "A temporary table is made, filled, read and dropped, over and over on one connection",
	"relstorage": "RelStorage stores transactions through temporary MyISAM tables",
	"selects":    "Point selects by primary key",
	"tls":        "Point selects by primary key, with TLS on both sides of the proxy",
	"result":     "One long result",
	"connects":   "Connect, SELECT 1, disconnect",
	"idle":       "Sessions that do nothing",
	"idle-tls":   "Sessions that do nothing, with TLS on both sides of the proxy",
	"blobs":      "One large value to the server, and one from it",
}

// WriteText writes the report for a terminal. An error is the writer's.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, line := range r.introduction() {
		fmt.Fprintln(&b, line)
	}
	for _, workload := range r.workloads() {
		cells := r.of(workload)
		fmt.Fprintf(&b, "\n%s: %s\n", workload, headings[workload])
		for _, m := range cells[0].Metrics {
			writeMetric(&b, cells, m)
		}
	}
	fmt.Fprintf(&b, "\nTargets\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "work\tarm\tagainst\tgoal\tmeasured\t\tverdict\tworst of several")
	for _, result := range r.Targets {
		value, bounds := result.measured()
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", result.Work, result.Arm, result.Against, result.Goal, value, bounds, result.Verdict(), result.Worst)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, trimLines(b.String()))
	return err
}

// introduction says what was measured on what.
func (r *Report) introduction() []string {
	durability := "a server of the user's own"
	if r.Durable {
		durability = "durable commits"
	}
	lines := []string{
		fmt.Sprintf("tmpproxy bench, %s, took %.0f s%s", r.Began.UTC().Format("2006-01-02 15:04 MST"), r.Duration, r.runs()),
		fmt.Sprintf("%d × %s, %s, %s", r.Machine.Processors, r.Machine.Processor, r.Machine.Kernel, r.Machine.Go),
		fmt.Sprintf("%s, %s", r.Server, durability),
	}
	if len(r.Peers) > 0 {
		lines = append(lines, strings.Join(r.Peers, "; "))
	}
	if len(r.Settings) > 0 {
		lines = append(lines, "tmpproxy with "+strings.Join(r.Settings, " "))
	}
	rounds := fmt.Sprintf("%d rounds", r.Rounds)
	if r.Inform < r.Rounds {
		rounds = fmt.Sprintf("%d rounds, up to %d for what a target is about", r.Inform, r.Rounds)
	}
	// One paragraph; a terminal has it in two lines.
	lines = append(lines, fmt.Sprintf("%s, in which each arm works for %s or some times as long, in changing order; figures are medians of the rounds,\n"+
		"ratios are medians of what rounds of the same number are to each other, with the bounds between which 95 of 100 such medians lie", rounds, formatValue(Seconds, r.Turn)))
	for _, d := range r.Delays {
		lines = append(lines, fmt.Sprintf("a round trip of %s is really %s (99th percentile %s)", formatValue(Seconds, d.Asked), formatValue(Seconds, d.Median), formatValue(Seconds, d.P99)))
	}
	if r.Left > 0 {
		lines = append(lines, fmt.Sprintf("not complete: %d lines are not measured yet", r.Left))
	}
	return append(lines, r.Notes...)
}

// runs says in how many pieces all this was measured.
func (r *Report) runs() string {
	if r.Runs < 2 {
		return ""
	}
	return fmt.Sprintf(" in %d runs", r.Runs)
}

// measured writes a target's value and its bounds.
func (t *TargetResult) measured() (value, bounds string) {
	if t.Cells == 0 {
		return "", ""
	}
	format := func(v float64) string {
		if t.Against != "" {
			return formatRatio(v)
		}
		return formatValue(t.Unit, v)
	}
	return format(t.Value), fmt.Sprintf("[%s, %s]", format(t.Low), format(t.High))
}

// writeMetric writes one metric of all cells of a workload: a line for each, with the arms side by side.
func writeMetric(b *strings.Builder, cells []*Cell, m Metric) {
	names := armsWith(cells, m.Key)
	if len(names) == 0 {
		return
	}
	title := m.Title
	if m.Higher {
		title += " (more is better)"
	}
	fmt.Fprintf(b, "\n%s\n", title)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, p := range cells[0].Parameters {
		fmt.Fprintf(t, "%s\t", p.Name)
	}
	for i, name := range names {
		fmt.Fprintf(t, "%s\t", name)
		if i > 0 || name != cells[0].Arms[0].Name {
			fmt.Fprint(t, "\t\t")
		}
	}
	fmt.Fprintln(t)
	for _, c := range cells {
		for _, p := range c.Parameters {
			fmt.Fprintf(t, "%s\t", p.Value)
		}
		for i, name := range names {
			a := c.arm(name)
			var r Result
			if a != nil {
				r = a.Results[m.Key]
			}
			if len(r.Rounds) > 0 {
				fmt.Fprint(t, formatValue(m.Unit, r.Median))
			}
			fmt.Fprint(t, "\t")
			if i > 0 || name != cells[0].Arms[0].Name {
				if r.Ratio != nil {
					fmt.Fprintf(t, "%sx\t[%s %s]\t", formatRatio(r.Ratio.Value), formatRatio(r.Ratio.Low), formatRatio(r.Ratio.High))
				} else {
					fmt.Fprint(t, "\t\t")
				}
			}
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // into a strings.Builder
}

// armsWith returns the names of the arms that have a metric in some cell, in order.
func armsWith(cells []*Cell, key string) []string {
	var names []string
	seen := make(map[string]bool)
	for _, c := range cells {
		for _, a := range c.Arms {
			if len(a.Results[key].Rounds) > 0 && !seen[a.Name] {
				seen[a.Name] = true
				names = append(names, a.Name)
			}
		}
	}
	return names
}

// trimLines takes blanks from the ends of lines.
func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// formatValue writes a value with three digits and its unit.
func formatValue(unit Unit, v float64) string {
	switch unit {
	case Seconds:
		switch {
		case v == 0:
			return "0 s"
		case v < 999.5e-6:
			return digits(v*1e6) + " µs"
		case v < 0.9995:
			return digits(v*1e3) + " ms"
		}
		return digits(v) + " s"
	case Bytes, ByteRate:
		suffix := ""
		if unit == ByteRate {
			suffix = "/s"
		}
		for _, step := range []struct {
			size float64
			name string
		}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
			if v >= step.size {
				return digits(v/step.size) + " " + step.name + suffix
			}
		}
		return digits(v) + " B" + suffix
	case PerSecond:
		return fmt.Sprintf("%.0f /s", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// digits writes a number with three digits, or more when it has more before the point.
func digits(v float64) string {
	decimals := 0
	switch a := math.Abs(v); {
	case a < 9.995:
		decimals = 2
	case a < 99.95:
		decimals = 1
	}
	return fmt.Sprintf("%.*f", decimals, v)
}

// formatRatio writes a quotient.
func formatRatio(q float64) string {
	if q >= 9.995 {
		return fmt.Sprintf("%.1f", q)
	}
	return fmt.Sprintf("%.2f", q)
}
