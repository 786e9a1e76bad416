package bench

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// idle is what a session costs that does nothing: it has logged in and asked one thing. Proxies are started for it alone,
// so that nothing before is counted, before a backend that only greets: thousands of real sessions would take the memory
// that is to be measured.

func planIdle(b *bench) ([]plan, error) {
	return b.planSessions("idle", b.options.Sessions, false)
}

// planIdleTLS is the same with TLS on both sides, for as few sessions as say something: a handshake takes long.
func planIdleTLS(b *bench) ([]plan, error) {
	if len(b.options.Sessions) == 0 {
		return nil, nil
	}
	return b.planSessions("idle-tls", []int{slices.Min(b.options.Sessions)}, true)
}

func (b *bench) planSessions(workload string, counts []int, tls bool) ([]plan, error) {
	limit, err := descriptorLimit()
	if err != nil {
		return nil, err
	}
	// Two descriptors a session in the proxy, and two here: the client's end and the backend's.
	most := max(1, (int(min(limit, 1<<30))-reserved)/2)
	arms := append(b.relayStrategy(), b.others()...)
	if tls {
		arms = slices.DeleteFunc(arms, withoutTLS)
	}
	var plans []plan
	done := 0
	for _, sessions := range slices.Sorted(slices.Values(counts)) {
		if sessions > most {
			b.note("%d idle sessions instead of %d: a process may have %d descriptors", most, sessions, limit)
			sessions = most
		}
		if sessions == done {
			continue
		}
		done = sessions
		rounds := 3
		if sessions > manySessions {
			rounds = 1
		}
		plans = append(plans, plan{
			cell: &Cell{Workload: workload, Parameters: []Parameter{{"sessions", strconv.Itoa(sessions)}}, Metrics: []Metric{
				{Key: "memory", Title: "resident memory of the proxy per idle session", Unit: Bytes},
				{Key: "base", Title: "resident memory of the proxy without sessions", Unit: Bytes}}},
			arms: arms, mostRounds: rounds, bare: true,
			open: func(w way, _ int) (player, error) { return &idlePlayer{b, w.name, sessions, tls}, nil },
		})
	}
	return plans, nil
}

// manySessions take long to open, and the more there are the less does their memory swing.
const manySessions = 2000

// withoutTLS says whether an arm cannot speak TLS: HAProxy does not know when MySQL's protocol goes over to it.
func withoutTLS(arm string) bool { return arm == haproxy }

// reserved are the descriptors that are needed for everything else.
const reserved = 500

type idlePlayer struct {
	bench    *bench
	name     string
	sessions int
	tls      bool
}

func (*idlePlayer) close() {}

func (p *idlePlayer) turn(time.Duration) (turn, error) {
	g, err := newGreeter(p.bench.identity, p.tls)
	if err != nil {
		return turn{}, err
	}
	defer g.close()
	proxy, err := p.bench.start(p.name, g.address, p.sessions, p.tls)
	if err != nil {
		return turn{}, err
	}
	t, err := p.measure(proxy)
	if stopErr := proxy.stop(); err == nil {
		err = stopErr
	}
	return t, err
}

// firstSessions are forgotten: what is allocated once is no session's.
const firstSessions = 20

func (p *idlePlayer) measure(proxy *process) (turn, error) {
	var clients []*client
	defer func() {
		for _, c := range clients {
			p.bench.release(c)
		}
	}()
	login := login{network: "tcp", address: proxy.address, user: "bench", tls: p.tls}
	open := func(n int) error {
		opened, err := p.open(login, n)
		clients = append(clients, opened...)
		return err
	}
	if err := open(firstSessions); err != nil {
		return turn{}, err
	}
	before, err := p.settled(proxy)
	if err != nil {
		return turn{}, err
	}
	if err := open(p.sessions - firstSessions); err != nil {
		return turn{}, err
	}
	after, err := p.settled(proxy)
	if err != nil {
		return turn{}, err
	}
	return turn{values: map[string]float64{
		"memory": float64(after-before) / float64(max(1, p.sessions-firstSessions)), "base": float64(before),
	}}, proxy.running()
}

// openAtOnce is how many sessions are opened at the same time: some proxies take long for one.
const openAtOnce = 16

