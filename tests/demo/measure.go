package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"tmpproxy/bench/statistics"
)

const (
	connections = 2  // of every application
	warmup      = 20 // cycles of every connection before the first round
)

// A path is one way to the server.
type path struct {
	name    string
	address string
}

// A line is one row of the table while it comes into being: an application at work on one path.
type line struct {
	path     path
	workload workload
	sessions []*session
	rounds   []figures
}

// A group is a block of the table while it comes into being: lines that differ in their path only. The first is direct.
type group struct {
	title string
	lines []*line
}

// An experiment is all applications on all paths, each with connections of its own, which are kept to the end.
type experiment struct {
	groups []group
	pools  []*sql.DB
	wire   dialer
}

// newExperiment connects every workload, with every pause, on every path. config says how to log in; its address and its
// dialling are not used. The caller closes the experiment.
func newExperiment(config *mysql.Config, paths []path, workloads []workload, pauses []time.Duration) (*experiment, error) {
	e := new(experiment)
	pools := make(map[path]*sql.DB)
	for _, p := range paths {
		pool, err := connect(config, p.address, &e.wire)
		if err != nil {
			e.close()
			return nil, err
		}
		pools[p] = pool
		e.pools = append(e.pools, pool)
	}
	for _, w := range workloads {
		for _, pause := range pauses {
			title := w.name() + ", no pause"
			if pause > 0 {
				title = fmt.Sprintf("%s, pauses of %v", w.name(), pause)
			}
			g := group{title: title}
			for _, p := range paths {
				l := &line{path: p, workload: w}
				for number := range connections {
					s, err := open(pools[p], w, number, pause)
					if err != nil {
						e.close()
						return nil, fmt.Errorf("%s: %w", p.name, err)
					}
					l.sessions = append(l.sessions, s)
				}
				g.lines = append(g.lines, l)
			}
			e.groups = append(e.groups, g)
		}
	}
	return e, nil
}

// connect returns a pool of connections to address, with the login of config, that wire makes.
func connect(config *mysql.Config, address string, wire *dialer) (*sql.DB, error) {
	c := config.Clone()
	c.Addr = address
	c.DialFunc = wire.dial
	c.InterpolateParams = true       // one packet per statement, as old drivers do it
	c.CheckConnLiveness = false      // no system call that the old drivers do not make
	c.ReadTimeout = 30 * time.Second // an answer that never comes is an error
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func open(pool *sql.DB, w workload, number int, pause time.Duration) (*session, error) {
	conn, err := pool.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, number: number, pause: pause}
	if err := w.open(s); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

// close ends all connections. That a farewell does not get through is no error.
func (e *experiment) close() {
	for _, g := range e.groups {
		for _, l := range g.lines {
			for _, s := range l.sessions {
				_ = s.conn.Close() // back to its pool
			}
		}
	}
	for _, pool := range e.pools {
		_ = pool.Close()
	}
}

// steps returns how many steps run makes in so many rounds.
func (e *experiment) steps(rounds int) int {
	lines := 0
	for _, g := range e.groups {
		lines += len(g.lines)
	}
	return lines * (rounds + 1)
}

// run lets the lines work in turns, each for one turn in every round, after a warm-up. Paths that are compared work right
// after one another, in an order that changes with the round. Progress is told what is going on. When ctx is done all
// connections are cut.
func (e *experiment) run(ctx context.Context, rounds int, turn time.Duration, p *progress) error {
	stop := context.AfterFunc(ctx, e.wire.cut)
	defer stop()
	for round := range rounds + 1 {
		stage := fmt.Sprintf("round %d of %d", round, rounds)
		if round == 0 {
			stage = "warm-up"
		}
		for _, g := range e.groups {
			for i := range g.lines {
				l := g.lines[statistics.Order(round, i, len(g.lines))]
				p.begin(stage, l.path.name)
				var err error
				if round == 0 {
					_, err = l.work(func(done int, _ time.Duration) bool { return done < warmup })
				} else {
					var f figures
					f, err = l.work(func(_ int, elapsed time.Duration) bool { return elapsed < turn })
					l.rounds = append(l.rounds, f)
				}
				switch {
				case ctx.Err() != nil:
					return context.Cause(ctx)
				case err != nil:
					return fmt.Errorf("%s: %s: %w", l.path.name, g.title, err)
				}
				p.end()
			}
		}
	}
	return nil
}

// work lets all sessions of the line make cycles at the same time, at least one each and then while more says so, which
// is asked with the session's cycles and time since the start.
func (l *line) work(more func(done int, elapsed time.Duration) bool) (figures, error) {
	seen := make([]samples, len(l.sessions))
	errs := make([]error, len(l.sessions))
	var all sync.WaitGroup
	for i, s := range l.sessions {
		all.Go(func() {
			begin := time.Now()
			for done := 0; done == 0 || more(done, time.Since(begin)); done++ {
				if errs[i] = s.run(l.workload); errs[i] != nil {
					return
				}
			}
			seen[i] = s.take()
		})
	}
	all.Wait()
	return summarize(seen), errors.Join(errs...)
}

// blocks returns the table.
func (e *experiment) blocks() []block {
	var blocks []block
	for _, g := range e.groups {
		b := block{title: g.title}
		for _, l := range g.lines {
			b.rows = append(b.rows, row{name: l.path.name, rounds: l.rounds})
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// A dialer makes connections that can be cut all at once. Its methods may be called by several goroutines.
type dialer struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
}

// A cuttable connection is one of a dialer's.
type cuttable struct {
	net.Conn
	of *dialer
}

func (c cuttable) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c.Conn)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		d.conns = make(map[net.Conn]bool)
	}
	d.conns[conn] = true
	return cuttable{conn, d}, nil
}

// cut closes all connections, so that whoever waits for an answer gets an error.
func (d *dialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn := range d.conns {
		_ = conn.Close()
	}
}
