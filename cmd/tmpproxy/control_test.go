package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"tmpproxy/session"
)

func TestControl(t *testing.T) {
	var taken policies
	first := &session.Policy{Strategy: session.StrategyInnoDB, MaxParked: 1, Measure: true, Observe: &session.Policy{}}
	c := newControl(zap.NewNop(), &taken, first, "innodb")
	clock := time.Unix(1000, 0)
	c.now, c.since = func() time.Time { return clock }, clock
	act := func(body string) func() error {
		return func() error { _, err := c.switchTo(t.Context(), json.RawMessage(body)); return err }
	}
	reload := func(s session.Strategy, name string, parked int) func() error {
		return func() error { c.configure(&session.Policy{Strategy: s, MaxParked: parked}, name); return nil }
	}
	for _, step := range []struct {
		name     string
		do       func() error
		fault    string
		strategy session.Strategy
		parked   int
		status   strategyStatus
	}{
		{"switch to native", act(`{"strategy":"native"}`), "", session.StrategyNative, 1, strategyStatus{"innodb", "native", true, time.Unix(1001, 0)}},
		{"again", act(`{"strategy":"native"}`), "", session.StrategyNative, 1, strategyStatus{"innodb", "native", true, time.Unix(1001, 0)}},
		{"a reload does not undo it", reload(session.StrategyKeep, "keep", 2), "", session.StrategyNative, 2, strategyStatus{"keep", "native", true, time.Unix(1001, 0)}},
		{"unknown strategy", act(`{"strategy":"innodb"}`), `not "innodb"`, session.StrategyNative, 2, strategyStatus{"keep", "native", true, time.Unix(1001, 0)}},
		{"no strategy", act(`{}`), `not ""`, session.StrategyNative, 2, strategyStatus{"keep", "native", true, time.Unix(1001, 0)}},
		{"no object", act(`[]`), "is wanted", session.StrategyNative, 2, strategyStatus{"keep", "native", true, time.Unix(1001, 0)}},
		{"back", act(`{"strategy":"configured"}`), "", session.StrategyKeep, 2, strategyStatus{"keep", "keep", false, time.Unix(1007, 0)}},
		{"reload", reload(session.StrategyNative, "native", 3), "", session.StrategyNative, 3, strategyStatus{"native", "native", false, time.Unix(1008, 0)}},
		{"switch to what is configured", act(`{"strategy":"native"}`), "", session.StrategyNative, 3, strategyStatus{"native", "native", true, time.Unix(1008, 0)}},
	} {
		clock = clock.Add(time.Second)
		err := step.do()
		if (err != nil) != (step.fault != "") || err != nil && !strings.Contains(err.Error(), step.fault) {
			t.Errorf("%s: %v", step.name, err)
		}
		if p := taken.list[len(taken.list)-1]; p.Strategy != step.strategy || p.MaxParked != step.parked || step.status.Switched && (p.Measure || p.Observe != nil) {
			t.Errorf("%s: in force is %+v", step.name, p)
		}
		if got := c.Status(); got != step.status {
			t.Errorf("%s: %+v, want %+v", step.name, got, step.status)
		}
	}
	if first.Strategy != session.StrategyInnoDB || !first.Measure || first.Observe == nil {
		t.Error("a policy that sessions may be reading was changed")
	}
}

