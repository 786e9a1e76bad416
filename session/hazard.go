package session

import "tmpproxy/rewrite"

// hazards looks for the differences that a conversion to InnoDB may just have made, and keeps track of the rows written in
// the open transaction. It sees the reply to the client's command before the rest of the machine does.
func (m *Machine) hazards(o *Outcome) {
	f := &m.flow
	s := f.statement
	if len(m.tables) == 0 || f.kind != EventQuery && f.kind != EventExecute {
		return
	}
	const multiRow = 1<<rewrite.VerbInsert | 1<<rewrite.VerbReplace | 1<<rewrite.VerbUpdate | 1<<rewrite.VerbLoad
	const rollback = 1<<rewrite.VerbRollback | 1<<rewrite.VerbRollbackTo
	const end = 1<<rewrite.VerbRollback | 1<<rewrite.VerbCommit
	ok := o.Kind != OutcomeErr
	open := o.Status&statusInTrans != 0 || o.Status&statusAutocommit == 0
	for _, t := range m.tables {
		if t.converted && t.state != stateParked {
			switch {
			case ok && t.copied:
				t.away = true
			case ok && s.Verbs&rollback != 0 && t.written:
				m.hazard(t, "rollback")
			case ok && !m.server.MariaDB && o.Status&statusInTransReadOnly != 0 && s.Verbs&writeVerbs != 0 && t.named:
				m.hazard(t, "read_only_write") // COUNT(*) may then be wrong: a fault of MySQL's InnoDB
			case !ok && o.Code == errDeadlock && (t.written || t.named):
				m.hazard(t, "deadlock")
			case !ok && s.Verbs&multiRow != 0 && t.named:
				m.hazard(t, "statement_error")
			}
		}
		switch {
		case !ok:
		case !open, s.Verbs&end != 0, t.away:
			t.written = false
		case s.Verbs&writeVerbs != 0 && t.named:
			t.written = true
		}
	}
}

// hazard reports one.
func (m *Machine) hazard(t *table, reason string) {
	f := &m.flow
	m.note(Note{Kind: NoteHazard, Shape: t.shape, Name: t.key, Reason: reason})
	if f.policy.OnHazard == HazardNative {
		m.note(Note{Kind: NoteBlockShape, Shape: t.shape, Name: t.key, Until: until(f.policy.MaxAge, f.now)})
	}
}
