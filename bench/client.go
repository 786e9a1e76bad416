package bench

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tmpproxy/testbed/rawclient"
)

// A login says where and as whom to connect.
type login struct {
	network, address string // "tcp" and host:port, or "unix" and a path
	user, password   string
	schema           string
	tls              bool
}

// A client is one connection that costs as little as can be, so that what is measured is the other side: a blocking
// socket, used by one thread, with the system calls that an old C client makes: one write and mostly one read per
// statement. Rows are counted and not decoded.
type client struct {
	file *os.File // owns fd
	fd   int
	tls  *tls.Conn // over the same socket; nil without
	out  []byte    // statements that are put together
	in   []byte
	from int // of what is read in in and not yet used
	to   int
}

const (
	answerTimeout = 60 * time.Second // an answer that never comes is an error
	maxPayload    = 1<<24 - 1
	readSize      = 64 << 10
)

// capabilities are those of clients of MySQL 5.5's time, but for local files.
const capabilities = rawclient.Classic &^ 0x80

const clientSSL = 0x800 // the capability

// connect makes a connection and logs in.
func connect(l login) (*client, error) {
	config := rawclient.Config{Network: l.network, Address: l.address, User: l.user, Password: l.password,
		Database: l.schema, Capabilities: capabilities, Timeout: answerTimeout}
	if l.tls {
		return connectTLS(l, config)
	}
	session, err := rawclient.Connect(config)
	if err != nil {
		return nil, err
	}
	defer session.Close() // the client has a descriptor of its own
	return newClient(session.Socket())
}

// connectTLS does the same with TLS, over the blocking socket from the beginning. Certificates are not looked at.
func connectTLS(l login, config rawclient.Config) (*client, error) {
	c, err := dial(l.network, l.address)
	if err != nil {
		return nil, err
	}
	config.Socket, config.TLS = blocking{c}, &tls.Config{InsecureSkipVerify: true}
	session, err := rawclient.Connect(config)
	if err != nil {
		c.close()
		return nil, err
	}
	c.tls = session.Socket().(*tls.Conn)
	return c, nil
}

// blocking is a client's socket as TLS wants it. Its time is limited already.
type blocking struct{ c *client }

func (b blocking) Read(p []byte) (int, error) {
	n, err := b.c.readSocket(p)
	if errors.Is(err, errEnd) {
		err = io.EOF
	}
	return n, err
}

func (b blocking) Write(p []byte) (int, error) {
	if err := b.c.writeSocket(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (b blocking) Close() error                   { return b.c.file.Close() }
func (blocking) LocalAddr() net.Addr              { return nil }
func (blocking) RemoteAddr() net.Addr             { return nil }
func (blocking) SetDeadline(time.Time) error      { return nil }
func (blocking) SetReadDeadline(time.Time) error  { return nil }
func (blocking) SetWriteDeadline(time.Time) error { return nil }

// dial makes a connection without a login.
func dial(network, address string) (*client, error) {
	conn, err := net.DialTimeout(network, address, answerTimeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return newClient(conn)
}

// newClient takes a descriptor of its own for a connection; the caller closes conn.
func newClient(conn net.Conn) (*client, error) {
	var file *os.File
	var err error
	switch c := conn.(type) {
	case *net.TCPConn:
		file, err = c.File()
	case *net.UnixConn:
		file, err = c.File()
	default:
		err = fmt.Errorf("a %T has no descriptor", conn)
	}
	if err != nil {
		return nil, err
	}
	c := &client{file: file, fd: int(file.Fd())} // Fd makes it blocking
	timeout := unix.NsecToTimeval(answerTimeout.Nanoseconds())
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, option, &timeout); err != nil {
			file.Close()
			return nil, fmt.Errorf("limit the time of an answer: %w", err)
		}
	}
	return c, nil
}

// close ends the connection without a farewell.
func (c *client) close() { _ = c.file.Close() }

// cut makes whoever waits for an answer on the connection fail. Any goroutine may call it.
func (c *client) cut() { _ = unix.Shutdown(c.fd, unix.SHUT_RDWR) }

// quit ends the connection as the protocol wants it: the server closes first.
func (c *client) quit() error {
	defer c.close()
	if err := c.write([]byte{1, 0, 0, 0, 1}); err != nil {
		return err
	}
	n, err := c.read(make([]byte, 1))
	if n > 0 {
		return errors.New("bytes instead of the end")
	}
	if errors.Is(err, errEnd) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}

// rest gives the connection's buffers back.
func (c *client) rest() { c.in, c.out = nil, nil }

var errEnd = errors.New("the other side has closed the connection")

func (c *client) read(p []byte) (int, error) {
	if c.tls == nil {
		return c.readSocket(p)
	}
	n, err := c.tls.Read(p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // with a farewell or without
		err = errEnd
	}
	return n, err
}

func (c *client) write(p []byte) error {
	if c.tls == nil {
		return c.writeSocket(p)
	}
	_, err := c.tls.Write(p)
	return err
}

func (c *client) readSocket(p []byte) (int, error) {
	for {
		n, err := unix.Read(c.fd, p)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return 0, fmt.Errorf("no answer within %v", answerTimeout)
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, errEnd
		default:
			return n, nil
		}
	}
}

func (c *client) writeSocket(p []byte) error {
	for len(p) > 0 {
		n, err := unix.Write(c.fd, p)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return fmt.Errorf("nothing is taken within %v", answerTimeout)
		case err != nil:
			return os.NewSyscallError("write", err)
		default:
			p = p[n:]
		}
	}
	return nil
}

