package suite

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"tmpproxy/testbed/server"
)

// Bench is one server and all that a test file finds around it: folders, an option file for clients, and the variables
// that the suite's own driver would set. It runs one file at a time; one goroutine at a time may use it.
type Bench struct {
	Server *server.Server

	initial state // of the server after renew
	plugins []string
}

// Target is where the clients of a test file connect to.
type Target struct {
	Port   int    // on 127.0.0.1
	Socket string // path; the clients see a symbolic link, whose path is the same for all targets
}

// options make the server what the suite's driver would start for a file without options of its own. What is left out
// costs time and changes nothing that a client sees.
var options = []string{
	"--connect-timeout=60",
	"--innodb-flush-method=nosync", // nothing here outlives the test
	"--log-bin-trust-function-creators=1",
	"--innodb-buffer-pool-size=24M",
	"--explain-format=TRADITIONAL_STRICT",
	"--server-id=1",
	"--log-output=FILE",
	"--innodb-directories=../../tmp",
}

// quickFolder is where the server lies: in memory if there is room, for the files are full of statements that wait for the
// disk. Empty means the system's folder for temporary files.
func quickFolder() string {
	const memory, room = "/dev/shm", 3 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < room {
		return ""
	}
	return memory
}

// NewBench obtains the test suite with its server and starts one. The caller closes it.
func NewBench(ctx context.Context) (*Bench, error) {
	// The suite expects this time zone of the server and of the clients.
	if err := os.Setenv("TZ", "GMT-3"); err != nil {
		return nil, err
	}
	s, err := server.Start(ctx, server.MySQLTestsuite, server.Options{Args: options, Parent: quickFolder(), Data: "var/mysqld.1/data"})
	if err != nil {
		return nil, err
	}
	b := &Bench{Server: s}
	if err := b.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the suite's server: %w", err), b.Close())
	}
	return b, nil
}

// Direct is the server itself as a target.
func (b *Bench) Direct() Target {
	return Target{Port: b.Server.Port(), Socket: b.Server.Socket}
}

// ClientTests lists the tests of mysql_client_test.
func (b *Bench) ClientTests(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, b.program("mysql_client_test"), "--no-defaults", "--show-tests").Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of mysql_client_test: %w", err)
	}
	var list []string
	for _, line := range lines(string(out)) {
		if name := strings.TrimSpace(line); !strings.ContainsAny(name, " :") && name != "" {
			list = append(list, name)
		}
	}
	return list, nil
}

// ClientTest runs tests of mysql_client_test, as Run does a test file. It ends at the first that fails.
func (b *Bench) ClientTest(ctx context.Context, tests []string, target Target, limit time.Duration) (*Run, error) {
	if err := b.clearFolder(target); err != nil {
		return nil, fmt.Errorf("run mysql_client_test: %w", err)
	}
	arguments := []string{"--defaults-file=" + b.optionFile(), "--socket=" + target.Socket, "--testcase", "--vardir=" + b.vardir()}
	return b.execute(ctx, target, limit, b.program("mysql_client_test"), append(arguments, tests...)...)
}

// Close ends the server and removes everything.
func (b *Bench) Close() error { return b.Server.Stop() }

func (b *Bench) program(name string) string { return filepath.Join(b.Server.Root(), "bin", name) }
func (b *Bench) folder() string             { return filepath.Join(b.Server.Root(), "usr/lib/mysql-test") }

// The suite's driver has the data directory below the folder of the test files, so that statements find what lies there
// by paths like ../../tmp.
func (b *Bench) vardir() string     { return filepath.Join(b.Server.Dir, "var") }
func (b *Bench) tmpdir() string     { return filepath.Join(b.vardir(), "tmp") }
func (b *Bench) socket() string     { return filepath.Join(b.tmpdir(), "mysqld.1.sock") }
func (b *Bench) optionFile() string { return filepath.Join(b.vardir(), "my.cnf") }
func (b *Bench) prepared() string   { return filepath.Join(b.Server.Dir, "prepared") }

// Files lists the names of the main suite's test files, sorted.
func (b *Bench) Files() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(b.folder(), "t", "*.test"))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = strings.TrimSuffix(filepath.Base(path), ".test")
	}
	slices.Sort(names)
	return names, nil
}

func (b *Bench) path(file string) string { return filepath.Join(b.folder(), "t", file+".test") }

// Text returns a test file as it is run in a way.
func (b *Bench) Text(file string, way Way) (string, error) {
	text, err := os.ReadFile(b.path(file))
	if err == nil && way.Rewrite != nil {
		return way.Rewrite(string(text)), nil
	}
	return string(text), err
}

