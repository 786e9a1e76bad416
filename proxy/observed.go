package proxy

import (
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"tmpproxy/advice"
	"tmpproxy/rewrite"
	"tmpproxy/session"
)

// maxObservedNames bounds the names that are remembered of a shape.
const maxObservedNames = 256

// observed is what the sessions' observers tell, and the ledger that the machines in them have: of what would be done. Its maps are
// bounded. Safe for concurrent use; nothing is told of other commands than those about temporary tables.
type observed struct {
	*ledger
	real *ledger // that of what is done, which knows the bodies of routines

	mu     sync.Mutex
	since  int64               // when the first policy with Observe was put in force; 0: never
	all    session.Observation // all sessions
	unread map[string]int64    // CREATEs of no known shape, by reason
	shapes generations[string, *observedShape]
}

type observedShape struct {
	session.Observation
	names    map[string]struct{}
	newNames int64
	settles  map[string]int64
	taints   map[string]int64
}

func newObserved(real *ledger) *observed {
	o := &observed{real: real, ledger: newLedger(newJournal(zap.NewNop()), newMetrics(), real.now)}
	o.shapes.entries, o.shapes.bytes = maxShapes, maxShapeBytes
	return o
}

// setPolicy takes over what is in force.
func (o *observed) setPolicy(p *session.Policy) {
	o.maxAge.Store(p.MaxAge)
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.Observe != nil && o.since == 0 {
		o.since = o.now()
	}
}

// Name implements session.Ledger.
func (o *observed) Name(key session.Key) session.NameState {
	s := o.ledger.Name(key)
	if b := o.real.bodies.Load(); b != nil {
		s.Routine = b.mentions(key.Name)
	}
	return s
}

// Routines implements session.Ledger.
func (o *observed) Routines() (known, any bool) { return o.real.Routines() }

// shape returns what is known of a shape. The lock is held.
func (o *observed) shape(shape string) *observedShape {
	s, ok := o.shapes.get(shape, len(shape))
	if !ok {
		s = &observedShape{}
		o.shapes.put(shape, len(shape), s)
	}
	return s
}

// Note implements session.Ledger.
func (o *observed) Note(n session.Note) {
	o.ledger.Note(n)
	switch n.Kind {
	case session.NoteSettle, session.NoteTaint, session.NoteFallback:
	default:
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case n.Shape == "" && n.Kind == session.NoteFallback:
		count(&o.unread, n.Reason)
	case n.Shape == "":
	case n.Kind == session.NoteSettle:
		count(&o.shape(n.Shape).settles, n.Reason)
	case n.Kind == session.NoteTaint:
		count(&o.shape(n.Shape).taints, n.Reason)
	}
}

// Observe implements session.Watch.
func (o *observed) Observe(p *session.Observation) {
	o.real.metrics.observed.Add(float64(p.Cycles))
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.Shape == "" {
		o.all.Add(p)
		return
	}
	s := o.shape(p.Shape)
	s.Add(p)
	if p.Cycles == 0 {
		return
	}
	if _, ok := s.names[p.Name.Name]; ok {
		return
	}
	s.newNames++
	if s.names == nil {
		s.names = map[string]struct{}{}
	}
	if len(s.names) < maxObservedNames {
		s.names[p.Name.Name] = struct{}{}
	}
}

// Counts lists what was seen of each shape.
func (o *observed) Counts() []advice.Counts {
	done := map[string]ShapeInfo{}
	for _, i := range o.Shapes() {
		done[i.Shape] = i
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []advice.Counts
	o.shapes.each(func(s *observedShape) {
		if s.Shape == "" {
			return // only noted so far
		}
		i := done[s.Shape]
		c := advice.Counts{
			Shape: s.Shape, Server: "MySQL", Engine: engineNames[s.Engine], Keep: s.Keep.String(),
			Sessions: s.Sessions, Cycles: s.Cycles, Undropped: s.Undropped, Transactions: s.Transactions, Unordered: s.Unordered,
			RolledBack: s.RolledBack, Deadlocks: s.Deadlocks, FailedWrites: s.Failed, Names: s.newNames, Commits: s.Commits, Rows: s.Rows, MostRows: s.MostRows,
			Create: took(s.Create), Drop: took(s.Drop), Spare: took(s.Spare), Use: took(s.Use), Busy: took(s.Busy), Share: s.Share,
			Reuses: i.Reuses, Answered: took(s.Answered), Emptied: took(s.Emptied), Resets: s.Resets, Checks: s.Checks, Replays: i.Replays,
			Settles: maps.Clone(s.settles), Fallbacks: i.Fallbacks, Taints: maps.Clone(s.taints), Churned: i.Native, Gaps: slices.Clone(s.Gaps[:]),
		}
		if s.MariaDB {
			c.Server = "MariaDB"
		}
		if s.Converts {
			c.Convert = s.Convert.String()
		}
		list = append(list, c)
	})
	return list
}

var engineNames = [...]string{
	rewrite.EngineNone: "default", rewrite.EngineInnoDB: "InnoDB", rewrite.EngineMemory: "MEMORY", rewrite.EngineMyISAM: "MyISAM",
	rewrite.EngineAria: "Aria", rewrite.EngineOther: "other",
}

func took(t session.Took) advice.Took {
	return advice.Took{Count: t.Count, Seconds: float64(t.Nanos) / float64(time.Second)}
}

// Advice says what caching would gain, by what was observed. It measures what the proxy itself costs, which takes some tenths of a second.
// Safe for concurrent use.
func (s *Server) Advice() advice.Report {
	o := s.shared.observed
	r := advice.Report{Observing: s.shared.policy.Load().Observe != nil, Assumptions: s.hop.measure(s.options.Driver, s.options.Monitor)}
	counts := o.Counts()
	o.mu.Lock()
	r.Sessions, r.Busy, r.Unread = o.all.Sessions, took(o.all.Busy), maps.Clone(o.unread)
	if o.since > 0 {
		r.Seconds = float64(o.now()-o.since) / float64(time.Second)
	}
	o.mu.Unlock()
	return advice.New(r, counts)
}
