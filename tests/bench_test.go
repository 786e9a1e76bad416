//go:build realserver

package tests

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tmpproxy/bench"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

// TestBench runs every workload of the benchmark for a moment, through all arms, and looks at whether all of it came about. It
// says nothing of how fast anything is.
func TestBench(t *testing.T) {
	for _, kind := range []server.Kind{server.MySQL, server.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			s := shared(t, kind)
			program, err := process.Binary(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("TMPDIR", t.TempDir())
			var log bytes.Buffer
			o := bench.Quick()
			o.Program, o.EchoArgs, o.Log = program, []string{"bench", "echo"}, &log
			config := s.Config("")
			o.DSN = config.FormatDSN()
			o.Rounds, o.Turn, o.WarmUp, o.Settle = 2, time.Millisecond, time.Millisecond, 5*time.Millisecond
			o.Engines, o.Rows, o.Thinks = []string{"MEMORY"}, []int{10}, []time.Duration{0}
			o.RoundTrips, o.Between = []time.Duration{0, 500 * time.Microsecond}, []int{1}
			o.Objects, o.States, o.Connections = []int{10}, []int{128}, []int{2}
			o.Selects, o.ResultBytes, o.BlobBytes, o.Sessions = []int{2}, 4<<20, 1<<20, []int{40}
			report, err := bench.Run(context.Background(), o)
			if err != nil {
				t.Fatalf("%v\n%s", err, log.String())
			}
			checkReport(t, report)
			// Once more: one line again, and nothing that is there already.
			o.Earlier, o.Only, o.Keep = report, regexp.MustCompile("^selects"), func(*bench.Report) error { return nil }
			again, err := bench.Run(context.Background(), o)
			if err != nil || len(again.Cells) != len(report.Cells) || again.Runs != 2 || again.Left != 0 {
				t.Fatalf("once more: %v\n%s", err, log.String())
			}
			checkReport(t, again)
			o.Only, o.Missing = nil, true
			o.Keep = func(*bench.Report) error { return errors.New("something is measured again") }
			if again, err = bench.Run(context.Background(), o); err != nil || len(again.Cells) != len(report.Cells) || again.Left != 0 {
				t.Fatalf("all is there: %v\n%s", err, log.String())
			}
			for name, write := range map[string]func() (string, error){
				"text": func() (string, error) { var b strings.Builder; err := report.WriteText(&b); return b.String(), err },
				"html": func() (string, error) { var b strings.Builder; err := report.WriteHTML(&b); return b.String(), err },
				"json": func() (string, error) { var b strings.Builder; err := report.WriteJSON(&b); return b.String(), err },
			} {
				if text, err := write(); err != nil || !strings.Contains(text, "MySQL Router") {
					t.Errorf("%s: %v\n%s", name, err, text)
				}
			}
			var left int
			if err := s.DB().QueryRow("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'tmpproxy_bench'").Scan(&left); err != nil || left > 0 {
				t.Errorf("the schema is still there: %d, %v", left, err)
			}
			if files, err := os.ReadDir(os.TempDir()); err != nil || len(files) > 0 {
				t.Errorf("files are left over: %v, %v", files, err)
			}
		})
	}
}

func checkReport(t *testing.T, report *bench.Report) {
	t.Helper()
	arms := make(map[string][]string) // by workload
	for _, c := range report.Cells {
		for _, a := range c.Arms {
			arms[c.Workload] = append(arms[c.Workload], a.Name)
			for _, m := range c.Metrics {
				r, there := a.Results[m.Key]
				switch {
				case m.Key == "cpu" && (a.Name == "direct" || a.Name == "by hand" || a.Name == "echo" || strings.HasPrefix(c.Workload, "idle")):
					there = !there
				case m.Key == "allocations" && a.Name != "innodb", a.Name == "echo" && strings.HasPrefix(m.Key, "cycle"):
					there = !there
				case m.Key == "allocations" || m.Key == "memory": // may be 0, of so few
				default:
					there = there && len(r.Rounds) == 2 && r.Median > 0 && !math.IsInf(r.Median, 0)
				}
				if !there {
					t.Errorf("%s, %s: %s: %+v", c.Workload, a.Name, m.Key, r)
				}
			}
		}
	}
	cycles := []string{"direct", "native", "keep", "innodb", "echo"}
	tls := []string{"direct", "innodb", "MySQL Router"}
	var notes []string
	if report.MariaDB { // whose server has no certificate here
		tls, notes = nil, []string{"without selects over TLS: the server does not offer it"}
	}
	passing := []string{"direct", "innodb", "HAProxy", "MySQL Router"}
	for workload, want := range map[string][]string{
		"cycles": append(slices.Clone(cycles), cycles...), // with and without a round trip
		// adding and changing
		"relstorage": {"direct", "by hand", "native", "keep", "innodb", "innodb scan", "direct", "by hand", "native", "keep", "innodb", "innodb scan"},
		"selects":    passing, "result": passing, "connects": passing, "blobs": passing, "idle": passing[1:],
		"tls": tls, "idle-tls": {"innodb", "MySQL Router"},
	} {
		if !slices.Equal(arms[workload], want) {
			t.Errorf("%s: arms %q, want %q", workload, arms[workload], want)
		}
	}
	if !slices.Equal(report.Notes, notes) || len(report.Peers) != 2 {
		t.Errorf("notes %q, peers %q", report.Notes, report.Peers)
	}
	if len(report.Delays) != 1 || report.Delays[0].Median < 200e-6 { // of 500 half may be the relay's own
		t.Errorf("round trips are delayed by %+v", report.Delays)
	}
	measured := 0
	for _, target := range report.Targets {
		if target.Cells > 0 {
			measured++
		}
	}
	if measured < 10 {
		t.Errorf("only %d targets were measured", measured)
	}
}
