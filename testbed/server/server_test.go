//go:build realserver

package server

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestLife takes a server of every kind through its life.
func TestLife(t *testing.T) {
	for kind, version := range map[Kind]string{MySQL: "9.", MariaDB: "10.11.", MariaDB118: "11.8.", MariaDB105: "10.5."} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			s, err := Start(ctx, kind, Options{Args: []string{"--max-connections=77"}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				pid := s.PID()
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
				if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
					t.Errorf("process %d after Stop: %v", pid, err)
				}
				if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
					t.Errorf("directory after Stop: %v", err)
				}
			})
			got, err := s.Version(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(got, version) {
				t.Errorf("version %s, want %s…", got, version)
			}
			var connections int
			if err := s.DB().QueryRow("SELECT @@max_connections").Scan(&connections); err != nil || connections != 77 {
				t.Errorf("max_connections = %d, %v; want the given option to win", connections, err)
			}
			// What was committed survives an orderly end, and the server is the same one for its clients.
			if err := s.Exec(ctx, "CREATE DATABASE kept", "CREATE TABLE kept.t (a INT)", "INSERT INTO kept.t VALUES (42)"); err != nil {
				t.Fatal(err)
			}
			address := s.Address
			if err := s.Restart(ctx); err != nil {
				t.Fatal(err)
			}
			if s.Address != address {
				t.Errorf("address changed from %s to %s", address, s.Address)
			}
			var a int
			if err := s.DB().QueryRow("SELECT a FROM kept.t").Scan(&a); err != nil || a != 42 {
				t.Errorf("after Restart: %d, %v", a, err)
			}
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := s.DB().Ping(); err == nil {
				t.Error("a killed server answers")
			}
			if err := s.Restart(ctx); err != nil {
				t.Fatalf("after Kill: %v", err)
			}
			if err := s.Exec(ctx, "SELECT 1"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStartError shows the server's own words when it does not start.
func TestStartError(t *testing.T) {
	_, err := Start(context.Background(), MariaDB, Options{Args: []string{"--no-such-option"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("got %v, want the server's complaint about no-such-option", err)
	}
}

// TestForeign uses a server as if it were the user's own.
func TestForeign(t *testing.T) {
	ctx := context.Background()
	s, err := Start(ctx, MariaDB, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	t.Setenv("TMPPROXY_TEST_MARIADB", s.Config("").FormatDSN())
	f, err := Shared(ctx, MariaDB)
	if err != nil {
		t.Fatal(err)
	}
	if f.Address != s.Address {
		t.Errorf("address %s, want %s", f.Address, s.Address)
	}
	if err := f.Kill(); err != errForeign {
		t.Errorf("Kill: %v", err)
	}
	if err := StopShared(); err != nil {
		t.Fatal(err)
	}
	if err := s.Exec(ctx, "SELECT 1"); err != nil {
		t.Errorf("the user's server after StopShared: %v", err)
	}
}
