package main

import "golang.org/x/sys/unix"

// followParent has this process asked to end when the one that started it ends: go run passes no signal on, and make
// only one to go run.
func followParent() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0) }
