// Command demo shows on this machine what tmpproxy changes for applications that make and drop temporary tables all the
// time. It builds the proxy, starts a throw-away server and one proxy for each strategy before it, lets two such
// applications work directly and through the proxies in turns, and prints what they saw. Server and proxies then go on
// until Ctrl-C, for whoever wants to try them. Everything it makes lies in temporary directories, but for a server that
// it had to obtain (see tests/server).
//
// It is a demonstration, no benchmark: client, proxy and server share one machine, and there are few connections.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"tmpproxy/tests/server"
)

const schema = "demo"

var (
	strategies = []string{"native", "keep", "innodb"}
	pauses     = []time.Duration{0, time.Millisecond}
)

func main() {
	duration := flag.Duration("duration", 20*time.Second, "how long to measure in all")
	noninteractive := flag.Bool("noninteractive", false, "end after the table")
	choice := flag.String("server", "auto", "auto: the machine's own server, else MySQL 9.7 is obtained; mysql, mariadb: obtain this one")
	flag.Parse()
	if flag.NArg() > 0 || *duration < time.Second || (*choice != "auto" && *choice != "mysql" && *choice != "mariadb") {
		fmt.Fprintln(os.Stderr, "demo: nothing but flags is expected, at least -duration=1s, and -server=auto, mysql or mariadb")
		flag.Usage()
		os.Exit(2)
	}
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	if err := followParent(); err != nil {
		say("demo: %v", err)
	}
	os.Exit(demonstrate(ctx, *duration, *choice, *noninteractive))
}

// demonstrate runs the demonstration, stops and removes all that it made, and returns the exit code.
func demonstrate(ctx context.Context, duration time.Duration, choice string, noninteractive bool) int {
	var made cleanup
	code := 0
	if err := run(ctx, &made, duration, choice, noninteractive); err != nil {
		code = 1
		if ctx.Err() != nil {
			code = 130
			say("interrupted")
		} else {
			say("demo: %v", err)
		}
	}
	if err := made.undo(); err != nil {
		say("demo: %v", err)
		code = 1
	}
	return code
}

// A cleanup remembers how to undo what was done.
type cleanup []func() error

func (c *cleanup) add(f func() error) { *c = append(*c, f) }

// undo undoes the last first, and all of it.
func (c *cleanup) undo() error {
	var errs []error
	for _, f := range slices.Backward(*c) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// say tells what is going on.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func run(ctx context.Context, made *cleanup, duration time.Duration, choice string, noninteractive bool) error {
	dir, err := os.MkdirTemp("", "tmpproxy-demo-")
	if err != nil {
		return err
	}
	made.add(func() error { return os.RemoveAll(dir) })

	say("building tmpproxy; the first time takes a minute or two")
	program, err := buildProxy(ctx, dir)
	if err != nil {
		return err
	}
	backend, err := server.StartAny(ctx, choice, dir, server.Durable, say) // what durability costs is part of a cycle
	if err != nil {
		return err
	}
	made.add(backend.Stop)
	version, err := backend.Version(ctx)
	if err != nil {
		return err
	}
	say("started %s %s on %s", backend.Kind.Product(), version, backend.Address)

	var proxies []*proxy
	paths := []path{{"direct", backend.Address}}
	for _, strategy := range strategies {
		p, err := startProxy(ctx, program, dir, strategy, backend.Address)
		if err != nil {
			return err
		}
		made.add(p.stop)
		proxies = append(proxies, p)
		paths = append(paths, path{strategy, p.address})
		say("started tmpproxy with strategy %s on %s", strategy, p.address)
	}

	workloads := []workload{newRelstorage(), newReport()}
	if err := createSchema(ctx, backend, workloads); err != nil {
		return err
	}
	rounds, turn := schedule(duration, len(workloads)*len(pauses)*len(paths))
	blocks, err := measure(ctx, backend.Config(schema), paths, workloads, rounds, turn)
	if err != nil {
		for _, p := range proxies {
			err = errors.Join(err, p.running())
		}
		return err
	}
	fmt.Println()
	if err := writeTable(os.Stdout, blocks); err != nil {
		return err
	}
	least, most := spread(blocks)
	fmt.Printf(`
%s %s with durable commits. Client, proxies and server share %d processors.
native, keep and innodb are tmpproxy's strategies. Every line has %d connections of its own, kept throughout:
%d cycles of warm-up, then %d rounds in which each line works for %v, in changing order. Figures are medians of
the rounds; x is the figure divided by direct's of the same round (of cycles/s more is better, of times less).
Direct's own cycles/s differed between rounds by %.0f to %.0f %%. A whole cycle is all its statements without the
pauses; RelStorage's has 2 CREATE and 2 DROP. What reached the server is by its own count (Com_...), with warm-up.
`, backend.Kind.Product(), version, runtime.NumCPU(), connections, warmup, rounds, turn.Round(time.Millisecond), 100*least, 100*most)
	if noninteractive {
		return nil
	}
	farewell(backend, proxies, backend.ClientProgram())
	return await(ctx, proxies)
}

// schedule divides the time among so many lines: how many rounds, and how long a turn of one line is.
func schedule(duration time.Duration, lines int) (rounds int, turn time.Duration) {
	rounds = max(5, int(duration/(4*time.Second)))
	return rounds, duration / time.Duration(rounds*lines)
}

func createSchema(ctx context.Context, backend *server.Server, workloads []workload) error {
	statements := []string{"CREATE DATABASE " + schema, "USE " + schema}
	for _, w := range workloads {
		statements = append(statements, w.schema(connections)...)
	}
	conn, err := backend.DB().Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", summary(statement), err)
		}
	}
	return nil
}

func measure(ctx context.Context, config *mysql.Config, paths []path, workloads []workload, rounds int, turn time.Duration) ([]block, error) {
	e, err := newExperiment(config, paths, workloads, pauses)
	if err != nil {
		return nil, err
	}
	defer e.close()
	p := newProgress(os.Stderr, e.steps(rounds))
	err = e.run(ctx, rounds, turn, p)
	p.clear()
	if err != nil {
		return nil, err
	}
	return e.blocks()
}

// farewell says what can be tried.
func farewell(backend *server.Server, proxies []*proxy, client string) {
	connect := func(address string) string {
		_, port, _ := net.SplitHostPort(address)
		return fmt.Sprintf("%s -h127.0.0.1 -P%s -uroot %s", client, port, schema)
	}
	fmt.Println("\nThe server and the proxies go on until Ctrl-C.")
	for _, p := range proxies {
		fmt.Printf("strategy %s\n  connect  %s\n  metrics  http://%s/metrics (sessions: /api/sessions, shapes: /api/shapes)\n",
			p.strategy, connect(p.address), p.admin)
	}
	fmt.Printf("direct\n  connect  %s\n", connect(backend.Address))
}

// await returns when ctx is done, or with an error when a proxy ends by itself.
func await(ctx context.Context, proxies []*proxy) error {
	ended := make(chan error, len(proxies))
	for _, p := range proxies {
		go func() {
			<-p.exited
			ended <- p.running()
		}()
	}
	select {
	case <-ctx.Done():
		say("stopping")
		return nil
	case err := <-ended:
		return err
	}
}
