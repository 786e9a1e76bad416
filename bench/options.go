package bench

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Options say what is measured. Full and Quick return useful ones.
type Options struct {
	// Program is tmpproxy's executable, and EchoArgs makes it run ServeEcho: listen on a loopback port, print its address
	// as a line and serve until it is killed.
	Program  string
	EchoArgs []string
	Other    string    // another tmpproxy's executable that takes part with the same strategies; empty for none
	Settings []string  // further flags for tmpproxy, such as --relay.loops=2
	Log      io.Writer // is told what goes on

	Server  string // auto, or a name that testbed/server/obtain.sh takes: a throw-away server is started
	DSN     string // a server of the user's own instead: user:password@tcp(host:port)/
	Durable bool   // the throw-away server waits for the disk at every commit

	Workloads  []string
	Strategies []string
	Peers      []string // haproxy, mysqlrouter

	// In a round every arm works once. An arm that a target is about takes part until the target is decided, and in at most Rounds; others
	// take part in Inform of them. Inform of Rounds or more has all of them work in all rounds.
	Rounds, Inform int
	Turn           time.Duration // how long an arm works in a round
	WarmUp         time.Duration // how long it works before the first one, at most
	Settle         time.Duration // between two looks at a process's memory, of which four must agree

	// of cycles
	Engines    []string // none for a CREATE without ENGINE
	Rows       []int
	Thinks     []time.Duration // before every statement
	RoundTrips []time.Duration
	Between    []int // statements that have nothing to do with the table, between its DROP and the next CREATE
	// Thin leaves out cycles where the client thinks or the server is far: of engines but the first every other of Rows, and none where both
	// are so; likewise of all engines, and with statements between for the first engine alone, where the round trip is not the shortest. And it
	// leaves out RelStorage's larger objects but with the fewest connections.
	Thin bool

	// of relstorage
	Objects     []int // of one transaction
	States      []int // bytes of one object
	Connections []int

	Selects []int // connections that select points at the same time, without TLS and with it

	ResultBytes int
	BlobBytes   int
	Sessions    []int // that are idle

	Only    *regexp.Regexp      // of the lines of the report, such as "cycles engine MEMORY, rows 10, …", those that match; nil for all
	Earlier *Report             // what is measured becomes part of it, in place of what it holds of the same line
	Missing bool                // what Earlier holds is not measured again
	For     time.Duration       // no line is begun later than that; 0 for no limit
	Keep    func(*Report) error // is given what there is, behind every line; may be nil
}

// Workloads are the names of all workloads in the order in which they run.
var Workloads = []string{"cycles", "relstorage", "selects", "tls", "result", "connects", "idle", "idle-tls", "blobs"}

// Peers are the names of the other proxies.
var Peers = []string{"haproxy", "mysqlrouter"}

// Full is everything: some 20 minutes.
func Full() Options {
	return Options{
		Server: "auto", Durable: true, Workloads: Workloads, Strategies: []string{"native", "keep", "innodb"}, Peers: Peers,
		Rounds: 15, Inform: 5, Turn: 60 * time.Millisecond, WarmUp: 300 * time.Millisecond, Settle: 250 * time.Millisecond,
		Engines: []string{"MEMORY", "MyISAM", "none"}, Rows: []int{0, 1, 10, 100, 1000, 10000},
		Thinks: []time.Duration{0, time.Millisecond}, RoundTrips: []time.Duration{0, 250 * time.Microsecond, time.Millisecond},
		Between: []int{0, 1}, Thin: true,
		Objects: []int{10, 100, 1000}, States: []int{128, 256}, Connections: []int{2, 6},
		Selects: []int{1, 4, 16}, ResultBytes: 1 << 30, BlobBytes: 64 << 20, Sessions: []int{1000, 10000},
	}
}

// Quick is the same over a coarser grid, in fewer rounds: four minutes.
func Quick() Options {
	o := Full()
	o.Rounds = 5
	o.Engines, o.Rows = []string{"MEMORY"}, []int{0, 10, 1000}
	o.RoundTrips = o.RoundTrips[:2]
	o.States, o.Connections = o.States[:1], o.Connections[:1]
	o.ResultBytes, o.Sessions = 1<<28, o.Sessions[:1]
	return o
}

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	for _, list := range []struct {
		name          string
		values, known []string
	}{
		{"workloads", o.Workloads, Workloads},
		{"peers", o.Peers, Peers},
		{"engines", o.Engines, []string{"MEMORY", "HEAP", "MyISAM", "InnoDB", "Aria", "none"}},
	} {
		for _, v := range list.values {
			if !slices.Contains(list.known, v) {
				return fmt.Errorf("%s: %q is none of %s", list.name, v, strings.Join(list.known, ", "))
			}
		}
	}
	for _, list := range []struct {
		name   string
		values []int
		least  int
	}{{"rows", o.Rows, 0}, {"between", o.Between, 0}, {"objects", o.Objects, 1}, {"states", o.States, 1}, {"connections", o.Connections, 1}, {"selects", o.Selects, 1}, {"sessions", o.Sessions, 1}} {
		for _, v := range list.values {
			if v < list.least {
				return fmt.Errorf("%s: %d is too small", list.name, v)
			}
		}
	}
	switch {
	case o.Rounds < 1:
		return fmt.Errorf("rounds: %d is too small", o.Rounds)
	case o.Inform < 1:
		return fmt.Errorf("inform: %d is too small", o.Inform)
	case o.For < 0:
		return fmt.Errorf("for: %v is too short", o.For)
	case o.Turn <= 0:
		return fmt.Errorf("turn: %v is too short", o.Turn)
	case o.WarmUp < 0 || o.Settle <= 0:
		return fmt.Errorf("warming up for %v and looking at memory every %v is too short", o.WarmUp, o.Settle)
	case o.ResultBytes < rowBytes || o.BlobBytes < blobUnit || o.BlobBytes%blobUnit > 0:
		return fmt.Errorf("a result needs %d bytes, and a blob a multiple of %d", rowBytes, blobUnit)
	}
	return nil
}
