//go:build realserver

package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDemo runs all of it, as short as it may be.
func TestDemo(t *testing.T) {
	var out bytes.Buffer
	if code := demonstrate(context.Background(), &out, options{duration: time.Second, server: "mysql", noninteractive: true, cycles: 5}); code != 0 {
		t.Fatalf("exit code %d after\n%s", code, out.String())
	}
	text := out.String()
	t.Log("\n" + text)
	if first, _, _ := strings.Cut(text, "\n"); !regexp.MustCompile(`^The dashboard: http://127\.0\.0\.1:\d+/ `).MatchString(first) {
		t.Errorf("the first line does not name the dashboard: %s", first)
	}
	_, report, found := strings.Cut(text, "trial demo, running since ")
	if !found {
		t.Fatal("there is no report of the trial")
	}
	for _, shape := range []string{"all cycles", "md5 CHAR(32)", "chunk LONGBLOB", "ENGINE=MEMORY"} {
		if !strings.Contains(report, shape) {
			t.Errorf("the report says nothing of %s", shape)
		}
	}
	verdict := regexp.MustCompile(`^(innodb|keep)'s cycles take .+ than native's$|^keep's cycles take as long as native's: .+|^no difference shown yet: .+ than native's$`)
	lines := strings.Split(strings.TrimSpace(report), "\n")
	for _, line := range lines[len(lines)-2:] {
		if !verdict.MatchString(line) {
			t.Errorf("ends with %q, which is no verdict", line)
		}
	}
	if strings.Contains(report, "too few") {
		t.Error("a verdict is still missing")
	}
}
