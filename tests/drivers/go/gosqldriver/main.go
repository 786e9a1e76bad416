// Command gosqldriver prints what Go's database/sql sees with the driver go-sql-driver/mysql. It takes host, port, user,
// password, database and a file.
package main

import (
	"bytes"
	"context"
	"crypto/md5"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const create = "CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY"

var ctx = context.Background()

func main() {
	log.SetFlags(0)
	if len(os.Args) != 7 {
		log.Fatal("usage: gosqldriver HOST PORT USER PASSWORD DATABASE FILE")
	}
	for _, w := range ways {
		way(w.name, w.change)
	}
	section("end")
}

var ways = []struct {
	name   string
	change func(*mysql.Config)
}{
	{"prepared", func(c *mysql.Config) {}},
	{"interpolated", func(c *mysql.Config) { c.InterpolateParams, c.ParseTime, c.ClientFoundRows = true, true, true }},
	{"compressed", func(c *mysql.Config) { _ = c.Apply(mysql.EnableCompression(true)) }},
}

func section(words ...string) { fmt.Println("==", strings.Join(words, " ")) }

// session is one connection.
type session struct{ *sql.Conn }

func show(v any) string {
	if b, ok := v.([]byte); ok {
		if len(b) > 100 {
			return fmt.Sprintf("bytes(%d) %x", len(b), md5.Sum(b))
		}
		return fmt.Sprintf("bytes %q", b)
	}
	return fmt.Sprintf("%T %v", v, v)
}

func short(text string) string { return text[:min(len(text), 100)] }

func (s session) query(text string, args ...any) {
	fmt.Println(short(text))
	rows, err := s.QueryContext(ctx, text, args...)
	if err != nil {
		fmt.Println("  error", err)
		return
	}
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		types, err := rows.ColumnTypes()
		if err != nil {
			log.Fatal(err)
		}
		for _, c := range types {
			nullable, _ := c.Nullable()
			length, _ := c.Length()
			precision, scale, _ := c.DecimalSize()
			fmt.Println(" ", c.Name(), c.DatabaseTypeName(), c.ScanType(), nullable, length, precision, scale)
		}
		for rows.Next() {
			row, into := make([]any, len(types)), make([]any, len(types))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				log.Fatal(err)
			}
			var shown []string
			for _, v := range row {
				shown = append(shown, show(v))
			}
			fmt.Println(" ", strings.Join(shown, " | "))
		}
		if rows.Err() != nil {
			break
		}
	}
	if err := rows.Err(); err != nil {
		fmt.Println("  error", err)
	}
}

func outcome(r sql.Result, err error) {
	if err != nil {
		fmt.Println("  error", err)
		return
	}
	affected, _ := r.RowsAffected()
	id, _ := r.LastInsertId()
	fmt.Println("  affected", affected, "id", id)
}

func (s session) exec(text string, args ...any) {
	fmt.Println(short(text))
	outcome(s.ExecContext(ctx, text, args...))
}

// prepared sends the statement as a prepared one, whatever its parameters.
func (s session) prepared(text string, args ...any) {
	fmt.Println("prepared", short(text))
	stmt, err := s.PrepareContext(ctx, text)
	if err != nil {
		fmt.Println("  error", err)
		return
	}
	defer stmt.Close()
	outcome(stmt.ExecContext(ctx, args...))
}

// counted returns how many CREATEs and DROPs of this session have reached the server.
func (s session) counted() (creates, drops int) {
	rows, err := s.QueryContext(ctx, "SHOW SESSION STATUS WHERE Variable_name IN ('Com_create_table', 'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table')")
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			log.Fatal(err)
		}
		if strings.HasPrefix(name, "Com_create") {
			creates += n
		} else {
			drops += n
		}
	}
	return creates, drops
}

// cycles has the same cycle six times and tells how many CREATEs and DROPs the last four cost.
func (s session) cycles(name string, cycle func(n int)) {
	section(name)
	var creates, drops int
	for n := 1; n <= 6; n++ {
		if n == 3 {
			creates, drops = s.counted()
		}
		cycle(n)
	}
	c, d := s.counted()
	fmt.Println("@reuse", name, c-creates, d-drops)
}

