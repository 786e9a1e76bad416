package config

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// Key describes one setting.
type Key struct {
	Name    string // as in the file, with a dot for each level: limits.max_sessions
	Default string // as a flag or a variable would give it
	Usage   string // one line
	Live    bool   // a reload puts it into force; all others need a restart
	kind    kind
	read    func(*Config, any) error
	same    func(a, b *Config) bool
	value   func(*Config) any
}

// Value returns the key's value as JSON shows it: a text, a number, a boolean or a list; durations and sizes as they are written in
// the file. No key holds a secret: those are in files of their own, which keys name.
func (k Key) Value(c *Config) any { return k.value(c) }

// Variable returns the name of the key's environment variable.
func (k Key) Variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// Keys returns all keys in the order in which they are documented. The slice is the caller's.
func Keys() []Key { return slices.Clone(table) }

// field makes the key whose value lies at(c) and is written as form says.
func field[T any](name, byDefault string, f form[T], at func(*Config) *T, usage string) Key {
	return Key{
		Name:    name,
		Default: byDefault,
		Usage:   usage,
		kind:    f.kind,
		read: func(c *Config, raw any) error {
			v, err := f.parse(raw)
			if err == nil {
				*at(c) = v
			}
			return err
		},
		same:  func(a, b *Config) bool { return reflect.DeepEqual(*at(a), *at(b)) },
		value: func(c *Config) any { return shown(*at(c), f.kind) },
	}
}

// shown is what Value says of v.
func shown(v any, k kind) any {
	switch v := v.(type) {
	case time.Duration:
		return v.String()
	case int:
		if k == "size" {
			return inBytes(v)
		}
	case []string:
		return append([]string{}, v...) // none is [], not null
	}
	return v
}

// live marks a key that a reload can put into force.
func live(k Key) Key {
	k.Live = true
	return k
}

// maxText is the longest statement that is ever examined: one protocol packet.
const maxText = 1<<24 - 2

