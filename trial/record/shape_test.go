package record

import "testing"

func TestShape(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1":    "SELECT ?",
		"SELECT  1 ;": "SELECT ?",
		"select /* c */ a\n\tfrom t where b = 'x' and c in (1, 2,3) -- end": "select a from t where b = ? and c in (?)",
		"INSERT INTO t VALUES (1,'a'),(2,'b'), (3, NULL)":                   "INSERT INTO t VALUES (?), (?, NULL)",
		"INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')":                 "INSERT INTO t VALUES (?)",
		"DROP TEMPORARY TABLE IF EXISTS `t 1`":                              "DROP TEMPORARY TABLE IF EXISTS `t 1`",
		"SELECT f(a, 1), b.c":                                               "SELECT f(a, ?), b.c",
	} {
		if got := Shape([]byte(text), Lexical{}); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
