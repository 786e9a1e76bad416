package session

import "tmpproxy/rewrite"

// empty has a table emptied: for a CREATE of a dirty parked one, for a DROP TABLE of a live one in a transaction, or, aside,
// before a command that is about something else. TRUNCATE would empty whatever has the name: what a trigger, or a function that
// a view calls, may have done to the table is found out before.
func (m *Machine) empty() Step {
	f := &m.flow
	t := f.table
	if t.exposed {
		return m.inject(atCheck, checkSQL(t.key), ClassCheck, t)
	}
	class, kind := ClassReset, StepReplace
	switch {
	case f.replaying:
		class, kind = ClassReplay, StepInject
	case f.aside:
		kind = StepInject
	case f.then == doRefill && t.warnings > 0:
		kind = StepInject // its OK is not what the client has to see
	}
	s := m.inject(atTruncate, truncateSQL(t.key), class, t)
	s.Kind = kind
	return s
}

// emptyAside has a table emptied before the client's command, which is about something else.
func (m *Machine) emptyAside(t *table) Step {
	m.flow.table, m.flow.aside = t, true
	return m.empty()
}

// endAside goes on with the client's command. A table that could not be emptied is really dropped.
func (m *Machine) endAside(emptied bool) Step {
	f := &m.flow
	t := f.table
	if emptied {
		t.clear()
		t.deletes = 0
	} else {
		f.blocked = true
		if t.state == stateParked {
			t.condition = doomed
			m.tidy(t, "reset_failed")
		}
	}
	f.table, f.aside, f.replaying = nil, false, false
	return m.advance()
}

// unmentioned says whether the bodies of all routines and triggers were read and none names a table.
func (m *Machine) unmentioned(t *table, p *Policy) bool {
	if p.Routines != RoutinesScan {
		return false
	}
	known, _ := m.ledger.Routines()
	return known && !m.ledger.Name(t.key).Routine
}

// isOurs takes over the outcome of a check: whether the table is still there, and keeps its rows itself. If not, or if it
// cannot be told, the name is left alone; but not for a session to which the server names no engines.
func (m *Machine) isOurs(t *table, o *Outcome, maxAge, now int64) bool {
	m.looked(o)
	switch own := o.Kind == OutcomeSet && o.Definition.OwnRows(); {
	case own && o.Definition.Counts():
		reason := rewrite.ReasonAriaAutoIncrement.String()
		m.note(Note{Kind: NoteFallback, Shape: t.shape, Name: t.key, Reason: reason})
		m.note(Note{Kind: NoteBlockShape, Shape: t.shape, Name: t.key, Until: until(maxAge, now)})
		return false
	case own:
		t.exposed = false
		return true
	}
	if !o.Definition.NamesNoEngine() {
		m.note(Note{Kind: NoteBlockName, Shape: t.shape, Name: t.key, Until: until(maxAge, now)})
	}
	return false
}

// checked goes on behind a check.
func (m *Machine) checked(o *Outcome) Step {
	f := &m.flow
	t := f.table
	switch {
	case m.isOurs(t, o, f.policy.MaxAge, f.now):
		return m.empty()
	case f.aside:
		return m.endAside(false)
	case f.then != doEmpty:
		m.mark(t, "not_ours")
		m.taint(t, "not_ours") // a live one, of an OR REPLACE
	}
	f.then, f.table = doForward, nil
	return m.advance()
}

// truncated goes on behind a TRUNCATE.
func (m *Machine) truncated(o *Outcome) Step {
	f := &m.flow
	t := f.table
	switch {
	case o.Kind == OutcomeErr:
		return m.notTruncated(o)
	case f.aside:
		m.ours(o)
		return m.endAside(true)
	}
	t.clear()
	t.deletes = 0
	if f.then == doEmpty {
		t.state, t.parked, t.behind = stateParked, f.now, 0
		m.oneShot, m.oneShotRead = false, false // it has committed
		m.note(Note{Kind: NotePark, Shape: t.shape, Name: t.key})
	} else {
		m.revive(t)
		if t.warnings > 0 {
			m.ours(o)
			m.owe(owedCreate, t)
			return m.answer(t.warnings)
		}
	}
	m.finish(o)
	return m.over(StepRelease)
}

// notTruncated goes on behind a TRUNCATE that failed.
func (m *Machine) notTruncated(o *Outcome) Step {
	f := &m.flow
	t := f.table
	if !f.aside && interrupted(o) && t.warnings == 0 {
		m.taint(t, "interrupted") // with its rows or without them
		m.finish(o)
		return m.over(StepRelease)
	}
	m.failedTruncate(o)
	switch {
	case f.aside:
		return m.endAside(false)
	case f.then == doEmpty:
		f.then = doForward
	default:
		m.mark(t, "reset_failed")
		f.then, f.table = doCreate, nil
	}
	return m.advance()
}
