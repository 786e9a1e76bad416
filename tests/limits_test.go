//go:build realserver

package tests

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
)

// counter is a counter of the server's.
func counter(t testing.TB, s *server.Server, name string) (n int) {
	t.Helper()
	var as string
	if err := s.DB().QueryRow("SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&as, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitSessions waits until a server knows of n sessions that a condition on its process list selects: whatever ended without a word before,
// which it counts among the aborted clients, it has counted then.
func awaitSessions(t testing.TB, s *server.Server, n int, condition string) {
	t.Helper()
	await(t, fmt.Sprintf("%d sessions with %s", n, condition), func() bool {
		var got int
		if err := s.DB().QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE " + condition).Scan(&got); err != nil {
			t.Fatal(err)
		}
		return got == n
	})
}

// TestMaxUserSessions has more sessions of a user than it may have, counted by a server itself and by the proxy: the client is told the
// same, but for where it is set.
func TestMaxUserSessions(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		limiting, s := own(t, kind, "--max-user-connections=2"), shared(t, kind)
		users := []string{"CREATE USER limit_a IDENTIFIED BY 'secret'", "CREATE USER limit_b IDENTIFIED BY 'secret'"}
		executeDirectly(t, limiting, users...)
		executeDirectly(t, s, append([]string{"DROP USER IF EXISTS limit_a, limit_b"}, users...)...)
		t.Cleanup(func() { executeDirectly(t, s, "DROP USER limit_a, limit_b") })
		as := func(address, user, password string, secure bool) rawclient.Config {
			c := rawclient.Config{Network: "tcp", Address: address, User: user, Password: password}
			if secure {
				c.TLS = &tls.Config{InsecureSkipVerify: true} // the proxy makes its certificate itself
			}
			return c
		}
		refusal := func(config rawclient.Config) string {
			t.Helper()
			c, err := rawclient.Connect(config)
			if err == nil {
				c.Close()
				return "let in"
			}
			refusal := (*rawclient.ServerError)(nil)
			if !errors.As(err, &refusal) {
				t.Fatal(err)
			}
			return refusal.Error()
		}
		const place = " (limits.max_user_sessions of tmpproxy)"
		for range 2 {
			connect(t, as(limiting.Address, "limit_a", "secret", false))
		}
		full, wrong := refusal(as(limiting.Address, "limit_a", "secret", false)), refusal(as(limiting.Address, "limit_a", "nonsense", false))
		if !strings.HasPrefix(full, "ERR 1203 (42000): ") || !strings.HasPrefix(wrong, "ERR 1045 ") {
			t.Fatalf("directly: %s and %s", full, wrong)
		}
		for _, d := range drivers {
			for _, secure := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, TLS %v", d, secure), func(t *testing.T) {
					file := filepath.Join(t.TempDir(), "config.yaml")
					write := func(limit int) {
						if err := os.WriteFile(file, fmt.Appendf(nil, "limits: {max_user_sessions: %d}\nlisten: {tls: {mode: optional}}\n", limit), 0o600); err != nil {
							t.Fatal(err)
						}
					}
					write(2)
					p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_CONFIG="+file)
					config := as(p.Address, "limit_a", "secret", secure)
					first, second := connect(t, config), connect(t, config)
					other := connect(t, as(p.Address, "limit_b", "secret", secure))
					awaitSessions(t, s, 3, "user LIKE 'limit%'")
					aborted := counter(t, s, "Aborted_clients")
					if got := refusal(config); got != full+place {
						t.Errorf("full: %s, directly %s", got, full)
					}
					if got := refusal(as(p.Address, "limit_a", "nonsense", secure)); got != wrong {
						t.Errorf("full and a wrong password: %s, directly %s", got, wrong)
					}
					if got := told(other.ChangeUser("limit_a", "secret", "")); got != full+place {
						t.Errorf("change to a user who is full: %s", got)
					}
					if got := ending(other); got != "the connection has ended" {
						t.Errorf("behind it: %s", got)
					}
					if n := counter(t, s, "Aborted_clients"); n != aborted {
						t.Errorf("the server counts %d aborted clients", n-aborted)
					}
					if page, err := p.Get("/metrics"); err != nil || !strings.Contains(page, `tmpproxy_refused_clients_total{reason="max_user_sessions"} 2`) {
						t.Errorf("metrics: %v\n%s", err, page)
					}
					must(t, second, "DO 1")
					if err := first.Quit(); err != nil {
						t.Fatal(err)
					}
					await(t, "there is room", func() bool { return len(sessions(t, p)) == 1 })
					third := connect(t, config)
					write(3)
					if err := p.Signal(syscall.SIGHUP); err != nil {
						t.Fatal(err)
					}
					await(t, "settings reloaded", func() bool { return strings.Contains(p.Log(), "settings reloaded") })
					fourth := connect(t, config)
					if got := refusal(config); got != full+place {
						t.Errorf("full again: %s", got)
					}
					for _, c := range []*rawclient.Conn{second, third, fourth} {
						must(t, c, "DO 1")
					}
				})
			}
		}
	})
}

