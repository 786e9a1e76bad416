//go:build realserver

package tests

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
	driver "github.com/go-sql-driver/mysql"

	"tmpproxy/testbed/server"
)

// values are of all types that clients tell apart.
var values = []string{
	`CREATE TABLE types (
		id INT AUTO_INCREMENT PRIMARY KEY, tiny TINYINT, small SMALLINT UNSIGNED, medium MEDIUMINT, big BIGINT, ubig BIGINT UNSIGNED, yes BOOL,
		f FLOAT, d DOUBLE, dec1 DECIMAL(30,10), b BIT(10), day DATE, at DATETIME(6), stamp TIMESTAMP(3) NULL, clock TIME(2), year YEAR,
		c CHAR(10), v VARCHAR(100) CHARACTER SET utf8mb4, bin BINARY(4), vbin VARBINARY(20), t TEXT, bl BLOB, e ENUM('a','b'), s SET('x','y','z'), j JSON)`,
	`INSERT INTO types VALUES (1, -128, 65535, -8388608, -9223372036854775808, 18446744073709551615, TRUE,
		1.5, -2.5e300, 12345678901234567890.0123456789, b'1010101010', '2024-02-29', '2024-02-29 23:59:59.123456', '2024-02-29 12:00:00.5', '-838:59:58.25', 2024,
		'char', 'größer 🙂 "quoted" \\ ''x''', X'00FF00FF', X'0001', 'text\nwith lines', X'DEADBEEF00', 'b', 'x,z', '{"k": [1, null, "v"]}')`,
	`INSERT INTO types (id) VALUES (2)`,
	`INSERT INTO types (id, v, t, bl, vbin) VALUES (3, '', '', '', '')`,
	`INSERT INTO types (id, v, day) VALUES (4, 'zero', '1000-01-01')`,
}

// script is what the command-line clients are fed.
const script = `
SET time_zone = '+00:00';
SELECT * FROM types ORDER BY id;
SELECT HEX(b), HEX(bin), HEX(bl) FROM types WHERE id = 1\G
SELECT 1 AS 'a column', NULL, 'x' FROM DUAL WHERE 1 = 0;
-- a comment
/* another */ SELECT /*+ a hint */ 'commented'; # and more
UPDATE types SET tiny = tiny + 1 WHERE id = 1;
INSERT INTO types (tiny) VALUES (1), (2), (3);
INSERT INTO types (id) VALUES (1);
SELECT * FROM nosuch;
SELECT CAST('12x' AS SIGNED);
SHOW WARNINGS;
DELIMITER //
CREATE PROCEDURE several(IN n INT)
BEGIN
  SELECT 'first', n;
  SELECT id, v FROM types WHERE id <= n ORDER BY id;
END//
DELIMITER ;
CALL several(2);
CALL several(0);
LOAD DATA LOCAL INFILE '{data}' INTO TABLE loaded FIELDS TERMINATED BY ',' (a, b);
SELECT COUNT(*), SUM(a), MAX(b) FROM loaded;
LOAD DATA LOCAL INFILE '/nonexistent' INTO TABLE loaded;
SELECT LENGTH(REPEAT('x', 3000000));
SELECT MD5(REPEAT('x', 3000000)), REPEAT('y', 100000);
START TRANSACTION;
INSERT INTO loaded VALUES (-1, 'rolled back');
ROLLBACK;
SELECT COUNT(*) FROM loaded;
PREPARE p FROM 'SELECT ? + ?';
SET @a = 1, @b = 2;
EXECUTE p USING @a, @b;
DEALLOCATE PREPARE p;
{cycles}
DROP TEMPORARY TABLE IF EXISTS report;
SHOW WARNINGS;
SELECT * FROM report;
SHOW TABLES;
source {more}
SELECT 'the end';
`

