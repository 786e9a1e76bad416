package rewrite

import (
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	tests := []struct {
		text string
		want Statement // Verbs is filled in from Verb where it is 0
	}{
		{"", Statement{Verb: VerbEmpty}},
		{" \t\r\n", Statement{Verb: VerbEmpty}},
		{"-- nothing", Statement{Verb: VerbEmpty}},
		{"/* nothing */ # at all", Statement{Verb: VerbEmpty}},
		{";", Statement{Verb: VerbEmpty}},

		{"SELECT 1", Statement{Verb: VerbSelect}},
		{"select\t1;", Statement{Verb: VerbSelect}},
		{"SELECT 1 ; ;\n", Statement{Verb: VerbSelect}},
		{"/* c */ -- d\nSELECT 1", Statement{Verb: VerbSelect}},
		{"((SELECT 1) UNION (SELECT 2))", Statement{Verb: VerbSelect}},
		{"(WITH a AS (SELECT 1) SELECT * FROM a)", Statement{Verb: VerbSelect}},
		{"TABLE t", Statement{Verb: VerbSelect}},
		{"VALUES ROW(1)", Statement{Verb: VerbSelect}},
		{"WITH a AS (SELECT 1), b (x, y) AS (SELECT 2, 3) SELECT * FROM a", Statement{Verb: VerbSelect}},
		{"WITH RECURSIVE a AS (SELECT 1) (SELECT * FROM a)", Statement{Verb: VerbSelect}},
		{"WITH a AS (SELECT 1 FROM x WHERE y IN (SELECT 2)) UPDATE t, a SET t.x = 1", Statement{Verb: VerbUpdate}},
		{"WITH a AS (SELECT 1) DELETE FROM t", Statement{Verb: VerbDelete}},
		{"WITH `update` AS (SELECT 1) SELECT 1", Statement{Verb: VerbSelect}},
		{"WITH a AS (SELECT 1)", Statement{Verb: VerbUnknown}},
		{"INSERT INTO t VALUES (1)", Statement{Verb: VerbInsert}},
		{"insert into t values ('a;b')", Statement{Verb: VerbInsert}},
		{"REPLACE INTO t VALUES (1)", Statement{Verb: VerbReplace}},
		{"UPDATE t SET a = 1", Statement{Verb: VerbUpdate}},
		{"DELETE FROM t", Statement{Verb: VerbDelete}},
		{"TRUNCATE t", Statement{Verb: VerbTruncate}},
		{"LOAD DATA LOCAL INFILE 'x' INTO TABLE t", Statement{Verb: VerbLoad}},
		{"LOAD INDEX INTO CACHE t", Statement{Verb: VerbAdmin}},

		{"SHOW CREATE TABLE t", Statement{Verb: VerbShow}},
		{"SHOW FULL COLUMNS FROM t", Statement{Verb: VerbShow}},
		{"SHOW WARNINGS LIMIT 1", Statement{Verb: VerbShowDiagnostics}},
		{"SHOW ERRORS", Statement{Verb: VerbShowDiagnostics}},
		{"SHOW COUNT(*) WARNINGS", Statement{Verb: VerbShowDiagnostics}},
		{"SHOW TABLES", Statement{Verb: VerbShowTables}},
		{"SHOW FULL TABLES LIKE 'x'", Statement{Verb: VerbShowTables}},
		{"SHOW EXTENDED FULL TABLES", Statement{Verb: VerbShowTables}},
		{"SHOW TABLE STATUS", Statement{Verb: VerbShowTables}},
		{"SHOW OPEN TABLES", Statement{Verb: VerbShowTables}},
		{"DESCRIBE t", Statement{Verb: VerbDescribe}},
		{"DESC t col", Statement{Verb: VerbDescribe}},
		{"EXPLAIN SELECT 1", Statement{Verb: VerbExplain}},
		{"EXPLAIN FORMAT = JSON INTO @x SELECT 1", Statement{Verb: VerbExplain}},
		{"EXPLAIN FOR CONNECTION 7", Statement{Verb: VerbExplain}},
		{"DESC EXTENDED UPDATE t SET a = 1", Statement{Verb: VerbExplain}},
		{"EXPLAIN ANALYZE FORMAT = TREE SELECT 1", Statement{Verb: VerbSelect}},
		{"EXPLAIN ANALYZE WITH a AS (SELECT 1) DELETE FROM t", Statement{Verb: VerbDelete}},
		{"ANALYZE FORMAT=JSON UPDATE t SET a = 1", Statement{Verb: VerbUpdate}},
		{"EXPLAIN ANALYZE INSERT INTO t VALUES (1)", Statement{Verb: VerbInsert}},
		{"EXPLAIN ANALYZE REPLACE INTO t VALUES (1)", Statement{Verb: VerbReplace}},
		{"EXPLAIN INSERT INTO t VALUES (1)", Statement{Verb: VerbExplain}},
		{"EXPLAIN WITH a AS (SELECT 1) SELECT 1", Statement{Verb: VerbExplain}},
		{"EXPLAIN ANALYZE FOR CONNECTION 7", Statement{Verb: VerbUnknown}},
		{"ANALYZE DELETE FROM t", Statement{Verb: VerbDelete}},
		{"ANALYZE", Statement{Verb: VerbUnknown}},
		{"WITH a AS (SELECT 1) INSERT INTO t SELECT 1", Statement{Verb: VerbInsert}},
		{"WITH a AS (SELECT 1) REPLACE INTO t SELECT 1", Statement{Verb: VerbReplace}},
		{"ANALYZE TABLE t", Statement{Verb: VerbAdmin}},
		{"ANALYZE NO_WRITE_TO_BINLOG TABLE t", Statement{Verb: VerbAdmin}},
		{"DO SLEEP(1)", Statement{Verb: VerbDo}},

		{"SET NAMES utf8", Statement{Verb: VerbSet}},
		{"SET STATEMENT max_statement_time = 1 FOR INSERT INTO t VALUES (1)", Statement{Verb: VerbInsert, Borrows: true}},
		{"SET STATEMENT a = (SELECT x FROM y FOR UPDATE) FOR CREATE TEMPORARY TABLE t (a INT)", Statement{Verb: VerbCreateTemporary, Borrows: true}},
		{"SET STATEMENT a = 1 FOR SET STATEMENT b = 1 FOR DROP TABLE t", Statement{Verb: VerbUnknown, Borrows: true}},
		{"SET STATEMENT = 1", Statement{Verb: VerbSet}},
		{"USE db", Statement{Verb: VerbUse}},

		{"BEGIN", Statement{Verb: VerbBegin}},
		{"BEGIN WORK;", Statement{Verb: VerbBegin}},
		{"BEGIN NOT ATOMIC SELECT 1; END", Statement{Verb: VerbCompound, Multi: true, Verbs: 1<<VerbCompound | 1<<VerbUnknown}},
		{"START TRANSACTION", Statement{Verb: VerbBegin}},
		{"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", Statement{Verb: VerbBegin, ReadOnly: true}},
		{"START TRANSACTION READ WRITE", Statement{Verb: VerbBegin}},
		{"START REPLICA", Statement{Verb: VerbAdmin}},
		{"COMMIT", Statement{Verb: VerbCommit}},
		{"COMMIT WORK AND CHAIN", Statement{Verb: VerbCommit, Chain: true}},
		{"COMMIT AND NO CHAIN NO RELEASE", Statement{Verb: VerbCommit}},
		{"ROLLBACK RELEASE", Statement{Verb: VerbRollback, Release: true}},
		{"ROLLBACK WORK TO SAVEPOINT a", Statement{Verb: VerbRollbackTo}},
		{"ROLLBACK TO chain", Statement{Verb: VerbRollbackTo}},
		{"SAVEPOINT a", Statement{Verb: VerbSavepoint}},
		{"RELEASE SAVEPOINT a", Statement{Verb: VerbRelease}},
		{"LOCK TABLES t READ", Statement{Verb: VerbLockTables}},
		{"LOCK TABLE t READ", Statement{Verb: VerbLockTables}},
		{"LOCK INSTANCE FOR BACKUP", Statement{Verb: VerbAdmin}},
		{"UNLOCK TABLES", Statement{Verb: VerbUnlockTables}},
		{"UNLOCK INSTANCE", Statement{Verb: VerbAdmin}},
		{"LOCK t", Statement{Verb: VerbUnknown}},
		{"XA START 'x'", Statement{Verb: VerbXABegin}},
		{"XA BEGIN 'x'", Statement{Verb: VerbXABegin}},
		{"XA END 'x'", Statement{Verb: VerbXA}},

		{"CREATE TEMPORARY TABLE t (a INT)", Statement{Verb: VerbCreateTemporary}},
		{"create /* c */ temporary\ntable if not exists t (a int)", Statement{Verb: VerbCreateTemporary, IfNotExists: true}},
		{"CREATE OR REPLACE TEMPORARY TABLE t (a INT)", Statement{Verb: VerbCreateTemporary}},
		{"CREATE TEMPORARY SEQUENCE s", Statement{Verb: VerbCreate}},
		{"CREATE TABLE t (a INT)", Statement{Verb: VerbCreateTable}},
		{"CREATE TABLE IF NOT EXISTS t (a INT)", Statement{Verb: VerbCreateTable, IfNotExists: true}},
		{"CREATE DATABASE d", Statement{Verb: VerbDatabase}},
		{"CREATE SCHEMA IF NOT EXISTS d", Statement{Verb: VerbDatabase, IfNotExists: true}},
		{"CREATE DEFINER = a@b VIEW v AS SELECT 1", Statement{Verb: VerbCreate}},
		{"CREATE UNIQUE INDEX i ON t (a)", Statement{Verb: VerbCreate}},
		{"DROP TABLE t", Statement{Verb: VerbDropTable}},
		{"DROP TABLES t", Statement{Verb: VerbDropTable}},
		{"DROP TEMPORARY TABLE IF EXISTS t", Statement{Verb: VerbDropTable, Temporary: true}},
		{"DROP VIEW v", Statement{Verb: VerbDrop}},
		{"DROP TEMPORARY SEQUENCE s", Statement{Verb: VerbDrop}},
		{"DROP SCHEMA d", Statement{Verb: VerbDatabase}},
		{"DROP PREPARE s", Statement{Verb: VerbDeallocate}},
		{"ALTER TABLE t ADD a INT", Statement{Verb: VerbAlterTable}},
		{"ALTER ONLINE IGNORE TABLE t ADD a INT", Statement{Verb: VerbAlterTable}},
		{"ALTER DATABASE d CHARSET utf8", Statement{Verb: VerbDatabase}},
		{"ALTER USER u", Statement{Verb: VerbAlter}},
		{"RENAME TABLE a TO b", Statement{Verb: VerbRename}},
		{"RENAME USER a TO b", Statement{Verb: VerbAdmin}},

		{"CALL p()", Statement{Verb: VerbCall}},
		{"EXECUTE s USING @a", Statement{Verb: VerbExecute}},
		{"EXECUTE IMMEDIATE 'SELECT 1'", Statement{Verb: VerbExecute}},
		{"PREPARE s FROM 'SELECT * FROM t'", Statement{Verb: VerbPrepare}},
		{"PREPARE 's' FROM 'SELECT 1'", Statement{Verb: VerbPrepare, Doubtful: true}},
		{"PREPARE s FROM @a", Statement{Verb: VerbPrepare, Doubtful: true}},
		{`PREPARE s FROM 'SELECT * FROM te\mp'`, Statement{Verb: VerbPrepare, Doubtful: true}},
		{"PREPARE s FROM 'SELECT * FROM te' 'mp'", Statement{Verb: VerbPrepare, Doubtful: true}},
		{"DEALLOCATE PREPARE s", Statement{Verb: VerbDeallocate}},
		{"l: LOOP LEAVE l; END LOOP", Statement{Verb: VerbCompound, Multi: true, Verbs: 1<<VerbCompound | 1<<VerbUnknown}},
		{"IF 1 THEN SELECT 1", Statement{Verb: VerbCompound}},
		{"HANDLER t OPEN", Statement{Verb: VerbHandler}},
		{"GET DIAGNOSTICS @a = NUMBER", Statement{Verb: VerbGetDiagnostics}},
		{"FLUSH TABLES", Statement{Verb: VerbFlush}},
		{"KILL 7", Statement{Verb: VerbKill}},
		{"GRANT SELECT ON t TO u", Statement{Verb: VerbAdmin}},
		{"BINLOG 'x'", Statement{Verb: VerbUnknown}},
		{"FROBNICATE t", Statement{Verb: VerbUnknown}},
		{"`SELECT` 1", Statement{Verb: VerbUnknown}},
		{"SELECTED", Statement{Verb: VerbUnknown}},
		{"SELECT\xa0 1", Statement{Verb: VerbUnknown}},
		{"(", Statement{Verb: VerbUnknown}},

		{"SELECT 1; SELECT 2", Statement{Verb: VerbSelect, Multi: true}},
		{"SELECT 1; -- x", Statement{Verb: VerbSelect, Multi: true, Verbs: 1<<VerbSelect | 1<<VerbEmpty}},
		{"INSERT INTO t VALUES (1);DROP TEMPORARY TABLE t", Statement{Verb: VerbInsert, Multi: true, Verbs: 1<<VerbInsert | 1<<VerbDropTable}},
		{"SELECT ';' ; START TRANSACTION READ ONLY", Statement{Verb: VerbSelect, Multi: true, ReadOnly: true, Verbs: 1<<VerbSelect | 1<<VerbBegin}},
		{"SELECT `;`, ';', \";\" /* ; */ -- ;\n # ;\n", Statement{Verb: VerbSelect}},
		{"SELECT 'it''s;', 'it\\'s;'", Statement{Verb: VerbSelect}},
		{"; SELECT 1", Statement{Verb: VerbEmpty, Multi: true, Verbs: 1<<VerbEmpty | 1<<VerbSelect}},
		{`SET sql_mode = 'NO_BACKSLASH_ESCAPES'; SELECT '\'; DROP TABLE t`, Statement{Verb: VerbSet, Multi: true, Doubtful: true, Verbs: 1<<VerbSet | 1<<VerbSelect}},
		{"SELECT 1 --x;\n", Statement{Verb: VerbSelect}},
		{"SELECT 1 --\x01; DROP TABLE t", Statement{Verb: VerbSelect}},
		{"SELECT 5--1; DROP TABLE t", Statement{Verb: VerbSelect, Multi: true, Verbs: 1<<VerbSelect | 1<<VerbDropTable}},

		{"/*!40101 SET NAMES utf8 */", Statement{Verb: VerbSet, Executable: true, Doubtful: true, Verbs: 1<<VerbSet | 1<<VerbEmpty}},
		{"SELECT /*!40001 SQL_NO_CACHE */ 1", Statement{Verb: VerbSelect, Executable: true}},
		{"SELECT /*M! 1 + */ 1", Statement{Verb: VerbSelect, Executable: true}},
		{"/*!99999 SELECT */ DROP TABLE t", Statement{Verb: VerbSelect, Executable: true, Doubtful: true, Verbs: 1<<VerbSelect | 1<<VerbDropTable}},
		{"SELECT 1 /*!50000 ; DROP TABLE t */", Statement{Verb: VerbSelect, Executable: true, Doubtful: true, Multi: true, Verbs: 1<<VerbSelect | 1<<VerbDropTable}},
		{"SELECT /*!99999 ' */ 1 ; DROP TABLE t -- '", Statement{Verb: VerbSelect, Executable: true, Doubtful: true, Multi: true, Verbs: 1<<VerbSelect | 1<<VerbDropTable}},
		{"SELECT '/*! ; */'", Statement{Verb: VerbSelect}},
		{"SELECT /*! /*! 1 */ + */ 1", Statement{Verb: VerbSelect, Executable: true, Doubtful: true}},
		{"SELECT /*! 1", Statement{Verb: VerbSelect, Doubtful: true}},
		{"SELECT 1e+;1e5;1", Statement{Verb: VerbSelect, Multi: true, Verbs: 1<<VerbSelect | 1<<VerbUnknown}},
		{"CREATE /*!40000 TEMPORARY */ TABLE t (a INT)", Statement{Verb: VerbCreateTemporary, Executable: true, Doubtful: true, Verbs: 1<<VerbCreateTemporary | 1<<VerbCreateTable}},

		{"SELECT 'a; b", Statement{Verb: VerbSelect, Doubtful: true}},
		{"SELECT 1 /* ; b", Statement{Verb: VerbSelect, Doubtful: true}},
		{"SELECT \x00 ; DROP TABLE t", Statement{Verb: VerbSelect, Doubtful: true, Multi: true, Verbs: 1<<VerbSelect | 1<<VerbDropTable}},
		{`SELECT "it\'s; so"`, Statement{Verb: VerbSelect}},
		{`SELECT "say \"hi\"; so"`, Statement{Verb: VerbSelect}},
		{`SELECT "\"; DROP TABLE t -- "`, Statement{Verb: VerbSelect, Doubtful: true, Multi: true, Verbs: 1<<VerbSelect | 1<<VerbDropTable}},
		{"SELECT $$;$$; DROP TABLE t", Statement{Verb: VerbSelect, Doubtful: true, Multi: true, Verbs: 1<<VerbSelect | 1<<VerbDropTable | 1<<VerbUnknown}},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			want := tt.want
			if want.Verbs == 0 {
				want.Verbs = 1 << want.Verb
			}
			if got := Classify([]byte(tt.text), 0); got != want {
				t.Errorf("got  %+v (%b)\nwant %+v (%b)", got, got.Verbs, want, want.Verbs)
			}
		})
	}
}

