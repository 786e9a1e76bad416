package proxy

import (
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestWorkersAreBounded(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w := workers{max: 3}
	var running, most atomic.Int64
	var all sync.WaitGroup
	gate := make(chan struct{})
	const n = 50
	all.Add(n)
	for range n {
		w.submit(func() { // returns at once
			now := running.Add(1)
			for {
				seen := most.Load()
				if now <= seen || most.CompareAndSwap(seen, now) {
					break
				}
			}
			<-gate
			running.Add(-1)
			all.Done()
		})
	}
	close(gate)
	all.Wait()
	if most.Load() > 3 || most.Load() < 1 {
		t.Errorf("%d functions ran at once, 3 may", most.Load())
	}
}
