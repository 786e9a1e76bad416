package proxy

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// canKnock says whether knock knows this kind of address.
func canKnock(address string) bool { return network(address) == "tcp" }

// knock finds out whether somebody listens at a TCP address without making a connection that the listener would see: the last packet of
// TCP's handshake is held back, and a reset goes in its place.
func knock(ctx context.Context, address string) error {
	d := net.Dialer{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
		return control(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0) })
	}}
	d.SetMultipathTCP(false)
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("knock: %w", err)
	}
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
	return nil
}
