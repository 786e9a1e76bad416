package rewrite

import (
	"errors"
	"reflect"
	"slices"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // literals, which the parser cannot do without
)

// judge parses the text and, if it is what it seems, fills in the variants.
func (a *analysis) judge() {
	c := a.c
	p := parser.New()
	tree, reason := a.parse(p)
	if reason == ReasonNone && !a.isExpected(tree) {
		reason = ReasonParse
	}
	if reason != ReasonNone {
		a.refuse(reason)
		return
	}
	a.describe(tree)

	var cut []edit
	if c.IfNotExists {
		cut = append(cut, a.cutName)
		tree.IfNotExists = false
	}
	c.Keep = a.variant(p, tree, cut)
	if c.Engine == EngineMyISAM && a.mode&MariaDB == 0 {
		c.Keep = Variant{Reason: ReasonMyISAM}
	}
	if c.Engine == EngineAria && c.AutoIncrement {
		c.Keep = Variant{Reason: ReasonAriaAutoIncrement}
	}
	if !c.Converted {
		return
	}
	if c.Convert.Reason = a.obstacle(tree); c.Convert.Reason != ReasonNone {
		return
	}
	c.Convert = a.converted(p, tree, cut)
}

// judgeSelect returns the text of a table made AS SELECT with another engine. The
// parser need not know the SELECT: what stands before it is judged alone.
func (a *analysis) judgeSelect() Variant {
	c := a.c
	if !a.opt.ConvertSelect || !a.opt.Convert.Has(c.Engine) {
		return Variant{Reason: ReasonAsSelect}
	}
	query := a.text[a.query:]
	a.text = a.text[:a.query]
	p := parser.New()
	tree, reason := a.parse(p)
	if reason == ReasonNone && !a.isExpected(tree) {
		reason = ReasonParse
	}
	if reason != ReasonNone {
		return Variant{Reason: reason}
	}
	a.describe(tree)
	if reason := a.obstacle(tree); reason != ReasonNone {
		return Variant{Reason: reason}
	}
	v := a.converted(p, tree, nil)
	if v.Reason == ReasonNone {
		v.SQL += string(query)
	}
	return v
}

// converted splices the text for InnoDB.
func (a *analysis) converted(p *parser.Parser, tree *ast.CreateTableStmt, edits []edit) Variant {
	// MEMORY takes USING HASH. With InnoDB MySQL warns of it, and MariaDB makes another kind of index; with MyISAM they do so, too.
	hashes := a.hashes
	if a.c.Engine != EngineMemory {
		hashes = nil
	}
	toInnoDB(tree, len(hashes) > 0)
	return a.variant(p, tree, append(append(edits, hashes...), a.engines...))
}

// parse returns the tree of the text. Only if the parser does not take it the gaps are
// filled, in the variants then, too.
func (a *analysis) parse(p *parser.Parser) (*ast.CreateTableStmt, Reason) {
	text, _ := parserText(a.text, a.mode, false)
	tree, reason := parse(p, text, a.mode)
	if reason != ReasonParse && reason != ReasonParseWarning {
		return tree, reason
	}
	filled, refused := parserText(a.text, a.mode, true)
	if filled == text {
		return nil, reason
	}
	a.fill = true
	if refused.Has(a.c.Engine) {
		a.noConvert = ReasonMemoryRefuses
	}
	return parse(p, filled, a.mode)
}

// variant splices the text and makes sure that the result means want.
func (a *analysis) variant(p *parser.Parser, want *ast.CreateTableStmt, edits []edit) Variant {
	sql := splice(a.text, edits...)
	if len(edits) > 0 {
		text, _ := parserText([]byte(sql), a.mode, a.fill)
		got, reason := parse(p, text, a.mode)
		if reason != ReasonNone || !sameTree(reflect.ValueOf(want), reflect.ValueOf(got)) {
			return Variant{Reason: ReasonVerify}
		}
	}
	return Variant{SQL: sql}
}

// errPanic stands for a panic of the parser.
var errPanic = errors.New("the parser panicked")

