//go:build realserver

package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tmpproxy/advice"
	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

// observedWork is a kind of traffic, whose advice is known.
type observedWork struct {
	name     string
	sessions int
	cycles   int                           // of each session
	cycle    func(session, n int) []string // statements; FAILS before one that fails
	shape    string
	engine   string // in SHOW CREATE TABLE
	counts   func(*advice.Advice) error
	facts    string   // how the sentence begins
	choices  []string // that may be advised, whatever the times
}

var observedWorks = []observedWork{
	{
		name: "fixed", sessions: 2, cycles: 40, engine: "MEMORY", shape: "(a INT PRIMARY KEY, fixed INT) ENGINE=MEMORY",
		cycle: func(_, n int) []string {
			end := "COMMIT"
			if n%10 == 0 {
				end = "ROLLBACK"
			}
			return []string{"START TRANSACTION", "CREATE TEMPORARY TABLE fixed (a INT PRIMARY KEY, fixed INT) ENGINE=MEMORY",
				"INSERT INTO fixed VALUES (1, 1), (2, 2), (3, 3)", "SHOW", end, "SELECT a FROM fixed ORDER BY a", "SELECT COUNT(*) FROM fixed",
				"DROP TEMPORARY TABLE fixed"}
		},
		counts: func(v *advice.Advice) error {
			return equal(map[string][2]int64{
				"cycles": {v.Cycles, 80}, "sessions": {v.Sessions, 2}, "names": {v.Names, 1}, "transactions": {v.Transactions, 80}, "rolled back": {v.RolledBack, 8},
				"unordered": {v.Unordered, 0}, "failed": {v.FailedWrites, 0}, "rows": {v.Rows, 240}, "most": {v.MostRows, 3}, "creates": {v.Create.Count, 80},
				"drops": {v.Drop.Count, 80}, "undropped": {v.Undropped, 0}, "busy": {v.Busy.Count, 2 * 41 * 8},
				// The first cycle in the process is real, and so is the first CREATE of the other session.
				"reuses": {v.Reuses, 77}, "answered": {v.Answered.Count, 77 + 79},
			})
		},
		facts:   "fixed name, 40 cycles per session, always in transactions, rolled back after writes in 10 %: ",
		choices: []string{"keep", "none"},
	},
	{
		name: "random", sessions: 1, cycles: 30, engine: "MEMORY", shape: "(a INT PRIMARY KEY, random INT) ENGINE=MEMORY",
		cycle: func(_, n int) []string {
			t := fmt.Sprintf("random_%d", 100000+n*7919)
			return []string{"CREATE TEMPORARY TABLE " + t + " (a INT PRIMARY KEY, random INT) ENGINE=MEMORY", "INSERT INTO " + t + " VALUES (1, 1)", "SHOW",
				"SELECT * FROM " + t, "DROP TABLE " + t}
		},
		counts: func(v *advice.Advice) error {
			return equal(map[string][2]int64{
				"cycles": {v.Cycles, 30}, "names": {v.Names, 30}, "transactions": {v.Transactions, 0}, "unordered": {v.Unordered, 30}, "reuses": {v.Reuses, 0},
				"answered": {v.Answered.Count, 0},
			})
		},
		facts: "30 cycles per session, nearly always a new name: ", choices: []string{"none"},
	},
	{
		name: "short", sessions: 6, cycles: 1, engine: "InnoDB", shape: "(a INT, short INT)",
		cycle: func(int, int) []string {
			return []string{"CREATE TEMPORARY TABLE short (a INT, short INT)", "INSERT INTO short VALUES (1, 1)", "SHOW", "SELECT 1"} // never dropped
		},
		counts: func(v *advice.Advice) error {
			return equal(map[string][2]int64{"cycles": {v.Cycles, 6}, "sessions": {v.Sessions, 6}, "undropped": {v.Undropped, 6}, "drops": {v.Drop.Count, 0}})
		},
		facts: "1 cycle per session: no gain to expect", choices: []string{"none"},
	},
	{
		name: "selected", sessions: 1, cycles: 25, engine: "MEMORY", shape: "ENGINE=MEMORY AS SELECT 1 AS selected",
		cycle: func(int, int) []string {
			return []string{"CREATE TEMPORARY TABLE selected ENGINE=MEMORY AS SELECT 1 AS selected", "SHOW", "DROP TEMPORARY TABLE selected"}
		},
		counts: func(v *advice.Advice) error {
			return equal(map[string][2]int64{"cycles": {v.Cycles, 25}, "reuses": {v.Reuses, 0}, "fallbacks": {v.Fallbacks["as_select"], 25}})
		},
		facts: "25 cycles per session: left to the server: made AS SELECT, which is never cached", choices: []string{"none"},
	},
	{
		name: "probed", sessions: 1, cycles: 50, engine: "MEMORY", shape: "(a INT PRIMARY KEY, probed INT) ENGINE=MEMORY",
		cycle: func(int, int) []string {
			return []string{"FAILS SELECT 1 FROM probed LIMIT 1", "CREATE TEMPORARY TABLE probed (a INT PRIMARY KEY, probed INT) ENGINE=MEMORY",
				"INSERT INTO probed VALUES (1, 1)", "SHOW", "DROP TEMPORARY TABLE IF EXISTS probed"}
		},
		counts: func(v *advice.Advice) error {
			return equal(map[string][2]int64{"cycles": {v.Cycles, 50}, "reuses": {v.Reuses, 0}})
		},
		facts:   "fixed name, 50 cycles per session: no gain to expect: a parked table would mostly have to be dropped before it is reused, because a statement names it in between",
		choices: []string{"none"},
	},
	{
		name: "alone", sessions: 1, cycles: 40, engine: "MyISAM", shape: "(a INT PRIMARY KEY, alone INT) ENGINE=MyISAM",
		cycle: func(int, int) []string {
			return []string{"CREATE TEMPORARY TABLE alone (a INT PRIMARY KEY, alone INT) ENGINE=MyISAM", "INSERT INTO alone VALUES (1, 1)", "SHOW",
				"DELETE FROM alone", "DROP TEMPORARY TABLE alone"}
		},
		counts: func(v *advice.Advice) error {
			if (v.Keep == "eligible") != (v.Server == "MariaDB") || v.Convert != "eligible" {
				return fmt.Errorf("keep %s, convert %s", v.Keep, v.Convert)
			}
			return equal(map[string][2]int64{"cycles": {v.Cycles, 40}, "commits": {v.Commits, 80}, "reuses": {v.Reuses, 38}})
		},
		facts: "fixed name, 40 cycles per session: ", choices: []string{"keep", "trial", "none"},
	},
	{
		name: "failing", sessions: 1, cycles: 40, engine: "MEMORY", shape: "(a INT PRIMARY KEY, failing INT) ENGINE=MEMORY",
		cycle: func(_, n int) []string {
			list := []string{"CREATE TEMPORARY TABLE failing (a INT PRIMARY KEY, failing INT) ENGINE=MEMORY", "INSERT INTO failing VALUES (1, 1)", "SHOW",
				"SELECT failing FROM failing", "DROP TEMPORARY TABLE failing"}
			if n%4 == 0 {
				list[1] = "FAILS INSERT INTO failing VALUES (1, 1), (1, 2)"
			}
			return list
		},
		counts: func(v *advice.Advice) error {
			return equal(map[string][2]int64{"cycles": {v.Cycles, 40}, "failed": {v.FailedWrites, 10}, "unordered": {v.Unordered, 40}, "rows": {v.Rows, 30}, "reuses": {v.Reuses, 38}})
		},
		facts:   "fixed name, 40 cycles per session, failing in writes of several rows in 25 %, always read without ORDER BY: ",
		choices: []string{"keep", "none"},
	},
}