// encode returns the packets of a COM_QUERY.
func encode(text string) []byte { return appendQuery(make([]byte, 0, len(text)+16), text) }

// appendQuery appends the packets of a COM_QUERY to p.
func appendQuery(p []byte, text string) []byte {
	const command = 3
	first := true
	for sequence := byte(0); ; sequence++ {
		n := len(text)
		if first {
			n++
		}
		n = min(n, maxPayload)
		p = append(p, byte(n), byte(n>>8), byte(n>>16), sequence)
		taken := n
		if first {
			p = append(p, command)
			taken--
			first = false
		}
		p = append(p, text[:taken]...)
		text = text[taken:]
		if n < maxPayload {
			return p
		}
	}
}

// An answer is what a client keeps of a statement's reply.
type answer struct {
	affected uint64
	rows     int
	bytes    int    // of the rows' payloads
	first    []byte // the beginning of the first row, at most 16 bytes
}

// A refusal is an ERR of the server.
type refusal struct {
	code    int
	message string
}

func (r *refusal) Error() string { return fmt.Sprintf("error %d: %s", r.code, r.message) }

// query runs a statement and reads its whole reply.
func (c *client) query(text string) (answer, error) {
	c.out = appendQuery(c.out[:0], text)
	return c.run(c.out)
}

// run sends the packets of a statement and reads its whole reply: an OK, an ERR, which is a *refusal, or one result set.
func (c *client) run(packets []byte) (answer, error) {
	if err := c.write(packets); err != nil {
		return answer{}, err
	}
	var a answer
	head, length, err := c.packet()
	if err != nil {
		return a, err
	}
	if length == 0 {
		return a, errors.New("an empty packet begins the reply")
	}
	switch head[0] {
	case 0x00:
		a.affected = lengthEncoded(head[1:])
		return a, nil
	case 0xff:
		return a, refused(head)
	}
	definitions := int(lengthEncoded(head))
	for range definitions + 1 { // and the EOF behind them
		if _, _, err = c.packet(); err != nil {
			return a, err
		}
	}
	for {
		head, length, err := c.packet()
		switch {
		case err != nil:
			return a, err
		case length > 0 && head[0] == 0xfe && length < 9:
			return a, nil
		case length > 0 && head[0] == 0xff:
			return a, refused(head)
		}
		if a.rows == 0 {
			a.first = append([]byte(nil), head[:min(len(head), 16)]...)
		}
		a.rows++
		a.bytes += length
	}
}

// packet reads the next packet, one of several parts as one. It returns its length and as much of its beginning as is at
// hand at once: all of it, unless it is longer than what is read at once. The bytes are good until the next call.
func (c *client) packet() (head []byte, length int, err error) {
	for part := 0; ; part++ {
		if err := c.fill(4); err != nil {
			return nil, 0, err
		}
		h := c.in[c.from:]
		n := int(h[0]) | int(h[1])<<8 | int(h[2])<<16
		c.from += 4
		kept := min(n, readSize-4)
		if err := c.fill(kept); err != nil {
			return nil, 0, err
		}
		if part == 0 {
			head = c.in[c.from : c.from+kept]
			if n > kept { // what follows overwrites it
				head = append([]byte(nil), head[:min(kept, 512)]...)
			}
		}
		c.from += kept
		length += n
		for left := n - kept; left > 0; {
			if c.from == c.to {
				if c.to, err = c.read(c.in); err != nil {
					return nil, 0, err
				}
				c.from = 0
			}
			taken := min(left, c.to-c.from)
			c.from += taken
			left -= taken
		}
		if n < maxPayload {
			return head, length, nil
		}
	}
}

// fill reads until n bytes, at most readSize, are at hand.
func (c *client) fill(n int) error {
	if c.in == nil {
		c.in = make([]byte, 2*readSize)
	}
	if c.to-c.from >= n {
		return nil
	}
	if c.from == c.to {
		c.from, c.to = 0, 0
	} else if len(c.in)-c.from < n {
		c.to = copy(c.in, c.in[c.from:c.to])
		c.from = 0
	}
	for c.to-c.from < n {
		read, err := c.read(c.in[c.to:])
		if err != nil {
			return err
		}
		c.to += read
	}
	return nil
}

// lengthEncoded reads a length-encoded integer, 0 where there is none.
func lengthEncoded(p []byte) uint64 {
	if len(p) == 0 {
		return 0
	}
	size := 0
	switch p[0] {
	case 0xfc:
		size = 2
	case 0xfd:
		size = 3
	case 0xfe:
		size = 8
	default:
		return uint64(p[0])
	}
	var n uint64
	for i := range min(size, len(p)-1) {
		n |= uint64(p[1+i]) << (8 * i)
	}
	return n
}

func refused(p []byte) error {
	r := &refusal{}
	if len(p) >= 3 {
		r.code = int(p[1]) | int(p[2])<<8
	}
	if len(p) > 9 {
		r.message = string(p[9:]) // behind # and the state
	}
	return r
}

// echo sends 64 bytes and reads as many, which must be the same.
func (c *client) echo() error {
	var sent, got [64]byte
	for i := range sent {
		sent[i] = byte(i)
	}
	if err := c.write(sent[:]); err != nil {
		return err
	}
	for n := 0; n < len(got); {
		read, err := c.read(got[n:])
		if err != nil {
			return err
		}
		n += read
	}
	if got != sent {
		return errors.New("an echo of other bytes")
	}
	return nil
}
