package wire

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

// unhex decodes hexadecimal text; blanks are allowed anywhere.
func unhex(text string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		panic(err)
	}
	return b
}

// Greetings and logins as real programs sent them.
var (
	greetingMySQL97 = unhex(`0a 392e372e342d32 00 21000000 7a405e78692b5720 00 ffff ff 0200 ffdf 15 00000000000000000000
		2e3d6e5e620d0c6c266d2922 00 63616368696e675f736861325f70617373776f7264 00`)
	greetingMariaDB1011 = unhex(`0a 352e352e352d31302e31312e31382d4d6172696144422d302b6465623132753100 25000000 2960294c2261467a 00
		fef7 08 0200 ff81 15 000000000000 1d000000 54746a3a7d2d62273a2c6f6b 00 6d7973716c5f6e61746976655f70617373776f7264 00`)
	greetingMariaDB118 = unhex(`0a 31312e382e392d4d6172696144422d302b646562313375312066726f6d2044656269616e00 1f000000 3f63545c505d614f 00
		feff 2d 0200 ff81 15 000000000000 3d000000 485a6b2e3e2f6f627c697b4d 00 6d7973716c5f6e61746976655f70617373776f7264 00`)

	attributes = `72045f706964053331313031095f706c6174666f726d067838365f3634035f6f73054c696e75780c5f636c69656e745f6e616d65086c69626d7973
		716c076f735f7573657204726f6f740f5f636c69656e745f76657273696f6e05392e372e340c70726f6772616d5f6e616d65056d7973716c`

	loginMySQL97 = unhex(`8da2bf19 00000001 ff 0000000000000000000000000000000000000000000000 726f6f7400 0100 6c616200
		63616368696e675f736861325f70617373776f726400` + attributes)
	sslRequestMySQL97  = unhex(`85aabf19 00000001 ff 0000000000000000000000000000000000000000000000`)
	loginMariaDBClient = unhex(`8ca2bf00 00000010 2d 00000000000000000000000000000000000000 1d000000 726f6f7400 00 6c616200
		6d7973716c5f6e61746976655f70617373776f726400
		7f035f6f73054c696e75780c5f636c69656e745f6e616d650a6c69626d617269616462045f7069640533313133310f5f636c69656e745f76657273696f
		6e06332e342e3130095f706c6174666f726d067838365f36340c70726f6772616d5f6e616d65056d7973716c0c5f7365727665725f686f737409313237
		2e302e302e31`)
)

// capsMySQL97 is what MySQL 9.7 offers: everything but the bit it reserves.
const capsMySQL97 Capability = 0xdfffffff

