package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"sync"
	"sync/atomic"
	"time"

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
	if server != nil && len(server.Certificates) == 0 {
		if s.selfMade == nil {
			if s.selfMade, err = newSelfMade(); err != nil {
				return nil, err
			}
		}
		server.GetCertificate = s.selfMade.choose
	}
	return func() {
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

// selfMade are certificates as servers make them that are given none: they serve encryption, and nobody vouches for them.
type selfMade struct {
	elliptic *tls.Certificate                 // cheap to make and to use
	rsa      func() (*tls.Certificate, error) // made for the first client that was told to use ciphers with RSA, as servers make such certificates
}

func newSelfMade() (*selfMade, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	certificate, err := selfSigned(key)
	if err != nil {
		return nil, err
	}
	return &selfMade{certificate, sync.OnceValues(func() (*tls.Certificate, error) {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, fmt.Errorf("make a certificate: %w", err)
		}
		return selfSigned(key)
	})}, nil
}

// choose returns the one for a client.
func (m *selfMade) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello.SupportsCertificate(m.elliptic) == nil {
		return m.elliptic, nil
	}
	return m.rsa()
}

func selfSigned(key crypto.Signer) (*tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "tmpproxy (made at its start)"}, DNSNames: []string{"localhost"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
