package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"go.uber.org/zap"
)

// TestSelfSigned has clients that were told to use this or that kind of cipher served by the certificates that the proxy makes itself.
func TestSelfSigned(t *testing.T) {
	now := time.Now()
	made := newSelfMade("", zap.NewNop(), time.Now)
	if err := made.begin(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		client *tls.Config
		want   x509.PublicKeyAlgorithm
	}{
		{"any", &tls.Config{}, x509.ECDSA},
		{"TLS 1.2", &tls.Config{MaxVersion: tls.VersionTLS12}, x509.ECDSA},
		{"RSA", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}}, x509.RSA},
		{"elliptic", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}, x509.ECDSA},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			defer server.Close()
			go tls.Server(server, &tls.Config{GetCertificate: made.choose, MinVersion: tls.VersionTLS12}).Handshake()
			c.client.InsecureSkipVerify = true
			conn := tls.Client(client, c.client)
			if err := conn.Handshake(); err != nil {
				t.Fatal(err)
			}
			shown := conn.ConnectionState().PeerCertificates[0]
			if shown.PublicKeyAlgorithm != c.want || shown.NotBefore.After(now) || shown.NotAfter.Before(now.AddDate(9, 0, 0)) {
				t.Errorf("%v from %v to %v", shown.PublicKeyAlgorithm, shown.NotBefore, shown.NotAfter)
			}
		})
	}
}
