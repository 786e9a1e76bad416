package rewrite

import "bytes"

// Mode is the lexical state of a session and the server's flavour.
type Mode uint8

// The bits of a Mode.
const (
	NoBackslashEscapes Mode = 1 << iota // sql_mode NO_BACKSLASH_ESCAPES
	ANSIQuotes                          // sql_mode ANSI_QUOTES, as far as it is known
	MariaDB                             // the server is MariaDB, not MySQL
)

// Verb is what a statement does, told by its leading words.
type Verb uint8

// The verbs.
const (
	VerbEmpty           Verb = iota // blank, or only comments
	VerbSelect                      // SELECT, WITH .. SELECT, TABLE t, VALUES, "(" SELECT
	VerbInsert                      // INSERT
	VerbReplace                     // REPLACE
	VerbUpdate                      // UPDATE, WITH .. UPDATE
	VerbDelete                      // DELETE, WITH .. DELETE
	VerbTruncate                    // TRUNCATE [TABLE]
	VerbLoad                        // LOAD DATA, LOAD XML
	VerbShow                        // SHOW, but for the two below
	VerbShowDiagnostics             // SHOW [COUNT(*)] WARNINGS / ERRORS
	VerbShowTables                  // SHOW TABLES, TABLE STATUS, OPEN TABLES
	VerbDescribe                    // DESCRIBE table
	VerbExplain                     // EXPLAIN of a statement that is not executed
	VerbDo                          // DO
	VerbSet                         // SET
	VerbUse                         // USE
	VerbBegin                       // BEGIN [WORK], START TRANSACTION
	VerbCommit                      // COMMIT
	VerbRollback                    // ROLLBACK
	VerbRollbackTo                  // ROLLBACK TO
	VerbSavepoint                   // SAVEPOINT
	VerbRelease                     // RELEASE SAVEPOINT
	VerbLockTables                  // LOCK TABLES
	VerbUnlockTables                // UNLOCK TABLES
	VerbXABegin                     // XA START, XA BEGIN
	VerbXA                          // any other XA
	VerbCreateTemporary             // CREATE [OR REPLACE] TEMPORARY TABLE
	VerbCreateTable                 // CREATE [OR REPLACE] TABLE
	VerbCreate                      // CREATE of anything else but a database
	VerbDropTable                   // DROP [TEMPORARY] TABLE[S]
	VerbDrop                        // DROP of anything else but a database
	VerbAlterTable                  // ALTER TABLE
	VerbAlter                       // ALTER of anything else but a database
	VerbRename                      // RENAME TABLE
	VerbDatabase                    // CREATE, DROP or ALTER DATABASE
	VerbCall                        // CALL
	VerbExecute                     // EXECUTE, EXECUTE IMMEDIATE
	VerbPrepare                     // PREPARE
	VerbDeallocate                  // DEALLOCATE PREPARE, DROP PREPARE
	VerbCompound                    // compound statements outside of routines
	VerbHandler                     // HANDLER
	VerbGetDiagnostics              // GET DIAGNOSTICS
	VerbFlush                       // FLUSH
	VerbKill                        // KILL
	VerbAdmin                       // known statements that touch no temporary table by themselves
	VerbUnknown                     // opaque
)

// String returns the verb in snake_case.
func (v Verb) String() string {
	if int(v) < len(verbNames) {
		return verbNames[v]
	}
	return "invalid"
}

