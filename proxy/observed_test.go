package proxy

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"tmpproxy/advice"
	"tmpproxy/rewrite"
	"tmpproxy/session"
)

// observing is a policy under which what innodb would do is found out.
func observing() *session.Policy {
	convert, _ := rewrite.ParseEngineSet([]string{"MEMORY", "MyISAM"})
	p := &session.Policy{
		Strategy: session.StrategyNative, Convert: convert, MaxStatement: 64 << 10, MaxCreate: 16 << 10, MaxParked: 8, ParkTTL: 1 << 60, MaxAge: 1 << 60,
	}
	would := *p
	would.Strategy = session.StrategyInnoDB
	p.Observe = &would
	return p
}

// What the server and the client get is the same as under native, however the bytes are cut, and what would have been done is counted.
func TestObservedEverySplit(t *testing.T) {
	var first string
	for i, chunk := range []int{1 << 20, 1, 2, 3, 5, 7, 11, 13, 100} {
		transcripts := [2]string{}
		for j, observed := range []bool{false, true} {
			s := newFakeServer(testCaps)
			r := loggedIn(t, s, session.StrategyNative, chunk)
			if observed {
				r.c.sh.setPolicy(observing())
			}
			var got strings.Builder
			mark := len(s.log)
			for range 5 {
				for _, sql := range []string{create, insert, "SELECT * FROM t", drop} {
					got.Write(r.client(query(sql)))
				}
			}
			r.c.unobserve()
			transcripts[j] = got.String() + strings.Join(s.log[mark:], "\n")
			counts := r.c.sh.observed.Counts()
			if !observed {
				if len(counts) != 0 {
					t.Errorf("native: %+v", counts)
				}
				continue
			}
			if len(counts) != 1 || counts[0].Cycles != 5 || counts[0].Reuses != 3 || counts[0].Names != 1 || counts[0].Sessions != 1 || counts[0].Engine != "MEMORY" ||
				counts[0].Keep != "eligible" || counts[0].Convert != "eligible" || counts[0].Answered.Count != 7 {
				t.Errorf("chunk %d: %+v", chunk, counts)
			}
			if shapes := r.c.sh.ledger.Shapes(); len(shapes) != 0 {
				t.Errorf("chunk %d: counted as done: %+v", chunk, shapes)
			}
		}
		if transcripts[0] != transcripts[1] {
			t.Errorf("chunk %d: differs from native:\n%s\nnative\n%s", chunk, transcripts[1], transcripts[0])
		}
		if i == 0 {
			first = transcripts[0]
		} else if first != transcripts[0] {
			t.Errorf("chunk %d: differs from whole packets", chunk)
		}
	}
}

// A session whose observation panics goes on, unobserved.
func TestObservationPanics(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyNative, 1<<20)
	r.c.sh.setPolicy(observing())
	for _, broken := range []func(){
		func() { r.c.observer = &session.Observer{} },
		func() {},
	} {
		broken()
		mark := len(s.log)
		if got := r.client(query(create)); len(got) == 0 || got[4] != 0 || len(s.log) != mark+1 {
			t.Errorf("answered %q, sent %q", got, s.log[mark:])
		}
		if r.c.observer != nil {
			t.Error("observed")
		}
	}
	r.c.unobserve()
	r.c.observer = &session.Observer{}
	r.c.unobserve()
}

// A reload ends the observation and what was told stays; another one begins it again.
func TestObserveReload(t *testing.T) {
	r := loggedIn(t, newFakeServer(testCaps), session.StrategyNative, 1<<20)
	sh := r.c.sh
	cycle := func() {
		for _, sql := range []string{create, insert, drop} {
			r.client(query(sql))
		}
	}
	policies := []*session.Policy{observing(), {Strategy: session.StrategyNative}, observing()}
	for i, want := range []int64{1, 1, 2} {
		sh.setPolicy(policies[i])
		cycle()
		if got := sh.observed.Counts(); len(got) != 1 || got[0].Cycles != want {
			t.Errorf("after policy %d: %+v", i, got)
		}
		if (r.c.observer != nil) != (policies[i].Observe != nil) {
			t.Errorf("policy %d: observer %v", i, r.c.observer)
		}
	}
	if got := sh.observed.Counts()[0].Sessions; got != 2 {
		t.Errorf("%d sessions", got) // the one is begun anew
	}
}

