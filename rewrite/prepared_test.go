package rewrite

import "testing"

func TestPreparedStatements(t *testing.T) {
	const none = "-"
	for text, want := range map[string]string{
		"PREPARE s FROM 'SELECT 1'":                    "s: SELECT 1",
		"prepare `S` from \"DROP TEMPORARY TABLE t\";": "s: DROP TEMPORARY TABLE t",
		"PREPARE s FROM 'SELECT ''x'', \"y\"'":         "s: SELECT 'x', \"y\"",
		"PREPARE s FROM ''":                            "s: ",
		"PREPARE s /* a */ FROM 'SELECT 1' -- b":       "s: SELECT 1",
		"PREPARE s FROM @t":                            none,
		"PREPARE s FROM 'SELECT' ' 1'":                 none,
		"PREPARE s FROM 'SELECT \\'1\\''":              none,
		"PREPARE s FROM N'SELECT 1'":                   none,
		"PREPARE s FROM _latin1'SELECT 1'":             none,
		"PREPARE `a b` FROM 'SELECT 1'":                none,
		"PREPARE s FROM CONCAT('SELECT', ' 1')":        none,
		"PREPARE s /*! FROM 'SELECT 1' */":             none,
		"PREPARE s FROM 'SELECT 1":                     none,
		"EXECUTE s":                                    "s",
		"execute `S`;":                                 "s",
		"EXECUTE s USING @a, @b":                       "s with parameters",
		"EXECUTE IMMEDIATE 'SELECT 1'":                 none,
		"EXECUTE s USING @a; SELECT 1":                 none,
		"DEALLOCATE PREPARE s":                         "s",
		"DROP PREPARE `S`":                             "s",
		"DEALLOCATE s":                                 none,
		"DROP TABLE s":                                 none,
		"SELECT 1":                                     none,
	} {
		for _, mode := range []Mode{0, MariaDB} {
			got := none
			if name, inner, ok := ParsePrepare([]byte(text), mode); ok {
				got = name + ": " + string(inner)
			} else if name, parameters, ok := ParseExecute([]byte(text), mode); ok {
				got = name
				if parameters {
					got += " with parameters"
				}
			} else if name, ok := ParseDeallocate([]byte(text), mode); ok {
				got = name
			}
			if got != want {
				t.Errorf("%s: %q, want %q", text, got, want)
			}
		}
	}
}
