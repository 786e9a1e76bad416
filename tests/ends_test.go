//go:build realserver

package tests

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

// TestServerGone kills the server, and shuts it down, under sessions in every state: all see the end that a client of the server's own sees.
// Then clients are told that there is no server, and served again when it is back.
func TestServerGone(t *testing.T) {
	const rows = 1000
	type client struct {
		*rawclient.Conn
		stream *stream // of the client that is in the middle of a result
	}
	type front struct {
		name, backend string
		proxy         *process.Process // nil: directly
		rest          func(t *testing.T, sessions int)
		clients       map[string]client
	}
	cycle := func(c *rawclient.Conn) {
		must(t, c, managed)
		must(t, c, "INSERT INTO t VALUES (1, 'a')")
		must(t, c, "DROP TEMPORARY TABLE t")
	}
	states := map[string]func(c *rawclient.Conn) *stream{
		"idle":                func(*rawclient.Conn) *stream { return nil },
		"with a parked table": func(c *rawclient.Conn) *stream { return nil },
		"in a transaction": func(c *rawclient.Conn) *stream {
			must(t, c, "START TRANSACTION")
			must(t, c, "INSERT INTO base VALUES (CONNECTION_ID())")
			return nil
		},
		"waiting": func(c *rawclient.Conn) *stream {
			if err := c.SendQuery("SELECT SLEEP(60)"); err != nil {
				t.Fatal(err)
			}
			return nil
		},
		"in a result": func(c *rawclient.Conn) *stream { return askForRows(t, c, rows) },
	}
	const resetting, behindReset = "while a table is reset", "waiting for the reset of a table"
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind)
		executeDirectly(t, s, "CREATE DATABASE gone", "CREATE TABLE gone.base (a INT PRIMARY KEY) ENGINE=InnoDB")
		fronts := []*front{
			{name: "directly", backend: s.Address},
			{name: "loop", backend: s.Address},
			{name: "pump", backend: s.Address},
			{name: "loop to a socket", backend: s.Socket},
		}
		for _, f := range fronts[1:] {
			f.proxy = startProxy(t, f.backend, "TMPPROXY_RELAY_DRIVER="+f.name[:4], "TMPPROXY_BACKEND_ALLOW_PEER_IDENTITY=true")
			f.rest = atRest(t, f.proxy)
		}
		address := func(f *front) string {
			if f.proxy == nil {
				return s.Address
			}
			return f.proxy.Address
		}
		for _, how := range []string{"killed", "shut down"} {
			for _, f := range fronts {
				f.clients = map[string]client{}
				add := func(state string) *rawclient.Conn {
					c := connect(t, configure(s, address(f), "gone"))
					f.clients[state] = client{Conn: c}
					return c
				}
				for state, prepare := range states {
					c := add(state)
					if strings.Contains(state, "table") {
						for range 3 {
							cycle(c)
						}
					}
					f.clients[state] = client{c, prepare(c)}
				}
				if how == "killed" && f.backend == s.Address {
					for _, state := range []string{resetting, behindReset} {
						c := add(state)
						for range 3 {
							cycle(c)
						}
						must(t, c, managed)
						must(t, c, "INSERT INTO t VALUES (1, 'a')")
					}
				}
			}
			end := s.Terminate
			if how == "killed" {
				// What is sent to a stopped server stays in its sockets.
				await(t, "the server has read everything", func() bool { return unread(t, s) == 0 })
				if err := syscall.Kill(s.PID(), syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				stopped := true
				defer func() {
					if stopped {
						syscall.Kill(s.PID(), syscall.SIGCONT)
					}
				}()
				end = func() error {
					stopped = false
					return s.Kill()
				}
				sent := 0
				for _, f := range fronts {
					for _, state := range []string{resetting, behindReset} {
						c, there := f.clients[state]
						if !there {
							continue
						}
						sent++
						if f.proxy == nil {
							if err := c.SendQuery("DROP TEMPORARY TABLE t"); err != nil {
								t.Fatal(err)
							}
							continue
						}
						must(t, c.Conn, "DROP TEMPORARY TABLE t")
						if state == behindReset {
							if err := c.SendQuery(managed); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
				await(t, "the resets are on their way", func() bool { return unread(t, s) == sent })
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			said := map[string]string{}
			for _, f := range fronts {
				t.Run(f.name+", "+how, func(t *testing.T) {
					for state, c := range f.clients {
						var got string
						if c.stream == nil {
							got = ending(c.Conn)
						} else if n, err := c.stream.read(rows); n == rows || !cut(err) && !(how == "shut down" && says(err, 1053)) {
							got = fmt.Sprintf("%d rows of %d, then %v", n, rows, err)
						}
						if f.proxy == nil {
							said[state] = got
							t.Logf("%s: %s", state, got)
						} else if got != said[state] {
							t.Errorf("%s: %s, directly %s", state, got, said[state])
						}
						c.Close()
					}
					if f.proxy == nil {
						return
					}
					_, err := rawclient.Connect(configure(s, f.proxy.Address, ""))
					refusal := (*rawclient.ServerError)(nil)
					const reason = "connection refused"
					if !errors.As(err, &refusal) || refusal.Code != 2003 || !strings.Contains(refusal.Message, "'"+f.backend+"'") ||
						!strings.Contains(refusal.Message, reason) && !strings.Contains(refusal.Message, "no such file") {
						t.Errorf("a new client: %v", err)
					}
					await(t, "the proxy says that it is not ready", func() bool { _, err := f.proxy.Get("/readyz"); return err != nil })
				})
			}
			if err := s.Restart(context.Background()); err != nil {
				t.Fatal(err)
			}
			for _, f := range fronts[1:] {
				t.Run(f.name+", again after it was "+how, func(t *testing.T) {
					c := connect(t, configure(s, f.proxy.Address, "gone"))
					if got := value(t, c, "SELECT COUNT(*) FROM base"); got != "0" {
						t.Errorf("%s rows were committed", got)
					}
					for range 4 {
						must(t, c, managed)
						must(t, c, "INSERT INTO t VALUES (1, 'a')")
						if got := value(t, c, "SELECT COUNT(*) FROM t"); got != "1" {
							t.Errorf("%s rows", got)
						}
						must(t, c, "DROP TEMPORARY TABLE t")
					}
					await(t, "the proxy says that it is ready", func() bool { _, err := f.proxy.Get("/readyz"); return err == nil })
					if err := c.Quit(); err != nil {
						t.Error(err)
					}
					f.rest(t, 0)
				})
			}
		}
	})
}

// TestDrain ends the proxy with SIGTERM: sessions end between statements, transactions may end first.
func TestDrain(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "drained")
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				executeDirectly(t, s, "DROP TABLE IF EXISTS drained.base", "CREATE TABLE drained.base (a INT PRIMARY KEY)")
				p, err := process.Start(context.Background(), s.Address, "TMPPROXY_RELAY_DRIVER="+d)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := p.Faults(); err != nil {
						t.Error(err)
					}
				}()
				idle, parked, busy, inside := connect(t, configure(s, p.Address, "")), connect(t, configure(s, p.Address, "drained")),
					connect(t, configure(s, p.Address, "")), connect(t, configure(s, p.Address, "drained"))
				for range 3 {
					must(t, parked, managed)
					must(t, parked, "DROP TEMPORARY TABLE t")
				}
				must(t, inside, "START TRANSACTION")
				must(t, inside, "INSERT INTO base VALUES (1)")
				if err := busy.SendQuery("SELECT SLEEP(1), 'slept'"); err != nil {
					t.Fatal(err)
				}
				// The statement has arrived when the proxy has answered something that was sent after it.
				must(t, inside, "INSERT INTO base VALUES (2)")
				if err := p.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				const lost = "the connection has ended"
				for what, c := range map[string]*rawclient.Conn{"idle": idle, "with a parked table": parked} {
					if got := ending(c); got != lost {
						t.Errorf("%s: %s", what, got)
					}
				}
				if got := ending(busy); got != `["0" "slept"] OK, status 0x0002, then `+lost {
					t.Errorf("busy: %s", got)
				}
				if _, err := net.Dial("tcp", p.Address); err == nil {
					t.Error("new clients are still accepted")
				}
				select {
				case <-p.Exited():
					t.Fatal("the proxy has ended although a transaction is open")
				default:
				}
				must(t, inside, "INSERT INTO base VALUES (3)")
				must(t, inside, managed)
				must(t, inside, "DROP TEMPORARY TABLE t")
				must(t, inside, "COMMIT")
				if got := ending(inside); got != lost {
					t.Errorf("behind the transaction: %s", got)
				}
				select {
				case <-p.Exited():
				case <-time.After(patience):
					t.Fatal("the proxy does not end")
				}
				if code := p.ExitCode(); code != 143 {
					t.Errorf("exit code %d", code)
				}
				control := connect(t, configure(s, s.Address, "drained"))
				if got := value(t, control, "SELECT COUNT(*) FROM base"); got != "3" {
					t.Errorf("%s rows were committed", got)
				}
			})
			t.Run(d+", out of patience", func(t *testing.T) {
				executeDirectly(t, s, "TRUNCATE TABLE drained.base")
				p, err := process.Start(context.Background(), s.Address, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_SHUTDOWN_GRACE=300ms")
				if err != nil {
					t.Fatal(err)
				}
				inside := connect(t, configure(s, p.Address, "drained"))
				must(t, inside, "START TRANSACTION")
				must(t, inside, "INSERT INTO base VALUES (1)")
				if err := p.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				if got := ending(inside); got != "the connection has ended" {
					t.Error(got)
				}
				<-p.Exited()
				if code := p.ExitCode(); code != 143 {
					t.Errorf("exit code %d", code)
				}
				if err := p.Faults(); err != nil {
					t.Error(err)
				}
				control := connect(t, configure(s, s.Address, "drained"))
				await(t, "the transaction is rolled back", func() bool {
					return value(t, control, fmt.Sprint("SELECT COUNT(*) FROM information_schema.processlist WHERE id = ", inside.Greeting.ThreadID)) == "0"
				})
				if got := value(t, control, "SELECT COUNT(*) FROM base"); got != "0" {
					t.Errorf("%s rows were committed", got)
				}
			})
		}
	})
}

