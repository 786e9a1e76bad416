//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
)

// owner returns the user that a unix socket belongs to: the server's. While the server is down its folder's owner stands in.
func owner(socket string) (uid int, known bool) {
	for _, path := range []string{socket, filepath.Dir(socket)} {
		if info, err := os.Stat(path); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				return int(stat.Uid), true
			}
		}
	}
	return 0, false
}
