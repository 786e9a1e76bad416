package session

import (
	"bytes"
	"strings"

	"tmpproxy/rewrite"
)

// candidate is a CREATE TEMPORARY TABLE that we may take part in.
type candidate struct {
	key       Key
	shape     string
	sql       string   // the text spliced
	keep      string   // the text spliced, the engine left alone; "" if that is not possible
	innoDB    bool     // it makes an InnoDB table for sure
	counted   bool     // with an AUTO_INCREMENT column
	unlooked  bool     // the engine is the server's choice, and it counts which one that is
	same      bool     // sql is the client's own text
	like      Key      // the table whose structure is taken; the zero Key for none
	converted bool     // sql changes the engine
	replaces  bool     // OR REPLACE
	shadow    string   // the CREATE of its shadow; "" if it has none
	shadowed  bool     // which was made, and belongs to no table yet
	arm       Strategy // what StrategyAuto does with it
	proved    bool     // sql was seen to answer as many warnings as the client's own text
}

// Reasons why a CREATE is left to the server, besides those of package rewrite.
const (
	reasonUnseen   = "unseen"       // the text was not analysed
	reasonPrepared = "prepared"     // by a prepared statement
	reasonSession  = "session"      // the session is native
	reasonReadOnly = "read_only"    // in a read-only transaction, or in XA
	reasonStrict   = "strict"       // fidelity: strict
	reasonShape    = "shape_native" // the shape is left alone
	reasonName     = "name_native"  // the name is left alone
	reasonRoutine  = "routine"      // a routine or trigger mentions the name
	reasonRoutines = "routines"     // the server has routines or triggers
	reasonLocked   = "lock_tables"
	reasonOneShot  = "one_shot" // SET TRANSACTION is pending
	reasonExists   = "exists"   // the client has such a table
	reasonTables   = "tables"   // too many of them
	reasonRefused  = "refused"  // the server refused the spliced text
	reasonShadow   = "shadow"   // the server refused the client's own text under the name of the shadow
)

// planCreate plans a CREATE TEMPORARY TABLE. ev is nil for a prepared one.
func (m *Machine) planCreate(text []byte, ev *Event) {
	f := &m.flow
	f.class = ClassCreate
	f.detail = &detail{}
	f.reads = f.reads && rewrite.ReadsDiagnostics(text)
	m.markDue()
	var c *rewrite.Create
	if ev != nil {
		c = ev.Create
	}
	m.opens(c)
	if f.policy.Strategy != StrategyNative {
		reason := reasonPrepared
		if ev != nil {
			reason = m.consider(c, text, &f.detail.candidate)
		}
		if reason == "" {
			f.ddl = true
			reason = m.planCandidate()
		}
		if reason == "" {
			return
		}
		f.detail.fallback = reason
	}
	m.planOwnCreate(c, text)
	if ev != nil && c != nil && c.AsSelect && !bytes.Contains(text, []byte(":=")) && m.converts(c) { // what fails may run twice
		f.then = doSelect
	}
}

// converts says whether a CREATE .. AS SELECT is sent with another engine, and fills in the candidate. The table is the server's from
// then on.
func (m *Machine) converts(c *rewrite.Create) bool {
	const refusesInnoDB = 100600 // older MariaDBs refuse it under read_only
	f := &m.flow
	p := f.policy
	key, known := m.key(c.Name)
	switch {
	case !p.ConvertSelect || p.Strategy != StrategyInnoDB || p.Strict || p.Preserve || c.Select.Reason != rewrite.ReasonNone:
		return false
	case m.native || m.locked || m.oneShot || m.readOnly() || !known || m.defaults.opaqueCharset || m.defaults.invisibleKey:
		return false
	case m.server.MariaDB && m.server.Version < refusesInnoDB:
		return false
	}
	d := f.detail
	d.candidate = candidate{key: key, shape: c.Shape, sql: c.Select.SQL, converted: true}
	return m.ledger.Shape(c.Shape).Native <= f.now && m.nameReason(key) == ""
}

// createSelect has a CREATE .. AS SELECT sent with another engine.
func (m *Machine) createSelect() Step {
	m.pass()
	m.flow.phase = atSelect
	s := m.step(StepReplace)
	s.SQL = m.flow.detail.candidate.sql
	return s
}

