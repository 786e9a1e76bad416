package rewrite

import (
	"reflect"
	"strings"
	"testing"
)

func TestNamePlain(t *testing.T) {
	tests := []struct {
		name Name
		want bool
	}{
		{Name{"", "t1"}, true},
		{Name{"my_db", "T$1_x"}, true},
		{Name{"", "1t"}, true},
		{Name{"", "11"}, false},
		{Name{"11", "t"}, false},
		{Name{"", ""}, false},
		{Name{"", "a b"}, false},
		{Name{"", "täst"}, false},
		{Name{"a-b", "t"}, false},
		{Name{"", "a`b"}, false},
	}
	for _, tt := range tests {
		if got := tt.name.Plain(); got != tt.want {
			t.Errorf("%q: got %v", tt.name, got)
		}
	}
}

func TestParseDrop(t *testing.T) {
	names := func(list ...string) []Name {
		var out []Name
		for _, n := range list {
			if schema, name, ok := strings.Cut(n, "."); ok {
				out = append(out, Name{schema, name})
			} else {
				out = append(out, Name{"", n})
			}
		}
		return out
	}
	tests := []struct {
		text string
		want Drop // refused when it has no tables
	}{
		{"DROP TEMPORARY TABLE t1", Drop{Temporary: true, Plain: true, Tables: names("t1")}},
		{"drop temporary table if exists temp_store;", Drop{Temporary: true, IfExists: true, Plain: true, Tables: names("temp_store")}},
		{"DROP TABLE IF EXISTS `temp1` ; ", Drop{IfExists: true, Plain: true, Tables: names("temp1")}},
		{"DROP TABLES a, db.b , `c d`.`e``f` CASCADE", Drop{Tables: names("a", "db.b", "c d.e`f")}},
		{"DROP TABLE a RESTRICT", Drop{Plain: true, Tables: names("a")}},
		{"DROP/* x */TABLE -- y\n a /* z */ # w", Drop{Plain: true, Tables: names("a")}},
		{"DROP TABLE db.1a, 1e5x.2", Drop{}}, // 1e5 is a number
		{"DROP TABLE db.1a, db . `2`", Drop{Tables: names("db.1a", "db.2")}},
		{"DROP TABLE db.1e5x", Drop{Plain: true, Tables: names("db.1e5x")}},

		{"DROP TABLE", Drop{}},
		{"DROP TABLE IF EXISTS", Drop{}},
		{"DROP TABLE IF NOT EXISTS a", Drop{}},
		{"DROP TABLE a,", Drop{}},
		{"DROP TABLE a b", Drop{}},
		{"DROP TABLE a WAIT 5", Drop{}},
		{"DROP TABLE a NOWAIT", Drop{}},
		{"DROP TABLE a; SELECT 1", Drop{}},
		{"DROP TABLE a; -- c", Drop{}},
		{"DROP TABLE \"a\"", Drop{}},
		{"DROP TABLE .a", Drop{}},
		{"DROP TABLE a.b.c", Drop{}},
		{"DROP TABLE a.", Drop{}},
		{"DROP TABLE ``", Drop{}},
		{"DROP TABLE select", Drop{}},
		{"DROP TABLE `select`", Drop{Plain: true, Tables: names("select")}},
		{"DROP TABLE a, 'b'", Drop{}},
		{"DROP /*!40005 TEMPORARY */ TABLE a", Drop{}},
		{"DROP TABLE a /*! , b */", Drop{}},
		{"DROP TABLE a /* open", Drop{}},
		{"DROP TABLE a\xa0", Drop{}},
		{"DROP TABLE `a", Drop{}},
		{"DROP TEMPORARY SEQUENCE a", Drop{}},
		{"DROP VIEW a", Drop{}},
		{"(DROP TABLE a)", Drop{}},
		{"TRUNCATE TABLE a", Drop{}},
		{"", Drop{}},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, ok := ParseDrop([]byte(tt.text), 0)
			if want := tt.want.Tables != nil; ok != want || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v, want %+v", got, ok, tt.want)
			}
		})
	}
}

func TestParseDropFlavour(t *testing.T) {
	// rank is reserved on MySQL only, offset on MariaDB only.
	for _, tt := range []struct {
		text string
		mode Mode
		want bool
	}{
		{"DROP TABLE rank", 0, false}, {"DROP TABLE rank", MariaDB, true},
		{"DROP TABLE offset", 0, true}, {"DROP TABLE offset", MariaDB, false},
	} {
		if _, ok := ParseDrop([]byte(tt.text), tt.mode); ok != tt.want {
			t.Errorf("%s in mode %d: %v", tt.text, tt.mode, ok)
		}
	}
}

