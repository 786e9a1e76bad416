package session

import "tmpproxy/rewrite"

// Status flags of the protocol that the machine reads or answers with.
const (
	statusInTrans            = 0x0001 // a transaction is open
	statusAutocommit         = 0x0002
	statusNoBackslashEscapes = 0x0200 // sql_mode NO_BACKSLASH_ESCAPES
	statusInTransReadOnly    = 0x2000 // the open transaction is read-only
	statusANSIQuotes         = 0x8000 // sql_mode ANSI_QUOTES, MariaDB only

	// statusAnswered are the flags that an OK of ours repeats. The others tell of result sets or of what a statement did.
	statusAnswered = statusInTrans | statusAutocommit | statusNoBackslashEscapes | statusInTransReadOnly
)

// Error numbers that mean something to the machine.
const (
	errNoDatabase   = 1046 // no schema selected
	errTableExists  = 1050
	errUnknownTable = 1051 // of a DROP
	errShutdown     = 1053
	errParse        = 1064
	errNotUnique    = 1066 // a table named twice
	errNoSuchTable  = 1146
	errLockWait     = 1205
	errDeadlock     = 1213
	errInterrupted  = 1317 // KILL QUERY
	errReadOnly     = 1792 // the transaction is read-only
	errKilled       = 1927 // MariaDB: KILL
)

// listsTemporary is the first version of MariaDB that lists temporary tables in SHOW TABLES and information_schema.
const listsTemporary = 110200

// phase says which reply the machine is waiting for.
type phase uint8

const (
	atRest         phase = iota
	atForward            // the client's own command
	atAsk                // a statement of ours that does nothing: its OK tells the flags
	atSettle             // a DROP of ours
	atCommit             // the COMMIT behind it
	atCreate             // the spliced CREATE
	atUnproved           // the DROP behind a spliced CREATE that warned, which is not proved to be what the client would see
	atSelect             // a CREATE .. AS SELECT with another engine
	atCopied             // a look at the structure of a table made by CREATE .. LIKE
	atSource             // a look at that of the table which it is like
	atOriginal           // the client's own CREATE behind a spliced one
	atCheck              // a look whether a table is still ours
	atProbe              // a look whether something permanent has its name
	atTruncate           // a TRUNCATE of ours
	atDelete             // a DELETE of ours in its place
	atShadow             // the CREATE of a shadow
	atCheckRows          // a look whether a table is still ours whose rows are to be copied
	atEmptyShadow        // a DELETE of ours, of the rows in a shadow
	atCopy               // an INSERT of ours, into a shadow
	atEmpty              // a DELETE of ours, of the rows in a table that are not its own any more
	atRestore            // an INSERT of ours, of its own
	atReplayDrop         // to restore diagnostics: the DROP before a CREATE
	atReplayCreate       // the CREATE
	atReplayNote         // a DROP IF EXISTS of nothing
)

// action is what a command comes to once everything that has to precede it was done.
type action uint8

const (
	doForward action = iota // the client's command as it is
	doCreate                // the spliced CREATE
	doReuse                 // CREATE of a clean parked table: answer it
	doRefill                // CREATE of a dirty parked table: empty it, answer
	doPark                  // DROP of live tables: answer it
	doEmpty                 // DROP TABLE of one live table in a transaction: empty it instead
	doNote                  // DROP IF EXISTS of a parked table: answer it with its note
	doProbe                 // the same, after a look whether something permanent is there
	doSelect                // CREATE .. AS SELECT, with another engine
	doRaw                   // the client's command as it is, and nothing after it
)

// original says why the client's own CREATE follows a spliced one.
type original uint8

const (
	afterExists   original = iota // there is such a table already
	afterError                    // the server refused the spliced text
	afterWarnings                 // the spliced text was warned about
)

