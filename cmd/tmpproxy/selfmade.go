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
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
)

// A certificate of the proxy's own is good for that long, and replaced when only the latter is left of it.
const (
	selfMadeYears   = 10
	selfMadeRenewed = 30 * 24 * time.Hour
)

// Names of the files in listen.tls.dir: keys with their certificates, and the certificates alone, for clients.
const (
	ecdsaFile        = "server-ecdsa.pem"
	rsaFile          = "server-rsa.pem"
	certificatesFile = "server-cert.pem"
)

// selfMade are the certificates that the proxy shows if it is given none: they serve encryption, and no authority vouches for them. It is safe
// for concurrent use.
type selfMade struct {
	dir   string          // where they are kept; "" for nowhere
	ecdsa *ownCertificate // cheap to make and to use
	rsa   *ownCertificate // for clients that were told to use ciphers with RSA, as servers make such certificates
}

func newSelfMade(dir string, log *zap.Logger, now func() time.Time) *selfMade {
	return &selfMade{dir,
		&ownCertificate{dir: dir, file: ecdsaFile, log: log, now: now,
			key: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }},
		&ownCertificate{dir: dir, file: rsaFile, log: log, now: now,
			key: func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) }}}
}

// begin reads or makes what clients are likely to be shown, and all that is kept.
func (m *selfMade) begin() error {
	_, err := m.ecdsa.certificate()
	if err == nil && m.dir != "" {
		_, err = m.rsa.certificate()
	}
	return err
}

// choose returns the one for a client.
func (m *selfMade) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	certificate, err := m.ecdsa.certificate()
	if err != nil || hello.SupportsCertificate(certificate) == nil {
		return certificate, err
	}
	return m.rsa.certificate()
}

// ownCertificate is one of them, which is replaced before it expires.
type ownCertificate struct {
	dir, file string // "" for dir: it is not kept
	key       func() (crypto.Signer, error)
	log       *zap.Logger
	now       func() time.Time

	mu     sync.Mutex
	pair   *tls.Certificate // nil until it was read or made
	failed time.Time        // when it could not be replaced last
}

// certificate returns the certificate, which it reads or makes if there is none that goes on being valid.
func (s *ownCertificate) certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.good(now) || now.Sub(s.failed) < time.Hour {
		return s.pair, nil
	}
	if s.dir != "" { // another process may have replaced it
		pair, err := readPair(filepath.Join(s.dir, s.file))
		switch {
		case err == nil:
			s.pair = pair
		case s.pair == nil && !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("listen.tls.dir: %w", err)
		}
		if s.good(now) {
			return s.pair, nil
		}
	}
	pair, err := s.make(now)
	if err != nil {
		if s.pair == nil {
			return nil, err
		}
		s.failed = now
		s.log.Error("the proxy's own certificate cannot be replaced", zap.String("file", s.file), zap.Time("expires", s.pair.Leaf.NotAfter), zap.Error(err))
		return s.pair, nil
	}
	if s.dir != "" {
		s.log.Info("a certificate was made", zap.String("file", filepath.Join(s.dir, s.file)), zap.Time("expires", pair.Leaf.NotAfter))
	}
	s.pair = pair
	return s.pair, nil
}

// good says whether there is a certificate that need not be replaced yet.
func (s *ownCertificate) good(now time.Time) bool {
	return s.pair != nil && now.Before(s.pair.Leaf.NotAfter.Add(-selfMadeRenewed))
}

// make makes a certificate and stores it, unless another process has been faster.
func (s *ownCertificate) make(now time.Time) (*tls.Certificate, error) {
	key, err := s.key()
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	pair, text, err := selfSigned(key, now)
	if err != nil || s.dir == "" {
		return pair, err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("listen.tls.dir: %w", err)
	}
	put := os.Link
	if s.pair != nil {
		put = os.Rename
	}
	file := filepath.Join(s.dir, s.file)
	if err := place(file, text, 0o600, put); errors.Is(err, fs.ErrExist) {
		if pair, err = readPair(file); err != nil {
			return nil, fmt.Errorf("listen.tls.dir: %w", err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("listen.tls.dir: %w", err)
	}
	if err := publish(s.dir); err != nil {
		return nil, fmt.Errorf("listen.tls.dir: %w", err)
	}
	return pair, nil
}

// publish writes the certificates that there are without their keys.
func publish(dir string) error {
	var public []byte
	for _, name := range []string{ecdsaFile, rsaFile} {
		pair, err := readPair(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		public = append(public, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})...)
	}
	return place(filepath.Join(dir, certificatesFile), public, 0o644, os.Rename)
}

// place writes a file beside its place and puts it there whole.
func place(file string, text []byte, mode os.FileMode, put func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return put(f.Name(), file)
}

func readPair(file string) (*tls.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &pair, nil
}

// selfSigned returns a certificate with its key, and both as PEM.
func selfSigned(key crypto.Signer, now time.Time) (*tls.Certificate, []byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "tmpproxy (made by itself)"},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(selfMadeYears, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &pair, text, nil
}
