package trial

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tmpproxy/session"
)

const (
	maxShapes  = 200              // of a trial that are told apart; cycles of others count in the overall comparison only
	maxUnits   = 10_000           // users, schemas or hosts that are remembered; sessions of others are assigned but do not count
	saveEvery  = 5 * time.Second  // what a crash may lose
	pointEvery = 15 * time.Second // of the history, at first
)

// Options say how trials are run.
type Options struct {
	Dir       string             // where results are kept; "" for nowhere
	Guardrail float64            // of trials that do not say
	Native    func() bool        // whether all sessions are left alone, whatever a trial says; nil: never
	Changed   func(running bool) // called when a trial begins or ends; nil: nobody wants to know

	// Tests set these.
	now    func() time.Time
	random func() float64
	still  bool // nothing happens by itself: see tick
}

// Trials runs one trial at a time and keeps its results. Safe for concurrent use.
type Trials struct {
	log     *zap.Logger
	options Options

	control sync.Mutex // held by what begins and ends trials

	mu      sync.Mutex // guards what follows, and the results; held for microseconds
	run     *run       // nil: there was none
	dirty   bool       // something is not stored yet
	archive *archive   // nil: it is not

	quit chan struct{}
	done chan struct{}
}

// run is one trial.
type run struct {
	t       *Trials
	results *Results
	arms    []*arm
	shapes  map[string]*ShapeResults
	units   map[string]*unitRecord // of assignments by hash
	change  int                    // of the weights: how many there were
	step    time.Duration          // between points of the history
	pointed time.Time
	over    bool
}

// arm is what sessions of an arm ask.
type arm struct {
	index    int
	strategy session.Strategy
	reset    string
	stopped  bool
	derived  atomic.Pointer[derived] // nil: to be made
}

// derived is the policy of an arm, made of the one that is in force without a trial.
type derived struct {
	base   *session.Policy
	policy *session.Policy
	active bool  // its sessions are measured
	since  int64 // cycles that began before do not count: monotonic
}

// unitRecord is what was closed and what was not of a session, or of all sessions of a user, schema or host.
type unitRecord struct {
	overall cluster
	failing cluster
	shapes  []shapeCluster
}

type shapeCluster struct {
	shape *ShapeResults
	cluster
}

// New opens the results in Options.Dir and goes on with the trial that was running last. Close ends it.
func New(log *zap.Logger, o Options) (*Trials, error) {
	if o.now == nil {
		o.now = time.Now
	}
	if o.random == nil {
		o.random = rand.Float64
	}
	if o.Native == nil {
		o.Native = func() bool { return false }
	}
	if o.Changed == nil {
		o.Changed = func(bool) {}
	}
	t := &Trials{log: log, options: o, quit: make(chan struct{}), done: make(chan struct{})}
	if o.Dir != "" {
		results, err := latest(o.Dir)
		if err != nil {
			return nil, err
		}
		if results != nil {
			s, err := openArchive(o.Dir, results.Spec.Name)
			if err != nil {
				return nil, err
			}
			if results.State == StateRunning && results.Spec.Assignment != AssignRandom {
				results.forget() // who has counted already is not known any more
			}
			t.run, t.archive = t.newRun(results), s
			log.Info("results of a trial found", zap.String("trial", results.Spec.Name), zap.String("state", results.State))
		}
	}
	go t.keep()
	return t, nil
}

func (t *Trials) newRun(r *Results) *run {
	n := &run{t: t, results: r, shapes: map[string]*ShapeResults{}, units: map[string]*unitRecord{}, step: pointEvery, over: r.State != StateRunning}
	for i, a := range r.Spec.Arms {
		n.arms = append(n.arms, &arm{index: i, strategy: strategies[a.Strategy], reset: a.Reset, stopped: r.Arms[i].StoppedReason != ""})
	}
	for _, s := range r.Shapes {
		n.shapes[s.Shape] = s
	}
	return n
}

