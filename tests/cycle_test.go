//go:build realserver

package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

// strategies are what rewrite.strategy may be.
var strategies = []string{"innodb", "keep", "native"}

// habit is how an application uses temporary tables, again and again. In its statements $t is the table's name.
type habit struct {
	name  string
	kinds []server.Kind // nil: both
	first []string      // once in a session
	cycle []string      // with BINARY before it by a COM_STMT_PREPARE of its own; LAST: executed as the statement prepared last; FAILS: both fail
	table string        // the name in SHOW CREATE TABLE; "" is $t
	rows  string        // of the table at the end of its use, which is where the statement SHOW stands; "" is 1
	// engines are what SHOW CREATE TABLE says by strategy.
	engines map[string]string
	// native are the strategies under which the cycle is left to the server: always, or on MySQL.
	native, nativeOnMySQL string
	// sent is how many CREATEs and as many DROPs a cycle natively costs; 0 is 1.
	sent int
}

var toInnoDB = map[string]string{"innodb": "InnoDB", "keep": "MEMORY", "native": "MEMORY"}

func always(engine string) map[string]string {
	return map[string]string{"innodb": engine, "keep": engine, "native": engine}
}

const (
	create = "CREATE TEMPORARY TABLE $t (id INT PRIMARY KEY, v INT) ENGINE=MEMORY"
	insert = "INSERT INTO $t VALUES (1, 1)"
	drop   = "DROP TEMPORARY TABLE $t"
)

