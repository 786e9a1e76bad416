package suite

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"testing"
)

// greeting is one of a server without TLS: protocol, version, thread id, first part of the scramble, capabilities, the rest.
var greeting = packet(0, "\x0a9.7.4\x00\x07\x00\x00\x0012345678\x00\x00\x02rest")

const capabilitiesAt = 4 + 1 + 6 + 4 + 9

func packet(sequence byte, payload string) []byte {
	return append([]byte{byte(len(payload)), 0, 0, sequence}, payload...)
}

// backendSocket answers one connection: a greeting, the turns of a login, and from then on what it hears.
func backendSocket(t *testing.T, turns ...[2][]byte) string {
	path := filepath.Join(t.TempDir(), "b")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Write(greeting)
		for _, turn := range turns {
			got := make([]byte, len(turn[0]))
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, turn[0]) {
				t.Errorf("the backend got %q, %v, want %q", got, err, turn[0])
				return
			}
			conn.Write(turn[1])
		}
		io.Copy(conn, conn)
	}()
	return path
}

func dialFront(t *testing.T, backend string) net.Conn {
	path := filepath.Join(t.TempDir(), "f")
	front, err := NewFront(path, backend)
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		if err := front.Close(); err != nil {
			t.Error(err)
		}
	})
	want := bytes.Clone(greeting)
	want[capabilitiesAt+1] |= 0x08
	expect(t, client, want)
	return client
}

func expect(t *testing.T, r io.Reader, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

const (
	loginTail  = "\x00\x00\x00\x00\x01\x21user"
	plainLogin = "\x00\x02" + loginTail
	tlsLogin   = "\x00\x0a" + loginTail
	tlsRequest = "\x00\x0a\x00\x00\x00\x00\x00\x01\x21\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)

// TestFrontTLS logs in over TLS: the backend counts one packet less and is not asked for TLS.
func TestFrontTLS(t *testing.T) {
	client := dialFront(t, backendSocket(t,
		[2][]byte{packet(1, plainLogin), packet(2, "\xfeother plugin")},
		[2][]byte{packet(3, "proof"), append(packet(4, "\x01\x03"), packet(5, "\x00ok")...)},
	))
	client.Write(packet(1, tlsRequest))
	secure := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
	secure.Write(packet(2, tlsLogin))
	expect(t, secure, packet(3, "\xfeother plugin"))
	secure.Write(packet(4, "proof"))
	expect(t, secure, packet(5, "\x01\x03"))
	expect(t, secure, packet(6, "\x00ok"))
	secure.Write([]byte("anything"))
	expect(t, secure, []byte("anything"))
}

// TestFrontRefused passes an error on and lets the client go on reading.
func TestFrontRefused(t *testing.T) {
	client := dialFront(t, backendSocket(t, [2][]byte{packet(1, plainLogin), packet(2, "\xffno")}))
	client.Write(packet(1, tlsRequest))
	secure := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
	secure.Write(packet(2, tlsLogin))
	expect(t, secure, packet(3, "\xffno"))
}

func TestFrontPlain(t *testing.T) {
	client := dialFront(t, backendSocket(t, [2][]byte{packet(1, plainLogin), packet(2, "\x00ok")}))
	client.Write(packet(1, plainLogin))
	expect(t, client, packet(2, "\x00ok"))
	client.Write([]byte("anything"))
	expect(t, client, []byte("anything"))
}
