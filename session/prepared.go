package session

import (
	"bytes"

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

type handle struct {
	id        uint32
	statement rewrite.Statement
	text      []byte
}

// find returns the statement of a handle; false if it is not known.
func (p *prepared) find(id uint32) (handle, bool) {
	if p != nil {
		for _, h := range p.list {
			if h.id == id {
				return h, true
			}
		}
	}
	return handle{}, false
}

// close forgets a handle.
func (p *prepared) close(id uint32) {
	if p == nil {
		return
	}
	for i, h := range p.list {
		if h.id == id {
			p.bytes -= len(h.text)
			p.list[i] = p.list[len(p.list)-1]
			p.list[len(p.list)-1] = handle{}
			p.list = p.list[:len(p.list)-1]
			return
		}
	}
}

// add remembers a handle if there is room.
func (p *prepared) add(h handle) {
	p.close(h.id)
	if len(p.list) < maxHandles && p.bytes+len(h.text) <= maxPreparedBytes {
		p.list = append(p.list, h)
		p.bytes += len(h.text)
	}
}

// planPrepare plans a COM_STMT_PREPARE: it resolves names, but does nothing yet.
func (m *Machine) planPrepare(ev *Event) {
	f := &m.flow
	if !ev.Whole || ev.Statement.Doubtful || len(ev.Text) == 0 {
		m.settleAll("opaque")
		return
	}
	m.mention(ev.Text)
	m.unname()
	f.detail = &detail{text: bytes.Clone(ev.Text)}
}

// remember takes over the outcome of a COM_STMT_PREPARE.
func (m *Machine) remember(o *Outcome) {
	d := m.flow.detail
	if o.Kind == OutcomeErr {
		return
	}
	if d == nil {
		m.prepared.close(o.Handle)
		return
	}
	if m.prepared == nil {
		m.prepared = &prepared{}
	}
	m.prepared.add(handle{id: o.Handle, statement: m.flow.statement, text: d.text})
}

// planExecute plans a COM_STMT_EXECUTE: it does what the statement of its handle does, but is never answered by us.
func (m *Machine) planExecute(ev *Event) {
	h, ok := m.prepared.find(ev.Handle)
	if !ok {
		h.statement = rewrite.Statement{Verb: rewrite.VerbUnknown, Verbs: 1 << rewrite.VerbUnknown, Doubtful: true}
	}
	m.flow.statement, m.flow.whole = h.statement, true
	m.planText(h.text, nil)
}
