package session

// empty has a table emptied before the client's command in progress goes on: a CREATE of a dirty parked table, a DROP TABLE
// of a live one in a transaction, or a statement that reads the diagnostics behind it.
func (m *Machine) empty() Step {
	f := &m.flow
	t := f.table
	if !f.probed && !m.fresh(t.key, f.now) {
		return m.inject(atCheck, checkSQL(t.key), ClassCheck, t)
	}
	class, kind := ClassReset, StepReplace
	switch {
	case f.replaying:
		class, kind = ClassReplay, StepInject
	case f.then == doRefill && t.warnings > 0:
		kind = StepInject // its OK is not what the client has to see
	}
	s := m.inject(atTruncate, truncateSQL(t.key), class, t)
	s.Kind = kind
	return s
}

// freshness is for how many nanoseconds an existence check is believed.
const freshness = 5e9

// fresh says whether nothing permanent of a name was there only just now.
func (m *Machine) fresh(key Key, now int64) bool {
	c := m.ledger.Name(key).Checked
	return c != 0 && now-c < freshness
}

// isFree takes over the outcome of an existence check: whether nothing permanent has the table's name. If something has,
// or it cannot be told, the name is left alone.
func (m *Machine) isFree(t *table, o *Outcome, maxAge, now int64) bool {
	m.plain, m.lingering = false, true
	if o.Kind != OutcomeErr {
		m.status, m.known = o.Status, true
	}
	if o.Kind == OutcomeErr && o.Code == errNoSuchTable {
		m.note(Note{Kind: NoteChecked, Shape: t.shape, Name: t.key, Until: now})
		return true
	}
	m.note(Note{Kind: NoteBlockName, Shape: t.shape, Name: t.key, Until: until(maxAge, now)})
	return false
}

// checked goes on behind an existence check.
func (m *Machine) checked(o *Outcome) Step {
	f := &m.flow
	t := f.table
	if m.isFree(t, o, f.policy.MaxAge, f.now) {
		f.probed = true
		if f.then == doProbe {
			return m.leaveNote()
		}
		return m.empty()
	}
	switch {
	case f.replaying:
		f.blocked = true
		f.table, f.replaying = nil, false
		return m.advance()
	case f.then != doEmpty:
		m.mark(t, "permanent")
	}
	f.then, f.table = doForward, nil
	return m.advance()
}

// truncated goes on behind a TRUNCATE.
func (m *Machine) truncated(o *Outcome) Step {
	f := &m.flow
	t := f.table
	if o.Kind == OutcomeErr {
		return m.notTruncated(o)
	}
	t.clear()
	switch {
	case f.replaying:
		m.ours(o)
		f.table, f.replaying = nil, false
		return m.advance()
	case f.then == doEmpty:
		t.state, t.parked = stateParked, f.now
		m.oneShot, m.oneShotRead = false, false // it has committed
		m.note(Note{Kind: NotePark, Shape: t.shape, Name: t.key})
	default:
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
	if !f.replaying && interrupted(o) && t.warnings == 0 {
		m.taint(t, "interrupted") // with its rows or without them
		m.finish(o)
		return m.over(StepRelease)
	}
	m.failedTruncate(o)
	if f.replaying {
		if t.state == stateParked {
			t.condition = doomed
		}
		f.blocked = true
		f.table, f.replaying = nil, false
		return m.advance()
	}
	if f.then == doEmpty {
		f.then = doForward
		return m.advance()
	}
	m.mark(t, "reset_failed")
	f.then, f.table = doCreate, nil
	return m.advance()
}