const reportCycle = `
CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY;
INSERT INTO report VALUES (1, 1.25, 'one'), (2, 2.5, 'two');
SELECT * FROM report ORDER BY id;
UPDATE report SET total = total * 2 WHERE id = 2;
SELECT SUM(total) FROM report;
DROP TEMPORARY TABLE report;
`

// program returns a client program of a kind.
func program(t *testing.T, kind server.Kind, name string) string {
	t.Helper()
	root, err := server.Obtain(context.Background(), kind)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "bin", name)
}

// TestCommandLineClients runs the mysql and mariadb clients, each against both servers.
func TestCommandLineClients(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		t.Cleanup(func() {
			if err := s.Exec(context.Background(), "DROP DATABASE IF EXISTS clients", "DROP USER IF EXISTS clients_user"); err != nil {
				t.Error(err)
			}
		})
		dir := t.TempDir()
		data, more := filepath.Join(dir, "data.csv"), filepath.Join(dir, "more.sql")
		if err := os.WriteFile(data, bytes.Repeat([]byte("1,a row\n2,another\n"), 5_000), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(more, []byte("SELECT 'sourced';\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		input := strings.NewReplacer("{data}", data, "{more}", more, "{cycles}", strings.Repeat(reportCycle, 5)).Replace(script)
		proxies := map[string]string{}
		for _, d := range drivers {
			proxies[d] = startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d).Address
		}
		for _, c := range []struct {
			name  string
			kind  server.Kind
			args  []string
			plain bool // as the account without a password
		}{
			{"mysql", server.MySQL, []string{"--commands", "--get-server-public-key"}, false},
			{"mysql", server.MySQL, []string{"--commands", "--table", "--column-type-info", "--show-warnings"}, true},
			{"mysql", server.MySQL, []string{"--commands", "--quick", "--compress", "--get-server-public-key"}, false},
			// MariaDB's client sends a password in clear, which the server refuses, where it had wished for TLS and there is none.
			{"mariadb", server.MariaDB, []string{"--skip-ssl"}, false},
			{"mariadb", server.MariaDB, []string{"--skip-ssl", "--table", "--column-type-info", "--show-warnings"}, true},
			{"mariadb", server.MariaDB, []string{"--skip-ssl", "--quick", "--compress"}, false},
		} {
			t.Run(strings.Join(append([]string{c.name}, c.args...), " "), func(t *testing.T) {
				binary := program(t, c.kind, c.name)
				run := func(address string) string {
					executeDirectly(t, s, append([]string{"DROP DATABASE IF EXISTS clients", "CREATE DATABASE clients", "USE clients",
						"CREATE TABLE loaded (a INT, b VARCHAR(20))", "DROP USER IF EXISTS clients_user", "CREATE USER clients_user IDENTIFIED BY 'secret'",
						"GRANT ALL ON clients.* TO clients_user"}, values...)...)
					host, port, _ := net.SplitHostPort(address)
					args := []string{"--no-defaults", "--protocol=TCP", "--host=" + host, "--port=" + port, "--local-infile=1", "--force", "--comments", "-vv"}
					if user, password := s.Account(); c.plain {
						args = append(args, "--user="+user, "--password="+password)
					} else {
						args = append(args, "--user=clients_user", "--password=secret")
					}
					command := exec.Command(binary, append(append(args, c.args...), "clients")...)
					command.Stdin = strings.NewReader(input)
					output, err := command.CombinedOutput()
					return fmt.Sprintf("%s\n%v", output, err)
				}
				want := run(s.Address)
				for _, sign := range []string{"the end", "sourced", "10000", "DEADBEEF00", "ERROR 1146"} {
					if !strings.Contains(want, sign) {
						t.Errorf("directly no %q:\n%.2000s", sign, want)
					}
				}
				for _, d := range drivers {
					t.Run(d, func(t *testing.T) { sameLines(t, strings.Split(want, "\n"), strings.Split(run(proxies[d]), "\n")) })
				}
			})
		}
		t.Run("mysqladmin", func(t *testing.T) {
			binary := program(t, server.MySQL, "mysqladmin")
			admin := func(address string, args ...string) string {
				host, port, _ := net.SplitHostPort(address)
				user, password := s.Account()
				output, err := exec.Command(binary, append([]string{"--no-defaults", "--protocol=TCP", "--host=" + host, "--port=" + port, "--user=" + user, "--password=" + password}, args...)...).CombinedOutput()
				return fmt.Sprintf("%s\n%v", output, err)
			}
			for _, d := range drivers {
				var told [2][]string
				for i, address := range []string{s.Address, proxies[d]} {
					for _, args := range [][]string{{"ping"}, {"create", "clients_made"}, {"drop", "--force", "clients_made"}, {"debug"}, {"refresh"}} {
						told[i] = append(told[i], strings.Split(admin(address, args...), "\n")...)
					}
				}
				sameLines(t, told[0], told[1])
				if out := admin(proxies[d], "status"); !strings.Contains(out, "Uptime: ") {
					t.Error(out)
				}
				victim := connect(t, configure(s, proxies[d], ""))
				if out := admin(proxies[d], "kill", fmt.Sprint(victim.Greeting.ThreadID)); !strings.HasSuffix(out, "<nil>") {
					t.Error(out)
				}
				if got := ending(victim); got != "the connection has ended" {
					t.Error(got)
				}
			}
		})
	})
}

