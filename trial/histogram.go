package trial

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/store"
)

const (
	accuracy = 0.01 // of quantiles, relative
	maxBins  = 2048 // of a histogram, which with this accuracy are 17 orders of magnitude
	perTwo   = 4    // buckets between a duration and its double, of the histograms that are shown
)

// Histogram is a distribution of durations, in seconds, that can be added to another. The zero value is empty. As JSON it is the DDSketch
// encoding in base64. It is not safe for concurrent use.
type Histogram struct{ sketch *ddsketch.DDSketch }

func (h *Histogram) add(seconds float64) {
	if h.sketch == nil {
		h.sketch, _ = ddsketch.LogCollapsingLowestDenseDDSketch(accuracy, maxBins) // fails for another accuracy
	}
	_ = h.sketch.Add(max(seconds, 0)) // fails for what is no number
}

func (h *Histogram) copy() Histogram {
	if h.sketch == nil {
		return Histogram{}
	}
	return Histogram{h.sketch.Copy()}
}

func (h *Histogram) merge(o *Histogram) error {
	if o.sketch == nil {
		return nil
	}
	if h.sketch == nil {
		*h = o.copy()
		return nil
	}
	if err := h.sketch.MergeWith(o.sketch); err != nil {
		return fmt.Errorf("merge histograms: %w", err)
	}
	return nil
}

func (h *Histogram) count() int64 {
	if h.sketch == nil {
		return 0
	}
	return int64(math.Round(h.sketch.GetCount()))
}

// quantile returns 0 if there is nothing.
func (h *Histogram) quantile(q float64) float64 {
	if h.sketch == nil {
		return 0
	}
	v, err := h.sketch.GetValueAtQuantile(q)
	if err != nil {
		return 0
	}
	return v
}

func (h *Histogram) latency() Latency {
	return Latency{Count: h.count(), Median: h.quantile(0.5), P99: h.quantile(0.99)}
}

// buckets returns upper bounds and counts, ascending, without empty ones.
func (h *Histogram) buckets() [][2]float64 {
	list := [][2]float64{}
	if h.sketch == nil {
		return list
	}
	counts, least, most := map[int]float64{}, math.MaxInt, math.MinInt
	h.sketch.ForEach(func(value, count float64) bool {
		i := 0
		if i = math.MinInt16; value > 0 {
			i = int(math.Ceil(math.Log2(value) * perTwo))
		}
		counts[i] += count
		least, most = min(least, i), max(most, i)
		return false
	})
	for i := least; len(counts) > 0 && i <= most; i++ {
		if counts[i] > 0 {
			list = append(list, [2]float64{math.Exp2(float64(i) / perTwo), counts[i]})
		}
	}
	return list
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// logSeconds is the logarithm of a duration in seconds. What is too short for the clock counts as a nanosecond.
func logSeconds(ns int64) float64 { return math.Log(seconds(max(ns, 1))) }

// MarshalJSON implements json.Marshaler.
func (h Histogram) MarshalJSON() ([]byte, error) {
	b := []byte{}
	if h.sketch != nil {
		h.sketch.Encode(&b, false)
	}
	return json.Marshal(b)
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var b []byte
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	*h = Histogram{}
	if len(b) == 0 {
		return nil
	}
	sketch, err := ddsketch.DecodeDDSketch(b, func() store.Store { return store.NewCollapsingLowestDenseStore(maxBins) }, nil)
	if err != nil {
		return fmt.Errorf("read a histogram: %w", err)
	}
	h.sketch = sketch
	return nil
}
