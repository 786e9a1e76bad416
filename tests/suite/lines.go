package suite

// hunk is a part in which two texts of lines differ: lines from..to of the first stand where the second has lines
// otherFrom..otherTo. Ends are exclusive; one of the two may be empty.
type hunk struct {
	from, to           int
	otherFrom, otherTo int
}

// maxEdits bounds the work of diff. Texts that differ in more lines differ in one big hunk.
const maxEdits = 3000

// diff returns where two texts of lines differ, in order, by the fewest lines (Myers).
func diff(a, b []string) []hunk {
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	endA, endB := len(a), len(b)
	for endA > start && endB > start && a[endA-1] == b[endB-1] {
		endA--
		endB--
	}
	if start == endA && start == endB {
		return nil
	}
	if start == endA || start == endB {
		return []hunk{{start, endA, start, endB}}
	}
	middle := edits(a[start:endA], b[start:endB])
	for i := range middle {
		middle[i].from += start
		middle[i].to += start
		middle[i].otherFrom += start
		middle[i].otherTo += start
	}
	return middle
}

func edits(a, b []string) []hunk {
	limit := min(len(a)+len(b), maxEdits)
	// furthest[limit+k] is how far in a one gets on diagonal k (position in a minus position in b).
	furthest := make([]int32, 2*limit+2)
	var trace [][]int32
	for d := 0; d <= limit; d++ {
		trace = append(trace, append([]int32(nil), furthest[limit-d:limit+d+2]...))
		for k := -d; k <= d; k += 2 {
			var x int
			if k == -d || k != d && furthest[limit+k-1] < furthest[limit+k+1] {
				x = int(furthest[limit+k+1])
			} else {
				x = int(furthest[limit+k-1]) + 1
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			furthest[limit+k] = int32(x)
			if x >= len(a) && x-k >= len(b) {
				return walk(trace, len(a), len(b))
			}
		}
	}
	return []hunk{{0, len(a), 0, len(b)}}
}

// walk goes back through what edits has found and gathers neighbouring edits into hunks.
func walk(trace [][]int32, x, y int) []hunk {
	var back []hunk
	for d := len(trace) - 1; d > 0; d-- {
		at := func(k int) int { return int(trace[d][k+d]) }
		k := x - y
		previous := k - 1
		if k == -d || k != d && at(k-1) < at(k+1) {
			previous = k + 1
		}
		fromX := at(previous)
		fromY := fromX - previous
		// After the edit come the equal lines, back from x, y.
		edit := hunk{fromX, fromX, fromY, fromY}
		if previous == k-1 {
			edit.to++
		} else {
			edit.otherTo++
		}
		if n := len(back); n > 0 && back[n-1].from == edit.to && back[n-1].otherFrom == edit.otherTo {
			back[n-1].from, back[n-1].otherFrom = edit.from, edit.otherFrom
		} else {
			back = append(back, edit)
		}
		x, y = fromX, fromY
	}
	for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
		back[i], back[j] = back[j], back[i]
	}
	return back
}
