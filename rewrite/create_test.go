package rewrite

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the decisions into the golden file")

// testOptions are those of the golden file's first words.
func testOptions(t testing.TB, words string) Options {
	convert, err := ParseEngineSet([]string{"MEMORY", "HEAP", "MyISAM"})
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Convert: convert, MaxCreate: 2000, Version: 90704}
	for _, w := range strings.Fields(words) {
		switch w {
		case "mysql":
		case "mariadb":
			opt.Mode |= MariaDB
			opt.Version = 101119
		case "ansi":
			opt.Mode |= ANSIQuotes
		case "nbe":
			opt.Mode |= NoBackslashEscapes
		case "aria":
			opt.Convert |= 1 << EngineAria
		case "select":
			opt.ConvertSelect = true
		case "none":
			opt.Convert = 0
		default:
			t.Fatalf("unknown option %q", w)
		}
	}
	return opt
}

// describe writes a decision for the golden file.
func (c *Create) describe(text string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %v %q %q\n", c.Named, c.Name.Schema, c.Name.Name)
	fmt.Fprintf(&b, "engine: %d %q\n", c.Engine, c.EngineName)
	var flags []string
	for flag, set := range map[string]bool{
		"if_not_exists": c.IfNotExists, "or_replace": c.OrReplace, "converted": c.Converted, "primary_key": c.PrimaryKey,
		"auto_increment": c.AutoIncrement, "character_columns": c.CharacterColumns, "as_select": c.AsSelect,
	} {
		if set {
			flags = append(flags, flag)
		}
	}
	slices.Sort(flags)
	fmt.Fprintf(&b, "flags: %s\n", strings.Join(flags, " "))
	fmt.Fprintf(&b, "shape: %s\n", c.Shape)
	if c.Like != (Name{}) {
		fmt.Fprintf(&b, "like: %q %q\n", c.Like.Schema, c.Like.Name)
	}
	type named struct {
		name string
		Variant
	}
	variants := []named{{"keep", c.Keep}, {"convert", c.Convert}}
	if c.AsSelect {
		variants = append(variants, named{"select", c.Select})
	}
	for _, v := range variants {
		switch {
		case v.Reason != ReasonNone:
			fmt.Fprintf(&b, "%s: not, %s\n", v.name, v.Reason)
		case v.SQL == text:
			fmt.Fprintf(&b, "%s: as it is\n", v.name)
		default:
			fmt.Fprintf(&b, "%s: %s\n", v.name, v.SQL)
		}
	}
	return b.String()
}

