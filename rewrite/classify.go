package rewrite

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
func (v Verb) String() string { return "unknown" }

// Statement is what a text does. It is a plain value without references.
type Statement struct {
	Verb        Verb   // of the first statement
	Verbs       uint64 // bit set (1 << Verb) of all statements of the text
	Multi       bool   // something that is a statement follows a ';'
	Executable  bool   // holds an executable comment
	Doubtful    bool   // cannot be read with certainty
	ReadOnly    bool   // START TRANSACTION .. READ ONLY
	Chain       bool   // COMMIT or ROLLBACK AND CHAIN
	Release     bool   // COMMIT or ROLLBACK RELEASE
	Temporary   bool   // DROP TEMPORARY TABLE
	IfNotExists bool   // CREATE .. IF NOT EXISTS
}

// Has tells whether any statement of the text has the verb v.
func (s Statement) Has(v Verb) bool { return s.Verbs&(1<<v) != 0 }

// Classify tells what text does. It does not allocate.
func Classify(text []byte, mode Mode) Statement {
	return Statement{Verb: VerbUnknown, Verbs: 1 << VerbUnknown, Doubtful: true}
}
