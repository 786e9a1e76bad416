package session

import (
	"bytes"
	"slices"

	"tmpproxy/rewrite"
)

// Sets of verbs.
const (
	// routineVerbs run code that cannot be seen.
	routineVerbs = 1<<rewrite.VerbCall | 1<<rewrite.VerbExecute | 1<<rewrite.VerbCompound | 1<<rewrite.VerbUnknown

	// dataVerbs read and write rows.
	dataVerbs = 1<<rewrite.VerbSelect | 1<<rewrite.VerbInsert | 1<<rewrite.VerbReplace | 1<<rewrite.VerbUpdate |
		1<<rewrite.VerbDelete | 1<<rewrite.VerbLoad

	// writeVerbs write rows of the table that they name.
	writeVerbs = dataVerbs &^ (1 << rewrite.VerbSelect)

	// harmlessVerbs leave a table that they name what it is.
	harmlessVerbs = dataVerbs | 1<<rewrite.VerbEmpty | 1<<rewrite.VerbTruncate | 1<<rewrite.VerbShow |
		1<<rewrite.VerbShowDiagnostics | 1<<rewrite.VerbShowTables | 1<<rewrite.VerbDescribe | 1<<rewrite.VerbExplain |
		1<<rewrite.VerbDo | 1<<rewrite.VerbSet | 1<<rewrite.VerbGetDiagnostics

	// sessionVerbs change what the machine knows of the session, but no table.
	sessionVerbs = 1<<rewrite.VerbUse | 1<<rewrite.VerbBegin | 1<<rewrite.VerbCommit | 1<<rewrite.VerbRollback |
		1<<rewrite.VerbRollbackTo | 1<<rewrite.VerbSavepoint | 1<<rewrite.VerbRelease | 1<<rewrite.VerbUnlockTables

	// settledVerbs leave the transaction what it is, even if they fail.
	settledVerbs = 1<<rewrite.VerbUse | 1<<rewrite.VerbSet | 1<<rewrite.VerbShow | 1<<rewrite.VerbShowDiagnostics |
		1<<rewrite.VerbSavepoint | 1<<rewrite.VerbRelease | 1<<rewrite.VerbRollbackTo | 1<<rewrite.VerbDescribe
)

// planText plans a statement. ev is nil for a prepared one that is neither answered nor replaced.
func (m *Machine) planText(text []byte, ev *Event) {
	f := &m.flow
	s := f.statement
	if m.meter != nil {
		m.meter.mark(text)
	}
	f.opaque = m.isOpaque(text)
	f.reads = m.readsDiagnostics(text)
	f.exposes = m.exposes(f.statement, text)
	f.tableless = !f.opaque && f.statement.Verb == rewrite.VerbSelect && m.tableless(text)
	f.keeps = m.server.MariaDB && (m.lingering || m.owed != owedNothing) && !m.clears(s, text)
	switch {
	case f.opaque:
		f.taintAll = true
		m.settleAll("opaque")
		if s.Has(rewrite.VerbSet) {
			m.planUnreadSet(text)
		}
	case s.Multi:
		m.planMulti(text)
	case !f.whole:
		m.settleAll("long")
		for _, t := range m.tables {
			t.named = t.state == stateLive
		}
	default:
		m.planSingle(text, ev)
	}
	if f.readOnly = f.readOnly || s.ReadOnly || s.Has(rewrite.VerbXABegin); f.readOnly {
		m.settleAll("read_only")
	}
	if s.Has(rewrite.VerbBegin) && f.policy.Strict {
		m.settleAll("strict")
	}
	if m.owed != owedNothing && f.keeps && (m.losesOwed() || rewrite.CallsFunction(text, m.mode())) {
		f.reads = true
	}
	m.outdate(text)
	m.planCopies()
	f.flush = m.endsQuiet() && m.mayWipe(text)
	if m.server.MariaDB && (f.flush || m.anySettle()) {
		f.keeps = !m.clears(s, text) // what is sent first may leave warnings that it keeps
	}
	if s.Has(rewrite.VerbFlush) {
		f.locks = rewrite.Mentions(text, "lock") || rewrite.Mentions(text, "export")
	}
	if len(m.tables) > 0 && m.server.MariaDB && m.server.Version >= listsTemporary &&
		(s.Has(rewrite.VerbShowTables) || rewrite.ReadsTables(text)) {
		m.settleAll("listed")
	}
}

// endsQuiet says whether behind the client's statement there will be no occasion to empty tables, while there is one now.
func (m *Machine) endsQuiet() bool {
	const stays = 1<<rewrite.VerbCommit | 1<<rewrite.VerbRollback | 1<<rewrite.VerbCreateTemporary | 1<<rewrite.VerbDropTable
	if len(m.tables) == 0 || !m.quiet() {
		return false
	}
	s := m.flow.statement
	return s.Has(rewrite.VerbBegin) || m.status&statusAutocommit == 0 && s.Verbs&^stays != 0
}

