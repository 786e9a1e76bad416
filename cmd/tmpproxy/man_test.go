package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"tmpproxy/config"
)

// The manual page has every command that is shown and every setting, and nothing in it is taken for a macro by mistake.
func TestManual(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"man"}, &out, &errs); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	text := strings.ReplaceAll(out.String(), `\-`, "-")
	for _, c := range newRoot().Commands() {
		if shown := strings.Contains(text, `.SS "tmpproxy `+c.Use); shown == c.Hidden {
			t.Errorf("command %q: in the manual %v, hidden %v", c.Name(), shown, c.Hidden)
		}
	}
	for _, k := range config.Keys() {
		if n := strings.Count(text, ".B \"--"+k.Name+"\"\n"); n != 1 {
			t.Errorf("setting %s is listed %d times", k.Name, n)
		}
	}
	for _, flag := range []string{"-c, --config", "--quick", "--dsn"} {
		if !strings.Contains(text, `.B "`+flag+`"`) {
			t.Errorf("flag %s is not in the manual", flag)
		}
	}
	macros := map[string]bool{"TH": true, "SH": true, "SS": true, "TP": true, "PP": true, "B": true, "RI": true, "br": true}
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "."); ok {
			if name, _, _ = strings.Cut(strings.TrimSpace(name), " "); !macros[name] {
				t.Errorf("no macro: %q", line)
			}
		} else if strings.HasPrefix(line, "'") || line == "\n" {
			t.Errorf("not a line of text: %q", line)
		}
	}
}

func TestManualText(t *testing.T) {
	var p page
	p.text("a\\b - c\n.d\n'e\n\nf")
	if got, want := p.String(), "a\\eb \\- c\n\\&.d\n\\&'e\n.PP\nf\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Reset()
	p.macro("B", `say "x"`)
	if got, want := p.String(), ".B \"say \"\"x\"\"\"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The shells' completions are there, and bash takes its own.
func TestCompletions(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var out, errs bytes.Buffer
		if code := run([]string{"completion", shell}, &out, &errs); code != exitOK || out.Len() < 1000 {
			t.Fatalf("%s: exit code %d, %d bytes: %s", shell, code, out.Len(), errs.String())
		}
		if shell != "bash" {
			continue
		}
		command := exec.Command("bash", "-n")
		command.Stdin = &out
		if text, err := command.CombinedOutput(); err != nil {
			t.Errorf("bash: %v\n%s", err, text)
		}
	}
	var out bytes.Buffer
	run([]string{"__complete", "switch", ""}, &out, &bytes.Buffer{})
	if got := out.String(); !strings.Contains(got, "native\n") || !strings.Contains(got, "configured\n") {
		t.Errorf("switch is completed by %q", got)
	}
	out.Reset()
	run([]string{"__complete", "serve", "--rewrite.str"}, &out, &bytes.Buffer{})
	if got := out.String(); !strings.Contains(got, "--rewrite.strategy") {
		t.Errorf("--rewrite.str is completed by %q", got)
	}
}
