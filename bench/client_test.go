package bench

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// serve runs a server that gives every connection to handle.
func serve(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// packets splits a stream into packets and checks their sequence numbers.
func packets(t *testing.T, stream []byte) [][]byte {
	t.Helper()
	var all [][]byte
	for sequence := byte(0); len(stream) > 0; sequence++ {
		n := int(stream[0]) | int(stream[1])<<8 | int(stream[2])<<16
		if stream[3] != sequence || len(stream) < 4+n {
			t.Fatalf("packet %d: header %x, %d bytes left", sequence, stream[:4], len(stream))
		}
		all = append(all, stream[4:4+n])
		stream = stream[4+n:]
	}
	return all
}

func TestEncode(t *testing.T) {
	for _, test := range []struct {
		name  string
		text  int
		parts []int
	}{
		{"none", 0, []int{1}},
		{"short", 8, []int{9}},
		{"one less than full", maxPayload - 2, []int{maxPayload - 1}},
		{"full", maxPayload - 1, []int{maxPayload, 0}},
		{"more", maxPayload + 4, []int{maxPayload, 5}},
		{"two full ones", 2*maxPayload - 1, []int{maxPayload, maxPayload, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Repeat("x", test.text)
			var joined strings.Builder
			parts := packets(t, encode(text))
			if len(parts) != len(test.parts) {
				t.Fatalf("%d packets", len(parts))
			}
			for i, p := range parts {
				if len(p) != test.parts[i] {
					t.Errorf("packet %d has %d bytes, want %d", i, len(p), test.parts[i])
				}
				joined.Write(p)
			}
			if joined.String() != "\x03"+text {
				t.Error("the payload is another")
			}
		})
	}
}

// reply makes the packets of a reply.
func reply(payloads ...string) []byte {
	var stream []byte
	sequence := byte(1)
	for _, p := range payloads {
		for {
			n := min(len(p), maxPayload)
			stream = append(stream, byte(n), byte(n>>8), byte(n>>16), sequence)
			stream = append(stream, p[:n]...)
			p = p[n:]
			sequence++
			if n < maxPayload {
				break
			}
		}
	}
	return stream
}

const eof = "\xfe\x00\x00\x02\x00"

// answering connects a client to a server that answers every statement with stream, in pieces.
func answering(t *testing.T, stream []byte, piece int) *client {
	t.Helper()
	address := serve(t, func(conn net.Conn) {
		buffer := make([]byte, 1000)
		for {
			if n, err := conn.Read(buffer); err != nil || n >= 5 && buffer[4] == 1 {
				return
			}
			for rest := stream; len(rest) > 0; {
				n := min(piece, len(rest))
				if _, err := conn.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}
	})
	c, err := dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

func TestRun(t *testing.T) {
	long, exact := strings.Repeat("l", 3*readSize), strings.Repeat("m", maxPayload)
	for _, test := range []struct {
		name    string
		stream  []byte
		want    answer
		refused int
		pieces  []int
	}{
		{"ok", reply("\x00\x05\x00\x02\x00\x00\x00"), answer{affected: 5}, 0, []int{1, 100}},
		{"many affected", reply("\x00\xfc\xe8\x03\x00\x02\x00\x00\x00"), answer{affected: 1000}, 0, []int{1, 100}},
		{"error", reply("\xff\x7a\x04#42S02no such table"), answer{}, 1146, []int{1, 100}},
		{"no rows", reply("\x02", "a", "b", eof, eof), answer{}, 0, []int{1, 100}},
		{"rows", reply("\x01", "a", eof, "\x0242", "\xfb", eof), answer{rows: 2, bytes: 4, first: []byte("\x0242")}, 0, []int{1, 7, 100}},
		{"a row like an end", reply("\x01", "a", eof, "\xfe123456789", eof), answer{rows: 1, bytes: 10, first: []byte("\xfe123456789")}, 0, []int{1, 100}},
		{"error behind rows", reply("\x01", "a", eof, "\x0242", "\xff\x25\x05#70100killed"), answer{rows: 1, bytes: 3, first: []byte("\x0242")}, 1317, []int{1, 100}},
		{"long rows", reply("\x01", "a", eof, long, "\x011", long, eof), answer{rows: 3, bytes: 6*readSize + 2, first: []byte(long[:16])}, 0, []int{1000, readSize, 1 << 20}},
		{"a row of several packets", reply("\x01", "a", eof, exact+"m", exact, "\x011", eof),
			answer{rows: 3, bytes: 2*maxPayload + 3, first: []byte(exact[:16])}, 0, []int{1<<20 - 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, piece := range test.pieces {
				c := answering(t, test.stream, piece)
				for range 3 { // one after the other on a connection
					got, err := c.query("SELECT 1")
					var r *refusal
					switch {
					case test.refused == 0 && err != nil, test.refused > 0 && (!errors.As(err, &r) || r.code != test.refused):
						t.Fatalf("in pieces of %d: error %v", piece, err)
					case got.affected != test.want.affected || got.rows != test.want.rows || got.bytes != test.want.bytes || !bytes.Equal(got.first, test.want.first):
						t.Fatalf("in pieces of %d: got %+v, want %+v", piece, got, test.want)
					}
				}
				if err := c.quit(); err != nil {
					t.Errorf("quit: %v", err)
				}
			}
		})
	}
}

// TestTLS asks a server that greets with TLS, and that must not understand anything else.
func TestTLS(t *testing.T) {
	id, err := newIdentity(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGreeter(id, true)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	c, err := connect(login{network: "tcp", address: g.address, user: "bench", tls: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.query(strings.Repeat("x", 100_000)); err != nil { // of several records
			t.Fatal(err)
		}
	}
	if version := c.tls.ConnectionState().Version; version != tls.VersionTLS13 {
		t.Errorf("version %x", version)
	}
	if err := c.quit(); err != nil {
		t.Errorf("quit: %v", err)
	}
	if c, err = connect(login{network: "tcp", address: g.address, user: "bench"}); err == nil {
		c.close()
		t.Error("it takes a login without TLS")
	}
}

func TestRunLost(t *testing.T) {
	address := serve(t, func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, 13))
		_, _ = conn.Write([]byte{7, 0, 0, 1, 0})
	})
	c, err := dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, err := c.query("SELECT 1"); !errors.Is(err, errEnd) {
		t.Errorf("an answer that is cut off: %v", err)
	}
}
