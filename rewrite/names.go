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
	checked := false // that AS makes an alias
	f := newFinder(text, name)
	for i := f.find(0); i >= 0; i = f.find(i + 1) {
		j := i + len(name)
		if !isBounded(text, i, j) || isQualifier(text, i, j) {
			continue
		}
		if !isAlias(text, i, j) {
			return true
		}
		if !checked && !hasAliases(text) {
			return true
		}
		checked = true
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

// withQuotes extends text[i:j] by a pair of quotes around it.
func withQuotes(text []byte, i, j int) (int, int) {
	if i > 0 && j < len(text) && text[i-1] == text[j] && (text[j] == '`' || text[j] == '"') {
		return i - 1, j + 1
	}
	return i, j
}

// isQualifier tells whether the name at text[i:j] stands right before a dot and
// qualifies what is behind it.
func isQualifier(text []byte, i, j int) bool {
	i, j = withQuotes(text, i, j)
	if j == len(text) || text[j] != '.' {
		return false
	}
	before := bytes.TrimRight(text[:i], blanks)
	return !hasSuffixFold(before, ".") && !hasSuffixFold(before, "*/") &&
		!hasSuffixFold(before, "of") && !readsTable(text[j+1:])
}

const blanks = " \t\n\v\f\r"

// isAlias tells whether the name at text[i:j] stands right behind the word AS, on the
// same line: a line comment may end in that word.
func isAlias(text []byte, i, j int) bool {
	i, _ = withQuotes(text, i, j)
	k := i
	for k > 0 && (text[k-1] == ' ' || text[k-1] == '\t') {
		k--
	}
	if k < 2 || k == i && isPlain(text[i]) || !equalFold(text[k-2:k], "AS") {
		return false
	}
	return k == 2 || !isIdent(text[k-3]) && text[k-3] != '.' && text[k-3] != '@'
}

// hasAliases tells whether a name behind AS is an alias in text: it is none in ALTER
// TABLE x RENAME AS name, nor in MariaDB's {identifier name} with an identifier that
// ends in AS.
func hasAliases(text []byte) bool {
	return !containsFold(text, "rename") && bytes.IndexByte(text, '{') < 0
}

// readsTable tells whether text, what follows "name.", makes that name a table of its
// own: a sequence read in MariaDB's sql_mode ORACLE, or the type of a column (which
// may also be written TYPE OF name.column).
func readsTable(text []byte) bool {
	text = bytes.TrimLeft(text, blanks+"`\"")
	if hasPrefixFold(text, "nextval") || hasPrefixFold(text, "currval") {
		return true
	}
	for len(text) > 0 && isIdent(text[0]) {
		text = text[1:]
	}
	text = bytes.TrimLeft(text, blanks+"`\"")
	if len(text) == 0 || text[0] != '%' {
		return false
	}
	text = bytes.TrimLeft(text[1:], blanks)
	return hasPrefixFold(text, "type") || hasPrefixFold(text, "rowtype")
}

func hasSuffixFold(text []byte, w string) bool {
	return len(text) >= len(w) && hasPrefixFold(text[len(text)-len(w):], w)
}

// finder finds a word in a text by ASCII letters of either case, in a time that grows
// with the text and not with the number of places. It looks for the letter of the word
// that is likely to be the rarest.
type finder struct {
	text           []byte
	word           string
	pivot          int // which letter that is
	nextLo, nextUp int // where it is next in lower and in upper case
}

// letters are what identifiers are made of, in lower case, the more frequent ones in
// statements and their data behind the others.
const letters = "$zqjx_kvbwygpfmhucdlrnoistae9876543210"

// frequency has the letters' places in that order; everything else is rare.
var frequency = func() (f [256]uint8) {
	for i, c := range []byte(letters) {
		f[c], f[upper(c)] = uint8(i+1), uint8(i+1)
	}
	return f
}()

func newFinder(text []byte, word string) finder {
	f := finder{text: text, word: word, nextLo: -1, nextUp: -1}
	for i := range len(word) {
		if frequency[word[i]] < frequency[word[f.pivot]] {
			f.pivot = i
		}
	}
	return f
}

// find returns the index of the first occurrence at from or behind it, or -1. From
// must not be less than at the call before.
func (f *finder) find(from int) int {
	lo, up := lower(f.word[f.pivot]), upper(f.word[f.pivot])
	last := len(f.text) - len(f.word)
	for i := from; i <= last; i++ {
		at := i + f.pivot
		if f.nextLo < at {
			f.nextLo = indexByteFrom(f.text, lo, at)
		}
		if lo == up {
			f.nextUp = f.nextLo
		} else if f.nextUp < at {
			f.nextUp = indexByteFrom(f.text, up, at)
		}
		i = min(f.nextLo, f.nextUp) - f.pivot
		if i <= last && hasPrefixFold(f.text[i:], f.word) {
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

func containsFold(text []byte, w string) bool {
	f := newFinder(text, w)
	return f.find(0) >= 0
}

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
	r := reader{scanner: newScanner(text, mode)}
	if r.definesTable() {
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

// definesTable tells whether the text is a CREATE TEMPORARY TABLE that reads nothing.
// Servers refuse stored functions in DEFAULT, CHECK, generated columns and keys, which
// hold many words before a parenthesis: UNIQUE name (..), VECTOR(3), name(10).
func (r *reader) definesTable() bool {
	r.advance()
	if !r.accept("CREATE") || r.accept("OR") && !r.accept("REPLACE") || !r.accept("TEMPORARY") || !r.accept("TABLE") {
		return false
	}
	for ; !r.ended(); r.advance() {
		if r.on("SELECT") || r.on("TABLE") || r.on("VALUES") {
			return false
		}
	}
	return r.finished()
}

// mayCall is CallsFunction without lexing. It takes words in strings and comments for
// calls, but no call for something else: what it clears is plainly a native word right
// before the parenthesis, on the same line, so that no comment can hide anything
// between.
func mayCall(text []byte, mode Mode) bool {
	checked := false // that there are no line comments
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
		case c == '`' || c == '"' || c == ']' || c == '/' || c == 0:
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
			if start--; text[start] == '\n' && !checked {
				if bytes.IndexByte(text, '#') >= 0 || bytes.Contains(text, lineComment) {
					return true
				}
				checked = true
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
