package session

import (
	"slices"

	"tmpproxy/rewrite"
)

const (
	maxCycles = 64 // cycles of a session that are measured at a time; beyond it the oldest is given up
	maxTally  = 64 // shapes of a session whose cycles are counted
)

// Cycle is one cycle of a temporary table as its client saw it, from the CREATE to the DROP, whoever answered them. Durations are in
// nanoseconds, and in each the client's statement was waited for as a whole: one that names two tables counts in both cycles.
type Cycle struct {
	Name       Key      // as in the CREATE
	Shape      string   // rewrite.Create.Shape
	Strategy   Strategy // what was done with it; StrategyNative whenever it was left to the server
	Fallback   string   // why the CREATE was left to the server, though the policy's strategy is another: as in NoteFallback; or ""
	Nth        int      // of this shape in the session, since it is measured, from 1 on; 0: not known, there are too many shapes
	Reused     bool     // the CREATE was answered from a table that was there
	Began      int64    // when the CREATE was taken up: monotonic
	Create     int64    // duration of the CREATE, with what it had to wait for
	Drop       int64    // of the DROP; 0 if a CREATE OR REPLACE has ended the cycle
	Use        int64    // of the statements between them that name the table
	Statements int      // their number
	Errors     int      // how many of them were answered with an error
	Affected   uint64   // rows that they have changed, as the server says
	Reset      int64    // background work for a reused table, between the cycle before and this one: the look at it and its emptying

	named bool // by the command in progress
}

// Time is what the client has spent in the cycle.
func (c *Cycle) Time() int64 { return c.Create + c.Use + c.Drop }

// meter measures the cycles of a session while somebody wants to know: Policy.Measure. It knows of tables only what the client's own
// statements and their replies say, so that it means the same under every strategy.
type meter struct {
	open  []Cycle
	tally []tally
}

type tally struct {
	shape string
	n     int
}

// opening is what is known, before it is answered, of a CREATE that is to be measured.
type opening struct {
	key      Key
	shape    string
	measured bool
	stays    bool // IF NOT EXISTS
	replaces bool // OR REPLACE
}

// opens notes that the command in progress is the CREATE of a cycle.
func (m *Machine) opens(c *rewrite.Create) {
	f := &m.flow
	if c == nil || !c.Named || c.Shape == "" || !f.policy.Measure {
		return
	}
	if key, known := m.key(c.Name); known {
		f.detail.opening = opening{key: key, shape: c.Shape, measured: true, stays: c.IfNotExists && !c.OrReplace, replaces: c.OrReplace}
	}
}

// mark marks the cycles whose table a text names.
func (m *meter) mark(text []byte) {
	for i := range m.open {
		m.open[i].named = rewrite.Mentions(text, m.open[i].Name.Name)
	}
}

// index returns where the cycle of a table is, or -1.
func (m *meter) index(key Key) int {
	i := slices.IndexFunc(m.open, func(c Cycle) bool { return c.Name == key })
	if i < 0 {
		i = slices.IndexFunc(m.open, func(c Cycle) bool { return alike(c.Name, key) })
	}
	return i
}

// measure takes over what the command that ends now means to the cycles.
func (m *Machine) measure() {
	f := &m.flow
	creates := f.class == ClassCreate && !f.failed && f.detail.opening.measured
	if m.meter == nil && !creates {
		return
	}
	if !f.policy.Measure {
		m.meter = nil
		return
	}
	if m.meter == nil {
		m.meter = &meter{}
	}
	switch {
	case creates:
		m.begins(&f.detail.opening)
	case f.class == ClassDrop && !f.failed:
		for _, k := range f.detail.keys {
			if i := m.meter.index(k); i >= 0 {
				m.ends(i, m.elapsed())
			}
		}
	}
	for i := range m.meter.open {
		c := &m.meter.open[i]
		if !c.named {
			continue
		}
		c.named = false
		c.Use += m.elapsed()
		c.Statements++
		if f.failed {
			c.Errors++
		}
		c.Affected += f.affected
	}
	if f.statement.Has(rewrite.VerbDatabase) {
		m.meter.open = nil // they may be gone
	}
}

// begins begins a cycle.
func (m *Machine) begins(o *opening) {
	if i := m.meter.index(o.key); i >= 0 {
		switch {
		case o.stays:
			return // it goes on
		case o.replaces:
			m.ends(i, 0)
		default: // its end was not seen
			m.meter.open = slices.Delete(m.meter.open, i, i+1)
		}
	}
	f := &m.flow
	c := Cycle{
		Name: o.key, Shape: o.shape, Fallback: f.detail.fallback, Reused: f.then == doReuse || f.then == doRefill, Began: f.began, Create: m.elapsed(),
	}
	if t := m.find(o.key); t != nil {
		switch {
		case t.state == stateLive:
			c.Strategy = t.arm
		case t.converted:
			c.Strategy = StrategyInnoDB
		}
		if c.Reused {
			c.Reset = t.behind
		}
	}
	if len(m.meter.open) >= maxCycles {
		m.meter.open = slices.Delete(m.meter.open, 0, 1)
	}
	m.meter.open = append(m.meter.open, c)
}

// ends ends a cycle whose DROP has taken so long.
func (m *Machine) ends(i int, drop int64) {
	c := &m.meter.open[i]
	c.Drop = drop
	c.Nth = m.meter.count(c.Shape)
	m.note(Note{Kind: NoteEnd, Shape: c.Shape, Name: c.Name, Cycle: c})
	m.meter.open = slices.Delete(m.meter.open, i, i+1)
}

// count counts a cycle of a shape.
func (m *meter) count(shape string) int {
	for i := range m.tally {
		if m.tally[i].shape == shape {
			m.tally[i].n++
			return m.tally[i].n
		}
	}
	if len(m.tally) == maxTally {
		return 0
	}
	m.tally = append(m.tally, tally{shape, 1})
	return 1
}
