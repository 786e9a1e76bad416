package rewrite

import "testing"

func TestStructure(t *testing.T) {
	const columns = "(\n  `id` int NOT NULL AUTO_INCREMENT,\n  `v` varchar(10) DEFAULT 'AUTO_INCREMENT=3 ENGINE=x' /*!80023 INVISIBLE */,\n  PRIMARY KEY (`id`)\n)"
	for _, test := range []struct {
		name, answer, structure string
		engine                  Engine
	}{
		{"counter", "CREATE TABLE `b` " + columns + " ENGINE=MyISAM AUTO_INCREMENT=51 DEFAULT CHARSET=utf8mb4 COMMENT='x'",
			columns + " ENGINE=MyISAM  DEFAULT CHARSET=utf8mb4 COMMENT='x'", EngineMyISAM},
		{"temporary", "CREATE TEMPORARY TABLE `a ``(` (\n  `a` int\n) ENGINE=MEMORY", "(\n  `a` int\n) ENGINE=MEMORY", EngineMemory},
		{"merge", "CREATE TABLE `b` (\n  `a` int\n) ENGINE=MRG_MyISAM UNION=(`x`,`y`)", "(\n  `a` int\n) ENGINE=MRG_MyISAM UNION=(`x`,`y`)", EngineOther},
		{"partitions", "CREATE TABLE `b` (\n  `a` int\n) ENGINE=InnoDB\n/*!50100 PARTITION BY HASH (`a`)\nPARTITIONS 2 */",
			"(\n  `a` int\n) ENGINE=InnoDB\n/*!50100 PARTITION BY HASH (`a`)\nPARTITIONS 2 */", EngineInnoDB},
		{"view", "CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`%` SQL SECURITY DEFINER VIEW `v` AS select 1 AS `1`", "", EngineNone},
		{"sequence", "CREATE SEQUENCE `s` start with 1 ENGINE=InnoDB", "", EngineNone},
		{"options hidden", "CREATE TABLE `b` (\n  `a` int\n)", "", EngineNone},
		{"double quotes", "CREATE TABLE \"b\" (\n  \"a\" int\n) ENGINE=InnoDB", "", EngineNone},
		{"cut off", "CREATE TABLE `b` (\n  `a` int\n) ENGINE=InnoDB COMMENT='", "", EngineNone},
		{"more", "CREATE TABLE `b` (\n  `a` int\n) ENGINE=InnoDB; x", "", EngineNone},
		{"counter without value", "CREATE TABLE `b` (\n  `a` int\n) ENGINE=InnoDB AUTO_INCREMENT", "", EngineNone},
		{"nothing", "", "", EngineNone},
	} {
		t.Run(test.name, func(t *testing.T) {
			structure, engine, ok := Structure([]byte(test.answer), 0)
			if structure != test.structure || engine != test.engine || ok != (test.structure != "") {
				t.Errorf("got %q, %d, %v", structure, engine, ok)
			}
		})
	}
}
