package record

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files anew")

// statements whose masked form is kept in testdata/mask.txt.
var statements = []string{
	"SELECT 1",
	"SELECT a, 'O''Brien', \"say \\\"hi\\\"\", N'x' FROM t WHERE id = 4711 AND b > -3.50 AND c IN (0, 1, 2, 1e10)",
	"INSERT INTO `orders` (`a 1`, b) VALUES (12, '2024-02-29', '2024-02-29 23:59:59.123', '12:34'), (NULL, DEFAULT, TRUE, 'Ärger 日本 😀')",
	"SELECT * FROM t ORDER BY 2, 3 DESC LIMIT 10, 20",
	"SELECT a FROM t GROUP BY 1 WITH ROLLUP HAVING SUM(b) > 250 LIMIT 5 OFFSET 15",
	"SELECT CAST(a AS CHAR(20)), CAST(b AS DECIMAL(10,2)), CHAR(65, 66), CONVERT(c, DECIMAL(5,1)) FROM t",
	"CREATE TEMPORARY TABLE tmp_7 (a DECIMAL(10,2), b VARCHAR(255) DEFAULT 'secret text', c ENUM('red','green')) ENGINE=MEMORY MAX_ROWS=1000 COMMENT 'for Bob'",
	"CREATE TEMPORARY TABLE t2 (a INT(11)) AS SELECT * FROM customers WHERE id = 12345 LIMIT 7",
	"SET NAMES 'utf8mb4', @name = 'Alice', sql_mode = 'ANSI,STRICT_ALL_TABLES', @@session.wait_timeout = 28800, @n := 42",
	"SHOW VARIABLES LIKE 'character%'",
	"SELECT DATE_FORMAT(d, '%Y-%m-%d %H:%i'), x'CAFE', 0xdeadBEEF, b'1010', _utf8mb4'text' FROM t /* from order.php line 99 */ -- user 17\n WHERE e = 5",
	"SELECT /*+ MAX_EXECUTION_TIME(1000) */ /*!50003 99, */ a FROM t1 WHERE t1.col2 = 33 # Bob",
	"CREATE TEMPORARY TABLE h (a INT) /* tmpproxy:native */",
	`INSERT INTO j VALUES ('{"name": "Bob", "age": 42, "ok": true, "x": null, "tags": ["a1", ""]}', 'f47ac10b-58cc-4372-a567-0e02b2c3d479')`,
	"PREPARE s FROM 'SELECT * FROM t WHERE a = ''x y'' AND b = 99'; EXECUTE s USING @a",
	"SET @sql = 'INSERT INTO t VALUES (77, ''Bob'')', @Other = 'Select your gift, Bob'",
	"PREPARE s FROM @SQL; SET @sql = 'INSERT INTO t VALUES (77, ''Bob'')', @other = 'Select your gift, Bob', @sql := CONCAT('SELECT ', 'Bob Smith')",
	"EXECUTE IMMEDIATE 'SELECT 77'; EXECUTE IMMEDIATE @`o`; SET @o = \"SELECT 'Bob' FROM \\\"t\\\"\"; EXECUTE immediate USING 'Bob'",
	"CALL p('abc', 18446744073709551615, 99999999999999999999999)",
	"UPDATE t SET a = 127, b = 128, c = 255, d = 256, e = 2147483647, f = 2147483648, g = '007', h = '' WHERE i LIKE '%son\\_%'",
	"SELECT 'not closed",
	"SELECT 1a, a1, $x, 1.5e-3, .5 FROM `7`",
}

func TestMaskGolden(t *testing.T) {
	m := new(Masker) // with a key of zeros
	var b strings.Builder
	for _, s := range statements {
		fmt.Fprintf(&b, "%s\n%s\n\n", strings.ReplaceAll(s, "\n", "⏎"), strings.ReplaceAll(string(m.Statement([]byte(s), Lexical{})), "\n", "⏎"))
	}
	const file = "testdata/mask.txt"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("masked:\n%s", b.String())
	}
}

// TestMaskKeeps masks: no value stays, lengths and names do.
func TestMaskKeeps(t *testing.T) {
	m := new(Masker) // a random key would, now and then, have a short value stay
	values := regexp.MustCompile(`4711|O''Brien|Alice|secret text|Bob|12345|deadBEEF|f47ac10b|99999999999999|2024-02-29|Ärger|order\.php|x y`)
	for _, s := range statements {
		got := string(m.Statement([]byte(s), Lexical{}))
		if found := values.FindString(got); found != "" {
			t.Errorf("%q is left of %s: %s", found, s, got)
		}
		if !strings.Contains(s, "/*") && !strings.Contains(s, "--") && len(got) != len(s) {
			t.Errorf("%s has another length: %s", s, got)
		}
		again := string(m.Statement([]byte(s), Lexical{}))
		if again != got {
			t.Errorf("%s: first %s, then %s", s, got, again)
		}
	}
}

