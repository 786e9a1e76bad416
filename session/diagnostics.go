package session

import (
	"slices"

	"tmpproxy/rewrite"
)

// owed says how the diagnostics that the client has to see differ from the server's: warnings, ROW_COUNT() and what comes
// with them. It is set by an answer for which nothing was sent.
type owed uint8

const (
	owedNothing owed = iota // they are the same
	owedPlain               // those behind a CREATE or DROP without warnings
	owedCreate              // those behind the CREATE of a table, which was warned about
	owedNote                // those behind a DROP IF EXISTS of a parked table
)

// plainVerbs are those whose OK leaves ROW_COUNT() = 0, as CREATE and DROP do.
const plainVerbs = sessionVerbs | 1<<rewrite.VerbCreateTemporary | 1<<rewrite.VerbDropTable | 1<<rewrite.VerbTruncate |
	1<<rewrite.VerbCreateTable | 1<<rewrite.VerbSet | 1<<rewrite.VerbLockTables | 1<<rewrite.VerbPrepare | 1<<rewrite.VerbDeallocate

// clears says whether a statement surely empties the list of warnings before it. On MySQL every statement does, but for
// those that read the list; MariaDB empties it only for statements that use tables, and when such are prepared.
func (m *Machine) clears(s rewrite.Statement, text []byte) bool {
	const tables = writeVerbs | 1<<rewrite.VerbTruncate | 1<<rewrite.VerbShowTables | 1<<rewrite.VerbDescribe | 1<<rewrite.VerbLockTables |
		1<<rewrite.VerbCreateTemporary | 1<<rewrite.VerbCreateTable | 1<<rewrite.VerbDropTable | 1<<rewrite.VerbAlterTable | 1<<rewrite.VerbRename
	switch {
	case s.Verbs&tables != 0:
		return true
	case s.Verb == rewrite.VerbPrepare:
		_, inner, ok := rewrite.ParsePrepare(text, m.mode())
		return ok && m.clears(rewrite.Classify(inner, m.mode()), inner)
	case s.Verb == rewrite.VerbAdmin:
		return (rewrite.Mentions(text, "table") || rewrite.Mentions(text, "tables")) &&
			slices.ContainsFunc(maintenance, func(w string) bool { return rewrite.Mentions(text, w) })
	case s.Has(rewrite.VerbSelect):
		return rewrite.Mentions(text, "from") && !rewrite.Mentions(text, "dual")
	case s.Verbs&(1<<rewrite.VerbCreate|1<<rewrite.VerbDrop) != 0:
		return rewrite.Mentions(text, "view") || rewrite.Mentions(text, "index")
	case s.Has(rewrite.VerbShow):
		mentions := func(w string) bool { return rewrite.Mentions(text, w) }
		return slices.ContainsFunc(tableShows, mentions) && !slices.ContainsFunc(serverShows, mentions)
	}
	return false
}

// maintenance are the words of table maintenance, which uses tables.
var maintenance = []string{"analyze", "check", "checksum", "optimize", "repair"}

// The words of the SHOWs that use tables, and those of others that have one of these too.
var (
	tableShows  = []string{"table", "columns", "fields", "index", "indexes", "keys", "variables", "status"}
	serverShows = []string{"master", "slave", "slaves", "replica", "engine", "binary", "binlog"}
)

// owe notes that the client's command was answered without sending anything.
func (m *Machine) owe(o owed, t *table) {
	if o == owedPlain && m.plain {
		o = owedNothing
	}
	m.owed, m.owedTable, m.rowCounted = o, t, false
}

// disturb notes that a statement of ours about t is sent: its diagnostics are not the client's.
func (m *Machine) disturb(t *table) {
	if m.owed == owedNothing && m.plain {
		m.owed, m.owedTable, m.rowCounted = owedPlain, t, false
	}
	m.plain = false
}

// ours takes over the outcome of a statement of ours.
func (m *Machine) ours(o *Outcome) {
	if o.Kind == OutcomeErr {
		m.known, m.plain, m.lingering = false, false, true
		return
	}
	m.status, m.known = o.Status, true
	m.plain = o.Warnings == 0 && o.Affected == 0 && o.Kind == OutcomeOK
	m.lingering = o.Warnings > 0
	if m.plain && m.owed == owedPlain {
		m.owed = owedNothing
	}
}

