package proxy

import "sync"

// workers calls functions that take too long for an event loop, a bounded number at a time. There is at most one function per
// session, so what waits is bounded too. Its goroutines end when nothing is left to do. Safe for concurrent use.
type workers struct {
	max     int
	mu      sync.Mutex
	running int
	waiting []func()
}

// submit never blocks. f must not panic.
func (w *workers) submit(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running >= w.max {
		w.waiting = append(w.waiting, f)
		return
	}
	w.running++
	go w.work(f)
}

func (w *workers) work(f func()) {
	for f != nil {
		f()
		f = w.next()
	}
}

func (w *workers) next() (f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		w.running--
		w.waiting = nil
		return nil
	}
	f = w.waiting[0]
	w.waiting[0] = nil
	w.waiting = w.waiting[1:]
	return f
}
