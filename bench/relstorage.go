package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// relstorage is RelStorage 2.0 storing transactions without history: connections that are kept for long, autocommit off,
// two MyISAM tables that are made anew for every transaction, of which the second (for blobs) stays empty. Each connection
// stores objects of its own, for how RelStorage resolves conflicts is not what is looked at; its lock around COMMIT is left
// out.

const (
	replaceRows    = 100                   // of one statement
	zoidsPerClient = uint64(1_000_000_000) // no two connections of a cell share an object
)

func planRelstorage(b *bench) ([]plan, error) {
	o := b.options
	metrics := []Metric{{Key: "objects", Title: "objects stored per second", Unit: PerSecond, Higher: true}}
	var plans []plan
	for _, objects := range o.Objects {
		for i, state := range o.States {
			for _, connections := range o.Connections {
				if o.Thin && i > 0 && connections != slices.Min(o.Connections) {
					continue
				}
				for _, kind := range []string{"add", "update"} {
					plans = append(plans, plan{
						cell: &Cell{Workload: "relstorage", Metrics: metrics, Parameters: []Parameter{
							{"objects", strconv.Itoa(objects)}, {"state", strconv.Itoa(state) + " B"},
							{"connections", strconv.Itoa(connections)}, {"kind", kind}}},
						arms:    append([]string{direct, byHand}, b.withOther(withScan(o.Strategies))...),
						stretch: 4, // a transaction takes long
						prepare: b.prepareRelstorage,
						open: func(w way, number int) (player, error) {
							return b.openStores(w, number, objects, state, connections, kind == "update")
						},
					})
				}
			}
		}
	}
	return plans, nil
}

// withScan adds those strategies that cache tables once more, with routines and triggers read: the INSERT into a permanent table, which
// may have a trigger, is then no reason to look at the temporary tables.
func withScan(strategies []string) []string {
	all := slices.Clone(strategies)
	for _, s := range strategies {
		if s == "innodb" || s == "auto" { // MyISAM is mostly native under keep
			all = append(all, s+scanSuffix)
		}
	}
	return all
}

func (b *bench) prepareRelstorage(ctx context.Context) error {
	return b.backend.exec(ctx, `DROP TABLE IF EXISTS `+schema+`.object_state`, `
        CREATE TABLE `+schema+`.object_state (
            zoid        BIGINT UNSIGNED NOT NULL PRIMARY KEY,
            tid         BIGINT UNSIGNED NOT NULL,
            state_size  BIGINT UNSIGNED NOT NULL,
            state       LONGBLOB,
            KEY object_state_tid (tid)
        ) ENGINE = InnoDB`)
}

var storeBegin = append(encodeAll(
	`ROLLBACK`,
	`DROP TEMPORARY TABLE IF EXISTS temp_store`,
	`DROP TEMPORARY TABLE IF EXISTS temp_blob_chunk`), storeTables...)

// An application that knew what the proxy knows would need no more than this. What is not touched needs no emptying.
var storeByHand = encodeAll(`ROLLBACK`, `TRUNCATE TABLE temp_store`)

var storeTables = encodeAll(`
        CREATE TEMPORARY TABLE temp_store (
            zoid        BIGINT UNSIGNED NOT NULL PRIMARY KEY,
            prev_tid    BIGINT UNSIGNED NOT NULL,
            md5         CHAR(32),
            state       LONGBLOB
        ) ENGINE MyISAM
        `, `
        CREATE TEMPORARY TABLE temp_blob_chunk (
            zoid        BIGINT UNSIGNED NOT NULL,
            chunk_num   BIGINT UNSIGNED NOT NULL,
                        PRIMARY KEY (zoid, chunk_num),
            chunk       LONGBLOB
        ) ENGINE MyISAM
        `)

var storeCommit = encode(`COMMIT`)

func encodeAll(texts ...string) [][]byte {
	var all [][]byte
	for _, text := range texts {
		all = append(all, encode(text))
	}
	return all
}

// storePlayer is one arm's connections.
type storePlayer struct {
	crew    *crew
	stores  []store
	objects int
}

