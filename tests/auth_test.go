//go:build realserver

package tests

import (
	"bytes"
	"context"
	"crypto/tls"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/go-mysql-org/go-mysql/mysql"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/relay"
	"tmpproxy/testbed/server"
)

// thirtyTwo are passwords of the length that rawclient knows for client_ed25519.
const (
	thirtyTwo      = "a password of thirty-two letters"
	thirtyTwoWrong = "a password of thirty-two numbers"
)

// accounts make the accounts of the authentication tests; all their names begin with auth_.
var accounts = map[server.Kind][]string{
	server.MySQL: {
		`CREATE USER auth_sha2 IDENTIFIED WITH caching_sha2_password BY 'pa''ss wörd'`,
		`CREATE USER auth_sha2_again IDENTIFIED WITH caching_sha2_password BY 'other'`,
		`CREATE USER auth_long IDENTIFIED WITH caching_sha2_password BY '` + strings.Repeat("l", 200) + `'`,
		`CREATE USER auth_empty IDENTIFIED WITH caching_sha2_password BY ''`,
		`CREATE USER auth_sha256 IDENTIFIED WITH sha256_password BY 'secret'`,
		`CREATE USER auth_sha256_empty IDENTIFIED WITH sha256_password BY ''`,
		`CREATE USER auth_locked IDENTIFIED BY 'secret' ACCOUNT LOCK`,
		`CREATE USER auth_expired IDENTIFIED BY 'secret' PASSWORD EXPIRE`,
		`CREATE USER auth_ssl IDENTIFIED BY 'secret' REQUIRE SSL`,
		`CREATE USER auth_elsewhere@'192.0.2.1' IDENTIFIED BY 'secret'`,
		`CREATE USER auth_few IDENTIFIED BY 'secret' WITH MAX_CONNECTIONS_PER_HOUR 1`,
	},
	server.MariaDB: {
		`CREATE USER auth_native IDENTIFIED VIA mysql_native_password USING PASSWORD('pa''ss wörd')`,
		`CREATE USER auth_empty IDENTIFIED VIA mysql_native_password USING ''`,
		`CREATE USER auth_ed25519 IDENTIFIED VIA ed25519 USING PASSWORD('` + thirtyTwo + `')`,
		`CREATE USER auth_either IDENTIFIED VIA ed25519 USING PASSWORD('` + thirtyTwo + `') OR mysql_native_password USING PASSWORD('` + thirtyTwoWrong + `')`,
		`CREATE USER auth_socket IDENTIFIED VIA unix_socket`,
		`CREATE USER auth_locked IDENTIFIED BY 'secret' ACCOUNT LOCK`,
		`CREATE USER auth_expired IDENTIFIED BY 'secret' PASSWORD EXPIRE`,
		`CREATE USER auth_ssl IDENTIFIED BY 'secret' REQUIRE SSL`,
		`CREATE USER auth_elsewhere@'192.0.2.1' IDENTIFIED BY 'secret'`,
		`CREATE USER auth_few IDENTIFIED BY 'secret' WITH MAX_CONNECTIONS_PER_HOUR 1`,
	},
}

