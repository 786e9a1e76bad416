package proxy

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tmpproxy/wire"
)

// scripted is a server that greets, lets everybody in, and answers queries from a list.
type scripted struct {
	listener net.Listener
	version  string
	refuse   *wire.Err // instead of the answer to a login
	silent   bool      // never says a word
	answers  map[string][][]string

	mu      sync.Mutex
	queries []string
}

// null is how a NULL is written in a scripted row.
const null = "\x00NULL"

func startScripted(t *testing.T, s *scripted) *Monitor {
	t.Helper()
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if s.version == "" {
		s.version = "9.7.4"
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() { s.listener.Close(); running.Wait() })
	return &Monitor{Address: s.listener.Addr().String(), User: "watch", Password: "secret", Timeout: 10 * time.Second}
}

func (s *scripted) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	if s.silent {
		io.Copy(io.Discard, r) // until the other side leaves
		return
	}
	conn.Write(framed(0, s.greeting()))
	if _, err := readPacket(r, nil); err != nil {
		return
	}
	if s.refuse != nil {
		conn.Write(wire.AppendErr(nil, 2, wire.ClientProtocol41, *s.refuse))
		return
	}
	conn.Write(wire.AppendOK(nil, 2, wire.ClientProtocol41, wire.OK{Status: wire.StatusAutocommit}))
	for {
		command, err := readPacket(r, nil)
		if err != nil || command[wire.HeaderSize] != byte(wire.ComQuery) {
			return
		}
		query := string(command[wire.HeaderSize+1:])
		s.mu.Lock()
		s.queries = append(s.queries, query)
		s.mu.Unlock()
		for prefix, rows := range s.answers {
			if strings.HasPrefix(query, prefix) {
				conn.Write(textResult(rows))
			}
		}
	}
}

func (s *scripted) greeting() []byte {
	caps := wire.ClientLongPassword | wire.ClientProtocol41 | wire.ClientSecureConnection | wire.ClientPluginAuth | wire.ClientTransactions
	b := append([]byte{10}, s.version...)
	b = append(b, 0, 7, 0, 0, 0)
	b = append(b, "12345678\x00"...)
	b = binary.LittleEndian.AppendUint16(b, uint16(caps))
	b = append(b, 45, 2, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(caps>>16))
	b = append(b, 21)
	b = append(b, make([]byte, 10)...)
	b = append(b, "123456789012\x00mysql_native_password\x00"...)
	return b
}

func framed(seq byte, payload []byte) []byte {
	b := make([]byte, 4, 4+len(payload))
	wire.PutHeader(b, len(payload), seq)
	return append(b, payload...)
}

// lengthed writes a string of less than 64 KiB with its length in front.
func lengthed(b []byte, s string) []byte {
	if len(s) < 251 {
		return append(append(b, byte(len(s))), s...)
	}
	return append(append(b, 0xFC, byte(len(s)), byte(len(s)>>8)), s...)
}

func textResult(rows [][]string) []byte {
	columns := len(rows[0])
	seq := byte(1)
	var out []byte
	add := func(payload []byte) {
		out = append(out, framed(seq, payload)...)
		seq++
	}
	eof := []byte{0xFE, 0, 0, 2, 0}
	add([]byte{byte(columns)})
	for range columns {
		var b []byte
		for _, s := range []string{"def", "", "", "", "c", ""} {
			b = lengthed(b, s)
		}
		add(append(b, 0x0C, 45, 0, 0, 1, 0, 0, 0xFD, 0, 0, 0, 0, 0))
	}
	add(eof)
	for _, row := range rows {
		var b []byte
		for _, v := range row {
			if v == null {
				b = append(b, 0xFB)
			} else {
				b = lengthed(b, v)
			}
		}
		add(b)
	}
	add(eof)
	return out
}

