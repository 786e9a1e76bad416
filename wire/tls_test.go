package wire

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func TestOfferTLS(t *testing.T) {
	for name, greeting := range map[string][]byte{"MySQL": []byte(greetingMySQL97), "MariaDB": []byte(greetingMariaDB118)} {
		b := bytes.Clone(greeting)
		if err := MaskGreeting(b, Carried); err != nil {
			t.Fatal(err)
		}
		before, err := ParseGreeting(b)
		if err != nil || before.Capabilities.Has(ClientSSL) {
			t.Fatalf("%s: %v, %v", name, before.Capabilities, err)
		}
		if err := OfferTLS(b); err != nil {
			t.Fatal(err)
		}
		if after, err := ParseGreeting(b); err != nil || after.Capabilities != before.Capabilities|ClientSSL {
			t.Errorf("%s: %v, %v", name, after.Capabilities, err)
		}
	}
	if OfferTLS([]byte{10, 'x'}) == nil {
		t.Error("half a greeting is none")
	}
}

// head is that of a login with these capabilities.
func head(caps Capability) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(caps))
	return append(append(b, 0, 0, 0, 1, 45), make([]byte, 23)...)
}

func TestAskForTLS(t *testing.T) {
	const caps = ClientLongPassword | ClientProtocol41 | ClientSecureConnection | ClientPluginAuth
	b := append(head(caps), "me\x00\x00plugin\x00"...)
	request, err := AskForTLS(b)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := ParseLogin(request, caps); err != nil || !l.SSLRequest || l.Capabilities != caps|ClientSSL || l.MaxPacket != 1<<24 || l.Collation != 45 {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := ParseLogin(b, caps); err != nil || l.SSLRequest || l.Capabilities != caps|ClientSSL || l.User != "me" {
		t.Errorf("%+v, %v", l, err)
	}
	for name, bad := range map[string][]byte{"short": b[:31], "old": append([]byte{0, 0, 1, 1, 1}, make([]byte, 40)...)} {
		if _, err := AskForTLS(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestWithoutAnswer(t *testing.T) {
	const modern = ClientLongPassword | ClientProtocol41 | ClientSecureConnection | ClientPluginAuth | ClientConnectAttrs
	for _, test := range []struct {
		name       string
		caps       Capability
		rest, want string // behind the head
	}{
		{"short answer", modern, "me\x00\x03abcold\x00\x04\x01k\x01v", "me\x00\x00new\x00\x04\x01k\x01v"},
		{"schema", modern | ClientConnectWithDB, "me\x00\x03abcdb\x00old\x00\x00", "me\x00\x00db\x00new\x00\x00"},
		{"long answer", modern | ClientPluginAuthLenencData | ClientConnectWithDB, "me\x00\xfc\x04\x00abcddb\x00old\x00", "me\x00\x00db\x00new\x00"},
		{"no answer", modern, "me\x00\x00old\x00", "me\x00\x00new\x00"},
		{"zstd level", modern | ClientZstdCompression, "me\x00\x01\x01old\x00\x00\x07", "me\x00\x00new\x00\x00\x07"},
		{"no end of the plugin", modern, "me\x00\x01\x01old", "me\x00\x00new\x00"},
		{"answer up to a NUL", modern &^ ClientSecureConnection, "me\x00abc\x00old\x00\x00", "me\x00\x00new\x00\x00"},
	} {
		t.Run(test.name, func(t *testing.T) {
			whole := append(head(test.caps), test.rest...)
			given := bytes.Clone(whole)
			got, err := LoginWithoutAnswer(whole, test.caps, "new")
			if want := append(head(test.caps), test.want...); err != nil || !bytes.Equal(got, want) {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
			if !bytes.Equal(given, whole) {
				t.Error("what was given has changed")
			}
		})
	}
	for name, bad := range map[string][]byte{
		"no plugins": append(head(ClientProtocol41), "me\x00abc\x00"...),
		"short":      append(head(modern), "me\x00\x03ab"...),
		"SSLRequest": head(modern | ClientSSL),
	} {
		if _, err := LoginWithoutAnswer(bad, modern, "new"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}

	const change = "\x11me\x00\x03abcdb\x00\x2d\x00old\x00\x04\x01k\x01v"
	if got, err := ChangeUserWithoutAnswer([]byte(change), modern, "new"); err != nil || string(got) != "\x11me\x00\x00db\x00\x2d\x00new\x00\x04\x01k\x01v" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ChangeUserWithoutAnswer([]byte(change), ClientSecureConnection, "new"); err == nil {
		t.Error("no error without plugins")
	}
	if _, err := ChangeUserWithoutAnswer([]byte("\x11me\x00\x03ab"), modern, "new"); err == nil {
		t.Error("no error for half a command")
	}
}