// SetGuardrail changes the guardrail of trials to come that do not say, and that of the one that runs if it is this one; it may be nil.
func (t *Trials) SetGuardrail(share float64, running *Spec) {
	t.control.Lock()
	defer t.control.Unlock()
	t.options.Guardrail = share
	t.mu.Lock()
	defer t.mu.Unlock()
	if running != nil && t.run != nil && !t.run.over && t.run.results.Spec.equal(running) {
		t.run.results.Spec.Guardrail = share
		t.dirty = true
	}
}

// Running says whether a trial is running.
func (t *Trials) Running() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.run != nil && !t.run.over
}

// Has says whether the trial that is running, or was last, is this one, whatever its guardrail.
func (t *Trials) Has(s *Spec) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.run != nil && t.run.results.Spec.equal(s)
}

// Start begins a trial. It fails while one is running. The results of an earlier one of the same name are replaced.
func (t *Trials) Start(s Spec) error {
	t.control.Lock()
	defer t.control.Unlock()
	s.Arms = slices.Clone(s.Arms)
	if s.Guardrail == 0 {
		s.Guardrail = t.options.Guardrail
	}
	if err := s.Check(); err != nil {
		return err
	}
	if t.Running() {
		return &BusyError{t.Name()}
	}
	if t.options.Native() {
		return errors.New("the strategy in force is native, which goes before any trial: set another one")
	}
	r := t.newRun(newResults(s, t.options.now().UTC().Truncate(time.Millisecond)))
	var kept *archive
	if t.options.Dir != "" {
		var err error
		if kept, err = createArchive(t.options.Dir, s.Name); err != nil {
			return err
		}
		if err := kept.save(r.results); err != nil {
			kept.close()
			return err
		}
	}
	t.mu.Lock()
	old := t.archive
	t.run, t.archive, t.dirty = r, kept, false
	t.mu.Unlock()
	if old != nil {
		old.close()
	}
	t.log.Info("trial started", zap.String("trial", s.Name), zap.Strings("arms", r.results.names()), zap.String("assignment", s.Assignment))
	t.options.Changed(true)
	return nil
}

// BusyError says that a trial is running already.
type BusyError struct{ Name string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("trial %q is running: stop it before another one starts", e.Name)
}

func (r *Results) names() []string {
	var names []string
	for _, a := range r.Spec.Arms {
		names = append(names, a.Name)
	}
	return names
}

// Name returns the name of the trial that is running or was last, or "".
func (t *Trials) Name() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run == nil {
		return ""
	}
	return t.run.results.Spec.Name
}

// Stop ends the running trial. Its results stay.
func (t *Trials) Stop() error {
	t.control.Lock()
	defer t.control.Unlock()
	if !t.Running() {
		return errors.New("no trial is running")
	}
	now := t.options.now().UTC().Truncate(time.Millisecond)
	t.mu.Lock()
	r := t.run
	r.point(now, true)
	r.over, r.results.State, r.results.Stopped = true, StateStopped, &now
	t.dirty = true
	t.mu.Unlock()
	t.options.Changed(false)
	t.log.Info("trial stopped", zap.String("trial", r.results.Spec.Name))
	return t.save()
}

// Change gives the arms of the running trial other weights, for sessions to come. What is closed of sessions so far counts no longer in
// the verdicts: when the weights change while the application does, the arms would be compared at different times of the day.
func (t *Trials) Change(c Change) error {
	t.control.Lock()
	defer t.control.Unlock()
	if !t.Running() {
		return errors.New("no trial is running")
	}
	t.mu.Lock()
	r := t.run
	weights, sum := make([]float64, len(r.arms)), 0.0
	for i, a := range r.results.Arms {
		weights[i] = a.Weight
	}
	for name, w := range c.Weights {
		i := slices.Index(r.results.names(), name)
		if i < 0 || !(w >= 0 && w <= maxWeight) {
			t.mu.Unlock()
			if i < 0 {
				return fmt.Errorf("no arm is called %q", name)
			}
			return fmt.Errorf("the weight %v is none", w)
		}
		weights[i] = w
	}
	for _, w := range weights {
		sum += w
	}
	if sum == 0 {
		t.mu.Unlock()
		return errors.New("one arm at least needs a weight above 0")
	}
	r.change++
	clear(r.units)
	for i, a := range r.results.Arms {
		a.Weight = weights[i]
	}
	r.results.forget()
	t.dirty = true
	t.mu.Unlock()
	t.log.Info("trial changed", zap.String("trial", r.results.Spec.Name), zap.Strings("arms", r.results.names()), zap.Float64s("weights", weights))
	return t.save()
}

