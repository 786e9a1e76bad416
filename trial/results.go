package trial

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxHistory bounds the points that are kept; when there are more, every second one is forgotten.
const maxHistory = 480

// Results are all that is known of a trial: what is stored, and the answer of GET /api/trial/export, which can be added to the results that
// other replicas have of the same trial. It is not safe for concurrent use.
type Results struct {
	Spec    Spec            `json:"spec"` // as it was started
	State   string          `json:"state"`
	Started time.Time       `json:"started"`
	Stopped *time.Time      `json:"stopped,omitempty"`
	Arms    []*ArmResults   `json:"arms"`
	Overall *ShapeResults   `json:"overall"`
	Shapes  []*ShapeResults `json:"shapes"` // in the order of their first cycle
	History []Point         `json:"history"`

	note string // see Report.Note
}

// ArmResults are the sums of an arm.
type ArmResults struct {
	Weight        float64    `json:"weight"` // now
	Sessions      int64      `json:"sessions"`
	Errors        int64      `json:"errors"`
	Statements    Histogram  `json:"statements"`
	Failing       series     `json:"failing"` // shares of statements that were answered with an error
	StoppedReason string     `json:"stopped_reason,omitempty"`
	StoppedAt     *time.Time `json:"stopped_at,omitempty"`
}

// ShapeResults are the sums of a shape.
type ShapeResults struct {
	Shape string  `json:"shape"`
	Cells []*Cell `json:"cells"` // in the order of the arms
}

// Cell is what one arm's sessions spent in the cycles of one shape: sums, durations in seconds.
type Cell struct {
	Cycles int64     `json:"cycles"`
	Reused int64     `json:"reused"`
	Errors int64     `json:"errors"`
	Rows   uint64    `json:"rows"`
	Create float64   `json:"create"`
	Drop   float64   `json:"drop"`
	Use    float64   `json:"use"`
	Reset  float64   `json:"reset"`
	Times  Histogram `json:"times"`
	Closed series    `json:"closed"` // logarithms of cycle times, one observation for each session
}

func newResults(s Spec, now time.Time) *Results {
	r := &Results{Spec: s, State: StateRunning, Started: now, History: []Point{}, Shapes: []*ShapeResults{}}
	for _, a := range s.Arms {
		r.Arms = append(r.Arms, &ArmResults{Weight: a.Weight})
	}
	r.Overall = r.newShape("")
	return r
}

func (r *Results) newShape(shape string) *ShapeResults {
	s := &ShapeResults{Shape: shape}
	for range r.Spec.Arms {
		s.Cells = append(s.Cells, &Cell{})
	}
	return s
}

// Check says whether results that were read hang together.
func (r *Results) Check() error {
	if err := r.Spec.Check(); err != nil {
		return err
	}
	n := len(r.Spec.Arms)
	if len(r.Arms) != n || r.Overall == nil || slices.Contains(r.Arms, nil) {
		return errors.New("results without some of their arms")
	}
	for _, s := range append(slices.Clone(r.Shapes), r.Overall) {
		if s == nil || len(s.Cells) != n || slices.Contains(s.Cells, nil) {
			return errors.New("results of a shape without some of their arms")
		}
	}
	return nil
}

// copy returns what does not change with r.
func (r *Results) copy() *Results {
	c := *r
	c.Arms, c.Shapes, c.History = nil, make([]*ShapeResults, 0, len(r.Shapes)), slices.Clone(r.History)
	for _, a := range r.Arms {
		b := *a
		b.Statements = a.Statements.copy()
		c.Arms = append(c.Arms, &b)
	}
	c.Overall = r.Overall.copy()
	for _, s := range r.Shapes {
		c.Shapes = append(c.Shapes, s.copy())
	}
	return &c
}

func (s *ShapeResults) copy() *ShapeResults {
	c := &ShapeResults{Shape: s.Shape}
	for _, x := range s.Cells {
		y := *x
		y.Times = x.Times.copy()
		c.Cells = append(c.Cells, &y)
	}
	return c
}

