//go:build realserver

package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

// TestGalera loses the first node of a cluster of three and gets it back.
func TestGalera(t *testing.T) {
	ctx := context.Background()
	began := time.Now()
	cluster, err := server.StartCluster(ctx, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the cluster was there after %v", time.Since(began))
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	first := cluster.Nodes[0]
	executeDirectly(t, first, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=InnoDB", "CREATE USER monitor IDENTIFIED BY 'secret'")
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for _, s := range cluster.Nodes {
		addresses = append(addresses, s.Address)
	}
	type front struct {
		address   string
		up        func() string
		old       *rawclient.Conn // with the first node
		elsewhere *rawclient.Conn // with the second
	}
	fronts := map[string]*front{}
	for _, driver := range drivers {
		list := strings.Join(addresses, ",")
		p := startProxy(t, list, "TMPPROXY_RELAY_DRIVER="+driver, "TMPPROXY_BACKEND_MONITOR_USER=monitor",
			"TMPPROXY_BACKEND_MONITOR_PASSWORD_FILE="+password, "TMPPROXY_BACKEND_CHECK_INTERVAL=100ms", "TMPPROXY_RELOAD_WATCH=0s")
		// One that prefers the second node shows what a loss does to sessions elsewhere.
		other := startProxy(t, addresses[1]+","+addresses[0], "TMPPROXY_RELAY_DRIVER="+driver)
		f := &front{address: p.Address}
		f.up = func() string {
			text, err := p.Get("/metrics")
			if err != nil {
				t.Fatal(err)
			}
			var up strings.Builder
			for _, a := range addresses {
				_, rest, _ := strings.Cut(text, `tmpproxy_backend_up{backend="`+a+`"} `)
				up.WriteString(rest[:min(1, len(rest))])
			}
			return up.String()
		}
		f.old = connect(t, configure(first, p.Address, "d"))
		f.elsewhere = connect(t, configure(first, other.Address, "d"))
		fronts[driver] = f
	}
	node := func(c *rawclient.Conn) string { return "127.0.0.1:" + value(t, c, "SELECT @@port") }
	cycles := func(c *rawclient.Conn) {
		t.Helper()
		for range 5 {
			must(t, c, "CREATE TEMPORARY TABLE tt (id INT PRIMARY KEY) ENGINE=MEMORY")
			must(t, c, "INSERT INTO tt VALUES (1), (2)")
			if got := value(t, c, "SELECT COUNT(*) FROM tt"); got != "2" {
				t.Errorf("%s rows", got)
			}
			must(t, c, "DROP TEMPORARY TABLE tt")
		}
		if created := value(t, c, "SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'COM_CREATE_TEMPORARY_TABLE'"); created > "2" { // 1 if the proxy knows the name already
			t.Errorf("%s of 5 CREATEs reached the node", created)
		}
	}
	for driver, f := range fronts {
		await(t, driver+": all are up", func() bool { return f.up() == "111" })
		if got := node(f.old); got != first.Address {
			t.Errorf("%s: served by %s", driver, got)
		}
		cycles(f.old)
		must(t, f.elsewhere, "SELECT 1")
	}

	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	for driver, f := range fronts {
		c := connect(t, configure(first, f.address, "d"))
		if got := node(c); got != addresses[1] {
			t.Errorf("%s: served by %s", driver, got)
		}
		if took := time.Since(killed); took > time.Second {
			t.Errorf("%s: a new client was served after %v", driver, took)
		} else {
			t.Logf("%s: a new client was served after %v", driver, took)
		}
		if got := ending(f.old); got != "the connection has ended" {
			t.Errorf("%s: the session of the node that was killed: %s", driver, got)
		}
		if got := node(f.elsewhere); got != addresses[1] {
			t.Errorf("%s: the other session is with %s", driver, got)
		}
		cycles(c)
		await(t, driver+": the first is down", func() bool { return f.up() == "011" })
	}
	// Two of three go on, as soon as they have agreed that they are two.
	c := connect(t, configure(first, fronts["loop"].address, "d"))
	must(t, c, "INSERT INTO t VALUES (7)")

	if err := cluster.Revive(ctx, 0); err != nil {
		t.Fatal(err)
	}
	for driver, f := range fronts {
		await(t, driver+": the first is back", func() bool { return f.up() == "111" })
		c := connect(t, configure(first, f.address, "d"))
		if got := node(c); got != first.Address {
			t.Errorf("%s: served by %s", driver, got)
		}
		if got := value(t, c, "SELECT COUNT(*) FROM t"); got != "1" {
			t.Errorf("%s: %s rows", driver, got)
		}
	}

	// A node that does not keep up with its cluster answers, but with old data.
	executeDirectly(t, first, "SET GLOBAL wsrep_desync = ON")
	for driver, f := range fronts {
		await(t, driver+": the first is not synced", func() bool { return f.up() == "011" })
		if got := node(connect(t, configure(first, f.address, "d"))); got != addresses[1] {
			t.Errorf("%s: served by %s", driver, got)
		}
	}
}

// TestChecksCostNothing looks at what the checks of several servers leave on these.
func TestChecksCostNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind, "--performance-schema=ON")
		executeDirectly(t, s, "CREATE USER monitor IDENTIFIED BY 'secret'")
		password := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		counts := func() string {
			t.Helper()
			rows, err := s.DB().Query("SHOW GLOBAL STATUS WHERE Variable_name IN ('Aborted_connects', 'Aborted_clients', 'Connections')")
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			all := map[string]string{}
			for rows.Next() {
				var name, n string
				if err := rows.Scan(&name, &n); err != nil {
					t.Fatal(err)
				}
				all[name] = n
			}
			text, err := json.Marshal(all)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		before, tail := counts(), s.LogTail(1000)
		for _, settings := range [][]string{nil, {"TMPPROXY_BACKEND_MONITOR_USER=monitor", "TMPPROXY_BACKEND_MONITOR_PASSWORD_FILE=" + password}} {
			// The second name is the same server's.
			_, port, _ := strings.Cut(s.Address, ":")
			p, err := process.Start(context.Background(), s.Address+",localhost:"+port, append(settings, "TMPPROXY_BACKEND_CHECK_INTERVAL=10ms")...)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second) // some 200 checks of each
			if text, err := p.Get("/metrics"); err != nil || strings.Count(text, "\ntmpproxy_backend_up{") != 2 || strings.Contains(text, "\"} 0\ntmpproxy_backend_up") {
				t.Errorf("%v, %s", err, text)
			}
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
			after := counts()
			if settings == nil {
				if after != before {
					t.Errorf("without an account: %s before, %s after", before, after)
				}
				continue
			}
			// Two connections of the monitor's, and some more if the machine was too busy for a check.
			var a, b struct {
				Connections      int `json:",string"`
				Aborted_connects int `json:",string"`
			}
			if err := json.Unmarshal([]byte(before), &a); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(after), &b); err != nil {
				t.Fatal(err)
			}
			if b.Connections > a.Connections+20 || b.Aborted_connects != a.Aborted_connects {
				t.Errorf("with an account: %s before, %s after", before, after)
			}
		}
		if now := s.LogTail(1000); now != tail {
			t.Errorf("the server has logged:\n%s", strings.TrimPrefix(now, tail))
		}
		if blocked := fmt.Sprint(hostErrors(t, s)); kind == server.MySQL && blocked != "0" {
			t.Errorf("%s errors are counted against the host", blocked)
		}
	})
}

// hostErrors is what the server counts against the hosts that connect to it.
func hostErrors(t *testing.T, s *server.Server) (n int) {
	t.Helper()
	if err := s.DB().QueryRow("SELECT COALESCE(SUM(SUM_CONNECT_ERRORS), 0) FROM performance_schema.host_cache").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
