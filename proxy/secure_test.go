package proxy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"tmpproxy/session"
	"tmpproxy/wire"
)

// testCertificate is one for localhost, and the settings of a client that trusts it alone.
var testCertificate = sync.OnceValues(func() (*tls.Config, *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: pool, ServerName: "localhost"}
})

// bytewise writes each byte by itself, as long as it is to.
type bytewise struct {
	net.Conn
	on bool
}

func (c *bytewise) Write(b []byte) (int, error) {
	if !c.on {
		return c.Conn.Write(b)
	}
	for i := range b {
		if _, err := c.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// prefixed puts bytes in front of the first write, in one segment with it.
type prefixed struct {
	net.Conn
	prefix []byte
}

func (c *prefixed) Write(b []byte) (int, error) {
	all := append(c.prefix, b...)
	n := len(c.prefix)
	c.prefix = nil
	written, err := c.Conn.Write(all)
	return max(written-n, 0), err
}

const tlsCaps = testCaps | wire.ClientSSL

// serveTLS is a backend: a fakeServer behind the TLS that it is asked for.
func serveTLS(conn net.Conn, config *tls.Config, slow bool) error {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	socket := &bytewise{conn, slow}
	conn = socket
	s := newFakeServer(tlsCaps)
	s.answer = func(sql string) []byte {
		if n, found := strings.CutPrefix(sql, "SELECT big "); found {
			var size int
			fmt.Sscan(n, &size)
			b := s.rows(1, s.status)
			return append(b[:len(b)-9], append(pack(4, bytes.Repeat([]byte{'x'}, size)), pack(5, []byte{0xfe, 0, 0, 2, 0})...)...)
		}
		return nil
	}
	if _, err := conn.Write(s.out); err != nil {
		return err
	}
	s.out = nil
	first, err := readPacket(conn, nil)
	if err != nil {
		return err
	}
	if len(first) == wire.HeaderSize+32 {
		secure := tls.Server(conn, config)
		if err := secure.Handshake(); err != nil {
			return err
		}
		conn = secure
		first = nil
	}
	buf := make([]byte, 64<<10)
	for n := copy(buf, first); ; {
		s.receive(buf[:n])
		if s.stage == 2 {
			socket.on = false
		}
		if _, err := conn.Write(s.out); err != nil {
			return err
		}
		s.out = nil
		if n, err = conn.Read(buf); err != nil {
			if c, ok := conn.(*tls.Conn); ok && err == io.EOF {
				c.CloseWrite()
			}
			return err
		}
	}
}

// loginOf is a login without a password; its first 32 bytes are an SSLRequest with CLIENT_SSL.
func loginOf(caps wire.Capability) []byte {
	p := binary.LittleEndian.AppendUint32(nil, uint32(caps&^wire.ClientConnectWithDB))
	p = append(p, 0, 0, 0, 1, 45)
	p = append(p, make([]byte, 23)...)
	return append(p, "me\x00\x00mysql_native_password\x00"...)
}

// tlsRig is a server with TLS on the legs that are asked for.
func tlsRig(t *testing.T, o rigOptions, listen ListenTLS, backend BackendTLS, slow bool) *rig {
	serverTLS, clientTLS := testCertificate()
	change := o.change
	o.change = func(options *Options) {
		options.HandshakeTimeout = patience
		options.Policy = testPolicy(session.StrategyInnoDB)
		options.TLS = TLS{Listen: listen, Server: func() *tls.Config { return serverTLS }, Backend: backend, Client: func(string) *tls.Config { return clientTLS }}
		if change != nil {
			change(options)
		}
	}
	o.server = func(s *Server) { s.newConversation = func() *conversation { return newConversation(s.shared) } }
	r := newRig(t, o)
	go func() {
		for {
			conn, err := r.backend.Accept()
			if err != nil {
				return
			}
			go serveTLS(conn, serverTLS, slow)
		}
	}()
	return r
}

// enter logs in over what the client's leg is to be, with a first command in the record or segment of the last turn.
func enter(r *rig, client *end, secure, slow bool) net.Conn {
	r.Helper()
	greeting, err := readPacket(client, nil)
	if err != nil {
		r.Fatal(err)
	}
	g, err := wire.ParseGreeting(greeting[wire.HeaderSize:])
	if err != nil || g.Capabilities.Has(wire.ClientSSL) != secure {
		r.Fatalf("%v offered, %v", g.Capabilities, err)
	}
	socket := &bytewise{client, slow}
	conn, seq, login := net.Conn(socket), byte(1), loginOf(testCaps)
	if secure {
		_, config := testCertificate()
		login = loginOf(tlsCaps)
		first := &prefixed{socket, pack(1, login[:32])}
		c := tls.Client(first, config)
		if err := c.Handshake(); err != nil {
			r.Fatal(err)
		}
		conn, seq = c, 2
	}
	conn.Write(pack(seq, login))
	turn, err := readPacket(conn, nil)
	if err != nil || turn[3] != seq+1 || turn[4] != 0xfe {
		r.Fatalf("%q, %v", turn, err)
	}
	conn.Write(append(pack(seq+2, []byte("answer")), pack(0, []byte("\x03SELECT 1"))...))
	if more, err := readPacket(conn, nil); err != nil || more[3] != seq+3 || more[4] != 1 {
		r.Fatalf("%q, %v", more, err)
	}
	if ok, err := readPacket(conn, nil); err != nil || ok[3] != seq+4 || ok[4] != 0 {
		r.Fatalf("%q, %v", ok, err)
	}
	want := newFakeServer(testCaps)
	want.stage, want.out = 2, nil
	want.receive(pack(0, []byte("\x03SELECT 1")))
	expectBytes(r, conn, want.out)
	socket.on = false
	return conn
}

func expectBytes(t testing.TB, conn io.Reader, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %.80q (%d bytes), %v; want %.80q", got[:n], n, err, want)
	}
}

// TestTLSLegs has sessions over TLS on either leg or both, written byte by byte until they are logged in: the SSLRequest comes with the
// first record, the first command with the login's end. What is big comes through, and pipelined commands are answered behind the
// client's farewell.
func TestTLSLegs(t *testing.T) {
	for _, legs := range [][2]bool{{true, true}, {true, false}, {false, true}, {false, false}} {
		t.Run(fmt.Sprintf("client %v backend %v", legs[0], legs[1]), func(t *testing.T) {
			eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
				listen, backend := ListenTLSOff, BackendTLSDisabled
				if legs[0] {
					listen = ListenTLSRequired
				}
				if legs[1] {
					backend = BackendTLSVerified
				}
				r := tlsRig(t, o, listen, backend, true)
				client := r.client()
				conn := enter(r, client, legs[0], true)
				one := newFakeServer(testCaps)
				one.stage, one.out = 2, nil
				one.receive(pack(0, []byte("\x03SELECT 1")))

				// Three megabytes each way.
				const size = 3 << 20
				var writing sync.WaitGroup
				writing.Go(func() {
					conn.Write(pack(0, append([]byte("\x03INSERT INTO t VALUES ('"), append(bytes.Repeat([]byte{'y'}, size), "')"...)...)))
				})
				if ok, err := readPacket(conn, nil); err != nil || ok[4] != 0 {
					t.Fatalf("%q, %v", ok, err)
				}
				writing.Wait()
				conn.Write(pack(0, fmt.Appendf(nil, "\x03SELECT big %d", size)))
				for i := range 5 {
					var header [wire.HeaderSize]byte
					if _, err := io.ReadFull(conn, header[:]); err != nil {
						t.Fatal(err)
					}
					length, _ := wire.Header(header[:])
					if i == 3 && length != size {
						t.Fatalf("a row of %d bytes", length)
					}
					if _, err := io.CopyN(io.Discard, conn, int64(length)); err != nil {
						t.Fatal(err)
					}
				}

				var all []byte
				for range 20 {
					all = append(all, pack(0, []byte("\x03SELECT 1"))...)
				}
				conn.Write(all)
				if c, ok := conn.(*tls.Conn); ok {
					c.CloseWrite() // and no FIN
				} else {
					client.CloseWrite()
				}
				expectBytes(r, conn, bytes.Repeat(one.out, 20))
				if n, err := conn.Read(make([]byte, 1)); n > 0 || err != io.EOF { // with a farewell, or it were another error
					t.Errorf("%d, %v in place of the end", n, err)
				}
				client.Close()
				r.empty()
				if want := map[bool]float64{true: 1}[legs[0]]; counted(r, "tmpproxy_tls_handshakes_total", "client") != want {
					t.Errorf("not %v handshakes of clients are counted", want)
				}
			})
		})
	}
}

