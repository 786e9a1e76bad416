package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"tmpproxy/config"
)

func writeFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWatch takes looks at files between changes: what is new counts once, and only when two looks have seen the same.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	file, token := filepath.Join(dir, "proxy.yaml"), filepath.Join(dir, "token")
	writeFile(t, file, "admin: {token_file: "+token+"}\n")
	writeToken(t, token, "the-first-token-of-all")
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(flags)
	c, err := config.Load(file, flags)
	if err != nil {
		t.Fatal(err)
	}
	var w watch
	w.accept(c)
	for _, step := range []struct {
		name   string
		change func()
		looks  []bool
	}{
		{"nothing", func() {}, []bool{false, false, false}},
		{"the same written again", func() { writeToken(t, token, "the-first-token-of-all") }, []bool{false, false}},
		{"settings", func() { writeFile(t, file, "log: {level: warn}\n") }, []bool{false, true}},
		{"... taken over", func() { w.accept(c) }, []bool{false, false}},
		{"half of them", func() { writeFile(t, file, "log: {") }, []bool{false}},
		{"... the whole", func() { writeFile(t, file, "log: {level: info}\n") }, []bool{false, true}},
		{"... taken over", func() { w.accept(c) }, []bool{false}},
		{"token", func() { writeToken(t, token, "another-token-than-that") }, []bool{false, true}},
		{"... and back at once", func() { writeToken(t, token, "the-first-token-of-all") }, []bool{false, false}},
		{"removed", func() { os.Remove(file) }, []bool{false, true}},
		{"... noted", func() { w.accept(c) }, []bool{false, false}},
		{"and there again", func() { writeFile(t, file, "log: {level: info}\n") }, []bool{false, true}},
	} {
		step.change()
		for i, want := range step.looks {
			if got := w.look(c); got != want {
				t.Errorf("%s: look %d says %v", step.name, i+1, got)
			}
		}
	}
}

// configuration asks a running proxy.
func (s *served) configuration() (c configuration) {
	s.t.Helper()
	_, text := s.get("/api/config")
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	return c
}

func (c configuration) setting(name string) (one setting) {
	for _, s := range c.Settings {
		if s.Name == name {
			one = s
		}
	}
	return one
}

// TestServeWatches changes the settings as Kubernetes changes a ConfigMap's: by exchanging a symbolic link to the folder of the file.
func TestServeWatches(t *testing.T) {
	dir := t.TempDir()
	publish := func(version, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, version, "config.yaml"), text)
		link := filepath.Join(dir, "link")
		if err := os.Symlink(version, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	publish("..1", "rewrite: {strategy: innodb}\n")
	file := filepath.Join(dir, "config.yaml")
	if err := os.Symlink(filepath.Join("..data", "config.yaml"), file); err != nil {
		t.Fatal(err)
	}
	s := serve(t, nil, "--config", file, "--reload.watch=5ms", "--backend.address="+startBackend(t).address())
	c := connect(t, "tcp", s.listen[0])
	c.query("SELECT 1")

	publish("..2", "rewrite: {strategy: keep}\nrelay: {loops: 2}\n")
	if line := s.await("settings reloaded"); line["by"] != "file" || line["strategy"] != "keep" {
		t.Errorf("log: %v", line)
	}
	publish("..3", "rewrite: {strategy: best}\n")
	s.await("settings not reloaded: the old ones stay in force")
	got := s.configuration()
	if last := got.LastReload; last == nil || last.By != "file" || !strings.Contains(last.Error, `"best" is none of`) {
		t.Errorf("last reload: %+v", last)
	}
	if one := got.setting("rewrite.strategy"); one.Value != "keep" {
		t.Errorf("strategy in force: %+v", one)
	}
	publish("..4", "rewrite: {strategy: native}\n")
	if line := s.await("settings reloaded"); line["strategy"] != "native" {
		t.Errorf("log: %v", line)
	}
	c.query("SELECT 2") // on the same connection
}

