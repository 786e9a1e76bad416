package session

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tmpproxy/rewrite"
)

// server is a small model of a MySQL or MariaDB server with one session: schemas, permanent and temporary tables, views,
// transactions, one-shot SET TRANSACTION, read-only modes, LOCK TABLES, diagnostics, routines. What it does was observed on
// MySQL 9.7 and MariaDB 10.11; what it leaves out has no part in the promises that the model test checks.
type server struct {
	mariadb    bool
	lists      bool // SHOW TABLES lists temporary tables (MariaDB 11.2 and later)
	opensTrans bool // DDL of temporary tables opens a transaction with autocommit off (MySQL, MariaDB with a binary log)
	foldsCase  bool // lower_case_table_names=1

	charsets  map[string]string // of schemas
	permanent map[Key]*relation
	views     map[Key]bool
	temporary map[int]map[Key]*relation // by pseudo_thread_id

	schema     string
	variables  map[string]string
	thread     int
	autocommit bool
	inTrans    bool // the flag
	explicit   bool // BEGIN was said
	readTrans  bool
	readSess   bool
	oneShot    bool
	oneRead    bool
	locked     bool
	xa         int                 // 0 none, 1 active, 2 idle
	undo       map[*relation][]int // rows before the transaction, of tables that can be rolled back
	savepoints []savepoint
	mixed      bool // rows that cannot be rolled back were written in the transaction
	commits    int  // how many transactions with something to lose have ended

	warnings []string
	stale    bool // the warnings are of an earlier statement
	warned   int  // how many warnings there ever were
	rowCount int
	texts    map[string]prepare // by PREPARE
	handles  map[uint32]prepare // by COM_STMT_PREPARE
	last     uint32

	trigger  string                                   // what an INSERT into a permanent table does to d1.t1: "", drop, merge
	resolved func(k Key, r *relation, temporary bool) // told of every name that a statement resolves
	failure  string                                   // what an own statement did that it may not
}

// prepare is a prepared statement. It runs in the schema in which it was prepared.
type prepare struct{ text, schema string }

type savepoint struct {
	name string
	rows map[*relation][]int
}

// relation is a table.
type relation struct {
	engine string // InnoDB, MEMORY, MyISAM, MERGE
	define string // what SHOW CREATE TABLE says, but for the engine
	key    bool   // a is a primary key
	rows   []int
	union  Key
}

func (r *relation) transactional() bool { return r.engine == "InnoDB" }

// definition is the text of SHOW CREATE TABLE, as far as the machine reads it.
func (r *relation) definition(temporary bool) string {
	engine := r.engine
	if engine == "MERGE" {
		engine = "MRG_MyISAM"
	}
	if temporary {
		return "CREATE TEMPORARY TABLE `t` (\n  " + r.define + "\n) ENGINE=" + engine
	}
	return "CREATE TABLE `t` (\n  " + r.define + "\n) ENGINE=" + engine
}

func newServer() *server {
	s := &server{
		charsets: map[string]string{"d1": "utf8mb4", "d2": "latin1"}, permanent: map[Key]*relation{}, views: map[Key]bool{},
		schema: "d1", handles: map[uint32]prepare{}, texts: map[string]prepare{},
	}
	s.permanent[Key{"d1", "base"}] = &relation{engine: "InnoDB", define: "a int", rows: []int{1, 2, 3}}
	s.permanent[Key{"d1", "t3"}] = &relation{engine: "InnoDB", define: "a int", rows: []int{31, 32}}
	s.connect()
	return s
}

// connect is what a login and COM_RESET_CONNECTION make of the session, but for the schema.
func (s *server) connect() {
	s.rollback()
	s.temporary = map[int]map[Key]*relation{0: {}}
	s.variables = map[string]string{}
	s.thread, s.autocommit = 0, true
	s.explicit, s.inTrans, s.readTrans, s.readSess, s.oneShot, s.oneRead, s.locked, s.xa = false, false, false, false, false, false, false, 0
	s.savepoints, s.undo, s.mixed = nil, nil, false
	s.warnings, s.rowCount = nil, 0
	clear(s.handles)
	clear(s.texts)
}

