//go:build realserver

package tests

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

// authority issues certificates for tests.
type authority struct {
	dir         string
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	file        string

	mu     sync.Mutex
	serial int64
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.file, _ = a.issue(t, "authority")
	return a
}

// issue makes a certificate for a name and loopback addresses, and returns its file and its key's.
func (a *authority) issue(t testing.TB, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if a.key == nil {
		a.key, a.certificate = private, template
		template.IsCA, template.KeyUsage, template.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	for file, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if a.certificate == template {
		if a.certificate, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

// client are the settings of a client that trusts the authority alone.
func (a *authority) client() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
}

// tlsServer starts a server that offers TLS with a certificate of the authority.
func tlsServer(t testing.TB, a *authority, kind server.Kind, args ...string) *server.Server {
	t.Helper()
	certificate, key := a.issue(t, "server-"+string(kind))
	return own(t, kind, append([]string{"--ssl-ca=" + a.file, "--ssl-cert=" + certificate, "--ssl-key=" + key}, args...)...)
}

// issued counts the certificates of proxies.
var issued atomic.Int64

// combination is what the two legs of a proxy are.
type combination struct{ client, backend bool }

func (c combination) String() string {
	kind := map[bool]string{false: "plain", true: "TLS"}
	return kind[c.client] + " to " + kind[c.backend]
}

// settings are those of a proxy whose legs are so.
func (c combination) settings(t testing.TB, a *authority, driver string) []string {
	t.Helper()
	settings := []string{"TMPPROXY_RELAY_DRIVER=" + driver}
	if c.client {
		certificate, key := a.issue(t, fmt.Sprint("proxy-", issued.Add(1))) // servers are tested side by side
		settings = append(settings, "TMPPROXY_LISTEN_TLS_MODE=required", "TMPPROXY_LISTEN_TLS_CERT_FILE="+certificate, "TMPPROXY_LISTEN_TLS_KEY_FILE="+key)
	}
	if c.backend {
		settings = append(settings, "TMPPROXY_BACKEND_TLS_MODE=verify-identity", "TMPPROXY_BACKEND_TLS_CA_FILE="+a.file)
	}
	return settings
}

var combinations = []combination{{true, true}, {true, false}, {false, true}}

// overTLS are the attempts as they go for a client with TLS.
func overTLS(all []attempt, config *tls.Config) []attempt {
	all = slices.Clone(all)
	for i := range all {
		all[i].tls = config
		all[i].turns = strings.ReplaceAll(all[i].turns, ", key", "")
	}
	return all
}

// TestAuthenticationOverTLS logs in in every way with TLS on either leg or both: what the client sees must be what it sees directly.
func TestAuthenticationOverTLS(t *testing.T) {
	a := newAuthority(t)
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := tlsServer(t, a, kind)
		addAccounts(t, s)
		for _, c := range combinations {
			for _, d := range drivers {
				t.Run(c.String()+" "+d, func(t *testing.T) {
					p := startProxy(t, s.Address, c.settings(t, a, d)...)
					all := attempts(kind, false)
					if c.client {
						all = overTLS(all, a.client())
					}
					for _, attempt := range all {
						t.Run(attempt.name, func(t *testing.T) {
							if attempt.name == "over TLS only" { // the server judges its own leg
								if attempt.cold = true; c.backend && !kind.IsMariaDB() {
									attempt.turns = map[bool]string{true: "full", false: "full, key"}[c.client]
								}
								if c.client != c.backend {
									executeDirectly(t, s, "FLUSH PRIVILEGES")
									if _, code := logIn(t, attempt, "tcp", p.Address); (code == 0) != c.backend {
										t.Errorf("code %d", code)
									}
									return
								}
								attempt.code = 0
							}
							forget := func() {
								if attempt.cold {
									executeDirectly(t, s, "FLUSH PRIVILEGES")
								}
							}
							forget()
							want, code := logIn(t, attempt, "tcp", s.Address)
							if code != attempt.code && (attempt.code != anyCode || len(want) > 1) {
								t.Errorf("directly: %s; want code %d", want, attempt.code)
							}
							forget()
							got, _ := logIn(t, attempt, "tcp", p.Address)
							sameLines(t, want, got)
							forget()
							want = logInByDriver(attempt, "tcp", s.Address)
							forget()
							sameLines(t, want, logInByDriver(attempt, "tcp", p.Address))
						})
					}
				})
			}
		}
	})
}

