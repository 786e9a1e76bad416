//go:build !linux

package server

import "syscall"

// ChildAttributes keeps a terminal's Ctrl-C from a child process, which its parent is to end.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
