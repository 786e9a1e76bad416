package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// keepPrivate has the kernel write no core file of the process, and let no other process of the user read its memory or environment:
// passwords pass through it. A limit on core files would not do: it does not hold for a core_pattern that is a program.
func keepPrivate() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep memory private: %w", err)
	}
	return nil
}
