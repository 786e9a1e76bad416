//go:build realserver && fuzz

package fuzz

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tmpproxy/testbed/relay"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
	"tmpproxy/trial/compare"
	"tmpproxy/trial/judge"
)

// sequencesPerRun is how many sequences a server and a strategy get when no duration is given.
const sequencesPerRun = 5000

var (
	duration   = flag.Duration("duration", 0, "how long to fuzz each server and strategy; 0: a fixed number of sequences")
	sequences  = flag.Int("sequences", sequencesPerRun, "how many sequences for each server and strategy")
	strategies = flag.String("strategy", "native,keep,innodb", "strategies of the proxy, separated by commas")
	servers    = flag.String("server", "mysql,mariadb", "servers, separated by commas: mysql, mysql-nobinlog, mariadb, mariadb-binlog, mariadb-11.8, mariadb-10.5")
	settings   = flag.String("proxy", "", "further settings of tmpproxy, as NAME=value separated by blanks")
	workers    = flag.Int("workers", 5, "how many sequences run side by side")
	find       = flag.String("find", "", "known differences to be found and shrunk as if they were unexplained, separated by commas")
	replay     = flag.String("replay", "", "a file with a script, which is run instead of made-up sequences")
	race       = flag.Bool("racedetector", true, "build tmpproxy with the race detector")
)