// looked takes over the outcome of a SHOW of ours, which changes nothing even if it fails.
func (m *Machine) looked(o *Outcome) {
	m.plain, m.lingering = false, o.Kind == OutcomeErr || o.Warnings > 0
	if o.Kind != OutcomeErr {
		m.status, m.known = o.Status, true
	}
}

// failedTruncate takes over the ERR of a TRUNCATE of ours. Where no transaction was open there is none now either.
func (m *Machine) failedTruncate(o *Outcome) {
	quiet := m.quiet()
	m.ours(o)
	m.known = quiet
}

// tellsWarnings says whether a command that leaves the diagnostics alone, but whose OK tells the number of warnings, as that of
// COM_PING does on MySQL, would tell another one than that of the client's last statement.
func (m *Machine) tellsWarnings() bool {
	return !m.server.MariaDB && m.owed != owedNothing && (m.lingering || m.owed != owedPlain)
}

// readsDiagnostics says whether a statement may read diagnostics that are owed.
func (m *Machine) readsDiagnostics(text []byte) bool {
	if m.owed == owedNothing {
		return false
	}
	f := &m.flow
	if f.opaque {
		// On MySQL with autocommit off it might find itself in a transaction that it did not open: see replayed.
		return m.server.MariaDB || m.status&(statusAutocommit|statusInTrans) != 0
	}
	if f.statement.Verbs&(1<<rewrite.VerbShowDiagnostics|1<<rewrite.VerbGetDiagnostics) == 0 && !rewrite.ReadsDiagnostics(text) {
		return false
	}
	rowCount := rewrite.Mentions(text, "row_count") && !rewrite.Mentions(text, "warning_count") && !rewrite.Mentions(text, "error_count")
	return !(m.rowCounted && rowCount && f.statement.Verb == rewrite.VerbSelect)
}

// mayWipe says whether a TRUNCATE in front of the client's statement does not show in the diagnostics.
func (m *Machine) mayWipe(text []byte) bool {
	const reads = 1<<rewrite.VerbShowDiagnostics | 1<<rewrite.VerbGetDiagnostics
	f := &m.flow
	if f.opaque || f.statement.Verbs&reads != 0 || rewrite.ReadsDiagnostics(text) {
		return false
	}
	return !f.keeps || m.owed != owedNothing // ROW_COUNT() is the statement's own afterwards
}

// losesOwed says whether the client's statement leaves diagnostics alone, but makes it impossible to restore them later.
func (m *Machine) losesOwed() bool {
	const context = 1<<rewrite.VerbSet | 1<<rewrite.VerbUse
	f := &m.flow
	stays := m.quiet() && m.status&statusAutocommit != 0 // with autocommit off, not behind the statement
	return m.owedTable.named || f.readOnly || f.taintAll ||
		(m.owed != owedPlain || m.lingering && !stays) && f.statement.Verbs&context != 0
}

// diagnose takes over what the reply to the client's command did to the diagnostics.
func (m *Machine) diagnose(o *Outcome) {
	f := &m.flow
	if o.Kind == OutcomeErr {
		m.owed, m.plain, m.lingering = owedNothing, false, true
		return
	}
	switch f.kind {
	case EventQuiet:
		if f.counts { // what was owed besides is what the server has
			m.owed, m.plain = owedNothing, false
		}
		return
	case EventCloseHandle, EventInitDB, EventReset, EventChangeUser, EventQuit:
		return
	case EventPrepare:
		m.plain = false
		if o.Warnings > 0 { // they can not be restored, ROW_COUNT() is the lesser loss
			m.owed, m.lingering = owedNothing, true
			return
		}
		if h := f.detail; !m.server.MariaDB || h != nil && h.handle != nil && m.clears(h.handle.statement, h.handle.text) {
			m.unwarn()
		}
		return
	case EventFieldList, EventOther, EventUnknown:
		m.plain, m.lingering = false, true // it may have left them alone, and added to them
		return
	}
	s := f.statement
	reads := !s.Multi && s.Verbs&(1<<rewrite.VerbShowDiagnostics|1<<rewrite.VerbGetDiagnostics) != 0
	switch {
	case o.Warnings > 0:
		m.owed, m.plain, m.lingering = owedNothing, false, true
	case f.keeps || reads:
		if o.Kind == OutcomeSet {
			m.plain, m.rowCounted = false, true
			if m.owed == owedPlain && !m.lingering { // the list is empty, ROW_COUNT() is -1
				m.owed = owedNothing
			}
		} else {
			m.plain = isPlain(o, s) && !m.lingering && m.owed == owedNothing
		}
	default:
		// On MariaDB a packet, or a routine, may end with a statement that left the warnings of one before it alone.
		m.owed, m.lingering = owedNothing, m.server.MariaDB && (s.Multi || f.opaque)
		m.plain = isPlain(o, s) && !m.lingering
	}
}

