package compare

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"tmpproxy/testbed/rawclient"
)

// Event is what one step, or a probe after it, let the client see.
type Event struct {
	Step   *Step
	Probe  string // the statement, for a probe
	Fields []rawclient.Field
}

// Text is the statement or command whose reply the event is.
func (e *Event) Text() string {
	if e.Probe != "" {
		return e.Probe
	}
	return e.Step.Text
}

// Value returns the value of a field, and whether it exists.
func (e *Event) Value(path string) (string, bool) {
	for _, f := range e.Fields {
		if f.Path == path {
			return f.Value, true
		}
	}
	return "", false
}

// Rows returns the rows of a result, each with its values put together.
func (e *Event) Rows(result string) []string {
	var rows []string
	last := ""
	for _, f := range e.Fields {
		at, ok := strings.CutPrefix(f.Path, result+".row[")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(at, "]")
		if len(rows) == 0 || number != last {
			rows = append(rows, "")
			last = number
		}
		rows[len(rows)-1] += f.Value + " "
	}
	return rows
}

// Difference is one field that is not the same directly and through the proxy.
type Difference struct {
	Server, Strategy, Variant string
	Path, Column              string
	Direct, Proxied           string // absent where a side has no such field
	DirectEvent, ProxiedEvent *Event
}

// Step is the step the difference belongs to.
func (d *Difference) Step() *Step { return d.DirectEvent.Step }

const absent = "(absent)"

func (d *Difference) String() string {
	after := ""
	if d.DirectEvent.Probe != "" {
		after = " then " + d.DirectEvent.Probe
	}
	return fmt.Sprintf("%s, %s, %s: %s%s: %s: direct %s, proxied %s",
		d.Server, d.Strategy, d.Variant, d.Step(), after, d.Path, short(d.Direct), short(d.Proxied))
}

// short is a value that can be printed.
func short(value string) string {
	const most = 300
	if len(value) <= most {
		return value
	}
	return fmt.Sprintf("%s… (%d bytes)", value[:most], len(value))
}

// Compare returns the differences of two runs of the same script.
func Compare(direct, proxied []Event) []Difference {
	var differences []Difference
	for i := range min(len(direct), len(proxied)) {
		differences = append(differences, compareEvents(&direct[i], &proxied[i])...)
	}
	if n, m := len(direct), len(proxied); n != m {
		last := &Event{Step: &Step{Conn: "a", Verb: "end"}}
		differences = append(differences, Difference{Path: "events", Direct: fmt.Sprint(n), Proxied: fmt.Sprint(m), DirectEvent: last, ProxiedEvent: last})
	}
	return differences
}

func compareEvents(direct, proxied *Event) []Difference {
	if slices.Equal(direct.Fields, proxied.Fields) {
		return nil
	}
	var differences []Difference
	add := func(f rawclient.Field, d, p string) {
		differences = append(differences, Difference{Path: f.Path, Column: f.Column, Direct: d, Proxied: p, DirectEvent: direct, ProxiedEvent: proxied})
	}
	theirs := map[string]string{}
	for _, f := range proxied.Fields {
		theirs[f.Path] = f.Value
	}
	ours := map[string]bool{}
	for _, f := range direct.Fields {
		ours[f.Path] = true
		value, ok := theirs[f.Path]
		if !ok {
			value = absent
		}
		if value != f.Value {
			add(f, f.Value, value)
		}
	}
	for _, f := range proxied.Fields {
		if !ours[f.Path] {
			add(f, absent, f.Value)
		}
	}
	return differences
}

// Verdict sorts the differences of a script's runs. It may be used by several goroutines.
type Verdict struct {
	script *Script
	mu     sync.Mutex
	used   map[string]bool
	ran    map[[2]string]bool // server and strategy
}

// Suggest returns the allowances that would cover a difference or a part of it, but for those that cover everything.
func (d *Difference) Suggest() []string {
	nonsense := *d
	nonsense.Path = "nonsense"
	direct, proxied, _ := numbers(d)
	var names []string
	for name, a := range Allowances {
		everything := a.Match != nil && a.Match(&nonsense)
		if whole, flags := a.covers(d, direct^proxied); !everything && (whole || flags != 0) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// NewVerdict returns a Verdict that has seen nothing.
func NewVerdict(script *Script) *Verdict {
	return &Verdict{script: script, used: map[string]bool{}, ran: map[[2]string]bool{}}
}

// Judge returns the differences of a run on a server with a strategy that nothing allows.
func (v *Verdict) Judge(server, strategy, variant string, differences []Difference) []Difference {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ran[[2]string{server, strategy}] = true
	var bad []Difference
	for _, d := range differences {
		d.Server, d.Strategy, d.Variant = server, strategy, variant
		if !v.allowed(&d) {
			bad = append(bad, d)
		}
	}
	return bad
}

func (v *Verdict) allowed(d *Difference) bool {
	direct, proxied, _ := numbers(d)
	left := direct ^ proxied
	// The step's own allowances come first.
	try := func(name, key string) bool {
		whole, flags := Allowances[name].covers(d, left)
		if whole || flags != 0 {
			v.used[key] = true
		}
		left &^= flags
		return whole || flags != 0 && left == 0
	}
	for _, name := range d.Step().Allow {
		if try(name, stepKey(d.Step(), name)) {
			return true
		}
	}
	for _, name := range v.script.Allow {
		if try(name, name) {
			return true
		}
	}
	return false
}

func stepKey(s *Step, name string) string { return fmt.Sprintf("%s at line %d", name, s.Line) }

// Unused returns the allowances that the script declares and that no difference needed. As long as the script has not run
// on all its servers with all its strategies there are none.
func (v *Verdict) Unused() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, server := range v.script.Servers {
		for _, strategy := range v.script.Strategies {
			if !v.ran[[2]string{server, strategy}] {
				return nil
			}
		}
	}
	var unused []string
	check := func(name, key string, depends []string) {
		if !v.used[key] && !Allowances[name].Varies && !slices.Contains(depends, name) && !slices.Contains(unused, key) {
			unused = append(unused, key)
		}
	}
	for _, name := range v.script.Allow {
		check(name, name, v.script.Depends)
	}
	for i := range v.script.Steps {
		step := &v.script.Steps[i]
		for _, name := range step.Allow {
			check(name, stepKey(step, name), step.Depends)
		}
	}
	return unused
}
