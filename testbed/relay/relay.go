// Package relay puts something between clients and a server that understands nothing of what it carries, for tests to compare a proxy
// with, or to change a reply under way.
package relay

import (
	"io"
	"net"
)

// To dials a server.
func To(network, address string) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.Dial(network, address) }
}

// Start relays what connects to the listener that it returns, on a free port of 127.0.0.1, to what dial connects to (TCP or a unix
// socket). A client's end is passed on, the server's end is the connection's. Each piece that the server sends, as it happens to be
// read, goes through change, unless that is nil.
func Start(dial func() (net.Conn, error), change func([]byte) []byte) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go carry(client, dial, change)
		}
	}()
	return l, nil
}

func carry(client net.Conn, dial func() (net.Conn, error), change func([]byte) []byte) {
	defer client.Close()
	server, err := dial()
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.(interface{ CloseWrite() error }).CloseWrite()
	}()
	if change == nil {
		_, _ = io.Copy(client, server)
		return
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if _, werr := client.Write(change(buffer[:n])); err != nil || werr != nil {
			return
		}
	}
}
