//go:build !linux

package bench

import (
	"errors"
	"net"
	"time"
)

var errLinux = errors.New("this needs Linux")

type relay struct{ address string }

func newRelay(string, time.Duration) (*relay, error) { return nil, errLinux }

func (*relay) close() error { return nil }

// ServeEcho needs Linux.
func ServeEcho(net.Listener) error { return errLinux }
