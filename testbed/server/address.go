package server

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

// Ports below those that systems give to connections (32768 and up on Linux, 49152 and up elsewhere): one of these could be taken for a
// connection of somebody else's in the moment between FreeAddresses and the listening.
const firstPort, ports = 15000, 17000

var portsGiven atomic.Uint32

// FreeAddresses returns n addresses of 127.0.0.1 whose ports nobody listens on at present, other ones each time. Processes with different ids
// begin at different ports. Safe for concurrent use.
func FreeAddresses(n int) (addresses []string, err error) {
	for range ports {
		if len(addresses) == n {
			return addresses, nil
		}
		port := firstPort + (uint32(os.Getpid())*97+portsGiven.Add(1))%ports
		address := net.JoinHostPort("127.0.0.1", strconv.FormatUint(uint64(port), 10))
		l, listening := net.Listen("tcp", address)
		if listening != nil {
			err = listening
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	return nil, fmt.Errorf("no free port: %w", err)
}
