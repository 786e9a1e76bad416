//go:build realserver

package tests

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
)

// profiles are the capabilities that tests of the protocol ask for.
var profiles = []struct {
	name         string
	capabilities uint32
	mariadb      uint32
}{
	{name: "classic", capabilities: rawclient.Classic},
	{name: "modern", capabilities: rawclient.Modern},
	{name: "extended", capabilities: rawclient.Modern | mysql.CLIENT_OPTIONAL_RESULTSET_METADATA,
		mariadb: rawclient.MariaDBProgress | rawclient.MariaDBBulkOperations | rawclient.MariaDBExtendedMetadata |
			rawclient.MariaDBCacheMetadata | rawclient.MariaDBBulkUnitResults},
	{name: "extended-classic", capabilities: rawclient.Classic | mysql.CLIENT_OPTIONAL_RESULTSET_METADATA,
		mariadb: rawclient.MariaDBExtendedMetadata | rawclient.MariaDBCacheMetadata},
}

// TestCommands sends every command directly and through the proxy.
func TestCommands(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		t.Cleanup(func() {
			if err := s.Exec(context.Background(), "DROP DATABASE IF EXISTS recorded", "DROP USER IF EXISTS recorded_plain", "DROP USER IF EXISTS recorded_secret"); err != nil {
				t.Error(err)
			}
		})
		for _, profile := range profiles {
			t.Run(profile.name, func(t *testing.T) {
				extended := strings.HasPrefix(profile.name, "extended")
				all := func(address string) (names []string, replies []rawclient.Reply) {
					executeDirectly(t, s, recordedSetup...)
					config := configure(s, address, "recorded")
					config.Capabilities, config.MariaDB = profile.capabilities, profile.mariadb
					config.LocalInfile = func(name string) []byte {
						if name == "empty" {
							return nil
						}
						return []byte("one\ntwo\nthree\n")
					}
					c := connect(t, config)
					defer c.Close()
					for _, e := range exchanges(kind, extended) {
						if e.name == "progress" || e.name == "show-create-table" { // a story; it tells the engine
							continue
						}
						reply, err := e.do(c)
						if err != nil {
							t.Fatalf("%s: %v", e.name, err)
						}
						switch e.name {
						case "statistics", "process-info": // what the server is at
							if reply.Text != nil {
								reply.Text = new(string)
							}
							for i := range reply.Results {
								reply.Results[i].Rows = nil
							}
							reply.Packets = 0
						}
						unnumbered(&reply)
						names = append(names, e.name)
						replies = append(replies, reply)
					}
					return names, replies
				}
				names, want := all(s.Address)
				for _, d := range drivers {
					t.Run(d, func(t *testing.T) {
						p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
						_, got := all(p.Address)
						for i, name := range names {
							sameReply(t, name, want[i], got[i], strings.HasPrefix(name, "execute") || strings.HasPrefix(name, "fetch"))
						}
					})
				}
			})
		}
	})
}

var handle = regexp.MustCompile(`(statement|handler) \(\d+\)`)

// unnumbered takes statement ids out of a reply: MariaDB counts on from the thread's last connection.
func unnumbered(reply *rawclient.Reply) {
	if reply.Prepared != nil {
		reply.Prepared.ID = 0
	}
	for _, result := range reply.Results {
		if result.Err != nil {
			result.Err.Message = handle.ReplaceAllString(result.Err.Message, "$1 (id)")
		}
	}
}

// story is a use of the protocol that is told directly and through the proxy.
type story struct {
	name   string
	kinds  []server.Kind // nil: both
	change func(*rawclient.Config)
	tell   func(*teller)
}

// teller tells a story at one address.
type teller struct {
	*rawclient.Conn
	t      *testing.T
	kind   server.Kind
	config rawclient.Config
	lines  []string
}

// note adds a reply, with all its fields.
func (l *teller) note(what string, reply rawclient.Reply, err error, binary bool) rawclient.Reply {
	l.t.Helper()
	unnumbered(&reply)
	line := []string{what}
	for _, f := range reply.Fields(binary) {
		line = append(line, f.Path+"="+f.Value)
	}
	switch {
	case rawclient.IsLost(err):
		line = append(line, "the connection has ended")
	case err != nil:
		line = append(line, "failure: "+err.Error())
	}
	l.lines = append(l.lines, strings.Join(line, " "))
	return reply
}

func (l *teller) query(text string, attributes ...rawclient.Attribute) rawclient.Reply {
	l.t.Helper()
	reply, err := l.Query(text, attributes...)
	return l.note(text, reply, err, false)
}

