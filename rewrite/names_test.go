package rewrite

import (
	"bytes"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMentions(t *testing.T) {
	tests := []struct {
		text string
		want bool // of t1
	}{
		{"SELECT * FROM t1", true},
		{"SELECT * FROM T1", true},
		{"SELECT * FROM `t1`", true},
		{"SELECT * FROM db.t1", true},
		{"SELECT * FROM db . t1", true},
		{"SELECT * FROM .t1", true},
		{"TABLE t1", true},
		{"t1", true},
		{"SELECT * FROM t10", false},
		{"SELECT * FROM xt1, t1_, $t1, 1t1", false},
		{"SELECT t 1", false},
		{"", false},
		{"SELECT * FROM \xa0t1\xa0", true},
		{"SELECT 't1', \"t1\" /* t1 */", true},
		{"SELECT 1 -- t1", true},
		{"SELECT 1 /*!99999 , t1 */", true},
		{"PREPARE s FROM 'SELECT * FROM\\nt1'", true},
		{"SELECT @t1", true},
		{"CREATE TABLE x LIKE t1", true},
		{"LOAD DATA INFILE 't1' INTO TABLE x", true},

		// Qualifiers.
		{"SELECT t1.a FROM x", false},
		{"SELECT `t1`.`a` FROM x", false},
		{"SELECT \"t1\".a FROM x", false},
		{"SELECT T1.* FROM t1.x", false},
		{"SELECT t1.a FROM t1", true},
		{"SELECT t1.a FROM x, t1", true},
		{"SELECT db.t1.a FROM x", true},
		{"SELECT db. t1.a FROM x", true},
		{"SELECT db./**/t1.a FROM x", true},
		{"SELECT t1 .a FROM x", true},
		{"SELECT * FROM t1`.x`", true}, // an alias that begins with a dot
		{"LOAD DATA INFILE 't1.txt' INTO TABLE x", false},
		{"SELECT t1.nextval", true},
		{"SELECT `t1`. `currval`", true},
		{"SELECT t1.nextvalue FROM x", true},
		{"DECLARE x TYPE OF t1.a", true},
		{"x t1.a%TYPE", true},
		{"x t1.`a` % ROWTYPE", true},
		{"SELECT t1.a%2 FROM x", false},

		// Aliases.
		{"SELECT * FROM x AS t1", false},
		{"SELECT * FROM x as\tt1 JOIN y AS t2", false},
		{"SELECT * FROM x AS `t1`", false},
		{"SELECT * FROM x AS`t1`", false},
		{"SELECT t1.a FROM x AS t1 WHERE t1.b = 1", false},
		{"SELECT t1.a FROM x AS t1, t1", true},
		{"SELECT * FROM x t1", true},
		{"SELECT * FROM x AS\nt1", true}, // what is before the line's end may be a comment
		{"SELECT * FROM -- known as\nt1", true},
		{"SELECT * FROM /* as */ t1", true},
		{"SELECT * FROM x AS /**/ t1", true},
		{"SELECT 1 AS t1; SELECT * FROM t1", true},
		{"SELECT * FROM alias t1", true},
		{"SELECT * FROM \xc3\xa4as t1", true},
		{"SELECT * FROM x.as t1", true},
		{"SELECT @as t1", true},
		{"ast1", false},
		{"as t1", false},
		{"ALTER TABLE x RENAME AS t1", true},
		{"ALTER TABLE x rename /**/ as `t1`", true},
		{"SELECT * FROM {`x as `t1`y`}", true},
		{"CREATE TABLE x AS TABLE t1", true},
		{"WITH t1 AS (SELECT 1) SELECT * FROM t1", true},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			if got := Mentions([]byte(tt.text), "t1"); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
	t.Run("no name", func(t *testing.T) {
		if !Mentions(dml, "") {
			t.Error("nothing is not mentioned")
		}
	})
	t.Run("letters that lose their marks", func(t *testing.T) {
		for _, tt := range []struct {
			text, name string
			want       bool
		}{
			{"SELECT * FROM \u212aey", "key", true},
			{"SELECT * FROM \u212aey", "Kid", true}, // no closer look
			{"SELECT * FROM \u212aey", "other", false},
			{"SELECT * FROM t\u0130d", "tid", true},
			{"SELECT * FROM t\u0130d", "rank", false},
		} {
			if got := Mentions([]byte(tt.text), tt.name); got != tt.want {
				t.Errorf("%s in %s: %v", tt.name, tt.text, got)
			}
		}
	})
}

// TestMentionsLong makes sure that the time taken grows no faster than the text.
func TestMentionsLong(t *testing.T) {
	for _, piece := range []string{"x as t1 ", "t1.a ", "t1.", "tt1", "{ as t1", "rename as t2 ", "t", "t1         ."} {
		Mentions([]byte(strings.Repeat(piece, 1<<20/len(piece))), "t1")
	}
}

// TestMentionsAny puts a reference to a table among all sorts of other things: it must
// be found, and a text without the name must never be said to mention it.
func TestMentionsAny(t *testing.T) {
	noise := rapid.SampledFrom([]string{
		"SELECT", "a", "t10", "xt1", "t1.a", "`t1`.b", "x AS t1", "y AS `t1`", "'it''s'", "\"q\"", "/* c */", "/*! 1 */", "-- c\n",
		"# as\n", "(", ")", ",", "=", "1.5", "\xff", ";", "as", "`as`", "db.x", "\\", "{", "\n",
	})
	reference := rapid.SampledFrom([]string{
		"FROM t1", "FROM T1", "JOIN `t1`", "INTO db.t1", "INTO `db`.`t1`", "UPDATE\nt1", "TABLE/**/t1", ", t1 WHERE", "FROM t1 AS x",
		"FROM db . t1", "FROM/*!t1*/",
	})
	rapid.Check(t, func(t *rapid.T) {
		before := strings.Join(rapid.SliceOf(noise).Draw(t, "before"), " ")
		after := strings.Join(rapid.SliceOf(noise).Draw(t, "after"), " ")
		text := before + " " + reference.Draw(t, "reference") + " " + after
		if !Mentions([]byte(text), "t1") {
			t.Errorf("not found in %q", text)
		}
		if Mentions([]byte(text), "zzz") {
			t.Errorf("found in %q", text)
		}
	})
}

func FuzzMentions(f *testing.F) {
	for _, s := range []string{"SELECT * FROM t1", "x AS t1", "`t1`.a", "FROM db.T1", "\xa0t1\\n", "{as t1", "rename as t1", "t1.nextval", "t1.a%type"} {
		f.Add([]byte(s), "t1")
	}
	f.Add([]byte("select \u212a"), "k")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		got := Mentions(text, name)
		if !(Name{Name: name}).Plain() {
			return
		}
		folded := bytes.Contains(bytes.ToLower(text), []byte(strings.ToLower(name)))
		if special := bytes.Contains(text, kelvinSign) || bytes.Contains(text, dottedI); got && !folded && !special {
			t.Error("mentioned, but not there")
		}
		for _, text := range [][]byte{
			append(append([]byte{}, text...), "\n,"+strings.ToUpper(name)+" "...),
			append([]byte("TABLE "+name+"\n"), text...),
			append([]byte("TABLE `"+name+"`\n"), text...),
		} {
			if !Mentions(text, name) {
				t.Errorf("%q does not mention %q", text, name)
			}
		}
	})
}

