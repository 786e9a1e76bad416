package session

import (
	"bytes"
	"slices"
	"strings"

	"tmpproxy/rewrite"
)

const (
	maxSettings     = 64      // settings that a context remembers
	maxSettingBytes = 4 << 10 // and their length
)

// context is what decides, besides its text, what a CREATE makes: the current schema and what the session has SET. epoch
// counts the events after which nothing earlier compares any more.
type context struct {
	schema   string
	settings *settings // nil: none
	epoch    uint32
}

// settings are a session's SETs in order, of each variable the last one. They are never changed once made.
type settings struct{ list []setting }

type setting struct {
	key, value string
	own        uint32 // not 0: the value is an expression, which equals nothing but itself
}

func (c context) equal(d context) bool {
	if c.epoch != d.epoch || c.schema != d.schema {
		return false
	}
	return c.settings == d.settings || slices.Equal(c.settings.all(), d.settings.all())
}

func (s *settings) all() []setting {
	if s == nil {
		return nil
	}
	return s.list
}

// with returns the settings after one more; nil if they grow beyond measure.
func (s *settings) with(x setting) *settings {
	old := s.all()
	list := make([]setting, 0, len(old)+1)
	size := 0
	for _, o := range old {
		if o.key != x.key {
			list = append(list, o)
			size += len(o.key) + len(o.value)
		}
	}
	list = append(list, x)
	if len(list) > maxSettings || size+len(x.key)+len(x.value) > maxSettingBytes {
		return nil
	}
	return &settings{list}
}

// defaults are those settings whose meaning the machine knows.
type defaults struct {
	opaqueCharset bool // texts cannot be read byte by byte
	tmpEngine     bool // default_tmp_storage_engine may be one that is not cached
	engine        bool // MariaDB: default_storage_engine may be one that is not cached
	invisibleKey  bool // sql_generate_invisible_primary_key may be on
}

// newEpoch makes a context that equals none before it.
func (m *Machine) newEpoch() {
	m.ctx.epoch++
	m.ctx.settings = nil
}

// unknownSchema forgets the current schema.
func (m *Machine) unknownSchema() {
	m.ctx.schema, m.schemaKnown = "", false
}

// nativeVariables are those that move temporary tables out of sight, forbid to change them while there are any, or make the
// server tell of every temporary table that comes or goes, or of every statement.
var nativeVariables = []string{
	"pseudo_thread_id", "pseudo_replica_mode", "pseudo_slave_mode", "gtid_next", "gtid_seq_no", "gtid_domain_id", "server_id",
	"binlog_format", "session_track_state_change", "session_track_transaction_info", "profiling",
}

// The words by which a SET that cannot be read gives itself away.
var (
	transactionWords = []string{"transaction", "transaction_isolation", "tx_isolation", "transaction_read_only", "tx_read_only"}
	readOnlyWords    = []string{"only", "transaction_read_only", "tx_read_only"}
	charsetWords     = []string{"names", "charset", "character", "char", "character_set_client"}
	opaqueWords      = []string{"big5", "cp932", "gb18030", "gbk", "sjis", "swe7", "ucs2", "utf16", "utf16le", "utf32", "default"}
)

// harmlessVariables decide nothing about a table.
var harmlessVariables = []string{
	"autocommit", "transaction_isolation", "tx_isolation", "transaction_read_only", "tx_read_only",
	"timestamp", "insert_id", "last_insert_id", "identity", "rand_seed1", "rand_seed2",
}

// planSet finds out what has to precede a SET.
func (m *Machine) planSet(text []byte) {
	f := &m.flow
	list, ok := rewrite.ParseSet(text, m.mode())
	if !ok {
		f.opaque, f.taintAll = true, true
		m.settleAll("opaque")
		m.planUnreadSet(text)
		return
	}
	f.detail = &detail{assignments: list}
	for i := range list {
		a := &list[i]
		switch {
		case a.ReadOnly:
			f.readOnly = true
		case a.Kind == rewrite.AssignSession && a.Key == "autocommit" && f.policy.Strict:
			m.settleAll("strict")
		case a.Kind != rewrite.AssignUser && slices.Contains(nativeVariables, a.Key):
			m.settleAll("variable")
			f.native, f.taintAll = true, true
		}
		if charset, ok := charsetOf(a); ok && (!a.Literal || rewrite.OpaqueCharset(charset)) {
			m.settleAll("charset")
			f.taintAll = true
		}
	}
}