// planSingle plans a single statement whose text is there as a whole and can be seen through.
func (m *Machine) planSingle(text []byte, ev *Event) {
	f := &m.flow
	switch f.statement.Verb {
	case rewrite.VerbCreateTemporary:
		m.planCreate(text, ev)
		return
	case rewrite.VerbDropTable:
		m.planDrop(text, ev)
		return
	case rewrite.VerbSet:
		m.planSet(text)
	case rewrite.VerbUse:
		f.detail = &detail{}
		f.detail.schema, _ = rewrite.ParseUse(text, m.mode())
	case rewrite.VerbPrepare:
		if m.planNamedPrepare(text, ev) {
			return
		}
	case rewrite.VerbDeallocate:
		name, _ := rewrite.ParseDeallocate(text, m.mode())
		f.detail = &detail{handle: &handle{name: name}}
		return
	case rewrite.VerbXA:
		f.endsXA = endsXA(text)
	case rewrite.VerbDatabase:
		f.taintAll = true
		f.losesSchema = m.ctx.schema != "" && !beginsWith(text, "CREATE") && rewrite.Mentions(text, m.ctx.schema)
		m.settleAll("database")
	}
	f.taints = 1<<f.statement.Verb&harmlessVerbs == 0
	m.mention(text)
}

// trackNames takes over what a statement did to those that are prepared by name.
func (m *Machine) trackNames(o *Outcome) {
	const names = 1<<rewrite.VerbPrepare | 1<<rewrite.VerbDeallocate
	f := &m.flow
	s := f.statement
	known := f.detail != nil && f.detail.handle != nil && f.detail.handle.name != ""
	switch {
	case f.opaque, f.taintAll, s.Verbs&names != 0 && !known:
		m.prepared.forgetNames()
	case s.Verb == rewrite.VerbPrepare:
		m.remember(o)
	case s.Verb == rewrite.VerbDeallocate && o.Kind != OutcomeErr:
		m.prepared.lose(f.detail.handle.name)
	}
}

// planMulti plans several statements in one text.
func (m *Machine) planMulti(text []byte) {
	f := &m.flow
	s := f.statement
	if s.Verbs&^(harmlessVerbs|sessionVerbs) != 0 {
		f.taintAll = true
		m.settleAll("multi")
	}
	if s.Has(rewrite.VerbSet) {
		m.planUnreadSet(text)
	}
	m.mention(text)
}

// isOpaque says whether what a statement does cannot be seen.
func (m *Machine) isOpaque(text []byte) bool {
	f := &m.flow
	s := f.statement
	switch {
	case s.Doubtful, s.Verbs&routineVerbs != 0, len(text) == 0:
		return true
	case !f.whole && s.Verbs&^dataVerbs != 0:
		return true
	case s.Program && !s.Multi && !s.Borrows:
		return false // functions that its body calls are not called
	case len(m.tables) == 0 && !m.wasNoted:
		return false // there is nothing that a function could touch
	}
	return m.functionsCount() && rewrite.CallsFunction(text, m.mode())
}

// exposes says whether a statement may run something that cannot be seen: a trigger of a permanent table, or a function that
// a view calls. What uses no tables but live ones of ours does not: temporary tables have no triggers. To describe a view or to
// prepare a statement runs nothing on MySQL, but MariaDB calls a DETERMINISTIC function that is, say, the second argument of ROUND().
func (m *Machine) exposes(s rewrite.Statement, text []byte) bool {
	const none = sessionVerbs | 1<<rewrite.VerbEmpty | 1<<rewrite.VerbShowDiagnostics | 1<<rewrite.VerbShowTables |
		1<<rewrite.VerbGetDiagnostics | 1<<rewrite.VerbDropTable | 1<<rewrite.VerbTruncate | 1<<rewrite.VerbSet | 1<<rewrite.VerbDo |
		1<<rewrite.VerbDeallocate
	const resolve = 1<<rewrite.VerbShow | 1<<rewrite.VerbDescribe | 1<<rewrite.VerbPrepare
	f := &m.flow
	switch {
	case !slices.ContainsFunc(m.tables, func(t *table) bool { return !t.exposed || !t.crept && t.state == stateLive }):
		return true // there is nothing to find out, and what is looked at before the statement is not known behind it
	case f.opaque, s.Multi, !f.whole, s.Executable:
		return true
	case f.policy.Routines != RoutinesVisible && rewrite.CallsFunction(text, m.mode()):
		return true // it is not opaque then
	case 1<<s.Verb&none != 0, 1<<s.Verb&resolve != 0 && !m.server.MariaDB:
		return rewrite.Subquery(text)
	case 1<<s.Verb&dataVerbs == 0:
		return true
	}
	n, ok := rewrite.SoleTable(text, m.mode())
	if !ok || len(n.Name) == 0 {
		return !ok
	}
	for _, t := range m.tables {
		if t.state == stateLive && !t.exposed && string(n.Name) == t.key.Name && m.inSchema(t, n.Schema) {
			return false
		}
	}
	return true
}

