package record

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// Value is a parameter of a prepared statement. Data is a decimal number for the integer and floating types, the hexadecimal form
// of the protocol's bytes for dates and times, and the bytes themselves for all others.
type Value struct {
	Type      byte `json:"type"` // a MYSQL_TYPE_
	Unsigned  bool `json:"unsigned,omitempty"`
	Null      bool `json:"null,omitempty"`
	Long      bool `json:"long,omitempty"` // it was sent before, as long data
	Indicator byte `json:"indicator,omitempty"`
	Data      Text `json:"data,omitempty"`
}

// width is the length of a fixed type, 0 for others.
func width(kind byte) int {
	switch kind {
	case mysql.MYSQL_TYPE_TINY:
		return 1
	case mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_YEAR:
		return 2
	case mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_FLOAT:
		return 4
	case mysql.MYSQL_TYPE_LONGLONG, mysql.MYSQL_TYPE_DOUBLE:
		return 8
	}
	return 0
}

func (v *Value) isFloat() bool {
	return v.Type == mysql.MYSQL_TYPE_FLOAT || v.Type == mysql.MYSQL_TYPE_DOUBLE
}

func (v *Value) isInteger() bool { return width(v.Type) > 0 && !v.isFloat() }

func (v *Value) isTemporal() bool {
	switch v.Type {
	case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE, mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_TIME,
		mysql.MYSQL_TYPE_DATETIME2, mysql.MYSQL_TYPE_TIMESTAMP2, mysql.MYSQL_TYPE_TIME2:
		return true
	}
	return false
}

var errShort = errors.New("the parameters end early")

// parameters takes the parameters out of COM_STMT_EXECUTE.
type parameters struct {
	p   []byte
	err error
}

func (r *parameters) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.p) {
		r.err = errShort
		return make([]byte, max(0, min(n, 8)))
	}
	b := r.p[:n]
	r.p = r.p[n:]
	return b
}

func (r *parameters) lenenc() uint64 {
	switch first := r.take(1)[0]; first {
	case 0xfc:
		return uint64(binary.LittleEndian.Uint16(r.take(2)))
	case 0xfd:
		b := r.take(3)
		return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16
	case 0xfe:
		return binary.LittleEndian.Uint64(r.take(8))
	default:
		return uint64(first)
	}
}

func (r *parameters) bytes() []byte {
	n := r.lenenc()
	if r.err != nil || n > uint64(len(r.p)) {
		r.err = errShort
		return nil
	}
	return r.take(int(n))
}

// value reads the data of a value whose type is known.
func (r *parameters) value(v *Value) {
	switch {
	case v.isFloat():
		b := r.take(width(v.Type))
		if v.Type == mysql.MYSQL_TYPE_FLOAT {
			v.Data = strconv.AppendFloat(nil, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), 'g', -1, 32)
		} else {
			v.Data = strconv.AppendFloat(nil, math.Float64frombits(binary.LittleEndian.Uint64(b)), 'g', -1, 64)
		}
	case v.isInteger():
		b := r.take(width(v.Type))
		var full [8]byte
		if !v.Unsigned && len(b) > 0 && b[len(b)-1] >= 0x80 {
			for i := range full {
				full[i] = 0xff
			}
		}
		copy(full[:], b)
		if n := binary.LittleEndian.Uint64(full[:]); v.Unsigned {
			v.Data = strconv.AppendUint(nil, n, 10)
		} else {
			v.Data = strconv.AppendInt(nil, int64(n), 10)
		}
	case v.isTemporal():
		v.Data = hex.AppendEncode(nil, r.bytes())
	default:
		v.Data = append(Text(nil), r.bytes()...)
	}
}

// executed is what COM_STMT_EXECUTE asks for.
type executed struct {
	statement uint32
	cursor    byte
	values    []Value
	types     []Value // of the parameters, for executions that do not tell them again
}

// parseExecute reads the payload of a COM_STMT_EXECUTE, from the command on. params is how many the statement has, types are
// those told last, attributes says whether CLIENT_QUERY_ATTRIBUTES is negotiated. long tells of long data.
func parseExecute(p []byte, params int, types []Value, attributes bool, long func(int) bool) (executed, error) {
	const counted = 8 // PARAMETER_COUNT_AVAILABLE
	r := parameters{p: p}
	r.take(1)
	e := executed{statement: binary.LittleEndian.Uint32(r.take(4)), types: types}
	flags := r.take(1)[0]
	e.cursor = flags &^ counted
	r.take(4)
	if r.err != nil {
		return e, r.err
	}
	count := params
	if attributes && flags&counted != 0 {
		if count = int(r.lenenc()); r.err != nil || count < params || count > 1<<16 {
			return e, fmt.Errorf("%d parameters of a statement that has %d", count, params)
		}
	}
	if count == 0 {
		return e, nil
	}
	nulls := r.take((count + 7) / 8)
	bound := r.take(1)[0]
	if r.err != nil {
		return e, r.err
	}
	all := make([]Value, count)
	if bound == 1 {
		for i := range all {
			t := r.take(2)
			all[i].Type, all[i].Unsigned = t[0], t[1]&0x80 != 0
			if attributes {
				r.bytes()
			}
		}
		e.types = append([]Value(nil), all[:params]...)
	} else {
		if len(types) < params || count > params {
			return e, errors.New("the parameters' types are not known")
		}
		copy(all, types)
	}
	for i := range params {
		v := &all[i]
		switch {
		case long(i):
			v.Long = true
		case nulls[i/8]&(1<<(i%8)) != 0 || v.Type == mysql.MYSQL_TYPE_NULL:
			v.Null = true
		default:
			r.value(v)
		}
		if r.err != nil {
			return e, r.err
		}
	}
	e.values = all[:params]
	return e, nil
}

