//go:build realserver

package tests

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

// mute is a client's connection that says a number of things and then nothing more.
type mute struct {
	net.Conn
	says int
}

func (m *mute) Write(b []byte) (int, error) {
	if m.says--; m.says < 0 {
		return len(b), nil
	}
	return m.Conn.Write(b)
}

// clientHello is the first thing that a client of TLS says.
func clientHello(t *testing.T) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go tls.Client(ours, &tls.Config{InsecureSkipVerify: true}).Handshake()
	b := make([]byte, 16<<10)
	n, err := theirs.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// TestBeforeLogin has clients stop at every stage before the login is done: they are ended by limits.handshake_timeout, none of them holds much
// memory, no connection to the server is left, and the server does not count them against the proxy's address, unless it has had their login.
func TestBeforeLogin(t *testing.T) {
	const clients = 25
	sources := map[string]string{"loop": "127.0.0.2", "pump": "127.0.0.3"}
	hello := clientHello(t)
	sslRequest := binary.LittleEndian.AppendUint32([]byte{32, 0, 0, 1}, mysql.CLIENT_PROTOCOL_41|mysql.CLIENT_SSL|mysql.CLIENT_SECURE_CONNECTION|mysql.CLIENT_PLUGIN_AUTH)
	sslRequest = append(sslRequest, make([]byte, 28)...)
	says := func(b ...[]byte) func(net.Conn) error {
		return func(c net.Conn) error {
			if p, err := readPacket(c); err != nil || p[4] == mysql.ERR_HEADER {
				return fmt.Errorf("instead of a greeting %q, %v", p, err)
			}
			_, err := c.Write(bytes.Join(b, nil))
			return err
		}
	}
	login := func(user, password, plugin string) func(net.Conn) error {
		return func(c net.Conn) error {
			_, err := rawclient.Connect(rawclient.Config{Socket: &mute{c, 1}, Network: "tcp", User: user, Password: password, Plugin: plugin, Timeout: patience})
			if err == nil {
				return fmt.Errorf("%s is logged in", user)
			}
			if !cut(err) {
				return err
			}
			return io.EOF
		}
	}
	type stage struct {
		name string
		act  func(net.Conn) error
		said bool // the server has had their login
	}
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := own(t, kind, "--performance-schema=ON", "--max-connect-errors=1000", "--connect-timeout=120")
		executeDirectly(t, s, "CREATE USER early IDENTIFIED BY 'secret'", "CREATE USER plain IDENTIFIED BY ''")
		stages := []stage{
			{name: "nothing is said, the greeting not read", act: func(net.Conn) error { return nil }},
			{name: "nothing is said", act: says()},
			{name: "half a header", act: says([]byte{40, 0})},
			{name: "half a login", act: says([]byte{200, 0, 0, 1}, make([]byte, 30))},
			{name: "half a login of 16 MiB", act: says([]byte{0xff, 0xff, 0xff, 1}, make([]byte, 100<<10))},
			{name: "a wish for TLS", act: says(sslRequest)},
			{name: "half a hello of TLS", act: says(sslRequest, hello[:len(hello)/2])},
			{name: "a hello of TLS", act: says(sslRequest, hello)},
			{"no answer to another plugin", login("early", "secret", mysql.AUTH_CLEAR_PASSWORD), true},
		}
		if kind == server.MySQL {
			stages = append(stages, stage{"full authentication not answered", login("early", "secret", ""), true})
		}
		// The counter is reset when a client logs in.
		connectErrors := func(t *testing.T, source string) (n int) {
			t.Helper()
			if err := s.DB().QueryRow("SELECT COALESCE(SUM(SUM_CONNECT_ERRORS), 0) FROM performance_schema.host_cache WHERE ip = ?", source).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		t.Run("by", func(t *testing.T) {
			for _, d := range drivers {
				t.Run(d, func(t *testing.T) {
					t.Parallel()
					relay := from(t, sources[d], s.Address)
					p := startProxy(t, relay, "TMPPROXY_RELAY_DRIVER="+d, "TMPPROXY_LIMITS_HANDSHAKE_TIMEOUT=1s", "TMPPROXY_LISTEN_TLS_MODE=optional")
					rest := atRest(t, p)
					for _, stage := range stages {
						t.Run(stage.name, func(t *testing.T) {
							executeDirectly(t, s, "FLUSH PRIVILEGES") // nobody's password is remembered
							before := residentBytes(t, p.PID())
							var crowd sync.WaitGroup
							for range clients {
								crowd.Go(func() {
									c, err := net.Dial("tcp", p.Address)
									if err != nil {
										t.Error(err)
										return
									}
									defer c.Close()
									c.SetDeadline(time.Now().Add(patience))
									if err := stage.act(c); err == io.EOF {
										return
									} else if err != nil {
										t.Error(err)
										return
									}
									if _, err := io.Copy(io.Discard, c); err != nil && !rawclient.IsLost(err) {
										t.Errorf("not ended: %v", err)
									}
								})
							}
							over := make(chan struct{})
							go func() {
								crowd.Wait()
								close(over)
							}()
							most, resident := buffered(t, p), 0
							for going := true; going; {
								select {
								case <-over:
									going = false
								case <-time.After(20 * time.Millisecond):
									most, resident = max(most, buffered(t, p)), max(resident, residentBytes(t, p.PID())-before)
								}
							}
							t.Logf("%d clients held %d bytes each, %d as the system counts", clients, most/clients, resident/clients)
							if most > clients*256<<10 {
								t.Errorf("%d clients held %d bytes", clients, most)
							}
							await(t, "the proxy holds nothing", func() bool { return buffered(t, p) == 0 })
							if n := connectErrors(t, sources[d]); n > 5 && !stage.said {
								t.Errorf("the server counts %d connection errors", n)
							}
							c := connect(t, rawclient.Config{Network: "tcp", Address: p.Address, User: "plain"})
							must(t, c, "DO 1")
							if err := c.Quit(); err != nil {
								t.Error(err)
							}
						})
					}
					rest(t, 0)
					if page, err := p.Get("/metrics"); err != nil || !regexp.MustCompile(`(?m)^tmpproxy_handshake_timeouts_total [1-9]`).MatchString(page) {
						t.Errorf("metrics: %v", err)
					}
				})
			}
		})
		awaitSessions(t, s, 0, "user IN ('unauthenticated user', 'early', 'plain')")
	})
}

// buffered is what a proxy says that its sessions hold, in bytes.
func buffered(t testing.TB, p *process.Process) int {
	t.Helper()
	page, err := p.Get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^tmpproxy_buffered_bytes (\S+)$`).FindStringSubmatch(page)
	if m == nil {
		t.Fatal("no buffers are told of")
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}
