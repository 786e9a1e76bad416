package record

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Masker replaces values by others of the same length and kind: letters by letters, digits by digits, a number by one of as many
// digits that fits the same integer types, a date by a date. The same value always becomes the same other one, and different
// numbers become different ones, so that keys stay unique and what belonged together still does. Names, keywords, punctuation,
// 0 and 1, the numbers of a LIMIT, of an ORDER BY and of column types stay.
//
// Words that stand in text and in names alike cannot be told apart once they are masked; order, sums and patterns are lost.
//
// It is used by one goroutine at a time: it learns which user variables hold statements, see learn.
type Masker struct {
	key [sha256.Size]byte
	sql map[string]bool // user variables that were prepared, in lower case
}

// maxVariables bounds what is learnt.
const maxVariables = 1000

// learn notes the user variable of a PREPARE .. FROM @name or EXECUTE IMMEDIATE @name that token i begins. A text that is assigned to it from
// then on, and begins as a statement does, is masked as a statement. (To judge by the text alone would let a value through that begins with
// such a word.)
func (m *Masker) learn(s []byte, list []token, i int) {
	at := func(i int) string {
		if i < len(list) {
			return string(bytes.ToUpper(s[list[i].start:min(list[i].end, list[i].start+64)]))
		}
		return ""
	}
	switch at(i) {
	case "PREPARE":
		if i += 2; at(i) != "FROM" {
			return
		}
	case "EXECUTE":
		if i++; at(i) != "IMMEDIATE" {
			return
		}
	default:
		return
	}
	if at(i+1) == "@" && at(i+2) != "" && len(m.sql) < maxVariables {
		if m.sql == nil {
			m.sql = map[string]bool{}
		}
		m.sql[variable(s, list[i+2])] = true
	}
}

// variable is the name of the user variable whose token this is, as it is compared.
func variable(s []byte, t token) string {
	return string(bytes.ToLower(bytes.Trim(s[t.start:t.end], "`'\"")))
}

// statementText matches texts that begin as statements do that can be prepared.
var statementText = regexp.MustCompile(`(?i)^.\s*\(*\s*(select|insert|update|delete|replace|create|drop|alter|truncate|set|call|with|do|show|load|lock|analyze|rename|table|values)\b`)

// NewMasker returns one with a random key, which is kept nowhere else: what it has masked cannot be undone.
func NewMasker() *Masker {
	m := new(Masker)
	_, _ = rand.Read(m.key[:]) // never fails
	return m
}

// hash is a keyed hash of b for a purpose.
func (m *Masker) hash(purpose byte, b []byte) uint64 {
	buffer := make([]byte, 0, 128)
	buffer = append(append(append(buffer, m.key[:]...), purpose), b...)
	sum := sha256.Sum256(buffer)
	return binary.LittleEndian.Uint64(sum[:])
}

// stream is a source of bytes that depend on b.
func (m *Masker) stream(purpose byte, b []byte) func() byte {
	seed := m.hash(purpose, b)
	var block [sha256.Size]byte
	n, used := uint64(0), len(block)
	return func() byte {
		if used == len(block) {
			var in [sha256.Size + 16]byte
			copy(in[:], m.key[:])
			binary.LittleEndian.PutUint64(in[sha256.Size:], seed)
			binary.LittleEndian.PutUint64(in[sha256.Size+8:], n)
			block, used = sha256.Sum256(in[:]), 0
			n++
		}
		used++
		return block[used-1]
	}
}

// Statement masks the literals of a statement, or of several.
func (m *Masker) Statement(s []byte, l Lexical) []byte {
	list := tokens(s, l)
	out := make([]byte, 0, len(s)+16)
	done := 0
	for i := range list {
		m.learn(s, list, i)
	}
	r := rules{s: s, begin: true}
	for i, t := range list {
		out = append(out, s[done:t.start]...)
		done = t.end
		piece := s[t.start:t.end]
		masked := r.next(list, i)
		switch {
		case t.kind == comment:
			out = append(out, harmless(piece)...)
		case !masked:
			out = append(out, piece...)
		case t.kind == text && (r.prepares || r.user && m.sql[r.variable]) && statementText.Match(piece):
			out = m.prepared(out, piece, l)
		case t.kind == text:
			out = m.literal(out, piece, !l.NoBackslashEscapes)
		case t.kind == number:
			out = append(out, m.Number(piece)...)
		case t.kind == literal:
			out = m.bits(out, piece)
		default:
			out = append(out, piece...)
		}
	}
	return append(out, s[done:]...)
}