var habits = []habit{
	{name: "plain", cycle: []string{create, insert, "SHOW", drop}, engines: toInnoDB},
	{name: "HEAP without a sign", engines: toInnoDB,
		cycle: []string{"create /* a */ temporary table `$t` (\n\tid INT KEY -- b\n, v INT)\tengine heap;", insert, "SHOW", "drop temporary table `$t`"}},
	{name: "DROP TABLE", cycle: []string{create, insert, "SHOW", "DROP TABLE $t"}, engines: toInnoDB},
	{name: "DROP TABLE IF EXISTS", cycle: []string{create, insert, "SHOW", "DROP TABLE IF EXISTS $t"}, engines: toInnoDB},
	{name: "dropped before", cycle: []string{"DROP TEMPORARY TABLE IF EXISTS $t", create, insert, "SHOW"}, engines: toInnoDB},
	{name: "plainly dropped before", cycle: []string{"DROP TABLE IF EXISTS $t", create, insert, "SHOW"}, engines: toInnoDB},
	{name: "dropped before and after", cycle: []string{"DROP TEMPORARY TABLE IF EXISTS $t", create, insert, "SHOW", drop}, engines: toInnoDB},
	{name: "plainly dropped before and after", cycle: []string{"DROP TABLE IF EXISTS $t", create, insert, "SHOW", "DROP TABLE $t"}, engines: toInnoDB},
	{name: "IF NOT EXISTS", engines: toInnoDB,
		cycle: []string{"CREATE TEMPORARY TABLE IF NOT EXISTS $t (id INT UNSIGNED KEY, v INT) ENGINE=MEMORY", insert, "SHOW", drop}},
	{name: "no engine", engines: always("InnoDB"),
		cycle: []string{"CREATE TEMPORARY TABLE $t (id INT PRIMARY KEY, v INT)", insert, "SHOW", drop}},
	{name: "InnoDB", engines: always("InnoDB"),
		cycle: []string{"CREATE TEMPORARY TABLE $t (id INT PRIMARY KEY, v INT) ENGINE = InnoDB", insert, "SHOW", drop}},
	{name: "MyISAM", engines: map[string]string{"innodb": "InnoDB", "keep": "MyISAM", "native": "MyISAM"}, nativeOnMySQL: "keep",
		cycle: []string{"CREATE TEMPORARY TABLE $t (id INT PRIMARY KEY, v LONGBLOB) ENGINE MyISAM", insert, "SHOW", drop}},
	{name: "Aria", kinds: []server.Kind{server.MariaDB}, engines: always("Aria"),
		cycle: []string{"CREATE TEMPORARY TABLE $t (id INT PRIMARY KEY, v INT) ENGINE=Aria", insert, "SHOW", drop}},
	{name: "no key", engines: toInnoDB,
		cycle: []string{"DROP TABLE IF EXISTS $t", "CREATE TEMPORARY TABLE $t (JobId INTEGER UNSIGNED NOT NULL, JobTDate BIGINT UNSIGNED) ENGINE=MEMORY", insert, "SHOW"}},
	{name: "AUTO_INCREMENT", engines: toInnoDB,
		cycle: []string{"CREATE TEMPORARY TABLE $t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=MEMORY", "INSERT INTO $t () VALUES ()", "SHOW", drop}},
	{name: "many options", engines: always("InnoDB"),
		cycle: []string{"CREATE TEMPORARY TABLE `$t` (\n  `id` int(10) unsigned NOT NULL COMMENT 'The ID',\n  `v` smallint(5) unsigned NOT NULL DEFAULT '0' COMMENT 'it''s v',\n" +
			"  PRIMARY KEY (`id`), KEY `v` (`v`)\n) ENGINE=INNODB DEFAULT CHARSET=latin1 COMMENT='a; table'", insert, "SHOW", "DROP TEMPORARY TABLE IF EXISTS `$t`"}},
	{name: "another schema", table: "cycle_other.$t", engines: toInnoDB,
		cycle: []string{"CREATE TEMPORARY TABLE cycle_other.$t (id INT PRIMARY KEY, v INT) ENGINE=MEMORY", "INSERT INTO cycle_other.$t VALUES (1, 1)", "SHOW", "DROP TEMPORARY TABLE `cycle_other`.`$t`"}},
	{name: "in a transaction", engines: toInnoDB,
		cycle: []string{"START TRANSACTION", create, insert, "SHOW", drop, "COMMIT"}},
	{name: "across transactions", engines: toInnoDB,
		cycle: []string{"START TRANSACTION", create, insert, "COMMIT", "START TRANSACTION", "SHOW", drop, "ROLLBACK"}},
	{name: "plainly dropped in a transaction", engines: toInnoDB,
		cycle: []string{"START TRANSACTION", create, insert, "SHOW", "DROP TABLE $t"}},
	{name: "autocommit off", first: []string{"SET autocommit = 0"}, engines: toInnoDB,
		cycle: []string{"ROLLBACK", "DROP TEMPORARY TABLE IF EXISTS $t", create, insert, "SHOW", "COMMIT"}},
	{name: "RelStorage", first: []string{"SET autocommit = 0"}, sent: 2, engines: map[string]string{"innodb": "InnoDB", "keep": "MyISAM", "native": "MyISAM"}, nativeOnMySQL: "keep",
		cycle: []string{"ROLLBACK", "DROP TEMPORARY TABLE IF EXISTS $t", "DROP TEMPORARY TABLE IF EXISTS $t_blob",
			"CREATE TEMPORARY TABLE $t (zoid BIGINT UNSIGNED NOT NULL PRIMARY KEY, prev_tid BIGINT UNSIGNED NOT NULL, md5 CHAR(32), state LONGBLOB) ENGINE MyISAM",
			"CREATE TEMPORARY TABLE $t_blob (zoid BIGINT UNSIGNED NOT NULL, chunk_num BIGINT UNSIGNED NOT NULL, chunk LONGBLOB, PRIMARY KEY (zoid, chunk_num)) ENGINE MyISAM",
			"REPLACE INTO $t VALUES (1, 0, NULL, 'state'), (2, 0, NULL, 'more')", "SHOW", "SELECT zoid FROM $t ORDER BY zoid FOR UPDATE", "COMMIT"}, rows: "2"},
	{name: "two tables in turns", sent: 2, engines: toInnoDB,
		cycle: []string{create, strings.ReplaceAll(create, "$t", "$t_two"), insert, strings.ReplaceAll(insert, "$t", "$t_two"), drop,
			create, insert, "SHOW", "DROP TEMPORARY TABLE $t_two", drop}},
	{name: "two tables in one DROP", sent: 2, engines: toInnoDB,
		cycle: []string{create, strings.ReplaceAll(create, "$t", "$t_two"), insert, "SHOW", "DROP TEMPORARY TABLE IF EXISTS $t, $t_two"}},
	{name: "emptied and used again", engines: toInnoDB,
		cycle: []string{create, insert, "TRUNCATE TABLE $t", insert, "DELETE FROM $t", insert, "SHOW", drop}},
	{name: "PREPARE once", engines: toInnoDB, first: []string{"PREPARE c FROM '" + create + "'", "PREPARE d FROM '" + drop + "'", "PREPARE s FROM 'SELECT 1 FROM cycle_other.nothing'"},
		cycle: []string{"EXECUTE c", insert, "EXECUTE s", "SHOW", "EXECUTE d"}},
	{name: "PREPARE each time", engines: toInnoDB,
		cycle: []string{"PREPARE c FROM \"" + create + "\"", "EXECUTE c", "DEALLOCATE PREPARE c", insert, "SHOW", "PREPARE c FROM '" + drop + "'", "EXECUTE c", "DROP PREPARE c"}},
	{name: "COM_STMT_PREPARE", engines: toInnoDB, cycle: []string{"BINARY " + create, "BINARY " + insert, "SHOW", "BINARY " + drop}},
	{name: "the last one prepared", kinds: []server.Kind{server.MariaDB}, engines: toInnoDB, cycle: []string{"LAST " + create, "LAST " + insert, "SHOW", "LAST " + drop}},
	{name: "a preparation that fails", kinds: []server.Kind{server.MariaDB}, engines: toInnoDB,
		cycle: []string{create, "FAILS SELEC 1", "FAILS SELECT * FROM cycle_other.no_such_table", insert, "SHOW", drop, "FAILS SELECT no_such_column"}},
	{name: "stored programs", engines: toInnoDB,
		cycle: []string{create, insert, "SHOW", drop, "CREATE PROCEDURE $t_p() BEGIN IF 1 THEN BEGIN SELECT f(1); SET TRANSACTION READ ONLY; END; END IF; START TRANSACTION; END",
			"CREATE FUNCTION $t_f(a INT) RETURNS INT DETERMINISTIC BEGIN DECLARE x INT; SET x = $t_f2(a); RETURN x; END",
			"CREATE TRIGGER cycle_other.$t_x BEFORE INSERT ON cycle_other.nothing FOR EACH ROW BEGIN SET NEW.a = 1; SET @a = 2; END",
			"DROP TRIGGER cycle_other.$t_x", "DROP PROCEDURE $t_p", "DROP FUNCTION $t_f"}},
	{name: "COM_STMT_PREPARE in a transaction", engines: toInnoDB,
		cycle: []string{"BINARY DROP TEMPORARY TABLE IF EXISTS $t", "START TRANSACTION", "BINARY " + create, insert, "SHOW", "COMMIT"}},
	{name: "a hint", engines: always("MEMORY"), native: "innodb keep",
		cycle: []string{"CREATE TEMPORARY TABLE $t /* tmpproxy:native */ (id INT PRIMARY KEY, v INT) ENGINE=MEMORY", insert, "SHOW", drop}},
	{name: "AS SELECT", engines: always("MEMORY"), native: "innodb keep",
		cycle: []string{"CREATE TEMPORARY TABLE $t ENGINE=MEMORY AS SELECT 1 AS id, 1 AS v", "SHOW", drop}},
	{name: "altered", engines: toInnoDB, native: "innodb keep",
		cycle: []string{create, "ALTER TABLE $t ADD COLUMN w INT DEFAULT 0", "INSERT INTO $t (id) VALUES (1)", "SHOW", drop}},
}

