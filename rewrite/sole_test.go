package rewrite

import "testing"

func TestSoleTable(t *testing.T) {
	const more = "more"
	for text, want := range map[string]string{
		"SELECT 1":                                                     "",
		"SELECT 1, 'from x'":                                           "",
		"SELECT EXTRACT(YEAR FROM d) FROM t":                           "t",
		"SELECT a, COUNT(*) FROM t GROUP BY a":                         "t",
		"select * from `t` where a = 1":                                "t",
		"SELECT * FROM db.t AS x ORDER BY a LIMIT 3":                   "db.t",
		"SELECT * FROM t x":                                            "t",
		"SELECT * FROM t;":                                             "t",
		"SELECT * FROM t, u":                                           more,
		"SELECT * FROM t x, u":                                         more,
		"SELECT * FROM t AS x, u":                                      more,
		"SELECT * FROM t JOIN u":                                       more,
		"SELECT * FROM t STRAIGHT_JOIN u":                              more,
		"SELECT * FROM t NATURAL JOIN u":                               more,
		"SELECT * FROM (SELECT 1) x":                                   more,
		"SELECT (SELECT a FROM u) FROM t":                              more,
		"SELECT (SELECT a FROM u)":                                     more,
		"SELECT (TABLE u)":                                             more,
		"SELECT * FROM t WHERE a IN (TABLE u)":                         more,
		"SELECT * FROM t UNION SELECT * FROM u":                        more,
		"SELECT * FROM t UNION TABLE u":                                more,
		"SELECT * FROM t /*! , u */":                                   more,
		"SELECT * FROM t /*M! , u */":                                  more,
		"SELECT * FROM t PARTITION (p)":                                more,
		"SELECT * FROM t FOR SYSTEM_TIME ALL, u":                       more,
		"SELECT * FROM `a b`":                                          more,
		"SELECT * FROM \"t\"":                                          more,
		"(SELECT * FROM t)":                                            more,
		"WITH x AS (SELECT 1) SELECT * FROM t":                         more,
		"TABLE t":                                                      more,
		"INSERT INTO t VALUES (1, 'x')":                                "t",
		"INSERT IGNORE t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 2": "t",
		"REPLACE DELAYED INTO db.t SET a = 1":                          "db.t",
		"INSERT INTO t SELECT * FROM u":                                more,
		"INSERT INTO t TABLE u":                                        more,
		"INSERT INTO t VALUES ((SELECT a FROM u))":                     more,
		"INSERT INTO t WITH x AS (SELECT 1) SELECT * FROM x":           more,
		"INSERT INTO t VALUES ('please select one')":                   more,
		"UPDATE t SET a = 1":                                           "t",
		"UPDATE LOW_PRIORITY IGNORE t AS x SET x.a = 1 WHERE a = 2":    "t",
		"UPDATE t x SET a = 1":                                         "t",
		"UPDATE t, u SET t.a = u.a":                                    more,
		"UPDATE t x, u SET a = 1":                                      more,
		"UPDATE t JOIN u SET a = 1":                                    more,
		"UPDATE t SET a = (SELECT 1 FROM u)":                           more,
		"DELETE FROM t":                                                "t",
		"DELETE QUICK FROM t WHERE a = 1 LIMIT 1":                      "t",
		"DELETE t FROM t, u":                                           more,
		"DELETE FROM t USING t, u":                                     more,
		"DELETE FROM t, u USING t":                                     more,
		"LOAD DATA INFILE 'x' INTO TABLE t":                            more,
		"CALL p()":                                                     more,
		"":                                                             more,
	} {
		for _, mode := range []Mode{0, MariaDB} {
			n, ok := SoleTable([]byte(text), mode)
			got := string(n.Name)
			if len(n.Schema) > 0 {
				got = string(n.Schema) + "." + got
			}
			if !ok {
				got = more
			}
			if got != want {
				t.Errorf("%s: %q, want %q", text, got, want)
			}
		}
		if n := testing.AllocsPerRun(10, func() { SoleTable([]byte(text)[:len(text)], 0) }); n > 1 { // of the conversion
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

// Under MariaDB's sql_mode MSSQL names may stand in brackets.
func TestSoleTableBrackets(t *testing.T) {
	for _, text := range []string{"SELECT 1 AS [x FROM t WHERE y], a FROM v", "SELECT * FROM t WHERE [a] = 1", "UPDATE [t] SET a = 1"} {
		want := text == "SELECT * FROM t WHERE [a] = 1"
		if n, ok := SoleTable([]byte(text), MariaDB); ok != want {
			t.Errorf("%s: %q, %v", text, n.Name, ok)
		}
	}
}

func TestDefinitionOwnRows(t *testing.T) {
	for text, want := range map[string]bool{
		"CREATE TEMPORARY TABLE `t` (\n  `a` int NOT NULL,\n  PRIMARY KEY (`a`)\n) ENGINE=MEMORY DEFAULT CHARSET=utf8mb4": true,
		"CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=InnoDB":                                                        true,
		"CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=MyISAM":                                                        true,
		"CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=Aria":                                                          true,
		"CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=MRG_MyISAM UNION=(`base`)":                                     false,
		"CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=FEDERATED":                                                     false,
		"CREATE TEMPORARY TABLE `t` (\n  `a` int\n)":                                                                      false,
		"CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB":                                                                  false,
		"CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=MRG_MyISAM COMMENT='\n) ENGINE=InnoDB '":                       false,
		"CREATE TEMPORARY TABLE `t` (\n  `a` int COMMENT '\n) ENGINE=InnoDB '\n) ENGINE=MRG_MyISAM":                       false,
		"CREATE ALGORITHM=UNDEFINED VIEW `t` AS select 1 AS `1`":                                                          false,
		"": false,
	} {
		if got := Definition(text).OwnRows(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestSubquery(t *testing.T) {
	for text, want := range map[string]bool{
		"SET @a = 1": false, "SET @a = (SELECT 1)": true, "DO (TABLE t)": true, "SHOW CREATE TABLE t": false,
		"DROP TABLE t": false, "SHOW TABLES WHERE Tables_in_db IN (select a from v)": true,
	} {
		if got := Subquery([]byte(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
