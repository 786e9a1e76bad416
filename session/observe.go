package session

import (
	"math/bits"
	"slices"

	"tmpproxy/rewrite"
)

// Bounds of what an Observer remembers.
const (
	maxObservedShapes = 32  // of one session, until they are told
	maxDrySteps       = 600 // steps of one command, or between two: more are not believed
	maxUnemptied      = 8   // resets between two statements
)

// Took sums up durations.
type Took struct{ Count, Nanos int64 }

func (t *Took) add(ns int64) {
	t.Count++
	t.Nanos += ns
}

// Add adds up.
func (t *Took) Add(o Took) {
	t.Count += o.Count
	t.Nanos += o.Nanos
}

// GapBuckets is the length of Observation.Gaps: see GapBucket.
const GapBuckets = 24

// GapBucket is the index in Observation.Gaps of a time: bucket 0 has what is less than 1 µs, bucket i what is less than 2^i µs, the
// last one all the rest.
func GapBucket(ns int64) int {
	return min(bits.Len64(uint64(max(ns, 0)/1000)), GapBuckets-1)
}

// Observation is what was seen of one shape in one session since the last one of both. A cycle is counted when it ends: with a
// DROP, with a CREATE in its place, or with the session.
type Observation struct {
	Shape    string // "" for the whole session: only Sessions, Busy and MariaDB are set
	Name     Key    // of the table, if a cycle has ended
	MariaDB  bool
	Engine   rewrite.Engine
	Keep     rewrite.Reason // why its tables cannot be cached as they are
	Convert  rewrite.Reason // why they cannot be converted, if Converts
	Converts bool

	Sessions     int64 // 1 if it is the first of this shape in the session
	Cycles       int64
	Undropped    int64 // of these, those that did not end with a DROP
	Transactions int64 // of these, those whose CREATE or DROP fell into a transaction, or into autocommit=0
	Unordered    int64 // of these, those with a SELECT without ORDER BY
	RolledBack   int64 // of these, those with a ROLLBACK of rows that were written, which InnoDB would take back
	Deadlocks    int64 // of these, those with a deadlock behind writes
	Failed       int64 // of these, those with an error in a statement that may write several rows
	Commits      int64 // statements outside transactions that write rows of it, each of which InnoDB would commit
	Rows         int64 // that OK packets said were inserted
	MostRows     int64 // in one cycle

	Create, Drop, Use Took    // the client's statements, as the server took; Use: those that name the table
	Spare             Took    // DROPs of a table that was not there
	Busy              Took    // all statements of the session
	Share             float64 // of these, the part of this shape: they are divided among the shapes of the session

	Answered Took              // of its CREATEs and DROPs, those that would have been answered without the server
	Emptied  Took              // of these, those in whose place a TRUNCATE would have been sent
	Resets   int64             // TRUNCATEs that would have been sent behind a DROP's answer
	Checks   int64             // looks at a table before one
	Gaps     [GapBuckets]int64 // by length, the times from there to the next statement that would have been sent
}

// Watch is what Observers tell. It is the Ledger of what would be done, beside the one of what is done. Implementations are safe for
// concurrent use.
type Watch interface {
	Ledger
	// Observe takes one Observation, which is not kept.
	Observe(*Observation)
}

// Observer watches the temporary tables of a session that is left alone, and finds out what would be done with them. It has a
// machine of its own, which obeys Policy.Observe: it is told of every command and of the backend's replies, and what it says is
// never done. Statements that it would send are taken as answered OK. So its answers are those of a session in which nothing went
// wrong, but otherwise of one that was not left alone.
//
// Begin is called with every command of the client, End with the backend's complete reply to it, or with OutcomeNone; Close at
// the end of the session. It is not safe for concurrent use.
type Observer struct {
	watch    Watch
	dry      *Machine
	event    Event
	waiting  bool // dry waits for the outcome of the client's command
	answered bool // dry has answered the command without sending anything
	emptied  bool // dry has sent a TRUNCATE in place of the command
	phantom  bool // the transaction that is open was opened by what dry has answered

	began    int64
	status   uint16
	command  watched
	tables   []*observed
	shapes   []*seen
	busy     Took           // all statements of the session
	told     Took           // of these, those that were told
	emptying []*Observation // of the shapes whose tables are being emptied, once for each table
	sent     int64          // when the first of these TRUNCATEs would have been sent
	saved    int64          // nanoseconds since then that the client would not have waited
}

