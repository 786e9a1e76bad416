package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// A fake player takes no time and says what it is told to.
type fake struct {
	name   string
	log    *[]string
	value  func(round int) float64
	rounds int
	fail   error
}

func (f *fake) turn(d time.Duration) (turn, error) {
	*f.log = append(*f.log, f.name)
	f.rounds++
	return turn{statements: 1, values: map[string]float64{"rate": f.value(f.rounds)}}, f.fail
}

func (f *fake) close() { *f.log = append(*f.log, "close "+f.name) }

func fakePlan(log *[]string, fail error) *plan {
	return &plan{
		cell: &Cell{Workload: "selects", Metrics: []Metric{{Key: "rate", Unit: PerSecond, Higher: true}}},
		arms: []string{direct, "keep", "innodb"}, bare: true,
		open: func(w way, number int) (player, error) {
			*log = append(*log, "open "+w.name)
			f := &fake{name: w.name, log: log, value: func(round int) float64 { return float64(round * (number + 1)) }}
			if w.name == "innodb" {
				f.fail = fail
			}
			return f, nil
		},
	}
}

// TestRun rounds: all arms in every round, results in the order of rounds, ratios by round.
func TestRunRounds(t *testing.T) {
	var log []string
	p := fakePlan(&log, nil)
	b := &bench{ctx: context.Background(), options: &Options{Rounds: 4, Inform: 4, Turn: time.Second}}
	if err := b.run(p); err != nil {
		t.Fatal(err)
	}
	want := []string{"open direct", "open keep", "open innodb",
		"direct", "keep", "innodb", "innodb", "keep", "direct", "keep", "innodb", "direct", "direct", "innodb", "keep",
		"close direct", "close keep", "close innodb"}
	if !slices.Equal(log, want) {
		t.Errorf("got %q, want %q", log, want)
	}
	for i, name := range p.arms {
		r := p.cell.arm(name).Results["rate"]
		factor := float64(i + 1)
		if !slices.Equal(r.Rounds, []float64{factor, 2 * factor, 3 * factor, 4 * factor}) || r.Median != 2.5*factor {
			t.Errorf("%s: %+v", name, r)
		}
		if i == 0 != (r.Ratio == nil) || r.Ratio != nil && r.Ratio.Value != factor {
			t.Errorf("%s: ratio %+v", name, r.Ratio)
		}
	}
	if interval, ok := p.cell.ratio("rate", "innodb", "keep"); !ok || interval.Value != 1.5 {
		t.Errorf("innodb to keep: %+v", interval)
	}
	if _, ok := p.cell.ratio("rate", "innodb", haproxy); ok {
		t.Error("a ratio to an arm that is not there")
	}
	if _, ok := p.cell.ratio("p99", "innodb", "keep"); ok {
		t.Error("a ratio of what was not measured")
	}
}

// TestRunRests has an arm rest when no target asks for it any more, and the others with it when none does. The goals are those of point
// selects by one connection: as many as HAProxy's, in no more time for the slowest of a hundred, and as many as MySQL Router's.
func TestRunRests(t *testing.T) {
	for _, test := range []struct {
		name  string
		rates map[string]func(round int) float64
		want  map[string]int // rounds
	}{
		{"all clear", map[string]func(int) float64{"innodb": steady(120), haproxy: steady(100), router: steady(90)},
			map[string]int{direct: 5, "innodb": 7, haproxy: 7, router: 7}},
		{"one in doubt", map[string]func(int) float64{"innodb": steady(100), haproxy: func(round int) float64 { return []float64{90, 110, 101}[round%3] }, router: steady(90)},
			map[string]int{direct: 5, "innodb": 20, haproxy: 20, router: 7}},
		{"clear behind some rounds", map[string]func(int) float64{"innodb": steady(100), haproxy: steady(90), router: func(round int) float64 { return []float64{50, 110}[min(round/5, 1)] }},
			map[string]int{direct: 5, "innodb": 17, haproxy: 7, router: 17}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log []string
			p := fakePlan(&log, nil)
			p.arms, p.cell.Parameters = []string{direct, "innodb", haproxy, router}, []Parameter{{"connections", "1"}}
			p.open = func(w way, _ int) (player, error) {
				value := test.rates[w.name]
				if value == nil {
					value = steady(1)
				}
				return &fake{name: w.name, log: &log, value: value}, nil
			}
			b := &bench{ctx: context.Background(), backend: &backend{}, options: &Options{Rounds: 20, Inform: 5, Turn: time.Second}}
			if err := b.run(p); err != nil {
				t.Fatal(err)
			}
			for name, want := range test.want {
				if got := len(p.cell.arm(name).Results["rate"].Rounds); got != want {
					t.Errorf("%s worked in %d rounds, want %d", name, got, want)
				}
			}
		})
	}
}

func steady(rate float64) func(int) float64 { return func(int) float64 { return rate } }

