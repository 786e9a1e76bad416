package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tmpproxy/session"
)

const (
	readSize   = 32 << 10        // bytes of one read
	maxQueue   = 4 << 20         // bytes that a conversation may have waiting for one side; reading pauses long before
	maxFrames  = 40 << 20        // the same of a compressed session, whose frames of up to 16 MiB go on in one piece
	maxDiscard = 16 << 20        // bytes of a closed client's input that are thrown away
	maxSpares  = 8               // greeted backend connections kept for other clients
	spareAge   = 5 * time.Second // half of the server's default connect_timeout
	reserved   = 64              // descriptors that are not for sessions
)

// Options are the settings of a Server.
type Options struct {
	Listen []string // host:port, or the path of a unix socket; at least one, unless there are Listeners
	// Listeners are used in place of Listen: TCP or unix sockets that another program has made, and keeps.
	Listeners []net.Listener
	Share     bool // let another process listen at the addresses of Listen at the same time, and hand over to it at the end
	// ProxyNetworks are where clients come from that have to say by a PROXY protocol header for whom they come, and ProxyUnix says that
	// those of unix sockets have to. Nobody else may.
	ProxyNetworks []netip.Prefix
	ProxyUnix     bool
	// ProxyProtocol has connections to backends begin with such a header, of version 2.
	ProxyProtocol bool
	Backends      []string // likewise; new sessions go to the first that is up
	Check         Check    // of Backends, if they are several

	ConnectTimeout time.Duration // of dialling the backend; 0: the system's
	ShutdownFinish time.Duration // how long sessions are left alone when Serve's context is done
	ShutdownGrace  time.Duration // how long transactions may go on after that

	Limits // at the start: see SetLimits

	Driver string // "loop" (Linux), "pump", or "" for the best there is
	Loops  int    // event loops; 0: by the number of processors
	Bundle bool   // event loops make many writes at once, through io_uring, where that is possible

	TLS TLS // without it, neither leg has TLS

	Policy  *session.Policy // what is done with temporary tables
	Monitor *Monitor        // reads routines for Policy.Routines; nil: nothing is known of them
}

// Limits bound what clients can have.
type Limits struct {
	MaxSessions     int // 0: what descriptors allow, which is the upper bound in any case
	MaxHostSessions int // sessions of one client host, those of unix sockets being one; 0: no limit
	MaxUserSessions int // sessions that are logged in as one user, from whatever host; 0: no limit
	MaxHandshakes   int // sessions that are not logged in yet; 0: no limit of its own
	MaxBuffered     int // bytes that sessions hold in buffers, above which no client is let in and no large compressed frame taken; 0: no limit

	HandshakeTimeout time.Duration // between the backend connection and the login; 0: none. Should be below the server's connect_timeout
	IdleTimeout      time.Duration // how long a client may keep the session waiting for it; 0: for ever
}

// Counts are a Server's counters. They only grow.
type Counts struct {
	Accepted          atomic.Uint64
	RefusedSessions   atomic.Uint64 // by Limits.MaxSessions
	RefusedHandshakes atomic.Uint64 // by Limits.MaxHandshakes
	RefusedBuffers    atomic.Uint64 // by Limits.MaxBuffered: clients, and sessions with compressed frames
	RefusedHosts      atomic.Uint64 // by Limits.MaxHostSessions
	RefusedUsers      atomic.Uint64 // by Limits.MaxUserSessions
	RefusedHeaders    atomic.Uint64 // by Options.ProxyNetworks
	Shortages         atomic.Uint64 // connections that found no descriptors
	DialFailures      atomic.Uint64
	HandshakeTimeouts atomic.Uint64
	IdleTimeouts      atomic.Uint64
	Panics            atomic.Uint64
	Overflows         atomic.Uint64 // sessions ended because a queue would have grown over its bound
	CutOff            atomic.Uint64 // sessions that Serve closed at the end of Options.ShutdownGrace
}

// SessionInfo is what can be said of a session at one moment.
type SessionInfo struct {
	ID            uint64    `json:"id"`
	Client        string    `json:"client"`
	Backend       string    `json:"backend"`
	Since         time.Time `json:"since"`
	LoggedIn      bool      `json:"logged_in"`
	ThreadID      uint32    `json:"thread_id"`             // the server's, that KILL takes
	Live          int       `json:"live"`                  // temporary tables that the client sees
	Parked        int       `json:"parked"`                // temporary tables that the client has dropped
	InTransaction bool      `json:"in_transaction"`        // as the server said last
	Raw           bool      `json:"raw"`                   // bytes are relayed and nothing is understood
	ClientTLS     string    `json:"client_tls,omitempty"`  // version on the client's leg
	BackendTLS    string    `json:"backend_tls,omitempty"` // and on the backend's
	Arm           string    `json:"arm,omitempty"`         // of the trial that is running
}