// reply is what a client sees of a statement.
type reply struct {
	kind     OutcomeKind
	code     uint16
	status   uint16
	warnings int
	affected int
	rows     string
	handle   uint32
	results  int

	definition string // the text of SHOW CREATE TABLE
}

func (r reply) String() string {
	switch r.kind {
	case OutcomeErr:
		return fmt.Sprintf("err %d", r.code)
	case OutcomeSet:
		return fmt.Sprintf("set %s flags=%#x warnings=%d", r.rows, r.status, r.warnings)
	case OutcomeNone:
		return "none"
	}
	return fmt.Sprintf("ok flags=%#x warnings=%d affected=%d", r.status, r.warnings, r.affected)
}

func (r reply) outcome(now int64) *Outcome {
	return &Outcome{
		Kind: r.kind, Code: r.code, Status: r.status, Warnings: uint16(r.warnings), Affected: uint64(max(r.affected, 0)),
		Handle: r.handle, Results: r.results, Definition: rewrite.Definition(r.definition), Now: now,
	}
}

func (s *server) flags() uint16 {
	var f uint16
	if s.autocommit {
		f |= statusAutocommit
	}
	if s.inTrans {
		f |= statusInTrans
		if s.readTrans {
			f |= statusInTransReadOnly
		}
	}
	return f
}

// query runs a COM_QUERY.
func (s *server) query(text string) reply {
	var r reply
	list := parse(text)
	for i, st := range list {
		r = s.statement(st)
		r.results = i + 1
		if r.kind == OutcomeErr {
			break
		}
	}
	return r
}

// statement runs one statement at the top level: with diagnostics.
func (s *server) statement(st *statement) reply {
	s.stale = true
	if st.op != opShowWarnings && (!s.mariadb || st.tables) {
		s.warnings, s.stale = nil, false
	}
	before := s.warned
	r := s.run(st)
	switch r.kind {
	case OutcomeErr:
		s.warnings = []string{fmt.Sprintf("error %d", r.code)}
		s.rowCount = -1
		r.status = 0
		return r
	case OutcomeSet:
		s.rowCount = -1
	default:
		s.rowCount = r.affected
	}
	r.status = s.flags()
	r.warnings = s.warned - before
	return r
}

func fail(code uint16) reply { return reply{kind: OutcomeErr, code: code} }

func rows(text string) reply { return reply{kind: OutcomeSet, rows: text} }

func (s *server) warn(text string) {
	if s.stale { // MariaDB: the first warning of a statement replaces those that it left alone
		s.warnings, s.stale = nil, false
	}
	s.warnings = append(s.warnings, text)
	s.warned++
}

// remark is a warning of level note.
func (s *server) remark(text string) {
	if s.variables["sql_notes"] != "0" {
		s.warn(text)
	}
}

func (s *server) key(n name) Key {
	k := Key{n.schema, n.table}
	if k.Schema == "" {
		k.Schema = s.schema
	}
	if s.foldsCase {
		k.Name = strings.ToLower(k.Name)
	}
	return k
}

func (s *server) temps() map[Key]*relation {
	if s.temporary[s.thread] == nil {
		s.temporary[s.thread] = map[Key]*relation{}
	}
	return s.temporary[s.thread]
}

// resolve finds the table that a name means.
func (s *server) resolve(n name) (r *relation, temporary bool) {
	k := s.key(n)
	r, temporary = s.temps()[k]
	if !temporary {
		r = s.permanent[k]
	}
	if s.resolved != nil {
		s.resolved(k, r, temporary)
	}
	return r, temporary
}

// look tells of a name that is only looked at among the temporary tables.
func (s *server) look(k Key) *relation {
	r := s.temps()[k]
	if s.resolved != nil {
		s.resolved(k, r, r != nil)
	}
	return r
}

// open is the transaction that an access to rows or, with autocommit off, DDL opens.
func (s *server) open() {
	if !s.autocommit {
		s.inTrans = true
	}
	if s.inTrans && s.undo == nil {
		s.undo = map[*relation][]int{}
	}
}

// consume ends a pending SET TRANSACTION.
func (s *server) consume() { s.oneShot, s.oneRead = false, false }

