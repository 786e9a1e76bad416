package main

import (
	"bufio"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"tmpproxy/bench"
)

func TestStrategyNames(t *testing.T) {
	names := strategyNames()
	if len(names) != len(strategies)-1 || slices.Contains(names, "observe") || !slices.Equal(names[:3], []string{"native", "keep", "innodb"}) {
		t.Errorf("got %q", names)
	}
}

// TestQuickBench gives every flag another value than both a full and a quick run have.
func TestQuickBench(t *testing.T) {
	given := fullBench()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	benchFlags(flags, &given)
	if got, want := quickBench(flags), bench.Quick(); got.Rounds != want.Rounds || !slices.Equal(got.Rows, want.Rows) || !slices.Equal(got.Strategies, strategyNames()) {
		t.Errorf("without flags: %+v", got)
	}
	for name, value := range map[string]string{
		"server": "mariadb", "dsn": "x@tcp(h:1)/", "durable": "false", "set": "relay.loops=2,log.level=info", "other": "old", "rounds": "3", "inform": "2", "turn": "7ms", "warm-up": "8ms",
		"workloads": "idle", "strategies": "keep", "peers": "", "engines": "Aria", "rows": "5,6", "think": "2ms", "rtt": "3ms,4ms", "between": "9", "objects": "11",
		"states": "12", "connections": "13", "selects": "14", "sessions": "15", "result-bytes": "16", "blob-bytes": "17",
		"thin": "false",
	} {
		if err := flags.Set(name, value); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			t.Errorf("%s is not tried here", f.Name)
		}
	})
	got, want := quickBench(flags), bench.Options{
		Server: "mariadb", DSN: "x@tcp(h:1)/", Settings: []string{"relay.loops=2", "log.level=info"}, Other: "old", Rounds: 3, Inform: 2, Turn: 7 * time.Millisecond, WarmUp: 8 * time.Millisecond,
		Settle: bench.Quick().Settle, Workloads: []string{"idle"}, Strategies: []string{"keep"}, Peers: []string{}, Engines: []string{"Aria"}, Rows: []int{5, 6},
		Thinks: []time.Duration{2 * time.Millisecond}, RoundTrips: []time.Duration{3 * time.Millisecond, 4 * time.Millisecond}, Between: []int{9}, Objects: []int{11},
		States: []int{12}, Connections: []int{13}, Selects: []int{14}, Sessions: []int{15}, ResultBytes: 16, BlobBytes: 17,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestBenchEcho runs the command that bench measures echoes of.
func TestBenchEcho(t *testing.T) {
	c := command(t, "bench", echoCommand)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimSpace(address))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "anyone there?"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 13)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "anyone there?" {
		t.Errorf("got %q, %v", got, err)
	}
}
