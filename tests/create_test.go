//go:build realserver

package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"tmpproxy/rewrite"
	"tmpproxy/testbed/server"
)

// made is what a CREATE of a table t made.
type made struct {
	code     uint16 // of the server's error, 0 for none
	affected int64
	warnings string
	table    string // SHOW CREATE TABLE
}

// makeTable runs a CREATE and drops its table.
func makeTable(ctx context.Context, conn *sql.Conn, text, table string) (m made, err error) {
	// MySQL warns when an engine is written to after another one, until this.
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return m, err
	}
	result, err := conn.ExecContext(ctx, text)
	if err != nil {
		var refused *mysql.MySQLError
		if errors.As(err, &refused) {
			return made{code: refused.Number}, nil
		}
		return m, err
	}
	if m.affected, err = result.RowsAffected(); err != nil {
		return m, err
	}
	rows, err := conn.QueryContext(ctx, "SHOW WARNINGS")
	if err != nil {
		return m, err
	}
	defer rows.Close()
	for rows.Next() {
		var level, message string
		var code int
		if err := rows.Scan(&level, &code, &message); err != nil {
			return m, err
		}
		m.warnings += fmt.Sprintf("%s %d %s\n", level, code, message)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return m, err
	}
	var name string
	if err := conn.QueryRowContext(ctx, "SHOW CREATE TABLE "+table).Scan(&name, &m.table); err != nil {
		return m, err
	}
	_, err = conn.ExecContext(ctx, "DROP TEMPORARY TABLE "+table)
	return m, err
}

// whatConversionChanges matches what is different on purpose. Aria shows one of its own options always.
var whatConversionChanges = regexp.MustCompile(` USING HASH|ENGINE=\w+| PAGE_CHECKSUM=0`)

const errBlob = 1163 // MEMORY takes no BLOB and TEXT

// TestCreateOnServer has servers make the tables of the golden file of package rewrite, as the client says it and as we do.
func TestCreateOnServer(t *testing.T) {
	data, err := os.ReadFile("../rewrite/testdata/create.txt")
	if err != nil {
		t.Fatal(err)
	}
	convert, err := rewrite.ParseEngineSet([]string{"MEMORY", "MyISAM", "Aria"})
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(strings.TrimSuffix(string(data), "====\n"), "====\n")
	for _, kind := range []server.Kind{server.MySQL, server.MariaDB, server.MariaDB118, server.MariaDB105} {
		t.Run(string(kind), func(t *testing.T) {
			ctx := context.Background()
			s := shared(t, kind)
			if err := s.Exec(ctx, "DROP DATABASE IF EXISTS creates", "CREATE DATABASE creates"); err != nil {
				t.Fatal(err)
			}
			connector, err := mysql.NewConnector(s.Config("creates"))
			if err != nil {
				t.Fatal(err)
			}
			db := sql.OpenDB(connector)
			defer db.Close()
			kept, converted := 0, 0
			for _, block := range blocks {
				head, _, _ := strings.Cut(block, "\n----\n")
				words, text, _ := strings.Cut(head, "\n")
				opt := rewrite.Options{Convert: convert}
				var mode []string
				for _, w := range strings.Fields(words) {
					switch w {
					case "mariadb":
						opt.Mode |= rewrite.MariaDB
					case "select":
						opt.ConvertSelect = true
					case "ansi":
						opt.Mode |= rewrite.ANSIQuotes
						mode = append(mode, "ANSI_QUOTES")
					case "nbe":
						opt.Mode |= rewrite.NoBackslashEscapes
						mode = append(mode, "NO_BACKSLASH_ESCAPES")
					}
				}
				if kind.IsMariaDB() != (opt.Mode&rewrite.MariaDB != 0) {
					continue
				}
				c := rewrite.Analyze([]byte(text), opt)
				if c.AsSelect {
					c.Convert, c.Converted = c.Select, true
				}
				if c.Keep.Reason != rewrite.ReasonNone && c.Convert.Reason != rewrite.ReasonNone || c.Name.Schema != "" {
					continue
				}
				conn, err := db.Conn(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.ExecContext(ctx, "SET sql_mode = concat(@@global.sql_mode, ',"+strings.Join(mode, ",")+"')"); err != nil {
					t.Fatal(err)
				}
				table := "`" + c.Name.Name + "`"
				want, err := makeTable(ctx, conn, text, table)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				if c.Keep.Reason == rewrite.ReasonNone {
					kept++
					if got, err := makeTable(ctx, conn, c.Keep.SQL, table); err != nil || got != want {
						t.Errorf("%s\nmakes %+v\nkept it makes %+v, %v", text, want, got, err)
					}
				}
				if c.Converted && c.Convert.Reason == rewrite.ReasonNone {
					converted++
					got, err := makeTable(ctx, conn, c.Convert.SQL, table)
					if err != nil {
						t.Fatalf("%s: %v", c.Convert.SQL, err)
					}
					a, b := want, got
					a.table, b.table = whatConversionChanges.ReplaceAllString(a.table, ""), whatConversionChanges.ReplaceAllString(b.table, "")
					if a != b && !(want.code == errBlob && got.code == 0) {
						t.Errorf("%s\nmakes %+v\nconverted it makes %+v", text, want, got)
					}
				}
				conn.Close()
			}
			t.Logf("%d kept, %d converted", kept, converted)
			if kept < 30 || converted < 20 {
				t.Error("these are too few")
			}
		})
	}
}
