//go:build realserver

package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
	recordfile "tmpproxy/trial/record"
	"tmpproxy/trial/replay"
)

// dsn is how programs of the tests reach a server with its account.
func dsn(s *server.Server, schema string) string {
	user, password := s.Account()
	return fmt.Sprintf("%s:%s@tcp(%s)/%s", user, password, s.Address, schema)
}

// tmpproxy runs a command of the program and returns what it printed, and its exit code.
func tmpproxy(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	binary, err := process.Binary(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	b, err := exec.Command(binary, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return string(b), code
}

// recordings reads a recording, of one part.
func recordings(t *testing.T, file string) []recordfile.Record {
	t.Helper()
	s, kind, err := replay.File(file)
	if err != nil || kind != replay.Recording {
		t.Fatalf("%s: %s, %v", file, kind, err)
	}
	var list []recordfile.Record
	for {
		rec, _, err := s.Next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, rec)
	}
}

// TestRecordAndReplay records clients of a proxy and runs what was recorded with each strategy.
func TestRecordAndReplay(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "replayed")
		executeDirectly(t, s, "DROP USER IF EXISTS replayer@'%'", "CREATE USER replayer@'%' IDENTIFIED BY 'hunter2first'",
			"GRANT ALL ON replayed.* TO replayer@'%'", "CREATE TABLE replayed.base (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB", "INSERT INTO replayed.base VALUES (1, 'one'), (2, 'two')")
		t.Cleanup(func() { executeDirectly(t, s, "DROP USER replayer@'%'") })
		file := filepath.Join(t.TempDir(), "r.jsonl")
		p, err := process.Start(context.Background(), s.Address, "TMPPROXY_RECORD_ENABLED=true", "TMPPROXY_RECORD_FILE="+file, "TMPPROXY_RECORD_USERS=replay*", "TMPPROXY_REWRITE_STRATEGY=innodb")
		if err != nil {
			t.Fatal(err)
		}
		stopped := false
		t.Cleanup(func() {
			if !stopped {
				_ = p.Stop()
			}
		})

		ignored := connect(t, configure(s, p.Address, "replayed"))
		must(t, ignored, "SELECT 'of another user'")
		config := configure(s, p.Address, "replayed")
		config.User, config.Password = "replayer", "hunter2first"
		c := connect(t, config)
		must(t, c, "SET SESSION sql_mode = ''")
		for i := range 12 {
			must(t, c, "CREATE TEMPORARY TABLE work (a INT PRIMARY KEY, b VARCHAR(40)) ENGINE=MEMORY")
			must(t, c, fmt.Sprintf("INSERT INTO work VALUES (%d, 'x'), (%d, 'y')", i+2, i+1))
			must(t, c, "SELECT * FROM work ORDER BY a")
			must(t, c, "DROP TEMPORARY TABLE work")
		}
		prepared, err := c.Prepare("SELECT v, ? AS w FROM base WHERE id = ? ORDER BY id")
		if err != nil || prepared.Prepared == nil {
			t.Fatalf("%v %v", err, prepared.AsError())
		}
		for i := range 3 {
			if _, err := c.Execute(prepared.Prepared.ID, 0, fmt.Sprint("w", i), int64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.CloseStatement(prepared.Prepared.ID); err != nil {
			t.Fatal(err)
		}
		must(t, c, "SELECT 1; SELECT 2")
		ask(c, "SELECT * FROM nosuch")
		must(t, c, "SELECT NOW(6), UUID(), CONNECTION_ID()")
		if _, err := c.InitDB("replayed"); err != nil {
			t.Fatal(err)
		}
		ask(c, "SET PASSWORD = 'hunter2set'")
		ask(c, "CREATE USER other IDENTIFIED BY 'hunter2create'")
		ask(c, "ALTER USER nosuch IDENTIFIED BY 'hunter2alter'")
		ask(c, "SELECT v FROM base WHERE v = MD5('hunter2hash')")
		must(t, c, "SELECT '"+strings.Repeat("long ", 30000)+"'")
		if _, err := c.ChangeUser("replayer", "hunter2set", "replayed"); err != nil {
			t.Fatal(err)
		}
		_ = c.Quit()
		stopped = true
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}

		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("hunter2")) || bytes.Contains(text, []byte("of another user")) {
			t.Fatalf("what must not be recorded is in\n%.4000s", text)
		}
		list := recordings(t, file)
		counts := map[string]int{}
		for _, rec := range list {
			counts[rec.Kind]++
		}
		for kind, want := range map[string]int{recordfile.Begin: 1, recordfile.Prepare: 1, recordfile.Execute: 3, recordfile.Close: 1, recordfile.InitDB: 1, recordfile.Omitted: 3, recordfile.ChangeUser: 1, recordfile.Gap: 0, recordfile.Stop: 1} {
			if counts[kind] != want {
				t.Errorf("%d records of kind %s, want %d: %v", counts[kind], kind, want, counts)
			}
		}
		out, code := tmpproxy(t, "replay", file, "--against", dsn(s, ""), "--arms=native,keep,innodb,auto")
		if code != 0 {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
		for _, want := range []string{"native: no difference.", "1 sessions", "3 statements are not in the recording", "create  ", "cycle  ", "Not compared"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
		if strings.Contains(out, "NOT LISTED") {
			t.Errorf("differences:\n%s", out)
		}
	})
}