func (l *teller) prepare(text string) uint32 {
	l.t.Helper()
	reply, err := l.Prepare(text)
	id := uint32(0)
	if reply.Prepared != nil {
		id = reply.Prepared.ID
	}
	l.note("prepare "+text, reply, err, false)
	return id
}

func (l *teller) execute(id uint32, cursor byte, parameters ...any) rawclient.Reply {
	l.t.Helper()
	reply, err := l.Execute(id, cursor, parameters...)
	return l.note("execute", reply, err, true)
}

func (l *teller) fetch(id, rows uint32) {
	l.t.Helper()
	reply, err := l.Fetch(id, rows)
	l.note("fetch", reply, err, true)
}

const managed = "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=MEMORY"

var stories = []story{
	{name: "long data", tell: func(l *teller) {
		l.query("CREATE TABLE long_data (v LONGBLOB, w LONGTEXT)")
		id := l.prepare("INSERT INTO long_data VALUES (?, ?)")
		for round := range 3 {
			for i := range 5 {
				if err := l.SendLongData(id, 0, bytes.Repeat([]byte{byte('a' + i)}, 300_000)); err != nil {
					l.t.Error(err)
				}
			}
			if round == 1 {
				reply, err := l.ResetStatement(id)
				l.note("reset", reply, err, false)
				_ = l.SendLongData(id, 0, nil)
			}
			_ = l.SendLongData(id, 1, []byte("the end"))
			l.execute(id, 0, rawclient.LongData{}, rawclient.LongData{})
		}
		l.query("SELECT LENGTH(v), MD5(v), w FROM long_data ORDER BY 1, 2")
		// For a statement that is not there it has no reply either; the next one may tell.
		if err := l.SendLongData(9999, 0, []byte("lost")); err != nil {
			l.t.Error(err)
		}
		l.query("SELECT 'after'")
		if err := l.CloseStatement(id); err != nil {
			l.t.Error(err)
		}
		l.execute(id, 0, "a", "b")
	}},
	{name: "a cursor of a managed table", tell: func(l *teller) {
		for range 4 {
			l.query(managed)
			l.query("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
			id := l.prepare("SELECT id, v FROM t WHERE id > ? ORDER BY id")
			l.execute(id, mysql.CURSOR_TYPE_READ_ONLY, int64(1))
			l.fetch(id, 1)
			l.query("DROP TEMPORARY TABLE t")
			l.fetch(id, 1)
			l.query("SELECT 'between'")
			l.fetch(id, 10)
			l.fetch(id, 10)
			l.execute(id, 0, int64(1)) // the table is gone
			l.query(managed)
			l.execute(id, 0, int64(0))
			l.query("INSERT INTO t VALUES (7, 'g')")
			l.execute(id, 0, int64(0))
			l.query("DROP TEMPORARY TABLE t")
			if err := l.CloseStatement(id); err != nil {
				l.t.Error(err)
			}
		}
	}},
	{name: "prepared cycles", tell: func(l *teller) {
		create, drop := l.prepare("CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=MEMORY"), l.prepare("DROP TEMPORARY TABLE IF EXISTS t")
		for range 5 {
			l.execute(drop, 0)
			l.execute(create, 0)
			insert := l.prepare("INSERT INTO t VALUES (?, ?), (?, ?)")
			l.execute(insert, 0, int64(1), "a", int64(2), nil)
			l.query("SELECT * FROM t ORDER BY id")
			l.query("DROP TEMPORARY TABLE t")
			l.execute(insert, 0, int64(1), "a", int64(2), nil)
			l.query(managed)
			l.execute(insert, 0, int64(1), "a", int64(2), nil)
			l.execute(drop, 0)
		}
	}},
	{name: "query attributes", tell: func(l *teller) {
		a := rawclient.Attribute{Name: "traceparent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
		b := rawclient.Attribute{Name: "n", Value: int64(7)}
		if l.kind == server.MySQL {
			l.query("SELECT mysql_query_attribute_string('traceparent'), mysql_query_attribute_string('n')", a, b)
		}
		for range 4 {
			l.query(managed, a, b)
			l.query("INSERT INTO t VALUES (1, 'a')", b)
			l.query("SELECT * FROM t", a)
			l.query("DROP TEMPORARY TABLE t", b, a)
		}
		id := l.prepare("SELECT ?, ?")
		reply, err := l.ExecuteWith(id, 0, []rawclient.Attribute{a, b}, int64(1), "two")
		l.note("execute with attributes", reply, err, true)
		l.query("SELECT "+strings.Repeat("1 + ", 20_000)+"1 AS s", a)
	}},
	{name: "query attributes that are not negotiated", change: func(c *rawclient.Config) { c.Capabilities = rawclient.Modern &^ mysql.CLIENT_QUERY_ATTRIBUTES }, tell: cycles},
	{name: "an old client", change: func(c *rawclient.Config) { c.Capabilities = rawclient.Classic }, tell: cycles},
	{name: "a new client", tell: cycles},
	{name: "a client without results of several statements", change: func(c *rawclient.Config) {
		c.Capabilities = rawclient.Modern &^ (mysql.CLIENT_MULTI_STATEMENTS | mysql.CLIENT_MULTI_RESULTS | mysql.CLIENT_PS_MULTI_RESULTS)
	}, tell: cycles},
	{name: "session tracking", tell: func(l *teller) {
		for _, text := range []string{"USE stories", "SET NAMES latin1", "SET autocommit = 0", "COMMIT", "SET autocommit = 1", "SET time_zone = '+01:00'",
			"CREATE DATABASE stories_more", "USE stories_more", "DROP DATABASE stories_more", "USE stories"} {
			l.query(text)
		}
		if l.kind == server.MySQL {
			l.query("SET session_track_system_variables = 'sql_mode, group_concat_max_len'")
			l.query("SET sql_mode = ANSI_QUOTES, group_concat_max_len = 2000")
			l.query("SET session_track_schema = OFF")
			l.query("USE stories")
		}
	}},
	{name: "session tracking of changes", tell: func(l *teller) {
		l.query("SET session_track_state_change = ON")
		cycles(l)
	}},
	{name: "session tracking of transactions", tell: func(l *teller) {
		l.query("SET session_track_transaction_info = CHARACTERISTICS")
		for range 4 {
			l.query("START TRANSACTION")
			l.query(managed)
			l.query("INSERT INTO t VALUES (1, 'a')")
			l.query("SELECT * FROM t")
			l.query("DROP TEMPORARY TABLE t")
			l.query("COMMIT")
		}
	}},
	{name: "progress reports", kinds: []server.Kind{server.MariaDB}, change: func(c *rawclient.Config) { c.MariaDB = rawclient.MariaDBProgress }, tell: func(l *teller) {
		// A table that takes its time to be copied, but not to be filled.
		for _, text := range []string{"SET progress_report_time = 1, check_constraint_checks = 0",
			"CREATE TABLE slow (n INT, CHECK (SHA2(REPEAT(n, 10000), 512) <> '')) ENGINE=Aria",
			"INSERT INTO slow SELECT seq FROM seq_100001_to_115000", "SET check_constraint_checks = 1"} {
			must(l.t, l.Conn, text)
		}
		reply, err := l.Query("ALTER TABLE slow ADD COLUMN more INT, ALGORITHM=COPY")
		if len(reply.Progress) == 0 {
			l.t.Error("no progress was reported")
		}
		reply.Progress, reply.Sequence, reply.Packets = nil, nil, 0 // as time goes by
		l.note("a long statement", reply, err, false)
		l.query("SELECT COUNT(*) FROM slow")
	}},
	{name: "metadata sent once", kinds: []server.Kind{server.MariaDB}, change: func(c *rawclient.Config) { c.MariaDB = rawclient.MariaDBCacheMetadata }, tell: func(l *teller) {
		id := l.prepare("SELECT 1 AS a, ? AS b")
		for i := range 3 {
			l.execute(id, 0, int64(i))
		}
		for range 4 {
			l.query(managed)
			id := l.prepare("SELECT * FROM t")
			l.execute(id, 0)
			l.execute(id, 0)
			l.query("DROP TEMPORARY TABLE t")
			l.query("CREATE TEMPORARY TABLE t (other VARCHAR(3)) ENGINE=MEMORY")
			l.execute(id, 0)
			l.query("DROP TEMPORARY TABLE t")
		}
	}},
	{name: "the statement prepared last", kinds: []server.Kind{server.MariaDB}, tell: func(l *teller) {
		const last = 0xFFFFFFFF
		l.prepare("SELECT 'first'")
		l.prepare("SELECT 'second', ?")
		l.execute(last, 0, int64(2))
		l.query("SELECT 'a query'")
		l.execute(last, 0, int64(3))
		for range 4 {
			l.query(managed)
			l.prepare("INSERT INTO t VALUES (?, ?)")
			l.execute(last, 0, int64(3), "three")
			l.query("SELECT * FROM t")
			l.query("DROP TEMPORARY TABLE t")
			l.execute(last, 0, int64(3), "three")
		}
		for range 4 { // a preparation that fails leaves none that was the last
			l.prepare(managed)
			l.execute(last, 0)
			l.prepare("SELECT * FROM nosuch")
			l.execute(last, 0)
			l.query("SELECT * FROM t")
			l.prepare("DROP TEMPORARY TABLE t")
			l.execute(last, 0)
			l.prepare(managed)
			l.prepare("NOTHING")
			l.execute(last, 0)
			l.query("SELECT * FROM t")
		}
		// So does one that is closed.
		id := l.prepare(managed)
		l.execute(last, 0)
		l.query("DROP TEMPORARY TABLE t")
		if err := l.CloseStatement(id); err != nil {
			l.t.Fatal(err)
		}
		l.execute(last, 0)
		l.query("SELECT * FROM t")
	}},
	{name: "bulk", kinds: []server.Kind{server.MariaDB}, change: func(c *rawclient.Config) { c.MariaDB = rawclient.MariaDBBulkOperations }, tell: func(l *teller) {
		for range 4 {
			l.query(managed)
			id := l.prepare("INSERT INTO t VALUES (?, ?)")
			var rows [][]any
			for i := range 500 {
				rows = append(rows, []any{int64(i), fmt.Sprint("row ", i)})
			}
			reply, err := l.BulkExecute(id, false, rows...)
			l.note("bulk", reply, err, true)
			reply, err = l.BulkExecute(id, false, []any{int64(900), nil}, []any{int64(3), "again"})
			l.note("bulk with an error", reply, err, true)
			l.query("SELECT COUNT(*), MAX(v) FROM t WHERE id < 900")
			l.query("DROP TEMPORARY TABLE t")
			reply, err = l.BulkExecute(id, false, rows[:2]...)
			l.note("bulk into nothing", reply, err, true)
		}
	}},
	{name: "routines with several results", tell: func(l *teller) {
		l.query("CREATE PROCEDURE several() BEGIN SELECT 1; CREATE TEMPORARY TABLE t (id INT) ENGINE=MEMORY; INSERT INTO t VALUES (1), (2); SELECT * FROM t; DROP TEMPORARY TABLE t; SELECT 'x' FROM DUAL WHERE 0; END")
		l.query("CREATE PROCEDURE fails(INOUT a INT) BEGIN SELECT a; SET a = a + 1; IF a > 2 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'too much'; END IF; SELECT 'fine'; END")
		for range 4 {
			l.query(managed)
			l.query("DROP TEMPORARY TABLE t")
			l.query("CALL several()")
		}
		l.query("SET @a = 1")
		l.query("CALL fails(@a)")
		l.query("CALL fails(@a)")
		id := l.prepare("CALL fails(?)")
		l.execute(id, 0, int64(1))
		l.execute(id, 0, int64(5))
		l.query("SELECT 1; CALL several(); SELECT 2; CALL fails(@a); SELECT 'not reached'")
		l.query("SELECT 'after'")
	}},
	{name: "several statements", tell: func(l *teller) {
		for range 4 {
			l.query(managed + "; INSERT INTO t VALUES (1, 'a'), (2, 'b'); SELECT * FROM t ORDER BY id; DROP TEMPORARY TABLE t")
			l.query(managed)
			l.query("INSERT INTO t VALUES (3, 'c'); SELECT COUNT(*) FROM t; SELECT ROW_COUNT()")
			l.query("DROP TEMPORARY TABLE t; SELECT * FROM t; SELECT 'not reached'")
		}
		l.query("SELECT 1;;")
		l.query("SELECT 1; -- nothing more")
		l.query(";")
		l.query("")
		reply, err := l.SetOption(false)
		l.note("multi-statements off", reply, err, false)
		l.query("SELECT 1; SELECT 2")
		reply, err = l.SetOption(true)
		l.note("multi-statements on", reply, err, false)
		l.query("SELECT 1; SELECT 2")
	}},
	{name: "unknown commands", tell: func(l *teller) {
		for _, command := range [][]byte{{0x00}, {0x0b}, {0x0f}, {0x10}, {0x14}, {0x1d}, {0x22}, {0x42, 1, 2, 3}, {0x7f}, {0xf0}, {0xfb}, {0xfe}} {
			l.query(managed)
			reply, err := l.Raw(command)
			l.note(fmt.Sprintf("command %x", command), reply, err, false)
			if err != nil { // the server has had enough
				c, err := rawclient.Connect(l.config)
				if err != nil {
					l.t.Fatal(err)
				}
				l.Conn = c
				continue
			}
			l.query("DROP TEMPORARY TABLE t")
			l.query("SELECT 'after'")
		}
		l.Close()
	}},
	{name: "commands in one segment", tell: func(l *teller) {
		texts := []string{}
		for i := range 6 {
			texts = append(texts, managed, fmt.Sprintf("INSERT INTO t VALUES (%d, 'a')", i), "SELECT * FROM t", "DROP TEMPORARY TABLE t", "SELECT * FROM t", "SHOW WARNINGS",
				"START TRANSACTION", managed, "DROP TEMPORARY TABLE t", "COMMIT", "SELECT "+strings.Repeat("1+", 1000)+"1 AS s")
		}
		var segment []byte
		for _, text := range texts {
			segment = append(segment, queryPacket("\x00\x01"+text)...)
		}
		if l.Capabilities&mysql.CLIENT_QUERY_ATTRIBUTES == 0 {
			segment = nil
			for _, text := range texts {
				segment = append(segment, queryPacket(text)...)
			}
		}
		if _, err := l.Socket().Write(segment); err != nil {
			l.t.Fatal(err)
		}
		for _, text := range texts {
			reply, err := l.ReceiveQuery()
			reply.Sequence = nil // counted from the client's last packet
			l.note(text, reply, err, false)
		}
	}},
	{name: "LOCAL INFILE", change: func(c *rawclient.Config) { c.LocalInfile = localFile }, tell: func(l *teller) {
		l.query("CREATE TABLE loaded (a INT, b VARCHAR(250))")
		for _, name := range []string{"large", "small", "none", "broken"} {
			l.query("LOAD DATA LOCAL INFILE '" + name + "' INTO TABLE loaded FIELDS TERMINATED BY ','")
			l.query("SHOW WARNINGS LIMIT 3")
			l.query("SELECT COUNT(*), SUM(a), MD5(MAX(b)) FROM loaded")
		}
		for range 4 {
			l.query(managed)
			l.query("LOAD DATA LOCAL INFILE 'small' INTO TABLE t FIELDS TERMINATED BY ','")
			l.query("SELECT * FROM t ORDER BY id")
			l.query("DROP TEMPORARY TABLE t")
			l.query("LOAD DATA LOCAL INFILE 'small' INTO TABLE t FIELDS TERMINATED BY ','")
		}
		l.query("SELECT 1; LOAD DATA LOCAL INFILE 'small' INTO TABLE loaded FIELDS TERMINATED BY ','; SELECT 2")
	}},
	{name: "LOCAL INFILE refused by the client", change: func(c *rawclient.Config) { c.LocalInfile = nil }, tell: func(l *teller) {
		l.query("CREATE TABLE refused (a INT)")
		l.query("LOAD DATA LOCAL INFILE 'large' INTO TABLE refused")
		l.query("SELECT COUNT(*) FROM refused")
	}},
	{name: "LOCAL INFILE not negotiated", change: func(c *rawclient.Config) { c.Capabilities = rawclient.Modern &^ mysql.CLIENT_LOCAL_FILES }, tell: func(l *teller) {
		l.query("LOAD DATA LOCAL INFILE 'large' INTO TABLE t")
		l.query("SELECT 1")
	}},
	{name: "max_allowed_packet", tell: func(l *teller) {
		const size = 4 << 20
		before := value(l.t, l.Conn, "SELECT @@GLOBAL.max_allowed_packet")
		must(l.t, l.Conn, fmt.Sprint("SET GLOBAL max_allowed_packet = ", size))
		c := connect(l.t, l.config) // with the new limit
		must(l.t, l.Conn, "SET GLOBAL max_allowed_packet = "+before)
		l.Close()
		l.Conn = c
		l.query("SELECT REPEAT('x', @@max_allowed_packet + 1)")
		l.query("SELECT 'after'")
		// The server says why and closes; it may do so before the client is through with sending.
		_ = l.SendQuery("SELECT LENGTH('" + strings.Repeat("x", size) + "')")
		reply, err := l.ReceiveQuery()
		reply.Sequence = nil // MySQL and MariaDB number it each in their way, and after different packets
		l.note("too long a statement", reply, err, false)
		if reply.Err() == nil || reply.Err().Code != 1153 {
			l.t.Errorf("%s instead of ERR 1153", told(reply, err))
		}
		_, err = l.Query("SELECT 1")
		if err == nil {
			l.t.Error("the connection goes on")
		}
	}},
	{name: "the server's patience", tell: func(l *teller) {
		l.query(managed)
		l.query("SET wait_timeout = 1, interactive_timeout = 1")
		reply, err := l.ReceiveQuery() // unasked
		reply.Sequence = nil
		l.note("after a while", reply, err, false)
		if err == nil {
			if code := reply.Err().Code; l.kind == server.MySQL && code != 4031 {
				l.t.Errorf("ERR %d", code)
			}
			reply, err = l.ReceiveQuery()
			l.note("then", reply, err, false)
		}
	}},
}

// cycles are the usual ones, with what reads diagnostics in between.
func cycles(l *teller) {
	for i := range 6 {
		l.query(managed)
		l.query("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
		l.query("SELECT * FROM t ORDER BY id")
		if i == 3 {
			l.query("SHOW WARNINGS")
		}
		l.query("DROP TEMPORARY TABLE t")
		if i == 4 {
			l.query("SELECT ROW_COUNT(), FOUND_ROWS(), LAST_INSERT_ID()")
		}
		reply, err := l.Ping()
		l.note("ping", reply, err, false)
		reply, err = l.InitDB("stories")
		l.note("init db", reply, err, false)
	}
	l.query("DROP TEMPORARY TABLE IF EXISTS t")
	l.query("SHOW WARNINGS")
	reply, err := l.ResetConnection()
	l.note("reset", reply, err, false)
	l.query("SELECT DATABASE(), @@autocommit")
	l.query("SELECT * FROM t")
}

// localFile is what clients have for LOCAL INFILE.
func localFile(name string) []byte {
	var b bytes.Buffer
	switch name {
	case "large": // 5 MB
		for i := range 20_000 {
			fmt.Fprintf(&b, "%d,%0240d\n", i, i)
		}
	case "small":
		b.WriteString("1,one\n2,two\n")
	case "broken":
		b.WriteString("1,one\nx,two\n3")
	}
	return b.Bytes()
}

// TestStories tells every story directly and through the proxy.
func TestStories(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		if kind == server.MySQL {
			executeDirectly(t, s, "INSTALL COMPONENT 'file://component_query_attributes'")
			t.Cleanup(func() {
				if err := s.Exec(context.Background(), "UNINSTALL COMPONENT 'file://component_query_attributes'"); err != nil {
					t.Error(err)
				}
			})
		}
		addresses := map[string]string{}
		for _, d := range drivers {
			// Under this strategy nothing but the listed differences can be seen, and the stories stay clear of them.
			addresses[d] = startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_REWRITE_STRATEGY=keep").Address
		}
		for i := range stories {
			y := &stories[i]
			if y.kinds != nil && !slices.Contains(y.kinds, kind) {
				continue
			}
			t.Run(y.name, func(t *testing.T) {
				tell := func(address string) []string {
					executeDirectly(t, s, "DROP DATABASE IF EXISTS stories", "CREATE DATABASE stories CHARACTER SET utf8mb4")
					config := configure(s, address, "stories")
					if y.change != nil {
						y.change(&config)
					}
					l := &teller{t: t, kind: kind, config: config, Conn: connect(t, config)}
					y.tell(l)
					l.Close()
					return l.lines
				}
				want := tell(s.Address)
				for _, d := range drivers {
					t.Run(d, func(t *testing.T) { sameLines(t, want, tell(addresses[d])) })
				}
			})
		}
		executeDirectly(t, s, "DROP DATABASE stories")
	})
}

// TestBinlogDump asks for the server's binary log, which makes the session a raw relay.
func TestBinlogDump(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		file := "none"
		if kind == server.MySQL {
			executeDirectly(t, s, "FLUSH BINARY LOGS", "CREATE DATABASE dumped", "CREATE TABLE dumped.t (a INT)", "INSERT INTO dumped.t VALUES (1), (2)", "DROP DATABASE dumped")
			reply := must(t, connect(t, configure(s, s.Address, "")), "SHOW BINARY LOGS")
			row, err := rawclient.TextRow(reply.Results[0].Rows[len(reply.Results[0].Rows)-1])
			if err != nil {
				t.Fatal(err)
			}
			file = string(row[0])
		}
		dump := binary.LittleEndian.AppendUint32([]byte{mysql.COM_BINLOG_DUMP}, 4)
		dump = binary.LittleEndian.AppendUint16(dump, 1) // end behind the last event
		dump = binary.LittleEndian.AppendUint32(dump, 4711)
		dump = append(dump, file...)
		packet := append([]byte{byte(len(dump)), 0, 0, 0}, dump...)
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
				// What there is is the same only while nothing is written.
				stream := func(address string) (all []byte, thread uint32) {
					c := connect(t, configure(s, address, ""))
					must(t, c, "SET @source_binlog_checksum = 'NONE', @master_binlog_checksum = 'NONE'")
					must(t, c, "CREATE TEMPORARY TABLE mysql.t (a INT)")
					if _, err := c.Socket().Write(packet); err != nil {
						t.Fatal(err)
					}
					for {
						p, err := readPacket(c.Socket())
						if err != nil {
							t.Fatalf("at %s: %v after %d bytes", address, err, len(all))
						}
						all = append(all, p...)
						if p[4] != mysql.OK_HEADER { // EOF or ERR behind the events
							return all, c.Greeting.ThreadID
						}
					}
				}
				want, _ := stream(s.Address)
				got, thread := stream(p.Address)
				if !bytes.Equal(want, got) {
					t.Errorf("directly %d bytes, through the proxy %d: %.100q, %.100q", len(want), len(got), want, got)
				}
				if kind == server.MySQL && !bytes.Contains(want, []byte("DROP DATABASE dumped")) {
					t.Errorf("the server sends %q", want)
				}
				if info, there := sessions(t, p)[thread]; there && !info.Raw {
					t.Errorf("the session is %+v, not raw", info)
				}
			})
		}
	})
}

