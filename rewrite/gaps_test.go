package rewrite

import (
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/parser"
)

// TestGaps makes sure that each gap is one: the parser does not take the form as it is,
// and takes what stands for it.
func TestGaps(t *testing.T) {
	const strange = "(cast(a AS INET6) IS NULL)" // an expression that the parser does not take
	for _, g := range gaps {
		form := strings.ReplaceAll(g.words, "*", "concat")
		switch g.argument {
		case argumentParens:
			form += map[bool]string{true: "(2)", false: strange}[g.words == "YEAR"]
		case argumentString:
			form += "'2000-01-01'"
		case argumentValue:
			form += map[bool]string{true: "=PAGE", false: "=1"}[g.words == "ROW_FORMAT"]
		case argumentOptional:
			form += "=zlib"
		}
		text := "CREATE TEMPORARY TABLE t "
		if g.place == placeHead || g.words == "SERIAL DEFAULT VALUE" {
			continue // the one is always filled; see the golden file. The other is no gap
		}
		switch g.place {
		case placeElement:
			if g.argument == argumentNone {
				form += " (a)"
			}
			text += "(a INT, " + form + ", b INT)"
		case placeType:
			text += "(`b` " + form + " NOT NULL, a INT)"
		case placeColumn:
			kind := "INT "
			switch {
			case strings.HasPrefix(g.instead, "CHARACTER"):
				kind = "CHAR(9) "
			case g.words == "PERSISTENT":
				kind = "INT AS (b + 1) "
			}
			text += "(a " + kind + form + ", b INT)"
		case placeKey:
			text += "(a INT, CONSTRAINT c " + map[bool]string{true: "", false: "UNIQUE (a) "}[g.words == "CHECK"] + form + ")"
		case placeOption:
			text += "(a INT) MAX_ROWS=1, " + form + ", MIN_ROWS=1"
		default:
			t.Fatalf("%s is nowhere", g.words)
		}
		t.Run(form, func(t *testing.T) {
			p := parser.New()
			plain, refused := parserText([]byte(text), MariaDB, false)
			if _, reason := parse(p, plain, MariaDB); reason == ReasonNone || refused != 0 {
				t.Errorf("%s: no gap", plain)
			}
			filled, refused := parserText([]byte(text), MariaDB, true)
			if _, reason := parse(p, filled, MariaDB); reason != ReasonNone || refused != g.refused {
				t.Errorf("%s becomes %s: %s, %b", text, filled, reason, refused)
			}
			apart, _ := parserText([]byte(strings.ReplaceAll(text, " ", " /* ENGINE=x */ ")), MariaDB, true)
			if apart != filled {
				t.Errorf("with comments %s becomes %s", text, apart)
			}
		})
	}
}

// TestParserText shows what the parser gets to see.
func TestParserText(t *testing.T) {
	for _, test := range []struct{ text, plain, filled string }{
		{"CREATE TABLE t (a UUID, `b` uuid)", "=", "CREATE TABLE t (`a` BINARY(16) , `b` BINARY(16) )"},
		{"CREATE TABLE uuid (uuid UUID, point INT)", "=", "CREATE TABLE uuid (`uuid` BINARY(16) , `point` INT)"},
		{"CREATE TABLE t (a INT, UUID INT, KEY uuid (uuid)) COMMENT='UUID'", "=", "CREATE TABLE t (`a` INT, `UUID` INT, KEY `uuid` (`uuid`)) COMMENT='UUID'"},
		{"CREATE TABLE t (a CHAR(3) CHARSET x COLLATE 'y')CHARSET=z", "CREATE TABLE t (a CHAR(3) CHARSET utf8mb4 COLLATE utf8mb4_bin )CHARSET utf8mb4", ""},
		{"CREATE TABLE t (charset INT, collate INT)", "=", ""},
		{"CREATE TABLE t (a CHAR(3)CHARSET`x`COLLATE'y'NOT NULL)", "CREATE TABLE t (a CHAR(3)CHARSET utf8mb4 COLLATE utf8mb4_bin NOT NULL)", ""},
		{"CREATE TABLE t (a INT DEFAULT(1)NOT NULL)", "=", "CREATE TABLE t (`a` INT DEFAULT 0 NOT NULL)"},
		{"CREATE TABLE t (a INT DEFAULT (1 + (2)) CHECK (a > (1)), b INT)", "=", "CREATE TABLE t (`a` INT DEFAULT 0 CHECK (1) , `b` INT)"},
		{"CREATE TABLE t (a INT DEFAULT (1", "=", "CREATE TABLE t (`a` INT DEFAULT 0"},
		{"CREATE TABLE t (a INET6(6), b INT DEFAULT a, c INT SERIAL DEFAULT VALUE, d INT DEFAULT current_time)", "=",
			"CREATE TABLE t (`a` BINARY(16) , `b` INT DEFAULT 0 , `c` INT NOT NULL AUTO_INCREMENT UNIQUE , `d` INT DEFAULT 0 )"},
		{"CREATE TABLE t (a INT DEFAULT 1, b INT DEFAULT -1)", "=", "CREATE TABLE t (`a` INT DEFAULT 1, `b` INT DEFAULT -1)"},
		{"CREATE TABLE t (a INT, KEY (a(5), (a + rank)), period INT)", "=", "CREATE TABLE t (`a` INT, KEY (`a`(5), (a + rank)), `period` INT)"},
		{"CREATE TABLE t (a INT COMPRESSED, b INT COMPRESSED)", "=", "CREATE TABLE t (`a` INT  , `b` INT  )"},
		{"CREATE TABLE t (a INT) TRANSACTIONAL", "=", "CREATE TABLE t (`a` INT) TRANSACTIONAL"},
		{"CREATE TABLE t (a INT) ENCRYPTED=,", "=", "CREATE TABLE t (`a` INT) ENCRYPTED=,"},
	} {
		want := test.plain
		if want == "=" {
			want = test.text
		}
		if got, _ := parserText([]byte(test.text), MariaDB, false); want != "" && got != want {
			t.Errorf("%s\ngot  %s\nwant %s", test.text, got, want)
		}
		if got, _ := parserText([]byte(test.text), MariaDB, true); test.filled != "" && got != test.filled {
			t.Errorf("%s filled\ngot  %s\nwant %s", test.text, got, test.filled)
		}
	}
}