func open(change func(*mysql.Config)) *sql.DB {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName = "tcp", os.Args[1]+":"+os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	c.MultiStatements, c.MaxAllowedPacket = true, 0
	c.Logger = log.New(io.Discard, "", 0)
	change(c)
	connector, err := mysql.NewConnector(c)
	if err != nil {
		log.Fatal(err)
	}
	return sql.OpenDB(connector)
}

func connect(db *sql.DB) session {
	c, err := db.Conn(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return session{c}
}

func way(name string, change func(*mysql.Config)) {
	db := open(change)
	defer db.Close()

	section("connect", name)
	s := connect(db)
	s.query("SELECT VERSION(), DATABASE(), @@autocommit, @@sql_mode")
	for _, text := range []string{"DELETE FROM types WHERE id > 4", "ALTER TABLE types AUTO_INCREMENT = 5", "DELETE FROM bigs"} {
		s.exec(text)
	}

	section("types", name)
	s.query("SELECT * FROM types ORDER BY id")

	section("prepared", name)
	s.query("SELECT * FROM types WHERE id >= ? ORDER BY id", 1)
	s.query("SELECT ?, ?, ?, ?, ?", nil, "text", []byte("bytes"), 1.5, true)

	section("write", name)
	s.exec("INSERT INTO types (tiny, small, big, ubig, yes, f, d, dec1, day, at, clock, v, bl, j) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		-5, uint16(6), int64(math.MinInt64), uint64(math.MaxUint64), true, float32(0.25), math.MaxFloat64, "1.0000000001", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC),
		time.Date(2024, 2, 29, 23, 59, 59, 999999000, time.UTC), "12:34:56.78", "größer 🙂", []byte{0, 1, 254, 255}, `{"a": 1}`)
	s.exec("INSERT INTO types (tiny, v) VALUES (?, ?)", nil, nil)
	stmt, err := s.PrepareContext(ctx, "INSERT INTO types (v) VALUES (?)")
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range []string{"it's", `\"`, "", "last"} {
		outcome(stmt.ExecContext(ctx, v))
	}
	stmt.Close()
	s.query("SELECT * FROM types WHERE id > 4 ORDER BY id")
	s.exec("UPDATE types SET tiny = 9 WHERE id < 4")
	s.exec("UPDATE types SET tiny = 9 WHERE id < 4")

	section("big", name)
	size := 1 << 20
	if name == "prepared" {
		size = 17 << 20
	}
	s.exec("INSERT INTO bigs VALUES (?, ?)", 1, bytes.Repeat([]byte("0123456789abcdef"), size/16))
	s.query("SELECT id, LENGTH(v), CRC32(v), v FROM bigs")
	s.query("SELECT id, v FROM bigs WHERE id = ?", 1)

	section("results", name)
	s.query("SELECT 1; SELECT 'two', 2; UPDATE types SET tiny = 7 WHERE id = 2; SELECT tiny FROM types WHERE id = 2")
	s.query("SELECT 1; SELECT * FROM nosuch; SELECT 3")
	s.query("CALL several(2)")
	s.query("CALL several(?)", 0)
	s.exec("INSERT INTO loaded VALUES (1, 'x'); INSERT INTO loaded VALUES (2, 'y'), (3, 'z')")

	section("infile", name)
	mysql.RegisterLocalFile(os.Args[6])
	s.exec("LOAD DATA LOCAL INFILE '" + os.Args[6] + "' INTO TABLE loaded FIELDS TERMINATED BY ','")
	mysql.RegisterReaderHandler("data", func() io.Reader { return bytes.NewReader(bytes.Repeat([]byte("1,one\n2,two\n"), 2_000)) })
	s.exec("LOAD DATA LOCAL INFILE 'Reader::data' INTO TABLE loaded FIELDS TERMINATED BY ','")
	s.exec("LOAD DATA LOCAL INFILE 'Reader::nosuch' INTO TABLE loaded")
	s.query("SELECT COUNT(*), SUM(a), MAX(b) FROM loaded")

	section("transaction", name)
	tx, err := s.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		log.Fatal(err)
	}
	outcome(tx.Exec("INSERT INTO loaded VALUES (?, 'rolled back')", -1))
	fmt.Println(tx.Rollback())
	tx, err = s.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		log.Fatal(err)
	}
	outcome(tx.Exec(create))
	outcome(tx.Exec("INSERT INTO loaded VALUES (1, 'never')"))
	fmt.Println(tx.Commit())
	s.exec("DROP TEMPORARY TABLE IF EXISTS report")
	s.query("SELECT COUNT(*), MIN(a) FROM loaded")

	s.cycles("cycles "+name, func(n int) {
		s.exec(create)
		s.exec("INSERT INTO report VALUES (1, 1.25, 'one'), (2, 2.5, NULL)")
		s.exec("INSERT INTO report VALUES (?, ?, ?)", n+2, "3.75", fmt.Sprint("cycle ", n))
		s.query("SELECT * FROM report ORDER BY id")
		s.query("SELECT name FROM report WHERE id = ?", 1)
		tx, err := s.BeginTx(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		outcome(tx.Exec("UPDATE report SET total = 3 WHERE id = 2"))
		outcome(tx.Exec("INSERT INTO report VALUES (?, 0, 'inside')", 99))
		fmt.Println(tx.Commit())
		s.query("SELECT SUM(total) FROM report")
		if n == 4 {
			var table, text string
			if err := s.QueryRowContext(ctx, "SHOW CREATE TABLE report").Scan(&table, &text); err != nil {
				log.Fatal(err)
			}
			fmt.Println("@engine cycles", name, regexp.MustCompile(`ENGINE=(\w+)`).FindStringSubmatch(text)[1])
		}
		s.exec("DROP TEMPORARY TABLE report")
	})
	s.query("SELECT * FROM report")

	s.cycles("ddl "+name, func(n int) {
		s.prepared(strings.ReplaceAll(create, "report", "report_prepared"))
		s.prepared("INSERT INTO report_prepared VALUES (?, ?, ?)", n, "1.5", "x")
		s.query("SELECT * FROM report_prepared WHERE id > ?", 0)
		s.prepared("DROP TEMPORARY TABLE report_prepared")
	})

	s.cycles("several "+name, func(n int) {
		s.query(strings.ReplaceAll(create, "report", "report_several") + fmt.Sprintf("; INSERT INTO report_several VALUES (%d, 1, 'x'); SELECT * FROM report_several; DROP TEMPORARY TABLE report_several", n))
	})

	section("errors", name)
	s.exec("INSERT INTO types (id) VALUES (1)")
	s.exec("SELEC 1")
	s.exec("DROP TEMPORARY TABLE report")
	s.exec("DROP TEMPORARY TABLE IF EXISTS report")
	s.query("SHOW WARNINGS")
	s.query("SELECT * FROM nosuch WHERE id = ?", 1)
	s.exec("INSERT INTO types (id) VALUES (?)", 1)
	s.exec("INSERT IGNORE INTO types (id, tiny, small) VALUES (1, 1000, -1)")
	s.query("SHOW WARNINGS")
	s.exec("CREATE TEMPORARY TABLE report (id INT, id INT)")
	s.exec(create)
	s.exec(create)
	s.exec("INSERT INTO report VALUES (1, 1, 'a'), (1, 2, 'b')")
	s.exec("INSERT INTO report VALUES (1, 1, REPEAT('x', 21))")
	s.exec("DROP TABLE report")

	// A statement that is given up ends its connection; the pool makes another one.
	section("reset", name)
	soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	_, err = s.ExecContext(soon, "DO SLEEP(30)")
	cancel()
	fmt.Println(err)
	fmt.Println(errors.Is(s.PingContext(ctx), driver.ErrBadConn), s.Close())

	section("reconnect", name)
	s = connect(db)
	s.exec(create)
	s.exec("DROP TEMPORARY TABLE report")
	var id int
	if err := s.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		log.Fatal(err)
	}
	killer := connect(db)
	_, err = killer.ExecContext(ctx, fmt.Sprint("KILL ", id))
	fmt.Println(err)
	_, err = s.ExecContext(ctx, "DO 1")
	fmt.Println("lost", err != nil)
	s.Close()
	killer.Close()
	s = connect(db)
	s.query("SELECT 'alive'")
	s.exec(create)
	s.query("SELECT COUNT(*) FROM report")
	s.exec("DROP TEMPORARY TABLE report")
	fmt.Println(s.Close())
}