// TestReload switches the proxy off, and on again, without ending a session.
func TestReload(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "reloaded")
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "config.yaml")
				write := func(text string) {
					if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				write("rewrite:\n  strategy: innodb\n")
				p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_CONFIG="+file)
				reload := func(text, sign string) {
					t.Helper()
					seen := strings.Count(p.Log(), sign)
					write(text)
					if err := p.Signal(syscall.SIGHUP); err != nil {
						t.Fatal(err)
					}
					await(t, sign, func() bool { return strings.Count(p.Log(), sign) > seen })
				}
				c, other := connect(t, configure(s, p.Address, "reloaded")), connect(t, configure(s, p.Address, "reloaded"))
				h := habit{cycle: []string{create, insert, "SHOW", drop}, engines: toInnoDB}
				cycles := func(strategy string) (sent int) {
					t.Helper()
					for range 3 {
						creates, drops := h.live(t, c, "t", strategy)
						sent = creates + drops
					}
					return sent
				}
				if sent := cycles("innodb"); sent != 0 {
					t.Errorf("%d statements of a cached cycle were sent", sent)
				}
				// One table is in use while the settings change.
				must(t, other, strings.ReplaceAll(create, "$t", "used"))
				must(t, other, "INSERT INTO used VALUES (1, 1)")
				must(t, other, "START TRANSACTION")
				reload("rewrite:\n  strategy: native\n", "settings reloaded")
				if got := value(t, other, "SELECT COUNT(*) FROM used"); got != "1" {
					t.Errorf("%s rows in the table that was in use", got)
				}
				must(t, other, "COMMIT")
				must(t, other, "DROP TEMPORARY TABLE used")
				if creates, drops := h.live(t, c, "t", "native"); creates != 1 || drops < 1 {
					t.Errorf("the next cycle sent %d CREATEs and %d DROPs", creates, drops)
				}
				if sent := cycles("native"); sent != 2 {
					t.Errorf("%d statements of a native cycle were sent", sent)
				}
				for _, conn := range []*rawclient.Conn{c, other} {
					if info := sessions(t, p)[conn.Greeting.ThreadID]; info.Parked != 0 {
						t.Errorf("%d tables are still parked", info.Parked)
					}
				}
				reload("rewrite:\n  strategy: nonsense\n", "settings not reloaded")
				if sent := cycles("native"); sent != 2 {
					t.Errorf("%d statements of a native cycle were sent", sent)
				}
				reload("rewrite:\n  strategy: keep\n", "settings reloaded")
				if sent := cycles("keep"); sent != 0 {
					t.Errorf("%d statements of a cached cycle were sent", sent)
				}
			})
		}
	})
}
