package judge

import (
	"fmt"
	"strings"
	"testing"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/trial/compare"
)

// reply is the reply of a text step. Equal ones have equal bytes.
func reply(results ...rawclient.Result) rawclient.Reply {
	p := rawclient.Reply{Results: results}
	p.Raw = fmt.Appendf(nil, "%v", p.Fields(false))
	return p
}

func ok(status, warnings uint16) rawclient.Reply {
	return reply(rawclient.Result{End: &rawclient.OK{Status: status, Warnings: warnings}})
}

func affects(rows uint64) rawclient.Reply {
	return reply(rawclient.Result{End: &rawclient.OK{Status: 2, AffectedRows: rows}})
}

func refuses(code uint16, message string) rawclient.Reply {
	return reply(rawclient.Result{Err: &rawclient.ERR{Code: code, State: "HY000", Message: message}})
}

// selects is a result set of one text column.
func selects(values ...string) rawclient.Reply {
	r := rawclient.Result{ColumnCount: 1, Columns: []rawclient.Column{{Name: "x", Flags: 1}}, End: &rawclient.OK{Header: 0xfe, Status: 2}}
	for _, v := range values {
		r.Rows = append(r.Rows, append([]byte{byte(len(v))}, v...))
	}
	return reply(r)
}

// two is the reply to a packet of two statements.
func two(first, second rawclient.Reply) rawclient.Reply {
	return reply(append(first.Results, second.Results...)...)
}

func flags(f uint16) rawclient.Reply {
	r := rawclient.Result{ColumnCount: 1, Columns: []rawclient.Column{{Name: "x", Flags: f}}, End: &rawclient.OK{Header: 0xfe, Status: 2}}
	return reply(r)
}

// executed is a result set with or without its column definitions.
func executed(definitions bool) rawclient.Reply {
	r := rawclient.Result{ColumnCount: 1, Metadata: new(byte), Rows: [][]byte{{0, 0, 5}}, End: &rawclient.OK{Header: 0xfe, Status: 2}}
	packets := 3
	if definitions {
		*r.Metadata, r.Columns = 1, []rawclient.Column{{Name: "a"}}
		packets++
	}
	p := reply(r)
	p.Packets = packets
	return p
}

func info(text string) rawclient.Reply {
	r := rawclient.Result{End: &rawclient.OK{Status: 2}}
	if text != "" {
		r.End.Info = []byte(text)
	}
	return reply(r)
}

func told(state string) rawclient.Reply {
	r := rawclient.Result{End: &rawclient.OK{Status: 3}}
	if state != "" {
		r.End.Status, r.End.Info, r.End.State = 0x4003, []byte{}, []byte(state)
	}
	return reply(r)
}

// exchange is a step and what either side answered.
type exchange struct {
	text            string
	direct, proxied rawclient.Reply
}

func same(text string, r rawclient.Reply) exchange { return exchange{text, r, r} }

func judged(server, strategy string, list []exchange) Verdict {
	var direct, proxied Outcome
	for _, x := range list {
		step := &compare.Step{Conn: "a", Verb: query, Text: x.text}
		if strings.HasPrefix(x.text, "@") {
			step.Verb, step.Text, _ = strings.Cut(x.text[1:], " ")
		}
		direct.Events = append(direct.Events, Exchange{Step: step, Reply: x.direct, Silent: step.Verb == send})
		proxied.Events = append(proxied.Events, Exchange{Step: step, Reply: x.proxied, Silent: step.Verb == send})
	}
	return Compare(server, strategy, &direct, &proxied)
}

