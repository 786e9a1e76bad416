package rewrite

import "strings"

// Name is the name of a table, unquoted. Schema is "" when the name was not
// qualified.
type Name struct{ Schema, Name string }

// Plain tells whether the name, and the schema if there is one, are made of ASCII
// letters, digits, _ and $, and not of digits alone.
func (n Name) Plain() bool {
	return isPlainName(n.Name) && (n.Schema == "" || isPlainName(n.Schema))
}

func isPlainName(name string) bool {
	digits := true
	for i := range len(name) {
		if !isPlain(name[i]) {
			return false
		}
		digits = digits && isDigit(name[i])
	}
	return !digits
}

// name reads a table name. Double quotes are refused: what they mean depends on
// ANSI_QUOTES.
func (r *reader) name() (Name, bool) {
	part, ok := r.identifier()
	if !ok || !r.tok.is('.') {
		return Name{Name: part}, ok
	}
	r.advance()
	n := Name{Schema: part}
	n.Name, ok = r.identifier()
	return n, ok
}

func (r *reader) identifier() (string, bool) {
	if r.tok.kind != kindWord && r.tok.kind != kindQuoted {
		return "", false
	}
	id := r.unquoted(r.tok)
	r.advance()
	return id, id != ""
}

// finished tells whether nothing follows the current token but ';' and blanks, and
// that all that was read is beyond doubt.
func (r *reader) finished() bool {
	comments := r.comments
	semicolon := r.tok.is(';')
	for r.tok.is(';') {
		r.advance()
	}
	return r.tok.kind == kindEnd && !(semicolon && r.comments > comments) &&
		!r.executable && !r.doubtful && !r.ambiguous && !r.foreign
}

// Drop is a DROP TABLE statement.
type Drop struct {
	Temporary bool
	IfExists  bool
	Plain     bool // all names are plain
	Tables    []Name
}

// ParseDrop reads DROP [TEMPORARY] TABLE[S] [IF EXISTS] names [RESTRICT | CASCADE].
// It answers false for everything else, and when a name is a reserved word without
// quotes, which the server would refuse.
func ParseDrop(text []byte, mode Mode) (Drop, bool) {
	r := reader{scanner: newScanner(text, mode)}
	r.advance()
	if !r.accept("DROP") {
		return Drop{}, false
	}
	d := Drop{Temporary: r.accept("TEMPORARY"), Plain: true}
	if !r.accept("TABLE") && !r.accept("TABLES") {
		return Drop{}, false
	}
	if r.accept("IF") {
		if !r.accept("EXISTS") {
			return Drop{}, false
		}
		d.IfExists = true
	}
	for {
		if r.tok.kind == kindWord && isReserved(r.bytes(r.tok), mode) {
			return Drop{}, false
		}
		n, ok := r.name()
		if !ok {
			return Drop{}, false
		}
		d.Plain = d.Plain && n.Plain()
		d.Tables = append(d.Tables, n)
		if !r.tok.is(',') {
			break
		}
		r.advance()
	}
	if !r.accept("RESTRICT") {
		r.accept("CASCADE")
	}
	if !r.finished() {
		return Drop{}, false
	}
	return d, true
}

// ParseUse reads USE schema.
func ParseUse(text []byte, mode Mode) (schema string, ok bool) {
	r := reader{scanner: newScanner(text, mode)}
	r.advance()
	if !r.accept("USE") {
		return "", false
	}
	schema, ok = r.identifier()
	if !ok || !r.finished() {
		return "", false
	}
	return schema, true
}

// AssignmentKind is what an assignment of a SET statement is about.
type AssignmentKind uint8

// The kinds of assignments.
const (
	AssignUser               AssignmentKind = iota // @x
	AssignSession                                  // x, SESSION x, LOCAL x, @@x, @@session.x, @@local.x
	AssignOneShot                                  // SET TRANSACTION, @@transaction_isolation and the like: the next transaction only
	AssignSessionTransaction                       // SET SESSION TRANSACTION
	AssignGlobal                                   // GLOBAL, PERSIST, PERSIST_ONLY, in all spellings
	AssignNames                                    // SET NAMES
	AssignCharset                                  // SET CHARACTER SET
	AssignRole                                     // SET ROLE
	AssignDefaultRole                              // SET DEFAULT ROLE
	AssignPassword                                 // SET PASSWORD
	AssignOther                                    // SET RESOURCE GROUP
)

// Assignment is one assignment of a SET statement.
type Assignment struct {
	Kind AssignmentKind

	// Key is the variable in lower case, without quotes and scope. SET TRANSACTION
	// assigns transaction_isolation and transaction_read_only; the statements that
	// name no variable have the keys names, character_set, role, default_role,
	// password and resource_group.
	Key string

	// Value is the right side as it was written, "" for a user variable. For
	// AssignNames and AssignCharset it is the character set in lower case and without
	// quotes, with " COLLATE name" behind it if that was given.
	Value string

	// Literal tells that Value is a number, a string or a word that means the same
	// whenever it is assigned: not DEFAULT, not an expression.
	Literal bool

	// ReadOnly tells that the session's transactions, or the next one, become read
	// only, or may.
	ReadOnly bool
}

