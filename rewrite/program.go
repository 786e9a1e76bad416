package rewrite

// A stored program - a procedure, a function, a trigger - holds statements that its CREATE does not run. Where its body is a block, from
// BEGIN to END, these have their ';', which end no statement of the text. What is told of a block errs to one side only: its end is never
// found behind the place where a server finds it.

// readProgram reads what follows CREATE [OR REPLACE], and tells whether a stored program is created. The current token is then the one
// behind the word that says so.
func (r *reader) readProgram() bool {
	if r.accept("DEFINER") {
		if !r.tok.is('=') {
			return false
		}
		r.advance()
		r.advance() // the user, or CURRENT_USER
		switch {
		case r.tok.is('('):
			r.advance()
			r.advance()
		case r.tok.is('@'):
			r.advance()
			r.advance()
		}
	}
	r.accept("AGGREGATE")
	for _, w := range [...]string{"PROCEDURE", "FUNCTION", "TRIGGER"} {
		if r.accept(w) {
			r.program = w
			return true
		}
	}
	return false
}

// passProgram passes the rest of the CREATE of a stored program: all of it if its body is a block that can be followed, and else what
// stands before the first ';'.
func (r *reader) passProgram() {
	if r.passProgramHead() {
		at := *r
		if !r.passBlock() {
			*r = at
		}
	}
	r.passStatement()
}

// passProgramHead passes what stands before the body, and tells whether that is a block, whose BEGIN is the current token.
func (r *reader) passProgramHead() bool {
	if r.accept("IF") {
		r.accept("NOT")
		r.accept("EXISTS")
	}
	if r.isName() {
		r.advance()
	}
	if r.tok.is('.') {
		r.advance()
		r.advance()
	}
	if r.program == "TRIGGER" {
		for !r.ended() && !r.on("FOR") { // a reserved word
			r.advance()
		}
		if !r.accept("FOR") || !r.accept("EACH") || !r.accept("ROW") {
			return false
		}
		if r.accept("FOLLOWS") || r.accept("PRECEDES") {
			r.advance()
		}
	} else {
		if !r.passList() || r.program == "FUNCTION" && !r.accept("RETURNS") {
			return false
		}
		for r.passCharacteristic() {
		}
	}
	if r.isName() && !r.on("BEGIN") { // a label
		if r.advance(); !r.tok.is(':') {
			return false
		}
		r.advance()
	}
	return r.on("BEGIN")
}

func (r *reader) isName() bool {
	return r.tok.kind == kindWord || r.tok.kind == kindQuoted || r.tok.kind == kindDouble
}

// passList passes ( .. ).
func (r *reader) passList() bool {
	if !r.tok.is('(') {
		return false
	}
	for depth := 0; !r.ended(); r.advance() {
		switch {
		case r.tok.is('('):
			depth++
		case r.tok.is(')'):
			if depth--; depth == 0 {
				r.advance()
				return true
			}
		}
	}
	return false
}

// programWords are those of the type that a function returns and of the characteristics of routines. No statement begins with one.
var programWords = [...]string{
	"INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "MEDIUMINT", "DECIMAL", "NUMERIC", "DEC", "FIXED", "FLOAT", "DOUBLE", "PRECISION",
	"REAL", "BIT", "BOOL", "BOOLEAN", "UNSIGNED", "SIGNED", "ZEROFILL", "CHAR", "VARCHAR", "NCHAR", "NVARCHAR", "NATIONAL", "VARYING",
	"BINARY", "VARBINARY", "TEXT", "TINYTEXT", "MEDIUMTEXT", "LONGTEXT", "BLOB", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB", "ASCII", "UNICODE",
	"DATE", "DATETIME", "TIME", "TIMESTAMP", "YEAR", "JSON", "ENUM", "UUID", "INET4", "INET6", "GEOMETRY", "POINT",
	"DETERMINISTIC", "NOT", "CONTAINS", "NO", "SQL", "READS", "MODIFIES", "DATA", "LANGUAGE", "SECURITY", "DEFINER", "INVOKER",
}

// passCharacteristic passes a piece of the type that a function returns, or of what is said of a routine before its body.
func (r *reader) passCharacteristic() bool {
	switch {
	case r.tok.is('('):
		return r.passList()
	case r.accept("COMMENT"):
		if r.tok.kind != kindString && r.tok.kind != kindDouble {
			return false
		}
		r.advance()
		return true
	case r.accept("CHARSET"), r.accept("COLLATE"):
		r.advance()
		return true
	case r.accept("CHARACTER"):
		if r.accept("SET") {
			r.advance()
		}
		return true
	}
	for _, w := range programWords {
		if r.accept(w) {
			return true
		}
	}
	return false
}

// passBlock passes BEGIN .. END and a label behind it, and tells whether that is all of the statement.
func (r *reader) passBlock() bool {
	depth := 1 // BEGINs and CASEs that have no END yet: never more of them than a server sees
	var before, last token
	last = r.tok
	opened := true // last is a BEGIN that counts
	for r.advance(); r.tok.kind != kindEnd; {
		t := r.tok
		if r.word(t, "END") {
			r.advance()
			switch {
			case r.accept("IF"), r.accept("LOOP"), r.accept("WHILE"), r.accept("REPEAT"), r.accept("FOR"): // all reserved
			case r.accept("CASE"):
				depth--
			default:
				depth--
			}
			if depth == 0 {
				if r.isName() {
					r.advance()
				}
				return r.ended()
			}
			before, last, opened = token{}, token{}, false
			continue
		}
		r.advance()
		switch {
		case r.word(t, "CASE") && !last.is('.') && !last.is('@'): // a reserved word
			depth++
		case r.word(t, "BEGIN") && r.opensBlock(before, last, opened):
			depth++
			before, last, opened = last, t, true
			continue
		}
		before, last, opened = last, t, false
	}
	return false
}

// opensBlock tells whether the word BEGIN, which is not reserved, opens a block: whether a statement begins there. before and last are the
// tokens in front of it, begin says that the last one opened a block; the current token is the one behind it.
func (r *reader) opensBlock(before, last token, begin bool) bool {
	reserved := r.tok.kind == kindWord && isReserved(r.bytes(r.tok), r.mode) && r.startsStatement()
	ends := r.on("ROLLBACK") || r.on("COMMIT")
	switch {
	case r.tok.is(':'):
		return false
	case begin, last.is(';'), r.word(last, "SQLEXCEPTION"), r.word(last, "SQLWARNING"):
		return true
	case r.word(last, "THEN"), r.word(last, "ELSE"), r.word(last, "FOUND") && r.word(before, "NOT"):
		return reserved || ends
	case r.word(last, "DO"), r.word(last, "LOOP"), r.word(last, "REPEAT"), last.kind == kindString, last.kind == kindNumber:
		return reserved
	}
	return false
}

// startsStatement tells whether a statement in a block may begin with the current token.
func (r *reader) startsStatement() bool {
	for _, w := range [...]string{
		"SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "SET", "DECLARE", "CALL", "IF", "CASE", "WHILE", "LOOP", "REPEAT",
		"CREATE", "DROP", "ALTER", "SIGNAL", "RESIGNAL",
	} {
		if r.on(w) {
			return true
		}
	}
	return false
}
