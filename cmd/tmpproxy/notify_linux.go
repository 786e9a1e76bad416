package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is the assignment that has to come with RELOADING=1.
func monotonic() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return ""
	}
	return fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/int64(time.Microsecond))
}
