//go:build race

package trial

// Fewer under the race detector, which makes everything slow: the build without it counts.
const (
	simulatedAA    = 100
	simulatedPower = 50
)
