package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tmpproxy/trial"
)

// TestTrialCommands runs the commands against a proxy on a unix socket, and says what is wrong otherwise.
func TestTrialCommands(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "admin.sock")
	s := serve(t, nil, "--admin.address="+socket, "--backend.address="+startBackend(t).address(), "--rewrite.strategy=keep")
	at := "--admin.address=" + s.admin
	for _, step := range []struct {
		name   string
		args   []string
		code   int
		stdout string // the beginning
		stderr string // a part
	}{
		{"none yet", []string{"trial", "status", at}, 0, "no trial\n", ""},
		{"no results", []string{"trial", "report", at}, 1, "", "knows of no trial"},
		{"nothing to stop", []string{"trial", "stop", at}, 1, "", "no trial is running"},
		{"nothing to change", []string{"trial", "change", "keep=2", at}, 1, "", "no trial is running"},
		{"no arms", []string{"trial", "start", at}, 2, "", "which arms?"},
		{"no such arm", []string{"trial", "start", "--trial.arms=native,fast", at}, 2, "", `arm "fast"`},
		{"one arm", []string{"trial", "start", "--trial.arms=native", at}, 2, "", "2 to 8 arms"},
		{"a bad name", []string{"trial", "start", "--trial.arms=native,keep", "--trial.name=a/b", at}, 2, "", "no name for a trial"},
		{"start", []string{"trial", "start", "--trial.arms=native,keep*3", "--trial.name=mine", "--trial.assignment=user", at}, 0, "trial mine, running since 20", ""},
		{"twice", []string{"trial", "start", "--trial.arms=native,keep", at}, 1, "", `trial "mine" is running`},
		{"status", []string{"trial", "status", at}, 0, "trial mine, running since ", ""},
		{"no weight", []string{"trial", "change", "keep", at}, 2, "", `"keep" is not ARM=WEIGHT`},
		{"no weights", []string{"trial", "change", at}, 2, "", "which weights?"},
		{"a weight of nobody", []string{"trial", "change", "innodb=2", at}, 1, "", `no arm is called "innodb"`},
		{"change", []string{"trial", "change", "keep=2", "native=5", at}, 0, "trial mine, running", ""},
		{"native goes before", []string{"switch", "native", at}, 0, "strategy native", ""},
		{"overridden", []string{"trial", "status", at}, 0, "trial mine, running", ""},
		{"report", []string{"trial", "report", at}, 0, "trial mine, running", ""},
		{"sum", []string{"trial", "report", "--from=" + s.admin + ",unix:" + s.admin, at}, 0, "trial mine, running", ""},
		{"stop", []string{"trial", "stop", at}, 0, "trial mine, stopped since ", ""},
		{"not under native", []string{"trial", "start", "--trial.arms=native,keep", at}, 1, "", "goes before any trial"},
		{"which", []string{"trial"}, 2, "", "trial start, status, report, change or stop"},
		{"what", []string{"trial", "begin"}, 2, "", `unknown command "begin"`},
	} {
		code, stdout, stderr := told(t, step.args...)
		if code != step.code || !strings.HasPrefix(stdout, step.stdout) || !strings.Contains(stderr, step.stderr) {
			t.Errorf("%s: exit code %d\n%s%s", step.name, code, stdout, stderr)
		}
		switch step.name {
		case "change":
			if fields := strings.Fields(stdout[strings.Index(stdout, "native"):]); fields[1] != "5" {
				t.Errorf("%s: %s", step.name, stdout)
			}
		case "overridden":
			if !strings.Contains(stdout, "native is in force for all sessions: none is measured") {
				t.Errorf("%s: %s", step.name, stdout)
			}
		}
	}
}

// TestTrialOfSettings starts the trial of the settings, stores it, goes on with it at the next start, and lets nobody without the token
// touch it.
func TestTrialOfSettings(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--backend.address=" + startBackend(t).address(), "--trial.arms=native,keep", "--trial.name=lasting", "--trial.dir=" + dir}
	ask := func(s *served) (r trial.Report) {
		t.Helper()
		_, text := s.get("/api/trial")
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return r
	}
	s := serve(t, nil, args...)
	c := connect(t, "tcp", s.listen[0])
	for range 3 {
		c.query("CREATE TEMPORARY TABLE d.t (a INT) ENGINE=MEMORY")
		c.query("DROP TEMPORARY TABLE d.t")
	}
	first := ask(s)
	if first.State != trial.StateRunning || first.Arms[0].Sessions+first.Arms[1].Sessions != 1 || first.Arms[0].Cycles+first.Arms[1].Cycles != 3 {
		t.Errorf("%+v", first)
	}
	if code, _, stderr := told(t, "trial", "stop", "--admin.address="+s.admin); code != 1 || !strings.Contains(stderr, "nothing can be changed here") {
		t.Errorf("stopped by anybody: %d %s", code, stderr)
	}
	s.signal(syscall.SIGTERM)
	s.await("stopped")
	s.exit()

	s = serve(t, nil, args...)
	if again := ask(s); again.State != trial.StateRunning || !again.Started.Equal(*first.Started) || again.Arms[0].Cycles+again.Arms[1].Cycles != 3 {
		t.Errorf("at the next start: %+v", again)
	}
	s.signal(syscall.SIGTERM)
	s.exit()

	s = serve(t, nil, append(args, "--trial.arms=native,innodb")...)
	if other := ask(s); other.State != trial.StateRunning || other.Started.Equal(*first.Started) || other.Arms[1].Name != "innodb" || other.Arms[0].Cycles != 0 {
		t.Errorf("with other arms: %+v", other)
	}
	if code, _, stderr := told(t, "serve", "--trial.arms=native"); code == 0 || !strings.Contains(stderr, "2 to 8 arms") {
		t.Errorf("with one arm: %d %s", code, stderr)
	}
}
