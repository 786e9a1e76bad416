package bench

import (
	"encoding/json"
	"io"
	"slices"
	"time"

	"tmpproxy/bench/statistics"
)

// A Report is all that a run found out. It is what the JSON output holds.
type Report struct {
	Began    time.Time      `json:"began"`
	Duration float64        `json:"duration_seconds"` // of all runs that it was measured in
	Runs     int            `json:"runs"`
	Machine  Machine        `json:"machine"`
	Server   string         `json:"server"` // product and version
	MariaDB  bool           `json:"mariadb"`
	Durable  bool           `json:"durable"` // it waits for the disk at every commit; false for one of the user's own
	Peers    []string       `json:"peers"`   // versions of the other proxies
	Settings []string       `json:"settings,omitempty"`
	Rounds   int            `json:"rounds"`           // at most
	Inform   int            `json:"informing_rounds"` // of an arm without an open target
	Turn     float64        `json:"turn_seconds"`
	Delays   []Delay        `json:"delays,omitempty"`
	Cells    []*Cell        `json:"cells"`
	Left     int            `json:"lines_left,omitempty"` // that were to be measured and are not yet
	Targets  []TargetResult `json:"targets"`
	Notes    []string       `json:"notes,omitempty"` // what could not be measured, and why
}

// A Machine is what the run happened on.
type Machine struct {
	Processor  string `json:"processor"`
	Processors int    `json:"processors"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
}

// A Delay is what a relay that stands for a network really does.
type Delay struct {
	Asked  float64 `json:"asked_seconds"` // of a round trip
	Median float64 `json:"median_seconds"`
	P99    float64 `json:"p99_seconds"`
	Runs   int     `json:"runs,omitempty"` // that these are the means of
}

// A Cell is one kind of work with its parameters, done by several arms side by side.
type Cell struct {
	Workload   string      `json:"workload"`
	Parameters []Parameter `json:"parameters"`
	Metrics    []Metric    `json:"metrics"`
	Arms       []*Arm      `json:"arms"` // the first is what the others are compared with
}

// A Parameter is a name and a value for people.
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// A Metric is something that is measured in every turn.
type Metric struct {
	Key    string `json:"key"`
	Title  string `json:"title"`
	Unit   Unit   `json:"unit"`
	Higher bool   `json:"higher_is_better"`
}

// A Unit says how values are written.
type Unit string

const (
	Seconds   Unit = "s"
	PerSecond Unit = "1/s"
	Bytes     Unit = "B"
	ByteRate  Unit = "B/s"
	Count     Unit = "1"
)

// An Arm is one way to the server in one cell.
type Arm struct {
	Name    string            `json:"name"`
	Results map[string]Result `json:"results"` // by a metric's key; what an arm does not have is missing
}

// A Result is what one arm showed of one metric.
type Result struct {
	Rounds []float64            `json:"rounds"`
	Median float64              `json:"median"`
	Ratio  *statistics.Interval `json:"ratio,omitempty"` // to the cell's first arm
}

// summarize fills in medians and ratios from the rounds.
func (c *Cell) summarize() {
	for i, a := range c.Arms {
		for key, r := range a.Results {
			r.Median = statistics.Median(r.Rounds)
			r.Ratio = nil
			if base, ok := c.Arms[0].Results[key]; ok && i > 0 {
				ratio := statistics.Ratio(r.Rounds, base.Rounds)
				r.Ratio = &ratio
			}
			a.Results[key] = r
		}
	}
}

// line names a cell.
func (c *Cell) line() string {
	if len(c.Parameters) == 0 {
		return c.Workload
	}
	return c.Workload + " " + describe(c)
}

// arm returns the arm of that name, nil when it did not take part.
func (c *Cell) arm(name string) *Arm {
	for _, a := range c.Arms {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// parameter returns a parameter's value, empty when there is none of that name.
func (c *Cell) parameter(name string) string {
	for _, p := range c.Parameters {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// ratio returns what one arm's metric is to another's.
func (c *Cell) ratio(key, of, to string) (statistics.Interval, bool) {
	a, b := c.arm(of), c.arm(to)
	if a == nil || b == nil {
		return statistics.Interval{}, false
	}
	x, y := a.Results[key], b.Results[key]
	if len(x.Rounds) == 0 || len(y.Rounds) == 0 {
		return statistics.Interval{}, false
	}
	return statistics.Ratio(x.Rounds, y.Rounds), true
}

// workloads returns the names of the cells' workloads, each once, in order.
func (r *Report) workloads() []string {
	var names []string
	for _, c := range r.Cells {
		if !slices.Contains(names, c.Workload) {
			names = append(names, c.Workload)
		}
	}
	return names
}

// of returns the cells of one workload.
func (r *Report) of(workload string) []*Cell {
	var cells []*Cell
	for _, c := range r.Cells {
		if c.Workload == workload {
			cells = append(cells, c)
		}
	}
	return cells
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(r)
}
