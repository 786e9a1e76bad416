package proxy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// backend is one server that clients are given connections to. Safe for concurrent use.
type backend struct {
	address     string
	spares      spares
	sessions    atomic.Int64  // sessions that have, or are being given, a connection to it
	failures    atomic.Uint64 // dials and checks that failed
	lastContact atomic.Int64  // when it was reached last: monotonic nanoseconds
	lastFailure atomic.Int64  // when it was not

	// Guarded by backends.mu.
	down   bool
	streak int                // findings in a row that speak against down
	stop   context.CancelFunc // ends its checks; nil: there are none
}

// backends is the ordered list of servers. A new session goes to the first that is up; one that does not answer is followed by the next,
// within the same connect of the client's. Servers that are down are tried last, when nothing else is left.
//
// Where there are several they are checked all the time; a single one is only known by the clients' connections. Safe for concurrent use.
type backends struct {
	server *Server
	order  atomic.Pointer[[]*backend] // those that are up, then the others

	mu      sync.Mutex
	list    []*backend
	ctx     context.Context // of the checks; nil before serving
	ended   bool
	running sync.WaitGroup // checks, and the farewell to spares of servers that have left the list
}

// set makes these servers the list, for new sessions. Servers that were on it stay what they were.
func (bs *backends) set(addresses []string) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	before := bs.list
	bs.list = nil
	for _, address := range addresses {
		i := slices.IndexFunc(before, func(b *backend) bool { return b.address == address })
		if i >= 0 {
			bs.list = append(bs.list, before[i])
			continue
		}
		bs.list = append(bs.list, &backend{address: address, spares: spares{max: maxSpares, age: spareAge}})
	}
	bs.arrange()
	for _, b := range before {
		if !slices.Contains(bs.list, b) {
			b.endChecks()
			if !bs.ended {
				bs.running.Go(b.spares.close)
			}
		}
	}
	bs.beginChecks()
}

// start has checks begin. They end with ctx.
func (bs *backends) start(ctx context.Context) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.ctx = ctx
	bs.beginChecks()
}

// end closes what is kept of connections. The context of start is done.
func (bs *backends) end() {
	bs.mu.Lock()
	list := bs.list
	bs.ended = true
	bs.mu.Unlock()
	bs.running.Wait()
	for _, b := range list {
		b.spares.close()
	}
}

// beginChecks checks every server of a list of several, and none of a list of one. The lock is held.
func (bs *backends) beginChecks() {
	if bs.ctx == nil || bs.ended {
		return
	}
	for _, b := range bs.list {
		switch {
		case len(bs.list) == 1:
			b.endChecks()
		case b.stop == nil:
			ctx, stop := context.WithCancel(bs.ctx)
			b.stop = stop
			bs.running.Go(func() { bs.check(ctx, b) })
		}
	}
}

func (b *backend) endChecks() {
	if b.stop != nil {
		b.stop()
		b.stop = nil
	}
}

// arrange puts those that are up in front. The lock is held.
func (bs *backends) arrange() {
	order := make([]*backend, 0, len(bs.list))
	for _, down := range []bool{false, true} {
		for _, b := range bs.list {
			if b.down == down {
				order = append(order, b)
			}
		}
	}
	bs.order.Store(&order)
}

// first is where the next session goes.
func (bs *backends) first() *backend { return (*bs.order.Load())[0] }

// dialled takes the outcome of a connection that was made for a client, or for who asked whether there is a server.
func (bs *backends) dialled(b *backend, err error) {
	if err != nil && (errors.Is(err, context.Canceled) || ours(err)) {
		return
	}
	bs.note(b, err, false)
}

