package session

import (
	"math"
	"slices"
	"strings"

	"tmpproxy/rewrite"
)

// maxTables bounds the tables that a session's machine knows of; beyond it CREATEs are left to the server.
const maxTables = 512

// state is what a table is to the client and to the server. A table that the machine does not know is Absent: the client
// sees it if and only if the server has it.
type state uint8

const (
	stateLive    state = iota + 1 // made through us; the client sees it
	stateParked                   // the client has dropped it; the server still has it
	stateTainted                  // it exists or may exist; never reused and never emptied by us
)

func (s state) String() string {
	return [...]string{"absent", "live", "parked", "tainted"}[s]
}

// condition is what a parked table needs.
type condition uint8

const (
	clean  condition = iota // nothing: it is empty
	dirty                   // to be emptied before it is reused
	doomed                  // to be really dropped: it could not be emptied, or may not be
	stuck                   // a DROP has failed: to be tried again before the next statement
)

func (c condition) String() string {
	return [...]string{"clean", "dirty", "doomed", "stuck"}[c]
}

// table is one that we take part in, or did.
type table struct {
	key       Key
	shape     string
	like      Key    // the table whose structure it has by CREATE .. LIKE, or the zero Key
	sql       string // the CREATE as it was sent
	why       string // the reason for settle
	context   context
	created   int64
	parked    int64
	behind    int64    // nanoseconds of background work since it was parked
	arm       Strategy // what is done with it
	warnings  uint16   // of the CREATE
	state     state
	condition condition // of a parked table
	converted bool
	innoDB    bool  // it is InnoDB for sure
	counted   bool  // it has an AUTO_INCREMENT column
	proved    bool  // it was seen to have the structure of the table that it is like
	deletes   uint8 // how many times it was emptied by DELETE since it was last truncated
	touched   bool  // a statement has named it since it was last empty
	exposed   bool  // it was not looked at yet, or since we last knew that it is there something that cannot be seen has run, and may have dropped or replaced it
	crept     bool  // since it was last empty something that cannot be seen has run, and may have written to it
	since     bool  // ... since then, or since the last COMMIT or ROLLBACK
	early     bool  // in the last cycle, nothing like that came between a COMMIT or ROLLBACK, or the CREATE, and the DROP
	written   bool  // rows were written in the transaction that is open
	shadow    bool  // it has a shadow: see preserve.go
	full      bool  // the shadow has rows in it
	copy      bool  // by the command in progress: its rows are to be copied to the shadow
	copied    bool  // that was done
	away      bool  // its rows are in the shadow
	named     bool  // by the command in progress
	outdated  bool  // by the command in progress, which may change the table that it is like
	settle    bool  // to be really dropped by the command in progress
	must      bool  // which fails if that fails
}

// TableInfo is what is told of a table to whoever watches the session.
type TableInfo struct {
	Key       Key
	State     string // live, parked, tainted
	Condition string // of a parked table: clean, dirty (to be emptied), resetting, doomed or stuck (to be dropped)
	Shape     string
	Converted bool
}

// Tables lists the tables that the machine knows of, in the order of their creation. The caller owns the slice.
func (m *Machine) Tables() []TableInfo {
	var list []TableInfo
	for _, t := range m.tables {
		i := TableInfo{Key: t.key, State: t.state.String(), Shape: t.shape, Converted: t.converted}
		if t.state == stateParked {
			i.Condition = t.condition.String()
			if m.background.out && m.background.table == t && m.background.phase != atSettle {
				i.Condition = "resetting"
			}
		}
		list = append(list, i)
	}
	return list
}

// Schema is the current one, as far as it is known.
func (m *Machine) Schema() (name string, known bool) { return m.ctx.schema, m.schemaKnown }

// Counts returns the numbers of live and of parked tables.
func (m *Machine) Counts() (live, parked int) {
	for _, t := range m.tables {
		switch t.state {
		case stateLive:
			live++
		case stateParked:
			parked++
		}
	}
	return live, parked
}

// Native says whether the session is left to the server for good.
func (m *Machine) Native() bool { return m.native }

// find returns the table of that very name, or nil.
func (m *Machine) find(key Key) *table {
	for _, t := range m.tables {
		if t.key == key {
			return t
		}
	}
	return nil
}

// remove forgets a table.
func (m *Machine) remove(t *table) {
	m.tables = slices.DeleteFunc(m.tables, func(x *table) bool { return x == t })
	if len(m.tables) == 0 {
		m.tables = nil
	}
	if t.shadow {
		m.orphan(t.key)
	}
}

// hasRoom says whether one more table may be taken up.
func (m *Machine) hasRoom() bool {
	if len(m.tables) < maxTables {
		return true
	}
	return slices.ContainsFunc(m.tables, func(t *table) bool { return t.state == stateTainted })
}

// makeRoom makes room for one more table, forgetting tainted ones if it must: what is forgotten is found out again.
func (m *Machine) makeRoom() {
	if len(m.tables) >= maxTables {
		m.tables = slices.DeleteFunc(m.tables, func(t *table) bool { return t.state == stateTainted })
	}
}

// taint ends our part in a live table.
func (m *Machine) taint(t *table, reason string) {
	if t.state != stateLive {
		return
	}
	t.state = stateTainted
	m.note(Note{Kind: NoteTaint, Shape: t.shape, Name: t.key, Reason: reason})
}

// alike says whether two keys may be the same table on a server that does not tell letter cases apart.
func alike(a, b Key) bool {
	return strings.EqualFold(a.Name, b.Name) && strings.EqualFold(a.Schema, b.Schema)
}

