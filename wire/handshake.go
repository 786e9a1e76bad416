package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Greeting is the server's first packet (protocol 10).
type Greeting struct {
	Version      string // as sent, with the "5.5.5-" that MariaDB before 11.0 puts in front
	ThreadID     uint32
	Capabilities Capability
	Collation    byte
	Status       uint16
	Plugin       string // default authentication plugin; empty without CLIENT_PLUGIN_AUTH
	Scramble     []byte // 20 bytes, or 8 without CLIENT_SECURE_CONNECTION; a copy
	MariaDB      bool
	VersionID    int  // 90704 for 9.7.4, 101119 for MariaDB 10.11.19; 0 if Version does not begin with a number
	Err          *Err // the server refused before it greeted; everything else is then zero
}

// Where things lie in a greeting, counted from the byte behind the version's NUL.
const (
	greetingThread       = 0
	greetingScramble     = 4
	greetingCapabilities = 13 // low half
	greetingCollation    = 15
	greetingStatus       = 16
	greetingHigh         = 18 // high half
	greetingAuthLen      = 20
	greetingExtended     = 27 // last four of ten reserved bytes
	greetingScramble2    = 31
)

// Where things lie in a login of protocol 4.1; it is an SSLRequest if it ends at loginUser.
const (
	loginMaxPacket = 4
	loginCollation = 8
	loginExtended  = 28 // last four of 23 reserved bytes
	loginUser      = 32
)

// Where things lie in a login without CLIENT_PROTOCOL_41.
const (
	oldLoginMaxPacket = 2
	oldLoginUser      = 5
)

var errProtocol = errors.New("unknown protocol version")

// greetingFields returns what follows the version.
func greetingFields(payload []byte) (version, fields []byte, err error) {
	if len(payload) == 0 {
		return nil, nil, errShort
	}
	if payload[0] != 10 {
		return nil, nil, fmt.Errorf("%w %d", errProtocol, payload[0])
	}
	end := bytes.IndexByte(payload, 0)
	if end < 0 || len(payload)-end-1 < greetingCollation {
		return nil, nil, errShort
	}
	return payload[1:end], payload[end+1:], nil
}

// extended tells whether the capabilities of a packet say that MariaDB's extended ones are in it.
func (c Capability) extended() bool { return c&ClientLongPassword == 0 }

// ParseGreeting reads the payload of the server's first packet, a greeting or an ERR. Nothing of payload is kept.
func ParseGreeting(payload []byte) (Greeting, error) {
	if len(payload) > 0 && payload[0] == headerErr {
		e, err := ParseErr(payload)
		if err != nil {
			return Greeting{}, fmt.Errorf("parse greeting: %w", err)
		}
		return Greeting{Err: e}, nil
	}
	version, f, err := greetingFields(payload)
	if err != nil {
		return Greeting{}, fmt.Errorf("parse greeting: %w", err)
	}
	g := Greeting{
		Version:      string(version),
		ThreadID:     binary.LittleEndian.Uint32(f[greetingThread:]),
		Scramble:     append([]byte(nil), f[greetingScramble:greetingScramble+8]...),
		Capabilities: Capability(binary.LittleEndian.Uint16(f[greetingCapabilities:])),
	}
	if len(f) >= greetingScramble2 {
		g.Collation = f[greetingCollation]
		g.Status = binary.LittleEndian.Uint16(f[greetingStatus:])
		g.Capabilities |= Capability(binary.LittleEndian.Uint16(f[greetingHigh:])) << 16
		if g.Capabilities.extended() {
			g.Capabilities |= Capability(binary.LittleEndian.Uint32(f[greetingExtended:])) << 32
		}
		v := view{b: f[greetingScramble2:]}
		if g.Capabilities.Has(ClientSecureConnection) {
			second := v.take(uint64(min(len(v.b), max(13, int(f[greetingAuthLen])-8))))
			g.Scramble = append(g.Scramble, bytes.TrimSuffix(second, []byte{0})...)
		}
		if g.Capabilities.Has(ClientPluginAuth) {
			g.Plugin = string(v.untilNULOrEnd())
		}
	}
	g.MariaDB, g.VersionID = flavour(g.Version, g.Capabilities)
	return g, nil
}

