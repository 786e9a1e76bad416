package bench

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// An identity is the certificate that everybody shows who serves with TLS here, and its key. Nobody checks it.
type identity struct{ certificate, key string } // PEM files

func newIdentity(dir string) (identity, error) {
	none := identity{}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return none, err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tmpproxy bench"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 0, 7), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return none, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return none, err
	}
	id := identity{filepath.Join(dir, "certificate.pem"), filepath.Join(dir, "key.pem")}
	if err := os.WriteFile(id.certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return none, err
	}
	return id, os.WriteFile(id.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
}

func (id identity) config() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(id.certificate, id.key)
	return &tls.Config{Certificates: []tls.Certificate{pair}}, err
}