func (s *server) commit() {
	if s.explicit || s.inTrans || len(s.undo) > 0 {
		s.commits++
	}
	s.explicit, s.inTrans, s.readTrans, s.undo, s.savepoints, s.mixed = false, false, false, nil, nil, false
}

func (s *server) rollback() {
	for r, rows := range s.undo {
		r.rows = rows
	}
	s.commit()
}

// implicitCommit is what DDL of permanent tables, TRUNCATE and LOCK TABLES do.
func (s *server) implicitCommit() {
	s.commit()
	s.consume()
}

// write makes ready for a change of r's rows.
func (s *server) write(r *relation) {
	if s.autocommit && !s.explicit {
		return
	}
	if !r.transactional() {
		s.mixed = true
		return
	}
	if s.undo == nil {
		s.undo = map[*relation][]int{}
	}
	if _, ok := s.undo[r]; !ok {
		s.undo[r] = slices.Clone(r.rows)
	}
}

// access is what reading or writing rows of r does to the transaction.
func (s *server) access(r *relation, writes bool) {
	switch {
	case r.transactional():
		s.open()
		if !s.explicit {
			s.consume()
		}
	case writes && s.mariadb && s.opensTrans:
		s.open()
		if !s.explicit {
			s.consume()
		}
	}
}

func (s *server) noReadWrite() bool { return s.readTrans || s.readSess || s.oneRead && !s.explicit }

func (s *server) define(columns string, k Key, engine string) *relation {
	r := &relation{engine: engine, key: strings.Contains(columns, "PRIMARY")}
	r.define = columns + " charset=" + s.charsets[k.Schema] + " mode=" + s.variables["sql_mode"]
	return r
}

// run runs one statement.
func (s *server) run(st *statement) reply {
	switch st.op {
	case opCreateTemporary:
		return s.createTemporary(st)
	case opDropTable:
		return s.dropTable(st)
	case opTruncate:
		return s.truncate(st)
	case opInsert, opReplace:
		return s.insert(st)
	case opUpdate, opDelete:
		return s.change(st)
	case opSelect:
		r, temporary := s.resolve(st.names[0])
		if r == nil && !temporary && s.views[s.key(st.names[0])] {
			return rows("view")
		}
		if r == nil {
			return fail(1146)
		}
		s.access(r, false)
		return rows(s.rowsOf(r))
	case opSelectOne:
		return rows("1")
	case opSelectRowCount:
		return rows(strconv.Itoa(s.rowCount))
	case opSelectWarningCount:
		n := len(s.warnings)
		return rows(strconv.Itoa(n))
	case opShowWarnings:
		return rows(strings.Join(s.warnings, ","))
	case opShowCreate:
		r, temporary := s.resolve(st.names[0])
		if r == nil {
			return fail(1146)
		}
		return reply{kind: OutcomeSet, rows: r.define, definition: r.definition(temporary)}
	case opShowCreateView:
		k := s.key(st.names[0])
		switch {
		case s.views[k]:
			return rows("view")
		case s.permanent[k] != nil:
			return fail(1347)
		}
		return fail(1146)
	case opShowTables:
		return s.showTables()
	case opDo:
		return reply{}
	case opFunction, opCall:
		return s.routine(st)
	case opSet:
		return s.set(st)
	case opUse:
		if s.charsets[st.word] == "" {
			return fail(1049)
		}
		s.schema = st.word
		return reply{}
	case opBegin, opCommit, opRollback, opRollbackTo, opSavepoint, opLock, opUnlock, opXA:
		return s.transaction(st)
	case opFlush:
		s.implicitCommit()
		return reply{}
	case opCreateTable, opCreateView, opDropView, opAlter, opRename, opDatabase:
		return s.definition(st)
	case opPrepare:
		delete(s.texts, st.word)
		if code := s.preparable(st.text); code != 0 {
			return fail(code)
		}
		s.texts[st.word] = prepare{st.text, s.schema}
		return reply{}
	case opExecute:
		p, ok := s.texts[st.word]
		if !ok {
			return fail(1243)
		}
		defer func(schema string) { s.schema = schema }(s.schema)
		s.schema = p.schema
		return s.nested(p.text)
	}
	return fail(1064)
}

