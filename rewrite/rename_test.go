package rewrite

import "testing"

func TestRename(t *testing.T) {
	for text, want := range map[string]string{
		"CREATE TEMPORARY TABLE t (t INT)":                            "CREATE TEMPORARY TABLE `d`.`x` (t INT)",
		"create temporary table if not exists `t`(a INT) ENGINE=HEAP": "create temporary table if not exists `d`.`x`(a INT) ENGINE=HEAP",
		"CREATE TEMPORARY TABLE db . `t`\n(a INT)":                    "CREATE TEMPORARY TABLE `d`.`x`\n(a INT)",
		"CREATE TEMPORARY TABLE /* t */ t -- t\n (a INT)":             "CREATE TEMPORARY TABLE /* t */ `d`.`x` -- t\n (a INT)",
		"CREATE TEMPORARY TABLE /*! t */ (a INT)":                     "",
		"CREATE TABLE t (a INT)":                                      "",
		"CREATE OR REPLACE TEMPORARY TABLE t (a INT)":                 "",
		"DROP TABLE t": "",
	} {
		got, ok := Rename([]byte(text), 0, "`d`.`x`")
		if got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", text, got, ok)
		}
	}
}