// dropAccounts drops all accounts of the tests.
func dropAccounts(s *server.Server) error {
	rows, err := s.DB().Query("SELECT CONCAT(QUOTE(user), '@', QUOTE(host)) FROM mysql.user WHERE user LIKE 'auth\\_%'")
	if err != nil {
		return err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil || len(names) == 0 {
		return err
	}
	return s.Exec(context.Background(), "DROP USER "+strings.Join(names, ", "))
}

// authServer is the run's server with the accounts and the schema auth.
func authServer(t *testing.T, kind server.Kind) *server.Server {
	t.Helper()
	s := shared(t, kind)
	addAccounts(t, s)
	return s
}

// addAccounts makes the accounts and databases that the tests of logins need; they go with the test.
func addAccounts(t *testing.T, s *server.Server) {
	t.Helper()
	kind := s.Kind
	if err := dropAccounts(s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dropAccounts(s); err != nil {
			t.Error(err)
		}
	})
	database(t, s, "auth")
	database(t, s, "auth_forbidden")
	if kind.IsMariaDB() {
		executeDirectly(t, s, "INSTALL SONAME 'auth_ed25519'")
		t.Cleanup(func() {
			if err := s.Exec(context.Background(), "UNINSTALL SONAME 'auth_ed25519'"); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() { _ = dropAccounts(s) }) // before the plugin goes
	}
	executeDirectly(t, s, accounts[kind]...)
	for _, account := range accounts[kind] {
		name := strings.Fields(account)[2]
		executeDirectly(t, s, "GRANT ALL ON auth.* TO "+name)
	}
}

// attempt is one try to log in.
type attempt struct {
	name           string
	user, password string
	schema         string
	plugin         string // of the first answer, rawclient only
	classic        bool   // with the capabilities of an old client, rawclient only
	cold           bool   // after the server has forgotten whom it knows
	turns          string // by rawclient
	code           uint16 // of the refusal; 0: none; anyCode
	onlyDriver     bool   // rawclient does not know the plugin on this leg
	tls            *tls.Config
}

// anyCode: MariaDB lets strangers answer for a plugin of some account, whose refusal it then is.
const anyCode = 1

func attempts(kind server.Kind, unix bool) []attempt {
	const right = "pa'ss wörd"
	if kind.IsMariaDB() {
		// Over a unix socket, too, an account of another name than the client's does not get in.
		return []attempt{
			{name: "native", user: "auth_native", password: right},
			{name: "native wrong", user: "auth_native", password: "wrong", code: 1045},
			{name: "native none", user: "auth_native", code: 1045},
			{name: "native from an old client", user: "auth_native", password: right, classic: true},
			{name: "native after another plugin", user: "auth_native", password: right, plugin: mysql.AUTH_CLEAR_PASSWORD,
				turns: "switch to mysql_native_password"},
			{name: "empty", user: "auth_empty"},
			{name: "empty with a password", user: "auth_empty", password: "any", code: 1045},
			{name: "ed25519", user: "auth_ed25519", password: thirtyTwo, turns: "switch to client_ed25519"},
			{name: "ed25519 wrong", user: "auth_ed25519", password: thirtyTwoWrong, code: 1045},
			{name: "either, first", user: "auth_either", password: thirtyTwo, turns: "switch to client_ed25519"},
			{name: "either, second", user: "auth_either", password: thirtyTwoWrong,
				turns: "switch to client_ed25519, switch to mysql_native_password"},
			{name: "either, none", user: "auth_either", password: strings.Repeat("n", 32), code: 1045},
			{name: "socket", user: "auth_socket", code: 1698},
			{name: "unknown", user: "auth_nobody", password: "any", code: anyCode},
			{name: "unknown without a password", user: "auth_nobody", code: anyCode},
			{name: "no name", code: anyCode},
			{name: "elsewhere", user: "auth_elsewhere", password: "secret", code: anyCode},
			{name: "locked", user: "auth_locked", password: "secret", code: 4151},
			{name: "expired", user: "auth_expired", password: "secret"},
			{name: "expired, old client", user: "auth_expired", password: "secret", classic: true},
			{name: "over TLS only", user: "auth_ssl", password: "secret", code: 1045},
			{name: "schema", user: "auth_native", password: right, schema: "auth"},
			{name: "unknown schema", user: "auth_native", password: right, schema: "auth_nosuch", code: 1044},
			{name: "forbidden schema", user: "auth_native", password: right, schema: "auth_forbidden", code: 1044},
		}
	}
	full := "full, key"
	if unix {
		full = "full"
	}
	return []attempt{
		{name: "sha2 full", user: "auth_sha2", password: right, cold: true, turns: full},
		{name: "sha2 fast", user: "auth_sha2", password: right, turns: "fast"},
		{name: "sha2 fast from an old client", user: "auth_sha2", password: right, classic: true, turns: "fast"},
		{name: "sha2 wrong", user: "auth_sha2", password: "wrong", code: 1045},
		{name: "sha2 wrong and cold", user: "auth_sha2", password: "wrong", cold: true, code: 1045},
		{name: "sha2 none", user: "auth_sha2", code: 1045},
		{name: "sha2 after another plugin", user: "auth_sha2", password: right, plugin: mysql.AUTH_NATIVE_PASSWORD, cold: true,
			turns: "switch to caching_sha2_password, " + full},
		{name: "long", user: "auth_long", password: strings.Repeat("l", 200), cold: true, turns: full},
		{name: "empty", user: "auth_empty", cold: true},
		{name: "empty with a password", user: "auth_empty", password: "any", code: 1045},
		{name: "sha256", user: "auth_sha256", password: "secret", turns: "switch to sha256_password, key", onlyDriver: unix},
		{name: "sha256 wrong", user: "auth_sha256", password: "wrong", code: 1045, onlyDriver: unix},
		{name: "sha256 empty", user: "auth_sha256_empty", turns: "switch to sha256_password"},
		{name: "unknown", user: "auth_nobody", password: "any", code: 1045},
		{name: "unknown without a password", user: "auth_nobody", code: 1045},
		{name: "no name", code: 1045},
		{name: "elsewhere", user: "auth_elsewhere", password: "secret", code: 1045},
		{name: "locked", user: "auth_locked", password: "secret", code: 3118},
		{name: "expired", user: "auth_expired", password: "secret", cold: true, turns: full},
		{name: "expired, old client", user: "auth_expired", password: "secret", classic: true, code: 1862},
		{name: "over TLS only", user: "auth_ssl", password: "secret", code: 1045},
		{name: "schema", user: "auth_sha2", password: right, schema: "auth", cold: true, turns: full},
		{name: "unknown schema", user: "auth_sha2", password: right, schema: "auth_nosuch", code: 1044},
		{name: "forbidden schema", user: "auth_sha2", password: right, schema: "auth_forbidden", code: 1044},
		{name: "root and an unknown schema", user: "root", schema: "auth_nosuch", code: 1049},
	}
}

// logIn tries to log in as rawclient and returns what the client sees of it and of its first statements.
func logIn(t *testing.T, a attempt, network, address string) (lines []string, code uint16) {
	t.Helper()
	capabilities := rawclient.Modern
	if a.classic {
		capabilities = rawclient.Classic
	}
	c, err := rawclient.Connect(rawclient.Config{Network: network, Address: address, User: a.user, Password: a.password,
		Database: a.schema, Capabilities: capabilities, Plugin: a.plugin, TLS: a.tls, Attributes: map[string]string{"program_name": "auth_test"}})
	if refusal := (*rawclient.ServerError)(nil); errors.As(err, &refusal) {
		return []string{refusal.Error()}, refusal.Code
	}
	if err != nil {
		return []string{"failure: " + err.Error()}, 0
	}
	defer c.Close()
	if got := strings.Join(c.Login.Turns, ", "); got != a.turns {
		t.Errorf("at %s the turns are %q, want %q", address, got, a.turns)
	}
	for _, field := range c.Login.Fields(false) {
		lines = append(lines, fmt.Sprint(field))
	}
	lines = append(lines, fmt.Sprintf("capabilities %#08x", c.Capabilities))
	for _, text := range []string{"SELECT CURRENT_USER(), USER(), DATABASE()", "SELECT CONNECTION_ID() = " + fmt.Sprint(c.Greeting.ThreadID)} {
		lines = append(lines, ask(c, text))
	}
	if err := c.Quit(); err != nil {
		lines = append(lines, err.Error())
	}
	return lines, 0
}

// logInByDriver does the same as an application that uses the Go driver.
func logInByDriver(a attempt, network, address string) []string {
	config := driver.NewConfig()
	config.Net, config.Addr, config.User, config.Passwd, config.DBName = network, address, a.user, a.password, a.schema
	config.TLS = a.tls
	connector, err := driver.NewConnector(config)
	if err != nil {
		return []string{err.Error()}
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	var user string
	err = db.QueryRow("SELECT CURRENT_USER()").Scan(&user)
	// The driver takes a challenge of client_ed25519 that ends in NUL, as one of 256 does, for a shorter one.
	for tries := 0; tries < 10 && errors.Is(err, driver.ErrMalformPkt) && (a.user == "auth_ed25519" || a.user == "auth_either"); tries++ {
		err = db.QueryRow("SELECT CURRENT_USER()").Scan(&user)
	}
	if err != nil {
		return []string{err.Error()}
	}
	return []string{user}
}

// TestAuthentication logs in in every way, directly and through the proxy: what the client sees must be the same.
func TestAuthentication(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := authServer(t, kind)
		for _, leg := range []struct{ name, driver, network string }{
			{"loop", "loop", "tcp"},
			{"pump", "pump", "tcp"},
			{"unix sockets", "loop", "unix"},
		} {
			t.Run(leg.name, func(t *testing.T) {
				s := s
				unix := leg.network == "unix"
				direct, settings := s.Address, []string{"TMPPROXY_RELAY_DRIVER=" + leg.driver}
				proxied := ""
				if unix {
					if s.Socket == "" { // of a server of the user's own it is not known
						s = own(t, kind)
						addAccounts(t, s)
					}
					direct = s.Socket
					proxied = filepath.Join(t.TempDir(), "listen")
					settings = append(settings, "TMPPROXY_LISTEN_ADDRESSES="+proxied, "TMPPROXY_BACKEND_ALLOW_PEER_IDENTITY=true")
				}
				p := startProxy(t, direct, settings...)
				if !unix {
					proxied = p.Address
				}
				for _, a := range attempts(kind, unix) {
					t.Run(a.name, func(t *testing.T) {
						forget := func() {
							if a.cold {
								executeDirectly(t, s, "FLUSH PRIVILEGES")
							}
						}
						if !a.onlyDriver {
							forget()
							want, code := logIn(t, a, leg.network, direct)
							if code != a.code && (a.code != anyCode || len(want) > 1) {
								t.Errorf("directly: %s; want code %d", want, a.code)
							}
							forget()
							got, _ := logIn(t, a, leg.network, proxied)
							sameLines(t, want, got)
						}
						forget()
						want := logInByDriver(a, leg.network, direct)
						forget()
						sameLines(t, want, logInByDriver(a, leg.network, proxied))
					})
				}
				t.Run("too often", func(t *testing.T) {
					few := attempt{user: "auth_few", password: "secret"}
					executeDirectly(t, s, "FLUSH USER_RESOURCES")
					if got := logInByDriver(few, leg.network, proxied); got[0] != "auth_few@%" {
						t.Errorf("first: %s", got)
					}
					want := logInByDriver(few, leg.network, direct)
					if !strings.HasPrefix(want[0], "Error 1226") {
						t.Errorf("directly: %s; want error 1226", want)
					}
					sameLines(t, want, logInByDriver(few, leg.network, proxied))
				})
			})
		}
	})
}