// harmless is what stays of a comment: its marks, optimizer hints and the proxy's own hints.
func harmless(c []byte) []byte {
	switch {
	case bytes.HasPrefix(c, []byte("/*!")), bytes.HasPrefix(c, []byte("/*M!")), bytes.HasPrefix(c, []byte("*/")), bytes.HasPrefix(c, []byte("/*+")),
		bytes.Contains(c, []byte("tmpproxy:native")):
		return c
	case bytes.HasPrefix(c, []byte("/*")):
		return []byte("/**/")
	}
	return nil // up to the end of the line
}

// rules decide which literals of a statement are values.
type rules struct {
	s        []byte
	begin    bool   // the next token begins a statement
	verb     string // of the present statement
	data     bool   // of a definition: the rows it is filled with have begun
	user     bool   // of SET: the present assignment is to a user variable
	variable string // its name
	target   bool   // of SET: the next token begins an assignment
	keep     int    // numbers follow that stay: 1 LIMIT, 2 BY
	depth    int
	typed    []int // depths of the parentheses of column types that are open
	last     string
	prepares bool
}

// next takes the next token and says whether it is a value that is masked.
func (r *rules) next(list []token, i int) bool {
	t := list[i]
	if t.kind == comment {
		return false
	}
	piece := string(bytes.ToUpper(r.s[t.start:min(t.end, t.start+32)]))
	last := r.last
	r.last = piece
	if t.kind == mark {
		r.mark(list, i, last)
		return false
	}
	if r.begin && piece != "(" {
		*r = rules{s: r.s, verb: piece, target: piece == "SET", last: piece}
		r.prepares = piece == "PREPARE" || piece == "EXECUTE" && i+1 < len(list) && bytes.EqualFold(r.s[list[i+1].start:list[i+1].end], []byte("IMMEDIATE"))
		return false
	}
	if t.kind == word || t.kind == name {
		if r.target {
			r.target = false
			r.user = last == "@" && (i < 2 || r.s[list[i-2].start] != '@')
			r.variable = variable(r.s, t)
		}
		switch piece {
		case "SELECT", "VALUES", "VALUE":
			r.data = true
		case "LIMIT", "OFFSET":
			r.keep = 1
			return false
		case "BY":
			r.keep = 2
			return false
		case "ASC", "DESC", "WITH":
			return false
		case "USING":
			r.prepares = false
		}
		if t.kind == word {
			r.keep = 0
		}
		return false
	}
	switch r.verb {
	case "SET":
		return r.user
	case "SHOW", "USE", "DESCRIBE", "DESC", "SAVEPOINT", "RELEASE", "ROLLBACK", "BEGIN", "START", "COMMIT", "LOCK", "UNLOCK", "KILL":
		return false
	}
	if t.kind != number {
		return true
	}
	switch {
	case r.keep != 0, len(r.typed) > 0:
		return false
	case r.verb == "CREATE" || r.verb == "ALTER":
		return r.data
	}
	return true
}

// types are names of column types that are followed by lengths and that no function has.
var types = []string{"DECIMAL", "DEC", "NUMERIC", "VARCHAR", "VARBINARY", "DATETIME", "FLOAT", "DOUBLE", "INT", "BIGINT"}

// castTypes are such that functions have as well.
var castTypes = []string{"CHAR", "BINARY", "TIME", "NCHAR", "TIMESTAMP"}

func (r *rules) mark(list []token, i int, last string) {
	switch c := r.s[list[i].start]; c {
	case ';':
		*r = rules{s: r.s, begin: true}
	case '(':
		r.depth++
		beforeLast := ""
		if i >= 2 {
			beforeLast = string(bytes.ToUpper(r.s[list[i-2].start:list[i-2].end]))
		}
		if slices.Contains(types, last) || slices.Contains(castTypes, last) && beforeLast == "AS" {
			r.typed = append(r.typed, r.depth)
		}
	case ')':
		if n := len(r.typed); n > 0 && r.typed[n-1] == r.depth {
			r.typed = r.typed[:n-1]
		}
		r.depth--
		r.keep = 0
	case ',':
		if r.verb == "SET" && r.depth == 0 {
			r.target, r.user = true, false
		}
	case '@', '.':
	default:
		r.keep = 0
	}
}

// prepared masks the text of a statement within a string.
func (m *Masker) prepared(out, literal []byte, l Lexical) []byte {
	quote := literal[0]
	var inner []byte
	for i := 1; i < len(literal)-1; i++ {
		c := literal[i]
		if c == quote {
			i++
		} else if c == '\\' && !l.NoBackslashEscapes && i+1 < len(literal)-1 {
			i++
			if c = literal[i]; c == 'n' || c == 't' || c == 'r' {
				c = ' '
			}
		}
		inner = append(inner, c)
	}
	out = append(out, quote)
	for _, c := range m.Statement(inner, l) {
		if c == quote || c == '\\' && !l.NoBackslashEscapes {
			out = append(out, c)
		}
		out = append(out, c)
	}
	return append(out, quote)
}

