package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/zap"

	"tmpproxy/session"
	"tmpproxy/wire"
)

// peer is the far end of a compressed leg: it packs what it says and unpacks what it hears, and minds the sequence numbers.
type peer struct {
	t    *testing.T
	p    *packing
	next byte
	in   []byte
}

// say packs bytes. first: they begin a command, so that counting begins anew.
func (p *peer) say(b []byte, first bool) []byte {
	if first {
		p.next = 0
	}
	p.p.legs[0].seq = p.next
	r := []run{{to: clientSide, b: b}}
	p.p.pack(r)
	p.next = p.p.legs[0].seq
	return r[0].b
}

// hear unpacks bytes. command: the frames may begin a command.
func (p *peer) hear(b []byte, command bool) []byte {
	p.in = append(p.in, b...)
	var all []byte
	for len(p.in) >= frameHeader {
		length, seq := wire.Header(p.in)
		if len(p.in) < frameHeader+length {
			break
		}
		if seq != p.next && !(command && seq == 0) {
			p.t.Fatalf("frame %d where %d was due", seq, p.next)
		}
		p.next = seq + 1
		if err := p.p.unpack(backendSide, p.in[:frameHeader+length], anyRoom, func(b []byte) { all = append(all, b...) }); err != nil {
			p.t.Fatal(err)
		}
		p.in = p.in[frameHeader+length:]
	}
	return all
}

// The compressed protocol on both legs shows both ends what they would see without it, rewriting included.
func TestCompressedSession(t *testing.T) {
	script := func() [][]byte {
		var s [][]byte
		for range 4 {
			for _, sql := range []string{create, insert, "SELECT * FROM t", drop} {
				s = append(s, query(sql))
			}
		}
		return append(s, query("SELECT "+strings.Repeat("'long and dull', ", 9000)+"1"), query("BAD"),
			append(append(query("LOAD DATA LOCAL INFILE 'f' INTO TABLE x"), pack(2, []byte("line 1\n"))...), pack(3, nil)...), command(wire.ComPing, ""))
	}
	var want struct {
		got []byte
		log string
	}
	plain := newFakeServer(testCaps)
	r := loggedIn(t, plain, session.StrategyInnoDB, 1<<20)
	for _, b := range script() {
		want.got = append(want.got, r.client(b)...)
	}
	want.log = strings.Join(plain.log, "\n")

	for name, bit := range map[string]wire.Capability{"zlib": wire.ClientCompress, "zstd": wire.ClientZstdCompression} {
		for _, chunk := range []int{1, 2, 5, 100, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", name, chunk), func(t *testing.T) {
				caps := testCaps | bit
				s := newFakeServer(caps)
				c := newConversation(newShared(testPolicy(session.StrategyInnoDB), newJournal(zap.NewNop())))
				client := &peer{t: t, p: newPacking(caps, 3)}
				server := &peer{t: t, p: newPacking(caps, 3)}
				packed := false
				var out output
				var got []byte
				now := int64(1)
				var settle func()
				call := func(f func()) {
					out.reset()
					now++
					f()
					work := out.work
					for i, r := range out.runs {
						compressed := packed && i >= out.plain || c.packed != nil && i >= out.plain && !packed
						switch {
						case r.to == clientSide && compressed:
							got = append(got, client.hear(r.b, false)...)
						case r.to == clientSide:
							got = append(got, r.b...)
						case compressed:
							s.receive(server.hear(r.b, true))
						default:
							s.receive(r.b)
						}
					}
					packed = c.packed != nil
					if out.end {
						t.Fatal("ended")
					}
					if work != nil {
						work()
						settle()
						_ = work
					}
				}
				deliver := func(from side, b []byte) {
					for len(b) > 0 {
						n := min(chunk, len(b))
						piece := bytes.Clone(b[:n])
						b = b[n:]
						var work func()
						call(func() { c.received(from, piece, now, &out); work, out.work = out.work, nil })
						if work != nil {
							work()
							call(func() { c.resumed(now, &out) })
						}
						for i := range piece {
							piece[i] = 0xEE
						}
					}
				}
				settle = func() {
					for {
						switch {
						case len(s.out) > 0:
							b := s.out
							s.out = nil
							if packed {
								b = server.say(b, false)
							}
							deliver(backendSide, b)
						case c.wantsBackground():
							call(func() { c.background(now, &out) })
						default:
							return
						}
					}
				}
				settle()
				deliver(clientSide, login(caps, "db"))
				settle()
				deliver(clientSide, pack(3, []byte("answer")))
				settle()
				if !packed {
					t.Fatal("not compressed")
				}
				got = nil
				for _, b := range script() {
					// A file goes when it was asked for; its frames go on counting.
					first, rest, _ := packet(b)
					deliver(clientSide, client.say(first, true))
					settle()
					if len(rest) > 0 {
						deliver(clientSide, client.say(rest, false))
						settle()
					}
				}
				if !bytes.Equal(got, want.got) {
					t.Errorf("the client got %d bytes, want %d, first difference at %d", len(got), len(want.got), difference(got, want.got))
				}
				if log := strings.Join(s.log, "\n"); log != want.log {
					t.Errorf("the server got\n%.1500s\nwant\n%.1500s", log, want.log)
				}
				if c.packed.legs[0].in != nil || c.packed.legs[1].in != nil {
					t.Error("an idle session holds a buffer")
				}
			})
		}
	}
}

