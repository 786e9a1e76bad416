//go:build realserver

package tests

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
)

// TestKillDuringReset has KILL QUERY hit whatever a session does, the proxy's own statements among it: a statement of the client
// fails with 1317 or does all it should, a table is never found with rows of an earlier cycle, and never found again after it was dropped.
func TestKillDuringReset(t *testing.T) {
	const rows, cycles, interrupted = 1000, 60, 1317
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "killed")
		executeDirectly(t, s, "CREATE TABLE killed.numbers (n INT PRIMARY KEY)",
			fmt.Sprintf("INSERT INTO killed.numbers SELECT 100 * (a.id - 1) + b.id FROM (%[1]s) a JOIN (%[1]s) b ON a.id <= %d",
				"SELECT ROW_NUMBER() OVER () AS id FROM information_schema.columns LIMIT 100", rows/100))
		for _, settings := range []string{"STRATEGY=keep", "STRATEGY=innodb", "STRATEGY=innodb RESET=auto"} {
			t.Run(settings, func(t *testing.T) {
				var environment []string
				for field := range strings.FieldsSeq(settings) {
					environment = append(environment, "TMPPROXY_REWRITE_"+field)
				}
				p := startProxy(t, s.Address, environment...)
				victim := connect(t, configure(s, p.Address, "killed"))
				killer := connect(t, configure(s, s.Address, ""))
				kills := 0
				var over chan struct{}
				var killing sync.WaitGroup
				kill := func() {
					for {
						select {
						case <-over:
							return
						default:
						}
						if reply, err := killer.Query(fmt.Sprint("KILL QUERY ", victim.Greeting.ThreadID)); err != nil || reply.Err() != nil {
							t.Error("KILL QUERY: ", told(reply, err))
							return
						}
					}
				}
				// run sends a statement until it is not interrupted; the error of its last reply is returned.
				run := func(text string) (reply rawclient.Reply, code uint16) {
					for {
						reply, err := victim.Query(text)
						if err != nil {
							t.Fatalf("%s: %v", text, err)
						}
						e := reply.Err()
						if e == nil {
							return reply, 0
						}
						if e.Code != interrupted {
							return reply, e.Code
						}
						kills++
					}
				}
				for cycle := 0; cycle < cycles || kills == 0 && cycle < 50*cycles; cycle++ {
					name := fmt.Sprint("t", cycle%3)
					if reply, code := run("CREATE TEMPORARY TABLE " + name + " (n INT PRIMARY KEY, v INT) ENGINE=MEMORY"); code != 0 {
						t.Fatalf("cycle %d: CREATE: %v", cycle, reply.AsError())
					}
					if reply, code := run("SELECT COUNT(*) FROM " + name); code != 0 || !holds(reply, 0) {
						t.Fatalf("cycle %d: the new table: %s", cycle, told(reply, nil))
					}
					if cycle > 0 {
						close(over)
						killing.Wait()
					}
					if reply, code := run("INSERT INTO " + name + " SELECT n, 1 FROM numbers"); code != 0 {
						t.Fatalf("cycle %d: INSERT: %v", cycle, reply.AsError())
					}
					if reply, code := run("SELECT COUNT(*) FROM " + name); code != 0 || !holds(reply, rows) {
						t.Fatalf("cycle %d: the filled table: %s", cycle, told(reply, nil))
					}
					over = make(chan struct{})
					killing.Go(kill)
					if reply, code := run("DROP TEMPORARY TABLE " + name); code != 0 {
						t.Fatalf("cycle %d: DROP: %v", cycle, reply.AsError())
					}
					if cycle%5 == 0 {
						if reply, code := run("SELECT * FROM " + name); code != 1146 {
							t.Fatalf("cycle %d: the dropped table: %s", cycle, told(reply, nil))
						}
					}
				}
				close(over)
				killing.Wait()
				if kills == 0 {
					t.Error("no statement was ever interrupted")
				}
				page, err := p.Get("/metrics")
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range []string{"tmpproxy_reuses_total", "tmpproxy_settles_total"} {
					if !regexp.MustCompile(`(?m)^` + want + `(\{.*\})? [1-9]`).MatchString(page) {
						t.Errorf("%s is 0", want)
					}
				}
				t.Logf("%d statements were interrupted", kills)
			})
		}
	})
}

// holds tells whether a reply is one row with that number.
func holds(reply rawclient.Reply, n int) bool {
	if len(reply.Results) != 1 || len(reply.Results[0].Rows) != 1 {
		return false
	}
	values, err := rawclient.TextRow(reply.Results[0].Rows[0])
	return err == nil && len(values) == 1 && string(values[0]) == strconv.Itoa(n)
}
