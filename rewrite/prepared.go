package rewrite

import (
	"bytes"
	"strings"
)

// ParsePrepare reads PREPARE name FROM 'text', of one literal without escapes. The name is in lower case, as the servers
// compare it. It answers false for everything else. The text may be part of the statement's.
func ParsePrepare(text []byte, mode Mode) (name string, inner []byte, ok bool) {
	r := reader{scanner: newScanner(text, mode)}
	r.advance()
	if !r.accept("PREPARE") {
		return "", nil, false
	}
	if name, ok = r.statementName(); !ok || !r.accept("FROM") || r.tok.kind != kindString && r.tok.kind != kindDouble {
		return "", nil, false
	}
	literal := r.bytes(r.tok)
	if len(literal) < 2 || literal[len(literal)-1] != literal[0] {
		return "", nil, false
	}
	quote := literal[:1]
	inner = literal[1 : len(literal)-1]
	if r.advance(); !r.finished() || bytes.IndexByte(inner, '\\') >= 0 {
		return "", nil, false
	}
	if bytes.Contains(inner, quote) {
		inner = bytes.ReplaceAll(inner, []byte{quote[0], quote[0]}, quote)
	}
	return name, inner, true
}

// ParseExecute reads EXECUTE name [USING ..]; parameters tells whether there is USING. MariaDB's EXECUTE IMMEDIATE is not
// read.
func ParseExecute(text []byte, mode Mode) (name string, parameters, ok bool) {
	r := reader{scanner: newScanner(text, mode)}
	r.advance()
	if !r.accept("EXECUTE") {
		return "", false, false
	}
	if name, ok = r.statementName(); !ok {
		return "", false, false
	}
	if r.on("USING") {
		parameters = true
		r.passStatement()
	}
	return name, parameters, r.finished()
}

// ParseDeallocate reads DEALLOCATE PREPARE name and DROP PREPARE name.
func ParseDeallocate(text []byte, mode Mode) (name string, ok bool) {
	r := reader{scanner: newScanner(text, mode)}
	r.advance()
	if !r.accept("DEALLOCATE") && !r.accept("DROP") || !r.accept("PREPARE") {
		return "", false
	}
	name, ok = r.statementName()
	return name, ok && r.finished()
}

// statementName passes the name of a prepared statement.
func (r *reader) statementName() (string, bool) {
	b, ok := r.plainIdentifier()
	return strings.ToLower(string(b)), ok
}