// writeToken makes a file with a token.
func writeToken(t *testing.T, file, token string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// told runs the command and returns its exit code and what it printed.
func told(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := command(t, args...)
	var out, diagnostics bytes.Buffer
	c.Stdout, c.Stderr = &out, &diagnostics
	code = exitCode(t, c.Run())
	return code, out.String(), diagnostics.String()
}

// strategy asks a running proxy.
func (s *served) strategy() strategyStatus {
	s.t.Helper()
	_, text := s.get("/api/status")
	var all status
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	return all.Strategy
}

// TestSwitch switches a running proxy on TCP: with the token, and not without; a reload changes the token and leaves the switch alone.
func TestSwitch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	other := filepath.Join(t.TempDir(), "other")
	writeToken(t, file, "the-first-token-of-all")
	writeToken(t, other, "another-token-than-that")
	s := serve(t, nil, "--admin.token_file="+file, "--backend.address="+startBackend(t).address())
	if got := s.strategy(); got.Configured != "innodb" || got.InForce != "innodb" || got.Switched || got.Since.IsZero() {
		t.Errorf("at the start: %+v", got)
	}
	code, _, stderr := told(t, "switch", "native", "--admin.address="+s.admin)
	if code != 1 || !strings.Contains(stderr, "the token of admin.token_file is needed") {
		t.Errorf("without a token: %d %s", code, stderr)
	}
	code, _, stderr = told(t, "switch", "native", "--admin.address="+s.admin, "--admin.token_file="+other)
	if code != 1 || !strings.Contains(stderr, "is needed") || strings.Contains(stderr, "another-token-than-that") {
		t.Errorf("with a wrong token: %d %s", code, stderr)
	}
	if got := s.strategy(); got.Switched {
		t.Fatalf("switched by nobody: %+v", got)
	}
	code, stdout, stderr := told(t, "switch", "native", "--admin.address="+s.admin, "--admin.token_file="+file)
	if code != 0 || stdout != "strategy native is in force (switched by an operator; configured is innodb)\n" {
		t.Errorf("with the token: %d %s %s", code, stdout, stderr)
	}
	if line := s.await("strategy switched by an operator"); line["strategy"] != "native" {
		t.Errorf("log: %v", line)
	}

	writeToken(t, file, "a-second-token-for-it")
	s.signal(syscall.SIGHUP)
	if line := s.await("settings reloaded"); line["strategy"] != "native" {
		t.Errorf("log: %v", line)
	}
	if line := s.await("the strategy stays native, as an operator has switched it"); line["configured"] != "innodb" {
		t.Errorf("log: %v", line)
	}
	if got := s.strategy(); got.InForce != "native" || !got.Switched {
		t.Errorf("after a reload: %+v", got)
	}
	writeToken(t, other, "the-first-token-of-all")
	if code, _, _ = told(t, "switch", "configured", "--admin.address="+s.admin, "--admin.token_file="+other); code != 1 {
		t.Error("the token of before the reload is still good")
	}
	code, stdout, _ = told(t, "switch", "configured", "--admin.address="+s.admin, "--admin.token_file="+file)
	if code != 0 || stdout != "strategy innodb is in force (as configured)\n" || s.strategy().Switched {
		t.Errorf("back: %d %s", code, stdout)
	}
}

// TestSwitchSocket needs no token on a unix socket, and cannot be had on TCP without one.
func TestSwitchSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "admin.sock")
	s := serve(t, nil, "--admin.address="+socket)
	if code, stdout, stderr := told(t, "switch", "native", "--admin.address="+s.admin); code != 0 || !strings.Contains(stdout, "strategy native") {
		t.Errorf("%d %s %s", code, stdout, stderr)
	}
	open := serve(t, nil)
	code, _, stderr := told(t, "switch", "native", "--admin.address="+open.admin)
	if code != 1 || !strings.Contains(stderr, "admin.token_file, or an admin.address that is a unix socket") {
		t.Errorf("%d %s", code, stderr)
	}
	if open.strategy().Switched {
		t.Error("switched all the same")
	}
	for _, args := range [][]string{{"switch"}, {"switch", "innodb"}, {"switch", "native", "now"}} {
		if code, _, _ := told(t, args...); code != 2 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
	if code, _, stderr := told(t, "switch", "native", "--admin.address=none"); code != 1 || !strings.Contains(stderr, "admin.address is none") {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestSwitchByHand does what a script with an HTTP client would.
func TestSwitchByHand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	writeToken(t, file, "the-first-token-of-all")
	s := serve(t, nil, "--admin.token_file="+file)
	request, err := http.NewRequest("POST", "http://"+s.admin+"/api/strategy", strings.NewReader(`{"strategy":"native"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer the-first-token-of-all")
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("%d %s %v", response.StatusCode, text, err)
	}
	var got strategyStatus
	if err := json.Unmarshal(text, &got); err != nil || got.InForce != "native" || !got.Switched {
		t.Errorf("%v: %s", err, text)
	}
}
