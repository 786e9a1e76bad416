package proxy

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls counts the system calls of a loop. Only its thread touches it.
type calls struct {
	waits    uint64 // epoll_wait
	reads    uint64
	writes   uint64
	controls uint64 // epoll_ctl
	others   uint64 // shutdown, close, and the reads of the wake-up counter
	coarse   bool   // the system (Linux before 5.11) counts the time of a wait in milliseconds
}

// receive reads once from a non-blocking socket. RawSyscall is right for calls that never block: the scheduler is not told.
func (c *calls) receive(fd int32, b []byte) (int, unix.Errno) {
	c.reads++
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// transmit writes once to a non-blocking socket; b is not empty.
func (c *calls) transmit(fd int32, b []byte) (int, unix.Errno) {
	c.writes++
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// wait waits for events for that long, less than 0: for ever. It may block: Syscall lets other goroutines have the processor.
func (c *calls) wait(epoll int, events []unix.EpollEvent, most time.Duration) int {
	c.waits++
	var n uintptr
	var errno unix.Errno
	p, size := unsafe.Pointer(unsafe.SliceData(events)), uintptr(len(events))
	if c.coarse {
		milliseconds := -1
		if most >= 0 {
			milliseconds = int((most + time.Millisecond - 1) / time.Millisecond)
		}
		n, _, errno = syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(p), size, uintptr(milliseconds), 0, 0)
	} else {
		var limit *unix.Timespec
		if most >= 0 {
			t := unix.NsecToTimespec(int64(most))
			limit = &t
		}
		n, _, errno = syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(p), size, uintptr(unsafe.Pointer(limit)), 0, 0)
	}
	switch errno {
	case 0:
		return int(n)
	case unix.EINTR:
		// A signal, of the scheduler's usually. Waiting longer than asked does no harm but to deadlines: let them be looked at.
		return 0
	case unix.ENOSYS, unix.EPERM: // the latter by filters of system calls that do not know it
		if !c.coarse {
			c.coarse = true
			return 0
		}
	}
	panic(fmt.Sprintf("epoll_wait: %v", errno))
}

func again(errno unix.Errno) bool { return errno == unix.EAGAIN || errno == unix.EINTR }

// take makes an own descriptor of conn's socket and closes conn, unless it fails.
func take(conn net.Conn) (int32, error) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return -1, fmt.Errorf("take socket: %T has no descriptor", conn)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("take socket: %w", err)
	}
	// Not File: its descriptor would be blocking.
	fd, dup := -1, error(nil)
	if err := raw.Control(func(s uintptr) { fd, dup = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return -1, fmt.Errorf("take socket: %w", err)
	}
	if dup != nil {
		return -1, fmt.Errorf("take socket: %w", dup)
	}
	conn.Close()
	return int32(fd), nil
}

// give makes a net.Conn of a socket's descriptor, which is closed in any case.
func give(fd int32) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("give socket: %w", err)
	}
	return conn, nil
}
