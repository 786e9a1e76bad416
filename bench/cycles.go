package bench

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tmpproxy/bench/statistics"
)

// cycles is what tmpproxy is for: a temporary table is made, filled, read and dropped over and over on one connection.

var cycleMetrics = []Metric{
	{Key: "pair", Title: "CREATE + DROP as the client sees them", Unit: Seconds},
	{Key: "pair_p99", Title: "CREATE + DROP, 99th percentile", Unit: Seconds},
	{Key: "cycle", Title: "whole cycle without the thinking", Unit: Seconds},
	{Key: "cycle_p99", Title: "whole cycle, 99th percentile", Unit: Seconds},
}

const insertRows = 1000 // of one statement

func planCycles(b *bench) ([]plan, error) {
	o := b.options
	var plans []plan
	farthest := o.Thin && len(o.RoundTrips) > 2 // which says little that the nearer ones do not
	for _, roundTrip := range o.RoundTrips {
		least := farthest && roundTrip == slices.Max(o.RoundTrips)
		for _, think := range o.Thinks {
			for i, engine := range o.Engines {
				for j, rows := range o.Rows {
					if o.Thin && i > 0 && (think > 0 && roundTrip > 0 || (think > 0 || roundTrip > 0) && j%2 > 0) {
						continue
					}
					if least && (i > 0 && think > 0 || j%2 > 0) {
						continue
					}
					for _, between := range o.Between {
						if between > 0 && (think > 0 || roundTrip == 0) && slices.Min(o.Between) == 0 {
							continue // the reset has time while the client thinks; on a server next door the loop is tight
						}
						if between > 0 && least && i > 0 {
							continue
						}
						plans = append(plans, b.planCycle(engine, rows, between, think, roundTrip))
					}
				}
			}
		}
	}
	return plans, nil
}

func (b *bench) planCycle(engine string, rows, between int, think, roundTrip time.Duration) plan {
	var texts *cycleTexts // made when they are needed
	return plan{
		prepare: func(context.Context) error {
			texts = newCycleTexts(engine, rows, between)
			return nil
		},
		cell: &Cell{Workload: "cycles", Metrics: cycleMetrics, Parameters: []Parameter{{"engine", engine}, {"rows", strconv.Itoa(rows)},
			{"think", milliseconds(think)}, {"round trip", milliseconds(roundTrip)}, {"between", strconv.Itoa(between)}}},
		arms:      append(append([]string{direct}, b.withOther(b.options.Strategies)...), echo),
		roundTrip: roundTrip,
		open: func(w way, _ int) (player, error) {
			if w.name == echo {
				return b.openEchoes(w, think, roundTrip, between)
			}
			return b.openCycles(w, texts, think)
		},
	}
}

// milliseconds writes a duration for people.
func milliseconds(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	return fmt.Sprintf("%g ms", float64(d)/float64(time.Millisecond))
}

// cycleTexts are the packets of a cycle's statements.
type cycleTexts struct {
	create, read, drop []byte
	inserts            [][]byte
	between            int
	count              []byte // how the answer to read begins
}

func newCycleTexts(engine string, rows, between int) *cycleTexts {
	create := "CREATE TEMPORARY TABLE bench_cycle (id INT UNSIGNED NOT NULL PRIMARY KEY, amount INT NOT NULL, name VARCHAR(32) NOT NULL)"
	if engine != "none" {
		create += " ENGINE=" + engine
	}
	count := strconv.Itoa(rows)
	t := &cycleTexts{
		create:  encode(create),
		read:    encode("SELECT COUNT(*), SUM(amount) FROM bench_cycle"),
		drop:    encode("DROP TEMPORARY TABLE bench_cycle"),
		between: between,
		count:   append([]byte{byte(len(count))}, count...),
	}
	for from := 0; from < rows; from += insertRows {
		var values []string
		for id := from; id < min(rows, from+insertRows); id++ {
			values = append(values, fmt.Sprintf("(%d,%d,'name %d')", id, id%97, id))
		}
		t.inserts = append(t.inserts, encode("INSERT INTO bench_cycle (id, amount, name) VALUES "+strings.Join(values, ",")))
	}
	return t
}

// statements returns how many a cycle has.
func (t *cycleTexts) statements() int { return 3 + len(t.inserts) + t.between }

// cyclePlayer runs cycles on one connection.
type cyclePlayer struct {
	bench  *bench
	client *client
	texts  *cycleTexts
	think  time.Duration
	pairs  []float64
	cycles []float64
}

// Before the first round an arm works for a while: tmpproxy keeps tables from the second cycle on, and auto tries every
// strategy before it chooses.
const (
	leastWarm  = 4
	warmCycles = 30
	mostTried  = 20 // so many times as long
)