func TestMonitorVariables(t *testing.T) {
	s := &scripted{answers: map[string][][]string{
		"SHOW GLOBAL VARIABLES": {{"sql_mode", "ANSI_QUOTES"}, {"init_connect", ""}},
	}}
	m := startScripted(t, s)
	got, err := m.Variables(t.Context(), "sql_mode", "init_connect", "unknown_one")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got["sql_mode"] != "ANSI_QUOTES" {
		t.Errorf("got %v", got)
	}
	if _, ok := got["init_connect"]; !ok {
		t.Error("an empty value is a value")
	}
	if want := "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('sql_mode','init_connect','unknown_one')"; !slices.Equal(s.queries, []string{want}) {
		t.Errorf("asked %q", s.queries)
	}
	if _, err := m.Variables(t.Context(), "x') OR ('1"); err == nil {
		t.Error("anything passes for a name")
	}
}

func TestMonitorBodies(t *testing.T) {
	s := &scripted{answers: map[string][][]string{
		"SHOW GRANTS": {{"GRANT ALL PRIVILEGES ON *.* TO `watch`@`%`"}},
		"SELECT ROUTINE_SCHEMA": {
			{"d", "p", "PROCEDURE", "SQL", "INSERT INTO report VALUES (1)"},
			{"d", "hidden", "PROCEDURE", "SQL", null},
			{"d", "js", "FUNCTION", "JAVASCRIPT", "return 1"},
			{"sys", "tr", "TRIGGER", "SQL", "SET NEW.a = " + strings.Repeat("1+", 200) + "1"},
		},
	}}
	m := startScripted(t, s)
	got, err := m.Bodies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 4 {
		t.Fatalf("got %v", got)
	}
	if want := (Body{"d", "p", "PROCEDURE", "SQL", "INSERT INTO report VALUES (1)", true}); got[0] != want {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
	for i, want := range []struct{ opaque, system, report, other bool }{
		{false, false, true, false},
		{true, false, true, true},
		{true, false, true, true},
		{false, true, false, false},
	} {
		b := got[i]
		if b.Opaque() != want.opaque || b.System() != want.system || b.Mentions("report") != want.report || b.Mentions("other") != want.other {
			t.Errorf("%s: opaque %v, system %v, mentions %v %v; want %+v", b.Name, b.Opaque(), b.System(), b.Mentions("report"), b.Mentions("other"), want)
		}
	}
}

func TestMonitorRights(t *testing.T) {
	s := &scripted{answers: map[string][][]string{
		"SHOW GRANTS":           {{"GRANT USAGE ON *.* TO `watch`@`%`"}, {"GRANT SELECT ON `d`.* TO `watch`@`%`"}},
		"SELECT ROUTINE_SCHEMA": {{"d", "p", "PROCEDURE", "SQL", "x"}},
	}}
	m := startScripted(t, s)
	_, err := m.Bodies(t.Context())
	var rights *RightsError
	if !errors.As(err, &rights) || !strings.Contains(err.Error(), "lacks SHOW_ROUTINE ON *.* (MariaDB: SELECT ON mysql.proc), TRIGGER ON *.*") {
		t.Errorf("got %v", err)
	}
}

func TestMissingRights(t *testing.T) {
	const routines, triggers = "SHOW_ROUTINE ON *.* (MariaDB: SELECT ON mysql.proc)", "TRIGGER ON *.*"
	for _, test := range []struct {
		name   string
		grants string
		want   []string
	}{
		{"nothing", "GRANT USAGE ON *.* TO `w`@`%`", []string{routines, triggers}},
		{"MySQL, exactly", "GRANT EVENT, TRIGGER ON *.* TO `w`@`%`\nGRANT SHOW_ROUTINE ON *.* TO `w`@`%`", nil},
		{"MySQL, root", "GRANT SELECT, INSERT, UPDATE, EVENT, TRIGGER ON *.* TO `root`@`localhost` WITH GRANT OPTION\nGRANT APPLICATION_PASSWORD_ADMIN ON *.* TO `root`@`localhost`\nGRANT PROXY ON ``@`` TO `root`@`localhost` WITH GRANT OPTION", nil},
		{"MariaDB, exactly", "GRANT TRIGGER ON *.* TO `w`@`%` IDENTIFIED BY PASSWORD '*B6'\nGRANT SELECT ON `mysql`.`proc` TO `w`@`%`", nil},
		{"MariaDB, root", "GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION\nGRANT PROXY ON ''@'%' TO 'root'@'localhost' WITH GRANT OPTION", nil},
		{"MariaDB 11.3", "GRANT TRIGGER, SHOW CREATE ROUTINE ON *.* TO `w`@`%`", nil},
		{"ANSI_QUOTES", "GRANT TRIGGER ON *.* TO \"w\"@\"%\"\nGRANT SELECT ON \"mysql\".* TO \"w\"@\"%\"", nil},
		{"one schema only", "GRANT ALL PRIVILEGES ON `d`.* TO `w`@`%`", []string{routines, triggers}},
		{"triggers of one schema", "GRANT SELECT ON *.* TO `w`@`%`\nGRANT TRIGGER ON `d`.* TO `w`@`%`", []string{triggers}},
		{"one column", "GRANT TRIGGER, SELECT (`name`) ON *.* TO `w`@`%`\nGRANT SELECT (`name`) ON `mysql`.`proc` TO `w`@`%`", []string{routines}},
		{"only by a role", "GRANT `r` TO `w`@`%`\nGRANT USAGE ON *.* TO `w`@`%`\nGRANT ALL PRIVILEGES ON *.* TO `r`", []string{routines, triggers}},
		{"partly revoked", "GRANT SELECT, TRIGGER ON *.* TO `w`@`%`\nREVOKE SELECT, INSERT ON `d`.* FROM `w`@`%`", []string{"SELECT ON d.*"}},
		{"no grants", "", []string{routines, triggers}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := missingRights(strings.Split(test.grants, "\n")); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestMonitorGreeting(t *testing.T) {
	m := startScripted(t, &scripted{version: "5.5.5-10.11.19-MariaDB"})
	m.User = ""
	g, err := m.Greeting(t.Context())
	if err != nil || !g.MariaDB || g.VersionID != 101119 || g.ThreadID != 7 {
		t.Errorf("%+v %v", g, err)
	}
	if _, err := m.Variables(t.Context(), "sql_mode"); !errors.Is(err, ErrNoAccount) {
		t.Errorf("without an account: %v", err)
	}
	if _, err := m.Bodies(t.Context()); !errors.Is(err, ErrNoAccount) {
		t.Errorf("without an account: %v", err)
	}
}

func TestMonitorErrors(t *testing.T) {
	refused := startScripted(t, &scripted{refuse: &wire.Err{Code: 1045, State: "28000", Message: "Access denied for user 'watch'"}})
	_, err := refused.Bodies(t.Context())
	if err == nil || !strings.Contains(err.Error(), "1045") || !strings.Contains(err.Error(), refused.Address) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}

	silent := startScripted(t, &scripted{silent: true})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := silent.Variables(ctx, "sql_mode"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	silent.Timeout = 10 * time.Millisecond
	if _, err := silent.Greeting(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("timed out: %v", err)
	}

	strange := startScripted(t, &scripted{answers: map[string][][]string{"SHOW G": {{"one", "two", "three"}}}})
	if _, err := strange.Variables(t.Context(), "sql_mode"); err == nil {
		t.Error("three columns are taken for a variable")
	}
	if _, err := strange.Bodies(t.Context()); err == nil {
		t.Error("three columns are taken for a grant")
	}

	nobody := &Monitor{Address: "/nowhere/mysqld.sock", User: "watch", Timeout: time.Second}
	if _, err := nobody.Variables(t.Context(), "sql_mode"); err == nil || !strings.Contains(err.Error(), "dial unix /nowhere/mysqld.sock") {
		t.Errorf("got %v", err)
	}
}