// ParseSet reads a SET statement, but for MariaDB's SET STATEMENT. It answers false
// for what it does not understand.
func ParseSet(text []byte, mode Mode) ([]Assignment, bool) {
	r := reader{scanner: newScanner(text, mode)}
	r.advance()
	if !r.accept("SET") {
		return nil, false
	}
	var list []Assignment
	for {
		var ok bool
		if list, ok = r.assignments(list); !ok {
			return nil, false
		}
		if !r.tok.is(',') {
			break
		}
		r.advance()
	}
	if !r.finished() {
		return nil, false
	}
	return list, true
}

// assignments reads what stands between two commas of a SET, which for SET
// TRANSACTION is everything.
func (r *reader) assignments(list []Assignment) ([]Assignment, bool) {
	start := r.tok
	switch {
	case start.is('@'):
		return r.variable(list)
	case start.kind == kindQuoted:
		return r.assign(list, AssignSession)
	case start.kind != kindWord:
		return nil, false
	}
	r.advance()
	if r.word(start, "PASSWORD") { // SET PASSWORD [FOR user] = ..
		return r.rest(list, Assignment{Kind: AssignPassword, Key: "password"})
	}
	// A word in front of an assignment sign is a variable, whatever it says.
	if r.tok.is('=') || r.tok.is(':') || r.tok.is('.') {
		return r.assignTo(list, AssignSession, strings.ToLower(r.unquoted(start)))
	}
	switch {
	case r.word(start, "SESSION"), r.word(start, "LOCAL"):
		if r.accept("TRANSACTION") {
			return r.transaction(list, AssignSessionTransaction)
		}
		return r.assign(list, AssignSession)
	case r.word(start, "GLOBAL"):
		if r.accept("TRANSACTION") {
			return r.transaction(list, AssignGlobal)
		}
		return r.assign(list, AssignGlobal)
	case r.word(start, "PERSIST"), r.word(start, "PERSIST_ONLY"):
		return r.assign(list, AssignGlobal)
	case r.word(start, "TRANSACTION"):
		return r.transaction(list, AssignOneShot)
	case r.word(start, "NAMES"):
		return r.charset(list, Assignment{Kind: AssignNames, Key: "names"})
	case r.word(start, "CHARSET"):
		return r.charset(list, Assignment{Kind: AssignCharset, Key: "character_set"})
	case (r.word(start, "CHARACTER") || r.word(start, "CHAR")) && r.accept("SET"):
		return r.charset(list, Assignment{Kind: AssignCharset, Key: "character_set"})
	case r.word(start, "ROLE"):
		return r.rest(list, Assignment{Kind: AssignRole, Key: "role", Literal: true})
	case r.word(start, "DEFAULT") && r.accept("ROLE"):
		return r.rest(list, Assignment{Kind: AssignDefaultRole, Key: "default_role", Literal: true})
	case r.word(start, "RESOURCE") && r.accept("GROUP"):
		return r.rest(list, Assignment{Kind: AssignOther, Key: "resource_group", Literal: true})
	}
	return nil, false
}

// variable reads @x = .., @@x = .. and @@scope.x = ..
func (r *reader) variable(list []Assignment) ([]Assignment, bool) {
	r.advance()
	if !r.tok.is('@') {
		first, last := r.tok, token{}
		for ; !r.ended() && !r.tok.is('=') && !r.tok.is(':'); r.advance() {
			last = r.tok // the name may hold points
		}
		switch last {
		case token{}:
			return nil, false
		case first:
			return r.assignTo(list, AssignUser, strings.ToLower(r.unquoted(first)))
		}
		return r.assignTo(list, AssignUser, strings.ToLower(string(r.text[first.start:last.end])))
	}
	r.advance()
	scope := r.tok
	key, ok := r.identifier()
	if !ok {
		return nil, false
	}
	key = strings.ToLower(key)
	kind := AssignSession
	if r.tok.is('.') && scope.kind == kindWord {
		switch key {
		case "global", "persist", "persist_only":
			kind = AssignGlobal
		case "session", "local":
		default:
			return r.assignTo(list, AssignSession, key) // a structured variable
		}
		r.advance()
		return r.assign(list, kind)
	}
	if isTransactionVariable(key) {
		kind = AssignOneShot
	}
	return r.assignTo(list, kind, key)
}

func isTransactionVariable(key string) bool {
	switch key {
	case "transaction_isolation", "tx_isolation", "transaction_read_only", "tx_read_only":
		return true
	}
	return false
}

// assign reads variable = value.
func (r *reader) assign(list []Assignment, kind AssignmentKind) ([]Assignment, bool) {
	key, ok := r.identifier()
	if !ok {
		return nil, false
	}
	return r.assignTo(list, kind, strings.ToLower(key))
}

