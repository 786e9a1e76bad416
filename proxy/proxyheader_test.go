package proxy

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"tmpproxy/wire"
)

func block(command, family byte, body string) string {
	return proxySignature + string([]byte{command, family, byte(len(body) >> 8), byte(len(body))}) + body
}

func TestReadProxyHeader(t *testing.T) {
	four := "\x0a\x01\x02\x03\x0a\x00\x00\x01\x30\x39\x0c\xea"
	six := string(netip.MustParseAddr("2001:db8::1").AsSlice()) + string(netip.MustParseAddr("::1").AsSlice()) + "\x30\x39\x0c\xea"
	for name, test := range map[string]struct {
		header, want string // an address, own, unix, or the end of the error
	}{
		"v1 TCP4":                {"PROXY TCP4 10.1.2.3 10.0.0.1 12345 3306\r\n", "10.1.2.3:12345"},
		"v1 TCP6":                {"PROXY TCP6 2001:db8::1 ::1 12345 3306\r\n", "[2001:db8::1]:12345"},
		"v1 UNKNOWN":             {"PROXY UNKNOWN\r\n", "own"},
		"v1 UNKNOWN with more":   {"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "own"},
		"v1 of the wrong family": {"PROXY TCP4 2001:db8::1 ::1 12345 3306\r\n", "not of version 1"},
		"v1 with a zone":         {"PROXY TCP6 fe80::1%eth0 ::1 12345 3306\r\n", "not of version 1"},
		"v1 with a bad port":     {"PROXY TCP4 10.1.2.3 10.0.0.1 70000 3306\r\n", "not of version 1"},
		"v1 without a CR":        {"PROXY TCP4 10.1.2.3 10.0.0.1 12345 3306\n", "not of version 1"},
		"v1 without an end":      {"PROXY TCP4 " + strings.Repeat("1", 200), "does not end"},
		"v1 cut":                 {"PROXY TCP4 10.1", "EOF"},
		"v2 TCP4":                {block(proxyOther, proxyTCP4, four), "10.1.2.3:12345"},
		"v2 TCP6":                {block(proxyOther, proxyTCP6, six), "[2001:db8::1]:12345"},
		"v2 TCP4 with TLVs":      {block(proxyOther, proxyTCP4, four+"\x03\x00\x04abcd\x04\x00\x00"), "10.1.2.3:12345"},
		"v2 LOCAL":               {block(proxyLocal, proxyUnknown, ""), "own"},
		"v2 LOCAL with more":     {block(proxyLocal, proxyTCP4, four), "own"},
		"v2 of no family":        {block(proxyOther, proxyUnknown, "\x03\x00\x04abcd"), "own"},
		"v2 unix":                {block(proxyOther, proxyUnix, strings.Repeat("\x00", 216)), "unix"},
		"v2 UDP":                 {block(proxyOther, 0x12, four), "family 0x12 with 12 bytes"},
		"v2 too short":           {block(proxyOther, proxyTCP6, four), "family 0x21 with 12 bytes"},
		"v2 of version 3":        {block(0x31, proxyTCP4, four), "unknown command 0x31"},
		"v2 too long":            {block(proxyOther, proxyTCP4, strings.Repeat("x", maxProxyBlock+1)), "are too many"},
		"v2 cut":                 {block(proxyOther, proxyTCP4, four)[:20], "unexpected EOF"},
		"a login":                {"\x20\x00\x00\x01\x85\xa6\xff\x01\x00\x00\x00\x01\x2d\x00\x00", "no PROXY protocol header"},
		"nothing":                {"", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			const behind = "behind"
			r := strings.NewReader(test.header + behind)
			if strings.Contains(test.want, "EOF") {
				r = strings.NewReader(test.header)
			}
			from, err := readProxyHeader(r)
			got := "own"
			switch {
			case err != nil:
				if !strings.HasSuffix(err.Error(), test.want) {
					t.Errorf("got %v", err)
				}
				return
			case from.unix:
				got = "unix"
			case from.address.IsValid():
				got = from.address.String()
			}
			if got != test.want || r.Len() != len(behind) {
				t.Errorf("got %s, %d bytes are left", got, r.Len())
			}
		})
	}
}