// key returns the table that a name in the command in progress means; false if the schema is not known.
func (m *Machine) key(n rewrite.Name) (Key, bool) {
	if n.Schema != "" {
		return Key{Schema: n.Schema, Name: n.Name}, true
	}
	return Key{Schema: m.ctx.schema, Name: n.Name}, m.schemaKnown && !m.flow.elsewhere && m.ctx.schema != ""
}

// mark has a parked table settled by the command in progress, which concerns it and fails if that does.
func (m *Machine) mark(t *table, reason string) {
	if t.state == stateParked && !(t.settle && t.must) {
		t.settle, t.must, t.why = true, true, reason
	}
}

// tidy has a parked table settled by the command in progress, which does not concern it and goes on if that fails.
func (m *Machine) tidy(t *table, reason string) {
	if t.state == stateParked && !t.settle {
		t.settle, t.must, t.why = true, false, reason
	}
}

// settleAll has all parked tables settled by the command in progress.
func (m *Machine) settleAll(reason string) {
	for _, t := range m.tables {
		m.mark(t, reason)
	}
}

// mention marks what a text may refer to: parked tables are settled, live ones are named.
func (m *Machine) mention(text []byte) {
	for _, t := range m.tables {
		switch {
		case t.state == stateTainted || t.named || t.settle && t.must:
		case !rewrite.Mentions(text, t.key.Name):
		case t.state == stateParked:
			m.mark(t, "mentioned")
		default:
			t.named = true
		}
	}
}

// outdate marks the tables that are like one that a statement may change.
func (m *Machine) outdate(text []byte) {
	const harmless = harmlessVerbs | sessionVerbs | 1<<rewrite.VerbPrepare | 1<<rewrite.VerbDeallocate
	f := &m.flow
	if !f.opaque && f.statement.Verbs&^harmless == 0 {
		return
	}
	for _, t := range m.tables {
		own := f.table == t || f.detail != nil && f.detail.candidate.key == t.key
		if t.like == (Key{}) || own || !f.opaque && !rewrite.Mentions(text, t.like.Name) {
			continue
		}
		m.mark(t, "source")
		t.outdated = t.state == stateLive
	}
}

// unname takes the marks off live tables: the command in progress does nothing to them.
func (m *Machine) unname() {
	for _, t := range m.tables {
		t.named = false
	}
}

// retry has the tables settled whose DROP has failed, before anything else is sent for a statement but for one that asks
// what was wrong.
func (m *Machine) retry(ev *Event) {
	switch ev.Kind {
	case EventQuiet, EventSetOption, EventCloseHandle, EventReset, EventChangeUser, EventQuit:
		return
	}
	for _, t := range m.tables {
		if t.condition == stuck && !(ev.Kind == EventQuery && rewrite.ReadsDiagnostics(ev.Text)) {
			m.tidy(t, "retry")
		}
	}
}

// anySettle says whether the command in progress settles anything.
func (m *Machine) anySettle() bool { return m.marked() != nil }

// markDue has those parked tables settled that a DDL of temporary tables finds too old, or that are no longer wanted.
func (m *Machine) markDue() {
	f := &m.flow
	for _, t := range m.tables {
		switch {
		case t.state != stateParked:
		case m.native || f.policy.Strategy == StrategyNative:
			m.tidy(t, "native")
		case t.condition == doomed:
			m.tidy(t, t.why)
		case m.due(t, f.policy, f.now):
			m.tidy(t, "expired")
		}
	}
}

// due says whether a parked table has been kept too long.
func (m *Machine) due(t *table, p *Policy, now int64) bool {
	return p.ParkTTL > 0 && now-t.parked >= p.ParkTTL || t.old(p, now)
}

// old says whether a table was made too long ago to be trusted to be what its CREATE would make now.
func (t *table) old(p *Policy, now int64) bool { return p.MaxAge > 0 && now-t.created >= p.MaxAge }

// until returns to when a name or shape is left alone.
func until(maxAge, now int64) int64 {
	if maxAge <= 0 || now > math.MaxInt64-maxAge {
		return math.MaxInt64
	}
	return now + maxAge
}

// clear notes that a table is empty.
func (t *table) clear() {
	t.condition = clean
	t.touched, t.crept, t.since, t.written, t.away = false, false, false, false, false
}

// The statements of ours. The mark stands in front: a log shows it however much of a statement it cuts off.
const (
	ours      = "/* tmpproxy */ "
	commitSQL = ours + "COMMIT AND NO CHAIN NO RELEASE"
	// askSQL does nothing but to tell the flags, and to leave diagnostics like those of CREATE. (DO would set FOUND_ROWS(). sql_notes warns
	// of its deprecation on MariaDB 11.8.)
	askSQL = ours + "SET sql_warnings = @@sql_warnings"
)

func dropSQL(k Key) string     { return ours + "DROP TEMPORARY TABLE " + quoted(k) }
func noteSQL(k Key) string     { return ours + "DROP TEMPORARY TABLE IF EXISTS " + quoted(k) }
func truncateSQL(k Key) string { return ours + "TRUNCATE TABLE " + quoted(k) }
func checkSQL(k Key) string    { return ours + "SHOW CREATE TABLE " + quoted(k) }
func probeSQL(k Key) string    { return ours + "SHOW CREATE VIEW " + quoted(k) } // it looks past temporary tables

func quoted(k Key) string {
	return "`" + strings.ReplaceAll(k.Schema, "`", "``") + "`.`" + strings.ReplaceAll(k.Name, "`", "``") + "`"
}