// flow is the command in progress. It is written by the plan functions before anything was decided for good, so that a
// command can be put off.
type flow struct {
	policy      *Policy
	began       int64
	now         int64
	phase       phase
	then        action
	kind        EventKind
	class       Class
	why         original
	statement   rewrite.Statement
	handle      uint32
	whole       bool
	aside       bool    // the check or TRUNCATE that is out is not what the command is about: see empty
	replaying   bool    // it restores diagnostics
	flush       bool    // dirty parked tables are emptied first: there will be no occasion soon
	blocked     bool    // the table is not ours any more: no TRUNCATE
	asked       bool    // the flags were asked for
	exposes     bool    // it may run what cannot be seen: see table.exposed
	opaque      bool    // what it does cannot be seen
	taintAll    bool    // afterwards no live table can be trusted
	taints      bool    // afterwards no live table that it names can be trusted
	counts      bool    // it changes ROW_COUNT() and leaves the warnings alone
	replaces    bool    // it may drop the table of its name and fail then
	reads       bool    // it reads diagnostics
	keeps       bool    // MariaDB: it leaves the warnings of earlier statements alone
	ddl         bool    // a CREATE or DROP of tables that reads and writes no rows
	readOnly    bool    // it makes or may make transactions read-only, or opens XA
	native      bool    // the session is native from here on
	endsXA      bool    // it is XA COMMIT or XA ROLLBACK
	locks       bool    // it is a FLUSH that locks
	tableless   bool    // it is a SELECT that surely reads no table
	losesSchema bool    // it may have dropped the current schema
	failed      bool    // it was answered with an error
	affected    uint64  // rows, as its OK says
	elsewhere   bool    // it runs in another schema than the current one, or may
	table       *table  // that the action is about
	rows        *table  // whose rows are being copied
	detail      *detail // what only some commands need
}

// detail is the part of a flow that only some commands need.
type detail struct {
	candidate   candidate            // of a CREATE
	opening     opening              // of one that is measured
	warnings    uint16               // of the spliced CREATE that is not proved
	copy        string               // the structure of a table made by CREATE .. LIKE
	fallback    string               // why a CREATE is left to the server
	keys        []Key                // of a DROP
	ifExists    bool                 // of a DROP
	tables      []*table             // doPark
	assignments []rewrite.Assignment // of a SET
	unread      bool                 // the SET could not be read
	doubts      doubts               // what it may have done then
	schema      string               // of USE, COM_INIT_DB, COM_CHANGE_USER
	collation   uint16               // of COM_CHANGE_USER: the one asked for, later the one before
	handle      *handle              // of COM_STMT_PREPARE and PREPARE
}

// Options is what a new session starts with.
type Options struct {
	Server    Server
	Schema    string // chosen in the login; "" for none
	Collation uint16 // of the login
	Status    uint16 // flags of the login's OK
	Ledger    Ledger
}

// Machine is the state machine of one session: see the package comment. Its calls come in this order:
//
//	Begin      one command of the client; then, as long as the steps are Forward, Replace or Inject,
//	Next       with the outcome of what the step sent, until the step ends the event
//	Background between events, when HasBackground says so; then
//	BackgroundDone with the outcome. Begin may be called before it: it answers StepWait, having changed nothing, if the
//	           command needs anything sent.
//
// A Machine keeps references to the Policy of the last event and to strings of its rewrite.Create, to nothing else that it
// is given. It is not safe for concurrent use.
type Machine struct {
	ledger Ledger
	server Server
	flow   flow

	tables   []*table
	prepared *prepared
	meter    *meter  // nil: no cycle is measured
	noted    context // where a real DROP IF EXISTS of nothing was seen to leave one note
	ctx      context
	defaults defaults

	owedTable *table
	owed      owed

	status      uint16 // of the last OK or EOF
	collation   uint16 // of the login
	background  background
	wasNoted    bool // noted is set
	native      bool // everything is left to the server, until the session is reset
	schemaKnown bool

	known       bool   // the flags tell the present state: no ERR came since that may have changed it
	expressions uint32 // how many of them were SET
	untouched   bool   // nothing that opens a transaction since the last COMMIT or ROLLBACK, but for temp-table DDL
	oneShot     bool   // SET TRANSACTION is or may be pending
	oneShotRead bool   // and it says READ ONLY
	readSession bool   // the session's transactions are read-only
	readTrans   bool   // the open transaction is read-only
	xa          bool   // an XA transaction is open
	locked      bool   // LOCK TABLES
	mustCommit  bool   // a settle of ours has opened a transaction

	plain      bool // the server's diagnostics are those behind a CREATE or DROP without warnings
	lingering  bool // the server's list of warnings may not be empty: kept for MariaDB, and true behind a look of ours that failed
	rowCounted bool // ROW_COUNT() was changed by a statement that left owed warnings alone
}

