//go:build realserver

package dashboard

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

// client is a session through a running proxy, which makes temporary tables again and again.
type client struct {
	t    *testing.T
	conn *rawclient.Conn
}

func (c client) must(text string) {
	c.t.Helper()
	reply, err := c.conn.Query(text)
	if err == nil {
		err = reply.AsError()
	}
	if err != nil {
		c.t.Fatalf("%s: %v", text, err)
	}
}

func (c client) cycles(n int) {
	c.t.Helper()
	for range n {
		c.must("CREATE TEMPORARY TABLE shown (id INT PRIMARY KEY, dashboard INT) ENGINE=MEMORY")
		c.must("INSERT INTO shown VALUES (1, 1)")
		c.must("DROP TEMPORARY TABLE shown")
	}
}

// startProxy runs tmpproxy in front of a server, with the token.
func startProxy(t *testing.T, s *server.Server, settings ...string) *process.Process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(context.Background(), s.Address, append(settings, "TMPPROXY_ADMIN_TOKEN_FILE="+file)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func connect(t *testing.T, s *server.Server, p *process.Process) client {
	t.Helper()
	user, password := s.Account()
	conn, err := rawclient.Connect(rawclient.Config{Network: "tcp", Address: p.Address, User: user, Password: password, Database: "dashboard"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client{t, conn}
}

func shared(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.Shared(context.Background(), server.MySQL)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"DROP DATABASE IF EXISTS dashboard", "CREATE DATABASE dashboard"} {
		if _, err := s.DB().Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestProxy looks at a running proxy: its figures grow with what a client does, and the switch reaches the client's next cycle.
func TestProxy(t *testing.T) {
	s := shared(t)
	p := startProxy(t, s)
	b := open(t, p.Admin, "", desk)
	b.says("#sessions", "0")
	b.until("no table", `!document.querySelector("#tables-empty").hidden`)
	c := connect(t, s, p)
	c.cycles(10)
	b.says("#sessions", "1")
	b.says("#reuses", "8 of 10 cycles")
	b.says("#tables", "dashboard INT")
	b.says(`#tables td[data-label="Reused"]`, "80 %")
	b.says(`#tables td[data-label="Time saved"]`, "s *") // whatever it came to here
	if got := ask[string](b, `document.querySelector("#saved").innerText`); got == "–" {
		t.Error("no time saved in all")
	}

	b.click("#switch")
	b.until("the field", `document.activeElement.id === "token"`)
	b.press(token + enter)
	b.switched("native")
	c.cycles(5)
	b.visit("sessions-page")
	b.says("#sessions-summary", "1 session: 1 as in force. 0 temporary tables live, 0 parked.")
	b.says("#reuses", "8 of 10 cycles") // native ones are not taken part in
	b.click("#switch")
	b.switched("innodb")
	c.cycles(5)
	b.says("#sessions-summary", "1 parked.")
	b.until("more cycles", fmt.Sprintf(`document.querySelector("#reuses").innerText.endsWith(%q)`, "of 15 cycles"))
}

// TestProxyTrial runs a trial on a running proxy from its page: sessions are treated by arm, their cycles are shown, the switch to
// native holds for all of them, and the trial ends when it is told to.
func TestProxyTrial(t *testing.T) {
	s := shared(t)
	p := startProxy(t, s)
	b := open(t, p.Admin, "#trial", desk)
	b.says("#trial-summary", "No trial is running.")
	b.fill("#trial-name", "live")
	b.click("#trial-start button[type=submit]")
	b.until("the field", `document.activeElement.id === "token"`)
	b.press(token + enter)
	b.says("#trial-summary", "live has been running since")
	b.says("#strategy-note", "trial live is running")

	// Which session is in which arm is a matter of chance: there are sessions until each arm has one.
	arms := `[...document.querySelectorAll('#trial table:last-of-type tbody td[data-label="Sessions"]')].map(td => Number(td.innerText))`
	var clients []client
	for len(clients) < 60 && !ask[bool](b, arms+`.length === 3 && `+arms+`.every(n => n > 0)`) {
		c := connect(t, s, p)
		c.cycles(4)
		clients = append(clients, c)
		b.until("the session", arms+fmt.Sprintf(`.reduce((a, n) => a + n, 0) === %d`, len(clients)))
	}
	b.until("cycles of each arm", `[...document.querySelectorAll('#trial table:last-of-type tbody td[data-label="Cycles"]')].every(td => Number(td.innerText) > 0)`)
	b.until("the distribution", `document.querySelectorAll("#trial .plot canvas").length > 0`)
	b.until("the table", `document.querySelector("#trial-shape").innerText.includes("dashboard INT")`)
	b.visit("sessions-page")
	for _, arm := range []string{"native", "innodb", "keep"} {
		b.says("#sessions-summary", "in arm "+arm)
	}

	b.click("#switch")
	b.switched("native")
	for _, c := range clients {
		c.cycles(2)
	}
	b.says("#sessions-summary", "0 temporary tables live, 0 parked.")
	b.visit("trial")
	b.says("#trial .fault", "all sessions are left alone")
	b.says("#strategy-note", "trial live waits")
	b.click("#switch")
	b.switched("innodb")

	b.click("#trial-stop")
	b.until("the question", `document.querySelector("#confirm-dialog").open`)
	b.click("#confirm-ok")
	b.says("#trial-summary", "live was stopped at")
	b.until("no trial above", `!document.querySelector("#strategy-note").innerText.includes("trial")`)
	b.visit("sessions-page")
	b.says("#sessions-summary", "as in force")
}

// TestProxyAdvice watches a proxy that only observes.
func TestProxyAdvice(t *testing.T) {
	s := shared(t)
	p := startProxy(t, s, "TMPPROXY_REWRITE_STRATEGY=observe")
	b := open(t, p.Admin, "#advice", desk)
	b.switched("observe")
	c := connect(t, s, p)
	c.cycles(30)
	b.says("#advice", "Observing 1 session")
	b.says("#advice article .full", "dashboard INT")
	b.until("a sentence", `document.querySelector("#advice article .words").innerText.length > 20`)
	b.click("#advice article summary")
	b.says("#advice article .facts", "Cycles per session")
	b.says("#advice article .facts", "30.0")
	b.picture("advice-live")
}