// equal says which of the pairs are not.
func equal(pairs map[string][2]int64) error {
	var wrong []string
	for name, p := range pairs {
		if p[0] != p[1] {
			wrong = append(wrong, fmt.Sprintf("%s %d, want %d", name, p[0], p[1]))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return nil
}

// Under strategy observe the server gets what the client says, and the advice is what the traffic deserves.
func TestObserve(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind)
		executeDirectly(t, s, "CREATE DATABASE observed")
		user, password := s.Account()
		file := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
		p := startProxy(t, s.Address, "TMPPROXY_REWRITE_STRATEGY=observe", "TMPPROXY_BACKEND_MONITOR_USER="+user, "TMPPROXY_BACKEND_MONITOR_PASSWORD_FILE="+file)
		direct := connect(t, configure(s, s.Address, "observed"))
		before := ddl(t, direct)
		creates, drops, sessions := 0, 0, 0
		for _, w := range observedWorks {
			sessions += w.sessions
			for session := range w.sessions {
				c := connect(t, configure(s, p.Address, "observed"))
				must(t, c, "SET @session = 1")
				if w.name == "fixed" {
					for range 7 {
						must(t, c, "SELECT 1")
					}
				}
				for n := range w.cycles {
					table := ""
					for _, text := range w.cycle(session, n) {
						switch {
						case text == "SHOW":
							row, err := rawclient.TextRow(must(t, c, "SHOW CREATE TABLE "+table).Results[0].Rows[0])
							if err != nil || !strings.Contains(string(row[1]), "ENGINE="+w.engine) {
								t.Errorf("%s: made as %s, %v", w.name, row, err)
							}
							continue
						case strings.HasPrefix(text, "FAILS "):
							reply, err := c.Query(strings.TrimPrefix(text, "FAILS "))
							if err != nil || reply.AsError() == nil {
								t.Fatalf("%s: %v, %v", text, reply, err)
							}
							continue
						case strings.HasPrefix(text, "CREATE"):
							creates++
							table = strings.Fields(text)[3]
						case strings.HasPrefix(text, "DROP"):
							drops++
						}
						must(t, c, text)
					}
				}
				c.Close()
			}
		}
		after := ddl(t, direct)
		if after[0]-before[0] != creates || after[1]-before[1] != drops {
			t.Errorf("the server made %d tables and dropped %d, the clients %d and %d", after[0]-before[0], after[1]-before[1], creates, drops)
		}

		r := awaitAdvice(t, p, sessions)
		text := advise(t, p)
		if !r.Observing || r.Assumptions.Hop <= 0 || r.Assumptions.HopBy != advice.ByStatements || len(r.Shapes) != len(observedWorks) {
			t.Fatalf("%+v", r)
		}
		for _, w := range observedWorks {
			var v *advice.Advice
			for i := range r.Shapes {
				if strings.Contains(r.Shapes[i].Shape, w.name) {
					v = &r.Shapes[i]
				}
			}
			if v == nil {
				t.Errorf("%s: not there", w.name)
				continue
			}
			if v.Shape != w.shape {
				t.Errorf("%s: shape %q", w.name, v.Shape)
			}
			if err := w.counts(v); err != nil {
				t.Errorf("%s: %v", w.name, err)
			}
			if !strings.HasPrefix(v.Sentence, w.facts) {
				t.Errorf("%s: said\n%s\nwant\n%s", w.name, v.Sentence, w.facts)
			}
			if !slices.Contains(w.choices, v.Choice) {
				t.Errorf("%s: advised %s: %s", w.name, v.Choice, v.Sentence)
			}
			if v.Create.Count > 0 && v.Create.Seconds <= 0 || v.DDL <= 0 || v.DDL > 1 || v.Busy.Seconds <= v.Create.Seconds {
				t.Errorf("%s: times %+v", w.name, v)
			}
			if begin := strings.Join(strings.Fields(w.facts)[:5], " "); !strings.Contains(text, begin) {
				t.Errorf("%s: %q is not in\n%s", w.name, begin, text)
			}
		}
		t.Log("\n" + text)
	})
}