// Report tells how the trial stands.
func (t *Trials) Report() *Report {
	r := t.Results()
	if r == nil {
		return &Report{State: StateNone, Arms: []ArmReport{}, Shapes: []ShapeReport{}, Overall: ShapeReport{Arms: []ShapeArm{}, Verdicts: []Verdict{}}, History: []Point{}}
	}
	p := r.Report()
	p.Overridden = r.State == StateRunning && t.options.Native()
	return p
}

// Results returns a copy of all that is known, or nil if there was no trial.
func (t *Trials) Results() *Results {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run == nil {
		return nil
	}
	return t.run.results.copy()
}

// Close stores what is not stored yet. A trial that runs goes on when it is opened again.
func (t *Trials) Close() error {
	close(t.quit)
	<-t.done
	t.control.Lock()
	defer t.control.Unlock()
	err := t.save()
	if t.archive != nil {
		err = errors.Join(err, t.archive.close())
	}
	return err
}

// keep stores results from time to time, and notes the history.
func (t *Trials) keep() {
	defer close(t.done)
	if t.options.still {
		return
	}
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-t.quit:
			return
		case <-tick.C:
			t.tick(t.options.now().UTC().Truncate(time.Millisecond))
		}
	}
}

func (t *Trials) tick(now time.Time) {
	t.mu.Lock()
	if t.run != nil && !t.run.over {
		t.run.point(now, false)
	}
	t.mu.Unlock()
	t.control.Lock()
	defer t.control.Unlock()
	if err := t.save(); err != nil {
		t.log.Error("results of the trial not stored", zap.Error(err))
	}
}

// save stores what has changed. control is held.
func (t *Trials) save() error {
	t.mu.Lock()
	if t.archive == nil || !t.dirty {
		t.mu.Unlock()
		return nil
	}
	t.dirty = false
	results, a := t.run.results.copy(), t.archive
	t.mu.Unlock()
	err := a.save(results)
	if err != nil {
		t.mu.Lock()
		t.dirty = true
		t.mu.Unlock()
	}
	return err
}

// point notes the overall verdicts. t.mu is held.
func (r *run) point(now time.Time, last bool) {
	if now.Sub(r.pointed) < r.step && !last {
		return
	}
	r.pointed = now
	s := r.results
	control := s.Spec.control()
	for i := range r.arms {
		if i == control {
			continue
		}
		if v := s.verdict(s.Overall, i); v.High != nil {
			s.History = append(s.History, Point{At: now, Arm: v.Arm, Against: v.Against, Ratio: v.Ratio, Low: v.Low, High: *v.High})
			r.t.dirty = true
		}
	}
	if len(s.History) > maxHistory {
		r.step *= 2
		kept, n := s.History[:0], map[string]int{}
		for _, p := range s.History {
			if n[p.Arm]++; n[p.Arm]%2 == 0 {
				kept = append(kept, p)
			}
		}
		s.History = kept
	}
}

// Participant is a session in a trial. Its methods are called by one goroutine at a time.
type Participant struct {
	run    *run
	arm    *arm
	key    string      // of an assignment by hash
	change int         // of the weights, since when unit counts
	unit   *unitRecord // nil: it does not count
	since  int64

	statements [16]int64 // durations that are still to be taken over
	failed     uint32    // which of them were answered with an error: one bit each
	pending    int
}

