package fuzz

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"tmpproxy/trial/compare"
)

// Options is what a generator has to know of who will run its sequences.
type Options struct {
	MariaDB bool
	// Converts tells that the proxy turns tables into InnoDB tables. What shows then is known and ends the comparison, so the
	// generator does it less often.
	Converts bool
}

// maxSteps is the length of a sequence.
const maxSteps = 60

// Generate returns a generator of sequences.
func Generate(o Options) *rapid.Generator[*Sequence] {
	return rapid.Custom(func(t *rapid.T) *Sequence {
		g := &generator{t: t, o: o}
		s := &Sequence{Client: "modern"}
		switch g.choose(8) {
		case 6:
			s.Client = "classic"
		case 7:
			if s.Client = "attributes"; o.MariaDB {
				s.Client = "mariadb"
			}
		}
		s.Outside = g.percent(30)
		for i := range g.own {
			g.own[i] = g.definition()
		}
		if g.percent(4) {
			s.Touches, s.Outside = true, false
			g.touching()
			s.Steps = g.steps
		}
		block := rapid.Custom(func(t *rapid.T) []compare.Step {
			b := &generator{t: t, o: o, own: g.own}
			if s.Touches {
				b.touch()
			} else {
				b.block()
			}
			return b.steps
		})
		for _, steps := range rapid.SliceOfN(block, 5, 20).Draw(t, "blocks") {
			s.Steps = append(s.Steps, steps...)
		}
		if len(s.Steps) > maxSteps {
			s.Steps = s.Steps[:maxSteps]
		}
		return s
	})
}

// generator makes up steps. What it draws first is the simplest, so that shrinking goes there.
type generator struct {
	t     *rapid.T
	o     Options
	own   [3]string // the definitions that the sequence's cycles mostly use, of t1, t2 and t3
	steps []compare.Step
	conn  string // of the steps, a when empty
	depth int    // of transactions
}

var bit = rapid.Bool()

// choose returns a number below n, each as likely as another.
func (g *generator) choose(n int) int {
	bits := 0
	for 1<<bits < n {
		bits++
	}
	if bits > 0 {
		bits += 3 // so that none is much likelier
	}
	k := 0
	for range bits {
		k <<= 1
		if bit.Draw(g.t, "bit") {
			k |= 1
		}
	}
	return k * n >> bits
}

// percent is true that often.
func (g *generator) percent(p int) bool { return g.choose(100) >= 100-p }

// of returns one of some words.
func (g *generator) of(words ...string) string { return words[g.choose(len(words))] }

// weighted returns the index of a weight, as likely as it is heavy.
func (g *generator) weighted(weights ...int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	k := g.choose(sum)
	for i, w := range weights {
		if k < w {
			return i
		}
		k -= w
	}
	return 0
}

// digit is a small number.
func (g *generator) digit() int { return g.choose(8) + 1 }

func (g *generator) step(verb, text string) {
	conn := g.conn
	if conn == "" {
		conn = "a"
	}
	g.steps = append(g.steps, compare.Step{Conn: conn, Verb: verb, Text: text})
}

func (g *generator) query(format string, args ...any) { g.step(query, fmt.Sprintf(format, args...)) }

// times has f done up to n times.
func (g *generator) times(n int, f func(*generator)) {
	list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []compare.Step {
		b := &generator{t: t, o: g.o, own: g.own, conn: g.conn, depth: g.depth}
		b.choose(2) // a generator has to draw something
		f(b)
		return b.steps
	}), 0, n).Draw(g.t, "several")
	for _, steps := range list {
		g.steps = append(g.steps, steps...)
	}
}

// number is the index of a table: most is about t1.
func (g *generator) number() int { return g.weighted(10, 5, 2) }

// name is a table's name in one of its spellings.
func (g *generator) name(number int) string {
	plain := fmt.Sprintf("t%d~", number+1)
	switch g.weighted(80, 4, 4, 3, 3) {
	case 1:
		return "`" + plain + "`"
	case 2:
		return "lab^." + plain
	case 3:
		return "T" + plain[1:]
	case 4:
		return "lab2^." + plain
	}
	return plain
}

func (g *generator) table() string { return g.name(g.number()) }