func TestParseUse(t *testing.T) {
	tests := []struct {
		text, want string
	}{
		{"USE db", "db"},
		{"use `my db`;", "my db"},
		{"USE/**/db -- x", "db"},
		{"USE Db1", "Db1"},
		{"USE", ""},
		{"USE a.b", ""},
		{"USE 'a'", ""},
		{"USE \"a\"", ""},
		{"USE a b", ""},
		{"USE a; SELECT 1", ""},
		{"USE /*! a */ b", ""},
		{"SELECT 1", ""},
	}
	for _, tt := range tests {
		got, ok := ParseUse([]byte(tt.text), 0)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: got %q, %v", tt.text, got, ok)
		}
	}
}

func TestParseSet(t *testing.T) {
	session := func(key, value string) Assignment {
		return Assignment{Kind: AssignSession, Key: key, Value: value, Literal: true}
	}
	tests := []struct {
		text string
		want []Assignment // nil: refused
	}{
		{"SET autocommit=0", []Assignment{session("autocommit", "0")}},
		{"set SESSION SQL_Mode = 'ANSI', @@x:=-1, local y = ON;", []Assignment{
			session("sql_mode", "'ANSI'"), session("x", "-1"), session("y", "ON")}},
		{"SET @@session.a = 1, @@LOCAL.b = 2, @@`c` = 3, @@session.`d` = 4, `e` = 5", []Assignment{
			session("a", "1"), session("b", "2"), session("c", "3"), session("d", "4"), session("e", "5")}},
		{"SET x = DEFAULT", []Assignment{{Kind: AssignSession, Key: "x", Value: "DEFAULT"}}},
		{"SET x = @y", []Assignment{{Kind: AssignSession, Key: "x", Value: "@y"}}},
		{"SET x = (SELECT 1, 2 /* c */), y = CONCAT(@@sql_mode, ',A')", []Assignment{
			{Kind: AssignSession, Key: "x", Value: "(SELECT 1, 2 /* c */)"},
			{Kind: AssignSession, Key: "y", Value: "CONCAT(@@sql_mode, ',A')"}}},
		{"SET x = 'a' 'b'", []Assignment{{Kind: AssignSession, Key: "x", Value: "'a' 'b'"}}},
		{"SET x = _utf8'a'", []Assignment{{Kind: AssignSession, Key: "x", Value: "_utf8'a'"}}},
		{"SET timestamp = CURRENT_TIMESTAMP", []Assignment{{Kind: AssignSession, Key: "timestamp", Value: "CURRENT_TIMESTAMP"}}},
		{"SET x = 1 + 1", []Assignment{{Kind: AssignSession, Key: "x", Value: "1 + 1"}}},
		{"SET x = 0x1F, y = \"s\", z = 1.5e3", []Assignment{session("x", "0x1F"), session("y", `"s"`), session("z", "1.5e3")}},
		{"SET hot.key_buffer_size = 1", []Assignment{session("hot.key_buffer_size", "1")}},
		{"SET @@hot.key_buffer_size = 1", []Assignment{session("hot.key_buffer_size", "1")}},

		{"SET @a = 1, @`B c` := 'x', @d.e = f(1), @'g' = 2", []Assignment{
			{Kind: AssignUser, Key: "a", Literal: true}, {Kind: AssignUser, Key: "b c", Literal: true},
			{Kind: AssignUser, Key: "d.e"}, {Kind: AssignUser, Key: "g", Literal: true}}},

		{"SET GLOBAL a = 1, PERSIST b = 2, PERSIST_ONLY c = 3, @@global.d = 4, @@persist.e = 5, @@PERSIST_ONLY.f = 6, g = 7", []Assignment{
			{Kind: AssignGlobal, Key: "a", Value: "1", Literal: true}, {Kind: AssignGlobal, Key: "b", Value: "2", Literal: true},
			{Kind: AssignGlobal, Key: "c", Value: "3", Literal: true}, {Kind: AssignGlobal, Key: "d", Value: "4", Literal: true},
			{Kind: AssignGlobal, Key: "e", Value: "5", Literal: true}, {Kind: AssignGlobal, Key: "f", Value: "6", Literal: true},
			session("g", "7")}},

		{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", []Assignment{
			{Kind: AssignOneShot, Key: "transaction_isolation", Value: "READ-COMMITTED", Literal: true}}},
		{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY", []Assignment{
			{Kind: AssignSessionTransaction, Key: "transaction_isolation", Value: "REPEATABLE-READ", Literal: true},
			{Kind: AssignSessionTransaction, Key: "transaction_read_only", Value: "ON", Literal: true, ReadOnly: true}}},
		{"SET GLOBAL TRANSACTION READ WRITE", []Assignment{
			{Kind: AssignGlobal, Key: "transaction_read_only", Value: "OFF", Literal: true}}},
		{"SET LOCAL TRANSACTION ISOLATION LEVEL SERIALIZABLE", []Assignment{
			{Kind: AssignSessionTransaction, Key: "transaction_isolation", Value: "SERIALIZABLE", Literal: true}}},
		{"SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", []Assignment{
			{Kind: AssignOneShot, Key: "transaction_isolation", Value: "READ-UNCOMMITTED", Literal: true}}},
		{"SET @@transaction_isolation = 'READ-COMMITTED'", []Assignment{
			{Kind: AssignOneShot, Key: "transaction_isolation", Value: "'READ-COMMITTED'", Literal: true}}},
		{"SET @@tx_read_only = 0, @@Transaction_Read_Only = ON", []Assignment{
			{Kind: AssignOneShot, Key: "tx_read_only", Value: "0", Literal: true},
			{Kind: AssignOneShot, Key: "transaction_read_only", Value: "ON", Literal: true, ReadOnly: true}}},
		{"SET transaction_isolation = 'SERIALIZABLE'", []Assignment{session("transaction_isolation", "'SERIALIZABLE'")}},
		{"SET transaction_read_only = 'off', @@session.tx_read_only = DEFAULT", []Assignment{
			session("transaction_read_only", "'off'"),
			{Kind: AssignSession, Key: "tx_read_only", Value: "DEFAULT", ReadOnly: true}}},
		{"SET transaction_read_only = @x", []Assignment{
			{Kind: AssignSession, Key: "transaction_read_only", Value: "@x", ReadOnly: true}}},
		{"SET TRANSACTION", nil},
		{"SET TRANSACTION READ ONLY, autocommit = 1", nil},
		{"SET TRANSACTION ISOLATION LEVEL READ", nil},

		{"SET NAMES utf8mb4", []Assignment{{Kind: AssignNames, Key: "names", Value: "utf8mb4", Literal: true}}},
		{"SET NAMES 'UTF8' COLLATE 'utf8_Bin', autocommit = 1", []Assignment{
			{Kind: AssignNames, Key: "names", Value: "utf8 COLLATE utf8_bin", Literal: true}, session("autocommit", "1")}},
		{"SET NAMES binary", []Assignment{{Kind: AssignNames, Key: "names", Value: "binary", Literal: true}}},
		{"SET NAMES DEFAULT", []Assignment{{Kind: AssignNames, Key: "names", Value: "DEFAULT"}}},
		{"SET CHARACTER SET latin1", []Assignment{{Kind: AssignCharset, Key: "character_set", Value: "latin1", Literal: true}}},
		{"SET CHARSET 'cp932'", []Assignment{{Kind: AssignCharset, Key: "character_set", Value: "cp932", Literal: true}}},
		{"SET names = 1", []Assignment{session("names", "1")}},
		{"SET NAMES", nil},
		{"SET CHARACTER latin1", nil},

		{"SET ROLE a, b", []Assignment{{Kind: AssignRole, Key: "role", Value: "a, b", Literal: true}}},
		{"SET DEFAULT ROLE ALL TO u", []Assignment{{Kind: AssignDefaultRole, Key: "default_role", Value: "ALL TO u", Literal: true}}},
		{"SET PASSWORD = 'x'", []Assignment{{Kind: AssignPassword, Key: "password", Value: "= 'x'"}}},
		{"SET PASSWORD FOR a@b = 'x'", []Assignment{{Kind: AssignPassword, Key: "password", Value: "FOR a@b = 'x'"}}},
		{"SET RESOURCE GROUP g", []Assignment{{Kind: AssignOther, Key: "resource_group", Value: "g", Literal: true}}},

		{"SET", nil},
		{"SET x", nil},
		{"SET x =", nil},
		{"SET x = 1,", nil},
		{"SET = 1", nil},
		{"SET @ = 1", nil},
		{"SET @@x", nil},
		{"SET @@1 = 1", nil},
		{"SET GLOBAL 1 = 1", nil},
		{"SET a.1 = 1", []Assignment{session("a.1", "1")}},
		{"SET a.b.c = 1", nil},
		{"SET x = )1(", nil},
		{"SET TRANSACTION ISOLATION READ COMMITTED", nil},
		{"SET TRANSACTION READ", nil},
		{"SET NAMES @x", nil},
		{"SET NAMES utf8 COLLATE @x", nil},
		{"SET NAMES utf8 COLLATE DEFAULT", []Assignment{{Kind: AssignNames, Key: "names", Value: "utf8", Literal: true}}},
		{"SET x = `y`", []Assignment{{Kind: AssignSession, Key: "x", Value: "`y`"}}},
		{"SET STATEMENT a = 1 FOR SELECT 1", nil},
		{"SET x = 1; SELECT 1", nil},
		{"SET x = 1; -- c", nil},
		{"SET /*!50000 x = 1 */", nil},
		{"SET x = 'open", nil},
		{`SET x = "a\"b"`, nil},
		{"SET x\xa0 = 1", nil},
		{"SELECT 1", nil},
		{"", nil},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, ok := ParseSet([]byte(tt.text), 0)
			if ok != (tt.want != nil) || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, ok, tt.want)
			}
		})
	}
}

