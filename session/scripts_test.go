package session

import (
	"flag"
	"runtime"
	"strings"
	"sync"
	"testing"
)

var (
	scripts     = flag.Int("scripts", scriptsByDefault, "random scripts that TestModel runs")
	scriptFirst = flag.Uint64("script.first", 1, "the seed of the first of them, the others follow")
	scriptSeed  = flag.Uint64("script", 0, "run only the random script of this seed, and tell of every step")
)

// TestModel runs random scripts directly and through the machine against a model server. The client must see the same, and
// the promises P2, P3, P4 and P6 must hold at every statement.
func TestModel(t *testing.T) {
	if *scriptSeed != 0 {
		report(t, *scriptSeed, generate(*scriptSeed), "")
		return
	}
	n := *scripts
	workers := runtime.GOMAXPROCS(0)
	var mu sync.Mutex
	var total stats
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			var st stats
			for i := worker; i < n; i += workers {
				seed := *scriptFirst + uint64(i)
				s := generate(seed)
				if bad := newWorld(s, false).run(&st); bad != "" {
					mu.Lock()
					report(t, seed, s, bad)
					mu.Unlock()
					return
				}
			}
			mu.Lock()
			total.add(&st)
			mu.Unlock()
		})
	}
	wg.Wait()
	if !t.Failed() {
		t.Logf("%d commands, %d answers, %d statements of ours, %d held replies, %d waits, %d faults, %d scripts stopped", total.commands,
			total.replies, total.injects, total.releases, total.waits, total.faults, total.stopped)
		for kind, n := range total.notes {
			t.Logf("%s: %d", noteNames[kind], n)
			if n < *scripts/1000 && kind < int(NoteReset) {
				t.Errorf("the scripts came to few notes %q", noteNames[kind])
			}
		}
		for what, n := range map[string]int{"answers": total.replies, "waits": total.waits, "faults": total.faults, "held replies": total.releases} {
			if n < *scripts/1000 {
				t.Errorf("the scripts came to few %s: %d", what, n)
			}
		}
	}
}

func (s *stats) add(o *stats) {
	s.commands += o.commands
	s.replies += o.replies
	s.injects += o.injects
	s.releases += o.releases
	s.waits += o.waits
	s.faults += o.faults
	s.stopped += o.stopped
	for i, n := range o.notes {
		s.notes[i] += n
	}
}

// report tells of a script that went wrong, made as short as it gets.
func report(t *testing.T, seed uint64, s setup, bad string) {
	wrong := func(s setup) bool {
		var st stats
		return newWorld(s, false).run(&st) != ""
	}
	if wrong(s) {
		s = shrink(s, wrong)
	}
	w := newWorld(s, true)
	var st stats
	if b := w.run(&st); b != "" {
		bad = b
	} else if bad == "" {
		t.Logf("seed %d\n%s\n%s", seed, s, strings.Join(w.trace, "\n"))
		return
	}
	t.Errorf("seed %d: %s\n%s\n%s", seed, bad, s, strings.Join(w.trace, "\n"))
}

// TestPermanentTablesSurvive runs scripts in which a TRUNCATE of ours would find something else than the table that was made
// through us (P4). On the model server a permanent table of the name has rows in it.
func TestPermanentTablesSurvive(t *testing.T) {
	const (
		create = "CREATE TEMPORARY TABLE t1 (a INT) ENGINE=MEMORY"
		drop   = "DROP TEMPORARY TABLE t1"
	)
	scripts := map[string][]string{
		"a procedure drops it":                     {"CREATE TABLE t1 (a INT)", create, "CALL p_drop()", drop, "SELECT * FROM t1"},
		"a procedure puts a MERGE in its place":    {create, "INSERT INTO t1 VALUES (1)", "CALL p_swap()", drop, "SELECT * FROM base"},
		"a MERGE, plain DROP in a transaction":     {create, "CALL p_swap()", "BEGIN", "DROP TABLE t1", "SELECT * FROM base"},
		"a function drops it":                      {"CREATE TABLE t1 (a INT)", create, "SELECT f_drop()", drop, "SELECT * FROM t1"},
		"a prepared statement drops it":            {"CREATE TABLE t1 (a INT)", create, "PREPARE p FROM 'DROP TEMPORARY TABLE t1'", "EXECUTE p", "DROP TABLE t1"},
		"it is renamed":                            {"CREATE TABLE t1 (a INT)", create, "ALTER TABLE t1 RENAME TO t4", drop, "SELECT * FROM t1"},
		"it is out of sight":                       {"CREATE TABLE t1 (a INT)", create, "SET pseudo_thread_id=1", "BEGIN", "DROP TABLE t1"},
		"several statements":                       {"CREATE TABLE t1 (a INT)", create, "SELECT 1; DROP TEMPORARY TABLE t1", "BEGIN", "DROP TABLE t1"},
		"it hides a permanent one":                 {"CREATE TABLE t1 (a INT)", create, "INSERT INTO t1 VALUES (1)", drop, "SELECT * FROM t1", create, drop, create, drop},
		"it hides a permanent one, in transaction": {"CREATE TABLE t1 (a INT)", create, "BEGIN", "DROP TABLE t1", "SELECT * FROM t1"},
		"it hides a view":                          {"CREATE VIEW t1 AS SELECT 1", create, "INSERT INTO t1 VALUES (1)", drop, "SELECT * FROM t1", create, drop},
		"of a MERGE":                               {"CREATE TEMPORARY TABLE t1 (a INT) ENGINE=MERGE UNION=(base)", drop, "SELECT * FROM base"},
		"default engine MERGE":                     {"SET default_tmp_storage_engine=MERGE", "CREATE TEMPORARY TABLE t1 (a INT)", "ALTER TABLE t1 UNION=(base)", drop},
		"a trigger does something to it":           {create, "INSERT INTO base VALUES (1)", drop, create, "INSERT INTO base VALUES (1)", "BEGIN", "DROP TABLE t1"},
		"it becomes a MERGE":                       {create, "ALTER TABLE t1 UNION=(base)", drop, create},
	}
	for title, script := range scripts {
		t.Run(title, func(t *testing.T) {
			for _, mariadb := range []bool{false, true} {
				for _, strategy := range []Strategy{StrategyKeep, StrategyInnoDB} {
					for _, a := range []after{runBackground, noBackground, leaveOut} {
						s := setup{mariadb: mariadb, strategy: strategy, seen: true, maxParked: 3}
						for _, text := range script {
							s.commands = append(s.commands, command{kind: "query", text: text, after: a})
						}
						for _, trigger := range []string{"", "drop", "merge"} {
							s.trigger = trigger
							w := newWorld(s, true)
							var st stats
							if bad := w.run(&st); bad != "" {
								t.Fatalf("%s\n%s\n%s", bad, s, strings.Join(w.trace, "\n"))
							}
						}
					}
				}
			}
		})
	}
}
