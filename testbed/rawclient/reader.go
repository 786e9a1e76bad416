package rawclient

import (
	"bytes"
	"encoding/binary"
	"errors"
)

var errShort = errors.New("packet ends early")

// reader takes a payload apart. After the first error every read answers zero.
type reader struct {
	p   []byte
	err error
}

func (r *reader) bytes(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.p) {
		r.fail()
		return make([]byte, max(0, min(n, 256)))
	}
	b := r.p[:n:n]
	r.p = r.p[n:]
	return b
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = errShort
	}
	r.p = nil
}

func (r *reader) byte() byte     { return r.bytes(1)[0] }
func (r *reader) uint16() uint16 { return binary.LittleEndian.Uint16(r.bytes(2)) }
func (r *reader) uint32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }

// rest returns what is left.
func (r *reader) rest() []byte {
	b := r.p
	r.p = nil
	return b
}

// nul returns the string up to a NUL, or to the end where a server leaves the last NUL out.
func (r *reader) nul() string {
	at := bytes.IndexByte(r.p, 0)
	if at < 0 {
		return string(r.rest())
	}
	s := string(r.p[:at])
	r.p = r.p[at+1:]
	return s
}

// lenenc returns a length-encoded integer; null tells the NULL of a text row.
func (r *reader) lenenc() (n uint64, null bool) {
	switch first := r.byte(); first {
	case 0xfb:
		return 0, true
	case 0xfc:
		return uint64(r.uint16()), false
	case 0xfd:
		b := r.bytes(3)
		return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16, false
	case 0xfe:
		return binary.LittleEndian.Uint64(r.bytes(8)), false
	case 0xff:
		r.fail()
		return 0, false
	default:
		return uint64(first), false
	}
}

func (r *reader) number() uint64 {
	n, null := r.lenenc()
	if null {
		r.fail()
	}
	return n
}

// lenencBytes returns a length-encoded string, nil for NULL.
func (r *reader) lenencBytes() []byte {
	n, null := r.lenenc()
	if null {
		return nil
	}
	if n > uint64(len(r.p)) {
		r.fail()
		return nil
	}
	return r.bytes(int(n))
}

func appendLenenc(p []byte, n uint64) []byte {
	switch {
	case n < 0xfb:
		return append(p, byte(n))
	case n < 1<<16:
		return append(p, 0xfc, byte(n), byte(n>>8))
	case n < 1<<24:
		return append(p, 0xfd, byte(n), byte(n>>8), byte(n>>16))
	default:
		return binary.LittleEndian.AppendUint64(append(p, 0xfe), n)
	}
}

func appendLenencString(p, s []byte) []byte {
	return append(appendLenenc(p, uint64(len(s))), s...)
}