// counters are the session's own on the server.
func counters(t testing.TB, c *rawclient.Conn) (creates, drops int) {
	t.Helper()
	reply := must(t, c, "SHOW SESSION STATUS WHERE Variable_name IN "+
		"('Com_create_table', 'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table')")
	for _, row := range reply.Results[0].Rows {
		v, err := rawclient.TextRow(row)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(string(v[1]))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(v[0]), "Com_create") {
			creates += n
		} else {
			drops += n
		}
	}
	return creates, drops
}

var engineOf = regexp.MustCompile(`\) ENGINE=(\w+)`)

// names puts a table's name into statements. Each habit has shapes of its own: how one goes must not decide on the next.
func (h *habit) names(name string) *strings.Replacer {
	return strings.NewReplacer("$t_two", name+"_two", "$t_blob", name+"_blob", "$t", name, "v INT", "v_"+name+" INT")
}

// live goes through one cycle and returns how many CREATEs and DROPs the session has sent to the server for it.
func (h *habit) live(t *testing.T, c *rawclient.Conn, name, strategy string) (creates, drops int) {
	t.Helper()
	names := h.names(name)
	before, beforeDrops := counters(t, c)
	for _, text := range h.cycle {
		if wrong, ok := strings.CutPrefix(text, "FAILS "); ok {
			if prepared, err := c.Prepare(wrong); err != nil || prepared.Err() == nil {
				t.Fatalf("prepare %s: %s", wrong, told(prepared, err))
			}
			if reply, err := c.Execute(0xFFFFFFFF, 0); err != nil || reply.Err() == nil {
				t.Fatalf("execute %s: %s", wrong, told(reply, err))
			}
			continue
		}
		binary, ok := strings.CutPrefix(names.Replace(text), "BINARY ")
		last := false
		if !ok {
			binary, last = strings.CutPrefix(binary, "LAST ")
		}
		if ok || last {
			prepared, err := c.Prepare(binary)
			if err != nil || prepared.Prepared == nil {
				t.Fatalf("prepare %s: %s", binary, told(prepared, err))
			}
			id := prepared.Prepared.ID
			if last {
				id = 0xFFFFFFFF
			}
			if reply, err := c.Execute(id, 0); err != nil || reply.Err() != nil {
				t.Fatalf("execute %s: %s", binary, told(reply, err))
			}
			if err := c.CloseStatement(prepared.Prepared.ID); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if text != "SHOW" {
			must(t, c, names.Replace(text))
			continue
		}
		table := name
		if h.table != "" {
			table = names.Replace(h.table)
		}
		reply := must(t, c, "SHOW CREATE TABLE "+table)
		row, err := rawclient.TextRow(reply.Results[0].Rows[0])
		if err != nil {
			t.Fatal(err)
		}
		if m := engineOf.FindSubmatch(row[1]); m == nil || string(m[1]) != h.engines[strategy] {
			t.Errorf("the engine is not %s: %s", h.engines[strategy], row[1])
		}
		want := h.rows
		if want == "" {
			want = "1"
		}
		if got := value(t, c, "SELECT COUNT(*) FROM "+table); got != want {
			t.Errorf("%s rows instead of %s", got, want)
		}
	}
	after, afterDrops := counters(t, c)
	return after - before, afterDrops - beforeDrops
}

// shapes is what the proxy says of the shapes that contain a text.
func shapes(t testing.TB, p *process.Process, text string) string {
	t.Helper()
	page, err := p.Get("/api/shapes")
	if err != nil {
		t.Fatal(err)
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(page), &list); err != nil {
		t.Fatal(err)
	}
	list = slices.DeleteFunc(list, func(one json.RawMessage) bool { return !bytes.Contains(one, []byte(text)) })
	return fmt.Sprintf("%s", list)
}

// TestCycles counts what a session sends to the server: from the third cycle of a name on, or the second in a process that
// knows the name, no CREATE and no DROP.
func TestCycles(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "cycle")
		database(t, s, "cycle_other")
		executeDirectly(t, s, "CREATE TABLE cycle_other.nothing (a INT)")
		for _, strategy := range strategies {
			t.Run(strategy, func(t *testing.T) {
				p := startProxy(t, s.Address, "TMPPROXY_REWRITE_STRATEGY="+strategy)
				for i := range habits {
					h := &habits[i]
					if h.kinds != nil && h.kinds[0] != kind {
						continue
					}
					native := strategy == "native" || strings.Contains(h.native, strategy) || kind == server.MySQL && strings.Contains(h.nativeOnMySQL, strategy)
					t.Run(h.name, func(t *testing.T) {
						for session := range 2 {
							c := connect(t, configure(s, p.Address, "cycle"))
							for _, text := range h.first {
								must(t, c, h.names(fmt.Sprint("t", i)).Replace(text))
							}
							for cycle := range 5 {
								creates, drops := h.live(t, c, fmt.Sprint("t", i), strategy)
								switch {
								case native && creates < max(h.sent, 1):
									t.Errorf("session %d, cycle %d: %d CREATEs were sent of a cycle that is left to the server", session+1, cycle+1, creates)
								case !native && session+cycle >= 2 && creates+drops > 0:
									t.Errorf("session %d, cycle %d: %d CREATEs and %d DROPs were sent", session+1, cycle+1, creates, drops)
								}
							}
							if err := c.Quit(); err != nil {
								t.Error(err)
							}
						}
						if t.Failed() {
							t.Log(shapes(t, p, fmt.Sprint("v_t", i, " ")))
						}
					})
				}
			})
		}
	})
}