var verbNames = [...]string{
	VerbEmpty:           "empty",
	VerbSelect:          "select",
	VerbInsert:          "insert",
	VerbReplace:         "replace",
	VerbUpdate:          "update",
	VerbDelete:          "delete",
	VerbTruncate:        "truncate",
	VerbLoad:            "load",
	VerbShow:            "show",
	VerbShowDiagnostics: "show_diagnostics",
	VerbShowTables:      "show_tables",
	VerbDescribe:        "describe",
	VerbExplain:         "explain",
	VerbDo:              "do",
	VerbSet:             "set",
	VerbUse:             "use",
	VerbBegin:           "begin",
	VerbCommit:          "commit",
	VerbRollback:        "rollback",
	VerbRollbackTo:      "rollback_to",
	VerbSavepoint:       "savepoint",
	VerbRelease:         "release",
	VerbLockTables:      "lock_tables",
	VerbUnlockTables:    "unlock_tables",
	VerbXABegin:         "xa_begin",
	VerbXA:              "xa",
	VerbCreateTemporary: "create_temporary",
	VerbCreateTable:     "create_table",
	VerbCreate:          "create",
	VerbDropTable:       "drop_table",
	VerbDrop:            "drop",
	VerbAlterTable:      "alter_table",
	VerbAlter:           "alter",
	VerbRename:          "rename",
	VerbDatabase:        "database",
	VerbCall:            "call",
	VerbExecute:         "execute",
	VerbPrepare:         "prepare",
	VerbDeallocate:      "deallocate",
	VerbCompound:        "compound",
	VerbHandler:         "handler",
	VerbGetDiagnostics:  "get_diagnostics",
	VerbFlush:           "flush",
	VerbKill:            "kill",
	VerbAdmin:           "admin",
	VerbUnknown:         "unknown",
}

// Statement is what a text does. It is a plain value without references.
//
// A text that holds an executable comment is read twice, with the comment's content
// and without it, and one whose end of a "..." depends on an unknown ANSI_QUOTES is
// read both ways: where the readings differ it is Doubtful, and Verbs has the verbs of
// all of them.
type Statement struct {
	Verb  Verb   // of the first statement
	Verbs uint64 // bit set (1 << Verb) of all statements of the text

	// Multi tells that a statement follows a ';'. A comment counts as one, as it does
	// for the servers; blanks and further ';' do not.
	Multi bool

	Executable bool // holds an executable comment

	// Doubtful tells that the text cannot be read with certainty: a quoting or comment
	// without end, a NUL, MySQL's dollar quotes, readings that differ (see above), a
	// backslash in a text of several statements one of which is a SET, or a PREPARE of
	// anything but one literal without backslashes. It is not looked for in a single
	// statement whose verb nothing of that can change.
	Doubtful bool

	ReadOnly    bool // START TRANSACTION .. READ ONLY, by any statement of the text
	Chain       bool // COMMIT or ROLLBACK AND CHAIN
	Release     bool // COMMIT or ROLLBACK RELEASE
	Temporary   bool // DROP TEMPORARY TABLE
	IfNotExists bool // CREATE TABLE or DATABASE .. IF NOT EXISTS
	Borrows     bool // MariaDB's SET STATEMENT .. FOR, by any statement of the text: settings in force only while it runs

	// Program tells that the first statement is the CREATE of a procedure, function or trigger. What stands in its body is not
	// run, and not told of if the body is a block that can be followed to its end.
	Program bool
}

// Has tells whether any statement of the text has the verb v.
func (s Statement) Has(v Verb) bool { return s.Verbs&(1<<v) != 0 }

// Classify tells what text does. It does not allocate. Most texts cost a look at
// their first word and a search for ';' and executable comments; only when one is
// found the whole text is read.
func Classify(text []byte, mode Mode) Statement {
	if v, ok := plainVerb(text); ok && !hasMore(text) && !hasExecutable(text) {
		return Statement{Verb: v, Verbs: 1 << v}
	}
	r := reader{scanner: newScanner(text, mode)}
	st := r.first()
	if !r.executable && !r.ambiguous && !r.doubtful &&
		(r.tok.kind == kindEnd || !hasMore(text[r.tok.start:]) && !hasExecutable(text[r.tok.start:])) {
		return st
	}
	st, s := readAll(text, mode, false)
	if s.ambiguous {
		other, _ := readAll(text, mode^ANSIQuotes, false)
		st.merge(other)
	}
	if s.executable {
		other, _ := readAll(text, mode, true)
		st.merge(other)
		st.Executable = true
	}
	if s.ambiguous && s.executable {
		other, _ := readAll(text, mode^ANSIQuotes, true)
		st.merge(other)
	}
	return st
}