// TestCompare has for each known difference a case that it explains, and for each what is so much like it that it must not
// be explained.
func TestCompare(t *testing.T) {
	rollback := []exchange{same("INSERT INTO t1 VALUES (1)", affects(1)), {"ROLLBACK", ok(2, 1), ok(2, 0)}}
	for _, c := range []struct {
		server, strategy string
		name             string // of the known difference; "": unexplained
		list             []exchange
	}{
		{"mysql", "keep", "", []exchange{{"SELECT 1", selects("1"), selects("2")}}},
		{"mysql", "innodb", "", []exchange{{"SELECT 1", selects("1"), selects("2")}}},
		{"mysql", "keep", "", []exchange{{"SELECT 1", selects("1"), refuses(1146, "no")}}},
		{"mysql", "keep", "", []exchange{{"DROP TEMPORARY TABLE t1", ok(2, 0), ok(2, 1)}}},
		{"mysql", "keep", "", []exchange{{"@ping", ok(2, 0), ok(2, 1)}}},
		{"mysql", "keep", "query-was-slow", []exchange{{"DROP TEMPORARY TABLE t1", ok(0x802, 0), ok(2, 0)}}},
		{"mysql", "keep", "in-trans", []exchange{{"DROP TEMPORARY TABLE t1", ok(1, 0), ok(0, 0)}}},
		{"mysql", "keep", "", []exchange{{"DROP TEMPORARY TABLE t1", ok(3, 0), ok(2, 0)}}},
		{"mysql", "native", "", []exchange{{"DROP TEMPORARY TABLE t1", ok(1, 0), ok(0, 0)}}},
		{"mysql", "keep", "", []exchange{{"DROP TEMPORARY TABLE t1", ok(0x201, 0), ok(0, 0)}}},
		{"mysql", "keep", "in-trans", []exchange{{"DROP TEMPORARY TABLE t1", ok(0, 0), ok(0x2001, 0)}}},
		{"mysql", "keep", "", []exchange{{"DROP TEMPORARY TABLE t1", ok(1, 0), ok(0x2001, 0)}}},
		{"mysql", "keep", "set-transaction", []exchange{{"DROP TEMPORARY TABLE t1", ok(1, 0), ok(0, 0)}, {"SET TRANSACTION READ ONLY", refuses(1568, "no"), ok(0, 0)}}},
		{"mysql", "keep", "", []exchange{same("DROP TEMPORARY TABLE t1", ok(1, 0)), {"SET TRANSACTION READ ONLY", refuses(1568, "no"), ok(1, 0)}}},
		{"mysql", "innodb", "session-read-only", []exchange{{"SELECT * FROM t1", ok(0, 0), ok(1, 0)}, {"COMMIT AND CHAIN", ok(0x2001, 0), ok(1, 0)}}},
		{"mysql", "innodb", "", []exchange{{"SELECT * FROM t1", ok(0, 0), ok(0, 0)}, {"COMMIT AND CHAIN", ok(0x2001, 0), ok(1, 0)}}},
		{"mysql", "keep", "set-transaction", []exchange{{"INSERT INTO t1 VALUES (1)", ok(0, 0), ok(1, 0)}, {"CREATE TEMPORARY TABLE t1 (a INT)", refuses(1792, "no"), ok(1, 0)}}},
		{"mysql", "keep", "", []exchange{same("INSERT INTO t1 VALUES (1)", ok(1, 0)), {"CREATE TEMPORARY TABLE t1 (a INT)", refuses(1792, "no"), ok(1, 0)}}},
		{"mysql", "keep", "rollback-warnings", []exchange{{"ROLLBACK", ok(2, 1), ok(2, 0)}}},
		{"mysql", "keep", "", []exchange{{"COMMIT WORK", ok(2, 1), ok(3, 0)}}},
		{"mysql", "keep", "listed-warnings", []exchange{{"ROLLBACK", ok(2, 1), ok(2, 0)}, {"SHOW WARNINGS", selects("1752"), selects()}}},
		{"mysql", "keep", "", []exchange{{"ROLLBACK", ok(2, 1), ok(2, 0)}, same("SELECT * FROM t1", selects("1")), {"SHOW WARNINGS", selects("1752"), selects()}}},
		{"mariadb", "keep", "copied-warnings", []exchange{{"SET TRANSACTION READ ONLY; GET DIAGNOSTICS CONDITION 1 @e = MYSQL_ERRNO; SELECT @e", flags(0xa0), flags(0x80)}}},
		{"mysql", "keep", "", []exchange{{"SET TRANSACTION READ ONLY; GET DIAGNOSTICS CONDITION 1 @e = MYSQL_ERRNO; SELECT @e", flags(0xa0), flags(0x80)}}},
		{"mysql", "keep", "copied-warnings", []exchange{{"ROLLBACK", ok(2, 1), ok(2, 0)}, same("GET DIAGNOSTICS @n = NUMBER", ok(2, 0)), {"SELECT @n", selects("1"), selects("0")}}},
		{"mysql", "keep", "", []exchange{same("GET DIAGNOSTICS @n = NUMBER", ok(2, 0)), {"SELECT @n", selects("1"), selects("0")}}},
		{"mariadb", "keep", "kept-warnings", []exchange{same("SELECT * FROM nosuch", refuses(1146, "no")), same("SET NAMES gbk", ok(2, 0)), {"SHOW WARNINGS", selects("1146"), selects()}}},
		{"mariadb", "keep", "kept-warnings", []exchange{same("PREPARE s FROM 'SHOW WARNINGS'", ok(2, 0)), same("SELECT * FROM nosuch", refuses(1146, "no")), {"EXECUTE s", selects("1146"), selects()}}},
		{"mariadb", "keep", "", []exchange{same("SELECT * FROM nosuch", refuses(1146, "no")), {"SHOW WARNINGS", selects("1146"), selects()}}},
		{"mysql", "keep", "", []exchange{same("SELECT * FROM nosuch", refuses(1146, "no")), same("SET NAMES gbk", ok(2, 0)), {"SHOW WARNINGS", selects("1146"), selects()}}},
		{"mysql", "keep", "kept-warnings", []exchange{same("DROP TABLE nosuch", refuses(1051, "no")), {text: "@fieldlist t1"}, {"SHOW WARNINGS", selects("1051", "1287"), selects("1287")}}},
		{"mysql", "keep", "", []exchange{same("DROP TABLE nosuch", refuses(1051, "no")), {text: "@fieldlist t1"}, same("SELECT 1", selects("1")), {"SHOW WARNINGS", selects("1051", "1287"), selects("1287")}}},
		{"mariadb", "keep", "table-maintenance", []exchange{{"ANALYZE TABLE t1", selects(`Table is already up to date`), selects(`OK`)}}},
		{"mariadb", "keep", "", []exchange{{"ANALYZE TABLE t1", selects(`Table is already up to date`), selects(`Corrupt`)}}},
		{"mariadb", "keep", "", []exchange{{"SELECT a FROM t1", selects(`Table is already up to date`), selects(`OK`)}}},
		{"mysql", "keep", "", []exchange{{"ANALYZE TABLE t1", selects(`Table is already up to date`), selects(`OK`)}}},
		{"mysql", "keep", "copied-warnings", []exchange{{"INSERT INTO base VALUES (1); SET @w = @@warning_count; SELECT @w", two(ok(2, 1), selects("1")), two(ok(2, 0), selects("0"))}}},
		{"mysql", "keep", "", []exchange{{"INSERT INTO base VALUES (1); SET @w = @@warning_count; SELECT @w", two(ok(2, 1), selects("1")), two(ok(2, 1), selects("0"))}}},
		{"mysql", "keep", "listed-warnings", []exchange{same("INSERT INTO base VALUES (1)", refuses(1062, "no")), {"SHOW WARNINGS", selects("6414", "1062"), selects("1062")}}},
		{"mysql", "keep", "", []exchange{same("INSERT INTO base VALUES (1)", refuses(1062, "no")), {"SHOW WARNINGS", selects("1050", "1062"), selects("1062")}}},
		{"mysql", "keep", "", []exchange{same("SELECT * FROM base", refuses(1146, "no")), {"SHOW WARNINGS", selects("6414", "1146"), selects("1146")}}},
		{"mysql", "keep", "", []exchange{{"ALTER TABLE t1 ENGINE=X", refuses(1031, "'#sql-1_2a' no"), refuses(1031, "'#sql2-1_2b' no")}}},
		{"mariadb", "keep", "statistics", []exchange{same("CREATE TEMPORARY TABLE t1 (a INT)", ok(2, 0)), {"SELECT * FROM t1", ok(2, 0), ok(0x22, 0)}}},
		{"mariadb", "keep", "", []exchange{same("CREATE TEMPORARY TABLE t1 (a INT) ENGINE=MEMORY", ok(2, 0)), {"SELECT * FROM t1", ok(2, 0), ok(0x22, 0)}}},
		{"mariadb", "keep", "statistics", []exchange{same("CREATE TEMPORARY TABLE t1 (a INT)", ok(2, 0)), {"SELECT a FROM t1 ORDER BY a", flags(1), flags(0x4003)}}},
		{"mariadb", "keep", "statistics", []exchange{same("CREATE TEMPORARY TABLE t1 (a INT)", ok(2, 0)), {"SELECT * FROM t1", selects("1", "2"), selects("2", "1")}}},
		{"mariadb", "keep", "", []exchange{same("CREATE TEMPORARY TABLE t1 (a INT)", ok(2, 0)), {"SELECT * FROM t1 ORDER BY a", selects("1", "2"), selects("2", "1")}}},
		{"mysql", "keep", "", []exchange{same("CREATE TEMPORARY TABLE t1 (a INT)", ok(2, 0)), {"SELECT * FROM t1", selects("1", "2"), selects("2", "1")}}},
		{"mysql", "keep", "deprecated-engines-mix", []exchange{{"INSERT INTO base VALUES (1)", ok(2, 1), ok(2, 0)}}},
		{"mysql", "keep", "deprecated-engines-mix", []exchange{{"UPDATE base SET v = 1", info("Rows matched: 0  Changed: 0  Warnings: 1"), info("Rows matched: 0  Changed: 0  Warnings: 0")}}},
		{"mysql", "keep", "", []exchange{{"UPDATE base SET v = 1", info("Rows matched: 1  Changed: 0  Warnings: 1"), info("Rows matched: 0  Changed: 0  Warnings: 0")}}},
		{"mysql", "keep", "", []exchange{{"INSERT INTO base VALUES (1)", ok(2, 2), ok(2, 0)}}},
		{"mysql", "keep", "deprecated-engines-mix", []exchange{{text: "@send INSERT INTO base VALUES (1)"}, {text: "@send SELECT 1"}, {"@receive", ok(2, 1), ok(2, 0)}}},
		{"mysql", "keep", "", []exchange{{text: "@send INSERT INTO base VALUES (1)"}, {text: "@send SELECT 1"}, same("@receive", ok(2, 1)), {"@receive", ok(2, 1), ok(2, 0)}}},
		{"mariadb", "keep", "", []exchange{{"INSERT INTO base VALUES (1)", ok(2, 1), ok(2, 0)}}},
		{"mariadb", "keep", "column-definitions", []exchange{same("@prepare s SELECT a FROM t1", ok(2, 0)), {"@execute s", executed(true), executed(false)}}},
		{"mariadb", "keep", "", []exchange{same("@prepare s SELECT a FROM t1", ok(2, 0)), {"@execute s", executed(false), executed(true)}}},
		{"mariadb", "keep", "", []exchange{{"SELECT a FROM t1", executed(true), executed(false)}}},
		{"mysql", "keep", "", []exchange{same("@prepare s SELECT a FROM t1", ok(2, 0)), {"@execute s", executed(true), executed(false)}}},
		{"mysql", "keep", "transaction-state", []exchange{{"CREATE TEMPORARY TABLE t1 (a INT)", told("\x05\t\b________"), told("")}}},
		{"mysql", "keep", "transaction-state", []exchange{{"START TRANSACTION WITH CONSISTENT SNAPSHOT", told(""), told("\x05\t\bT_R_____")}}},
		{"mysql", "keep", "", []exchange{{"START TRANSACTION WITH CONSISTENT SNAPSHOT", told(""), told("\x05\t\bT_R_W___")}}},
		{"mysql", "keep", "", []exchange{{"CREATE TEMPORARY TABLE t1 (a INT)", told("\x02\x01\x011"), told("")}}},
		{"mariadb", "keep", "syntax-error-text", []exchange{{"SELECT FROM; DROP TABLE t1", refuses(1064, "syntax near 'FROM; DROP TABLE t1' at line 1"), refuses(1064, "syntax near 'FROM' at line 1")}}},
		{"mariadb", "keep", "", []exchange{{"SELECT FROM; DROP TABLE t1", refuses(1064, "syntax near 'FROM; DROP TABLE t1' at line 1"), refuses(1064, "syntax near 'x' at line 1")}}},
		{"mariadb", "keep", "", []exchange{{"SELECT FROM", refuses(1064, "syntax near 'FROM x' at line 1"), refuses(1064, "syntax near 'FROM' at line 1")}}},
		{"mariadb", "keep", "syntax-error-text", []exchange{{"SELECT FROM; DROP TABLE t1", refuses(1064, "syntax near 'FROM; DROP TABLE t1' at line 1"), refuses(1064, "syntax near 'FROM' at line 1")}, {"SHOW WARNINGS", selects("syntax near 'FROM; DROP TABLE t1' at line 1"), selects("syntax near 'FROM' at line 1")}}},
		{"mariadb", "keep", "", []exchange{{"SHOW TABLES", selects("syntax near 'FROM; DROP TABLE t1' at line 1"), selects("syntax near 'FROM' at line 1")}}},
		{"mysql", "innodb", "duplicate-index", []exchange{{"CREATE INDEX i ON t1 (b)", ok(2, 0), ok(2, 1)}}},
		{"mysql", "innodb", "", []exchange{{"CREATE INDEX i ON t1 (b)", ok(2, 0), ok(2, 2)}}},
		{"mysql", "innodb", "hash-note", []exchange{{"ALTER TABLE t1 ENGINE = InnoDB", ok(2, 1), ok(2, 0)}}},
		{"mysql", "innodb", "", []exchange{{"ALTER TABLE t1 ENGINE = InnoDB", ok(2, 2), ok(2, 0)}}},
		{"mysql", "keep", "", []exchange{{"ALTER TABLE t1 ENGINE = InnoDB", ok(2, 1), ok(2, 0)}}},
		{"mysql", "keep", "", []exchange{{"CREATE INDEX i ON t1 (b)", ok(2, 0), ok(2, 1)}}},
		{"mariadb", "keep", "row-count", []exchange{same("@prepare s SELECT * FROM t1", ok(2, 0)), {"SELECT ROW_COUNT()", selects("-1"), selects("0")}}},
		{"mariadb", "keep", "", []exchange{same("@prepare s SELECT * FROM t1", ok(2, 0)), same("SELECT 1", selects("1")), {"SELECT ROW_COUNT()", selects("-1"), selects("0")}}},
		{"mysql", "keep", "copied-warnings", []exchange{same("@prepare s SELECT * FROM t1", ok(2, 0)), same("GET DIAGNOSTICS @r = ROW_COUNT", ok(2, 0)), {"SELECT @r", selects("-1"), selects("0")}}},
		{"mariadb", "keep", "copied-warnings", []exchange{same("SET TRANSACTION READ ONLY; GET DIAGNOSTICS @n = NUMBER", ok(2, 0)), {"SELECT @n", selects("1"), selects("0")}}},
		{"mysql", "keep", "", []exchange{same("SET TRANSACTION READ ONLY; GET DIAGNOSTICS @n = NUMBER", ok(2, 0)), {"SELECT @n", selects("1"), selects("0")}}},
		{"mariadb", "keep", "row-count", []exchange{same("SHOW INDEX FROM t1", refuses(1146, "no")), {"SELECT ROW_COUNT()", selects("-1"), selects("0")}}},
		{"mariadb", "keep", "", []exchange{same("SHOW INDEX FROM t1", selects()), {"SELECT ROW_COUNT()", selects("-1"), selects("0")}}},
		{"mysql", "keep", "", []exchange{same("SHOW INDEX FROM t1", refuses(1146, "no")), {"SELECT ROW_COUNT()", selects("-1"), selects("0")}}},
		{"mysql", "innodb", "found-rows-changed", []exchange{same("UPDATE t1 SET b = 1 WHERE a = 2", ok(2, 0)), {"SELECT FOUND_ROWS()", selects("1"), selects("0")}}},
		{"mysql", "keep", "", []exchange{same("UPDATE t1 SET b = 1 WHERE a = 2", ok(2, 0)), {"SELECT FOUND_ROWS()", selects("1"), selects("0")}}},
		{"mysql", "innodb", "", []exchange{same("UPDATE t1 SET b = 1 WHERE a = 2", ok(2, 0)), same("SELECT 1", selects("1")), {"SELECT FOUND_ROWS()", selects("1"), selects("0")}}},
		{"mysql", "keep", "deprecated-engines-mix", []exchange{{"DELETE FROM t1", refuses(1175, "safe. Combining the storage engines A and B."), refuses(1175, "safe. ")}}},
		{"mysql", "keep", "", []exchange{{"DELETE FROM t1", refuses(1175, "safe. Another"), refuses(1175, "safe. ")}}},
		{"mariadb", "keep", "kept-warnings", []exchange{{"DROP TABLE IF EXISTS t1; START TRANSACTION; SET @w = @@warning_count; SELECT @w", two(ok(2, 1), selects("1")), two(ok(2, 1), selects("0"))}}},
		{"mariadb", "keep", "row-count", []exchange{same("PREPARE s FROM 'SELECT ROW_COUNT()'", ok(2, 0)), {"EXECUTE s", selects("-1"), selects("0")}}},
		{"mariadb", "keep", "", []exchange{same("PREPARE s FROM 'SELECT 1'", ok(2, 0)), {"EXECUTE s", selects("-1"), selects("0")}}},
		{"mariadb", "keep", "row-format", []exchange{same("LOAD DATA LOCAL INFILE 'x' INTO TABLE t1", ok(2, 0)), {"DELETE FROM t2", ok(2, 0), ok(0x22, 0)}}},
		{"mariadb", "keep", "", []exchange{{"DELETE FROM t2", ok(2, 0), ok(0x22, 0)}}},
		{"mariadb", "innodb", "update-info", []exchange{{"UPDATE t1 SET a = 1", info(""), info("Rows matched: 0  Changed: 0  Warnings: 0")}}},
		{"mariadb", "innodb", "", []exchange{{"UPDATE t1 SET a = 1", info(""), info("Rows matched: 1  Changed: 0  Warnings: 0")}}},
		{"mariadb", "innodb", "rollback-1196", rollback},
		{"mariadb", "innodb", "engine-name", []exchange{{"SHOW CREATE TABLE t1", selects("ENGINE=MEMORY x"), selects("ENGINE=InnoDB x")}}},
		{"mariadb", "innodb", "", []exchange{{"SHOW CREATE TABLE t1", selects("ENGINE=MEMORY x"), selects("ENGINE=InnoDB y")}}},
		{"mariadb", "keep", "", []exchange{{"SHOW CREATE TABLE t1", selects("ENGINE=MEMORY x"), selects("ENGINE=InnoDB x")}}},
		{"mariadb", "innodb", "no-index-used", []exchange{{"SELECT * FROM t1", ok(2, 0), ok(0x22, 0)}}},
		{"mariadb", "keep", "", []exchange{{"SELECT * FROM t1", ok(2, 0), ok(0x22, 0)}}},
		{"mariadb", "innodb", "row-order", []exchange{{"SELECT * FROM t1", selects("1", "2"), selects("2", "1")}}},
		{"mariadb", "innodb", "", []exchange{{"SELECT * FROM t1", selects("1", "2"), selects("2", "2")}}},
		{"mariadb", "innodb", "", []exchange{{"SELECT * FROM t1 ORDER BY a", selects("1", "2"), selects("2", "1")}}},
		{"mariadb", "innodb", "row-order", []exchange{{"SELECT * FROM t1 ORDER BY a; SELECT * FROM t1", two(selects("1", "2"), selects("1", "2")), two(selects("1", "2"), selects("2", "1"))}}},
		{"mariadb", "innodb", "", []exchange{{"SELECT * FROM t1 ORDER BY a; SELECT * FROM t1", two(selects("1", "2"), selects("1", "2")), two(selects("2", "1"), selects("1", "2"))}}},
		{"mariadb", "keep", "", []exchange{{"SELECT * FROM t1", selects("1", "2"), selects("2", "1")}}},
		{"mysql", "innodb", "column-flags", []exchange{{"SELECT a FROM t1 ORDER BY a", flags(1), flags(0x4003)}}},
		{"mysql", "innodb", "", []exchange{{"SELECT a FROM t1 ORDER BY a", flags(1), flags(0x20)}}},
		{"mysql", "innodb", "rollback-rows", []exchange{same("ROLLBACK", ok(2, 1)), {"ALTER TABLE t1 ADD COLUMN z INT", affects(1), affects(0)}}},
		{"mysql", "innodb", "", []exchange{{"ALTER TABLE t1 ADD COLUMN z INT", affects(1), affects(0)}}},
		{"mysql", "innodb", "read-only-count", []exchange{same("INSERT INTO t1 VALUES (1)", ok(0x2003, 0)), {"SELECT COUNT(*) FROM t1", selects("1"), selects("0")}}},
		{"mariadb", "innodb", "", []exchange{same("INSERT INTO t1 VALUES (1)", ok(0x2003, 0)), {"SELECT COUNT(*) FROM t1", selects("1"), selects("0")}}},
		{"mysql", "innodb", "", []exchange{same("INSERT INTO t1 VALUES (1)", ok(0x2003, 0)), {"SELECT SUM(a) FROM t1", selects("1"), selects("0")}}},
		{"mysql", "innodb", "", []exchange{same("INSERT INTO t1 VALUES (1)", ok(3, 0)), {"SELECT COUNT(*) FROM t1", selects("1"), selects("0")}}},
		{"mysql", "keep", "listed-warnings", []exchange{{"SHOW WARNINGS", selects("Combining the storage engines InnoDB and MEMORY is deprecated, t1 and t3"), selects("Combining the storage engines InnoDB and MEMORY is deprecated, t1 and t2")}}},
		{"mysql", "keep", "", []exchange{{"SHOW WARNINGS", selects("Combining the storage engines InnoDB and MEMORY is deprecated, t1 and t3"), selects("Combining nothing")}}},
		{"mysql", "keep", "pending-state", []exchange{same("EXECUTE s", refuses(1051, "no")), same("EXPLAIN nosuch", refuses(1064, "no")), {"DROP TABLE t1", told("\x01\b\alab2_01"), told("")}}},
		{"mysql", "keep", "", []exchange{same("EXECUTE s", ok(2, 0)), {"DROP TABLE t1", told("\x01\b\alab2_01"), told("")}}},
		{"mysql", "innodb", "rollback-rows", []exchange{same("ROLLBACK", ok(2, 1)), {"SELECT * FROM t1 ORDER BY a", selects("1"), selects()}}},
		{"mysql", "preserve", "", []exchange{same("ROLLBACK", ok(2, 1)), {"SELECT * FROM t1 ORDER BY a", selects("1"), selects()}}},
		{"mysql", "preserve", "rollback-preserved", []exchange{{"ROLLBACK", ok(2, 1), ok(2, 0)}}},
		{"mysql", "preserve", "row-order", []exchange{{"SELECT * FROM t1", selects("1", "2"), selects("2", "1")}}},
		{"mysql", "innodb", "", []exchange{same("ROLLBACK", ok(2, 0)), {"SELECT * FROM t1 ORDER BY a", selects("1"), selects()}}},
		{"mysql", "innodb", "statement-atomicity", []exchange{{"INSERT INTO t1 VALUES (1), (2)", ok(2, 1), refuses(1264, "no")}}},
		{"mysql", "innodb", "", []exchange{{"INSERT INTO t1 VALUES (1)", ok(2, 1), refuses(1264, "no")}}},
		{"mysql", "innodb", "table-full", []exchange{{"INSERT INTO t1 VALUES (1)", refuses(1114, "no"), affects(1)}}},
		{"mysql", "innodb", "", []exchange{{"INSERT INTO t1 VALUES (1)", affects(1), refuses(1114, "no")}}},
		{"mysql", "innodb", "safe-updates", []exchange{{"DELETE FROM t1 WHERE a = 1", refuses(1175, "no"), affects(0)}}},
		{"mysql", "keep", "", []exchange{{"DELETE FROM t1 WHERE a = 1", refuses(1175, "no"), affects(0)}}},
		{"mysql", "innodb", "equal-replace", []exchange{{"REPLACE INTO t1 VALUES (1)", affects(2), affects(1)}}},
		{"mysql", "innodb", "", []exchange{{"INSERT INTO t1 VALUES (1)", affects(2), affects(1)}}},
		{"mysql", "innodb", "auto-increment-gaps", []exchange{
			same("CREATE TEMPORARY TABLE t1 (a INT AUTO_INCREMENT KEY)", ok(2, 0)), same("INSERT IGNORE INTO t1 VALUES (1)", ok(2, 0)),
			{"SELECT * FROM t1 ORDER BY a", selects("4"), selects("5")}}},
		{"mysql", "innodb", "", []exchange{
			same("CREATE TEMPORARY TABLE t1 (a INT KEY)", ok(2, 0)), same("INSERT IGNORE INTO t1 VALUES (1)", ok(2, 0)),
			{"SELECT * FROM t1 ORDER BY a", selects("4"), selects("5")}}},
		{"mysql", "innodb", "one-shot", []exchange{same("SET TRANSACTION READ ONLY", ok(2, 0)), {"BEGIN", ok(0x2003, 0), ok(3, 0)}}},
		{"mysql", "innodb", "", []exchange{{"BEGIN", ok(0x2003, 0), ok(3, 0)}}},
		{"mysql", "innodb", "wider-types", []exchange{{"CREATE TEMPORARY TABLE t1 (a TEXT) ENGINE=MEMORY", refuses(1163, "no"), ok(2, 0)}}},
		{"mysql", "innodb", "", []exchange{{"CREATE TEMPORARY TABLE t1 (a TEXT) ENGINE=MEMORY", refuses(1050, "no"), ok(2, 0)}}},
		{"mariadb-11.8", "keep", "listing-order", []exchange{{"SHOW TABLES", selects("t1", "t2"), selects("t2", "t1")}}},
		{"mariadb", "keep", "", []exchange{{"SHOW TABLES", selects("t1", "t2"), selects("t2", "t1")}}},
		{"mariadb", "keep", "found-rows", []exchange{same("SET @u = (SELECT COUNT(*) FROM t1)", ok(2, 0)), {"SELECT FOUND_ROWS()", selects("0"), selects("1")}}},
		{"mysql", "innodb", "", []exchange{same("SET @u = (SELECT COUNT(*) FROM t1)", ok(2, 0)), {"SELECT FOUND_ROWS()", selects("0"), selects("1")}}},
		{"mariadb", "innodb", "", []exchange{{"SELECT FOUND_ROWS()", selects("0"), selects("1")}}},
		{"mariadb", "innodb", "", []exchange{same("SET @u = (SELECT COUNT(*) FROM t1)", ok(2, 0)), same("SELECT 1", selects("1")), {"SELECT FOUND_ROWS()", selects("0"), selects("1")}}},
	} {
		v := judged(c.server, c.strategy, c.list)
		texts := c.list[len(c.list)-1].text
		switch {
		case c.name == "" && len(v.Unexplained) == 0:
			t.Errorf("%s, %s: %s: explained as %v", c.server, c.strategy, texts, v.Known)
		case c.name != "" && (len(v.Unexplained) > 0 || v.Known[c.name] == 0):
			t.Errorf("%s, %s: %s: not %s but %v, unexplained %v", c.server, c.strategy, texts, c.name, v.Known, v.Unexplained)
		}
	}
	named := map[string]bool{}
	for _, k := range Known {
		if k.Reason == "" || named[k.Name] {
			t.Errorf("%s has no reason or stands twice", k.Name)
		}
		named[k.Name] = true
	}
}

