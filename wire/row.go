package wire

import "bytes"

// ShowCreate returns the statement in a reply to SHOW CREATE TABLE: the second of the two columns of its only row, whichever
// form the capabilities give the result set (with or without definitions of the columns, which have more than two parts, and
// EOF packets). reply is all packets of a text result set, of less than 16 MiB. It returns nil for any other reply; the result
// points into reply.
func ShowCreate(reply []byte) []byte {
	for len(reply) >= HeaderSize {
		length, _ := Header(reply)
		if len(reply) < HeaderSize+length {
			return nil
		}
		v := view{b: reply[HeaderSize : HeaderSize+length]}
		v.lenencString()
		if text := v.lenencString(); !v.short && len(v.b) == 0 && bytes.HasPrefix(text, []byte("CREATE ")) {
			return text
		}
		reply = reply[HeaderSize+length:]
	}
	return nil
}
