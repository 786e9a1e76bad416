package rewrite

import "strings"

// gap is a form that a server takes and the parser does not.
type gap struct {
	place    place
	words    string // what it begins with, in upper case; * is any word
	argument argument
	instead  string    // what the parser gets to see
	refused  EngineSet // engines that refuse it, unlike InnoDB
}

// place is a part of a CREATE TABLE.
type place uint8

const (
	placeHead    place = iota // up to the definitions
	placeElement              // where a definition begins
	placeType                 // behind a column's name
	placeColumn               // in the rest of a column's definition
	placeKey                  // in the definition of a key or constraint
	placeOption               // behind the definitions
)

// argument is what follows the words of a gap.
type argument uint8

const (
	argumentNone     argument = iota
	argumentParens            // (..)
	argumentWidth             // (..), or nothing
	argumentString            // '..'
	argumentValue             // [=] and a token
	argumentOptional          // = and a token, or nothing
)

const (
	// anyOption stands for a table option that readOptions has let pass.
	anyOption = "CHECKSUM=0"
	geometry  = "LONGBLOB"
	spatial   = "UNIQUE" // of which any length will do
	inMemory  = 1 << EngineMemory
)

// gaps are looked for only when the parser does not take a text, but for the one at its
// head. Nothing that decides how a table is treated is hidden by them: readDefinitions
// and readOptions see it.
var gaps = []gap{
	// MariaDB.
	{placeHead, "OR REPLACE", argumentNone, "", 0},
	{placeType, "UUID", argumentWidth, "BINARY(16)", 0},
	{placeType, "INET4", argumentWidth, "BINARY(4)", 0},
	{placeType, "INET6", argumentWidth, "BINARY(16)", 0},
	{placeType, "YEAR", argumentParens, "YEAR", 0},
	{placeColumn, "REF_SYSTEM_ID", argumentValue, "", 0},
	{placeColumn, "COMPRESSED", argumentOptional, "", 0},
	{placeColumn, "WITHOUT SYSTEM VERSIONING", argumentNone, "", 0},
	{placeColumn, "PERSISTENT", argumentNone, "STORED", 0},
	{placeColumn, "DEFAULT *", argumentParens, "DEFAULT 0", 0},
	{placeColumn, "DEFAULT DATE", argumentString, "DEFAULT 0", 0},
	{placeColumn, "DEFAULT TIME", argumentString, "DEFAULT 0", 0},
	{placeColumn, "DEFAULT TIMESTAMP", argumentString, "DEFAULT 0", 0},
	{placeColumn, "SERIAL DEFAULT VALUE", argumentNone, "NOT NULL AUTO_INCREMENT UNIQUE", 0}, // no gap, but the next one would take it
	{placeColumn, "DEFAULT *", argumentNone, "DEFAULT 0", 0},
	{placeKey, "IGNORED", argumentNone, "", 0},
	{placeKey, "NOT IGNORED", argumentNone, "", 0},
	{placeOption, "TRANSACTIONAL", argumentValue, anyOption, 0},
	{placeOption, "PAGE_CHECKSUM", argumentValue, anyOption, 0},
	{placeOption, "ENCRYPTED", argumentValue, anyOption, 0},
	{placeOption, "ENCRYPTION_KEY_ID", argumentValue, anyOption, 0},
	{placeOption, "PAGE_COMPRESSED", argumentValue, anyOption, 0},
	{placeOption, "PAGE_COMPRESSION_LEVEL", argumentValue, anyOption, 0},
	{placeOption, "ROW_FORMAT", argumentValue, anyOption, 0},

	// MySQL.
	{placeColumn, "VISIBLE", argumentNone, "", 0},
	{placeColumn, "SRID", argumentValue, "", inMemory | 1<<EngineMyISAM},

	// Both.
	{placeType, "GEOMETRY", argumentWidth, geometry, inMemory},
	{placeType, "POINT", argumentWidth, geometry, inMemory},
	{placeType, "LINESTRING", argumentWidth, geometry, inMemory},
	{placeType, "POLYGON", argumentWidth, geometry, inMemory},
	{placeType, "MULTIPOINT", argumentWidth, geometry, inMemory},
	{placeType, "MULTILINESTRING", argumentWidth, geometry, inMemory},
	{placeType, "MULTIPOLYGON", argumentWidth, geometry, inMemory},
	{placeType, "GEOMETRYCOLLECTION", argumentWidth, geometry, inMemory},
	{placeType, "GEOMCOLLECTION", argumentWidth, geometry, inMemory},
	{placeElement, "SPATIAL KEY", argumentNone, spatial, inMemory},
	{placeElement, "SPATIAL INDEX", argumentNone, spatial, inMemory},
	{placeElement, "SPATIAL", argumentNone, spatial, inMemory},
	{placeColumn, "INVISIBLE", argumentNone, "", 0},
	{placeColumn, "DEFAULT", argumentParens, "DEFAULT 0", 0},
	{placeColumn, "CHECK", argumentParens, "CHECK (1)", 0},
	{placeKey, "CHECK", argumentParens, "CHECK (1)", 0},
	{placeElement, "CHECK", argumentParens, "CHECK (1)", 0},
	{placeColumn, "AS", argumentParens, "AS (1)", 0},
	{placeColumn, "ASCII", argumentNone, "CHARACTER SET latin1", 0},
	{placeColumn, "UNICODE", argumentNone, "CHARACTER SET utf8mb4", 0},
	{placeColumn, "BYTE", argumentNone, "CHARACTER SET binary", 0},
	{placeOption, "PASSWORD", argumentValue, anyOption, 0},
	{placeOption, "STATS_AUTO_RECALC", argumentValue, anyOption, 0},
	{placeOption, "STATS_SAMPLE_PAGES", argumentValue, anyOption, 0},
}

