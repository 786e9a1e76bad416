package record

// kind is what a token is.
type kind uint8

const (
	word    kind = iota // an unquoted name or a keyword
	name                // a name in backticks, or in double quotes where they quote names
	text                // a string literal, its quotes included, any introducer before it is a word
	number              // a decimal number
	literal             // x'..', b'..', 0x.., 0b..
	comment             // with its marks; of an executable comment only the marks are comments
	mark                // one byte of anything else
)

// token is a piece of a statement's text. What is between tokens is white space.
type token struct {
	kind       kind
	start, end int
}

// Lexical is what of a session's state decides where tokens end.
type Lexical struct {
	NoBackslashEscapes bool
	ANSIQuotes         bool
}

// tokens takes a text apart. It never fails: what is not closed ends with the text.
func tokens(s []byte, l Lexical) []token {
	var list []token
	add := func(k kind, start, end int) int {
		list = append(list, token{k, start, end})
		return end
	}
	at := func(i int) byte {
		if i < len(s) {
			return s[i]
		}
		return 0
	}
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == ' ' || c >= '\t' && c <= '\r':
			i++
		case c == '\'':
			i = add(text, i, quoted(s, i, !l.NoBackslashEscapes))
		case c == '"' && !l.ANSIQuotes:
			i = add(text, i, quoted(s, i, !l.NoBackslashEscapes))
		case c == '"' || c == '`':
			i = add(name, i, quoted(s, i, false))
		case c == '#', c == '-' && at(i+1) == '-' && (i+2 >= len(s) || at(i+2) <= ' '):
			end := i
			for end < len(s) && s[end] != '\n' {
				end++
			}
			i = add(comment, i, end)
		case c == '/' && at(i+1) == '*' && (at(i+2) == '!' || (at(i+2) == 'M' && at(i+3) == '!')):
			end := i + 3
			if at(i+2) == 'M' {
				end++
			}
			for isDigit(at(end)) {
				end++
			}
			i = add(comment, i, end)
		case c == '*' && at(i+1) == '/':
			i = add(comment, i, i+2)
		case c == '/' && at(i+1) == '*':
			end := i + 2
			for end < len(s) && !(s[end] == '*' && at(end+1) == '/') {
				end++
			}
			i = add(comment, i, min(end+2, len(s)))
		case (c == 'x' || c == 'X' || c == 'b' || c == 'B') && at(i+1) == '\'':
			i = add(literal, i, quoted(s, i+1, false))
		case isWord(c):
			end := i
			for end < len(s) && isWord(s[end]) {
				end++
			}
			k := word
			if isDigit(c) {
				k, end = numberToken(s, i, end)
			}
			i = add(k, i, end)
		default:
			i = add(mark, i, i+1)
		}
	}
	return list
}

// numberToken tells what begins with a digit and is s[start:end] as a word.
func numberToken(s []byte, start, end int) (kind, int) {
	digits := start
	for digits < end && isDigit(s[digits]) {
		digits++
	}
	if digits == start+1 && s[start] == '0' && digits < end && (s[digits] == 'x' || s[digits] == 'b') {
		return literal, end
	}
	exponent := func(i int) int { // of digits behind an e, or -1
		if i >= len(s) || s[i]|0x20 != 'e' {
			return -1
		}
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		first := i
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		if i == first {
			return -1
		}
		return i
	}
	if digits == end && digits < len(s) && s[digits] == '.' {
		digits++
		for digits < len(s) && isDigit(s[digits]) {
			digits++
		}
		if e := exponent(digits); e >= 0 {
			return number, e
		}
		return number, digits
	}
	if digits == end {
		return number, end
	}
	if e := exponent(digits); e >= end {
		return number, e
	}
	return word, end // a name may begin with digits
}

// quoted returns the end of what is quoted at start.
func quoted(s []byte, start int, escapes bool) int {
	quote := s[start]
	for i := start + 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && escapes:
			i++
		case s[i] == quote && i+1 < len(s) && s[i+1] == quote:
			i++
		case s[i] == quote:
			return i + 1
		}
	}
	return len(s)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { c |= 0x20; return c >= 'a' && c <= 'z' }

func isWord(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' || c == '$' || c >= 0x80 }
