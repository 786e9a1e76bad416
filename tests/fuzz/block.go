package fuzz

import (
	"fmt"
	"strings"

	"tmpproxy/trial/compare"
)

// block adds the steps of one element of a sequence.
func (g *generator) block() {
	switch g.weighted(42, 10, 10, 7, 6, 6, 4, 4, 3, 4, 2, 3, 3, 3, 4) {
	case 1:
		g.times(4, (*generator).anything)
	case 2:
		g.transaction()
	case 3:
		g.diagnostics()
	case 4:
		g.set()
	case 5:
		g.prepared()
	case 6:
		g.permanent()
	case 7:
		g.change()
	case 8:
		g.schema()
	case 9:
		g.second()
	case 10:
		g.routine()
	case 11:
		g.command()
	case 12:
		g.packet()
	case 13:
		g.special()
	case 14:
		g.preparedCycles()
	default:
		g.cycles()
	}
}

// cycles is what the proxy is for: one table made, used and dropped, several times.
func (g *generator) cycles() {
	number := g.number()
	x := g.name(number)
	create, drop := g.create(number, x), g.drop(x)
	first := len(g.steps)
	if g.percent(20) {
		g.query("%s", g.of("DROP TEMPORARY TABLE IF EXISTS ", "DROP TABLE IF EXISTS ")+x)
	}
	g.query("%s", create)
	g.times(4, func(g *generator) {
		switch g.weighted(80, 10, 5) {
		case 1:
			g.anything()
		case 2:
			g.diagnostics()
		default:
			g.query("%s", g.use(x))
		}
	})
	if g.percent(92) {
		g.query("%s", drop)
	}
	g.repeat(g.steps[first:], g.weighted(3, 3, 4, 1))
}

// repeat adds steps again.
func (g *generator) repeat(steps []compare.Step, times int) {
	steps = append([]compare.Step(nil), steps...)
	for range times {
		g.steps = append(g.steps, steps...)
	}
}

// anything is one statement that needs no other.
func (g *generator) anything() {
	number := g.number()
	x := g.name(number)
	switch g.weighted(50, 15, 15, 3, 3) {
	case 1:
		g.query("%s", g.create(number, x))
	case 2:
		g.query("%s", g.drop(x))
	case 3:
		g.query("%s", g.of("SELECT 1", "SELECT DATABASE(), @@autocommit, @@sql_mode, @u", "SELECT * FROM base ORDER BY id", "SELECT * FROM nosuch",
			"SELECT FROM", "DROP TEMPORARY TABLE nosuch", "garbage t1~", "INSERT INTO base VALUES (1, 1, 'x')", "UPDATE base SET v = v + 1 WHERE id = 1", ";",
			"-- nothing", "SELECT SLEEP(0.001)", "KILL QUERY CONNECTION_ID()", "SHOW TABLES", "SHOW FULL TABLES LIKE 't%'"))
	case 4:
		g.step(idle, "")
	default:
		g.query("%s", g.use(x))
	}
}

func (g *generator) transaction() {
	begin := g.of("BEGIN", "START TRANSACTION", "SET autocommit = 0", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "SET autocommit = 0", "START TRANSACTION READ ONLY",
		"START TRANSACTION READ WRITE", "SET @@session.autocommit = OFF")
	g.query("%s", begin)
	if g.percent(60) {
		g.query("%s", g.of("UPDATE base SET v = v + 1 WHERE id = 1", "SELECT * FROM base ORDER BY id", "INSERT INTO base VALUES (4, 4, 'four')"))
	}
	if g.depth == 0 {
		g.times(5, func(g *generator) {
			g.depth = 1
			switch g.weighted(50, 20, 15, 10, 5) {
			case 1:
				g.cycles()
			case 2:
				g.query("%s", g.of("SAVEPOINT p", "RELEASE SAVEPOINT p", "ROLLBACK TO p", "SAVEPOINT q"))
			case 3:
				g.query("%s", g.end())
			case 4:
				g.block()
			default:
				g.anything()
			}
		})
	}
	if g.percent(90) {
		g.query("%s", g.end())
	}
	if strings.HasPrefix(begin, "SET") && g.percent(80) {
		g.query("%s", g.of("SET autocommit = 1", "SET autocommit = DEFAULT", "SET SESSION autocommit = ON, @u = 1"))
	}
}