// definition is columns and options of a table. The columns a and b are always there.
func (g *generator) definition() string {
	columns := []string{
		"(a INT PRIMARY KEY, b INT)",
		"(a INT, b INT)",
		"(a INT NOT NULL AUTO_INCREMENT PRIMARY KEY, b INT)",
		"(a INT, b INT, c VARCHAR(20) DEFAULT 'x', KEY k (b))",
		"(a INT NOT NULL, b INT NOT NULL DEFAULT 7, c CHAR(10) CHARACTER SET latin1, PRIMARY KEY (a))",
		"(a INT, b INT, UNIQUE KEY u (a), KEY k (b) USING BTREE)",
		"(a INT UNSIGNED KEY, b INT, c DATE DEFAULT '2001-02-03') ",
		"(a INT, b INT, KEY k (a) USING HASH)",
		"(\n  a BIGINT NOT NULL COMMENT 'x, y',\n  b INT, -- end\n  PRIMARY KEY (a, b)\n)",
		"(a INT PRIMARY KEY, b INT, c TEXT)",
		"(a INT, a INT)",
		"(a INT PRIMARY KEY, b INT, c TIMESTAMP DEFAULT '2001-02-03 04:05:06', d DECIMAL(10,2) DEFAULT 1.5, e ENUM('p','q') DEFAULT 'q')",
	}
	weights := []int{30, 12, 8, 8, 6, 6, 5, 4, 4, 2, 1, 4}
	if g.o.Converts {
		weights[9] = 1
	}
	definition := columns[g.weighted(weights...)]
	engine := g.of("ENGINE=MEMORY", "ENGINE=MEMORY", "ENGINE=MEMORY", "ENGINE=MEMORY", "ENGINE = heap", "engine memory", "", "",
		"ENGINE=InnoDB", "ENGINE=InnoDB", "ENGINE=MyISAM", "ENGINE=Aria")
	// The comment makes it a shape that no other sequence has.
	definition += " " + engine + " COMMENT='x~'"
	switch g.weighted(40, 3, 2, 2, 2, 1, 1) {
	case 1:
		definition += " DEFAULT CHARSET=utf8mb4"
	case 2:
		definition += " AUTO_INCREMENT=5"
	case 3:
		definition += " MAX_ROWS=1000"
	case 4:
		definition += " /*!50000 ROW_FORMAT=DYNAMIC */"
	case 5:
		definition += " ROW_FORMAT=FIXED"
	case 6:
		definition += " ENGINE=nosuch"
	}
	return definition
}

// create is a CREATE TEMPORARY TABLE of a table.
func (g *generator) create(number int, name string) string {
	head := "CREATE TEMPORARY TABLE "
	replaces := 2
	if g.o.MariaDB {
		replaces = 6
	}
	switch g.weighted(60, 20, 2, replaces, 2, 2, 1) {
	case 1:
		head = "CREATE TEMPORARY TABLE IF NOT EXISTS "
	case 2:
		head = "create temporary table "
	case 3:
		head = "CREATE OR REPLACE TEMPORARY TABLE "
	case 4:
		head = "CREATE /*!40000 TEMPORARY */ TABLE "
	case 5:
		head = "/* c */ CREATE  TEMPORARY\tTABLE "
	case 6:
		head = "CREATE /* tmpproxy:native */ TEMPORARY TABLE "
	}
	switch g.weighted(70, 10, 3, 3, 3) {
	case 1:
		return head + name + " " + g.definition()
	case 2:
		return head + name + " LIKE " + g.of("base", g.table())
	case 3:
		return head + name + g.of(" ", " ENGINE=MEMORY ") + "AS SELECT id AS a, v AS b FROM base ORDER BY id"
	case 4:
		return head + name + " (a INT, b INT) " + g.of("ENGINE=MEMORY", "ENGINE=InnoDB", "") + " AS SELECT a, b FROM " + g.table() + " ORDER BY a, b"
	}
	return head + name + " " + g.own[number]
}

func (g *generator) drop(name string) string {
	switch g.weighted(60, 15, 12, 6, 3, 2, 2) {
	case 1:
		return "DROP TEMPORARY TABLE IF EXISTS " + name
	case 2:
		return "DROP TABLE " + name
	case 3:
		return "DROP TABLE IF EXISTS " + name
	case 4:
		return "DROP TEMPORARY TABLE " + name + ", " + g.table()
	case 5:
		return "DROP TABLE IF EXISTS " + name + ", " + g.table()
	case 6:
		return "drop temporary tables " + name + " cascade"
	}
	return "DROP TEMPORARY TABLE " + name
}

