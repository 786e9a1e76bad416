package proxy

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"

	"tmpproxy/wire"
)

// Where a password itself has to reach the server, clients say it in clear over a leg that nobody can listen to, and else encrypted with
// an RSA key that they ask for. If the legs are not alike, what is said has to be another thing on either: see translation.

const (
	sha256Password      = "sha256_password"
	cachingSHA2Password = "caching_sha2_password"
	// otherPlugin is the name of no plugin: a server that is told of an answer for it asks for the account's own.
	otherPlugin = "tmpproxy"

	moreData  = 0x01 // first byte of what a server's plugin says
	wantsFull = 0x04 // caching_sha2_password: the password itself is wanted

	maxPassword = 4 << 10 // bytes of an answer that may be a password
)

// askKey is how a client asks for the public key.
var askKey = map[string]byte{sha256Password: 1, cachingSHA2Password: 2}

// translation is what becomes of the password itself where one leg is secure and the other is not.
type translation struct {
	password bool   // the client's next answer is, or asks for the key
	secret   []byte // that the client said, while the server's key is awaited
}

// RSAKey decrypts passwords. Safe for concurrent use.
type RSAKey struct {
	key    *rsa.PrivateKey
	public []byte // PEM
}

// NewRSAKey makes a key.
func NewRSAKey() (*RSAKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("make RSA key: %w", err)
	}
	return newRSAKey(key)
}

// ParseRSAKey reads a private key in PEM, as in a server's private_key.pem.
func ParseRSAKey(text []byte) (*RSAKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("read RSA key: there is no PEM block")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return newRSAKey(key)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("read RSA key: the PEM block holds no private key that is not encrypted")
	}
	private, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("read RSA key: it is of another kind")
	}
	return newRSAKey(private)
}

func newRSAKey(key *rsa.PrivateKey) (*RSAKey, error) {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("RSA key: %w", err)
	}
	return &RSAKey{key, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})}, nil
}

// decrypt returns the password, with the NUL behind it, that a client encrypted for the key.
func (k *RSAKey) decrypt(b, scramble []byte) ([]byte, error) {
	password, err := rsa.DecryptOAEP(sha1.New(), nil, k.key, b, nil)
	if err != nil {
		return nil, err
	}
	mix(password, scramble)
	return password, nil
}

// encryptPassword encrypts a password, with its NUL, for a server's public key in PEM. It destroys password.
func encryptPassword(password, scramble, key []byte) ([]byte, error) {
	mix(password, scramble)
	defer clear(password)
	block, _ := pem.Decode(key)
	if block == nil {
		return nil, errors.New("the server's key is no PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the server's key: %w", err)
	}
	public, ok := parsed.(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("the server's key is none of RSA")
	}
	return rsa.EncryptOAEP(sha1.New(), rand.Reader, public, password, nil)
}

// mix is an exclusive or with the scramble, over and over.
func mix(password, scramble []byte) {
	for i := range password {
		if len(scramble) > 0 {
			password[i] ^= scramble[i%len(scramble)]
		}
	}
}

// ownKey is the key that clients get where the settings have none.
var ownKey = sync.OnceValues(NewRSAKey)

func (sh *shared) rsaKey() (*RSAKey, error) {
	if sh.tls.Key != nil {
		return sh.tls.Key, nil
	}
	return ownKey()
}

// clear says whether a plugin says the password in clear on a leg. sha256_password does so only with TLS, not over a unix socket.
func (c *conversation) clear(plugin string, at side) bool {
	return c.tls(at) != nil || plugin == cachingSHA2Password && c.safe[at]
}

// translates says whether a plugin says the password differently on the two legs.
func (c *conversation) translates(plugin string) bool {
	return (plugin == sha256Password || plugin == cachingSHA2Password) && c.clear(plugin, clientSide) != c.clear(plugin, backendSide)
}

// reviseChangeUser takes from the present COM_CHANGE_USER an answer that is the password itself, or asks for a key: it will be asked for
// again, as the leg needs it.
func (c *conversation) reviseChangeUser() {
	if c.upOpen || !c.translates(sha256Password) {
		return
	}
	payload := c.cmd[wire.HeaderSize:]
	if u, err := wire.ParseChangeUser(payload, c.caps); err == nil && u.Plugin == sha256Password {
		if other, err := wire.ChangeUserWithoutAnswer(payload, c.caps, otherPlugin); err == nil {
			c.cmd = packetOf(c.cmd[3], other)
		}
	}
}

