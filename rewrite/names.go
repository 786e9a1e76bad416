package rewrite

import (
	"bytes"
	"strconv"
	"strings"
)

// Mentions tells whether text could refer to a table called name, an ASCII
// identifier: whether its bytes occur, in upper or lower case, at the boundaries of
// an identifier, be it in a quoting or in a comment. It knows of no lexer, so that no
// sql_mode, executable comment or client character set can deceive it, and it does
// not allocate.
//
// Two places are no reference: right after AS, where the name is an alias, and right
// before a dot, where it qualifies a column of a table that is named elsewhere in the
// text, or is a schema. A name put together from pieces, as in the text of a PREPARE
// with backslashes, is not seen: such a PREPARE is Doubtful.
func Mentions(text []byte, name string) bool {
	if name == "" {
		return true
	}
	for i := indexFold(text, name, 0); i >= 0; i = indexFold(text, name, i+1) {
		if isBounded(text, i, i+len(name)) && !isExcepted(text, i, i+len(name)) {
			return true
		}
	}
	// With lower_case_table_names the server takes these for k and i.
	return strings.ContainsAny(name, "kK") && bytes.Contains(text, kelvinSign) ||
		strings.ContainsAny(name, "iI") && bytes.Contains(text, dottedI)
}

var (
	kelvinSign = []byte("\u212a")
	dottedI    = []byte("\u0130")
)

// isBounded tells whether text[i:j] is no part of a longer identifier. Bytes beyond
// ASCII do not count as a part of one: in some character sets they are blanks. The n
// of \n in a string is none either.
func isBounded(text []byte, i, j int) bool {
	if j < len(text) && isPlain(text[j]) {
		return false
	}
	return i == 0 || !isPlain(text[i-1]) || i > 1 && text[i-2] == '\\'
}

// isExcepted tells whether the name at text[i:j] stands where no table is referred
// to.
func isExcepted(text []byte, i, j int) bool {
	if i > 0 && j < len(text) && text[i-1] == text[j] && (text[j] == '`' || text[j] == '"') {
		i--
		j++
	}
	if j < len(text) && text[j] == '.' {
		before := lastByte(text[:i])
		return before != '.' && before != '/' && !isSequenceCall(text[j+1:])
	}
	// Only blanks within the line: a line comment may end in the word AS.
	k := i
	for k > 0 && (text[k-1] == ' ' || text[k-1] == '\t') {
		k--
	}
	if k < 2 || k == i && isPlain(text[i]) || !equalFold(text[k-2:k], "AS") {
		return false
	}
	if k > 2 && (isIdent(text[k-3]) || text[k-3] == '.' || text[k-3] == '@') {
		return false
	}
	// ALTER TABLE x RENAME AS name; MariaDB's {identifier name}.
	return indexFold(text, "rename", 0) < 0 && bytes.IndexByte(text[:i], '{') < 0
}

// lastByte returns the last byte of text that is no blank, or 0.
func lastByte(text []byte) byte {
	for i := len(text) - 1; i >= 0; i-- {
		if !isBlank(text[i]) {
			return text[i]
		}
	}
	return 0
}

