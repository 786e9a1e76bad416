package rewrite

import "bytes"

// kind is the kind of a token.
type kind uint8

const (
	kindEnd    kind = iota // the end of the text
	kindWord               // a keyword or an unquoted identifier
	kindQuoted             // `..`
	kindDouble             // "..": a string, or an identifier under ANSI_QUOTES
	kindString             // '..'
	kindNumber             // a number, not signed
	kindPunct              // any other byte
)

// token is a piece of a text. Quotes belong to it.
type token struct {
	kind       kind
	punct      byte // of kindPunct
	start, end int
}

// is tells whether t is the single byte c.
func (t token) is(c byte) bool { return t.kind == kindPunct && t.punct == c }

// scanner cuts a text into tokens as the servers do, reading the content of
// executable comments as if it were text.
type scanner struct {
	text     []byte
	mode     Mode
	skipExec bool // take executable comments for plain ones
	pos      int
	execEnd  int // where the executable comment that pos is in ends, -1 outside of one
	last     token

	comments   int  // comments passed, executable ones included
	hint       bool // one of them was our hint
	executable bool // one of them was executable
	ambiguous  bool // the end of a "..." depends on ANSI_QUOTES, which is not known
	doubtful   bool // servers may read this differently
	foreign    bool // a byte beyond ASCII, or a control character, outside of quotes
}

func newScanner(text []byte, mode Mode) scanner {
	return scanner{text: text, mode: mode, execEnd: -1}
}

// hintText is the content of a comment that leaves a CREATE alone.
const hintText = "tmpproxy:native"

func isBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// isPlain tells whether c can stand in an identifier whatever the character set.
func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c == '_' || c == '$'
}

// isIdent tells whether c can stand in an identifier.
func isIdent(c byte) bool { return isPlain(c) || c >= 0x80 }

// at returns the byte at i, or 0 beyond the end.
func (s *scanner) at(i int) byte {
	if i < len(s.text) {
		return s.text[i]
	}
	return 0
}

// next returns the next token. It returns kindEnd for ever once the end is reached.
func (s *scanner) next() token {
	s.skip()
	t := token{start: s.pos, end: s.pos}
	if s.pos < len(s.text) {
		t.kind = s.scan()
		t.end = s.pos
		if t.kind == kindPunct {
			t.punct = s.text[t.start]
		}
	}
	s.checkExec()
	s.last = t
	return t
}

// checkExec notes when something that began in an executable comment reaches beyond
// the place where a server that skips the comment sees its end.
func (s *scanner) checkExec() {
	if s.execEnd >= 0 && (s.pos > s.execEnd || s.pos == len(s.text)) {
		s.doubtful = true
		s.execEnd = -1
	}
}

// skip passes blanks and comments.
func (s *scanner) skip() {
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case isBlank(c):
			s.pos++
		case c == '#':
			s.skipLine()
		case c == '-' && s.at(s.pos+1) == '-' && (s.pos+2 >= len(s.text) || s.text[s.pos+2] <= ' ' || s.text[s.pos+2] == 0x7f):
			s.skipLine()
		case c == '/' && s.at(s.pos+1) == '*':
			s.skipComment()
		case c == '*' && s.pos == s.execEnd:
			s.pos += 2
			s.execEnd = -1
		default:
			return
		}
	}
}

func (s *scanner) skipLine() {
	s.comments++
	if n := bytes.IndexByte(s.text[s.pos:], '\n'); n >= 0 {
		s.pos += n + 1
	} else {
		s.pos = len(s.text)
	}
	s.checkExec()
}

func (s *scanner) skipComment() {
	s.comments++
	body := s.text[s.pos+2:]
	if s.execEnd >= 0 && isExecutable(body) {
		s.doubtful = true // servers differ on one executable comment in another
		s.pos += 2
		return
	}
	n := bytes.Index(body, commentEnd)
	if n < 0 {
		s.doubtful = true
		s.pos = len(s.text)
		return
	}
	end := s.pos + 2 + n
	if !isExecutable(body) {
		if string(bytes.TrimSpace(body[:n])) == hintText {
			s.hint = true
		}
		s.pos = end + 2
		s.checkExec()
		return
	}
	s.executable = true
	if bytes.Contains(body[:n], commentStart) {
		s.doubtful = true // a server that skips the comment may look for the end of the inner one
	}
	if s.skipExec {
		s.pos = end + 2
		return
	}
	s.execEnd = end
	s.pos += 3
	if body[0] != '!' {
		s.pos++
	}
	for digits := 0; digits < 6 && isDigit(s.at(s.pos)); digits++ {
		s.pos++
	}
}

var (
	commentStart = []byte("/*")
	commentEnd   = []byte("*/")
)

// isExecutable tells whether body, what follows "/*", makes the comment executable
// on any server.
func isExecutable(body []byte) bool {
	return len(body) > 0 && body[0] == '!' ||
		len(body) > 1 && (body[0] == 'M' || body[0] == 'm') && body[1] == '!'
}

// hasExecutable tells whether text could hold an executable comment.
func hasExecutable(text []byte) bool {
	for {
		n := bytes.Index(text, commentStart)
		if n < 0 {
			return false
		}
		text = text[n+2:]
		if isExecutable(text) {
			return true
		}
	}
}

