package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
)

func FuzzParseGreeting(f *testing.F) {
	f.Fuzz(func(t *testing.T, payload []byte, carried uint64) {
		g, err := ParseGreeting(payload)
		masked := bytes.Clone(payload)
		maskErr := MaskGreeting(masked, Capability(carried))
		if err == nil && maskErr != nil {
			t.Fatalf("parsed, but not masked: %v", maskErr)
		}
		if err != nil || g.Err != nil {
			return
		}
		m, err := ParseGreeting(masked)
		if err != nil {
			t.Fatalf("parsed, but not behind a mask: %v", err)
		}
		if left := m.Capabilities &^ (g.Capabilities & (Capability(carried) | ClientLongPassword)); left != 0 {
			t.Fatalf("the mask left %v", left)
		}
		if m.Version != g.Version || m.ThreadID != g.ThreadID || m.Status != g.Status || m.Collation != g.Collation {
			t.Fatalf("the mask made %+v of %+v", m, g)
		}
		again := bytes.Clone(masked)
		if err := MaskGreeting(again, Capability(carried)); err != nil || !bytes.Equal(again, masked) {
			t.Fatalf("masked again: %v, %x, was %x", err, again, masked)
		}
	})
}

func FuzzParseLogin(f *testing.F) {
	f.Fuzz(func(t *testing.T, payload []byte, server uint64) {
		l, err := ParseLogin(payload, Capability(server))
		if err != nil {
			return
		}
		if len(l.User)+len(l.Schema)+len(l.Plugin)+l.AuthLen > len(payload) {
			t.Fatalf("more than there is in %x: %+v", payload, l)
		}
		// What the mask clears, the server did not offer: it changes the capabilities and nothing else. TLS alone makes
		// of a short packet another one.
		masked := bytes.Clone(payload)
		if err := MaskLogin(masked, Capability(server)|ClientSSL|ClientProtocol41); err != nil {
			t.Fatalf("parsed, but not masked: %v", err)
		}
		m, err := ParseLogin(masked, Capability(server))
		if err != nil {
			t.Fatalf("parsed, but not behind a mask: %v", err)
		}
		if want := l.Capabilities & (Capability(server) | ClientSSL | ClientProtocol41 | ClientLongPassword); m.Capabilities != want {
			t.Fatalf("the mask left %v, want %v", m.Capabilities, want)
		}
		m.Capabilities = l.Capabilities
		if m != l {
			t.Fatalf("the mask made %+v of %+v", m, l)
		}
	})
}

func FuzzParseChangeUser(f *testing.F) {
	f.Fuzz(func(t *testing.T, payload []byte, caps uint64) {
		u, err := ParseChangeUser(payload, Capability(caps))
		if err == nil && (Command(payload[0]) != ComChangeUser || len(u.User)+len(u.Schema)+len(u.Plugin) > len(payload)) {
			t.Fatalf("%x: %+v", payload, u)
		}
	})
}

func FuzzParseOK(f *testing.F) {
	f.Fuzz(func(t *testing.T, payload []byte, caps uint64) {
		ok, err := ParseOK(payload, Capability(caps))
		if err != nil {
			return
		}
		packet := AppendOK(nil, 1, Capability(caps), ok)
		if n, _ := Header(packet); n != len(packet)-HeaderSize {
			t.Fatalf("header of %d bytes for %d", n, len(packet)-HeaderSize)
		}
		again, err := ParseOK(packet[HeaderSize:], Capability(caps))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Info, ok.Info) || !bytes.Equal(again.State, ok.State) || again.Affected != ok.Affected ||
			again.InsertID != ok.InsertID || again.Status != ok.Status || again.Warnings != ok.Warnings {
			t.Fatalf("%x: %+v became %+v", payload, ok, again)
		}
	})
}

