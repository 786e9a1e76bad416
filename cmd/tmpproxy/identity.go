package main

import (
	"fmt"

	"tmpproxy/config"
)

// checkIdentity refuses to lend clients an identity that opens accounts: over a unix socket the server sees the proxy's own user,
// and accounts of the plugins unix_socket and auth_socket let that user in without a password. euid is the proxy's.
func checkIdentity(c *config.Config, euid int, owner func(socket string) (uid int, known bool)) error {
	const remedy = "run it as another user, connect over TCP, or set backend.allow_peer_identity"
	for _, socket := range c.Backend.Addresses {
		if config.Network(socket) != "unix" || c.Backend.AllowPeerIdentity {
			continue
		}
		if euid == 0 {
			return &config.Error{Faults: []string{fmt.Sprintf("backend.address: over %s every client would reach the server as root: %s", socket, remedy)}}
		}
		if uid, known := owner(socket); known && uid == euid {
			return &config.Error{Faults: []string{fmt.Sprintf("backend.address: over %s every client would reach the server as the user it runs as (uid %d): %s", socket, euid, remedy)}}
		}
	}
	return nil
}