// New returns the machine of a session that has just logged in.
func New(o Options) *Machine {
	m := &Machine{ledger: o.Ledger, server: o.Server, collation: o.Collation, status: o.Status, known: true, schemaKnown: true}
	m.ctx.schema = o.Schema
	m.defaults.opaqueCharset = rewrite.OpaqueCollation(o.Collation)
	return m
}

// Begin says what to do with a command of the client.
func (m *Machine) Begin(ev *Event) Step {
	m.flow = flow{policy: ev.Policy, began: ev.Began, now: ev.Now, kind: ev.Kind, statement: ev.Statement, handle: ev.Handle, whole: ev.Whole}
	if m.flow.began == 0 {
		m.flow.began = ev.Now
	}
	if ev.Kind == EventSetOption {
		m.flow.kind, m.flow.counts = EventQuiet, true
	}
	m.plan(ev)
	if m.background.out && !m.isLocal() {
		m.rest()
		return Step{Kind: StepWait}
	}
	m.start()
	return m.advance()
}

// plan finds out what the command comes to. It writes nothing but the flow and the marks of tables that rest clears.
func (m *Machine) plan(ev *Event) {
	m.retry(ev)
	switch ev.Kind {
	case EventQuery:
		if !m.planNamedExecute(ev) {
			m.planText(ev.Text, ev)
		}
	case EventPrepare:
		m.planPrepare(ev)
	case EventExecute:
		m.planExecute(ev)
	case EventInitDB:
		m.flow.detail = &detail{schema: string(ev.Text)}
		m.flow.reads = m.owed == owedCreate || m.tellsWarnings() // in another schema it could not be restored
	case EventChangeUser:
		m.flow.detail = &detail{schema: string(ev.Text), collation: ev.Collation}
	case EventQuiet:
		m.flow.reads = m.tellsWarnings()
	case EventSetOption:
		m.flow.reads = m.owed != owedNothing && (m.lingering || m.owed != owedPlain)
	case EventFieldList:
		m.mention(ev.Text)
		m.unname()
		m.flow.exposes = m.server.MariaDB // it may be a view: see exposes
		m.flow.reads = true               // it adds a warning to those that are there
	case EventOther, EventUnknown, EventRaw:
		m.settleAll("command")
		m.flow.taintAll = true
		m.flow.reads = true // or rather: nothing can be restored behind it
		if ev.Kind == EventRaw {
			m.flow.then = doRaw
		}
	}
}

// start makes the decisions of plan final.
func (m *Machine) start() {
	f := &m.flow
	m.background.sweep, m.background.looks = false, false
	if d := f.detail; d != nil && d.fallback != "" {
		m.note(Note{Kind: NoteFallback, Shape: d.candidate.shape, Name: d.candidate.key, Reason: d.fallback})
	}
	if f.native {
		m.native = true
	}
	if f.kind == EventChangeUser {
		if d := f.detail; d.collation != 0 {
			m.collation, d.collation = d.collation, m.collation
		}
		m.forget()
	}
}

// isLocal says whether the command is answered without sending anything.
func (m *Machine) isLocal() bool {
	switch m.flow.then {
	case doReuse, doPark, doNote:
		return !m.mustCommit && !m.anySettle() && !m.uncertain()
	}
	return false
}

// doubts says whether the table that the command is to be answered from has to be compared first with the one that it is like.
func (m *Machine) uncertain() bool {
	f := &m.flow
	return (f.then == doReuse || f.then == doRefill) && f.table.like != (Key{}) && !f.table.proved
}