var table = []Key{
	field("listen.addresses", "127.0.0.1:3307", listOf(listenAddress),
		func(c *Config) *[]string { return &c.Listen.Addresses },
		"where clients connect: host:port or the absolute path of a unix socket, one or several"),
	field("listen.reuseport", "false", boolean,
		func(c *Config) *bool { return &c.Listen.ReusePort },
		"share listen.addresses and admin.address with a new process of the same user, which takes over from this one without refusing a client (Linux)"),
	field("listen.tls.mode", "off", oneOf("off", "optional", "required", "passthrough"),
		func(c *Config) *string { return &c.Listen.TLS.Mode },
		"TLS with clients: off, optional (as the client likes), required (but on unix sockets) or passthrough (with the server itself: such sessions are only relayed)"),
	live(field("listen.tls.cert_file", "", text,
		func(c *Config) *string { return &c.Listen.TLS.CertFile },
		"PEM file of the certificate that clients are shown, and those up to its authority; empty: one is made, which no authority vouches for")),
	live(field("listen.tls.key_file", "", text,
		func(c *Config) *string { return &c.Listen.TLS.KeyFile },
		"PEM file of its private key")),
	live(field("listen.tls.dir", "", text,
		func(c *Config) *string { return &c.Listen.TLS.Dir },
		"directory where the certificate that is made if none is given is kept, so that it is the same after a restart; empty: one is made at each start")),
	live(field("listen.tls.ca_file", "", text,
		func(c *Config) *string { return &c.Listen.TLS.CAFile },
		"PEM file of authorities; with it, clients that use TLS need a certificate of one of them")),

	field("listen.proxy_networks", "", listOf(networkOf),
		func(c *Config) *[]string { return &c.Listen.ProxyNetworks },
		"load balancers whose connections must begin with a PROXY protocol header (v1 or v2) that names the client: networks or addresses, unix for unix sockets"),

	live(field("backend.address", "127.0.0.1:3306", listOf(dialAddress),
		func(c *Config) *[]string { return &c.Backend.Addresses },
		"the server: host:port or the absolute path of a unix socket; or an ordered list of servers with the same data, of which the first that is up serves new sessions")),
	field("backend.connect_timeout", "5s", duration(time.Millisecond),
		func(c *Config) *time.Duration { return &c.Backend.ConnectTimeout },
		"how long a connection to the server may take to be made"),
	field("backend.proxy_protocol", "none", oneOf("none", "v2"),
		func(c *Config) *string { return &c.Backend.ProxyProtocol },
		"v2: each connection to the server begins with a PROXY protocol header that names the client, which the server must be set to take"),
	field("backend.check.interval", "1s", duration(10*time.Millisecond),
		func(c *Config) *time.Duration { return &c.Backend.Check.Interval },
		"how often each of several servers is checked"),
	field("backend.check.timeout", "2s", duration(10*time.Millisecond),
		func(c *Config) *time.Duration { return &c.Backend.Check.Timeout },
		"how long a check may take"),
	field("backend.check.fall", "2", count(1, 1000),
		func(c *Config) *int { return &c.Backend.Check.Fall },
		"failures in a row after which one of several servers is down"),
	field("backend.check.rise", "3", count(1, 1000),
		func(c *Config) *int { return &c.Backend.Check.Rise },
		"successes in a row after which it is up again"),
	field("backend.allow_peer_identity", "false", boolean,
		func(c *Config) *bool { return &c.Backend.AllowPeerIdentity },
		"start as root or as the server's own user although a unix-socket backend lends that identity to every client"),
	field("backend.tls.mode", "disabled", oneOf("disabled", "preferred", "required", "verify-ca", "verify-identity"),
		func(c *Config) *string { return &c.Backend.TLS.Mode },
		"TLS with the server: disabled, preferred (if it offers it), required, verify-ca (by an authority's certificate) or verify-identity (and with the server's name)"),
	live(field("backend.tls.ca_file", "", text,
		func(c *Config) *string { return &c.Backend.TLS.CAFile },
		"PEM file of the authorities that vouch for the server; empty for the system's")),
	live(field("backend.tls.server_name", "", text,
		func(c *Config) *string { return &c.Backend.TLS.ServerName },
		"the name in the server's certificate; empty for the host of its address")),
	live(field("backend.tls.cert_file", "", text,
		func(c *Config) *string { return &c.Backend.TLS.CertFile },
		"PEM file of the proxy's own certificate, for accounts with REQUIRE X509; empty for none")),
	live(field("backend.tls.key_file", "", text,
		func(c *Config) *string { return &c.Backend.TLS.KeyFile },
		"PEM file of its private key")),
	field("backend.rsa_key_file", "", text,
		func(c *Config) *string { return &c.Backend.RSAKeyFile },
		"PEM file of the private key with which clients without TLS encrypt passwords if the server is reached with TLS: the server's own private_key.pem if clients know its public key; empty: one is made"),
	field("backend.monitor.user", "", text,
		func(c *Config) *string { return &c.Backend.Monitor.User },
		"account for questions of the proxy's own (check, rewrite.routines, checks of several servers); empty for none"),
	field("backend.monitor.password_file", "", text,
		func(c *Config) *string { return &c.Backend.Monitor.PasswordFile },
		"file that holds the monitor account's password; empty for no password"),

	live(field("limits.max_sessions", "10000", count(1, 1_000_000),
		func(c *Config) *int { return &c.Limits.MaxSessions },
		"most clients at a time; more are refused with error 1040")),
	live(field("limits.max_host_sessions", "0", count(0, 1_000_000),
		func(c *Config) *int { return &c.Limits.MaxHostSessions },
		"most clients of one host at a time, unix sockets being one host; more are refused with error 1040; 0 for no such limit")),
	live(field("limits.max_user_sessions", "0", count(0, 1_000_000),
		func(c *Config) *int { return &c.Limits.MaxUserSessions },
		"most clients at a time that are logged in as one user, from whatever host; more are refused with error 1203; 0 for no such limit")),
	live(field("limits.max_handshakes", "256", count(1, 1_000_000),
		func(c *Config) *int { return &c.Limits.MaxHandshakes },
		"most clients at a time that have not logged in yet; more are refused with error 1040")),
	live(field("limits.max_buffered", "1GiB", size(0, 1<<40),
		func(c *Config) *int { return &c.Limits.MaxBuffered },
		"most memory that sessions may hold in buffers; above it new clients are refused with error 4081, and sessions with compressed frames beyond 64 KiB end; 0B for no such limit")),
	live(field("limits.handshake_timeout", "8s", duration(time.Millisecond),
		func(c *Config) *time.Duration { return &c.Limits.HandshakeTimeout },
		"how long a login may take; keep it below the server's connect_timeout (10 s unless changed there)")),
	live(field("limits.idle_timeout", "0s", duration(0),
		func(c *Config) *time.Duration { return &c.Limits.IdleTimeout },
		"how long a session waits for its client, which is then told of error 4031 as by MySQL, or of nothing as by MariaDB; 0s for as long as the server does")),

	field("relay.driver", "loop", oneOf("loop", "pump"),
		func(c *Config) *string { return &c.Relay.Driver },
		"what carries bytes: loop (epoll, only on Linux) or pump (goroutines; always used elsewhere)"),
	field("relay.loops", "0", count(0, 256),
		func(c *Config) *int { return &c.Relay.Loops },
		"event loops, each with a thread of its own; 0 chooses by the number of processors"),
	field("relay.io_uring", "true", boolean,
		func(c *Config) *bool { return &c.Relay.IOURing },
		"event loops make many writes in one system call, where the kernel allows it (Linux 5.6 and later)"),

	live(field("rewrite.strategy", "innodb", oneOf("innodb", "keep", "native", "auto", "observe"),
		func(c *Config) *string { return &c.Rewrite.Strategy },
		"what is done with temporary tables: innodb (converted and cached), keep (cached as they are), native (nothing), auto (the fastest of these, as measured) or observe (nothing, but what would be gained is found out)")),
	live(field("rewrite.convert", "MEMORY,HEAP,MyISAM", listOf(oneOf("MEMORY", "HEAP", "MyISAM", "Aria")),
		func(c *Config) *[]string { return &c.Rewrite.Convert },
		"engines that strategy innodb turns into InnoDB: MEMORY (or HEAP), MyISAM, Aria")),
	live(field("rewrite.fidelity", "standard", oneOf("standard", "strict"),
		func(c *Config) *string { return &c.Rewrite.Fidelity },
		"strict leaves alone whatever could show a listed difference; standard accepts the list")),
	live(field("rewrite.routines", "visible", oneOf("visible", "scan", "none"),
		func(c *Config) *string { return &c.Rewrite.Routines },
		"stored routines: visible (calls give tables back), scan (bodies are read by the monitor account) or none (with any, all is native)")),
	live(field("rewrite.on_hazard", "count", oneOf("count", "native"),
		func(c *Config) *string { return &c.Rewrite.OnHazard },
		"when a conversion may have shown: only count it, or leave the shape alone from then on")),
	live(field("rewrite.on_rollback", "ignore", oneOf("ignore", "preserve"),
		func(c *Config) *string { return &c.Rewrite.OnRollback },
		"rows of converted tables at an explicit ROLLBACK: ignore (InnoDB takes them) or preserve (they are copied out and back)")),
	live(field("rewrite.convert_select", "false", boolean,
		func(c *Config) *bool { return &c.Rewrite.ConvertSelect },
		"strategy innodb turns the engine of CREATE TEMPORARY TABLE .. AS SELECT as well; such tables are never cached")),
	live(field("rewrite.cache_like", "false", boolean,
		func(c *Config) *bool { return &c.Rewrite.CacheLike },
		"tables made by CREATE TEMPORARY TABLE .. LIKE are cached; another session's ALTER of the source is noticed within max_age")),
	live(field("rewrite.reset", "truncate", oneOf("truncate", "auto"),
		func(c *Config) *string { return &c.Rewrite.Reset },
		"how a table is emptied: truncate, or auto, which takes DELETE for InnoDB tables where it is measured to be faster")),
	live(field("rewrite.max_statement", "64KiB", size(1<<10, maxText),
		func(c *Config) *int { return &c.Rewrite.MaxStatement },
		"longest statement that is examined; a longer one gives parked tables back first")),
	live(field("rewrite.max_create", "16KiB", size(1<<8, maxText),
		func(c *Config) *int { return &c.Rewrite.MaxCreate },
		"longest CREATE TEMPORARY TABLE that is parsed; a longer one is left alone")),
	live(field("rewrite.max_parked", "64", count(1, 4096),
		func(c *Config) *int { return &c.Rewrite.MaxParked },
		"most parked tables of one session")),
	live(field("rewrite.park_ttl", "10m", duration(time.Second),
		func(c *Config) *time.Duration { return &c.Rewrite.ParkTTL },
		"how long a table may stay parked before it is given back at the next chance")),
	live(field("rewrite.max_age", "1h", duration(time.Second),
		func(c *Config) *time.Duration { return &c.Rewrite.MaxAge },
		"how long a cached table, a blocked shape or name and what was read of routines is believed")),

	field("trial.dir", "", text,
		func(c *Config) *string { return &c.Trial.Dir },
		"directory where results of trials are kept, a file each; empty to forget them with the process"),
	live(field("trial.name", "trial", text,
		func(c *Config) *string { return &c.Trial.Name },
		"name of the trial that is started by trial.arms; another name makes it another trial")),
	live(field("trial.arms", "", listOf(text),
		func(c *Config) *[]string { return &c.Trial.Arms },
		"arms of a trial on live sessions, [NAME=]STRATEGY[/RESET][*WEIGHT] each: native, innodb, fast=innodb/auto*2; empty for none")),
	live(field("trial.assignment", "random", oneOf("random", "user", "schema", "host"),
		func(c *Config) *string { return &c.Trial.Assignment },
		"how sessions get their arm: random, or by a hash of the user, the schema or the client's host")),
	live(field("trial.guardrail", "0.2", fraction(0.01, 100),
		func(c *Config) *float64 { return &c.Trial.Guardrail },
		"an arm whose cycles take longer than the control's by more than this share, with confidence, is switched to native")),
	live(field("record.enabled", "false", boolean,
		func(c *Config) *bool { return &c.Record.Enabled },
		"write what sessions send to record.file, for tmpproxy replay")),
	live(field("record.file", "", text,
		func(c *Config) *string { return &c.Record.File },
		"file of the recording, which is appended to; it holds the values that clients send, so mind who can read it")),
	live(field("record.users", "", listOf(text),
		func(c *Config) *[]string { return &c.Record.Users },
		"users whose sessions are recorded, with * and ? as wildcards; empty for all")),
	live(field("record.schemas", "", listOf(text),
		func(c *Config) *[]string { return &c.Record.Schemas },
		"schemas chosen when a session begins, with * and ? as wildcards; empty for all")),
	live(field("record.hosts", "", listOf(text),
		func(c *Config) *[]string { return &c.Record.Hosts },
		"client hosts: addresses, networks such as 10.0.0.0/8, or localhost for unix sockets; empty for all")),
	live(field("record.share", "100", count(1, 100),
		func(c *Config) *int { return &c.Record.Share },
		"how many of these sessions, in percent, chosen by chance")),
	live(field("record.mask", "false", boolean,
		func(c *Config) *bool { return &c.Record.Mask },
		"replace the values in statements by others of the same length and kind")),
	live(field("record.max_size", "256MiB", size(1<<16, 1<<40),
		func(c *Config) *int { return &c.Record.MaxSize },
		"size of the file at which the recording ends")),
	live(field("record.max_time", "1h", duration(time.Second),
		func(c *Config) *time.Duration { return &c.Record.MaxTime },
		"how long the recording goes on")),

	field("admin.address", "127.0.0.1:9104", optional(listenAddress),
		func(c *Config) *string { return &c.Admin.Address },
		"where metrics, health and the JSON pages are served: host:port, the absolute path of a unix socket, or none"),
	field("admin.hosts", "", listOf(text),
		func(c *Config) *[]string { return &c.Admin.Hosts },
		"host names that requests may ask for besides the address itself and localhost"),
	field("admin.pprof", "false", boolean,
		func(c *Config) *bool { return &c.Admin.PProf },
		"serve Go's profiles under /debug/pprof/"),
	live(field("admin.token_file", "", text,
		func(c *Config) *string { return &c.Admin.TokenFile },
		"file that holds the token which changing anything over HTTP needs (16 characters or more); without it only a unix socket takes changes")),

	field("reload.watch", "2s", duration(0),
		func(c *Config) *time.Duration { return &c.Reload.Watch },
		"how often the settings' file is looked at for changes, which are then put into force as by SIGHUP; 0s for never"),

	live(field("log.level", "info", oneOf("debug", "info", "warn", "error"),
		func(c *Config) *string { return &c.Log.Level },
		"least severe records that are logged: debug, info, warn or error")),
	field("log.format", "json", oneOf("json", "console"),
		func(c *Config) *string { return &c.Log.Format },
		"json for machines or console for people, on standard error"),

	live(field("slow_log.file", "", text,
		func(c *Config) *string { return &c.SlowLog.File },
		"file of statements that took long, as MySQL's slow log has them, opened anew on every reload; empty for none")),
	live(field("slow_log.threshold", "1s", duration(0),
		func(c *Config) *time.Duration { return &c.SlowLog.Threshold },
		"how long a statement takes at least that is written there")),
	live(field("slow_log.text", "digest", oneOf("digest", "full"),
		func(c *Config) *string { return &c.SlowLog.Text },
		"what is written of a statement: digest, with ? for every value, or full, with the values that clients send")),

	live(field("tracing.endpoint", "", collector,
		func(c *Config) *string { return &c.Tracing.Endpoint },
		"where OpenTelemetry spans of statements go, by OTLP over HTTP: http://127.0.0.1:4318/v1/traces; empty for nowhere")),
	live(field("tracing.headers_file", "", text,
		func(c *Config) *string { return &c.Tracing.HeadersFile },
		"file of headers for the collector, such as Authorization: Bearer …, one a line; empty for none")),
	live(field("tracing.threshold", "1s", duration(0),
		func(c *Config) *time.Duration { return &c.Tracing.Threshold },
		"how long a statement takes at least that always has a span")),
	live(field("tracing.share", "0", count(0, 100),
		func(c *Config) *int { return &c.Tracing.Share },
		"how many of the faster statements have one, in percent, chosen by chance")),

	live(field("shutdown.delay", "0s", duration(0),
		func(c *Config) *time.Duration { return &c.Shutdown.Delay },
		"how long clients are still admitted after the first SIGTERM or SIGINT, while /readyz says no already")),
	field("shutdown.finish", "0s", duration(0),
		func(c *Config) *time.Duration { return &c.Shutdown.Finish },
		"how long sessions are then left alone, so that short ones end by themselves; later they are closed between transactions"),
	field("shutdown.grace", "30s", duration(0),
		func(c *Config) *time.Duration { return &c.Shutdown.Grace },
		"how long transactions may go on after that"),
	field("shutdown.quitquitquit", "false", boolean,
		func(c *Config) *bool { return &c.Shutdown.QuitQuitQuit },
		"POST /quitquitquit at the admin address takes no token from who asks over the loopback interface: for sidecars"),
	live(field("shutdown.exit_zero", "false", boolean,
		func(c *Config) *bool { return &c.Shutdown.ExitZero },
		"exit with 0, not with 143 or 130, after a signal if no session had to be cut off")),
}
