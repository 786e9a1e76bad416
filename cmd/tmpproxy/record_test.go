package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"tmpproxy/proxy"
)

// taken remembers the recorder that is in force.
type taken struct{ recorder proxy.Recorder }

func (t *taken) SetRecorder(r proxy.Recorder) { t.recorder = r }

// TestRecordings begins and ends recordings by settings and by requests.
func TestRecordings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.jsonl")
	var server taken
	r := &recordings{log: zap.NewNop(), server: &server}
	configure := func(args ...string) error { return r.configure(configured(t, args...)) }
	act := func(body string) error {
		_, err := r.act(context.Background(), json.RawMessage(body))
		return err
	}
	expect := func(step string, on bool) {
		t.Helper()
		if s := r.Status(); s.Recording != on || (server.recorder != nil) != on {
			t.Errorf("%s: recording %v, recorder %v", step, s.Recording, server.recorder)
		}
	}
	if err := configure(); err != nil {
		t.Fatal(err)
	}
	expect("by default", false)
	if err := act(`{"enabled": true}`); err == nil || !strings.Contains(err.Error(), "record.file") {
		t.Errorf("without a file: %v", err)
	}
	if err := configure("--record.file=" + file); err != nil {
		t.Fatal(err)
	}
	expect("a file alone", false)
	if err := act(`{"enabled": true}`); err != nil {
		t.Fatal(err)
	}
	expect("asked for", true)
	if s := server.recorder.Session(proxy.Client{User: "u"}); s == nil {
		t.Error("no session is recorded")
	} else {
		s.End()
	}
	if err := act(`{"enabled": true}`); err == nil {
		t.Error("twice")
	}
	if err := configure("--record.file="+file, "--rewrite.strategy=keep"); err != nil {
		t.Fatal(err)
	}
	expect("a reload of something else", true)
	if err := act(`{"enabled": false}`); err != nil {
		t.Fatal(err)
	}
	expect("stopped", false)
	if s := r.Status(); s.Last == nil || s.Last.Ended != "asked" || s.Records != 2 {
		t.Errorf("status %+v", s)
	}
	if err := configure("--record.file="+file, "--record.enabled=true", "--record.users=nobody"); err != nil {
		t.Fatal(err)
	}
	expect("by the settings", true)
	if s := server.recorder.Session(proxy.Client{User: "u"}); s != nil {
		t.Error("another user is recorded")
	}
	if err := configure("--record.enabled=true", "--record.file="+filepath.Join(t.TempDir(), "no", "such")); err == nil {
		t.Error("a file that cannot be made")
	}
	expect("after a reload that failed", true)
	r.close()
	expect("closed", false)
	b, err := os.ReadFile(file)
	if err != nil || strings.Count(string(b), `"tmpproxy_recording"`) != 2 {
		t.Errorf("%v, %s", err, b)
	}
	if err := act(`nonsense`); err == nil {
		t.Error("nonsense is understood")
	}
}

func TestParseSpeed(t *testing.T) {
	for text, want := range map[string]float64{"full": 0, "recorded": 1, "2": 2, "0.5x": 0.5} {
		if got, err := parseSpeed(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "0", "fast"} {
		if _, err := parseSpeed(text); err == nil {
			t.Errorf("%q is understood", text)
		}
	}
}

// TestReplayUsage has what cannot be meant refused before anything is run.
func TestReplayUsage(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("261130 23:17:47\t     4 Connect\tu@h on d\n\t\t     4 Query\tDELETE FROM shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no file":       {[]string{"replay"}, exitUsage, "one file"},
		"no server":     {[]string{"replay", log}, exitUsage, "--against is needed"},
		"no dsn":        {[]string{"replay", log, "--against=host:3306"}, exitUsage, ""},
		"no such file":  {[]string{"replay", log + "x", "--against=u@tcp(127.0.0.1:1)/"}, exitRun, "no such file"},
		"writes":        {[]string{"replay", log, "--against=u@tcp(127.0.0.1:1)/"}, exitUsage, "DELETE FROM shop"},
		"unknown arm":   {[]string{"replay", log, "--against=u@tcp(127.0.0.1:1)/", "--same-state", "--arms=turbo"}, exitUsage, "turbo"},
		"unknown speed": {[]string{"replay", log, "--against=u@tcp(127.0.0.1:1)/", "--speed=fast"}, exitUsage, "fast"},
		"before fails":  {[]string{"replay", log, "--against=u@tcp(127.0.0.1:1)/", "--before=exit 7"}, exitRun, "--before: exit status 7"},
		"record what":   {[]string{"record", "pause"}, exitUsage, "record start"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs strings.Builder
			if code := run(c.args, &out, &errs); code != c.code || !strings.Contains(errs.String(), c.want) {
				t.Errorf("exit code %d, %s", code, errs.String())
			}
		})
	}
}