// nested runs a statement of a routine or of an EXECUTE.
func (s *server) nested(text string) reply {
	var r reply
	for _, st := range parse(text) {
		if st.tables || !s.mariadb {
			s.warnings = nil
		}
		if r = s.run(st); r.kind == OutcomeErr {
			return r
		}
	}
	return r
}

func (s *server) rowsOf(r *relation) string {
	list := r.rows
	if r.engine == "MERGE" && r.union.Name != "" {
		if u := s.temps()[r.union]; u != nil {
			list = u.rows
		} else if u := s.permanent[r.union]; u != nil {
			list = u.rows
		}
	}
	list = slices.Clone(list)
	slices.Sort(list) // InnoDB and MEMORY differ in order: that is a listed difference
	return fmt.Sprint(list)
}

func (s *server) createTemporary(st *statement) reply {
	k := s.key(st.names[0])
	if k.Schema == "" {
		return fail(1046)
	}
	if s.noReadWrite() {
		return fail(1792)
	}
	if s.xa > 0 && !s.mariadb {
		return fail(4091)
	}
	if s.charsets[k.Schema] == "" && !s.mariadb {
		return fail(1049)
	}
	engine := st.engine
	if engine == "" {
		if engine = s.variables["default_tmp_storage_engine"]; engine == "" {
			engine = "InnoDB"
		}
	}
	old := s.look(k)
	if old != nil && !st.orReplace {
		if s.mariadb && engine == "InnoDB" {
			s.open()
			if !s.explicit {
				s.consume()
			}
		}
		if st.ifNotExists {
			s.remark("note 1050")
			return reply{}
		}
		return fail(1050)
	}
	if s.opensTrans {
		s.open()
	}
	r := s.define(st.columns, k, engine)
	r.union = st.union
	if r.union != (Key{}) {
		if r.union.Schema == "" {
			r.union.Schema = s.schema
		}
		s.resolve(name{r.union.Schema, r.union.Name})
	}
	if st.source != nil { // AS SELECT or LIKE
		src, _ := s.resolve(*st.source)
		if src == nil {
			return fail(1146)
		}
		if st.like { // which reads no rows
			r.engine, r.define, r.key = src.engine, src.define, src.key
		} else {
			s.access(src, false)
			r.rows = slices.Clone(src.rows)
			s.write(r)
		}
	}
	if strings.Contains(st.columns, "INT(") {
		s.warn("warning 1681")
	}
	if strings.Contains(st.columns, "SMALLINT") && engine == "InnoDB" && st.engine != "" {
		s.warn("warning 9999") // one that only InnoDB gives
	}
	s.temps()[k] = r
	return reply{affected: len(r.rows)}
}

func (s *server) dropTable(st *statement) reply {
	if s.noReadWrite() && (st.temporary || s.readSess) {
		return fail(1792)
	}
	if s.xa > 0 {
		if s.mariadb && st.temporary && s.xa == 1 {
			// allowed
		} else if s.mariadb || !st.temporary {
			return fail(1399)
		} else {
			return fail(4091)
		}
	}
	if !st.temporary {
		s.implicitCommit()
	} else if s.opensTrans {
		s.open()
	}
	var keys []Key
	missing := 0
	for _, n := range st.names {
		k := s.key(n)
		if k.Schema == "" {
			return fail(1046)
		}
		if slices.Contains(keys, k) {
			return fail(1066)
		}
		keys = append(keys, k)
		if s.look(k) == nil && (st.temporary || s.permanent[k] == nil) {
			missing++
		}
	}
	if missing > 0 && !st.ifExists && !s.mariadb {
		return fail(1051)
	}
	for _, k := range keys {
		if s.temps()[k] != nil {
			delete(s.temps(), k)
		} else if !st.temporary {
			delete(s.permanent, k)
		}
	}
	switch {
	case missing == 0:
	case !st.ifExists:
		return fail(1051)
	case s.mariadb:
		s.remark("note 1051")
	default:
		for range missing {
			s.remark("note 1051")
		}
	}
	return reply{}
}