// use is a statement that reads or writes a table.
func (g *generator) use(x string) string {
	switch g.weighted(22, 14, 6, 4, 5, 10, 4) {
	case 1: // read
		return fmt.Sprintf(g.of("SELECT * FROM %s ORDER BY a, b", "SELECT * FROM %s", "SELECT COUNT(*), SUM(b) FROM %s"), x)
	case 2: // several rows
		return fmt.Sprintf("INSERT INTO %s (a, b) VALUES (%d, %d), (%d, %d)", x, g.digit(), g.digit(), g.digit()+g.several(), g.digit())
	case 3:
		return fmt.Sprintf("INSERT INTO %s (a, b) SELECT id + %d, v FROM base ORDER BY id", x, g.several())
	case 4:
		return fmt.Sprintf(g.of("UPDATE %s SET b = b + 1 WHERE a = %d", "DELETE FROM %s WHERE a = %d"), x, g.digit())
	case 5:
		return g.unusual(x)
	case 6:
		return g.of("DELETE FROM ", "TRUNCATE TABLE ", "TRUNCATE ") + x
	}
	return fmt.Sprintf("INSERT INTO %s (a, b) VALUES (%d, %d)", x, g.digit(), g.digit())
}

// several keeps the keys of statements of several rows apart from others where their failure is not of interest.
func (g *generator) several() int {
	if g.o.Converts && !g.percent(5) {
		return 10 * (1 + g.choose(1000))
	}
	return g.choose(20)
}

func (g *generator) unusual(x string) string {
	list := []string{
		"INSERT INTO {x} (b) VALUES ({n})",
		"SELECT a FROM {x} WHERE a = {n}",
		"SELECT SUM(x.a), COUNT(base.v) FROM {x} AS x JOIN base ON base.id = x.a",
		"SELECT id AS {alias} FROM base ORDER BY id",
		"SELECT {alias}.id FROM base AS {alias} ORDER BY 1",
		"WITH q AS (SELECT a FROM {x}) SELECT * FROM q ORDER BY a",
		"SHOW CREATE TABLE {x}",
		"DESCRIBE {x}",
		"SHOW COLUMNS FROM {x}",
		"INSERT IGNORE INTO {x} (a, b) VALUES ({n}, 1)",
		"REPLACE INTO {x} (a, b) VALUES ({n}, {n})",
		"INSERT INTO {x} (a, b) VALUES ({n}, 1) ON DUPLICATE KEY UPDATE b = b + 1",
		"INSERT INTO {x} (a, b) SELECT a + 100, b FROM {y} ORDER BY a, b",
		"UPDATE base SET v = v + 1 WHERE id IN (SELECT a FROM {x})",
		"INSERT INTO base (id, v) SELECT a + 1000, b FROM {x} ORDER BY a, b",
		"DELETE FROM base WHERE id = {n}",
		"SELECT SQL_CALC_FOUND_ROWS id FROM base ORDER BY id LIMIT 1",
		"SELECT CAST('{n}x' AS SIGNED) FROM base",
		"SELECT '{alias}', \"{alias}\"",
		"SELECT COUNT(*) FROM {x} x, {x} y",
		"SET @u = (SELECT COUNT(*) FROM {x})",
		"SELECT COUNT(*) INTO @u FROM {x}",
		"DO (SELECT COUNT(*) FROM {x})",
		"LOAD DATA LOCAL INFILE 'rows' INTO TABLE {x} FIELDS TERMINATED BY '\\t' (a, b)",
		"SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY HEX(table_name)",
		"SELECT 1 FROM {x} LIMIT 1",
		"INSERT INTO {x} SET a = {n}, b = NULL",
		"SELECT * FROM {x} WHERE a > 0 ORDER BY a, b FOR UPDATE",
		"INSERT INTO {x} (a, b) VALUES ('{n}x', 1)",
	}
	if g.o.MariaDB {
		list = append(list, "INSERT INTO {x} (a, b) VALUES ({n}, 1) RETURNING a", "SET STATEMENT max_statement_time=9 FOR SELECT COUNT(*) FROM {x}")
	} else {
		list = append(list, "TABLE {x} ORDER BY a", "SELECT /*+ MAX_EXECUTION_TIME(9000) */ COUNT(*) FROM {x}")
	}
	if !g.o.Converts {
		list = append(list, "CHECK TABLE {x}", "HANDLER {x} OPEN", "HANDLER {x} READ FIRST", "HANDLER {x} CLOSE")
	}
	alias := strings.Trim(x, "`")
	alias = alias[strings.IndexByte(alias, '.')+1:]
	return strings.NewReplacer("{x}", x, "{n}", fmt.Sprint(g.digit()), "{alias}", alias, "{y}", g.table()).Replace(list[g.choose(len(list))])
}