// What is said would be reused is what strategy innodb reuses, whatever the habit.
func TestObserveIsRight(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "foreseen")
		database(t, s, "cycle_other")
		executeDirectly(t, s, "CREATE TABLE cycle_other.nothing (a INT)")
		reuses := map[string]map[string]int64{} // by strategy and shape
		for _, strategy := range []string{"innodb", "observe"} {
			p := startProxy(t, s.Address, "TMPPROXY_REWRITE_STRATEGY="+strategy)
			seen := strategy
			if strategy == "observe" {
				seen = "native"
			}
			sessions := 0
			for i := range habits {
				h := &habits[i]
				if h.kinds != nil && h.kinds[0] != kind {
					continue
				}
				name := fmt.Sprint("t", i)
				for range 2 {
					c := connect(t, configure(s, p.Address, "foreseen"))
					for _, text := range h.first {
						must(t, c, h.names(name).Replace(text))
					}
					for range 5 {
						h.live(t, c, name, seen)
					}
					if err := c.Quit(); err != nil {
						t.Error(err)
					}
					sessions++
				}
			}
			reuses[strategy] = map[string]int64{}
			if strategy == "observe" {
				for _, v := range awaitAdvice(t, p, sessions).Shapes {
					reuses[strategy][v.Shape] = v.Reuses
				}
				continue
			}
			var list []struct {
				Shape  string `json:"shape"`
				Reuses int64  `json:"reuses"`
			}
			page, err := p.Get("/api/shapes")
			if err == nil {
				err = json.Unmarshal([]byte(page), &list)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range list {
				reuses[strategy][l.Shape] = l.Reuses
			}
		}
		reused := 0
		for shape, n := range reuses["innodb"] {
			if got := reuses["observe"][shape]; got != n {
				t.Errorf("%d reuses were foreseen, %d were: %s", got, n, shape)
			}
			if n > 0 {
				reused++
			}
		}
		if reused < 20 || len(reuses["observe"]) < reused {
			t.Errorf("of %d shapes %d were reused", len(reuses["innodb"]), reused)
		}
	})
}

// ddl is how many tables the server made and dropped.
func ddl(t *testing.T, c *rawclient.Conn) [2]int {
	t.Helper()
	var n [2]int
	for _, row := range must(t, c, "SHOW GLOBAL STATUS WHERE Variable_name IN "+
		"('Com_create_table', 'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table')").Results[0].Rows {
		cells, err := rawclient.TextRow(row)
		if err != nil {
			t.Fatal(err)
		}
		count, err := strconv.Atoi(string(cells[1]))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(cells[0]), "Com_create") {
			n[0] += count
		} else {
			n[1] += count
		}
	}
	return n
}

// advise is what tmpproxy advise prints.
func advise(t *testing.T, p *process.Process, args ...string) string {
	t.Helper()
	binary, err := process.Binary(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, append([]string{"advise", "--admin.address=" + p.Admin}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// awaitAdvice asks for the advice until that many sessions have told what they saw, which they do when they are closed.
func awaitAdvice(t *testing.T, p *process.Process, sessions int) advice.Report {
	t.Helper()
	for {
		var r advice.Report
		if err := json.Unmarshal([]byte(advise(t, p, "--json")), &r); err != nil {
			t.Fatal(err)
		}
		if r.Sessions >= int64(sessions) || t.Context().Err() != nil {
			return r
		}
	}
}
