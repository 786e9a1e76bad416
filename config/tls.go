package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
)

// Certificates name the files of one end of TLS, all in PEM; "" where there is none.
type Certificates struct {
	CertFile string // the certificate, and those between it and the authority's
	KeyFile  string // its private key
	CAFile   string // authorities that the peer's certificate may come from
}

// load reads the files. A pair that is not named is nil, like the authorities.
func (f Certificates) load() (*tls.Certificate, *x509.CertPool, error) {
	var pair *tls.Certificate
	switch {
	case (f.CertFile == "") != (f.KeyFile == ""):
		return nil, nil, errors.New("a certificate needs its key, and a key its certificate")
	case f.CertFile != "":
		loaded, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("read the certificate: %w", err)
		}
		pair = &loaded
	}
	if f.CAFile == "" {
		return pair, nil, nil
	}
	text, err := os.ReadFile(f.CAFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read the authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, nil, fmt.Errorf("%s holds no certificate", f.CAFile)
	}
	return pair, pool, nil
}

// files are those that are named.
func (f Certificates) files() []string { return []string{f.CertFile, f.KeyFile, f.CAFile} }

// TLSFiles returns the files of certificates and keys that the settings name: where they change, the settings are to be read again.
func (c *Config) TLSFiles() []string {
	var named []string
	for _, file := range append(append(c.Listen.TLS.files(), c.Backend.TLS.files()...), c.Backend.RSAKeyFile) {
		if file != "" {
			named = append(named, file)
		}
	}
	return named
}

// ServerTLS makes the settings of TLS with clients. It has no certificate if none is named. With authorities clients need one of
// theirs. It is nil unless the proxy itself offers TLS.
func (c *Config) ServerTLS() (*tls.Config, error) {
	pair, authorities, err := c.Listen.TLS.load()
	if err != nil || c.Listen.TLS.Mode != "optional" && c.Listen.TLS.Mode != "required" {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, DynamicRecordSizingDisabled: true}
	if pair != nil {
		config.Certificates = []tls.Certificate{*pair}
	}
	if authorities != nil {
		config.ClientCAs, config.ClientAuth = authorities, tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// ClientTLS makes the settings of TLS with the server. It is nil if there is none.
func (c *Config) ClientTLS() (*tls.Config, error) {
	own, authorities, err := c.Backend.TLS.load()
	if err != nil || c.Backend.TLS.Mode == "disabled" {
		return nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, DynamicRecordSizingDisabled: true, ServerName: c.Backend.TLS.ServerName,
		RootCAs: authorities, ClientSessionCache: tls.NewLRUClientSessionCache(0),
	}
	if own != nil {
		config.Certificates = []tls.Certificate{*own}
	}
	switch c.Backend.TLS.Mode {
	case "verify-identity":
	case "verify-ca":
		// The chain, whatever name it is for.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(state tls.ConnectionState) error {
			between := x509.NewCertPool()
			for _, certificate := range state.PeerCertificates[1:] {
				between.AddCert(certificate)
			}
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between})
			return err
		}
	default:
		config.InsecureSkipVerify = true // asked for: encryption, whoever is there
	}
	return config, nil
}

// RSAKey reads the key for passwords; nil if none is named.
func (c *Config) RSAKey() ([]byte, error) {
	if c.Backend.RSAKeyFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.Backend.RSAKeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the RSA key: %w", err)
	}
	return text, nil
}

// tlsWarnings are about keys that others may read, and passwords that may be listened to.
func (c *Config) tlsWarnings() []string {
	var warnings []string
	for _, file := range []string{c.Listen.TLS.KeyFile, c.Backend.TLS.KeyFile, c.Backend.RSAKeyFile} {
		if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
			warnings = append(warnings, fmt.Sprintf("%s holds a private key and can be read by others than its owner (%v)", file, info.Mode().Perm()))
		}
	}
	for _, address := range c.Backend.Addresses {
		if local(address) {
			continue
		}
		switch mode := c.Listen.TLS.Mode; {
		case c.Backend.TLS.Mode == "disabled" && (mode == "optional" || mode == "required"):
			warnings = append(warnings, fmt.Sprintf("clients get TLS, but what they say goes on to %s without it: see backend.tls.mode", address))
		case c.Backend.TLS.Mode == "preferred" || c.Backend.TLS.Mode == "required":
			warnings = append(warnings, fmt.Sprintf("backend.tls.mode %s does not verify that %s is the server: whoever can stand in between reads all", c.Backend.TLS.Mode, address))
		}
	}
	return warnings
}

// local says whether an address is of this machine.
func local(address string) bool {
	if Network(address) == "unix" {
		return true
	}
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