// postReload asks for a reload with a token.
func (s *served) postReload(token string) (status int, body string) {
	s.t.Helper()
	request, err := http.NewRequest("POST", "http://"+s.admin+"/api/reload", strings.NewReader("{}"))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(response.Body); err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, text.String()
}

// TestServeReloadRequest reloads over HTTP, and looks at the effective settings and the metrics before and after.
func TestServeReloadRequest(t *testing.T) {
	dir := t.TempDir()
	file, token, password := filepath.Join(dir, "proxy.yaml"), filepath.Join(dir, "token"), filepath.Join(dir, "password")
	writeToken(t, token, "the-first-token-of-all")
	writeToken(t, password, "a-very-secret-password")
	settings := "backend: {monitor: {user: watch, password_file: " + password + "}}\nadmin: {token_file: " + token + "}\n"
	writeFile(t, file, settings+"relay: {loops: 1}\n")
	s := serve(t, []string{"TMPPROXY_LIMITS_MAX_HANDSHAKES=9"}, "--config", file, "--rewrite.max_create=2KiB", "--backend.address="+startBackend(t).address())
	before := s.configuration()
	if before.File != file || before.LastReload != nil || len(before.Settings) != len(config.Keys()) {
		t.Errorf("at the start: %s, %v, %d settings", before.File, before.LastReload, len(before.Settings))
	}
	for _, want := range []setting{
		{"relay.loops", 1.0, "proxy.yaml", false, nil},
		{"limits.max_handshakes", 9.0, "TMPPROXY_LIMITS_MAX_HANDSHAKES", true, nil},
		{"rewrite.max_create", "2KiB", "--rewrite.max_create", true, nil},
		{"rewrite.max_statement", "64KiB", "default", true, nil},
		{"shutdown.grace", "30s", "default", false, nil},
		{"backend.monitor.password_file", password, "proxy.yaml", false, nil},
		{"rewrite.convert", []any{"MEMORY", "HEAP", "MyISAM"}, "default", true, nil},
	} {
		if got := before.setting(want.Name); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}

	if status, _ := s.postReload("not-the-token-of-this"); status != 401 {
		t.Errorf("with a wrong token: %d", status)
	}
	writeFile(t, file, settings+"relay: {loops: 2}\nrewrite: {max_parked: 5}\n")
	status, body := s.postReload("the-first-token-of-all")
	var answer reloadStatus
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 || answer.By != "request" ||
		fmt.Sprint(answer.Applied, answer.Waiting) != "[rewrite.max_parked] [relay.loops]" {
		t.Errorf("%d %s", status, body)
	}
	after := s.configuration()
	for _, want := range []setting{
		{"relay.loops", 1.0, "proxy.yaml", false, 2.0},
		{"rewrite.max_parked", 5.0, "proxy.yaml", true, nil},
	} {
		if got := after.setting(want.Name); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}

	writeFile(t, file, settings+"rewrite: {max_parked: 6, max_age: 1}\n")
	if status, body := s.postReload("the-first-token-of-all"); status != 400 || !strings.Contains(body, `rewrite.max_age (proxy.yaml): \"1\" has no unit`) {
		t.Errorf("%d %s", status, body)
	}
	if got := s.configuration().setting("rewrite.max_parked"); got.Value != 5.0 {
		t.Errorf("a reload that failed has changed something: %+v", got)
	}
	_, metrics := s.get("/metrics")
	for _, want := range []string{`tmpproxy_config_reloads_total{result="success"} 1`, `tmpproxy_config_reloads_total{result="failure"} 1`,
		"tmpproxy_config_last_reload_successful 0", "tmpproxy_config_last_reload_success_timestamp_seconds 1."} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	for _, path := range []string{"/api/config", "/metrics", "/api/status"} {
		_, text := s.get(path)
		for _, secret := range []string{"the-first-token-of-all", "a-very-secret-password"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %s", path, secret)
			}
		}
	}
}
