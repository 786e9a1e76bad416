package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// First bytes of payloads from the server.
const (
	headerOK     = 0x00
	headerInfile = 0xfb // LOCAL INFILE as the first payload of a reply; in a row it is NULL
	headerEOF    = 0xfe
	headerErr    = 0xff
)

// OK is an OK packet, also in the form that ends a result set under CLIENT_DEPRECATE_EOF.
type OK struct {
	Affected, InsertID uint64
	Status, Warnings   uint16
	Info               []byte // human-readable, such as "Records: 1  Duplicates: 0  Warnings: 0"
	State              []byte // session state entries, as they are on the wire
}

// ParseOK reads the payload of an OK packet, whose first byte is 0x00 or 0xFE. Info and State are parts of payload.
func ParseOK(payload []byte, caps Capability) (OK, error) {
	v := view{b: payload}
	if h := v.uint8(); v.short || h != headerOK && h != headerEOF {
		return OK{}, fmt.Errorf("parse OK: %w", errNotOK)
	}
	var ok OK
	ok.Affected = v.lenenc()
	ok.InsertID = v.lenenc()
	if caps.Has(ClientProtocol41) {
		ok.Status = v.uint16()
		ok.Warnings = v.uint16()
	} else if caps.Has(ClientTransactions) {
		ok.Status = v.uint16()
	}
	if v.short {
		return OK{}, fmt.Errorf("parse OK: %w", errShort)
	}
	// The manual has an info without CLIENT_SESSION_TRACK run to the packet's end, but servers always write its length.
	if len(v.b) > 0 {
		ok.Info = v.lenencString()
	}
	if caps.Has(ClientSessionTrack) && ok.Status&StatusSessionStateChanged != 0 && len(v.b) > 0 {
		ok.State = v.lenencString()
	}
	if v.short {
		return OK{}, fmt.Errorf("parse OK: %w", errShort)
	}
	return ok, nil
}

// ParseEOF reads the payload of an EOF packet, or of the OK packet that stands for it under CLIENT_DEPRECATE_EOF.
func ParseEOF(payload []byte, caps Capability) (status, warnings uint16, err error) {
	v := view{b: payload}
	if v.uint8() != headerEOF {
		return 0, 0, fmt.Errorf("parse EOF: %w", errNotEOF)
	}
	if caps.Has(ClientDeprecateEOF) && len(payload) >= 7 {
		ok, err := ParseOK(payload, caps)
		if err != nil {
			return 0, 0, fmt.Errorf("parse EOF: %w", err)
		}
		return ok.Status, ok.Warnings, nil
	}
	if caps.Has(ClientProtocol41) {
		warnings = v.uint16()
		status = v.uint16()
	}
	if v.short {
		return 0, 0, fmt.Errorf("parse EOF: %w", errShort)
	}
	return status, warnings, nil
}

// Err is an ERR packet.
type Err struct {
	Code    uint16
	State   string // SQLSTATE, five characters; empty if the packet had none
	Message string
}

// Error formats the error as MySQL's clients print it.
func (e *Err) Error() string {
	if e.State == "" {
		return fmt.Sprintf("ERROR %d: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("ERROR %d (%s): %s", e.Code, e.State, e.Message)
}

// ParseErr reads the payload of an ERR packet, with or without SQLSTATE.
func ParseErr(payload []byte) (*Err, error) {
	v := view{b: payload}
	if v.uint8() != headerErr {
		return nil, fmt.Errorf("parse ERR: %w", errNotErr)
	}
	e := &Err{Code: v.uint16()}
	if v.short {
		return nil, fmt.Errorf("parse ERR: %w", errShort)
	}
	if len(v.b) >= 6 && v.b[0] == '#' {
		e.State = string(v.b[1:6])
		v.b = v.b[6:]
	}
	e.Message = string(v.b)
	return e, nil
}

// shortOK is enough for the payload of nearly every OK, but for its texts.
const shortOK = 16

// AppendOK appends a whole OK packet with its header, in the form the capabilities ask for. State is written only under
// CLIENT_SESSION_TRACK and with StatusSessionStateChanged in Status.
func AppendOK(dst []byte, seq byte, caps Capability, ok OK) []byte {
	start := len(dst)
	dst = slices.Grow(dst, HeaderSize+shortOK+len(ok.Info)+len(ok.State))
	dst = append(dst, 0, 0, 0, seq, headerOK)
	dst = appendLenenc(dst, ok.Affected)
	dst = appendLenenc(dst, ok.InsertID)
	if caps.Has(ClientProtocol41) {
		dst = binary.LittleEndian.AppendUint16(dst, ok.Status)
		dst = binary.LittleEndian.AppendUint16(dst, ok.Warnings)
	} else if caps.Has(ClientTransactions) {
		dst = binary.LittleEndian.AppendUint16(dst, ok.Status)
	}
	state := caps.Has(ClientSessionTrack) && ok.Status&StatusSessionStateChanged != 0
	if len(ok.Info) > 0 || state {
		dst = append(appendLenenc(dst, uint64(len(ok.Info))), ok.Info...)
	}
	if state {
		dst = append(appendLenenc(dst, uint64(len(ok.State))), ok.State...)
	}
	PutHeader(dst[start:], len(dst)-start-HeaderSize, seq)
	return dst
}

// AppendErr appends a whole ERR packet with its header. Without CLIENT_PROTOCOL_41, so also in place of a greeting,
// where capabilities are not yet known, it carries no SQLSTATE; an empty State is written as HY000.
func AppendErr(dst []byte, seq byte, caps Capability, e Err) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, seq, headerErr, byte(e.Code), byte(e.Code>>8))
	if caps.Has(ClientProtocol41) {
		state := e.State
		if len(state) != 5 {
			state = "HY000"
		}
		dst = append(append(dst, '#'), state...)
	}
	dst = append(dst, e.Message...)
	PutHeader(dst[start:], len(dst)-start-HeaderSize, seq)
	return dst
}

// SetStatus sets bits of the status flags of an OK or EOF packet's payload, in place. It does nothing to a payload that has
// no flags.
func SetStatus(payload []byte, caps Capability, bits uint16) {
	v := view{b: payload}
	if header := v.uint8(); header == headerEOF && len(payload) < 7 {
		v.uint16() // warnings come first
	} else {
		v.lenenc()
		v.lenenc()
	}
	if flags := v.take(2); flags != nil && caps.Has(ClientProtocol41) {
		flags[0] |= byte(bits)
		flags[1] |= byte(bits >> 8)
	}
}