// written makes a recording of statements of one session.
func written(t *testing.T, statements ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "w.jsonl")
	r, err := recordfile.Start(recordfile.Options{File: file, Share: 100, MaxSize: 1 << 20, MaxTime: 1e12})
	if err != nil {
		t.Fatal(err)
	}
	s := r.Session(recordfile.Client{User: "u", Schema: "replayed2", Collation: 45})
	for _, text := range statements {
		s.Command(3, 0)
		p := append([]byte{byte(len(text) + 1), byte((len(text) + 1) >> 8), 0, 0, 3}, text...)
		s.Bytes(p)
		s.Done(0, 0, 0)
	}
	s.End()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestReplayFinds has a replay find and name differences that there must be, and one that must not be.
func TestReplayFinds(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "replayed2")
		executeDirectly(t, s, "CREATE TABLE replayed2.base (id INT PRIMARY KEY)")
		create := "CREATE TEMPORARY TABLE t (a INT PRIMARY KEY) ENGINE=MEMORY"
		file := written(t, create, "INSERT INTO t VALUES (30), (10), (20)", "SELECT a FROM t", "DROP TEMPORARY TABLE t",
			create, "BEGIN", "INSERT INTO t VALUES (1)", "ROLLBACK", "SELECT a FROM t ORDER BY a", "DROP TEMPORARY TABLE t")
		out, code := tmpproxy(t, "replay", file, "--against", dsn(s, ""), "--arms=keep,innodb")
		if code != 0 {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
		_, innodb, _ := strings.Cut(out, "\ninnodb: ")
		for _, want := range []string{"row-order, ", "in result[].row[][] of SELECT a FROM t\n", "rollback-1196, ", "rollback-rows, ", "of SELECT a FROM t ORDER BY a"} {
			if !strings.Contains(innodb, want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
		if !strings.Contains(out, "keep: no difference") || strings.Contains(out, "NOT LISTED") {
			t.Errorf("differences of keep, or such that are not listed:\n%s", out)
		}

		t.Run("permanent", func(t *testing.T) {
			file := written(t, "INSERT INTO base VALUES (1)", "SELECT * FROM base")
			out, code := tmpproxy(t, "replay", file, "--against", dsn(s, ""))
			if code != 2 || !strings.Contains(out, "INSERT INTO base VALUES (?)") {
				t.Errorf("exit code %d:\n%s", code, out)
			}
			arms := filepath.Join(t.TempDir(), "arms")
			out, code = tmpproxy(t, "replay", file, "--against", dsn(s, ""), "--arms=keep", "--before=echo $TMPPROXY_ARM >> "+arms)
			// The command has not taken the row away: what comes second finds it.
			if code != 3 && code != 0 {
				t.Errorf("exit code %d:\n%s", code, out)
			}
			if b, _ := os.ReadFile(arms); string(b) != "direct\nkeep\ndirect again\n" {
				t.Errorf("--before ran for %q", b)
			}
		})

		t.Run("unlisted", func(t *testing.T) {
			file := written(t, "SELECT 'needle'", "SELECT 2")
			user, password := s.Account()
			target := tamper(t, s.Address, "needle", "noodle")
			report, err := replay.Run(context.Background(), replay.Options{
				Source: func() (replay.Source, error) { source, _, err := replay.File(file); return source, err },
				Server: replay.Arm{Network: "tcp", Address: s.Address}, User: user, Password: password,
				Arms: []replay.Arm{{Name: "tampered", Strategy: "innodb", Network: target.Network, Address: target.Address}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if report.Unlisted() != 2 || len(report.NotRepeatable) != 0 { // the value, and the column's name
				t.Errorf("%d kinds of differences, %+v", report.Unlisted(), report.Arms[1].Groups)
			}
		})
	})
}

// TestReplayParallel has a statement wait for one that stands behind it, as they overlapped: one after another it holds up the run until
// patience is over, side by side it does not.
func TestReplayParallel(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		user, password := s.Account()
		file := filepath.Join(t.TempDir(), "p.jsonl")
		if err := os.WriteFile(file, []byte(`{"tmpproxy_recording":1,"began":"2026-03-01T12:00:00Z","masked":false}
{"kind":"begin","session":1,"at":0}
{"kind":"begin","session":2,"at":0}
{"kind":"query","session":1,"at":10,"took":10,"text":"SELECT GET_LOCK('overlap', 0)"}
{"kind":"query","session":2,"at":30,"took":1000,"text":"SELECT GET_LOCK('overlap', 60)"}
{"kind":"query","session":1,"at":500,"took":500,"text":"SELECT RELEASE_LOCK('overlap')"}
{"kind":"query","session":1,"at":2000,"took":10,"text":"SELECT IS_FREE_LOCK('overlap')"}
{"kind":"end","session":1,"at":3000}
{"kind":"end","session":2,"at":3000}
`), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, parallel := range []bool{false, true} {
			patience := 200 * time.Millisecond
			if parallel {
				patience = time.Minute
			}
			report, err := replay.Run(context.Background(), replay.Options{
				Source: func() (replay.Source, error) { source, _, err := replay.File(file); return source, err },
				Server: replay.Arm{Network: "tcp", Address: s.Address}, User: user, Password: password, Parallel: parallel, Patience: patience,
				Arms: []replay.Arm{{Name: "same", Strategy: "native", Network: "tcp", Address: s.Address}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if slow := report.Input.Slow > 0; slow == parallel || report.Unlisted() != 0 {
				t.Errorf("parallel %v: %d statements held up the run, %d kinds of differences", parallel, report.Input.Slow, report.Unlisted())
			}
		}
	})
}

// TestReplayLogs has servers write their logs of some statements, reads these, and runs them.
func TestReplayLogs(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		general, slow := filepath.Join(dir, "general.log"), filepath.Join(dir, "slow.log")
		s := own(t, kind, "--general-log=1", "--general-log-file="+general, "--slow-query-log=1", "--slow-query-log-file="+slow, "--long-query-time=0", "--log-output=FILE")
		database(t, s, "logged")
		database(t, s, "logged2")
		c := connect(t, configure(s, s.Address, "logged"))
		statements := []string{
			"CREATE TEMPORARY TABLE t (a INT PRIMARY KEY) ENGINE=MEMORY",
			"INSERT INTO t VALUES (1),\n (2), -- two\n (3)",
			"SELECT 'a\tb' AS x FROM t ORDER BY a",
			"SELECT /* # Time: */ ',\n# User@Host: x[x] @ y [z]' AS y",
			"DROP TEMPORARY TABLE t",
			"PREPARE s FROM 'SELECT a FROM (SELECT 1 AS a) AS d WHERE a = ?'", "SET @a = 1", "EXECUTE s USING @a",
		}
		for _, text := range statements {
			must(t, c, text)
		}
		reply, err := c.Prepare("SELECT ? AS bound")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Execute(reply.Prepared.ID, 0, "value"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.InitDB("logged2"); err != nil {
			t.Fatal(err)
		}
		must(t, c, "SELECT DATABASE()")
		must(t, c, "SELECT 21; SELECT 22")
		id := uint64(c.Greeting.ThreadID)
		if err := c.Quit(); err != nil {
			t.Fatal(err)
		}
		// What is prepared by name is run with its values, as the servers log it.
		want := append(slices.Clone(statements[:5]), "SET @a = 1", "SELECT a FROM (SELECT 1 AS a) AS d WHERE a = 1", "SELECT 'value' AS bound", "(initdb logged2)", "SELECT DATABASE()", "SELECT 21", "SELECT 22")
		list := map[string][]string{replay.GeneralLog: want, replay.SlowLog: want}
		if kind == server.MariaDB {
			list[replay.GeneralLog] = append(want[:len(want)-2:len(want)-2], "SELECT 21; SELECT 22")
		}
		for name, file := range map[string]string{replay.GeneralLog: general, replay.SlowLog: slow} {
			t.Run(name, func(t *testing.T) {
				source, found, err := replay.File(file)
				if err != nil || found != name {
					t.Fatalf("%s, %v", found, err)
				}
				var got []string
				for {
					rec, _, err := source.Next()
					if err == io.EOF {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					switch {
					case rec.Session != id:
					case rec.Kind == recordfile.Query:
						got = append(got, string(rec.Text))
					case rec.Kind == recordfile.InitDB:
						got = append(got, "(initdb "+string(rec.Text)+")")
					}
				}
				text, _ := os.ReadFile(file)
				want := list[name]
				if strings.Join(got, "\n|") != strings.Join(want, "\n|") {
					t.Errorf("read\n%s\nwant\n%s\nof\n%s", strings.Join(got, "\n|"), strings.Join(want, "\n|"), text)
				}
				copied := filepath.Join(t.TempDir(), "log") // the server goes on writing to its own
				if err := os.WriteFile(copied, text, 0o600); err != nil {
					t.Fatal(err)
				}
				out, code := tmpproxy(t, "replay", copied, "--against", dsn(s, "logged"), "--arms=innodb", "--same-state")
				if code != 0 || strings.Contains(out, "NOT LISTED") {
					t.Errorf("exit code %d:\n%s", code, out)
				}
			})
		}
	})
}

// TestCheckCompare has check compare on servers: nothing differs but what is listed, and nothing is left behind.
func TestCheckCompare(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		user, password := s.Account()
		file := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"check", "--backend.address=" + s.Address, "--compare", "--schema=compared", "--user=" + user, "--password-file=" + file, "--arms=keep,innodb"}
		out, code := tmpproxy(t, args...)
		if code != 0 || strings.Contains(out, "NOT LISTED") || !strings.Contains(out, "\nkeep: ") || !strings.Contains(out, "row-order, ") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
		executeDirectly(t, s, "CREATE DATABASE compared") // was dropped
		t.Cleanup(func() { executeDirectly(t, s, "DROP DATABASE compared") })
		if out, code := tmpproxy(t, args...); code != 2 || !strings.Contains(out, "exists already") {
			t.Errorf("with the schema there: exit code %d:\n%s", code, out)
		}
		executeDirectly(t, s, "CREATE TABLE compared.still (a INT)")
		if out, code := tmpproxy(t, append(args[:3:3], "--schema=other")...); code != 2 || !strings.Contains(out, "needs an account") {
			t.Errorf("without an account: exit code %d:\n%s", code, out)
		}
	})
}
