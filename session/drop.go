package session

import (
	"slices"

	"tmpproxy/rewrite"
)

// planDrop plans a DROP TABLE. ev is nil for a prepared one.
func (m *Machine) planDrop(text []byte, ev *Event) {
	f := &m.flow
	d := &detail{}
	f.class, f.detail, f.reads = ClassDrop, d, false
	m.markDue()
	drop, ok := rewrite.ParseDrop(text, m.mode())
	if ok = ok && m.resolve(drop.Tables); !ok {
		f.taints = true
		m.mention(text)
		return
	}
	f.ddl = true
	d.ifExists = drop.IfExists
	if ev != nil && m.planOwnDrop(&drop) {
		return
	}
	// Those of exactly these names are dealt with when the reply is there.
	m.mention(text)
	f.taints = true
	for _, t := range m.tables {
		exact := slices.Contains(d.keys, t.key)
		if exact && f.table == nil {
			f.table = t
		}
		if exact || !slices.ContainsFunc(d.keys, func(k Key) bool { return alike(k, t.key) }) {
			t.named = false
		}
	}
}

// resolve finds out which tables the names of a DROP mean.
func (m *Machine) resolve(names []rewrite.Name) bool {
	d := m.flow.detail
	for _, n := range names {
		key, ok := m.key(n)
		if !ok {
			d.keys = nil
			return false
		}
		d.keys = append(d.keys, key)
	}
	return true
}

// planOwnDrop plans a DROP that is answered by us, or replaced; false: it is not.
func (m *Machine) planOwnDrop(drop *rewrite.Drop) bool {
	f := &m.flow
	d := f.detail
	if f.policy.Strategy == StrategyNative || m.native || m.readOnly() || m.locked {
		return false
	}
	tables := make([]*table, 0, len(d.keys))
	for _, k := range d.keys {
		t := m.find(k)
		if t == nil || slices.Contains(tables, t) {
			return false
		}
		tables = append(tables, t)
	}
	if t := tables[0]; len(tables) == 1 && t.state == stateParked {
		return m.planNote(drop, t)
	}
	if slices.ContainsFunc(tables, func(t *table) bool { return !m.parkable(t) }) {
		return false
	}
	if f.policy.Strict && (!m.known || m.inTransaction()) {
		return false
	}
	then := doPark
	switch {
	case m.quiet():
	case drop.Temporary && m.known && (m.inTransaction() || m.oneShot):
	case !drop.Temporary && len(tables) == 1:
		then = doEmpty
	default:
		return false
	}
	if !m.markOldest(len(tables)) {
		return false
	}
	f.then, f.table, d.tables = then, tables[0], tables
	return true
}

// planNote plans the DROP IF EXISTS of a table that the client has dropped already.
func (m *Machine) planNote(drop *rewrite.Drop, t *table) bool {
	f := &m.flow
	if !drop.IfExists || !m.wasNoted || !m.noted.equal(m.ctx) || !m.known || t.settle || t.condition == stuck {
		return false
	}
	switch {
	case drop.Temporary:
		f.then = doNote
	case m.quiet():
		f.then = doProbe
	default:
		return false
	}
	f.table = t
	return true
}

// parkable says whether a table may be parked instead of dropped.
func (m *Machine) parkable(t *table) bool {
	f := &m.flow
	return t.state == stateLive && t.arm != StrategyNative && !t.old(f.policy, f.now) && m.ledger.Shape(t.shape).Native <= f.now &&
		m.ledger.Name(t.key).Seen && m.nameReason(t.key) == ""
}

// markOldest has as many of the longest parked tables settled as it takes to park n more; false: that many are not allowed.
func (m *Machine) markOldest(n int) bool {
	limit := m.flow.policy.MaxParked
	for {
		var oldest *table
		parked := 0
		for _, t := range m.tables {
			if t.state != stateParked || t.settle {
				continue
			}
			if parked++; oldest == nil || t.parked < oldest.parked {
				oldest = t
			}
		}
		switch {
		case n > limit:
			return false
		case parked+n <= limit:
			return true
		}
		m.tidy(oldest, "limit")
	}
}

// park answers a DROP of live tables.
func (m *Machine) park() Step {
	f := &m.flow
	for _, t := range f.detail.tables {
		t.state, t.parked, t.condition, t.written = stateParked, f.now, dirty, false
		t.away, t.early = false, !t.since
		t.behind = 0
		if m.isEmpty(t) {
			t.clear()
		}
		m.note(Note{Kind: NotePark, Shape: t.shape, Name: t.key})
	}
	m.owe(owedPlain, f.table)
	return m.answer(0)
}

// elapsed is the time that the client's command has taken so far.
func (m *Machine) elapsed() int64 { return m.flow.now - m.flow.began }

// isEmpty says whether nothing can have written to a table: no statement has named it, and no routine or trigger has run, or
// their bodies were all read and do not name it either.
func (m *Machine) isEmpty(t *table) bool {
	return !t.touched && (!t.exposed || m.unmentioned(t, m.flow.policy))
}

// leaveNote answers a DROP IF EXISTS of a parked table.
func (m *Machine) leaveNote() Step {
	m.owe(owedNote, m.flow.table)
	return m.answer(1)
}

// probe asks whether something permanent has the name of a parked table that the client drops once more.
func (m *Machine) probe() Step {
	t := m.flow.table
	return m.inject(atProbe, probeSQL(t.key), ClassCheck, t)
}

// probed goes on behind that question. If something permanent is there, or it cannot be told, the DROP is the server's.
func (m *Machine) probed(o *Outcome) Step {
	f := &m.flow
	m.looked(o)
	if o.Kind == OutcomeErr && o.Code == errNoSuchTable {
		return m.leaveNote()
	}
	m.mark(f.table, "permanent")
	f.then, f.table = doForward, nil
	return m.advance()
}

// dropped takes over the outcome of a DROP TABLE of the client's own.
func (m *Machine) dropped(o *Outcome) {
	f := &m.flow
	if f.class != ClassDrop || f.then != doForward {
		return
	}
	d := f.detail
	ok := o.Kind != OutcomeErr
	if ok && d.ifExists && len(d.keys) == 1 && o.Warnings == 1 {
		m.noted, m.wasNoted = m.ctx, true
	}
	if ok && !f.statement.Temporary && len(d.keys) > 0 {
		m.oneShot, m.oneShotRead = false, false // it has committed
	}
	for _, k := range d.keys {
		t := m.find(k)
		switch {
		case t == nil:
		case ok:
			m.note(Note{Kind: NoteSeen, Shape: t.shape, Name: t.key})
			m.remove(t)
		case o.Code == errUnknownTable:
			if m.server.MariaDB { // it drops those that exist, MySQL drops none
				m.remove(t)
			}
		case o.Code != errNoDatabase && o.Code != errParse && o.Code != errNotUnique && o.Code != errReadOnly:
			m.taint(t, "drop_failed")
		}
	}
}