func TestCallsFunction(t *testing.T) {
	tests := []struct {
		text string
		want bool
	}{
		{"SELECT 1", false},
		{"SELECT COUNT(*), max(a), CONCAT ('a', 'b') FROM t", false},
		{"SELECT f(1)", true},
		{"SELECT f (1)", true},
		{"SELECT f/**/(1)", true},
		{"SELECT f -- in\n(1)", true},
		{"SELECT f # in\n(1)", true},
		{"SELECT db.f(1)", true},
		{"SELECT db.abs(1)", true},
		{"SELECT db. abs(1)", true},
		{"SELECT db.\nabs(1)", true},
		{"SELECT db. -- x\n abs(1)", true},
		{"SELECT db./**/abs(1)", true},
		{"SELECT 1 AS a,\n  COUNT(*),\n  max(x)\nFROM t\nWHERE a IN (1, 2)", false},
		{"SELECT 1 -- really\n, COUNT(*)", false},
		{"SELECT `f`(1)", true},
		{"SELECT `db`.`f`(1)", true},
		{"SELECT `abs`(1)", true},
		{"SELECT \"f\"(1)", true},
		{"SELECT COUNT (*)", true}, // not the native one then
		{"SELECT 1 /*!50000 , f(1) */", true},
		{"SELECT f /*!99999 , abs */ (1)", true},
		{"SELECT 1 /*!50000 , abs(1) */", false},
		{"SELECT \xc3\xa4bs(1)", true},
		{"SELECT 1e5f(1)", true},
		{"SELECT HIGH_PRIORITY f(1)", true},
		{"SELECT a FROM t WHERE NOT f(1)", true},
		{"SELECT a FROM t JOIN u ON f(a)", true},
		{"SELECT a FROM t WHERE a IN (1) AND (b = 2) OR EXISTS (SELECT 1) AND NOT (c)", false},
		{"SELECT a FROM t JOIN u USING (id) WHERE (a, b) = (1, 2)", false},
		{"SELECT CASE WHEN (a) THEN (b) ELSE (c) END, IF(a, b, c), LEFT(a, 1), CAST(a AS CHAR(10))", false},

		{"CREATE TEMPORARY TABLE t (a VARCHAR(99), b INT, KEY (a(10), b), UNIQUE u (b), KEY `k` (`a` (5)))", false},
		{"CREATE TEMPORARY TABLE IF NOT EXISTS t (a VECTOR(3) DEFAULT (f(1)));", false}, // an error
		{"CREATE TEMPORARY TABLE t (a INT, UNIQUE u (a)) AS SELECT f(1)", true},
		{"CREATE TEMPORARY TABLE t (a INT) VALUES ROW(f(1))", true},
		{"CREATE TEMPORARY TABLE t (a INT, UNIQUE u (a)); SELECT f(1)", true},
		{"CREATE TEMPORARY TABLE t (a INT /*!50000 , UNIQUE u (a) */)", true},
		{"CREATE TABLE t (a INT, UNIQUE u (a))", true},

		{"INSERT INTO t (a, b) VALUES (1, 'f(1)'), (2, \"f(1)\")", false},
		{"INSERT INTO db.t(a) SELECT COUNT(*) FROM u", false},
		{"INSERT INTO `db`.`t` (`a`) VALUES (NOW())", false},
		{"INSERT t (a) VALUES (1)", false},
		{"INSERT IGNORE t(a) VALUES (f(1))", true},
		{"REPLACE t (a) VALUES (1)", false},
		{"INSERT INTO t VALUES ('some text (in parentheses)') -- and (more)", false},
		{"INSERT INTO t (a) VALUES (1) AS n (x) ON DUPLICATE KEY UPDATE a = n.x", false},
		{"INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES(a)", false},
		{"WITH c (a) AS (SELECT 1) SELECT * FROM c", false},
		{"WITH RECURSIVE c(a) AS (SELECT 1) SELECT * FROM c", false},
		{"WITH c (a) AS (SELECT f(1)) SELECT * FROM c", true},
		{"CREATE TABLE t (a INT(10), b VARCHAR(3), c DECIMAL(10,2), d ENUM('x'), KEY k (a), INDEX(b))", false},
		{"CREATE TABLE IF NOT EXISTS t (a INT)", false},
		{"SELECT 'a' 'f(1) \\' g(2)'", false},
		{"SELECT 'f(1)", true},          // unterminated
		{`SELECT "\" , f(1) , "`, true}, // depends on ANSI_QUOTES
		{"SELECT \"a\\'b (c)\"", false},
		{"SELECT any_value(a), uuid_to_bin(b), md5(c)", true}, // md5 has left MySQL
		{"", false},
		{"(", false},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			if got := CallsFunction([]byte(tt.text), 0); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
	for _, tt := range []struct {
		text string
		mode Mode
		want bool
	}{
		{"CREATE OR REPLACE TEMPORARY TABLE t (a INT, UNIQUE u (a)) ENGINE=MEMORY", MariaDB, false},
		{"CREATE OR REPLACE TEMPORARY TABLE t (a INT, UNIQUE u (a)) TABLE f(1)", MariaDB, true},
		{"SELECT any_value(a), uuid_to_bin(b)", 0, false},
		{"SELECT any_value(a)", MariaDB, true},
		{"SELECT md5(a), nvl(b, 1)", MariaDB, false},
		{"SELECT nvl(b, 1)", 0, true},
		{`LOAD DATA INFILE 'x' INTO TABLE t LINES TERMINATED BY "," (a)`, MariaDB, false},
		{`LOAD DATA INFILE 'x' INTO TABLE t LINES TERMINATED BY "," (a)`, MariaDB | ANSIQuotes, true},
		{`LOAD DATA INFILE 'x' INTO TABLE t LINES TERMINATED BY "," (a)`, 0, true},
		{"SELECT [f](1)", MariaDB, true},
		{"SELECT 1 AS [a'b], f(1), 'c'", MariaDB, true},
		{"SELECT '[1]', abs(1)", MariaDB, false},
		{`SELECT 'a\' , f(1) , '`, 0, false},
		{`SELECT 'a\' , f(1) , '`, NoBackslashEscapes, true},
	} {
		if got := CallsFunction([]byte(tt.text), tt.mode); got != tt.want {
			t.Errorf("%s in mode %d: %v", tt.text, tt.mode, got)
		}
	}
}

// TestMayCall makes sure that the quick look never clears what the full reading does
// not.
func TestMayCall(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"SELECT", "abs", "count", "f", "db", ".", "(", ")", ",", " ", "\n", "'", "\"", "`", "/*", "*/", "/*!", "--", "-- ", "#",
		"INTO", "t", "\\", "1", "1e5", "\xe4", "@", ";", "in",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "text"), ""))
		mode := Mode(rapid.IntRange(0, 7).Draw(t, "mode"))
		s := newScanner(text, mode)
		if s.calls() && !s.doubtful && !s.ambiguous && !mayCall(text, mode) {
			t.Errorf("%q calls a function", text)
		}
	})
}