func (s *server) truncate(st *statement) reply {
	r, temporary := s.resolve(st.names[0])
	if r == nil {
		return fail(1146)
	}
	if s.xa > 0 {
		return fail(1399)
	}
	if s.readSess || !temporary && s.noReadWrite() {
		return fail(1792)
	}
	s.implicitCommit()
	if st.own && (!temporary || r.engine == "MERGE") {
		s.failure = fmt.Sprintf("P4: TRUNCATE of ours emptied %v, temporary=%v, %s", s.key(st.names[0]), temporary, r.engine)
	}
	r.rows = nil
	if r.engine == "MERGE" {
		if u := s.permanent[r.union]; u != nil {
			u.rows = nil
		}
	}
	return reply{}
}

func (s *server) insert(st *statement) reply {
	r, temporary := s.resolve(st.names[0])
	if r == nil {
		return fail(1146)
	}
	if r.engine == "MERGE" {
		return fail(1036)
	}
	s.access(r, true)
	if !temporary && s.noReadWrite() {
		return fail(1792)
	}
	s.write(r)
	before := slices.Clone(r.rows)
	affected := 0
	for _, v := range st.values {
		if r.key && slices.Contains(r.rows, v) {
			if st.op == opReplace {
				affected++
				continue
			}
			if r.transactional() {
				r.rows = before
			}
			return fail(1062)
		}
		if v > 1000 { // out of range
			s.warn("warning 1264")
		}
		r.rows = append(slices.Clip(r.rows), v)
		affected++
	}
	if !temporary {
		s.fire()
	}
	return reply{affected: affected}
}

// fire runs the trigger.
func (s *server) fire() {
	k := Key{"d1", "t1"}
	switch s.trigger {
	case "drop":
		delete(s.temps(), k)
	case "merge":
		s.temps()[k] = &relation{engine: "MERGE", define: "merge", union: Key{"d1", "base"}}
	}
}

func (s *server) change(st *statement) reply {
	r, temporary := s.resolve(st.names[0])
	if r == nil {
		return fail(1146)
	}
	if r.engine == "MERGE" {
		return fail(1036)
	}
	s.access(r, true)
	if !temporary && s.noReadWrite() {
		return fail(1792)
	}
	n := len(r.rows)
	if n > 0 {
		s.write(r)
	}
	if st.op == opDelete {
		r.rows = nil
	} else {
		r.rows = slices.Clone(r.rows)
		for i := range r.rows {
			r.rows[i] += 100
		}
	}
	return reply{affected: n}
}

func (s *server) showTables() reply {
	var list []string
	for k := range s.permanent {
		if k.Schema == s.schema {
			list = append(list, k.Name)
		}
	}
	for k := range s.views {
		if k.Schema == s.schema {
			list = append(list, k.Name)
		}
	}
	if s.lists {
		for k, r := range s.temps() {
			if s.resolved != nil {
				s.resolved(k, r, true)
			}
			if k.Schema == s.schema {
				list = append(list, k.Name+" temporary")
			}
		}
	}
	slices.Sort(list)
	return rows(strings.Join(list, ","))
}

// bodies are the routines of schema d1.
var bodies = map[string]string{
	"f_write": "INSERT INTO d1.t1 VALUES (77)",
	"f_drop":  "DROP TEMPORARY TABLE IF EXISTS d1.t1",
	"p_drop":  "DROP TEMPORARY TABLE IF EXISTS d1.t1, d1.t2",
	"p_make":  "CREATE TEMPORARY TABLE d1.t1 (a INT) ENGINE=MEMORY",
	"p_merge": "CREATE TEMPORARY TABLE d1.t1 (a INT) ENGINE=MERGE UNION=(base)",
	"p_swap":  "DROP TEMPORARY TABLE IF EXISTS d1.t1; CREATE TEMPORARY TABLE d1.t1 (a INT) ENGINE=MERGE UNION=(base)",
	"p_perm":  "CREATE TABLE d1.t1 (a INT)",
	"p_notes": "SET sql_notes=0",
	"p_mode":  "SET sql_mode='X'",
	"p_shot":  "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
	"p_begin": "BEGIN; INSERT INTO d1.base VALUES (9)",
	"p_read":  "SELECT ROW_COUNT()",
}