// Recorded returns what the suite's authors recorded for a file, "" when they did not.
func (b *Bench) Recorded(file string) string {
	text, _ := os.ReadFile(filepath.Join(b.folder(), "r", file+".result"))
	return string(text)
}

// prepare makes what the suite's driver puts into a new server, and keeps a copy of the data.
func (b *Bench) prepare(ctx context.Context) (err error) {
	if b.plugins, err = pluginVariables(filepath.Join(b.folder(), "include/plugin.defs"), filepath.Join(b.Server.Root(), "usr/lib/mysql/plugin")); err != nil {
		return err
	}
	script := []string{"CREATE DATABASE test; CREATE DATABASE mtr; USE mysql;"}
	for _, name := range []string{"mtr_test_data_timezone.sql", "mtr_warnings.sql"} {
		text, err := os.ReadFile(filepath.Join(b.folder(), "include", name))
		if err != nil {
			return err
		}
		script = append(script, string(text))
	}
	// What the driver does after the scripts: everybody may use the database test.
	script = append(script, `
INSERT INTO mysql.db VALUES ('%','test','','Y','Y','Y','Y','Y','Y','N','Y','Y','Y','Y','Y','Y','Y','Y','N','N','Y','Y');
DELETE FROM mysql.proxies_priv WHERE user='root';
INSERT INTO mysql.proxies_priv VALUES ('localhost','root','','',TRUE,'',now());
FLUSH PRIVILEGES;`)
	client := exec.CommandContext(ctx, b.program("mysql"), "--no-defaults", "--user=root", "--socket="+b.Server.Socket, "--default-character-set=utf8mb4")
	client.Stdin = strings.NewReader(strings.Join(script, "\n"))
	if out, err := client.CombinedOutput(); err != nil {
		return fmt.Errorf("mysql: %w\n%s", err, out)
	}
	if err := b.Server.Terminate(); err != nil {
		return err
	}
	if err := copyTree(ctx, b.Server.DataDir(), b.prepared()); err != nil {
		return err
	}
	return b.renew(ctx)
}

func copyTree(ctx context.Context, from, to string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w\n%s", from, err, out)
	}
	return nil
}

// renew gives the server the prepared data, whatever has become of it, and empties the folder of the test files.
func (b *Bench) renew(ctx context.Context) error {
	if err := b.Server.Kill(); err != nil {
		return err
	}
	if err := os.RemoveAll(b.Server.DataDir()); err != nil {
		return err
	}
	if err := copyTree(ctx, b.prepared(), b.Server.DataDir()); err != nil {
		return err
	}
	if err := b.Server.Restart(ctx); err != nil {
		return err
	}
	var err error
	b.initial, err = b.inspect(ctx)
	return err
}