// seen is what was seen of a shape in this session since it was told.
type seen struct {
	Observation
	mark Took // of Observer.busy, when it was told
}

// watched is what the client's command in progress means to temporary tables.
type watched struct {
	verbs       uint64
	create      *rewrite.Create // of a CREATE whose table is known
	ifNotExists bool
	drop        bool
	keys        []Key // of the CREATE or DROP
	forgets     bool  // all temporary tables are gone behind it
}

// observed is a temporary table that the client sees.
type observed struct {
	key         Key
	shape       string
	rows        int64
	named       bool // by the command in progress
	inserted    bool // which inserts rows into it
	writes      bool // or writes or deletes some
	transaction bool
	unordered   bool
	rolledBack  bool
	deadlock    bool
	failed      bool
}

// NewObserver returns one that begins with the next command of the session of m, which is between two commands.
func NewObserver(m *Machine, w Watch) *Observer {
	o := &Observer{watch: w, status: m.status}
	dry := *m
	dry.tables, dry.meter, dry.flow, dry.background = nil, nil, flow{}, background{}
	dry.owed, dry.owedTable, dry.mustCommit = owedNothing, nil, false
	if m.prepared != nil {
		dry.prepared = &prepared{list: slices.Clone(m.prepared.list), bytes: m.prepared.bytes}
	}
	dry.ledger = dryLedger{w, o}
	o.dry = &dry
	return o
}

// dryLedger is the ledger of the machine that is not obeyed.
type dryLedger struct {
	Watch
	o *Observer
}

func (l dryLedger) Note(n Note) {
	if n.Kind == NoteHazard {
		l.o.hazard(n)
	}
	l.Watch.Note(n)
}

func (o *Observer) hazard(n Note) {
	for _, t := range o.tables {
		if t.key != n.Name {
			continue
		}
		switch n.Reason {
		case "rollback", "not_preserved":
			t.rolledBack = true
		case "deadlock":
			t.deadlock = true
		case "statement_error":
			t.failed = true
		}
	}
}

// Begin takes a command, whose Policy.Observe is set.
func (o *Observer) Begin(ev *Event) {
	o.began = ev.Now
	o.command = watched{}
	o.read(ev)
	o.event = *ev
	o.event.Policy, o.event.Began = ev.Policy.Observe, 0
	o.waiting, o.answered, o.emptied = false, false, false
	o.follow(o.dry.Begin(&o.event), nil)
	o.event.Text, o.event.Create = nil, nil
	if !o.answered {
		o.waited(ev.Now)
	}
}

// read finds out what a command does to temporary tables.
func (o *Observer) read(ev *Event) {
	c := &o.command
	text, s, create := ev.Text, ev.Statement, ev.Create
	schema, known := o.dry.ctx.schema, o.dry.schemaKnown
	switch ev.Kind {
	case EventQuery:
		if ev.Statement.Multi && (s.Has(rewrite.VerbCreateTemporary) || s.Has(rewrite.VerbDropTable)) {
			o.watch.Note(Note{Kind: NoteFallback, Reason: rewrite.ReasonMulti.String()})
		}
		if s.Multi {
			return
		}
		if s.Verb != rewrite.VerbExecute {
			break
		}
		name, _, ok := rewrite.ParseExecute(text, o.dry.mode())
		h, found := o.dry.prepared.find(0, name)
		if !ok || !found {
			return
		}
		text, s, schema, known, create = h.text, h.statement, h.schema, h.schema != "", h.create()
	case EventExecute:
		h, found := o.dry.prepared.find(ev.Handle, "")
		if !found {
			return
		}
		text, s, schema, known, create = h.text, h.statement, h.schema, h.schema != "", h.create()
	case EventReset, EventChangeUser:
		c.forgets = true
		return
	default:
		return
	}
	c.verbs = s.Verbs
	key := func(n rewrite.Name) (Key, bool) {
		if n.Schema != "" {
			return Key{Schema: n.Schema, Name: n.Name}, true
		}
		return Key{Schema: schema, Name: n.Name}, known
	}
	switch s.Verb {
	case rewrite.VerbCreateTemporary:
		if create != nil && create.Named {
			if k, ok := key(create.Name); ok {
				c.create, c.keys, c.ifNotExists = create, []Key{k}, create.IfNotExists && !create.OrReplace
			}
		}
		return
	case rewrite.VerbDropTable:
		d, ok := rewrite.ParseDrop(text, o.dry.mode())
		for _, n := range d.Tables {
			if k, known := key(n); ok && known {
				c.keys = append(c.keys, k)
			}
		}
		c.drop = true
		return
	}
	for _, t := range o.tables {
		if t.named = rewrite.Mentions(text, t.key.Name); !t.named {
			continue
		}
		switch s.Verb {
		case rewrite.VerbSelect:
			t.unordered = t.unordered || rewrite.Unordered(text, o.dry.mode())
		case rewrite.VerbInsert, rewrite.VerbReplace, rewrite.VerbLoad:
			n, ok := rewrite.Inserts(text, o.dry.mode())
			t.inserted = ok && string(n.Name) == t.key.Name && (len(n.Schema) == 0 || string(n.Schema) == t.key.Schema)
			t.writes = t.inserted
		case rewrite.VerbUpdate, rewrite.VerbDelete:
			t.writes = true
		}
	}
}

