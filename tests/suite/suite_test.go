//go:build realserver && suite

package suite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tmpproxy/tests/process"
)

var (
	all    = flag.Bool("suite.all", false, "run all files of the main suite, not only the listed ones")
	only   = flag.String("suite.files", "", "run only these files, separated by commas, in every strategy")
	ways   = flag.String("suite.ways", "", "run the files in these ways, separated by commas, instead of the listed ones")
	with   = flag.String("suite.strategies", "", "run the files in these strategies, separated by commas, instead of the listed ones")
	update = flag.Bool("suite.update", false, "write down the differences that are found, for somebody to explain them")
	keep   = flag.String("suite.outputs", "", "write what the runs print into this folder")
	report = flag.String("suite.report", "", "append a line on each file to this file")
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := process.Clean(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// rig is a bench with proxies in front of its server, two for each strategy: what clients say over TCP goes on over TCP,
// what they say over a unix socket over the server's unix socket. So full authentication works on both.
type rig struct {
	*Bench
	targets   map[string]Target
	processes map[string][]*process.Process
	fronts    []*Front
}

// settings make the proxy as busy as it can be: a name that is blocked, for instance because a file had a permanent table of
// that name, is taken again in the next file.
var settings = []string{"TMPPROXY_REWRITE_MAX_AGE=1s", "TMPPROXY_REWRITE_PARK_TTL=1s"}

func newRig(ctx context.Context) (*rig, error) {
	b, err := NewBench(ctx)
	if err != nil {
		return nil, err
	}
	r := &rig{Bench: b, targets: map[string]Target{}, processes: map[string][]*process.Process{}}
	for _, strategy := range Strategies {
		if err := r.start(ctx, strategy); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	// The proxies have asked the server whether it is there, and keep these connections for a while.
	if _, why, err := r.Reset(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", why, err), r.close())
	}
	return r, nil
}

func (r *rig) start(ctx context.Context, strategy string) error {
	target := Target{Socket: filepath.Join(r.Server.Dir, strategy+".sock"), Secure: filepath.Join(r.Server.Dir, strategy+".tls")}
	for _, side := range []struct {
		backend string
		more    []string
	}{
		{r.Server.Address, nil},
		{r.Server.Socket, []string{"TMPPROXY_LISTEN_ADDRESSES=" + target.Socket, "TMPPROXY_BACKEND_ALLOW_PEER_IDENTITY=true"}},
	} {
		p, err := process.Start(ctx, side.backend, slices.Concat(settings, side.more, []string{"TMPPROXY_REWRITE_STRATEGY=" + strategy})...)
		if err != nil {
			return err
		}
		r.processes[strategy] = append(r.processes[strategy], p)
	}
	_, port, err := net.SplitHostPort(r.processes[strategy][0].Address)
	if err != nil {
		return err
	}
	if target.Port, err = strconv.Atoi(port); err != nil {
		return err
	}
	front, err := NewFront(target.Secure, target.Socket)
	if err != nil {
		return err
	}
	r.fronts = append(r.fronts, front)
	r.targets[strategy] = target
	return nil
}

func (r *rig) close() error {
	var errs []error
	for _, f := range r.fronts {
		errs = append(errs, f.Close())
	}
	for _, list := range r.processes {
		for _, p := range list {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(append(errs, r.Bench.Close())...)
}

// counter sums up a counter of the strategy's proxies, whatever its labels.
func (r *rig) counter(t *testing.T, strategy, name string) (sum float64) {
	t.Helper()
	for _, p := range r.processes[strategy] {
		page, err := p.Get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines(page) {
			fields := strings.Fields(line)
			if len(fields) == 2 && (fields[0] == name || strings.HasPrefix(fields[0], name+"{")) {
				value, err := strconv.ParseFloat(fields[1], 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += value
			}
		}
	}
	return sum
}

// rigs lends rigs to tests that run side by side.
type rigs struct {
	free chan *rig
	list []*rig
}

func newRigs(t *testing.T) *rigs {
	n := min(runtime.GOMAXPROCS(0), 4)
	pool := &rigs{free: make(chan *rig, n)}
	for range n {
		r, err := newRig(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.close(); err != nil {
				t.Error(err)
			}
		})
		pool.list = append(pool.list, r)
		pool.free <- r
	}
	return pool
}

func (p *rigs) take(t *testing.T) *rig {
	r := <-p.free
	t.Cleanup(func() { p.free <- r })
	return r
}

const (
	limit       = time.Minute     // of a file's first run, which is a direct one
	laterLimit  = 4 * time.Minute // of its other runs
	directRuns  = 4               // at most, to see what is not repeatable
	clientLimit = 5 * time.Minute
)

// tally counts what came of the files, a file once in each way.
type tally struct {
	mu       sync.Mutex
	tried    int
	ended    map[Verdict]int // of the direct runs
	recorded int             // direct output as the suite's authors recorded it
	equal    map[string]int  // by strategy: every byte
	alike    map[string]int  // equal but for what direct runs differ in
	known    map[string]int
	differ   map[string]int
}

func newTally() *tally {
	return &tally{ended: map[Verdict]int{}, equal: map[string]int{}, alike: map[string]int{}, known: map[string]int{}, differ: map[string]int{}}
}

func (c *tally) log(t *testing.T) {
	t.Logf("tried %d: run %d (%d as recorded), skipped %d: by themselves %d, failing directly %d, taking longer than %v %d, ending the server %d", c.tried, c.ended[Done], c.recorded,
		c.tried-c.ended[Done], c.ended[Skipped], c.ended[Failed], limit, c.ended[Late], c.ended[Ended])
	for _, s := range Strategies {
		t.Logf("%-6s %d compared: %d equal in every byte, %d but for what direct runs differ in, %d with known differences, %d different",
			s, c.equal[s]+c.alike[s]+c.known[s]+c.differ[s], c.equal[s], c.alike[s], c.known[s], c.differ[s])
	}
}

func TestFiles(t *testing.T) {
	pool := newRigs(t)
	entries, err := entries(pool.list[0].Bench)
	if err != nil {
		t.Fatal(err)
	}
	counted := newTally()
	t.Run("file", func(t *testing.T) {
		for _, entry := range entries {
			for _, way := range entry.Ways {
				name := entry.File
				if way != "text" {
					name += "." + way
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					runFile(t, pool.take(t), entry, way, counted)
				})
			}
		}
	})
	counted.log(t)
	for _, strategy := range Strategies {
		var cycles, reuses, raw, panics float64
		for _, r := range pool.list {
			cycles += r.counter(t, strategy, "tmpproxy_cycles_total")
			reuses += r.counter(t, strategy, "tmpproxy_reuses_total")
			raw += r.counter(t, strategy, "tmpproxy_raw_sessions_total")
			panics += r.counter(t, strategy, "tmpproxy_panics_total")
		}
		t.Logf("%-6s took part in %.0f cycles, reused a table %.0f times", strategy, cycles, reuses)
		if panics > 0 || raw > 0 {
			t.Errorf("%s: %.0f panics, %.0f raw sessions", strategy, panics, raw)
		}
		if strategy == "native" && reuses > 0 {
			t.Errorf("native: %.0f tables were reused", reuses)
		}
	}
}

// entries are the files to run and how. The listed ones are always run as the list says.
func entries(b *Bench) ([]Entry, error) {
	list, err := Listed()
	if err != nil || !*all && *only == "" {
		return list, err
	}
	names := strings.Split(*only, ",")
	if *only == "" {
		if names, err = b.Files(); err != nil {
			return nil, err
		}
	}
	entries := make([]Entry, len(names))
	for i, name := range names {
		entries[i] = Entry{name, Strategies, []string{"text"}}
		if j := slices.IndexFunc(list, func(e Entry) bool { return e.File == name }); j >= 0 {
			entries[i].Ways = list[j].Ways
		}
		if *with != "" {
			entries[i].Strategies = strings.Split(*with, ",")
		}
		if *ways != "" {
			entries[i].Ways = strings.Split(*ways, ",")
		}
	}
	return entries, nil
}

// runFile runs one file directly and in its strategies and compares.
func runFile(t *testing.T, r *rig, entry Entry, way string, counted *tally) {
	run := func(target Target, limit time.Duration) *Run {
		t.Helper()
		result, err := r.Run(context.Background(), entry.File, Ways[way], target, limit)
		if err != nil {
			t.Fatal(err)
		}
		keepOutput(t, filepath.Base(target.Socket), result)
		if _, why, err := r.Reset(context.Background()); err != nil {
			t.Fatalf("reset: %s: %v", why, err)
		}
		return result
	}
	direct := run(r.Direct(), limit)
	words := []string{entry.File, way, string(direct.Verdict), direct.Duration.Round(time.Millisecond).String()}
	counted.mu.Lock()
	counted.tried++
	counted.ended[direct.Verdict]++
	if direct.Verdict == Done && direct.Output == r.Recorded(entry.File) {
		counted.recorded++
	}
	counted.mu.Unlock()
	if direct.Verdict != Done {
		writeReport(t, append(words, direct.Message))
		if !*all && *only == "" {
			t.Errorf("listed, but directly it is %s: %s", direct.Verdict, direct.Message)
		}
		return
	}
	outputs := []string{direct.Output}
	for _, strategy := range entry.Strategies {
		proxied := run(r.targets[strategy], laterLimit)
		differences := Compare(outputs, proxied.Output)
		for len(differences) > 0 && len(outputs) < directRuns {
			again := run(r.Direct(), laterLimit)
			if again.Verdict != Done {
				t.Logf("a further direct run is %s: %s", again.Verdict, again.Message)
			}
			outputs = append(outputs, again.Output)
			differences = Compare(outputs, proxied.Output)
		}
		outcome := judge(t, entry.File, strategy, way, proxied, Describe(differences))
		counted.mu.Lock()
		switch {
		case outcome != "equal":
			map[string]map[string]int{"known": counted.known, "different": counted.differ}[outcome][strategy]++
		case proxied.Output == direct.Output:
			counted.equal[strategy]++
		default:
			outcome = "alike"
			counted.alike[strategy]++
		}
		counted.mu.Unlock()
		words = append(words, strategy+"="+outcome)
	}
	writeReport(t, words)
}

// judge compares what differs with what is known to: equal, known or different.
func judge(t *testing.T, file, strategy, way string, proxied *Run, found string) string {
	t.Helper()
	path := expectedPath(file, strategy, way)
	known, err := ExpectedOf(file, strategy, way)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	switch {
	case found == "" && known == nil:
		return "equal"
	case known != nil && known.Diff == found:
		return "known"
	case *update && found != "":
		reason := unexplained
		if known != nil {
			reason = known.Reason
		}
		if err := os.WriteFile(path, []byte("# "+reason+"\n"+found), 0o644); err != nil {
			t.Fatal(err)
		}
	case found == "":
		t.Errorf("%s: no difference any more: remove %s", strategy, path)
		return "different"
	}
	t.Errorf("%s: not as directly (the run is %s: %s)\n%s", strategy, proxied.Verdict, proxied.Message, found)
	return "different"
}

func keepOutput(t *testing.T, kind string, r *Run) {
	if *keep == "" {
		return
	}
	name := strings.ReplaceAll(t.Name(), "/", ".") + "." + strings.TrimSuffix(kind, ".sock")
	if err := os.WriteFile(filepath.Join(*keep, name), []byte(r.Output), 0o644); err != nil {
		t.Error(err)
	}
}

var reporting sync.Mutex

func writeReport(t *testing.T, words []string) {
	if *report == "" {
		return
	}
	reporting.Lock()
	defer reporting.Unlock()
	f, err := os.OpenFile(*report, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, strings.Join(words, "\t"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestClientAPI runs the C API test. It prints what every statement did, so its tests are compared by what they print.
func TestClientAPI(t *testing.T) {
	pool := newRigs(t)
	var mu sync.Mutex
	runs := map[string]*Run{}
	again := []string{"direct", "direct again"}
	t.Run("run", func(t *testing.T) {
		for _, name := range slices.Concat(again, Strategies) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := pool.take(t)
				target, ok := r.targets[name]
				if !ok {
					target = r.Direct()
				}
				run, err := r.ClientTest(context.Background(), target, clientLimit)
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := r.Reset(context.Background()); err != nil {
					t.Fatal(err)
				}
				keepOutput(t, "", run)
				mu.Lock()
				runs[name] = run
				mu.Unlock()
			})
		}
	})
	if t.Failed() {
		return
	}
	var direct []map[string]string
	for _, name := range again {
		direct = append(direct, sections(runs[name].Output))
	}
	if len(direct[0]) < 300 || runs["direct"].Verdict != Done {
		t.Errorf("%d tests ran directly: %s: %s", len(direct[0]), runs["direct"].Verdict, runs["direct"].Message)
	}
	for _, strategy := range Strategies {
		proxied := runs[strategy]
		if proxied.Verdict != runs["direct"].Verdict {
			t.Errorf("%s: directly %s, through the proxy %s: %s", strategy, runs["direct"].Verdict, proxied.Verdict, proxied.Message)
		}
		got := sections(proxied.Output)
		var unstable []string
		equal := 0
		for _, name := range slices.Sorted(maps.Keys(direct[0])) {
			switch differences := Compare([]string{direct[0][name], direct[1][name]}, got[name]); {
			case unrepeatable[name] || len(lines(direct[0][name])) != len(lines(direct[1][name])):
				unstable = append(unstable, name)
			case judge(t, name, strategy, "text", proxied, Describe(differences)) == "equal":
				equal++
			}
		}
		t.Logf("%-6s in %v: %d tests, %d print the same, %d are not repeatable: %s",
			strategy, proxied.Duration.Round(time.Second), len(got), equal, len(unstable), strings.Join(unstable, " "))
	}
}

var heading = regexp.MustCompile(`(?m)^\d+ of \(1/1\): ([^\s:]+)`)

// unrepeatable are tests of mysql_client_test that print times, or in which turns something happened, which may happen to agree
// in two runs.
var unrepeatable = map[string]bool{"test_prepare_text_and_digest": true, "test_bug25584097": true, "test_wl15651": true}

// sections cuts what mysql_client_test prints into its tests.
func sections(output string) map[string]string {
	found := map[string]string{}
	places := heading.FindAllStringSubmatchIndex(output, -1)
	for i, place := range places {
		end := len(output)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		name := output[place[2]:place[3]]
		for found[name] != "" { // some tests have the same name
			name += "'"
		}
		found[name] = output[place[1]:end]
	}
	return found
}