// view makes of a text what the parser is to see.
type view struct {
	*scanner // of the text
	tokens   []token
	fill     bool // fill gaps

	out     strings.Builder
	apart   bool // a blank must follow: quotes may be gone
	place   place
	depth   int       // of parentheses
	refused EngineSet // by the gaps that were filled
}

// parserText returns text as the parser is to see it: without comments, some of which
// it takes for its own, and with character sets and collations that it knows instead
// of those that only servers know. With fill also the gaps are filled; refused are
// the engines that do not take what is there.
func parserText(text []byte, mode Mode, fill bool) (filled string, refused EngineSet) {
	s := newScanner(text, mode)
	v := view{scanner: &s, fill: fill}
	for t := s.next(); t.kind != kindEnd; t = s.next() {
		v.tokens = append(v.tokens, t)
	}
	v.out.Grow(len(text))
	end := 0
	for i := 0; i < len(v.tokens); {
		if v.tokens[i].start > end || v.apart {
			v.out.WriteByte(' ')
		}
		v.apart = false
		i += v.write(i)
		end = v.tokens[i-1].end
	}
	return v.out.String(), v.refused
}

// token returns the token at i, which may be one beyond either end.
func (v *view) token(i int) token {
	if i < 0 || i >= len(v.tokens) {
		return token{}
	}
	return v.tokens[i]
}

// write writes what stands at i, and returns of how many tokens.
func (v *view) write(i int) int {
	if n := v.writeCharset(i); n > 0 {
		v.move(i, n)
		return n
	}
	if v.fill || v.place == placeHead {
		if n := v.writeGap(i); n > 0 {
			v.move(i, n)
			return n
		}
	}
	if v.fill && v.isName(i) {
		v.out.WriteByte('`')
		defer v.out.WriteByte('`')
	}
	v.out.Write(v.bytes(v.tokens[i]))
	v.move(i, 1)
	return 1
}

// move takes note of n tokens from i on.
func (v *view) move(i, n int) {
	for ; n > 0; i, n = i+1, n-1 {
		t := v.tokens[i]
		switch {
		case t.is('('):
			v.depth++
		case t.is(')'):
			v.depth--
		}
		switch {
		case v.place == placeHead:
			if t.is('(') {
				v.place = placeElement
			}
		case v.depth == 0:
			v.place = placeOption
		case v.depth == 1 && t.is(','):
			v.place = placeElement
		case v.place == placeElement:
			v.place = placeType
			if v.beginsKey(i) {
				v.place = placeKey
			}
		case v.place == placeType:
			v.place = placeColumn
		}
	}
}

