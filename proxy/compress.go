package proxy

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"tmpproxy/wire"
)

// The compressed protocol wraps the stream of packets in frames: 3 bytes length of what follows the header, 1 byte sequence number,
// 3 bytes length before compression (0: not compressed). It begins behind the OK of the login, on both legs alike, as negotiated.

const (
	frameHeader = 7
	// minCompress is the length below which servers and clients do not compress either.
	minCompress = 50
	// frameContent bounds what goes into one frame, in bytes. It is as much as can: what came in one frame goes on in one, since
	// servers count the packets of a reply from the number of the command's frames, and some clients look at that.
	frameContent = wire.MaxPayload
)

var errFrame = errors.New("malformed compressed frame")

// algorithm compresses and decompresses one frame's content.
type algorithm interface {
	compress(dst, b []byte) []byte
	// decompress appends exactly size bytes.
	decompress(dst, b []byte, size int) ([]byte, error)
}

// packing is the compressed protocol on both legs of a session. Between frames it holds no buffer.
type packing struct {
	algorithm algorithm
	legs      [2]packedLeg
}

type packedLeg struct {
	seq byte   // of the next frame sent
	in  []byte // a frame that has not arrived whole
	// announced is what that frame and its content take in all if there was asked for room for them; else 0.
	announced int
}

// newPacking returns what the negotiated capabilities ask for, or nil. Where both algorithms are, zlib goes first, as in servers.
func newPacking(caps wire.Capability, level byte) *packing {
	switch {
	case caps.Has(wire.ClientCompress):
		return &packing{algorithm: zlibAlgorithm{}}
	case caps.Has(wire.ClientZstdCompression):
		return &packing{algorithm: zstdAlgorithm{zstd.EncoderLevelFromZstd(int(level))}}
	}
	return nil
}

// unpack takes bytes that arrived from a side and calls f with each frame's content. What f is given stays as it is until the next
// input of the session. Frames that are not small are asked room for, by room, as soon as their headers are there.
func (p *packing) unpack(from side, b []byte, room func(int) bool, f func([]byte)) error {
	leg := &p.legs[from]
	owned := len(leg.in) > 0
	if owned {
		leg.in = append(leg.in, b...)
		b = leg.in
	}
	for len(b) >= frameHeader {
		length, seq := wire.Header(b)
		size := int(b[4]) | int(b[5])<<8 | int(b[6])<<16
		if need := frameHeader + length + size; need > smallFrame && leg.announced == 0 {
			if !room(need) {
				return noRoomError(need)
			}
			leg.announced = need
		}
		if len(b) < frameHeader+length {
			break
		}
		content := b[frameHeader : frameHeader+length]
		leg.seq = seq + 1
		if size > 0 {
			var err error
			if content, err = p.algorithm.decompress(make([]byte, 0, size), content, size); err != nil {
				return err
			}
		}
		f(content)
		leg.announced = 0
		b = b[frameHeader+length:]
	}
	switch {
	case len(b) == 0:
		leg.in = nil
	case !owned || len(b) < len(leg.in):
		leg.in = bytes.Clone(b)
	}
	return nil
}

// pack puts the runs from the first one on into frames.
func (p *packing) pack(runs []run) {
	for i := range runs {
		r := &runs[i]
		if r.sealed {
			continue
		}
		leg := &p.legs[r.to]
		if r.begins {
			leg.seq = 0
		}
		framed := make([]byte, 0, len(r.b)+frameHeader)
		for b := r.b; len(b) > 0; {
			n := min(len(b), frameContent)
			framed = p.frame(framed, leg, b[:n])
			b = b[n:]
		}
		r.b = framed
	}
}

func (p *packing) frame(dst []byte, leg *packedLeg, content []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0)
	size := 0
	if len(content) >= minCompress {
		if dst = p.algorithm.compress(dst, content); len(dst)-start-frameHeader < len(content) {
			size = len(content)
		} else {
			dst = dst[:start+frameHeader]
		}
	}
	if size == 0 {
		dst = append(dst, content...)
	}
	wire.PutHeader(dst[start:], len(dst)-start-frameHeader, leg.seq)
	leg.seq++
	dst[start+4], dst[start+5], dst[start+6] = byte(size), byte(size>>8), byte(size>>16)
	return dst
}

type zlibAlgorithm struct{}

var (
	deflaters = sync.Pool{New: func() any { return zlib.NewWriter(nil) }}
	inflaters sync.Pool // of io.ReadCloser that are zlib.Resetter
)

// appender is a bytes.Buffer that gives its bytes back without a copy.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

func (zlibAlgorithm) compress(dst, b []byte) []byte {
	w := deflaters.Get().(*zlib.Writer)
	defer deflaters.Put(w)
	a := appender{dst}
	w.Reset(&a)
	w.Write(b) // writing to memory does not fail
	w.Close()
	return a.b
}

func (zlibAlgorithm) decompress(dst, b []byte, size int) ([]byte, error) {
	source := bytes.NewReader(b)
	r, _ := inflaters.Get().(io.ReadCloser)
	var err error
	if r == nil {
		r, err = zlib.NewReader(source)
	} else {
		err = r.(zlib.Resetter).Reset(source, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	defer inflaters.Put(r)
	n := len(dst)
	dst = append(dst, make([]byte, size)...)
	if _, err := io.ReadFull(r, dst[n:]); err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	var more [1]byte
	if n, err := r.Read(more[:]); n > 0 || err != io.EOF { // the checksum is looked at here
		return nil, errFrame
	}
	return dst, nil
}

type zstdAlgorithm struct{ level zstd.EncoderLevel }

// zstdEncoders and zstdDecoder are shared by all sessions; EncodeAll and DecodeAll are safe for concurrent use.
var (
	zstdEncoders sync.Map // of zstd.EncoderLevel to *zstd.Encoder
	zstdDecoder  = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(wire.MaxPayload+1), zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(err) // the options are constant
		}
		return d
	})
)

func (a zstdAlgorithm) compress(dst, b []byte) []byte {
	e, ok := zstdEncoders.Load(a.level)
	if !ok {
		made, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(a.level), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // the options are among four
		}
		e, _ = zstdEncoders.LoadOrStore(a.level, made)
	}
	return e.(*zstd.Encoder).EncodeAll(b, dst)
}

func (zstdAlgorithm) decompress(dst, b []byte, size int) ([]byte, error) {
	n := len(dst)
	dst, err := zstdDecoder().DecodeAll(b, dst)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	if len(dst)-n != size {
		return nil, errFrame
	}
	return dst, nil
}