// end is the end of a transaction. A ROLLBACK undoes what is written to converted tables.
func (g *generator) end() string {
	rollback := 30
	if g.o.Converts {
		rollback = 8
	}
	if g.percent(rollback) {
		return g.of("ROLLBACK", "ROLLBACK", "ROLLBACK AND CHAIN", "ROLLBACK WORK")
	}
	return g.of("COMMIT", "COMMIT", "COMMIT AND CHAIN", "COMMIT AND NO CHAIN", "COMMIT WORK")
}

func (g *generator) diagnostics() {
	switch text := g.of("SHOW WARNINGS", "SELECT ROW_COUNT()", "SELECT FOUND_ROWS(), LAST_INSERT_ID()", "SELECT @@warning_count, @@error_count", "SHOW ERRORS",
		"SHOW COUNT(*) WARNINGS", "SELECT ROW_COUNT(), FOUND_ROWS(), @@warning_count", "GET DIAGNOSTICS @n = NUMBER, @r = ROW_COUNT", "SHOW WARNINGS LIMIT 1",
		"SHOW COUNT(*) ERRORS", "GET DIAGNOSTICS CONDITION 1 @e = MYSQL_ERRNO", "SET @w = @@warning_count"); {
	case strings.HasPrefix(text, "GET"), strings.HasPrefix(text, "SET"):
		g.query("%s", text)
		g.query("SELECT @n, @r, @e, @w")
	default:
		g.query("%s", text)
	}
}

func (g *generator) set() {
	list := []string{
		"SET @u = 1",
		"SET sql_mode = ''",
		"SET sql_mode = DEFAULT",
		"SET sql_mode = 'ANSI_QUOTES'",
		"SET sql_mode = 'NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES'",
		"SET sql_mode = CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')",
		"SET NAMES utf8mb4",
		"SET NAMES latin1",
		"SET NAMES gbk",
		"SET CHARACTER SET latin1",
		"SET NAMES DEFAULT",
		"SET default_tmp_storage_engine = MEMORY",
		"SET default_tmp_storage_engine = InnoDB",
		"SET default_tmp_storage_engine = MyISAM",
		"SET default_tmp_storage_engine = CSV",
		"SET default_storage_engine = MEMORY",
		"SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
		"SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
		"SET SESSION TRANSACTION READ ONLY",
		"SET SESSION TRANSACTION READ WRITE",
		"SET SESSION TRANSACTION READ WRITE",
		"SET autocommit = 0",
		"SET autocommit = 1",
		"SET autocommit = 1",
		"SET max_heap_table_size = 20480",
		"SET max_heap_table_size = DEFAULT",
		"SET foreign_key_checks = 0",
		"SET sql_notes = 0",
		"SET timestamp = 1000000000",
		"SET insert_id = 5",
		"SET sql_safe_updates = 1",
		"SET sql_safe_updates = 0",
		"SET sql_log_bin = 0",
		"SET time_zone = '+01:00'",
		"SET explicit_defaults_for_timestamp = 0",
		"SET collation_connection = latin1_swedish_ci",
		"SET session_track_state_change = 1",
		"SET pseudo_thread_id = 700000007",
		"SET nosuch = 1",
		"SET @@sql_mode = @nosuch",
		"SET @a = 1, sql_mode = 'STRICT_ALL_TABLES', @b = 'SET autocommit = 0'",
		"SET character_set_client = binary",
		"SET ROLE NONE",
		"SET PASSWORD = 'x' REPLACE 'y'",
		"SET lc_time_names = 'de_DE'",
		"SET sql_quote_show_create = 0",
	}
	if g.o.MariaDB {
		list = append(list, "SET STATEMENT sql_mode = 'ANSI_QUOTES' FOR SELECT 1", "SET old_mode = ''", "SET tx_read_only = 0", "SET tx_isolation = 'READ-COMMITTED'", "SET sql_mode = 'ORACLE'")
	} else {
		list = append(list, "SET transaction_read_only = 0", "SET transaction_isolation = 'READ-COMMITTED'", "SET @@transaction_isolation = 'READ-COMMITTED'",
			"SET sql_generate_invisible_primary_key = 1", "SET sql_generate_invisible_primary_key = 0", "SET sql_require_primary_key = 1", "SET gtid_next = AUTOMATIC",
			"SET sql_require_primary_key = 0", "SET binlog_format = ROW", "SET PERSIST nosuch = 1")
	}
	if !g.o.Converts {
		list = append(list, "SET sql_select_limit = 2", "SET sql_select_limit = DEFAULT", "SET TRANSACTION READ ONLY", "SET TRANSACTION READ ONLY, ISOLATION LEVEL SERIALIZABLE")
	} else if g.percent(20) {
		g.query("SET TRANSACTION READ ONLY")
		g.query("START TRANSACTION")
		return
	}
	g.query("%s", list[g.choose(len(list))])
}

