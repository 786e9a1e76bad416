package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/go-sql-driver/mysql"
)

var shared struct {
	sync.Mutex
	servers map[Kind]*Server
	errs    map[Kind]error
}

// foreign names the environment variables that point to servers of the user's own, as data source names of the Go driver
// (root@tcp(127.0.0.1:3306)/). The account must be allowed everything. The tests create and drop databases, users and
// global settings there: never point them at a server that holds anything of worth.
var foreign = map[Kind]string{
	MySQL:   "TMPPROXY_TEST_MYSQL",
	MariaDB: "TMPPROXY_TEST_MARIADB",
}

// Shared returns this process's one server of a kind, started at the first call with default options. Where the kind's
// environment variable is set (TMPPROXY_TEST_MYSQL, TMPPROXY_TEST_MARIADB) it is the server that points to, which Kill and
// Restart refuse to touch. A failure is remembered. StopShared ends them all.
func Shared(ctx context.Context, kind Kind) (*Server, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.servers == nil {
		shared.servers, shared.errs = map[Kind]*Server{}, map[Kind]error{}
	}
	if s := shared.servers[kind]; s != nil {
		return s, nil
	}
	if err := shared.errs[kind]; err != nil {
		return nil, err
	}
	s, err := startShared(ctx, kind)
	if err != nil {
		shared.errs[kind] = err
		return nil, err
	}
	shared.servers[kind] = s
	return s, nil
}

func startShared(ctx context.Context, kind Kind) (*Server, error) {
	variable := foreign[kind]
	dsn := os.Getenv(variable)
	if dsn == "" {
		return Start(ctx, kind, Options{})
	}
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	if c.Net != "tcp" {
		return nil, fmt.Errorf("%s: %s is not a TCP address", variable, c.Net)
	}
	s := &Server{Kind: kind, Address: c.Addr, user: c.User, password: c.Passwd}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	if err := s.db.PingContext(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	return s, nil
}

// StopShared stops the servers that Shared started.
func StopShared() error {
	shared.Lock()
	defer shared.Unlock()
	var errs []error
	for _, s := range shared.servers {
		errs = append(errs, s.Stop())
	}
	shared.servers, shared.errs = nil, nil
	return errors.Join(errs...)
}
