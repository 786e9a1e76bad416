package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"tmpproxy/bench/statistics"
	"tmpproxy/testbed/server"
)

// Names of arms that are no strategy.
const (
	direct  = "direct"
	byHand  = "by hand" // directly, with what the proxy does done by the application: one InnoDB table that it empties
	echo    = "echo"    // no server at all: a bare loop that sends back what comes
	haproxy = "HAProxy"
	router  = "MySQL Router"
)

// Suffixes of strategies.
const (
	otherSuffix = " other" // of another tmpproxy
	scanSuffix  = " scan"  // with rewrite.routines: scan
)

// A way is how an arm reaches the server.
type way struct {
	name    string
	login   login
	process *process // whose processor time counts; nil without one
}

// A plan is one cell before it is measured.
type plan struct {
	cell        *Cell
	arms        []string
	roundTrip   time.Duration
	mostRounds  int  // 0 for as many as there are
	stretch     int  // how many times as long a turn is; 0 for once
	allocations bool // those of tmpproxy are counted
	tls         bool // on both sides of what is between client and server
	bare        bool // ways are names only: the players start what they need
	prepare     func(context.Context) error
	open        func(w way, number int) (player, error) // number is the arm's in the cell
}

// A player is one arm at work in one cell.
type player interface {
	// turn works for about that long and returns what it measured.
	turn(d time.Duration) (turn, error)
	close()
}

// A turn is what an arm showed in one round.
type turn struct {
	values     map[string]float64 // by a metric's key
	statements int
}

// A bench is a run under way.
type bench struct {
	ctx      context.Context
	options  *Options
	dir      string
	identity identity
	made     cleanup
	backend  *backend
	peers    map[string]peer
	relays   map[time.Duration]*relay
	echo     *process // once it is needed
	report   *Report
	progress *progress

	mu      sync.Mutex
	clients map[*client]bool // that are cut when ctx is done
}

// A peer is another proxy's program.
type peer struct{ program, plugins string }

// Run measures what the options say. It leaves nothing behind but programs that it had to obtain. When ctx is done or
// something fails it stops and returns an error, and what was measured until then, nil when that is nothing.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	// Every thread that waits for an answer keeps its processor, in the runtime's sense; and garbage is rare here.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(64, runtime.NumCPU())))
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	if err := raiseDescriptorLimit(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tmpproxy-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{ctx: ctx, options: &o, dir: dir, peers: make(map[string]peer), relays: make(map[time.Duration]*relay),
		clients: make(map[*client]bool), progress: newProgress(o.Log)}
	b.made.add(func() error { return os.RemoveAll(dir) })
	defer func() {
		b.progress.clear()
		err = errors.Join(err, b.made.undo())
	}()
	defer context.AfterFunc(ctx, b.cut)()
	err = b.measure()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if b.report != nil && len(b.report.Cells) == 0 {
		b.report = nil
	}
	return b.report, err
}

// say tells what goes on.
func (b *bench) say(format string, args ...any) {
	b.progress.clear()
	fmt.Fprintf(b.options.Log, format+"\n", args...)
}

// raiseDescriptorLimit lets this process and those that it starts have as many descriptors as may be.
func raiseDescriptorLimit() error {
	limit, err := descriptorLimit()
	if err != nil {
		return err
	}
	return os.NewSyscallError("setrlimit", syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit}))
}

func descriptorLimit() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return limit.Max, nil
}

