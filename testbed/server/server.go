// Package server starts throw-away MySQL and MariaDB servers: real server programs of known versions, each with its own
// data directory, port and socket, on the loopback interface only. It is used by the tests and by nothing that serves
// users. It does not cover replication, TLS material of its own, or servers on other machines.
package server

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Kind names a server program and its release series.
type Kind string

// The servers the tests know. The values are the words obtain.sh takes.
const (
	MySQL      Kind = "mysql"        // MySQL 9.7
	MariaDB    Kind = "mariadb"      // MariaDB 10.11
	MariaDB118 Kind = "mariadb-11.8" // MariaDB 11.8
	MariaDB105 Kind = "mariadb-10.5" // MariaDB 10.5

	MySQLTestsuite Kind = "mysql-testsuite" // MySQL 9.7 with its regression tests beside it

	// No servers, only to be obtained.
	Drivers  Kind = "drivers"  // interpreters with their drivers
	Chromium Kind = "chromium" // a browser without a window
)

// Other proxies, to compare with. Only Obtain takes them.
const (
	HAProxy     Kind = "haproxy"
	MySQLRouter Kind = "mysqlrouter"
)

// IsMariaDB tells whether the server is a MariaDB of any series.
func (k Kind) IsMariaDB() bool { return k != MySQL && k != MySQLTestsuite }

// program is the server program below an obtained server's bin.
func (k Kind) program() string {
	if k.IsMariaDB() {
		return "mariadbd"
	}
	return "mysqld"
}

// Options changes how a server is started.
type Options struct {
	// Args are further command-line options of the server program, for instance "--log-bin" or
	// "--max-allowed-packet=1M". They come last and so win over the package's own.
	Args []string
	// Root is a folder of programs laid out as obtain.sh does it, to be used instead of obtaining any: bin/mysqld or
	// bin/mariadbd, which read no option files, and bin/initialize.
	Root string
	// Parent is the folder in which Server.Dir is made; the system's for temporary files when empty.
	Parent string
	// Data is where the data directory lies below Server.Dir; "data" when empty.
	Data string
}

// Server is one running server, or one of the user's own when it came from Shared (see there). Its methods may be
// called by several goroutines, but for Stop, Kill and Restart, which one goroutine at a time may call.
type Server struct {
	Kind    Kind
	Address string // host:port
	Socket  string // unix socket; empty for a server of the user's own
	Dir     string // temporary directory of the server; empty for a server of the user's own

	args        []string
	data        string
	user        string // for a server of the user's own; root otherwise
	password    string
	db          *sql.DB
	root        string   // obtained program tree
	environment []string // beside the tests' own

	mu      sync.Mutex
	process *exec.Cmd
	exited  chan struct{} // closed when process has ended
}

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
)

// Start obtains the server program if need be, makes a data directory and starts the server. It returns when the server
// answers. The caller stops it with Stop. An error holds the end of the server's log.
func Start(ctx context.Context, kind Kind, options Options) (*Server, error) {
	root := options.Root
	if root == "" {
		var err error
		if root, err = Obtain(ctx, kind); err != nil {
			return nil, err
		}
	}
	pristine, err := pristineData(ctx, kind, root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(options.Parent, "tmpproxy-"+string(kind)+"-")
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	s := &Server{Kind: kind, Dir: dir, Socket: filepath.Join(dir, "s"), user: "root", root: root, args: options.Args, data: cmp.Or(options.Data, "data")}
	if err := s.prepare(ctx, pristine); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", kind, err), os.RemoveAll(dir))
	}
	// The free port may be taken by somebody else before the server listens on it.
	for range 3 {
		addresses, free := FreeAddresses(1)
		if err = free; err != nil {
			break
		}
		s.Address = addresses[0]
		if err = s.launch(ctx); err == nil || !s.addressInUse() {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", kind, err), os.RemoveAll(dir))
	}
	return s, nil
}

func (s *Server) prepare(ctx context.Context, pristine string) error {
	if err := os.Mkdir(filepath.Join(s.Dir, "tmp"), 0o700); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.DataDir()), 0o700); err != nil {
		return err
	}
	return run(exec.CommandContext(ctx, "cp", "-a", pristine, s.DataDir()))
}

// DataDir returns the path of the data directory.
func (s *Server) DataDir() string { return filepath.Join(s.Dir, s.data) }

func (s *Server) logPath() string { return filepath.Join(s.Dir, "log") }

