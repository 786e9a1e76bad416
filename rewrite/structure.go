package rewrite

// Structure reads what SHOW CREATE TABLE answered for a table, for the copies that
// CREATE TABLE .. LIKE makes of it. Structure is the answer without the table's name and
// without the AUTO_INCREMENT counter, which is not copied and moves with every row: equal
// structures of a source, seen by a session of the same sql_mode, make equal copies. What
// LIKE leaves out, such as foreign keys, may make them unequal without need. Engine is
// the engine of the copies, too. It answers false for a view, under ANSI_QUOTES, and for
// what it does not understand, for which no copy should be taken for another.
func Structure(answer []byte, mode Mode) (structure string, engine Engine, ok bool) {
	r := reader{scanner: newScanner(answer, mode)}
	r.advance()
	if !r.accept("CREATE") {
		return "", EngineNone, false
	}
	r.accept("TEMPORARY")
	if !r.accept("TABLE") {
		return "", EngineNone, false
	}
	if _, ok := r.name(); !ok || !r.tok.is('(') {
		return "", EngineNone, false
	}
	start := r.tok.start
	var counter []edit
	depth := 0
	for ; !r.ended(); r.advance() {
		switch {
		case r.tok.is('('):
			depth++
			continue
		case r.tok.is(')'):
			depth--
			continue
		case depth > 0:
			continue
		}
		switch option := r.tok; {
		case r.word(option, "AUTO_INCREMENT"):
			if r.advance(); !r.tok.is('=') {
				return "", EngineNone, false
			}
			if r.advance(); r.tok.kind != kindNumber {
				return "", EngineNone, false
			}
			counter = append(counter, edit{start: option.start - start, end: r.tok.end - start})
		case r.word(option, "ENGINE"):
			if r.advance(); !r.tok.is('=') {
				return "", EngineNone, false
			}
			r.advance()
			engine = engineOf(r.unquoted(r.tok), mode)
		}
	}
	if r.tok.kind != kindEnd || r.doubtful || r.ambiguous || engine == EngineNone {
		return "", EngineNone, false
	}
	return splice(answer[start:], counter...), engine, true
}
