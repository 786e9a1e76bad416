package rawclient

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// replayed is a connection whose server has said all that it ever will.
type replayed struct {
	net.Conn
	bytes.Reader
}

func (r *replayed) Read(b []byte) (int, error)       { return r.Reader.Read(b) }
func (r *replayed) Write(b []byte) (int, error)      { return len(b), nil }
func (r *replayed) SetDeadline(time.Time) error      { return nil }
func (r *replayed) Close() error                     { return nil }
func (r *replayed) WriteTo(io.Writer) (int64, error) { return 0, errors.New("not used") }

// Parse reads a reply again from its bytes, Reply.Raw, which it keeps. The capabilities are those of the connection.
func Parse(command byte, capabilities, mariaDB uint32, raw []byte) (Reply, error) {
	socket := &replayed{}
	socket.Reader.Reset(raw)
	c := &Conn{config: Config{KeepRaw: true}, socket: struct{ net.Conn }{socket}, in: bufio.NewReaderSize(socket, min(len(raw), 64<<10))}
	c.Capabilities, c.MariaDB = capabilities, mariaDB
	switch command {
	case mysql.COM_FIELD_LIST:
		return c.FieldList("t", "")
	case mysql.COM_STATISTICS:
		return c.Statistics()
	case mysql.COM_STMT_PREPARE:
		return c.Prepare("p")
	case mysql.COM_STMT_FETCH:
		return c.Fetch(1, 1)
	}
	return c.Raw([]byte{command})
}