func (b *bench) measure() error {
	began := time.Now()
	o := b.options
	var err error
	if b.identity, err = newIdentity(b.dir); err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	if b.backend, err = openBackend(b.ctx, o, b.dir, b.identity, &b.made, b.say); err != nil {
		return err
	}
	b.report = &Report{Began: began, Machine: thisMachine(), Server: b.backend.product + " " + b.backend.version, MariaDB: b.backend.mariaDB,
		Durable: o.Durable && o.DSN == "", Settings: o.Settings}
	if o.Earlier != nil {
		if err := b.report.follow(o.Earlier); err != nil {
			return err
		}
	}
	b.report.Rounds, b.report.Inform, b.report.Turn = o.Rounds, min(o.Inform, o.Rounds), o.Turn.Seconds()
	b.report.Runs++
	b.report.Peers = nil
	b.say("%s on %s", b.report.Server, b.backend.login.address)
	b.findPeers()
	var plans []plan
	for _, w := range Workloads {
		if slices.Contains(o.Workloads, w) {
			made, err := planners[w](b)
			if err != nil {
				return fmt.Errorf("%s: %w", w, err)
			}
			plans = append(plans, made...)
		}
	}
	plans = slices.DeleteFunc(plans, func(p plan) bool {
		return o.Only != nil && !o.Only.MatchString(p.cell.line()) || o.Missing && b.report.same(p.cell) >= 0
	})
	earlier := b.report.Duration
	sum := func() {
		b.report.Targets = judge(b.report)
		b.report.Duration = earlier + time.Since(began).Seconds()
	}
	defer sum()
	for i := range plans {
		p := &plans[i]
		b.report.Left = len(plans) - i
		if o.For > 0 && time.Since(began) > o.For {
			b.say("%d lines are left", b.report.Left)
			return nil
		}
		b.progress.begin(i, len(plans), p.cell.line())
		if err := b.run(p); err != nil {
			return fmt.Errorf("%s: %w", p.cell.line(), err)
		}
		b.report.put(p.cell)
		b.report.Left--
		if o.Keep != nil {
			sum()
			if err := o.Keep(b.report); err != nil {
				return err
			}
		}
	}
	return nil
}

// planners make the cells of every workload.
var planners = map[string]func(*bench) ([]plan, error){
	"cycles":     planCycles,
	"relstorage": planRelstorage,
	"selects":    planSelects,
	"tls":        planTLS,
	"result":     planResult,
	"connects":   planConnects,
	"idle":       planIdle,
	"idle-tls":   planIdleTLS,
	"blobs":      planBlobs,
}

// describe returns a cell's parameters in a line.
func describe(c *Cell) string {
	var parts []string
	for _, p := range c.Parameters {
		parts = append(parts, p.Name+" "+p.Value)
	}
	return strings.Join(parts, ", ")
}

// note keeps what the reader of the report must know.
func (b *bench) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(b.report.Notes, text) {
		b.report.Notes = append(b.report.Notes, text)
	}
	b.say("%s", text)
}

// findPeers looks for the other proxies' programs, and obtains what is not installed. Without one the rest is measured.
func (b *bench) findPeers() {
	for _, name := range b.options.Peers {
		program, kind, title := "haproxy", server.HAProxy, haproxy
		if name == "mysqlrouter" {
			program, kind, title = "mysqlrouter", server.MySQLRouter, router
		}
		var p peer
		var err error
		if p.program, err = exec.LookPath(program); err != nil {
			b.say("taking %s from Debian's packages if it is not there yet", title)
			var root string
			if root, err = server.Obtain(b.ctx, kind); err != nil {
				b.note("without %s: %v", title, err)
				continue
			}
			p.program = filepath.Join(root, "bin", program)
			if title == router {
				p.plugins = filepath.Join(root, "plugins")
			}
		}
		out, err := exec.CommandContext(b.ctx, p.program, "-v").Output()
		if title == router {
			out, err = exec.CommandContext(b.ctx, p.program, "--version").Output()
		}
		if err != nil {
			b.note("without %s: %v", title, err)
			continue
		}
		line, _, _ := strings.Cut(string(out), "\n")
		b.report.Peers = append(b.report.Peers, strings.TrimSpace(line))
		b.peers[title] = p
	}
}

