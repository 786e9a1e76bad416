//go:build realserver

package tests

import (
	"encoding/binary"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"tmpproxy/testbed/server"
)

// framed is a packet.
func framed(seq byte, payload string) string {
	n := len(payload)
	return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), seq}) + payload
}

// The capabilities of the logins below.
const (
	capDB      = 0x8
	cap41      = 0x200
	capSSL     = 0x800
	capSecure  = 0x8000
	capPlugin  = 0x80000
	capAttrs   = 0x100000
	capLenenc  = 0x200000
	capZstd    = 0x4000000
	capEverDay = cap41 | capSecure | capPlugin
)

// loginHead is what stands before the user.
func loginHead(caps uint32, collation byte) string {
	b := binary.LittleEndian.AppendUint32(nil, caps)
	b = append(b, 0, 0, 0, 1, collation)
	return string(append(b, make([]byte, 23)...))
}

// malformed are first packets as they were found in reports on other proxies and servers, or may come from what is no client at all.
var malformed = []struct {
	name, bytes string
	theirs      bool // the server finds out, and counts it
	own         bool // one or the other server waits for more, or has words of its own
}{
	{name: "empty", bytes: framed(1, "")},
	{name: "one byte", bytes: framed(1, "\x85")},
	{name: "capabilities alone", bytes: framed(1, loginHead(capEverDay, 8)[:4])},
	{name: "no user", bytes: framed(1, loginHead(capEverDay, 8))},
	{name: "user without an end", bytes: framed(1, loginHead(capEverDay, 8)+"root")},
	{name: "no answer", bytes: framed(1, loginHead(capEverDay, 8)+"root\x00")},
	{name: "answer longer than the packet", bytes: framed(1, loginHead(capEverDay, 8)+"root\x00\x14short")},
	{name: "length of the answer in eight bytes", bytes: framed(1, loginHead(capEverDay|capLenenc, 8)+"root\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xffshort")},
	{name: "length of the answer is NULL", bytes: framed(1, loginHead(capEverDay|capLenenc, 8)+"root\x00\xfb")},
	{name: "plugin without an end", bytes: framed(1, loginHead(capEverDay, 8)+"nobody\x00\x00mysql_native_password")},
	{name: "unknown plugin", bytes: framed(1, loginHead(capEverDay, 8)+"nobody\x00\x00no_such_plugin\x00")},
	{name: "schema without an end", bytes: framed(1, loginHead(capEverDay|capDB, 8)+"nobody\x00\x00test")},
	{name: "no attributes", bytes: framed(1, loginHead(capEverDay|capAttrs, 8)+"nobody\x00\x00mysql_native_password\x00"), theirs: true},
	{name: "attributes and no plugin", bytes: framed(1, loginHead(capEverDay|capAttrs, 8)+"nobody\x00\x00"), theirs: true},
	{name: "attributes longer than the packet", bytes: framed(1, loginHead(capEverDay|capAttrs, 8)+"nobody\x00\x00mysql_native_password\x00\xfd\xff\xff\xffa")},
	{name: "attributes of a wrong length within", bytes: framed(1, loginHead(capEverDay|capAttrs, 8)+"nobody\x00\x00mysql_native_password\x00\x04\xfe\xff\xffa")},
	{name: "unknown collation", bytes: framed(1, loginHead(capEverDay, 254)+"nobody\x00\x00mysql_native_password\x00")},
	{name: "collation 0", bytes: framed(1, loginHead(capEverDay, 0)+"nobody\x00\x00mysql_native_password\x00")},
	{name: "zstd of level 255", bytes: framed(1, loginHead(capEverDay|capZstd, 8)+"nobody\x00\x00mysql_native_password\x00\xff")},
	{name: "all capabilities", bytes: framed(1, loginHead(0xffffffff&^capSSL, 8)+"nobody\x00\x00mysql_native_password\x00"), theirs: true},
	{name: "a long user", bytes: framed(1, loginHead(capEverDay, 8)+strings.Repeat("u", 5000)+"\x00\x00mysql_native_password\x00")},
	{name: "before 4.1", bytes: framed(1, "\x05\x00\x00\x00\x00nobody\x00\x00")},
	{name: "before 4.1, cut", bytes: framed(1, "\x05\x00\x00\x00\x00nobo")},
	{name: "another sequence number", bytes: framed(0, loginHead(capEverDay, 8)+"nobody\x00\x00mysql_native_password\x00")},
	{name: "a last sequence number", bytes: framed(255, loginHead(capEverDay, 8)+"nobody\x00\x00mysql_native_password\x00")},
	{name: "COM_QUIT", bytes: framed(0, "\x01")},
	{name: "COM_QUERY", bytes: framed(0, "\x03SELECT 1")},
	{name: "HTTP", bytes: "GET / HTTP/1.1\r\nHost: db\r\n\r\n"},
	{name: "TLS at once", bytes: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x42", 509)},
	{name: "SSH", bytes: "SSH-2.0-OpenSSH_9.2p1\r\n"},
	{name: "PROXY", bytes: "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", own: true},
	{name: "16 MiB announced", bytes: "\xff\xff\xff\x01" + strings.Repeat("x", 200<<10), own: true},
	{name: "noughts", bytes: strings.Repeat("\x00", 64)},
}

// scramble is what servers make up for each session.
var scramble = regexp.MustCompile(`(?s)(_password\x00).{20}`)

// answered sends bytes behind a greeting and returns what comes back before the connection ends. The client says that nothing more comes.
func answered(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		t.Fatalf("no greeting: %v", err)
	}
	greeting := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	if _, err := io.ReadFull(conn, greeting); err != nil {
		t.Fatalf("no greeting: %v", err)
	}
	if greeting[0] == 0xff {
		t.Fatalf("refused: %s", greeting)
	}
	_, _ = io.WriteString(conn, text) // the other side may have enough before its end
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(conn) // which may be a reset
	return string(answer)
}