func (s *server) routine(st *statement) reply {
	body, ok := bodies[st.word]
	if !ok {
		return fail(1305)
	}
	r := s.nested(body)
	if r.kind != OutcomeErr && st.op == opFunction {
		r = rows("1")
	}
	return r
}

func (s *server) set(st *statement) reply {
	for _, a := range st.sets {
		switch a.key {
		case "@x":
		case "transaction":
			if a.scope == "session" {
				switch a.value {
				case "READ ONLY":
					s.readSess = true
				case "READ WRITE":
					s.readSess = false
				}
				continue
			}
			if s.inTrans {
				return fail(1568)
			}
			s.oneShot = true
			if a.value == "READ ONLY" {
				s.oneRead = true
			}
		case "autocommit":
			on := a.value == "1"
			if on && !s.autocommit {
				s.commit()
			}
			s.autocommit = on
		case "pseudo_thread_id":
			s.thread, _ = strconv.Atoi(a.value)
		default:
			switch {
			case a.scope == "global":
			case a.value == "DEFAULT":
				delete(s.variables, a.key)
			default:
				s.variables[a.key] = a.value
			}
		}
	}
	return reply{}
}

func (s *server) transaction(st *statement) reply {
	if s.xa > 0 && st.op != opXA && st.op != opSavepoint {
		return fail(1399)
	}
	switch st.op {
	case opBegin:
		s.locked = false
		s.commit()
		s.explicit, s.inTrans = true, true
		s.readTrans = st.readOnly || s.oneRead || s.readSess
		s.consume()
	case opCommit:
		read := s.readTrans
		s.commit()
		s.consume()
		if st.chain {
			s.explicit, s.inTrans, s.readTrans = true, true, read
		}
	case opRollback:
		if s.mixed {
			s.warn("warning 1196")
		}
		s.rollback()
		s.consume()
	case opSavepoint:
		rows := map[*relation][]int{}
		for r := range s.undo {
			rows[r] = slices.Clone(r.rows)
		}
		s.savepoints = slices.DeleteFunc(s.savepoints, func(p savepoint) bool { return p.name == st.word })
		if s.explicit || !s.autocommit {
			s.savepoints = append(s.savepoints, savepoint{st.word, rows})
		}
	case opRollbackTo:
		i := slices.IndexFunc(s.savepoints, func(p savepoint) bool { return p.name == st.word })
		if i < 0 {
			return fail(1305)
		}
		if s.mixed {
			s.warn("warning 1196")
		}
		for r, before := range s.undo {
			if at, ok := s.savepoints[i].rows[r]; ok {
				r.rows = slices.Clone(at)
			} else {
				r.rows = slices.Clone(before)
			}
		}
		s.savepoints = s.savepoints[:i+1]
	case opLock:
		s.locked = false
		s.implicitCommit()
		if r, _ := s.resolve(st.names[0]); r == nil {
			return fail(1146)
		}
		s.locked = true
	case opUnlock:
		if s.locked {
			s.commit()
		}
		s.locked = false
	case opXA:
		switch st.word {
		case "START":
			if s.xa > 0 || s.inTrans || s.explicit {
				return fail(1400)
			}
			s.xa = 1
		case "END":
			if s.xa != 1 {
				return fail(1399)
			}
			s.xa = 2
		default: // ROLLBACK, COMMIT ONE PHASE
			if s.xa != 2 {
				return fail(1399)
			}
			s.xa = 0
			s.rollback()
			s.consume()
		}
	}
	return reply{}
}

