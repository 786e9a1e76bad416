package wire

import (
	"encoding/binary"
	"errors"
)

const (
	HeaderSize = 4         // bytes before each packet's payload: 3 of length, 1 of sequence number
	MaxPayload = 1<<24 - 1 // longest payload of one packet; a longer logical payload runs on in the next packet
)

// What can be wrong with a payload.
var (
	errShort  = errors.New("payload too short")
	errNotOK  = errors.New("not an OK packet")
	errNotEOF = errors.New("not an EOF packet")
	errNotErr = errors.New("not an ERR packet")

	errCommand    = errors.New("another command")
	errAttributes = errors.New("malformed query attributes")
)

// Header reads a packet header. It panics if b has fewer than HeaderSize bytes.
func Header(b []byte) (length int, seq byte) {
	_ = b[3]
	return int(b[0]) | int(b[1])<<8 | int(b[2])<<16, b[3]
}

// PutHeader writes a packet header. It panics if b has fewer than HeaderSize bytes.
func PutHeader(b []byte, length int, seq byte) {
	_ = b[3]
	b[0], b[1], b[2], b[3] = byte(length), byte(length>>8), byte(length>>16), seq
}

// Framer follows packet boundaries through chunks of any size without a buffer. The zero value stands before the first
// packet. A logical payload is a run of packets of MaxPayload bytes and the shorter one (which may be empty) that ends
// it.
type Framer struct {
	header [HeaderSize]byte
	have   uint8 // bytes of header present
	inside bool  // between a packet's header and its end
	full   bool  // the present packet is of MaxPayload bytes: the logical payload runs on
	run    bool  // a full packet of the present logical payload lies behind
	left   int   // bytes of the present packet still to come
	size   int   // of the present (after its end: the last) logical payload, as announced so far
}

// Between tells whether the Framer stands exactly between two logical payloads.
func (f *Framer) Between() bool { return f.have == 0 && !f.inside && !f.run }

// next consumes bytes up to the end of the present packet: data, a part of b, are those of its payload. At the end of
// the logical payload end is set and size is its length.
func (f *Framer) next(b []byte) (data []byte, n int, end bool) {
	if !f.inside {
		n = copy(f.header[f.have:], b)
		f.have += uint8(n)
		if f.have < HeaderSize {
			return nil, n, false
		}
		f.have, f.inside = 0, true
		f.left, _ = Header(f.header[:])
		f.full = f.left == MaxPayload
		if !f.run {
			f.size = 0
		}
		f.size += f.left
	}
	data = b[n:min(len(b), n+f.left)]
	n += len(data)
	f.left -= len(data)
	if f.left == 0 {
		f.inside, f.run = false, f.full
		end = !f.full
	}
	return data, n, end
}

// Skip consumes the bytes of b that belong to the present logical payload, headers included: n of them. At the
// payload's last byte end is set; the rest of b is not looked at.
func (f *Framer) Skip(b []byte) (n int, end bool) {
	for n < len(b) && !end {
		var used int
		_, used, end = f.next(b[n:])
		n += used
	}
	return n, end
}

// SkipInfile consumes the bytes of b that belong to the file a client sends for LOAD DATA LOCAL INFILE. The empty
// logical payload that ends the file sets end; it belongs to the n bytes too.
func (f *Framer) SkipInfile(b []byte) (n int, end bool) {
	for n < len(b) {
		used, last := f.Skip(b[n:])
		n += used
		if last && f.size == 0 {
			return n, true
		}
	}
	return n, false
}

// view reads the fields of one payload. After the first field that is not wholly there, short is set and everything
// reads as zero.
type view struct {
	b     []byte
	short bool
}

func (v *view) take(n uint64) []byte {
	if v.short || n > uint64(len(v.b)) {
		v.short, v.b = true, nil
		return nil
	}
	field := v.b[:n:n]
	v.b = v.b[n:]
	return field
}

func (v *view) uint8() byte {
	if b := v.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (v *view) uint16() uint16 {
	if b := v.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (v *view) uint32() uint32 {
	if b := v.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// lenenc reads a length-encoded integer. 0xFB (NULL) and 0xFF are none.
func (v *view) lenenc() uint64 {
	switch c := v.uint8(); c {
	default:
		return uint64(c)
	case 0xfc:
		return uint64(v.uint16())
	case 0xfd:
		if b := v.take(3); b != nil {
			return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16
		}
		return 0
	case 0xfe:
		if b := v.take(8); b != nil {
			return binary.LittleEndian.Uint64(b)
		}
		return 0
	case 0xfb, 0xff:
		v.short, v.b = true, nil
		return 0
	}
}

// lenencString reads a length-encoded string, a part of the payload.
func (v *view) lenencString() []byte { return v.take(v.lenenc()) }

// untilNUL reads up to a zero byte, which is consumed but not returned.
func (v *view) untilNUL() []byte {
	for i, c := range v.b {
		if c == 0 {
			field := v.b[:i:i]
			v.b = v.b[i+1:]
			return field
		}
	}
	v.short, v.b = true, nil
	return nil
}

// untilNULOrEnd is untilNUL for a field that may be the last and then lacks its zero byte.
func (v *view) untilNULOrEnd() []byte {
	for i, c := range v.b {
		if c == 0 {
			field := v.b[:i:i]
			v.b = v.b[i+1:]
			return field
		}
	}
	field := v.b
	v.b = nil
	return field
}

// appendLenenc appends a length-encoded integer.
func appendLenenc(dst []byte, n uint64) []byte {
	switch {
	case n < 0xfb:
		return append(dst, byte(n))
	case n < 1<<16:
		return append(dst, 0xfc, byte(n), byte(n>>8))
	case n < 1<<24:
		return append(dst, 0xfd, byte(n), byte(n>>8), byte(n>>16))
	default:
		return binary.LittleEndian.AppendUint64(append(dst, 0xfe), n)
	}
}