// driver carries sessions: it moves bytes between two connections as their conversation says.
type driver interface {
	// carry takes over a session and its connections. greeting is what was read of the backend's greeting. It may block for as
	// long as the session lasts. The driver calls relay.gone, of r or a copy, at the end.
	carry(r *relay, client, backend net.Conn, greeting []byte)
	// open takes over a session and its client if the driver connects to the backend itself and can begin to at once.
	open(r *relay, client net.Conn) bool
	// visit calls f for every session where its conversation may be asked.
	visit(f func(*relay))
	// alive returns when all that carries sessions has shown that it does, or ctx is done.
	alive(ctx context.Context) error
	// expire ends the sessions that have waited for their clients since before that time.
	expire(before int64)
	// drain tells all sessions, also those to come, that the process is going down.
	drain()
	// stop closes all sessions, also those to come, and returns when the driver is at rest. It may be called once.
	stop()
}

// Server listens for clients and gives each a session with the backend.
type Server struct {
	options Options
	journal *journal
	log     *zap.Logger
	shared  *shared
	counts  Counts

	newConversation func() *conversation
	newDouble       func() double // tests
	knock           func(ctx context.Context, address string) error

	most   int           // sessions that descriptors allow
	linger time.Duration // how long a closed client's input is thrown away

	listeners []net.Listener
	last      atomic.Bool     // what is in the listeners' queues is accepted, and then no more
	closing   chan struct{}   // closed when no more clients are admitted
	dialing   context.Context // done likewise
	cancel    context.CancelFunc
	workers   workers
	backends  backends
	hosts     tally       // of sessions
	bundling  atomic.Bool // an event loop makes its writes through io_uring
	hop       hop

	mu     sync.Mutex
	driver driver // since Serve

	ids           atomic.Uint64
	active        atomic.Int64   // sessions, those that are dialling or lingering included
	handshakes    atomic.Int64   // sessions that are not logged in yet
	refusalLogged atomic.Int64   // when a refusal was logged last: monotonic nanoseconds
	sessions      sync.WaitGroup // likewise active

	probing chan struct{} // holds one token: one Ready asks at a time
	limited chan struct{} // holds a token after the limits were changed
}

// NewServer makes a server of valid options. It neither listens nor dials.
func NewServer(log *zap.Logger, o Options) (*Server, error) {
	limit, err := descriptorLimit()
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: o,
		journal: newJournal(log),
		log:     log,
		linger:  time.Second,
		most:    max(1, (limit-reserved)/2),
		closing: make(chan struct{}),
		workers: workers{max: max(2, runtime.GOMAXPROCS(0))},
		probing: make(chan struct{}, 1),
		limited: make(chan struct{}, 1),
	}
	s.dialing, s.cancel = context.WithCancel(context.Background())
	switch {
	case len(o.Listen) == 0 && len(o.Listeners) == 0 || len(o.Backends) == 0:
		return nil, errors.New("a server needs an address to listen on and a backend")
	case o.Driver != "" && o.Driver != "loop" && o.Driver != "pump":
		return nil, fmt.Errorf("no driver is called %q", o.Driver)
	}
	policy := o.Policy
	if policy == nil {
		policy = &session.Policy{Strategy: session.StrategyNative}
	}
	s.shared = newShared(policy, s.journal)
	s.knock = knock
	s.backends.server = s
	s.backends.set(o.Backends)
	s.shared.tls = o.TLS
	s.shared.refused = s.refusedUser
	s.shared.noRoom = func(client string) {
		s.counts.RefusedBuffers.Add(1)
		s.logRefusal("max_buffered", client)
	}
	s.SetLimits(o.Limits)
	s.newConversation = func() *conversation { return newConversation(s.shared) }
	return s, nil
}

// SetPolicy puts other settings in force, from the next command of every session on. Safe for concurrent use.
func (s *Server) SetPolicy(p *session.Policy) { s.shared.setPolicy(p) }

// SetLimits puts other limits in force: for clients to come, and for those that are there as far as it can be. Nobody who was let in is
// sent away. Safe for concurrent use.
func (s *Server) SetLimits(l Limits) {
	if l.MaxSessions == 0 || l.MaxSessions > s.most {
		l.MaxSessions = s.most
	}
	if l.MaxHandshakes == 0 {
		l.MaxHandshakes = l.MaxSessions
	}
	s.shared.limits.Store(&l)
	select {
	case s.limited <- struct{}{}:
	default:
	}
}

// limits are those in force.
func (s *Server) limits() *Limits { return s.shared.limits.Load() }

// Shapes lists what was done with temporary tables, by shape, the most cycles first. Safe for concurrent use.
func (s *Server) Shapes() []ShapeInfo { return s.shared.ledger.Shapes() }