// TestChangeUser changes accounts on one connection, with success, and once without.
func TestChangeUser(t *testing.T) {
	type step struct{ user, password, schema string }
	chains := map[server.Kind][]step{
		server.MySQL: {
			{"auth_sha2_again", "other", "auth"},
			{"auth_sha2_again", "other", ""},
			{"auth_sha2", "pa'ss wörd", "auth"},
			{"auth_sha256", "secret", "auth"}, // to another plugin
			{"auth_empty", "", "auth"},
			{"auth_sha2", "wrong", "auth"},
		},
		server.MariaDB: {
			{"auth_native", "pa'ss wörd", "auth"},
			{"auth_native", "pa'ss wörd", ""},
			{"auth_empty", "", "auth"},
			{"auth_ed25519", thirtyTwo, "auth"}, // to another plugin
			{"auth_native", "pa'ss wörd", "auth"},
			{"auth_either", thirtyTwoWrong, "auth"},
			{"auth_native", "wrong", "auth"},
		},
	}
	failures := []step{
		{"auth_empty", "", "auth_nosuch"},
		{"auth_empty", "", "auth_forbidden"},
		{"auth_locked", "secret", "auth"},
		{"auth_nobody", "any", ""},
	}
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := authServer(t, kind)
		chain := func(c *rawclient.Conn, steps ...step) (lines []string) {
			for _, step := range steps {
				lines = append(lines, "to "+step.user)
				for range 3 {
					lines = append(lines, ask(c, "CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY"), ask(c, "INSERT INTO t VALUES (1)"),
						ask(c, "SELECT * FROM t"), ask(c, "DROP TEMPORARY TABLE t"))
				}
				lines = append(lines, ask(c, "CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY"), ask(c, "SET @a = 1"))
				reply, err := c.ChangeUser(step.user, step.password, step.schema)
				lines = append(lines, told(reply, err))
				for _, text := range []string{"SELECT CURRENT_USER(), DATABASE(), @a", "SELECT * FROM t", "SELECT * FROM auth.t", "SELECT 1",
					fmt.Sprint("SELECT CONNECTION_ID() = ", c.Greeting.ThreadID)} {
					lines = append(lines, ask(c, text))
				}
			}
			return lines
		}
		run := func(t *testing.T, address string) []string {
			executeDirectly(t, s, "FLUSH PRIVILEGES")
			// Side by side: MariaDB sleeps for a second after a failure.
			var all sync.WaitGroup
			lines := make([][]string, len(failures)+1)
			for i := range lines {
				steps := chains[kind]
				if i > 0 {
					steps = failures[i-1 : i]
				}
				c := connect(t, rawclient.Config{Network: "tcp", Address: address, User: "auth_empty", Database: "auth"})
				all.Go(func() { lines[i] = chain(c, steps...) })
			}
			all.Wait()
			return slices.Concat(lines...)
		}
		direct := run(t, s.Address)
		another := "switch to sha256_password, key"
		if kind.IsMariaDB() {
			another = "switch to client_ed25519"
		}
		if all := strings.Join(direct, "\n"); !strings.Contains(all, another) {
			t.Errorf("no %s was seen:\n%s", another, all)
		}
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_REWRITE_STRATEGY=keep")
				sameLines(t, direct, run(t, p.Address))
			})
		}
	})
}

