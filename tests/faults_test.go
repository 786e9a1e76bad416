//go:build realserver

package tests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"golang.org/x/sys/unix"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

// cut tells whether an error means that the connection has ended, in the middle of a packet or not.
func cut(err error) bool { return rawclient.IsLost(err) || errors.Is(err, io.ErrUnexpectedEOF) }

// says tells whether an error is one of a server's with that code.
func says(err error, code uint16) bool {
	refusal := (*rawclient.ServerError)(nil)
	return errors.As(err, &refusal) && refusal.Code == code
}

// holdings are the open descriptors and the goroutines of a proxy.
func holdings(t testing.TB, p *process.Process) (descriptors, goroutines int) {
	t.Helper()
	page, err := p.Get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^go_goroutines (\d+)$`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no goroutines are told of:\n%s", page)
	}
	goroutines, _ = strconv.Atoi(m[1])
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries), goroutines
}

// atRest notes what a proxy without clients holds, and returns a function that waits until it holds no more than that beside a number of sessions.
func atRest(t testing.TB, p *process.Process) func(t *testing.T, sessions int) {
	t.Helper()
	descriptors, goroutines := holdings(t, p)
	return func(t *testing.T, n int) {
		t.Helper()
		var d, g int
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			d, g = holdings(t, p)
			if d <= descriptors+2*n && g <= goroutines+5*n && len(sessions(t, p)) == n {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("the proxy holds %d descriptors and %d goroutines with %d sessions, at the start %d and %d", d, g, len(sessions(t, p)), descriptors, goroutines)
				return
			}
		}
	}
}

// unread counts the connections of a server on which something waits to be read by it.
func unread(t testing.TB, s *server.Server) (n int) {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	const established = "01"
	local := fmt.Sprintf("0100007F:%04X", s.Port())
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 5 || f[1] != local || f[3] != established {
			continue
		}
		_, waiting, _ := strings.Cut(f[4], ":")
		if b, err := hex.DecodeString(waiting); err == nil && !bytes.Equal(b, make([]byte, 4)) {
			n++
		}
	}
	return n
}

// stream reads a result packet by packet, as it comes. Each row is one value that is rowLength times the letter x.
type stream struct {
	r      *bufio.Reader
	packet []byte
	row    []byte
	rows   int
	ended  bool
}

const rowLength = 1 << 20

// askForRows asks for a result of that many rows and reads what comes before the second.
func askForRows(t testing.TB, c *rawclient.Conn, rows int) *stream {
	t.Helper()
	const numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT REPEAT('x', %d) FROM n"
	if rows > 1000 {
		must(t, c, fmt.Sprintf("SET SESSION %s = %d", map[bool]string{true: "cte_max_recursion_depth", false: "max_recursive_iterations"}[strings.HasPrefix(c.Greeting.Version, "9.")], rows))
	}
	if err := c.SendQuery(fmt.Sprintf(numbers, rows, rowLength)); err != nil {
		t.Fatal(err)
	}
	s := &stream{r: bufio.NewReaderSize(c.Socket(), 64<<10)}
	s.row = append([]byte{0xFD, rowLength & 0xFF, rowLength >> 8 & 0xFF, rowLength >> 16}, bytes.Repeat([]byte{'x'}, rowLength)...)
	c.Socket().SetDeadline(time.Now().Add(patience))
	const head = 2 // the number of columns and its definition, of a client that takes no EOF behind them
	for range head {
		if err := s.next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.read(1); err != nil {
		t.Fatal(err)
	}
	return s
}

// next reads a packet.
func (s *stream) next() error {
	var header [4]byte
	if _, err := io.ReadFull(s.r, header[:]); err != nil {
		return err
	}
	n := int(header[0]) | int(header[1])<<8 | int(header[2])<<16
	if cap(s.packet) < n {
		s.packet = make([]byte, n)
	}
	s.packet = s.packet[:n]
	_, err := io.ReadFull(s.r, s.packet)
	return err
}

// read reads on until that many rows have come in all or the result has ended, and returns how many have.
func (s *stream) read(rows int) (int, error) {
	for s.rows < rows && !s.ended {
		if err := s.next(); err != nil {
			return s.rows, err
		}
		switch p := s.packet; {
		case bytes.Equal(p, s.row):
			s.rows++
		case p[0] == mysql.EOF_HEADER && len(p) < 64:
			s.ended = true
		case p[0] == mysql.ERR_HEADER && len(p) > 9:
			return s.rows, &rawclient.ServerError{ERR: rawclient.ERR{Code: uint16(p[1]) | uint16(p[2])<<8, State: string(p[4:9]), Message: string(p[9:])}}
		default:
			return s.rows, fmt.Errorf("a packet of %d bytes that begins with %q", len(p), p[:min(len(p), 100)])
		}
	}
	return s.rows, nil
}

// TestServerGoneUnderLoad kills the server, and shuts it down, under clients that connect again whenever they are cut off: none of them ever
// gets an answer that is not its own, all are served again, and nothing is left behind.
func TestServerGoneUnderLoad(t *testing.T) {
	const clients, rounds = 8, 5
	told := []uint16{1053, 1317, 1927, 2003} // shutdown in progress, interrupted, killed, and the proxy's own
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind)
		executeDirectly(t, s, "CREATE DATABASE gone")
		type front struct {
			proxy *process.Process
			rest  func(t *testing.T, sessions int)
			done  [clients]atomic.Int64 // rounds
		}
		fronts := map[string]*front{}
		over := make(chan struct{})
		var all sync.WaitGroup
		for _, d := range drivers {
			f := &front{proxy: startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)}
			f.rest = atRest(t, f.proxy)
			fronts[d] = f
			for i := range clients {
				all.Go(func() {
					round := func(c *rawclient.Conn) error {
						tag := fmt.Sprintf("%s %d %d", d, i, f.done[i].Load())
						for _, q := range []struct{ text, want string }{
							{managed, ""},
							{fmt.Sprintf("INSERT INTO t VALUES (1, '%s')", tag), ""},
							{"SELECT v FROM t", tag},
							{fmt.Sprintf("SELECT '%s'", tag), tag},
							{"SELECT CONNECTION_ID()", fmt.Sprint(c.Greeting.ThreadID)},
							{"DROP TEMPORARY TABLE t", ""},
						} {
							reply, err := c.Query(q.text)
							if err == nil && reply.Err() != nil {
								err = &rawclient.ServerError{ERR: *reply.Err()}
							}
							if err != nil {
								return err
							}
							if q.want == "" && len(reply.Results) == 1 && reply.Results[0].Rows == nil {
								continue
							}
							if len(reply.Results) != 1 || len(reply.Results[0].Rows) != 1 {
								return fmt.Errorf("%s: %+v", q.text, reply.Results)
							}
							if row, err := rawclient.TextRow(reply.Results[0].Rows[0]); err != nil || string(row[0]) != q.want {
								return fmt.Errorf("%s: %q %v, not %q", q.text, row, err, q.want)
							}
						}
						f.done[i].Add(1)
						return nil
					}
					for {
						c, err := rawclient.Connect(configure(s, f.proxy.Address, "gone"))
						for err == nil {
							select {
							case <-over:
								if err := c.Quit(); err != nil {
									t.Error(err)
								}
								return
							default:
								err = round(c)
							}
						}
						if c != nil {
							c.Close()
						}
						if !cut(err) && !slices.ContainsFunc(told, func(code uint16) bool { return says(err, code) }) {
							t.Errorf("%s, client %d: %v", d, i, err)
							return
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
		}
		served := func() {
			t.Helper()
			for d, f := range fronts {
				for i := range f.done {
					before := f.done[i].Load()
					await(t, fmt.Sprintf("client %d of %s is served", i, d), func() bool { return t.Failed() || f.done[i].Load() >= before+rounds })
				}
			}
		}
		for _, end := range []func() error{s.Kill, s.Terminate} {
			served()
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if err := s.Restart(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		served()
		close(over)
		all.Wait()
		for _, f := range fronts {
			f.rest(t, 0)
		}
	})
}

// TestKilledSessions kills sessions by KILL CONNECTION from another one, and lets the server's wait_timeout end some, while they have parked
// tables or a transaction: they end as directly, the transaction is undone, and nothing is left behind.
func TestKilledSessions(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind)
		executeDirectly(t, s, "CREATE DATABASE killed", "CREATE TABLE killed.base (a INT PRIMARY KEY) ENGINE=InnoDB")
		control := connect(t, configure(s, s.Address, ""))
		addresses := []string{s.Address}
		var proxies []*process.Process
		var rests []func(t *testing.T, sessions int)
		for _, d := range drivers {
			p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
			proxies, rests, addresses = append(proxies, p), append(rests, atRest(t, p)), append(addresses, p.Address)
		}
		prepare := map[string]func(c *rawclient.Conn){
			"idle": func(*rawclient.Conn) {},
			"with parked tables": func(c *rawclient.Conn) {
				for range 3 {
					for _, name := range []string{"t", "u"} {
						must(t, c, strings.Replace(managed, " t ", " "+name+" ", 1))
						must(t, c, "INSERT INTO "+name+" VALUES (1, 'a')")
						must(t, c, "DROP TEMPORARY TABLE "+name)
					}
				}
			},
			"in a transaction, with a table": func(c *rawclient.Conn) {
				must(t, c, managed)
				must(t, c, "START TRANSACTION")
				must(t, c, "INSERT INTO base VALUES (CONNECTION_ID())")
				must(t, c, "INSERT INTO t VALUES (1, 'a')")
			},
		}
		ends := map[string]func(c *rawclient.Conn){
			"KILL": func(c *rawclient.Conn) { must(t, control, fmt.Sprint("KILL CONNECTION ", c.Greeting.ThreadID)) },
			"KILL during a statement": func(c *rawclient.Conn) {
				if err := c.SendQuery("SELECT SLEEP(60)"); err != nil {
					t.Fatal(err)
				}
				await(t, "the statement sleeps", func() bool {
					return value(t, control, fmt.Sprint("SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep' AND id = ", c.Greeting.ThreadID)) == "1"
				})
				must(t, control, fmt.Sprint("KILL CONNECTION ", c.Greeting.ThreadID))
			},
			"wait_timeout": func(c *rawclient.Conn) { must(t, c, "SET wait_timeout = 1") },
		}
		for how, end := range ends {
			t.Run(how, func(t *testing.T) {
				for state, prepared := range prepare {
					var clients []*rawclient.Conn
					for _, address := range addresses {
						c := connect(t, configure(s, address, "killed"))
						prepared(c)
						clients = append(clients, c)
					}
					if state == "with parked tables" {
						for i, p := range proxies {
							if info := sessions(t, p)[clients[i+1].Greeting.ThreadID]; info.Parked != 2 {
								t.Errorf("%d tables are parked", info.Parked)
							}
						}
					}
					for _, c := range clients {
						end(c)
					}
					want := ending(clients[0])
					t.Logf("%s: %s", state, want)
					for i, c := range clients[1:] {
						if got := ending(c); got != want {
							t.Errorf("%s, %s: %s, directly %s", drivers[i], state, got, want)
						}
					}
					for _, c := range clients {
						c.Close()
					}
				}
				for _, rest := range rests {
					rest(t, 0)
				}
				await(t, "the transactions are undone", func() bool {
					return value(t, control, "SELECT COUNT(*) FROM information_schema.innodb_trx") == "0"
				})
				if got := value(t, control, "SELECT COUNT(*) FROM killed.base"); got != "0" {
					t.Errorf("%s rows were committed", got)
				}
			})
		}
	})
}

// TestPacketTooLarge has statements and rows exceed max_allowed_packet while tables are live or parked: the client is told what it is told directly.
func TestPacketTooLarge(t *testing.T) {
	const most = 1 << 20
	text := func(statement string) string { return statement + strings.Repeat("x", 3*most) + "')" }
	again := func(c *rawclient.Conn, tell func(format string, args ...any)) {
		for range 3 {
			for _, text := range []string{managed, "INSERT INTO t VALUES (1, 'a')", "SELECT * FROM t", "DROP TEMPORARY TABLE t"} {
				tell("%s", ask(c, text))
			}
		}
	}
	live := func(c *rawclient.Conn, tell func(format string, args ...any)) {
		again(c, tell)
		tell("%s", ask(c, managed))
		tell("%s", ask(c, "INSERT INTO t VALUES (1, 'a')"))
	}
	states := map[string]func(c *rawclient.Conn, tell func(format string, args ...any)){
		"without tables":      func(*rawclient.Conn, func(string, ...any)) {},
		"with a parked table": again,
		"with a live table":   live,
	}
	sizes := map[string]func(c *rawclient.Conn, tell func(format string, args ...any)){
		"statement": func(c *rawclient.Conn, tell func(format string, args ...any)) {
			_ = c.SendQuery(text("SELECT LENGTH('")) // the server may close before it is through
			tell("%s", told(c.ReceiveQuery()))
			_, err := c.Query("SELECT 'after'")
			tell("goes on: %v", err == nil)
		},
		"statement that names the table": func(c *rawclient.Conn, tell func(format string, args ...any)) {
			_ = c.SendQuery(text("INSERT INTO t VALUES (2, '"))
			tell("%s", told(c.ReceiveQuery()))
			_, err := c.Query("SELECT 'after'")
			tell("goes on: %v", err == nil)
		},
		"CREATE": func(c *rawclient.Conn, tell func(format string, args ...any)) {
			_ = c.SendQuery(text("CREATE TEMPORARY TABLE u (a INT) ENGINE=MEMORY COMMENT ('"))
			tell("%s", told(c.ReceiveQuery()))
			_, err := c.Query("SELECT 'after'")
			tell("goes on: %v", err == nil)
		},
		"row": func(c *rawclient.Conn, tell func(format string, args ...any)) {
			tell("%s", ask(c, fmt.Sprintf("SELECT REPEAT('x', %[1]d), REPEAT('y', %[1]d), REPEAT('z', %[1]d)", most/2)))
			tell("%s", ask(c, "SELECT 'after'"))
			again(c, tell)
		},
		"value": func(c *rawclient.Conn, tell func(format string, args ...any)) {
			tell("%s", ask(c, fmt.Sprintf("SELECT REPEAT('x', %d)", most+1)))
			tell("%s", ask(c, "SHOW WARNINGS"))
			again(c, tell)
		},
		"long data": func(c *rawclient.Conn, tell func(format string, args ...any)) {
			reply, err := c.Prepare("SELECT LENGTH(?)")
			if err != nil || reply.Prepared == nil {
				t.Fatal(told(reply, err))
			}
			for range 3 {
				if err := c.SendLongData(reply.Prepared.ID, 0, bytes.Repeat([]byte{'x'}, most/2)); err != nil {
					t.Fatal(err)
				}
			}
			tell("%s", told(c.Execute(reply.Prepared.ID, 0, "")))
			tell("%s", ask(c, "SELECT 'after'"))
			again(c, tell)
		},
	}
	shows := map[string]string{
		"statement": "ERR 1153", "statement that names the table": "ERR 1153", "CREATE": "ERR 1153", "row": "zzz\"", "value": "1301", "long data": "ERR 1",
	}
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind, fmt.Sprint("--max-allowed-packet=", most))
		executeDirectly(t, s, "CREATE DATABASE large")
		for _, d := range drivers {
			// Under this strategy nothing but the listed differences can be seen.
			p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_REWRITE_STRATEGY=keep")
			rest := atRest(t, p)
			for state, prepare := range states {
				for what, exceed := range sizes {
					t.Run(d+" "+what+" "+state, func(t *testing.T) {
						tell := func(address string) (lines []string) {
							c := connect(t, configure(s, address, "large"))
							defer c.Close()
							note := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
							prepare(c, note)
							exceed(c, note)
							return lines
						}
						want := tell(s.Address)
						if lines := strings.Join(want, "\n"); !strings.Contains(lines, shows[what]) {
							t.Errorf("directly there is no %s in\n%.2000s", shows[what], lines)
						}
						sameLines(t, want, tell(p.Address))
					})
				}
			}
			rest(t, 0)
		}
	})
}

// onSmallDisk starts a server whose folder for temporary files and tables, dir, is a file system of its own of that many MiB. It is mounted
// where only the server sees it, in a user name space if need be, and goes with the server.
func onSmallDisk(t *testing.T, kind server.Kind, size int) *server.Server {
	t.Helper()
	obtained, err := server.Obtain(context.Background(), kind)
	if err != nil {
		t.Fatal(err)
	}
	root, dir := t.TempDir(), t.TempDir()
	program, own := "mysqld", "--innodb-temp-tablespaces-dir="+dir
	if kind.IsMariaDB() {
		program, own = "mariadbd", "--innodb-temp-data-file-path=../../"+filepath.Base(dir)+"/ibtmp1:12M:autoextend"
	}
	space := "--mount"
	if os.Geteuid() != 0 {
		space = "--mount --map-root-user"
	}
	script := fmt.Sprintf("#!/bin/sh\nexec unshare %s -- sh -c 'mount -t tmpfs -o size=%dm tmpfs %s && exec %s/bin/%s \"$@\"' - \"$@\"\n", space, size, dir, obtained, program)
	for _, err := range []error{
		os.Mkdir(filepath.Join(root, "bin"), 0o755),
		os.WriteFile(filepath.Join(root, "bin", program), []byte(script), 0o755),
		os.Symlink(filepath.Join(obtained, "bin", "initialize"), filepath.Join(root, "bin", "initialize")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := server.Start(context.Background(), kind, server.Options{Root: root, Parent: filepath.Dir(dir), Args: []string{"--tmpdir=" + dir, own}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestFullDisk fills the file system of the server's temporary tables and files: the client is told what it is told directly, other sessions go on,
// a table that could not be filled is empty when it comes back, and there is room again when its session has ended.
func TestFullDisk(t *testing.T) {
	const table = "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, v LONGBLOB) ENGINE=InnoDB"
	// 100 MB that have to be written to disk
	const files = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) " +
		"SELECT COUNT(*) FROM (SELECT DISTINCT CONCAT(i, REPEAT('x', 200000)) AS v FROM n) x"
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := onSmallDisk(t, kind, 40)
		executeDirectly(t, s, "CREATE DATABASE small")
		// fill goes on until there is an answer other than OK.
		fill := func(c *rawclient.Conn) string {
			for i := range 200 {
				if got := ask(c, fmt.Sprintf("INSERT INTO t VALUES (%d, REPEAT('x', 1000000))", i)); !strings.HasPrefix(got, "OK") {
					return got
				}
			}
			return "never full"
		}
		tell := func(t *testing.T, address string) (lines []string) {
			full, other := connect(t, configure(s, address, "small")), connect(t, configure(s, address, "small"))
			note := func(what, got string) { lines = append(lines, what+": "+got) }
			for range 3 { // so that it is parked
				note("CREATE", ask(full, table))
				note("INSERT", ask(full, "INSERT INTO t VALUES (1, 'a')"))
				note("DROP", ask(full, "DROP TEMPORARY TABLE t"))
			}
			for range 2 {
				note("CREATE", ask(full, table))
				note("empty", ask(full, "SELECT COUNT(*) FROM t"))
				note("full", fill(full))
				note("files", regexp.MustCompile(`'.*'|"[^"]*"|\d+ rows`).ReplaceAllString(ask(full, files), "…"))
				for range 3 {
					note("other", ask(other, "CREATE TEMPORARY TABLE m (id INT PRIMARY KEY) ENGINE=MEMORY"))
					note("other", ask(other, "INSERT INTO m VALUES (1), (2)"))
					note("other", ask(other, "SELECT * FROM m"))
					note("other", ask(other, "DROP TEMPORARY TABLE m"))
				}
				note("first row", ask(full, "SELECT id, LENGTH(v) FROM t WHERE id = 0"))
				note("DROP", ask(full, "DROP TEMPORARY TABLE t"))
				note("gone", ask(full, "SELECT * FROM t"))
			}
			for _, c := range []*rawclient.Conn{full, other} {
				if err := c.Quit(); err != nil {
					t.Error(err)
				}
			}
			room := func() bool {
				return s.Exec(context.Background(), "DROP TEMPORARY TABLE IF EXISTS small.t", strings.Replace(table, " t ", " small.t ", 1),
					"INSERT INTO small.t VALUES (1, REPEAT('x', 1000000))", "DROP TEMPORARY TABLE small.t") == nil
			}
			await(t, "there is room again", room)
			after := connect(t, configure(s, address, "small"))
			note("later", ask(after, table))
			note("later", ask(after, "INSERT INTO t VALUES (1, REPEAT('x', 1000000))"))
			if err := after.Quit(); err != nil {
				t.Error(err)
			}
			await(t, "there is room again", room)
			return lines
		}
		want := tell(t, s.Address)
		t.Log(strings.Join(want, "\n"))
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_REWRITE_STRATEGY=keep")
				rest := atRest(t, p)
				sameLines(t, want, tell(t, p.Address))
				rest(t, 0)
			})
		}
	})
}

