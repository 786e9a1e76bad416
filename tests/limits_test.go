//go:build realserver

package tests

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
)

// counter is a counter of the server's.
func counter(t testing.TB, s *server.Server, name string) (n int) {
	t.Helper()
	var as string
	if err := s.DB().QueryRow("SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&as, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMaxUserSessions has more sessions of a user than it may have, counted by a server itself and by the proxy: the client is told the
// same, but for where it is set.
func TestMaxUserSessions(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		limiting, s := own(t, kind, "--max-user-connections=2"), shared(t, kind)
		users := []string{"CREATE USER limit_a IDENTIFIED BY 'secret'", "CREATE USER limit_b IDENTIFIED BY 'secret'"}
		executeDirectly(t, limiting, users...)
		executeDirectly(t, s, append([]string{"DROP USER IF EXISTS limit_a, limit_b"}, users...)...)
		t.Cleanup(func() { executeDirectly(t, s, "DROP USER limit_a, limit_b") })
		as := func(address, user, password string, secure bool) rawclient.Config {
			c := rawclient.Config{Network: "tcp", Address: address, User: user, Password: password}
			if secure {
				c.TLS = &tls.Config{InsecureSkipVerify: true} // the proxy makes its certificate itself
			}
			return c
		}
		refusal := func(config rawclient.Config) string {
			t.Helper()
			c, err := rawclient.Connect(config)
			if err == nil {
				c.Close()
				return "let in"
			}
			refusal := (*rawclient.ServerError)(nil)
			if !errors.As(err, &refusal) {
				t.Fatal(err)
			}
			return refusal.Error()
		}
		const place = " (limits.max_user_sessions of tmpproxy)"
		for range 2 {
			connect(t, as(limiting.Address, "limit_a", "secret", false))
		}
		full, wrong := refusal(as(limiting.Address, "limit_a", "secret", false)), refusal(as(limiting.Address, "limit_a", "nonsense", false))
		if !strings.HasPrefix(full, "ERR 1203 (42000): ") || !strings.HasPrefix(wrong, "ERR 1045 ") {
			t.Fatalf("directly: %s and %s", full, wrong)
		}
		for _, d := range drivers {
			for _, secure := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, TLS %v", d, secure), func(t *testing.T) {
					file := filepath.Join(t.TempDir(), "config.yaml")
					write := func(limit int) {
						if err := os.WriteFile(file, fmt.Appendf(nil, "limits: {max_user_sessions: %d}\nlisten: {tls: {mode: optional}}\n", limit), 0o600); err != nil {
							t.Fatal(err)
						}
					}
					write(2)
					p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_CONFIG="+file)
					config := as(p.Address, "limit_a", "secret", secure)
					first, second := connect(t, config), connect(t, config)
					other := connect(t, as(p.Address, "limit_b", "secret", secure))
					aborted := counter(t, s, "Aborted_clients")
					if got := refusal(config); got != full+place {
						t.Errorf("full: %s, directly %s", got, full)
					}
					if got := refusal(as(p.Address, "limit_a", "nonsense", secure)); got != wrong {
						t.Errorf("full and a wrong password: %s, directly %s", got, wrong)
					}
					if got := told(other.ChangeUser("limit_a", "secret", "")); got != full+place {
						t.Errorf("change to a user who is full: %s", got)
					}
					if got := ending(other); got != "the connection has ended" {
						t.Errorf("behind it: %s", got)
					}
					if n := counter(t, s, "Aborted_clients"); n != aborted {
						t.Errorf("the server counts %d aborted clients", n-aborted)
					}
					if page, err := p.Get("/metrics"); err != nil || !strings.Contains(page, `tmpproxy_refused_clients_total{reason="max_user_sessions"} 2`) {
						t.Errorf("metrics: %v\n%s", err, page)
					}
					must(t, second, "DO 1")
					if err := first.Quit(); err != nil {
						t.Fatal(err)
					}
					await(t, "there is room", func() bool { return len(sessions(t, p)) == 1 })
					third := connect(t, config)
					write(3)
					if err := p.Signal(syscall.SIGHUP); err != nil {
						t.Fatal(err)
					}
					await(t, "settings reloaded", func() bool { return strings.Contains(p.Log(), "settings reloaded") })
					fourth := connect(t, config)
					if got := refusal(config); got != full+place {
						t.Errorf("full again: %s", got)
					}
					for _, c := range []*rawclient.Conn{second, third, fourth} {
						must(t, c, "DO 1")
					}
				})
			}
		}
	})
}
