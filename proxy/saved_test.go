package proxy

import (
	"math"
	"testing"

	"tmpproxy/session"
)

func timing(count int64, seconds float64) Timing { return Timing{Count: count, Seconds: seconds} }

func TestSaved(t *testing.T) {
	for _, test := range []struct {
		name    string
		info    ShapeInfo
		against string // "": no estimate
		seconds float64
	}{
		{"nothing happened", ShapeInfo{}, "", 0},
		{"nothing was answered here", ShapeInfo{Server: CycleEnds{timing(9, 9), timing(9, 9)}}, "", 0},
		{"nothing to compare with", ShapeInfo{Local: CycleEnds{timing(9, 1), timing(9, 1)}, Spliced: timing(1, 1)}, "", 0},
		{"no CREATE to compare with", ShapeInfo{Local: CycleEnds{timing(9, 1), timing(9, 1)}, Server: CycleEnds{Drop: timing(1, 1)}}, "", 0},
		// 10 × 0.5 - 1 and 10 × 0.2 - 0.5; what was spliced does not count beside the client's own.
		{"native", ShapeInfo{Local: CycleEnds{timing(10, 1), timing(10, 0.5)}, Server: CycleEnds{timing(4, 2), timing(5, 1)}, Spliced: timing(2, 9)}, "native", 5.5},
		{"spliced", ShapeInfo{Local: CycleEnds{timing(10, 1), timing(10, 0.5)}, Server: CycleEnds{Drop: timing(5, 1)}, Spliced: timing(2, 2)}, "spliced", 10.5},
		{"a loss", ShapeInfo{Local: CycleEnds{timing(10, 7), timing(10, 0.5)}, Server: CycleEnds{timing(4, 2), timing(5, 1)}}, "native", -0.5},
		{"only DROPs", ShapeInfo{Local: CycleEnds{Drop: timing(10, 0.5)}, Server: CycleEnds{timing(4, 2), timing(5, 1)}}, "native", 1.5},
	} {
		t.Run(test.name, func(t *testing.T) {
			switch got := test.info.saved(); {
			case got == nil && test.against == "":
			case got == nil || got.Against != test.against || math.Abs(got.Seconds-test.seconds) > 1e-9:
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestWhoAnswered has the ends of cycles counted by who answered them.
func TestWhoAnswered(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyInnoDB, 1<<20)
	for range 5 {
		for _, sql := range []string{create, insert, drop} {
			r.client(query(sql))
			r.settle()
		}
	}
	list := r.c.sh.ledger.Shapes()
	if len(list) != 1 {
		t.Fatalf("%d shapes", len(list))
	}
	i := list[0]
	// The first DROP is the client's own; the CREATEs of the first two cycles are sent, converted.
	if i.Local.Create.Count != 3 || i.Local.Drop.Count != 4 || i.Server.Create.Count != 0 || i.Server.Drop.Count != 1 || i.Spliced.Count != 2 {
		t.Errorf("local %+v, server %+v, spliced %+v", i.Local, i.Server, i.Spliced)
	}
	if i.Create.Count != 5 || i.Drop.Count != 5 {
		t.Errorf("as the client saw them: %+v %+v", i.Create, i.Drop)
	}
	if i.Saved == nil || i.Saved.Against != "spliced" {
		t.Errorf("saved %+v", i.Saved)
	}

	// A CREATE that InnoDB would refuse goes to the server as it is.
	s2 := newFakeServer(testCaps)
	r = loggedIn(t, s2, session.StrategyInnoDB, 1<<20)
	r.client(query("CREATE TEMPORARY TABLE t (a INT PRIMARY KEY) ENGINE=MERGE"))
	r.client(query(drop))
	list = r.c.sh.ledger.Shapes()
	if len(list) != 1 || list[0].Server.Create.Count != 1 || list[0].Spliced.Count != 0 || list[0].Local != (CycleEnds{}) || list[0].Saved != nil {
		t.Errorf("left to the server: %+v", list)
	}
}
