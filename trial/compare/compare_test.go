package compare

import (
	"slices"
	"strings"
	"testing"

	"tmpproxy/testbed/rawclient"
)

func TestParse(t *testing.T) {
	script, err := Parse("dir/name.txt", `# about
servers: mysql
strategies: keep, innodb
saves: innodb
allow: in-trans
setup:
CREATE TABLE p (a INT)
run:
SELECT 1
[b] !1146|0 ~engine-name ~row-order? SELECT \
  2
repeat 2 {
  # indented
  repeat 2 {
    INSERT INTO t VALUES (${i})
  }
  @execute s NULL 12 'it''s' x'00ff' 1.5 LONG
}
teardown:
DROP TABLE p
`)
	if err != nil {
		t.Fatal(err)
	}
	if script.Name != "name" || !slices.Equal(script.Servers, []string{"mysql"}) || !slices.Equal(script.Saves, []string{"innodb"}) ||
		!slices.Equal(script.Allow, []string{"in-trans"}) || len(script.Setup) != 1 || len(script.Teardown) != 1 {
		t.Errorf("got %+v", script)
	}
	var got []string
	for _, s := range script.Steps {
		got = append(got, s.String())
	}
	want := []string{
		"line 9 [a] SELECT 1",
		"line 10 [b] SELECT \n  2",
		"line 15 [a] INSERT INTO t VALUES (1)", "line 15 [a] INSERT INTO t VALUES (2)",
		"line 17 [a] @execute s NULL 12 'it''s' x'00ff' 1.5 LONG",
		"line 15 [a] INSERT INTO t VALUES (1)", "line 15 [a] INSERT INTO t VALUES (2)",
		"line 17 [a] @execute s NULL 12 'it''s' x'00ff' 1.5 LONG",
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	second := script.Steps[1]
	if !slices.Equal(second.Expect, []uint16{1146, 0}) || !slices.Equal(second.Allow, []string{"engine-name", "row-order"}) || !slices.Equal(second.Depends, []string{"row-order"}) {
		t.Errorf("got %+v", second)
	}
	list, err := Values("NULL 12 'it''s' x'00ff' 1.5 LONG")
	if err != nil {
		t.Fatal(err)
	}
	if list[0] != nil || list[1] != int64(12) || list[2] != "it's" || string(list[3].([]byte)) != "\x00\xff" || list[4] != 1.5 || list[5] != (rawclient.LongData{}) {
		t.Errorf("values %#v", list)
	}
}

func TestParseErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no section":        {"SELECT 1\n", "x:1: neither a header nor a section"},
		"unknown header":    {"server: mysql\nrun:\nSELECT 1\n", "x:1: neither a header nor a section"},
		"unknown allowance": {"allow: whatever\nrun:\nSELECT 1\n", "x:1: no allowance is called whatever"},
		"unknown in a step": {"run:\n~whatever SELECT 1\n", "x:2: no allowance is called whatever"},
		"unknown command":   {"run:\n@dance\n", "x:2: no command is called @dance"},
		"open repeat":       {"run:\nrepeat 2 {\nSELECT 1\n", "x: a repeat is not closed"},
		"closed twice":      {"run:\nrepeat 2 {\nSELECT 1\n}\n}\n", "x:5: } without a repeat"},
		"empty":             {"run:\n", "x: nothing to run"},
		"saves of no run":   {"strategies: keep\nsaves: innodb\nrun:\nSELECT 1\n", "x: saves: innodb"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("x", c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestTemporaryTables(t *testing.T) {
	script, err := Parse("x", "run:\nCREATE TEMPORARY TABLE t (a INT)\ncreate temporary table if not exists `s p`.`q` (a INT)\nCREATE TEMPORARY TABLE t (a INT)\n"+
		"@prepare s CREATE TEMPORARY TABLE u (a INT)\nCREATE TABLE v (a INT)\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := script.TemporaryTables(), []string{"t", "`s p`.`q`", "u"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// event is one that shows the fields given as path, value, path, value.
func event(step *Step, fields ...string) Event {
	e := Event{Step: step}
	for i := 0; i < len(fields); i += 2 {
		e.Fields = append(e.Fields, rawclient.Field{Path: fields[i], Value: fields[i+1]})
	}
	return e
}

func TestCompare(t *testing.T) {
	step := &Step{Line: 1, Conn: "a", Verb: Query, Text: "SELECT 1"}
	one := event(step, "p", "1", "q", "2")
	for name, c := range map[string]struct {
		direct, proxied []Event
		want            []string
	}{
		"equal":       {[]Event{one}, []Event{one}, nil},
		"value":       {[]Event{one}, []Event{event(step, "p", "1", "q", "3")}, []string{"q 2 3"}},
		"missing":     {[]Event{one}, []Event{event(step, "p", "1")}, []string{"q 2 (absent)"}},
		"additional":  {[]Event{event(step, "p", "1")}, []Event{one}, []string{"q (absent) 2"}},
		"order":       {[]Event{one}, []Event{event(step, "q", "2", "p", "1")}, nil},
		"fewer steps": {[]Event{one, one}, []Event{one}, []string{"events 2 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range Compare(c.direct, c.proxied) {
				got = append(got, d.Path+" "+d.Direct+" "+d.Proxied)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	script, err := Parse("x", "servers: mysql\nallow: in-trans, deprecated-engines-mix\nrun:\nROLLBACK\n~engine-name SHOW CREATE TABLE t\n~engine-name SHOW CREATE TABLE u\n")
	if err != nil {
		t.Fatal(err)
	}
	status := func(value string) []Event { return []Event{event(&script.Steps[0], "result[0].end.status", value)} }
	show := func(step int, value string) []Event {
		return []Event{event(&script.Steps[step], "result[0].row[0][1]", value)}
	}
	v := NewVerdict(script)
	for _, c := range []struct {
		name, strategy  string
		direct, proxied []Event
		bad             int
	}{
		{"equal", "keep", status("0x0003"), status("0x0003"), 0},
		{"the flag it is about", "keep", status("0x0003"), status("0x0002"), 0},
		{"another flag too", "keep", status("0x0003"), status("0x0000"), 1},
		{"the other way round", "keep", status("0x0002"), status("0x0003"), 1},
		{"engine in keep", "keep", show(1, "ENGINE=MEMORY"), show(1, "ENGINE=InnoDB"), 1},
		{"engine in innodb", "innodb", show(1, "ENGINE=MEMORY"), show(1, "ENGINE=InnoDB"), 0},
		{"more than the engine", "innodb", show(1, "a ENGINE=MEMORY"), show(1, "b ENGINE=InnoDB"), 1},
		{"a step that allows nothing", "innodb", []Event{event(&script.Steps[0], "result[0].row[0][1]", "ENGINE=MEMORY")}, []Event{event(&script.Steps[0], "result[0].row[0][1]", "ENGINE=InnoDB")}, 1},
	} {
		if bad := v.Judge("mysql", c.strategy, "plain", Compare(c.direct, c.proxied)); len(bad) != c.bad {
			t.Errorf("%s: %v, want %d", c.name, bad, c.bad)
		}
	}
	if got, want := v.Unused(), []string{"engine-name at line 6"}; !slices.Equal(got, want) {
		t.Errorf("unused %q, want %q", got, want)
	}
	// As long as a part did not run, nobody knows.
	v = NewVerdict(script)
	v.Judge("mysql", "keep", "plain", nil)
	if got := v.Unused(); got != nil {
		t.Errorf("unused after keep alone: %q", got)
	}
}

// TestAllowances shows of each matcher what it takes and what it does not.
func TestAllowances(t *testing.T) {
	show := func(text, probe string, fields ...string) Event {
		e := event(&Step{Conn: "a", Verb: Query, Text: text}, fields...)
		e.Probe = probe
		return e
	}
	for _, c := range []struct {
		name, allowance string
		direct, proxied Event
		want            bool
	}{
		{"same rows in another order", "row-order", show("SELECT a FROM t", "", "result[0].row[0][0]", "1", "result[0].row[1][0]", "2"),
			show("SELECT a FROM t", "", "result[0].row[0][0]", "2", "result[0].row[1][0]", "1"), true},
		{"other rows", "row-order", show("SELECT a FROM t", "", "result[0].row[0][0]", "1", "result[0].row[1][0]", "2"),
			show("SELECT a FROM t", "", "result[0].row[0][0]", "2", "result[0].row[1][0]", "2"), false},
		{"a count on ROLLBACK", "rollback-warnings", show("ROLLBACK", "", "result[0].end.warnings", "1"), show("ROLLBACK", "", "result[0].end.warnings", "0"), true},
		{"a count elsewhere", "rollback-warnings", show("COMMIT", "", "result[0].end.warnings", "1"), show("COMMIT", "", "result[0].end.warnings", "0"), false},
		{"the list after ROLLBACK", "rollback-warnings", show("ROLLBACK", "SHOW WARNINGS", "result[0].row[0][1]", `"1751"`), show("ROLLBACK", "SHOW WARNINGS"), true},
		{"another warning in it", "rollback-warnings", show("ROLLBACK", "SHOW WARNINGS", "result[0].row[0][1]", `"1265"`), show("ROLLBACK", "SHOW WARNINGS"), false},
		{"an error for rows", "rollback-rows", show("SELECT a FROM t", "", "result[0].end.status", "0x02"), show("SELECT a FROM t", "", "result[0].error.code", "1146"), false},
		{"fewer rows", "rollback-rows", show("SELECT a FROM t", "", "result[0].row[0][0]", "1"), show("SELECT a FROM t", ""), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			differences := Compare([]Event{c.direct}, []Event{c.proxied})
			if len(differences) == 0 {
				t.Fatal("no difference")
			}
			for _, d := range differences {
				d.Strategy, d.Server = "innodb", "mysql"
				if got, _ := Allowances[c.allowance].covers(&d, 0); got != c.want {
					t.Errorf("%s: %v, want %v", d.String(), got, c.want)
				}
			}
		})
	}
	for name, a := range Allowances {
		if a.Match == nil && a.Status == nil || a.Reason == "" {
			t.Errorf("%s has no matcher or no reason", name)
		}
	}
}