// Merge adds the results that another replica has of the same trial.
func (r *Results) Merge(o *Results) error {
	if err := o.Check(); err != nil {
		return err
	}
	same := func(a, b ArmSpec) bool { return a.Name == b.Name && a.Strategy == b.Strategy && a.Reset == b.Reset }
	if r.Spec.Name != o.Spec.Name || r.Spec.Assignment != o.Spec.Assignment || !slices.EqualFunc(r.Spec.Arms, o.Spec.Arms, same) {
		return fmt.Errorf("trial %q is not trial %q with the same arms and assignment", o.Spec.Name, r.Spec.Name)
	}
	if o.Started.Before(r.Started) {
		r.Started = o.Started
	}
	if o.State == StateRunning {
		r.State, r.Stopped = StateRunning, nil
	}
	sum := r.Spec.Assignment == AssignRandom
	for i, a := range o.Arms {
		b := r.Arms[i]
		b.Sessions += a.Sessions
		b.Errors += a.Errors
		b.Failing.merge(&a.Failing)
		if b.StoppedReason == "" {
			b.StoppedReason, b.StoppedAt = a.StoppedReason, a.StoppedAt
		}
		if err := b.Statements.merge(&a.Statements); err != nil {
			return err
		}
	}
	if err := r.Overall.merge(o.Overall, sum); err != nil {
		return err
	}
	for _, s := range o.Shapes {
		i := slices.IndexFunc(r.Shapes, func(t *ShapeResults) bool { return t.Shape == s.Shape })
		if i < 0 {
			r.Shapes = append(r.Shapes, s.copy())
		} else if err := r.Shapes[i].merge(s, sum); err != nil {
			return err
		}
	}
	r.History = nil // each replica's is about its own sessions
	if !sum {
		r.note = fmt.Sprintf("verdicts are those of the proxy that has seen the most %ss of the shape, since one that two proxies have seen cannot be told from two", r.Spec.Assignment)
	}
	return nil
}

// merge adds the cycles of another replica. The observations are added only if sum says so: those of a user, schema or host that both
// have seen are not two, so that then the replica counts that has the most.
func (s *ShapeResults) merge(o *ShapeResults, sum bool) error {
	better := !sum && o.observations() > s.observations()
	for i, c := range o.Cells {
		d := s.Cells[i]
		d.Cycles += c.Cycles
		d.Reused += c.Reused
		d.Errors += c.Errors
		d.Rows += c.Rows
		d.Create += c.Create
		d.Drop += c.Drop
		d.Use += c.Use
		d.Reset += c.Reset
		if sum {
			d.Closed.merge(&c.Closed)
		} else if better {
			d.Closed = c.Closed
		}
		if err := d.Times.merge(&c.Times); err != nil {
			return err
		}
	}
	return nil
}

func (s *ShapeResults) observations() (n int64) {
	for _, c := range s.Cells {
		n += c.Closed[0].N
	}
	return n
}

// forget has the verdicts begin anew.
func (r *Results) forget() {
	for _, a := range r.Arms {
		a.Failing = series{}
	}
	for _, s := range append(slices.Clone(r.Shapes), r.Overall) {
		for _, c := range s.Cells {
			c.Closed = series{}
		}
	}
}

// Report tells what the results say.
func (r *Results) Report() *Report {
	control := r.Spec.control()
	p := &Report{
		Name: r.Spec.Name, State: r.State, Started: &r.Started, Stopped: r.Stopped, Assignment: r.Spec.Assignment, Guardrail: r.Spec.Guardrail,
		Control: r.Spec.Arms[control].Name, Overall: r.shape(r.Overall), Shapes: []ShapeReport{}, History: append([]Point{}, r.History...), Note: r.note,
	}
	for i, a := range r.Arms {
		s := r.Spec.Arms[i]
		p.Arms = append(p.Arms, ArmReport{
			Name: s.Name, Strategy: s.Strategy, Reset: s.Reset, Weight: a.Weight, Sessions: a.Sessions, Cycles: r.Overall.Cells[i].Cycles,
			Errors: a.Errors, Statements: a.Statements.latency(), StoppedReason: a.StoppedReason, StoppedAt: a.StoppedAt,
		})
	}
	for _, s := range r.Shapes {
		p.Shapes = append(p.Shapes, r.shape(s))
	}
	slices.SortStableFunc(p.Shapes, func(a, b ShapeReport) int { return cmp.Compare(b.cycles(), a.cycles()) })
	return p
}

func (s *ShapeReport) cycles() (n int64) {
	for _, a := range s.Arms {
		n += a.Cycles
	}
	return n
}

func (r *Results) shape(s *ShapeResults) ShapeReport {
	p := ShapeReport{Shape: s.Shape, Verdicts: []Verdict{}}
	control := r.Spec.control()
	for i, c := range s.Cells {
		n := max(float64(c.Cycles), 1)
		p.Arms = append(p.Arms, ShapeArm{
			Arm: r.Spec.Arms[i].Name, Cycles: c.Cycles, Sessions: c.Closed[0].N, Median: c.Times.quantile(0.5), P99: c.Times.quantile(0.99),
			Create: c.Create / n, Drop: c.Drop / n, Statements: c.Use / n, Reset: c.Reset / n, Reused: c.Reused, Errors: c.Errors, Rows: c.Rows,
			Histogram: c.Times.buckets(),
		})
		if i != control {
			p.Verdicts = append(p.Verdicts, r.verdict(s, i))
		}
	}
	return p
}
