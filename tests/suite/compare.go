package suite

import (
	"regexp"
	"slices"
	"strings"
)

// Difference is a part of an output that is not what direct runs print there.
type Difference struct {
	Line    int // in the first direct output, from 1
	Direct  []string
	Proxied []string
}

// Compare returns where an output differs from what direct runs of the same file printed; there is at least one of these.
// Where the direct runs differ among themselves (thread ids, times, orders that nobody promised) the output may differ as
// well: in the words that differ when the runs print the same words otherwise, in whole lines when they do not.
func Compare(direct []string, proxied string) []Difference {
	base, got := lines(direct[0]), lines(proxied)
	found := diff(base, got)
	if len(found) == 0 {
		return nil
	}
	loose := newUnstable(base, direct[1:])
	var differences []Difference
	for _, h := range found {
		if !loose.covers(h, base, got) {
			differences = append(differences, Difference{h.from + 1, base[h.from:h.to], got[h.otherFrom:h.otherTo]})
		}
	}
	return differences
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// unstable is what differs among direct runs, seen from the first.
type unstable struct {
	others map[int][]string // what other runs print in place of a line, where each line has its counterpart
	whole  []hunk           // where they print another number of lines
}

func newUnstable(base []string, others []string) *unstable {
	u := &unstable{others: map[int][]string{}}
	for _, text := range others {
		other := lines(text)
		for _, h := range diff(base, other) {
			if h.to-h.from != h.otherTo-h.otherFrom {
				u.whole = append(u.whole, h)
				continue
			}
			for i := h.from; i < h.to; i++ {
				u.others[i] = append(u.others[i], other[h.otherFrom+i-h.from])
			}
		}
	}
	return u
}

func (u *unstable) covers(h hunk, base, got []string) bool {
	if slices.ContainsFunc(u.whole, func(w hunk) bool { return w.from <= h.from && h.to <= w.to }) {
		return true
	}
	if h.to-h.from != h.otherTo-h.otherFrom {
		return false
	}
	for i := h.from; i < h.to; i++ {
		line := got[h.otherFrom+i-h.from]
		if line != base[i] && !alike(base[i], u.others[i], line) {
			return false
		}
	}
	return true
}

var words = regexp.MustCompile(`[0-9A-Za-z_]+|[^0-9A-Za-z_]+`)

// alike tells whether a line differs from the first run's only in words in which another run's does.
func alike(base string, others []string, line string) bool {
	if slices.Contains(others, line) {
		return true
	}
	want, got := words.FindAllString(base, -1), words.FindAllString(line, -1)
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && !slices.ContainsFunc(others, func(other string) bool {
			alternative := words.FindAllString(other, -1)
			return len(alternative) == len(want) && alternative[i] != want[i]
		}) {
			return false
		}
	}
	return true
}