func FuzzSplitQuery(f *testing.F) {
	f.Fuzz(func(t *testing.T, payload []byte, attributed bool) {
		var caps Capability
		if attributed {
			caps = ClientQueryAttributes
		}
		attributes, text, err := SplitQuery(payload, caps)
		if err != nil {
			return
		}
		if packet := AppendQuery(nil, caps, attributes, string(text)); !bytes.Equal(packet[HeaderSize:], payload) {
			t.Fatalf("%x was split into %x and %x", payload, attributes, text)
		}
	})
}

// FuzzResponseTracker: however the bytes arrive, the end and the Result are the same.
func FuzzResponseTracker(f *testing.F) {
	f.Fuzz(func(t *testing.T, command byte, caps uint64, mariadb bool, stream []byte, chunks []byte) {
		var whole, parts ResponseTracker
		whole.Begin(Command(command), Capability(caps), mariadb)
		parts.Begin(Command(command), Capability(caps), mariadb)
		n, done := whole.Scan(stream)
		if n > len(stream) || n < len(stream) && !done || done && whole.Raw() {
			t.Fatalf("%d of %d bytes, done %v, raw %v", n, len(stream), done, whole.Raw())
		}
		total, end := 0, false
		for i := 0; total < len(stream) && !end; i++ {
			size := 1
			if len(chunks) > 0 {
				size += int(chunks[i%len(chunks)])
			}
			chunk := stream[total:min(total+size, len(stream))]
			var used int
			used, end = parts.Scan(chunk)
			if total += used; used < len(chunk) && !end {
				t.Fatalf("%d of %d bytes taken without an end", used, len(chunk))
			}
		}
		if total != n || len(stream) > 0 && end != done || parts.Raw() != whole.Raw() || parts.Infile() != whole.Infile() {
			t.Fatalf("%d bytes, done %v, raw %v, infile %v; at once %d, %v, %v, %v", total, end, parts.Raw(), parts.Infile(), n, done, whole.Raw(), whole.Infile())
		}
		if a, b := parts.Result(), whole.Result(); !reflect.DeepEqual(a, b) {
			t.Fatalf("in chunks %+v\nat once   %+v", a, b)
		}
	})
}

// FuzzAuthFlow: whatever the server says in an authentication, what is remembered of it was said.
func FuzzAuthFlow(f *testing.F) {
	f.Add("mysql_native_password", []byte("\xfecaching_sha2_password\x00abcdefghijklmnopqrst\x00"), []byte{1, 3})
	f.Add("caching_sha2_password", []byte{1, 4}, []byte{1, 3})
	f.Add("dialog", []byte("\x02dialog\x00Password: "), []byte("\x02"))
	f.Add("", []byte{0xfe}, []byte{0, 0, 0, 2, 0, 0, 0})
	f.Fuzz(func(t *testing.T, plugin string, first, second []byte) {
		var a AuthFlow
		a.Start(plugin)
		for _, payload := range [][]byte{first, second} {
			before := a.Plugin()
			turn := a.Server(payload)
			if p := a.Plugin(); p != before && p != "mysql_old_password" && !bytes.Contains(payload, []byte(p)) {
				t.Fatalf("%x: plugin %q", payload, p)
			}
			if !bytes.Contains(append(bytes.Clone(first), payload...), a.Scramble()) && !bytes.Contains(first, a.Scramble()) {
				t.Fatalf("%x: scramble %x", payload, a.Scramble())
			}
			if over := turn == AuthDone || turn == AuthFailed; over != (len(payload) > 0 && (payload[0] == headerOK || payload[0] == headerErr)) {
				t.Fatalf("%x: turn %d", payload, turn)
			}
		}
	})
}

