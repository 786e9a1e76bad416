package proxy

import (
	"sync"

	"tmpproxy/rewrite"
)

// bodies are the texts of all stored routines and triggers of the backend, as read at one moment.
type bodies struct {
	texts  []string // SQL bodies
	opaque bool     // one could not be read, or is in another language: it may mention anything

	mu    sync.Mutex
	known map[string]bool // answers of mentions, bounded
}

const maxKnownNames = 16 << 10

func (b *bodies) any() bool { return b.opaque || len(b.texts) > 0 }

// mentions says whether a body may name the table. Safe for concurrent use.
func (b *bodies) mentions(table string) bool {
	if b.opaque || len(b.texts) == 0 {
		return b.opaque
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if m, ok := b.known[table]; ok {
		return m
	}
	m := false
	for _, t := range b.texts {
		if rewrite.Mentions([]byte(t), table) {
			m = true
			break
		}
	}
	if b.known == nil || len(b.known) >= maxKnownNames {
		b.known = map[string]bool{}
	}
	b.known[table] = m
	return m
}