// TestStrictFidelity has nothing converted, and nothing cached in transactions.
func TestStrictFidelity(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "cycle_strict")
		p := startProxy(t, s.Address, "TMPPROXY_REWRITE_FIDELITY=strict")
		for _, c := range []struct {
			name   string
			before string
			after  string
			sends  bool
			create string
		}{
			{"not converted", "", "", false, "CREATE TEMPORARY TABLE unconverted (id INT PRIMARY KEY, v INT) ENGINE=MEMORY"},
			{"as it is", "", "", false, "CREATE TEMPORARY TABLE kept (id INT PRIMARY KEY, v INT) ENGINE=InnoDB"},
			{"in a transaction", "START TRANSACTION", "COMMIT", true, "CREATE TEMPORARY TABLE inside (id INT PRIMARY KEY, v INT) ENGINE=InnoDB"},
		} {
			t.Run(c.name, func(t *testing.T) {
				h := habit{cycle: []string{c.create, "SHOW", "DROP TEMPORARY TABLE $t"}, rows: "0", engines: always("InnoDB")}
				if c.name == "not converted" {
					h.engines = always("MEMORY")
				}
				if c.before != "" {
					h.cycle = append(append([]string{c.before}, h.cycle...), c.after)
				}
				client := connect(t, configure(s, p.Address, "cycle_strict"))
				for cycle := range 5 {
					creates, drops := h.live(t, client, strings.Fields(c.create)[3], "innodb")
					if cycle >= 2 && (creates+drops > 0) != c.sends {
						t.Errorf("cycle %d: %d CREATEs and %d DROPs were sent", cycle+1, creates, drops)
					}
				}
			})
		}
	})
}

