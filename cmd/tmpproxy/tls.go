package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tmpproxy/config"
	"tmpproxy/proxy"
)

var (
	listenModes = map[string]proxy.ListenTLS{"off": proxy.ListenTLSOff, "optional": proxy.ListenTLSOptional,
		"required": proxy.ListenTLSRequired, "passthrough": proxy.ListenTLSPassthrough}
	backendModes = map[string]proxy.BackendTLS{"disabled": proxy.BackendTLSDisabled, "preferred": proxy.BackendTLSPreferred,
		"required": proxy.BackendTLSRequired, "verify-ca": proxy.BackendTLSVerified, "verify-identity": proxy.BackendTLSVerified}
)

// secrets are the certificates and keys in force. Its methods but for load are safe for concurrent use.
type secrets struct {
	log            *zap.Logger
	selfMade       *selfMade // nil until it was needed
	server, client atomic.Pointer[tls.Config]
}

// load reads the files that settings name, and returns what puts them into force.
func (s *secrets) load(c *config.Config) (enforce func(), err error) {
	server, err := c.ServerTLS()
	if err != nil {
		return nil, err
	}
	client, err := c.ClientTLS()
	if err != nil {
		return nil, err
	}
	own := s.selfMade
	if server != nil && len(server.Certificates) == 0 {
		if own == nil || own.dir != c.Listen.TLS.Dir {
			own = newSelfMade(c.Listen.TLS.Dir, s.log, time.Now)
		}
		if err := own.begin(); err != nil {
			return nil, err
		}
		server.GetCertificate = own.choose
	}
	return func() {
		s.selfMade = own
		s.server.Store(server)
		s.client.Store(client)
	}, nil
}

// settings are those of a server with these certificates and keys. Modes and the RSA key stay as they are at the start.
func (s *secrets) settings(c *config.Config) (proxy.TLS, error) {
	t := proxy.TLS{Listen: listenModes[c.Listen.TLS.Mode], Server: s.server.Load, Backend: backendModes[c.Backend.TLS.Mode], Client: s.dialling}
	text, err := c.RSAKey()
	if err != nil || text == nil {
		return t, err
	}
	if t.Key, err = proxy.ParseRSAKey(text); err != nil {
		return t, fmt.Errorf("%s: %w", c.Backend.RSAKeyFile, err)
	}
	return t, nil
}

// dialling are the settings of TLS with a backend.
func (s *secrets) dialling(backend string) *tls.Config {
	config := s.client.Load()
	if config.ServerName != "" {
		return config
	}
	config = config.Clone()
	if config.ServerName, _, _ = net.SplitHostPort(backend); config.ServerName == "" {
		config.ServerName = "localhost" // a unix socket
	}
	return config
}
