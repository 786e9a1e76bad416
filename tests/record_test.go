//go:build realserver

package tests

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
)

var record = flag.Bool("record", false, "write the replies of the real servers to "+replies)

const replies = "../wire/testdata/replies"

// exchange is one command whose reply is recorded.
type exchange struct {
	name    string
	command byte
	about   string // the statement, or what else tells one exchange from another
	do      func(c *rawclient.Conn) (rawclient.Reply, error)
}

func query(name, text string, attributes ...rawclient.Attribute) exchange {
	return exchange{name, mysql.COM_QUERY, text, func(c *rawclient.Conn) (rawclient.Reply, error) {
		return c.Query(text, attributes...)
	}}
}

// prepare records the answer to a COM_STMT_PREPARE; *id is the statement's id from then on.
func prepare(name, text string, id *uint32) exchange {
	return exchange{name, mysql.COM_STMT_PREPARE, text, func(c *rawclient.Conn) (rawclient.Reply, error) {
		reply, err := c.Prepare(text)
		if reply.Prepared != nil {
			*id = reply.Prepared.ID
		}
		return reply, err
	}}
}

func execute(name, about string, id *uint32, cursor byte, parameters ...any) exchange {
	return exchange{name, mysql.COM_STMT_EXECUTE, about, func(c *rawclient.Conn) (rawclient.Reply, error) {
		return c.Execute(*id, cursor, parameters...)
	}}
}

func fetch(name string, id *uint32, rows uint32) exchange {
	return exchange{name, mysql.COM_STMT_FETCH, fmt.Sprintf("%d rows", rows), func(c *rawclient.Conn) (rawclient.Reply, error) {
		return c.Fetch(*id, rows)
	}}
}