// inSchema says whether a table is in the schema of that name; "" is the current one.
func (m *Machine) inSchema(t *table, schema []byte) bool {
	if len(schema) == 0 {
		return m.schemaKnown && !m.flow.elsewhere && t.key.Schema == m.ctx.schema
	}
	return string(schema) == t.key.Schema
}

// functionsCount says whether a stored function may touch a managed table: not if the bodies of all were read.
func (m *Machine) functionsCount() bool {
	switch m.flow.policy.Routines {
	case RoutinesVisible:
		return true
	case RoutinesScan:
		known, _ := m.ledger.Routines()
		return !known
	}
	return false
}

// beginsWith says whether the first word of a text is w, which is in upper case.
func beginsWith(text []byte, w string) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > len(w) && bytes.EqualFold(text[:len(w)], []byte(w)) && bytes.IndexByte([]byte(" \t\r\n"), text[len(w)]) >= 0
}

// tableless says whether a single SELECT surely reads no table, which opens no transaction.
func (m *Machine) tableless(text []byte) bool {
	return m.flow.whole && !m.flow.statement.Multi && !m.flow.statement.Executable && beginsWith(text, "SELECT") &&
		!slices.ContainsFunc(tableWords, func(w string) bool { return rewrite.Mentions(text, w) }) && !rewrite.CallsFunction(text, m.mode())
}

// tableWords are what a SELECT needs one of to read a table, or a sequence, which is one.
var tableWords = []string{"from", "table", "value", "values", "nextval", "lastval", "setval"}

// endsXA says whether an XA statement is COMMIT or ROLLBACK.
func endsXA(text []byte) bool {
	if !beginsWith(text, "XA") {
		return false
	}
	text = bytes.TrimLeft(text, " \t\r\n")[len("XA"):]
	return beginsWith(text, "COMMIT") || beginsWith(text, "ROLLBACK")
}

// finish takes over everything that the reply to the client's own command says.
func (m *Machine) finish(o *Outcome) {
	f := &m.flow
	f.failed, f.affected = o.Kind == OutcomeErr, o.Affected
	switch f.kind {
	case EventReset:
		if o.Kind != OutcomeErr {
			m.forget()
			m.native = false // what it was SET to is gone too
		}
	case EventChangeUser:
		m.native = m.native && o.Kind == OutcomeErr
		if m.ctx.schema, m.schemaKnown = f.detail.schema, true; o.Kind == OutcomeErr {
			m.unknownSchema()
			m.defaults.opaqueCharset = m.defaults.opaqueCharset || f.detail.collation != 0 && rewrite.OpaqueCollation(f.detail.collation)
		}
	case EventPrepare:
		m.remember(o)
	case EventCloseHandle:
		m.prepared.close(f.handle, "")
	default:
		m.trackNames(o)
	}
	if o.StateTracked && (f.class == ClassCreate || f.class == ClassDrop) {
		m.native = true
	}
	m.hazards(o)
	m.track(o)
	m.follow(o)
	m.diagnose(o)
	m.dropped(o)
	m.taintTables(o)
	m.afterCommit(o)
}

// afterCommit notes that what is too old may be settled now.
func (m *Machine) afterCommit(o *Outcome) {
	const end = 1<<rewrite.VerbCommit | 1<<rewrite.VerbRollback
	f := &m.flow
	m.background.sweep = f.kind == EventQuery && f.statement.Verbs&^end == 0 && f.statement.Verbs != 0 &&
		o.Kind != OutcomeErr && o.Warnings == 0
	if m.background.sweep {
		for _, t := range m.tables {
			t.since = false
		}
	}
}

// taintTables ends our part in the tables that the client's command has changed or may have changed.
func (m *Machine) taintTables(o *Outcome) {
	f := &m.flow
	all := f.taintAll && m.ran(o) || !f.whole && o.Results > 1
	for _, t := range m.tables {
		switch {
		case all:
			m.taint(t, "opaque")
		case t.named && f.taints && m.ran(o) && !(f.class == ClassCreate && o.Kind == OutcomeErr && !f.replaces):
			m.taint(t, "statement")
		}
	}
}