// createdSelect goes on behind it. The client's own text follows an error that the engine may be the reason of; by then no row was
// written and no transaction has ended.
func (m *Machine) createdSelect(o *Outcome) Step {
	f := &m.flow
	c := &f.detail.candidate
	if o.Kind == OutcomeErr && !interrupted(o) && o.Code != errDeadlock && o.Code != errLockWait {
		m.ours(o)
		f.then = doForward
		return m.forward()
	}
	if o.Kind != OutcomeErr && m.find(c.key) == nil {
		m.add(stateTainted, o, c.sql).written = true
	}
	m.finish(o)
	return m.over(StepRelease)
}

// consider says why a CREATE is left to the server, or "" and fills in the candidate.
func (m *Machine) consider(c *rewrite.Create, text []byte, out *candidate) string {
	f := &m.flow
	p := f.policy
	if c == nil {
		return reasonUnseen
	}
	out.shape, out.replaces = c.Shape, c.OrReplace
	v := c.Keep
	if source, ok := m.key(c.Like); ok && v.Reason == rewrite.ReasonLike && p.CacheLike && m.likes(c) {
		v, out.like = rewrite.Variant{SQL: string(text)}, source
	}
	if (p.Strategy == StrategyInnoDB || p.Strategy == StrategyAuto) && !p.Strict && c.Converted && c.Convert.Reason == rewrite.ReasonNone &&
		(c.PrimaryKey || !m.defaults.invisibleKey) {
		v = c.Convert
		out.converted = true
	}
	key, known := m.key(c.Name)
	if out.converted && p.Preserve && known {
		if out.shadow, out.converted = m.shadowSQL(c, text, key); !out.converted {
			v = c.Keep
		}
	}
	switch {
	case m.native:
		return reasonSession
	case m.readOnly():
		return reasonReadOnly
	case v.Reason != rewrite.ReasonNone:
		return v.Reason.String()
	case m.defaults.opaqueCharset:
		return rewrite.ReasonCharset.String()
	case c.Engine == rewrite.EngineNone && out.like == (Key{}) && (m.defaults.tmpEngine || m.defaults.engine && m.server.MariaDB):
		return rewrite.ReasonDefaultEngine.String()
	case !known:
		return rewrite.ReasonSchemaUnknown.String()
	case !(rewrite.Name{Schema: key.Schema, Name: key.Name}).Plain():
		return rewrite.ReasonName.String()
	case p.Strict && (!m.known || m.inTransaction()):
		return reasonStrict
	}
	shape := m.ledger.Shape(c.Shape)
	if shape.Native > f.now {
		return reasonShape
	}
	if reason := m.nameReason(key); reason != "" {
		return reason
	}
	out.arm = p.Strategy
	if p.Strategy == StrategyAuto {
		v = m.choose(c, text, v, out)
	}
	out.innoDB, out.counted = isInnoDB(c, out.converted), c.AutoIncrement
	out.unlooked = out.like != (Key{}) || c.Engine == rewrite.EngineNone && c.AutoIncrement && m.server.MariaDB
	out.key, out.sql, out.same, out.proved = key, v.SQL, v.SQL == string(text), shape.Proved
	out.keep = c.Keep.SQL
	return ""
}

// choose has the ledger choose what is done with a CREATE that may be cached as v, and returns what is sent for it.
func (m *Machine) choose(c *rewrite.Create, text []byte, v rewrite.Variant, out *candidate) rewrite.Variant {
	arms := ArmSet(1 << StrategyNative)
	if out.converted {
		arms |= 1 << StrategyInnoDB
	}
	if !out.converted || c.Keep.Reason == rewrite.ReasonNone {
		arms |= 1 << StrategyKeep
	}
	switch out.arm = m.ledger.Choose(c.Shape, arms); out.arm {
	case StrategyNative:
		v = rewrite.Variant{SQL: string(text)}
	case StrategyKeep:
		if out.converted {
			v = c.Keep
		}
	}
	if out.arm != StrategyInnoDB {
		out.converted, out.shadow = false, ""
	}
	return v
}

// likes says whether the source of a CREATE .. LIKE is a permanent table, as far as we know, which stays what it is unless it is
// altered. A table that may exist already would be adopted or replaced.
func (m *Machine) likes(c *rewrite.Create) bool {
	if c.Like.Name == "" || c.IfNotExists || c.OrReplace {
		return false
	}
	for _, t := range m.tables {
		if strings.EqualFold(t.key.Name, c.Like.Name) {
			return false
		}
	}
	return true
}

