package rewrite

import (
	"math/rand"
	"testing"
)

// TestQuoteEnd finds the ends of quotings as one does who looks at one byte after the other.
func TestQuoteEnd(t *testing.T) {
	plainly := func(text []byte, escapes bool) (int, bool) {
		for i := 1; i < len(text); i++ {
			switch {
			case text[i] == '\\' && escapes:
				i++
			case text[i] != '\'':
			case i+1 < len(text) && text[i+1] == '\'':
				i++
			default:
				return i + 1, false
			}
		}
		return len(text), true
	}
	random := rand.New(rand.NewSource(1))
	for range 100_000 {
		text := make([]byte, 1+random.Intn(20))
		for i := range text {
			text[i] = "ab'\\"[random.Intn(4)]
		}
		text[0] = '\''
		for _, escapes := range []bool{false, true} {
			s := newScanner(text, 0)
			got := s.quoteEnd(0, '\'', escapes)
			if want, doubtful := plainly(text, escapes); got != want || s.doubtful != doubtful {
				t.Fatalf("%s, escapes %v: %d, %v, want %d, %v", text, escapes, got, s.doubtful, want, doubtful)
			}
		}
	}
}