// rowsOf reads all results of a query with the types that the driver tells.
func rowsOf(rows *sql.Rows, err error) string {
	if err != nil {
		return "ERR " + err.Error()
	}
	defer rows.Close()
	var b strings.Builder
	for {
		types, err := rows.ColumnTypes()
		if err != nil {
			return "ERR " + err.Error()
		}
		for _, c := range types {
			nullable, _ := c.Nullable()
			length, _ := c.Length()
			precision, scale, _ := c.DecimalSize()
			fmt.Fprintf(&b, "%s %s %v %v %d %d %d; ", c.Name(), c.DatabaseTypeName(), c.ScanType(), nullable, length, precision, scale)
		}
		for rows.Next() {
			row := make([]any, len(types))
			into := make([]any, len(types))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				return "ERR " + err.Error()
			}
			for _, v := range row {
				if bytes, ok := v.([]byte); ok && len(bytes) > 100 {
					v = fmt.Sprintf("%d bytes %x…", len(bytes), bytes[:10])
				}
				fmt.Fprintf(&b, "%T %v|", v, v)
			}
			b.WriteByte('\n')
		}
		if err := rows.Err(); err != nil {
			return b.String() + "ERR " + err.Error()
		}
		if !rows.NextResultSet() {
			break
		}
		b.WriteString("next: ")
	}
	if err := rows.Err(); err != nil {
		b.WriteString("ERR " + err.Error())
	}
	return b.String()
}

func resultOf(r sql.Result, err error) string {
	if err != nil {
		return "ERR " + err.Error()
	}
	affected, _ := r.RowsAffected()
	id, _ := r.LastInsertId()
	return fmt.Sprintf("%d rows, id %d", affected, id)
}

