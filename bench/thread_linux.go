package bench

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// ownThread keeps the calling goroutine on a thread of its own whose sleeps end on time: by default Linux lets them end
// 50 µs late. The returned function undoes it.
func ownThread() func() {
	runtime.LockOSThread()
	before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	}
	return func() {
		if err == nil {
			_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(before), 0, 0, 0)
		}
		runtime.UnlockOSThread()
	}
}

// pause sleeps in the calling thread. The runtime's own sleep is up to a millisecond late when the process is idle.
func pause(d time.Duration) {
	if d <= 0 {
		return
	}
	left := unix.NsecToTimespec(d.Nanoseconds())
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &left, &left) == unix.EINTR {
	}
}

// processTime returns how long a process has used processors since it began, to the nanosecond.
func processTime(pid int) (time.Duration, error) {
	const schedule = 2 // of the clocks that a process has: what it ran, of all its threads
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedule), &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}
