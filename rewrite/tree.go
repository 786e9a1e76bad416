package rewrite

import (
	"errors"
	"reflect"
	"strings"

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
	tree, reason := parse(p, a.text, a.mode)
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
	if !c.Converted {
		return
	}
	if c.Convert.Reason = a.obstacle(tree); c.Convert.Reason != ReasonNone {
		return
	}
	// MEMORY takes USING HASH. With InnoDB MySQL warns of it, and MariaDB makes another kind of index; with MyISAM they do so, too.
	hashes := a.hashes
	if c.Engine != EngineMemory {
		hashes = nil
	}
	toInnoDB(tree, len(hashes) > 0)
	c.Convert = a.variant(p, tree, append(append(cut, hashes...), a.engines...))
}

// variant splices the text and makes sure that the result means want.
func (a *analysis) variant(p *parser.Parser, want *ast.CreateTableStmt, edits []edit) Variant {
	sql := splice(a.text, edits...)
	if len(edits) > 0 {
		got, reason := parse(p, []byte(sql), a.mode)
		if reason != ReasonNone || !sameTree(reflect.ValueOf(want), reflect.ValueOf(got)) {
			return Variant{Reason: ReasonVerify}
		}
	}
	return Variant{SQL: sql}
}

// errPanic stands for a panic of the parser.
var errPanic = errors.New("the parser panicked")

// parse returns the tree of a text that is one CREATE TABLE.
func parse(p *parser.Parser, text []byte, mode Mode) (*ast.CreateTableStmt, Reason) {
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
		return p.Parse(parserText(text, mode), "", "")
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

// parserText returns text as the parser is to see it: without comments, some of which
// it takes for its own, and with character sets and collations that it knows instead
// of those that only servers know.
func parserText(text []byte, mode Mode) string {
	var b strings.Builder
	b.Grow(len(text))
	s := newScanner(text, mode)
	expected := "" // what to write instead of the name that is next
	var before token
	for end := 0; ; {
		t := s.next()
		if t.kind == kindEnd {
			return b.String()
		}
		if t.start > end {
			b.WriteByte(' ')
		}
		end = t.end
		switch {
		case t.is('=') && expected != "":
			b.WriteByte('=')
			continue
		case expected != "" && t.kind != kindPunct && t.kind != kindNumber && !s.word(t, "BINARY") && !s.word(t, "DEFAULT"):
			b.WriteString(expected)
			expected = ""
			continue
		}
		b.Write(s.bytes(t))
		expected = ""
		switch {
		case s.word(t, "SET") && (s.word(before, "CHARACTER") || s.word(before, "CHAR")):
			expected = "utf8mb4"
		case s.word(t, "CHARSET") && !s.isColumn(before):
			expected = "utf8mb4"
		case s.word(t, "COLLATE") && !s.isColumn(before):
			expected = "utf8mb4_bin"
		}
		before = t
	}
}

// isColumn tells whether the word last read, which is behind the token before, is a
// column's name in a list rather than a table option in one.
func (s *scanner) isColumn(before token) bool {
	if !before.is('(') && !before.is(',') {
		return false
	}
	ahead := *s
	return !ahead.next().is('=')
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
	strict := memory && a.mode&MariaDB == 0 // MySQL's MEMORY, which refuses more
	if strict && a.expression {
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
				if memory {
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
			if memory && (part.Desc || part.Expr != nil) {
				return ReasonMemoryRefuses
			}
			indexed = indexed || i == 0 && part.Column != nil && part.Column.Name.L == counter
		}
	}
	if !indexed {
		return ReasonInnoDBAutoIncrement
	}
	return ReasonNone
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
