package proxy

import "sync"

// tally counts what each of many has at present. What has nothing takes no room. Safe for concurrent use.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

// enter counts one more, unless there are limit already; 0: there is no limit.
func (t *tally) enter(name string, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if limit > 0 && t.counts[name] >= limit {
		return false
	}
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[name]++
	return true
}

// leave counts one less.
func (t *tally) leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(name)
}

// move counts what was one of from as one of to, unless there are limit already, itself not counted.
func (t *tally) move(from, to string, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from == to {
		return true
	}
	if limit > 0 && t.counts[to] >= limit {
		return false
	}
	t.counts[to]++
	t.remove(from)
	return true
}

func (t *tally) remove(name string) {
	if t.counts[name]--; t.counts[name] == 0 {
		delete(t.counts, name)
	}
}
