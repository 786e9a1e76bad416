package rewrite

import (
	"hash/maphash"
	"sync"
)

// Cache remembers decisions by exact text and options, at most so many and at most
// so many bytes of them; the ones that were not asked for the longest go first. It is
// safe for concurrent use. A hit does not allocate.
type Cache struct {
	seed   maphash.Seed
	shards []shard
}

const (
	maxShards       = 16 // keeps event loops and workers out of each other's way
	minShardEntries = 64 // fewer would be crowded out by an uneven spread

	// entryOverhead is about what an entry takes besides its texts: itself, its
	// decision, and its place in the map.
	entryOverhead = 512
)

// NewCache returns a cache of at most maxEntries decisions that take at most about
// maxBytes bytes. With either at 0 or below nothing is remembered.
func NewCache(maxEntries, maxBytes int) *Cache {
	n := min(max(maxEntries/minShardEntries, 1), maxShards)
	c := &Cache{seed: maphash.MakeSeed(), shards: make([]shard, n)}
	for i := range c.shards {
		s := &c.shards[i]
		s.entries = make(map[cacheKey]*entry)
		s.maxEntries = maxEntries / n
		s.maxBytes = maxBytes / n
		s.ring.next, s.ring.prev = &s.ring, &s.ring
	}
	return c
}

// cacheKey is what a decision depends on.
type cacheKey struct {
	opt  Options
	text string
}

// entry is a link in a shard's ring.
type entry struct {
	next, prev *entry
	key        cacheKey
	create     *Create
	bytes      int
}

func (e *entry) unlink() {
	e.prev.next = e.next
	e.next.prev = e.prev
}

// shard is a part of the cache with a lock of its own.
type shard struct {
	mu         sync.Mutex
	entries    map[cacheKey]*entry
	ring       entry // ring.next was used last, ring.prev is the next to go
	bytes      int
	maxEntries int
	maxBytes   int
}

func (s *shard) pushFront(e *entry) {
	e.next, e.prev = s.ring.next, &s.ring
	s.ring.next.prev = e
	s.ring.next = e
}

func (s *shard) remove(e *entry) {
	e.unlink()
	delete(s.entries, e.key)
	s.bytes -= e.bytes
}

func (c *Cache) shard(text []byte) *shard {
	if len(c.shards) == 1 {
		return &c.shards[0]
	}
	return &c.shards[maphash.Bytes(c.seed, text)%uint64(len(c.shards))]
}

// Get returns the decision for text, which is not kept.
func (c *Cache) Get(text []byte, opt Options) (*Create, bool) {
	s := c.shard(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[cacheKey{opt: opt, text: string(text)}]
	if !ok {
		return nil, false
	}
	if s.ring.next != e {
		e.unlink()
		s.pushFront(e)
	}
	return e.create, true
}

// Put remembers the decision for text, of which it keeps a copy. A decision that would
// take more than its share of the cache is not remembered.
func (c *Cache) Put(text []byte, opt Options, d *Create) {
	e := &entry{key: cacheKey{opt: opt, text: string(text)}, create: d}
	e.bytes = entryOverhead + len(text) + len(d.Shape) + len(d.Convert.SQL) + len(d.Keep.SQL) + len(d.Select.SQL)
	s := c.shard(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.bytes > s.maxBytes || s.maxEntries < 1 {
		return
	}
	if old, ok := s.entries[e.key]; ok {
		s.remove(old)
	}
	for len(s.entries) >= s.maxEntries || s.bytes+e.bytes > s.maxBytes {
		s.remove(s.ring.prev)
	}
	s.entries[e.key] = e
	s.bytes += e.bytes
	s.pushFront(e)
}

// Len returns the number of decisions and about how many bytes they take.
func (c *Cache) Len() (entries, bytes int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		entries += len(s.entries)
		bytes += s.bytes
		s.mu.Unlock()
	}
	return entries, bytes
}