// rest reads what comes without being asked until the connection ends, as it is.
func rest(t testing.TB, c *rawclient.Conn) string {
	t.Helper()
	c.Socket().SetDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(c.Socket())
	if err != nil && !rawclient.IsLost(err) {
		t.Fatal(err)
	}
	return string(b)
}

// TestIdleTimeout has clients that say nothing told what the server itself says at the end of its wait_timeout, byte by byte but for what is to be
// set. Neither a statement that takes longer nor an answer that is read slowly ends, and the server counts no aborted client.
func TestIdleTimeout(t *testing.T) {
	const limit = "500ms"
	inPlace := strings.NewReplacer("wait_timeout and interactive_timeout", "limits.idle_timeout of tmpproxy")
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind)
		executeDirectly(t, s, "CREATE DATABASE idle", "CREATE TABLE idle.t (a INT PRIMARY KEY)")
		direct := connect(t, configure(s, s.Address, "idle"))
		must(t, direct, "SET SESSION wait_timeout = 1")
		want := rest(t, direct)
		if kind == server.MySQL != strings.Contains(want, "inactivity") {
			t.Fatalf("directly: %q", want)
		}
		if kind == server.MySQL { // the packet is longer or shorter by as much as the text
			text := inPlace.Replace(want)
			want = string([]byte{want[0] + byte(len(text)-len(want))}) + text[1:]
		}
		for _, d := range drivers {
			for _, mode := range []string{"off", "optional", "passthrough"} {
				t.Run(d+", TLS "+mode, func(t *testing.T) {
					p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_LIMITS_IDLE_TIMEOUT="+limit, "TMPPROXY_LISTEN_TLS_MODE="+mode)
					config := configure(s, p.Address, "idle")
					if mode != "off" && (mode == "optional" || kind == server.MySQL) { // MariaDB 10.11 has no certificate
						config.TLS = &tls.Config{InsecureSkipVerify: true}
					}
					awaitSessions(t, s, 0, "db = 'idle'")
					aborted := counter(t, s, "Aborted_clients")
					busy, slow := connect(t, config), connect(t, config)
					if err := slow.SendQuery("SELECT REPEAT('x', 1000000) FROM information_schema.columns LIMIT 100"); err != nil {
						t.Fatal(err)
					}
					if err := busy.SendQuery("SELECT SLEEP(3), 'slept'"); err != nil {
						t.Fatal(err)
					}
					idle, inside := connect(t, config), connect(t, config)
					must(t, inside, "BEGIN")
					must(t, inside, "INSERT INTO t VALUES (1)")
					for what, c := range map[string]*rawclient.Conn{"idle": idle, "in a transaction": inside} {
						got, want := rest(t, c), want
						if mode == "passthrough" && config.TLS != nil {
							want = "" // nothing can be said there
						}
						if got != want {
							t.Errorf("%s: %q, want %q", what, got, want)
						}
					}
					await(t, "the transaction has ended", func() bool {
						return s.Exec(context.Background(), "SET SESSION innodb_lock_wait_timeout = 1", "INSERT INTO idle.t VALUES (1)", "DELETE FROM idle.t") == nil
					})
					if n := counter(t, s, "Aborted_clients"); n != aborted && mode != "passthrough" {
						t.Errorf("the server counts %d aborted clients", n-aborted)
					}
					if reply, err := slow.ReceiveQuery(); err != nil || len(reply.Results[0].Rows) != 100 {
						t.Errorf("an answer that was read slowly: %s", told(reply, err))
					}
					if got := told(busy.ReceiveQuery()); !strings.HasPrefix(got, `["0" "slept"] OK`) {
						t.Errorf("a statement that takes longer: %s", got)
					}
					page, err := p.Get("/metrics")
					if err != nil || !strings.Contains(page, "\ntmpproxy_idle_timeouts_total ") || strings.Contains(page, "\ntmpproxy_idle_timeouts_total 0\n") {
						t.Errorf("metrics: %v", err)
					}
				})
			}
		}
	})
}