// note takes a finding: nil, or why the server cannot be used. What a connection finds is believed less than a check where there are
// checks: it cannot bring a server back.
func (bs *backends) note(b *backend, err error, checked bool) {
	if err == nil {
		b.lastContact.Store(monotonic())
	} else {
		b.lastFailure.Store(monotonic())
		b.failures.Add(1)
	}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if err == nil && !checked && b.stop != nil {
		return
	}
	if b.down == (err != nil) {
		b.streak = 0
		return
	}
	limit := 1
	if b.stop != nil {
		if limit = bs.server.options.Check.Rise; err != nil {
			limit = bs.server.options.Check.Fall
		}
	}
	if b.streak++; b.streak < limit {
		return
	}
	b.down, b.streak = err != nil, 0
	bs.arrange()
	if err != nil {
		bs.server.journal.write(zapcore.WarnLevel, "backend is down", zap.String("backend", b.address), zap.Error(err))
	} else {
		bs.server.journal.write(zapcore.InfoLevel, "backend is up", zap.String("backend", b.address))
	}
}

// isDown says whether the server was found to be down.
func (bs *backends) isDown(b *backend) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return b.down
}

// ours says whether a connection failed for want of something of our own.
func ours(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// next turns a session to the next backend of those it has not tried, or returns false.
func (r *relay) next() bool {
	if int(r.tried) == len(*r.order) || r.server.isClosing() {
		return false
	}
	r.leaveBackend()
	r.backend = (*r.order)[r.tried]
	r.tried++
	r.backend.sessions.Add(1)
	return true
}

func (r *relay) leaveBackend() {
	if r.backend != nil {
		r.backend.sessions.Add(-1)
	}
}

// failedOver takes a backend that ended before it greeted, or was not reached, and says whether the session goes on with another: the
// client has seen nothing yet.
func (r *relay) failedOver(err error) bool {
	r.server.backends.dialled(r.backend, err)
	if r.server.isClosing() || !r.next() {
		return false
	}
	r.server.prepare(r)
	return true
}

// ungreeted says whether the session's backend has said nothing.
func (r *relay) ungreeted() bool {
	if !r.handshaking || r.server.isClosing() {
		return false
	}
	greeting, ok := r.reusable()
	return ok && len(greeting) == 0
}

var errNoGreeting = errors.New("the connection ended before the greeting")

// Check are the settings of the checks of backends.
type Check struct {
	Interval time.Duration
	Timeout  time.Duration // of one check
	Fall     int           // failures in a row after which a backend is down
	Rise     int           // successes in a row after which it is up
}

// SetBackends makes these servers the backends of new sessions, in this order; there is at least one. Safe for concurrent use.
func (s *Server) SetBackends(addresses []string) { s.backends.set(addresses) }

// backendMetrics says how it stands with each backend. There are as many values as the settings name servers.
type backendMetrics struct {
	backends               *backends
	up, sessions, failures *prometheus.Desc
}

func newBackendMetrics(bs *backends) *backendMetrics {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("tmpproxy_backend_"+name, help, []string{"backend"}, nil)
	}
	return &backendMetrics{
		backends: bs,
		up:       desc("up", "1 if new sessions may go to the backend, 0 if it was found to be down."),
		sessions: desc("sessions", "Sessions with the backend."),
		failures: desc("failures_total", "Connections to the backend, and checks of it, that failed."),
	}
}

// Describe is prometheus.Collector's.
func (m *backendMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.up
	to <- m.sessions
	to <- m.failures
}

// Collect is prometheus.Collector's.
func (m *backendMetrics) Collect(to chan<- prometheus.Metric) {
	m.backends.mu.Lock()
	defer m.backends.mu.Unlock()
	for _, b := range m.backends.list {
		up := 1.0
		if b.down {
			up = 0
		}
		to <- prometheus.MustNewConstMetric(m.up, prometheus.GaugeValue, up, b.address)
		to <- prometheus.MustNewConstMetric(m.sessions, prometheus.GaugeValue, float64(b.sessions.Load()), b.address)
		to <- prometheus.MustNewConstMetric(m.failures, prometheus.CounterValue, float64(b.failures.Load()), b.address)
	}
}
