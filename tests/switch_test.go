//go:build realserver

package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

const adminToken = "a-token-for-the-tests"

// tokenFile makes a file for admin.token_file.
func tokenFile(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(adminToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// post asks the proxy to change something, with the token.
func post(t testing.TB, p *process.Process, path, body string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, "http://"+p.Admin+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+adminToken)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// proxyStatus is what is asked of /api/status here.
type proxyStatus struct {
	Sessions int
	Strategy struct {
		Configured, InForce string
		Switched            bool
	}
	Totals struct{ Cycles, Reuses int64 }
}

func statusOf(t testing.TB, p *process.Process) (s proxyStatus) {
	t.Helper()
	text, err := p.Get("/api/status")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "in_force", "inforce")), &s); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return s
}

// TestSwitch switches all sessions to native and back by a request: every next cycle reaches the server, a cycle that is under way
// ends as it would, no session ends, and a reload does not undo it.
func TestSwitch(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "switched")
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_ADMIN_TOKEN_FILE="+tokenFile(t))
				change := func(strategy string) {
					t.Helper()
					if status, answer := post(t, p, "/api/strategy", fmt.Sprintf(`{"strategy": %q}`, strategy)); status != http.StatusOK {
						t.Fatalf("switch to %s: %d %s", strategy, status, answer)
					}
				}
				h := habit{cycle: []string{create, insert, "SHOW", drop}, engines: toInnoDB}
				var clients []*rawclient.Conn
				for range 3 {
					clients = append(clients, connect(t, configure(s, p.Address, "switched")))
				}
				// sent is what the last of some cycles of each session sends.
				sent := func(strategy string, cycles int) (list []int) {
					t.Helper()
					for i, c := range clients {
						creates, drops := 0, 0
						for range cycles {
							creates, drops = h.live(t, c, fmt.Sprint("t", i), strategy)
						}
						list = append(list, creates+drops)
					}
					return list
				}
				if got := sent("innodb", 3); fmt.Sprint(got) != "[0 0 0]" {
					t.Errorf("statements of a cached cycle were sent: %v", got)
				}
				if got := statusOf(t, p); got.Sessions != 3 || got.Strategy.InForce != "innodb" || got.Totals.Cycles != 9 || got.Totals.Reuses == 0 {
					t.Errorf("before: %+v", got)
				}
				busy := connect(t, configure(s, p.Address, "switched"))
				must(t, busy, strings.ReplaceAll(create, "$t", "used"))
				must(t, busy, "INSERT INTO used VALUES (1, 1)")

				change("native")
				if got := value(t, busy, "SELECT COUNT(*) FROM used"); got != "1" {
					t.Errorf("%s rows in the table that was in use", got)
				}
				must(t, busy, "DROP TEMPORARY TABLE used")
				// The first cycle also gives back what was parked.
				for i, c := range clients {
					if creates, drops := h.live(t, c, fmt.Sprint("t", i), "native"); creates != 1 || drops < 1 {
						t.Errorf("session %d: the next cycle sent %d CREATEs and %d DROPs", i, creates, drops)
					}
				}
				if got := sent("native", 1); fmt.Sprint(got) != "[2 2 2]" {
					t.Errorf("statements of native cycles: %v", got)
				}
				if got := statusOf(t, p); got.Sessions != 4 || got.Strategy.InForce != "native" || got.Strategy.Configured != "innodb" || !got.Strategy.Switched {
					t.Errorf("switched: %+v", got)
				}

				const sign = "the strategy stays native"
				if err := p.Signal(syscall.SIGHUP); err != nil {
					t.Fatal(err)
				}
				await(t, sign, func() bool { return strings.Contains(p.Log(), sign) })
				if got := sent("native", 1); fmt.Sprint(got) != "[2 2 2]" {
					t.Errorf("after a reload, statements of native cycles: %v", got)
				}

				change("configured")
				if got := sent("innodb", 3); fmt.Sprint(got) != "[0 0 0]" {
					t.Errorf("statements of a cached cycle were sent after the switch back: %v", got)
				}
				if got := statusOf(t, p); got.Strategy.Switched || got.Strategy.InForce != "innodb" {
					t.Errorf("switched back: %+v", got)
				}
				for _, c := range append(clients, busy) { // all of them from the beginning
					if err := c.Quit(); err != nil {
						t.Error(err)
					}
				}
				if strings.Contains(p.Log(), adminToken) {
					t.Error("the token is in the log")
				}
			})
		}
	})
}
