//go:build !race

package session

// scriptsByDefault is how many random scripts are run.
const scriptsByDefault = 100_000
