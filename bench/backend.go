package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
)

// schema is the database that everything happens in. It is made at the start and dropped at the end.
const schema = "tmpproxy_bench"

// A backend is the server under test.
type backend struct {
	login   login // with the schema
	product string
	version string
	mariaDB bool
	packet  int  // its max_allowed_packet
	tls     bool // it offers TLS
	db      *sql.DB
}

// openBackend starts a throw-away server, or takes the user's own, and makes the schema. What it made is undone by made.
func openBackend(ctx context.Context, o *Options, dir string, id identity, made *cleanup, say func(string, ...any)) (*backend, error) {
	var config *mysql.Config
	if o.DSN != "" {
		var err error
		if config, err = mysql.ParseDSN(o.DSN); err != nil {
			return nil, fmt.Errorf("dsn: %w", err)
		}
		if config.Net != "tcp" || config.TLSConfig != "" {
			return nil, errors.New("dsn: only TCP without TLS can be measured: user:password@tcp(host:port)/")
		}
	} else {
		args := []string{"--max-connections=1000", "--max-allowed-packet=128M", "--ssl-cert=" + id.certificate, "--ssl-key=" + id.key}
		if o.Durable {
			args = append(server.Durable, args...)
		}
		s, err := server.StartAny(ctx, o.Server, dir, args, say)
		if err != nil {
			return nil, err
		}
		made.add(s.Stop)
		config = s.Config("")
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	b := &backend{db: sql.OpenDB(connector)}
	b.db.SetMaxIdleConns(1)
	made.add(b.db.Close)
	var packet string
	if err := b.db.QueryRowContext(ctx, "SELECT @@version, @@max_allowed_packet").Scan(&b.version, &packet); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if b.packet, err = strconv.Atoi(packet); err != nil {
		return nil, fmt.Errorf("max_allowed_packet: %w", err)
	}
	b.product = "MySQL"
	if b.mariaDB = strings.Contains(b.version, "MariaDB"); b.mariaDB {
		b.product = "MariaDB"
	}
	b.login = login{network: "tcp", address: config.Addr, user: config.User, password: config.Passwd, schema: schema}
	session, err := rawclient.Connect(rawclient.Config{Network: "tcp", Address: config.Addr, User: config.User, Password: config.Passwd, Capabilities: capabilities})
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	b.tls = session.Greeting.Capabilities&clientSSL != 0
	_ = session.Quit() // it was there to be greeted
	// A schema of that name is somebody else's, or another run's.
	if err := b.exec(ctx, "CREATE DATABASE "+schema); err != nil {
		return nil, err
	}
	made.add(func() error { return b.exec(context.Background(), "DROP DATABASE IF EXISTS "+schema) })
	return b, nil
}

// exec runs statements one after the other, with the schema's tables named in full.
func (b *backend) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := b.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%.60s: %w", statement, err)
		}
	}
	return nil
}