func (s *server) definition(st *statement) reply {
	if s.xa > 0 {
		return fail(1399)
	}
	if s.readSess {
		return fail(1792)
	}
	s.implicitCommit()
	switch st.op {
	case opCreateTable:
		k := s.key(st.names[0])
		if s.permanent[k] != nil || s.views[k] {
			if st.ifNotExists {
				s.remark("note 1050")
				return reply{}
			}
			return fail(1050)
		}
		s.permanent[k] = s.define("a INT", k, "InnoDB")
		s.permanent[k].rows = []int{71, 72}
	case opCreateView:
		k := s.key(st.names[0])
		if s.permanent[k] != nil || s.views[k] {
			return fail(1050)
		}
		s.views[k] = true
	case opDropView:
		k := s.key(st.names[0])
		if !s.views[k] {
			return fail(1051)
		}
		delete(s.views, k)
	case opAlter:
		r, temporary := s.resolve(st.names[0])
		if r == nil {
			return fail(1146)
		}
		k := s.key(st.names[0])
		if st.word == "RENAME" {
			to := s.key(st.names[1])
			if s.look(to) != nil || !temporary && s.permanent[to] != nil {
				return fail(1050)
			}
			if temporary {
				delete(s.temps(), k)
				s.temps()[to] = r
			} else {
				delete(s.permanent, k)
				s.permanent[to] = r
			}
			return reply{}
		}
		if st.word == "UNION" {
			if r.engine == "MERGE" {
				r.union = s.key(st.names[1])
			}
			return reply{}
		}
		r.define += ", c int"
	case opRename:
		k, to := s.key(st.names[0]), s.key(st.names[1])
		if s.mariadb && s.look(k) != nil {
			if s.look(to) != nil {
				return fail(1050)
			}
			s.temps()[to] = s.temps()[k]
			delete(s.temps(), k)
			return reply{}
		}
		if s.permanent[k] == nil {
			return fail(1146)
		}
		if s.permanent[to] != nil || s.views[to] {
			return fail(1050)
		}
		s.permanent[to] = s.permanent[k]
		delete(s.permanent, k)
	case opDatabase:
		switch st.word {
		case "CREATE":
			if s.charsets[st.text] != "" {
				return fail(1007)
			}
			s.charsets[st.text] = "utf8mb4"
		case "ALTER":
			if s.charsets[st.text] == "" {
				return fail(1049)
			}
			s.charsets[st.text] = st.engine
		case "DROP":
			if s.charsets[st.text] == "" {
				return fail(1008)
			}
			delete(s.charsets, st.text)
			maps.DeleteFunc(s.permanent, func(k Key, _ *relation) bool { return k.Schema == st.text })
			maps.DeleteFunc(s.views, func(k Key, _ bool) bool { return k.Schema == st.text })
			if s.schema == st.text {
				s.schema = ""
			}
		}
	}
	return reply{}
}

// The commands besides COM_QUERY.

func (s *server) prepare(text string) reply {
	if code := s.preparable(text); code != 0 {
		s.warnings = []string{fmt.Sprintf("error %d", code)}
		s.rowCount = -1
		return fail(code)
	}
	if !s.mariadb || parse(text)[0].tables {
		s.warnings, s.stale = nil, false
	}
	s.last++
	s.handles[s.last] = prepare{text, s.schema}
	return reply{handle: s.last}
}

// preparable returns the error that a text cannot be prepared for, or 0. Names are resolved, but not those of a CREATE or DROP.
func (s *server) preparable(text string) uint16 {
	list := parse(text)
	if len(list) != 1 || list[0].op == opNone {
		return 1064
	}
	st := list[0]
	switch st.op {
	case opSelect, opInsert, opReplace, opUpdate, opDelete:
		if r, _ := s.resolve(st.names[0]); r == nil && !s.views[s.key(st.names[0])] {
			return 1146
		}
	}
	return 0
}

func (s *server) execute(handle uint32) reply {
	p, ok := s.handles[handle]
	if !ok {
		s.warnings = []string{"error 1243"}
		s.rowCount = -1
		return fail(1243)
	}
	defer func(schema string) { s.schema = schema }(s.schema)
	s.schema = p.schema
	return s.query(p.text)
}

func (s *server) initDB(schema string) reply {
	if s.charsets[schema] == "" {
		s.warnings = []string{"error 1049"}
		s.rowCount = -1
		return fail(1049)
	}
	s.schema = schema
	return reply{status: s.flags()}
}

func (s *server) reset() reply {
	s.connect()
	return reply{status: s.flags()}
}

// changeUser fails for the schema "no": the temporary tables are gone all the same. (MySQL ends the session as well.)
func (s *server) changeUser(schema string) reply {
	if schema != "" && s.charsets[schema] == "" {
		s.connect()
		s.warnings = []string{"error 1049"}
		s.rowCount = -1
		return fail(1049)
	}
	s.connect()
	s.schema = schema
	return reply{status: s.flags()}
}
