package wire

import (
	"bytes"
	"testing"
)

func TestAuthFlow(t *testing.T) {
	const scramble = "01234567890123456789"
	type turn struct {
		payload string
		want    AuthTurn
	}
	tests := []struct {
		name     string
		plugin   string
		turns    []turn
		then     string // the plugin at the end
		scramble string
	}{
		{"OK at once", "mysql_native_password", []turn{{"\x00\x00\x00\x02\x00\x00\x00", AuthDone}}, "mysql_native_password", ""},
		{"refused", "mysql_native_password", []turn{{"\xff\x15\x04#28000Access denied", AuthFailed}}, "mysql_native_password", ""},
		{"sha2, in the cache", "caching_sha2_password", []turn{{"\x01\x03", AuthServer}, {"\x00\x00\x00\x02\x00\x00\x00", AuthDone}}, "caching_sha2_password", ""},
		{"sha2, full over RSA", "caching_sha2_password", []turn{{"\x01\x04", AuthClient}, {"\x01-----BEGIN PUBLIC KEY-----", AuthClient},
			{"\x00\x00\x00\x02\x00\x00\x00", AuthDone}}, "caching_sha2_password", ""},
		{"switch", "caching_sha2_password", []turn{{"\xfemysql_native_password\x00" + scramble + "\x00", AuthClient}, {"\x00\x00\x00\x02\x00\x00\x00", AuthDone}},
			"mysql_native_password", scramble},
		{"switch to sha2", "mysql_native_password", []turn{{"\xfecaching_sha2_password\x00" + scramble + "\x00", AuthClient}, {"\x01\x03", AuthServer}},
			"caching_sha2_password", scramble},
		{"switch away from sha2", "caching_sha2_password", []turn{{"\xfeother\x00" + scramble + "\x00", AuthClient}, {"\x01\x03", AuthClient}},
			"other", scramble},
		{"switch of old servers", "mysql_native_password", []turn{{"\xfe", AuthClient}}, "mysql_old_password", ""},
		{"switch of MariaDB with a long nonce", "mysql_native_password", []turn{{"\xfeclient_ed25519\x00" + scramble + scramble[:12], AuthClient}},
			"client_ed25519", scramble + scramble[:12]},
		{"switch without data", "mysql_native_password", []turn{{"\xfemysql_clear_password\x00", AuthClient}}, "mysql_clear_password", ""},
		{"switch without NUL", "mysql_native_password", []turn{{"\xfemysql_clear_password", AuthClient}}, "mysql_native_password", ""},
		{"short scramble", "p", []turn{{"\xfemysql_old_password\x0001234567\x00", AuthClient}}, "mysql_old_password", "01234567"},
		{"next factor", "caching_sha2_password", []turn{{"\x01\x03", AuthServer}, {"\x02sha256_password\x00" + scramble + "\x00", AuthClient}, {"\x01\x03", AuthClient}},
			"sha256_password", scramble},
		{"a question of MariaDB's dialog", "dialog", []turn{{"\x02Password: ", AuthClient}, {"\x04PIN: ", AuthClient}}, "dialog", ""},
		{"only 01 03 is the fast success", "caching_sha2_password", []turn{{"\x01\x03x", AuthClient}, {"\x01", AuthClient}}, "caching_sha2_password", ""},
		{"an empty packet", "p", []turn{{"", AuthClient}}, "p", ""},
	}
	var a AuthFlow // one for all: Start must forget
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a.Start(test.plugin)
			if a.Plugin() != test.plugin || len(a.Scramble()) > 0 {
				t.Errorf("started with %q, %q", a.Plugin(), a.Scramble())
			}
			for i, turn := range test.turns {
				payload := []byte(turn.payload)
				if got := a.Server(payload); got != turn.want {
					t.Errorf("turn %d, %q: %d, want %d", i, turn.payload, got, turn.want)
				}
				clear(payload)
			}
			if a.Plugin() != test.then {
				t.Errorf("plugin %q, want %q", a.Plugin(), test.then)
			}
			if !bytes.Equal(a.Scramble(), []byte(test.scramble)) {
				t.Errorf("scramble %q, want %q", a.Scramble(), test.scramble)
			}
		})
	}
}
