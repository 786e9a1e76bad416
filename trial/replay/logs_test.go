package replay

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// read returns what Open makes of a text, in a few words.
func read(t *testing.T, text string) (kind string, list []string) {
	t.Helper()
	s, kind, err := Open(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for {
		rec, part, err := s.Next()
		if err == io.EOF {
			return kind, list
		}
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%d %d %s", rec.Session, rec.At, rec.Kind)
		for _, v := range []string{string(rec.Text), rec.User, rec.Schema, rec.Client} {
			if v != "" {
				line += " " + v
			}
		}
		if rec.Joined {
			line += " joined"
		}
		if rec.Took > 0 {
			line += fmt.Sprintf(" took %d", rec.Took)
		}
		if part {
			line += " new part"
		}
		list = append(list, line)
	}
}

func TestOpen(t *testing.T) {
	for name, c := range map[string]struct{ text, kind, want string }{
		"recording": {`{"tmpproxy_recording":1,"began":"2026-01-01T00:00:00Z"}` + "\n" + `{"kind":"query","session":1,"at":3,"text":"SELECT 1"}` + "\n", Recording, "1 3 query SELECT 1"},
		"general log of MySQL": {`/usr/sbin/mysqld, Version: 9.7.4 (Debian). started with:
Tcp port: 3306  Unix socket: /s
Time                 Id Command    Argument
2026-11-30T23:18:32.000000Z	    9 Connect	shop@10.0.0.7 on shop using TCP/IP
2026-11-30T23:18:32.000100Z	   10 Query	SELECT 'joined'
2026-11-30T23:18:32.000200Z	    9 Query	INSERT INTO t VALUES (1),
	    9 Quit	of a text
 (2);
2026-11-30T23:18:32.000300Z	    9 Query	PREPARE s FROM ...
2026-11-30T23:18:32.000400Z	    9 Prepare	SELECT ?
2026-11-30T23:18:32.000500Z	    9 Query	EXECUTE s USING @a
2026-11-30T23:18:32.000600Z	    9 Execute	SELECT 1
2026-11-30T23:18:32.000700Z	    9 Init DB	other
2026-11-30T23:18:32.000800Z	    9 Query	CREATE USER u IDENTIFIED WITH 'p' AS '<secret>'
2026-11-30T23:18:32.000900Z	    9 Change user	root@localhost on  using TCP/IP
2026-11-30T23:18:32.001000Z	    9 Reset Connection	
2026-11-30T23:18:32.001100Z	    9 Quit	
2026-11-30T23:18:33.000000Z	   11 Connect	Access denied for user 'x'@'h'
`, GeneralLog, `9 0 begin shop shop 10.0.0.7
10 100 begin joined
10 100 query SELECT 'joined'
9 200 query INSERT INTO t VALUES (1),
	    9 Quit	of a text
 (2)
9 600 query SELECT 1
9 700 initdb other
9 800 omitted
9 900 changeuser root
9 1000 reset
9 1100 end`},
		"general log of MariaDB": {"Time\t\t    Id Command\tArgument\n261130 23:17:47\t     4 Connect\troot@localhost on logged using TCP/IP\n\t\t     4 Query\tSELECT\n1\n261130  3:17:49\t     4 Quit\t\n",
			GeneralLog, "4 0 begin root logged localhost\n4 0 query SELECT\n1\n4 0 end"},
		"slow log of MySQL": {`# Time: 2026-11-30T23:18:32.000100Z
# User@Host: shop[shop] @ web [10.0.0.7]  Id:     8
# Query_time: 0.000018  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0
use shop;
SET timestamp=1796080712;
SELECT a,
# Time: nothing
 b;
# Time: 2026-11-30T23:18:32.000200Z
# User@Host: shop[shop] @ web [10.0.0.7]  Id:     9
# Query_time: 0.000018  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0
SET timestamp=1796080712;
SELECT 2;
# Time: 2026-11-30T23:18:32.000300Z
# User@Host: shop[shop] @ web [10.0.0.7]  Id:     8
# Query_time: 0.000001  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0
use other;
SET timestamp=1796080712;
SELECT 3;
# Time: 2026-11-30T23:18:32.000300Z
# User@Host: shop[shop] @ web [10.0.0.7]  Id:     8
# Query_time: 0.000001  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0
SET timestamp=1796080712;
# administrator command: Quit;
`, SlowLog, `8 0 begin shop shop web joined
8 0 query SELECT a,
# Time: nothing
 b took 18
9 82 begin shop shop web joined
9 82 query SELECT 2 took 18
8 199 initdb other
8 199 query SELECT 3 took 1
8 200 end`},
		"slow log of MariaDB": {`# Time: 261130 23:17:47
# User@Host: root[root] @ localhost [127.0.0.1]
# Thread_id: 3  Schema: s  QC_hit: No
# Query_time: 0.000056  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 0  Bytes_sent: 11
SET timestamp=1796080667;
SELECT 1;
# User@Host: root[root] @ localhost [127.0.0.1]
# Thread_id: 4  Schema:   QC_hit: No
# Query_time: 0.000001  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 0  Bytes_sent: 11
use t;
SET last_insert_id=1,insert_id=2,timestamp=1796080667;
INSERT INTO x VALUES (NULL);
`, SlowLog, `3 0 begin root s localhost joined
3 0 query SELECT 1 took 56
4 0 begin root t localhost joined
4 0 query INSERT INTO x VALUES (NULL) took 1`},
	} {
		t.Run(name, func(t *testing.T) {
			kind, list := read(t, c.text)
			if got := strings.Join(list, "\n"); kind != c.kind || got != c.want {
				t.Errorf("a %s:\n%s\nwant a %s:\n%s", kind, got, c.kind, c.want)
			}
		})
	}
	for _, text := range []string{"", "SELECT 1;\n", "\x00\x01"} {
		if _, _, err := Open(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "neither a recording") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add("261130 23:17:47\t     4 Connect\troot@localhost on logged\n\t\t     4 Query\tSELECT\n1\n")
	f.Add("# Time: 1\n# User@Host: a[b] @ c [d]  Id: 1\n# Query_time: 1\nuse x;\nSELECT 1;\n# User@Host: \n")
	f.Fuzz(func(t *testing.T, text string) {
		s, _, err := Open(strings.NewReader(text))
		if err != nil {
			return
		}
		for {
			if _, _, err := s.Next(); err != nil {
				return
			}
		}
	})
}