func TestRunFails(t *testing.T) {
	var log []string
	fault := errors.New("the table holds something else")
	b := &bench{ctx: context.Background(), options: &Options{Rounds: 4, Inform: 4, Turn: time.Second}}
	err := b.run(fakePlan(&log, fault))
	if !errors.Is(err, fault) || !strings.HasPrefix(err.Error(), "innodb: ") {
		t.Errorf("got %v", err)
	}
	if got := log[len(log)-3:]; !slices.Equal(got, []string{"close direct", "close keep", "close innodb"}) {
		t.Errorf("not everything is closed: %q", log)
	}
}

// TestProcess starts programs that do not do as they should.
func TestProcess(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	_, err := start(ctx, dir, "a name", exec.Command("sh", "-c", "echo what is wrong; exit 3"), func(context.Context, *process) error { return errors.New("not yet") })
	if err == nil || !strings.Contains(err.Error(), "what is wrong") || !strings.Contains(err.Error(), "ended before it was ready") {
		t.Errorf("a program that ends: %v", err)
	}
	if _, err := start(ctx, dir, "none", exec.Command(dir+"/none"), nil); err == nil {
		t.Error("a program that is not there was started")
	}
	// One that works for a while, and one that does not end when it is asked to.
	p, err := start(ctx, dir, "busy", exec.Command("sh", "-c", "trap '' TERM; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done; while :; do sleep 0.01; done"),
		func(_ context.Context, p *process) error {
			if !strings.Contains(p.tail(), "done") {
				return errors.New("not done")
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if took, err := p.time(); err != nil || took < time.Millisecond || took > time.Minute {
		t.Errorf("it has used a processor for %v, %v", took, err)
	}
	if bytes, err := p.resident(); err != nil || bytes < 100<<10 || bytes > 1<<30 {
		t.Errorf("it has %d bytes in memory, %v", bytes, err)
	}
	if err := p.running(); err != nil {
		t.Errorf("it runs: %v", err)
	}
	p.grace = time.Millisecond
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if err := p.running(); err == nil {
		t.Error("it still runs")
	}
}

func TestValidate(t *testing.T) {
	for _, o := range []Options{Full(), Quick()} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
	for want, change := range map[string]func(*Options){
		`workloads: "sleep"`: func(o *Options) { o.Workloads = []string{"cycles", "sleep"} },
		`peers: "nginx"`:     func(o *Options) { o.Peers = []string{"nginx"} },
		`engines: "CSV"`:     func(o *Options) { o.Engines = []string{"CSV"} },
		"rows: -1":           func(o *Options) { o.Rows = []int{-1} },
		"selects: 0":         func(o *Options) { o.Selects = []int{0} },
		"rounds: 0":          func(o *Options) { o.Rounds = 0 },
		"inform: 0":          func(o *Options) { o.Inform = 0 },
		"for: -1s":           func(o *Options) { o.For = -time.Second },
		"turn: 0s":           func(o *Options) { o.Turn = 0 },
		"a result needs":     func(o *Options) { o.ResultBytes = 1 },
	} {
		o := Full()
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestPlans counts the cells of a full run: all combinations once, and only those.
func TestPlans(t *testing.T) {
	o := Full()
	o.Log = io.Discard
	b := &bench{options: &o, progress: newProgress(o.Log), report: &Report{}, backend: &backend{packet: 128 << 20, tls: true}, peers: map[string]peer{haproxy: {}, router: {}}}
	if limit, err := descriptorLimit(); err != nil || limit < 2*2000+reserved {
		o.Sessions = o.Sessions[:1] // the others are cut to the same
	}
	for workload, want := range map[string]int{
		// Rows of three engines, nearby; of one with every row count and two with half of them: with a think time, with the shorter round
		// trip with and without a statement between; half of the rows of three with the longer one, of one with a statement between; of one
		// with every row count and half of them with both think time and round trip.
		"cycles": 3*6 + (6 + 2*3) + 2*(6+2*3) + (3*3 + 3) + (6 + 3),
		// with six connections one size only
		"relstorage": 3 * 2 * (2 + 1), "selects": 3, "tls": 3, "result": 1, "connects": 1, "idle": len(o.Sessions), "idle-tls": 1, "blobs": 1,
	} {
		plans, err := planners[workload](b)
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]bool)
		for _, p := range plans {
			seen[describe(p.cell)] = true
		}
		if len(plans) != want || len(seen) != want {
			t.Errorf("%s: %d cells, %d different ones, want %d", workload, len(plans), len(seen), want)
		}
		first := fmt.Sprint(plans[0].arms)
		for arm, takesPart := range map[string]bool{"native": workload == "cycles" || workload == "relstorage",
			haproxy: !slices.Contains([]string{"cycles", "relstorage", "tls", "idle-tls"}, workload), router: workload != "cycles" && workload != "relstorage",
			echo: workload == "cycles", "innodb": true} {
			if strings.Contains(first, arm) != takesPart {
				t.Errorf("%s: arms %s", workload, first)
			}
		}
	}
}
