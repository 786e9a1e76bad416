package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tmpproxy/wire"
)

func TestKeepPrivate(t *testing.T) {
	defer unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	if err := keepPrivate(); err != nil {
		t.Fatal(err)
	}
	if dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || dumpable != 0 {
		t.Errorf("dumpable: %d, %v", dumpable, err)
	}
}

// TestServeKeepsSecrets gives a proxy every secret that it can have, makes it talk as much as it can, and looks for them in all that it
// shows: the log, every page, its command line and environment, the slow log.
func TestServeKeepsSecrets(t *testing.T) {
	const (
		token    = "token-0123456789abcdef"
		password = "monitor-0123456789abcdef"
		scramble = "scrambled-0123456789" // what a login sends in place of a password
		value    = "value-0123456789abcdef"
		wrong    = "wrong-token-0123456789"
		header   = "header-0123456789abcdef"
	)
	dir := t.TempDir()
	file, tokens, passwords := filepath.Join(dir, "proxy.yaml"), filepath.Join(dir, "token"), filepath.Join(dir, "password")
	slow := filepath.Join(dir, "slow.log")
	writeToken(t, tokens, token)
	writeToken(t, passwords, password)
	headers := filepath.Join(dir, "headers")
	writeToken(t, headers, "Authorization: Bearer "+header)
	certificate, key, keyText := writeCertificate(t, dir)
	settings := "listen: {tls: {mode: optional, cert_file: " + certificate + ", key_file: " + key + "}}\nadmin: {token_file: " + tokens + ", pprof: true}\nlog: {level: debug}\nslow_log: {file: " + slow + ", threshold: 0s}\n" +
		"backend: {monitor: {user: watch, password_file: " + passwords + "}}\nrewrite: {routines: scan}\n"
	writeFile(t, file, settings)
	s := serve(t, nil, "--config", file, "--backend.address="+startBackend(t).address())

	// A client's life, with a login that carries something, and one that breaks off.
	conn, err := net.Dial("tcp", s.listen[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	c := &client{t, conn}
	c.read()
	login := binary.LittleEndian.AppendUint32(nil, uint32(testCapabilities))
	login = append(login, 0, 0, 0, 1, 45)
	login = append(login, make([]byte, 23)...)
	login = append(login, "somebody\x00\x14"+scramble+"mysql_native_password\x00"...)
	c.write(framed(1, login))
	c.ok()
	for _, text := range []string{
		"SELECT '" + value + "'", "SET PASSWORD = '" + value + "'", "CREATE USER u IDENTIFIED BY '" + value + "'", "/* " + value + " */ DO 1",
		"UPDATE t SET a = \"" + value + "\"", "SELECT '" + value, // not closed
	} {
		c.query(text)
	}
	c.write(framed(0, append([]byte{byte(wire.ComChangeUser)}, "other\x00\x14"+scramble+"\x00\x2d\x00mysql_native_password\x00"...)))
	holds(t, slow, "UPDATE t SET a = ?;\n")

	if status, _ := s.postReload(wrong); status != 401 {
		t.Errorf("with a wrong token: %d", status)
	}
	if code, _, _ := told(t, "switch", "native", "--admin.address="+s.admin, "--admin.token_file="+tokens); code != 0 {
		t.Errorf("switch: %d", code)
	}
	writeFile(t, tokens, "short")
	s.signal(syscall.SIGHUP)
	s.await("settings not reloaded: the old ones stay in force")
	writeToken(t, tokens, token)
	if status, body := s.postReload(token); status != 200 {
		t.Errorf("reload: %d %s", status, body)
	}

	secrets := append([]string{token, password, scramble, value, wrong, header}, strings.Fields(keyText)...)
	look := func(where, text string) {
		t.Helper()
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %s:\n%.2000s", where, secret, text)
			}
		}
	}
	pages := []string{"/metrics", "/healthz", "/readyz", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1"}
	for _, page := range []string{"sessions", "shapes", "advice", "version", "trial", "trial/export", "record", "status", "config"} {
		pages = append(pages, "/api/"+page)
	}
	for _, page := range pages {
		status, text := s.get(page)
		if status != 200 && status != 503 {
			t.Errorf("%s: %d", page, status)
		}
		look(page, text)
	}
	for _, name := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.process.Process.Pid, name))
		if err != nil && os.Geteuid() == 0 { // nobody else may read the latter
			t.Error(err)
		}
		look(name, string(text))
	}
	s.signal(syscall.SIGTERM)
	records := 0
	for line := range s.lines {
		records++
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		look("the log", string(text))
	}
	if records == 0 {
		t.Error("no log to look at")
	}
	s.exit()
	text, err := os.ReadFile(slow)
	if err != nil {
		t.Fatal(err)
	}
	look("the slow log", string(text))
	http.DefaultClient.CloseIdleConnections()
}

// writeCertificate makes a certificate and its key, and returns their files and what is in the latter.
func writeCertificate(t *testing.T, dir string) (certificate, key, text string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"proxy.example"}}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(dir, "certificate.pem"), filepath.Join(dir, "key.pem")
	writeFile(t, certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public})))
	writeFile(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	return certificate, key, base64.StdEncoding.EncodeToString(secret)[:64]
}
