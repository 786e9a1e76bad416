package server

import (
	"net"
	"testing"
)

func TestFreeAddresses(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		addresses, err := FreeAddresses(2)
		if err != nil || len(addresses) != 2 {
			t.Fatal(addresses, err)
		}
		for _, address := range addresses {
			if seen[address] {
				t.Errorf("%s was given before", address)
			}
			seen[address] = true
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if port := l.Addr().(*net.TCPAddr).Port; port >= 32768 {
				t.Errorf("port %d may be given to connections", port)
			}
		}
	}
}
