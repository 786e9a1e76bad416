package proxy

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"tmpproxy/rewrite"
	"tmpproxy/session"
	"tmpproxy/wire"
)

// Collectors are the metrics of the server and its sessions, for a registry of the caller's.
func (s *Server) Collectors() []prometheus.Collector {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	counter := func(name, help string, n *atomic.Uint64, labels prometheus.Labels) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(n.Load()) })
	}
	const refused = "tmpproxy_refused_clients_total"
	refusedHelp := "Clients that were refused, by reason."
	c := &s.counts
	return append(s.shared.metrics.collectors,
		newBackendMetrics(&s.backends),
		gauge("tmpproxy_sessions", "Sessions, those that are dialling or closing included.", func() float64 { return float64(s.active.Load()) }),
		gauge("tmpproxy_handshakes", "Sessions that are not logged in yet.", func() float64 { return float64(s.handshakes.Load()) }),
		gauge("tmpproxy_buffered_bytes", "Bytes that sessions hold in buffers.", func() float64 { return float64(s.shared.buffered.Load()) }),
		gauge("tmpproxy_io_uring", "1 if event loops make many writes in one system call, by io_uring.", func() float64 {
			if s.IOURing() {
				return 1
			}
			return 0
		}),
		counter("tmpproxy_accepted_clients_total", "Clients that connected.", &c.Accepted, nil),
		counter(refused, refusedHelp, &c.RefusedSessions, prometheus.Labels{"reason": "max_sessions"}),
		counter(refused, refusedHelp, &c.RefusedHandshakes, prometheus.Labels{"reason": "max_handshakes"}),
		counter(refused, refusedHelp, &c.RefusedBuffers, prometheus.Labels{"reason": "max_buffered"}),
		counter(refused, refusedHelp, &c.RefusedHosts, prometheus.Labels{"reason": "max_host_sessions"}),
		counter(refused, refusedHelp, &c.RefusedUsers, prometheus.Labels{"reason": "max_user_sessions"}),
		counter(refused, refusedHelp, &c.RefusedHeaders, prometheus.Labels{"reason": "proxy_networks"}),
		counter(refused, refusedHelp, &c.Shortages, prometheus.Labels{"reason": "descriptors"}),
		counter(refused, refusedHelp, &c.DialFailures, prometheus.Labels{"reason": "backend"}),
		counter("tmpproxy_handshake_timeouts_total", "Clients that did not log in in time.", &c.HandshakeTimeouts, nil),
		counter("tmpproxy_idle_timeouts_total", "Sessions that ended because their clients said nothing for too long.", &c.IdleTimeouts, nil),
		counter("tmpproxy_log_records_dropped_total", "Log records that were dropped because they came too fast.", &s.journal.dropped, nil),
		counter("tmpproxy_panics_total", "Sessions that ended by a fault of the proxy's own.", &c.Panics, nil),
		counter("tmpproxy_queue_overflows_total", "Sessions that ended because bytes piled up.", &c.Overflows, nil),
	)
}

// metrics are the counters of the relay and of what is done with temporary tables. Children are resolved once; counting is one
// atomic addition.
type metrics struct {
	collectors []prometheus.Collector

	relayed, answered prometheus.Counter
	observed          prometheus.Counter
	raw               *prometheus.CounterVec
	secured           [2]prometheus.Counter
	unsecured         [2]prometheus.Counter
	statements        [session.ClassPreserve + 1]prometheus.Observer
	notes             map[session.NoteKind]prometheus.Counter
	reasons           map[session.NoteKind]*prometheus.CounterVec
}

var classNames = [...]string{"other", "create", "drop", "use", "reset", "check", "settle", "replay", "preserve"}

