// Command demo shows on this machine what tmpproxy changes for applications that make and drop temporary tables all the
// time. It builds the proxy, starts a throw-away server and one proxy for each strategy before it, and lets two such
// applications work directly and through the proxies in turns. Then many of their clients come to one proxy, which treats
// them in different ways in a trial, and the trial's report is printed. In the end everything goes on until Ctrl-C, for
// whoever wants to look at the dashboard. All that it makes lies in temporary directories, but for a server that it had to
// obtain (see testbed/server).
//
// It is a demonstration, no benchmark: client, proxy and server share one machine, and there are few connections.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"tmpproxy/testbed/server"
)

const schema = "demo"

var (
	strategies = []string{"native", "keep", "innodb"}
	pauses     = []time.Duration{0, time.Millisecond}
)

func main() {
	duration := flag.Duration("duration", 20*time.Second, "how long to measure in all: a third side by side, the rest is the trial")
	noninteractive := flag.Bool("noninteractive", false, "end after the report")
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
	o := options{duration: *duration, server: *choice, noninteractive: *noninteractive, cycles: 25}
	os.Exit(demonstrate(ctx, os.Stdout, o))
}

type options struct {
	duration       time.Duration
	server         string
	noninteractive bool
	cycles         int // after which a client of the trial leaves and another comes
}

// demonstrate runs the demonstration, stops and removes all that it made, and returns the exit code.
func demonstrate(ctx context.Context, out io.Writer, o options) int {
	var made cleanup
	code := 0
	if err := run(ctx, out, &made, o); err != nil {
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

func run(ctx context.Context, out io.Writer, made *cleanup, o options) error {
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
	backend, err := server.StartAny(ctx, o.server, dir, server.Durable, say) // what durability costs is part of a cycle
	if err != nil {
		return err
	}
	made.add(backend.Stop)
	version, err := backend.Version(ctx)
	if err != nil {
		return err
	}
	say("started %s %s on %s", backend.Kind.Product(), version, backend.Address)

	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	var proxies []*proxy
	paths := []path{{"direct", backend.Address}}
	for _, strategy := range strategies {
		p, err := startProxy(ctx, program, dir, strategy, backend.Address, token)
		if err != nil {
			return err
		}
		made.add(p.stop)
		proxies = append(proxies, p)
		paths = append(paths, path{strategy, p.address})
		say("started tmpproxy with strategy %s on %s", strategy, p.address)
	}
	tried := proxies[len(proxies)-1] // strategy innodb, the default: the one to look at, in which the trial runs
	fmt.Fprintf(out, "The dashboard: http://%s/ (its token for changes is in %s)\n", tried.admin, token)

	workloads := []workload{newRelstorage(), newReport()}
	if err := createSchema(ctx, backend, workloads); err != nil {
		return err
	}
	rounds, turn := schedule(o.duration/3, len(workloads)*len(pauses)*len(paths))
	blocks, err := measure(ctx, backend.Config(schema), paths, workloads, rounds, turn)
	if err != nil {
		for _, p := range proxies {
			err = errors.Join(err, p.running())
		}
		return err
	}
	fmt.Fprintf(out, "\n%s %s with durable commits. Client, proxies and server share %d processors.\n\n", backend.Kind.Product(), version, runtime.NumCPU())
	if err := writeTable(out, blocks); err != nil {
		return err
	}
	least, most := spread(blocks)
	fmt.Fprintf(out, `
Times that the client waits, medians; x is what they are divided by the direct ones of the same minute. %d connections,
%d rounds of %v for each figure, in changing order; direct cycles differed between rounds by %.0f to %.0f %%.

Now a trial: each client gets strategy native, innodb or keep by chance, makes %d cycles with pauses of %v and leaves.
%d clients at a time. The proxy's own report, of times in the proxy:

`, connections, rounds, turn.Round(time.Millisecond), 100*least, 100*most, o.cycles, trialPause, clients*len(workloads))
	c, err := gather(backend.Config(schema), tried.address, workloads, o.cycles)
	if err != nil {
		return err
	}
	made.add(func() error {
		grace, cancel := context.WithTimeout(context.Background(), proxyGrace)
		defer cancel()
		c.leave(grace)
		return nil
	})
	if err := conduct(ctx, out, tried, c, o.duration-o.duration/3, newProgress(os.Stderr, 20)); err != nil {
		return err
	}
	if o.noninteractive {
		return nil
	}
	farewell(out, backend, proxies, tried, backend.ClientProgram())
	return await(ctx, proxies, c)
}

// schedule divides the time among so many lines: how many rounds, and how long a turn of one line is.
func schedule(duration time.Duration, lines int) (rounds int, turn time.Duration) {
	rounds = min(15, max(5, int(duration/(2*time.Second))))
	return rounds, duration / time.Duration(rounds*lines)
}

func createSchema(ctx context.Context, backend *server.Server, workloads []workload) error {
	statements := []string{"CREATE DATABASE " + schema, "USE " + schema}
	for _, w := range workloads {
		statements = append(statements, w.schema(connections+clients)...)
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
	defer p.clear()
	if err := e.run(ctx, rounds, turn, p); err != nil {
		return nil, err
	}
	return e.blocks(), nil
}

// farewell says what can be tried.
func farewell(out io.Writer, backend *server.Server, proxies []*proxy, tried *proxy, client string) {
	connect := func(address string) string {
		_, port, _ := net.SplitHostPort(address)
		return fmt.Sprintf("%s -h127.0.0.1 -P%s -uroot %s", client, port, schema)
	}
	fmt.Fprintf(out, "\nThe trial goes on until Ctrl-C, to be looked at: http://%s/\nTo connect:\n", tried.admin)
	for _, p := range proxies {
		fmt.Fprintf(out, "  strategy %-7s %s\n", p.strategy, connect(p.address))
	}
	fmt.Fprintf(out, "  directly         %s\n", connect(backend.Address))
}

// await returns when ctx is done, or with an error when a proxy ends by itself or a client has failed. A client that meets
// the end of a proxy says less than the proxy's log.
func await(ctx context.Context, proxies []*proxy, c *crowd) error {
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
	case err := <-c.failed:
		for _, p := range proxies {
			err = errors.Join(err, p.running())
		}
		return err
	case err := <-ended:
		return err
	}
}
