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
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tmpproxy/testbed/server"
)

// authority issues certificates for tests.
type authority struct {
	dir         string
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	file        string
	serial      int64
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
		certificate, key := a.issue(t, "proxy")
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
							if attempt.user == "auth_either" || attempt.user == "auth_ed25519" {
								return // the driver takes a scramble that ends in a NUL for a shorter one
							}
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