// TestTLSSessions goes on behind the login: COM_CHANGE_USER to accounts whose password is wanted, temporary tables that are cached, and
// what is larger than a packet, each way.
func TestTLSSessions(t *testing.T) {
	type step struct{ user, password string }
	steps := map[server.Kind][]step{
		server.MySQL:   {{"auth_sha2_again", "other"}, {"auth_sha256", "secret"}, {"auth_sha2", "pa'ss wörd"}, {"auth_sha256", "secret"}, {"auth_empty", ""}, {"auth_sha2", "wrong"}},
		server.MariaDB: {{"auth_native", "pa'ss wörd"}, {"auth_ed25519", thirtyTwo}, {"auth_empty", ""}, {"auth_native", "wrong"}},
	}
	a := newAuthority(t)
	const size = 48 << 20
	large := strings.Repeat("0123456789abcdef", size/16)
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := tlsServer(t, a, kind, "--max-allowed-packet=64M")
		addAccounts(t, s)
		run := func(t *testing.T, address string, secure bool) (lines []string) {
			executeDirectly(t, s, "FLUSH PRIVILEGES")
			config := rawclient.Config{Network: "tcp", Address: address, User: "auth_empty", Database: "auth"}
			if secure {
				config.TLS = a.client()
			}
			c := connect(t, config)
			for range 5 {
				for _, text := range []string{"CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY", "INSERT INTO t VALUES (1), (2)", "SELECT * FROM t", "DROP TEMPORARY TABLE t"} {
					lines = append(lines, ask(c, text))
				}
			}
			lines = append(lines, ask(c, "SELECT MD5('"+large+"')"))
			reply := must(t, c, "SELECT REPEAT('0123456789abcdef', "+strconv.Itoa(size/16)+")")
			row, err := rawclient.TextRow(reply.Results[0].Rows[0])
			if err != nil || string(row[0]) != large {
				t.Errorf("at %s %d bytes came back, %v", address, len(row[0]), err)
			}
			for _, step := range steps[kind] {
				reply, err := c.ChangeUser(step.user, step.password, "auth")
				lines = append(lines, "to "+step.user, told(reply, err), ask(c, "SELECT CURRENT_USER()"), ask(c, "SELECT * FROM t"))
			}
			return lines
		}
		direct := map[bool][]string{false: run(t, s.Address, false), true: run(t, s.Address, true)}
		for _, c := range combinations {
			for _, d := range drivers {
				t.Run(c.String()+" "+d, func(t *testing.T) {
					p := startProxy(t, s.Address, append(c.settings(t, a, d), "TMPPROXY_REWRITE_STRATEGY=keep")...)
					sameLines(t, direct[c.client], run(t, p.Address, c.client))
					page, err := p.Get("/metrics")
					if err != nil || !strings.Contains(page, "\ntmpproxy_reuses_total 3\n") {
						t.Errorf("not 3 of 5 cycles took a cached table: %v", err)
					}
				})
			}
		}
	})
}

// TestTLSCertificates changes the certificate's files under a running proxy, and gives it a certificate that nobody vouches for.
func TestTLSCertificates(t *testing.T) {
	a := newAuthority(t)
	s := shared(t, server.MySQL)
	certificate, key := a.issue(t, "proxy")
	shown := func(p *process.Process) string {
		config := configure(s, p.Address, "")
		var serial string
		config.TLS = &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
			serial = state.PeerCertificates[0].SerialNumber.String()
			return nil
		}}
		c, err := rawclient.Connect(config)
		if err != nil {
			return err.Error()
		}
		c.Close()
		return serial
	}
	for _, d := range drivers {
		t.Run(d, func(t *testing.T) {
			p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_LISTEN_TLS_MODE=optional", "TMPPROXY_RELOAD_WATCH=20ms",
				"TMPPROXY_LISTEN_TLS_CERT_FILE="+certificate, "TMPPROXY_LISTEN_TLS_KEY_FILE="+key)
			config := configure(s, p.Address, "")
			config.TLS = a.client()
			before := connect(t, config)
			a.issue(t, "proxy") // into the same files
			newest := strconv.FormatInt(a.serial, 10)
			await(t, "the new certificate is shown", func() bool { return shown(p) == newest })
			if got := value(t, before, "SELECT 1"); got != "1" {
				t.Errorf("the session before says %s", got)
			}
			// A certificate of another key than the file's: the one before stays in force.
			if err := os.WriteFile(certificate, []byte("none"), 0o600); err != nil {
				t.Fatal(err)
			}
			await(t, "the fault is told", func() bool { return strings.Contains(p.Log(), "settings not reloaded") })
			if got := shown(p); got != newest {
				t.Errorf("%s is shown", got)
			}
			a.issue(t, "proxy")
		})
	}
	t.Run("client certificates", func(t *testing.T) {
		p := startProxy(t, s.Address, "TMPPROXY_LISTEN_TLS_MODE=required", "TMPPROXY_LISTEN_TLS_CA_FILE="+a.file)
		if got := shown(p); !strings.Contains(got, "certificate required") && !strings.Contains(got, "EOF") && !strings.Contains(got, "reset") {
			t.Errorf("without one: %s", got)
		}
		own, secret := a.issue(t, "client")
		pair, err := tls.LoadX509KeyPair(own, secret)
		if err != nil {
			t.Fatal(err)
		}
		config := configure(s, p.Address, "")
		config.TLS = &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}
		if got := value(t, connect(t, config), "SELECT 1"); got != "1" {
			t.Error(got)
		}
	})
}

