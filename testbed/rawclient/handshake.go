package rawclient

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-mysql-org/go-mysql/mysql"
)

func parseGreeting(p []byte) (Greeting, error) {
	var g Greeting
	r := reader{p: p}
	if version := r.byte(); version != mysql.ClassicProtocolVersion {
		return g, fmt.Errorf("protocol version %d", version)
	}
	g.Version = r.nul()
	g.ThreadID = r.uint32()
	g.Scramble = slices.Clone(r.bytes(8))
	r.bytes(1)
	g.Capabilities = uint32(r.uint16())
	g.Collation = r.byte()
	g.Status = r.uint16()
	g.Capabilities |= uint32(r.uint16()) << 16
	length := int(r.byte())
	r.bytes(6)
	extended := r.uint32()
	if g.Capabilities&mysql.CLIENT_LONG_PASSWORD == 0 { // MariaDB's sign that it has extended capabilities
		g.MariaDB = extended
	}
	rest := r.bytes(max(13, length-8))
	g.Scramble = append(g.Scramble, bytes.TrimRight(rest, "\x00")...)
	if g.Capabilities&mysql.CLIENT_PLUGIN_AUTH != 0 {
		g.Plugin = r.nul()
	}
	return g, r.err
}

func (c *Conn) login() error {
	p, err := c.readPacket()
	if err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	if len(p) > 0 && p[0] == mysql.ERR_HEADER {
		e, err := parseERR(p, true)
		if err != nil {
			return err
		}
		return &ServerError{e}
	}
	g, err := parseGreeting(p)
	if err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	c.Greeting = g
	c.scramble = g.Scramble
	wanted := c.config.Capabilities
	if c.config.Database != "" {
		wanted |= mysql.CLIENT_CONNECT_WITH_DB
	}
	c.MariaDB = c.config.MariaDB & g.MariaDB
	c.secure = c.config.Network == "unix"
	if c.config.TLS != nil {
		wanted |= mysql.CLIENT_SSL
		if g.Capabilities&mysql.CLIENT_SSL == 0 {
			return errors.New("no TLS is offered")
		}
	}
	c.Capabilities = wanted & (g.Capabilities | mysql.CLIENT_LONG_PASSWORD)
	if c.config.MariaDB != 0 {
		c.Capabilities &^= mysql.CLIENT_LONG_PASSWORD
	}
	login := binary.LittleEndian.AppendUint32(nil, c.Capabilities)
	login = binary.LittleEndian.AppendUint32(login, 1<<30)
	login = append(login, c.config.Collation)
	login = append(login, make([]byte, 19)...)
	login = binary.LittleEndian.AppendUint32(login, c.MariaDB)
	if c.config.TLS != nil {
		if err := c.startTLS(login); err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
	}
	plugin := c.config.Plugin
	if plugin == "" {
		plugin = g.Plugin
	}
	answer, err := c.answer(plugin)
	if err != nil {
		// A plugin we do not know: let the server ask for another.
		plugin, answer = mysql.AUTH_NATIVE_PASSWORD, nil
	}
	login = append(login, c.config.User...)
	login = append(login, 0)
	if c.Capabilities&mysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA != 0 {
		login = appendLenencString(login, answer)
	} else {
		login = append(append(login, byte(len(answer))), answer...)
	}
	if c.Capabilities&mysql.CLIENT_CONNECT_WITH_DB != 0 {
		login = append(append(login, c.config.Database...), 0)
	}
	if c.Capabilities&mysql.CLIENT_PLUGIN_AUTH != 0 {
		login = append(append(login, plugin...), 0)
	}
	if c.Capabilities&mysql.CLIENT_CONNECT_ATTRS != 0 {
		login = c.appendAttributes(login)
	}
	if err := c.writePacket(login); err != nil {
		return fmt.Errorf("login: %w", err)
	}
	if err := c.authenticate(&c.Login, plugin, c.config.Password); err != nil {
		return fmt.Errorf("login: %w", err)
	}
	if e := c.Login.Err(); e != nil {
		return &ServerError{*e}
	}
	return nil
}

// startTLS sends the head of the login as the SSLRequest, and makes the connection secure.
func (c *Conn) startTLS(head []byte) error {
	if err := c.writePacket(head); err != nil {
		return err
	}
	secure := tls.Client(c.socket, c.config.TLS)
	if err := secure.Handshake(); err != nil {
		return err
	}
	c.socket, c.secure = secure, true
	c.in.Reset(secure)
	return nil
}

func (c *Conn) appendAttributes(p []byte) []byte {
	var attributes []byte
	for _, name := range slices.Sorted(maps.Keys(c.config.Attributes)) {
		attributes = appendLenencString(attributes, []byte(name))
		attributes = appendLenencString(attributes, []byte(c.config.Attributes[name]))
	}
	return appendLenencString(p, attributes)
}

// answer computes a plugin's first answer to the scramble in hand.
func (c *Conn) answer(plugin string) ([]byte, error) {
	return c.answerFor(plugin, c.config.Password)
}

