package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// load reads a file of that text ("" for none), these variables and these flags.
func load(t *testing.T, text string, variables map[string]string, args ...string) (*Config, error) {
	t.Helper()
	file := ""
	if text != "" {
		file = filepath.Join(t.TempDir(), "proxy.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(file, flags)
}

func TestDefaults(t *testing.T) {
	c, err := load(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, Default()) {
		t.Errorf("nothing given: %+v", c)
	}
	if !slices.Equal(c.Backend.Addresses, []string{"127.0.0.1:3306"}) || c.Limits.HandshakeTimeout != 8*time.Second || c.Rewrite.MaxCreate != 16<<10 ||
		!slices.Equal(c.Rewrite.Convert, []string{"MEMORY", "HEAP", "MyISAM"}) || c.Rewrite.Strategy != "innodb" {
		t.Errorf("defaults are not what the documentation promises: %+v", c)
	}
}

func TestPrecedence(t *testing.T) {
	const file = "limits:\n  max_sessions: 11\n  max_handshakes: 12\nbackend:\n  address: file:1\n"
	c, err := load(t, file,
		map[string]string{"TMPPROXY_LIMITS_MAX_SESSIONS": "21", "TMPPROXY_LIMITS_MAX_HANDSHAKES": "22"},
		"--limits.max_sessions=31")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what      string
		got, want any
	}{
		{"flag over variable over file", c.Limits.MaxSessions, 31},
		{"variable over file", c.Limits.MaxHandshakes, 22},
		{"file over default", c.Backend.Addresses[0], "file:1"},
		{"default", c.Backend.ConnectTimeout, 5 * time.Second},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %v, want %v", test.what, test.got, test.want)
		}
	}
}

func TestFileFromEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(file, []byte("rewrite: {strategy: keep}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, "", map[string]string{FileVariable: file})
	if err != nil || c.Rewrite.Strategy != "keep" {
		t.Fatalf("%v, %+v", err, c)
	}
	c, err = load(t, "rewrite: {strategy: native}", map[string]string{FileVariable: file})
	if err != nil || c.Rewrite.Strategy != "native" {
		t.Fatalf("the file that is named outright must win: %v, %+v", err, c)
	}
}

// TestEverySource sets every key in every way to a value that is not its default.
func TestEverySource(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("X-Api-Key: secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	certificate, key := pair(t)
	other := map[string]string{
		"listen.addresses": "127.0.0.1:3317,/run/tmpproxy.sock", "backend.address": "/run/mysqld/mysqld.sock", "backend.connect_timeout": "1500ms",
		"listen.proxy_networks": "10.0.0.0/8,unix", "backend.proxy_protocol": "v2", "backend.check.interval": "2s", "backend.check.timeout": "1s", "backend.check.fall": "5", "backend.check.rise": "7",
		"backend.allow_peer_identity": "true", "backend.monitor.user": "watch", "backend.monitor.password_file": password,
		"limits.max_sessions": "20", "limits.max_host_sessions": "9", "limits.max_user_sessions": "8", "limits.max_handshakes": "3", "limits.max_buffered": "64MiB", "limits.handshake_timeout": "2s", "limits.idle_timeout": "8h",
		"relay.driver": "pump", "relay.loops": "2", "relay.io_uring": "false",
		"rewrite.strategy": "keep", "rewrite.convert": "MEMORY", "rewrite.fidelity": "strict", "rewrite.routines": "scan", "rewrite.on_hazard": "native",
		"rewrite.reset": "auto", "rewrite.on_rollback": "preserve", "rewrite.convert_select": "true", "rewrite.cache_like": "true",
		"rewrite.max_statement": "128KiB", "rewrite.max_create": "8KiB", "rewrite.max_parked": "7", "rewrite.park_ttl": "1m", "rewrite.max_age": "2m",
		"record.enabled": "true", "record.file": "/var/log/r.jsonl", "record.users": "shop,a*", "record.schemas": "s", "record.hosts": "10.0.0.0/8",
		"record.share": "7", "record.mask": "true", "record.max_size": "1GiB", "record.max_time": "2h",
		"admin.address": "none", "admin.hosts": "proxy.example,other", "admin.pprof": "true", "admin.token_file": token,
		"trial.dir": "/var/lib/tmpproxy", "trial.name": "autumn", "trial.arms": "native,fast=innodb/auto*2", "trial.assignment": "user", "trial.guardrail": "0.5",
		"log.level": "warn", "log.format": "console", "shutdown.grace": "0s",
		"shutdown.delay": "3s", "shutdown.quitquitquit": "true", "shutdown.exit_zero": "true", "slow_log.file": "/var/log/slow", "slow_log.threshold": "2ms", "slow_log.text": "full",
		"tracing.endpoint": "http://collector:4318/v1/traces", "tracing.headers_file": headers, "tracing.threshold": "2s", "tracing.share": "5", "shutdown.finish": "2s", "listen.reuseport": "true", "reload.watch": "0s",
		"listen.tls.mode": "optional", "listen.tls.cert_file": certificate, "listen.tls.key_file": key, "listen.tls.ca_file": certificate, "listen.tls.dir": "/var/lib/tmpproxy",
		"backend.tls.mode": "verify-ca", "backend.tls.cert_file": certificate, "backend.tls.key_file": key, "backend.tls.ca_file": certificate,
		"backend.tls.server_name": "db", "backend.rsa_key_file": key,
	}
	args, variables := []string(nil), map[string]string{}
	for _, k := range Keys() {
		v, ok := other[k.Name]
		if !ok {
			t.Fatalf("%s: no value to try", k.Name)
		}
		args = append(args, "--"+k.Name+"="+v)
		variables[k.Variable()] = v
	}
	check := func(how string, c *Config, err error) {
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if changed := Default().Changed(c); len(changed) != len(table) {
			t.Errorf("%s: only these keys arrived: %v", how, changed)
		}
		if !slices.Equal(c.Listen.Addresses, []string{"127.0.0.1:3317", "/run/tmpproxy.sock"}) || c.Admin.Address != "" ||
			c.Rewrite.MaxStatement != 128<<10 || c.Backend.ConnectTimeout != 1500*time.Millisecond {
			t.Errorf("%s: %+v", how, c)
		}
		if p, err := c.MonitorPassword(); p != "secret" || err != nil {
			t.Errorf("%s: password %q, %v", how, p, err)
		}
	}
	c, err := load(t, "", nil, args...)
	check("flags", c, err)
	c, err = load(t, "", variables)
	check("variables", c, err)
}

func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name      string
		file      string
		variables map[string]string
		args      []string
		want      []string // each fault holds one of these, in this order
	}{
		{"unknown keys", "backend:\n  adress: x:1\nrewrites:\n  strategy: keep\n", nil, nil,
			[]string{"backend.adress (proxy.yaml): unknown key", "rewrites.strategy (proxy.yaml): unknown key"}},
		{"value instead of a section", "backend: 5\n", nil, nil, []string{"backend (proxy.yaml): is a section"}},
		{"section instead of a value", "log:\n  level:\n    main: info\n", nil, nil, []string{"log.level (proxy.yaml): is not a plain value"}},
		{"list instead of a value", "log:\n  level: [info]\n", nil, nil, []string{"log.level (proxy.yaml): is a list"}},
		{"unknown variables", "", map[string]string{"TMPPROXY_BACKEND_ADRESS": "x:1", "TMPPROXY_LOG": ""}, nil,
			[]string{"TMPPROXY_BACKEND_ADRESS: unknown environment variable", "TMPPROXY_LOG: unknown environment variable"}},
		{"durations without unit", "backend:\n  connect_timeout: 5\n", map[string]string{"TMPPROXY_SHUTDOWN_GRACE": "30"}, []string{"--rewrite.park_ttl=0"},
			[]string{`backend.connect_timeout (proxy.yaml): "5" has no unit: write 5s`, `rewrite.park_ttl (--rewrite.park_ttl): "0" has no unit`,
				`shutdown.grace (TMPPROXY_SHUTDOWN_GRACE): "30" has no unit`}},
		{"durations that are none", "", nil, []string{"--rewrite.park_ttl=soon", "--rewrite.max_age=-1h", "--limits.handshake_timeout=0s"},
			[]string{`0s is shorter than 1ms`, `"soon" is not a duration`, `-1h0m0s is shorter than 1s`}},
		{"sizes", "rewrite:\n  max_statement: 65536\n  max_create: 16kb\n", nil, nil, []string{`"65536" has no unit: write 65536B`, `"16kb" is not a size`}},
		{"fractions", "", nil, []string{"--trial.guardrail=20%"}, []string{`"20%" is not a number such as 0.2`}},
		{"fractions out of range", "", nil, []string{"--trial.guardrail=NaN"}, []string{"NaN is outside 0.01 to 100"}},
		{"sizes out of range", "rewrite:\n  max_statement: 1GiB\n  max_create: -1KiB\n", nil, nil, []string{"1GiB is outside 1KiB to 16777214B", "-1KiB is outside 256B"}},
		{"enumerations", "rewrite: {strategy: fast, convert: [MEMORY, InnoDB, ARCHIVE], fidelity: yes, routines: some, on_hazard: die}\nrelay: {driver: uring}\n", nil,
			[]string{"--log.level=loud", "--log.format=xml"},
			[]string{`"uring" is none of loop, pump`, `"fast" is none of innodb, keep, native`, `"InnoDB" is none of MEMORY, HEAP, MyISAM, Aria`, `"ARCHIVE" is none of`,
				`"yes" is none of standard, strict`, `"some" is none of`, `"die" is none of`, `"loud" is none of`, `"xml" is none of`}},
		{"numbers", "limits: {max_sessions: many, max_handshakes: 0}\nrewrite: {max_parked: 1.5}", nil, nil,
			[]string{`"many" is not a whole number`, `0 is outside 1 to`, `"1.5" is not a whole number`}},
		{"booleans", "admin: {pprof: 1}", map[string]string{"TMPPROXY_BACKEND_ALLOW_PEER_IDENTITY": "yes"}, nil,
			[]string{`"yes" is neither true nor false`, `"1" is neither`}},
		{"addresses", "listen: {addresses: [here, 'host:99999', ' ']}\nbackend: {address: ':3306'}\nadmin: {address: ''}", nil, nil,
			[]string{`"here" is neither host:port nor`, `"host:99999" has no port`, "holds an empty item", `":3306" has no host`, "admin.address (proxy.yaml): is empty"}},
		{"relative path", "", nil, []string{"--backend.address=./mysqld.sock"}, []string{`"./mysqld.sock" is neither host:port nor the absolute path`}},
		{"backend without a port", "", nil, []string{"--backend.address=db:0"}, []string{`"db:0" has no port`}},
		{"socket path too long", "", nil, []string{"--backend.address=/" + strings.Repeat("x", 107)}, []string{"longer than a unix socket's path"}},
		{"collector", "tracing: {endpoint: 'collector:4318'}", nil, nil, []string{"tracing.endpoint (proxy.yaml): is not a URL such as"}},
		{"collector with a password", "", nil, []string{"--tracing.endpoint=http://u:secret@collector/"}, []string{"without user and password"}},
		{"no listener", "listen: {addresses: []}", nil, nil, []string{"listen.addresses: at least one"}},
		{"listener twice", "", nil, []string{"--listen.addresses=:1,:1"}, []string{`":1" is given twice`}},
		{"listens on its backend", "", nil, []string{"--listen.addresses=127.0.0.1:3306"}, []string{"listen.addresses, backend.address: "}},
		{"listens on the admin address", "", nil, []string{"--listen.addresses=127.0.0.1:9104"}, []string{"listen.addresses, admin.address: "}},
		{"scan without monitor", "", nil, []string{"--rewrite.routines=scan"}, []string{"rewrite.routines, backend.monitor.user: scan needs the monitor account"}},
		{"none without monitor", "", nil, []string{"--rewrite.routines=none"}, []string{"none needs the monitor account"}},
		{"password without user", "", nil, []string{"--backend.monitor.password_file=/dev/null"}, []string{"a password without a user"}},
		{"password not there", "", nil, []string{"--backend.monitor.user=u", "--backend.monitor.password_file=/nowhere/p"}, []string{"open /nowhere/p: no such file"}},
		{"park_ttl beyond max_age", "", nil, []string{"--rewrite.max_age=5m"}, []string{"rewrite.park_ttl, rewrite.max_age: 10m0s can never be reached with 5m0s"}},
		{"trial under native", "", nil, []string{"--trial.arms=native,keep", "--rewrite.strategy=native"}, []string{"trial.arms, rewrite.strategy: native goes before any trial"}},
		{"max_create beyond max_statement", "", nil, []string{"--rewrite.max_create=1MiB"}, []string{"1MiB can never be reached with 64KiB"}},
		{"broken YAML and a broken flag", "a: [", nil, []string{"--log.level=x"}, []string{"proxy.yaml: line 1: ", `"x" is none of`}},
		{"key twice", "log: {level: info}\nlog: {level: warn}\n", nil, nil, []string{`"log" already defined at line 1`}},
		{"not a mapping", "- a\n", nil, nil, []string{"proxy.yaml: "}},
		{"no cross-check with a broken value", "", nil, []string{"--rewrite.park_ttl=9h", "--rewrite.max_age=1"}, []string{`"1" has no unit`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(t, test.file, test.variables, test.args...)
			var faults *Error
			if !errors.As(err, &faults) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if len(faults.Faults) != len(test.want) {
				t.Fatalf("got %d faults, want %d:\n%v", len(faults.Faults), len(test.want), err)
			}
			for i, want := range test.want {
				if !strings.Contains(faults.Faults[i], want) {
					t.Errorf("fault %d is\n%s\nwant\n%s", i, faults.Faults[i], want)
				}
				if !strings.Contains(err.Error(), faults.Faults[i]) {
					t.Errorf("the message lacks a fault: %v", err)
				}
			}
		})
	}
}