// TestTLSBackendVerified has servers whose certificate is from elsewhere, or for another name; and one that has none.
func TestTLSBackendVerified(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	s := tlsServer(t, a, server.MySQL)
	without := own(t, server.MariaDB)
	for _, test := range []struct {
		server   *server.Server
		settings []string
		refusal  string // "": none
		cipher   bool   // the backend's leg has TLS
	}{
		{s, []string{"MODE=verify-identity", "CA_FILE=" + a.file}, "", true},
		{s, []string{"MODE=verify-identity", "CA_FILE=" + a.file, "SERVER_NAME=elsewhere"}, "valid for server-mysql, not elsewhere", false},
		{s, []string{"MODE=verify-ca", "CA_FILE=" + a.file, "SERVER_NAME=elsewhere"}, "", true},
		{s, []string{"MODE=verify-ca", "CA_FILE=" + other.file}, "unknown authority", false},
		{s, []string{"MODE=required"}, "", true},
		{s, []string{"MODE=preferred"}, "", true},
		{s, []string{"MODE=disabled"}, "", false},
		{without, []string{"MODE=preferred"}, "", false},
		{without, []string{"MODE=required"}, "SSL is required", false},
	} {
		t.Run(string(test.server.Kind)+" "+strings.ReplaceAll(strings.Join(test.settings, " "), "/", "|"), func(t *testing.T) {
			var settings []string
			for _, setting := range test.settings {
				settings = append(settings, "TMPPROXY_BACKEND_TLS_"+setting)
			}
			p := startProxy(t, test.server.Address, settings...)
			for range 2 { // the second time the session is taken up again
				c, err := rawclient.Connect(configure(test.server, p.Address, ""))
				if test.refusal != "" {
					if refused := (*rawclient.ServerError)(nil); !errors.As(err, &refused) || refused.Code != 2026 || !strings.Contains(refused.Message, test.refusal) {
						t.Errorf("%v", err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				reply := must(t, c, "SHOW STATUS LIKE 'Ssl_cipher'")
				row, err := rawclient.TextRow(reply.Results[0].Rows[0])
				if err != nil || (len(row[1]) > 0) != test.cipher {
					t.Errorf("cipher %q, %v", row[1], err)
				}
				c.Close()
			}
		})
	}
}

// TestPinnedKey logs in as a client that knows the server's public key and does not ask for it.
func TestPinnedKey(t *testing.T) {
	a := newAuthority(t)
	s := tlsServer(t, a, server.MySQL)
	addAccounts(t, s)
	data := value(t, connect(t, configure(s, s.Address, "")), "SELECT @@datadir")
	mysql := program(t, server.MySQL, "mysql")
	login := func(address string) string {
		executeDirectly(t, s, "FLUSH PRIVILEGES")
		host, port, _ := net.SplitHostPort(address)
		output, _ := exec.Command(mysql, "--no-defaults", "--protocol=TCP", "--host="+host, "--port="+port, "--ssl-mode=DISABLED", "--user=auth_sha2",
			"--password=pa'ss wörd", "--server-public-key-path="+filepath.Join(data, "public_key.pem"), "-Ne", "SELECT CURRENT_USER()").CombinedOutput()
		return string(output)
	}
	if got := login(s.Address); !strings.Contains(got, "auth_sha2@") {
		t.Fatalf("directly: %s", got)
	}
	tlsOn := []string{"TMPPROXY_BACKEND_TLS_MODE=verify-ca", "TMPPROXY_BACKEND_TLS_CA_FILE=" + a.file}
	if got := login(startProxy(t, s.Address, tlsOn...).Address); !strings.Contains(got, "ERROR 1045 (28000)") || !strings.Contains(got, "backend.rsa_key_file") {
		t.Errorf("with a key of the proxy's: %s", got)
	}
	if got := login(startProxy(t, s.Address, append(tlsOn, "TMPPROXY_BACKEND_RSA_KEY_FILE="+filepath.Join(data, "private_key.pem"))...).Address); !strings.Contains(got, "auth_sha2@") {
		t.Errorf("with the server's: %s", got)
	}
}

// TestTLSCommandLineClients runs the clients of today over TLS, with compression as well, and MariaDB's as it verifies by default.
func TestTLSCommandLineClients(t *testing.T) {
	a := newAuthority(t)
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := tlsServer(t, a, kind)
		executeDirectly(t, s, "CREATE USER auth_client IDENTIFIED BY 'secret'")
		both := startProxy(t, s.Address, combination{true, true}.settings(t, a, "loop")...)
		selfMade := startProxy(t, s.Address, "TMPPROXY_LISTEN_TLS_MODE=optional")
		dir := t.TempDir()
		kept := startProxy(t, s.Address, "TMPPROXY_LISTEN_TLS_MODE=optional", "TMPPROXY_LISTEN_TLS_DIR="+dir)
		restarted := startProxy(t, s.Address, "TMPPROXY_LISTEN_TLS_MODE=optional", "TMPPROXY_LISTEN_TLS_DIR="+dir)
		passing := startProxy(t, s.Address, "TMPPROXY_LISTEN_TLS_MODE=passthrough")
		ca, pinned := "--ssl-ca="+a.file, "--ssl-ca="+filepath.Join(dir, "server-cert.pem")
		for _, test := range []struct {
			name    string
			proxy   *process.Process
			client  server.Kind
			args    []string
			refused string
		}{
			{"mysql", both, server.MySQL, []string{"--ssl-mode=VERIFY_CA", ca}, ""},
			{"mysql", both, server.MySQL, []string{"--ssl-mode=VERIFY_CA", ca, "--compress"}, ""},
			{"mysql", both, server.MySQL, []string{"--ssl-mode=REQUIRED", "--compression-algorithms=zstd,zlib"}, ""},
			{"mysql", both, server.MySQL, []string{"--ssl-mode=REQUIRED", "--tls-version=TLSv1.2"}, ""},
			{"mysql", both, server.MySQL, []string{"--ssl-mode=DISABLED", "--get-server-public-key"}, "ERROR 3159"},
			{"mysql", selfMade, server.MySQL, nil, ""},
			{"mysql", selfMade, server.MySQL, []string{"--ssl-mode=VERIFY_CA", ca}, "certificate verify failed"},
			{"mysql", kept, server.MySQL, []string{"--ssl-mode=VERIFY_CA", pinned}, ""},
			{"mysql", restarted, server.MySQL, []string{"--ssl-mode=VERIFY_IDENTITY", pinned}, ""},
			{"mysql", selfMade, server.MySQL, []string{"--ssl-mode=VERIFY_CA", pinned}, "certificate verify failed"},
			{"mariadb", restarted, server.MariaDB118, []string{pinned}, ""},
			{"mysql", passing, server.MySQL, []string{"--ssl-mode=VERIFY_CA", ca}, ""},
			{"mysql", passing, server.MySQL, []string{"--ssl-mode=DISABLED", "--get-server-public-key"}, ""},
			{"mariadb", both, server.MariaDB118, []string{ca}, ""},
			{"mariadb", both, server.MariaDB118, []string{ca, "--compress"}, ""},
			{"mariadb", selfMade, server.MariaDB118, []string{"--disable-ssl-verify-server-cert"}, ""},
			{"mariadb", passing, server.MariaDB118, []string{ca}, ""},
			{"mariadb", both, server.MariaDB, []string{"--ssl", ca}, ""},
		} {
			t.Run(strings.ReplaceAll(strings.Join(append([]string{string(test.client)}, test.args...), " "), "/", "|"), func(t *testing.T) {
				host, port, _ := net.SplitHostPort(test.proxy.Address)
				args := append([]string{"--no-defaults", "--protocol=TCP", "--host=" + host, "--port=" + port, "--user=auth_client", "--password=secret"}, test.args...)
				command := exec.Command(program(t, test.client, test.name), append(args, "-N")...)
				command.Stdin = strings.NewReader("SELECT CURRENT_USER();\nSELECT REPEAT('x', 100000);\nSELECT 'the end';\n")
				output, err := command.CombinedOutput()
				if test.refused != "" {
					if err == nil || !strings.Contains(string(output), test.refused) {
						t.Errorf("not refused: %v, %.300s", err, output)
					}
				} else if err != nil || !strings.Contains(string(output), "auth_client@") || !strings.HasSuffix(string(output), "the end\n") {
					t.Errorf("%v, %.300s", err, output)
				}
			})
		}
		page, err := passing.Get("/metrics")
		if err != nil || !strings.Contains(page, `tmpproxy_raw_sessions_total{reason="tls"} 2`) {
			t.Errorf("not two sessions with TLS are counted: %v", err)
		}
	})
}

// TestTLSVerifyingClient has MariaDB's client, which verifies unless the host is the loopback address, meet a certificate of the proxy's own.
func TestTLSVerifyingClient(t *testing.T) {
	a := newAuthority(t)
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := tlsServer(t, a, kind)
		executeDirectly(t, s, "CREATE USER auth_client IDENTIFIED BY 'secret'")
		p := startProxy(t, s.Address, "TMPPROXY_LISTEN_TLS_MODE=optional", "TMPPROXY_LISTEN_ADDRESSES=127.0.0.1:0,127.0.0.2:0")
		for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
			port := regexp.MustCompile(regexp.QuoteMeta(host) + `:(\d+)"`).FindStringSubmatch(p.Log())
			if port == nil {
				t.Fatal("the port is not in the log")
			}
			for _, lax := range []bool{false, true} {
				args := []string{"--no-defaults", "--protocol=TCP", "--host=" + host, "--port=" + port[1], "--user=auth_client", "--password=secret"}
				if lax {
					args = append(args, "--disable-ssl-verify-server-cert")
				}
				output, err := exec.Command(program(t, server.MariaDB118, "mariadb"), append(args, "-Ne", "SELECT CURRENT_USER()")...).CombinedOutput()
				if refused := host == "127.0.0.2" && !lax; refused != (err != nil) || refused != strings.Contains(string(output), "ERROR 2026 (HY000): TLS/SSL error") {
					t.Errorf("at %s, verification off %v: %v, %s", host, lax, err, output)
				}
			}
		}
	})
}