// create is what is known of the CREATE that a prepared statement is, or nil.
func (h *handle) create() *rewrite.Create {
	if h.ddl == nil {
		return nil
	}
	return h.ddl.create
}

// follow goes through what the machine that is not obeyed says. outcome is nil while the client's command is out.
func (o *Observer) follow(s Step, outcome *Outcome) {
	m := o.dry
	for range maxDrySteps {
		switch p := m.flow.phase; {
		case s.Kind == StepForward, s.Kind == StepReplace && (p == atCreate || p == atSelect):
			if outcome == nil {
				o.waiting = true
				return
			}
			s = m.Next(outcome)
		case s.Kind == StepInject, s.Kind == StepReplace:
			if s.Kind == StepReplace && s.Class == ClassReset {
				o.emptied = true
			}
			if s.Class == ClassCheck && s.Shape != "" && p == atCheck {
				o.shape(s.Shape).Checks++
			}
			imagined := m.imagine(p)
			s = m.Next(&imagined)
		case s.Kind == StepReply:
			o.answered = true
			return
		default:
			return
		}
	}
	o.doubt()
}

// imagine is the outcome of a statement that is not sent.
func (m *Machine) imagine(p phase) Outcome {
	now := max(m.flow.now, m.background.sent)
	switch p {
	case atProbe:
		return Outcome{Kind: OutcomeErr, Code: errNoSuchTable, Now: now}
	case atCheck, atCheckRows, atCopied:
		return Outcome{Kind: OutcomeSet, Status: m.status, Definition: imaginedTable, Now: now}
	case atSource:
		return Outcome{Kind: OutcomeSet, Status: m.status, Definition: imaginedSource, Now: now}
	case atTruncate, atCommit:
		return Outcome{Status: m.status &^ (statusInTrans | statusInTransReadOnly), Now: now}
	}
	return Outcome{Status: m.status, Now: now}
}

// A table that is looked at is ours, and the one that it is like has not changed.
var (
	imaginedTable  = rewrite.Definition("CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=InnoDB")
	imaginedSource = rewrite.Definition("CREATE TABLE `s` (\n  `a` int\n) ENGINE=InnoDB")
)

// doubt forgets what would be cached: it may not be so.
func (o *Observer) doubt() {
	m := o.dry
	m.rest()
	m.tables, m.background = nil, background{}
	m.owed, m.owedTable, m.mustCommit = owedNothing, nil, false
	o.emptying = o.emptying[:0]
}

// End takes the outcome of the command.
func (o *Observer) End(out *Outcome) {
	took := max(out.Now-o.began, 0)
	ok := out.Kind != OutcomeErr
	inTransaction := o.inTransaction()
	switch {
	case o.waiting:
		real := *out
		o.unmask(&real)
		o.waiting = false
		o.follow(o.dry.Next(&real), &real)
	case !ok:
		o.doubt()
	case out.Status&statusInTrans != 0 && o.dry.status&statusInTrans == 0:
		o.phantom = true
	}
	if out.Status != 0 {
		o.status = out.Status
	}
	if out.Kind != OutcomeNone {
		o.busy.add(took)
	}
	if o.answered {
		o.saved += took
	}
	o.account(out, took, inTransaction)
	o.background(out.Now)
}