// residentBytes is the memory of a process as the system counts it.
func residentBytes(t testing.TB, pid int) int { return memory(t, pid, "VmRSS:") }

// peakBytes is the most that it was.
func peakBytes(t testing.TB, pid int) int { return memory(t, pid, "VmHWM:") }

func memory(t testing.TB, pid int, what string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatalf("no way to ask for a process's memory: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, what); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("no ", what)
	return 0
}

// temporaryTables is the number of temporary InnoDB tables of all sessions, MySQL only.
func temporaryTables(t testing.TB, s *server.Server) (n int) {
	t.Helper()
	if err := s.DB().QueryRow("SELECT COUNT(*) FROM information_schema.INNODB_TEMP_TABLE_INFO").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRandomNames uses a new name in every cycle: nothing is kept of it.
func TestRandomNames(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "cycle_random")
		p := startProxy(t, s.Address)
		c := connect(t, configure(s, p.Address, "cycle_random"))
		cycle := func(i int) {
			for _, text := range []string{"CREATE TEMPORARY TABLE %s (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO %s VALUES (1)", "DROP TEMPORARY TABLE %s"} {
				must(t, c, fmt.Sprintf(text, fmt.Sprintf("random_%x", uint32(i)*2654435761)))
			}
		}
		for i := range 200 {
			cycle(i)
		}
		before := residentBytes(t, p.PID())
		const more = 1000
		creates, drops := counters(t, c)
		for i := range more {
			cycle(200 + i)
		}
		nowCreates, nowDrops := counters(t, c)
		if nowCreates-creates != more || nowDrops-drops != more {
			t.Errorf("%d CREATEs and %d DROPs of %d were sent", nowCreates-creates, nowDrops-drops, more)
		}
		if info := sessions(t, p)[c.Greeting.ThreadID]; info.Parked != 0 || info.Live != 0 {
			t.Errorf("%d tables are parked, %d live", info.Parked, info.Live)
		}
		// The race detector's own memory grows with what is touched; 1000 tables of 16 KiB would show.
		if grown := residentBytes(t, p.PID()) - before; grown > 16<<20 {
			t.Errorf("the proxy's memory has grown by %d KiB", grown>>10)
		}
	})
}