// FuzzTLSRequest: asking for TLS, and offering it, changes one bit of what is there.
func FuzzTLSRequest(f *testing.F) {
	f.Add([]byte("\x8d\xa6\xff\x01\x00\x00\x00\x01\x2d\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00user\x00\x00"))
	f.Add([]byte("\x0a9.7.4\x00\x01\x00\x00\x0012345678\x00\xff\xf7\x2d\x02\x00\xff\xc1\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00901234567890\x00mysql_native_password\x00"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		login := bytes.Clone(payload)
		if request, err := AskForTLS(login); err == nil {
			l, err := ParseLogin(request, 0)
			if err != nil || !l.SSLRequest || !bytes.HasPrefix(login, request) || onlySSL(login, payload) != nil {
				t.Fatalf("%x: request %x, login %x, %v", payload, request, login, err)
			}
		} else if !bytes.Equal(login, payload) {
			t.Fatalf("%x was changed, but: %v", payload, err)
		}
		greeting := bytes.Clone(payload)
		if err := OfferTLS(greeting); err == nil {
			if g, err := ParseGreeting(greeting); err != nil || !g.Capabilities.Has(ClientSSL) || onlySSL(greeting, payload) != nil {
				t.Fatalf("%x: %x, %v", payload, greeting, err)
			}
		} else if !bytes.Equal(greeting, payload) {
			t.Fatalf("%x was changed, but: %v", payload, err)
		}
	})
}

// onlySSL says where a packet differs from what it was by anything else than CLIENT_SSL.
func onlySSL(now, was []byte) error {
	for i := range was {
		if d := now[i] ^ was[i]; d != 0 && d != byte(ClientSSL>>8) {
			return fmt.Errorf("byte %d", i)
		}
	}
	return nil
}

// FuzzWithoutAnswer: a login or COM_CHANGE_USER without its answer is the same else, and holds nothing of the answer.
func FuzzWithoutAnswer(f *testing.F) {
	caps := uint64(ClientProtocol41 | ClientSecureConnection | ClientPluginAuth | ClientConnectWithDB | ClientLongPassword)
	f.Add([]byte("\x0d\xa2\x0a\x00\x00\x00\x00\x01\x2d\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00user\x00\x04pwd\x00db\x00sha256_password\x00"), caps)
	f.Add([]byte("\x11user\x00\x04pwd\x00db\x00\x2d\x00sha256_password\x00"), caps)
	f.Fuzz(func(t *testing.T, payload []byte, caps uint64) {
		server := Capability(caps)
		if other, err := LoginWithoutAnswer(payload, server, "tmpproxy"); err == nil {
			was, _ := ParseLogin(payload, server)
			now, err := ParseLogin(other, server)
			if err != nil || now.AuthLen != 0 || now.Plugin != "tmpproxy" || now.User != was.User || now.Schema != was.Schema || now.Capabilities != was.Capabilities {
				t.Fatalf("%x: %+v, was %+v, %v", payload, now, was, err)
			}
		}
		if other, err := ChangeUserWithoutAnswer(payload, server, "tmpproxy"); err == nil {
			was, _ := ParseChangeUser(payload, server)
			now, err := ParseChangeUser(other, server)
			if err != nil || now.User != was.User || now.Schema != was.Schema {
				t.Fatalf("%x: %+v, was %+v, %v", payload, now, was, err)
			}
		}
	})
}

// FuzzFramer: however the bytes arrive, payloads and files end in the same places.
func FuzzFramer(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x0e\x00\x00\x00\x01"), []byte{1})
	f.Add([]byte("\xff\xff\xff\x00"), []byte{})
	f.Fuzz(func(t *testing.T, stream, chunks []byte) {
		for name, skip := range map[string]func(*Framer, []byte) (int, bool){"payload": (*Framer).Skip, "file": (*Framer).SkipInfile} {
			var whole, parts Framer
			n, end := skip(&whole, stream)
			total, last := 0, false
			for i := 0; total < len(stream) && !last; i++ {
				size := 1
				if len(chunks) > 0 {
					size += int(chunks[i%len(chunks)])
				}
				var used int
				used, last = skip(&parts, stream[total:min(total+size, len(stream))])
				total += used
			}
			if total != n || len(stream) > 0 && last != end {
				t.Fatalf("%s: %d bytes, end %v; at once %d, %v", name, total, last, n, end)
			}
		}
	})
}