func TestFrames(t *testing.T) {
	for name, caps := range map[string]wire.Capability{"zlib": wire.ClientCompress, "zstd": wire.ClientZstdCompression} {
		t.Run(name, func(t *testing.T) {
			random := make([]byte, 200<<10)
			rand.NewChaCha8([32]byte{}).Read(random)
			for _, content := range [][]byte{{1}, bytes.Repeat([]byte("ab"), 24), bytes.Repeat([]byte("ab"), 100<<10), random} {
				p := newPacking(caps, 19)
				r := []run{{to: clientSide, b: content}}
				p.pack(r)
				var got []byte
				if err := p.unpack(clientSide, r[0].b, anyRoom, func(b []byte) { got = append(got, b...) }); err != nil || !bytes.Equal(got, content) {
					t.Errorf("%d bytes came back as %d, %v", len(content), len(got), err)
				}
				if len(content) == 200<<10 && bytes.HasPrefix(content, []byte("ab")) && len(r[0].b) > 10<<10 {
					t.Errorf("%d dull bytes became %d", len(content), len(r[0].b))
				}
			}
			whole := []run{{to: clientSide, b: bytes.Repeat([]byte("ab"), 1000)}}
			newPacking(caps, 0).pack(whole)
			for name, spoil := range map[string]func(b []byte){
				"length too short": func(b []byte) { b[4]-- },
				"length too long":  func(b []byte) { b[4]++ },
				"content":          func(b []byte) { b[len(b)-1] ^= 0x55; b[frameHeader] ^= 0xFF },
			} {
				b := bytes.Clone(whole[0].b)
				spoil(b)
				if err := newPacking(caps, 0).unpack(backendSide, b, anyRoom, func([]byte) {}); !errors.Is(err, errFrame) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	if newPacking(testCaps, 0) != nil {
		t.Error("compression nobody asked for")
	}
}

// TestFrameForFrame wants a command that came in frames of some sizes to go on in as many: the server counts them.
func TestFrameForFrame(t *testing.T) {
	for _, algorithm := range []algorithm{zlibAlgorithm{}, zstdAlgorithm{zstd.SpeedFastest}} {
		for _, sizes := range [][]int{{200 << 10}, {1 << 20}, {300 << 10, 100, 1 << 20}, {wire.MaxPayload, 4}} {
			t.Run(fmt.Sprintf("%T/%v", algorithm, sizes), func(t *testing.T) {
				client, middle := &packing{algorithm: algorithm}, &packing{algorithm: algorithm}
				var input []byte
				for i, size := range sizes {
					r := []run{{to: backendSide, begins: i == 0, b: bytes.Repeat([]byte("select "), size/7+1)[:size]}}
					client.pack(r)
					input = append(input, r[0].b...)
				}
				var out output
				first := true
				err := middle.unpack(clientSide, input, anyRoom, func(b []byte) {
					if first {
						out.begin(b[:10])
						b = b[10:]
					}
					first = false
					out.to(backendSide, b)
				})
				if err != nil {
					t.Fatal(err)
				}
				middle.pack(out.runs)
				if got := int(middle.legs[backendSide].seq); got != len(sizes) {
					t.Errorf("%d frames", got)
				}
			})
		}
	}
}
