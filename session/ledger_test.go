package session

import "fmt"

// memory is a deterministic Ledger. It never forgets by itself.
type memory struct {
	shapes map[string]*ShapeState
	churn  map[string]*churn
	names  map[Key]*NameState
	known  bool // RoutinesScan: bodies were read
	any    bool // the server has routines
	notes  []Note
	record bool // keep notes
	counts [NoteEnd + 1]int
	delete bool     // what Deletes says
	arm    Strategy // what Choose says

	answering int64
}

type churn struct{ cycles, reuses, lost int }

func newMemory() *memory {
	return &memory{shapes: map[string]*ShapeState{}, churn: map[string]*churn{}, names: map[Key]*NameState{}}
}

func (l *memory) Shape(shape string) ShapeState {
	if s := l.shapes[shape]; s != nil {
		return *s
	}
	return ShapeState{}
}

func (l *memory) Name(key Key) NameState {
	if n := l.names[key]; n != nil {
		return *n
	}
	return NameState{}
}

func (l *memory) Routines() (known, any bool) { return l.known, l.any }

// Choose returns what the script says, if that may be.
func (l *memory) Choose(_ string, arms ArmSet) Strategy {
	if !arms.Has(l.arm) {
		return StrategyNative
	}
	return l.arm
}

func (l *memory) Deletes(string) bool { return l.delete }

func (l *memory) Answering() int64 { return l.answering }

func (l *memory) shape(shape string) (*ShapeState, *churn) {
	if l.shapes[shape] == nil {
		l.shapes[shape], l.churn[shape] = &ShapeState{}, &churn{}
	}
	return l.shapes[shape], l.churn[shape]
}

func (l *memory) name(key Key) *NameState {
	if l.names[key] == nil {
		l.names[key] = &NameState{}
	}
	return l.names[key]
}

func (l *memory) Note(n Note) {
	l.counts[n.Kind]++
	if l.record {
		if n.Cycle != nil {
			c := *n.Cycle
			n.Cycle = &c
		}
		l.notes = append(l.notes, n)
	}
	s, c := l.shape(n.Shape)
	switch n.Kind {
	case NoteSeen:
		l.name(n.Name).Seen = true
	case NoteBlockName:
		l.name(n.Name).Native = n.Until
	case NoteProved:
		s.Proved = true
	case NoteBlockShape:
		s.Native = n.Until
	case NoteCycle:
		if c.cycles++; c.cycles == 20 {
			if c.reuses < c.lost {
				s.Native = 1 << 62
			}
			*c = churn{}
		}
	case NoteReuse:
		c.reuses++
	case NoteSettle, NoteReplay:
		c.lost++
	}
}

var noteNames = [...]string{
	NoteCycle: "cycle", NoteSeen: "seen", NoteReuse: "reuse", NotePark: "park", NoteSettle: "settle", NoteReplay: "replay",
	NoteFallback: "fallback", NoteHazard: "hazard", NoteProved: "proved", NoteBlockShape: "block_shape",
	NoteBlockName: "block_name", NoteTaint: "taint", NoteReset: "reset", NoteEnd: "end",
}

func (n Note) String() string {
	s := noteNames[n.Kind]
	if n.Name.Name != "" {
		s += " " + n.Name.Schema + "." + n.Name.Name
	}
	if n.Reason != "" {
		s += " " + n.Reason
	}
	if n.Kind == NoteReset {
		s += fmt.Sprintf(" deleted=%v %dms", n.Deleted, n.Took/1e6)
	}
	if c := n.Cycle; c != nil {
		s += fmt.Sprintf(" %s #%d create=%d use=%d drop=%d", [...]string{"native", "keep", "innodb"}[c.Strategy], c.Nth, c.Create/1e6, c.Use/1e6, c.Drop/1e6)
		if c.Reused {
			s += fmt.Sprintf(" reused reset=%d", c.Reset/1e6)
		}
		if c.Statements > 0 {
			s += fmt.Sprintf(" statements=%d", c.Statements)
		}
		if c.Errors > 0 {
			s += fmt.Sprintf(" errors=%d", c.Errors)
		}
		if c.Affected > 0 {
			s += fmt.Sprintf(" rows=%d", c.Affected)
		}
		if c.Fallback != "" {
			s += " fallback=" + c.Fallback
		}
	}
	return s
}

var (
	stepNames = [...]string{
		StepForward: "forward", StepReplace: "replace", StepRelease: "release", StepInject: "inject", StepReply: "reply",
		StepFail: "fail", StepWait: "wait", StepRaw: "raw", StepDone: "done",
	}
	classNames = [...]string{
		ClassOther: "other", ClassCreate: "create", ClassDrop: "drop", ClassUse: "use", ClassReset: "reset", ClassCheck: "check",
		ClassSettle: "settle", ClassReplay: "replay", ClassPreserve: "preserve",
	}
)

func (s Step) String() string {
	out := stepNames[s.Kind]
	if s.SQL != "" {
		out += " " + s.SQL
	}
	if s.Kind == StepReply {
		out += fmt.Sprintf(" flags=%#x", s.Status)
		if s.Warnings > 0 {
			out += fmt.Sprintf(" warnings=%d", s.Warnings)
		}
	}
	if s.Class != ClassOther {
		out += " [" + classNames[s.Class] + "]"
	}
	return out
}