// Flags of MariaDB's COM_STMT_BULK_EXECUTE.
const bulkTypes = 128

// parseBulk reads the payload of a COM_STMT_BULK_EXECUTE.
func parseBulk(p []byte, params int, types []Value) (e executed, flags uint16, err error) {
	r := parameters{p: p}
	r.take(1)
	e = executed{statement: binary.LittleEndian.Uint32(r.take(4)), types: types}
	flags = binary.LittleEndian.Uint16(r.take(2))
	if r.err != nil || params == 0 {
		return e, flags, errShort
	}
	if flags&bulkTypes != 0 {
		e.types = make([]Value, params)
		for i := range e.types {
			t := r.take(2)
			e.types[i].Type, e.types[i].Unsigned = t[0], t[1]&0x80 != 0
		}
	}
	if len(e.types) < params {
		return e, flags, errors.New("the parameters' types are not known")
	}
	for len(r.p) > 0 && r.err == nil {
		for i := range params {
			v := e.types[i]
			if v.Indicator = r.take(1)[0]; v.Indicator == 0 && r.err == nil {
				r.value(&v)
			}
			e.values = append(e.values, v)
		}
	}
	return e, flags, r.err
}

// AppendData appends the data of a value as the protocol has it.
func (v *Value) AppendData(dst []byte) ([]byte, error) {
	switch {
	case v.isFloat():
		f, err := strconv.ParseFloat(string(v.Data), 64)
		if err != nil {
			return dst, fmt.Errorf("parameter %q: %w", v.Data, err)
		}
		if v.Type == mysql.MYSQL_TYPE_FLOAT {
			return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(f))), nil
		}
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f)), nil
	case v.isInteger():
		var n uint64
		var err error
		if v.Unsigned {
			n, err = strconv.ParseUint(string(v.Data), 10, 64)
		} else {
			var i int64
			i, err = strconv.ParseInt(string(v.Data), 10, 64)
			n = uint64(i)
		}
		if err != nil {
			return dst, fmt.Errorf("parameter %q: %w", v.Data, err)
		}
		var full [8]byte
		binary.LittleEndian.PutUint64(full[:], n)
		return append(dst, full[:width(v.Type)]...), nil
	case v.isTemporal():
		raw, err := hex.DecodeString(string(v.Data))
		if err != nil || len(raw) > 250 {
			return dst, fmt.Errorf("parameter %q is no date or time", v.Data)
		}
		return append(append(dst, byte(len(raw))), raw...), nil
	}
	return append(appendLenenc(dst, uint64(len(v.Data))), v.Data...), nil
}

func appendLenenc(p []byte, n uint64) []byte {
	switch {
	case n < 0xfb:
		return append(p, byte(n))
	case n < 1<<16:
		return append(p, 0xfc, byte(n), byte(n>>8))
	case n < 1<<24:
		return append(p, 0xfd, byte(n), byte(n>>8), byte(n>>16))
	}
	return binary.LittleEndian.AppendUint64(append(p, 0xfe), n)
}

// AppendExecute appends the payload of a COM_STMT_EXECUTE of a statement of this id with a record's values. attributes says
// whether CLIENT_QUERY_ATTRIBUTES is negotiated.
func (rec *Record) AppendExecute(dst []byte, id uint32, attributes bool) ([]byte, error) {
	const counted = 8
	flags := rec.Cursor
	if attributes && len(rec.Values) > 0 {
		flags |= counted
	}
	dst = binary.LittleEndian.AppendUint32(append(dst, mysql.COM_STMT_EXECUTE), id)
	dst = append(dst, flags, 1, 0, 0, 0)
	if len(rec.Values) == 0 {
		return dst, nil
	}
	if attributes {
		dst = appendLenenc(dst, uint64(len(rec.Values)))
	}
	nulls := make([]byte, (len(rec.Values)+7)/8)
	var types, data []byte
	for i := range rec.Values {
		v := &rec.Values[i]
		types = appendType(types, v)
		if attributes {
			types = append(types, 0) // no name
		}
		switch {
		case v.Null:
			nulls[i/8] |= 1 << (i % 8)
		case !v.Long:
			var err error
			if data, err = v.AppendData(data); err != nil {
				return dst, err
			}
		}
	}
	dst = append(append(dst, nulls...), 1)
	return append(append(dst, types...), data...), nil
}

func appendType(dst []byte, v *Value) []byte {
	unsigned := byte(0)
	if v.Unsigned {
		unsigned = 0x80
	}
	return append(dst, v.Type, unsigned)
}

// AppendBulk appends the payload of a COM_STMT_BULK_EXECUTE.
func (rec *Record) AppendBulk(dst []byte, id uint32) ([]byte, error) {
	if rec.Columns <= 0 || len(rec.Values) < rec.Columns || len(rec.Values)%rec.Columns != 0 {
		return dst, fmt.Errorf("%d values in rows of %d", len(rec.Values), rec.Columns)
	}
	dst = binary.LittleEndian.AppendUint32(append(dst, 0xfa), id)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(rec.Number)|bulkTypes)
	for i := range rec.Columns {
		dst = appendType(dst, &rec.Values[i])
	}
	for i := range rec.Values {
		v := &rec.Values[i]
		if dst = append(dst, v.Indicator); v.Indicator == 0 {
			var err error
			if dst, err = v.AppendData(dst); err != nil {
				return dst, err
			}
		}
	}
	return dst, nil
}
