package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func steps(p *progress) {
	for _, stage := range []string{"warm-up", "round 1 of 1"} {
		for _, what := range []string{"direct", "innodb"} {
			p.begin(stage, what)
			p.end()
		}
	}
	p.clear()
}

func TestProgressLines(t *testing.T) {
	var got bytes.Buffer
	steps(&progress{w: &got, total: 4})
	if want := "  0%  warm-up\n 50%  round 1 of 1\n"; got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
}

func TestProgressBar(t *testing.T) {
	var got bytes.Buffer
	steps(&progress{w: &got, terminal: true, total: 4})
	frames := strings.Split(got.String(), "\r\x1b[K")[1:]
	want := []string{
		"[..............................]   0%  warm-up: direct",
		"[#######.......................]  25%  warm-up: innodb",
		"[###############...............]  50%  round 1 of 1: direct",
		"[######################........]  75%  round 1 of 1: innodb",
		"",
	}
	if len(frames) != len(want) {
		t.Fatalf("frames %q, want %q", frames, want)
	}
	for i := range want {
		if frames[i] != want[i] {
			t.Errorf("frame %d is %q, want %q", i, frames[i], want[i])
		}
	}
}

func TestIsTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if isTerminal(file) {
		t.Error("a file is taken for a terminal")
	}
}