func FuzzParseSet(f *testing.F) {
	for _, s := range []string{
		"SET autocommit=0", "SET @@session.a = 1, @b := 2, NAMES utf8 COLLATE utf8_bin", "SET GLOBAL TRANSACTION READ ONLY",
		"SET PASSWORD FOR a@b = 'x'", "SET x = (SELECT 1, 2), `y` = \"z\"", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY;",
		"SET @a.b = -1", "SET a.b.c = DEFAULT", "SET ROLE NONE",
	} {
		for mode := range Mode(8) {
			f.Add([]byte(s), uint8(mode))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, m uint8) {
		mode := Mode(m & 7)
		list, ok := ParseSet(text, mode)
		if !ok {
			if list != nil {
				t.Fatal("assignments of a text that was refused")
			}
			return
		}
		if st := Classify(text, mode); st.Verb != VerbSet || st.Multi || st.Doubtful {
			t.Errorf("read as a SET, but classified as %+v", st)
		}
		for _, a := range list {
			if a.Key != strings.ToLower(a.Key) || a.Key == "" || a.Kind > AssignOther {
				t.Errorf("odd assignment %+v", a)
			}
		}
		// More of the same behind it is read as well, but for those that take the rest.
		last := list[len(list)-1]
		switch last.Kind {
		case AssignUser, AssignSession, AssignGlobal:
			if strings.HasPrefix(last.Key, "transaction_") {
				return // perhaps SET GLOBAL TRANSACTION
			}
			more, ok := ParseSet([]byte(strings.TrimRight(string(text), "; \t\n\v\f\r")+"\n, zzz = 1"), mode)
			if !ok || !reflect.DeepEqual(more[:len(more)-1], list) {
				t.Errorf("with another assignment behind it: %+v, %v", more, ok)
			}
		}
	})
}

