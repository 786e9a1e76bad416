package suite

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"time"
)

// Front offers TLS in front of a server or proxy that does not: a client that insists on TLS is taken at its word, and
// what it says goes on in plain. It serves unix sockets, which caching_sha2_password trusts as it does TLS. Safe for
// concurrent use.
type Front struct {
	listener net.Listener
	backend  string
	config   *tls.Config

	mu      sync.Mutex
	open    map[net.Conn]bool
	closed  bool
	running sync.WaitGroup
}

// NewFront listens on a unix socket at path for the unix socket at backend. The caller closes it.
func NewFront(path, backend string) (*Front, error) {
	config, err := selfSigned()
	if err != nil {
		return nil, fmt.Errorf("tls front: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("tls front: %w", err)
	}
	f := &Front{listener: listener, backend: backend, config: config, open: map[net.Conn]bool{}}
	f.running.Add(1)
	go f.accept()
	return f, nil
}

func selfSigned() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, nil
}

// Close ends the listener and all connections.
func (f *Front) Close() error {
	err := f.listener.Close()
	f.mu.Lock()
	f.closed = true
	for c := range f.open {
		c.Close()
	}
	f.mu.Unlock()
	f.running.Wait()
	return err
}

func (f *Front) accept() {
	defer f.running.Done()
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.running.Add(1)
		go func() {
			defer f.running.Done()
			f.serve(client)
		}()
	}
}

// keep remembers a connection until Close, which it returns false after.
func (f *Front) keep(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[c] = true
	return !f.closed
}

func (f *Front) forget(c net.Conn) {
	c.Close()
	f.mu.Lock()
	delete(f.open, c)
	f.mu.Unlock()
}

// serve relays one connection. Whatever goes wrong ends it, as it would for a client of the server itself.
func (f *Front) serve(client net.Conn) {
	defer f.forget(client)
	backend, err := net.Dial("unix", f.backend)
	if err != nil {
		return
	}
	defer f.forget(backend)
	if !f.keep(client) || !f.keep(backend) {
		return
	}
	secure, err := f.login(client, backend)
	if err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(backend, secure)
		_ = backend.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(secure, backend)
	secure.Close()
	<-done
}

const (
	clientSSL     = 0x0800
	sslRequestLen = 32
)

// login relays the turns of the login and returns the connection on which the client goes on.
func (f *Front) login(client, backend net.Conn) (net.Conn, error) {
	greeting, err := readPacket(backend)
	if err != nil {
		return nil, err
	}
	if greeting[4] == 0xff { // refused, for instance for too many connections
		_, err := client.Write(greeting)
		return client, err
	}
	capabilities, err := lowerCapabilities(greeting)
	if err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint16(capabilities, binary.LittleEndian.Uint16(capabilities)|clientSSL)
	if _, err := client.Write(greeting); err != nil {
		return nil, err
	}
	first, err := readPacket(client)
	if err != nil {
		return nil, err
	}
	if len(first) != 4+sslRequestLen || first[5]&(clientSSL>>8) == 0 {
		_, err := backend.Write(first)
		return client, err
	}
	secure := tls.Server(client, f.config)
	if err := secure.Handshake(); err != nil {
		return nil, err
	}
	// The request for TLS has taken a sequence number that the backend does not know of.
	for {
		packet, err := readPacket(secure)
		if err != nil {
			return nil, err
		}
		packet[3]--
		if packet[3] == 1 {
			packet[5] &^= clientSSL >> 8
		}
		if _, err := backend.Write(packet); err != nil {
			return nil, err
		}
		for more := true; more; {
			if packet, err = readPacket(backend); err != nil {
				return nil, err
			}
			packet[3]++
			if _, err := secure.Write(packet); err != nil {
				return nil, err
			}
			if packet[4] == 0x00 || packet[4] == 0xff {
				return secure, nil
			}
			// "The password was right": the server speaks again.
			more = packet[4] == 0x01 && len(packet) == 6 && packet[5] == 0x03
		}
	}
}

// lowerCapabilities is where the greeting holds the lower two bytes of the server's capabilities.
func lowerCapabilities(greeting []byte) ([]byte, error) {
	const header, protocol, threadID, scramble = 4, 1, 4, 8 + 1
	at := header + protocol
	for at < len(greeting) && greeting[at] != 0 {
		at++
	}
	at += 1 + threadID + scramble
	if at+2 > len(greeting) {
		return nil, errors.New("not a greeting")
	}
	return greeting[at : at+2], nil
}

// readPacket reads one packet with its header. It reads no further: what follows may be TLS.
func readPacket(r io.Reader) ([]byte, error) {
	packet := make([]byte, 4)
	if _, err := io.ReadFull(r, packet); err != nil {
		return nil, err
	}
	length := int(packet[0]) | int(packet[1])<<8 | int(packet[2])<<16
	if length == 0 {
		return nil, errors.New("empty packet in the login")
	}
	packet = append(packet, make([]byte, length)...)
	_, err := io.ReadFull(r, packet[4:])
	return packet, err
}
