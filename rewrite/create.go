package rewrite

import (
	"fmt"
	"slices"
	"strings"
)

// Engine is a storage engine, as far as the rules tell engines apart.
type Engine uint8

// The engines.
const (
	EngineNone   Engine = iota // no ENGINE option
	EngineInnoDB               // InnoDB
	EngineMemory               // MEMORY, HEAP
	EngineMyISAM               // MyISAM
	EngineAria                 // Aria, on MariaDB
	EngineOther                // any other
)

// engineOf returns the engine of a name. MySQL knows of no Aria.
func engineOf(name string, mode Mode) Engine {
	switch strings.ToLower(name) {
	case "innodb":
		return EngineInnoDB
	case "memory", "heap":
		return EngineMemory
	case "myisam":
		return EngineMyISAM
	case "aria":
		if mode&MariaDB != 0 {
			return EngineAria
		}
	}
	return EngineOther
}

// EngineSet is a set of engines.
type EngineSet uint8

// Has tells whether e is in s.
func (s EngineSet) Has(e Engine) bool { return s&(1<<e) != 0 }

// ParseEngineSet returns the set of the engines named, which must be ones that can be
// converted: MEMORY or HEAP, MyISAM, Aria. Letter case does not matter.
func ParseEngineSet(names []string) (EngineSet, error) {
	var set EngineSet
	for _, name := range names {
		switch e := engineOf(strings.TrimSpace(name), MariaDB); e {
		case EngineMemory, EngineMyISAM, EngineAria:
			set |= 1 << e
		default:
			return 0, fmt.Errorf("engine %q cannot be converted: only MEMORY, HEAP, MyISAM and Aria can", name)
		}
	}
	return set, nil
}

// Variant is the outcome for one strategy. SQL is set if and only if Reason is
// ReasonNone.
type Variant struct {
	SQL    string
	Reason Reason
}

// Create is what is known of a CREATE TEMPORARY TABLE. It is shared by all sessions
// and must not be changed.
type Create struct {
	// Named tells that Name is the table's name, which is so even for most texts that
	// are not eligible.
	Named bool
	Name  Name

	// IfNotExists tells that the text says IF NOT EXISTS, which the variants do not: a
	// table of that name that is not known must give an error rather than be adopted.
	IfNotExists bool

	// OrReplace tells that the text says OR REPLACE, which only MariaDB takes. The
	// variants say so, too: a table of that name that is not known is replaced as by the
	// client's own text. What the client sees is a new table, whatever there was: no
	// commit, no warnings, a row count of 0. So a parked table of the same Shape, which
	// does not contain OR REPLACE, may stand for it, and a live one once it is emptied.
	// Unlike with a CREATE that finds its table, an error other than one of syntax may
	// have dropped the table that was there.
	OrReplace bool

	// Engine is the engine of the last ENGINE option, EngineName its name as written,
	// without quotes.
	Engine     Engine
	EngineName string

	// Shape is the text behind the name, without comments and with white space
	// normalized. Equal shapes make equal tables in equal contexts. It is "" when the
	// text could not be cut into tokens.
	Shape string

	// Convert is what to send under the strategy innodb, Keep under keep. They are
	// equal when the engine is not one to convert.
	Convert, Keep Variant

	// Converted tells that Convert changes the engine, or would but for its Reason.
	Converted bool

	// AsSelect tells that the table is made of a SELECT. Such a table is never cached;
	// both variants have ReasonAsSelect. Select is the client's text with another engine
	// and nothing else changed, IF NOT EXISTS included, if Options.ConvertSelect allows
	// it, and otherwise has the reason why not. It is the zero Variant when AsSelect is
	// false.
	AsSelect bool
	Select   Variant

	// Like is the table whose structure is taken, its Name "" when the text is not CREATE
	// .. LIKE or that name is not plain.
	Like Name

	// What the definitions hold, as far as they were parsed: with all reasons other than
	// ReasonNone these may be false for want of a parse. Of a table made AS SELECT they
	// tell nothing about the columns that the SELECT adds.
	PrimaryKey       bool
	AutoIncrement    bool
	CharacterColumns bool // columns of character types, whatever they say of their character set
}

// Options is what a decision depends on besides the text.
type Options struct {
	Mode      Mode
	Convert   EngineSet
	MaxCreate int // the longest text that is parsed, in bytes; 0 for any
	Version   int // the server's version, 90704 or 101119: no rule asks for it, but a Cache keeps servers apart by it

	// ConvertSelect has Create.Select filled in.
	ConvertSelect bool
}

// Analyze judges a CREATE TEMPORARY TABLE. The result is never nil; for a text that is
// something else it says so in its reasons. It is safe for concurrent use and keeps no
// reference to text.
func Analyze(text []byte, opt Options) *Create {
	a := analysis{reader: reader{scanner: newScanner(text, opt.Mode)}, opt: opt, c: &Create{}}
	a.run()
	return a.c
}