// assignTo reads [.part] = value, the part being that of a structured variable.
func (r *reader) assignTo(list []Assignment, kind AssignmentKind, key string) ([]Assignment, bool) {
	if r.tok.is('.') {
		r.advance()
		part, ok := r.identifier()
		if !ok {
			return nil, false
		}
		key += "." + strings.ToLower(part)
	}
	if r.tok.is(':') {
		r.advance()
	}
	if !r.tok.is('=') {
		return nil, false
	}
	r.advance()
	a := Assignment{Kind: kind, Key: key}
	first, last, ok := r.value()
	if !ok {
		return nil, false
	}
	a.Literal = r.isLiteral(first, last)
	if kind != AssignUser {
		a.Value = string(r.text[first.start:last.end])
	}
	if key == "transaction_read_only" || key == "tx_read_only" {
		switch strings.ToUpper(strings.Trim(a.Value, `'"`)) {
		case "0", "OFF", "FALSE":
		default:
			a.ReadOnly = true
		}
	}
	return append(list, a), true
}

// value reads an expression up to a comma or the end, and returns its first and last
// token.
func (r *reader) value() (first, last token, ok bool) {
	first = r.tok
	depth := 0
	for ; !r.ended() && !(depth == 0 && r.tok.is(',')); r.advance() {
		switch {
		case r.tok.is('('):
			depth++
		case r.tok.is(')'):
			depth--
		}
		last = r.tok
		if depth < 0 {
			return first, last, false
		}
	}
	return first, last, depth == 0 && last.kind != kindEnd
}

// isLiteral tells whether the tokens first to last are one string, one number with or
// without a sign, or one word but DEFAULT.
func (r *reader) isLiteral(first, last token) bool {
	if (first.is('-') || first.is('+')) && first.end == last.start {
		return last.kind == kindNumber
	}
	if first != last {
		return false
	}
	switch first.kind {
	case kindString, kindDouble, kindNumber:
		return true
	case kindWord:
		return !r.word(first, "DEFAULT") && !isNiladic(r.bytes(first))
	}
	return false
}

// isNiladic tells whether the word w is a function that needs no parentheses.
func isNiladic(w []byte) bool {
	for _, f := range [...]string{
		"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "CURRENT_ROLE",
		"LOCALTIME", "LOCALTIMESTAMP", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP",
	} {
		if equalFold(w, f) {
			return true
		}
	}
	return false
}

// transaction reads what follows SET .. TRANSACTION.
func (r *reader) transaction(list []Assignment, kind AssignmentKind) ([]Assignment, bool) {
	for {
		a := Assignment{Kind: kind, Literal: true}
		switch {
		case r.accept("ISOLATION"):
			if !r.accept("LEVEL") {
				return nil, false
			}
			a.Key = "transaction_isolation"
			switch {
			case r.accept("SERIALIZABLE"):
				a.Value = "SERIALIZABLE"
			case r.accept("REPEATABLE") && r.accept("READ"):
				a.Value = "REPEATABLE-READ"
			case r.accept("READ") && r.accept("COMMITTED"):
				a.Value = "READ-COMMITTED"
			case r.accept("UNCOMMITTED"):
				a.Value = "READ-UNCOMMITTED"
			default:
				return nil, false
			}
		case r.accept("READ"):
			a.Key = "transaction_read_only"
			switch {
			case r.accept("ONLY"):
				a.Value, a.ReadOnly = "ON", true
			case r.accept("WRITE"):
				a.Value = "OFF"
			default:
				return nil, false
			}
		default:
			return nil, false
		}
		list = append(list, a)
		if !r.tok.is(',') {
			return list, r.ended()
		}
		r.advance()
	}
}

// charset reads the character set of SET NAMES and SET CHARACTER SET.
func (r *reader) charset(list []Assignment, a Assignment) ([]Assignment, bool) {
	switch {
	case r.accept("DEFAULT"):
		a.Value = "DEFAULT"
		return append(list, a), true
	case r.tok.kind == kindWord, r.tok.kind == kindString, r.tok.kind == kindDouble:
	default:
		return nil, false // MariaDB takes no expression here either
	}
	a.Value = strings.ToLower(r.unquoted(r.tok))
	a.Literal = true
	r.advance()
	if a.Kind == AssignNames && r.accept("COLLATE") {
		if r.accept("DEFAULT") {
			return append(list, a), true
		}
		if r.tok.kind != kindWord && r.tok.kind != kindString && r.tok.kind != kindDouble {
			return nil, false
		}
		a.Value += " COLLATE " + strings.ToLower(r.unquoted(r.tok))
		r.advance()
	}
	return append(list, a), true
}

// rest takes everything up to the end of the statement as the value.
func (r *reader) rest(list []Assignment, a Assignment) ([]Assignment, bool) {
	start, end := r.tok.start, r.tok.start
	for ; !r.ended(); r.advance() {
		end = r.tok.end
	}
	a.Value = string(r.text[start:end])
	return append(list, a), true
}