// prepared prepares a statement, which is executed here and later on.
func (g *generator) prepared() {
	number := g.number()
	x := g.name(number)
	var text string
	switch g.weighted(40, 20, 20, 5, 5) {
	case 1:
		text = g.create(number, x)
	case 2:
		text = g.drop(x)
	case 3:
		text = g.of("INSERT INTO "+x+" (a, b) VALUES (?, ?)", "SELECT a, ? FROM "+x+" WHERE a = ? ORDER BY b", "SET @u = ?, @v = ?", "SELECT ?, ?")
	case 4:
		text = g.of("CALL p1~()", "COMMIT", "ROLLBACK", "SET autocommit = 0", "SET autocommit = 1", "TRUNCATE TABLE "+x, "SHOW WARNINGS", "BEGIN", "SELECT ROW_COUNT()",
			"ALTER TABLE "+x+" ADD COLUMN z INT", "CREATE TABLE "+x+" (a INT, b INT) ENGINE=MyISAM", "USE lab2^")
	default:
		text = g.use(x)
	}
	values := ""
	if strings.Contains(text, "?") {
		values = fmt.Sprintf(" %d %d", g.digit(), g.digit())
	}
	name := g.of("s1", "s2", "s3")
	if g.percent(30) {
		text = strings.ReplaceAll(text, "?", fmt.Sprint(g.digit()))
		g.prepareText(name, text, false)
		g.times(3, func(g *generator) {
			g.anything()
			g.query("EXECUTE %s", name)
		})
		if g.percent(30) {
			g.query("DEALLOCATE PREPARE %s", name)
		}
		return
	}
	g.step(prepare, name+" "+text)
	g.times(3, func(g *generator) {
		g.times(1, (*generator).anything)
		verb := execute
		if g.percent(10) {
			verb = cursor
		}
		g.step(verb, name+values)
		if verb == cursor {
			g.times(1, func(g *generator) { g.step(idle, "") })
			g.step(fetch, name+" 2")
		}
	})
	if g.percent(30) {
		g.step(g.of(closeStatement, resetStatement), name)
	}
	if g.percent(30) {
		g.step(execute, g.of("s1", "s2", "s3"))
	}
}