// loginPacket is the login of an account without a password, which needs no answer to the scramble.
func loginPacket(user, plugin string) []byte {
	const capabilities = rawclient.Classic
	p := binary.LittleEndian.AppendUint32(make([]byte, 4), capabilities)
	p = append(p, 0, 0, 0, 1, 45)      // the largest packet; utf8mb4
	p = append(p, make([]byte, 23)...) // reserved
	p = append(p, user...)
	p = append(p, 0, 0) // no password
	p = append(append(p, plugin...), 0)
	p[0], p[1], p[3] = byte(len(p)-4), byte((len(p)-4)>>8), 1
	return p
}

func queryPacket(text string) []byte {
	n := len(text) + 1
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), 0, mysql.COM_QUERY}, text...)
}

// readPacket reads one packet with its header.
func readPacket(r io.Reader) ([]byte, error) {
	p := make([]byte, 4)
	if _, err := io.ReadFull(r, p); err != nil {
		return p, err
	}
	p = append(p, make([]byte, int(p[0])|int(p[1])<<8|int(p[2])<<16)...)
	_, err := io.ReadFull(r, p[4:])
	return p, err
}

// TestFirstCommandWithLogin sends commands in the segment that holds the login: none of it is lost.
func TestFirstCommandWithLogin(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := authServer(t, kind)
		plugin := mysql.AUTH_CACHING_SHA2_PASSWORD
		if kind.IsMariaDB() {
			plugin = mysql.AUTH_NATIVE_PASSWORD
		}
		first := append(loginPacket("auth_empty", plugin), queryPacket("SELECT 'one'")...)
		exchange := func(t *testing.T, address string, segments ...[]byte) []byte {
			t.Helper()
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(patience))
			if _, err := readPacket(conn); err != nil {
				t.Fatal(err)
			}
			go func() {
				for _, segment := range segments {
					if _, err := conn.Write(segment); err != nil {
						t.Error(err)
					}
				}
				// The end comes behind all commands, which are answered all the same.
				_ = conn.(*net.TCPConn).CloseWrite()
			}()
			answer, err := io.ReadAll(conn)
			if err != nil {
				t.Errorf("at %s: %v after %q", address, err, answer)
			}
			return answer
		}
		many := bytes.Repeat(queryPacket("SELECT 'and another'"), 50)
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
				for name, segments := range map[string][][]byte{
					"one":  {first},
					"many": {append(bytes.Clone(first), many...)},
					"cut":  {first[:len(first)-5], first[len(first)-5:]},
					"torn": {first[:20], append(bytes.Clone(first[20:]), many[:30]...), many[30:]},
				} {
					t.Run(name, func(t *testing.T) {
						want := exchange(t, s.Address, segments...)
						got := exchange(t, p.Address, segments...)
						if !bytes.Contains(want, []byte("\x03one")) {
							t.Fatalf("directly %q", want)
						}
						if !bytes.Equal(want, got) {
							t.Errorf("directly %q\nthrough the proxy %q", want, got)
						}
					})
				}
			})
		}
	})
}