// others returns the names of the other proxies that are there.
func (b *bench) others() []string {
	var names []string
	for _, name := range []string{haproxy, router} {
		if _, ok := b.peers[name]; ok {
			names = append(names, name)
		}
	}
	return names
}

// relayStrategy is the strategy under which everything but cycles is measured: the default one, if it takes part.
func (b *bench) relayStrategy() []string {
	s := b.options.Strategies
	if slices.Contains(s, "innodb") {
		return b.withOther([]string{"innodb"})
	}
	return b.withOther(s[:min(1, len(s))])
}

// withOther adds the same strategies of another tmpproxy.
func (b *bench) withOther(strategies []string) []string {
	all := slices.Clone(strategies)
	if b.options.Other != "" {
		for _, s := range strategies {
			all = append(all, s+otherSuffix)
		}
	}
	return all
}

// way returns how an arm reaches the server with a round trip's time between the server and what is before it, with TLS or not. A proxy is
// started for it alone, so that nothing that it has learned or kept from other work plays a part; the caller stops the way's
// process.
func (b *bench) way(name string, roundTrip time.Duration, tls bool) (way, error) {
	w := way{name: name, login: b.backend.login}
	w.login.tls = tls
	if name == echo {
		err := b.reachEcho(&w)
		return w, err
	}
	if roundTrip > 0 {
		r, err := b.relay(roundTrip)
		if err != nil {
			return w, err
		}
		w.login.address = r.address
	}
	if name == direct || name == byHand {
		return w, nil
	}
	var err error
	if w.process, err = b.start(name, w.login.address, 1000, tls); err != nil {
		return w, err
	}
	w.login.address = w.process.address
	return w, nil
}

// reachEcho sets the way's address to that of the echo, which is started at the first call.
func (b *bench) reachEcho(w *way) error {
	if b.echo == nil {
		p, err := b.startEcho()
		if err != nil {
			return err
		}
		b.made.add(p.stop)
		b.echo = p
	}
	w.login.address = b.echo.address
	return nil
}

// start runs the proxy of an arm's name, for that many clients, with TLS on both of its sides or none. The caller stops it.
func (b *bench) start(name, address string, clients int, tls bool) (*process, error) {
	for try := 1; ; try++ {
		p, err := b.startOnce(name, address, clients, tls)
		if try == 5 || !errors.Is(err, errEarly) {
			return p, err
		}
		// Somebody else may have taken an address that was free a moment ago.
	}
}

func (b *bench) startOnce(name, address string, clients int, tls bool) (*process, error) {
	p := b.peers[name]
	switch name {
	case haproxy:
		return startHAProxy(b.ctx, b.dir, p.program, address, clients)
	case router:
		var id *identity
		if tls {
			id = &b.identity
		}
		return startRouter(b.ctx, b.dir, p.program, p.plugins, address, clients, id)
	}
	settings := []string{fmt.Sprintf("--limits.max_sessions=%d", max(1000, clients+100))}
	if tls {
		settings = append(settings, "--listen.tls.mode=required", "--listen.tls.cert_file="+b.identity.certificate, "--listen.tls.key_file="+b.identity.key,
			"--backend.tls.mode=required")
	}
	settings = append(settings, b.options.Settings...)
	program := b.options.Program
	if strategy, ok := strings.CutSuffix(name, otherSuffix); ok {
		name, program = strategy, b.options.Other
	}
	if strategy, ok := strings.CutSuffix(name, scanSuffix); ok {
		scan, err := b.scan()
		if err != nil {
			return nil, err
		}
		name, settings = strategy, append(settings, scan...)
	}
	return startProxy(b.ctx, b.dir, program, name, address, settings...)
}

// scan returns the settings with which tmpproxy reads routines and triggers, by the account that everything is measured with.
func (b *bench) scan() ([]string, error) {
	file, err := os.CreateTemp(b.dir, "password-*")
	if err != nil {
		return nil, err
	}
	_, err = file.WriteString(b.backend.login.password)
	return []string{"--rewrite.routines=scan", "--backend.monitor.user=" + b.backend.login.user, "--backend.monitor.password_file=" + file.Name()},
		errors.Join(err, file.Close())
}