func TestAppendProxyHeader(t *testing.T) {
	for _, test := range [][2]string{
		{"10.1.2.3:12345", "10.0.0.1:3307"}, {"[2001:db8::1]:12345", "[::1]:3307"}, {"[2001:db8::1]:12345", "10.0.0.1:3307"}, {"10.1.2.3:12345", "[::1]:3307"},
		{"10.1.2.3:12345", ""}, {"", ""},
	} {
		var ends [2]netip.AddrPort
		for i, s := range test {
			if s != "" {
				ends[i] = netip.MustParseAddrPort(s)
			}
		}
		r := bytes.NewReader(appendProxyHeader(nil, ends[0], ends[1]))
		from, err := readProxyHeader(r)
		if err != nil || from.address != ends[0] || from.unix != !ends[0].IsValid() || r.Len() != 0 {
			t.Errorf("%v: got %+v, %v", test, from, err)
		}
	}
	if from, err := readProxyHeader(bytes.NewReader(appendProxyLocal(nil))); err != nil || from != (sender{}) {
		t.Errorf("local: got %+v, %v", from, err)
	}
}

// FuzzReadProxyHeader looks for headers that make it panic, read on, or name what it would not say itself.
func FuzzReadProxyHeader(f *testing.F) {
	f.Add([]byte("PROXY TCP4 10.1.2.3 10.0.0.1 12345 3306\r\n"))
	f.Add([]byte(block(proxyOther, proxyTCP4, "\x0a\x01\x02\x03\x0a\x00\x00\x01\x30\x39\x0c\xea\x03\x00\x00")))
	f.Add([]byte(block(proxyLocal, proxyUnknown, "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		from, err := readProxyHeader(r)
		if read := len(b) - r.Len(); read > 16+maxProxyBlock {
			t.Errorf("%d bytes were read", read)
		}
		if err != nil {
			return
		}
		again, err := readProxyHeader(bytes.NewReader(appendProxyHeader(nil, from.address, netip.AddrPort{})))
		if from.address.IsValid() && (err != nil || again.address != from.address) {
			t.Errorf("%v is said as %v, %v", from.address, again.address, err)
		}
	})
}

// TestProxyNetworks: who comes from such a network says for whom, nobody else may, and a backend is told.
func TestProxyNetworks(t *testing.T) {
	const header = "PROXY TCP4 10.1.2.3 10.0.0.1 12345 3306\r\n"
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		o.change = func(o *Options) {
			o.ProxyNetworks, o.ProxyUnix = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, true
			o.ProxyProtocol = true
		}
		o.script = polite
		r := newRig(t, o)
		for _, part := range []int{len(header), 7} {
			client := r.client()
			client.send(header[:part])
			client.send(header[part:])
			backend := r.served()
			told := string(appendProxyHeader(nil, netip.MustParseAddrPort("10.1.2.3:12345"), tcpAddress(client.RemoteAddr())))
			backend.expect(told)
			backend.send(greetingPacket("x"))
			client.expect(greetingPacket("x"))
			if s := r.server.Sessions(); len(s) != 1 || s[0].Client != "10.1.2.3:12345" {
				t.Errorf("sessions %+v", s)
			}
			client.Close() // before its login: its connection is nobody else's
			backend.expectEnd("")
			backend.Close()
			r.empty()
			if r.spares() != 0 {
				t.Error("its connection was kept")
			}
		}
		client := r.client()
		client.send("\x20\x00\x00\x01\x85\xa6\xff\x01\x00\x00\x00\x01\x2d\x00\x00")
		const message = "Bad handshake: tmpproxy expects a PROXY protocol header from here (listen.proxy_networks)"
		client.expect(fmt.Sprintf("%c\x00\x00\x00\xff\x13\x04%s", 3+len(message), message))
		client.Close()
		r.empty()
		if n := r.server.Counts().RefusedHeaders.Load(); n != 1 {
			t.Errorf("%d refusals were counted", n)
		}
	})
}

// TestProxyHeaderTime: a connection that says nothing is refused after a second.
func TestProxyHeaderTime(t *testing.T) {
	r := newRig(t, rigOptions{driver: "pump", change: func(o *Options) { o.ProxyNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} }})
	client := r.client()
	b := make([]byte, wire.HeaderSize+1)
	if n, err := client.Read(b); n != len(b) || b[wire.HeaderSize] != 0xFF {
		t.Errorf("got %q, %v", b[:n], err)
	}
	client.Close()
	r.empty()
}

// TestProxyHeaderOfAnybody: from elsewhere a header is the client's own bytes.
func TestProxyHeaderOfAnybody(t *testing.T) {
	eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
		o.change = func(o *Options) { o.ProxyNetworks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }
		r := newRig(t, o)
		client, backend := r.session()
		client.send("PROXY TCP4 10.1.2.3 10.0.0.1 12345 3306\r\n")
		backend.expect("PROXY TCP4 10.1.2.3 10.0.0.1 12345 3306\r\n")
		if s := r.server.Sessions(); len(s) != 1 || s[0].Client != client.LocalAddr().String() {
			t.Errorf("sessions %+v", s)
		}
		client.Close()
		backend.expectEnd("")
		backend.Close()
		r.empty()
	})
}
