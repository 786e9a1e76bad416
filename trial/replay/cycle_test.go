package replay

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"tmpproxy/trial/record"
)

// list is a source in memory.
type list []record.Record

func (l *list) Next() (record.Record, bool, error) {
	if len(*l) == 0 {
		return record.Record{}, false, io.EOF
	}
	rec := (*l)[0]
	*l = (*l)[1:]
	return rec, false, nil
}

func TestPermanent(t *testing.T) {
	for text, want := range map[string]int{
		"SELECT 1": 0,
		"CREATE TEMPORARY TABLE t (a INT); INSERT INTO t VALUES (1); UPDATE t SET a = 2; DELETE FROM t; TRUNCATE t; DROP TEMPORARY TABLE t": 0,
		"CREATE TEMPORARY TABLE db.t (a INT); INSERT IGNORE INTO `t` SELECT * FROM u; DROP TABLE t":                                         0,
		"DROP TEMPORARY TABLE IF EXISTS t": 0,
		"DROP TABLE IF EXISTS t":           1,
		"INSERT INTO t VALUES (1)":         1,
		"CREATE TEMPORARY TABLE t (a INT); DROP TEMPORARY TABLE t; INSERT INTO t VALUES (1)": 1,
		"CREATE TABLE t (a INT)":  1,
		"CALL p()":                1,
		"UPDATE t, u SET t.a = 1": 1,
		"CREATE TEMPORARY TABLE t (a INT); INSERT INTO u SELECT * FROM t": 1,
		"SET @a = 1": 0,
		"CREATE TEMPORARY TABLE t (a INT); CREATE INDEX i ON t (a); ALTER TABLE t ADD b INT; LOAD DATA LOCAL INFILE 'f' INTO TABLE t": 0,
	} {
		n, _, err := Permanent(&list{{Kind: record.Begin, Session: 1}, {Kind: record.Query, Session: 1, Text: record.Text(text)}})
		if err != nil || n != want {
			t.Errorf("%s: %d, want %d, %v", text, n, want, err)
		}
	}
	n, first, err := Permanent(&list{{Kind: record.Begin, Session: 1}, {Kind: record.Prepare, Session: 1, Statement: 2, Text: record.Text("INSERT INTO t VALUES (?, 1)")},
		{Kind: record.Execute, Session: 1, Statement: 2}, {Kind: record.Execute, Session: 1, Statement: 2}})
	if err != nil || n != 2 || first != "INSERT INTO t VALUES (?, ?)" && first != "INSERT INTO t VALUES (?)" {
		t.Errorf("prepared: %d, %q, %v", n, first, err)
	}
}

func TestCycles(t *testing.T) {
	l := latencies{}
	tr := tracker{tables: map[string]*cycle{}}
	say := func(text string, ms int) { tr.statement([]byte(text), false, time.Duration(ms)*time.Millisecond, l) }
	for range 3 {
		say("CREATE TEMPORARY TABLE IF NOT EXISTS `t` (a INT)", 10)
		say("INSERT INTO t VALUES (1)", 20)
		say("SELECT 1", 500)
		say("SELECT * FROM t", 30)
		say("DROP TEMPORARY TABLE t", 40)
	}
	say("DROP TEMPORARY TABLE IF EXISTS t", 1)
	say("UPDATE p SET a = 1", 1)
	say("COMMIT", 1)
	tr.statement([]byte("CREATE TEMPORARY TABLE u (a INT)"), true, 1, l)
	say("SELECT * FROM u", 1)
	want := map[string]int{"create": 4, "drop": 4, "use": 6, "cycle": 3, "cycle: create + drop": 3, "other reads": 4, "other writes": 1, "other": 1}
	for class, n := range want {
		if l[class] == nil || l[class].n != n {
			t.Errorf("%s: %+v, want %d", class, l[class], n)
		}
	}
	for class, ms := range map[string]float64{"cycle": 100, "cycle: create + drop": 50, "use": 20} {
		if got := l[class].quantile(0.4).Seconds() * 1000; got < ms*0.985 || got > ms*1.015 {
			t.Errorf("%s: %v ms, want %v", class, got, ms)
		}
	}
	for class := range l {
		if !slices.Contains(classes, class) {
			t.Errorf("%s is not printed", class)
		}
	}
	if got := fmt.Sprint(dropped("DROP TABLE a, `b`.`C` CASCADE")); got != "[a c]" {
		t.Errorf("dropped %s", got)
	}
}
