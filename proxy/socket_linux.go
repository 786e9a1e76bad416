package proxy

import (
	"fmt"
	"net"
	"net/netip"
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
	writes   uint64 // one by one
	bundles  uint64 // many writes at once
	bundled  uint64 // the writes in these
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

// bundle makes several writes at once.
func (c *calls) bundle(b *bundler, parcels []parcel) {
	c.bundles++
	c.bundled += uint64(len(parcels))
	b.send(parcels)
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

// socketAddress is the address of a backend that need not be looked up; nil for any other.
func socketAddress(address string) unix.Sockaddr {
	if network(address) == "unix" {
		return &unix.SockaddrUnix{Name: address}
	}
	a, err := netip.ParseAddrPort(address)
	switch {
	case err != nil || a.Addr().Zone() != "":
		return nil
	case a.Addr().Is4():
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// connect begins to connect a non-blocking socket to an address, as dial does. connected says that it is done.
func connect(to unix.Sockaddr) (fd int, connected bool, err error) {
	family := unix.AF_INET
	switch to.(type) {
	case *unix.SockaddrInet6:
		family = unix.AF_INET6
	case *unix.SockaddrUnix:
		family = unix.AF_UNIX
	}
	if fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, false, fmt.Errorf("connect: %w", err)
	}
	if family != unix.AF_UNIX {
		for _, o := range []struct{ level, option, value int }{
			{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
			{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(keepAlive.Idle / time.Second)},
			{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(keepAlive.Interval / time.Second)},
			{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAlive.Count},
		} {
			if err := unix.SetsockoptInt(fd, o.level, o.option, o.value); err != nil {
				unix.Close(fd)
				return -1, false, fmt.Errorf("connect: %w", err)
			}
		}
	}
	switch err := unix.Connect(fd, to); err {
	case nil:
		return fd, true, nil
	case unix.EINPROGRESS:
		// On loopback it is done already.
		if _, err := unix.Getpeername(fd); err != nil {
			return fd, false, nil
		}
		if toItself(fd) {
			unix.Close(fd)
			return -1, false, fmt.Errorf("connect: %w", unix.ECONNREFUSED)
		}
		return fd, true, nil
	default:
		unix.Close(fd)
		return -1, false, fmt.Errorf("connect: %w", err)
	}
}

// toItself says whether a TCP socket is connected to itself, as it may be where nobody listens at a port that the system gives to
// clients as well. It is a connection of its own bytes only, so it counts as refused.
func toItself(fd int) bool {
	local, err := unix.Getsockname(fd)
	if err != nil {
		return false
	}
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return false
	}
	switch l := local.(type) {
	case *unix.SockaddrInet4:
		p, ok := peer.(*unix.SockaddrInet4)
		return ok && l.Port == p.Port && l.Addr == p.Addr
	case *unix.SockaddrInet6:
		p, ok := peer.(*unix.SockaddrInet6)
		return ok && l.Port == p.Port && l.Addr == p.Addr
	}
	return false
}

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