func (c *Conn) answerFor(plugin, password string) ([]byte, error) {
	if plugin == mysql.AUTH_SHA256_PASSWORD && c.config.TLS != nil {
		return append([]byte(password), 0), nil
	}
	return answer(plugin, password, c.scramble)
}

func answer(plugin, password string, scramble []byte) ([]byte, error) {
	switch plugin {
	case mysql.AUTH_NATIVE_PASSWORD, "":
		if password == "" {
			return nil, nil
		}
		// SHA1(password) XOR SHA1(scramble + SHA1(SHA1(password)))
		stage1 := sha1.Sum([]byte(password))
		stage2 := sha1.Sum(stage1[:])
		mask := sha1.Sum(append(slices.Clone(scramble), stage2[:]...))
		return xor(stage1[:], mask[:]), nil
	case mysql.AUTH_CACHING_SHA2_PASSWORD:
		if password == "" {
			return nil, nil
		}
		// SHA256(password) XOR SHA256(SHA256(SHA256(password)) + scramble)
		stage1 := sha256.Sum256([]byte(password))
		stage2 := sha256.Sum256(stage1[:])
		mask := sha256.Sum256(append(slices.Clone(stage2[:]), scramble...))
		return xor(stage1[:], mask[:]), nil
	case mysql.AUTH_SHA256_PASSWORD:
		if password == "" {
			return []byte{0}, nil
		}
		return []byte{1}, nil // ask for the public key
	case mysql.AUTH_MARIADB_ED25519:
		// MariaDB hashes passwords of any length where the standard hashes seeds of 32 bytes; else they are the same.
		if len(password) != ed25519.SeedSize {
			return nil, fmt.Errorf("a password for %s of %d bytes: only %d are known here", plugin, len(password), ed25519.SeedSize)
		}
		return ed25519.Sign(ed25519.NewKeyFromSeed([]byte(password)), scramble), nil
	case mysql.AUTH_CLEAR_PASSWORD:
		return append([]byte(password), 0), nil
	}
	return nil, fmt.Errorf("plugin %q is not known here", plugin)
}

func xor(a, b []byte) []byte {
	out := make([]byte, len(a))
	for i := range a {
		out[i] = a[i] ^ b[i%len(b)]
	}
	return out
}

// authenticate takes the turns after the client's first answer and leaves the OK or ERR that ends them in reply.
func (c *Conn) authenticate(reply *Reply, plugin, password string) error {
	c.reply = reply
	defer func() { c.reply = nil }()
	for {
		p, err := c.readPacket()
		if err != nil {
			return err
		}
		if len(p) == 0 {
			return errors.New("empty packet during authentication")
		}
		switch p[0] {
		case mysql.OK_HEADER, mysql.ERR_HEADER:
			return c.parseEnd(reply, p)
		case mysql.EOF_HEADER: // AuthSwitchRequest
			r := reader{p: p[1:]}
			plugin = r.nul()
			c.scramble = r.rest()
			// The NUL behind a scramble of 20 bytes is none of it; client_ed25519 has 32 bytes of any value.
			if n := len(c.scramble); n == 21 && c.scramble[n-1] == 0 {
				c.scramble = c.scramble[:n-1]
			}
			if r.err != nil {
				return fmt.Errorf("auth switch: %w", r.err)
			}
			reply.Turns = append(reply.Turns, "switch to "+plugin)
			a, err := c.answerFor(plugin, password)
			if err != nil {
				return err
			}
			if err := c.writePacket(a); err != nil {
				return err
			}
		case mysql.MORE_DATE_HEADER: // AuthMoreData
			if err := c.moreData(reply, plugin, password, p[1:]); err != nil {
				return err
			}
		default:
			return fmt.Errorf("packet %#x during authentication", p[0])
		}
	}
}

// moreData is a turn of caching_sha2_password or sha256_password.
func (c *Conn) moreData(reply *Reply, plugin, password string, data []byte) error {
	switch {
	case plugin == mysql.AUTH_SHA256_PASSWORD:
	case plugin != mysql.AUTH_CACHING_SHA2_PASSWORD:
		return fmt.Errorf("more data for %s", plugin)
	case len(data) == 1 && data[0] == mysql.CACHE_SHA2_FAST_AUTH:
		reply.Turns = append(reply.Turns, "fast")
		return nil
	case len(data) == 1 && data[0] == mysql.CACHE_SHA2_FULL_AUTH:
		reply.Turns = append(reply.Turns, "full")
		if c.secure {
			return c.writePacket(append([]byte(password), 0))
		}
		return c.writePacket([]byte{2}) // ask for the public key
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return fmt.Errorf("more data of %d bytes is no key", len(data))
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("public key: %w", err)
	}
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return fmt.Errorf("public key is a %T", key)
	}
	reply.Turns = append(reply.Turns, "key")
	plain := xor(append([]byte(password), 0), c.scramble)
	secret, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, public, plain, nil)
	if err != nil {
		return err
	}
	return c.writePacket(secret)
}