// useDriver does what applications do with the Go driver and tells what it sees.
// size is that of a large value.
func useDriver(t *testing.T, db *sql.DB, size int) (lines []string) {
	ctx := context.Background()
	tell := func(line string) { lines = append(lines, line) }
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	query := func(text string, args ...any) { tell(text + ": " + rowsOf(conn.QueryContext(ctx, text, args...))) }
	execute := func(text string, args ...any) { tell(text + ": " + resultOf(conn.ExecContext(ctx, text, args...))) }

	query("SELECT * FROM types ORDER BY id")
	query("SELECT * FROM types WHERE id > ? ORDER BY id", 0)
	execute("INSERT INTO types (tiny, small, big, ubig, yes, f, d, dec1, day, at, clock, v, bl, j) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		-5, uint16(6), int64(math.MinInt64), uint64(math.MaxInt64), true, float32(0.25), math.MaxFloat64, "1.0000000001", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC),
		time.Date(2024, 2, 29, 23, 59, 59, 999999000, time.UTC), "12:34:56.78", "größer 🙂", []byte{0, 1, 254, 255}, `{"a": 1}`)
	execute("INSERT INTO types (tiny, v) VALUES (?, ?)", nil, nil)
	query("SELECT * FROM types WHERE id > 4 ORDER BY id")
	query("SELECT ?, ?, ?, ?", nil, "text", []byte("bytes"), 1.5)
	execute("INSERT INTO types (id) VALUES (1)")
	query("SELECT * FROM nosuch")
	query("SELECT 1; SELECT 'two', 2; UPDATE types SET tiny = 7 WHERE id = 2; SELECT tiny FROM types WHERE id = 2")
	query("SELECT 1; SELECT * FROM nosuch; SELECT 3")
	query("CALL several(2)")

	execute("CREATE TABLE bigs (id INT PRIMARY KEY, v LONGBLOB)")
	big := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	execute("INSERT INTO bigs VALUES (?, ?)", 1, big)
	query("SELECT id, LENGTH(v), MD5(v), v FROM bigs")
	query("SELECT id, LENGTH(v), MD5(v), v FROM bigs WHERE id = ?", 1)

	// For good: others that run at the same time need it, too.
	driver.RegisterReaderHandler("data", func() io.Reader { return bytes.NewReader(bytes.Repeat([]byte("1,one\n2,two\n"), 2_000)) })
	execute("LOAD DATA LOCAL INFILE 'Reader::data' INTO TABLE loaded FIELDS TERMINATED BY ','")
	query("SELECT COUNT(*), SUM(a), MD5(MAX(b)) FROM loaded")

	insert, err := conn.PrepareContext(ctx, "INSERT INTO loaded VALUES (?, ?)")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		tell(resultOf(insert.ExecContext(ctx, -i, fmt.Sprint("row ", i))))
	}
	for range 6 {
		execute("CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY")
		execute("INSERT INTO report VALUES (?, ?, ?), (?, ?, ?)", 1, "1.25", "one", 2, 2.5, nil)
		query("SELECT * FROM report ORDER BY id")
		query("SELECT name FROM report WHERE id = ?", 1)
		tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			t.Fatal(err)
		}
		tell(resultOf(tx.Exec("UPDATE report SET total = 3 WHERE id = 2")))
		tell(resultOf(tx.Exec("INSERT INTO loaded VALUES (?, 'inside')", 99)))
		tell(fmt.Sprint(tx.Commit()))
		query("SELECT SUM(total) FROM report")
		execute("DROP TEMPORARY TABLE report")
		query("SELECT * FROM report")
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	tell(resultOf(tx.Exec("CREATE TEMPORARY TABLE report (id INT)")))
	tell(resultOf(tx.Exec("INSERT INTO loaded VALUES (1, 'never')")))
	tell(fmt.Sprint(tx.Rollback()))

	// A statement that is given up ends its connection; the pool makes another one.
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err = db.ExecContext(short, "DO SLEEP(30)")
	tell(fmt.Sprint(err))
	tell(rowsOf(db.Query("SELECT 'alive'")))
	return lines
}

// clientSetup is the schema of the drivers' tests.
func clientSetup(t *testing.T, s *server.Server) {
	t.Helper()
	executeDirectly(t, s, append([]string{"DROP DATABASE IF EXISTS clients", "CREATE DATABASE clients CHARACTER SET utf8mb4", "USE clients",
		"CREATE TABLE loaded (a INT, b VARCHAR(250))",
		"CREATE PROCEDURE several(IN n INT) BEGIN SELECT 'first', n; SELECT id, v FROM types WHERE id <= n ORDER BY id; END"}, values...)...)
}