// analysis is one run of Analyze.
type analysis struct {
	reader
	opt    Options
	c      *Create
	tokens []token // what follows the name, without ';'

	cutName    edit   // takes IF NOT EXISTS away
	engines    []edit // change the engine
	hashes     []edit // take USING HASH away
	noConvert  Reason // why it may be kept but not converted
	options    int    // the index of the first token behind the definitions, 0 if there are none
	query      int    // where in the text AS SELECT begins, 0 if that was not read
	expression bool   // a column has DEFAULT (..)
	compact    bool   // ROW_FORMAT is one of those in which InnoDB takes shorter keys only
	fill       bool   // the parser takes the text only with its gaps filled
}

// edit replaces text[start:end].
type edit struct {
	start, end int
	text       string
}

func (a *analysis) run() {
	c := a.c
	reason := a.readHead()
	switch {
	case a.opt.MaxCreate > 0 && len(a.text) > a.opt.MaxCreate:
		reason = ReasonTooLong
	case c.Named:
		more := a.readTokens()
		if more == ReasonNone {
			c.Shape = a.shape()
			more = a.readBody()
		}
		if reason == ReasonNone {
			reason = more
		}
	}
	if a.hint {
		reason = ReasonHint
	}
	if reason != ReasonNone {
		a.refuse(reason)
		switch reason {
		case ReasonAsSelect:
			c.AsSelect = true
			c.Select = a.judgeSelect()
		case ReasonLike:
			c.Like = a.readLike()
		}
		return
	}
	if c.Engine == EngineOther {
		a.refuse(ReasonEngine)
		return
	}
	c.Converted = a.opt.Convert.Has(c.Engine)
	a.judge()
	if !c.Converted {
		c.Convert = c.Keep
	}
}

// refuse makes neither variant eligible.
func (a *analysis) refuse(reason Reason) {
	a.c.Convert = Variant{Reason: reason}
	a.c.Keep = a.c.Convert
}

// readHead reads up to the name.
func (a *analysis) readHead() Reason {
	c := a.c
	a.advance()
	if !a.accept("CREATE") {
		if a.on("SET") {
			return ReasonSetStatement
		}
		return ReasonParse
	}
	if a.accept("OR") {
		if !a.accept("REPLACE") {
			return ReasonParse
		}
		c.OrReplace = true
	}
	if !a.accept("TEMPORARY") || !a.accept("TABLE") {
		return ReasonParse
	}
	if a.on("IF") {
		a.cutName.start = a.tok.start
		a.advance()
		if !a.accept("NOT") || !a.accept("EXISTS") {
			return ReasonParse
		}
		a.cutName.end = a.tok.start
		c.IfNotExists = true
	}
	quoted := a.tok.kind == kindDouble
	c.Name, c.Named = a.name()
	switch {
	case a.executable:
		// The content may not be executed at all.
		c.Name, c.Named = Name{}, false
		return ReasonExecutableComment
	case quoted:
		return ReasonQuotes
	case !c.Named:
		return ReasonParse
	case c.OrReplace && (a.mode&MariaDB == 0 || c.IfNotExists): // both are errors
		return ReasonOrReplace
	case !c.Name.Plain() || len(c.Name.Name) > 64 || len(c.Name.Schema) > 64:
		return ReasonName
	}
	return ReasonNone
}

// readTokens reads what follows the name.
func (a *analysis) readTokens() Reason {
	for ; !a.ended(); a.advance() {
		a.tokens = append(a.tokens, a.tok)
	}
	comments := a.comments
	semicolon := a.tok.is(';')
	for a.tok.is(';') {
		a.advance()
	}
	switch {
	case a.executable:
		return ReasonExecutableComment
	case a.doubtful:
		return ReasonParse
	case a.ambiguous:
		return ReasonQuotes
	case a.tok.kind != kindEnd || semicolon && a.comments > comments:
		return ReasonMulti
	}
	return ReasonNone
}

// shape returns the tokens in one form, however they were spaced.
func (a *analysis) shape() string {
	var b strings.Builder
	tight := true
	for _, t := range a.tokens {
		if !tight && !t.is('(') && !t.is(')') && !t.is(',') && !t.is('=') {
			b.WriteByte(' ')
		}
		b.Write(a.bytes(t))
		tight = t.is('(') || t.is('=')
	}
	return b.String()
}