// nameReason says why tables of a name are left to the server, or "".
func (m *Machine) nameReason(key Key) string {
	f := &m.flow
	switch n := m.ledger.Name(key); {
	case n.Native > f.now:
		return reasonName
	case n.Routine && f.policy.Routines == RoutinesScan:
		return reasonRoutine
	}
	if f.policy.Routines != RoutinesVisible {
		known, any := m.ledger.Routines()
		if f.policy.Routines == RoutinesNone && any || f.policy.Routines == RoutinesScan && !known {
			return reasonRoutines
		}
	}
	return ""
}

// planCandidate plans a CREATE that we may take part in; it says why not after all, or "".
func (m *Machine) planCandidate() string {
	f := &m.flow
	c := &f.detail.candidate
	for _, t := range m.tables {
		if t.key != c.key && alike(t.key, c.key) {
			m.mark(t, "letter_case")
		}
	}
	t := m.find(c.key)
	switch {
	case t == nil:
	case c.replaces && t.state == stateLive:
		ours := t.arm != StrategyNative && c.arm != StrategyNative // IF NOT EXISTS of a native one may have found another table
		if ours && t.shape == c.shape && t.converted == c.converted && t.context.equal(m.ctx) && m.quiet() && !m.locked {
			f.then, f.table = doRefill, t
			return ""
		}
	case t.state != stateParked:
		return reasonExists
	case t.shape != c.shape:
		m.mark(t, "shape")
	case c.arm == StrategyNative, t.converted != c.converted:
		m.mark(t, "strategy")
	case !t.context.equal(m.ctx):
		m.mark(t, "context")
	case t.settle:
		m.mark(t, t.why)
	case t.condition == clean && m.known && !m.locked:
		f.then, f.table = doReuse, t
		return ""
	case t.condition == dirty && m.quiet():
		f.then, f.table = doRefill, t
		return ""
	default:
		m.mark(t, "not_quiet")
	}
	switch {
	case m.locked:
		return reasonLocked
	case m.oneShot && m.server.MariaDB && !c.same: // should the table exist, InnoDB would eat it there
		return reasonOneShot
	case t == nil && !m.hasRoom():
		return reasonTables
	}
	f.then = doCreate
	return ""
}

// planOwnCreate plans a CREATE that is left to the server.
func (m *Machine) planOwnCreate(c *rewrite.Create, text []byte) {
	f := &m.flow
	f.taints = true
	f.replaces = m.server.MariaDB && (c == nil || c.OrReplace)
	m.mention(text)
	if c == nil || !c.Named {
		return
	}
	key, known := m.key(c.Name)
	reads := c.Keep.Reason == rewrite.ReasonAsSelect || c.Keep.Reason == rewrite.ReasonLike
	for _, t := range m.tables {
		switch {
		case !t.named:
		case known && t.key == key && c.IfNotExists && !c.OrReplace: // it stays what it is
			t.named = false
		case reads && !alike(t.key, Key{Schema: t.key.Schema, Name: c.Name.Name}): // it is only read
			t.named = false
		}
	}
}

// compare asks whether a table made by CREATE .. LIKE is what that would make now: for its own structure, and then for that of the
// table that it is like. Another session may have altered that since, even just before the copy was made.
func (m *Machine) compare(p phase) Step {
	t := m.flow.table
	if p == atCopied {
		return m.inject(p, checkSQL(t.key), ClassCheck, t)
	}
	return m.inject(p, checkSQL(t.like), ClassCheck, t)
}

// compared goes on behind these questions.
func (m *Machine) compared(o *Outcome) Step {
	f := &m.flow
	t := f.table
	reason := "source"
	if f.phase == atCopied {
		if m.isOurs(t, o, f.policy.MaxAge, f.now) {
			f.detail.copy = string(o.Definition)
			return m.compare(atSource)
		}
		reason = "not_ours"
	} else {
		m.looked(o)
		if o.Kind == OutcomeSet && rewrite.Definition(f.detail.copy).Copies(o.Definition) {
			t.proved = true
			return m.advance()
		}
	}
	m.mark(t, reason)
	f.then, f.table = doCreate, nil
	return m.advance()
}

// reuse answers a CREATE from a clean parked table.
func (m *Machine) reuse() Step {
	t := m.flow.table
	m.revive(t)
	if t.warnings > 0 {
		m.owe(owedCreate, t)
	} else {
		m.owe(owedPlain, t)
	}
	return m.answer(t.warnings)
}

