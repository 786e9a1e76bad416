//go:build realserver

package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"tmpproxy/admin"
	"tmpproxy/proxy"
	"tmpproxy/testbed/relay"
	"tmpproxy/trial"
)

const token = "a-token-for-the-tests"

// object is JSON that is written out here.
type object = map[string]any

// fake is an admin server whose figures are made up and whose changes are remembered.
type fake struct {
	t      *testing.T
	server *admin.Server
	host   string

	mu       sync.Mutex
	native   bool
	cycles   int64
	shapes   []proxy.ShapeInfo
	sessions []object
	trial    trial.Report
	told     []string // changes that were asked for
}

// began is when the made-up proxy and its trial began.
var began = time.Now().Add(-3 * time.Hour)

// newFake serves on a loopback port, or, where token is empty and socket is set, on a unix socket to which that port leads.
func newFake(t *testing.T, token string, socket bool) *fake {
	f := &fake{t: t, cycles: 12900, shapes: madeUpShapes(), sessions: madeUpSessions(), trial: trial.Report{State: trial.StateNone}}
	o := admin.Options{
		Network: "tcp", Address: "127.0.0.1:0", Token: token, Metrics: prometheus.NewRegistry(), Ready: func(context.Context) error { return nil },
		Pages: map[string]func() any{
			"/api/status":   func() any { return f.status() },
			"/api/shapes":   func() any { f.mu.Lock(); defer f.mu.Unlock(); return append([]proxy.ShapeInfo{}, f.shapes...) },
			"/api/sessions": func() any { f.mu.Lock(); defer f.mu.Unlock(); return append([]object{}, f.sessions...) },
			"/api/trial":    func() any { f.mu.Lock(); defer f.mu.Unlock(); return f.trial },
			"/api/advice":   func() any { return madeUpAdvice() },
		},
		Actions: map[string]admin.Action{
			"/api/strategy":     f.strategy,
			"/api/trial/start":  f.start,
			"/api/trial/change": f.change,
			"/api/trial/stop":   f.stop,
		},
	}
	if socket {
		o.Network, o.Address = "unix", filepath.Join(t.TempDir(), "admin.sock")
	}
	f.server = admin.New(zap.NewNop(), o)
	if err := f.server.Listen(); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- f.server.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := f.server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	f.host = f.server.Addr().String()
	if socket {
		l, err := relay.Start(relay.To("unix", o.Address), nil) // as ssh -L does
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		f.host = l.Addr().String()
	}
	return f
}

func (f *fake) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// asked are the changes that were asked for so far.
func (f *fake) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.told...)
}

func (f *fake) strategyStatus() object {
	s := object{"configured": "innodb", "in_force": "innodb", "switched": f.native, "since": began}
	if f.native {
		s["in_force"] = "native"
	}
	return s
}

func (f *fake) status() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	saved := 0.0
	for _, s := range f.shapes {
		if s.Saved != nil {
			saved += s.Saved.Seconds
		}
	}
	return object{
		"version": "v1.2.3", "started": began, "uptime_seconds": time.Since(began).Seconds(), "draining": false, "sessions": len(f.sessions),
		"strategy": f.strategyStatus(), "changes": f.server.Changes(),
		"totals": object{"cycles": f.cycles, "reuses": f.cycles * 96 / 100, "saved_seconds": saved},
	}
}

func (f *fake) strategy(_ context.Context, body json.RawMessage) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, "strategy "+string(body))
	var r struct{ Strategy string }
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	f.native = r.Strategy == "native"
	return f.strategyStatus(), nil
}

func (f *fake) start(_ context.Context, body json.RawMessage) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, "start "+string(body))
	var s trial.Spec
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, err
	}
	if s.Name == "taken" {
		return nil, errors.New("there are results of a trial of that name")
	}
	f.trial = madeUpTrial(s)
	return f.trial, nil
}

func (f *fake) change(_ context.Context, body json.RawMessage) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, "change "+string(body))
	var c trial.Change
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	for i := range f.trial.Arms {
		f.trial.Arms[i].Weight = c.Weights[f.trial.Arms[i].Name]
	}
	return f.trial, nil
}

func (f *fake) stop(_ context.Context, body json.RawMessage) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, "stop "+string(body))
	now := time.Now()
	f.trial.State, f.trial.Stopped = trial.StateStopped, &now
	return f.trial, nil
}

func madeUpShapes() []proxy.ShapeInfo {
	timing := func(n int64, seconds float64) proxy.Timing {
		return proxy.Timing{Count: n, Seconds: float64(n) * seconds}
	}
	return []proxy.ShapeInfo{
		{
			Shape:  "CREATE TEMPORARY TABLE (id INT NOT NULL, amount DECIMAL(10,2), PRIMARY KEY (id)) ENGINE=MEMORY",
			Cycles: 9000, Reuses: 8890, Parks: 8960, Settles: 14, Local: proxy.CycleEnds{Create: timing(8890, 40e-6), Drop: timing(8960, 35e-6)},
			Server: proxy.CycleEnds{Drop: timing(40, 130e-6)}, Spliced: timing(110, 410e-6), Reset: timing(8960, 170e-6),
			Saved: &proxy.Saved{Seconds: 4.14, Against: "spliced"}, Hazards: map[string]int64{"rollback": 3},
		},
		{
			Shape: "CREATE TEMPORARY TABLE (zoid BIGINT UNSIGNED NOT NULL PRIMARY KEY, prev_tid BIGINT UNSIGNED NOT NULL, md5 CHAR(32) CHARACTER SET ascii COLLATE ascii_bin, " +
				"state LONGBLOB, a_column_with_a_very_long_name_that_does_not_break_" + "anywhere_at_all INT) ENGINE MyISAM",
			Cycles: 3200, Reuses: 3100, Parks: 3150, Local: proxy.CycleEnds{Create: timing(3100, 42e-6), Drop: timing(3150, 36e-6)},
			Server: proxy.CycleEnds{Create: timing(60, 500e-6), Drop: timing(50, 220e-6)}, Saved: &proxy.Saved{Seconds: 130.2, Against: "native"},
		},
		{
			Shape: `CREATE TEMPORARY TABLE (a VARCHAR(99) DEFAULT '<img src=x onerror="document.title=1">') ENGINE=MEMORY`, Cycles: 500, Reuses: 20,
			Native: true, Fallbacks: map[string]int64{"shape_native": 412, "exists": 3}, Saved: &proxy.Saved{Seconds: -0.02, Against: "native"},
		},
		{Shape: "CREATE TEMPORARY TABLE AS SELECT", Fallbacks: map[string]int64{"as_select": 200}},
	}
}

