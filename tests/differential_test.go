//go:build realserver

package tests

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tmpproxy/testbed/relay"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/differential"
	"tmpproxy/tests/process"
	"tmpproxy/trial/compare"
)

// settings are further settings of the proxies under test, for looking into a failure.
var settings = flag.String("proxy", "", "further settings of tmpproxy, as NAME=value separated by blanks")

// related has the scripts for MariaDB 10.11 run on its other series as well.
var related = flag.Bool("related", false, "run the scripts for MariaDB 10.11 on 10.5 and 11.8 as well")

// flavours are the servers of the scripts by the names these use. MySQL's binary log is on by default, MariaDB's is off.
var flavours = map[string]struct {
	kind server.Kind
	args []string
}{
	"mysql":          {server.MySQL, nil},
	"mysql-nobinlog": {server.MySQL, []string{"--skip-log-bin", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"}},
	"mariadb":        {server.MariaDB, nil},
	"mariadb-binlog": {server.MariaDB, []string{"--log-bin"}},
	"mariadb-11.8":   {server.MariaDB118, nil},
	"mariadb-10.5":   {server.MariaDB105, nil},
}

// scripts returns all scripts, parsed.
func scripts(t *testing.T) []*compare.Script {
	t.Helper()
	var files []string
	for _, pattern := range []string{"scripts/*.txt", "../trial/conform/scripts/*.txt"} { // the latter come with the program
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Fatal("no scripts")
	}
	var list []*compare.Script
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script, err := compare.Parse(file, string(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range script.Servers {
			if _, ok := flavours[name]; !ok {
				t.Fatalf("%s: no server is called %s", file, name)
			}
		}
		list = append(list, script)
	}
	return list
}

// eachServer runs a test for each server that a script asks for, on servers of that test's own kind side by side.
func eachServer(t *testing.T, list []*compare.Script, test func(t *testing.T, s *server.Server, script *compare.Script, flavour string)) {
	for name, flavour := range flavours {
		wanted := slices.DeleteFunc(slices.Clone(list), func(s *compare.Script) bool {
			other := *related && (name == "mariadb-10.5" || name == "mariadb-11.8") && slices.Contains(s.Servers, "mariadb")
			return !other && !slices.Contains(s.Servers, name)
		})
		if len(wanted) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var once sync.Once
			var s *server.Server
			start := func(t *testing.T) *server.Server {
				t.Helper()
				once.Do(func() {
					if flavour.args == nil {
						s = shared(t, flavour.kind)
					} else if own, err := server.Start(context.Background(), flavour.kind, server.Options{Args: flavour.args}); err != nil {
						t.Error(err)
					} else {
						s = own
					}
				})
				if s == nil {
					t.FailNow()
				}
				return s
			}
			t.Cleanup(func() {
				if s != nil && flavour.args != nil {
					if err := s.Stop(); err != nil {
						t.Error(err)
					}
				}
			})
			for _, script := range wanted {
				t.Run(script.Name, func(t *testing.T) { test(t, start(t), script, name) })
			}
		})
	}
}

func run(t *testing.T, s *server.Server, target differential.Target, script *compare.Script, variant differential.Variant) *differential.Outcome {
	t.Helper()
	outcome, err := differential.Run(context.Background(), s, target, script, variant)
	if err != nil {
		t.Fatalf("%s at %s: %v", variant.Name, target.Address, err)
	}
	return outcome
}

func direct(s *server.Server) differential.Target {
	return differential.Target{Network: "tcp", Address: s.Address}
}

// TestDifferential runs every script directly and through a proxy of every strategy that the script names.
func TestDifferential(t *testing.T) {
	list := scripts(t)
	verdicts := map[*compare.Script]*compare.Verdict{}
	for _, script := range list {
		verdicts[script] = compare.NewVerdict(script)
	}
	t.Cleanup(func() {
		for script, verdict := range verdicts {
			for _, name := range verdict.Unused() {
				t.Errorf("%s: the allowance %s is declared but no difference needs it", script.Name, name)
			}
		}
	})
	eachServer(t, list, func(t *testing.T, s *server.Server, script *compare.Script, flavour string) {
		proxies := startProxies(t, s, script.Strategies, script.Settings)
		verdict := verdicts[script]
		for _, variant := range differential.Variants {
			reference := run(t, s, direct(s), script, variant)
			own := slices.Contains(script.Servers, flavour) // or else only what differs counts: another series has other errors
			for _, fault := range reference.Faults {
				if own {
					t.Errorf("%s, direct: %s", variant.Name, fault)
				}
			}
			for _, strategy := range script.Strategies {
				proxied := run(t, s, differential.Target{Network: "tcp", Address: proxies[strategy].Address}, script, variant)
				bad := verdict.Judge(flavour, strategy, variant.Name, compare.Compare(reference.Events, proxied.Events))
				report(t, bad)
				if variant.Name != "plain" || !own {
					continue
				}
				saved := reference.Creates - proxied.Creates
				if want := script.SavesWith(strategy, flavour); want != (saved > 0) && !slices.Contains(script.Depends, strategy) {
					t.Errorf("%s: %d CREATEs directly, %d through the proxy", strategy, reference.Creates, proxied.Creates)
				}
			}
		}
	})
}

// startProxies starts a proxy for each strategy, side by side, with further settings (key=value). They are stopped at the test's
// end.
func startProxies(t *testing.T, s *server.Server, strategies, further []string) map[string]*process.Process {
	t.Helper()
	list := make([]*process.Process, len(strategies))
	var group sync.WaitGroup
	for i, strategy := range strategies {
		group.Go(func() {
			settings := append([]string{"TMPPROXY_LOG_LEVEL=debug"}, strings.Fields(*settings)...)
			for _, setting := range further {
				key, value, _ := strings.Cut(setting, "=")
				settings = append(settings, "TMPPROXY_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))+"="+value)
			}
			if strategy == "preserve" {
				settings = append(settings, "TMPPROXY_REWRITE_STRATEGY=innodb", "TMPPROXY_REWRITE_ON_ROLLBACK=preserve")
			} else {
				settings = append(settings, "TMPPROXY_REWRITE_STRATEGY="+strategy)
			}
			p, err := process.Start(context.Background(), s.Address, settings...)
			if err != nil {
				t.Error(err)
				return
			}
			list[i] = p
			t.Cleanup(func() {
				if err := p.Stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
	proxies := map[string]*process.Process{}
	for i, strategy := range strategies {
		proxies[strategy] = list[i]
	}
	return proxies
}

// report prints some differences, those of the same step and field once.
func report(t *testing.T, differences []compare.Difference) {
	t.Helper()
	type place struct {
		line        int
		probe, path string
	}
	var order []place
	count := map[place]int{}
	first := map[place]string{}
	for _, d := range differences {
		p := place{d.Step().Line, d.DirectEvent.Probe, d.Path}
		if count[p]++; count[p] == 1 {
			order = append(order, p)
			first[p] = strings.ReplaceAll(d.String(), "\n", " ")
			if names := d.Suggest(); len(names) > 0 {
				first[p] += fmt.Sprintf("; allowed by %s", strings.Join(names, " or "))
			}
		}
	}
	const most = 40
	for i, p := range order {
		if i == most {
			t.Errorf("… and %d more", len(order)-most)
			return
		}
		t.Errorf("%s (%d times)", first[p], count[p])
	}
}

// TestScriptsAreStable runs every script directly twice: what differs then would not be the proxy's doing.
func TestScriptsAreStable(t *testing.T) {
	eachServer(t, scripts(t), func(t *testing.T, s *server.Server, script *compare.Script, flavour string) {
		variant := differential.Variants[0]
		first := run(t, s, direct(s), script, variant)
		second := run(t, s, direct(s), script, variant)
		report(t, compare.Compare(first.Events, second.Events))
		if first.Creates != second.Creates {
			t.Errorf("%d CREATEs, then %d", first.Creates, second.Creates)
		}
	})
}

// TestInjectedDifference has a relay change one thing in what the server sends; the comparison must find that and
// nothing else.
func TestInjectedDifference(t *testing.T) {
	script, err := compare.Parse("injected", "setup:\nCREATE TABLE seen (v VARCHAR(20))\nrun:\n"+
		"INSERT INTO seen VALUES ('needle')\nSELECT v AS needle_column FROM seen\n!1146 SELECT * FROM needle_table\nSELECT 1\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []server.Kind{server.MySQL, server.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			s := shared(t, kind)
			variant := differential.Variants[0]
			reference := run(t, s, direct(s), script, variant)
			for name, c := range map[string]struct{ from, to, path string }{
				"nothing":     {"haystack", "haystock", ""},
				"value":       {"\x06needle", "\x06noodle", "result[0].row[0][0]"},
				"column name": {"\x0dneedle_column", "\x0dnoodle_column", "result[0].column[0].name"},
				"message":     {"needle_table' doesn't", "noodle_table' doesn't", "result[0].error.message"},
				// the OK of the INSERT: one affected row, no insert id, autocommit, no warnings
				"status":   {"\x00\x01\x00\x02\x00\x00\x00", "\x00\x01\x00\x03\x00\x00\x00", "result[0].end.status"},
				"warnings": {"\x00\x01\x00\x02\x00\x00\x00", "\x00\x01\x00\x02\x00\x01\x00", "result[0].end.warnings"},
				"affected": {"\x00\x01\x00\x02\x00\x00\x00", "\x00\x02\x00\x02\x00\x00\x00", "result[0].end.affected_rows"},
			} {
				t.Run(name, func(t *testing.T) {
					changed := run(t, s, tamper(t, s.Address, c.from, c.to), script, variant)
					differences := compare.Compare(reference.Events, changed.Events)
					if c.path == "" {
						report(t, differences)
						return
					}
					if len(differences) != 1 || differences[0].Path != c.path {
						t.Errorf("found %v, want one difference of %s", differences, c.path)
					}
				})
			}
		})
	}
}

// tamper relays connections to a server and replaces bytes in what that sends by as many others.
func tamper(t *testing.T, address, from, to string) differential.Target {
	t.Helper()
	l, err := relay.Start(relay.To("tcp", address), func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(from), []byte(to)) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return differential.Target{Network: "tcp", Address: l.Addr().String()}
}
