package proxy

import (
	"bytes"
	"crypto/tls"
	"testing"

	"go.uber.org/zap"

	"tmpproxy/session"
	"tmpproxy/wire"
)

// What is read before the login, beyond the packets that package wire's targets take apart.

// conversing drives a conversation over bytes of either side, in pieces, and returns what came out for each.
type conversing struct {
	t   *testing.T
	c   *conversation
	out output
	got [2][]byte
}

func converse(t *testing.T, with TLS) *conversing {
	sh := newShared(testPolicy(session.StrategyNative), newJournal(zap.NewNop()))
	sh.tls = with
	return &conversing{t: t, c: newConversation(sh)}
}

// say gives the conversation what a side says; false: the session is over.
func (d *conversing) say(from side, b []byte, size byte) bool {
	for len(b) > 0 {
		n := min(len(b), 1+int(size))
		piece := bytes.Clone(b[:n])
		b = b[n:]
		d.out.reset()
		d.c.received(from, piece, 1, &d.out)
		for {
			for _, r := range d.out.runs {
				d.got[r.to] = append(d.got[r.to], r.b...)
			}
			if kept(d.c) > 600<<10 {
				d.t.Fatalf("%d bytes are kept", kept(d.c))
			}
			if d.out.end {
				return false
			}
			if d.out.work == nil {
				break
			}
			work := d.out.work
			d.out.reset()
			work()
			d.c.resumed(1, &d.out)
		}
	}
	return true
}

// FuzzGreeting: whatever a backend says first, the client gets that but for capabilities, and the session ends with the backend.
func FuzzGreeting(f *testing.F) {
	f.Add(newFakeServer(testCaps).greeting(), byte(255))
	f.Add(wire.AppendErr(nil, 0, 0, wire.Err{Code: 1040, Message: "Too many connections"}), byte(3))
	f.Add([]byte("SSH-2.0-OpenSSH_9.2\r\n"), byte(0))
	f.Add([]byte("\xff\xff\xff\x00\x0a"), byte(1))
	f.Fuzz(func(t *testing.T, greeting []byte, size byte) {
		d := converse(t, TLS{})
		d.say(backendSide, greeting, size)
		if n := passed(d.got[clientSide], greeting, clientSide); n < len(d.got[clientSide]) || len(d.got[backendSide]) > 0 {
			t.Fatalf("the client got %q, the backend %q", d.got[clientSide], d.got[backendSide])
		}
	})
}

// FuzzHandshake: whatever both say up to the login's end, each gets what the other one has said, or an error of ours.
func FuzzHandshake(f *testing.F) {
	s := newFakeServer(testCaps)
	f.Add(login(testCaps, "db"), []byte("\x2c\x00\x00\x02\xfecaching_sha2_password\x00abcdefghijklmnopqrst\x00"), pack(3, []byte("answer")), s.ok(4), byte(255))
	f.Add(pack(1, login(testCaps|wire.ClientSSL, "db")[4:36]), []byte{}, []byte("\x16\x03\x01\x00\x05hello"), []byte{}, byte(0))
	f.Add(pack(1, nil), []byte{}, []byte{}, []byte{}, byte(0))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), fail(1043, "Bad handshake"), []byte{}, []byte{}, byte(7))
	f.Add(login(testCaps|wire.ClientCompress, "db"), s.ok(2), []byte("\x05\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x0e"), []byte("\x01\x00\x00\x01\xff\xff\xff\x78"), byte(255))
	f.Fuzz(func(t *testing.T, first, second, third, fourth []byte, size byte) {
		d := converse(t, TLS{})
		sent := [2][]byte{}
		over := false
		for i, b := range [][]byte{newFakeServer(testCaps).greeting(), first, second, third, fourth} {
			from := side((i + 1) % 2)
			sent[from] = append(sent[from], b...)
			if over = !d.say(from, b, size); over {
				break
			}
		}
		if d.c.packed != nil {
			return // in frames
		}
		for at, got := range d.got {
			if n := passed(got, sent[1-at], side(at)); n < len(got) && !(side(at) == clientSide && over && refused(got, n)) {
				t.Fatalf("the %v got %q", side(at), got[n:])
			}
		}
	})
}