// parse returns the tree of a text for the parser that is one CREATE TABLE.
func parse(p *parser.Parser, text string, mode Mode) (*ast.CreateTableStmt, Reason) {
	var sqlMode mysql.SQLMode
	if mode&ANSIQuotes != 0 {
		sqlMode |= mysql.ModeANSIQuotes
	}
	if mode&NoBackslashEscapes != 0 {
		sqlMode |= mysql.ModeNoBackslashEscapes
	}
	p.SetSQLMode(sqlMode)
	nodes, warnings, err := func() (nodes []ast.StmtNode, warnings []error, err error) {
		// The text is a client's; whatever it does to the parser must not end the proxy.
		defer func() {
			if recover() != nil {
				err = errPanic
			}
		}()
		return p.Parse(text, "", "")
	}()
	if err != nil || len(nodes) != 1 {
		return nil, ReasonParse
	}
	if len(warnings) > 0 {
		return nil, ReasonParseWarning
	}
	tree, ok := nodes[0].(*ast.CreateTableStmt)
	if !ok {
		return nil, ReasonParse
	}
	return tree, ReasonNone
}

// isExpected tells whether the parser sees what we saw.
func (a *analysis) isExpected(tree *ast.CreateTableStmt) bool {
	engines := 0
	for _, o := range tree.Options {
		if o.Tp == ast.TableOptionEngine {
			engines++
		}
	}
	return tree.TemporaryKeyword == ast.TemporaryLocal && tree.IfNotExists == a.c.IfNotExists &&
		tree.Table.Name.O == a.c.Name.Name && tree.Table.Schema.O == a.c.Name.Schema &&
		tree.ReferTable == nil && tree.Select == nil && tree.Partition == nil && len(tree.SplitIndex) == 0 &&
		engines == len(a.engines)
}

// describe notes what the definitions hold.
func (a *analysis) describe(tree *ast.CreateTableStmt) {
	c := a.c
	for _, col := range tree.Cols {
		switch col.Tp.GetType() {
		case mysql.TypeString, mysql.TypeVarchar, mysql.TypeVarString, mysql.TypeEnum, mysql.TypeSet,
			mysql.TypeTinyBlob, mysql.TypeBlob, mysql.TypeMediumBlob, mysql.TypeLongBlob:
			c.CharacterColumns = c.CharacterColumns || col.Tp.GetCharset() != charset.CharsetBin
		}
		for _, o := range col.Options {
			switch o.Tp {
			case ast.ColumnOptionPrimaryKey:
				c.PrimaryKey = true
			case ast.ColumnOptionAutoIncrement:
				c.AutoIncrement = true
			}
		}
	}
	for _, k := range tree.Constraints {
		if k.Tp == ast.ConstraintPrimaryKey {
			c.PrimaryKey = true
		}
	}
}

// obstacle returns why the table cannot be converted to InnoDB, as far as the server
// would not simply refuse the result.
func (a *analysis) obstacle(tree *ast.CreateTableStmt) Reason {
	if a.noConvert != ReasonNone {
		return a.noConvert
	}
	memory := a.c.Engine == EngineMemory
	onMySQL := a.mode&MariaDB == 0 // where all these engines refuse more
	if memory && onMySQL && a.expression {
		return ReasonMemoryRefuses
	}
	counter := ""   // the AUTO_INCREMENT column
	indexed := true // it is the first column of a key
	for _, col := range tree.Cols {
		for _, o := range col.Options {
			switch o.Tp {
			case ast.ColumnOptionReference:
				return ReasonForeignKey
			case ast.ColumnOptionGenerated:
				// MEMORY takes none, Aria and MySQL's MyISAM take no index on a virtual one.
				if memory || !o.Stored && (onMySQL || a.c.Engine == EngineAria) {
					return ReasonMemoryRefuses
				}
			case ast.ColumnOptionAutoIncrement:
				counter = col.Name.Name.L
				indexed = false
			}
		}
		if col.Name.Name.L != counter {
			continue
		}
		for _, o := range col.Options {
			indexed = indexed || o.Tp == ast.ColumnOptionPrimaryKey || o.Tp == ast.ColumnOptionUniqKey
		}
	}
	for _, k := range tree.Constraints {
		switch k.Tp {
		case ast.ConstraintForeignKey:
			return ReasonForeignKey
		case ast.ConstraintFulltext:
			return ReasonInnoDBFulltext
		}
		for i, part := range k.Keys {
			// MariaDB's MEMORY ignores DESC.
			if (memory || onMySQL) && (part.Desc || part.Expr != nil) {
				return ReasonMemoryRefuses
			}
			indexed = indexed || i == 0 && part.Column != nil && part.Column.Name.L == counter
		}
	}
	switch {
	case !indexed:
		return ReasonInnoDBAutoIncrement
	case hasKeyBeyond(a.longestKey(), tree, a.c.AsSelect && !memory):
		return ReasonInnoDBKeyLength
	}
	return ReasonNone
}

