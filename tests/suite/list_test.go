package suite

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseList(t *testing.T) {
	got, err := parseList("# remark\n\nheap  * text # remark\nps keep,innodb * long\nheap keep temporary\nslow - -\n")
	want := []Entry{
		{"heap", Strategies, []string{"text"}, false},
		{"ps", []string{"keep", "innodb"}, wayNames, true},
		{"heap", []string{"keep"}, []string{"temporary"}, false},
		{"slow", nil, nil, false},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"heap", "heap * text more", "heap fast text", "heap * telepathy", "heap * text\nheap * twice,text", "heap - -\nheap * text"} {
		if _, err := parseList(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestListed(t *testing.T) {
	list, err := Listed()
	if err != nil {
		t.Fatal(err)
	}
	every, busy := 0, 0
	for _, entry := range list {
		if (len(entry.Strategies) == 0) != (len(entry.Ways) == 0) {
			t.Errorf("%s has strategies or ways, but not both", entry.File)
		}
		if entry.Long {
			continue
		}
		if slices.Contains(entry.Ways, "text") && slices.Equal(entry.Strategies, Strategies) {
			every++
		}
		if entry.Reuses("temporary") {
			busy++
		}
	}
	if every < 150 {
		t.Errorf("%d files are run every time as they are, directly and in all strategies, want 150", every)
	}
	if busy < 20 {
		t.Errorf("the proxy must reuse tables in %d files, want 20", busy)
	}
}

// TestExpected looks for differences that nobody has explained, and for those that may not be.
func TestExpected(t *testing.T) {
	paths, err := filepath.Glob("expected/*/*.diff")
	if err != nil {
		t.Fatal(err)
	}
	converted := 0
	for _, path := range paths {
		parts := strings.Split(filepath.ToSlash(path), "/")
		expected, err := ExpectedOf(strings.TrimSuffix(parts[2], ".diff"), parts[1], "text")
		switch {
		case err != nil:
			t.Errorf("%s: %v", path, err)
		case expected.Diff == "" || expected.Reason == unexplained:
			t.Errorf("%s explains nothing", path)
		case parts[1] == "native" || !slices.Contains(Strategies, parts[1]):
			t.Errorf("%s: no difference can be expected there", path)
		case parts[1] == "innodb":
			converted++
		}
	}
	if converted == 0 {
		t.Error("another engine makes no difference, it is said")
	}
}

func TestNames(t *testing.T) {
	got := names("create temporary table t1 (a int);\nCREATE TEMPORARY TABLE IF NOT EXISTS `t2` (a int);\ncreate temporary table t1 (b int);\n" +
		"create temporary table mysqltest.t3 (a int);\ncreate temporary table $name (a int);\ncreate table t4 (a int);\n")
	if want := []string{"t1", "t2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAbout(t *testing.T) {
	for text, want := range map[string]string{
		"select 1;\ncreate table t1 (a int) engine=innodb;\n":     "",
		"drop temporary  table t1;":                               "temporary tables",
		"create table t1 (a int) ENGINE = 'Memory';":              "MEMORY",
		"  prepare s from 'select 1';\n":                          "prepared statements",
		"begin;\ninsert into t1 values (1);\n":                    "transactions",
		"set session autocommit=0;\n":                             "transactions",
		"load xml infile 'x' into table t1;\nxa  start 'a';\n":    "LOAD, transactions",
		"create procedure p()\nbegin\nselect 'executed';\nend|\n": "",
		"delimiter ||||;\nselect 1;\nselect 2||||\n":              "multi-statements",
	} {
		if got := strings.Join(about(text), ", "); got != want {
			t.Errorf("%q is about %q, want %q", text, got, want)
		}
	}
}

func TestParseExpected(t *testing.T) {
	got, err := parseExpected("# one\n# two\n@@\n-# a\n+b\n")
	if want := (&Expected{"one two", "@@\n-# a\n+b\n"}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if _, err := parseExpected("@@\n-a\n+b\n"); err == nil {
		t.Error("a difference without a reason was taken")
	}
}

func TestDescribe(t *testing.T) {
	var many []string
	for range mostLines + 3 {
		many = append(many, "x")
	}
	got := Describe([]Difference{{1, []string{"a"}, []string{"b"}}, {9, many, nil}})
	want := "@@\n-a\n+b\n@@\n" + strings.Repeat("-x\n", mostLines) + "- … 3 more lines\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Describe(nil); got != "" {
		t.Errorf("nothing is %q", got)
	}
}

func TestWays(t *testing.T) {
	if len(Ways) != len(wayNames) {
		t.Errorf("%d ways, %d names", len(Ways), len(wayNames))
	}
	for _, name := range wayNames {
		if _, ok := Ways[name]; !ok {
			t.Errorf("no way %s", name)
		}
	}
}

func TestTemporary(t *testing.T) {
	got := temporary("create  table t1 (a int)\n;x\n--error ER_X\nCREATE TABLE IF NOT EXISTS `t2`(a int);\n error 1050,1;\ndrop table t1;\nselect 'error x';\n--enable_abort_on_error\n")
	want := "CREATE TEMPORARY TABLE t1 (a int)\n;\nDROP TEMPORARY TABLE t1;\nCREATE TEMPORARY TABLE t1 (a int)\n;x\n\n" +
		"CREATE TEMPORARY TABLE IF NOT EXISTS `t2`(a int);\nDROP TEMPORARY TABLE `t2`;\nCREATE TEMPORARY TABLE IF NOT EXISTS `t2`(a int);\n" +
		"\ndrop table t1;\nselect 'error x';\n\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
