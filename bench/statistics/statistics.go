// Package statistics holds what measurements in rounds need: in every round all candidates work once, in changing order,
// and are compared within that round, which keeps out what changes on the machine from one round to the next. It knows
// nothing of what is measured and prints nothing.
package statistics

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Median returns the middle of values, the mean of the middle two of an even number, and 0 of none. It leaves values as
// they are.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return medianOfSorted(slices.Sorted(slices.Values(values)))
}

func medianOfSorted(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Quantile returns the smallest of values that at least the share q (0 to 1) of them do not exceed, and 0 of none. It
// leaves values as they are.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}

// Order says which of n candidates works as the i-th in a round: each begins some rounds, and every other round goes
// backwards.
func Order(round, i, n int) int {
	if round%2 == 1 {
		i = n - 1 - i
	}
	return (i + round/2) % n
}

// An Interval is an estimate with the bounds between which 95 of 100 such estimates lie.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

const resamples = 2000

// Ratio returns the median over rounds of what a's rounds are to b's of the same number, with its interval by bootstrap:
// the rounds are drawn again, with replacement, many times. The same arguments give the same result. Rounds that only one
// of them has, and those in which b is 0, are left out; without any the result is zero.
func Ratio(a, b []float64) Interval {
	var quotients []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			quotients = append(quotients, a[i]/b[i])
		}
	}
	if len(quotients) == 0 {
		return Interval{}
	}
	random := rand.New(rand.NewPCG(1, uint64(len(quotients))))
	medians := make([]float64, resamples)
	drawn := make([]float64, len(quotients))
	for i := range medians {
		for j := range drawn {
			drawn[j] = quotients[random.IntN(len(quotients))]
		}
		slices.Sort(drawn)
		medians[i] = medianOfSorted(drawn)
	}
	return Interval{Value: Median(quotients), Low: Quantile(medians, 0.025), High: Quantile(medians, 0.975)}
}