// counted is the value of a counter with one label of that value.
func counted(r *rig, name, label string) float64 {
	r.Helper()
	for _, c := range r.server.Collectors() {
		collected := make(chan prometheus.Metric, 256)
		c.Collect(collected)
		close(collected)
		for m := range collected {
			var d dto.Metric
			if err := m.Write(&d); err != nil {
				r.Fatal(err)
			}
			if strings.Contains(m.Desc().String(), `"`+name+`"`) && len(d.Label) == 1 && d.Label[0].GetValue() == label {
				return d.Counter.GetValue()
			}
		}
	}
	return 0
}

// TestTLSRefused has clients whose TLS comes to nothing. Each gets an answer that it can read, or none, and the next one is served.
func TestTLSRefused(t *testing.T) {
	_, clientTLS := testCertificate()
	request := pack(1, loginOf(tlsCaps)[:32])
	for _, test := range []struct {
		name    string
		listen  ListenTLS
		backend BackendTLS
		talk    func(r *rig, client *end)
		failed  string // side whose failure is counted
	}{
		{"plain login", ListenTLSRequired, BackendTLSDisabled, func(r *rig, client *end) {
			client.Write(pack(1, loginOf(testCaps)))
			expectERR(r, client, 2, 3159)
		}, ""},
		{"no TLS here", ListenTLSOff, BackendTLSDisabled, func(r *rig, client *end) {
			client.Write(request)
			expectERR(r, client, 2, 3159)
		}, ""},
		{"login in clear behind the request", ListenTLSOptional, BackendTLSDisabled, func(r *rig, client *end) {
			client.Write(append(bytes.Clone(request), pack(2, loginOf(tlsCaps))...))
			client.expectGone()
		}, "client"},
		{"unknown authority", ListenTLSOptional, BackendTLSDisabled, func(r *rig, client *end) {
			client.Write(request)
			c := tls.Client(client, &tls.Config{ServerName: "localhost"})
			if err := c.Handshake(); !errors.As(err, new(*tls.CertificateVerificationError)) {
				r.Errorf("%v", err)
			}
			client.expectGone()
		}, "client"},
		{"request over TLS", ListenTLSOptional, BackendTLSDisabled, func(r *rig, client *end) {
			client.Write(request)
			c := tls.Client(client, clientTLS)
			c.Write(pack(2, loginOf(tlsCaps)[:32]))
			expectERR(r, c, 3, 1043)
		}, ""},
		{"leaves in the handshake", ListenTLSOptional, BackendTLSDisabled, func(r *rig, client *end) {
			client.Write(append(bytes.Clone(request), 22, 3, 1))
			client.shut()
			client.expectGone()
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
				r := tlsRig(t, o, test.listen, test.backend, false)
				client := r.client()
				if _, err := readPacket(client, nil); err != nil {
					t.Fatal(err)
				}
				test.talk(r, client)
				client.Close()
				r.empty()
				if test.failed != "" && counted(r, "tmpproxy_tls_handshake_failures_total", test.failed) != 1 {
					t.Error("the failure is not counted")
				}
				conn := enter(r, r.client(), test.listen != ListenTLSOff, false)
				conn.Close()
				r.empty()
			})
		})
	}
}