// plainVerb returns the verb of a text that begins with one of the commonest words. It
// only makes Classify faster.
func plainVerb(text []byte) (Verb, bool) {
	for len(text) > 0 && isBlank(text[0]) {
		text = text[1:]
	}
	if len(text) < len("select ") {
		return 0, false
	}
	var v Verb
	var w string
	switch lower(text[0]) {
	case 's':
		v, w = VerbSelect, "select"
	case 'i':
		v, w = VerbInsert, "insert"
	case 'u':
		v, w = VerbUpdate, "update"
	case 'd':
		v, w = VerbDelete, "delete"
	default:
		return 0, false
	}
	return v, hasPrefixFold(text, w) && isBlank(text[len(w)])
}

// merge takes another reading of the same text into account.
func (s *Statement) merge(other Statement) {
	same := other
	same.Executable = s.Executable
	if *s != same {
		s.Verbs |= other.Verbs
		s.Multi = s.Multi || other.Multi
		s.ReadOnly = s.ReadOnly || other.ReadOnly
		s.Doubtful = true
	}
}

// hasMore tells whether text could hold another statement: a ';' with more behind
// it than blanks.
func hasMore(text []byte) bool {
	n := bytes.IndexByte(text, ';')
	if n < 0 {
		return false
	}
	for _, c := range text[n:] {
		if c != ';' && !isBlank(c) {
			return true
		}
	}
	return false
}

// readAll reads a text to its end.
func readAll(text []byte, mode Mode, skipExec bool) (Statement, scanner) {
	r := reader{scanner: newScanner(text, mode)}
	r.skipExec = skipExec
	st := r.first()
	r.pass(&st)
	for r.tok.is(';') {
		comments := r.comments
		for r.tok.is(';') {
			r.advance()
		}
		var next Statement
		if r.tok.kind != kindEnd {
			r.verb(&next)
			r.pass(&next)
		} else if r.comments == comments {
			break
		}
		st.Multi = true
		st.Verbs |= 1 << next.Verb
		st.ReadOnly = st.ReadOnly || next.ReadOnly
		st.Borrows = st.Borrows || next.Borrows
		st.Doubtful = st.Doubtful || next.Doubtful
	}
	st.Executable = r.executable
	// A SET may change how the statements behind it are read.
	st.Doubtful = st.Doubtful || r.doubtful ||
		st.Multi && st.Has(VerbSet) && bytes.IndexByte(text, '\\') >= 0
	return st, r.scanner
}

// reader reads statements token by token.
type reader struct {
	scanner
	tok     token  // the current token
	program string // PROCEDURE, FUNCTION or TRIGGER if the statement creates one
}

func (r *reader) advance() { r.tok = r.next() }

// ended tells whether the current token ends a statement.
func (r *reader) ended() bool { return r.tok.kind == kindEnd || r.tok.is(';') }

func (r *reader) passStatement() {
	for !r.ended() {
		r.advance()
	}
}

// pass passes the rest of a statement whose leading words were read.
func (r *reader) pass(st *Statement) {
	if st.Program {
		r.passProgram()
	} else {
		r.passStatement()
	}
}

// on tells whether the current token is the keyword w, which is in upper case.
func (r *reader) on(w string) bool { return r.word(r.tok, w) }

// accept passes the keyword w if it is the current token.
func (r *reader) accept(w string) bool {
	if !r.on(w) {
		return false
	}
	r.advance()
	return true
}

// first reads the first statement's leading words.
func (r *reader) first() Statement {
	r.advance()
	var st Statement
	r.verb(&st)
	st.Verbs = 1 << st.Verb
	st.Executable = r.executable
	st.Doubtful = st.Doubtful || r.doubtful
	return st
}