// open opens n sessions and asks one thing in each.
func (p *idlePlayer) open(l login, n int) ([]*client, error) {
	clients := make([]*client, max(n, 0))
	errs := make([]error, openAtOnce)
	var all sync.WaitGroup
	for worker := range openAtOnce {
		all.Go(func() {
			for i := worker; i < len(clients) && errs[worker] == nil; i += openAtOnce {
				clients[i], errs[worker] = p.ask(l)
			}
		})
	}
	all.Wait()
	clients = slices.DeleteFunc(clients, func(c *client) bool { return c == nil })
	if err := errors.Join(errs...); err != nil {
		return clients, fmt.Errorf("after %d of %d sessions: %w", len(clients), n, err)
	}
	return clients, nil
}

func (p *idlePlayer) ask(l login) (*client, error) {
	c, err := p.bench.connect(l)
	if err != nil {
		return nil, err
	}
	if _, err := c.run(one); err != nil {
		p.bench.release(c)
		return nil, err
	}
	c.rest()
	return c, nil
}

// settled returns the resident memory when it has stopped changing, or does not stop for some seconds.
func (p *idlePlayer) settled(proxy *process) (int, error) {
	tick := time.NewTicker(p.bench.options.Settle)
	defer tick.Stop()
	last, same := 0, 0
	for range 20 {
		select {
		case <-p.bench.ctx.Done():
			return 0, p.bench.ctx.Err()
		case <-tick.C:
		}
		now, err := proxy.resident()
		if err != nil {
			return 0, err
		}
		if now != last {
			last, same = now, 0
		} else if same++; same == 3 {
			break
		}
	}
	return last, nil
}

// A greeter is a server that greets, believes every login and answers OK to whatever comes.
type greeter struct {
	address  string
	listener net.Listener
	security *tls.Config // nil: without TLS
}

func newGreeter(id identity, secure bool) (*greeter, error) {
	var security *tls.Config
	if secure {
		var err error
		if security, err = id.config(); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &greeter{l.Addr().String(), l, security}
	go g.serve()
	return g, nil
}

func (g *greeter) close() { _ = g.listener.Close() }

func (g *greeter) serve() {
	for id := uint32(1); ; id++ {
		conn, err := g.listener.Accept()
		if err != nil {
			return
		}
		go greet(conn, id, g.security)
	}
}

// greet serves one connection to its end. A client that TLS is offered to takes it.
func greet(conn net.Conn, id uint32, security *tls.Config) {
	defer conn.Close()
	greeting := append([]byte{10}, "8.0.0-greeter\x00"...)
	greeting = binary.LittleEndian.AppendUint32(greeting, id)
	greeting = append(greeting, "12345678\x00"...)
	offered := uint32(capabilities)
	if security != nil {
		offered |= clientSSL
	}
	greeting = binary.LittleEndian.AppendUint16(greeting, uint16(offered))
	greeting = append(greeting, 45, 2, 0) // utf8mb4, autocommit
	greeting = binary.LittleEndian.AppendUint16(greeting, uint16(offered>>16))
	greeting = append(append(greeting, 21), make([]byte, 10)...)
	greeting = append(greeting, "901234567890\x00mysql_native_password\x00"...)
	if _, err := conn.Write(append([]byte{byte(len(greeting)), 0, 0, 0}, greeting...)); err != nil {
		return
	}
	if security != nil {
		request := make([]byte, 4+32) // the head of a login
		if _, err := io.ReadFull(conn, request); err != nil {
			return
		}
		conn = tls.Server(conn, security) // closed with the connection under it
	}
	in := bufio.NewReaderSize(conn, 512)
	for {
		var header [4]byte
		if _, err := io.ReadFull(in, header[:]); err != nil {
			return
		}
		n := int(header[0]) | int(header[1])<<8 | int(header[2])<<16
		if command, err := in.Peek(min(n, 1)); err != nil || header[3] == 0 && n == 1 && command[0] == 1 {
			return // COM_QUIT
		}
		if _, err := in.Discard(n); err != nil {
			return
		}
		if _, err := conn.Write([]byte{7, 0, 0, header[3] + 1, 0, 0, 0, 2, 0, 0, 0}); err != nil {
			return
		}
	}
}
