package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"tmpproxy/rewrite"
	"tmpproxy/wire"
)

// Monitor asks the backend questions of the proxy's own, over connections of its own that last for one question. Safe for
// concurrent use.
type Monitor struct {
	Address  string        // host:port or the path of a unix socket
	User     string        // "" when there is no account: only Greeting can be asked for
	Password string        // may be empty
	Timeout  time.Duration // of a whole question
	TLS      BackendTLS
	Client   func(backend string) *tls.Config // as in TLS
	Proxied  bool                             // the server takes connections that begin with a PROXY protocol header: it is told that this is nobody else's
}

// ErrNoAccount is the answer to questions that need an account when there is none.
var ErrNoAccount = errors.New("no monitor account")

// RightsError says that the monitor account may not see all routines and triggers: the server hides them without a word, so
// nothing is known of any.
type RightsError struct {
	Missing []string // as GRANT would name them
}

func (e *RightsError) Error() string {
	return "the monitor account lacks " + strings.Join(e.Missing, ", ")
}

// Body is the text of a stored procedure, function, package or trigger, or of a parameter's type taken from a table.
type Body struct {
	Schema, Name string
	Kind         string // PROCEDURE, FUNCTION, PACKAGE, PACKAGE BODY, TRIGGER or PARAMETER
	Language     string // SQL, or what the server calls another one
	Text         string
	Readable     bool // the account may read Text
}

// Mentions says whether the body may name the table. One in another language than SQL, or that may not be read, may name any.
func (b Body) Mentions(table string) bool {
	return b.Opaque() || rewrite.Mentions([]byte(b.Text), table)
}

// Opaque says whether nothing can be told from the body's text.
func (b Body) Opaque() bool { return !b.Readable || !strings.EqualFold(b.Language, "SQL") }

// System says whether the body comes with the server.
func (b Body) System() bool {
	return slices.Contains([]string{"sys", "mysql", "information_schema", "performance_schema"}, strings.ToLower(b.Schema))
}

// maxBodies bounds the texts of all bodies together, in bytes.
const maxBodies = 32 << 20

// bodiesQuery answers one row per body. Events are left out: they run in sessions of their own, where no client's temporary table
// is. MariaDB's parameters may have the type of a table's column or row, and a temporary table is found for it (observed on
// MariaDB 10.11); their types' texts are not part of the routine's.
const bodiesQuery = `SELECT ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_TYPE, COALESCE(EXTERNAL_LANGUAGE, ROUTINE_BODY), ROUTINE_DEFINITION
 FROM information_schema.ROUTINES
UNION ALL SELECT TRIGGER_SCHEMA, TRIGGER_NAME, 'TRIGGER', 'SQL', ACTION_STATEMENT FROM information_schema.TRIGGERS
UNION ALL SELECT SPECIFIC_SCHEMA, SPECIFIC_NAME, 'PARAMETER', 'SQL', DTD_IDENTIFIER FROM information_schema.PARAMETERS
 WHERE DATA_TYPE LIKE '%TYPE OF%'`

// Greeting reads the backend's greeting and leaves without a login. The server counts that as an error of this host, of which it
// stands some dozens in a row (max_connect_errors); with an account the login follows, which sets the count to zero.
func (m *Monitor) Greeting(ctx context.Context) (wire.Greeting, error) {
	var g wire.Greeting
	err := m.ask(ctx, func(c net.Conn) error {
		packet, err := readPacket(c, nil)
		if err == nil {
			g, err = wire.ParseGreeting(packet[wire.HeaderSize:])
		}
		if err != nil {
			return fmt.Errorf("read the greeting: %w", err)
		}
		if g.Err != nil {
			return g.Err
		}
		return nil
	})
	return g, err
}

