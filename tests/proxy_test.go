//go:build realserver

package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

// drivers are what relay.driver may be.
var drivers = []string{"loop", "pump"}

// eachKind runs a test on MySQL and on MariaDB, side by side.
func eachKind(t *testing.T, test func(t *testing.T, kind server.Kind)) {
	t.Helper()
	for _, kind := range []server.Kind{server.MySQL, server.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// own starts a server for one test, which may do with it what it likes.
func own(t testing.TB, kind server.Kind, args ...string) *server.Server {
	t.Helper()
	s, err := server.Start(context.Background(), kind, server.Options{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// startProxy runs tmpproxy in front of backend for the length of a test.
func startProxy(t testing.TB, backend string, settings ...string) *process.Process {
	t.Helper()
	p, err := process.Start(context.Background(), backend, settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("tmpproxy printed:\n%s", p.Log())
		}
	})
	return p
}

// execute runs statements directly on the server.
func executeDirectly(t testing.TB, s *server.Server, statements ...string) {
	t.Helper()
	if err := s.Exec(context.Background(), statements...); err != nil {
		t.Fatal(err)
	}
}

// database makes an empty database for one test.
func database(t testing.TB, s *server.Server, name string) {
	t.Helper()
	executeDirectly(t, s, "DROP DATABASE IF EXISTS "+name, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	t.Cleanup(func() {
		if err := s.Exec(context.Background(), "DROP DATABASE IF EXISTS "+name); err != nil {
			t.Error(err)
		}
	})
}

// configure returns how a client of the server's account connects to address with a schema.
func configure(s *server.Server, address, schema string) rawclient.Config {
	user, password := s.Account()
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	return rawclient.Config{Network: network, Address: address, User: user, Password: password, Database: schema}
}

// connect opens a connection that ends with the test.
func connect(t testing.TB, config rawclient.Config) *rawclient.Conn {
	t.Helper()
	c, err := rawclient.Connect(config)
	if err != nil {
		t.Fatalf("connect to %s: %v", config.Address, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// must runs a statement that succeeds.
func must(t testing.TB, c *rawclient.Conn, text string) rawclient.Reply {
	t.Helper()
	reply, err := c.Query(text)
	if err == nil {
		err = reply.AsError()
	}
	if err != nil {
		t.Fatalf("%.100s: %v", text, err)
	}
	return reply
}

// value runs a query and returns the first column of its first row as text; NULL is "NULL".
func value(t testing.TB, c *rawclient.Conn, text string) string {
	t.Helper()
	reply := must(t, c, text)
	if len(reply.Results) == 0 || len(reply.Results[0].Rows) == 0 {
		t.Fatalf("%.100s: no row", text)
	}
	row, err := rawclient.TextRow(reply.Results[0].Rows[0])
	if err != nil {
		t.Fatalf("%.100s: %v", text, err)
	}
	if row[0] == nil {
		return "NULL"
	}
	return string(row[0])
}

// told is an answer in a few words: what a client sees of a query, an error or the connection's end.
func told(reply rawclient.Reply, err error) string {
	refusal := (*rawclient.ServerError)(nil)
	switch {
	case errors.As(err, &refusal):
		return refusal.Error()
	case rawclient.IsLost(err):
		return "the connection has ended"
	case err != nil:
		return "failure: " + err.Error()
	}
	if err := reply.AsError(); err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, turn := range reply.Turns {
		fmt.Fprintf(&b, "%s, ", turn)
	}
	for _, result := range reply.Results {
		for _, row := range result.Rows {
			values, _ := rawclient.TextRow(row)
			fmt.Fprintf(&b, "%q ", values)
		}
	}
	status, _ := reply.Status()
	fmt.Fprintf(&b, "OK, status %#04x", status)
	return b.String()
}

// ask is told of a query.
func ask(c *rawclient.Conn, text string) string { return told(c.Query(text)) }

// ending reads what the server says without being asked until the connection ends.
func ending(c *rawclient.Conn) string {
	var said []string
	for {
		reply, err := c.ReceiveQuery()
		said = append(said, told(reply, err))
		if err != nil {
			return strings.Join(said, ", then ")
		}
	}
}

// sameReply compares all that a client can see in two replies.
func sameReply(t testing.TB, what string, direct, proxied rawclient.Reply, binary bool) {
	t.Helper()
	want, got := direct.Fields(binary), proxied.Fields(binary)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			t.Errorf("%s: directly %.200v, through the proxy nothing", what, want[i])
		case i >= len(want):
			t.Errorf("%s: through the proxy %.200v, directly nothing", what, got[i])
		case want[i] != got[i]:
			t.Errorf("%s: directly %.200v, through the proxy %.200v", what, want[i], got[i])
		default:
			continue
		}
		return
	}
}

// sameLines compares what was told directly and through the proxy, line by line.
func sameLines(t testing.TB, direct, proxied []string) {
	t.Helper()
	if slices.Equal(direct, proxied) {
		return
	}
	most := 3 // the rest mostly follows from the first
	for i := range max(len(direct), len(proxied)) {
		d, p := "(nothing)", "(nothing)"
		if i < len(direct) {
			d = direct[i]
		}
		if i < len(proxied) {
			p = proxied[i]
		}
		if d != p && most > 0 {
			most--
			t.Errorf("line %d\ndirectly          %s\nthrough the proxy %s", i+1, around(d, p), around(p, d))
		}
	}
}

// around is the part of a long line in which another one differs.
func around(line, other string) string {
	const before, most = 300, 600
	if len(line) <= most {
		return line
	}
	at := 0
	for at < min(len(line), len(other)) && line[at] == other[at] {
		at++
	}
	start := max(0, at-before)
	return fmt.Sprintf("%.80s … %s …", line, line[start:min(len(line), start+most)])
}

// sessionInfo is what the proxy's page /api/sessions says of a session.
type sessionInfo struct {
	ThreadID uint32 `json:"thread_id"`
	Live     int    `json:"live"`
	Parked   int    `json:"parked"`
	Raw      bool   `json:"raw"`
	LoggedIn bool   `json:"logged_in"`
}

// sessions are the proxy's by the thread ids that their clients see.
func sessions(t testing.TB, p *process.Process) map[uint32]sessionInfo {
	t.Helper()
	page, err := p.Get("/api/sessions")
	if err != nil {
		t.Fatal(err)
	}
	var list []sessionInfo
	if err := json.Unmarshal([]byte(page), &list); err != nil {
		t.Fatal(err)
	}
	byThread := map[uint32]sessionInfo{}
	for _, s := range list {
		if s.LoggedIn {
			byThread[s.ThreadID] = s
		}
	}
	return byThread
}

const patience = 20 * time.Second

// await waits until something that happens on its own has happened.
func await(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !happened(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