// preparedCycles are cycles all of whose statements are prepared beforehand, and what may become of prepared statements between.
func (g *generator) preparedCycles() {
	number := g.number()
	x := g.name(number)
	statements := []string{g.create(number, x), "INSERT INTO " + x + " (a, b) VALUES (3, 4)", "SELECT * FROM " + x + " ORDER BY a, b", g.drop(x)}
	text := g.percent(40)
	prepares := func(g *generator, i int) {
		if text {
			g.prepareText(fmt.Sprintf("c%d", i), statements[i], false)
		} else {
			g.step(prepare, fmt.Sprintf("c%d %s", i, statements[i]))
		}
	}
	run := func(g *generator, i int) {
		switch {
		case !text:
			g.step(execute, fmt.Sprintf("c%d", i))
		case g.percent(10):
			g.query(g.of("execute C%d", "EXECUTE `c%d`", "EXECUTE c%d USING @u", "/* c */ EXECUTE c%d", "EXECUTE c%[1]d; EXECUTE c%[1]d"), i)
		default:
			g.query("EXECUTE c%d", i)
		}
	}
	for i := range statements {
		prepares(g, i)
		if i == 0 {
			run(g, i) // the others need the table to be there
		}
	}
	run(g, len(statements)-1)
	first := len(g.steps)
	for i := range statements {
		run(g, i)
		if g.percent(20) {
			g.between(prepares, statements)
		}
	}
	g.repeat(g.steps[first:], g.weighted(2, 3, 3))
}

// between is what happens while statements are prepared.
func (g *generator) between(prepares func(*generator, int), statements []string) {
	i := g.choose(len(statements))
	name := fmt.Sprintf("c%d", i)
	switch g.weighted(4, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1) {
	case 1:
		g.set()
	case 2:
		g.schema()
	case 3:
		g.diagnostics()
	case 4:
		g.change()
	case 5:
		prepares(g, i)
	case 6:
		g.prepareText(name, g.of("garbage", "SELECT * FROM nosuch", statements[g.choose(len(statements))]), true)
	case 7:
		g.query("%s", g.of("DEALLOCATE PREPARE "+name, "DROP PREPARE "+name))
		g.step(closeStatement, name)
	case 8:
		g.makes("CREATE PROCEDURE q~() BEGIN PREPARE %s FROM '%s'; END", name, escaped(statements[g.choose(len(statements))]))
		g.query("CALL q~()")
	case 9:
		g.query("%s", g.of("BEGIN", "COMMIT", "SET autocommit = 0", "SET autocommit = 1", "SAVEPOINT p"))
	case 10:
		g.step(g.of(reset, changeUser), "- - lab^")
		if g.steps[len(g.steps)-1].Verb == reset {
			g.steps[len(g.steps)-1].Text = ""
		}
	default:
		g.anything()
	}
}

func escaped(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), "'", "''")
}

// prepareText prepares a statement by a name; often: in one of the rarer forms.
func (g *generator) prepareText(name, text string, often bool) {
	if !often && !g.percent(15) {
		g.query("PREPARE %s FROM '%s'", name, escaped(text))
		return
	}
	switch g.choose(5) {
	case 0:
		g.query("SET @v = '%s'", escaped(text))
		g.query("PREPARE %s FROM @v", name)
	case 1:
		g.query("PREPARE %s FROM \"%s\"", name, strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `"`, `""`))
	case 2:
		g.query("prepare  %s from /* c */ '%s'", strings.ToUpper(name), escaped(text))
	case 3:
		if g.o.MariaDB {
			g.query("EXECUTE IMMEDIATE '%s'", escaped(text))
			return
		}
		g.query("PREPARE `%s` FROM '%s'", name, escaped(text))
	default:
		g.query("PREPARE %s FROM '%s'", name, escaped(text))
	}
}