// beginsKey tells whether the definition at i is not a column's.
func (v *view) beginsKey(i int) bool {
	t := v.tokens[i]
	if v.word(t, "VECTOR") || v.word(t, "PERIOD") {
		next := v.token(i + 1)
		return v.word(next, "KEY") || v.word(next, "INDEX") || v.word(next, "FOR")
	}
	return v.isOne(t, "KEY", "INDEX", "PRIMARY", "UNIQUE", "CONSTRAINT", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK")
}

// isOne tells whether t is one of the keywords.
func (v *view) isOne(t token, words ...string) bool {
	for _, w := range words {
		if v.word(t, w) {
			return true
		}
	}
	return false
}

// writeCharset writes a character set or a collation with what leads to it, and
// returns how many tokens that were.
func (v *view) writeCharset(i int) int {
	t, before := v.tokens[i], v.token(i-1)
	instead := ""
	switch {
	case v.word(t, "SET") && v.isOne(before, "CHARACTER", "CHAR"), v.word(t, "CHARSET") && !v.isColumn(i):
		instead = "utf8mb4"
	case v.word(t, "COLLATE") && !v.isColumn(i):
		instead = "utf8mb4_bin"
	default:
		return 0
	}
	n := 1
	if v.token(i + n).is('=') {
		n++
	}
	switch name := v.token(i + n); {
	case name.kind == kindEnd, name.kind == kindPunct, name.kind == kindNumber, v.word(name, "BINARY"):
		return 0
	}
	v.out.Write(v.bytes(t))
	v.out.WriteByte(' ')
	v.out.WriteString(instead)
	v.apart = true
	return n + 1
}

// isColumn tells whether the word at i is a column's name in a list rather than a table
// option in one.
func (v *view) isColumn(i int) bool {
	before := v.token(i - 1)
	return (before.is('(') || before.is(',')) && !v.token(i+1).is('=')
}

// writeGap writes what stands for the gap at i, and returns how many tokens that has.
func (v *view) writeGap(i int) int {
	for k := range gaps {
		g := &gaps[k]
		if g.place != v.place {
			continue
		}
		if n := v.match(g, i); n > 0 {
			v.out.WriteString(g.instead)
			v.apart = true
			v.refused |= g.refused
			return n
		}
	}
	return 0
}

// match returns how many tokens from i on are the gap, 0 if they are not.
func (v *view) match(g *gap, i int) int {
	from := i
	for w := range strings.FieldsSeq(g.words) {
		if t := v.token(i); t.kind != kindWord || w != "*" && !v.word(t, w) {
			return 0
		}
		i++
	}
	switch t := v.token(i); g.argument {
	case argumentParens, argumentWidth:
		if t.is('(') {
			return v.behindParens(i) - from
		}
		if g.argument == argumentParens {
			return 0
		}
	case argumentString:
		if t.kind != kindString {
			return 0
		}
		i++
	case argumentValue, argumentOptional:
		if t.is('=') {
			i++
		} else if g.argument == argumentOptional {
			break
		}
		if t := v.token(i); t.kind == kindEnd || t.kind == kindPunct {
			return 0
		}
		i++
	}
	return i - from
}

// behindParens returns the index behind the parenthesis that closes the one at i.
func (v *view) behindParens(i int) int {
	for depth := 0; i < len(v.tokens); i++ {
		switch t := v.tokens[i]; {
		case t.is('('):
			depth++
		case t.is(')'):
			depth--
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}

// isName tells whether the word at i names a column, a key or a constraint. The parser
// has reserved words that servers have not.
func (v *view) isName(i int) bool {
	t, before := v.tokens[i], v.token(i-1)
	if t.kind != kindWord || isReserved(v.bytes(t), v.mode) {
		return false
	}
	switch v.place {
	case placeElement:
		return !v.beginsKey(i)
	case placeKey:
		if v.depth == 2 {
			return before.is('(') || before.is(',')
		}
		return v.word(before, "CONSTRAINT") || v.isOne(before, "KEY", "INDEX", "UNIQUE", "FULLTEXT") && (v.token(i+1).is('(') || v.word(v.token(i+1), "USING"))
	}
	return false
}
