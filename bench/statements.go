package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"tmpproxy/bench/statistics"
)

// What is here has nothing to do with temporary tables: it shows what passing through costs everything else.

const (
	pointRows = 10_000
	rowBytes  = 32 << 10 // of a row of the long result
)

// preparePoints makes the table that points are selected from.
func (b *bench) preparePoints(ctx context.Context) error {
	statements := []string{`DROP TABLE IF EXISTS ` + schema + `.points`,
		`CREATE TABLE ` + schema + `.points (id INT UNSIGNED NOT NULL PRIMARY KEY, pad CHAR(120) NOT NULL) ENGINE = InnoDB`}
	for from := 0; from < pointRows; from += 1000 {
		var values []string
		for id := from; id < from+1000; id++ {
			values = append(values, fmt.Sprintf("(%d, '%s')", id, strings.Repeat(strconv.Itoa(id%10), 120)))
		}
		statements = append(statements, `INSERT INTO `+schema+`.points VALUES `+strings.Join(values, ", "))
	}
	return b.backend.exec(ctx, statements...)
}

// passing returns the arms of what is only passed on.
func (b *bench) passing() []string {
	return append(append([]string{direct}, b.relayStrategy()...), b.others()...)
}

func planSelects(b *bench) ([]plan, error) { return b.planPoints("selects", b.passing(), false) }

// planTLS is planSelects with TLS between client and proxy and between proxy and server.
func planTLS(b *bench) ([]plan, error) {
	if !b.backend.tls {
		b.note("without selects over TLS: the server does not offer it")
		return nil, nil
	}
	return b.planPoints("tls", slices.DeleteFunc(b.passing(), withoutTLS), true)
}

func (b *bench) planPoints(workload string, arms []string, tls bool) ([]plan, error) {
	random := rand.New(rand.NewPCG(5, 6))
	points := make([][]byte, 4096)
	for i := range points {
		points[i] = encode("SELECT pad FROM points WHERE id = " + strconv.Itoa(random.IntN(pointRows)))
	}
	var plans []plan
	for _, connections := range b.options.Selects {
		plans = append(plans, plan{
			cell: &Cell{Workload: workload, Parameters: []Parameter{{"connections", strconv.Itoa(connections)}}, Metrics: []Metric{
				{Key: "rate", Title: "point selects per second", Unit: PerSecond, Higher: true},
				{Key: "latency", Title: "one point select", Unit: Seconds},
				{Key: "p99", Title: "one point select, 99th percentile", Unit: Seconds},
			}},
			arms: arms, prepare: b.preparePoints, allocations: true, stretch: 3, tls: tls,
			open: func(w way, _ int) (player, error) {
				crew, err := b.hire(w.login, connections)
				if err != nil {
					return nil, err
				}
				p := &selectPlayer{crew: crew, points: points, times: make([][]float64, connections), next: make([]int, connections)}
				for i := range p.next {
					p.next[i] = i * len(points) / connections
				}
				if _, err := p.turn(b.options.WarmUp / 4); err != nil {
					p.close()
					return nil, err
				}
				return p, nil
			},
		})
	}
	return plans, nil
}

type selectPlayer struct {
	crew   *crew
	points [][]byte
	next   []int       // by client
	times  [][]float64 // likewise
}

func (p *selectPlayer) close() { p.crew.close() }

func (p *selectPlayer) turn(d time.Duration) (turn, error) {
	for i := range p.times {
		p.times[i] = p.times[i][:0]
	}
	rate, steps, err := p.crew.work(d, func(number int, c *client) error {
		packets := p.points[p.next[number]%len(p.points)]
		p.next[number]++
		begin := time.Now()
		a, err := c.run(packets)
		p.times[number] = append(p.times[number], time.Since(begin).Seconds())
		if err == nil && (a.rows != 1 || a.bytes != 121) {
			err = fmt.Errorf("a point of %d rows and %d bytes", a.rows, a.bytes)
		}
		return err
	})
	var all []float64
	for _, times := range p.times {
		all = append(all, times...)
	}
	return turn{statements: steps, values: map[string]float64{
		"rate": rate, "latency": statistics.Median(all), "p99": statistics.Quantile(all, 0.99),
	}}, err
}

