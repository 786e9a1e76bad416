package wire

import (
	"bytes"
	"math"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// appendPayload appends a logical payload as the packets it takes, numbered from seq.
func appendPayload(dst []byte, seq byte, payload []byte) []byte {
	for {
		n := min(len(payload), MaxPayload)
		dst = append(dst, byte(n), byte(n>>8), byte(n>>16), seq)
		dst = append(dst, payload[:n]...)
		payload = payload[n:]
		seq++
		if n < MaxPayload {
			return dst
		}
	}
}

func TestHeader(t *testing.T) {
	for _, length := range []int{0, 1, 255, 256, 65535, 65536, MaxPayload} {
		var b [HeaderSize]byte
		PutHeader(b[:], length, 7)
		if got, seq := Header(b[:]); got != length || seq != 7 {
			t.Errorf("header of %d bytes reads as %d, sequence %d", length, got, seq)
		}
	}
	if n, seq := Header([]byte{0x01, 0x02, 0x03, 0x04, 0xff}); n != 0x030201 || seq != 4 {
		t.Errorf("header reads as %#x, %d", n, seq)
	}
}

func TestFramerSkip(t *testing.T) {
	full := bytes.Repeat([]byte{0}, MaxPayload)
	payloads := map[string][]byte{
		"empty": {}, "one byte": {0xff}, "some": bytes.Repeat([]byte{1, 0, 0}, 100), "full": full,
		"full and one": append(bytes.Clone(full), 9), "twice full": append(bytes.Clone(full), full...),
	}
	for name, payload := range payloads {
		t.Run(name, func(t *testing.T) {
			stream := appendPayload(nil, 0, payload)
			chunks := []int{1, 2, 3, 4, 5, 7, 64, 299}
			if len(payload) >= MaxPayload {
				chunks = []int{4093, 65536, MaxPayload, MaxPayload + 1, MaxPayload + 4, MaxPayload + 7}
			}
			chunks = append(chunks, len(stream), len(stream)+20)
			stream = append(stream, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7) // an empty payload, and the next one's beginning
			for _, chunk := range chunks {
				var f Framer
				total, end := 0, false
				for !end {
					if f.Between() != (total == 0) {
						t.Fatalf("chunks of %d: Between is %v after %d bytes", chunk, f.Between(), total)
					}
					var n int
					n, end = f.Skip(stream[total:min(total+chunk, len(stream))])
					if total += n; !end && n < chunk {
						t.Fatalf("chunks of %d: stopped after %d bytes without an end", chunk, total)
					}
				}
				if total != len(stream)-11 {
					t.Errorf("chunks of %d: %d bytes, want %d", chunk, total, len(stream)-11)
				}
				if f.size != len(payload) {
					t.Errorf("chunks of %d: payload of %d bytes, want %d", chunk, f.size, len(payload))
				}
				if !f.Between() {
					t.Errorf("chunks of %d: not between payloads at the end", chunk)
				}
				if n, end := f.Skip(stream[total : total+4]); n != 4 || !end || f.size != 0 {
					t.Errorf("chunks of %d: the empty payload behind: %d bytes, end %v, size %d", chunk, n, end, f.size)
				}
			}
		})
	}
}

func TestFramerSkipInfile(t *testing.T) {
	file := appendPayload(nil, 2, []byte("1\tone\n2\ttwo\n"))
	file = appendPayload(file, 3, []byte("3"))
	file = appendPayload(file, 4, nil)
	for chunk := 1; chunk <= len(file)+5; chunk++ {
		stream := append(bytes.Clone(file), 1, 0, 0, 0, 0x0e)
		var f Framer
		total, end := 0, false
		for !end && total < len(stream) {
			var n int
			n, end = f.SkipInfile(stream[total:min(total+chunk, len(stream))])
			total += n
		}
		if total != len(file) || !end {
			t.Fatalf("chunks of %d: %d bytes, end %v; want %d", chunk, total, end, len(file))
		}
	}
	t.Run("nothing", func(t *testing.T) {
		var f Framer
		if n, end := f.SkipInfile([]byte{0, 0, 0, 2, 9, 9}); n != 4 || !end {
			t.Errorf("%d bytes, end %v", n, end)
		}
	})
	t.Run("full packet", func(t *testing.T) {
		// The empty packet that closes a payload of MaxPayload bytes is not the end of the file.
		file := appendPayload(nil, 2, make([]byte, MaxPayload))
		file = appendPayload(file, 4, []byte("x"))
		file = appendPayload(file, 5, nil)
		for _, chunk := range []int{len(file), 4099, MaxPayload + 4} {
			var f Framer
			total, end := 0, false
			for !end && total < len(file) {
				var n int
				n, end = f.SkipInfile(file[total:min(total+chunk, len(file))])
				total += n
			}
			if total != len(file) || !end {
				t.Errorf("chunks of %d: %d of %d bytes, end %v", chunk, total, len(file), end)
			}
		}
	})
}

func TestLenenc(t *testing.T) {
	for _, n := range []uint64{0, 1, 0xfa, 0xfb, 0xfc, 0xff, 0xffff, 0x10000, 0xffffff, 0x1000000, 1 << 32, math.MaxUint64} {
		b := appendLenenc(nil, n)
		if want := mysql.PutLengthEncodedInt(n); !bytes.Equal(b, want) {
			t.Errorf("%d is written as %x, want %x", n, b, want)
		}
		v := view{b: append(bytes.Clone(b), 0xaa)}
		if got := v.lenenc(); got != n || v.short || len(v.b) != 1 {
			t.Errorf("%x reads as %d, short %v, %d bytes left; want %d", b, got, v.short, len(v.b), n)
		}
		for cut := range b {
			v := view{b: b[:cut]}
			if v.lenenc(); !v.short {
				t.Errorf("%x reads as a number", b[:cut])
			}
		}
	}
	for _, c := range []byte{0xfb, 0xff} {
		v := view{b: []byte{c, 1, 2, 3}}
		if v.lenenc(); !v.short {
			t.Errorf("%#x reads as a number", c)
		}
	}
	v := view{b: append(bytes.Repeat([]byte{0xff}, 9), 1)}
	v.b[0] = 0xfe
	if s := v.lenencString(); s != nil || !v.short {
		t.Errorf("a string of 2^64-1 bytes reads as %x", s)
	}
}