// TestOutOfDescriptors takes the proxy's descriptors away while it serves: clients are refused or wait, it does not spin, and serves again when
// there are some.
func TestOutOfDescriptors(t *testing.T) {
	s := shared(t, server.MySQL)
	for _, d := range drivers {
		t.Run(d, func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
			rest := atRest(t, p)
			old := connect(t, configure(s, p.Address, ""))
			var before unix.Rlimit
			if err := unix.Prlimit(p.PID(), unix.RLIMIT_NOFILE, nil, &before); err != nil {
				t.Fatal(err)
			}
			refused, served := 0, 0
			for free := range 6 {
				open, _ := holdings(t, p)
				few := unix.Rlimit{Cur: uint64(open + free), Max: before.Max}
				if err := unix.Prlimit(p.PID(), unix.RLIMIT_NOFILE, &few, nil); err != nil {
					t.Fatal(err)
				}
				for range 4 {
					config := configure(s, p.Address, "")
					config.Timeout = patience
					c, err := rawclient.Connect(config)
					switch {
					case err == nil:
						served++
						must(t, c, "DO 1")
						if err := c.Quit(); err != nil {
							t.Error(err)
						}
					case says(err, 1040) || says(err, 2003) || cut(err):
						refused++
					default:
						t.Errorf("%d descriptors are free: %v", free, err)
					}
				}
				if got := value(t, old, "SELECT 'served'"); got != "served" {
					t.Error(got)
				}
			}
			if refused == 0 || served == 0 {
				t.Errorf("%d clients were refused and %d served", refused, served)
			}
			// With clients that wait it does not spin.
			open, _ := holdings(t, p)
			none := unix.Rlimit{Cur: uint64(open), Max: before.Max}
			if err := unix.Prlimit(p.PID(), unix.RLIMIT_NOFILE, &none, nil); err != nil {
				t.Fatal(err)
			}
			var waiting []net.Conn
			for range 8 {
				c, err := net.Dial("tcp", p.Address)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				waiting = append(waiting, c)
			}
			used := processorTime(t, p.PID())
			time.Sleep(time.Second)
			if used = processorTime(t, p.PID()) - used; used > 300*time.Millisecond {
				t.Errorf("it has used %v of a processor in a second of having no descriptors", used)
			}
			for _, c := range waiting {
				c.Close()
			}
			if err := unix.Prlimit(p.PID(), unix.RLIMIT_NOFILE, &before, nil); err != nil {
				t.Fatal(err)
			}
			await(t, "clients are served again", func() bool {
				c, err := rawclient.Connect(configure(s, p.Address, ""))
				if err == nil {
					must(t, c, "DO 1")
					err = c.Quit()
				}
				return err == nil
			})
			if err := old.Quit(); err != nil {
				t.Error(err)
			}
			rest(t, 0)
		})
	}
}

