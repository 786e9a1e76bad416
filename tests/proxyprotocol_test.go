//go:build realserver

package tests

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
)

// TestProxyProtocol has a client's address told to the proxy, and by the proxy to MariaDB, which goes by it.
func TestProxyProtocol(t *testing.T) {
	s := own(t, server.MariaDB, "--proxy-protocol-networks=127.0.0.1")
	executeDirectly(t, s, "CREATE USER app@'10.1.2.3'", "CREATE USER app@'127.0.0.1'")
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			p := startProxy(t, s.Address, "TMPPROXY_RELAY_DRIVER="+driver, "TMPPROXY_LISTEN_PROXY_NETWORKS=127.0.0.1", "TMPPROXY_BACKEND_PROXY_PROTOCOL=v2")
			// enter connects as somebody, and says what the server takes that one for.
			enter := func(header string) string {
				t.Helper()
				config := configure(s, p.Address, "")
				config.User, config.Header = "app", header
				c, err := rawclient.Connect(config)
				if err != nil {
					return err.Error()
				}
				defer c.Close()
				host := value(t, c, "SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()")
				return value(t, c, "SELECT CURRENT_USER()") + " from " + host
			}
			const client = "PROXY TCP4 10.1.2.3 10.0.0.1 12345 3306\r\n"
			for range 2 {
				if got := enter(client); got != "app@10.1.2.3 from 10.1.2.3:12345" {
					t.Errorf("a client of the network: %s", got)
				}
				// Who leaves before the login leaves no connection for somebody else.
				conn, err := net.Dial("tcp", p.Address)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprint(conn, "PROXY TCP4 10.9.9.9 10.0.0.1 1 3306\r\n")
				conn.Close()
			}
			if got := enter("PROXY TCP4 10.9.9.9 10.0.0.1 12345 3306\r\n"); !strings.Contains(got, "'10.9.9.9'") || !strings.HasPrefix(got, "ERR ") {
				t.Errorf("a client without an account: %s", got)
			}
			if _, err := p.Get("/readyz"); err != nil {
				t.Errorf("ready: %v", err)
			}
		})
	}
}