// rest ends the event.
func (m *Machine) rest() {
	for _, t := range m.tables {
		t.named, t.settle, t.copy, t.copied, t.outdated = false, false, false, false, false
	}
	if d := m.flow.detail; d != nil && d.candidate.shadowed {
		m.orphan(d.candidate.key)
	}
	m.flow = flow{}
}

// over ends the event with a last step.
func (m *Machine) over(kind StepKind) Step {
	s := m.step(kind)
	m.measure()
	m.rest()
	return s
}

// fail answers the client's command with the error of ours, which is what the diagnostics tell of.
func (m *Machine) fail() Step {
	m.owed = owedNothing
	m.flow.failed = true
	return m.over(StepFail)
}

// step returns a step about the client's command.
func (m *Machine) step(kind StepKind) Step {
	f := &m.flow
	s := Step{Kind: kind, Class: f.class}
	switch {
	case f.table != nil:
		s.Shape = f.table.shape
	case f.detail != nil:
		s.Shape = f.detail.candidate.shape
	}
	if s.Class == ClassOther && f.table == nil {
		for _, t := range m.tables {
			if t.named && t.state == stateLive {
				s.Class, s.Shape = ClassUse, t.shape
				break
			}
		}
	}
	return s
}

// inject sends a statement of ours about a table.
func (m *Machine) inject(p phase, sql string, class Class, t *table) Step {
	m.flow.phase = p
	m.disturb(t)
	return Step{Kind: StepInject, SQL: sql, Class: class, Shape: t.shape}
}

// advance takes the next step of the command in progress: what has to be settled first, then the diagnostics it reads,
// then its action.
func (m *Machine) advance() Step {
	f := &m.flow
	switch f.kind {
	case EventCloseHandle, EventReset, EventChangeUser, EventQuit:
		return m.forward()
	case EventQuiet:
		if !f.reads {
			return m.forward()
		}
	}
	if m.mustCommit {
		f.phase = atCommit
		return Step{Kind: StepInject, SQL: commitSQL, Class: ClassSettle}
	}
	if t := m.marked(); t != nil {
		if m.mustAsk() {
			f.asked = true
			return m.inject(atAsk, askSQL, ClassSettle, t)
		}
		return m.inject(atSettle, dropSQL(t.key), ClassSettle, t)
	}
	if step, ok := m.preserve(); ok {
		return step
	}
	if f.reads && f.then == doForward && m.owed != owedNothing {
		if step, ok := m.replay(); ok {
			return step
		}
	}
	if t := m.waiting(); f.flush && t != nil && t.condition == dirty && m.quiet() { // a failing DROP of ours may come between
		return m.emptyAside(t)
	}
	if m.uncertain() {
		return m.compare(atCopied)
	}
	for _, t := range m.tables {
		if t.outdated {
			m.taint(t, "source")
		}
	}
	switch f.then {
	case doCreate:
		return m.create()
	case doReuse:
		return m.reuse()
	case doRefill, doEmpty:
		return m.empty()
	case doPark:
		return m.park()
	case doNote:
		return m.leaveNote()
	case doProbe:
		return m.probe()
	case doSelect:
		return m.createSelect()
	case doRaw:
		return m.over(StepRaw)
	}
	return m.forward()
}

// forward sends the client's command as it is.
func (m *Machine) forward() Step {
	m.pass()
	m.flow.phase = atForward
	return m.step(StepForward)
}

// pass notes what the client's statement may do to tables, as it is sent.
func (m *Machine) pass() {
	for _, t := range m.tables {
		t.touched = t.touched || t.named
		if m.flow.exposes {
			t.exposed, t.crept, t.since = true, true, true
		}
	}
}

// answer is an OK of ours, of a statement that came from the client.
func (m *Machine) answer(warnings uint16) Step {
	s := m.step(StepReply)
	s.Warnings = warnings
	s.Status = m.status & statusAnswered
	if m.server.MariaDB {
		s.Status = m.status & (statusAnswered | statusANSIQuotes)
	}
	if m.flow.policy.Measure {
		m.flow.now += m.ledger.Answering()
	}
	m.measure()
	m.rest()
	return s
}