// processorTime is what a process has used of processors.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const tick = 10 * time.Millisecond // as the system counts for programs
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * tick
}

var bigResult = flag.Int("slow.rows", 192, "rows of 1 MiB that a slow client reads")

// TestSlowReader has clients read a big result slowly: the proxy's memory does not grow, however much is still to come.
func TestSlowReader(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind)
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
				c := connect(t, configure(s, p.Address, ""))
				rest := atRest(t, p)
				if err := c.Socket().(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
					t.Fatal(err)
				}
				// The peak is counted anew.
				if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0); err != nil {
					t.Fatal(err)
				}
				before := residentBytes(t, p.PID())
				rows := *bigResult
				answer := askForRows(t, c, rows)
				time.Sleep(200 * time.Millisecond) // nothing is read while all that is between fills
				for n := 1; n < rows; n += 16 {
					if got, err := answer.read(min(n, rows)); err != nil {
						t.Fatalf("after %d rows: %v", got, err)
					}
					c.Socket().SetDeadline(time.Now().Add(patience))
					time.Sleep(time.Millisecond)
				}
				if n, err := answer.read(rows + 1); n != rows || err != nil {
					t.Errorf("%d rows of %d: %v", n, rows, err)
				}
				if grown := peakBytes(t, p.PID()) - before; grown > 32<<20 {
					t.Errorf("the proxy's memory has grown by %d MiB", grown>>20)
				} else {
					t.Logf("%d MiB went through, and the proxy's memory grew by %d KiB at most", rows, grown>>10)
				}
				if got := value(t, c, "SELECT 'after'"); got != "after" {
					t.Error(got)
				}
				rest(t, 1)
			})
		}
	})
}
