//go:build realserver && soak

package drivers

import (
	"context"
	"flag"
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

var (
	soak    = flag.Duration("soak.for", time.Hour, "how long the programs go on")
	servers = flag.String("soak.servers", "mysql,mariadb", "servers, separated by commas")
)

// The gauges of a proxy that must not grow, and how much they may: what a garbage collector has not yet come to, what is open because a
// session of the program before has not ended yet.
var gauges = []struct {
	name string
	more float64 // than before, in parts
	room float64
}{
	{"process_resident_memory_bytes", 0.2, 8 << 20},
	{"go_goroutines", 0, 3},
	{"process_open_fds", 0, 6},
}

// soaked is a proxy that all programs go through, again and again, and what was seen of it.
type soaked struct {
	*process.Process
	strategy string
	samples  [][]float64 // of each gauge, one behind each program
	runs     int
}

// sample notes the gauges once the program's sessions have ended.
func (p *soaked) sample(t *testing.T) {
	t.Helper()
	var page string
	for deadline := time.Now().Add(timeout); ; time.Sleep(20 * time.Millisecond) {
		var err error
		if page, err = p.Get("/metrics"); err != nil {
			t.Fatal(err)
		}
		if gauge(t, page, "tmpproxy_sessions") == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: sessions that no program has any more:\n%s", p.strategy, page)
		}
	}
	for i, g := range gauges {
		p.samples[i] = append(p.samples[i], gauge(t, page, g.name))
	}
}

func gauge(t *testing.T, page, name string) float64 {
	t.Helper()
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("no metric %s in\n%s", name, page)
	return 0
}

// grown compares the last quarter of the samples with the second: the first is for warming up.
func (p *soaked) grown(t *testing.T) {
	t.Helper()
	n := len(p.samples[0]) / 4
	if n < len(programs) {
		t.Errorf("%s: only %d programs in a quarter of the time, there are %d: it was too short", p.strategy, n, len(programs))
		return
	}
	for i, g := range gauges {
		before, after := median(p.samples[i][n:2*n]), median(p.samples[i][3*n:])
		t.Logf("%s: %s %.0f in the second quarter, %.0f in the last", p.strategy, g.name, before, after)
		if after > before*(1+g.more)+g.room {
			t.Errorf("%s: %s has grown from %.0f to %.0f", p.strategy, g.name, before, after)
		}
	}
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// TestSoak runs all programs in ever new orders through proxies that stay, one of each strategy, until the time is over. What each
// prints has to be what it has printed directly, tables have to be reused, and the proxies must not grow.
func TestSoak(t *testing.T) {
	*all, process.Race = true, false
	var kinds []server.Kind
	for _, name := range strings.Split(*servers, ",") {
		kinds = append(kinds, server.Kind(name))
	}
	end := time.Now().Add(*soak)
	eachBench(t, kinds, func(t *testing.T, b *bench) {
		want, facts := map[string][]string{}, map[string]map[string]string{}
		for range 2 { // one lists the tables of all databases, and finds them all the second time
			for _, p := range programs {
				want[p.name], facts[p.name] = b.transcript(t, &p, b.Address, "direct")
			}
		}
		var proxies []*soaked
		for _, strategy := range []string{"native", "keep", "innodb", "auto"} {
			p, err := process.Start(context.Background(), b.Address, "TMPPROXY_REWRITE_STRATEGY="+strategy)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := p.Stop(); err != nil {
					t.Error(err)
				}
			})
			proxies = append(proxies, &soaked{Process: p, strategy: strategy, samples: make([][]float64, len(gauges))})
		}
		for round := int64(1); time.Now().Before(end) && !t.Failed(); round++ {
			order := rand.New(rand.NewSource(round)).Perm(len(programs))
			for _, i := range order {
				for _, proxy := range proxies {
					p := &programs[i]
					got, found := b.transcript(t, p, proxy.Address, fmt.Sprint(proxy.strategy, ", round ", round))
					same(t, want[p.name], got)
					if proxy.strategy != "auto" { // which may leave a shape to the server
						reuse(t, facts[p.name], found, proxy.strategy)
					}
					proxy.sample(t)
					proxy.runs++
				}
			}
		}
		for _, p := range proxies {
			t.Logf("%s: %d programs", p.strategy, p.runs)
			p.grown(t)
		}
	})
}
