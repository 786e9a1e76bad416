package rewrite

import "bytes"

// NameBytes is the name of a table, unquoted, as a part of the text that it was read from. Schema is empty when the name was
// not qualified.
type NameBytes struct{ Schema, Name []byte }

// SoleTable returns the only table whose rows a SELECT, INSERT, REPLACE, UPDATE or DELETE reads or writes; an empty name if
// it reads none. It answers false if there may be more, which is so for every statement that it does not see through: a join,
// a subquery, a common table expression, an executable comment. What triggers of that table, or the query of that view, use
// is not counted. text must be one statement. It does not allocate.
func SoleTable(text []byte, mode Mode) (NameBytes, bool) {
	r := reader{scanner: newScanner(text, mode)}
	r.advance()
	switch {
	case r.accept("SELECT"):
		return r.soleSelect()
	case r.accept("INSERT"), r.accept("REPLACE"):
		r.passWords("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE")
		r.accept("INTO")
		return r.sole(0)
	case r.accept("UPDATE"):
		r.passWords("LOW_PRIORITY", "IGNORE")
		n, ok := r.sole(0)
		if r.accept("AS"); ok && !r.on("SET") {
			_, ok = r.plainIdentifier()
		}
		return n, ok && r.on("SET")
	case r.accept("DELETE"):
		r.passWords("LOW_PRIORITY", "QUICK", "IGNORE")
		if !r.accept("FROM") {
			return NameBytes{}, false
		}
		n, ok := r.sole(0)
		return n, ok && r.endsFrom()
	}
	return NameBytes{}, false
}

// soleSelect goes on behind SELECT.
func (r *reader) soleSelect() (NameBytes, bool) {
	for depth := 0; !r.ended(); r.advance() {
		switch {
		case r.tok.is('('):
			depth++
		case r.tok.is(')'):
			depth--
		case depth == 0 && r.accept("FROM"):
			n, ok := r.sole(1)
			return n, ok && r.endsFrom()
		}
	}
	return NameBytes{}, r.seen() && !r.readsMore(1)
}

// sole reads the table's name, in a text that has the word SELECT so many times.
func (r *reader) sole(selects int) (NameBytes, bool) {
	if r.tok.kind == kindWord && isReserved(r.bytes(r.tok), r.mode) {
		return NameBytes{}, false
	}
	n, ok := r.plainName()
	return n, ok && r.seen() && !r.readsMore(selects)
}

// plainName reads a table's name.
func (r *reader) plainName() (n NameBytes, ok bool) {
	if n.Name, ok = r.plainIdentifier(); ok && r.tok.is('.') {
		r.advance()
		n.Schema = n.Name
		n.Name, ok = r.plainIdentifier()
	}
	return n, ok
}

// plainIdentifier passes an identifier of ASCII letters, digits, _ and $, with or without quotes.
func (r *reader) plainIdentifier() ([]byte, bool) {
	b := r.bytes(r.tok)
	switch r.tok.kind {
	case kindWord:
	case kindQuoted:
		b = b[1 : len(b)-1]
	default:
		return nil, false
	}
	for _, c := range b {
		if !isPlain(c) {
			return nil, false
		}
	}
	r.advance()
	return b, len(b) > 0
}

// endsFrom tells whether the list of tables ends behind the first one, which may have an alias.
func (r *reader) endsFrom() bool {
	if r.accept("AS") {
		if _, ok := r.plainIdentifier(); !ok {
			return false
		}
	}
	for range 2 {
		switch {
		case r.ended(), r.on("WHERE"), r.on("GROUP"), r.on("HAVING"), r.on("ORDER"), r.on("LIMIT"):
			return true
		}
		if _, ok := r.plainIdentifier(); !ok { // an alias
			return false
		}
	}
	return false
}

// seen tells whether what was read so far is beyond doubt.
func (r *reader) seen() bool { return !r.executable && !r.doubtful && !r.ambiguous && !r.foreign }

// readsMore tells whether the text has a word that reads further tables, or SELECT more often than that. Strings and
// comments count.
func (r *reader) readsMore(selects int) bool {
	return countWord(r.text, "select") > selects || countWord(r.text, "table") > 0 || countWord(r.text, "join") > 0 ||
		countWord(r.text, "straight_join") > 0 || bytes.Contains(r.text, []byte("/*!")) || bytes.Contains(r.text, []byte("/*M!"))
}