func TestClassifyModes(t *testing.T) {
	const drop = 1<<VerbSelect | 1<<VerbDropTable
	tests := []struct {
		text string
		mode Mode
		want Statement
	}{
		{`SELECT '\'; DROP TABLE t -- '`, 0, Statement{Verb: VerbSelect, Verbs: 1 << VerbSelect}},
		{`SELECT '\'; DROP TABLE t -- '`, NoBackslashEscapes, Statement{Verb: VerbSelect, Verbs: drop, Multi: true}},
		{`SELECT "\"; DROP TABLE t -- "`, MariaDB, Statement{Verb: VerbSelect, Verbs: 1 << VerbSelect}},
		{`SELECT "\"; DROP TABLE t -- "`, MariaDB | ANSIQuotes, Statement{Verb: VerbSelect, Verbs: drop, Multi: true}},
		{`SELECT "\"; DROP TABLE t -- "`, NoBackslashEscapes, Statement{Verb: VerbSelect, Verbs: drop, Multi: true}},
		{"SELECT $$; DROP TABLE t", MariaDB, Statement{Verb: VerbSelect, Verbs: drop, Multi: true}},
	}
	for _, tt := range tests {
		if got := Classify([]byte(tt.text), tt.mode); got != tt.want {
			t.Errorf("%s in mode %d:\ngot  %+v\nwant %+v", tt.text, tt.mode, got, tt.want)
		}
	}
}