func expectERR(t testing.TB, conn io.Reader, seq byte, code uint16) {
	t.Helper()
	p, err := readPacket(conn, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := wire.ParseErr(p[wire.HeaderSize:])
	if err != nil || e.Code != code || p[3] != seq {
		t.Fatalf("%v, %v with number %d; want %d with number %d", e, err, p[3], code, seq)
	}
}

// TestTLSWithBackendFails tells the client why there is no TLS with the backend.
func TestTLSWithBackendFails(t *testing.T) {
	eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
		o.change = func(options *Options) {
			options.TLS.Client = func(string) *tls.Config { return &tls.Config{ServerName: "elsewhere"} }
		}
		r := tlsRig(t, o, ListenTLSOptional, BackendTLSVerified, false)
		for _, secure := range []bool{false, true} {
			client := r.client()
			if _, err := readPacket(client, nil); err != nil {
				t.Fatal(err)
			}
			conn, seq := net.Conn(client), byte(1)
			if secure {
				client.Write(pack(1, loginOf(tlsCaps)[:32]))
				_, config := testCertificate()
				conn, seq = tls.Client(client, config), 2
			}
			conn.Write(pack(seq, loginOf(testCaps)))
			expectERR(r, conn, seq+1, errTLS)
			client.Close()
			r.empty()
		}
		if counted(r, "tmpproxy_tls_handshake_failures_total", "backend") != 2 {
			t.Error("the failures are not counted")
		}
	})
}

// TestTLSHandshakeTimeout has a client stop in the middle of its handshake.
func TestTLSHandshakeTimeout(t *testing.T) {
	eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
		serverTLS, clientTLS := testCertificate()
		o.change = func(options *Options) {
			options.HandshakeTimeout = 200 * time.Millisecond
			options.TLS = TLS{Listen: ListenTLSRequired, Server: func() *tls.Config { return serverTLS }, Client: func(string) *tls.Config { return clientTLS }}
		}
		o.server = func(s *Server) { s.newConversation = func() *conversation { return newConversation(s.shared) } }
		r := newRig(t, o)
		client, backend := r.session()
		backend.send(string(newFakeServer(tlsCaps).out))
		if _, err := readPacket(client, nil); err != nil {
			t.Fatal(err)
		}
		// The first record of a handshake, of which the rest never comes.
		client.Write(append(pack(1, loginOf(tlsCaps)[:32]), 22, 3, 1, 1, 0, 1))
		client.expectGone()
		if n := r.server.Counts().HandshakeTimeouts.Load(); n != 1 {
			t.Errorf("%d timeouts", n)
		}
	})
}

// TestTLSPassthrough relays what a client that asks for TLS says, as it is, and counts the session.
func TestTLSPassthrough(t *testing.T) {
	eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
		r := tlsRig(t, o, ListenTLSPassthrough, BackendTLSDisabled, false)
		conn := enter(r, r.client(), true, true)
		conn.(*tls.Conn).CloseWrite()
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
		conn.Close()
		r.empty()
		if counted(r, "tmpproxy_raw_sessions_total", "tls") != 1 {
			t.Error("the session is not counted")
		}
	})
}