func newMetrics() *metrics {
	m := &metrics{notes: map[session.NoteKind]prometheus.Counter{}, reasons: map[session.NoteKind]*prometheus.CounterVec{}}
	commands := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tmpproxy_commands_total", Help: "Commands of clients, by who answered them.",
	}, []string{"answered_by"})
	m.relayed, m.answered = commands.WithLabelValues("backend"), commands.WithLabelValues("proxy")
	m.raw = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tmpproxy_raw_sessions_total", Help: "Sessions that became raw relays, by what was not understood.",
	}, []string{"reason"})
	secured := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tmpproxy_tls_handshakes_total", Help: "TLS handshakes that succeeded, by leg.",
	}, []string{"side"})
	unsecured := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tmpproxy_tls_handshake_failures_total", Help: "TLS handshakes that failed, by leg.",
	}, []string{"side"})
	for _, at := range []side{clientSide, backendSide} {
		m.secured[at], m.unsecured[at] = secured.WithLabelValues(at.String()), unsecured.WithLabelValues(at.String())
	}
	m.collectors = append(m.collectors, secured, unsecured)
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tmpproxy_statement_duration_seconds",
		Help: "Durations of statements about temporary tables: create, drop and use as the client saw them, the others as the backend took.",
		// From a local answer (some microseconds) to a server in trouble.
		Buckets: prometheus.ExponentialBuckets(4e-6, 2, 20),
	}, []string{"class"})
	for class, name := range classNames {
		m.statements[class] = durations.WithLabelValues(name)
	}
	m.observed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tmpproxy_observed_cycles_total", Help: "Cycles of temporary tables that were only observed, under strategy observe.",
	})
	m.collectors = append(m.collectors, commands, m.raw, durations, m.observed)
	counter := func(kind session.NoteKind, name, help string) {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		m.notes[kind] = c
		m.collectors = append(m.collectors, c)
	}
	counter(session.NoteCycle, "tmpproxy_cycles_total", "CREATEs of temporary tables that the proxy took part in.")
	counter(session.NoteReuse, "tmpproxy_reuses_total", "CREATEs answered from a parked table.")
	counter(session.NotePark, "tmpproxy_parks_total", "DROPs answered by parking the table.")
	counter(session.NoteReplay, "tmpproxy_replays_total", "Statements sent only to restore diagnostics.")
	vector := func(kind session.NoteKind, name, help string) {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"reason"})
		m.reasons[kind] = c
		m.collectors = append(m.collectors, c)
	}
	vector(session.NoteSettle, "tmpproxy_settles_total", "Parked tables that were really dropped, by reason.")
	vector(session.NoteFallback, "tmpproxy_fallbacks_total", "CREATEs left to the server, by reason.")
	vector(session.NoteHazard, "tmpproxy_hazards_total", "Moments at which a difference between the engines may have shown, by kind.")
	vector(session.NoteTaint, "tmpproxy_taints_total", "Tables that will not be reused, by reason.")
	return m
}

// cache exports the decision cache's size.
func (m *metrics) cache(c *rewrite.Cache) {
	gauge := func(name, help string, f func() float64) {
		m.collectors = append(m.collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	gauge("tmpproxy_decision_cache_entries", "Decisions on CREATE texts in the cache.", func() float64 { n, _ := c.Len(); return float64(n) })
	gauge("tmpproxy_decision_cache_bytes", "Bytes of the decision cache.", func() float64 { _, n := c.Len(); return float64(n) })
}

// command counts one command of a client.
func (m *metrics) command(_ wire.Command, local bool) {
	if local {
		m.answered.Inc()
	} else {
		m.relayed.Inc()
	}
}

func (m *metrics) rawSession(why string) {
	if why != "" {
		m.raw.WithLabelValues(why).Inc()
	}
}

func (m *metrics) tlsSession(at side) { m.secured[at].Inc() }
func (m *metrics) tlsFailed(at side)  { m.unsecured[at].Inc() }

func (m *metrics) measure(class session.Class, ns int64) {
	m.statements[class].Observe(float64(ns) / 1e9)
}

func (m *metrics) note(n *session.Note) {
	if c, ok := m.notes[n.Kind]; ok {
		c.Inc()
	} else if v, ok := m.reasons[n.Kind]; ok {
		v.WithLabelValues(n.Reason).Inc()
	}
}