func TestVerbString(t *testing.T) {
	seen := make(map[string]Verb)
	for v := VerbEmpty; v <= VerbUnknown; v++ {
		name := v.String()
		if name == "" || name != strings.ToLower(name) {
			t.Errorf("verb %d is called %q", v, name)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("verbs %d and %d are both called %q", other, v, name)
		}
		seen[name] = v
	}
	if got := (VerbUnknown + 1).String(); got != "invalid" {
		t.Errorf("a verb too far is called %q", got)
	}
	if VerbUnknown >= 64 {
		t.Error("the verbs do not fit into a set of 64 bits")
	}
}

// TestClassifyDeep makes sure that nothing recurses with the text.
func TestClassifyDeep(t *testing.T) {
	for _, piece := range []string{"(", "SET STATEMENT a=1 FOR ", "EXPLAIN ", "WITH a AS (", "/*!", ";", "BEGIN "} {
		text := []byte(strings.Repeat(piece, 100_000))
		Classify(text, 0)
		CallsFunction(text, 0)
	}
}

var dml = []byte("INSERT INTO temp_store (zoid, prev_tid, md5, state) VALUES (1, 2, NULL, 'abc'), (2, 3, NULL, 'it''s (really) so, isn\\'t it?')")

func TestClassifyAllocs(t *testing.T) {
	texts := [][]byte{
		dml,
		[]byte("SELECT a FROM b WHERE c = \"x\\\"; y\"; /*!50000 SELECT */ 1"),
		[]byte("CREATE TEMPORARY TABLE t (a INT)"),
	}
	for _, text := range texts {
		if n := testing.AllocsPerRun(100, func() { Classify(text, 0) }); n != 0 {
			t.Errorf("%v allocations for %s", n, text)
		}
	}
}