// literal masks a string literal, whose quotes and escapes stay.
func (m *Masker) literal(out, literal []byte, escapes bool) []byte {
	if len(literal) < 2 {
		return append(out, literal...)
	}
	body := literal[1 : len(literal)-1]
	out = append(out, literal[0])
	for len(body) > 0 {
		i := len(body)
		if escapes {
			if i = bytes.IndexByte(body, '\\'); i < 0 || i+1 >= len(body) {
				i = len(body)
			}
		}
		out = append(out, m.Text(body[:i])...)
		if body = body[i:]; len(body) > 0 {
			out = append(out, body[:2]...)
			body = body[2:]
		}
	}
	return append(out, literal[len(literal)-1])
}

var (
	dateText   = regexp.MustCompile(`^(\d{4})-(\d\d)-(\d\d)(?:([ T])(\d\d):(\d\d):(\d\d)(\.\d+)?)?$`)
	timeText   = regexp.MustCompile(`^\d\d:\d\d(:\d\d)?$`)
	hexText    = regexp.MustCompile(`^[0-9a-fA-F-]{8,}$`)
	formatText = regexp.MustCompile(`^(%[a-zA-Z][ .:/T,-]*)+$`)
)

// Text masks the content of a text.
func (m *Masker) Text(s []byte) []byte {
	if len(s) == 0 || formatText.Match(s) {
		return s
	}
	if d := dateText.FindSubmatch(s); d != nil {
		return m.date(s, d)
	}
	out := make([]byte, 0, len(s))
	if timeText.Match(s) {
		next := m.stream('t', s)
		out = append(out, pair(int(next())%24)...)
		for i := 3; i < len(s); i += 3 {
			out = append(append(out, ':'), pair(int(next())%60)...)
		}
		return out
	}
	if hexText.Match(s) && bytes.ContainsAny(s, "abcdefABCDEF") && bytes.ContainsAny(s, "0123456789") {
		return m.hexDigits(out, s)
	}
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case isLetter(c):
			end := i
			for end < len(s) && isLetter(s[end]) {
				end++
			}
			out = m.letters(out, s[i:end])
			i = end
		case isDigit(c):
			end := i
			for end < len(s) && isDigit(s[end]) {
				end++
			}
			out = m.digits(out, s[i:end])
			i = end
		case c >= 0x80:
			r, n := utf8.DecodeRune(s[i:])
			out = m.rune(out, s[i:i+n], r)
			i += n
		default:
			out = append(out, c)
			i++
		}
	}
	return out
}

func pair(n int) []byte { return []byte{byte('0' + n/10), byte('0' + n%10)} }

func (m *Masker) date(s []byte, d [][]byte) []byte {
	if string(d[1]) == "0000" || string(d[2]) == "00" || string(d[3]) == "00" {
		return s // which stands for none
	}
	next := m.stream('d', s)
	out := strconv.AppendInt(nil, 1971+int64(next())%60, 10)
	out = append(append(out, '-'), pair(1+int(next())%12)...)
	out = append(append(out, '-'), pair(1+int(next())%28)...)
	if len(d[4]) == 0 {
		return out
	}
	out = append(out, d[4]...)
	out = append(out, pair(int(next())%24)...)
	out = append(append(out, ':'), pair(int(next())%60)...)
	out = append(append(out, ':'), pair(int(next())%60)...)
	for i, c := range d[8] {
		if i > 0 {
			c = '0' + next()%10
		}
		out = append(out, c)
	}
	return out
}

// letters masks a word. Those that JSON has are no values.
func (m *Masker) letters(out, s []byte) []byte {
	switch string(s) {
	case "true", "false", "null", "NULL":
		return append(out, s...)
	}
	next := m.stream('w', bytes.ToLower(s)) // collations that ignore case still find it
	for _, c := range s {
		out = append(out, c&0x20|'A'+next()%26)
	}
	return out
}

func (m *Masker) hexDigits(out, s []byte) []byte {
	next := m.stream('x', bytes.ToLower(s))
	for _, c := range s {
		d := "0123456789abcdef"[next()%16]
		switch {
		case c == '-':
			d = c
		case c >= 'A' && c <= 'F' && d >= 'a':
			d -= 0x20
		}
		out = append(out, d)
	}
	return out
}

func (m *Masker) rune(out, s []byte, r rune) []byte {
	h := rune(m.hash('r', s) % 24)
	switch {
	case r == utf8.RuneError && len(s) == 1:
		return append(out, 'x')
	case len(s) == 2:
		return utf8.AppendRune(out, 0xe0+h%22)
	case len(s) == 3:
		return utf8.AppendRune(out, 0x4e00+h*7)
	}
	return utf8.AppendRune(out, 0x1f600+h)
}