// readBody reads the definitions and the table options.
func (a *analysis) readBody() Reason {
	if len(a.tokens) == 0 {
		return ReasonParse
	}
	if !a.tokens[0].is('(') {
		return a.readOptions()
	}
	if len(a.tokens) > 1 {
		switch t := a.tokens[1]; {
		case a.word(t, "LIKE"):
			return ReasonLike
		case t.is('('), a.word(t, "SELECT"), a.word(t, "WITH"), a.word(t, "TABLE"), a.word(t, "VALUES"):
			return ReasonAsSelect
		}
	}
	if reason := a.readDefinitions(); reason != ReasonNone {
		return reason
	}
	return a.readOptions()
}

// readDefinitions reads the column and key definitions as far as the tree of the
// parser does not tell about them.
func (a *analysis) readDefinitions() Reason {
	depth := 0
	list := 0 // the depth of the parentheses behind ENUM or SET
	for i, t := range a.tokens {
		var before token
		if i > 0 {
			before = a.tokens[i-1]
		}
		switch {
		case t.is('('):
			depth++
			if a.word(before, "ENUM") || a.word(before, "SET") {
				list = depth
			}
			if a.word(before, "DEFAULT") {
				a.expression = true
			}
		case t.is(')'):
			if list == depth {
				list = 0
			}
			if depth--; depth == 0 {
				a.options = i + 1
				return ReasonNone
			}
		case t.kind == kindDouble:
			if !a.mayQuote(before, list == depth) {
				return ReasonQuotes
			}
		case a.word(t, "HASH") && (a.word(before, "USING") || a.word(before, "TYPE")):
			a.hashes = append(a.hashes, edit{start: before.start, end: t.end})
		case a.word(t, "ENGINE_ATTRIBUTE"), a.word(t, "SECONDARY_ENGINE_ATTRIBUTE"):
			return ReasonOption
		case a.word(t, "KEY_BLOCK_SIZE"):
			a.noConvert = ReasonInnoDBKeyBlockSize
		case a.word(t, "RTREE") && a.word(before, "USING"):
			a.noConvert = ReasonMemoryRefuses
		case a.mode&MariaDB != 0 && a.usesSequence(i):
			return ReasonSequence
		}
	}
	return ReasonParse
}

// usesSequence tells whether the word at i asks a sequence for its value.
func (a *analysis) usesSequence(i int) bool {
	t := a.tokens[i]
	var before, next token
	if i > 0 {
		before = a.tokens[i-1]
	}
	if i+1 < len(a.tokens) {
		next = a.tokens[i+1]
	}
	switch {
	case a.word(t, "NEXT"), a.word(t, "PREVIOUS"):
		return a.word(next, "VALUE")
	case a.word(t, "NEXTVAL"), a.word(t, "LASTVAL"), a.word(t, "SETVAL"):
		return next.is('(') || before.is('.')
	}
	return false
}

// mayQuote tells whether a double-quoted token behind the token before is a string. On
// MySQL, which does not tell whether ANSI_QUOTES is on, it is one where the server takes
// nothing else.
func (a *analysis) mayQuote(before token, list bool) bool {
	switch {
	case a.mode&ANSIQuotes != 0:
		return false
	case a.mode&MariaDB != 0:
		return true
	case list: // ENUM("a", "b")
		return before.is('(') || before.is(',')
	}
	return a.word(before, "COMMENT") || a.word(before, "DEFAULT")
}

