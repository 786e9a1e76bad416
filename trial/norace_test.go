//go:build !race

package trial

// Trials that are simulated for each kind of application, without a difference and with one.
const (
	simulatedAA    = 2000
	simulatedPower = 1000
)