// clearFolder gives a test file an empty folder to work in.
func (b *Bench) clearFolder(target Target) error {
	entries, err := os.ReadDir(b.vardir())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if path := filepath.Join(b.vardir(), entry.Name()); !strings.HasPrefix(b.Server.DataDir(), path) {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"tmp", "log", "run"} {
		if err := os.MkdirAll(filepath.Join(b.vardir(), name), 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink(filepath.Join(b.folder(), "std_data"), filepath.Join(b.vardir(), "std_data")); err != nil {
		return err
	}
	if err := os.Symlink(target.Socket, b.socket()); err != nil {
		return err
	}
	text := fmt.Sprintf("[client]\nuser=root\nhost=localhost\nport=%d\nsocket=%s\nloose-ssl-mode=DISABLED\n", target.Port, b.socket())
	for _, program := range []string{"mysql", "mysqlshow", "mysqlimport", "mysqlcheck", "mysqltest"} {
		text += "[" + program + "]\ndefault-character-set=utf8mb4\n"
	}
	text += fmt.Sprintf("[mysqlbinlog]\ndisable-force-if-open\ncharacter-sets-dir=%s\n", b.charsets())
	return os.WriteFile(b.optionFile(), []byte(text), 0o644)
}

func (b *Bench) charsets() string { return filepath.Join(b.Server.Root(), "usr/share/mysql/charsets") }

// environment is what the suite's driver tells a test file.
func (b *Bench) environment(target Target) []string {
	client := func(name string, arguments ...string) string {
		return strings.Join(append([]string{b.program(name), "--defaults-file=" + b.optionFile()}, arguments...), " ")
	}
	bin := filepath.Join(b.Server.Root(), "bin")
	list := []string{
		"HOME=" + b.vardir(),
		"PATH=" + os.Getenv("PATH"),
		"TZ=GMT-3", "LC_ALL=C", "LC_COLLATE=C", "LC_CTYPE=C", "UMASK=0660", "UMASK_DIR=0770",
		"USE_RUNNING_SERVER=1",
		"DEFAULT_MASTER_PORT=3306",
		"MASTER_MYPORT=" + fmt.Sprint(target.Port), "MASTER_MYSOCK=" + b.socket(),
		"MYSQL_TEST_DIR=" + b.folder(), "MYSQL_TEST_DIR_ABS=" + b.folder(),
		"MYSQLTEST_VARDIR=" + b.vardir(), "MYSQLTEST_VARDIR_ABS=" + b.vardir(),
		"MYSQL_TMP_DIR=" + b.tmpdir(),
		"MYSQLTEST_FILE=",
		"SECURE_LOAD_PATH=" + filepath.Join(b.folder(), "std_data"),
		"MYSQL_TEST_LOGIN_FILE=" + filepath.Join(b.tmpdir(), ".mylogin.cnf"),
		"MYSQL_BINDIR=" + bin, "MYSQL_BIN_PATH=" + bin, "MYSQL_CLIENT_BIN_PATH=" + bin, "MYSQL_BASEDIR=" + filepath.Join(b.Server.Root(), "usr"),
		"MYSQL_CHARSETSDIR=" + b.charsets(), "MYSQL_SHAREDIR=" + filepath.Join(b.Server.Root(), "usr/share/mysql"),
		"PATH_CONFIG_FILE=" + b.optionFile(),
		"EXE_MYSQL=" + b.program("mysql"),
		"MYSQL=" + client("mysql"), "MYSQL_OPTIONS=--defaults-file=" + b.optionFile(),
		"MYSQL_BINLOG=" + client("mysqlbinlog"), "MYSQL_CHECK=" + client("mysqlcheck"),
		"MYSQL_DUMP=" + client("mysqldump"), "MYSQL_IMPORT=" + client("mysqlimport"), "MYSQL_SHOW=" + client("mysqlshow"), "MYSQL_SLAP=" + client("mysqlslap"),
		"MYSQLADMIN=" + b.program("mysqladmin"), "MY_PERROR=" + b.program("perror"), "MYSQL_MY_PRINT_DEFAULTS=" + b.program("my_print_defaults"),
		"MYSQL_CLIENT_TEST=" + client("mysql_client_test", "--socket="+target.Socket, "--testcase", "--vardir="+b.vardir()),
		"MYSQL_TEST=" + client("mysqltest", "--silent", "--tmpdir="+b.tmpdir(), "--character-sets-dir="+b.charsets(), "--logdir="+filepath.Join(b.vardir(), "log"), "--database=test"),
		"OPENSSL_EXECUTABLE=openssl", "VALGRIND_TEST=0", "VALGRIND_SERVER_TEST=0",
	}
	if os.Geteuid() == 0 {
		list = append(list, "MYSQL_TEST_ROOT=YES")
	}
	return append(list, b.plugins...)
}

// pluginVariables reads the suite's list of plugins, for which its driver sets variables: empty ones where there is no
// such plugin.
func pluginVariables(definitions, folder string) ([]string, error) {
	f, err := os.Open(definitions)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []string
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 4 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		file, variable := fields[0]+".so", fields[3]
		values := map[string]string{"": "", "_DIR": "", "_OPT": ""}
		if len(fields) > 4 {
			values["_LOAD"], values["_LOAD_EARLY"], values["_LOAD_ADD"] = "", "", ""
		}
		if _, err := os.Stat(filepath.Join(folder, file)); err == nil {
			values[""], values["_DIR"], values["_OPT"] = file, folder, "--plugin-dir="+folder
			if len(fields) > 4 {
				names := strings.ReplaceAll(fields[4], ",", "="+file+";") + "=" + file
				values["_LOAD"], values["_LOAD_EARLY"], values["_LOAD_ADD"] =
					"--plugin_load="+names, "--early-plugin_load="+names, "--plugin_load_add="+names
			}
		}
		for suffix, value := range values {
			list = append(list, variable+suffix+"="+value)
		}
	}
	return list, scanner.Err()
}

// Verdict is how the run of a test file ended.
type Verdict string

const (
	Done    Verdict = "done"    // to the end
	Skipped Verdict = "skipped" // the file says that it cannot run here
	Failed  Verdict = "failed"  // a statement did not do what the file expects
	Late    Verdict = "late"    // longer than allowed
	Ended   Verdict = "ended"   // the server ended, because the file made it
)

// Run is the outcome of one run of a test file.
type Run struct {
	Verdict  Verdict
	Output   string // what the file printed, then what the test program said of a failure
	Message  string // why it is not Done, in a line
	Duration time.Duration
}

const (
	exitFailed  = 1
	exitSkipped = 62
)

// Run runs a test file in a way with clients that connect to target, at most as long as limit. The error is one of the bench
// itself. Reset must follow before the next run.
func (b *Bench) Run(ctx context.Context, file string, way Way, target Target, limit time.Duration) (*Run, error) {
	if err := b.clearFolder(target); err != nil {
		return nil, fmt.Errorf("run %s: %w", file, err)
	}
	path := b.path(file)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", file, err)
	}
	if wantsMyISAM(text) {
		if err := b.Server.Exec(ctx, "SET GLOBAL default_storage_engine = MyISAM", "SET GLOBAL default_tmp_storage_engine = MyISAM"); err != nil {
			return nil, fmt.Errorf("run %s: %w", file, err)
		}
	}
	if way.Rewrite != nil {
		path = filepath.Join(b.vardir(), file+".test")
		if err := os.WriteFile(path, []byte(way.Rewrite(string(text))), 0o644); err != nil {
			return nil, fmt.Errorf("run %s: %w", file, err)
		}
	}
	command := append([]string{
		"--defaults-file=" + b.optionFile(), "--silent", "--tmpdir=" + b.tmpdir(), "--character-sets-dir=" + b.charsets(),
		"--logdir=" + filepath.Join(b.vardir(), "log"), "--database=test", "--test-file=" + path,
	}, way.Arguments...)
	return b.execute(ctx, target, limit, b.program("mysqltest"), command...)
}