// exchanges are the commands of one connection, in order. A name is the end of its file's.
func exchanges(kind server.Kind, extended bool) []exchange {
	var id uint32
	unknown := uint32(12345)
	long := strings.Repeat("x", 300)
	plain := func(name string, command byte, about string, do func(c *rawclient.Conn) (rawclient.Reply, error)) exchange {
		return exchange{name, command, about, do}
	}
	list := []exchange{
		query("ok", "DO 0"),
		query("ok-affected", "INSERT INTO auto (v) VALUES ('a'), ('b')"),
		query("ok-info", "UPDATE auto SET v = 'c' WHERE v = 'a'"),
		query("ok-warnings", "DROP TABLE IF EXISTS nosuch"),
		query("ok-in-transaction", "START TRANSACTION"),
		query("ok-rollback", "ROLLBACK"),
		query("ok-session-track-schema", "USE recorded"),
		query("ok-session-track-variables", "SET NAMES latin1, autocommit = 1"),
		query("err-parse", "SELEC 1"),
		query("err-no-table", "SELECT * FROM nosuch"),
		query("select-one", "SELECT 1"),
		query("select-rows", "SELECT * FROM several ORDER BY id"),
		query("select-empty", "SELECT * FROM several WHERE id < 0"),
		query("select-null-first", "SELECT NULL, 1 UNION SELECT 2, NULL"),
		query("select-empty-string", "SELECT ''"),
		query("select-long-value", "SELECT '"+long+"'"),
		query("select-err-after-rows", "SELECT id, (SELECT p.id FROM pairs p WHERE p.several = s.id) FROM several s"),
		query("select-warnings", "SELECT CAST('1x' AS SIGNED)"),
		query("show-warnings", "SHOW WARNINGS"),
		query("explain", "EXPLAIN SELECT * FROM several"),
		query("multi", "SELECT 1; INSERT INTO auto (v) VALUES ('m'); SELECT id FROM several WHERE id = 2; DO 0"),
		query("multi-err", "SELECT 1; SELECT * FROM nosuch; SELECT 2"),
		query("call", "CALL two_results()"),
		query("call-ok", "CALL no_result()"),
		query("load-local-infile", "LOAD DATA LOCAL INFILE 'some.csv' INTO TABLE auto (v)"),
		query("load-local-infile-empty", "LOAD DATA LOCAL INFILE 'empty' INTO TABLE auto (v)"),
		query("load-local-infile-err", "LOAD DATA LOCAL INFILE 'some.csv' INTO TABLE nosuch"),
		query("query-attributes", "SELECT 2", rawclient.Attribute{Name: "n", Value: "v"}, rawclient.Attribute{Name: "i", Value: int64(7)}),
		query("create-temporary", "CREATE TEMPORARY TABLE t (a INT PRIMARY KEY) ENGINE=MEMORY"),
		query("create-temporary-err", "CREATE TEMPORARY TABLE t (a INT)"),
		query("create-temporary-note", "CREATE TEMPORARY TABLE IF NOT EXISTS t (a INT)"),
		query("show-create-table", "SHOW CREATE TABLE t"),
		query("truncate", "TRUNCATE TABLE t"),
		query("show-create-view-err", "SHOW CREATE VIEW recorded.nosuch"),
		query("drop-temporary", "DROP TEMPORARY TABLE t"),
		query("drop-temporary-err", "DROP TEMPORARY TABLE t"),
		query("drop-temporary-note", "DROP TEMPORARY TABLE IF EXISTS t"),
		prepare("prepare-plain", "DO 0", &id),
		execute("execute-ok", "DO 0", &id, 0),
		prepare("prepare-params", "INSERT INTO auto (v) VALUES (?), (?)", &id),
		execute("execute-params", "INSERT INTO auto (v) VALUES (?), (?)", &id, 0, "x", nil),
		execute("execute-err", "wrong type and length", &id, 0, long, long),
		prepare("prepare-columns", "SELECT * FROM several", &id),
		execute("execute-rows", "SELECT * FROM several", &id, 0),
		execute("execute-rows-again", "SELECT * FROM several", &id, 0),
		prepare("prepare-both", "SELECT id, text FROM several WHERE id >= ? ORDER BY id", &id),
		execute("execute-both", "SELECT id, text FROM several WHERE id >= ? ORDER BY id", &id, 0, int64(2)),
		execute("execute-empty", "SELECT id, text FROM several WHERE id >= ? ORDER BY id", &id, 0, int64(2000)),
		execute("execute-cursor", "SELECT id, text FROM several WHERE id >= ? ORDER BY id", &id, mysql.CURSOR_TYPE_READ_ONLY, int64(1)),
		fetch("fetch-some", &id, 2),
		fetch("fetch-last", &id, 10),
		fetch("fetch-err", &id, 10),
		plain("stmt-reset", mysql.COM_STMT_RESET, "", func(c *rawclient.Conn) (rawclient.Reply, error) { return c.ResetStatement(id) }),
		execute("execute-cursor-empty", "SELECT id, text FROM several WHERE id >= ? ORDER BY id", &id, mysql.CURSOR_TYPE_READ_ONLY, int64(2000)),
		fetch("fetch-empty", &id, 10),
		prepare("prepare-err", "SELECT * FROM nosuch WHERE a = ?", &id),
		execute("execute-unknown", "an id that was never prepared", &unknown, 0),
		prepare("prepare-call", "CALL out_parameter(?)", &id),
		execute("execute-out-parameters", "CALL out_parameter(?)", &id, 0, int64(5)),
		plain("field-list", mysql.COM_FIELD_LIST, "several", func(c *rawclient.Conn) (rawclient.Reply, error) { return c.FieldList("several", "") }),
		plain("field-list-err", mysql.COM_FIELD_LIST, "nosuch", func(c *rawclient.Conn) (rawclient.Reply, error) { return c.FieldList("nosuch", "") }),
		plain("ping", mysql.COM_PING, "", (*rawclient.Conn).Ping),
		plain("statistics", mysql.COM_STATISTICS, "", (*rawclient.Conn).Statistics),
		plain("set-option", mysql.COM_SET_OPTION, "multi-statements on", func(c *rawclient.Conn) (rawclient.Reply, error) { return c.SetOption(true) }),
		plain("set-option-err", mysql.COM_SET_OPTION, "option 9", func(c *rawclient.Conn) (rawclient.Reply, error) {
			return c.Raw([]byte{mysql.COM_SET_OPTION, 9, 0})
		}),
		plain("process-info", mysql.COM_PROCESS_INFO, "", (*rawclient.Conn).ProcessInfo),
		plain("process-kill-err", mysql.COM_PROCESS_KILL, "no such thread", func(c *rawclient.Conn) (rawclient.Reply, error) { return c.Kill(1 << 30) }),
		plain("debug", mysql.COM_DEBUG, "", (*rawclient.Conn).Debug),
		plain("refresh", mysql.COM_REFRESH, "REFRESH_GRANT", func(c *rawclient.Conn) (rawclient.Reply, error) {
			return c.Raw([]byte{mysql.COM_REFRESH, 1})
		}),
		plain("init-db", mysql.COM_INIT_DB, "recorded", func(c *rawclient.Conn) (rawclient.Reply, error) { return c.InitDB("recorded") }),
		plain("init-db-err", mysql.COM_INIT_DB, "nosuch", func(c *rawclient.Conn) (rawclient.Reply, error) { return c.InitDB("nosuch") }),
		plain("unknown-command", 0x60, "", func(c *rawclient.Conn) (rawclient.Reply, error) { return c.Raw([]byte{0x60}) }),
		plain("reset-connection", mysql.COM_RESET_CONNECTION, "", (*rawclient.Conn).ResetConnection),
		plain("change-user", mysql.COM_CHANGE_USER, "an account without a password", func(c *rawclient.Conn) (rawclient.Reply, error) {
			return c.ChangeUser("recorded_plain", "", "recorded")
		}),
		plain("change-user-password", mysql.COM_CHANGE_USER, "an account with a password", func(c *rawclient.Conn) (rawclient.Reply, error) {
			return c.ChangeUser("recorded_secret", "secret", "recorded")
		}),
		plain("change-user-password-again", mysql.COM_CHANGE_USER, "an account with a password", func(c *rawclient.Conn) (rawclient.Reply, error) {
			return c.ChangeUser("recorded_secret", "secret", "recorded")
		}),
		plain("change-user-err", mysql.COM_CHANGE_USER, "a wrong password", func(c *rawclient.Conn) (rawclient.Reply, error) {
			return c.ChangeUser("recorded_secret", "wrong", "recorded")
		}),
	}
	if extended && kind.IsMariaDB() {
		list = append([]exchange{
			query("progress", "ALTER TABLE big ADD COLUMN more INT, ALGORITHM=COPY"),
			prepare("prepare-bulk", "INSERT INTO auto (v) VALUES (?)", &id),
			plain("bulk-execute", 0xfa, "INSERT INTO auto (v) VALUES (?)", func(c *rawclient.Conn) (rawclient.Reply, error) {
				return c.BulkExecute(id, false, []any{"p"}, []any{"q"}, []any{nil})
			}),
			// Unit results came with MariaDB 11.5; the bit is refused by older servers' capabilities.
			query("extended-metadata", "SELECT doc, POINT(1, 2), INET6_ATON('::1') FROM several"),
		}, list...)
	}
	if extended && !kind.IsMariaDB() {
		list = append([]exchange{
			query("metadata-none-set", "SET resultset_metadata = NONE"),
			query("metadata-none", "SELECT id, text FROM several ORDER BY id"),
			prepare("prepare-metadata-none", "SELECT id, text FROM several WHERE id > ?", &id),
			execute("execute-metadata-none", "SELECT id, text FROM several WHERE id > ?", &id, 0, int64(1)),
			execute("execute-cursor-metadata-none", "SELECT id, text FROM several WHERE id > ?", &id, mysql.CURSOR_TYPE_READ_ONLY, int64(1)),
			fetch("fetch-metadata-none", &id, 10),
			query("call-metadata-none", "CALL two_results()"),
			query("metadata-full-set", "SET resultset_metadata = FULL"),
		}, list...)
	}
	return list
}

