package rewrite

// Unordered tells whether the rows of a SELECT come in an order that its text does not ask for: it reads a table, has no
// ORDER BY of its own, and is not one of aggregate functions alone, which has one row. That there can be one row at most for
// other reasons is not seen, nor whether the order matters. text must be one statement. It does not allocate.
func Unordered(text []byte, mode Mode) bool {
	r := reader{scanner: newScanner(text, mode)}
	r.advance()
	level := 0 // of the parentheses around the whole
	for ; r.tok.is('('); r.advance() {
		level++
	}
	const (
		before = iota // of SELECT
		list          // of what is selected
		behind        // FROM
	)
	at, depth := before, level
	inner := 0 // the depth of a subquery, 0 outside of one
	var one, many, joined, reads bool
	for ; !r.ended(); r.advance() {
		switch {
		case r.tok.is('('):
			depth++
		case r.tok.is(')'):
			if depth--; depth < inner {
				inner = 0
			}
			level = min(level, depth)
		case r.tok.kind != kindWord || inner > 0:
		case depth > level:
			switch {
			case r.on("SELECT"), r.on("TABLE"):
				inner = depth
			case r.on("ORDER"):
				joined = false // GROUP_CONCAT(a ORDER BY a)
			}
		case r.on("SELECT"), at == before && r.on("TABLE"):
			many = many || at != before // a UNION
			at = list
			if r.on("TABLE") {
				at, reads = behind, true
			}
		case at == list && r.on("FROM"):
			at, reads = behind, true
		case r.on("OVER"), r.on("GROUP"):
			many = true
		case r.on("ORDER"):
			return false
		}
		if at == list && inner == 0 && r.tok.kind == kindWord && r.at(r.tok.end) == '(' {
			switch aggregateOf(r.bytes(r.tok)) {
			case aggregateRow:
				one = true
			case aggregateJoined:
				one, joined = true, true
			}
		}
	}
	return reads && (!one || many || joined)
}

type aggregate uint8

const (
	aggregateNone   aggregate = iota
	aggregateRow              // its value does not depend on the order of the rows
	aggregateJoined           // it does
)

// aggregateOf tells what kind of an aggregate function a word is.
func aggregateOf(w []byte) aggregate {
	var buf [len("json_objectagg")]byte
	if len(w) > len(buf) {
		return aggregateNone
	}
	n := copy(buf[:], w)
	for i := range n {
		buf[i] = lower(buf[i])
	}
	switch string(buf[:n]) {
	case "count", "sum", "min", "max", "avg", "bit_and", "bit_or", "bit_xor", "std", "stddev", "stddev_pop", "stddev_samp",
		"variance", "var_pop", "var_samp":
		return aggregateRow
	case "group_concat", "json_arrayagg", "json_objectagg":
		return aggregateJoined
	}
	return aggregateNone
}

// Inserts returns the table that an INSERT, a REPLACE or a LOAD writes rows to. It answers false for everything else, and for
// a name that is not plain. text must be one statement. It does not allocate.
func Inserts(text []byte, mode Mode) (NameBytes, bool) {
	r := reader{scanner: newScanner(text, mode)}
	r.advance()
	switch {
	case r.accept("INSERT"), r.accept("REPLACE"):
		r.passWords("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE")
		r.accept("INTO")
	case r.accept("LOAD"):
		for !r.ended() && !r.on("INTO") {
			r.advance()
		}
		if r.advance(); !r.accept("TABLE") {
			return NameBytes{}, false
		}
	default:
		return NameBytes{}, false
	}
	return r.plainName()
}