// longestVerb is the length of the longest leading word.
const longestVerb = len("deallocate")

// verb reads the leading words of the statement that begins at the current token. It
// leaves the current token inside of that statement.
func (r *reader) verb(st *Statement) {
	if r.ended() {
		st.Verb = VerbEmpty
		return
	}
	for r.tok.is('(') {
		r.advance()
	}
	st.Verb = VerbUnknown
	if n := r.tok.end - r.tok.start; r.tok.kind != kindWord || n > longestVerb {
		return
	}
	var buf [longestVerb]byte
	n := copy(buf[:], r.bytes(r.tok))
	for i := range n {
		buf[i] = lower(buf[i])
	}
	switch string(buf[:n]) {
	case "select", "table", "values":
		st.Verb = VerbSelect
	case "insert":
		st.Verb = VerbInsert
	case "update":
		st.Verb = VerbUpdate
	case "delete":
		st.Verb = VerbDelete
	case "replace":
		st.Verb = VerbReplace
	case "with":
		st.Verb = r.with()
	case "set":
		r.set(st)
	case "show":
		st.Verb = r.show()
	case "begin":
		r.advance()
		if r.accept("WORK"); r.ended() {
			st.Verb = VerbBegin
		} else {
			st.Verb = VerbCompound
		}
	case "start":
		r.advance()
		st.Verb = VerbAdmin
		if r.accept("TRANSACTION") {
			st.Verb = VerbBegin
			for ; !r.ended(); r.advance() {
				if r.on("ONLY") {
					st.ReadOnly = true
				}
			}
		}
	case "commit", "rollback":
		r.end(st, n == len("commit"))
	case "savepoint":
		st.Verb = VerbSavepoint
	case "release":
		st.Verb = VerbRelease
	case "create":
		r.create(st)
	case "drop":
		r.drop(st)
	case "alter":
		st.Verb = r.alter()
	case "rename":
		r.advance()
		st.Verb = VerbAdmin // RENAME USER
		if r.on("TABLE") || r.on("TABLES") {
			st.Verb = VerbRename
		}
	case "truncate":
		st.Verb = VerbTruncate
	case "load":
		r.advance()
		st.Verb = VerbLoad
		if r.on("INDEX") { // LOAD INDEX INTO CACHE
			st.Verb = VerbAdmin
		}
	case "explain", "describe", "desc":
		r.advance()
		st.Verb = r.explain(false)
	case "analyze":
		r.advance()
		st.Verb = r.analyze()
	case "do":
		st.Verb = VerbDo
	case "use":
		st.Verb = VerbUse
	case "lock", "unlock":
		r.advance()
		switch {
		case r.on("INSTANCE"):
			st.Verb = VerbAdmin
		case !r.on("TABLE") && !r.on("TABLES"):
		case n == len("lock"):
			st.Verb = VerbLockTables
		default:
			st.Verb = VerbUnlockTables
		}
	case "xa":
		r.advance()
		st.Verb = VerbXA
		if r.on("START") || r.on("BEGIN") {
			st.Verb = VerbXABegin
		}
	case "call":
		st.Verb = VerbCall
	case "execute":
		st.Verb = VerbExecute
	case "prepare":
		r.prepare(st)
	case "deallocate":
		st.Verb = VerbDeallocate
	case "handler":
		st.Verb = VerbHandler
	case "get":
		st.Verb = VerbGetDiagnostics
	case "flush":
		st.Verb = VerbFlush
	case "kill":
		st.Verb = VerbKill
	case "declare", "if", "case", "loop", "while", "repeat", "for", "leave", "iterate", "open", "fetch", "close", "return":
		st.Verb = VerbCompound
	case "grant", "revoke", "check", "optimize", "repair", "checksum", "cache", "purge", "reset", "change", "stop",
		"install", "uninstall", "help", "shutdown", "restart", "clone", "import", "backup", "signal", "resignal":
		st.Verb = VerbAdmin
	default:
		if r.advance(); r.tok.is(':') { // a label
			st.Verb = VerbCompound
		}
	}
}

