package rewrite

import "testing"

func TestUnordered(t *testing.T) {
	for text, want := range map[string]bool{
		"SELECT * FROM t": true,
		"select a from t where b in (select b from u order by b)":                  true,
		"SELECT * FROM t LIMIT 1":                                                  true,
		"SELECT DISTINCT a FROM t":                                                 true,
		"SELECT a FROM t JOIN u USING (a)":                                         true,
		"SELECT a, (SELECT COUNT(*) FROM u) FROM t":                                true,
		"SELECT a, COUNT(*) FROM t GROUP BY a":                                     true,
		"SELECT COUNT(*) OVER () FROM t":                                           true,
		"SELECT COUNT(*) OVER (ORDER BY a) FROM t":                                 true,
		"SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM u":                      true,
		"(SELECT a FROM t)":                                                        true,
		"TABLE t":                                                                  true,
		"WITH x AS (SELECT a FROM t ORDER BY a) SELECT * FROM x":                   true,
		"SELECT GROUP_CONCAT(a) FROM t":                                            true,
		"SELECT COUNT(*), GROUP_CONCAT(a) FROM t":                                  true,
		"SELECT `order` FROM t -- ORDER BY a":                                      true,
		"SELECT 'x ORDER BY a' FROM t":                                             true,
		"SELECT EXTRACT(YEAR FROM a) FROM t":                                       true,
		"SELECT count FROM t":                                                      true,
		"SELECT * FROM t ORDER BY a":                                               false,
		"SELECT * FROM t order\n\tby a LIMIT 3 FOR UPDATE":                         false,
		"(SELECT * FROM t ORDER BY a)":                                             false,
		"(SELECT a FROM t) UNION ALL (SELECT a FROM u) ORDER BY a":                 false,
		"SELECT a FROM t UNION SELECT a FROM u ORDER BY 1":                         false,
		"TABLE t ORDER BY a":                                                       false,
		"WITH x AS (SELECT a FROM t) SELECT * FROM x ORDER BY a":                   false,
		"SELECT COUNT(*) FROM t":                                                   false,
		"SELECT MAX(a) + 1, IFNULL(sum(b), 0) FROM t WHERE a IN (SELECT a FROM u)": false,
		"SELECT COUNT(*) FROM (SELECT DISTINCT a FROM t) d":                        false,
		"SELECT GROUP_CONCAT(a ORDER BY a) FROM t":                                 false,
		"SELECT EXISTS(SELECT 1 FROM t)":                                           false,
		"SELECT 1":                                                                 false,
	} {
		if got := Unordered([]byte(text), 0); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestInserts(t *testing.T) {
	for text, want := range map[string]string{
		"INSERT INTO t VALUES (1)":                                ".t",
		"insert ignore into `db`.`t` (a) SELECT a FROM u":         "db.t",
		"INSERT t SET a = 1":                                      ".t",
		"REPLACE LOW_PRIORITY INTO t VALUES (1), (2)":             ".t",
		"LOAD DATA LOCAL INFILE 'into.csv' INTO TABLE t (a)":      ".t",
		"LOAD DATA INFILE 'x' REPLACE INTO TABLE db . t":          "db.t",
		"UPDATE t SET a = 1":                                      "",
		"DELETE FROM t":                                           "",
		"SELECT a INTO @a FROM t":                                 "",
		"LOAD INDEX INTO CACHE t":                                 "",
		"INSERT INTO `a-b` VALUES (1)":                            "",
		"/* INSERT INTO u */ INSERT /* here */ INTO t VALUES (1)": ".t",
	} {
		got := ""
		if n, ok := Inserts([]byte(text), 0); ok {
			got = string(n.Schema) + "." + string(n.Name)
		}
		if got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// What is asked of every statement that names a temporary table must not allocate.
func TestReadsAllocations(t *testing.T) {
	for _, text := range []string{"SELECT a, COUNT(*) FROM t WHERE b IN (1, 2, 3) GROUP BY a", "INSERT INTO db.t VALUES (1)"} {
		b := []byte(text)
		if n := testing.AllocsPerRun(100, func() { Unordered(b, 0); Inserts(b, 0) }); n != 0 {
			t.Errorf("%s: allocates %v times", text, n)
		}
	}
}

func BenchmarkUnordered(b *testing.B) {
	text := []byte("SELECT t.a, t.b, u.c FROM t JOIN u ON t.a = u.a WHERE t.b > 17 AND u.c LIKE 'x%' LIMIT 100")
	b.ReportAllocs()
	for b.Loop() {
		Unordered(text, 0)
	}
}
