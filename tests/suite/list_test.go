package suite

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParseList(t *testing.T) {
	got, err := parseList("# remark\n\nheap  * text # remark\nps keep,innodb *\n")
	want := []Entry{
		{"heap", Strategies, []string{"text"}},
		{"ps", []string{"keep", "innodb"}, wayNames},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"heap", "heap * text more", "heap fast text", "heap * telepathy", "heap * text\nheap * text"} {
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
	if len(list) < 40 {
		t.Errorf("%d files are listed, want 40", len(list))
	}
	for _, entry := range list {
		if len(entry.Ways) == 0 || len(entry.Strategies) == 0 {
			t.Errorf("%s is not run", entry.File)
		}
	}
}

// TestExpected looks for differences that nobody has explained.
func TestExpected(t *testing.T) {
	paths, err := filepath.Glob("expected/*/*.diff")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		parts := strings.Split(filepath.ToSlash(path), "/")
		expected, err := ExpectedOf(strings.TrimSuffix(parts[2], ".diff"), parts[1], "text")
		switch {
		case err != nil:
			t.Errorf("%s: %v", path, err)
		case expected.Diff == "" || expected.Reason == unexplained:
			t.Errorf("%s explains nothing", path)
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
