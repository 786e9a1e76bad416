package main

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"

	"tmpproxy/proxy"
	"tmpproxy/wire"
)

var mysql97 = wire.Greeting{Version: "9.7.4", VersionID: 90704, Plugin: "caching_sha2_password",
	Capabilities: wire.ClientProtocol41 | wire.ClientCompress | wire.ClientSSL | wire.ClientDeprecateEOF}

var mariadb1011 = wire.Greeting{Version: "5.5.5-10.11.19-MariaDB", VersionID: 101119, MariaDB: true, Plugin: "mysql_native_password",
	Capabilities: wire.ClientProtocol41 | wire.MariaDBCacheMetadata | wire.MariaDBComMulti}

// usual are values of a MySQL server that nobody has changed.
var usual = map[string]string{
	"lower_case_table_names": "0", "sql_mode": "STRICT_TRANS_TABLES", "default_tmp_storage_engine": "InnoDB", "default_storage_engine": "InnoDB",
	"sql_generate_invisible_primary_key": "OFF", "sql_require_primary_key": "OFF", "disabled_storage_engines": "", "binlog_format": "ROW", "log_bin": "ON",
	"init_connect": "", "session_track_state_change": "OFF", "session_track_transaction_info": "OFF", "connect_timeout": "10",
}

func TestReport(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		f    findings
		want string
	}{
		{"MySQL without an account", nil, findings{greeting: mysql97}, `
listen    127.0.0.1:3307
backend   127.0.0.1:3306: MySQL, version 9.7.4, logins by caching_sha2_password
carried   CLIENT_COMPRESS CLIENT_PROTOCOL_41 CLIENT_DEPRECATE_EOF
cleared   CLIENT_SSL
strategy  innodb: ENGINE=MEMORY, HEAP, MyISAM becomes InnoDB; these tables are cached
          no ENGINE, or InnoDB: cached as they are
          everything else is left to the server
monitor   no account: nothing more is known of the server
notes     none
`},
		{"MariaDB with an account", []string{"--rewrite.strategy=keep", "--backend.monitor.user=watch", "--admin.address=:9104"}, findings{greeting: mariadb1011,
			variables: map[string]string{"sql_mode": "", "enforce_storage_engine": "Aria", "connect_timeout": "8"},
			bodies: []proxy.Body{
				{Schema: "d", Name: "p", Kind: "PROCEDURE", Language: "SQL", Readable: true}, {Schema: "d", Name: "p", Kind: "PARAMETER", Language: "SQL", Readable: true},
				{Schema: "d", Name: "f", Kind: "FUNCTION", Language: "SQL", Readable: true}, {Schema: "d", Name: "t", Kind: "TRIGGER", Language: "SQL", Readable: true},
				{Schema: "sys", Name: "x", Kind: "PROCEDURE", Language: "SQL", Readable: true}}}, `
listen                  127.0.0.1:3307
backend                 127.0.0.1:3306: MariaDB, version 5.5.5-10.11.19-MariaDB, logins by mysql_native_password
carried                 CLIENT_PROTOCOL_41 MARIADB_CLIENT_CACHE_METADATA
cleared                 MARIADB_CLIENT_COM_MULTI
strategy                keep: no ENGINE, or InnoDB, MEMORY, Aria, MyISAM: cached as they are
                        everything else is left to the server
monitor                 watch
sql_mode                (empty)
enforce_storage_engine  Aria
connect_timeout         8
routines                procedure 1, function 1, trigger 1
notes                   limits.handshake_timeout (8s) is not below the server's connect_timeout (8 s): clients that never log in count as errors of the proxy's host
                        CALL and stored functions give parked tables back first; rewrite.routines: scan avoids that where no body names the table
                        triggers are trusted not to use a temporary table's name; rewrite.routines: scan reads them
warning                 admin.address :9104 can be reached from other machines and asks for no password
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			c := configured(t, test.args...)
			test.f.address = c.Backend.Addresses[0]
			if err := report(&out, c, []findings{test.f}); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != test.want[1:] {
				t.Errorf("got\n%s\nwant%s", got, test.want)
			}
		})
	}
}

// TestReportSeveral has three servers: the first does not answer, the third is not as the second.
func TestReportSeveral(t *testing.T) {
	third := findings{address: "c:3306", greeting: mariadb1011, variables: maps.Clone(usual)}
	third.variables["sql_mode"], third.variables["init_connect"] = "", "SET x = 1"
	second := findings{address: "b:3306", greeting: mysql97, variables: maps.Clone(usual)}
	for _, f := range []*findings{&second, &third} {
		f.variables["sql_require_primary_key"] = "ON"
	}
	var out bytes.Buffer
	c := configured(t, "--backend.address=a:3306,b:3306,c:3306", "--backend.monitor.user=watch", "--rewrite.routines=scan")
	servers := []findings{{address: "a:3306", err: errors.New("connection refused")}, second, third}
	if err := report(&out, c, servers); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`
backend                             a:3306: connection refused
                                    b:3306: MySQL, version 9.7.4, logins by caching_sha2_password
                                    c:3306: MariaDB, version 5.5.5-10.11.19-MariaDB, logins by mysql_native_password
`, `
sql_mode                            STRICT_TRANS_TABLES
`, `
notes                               sql_require_primary_key is ON: a CREATE without a primary key fails, with the proxy as without
                                    c:3306: is MariaDB, b:3306 is MySQL: what is learnt of one is taken to be true of all
                                    c:3306: sql_mode is (empty), not STRICT_TRANS_TABLES as on b:3306
                                    c:3306: init_connect is SET x = 1, not (empty) as on b:3306
                                    c:3306: init_connect is set: what it changes in a session is not seen by the proxy
`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks%s\nin\n%s", want, &out)
		}
	}
	servers[2].accountErr, servers[1].bodiesErr = errors.New("access denied"), errors.New("no rights")
	for i, want := range []string{"connection refused", "no rights", "access denied"} {
		if err := servers[i].fault(c); err == nil || err.Error() != want {
			t.Errorf("fault of %s: %v", servers[i].address, err)
		}
	}
	if got := servers[2].describe(); !strings.HasSuffix(got, "; the monitor account: access denied") {
		t.Error(got)
	}
}

func TestPlan(t *testing.T) {
	for _, test := range []struct {
		args    []string
		mariaDB bool
		want    string
	}{
		{[]string{"--rewrite.strategy=native"}, false, "native: everything is left to the server"},
		{[]string{"--rewrite.strategy=keep"}, false, "keep: no ENGINE, or InnoDB, MEMORY: cached as they are"},
		{[]string{"--rewrite.convert=MEMORY"}, true, "innodb: ENGINE=MEMORY becomes InnoDB; these tables are cached|no ENGINE, or InnoDB, Aria, MyISAM: cached"},
		{[]string{"--rewrite.convert=HEAP"}, false, "innodb: ENGINE=HEAP becomes InnoDB; these tables are cached|no ENGINE, or InnoDB: cached"},
		{[]string{"--rewrite.convert=MyISAM"}, false, "innodb: ENGINE=MyISAM becomes InnoDB; these tables are cached|no ENGINE, or InnoDB, MEMORY: cached"},
		{[]string{"--rewrite.convert="}, false, "innodb: no ENGINE, or InnoDB, MEMORY: cached as they are"},
	} {
		if got := strings.Join(plan(configured(t, test.args...), test.mariaDB), "|"); !strings.HasPrefix(got, test.want) {
			t.Errorf("%v: %s", test.args, got)
		}
	}
}

func TestNotes(t *testing.T) {
	sql := func(kind, schema string) proxy.Body {
		return proxy.Body{Schema: schema, Name: "x", Kind: kind, Language: "SQL", Readable: true}
	}
	for _, test := range []struct {
		name   string
		args   []string
		change map[string]string // of the usual values
		adapt  func(*findings)
		want   []string
	}{
		{"usual", nil, nil, nil, nil},
		{"old MySQL", nil, nil, func(f *findings) { f.greeting.VersionID = 50744 }, []string{"the server is older"}},
		{"old MariaDB", nil, nil, func(f *findings) { f.greeting = mariadb1011; f.greeting.VersionID = 100339 }, []string{"the server is older"}},
		{"InnoDB disabled", nil, map[string]string{"disabled_storage_engines": "MyISAM,innodb"}, nil,
			[]string{"disabled_storage_engines has InnoDB: nothing can be converted", "disabled_storage_engines has MyISAM"}},
		{"MEMORY disabled, kept", []string{"--rewrite.strategy=keep"}, map[string]string{"disabled_storage_engines": "MEMORY, InnoDB"}, nil, nil},
		{"MEMORY enforced", nil, map[string]string{"enforce_storage_engine": "MEMORY"}, nil, []string{"nothing becomes InnoDB"}},
		{"another engine enforced", nil, map[string]string{"enforce_storage_engine": "MRG_MyISAM"}, nil, []string{"use strategy native", "nothing becomes InnoDB"}},
		{"default engine", nil, map[string]string{"default_tmp_storage_engine": "MyISAM"}, nil, []string{"a CREATE without ENGINE makes MyISAM tables"}},
		{"MariaDB's default engine", nil, map[string]string{"default_tmp_storage_engine": "", "default_storage_engine": "Aria"}, nil, []string{"a CREATE without ENGINE makes Aria tables"}},
		{"invisible primary keys", nil, map[string]string{"sql_generate_invisible_primary_key": "ON"}, nil, []string{"sql_generate_invisible_primary_key is ON"}},
		{"primary keys", nil, map[string]string{"sql_require_primary_key": "ON"}, nil, []string{"sql_require_primary_key is ON"}},
		{"STATEMENT", nil, map[string]string{"binlog_format": "STATEMENT"}, nil, []string{"error 1665"}},
		{"STATEMENT without a log", nil, map[string]string{"binlog_format": "STATEMENT", "log_bin": "OFF"}, nil, nil},
		{"STATEMENT, kept", []string{"--rewrite.strategy=keep"}, map[string]string{"binlog_format": "STATEMENT"}, nil, nil},
		{"init_connect", nil, map[string]string{"init_connect": "SET sql_mode=''"}, nil, []string{"init_connect is set"}},
		{"tracking", nil, map[string]string{"session_track_state_change": "ON", "session_track_transaction_info": "STATE"}, nil,
			[]string{"session_track_state_change is ON", "session_track_transaction_info is STATE"}},
		{"connect_timeout", []string{"--limits.handshake_timeout=10s"}, nil, nil, []string{"limits.handshake_timeout (10s) is not below the server's connect_timeout (10 s)"}},
		{"native", []string{"--rewrite.strategy=native"}, map[string]string{"init_connect": "x"}, nil, nil},
		{"the server's own bodies", []string{"--rewrite.routines=none", "--backend.monitor.user=m"}, nil,
			func(f *findings) { f.bodies = []proxy.Body{sql("TRIGGER", "sys"), sql("PROCEDURE", "sys")} }, nil},
		{"routines, visible", nil, nil, func(f *findings) { f.bodies = []proxy.Body{sql("FUNCTION", "d")} }, []string{"CALL and stored functions give parked tables back"}},
		{"triggers, visible", nil, nil, func(f *findings) { f.bodies = []proxy.Body{sql("TRIGGER", "d")} }, []string{"triggers are trusted"}},
		{"routines, none", []string{"--rewrite.routines=none", "--backend.monitor.user=m"}, nil, func(f *findings) { f.bodies = []proxy.Body{sql("TRIGGER", "d")} },
			[]string{"rewrite.routines is none and there are some"}},
		{"routines, scan", []string{"--rewrite.routines=scan", "--backend.monitor.user=m"}, nil, func(f *findings) { f.bodies = []proxy.Body{sql("TRIGGER", "d")} }, nil},
		{"opaque bodies, scan", []string{"--rewrite.routines=scan", "--backend.monitor.user=m"}, nil,
			func(f *findings) {
				f.bodies = []proxy.Body{{Schema: "d", Kind: "FUNCTION", Language: "JAVASCRIPT", Readable: true}, {Schema: "d", Kind: "PROCEDURE", Language: "SQL"}}
			}, []string{"2 bodies cannot be read or are in another language"}},
		{"rights", nil, nil, func(f *findings) { f.bodiesErr = &proxy.RightsError{Missing: []string{"TRIGGER ON *.*"}} },
			[]string{"routines and triggers cannot be read: the account needs TRIGGER ON *.*"}},
		{"another failure", nil, nil, func(f *findings) { f.bodiesErr = errors.New("lost connection") }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := findings{greeting: mysql97, variables: maps.Clone(usual)}
			maps.Copy(f.variables, test.change)
			if test.adapt != nil {
				test.adapt(&f)
			}
			got := notes(configured(t, test.args...), &f)
			if len(got) != len(test.want) {
				t.Fatalf("got %q, want %q", got, test.want)
			}
			for i := range got {
				if !strings.Contains(got[i], test.want[i]) {
					t.Errorf("got %q, want %q", got[i], test.want[i])
				}
			}
		})
	}
}

func TestCheckProcess(t *testing.T) {
	c := command(t, "check", "--backend.address="+startBackend(t).address(), "--rewrite.strategy=keep")
	out, err := c.CombinedOutput()
	if code := exitCode(t, err); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	for _, want := range []string{"the settings are valid\n", "MySQL, version 9.7.4, logins by mysql_native_password", "keep: no ENGINE", "notes     none"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}

// TestCheckProcessSeveral asks three servers, of which one is not there, and then none is.
func TestCheckProcessSeveral(t *testing.T) {
	here, gone, there := startBackend(t).address(), startBackend(t), startBackend(t).address()
	gone.listener.Close()
	code, out, stderr := told(t, "check", "--backend.address="+strings.Join([]string{here, gone.address(), there}, ","))
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, address := range []string{here, there} {
		if !strings.Contains(out, " "+address+": MySQL, version 9.7.4") {
			t.Errorf("nothing of %s:\n%s", address, out)
		}
	}
	if !strings.Contains(out, " "+gone.address()+": ") || !strings.Contains(out, "strategy  innodb") {
		t.Errorf("output:\n%s", out)
	}
	if !strings.Contains(stderr, "backend "+gone.address()) || strings.Contains(stderr, here) || strings.Contains(stderr, there) {
		t.Errorf("error: %s", stderr)
	}
	if code, out, stderr = told(t, "check", "--backend.address="+gone.address()); code != 1 || !strings.Contains(stderr, "refused") {
		t.Errorf("none is there: %d\n%s\n%s", code, out, stderr)
	}
}