// flavour tells MariaDB from MySQL and reads the version's number.
func flavour(version string, caps Capability) (mariadb bool, id int) {
	number := version
	if behind, found := strings.CutPrefix(version, "5.5.5-1"); found { // what old replicas wanted to see from MariaDB 10
		number, mariadb = "1"+behind, true
	}
	mariadb = mariadb || strings.Contains(strings.ToLower(version), "mariadb") || caps>>32 != 0
	for range 3 {
		digits := 0
		part := 0
		for digits < len(number) && digits < 3 && number[digits] >= '0' && number[digits] <= '9' {
			part = part*10 + int(number[digits]-'0')
			digits++
		}
		id = id*100 + part
		number = strings.TrimPrefix(number[digits:], ".")
		if digits == 0 {
			number = ""
		}
	}
	return mariadb, id
}

// MaskGreeting clears in place every capability outside carried, but for ClientLongPassword: it says how to read the
// packet. ClientProgress is kept for MariaDB only. An ERR in place of a greeting is left as it is.
func MaskGreeting(payload []byte, carried Capability) error {
	if len(payload) > 0 && payload[0] == headerErr {
		return nil
	}
	_, f, err := greetingFields(payload)
	if err != nil {
		return fmt.Errorf("mask greeting: %w", err)
	}
	carried |= ClientLongPassword
	extended := Capability(f[greetingCapabilities]).extended()
	if !extended {
		carried &^= ClientProgress
	}
	maskBytes(f[greetingCapabilities:greetingCapabilities+2], carried)
	if len(f) >= greetingHigh+2 {
		maskBytes(f[greetingHigh:greetingHigh+2], carried>>16)
	}
	if len(f) >= greetingExtended+4 && extended {
		maskBytes(f[greetingExtended:greetingExtended+4], carried>>32)
	}
	return nil
}

// maskBytes clears in the little-endian number b every bit outside mask.
func maskBytes(b []byte, mask Capability) {
	for i := range b {
		b[i] &= byte(mask >> (8 * i))
	}
}

// Login is the client's answer to a greeting.
type Login struct {
	SSLRequest   bool // only the head of a login: TLS follows, then the login proper. All fields below Collation are zero
	Old          bool // no CLIENT_PROTOCOL_41: the layout of MySQL 3.20 to 4.0
	Capabilities Capability
	MaxPacket    uint32
	Collation    uint16
	User, Schema string
	Plugin       string // the plugin the client's answer is for; empty without CLIENT_PLUGIN_AUTH
	AuthLen      int    // length of the client's answer, in bytes
	Attributes   bool   // connection attributes are present
	ZstdLevel    byte   // with CLIENT_ZSTD_COMPRESSION_ALGORITHM
}

