package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestGoMySQLClient lets the client of go-mysql talk to a server made of this package's functions: what one writes the
// other must read.
func TestGoMySQLClient(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	deadline := time.Now().Add(20 * time.Second)
	if err := errors.Join(ours.SetDeadline(deadline), theirs.SetDeadline(deadline)); err != nil {
		t.Fatal(err)
	}
	greeting := append([]byte(nil), greetingMySQL97...)
	if err := MaskGreeting(greeting, Carried); err != nil {
		t.Fatal(err)
	}
	g, err := ParseGreeting(greeting)
	if err != nil {
		t.Fatal(err)
	}

	// read returns the payload of the client's next packet.
	read := func() ([]byte, error) {
		var header [HeaderSize]byte
		if _, err := io.ReadFull(ours, header[:]); err != nil {
			return nil, err
		}
		n, _ := Header(header[:])
		payload := make([]byte, n)
		_, err := io.ReadFull(ours, payload)
		return payload, err
	}
	write := func(b []byte) error {
		_, err := ours.Write(b)
		return err
	}
	type query struct{ attributes, text string }
	queries := make(chan query, 10)
	logins := make(chan Login, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- func() error {
			if err := write(appendPayload(nil, 0, greeting)); err != nil {
				return err
			}
			payload, err := read()
			if err != nil {
				return err
			}
			l, err := ParseLogin(payload, g.Capabilities)
			if err != nil {
				return err
			}
			logins <- l
			caps := g.Capabilities & l.Capabilities
			if err := write(AppendOK(nil, 2, caps, OK{Status: StatusAutocommit})); err != nil {
				return err
			}
			for {
				payload, err := read()
				if err != nil {
					return err
				}
				if Command(payload[0]) == ComQuit {
					return nil
				}
				attributes, text, err := SplitQuery(payload, caps)
				if err != nil {
					return err
				}
				queries <- query{string(attributes), string(text)}
				answer := AppendOK(nil, 1, caps, OK{Affected: 300, InsertID: 70000, Status: StatusAutocommit | StatusInTrans, Warnings: 7, Info: []byte("info")})
				if string(text) == "bad" {
					answer = AppendErr(nil, 1, caps, Err{Code: 1146, State: "42S02", Message: "no such table"})
				}
				if err := write(answer); err != nil {
					return err
				}
			}
		}()
	}()

	dial := func(context.Context, string, string) (net.Conn, error) { return theirs, nil }
	c, err := client.ConnectWithDialer(context.Background(), "tcp", "test", "user", "secret", "lab", dial, func(c *client.Conn) error {
		c.SetAttributes(map[string]string{"key": "value"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l := <-logins
	if l.User != "user" || l.Schema != "lab" || l.Plugin != mysql.AUTH_CACHING_SHA2_PASSWORD || l.AuthLen != 32 || !l.Attributes ||
		l.Old || l.SSLRequest || l.Collation != uint16(mysql.DEFAULT_COLLATION_ID) {
		t.Errorf("login %+v", l)
	}
	if c.GetConnectionID() != g.ThreadID || c.GetServerVersion() != g.Version {
		t.Errorf("the client read thread %d, version %q", c.GetConnectionID(), c.GetServerVersion())
	}

	result, err := c.Execute("good")
	if err != nil {
		t.Fatal(err)
	}
	if result.AffectedRows != 300 || result.InsertId != 70000 || result.Status != StatusAutocommit|StatusInTrans || result.Warnings != 7 {
		t.Errorf("the client read %d rows, id %d, status %#x, %d warnings", result.AffectedRows, result.InsertId, result.Status, result.Warnings)
	}
	if got := <-queries; got.text != "good" || got.attributes != "\x00\x01" {
		t.Errorf("the query is %q with attributes %q", got.text, got.attributes)
	}

	attribute := mysql.QueryAttribute{Name: "trace", Value: "abc"}
	if err := c.SetQueryAttributes(attribute); err != nil {
		t.Fatal(err)
	}
	_, err = c.Execute("bad")
	var theirErr *mysql.MyError
	if !errors.As(err, &theirErr) || theirErr.Code != 1146 || theirErr.State != "42S02" || theirErr.Message != "no such table" {
		t.Errorf("the client read %v", err)
	}
	if got := <-queries; got.text != "bad" || got.attributes != string(attributeBlock(attribute)) {
		t.Errorf("the query is %q with attributes %q", got.text, got.attributes)
	}
	if err := c.Quit(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
