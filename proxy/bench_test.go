package proxy

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
)

// BenchmarkRelay measures round trips of 50 bytes up and 100 down between clients and a backend in this process: directly and
// through each driver as a bare relay.
func BenchmarkRelay(b *testing.B) {
	ways := []string{"direct", "pump"}
	if runtime.GOOS == "linux" {
		ways = append(ways, "loop", "two loops")
	}
	for _, network := range []string{"tcp", "unix"} {
		for _, connections := range []int{1, 16} {
			for _, way := range ways {
				b.Run(fmt.Sprintf("%s/%d/%s", network, connections, way), func(b *testing.B) {
					o := rigOptions{driver: way, network: network}
					switch way {
					case "direct":
						o.driver = "pump"
					case "two loops":
						o.driver = "loop"
						o.change = func(o *Options) { o.Loops = 2 }
					}
					r := newRig(b, o)
					target := r.server.Addresses()[0]
					if way == "direct" {
						target = r.backend.Addr()
					}
					var clients []net.Conn
					for range connections {
						client, err := net.Dial(target.Network(), target.String())
						if err != nil {
							b.Fatal(err)
						}
						backend, err := r.backend.Accept()
						if err != nil {
							b.Fatal(err)
						}
						go func() {
							defer backend.Close()
							request, reply := make([]byte, 50), make([]byte, 100)
							for {
								if _, err := io.ReadFull(backend, request); err != nil {
									return
								}
								backend.Write(reply)
							}
						}()
						clients = append(clients, client)
					}
					trips := make(chan struct{}, 1024)
					b.ResetTimer()
					var all sync.WaitGroup
					for _, client := range clients {
						all.Go(func() {
							request, reply := make([]byte, 50), make([]byte, 100)
							for range trips {
								client.Write(request)
								if _, err := io.ReadFull(client, reply); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					for range b.N {
						trips <- struct{}{}
					}
					close(trips)
					all.Wait()
					b.StopTimer()
					for _, client := range clients {
						client.Close()
					}
					r.empty()
				})
			}
		}
	}
}