// revive makes a parked table a live one.
func (m *Machine) revive(t *table) {
	t.state = stateLive
	t.clear()
	m.note(Note{Kind: NoteCycle, Shape: t.shape, Name: t.key})
	m.note(Note{Kind: NoteReuse, Shape: t.shape, Name: t.key})
}

// create has the spliced CREATE sent.
func (m *Machine) create() Step {
	c := &m.flow.detail.candidate
	if c.shadow != "" && !c.shadowed {
		return m.createShadow()
	}
	m.flow.phase = atCreate
	if c.same {
		return m.step(StepForward)
	}
	s := m.step(StepReplace)
	s.SQL = c.sql
	return s
}

// created goes on behind the spliced CREATE.
func (m *Machine) created(o *Outcome) Step {
	f := &m.flow
	d := f.detail
	c := &d.candidate
	if old := m.find(c.key); old != nil { // OR REPLACE
		if o.Kind == OutcomeErr {
			m.taint(old, "statement")
		} else {
			m.remove(old)
		}
	}
	last := StepRelease
	if c.same {
		last = StepDone
	}
	if o.Kind == OutcomeErr {
		if c.same || interrupted(o) {
			if o.Code == errTableExists {
				m.add(stateTainted, o, "")
			}
			m.finish(o)
			return m.over(last)
		}
		m.ours(o)
		f.why = afterError
		if o.Code == errTableExists {
			f.why = afterExists
		}
		f.phase = atOriginal
		return m.step(StepForward)
	}
	if c.converted && !c.proved && o.Warnings > 0 {
		m.ours(o)
		d.warnings = o.Warnings
		f.table = m.add(stateTainted, o, c.sql)
		return m.inject(atUnproved, dropSQL(c.key), ClassSettle, f.table)
	}
	m.add(stateLive, o, c.sql)
	m.finish(o)
	return m.over(last)
}

// interrupted says whether an error is not about the statement but about whoever wanted it ended: the client is to see it.
func interrupted(o *Outcome) bool {
	return o.Code == errInterrupted || o.Code == errShutdown || o.Code == errKilled
}

// add takes up the table of the CREATE in progress.
func (m *Machine) add(s state, o *Outcome, sql string) *table {
	f := &m.flow
	c := &f.detail.candidate
	t := &table{
		key: c.key, shape: c.shape, sql: sql, context: m.ctx, created: f.now, warnings: o.Warnings, state: s,
		converted: c.converted && sql == c.sql, innoDB: c.innoDB && sql == c.sql, counted: c.counted, arm: c.arm, like: c.like, exposed: c.unlooked,
	}
	if t.converted && c.shadowed {
		t.shadow, c.shadowed = true, false
	}
	m.makeRoom()
	m.tables = append(m.tables, t)
	if s == stateLive {
		m.note(Note{Kind: NoteCycle, Shape: t.shape, Name: t.key})
	}
	return t
}

// unproved goes on behind the DROP of a table whose spliced CREATE was warned about.
func (m *Machine) unproved(o *Outcome) Step {
	f := &m.flow
	t := f.table
	m.ours(o)
	if o.Kind == OutcomeErr && o.Code != errUnknownTable {
		t.state, t.condition = stateParked, stuck
		return m.fail()
	}
	m.remove(t)
	f.table = nil
	f.why = afterWarnings
	f.phase = atOriginal
	return m.step(StepForward)
}

// createdOriginal goes on behind the client's own CREATE, which followed a spliced one.
func (m *Machine) createdOriginal(o *Outcome) {
	f := &m.flow
	d := f.detail
	c := &d.candidate
	ok := o.Kind != OutcomeErr
	switch {
	case f.why == afterExists:
		m.add(stateTainted, o, "")
	case !ok:
	case f.why == afterError:
		m.note(Note{Kind: NoteFallback, Shape: c.shape, Name: c.key, Reason: reasonRefused})
		m.note(Note{Kind: NoteBlockShape, Shape: c.shape, Name: c.key, Until: until(f.policy.MaxAge, f.now)})
	case o.Warnings != d.warnings:
		m.note(Note{Kind: NoteBlockShape, Shape: c.shape, Name: c.key, Until: until(f.policy.MaxAge, f.now)})
	default:
		m.note(Note{Kind: NoteProved, Shape: c.shape, Name: c.key})
		if c.keep != "" {
			m.add(stateLive, o, c.keep)
		}
	}
}
