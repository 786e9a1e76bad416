package fuzz

import (
	"slices"

	"tmpproxy/trial/compare"
	"tmpproxy/trial/judge"
)

// reduce takes steps away from a sequence as long as it still shows its difference, which shows tells together with the
// verdict. It tries more than rapid does, which takes away only what was generated as one element. sure: the result showed
// the difference whenever it was asked.
func reduce(s *Sequence, v judge.Verdict, shows func(*Sequence) (judge.Verdict, bool)) (smallest *Sequence, verdict judge.Verdict, sure bool) {
	smallest, verdict = s, v
	try := func(candidate *Sequence) bool {
		v, ok := shows(candidate)
		if ok {
			smallest, verdict = candidate, v
		}
		return ok
	}
	for size := (len(s.Steps) + 1) / 2; size > 0; {
		before := len(smallest.Steps)
		for at := 0; at < len(smallest.Steps); {
			end := min(at+size, len(smallest.Steps))
			if !try(smallest.with(slices.Delete(slices.Clone(smallest.Steps), at, end))) {
				at = end
			}
		}
		if size > 1 || len(smallest.Steps) == before {
			size /= 2
		}
	}
	if smallest.Client != "modern" {
		plain := smallest.with(smallest.Steps)
		plain.Client = "modern"
		try(plain)
	}
	if smallest.Outside {
		plain := smallest.with(smallest.Steps)
		plain.Outside = false
		try(plain)
	}
	for range 3 {
		if !try(smallest) {
			return smallest, verdict, false
		}
	}
	return smallest, verdict, true
}

// with returns the same sequence with other steps.
func (s *Sequence) with(steps []compare.Step) *Sequence {
	return &Sequence{Steps: steps, Client: s.Client, Outside: s.Outside, Touches: s.Touches}
}