// with finds the statement behind WITH name [(columns)] AS (..), ..
func (r *reader) with() Verb {
	depth := 0
	closed := false // the token before was a ')' of the outermost level
	for r.advance(); !r.ended(); r.advance() {
		switch {
		case r.tok.is('('):
			if depth == 0 && closed {
				return VerbSelect // WITH a AS (..) (SELECT ..)
			}
			depth++
		case r.tok.is(')'):
			depth--
		case depth != 0 || r.tok.kind != kindWord:
		case r.on("SELECT"), r.on("TABLE"), r.on("VALUES"):
			return VerbSelect
		case r.on("UPDATE"):
			return VerbUpdate
		case r.on("DELETE"):
			return VerbDelete
		case r.on("INSERT"):
			return VerbInsert
		case r.on("REPLACE"):
			return VerbReplace
		}
		closed = depth == 0 && r.tok.is(')')
	}
	return VerbUnknown
}

// set tells SET from MariaDB's SET STATEMENT .. FOR statement, which is what that
// statement is.
func (r *reader) set(st *Statement) {
	st.Verb = VerbSet
	r.advance()
	if !r.accept("STATEMENT") || r.tok.kind == kindPunct || r.ended() {
		return
	}
	for depth := 0; !r.ended(); r.advance() {
		switch {
		case r.tok.is('('):
			depth++
		case r.tok.is(')'):
			depth--
		case depth == 0 && r.on("FOR"):
			st.Borrows = true
			if r.advance(); r.on("SET") {
				// SET STATEMENT .. FOR SET is allowed; nested ones are not worth reading.
				st.Verb = VerbSet
				if r.advance(); r.on("STATEMENT") {
					st.Verb = VerbUnknown
				}
				return
			}
			r.verb(st)
			return
		}
	}
}

func (r *reader) show() Verb {
	r.advance()
	switch {
	case r.on("WARNINGS"), r.on("ERRORS"):
		return VerbShowDiagnostics
	case r.accept("COUNT"):
		// SHOW COUNT(*) WARNINGS; no other SHOW COUNT exists.
		return VerbShowDiagnostics
	case r.accept("OPEN"), r.on("TABLES"):
		return VerbShowTables
	case r.accept("TABLE"):
		return VerbShowTables
	}
	for r.on("FULL") || r.on("EXTENDED") {
		r.advance()
	}
	if r.on("TABLES") {
		return VerbShowTables
	}
	return VerbShow
}

// end reads COMMIT and ROLLBACK.
func (r *reader) end(st *Statement, commit bool) {
	st.Verb = VerbRollback
	if commit {
		st.Verb = VerbCommit
	}
	no := false
	for r.advance(); !r.ended(); r.advance() {
		switch {
		case r.on("TO") && !commit:
			st.Verb = VerbRollbackTo
			r.passStatement()
			return
		case r.on("CHAIN"):
			st.Chain = !no
		case r.on("RELEASE"):
			st.Release = !no
		}
		no = r.on("NO")
	}
}

// create reads CREATE. What can stand between CREATE and the kind of thing that is
// created is skipped by its words: OR REPLACE, DEFINER = .., ALGORITHM = .. and the
// like.
func (r *reader) create(st *Statement) {
	st.Verb = VerbCreate
	r.advance()
	if r.accept("OR") {
		r.accept("REPLACE")
	}
	temporary := r.accept("TEMPORARY")
	switch {
	case r.accept("TABLE"):
		st.Verb = VerbCreateTable
		if temporary {
			st.Verb = VerbCreateTemporary
		}
		st.IfNotExists = r.on("IF")
	case r.accept("DATABASE"), r.accept("SCHEMA"):
		st.Verb = VerbDatabase
		st.IfNotExists = r.on("IF")
	case !temporary:
		st.Program = r.readProgram()
	}
}