// note looks at a packet of the backend's in an authentication: does it ask for the password itself?
func (t *translation) note(plugin string, payload []byte) {
	switch {
	case len(payload) == 0:
	case payload[0] == moreData:
		t.password = plugin == cachingSHA2Password && len(payload) == 2 && payload[1] == wantsFull
	default: // a switch to a plugin
		t.password = plugin == sha256Password
	}
}

// answerAuth takes the client's packet in an authentication whose legs are not alike. It says whether that was done.
func (c *conversation) answerAuth(p []byte, now int64, out *output) bool {
	h := c.hs
	t := &h.translation
	payload := p[wire.HeaderSize:]
	if !t.password {
		return false
	}
	plugin := h.flow.Plugin()
	inClear := c.clear(plugin, clientSide)
	asks := len(payload) == 1 && payload[0] == askKey[plugin]
	switch {
	case asks && !inClear:
		c.giveKey(out)
		return true
	case len(payload) <= 1: // no password; or what is no answer, which the server may judge
		return false
	}
	t.password = false
	if len(payload) > maxPassword {
		c.refuse(wire.Err{Code: 1043, State: "08S01", Message: "Bad handshake: tmpproxy takes passwords up to 4 KiB"}, out)
		return true
	}
	if inClear {
		t.secret = bytes.Clone(payload)
		clear(payload)
		c.sendAuth([]byte{askKey[plugin]}, out)
		return true
	}
	sealed, scramble := bytes.Clone(payload), bytes.Clone(c.legs.scramble[:])
	var password []byte
	out.work = func() {
		if key, err := c.sh.rsaKey(); err == nil {
			password, _ = key.decrypt(sealed, scramble)
		}
	}
	c.hs.then = func(_ int64, out *output) {
		if password == nil {
			c.refuse(wire.Err{Code: 1045, State: "28000", Message: "Access denied: the password is encrypted with another key than tmpproxy's (backend.rsa_key_file)"}, out)
			return
		}
		c.sendAuth(password, out)
		c.finishLater(out)
	}
	return true
}

// giveKey answers a client that asks for the server's public key with ours.
func (c *conversation) giveKey(out *output) {
	h := c.hs
	var key *RSAKey
	var err error
	out.work = func() { key, err = c.sh.rsaKey() }
	c.hs.then = func(now int64, out *output) {
		if err != nil {
			c.refuse(wire.Err{Code: 1045, State: "28000", Message: "Access denied: " + err.Error()}, out)
			return
		}
		c.toClient(packetOf(h.next, append([]byte{moreData}, key.public...)), out)
		h.shift -= 2
		h.clientTurn = true
		c.authFromClient(now, out)
		c.finishLater(out)
	}
}

// sealSecret takes the server's key for the secret of the client's. It says whether p was that.
func (c *conversation) sealSecret(p []byte, out *output) bool {
	h := c.hs
	t := &h.translation
	payload := p[wire.HeaderSize:]
	if t.secret == nil {
		return false
	}
	secret := t.secret
	t.secret = nil
	if payload[0] != moreData {
		clear(secret)
		return false
	}
	key, scramble := bytes.Clone(payload[1:]), bytes.Clone(c.legs.scramble[:])
	var sealed []byte
	var err error
	out.work = func() { sealed, err = encryptPassword(secret, scramble, key) }
	c.hs.then = func(_ int64, out *output) {
		if err != nil {
			c.refuse(wire.Err{Code: 1045, State: "28000", Message: "Access denied: tmpproxy cannot encrypt the password for the server: " + err.Error()}, out)
			return
		}
		h.shift += 2
		c.sendAuth(sealed, out)
		c.finishLater(out)
	}
	return true
}

// sendAuth sends the backend a packet of an authentication in place of the client's last.
func (c *conversation) sendAuth(payload []byte, out *output) {
	c.toBackend(packetOf(c.hs.next-1+c.hs.shift, payload), out)
}

// finishLater passes on a client's FIN that came meanwhile.
func (c *conversation) finishLater(out *output) {
	if c.clientFIN {
		c.finish(out)
	}
}

// packetOf is a packet.
func packetOf(seq byte, payload []byte) []byte {
	b := make([]byte, wire.HeaderSize, wire.HeaderSize+len(payload))
	wire.PutHeader(b, len(payload), seq)
	return append(b, payload...)
}