// readOptions reads the table options: a list of harmless ones, and ENGINE. It is
// stricter than the parser, which knows options of other products and does not know
// which ones lead to other tables.
func (a *analysis) readOptions() Reason {
	list := a.tokens[a.options:]
	next := func() (t token) { // passes a token
		if len(list) > 0 {
			t, list = list[0], list[1:]
		}
		return t
	}
	value := func() token { // passes [=] value
		if len(list) > 0 && list[0].is('=') {
			next()
		}
		return next()
	}
	follows := func(w string) bool { return len(list) > 0 && a.word(list[0], w) }
	for len(list) > 0 {
		t := next()
		switch {
		case t.is(','):
		case a.word(t, "ENGINE"):
			v := value()
			if v.kind == kindEnd || v.kind == kindPunct || v.kind == kindNumber {
				return ReasonParse
			}
			a.addEngine(v)
		case a.word(t, "DEFAULT") && (follows("CHARSET") || follows("CHARACTER") || follows("CHAR") || follows("COLLATE")):
		case (a.word(t, "CHARACTER") || a.word(t, "CHAR")) && follows("SET"):
			next()
			value()
		case a.word(t, "CHARSET"), a.word(t, "COLLATE"):
			value()
		case a.word(t, "COMMENT"), a.word(t, "PASSWORD"):
			switch v := value(); {
			case v.kind == kindDouble && a.mode&ANSIQuotes != 0:
				return ReasonQuotes
			case v.kind != kindString && v.kind != kindDouble:
				return ReasonParse
			}
		case a.word(t, "AUTO_INCREMENT"):
			if v := value(); v.kind != kindNumber || !slices.Contains([]string{"0", "1"}, string(a.bytes(v))) {
				return ReasonAutoIncrementStart
			}
		case a.word(t, "ROW_FORMAT"):
			switch v := value(); {
			case a.word(v, "FIXED"), a.word(v, "COMPRESSED"), a.word(v, "PAGE"):
				a.noConvert = ReasonInnoDBRowFormat
			case a.word(v, "COMPACT"), a.word(v, "REDUNDANT"):
				a.compact = true
			}
		case a.word(t, "KEY_BLOCK_SIZE"):
			value()
			a.noConvert = ReasonInnoDBKeyBlockSize
		case a.word(t, "AVG_ROW_LENGTH"), a.word(t, "CHECKSUM"), a.word(t, "DELAY_KEY_WRITE"), a.word(t, "MAX_ROWS"),
			a.word(t, "MIN_ROWS"), a.word(t, "PACK_KEYS"), a.word(t, "STATS_PERSISTENT"), a.word(t, "STATS_AUTO_RECALC"),
			a.word(t, "STATS_SAMPLE_PAGES"), a.word(t, "TABLE_CHECKSUM"), a.word(t, "PAGE_CHECKSUM"):
			if v := value(); v.kind != kindNumber && !a.word(v, "DEFAULT") {
				return ReasonParse
			}
		case a.mode&MariaDB != 0 && (a.word(t, "TRANSACTIONAL") || a.word(t, "ENCRYPTED") || a.word(t, "ENCRYPTION_KEY_ID") ||
			a.word(t, "PAGE_COMPRESSED") || a.word(t, "PAGE_COMPRESSION_LEVEL")):
			switch v := value(); {
			case v.kind == kindDouble && a.mode&ANSIQuotes == 0:
			case v.kind != kindNumber && v.kind != kindWord && v.kind != kindString:
				return ReasonParse
			}
			a.noConvert = ReasonMemoryRefuses
		case a.word(t, "UNION"):
			return ReasonUnion
		case a.word(t, "INSERT_METHOD"):
			return ReasonInsertMethod
		case a.word(t, "CONNECTION"):
			return ReasonConnection
		case a.word(t, "TABLESPACE"):
			return ReasonTablespace
		case (a.word(t, "DATA") || a.word(t, "INDEX")) && follows("DIRECTORY"):
			return ReasonDataDirectory
		case a.word(t, "PARTITION"):
			return ReasonPartition
		case a.word(t, "LIKE"):
			return ReasonLike
		case t.is('('), a.word(t, "AS"), a.word(t, "SELECT"), a.word(t, "IGNORE"), a.word(t, "REPLACE"),
			a.word(t, "WITH") && !follows("SYSTEM"), a.word(t, "TABLE"), a.word(t, "VALUES"):
			a.query = t.start
			return ReasonAsSelect
		default:
			return ReasonOption
		}
	}
	if a.options == 0 {
		return ReasonParse // no definitions, and no SELECT either
	}
	return ReasonNone
}

// readLike reads LIKE name and (LIKE name).
func (a *analysis) readLike() Name {
	list := a.tokens
	if n := len(list); list[0].is('(') && list[n-1].is(')') {
		list = list[1 : n-1]
	}
	var name Name
	part := func(t token) string {
		if t.kind == kindWord && !isReserved(a.bytes(t), a.mode) || t.kind == kindQuoted {
			return a.unquoted(t)
		}
		return ""
	}
	switch {
	case len(list) == 2:
		name.Name = part(list[1])
	case len(list) == 4 && list[2].is('.'):
		name.Schema, name.Name = part(list[1]), part(list[3])
		if name.Schema == "" {
			return Name{}
		}
	}
	if !a.word(list[0], "LIKE") || !name.Plain() {
		return Name{}
	}
	return name
}

// addEngine notes one ENGINE option. The last one wins, but an unknown one would be an
// error of its own.
func (a *analysis) addEngine(v token) {
	c := a.c
	other := c.Engine == EngineOther
	c.EngineName = a.unquoted(v)
	if c.Engine = engineOf(c.EngineName, a.mode); other {
		c.Engine = EngineOther
	}
	e := edit{start: v.start, end: v.end, text: "InnoDB"}
	if v.kind != kindWord {
		if isIdent(a.text[e.start-1]) {
			e.text = " " + e.text
		}
		if isIdent(a.at(e.end)) {
			e.text += " "
		}
	}
	a.engines = append(a.engines, e)
}

// splice returns the text with edits, which are in order, applied.
func splice(text []byte, edits ...edit) string {
	var b strings.Builder
	from := 0
	for _, e := range edits {
		b.Write(text[from:e.start])
		b.WriteString(e.text)
		from = e.end
	}
	b.Write(text[from:])
	return b.String()
}
