package rewrite

import "testing"

// TestProgram reads the CREATE of stored programs: what their bodies hold is no statement of the text.
func TestProgram(t *testing.T) {
	one := Statement{Verb: VerbCreate, Verbs: 1 << VerbCreate, Program: true}
	for _, text := range []string{
		"CREATE PROCEDURE p() SELECT 1",
		"CREATE PROCEDURE p() BEGIN END",
		"CREATE PROCEDURE p() BEGIN SELECT 1; USE d2; END",
		"CREATE PROCEDURE p() BEGIN SELECT 1; END;",
		"create or replace procedure d1.`p` (IN a INT, OUT b VARCHAR(3)) begin set b = a; end ; ",
		"CREATE DEFINER=root@localhost PROCEDURE p() READS SQL DATA SQL SECURITY INVOKER COMMENT 'x;y' BEGIN SELECT 1; SELECT 2; END",
		"CREATE DEFINER = CURRENT_USER() FUNCTION IF NOT EXISTS f(a INT) RETURNS VARCHAR(10) CHARSET utf8mb4 DETERMINISTIC BEGIN RETURN a; END",
		"CREATE DEFINER='a'@'%' FUNCTION f() RETURNS ENUM('a', ')') NOT DETERMINISTIC NO SQL\nBEGIN DECLARE x INT; RETURN 'a'; END",
		"CREATE FUNCTION f() RETURNS CHARACTER(5) BEGIN RETURN 1; END",
		"CREATE FUNCTION f() RETURNS INT RETURN 1",
		"CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.a = 1; INSERT INTO u VALUES (NEW.a); END",
		"CREATE TRIGGER x BEFORE INSERT ON begin FOR EACH ROW FOLLOWS y BEGIN SET @a = 1; END",
		"CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW l: BEGIN SET @a = 1; LEAVE l; END l;",
		"CREATE PROCEDURE p() BEGIN IF 1 THEN SELECT 1; ELSEIF 2 THEN BEGIN SELECT 2; END; END IF; SELECT 3; END",
		"CREATE PROCEDURE p() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; END; START TRANSACTION; COMMIT; END",
		"CREATE PROCEDURE p() BEGIN DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN SET @a = 1; END; SELECT 1; END",
		"CREATE PROCEDURE p() BEGIN DECLARE CONTINUE HANDLER FOR SQLSTATE '23000' BEGIN SET @a = 1; END; SELECT 1; END",
		"CREATE PROCEDURE p() BEGIN CASE @a WHEN 1 THEN SELECT CASE WHEN 1 THEN 2 END; ELSE BEGIN SELECT 1; END; END CASE; SELECT 1; END",
		"CREATE PROCEDURE p() BEGIN WHILE @a < 3 DO BEGIN SET @a = @a + 1; END; END WHILE; REPEAT SELECT 1; UNTIL 1 END REPEAT; l: LOOP LEAVE l; END LOOP l; END",
		"CREATE PROCEDURE p() BEGIN BEGIN SELECT 1; END; BEGIN SELECT 2; END; END",
		"CREATE PROCEDURE p() BEGIN SELECT ';', `a;b`, \"c;d\" /* ; END; */; SELECT 2 -- ; END; USE x\n; END",
		"CREATE PROCEDURE p() BEGIN SET TRANSACTION READ ONLY; LOCK TABLES t READ; SET default_storage_engine = Aria; END",
	} {
		for _, mode := range []Mode{0, MariaDB} {
			if got := Classify([]byte(text), mode); got != one {
				t.Errorf("%s (%d): %+v", text, mode, got)
			}
		}
	}
	verbs := func(list ...Verb) (set uint64) {
		for _, v := range list {
			set |= 1 << v
		}
		return set
	}
	for text, want := range map[string]uint64{
		// statements of the text behind it
		"CREATE PROCEDURE p() BEGIN SELECT 1; END; USE d2":                                                  verbs(VerbCreate, VerbUse),
		"CREATE PROCEDURE p() SELECT 1; USE d2":                                                             verbs(VerbCreate, VerbUse),
		"CREATE PROCEDURE p() BEGIN END; CREATE FUNCTION f() RETURNS INT BEGIN RETURN 1; END; DROP TABLE t": verbs(VerbCreate, VerbDropTable),
		"CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1; BEGIN; USE d2; END":                   verbs(VerbCreate, VerbBegin, VerbUse, VerbUnknown),
		"CREATE FUNCTION f() RETURNS INT RETURN begin; USE d2; END":                                         verbs(VerbCreate, VerbUse, VerbUnknown),
		"CREATE PROCEDURE begin() SELECT 1; USE d2; END":                                                    verbs(VerbCreate, VerbUse, VerbUnknown),
		"CREATE PROCEDURE p() SELECT begin FROM t; USE d2; END":                                             verbs(VerbCreate, VerbUse, VerbUnknown),
		// what looks like the BEGIN of a further block, and is not one
		"CREATE PROCEDURE p() BEGIN SELECT CASE WHEN 1 THEN begin ELSE 2 END; END; USE d2":           verbs(VerbCreate, VerbUse),
		"CREATE PROCEDURE p() BEGIN SELECT CASE WHEN 1 THEN 2 ELSE begin END; END; USE d2":           verbs(VerbCreate, VerbUse),
		"CREATE PROCEDURE p() BEGIN SELECT begin, t.begin, REPEAT(begin, 2) FROM begin; END; USE d2": verbs(VerbCreate, VerbUse),
		"CREATE PROCEDURE p() BEGIN INSERT INTO begin SELECT 1; UPDATE begin SET a = 1; END; USE d2": verbs(VerbCreate, VerbUse),
		"CREATE PROCEDURE p() BEGIN SELECT t.case, @case FROM t; END; USE d2":                        verbs(VerbCreate, VerbUse),
		// a block without an end
		"CREATE PROCEDURE p() BEGIN SELECT 1; USE d2": verbs(VerbCreate, VerbUse),
		// bodies that are not followed
		"CREATE PROCEDURE p() BEGIN CASE WHEN 1 THEN SELECT 1; ELSE BEGIN END; END CASE; SELECT 1; END": verbs(VerbCreate, VerbSelect, VerbUnknown),
		"CREATE PROCEDURE p() IF 1 THEN SELECT 1; END IF":                                               verbs(VerbCreate, VerbUnknown),
		"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN SELECT 1; USE d2; END":                         verbs(VerbCreate, VerbUse, VerbUnknown),
	} {
		for _, mode := range []Mode{0, MariaDB} {
			if got := Classify([]byte(text), mode); got.Verbs != want || !got.Multi || got.Verb != VerbCreate {
				t.Errorf("%s (%d): %+v, want %b", text, mode, got, want)
			}
		}
	}
}
