//go:build race

package session

// scriptsByDefault is less under the race detector, which makes everything slow.
const scriptsByDefault = 20_000