// scan passes the token at pos and returns its kind.
func (s *scanner) scan() kind {
	start := s.pos
	c := s.text[start]
	afterDot := s.last.is('.') && s.last.end == start
	switch {
	case c == '\'':
		s.pos = s.quoteEnd(start, c, s.mode&NoBackslashEscapes == 0)
		return kindString
	case c == '`':
		s.pos = s.quoteEnd(start, c, false)
		return kindQuoted
	case c == '"':
		s.scanDouble(start)
		return kindDouble
	case isDigit(c) && !afterDot:
		return s.scanNumber()
	case isIdent(c):
		s.passWord()
		// From MySQL 8.0.34 on $$ and $tag$ quote.
		if c == '$' && s.mode&MariaDB == 0 && bytes.IndexByte(s.text[start+1:s.pos], '$') >= 0 {
			s.doubtful = true
		}
		return kindWord
	case c == '.' && isDigit(s.at(start+1)) && !s.afterName(start):
		s.pos++
		s.passFraction()
		return kindNumber
	}
	if c == 0 || c == '[' && s.mode&MariaDB != 0 { // [..] quotes under MariaDB's sql_mode MSSQL
		s.doubtful = true
	}
	if c < ' ' || c == 0x7f {
		s.foreign = true
	}
	s.pos++
	return kindPunct
}

// afterName tells whether the token before start is a name that ends there.
func (s *scanner) afterName(start int) bool {
	return s.last.end == start && start > 0 && (s.last.kind == kindWord || s.last.kind == kindQuoted || s.last.kind == kindDouble)
}

func (s *scanner) passWord() {
	for s.pos < len(s.text) && isIdent(s.text[s.pos]) {
		if s.text[s.pos] >= 0x80 {
			s.foreign = true
		}
		s.pos++
	}
}

func (s *scanner) passDigits() {
	for s.pos < len(s.text) && isDigit(s.text[s.pos]) {
		s.pos++
	}
}

// scanNumber passes what begins with a digit: a number, or an identifier. 1e5x is
// the number 1e5 and the word x, 1ex is a word, 0x1g is a word.
func (s *scanner) scanNumber() kind {
	start := s.pos
	if s.text[start] == '0' && (s.at(start+1) == 'x' || s.at(start+1) == 'b') {
		s.pos += 2
		for s.pos < len(s.text) && (s.text[start+1] == 'x' && isHex(s.text[s.pos]) || s.text[s.pos] == '0' || s.text[s.pos] == '1') {
			s.pos++
		}
		if s.pos > start+2 && !isIdent(s.at(s.pos)) {
			return kindNumber
		}
		s.passWord()
		return kindWord
	}
	s.passDigits()
	switch c := s.at(s.pos); {
	case c == '.':
		s.pos++
		s.passFraction()
		return kindNumber
	case !isIdent(c):
		return kindNumber
	case s.passExponent():
		return kindNumber
	}
	s.passWord()
	return kindWord
}

// passFraction passes the digits behind a point and an exponent.
func (s *scanner) passFraction() {
	s.passDigits()
	s.passExponent()
}

func (s *scanner) passExponent() bool {
	if c := s.at(s.pos); c != 'e' && c != 'E' {
		return false
	}
	p := s.pos + 1
	if c := s.at(p); c == '+' || c == '-' {
		p++
	}
	if !isDigit(s.at(p)) {
		return false
	}
	s.pos = p
	s.passDigits()
	return true
}

// scanDouble passes a "...". Under ANSI_QUOTES a backslash is a backslash.
func (s *scanner) scanDouble(start int) {
	escapes := s.mode&NoBackslashEscapes == 0
	s.pos = s.quoteEnd(start, '"', escapes && s.mode&ANSIQuotes == 0)
	if !escapes || s.mode&MariaDB != 0 {
		return // no difference, or MariaDB has told which it is
	}
	if i := bytes.IndexByte(s.text[start:s.pos], '\\'); i < 0 {
		return
	}
	doubtful := s.doubtful
	if s.quoteEnd(start, '"', s.mode&ANSIQuotes != 0) != s.pos || s.doubtful != doubtful {
		s.ambiguous = true
		s.doubtful = doubtful
	}
}

// quoteEnd returns the index behind the quoting that begins at start.
func (s *scanner) quoteEnd(start int, quote byte, escapes bool) int {
	for i := start + 1; i < len(s.text); {
		end := indexByteFrom(s.text, quote, i)
		for escapes && i < end {
			n := bytes.IndexByte(s.text[i:end], '\\')
			if n < 0 {
				break
			}
			i += n + 2
		}
		switch {
		case i > end: // this one is escaped
		case s.at(end+1) == quote:
			i = end + 2
		case end < len(s.text):
			return end + 1
		default:
			i = end
		}
	}
	s.doubtful = true
	return len(s.text)
}

// bytes returns the text of t.
func (s *scanner) bytes(t token) []byte { return s.text[t.start:t.end] }

// word tells whether t is the keyword w, which is in upper case.
func (s *scanner) word(t token, w string) bool {
	return t.kind == kindWord && equalFold(s.text[t.start:t.end], w)
}

// equalFold compares b with w, which is in upper case, by ASCII letters alone.
func equalFold(b []byte, w string) bool {
	if len(b) != len(w) {
		return false
	}
	for i := range b {
		if upper(b[i]) != w[i] {
			return false
		}
	}
	return true
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'z' {
		return c - ('a' - 'A')
	}
	return c
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}

// unquoted returns the text of t without its quotes, as a name or a string that
// holds no backslash.
func (s *scanner) unquoted(t token) string {
	b := s.bytes(t)
	switch t.kind {
	case kindQuoted, kindDouble, kindString:
		q := b[:1]
		if len(b) < 2 {
			return ""
		}
		return string(bytes.ReplaceAll(b[1:len(b)-1], []byte{q[0], q[0]}, q))
	}
	return string(b)
}
