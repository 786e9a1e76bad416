package conform

import (
	"io"
	"testing"

	"tmpproxy/trial/compare"
	"tmpproxy/trial/record"
)

// TestList has every script that comes with the program run on some server, by commands that a replay knows.
func TestList(t *testing.T) {
	scripts, err := Scripts()
	if err != nil || len(scripts) < 30 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	for _, kind := range []string{"mysql", "mariadb"} {
		l, err := New(kind, "some`schema")
		if err != nil {
			t.Fatal(err)
		}
		if l.Len() < 30 {
			t.Errorf("%s: %d scripts", kind, l.Len())
		}
		open, r := map[uint64]bool{}, l.Reader()
		n, first := 0, ""
		for {
			rec, _, err := r.Next()
			if err == io.EOF {
				break
			}
			if n++; n == 2 {
				first = string(rec.Text)
			}
			switch {
			case rec.Kind == record.Begin:
				open[rec.Session] = true
			case !open[rec.Session]:
				t.Fatalf("%s: %s of a session that has not begun", kind, rec.Kind)
			case rec.Kind == record.End:
				delete(open, rec.Session)
			case rec.Kind == record.Execute && rec.Statement == 0 && l.at[n-1].step == nil:
				t.Errorf("%s: an execution of nothing", kind)
			}
		}
		if len(open) > 0 {
			t.Errorf("%s: %d sessions do not end", kind, len(open))
		}
		if first != "DROP DATABASE IF EXISTS `some``schema`" {
			t.Errorf("%s: first %s", kind, first)
		}
	}
}

// TestListed has a script's own allowances, and nothing else, explain a difference at its steps.
func TestListed(t *testing.T) {
	l, err := New("mysql", "s")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for i, at := range l.at {
		if at.step == nil || at.script.Name != "row-order-innodb" || at.step.Verb != compare.Query {
			continue
		}
		e := func(status string) *compare.Event {
			return &compare.Event{Step: at.step, Fields: nil}
		}
		d := compare.Difference{Server: "mysql", Strategy: "innodb", Path: "result[0].error.code", Direct: "1", Proxied: "2", DirectEvent: e("1"), ProxiedEvent: e("2")}
		if name, _ := l.Listed(i, &d); name != "" {
			t.Errorf("%s: an error is explained by %s", at.step, name)
		}
		asked++
	}
	if asked == 0 {
		t.Error("the script is not there")
	}
	if !l.Applies(0, "keep") {
		t.Error("what is around the scripts is compared everywhere")
	}
}
