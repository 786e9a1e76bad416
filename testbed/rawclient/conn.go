// Package rawclient is a small MySQL client for whoever must see every byte a server sends: each reply comes back as
// all of its packets' fields, nothing is converted, retried or hidden. It shares no code with the proxy, so that a
// misunderstanding of the protocol cannot sit on both sides. It knows no compression and no replication.
package rawclient

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// MariaDB's extended capabilities: bits 32 and up of its capability word, here counted from 0.
const (
	MariaDBProgress         uint32 = 1 << 0
	MariaDBBulkOperations   uint32 = 1 << 2
	MariaDBExtendedMetadata uint32 = 1 << 3
	MariaDBCacheMetadata    uint32 = 1 << 4
	MariaDBBulkUnitResults  uint32 = 1 << 5
)

// Capabilities of the two generations of clients that scripts are run with.
const (
	// Classic is what clients of MySQL 5.5's time asked for: EOF packets, no session tracking.
	Classic = mysql.CLIENT_LONG_PASSWORD | mysql.CLIENT_LONG_FLAG | mysql.CLIENT_PROTOCOL_41 | mysql.CLIENT_TRANSACTIONS | mysql.CLIENT_SECURE_CONNECTION |
		mysql.CLIENT_MULTI_STATEMENTS | mysql.CLIENT_MULTI_RESULTS | mysql.CLIENT_PS_MULTI_RESULTS | mysql.CLIENT_PLUGIN_AUTH | mysql.CLIENT_LOCAL_FILES
	// Modern is what today's command-line clients ask for.
	Modern = Classic | mysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA | mysql.CLIENT_CONNECT_ATTRS | mysql.CLIENT_SESSION_TRACK |
		mysql.CLIENT_DEPRECATE_EOF | mysql.CLIENT_QUERY_ATTRIBUTES | mysql.CLIENT_CAN_HANDLE_EXPIRED_PASSWORDS
)

// Config says where and how to connect.
type Config struct {
	Network, Address string // "tcp" and host:port, or "unix" and a path
	User, Password   string
	Database         string // sets CLIENT_CONNECT_WITH_DB unless empty
	// Capabilities are asked for; what the server does not offer is left out. 0 means Modern.
	Capabilities uint32
	// MariaDB are the extended capabilities asked for. Any of them clears CLIENT_LONG_PASSWORD, which is how a client
	// tells MariaDB that it knows them.
	MariaDB    uint32
	Collation  byte              // 0 means 45, utf8mb4_general_ci, which every server has
	Attributes map[string]string // sent when CLIENT_CONNECT_ATTRS is negotiated
	Plugin     string            // the plugin of the first answer; "" means the server's own suggestion
	// LocalInfile gives the content for a LOAD DATA LOCAL INFILE of name; nil refuses every file with an empty packet.
	LocalInfile func(name string) []byte
	Timeout     time.Duration // for each packet; 0 means 30 s
	TLS         *tls.Config   // asks for TLS with these settings unless nil
	KeepRaw     bool          // fill Reply.Raw and Reply.Sent
	Header      string        // sent before anything else, as a load balancer does
	Socket      net.Conn      // is used instead of dialling, unless nil
}

// Conn is one connection. One goroutine may use it at a time.
type Conn struct {
	Greeting Greeting
	// Capabilities and MariaDB are the negotiated bits.
	Capabilities, MariaDB uint32
	// Login is the last packet of the authentication, an OK.
	Login Reply

	config   Config
	secure   bool // the password may be said in clear: TLS, or a unix socket
	socket   net.Conn
	in       *bufio.Reader
	sequence byte // of the next packet, in either direction
	scramble []byte
	reply    *Reply // packets are counted here
	sent     []byte // since the command began, when KeepRaw is set
}

// Greeting is the server's first packet.
type Greeting struct {
	Version      string
	ThreadID     uint32
	Scramble     []byte
	Capabilities uint32
	MariaDB      uint32
	Collation    byte
	Status       uint16
	Plugin       string
}

