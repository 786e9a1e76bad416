package session

import (
	"bytes"
	"slices"

	"tmpproxy/rewrite"
)

const (
	maxHandles       = 256       // prepared statements that are remembered
	maxPreparedBytes = 256 << 10 // and the length of their texts
)

// prepared are the statements that the session has prepared, as far as they are remembered.
type prepared struct {
	list  []handle
	bytes int
}

// handle is a prepared statement: by COM_STMT_PREPARE it has an id, by PREPARE a name.
type handle struct {
	id        uint32
	name      string // in lower case; "" for an id
	gone      bool   // there is no statement of that name: EXECUTE fails
	doubtful  bool   // of a PREPARE: it may fail before the statement that had the name is taken away
	statement rewrite.Statement
	text      []byte
	mode      rewrite.Mode // by which the server has read it
	schema    string       // in which the server runs it: that in which it was prepared; "" if it is not known
	ddl       *preparedDDL // of a CREATE or DROP of temporary tables that names nothing else
}

// preparedDDL is what is needed to take part in a prepared CREATE or DROP, which is done as long as nothing has changed since it
// was prepared.
type preparedDDL struct {
	context context
	create  *rewrite.Create // of a CREATE
	convert rewrite.EngineSet
}

// index returns where a statement is in the list, or -1. Either the id or the name counts.
func (p *prepared) index(id uint32, name string) int {
	if p == nil {
		return -1
	}
	return slices.IndexFunc(p.list, func(h handle) bool { return h.id == id && h.name == name })
}

// find returns a statement; false if it is not known.
func (p *prepared) find(id uint32, name string) (handle, bool) {
	i := p.index(id, name)
	if i < 0 {
		return handle{}, false
	}
	return p.list[i], true
}

// nothing is the handle of no statement: to execute it fails.
func nothing(name string) handle {
	return handle{name: name, gone: true, text: []byte(" "), statement: rewrite.Statement{Verb: rewrite.VerbEmpty, Verbs: 1 << rewrite.VerbEmpty}}
}

// close forgets a statement.
func (p *prepared) close(id uint32, name string) {
	if i := p.index(id, name); i >= 0 {
		p.bytes -= len(p.list[i].text)
		p.list[i] = p.list[len(p.list)-1]
		p.list[len(p.list)-1] = handle{}
		p.list = p.list[:len(p.list)-1]
	}
}

// lose notes that a name has no statement any more.
func (p *prepared) lose(name string) {
	if p != nil {
		p.add(nothing(name))
	}
}

// forgetNames forgets what was prepared by PREPARE: code that cannot be seen may have prepared something else.
func (p *prepared) forgetNames() {
	if p == nil {
		return
	}
	p.list = slices.DeleteFunc(p.list, func(h handle) bool {
		if h.name == "" {
			return false
		}
		p.bytes -= len(h.text)
		return true
	})
}

// add remembers a statement if there is room.
func (p *prepared) add(h handle) {
	p.close(h.id, h.name)
	if len(p.list) < maxHandles && p.bytes+len(h.text) <= maxPreparedBytes {
		p.list = append(p.list, h)
		p.bytes += len(h.text)
	}
}

// planPrepare plans a COM_STMT_PREPARE.
func (m *Machine) planPrepare(ev *Event) {
	f := &m.flow
	if !ev.Whole || ev.Statement.Doubtful || len(ev.Text) == 0 {
		m.settleAll("opaque")
		f.exposes, f.taintAll = m.server.MariaDB, m.server.MariaDB && ev.Statement.Doubtful
		return
	}
	m.planPreparing(handle{statement: ev.Statement, text: bytes.Clone(ev.Text)}, ev)
	// What a function has touched can restore nothing but a plain outcome.
	f.reads = f.exposes && m.owed != owedNothing && (m.owed != owedPlain || m.lingering && !m.rowCounted)
}

// planNamedPrepare plans a PREPARE; false: it is not understood.
func (m *Machine) planNamedPrepare(text []byte, ev *Event) bool {
	if ev == nil {
		return false
	}
	name, inner, ok := rewrite.ParsePrepare(text, m.mode())
	if !ok {
		return false
	}
	s := rewrite.Classify(inner, m.mode())
	if s.Doubtful || s.Multi {
		return false
	}
	// Under ANSI_QUOTES, which MySQL does not tell, "text" is a name: the PREPARE fails as it is read.
	m.planPreparing(handle{name: name, statement: s, text: bytes.Clone(inner), doubtful: bytes.IndexByte(text, '"') >= 0}, ev)
	return true
}