// doubts are what a SET that cannot be read may have done.
type doubts struct {
	defaults          defaults
	oneShot, readOnly bool
}

// planUnreadSet finds out what may follow a SET that cannot be read, because it was not understood or is one of several
// statements, and has everything settled if that is serious.
func (m *Machine) planUnreadSet(text []byte) {
	f := &m.flow
	any := func(words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return rewrite.Mentions(text, w) })
	}
	d := doubts{
		defaults: defaults{
			opaqueCharset: any(charsetWords) && (any(opaqueWords) || bytes.IndexByte(text, '@') >= 0),
			tmpEngine:     rewrite.Mentions(text, "default_tmp_storage_engine"),
			engine:        rewrite.Mentions(text, "default_storage_engine") || rewrite.Mentions(text, "storage_engine"),
			invisibleKey:  rewrite.Mentions(text, "sql_generate_invisible_primary_key"),
		},
		oneShot:  any(transactionWords),
		readOnly: any(readOnlyWords),
	}
	f.native = any(nativeVariables)
	f.detail = &detail{unread: true, doubts: d}
	f.readOnly = d.readOnly
	if f.native || d.oneShot || d.defaults.opaqueCharset {
		f.taintAll = true
		m.settleAll("variable")
	}
}

// charsetOf returns the client character set that an assignment is about, if it is about one.
func charsetOf(a *rewrite.Assignment) (string, bool) {
	switch {
	case a.Kind == rewrite.AssignNames, a.Kind == rewrite.AssignCharset, a.Kind == rewrite.AssignSession && a.Key == "character_set_client":
		return a.Value, true
	}
	return "", false
}

// applySet takes over a SET that was answered OK, or that may have been.
func (m *Machine) applySet() {
	d := m.flow.detail
	for i := range d.assignments {
		m.assign(&d.assignments[i])
	}
	if !d.unread {
		return
	}
	m.newEpoch()
	m.oneShot = m.oneShot || d.doubts.oneShot
	m.readSession = m.readSession || d.doubts.readOnly
	m.defaults.opaqueCharset = m.defaults.opaqueCharset || d.doubts.defaults.opaqueCharset
	m.defaults.tmpEngine = m.defaults.tmpEngine || d.doubts.defaults.tmpEngine
	m.defaults.engine = m.defaults.engine || d.doubts.defaults.engine
	m.defaults.invisibleKey = m.defaults.invisibleKey || d.doubts.defaults.invisibleKey
}

func (m *Machine) assign(a *rewrite.Assignment) {
	switch a.Kind {
	case rewrite.AssignUser, rewrite.AssignGlobal, rewrite.AssignPassword, rewrite.AssignDefaultRole:
		return
	case rewrite.AssignOneShot:
		m.oneShot = true
		m.oneShotRead = m.oneShotRead || a.ReadOnly
		return
	case rewrite.AssignSessionTransaction, rewrite.AssignSession:
		if a.Key == "transaction_read_only" || a.Key == "tx_read_only" {
			m.readSession = a.ReadOnly
		}
	}
	if charset, ok := charsetOf(a); ok {
		opaque := !a.Literal || rewrite.OpaqueCharset(charset)
		if m.defaults.opaqueCharset && !opaque {
			m.unknownSchema() // who knows what was said meanwhile
		}
		m.defaults.opaqueCharset = opaque
	}
	switch a.Key {
	case "default_tmp_storage_engine":
		m.defaults.tmpEngine = !cachedEngine(a)
	case "default_storage_engine", "storage_engine":
		m.defaults.engine = !cachedEngine(a)
	case "sql_generate_invisible_primary_key":
		m.defaults.invisibleKey = !a.Literal || !slices.Contains([]string{"0", "OFF", "FALSE"}, word(a.Value))
	}
	if slices.Contains(harmlessVariables, a.Key) {
		return
	}
	s := setting{key: a.Key, value: a.Value}
	if !a.Literal {
		m.expressions++
		s.own = m.expressions
	}
	if m.ctx.settings = m.ctx.settings.with(s); m.ctx.settings == nil {
		m.newEpoch()
	}
}