// Listen binds all addresses or none.
func (s *Server) Listen() error {
	var all []net.Listener
	for _, l := range s.options.Listeners {
		if tcp, ok := l.(*net.TCPListener); ok {
			l = inherited{tcp}
		}
		all = append(all, l)
	}
	if all != nil {
		s.listeners = all
		return nil
	}
	open := listen
	if s.options.Share {
		open = Listen
	}
	for _, address := range s.options.Listen {
		l, err := open(address)
		if err != nil {
			for _, l := range all {
				l.Close()
			}
			return err
		}
		all = append(all, l)
	}
	s.listeners = all
	return nil
}

// Addresses returns the bound addresses in the order of Options.Listen.
func (s *Server) Addresses() []net.Addr {
	all := make([]net.Addr, len(s.listeners))
	for i, l := range s.listeners {
		all[i] = l.Addr()
	}
	return all
}

// Counts returns the counters, which may be read at any time.
func (s *Server) Counts() *Counts { return &s.counts }

// IOURing says whether event loops make many writes in one system call. Safe for concurrent use.
func (s *Server) IOURing() bool { return s.bundling.Load() }

// Serve admits clients, after Listen, until ctx is done. Then it closes the listeners, leaves the sessions alone for
// Options.ShutdownFinish, and asks those that are left to end; the ones that have not after Options.ShutdownGrace are closed. It returns
// when all is closed. It may be called once.
func (s *Server) Serve(ctx context.Context) error {
	d, err := s.newDriver()
	if err != nil {
		s.closeListeners()
		return err
	}
	s.mu.Lock()
	s.driver = d
	s.mu.Unlock()
	go s.journal.run()
	var watching sync.WaitGroup
	if m := s.options.Monitor; m != nil && m.User != "" {
		watching.Go(func() {
			s.shared.watchRoutines(s.dialing, m, func() string { return s.backends.first().address }, s.log)
		})
	}

	watching.Go(func() { s.watchIdle(s.dialing, d) })
	s.backends.start(s.dialing)
	var accepting sync.WaitGroup
	for _, l := range s.listeners {
		accepting.Go(func() { s.accept(l) })
	}
	<-ctx.Done()
	if s.options.Share && s.options.Listeners == nil { // those keep their queues for the next process
		s.handOver(&accepting)
	}
	close(s.closing)
	s.closeListeners()
	accepting.Wait()
	s.awaitSessions(s.options.ShutdownFinish)
	s.cancel()
	d.drain()
	s.awaitSessions(s.options.ShutdownGrace)
	d.stop()
	s.sessions.Wait()
	watching.Wait()
	s.backends.end()
	s.journal.stop()
	return nil
}

// mostBetweenLooks is the time from one look for idle sessions to the next, at most.
const mostBetweenLooks = time.Second

// watchIdle ends sessions by Limits.IdleTimeout until ctx is done. It looks at all of them from time to time, so that it costs them nothing
// but to note when they were active.
func (s *Server) watchIdle(ctx context.Context, d driver) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.limited:
		case <-timer.C:
		}
		if after := s.limits().IdleTimeout; after > 0 {
			d.expire(monotonic() - int64(after))
			timer.Reset(min(max(after/8, time.Millisecond), mostBetweenLooks))
		}
	}
}

func (s *Server) newDriver() (driver, error) {
	if s.options.Driver == "pump" || s.options.Driver == "" && runtime.GOOS != "linux" {
		return newPump(s), nil
	}
	return newLoops(s, s.options.Loops)
}

// isClosing says whether no more clients are admitted.
func (s *Server) isClosing() bool { return s.dialing.Err() != nil }

func (s *Server) closeListeners() {
	for _, l := range s.listeners {
		l.Close() // removes a unix socket's file
	}
}

// awaitSessions returns when no session is left, or after that time.
func (s *Server) awaitSessions(limit time.Duration) {
	if limit == 0 {
		return
	}
	none := make(chan struct{})
	go func() {
		s.sessions.Wait()
		close(none)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
	}
}

// Alive says whether everything that carries sessions does: nil, or what does not by the time that ctx is done. Safe for concurrent
// use.
func (s *Server) Alive(ctx context.Context) error {
	s.mu.Lock()
	d := s.driver
	s.mu.Unlock()
	if d == nil {
		return nil
	}
	return d.alive(ctx)
}

// Sessions describes the sessions that have a backend connection. Safe for concurrent use.
func (s *Server) Sessions() []SessionInfo {
	s.mu.Lock()
	d := s.driver
	s.mu.Unlock()
	if d == nil {
		return nil
	}
	var all []SessionInfo
	d.visit(func(r *relay) { all = append(all, r.info()) })
	return all
}

// panicked notes a panic that is not any session's.
func (s *Server) panicked(reason any, stack []byte) {
	s.counts.Panics.Add(1)
	s.journal.write(zapcore.ErrorLevel, "event loop panicked", zap.Any("error", reason), zap.ByteString("stack", stack))
}

// attempt calls f. If f panics, stack is not nil.
func attempt(f func()) (reason any, stack []byte) {
	defer func() {
		if reason = recover(); reason != nil {
			stack = debug.Stack()
		}
	}()
	f()
	return nil, nil
}