// unmask takes away from an outcome the transaction that would not be open.
func (o *Observer) unmask(out *Outcome) {
	if o.phantom = o.phantom && out.Status&statusInTrans != 0 && o.command.verbs&^settledVerbs == 0; o.phantom {
		out.Status &^= statusInTrans
	}
}

func (o *Observer) inTransaction() bool {
	return o.status&statusInTrans != 0 || o.status&statusAutocommit == 0
}

// account adds a command to what was seen of the tables that it is about.
func (o *Observer) account(out *Outcome, took int64, inTransaction bool) {
	c := &o.command
	ok := out.Kind != OutcomeErr
	switch {
	case c.forgets && ok:
		o.forget()
	case c.create != nil && ok:
		o.created(took, out.Warnings, inTransaction)
	case c.drop && ok:
		o.dropped(took, inTransaction)
	}
	for _, t := range o.tables {
		if !t.named {
			continue
		}
		s := o.shape(t.shape)
		s.Use.add(took)
		if t.inserted && ok {
			t.rows += int64(min(out.Affected, 1<<40))
		}
		if t.writes && ok && !inTransaction {
			s.Commits++
		}
		t.named, t.inserted, t.writes = false, false, false
	}
}

// created takes up a table.
func (o *Observer) created(took int64, warnings uint16, inTransaction bool) {
	c := &o.command
	s := o.shape(c.create.Shape)
	s.Engine, s.Keep, s.Converts = c.create.Engine, c.create.Keep.Reason, c.create.Converted
	if s.Keep == rewrite.ReasonLike && o.event.Policy.CacheLike {
		s.Keep = rewrite.ReasonNone
	}
	if s.Converts {
		s.Convert = c.create.Convert.Reason
	}
	s.Create.add(took)
	o.instead(s, took)
	i := slices.IndexFunc(o.tables, func(t *observed) bool { return t.key == c.keys[0] })
	if i >= 0 && c.ifNotExists && warnings > 0 {
		return // it was there
	}
	if i >= 0 {
		o.ended(i, false)
	}
	if len(o.tables) < maxTables {
		o.tables = append(o.tables, &observed{key: c.keys[0], shape: c.create.Shape, transaction: inTransaction})
	}
}

// dropped ends the cycles of the tables that a DROP names.
func (o *Observer) dropped(took int64, inTransaction bool) {
	c := &o.command
	if len(c.keys) == 0 {
		return
	}
	each := took / int64(len(c.keys))
	for _, k := range c.keys {
		i := slices.IndexFunc(o.tables, func(t *observed) bool { return t.key == k })
		if i < 0 {
			if j := slices.IndexFunc(o.shapes, func(s *seen) bool { return s.Name == k }); j >= 0 {
				o.shapes[j].Spare.add(each)
				o.instead(&o.shapes[j].Observation, each)
			}
			continue
		}
		s := o.shape(o.tables[i].shape)
		s.Drop.add(each)
		o.instead(s, each)
		o.tables[i].transaction = o.tables[i].transaction || inTransaction
		o.ended(i, true)
	}
}

// instead notes a CREATE or DROP that would not have been sent.
func (o *Observer) instead(s *Observation, took int64) {
	switch {
	case o.answered:
		s.Answered.add(took)
	case o.emptied:
		s.Emptied.add(took)
	}
}

// ended counts a cycle and tells what was seen of its shape.
func (o *Observer) ended(i int, dropped bool) {
	t := o.tables[i]
	o.tables = slices.Delete(o.tables, i, i+1)
	s := o.shape(t.shape)
	s.Name = t.key
	s.Cycles++
	s.Rows += t.rows
	s.MostRows = max(s.MostRows, t.rows)
	for _, f := range []struct {
		is bool
		n  *int64
	}{
		{!dropped, &s.Undropped}, {t.transaction, &s.Transactions}, {t.unordered, &s.Unordered},
		{t.rolledBack, &s.RolledBack}, {t.deadlock, &s.Deadlocks}, {t.failed, &s.Failed},
	} {
		if f.is {
			*f.n++
		}
	}
	o.tell(t.shape)
}

// forget ends all cycles.
func (o *Observer) forget() {
	for len(o.tables) > 0 {
		o.ended(len(o.tables)-1, false)
	}
}

