package proxy

import (
	"sync/atomic"
	"time"

	"tmpproxy/rewrite"
	"tmpproxy/session"
)

// shared is what all conversations of one backend share.
type shared struct {
	policy   atomic.Pointer[session.Policy]
	limits   atomic.Pointer[Limits]
	users    tally                     // of sessions that are logged in
	refused  func(user, client string) // notes a client that Limits.MaxUserSessions has no room for
	buffered atomic.Int64              // bytes that sessions hold
	noRoom   func(client string)       // notes a session that Limits.MaxBuffered has ended
	trial    atomic.Pointer[running]   // nil: none is running
	changed  chan struct{}             // holds a token after the policy was changed
	cache    *rewrite.Cache
	ledger   *ledger
	observed *observed
	recorder atomic.Pointer[Recorder]      // nil: none
	slow     atomic.Pointer[statementLogs] // likewise
	metrics  *metrics
	tls      TLS
}

const (
	cacheEntries = 8 << 10  // decisions on CREATE texts
	cacheBytes   = 16 << 20 // bytes of these texts and decisions
)

func newShared(policy *session.Policy, log *journal) *shared {
	sh := &shared{changed: make(chan struct{}, 1), cache: rewrite.NewCache(cacheEntries, cacheBytes), metrics: newMetrics(), refused: func(string, string) {}, noRoom: func(string) {}}
	sh.limits.Store(new(Limits))
	sh.ledger = newLedger(log, sh.metrics, monotonic)
	sh.observed = newObserved(sh.ledger)
	sh.ledger.maxAge.Store(policy.MaxAge)
	sh.observed.setPolicy(policy)
	sh.policy.Store(policy)
	sh.metrics.cache(sh.cache)
	return sh
}

// setPolicy puts other settings in force, for the next command of every session.
func (sh *shared) setPolicy(p *session.Policy) {
	sh.policy.Store(p)
	sh.ledger.maxAge.Store(p.MaxAge)
	sh.observed.setPolicy(p)
	select {
	case sh.changed <- struct{}{}:
	default:
	}
}

var started = time.Now()

// monotonic is the time of the process in nanoseconds; it never goes back and is never 0.
func monotonic() int64 { return int64(time.Since(started)) + 1 }
