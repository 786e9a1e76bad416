package proxy

const (
	resetWindow = 9   // durations of either way that are remembered
	resetRetry  = 500 // resets by TRUNCATE after which DELETE is tried again
)

// resetCost finds out whether tables of a shape are emptied faster by DELETE or by TRUNCATE. Not safe for concurrent use; the zero value
// is ready.
type resetCost struct {
	truncates, deletes []int64 // the last durations, ns
	since              int     // TRUNCATEs since the last DELETE
	slow               bool    // the last DELETE has cost more than a TRUNCATE does
}

// prefersDelete says whether the next reset is to be a DELETE.
func (r *resetCost) prefersDelete() bool {
	switch {
	case len(r.truncates) < resetWindow, r.slow:
		return false
	case len(r.deletes) < resetWindow:
		return true
	}
	return r.since >= resetRetry || float64(median(r.deletes)) < 0.9*float64(median(r.truncates))
}

// took takes the duration of a reset.
func (r *resetCost) took(deleted bool, ns int64) {
	list := &r.truncates
	if deleted {
		list = &r.deletes
		r.since = 0
		r.slow = ns > median(r.truncates)
	} else {
		r.since++
		r.slow = false
	}
	if len(*list) == resetWindow {
		copy(*list, (*list)[1:])
		*list = (*list)[:resetWindow-1]
	}
	*list = append(*list, ns)
}