func FuzzParseDrop(f *testing.F) {
	for _, s := range []string{
		"DROP TEMPORARY TABLE IF EXISTS a, `b`.`c``d` CASCADE;", "DROP TABLE db.1e5x", "DROP TABLE a /* b */ -- c", "DROP TABLES a.b",
	} {
		for mode := range Mode(8) {
			f.Add([]byte(s), uint8(mode))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, m uint8) {
		mode := Mode(m & 7)
		d, ok := ParseDrop(text, mode)
		if !ok {
			return
		}
		st := Classify(text, mode)
		if st.Verb != VerbDropTable || st.Multi || st.Doubtful || st.Executable || st.Temporary != d.Temporary {
			t.Errorf("read as a DROP, but classified as %+v", st)
		}
		// Written out again it means the same, and it mentions all its tables.
		sql := "DROP "
		if d.Temporary {
			sql += "TEMPORARY "
		}
		sql += "TABLE "
		if d.IfExists {
			sql += "IF EXISTS "
		}
		for i, n := range d.Tables {
			if i > 0 {
				sql += ","
			}
			if n.Schema != "" {
				sql += "`" + strings.ReplaceAll(n.Schema, "`", "``") + "`."
			}
			sql += "`" + strings.ReplaceAll(n.Name, "`", "``") + "`"
			if n.Plain() && !Mentions(text, n.Name) {
				t.Errorf("%q is not mentioned", n.Name)
			}
		}
		again, ok := ParseDrop([]byte(sql), mode)
		if !ok || !reflect.DeepEqual(again, d) {
			t.Errorf("%s is read as %+v, %v", sql, again, ok)
		}
	})
}