func (r *reader) drop(st *Statement) {
	st.Verb = VerbDrop
	r.advance()
	temporary := r.accept("TEMPORARY")
	switch {
	case r.on("TABLE"), r.on("TABLES"):
		st.Verb = VerbDropTable
		st.Temporary = temporary
	case r.on("DATABASE"), r.on("SCHEMA"):
		st.Verb = VerbDatabase
	case r.on("PREPARE"):
		st.Verb = VerbDeallocate
	}
}

func (r *reader) alter() Verb {
	r.advance()
	for r.on("ONLINE") || r.on("OFFLINE") || r.on("IGNORE") {
		r.advance()
	}
	switch {
	case r.on("TABLE"):
		return VerbAlterTable
	case r.on("DATABASE"), r.on("SCHEMA"):
		return VerbDatabase
	}
	return VerbAlter
}

// explain reads what follows EXPLAIN, DESCRIBE, DESC and EXPLAIN ANALYZE: a table, or
// options and a statement. With ANALYZE the statement is executed.
func (r *reader) explain(executed bool) Verb {
	for ; !r.ended(); r.advance() {
		v := VerbExplain
		switch {
		case r.on("ANALYZE"):
			executed = true
			continue
		case r.on("SELECT"), r.on("TABLE"), r.on("VALUES"), r.tok.is('('):
			v = VerbSelect
		case r.on("WITH"):
			v = r.with()
		case r.on("INSERT"):
			v = VerbInsert
		case r.on("REPLACE"):
			v = VerbReplace
		case r.on("UPDATE"):
			v = VerbUpdate
		case r.on("DELETE"):
			v = VerbDelete
		case r.on("FOR"): // FOR CONNECTION n, FOR SCHEMA name
			if !executed {
				return VerbExplain
			}
			continue
		default:
			continue
		}
		if !executed {
			return VerbExplain
		}
		return v
	}
	if executed {
		return VerbUnknown
	}
	return VerbDescribe
}

// analyze tells ANALYZE TABLE from MariaDB's ANALYZE statement.
func (r *reader) analyze() Verb {
	for r.on("LOCAL") || r.on("NO_WRITE_TO_BINLOG") {
		r.advance()
	}
	if r.on("TABLE") || r.on("TABLES") {
		return VerbAdmin
	}
	return r.explain(true)
}

// prepare reads PREPARE name FROM 'text'. Any other source than one literal without
// escapes makes the statement doubtful: the names in it may be put together from
// pieces.
func (r *reader) prepare(st *Statement) {
	st.Verb = VerbPrepare
	st.Doubtful = true
	r.advance()
	if r.tok.kind != kindWord && r.tok.kind != kindQuoted {
		return
	}
	r.advance()
	if !r.accept("FROM") || r.tok.kind != kindString && r.tok.kind != kindDouble {
		return
	}
	literal := r.bytes(r.tok)
	if r.advance(); r.ended() && bytes.IndexByte(literal, '\\') < 0 {
		st.Doubtful = false
	}
}

// Statements cuts a text that Classify found to be Multi, and neither Doubtful nor Executable, into its statements. It
// returns nil where a server might cut otherwise: at an empty statement in the middle. What is returned is part of text;
// the last piece may be a mere comment, which servers answer with an error.
func Statements(text []byte, mode Mode) [][]byte {
	s := newScanner(text, mode)
	var list [][]byte
	start, tokens, comments := 0, 0, 0
	for {
		t := s.next()
		if t.kind != kindEnd && !t.is(';') {
			tokens++
			continue
		}
		last := t.kind == kindEnd || len(bytes.Trim(text[t.start:], "; \t\n\v\f\r")) == 0
		switch {
		case tokens > 0 || last && s.comments > comments:
			list = append(list, bytes.TrimSpace(text[start:t.start]))
		case !last:
			return nil
		}
		if last {
			return list
		}
		start, tokens, comments = t.end, 0, s.comments
	}
}