// permanent is about permanent tables and views of the names.
func (g *generator) permanent() {
	x := g.table()
	g.query("%s", g.of(
		"CREATE TABLE "+x+" (a INT, b INT) ENGINE=MyISAM",
		"CREATE TABLE "+x+" (a INT PRIMARY KEY, b INT) ENGINE=MEMORY",
		"CREATE TABLE IF NOT EXISTS "+x+" (a INT, b INT, p INT) ENGINE=MyISAM",
		"CREATE VIEW "+x+" AS SELECT id AS a, v AS b FROM base",
		"CREATE OR REPLACE VIEW "+x+" AS SELECT id AS a, v AS b FROM base",
		"CREATE TABLE "+x+" ENGINE=MyISAM AS SELECT id AS a, v AS b FROM base",
		"CREATE TABLE "+x+" LIKE base",
		"CREATE TABLE "+x+" (a INT AUTO_INCREMENT PRIMARY KEY, b INT) ENGINE=InnoDB",
		"DROP VIEW "+x,
		"DROP TABLE "+x,
	))
	if g.percent(70) {
		g.query("INSERT INTO %s (a, b) VALUES (%d, %d)", x, g.digit(), g.digit())
	}
}

// change is DDL other than CREATE and DROP.
func (g *generator) change() {
	x := g.table()
	list := []string{
		"ALTER TABLE " + x + " ADD COLUMN z INT",
		"ALTER TABLE " + x + " DROP COLUMN b",
		"ALTER TABLE " + x + " RENAME TO " + g.table(),
		"ALTER TABLE " + x + " AUTO_INCREMENT = 1",
		"CREATE INDEX i ON " + x + " (b)",
		"DROP INDEX i ON " + x,
		"RENAME TABLE " + x + " TO " + g.table(),
		"RENAME TABLE " + x + " TO u~, u~ TO " + g.table(),
		"ALTER TABLE " + x + " ENGINE = InnoDB",
		"LOCK TABLES " + x + " WRITE",
		"LOCK TABLES " + x + " READ, base WRITE",
		"LOCK TABLES base READ",
		"UNLOCK TABLES",
		"UNLOCK TABLES",
		"FLUSH TABLES " + x,
		"ALTER TABLE " + x + " nonsense",
		"ALTER TABLE " + x,
		"ALTER DATABASE lab^ CHARACTER SET latin1",
		"ALTER DATABASE lab2^ CHARACTER SET latin1",
	}
	if !g.o.Converts {
		list = append(list, "ANALYZE TABLE "+x, "OPTIMIZE TABLE "+x, "CHECKSUM TABLE "+x, "SHOW INDEX FROM "+x, "REPAIR TABLE "+x)
	}
	text := list[g.choose(len(list))]
	g.query("%s", text)
	if strings.HasPrefix(text, "LOCK") {
		g.times(4, (*generator).anything)
		if g.percent(85) {
			g.query("%s", g.of("UNLOCK TABLES", "BEGIN"))
		}
	}
}

// schema changes the current database.
func (g *generator) schema() {
	switch g.weighted(3, 3, 2, 1, 1) {
	case 1:
		g.query("USE lab^")
	case 2:
		g.step(initDB, g.of("lab^", "lab2^", "nosuch"))
	case 3:
		g.query("USE `lab2^`")
	case 4:
		g.query("USE nosuch")
	default:
		g.query("USE lab2^")
	}
}

// second is what another connection does.
func (g *generator) second() {
	g.conn = "b"
	x := g.table()
	switch g.weighted(3, 3, 2, 2, 2, 1) {
	case 1:
		g.query("CREATE TABLE %s (a INT, b INT, other INT) ENGINE=MyISAM", x)
		g.query("INSERT INTO %s VALUES (%d, 1, 1)", x, g.digit())
	case 2:
		g.query("DROP TABLE IF EXISTS %s", x)
	case 3:
		g.query("KILL QUERY ${id:a}")
	case 4:
		g.cycles()
	case 5:
		g.permanent()
	default:
		g.query("SELECT * FROM %s ORDER BY a, b", x)
	}
	g.conn = ""
}

// makes has a routine or trigger made. Behind its text the proxy does not know the current schema until it is told.
func (g *generator) makes(format string, args ...any) {
	g.query(format, args...)
	if g.percent(75) {
		g.query("USE lab^")
	}
}

