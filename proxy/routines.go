package proxy

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"tmpproxy/rewrite"
	"tmpproxy/session"
)

// bodies are the texts of all stored routines and triggers of the backend, as read at one moment.
type bodies struct {
	list   []Body
	own    bool // there are some that do not come with the server
	opaque bool // one of these may mention anything

	mu    sync.Mutex
	known map[string]bool // answers of mentions
}

const maxKnownNames = 16 << 10 // answers of mentions that are kept

// newBodies takes what the monitor read. Those that come with the server are known to take no names but those of their texts and
// of the call, which is scanned like any other statement.
func newBodies(all []Body) *bodies {
	b := &bodies{list: all}
	for _, body := range all {
		if body.System() {
			continue
		}
		b.own = true
		text := []byte(body.Text)
		// SQL that is put together at run time may name any table.
		dynamic := rewrite.Mentions(text, "prepare") || rewrite.Mentions(text, "immediate")
		b.opaque = b.opaque || body.Opaque() || dynamic
	}
	return b
}

func (b *bodies) any() bool { return b.own }

// mentions says whether a body may name the table. Safe for concurrent use.
func (b *bodies) mentions(table string) bool {
	if b.opaque {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if m, ok := b.known[table]; ok {
		return m
	}
	m := false
	for i := range b.list {
		if m = b.list[i].Mentions(table); m {
			break
		}
	}
	if b.known == nil || len(b.known) >= maxKnownNames {
		b.known = map[string]bool{}
	}
	b.known[table] = m
	return m
}

// retryBodies is when reading is tried again after it failed.
const retryBodies = 10 * time.Second

// watchRoutines keeps the ledger's bodies fresh while the policy asks for them, until ctx is done. They are read from the backend that
// first names.
func (sh *shared) watchRoutines(ctx context.Context, m *Monitor, first func() string, log *zap.Logger) {
	failed := ""
	for {
		wait := time.Duration(sh.ledger.maxAge.Load())
		if sh.policy.Load().Routines != session.RoutinesVisible {
			here := *m
			here.Address = first()
			all, err := here.Bodies(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				sh.ledger.bodies.Store(nil) // everything is left alone
				wait = min(wait, retryBodies)
				if failed != err.Error() {
					log.Error("routines could not be read: temporary tables are left to the server", zap.Error(err))
					failed = err.Error()
				}
			default:
				failed = ""
				sh.ledger.bodies.Store(newBodies(all))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-sh.changed:
		case <-time.After(wait):
		}
	}
}
