package main

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// kept returns a certificate of the proxy's own that is kept in dir, at a time that the test changes, and its log.
func kept(dir string, now *time.Time) (*ownCertificate, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	return newSelfMade(dir, zap.New(core), func() time.Time { return *now }).ecdsa, logs
}

// shown is what clients get.
func shown(t *testing.T, s *ownCertificate) *x509.Certificate {
	t.Helper()
	pair, err := s.certificate()
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestSelfMadeIsKept(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "made", "here"), time.Now()
	first, _ := kept(dir, &now)
	made := shown(t, first)
	again, logs := kept(dir, &now)
	if !shown(t, again).Equal(made) || !shown(t, first).Equal(made) || logs.Len() != 0 {
		t.Errorf("it is another one after a restart: %v", logs.All())
	}
	for name, mode := range map[string]os.FileMode{".": os.ModeDir | 0o700, ecdsaFile: 0o600, certificatesFile: 0o644} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("in the directory: %v, %v", entries, err)
	}
	// A client that has the public file needs no more.
	text, err := os.ReadFile(filepath.Join(dir, certificatesFile))
	if err != nil || bytes.Contains(text, []byte("KEY")) {
		t.Fatalf("%s, %v", text, err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
		if _, err := made.Verify(x509.VerifyOptions{Roots: pool, DNSName: host}); err != nil {
			t.Errorf("as %s: %v", host, err)
		}
	}

	apart, _ := kept("", &now)
	if other := shown(t, apart); other.Equal(made) || !shown(t, apart).Equal(other) {
		t.Error("without a directory it is not one for each process")
	}
}

// TestSelfMadeTogether starts several processes at once.
func TestSelfMadeTogether(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	var certificates [8]*x509.Certificate
	var starting sync.WaitGroup
	for i := range certificates {
		starting.Go(func() {
			s, _ := kept(dir, &now)
			if pair, err := s.certificate(); err != nil {
				t.Error(err)
			} else {
				certificates[i] = pair.Leaf
			}
		})
	}
	starting.Wait()
	for _, c := range certificates {
		if c == nil || !c.Equal(certificates[0]) {
			t.Fatal("not all have the same")
		}
	}
}

func TestSelfMadeIsReplaced(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		now := time.Now()
		s, logs := kept(dir, &now)
		beside, _ := kept(dir, &now)
		made := shown(t, s)
		shown(t, beside)
		if year := made.NotAfter.Year() - now.Year(); year != 10 {
			t.Errorf("it is good for %d years", year)
		}
		now = made.NotAfter.Add(-31 * 24 * time.Hour)
		if !shown(t, s).Equal(made) {
			t.Error("it was replaced too early")
		}
		now = made.NotAfter.Add(-29 * 24 * time.Hour)
		next := shown(t, s)
		if next.Equal(made) || !now.Before(next.NotAfter.AddDate(-9, 0, 0)) || !shown(t, s).Equal(next) {
			t.Errorf("it was not replaced: %v", next.NotAfter)
		}
		if dir == "" {
			continue
		}
		if !shown(t, beside).Equal(next) {
			t.Error("another process does not take the one that there is")
		}
		if restarted, _ := kept(dir, &now); !shown(t, restarted).Equal(next) {
			t.Error("it was not stored")
		}
		if n := logs.FilterMessage("a certificate was made").Len(); n != 2 {
			t.Errorf("the log: %v", logs.All())
		}
	}
}

// TestSelfMadeCannotBeStored has a file in the directory's place.
func TestSelfMadeCannotBeStored(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "dir"), time.Now()
	s, logs := kept(dir, &now)
	made := shown(t, s)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "")
	now = made.NotAfter.Add(-time.Hour)
	for range 3 { // the old one, and one complaint an hour
		if !shown(t, s).Equal(made) {
			t.Error("it is not the old one")
		}
	}
	if n := logs.FilterMessage("the proxy's own certificate cannot be replaced").Len(); n != 1 {
		t.Errorf("the log: %v", logs.All())
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	if shown(t, s).Equal(made) {
		t.Error("it is not tried again")
	}

	writeFile(t, filepath.Join(dir, ecdsaFile), "not a key")
	for _, broken := range []string{dir, filepath.Join(dir, ecdsaFile)} { // a file that is none of the proxy's, and no directory
		started, _ := kept(broken, &now)
		if _, err := started.certificate(); err == nil || !strings.Contains(err.Error(), "listen.tls.dir: ") {
			t.Errorf("%s: %v", broken, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, ecdsaFile)); string(text) != "not a key" {
		t.Errorf("it was overwritten: %s, %v", text, err)
	}
}

// TestServeKeepsItsCertificate starts the process twice, and check, which changes nothing.
func TestServeKeepsItsCertificate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	backend := startBackend(t).address()
	args := []string{"--backend.address=" + backend, "--listen.tls.mode=optional", "--listen.tls.dir=" + dir}
	if code, out, stderr := told(t, append([]string{"check"}, args...)...); code != 0 {
		t.Errorf("check: %d\n%s%s", code, out, stderr)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("check has made it: %v", err)
	}
	files := func() (all []byte) {
		for _, name := range []string{ecdsaFile, rsaFile, certificatesFile} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		return all
	}
	serve(t, nil, args...)
	first := files()
	if n := bytes.Count(first, []byte("BEGIN CERTIFICATE")); n != 4 {
		t.Errorf("%d certificates", n)
	}
	serve(t, nil, args...)
	if !bytes.Equal(first, files()) {
		t.Error("they are others after a restart")
	}
}
