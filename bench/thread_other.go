//go:build !linux

package bench

import (
	"errors"
	"runtime"
	"time"
)

// ownThread keeps the calling goroutine on a thread of its own. The returned function undoes it.
func ownThread() func() {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

func pause(d time.Duration) { time.Sleep(d) }

func processTime(int) (time.Duration, error) {
	return 0, errors.New("another process's time is only known on Linux")
}