// Variables returns the global values of system variables; what the server does not know is not in the map.
func (m *Monitor) Variables(ctx context.Context, names ...string) (map[string]string, error) {
	query, err := variablesQuery(names)
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(names))
	err = m.login(ctx, func(c *client.Conn) error {
		return rows(c, query, func(row []mysql.FieldValue) error {
			if len(row) != 2 {
				return fmt.Errorf("a variable of %d columns", len(row))
			}
			name, _ := column(row[0])
			value, _ := column(row[1])
			values[strings.ToLower(name)] = value
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read variables: %w", err)
	}
	return values, nil
}

var variableName = regexp.MustCompile(`^[a-z0-9_]+$`)

func variablesQuery(names []string) (string, error) {
	for _, name := range names {
		if !variableName.MatchString(name) {
			return "", fmt.Errorf("read variables: %q is no name of a variable", name)
		}
	}
	return "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('" + strings.Join(names, "','") + "')", nil
}

// Bodies reads all bodies of the server, its own included. Unless the account is seen to have every right that this takes, the
// answer is a *RightsError.
func (m *Monitor) Bodies(ctx context.Context) ([]Body, error) {
	var bodies []Body
	err := m.login(ctx, func(c *client.Conn) error {
		var grants []string
		err := rows(c, "SHOW GRANTS", func(row []mysql.FieldValue) error {
			if len(row) != 1 {
				return fmt.Errorf("a grant of %d columns", len(row))
			}
			grant, _ := column(row[0])
			grants = append(grants, grant)
			return nil
		})
		if err != nil {
			return err
		}
		if missing := missingRights(grants); len(missing) > 0 {
			return &RightsError{missing}
		}
		size := 0
		return rows(c, bodiesQuery, func(row []mysql.FieldValue) error {
			b, err := parseBody(row)
			if err != nil {
				return err
			}
			if size += len(b.Text); size > maxBodies {
				return fmt.Errorf("they are longer than %d bytes", maxBodies)
			}
			bodies = append(bodies, b)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read routines and triggers: %w", err)
	}
	return bodies, nil
}

func parseBody(row []mysql.FieldValue) (Body, error) {
	var text [5]string
	var known [5]bool
	if len(row) != len(text) {
		return Body{}, fmt.Errorf("a body of %d columns", len(row))
	}
	for i := range row {
		text[i], known[i] = column(row[i])
	}
	return Body{Schema: text[0], Name: text[1], Kind: text[2], Language: text[3], Text: text[4], Readable: known[4]}, nil
}

// grantPattern takes GRANT rights ON object TO account apart. Of the lines of SHOW GRANTS those of MariaDB's roles name no host
// behind TO: a role need not be active, so they do not count.
var grantPattern = regexp.MustCompile(`^(GRANT|REVOKE) (.+) ON (\S+) (?:TO|FROM) ['"\x60][^'"\x60]*['"\x60]@`)

// missingRights returns what an account of these grants (lines of SHOW GRANTS) lacks to see every routine and every trigger.
func missingRights(grants []string) []string {
	var routines, triggers bool
	var revoked []string
	for _, grant := range grants {
		match := grantPattern.FindStringSubmatch(grant)
		if match == nil {
			continue
		}
		object := strings.Map(func(r rune) rune {
			if r == '`' || r == '"' {
				return -1
			}
			return r
		}, match[3])
		for right := range strings.SplitSeq(match[2], ", ") {
			all := right == "ALL PRIVILEGES" || right == "ALL"
			if match[1] == "REVOKE" {
				if all || slices.Contains([]string{"SELECT", "TRIGGER"}, right) {
					revoked = append(revoked, right+" ON "+object)
				}
				continue
			}
			switch object {
			case "*.*":
				routines = routines || all || right == "SELECT" || right == "SHOW_ROUTINE" || right == "SHOW CREATE ROUTINE"
				triggers = triggers || all || right == "TRIGGER"
			case "mysql.*", "mysql.proc":
				routines = routines || all || right == "SELECT"
			}
		}
	}
	var missing []string
	if !routines {
		missing = append(missing, "SHOW_ROUTINE ON *.* (MariaDB: SELECT ON mysql.proc)")
	}
	if !triggers {
		missing = append(missing, "TRIGGER ON *.*")
	}
	return append(missing, revoked...)
}

// column returns a column's text, and false for NULL. The text is a copy.
func column(v mysql.FieldValue) (string, bool) {
	switch x := v.Value().(type) {
	case nil:
		return "", false
	case []byte:
		return string(x), true
	default:
		return fmt.Sprint(x), true
	}
}

// rows hands the rows of a query to each, one after the other; what each is given is valid during the call.
func rows(c *client.Conn, query string, each func([]mysql.FieldValue) error) error {
	var result mysql.Result
	defer result.Close()
	return c.ExecuteSelectStreaming(query, &result, each, nil)
}

// login calls question with a connection that is logged in.
func (m *Monitor) login(ctx context.Context, question func(*client.Conn) error) error {
	if m.User == "" {
		return ErrNoAccount
	}
	return m.ask(ctx, func(raw net.Conn) error {
		c, err := m.enter(ctx, raw)
		if err != nil {
			return err
		}
		if err := question(c); err != nil {
			return plain(err)
		}
		_ = c.Quit() // a farewell; the answer is here
		return nil
	})
}

// enter logs in over a connection.
func (m *Monitor) enter(ctx context.Context, raw net.Conn) (*client.Conn, error) {
	raw, secure, err := m.wantsTLS(raw)
	if err != nil {
		return nil, err
	}
	dialled := func(context.Context, string, string) (net.Conn, error) { return raw, nil }
	c, err := client.ConnectWithDialer(ctx, network(m.Address), m.Address, m.User, m.Password, "", dialled, func(c *client.Conn) error {
		if secure {
			c.SetTLSConfig(m.Client(m.Address)) // it fails where the server does not offer TLS
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("log in as %s: %w", m.User, plain(err))
	}
	return c, nil
}

// wantsTLS says whether a connection is to have TLS. It returns what the connection is from then on.
func (m *Monitor) wantsTLS(raw net.Conn) (net.Conn, bool, error) {
	switch {
	case m.TLS == BackendTLSDisabled || m.TLS == BackendTLSPreferred && network(m.Address) == "unix":
		return raw, false, nil
	case m.TLS != BackendTLSPreferred:
		return raw, true, nil
	}
	packet, err := readPacket(raw, nil)
	if err != nil {
		return nil, false, fmt.Errorf("read the greeting: %w", err)
	}
	g, err := wire.ParseGreeting(packet[wire.HeaderSize:])
	return &greeted{raw, packet}, err == nil && g.Capabilities.Has(wire.ClientSSL), nil
}

// greeted is a connection of which the greeting was read.
type greeted struct {
	net.Conn
	greeting []byte
}

func (g *greeted) Read(b []byte) (int, error) {
	if len(g.greeting) == 0 {
		return g.Conn.Read(b)
	}
	n := copy(b, g.greeting)
	g.greeting = g.greeting[n:]
	return n, nil
}

func (m *Monitor) dial(ctx context.Context) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network(m.Address), m.Address)
	if err == nil && m.Proxied {
		if _, err = conn.Write(appendProxyLocal(nil)); err != nil {
			conn.Close()
		}
	}
	return conn, err
}

// plain drops the stack that go-mysql keeps with an error.
func plain(err error) error {
	var refused *mysql.MyError
	if errors.As(err, &refused) {
		return refused
	}
	return err
}

// ask calls question with a connection that is given up when ctx ends or the time is over.
func (m *Monitor) ask(ctx context.Context, question func(net.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	conn, err := m.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := question(conn); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", m.Address, ctx.Err())
		}
		return fmt.Errorf("%s: %w", m.Address, err)
	}
	return nil
}