// Subquery tells whether text may have a subquery. It does not allocate.
func Subquery(text []byte) bool {
	return bytes.IndexByte(text, '(') >= 0 && (countWord(text, "select") > 0 || countWord(text, "table") > 0)
}

// passWords passes any of these words.
func (r *reader) passWords(words ...string) {
	for i := 0; i < len(words); {
		if r.accept(words[i]) {
			i = 0
		} else {
			i++
		}
	}
}

// countWord counts where the word w, in lower case, stands in text.
func countWord(text []byte, w string) int {
	n := 0
	f := newFinder(text, w)
	for i := f.find(0); i >= 0; i = f.find(i + 1) {
		if isBounded(text, i, i+len(w)) {
			n++
		}
	}
	return n
}

// Definition is what SHOW CREATE TABLE says of a table: the second column of its row.
type Definition []byte

// OwnRows tells whether the definition is that of a temporary table whose engine keeps the rows itself, so that TRUNCATE
// empties nothing else: not of a MERGE table, say. It answers false if the definition does not name the engine, as under
// MariaDB's sql_mode NO_TABLE_OPTIONS.
func (d Definition) OwnRows() bool {
	const options = "\n) ENGINE="
	if !bytes.HasPrefix(d, []byte("CREATE TEMPORARY TABLE ")) || bytes.Count(d, []byte(options)) != 1 {
		return false // it may be said twice, in a comment with a line feed in it
	}
	_, rest, _ := bytes.Cut(d, []byte(options))
	name, _, _ := bytes.Cut(rest, []byte(" "))
	switch engineOf(string(name), MariaDB) {
	case EngineInnoDB, EngineMemory, EngineMyISAM, EngineAria:
		return true
	}
	return false
}

// Counts tells whether the definition is that of a table whose next AUTO_INCREMENT value outlives a TRUNCATE: an Aria table that
// has one.
func (d Definition) Counts() bool {
	at := bytes.LastIndex(d, []byte("\n) ENGINE=Aria"))
	return at >= 0 && containsFold(d[:at], "auto_increment")
}

// Copies tells whether the definition, that of a temporary table, is what CREATE .. LIKE makes of another one, that of a permanent table:
// equal but for what the statement and the name are, and the next AUTO_INCREMENT value. It errs to one side only: constraints, say,
// which a copy has under other names or not at all, make a difference.
func (d Definition) Copies(source Definition) bool {
	own, ok := d.cutName("CREATE TEMPORARY TABLE ")
	if !ok {
		return false
	}
	other, ok := source.cutName("CREATE TABLE ")
	return ok && bytes.Equal(withoutNext(own), withoutNext(other))
}

// cutName returns what is behind the name, if the definition begins with those words and has an end.
func (d Definition) cutName(words string) ([]byte, bool) {
	if !bytes.HasPrefix(d, []byte(words)) {
		return nil, false
	}
	_, rest, ok := bytes.Cut(d[len(words):], []byte(" (\n"))
	return rest, ok
}

// withoutNext returns a definition without the option AUTO_INCREMENT=n behind the engine.
func withoutNext(d []byte) []byte {
	const option = " AUTO_INCREMENT="
	at := bytes.LastIndex(d, []byte("\n) ENGINE="))
	if at < 0 {
		return d
	}
	end := at + len("\n) ENGINE=")
	for end < len(d) && isIdent(d[end]) {
		end++
	}
	if !bytes.HasPrefix(d[end:], []byte(option)) {
		return d
	}
	rest := end + len(option)
	for rest < len(d) && isDigit(d[rest]) {
		rest++
	}
	return append(bytes.Clone(d[:end]), d[rest:]...)
}

// NamesNoEngine tells whether the definition is that of a temporary table of an engine that it does not name.
func (d Definition) NamesNoEngine() bool {
	return bytes.HasPrefix(d, []byte("CREATE TEMPORARY TABLE ")) && !bytes.Contains(d, []byte("\n) ENGINE="))
}
