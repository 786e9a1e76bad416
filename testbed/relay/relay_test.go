package relay

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"testing"
)

func TestStart(t *testing.T) {
	upper := bytes.ToUpper
	for _, c := range []struct {
		network string
		change  func([]byte) []byte
		want    string
	}{{"tcp", nil, "abc"}, {"unix", nil, "abc"}, {"tcp", upper, "ABC"}} {
		address := "127.0.0.1:0"
		if c.network == "unix" {
			address = filepath.Join(t.TempDir(), "s")
		}
		server, err := net.Listen(c.network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		go func() { // an echo, once the client has ended
			conn, err := server.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			all, _ := io.ReadAll(conn)
			conn.Write(all)
		}()
		l, err := Start(To(c.network, server.Addr().String()), c.change)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		client.Write([]byte("abc"))
		client.(*net.TCPConn).CloseWrite()
		if got, err := io.ReadAll(client); err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v, want %q", c.network, got, err, c.want)
		}
	}
}