func TestParseGreeting(t *testing.T) {
	const capsMariaDB1011 = ClientCompress | 0x81fff7de | (MariaDBProgress | MariaDBStmtBulkOperations | MariaDBExtendedMetadata | MariaDBCacheMetadata)
	tests := []struct {
		name    string
		payload []byte
		want    Greeting
	}{
		{"MySQL 9.7", greetingMySQL97, Greeting{Version: "9.7.4-2", ThreadID: 0x21, Capabilities: capsMySQL97,
			Collation: 255, Status: StatusAutocommit, Plugin: "caching_sha2_password",
			Scramble: unhex("7a405e78692b57202e3d6e5e620d0c6c266d2922"), VersionID: 90704}},
		{"MariaDB 10.11", greetingMariaDB1011, Greeting{Version: "5.5.5-10.11.18-MariaDB-0+deb12u1", ThreadID: 0x25,
			Capabilities: capsMariaDB1011, Collation: 8, Status: StatusAutocommit, Plugin: "mysql_native_password",
			Scramble: unhex("2960294c2261467a54746a3a7d2d62273a2c6f6b"), MariaDB: true, VersionID: 101118}},
		{"MariaDB 11.8", greetingMariaDB118, Greeting{Version: "11.8.9-MariaDB-0+deb13u1 from Debian", ThreadID: 0x1f,
			Capabilities: capsMariaDB1011 | ClientSSL | MariaDBBulkUnitResults, Collation: 0x2d, Status: StatusAutocommit,
			Plugin: "mysql_native_password", Scramble: unhex("3f63545c505d614f485a6b2e3e2f6f627c697b4d"), MariaDB: true, VersionID: 110809}},
		{"MySQL 5.1", unhex("0a 352e312e3733 00 03000000 4142434445464748 00 fff7 08 0200 0000 00 00000000000000000000 494a4b4c4d4e4f5051525354 00"),
			Greeting{Version: "5.1.73", ThreadID: 3, Capabilities: 0xf7ff, Collation: 8, Status: StatusAutocommit,
				Scramble: []byte("ABCDEFGHIJKLMNOPQRST"), VersionID: 50173}},
		{"low half only", unhex("0a 352e3000 01000000 4142434445464748 00 0d02"), Greeting{Version: "5.0", ThreadID: 1,
			Capabilities: 0x020d, Scramble: []byte("ABCDEFGH"), VersionID: 50000}},
		{"plugin without NUL", greetingMySQL97[:len(greetingMySQL97)-1], Greeting{Version: "9.7.4-2", ThreadID: 0x21,
			Capabilities: capsMySQL97, Collation: 255, Status: StatusAutocommit, Plugin: "caching_sha2_password",
			Scramble: unhex("7a405e78692b57202e3d6e5e620d0c6c266d2922"), VersionID: 90704}},
		{"too many connections", []byte("\xff\x10\x04Too many connections"), Greeting{Err: &Err{Code: 1040, Message: "Too many connections"}}},
		{"blocked", []byte("\xff\x69\x04#HY000Host is blocked"), Greeting{Err: &Err{Code: 1129, State: "HY000", Message: "Host is blocked"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			payload := bytes.Clone(test.payload)
			got, err := ParseGreeting(payload)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
			clear(payload)
			if test.want.Err == nil && !bytes.Equal(got.Scramble, test.want.Scramble) {
				t.Error("the scramble is not a copy")
			}
		})
	}
}

func TestParseGreetingErrors(t *testing.T) {
	for name, payload := range map[string][]byte{
		"empty":       {},
		"protocol 9":  []byte("\x093.20.1\x00\x01\x00\x00\x00ABCDEFGH\x00"),
		"no version":  []byte("\x0a9.7.4"),
		"no scramble": greetingMySQL97[:20],
		"short ERR":   {0xff, 1},
	} {
		if g, err := ParseGreeting(payload); err == nil {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

func TestFlavour(t *testing.T) {
	for _, test := range []struct {
		version string
		caps    Capability
		mariadb bool
		id      int
	}{
		{"9.7.4", 0, false, 90704},
		{"8.0.39-30.1-Percona", 0, false, 80039},
		{"5.7.25-TiDB-v8.5.0", 0, false, 50725},
		{"8.4", 0, false, 80400},
		{"", 0, false, 0},
		{"main", 0, false, 0},
		{"5.5.5-m3", 0, false, 50505},
		{"10.11.19-MariaDB-log", 0, true, 101119},
		{"5.5.5-10.5.23-MariaDB", 0, true, 100523},
		{"5.5.5-10.6.5-company", 0, true, 100605},
		{"11.4.2-mariadb", 0, true, 110402},
		{"11.4.2-company", MariaDBProgress, true, 110402},
	} {
		if mariadb, id := flavour(test.version, test.caps); mariadb != test.mariadb || id != test.id {
			t.Errorf("%q is MariaDB: %v, number %d; want %v, %d", test.version, mariadb, id, test.mariadb, test.id)
		}
	}
}

func TestMaskGreeting(t *testing.T) {
	// set returns a greeting with a bit of its high half set.
	set := func(greeting []byte, bit Capability) []byte {
		g := bytes.Clone(greeting)
		high := bytes.IndexByte(g, 0) + 1 + greetingHigh
		g[high+1] |= byte(bit >> 24)
		return g
	}
	const mariadb = 0x81fff7fe | MariaDBProgress | MariaDBStmtBulkOperations | MariaDBExtendedMetadata | MariaDBCacheMetadata |
		MariaDBBulkUnitResults
	tests := []struct {
		name    string
		payload []byte
		carried Capability
		want    Capability
	}{
		{"MySQL", greetingMySQL97, Carried, capsMySQL97 &^ ClientSSL},
		{"MySQL with TLS", greetingMySQL97, Carried | ClientSSL, capsMySQL97},
		{"MySQL, nothing", greetingMySQL97, 0, ClientLongPassword},
		{"MySQL, everything", greetingMySQL97, ^Capability(0), capsMySQL97},
		{"MySQL, the bit it reserves", set(greetingMySQL97, ClientProgress), ^Capability(0), capsMySQL97},
		{"MariaDB", greetingMariaDB118, Carried, mariadb},
		{"MariaDB with TLS", greetingMariaDB118, Carried | ClientSSL, mariadb | ClientSSL},
		{"MariaDB, the bit for progress", set(greetingMariaDB118, ClientProgress), Carried, mariadb | ClientProgress},
		{"MariaDB, some", greetingMariaDB118, ClientProtocol41 | MariaDBCacheMetadata, ClientProtocol41 | MariaDBCacheMetadata},
		{"MariaDB, nothing", greetingMariaDB118, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			masked := bytes.Clone(test.payload)
			if err := MaskGreeting(masked, test.carried); err != nil {
				t.Fatal(err)
			}
			g, err := ParseGreeting(masked)
			if err != nil {
				t.Fatal(err)
			}
			if g.Capabilities != test.want {
				t.Errorf("left over %v\nwant      %v", g.Capabilities, test.want)
			}
			// Nothing else changed.
			fields := bytes.IndexByte(masked, 0) + 1
			for _, at := range []int{greetingCapabilities, greetingHigh, greetingExtended, greetingExtended + 2} {
				copy(masked[fields+at:fields+at+2], test.payload[fields+at:])
			}
			if !bytes.Equal(masked, test.payload) {
				t.Errorf("got  %x\nfrom %x", masked, test.payload)
			}
		})
	}
	t.Run("bytes MySQL reserves", func(t *testing.T) {
		g := bytes.Clone(greetingMySQL97)
		at := bytes.IndexByte(g, 0) + 1 + greetingExtended
		copy(g[at:], "\xff\xff\xff\xff")
		if err := MaskGreeting(g, Carried); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(g[at:at+4], []byte("\xff\xff\xff\xff")) {
			t.Errorf("bytes that are no capabilities became %x", g[at:at+4])
		}
	})
	t.Run("ERR", func(t *testing.T) {
		const refusal = "\xff\x10\x04Too many connections"
		if b := []byte(refusal); MaskGreeting(b, 0) != nil || string(b) != refusal {
			t.Errorf("became %q", b)
		}
	})
	t.Run("short", func(t *testing.T) {
		for n := range bytes.IndexByte(greetingMySQL97, 0) + 1 + greetingCollation {
			if MaskGreeting(bytes.Clone(greetingMySQL97[:n]), Carried) == nil {
				t.Errorf("%d bytes were masked", n)
			}
		}
	})
}

func TestParseLogin(t *testing.T) {
	const modern = ClientProtocol41 | ClientSecureConnection | ClientPluginAuth
	// login builds a login of protocol 4.1.
	login := func(caps Capability, rest string) []byte {
		b := make([]byte, loginUser, loginUser+len(rest))
		b[0], b[1], b[2], b[3] = byte(caps), byte(caps>>8), byte(caps>>16), byte(caps>>24)
		b[loginMaxPacket+3], b[loginCollation] = 1, 45
		return append(b, rest...)
	}
	base := Login{MaxPacket: 1 << 24, Collation: 45, User: "me", AuthLen: 3}
	with := func(change func(*Login)) Login {
		l := base
		change(&l)
		return l
	}
	long := strings.Repeat("x", 300)
	tests := []struct {
		name    string
		payload []byte
		server  Capability
		want    Login
	}{
		{"mysql 9.7", loginMySQL97, capsMySQL97, Login{Capabilities: 0x19bfa28d, MaxPacket: 1 << 24, Collation: 255, User: "root", Schema: "lab",
			Plugin: "caching_sha2_password", AuthLen: 1, Attributes: true}},
		{"mysql 9.7 asks for TLS", sslRequestMySQL97, capsMySQL97, Login{SSLRequest: true, Capabilities: 0x19bfaa85, MaxPacket: 1 << 24, Collation: 255}},
		{"mariadb client", loginMariaDBClient, capsMySQL97, Login{Capabilities: 0xbfa28c | 0x1d<<32, MaxPacket: 1 << 28, Collation: 45, User: "root",
			Schema: "lab", Plugin: "mysql_native_password", Attributes: true}},
		{"MySQL's client has no extended capabilities",
			func() []byte {
				b := login(modern|ClientLongPassword, "me\x00\x03abc")
				b[loginExtended] = 0xff
				return b
			}(), capsMySQL97, with(func(l *Login) { l.Capabilities = modern | ClientLongPassword })},
		{"TLS was there before", login(modern|ClientSSL, "me\x00\x03abc"), capsMySQL97, with(func(l *Login) { l.Capabilities = modern | ClientSSL })},
		{"everything", login(modern|ClientConnectWithDB|ClientConnectAttrs|ClientZstdCompression, "me\x00\x03abcdb\x00plugin\x00\x04\x01k\x01v\x07"), capsMySQL97,
			with(func(l *Login) {
				l.Capabilities = modern | ClientConnectWithDB | ClientConnectAttrs | ClientZstdCompression
				l.Schema, l.Plugin, l.Attributes, l.ZstdLevel = "db", "plugin", true, 7
			})},
		{"no attributes, level", login(modern|ClientConnectAttrs|ClientZstdCompression, "me\x00\x03abcplugin\x00\x00\x07"), capsMySQL97,
			with(func(l *Login) {
				l.Capabilities = modern | ClientConnectAttrs | ClientZstdCompression
				l.Plugin, l.ZstdLevel = "plugin", 7
			})},
		{"long answer", login(modern|ClientPluginAuthLenencData, "me\x00\xfc\x2c\x01"+long+"plugin\x00"), capsMySQL97,
			with(func(l *Login) {
				l.Capabilities = modern | ClientPluginAuthLenencData
				l.AuthLen, l.Plugin = 300, "plugin"
			})},
		{"the server does not know long answers", login(modern|ClientPluginAuthLenencData, "me\x00\xfc"+long[:0xfc]+"plugin\x00"), capsMySQL97 &^ ClientPluginAuthLenencData,
			with(func(l *Login) {
				l.Capabilities = modern | ClientPluginAuthLenencData
				l.AuthLen, l.Plugin = 0xfc, "plugin"
			})},
		{"answer ends with NUL", login(ClientProtocol41|ClientConnectWithDB, "me\x00abc\x00db\x00"), capsMySQL97,
			with(func(l *Login) { l.Capabilities, l.Schema = ClientProtocol41|ClientConnectWithDB, "db" })},
		{"ends behind the answer", login(modern|ClientConnectWithDB|ClientConnectAttrs, "me\x00\x03abc"), capsMySQL97,
			with(func(l *Login) { l.Capabilities = modern | ClientConnectWithDB | ClientConnectAttrs })},
		{"ends in the schema", login(modern|ClientConnectWithDB, "me\x00\x03abcd"), capsMySQL97,
			with(func(l *Login) { l.Capabilities, l.Schema = modern|ClientConnectWithDB, "d" })},
		{"ends in the plugin", login(modern, "me\x00\x03abcplug"), capsMySQL97,
			with(func(l *Login) { l.Capabilities, l.Plugin = modern, "plug" })},
		{"anonymous", login(modern, "\x00\x00"), capsMySQL97,
			with(func(l *Login) { l.Capabilities, l.User, l.AuthLen = modern, "", 0 })},
		{"old", []byte("\x85\x00\x00\x00\x01me\x00abc"), capsMySQL97,
			Login{Old: true, Capabilities: 0x85, MaxPacket: 0x10000, User: "me", AuthLen: 3}},
		{"old with a schema", []byte("\x0d\x00\x00\x00\x01me\x00abc\x00db"), capsMySQL97,
			Login{Old: true, Capabilities: 0x0d, MaxPacket: 0x10000, User: "me", AuthLen: 3, Schema: "db"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseLogin(test.payload, test.server)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
	for name, payload := range map[string][]byte{
		"empty":                {},
		"four bytes":           loginMySQL97[:4],
		"short head":           loginMySQL97[:loginUser-1],
		"no user":              login(modern, ""),
		"endless user":         login(modern, "me"),
		"no answer":            login(modern, "me\x00"),
		"short answer":         login(modern, "me\x00\x03ab"),
		"short long answer":    login(modern|ClientPluginAuthLenencData, "me\x00\xfc\x2c\x01abc"),
		"old without user":     []byte("\x85\x00\x00\x00\x01"),
		"answer without NUL":   login(ClientProtocol41, "me\x00abc"),
		"endless attributes":   login(modern|ClientConnectAttrs, "me\x00\x03abcplugin\x00\x50\x01k"),
		"answer that is NULL":  login(modern|ClientPluginAuthLenencData, "me\x00\xfb"),
		"answer of 2^64 bytes": login(modern|ClientPluginAuthLenencData, "me\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff"),
	} {
		if l, err := ParseLogin(payload, capsMySQL97); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func TestMaskLogin(t *testing.T) {
	for _, test := range []struct {
		name    string
		payload []byte
		carried Capability
		want    Capability
	}{
		{"mysql 9.7", loginMySQL97, Carried, 0x19bfa28d},
		{"a bit that was not offered", loginMySQL97, Carried &^ ClientQueryAttributes, 0x19bfa28d &^ ClientQueryAttributes},
		{"TLS", sslRequestMySQL97, Carried | ClientSSL, 0x19bfaa85},
		{"TLS, fewer bits", sslRequestMySQL97, ClientProtocol41 | ClientSSL, ClientLongPassword | ClientProtocol41 | ClientSSL},
		{"mysql 9.7 before MariaDB", loginMySQL97, Carried &^ ClientLongPassword &^ ClientQueryAttributes, 0x19bfa28d &^ ClientQueryAttributes},
		{"mariadb client", loginMariaDBClient, Carried, 0xbfa28c | 0x1d<<32},
		{"mariadb client before MySQL", loginMariaDBClient, Carried & capsMySQL97, 0xbfa28c},
		{"mariadb client, fewer bits", loginMariaDBClient, ClientProtocol41 | MariaDBCacheMetadata, ClientProtocol41 | MariaDBCacheMetadata},
		{"old", []byte("\xff\x81\x00\x00\x01me\x00abc"), Carried, 0x81ff},
	} {
		t.Run(test.name, func(t *testing.T) {
			masked := bytes.Clone(test.payload)
			if err := MaskLogin(masked, test.carried); err != nil {
				t.Fatal(err)
			}
			var got Capability
			for i := range 4 {
				if i < 2 || test.name != "old" {
					got |= Capability(masked[i]) << (8 * i)
				}
				if test.name != "old" {
					got |= Capability(masked[loginExtended+i]) << (32 + 8*i)
				}
			}
			if got != test.want {
				t.Errorf("left over %v\nwant      %v", got, test.want)
			}
			n := 4
			if test.name == "old" {
				n = 2
			} else {
				copy(masked[loginExtended:loginExtended+4], test.payload[loginExtended:])
			}
			if copy(masked[:n], test.payload); !bytes.Equal(masked, test.payload) {
				t.Errorf("got  %x\nfrom %x", masked, test.payload)
			}
		})
	}
	for _, n := range []int{0, 4, loginUser - 1} {
		if MaskLogin(bytes.Clone(loginMySQL97[:n]), Carried) == nil {
			t.Errorf("%d bytes were masked", n)
		}
	}
}

func TestParseChangeUser(t *testing.T) {
	const modern = ClientProtocol41 | ClientSecureConnection | ClientPluginAuth | ClientConnectAttrs
	for _, test := range []struct {
		name    string
		payload string
		caps    Capability
		want    ChangeUser
	}{
		{"whole", "\x11me\x00\x03a\x00cdb\x00\x2d\x00plugin\x00\x04\x01k\x01v", modern, ChangeUser{"me", "db", "plugin", 45}},
		{"collation above 255", "\x11me\x00\x00\x00\x05\x01", modern, ChangeUser{"me", "", "", 0x105}},
		{"ends behind the schema", "\x11me\x00\x00db\x00", modern, ChangeUser{"me", "db", "", 0}},
		{"ends in the collation", "\x11me\x00\x00db\x00\x2d", modern, ChangeUser{"me", "db", "", 0}},
		{"ends behind the answer", "\x11me\x00\x00", modern, ChangeUser{User: "me"}},
		{"no plugins", "\x11me\x00\x00db\x00\x2d\x00plugin\x00", modern &^ ClientPluginAuth, ChangeUser{"me", "db", "", 45}},
		{"answer ends with NUL", "\x11me\x00abc\x00db\x00\x2d\x00", ClientProtocol41, ChangeUser{"me", "db", "", 45}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseChangeUser([]byte(test.payload), test.caps)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
	for _, payload := range []string{"", "\x03me\x00\x00", "\x11", "\x11me", "\x11me\x00", "\x11me\x00\x03ab"} {
		if u, err := ParseChangeUser([]byte(payload), modern); err == nil {
			t.Errorf("%q: %+v", payload, u)
		}
	}
}
