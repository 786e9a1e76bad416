package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

// check looks at one backend again and again until ctx is done.
//
// With the monitor account it asks over a connection that it keeps, which costs the server nothing that it counts as an error. Without
// one it only knocks: the kernel of the server's machine answers whether somebody listens, the server itself is not told, and counts and
// logs nothing. Where knocking is not possible (unix sockets, other systems than Linux) a backend that is up is known by the clients'
// connections. One that is down must greet before it is up again: that connection is kept for the next client.
func (bs *backends) check(ctx context.Context, b *backend) {
	options := &bs.server.options
	look := func(ctx context.Context) error {
		if bs.isDown(b) {
			return bs.server.greeted(ctx, b)
		}
		return bs.server.knock(ctx, b.address)
	}
	if m := options.Monitor; m != nil && m.User != "" {
		own := *m
		own.Address = b.address
		p := &pulse{monitor: &own}
		defer p.close()
		look = p.check
	}
	tick := time.NewTicker(options.Check.Interval)
	defer tick.Stop()
	for {
		if bs.watched(b) || bs.isDown(b) {
			within, cancel := context.WithTimeout(ctx, options.Check.Timeout)
			err := look(within)
			cancel()
			if ctx.Err() != nil {
				return
			}
			if !ours(err) {
				bs.note(b, err, true)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// watched says whether checks can tell of a backend that is up.
func (bs *backends) watched(b *backend) bool {
	m := bs.server.options.Monitor
	return m != nil && m.User != "" || canKnock(b.address)
}

// pulse is a connection of the monitor account's that is kept for checks.
type pulse struct {
	monitor *Monitor
	conn    *client.Conn // nil: none is open
	raw     net.Conn
	cluster bool // the server is a node of a Galera cluster
}

// check says whether the server can be used: nil, or why not.
func (p *pulse) check(ctx context.Context) error {
	if p.conn != nil {
		err := p.ask(ctx)
		if err == nil || errors.As(err, new(*notSyncedError)) {
			return err
		}
		p.close() // it may have been ended for its idleness: a new one tells
	}
	if err := p.open(ctx); err != nil {
		p.close()
		return err
	}
	err := p.ask(ctx)
	if err != nil && !errors.As(err, new(*notSyncedError)) {
		p.close()
	}
	return err
}

func (p *pulse) open(ctx context.Context) (err error) {
	if p.raw, err = p.monitor.dial(ctx); err != nil {
		return err
	}
	defer p.bound(ctx)()
	if p.conn, err = p.monitor.enter(ctx, p.raw); err != nil {
		return err
	}
	p.cluster = false
	var on, provider bool
	err = rows(p.conn, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'wsrep_provider')", func(row []mysql.FieldValue) error {
		name, value, err := pair(row)
		on = on || name == "wsrep_on" && value == "ON"
		provider = provider || name == "wsrep_provider" && value != "" && value != "none"
		return err
	})
	p.cluster = on && provider
	return plain(err)
}

// notSyncedError says that a node does not take part in its cluster.
type notSyncedError struct{ ready, state string }

func (e *notSyncedError) Error() string {
	return fmt.Sprintf("the cluster's node is not synced: wsrep_ready %s, wsrep_local_state %s", e.ready, e.state)
}

const synced = "4" // wsrep_local_state

func (p *pulse) ask(ctx context.Context) error {
	defer p.bound(ctx)()
	if !p.cluster {
		return plain(p.conn.Ping())
	}
	var n notSyncedError
	err := rows(p.conn, "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_ready', 'wsrep_local_state')", func(row []mysql.FieldValue) error {
		name, value, err := pair(row)
		switch name {
		case "wsrep_ready":
			n.ready = value
		case "wsrep_local_state":
			n.state = value
		}
		return err
	})
	if err != nil {
		return plain(err)
	}
	if n.ready != "ON" || n.state != synced {
		return &n
	}
	return nil
}

// bound has what is done with the connection end with ctx; the caller calls what it returns.
func (p *pulse) bound(ctx context.Context) (free func()) {
	raw := p.raw
	raw.SetDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

func (p *pulse) close() {
	if p.conn != nil {
		p.raw.SetDeadline(time.Now().Add(time.Second))
		_ = p.conn.Quit() // a farewell: without it the server counts an aborted client
	}
	if p.raw != nil {
		p.raw.Close()
	}
	p.conn, p.raw = nil, nil
}

// pair takes a row of a name and its value.
func pair(row []mysql.FieldValue) (name, value string, err error) {
	if len(row) != 2 {
		return "", "", fmt.Errorf("a variable of %d columns", len(row))
	}
	name, _ = column(row[0])
	value, _ = column(row[1])
	return name, value, nil
}
