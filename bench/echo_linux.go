package bench

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ServeEcho sends back whatever comes, until the listener is closed. It is what answering a client costs at the least: an
// epoll loop in a thread of its own that reads, and writes the same bytes.
func ServeEcho(listener net.Listener) error {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	go echoLoop(epoll)
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		fd, err := takeDescriptor(conn)
		if err == nil {
			err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
		}
		if err != nil {
			return err
		}
	}
}

// echoLoop ends with the process.
func echoLoop(epoll int) {
	runtime.LockOSThread()
	events := make([]unix.EpollEvent, 64)
	buffer := make([]byte, 16<<10)
	for {
		n, err := unix.EpollWait(epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return
		}
		for _, e := range events[:max(n, 0)] {
			fd := uintptr(e.Fd)
			got, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)))
			if errno == unix.EAGAIN || errno == unix.EINTR {
				continue
			}
			if errno == 0 && got > 0 {
				put, _, errno := unix.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&buffer[0])), got)
				if errno == 0 && put == got {
					continue
				}
			}
			_ = unix.Close(int(fd))
		}
	}
}

// takeDescriptor returns a non-blocking descriptor for conn, which is closed.
func takeDescriptor(conn net.Conn) (int, error) {
	defer conn.Close()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return 0, fmt.Errorf("a %T has no descriptor to take", conn)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, err
	}
	fd := -1
	controlErr := raw.Control(func(descriptor uintptr) { // stays non-blocking
		fd, err = unix.FcntlInt(descriptor, unix.F_DUPFD_CLOEXEC, 0)
	})
	return fd, errors.Join(err, controlErr)
}
