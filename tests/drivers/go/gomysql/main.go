// Command gomysql prints what the client of go-mysql sees. It takes host, port, user, password, database and a file.
package main

import (
	"crypto/md5"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math"
	"os"
	"regexp"
	"strings"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

const create = "CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY"

func section(words ...string) { fmt.Println("==", strings.Join(words, " ")) }

func short(text string) string { return text[:min(len(text), 100)] }

// session is one connection.
type session struct{ *client.Conn }

func connect(attributes bool) session {
	c, err := client.Connect(os.Args[1]+":"+os.Args[2], os.Args[3], os.Args[4], os.Args[5], func(c *client.Conn) error {
		c.SetCapability(mysql.CLIENT_MULTI_STATEMENTS)
		if attributes {
			c.SetCapability(mysql.CLIENT_QUERY_ATTRIBUTES)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	return session{c}
}

func outcome(r *mysql.Result, err error) {
	if err != nil {
		var refusal *mysql.MyError
		if errors.As(err, &refusal) {
			err = refusal
		}
		fmt.Println("  error", err)
		return
	}
	if r.Resultset != nil {
		for _, f := range r.Fields {
			fmt.Printf("  %s.%s.%s/%s.%s type %d flags %#x length %d decimals %d charset %d\n", f.Schema, f.Table, f.Name, f.OrgTable, f.OrgName, f.Type, f.Flag, f.ColumnLength, f.Decimal, f.Charset)
		}
		for _, row := range r.Values {
			var shown []string
			for i := range row {
				v := row[i].Value()
				if b, ok := v.([]byte); ok && len(b) > 100 {
					shown = append(shown, fmt.Sprintf("bytes(%d) %x", len(b), md5.Sum(b)))
				} else {
					shown = append(shown, fmt.Sprintf("%T %q", v, fmt.Sprint(v)))
				}
			}
			fmt.Println(" ", strings.Join(shown, " | "))
		}
	}
	fmt.Println("  affected", r.AffectedRows, "id", r.InsertId, "warnings", r.Warnings, "status", r.Status&^(mysql.SERVER_STATUS_NO_INDEX_USED|mysql.SERVER_STATUS_NO_GOOD_INDEX_USED)) // the plan may be another
}

// execute sends text, prepared if it has parameters.
func (s session) execute(text string, args ...any) {
	fmt.Println(short(text))
	outcome(s.Execute(text, args...))
}

func (s session) prepared(text string, args ...any) {
	fmt.Println("prepared", short(text))
	stmt, err := s.Prepare(text)
	if err != nil {
		outcome(nil, err)
		return
	}
	defer stmt.Close()
	fmt.Println("  parameters", stmt.ParamNum(), "columns", stmt.ColumnNum())
	outcome(stmt.Execute(args...))
}

func (s session) several(text string) {
	fmt.Println(short(text))
	if _, err := s.ExecuteMultiple(text, outcome); err != nil {
		outcome(nil, err)
	}
}

// counted returns how many CREATEs and DROPs of this session have reached the server.
func (s session) counted() (creates, drops int) {
	r, err := s.Execute("SHOW SESSION STATUS WHERE Variable_name IN ('Com_create_table', 'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table')")
	if err != nil {
		log.Fatal(err)
	}
	for i := range r.Values {
		name, _ := r.GetString(i, 0)
		n, err := r.GetInt(i, 1)
		if err != nil {
			log.Fatal(err)
		}
		if strings.HasPrefix(name, "Com_create") {
			creates += int(n)
		} else {
			drops += int(n)
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

func main() {
	log.SetFlags(0)
	slog.SetLogLoggerLevel(slog.LevelError) // a query attribute without a value is a warning
	if len(os.Args) != 7 {
		log.Fatal("usage: gomysql HOST PORT USER PASSWORD DATABASE FILE")
	}
	way("plain", false)
	way("attributes", true)
	section("end")
}

func way(name string, attributes bool) {
	section("connect", name)
	s := connect(attributes)
	fmt.Println(s.GetServerVersion(), s.GetDB(), s.IsAutoCommit(), s.GetCharset(), s.Ping(), s.UseDB("nosuch"), s.UseDB(os.Args[5]), s.SetCharset("latin1"), s.SetCharset("utf8mb4"))
	for _, text := range []string{"DELETE FROM types WHERE id > 4", "ALTER TABLE types AUTO_INCREMENT = 5", "DELETE FROM bigs"} {
		s.execute(text)
	}
	if s.HasCapability(mysql.CLIENT_QUERY_ATTRIBUTES) {
		fmt.Println(s.SetQueryAttributes(mysql.QueryAttribute{Name: "a", Value: "b"}))
		s.execute("SELECT 'attributed'")
	}

	section("types", name)
	s.execute("SELECT * FROM types ORDER BY id")
	fields, err := s.FieldList("types", "")
	fmt.Println(len(fields), err)

	section("prepared", name)
	s.prepared("SELECT * FROM types ORDER BY id")
	s.execute("SELECT * FROM types WHERE id >= ? ORDER BY id", 2)
	s.execute("SELECT ?, ?, ?, ?", nil, "text", []byte("bytes"), 1.5)
	var streamed mysql.Result
	rows := 0
	err = s.ExecuteSelectStreaming("SELECT REPEAT('x', 1000), id FROM types ORDER BY id", &streamed, func(row []mysql.FieldValue) error { rows++; return nil }, nil)
	fmt.Println(rows, err)

	section("write", name)
	s.execute("INSERT INTO types (tiny, big, ubig, d, dec1, day, at, v, bl) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", int8(-5), int64(math.MinInt64), uint64(math.MaxUint64), 1.5e300,
		"1.0000000001", "2024-02-29", "2024-02-29 23:59:59.999999", "größer 🙂", []byte{0, 1, 254, 255})
	s.execute("INSERT INTO types (tiny, v) VALUES (?, ?)", nil, nil)
	s.execute("INSERT INTO types (v) VALUES ('" + mysql.Escape("it's \\ \"q\" \x00 \n") + "')")
	s.execute("SELECT * FROM types WHERE id > 4 ORDER BY id")
	s.execute("UPDATE types SET tiny = 9 WHERE id < 4")
	s.execute("UPDATE types SET tiny = 9 WHERE id < 4")

	section("big", name)
	big := strings.Repeat("0123456789abcdef", 17<<16)
	s.execute("INSERT INTO bigs VALUES (1, '" + big + "')")
	s.execute("INSERT INTO bigs VALUES (?, ?)", 2, big)
	s.execute("SELECT id, LENGTH(v), CRC32(v), v FROM bigs ORDER BY id")
	s.execute("SELECT id, v FROM bigs WHERE id = ?", 2)

	section("results", name)
	s.several("SELECT 1; SELECT 'two', 2; UPDATE types SET tiny = 7 WHERE id = 2; CALL several(2)")
	s.several("SELECT 1; SELECT * FROM nosuch; SELECT 3")

	section("transaction", name)
	fmt.Println(s.Begin(), s.IsInTransaction())
	s.execute("INSERT INTO loaded VALUES (-1, 'rolled back')")
	fmt.Println(s.Rollback(), s.IsInTransaction(), s.SetAutoCommit())
	fmt.Println(s.BeginTx(true, "SERIALIZABLE"))
	s.execute("INSERT INTO loaded VALUES (-1, 'never')")
	fmt.Println(s.Commit())

	s.cycles("cycles "+name, func(n int) {
		s.execute(create)
		s.execute("INSERT INTO report VALUES (1, 1.25, 'one'), (2, 2.5, NULL)")
		s.execute("INSERT INTO report VALUES (?, ?, ?)", n+2, "3.75", fmt.Sprint("cycle ", n))
		s.execute("SELECT * FROM report ORDER BY id")
		s.execute("SELECT name FROM report WHERE id = ?", 1)
		fmt.Println(s.Begin(), s.IsInTransaction())
		s.execute("UPDATE report SET total = total * 2 WHERE id = 2")
		s.execute("SELECT COUNT(*) FROM loaded WHERE a < 0")
		fmt.Println(s.Commit(), s.IsInTransaction(), s.IsAutoCommit())
		s.execute("SELECT SUM(total) FROM report")
		if n == 4 {
			r, err := s.Execute("SHOW CREATE TABLE report")
			if err != nil {
				log.Fatal(err)
			}
			text, _ := r.GetString(0, 1)
			fmt.Println("@engine cycles", name, regexp.MustCompile(`ENGINE=(\w+)`).FindStringSubmatch(text)[1])
		}
		s.execute("DROP TEMPORARY TABLE report")
	})
	s.execute("SELECT * FROM report")

	s.cycles("ddl "+name, func(n int) {
		s.prepared(strings.ReplaceAll(create, "report", "report_prepared"))
		s.execute("INSERT INTO report_prepared VALUES (?, ?, ?)", n, "1.5", "x")
		s.prepared("SELECT * FROM report_prepared")
		s.prepared("DROP TEMPORARY TABLE report_prepared")
	})

	// A transaction that has written into tables of two engines is warned of, where one of them was converted.
	s.execute("COMMIT")
	s.cycles("several "+name, func(n int) {
		s.several(strings.ReplaceAll(create, "report", "report_several") + fmt.Sprintf("; INSERT INTO report_several VALUES (%d, 1, 'x'); SELECT * FROM report_several; DROP TEMPORARY TABLE report_several", n))
	})

	section("errors", name)
	s.execute("INSERT INTO types (id) VALUES (1)")
	s.execute("SELEC 1")
	s.execute("DROP TEMPORARY TABLE report")
	s.execute("DROP TEMPORARY TABLE IF EXISTS report")
	s.execute("SHOW WARNINGS")
	s.execute("SELECT * FROM nosuch WHERE id = ?", 1)
	s.execute("INSERT INTO types (id) VALUES (?)", 1)
	s.execute("INSERT IGNORE INTO types (id, tiny, small) VALUES (1, 1000, -1)")
	s.execute("SHOW WARNINGS")
	s.execute("CREATE TEMPORARY TABLE report (id INT, id INT)")
	s.execute(create)
	s.execute(create)
	s.execute("INSERT INTO report VALUES (1, 1, 'a'), (1, 2, 'b')")
	s.execute("INSERT INTO report VALUES (1, 1, REPEAT('x', 21))")

	section("reconnect", name)
	killer := connect(attributes)
	_, err = killer.Execute(fmt.Sprint("KILL ", s.GetConnectionID()))
	fmt.Println(err)
	_, err = s.Execute("DO 1")
	fmt.Println("lost", err != nil)
	s = connect(attributes)
	s.execute("SELECT 'alive'")
	s.execute(create)
	s.execute("SELECT COUNT(*) FROM report")
	s.execute("DROP TEMPORARY TABLE report")
	fmt.Println(s.Quit(), killer.Quit())
}
