//go:build realserver

package tests

import (
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

// How much TestLoad and TestStorm ask of a proxy: `make test` is content with little.
var (
	loadFor    = flag.Duration("load.for", 2*time.Second, "how long sessions of TestLoad work")
	loadIdle   = flag.Int("load.idle", 100, "its sessions that do nothing")
	loadActive = flag.Int("load.active", 20, "its sessions that work")
	storm      = flag.Int("load.storm", 300, "connections of TestStorm")
	race       = flag.Bool("race", true, "the proxy is built with the race detector, with which it holds much more memory")
)

// stormAtOnce are connections of TestStorm at a time: more than the server takes.
const (
	stormAtOnce = 60
	stormTaken  = 40
)

// uses is what a proxy's process holds.
type uses struct{ resident, goroutines, descriptors float64 }

func usesOf(t testing.TB, p *process.Process) uses {
	t.Helper()
	page, err := p.Get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) float64 {
		for line := range strings.Lines(page) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
				if err != nil {
					t.Fatal(err)
				}
				return value
			}
		}
		t.Fatalf("no metric %s", name)
		return 0
	}
	return uses{read("process_resident_memory_bytes"), read("go_goroutines"), read("process_open_fds")}
}

// awaitUses waits until a proxy holds no more goroutines and descriptors than before, but for a few of the HTTP pages'.
func awaitUses(t testing.TB, p *process.Process, before uses) {
	t.Helper()
	var now uses
	defer func() {
		if t.Failed() {
			t.Logf("before %+v, now %+v", before, now)
		}
	}()
	await(t, "as many goroutines and descriptors as before", func() bool {
		now = usesOf(t, p)
		return now.goroutines <= before.goroutines+4 && now.descriptors <= before.descriptors+4
	})
}

// cycle is one of an application's, whose rows are checked. who is in them, so that no other session's could be taken for its own.
func cycle(c *rawclient.Conn, who, n int) error {
	want := fmt.Sprintf("%d of %d", n, who)
	for _, text := range []string{
		"CREATE TEMPORARY TABLE IF NOT EXISTS load_t (id INT PRIMARY KEY, v VARCHAR(40)) ENGINE=MEMORY",
		fmt.Sprintf("INSERT INTO load_t VALUES (1, '%s'), (2, 'x')", want),
		"SELECT v FROM load_t WHERE id = 1",
		"SELECT COUNT(*) FROM load_t",
		"DROP TEMPORARY TABLE load_t",
	} {
		reply, err := c.Query(text)
		if err == nil {
			err = reply.AsError()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		if !strings.HasPrefix(text, "SELECT") {
			continue
		}
		expected := want
		if strings.Contains(text, "COUNT") {
			expected = "2"
		}
		rows := reply.Results[0].Rows
		if len(rows) != 1 {
			return fmt.Errorf("%s: %d rows", text, len(rows))
		}
		values, err := rawclient.TextRow(rows[0])
		if err != nil {
			return err
		}
		if got := string(values[0]); got != expected {
			return fmt.Errorf("%s: %q, want %q", text, got, expected)
		}
	}
	return nil
}

// TestLoad has some sessions do cycles, in a rhythm of their own, while many do nothing. Every row is right, no session is lost, and the
// proxy holds no more at the end than it did when all were there.
func TestLoad(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind, fmt.Sprintf("--max-connections=%d", *loadIdle+*loadActive+20))
		database(t, s, "load_d")
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
				config := configure(s, p.Address, "load_d")
				must(t, connect(t, config), "DO 1") // the monitor's and the first session's own have been made
				before := usesOf(t, p)

				idle := make([]*rawclient.Conn, *loadIdle)
				for i := range idle {
					idle[i] = connect(t, config)
				}
				perSession := (usesOf(t, p).resident - before.resident) / float64(len(idle))
				var group sync.WaitGroup
				var cycles atomic.Int64
				end := time.Now().Add(*loadFor)
				for who := range *loadActive {
					c := connect(t, config)
					group.Go(func() {
						random := rand.New(rand.NewSource(int64(who)))
						for n := 0; time.Now().Before(end); n++ {
							if err := cycle(c, who, n); err != nil {
								t.Errorf("session %d, cycle %d: %v", who, n, err)
								return
							}
							cycles.Add(1)
							time.Sleep(time.Duration(random.Intn(20)) * time.Millisecond)
						}
						if err := c.Quit(); err != nil {
							t.Error(err)
						}
					})
				}
				var resident []float64
				for time.Now().Before(end) {
					resident = append(resident, usesOf(t, p).resident)
					time.Sleep(*loadFor / 40)
				}
				group.Wait()
				quarter := len(resident) / 4
				second, last := middle(resident[quarter:2*quarter]), middle(resident[3*quarter:])
				if last > second*1.2+16<<20 {
					t.Errorf("the proxy has grown from %.0f to %.0f bytes", second, last)
				}
				for _, c := range idle {
					must(t, c, "DO 1")
					if err := c.Quit(); err != nil {
						t.Fatal(err)
					}
				}
				awaitUses(t, p, before)
				if cycles.Load() < int64(*loadActive) {
					t.Errorf("%d cycles", cycles.Load())
				}
				t.Logf("%d idle sessions of %.0f bytes each, %d sessions with %d cycles in %v; %.1f MB resident in the second quarter, %.1f in the last",
					len(idle), perSession, *loadActive, cycles.Load(), *loadFor, second/1e6, last/1e6)
			})
		}
	})
}

func middle(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// TestStorm has connections come as fast as they can, more at once than the server takes: each is served, a cycle and all, or told the
// server's own refusal, none hangs, the server counts no error against the proxy's host, and nothing is left of them.
func TestStorm(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind, fmt.Sprintf("--max-connections=%d", stormTaken), "--performance-schema=ON", "--host-cache-size=128")
		database(t, s, "load_d")
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
				config := configure(s, p.Address, "load_d")
				if c, err := rawclient.Connect(config); err != nil {
					t.Fatal(err)
				} else if err := c.Quit(); err != nil {
					t.Fatal(err)
				}
				await(t, "no session is left", func() bool { return len(sessions(t, p)) == 0 })
				before := usesOf(t, p)
				var group sync.WaitGroup
				var served, refused atomic.Int64
				next := make(chan int, *storm)
				for who := range *storm {
					next <- who
				}
				close(next)
				began := time.Now()
				for range stormAtOnce {
					group.Go(func() {
						for who := range next {
							c, err := rawclient.Connect(config)
							refusal := (*rawclient.ServerError)(nil)
							switch {
							case errors.As(err, &refusal) && strings.HasPrefix(refusal.Error(), "ERR 1040 "):
								refused.Add(1)
								continue
							case err != nil:
								t.Errorf("connection %d: %v", who, err)
								continue
							}
							if err := errors.Join(cycle(c, who, 0), c.Quit()); err != nil {
								t.Errorf("connection %d: %v", who, err)
								continue
							}
							served.Add(1)
						}
					})
				}
				group.Wait()
				took := time.Since(began)
				if served.Load()+refused.Load() != int64(*storm) || served.Load() < int64(*storm)/10 {
					t.Errorf("of %d connections %d were served and %d refused", *storm, served.Load(), refused.Load())
				}
				if n := hostErrors(t, s); n != 0 {
					t.Errorf("%d errors are counted against the host", n)
				}
				awaitUses(t, p, before)
				t.Logf("%d connections in %v: %d served, %d refused by the server", *storm, took.Round(time.Millisecond), served.Load(), refused.Load())
			})
		}
	})
}