// TestPasswordsBetweenSockets logs in in every way where one leg is a unix socket and the other is not: passwords are translated.
func TestPasswordsBetweenSockets(t *testing.T) {
	s := own(t, server.MySQL)
	addAccounts(t, s)
	path := filepath.Join(t.TempDir(), "l")
	startProxy(t, s.Address, "TMPPROXY_LISTEN_ADDRESSES="+path)
	p := startProxy(t, s.Socket, "TMPPROXY_BACKEND_ALLOW_PEER_IDENTITY=true")
	for _, leg := range []struct{ network, address string }{{"tcp", p.Address}, {"unix", path}} {
		for _, attempt := range attempts(server.MySQL, leg.network == "unix") {
			if attempt.onlyDriver {
				continue
			}
			t.Run(leg.network+" "+attempt.name, func(t *testing.T) {
				if attempt.cold {
					executeDirectly(t, s, "FLUSH PRIVILEGES")
				}
				if lines, code := logIn(t, attempt, leg.network, leg.address); code != attempt.code {
					t.Errorf("%s; want code %d", lines, attempt.code)
				}
			})
		}
	}
}

// TestTLSPreferredOverUnixSocket has TLS with a server behind a unix socket for the clients that have it themselves, and for no others.
func TestTLSPreferredOverUnixSocket(t *testing.T) {
	s := tlsServer(t, newAuthority(t), server.MySQL)
	p := startProxy(t, s.Socket, "TMPPROXY_LISTEN_TLS_MODE=optional", "TMPPROXY_BACKEND_TLS_MODE=preferred", "TMPPROXY_BACKEND_ALLOW_PEER_IDENTITY=true")
	for _, secure := range []bool{false, true} {
		config := configure(s, p.Address, "")
		if secure {
			config.TLS = &tls.Config{InsecureSkipVerify: true}
		}
		reply := must(t, connect(t, config), "SHOW STATUS LIKE 'Ssl_cipher'")
		row, err := rawclient.TextRow(reply.Results[0].Rows[0])
		if err != nil || (len(row[1]) > 0) != secure {
			t.Errorf("the client has TLS: %v; cipher %q, %v", secure, row[1], err)
		}
	}
}