// TestMalformedHandshakes sends first packets that are none. What is no login by any reading is refused in the server's words without
// that the server hears of it, so that no stranger can have it block the proxy (error 1129); the rest is the server's to judge.
func TestMalformedHandshakes(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind, "--performance-schema=ON", "--max-connect-errors=1000000")
		executeDirectly(t, s, "CREATE USER anybody") // or else the host is refused at once
		relay := from(t, "127.0.0.2", s.Address)     // servers do not count what comes from 127.0.0.1
		answered(t, relay, "")                       // the host's name is looked up once
		for _, d := range drivers {
			t.Run(d, func(t *testing.T) {
				p := startProxy(t, relay, "TMPPROXY_RELAY_DRIVER="+d)
				for _, m := range malformed {
					before := hostErrors(t, s)
					direct := answered(t, relay, m.bytes)
					refused := strings.Contains(direct, "Bad handshake") || strings.Contains(direct, "Got packets out of order")
					if refused { // which is counted when the session has ended
						await(t, "the error is counted", func() bool { return hostErrors(t, s) > before })
					}
					before = hostErrors(t, s)
					proxied := answered(t, p.Address, m.bytes)
					if masked := scramble.ReplaceAllString(proxied, "$1"); masked != scramble.ReplaceAllString(direct, "$1") && !m.own {
						t.Errorf("%s: directly %q, proxied %q", m.name, direct, proxied)
					} else if m.own && !strings.Contains(proxied, "Got packets out of order") && !strings.Contains(proxied, "Bad handshake") {
						t.Errorf("%s: proxied %q", m.name, proxied)
					}
					if refused {
						await(t, "the session has ended", func() bool { return len(sessions(t, p)) == 0 })
						if n := hostErrors(t, s); n != before && !m.theirs {
							t.Errorf("%s: the server counts %d errors", m.name, n-before)
						}
					}
				}
			})
		}
	})
}