// cachedEngine says whether a is set to an engine whose tables are cached as they are.
func cachedEngine(a *rewrite.Assignment) bool {
	return a.Literal && slices.Contains([]string{"INNODB", "MEMORY", "HEAP", "ARIA", "MYISAM"}, word(a.Value))
}

// word returns a literal without quotes in upper case.
func word(value string) string { return strings.ToUpper(strings.Trim(value, "'\"`")) }

// readOnly says whether temporary tables can or may not be created and dropped now.
func (m *Machine) readOnly() bool {
	return m.readSession || m.readTrans || m.oneShotRead || m.xa || m.status&statusInTransReadOnly != 0
}

// quiet says whether a statement that commits would end nothing of the client's.
func (m *Machine) quiet() bool {
	return m.known && m.status&statusInTrans == 0 && (m.status&statusAutocommit != 0 || m.untouched) &&
		!m.oneShot && !m.locked && !m.readOnly()
}

// inTransaction says whether a transaction is open, or would be if only it had been noticed: with autocommit off not
// everything shows in the flags.
func (m *Machine) inTransaction() bool {
	return m.status&statusInTrans != 0 || m.status&statusAutocommit == 0
}

// track takes over what the reply to the client's command says of transactions and locks.
func (m *Machine) track(o *Outcome) {
	f := &m.flow
	s := f.statement
	ok := o.Kind != OutcomeErr
	switch f.kind {
	case EventQuery, EventExecute:
	case EventInitDB, EventPrepare, EventFieldList, EventQuiet, EventCloseHandle:
		if ok && o.Status != 0 { // several of these replies tell no flags
			m.status, m.known = o.Status, true
		}
		m.untouched = m.untouched && (f.kind == EventInitDB || f.kind == EventQuiet || f.kind == EventCloseHandle)
		return
	default:
		m.untouched = false
		if m.known = ok; ok {
			m.status = o.Status
		}
		return
	}
	between := m.untouched || m.known && m.status&(statusInTrans|statusAutocommit) == statusAutocommit // no transaction was open
	over := false                                                                                      // a read-only transaction has ended, if there was one
	switch {
	case ok:
		// Behind a SET autocommit that ends a read-only transaction, servers refuse temporary-table DDL until something else
		// has ended one (observed on MySQL 9.7 and MariaDB 10.11), which the flags do not tell.
		over = (m.status&statusInTrans != 0 || s.Multi) && !s.Has(rewrite.VerbSet) && o.Status&(statusInTrans|statusAutocommit) == statusAutocommit
		m.status, m.known = o.Status, true
		m.readTrans = m.readTrans && !over
	case f.opaque || s.Multi:
		m.known = false
	case m.inTransaction() && (s.Verbs&settledVerbs == 0 || s.Has(rewrite.VerbSet)) && o.Code != errParse: // SET PASSWORD commits first
		m.known = false
	}
	if !ok && o.Code == errReadOnly && !m.readOnly() {
		m.readSession = true
	}
	if s.Verbs&routineVerbs != 0 && m.ran(o) {
		m.oneShot = true // a SET TRANSACTION in there cannot be seen
	}
	if s.Multi {
		m.untouched = false
		m.locked = m.locked || s.Has(rewrite.VerbLockTables) || f.locks
		m.xa = m.xa || s.Has(rewrite.VerbXABegin)
		m.readTrans = m.readTrans || s.ReadOnly && !over
		return
	}
	m.trackVerb(o, ok)
	m.untouched = m.untouched || ok && between && !f.opaque && s.Verb == rewrite.VerbSet && f.detail.literal()
}

// literal says whether a SET evaluates nothing.
func (d *detail) literal() bool {
	return d != nil && !d.unread && !slices.ContainsFunc(d.assignments, func(a rewrite.Assignment) bool {
		return !a.Literal || a.Kind == rewrite.AssignPassword || a.Kind == rewrite.AssignDefaultRole
	})
}

