package proxy

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tmpproxy/session"
)

const (
	maxShapes     = 4 << 10
	maxShapeBytes = 32 << 20
	maxNames      = 64 << 10
	maxNameBytes  = 16 << 20

	// churnWindow is the number of cycles after which a shape has to have been reused as often as it cost more than natively.
	churnWindow = 20
)

// ledger is the process-wide memory of all sessions of one backend: what is known of shapes and names, and what was counted. Its
// maps are bounded; what is pushed out is learnt again. Safe for concurrent use. It is asked only about temporary tables, not on
// the way of other commands.
type ledger struct {
	log     *journal
	metrics *metrics
	now     func() int64
	maxAge  atomic.Int64

	// answering is how long the last answer of the proxy's own took, in nanoseconds, while cycles are measured. What the next one
	// takes is not known yet when the machine counts it.
	answering atomic.Int64

	seed   maphash.Seed
	shapes [ledgerParts]shapes
	names  [ledgerParts]names

	bodies atomic.Pointer[bodies] // routines: scan; nil: bodies were not read
}

// Each part of the ledger has a lock of its own, so that sessions on several processors seldom meet at one.
const ledgerParts = 16

type shapes struct {
	mu sync.Mutex
	generations[string, *shapeRecord]
}

type names struct {
	mu sync.Mutex
	generations[session.Key, *session.NameState]
}

type shapeRecord struct {
	state session.ShapeState
	info  ShapeInfo
	churn struct{ cycles, reuses, lost int }
	auto  choice
	reset resetCost
}

// Timing sums up the durations of one kind of statement.
type Timing struct {
	Count   int64   `json:"count"`
	Seconds float64 `json:"seconds"`
}

func (t *Timing) add(ns int64) {
	t.Count++
	t.Seconds += float64(ns) / float64(time.Second)
}

// CycleEnds are the two statements that a cycle begins and ends with.
type CycleEnds struct {
	Create Timing `json:"create"`
	Drop   Timing `json:"drop"`
}

// Saved is an estimate of the time that clients did not wait for CREATE and DROP: for those that were answered here, what the server
// took on average for such a statement of this shape, less what the client waited instead. The time of resets is not in it: a client
// that pauses does not wait for them, one that never pauses does.
type Saved struct {
	Seconds float64 `json:"seconds"`
	// Against says what the averages are of: "native", the client's own CREATEs as the server took them, or "spliced", those that were
	// sent in their place, perhaps with another engine, since there were no own ones.
	Against string `json:"against"`
}

// saved makes the estimate.
func (i *ShapeInfo) saved() *Saved {
	s := &Saved{Against: "native"}
	create := i.Server.Create
	if create.Count == 0 {
		s.Against, create = "spliced", i.Spliced
	}
	if i.Local.Create.Count+i.Local.Drop.Count == 0 || create.Count == 0 || i.Server.Drop.Count == 0 {
		return nil
	}
	s.Seconds = i.Local.Create.against(create) + i.Local.Drop.against(i.Server.Drop)
	return s
}

// against is how much longer as many of the others would have taken.
func (t Timing) against(other Timing) float64 {
	return float64(t.Count)*other.Seconds/float64(other.Count) - t.Seconds
}

// ShapeInfo is what was counted of one shape of CREATE TEMPORARY TABLE since the process began.
type ShapeInfo struct {
	Shape     string           `json:"shape"`
	Cycles    int64            `json:"cycles"`  // CREATEs that the proxy took part in
	Reuses    int64            `json:"reuses"`  // of these, answered from a parked table
	Parks     int64            `json:"parks"`   // DROPs answered by parking
	Settles   int64            `json:"settles"` // parked tables that were really dropped
	Deletes   int64            `json:"deletes"` // resets by DELETE
	Replays   int64            `json:"replays"` // real statements sent only to restore diagnostics
	Fallbacks map[string]int64 `json:"fallbacks,omitempty"`
	Hazards   map[string]int64 `json:"hazards,omitempty"`
	Native    bool             `json:"native"` // left alone for now: it churned, or a hazard blocks it
	Create    Timing           `json:"create"` // as the client saw it
	Drop      Timing           `json:"drop"`
	Reset     Timing           `json:"reset"` // TRUNCATEs that the client did not wait for, and those it did
	Check     Timing           `json:"check"`
	Settle    Timing           `json:"settle"`
	Local     CycleEnds        `json:"local"`            // of Create and Drop, those that were answered here
	Server    CycleEnds        `json:"server"`           // those that the server answered, as it took: the client's own statements
	Spliced   Timing           `json:"spliced"`          // CREATEs sent in place of the client's, as the server took
	Saved     *Saved           `json:"saved,omitempty"`  // nil: nothing was answered here yet, or there is nothing to compare it with
	Choice    *ChoiceInfo      `json:"choice,omitempty"` // of strategy auto
}

