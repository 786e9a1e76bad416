//go:build realserver && suite

package tests

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"tmpproxy/rewrite"
	"tmpproxy/testbed/server"
)

var (
	suiteComment = regexp.MustCompile(`(?m)^\s*(#|--).*$`)
	suiteCreate  = regexp.MustCompile("(?is)create\\s+(?:temporary\\s+)?table\\s+(?:if\\s+not\\s+exists\\s+)?(?:`[^`]+`|[\\w.$]+)\\s*(\\([^;]*?);")
	suiteSkip    = regexp.MustCompile(`(?i)\bselect\b|\$|partition|\blike\b|\\`)
	suiteEngine  = regexp.MustCompile("(?i)\\bengine\\s*=?\\s*['\"`]?\\w+['\"`]?")
	suiteDiffers = regexp.MustCompile(` USING \w+|ENGINE=\w+`)
)

// definitions returns what the files of MySQL's own test suite put behind the names of tables.
func definitions(t *testing.T) []string {
	root, err := server.Obtain(context.Background(), server.MySQLTestsuite)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var list []string
	for _, pattern := range []string{"t/*.test", "include/*.inc"} {
		files, err := filepath.Glob(filepath.Join(root, "usr/lib/mysql-test", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range suiteCreate.FindAllSubmatch(suiteComment.ReplaceAll(text, nil), -1) {
				definition := strings.Join(strings.Fields(string(match[1])), " ")
				if !seen[definition] && len(definition) < 1500 && !suiteSkip.MatchString(definition) {
					seen[definition] = true
					list = append(list, definition)
				}
			}
		}
	}
	return list
}

// TestDefinitions has servers make a temporary table of each definition in MySQL's own test suite, as said and converted.
// What cannot be told by the text is noticed when it happens: a warning of the converted table has the machine compare it
// with the client's own.
func TestDefinitions(t *testing.T) {
	const errHashOrder = 1221 // USING HASH with ASC or DESC, which is more than the parser tells
	list := definitions(t)
	if len(list) < 5000 {
		t.Fatalf("only %d definitions", len(list))
	}
	convert, err := rewrite.ParseEngineSet([]string{"MEMORY", "MyISAM"})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []server.Kind{server.MySQL, server.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			ctx := context.Background()
			s := shared(t, kind)
			if err := s.Exec(ctx, "DROP DATABASE IF EXISTS definitions", "CREATE DATABASE definitions"); err != nil {
				t.Fatal(err)
			}
			connector, err := mysql.NewConnector(s.Config("definitions"))
			if err != nil {
				t.Fatal(err)
			}
			db := sql.OpenDB(connector)
			defer db.Close()
			conn, err := db.Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			opt := rewrite.Options{Convert: convert}
			if kind.IsMariaDB() {
				opt.Mode = rewrite.MariaDB
			}
			taken, judged, converted := 0, 0, 0
			for _, definition := range list {
				for _, engine := range []string{"MEMORY", "MyISAM"} {
					text := "CREATE TEMPORARY TABLE t " + suiteEngine.ReplaceAllString(definition, "ENGINE="+engine)
					if !suiteEngine.MatchString(definition) {
						text += " ENGINE=" + engine
					}
					want, err := makeTable(ctx, conn, text, "t")
					if err != nil {
						t.Fatalf("%s: %v", text, err)
					}
					c := rewrite.Analyze([]byte(text), opt)
					if want.code == 0 {
						taken++
						switch c.Keep.Reason {
						case rewrite.ReasonNone, rewrite.ReasonMyISAM:
							judged++
						}
					}
					if !c.Converted || c.Convert.Reason != rewrite.ReasonNone {
						continue
					}
					converted++
					got, err := makeTable(ctx, conn, c.Convert.SQL, "t")
					if err != nil {
						t.Fatalf("%s: %v", c.Convert.SQL, err)
					}
					want.table, got.table = suiteDiffers.ReplaceAllString(want.table, ""), suiteDiffers.ReplaceAllString(got.table, "")
					switch {
					case got == want:
					case want.code == errBlob || want.code == errHashOrder: // an error that vanishes
					case want.code == 0 && got.code == 0 && got.warnings != "" && got.table == want.table:
					default:
						t.Errorf("%s\nmakes %+v\nconverted it makes %+v", text, want, got)
					}
				}
			}
			t.Logf("%d definitions; of %d tables that the server makes %d are judged; %d conversions", len(list), taken, judged, converted)
			if judged*100 < taken*95 {
				t.Error("too few are judged")
			}
		})
	}
}