// trackVerb does the same by the verb of a single statement.
func (m *Machine) trackVerb(o *Outcome, ok bool) {
	f := &m.flow
	untouched := false
	switch s := f.statement; s.Verb {
	case rewrite.VerbUse, rewrite.VerbShowDiagnostics:
		untouched = m.untouched
	case rewrite.VerbSelect:
		untouched = m.untouched && f.tableless
	case rewrite.VerbCommit, rewrite.VerbRollback:
		untouched = m.untouched || ok
		if ok {
			m.oneShot = false
			if m.status&statusInTrans == 0 {
				m.readTrans, m.oneShotRead = false, false
			}
		}
	case rewrite.VerbCreateTemporary:
		untouched = m.untouched && f.ddl
	case rewrite.VerbDropTable:
		untouched = f.ddl && (m.untouched || ok && !s.Temporary)
	case rewrite.VerbBegin:
		if ok {
			m.readTrans = s.ReadOnly || m.oneShotRead
			m.oneShot, m.oneShotRead, m.locked = false, false, false
		}
	case rewrite.VerbXABegin:
		m.xa = m.xa || ok
	case rewrite.VerbXA:
		m.xa = m.xa && !(ok && f.endsXA)
	case rewrite.VerbLockTables:
		if ok {
			m.oneShot, m.oneShotRead = false, false
		}
		m.locked = ok || m.locked && o.Code == errParse // a failed one has let go of the locks before it
	case rewrite.VerbUnlockTables:
		m.locked = m.locked && !ok
	case rewrite.VerbFlush:
		m.locked = m.locked || ok && f.locks
	case rewrite.VerbTruncate:
		if untouched = ok; ok {
			m.oneShot, m.oneShotRead = false, false
		}
	}
	m.untouched = untouched
}

// ran says whether the client's statement can have done anything: one that the server could not read has not.
func (m *Machine) ran(o *Outcome) bool {
	s := m.flow.statement
	const runs = routineVerbs &^ (1 << rewrite.VerbUnknown)
	return o.Kind != OutcomeErr || o.Code != errParse || o.Results > 1 || s.Multi || s.Verbs&runs != 0 ||
		m.flow.opaque && s.Verb != rewrite.VerbUnknown
}

// follow takes over what the client's command did to the context.
func (m *Machine) follow(o *Outcome) {
	f := &m.flow
	s := f.statement
	ok := o.Kind != OutcomeErr
	switch f.kind {
	case EventInitDB:
		if ok {
			m.ctx.schema, m.schemaKnown = f.detail.schema, true
		}
		return
	case EventOther, EventUnknown:
		m.newEpoch()
		m.unknownSchema()
		return
	case EventQuery, EventExecute:
	default:
		return
	}
	if f.opaque && m.ran(o) {
		m.newEpoch()
		// The verbs are those of every reading of an executable comment.
		unread := s.Doubtful && !s.Executable && s.Verb != rewrite.VerbPrepare
		runs := s.Verbs&(1<<rewrite.VerbExecute|1<<rewrite.VerbCompound) != 0 && m.server.MariaDB
		if unread || runs || s.Verbs&(1<<rewrite.VerbUse|1<<rewrite.VerbUnknown) != 0 {
			m.unknownSchema()
		}
	}
	if s.Has(rewrite.VerbSet) && (ok || s.Multi) && f.detail != nil {
		m.applySet()
	}
	switch {
	case f.losesSchema, s.Multi && s.Verbs&(1<<rewrite.VerbUse|1<<rewrite.VerbDatabase) != 0:
		m.unknownSchema()
	case s.Verb == rewrite.VerbUse && ok && !f.opaque:
		m.ctx.schema, m.schemaKnown = f.detail.schema, f.detail.schema != ""
	}
}

// forget is what COM_RESET_CONNECTION and COM_CHANGE_USER do: all temporary tables and all state are gone.
func (m *Machine) forget() {
	m.tables, m.prepared, m.meter = nil, nil, nil
	m.owed, m.owedTable = owedNothing, nil
	m.wasNoted = false
	m.newEpoch()
	m.defaults = defaults{opaqueCharset: rewrite.OpaqueCollation(m.collation)}
	m.oneShot, m.oneShotRead, m.readSession, m.readTrans = false, false, false, false
	m.xa, m.locked, m.mustCommit, m.untouched = false, false, false, false
	m.plain, m.lingering, m.rowCounted = false, m.server.MariaDB, false
}