// TestMaxBuffered has a compressed session send a frame that limits.max_buffered leaves no room for: it is told what MySQL says at its own limit
// of that kind, but for where it is set. Other sessions go on, and one without compression sends as much.
func TestMaxBuffered(t *testing.T) {
	numbers := regexp.MustCompile(`\d{5,}`)
	limiting := own(t, server.MySQL)
	executeDirectly(t, limiting, "CREATE USER limited IDENTIFIED BY ''", "SET GLOBAL global_connection_memory_tracking = ON",
		"SET GLOBAL global_connection_memory_limit = 16777216")
	hungry := connect(t, rawclient.Config{Network: "tcp", Address: limiting.Address, User: "limited"})
	want := numbers.ReplaceAllString(ask(hungry, "SELECT LENGTH('"+strings.Repeat("x", 20<<20)+"')"), "N")
	if !strings.HasPrefix(want, "ERR 4081 (HY000): ") {
		t.Fatalf("directly: %s", want)
	}
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_LIMITS_MAX_BUFFERED=1MiB")
				rest := atRest(t, p)
				other := connect(t, configure(s, p.Address, ""))
				config := s.Config("")
				config.Addr = p.Address
				if err := config.Apply(driver.EnableCompression(true)); err != nil {
					t.Fatal(err)
				}
				connector, err := driver.NewConnector(config)
				if err != nil {
					t.Fatal(err)
				}
				db := sql.OpenDB(connector)
				defer db.Close()
				noise := make([]byte, 600<<10)
				rand.NewChaCha8([32]byte{}).Read(noise)
				text := fmt.Sprintf("SELECT LENGTH('%x')", noise)
				var n int
				if err := db.QueryRow("SELECT 1").Scan(&n); err != nil {
					t.Fatal(err)
				}
				refusal := (*driver.MySQLError)(nil)
				if err = db.QueryRow(text).Scan(&n); !errors.As(err, &refusal) {
					t.Fatalf("a frame too large: %v", err)
				}
				got := numbers.ReplaceAllString(fmt.Sprintf("ERR %d (%s): %s", refusal.Number, refusal.SQLState, refusal.Message), "N")
				if got != want+" (limits.max_buffered of tmpproxy)" {
					t.Errorf("got %s, directly %s", got, want)
				}
				if got := value(t, other, text); got != fmt.Sprint(2*len(noise)) {
					t.Errorf("without compression: %s", got)
				}
				if err := db.QueryRow("SELECT LENGTH(REPEAT('x', 10000000))").Scan(&n); err != nil || n != 10000000 {
					t.Errorf("another session: %d, %v", n, err)
				}
				await(t, "the metrics tell of one refusal and of nothing that is held", func() bool {
					page, err := p.Get("/metrics")
					return err == nil && strings.Contains(page, `tmpproxy_refused_clients_total{reason="max_buffered"} 1`) && strings.Contains(page, "\ntmpproxy_buffered_bytes 0\n")
				})
				db.Close()
				if err := other.Quit(); err != nil {
					t.Error(err)
				}
				rest(t, 0)
			})
		}
	})
}
