package rewrite

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestCache(t *testing.T) {
	c := NewCache(3, 1<<20)
	opt := Options{Version: 90704}
	put := func(text string, opt Options) *Create {
		d := Analyze([]byte(text), opt)
		c.Put([]byte(text), opt, d)
		return d
	}
	get := func(text string, opt Options) *Create {
		d, ok := c.Get([]byte(text), opt)
		if ok != (d != nil) {
			t.Fatalf("%s: %v, %v", text, d, ok)
		}
		return d
	}
	text := func(i int) string { return fmt.Sprintf("CREATE TEMPORARY TABLE t%d (a INT) ENGINE=MEMORY", i) }

	if get(text(1), opt) != nil {
		t.Error("an empty cache has a decision")
	}
	one := put(text(1), opt)
	if get(text(1), opt) != one {
		t.Error("not found")
	}
	if get(text(1)+" ", opt) != nil {
		t.Error("another text was found")
	}
	for _, other := range []Options{
		{Version: 101119}, {Version: 90704, Mode: ANSIQuotes}, {Version: 90704, Convert: 1 << EngineMemory}, {Version: 90704, MaxCreate: 1},
	} {
		if get(text(1), other) != nil {
			t.Errorf("found for %+v", other)
		}
	}
	put(text(2), opt)
	put(text(3), opt)
	get(text(1), opt) // 2 is now the one that was not asked for the longest
	put(text(4), opt)
	if get(text(2), opt) != nil || get(text(1), opt) != one || get(text(3), opt) == nil || get(text(4), opt) == nil {
		t.Error("the wrong decision was dropped")
	}
	again := put(text(1), opt)
	if n, _ := c.Len(); n != 3 || get(text(1), opt) != again {
		t.Errorf("%d decisions after one was put again", n)
	}
}

func TestCacheKeepsACopy(t *testing.T) {
	c := NewCache(10, 1<<20)
	text := []byte("CREATE TEMPORARY TABLE a (a INT)")
	c.Put(text, Options{}, Analyze(text, Options{}))
	text[len("CREATE TEMPORARY TABLE ")] = 'b'
	if _, ok := c.Get([]byte("CREATE TEMPORARY TABLE a (a INT)"), Options{}); !ok {
		t.Error("the text in the cache was changed from outside")
	}
}

func TestCacheBounds(t *testing.T) {
	const maxBytes = 200_000
	for _, maxEntries := range []int{-1, 0, 1, 100, 5000} {
		c := NewCache(maxEntries, maxBytes)
		for i := range 3000 {
			text := fmt.Appendf(nil, "CREATE TEMPORARY TABLE t%d (a INT COMMENT '%s')", i, strings.Repeat("x", i%1000))
			c.Put(text, Options{}, Analyze(text[:30], Options{}))
			entries, bytes := c.Len()
			if entries > max(maxEntries, 0) || bytes > maxBytes {
				t.Fatalf("%d of %d entries, %d bytes", entries, maxEntries, bytes)
			}
		}
		if entries, bytes := c.Len(); (entries > 0) != (maxEntries > 0) || (bytes > 0) != (entries > 0) {
			t.Errorf("at most %d: %d entries, %d bytes", maxEntries, entries, bytes)
		}
	}
	c := NewCache(10, 1000)
	text := []byte(strings.Repeat("x", 1000))
	c.Put(text, Options{}, &Create{})
	if entries, _ := c.Len(); entries != 0 {
		t.Error("a decision larger than the cache was remembered")
	}
}

func TestCacheConcurrent(t *testing.T) {
	c := NewCache(500, 1<<20)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				text := fmt.Appendf(nil, "CREATE TEMPORARY TABLE t%d (a INT)", (i*7+g)%800)
				d, ok := c.Get(text, Options{})
				if !ok {
					d = &Create{Shape: string(text)}
					c.Put(text, Options{}, d)
				}
				if d.Shape != string(text) {
					t.Errorf("%s for %s", d.Shape, text)
				}
			}
		})
	}
	wg.Wait()
	if entries, _ := c.Len(); entries == 0 || entries > 500 {
		t.Errorf("%d entries", entries)
	}
}

func TestCacheAllocs(t *testing.T) {
	for _, entries := range []int{1, 10_000} {
		c := NewCache(entries, 1<<30)
		text := []byte("CREATE TEMPORARY TABLE temp_store (zoid BIGINT UNSIGNED NOT NULL PRIMARY KEY) ENGINE MyISAM")
		opt := Options{Convert: 1 << EngineMyISAM}
		c.Put(text, opt, Analyze(text, opt))
		n := testing.AllocsPerRun(100, func() {
			if _, ok := c.Get(text, opt); !ok {
				t.Fatal("not found")
			}
		})
		if n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func BenchmarkCacheGet(b *testing.B) {
	c := NewCache(10_000, 1<<30)
	text := []byte("CREATE TEMPORARY TABLE temp_store (zoid BIGINT UNSIGNED NOT NULL PRIMARY KEY, prev_tid BIGINT UNSIGNED NOT NULL, md5 CHAR(32), state LONGBLOB) ENGINE MyISAM")
	opt := testOptions(b, "mysql")
	c.Put(text, opt, Analyze(text, opt))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.Get(text, opt); !ok {
			b.Fatal("not found")
		}
	}
}