// TestGoDriver uses the Go driver in its ways of sending parameters.
func TestGoDriver(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind, "--max-allowed-packet=64M")
		for name, way := range map[string]struct {
			size   int
			change func(*driver.Config)
		}{
			"prepared":     {17 << 20, func(c *driver.Config) {}},
			"interpolated": {1 << 20, func(c *driver.Config) { c.InterpolateParams = true; c.ParseTime = true; c.ClientFoundRows = true }},
			"compressed":   {1 << 20, func(c *driver.Config) { _ = c.Apply(driver.EnableCompression(true)) }},
		} {
			t.Run(name, func(t *testing.T) {
				use := func(address string) []string {
					clientSetup(t, s)
					config := s.Config("clients")
					config.Addr, config.MultiStatements = address, true
					config.MaxAllowedPacket = 0 // as the server says
					way.change(config)
					connector, err := driver.NewConnector(config)
					if err != nil {
						t.Fatal(err)
					}
					db := sql.OpenDB(connector)
					defer db.Close()
					return useDriver(t, db, way.size)
				}
				want := use(s.Address)
				for _, d := range drivers {
					t.Run(d, func(t *testing.T) {
						p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
						sameLines(t, want, use(p.Address))
					})
				}
			})
		}
	})
}

// TestGoDriverPool has many goroutines cycle on one pool.
func TestGoDriverPool(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "clients_pool")
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
				config := s.Config("clients_pool")
				config.Addr = p.Address
				connector, err := driver.NewConnector(config)
				if err != nil {
					t.Fatal(err)
				}
				db := sql.OpenDB(connector)
				defer db.Close()
				db.SetMaxIdleConns(4) // so that some sessions end
				cycle := func(n int) error {
					conn, err := db.Conn(context.Background())
					if err != nil {
						return err
					}
					defer conn.Close()
					for _, text := range []string{"CREATE TEMPORARY TABLE pooled (id INT PRIMARY KEY, n INT) ENGINE=MEMORY",
						fmt.Sprintf("INSERT INTO pooled VALUES (1, %d), (2, %d)", n, n)} {
						if _, err := conn.ExecContext(context.Background(), text); err != nil {
							return fmt.Errorf("%s: %w", text, err)
						}
					}
					var rows, sum int
					if err := conn.QueryRowContext(context.Background(), "SELECT COUNT(*), SUM(n) FROM pooled").Scan(&rows, &sum); err != nil {
						return err
					}
					if rows != 2 || sum != 2*n {
						return fmt.Errorf("%d rows with a sum of %d instead of 2 and %d", rows, sum, 2*n)
					}
					_, err = conn.ExecContext(context.Background(), "DROP TEMPORARY TABLE pooled")
					return err
				}
				var all sync.WaitGroup
				for g := range 8 {
					all.Go(func() {
						for i := range 25 {
							if err := cycle(1000*g + i); err != nil {
								t.Errorf("goroutine %d, cycle %d: %v", g, i, err)
								return
							}
						}
					})
				}
				all.Wait()
			})
		}
	})
}