// launch starts the process on s.Address and waits until it answers.
func (s *Server) launch(ctx context.Context) error {
	_, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return err
	}
	args := []string{
		"--datadir=" + s.DataDir(),
		"--tmpdir=" + filepath.Join(s.Dir, "tmp"),
		"--socket=" + s.Socket,
		"--pid-file=" + filepath.Join(s.Dir, "pid"),
		"--bind-address=127.0.0.1",
		"--port=" + port,
		"--secure-file-priv=",
		"--local-infile=1",
		"--max-connections=500",
		// Nothing here outlives the test: no durability, little memory.
		"--innodb-flush-log-at-trx-commit=0",
		"--innodb-doublewrite=0",
		"--innodb-buffer-pool-size=64M",
		"--innodb-use-native-aio=0",
		"--sync-binlog=0",
		// Plans must not change when a background thread finds the time to count rows.
		"--innodb-stats-auto-recalc=OFF",
	}
	if !s.Kind.IsMariaDB() {
		args = append(args, "--mysqlx=OFF", "--innodb-redo-log-capacity=32M")
	}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	process := exec.Command(filepath.Join(s.root, "bin", s.Kind.program()), append(args, s.args...)...)
	process.Stdout, process.Stderr = log, log
	process.Env = append(os.Environ(), s.environment...)
	process.SysProcAttr = ChildAttributes()
	if err := process.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = process.Wait() // how it ended is in its log
		close(exited)
	}()
	s.mu.Lock()
	s.process, s.exited = process, exited
	s.mu.Unlock()
	if err := s.open(); err != nil {
		return errors.Join(err, s.Kill())
	}
	if err := s.awaitReady(ctx); err != nil {
		return errors.Join(fmt.Errorf("%w; the server's log ends:\n%s", err, s.LogTail(20)), s.Kill())
	}
	return nil
}

// open makes s.db for the present address.
func (s *Server) open() error {
	if s.db != nil {
		s.db.Close()
	}
	connector, err := mysql.NewConnector(s.Config(""))
	if err != nil {
		return err
	}
	s.db = sql.OpenDB(connector)
	return nil
}

func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return errors.New("the server ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", err)
		case <-tick.C:
		}
	}
}

// addressInUse tells whether the log blames the port for the end of the server.
func (s *Server) addressInUse() bool {
	log, _ := os.ReadFile(s.logPath())
	return bytes.Contains(log, []byte("ddress already in use"))
}

// LogTail returns the last lines of the server's log.
func (s *Server) LogTail(lines int) string {
	log, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	log = bytes.TrimRight(log, "\n")
	at := len(log)
	for ; lines > 0 && at > 0; lines-- {
		at = bytes.LastIndexByte(log[:at], '\n')
	}
	return string(log[min(at+1, len(log)):])
}

// Config returns the Go driver's settings for an account that may do everything, with schema as its current database.
// The caller owns the result.
func (s *Server) Config(schema string) *mysql.Config {
	c := mysql.NewConfig()
	c.Net, c.Addr = "tcp", s.Address
	c.User, c.Passwd, c.DBName = s.user, s.password, schema
	c.Logger = silent{} // retries while the server starts are no news
	return c
}

// Account returns the name and the password of the account of Config.
func (s *Server) Account() (user, password string) { return s.user, s.password }

type silent struct{}

func (silent) Print(...any) {}

// DB returns a pool of connections for the account of Config without a current database. The server closes it.
func (s *Server) DB() *sql.DB { return s.db }

// Exec runs statements one after the other on one connection of DB and stops at the first error.
func (s *Server) Exec(ctx context.Context, statements ...string) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Kind, err)
	}
	defer conn.Close()
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %s: %w", s.Kind, statement, err)
		}
	}
	return nil
}

// Version returns the server's @@version.
func (s *Server) Version(ctx context.Context) (string, error) {
	var version string
	if err := s.db.QueryRowContext(ctx, "SELECT @@version").Scan(&version); err != nil {
		return "", fmt.Errorf("%s: read version: %w", s.Kind, err)
	}
	return version, nil
}

// Root returns the folder of the obtained programs (bin/mysql, bin/mariadb, …); empty for a server of the user's own.
func (s *Server) Root() string { return s.root }

// PID returns the server's process id, 0 when it does not run or is the user's own.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.Process.Pid
}

// Exited is closed when the process that runs now has ended. It is nil for a server of the user's own.
func (s *Server) Exited() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exited
}

var errForeign = errors.New("not a server of the tests' own")

// Kill ends the server at once (SIGKILL), as a crash does. Restart starts it again on the same data and address.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// Terminate asks the server to end (SIGTERM) and waits for it. Restart starts it again on the same data and address.
func (s *Server) Terminate() error { return s.end(syscall.SIGTERM) }

func (s *Server) end(signal syscall.Signal) error {
	if s.Dir == "" {
		return errForeign
	}
	s.mu.Lock()
	process, exited := s.process, s.exited
	s.process = nil
	s.mu.Unlock()
	if process == nil {
		return nil
	}
	if err := process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", s.Kind, err)
	}
	select {
	case <-exited:
		return nil
	case <-time.After(stopTimeout):
	}
	_ = process.Process.Kill()
	<-exited
	return fmt.Errorf("stop %s: not ended %v after %v, killed", s.Kind, stopTimeout, signal)
}

// Restart ends the server if it runs and starts it again on the same data and address.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Terminate(); err != nil {
		return err
	}
	if err := s.launch(ctx); err != nil {
		return fmt.Errorf("restart %s: %w", s.Kind, err)
	}
	return nil
}

// Stop ends the server and removes its directory. It leaves a server of the user's own alone.
func (s *Server) Stop() error {
	s.db.Close()
	if s.Dir == "" {
		return nil
	}
	return errors.Join(s.Terminate(), os.RemoveAll(s.Dir))
}

// run runs a command; its error holds what the command printed.
func run(c *exec.Cmd) error {
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(c.Path), err, bytes.TrimSpace(out))
	}
	return nil
}

// Port returns the number in Address.
func (s *Server) Port() int {
	_, port, _ := net.SplitHostPort(s.Address)
	n, _ := strconv.Atoi(port)
	return n
}
