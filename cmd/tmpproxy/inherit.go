package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// sockets are listeners that the service manager has opened and hands on, as sd_listen_fds(3) says. They stay its own: what waits in
// their queues when we end is for the next process.
type sockets struct {
	clients []net.Listener // in place of listen.addresses; nil when there are none
	admin   net.Listener   // in place of admin.address: the one of the name admin; nil when there is none
}

const firstSocket = 3 // the descriptor of the first one

// inheritSockets takes the sockets that are meant for this process, and has none of its children believe they were.
func inheritSockets() (s sockets, err error) {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		os.Unsetenv(name)
	}
	if pid != strconv.Itoa(os.Getpid()) {
		return sockets{}, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		return sockets{}, fmt.Errorf("LISTEN_FDS is %q", count)
	}
	for i := range n {
		file := os.NewFile(uintptr(firstSocket+i), fmt.Sprintf("inherited socket %d", i+1))
		l, err := net.FileListener(file) // has a descriptor of its own, which is closed on exec
		file.Close()
		switch {
		case err != nil:
			return sockets{}, fmt.Errorf("inherited socket %d: %w", i+1, err)
		case i < len(names) && names[i] == "admin" && s.admin != nil:
			return sockets{}, fmt.Errorf("inherited socket %d: another one is called admin, too", i+1)
		case i < len(names) && names[i] == "admin":
			s.admin = l
		default:
			s.clients = append(s.clients, l)
		}
	}
	return s, nil
}