// flavours are the servers by their names. MySQL's binary log is on by default, MariaDB's is off.
var flavours = map[string]struct {
	kind server.Kind
	args []string
}{
	"mysql":          {server.MySQL, nil},
	"mysql-nobinlog": {server.MySQL, []string{"--skip-log-bin", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"}},
	"mariadb":        {server.MariaDB, nil},
	"mariadb-binlog": {server.MariaDB, []string{"--log-bin"}},
	"mariadb-11.8":   {server.MariaDB118, nil},
	"mariadb-10.5":   {server.MariaDB105, nil},
}

func TestMain(m *testing.M) {
	flag.Parse()
	process.Race = *race
	judge.Unexplain(strings.Split(*find, ",")...)
	// In memory, servers make and drop permanent tables ten times as fast.
	if _, err := os.Stat("/dev/shm"); err == nil && os.Getenv("TMPDIR") == "" {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	code := m.Run()
	if err := process.Clean(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// startServer starts a server for the length of a test.
func startServer(t *testing.T, flavour string, args ...string) *server.Server {
	t.Helper()
	f, ok := flavours[flavour]
	if !ok {
		t.Fatalf("no server is called %s", flavour)
	}
	// Status flags tell of slow statements, of which there are some on a loaded machine, and of plans, which depend on when statistics
	// are gathered anew.
	args = append(args, "--lock-wait-timeout=3", "--innodb-lock-wait-timeout=2", "--long-query-time=86400", "--innodb-stats-auto-recalc=OFF")
	s, err := server.Start(context.Background(), f.kind, server.Options{Args: append(args, f.args...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestFuzz runs sequences that nobody has thought of.
func TestFuzz(t *testing.T) {
	set(t, "rapid.nofailfile", "true")
	set(t, "rapid.checks", "50")
	set(t, "rapid.shrinktime", "10s")
	for _, flavour := range strings.Split(*servers, ",") {
		t.Run(flavour, func(t *testing.T) {
			s := startServer(t, flavour, "--performance-schema=OFF") // faster by a fifth on MySQL
			for _, strategy := range strings.Split(*strategies, ",") {
				t.Run(strategy, func(t *testing.T) { fuzz(t, s, flavour, strategy) })
			}
		})
	}
}

// TestSequences runs sequences that are the same each time.
func TestSequences(t *testing.T) {
	for _, flavour := range strings.Split(*servers, ",") {
		t.Run(flavour, func(t *testing.T) {
			s := startServer(t, flavour)
			for _, strategy := range strings.Split(*strategies, ",") {
				t.Run(strategy, func(t *testing.T) {
					c := withProxies(t, s, flavour, strategy)
					c.fixed = true
					c.run()
					c.report(t)
					if n := c.sequences.Load(); n != int64(*sequences) && len(c.errors) == 0 {
						t.Errorf("ran %d sequences", n)
					}
				})
			}
		})
	}
}

// TestFuzzFinds has a relay in place of the proxy that changes one word of one error message: that has to be found, shrunk to
// the statement that shows it, and nothing else.
func TestFuzzFinds(t *testing.T) {
	set(t, "rapid.nofailfile", "true")
	set(t, "rapid.shrinktime", "1s")
	s := startServer(t, "mariadb")
	l, err := relay.Start(relay.To("tcp", s.Address), func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte("Unknown table"), []byte("unknown table"))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := newCampaign(s, []string{l.Addr().String()}, "mariadb", "keep", 20)
	c.run()
	for _, err := range c.errors {
		t.Error(err)
	}
	if len(c.findings) == 0 {
		t.Error("found nothing")
	}
	for _, f := range c.findings {
		if f.flaky || f.steps > 3 { // a SHOW WARNINGS behind it shows it, too
			t.Errorf("not shrunk:\n%s", f)
		}
		for _, d := range f.differences {
			if !strings.Contains(d.Direct, "Unknown table") || !strings.Contains(d.Proxied, "unknown table") {
				t.Errorf("found %s", &d)
			}
		}
	}
}

func set(t *testing.T, name, value string) {
	t.Helper()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}

// proxies are the settings of the proxies that the workers of one campaign share: as they come, such that tables are given back
// often, and with the more careful alternatives.
var proxies = [][]string{
	{},
	{"TMPPROXY_REWRITE_MAX_PARKED=1", "TMPPROXY_REWRITE_PARK_TTL=1s", "TMPPROXY_REWRITE_MAX_AGE=1s", "TMPPROXY_RELAY_DRIVER=pump"},
	{"TMPPROXY_REWRITE_ON_HAZARD=native", "TMPPROXY_RELAY_LOOPS=2"},
	{"TMPPROXY_REWRITE_FIDELITY=strict"},
}

// withProxies returns the campaign of a server and a strategy, and starts the proxies for it.
func withProxies(t *testing.T, s *server.Server, flavour, strategy string) *campaign {
	t.Helper()
	var running []*process.Process
	var addresses []string
	for _, own := range proxies {
		p, err := process.Start(context.Background(), s.Address, slices.Concat(
			[]string{"TMPPROXY_REWRITE_STRATEGY=" + strategy, "TMPPROXY_LOG_LEVEL=error"}, own, strings.Fields(*settings))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
		})
		running, addresses = append(running, p), append(addresses, p.Address)
	}
	c := newCampaign(s, addresses, flavour, strategy, int64(*sequences))
	c.proxies = running
	return c
}

func fuzz(t *testing.T, s *server.Server, flavour, strategy string) {
	c := withProxies(t, s, flavour, strategy)
	if *replay != "" {
		c.replay(t)
		return
	}
	if *duration > 0 {
		c.wanted.Store(1 << 62)
		c.until = time.Now().Add(*duration)
	}
	c.run()
	c.report(t)
}

// report tells what came of the campaign, and has the test fail if it found anything.
func (c *campaign) report(t *testing.T) {
	t.Helper()
	took := time.Since(c.began)
	counts := map[string]float64{}
	for _, p := range c.proxies {
		addMetrics(t, p, counts)
	}
	t.Logf("%s, %s: %d sequences, %d statements, %.0f sequences a second, %.0f reuses per 1000 sequences, %d findings",
		c.flavour, c.strategy, c.sequences.Load(), c.statements.Load(), float64(c.sequences.Load())/took.Seconds(),
		1000*counts["tmpproxy_reuses_total"]/float64(max(1, c.sequences.Load())), len(c.findings))
	t.Logf("compared %.1f%% of the steps; known differences: %s", 100*float64(c.compared.Load())/float64(max(1, c.steps.Load())), list(c.known))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if strings.HasPrefix(name, "tmpproxy_") && counts[name] > 0 && !strings.Contains(name, "seconds") {
			t.Logf("%s %.0f", name, counts[name])
		}
	}
	for _, f := range c.findings {
		t.Errorf("found %d times:\n%s", f.times, f)
	}
	for _, err := range c.errors {
		t.Error(err)
	}
	switch c.strategy {
	case "native":
	case "observe":
		if counts["tmpproxy_observed_cycles_total"] == 0 || counts["tmpproxy_cycles_total"] != 0 {
			t.Errorf("observed %.0f cycles, took part in %.0f", counts["tmpproxy_observed_cycles_total"], counts["tmpproxy_cycles_total"])
		}
		for _, p := range c.proxies {
			if strings.Contains(p.Log(), "panicked") {
				t.Errorf("an observation panicked:\n%s", p.Log())
			}
		}
	default:
		if counts["tmpproxy_reuses_total"] == 0 {
			t.Error("no table was ever reused")
		}
	}
}

// replay runs a script some times.
func (c *campaign) replay(t *testing.T) {
	text, err := os.ReadFile(*replay)
	if err != nil {
		t.Fatal(err)
	}
	script, err := compare.Parse(*replay, string(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRunner(c.server, c.addresses[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Fresh = true
	for _, client := range slices.Sorted(maps.Keys(clients)) {
		for range 3 {
			direct, proxied, err := r.Both(&Sequence{Steps: script.Steps, Client: client})
			if err != nil {
				t.Fatal(err)
			}
			v := judge.Compare(c.flavour, c.strategy, direct, proxied)
			t.Logf("%s: compared %d of %d steps, known differences: %s", client, v.Compared, len(script.Steps), list(v.Known))
			for _, d := range v.Unexplained {
				t.Errorf("%s: %s", client, &d)
			}
		}
	}
}

func list(counts map[string]int) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%s %d, ", name, counts[name])
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// addMetrics adds a proxy's counters to others.
func addMetrics(t *testing.T, p *process.Process, counts map[string]float64) {
	t.Helper()
	page, err := p.Get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(strings.NewReader(page))
	for lines.Scan() {
		var value float64
		if at := strings.LastIndexByte(lines.Text(), ' '); at > 0 {
			if _, err := fmt.Sscan(lines.Text()[at+1:], &value); err == nil {
				counts[lines.Text()[:at]] += value
			}
		}
	}
}

// campaign is the fuzzing of one server with one strategy.
type campaign struct {
	server                *server.Server
	addresses             []string // of proxies
	proxies               []*process.Process
	fixed                 bool // the sequences are the same each time
	flavour, strategy     string
	began, until          time.Time
	wanted                atomic.Int64 // sequences
	sequences, statements atomic.Int64
	steps, compared       atomic.Int64

	mu       sync.Mutex
	known    map[string]int
	findings map[string]*finding
	errors   []error
}

func newCampaign(s *server.Server, addresses []string, flavour, strategy string, wanted int64) *campaign {
	c := &campaign{
		server: s, addresses: addresses, flavour: flavour, strategy: strategy, began: time.Now(),
		known: map[string]int{}, findings: map[string]*finding{},
	}
	c.wanted.Store(wanted)
	return c
}

// run has several workers run sequences until there were as many as wanted, or the time is over.
func (c *campaign) run() {
	var group sync.WaitGroup
	for n := range *workers {
		group.Go(func() { c.work(n) })
	}
	group.Wait()
}

// finding is an unexplained difference and the shortest sequence that shows it.
type finding struct {
	script      string
	steps       int
	differences []compare.Difference
	times       int
	flaky       bool
}

func (f *finding) String() string {
	var b strings.Builder
	if f.flaky {
		b.WriteString("# it does not show every time\n")
	}
	b.WriteString(f.script)
	for i, d := range f.differences {
		if i == 8 {
			fmt.Fprintf(&b, "… and %d more\n", len(f.differences)-i)
			break
		}
		fmt.Fprintf(&b, "%s\n", d.String())
	}
	return b.String()
}

var numbers = regexp.MustCompile(`\d+(\.\d+)?`)

// signature tells differences apart that have different causes, more or less.
func signature(differences []compare.Difference) string {
	d := &differences[0]
	code := func(e *compare.Event) string {
		code, _ := e.Value("result[0].error.code")
		return code
	}
	word := func(text string) string {
		words := strings.Fields(strings.ToUpper(text) + " - -")
		return words[0] + " " + words[1]
	}
	return fmt.Sprintf("%s %s %s %s/%s", d.Step().Verb, word(numbers.ReplaceAllString(d.Step().Text, "")), numbers.ReplaceAllString(d.Path, ""), code(d.DirectEvent), code(d.ProxiedEvent))
}

func (c *campaign) over() bool {
	return c.sequences.Load() >= c.wanted.Load() || !c.until.IsZero() && time.Now().After(c.until)
}

func (c *campaign) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors = append(c.errors, err)
	c.wanted.Store(0)
}

// work runs sequences until the campaign is over.
func (c *campaign) work(n int) {
	r, err := NewRunner(c.server, c.addresses[n%len(c.addresses)], n)
	if err != nil {
		c.fail(err)
		return
	}
	defer r.Close()
	made := Generate(Options{MariaDB: c.server.Kind.IsMariaDB(), Converts: c.strategy == "innodb"})
	if c.fixed {
		for i := n; i < *sequences && !c.over(); i += *workers {
			w := &worker{campaign: c, runner: r}
			w.look(made.Example(i))
			w.reduce()
		}
		return
	}
	for !c.over() {
		w := &worker{campaign: c, runner: r, made: made}
		c.check(w)
	}
}

// worker looks for one finding.
type worker struct {
	*campaign
	runner    *Runner
	made      *rapid.Generator[*Sequence]
	signature string
	smallest  *Sequence
	verdict   judge.Verdict
}

// check runs some sequences, up to the first with an unexplained difference.
func (c *campaign) check(w *worker) {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		rapid.Check(r, w.property)
	}()
	<-done
	w.reduce()
}

// reduce makes the sequence that was found as short as it can.
func (w *worker) reduce() {
	w.runner.Fresh = false
	if w.smallest == nil {
		return
	}
	w.runner.Fresh = true
	smallest, verdict, sure := reduce(w.smallest, w.verdict, w.shows)
	w.runner.Fresh = false
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.findings[w.signature]
	f.script, f.steps = smallest.Script(w.flavour, w.strategy, verdict.Codes), len(smallest.Steps)
	f.differences, f.flaky = verdict.Unexplained, !sure
}

func (w *worker) property(t *rapid.T) {
	if w.signature == "" && w.over() {
		return
	}
	if w.look(w.made.Draw(t, "sequence")) {
		t.Fatalf("%s", w.signature)
	}
}

// look runs a sequence and tells whether it shows a difference that is new, or the one that the worker has found before.
func (w *worker) look(s *Sequence) bool {
	v, ok := w.run(s)
	if !ok || len(v.Unexplained) == 0 {
		return false
	}
	found := signature(v.Unexplained)
	if w.signature == "" {
		w.mu.Lock()
		f := w.findings[found]
		if f == nil {
			w.findings[found] = &finding{times: 1, script: s.Script(w.flavour, w.strategy, v.Codes), differences: v.Unexplained, flaky: true}
		} else {
			f.times++
		}
		w.mu.Unlock()
		if f != nil {
			return false
		}
		w.signature = found
		w.runner.Fresh = true
	} else if found != w.signature {
		return false
	}
	w.smallest, w.verdict = s, v
	return true
}

// run runs a sequence and compares; false: it could not be run.
func (w *worker) run(s *Sequence) (judge.Verdict, bool) {
	direct, proxied, err := w.runner.Both(s)
	if err != nil {
		w.fail(fmt.Errorf("%w\n%s", err, s.Script(w.flavour, w.strategy, nil)))
		return judge.Verdict{}, false
	}
	v := w.judge(s, direct, proxied)
	if w.signature == "" {
		w.count(s, v)
	}
	return v, true
}

func (c *campaign) judge(s *Sequence, direct, proxied *judge.Outcome) judge.Verdict {
	if s.Touches {
		return judge.Protected(c.flavour, c.strategy, direct, proxied)
	}
	return judge.Compare(c.flavour, c.strategy, direct, proxied)
}

func (w *worker) count(s *Sequence, v judge.Verdict) {
	w.campaign.sequences.Add(1)
	w.statements.Add(int64(2 * len(s.Steps)))
	w.steps.Add(int64(len(s.Steps)))
	w.compared.Add(int64(v.Compared))
	w.mu.Lock()
	for name, n := range v.Known {
		w.known[name] += n
	}
	w.mu.Unlock()
}

// shows tells whether a sequence has the difference that is looked for.
func (w *worker) shows(s *Sequence) (judge.Verdict, bool) {
	direct, proxied, err := w.runner.Both(s)
	if err != nil {
		return judge.Verdict{}, false
	}
	v := w.judge(s, direct, proxied)
	return v, len(v.Unexplained) > 0 && signature(v.Unexplained) == w.signature
}

// recorder stands for a test in rapid.Check, so that a failure does not end the real one.
type recorder struct {
	rapid.TB
	failed bool
}

func (*recorder) Helper()                 {}
func (*recorder) Name() string            { return "fuzz" }
func (*recorder) Logf(string, ...any)     {}
func (*recorder) Log(...any)              {}
func (*recorder) Skipf(string, ...any)    { runtime.Goexit() }
func (*recorder) Skip(...any)             { runtime.Goexit() }
func (*recorder) SkipNow()                { runtime.Goexit() }
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Fail()                 { r.failed = true }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }
func (r *recorder) Fatal(...any)          { r.FailNow() }
func (r *recorder) FailNow()              { r.failed = true; runtime.Goexit() }
func (r *recorder) Failed() bool          { return r.failed }
