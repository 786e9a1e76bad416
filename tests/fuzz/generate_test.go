package fuzz

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tmpproxy/trial/compare"
	"tmpproxy/trial/judge"
)

// TestGenerate looks at what is made up: scripts that can be run again, of everything that matters, mostly cycles.
func TestGenerate(t *testing.T) {
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.checks": "1000", "rapid.seed": "1"} {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []Options{{}, {MariaDB: true}, {Converts: true}, {MariaDB: true, Converts: true}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) { testGenerate(t, o) })
	}
}

func testGenerate(t *testing.T, o Options) {
	sequences := Generate(o)
	var all strings.Builder
	steps, count := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := sequences.Draw(t, "sequence")
		if len(s.Steps) > maxSteps {
			t.Fatalf("%d steps", len(s.Steps))
		}
		text := s.Script("mysql", "keep", nil)
		script, err := compare.Parse("made up", text)
		if len(s.Steps) == 0 {
			return
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if len(script.Steps) != len(s.Steps) {
			t.Fatalf("%d steps became %d\n%s", len(s.Steps), len(script.Steps), text)
		}
		for i, step := range script.Steps {
			if step.Verb != s.Steps[i].Verb || step.Conn != s.Steps[i].Conn {
				t.Fatalf("%s %s became %s", s.Steps[i].Conn, s.Steps[i].Verb, &step)
			}
		}
		all.WriteString(text)
		steps += len(s.Steps)
		count++
	})
	if mean := steps / count; mean < 20 {
		t.Errorf("sequences have %d steps", mean)
	}
	text := all.String()
	for _, word := range []string{
		"CREATE TEMPORARY TABLE", "DROP TEMPORARY TABLE", "DROP TABLE", "INSERT INTO t1", "START TRANSACTION", "SET autocommit = 0", "ROLLBACK", "SAVEPOINT",
		"SHOW WARNINGS", "ROW_COUNT()", "FOUND_ROWS()", "@prepare", "@execute", "@cursor", "PREPARE s", "USE lab2", "@initdb", "LOCK TABLES", "XA START",
		"ALTER TABLE", "RENAME TABLE", "CREATE INDEX", "CREATE VIEW", "CREATE FUNCTION", "CREATE TRIGGER", "CREATE PROCEDURE", "CALL ", "AS SELECT", "LIKE ",
		"TRUNCATE", "LOCAL INFILE", "SHOW CREATE TABLE", "KILL QUERY", "@reset", "@changeuser", "@send", "[b] CREATE TABLE", "SHOW TABLES", "; ", "IF NOT EXISTS",
		"@prepare c0 CREATE", "@execute c3", "PREPARE c0 FROM 'CREATE", "FROM @v", "DEALLOCATE PREPARE c", "USING @u", "BEGIN PREPARE c", "FROM v", "ENGINE=MERGE",
		"# only the rows of permanent tables count",
	} {
		if !strings.Contains(text, word) {
			t.Errorf("nothing has %q", word)
		}
	}
	if creates, drops := strings.Count(text, "CREATE TEMPORARY TABLE"), strings.Count(text, "DROP TEMPORARY TABLE"); creates < 3*count || drops < 2*count {
		t.Errorf("%d CREATEs and %d DROPs in %d sequences", creates, drops, count)
	}
}

// TestLeaves tells what has to be taken away behind a run.
func TestLeaves(t *testing.T) {
	for text, want := range map[string][3]bool{
		"CREATE TEMPORARY TABLE t1~ (a INT)":             {},
		"CREATE /*!40000 TEMPORARY */ TABLE t1~ (a INT)": {},
		"SELECT * FROM base":                             {},
		"CREATE TABLE t1~ (a INT)":                       {true, true, false},
		"CREATE OR REPLACE VIEW t1~ AS SELECT 1":         {true, true, false},
		"s1 CREATE TABLE t1~ (a INT)":                    {true, true, false},
		"SELECT 1; INSERT INTO base VALUES (9, 9, 9)":    {false, true, false},
		"DELETE FROM base WHERE id = 1":                  {false, true, false},
		"XA PREPARE 'x~^'":                               {false, false, true},
	} {
		objects, rows, xa := (&Sequence{Steps: []compare.Step{{Conn: "a", Verb: query, Text: text}}}).leaves()
		if got := [3]bool{objects, rows, xa}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestReduce has two steps matter out of many.
func TestReduce(t *testing.T) {
	first, second := regexp.MustCompile("^first$"), regexp.MustCompile("^second$")
	s := &Sequence{Client: "classic", Outside: true}
	for i := range 50 {
		text := "SELECT 1"
		switch i {
		case 17:
			text = "first"
		case 31:
			text = "second"
		}
		s.Steps = append(s.Steps, compare.Step{Conn: "a", Verb: query, Text: text})
	}
	asked := 0
	shows := func(s *Sequence) (judge.Verdict, bool) {
		asked++
		at := func(p *regexp.Regexp) int {
			return slices.IndexFunc(s.Steps, func(step compare.Step) bool { return p.MatchString(step.Text) })
		}
		return judge.Verdict{Compared: len(s.Steps)}, s.Outside && at(first) >= 0 && at(first) < at(second)
	}
	smallest, verdict, sure := reduce(s, judge.Verdict{}, shows)
	if len(smallest.Steps) != 2 || smallest.Client != "modern" || !smallest.Outside || verdict.Compared != 2 || !sure {
		t.Errorf("%+v, %+v, %v", smallest, verdict, sure)
	}
	if asked > 100 {
		t.Errorf("asked %d times", asked)
	}
	if _, _, sure := reduce(s, judge.Verdict{}, func(*Sequence) (judge.Verdict, bool) { return judge.Verdict{}, false }); sure {
		t.Error("sure of what does not show")
	}
}
