//go:build realserver

package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
	"tmpproxy/trial"
)

// trialReport asks how the trial stands.
func trialReport(t testing.TB, p *process.Process) (r trial.Report) {
	t.Helper()
	text, err := p.Get("/api/trial")
	if err == nil {
		err = json.Unmarshal([]byte(text), &r)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return r
}

// runTrial runs tmpproxy trial.
func runTrial(t testing.TB, p *process.Process, args ...string) string {
	t.Helper()
	binary, err := process.Binary(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, append([]string{"trial"}, append(args, "--admin.address="+p.Admin)...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// ended is how many sessions of each arm have ended and count.
func ended(r trial.Report) (list []int64) {
	for _, a := range r.Overall.Arms {
		list = append(list, a.Sessions)
	}
	return list
}

const (
	trialCreate = "CREATE TEMPORARY TABLE probe (a INT PRIMARY KEY, b INT) ENGINE=MEMORY"
	trialShape  = "(a INT PRIMARY KEY, b INT) ENGINE=MEMORY"
)

// trialSession is a session of some cycles, which ends; it counts soon after.
func trialSession(t testing.TB, config rawclient.Config, cycles int) {
	t.Helper()
	c := connect(t, config)
	for range cycles {
		must(t, c, trialCreate)
		must(t, c, "INSERT INTO probe VALUES (1, 1), (2, 2)")
		must(t, c, "SELECT b FROM probe WHERE a = 1")
		must(t, c, "DROP TEMPORARY TABLE probe")
	}
	if err := c.Quit(); err != nil {
		t.Fatal(err)
	}
}

// TestTrial runs a trial of native against keep: it is started over HTTP, measures what the clients do, goes on after the process was
// killed, and ends with a verdict.
func TestTrial(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "tried")
		dir, token := filepath.Join(t.TempDir(), "results"), tokenFile(t)
		settings := []string{"TMPPROXY_TRIAL_DIR=" + dir, "TMPPROXY_ADMIN_TOKEN_FILE=" + token}
		p, err := process.Start(context.Background(), s.Address, settings...)
		if err != nil {
			t.Fatal(err)
		}
		if r := trialReport(t, p); r.State != trial.StateNone {
			t.Errorf("at first: %+v", r)
		}
		resident := connect(t, configure(s, p.Address, "tried")) // from before the trial
		must(t, resident, trialCreate)
		body := `{"name": "first", "arms": [{"strategy": "native"}, {"strategy": "keep", "name": "kept"}], "guardrail": 100}`
		if status, answer := post(t, p, "/api/trial/start", body); status != http.StatusOK {
			t.Fatalf("%d: %s", status, answer)
		}
		if status, answer := post(t, p, "/api/trial/start", body); status != http.StatusConflict || !strings.Contains(answer, "is running") {
			t.Errorf("started twice: %d %s", status, answer)
		}
		must(t, resident, "DROP TEMPORARY TABLE probe") // a cycle of before does not count

		const cycles = 6
		sessions := 0
		run := func(p *process.Process, least int64) trial.Report {
			t.Helper()
			for {
				if r := trialReport(t, p); min(ended(r)[0], ended(r)[1]) >= least {
					return r
				}
				trialSession(t, configure(s, p.Address, "tried"), cycles)
				sessions++
			}
		}
		// settled waits until all sessions have ended for the proxy, too.
		settled := func(p *process.Process) (r trial.Report) {
			t.Helper()
			await(t, "all sessions count", func() bool {
				r = trialReport(t, p)
				return ended(r)[0]+ended(r)[1] == int64(sessions)
			})
			return r
		}
		run(p, 3)
		r := settled(p)
		check := func(r trial.Report) {
			t.Helper()
			if len(r.Shapes) != 1 || r.Shapes[0].Shape != trialShape {
				t.Fatalf("shapes %+v", r.Shapes)
			}
			for i, a := range r.Shapes[0].Arms {
				n := ended(r)[i]
				if a.Cycles != n*cycles || a.Errors != 0 || a.Rows != uint64(2*a.Cycles) {
					t.Errorf("%+v: want %d cycles of 2 rows", a, n*cycles)
				}
				if reused := a.Arm == "kept"; (a.Reused > 0) != reused || reused && a.Reused < n*(cycles-3) || (a.Reset > 0) != reused {
					t.Errorf("%s: %d of %d cycles reused, %v s of background work", a.Arm, a.Reused, a.Cycles, a.Reset)
				}
				if a.Median <= 0 || a.Create <= 0 || a.Statements <= 0 || a.Drop <= 0 && a.Arm == "native" || len(a.Histogram) == 0 {
					t.Errorf("times %+v", a)
				}
				if got := r.Arms[i]; got.Statements.Count < a.Cycles*4 || got.Errors != 0 || got.Sessions < n {
					t.Errorf("arm %+v", got)
				}
			}
		}
		check(r)

		// What is stored outlives the process.
		file := filepath.Join(dir, "first.trial")
		now := time.Now()
		await(t, "the results are stored", func() bool {
			info, err := os.Stat(file)
			return err == nil && info.ModTime().After(now)
		})
		if err := p.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-p.Exited()
		p = startProxy(t, s.Address, settings...)
		after := trialReport(t, p)
		if after.State != trial.StateRunning || fmt.Sprint(ended(after)) != fmt.Sprint(ended(r)) || after.Started == nil || !after.Started.Equal(*r.Started) {
			t.Errorf("after the process was killed: %+v", after)
		}
		run(p, 12)
		r = settled(p)
		check(r)
		v := r.Overall.Verdicts[0]
		if v.Arm != "kept" || v.Against != "native" || v.Ratio <= 0 || v.Sessions != int64(sessions) || v.Words == "" || v.High == nil || v.Low > v.Ratio || *v.High < v.Ratio {
			t.Errorf("verdict %+v", v)
		}
		metrics, err := p.Get("/metrics")
		if err != nil || !strings.Contains(metrics, fmt.Sprintf(`tmpproxy_trial_cycles_total{arm="kept"} %d`, r.Arms[1].Cycles)) || !strings.Contains(metrics, `tmpproxy_trial_cycle_time_ratio{arm="kept"}`) {
			t.Errorf("metrics: %v\n%s", err, metrics)
		}

		out := runTrial(t, p, "report")
		if !strings.Contains(out, trialShape) || !strings.Contains(out, "95 % interval") || !strings.Contains(out, v.Words) {
			t.Errorf("report:\n%s", out)
		}
		t.Log("\n" + out)

		// A reload leaves it alone.
		if err := p.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		await(t, "the reload", func() bool { return strings.Contains(p.Log(), "settings reloaded") })
		if out := runTrial(t, p, "status"); !strings.HasPrefix(out, "trial first, running since ") || !strings.Contains(out, v.Words) {
			t.Errorf("status:\n%s", out)
		}
		if out := runTrial(t, p, "change", "kept=3", "--admin.token_file="+token); !strings.Contains(out, "too few sessions to tell: 0 of kept, 0 of native") {
			t.Errorf("change:\n%s", out)
		}
		if out := runTrial(t, p, "stop", "--admin.token_file="+token); !strings.HasPrefix(out, "trial first, stopped since ") {
			t.Errorf("stop:\n%s", out)
		}
		var sum trial.Report
		if err := json.Unmarshal([]byte(runTrial(t, p, "report", "--json", "--from="+p.Admin+",http://"+p.Admin)), &sum); err != nil {
			t.Fatal(err)
		}
		if sum.Arms[0].Cycles != 2*r.Arms[0].Cycles {
			t.Errorf("twice the same: %d cycles, want 2 times %d", sum.Arms[0].Cycles, r.Arms[0].Cycles)
		}
		trialSession(t, configure(s, p.Address, "tried"), cycles)
		if n := trialReport(t, p).Overall.Arms; n[0].Cycles+n[1].Cycles != r.Arms[0].Cycles+r.Arms[1].Cycles {
			t.Error("cycles behind the end are counted")
		}
	})
}

// An arm that makes statements fail is stopped, and its sessions get what native ones get from their next cycle on: a MERGE table over
// a MyISAM one that was converted cannot be read.
func TestTrialGuardrail(t *testing.T) {
	s := shared(t, server.MySQL)
	database(t, s, "guarded")
	for _, d := range drivers {
		t.Run(d, func(t *testing.T) {
			p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_REWRITE_STRATEGY=keep", "TMPPROXY_TRIAL_ARMS=native,innodb", "TMPPROXY_TRIAL_NAME=harm")
			cycle := func(c *rawclient.Conn) (failed bool) {
				t.Helper()
				must(t, c, "CREATE TEMPORARY TABLE below (a INT) ENGINE=MyISAM")
				must(t, c, "INSERT INTO below VALUES (1)")
				must(t, c, "CREATE TEMPORARY TABLE above (a INT) ENGINE=MERGE UNION=(below)")
				reply, err := c.Query("SELECT a FROM above")
				if err != nil {
					t.Fatal(err)
				}
				must(t, c, "DROP TEMPORARY TABLE above")
				must(t, c, "DROP TEMPORARY TABLE below")
				return reply.AsError() != nil
			}
			var harmed *rawclient.Conn
			for trialReport(t, p).Arms[1].StoppedReason == "" {
				c := connect(t, configure(s, p.Address, "guarded"))
				failed := false
				for range 4 {
					failed = cycle(c) || failed
				}
				if failed && harmed == nil {
					harmed = c // it stays
				} else if err := c.Quit(); err != nil {
					t.Fatal(err)
				}
			}
			r := trialReport(t, p)
			if a := r.Arms[1]; a.Name != "innodb" || !strings.Contains(a.StoppedReason, "of its statements fail, 0.00 % of native's") || r.Arms[0].Errors != 0 || a.Errors == 0 {
				t.Errorf("%+v", r.Arms)
			}
			if r.State != trial.StateRunning {
				t.Errorf("the trial is %s", r.State)
			}
			await(t, "the log says so", func() bool { return strings.Contains(p.Log(), "an arm of the trial is stopped") })
			for range 3 {
				if cycle(harmed) {
					t.Error("a session of the arm that was stopped is still treated by it")
				}
			}
		})
	}
}

// An arm whose cycles take longer is stopped: InnoDB gives the row that sleeps first, MEMORY last.
func TestTrialGuardrailOnTime(t *testing.T) {
	s := shared(t, server.MySQL)
	database(t, s, "slowed")
	p := startProxy(t, s.Address, "TMPPROXY_REWRITE_STRATEGY=keep", "TMPPROXY_TRIAL_ARMS=native,innodb,keep")
	cycle := func(c *rawclient.Conn) time.Duration {
		t.Helper()
		must(t, c, "CREATE TEMPORARY TABLE t (a INT PRIMARY KEY) ENGINE=MEMORY")
		must(t, c, "INSERT INTO t VALUES (2), (1)")
		begin := time.Now()
		must(t, c, "SELECT SLEEP(IF(a = 1, 0.1, 0)) FROM t LIMIT 1")
		took := time.Since(begin)
		must(t, c, "DROP TEMPORARY TABLE t")
		return took
	}
	for trialReport(t, p).Arms[1].StoppedReason == "" {
		c := connect(t, configure(s, p.Address, "slowed"))
		for range 2 {
			cycle(c)
		}
		if err := c.Quit(); err != nil {
			t.Fatal(err)
		}
	}
	r := trialReport(t, p)
	t.Logf("after %d, %d and %d sessions", r.Arms[0].Sessions, r.Arms[1].Sessions, r.Arms[2].Sessions)
	if reason := r.Arms[1].StoppedReason; r.Arms[1].Name != "innodb" || !strings.Contains(reason, "more time than native's") || r.State != trial.StateRunning {
		t.Errorf("%s was stopped: %s; the trial is %s", r.Arms[1].Name, reason, r.State)
	}
	for range 12 { // whatever arm they are in
		c := connect(t, configure(s, p.Address, "slowed"))
		must(t, c, "CREATE TEMPORARY TABLE t (a INT PRIMARY KEY) ENGINE=MEMORY")
		row, err := rawclient.TextRow(must(t, c, "SHOW CREATE TABLE t").Results[0].Rows[0])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(row[1]), "ENGINE=MEMORY") {
			t.Errorf("a session gets %s", row[1])
		}
	}
}

