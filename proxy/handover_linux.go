package proxy

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// share lets other listeners of the same user have a listener's address too.
func share(_, _ string, c syscall.RawConn) error {
	return control(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
}

// turnAway has a TCP listener get no more new connections: the kernel drops every SYN that it would get. Whoever sent it does so again
// after a second. Connections that are being made are made.
func turnAway(l *net.TCPListener) error {
	const flags, syn = 13, 0x02 // in the TCP header, at which the filter begins
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: syn, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xFFFF_FFFF},
	}
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	return control(raw, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
}

// queued says whether a connection waits in a listener's queue. Accept does not tell: a deadline that has passed before it is called
// goes before what is there.
func queued(l net.Listener) bool {
	c, ok := l.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	waits := false
	err = control(raw, func(fd int) error {
		for {
			set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			_, err := unix.Poll(set, 0)
			if err != unix.EINTR {
				waits = set[0].Revents&unix.POLLIN != 0
				return err
			}
		}
	})
	return err == nil && waits
}

func control(c syscall.RawConn, f func(fd int) error) error {
	var failed error
	if err := c.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return fmt.Errorf("reach socket: %w", err)
	}
	return failed
}
