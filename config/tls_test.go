package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// pair writes a certificate and its key, and returns their files.
func pair(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "certificate"), filepath.Join(dir, "key")
	for file, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

func TestTLSFaults(t *testing.T) {
	certificate, key := pair(t)
	_, otherKey := pair(t)
	for _, test := range []struct {
		flags []string
		fault string
	}{
		{[]string{"--listen.tls.cert_file=" + certificate}, "a certificate needs its key"},
		{[]string{"--listen.tls.key_file=" + key}, "a certificate needs its key"},
		{[]string{"--listen.tls.cert_file=" + certificate, "--listen.tls.key_file=" + otherKey}, "private key does not match public key"},
		{[]string{"--listen.tls.ca_file=/nowhere/ca"}, "no such file"},
		{[]string{"--listen.tls.ca_file=" + key}, "holds no certificate"},
		{[]string{"--backend.tls.cert_file=" + certificate}, "a certificate needs its key"},
		{[]string{"--backend.tls.ca_file=/nowhere/ca"}, "no such file"},
		{[]string{"--backend.rsa_key_file=/nowhere/key"}, "no such file"},
		{[]string{"--listen.tls.mode=yes"}, "passthrough"},
		{[]string{"--backend.tls.mode=on"}, "verify-identity"},
	} {
		if _, err := load(t, "", nil, test.flags...); err == nil || !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s: %v", test.flags, err)
		}
	}
}

func TestTLSSettings(t *testing.T) {
	certificate, key := pair(t)
	files := func(leg string) []string {
		return []string{"--" + leg + ".tls.cert_file=" + certificate, "--" + leg + ".tls.key_file=" + key, "--" + leg + ".tls.ca_file=" + certificate}
	}
	for mode, offered := range map[string]bool{"off": false, "optional": true, "required": true, "passthrough": false} {
		c, err := load(t, "", nil, append(files("listen"), "--listen.tls.mode="+mode)...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.ServerTLS()
		if err != nil || (got != nil) != offered {
			t.Errorf("%s: %v, %v", mode, got, err)
		}
		if offered && (got.MinVersion != tls.VersionTLS12 || len(got.Certificates) != 1 || got.ClientCAs == nil || got.ClientAuth != tls.RequireAndVerifyClientCert) {
			t.Errorf("%s: %+v", mode, got)
		}
		if !slices.Equal(c.TLSFiles(), []string{certificate, key, certificate}) {
			t.Errorf("%s: files %s", mode, c.TLSFiles())
		}
	}
	for mode, verified := range map[string]string{"preferred": "", "required": "", "verify-ca": "chain", "verify-identity": "name"} {
		c, err := load(t, "", nil, append(files("backend"), "--backend.tls.mode="+mode)...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.ClientTLS()
		if err != nil || got.MinVersion != tls.VersionTLS12 || len(got.Certificates) != 1 || got.RootCAs == nil {
			t.Errorf("%s: %+v, %v", mode, got, err)
		}
		how := ""
		switch {
		case !got.InsecureSkipVerify:
			how = "name"
		case got.VerifyConnection != nil:
			how = "chain"
		}
		if how != verified {
			t.Errorf("%s verifies %q", mode, how)
		}
	}
	if server, err := Default().ServerTLS(); server != nil || err != nil {
		t.Errorf("by default: %v, %v", server, err)
	}
	if client, err := Default().ClientTLS(); client != nil || err != nil {
		t.Errorf("by default: %v, %v", client, err)
	}
}

func TestTLSWarnings(t *testing.T) {
	certificate, key := pair(t)
	if err := os.Chmod(key, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		flags []string
		want  string // "": no warning
	}{
		{[]string{"--listen.tls.mode=optional", "--listen.tls.cert_file=" + certificate, "--listen.tls.key_file=" + key}, "can be read by others than its owner"},
		{[]string{"--listen.tls.mode=optional"}, ""},
		{[]string{"--listen.tls.mode=optional", "--backend.address=db:3306"}, "goes on to db:3306 without it"},
		{[]string{"--backend.tls.mode=required", "--backend.address=db:3306"}, "does not verify"},
		{[]string{"--backend.tls.mode=required", "--backend.address=localhost:3306"}, ""},
		{[]string{"--backend.tls.mode=verify-ca", "--backend.address=db:3306"}, ""},
	} {
		c, err := load(t, "", nil, test.flags...)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(c.Warnings(), "\n")
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q", test.flags, got)
		}
	}
}