func newLedger(log *journal, m *metrics, now func() int64) *ledger {
	l := &ledger{log: log, metrics: m, now: now, seed: maphash.MakeSeed()}
	l.answering.Store(int64(time.Microsecond)) // until it is known
	for i := range ledgerParts {
		l.shapes[i].entries, l.shapes[i].bytes = maxShapes/ledgerParts, maxShapeBytes/ledgerParts
		l.names[i].entries, l.names[i].bytes = maxNames/ledgerParts, maxNameBytes/ledgerParts
	}
	return l
}

// shape returns the part that a shape belongs to, locked.
func (l *ledger) shape(shape string) *shapes {
	p := &l.shapes[maphash.String(l.seed, shape)%ledgerParts]
	p.mu.Lock()
	return p
}

// name returns the part that a name belongs to, locked.
func (l *ledger) name(key session.Key) *names {
	p := &l.names[maphash.Comparable(l.seed, key)%ledgerParts]
	p.mu.Lock()
	return p
}

// Shape implements session.Ledger.
func (l *ledger) Shape(shape string) session.ShapeState {
	p := l.shape(shape)
	defer p.mu.Unlock()
	if r, ok := p.get(shape, len(shape)); ok {
		return r.state
	}
	return session.ShapeState{}
}

// Name implements session.Ledger.
func (l *ledger) Name(key session.Key) session.NameState {
	var s session.NameState
	p := l.name(key)
	if n, ok := p.get(key, size(key)); ok {
		s = *n
	}
	p.mu.Unlock()
	if b := l.bodies.Load(); b != nil {
		s.Routine = b.mentions(key.Name)
	}
	return s
}

// Routines implements session.Ledger.
func (l *ledger) Routines() (known, any bool) {
	b := l.bodies.Load()
	return b != nil, b == nil || b.any()
}

// Choose implements session.Ledger.
func (l *ledger) Choose(shape string, arms session.ArmSet) session.Strategy {
	p := l.shape(shape)
	defer p.mu.Unlock()
	r := p.record(shape)
	arm := r.auto.pick(arms)
	l.tell(r)
	return arm
}

// Deletes implements session.Ledger.
func (l *ledger) Deletes(shape string) bool {
	p := l.shape(shape)
	defer p.mu.Unlock()
	return p.record(shape).reset.prefersDelete()
}

// Answering implements session.Ledger.
func (l *ledger) Answering() int64 { return l.answering.Load() }

// answeredHere takes how long an answer of the proxy's own has taken.
func (l *ledger) answeredHere(ns int64) {
	if ns > 0 {
		l.answering.Store(ns)
	}
}

// tell logs a choice that was just made, with what was measured.
func (l *ledger) tell(r *shapeRecord) {
	if !r.auto.decided {
		return
	}
	r.auto.decided = false
	i := r.auto.info()
	l.log.write(zapcore.InfoLevel, "strategy chosen", zap.String("strategy", i.Strategy), zap.Any("cycle_seconds", i.Medians),
		zap.Strings("excluded", i.Excluded), zap.String("shape", r.info.Shape))
}

func size(key session.Key) int { return len(key.Schema) + len(key.Name) }

func (p *shapes) record(shape string) *shapeRecord {
	r, ok := p.get(shape, len(shape))
	if !ok {
		r = &shapeRecord{info: ShapeInfo{Shape: shape}}
		p.put(shape, len(shape), r)
	}
	return r
}

func (p *names) record(key session.Key) *session.NameState {
	n, ok := p.get(key, size(key))
	if !ok {
		n = &session.NameState{}
		p.put(key, size(key), n)
	}
	return n
}

// Note implements session.Ledger.
func (l *ledger) Note(n session.Note) {
	l.metrics.note(&n)
	switch n.Kind {
	case session.NoteSeen, session.NoteBlockName:
		p := l.name(n.Name)
		defer p.mu.Unlock()
		if n.Kind == session.NoteSeen {
			p.record(n.Name).Seen = true
		} else {
			p.record(n.Name).Native = n.Until
		}
		return
	}
	if n.Shape == "" {
		return
	}
	p := l.shape(n.Shape)
	defer p.mu.Unlock()
	r := p.record(n.Shape)
	switch n.Kind {
	case session.NoteCycle:
		r.info.Cycles++
		if r.churn.cycles++; r.churn.cycles >= churnWindow {
			if r.churn.reuses < r.churn.lost && !r.auto.measuring() { // with one arm after the other, each reuses little
				r.state.Native = l.now() + l.maxAge.Load()
				l.log.write(zapcore.InfoLevel, "shape left to the server: its tables are dropped oftener than reused", zap.String("shape", r.info.Shape),
					zap.Int("reuses", r.churn.reuses), zap.Int("lost", r.churn.lost))
			}
			r.churn.cycles, r.churn.reuses, r.churn.lost = 0, 0, 0
		}
	case session.NoteReuse:
		r.info.Reuses++
		r.churn.reuses++
	case session.NotePark:
		r.info.Parks++
	case session.NoteSettle:
		r.info.Settles++
		if n.Reason != "strategy" { // strategy auto has another arm measured: that says nothing about the shape
			r.churn.lost++
		}
	case session.NoteReplay:
		r.info.Replays++
		r.churn.lost++
	case session.NoteFallback:
		count(&r.info.Fallbacks, n.Reason)
	case session.NoteHazard:
		r.auto.exclude(session.StrategyInnoDB)
		if count(&r.info.Hazards, n.Reason) == 1 {
			l.log.write(zapcore.WarnLevel, "a difference between the engines may have shown", zap.String("hazard", n.Reason), zap.String("shape", r.info.Shape))
		}
	case session.NoteReset:
		r.reset.took(n.Deleted, n.Took)
		if n.Deleted {
			r.info.Deletes++
		}
	case session.NoteEnd:
		if c := n.Cycle; c.Fallback == "" && (c.Strategy == session.StrategyNative || c.Reused) {
			r.auto.measured(c.Strategy, c.Time())
			l.tell(r)
		}
	case session.NoteProved:
		r.state.Proved = true
	case session.NoteBlockShape:
		r.state.Native = n.Until
	}
}

