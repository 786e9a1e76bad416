package server

import "syscall"

// ChildAttributes lets a child process die with its parent, however that ends, and keeps a terminal's Ctrl-C from it.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
