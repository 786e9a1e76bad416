//go:build realserver

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"tmpproxy/testbed/relay"
	"tmpproxy/testbed/server"
)

// begin starts a server of its own with the workloads' tables, and connects the workloads to it: directly and through a
// relay.
func begin(t *testing.T, kind server.Kind, pauses ...time.Duration) (*server.Server, *experiment) {
	t.Helper()
	ctx := context.Background()
	s, err := server.Start(ctx, kind, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	workloads := []workload{newRelstorage(), newReport()}
	if err := createSchema(ctx, s, workloads); err != nil {
		t.Fatal(err)
	}
	l, err := relay.Start(relay.To("tcp", s.Address), nil) // something that only carries bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	paths := []path{{"direct", s.Address}, {"relay", l.Addr().String()}}
	e, err := newExperiment(s.Config(schema), paths, workloads, pauses)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.close)
	return s, e
}

// counters are statements that reached the server, by its own count.
type counters struct {
	create, drop int
}

// sent returns how many statements of the session reached the server, by the server's own count since the connection
// was made. MySQL counts temporary tables as tables, MariaDB apart.
func (s *session) sent() (counters, error) {
	var c counters
	rows, err := readRows(s.conn, `SHOW SESSION STATUS WHERE Variable_name IN ('Com_create_table',
		'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table')`)
	if err != nil {
		return c, err
	}
	for _, row := range rows {
		var name string
		var n int
		if _, err := fmt.Sscan(row, &name, &n); err != nil {
			return c, fmt.Errorf("status %q: %w", row, err)
		}
		switch name {
		case "Com_create_table", "Com_create_temporary_table":
			c.create += n
		case "Com_drop_table", "Com_drop_temporary_table":
			c.drop += n
		}
	}
	return c, nil
}

// TestExperiment measures a relay that changes nothing: every CREATE and DROP must be found at the server.
func TestExperiment(t *testing.T) {
	for _, kind := range []server.Kind{server.MySQL, server.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			_, e := begin(t, kind, 0, time.Millisecond)
			const rounds = 2
			p := &progress{w: io.Discard, total: e.steps(rounds)}
			if err := e.run(context.Background(), rounds, 20*time.Millisecond, p); err != nil {
				t.Fatal(err)
			}
			if p.done != p.total {
				t.Errorf("%d of %d steps", p.done, p.total)
			}
			blocks := e.blocks()
			var out bytes.Buffer
			if err := writeTable(&out, blocks); err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", out.String())
			if len(blocks) != 4 {
				t.Fatalf("%d blocks, want 4", len(blocks))
			}
			for i, b := range blocks {
				tables := 2 // RelStorage
				if i >= 2 {
					tables = 1
				}
				for j, r := range b.rows {
					for _, s := range e.groups[i].lines[j].sessions {
						if least := warmup + rounds; s.cycles < least {
							t.Errorf("%s, %s: %d cycles, want at least %d", b.title, r.name, s.cycles, least)
						}
						got, err := s.sent()
						if err != nil {
							t.Fatal(err)
						}
						if want := (counters{tables * s.cycles, tables * s.cycles}); got != want {
							t.Errorf("%s, %s: the server counted %+v, want %+v", b.title, r.name, got, want)
						}
					}
					if len(r.rounds) != rounds {
						t.Errorf("%s, %s: %d rounds, want %d", b.title, r.name, len(r.rounds), rounds)
					}
					for _, f := range r.rounds {
						if f.ddl <= 0 || f.cycle <= float64(tables)*f.ddl/2 {
							t.Errorf("%s, %s: figures %+v make no sense", b.title, r.name, f)
						}
					}
				}
			}
		})
	}
}

// TestWrongAnswers falsifies what the workloads rely on: they must notice.
func TestWrongAnswers(t *testing.T) {
	s, e := begin(t, server.MySQL, 0)
	if err := s.Exec(context.Background(), "DELETE FROM demo.object_state WHERE zoid = 3", "DELETE FROM demo.sales WHERE day = 0 AND customer < 20"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"temp_store held something else", "the report on day 0 is wrong"} {
		l := e.groups[i].lines[0]
		if err := l.sessions[0].run(l.workload); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", e.groups[i].title, err, want)
		}
	}
}

// TestInterrupt cuts an experiment that waits for an answer.
func TestInterrupt(t *testing.T) {
	s, e := begin(t, server.MySQL, 0)
	if err := s.Exec(context.Background(), "LOCK TABLES demo.object_state WRITE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	begin := time.Now()
	err := e.run(ctx, 1, time.Hour, &progress{w: io.Discard, total: 1})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}
