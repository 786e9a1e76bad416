package wire

import (
	"fmt"
	"slices"
)

// Types of query attributes, whose values have to be stepped over.
const (
	typeDecimal    = 0x00
	typeTiny       = 0x01
	typeShort      = 0x02
	typeLong       = 0x03
	typeFloat      = 0x04
	typeDouble     = 0x05
	typeNull       = 0x06
	typeTimestamp  = 0x07
	typeLongLong   = 0x08
	typeInt24      = 0x09
	typeDate       = 0x0a
	typeTime       = 0x0b
	typeDatetime   = 0x0c
	typeYear       = 0x0d
	typeVarchar    = 0x0f
	typeBit        = 0x10
	typeVector     = 0xf2
	typeJSON       = 0xf5
	typeNewDecimal = 0xf6
	typeEnum       = 0xf7
	typeSet        = 0xf8
	typeTinyBlob   = 0xf9
	typeMediumBlob = 0xfa
	typeLongBlob   = 0xfb
	typeBlob       = 0xfc
	typeVarString  = 0xfd
	typeString     = 0xfe
	typeGeometry   = 0xff
)

// SplitQuery splits the payload of a COM_QUERY, from the command byte on, into the block of query attributes (with its
// counts; nil unless CLIENT_QUERY_ATTRIBUTES is in caps) and the statement's text. Both are parts of payload.
func SplitQuery(payload []byte, caps Capability) (attributes, text []byte, err error) {
	if len(payload) == 0 || Command(payload[0]) != ComQuery {
		return nil, nil, fmt.Errorf("split COM_QUERY: %w", errCommand)
	}
	rest := payload[1:]
	if !caps.Has(ClientQueryAttributes) {
		return nil, rest, nil
	}
	v := view{b: rest}
	count := v.lenenc()
	sets := v.lenenc()
	if v.short || sets != 1 || count > uint64(len(rest)) {
		return nil, nil, fmt.Errorf("split COM_QUERY: %w", errAttributes)
	}
	if count > 0 {
		if err := skipParameters(&v, int(count)); err != nil {
			return nil, nil, fmt.Errorf("split COM_QUERY: %w", err)
		}
	}
	n := len(rest) - len(v.b)
	return rest[:n:n], rest[n:], nil
}

// skipParameters steps over a null bitmap, the types and names, and the values of count parameters.
func skipParameters(v *view, count int) error {
	nulls := v.take(uint64(count+7) / 8)
	if v.uint8() != 1 { // new_params_bind_flag: the types are there
		return errAttributes
	}
	types := *v
	for range count {
		v.uint16()
		v.lenencString()
	}
	for i := range count {
		kind := byte(types.uint16())
		types.lenencString()
		if v.short {
			return errAttributes
		}
		if nulls[i/8]&(1<<(i%8)) != 0 {
			continue
		}
		switch kind {
		case typeNull:
		case typeTiny:
			v.take(1)
		case typeShort, typeYear:
			v.take(2)
		case typeLong, typeInt24, typeFloat:
			v.take(4)
		case typeLongLong, typeDouble:
			v.take(8)
		case typeDate, typeDatetime, typeTimestamp, typeTime:
			v.take(uint64(v.uint8()))
		case typeDecimal, typeNewDecimal, typeVarchar, typeVarString, typeString, typeBit, typeEnum, typeSet, typeJSON,
			typeTinyBlob, typeMediumBlob, typeLongBlob, typeBlob, typeGeometry, typeVector:
			v.lenencString()
		default:
			return errAttributes
		}
	}
	if v.short {
		return errAttributes
	}
	return nil
}

// AppendQuery appends a COM_QUERY as one packet, or as several if it is longer than MaxPayload, numbered from 0. Under
// CLIENT_QUERY_ATTRIBUTES the block of attributes comes before the text; nil stands for one that is empty.
func AppendQuery(dst []byte, caps Capability, attributes []byte, sql string) []byte {
	start := len(dst)
	dst = slices.Grow(dst, HeaderSize+1+len(attributes)+2+len(sql))
	dst = append(dst, 0, 0, 0, 0, byte(ComQuery))
	if caps.Has(ClientQueryAttributes) {
		if attributes == nil {
			attributes = []byte{0, 1}
		}
		dst = append(dst, attributes...)
	}
	dst = append(dst, sql...)
	for seq := byte(0); ; seq++ {
		length := len(dst) - start - HeaderSize
		PutHeader(dst[start:], min(length, MaxPayload), seq)
		if length < MaxPayload {
			return dst
		}
		// Make room for the next packet's header; this copies the rest once for each 16 MiB.
		start += HeaderSize + MaxPayload
		dst = append(dst, 0, 0, 0, 0)
		copy(dst[start+HeaderSize:], dst[start:len(dst)-HeaderSize])
	}
}