// startEcho runs ServeEcho as a process of its own, as the proxies are.
func (b *bench) startEcho() (*process, error) {
	command := exec.Command(b.options.Program, b.options.EchoArgs...)
	command.Env = environment()
	return start(b.ctx, b.dir, echo, command, func(_ context.Context, p *process) error {
		file, err := os.Open(p.log)
		if err != nil {
			return err
		}
		defer file.Close()
		line, err := bufio.NewReader(file).ReadString('\n')
		if err != nil {
			return errors.New("it has not said where it listens")
		}
		p.address = strings.TrimSpace(line)
		_, _, err = net.SplitHostPort(p.address)
		return err
	})
}

// relay returns the relay of a round trip's time before the server. What passing through a relay takes by itself is taken off
// its delay, up to a half; what comes of it is measured and reported.
func (b *bench) relay(roundTrip time.Duration) (*relay, error) {
	if r := b.relays[roundTrip]; r != nil {
		return r, nil
	}
	bare, err := b.echoTimes(nil)
	if err != nil {
		return nil, err
	}
	passing, err := b.relayed(0)
	if err != nil {
		return nil, err
	}
	overhead := time.Duration((statistics.Median(passing) - statistics.Median(bare)) * float64(time.Second))
	delay := roundTrip - min(max(overhead, 0), roundTrip/2)
	delayed, err := b.relayed(delay)
	if err != nil {
		return nil, err
	}
	r, err := newRelay(b.backend.login.address, delay)
	if err != nil {
		return nil, err
	}
	b.made.add(r.close)
	b.relays[roundTrip] = r
	// The echo's own time is in both.
	b.report.delayed(Delay{Asked: roundTrip.Seconds(),
		Median: statistics.Median(delayed) - statistics.Median(bare), P99: statistics.Quantile(delayed, 0.99) - statistics.Median(bare)})
	return r, nil
}

// relayed returns how long echoes take through a relay with a delay.
func (b *bench) relayed(delay time.Duration) ([]float64, error) {
	w, err := b.way(echo, 0, false)
	if err != nil {
		return nil, err
	}
	r, err := newRelay(w.login.address, delay)
	if err != nil {
		return nil, err
	}
	times, err := b.echoTimes(r)
	return times, errors.Join(err, r.close())
}

// echoTimes returns how long echoes take, through a relay if there is one.
func (b *bench) echoTimes(r *relay) ([]float64, error) {
	w, err := b.way(echo, 0, false)
	if err != nil {
		return nil, err
	}
	if r != nil {
		w.login.address = r.address
	}
	c, err := dial("tcp", w.login.address)
	if err != nil {
		return nil, err
	}
	b.keep(c)
	defer b.release(c)
	var times []float64
	err = alone(func() error {
		for range 300 {
			pause(200 * time.Microsecond) // as a server takes
			begin := time.Now()
			if err := c.echo(); err != nil {
				return fmt.Errorf("echo: %w", err)
			}
			times = append(times, time.Since(begin).Seconds())
		}
		return nil
	})
	return times, err
}

// connect makes a connection that is cut when the run is given up. The caller releases it.
func (b *bench) connect(l login) (*client, error) {
	c, err := connect(l)
	if err == nil {
		b.keep(c)
	}
	return c, err
}

func (b *bench) keep(c *client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clients[c] = true
	if b.ctx.Err() != nil {
		c.cut()
	}
}

// release closes a connection.
func (b *bench) release(c *client) {
	b.mu.Lock()
	delete(b.clients, c)
	b.mu.Unlock()
	c.close()
}

// cut makes everybody who waits for an answer fail.
func (b *bench) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.clients {
		c.cut()
	}
}