// TestCompareEnds has a known difference end the comparison, since the two sides are in different states behind it.
func TestCompareEnds(t *testing.T) {
	v := judged("mysql", "innodb", []exchange{{"ROLLBACK", ok(2, 1), ok(2, 0)}, {"SELECT * FROM t1", selects("1"), selects()}})
	if v.Compared != 1 || len(v.Unexplained) > 0 {
		t.Errorf("%+v", v)
	}
	v = judged("mysql", "preserve", []exchange{{"ROLLBACK", ok(2, 1), ok(2, 0)}, {"SELECT * FROM t1", selects("1"), selects()}})
	if v.Compared != 2 || len(v.Unexplained) == 0 {
		t.Errorf("%+v", v)
	}
	v = judged("mysql", "keep", []exchange{{"ROLLBACK", ok(2, 1), ok(2, 0)}, {"SELECT * FROM t1", selects("1"), selects()}})
	if v.Compared != 2 || len(v.Unexplained) == 0 {
		t.Errorf("%+v", v)
	}
}

// TestProtected has protected rows, others and a connection differ.
func TestProtected(t *testing.T) {
	row := func(n string) string { return "`lab`.`t1` [\"" + n + "\" \"1\"]" }
	step := &compare.Step{Conn: "a", Verb: query, Text: "SELECT 1"}
	for name, c := range map[string]struct {
		proxied Outcome
		found   bool
	}{
		"same":        {Outcome{State: []string{row("900001"), row("7")}}, false},
		"another row": {Outcome{State: []string{row("900001")}, Events: []Exchange{{Step: step, Reply: selects("1")}}}, false},
		"lost":        {Outcome{State: []string{row("7")}}, true},
		"ended":       {Outcome{State: []string{row("900001")}, Events: []Exchange{{Step: step, Failure: "the connection has ended"}}}, true},
	} {
		v := Protected("mysql", "keep", &Outcome{State: []string{row("900001"), row("7")}}, &c.proxied)
		if found := len(v.Unexplained) > 0; found != c.found {
			t.Errorf("%s: %v", name, v.Unexplained)
		}
	}
}

// TestCompareState has the databases differ behind the runs, and the connections.
func TestCompareState(t *testing.T) {
	direct, proxied := &Outcome{State: []string{"t1 (1)"}}, &Outcome{}
	if v := Compare("mysql", "keep", direct, proxied); len(v.Unexplained) != 1 {
		t.Errorf("%+v", v)
	}
	step := &compare.Step{Conn: "a", Verb: query, Text: "SELECT 1"}
	direct, proxied = &Outcome{Events: []Exchange{{Step: step, Reply: selects("1")}}}, &Outcome{Events: []Exchange{{Step: step, Failure: "the connection has ended"}}}
	if v := Compare("mysql", "innodb", direct, proxied); len(v.Unexplained) == 0 {
		t.Errorf("%+v", v)
	}
	direct.Events[0].Skipped = true
	if v := Compare("mysql", "keep", direct, proxied); len(v.Unexplained) > 0 {
		t.Errorf("%+v", v)
	}
}