// longestKey returns how many bytes a key may have that the engine and InnoDB take alike.
func (a *analysis) longestKey() int {
	switch {
	case a.compact:
		return 767
	case a.c.Engine == EngineMemory:
		return 3072
	}
	return 1000
}

// hasKeyBeyond tells whether a key may be longer than most bytes. With more, there may be
// columns besides those that are defined.
func hasKeyBeyond(most int, tree *ast.CreateTableStmt, more bool) bool {
	width := func(name string, prefix int, unique bool) int {
		i := slices.IndexFunc(tree.Cols, func(col *ast.ColumnDef) bool { return col.Name.Name.L == name })
		switch {
		case i < 0 && more:
			return most + 1
		case i < 0:
			return 0 // an error
		}
		n, kind := prefix, tree.Cols[i].Tp
		switch kind.GetType() {
		case mysql.TypeString, mysql.TypeVarchar, mysql.TypeVarString:
			if n <= 0 {
				n = max(kind.GetFlen(), 1)
			}
		case mysql.TypeTinyBlob, mysql.TypeBlob, mysql.TypeMediumBlob, mysql.TypeLongBlob:
			switch {
			case n <= 0 && unique:
				return 0 // MariaDB has a hash of all of it
			case n <= 0:
				return most + 1
			}
		default:
			return 16 // more than any other type takes
		}
		if kind.GetCharset() != charset.CharsetBin {
			n *= 4 // the most that a character takes
		}
		return n
	}
	for _, col := range tree.Cols {
		for _, o := range col.Options {
			if (o.Tp == ast.ColumnOptionPrimaryKey || o.Tp == ast.ColumnOptionUniqKey) && width(col.Name.Name.L, 0, true) > most {
				return true
			}
		}
	}
	for _, k := range tree.Constraints {
		n, unique := 0, k.Tp != ast.ConstraintKey && k.Tp != ast.ConstraintIndex
		for _, part := range k.Keys {
			if part.Column != nil {
				n += width(part.Column.Name.L, part.Length, unique)
			}
		}
		if n > most {
			return true
		}
	}
	return false
}

// toInnoDB makes of the tree what the spliced text must mean.
func toInnoDB(tree *ast.CreateTableStmt, withoutHash bool) {
	for _, o := range tree.Options {
		if o.Tp == ast.TableOptionEngine {
			o.StrValue = "InnoDB"
		}
	}
	for _, k := range tree.Constraints {
		if !withoutHash || k.Option == nil || k.Option.Tp != ast.IndexTypeHash {
			continue
		}
		if k.Option.Tp = ast.IndexTypeInvalid; k.Option.IsEmpty() {
			k.Option = nil
		}
	}
}

// sameTree compares two syntax trees by all but the places in the text.
func sameTree(a, b reflect.Value) bool {
	if a.Kind() != b.Kind() || a.IsValid() && a.Type() != b.Type() {
		return false
	}
	switch a.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		return sameTree(a.Elem(), b.Elem())
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !sameTree(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		if a.Type() == nodeType {
			return true // text and offset
		}
		for i := range a.NumField() {
			if !sameTree(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Comparable() && a.Equal(b)
}

// nodeType is the struct that every node of a tree embeds for its place in the text.
var nodeType = func() reflect.Type {
	f, _ := reflect.TypeFor[ast.Constraint]().FieldByName("node")
	return f.Type
}()