// The switch to native goes before a trial, with the next cycle of every session, and nothing is measured meanwhile (P7).
func TestTrialUnderNative(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "overridden")
		p := startProxy(t, s.Address, "TMPPROXY_REWRITE_STRATEGY=observe", "TMPPROXY_TRIAL_ARMS=control=keep,kept=keep", "TMPPROXY_ADMIN_TOKEN_FILE="+tokenFile(t))
		c := connect(t, configure(s, p.Address, "overridden"))
		h := habit{cycle: []string{create, insert, "SHOW", drop}, engines: toInnoDB}
		for range 3 {
			h.live(t, c, "t", "keep")
		}
		if creates, drops := h.live(t, c, "t", "keep"); creates+drops != 0 {
			t.Errorf("%d CREATEs and %d DROPs of a cached cycle were sent", creates, drops)
		}
		before := trialReport(t, p)
		if before.Overridden || before.Overall.Arms[0].Cycles+before.Overall.Arms[1].Cycles != 4 {
			t.Errorf("before: %+v", before)
		}
		if status, answer := post(t, p, "/api/strategy", `{"strategy": "native"}`); status != http.StatusOK {
			t.Fatal(answer)
		}
		for i := range 3 {
			if creates, drops := h.live(t, c, "t", "native"); creates != 1 || drops < 1 {
				t.Errorf("cycle %d: %d CREATEs and %d DROPs were sent", i, creates, drops)
			}
		}
		r := trialReport(t, p)
		if !r.Overridden || r.State != trial.StateRunning || r.Arms[0].Cycles+r.Arms[1].Cycles != 4 {
			t.Errorf("under native: %+v", r)
		}
		if status, answer := post(t, p, "/api/strategy", `{"strategy": "configured"}`); status != http.StatusOK {
			t.Fatal(answer)
		}
		for range 3 {
			h.live(t, c, "t", "keep")
		}
		if creates, drops := h.live(t, c, "t", "keep"); creates+drops != 0 {
			t.Errorf("%d CREATEs and %d DROPs of a cached cycle were sent after the switch back", creates, drops)
		}
		if r := trialReport(t, p); r.Overridden || r.Arms[0].Cycles+r.Arms[1].Cycles != 8 {
			t.Errorf("after the switch back: %+v", r.Arms)
		}
	})
}
