package rewrite

// Rename returns a CREATE TEMPORARY TABLE with another name of the table, which is put in as it is. It answers false for any
// other text.
func Rename(text []byte, mode Mode, to string) (string, bool) {
	r := reader{scanner: newScanner(text, mode)}
	r.advance()
	if !r.accept("CREATE") || !r.accept("TEMPORARY") || !r.accept("TABLE") {
		return "", false
	}
	if r.accept("IF") && !(r.accept("NOT") && r.accept("EXISTS")) {
		return "", false
	}
	start := r.tok.start
	end := start
	for {
		end = r.tok.end
		if _, ok := r.identifier(); !ok {
			return "", false
		}
		if !r.tok.is('.') {
			break
		}
		r.advance()
	}
	if !r.seen() {
		return "", false
	}
	return string(text[:start]) + to + string(text[end:]), true
}
