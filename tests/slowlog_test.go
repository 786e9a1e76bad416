//go:build realserver

package tests

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/trial/replay"
)

// TestSlowLog has MySQL's own program, and ours, read what the proxy has written of a session.
func TestSlowLog(t *testing.T) {
	s := shared(t, server.MySQL)
	database(t, s, "slow")
	file := filepath.Join(t.TempDir(), "slow.log")
	p := startProxy(t, s.Address, "TMPPROXY_SLOW_LOG_FILE="+file, "TMPPROXY_SLOW_LOG_THRESHOLD=50ms")
	c := connect(t, configure(s, p.Address, "slow"))
	run := func(reply rawclient.Reply, err error) rawclient.Reply {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	run(c.Query("SELECT 1 + 1"))
	for _, text := range []string{"SELECT SLEEP(0.06), 'a-value'", "SELECT SLEEP(0.07) , 'another'"} {
		run(c.Query(text))
	}
	prepared := run(c.Prepare("SELECT SLEEP(?), 'prepared'")).Prepared
	if prepared == nil {
		t.Fatal("not prepared")
	}
	run(c.Execute(prepared.ID, 0, 0.08))
	for wait := 0; ; wait++ {
		metrics, err := p.Get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(metrics, "\ntmpproxy_slow_statements_total 3\n") {
			break
		}
		if wait == 1000 {
			t.Fatalf("not written:\n%s", metrics)
		}
		time.Sleep(10 * time.Millisecond)
	}

	root, err := server.Obtain(t.Context(), server.MySQL)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("perl", filepath.Join(root, "usr/bin/mysqldumpslow"), "-s", "c", file).CombinedOutput()
	if err != nil {
		t.Fatalf("mysqldumpslow: %v\n%s", err, out)
	}
	user, _ := s.Account()
	for _, want := range []string{"Count: 3  Time=", ", " + user + "[" + user + "]@[127.0.0.1]\n  SELECT SLEEP(?), ?\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("mysqldumpslow does not say %q:\n%s", want, out)
		}
	}
	if got := strings.Count(string(out), "Count: "); got != 1 {
		t.Errorf("%d kinds of statements:\n%s", got, out)
	}

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("a-value")) || bytes.Contains(text, []byte("SELECT ? + ?")) {
		t.Errorf("values, or what was fast:\n%s", text)
	}
	source, kind, err := replay.Open(bytes.NewReader(text))
	if err != nil || kind != replay.SlowLog {
		t.Fatalf("%s, %v", kind, err)
	}
	statements := 0
	for {
		rec, _, err := source.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(rec.Text), "SLEEP") {
			statements++
		}
	}
	if statements != 3 {
		t.Errorf("replay reads %d statements of 3:\n%s", statements, text)
	}
}