// wantsMyISAM tells whether the suite's driver would make MyISAM the default engine for a file.
func wantsMyISAM(text []byte) bool {
	return bytes.Contains(text, []byte("include/force_myisam_default.inc"))
}

// execute runs a test program and takes its exit status for mysqltest's.
func (b *Bench) execute(ctx context.Context, target Target, limit time.Duration, program string, arguments ...string) (*Run, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := exec.CommandContext(ctx, program, arguments...)
	c.Dir = b.folder()
	c.Env = b.environment(target)
	c.SysProcAttr = server.ChildAttributes()
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	// Two files: what comes of both may not mix within a line.
	outputs := [2]string{filepath.Join(b.Server.Dir, "stdout"), filepath.Join(b.Server.Dir, "stderr")}
	for i, into := range []*io.Writer{&c.Stdout, &c.Stderr} {
		f, err := os.Create(outputs[i])
		if err != nil {
			return nil, err
		}
		defer f.Close()
		*into = f
	}
	start := time.Now()
	if err := c.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	lost := b.watch(ended, cancel)
	err := c.Wait()
	close(ended)
	r := &Run{Duration: time.Since(start)}
	// What the file left running of its own goes with it.
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	for _, path := range outputs {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		// No two benches lie in the same place.
		r.Output += strings.ReplaceAll(string(text), b.Server.Dir, "$BENCH")
	}
	switch code := c.ProcessState.ExitCode(); {
	case <-lost:
		r.Verdict, r.Message = Ended, "the server ended"
	case err == nil:
		r.Verdict = Done
	case code == exitSkipped:
		r.Verdict, r.Message = Skipped, complaint(r.Output)
	case ctx.Err() != nil:
		r.Verdict, r.Message = Late, fmt.Sprintf("longer than %v", limit)
	case code == exitFailed:
		r.Verdict, r.Message = Failed, complaint(r.Output)
	default:
		r.Verdict, r.Message = Failed, fmt.Sprintf("%v: %s", err, complaint(r.Output))
	}
	return r, nil
}

// watch ends a run when the server ends, for its clients would wait for it to come back. The channel that it returns tells,
// after ended is closed, whether that was so.
func (b *Bench) watch(ended <-chan struct{}, cancel func()) <-chan bool {
	lost := make(chan bool, 1)
	go func() {
		select {
		case <-ended:
			// A file whose last statement ends the server may be quicker than the server.
			lost <- !b.alive()
		case <-b.Server.Exited():
			cancel()
			lost <- true
		}
	}()
	return lost
}

func (b *Bench) alive() bool { return b.Server.DB().Ping() == nil }

// complaint is the line that tells why mysqltest gave up.
func complaint(output string) string {
	list := lines(strings.TrimSpace(output))
	for _, line := range slices.Backward(list) {
		if strings.HasPrefix(line, "mysqltest:") || strings.Contains(line, "is not supported by this installation") {
			return line
		}
	}
	if len(list) == 0 {
		return "no output"
	}
	return list[len(list)-1]
}