func count(m *map[string]int64, key string) int64 {
	if *m == nil {
		*m = map[string]int64{}
	}
	(*m)[key]++
	return (*m)[key]
}

// answerer says who answered a CREATE or DROP of a client.
type answerer uint8

const (
	byUs answerer = iota
	byServer
	bySplicing // the server, to a statement of ours
)

// answered adds a statement of a client: the duration that the client saw, and that of the last statement to the backend, if there was one.
func (l *ledger) answered(class session.Class, shape string, ns int64, by answerer, server int64) {
	l.metrics.measure(class, ns)
	if shape == "" || class != session.ClassCreate && class != session.ClassDrop {
		return
	}
	p := l.shape(shape)
	defer p.mu.Unlock()
	i := &p.record(shape).info
	if class == session.ClassCreate {
		i.Create.add(ns)
	} else {
		i.Drop.add(ns)
	}
	switch {
	case by == byUs && class == session.ClassCreate:
		i.Local.Create.add(ns)
	case by == byUs:
		i.Local.Drop.add(ns)
	case by == byServer && class == session.ClassCreate:
		i.Server.Create.add(server)
	case by == byServer:
		i.Server.Drop.add(server)
	case class == session.ClassCreate:
		i.Spliced.add(server)
	}
}

// measure adds the duration of one statement of ours, in nanoseconds, as the backend took.
func (l *ledger) measure(class session.Class, shape string, ns int64) {
	l.metrics.measure(class, ns)
	var timing func(*ShapeInfo) *Timing
	switch class {
	case session.ClassReset:
		timing = func(i *ShapeInfo) *Timing { return &i.Reset }
	case session.ClassCheck:
		timing = func(i *ShapeInfo) *Timing { return &i.Check }
	case session.ClassSettle:
		timing = func(i *ShapeInfo) *Timing { return &i.Settle }
	}
	if shape == "" || timing == nil {
		return
	}
	p := l.shape(shape)
	defer p.mu.Unlock()
	timing(&p.record(shape).info).add(ns)
}

// Shapes lists what was counted, the most cycles first.
func (l *ledger) Shapes() []ShapeInfo {
	now := l.now()
	list := []ShapeInfo{}
	for i := range l.shapes {
		p := &l.shapes[i]
		p.mu.Lock()
		p.each(func(r *shapeRecord) {
			i := r.info
			i.Fallbacks, i.Hazards = clone(i.Fallbacks), clone(i.Hazards)
			i.Native = r.state.Native > now
			i.Choice = r.auto.info()
			i.Saved = i.saved()
			list = append(list, i)
		})
		p.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b ShapeInfo) int {
		return cmp.Or(cmp.Compare(b.Cycles, a.Cycles), cmp.Compare(a.Shape, b.Shape))
	})
	return list
}

func clone(m map[string]int64) map[string]int64 {
	if m == nil {
		return nil
	}
	c := make(map[string]int64, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// generations is a map bounded in entries and bytes: when the young half is full, the old half is forgotten and the young one
// becomes the old. What is asked for stays. Not safe for concurrent use.
type generations[K comparable, V any] struct {
	entries, bytes int // bounds, for both halves together
	young, old     map[K]V
	used           int // bytes of young
}

func (g *generations[K, V]) get(k K, size int) (V, bool) {
	if v, ok := g.young[k]; ok {
		return v, true
	}
	v, ok := g.old[k]
	if ok {
		delete(g.old, k)
		g.put(k, size, v)
	}
	return v, ok
}

func (g *generations[K, V]) put(k K, size int, v V) {
	if g.young == nil || len(g.young) >= g.entries/2 || g.used+size > g.bytes/2 {
		g.old, g.young, g.used = g.young, map[K]V{}, 0
	}
	g.young[k] = v
	g.used += size
}

func (g *generations[K, V]) each(f func(V)) {
	for _, v := range g.young {
		f(v)
	}
	for _, v := range g.old {
		f(v)
	}
}