// TestMaskNumbers has numbers stay within their class, and different ones different.
func TestMaskNumbers(t *testing.T) {
	m := NewMasker()
	seen := map[uint64]uint64{}
	for n := range uint64(2000) {
		got := m.Uint(n)
		if before, ok := seen[got]; ok {
			t.Fatalf("%d and %d both become %d", before, n, got)
		}
		seen[got] = n
		if len(fmt.Sprint(got)) != len(fmt.Sprint(n)) || (n < 128) != (got < 128) || (n < 256) != (got < 256) {
			t.Fatalf("%d becomes %d", n, got)
		}
	}
	for _, n := range []uint64{1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		got := m.Uint(n)
		for _, border := range []uint64{1 << 31, 1 << 32, 1 << 63} {
			if (n < border) != (got < border) {
				t.Errorf("%d becomes %d, on the other side of %d", n, got, border)
			}
		}
	}
	if string(m.Text([]byte("4711"))) != string(m.Number([]byte("4711"))) {
		t.Error("a number becomes another one in a string")
	}
}

// TestMaskModes masks where quotes and backslashes mean something else.
func TestMaskModes(t *testing.T) {
	m := new(Masker)
	if got := string(m.Statement([]byte(`SELECT "col" FROM "t" WHERE a = 'x\' AND b = 'yy'`), Lexical{ANSIQuotes: true, NoBackslashEscapes: true})); !strings.HasPrefix(got, `SELECT "col" FROM "t" WHERE a = '`) ||
		!strings.Contains(got, `\' AND b = '`) || strings.Contains(got, "'yy'") {
		t.Errorf("got %s", got)
	}
}

func TestSensitive(t *testing.T) {
	for _, c := range []struct {
		text string
		want Handling
	}{
		{"SELECT 1", Keep},
		{"SET PASSWORD = 'x'", Omit},
		{"set /* */ password for u@h = password('x')", Omit},
		{"SET autocommit=0", Keep},
		{"SET @password = 'x'", Mask},
		{"SET GLOBAL validate_password_policy = LOW", Omit},
		{"SET @a = 1, rpl_password = 'x'", Omit},
		{"CREATE USER u IDENTIFIED BY 'x'", Omit},
		{"CREATE USER IF NOT EXISTS u", Omit},
		{"ALTER USER u IDENTIFIED WITH p AS 'x'", Omit},
		{"/*!50000 ALTER USER */ u IDENTIFIED BY 'x'", Omit},
		{"CREATE OR REPLACE USER u", Omit},
		{"GRANT ALL ON *.* TO u", Omit},
		{"GRANT ALL ON *.* TO u IDENTIFIED BY 'x'", Omit},
		{"CHANGE MASTER TO MASTER_PASSWORD='x'", Omit},
		{"CHANGE REPLICATION SOURCE TO SOURCE_USER='x'", Omit},
		{"START REPLICA USER='u' PASSWORD='x'", Omit},
		{"START SLAVE", Keep},
		{"CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x')", Omit},
		{"ALTER SERVER s OPTIONS (USER 'x')", Omit},
		{"CLONE INSTANCE FROM u@h:3306 IDENTIFIED BY 'x'", Omit},
		{"CREATE TABLE f (a INT) ENGINE=FEDERATED CONNECTION='mysql://u@h/d'", Omit},
		{"ALTER TABLE f CONNECTION 's'", Omit},
		{"SELECT 'mysql://joe:hunter2@host/'", Omit},
		{"CREATE TABLE users (name TEXT, password TEXT)", Mask},
		{"SELECT * FROM users WHERE password = 'x'", Mask},
		{"SELECT * FROM users WHERE hash = MD5('x')", Mask},
		{"INSERT INTO t VALUES (aes_encrypt('x', 'key'))", Mask},
		{"SELECT 1; SET PASSWORD = 'x'; SELECT 2", Omit},
		{"PREPARE s FROM 'SET PASSWORD = ''x'''", Omit},
		{"PREPARE s FROM 'ALTER USER u IDENTIFIED BY ?'", Omit},
		{"SET @s = 'ALTER USER u IDENTIFIED BY ''x'''", Omit},
		{"CREATE PROCEDURE p() SET PASSWORD = 'x'", Omit},
		{"DROP USER u", Omit},
		{"UPDATE t SET a = 'passage'", Keep},
		{"INSERT INTO tokens VALUES ('abc')", Keep},
		{"UPDATE s SET api_key = 'abc'", Mask},
	} {
		if got := Sensitive([]byte(c.text), Lexical{}); got != c.want {
			t.Errorf("%s: %d, want %d", c.text, got, c.want)
		}
	}
}

func FuzzMask(f *testing.F) {
	for _, s := range statements {
		f.Add(s)
	}
	m := NewMasker()
	f.Fuzz(func(t *testing.T, s string) {
		at := 0
		for _, tok := range tokens([]byte(s), Lexical{}) {
			if tok.start < at || tok.end <= tok.start || tok.end > len(s) {
				t.Fatalf("token %v behind %d of %q", tok, at, s)
			}
			at = tok.end
		}
		m.Statement([]byte(s), Lexical{})
		Sensitive([]byte(s), Lexical{ANSIQuotes: true, NoBackslashEscapes: true})
	})
}
