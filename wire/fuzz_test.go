package wire

import (
	"bytes"
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
