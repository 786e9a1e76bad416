package server

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// writeScripts makes a folder of shell scripts.
func writeScripts(t *testing.T, dir string, scripts map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServerPrograms(t *testing.T) {
	dir := t.TempDir()
	writeScripts(t, dir, map[string]string{"mariadbd": ""})
	if err := os.Symlink("mariadbd", dir+"/mysqld"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	found := serverPrograms()
	if len(found) == 0 || found[0] != dir+"/mysqld" {
		t.Fatalf("found %q, want the one in PATH first", found)
	}
	for _, program := range found[1:] {
		if strings.HasPrefix(program, dir) {
			t.Errorf("%s is the same program", program)
		}
	}
}

func TestQuote(t *testing.T) {
	words := []string{"/opt/my sql/mysqld", "it's", `$HOME"\`}
	out, err := exec.Command("sh", "-c", "printf '%s\n' "+quote(words...)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(words, "\n") + "\n"; string(out) != want {
		t.Errorf("sh reads %q, want %q", out, want)
	}
}

// TestInstalledUseless has programs that no server comes from: what is wrong with them must be said.
func TestInstalledUseless(t *testing.T) {
	for _, test := range []struct {
		name    string
		scripts map[string]string
		want    string
	}{
		{"no version", map[string]string{"mysqld": "exit 3"}, "exit status 3"},
		{"no installer", map[string]string{"mysqld": "echo 10.11.9-MariaDB"}, "no mariadb-install-db"},
		{"initialize fails", map[string]string{"mysqld": "echo 8.0.36; [ $# = 2 ] || exit 4"}, "8.0.36"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bin := filepath.Join(t.TempDir(), "bin")
			writeScripts(t, bin, test.scripts)
			t.Setenv("PATH", "/bin")
			s, err := startInstalled(context.Background(), filepath.Join(bin, "mysqld"), t.TempDir(), nil)
			if err == nil {
				t.Fatal(s.Stop())
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q, want one with %q", err, test.want)
			}
		})
	}
}
