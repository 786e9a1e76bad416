package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// OfferTLS sets CLIENT_SSL in the payload of a greeting, in place.
func OfferTLS(greeting []byte) error {
	_, f, err := greetingFields(greeting)
	if err != nil {
		return fmt.Errorf("offer TLS: %w", err)
	}
	setSSL(f[greetingCapabilities:])
	return nil
}

// AskForTLS sets CLIENT_SSL in the payload of a login of protocol 4.1, in place, and returns the payload of the SSLRequest that goes
// before it: a copy of the login's head.
func AskForTLS(login []byte) (request []byte, err error) {
	if len(login) < loginUser || !Capability(binary.LittleEndian.Uint16(login)).Has(ClientProtocol41) {
		return nil, fmt.Errorf("ask for TLS: %w", errShort)
	}
	setSSL(login)
	return bytes.Clone(login[:loginUser]), nil
}

func setSSL(capabilities []byte) {
	binary.LittleEndian.PutUint16(capabilities, binary.LittleEndian.Uint16(capabilities)|uint16(ClientSSL))
}

// LoginWithoutAnswer returns a copy of a login's payload with an empty answer to the scramble, and plugin as the one that it is for:
// the server then asks for the account's own. server is as for ParseLogin. The login must name a plugin.
func LoginWithoutAnswer(login []byte, server Capability, plugin string) ([]byte, error) {
	l, err := ParseLogin(login, server)
	if err != nil {
		return nil, err
	}
	both := l.Capabilities & server
	if l.Old || l.SSLRequest || !both.Has(ClientPluginAuth) {
		return nil, fmt.Errorf("login without an answer: %w", errShort)
	}
	v := view{b: login[loginUser:]}
	v.untilNUL()
	head := login[:len(login)-len(v.b)]
	switch {
	case both.Has(ClientPluginAuthLenencData):
		v.lenencString()
	case both.Has(ClientSecureConnection):
		v.take(uint64(v.uint8()))
	default:
		v.untilNUL()
	}
	rest := v.b
	schema := 0
	if both.Has(ClientConnectWithDB) {
		v.untilNULOrEnd()
		schema = len(rest) - len(v.b)
	}
	named := v.b
	if len(named) == 0 {
		return nil, fmt.Errorf("login without an answer: no plugin: %w", errShort)
	}
	v.untilNULOrEnd()
	return withoutAnswer(head, rest[:schema], plugin, named[len(named)-len(v.b):]), nil
}

// ChangeUserWithoutAnswer does the same to the payload of a COM_CHANGE_USER, which must name a plugin, too. caps are the negotiated ones.
func ChangeUserWithoutAnswer(payload []byte, caps Capability, plugin string) ([]byte, error) {
	if _, err := ParseChangeUser(payload, caps); err != nil {
		return nil, err
	}
	if !caps.Has(ClientPluginAuth | ClientSecureConnection) {
		return nil, fmt.Errorf("COM_CHANGE_USER without an answer: %w", errShort)
	}
	v := view{b: payload[1:]}
	v.untilNUL()
	head := payload[:len(payload)-len(v.b)]
	v.take(uint64(v.uint8()))
	rest := v.b
	v.untilNULOrEnd()
	v.uint16()
	schema := len(rest) - len(v.b)
	if len(v.b) == 0 {
		return nil, fmt.Errorf("COM_CHANGE_USER without an answer: no plugin: %w", errShort)
	}
	v.untilNULOrEnd()
	return withoutAnswer(head, rest[:schema], plugin, v.b), nil
}

func withoutAnswer(head, schema []byte, plugin string, rest []byte) []byte {
	b := append(bytes.Clone(head), 0)
	b = append(b, schema...)
	b = append(append(b, plugin...), 0)
	return append(b, rest...)
}