// isSequenceCall tells whether text, what follows "name.", reads the sequence of that
// name, as MariaDB does in sql_mode ORACLE.
func isSequenceCall(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n\v\f`\"")
	n := len("nextval")
	return len(text) >= n && (equalFold(text[:n], "NEXTVAL") || equalFold(text[:n], "CURRVAL"))
}

// indexFold returns the index of the first occurrence of w in text[from:], by ASCII
// letters of either case, or -1.
func indexFold(text []byte, w string, from int) int {
	lo, up := lower(w[0]), upper(w[0])
	last := len(text) - len(w)
	nextLo, nextUp := -1, -1
	for i := from; i <= last; i++ {
		if nextLo < i {
			nextLo = indexByteFrom(text, lo, i)
		}
		if lo == up {
			nextUp = nextLo
		} else if nextUp < i {
			nextUp = indexByteFrom(text, up, i)
		}
		if i = min(nextLo, nextUp); i > last {
			break
		}
		if hasPrefixFold(text[i:], w) {
			return i
		}
	}
	return -1
}

// indexByteFrom returns the index of c in text from i on, or len(text).
func indexByteFrom(text []byte, c byte, i int) int {
	if n := bytes.IndexByte(text[i:], c); n >= 0 {
		return i + n
	}
	return len(text)
}

func hasPrefixFold(text []byte, w string) bool {
	if len(text) < len(w) {
		return false
	}
	for i := range len(w) {
		if lower(text[i]) != lower(w[i]) {
			return false
		}
	}
	return true
}

func containsFold(text []byte, w string) bool { return indexFold(text, w, 0) >= 0 }

// ReadsDiagnostics tells whether text could read what the last statement left:
// ROW_COUNT(), the warning and error counts, SHOW WARNINGS and SHOW ERRORS, GET
// DIAGNOSTICS, or a list of variables, which has the counts in it. (FOUND_ROWS() and
// LAST_INSERT_ID() outlive the statements that the proxy leaves out.) It does not
// allocate.
func ReadsDiagnostics(text []byte) bool {
	return containsFold(text, "row_count") ||
		containsFold(text, "warning_count") || containsFold(text, "error_count") ||
		containsFold(text, "diagnostics") || containsFold(text, "variables") ||
		containsFold(text, "show") && (containsFold(text, "warnings") || containsFold(text, "errors"))
}

// ReadsTables tells whether text could list tables: from information_schema, whether
// that is named or the current schema, or with SHOW TABLES or SHOW TABLE STATUS. It
// does not allocate.
func ReadsTables(text []byte) bool {
	return containsFold(text, "information_schema") || Mentions(text, "tables") ||
		containsFold(text, "show") && containsFold(text, "status")
}

// CallsFunction tells whether text could call a function that is not built in: whether
// an identifier stands before a parenthesis where it is neither known to be native
// nor a name that has a list behind it, as in INSERT INTO t (..). It does not
// allocate.
func CallsFunction(text []byte, mode Mode) bool {
	if !mayCall(text, mode) {
		return false
	}
	s := newScanner(text, mode)
	if s.calls() {
		return true
	}
	if s.executable {
		s = newScanner(text, mode)
		s.skipExec = true
		return s.calls()
	}
	return false
}

// mayCall is CallsFunction without lexing. It takes words in strings and comments for
// calls, but no call for something else: what it clears is plainly a native word right
// before the parenthesis, on the same line, so that no comment can hide anything
// between.
func mayCall(text []byte, mode Mode) bool {
	lineComments := -1 // not looked for
	for at := 0; ; at++ {
		n := bytes.IndexByte(text[at:], '(')
		if n < 0 {
			return false
		}
		at += n
		end := at
		for end > 0 && isBlank(text[end-1]) {
			if end--; text[end] == '\n' {
				return true
			}
		}
		if end == 0 {
			continue
		}
		switch c := text[end-1]; {
		case c == '`' || c == '"' || c == '/' || c == 0:
			return true
		case !isIdent(c):
			continue
		}
		start := end
		for start > 0 && isIdent(text[start-1]) {
			start--
		}
		if isDigit(text[start]) || !isNative(text[start:end], mode, end == at) {
			return true
		}
		for start > 0 && isBlank(text[start-1]) {
			if start--; text[start] == '\n' && lineComments < 0 {
				if bytes.IndexByte(text, '#') >= 0 || bytes.Contains(text, lineComment) {
					return true
				}
				lineComments = 0
			}
		}
		if start > 0 && (text[start-1] == '.' || text[start-1] == '/') {
			return true
		}
	}
}

var lineComment = []byte("--")

// calls reads the whole text.
func (s *scanner) calls() bool {
	var before, name token // the token before the name, qualified or not, and its last part
	qualified := false
	for {
		last := s.last
		t := s.next()
		switch {
		case t.kind == kindEnd:
			return s.doubtful || s.ambiguous
		case t.kind == kindWord || t.kind == kindQuoted || t.kind == kindDouble:
			if qualified = last.is('.'); !qualified {
				before = last
			}
			name = t
		case t.is('.'):
		case t.is('(') && last == name && name.end > 0:
			native := name.kind == kindWord && !qualified && isNative(s.bytes(name), s.mode, name.end == t.start)
			text := name.kind == kindDouble && s.mode&(MariaDB|ANSIQuotes) == MariaDB
			if !native && !text && !s.announcesList(before) {
				return true
			}
		}
	}
}

// announcesList tells whether the word t is followed by a name that may have a list
// of columns behind it, but by no expression.
func (s *scanner) announcesList(t token) bool {
	if t.kind != kindWord {
		return false
	}
	for _, w := range [...]string{"INTO", "TABLE", "EXISTS", "REFERENCES", "USING", "KEY", "INDEX", "AS", "WITH", "RECURSIVE", "INSERT", "REPLACE", "IGNORE"} {
		if s.word(t, w) {
			return true
		}
	}
	return false
}

// OpaqueCharset tells whether texts of the client character set name cannot be read
// byte by byte, because a character's second byte may be a backslash or a quote, or
// because the character set is not known to be one where this does not happen. Quotes
// around the name, letter case and a COLLATE behind it do not matter; a number is a
// collation id.
func OpaqueCharset(name string) bool {
	name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
	name = strings.ToLower(strings.Trim(name, "'\"`"))
	if id, err := strconv.ParseUint(name, 10, 16); err == nil {
		return OpaqueCollation(uint16(id))
	}
	switch name {
	case "utf8mb4", "utf8mb3", "utf8", "ascii", "binary",
		"latin1", "latin2", "latin5", "latin7", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866",
		"koi8r", "koi8u", "greek", "hebrew", "armscii8", "geostd8", "keybcs2", "macce", "macroman", "dec8", "hp8", "tis620",
		"ujis", "eucjpms", "euckr", "gb2312":
		return false
	}
	return true
}

// OpaqueCollation is OpaqueCharset for the character set of a collation id, as the
// client's login packet bears it.
func OpaqueCollation(id uint16) bool {
	if id >= 1024 && id < 2048 {
		id -= 1024 // MariaDB's NO PAD collations
	}
	switch id {
	case 0,
		1, 84, // big5
		10, 82, // swe7
		13, 88, // sjis
		28, 87, // gbk
		95, 96, // cp932
		248, 249, 250, // gb18030
		35, 54, 55, 56, 60, 61, 62, 90, 159: // ucs2, utf16, utf16le, utf32
		return true
	}
	return id >= 101 && id <= 124 || id >= 128 && id <= 151 || id >= 160 && id <= 183
}