// TestLargePackets sends and receives packets of and above 16 MiB, and looks at the proxy's memory.
func TestLargePackets(t *testing.T) {
	const most = 1<<24 - 1 // bytes of a packet's payload
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind, "--max-allowed-packet=128M")
		direct := connect(t, configure(s, s.Address, ""))
		// By the size of a row or statement: what asks for it and the answer.
		type exchange struct {
			name, text string
			want       rawclient.Reply
		}
		var exchanges []exchange
		for _, size := range []int{most - 1, most, most + 1, 2 * most} {
			n := size - 4 // a length takes 4 bytes below 2^24 and 9 from there
			if n > most {
				n = size - 9
			}
			text := fmt.Sprintf("SELECT REPEAT('x', %d)", n)
			exchanges = append(exchanges, exchange{fmt.Sprint("row of ", size), text, must(t, direct, text)})
			around := "SELECT LENGTH('')" // and the command's byte, and the two of its attributes
			if direct.Capabilities&mysql.CLIENT_QUERY_ATTRIBUTES != 0 {
				around += "12"
			}
			text = "SELECT LENGTH('" + strings.Repeat("x", size-1-len(around)) + "')"
			exchanges = append(exchanges, exchange{fmt.Sprint("statement of ", size), text, must(t, direct, text)})
		}
		if row := exchanges[2].want.Results[0].Rows[0]; len(row) != most {
			t.Errorf("a row of %d bytes", len(row))
		}
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
				proxied := connect(t, configure(s, p.Address, ""))
				must(t, proxied, "CREATE TEMPORARY TABLE mysql.t (id INT PRIMARY KEY) ENGINE=MEMORY")
				start := residentBytes(t, p.PID())
				for _, e := range exchanges {
					t.Run(e.name, func(t *testing.T) {
						sameReply(t, e.name, e.want, must(t, proxied, e.text), false)
						if got := value(t, proxied, "SELECT 'after'"); got != "after" {
							t.Error(got)
						}
					})
				}
				t.Run("memory", func(t *testing.T) {
					if grown := residentBytes(t, p.PID()) - start; grown > 32<<20 {
						t.Errorf("the proxy's memory has grown by %d MiB", grown>>20)
					}
				})
				t.Run("a client that does not read", func(t *testing.T) {
					before := residentBytes(t, p.PID())
					slow := connect(t, configure(s, p.Address, ""))
					const rows, length = 64, 1 << 20
					if err := slow.SendQuery(fmt.Sprintf("SELECT REPEAT('x', %d) FROM information_schema.columns LIMIT %d", length, rows)); err != nil {
						t.Fatal(err)
					}
					// Others are served meanwhile.
					for i := range 500 {
						if got := value(t, proxied, fmt.Sprint("SELECT ", i)); got != fmt.Sprint(i) {
							t.Fatalf("%s instead of %d", got, i)
						}
					}
					if grown := residentBytes(t, p.PID()) - before; grown > 16<<20 {
						t.Errorf("the proxy's memory has grown by %d MiB", grown>>20)
					}
					reply, err := slow.ReceiveQuery()
					if err != nil || reply.Err() != nil || len(reply.Results[0].Rows) != rows {
						t.Errorf("%d rows: %.100s", len(reply.Results[0].Rows), told(reply, err))
					}
				})
				t.Run("a server that does not read", func(t *testing.T) {
					before := residentBytes(t, p.PID())
					writer := connect(t, configure(s, p.Address, ""))
					must(t, direct, "DO GET_LOCK('large', 10)")
					// The server is busy with the first command while the second piles up.
					if err := writer.SendQuery("DO GET_LOCK('large', 60)"); err != nil {
						t.Fatal(err)
					}
					sent := make(chan error)
					go func() { sent <- writer.SendQuery("SELECT LENGTH('" + strings.Repeat("x", 32<<20) + "')") }()
					for i := range 500 {
						value(t, proxied, fmt.Sprint("SELECT ", i))
					}
					if grown := residentBytes(t, p.PID()) - before; grown > 16<<20 {
						t.Errorf("the proxy's memory has grown by %d MiB", grown>>20)
					}
					must(t, direct, "DO RELEASE_LOCK('large')")
					if err := <-sent; err != nil {
						t.Fatal(err)
					}
					for range 2 {
						reply, err := writer.ReceiveQuery()
						if err != nil || reply.Err() != nil {
							t.Error(told(reply, err))
						}
					}
				})
			})
		}
	})
}