// ParseLogin reads the payload of a client's login or SSLRequest. server is what the greeting offered (as the client
// saw it): a field is there if both sides have its capability. As servers do, it lets the packet end early after the
// answer to the scramble; it fails only if there is no user or no answer, or if attributes have no end.
func ParseLogin(payload []byte, server Capability) (Login, error) {
	var l Login
	var v view
	if len(payload) < oldLoginUser {
		return Login{}, fmt.Errorf("parse login: %w", errShort)
	}
	l.Capabilities = Capability(binary.LittleEndian.Uint16(payload))
	if l.Old = !l.Capabilities.Has(ClientProtocol41); l.Old {
		l.MaxPacket = uint32(payload[oldLoginMaxPacket]) | uint32(payload[3])<<8 | uint32(payload[4])<<16
		v.b = payload[oldLoginUser:]
	} else {
		if len(payload) < loginUser {
			return Login{}, fmt.Errorf("parse login: %w", errShort)
		}
		l.Capabilities = Capability(binary.LittleEndian.Uint32(payload))
		if l.Capabilities.extended() {
			l.Capabilities |= Capability(binary.LittleEndian.Uint32(payload[loginExtended:])) << 32
		}
		l.MaxPacket = binary.LittleEndian.Uint32(payload[loginMaxPacket:])
		l.Collation = uint16(payload[loginCollation])
		v.b = payload[loginUser:]
	}
	if len(v.b) == 0 && l.Capabilities.Has(ClientSSL) {
		l.SSLRequest = true
		return l, nil
	}
	both := l.Capabilities & server
	l.User = string(v.untilNUL())
	switch {
	case l.Old:
		l.AuthLen = len(v.untilNULOrEnd())
	case both.Has(ClientPluginAuthLenencData):
		l.AuthLen = len(v.lenencString())
	case both.Has(ClientSecureConnection):
		l.AuthLen = len(v.take(uint64(v.uint8())))
	default:
		l.AuthLen = len(v.untilNUL())
	}
	if v.short {
		return Login{}, fmt.Errorf("parse login: user or answer: %w", errShort)
	}
	if both.Has(ClientConnectWithDB) {
		l.Schema = string(v.untilNULOrEnd())
	}
	if l.Old {
		return l, nil
	}
	if both.Has(ClientPluginAuth) {
		l.Plugin = string(v.untilNULOrEnd())
	}
	if both.Has(ClientConnectAttrs) && len(v.b) > 0 {
		if l.Attributes = len(v.lenencString()) > 0; v.short {
			return Login{}, fmt.Errorf("parse login: attributes: %w", errShort)
		}
	}
	if both.Has(ClientZstdCompression) {
		l.ZstdLevel = v.uint8()
	}
	return l, nil
}

// LoginSpeaks returns what of the capabilities in a login, which may be none that ParseLogin reads, decides on the form of an ERR: 0 for
// a client from before 4.1, ClientProtocol41 for others, and where servers could not tell either.
func LoginSpeaks(payload []byte) Capability {
	if len(payload) < oldLoginUser {
		return ClientProtocol41
	}
	return Capability(binary.LittleEndian.Uint16(payload)) & ClientProtocol41
}

// MaskLogin clears in place every capability outside carried, in a login as in an SSLRequest, but for
// ClientLongPassword: it says how to read the packet. Servers honour bits they never offered, so carried should be what
// the masked greeting offered.
func MaskLogin(payload []byte, carried Capability) error {
	if len(payload) < oldLoginUser {
		return fmt.Errorf("mask login: %w", errShort)
	}
	carried |= ClientLongPassword
	if low := Capability(binary.LittleEndian.Uint16(payload)); !low.Has(ClientProtocol41) {
		maskBytes(payload[:2], carried)
		return nil
	} else if len(payload) < loginUser {
		return fmt.Errorf("mask login: %w", errShort)
	} else if low.extended() {
		maskBytes(payload[loginExtended:loginExtended+4], carried>>32)
	}
	maskBytes(payload[:4], carried)
	return nil
}

// ChangeUser is what is of interest in a COM_CHANGE_USER.
type ChangeUser struct {
	User, Schema string
	Plugin       string // empty without CLIENT_PLUGIN_AUTH
	Collation    uint16 // 0 if the packet ends before it
}

// ParseChangeUser reads the payload of a COM_CHANGE_USER, from the command byte on. caps are the negotiated ones.
func ParseChangeUser(payload []byte, caps Capability) (ChangeUser, error) {
	v := view{b: payload}
	if Command(v.uint8()) != ComChangeUser {
		return ChangeUser{}, fmt.Errorf("parse COM_CHANGE_USER: %w", errCommand)
	}
	var u ChangeUser
	u.User = string(v.untilNUL())
	if caps.Has(ClientSecureConnection) {
		v.take(uint64(v.uint8()))
	} else {
		v.untilNUL()
	}
	if v.short {
		return ChangeUser{}, fmt.Errorf("parse COM_CHANGE_USER: user or answer: %w", errShort)
	}
	u.Schema = string(v.untilNULOrEnd())
	u.Collation = v.uint16()
	if caps.Has(ClientPluginAuth) {
		u.Plugin = string(v.untilNULOrEnd())
	}
	return u, nil
}