// FuzzTLSRecords: what follows a client's SSLRequest is taken for TLS and nothing else: nothing of it reaches the backend.
func FuzzTLSRecords(f *testing.F) {
	request := pack(1, login(tlsCaps, "db")[4:36])
	server, trust := testCertificate()
	client := secureClient(trust)
	client.step()
	hello := client.take()
	client.abandon()
	f.Add(hello, byte(255))
	f.Add(hello, byte(0))
	f.Add(login(testCaps, "db"), byte(255))
	f.Add([]byte("\x15\x03\x01\x00\x02\x02\x28"), byte(2))
	f.Add(append([]byte("\x16\x03\x01\x40\x00"), make([]byte, 16<<10)...), byte(255))
	f.Fuzz(func(t *testing.T, records []byte, size byte) {
		d := converse(t, TLS{Listen: ListenTLSOptional, Server: func() *tls.Config { return server }})
		d.say(backendSide, newFakeServer(testCaps).greeting(), 255)
		d.say(clientSide, request, 255)
		d.say(clientSide, records, size)
		d.c.abandon()
		if s := d.c.tls(clientSide); s != nil && s.started {
			<-s.finished
		}
		if len(d.got[backendSide]) > 0 {
			t.Fatalf("the backend got %q", d.got[backendSide])
		}
	})
}

// FuzzFrames: however frames arrive, their content is the same; what is packed again has that content.
func FuzzFrames(f *testing.F) {
	for _, zstd := range []bool{false, true} {
		p := packing{algorithm: fuzzAlgorithm(zstd)}
		r := []run{{to: clientSide, b: bytes.Repeat(query("SELECT 1"), 20)}, {to: clientSide, b: query("SELECT 2")}}
		p.pack(r)
		f.Add(zstd, append(r[0].b, r[1].b...), byte(4))
	}
	f.Add(false, []byte("\x01\x00\x00\x00\xff\xff\xff\x78"), byte(0))
	f.Add(true, []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01\x00\x00"), byte(0))
	f.Fuzz(func(t *testing.T, zstd bool, frames []byte, size byte) {
		whole, parts := packing{algorithm: fuzzAlgorithm(zstd)}, packing{algorithm: fuzzAlgorithm(zstd)}
		var at, in []byte
		err := whole.unpack(clientSide, frames, anyRoom, func(b []byte) { at = append(at, b...) })
		var errParts error
		for b := frames; len(b) > 0 && errParts == nil; {
			n := min(len(b), 1+int(size))
			errParts = parts.unpack(clientSide, bytes.Clone(b[:n]), anyRoom, func(b []byte) { in = append(in, b...) })
			b = b[n:]
		}
		if !bytes.Equal(at, in) || (err == nil) != (errParts == nil) {
			t.Fatalf("%d bytes at once, %v; %d in pieces, %v", len(at), err, len(in), errParts)
		}
		again := []run{{to: backendSide, b: at}}
		whole.pack(again)
		var back []byte
		if err := parts.unpack(backendSide, again[0].b, anyRoom, func(b []byte) { back = append(back, b...) }); err != nil || !bytes.Equal(back, at) {
			t.Fatalf("%d bytes became %d, %v", len(at), len(back), err)
		}
	})
}

func fuzzAlgorithm(zstd bool) algorithm {
	if zstd {
		return zstdAlgorithm{1}
	}
	return zlibAlgorithm{}
}

// FuzzPasswords: neither a server's key nor a client's answer that is none does more than fail; what a key of ours takes comes out again.
func FuzzPasswords(f *testing.F) {
	key, err := NewRSAKey()
	if err != nil {
		f.Fatal(err)
	}
	scramble := []byte("abcdefghijklmnopqrst")
	f.Add(key.public, []byte("secret\x00"))
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), []byte{})
	f.Fuzz(func(t *testing.T, public, password []byte) {
		sealed, err := encryptPassword(bytes.Clone(password), scramble, public)
		if _, err := key.decrypt(password, scramble); err == nil && len(password) != key.key.Size() {
			t.Fatalf("%x was decrypted", password)
		}
		if err != nil || !bytes.Equal(public, key.public) {
			return
		}
		if got, err := key.decrypt(sealed, scramble); err != nil || !bytes.Equal(got, password) {
			t.Fatalf("%q came out as %q, %v", password, got, err)
		}
	})
}