// TestClientGoneInTheMiddle has clients leave in the middle of what they send or receive: the server's session ends.
func TestClientGoneInTheMiddle(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "gone")
		executeDirectly(t, s, "CREATE TABLE gone.loaded (a INT)")
		control := connect(t, configure(s, s.Address, ""))
		for _, d := range drivers {
			p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
			for name, act := range map[string]func(c *rawclient.Conn) error{
				"idle": func(c *rawclient.Conn) error { return nil },
				"in a command": func(c *rawclient.Conn) error {
					_, err := c.Socket().Write(queryPacket("SELECT 'never whole'")[:12])
					return err
				},
				"in a long command": func(c *rawclient.Conn) error {
					_, err := c.Socket().Write(append([]byte{0, 0, 0x20, 0, mysql.COM_QUERY}, bytes.Repeat([]byte{'x'}, 1<<20)...))
					return err
				},
				"in a file": func(c *rawclient.Conn) error {
					if _, err := c.Socket().Write(queryPacket("LOAD DATA LOCAL INFILE 'x' INTO TABLE gone.loaded")); err != nil {
						return err
					}
					if _, err := readPacket(c.Socket()); err != nil {
						return err
					}
					_, err := c.Socket().Write(append([]byte{0xff, 0xff, 0, 2}, bytes.Repeat([]byte("1\n"), 100)...))
					return err
				},
				"in a reply": func(c *rawclient.Conn) error {
					if _, err := c.Socket().Write(queryPacket("SELECT REPEAT('x', 1000000) FROM information_schema.columns LIMIT 100")); err != nil {
						return err
					}
					_, err := io.ReadFull(c.Socket(), make([]byte, 1000))
					return err
				},
				"with a parked table": func(c *rawclient.Conn) error {
					for range 3 {
						for _, text := range []string{managed, "DROP TEMPORARY TABLE t"} {
							if _, err := c.Query(text); err != nil {
								return err
							}
						}
					}
					return nil
				},
			} {
				t.Run(d+" "+name, func(t *testing.T) {
					config := configure(s, p.Address, "gone")
					config.Capabilities = rawclient.Classic // no query attributes
					c := connect(t, config)
					if err := act(c); err != nil {
						t.Fatal(err)
					}
					if err := c.Close(); err != nil {
						t.Fatal(err)
					}
					await(t, "the server's session is gone", func() bool {
						return value(t, control, fmt.Sprint("SELECT COUNT(*) FROM information_schema.processlist WHERE id = ", c.Greeting.ThreadID)) == "0"
					})
					await(t, "the proxy's session is gone", func() bool { _, there := sessions(t, p)[c.Greeting.ThreadID]; return !there })
				})
			}
		}
		if got := value(t, control, "SELECT COUNT(*) FROM gone.loaded"); got != "0" && got != "100" && got != "200" {
			t.Errorf("%s rows were loaded", got)
		}
	})
}
