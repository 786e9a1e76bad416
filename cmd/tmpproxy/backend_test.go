package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"tmpproxy/wire"
)

// backend is a server that lets everybody in and answers every query with OK. BEGIN opens a transaction, COMMIT ends it.
type backend struct {
	listener net.Listener
}

func startBackend(t *testing.T) *backend {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			running.Go(func() { answer(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return &backend{listener}
}

func (b *backend) address() string { return b.listener.Addr().String() }

func answer(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	conn.Write(framed(0, greeting()))
	if _, _, err := readPacket(r); err != nil {
		return
	}
	status := wire.StatusAutocommit
	conn.Write(wire.AppendOK(nil, 2, wire.ClientProtocol41, wire.OK{Status: status}))
	for {
		payload, _, err := readPacket(r)
		if err != nil || payload[0] == byte(wire.ComQuit) {
			return
		}
		switch string(payload[1:]) {
		case "BEGIN":
			status |= wire.StatusInTrans
		case "COMMIT":
			status &^= wire.StatusInTrans
		}
		conn.Write(wire.AppendOK(nil, 1, wire.ClientProtocol41, wire.OK{Status: status}))
	}
}

const testCapabilities = wire.ClientLongPassword | wire.ClientProtocol41 | wire.ClientSecureConnection | wire.ClientPluginAuth | wire.ClientTransactions

func greeting() []byte {
	b := append([]byte{10}, "9.7.4\x00"...)
	b = append(b, 7, 0, 0, 0)
	b = append(b, "12345678\x00"...)
	b = binary.LittleEndian.AppendUint16(b, uint16(testCapabilities&0xFFFF))
	b = append(b, 45, 2, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(testCapabilities>>16))
	b = append(b, 21)
	b = append(b, make([]byte, 10)...)
	return append(b, "123456789012\x00mysql_native_password\x00"...)
}

func framed(seq byte, payload []byte) []byte {
	b := make([]byte, 4, 4+len(payload))
	wire.PutHeader(b, len(payload), seq)
	return append(b, payload...)
}

func readPacket(r io.Reader) (payload []byte, seq byte, err error) {
	var header [4]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, 0, err
	}
	length, seq := wire.Header(header[:])
	payload = make([]byte, length)
	_, err = io.ReadFull(r, payload)
	return payload, seq, err
}

// client is an application's connection.
type client struct {
	t    *testing.T
	conn net.Conn
}

// connect logs in.
func connect(t *testing.T, network, address string) *client {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	c := &client{t, conn}
	if payload := c.read(); payload[0] != 10 {
		t.Fatalf("no greeting: %q", payload)
	}
	login := binary.LittleEndian.AppendUint32(nil, uint32(testCapabilities))
	login = append(login, 0, 0, 0, 1, 45)
	login = append(login, make([]byte, 23)...)
	login = append(login, "somebody\x00\x00mysql_native_password\x00"...)
	c.write(framed(1, login))
	c.ok()
	return c
}

func (c *client) write(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) read() []byte {
	c.t.Helper()
	payload, _, err := readPacket(c.conn)
	if err != nil {
		c.t.Fatal(err)
	}
	return payload
}

func (c *client) ok() {
	c.t.Helper()
	if payload := c.read(); payload[0] != 0 {
		c.t.Fatalf("not OK: %q", payload)
	}
}

func (c *client) query(text string) {
	c.t.Helper()
	c.write(framed(0, append([]byte{byte(wire.ComQuery)}, text...)))
	c.ok()
}

// gone waits for the proxy to close the connection.
func (c *client) gone() {
	c.t.Helper()
	if b, err := io.ReadAll(c.conn); err != nil || len(b) > 0 {
		c.t.Errorf("instead of the end: %q %v", b, err)
	}
}