// TestMaxParked cycles with more names than may be parked.
func TestMaxParked(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "cycle_many")
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				testMaxParked(t, s, startProxy(t, s.Address, "TMPPROXY_REWRITE_MAX_PARKED=5", "TMPPROXY_RELAY_DRIVER="+d))
			})
		}
	})
}

func testMaxParked(t *testing.T, s *server.Server, p *process.Process) {
	const most = 5
	c := connect(t, configure(s, p.Address, "cycle_many"))
	base := 0
	if s.Kind == server.MySQL {
		base = temporaryTables(t, s)
	}
	parked := 0
	for round := range 4 {
		for i := range 12 {
			// Shapes of their own: one that is always settled before it is reused would be left alone soon.
			for _, text := range []string{"CREATE TEMPORARY TABLE m%[1]d (id_%[1]d INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO m%d VALUES (1)", "DROP TEMPORARY TABLE m%d"} {
				must(t, c, fmt.Sprintf(text, i))
			}
			parked = max(parked, sessions(t, p)[c.Greeting.ThreadID].Parked)
			if creates, drops := counters(t, c); creates-drops > most {
				t.Fatalf("round %d: the server holds %d tables", round, creates-drops)
			}
		}
	}
	if parked != most {
		t.Errorf("at most %d tables were parked, want %d", parked, most)
	}
	if s.Kind == server.MySQL {
		if n := temporaryTables(t, s) - base; n != most {
			t.Errorf("the server holds %d temporary tables more than before, want %d", n, most)
		}
	}
	// They end with the session.
	if err := c.Quit(); err != nil {
		t.Error(err)
	}
	if s.Kind == server.MySQL {
		await(t, "the session's tables are gone", func() bool { return temporaryTables(t, s) == base })
	}
}

// TestRoutinesScan has bodies read: a name that a trigger mentions is left to the server, others are not.
func TestRoutinesScan(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "cycle_scan")
		executeDirectly(t, s, "USE cycle_scan", "CREATE TABLE base (a INT)",
			"CREATE TRIGGER makes BEFORE INSERT ON base FOR EACH ROW BEGIN DROP TEMPORARY TABLE IF EXISTS mentioned; END")
		user, _ := s.Account()
		p := startProxy(t, s.Address, "TMPPROXY_REWRITE_ROUTINES=scan", "TMPPROXY_BACKEND_MONITOR_USER="+user)
		c := connect(t, configure(s, p.Address, "cycle_scan"))
		cycle := func(name string) {
			must(t, c, "CREATE TEMPORARY TABLE "+name+" (a INT) ENGINE=MEMORY")
			must(t, c, "INSERT INTO "+name+" VALUES (1)")
			must(t, c, "DROP TEMPORARY TABLE "+name)
		}
		await(t, "bodies are read", func() bool {
			cycle("quite_other")
			cycle("mentioned")
			metrics, err := p.Get("/metrics")
			return err == nil && strings.Contains(metrics, `tmpproxy_fallbacks_total{reason="routine"}`)
		})
		cycle("quite_other") // it may not have been seen since
		cycle("quite_other")
		creates, drops := counters(t, c)
		for range 3 {
			cycle("quite_other")
			cycle("quite_other")
			cycle("mentioned")
		}
		nowCreates, nowDrops := counters(t, c)
		if nowCreates-creates != 3 || nowDrops-drops != 3 {
			t.Errorf("%d CREATEs and %d DROPs were sent", nowCreates-creates, nowDrops-drops)
		}
	})
}

