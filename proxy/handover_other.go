//go:build !linux

package proxy

import (
	"errors"
	"net"
	"syscall"
)

var errNoHandOver = errors.New("an address can be shared on Linux only")

func share(string, string, syscall.RawConn) error { return errNoHandOver }

func turnAway(*net.TCPListener) error { return errNoHandOver }

func queued(net.Listener) bool { return false }