func TestFileMissing(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil)
	var faults *Error
	if !errors.As(err, &faults) || !strings.Contains(err.Error(), "none.yaml: no such file or directory") {
		t.Errorf("got %v", err)
	}
}

func TestAccepted(t *testing.T) {
	for _, test := range []struct {
		name      string
		file      string
		variables map[string]string
		args      []string
		get       func(*Config) any
		want      any
	}{
		{"empty section", "rewrite:\n  # strategy: keep\n", nil, nil, func(c *Config) any { return c.Rewrite.Strategy }, "innodb"},
		{"nothing but comments", "# x\n", nil, nil, func(c *Config) any { return c.Rewrite.Strategy }, "innodb"},
		{"empty variable", "log: {level: warn}", map[string]string{"TMPPROXY_LOG_LEVEL": ""}, nil, func(c *Config) any { return c.Log.Level }, "warn"},
		{"key without a value", "log:\n  level:\n", nil, nil, func(c *Config) any { return c.Log.Level }, "info"},
		{"list in a file", "listen: {addresses: ['[::1]:3307', /run/p.sock]}", nil, nil, func(c *Config) any { return c.Listen.Addresses }, []string{"[::1]:3307", "/run/p.sock"}},
		{"one item instead of a list", "listen: {addresses: /run/p.sock}", nil, nil, func(c *Config) any { return c.Listen.Addresses }, []string{"/run/p.sock"}},
		{"list in a variable", "", map[string]string{"TMPPROXY_LISTEN_ADDRESSES": "127.0.0.1:3307, /run/tmpproxy.sock"}, nil,
			func(c *Config) any { return c.Listen.Addresses }, []string{"127.0.0.1:3307", "/run/tmpproxy.sock"}},
		{"two free ports", "", nil, []string{"--listen.addresses=127.0.0.1:0,127.0.0.1:0"}, func(c *Config) any { return len(c.Listen.Addresses) }, 2},
		{"nothing to convert", "rewrite: {convert: []}", nil, nil, func(c *Config) any { return len(c.Rewrite.Convert) }, 0},
		{"words in any case", "rewrite: {convert: [memory, myisam], strategy: KEEP}", nil, nil,
			func(c *Config) any { return append([]string{c.Rewrite.Strategy}, c.Rewrite.Convert...) }, []string{"keep", "MEMORY", "MyISAM"}},
		{"boolean flag alone", "", nil, []string{"--admin.pprof"}, func(c *Config) any { return c.Admin.PProf }, true},
		{"what Kubernetes sets", "", map[string]string{"TMPPROXY_SERVICE_HOST": "10.0.0.1", "TMPPROXY_SERVICE_PORT_MYSQL": "3306", "TMPPROXY_PORT": "tcp://10.0.0.1:3306",
			"TMPPROXY_PORT_3306_TCP_ADDR": "10.0.0.1", "TMPPROXY_TEST_MYSQL": "x", "TMPPROXY_SERVERS_DIR": "/x"}, nil, func(c *Config) any { return c.Log.Level }, "info"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := load(t, test.file, test.variables, test.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := test.get(c); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestNamesAreDistinct(t *testing.T) {
	names, variables := map[string]bool{}, map[string]bool{FileVariable: true}
	for _, k := range table {
		if names[k.Name] || variables[k.Variable()] {
			t.Errorf("%s: name or variable is taken", k.Name)
		}
		names[k.Name], variables[k.Variable()] = true, true
		if k.Name != strings.ToLower(k.Name) || !strings.Contains(k.Name, ".") || foreign.MatchString(k.Variable()) {
			t.Errorf("%s: not a name for a key", k.Name)
		}
		if k.Usage == "" || strings.Contains(k.Usage, "\n") {
			t.Errorf("%s: usage is not one line: %q", k.Name, k.Usage)
		}
	}
}

func TestChanged(t *testing.T) {
	a := Default()
	b, err := load(t, "", nil, "--rewrite.strategy=native", "--relay.loops=1", "--rewrite.convert=MEMORY")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range a.Changed(b) {
		if k.Live {
			got = append(got, k.Name+" live")
		} else {
			got = append(got, k.Name)
		}
	}
	if want := []string{"relay.loops", "rewrite.strategy live", "rewrite.convert live"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if again := a.Changed(Default()); again != nil {
		t.Errorf("two equal ones differ in %v", again)
	}
}

func TestWarnings(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want []string
	}{
		{nil, nil},
		{[]string{"--backend.address=/run/mysqld/mysqld.sock"}, []string{"the server sees every client of 127.0.0.1:3307 as the local user"}},
		{[]string{"--backend.address=/run/mysqld/mysqld.sock", "--listen.addresses=/run/p.sock"}, nil},
		{[]string{"--admin.address=:9104"}, []string{"admin.address :9104 can be reached"}},
		{[]string{"--admin.address=:9104", "--admin.token_file=" + token}, []string{"admin.address :9104 can be reached", "has no TLS"}},
		{[]string{"--admin.address=[::1]:9104", "--admin.token_file=" + token}, nil},
		{[]string{"--admin.address=localhost:9104"}, nil},
		{[]string{"--admin.address=none"}, nil},
	} {
		c, err := load(t, "", nil, test.args...)
		if err != nil {
			t.Fatal(err)
		}
		got := c.Warnings()
		if len(got) != len(test.want) {
			t.Errorf("%v: got %q", test.args, got)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], test.want[i]) {
				t.Errorf("%v: got %q, want %q", test.args, got[i], test.want[i])
			}
		}
	}
}

func TestNetwork(t *testing.T) {
	for address, want := range map[string]string{"127.0.0.1:1": "tcp", "[::1]:1": "tcp", "db.example:1": "tcp", ":1": "tcp", "/run/x": "unix"} {
		if got := Network(address); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
}

func TestAdminToken(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		name, content, token, fault string
	}{
		{"plain", "0123456789abcdef", "0123456789abcdef", ""},
		{"with a line end", "0123456789abcdef\r\n", "0123456789abcdef", ""},
		{"with signs", "  !#$%&'*+-.^_`|~=  \n", "!#$%&'*+-.^_`|~=", ""},
		{"one too few", "0123456789abcde", "", "shorter than 16"},
		{"empty", "", "", "shorter than 16"},
		{"white space", strings.Repeat(" ", 40), "", "shorter than 16"},
		{"two lines", "0123456789abcdef\n0123456789abcdef", "", "cannot carry"},
		{"not ASCII", "0123456789abcdef\u00e9", "", "cannot carry"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(dir, strings.ReplaceAll(test.name, " ", "_"))
			if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := load(t, "", nil, "--admin.token_file="+file)
			if test.fault != "" {
				if err == nil || !strings.Contains(err.Error(), test.fault) || strings.Contains(err.Error(), "0123456789abcdef") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if token, err := c.AdminToken(); token != test.token || err != nil {
				t.Errorf("got %q, %v", token, err)
			}
		})
	}
	if _, err := load(t, "", nil, "--admin.token_file=/nowhere/t"); err == nil || !strings.Contains(err.Error(), "open /nowhere/t: no such file") {
		t.Errorf("got %v", err)
	}
	if token, err := Default().AdminToken(); token != "" || err != nil {
		t.Errorf("without a file: %q, %v", token, err)
	}
}

// TestOrigin has a value from each source, and shows what there is.
func TestOrigin(t *testing.T) {
	c, err := load(t, "limits: {max_sessions: 11, max_handshakes: 256}\nrewrite: {max_create: 2KiB, park_ttl: 90s}\n", map[string]string{"TMPPROXY_RELAY_LOOPS": "2"}, "--admin.pprof")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Keys() {
		want, ok := map[string]struct {
			value  any
			source string
		}{
			"limits.max_sessions":   {11, "proxy.yaml"},
			"limits.max_handshakes": {256, "proxy.yaml"}, // which is the default
			"rewrite.max_create":    {"2KiB", "proxy.yaml"},
			"rewrite.park_ttl":      {"1m30s", "proxy.yaml"},
			"relay.loops":           {2, "TMPPROXY_RELAY_LOOPS"},
			"admin.pprof":           {true, "--admin.pprof"},
		}[k.Name]
		if !ok {
			want.value, want.source = k.Value(Default()), "default"
		}
		if got := k.Value(c); !reflect.DeepEqual(got, want.value) || c.Source(k) != want.source {
			t.Errorf("%s: %v of %s, want %v of %s", k.Name, got, c.Source(k), want.value, want.source)
		}
	}
}

// Values are shown and flags stand in /proc: secrets have to be in files of their own.
func TestNoSecretInValues(t *testing.T) {
	for _, k := range Keys() {
		for _, word := range []string{"password", "token", "secret", "private", "credential", "passphrase", "key"} {
			last := k.Name[strings.LastIndexByte(k.Name, '.')+1:]
			if strings.Contains(last, word) && !strings.HasSuffix(last, "_file") && k.kind != boolean.kind {
				t.Errorf("%s may hold a secret itself: let it name a file", k.Name)
			}
		}
	}
}