// Enrol takes a session in: one that logs in, or was there when the trial began. now is in monotonic nanoseconds, as all times of
// Participant are. It returns nil when no trial is running.
func (t *Trials) Enrol(user, schema, host string, now int64) *Participant {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.run
	if r == nil || r.over {
		return nil
	}
	p := &Participant{run: r, since: now, change: -1}
	at := 0.0
	if by := r.results.Spec.Assignment; by == AssignRandom {
		at = t.options.random()
	} else {
		p.key = map[string]string{AssignUser: user, AssignSchema: schema, AssignHost: host}[by]
		at = position(r.results.Spec.Name, p.key)
	}
	p.arm = r.pick(at)
	r.results.Arms[p.arm.index].Sessions++
	t.dirty = true
	return p
}

// unit returns the record of a user, schema or host; nil when sessions are assigned by chance, or there are too many.
func (r *run) unit(key string) *unitRecord {
	if r.results.Spec.Assignment == AssignRandom {
		return nil
	}
	u := r.units[key]
	if u == nil && len(r.units) < maxUnits {
		u = &unitRecord{}
		r.units[strings.Clone(key)] = u
	}
	return u
}

// position is where a key lies between 0 and 1. It depends on nothing but the trial's name, so that replicas agree.
func position(trial, key string) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s", trial, key)
	x := h.Sum64()
	x ^= x >> 33 // FNV leaves the high bits of short keys alike: finish as MurmurHash3 does
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// pick returns the arm at a position by the weights.
func (r *run) pick(at float64) *arm {
	sum := 0.0
	for _, a := range r.results.Arms {
		sum += a.Weight
	}
	at *= sum
	last := r.arms[0]
	for i, a := range r.results.Arms {
		if a.Weight == 0 {
			continue
		}
		if last = r.arms[i]; at < a.Weight {
			break
		}
		at -= a.Weight
	}
	return last
}

// Policy returns the policy of the session's next command, made of the one that is in force without a trial.
func (p *Participant) Policy(base *session.Policy, now int64) *session.Policy {
	if d := p.arm.derived.Load(); d != nil && d.base == base {
		return d.policy
	}
	t := p.run.t
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.run.derive(p.arm, base, now).policy
}

func (r *run) derive(a *arm, base *session.Policy, now int64) *derived {
	d := &derived{base: base, policy: base, since: now}
	switch {
	case base.Strategy == session.StrategyNative && base.Observe == nil || r.over:
	case a.stopped:
		policy := *base
		policy.Strategy, policy.Observe = session.StrategyNative, nil
		d.policy = &policy
	default:
		policy := *base
		policy.Strategy, policy.Measure, policy.Observe = a.strategy, true, nil
		if a.reset != "" {
			policy.Deletes = a.reset == "auto"
		}
		d.policy, d.active = &policy, true
	}
	a.derived.Store(d)
	return d
}

// Statement takes the duration of a statement of the session's, of whatever kind. Few of the calls take the lock.
func (p *Participant) Statement(ns int64, failed bool) {
	if d := p.arm.derived.Load(); d == nil || !d.active {
		return
	}
	p.statements[p.pending] = ns
	if failed {
		p.failed |= 1 << p.pending
	}
	if p.pending++; p.pending == len(p.statements) {
		p.run.t.mu.Lock()
		defer p.run.t.mu.Unlock()
		p.flush()
	}
}

// counts says whether the session is measured now. t.mu is held.
func (p *Participant) counts() bool {
	d := p.arm.derived.Load()
	return d != nil && d.active && !p.arm.stopped && !p.run.over
}

// flush takes over the statements that were kept. t.mu is held.
func (p *Participant) flush() {
	r := p.run
	a := r.results.Arms[p.arm.index]
	changed := false
	for i, ns := range p.statements[:p.pending] {
		if !p.counts() {
			break
		}
		a.Statements.add(seconds(ns))
		share := 0.0
		if p.failed&(1<<i) != 0 {
			a.Errors++
			share = 1
		}
		if u := p.current(); u != nil && u.failing.add(share, &a.Failing) {
			changed = true
		}
	}
	p.pending, p.failed = 0, 0
	r.t.dirty = true
	if changed {
		r.guard(nil)
	}
}