var recordedSetup = []string{
	"DROP DATABASE IF EXISTS recorded",
	"CREATE DATABASE recorded CHARACTER SET utf8mb4",
	"USE recorded",
	"CREATE TABLE auto (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))",
	"CREATE TABLE several (id INT PRIMARY KEY, text VARCHAR(40) NOT NULL DEFAULT 'd', num DECIMAL(10,2), made DATETIME(3), bin VARBINARY(20), doc JSON)",
	"INSERT INTO several VALUES (1, 'one', 1.5, '2024-02-29 12:34:56.789', x'00ff', '{}'), (2, 'zwei', NULL, NULL, x'fe', '[1]'), (3, '', -3, '1999-12-31', '', NULL)",
	"CREATE TABLE pairs (id INT PRIMARY KEY, several INT)",
	"INSERT INTO pairs VALUES (1, 1), (2, 2), (3, 3), (4, 3)",
	"CREATE PROCEDURE two_results() BEGIN SELECT 1 AS a; SELECT id, text FROM several WHERE id <= 2 ORDER BY id; END",
	"CREATE PROCEDURE no_result() DO 0",
	"CREATE PROCEDURE out_parameter(OUT o INT) BEGIN SELECT 'before'; SET o = 42; END",
	"DROP USER IF EXISTS recorded_plain",
	"CREATE USER recorded_plain",
	"DROP USER IF EXISTS recorded_secret",
	"CREATE USER recorded_secret IDENTIFIED BY 'secret'",
	"GRANT SELECT ON recorded.* TO recorded_plain",
	"GRANT SELECT ON recorded.* TO recorded_secret",
}