// planPreparing plans the preparation of a statement: the server resolves the names in it, but for those of a CREATE or DROP of
// temporary tables, and does nothing yet, except that MariaDB may call functions: see exposes.
func (m *Machine) planPreparing(h handle, ev *Event) {
	h.mode = m.mode()
	if m.schemaKnown {
		h.schema = m.ctx.schema
	}
	own := false
	switch c := ev.Create; h.statement.Verb {
	case rewrite.VerbCreateTemporary:
		own = c != nil && (c.Keep.Reason == rewrite.ReasonNone || c.Convert.Reason == rewrite.ReasonNone)
	case rewrite.VerbDropTable:
		_, own = rewrite.ParseDrop(h.text, m.mode())
	}
	if own = own && !h.statement.Multi && bytes.IndexByte(h.text, '?') < 0; own {
		h.ddl = &preparedDDL{context: m.ctx, create: ev.Create, convert: ev.Policy.Convert}
	} else {
		m.mention(h.text)
		m.unname()
	}
	f := &m.flow
	f.exposes = m.server.MariaDB && !own && m.exposes(h.statement, h.text)
	if m.server.MariaDB && len(m.tables) > 0 && m.functionsCount() && rewrite.CallsFunction(h.text, m.mode()) {
		f.taintAll = true
		m.settleAll("opaque")
	}
	f.detail = &detail{handle: &h}
}

// remember takes over the outcome of a preparation. One that fails has taken away what had the name, unless it failed before that.
func (m *Machine) remember(o *Outcome) {
	f := &m.flow
	switch d := f.detail; {
	case f.kind == EventPrepare && o.Kind == OutcomeErr:
	case d == nil || d.handle == nil:
		m.prepared.close(o.Handle, "")
	case o.Kind == OutcomeErr && (d.handle.doubtful || interrupted(o)):
		m.prepared.close(0, d.handle.name)
	case o.Kind == OutcomeErr:
		m.prepared.lose(d.handle.name)
	default:
		if m.prepared == nil {
			m.prepared = &prepared{}
		}
		d.handle.id = o.Handle
		m.prepared.add(*d.handle)
	}
}

// planExecute plans a COM_STMT_EXECUTE: it does what the statement of its handle does.
func (m *Machine) planExecute(ev *Event) {
	h, ok := m.prepared.find(ev.Handle, "")
	switch {
	case ev.Handle == NoHandle:
		h = nothing("")
	case !ok:
		h.statement = rewrite.Statement{Verb: rewrite.VerbUnknown, Verbs: 1 << rewrite.VerbUnknown, Doubtful: true}
	}
	m.planPrepared(h, ev)
}

// planNamedExecute plans an EXECUTE; false: what it runs is not known.
func (m *Machine) planNamedExecute(ev *Event) bool {
	if ev.Statement.Verb != rewrite.VerbExecute || ev.Statement.Multi || ev.Statement.Executable || !ev.Whole {
		return false
	}
	name, parameters, ok := rewrite.ParseExecute(ev.Text, m.mode())
	if !ok {
		return false
	}
	h, ok := m.prepared.find(0, name)
	if !ok {
		return false
	}
	if parameters {
		h.ddl = nil // it fails
	}
	m.planPrepared(h, ev)
	return true
}

// planPrepared plans the execution of a prepared statement.
func (m *Machine) planPrepared(h handle, ev *Event) {
	f := &m.flow
	if !h.gone && h.mode != m.mode() { // it was read otherwise than it would be now
		h.ddl, h.statement.Doubtful = nil, true
	}
	f.statement, f.whole = h.statement, true
	var own *Event
	f.elsewhere = !m.schemaKnown || h.schema != m.ctx.schema
	if d := h.ddl; d != nil && ev.Whole && !f.elsewhere && d.convert == ev.Policy.Convert && d.context.equal(m.ctx) {
		own = &Event{Create: d.create}
	}
	m.planText(h.text, own)
}