// What is kept of shapes and names is bounded, whatever sessions do.
func TestObservedBounds(t *testing.T) {
	m := newMetrics()
	o := newObserved(newLedger(newJournal(zap.NewNop()), m, monotonic))
	for i := range 3 * maxShapes {
		o.Observe(&session.Observation{Shape: fmt.Sprint(i), Cycles: 1, Name: session.Key{Name: "t"}})
		o.Note(session.Note{Kind: session.NoteTaint, Shape: fmt.Sprint("tainted", i), Reason: "opaque"})
	}
	if n := len(o.shapes.young) + len(o.shapes.old); n > maxShapes {
		t.Errorf("%d shapes", n)
	}
	for i := range 10 * maxObservedNames {
		o.Observe(&session.Observation{Shape: "s", Cycles: 1, Name: session.Key{Name: fmt.Sprint("t", i)}})
	}
	s, _ := o.shapes.get("s", 1)
	if len(s.names) > maxObservedNames || s.newNames != 10*maxObservedNames {
		t.Errorf("%d names, %d new", len(s.names), s.newNames)
	}
}

// CREATEs of no known shape are counted by reason.
func TestObservedUnread(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyNative, 1<<20)
	r.c.sh.setPolicy(observing())
	r.client(query(create + "; " + drop))
	if n := r.c.sh.observed.unread["multi"]; n != 1 {
		t.Errorf("%d packets: %v", n, r.c.sh.observed.unread)
	}
}

// TestCountsStay has counts stay as they were when sessions go on.
func TestCountsStay(t *testing.T) {
	o := newShared(&session.Policy{}, newJournal(zap.NewNop())).observed
	seen := session.Observation{Shape: "CREATE TEMPORARY TABLE (a INT)", Cycles: 1}
	seen.Gaps[3] = 1
	o.Observe(&seen)
	before := o.Counts()
	o.Observe(&seen)
	if len(before) != 1 || before[0].Gaps[3] != 1 || o.Counts()[0].Gaps[3] != 2 {
		t.Errorf("before %+v", before)
	}
}

// The way through the proxy takes some time, and not much; where the monitor account does not help, bytes do.
func TestMeasureHop(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, driver := range []string{"", "pump"} {
		for _, m := range []*Monitor{nil, {Address: "127.0.0.1:1", User: "nobody", Timeout: time.Second}} {
			a := measureHop(driver, m)
			if a.HopBy != advice.ByEcho || a.Hop < 0 || a.Hop > 1 {
				t.Errorf("%q: %+v", driver, a)
			}
			t.Logf("%q: %.1f µs", driver, a.Hop*1e6)
		}
	}
	if after := runtime.NumGoroutine(); after > before+4 {
		t.Errorf("%d goroutines, %d before", after, before)
	}
	var h hop
	one := h.measure("pump", nil)
	at := h.at
	if two := h.measure("pump", nil); one != two || h.at != at {
		t.Error("measured again at once")
	}
}

// The advice of a server that has observed nothing says so.
func TestAdviceOfNothing(t *testing.T) {
	s, err := NewServer(zap.NewNop(), Options{Listen: []string{"127.0.0.1:0"}, Backends: []string{"127.0.0.1:1"}, Policy: observing()})
	if err != nil {
		t.Fatal(err)
	}
	var r advice.Report = s.Advice()
	if !r.Observing || r.Sessions != 0 || r.Sentence != "no session was observed" || r.Seconds <= 0 {
		t.Errorf("%+v", r)
	}
}
