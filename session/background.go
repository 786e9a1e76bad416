package session

// background is the statement of ours that is sent while no command of the client is in progress.
type background struct {
	table  *table // that it is about
	maxAge int64  // the policy's
	sent   int64  // when
	phase  phase  // atCheck, atTruncate, atDelete, atSettle, atCommit
	out    bool
	sweep  bool // a COMMIT or ROLLBACK has just been answered: what is too old may be settled
	looks  bool // and live tables may be looked at
}

// HasBackground says whether anything is to be sent while no command of the client is in progress. It is cheap.
func (m *Machine) HasBackground() bool {
	b := &m.background
	switch {
	case b.out:
		return false
	case m.mustCommit:
		return true
	case len(m.tables) == 0 || !m.undisturbed():
		return false
	case b.sweep:
		return true
	}
	return b.looks || m.waiting() != nil
}

// undisturbed says whether statements of ours may be sent behind the client's back: they commit, and they wipe the
// diagnostics, which therefore have to be wiped already or to be owed.
func (m *Machine) undisturbed() bool {
	return m.quiet() && (m.plain || m.owed != owedNothing && !m.rowCounted)
}

// waiting returns a parked table that has to be emptied, or else one that has to be dropped.
func (m *Machine) waiting() *table {
	var other *table
	for _, t := range m.tables {
		if t.state != stateParked {
			continue
		}
		switch t.condition {
		case dirty:
			return t
		case doomed:
			other = t
		}
	}
	return other
}

// early returns a live table that is looked at before the client drops it: behind a COMMIT or ROLLBACK, while the client has its turn. So
// is one that was looked at in vain else, or so would have been, in its last cycle: what came between was nothing that cannot be seen.
func (m *Machine) early(p *Policy) *table {
	for _, t := range m.tables {
		if t.state == stateLive && t.early && t.exposed && t.like == (Key{}) && (t.touched || !m.unmentioned(t, p)) {
			return t
		}
	}
	return nil
}

// Background returns the next statement of ours to be sent while no command of the client is in progress, as a StepInject;
// false if there is none. now is in monotonic nanoseconds. Its reply is given to BackgroundDone.
func (m *Machine) Background(now int64, p *Policy) (Step, bool) {
	b := &m.background
	if !m.HasBackground() {
		return Step{}, false
	}
	if m.mustCommit {
		return m.send(atCommit, commitSQL, ClassSettle, nil, now)
	}
	if b.sweep {
		b.sweep, b.looks = false, true
		for _, t := range m.tables {
			if t.state == stateParked && t.condition != stuck && m.due(t, p, now) {
				t.condition, t.why = doomed, "expired"
			}
		}
	}
	b.maxAge = p.MaxAge
	t := m.waiting()
	if t == nil && b.looks {
		if t = m.early(p); t != nil {
			return m.send(atCheck, checkSQL(t.key), ClassCheck, t, now)
		}
		b.looks = false
	}
	switch {
	case t == nil:
		return Step{}, false
	case m.native || p.Strategy == StrategyNative:
		t.condition, t.why = doomed, "native"
	}
	switch {
	case t.condition == doomed:
		return m.send(atSettle, dropSQL(t.key), ClassSettle, t, now)
	case t.exposed:
		return m.send(atCheck, checkSQL(t.key), ClassCheck, t, now)
	case m.deletable(t, p):
		return m.send(atDelete, emptySQL(t.key), ClassReset, t, now)
	}
	return m.send(atTruncate, truncateSQL(t.key), ClassReset, t, now)
}

func (m *Machine) send(p phase, sql string, class Class, t *table, now int64) (Step, bool) {
	b := &m.background
	b.phase, b.table, b.out, b.sent = p, t, true, now
	s := Step{Kind: StepInject, SQL: sql, Class: class}
	if t != nil {
		m.disturb(t)
		s.Shape = t.shape
	}
	return s, true
}

// BackgroundDone takes the outcome of the statement that Background returned.
func (m *Machine) BackgroundDone(o *Outcome) {
	b := &m.background
	t := b.table
	quiet := m.quiet()
	b.out, b.table = false, nil
	if t != nil {
		t.behind += o.Now - b.sent
	}
	switch b.phase {
	case atCommit:
		m.ours(o)
		m.mustCommit = false
	case atSettle:
		m.ours(o)
		if o.Kind == OutcomeErr && o.Code != errUnknownTable {
			t.condition = stuck
			return
		}
		m.mustCommit = quiet && m.opened()
		m.remove(t)
		m.note(Note{Kind: NoteSettle, Shape: t.shape, Name: t.key, Reason: t.why})
	case atCheck:
		switch {
		case m.isOurs(t, o, b.maxAge, o.Now):
			if t.state == stateLive {
				t.early = false // once in a cycle is enough
			}
		case t.state == stateLive:
			m.taint(t, "not_ours")
			if m.owedTable == t {
				m.owed = owedNothing // nothing is sent about it any more
			}
		default:
			t.condition, t.why = doomed, "not_ours"
		}
	case atDelete:
		m.ours(o)
		if o.Kind == OutcomeErr {
			m.known = quiet
			t.deletes = maxDeletes // TRUNCATE, then
		} else {
			m.reset(t, true, o.Now-b.sent)
		}
	case atTruncate:
		if o.Kind == OutcomeErr {
			m.failedTruncate(o)
			t.condition, t.why = doomed, "reset_failed"
		} else {
			m.ours(o)
			m.reset(t, false, o.Now-b.sent)
		}
	}
}
