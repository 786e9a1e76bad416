package proxy

import (
	"os"
	"testing"
)

// descriptors counts the process's open descriptors.
func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