// TestReplies compares the replies that the wire tests use with those of the real servers, or writes them with -record.
func TestReplies(t *testing.T) {
	profiles := []struct {
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
	for _, kind := range []server.Kind{server.MySQL, server.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			s := shared(t, kind)
			seen := map[string]bool{}
			for _, profile := range profiles {
				t.Run(profile.name, func(t *testing.T) {
					if err := s.Exec(context.Background(), recordedSetup...); err != nil {
						t.Fatal(err)
					}
					extended := strings.HasPrefix(profile.name, "extended")
					if extended && kind.IsMariaDB() {
						if err := s.Exec(context.Background(), "CREATE TABLE recorded.big (n INT) ENGINE=Aria",
							"INSERT INTO recorded.big SELECT seq FROM seq_1_to_3000000"); err != nil {
							t.Fatal(err)
						}
					}
					user, password := s.Account()
					c, err := rawclient.Connect(rawclient.Config{
						Network: "tcp", Address: s.Address, User: user, Password: password, Database: "recorded",
						Capabilities: profile.capabilities, MariaDB: profile.mariadb, KeepRaw: true,
						LocalInfile: func(name string) []byte {
							if name == "empty" {
								return nil
							}
							return []byte("one\ntwo\nthree\n")
						},
					})
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					if profile.mariadb&rawclient.MariaDBProgress != 0 && kind.IsMariaDB() {
						if _, err := c.Query("SET progress_report_time = 1"); err != nil {
							t.Fatal(err)
						}
					}
					for _, e := range exchanges(kind, extended) {
						if e.name == "progress" && c.MariaDB&rawclient.MariaDBProgress == 0 {
							continue
						}
						reply, err := e.do(c)
						if err != nil {
							t.Fatalf("%s: %v", e.name, err)
						}
						file := fmt.Sprintf("%s-%s-%s.hex", kind, e.name, profile.name)
						seen[file] = true
						text := formatRecord(e, c, string(kind)+" "+c.Greeting.Version, reply)
						if *record {
							if err := os.WriteFile(filepath.Join(replies, file), []byte(text), 0o644); err != nil {
								t.Fatal(err)
							}
							continue
						}
						recorded, err := os.ReadFile(filepath.Join(replies, file))
						if err != nil {
							t.Error(err)
							continue
						}
						if got, want := outline(t, text), outline(t, string(recorded)); got != want {
							t.Errorf("%s: the server answers\n%s\nrecorded was\n%s", file, got, want)
						}
					}
				})
			}
			files, err := filepath.Glob(filepath.Join(replies, string(kind)+"-*.hex"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				if !seen[filepath.Base(file)] {
					t.Errorf("%s is recorded but not among the exchanges", file)
				}
			}
			if err := s.Exec(context.Background(), "DROP DATABASE recorded", "DROP USER recorded_plain", "DROP USER recorded_secret"); err != nil {
				t.Error(err)
			}
		})
	}
}

// formatRecord renders a reply as the wire tests read it: a line that says how it came about, the client's bytes, the
// server's bytes.
func formatRecord(e exchange, c *rawclient.Conn, from string, reply rawclient.Reply) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# command=%#02x caps=%#08x mariadb_caps=%#08x server=%q about=%q\n", e.command, c.Capabilities, c.MariaDB, from, e.about)
	fmt.Fprintf(&b, "# sent=%x\n", reply.Sent)
	dump := func(p []byte) {
		for len(p) > 0 {
			n := min(len(p), 32)
			fmt.Fprintf(&b, "%x\n", p[:n])
			p = p[n:]
		}
	}
	if at := reply.RawBeforeFile; at > 0 {
		dump(reply.Raw[:at])
		fmt.Fprintln(&b, "# the client sends its file")
		dump(reply.Raw[at:])
	} else {
		dump(reply.Raw)
	}
	return b.String()
}

var identified = regexp.MustCompile(`command=\S+ caps=\S+ mariadb_caps=\S+`)

// outline is what must stay true of a recorded reply when a server of another patch release, or with other thread ids
// and timings, answers: how it was asked and the first bytes of its packets. Progress reports come as time goes by.
func outline(t *testing.T, text string) string {
	t.Helper()
	first, rest, _ := strings.Cut(text, "\n")
	var stream []byte
	for line := range strings.Lines(rest) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		p, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		stream = append(stream, p...)
	}
	b := bytes.NewBufferString(identified.FindString(first))
	if strings.Contains(first, fmt.Sprintf("command=%#02x ", mysql.COM_PROCESS_INFO)) {
		return b.String() // its rows are whoever is connected
	}
	for len(stream) >= 4 {
		n := int(stream[0]) | int(stream[1])<<8 | int(stream[2])<<16
		if len(stream) < 4+n {
			t.Fatalf("packet of %d bytes is cut off", n)
		}
		payload := stream[4 : 4+n]
		stream = stream[4+n:]
		switch {
		case n == 0:
			fmt.Fprint(b, "\nempty")
		case bytes.HasPrefix(payload, []byte{0xff, 0xff, 0xff}):
		default:
			fmt.Fprintf(b, "\n%#02x", payload[0])
		}
	}
	if len(stream) > 0 {
		t.Fatalf("%d bytes behind the last packet", len(stream))
	}
	return b.String()
}
