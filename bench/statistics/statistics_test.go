package statistics

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"none", nil, 0},
		{"one", []float64{3}, 3},
		{"odd", []float64{9, 1, 5}, 5},
		{"even", []float64{9, 1, 5, 2}, 3.5},
		{"outlier", []float64{1, 1, 1e9}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := slices.Clone(test.values)
			if got := Median(test.values); got != test.want {
				t.Errorf("Median(%v) = %v, want %v", test.values, got, test.want)
			}
			if !slices.Equal(test.values, before) {
				t.Errorf("Median changed its argument to %v", test.values)
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i) // 100 … 1
	}
	for _, test := range []struct {
		name   string
		values []float64
		q      float64
		want   float64
	}{
		{"none", nil, 0.99, 0},
		{"one", []float64{7}, 0.99, 7},
		{"least", hundred, 0, 1},
		{"99 of 100", hundred, 0.99, 99},
		{"all", hundred, 1, 100},
		{"half of four", []float64{4, 3, 2, 1}, 0.5, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Quantile(test.values, test.q); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if hundred[0] != 100 {
		t.Error("Quantile sorted its argument")
	}
}

// TestOrder checks that every round has every candidate once, that each begins and ends some, and that each comes as often
// before another as behind it.
func TestOrder(t *testing.T) {
	for n := 1; n <= 6; n++ {
		first, before := make([]int, n), make([][]int, n)
		for i := range before {
			before[i] = make([]int, n)
		}
		for round := range 2 * n {
			var order []int
			for i := range n {
				order = append(order, Order(round, i, n))
			}
			first[order[0]]++
			for i, a := range order {
				for _, b := range order[i+1:] {
					before[a][b]++
				}
			}
			slices.Sort(order)
			for i, candidate := range order {
				if candidate != i {
					t.Fatalf("%d candidates, round %d: %v", n, round, order)
				}
			}
		}
		for a := range n {
			if first[a] == 0 {
				t.Errorf("%d candidates: %d never begins", n, a)
			}
			for b := range n {
				if a != b && before[a][b] != n {
					t.Errorf("%d candidates: %d comes before %d in %d of %d rounds", n, a, b, before[a][b], 2*n)
				}
			}
		}
	}
}

// TestRatioPairs has a machine that grows four times slower from round to round: only rounds that belong together may be
// compared.
func TestRatioPairs(t *testing.T) {
	base := []float64{1, 4, 16}
	if got := Ratio([]float64{2, 8, 8}, base); got.Value != 2 || got.Low != 0.5 || got.High != 2 {
		t.Errorf("got %+v", got)
	}
	if got := Ratio([]float64{3, 12, 48}, base); got != (Interval{3, 3, 3}) {
		t.Errorf("rounds that agree: %+v", got)
	}
	if got := Ratio([]float64{2, 5, 7}, []float64{1, 0}); got != (Interval{2, 2, 2}) {
		t.Errorf("with a 0 and a round too many: %+v", got)
	}
	if got := Ratio(nil, base); got != (Interval{}) {
		t.Errorf("without rounds: %+v", got)
	}
}

// TestRatioCovers draws rounds of a known ratio many times: the interval must hold it in about 95 of 100.
func TestRatioCovers(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const trials, rounds = 200, 15
	covered := 0
	for range trials {
		var a, b []float64
		for range rounds {
			machine := 1 + 3*random.Float64()
			a = append(a, 1.5*machine*(1+0.1*random.NormFloat64()))
			b = append(b, machine)
		}
		r := Ratio(a, b)
		if r.Low > r.Value || r.Value > r.High {
			t.Fatalf("%+v is no interval", r)
		}
		if r.Low <= 1.5 && 1.5 <= r.High {
			covered++
		}
	}
	if covered < trials*88/100 || covered == trials {
		t.Errorf("the interval holds the truth in %d of %d trials", covered, trials)
	}
}