func TestWords(t *testing.T) {
	for w, flags := range words {
		if w != strings.ToLower(w) || len(w) > longestWord {
			t.Errorf("%q cannot be found", w)
		}
		if flags&isNativeAdjacent != 0 && flags&(isNativeMySQL|isNativeMariaDB) == 0 {
			t.Errorf("%q is native nowhere", w)
		}
	}
	for _, w := range []string{"SELECT", "concat", "Count", "VARCHAR"} {
		if !isNative([]byte(w), 0, true) || !isNative([]byte(w), MariaDB, true) {
			t.Errorf("%s is not native", w)
		}
	}
	if isNative([]byte(strings.Repeat("x", longestWord+1)), 0, true) {
		t.Error("a long word is native")
	}
}

func TestReadsDiagnostics(t *testing.T) {
	tests := []struct {
		text string
		want bool
	}{
		{"SELECT ROW_COUNT()", true},
		{"select row_count ( )", true},
		{"SELECT @@warning_count", true},
		{"SELECT @@session.`Error_Count`", true},
		{"GET DIAGNOSTICS @a = NUMBER", true},
		{"SHOW WARNINGS", true},
		{"show count(*) errors", true},
		{"/*! SHOW */ WARNINGS", true},
		{"SHOW VARIABLES LIKE '%count'", true},
		{"SELECT FOUND_ROWS(), LAST_INSERT_ID()", false},
		{"SELECT errors, warnings FROM t", false},
		{"SHOW TABLES", false},
		{"", false},
	}
	for _, tt := range tests {
		if got := ReadsDiagnostics([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: %v", tt.text, got)
		}
	}
}

func TestReadsTables(t *testing.T) {
	tests := []struct {
		text string
		want bool
	}{
		{"SELECT * FROM information_schema.tables", true},
		{"SELECT * FROM `INFORMATION_SCHEMA` . COLUMNS", true},
		{"SELECT * FROM TABLES", true},
		{"SHOW FULL TABLES", true},
		{"SHOW TABLE STATUS", true},
		{"SELECT * FROM tables_1 WHERE status = 1", false},
		{"SHOW CREATE TABLE t", false},
	}
	for _, tt := range tests {
		if got := ReadsTables([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: %v", tt.text, got)
		}
	}
}

func TestOpaqueCharset(t *testing.T) {
	for name, want := range map[string]bool{
		"utf8mb4": false, "UTF8": false, "'latin1'": false, "utf8mb4 COLLATE utf8mb4_bin": false, "binary": false, "ujis": false,
		"euckr": false, "45": false, "255": false,
		"sjis": true, "CP932": true, "'big5'": true, "\"gbk\"": true, "gb18030": true, "swe7": true, "ucs2": true, "28": true,
		"gbk COLLATE gbk_bin": true, "": true, "DEFAULT": true, "klingon": true,
	} {
		if got := OpaqueCharset(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestOpaqueCollation(t *testing.T) {
	for _, id := range []uint16{1, 84, 13, 88, 28, 87, 95, 96, 248, 249, 250, 0, 10, 1024 + 1, 1024 + 28, 1024 + 88, 35, 101, 160} {
		if !OpaqueCollation(id) {
			t.Errorf("%d is not opaque", id)
		}
	}
	for _, id := range []uint16{8, 33, 45, 46, 63, 192, 224, 255, 309, 1024 + 8, 2304} {
		if OpaqueCollation(id) {
			t.Errorf("%d is opaque", id)
		}
	}
}

func TestNamesAllocs(t *testing.T) {
	long := []byte("SELECT `t1`.a, COUNT(*), f (1), db.abs(2) FROM x AS t1 WHERE y = 'z (' -- temp_blob_chunk, t1\n")
	for name, f := range map[string]func(text []byte){
		"Mentions":         func(text []byte) { Mentions(text, "temp_blob_chunk"); Mentions(text, "t1") },
		"CallsFunction":    func(text []byte) { CallsFunction(text, 0) },
		"ReadsDiagnostics": func(text []byte) { ReadsDiagnostics(text) },
		"ReadsTables":      func(text []byte) { ReadsTables(text) },
	} {
		for _, text := range [][]byte{dml, long} {
			if n := testing.AllocsPerRun(100, func() { f(text) }); n != 0 {
				t.Errorf("%s: %v allocations for %s", name, n, text)
			}
		}
	}
}

func BenchmarkMentions(b *testing.B) {
	for _, text := range [][]byte{dml, bytes.Repeat(dml, 100)} {
		b.Run("", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Mentions(text, "temp_blob_chunk")
			}
		})
	}
}

func BenchmarkCallsFunction(b *testing.B) {
	for name, text := range map[string][]byte{"plain": []byte("SELECT COUNT(*), MAX(a) FROM t WHERE b IN (1, 2)"), "full": dml} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				CallsFunction(text, 0)
			}
		})
	}
}

// TestFinder finds words by the letter that is taken for the rarest, wherever it is in them, as strings.Index finds them in lower case.
func TestFinder(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 100_000 {
		text, word := make([]byte, random.Intn(30)), make([]byte, 1+random.Intn(4))
		for _, b := range [][]byte{text, word} {
			for i := range b {
				b[i] = "aAeE_zZ1"[random.Intn(8)]
			}
		}
		var got, want []int
		f := newFinder(text, string(word))
		for i := f.find(0); i >= 0; i = f.find(i + 1) {
			got = append(got, i)
		}
		for i := range text {
			if strings.HasPrefix(strings.ToLower(string(text[i:])), strings.ToLower(string(word))) {
				want = append(want, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q in %q: %v, want %v", word, text, got, want)
		}
	}
}