// TestAnalyzeGolden compares decisions with testdata/create.txt. There a case is a
// line of options, the statement, a line of ----, and the decision; a line of ====
// ends it.
func TestAnalyzeGolden(t *testing.T) {
	const file = "testdata/create.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	seen := make(map[Reason]bool)
	for _, block := range strings.Split(strings.TrimSuffix(string(data), "====\n"), "====\n") {
		head, want, _ := strings.Cut(block, "----\n")
		words, text, ok := strings.Cut(strings.TrimSuffix(head, "\n"), "\n")
		if !ok {
			t.Fatalf("no statement in %q", block)
		}
		c := Analyze([]byte(text), testOptions(t, words))
		seen[c.Convert.Reason], seen[c.Keep.Reason] = true, true
		got := c.describe(text)
		fmt.Fprintf(&out, "%s\n%s\n----\n%s====\n", words, text, got)
		if got != want && !*update {
			t.Errorf("%s\n%s\ngot\n%swant\n%s", words, text, got, want)
		}
		if (c.Convert.SQL != "") == (c.Convert.Reason != ReasonNone) || (c.Keep.SQL != "") == (c.Keep.Reason != ReasonNone) {
			t.Errorf("%s: SQL and reason do not agree", text)
		}
	}
	for r := ReasonNone; r < ReasonCharset; r++ {
		// A splice that changes the meaning is tested by itself.
		if !seen[r] && r != ReasonVerify {
			t.Errorf("no statement has the reason %s", r)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestParseEngineSet(t *testing.T) {
	set, err := ParseEngineSet([]string{"heap", " MyISAM"})
	if err != nil || !set.Has(EngineMemory) || !set.Has(EngineMyISAM) || set.Has(EngineAria) || set.Has(EngineNone) {
		t.Errorf("got %b, %v", set, err)
	}
	for _, name := range []string{"InnoDB", "MERGE", ""} {
		if _, err := ParseEngineSet([]string{"MEMORY", name}); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

func TestReasonString(t *testing.T) {
	seen := make(map[string]bool)
	for r := range Reason(Reasons) {
		name := r.String()
		if name == "" || name == "invalid" || name != strings.ToLower(name) || seen[name] {
			t.Errorf("reason %d is called %q", r, name)
		}
		seen[name] = true
	}
	if got := Reason(Reasons).String(); got != "invalid" {
		t.Errorf("a reason too far is called %q", got)
	}
}

// TestVerify makes sure that a splice that changes anything else is refused.
func TestVerify(t *testing.T) {
	const text = "CREATE TEMPORARY TABLE t (a INT DEFAULT 1, b CHAR(3) COMMENT 'x', PRIMARY KEY USING HASH (a), KEY k (b)) ENGINE=MEMORY MAX_ROWS=3"
	for _, change := range []string{
		"", " t | u ", "(a INT|(c INT", "INT|INT UNSIGNED", "1,|2,", "CHAR(3)|CHAR(4)", "'x'|'y'", "PRIMARY|UNIQUE", "(a)|(b)", "HASH|BTREE",
		"KEY k (b)|KEY k (b DESC)", "KEY k (b)|KEY l (b)", ", KEY k (b)|", "=3|=4", "MAX_ROWS=3|", "MAX_ROWS|MIN_ROWS", "MEMORY|MyISAM",
		"DEFAULT 1|DEFAULT '1'", "DEFAULT 1|NOT NULL", "TEMPORARY |", "TABLE t|TABLE IF NOT EXISTS t", "TABLE t|TABLE s.t",
	} {
		a := analysis{reader: reader{scanner: newScanner([]byte(text), 0)}, c: &Create{}}
		p := parser.New()
		tree, reason := parse(p, text, 0)
		if reason != ReasonNone {
			t.Fatal(reason)
		}
		old, new, _ := strings.Cut(change, "|")
		at := strings.Index(text, old)
		v := a.variant(p, tree, []edit{{at, at + len(old), new}})
		if want := change != ""; (v.Reason == ReasonVerify) != want {
			t.Errorf("%q: %+v", change, v)
		}
	}
}

// TestSplice builds statements of all sorts of pieces and compares what the parser
// writes for the statement and for its variants, which must differ by the engine, IF
// NOT EXISTS and, for MEMORY, USING HASH alone.
func TestSplice(t *testing.T) {
	sample := func(t *rapid.T, label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	rapid.Check(t, func(t *rapid.T) {
		gap := func() string {
			return sample(t, "gap", " ", " ", "\t", "\n", "/* ; ' */", " -- ENGINE=x '\n", "#\n", "  ")
		}
		var b strings.Builder
		words := func(list ...string) {
			for _, w := range list {
				b.WriteString(w)
				b.WriteString(gap())
			}
		}
		words("CREATE", "TEMPORARY", "table")
		ifNotExists := rapid.Bool().Draw(t, "if not exists")
		if ifNotExists {
			words("IF", "not", "EXISTS")
		}
		words(sample(t, "name", "t", "`t`", "db.t", "db . `t`"), "(")
		columns := rapid.IntRange(1, 4).Draw(t, "columns")
		for i := range columns {
			if i > 0 {
				words(",")
			}
			words(fmt.Sprintf(sample(t, "column", "c%d", "`c%d`", "engine%d"), i),
				sample(t, "type", "INT", "BIGINT UNSIGNED", "VARCHAR(20)", "DECIMAL(10,2)", "ENUM('a','b;')", "DATETIME", "VARBINARY(9)"),
				sample(t, "null", "", "NOT NULL", "NULL"),
				sample(t, "comment", "", "COMMENT 'it''s; ENGINE=HEAP'", "COMMENT '\\\\'", "COMMENT \"x\""))
		}
		for range rapid.IntRange(0, 3).Draw(t, "keys") {
			words(",", sample(t, "key", "KEY", "INDEX", "UNIQUE KEY", "PRIMARY KEY"), sample(t, "before", "", "USING HASH", "USING/**/hash", "USING BTREE"))
			words("(`c0`)", sample(t, "behind", "", "COMMENT 'k'"))
		}
		words(")")
		engine := ""
		for i := range rapid.IntRange(0, 3).Draw(t, "options") {
			if i > 0 {
				b.WriteString(sample(t, "comma", "", "", ","))
			}
			o := sample(t, "option", "ENGINE=MEMORY", "ENGINE HEAP", "engine='MyISAM'", "ENGINE=`InnoDB`", "COMMENT='ENGINE=HEAP'", "MAX_ROWS 5", "DEFAULT CHARSET=utf8mb4")
			if strings.HasPrefix(strings.ToUpper(o), "ENGINE") {
				engine = strings.Trim(o[7:], "'`")
			}
			words(o)
		}
		text := b.String()
		opt := Options{Convert: 1<<EngineMemory | 1<<EngineMyISAM, Mode: MariaDB}
		c := Analyze([]byte(text), opt)
		if c.Keep.Reason != ReasonNone || c.Convert.Reason != ReasonNone {
			t.Fatalf("%s\nrefused: %s, %s", text, c.Keep.Reason, c.Convert.Reason)
		}
		if converted := engine != "" && engine != "InnoDB"; c.Converted != converted || c.EngineName != engine {
			t.Errorf("%s\nengine %q, converted %v", text, c.EngineName, c.Converted)
		}
		original := restore(t, text, false, false)
		if got := restore(t, c.Keep.SQL, false, false); got != strings.Replace(original, "IF NOT EXISTS ", "", 1) {
			t.Errorf("%s\nkept as %s", text, c.Keep.SQL)
		}
		if c.Converted {
			if got := restore(t, c.Convert.SQL, false, false); got != restore(t, text, true, engine != "MyISAM") {
				t.Errorf("%s\nconverted to %s", text, c.Convert.SQL)
			}
		}
		// Nothing is left to do.
		for _, sql := range []string{c.Keep.SQL, c.Convert.SQL} {
			if again := Analyze([]byte(sql), opt); again.Keep.SQL != sql || again.IfNotExists || again.Name != c.Name {
				t.Errorf("%s\nbecomes %+v", sql, again)
			}
		}
		if again := Analyze([]byte(c.Convert.SQL), opt); again.Converted || again.Convert.SQL != c.Convert.SQL {
			t.Errorf("%s\nbecomes %+v", c.Convert.SQL, again)
		}
		if strings.ContainsAny(c.Shape, "\n\t") || c.Shape == "" {
			t.Errorf("shape %q", c.Shape)
		}
	})
}

// restore returns what the parser writes for sql, after conversion to InnoDB if that
// is asked for.
func restore(t *rapid.T, sql string, convert, withoutHash bool) string {
	nodes, _, err := parser.New().Parse(sql, "", "")
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	tree := nodes[0].(*ast.CreateTableStmt)
	if convert {
		tree.IfNotExists = false
		for _, o := range tree.Options {
			if o.Tp == ast.TableOptionEngine {
				o.StrValue = "InnoDB"
			}
		}
		for _, k := range tree.Constraints {
			if withoutHash && k.Option != nil && k.Option.Tp == ast.IndexTypeHash {
				k.Option.Tp = ast.IndexTypeInvalid
			}
		}
	}
	var b strings.Builder
	if err := tree.Restore(format.NewRestoreCtx(format.DefaultRestoreFlags, &b)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestShape(t *testing.T) {
	same := []string{
		"CREATE TEMPORARY TABLE a (id INT, PRIMARY KEY (id)) ENGINE=MEMORY",
		"create temporary table IF NOT EXISTS `b`( id\tINT ,PRIMARY/* x */KEY(id) ) -- y\nENGINE = MEMORY;",
		"CREATE TEMPORARY TABLE db.c(id INT,PRIMARY KEY(id))ENGINE/**/=MEMORY # z",
	}
	for _, text := range same {
		if got := Analyze([]byte(text), Options{}).Shape; got != "(id INT, PRIMARY KEY(id)) ENGINE=MEMORY" {
			t.Errorf("%s: %s", text, got)
		}
	}
	a := Analyze([]byte("CREATE TEMPORARY TABLE a (b CHAR(1) DEFAULT ' ')"), Options{}).Shape
	b := Analyze([]byte("CREATE TEMPORARY TABLE a (b CHAR(1) DEFAULT '  ')"), Options{}).Shape
	if a == b {
		t.Errorf("blanks in a string were lost: %s", a)
	}
}

func BenchmarkAnalyze(b *testing.B) {
	text := []byte("CREATE TEMPORARY TABLE IF NOT EXISTS temp_store (zoid BIGINT UNSIGNED NOT NULL PRIMARY KEY, prev_tid BIGINT UNSIGNED NOT NULL, md5 CHAR(32), state LONGBLOB) ENGINE MyISAM")
	opt := testOptions(b, "mysql")
	b.ReportAllocs()
	for b.Loop() {
		Analyze(text, opt)
	}
}

func FuzzAnalyze(f *testing.F) {
	data, err := os.ReadFile("testdata/create.txt")
	if err != nil {
		f.Fatal(err)
	}
	for block := range strings.SplitSeq(string(data), "====\n") {
		head, _, _ := strings.Cut(block, "\n----\n")
		if words, text, ok := strings.Cut(head, "\n"); ok && len(text) < 500 {
			f.Add([]byte(text), uint8(testOptions(f, words).Mode))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, m uint8) {
		opt := Options{Mode: Mode(m & 7), Convert: 1<<EngineMemory | 1<<EngineMyISAM, MaxCreate: 16 << 10, ConvertSelect: true}
		c := Analyze(text, opt)
		if c.Like != (Name{}) && (c.Keep.Reason != ReasonLike || !c.Like.Plain()) || c.AsSelect != (c.Keep.Reason == ReasonAsSelect) ||
			(c.Select.SQL == "") != (!c.AsSelect || c.Select.Reason != ReasonNone) {
			t.Errorf("%+v", c)
		}
		if c.Select.SQL != "" {
			again := Analyze([]byte(c.Select.SQL), opt)
			if !again.AsSelect || again.Engine != EngineInnoDB || again.Name != c.Name || again.IfNotExists != c.IfNotExists ||
				again.OrReplace != c.OrReplace || again.Select.SQL != "" {
				t.Errorf("%q is %+v", c.Select.SQL, again)
			}
		}
		for _, v := range []Variant{c.Keep, c.Convert} {
			if (v.SQL == "") != (v.Reason != ReasonNone) {
				t.Fatalf("SQL and reason do not agree: %+v", v)
			}
			if v.Reason != ReasonNone {
				continue
			}
			st := Classify(text, opt.Mode)
			if st.Verb != VerbCreateTemporary || st.Multi || st.Doubtful || st.Executable || st.IfNotExists != c.IfNotExists {
				t.Errorf("eligible, but classified as %+v", st)
			}
			if !c.Named || !c.Name.Plain() || c.OrReplace && (c.IfNotExists || opt.Mode&MariaDB == 0) || c.Shape == "" || !Mentions(text, c.Name.Name) {
				t.Errorf("eligible: %+v", c)
			}
			again := Analyze([]byte(v.SQL), opt)
			if again.Name != c.Name || again.IfNotExists || again.OrReplace != c.OrReplace || again.Shape != c.Shape && v == c.Keep {
				t.Errorf("%q is %+v", v.SQL, again)
			}
			if !reflect.DeepEqual(
				[]bool{c.PrimaryKey, c.AutoIncrement, c.CharacterColumns},
				[]bool{again.PrimaryKey, again.AutoIncrement, again.CharacterColumns}) {
				t.Errorf("%q holds other things than before", v.SQL)
			}
		}
		if c.Converted && c.Convert.Reason == ReasonNone {
			again := Analyze([]byte(c.Convert.SQL), opt)
			if again.Engine != EngineInnoDB || again.Convert.SQL != c.Convert.SQL || again.Converted {
				t.Errorf("%q is %+v", c.Convert.SQL, again)
			}
		}
		if !c.Converted && c.Convert != c.Keep {
			t.Errorf("not converted, but %+v and %+v", c.Keep, c.Convert)
		}
	})
}