// Next takes the outcome of what the last step sent and says what to do next.
func (m *Machine) Next(o *Outcome) Step {
	f := &m.flow
	if o.Now > f.now {
		f.now = o.Now
	}
	switch f.phase {
	case atForward:
		m.finish(o)
		return m.over(StepDone)
	case atAsk:
		m.ours(o)
	case atSettle:
		return m.settled(o)
	case atCommit:
		m.ours(o)
		m.mustCommit = false
	case atCreate:
		return m.created(o)
	case atUnproved:
		return m.unproved(o)
	case atSelect:
		return m.createdSelect(o)
	case atCopied, atSource:
		return m.compared(o)
	case atOriginal:
		m.finish(o)
		m.createdOriginal(o)
		return m.over(StepDone)
	case atCheck:
		return m.checked(o)
	case atProbe:
		return m.probed(o)
	case atTruncate:
		return m.truncated(o)
	case atShadow:
		return m.shadowed(o)
	case atCheckRows:
		return m.checkedRows(o)
	case atEmptyShadow, atCopy, atEmpty, atRestore:
		return m.preserved(o)
	case atReplayDrop:
		return m.replayDropped(o)
	case atReplayCreate:
		return m.replayCreated(o)
	case atReplayNote:
		m.replayed(o)
		if m.plain = false; o.Kind == OutcomeErr {
			return m.fail()
		}
	}
	return m.advance()
}

// settled goes on behind a DROP of ours.
func (m *Machine) settled(o *Outcome) Step {
	t := m.marked()
	quiet := m.quiet() || m.outside()
	m.ours(o)
	t.settle = false
	if o.Kind == OutcomeErr && o.Code != errUnknownTable {
		t.condition = stuck
		if !t.must {
			return m.advance()
		}
		return m.fail()
	}
	m.mustCommit = quiet && m.opened()
	m.remove(t)
	m.note(Note{Kind: NoteSettle, Shape: t.shape, Name: t.key, Reason: t.why})
	return m.advance()
}

// outside says whether the client's command is one that may fail inside a transaction, while none is known to be open. With
// autocommit off a settle before it has to be followed by a COMMIT, even if more than quiet allows was said before.
func (m *Machine) outside() bool {
	return m.known && m.status&statusInTrans == 0 && !m.oneShot && m.flow.statement.Verbs&outsideVerbs != 0
}

// outsideVerbs may fail inside a transaction.
const outsideVerbs = 1<<rewrite.VerbSet | 1<<rewrite.VerbXABegin | routineVerbs

// mustAsk says whether it has to be found out, before a settle that may open a transaction, whether there is one already: an
// ERR came before, and the client's command may fail in one.
func (m *Machine) mustAsk() bool {
	f := &m.flow
	return !m.known && !f.asked && m.status&statusAutocommit == 0 && f.statement.Verbs&outsideVerbs != 0
}

// opened says whether a statement of ours has opened a transaction, which it does with autocommit off.
func (m *Machine) opened() bool { return m.status&(statusInTrans|statusAutocommit) == statusInTrans }

// marked returns the table whose DROP is out.
func (m *Machine) marked() *table {
	for _, t := range m.tables {
		if t.settle {
			return t
		}
	}
	return nil
}

// note tells the ledger something.
func (m *Machine) note(n Note) { m.ledger.Note(n) }

// mode is the lexical state of the session as far as the flags tell it.
func (m *Machine) mode() rewrite.Mode {
	var mode rewrite.Mode
	if m.status&statusNoBackslashEscapes != 0 {
		mode |= rewrite.NoBackslashEscapes
	}
	if m.server.MariaDB {
		mode |= rewrite.MariaDB
		if m.status&statusANSIQuotes != 0 {
			mode |= rewrite.ANSIQuotes
		}
	}
	return mode
}