// TestConnectionAttributes looks for the client's attributes where the server keeps them, short ones and long ones.
func TestConnectionAttributes(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind, "--performance-schema=ON", "--performance-schema-session-connect-attrs-size=65536")
		for _, d := range drivers {
			p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
			for name, length := range map[string]int{"short": 10, "of 20000 bytes": 20000, "of 60000 bytes": 60000} {
				t.Run(d+" "+name, func(t *testing.T) {
					seen := func(address string) []string {
						config := configure(s, address, "")
						config.Attributes = map[string]string{"program_name": "auth_test", "empty": "", "tail": strings.Repeat("t", length%1000)}
						for i := range length / 1000 {
							config.Attributes[fmt.Sprintf("a%02d", i)] = strings.Repeat("x", 990)
						}
						// MariaDB sometimes shows nothing of a thread that it keeps for one connection after the other; those
						// of this test stay open.
						for range 20 {
							c := connect(t, config)
							reply := must(t, c, fmt.Sprint("SELECT ATTR_NAME, LENGTH(ATTR_VALUE), ORDINAL_POSITION "+
								"FROM performance_schema.session_connect_attrs WHERE PROCESSLIST_ID = ", c.Greeting.ThreadID, " ORDER BY ORDINAL_POSITION"))
							if len(reply.Results[0].Rows) > 0 {
								return []string{told(reply, nil)}
							}
						}
						return []string{"nothing"}
					}
					want := seen(s.Address)
					if !strings.Contains(want[0], `["program_name" "9"`) {
						t.Errorf("directly: %s", want)
					}
					sameLines(t, want, seen(p.Address))
				})
			}
		}
	})
}