// A store is one connection's.
type store struct {
	zoid    uint64 // of the next transaction's first object
	again   bool   // the same objects every time
	tid     uint64
	objects int
	state   string
	text    []byte
	begin   [][]byte // the statements of every transaction before its objects
}

func (b *bench) openStores(w way, arm, objects, state, connections int, update bool) (*storePlayer, error) {
	crew, err := b.hire(w.login, connections)
	if err != nil {
		return nil, err
	}
	p := &storePlayer{crew: crew, objects: objects, stores: make([]store, connections)}
	letters := make([]byte, state)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range letters {
		letters[i] = byte('0' + random.IntN(75)) // no byte that is to be escaped
		if letters[i] == '\\' {
			letters[i] = ' '
		}
	}
	for i := range p.stores {
		p.stores[i] = store{zoid: uint64(arm*connections+i+1) * zoidsPerClient, objects: objects, state: string(letters), begin: storeBegin}
		if _, err := crew.clients[i].query("SET autocommit = 0"); err != nil {
			p.close()
			return nil, err
		}
		if w.name == byHand {
			p.stores[i].begin = storeByHand
			for _, table := range storeTables {
				if _, err := crew.clients[i].run(bytes.Replace(table, []byte("MyISAM"), []byte("InnoDB"), 1)); err != nil {
					p.close()
					return nil, err
				}
			}
		}
	}
	// The first transactions make the objects that the others change, and warm up.
	if _, _, err := crew.work(0, p.step); err == nil {
		for i := range p.stores {
			p.stores[i].again = update
			if update {
				p.stores[i].zoid -= uint64(objects)
			}
		}
		err = b.warmUp(w, func(_ int, most time.Duration) error {
			_, _, err := crew.work(most/2, p.step)
			return err
		})
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *storePlayer) close() { p.crew.close() }

func (p *storePlayer) step(number int, c *client) error { return p.stores[number].transaction(c) }

func (p *storePlayer) turn(d time.Duration) (turn, error) {
	rate, steps, err := p.crew.work(d, p.step)
	statements := len(p.stores[0].begin) + (p.objects+replaceRows-1)/replaceRows + 2
	return turn{statements: steps * statements, values: map[string]float64{"objects": rate * float64(p.objects)}}, err
}

// transaction stores the next objects.
func (s *store) transaction(c *client) error {
	for _, packets := range s.begin {
		if _, err := c.run(packets); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
	}
	s.tid++
	for from := 0; from < s.objects; from += replaceRows {
		s.text = append(s.text[:0], "REPLACE INTO temp_store (zoid, prev_tid, md5, state) VALUES "...)
		for i := from; i < min(s.objects, from+replaceRows); i++ {
			if i > from {
				s.text = append(s.text, ", "...)
			}
			s.text = append(s.text, '(')
			s.text = strconv.AppendUint(s.text, s.zoid+uint64(i), 10)
			s.text = append(s.text, ", "...)
			s.text = strconv.AppendUint(s.text, s.tid-1, 10)
			s.text = append(append(append(s.text, ", NULL, '"...), s.state...), "')"...)
		}
		if _, err := c.query(string(s.text)); err != nil {
			return fmt.Errorf("REPLACE: %w", err)
		}
	}
	a, err := c.query(strings.Replace(storeMove, "?", strconv.FormatUint(s.tid, 10), 1))
	if err != nil {
		return fmt.Errorf("INSERT: %w", err)
	}
	want := s.objects
	if s.again {
		want *= 2 // the server counts 2 for a row that it updates
	} else {
		s.zoid += uint64(s.objects)
	}
	if a.affected != uint64(want) {
		return fmt.Errorf("a transaction of %d objects changed %d rows, want %d: temp_store held something else", s.objects, a.affected, want)
	}
	if _, err := c.run(storeCommit); err != nil {
		return fmt.Errorf("COMMIT: %w", err)
	}
	return nil
}

const storeMove = `
        INSERT INTO object_state (zoid, tid, state_size, state)
        SELECT zoid, ?, COALESCE(LENGTH(state), 0), state
        FROM temp_store
        ORDER BY zoid
        ON DUPLICATE KEY UPDATE
            tid = VALUES(tid),
            state_size = VALUES(state_size),
            state = VALUES(state)
        `