func BenchmarkClassify(b *testing.B) {
	for _, bb := range []struct {
		name string
		text []byte
	}{
		{"dml", dml},
		{"semicolon", append([]byte("SELECT ';' FROM t WHERE a = 'b;c' -- "), dml...)},
		{"create", []byte("CREATE TEMPORARY TABLE temp_store (zoid BIGINT UNSIGNED NOT NULL PRIMARY KEY) ENGINE MyISAM")},
		{"long", append([]byte("INSERT INTO t VALUES ('"), []byte(strings.Repeat("x", 16<<10)+"')")...)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bb.text)))
			for b.Loop() {
				Classify(bb.text, 0)
			}
		})
	}
}

func FuzzClassify(f *testing.F) {
	for _, s := range []string{
		"SELECT 1", "SELECT 1; DROP TABLE t", "/*!40101 SET NAMES utf8 */;", "SELECT \"a\\\"b;\"; x", "WITH a AS (SELECT 1) DELETE FROM t",
		"SET STATEMENT a=1 FOR CREATE TEMPORARY TABLE t (a INT)", "CREATE OR REPLACE TEMPORARY TABLE IF NOT EXISTS `a`.`b` (c INT)",
		"ROLLBACK TO x", "EXPLAIN ANALYZE SELECT 1", "PREPARE s FROM 'x'", "SELECT '\\", "-- ", "0x1g 1e5x 1.e5 .5", "$a$;$a$",
	} {
		for mode := range Mode(8) {
			f.Add([]byte(s), uint8(mode))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, m uint8) {
		mode := Mode(m & 7)
		before := string(text)
		st := Classify(text, mode)
		if string(text) != before {
			t.Fatal("the text was changed")
		}
		if !st.Has(st.Verb) {
			t.Errorf("%+v: the verb is not in the set", st)
		}
		if !st.Multi && !st.Doubtful && st.Verbs != 1<<st.Verb {
			t.Errorf("%+v: more than one verb", st)
		}
		// What is behind a text whose end is certain is another statement.
		if full, s := readAll(text, mode, false); !full.Doubtful && !s.ambiguous && !s.executable {
			more := Classify([]byte(before+"\n;DROP TABLE t"), mode)
			if !more.Has(VerbDropTable) || !more.Multi || more.Verb != st.Verb {
				t.Errorf("with a DROP behind: %+v", more)
			}
		}
	})
}