// unwarn notes that the list of warnings was emptied, and nothing else.
func (m *Machine) unwarn() {
	m.lingering = false
	if m.owed == owedCreate || m.owed == owedNote {
		m.owed = owedPlain
	}
}

func isPlain(o *Outcome, s rewrite.Statement) bool {
	return o.Kind == OutcomeOK && o.Warnings == 0 && o.Affected == 0 && !s.Multi && 1<<s.Verb&plainVerbs != 0
}

// replay has the real thing sent behind which the diagnostics are what the client has to see. It answers false if nothing
// has to be sent, or nothing can be.
func (m *Machine) replay() (Step, bool) {
	f := &m.flow
	t := m.owedTable
	here := m.find(t.key) == t
	// On MariaDB a statement that leaves the warnings alone may have used a view, whose functions may have written rows.
	rows := t.state == stateLive && (t.touched || t.crept && !m.unmentioned(t, f.policy))
	switch {
	case m.readOnly():
	case m.owed == owedNote:
		if here && t.state != stateParked {
			break
		}
		if here {
			m.mark(t, "diagnostics")
			return m.inject(atSettle, dropSQL(t.key), ClassReplay, t), true
		}
		m.note(Note{Kind: NoteReplay, Shape: t.shape, Name: t.key})
		return m.inject(atReplayNote, noteSQL(t.key), ClassReplay, t), true
	case m.owed == owedPlain && t.touched && here && t.state == stateLive && m.quiet() && !m.lingering: // it was looked at
		m.note(Note{Kind: NoteReplay, Shape: t.shape, Name: t.key})
		return m.inject(atReplayNote, askSQL, ClassReplay, t), true
	case !here || t.state == stateTainted || t.touched && t.state == stateLive:
	case m.owed == owedPlain && (rows || t.warnings > 0 && t.state == stateLive) && (!m.server.MariaDB || !m.lingering):
		m.note(Note{Kind: NoteReplay, Shape: t.shape, Name: t.key})
		return m.inject(atReplayNote, askSQL, ClassReplay, t), true
	case rows:
	case m.owed == owedPlain && m.quiet() && t.condition != doomed && t.condition != stuck && t.warnings == 0 && !f.blocked:
		m.note(Note{Kind: NoteReplay, Shape: t.shape, Name: t.key})
		f.replaying = true
		return m.emptyAside(t), true
	case t.state == stateParked:
		m.note(Note{Kind: NoteReplay, Shape: t.shape, Name: t.key})
		m.mark(t, "diagnostics")
		return m.inject(atSettle, dropSQL(t.key), ClassReplay, t), true
	case t.context.equal(m.ctx):
		m.note(Note{Kind: NoteReplay, Shape: t.shape, Name: t.key})
		f.table = t
		return m.inject(atReplayDrop, dropSQL(t.key), ClassReplay, t), true
	}
	m.owed = owedNothing
	return Step{}, false
}

// replayed takes over the outcome of the statement that leaves the diagnostics that were owed. On MariaDB a COMMIT may
// follow, which leaves them alone there; on MySQL they were owed by the statement just before, which would have opened the
// transaction too.
func (m *Machine) replayed(o *Outcome) {
	quiet := m.quiet() || m.outside()
	m.ours(o)
	m.owed = owedNothing
	m.mustCommit = m.mustCommit || m.server.MariaDB && quiet && m.opened()
	m.flow.table = nil
}

// replayDropped goes on behind the DROP before a CREATE that is sent again.
func (m *Machine) replayDropped(o *Outcome) Step {
	t := m.flow.table
	quiet := m.quiet() || m.outside()
	m.ours(o)
	m.mustCommit = m.server.MariaDB && quiet && m.opened()
	if o.Kind == OutcomeErr && o.Code != errUnknownTable {
		m.taint(t, "replay_failed")
		return m.fail()
	}
	return m.inject(atReplayCreate, ours+t.sql, ClassReplay, t)
}

// replayCreated goes on behind a CREATE that was sent again.
func (m *Machine) replayCreated(o *Outcome) Step {
	t := m.flow.table
	m.replayed(o)
	if o.Kind == OutcomeErr {
		m.remove(t)
		return m.fail()
	}
	return m.advance()
}
