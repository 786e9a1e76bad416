package proxy

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
)

func TestUnixSocketFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }

	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path("stale"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	answered, err := net.Listen("unix", path("answered"))
	if err != nil {
		t.Fatal(err)
	}
	defer answered.Close()
	if err := os.WriteFile(path("file"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path("file"), path("link")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		ok   bool
	}{
		{"new", true},
		{"stale", true},
		{"answered", false},
		{"file", false},
		{"link", false},
		{"missing/directory", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l, err := listen(path(test.name))
			if (err == nil) != test.ok {
				t.Fatalf("listen: %v", err)
			}
			if err == nil {
				l.Close()
				if _, err := os.Lstat(path(test.name)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the file is left: %v", err)
				}
			}
		})
	}
	if b, err := os.ReadFile(path("file")); err != nil || string(b) != "precious" {
		t.Errorf("the file that is no socket: %q, %v", b, err)
	}
	if conn, err := net.Dial("unix", path("answered")); err != nil {
		t.Errorf("the other process's socket: %v", err)
	} else {
		conn.Close()
	}
}

func TestListenBindsAllOrNothing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free := filepath.Join(t.TempDir(), "s")
	s, err := NewServer(zap.NewNop(), Options{Listen: []string{free, taken.Addr().String()}, Backends: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err == nil {
		t.Fatal("an address that is taken was bound")
	}
	if _, err := os.Lstat(free); !errors.Is(err, os.ErrNotExist) || len(s.Addresses()) != 0 {
		t.Errorf("something stays bound: %v, %v", err, s.Addresses())
	}
}
