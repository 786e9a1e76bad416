package session

import "tmpproxy/rewrite"

// With Policy.Preserve an explicit ROLLBACK or ROLLBACK TO leaves the rows of converted tables alone, as it does with those of
// the client's own engine. Beside each converted table the server holds a shadow: the client's own CREATE under another name.
//
//	before the ROLLBACK   the rows of each table that was written in the transaction are copied to its shadow; this marks the
//	                      transaction as one that wrote what cannot be rolled back, so that the ROLLBACK warns of it (1196)
//	behind it             the rows are away: what the table holds does not count
//	before a statement    that may use the table, it is emptied and the rows are copied back
//
// In a transaction that goes on the rows that were copied back would vanish with the next ROLLBACK: before it they are copied again.

// maxShadowed bounds the names of tables that have a shadow: the server's limit is 64 characters.
const (
	shadowPrefix = "tmpproxy:"
	maxShadowed  = 64 - len(shadowPrefix)
)

func shadowKey(k Key) Key { return Key{Schema: k.Schema, Name: shadowPrefix + k.Name} }

func emptySQL(k Key) string { return ours + "DELETE FROM " + quoted(k) }
func copySQL(from, to Key) string {
	return ours + "INSERT INTO " + quoted(to) + " SELECT * FROM " + quoted(from)
}

// shadowSQL is the CREATE of the shadow that a converted table needs; false if it cannot have one.
func (m *Machine) shadowSQL(c *rewrite.Create, text []byte, k Key) (string, bool) {
	switch {
	case len(k.Name) > maxShadowed:
		return "", false
	case c.AutoIncrement: // a 0 would not be copied as it is
		return "", false
	case rewrite.Mentions(text, "invisible"), rewrite.Mentions(text, "as"): // an invisible column would not be copied, a generated one cannot be
		return "", false
	}
	sql, ok := rewrite.Rename(text, m.mode(), quoted(shadowKey(k)))
	return ours + sql, ok
}

// createShadow has the shadow made before the table.
func (m *Machine) createShadow() Step {
	m.flow.phase = atShadow
	m.plain = false
	return Step{Kind: StepInject, SQL: m.flow.detail.candidate.shadow, Class: ClassPreserve, Shape: m.flow.detail.candidate.shape}
}

// shadowed goes on behind the CREATE of a shadow. Whatever is wrong with it is wrong with the client's.
func (m *Machine) shadowed(o *Outcome) Step {
	f := &m.flow
	c := &f.detail.candidate
	m.ours(o)
	if o.Kind != OutcomeErr {
		c.shadowed = true
		return m.create()
	}
	m.note(Note{Kind: NoteFallback, Shape: c.shape, Name: c.key, Reason: reasonShadow})
	f.then = doForward
	return m.advance()
}

// orphan has the shadow of a table dropped that is no more.
func (m *Machine) orphan(k Key) {
	m.makeRoom()
	m.tables = append(m.tables, &table{key: shadowKey(k), state: stateParked, condition: doomed, why: "shadow", created: m.flow.now, parked: m.flow.now})
}

// planCopies marks the tables whose rows the ROLLBACK in progress would take.
func (m *Machine) planCopies() {
	const rollback = 1<<rewrite.VerbRollback | 1<<rewrite.VerbRollbackTo
	f := &m.flow
	if f.opaque || f.statement.Multi || f.statement.Verbs&rollback == 0 {
		return
	}
	for _, t := range m.tables {
		t.copy = t.shadow && t.state == stateLive && t.written && !t.away
	}
}

// preserve returns the next statement that has to precede the client's for the sake of rows; false if there is none.
func (m *Machine) preserve() (Step, bool) {
	f := &m.flow
	all := f.taintAll || f.opaque
	for _, t := range m.tables {
		back := t.away && t.state == stateLive && (t.named || all) && (f.then == doForward || f.then == doRaw || f.then == doSelect)
		if !t.copy && !back {
			continue
		}
		f.rows = t
		switch {
		case t.exposed:
			return m.inject(atCheckRows, checkSQL(t.key), ClassCheck, t), true
		case back:
			return m.inject(atEmpty, emptySQL(t.key), ClassPreserve, t), true
		case t.full:
			return m.inject(atEmptyShadow, emptySQL(shadowKey(t.key)), ClassPreserve, t), true
		}
		return m.inject(atCopy, copySQL(t.key, shadowKey(t.key)), ClassPreserve, t), true
	}
	return Step{}, false
}

// checkedRows goes on behind a check: DELETE would empty whatever has the name, as TRUNCATE would.
func (m *Machine) checkedRows(o *Outcome) Step {
	if t := m.flow.rows; !m.isOurs(t, o, m.flow.policy.MaxAge, m.flow.now) {
		m.notPreserved(t)
	}
	return m.advance()
}

func (m *Machine) notPreserved(t *table) {
	m.hazard(t, "not_preserved")
	t.copy, t.copied, t.away = false, false, false
}

// preserved goes on behind such a statement.
func (m *Machine) preserved(o *Outcome) Step {
	f := &m.flow
	t := f.rows
	quiet := m.quiet() || m.outside()
	m.ours(o)
	if o.Kind == OutcomeErr {
		m.known = quiet
		if f.phase == atRestore { // the table is empty, and the rows are safe in the shadow: this is tried again
			m.hazard(t, "not_preserved")
			return m.fail()
		}
		m.notPreserved(t)
		return m.advance()
	}
	m.mustCommit = m.mustCommit || quiet && m.opened()
	switch f.phase {
	case atEmptyShadow:
		t.full = false
	case atCopy:
		t.copy, t.copied, t.full = false, true, true
	case atEmpty:
		return m.inject(atRestore, copySQL(shadowKey(t.key), t.key), ClassPreserve, t)
	case atRestore:
		t.away = false
		t.touched = true
		t.written = !m.mustCommit && m.status&(statusInTrans|statusAutocommit) != statusAutocommit
	}
	return m.advance()
}
