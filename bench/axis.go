package bench

import "math"

// An axis places ratios on a logarithmic scale between plotLeft and plotRight.
type axis struct {
	low, high float64 // logarithms of the ends
	ticks     []float64
}

// newAxis makes an axis that shows ratios from least to most, both positive, with some room beside them.
func newAxis(least, most float64) axis {
	a := axis{low: math.Log(min(least, 0.8) / 1.15), high: math.Log(max(most, 1.25) * 1.15)}
	for _, steps := range [][]float64{{1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8}, {1, 2, 5}, {1}} {
		a.ticks = nil
		for decade := math.Floor(a.low / math.Ln10); decade <= a.high/math.Ln10; decade++ {
			for _, step := range steps {
				// Through the decimal text's value, so that 0.2 is not 0.20000000000000001.
				value := math.Round(step*math.Pow(10, decade)*1e9) / 1e9
				if l := math.Log(value); value > 0 && l >= a.low && l <= a.high {
					a.ticks = append(a.ticks, value)
				}
			}
		}
		if len(a.ticks) <= 9 {
			break
		}
	}
	return a
}

// place returns where a ratio lies; what is beyond the ends lies at them.
func (a axis) place(ratio float64) float64 {
	l := a.low
	if ratio > 0 {
		l = min(max(math.Log(ratio), a.low), a.high)
	}
	x := plotLeft + (plotRight-plotLeft)*(l-a.low)/(a.high-a.low)
	return math.Round(x*10) / 10
}