// routine makes a stored routine that uses a name, and calls it.
func (g *generator) routine() {
	number := g.number()
	x := fmt.Sprintf("t%d~", number+1)
	switch g.weighted(4, 3, 2, 2, 2) {
	case 1:
		g.makes("CREATE FUNCTION f%d~() RETURNS INT %s BEGIN %s RETURN 1; END", number, g.of("DETERMINISTIC MODIFIES SQL DATA", "NOT DETERMINISTIC MODIFIES SQL DATA"), g.of(
			"INSERT INTO "+x+" (a, b) VALUES (50, 1);", "SET @u = (SELECT COUNT(*) FROM "+x+");", "DROP TEMPORARY TABLE IF EXISTS "+x+";",
			"CREATE TEMPORARY TABLE "+x+" (a INT, b INT) ENGINE=MEMORY;"))
	case 2: // a trigger that leaves the names alone: triggers are trusted
		g.query("CREATE TABLE u~ (a INT, b INT) ENGINE=MyISAM")
		g.makes("CREATE TRIGGER g~ AFTER %s ON base FOR EACH ROW INSERT INTO u~ VALUES (1, 2)", g.of("INSERT", "UPDATE"))
		g.query("UPDATE base SET v = v + 1")
	case 3: // one that is called by its parameters
		g.makes("CREATE PROCEDURE p%d~() BEGIN PREPARE s FROM 'SELECT COUNT(*) FROM %s'; EXECUTE s; DEALLOCATE PREPARE s; END", number, x)
	case 4: // a function that leaves the names alone, and what calls it
		g.makes("CREATE FUNCTION h~() RETURNS INT DETERMINISTIC READS SQL DATA RETURN %s", g.of("7", "(SELECT COUNT(*) FROM base)", "(SELECT MAX(id) FROM base WHERE id < 3)"))
		g.query("CREATE VIEW v~ AS SELECT id AS a, h~() AS b FROM base")
		g.makes("CREATE TRIGGER g~ BEFORE %s ON base FOR EACH ROW SET @h = %s", g.of("INSERT", "UPDATE"), g.of("h~()", "1"))
		g.times(4, func(g *generator) {
			x := g.table()
			g.times(1, (*generator).cyclesOrUse)
			g.query("%s", g.of("SELECT * FROM v~ ORDER BY a", "UPDATE base SET v = v + 1", fmt.Sprintf("INSERT INTO %s (a, b) SELECT a + %d, b FROM v~ ORDER BY a", x, g.several()),
				"SELECT COUNT(*) FROM "+x+" JOIN v~ USING (a)", "SELECT @h", "DROP VIEW v~"))
		})
		return
	default:
		g.makes("CREATE PROCEDURE p%d~() BEGIN %s END", number, g.of(
			"CREATE TEMPORARY TABLE "+x+" (a INT, b INT) ENGINE=MEMORY; INSERT INTO "+x+" VALUES (1, 1); SELECT * FROM "+x+";",
			"CREATE TEMPORARY TABLE "+x+" (a INT, b INT) ENGINE=MEMORY; INSERT INTO "+x+" VALUES (1, 1); SELECT * FROM "+x+"; DROP TEMPORARY TABLE "+x+";",
			"INSERT INTO "+x+" (a, b) VALUES (50, 1);", "DROP TEMPORARY TABLE "+x+";", "SELECT COUNT(*) FROM "+x+"; SELECT 2;", "SET autocommit = 0;", "SET autocommit = 1;",
			"TRUNCATE TABLE "+x+";", "START TRANSACTION; INSERT INTO base VALUES (5, 5, 'five');", "SET TRANSACTION READ ONLY;", "COMMIT;"))
	}
	g.times(3, func(g *generator) {
		g.times(1, (*generator).cyclesOrUse)
		g.query("%s", g.call(g.number()))
	})
}

func (g *generator) cyclesOrUse() {
	if g.percent(50) {
		g.cycles()
		return
	}
	g.anything()
}

