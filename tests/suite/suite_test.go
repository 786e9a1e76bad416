//go:build realserver && suite

package suite

import (
	"context"
	"database/sql"
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

	"github.com/go-sql-driver/mysql"

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

// rig is a bench with proxies in front of its server.
type rig struct{ *Bench }

// relay is the proxy of one run, fresh so that what other files did does not matter: a process behind the server's port and
// one behind its unix socket. What clients say over TCP goes on over TCP, with TLS if they like, what they say over a unix socket
// over a unix socket.
type relay struct {
	target    Target
	processes []*process.Process
}

// relay starts proxies with a strategy. The caller closes them.
func (r *rig) relay(ctx context.Context, strategy string) (_ *relay, err error) {
	p := &relay{target: Target{Socket: filepath.Join(r.Server.Dir, strategy+".sock")}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	for _, side := range []struct {
		backend  string
		settings []string
	}{
		{r.Server.Address, nil},
		{r.Server.Socket, []string{"TMPPROXY_LISTEN_ADDRESSES=" + p.target.Socket, "TMPPROXY_BACKEND_ALLOW_PEER_IDENTITY=true"}},
	} {
		started, err := process.Start(ctx, side.backend, append(side.settings, "TMPPROXY_REWRITE_STRATEGY="+strategy,
			"TMPPROXY_LISTEN_TLS_MODE=optional", "TMPPROXY_BACKEND_TLS_MODE=preferred")...)
		if err != nil {
			return nil, err
		}
		p.processes = append(p.processes, started)
	}
	_, port, err := net.SplitHostPort(p.processes[0].Address)
	if err != nil {
		return nil, err
	}
	if p.target.Port, err = strconv.Atoi(port); err != nil {
		return nil, err
	}
	return p, nil
}

// acquaint tells the proxies the names of temporary tables, by a cycle of each: what they have seen cycle before they park
// at once.
func (p *relay) acquaint(ctx context.Context, names []string) error {
	for _, proxy := range p.processes {
		config := mysql.NewConfig()
		config.User, config.DBName, config.Net, config.Addr = "root", "test", "tcp", proxy.Address
		if proxy != p.processes[0] {
			config.Net, config.Addr = "unix", p.target.Socket
		}
		db, err := sql.Open("mysql", config.FormatDSN())
		if err != nil {
			return err
		}
		conn, err := db.Conn(ctx)
		if err != nil {
			return errors.Join(err, db.Close())
		}
		for _, name := range names {
			for _, statement := range []string{"CREATE TEMPORARY TABLE " + name + " (a INT)", "DROP TEMPORARY TABLE " + name} {
				if _, err := conn.ExecContext(ctx, statement); err != nil {
					return errors.Join(fmt.Errorf("%s: %w", statement, err), conn.Close(), db.Close())
				}
			}
		}
		if err := errors.Join(conn.Close(), db.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (p *relay) close() error {
	var errs []error
	for _, proxy := range p.processes {
		errs = append(errs, proxy.Stop())
	}
	return errors.Join(errs...)
}

// counter sums up a counter, whatever its labels.
func (p *relay) counter(name string) (sum float64, err error) {
	for _, proxy := range p.processes {
		page, err := proxy.Get("/metrics")
		if err != nil {
			return 0, err
		}
		for _, line := range lines(page) {
			fields := strings.Fields(line)
			if len(fields) == 2 && (fields[0] == name || strings.HasPrefix(fields[0], name+"{")) {
				value, err := strconv.ParseFloat(fields[1], 64)
				if err != nil {
					return 0, err
				}
				sum += value
			}
		}
	}
	return sum, nil
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
		b, err := NewBench(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		r := &rig{b}
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
	limit       = time.Minute     // of the first, direct run of a file that may be any
	laterLimit  = 4 * time.Minute // of its other runs
	directRuns  = 4               // at most, to see what is not repeatable
	clientLimit = 5 * time.Minute
)

// tally counts what came of the files, a file once in each way.
type tally struct {
	mu       sync.Mutex
	tried    int
	unsteady int             // do not end in every direct run
	ended    map[Verdict]int // of the direct runs
	done     []string        // files that run to their end as they are
	recorded int             // direct output as the suite's authors recorded it
	equal    map[string]int  // by strategy: every byte
	alike    map[string]int  // equal but for what direct runs differ in
	known    map[string]int
	differ   map[string]int
	cycles   map[string]float64
	reuses   map[string]float64
}

func newTally() *tally {
	return &tally{
		ended: map[Verdict]int{}, equal: map[string]int{}, alike: map[string]int{}, known: map[string]int{}, differ: map[string]int{},
		cycles: map[string]float64{}, reuses: map[string]float64{},
	}
}

func (c *tally) log(t *testing.T) {
	t.Logf("tried %d: run %d (%d as recorded), skipped %d: by themselves %d, failing directly %d, taking longer than %v %d, ending the server %d", c.tried, c.ended[Done], c.recorded,
		c.tried-c.ended[Done], c.ended[Skipped], c.ended[Failed], limit, c.ended[Late], c.ended[Ended])
	for _, s := range Strategies {
		t.Logf("%-6s %d compared: %d equal in every byte, %d but for what direct runs differ in, %d with known differences, %d different; %.0f cycles, %.0f reuses",
			s, c.equal[s]+c.alike[s]+c.known[s]+c.differ[s], c.equal[s], c.alike[s], c.known[s], c.differ[s], c.cycles[s], c.reuses[s])
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
	if *all {
		missing(t, pool.list[0].Bench, counted.done)
	}
}

// missing looks for files that are about the list's topics and can be run, but are not listed.
func missing(t *testing.T, b *Bench, done []string) {
	list, err := Listed()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range done {
		text, err := b.Text(file, Way{})
		if err != nil {
			t.Fatal(err)
		}
		if topics := about(text); len(topics) > 0 && !slices.ContainsFunc(list, func(e Entry) bool { return e.File == file }) {
			t.Errorf("%s is not listed, though it is about %s", file, strings.Join(topics, ", "))
		}
	}
}

// entries are the files to run and how: as the list says, whatever it leaves out as it is.
func entries(b *Bench) ([]Entry, error) {
	list, err := Listed()
	if err != nil {
		return nil, err
	}
	if !*all && *only == "" {
		return slices.DeleteFunc(list, func(e Entry) bool { return e.Long || len(e.Ways) == 0 }), nil
	}
	files := strings.Split(*only, ",")
	if *only == "" {
		if files, err = b.Files(); err != nil {
			return nil, err
		}
	}
	var chosen []Entry
	for _, file := range files {
		of := slices.DeleteFunc(slices.Clone(list), func(e Entry) bool { return e.File != file })
		if len(of) == 0 || *ways != "" {
			of = []Entry{{File: file, Strategies: Strategies, Ways: []string{"text"}}}
		}
		for _, entry := range of {
			if *with != "" {
				entry.Strategies = strings.Split(*with, ",")
			}
			if *ways != "" {
				entry.Ways = strings.Split(*ways, ",")
			}
			chosen = append(chosen, entry)
		}
	}
	return chosen, nil
}

// runFile runs one file directly and in its strategies and compares.
func runFile(t *testing.T, r *rig, entry Entry, way string, counted *tally) {
	text, err := r.Text(entry.File, Ways[way])
	if err != nil {
		t.Fatal(err)
	}
	first := limit
	if !*all && *only == "" {
		first = laterLimit // it is known to end
	}
	direct := runDirectly(t, r, entry.File, way, first)
	words := []string{entry.File, way, string(direct.Verdict), direct.Duration.Round(time.Millisecond).String()}
	counted.mu.Lock()
	counted.tried++
	counted.ended[direct.Verdict]++
	if direct.Verdict == Done && way == "text" {
		counted.done = append(counted.done, entry.File)
		if direct.Output == r.Recorded(entry.File) {
			counted.recorded++
		}
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
		proxied, cycles, reuses := runProxied(t, r, entry.File, way, strategy, names(text))
		differences := Compare(outputs, proxied.Output)
		for len(differences) > 0 && len(outputs) < directRuns {
			again := runDirectly(t, r, entry.File, way, laterLimit)
			if again.Verdict != Done {
				why := fmt.Sprintf("a further direct run is %s: %s", again.Verdict, again.Message)
				if !*all && *only == "" {
					t.Errorf("listed, but %s", why)
				}
				counted.mu.Lock()
				counted.unsteady++
				counted.mu.Unlock()
				writeReport(t, append(words, "unsteady", why))
				return
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
		counted.cycles[strategy] += cycles
		counted.reuses[strategy] += reuses
		counted.mu.Unlock()
		words = append(words, fmt.Sprintf("%s=%s/%.0f/%.0f/%v", strategy, outcome, cycles, reuses, proxied.Duration.Round(time.Millisecond)))
		if strategy != "native" && reuses == 0 && entry.Reuses(way) {
			t.Errorf("%s: no table was reused", strategy)
		}
	}
	writeReport(t, words)
}

// runDirectly runs a file and makes the server as it was before.
func runDirectly(t *testing.T, r *rig, file, way string, limit time.Duration) *Run {
	t.Helper()
	return runAt(t, r, file, way, r.Direct(), "direct", limit)
}

func runAt(t *testing.T, r *rig, file, way string, target Target, kind string, limit time.Duration) *Run {
	t.Helper()
	result, err := r.Run(context.Background(), file, Ways[way], target, limit)
	if err != nil {
		t.Fatal(err)
	}
	keepOutput(t, kind, result)
	renewed, why, err := r.Reset(context.Background())
	if err != nil {
		t.Fatalf("reset: %s: %v", why, err)
	}
	if renewed {
		t.Logf("server renewed: %s", why)
	}
	return result
}

// runProxied runs a file through a proxy that has seen temporary tables of these names before. It returns in how many
// cycles the proxy took part and how often it reused a table.
func runProxied(t *testing.T, r *rig, file, way, strategy string, names []string) (result *Run, cycles, reuses float64) {
	t.Helper()
	ctx := context.Background()
	p, err := r.relay(ctx, strategy)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := p.acquaint(ctx, names); err != nil {
		t.Fatal(err)
	}
	before := counters(t, p)
	// The proxies have asked the server whether it is there, and keep these connections for a while.
	if err := r.sendAway(ctx); err != nil {
		t.Fatal(err)
	}
	result = runAt(t, r, file, way, p.target, strategy, laterLimit)
	after := counters(t, p)
	// Programs of some other files fetch the binary log, which is relayed raw.
	if after.panics > 0 || after.raw > 0 && !*all {
		t.Errorf("%s: %.0f panics, %.0f raw sessions", strategy, after.panics, after.raw)
	}
	cycles, reuses = after.cycles-before.cycles, after.reuses-before.reuses
	if strategy == "native" && reuses > 0 {
		t.Errorf("native: %.0f tables were reused", reuses)
	}
	return result, cycles, reuses
}

// counts are counters of a relay.
type counts struct{ cycles, reuses, raw, panics float64 }

func counters(t *testing.T, p *relay) (c counts) {
	t.Helper()
	for name, into := range map[string]*float64{
		"tmpproxy_cycles_total": &c.cycles, "tmpproxy_reuses_total": &c.reuses,
		"tmpproxy_raw_sessions_total": &c.raw, "tmpproxy_panics_total": &c.panics,
	} {
		value, err := p.counter(name)
		if err != nil {
			t.Fatal(err)
		}
		*into = value
	}
	return c
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
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
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
	name := strings.ReplaceAll(t.Name(), "/", ".") + "." + kind
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
	tests, err := pool.list[0].ClientTests(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ordinary := slices.DeleteFunc(slices.Clone(tests), func(name string) bool { return slices.Contains(aboutTLS, name) })
	if len(ordinary) != len(tests)-len(aboutTLS) || len(ordinary) < 300 {
		t.Fatalf("%d tests, %d without those about TLS", len(tests), len(ordinary))
	}
	var mu sync.Mutex
	runs := map[string]*Run{}
	again := []string{"direct", "direct again"}
	t.Run("run", func(t *testing.T) {
		for _, name := range again {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run := clientTest(t, pool.take(t), "", tests)
				mu.Lock()
				defer mu.Unlock()
				runs[name] = run
			})
		}
		for _, strategy := range Strategies {
			t.Run(strategy, func(t *testing.T) {
				t.Parallel()
				r := pool.take(t)
				run := clientTest(t, r, strategy, ordinary)
				mu.Lock()
				runs[strategy] = run
				mu.Unlock()
				for _, name := range aboutTLS {
					if run := clientTest(t, r, strategy, []string{name}); run.Verdict != Failed {
						t.Errorf("%s is %s", name, run.Verdict)
					}
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	var direct []map[string]string
	for _, name := range again {
		if runs[name].Verdict != Done {
			t.Fatalf("%s: %s: %s", name, runs[name].Verdict, runs[name].Message)
		}
		direct = append(direct, sections(runs[name].Output))
	}
	t.Logf("directly in %v: %d tests", runs[again[0]].Duration.Round(time.Second), len(direct[0]))
	// Some print no heading of their own.
	if len(direct[0]) < 300 {
		t.Errorf("%d tests ran directly, want 300", len(direct[0]))
	}
	for _, strategy := range Strategies {
		proxied := runs[strategy]
		if proxied.Verdict != Done {
			t.Errorf("%s: %s: %s", strategy, proxied.Verdict, proxied.Message)
		}
		got := sections(proxied.Output)
		if len(got) != len(direct[0])-len(aboutTLS) {
			t.Errorf("%s: %d tests ran, of %d that ran directly", strategy, len(got), len(direct[0]))
		}
		var unstable []string
		equal := 0
		for _, name := range slices.Sorted(maps.Keys(got)) {
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

// aboutTLS are the tests of mysql_client_test about what the server does with a client's TLS, which is the proxy's: whether sessions are
// resumed, and what name the client has asked for.
var aboutTLS = []string{"test_wl13075", "test_wl14839"}

// clientTest runs tests of mysql_client_test, through the proxy if a strategy is named.
func clientTest(t *testing.T, r *rig, strategy string, tests []string) *Run {
	t.Helper()
	ctx := context.Background()
	target := r.Direct()
	if strategy != "" {
		p, err := r.relay(ctx, strategy)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := p.close(); err != nil {
				t.Error(err)
			}
		}()
		if err := r.sendAway(ctx); err != nil {
			t.Fatal(err)
		}
		target = p.target
	}
	run, err := r.ClientTest(ctx, tests, target, clientLimit)
	if err != nil {
		t.Fatal(err)
	}
	keepOutput(t, fmt.Sprint(len(tests)), run)
	if _, why, err := r.Reset(ctx); err != nil {
		t.Fatalf("reset: %s: %v", why, err)
	}
	return run
}

var heading = regexp.MustCompile(`(?m)^\d+ of \(1/1\): ([^\s:]+)`)

// unrepeatable are tests of mysql_client_test that print times, the process list, or in which turns something happened, which
// may happen to agree in two runs.
var unrepeatable = map[string]bool{
	"test_prepare_text_and_digest": true, "test_bug25584097": true, "test_wl15651": true, "test_cursor_for_show": true, "test_wl11381_qa": true,
}

// ending is what mysql_client_test prints behind its last test: how many there were and how long they took.
var ending = regexp.MustCompile(`(?m)^All '\d+' tests were successful`)

// sections cuts what mysql_client_test prints into its tests.
func sections(output string) map[string]string {
	found := map[string]string{}
	if end := ending.FindStringIndex(output); end != nil {
		output = output[:end[0]]
	}
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