func madeUpSessions() []object {
	var all []object
	for i := range 37 {
		all = append(all, object{"id": i + 1, "client": "10.0.0.17:5" + string(rune('0'+i%10)) + "112", "since": began.Add(time.Duration(i) * time.Minute), "logged_in": true,
			"thread_id": 1000 + i, "live": i % 3, "parked": i % 5, "in_transaction": i%4 == 0, "raw": false})
	}
	return all
}

func madeUpAdvice() any {
	return object{
		"observing": true, "seconds": 5400, "sessions": 212, "saved": 0.12, "cost": 0.03, "more": 0,
		"sentence": "Caching would save 12 % of the time that clients wait, and cost 3 % of it.",
		"notes":    []string{"The reset of a table is taken for as long as its CREATE and DROP together, times 0.6."},
		"shapes": []object{
			{"shape": madeUpShapes()[0].Shape, "choice": "keep", "sentence": "412 cycles per session, 38 % of their time in CREATE and DROP: keep would take 21 % off.", "cycles": 87344,
				"sessions": 212, "cycles_per_session": 412.0, "ddl": 0.38, "names": 3, "rows": 870000, "break_even": 22.5, "unordered": 12, "rolled_back": 0, "deadlocks": 0,
				"failed_writes": 0, "transactions": 87344, "as_kept": object{"gain": 240e-6, "part": 0.21}, "as_innodb": object{"gain": 180e-6, "part": 0.16}},
			{"shape": madeUpShapes()[1].Shape, "choice": "none", "sentence": "1.2 cycles per session: no gain to expect.", "cycles": 140, "sessions": 117, "cycles_per_session": 1.2,
				"ddl": 0.02, "names": 117, "rows": 0, "break_even": 0, "unordered": 0, "rolled_back": 0, "deadlocks": 0, "failed_writes": 0, "transactions": 0},
		},
	}
}

// madeUpTrial is what a trial might have found: the second arm is faster than the first, the others are not told apart from it.
func madeUpTrial(spec trial.Spec) trial.Report {
	started := time.Now().Add(-20 * time.Minute)
	r := trial.Report{Name: spec.Name, State: trial.StateRunning, Started: &started, Assignment: spec.Assignment, Guardrail: 0.2, Control: spec.Arms[0].Name}
	high := func(v float64) *float64 { return &v }
	for i, a := range spec.Arms {
		faster := 1.0
		if i == 1 {
			faster = 0.78
		}
		r.Arms = append(r.Arms, trial.ArmReport{Name: a.Name, Strategy: a.Strategy, Reset: "truncate", Weight: a.Weight, Sessions: 640, Cycles: 12800, Errors: int64(i),
			Statements: trial.Latency{Count: 90000, Median: 210e-6 * faster, P99: 2.4e-3}})
		arm := trial.ShapeArm{Arm: a.Name, Cycles: 12800, Sessions: 640, Median: 1.2e-3 * faster, P99: 6e-3, Create: 380e-6 * faster * faster, Drop: 190e-6 * faster * faster,
			Statements: 600e-6, Reset: 180e-6, Reused: int64(12700 * i / max(i, 1)), Histogram: bell(1.2e-3*faster, 12800)}
		r.Overall.Arms = append(r.Overall.Arms, arm)
		if i == 0 {
			continue
		}
		v := trial.Verdict{Arm: a.Name, Against: r.Control, Ratio: faster, Low: faster - 0.04, High: high(faster + 0.05), Sessions: 1280,
			Words: "No difference was found: between 4 % less and 5 % more time for a cycle."}
		if i == 1 {
			v.Words = "A cycle takes 17 to 26 % less time than under native."
		}
		r.Overall.Verdicts = append(r.Overall.Verdicts, v)
		for k := range 40 {
			half := 0.05 + 0.9/float64(k+1)
			r.History = append(r.History, trial.Point{At: started.Add(time.Duration(k+1) * 30 * time.Second), Arm: a.Name, Against: r.Control,
				Ratio: faster + 0.1*math.Sin(float64(k+i))/float64(k+1), Low: max(0, faster-half), High: faster + half})
		}
	}
	r.Shapes = []trial.ShapeReport{{Shape: madeUpShapes()[0].Shape, Arms: r.Overall.Arms, Verdicts: r.Overall.Verdicts}}
	return r
}

// bell is a histogram of n times around a median.
func bell(median float64, n int64) (h [][2]float64) {
	for k := -60; k <= 90; k++ {
		bound := median * math.Pow(1.04, float64(k))
		width := 11.0
		if k > 0 {
			width = 20
		}
		if c := math.Round(float64(n) / 40 * math.Exp(-float64(k*k)/(2*width*width))); c > 0 {
			h = append(h, [2]float64{bound, c})
		}
	}
	return h
}
