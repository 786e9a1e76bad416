package rewrite

import (
	"slices"
	"testing"
)

func TestStatements(t *testing.T) {
	for text, want := range map[string][]string{
		"SELECT 1; SELECT 2": {"SELECT 1", "SELECT 2"},
		"a;b;c;":             {"a", "b", "c"},
		"a ; b ;; ; ":        {"a", "b"},
		"INSERT INTO t VALUES (';');\n DROP TABLE `;`": {"INSERT INTO t VALUES (';')", "DROP TABLE `;`"},
		"a /* ; */ ; -- ; \n b":                        {"a /* ; */", "-- ; \n b"},
		"a; -- x":                                      {"a", "-- x"},
		"a; # x\n;":                                    {"a", "# x"},
		"a;;b":                                         nil,
		"a;/* x */;b":                                  nil,
	} {
		var got []string
		for _, s := range Statements([]byte(text), 0) {
			got = append(got, string(s))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