// warmUp lets an arm work before the first round: work is to do so for that long, or that many cycles if these take less. Where strategy
// auto chooses it goes on until it has.
func (b *bench) warmUp(w way, work func(cycles int, most time.Duration) error) error {
	cycles := warmCycles
	if w.name == direct || w.name == "native" {
		cycles = leastWarm
	}
	for range mostTried {
		if err := work(cycles, b.options.WarmUp); err != nil || !strings.HasPrefix(w.name, "auto") {
			return err
		}
		if chosen, err := w.process.chosen(b.ctx); err != nil || chosen {
			return err
		}
	}
	return nil // it is measured as it is
}

func (b *bench) openCycles(w way, texts *cycleTexts, think time.Duration) (*cyclePlayer, error) {
	c, err := b.connect(w.login)
	if err != nil {
		return nil, err
	}
	p := &cyclePlayer{bench: b, client: c, texts: texts, think: think}
	err = b.warmUp(w, func(cycles int, most time.Duration) error {
		return alone(func() error {
			begin := time.Now()
			for i := 0; i < leastWarm || i < cycles && time.Since(begin) < most; i++ {
				if err := p.cycle(); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *cyclePlayer) close() { p.bench.release(p.client) }

// timed runs a statement when the client has thought, and returns how long the answer took.
func (p *cyclePlayer) timed(packets []byte) (answer, time.Duration, error) {
	pause(p.think)
	begin := time.Now()
	a, err := p.client.run(packets)
	return a, time.Since(begin), err
}

func (p *cyclePlayer) cycle() error {
	_, create, err := p.timed(p.texts.create)
	if err != nil {
		return fmt.Errorf("CREATE: %w", err)
	}
	all := create
	for _, insert := range p.texts.inserts {
		_, took, err := p.timed(insert)
		if err != nil {
			return fmt.Errorf("INSERT: %w", err)
		}
		all += took
	}
	a, took, err := p.timed(p.texts.read)
	if err != nil {
		return fmt.Errorf("SELECT: %w", err)
	}
	if !bytes.HasPrefix(a.first, p.texts.count) {
		return fmt.Errorf("SELECT: the table holds %q, want %q", a.first, p.texts.count)
	}
	all += took
	_, drop, err := p.timed(p.texts.drop)
	if err != nil {
		return fmt.Errorf("DROP: %w", err)
	}
	all += drop
	for range p.texts.between {
		if _, took, err = p.timed(one); err != nil {
			return fmt.Errorf("SELECT 1: %w", err)
		}
		all += took
	}
	p.pairs = append(p.pairs, (create + drop).Seconds())
	p.cycles = append(p.cycles, all.Seconds())
	return nil
}

func (p *cyclePlayer) turn(d time.Duration) (turn, error) {
	p.pairs, p.cycles = p.pairs[:0], p.cycles[:0]
	err := alone(func() error {
		for begin := time.Now(); len(p.cycles) == 0 || time.Since(begin) < d; {
			if err := p.cycle(); err != nil {
				return err
			}
		}
		return nil
	})
	return turn{statements: len(p.cycles) * p.texts.statements(), values: map[string]float64{
		"pair": statistics.Median(p.pairs), "pair_p99": statistics.Quantile(p.pairs, 0.99),
		"cycle": statistics.Median(p.cycles), "cycle_p99": statistics.Quantile(p.cycles, 0.99),
	}}, err
}

// echoPlayer makes pairs of echoes in the rhythm of a DROP and the CREATE behind it: what is answered without a server
// cannot cost less.
type echoPlayer struct {
	bench  *bench
	client *client
	before time.Duration // the other statements of a cycle wait for the server that long
	gap    time.Duration // from one echo to the other
}

func (b *bench) openEchoes(w way, think, roundTrip time.Duration, between int) (*echoPlayer, error) {
	c, err := dial("tcp", w.login.address)
	if err != nil {
		return nil, err
	}
	b.keep(c)
	// INSERT and SELECT, and the thinking before the DROP.
	return &echoPlayer{b, c, 2*(think+roundTrip) + think, time.Duration(between)*(think+roundTrip) + think}, nil
}

func (p *echoPlayer) close() { p.bench.release(p.client) }

func (p *echoPlayer) turn(d time.Duration) (turn, error) {
	var pairs []float64
	err := alone(func() error {
		for begin := time.Now(); len(pairs) == 0 || time.Since(begin) < d; {
			var pair time.Duration
			for _, wait := range []time.Duration{p.before, p.gap} {
				pause(wait)
				begin := time.Now()
				if err := p.client.echo(); err != nil {
					return fmt.Errorf("echo: %w", err)
				}
				pair += time.Since(begin)
			}
			pairs = append(pairs, pair.Seconds())
		}
		return nil
	})
	return turn{values: map[string]float64{"pair": statistics.Median(pairs), "pair_p99": statistics.Quantile(pairs, 0.99)}}, err
}