// Number masks a decimal number.
func (m *Masker) Number(s []byte) []byte {
	end := 0
	for end < len(s) && isDigit(s[end]) {
		end++
	}
	out := m.digits(make([]byte, 0, len(s)), s[:end])
	if end < len(s) && s[end] == '.' {
		out = append(out, '.')
		next := m.stream('f', s)
		for end++; end < len(s) && isDigit(s[end]); end++ {
			out = append(out, '0'+next()%10)
		}
	}
	return append(out, s[end:]...) // the exponent
}

// digits masks digits by as many others. Zeros in front stay.
func (m *Masker) digits(out, s []byte) []byte {
	for len(s) > 0 && s[0] == '0' {
		out = append(out, '0')
		s = s[1:]
	}
	if len(s) == 0 {
		return out
	}
	n, err := strconv.ParseUint(string(s), 10, 64)
	if err != nil { // longer than any integer
		next := m.stream('l', s)
		out = append(out, s[0])
		for range s[1:] {
			out = append(out, '0'+next()%10)
		}
		return out
	}
	return strconv.AppendUint(out, m.Uint(n), 10)
}

// borders are where classes of numbers begin: powers of ten, and what lies behind the greatest values of integer types.
var borders = func() []uint64 {
	list := []uint64{0, 1, 2, 128, 256, 32768, 65536, 1 << 23, 1 << 24, 1 << 31, 1 << 32, 1 << 63}
	for p := uint64(10); ; p *= 10 {
		list = append(list, p)
		if p > math.MaxUint64/10 {
			break
		}
	}
	slices.Sort(list)
	return list
}()

// Uint masks a number by one of the same number of digits that fits the same integer types. Different numbers become different
// ones; 0 and 1 stay.
func (m *Masker) Uint(n uint64) uint64 {
	i, found := slices.BinarySearch(borders, n)
	if !found {
		i--
	}
	low := borders[i]
	size := -low // up to the end of all numbers
	if i+1 < len(borders) {
		size = borders[i+1] - low
	}
	if size <= 1 {
		return n
	}
	// A Feistel network permutes the numbers of half·2 bits; what falls outside is permuted again.
	half := uint(bits.Len64(size-1)+1) / 2
	side := uint64(1)<<half - 1
	x := n - low
	for {
		left, right := x>>half, x&side
		for round := range 4 {
			var in [17]byte
			binary.LittleEndian.PutUint64(in[:], right)
			binary.LittleEndian.PutUint64(in[8:], low)
			in[16] = byte(round)
			left, right = right, left^m.hash('n', in[:])&side
		}
		if x = left<<half | right; x < size {
			return low + x
		}
	}
}

// bits masks x'..', b'..', 0x.. or 0b...
func (m *Masker) bits(out, s []byte) []byte {
	body := s[2:]
	out = append(out, s[:2]...)
	binary := s[0]|0x20 == 'b' || s[1] == 'b'
	next := m.stream('b', body)
	for _, c := range body {
		switch {
		case c == '\'':
		case binary:
			c = '0' + next()%2
		default:
			c = "0123456789abcdef"[next()%16]
		}
		out = append(out, c)
	}
	return out
}

// Value masks a parameter.
func (m *Masker) Value(v Value) Value {
	if v.Null || v.Long || v.Indicator != 0 {
		return v
	}
	switch {
	case v.isInteger():
		if d := v.Data; len(d) > 0 && d[0] == '-' {
			v.Data = append([]byte("-"), m.Number(d[1:])...)
		} else {
			v.Data = m.Number(d)
		}
	case v.isFloat():
		f, err := strconv.ParseFloat(string(v.Data), 64)
		if err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			sign := ""
			if f < 0 {
				sign = "-"
			}
			digits := strconv.FormatFloat(math.Abs(f), 'f', -1, 64)
			v.Data = append([]byte(sign), m.Number([]byte(digits))...)
		}
	case v.isTemporal():
		raw, err := hex.DecodeString(string(v.Data))
		if err != nil {
			v.Null = true
			return v
		}
		v.Data = hex.AppendEncode(nil, m.temporal(raw))
	default:
		v.Data = m.Text(v.Data)
	}
	return v
}

// temporal masks the binary form of a date or time: year (2), month, day, hour, minute, second, microseconds (4).
func (m *Masker) temporal(raw []byte) []byte {
	out := bytes.Clone(raw)
	next := m.stream('v', raw)
	if n := len(out); n != 4 && n != 7 && n != 11 {
		return out
	}
	binary.LittleEndian.PutUint16(out, 1971+uint16(next())%60)
	out[2], out[3] = 1+next()%12, 1+next()%28
	if len(out) >= 7 {
		out[4], out[5], out[6] = next()%24, next()%60, next()%60
	}
	if len(out) == 11 {
		binary.LittleEndian.PutUint32(out[7:], uint32(next())*3000)
	}
	return out
}
