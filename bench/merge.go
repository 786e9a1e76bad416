package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// ReadReport reads what WriteJSON has written.
func ReadReport(r io.Reader) (*Report, error) {
	report := new(Report)
	return report, json.NewDecoder(r).Decode(report)
}

// follow makes r, which has no lines yet, go on with what an earlier run found out.
func (r *Report) follow(earlier *Report) error {
	switch {
	case earlier.Server != r.Server || earlier.Durable != r.Durable:
		return fmt.Errorf("the earlier report is of another server: %s (durable commits: %v)", earlier.Server, earlier.Durable)
	case earlier.Machine != r.Machine:
		return fmt.Errorf("the earlier report is of another machine: %+v", earlier.Machine)
	case !slices.Equal(earlier.Settings, r.Settings):
		return fmt.Errorf("the earlier report is of tmpproxy with other settings: %q", earlier.Settings)
	}
	r.Began, r.Runs = earlier.Began, earlier.Runs
	r.Duration = earlier.Duration
	r.Delays, r.Cells, r.Notes = slices.Clone(earlier.Delays), slices.Clone(earlier.Cells), slices.Clone(earlier.Notes)
	return nil
}

// same returns where r holds a cell's line, -1 when it does not.
func (r *Report) same(c *Cell) int {
	return slices.IndexFunc(r.Cells, func(other *Cell) bool { return other.line() == c.line() })
}

// put takes a cell's line into the report: in place of an older one, else behind the last one of its workload, else where that comes.
func (r *Report) put(c *Cell) {
	if at := r.same(c); at >= 0 {
		r.Cells[at] = c
		return
	}
	at := 0
	for i, other := range r.Cells {
		if slices.Index(Workloads, other.Workload) <= slices.Index(Workloads, c.Workload) {
			at = i + 1
		}
	}
	r.Cells = slices.Insert(r.Cells, at, c)
}

// delayed takes in what the relay of one run does: of several runs the report has the means.
func (r *Report) delayed(d Delay) {
	d.Runs = 1
	for i := range r.Delays {
		if old := &r.Delays[i]; old.Asked == d.Asked {
			n := float64(max(old.Runs, 1))
			*old = Delay{Asked: d.Asked, Median: (n*old.Median + d.Median) / (n + 1), P99: (n*old.P99 + d.P99) / (n + 1), Runs: int(n) + 1}
			return
		}
	}
	r.Delays = append(r.Delays, d)
}
