package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"tmpproxy/trial"
)

const (
	trialArms  = "native,innodb,keep"
	clients    = 4 // of every application in the trial, at a time
	trialPause = time.Millisecond
	// longer is how much more time than asked for the trial may take until all its verdicts rest on sessions enough.
	longer = 2 * time.Minute
)

// A crowd is the clients of the trial: they come, work for a while and leave, until they are told to end.
type crowd struct {
	wire     dialer
	ended    atomic.Bool
	all      sync.WaitGroup
	sessions atomic.Int64 // that have ended
	failed   chan error   // the first error
}

// gather lets clients of all workloads come to address; each makes so many cycles.
func gather(config *mysql.Config, address string, workloads []workload, cycles int) (*crowd, error) {
	c := &crowd{failed: make(chan error, 1)}
	pool, err := connect(config, address, &c.wire)
	if err != nil {
		return nil, err
	}
	pool.SetMaxIdleConns(-1) // who leaves, logs out
	for _, w := range workloads {
		for number := range clients {
			c.all.Go(func() {
				for !c.ended.Load() {
					s, err := open(pool, w, connections+number, trialPause)
					for err == nil && s.cycles < cycles && !c.ended.Load() {
						err = s.run(w)
					}
					if s != nil {
						err = errors.Join(err, s.conn.Close())
					}
					if err != nil {
						select {
						case c.failed <- fmt.Errorf("%s: %w", w.name(), err):
						default:
						}
						return
					}
					c.sessions.Add(1)
				}
			})
		}
	}
	go func() {
		c.all.Wait()
		_ = pool.Close()
	}()
	return c, nil
}

// leave has all clients end after their present cycle, or at once if at is done before.
func (c *crowd) leave(at context.Context) {
	c.ended.Store(true)
	stop := context.AfterFunc(at, c.wire.cut)
	defer stop()
	c.all.Wait()
}

// conduct runs the trial on the crowd's sessions for the duration at least, and until all verdicts are there; then it writes
// what the proxy reports of it.
func conduct(ctx context.Context, out io.Writer, at *proxy, c *crowd, duration time.Duration, p *progress) error {
	if _, err := at.command(ctx, "trial", "start", "--trial.name=demo", "--trial.arms="+trialArms); err != nil {
		return err
	}
	defer p.clear()
	for begin := time.Now(); ; {
		ticks := min(int(time.Since(begin)*time.Duration(p.total)/duration), p.total)
		p.done = ticks
		p.begin("trial of "+trialArms, fmt.Sprintf("%d sessions", c.sessions.Load()))
		tick := time.NewTimer(duration / time.Duration(p.total))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-c.failed:
			return errors.Join(cmp.Or(context.Cause(ctx), err), at.running())
		case <-tick.C:
		}
		if elapsed := time.Since(begin); elapsed < duration {
			continue
		} else if enough, err := decided(ctx, at); err != nil {
			return err
		} else if enough || elapsed > duration+longer {
			break
		}
	}
	p.clear()
	report, err := at.command(ctx, "trial", "report")
	if err != nil {
		return err
	}
	_, err = out.Write(report)
	return err
}

// leastSessions is of how many in each arm a verdict is worth reading.
const leastSessions = 6

// decided tells whether the trial has sessions enough for all its verdicts.
func decided(ctx context.Context, at *proxy) (bool, error) {
	text, err := at.command(ctx, "trial", "report", "--json")
	if err != nil {
		return false, err
	}
	var r trial.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return false, fmt.Errorf("tmpproxy trial report: %w", err)
	}
	for _, shape := range append(r.Shapes, r.Overall) {
		for _, a := range shape.Arms {
			if a.Sessions < leastSessions {
				return false, nil
			}
		}
		for _, v := range shape.Verdicts {
			if v.High == nil {
				return false, nil
			}
		}
	}
	return len(r.Shapes) > 0, nil
}