// current returns the record of the session's observations; nil: it has none. t.mu is held.
func (p *Participant) current() *unitRecord {
	if r := p.run; p.change != r.change {
		p.change = r.change
		if p.unit = r.unit(p.key); p.unit == nil && r.results.Spec.Assignment == AssignRandom {
			p.unit = &unitRecord{}
		}
	}
	return p.unit
}

// Cycle takes a measured cycle.
func (p *Participant) Cycle(c *session.Cycle) {
	r := p.run
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	p.flush()
	if !p.counts() || c.Began < p.arm.derived.Load().since || c.Began < p.since {
		return
	}
	x := logSeconds(c.Time())
	shape := r.shape(c.Shape)
	overall := r.results.Overall.Cells[p.arm.index]
	overall.take(c)
	if shape != nil {
		shape.Cells[p.arm.index].take(c)
	}
	u := p.current()
	if u == nil {
		return
	}
	if u.overall.add(x, &overall.Closed) {
		r.guard(r.results.Overall)
	}
	if shape != nil && u.of(shape).add(x, &shape.Cells[p.arm.index].Closed) {
		r.guard(shape)
	}
}

// End says that the session is over.
func (p *Participant) End() {
	r := p.run
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	p.flush()
	if !p.counts() || r.results.Spec.Assignment != AssignRandom {
		return
	}
	i, u := p.arm.index, p.current()
	if u.failing.end(&r.results.Arms[i].Failing) {
		r.guard(nil)
	}
	if u.overall.end(&r.results.Overall.Cells[i].Closed) {
		r.guard(r.results.Overall)
	}
	for j := range u.shapes {
		s := &u.shapes[j]
		if s.end(&s.shape.Cells[i].Closed) {
			r.guard(s.shape)
		}
	}
}

// Arm returns the name of the session's arm.
func (p *Participant) Arm() string { return p.run.results.Spec.Arms[p.arm.index].Name }

// shape returns the sums of a shape; nil: there are too many.
func (r *run) shape(shape string) *ShapeResults {
	s := r.shapes[shape]
	if s == nil && len(r.shapes) < maxShapes {
		s = r.results.newShape(strings.Clone(shape))
		r.shapes[s.Shape] = s
		r.results.Shapes = append(r.results.Shapes, s)
	}
	return s
}

// of returns what is not closed of a shape.
func (u *unitRecord) of(s *ShapeResults) *cluster {
	for i := range u.shapes {
		if u.shapes[i].shape == s {
			return &u.shapes[i].cluster
		}
	}
	u.shapes = append(u.shapes, shapeCluster{shape: s})
	return &u.shapes[len(u.shapes)-1].cluster
}

func (c *Cell) take(s *session.Cycle) {
	c.Cycles++
	if s.Reused {
		c.Reused++
	}
	c.Errors += int64(s.Errors)
	c.Rows += s.Affected
	c.Create += seconds(s.Create)
	c.Drop += seconds(s.Drop)
	c.Use += seconds(s.Use)
	c.Reset += seconds(s.Reset)
	c.Times.add(seconds(s.Time()))
}

// guard stops arms that do harm: to cycles of a shape, or, when it is nil, by errors.
func (r *run) guard(s *ShapeResults) {
	control := r.results.Spec.control()
	for i, a := range r.arms {
		if i == control || a.stopped {
			continue
		}
		reason := ""
		if s == nil {
			reason = r.results.failing(i)
		} else {
			reason = r.results.harm(s, i)
		}
		if reason == "" {
			continue
		}
		now := r.t.options.now().UTC().Truncate(time.Millisecond)
		a.stopped = true
		a.derived.Store(nil)
		r.results.Arms[i].StoppedReason, r.results.Arms[i].StoppedAt = reason, &now
		r.point(now, true)
		r.t.log.Warn("an arm of the trial is stopped: its sessions are left to the server", zap.String("trial", r.results.Spec.Name),
			zap.String("arm", r.results.Spec.Arms[i].Name), zap.String("reason", reason))
	}
}
