//go:build !linux

package proxy

import "errors"

// newLoops needs epoll.
func newLoops(*Server, int) (driver, error) {
	return nil, errors.New("event loops exist on Linux only")
}