// useClient does the same with go-mysql's client.
func useClient(t *testing.T, c *client.Conn, size int) (lines []string) {
	tell := func(what string, r *mysql.Result, err error) {
		line := what + ": "
		switch {
		case err != nil:
			var refusal *mysql.MyError
			if errors.As(err, &refusal) {
				err = refusal
			}
			line += "ERR " + err.Error()
		case r.Resultset != nil:
			for _, f := range r.Fields {
				line += fmt.Sprintf("%s.%s.%s %d %#x %d %d; ", f.Schema, f.Table, f.Name, f.Type, f.Flag, f.ColumnLength, f.Charset)
			}
			for _, row := range r.Values {
				for i := range row {
					if value := fmt.Sprintf("%q", row[i].Value()); len(value) > 100 {
						line += fmt.Sprintf("%d bytes %.20s|", len(value), value)
					} else {
						line += value + "|"
					}
				}
			}
			fallthrough
		default:
			line += fmt.Sprintf(" %d rows, id %d, %d warnings", r.AffectedRows, r.InsertId, r.Warnings)
		}
		lines = append(lines, line)
	}
	execute := func(text string, args ...any) {
		r, err := c.Execute(text, args...)
		tell(text, r, err)
	}
	execute("SELECT * FROM types ORDER BY id")
	execute("SELECT * FROM types WHERE id > ? ORDER BY id", 0)
	execute("INSERT INTO types (tiny, big, d, v, bl) VALUES (?, ?, ?, ?, ?)", int8(-5), int64(math.MinInt64), 1.5, "größer 🙂", []byte{0, 255})
	execute("INSERT INTO types (id) VALUES (1)")
	execute("SELECT * FROM nosuch")
	_, err := c.ExecuteMultiple("SELECT 1; SELECT 'two', 2; UPDATE types SET tiny = 7; CALL several(2)", func(r *mysql.Result, err error) { tell("one of several", r, err) })
	lines = append(lines, fmt.Sprint(err))
	rows := 0
	var streamed mysql.Result
	err = c.ExecuteSelectStreaming("SELECT REPEAT('x', 1000) FROM information_schema.columns LIMIT 500", &streamed, func(row []mysql.FieldValue) error {
		rows++
		return nil
	}, nil)
	lines = append(lines, fmt.Sprint(rows, " rows streamed ", err))
	fields, err := c.FieldList("types", "")
	lines = append(lines, fmt.Sprint(len(fields), err))
	lines = append(lines, fmt.Sprint(c.UseDB("nosuch"), c.UseDB("clients"), c.Ping(), c.SetCharset("latin1"), c.SetCharset("utf8mb4")))
	big := strings.Repeat("0123456789abcdef", size/16)
	execute("SELECT LENGTH(?), MD5(?)", big, "x")
	execute("SELECT '" + big + "' AS v")
	for range 6 {
		execute("CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY")
		stmt, err := c.Prepare("INSERT INTO report VALUES (?, ?, ?)")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			r, err := stmt.Execute(i, "1.5", nil)
			tell("insert", r, err)
		}
		_ = stmt.Close()
		execute("SELECT * FROM report ORDER BY id")
		lines = append(lines, fmt.Sprint(c.Begin(), c.IsInTransaction()))
		execute("DELETE FROM report WHERE id = 1")
		lines = append(lines, fmt.Sprint(c.Commit(), c.IsInTransaction(), c.IsAutoCommit()))
		execute("DROP TEMPORARY TABLE report")
	}
	if c.HasCapability(mysql.CLIENT_QUERY_ATTRIBUTES) {
		lines = append(lines, fmt.Sprint(c.SetQueryAttributes(mysql.QueryAttribute{Name: "a", Value: "b"})))
		execute("SELECT 'attributed'")
	}
	return lines
}

// TestGoMySQLClient uses go-mysql's client.
func TestGoMySQLClient(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind, "--max-allowed-packet=64M")
		for name, way := range map[string]struct {
			size   int
			option client.Option
		}{
			"plain":      {17 << 20, func(c *client.Conn) error { return nil }},
			"attributes": {1 << 20, func(c *client.Conn) error { c.SetCapability(mysql.CLIENT_QUERY_ATTRIBUTES); return nil }},
		} {
			t.Run(name, func(t *testing.T) {
				use := func(address string) []string {
					clientSetup(t, s)
					user, password := s.Account()
					c, err := client.Connect(address, user, password, "clients", way.option, func(c *client.Conn) error {
						c.SetCapability(mysql.CLIENT_MULTI_STATEMENTS)
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					return useClient(t, c, way.size)
				}
				want := use(s.Address)
				for _, d := range drivers {
					t.Run(d, func(t *testing.T) {
						p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
						sameLines(t, want, use(p.Address))
					})
				}
			})
		}
	})
}