func (g *generator) call(number int) string {
	return fmt.Sprintf(g.of("CALL p%d~()", "SELECT f%d~()", "SELECT id, f%d~() FROM base ORDER BY id", "CALL lab^.p%d~()", "UPDATE base SET v = f%d~() WHERE id = 1",
		"SELECT f%d~ ()", "SELECT `f%d~`()"), number)
}

// command is a command other than a query.
func (g *generator) command() {
	switch g.weighted(3, 3, 2, 2, 2, 2, 1) {
	case 1:
		g.step(statistics, "")
	case 2:
		g.step(reset, "")
	case 3:
		g.step(changeUser, g.of("- - lab^", "- - lab2^", "- - "))
	case 4:
		g.step(fieldList, fmt.Sprintf("t%d~", g.number()+1))
	case 5:
		g.step(setOption, g.of("on", "off", "on"))
	case 6: // several commands without waiting for the replies
		first := len(g.steps)
		g.cycles()
		list := append([]compare.Step(nil), g.steps[first:]...)
		g.steps = g.steps[:first]
		var texts []string
		for _, s := range list {
			if s.Verb == query && !strings.Contains(s.Text, "LOCAL INFILE") {
				texts = append(texts, s.Text)
			}
		}
		if len(texts) > 6 {
			texts = texts[:6]
		}
		for _, text := range texts {
			g.step(send, text)
		}
		for range texts {
			g.step(receive, "")
		}
	default:
		g.step(ping, "")
	}
}

// packet is several statements in one packet.
func (g *generator) packet() {
	first := len(g.steps)
	g.times(4, (*generator).anything)
	if g.percent(30) {
		g.cycles()
	}
	if g.percent(20) {
		g.set()
	}
	if g.percent(20) {
		g.diagnostics()
	}
	var texts []string
	for _, s := range g.steps[first:] {
		if s.Verb == query && s.Text != ";" && !strings.HasPrefix(s.Text, "--") {
			texts = append(texts, s.Text)
		}
	}
	g.steps = g.steps[:first]
	if len(texts) == 0 {
		return
	}
	if len(texts) > 5 {
		texts = texts[:5]
	}
	g.query("%s", strings.Join(texts, "; "))
	if g.percent(10) {
		g.steps[len(g.steps)-1].Text += g.of(";", "; ", " ; -- end")
	}
}

// special is what is rare.
func (g *generator) special() {
	x := g.table()
	switch g.weighted(3, 2, 2, 1, 1) {
	case 1:
		g.query("XA START 'x~^'")
		g.times(3, (*generator).anything)
		g.query("XA END 'x~^'")
		switch g.choose(3) {
		case 0:
			g.query("XA COMMIT 'x~^' ONE PHASE")
		case 1:
			g.query("XA PREPARE 'x~^'")
			g.times(1, (*generator).anything)
			g.query("%s", g.of("XA COMMIT 'x~^'", "XA ROLLBACK 'x~^'"))
		case 2:
			g.query("XA ROLLBACK 'x~^'")
		}
	case 2:
		if g.o.MariaDB {
			g.query("%s", g.of("EXECUTE IMMEDIATE 'SELECT COUNT(*) FROM "+x+"'", "EXECUTE IMMEDIATE 'DROP TEMPORARY TABLE "+x+"'",
				"BEGIN NOT ATOMIC INSERT INTO "+x+" (a, b) VALUES (9, 9); END", "CREATE OR REPLACE TABLE "+x+" (a INT, b INT) ENGINE=MyISAM"))
		} else {
			g.query("%s", g.of("SELECT * FROM "+x+" INTO @u, @v", "EXPLAIN ANALYZE nosuch", "IMPORT TABLE FROM 'nosuch'", "CLONE nosuch"))
		}
	case 3: // longer than what the proxy looks at
		g.query("INSERT INTO %s (a, b) VALUES (%d, /* %s */ 1)", x, g.digit(), strings.Repeat("x", 70<<10))
	case 4:
		g.query("CREATE TEMPORARY TABLE %s (a INT, b INT COMMENT '%s') ENGINE=MEMORY", x, strings.Repeat("y", 600))
	default: // an executable comment hides what a statement is
		g.query("%s", g.of("/*!50000 DROP TEMPORARY TABLE "+x+" */", "/*!99999 DROP TEMPORARY TABLE "+x+" */ SELECT 1", "SELECT /*!50000 1, */ 2 FROM "+x,
			"/*M!100000 INSERT INTO "+x+" (a, b) VALUES (1, 1) */", "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS "+x))
	}
}

