package record

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// maxShape bounds a shape, in bytes.
const maxShape = 300

// Shape is a statement's text without comments, with single blanks and with ? for each literal and each list of them, cut after
// 300 bytes: what statements that differ in their values alone have in common.
func Shape(s []byte, l Lexical) string {
	var b []byte
	end := -1       // of the last token
	inList := false // the last thing was ? or a ? and a comma
	for _, t := range tokens(s, l) {
		piece := s[t.start:t.end]
		switch t.kind {
		case comment:
			continue
		case text, number, literal:
			if inList && len(b) > 0 && b[len(b)-1] == ',' {
				b = b[:len(b)-1]
				end = t.end
				continue
			}
			piece, inList = []byte("?"), true
		default:
			if inList && !(len(piece) == 1 && piece[0] == ',') {
				inList = false
			}
		}
		if end >= 0 && end < t.start && !(piece[0] == ',' || piece[0] == ')' || b[len(b)-1] == '(') {
			b = append(b, ' ')
		}
		b = append(b, piece...)
		end = t.end
		if len(b) > maxShape+8 {
			break
		}
	}
	// The rows of an INSERT are one.
	for bytes.Contains(b, []byte("(?),(?)")) || bytes.Contains(b, []byte("(?), (?)")) {
		b = bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("(?), (?)"), []byte("(?)")), []byte("(?),(?)"), []byte("(?)"))
	}
	if len(b) > maxShape {
		b = b[:maxShape]
		for len(b) > 0 && !utf8.Valid(b) && len(b) > maxShape-4 {
			b = b[:len(b)-1]
		}
		b = append(b, "…"...)
	}
	return strings.ToValidUTF8(strings.TrimRight(string(b), "; "), "�")
}