func planResult(b *bench) ([]plan, error) {
	rows := b.options.ResultBytes / rowBytes
	// A literal costs the server less than any function does. Three more bytes are for its length.
	packets := encode(fmt.Sprintf("SELECT '%s' FROM points a, points b LIMIT %d", strings.Repeat("x", rowBytes-3), rows))
	return []plan{{
		cell: &Cell{Workload: "result", Parameters: []Parameter{{"size", size(b.options.ResultBytes)}}, Metrics: []Metric{
			{Key: "rate", Title: "bytes of a long result per second", Unit: ByteRate, Higher: true}}},
		arms: b.passing(), prepare: b.preparePoints,
		open: func(w way, _ int) (player, error) {
			return b.openSingle(w, func(c *client) (map[string]float64, error) {
				begin := time.Now()
				a, err := c.run(packets)
				if err == nil && (a.rows != rows || a.bytes != rows*rowBytes) {
					err = fmt.Errorf("a result of %d rows and %d bytes, want %d and %d", a.rows, a.bytes, rows, rows*rowBytes)
				}
				return map[string]float64{"rate": float64(a.bytes) / time.Since(begin).Seconds()}, err
			})
		},
	}}, nil
}

func planBlobs(b *bench) ([]plan, error) {
	n := b.options.BlobBytes
	if b.backend.packet < n+1024 {
		b.note("without blobs: max_allowed_packet of the server is %s", size(b.backend.packet))
		return nil, nil
	}
	var up []byte // made when it is needed
	down := encode(fmt.Sprintf("SELECT REPEAT('%s', %d)", strings.Repeat("x", blobUnit), n/blobUnit))
	return []plan{{
		cell: &Cell{Workload: "blobs", Parameters: []Parameter{{"size", size(n)}}, Metrics: []Metric{
			{Key: "up", Title: "a blob to the server", Unit: Seconds}, {Key: "down", Title: "a blob from the server", Unit: Seconds}}},
		arms: b.passing(),
		prepare: func(context.Context) error {
			up = encode("SELECT LENGTH('" + strings.Repeat("x", n) + "')")
			return nil
		},
		open: func(w way, _ int) (player, error) {
			return b.openSingle(w, func(c *client) (map[string]float64, error) {
				begin := time.Now()
				a, err := c.run(up)
				if err != nil {
					return nil, fmt.Errorf("to the server: %w", err)
				}
				middle := time.Now()
				if number := strconv.Itoa(n); a.rows != 1 || string(a.first) != string(rune(len(number)))+number {
					return nil, fmt.Errorf("the server counts %q bytes", a.first)
				}
				if a, err = c.run(down); err != nil {
					return nil, fmt.Errorf("from the server: %w", err)
				}
				end := time.Now()
				if a.rows != 1 || a.bytes < n {
					return nil, fmt.Errorf("%d rows and %d bytes came", a.rows, a.bytes)
				}
				return map[string]float64{"up": middle.Sub(begin).Seconds(), "down": end.Sub(middle).Seconds()}, nil
			})
		},
	}}, nil
}

// blobUnit is what blobs are a multiple of: the server puts them together from pieces of that size.
const blobUnit = 1 << 10

// size writes a number of bytes for people.
func size(n int) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// singlePlayer does one long thing in every turn, on one connection.
type singlePlayer struct {
	bench  *bench
	client *client
	do     func(*client) (map[string]float64, error)
}

func (b *bench) openSingle(w way, do func(*client) (map[string]float64, error)) (player, error) {
	c, err := b.connect(w.login)
	if err != nil {
		return nil, err
	}
	return &singlePlayer{b, c, do}, nil
}

func (p *singlePlayer) close() { p.bench.release(p.client) }

func (p *singlePlayer) turn(time.Duration) (turn, error) {
	var t turn
	err := alone(func() (err error) {
		t.statements = 1
		t.values, err = p.do(p.client)
		return err
	})
	return t, err
}

func planConnects(b *bench) ([]plan, error) {
	return []plan{{
		cell: &Cell{Workload: "connects", Metrics: []Metric{
			{Key: "latency", Title: "connect, select, disconnect", Unit: Seconds},
			{Key: "p99", Title: "connect, select, disconnect, 99th percentile", Unit: Seconds}}},
		arms: b.passing(),
		open: func(w way, _ int) (player, error) { return &connectPlayer{b, w.login}, nil },
	}}, nil
}

// connectPlayer makes one connection after the other.
type connectPlayer struct {
	bench *bench
	login login
}

func (*connectPlayer) close() {}

// mostConnects of a turn bound the ports that wait for late packets.
const mostConnects = 300

var one = encode("SELECT 1")

func (p *connectPlayer) turn(d time.Duration) (turn, error) {
	var times []float64
	err := alone(func() error {
		for begin := time.Now(); len(times) == 0 || time.Since(begin) < d && len(times) < mostConnects; {
			begin := time.Now()
			c, err := connect(p.login)
			if err != nil {
				return err
			}
			if _, err = c.run(one); err != nil {
				c.close()
				return err
			}
			if err := c.quit(); err != nil {
				return err
			}
			times = append(times, time.Since(begin).Seconds())
			if err := p.bench.ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	return turn{statements: len(times), values: map[string]float64{
		"latency": statistics.Median(times), "p99": statistics.Quantile(times, 0.99),
	}}, err
}
