package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	mysql "github.com/go-sql-driver/mysql"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"tmpproxy/config"
	"tmpproxy/proxy"
	"tmpproxy/trial/replay"
)

// arms are proxies of this process, one for each strategy, in front of one server.
type arms struct {
	list []replay.Arm
	stop func()
}

// startArms starts proxies on free loopback ports. An arm is a strategy, or preserve: innodb with rewrite.on_rollback: preserve.
// further are settings, key=value.
func startArms(log *zap.Logger, backend string, names, further []string) (*arms, error) {
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	a := &arms{stop: func() {
		cancel()
		serving.Wait()
	}}
	for _, name := range names {
		c, err := armSettings(backend, name, further)
		if err == nil {
			var server *proxy.Server
			if server, err = newArm(log, c); err == nil {
				serving.Go(func() { _ = server.Serve(ctx) })
				a.list = append(a.list, replay.Arm{Name: name, Strategy: knownAs(name), Network: "tcp", Address: server.Addresses()[0].String()})
			}
		}
		if err != nil {
			a.stop()
			return nil, fmt.Errorf("arm %s: %w", name, err)
		}
	}
	return a, nil
}

// knownAs is the strategy under which an arm's differences are listed. What auto chooses may be any.
func knownAs(name string) string {
	if name == "auto" {
		return "innodb"
	}
	return name
}

func armSettings(backend, name string, further []string) (*config.Config, error) {
	args := []string{"--listen.addresses=127.0.0.1:0", "--admin.address=none", "--backend.address=" + backend, "--shutdown.grace=0s"}
	if name == "preserve" {
		args = append(args, "--rewrite.strategy=innodb", "--rewrite.on_rollback=preserve")
	} else {
		args = append(args, "--rewrite.strategy="+name)
	}
	for _, f := range further {
		args = append(args, "--"+strings.TrimLeft(f, "-"))
	}
	flags := pflag.NewFlagSet("arm", pflag.ContinueOnError)
	config.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, &usageError{err}
	}
	return config.Load("", flags)
}

func newArm(log *zap.Logger, c *config.Config) (*proxy.Server, error) {
	policy, err := newPolicy(c)
	if err != nil {
		return nil, err
	}
	monitor, err := newMonitor(c)
	if err != nil {
		return nil, err
	}
	if monitor.User == "" {
		monitor = nil
	}
	server, err := proxy.NewServer(log, proxy.Options{
		Listen: c.Listen.Addresses, Backends: c.Backend.Addresses, ProxyProtocol: c.Backend.ProxyProtocol == "v2", Check: checksOf(c), ConnectTimeout: c.Backend.ConnectTimeout,
		Limits: proxy.Limits{HandshakeTimeout: c.Limits.HandshakeTimeout}, ShutdownGrace: c.Shutdown.Grace, Driver: driver(c), Loops: c.Relay.Loops,
		Policy: policy, Monitor: monitor,
	})
	if err != nil {
		return nil, err
	}
	return server, server.Listen()
}

// parseTarget reads a DSN: user:password@tcp(host:port)/schema or user:password@unix(/path)/schema.
func parseTarget(dsn string) (*mysql.Config, error) {
	c, err := mysql.ParseDSN(dsn)
	switch {
	case err != nil:
		return nil, &usageError{err}
	case c.Net != "tcp" && c.Net != "unix":
		return nil, &usageError{errors.New("a server is tcp(host:port) or unix(/path)")}
	case c.TLSConfig != "" && c.TLSConfig != "false":
		return nil, &usageError{errors.New("TLS to the server is not spoken here")}
	}
	return c, nil
}