// TestKill kills sessions by the ids that their clients see.
func TestKill(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		for _, d := range drivers {
			p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
			kill := func(t *testing.T, text string, by func(killer, victim *rawclient.Conn) string, address string) []string {
				victim := connect(t, configure(s, address, ""))
				killer := connect(t, configure(s, p.Address, ""))
				if got := value(t, victim, "SELECT CONNECTION_ID()"); got != fmt.Sprint(victim.Greeting.ThreadID) {
					t.Errorf("at %s CONNECTION_ID() = %s, the greeting said %d", address, got, victim.Greeting.ThreadID)
				}
				if text != "" {
					if err := victim.SendQuery(text); err != nil {
						t.Fatal(err)
					}
					// A statement that has just begun may lose a KILL QUERY.
					await(t, "the statement sleeps", func() bool {
						return value(t, killer, fmt.Sprint("SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep' AND id = ", victim.Greeting.ThreadID)) == "1"
					})
				}
				return []string{by(killer, victim), ending(victim)}
			}
			sql := func(verb string) func(killer, victim *rawclient.Conn) string {
				return func(killer, victim *rawclient.Conn) string {
					return ask(killer, fmt.Sprint(verb, " ", victim.Greeting.ThreadID))
				}
			}
			for name, c := range map[string]struct {
				text string
				by   func(killer, victim *rawclient.Conn) string
			}{
				"idle": {"", sql("KILL")},
				"busy": {"SELECT SLEEP(60)", sql("KILL CONNECTION")},
				"idle, by a command": {"", func(killer, victim *rawclient.Conn) string {
					reply, err := killer.Kill(victim.Greeting.ThreadID)
					if reply.Err() != nil { // MySQL has no such command any more
						return told(reply, err) + sql("KILL")(killer, victim)
					}
					return told(reply, err)
				}},
				"query": {"SELECT SLEEP(60)", func(killer, victim *rawclient.Conn) string {
					first := sql("KILL QUERY")(killer, victim)
					reply, err := victim.ReceiveQuery()
					return first + told(reply, err) + ask(victim, "SELECT 'still there'") + sql("KILL")(killer, victim)
				}},
			} {
				t.Run(d+" "+name, func(t *testing.T) {
					sameLines(t, kill(t, c.text, c.by, s.Address), kill(t, c.text, c.by, p.Address))
				})
			}
		}
	})
}

