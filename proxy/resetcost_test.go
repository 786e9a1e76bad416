package proxy

import "testing"

func TestResetCost(t *testing.T) {
	run := func(r *resetCost, n int, truncate, remove func(i int) int64) (deletes int) {
		for i := range n {
			if r.prefersDelete() {
				deletes++
				r.took(true, remove(i))
			} else {
				r.took(false, truncate(i))
			}
		}
		return deletes
	}
	always := func(ns int64) func(int) int64 { return func(int) int64 { return ns } }
	t.Run("DELETE is cheaper", func(t *testing.T) {
		var r resetCost
		if n := run(&r, 1000, always(300), always(100)); n < 980 {
			t.Errorf("%d of 1000 were DELETEs", n)
		}
	})
	t.Run("TRUNCATE is cheaper", func(t *testing.T) {
		var r resetCost
		if n := run(&r, 5000, always(100), always(300)); n == 0 || n > 30 {
			t.Errorf("%d of 5000 were DELETEs", n)
		}
	})
	t.Run("DELETE gets slower", func(t *testing.T) {
		// As deleted rows pile up: back behind a TRUNCATE.
		var r resetCost
		piled := int64(0)
		last := int64(0)
		run(&r, 2000, func(int) int64 { piled = 0; return 300 }, func(int) int64 {
			piled += 20
			last = max(last, 100+piled)
			return 100 + piled
		})
		if last > 300+20 {
			t.Errorf("a DELETE has cost %d", last)
		}
	})
}