// TestAuto has the strategy chosen by what is measured, whatever that comes to here: it is chosen within the cycles that the first
// measuring takes, all along rows are what they have to be, and a shape whose conversion has shown is not converted any more.
func TestAuto(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "cycle_auto")
		p := startProxy(t, s.Address, "TMPPROXY_REWRITE_STRATEGY=auto")
		c := connect(t, configure(s, p.Address, "cycle_auto"))
		type shape struct {
			Shape   string
			Hazards map[string]int
			Choice  *struct {
				Strategy string
				Settled  bool
				Choices  int
				Medians  map[string]float64
				Excluded []string
			}
		}
		choice := func(text string) shape {
			t.Helper()
			var list []shape
			if err := json.Unmarshal([]byte(shapes(t, p, text)), &list); err != nil || len(list) != 1 || list[0].Choice == nil {
				t.Fatalf("%v: %s", err, shapes(t, p, text))
			}
			return list[0]
		}
		for i := 0; i == 0 || choice("chosen INT").Choice.Choices == 0; i++ {
			if i == 120 {
				t.Fatalf("nothing was chosen in %d cycles: %+v", i, *choice("chosen INT").Choice)
			}
			must(t, c, "CREATE TEMPORARY TABLE t (chosen INT PRIMARY KEY) ENGINE=MEMORY")
			must(t, c, fmt.Sprintf("INSERT INTO t VALUES (%d), (%d)", i, i+1))
			if got := value(t, c, "SELECT SUM(chosen) FROM t"); got != fmt.Sprint(2*i+1) {
				t.Fatalf("cycle %d: the sum is %s", i, got)
			}
			must(t, c, "DROP TEMPORARY TABLE t")
		}
		if got := choice("chosen INT"); !got.Choice.Settled || got.Choice.Choices != 1 || len(got.Choice.Medians) != 3 {
			t.Errorf("after the measuring: %+v", *got.Choice)
		}
		for range 120 {
			must(t, c, "CREATE TEMPORARY TABLE u (excluded INT PRIMARY KEY) ENGINE=MEMORY")
			must(t, c, "INSERT INTO u VALUES (1)")
			if _, err := c.Query("INSERT INTO u VALUES (2), (1)"); err != nil { // fails, and leaves a row or not
				t.Fatal(err)
			}
			must(t, c, "DROP TEMPORARY TABLE u")
		}
		if got := choice("excluded INT"); !slices.Contains(got.Choice.Excluded, "innodb") || got.Choice.Strategy == "innodb" || got.Hazards["statement_error"] == 0 {
			t.Errorf("after a hazard: %+v", got)
		}
	})
}

// TestLeastPrivileges cycles as an account that may do nothing but make temporary tables, and has them looked at before they
// are emptied: the statement in the middle might have called a function.
func TestLeastPrivileges(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "cycle_least")
		executeDirectly(t, s, "DROP USER IF EXISTS least", "CREATE USER least IDENTIFIED BY 'least'", "GRANT CREATE TEMPORARY TABLES ON cycle_least.* TO least")
		t.Cleanup(func() { executeDirectly(t, s, "DROP USER least") })
		p := startProxy(t, s.Address)
		config := configure(s, p.Address, "cycle_least")
		config.User, config.Password = "least", "least"
		c := connect(t, config)
		for i := range 5 {
			creates, drops := counters(t, c)
			must(t, c, "CREATE TEMPORARY TABLE t (a INT PRIMARY KEY) ENGINE=MEMORY")
			must(t, c, "INSERT INTO t VALUES (1)")
			must(t, c, "SELECT * FROM t, (SELECT 1) AS x")
			must(t, c, "DROP TEMPORARY TABLE t")
			nowCreates, nowDrops := counters(t, c)
			if i >= 2 && nowCreates+nowDrops > creates+drops {
				t.Errorf("cycle %d: %d CREATEs and %d DROPs were sent", i, nowCreates-creates, nowDrops-drops)
			}
		}
	})
}
