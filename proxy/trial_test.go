package proxy

import (
	"fmt"
	"strings"
	"testing"

	"tmpproxy/session"
	"tmpproxy/wire"
)

// fakeTrial treats every session by a strategy and writes down what it is told.
type fakeTrial struct {
	strategy session.Strategy
	told     []string
}

type fakeParticipant struct {
	t *fakeTrial
	p *session.Policy
}

func (t *fakeTrial) Enrol(user, schema, host string, now int64) Participant {
	t.told = append(t.told, fmt.Sprintf("enrol %s %s %q", user, schema, host))
	return &fakeParticipant{t: t}
}

func (p *fakeParticipant) Policy(base *session.Policy, now int64) *session.Policy {
	if p.p == nil {
		c := *base
		c.Strategy, c.Measure = p.t.strategy, true
		p.p = &c
	}
	return p.p
}

func (p *fakeParticipant) Statement(ns int64, failed bool) {
	p.t.told = append(p.t.told, fmt.Sprintf("statement failed=%v took=%v", failed, ns > 0))
}

func (p *fakeParticipant) Cycle(c *session.Cycle) {
	p.t.told = append(p.t.told, fmt.Sprintf("cycle %s reused=%v statements=%d rows=%d took=%v", strategyNames[c.Strategy], c.Reused, c.Statements, c.Affected, c.Create > 0 && c.Drop > 0))
}

func (p *fakeParticipant) Arm() string { return strategyNames[p.t.strategy] }

func (p *fakeParticipant) End() { p.t.told = append(p.t.told, "end") }

// A session becomes part of a trial with the next command after it begins, is treated as the trial says, and stops being part of it.
func TestTrial(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyKeep, 1<<20)
	cycle := func() (sent []string) {
		mark := len(s.log)
		r.client(query(create))
		r.client(query(insert))
		r.client(query(drop))
		return queries(s, mark)
	}
	for range 3 {
		cycle()
	}
	arm := func(want string) {
		t.Helper()
		var i SessionInfo
		if r.c.describe(&i); i.Arm != want {
			t.Errorf("in arm %q instead of %q", i.Arm, want)
		}
	}
	arm("")
	trial := &fakeTrial{strategy: session.StrategyNative}
	r.c.sh.setTrial(trial)
	arm("")
	if sent := strings.Join(cycle(), "; "); !strings.Contains(sent, create) || !strings.Contains(sent, drop) || strings.Contains(sent, "TRUNCATE") {
		t.Errorf("an arm that is native: %s", sent)
	}
	s.answer = func(string) []byte { return fail(1146, "no such table") }
	r.client(query("INSERT INTO nothing VALUES (1)"))
	s.answer = nil
	arm("native")
	r.c.sh.setTrial(nil)
	arm("")
	cycle()
	second := &fakeTrial{strategy: session.StrategyKeep}
	r.c.sh.setTrial(second)
	arm("")
	cycle()
	arm("keep")
	cycle()
	r.client(command(wire.ComPing, ""))
	r.c.gone()
	r.c.gone()
	if got, want := strings.Join(trial.told, "\n"), strings.TrimSpace(`
enrol user db ""
statement failed=false took=true
statement failed=false took=true
cycle native reused=false statements=1 rows=0 took=true
statement failed=false took=true
statement failed=true took=true`); got != want {
		t.Errorf("the first trial was told\n%s\nwant\n%s", got, want)
	}
	if got, want := strings.Join(second.told, "\n"), strings.TrimSpace(`
enrol user db ""
statement failed=false took=true
statement failed=false took=true
cycle keep reused=true statements=1 rows=0 took=true
statement failed=false took=true
statement failed=false took=true
statement failed=false took=true
cycle keep reused=true statements=1 rows=0 took=true
statement failed=false took=true
end`); got != want {
		t.Errorf("the second trial was told\n%s\nwant\n%s", got, want)
	}
}