// ServerError is an ERR packet as a Go error.
type ServerError struct{ ERR }

func (e *ServerError) Error() string {
	return fmt.Sprintf("ERR %d (%s): %s", e.Code, e.State, e.Message)
}

// Connect dials and logs in. An ERR of the server is a *ServerError.
func Connect(config Config) (*Conn, error) {
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second
	}
	if config.Capabilities == 0 {
		config.Capabilities = Modern
	}
	if config.Collation == 0 {
		config.Collation = 45
	}
	socket := config.Socket
	if socket == nil {
		var err error
		if socket, err = net.DialTimeout(config.Network, config.Address, config.Timeout); err != nil {
			return nil, err
		}
	}
	if _, err := io.WriteString(socket, config.Header); err != nil {
		socket.Close()
		return nil, err
	}
	c := newConn(socket, config)
	if err := c.login(); err != nil {
		socket.Close()
		return nil, err
	}
	return c, nil
}

func newConn(socket net.Conn, config Config) *Conn {
	return &Conn{config: config, socket: socket, in: bufio.NewReaderSize(socket, 64<<10)}
}

// Close ends the connection without a COM_QUIT.
func (c *Conn) Close() error { return c.socket.Close() }

// Socket is the network connection, for tests that cut it or write bytes of their own.
func (c *Conn) Socket() net.Conn { return c.socket }

// Quit sends COM_QUIT and waits for the server to close.
func (c *Conn) Quit() error {
	defer c.socket.Close()
	if err := c.begin([]byte{mysql.COM_QUIT}); err != nil {
		return err
	}
	c.deadline()
	if n, err := io.Copy(io.Discard, c.in); err != nil {
		return fmt.Errorf("quit: %w", err)
	} else if n > 0 {
		return fmt.Errorf("quit: %d bytes instead of the end", n)
	}
	return nil
}

func (c *Conn) deadline() { _ = c.socket.SetDeadline(time.Now().Add(c.config.Timeout)) }

const maxPayload = 1<<24 - 1

// writePacket sends a payload, in several packets when it is long.
func (c *Conn) writePacket(payload []byte) error {
	c.deadline()
	out := make([]byte, 0, len(payload)+4)
	for {
		n := min(len(payload), maxPayload)
		out = append(out, byte(n), byte(n>>8), byte(n>>16), c.sequence)
		out = append(out, payload[:n]...)
		c.sequence++
		payload = payload[n:]
		if n < maxPayload {
			break
		}
	}
	if c.config.KeepRaw {
		c.sent = append(c.sent, out...)
	}
	_, err := c.socket.Write(out)
	return err
}

// readPacket returns the next payload, put together again when it came in several packets. The caller owns it.
func (c *Conn) readPacket() ([]byte, error) {
	var payload []byte
	for {
		c.deadline()
		var header [4]byte
		if _, err := io.ReadFull(c.in, header[:]); err != nil {
			return nil, err
		}
		n := int(header[0]) | int(header[1])<<8 | int(header[2])<<16
		at := len(payload)
		payload = append(payload, make([]byte, n)...)
		if _, err := io.ReadFull(c.in, payload[at:]); err != nil {
			return nil, errors.Join(fmt.Errorf("packet of %d bytes is cut off", n), err)
		}
		if c.reply != nil {
			c.reply.Packets++
			if header[3] != c.sequence {
				c.reply.Sequence = append(c.reply.Sequence,
					fmt.Sprintf("packet %d has %d instead of %d", c.reply.Packets, header[3], c.sequence))
			}
			if c.config.KeepRaw {
				c.reply.Raw = append(append(c.reply.Raw, header[:]...), payload[at:]...)
			}
		}
		c.sequence = header[3] + 1
		if n < maxPayload {
			return payload, nil
		}
	}
}

// begin sends a command.
func (c *Conn) begin(command []byte) error {
	c.sequence = 0
	c.sent = nil
	return c.writePacket(command)
}

// IsLost tells whether an error means that the connection has ended, at the start of a packet or by a reset.
func IsLost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
