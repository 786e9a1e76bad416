package wire

import "bytes"

// AuthTurn tells who speaks next in an authentication.
type AuthTurn uint8

const (
	AuthDone   AuthTurn = iota // the server accepted (OK): the command phase begins
	AuthFailed                 // the server refused (ERR) and closes
	AuthClient                 // the client answers
	AuthServer                 // the server speaks again
)

// First bytes of the server's payloads in an authentication, besides OK and ERR.
const (
	headerAuthMore   = 0x01
	headerNextFactor = 0x02
	headerAuthSwitch = 0xfe
)

// fastAuthSuccess is what caching_sha2_password says before the OK of a password it found in its cache.
const fastAuthSuccess = 0x03

// AuthFlow follows an authentication, at the login or in a COM_CHANGE_USER. The zero value is ready; Start begins anew.
type AuthFlow struct {
	plugin   string
	scramble []byte
}

// Start begins an authentication with the plugin that the client's login (or COM_CHANGE_USER) answers for: what it
// names, or else the greeting's.
func (a *AuthFlow) Start(plugin string) {
	a.plugin = plugin
	a.scramble = a.scramble[:0]
}

// Server takes the payload of a packet from the server and tells who speaks next. Nothing of payload is kept.
func (a *AuthFlow) Server(payload []byte) AuthTurn {
	if len(payload) == 0 {
		return AuthClient
	}
	switch payload[0] {
	case headerOK:
		return AuthDone
	case headerErr:
		return AuthFailed
	case headerAuthSwitch:
		if len(payload) == 1 { // the switch of servers older than plugins
			a.plugin = "mysql_old_password"
			return AuthClient
		}
		a.use(payload[1:])
	case headerNextFactor:
		// A MariaDB plugin may begin a question of its own with this byte; that holds no NUL.
		a.use(payload[1:])
	case headerAuthMore:
		if a.plugin == "caching_sha2_password" && len(payload) == 2 && payload[1] == fastAuthSuccess {
			return AuthServer
		}
	}
	return AuthClient
}

// use remembers the plugin and the scramble in "name NUL data".
func (a *AuthFlow) use(b []byte) {
	name, data, found := bytes.Cut(b, []byte{0})
	if !found {
		return
	}
	a.plugin = string(name)
	if n := len(data); (n == 21 || n == 9) && data[n-1] == 0 {
		data = data[:n-1]
	}
	a.scramble = append(a.scramble[:0], data...)
}

// Plugin returns the plugin in use.
func (a *AuthFlow) Plugin() string { return a.plugin }

// Scramble returns the data of the last AuthSwitchRequest or AuthNextFactor, without the NUL behind a scramble; it is
// empty if there was none. The slice is valid until the next call of Start or Server.
func (a *AuthFlow) Scramble() []byte { return a.scramble }