// touching makes permanent tables with protected rows, and triggers and functions behind a view that use the names: the proxy
// sees none of them.
func (g *generator) touching() {
	number := g.number()
	x := fmt.Sprintf("t%d~", number+1)
	for _, table := range []string{x, "m~"} {
		g.query("CREATE TABLE %s (a INT, b INT) ENGINE=%s", table, g.of("MyISAM", "MyISAM", "MEMORY", "InnoDB"))
		g.query("INSERT INTO %s (a, b) VALUES (900001, 1), (900002, 2)", table)
	}
	body := func() string {
		return g.of(
			"DROP TEMPORARY TABLE IF EXISTS "+x+";",
			"CREATE TEMPORARY TABLE IF NOT EXISTS "+x+" (a INT, b INT) ENGINE=MEMORY;",
			"DROP TEMPORARY TABLE IF EXISTS "+x+"; CREATE TEMPORARY TABLE "+x+" (a INT, b INT) ENGINE=MERGE UNION=(m~) INSERT_METHOD=LAST;",
			"DROP TEMPORARY TABLE IF EXISTS "+x+"; CREATE TEMPORARY TABLE "+x+" (a INT, b INT) ENGINE=MyISAM;",
			"INSERT INTO "+x+" (a, b) VALUES (60, 1);",
			"SET @h = (SELECT COUNT(*) FROM "+x+");",
		)
	}
	g.makes("CREATE FUNCTION h~() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN %s RETURN 1; END", body())
	g.query("CREATE VIEW v~ AS SELECT id AS a, h~() AS b FROM base")
	g.makes("CREATE TRIGGER g~ BEFORE %s ON base FOR EACH ROW BEGIN %s END", g.of("INSERT", "UPDATE"), body())
}

// touch is what goes with them. It takes no rows out of permanent tables: no statement drops or empties what is not temporary.
func (g *generator) touch() {
	number := g.number()
	x := fmt.Sprintf("t%d~", number+1)
	insert := func(g *generator) { g.query("INSERT INTO %s (a, b) VALUES (%d, %d)", x, g.digit(), g.digit()) }
	switch g.weighted(40, 20, 10, 10, 5, 5) {
	case 1:
		g.query("%s", g.of("SELECT * FROM v~ ORDER BY a", "UPDATE base SET v = v + 1", "INSERT INTO base VALUES (4, 4, 'four')", "INSERT INTO "+x+" (a, b) SELECT a + 50, b FROM v~"))
	case 2:
		g.query("%s", g.of("BEGIN", "COMMIT", "SET autocommit = 0", "SET autocommit = 1", "ROLLBACK", "SAVEPOINT p"))
	case 3:
		g.query("%s", g.of("SHOW WARNINGS", "SELECT ROW_COUNT()", "SELECT @@warning_count"))
	case 4:
		g.step(idle, "")
	case 5:
		g.query("SELECT * FROM %s ORDER BY a, b", x)
	default:
		first := len(g.steps)
		g.query("CREATE TEMPORARY TABLE %s %s", x, g.own[number])
		g.times(2, insert)
		if g.percent(30) {
			g.query("%s", g.of("SELECT * FROM v~ ORDER BY a", "UPDATE base SET v = v + 1", "INSERT INTO base VALUES (5, 5, 'five')"))
		}
		g.query("%s", g.of("DROP TEMPORARY TABLE ", "DROP TEMPORARY TABLE IF EXISTS ")+x)
		g.repeat(g.steps[first:], g.weighted(3, 3, 4, 1))
	}
}