// seen returns what was seen of a shape.
func (o *Observer) seen(shape string) *seen {
	for _, s := range o.shapes {
		if s.Shape == shape {
			return s
		}
	}
	if len(o.shapes) >= maxObservedShapes {
		o.tell(o.shapes[0].Shape)
		o.emptying = nil
		o.shapes = slices.Delete(o.shapes, 0, 1)
	}
	s := &seen{Observation: Observation{Shape: shape, MariaDB: o.dry.server.MariaDB, Sessions: 1}}
	o.shapes = append(o.shapes, s)
	return s
}

func (o *Observer) shape(shape string) *Observation { return &o.seen(shape).Observation }

// tell tells what was seen of a shape, and of the session.
func (o *Observer) tell(shape string) {
	s := o.seen(shape)
	s.Busy = Took{o.busy.Count - s.mark.Count, o.busy.Nanos - s.mark.Nanos}
	s.Share = float64(s.Busy.Count) / float64(len(o.shapes))
	o.watch.Observe(&s.Observation)
	s.mark = o.busy
	s.Observation = Observation{
		Shape: s.Shape, Name: s.Name, MariaDB: s.MariaDB, Engine: s.Engine, Keep: s.Keep, Convert: s.Convert, Converts: s.Converts,
	}
	o.tellSession()
}

func (o *Observer) tellSession() {
	all := Observation{MariaDB: o.dry.server.MariaDB, Busy: Took{o.busy.Count - o.told.Count, o.busy.Nanos - o.told.Nanos}}
	if o.told.Count == 0 {
		all.Sessions = 1
	}
	if all.Busy.Count > 0 {
		o.watch.Observe(&all)
		o.told = o.busy
	}
}

// Close tells what was not told yet. The Observer must not be used afterwards.
func (o *Observer) Close() {
	o.forget()
	for _, s := range o.shapes {
		o.tell(s.Shape)
	}
	o.tellSession()
}

// background goes through what would be sent behind the answer to a command.
func (o *Observer) background(now int64) {
	m := o.dry
	for range maxDrySteps {
		if !m.HasBackground() {
			return
		}
		s, ok := m.Background(now, o.event.Policy)
		if !ok {
			return
		}
		switch s.Class {
		case ClassCheck:
			o.shape(s.Shape).Checks++
		case ClassReset:
			of := o.shape(s.Shape)
			of.Resets++
			if len(o.emptying) == 0 {
				o.sent, o.saved = now, 0
			}
			if len(o.emptying) < maxUnemptied {
				o.emptying = append(o.emptying, of)
			}
		}
		imagined := m.imagine(m.background.phase)
		m.BackgroundDone(&imagined)
	}
	o.doubt()
}

// waited notes that a statement would be sent now, which waits for the tables that are being emptied.
func (o *Observer) waited(now int64) {
	if len(o.emptying) == 0 {
		return
	}
	gap := max(now-o.sent-o.saved, 0) / int64(len(o.emptying))
	for _, s := range o.emptying {
		s.Gaps[GapBucket(gap)]++
	}
	o.emptying = o.emptying[:0]
}

// Add adds up what was seen. Name is not kept.
func (o *Observation) Add(p *Observation) {
	o.Shape, o.MariaDB, o.Engine = p.Shape, p.MariaDB, p.Engine
	o.Keep, o.Convert, o.Converts = p.Keep, p.Convert, p.Converts
	o.Sessions += p.Sessions
	o.Cycles += p.Cycles
	o.Undropped += p.Undropped
	o.Transactions += p.Transactions
	o.Unordered += p.Unordered
	o.RolledBack += p.RolledBack
	o.Deadlocks += p.Deadlocks
	o.Failed += p.Failed
	o.Commits += p.Commits
	o.Rows += p.Rows
	o.MostRows = max(o.MostRows, p.MostRows)
	o.Create.Add(p.Create)
	o.Drop.Add(p.Drop)
	o.Use.Add(p.Use)
	o.Spare.Add(p.Spare)
	o.Busy.Add(p.Busy)
	o.Share += p.Share
	o.Answered.Add(p.Answered)
	o.Emptied.Add(p.Emptied)
	o.Resets += p.Resets
	o.Checks += p.Checks
	for i, n := range p.Gaps {
		o.Gaps[i] += n
	}
}
