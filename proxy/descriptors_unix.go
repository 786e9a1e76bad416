//go:build unix

package proxy

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// descriptorLimit raises the soft limit of open descriptors to the hard one and returns it.
func descriptorLimit() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read limit of descriptors: %w", err)
	}
	if limit.Cur < limit.Max {
		raised := unix.Rlimit{Cur: limit.Max, Max: limit.Max}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			limit = raised
		} // some systems allow less than they say; the soft limit stands then
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)), nil
}
