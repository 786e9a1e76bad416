//go:build realserver

package drivers

import (
	"bytes"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

var (
	all  = flag.Bool("drivers.all", false, "run all programs, not only a few")
	keep = flag.String("drivers.outputs", "", "write what the programs print into this folder")
)

// timeout ends a program that hangs.
const timeout = 5 * time.Minute

// Every program prints sections of these names, in this order; one may print a section in several ways.
var sections = []string{"connect", "types", "prepared", "write", "big", "results", "infile", "transaction", "cycles", "ddl", "several", "errors", "reset", "reconnect", "end"}

// program is how a driver is used.
type program struct {
	name    string
	few     bool     // one of those that are run without -drivers.all
	lacks   []string // sections that there cannot be
	command func(*tools) *exec.Cmd
}

// script runs one of the unpacked interpreters with settings of its environment.
func script(interpreter string, args []string, settings ...string) func(*tools) *exec.Cmd {
	return func(t *tools) *exec.Cmd {
		places := strings.NewReplacer("{root}", t.root, "{arch}", t.arch)
		var list []string
		for _, arg := range args {
			list = append(list, places.Replace(arg))
		}
		c := t.command(filepath.Join(t.root, interpreter), list...)
		for _, setting := range settings {
			c.Env = append(c.Env, places.Replace(setting))
		}
		return c
	}
}

func php(file string) func(*tools) *exec.Cmd {
	return script("usr/bin/php8.2", []string{"-n", "-d", "extension_dir={root}/usr/lib/php/20220829", "-d", "extension=mysqlnd", "-d", "extension=mysqli",
		"-d", "extension=pdo", "-d", "extension=pdo_mysql", "-d", "mysqli.allow_local_infile=1", "-d", "memory_limit=1G", "-d", "html_errors=0", "-d", "display_errors=stderr", file})
}

func python(words ...string) func(*tools) *exec.Cmd {
	return script("usr/bin/python3.11", append([]string{"-X", "utf8", "-B"}, words...), "PYTHONHOME={root}/usr", "PYTHONPATH={root}/usr/lib/python3/dist-packages", "PYTHONNOUSERSITE=1",
		"ODBCSYSINI=/nonexistent", "TMPPROXY_ODBC={root}/usr/lib/{arch}/odbc/libmaodbc.so")
}

func perl(words ...string) func(*tools) *exec.Cmd {
	return script("usr/bin/perl", words, "PERL5LIB={root}/usr/lib/{arch}/perl5/5.36:{root}/usr/share/perl5:{root}/usr/lib/{arch}/perl-base:{root}/usr/lib/{arch}/perl/5.36:{root}/usr/share/perl/5.36")
}

func ruby(file string) func(*tools) *exec.Cmd {
	return script("usr/bin/ruby3.1", []string{"--disable=gems", file}, "RUBYLIB={root}/usr/lib/ruby/vendor_ruby:{root}/usr/lib/{arch}/ruby/vendor_ruby/3.1.0:{root}/usr/lib/ruby/3.1.0:{root}/usr/lib/{arch}/ruby/3.1.0")
}

func node(file string) func(*tools) *exec.Cmd {
	return func(t *tools) *exec.Cmd {
		c := exec.Command("node", file)
		c.Env = append(environment(), "NODE_PATH="+t.modules, "TZ=UTC")
		return c
	}
}

func java(t *tools) *exec.Cmd {
	return t.command(t.java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", t.build+":"+t.jar(), "Main")
}

// commands runs a shell script with the places of programs in its environment. Those that are links into the unpacked packages
// are run with their libraries.
func commands(file string, settings ...string) func(*tools) *exec.Cmd {
	return func(t *tools) *exec.Cmd {
		c := exec.Command("sh", "commands/"+file)
		c.Env = append(environment(), "LC_ALL=C.UTF-8", "TZ=UTC")
		places := strings.NewReplacer("{root}", t.root, "{bin}", t.build, "{mysql}", t.mysql, "{dump}", t.dump)
		for _, setting := range settings {
			c.Env = append(c.Env, places.Replace(setting))
		}
		return c
	}
}

func built(name string) func(*tools) *exec.Cmd {
	return func(t *tools) *exec.Cmd {
		c := exec.Command(filepath.Join(t.build, name))
		c.Env = environment()
		return c
	}
}

// notDumped is what programs that dump databases do not do.
var notDumped = []string{"prepared", "big", "results", "infile", "transaction", "cycles", "ddl", "several", "reset", "reconnect"}

var programs = []program{
	{name: "go-sql-driver", few: true, command: built("gosqldriver")},
	{name: "go-mysql", command: built("gomysql"), lacks: []string{"infile", "reset"}},
	{name: "PHP mysqli", few: true, command: php("php/mysqli.php")},
	{name: "Python mysqlclient", command: python("python/dbapi.py", "MySQLdb")},
	{name: "Python PyMySQL", few: true, command: python("python/dbapi.py", "pymysql")},
	{name: "ODBC", command: python("python/odbc.py"), lacks: []string{"reset"}},
	{name: "Node mysql2", command: node("node/mysql2.js")},
	{name: "Node mariadb", command: node("node/mariadb.js")},
	{name: "MariaDB Connector/J", command: java, lacks: []string{"reset"}},
	{name: "Perl DBD::mysql", command: perl("perl/dbi.pl", "mysql")},
	{name: "Perl DBD::MariaDB", command: perl("perl/dbi.pl", "MariaDB")},
	{name: "Ruby mysql2", command: ruby("ruby/mysql2.rb")},
	{name: "mysql", command: commands("client.sh", "CLIENT={mysql}/mysql", "FLAGS=--commands --get-server-public-key"), lacks: []string{"reset"}},
	{name: "mariadb", command: commands("client.sh", "CLIENT={bin}/mariadb", "FLAGS=--skip-ssl"), lacks: []string{"reset"}},
	{name: "mysqldump", command: commands("dump.sh", "DUMP={dump}/mysqldump", "FLAGS=--set-gtid-purged=OFF --get-server-public-key", "CLIENT={mysql}/mysql", "CLIENT_FLAGS=--get-server-public-key"), lacks: notDumped},
	{name: "mariadb-dump", command: commands("dump.sh", "DUMP={bin}/mariadb-dump", "FLAGS=--skip-ssl", "CLIENT={bin}/mariadb", "CLIENT_FLAGS=--skip-ssl"), lacks: notDumped},
	{name: "sysbench", command: commands("sysbench.sh", "SYSBENCH={bin}/sysbench", "SCRIPTS={root}/usr/share/sysbench"),
		lacks: []string{"types", "prepared", "big", "infile", "ddl", "several", "errors", "reset", "reconnect"}},
	{name: "PHP PDO", command: php("php/pdo.php"), lacks: []string{"reset"}},
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := process.Clean(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const user, password = "drivers", "secret"

// fixture is what each program finds.
func fixture(kind server.Kind, database string) []string {
	return []string{"DROP DATABASE IF EXISTS " + database, "CREATE DATABASE " + database + " CHARACTER SET utf8mb4", "USE " + database,
		`CREATE TABLE types (
			id INT AUTO_INCREMENT PRIMARY KEY, tiny TINYINT, small SMALLINT UNSIGNED, medium MEDIUMINT, big BIGINT, ubig BIGINT UNSIGNED, yes BOOL,
			f FLOAT, d DOUBLE, dec1 DECIMAL(30,10), b BIT(10), day DATE, at DATETIME(6), stamp TIMESTAMP(3) NULL, clock TIME(2), year YEAR,
			c CHAR(10), v VARCHAR(100), l VARCHAR(20) CHARACTER SET latin1, bin BINARY(4), vbin VARBINARY(20), t TEXT, mt MEDIUMTEXT, bl BLOB, e ENUM('a','b'), s SET('x','y','z'),
			j JSON, p POINT)`,
		`INSERT INTO types VALUES (1, -128, 65535, -8388608, -9223372036854775808, 18446744073709551615, TRUE,
			1.5, -2.5e300, 12345678901234567890.0123456789, b'1010101010', '2024-02-29', '2024-02-29 23:59:59.123456', '2024-02-29 12:00:00.5', '-838:59:58.25', 2024,
			'char', 'größer 🙂 "quoted" \\ ''x''', 'größer', X'00FF00FF', X'0001', 'text\nwith lines', 'm', X'DEADBEEF00', 'b', 'x,z', '{"k": [1, null, "v"]}', ST_GeomFromText('POINT(1.5 -2)'))`,
		`INSERT INTO types (id) VALUES (2)`,
		`INSERT INTO types (id, v, t, bl, vbin) VALUES (3, '', '', '', '')`,
		`INSERT INTO types (id, v, day, clock) VALUES (4, 'zero', '1000-01-01', '00:00:00')`,
		"CREATE TABLE bigs (id INT PRIMARY KEY, v LONGBLOB)",
		"CREATE TABLE loaded (a INT, b VARCHAR(250))",
		"CREATE PROCEDURE several(IN n INT) BEGIN SELECT 'first', n; SELECT id, v FROM types WHERE id <= n ORDER BY id; END",
		"CREATE USER IF NOT EXISTS " + user + " IDENTIFIED BY '" + password + "'",
		"GRANT ALL ON " + database + ".* TO " + user,
		"GRANT SELECT, SHOW VIEW, RELOAD, PROCESS, FILE ON *.* TO " + user} // to dump databases
}

// database is the name of the program's own.
func (p *program) database() string {
	return "drivers_" + strings.ToLower(strings.NewReplacer(" ", "_", "-", "_", ":", "_", "/", "_").Replace(p.name))
}

// bench is a server with what the programs need.
type bench struct {
	*server.Server
	tools *tools
	file  string // for LOAD DATA
}

// login makes the server remember the account's password, so that every later login takes the short way.
func (b *bench) login(t *testing.T, database string) {
	t.Helper()
	config := b.Config(database)
	config.User, config.Passwd = user, password
	connector, err := driver.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	if err := db.Ping(); err != nil {
		t.Fatal(err)
	}
}

// transcript runs a program against an address. It returns what it printed and, apart from that, its facts: lines with an @.
func (b *bench) transcript(t *testing.T, p *program, address, label string) (lines []string, facts map[string]string) {
	t.Helper()
	database := p.database()
	if err := b.Exec(context.Background(), fixture(b.Kind, database)...); err != nil {
		t.Fatal(err)
	}
	b.login(t, database)
	host, port, _ := net.SplitHostPort(address)
	c := p.command(b.tools)
	c.Args = append(c.Args, host, port, user, password, database, b.file)
	c.SysProcAttr = server.ChildAttributes()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	watch := time.AfterFunc(timeout, func() { _ = c.Process.Kill() })
	err := c.Wait()
	watch.Stop()
	if *keep != "" {
		name := fmt.Sprintf("%s.%s.%s", database, b.Kind, label)
		if err := os.WriteFile(filepath.Join(*keep, name), append(stdout.Bytes(), stderr.Bytes()...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s: %v\n%s\nafter\n%s", label, err, stderr.Bytes(), tail(stdout.String(), 10))
	}
	facts = map[string]string{}
	for line := range strings.Lines(stdout.String()) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "@") {
			lines = append(lines, line)
			continue
		}
		// @reuse cycles emulated 0 0: the name of a section may have spaces.
		at := regexp.MustCompile(`^@(engine|reuse) (.*?) ([A-Za-z]+|\d+ \d+)$`).FindStringSubmatch(line)
		if at == nil {
			t.Fatalf("%s: %q", label, line)
		}
		facts[at[1]+" "+at[2]] = at[3]
	}
	return lines, facts
}

func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// complete tells whether a transcript has all sections that there can be, each with something in it.
func complete(t *testing.T, p *program, lines []string) {
	t.Helper()
	got := map[string]int{}
	current := ""
	for _, line := range lines {
		if name, ok := strings.CutPrefix(line, "== "); ok {
			current, _, _ = strings.Cut(name, " ")
			if got[current]++; !slices.Contains(sections, current) {
				t.Errorf("a section %q", name)
			}
		} else {
			got[current]++
		}
	}
	for _, name := range sections {
		switch lacks := slices.Contains(p.lacks, name); {
		case lacks && got[name] > 0:
			t.Errorf("there is a section %q", name)
		case !lacks && got[name] < 2 && name != "end" || !lacks && got[name] == 0:
			t.Errorf("no section %q", name)
		}
	}
}

// reuse checks what a program has read from the server's own counters and from SHOW CREATE TABLE: the cycles must be
// cached.
func reuse(t *testing.T, direct, facts map[string]string, strategy string) {
	t.Helper()
	for fact, value := range direct {
		got := facts[fact]
		what, name, _ := strings.Cut(fact, " ")
		switch {
		case what == "engine":
			want := map[string]string{"native": "MEMORY", "keep": "MEMORY", "innodb": "InnoDB"}[strategy]
			if value != "MEMORY" || got != want {
				t.Errorf("%s: directly %s, then %s, want %s", name, value, got, want)
			}
			continue
		case strategy == "native" && got != value:
			t.Errorf("%s: CREATE and DROP reached the server %s times, directly %s times", name, got, value)
		case strategy != "native" && got != "0 0":
			t.Errorf("%s: CREATE and DROP reached the server %s times from the third cycle on, directly %s times", name, got, value)
		}
		if c, g := counts(t, value), counts(t, got); c[0] < 4 || c[1] < 4 || g[0] > c[0] || g[1] > c[1] {
			t.Errorf("%s: CREATE and DROP reached the server %s times, directly %s times", name, got, value)
		}
	}
	if len(facts) != len(direct) {
		t.Errorf("directly the program told %v, then %v", direct, facts)
	}
}

func counts(t *testing.T, text string) (n [2]int) {
	t.Helper()
	one, two, _ := strings.Cut(text, " ")
	var err error
	if n[0], err = strconv.Atoi(one); err == nil {
		n[1], err = strconv.Atoi(two)
	}
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return n
}

// same compares transcripts and shows the first lines that differ, with the section they stand in.
func same(t *testing.T, want, got []string) {
	t.Helper()
	section, shown := "", 0
	for i := range max(len(want), len(got)) {
		w, g := "(nothing)", "(nothing)"
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if strings.HasPrefix(w, "== ") {
			section = w
		}
		if w == g {
			continue
		}
		before := ""
		if i > 0 && i <= len(want) {
			before = want[i-1]
		}
		t.Errorf("%s, line %d, after %.200q:\n direct  %.400q\n proxied %.400q", section, i+1, before, w, g)
		if shown++; shown == 5 {
			return
		}
	}
}

// eachBench runs a test on each kind of server, side by side.
func eachBench(t *testing.T, kinds []server.Kind, test func(t *testing.T, b *bench)) {
	t.Helper()
	tools, err := obtain(context.Background(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "data.csv")
	if err := os.WriteFile(file, bytes.Repeat([]byte("1,a row\n2,another\n"), 5_000), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s, err := server.Start(context.Background(), kind, server.Options{Args: []string{"--max-allowed-packet=64M"}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
			})
			test(t, &bench{s, tools, file})
		})
	}
}

// TestDrivers runs every program directly and through the proxy.
func TestDrivers(t *testing.T) {
	eachBench(t, []server.Kind{server.MySQL, server.MariaDB}, func(t *testing.T, b *bench) {
		for _, p := range programs {
			if !*all && !p.few {
				continue
			}
			t.Run(p.name, func(t *testing.T) { b.compare(t, &p) })
		}
	})
}

func (b *bench) compare(t *testing.T, p *program) {
	want, wantFacts := b.transcript(t, p, b.Address, "direct")
	complete(t, p, want)
	if len(wantFacts) == 0 && !slices.Contains(p.lacks, "cycles") {
		t.Error("directly the program tells nothing of its cycles")
	}
	for _, strategy := range []string{"native", "keep", "innodb"} {
		t.Run(strategy, func(t *testing.T) {
			proxy, err := process.Start(context.Background(), b.Address, "TMPPROXY_REWRITE_STRATEGY="+strategy)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := proxy.Stop(); err != nil {
					t.Error(err)
				}
			}()
			got, facts := b.transcript(t, p, proxy.Address, strategy)
			same(t, want, got)
			reuse(t, wantFacts, facts, strategy)
			if t.Failed() {
				for _, page := range []string{"/api/shapes", "/metrics"} {
					text, err := proxy.Get(page)
					t.Logf("%s: %s, %v", page, text, err)
				}
			}
		})
	}
}
