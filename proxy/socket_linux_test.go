package proxy

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A socket can be connected to itself, without anybody listening.
func TestToItself(t *testing.T) {
	for name, at := range map[string]unix.Sockaddr{
		"IPv4": &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}},
		"IPv6": &unix.SockaddrInet6{Addr: [16]byte{15: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			family := unix.AF_INET
			if name == "IPv6" {
				family = unix.AF_INET6
			}
			open := func() int {
				fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { unix.Close(fd) })
				if err := unix.Bind(fd, at); err != nil {
					t.Fatal(err)
				}
				return fd
			}
			own := open()
			name, err := unix.Getsockname(own)
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Connect(own, name); err != nil {
				t.Fatal(err)
			}
			if !toItself(own) {
				t.Error("a connection to itself is not seen")
			}
			listening, other := open(), open()
			if err := unix.Listen(listening, 1); err != nil {
				t.Fatal(err)
			}
			if name, err = unix.Getsockname(listening); err != nil {
				t.Fatal(err)
			}
			if err := unix.Connect(other, name); err != nil {
				t.Fatal(err)
			}
			if toItself(other) {
				t.Error("a connection to another one is taken for one to itself")
			}
		})
	}
}
