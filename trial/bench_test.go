package trial

import (
	"testing"
	"time"

	"tmpproxy/session"
)

// BenchmarkParticipant is what a trial costs: for each command of a session, and for each cycle.
func BenchmarkParticipant(b *testing.B) {
	start := func(b *testing.B) *Participant {
		arms, err := ParseArms([]string{"native", "keep"})
		if err != nil {
			b.Fatal(err)
		}
		t := &Trials{options: Options{random: func() float64 { return 0.9 }}}
		t.run = t.newRun(newResults(Spec{Name: "x", Arms: arms, Assignment: AssignRandom}, time.Time{}))
		p := t.Enrol("u", "s", "h", 1)
		p.Policy(base, 1)
		return p
	}
	b.Run("command", func(b *testing.B) {
		p := start(b)
		for i := range b.N {
			p.Policy(base, 2)
			p.Statement(int64(100_000+i%1000), false)
		}
	})
	b.Run("cycle", func(b *testing.B) {
		p := start(b)
		for i := range b.N {
			p.Cycle(&session.Cycle{Shape: shape, Began: 2, Create: int64(100_000 + i%1000), Use: 50_000, Drop: 60_000})
		}
	})
}
