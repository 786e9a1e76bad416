package slowlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tmpproxy/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start opens a log whose failures fail the test.
func start(t *testing.T, file string) (*Log, *Counts) {
	t.Helper()
	counts := new(Counts)
	l, err := Open(file, "1.2.3", counts, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	return l, counts
}

func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const secret = "s3cr3t-value"

// TestFormat compares records with what MySQL would write.
func TestFormat(t *testing.T) {
	at := time.Date(2026, 12, 1, 2, 14, 49, 706711000, time.UTC)
	head := "# Time: 2026-12-01T02:14:49.706711Z\n# User@Host: shop[shop] @  [10.0.0.5]  Id:    12\n" +
		"# Query_time: 1.234567  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0\n"
	base := telemetry.Statement{End: at, Took: 1234567 * time.Microsecond, Thread: 12, User: "shop", Host: "10.0.0.5", Whole: true}
	text := func(s string) telemetry.Statement { b := base; b.Text = []byte(s); return b }
	for _, test := range []struct {
		name   string
		full   bool
		change func(telemetry.Statement) telemetry.Statement
		s      telemetry.Statement
		want   string
	}{
		{"digest", false, nil, text("SELECT name FROM customer WHERE id = 7 -- x\n AND mail = '" + secret + "';"), "SELECT name FROM customer WHERE id = ? AND mail = ?;\n"},
		{"lists", false, nil, text("INSERT INTO t VALUES (1, '" + secret + "'), (2, 'b')"), "INSERT INTO t VALUES (?);\n"},
		{"full", true, nil, text("SELECT 1,\n 'it''s';"), "SELECT 1,\n 'it''s';\n"},
		{"full, with a password", true, nil, text("ALTER USER u IDENTIFIED BY '" + secret + "'"), "ALTER USER u IDENTIFIED BY ?;\n"},
		{"full, with what may be one", true, nil, text("UPDATE account SET password = '" + secret + "' WHERE id = 3"), "UPDATE account SET password = ? WHERE id = ?;\n"},
		{"cut inside a value", false, func(s telemetry.Statement) telemetry.Statement { s.Whole = false; return s }, text("SELECT '" + secret), "SELECT ?;\n"},
		{"full, cut", true, func(s telemetry.Statement) telemetry.Statement { s.Whole = false; return s }, text("SELECT 'abc"), "SELECT 'abc…;\n"},
		{"prepared, not known", false, func(s telemetry.Statement) telemetry.Statement { s.Prepared = true; return s }, text(""), "# administrator command: Execute;\n"},
		{"a forged line", false, nil, text("SELECT `a\n# Time: 2026` FROM t"), "SELECT `a # Time: 2026` FROM t;\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.change != nil {
				test.s = test.change(test.s)
			}
			l := new(Log)
			l.SetFull(test.full)
			w := writer{log: l}
			if got, want := string(w.format(&test.s)), head+"SET timestamp=1796091289;\n"+test.want; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}

	w := writer{log: new(Log)}
	for i, step := range []struct{ schema, want string }{{"shop", "use shop;\nSET"}, {"shop", "0\nSET"}, {"a `b`\n", "use `a ``b`` `;\nSET"}, {"", "0\nSET"}, {"shop", "use shop;\nSET"}} {
		s := text("SELECT 1")
		s.Schema, s.User, s.Host = step.schema, "a\n# User@Host: b", ""
		got := string(w.format(&s))
		if !strings.Contains(got, step.want) {
			t.Errorf("record %d: no %q in\n%s", i+1, step.want, got)
		}
		if !strings.Contains(got, "\n# User@Host: a # User@Host: b[a # User@Host: b] @ localhost []  Id:    12\n") {
			t.Errorf("record %d: %s", i+1, got)
		}
	}
}

// TestReopen has a file renamed under the log, as logrotate does.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	file, old := filepath.Join(dir, "slow.log"), filepath.Join(dir, "slow.log.1")
	l, counts := start(t, file)
	l.Add(telemetry.Statement{Text: []byte("SELECT first"), Schema: "shop"})
	if err := os.Rename(file, old); err != nil {
		t.Fatal(err)
	}
	l.Add(telemetry.Statement{Text: []byte("SELECT second"), Schema: "shop"})
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	l.Add(telemetry.Statement{Text: []byte("SELECT third"), Schema: "shop"})
	l.Close()
	first, second := content(t, old), content(t, file)
	if !strings.Contains(first, "SELECT first") || !strings.Contains(first, "SELECT second") || strings.Contains(first, "SELECT third") {
		t.Errorf("the old file:\n%s", first)
	}
	if !strings.HasPrefix(second, "/usr/bin/tmpproxy, Version: 1.2.3. started with:\nTcp port: 0  Unix socket: \nTime                 Id Command    Argument\n# Time: ") ||
		!strings.Contains(second, "use shop;\n") || !strings.Contains(second, "SELECT third") {
		t.Errorf("the new file:\n%s", second)
	}
	if n := counts.Written.Load(); n != 3 {
		t.Errorf("%d written", n)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// Another process goes on with the file: no second head.
	l, _ = start(t, file)
	l.Close()
	if got := content(t, file); strings.Count(got, "started with:") != 1 {
		t.Errorf("started again:\n%s", got)
	}
	if _, err := Open(filepath.Join(dir, "none", "slow.log"), "", new(Counts), nil); err == nil {
		t.Error("a folder that there is not")
	}
}

// TestTooFast fills the queue of a log that writes nothing.
func TestTooFast(t *testing.T) {
	counts := new(Counts)
	l := &Log{counts: counts, queue: telemetry.NewQueue(3, 1<<10)}
	for range 5 {
		l.Add(telemetry.Statement{Text: []byte("SELECT 1")})
	}
	if n := counts.TooFast.Load(); n != 2 {
		t.Errorf("%d statements were dropped", n)
	}
}

// TestNoRoom writes to a disk that is full.
func TestNoRoom(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Fatal(err)
	}
	counts, failures := new(Counts), 0
	l, err := Open(full, "", counts, func(err error) {
		if failures++; !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		l.Add(telemetry.Statement{Text: []byte("SELECT 1")})
	}
	l.Close()
	if counts.Failed.Load() != 10 || counts.Written.Load() != 0 || failures != 1 {
		t.Errorf("%d failed, %d written, told %d times", counts.Failed.Load(), counts.Written.Load(), failures)
	}
}