// TestTooManyConnections fills the server up: its refusal is relayed, and the proxy serves again when there is room.
func TestTooManyConnections(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		const most = 12
		s := own(t, kind, fmt.Sprint("--max-connections=", most))
		executeDirectly(t, s, "CREATE USER auth_plain IDENTIFIED BY ''")
		control := connect(t, configure(s, s.Address, ""))
		connections := func(n int) func() bool {
			return func() bool {
				reply := must(t, control, "SHOW STATUS LIKE 'Threads_connected'")
				row, _ := rawclient.TextRow(reply.Results[0].Rows[0])
				return string(row[1]) == fmt.Sprint(n)
			}
		}
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d)
				plain := func(address string) (*rawclient.Conn, error) {
					return rawclient.Connect(rawclient.Config{Network: "tcp", Address: address, User: "auth_plain"})
				}
				var open []*rawclient.Conn
				for range most {
					if connections(most)() {
						break
					}
					c, err := plain(p.Address)
					if err != nil {
						t.Fatal(err)
					}
					open = append(open, c)
				}
				refused := func(what string, n int) {
					t.Helper()
					var told [2]string
					for i, address := range []string{s.Address, p.Address} {
						await(t, "the server is full", connections(n))
						c, err := plain(address)
						if err == nil {
							c.Close()
							t.Fatalf("%s: let in at %s", what, address)
						}
						told[i] = err.Error()
						await(t, "the refused one is gone", connections(n))
					}
					if told[0] != told[1] || !strings.Contains(told[0], "ERR 1040") {
						t.Errorf("%s: directly %s, through the proxy %s", what, told[0], told[1])
					}
				}
				// The last place is kept for an administrator, so that MySQL refuses others only at their login.
				refused("full", most)
				open = append(open, connect(t, configure(s, p.Address, "")))
				refused("full to the last place", most+1)
				for _, c := range open {
					if err := c.Quit(); err != nil {
						t.Error(err)
					}
				}
				await(t, "there is room again", func() bool {
					c, err := plain(p.Address)
					if err == nil {
						c.Close()
					}
					return err == nil
				})
			})
		}
	})
}

// from relays connections to address from another address of this machine's, so that the server takes the proxy for a
// client of another host: loopback clients are never blocked.
func from(t *testing.T, source, address string) string {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	l, err := relay.Start(func() (net.Conn, error) { return dialer.Dial("tcp", address) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// leave connects, reads the greeting if it is to, and goes away.
func leave(address string, greeted bool) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if !greeted {
		return nil
	}
	conn.SetDeadline(time.Now().Add(patience))
	p, err := readPacket(conn)
	if err == nil && p[4] == mysql.ERR_HEADER {
		err = fmt.Errorf("refused: %q", p[4:])
	}
	return err
}

// TestLeavingClients has clients leave before they log in. Directly, that gets their host blocked; through the proxy it
// must not get the proxy blocked.
func TestLeavingClients(t *testing.T) {
	const source = "127.0.0.2"
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind, "--performance-schema=ON", "--max-connect-errors=20")
		executeDirectly(t, s, "CREATE USER auth_plain IDENTIFIED BY ''")
		relay := from(t, source, s.Address)
		errorsOf := func(t *testing.T) (n int) {
			t.Helper()
			err := s.DB().QueryRow("SELECT COALESCE(SUM(SUM_CONNECT_ERRORS), 0) FROM performance_schema.host_cache WHERE ip = ?", source).Scan(&n)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		t.Run("directly", func(t *testing.T) {
			var blocked error
			for range 100 {
				if blocked = leave(relay, true); blocked != nil {
					break
				}
			}
			if blocked == nil || !strings.Contains(blocked.Error(), "blocked because of many connection errors") || errorsOf(t) < 20 {
				t.Errorf("after %d connection errors: %v", errorsOf(t), blocked)
			}
			// FLUSH HOSTS, which MySQL 9 has no more
			executeDirectly(t, s, "TRUNCATE TABLE performance_schema.host_cache")
		})
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, relay, "TMPPROXY_RELAY_DRIVER="+d)
				for i := range 150 {
					if err := leave(p.Address, i%3 > 0); err != nil {
						t.Fatalf("client %d: %v", i, err)
					}
				}
				var crowd sync.WaitGroup
				for i := range 150 {
					crowd.Go(func() {
						if err := leave(p.Address, i%3 > 0); err != nil {
							t.Errorf("client %d of a crowd: %v", i, err)
						}
					})
				}
				crowd.Wait()
				await(t, "the proxy has no sessions", func() bool { return len(sessions(t, p)) == 0 })
				if n := errorsOf(t); n > 5 {
					t.Errorf("the server counts %d connection errors", n)
				}
				c := connect(t, rawclient.Config{Network: "tcp", Address: p.Address, User: "auth_plain"})
				if got := value(t, c, "SELECT USER()"); got != "auth_plain@"+source && got != "auth_plain@localhost" {
					t.Errorf("the account is %s: was the source %s?", got, source)
				}
			})
		}
	})
}
