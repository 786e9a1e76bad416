//go:build realserver

package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

// A plot tries to make the proxy empty or drop a permanent table. Its script has one statement a line, behind who says it:
//
//	app      the session whose temporary tables are managed
//	other    another session through the proxy
//	direct   a connection past the proxy
//
// and, in parentheses, how if not as a query: (prepare NAME) and (execute NAME) by the binary protocol, (reset) of the
// connection, (change user NAME PASSWORD), (reconnect). In texts $D is a definition that the proxy manages, $P one of a
// permanent table. Lines that stand for several: WARM are cycles of the temporary table t, after which the proxy keeps it
// parked; PERMANENT creates the permanent table t with rows directly.
type plot struct {
	name   string
	kinds  []server.Kind // nil: both
	setup  []string      // said directly before the script, which runs several times
	script string
	// hidden: what happens to t cannot be seen, so that the application may see other answers; permanent tables may not
	// be touched all the same.
	hidden bool
}

const rounds = 2

var plots = []plot{
	{name: "permanent all along", setup: []string{"CREATE TABLE t $P", "INSERT INTO t VALUES (101, 1), (102, 2)"}, script: `
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: SELECT * FROM t ORDER BY id
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TABLE t
		app: DROP TEMPORARY TABLE IF EXISTS t
		app: CREATE TEMPORARY TABLE t $D
		app: TRUNCATE TABLE t
		app: DROP TEMPORARY TABLE t
		app: INSERT INTO t VALUES (103, 3)
		app: DELETE FROM t WHERE id = 103`},
	{name: "appears between cycles", script: `
		WARM
		PERMANENT
		app: SELECT * FROM t ORDER BY id
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: SELECT * FROM t ORDER BY id
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "appears between cycles and is not looked at", script: `
		WARM
		PERMANENT
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: DROP TEMPORARY TABLE t
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TABLE t
		direct: DROP TABLE t`},
	{name: "appears through the proxy", script: `
		WARM
		other: CREATE TABLE t $P
		other: INSERT INTO t VALUES (101, 1), (102, 2)
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		other: DROP TABLE t`},
	{name: "appears while live", script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		PERMANENT
		app: SELECT * FROM t ORDER BY id
		app: DROP TEMPORARY TABLE t
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TABLE t
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "appears while live, dropped plainly", script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		PERMANENT
		app: DROP TABLE t
		app: SELECT * FROM t ORDER BY id
		app: DROP TABLE t
		app: SELECT * FROM t ORDER BY id`},
	{name: "appears in a transaction", script: `
		WARM
		app: START TRANSACTION
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		PERMANENT
		app: DROP TABLE t
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: START TRANSACTION
		app: INSERT INTO t VALUES (2, 2)
		app: DROP TEMPORARY TABLE t
		app: COMMIT
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "appears with autocommit off", script: `
		WARM
		app: SET autocommit = 0
		app: DROP TEMPORARY TABLE IF EXISTS t
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		PERMANENT
		app: COMMIT
		app: ROLLBACK
		app: DROP TEMPORARY TABLE IF EXISTS t
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: COMMIT
		app: DROP TEMPORARY TABLE t
		app: COMMIT
		app: SELECT * FROM t ORDER BY id
		app: COMMIT
		app: SET autocommit = 1
		direct: DROP TABLE t`},
	{name: "created by the application while parked", script: `
		WARM
		app: CREATE TABLE t $P
		app: INSERT INTO t VALUES (101, 1), (102, 2)
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		app: DROP TABLE t`},
	{name: "created by the application while live", script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: CREATE TABLE t AS SELECT 101 AS id, 1 AS v
		app: SELECT * FROM t ORDER BY id
		app: DROP TABLE t
		app: SELECT * FROM t ORDER BY id
		app: DROP TABLE t
		app: SELECT * FROM t ORDER BY id`},
	{name: "dropped if it exists", script: `
		WARM
		app: DROP TABLE IF EXISTS t
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TABLE t
		app: DROP TABLE IF EXISTS t
		PERMANENT
		app: DROP TABLE IF EXISTS t
		PERMANENT
		app: DROP TEMPORARY TABLE IF EXISTS t
		app: CREATE TEMPORARY TABLE IF NOT EXISTS t $D
		app: CREATE TEMPORARY TABLE IF NOT EXISTS t $D
		app: DROP TABLE IF EXISTS t
		app: SELECT * FROM t ORDER BY id
		app: DROP TABLE IF EXISTS t`},
	{name: "emptied by the application", script: `
		WARM
		PERMANENT
		app: CREATE TEMPORARY TABLE t $D
		app: TRUNCATE TABLE t
		app: DROP TEMPORARY TABLE t
		app: DELETE FROM t WHERE id = 101
		app: TRUNCATE TABLE t
		app: SELECT * FROM t
		app: DROP TABLE t`},
	{name: "a view", setup: []string{"CREATE TABLE base $P", "INSERT INTO base VALUES (101, 1), (102, 2)"}, script: `
		WARM
		direct: CREATE VIEW t AS SELECT * FROM base
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		app: INSERT INTO t VALUES (103, 3)
		app: DELETE FROM t WHERE id = 103
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TABLE t
		app: DROP TABLE t
		app: DROP VIEW t`},
	{name: "a view while live", setup: []string{"CREATE TABLE base $P", "INSERT INTO base VALUES (101, 1), (102, 2)"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		direct: CREATE VIEW t AS SELECT * FROM base
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		direct: DROP VIEW t`},
	{name: "a view of a table behind the parked one", setup: []string{"CREATE TABLE u $P", "INSERT INTO u VALUES (101, 1)"}, script: `
		WARM
		PERMANENT
		direct: CREATE VIEW w AS SELECT * FROM t
		app: SELECT * FROM w ORDER BY id
		app: DELETE FROM w WHERE id = 101
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: INSERT INTO w VALUES (104, 4)
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM w ORDER BY id
		direct: DROP VIEW w
		direct: DROP TABLE t`},
	{name: "renamed to it", setup: []string{"CREATE TABLE base $P", "INSERT INTO base VALUES (101, 1), (102, 2)"}, script: `
		WARM
		direct: RENAME TABLE base TO t
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		other: RENAME TABLE t TO base
		WARM
		other: ALTER TABLE base RENAME TO t
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TABLE t
		app: RENAME TABLE t TO base
		app: ALTER TABLE base RENAME t
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: DROP TEMPORARY TABLE t
		direct: RENAME TABLE t TO base`},
	{name: "renamed from it", setup: []string{"CREATE TABLE base $P", "INSERT INTO base VALUES (101, 1), (102, 2)"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		PERMANENT
		app: RENAME TABLE t TO away
		app: SELECT * FROM t ORDER BY id
		app: SELECT * FROM away ORDER BY id
		app: DROP TABLE away
		app: DROP TEMPORARY TABLE IF EXISTS t
		app: CREATE TEMPORARY TABLE t $D
		app: ALTER TABLE t RENAME TO away
		app: DROP TEMPORARY TABLE away
		app: DROP TEMPORARY TABLE IF EXISTS t
		direct: DROP TABLE IF EXISTS t, away`},
	{name: "swapped", setup: []string{"CREATE TABLE base $P", "INSERT INTO base VALUES (101, 1), (102, 2)"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: CREATE TEMPORARY TABLE u $D
		app: INSERT INTO u VALUES (2, 2)
		app: ALTER TABLE t RENAME TO v
		app: ALTER TABLE u RENAME TO t
		PERMANENT
		app: DROP TEMPORARY TABLE t
		app: DROP TEMPORARY TABLE v
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "altered", script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: ALTER TABLE t ADD COLUMN more INT
		PERMANENT
		app: DROP TEMPORARY TABLE t
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "a procedure drops it", setup: []string{"CREATE PROCEDURE p() DROP TEMPORARY TABLE IF EXISTS t"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		PERMANENT
		app: CALL p()
		app: SELECT * FROM t ORDER BY id
		app: DROP TEMPORARY TABLE t
		app: DROP TEMPORARY TABLE IF EXISTS t
		direct: DROP TABLE t`},
	{name: "a procedure drops it plainly", setup: []string{"CREATE PROCEDURE p() DROP TABLE IF EXISTS t"}, script: `
		WARM
		PERMANENT
		app: CREATE TEMPORARY TABLE t $D
		app: CALL p()
		app: SELECT * FROM t ORDER BY id
		app: DROP TEMPORARY TABLE t
		app: CALL p()
		app: SELECT * FROM t ORDER BY id`},
	{name: "a procedure creates it", setup: []string{
		"CREATE PROCEDURE p() BEGIN CREATE TEMPORARY TABLE t (other INT); INSERT INTO t VALUES (7); END",
		"CREATE PROCEDURE q() DELETE FROM t"}, script: `
		WARM
		PERMANENT
		app: CALL p()
		app: SELECT * FROM t
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		app: CALL q()
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "a procedure drops and creates it", setup: []string{
		"CREATE PROCEDURE p() BEGIN DROP TEMPORARY TABLE t; CREATE TEMPORARY TABLE t (other INT); INSERT INTO t VALUES (7); END"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		PERMANENT
		app: CALL p()
		app: SELECT * FROM t
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "a function drops it", setup: []string{
		"CREATE FUNCTION f() RETURNS INT DETERMINISTIC BEGIN DROP TEMPORARY TABLE IF EXISTS t; RETURN 1; END"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		PERMANENT
		app: SELECT f()
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		app: CREATE TEMPORARY TABLE t $D
		app: DO /* a */ f /* b */ ()
		app: DROP TEMPORARY TABLE IF EXISTS t
		app: CREATE TEMPORARY TABLE t $D
		app: SET @a = f()
		app: DROP TEMPORARY TABLE IF EXISTS t
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "a function drops it, prepared", setup: []string{
		"CREATE FUNCTION f() RETURNS INT DETERMINISTIC BEGIN DROP TEMPORARY TABLE IF EXISTS t; RETURN 1; END"}, script: `
		WARM
		app (prepare s): SELECT f()
		app: CREATE TEMPORARY TABLE t $D
		PERMANENT
		app (execute s):
		app: DROP TEMPORARY TABLE t
		app: PREPARE x FROM 'SELECT f()'
		app: CREATE TEMPORARY TABLE t $D
		app: EXECUTE x
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "a function behind a view drops it", hidden: true, setup: []string{
		"CREATE FUNCTION f() RETURNS INT DETERMINISTIC BEGIN DROP TEMPORARY TABLE IF EXISTS t; RETURN 1; END",
		"CREATE VIEW w AS SELECT f() AS one"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		PERMANENT
		app: SELECT * FROM w
		app: DROP TEMPORARY TABLE t
		app: SELECT 1
		direct: DROP TABLE t`},
	{name: "a function drops it while a view is described or prepared", kinds: []server.Kind{server.MariaDB}, hidden: true, setup: []string{
		"CREATE FUNCTION f() RETURNS INT DETERMINISTIC BEGIN DROP TEMPORARY TABLE IF EXISTS t; RETURN 1; END",
		"CREATE VIEW w AS SELECT ROUND(1.5, f()) AS x"}, script: `
		WARM
		PERMANENT
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: DESCRIBE w
		app: DROP TEMPORARY TABLE t
		app: SELECT 1
		direct: DROP TABLE t
		WARM
		PERMANENT
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app (prepare s): SELECT * FROM w
		app: DROP TEMPORARY TABLE t
		app: SELECT 1
		direct: DROP TABLE t`},
	{name: "a function drops it while it is prepared", kinds: []server.Kind{server.MariaDB}, setup: []string{
		"CREATE FUNCTION f() RETURNS INT DETERMINISTIC BEGIN DROP TEMPORARY TABLE IF EXISTS t; RETURN 1; END"}, script: `
		WARM
		PERMANENT
		app: CREATE TEMPORARY TABLE t $D
		app (prepare s): SELECT ROUND(1.5, f())
		app: DROP TEMPORARY TABLE t
		app: CREATE TEMPORARY TABLE t $D
		app: PREPARE s FROM 'SELECT ROUND(1.5, f())'
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "a function in brackets drops it", kinds: []server.Kind{server.MariaDB}, setup: []string{
		"CREATE FUNCTION f() RETURNS INT DETERMINISTIC BEGIN DROP TEMPORARY TABLE IF EXISTS t; RETURN 1; END"}, script: `
		WARM
		PERMANENT
		app: SET sql_mode = 'MSSQL'
		app: CREATE TEMPORARY TABLE t $D
		app: SELECT [f]()
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		app: SET sql_mode = DEFAULT
		direct: DROP TABLE t`},
	{name: "a prepared CALL prepares its end", setup: []string{"CREATE PROCEDURE p() PREPARE s FROM 'DROP TEMPORARY TABLE t'"}, script: `
		WARM
		PERMANENT
		app (prepare call): CALL p()
		app: PREPARE s FROM 'SELECT 1'
		app (execute call):
		app: CREATE TEMPORARY TABLE t $D
		app: EXECUTE s
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "a trigger drops it", hidden: true, setup: []string{
		"CREATE TABLE base (a INT)",
		"CREATE TRIGGER drops BEFORE INSERT ON base FOR EACH ROW DROP TEMPORARY TABLE IF EXISTS t"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		PERMANENT
		app: INSERT INTO base VALUES (1)
		app: DROP TEMPORARY TABLE t
		app: SELECT 1
		direct: DROP TABLE t`},
	{name: "a trigger drops it, then it is dropped plainly", hidden: true, setup: []string{
		"CREATE TABLE base (a INT)",
		"CREATE TRIGGER drops BEFORE INSERT ON base FOR EACH ROW DROP TEMPORARY TABLE IF EXISTS t"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		PERMANENT
		app: START TRANSACTION
		app: INSERT INTO base VALUES (1)
		app: DROP TEMPORARY TABLE t
		app: COMMIT
		app: SELECT 1
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO base VALUES (1)
		app: DROP TEMPORARY TABLE t
		direct: DROP TABLE t`},
	{name: "a trigger creates it", hidden: true, setup: []string{
		"CREATE TABLE base (a INT)",
		"CREATE TRIGGER creates BEFORE INSERT ON base FOR EACH ROW BEGIN DROP TEMPORARY TABLE IF EXISTS t; CREATE TEMPORARY TABLE t (other INT); END"}, script: `
		WARM
		PERMANENT
		app: INSERT INTO base VALUES (1)
		app: DROP TEMPORARY TABLE IF EXISTS t
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO base VALUES (1)
		app: DROP TEMPORARY TABLE t
		app: SELECT 1
		direct: DROP TABLE t`},
	{name: "MERGE", setup: []string{"CREATE TABLE p (id INT, v INT, KEY (id)) ENGINE=MyISAM", "INSERT INTO p VALUES (101, 1), (102, 2)"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t (id INT, v INT, KEY (id)) ENGINE=MERGE UNION=(p) INSERT_METHOD=LAST
		app: SELECT * FROM t ORDER BY id
		app: DROP TEMPORARY TABLE t
		app: CREATE TEMPORARY TABLE t (id INT, v INT, KEY (id)) ENGINE=MRG_MyISAM UNION=(p) INSERT_METHOD=LAST
		app: INSERT INTO t VALUES (103, 3)
		app: DROP TABLE t
		app: DELETE FROM p WHERE id = 103
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TEMPORARY TABLE t`},
	{name: "MERGE without saying so", setup: []string{"CREATE TABLE p (id INT, v INT, KEY (id)) ENGINE=MyISAM", "INSERT INTO p VALUES (101, 1), (102, 2)"}, script: `
		WARM
		app: SET default_tmp_storage_engine = MRG_MYISAM
		app: CREATE TEMPORARY TABLE t (id INT, v INT, KEY (id)) UNION=(p)
		app: SELECT * FROM t ORDER BY id
		app: DROP TEMPORARY TABLE t
		app: CREATE TEMPORARY TABLE t (id INT, v INT, KEY (id))
		app: ALTER TABLE t UNION=(p)
		app: DROP TEMPORARY TABLE t
		app: SET default_tmp_storage_engine = MyISAM
		app: CREATE TEMPORARY TABLE t (id INT, v INT, KEY (id))
		app: ALTER TABLE t ENGINE=MERGE, UNION=(p)
		app: SELECT * FROM t ORDER BY id
		app: DROP TEMPORARY TABLE t
		app: SET default_tmp_storage_engine = DEFAULT`},
	{name: "a procedure makes it MERGE", setup: []string{
		"CREATE TABLE p (id INT, v INT, KEY (id)) ENGINE=MyISAM", "INSERT INTO p VALUES (101, 1), (102, 2)",
		"CREATE PROCEDURE m() BEGIN DROP TEMPORARY TABLE IF EXISTS t; CREATE TEMPORARY TABLE t (id INT, v INT, KEY (id)) ENGINE=MERGE UNION=(p); END"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: CALL m()
		app: SELECT * FROM t ORDER BY id
		app: DROP TEMPORARY TABLE t
		app: CALL m()
		app: DROP TABLE t`},
	{name: "a function makes it MERGE", setup: []string{
		"CREATE TABLE p (id INT, v INT, KEY (id)) ENGINE=MyISAM", "INSERT INTO p VALUES (101, 1), (102, 2)",
		"CREATE FUNCTION m() RETURNS INT DETERMINISTIC BEGIN DROP TEMPORARY TABLE IF EXISTS t; CREATE TEMPORARY TABLE t (id INT, v INT, KEY (id)) ENGINE=MERGE UNION=(p); RETURN 1; END"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: SELECT m()
		app: DROP TEMPORARY TABLE t
		app: CREATE TEMPORARY TABLE t $D
		app: DO m()
		app: DROP TABLE IF EXISTS t`},
	{name: "a trigger makes it MERGE", hidden: true, setup: []string{
		"CREATE TABLE base (a INT)",
		"CREATE TABLE p (id INT, v INT, KEY (id)) ENGINE=MyISAM", "INSERT INTO p VALUES (101, 1), (102, 2)",
		"CREATE TRIGGER merges BEFORE INSERT ON base FOR EACH ROW BEGIN DROP TEMPORARY TABLE IF EXISTS t; CREATE TEMPORARY TABLE t (id INT, v INT, KEY (id)) ENGINE=MERGE UNION=(p); END"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO base VALUES (1)
		app: DROP TEMPORARY TABLE t
		app: SELECT 1
		app: CREATE TEMPORARY TABLE t $D
		app: BEGIN
		app: INSERT INTO base VALUES (1)
		app: DROP TABLE t
		app: SELECT 1`},
	{name: "a view's function makes it MERGE", hidden: true, setup: []string{
		"CREATE TABLE p (id INT, v INT, KEY (id)) ENGINE=MyISAM", "INSERT INTO p VALUES (101, 1), (102, 2)",
		"CREATE FUNCTION m() RETURNS INT DETERMINISTIC BEGIN DROP TEMPORARY TABLE IF EXISTS t; CREATE TEMPORARY TABLE t (id INT, v INT, KEY (id)) ENGINE=MERGE UNION=(p); RETURN 1; END",
		"CREATE VIEW w AS SELECT m()"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: SELECT * FROM w
		app: DROP TEMPORARY TABLE t
		app: SELECT 1
		app: CREATE TEMPORARY TABLE t $D
		app: SET @a = (SELECT COUNT(*) FROM w)
		app: DROP TEMPORARY TABLE t
		app: SELECT 1`},
	{name: "a failed change of the user", setup: []string{"CREATE TABLE base $P"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		PERMANENT
		app (change user nobody wrong):
		app: DROP TEMPORARY TABLE t
		app (reconnect):
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "the connection is reset", script: `
		WARM
		PERMANENT
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app (reset):
		app: SELECT * FROM t ORDER BY id
		app: DROP TEMPORARY TABLE t
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TEMPORARY TABLE t
		app (reset):
		app: INSERT INTO t VALUES (103, 3)
		direct: DROP TABLE t`},
	{name: "the connection is made anew", script: `
		WARM
		PERMANENT
		app: CREATE TEMPORARY TABLE t $D
		app (reconnect):
		app: SELECT * FROM t ORDER BY id
		app: DROP TEMPORARY TABLE t
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TEMPORARY TABLE t
		app (reconnect):
		app: INSERT INTO t VALUES (103, 3)
		direct: DROP TABLE t`},
	{name: "pseudo_thread_id", script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		PERMANENT
		app: SET @id = @@pseudo_thread_id
		app: SET @a = 1, pseudo_thread_id = @id + 100000
		app: SELECT * FROM t ORDER BY id
		app: DROP TEMPORARY TABLE t
		app: INSERT INTO t VALUES (103, 3)
		app: SET SESSION pseudo_thread_id = @id
		app: DROP TEMPORARY TABLE t
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		app (reconnect):
		direct: DROP TABLE t`},
	{name: "pseudo_thread_id while parked", script: `
		WARM
		PERMANENT
		app: SET @id = @@pseudo_thread_id
		app: SET @@SESSION.pseudo_thread_id = @id + 200000
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		app: SET pseudo_thread_id = @id
		app: SELECT * FROM t ORDER BY id
		app: DROP TEMPORARY TABLE IF EXISTS t
		app (reconnect):
		direct: DROP TABLE t`},
	{name: "pseudo_thread_id by a trigger", hidden: true, setup: []string{
		"CREATE TABLE base (a INT)",
		"CREATE TRIGGER away BEFORE INSERT ON base FOR EACH ROW SET SESSION pseudo_thread_id = NEW.a"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		PERMANENT
		app: INSERT INTO base VALUES (300000)
		app: DROP TEMPORARY TABLE t
		app: SELECT 1
		app (reconnect):
		direct: DROP TABLE t`},
	{name: "LOCK TABLES", setup: []string{"CREATE TABLE base $P", "INSERT INTO base VALUES (101, 1)"}, script: `
		WARM
		PERMANENT
		app: LOCK TABLES base READ
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: DROP TEMPORARY TABLE t
		app: UNLOCK TABLES
		app: LOCK TABLES t READ
		app: SELECT * FROM t ORDER BY id
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		app: UNLOCK TABLES
		app: CREATE TEMPORARY TABLE t $D
		app: LOCK TABLES t WRITE
		app: DROP TABLE t
		app: UNLOCK TABLES
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "prepared", script: `
		WARM
		app (prepare create): CREATE TEMPORARY TABLE t $D
		app (prepare drop): DROP TEMPORARY TABLE t
		app (prepare plain): DROP TABLE IF EXISTS t
		app (prepare empty): TRUNCATE TABLE t
		app: CREATE TEMPORARY TABLE t $D
		app (prepare insert): INSERT INTO t VALUES (5, 5)
		app (prepare delete): DELETE FROM t WHERE id > 102
		app (execute insert):
		app: DROP TEMPORARY TABLE t
		PERMANENT
		app (execute insert):
		app (execute delete):
		app: CREATE TEMPORARY TABLE t $D
		app (execute insert):
		app (execute delete):
		app (execute empty):
		app (execute drop):
		app (execute create):
		app (execute insert):
		app: DROP TEMPORARY TABLE t
		app: CREATE TEMPORARY TABLE t $D
		app (execute drop):
		app (execute drop):
		app: SELECT * FROM t ORDER BY id
		app (execute empty):
		app (execute plain):`},
	{name: "prepared as text", script: `
		WARM
		app: PREPARE d FROM 'DROP TABLE IF EXISTS t'
		app: PREPARE c FROM 'CREATE TEMPORARY TABLE t (id INT)'
		app: CREATE TEMPORARY TABLE t $D
		app: EXECUTE d
		PERMANENT
		app: DROP TEMPORARY TABLE IF EXISTS t
		app: EXECUTE c
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		app: CREATE TEMPORARY TABLE t $D
		app: EXECUTE d
		app: SELECT * FROM t ORDER BY id
		app: EXECUTE d
		app: SELECT * FROM t ORDER BY id`},
	{name: "put together", kinds: []server.Kind{server.MariaDB}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		PERMANENT
		app: EXECUTE IMMEDIATE CONCAT('DROP TEMPORARY TABLE ', 't')
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		app: BEGIN NOT ATOMIC DROP TEMPORARY TABLE IF EXISTS t; CREATE TEMPORARY TABLE t (a INT); END
		app: DROP TEMPORARY TABLE t
		app: CREATE OR REPLACE TEMPORARY TABLE t $D
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		direct: DROP TABLE t`},
	{name: "several statements", script: `
		WARM
		PERMANENT
		app: CREATE TEMPORARY TABLE t $D; INSERT INTO t VALUES (1, 1); SELECT * FROM t; DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TEMPORARY TABLE t; INSERT INTO t VALUES (103, 3)
		app: CREATE TEMPORARY TABLE t $D
		app: SELECT 1; DROP TEMPORARY TABLE t
		app: DROP TEMPORARY TABLE t
		app: SELECT 1; CREATE TEMPORARY TABLE t (a INT)
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t ORDER BY id
		app: SELECT 1; DROP TABLE t`},
	{name: "another schema", setup: []string{"DROP DATABASE IF EXISTS owned_other", "CREATE DATABASE owned_other",
		"CREATE TABLE owned_other.t $P", "INSERT INTO owned_other.t VALUES (201, 1)"}, script: `
		WARM
		app: USE owned_other
		app: SELECT * FROM t
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM t
		app: CREATE TEMPORARY TABLE $S.t $D
		PERMANENT
		app: DROP TEMPORARY TABLE $S.t
		app: SELECT * FROM $S.t ORDER BY id
		app: USE $S
		app: SELECT * FROM t ORDER BY id
		app: SELECT * FROM owned_other.t
		app: CREATE TEMPORARY TABLE t $D
		app: DROP TABLE t
		direct: DROP TABLE t`},
	{name: "the schema goes", setup: []string{"CREATE TABLE base $P"}, script: `
		WARM
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		other: DROP DATABASE $S
		other: CREATE DATABASE $S
		other: USE $S
		PERMANENT
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM $S.t ORDER BY id
		app: USE $S
		direct: DROP TABLE t`},
	{name: "another letter case", script: `
		WARM
		direct: CREATE TABLE T $P
		direct: INSERT INTO T VALUES (101, 1)
		app: CREATE TEMPORARY TABLE T $D
		app: CREATE TEMPORARY TABLE t $D
		app: INSERT INTO t VALUES (1, 1)
		app: DROP TEMPORARY TABLE T
		app: DROP TEMPORARY TABLE t
		app: SELECT * FROM T ORDER BY id
		direct: DROP TABLE T`},
}

// stage is where a plot is played: with clients of target, and of the server itself.
type stage struct {
	t      *testing.T
	s      *server.Server
	proxy  *process.Process // nil: everybody is at the server itself
	schema string

	conns    map[string]*rawclient.Conn
	prepared map[string]uint32
	log      []string // after each statement its answer, if it is to be compared, and what is in the schema
}

func (g *stage) connect(who string) *rawclient.Conn {
	g.t.Helper()
	if c := g.conns[who]; c != nil {
		return c
	}
	address := g.s.Address
	if g.proxy != nil && who != "direct" && who != "watcher" {
		address = g.proxy.Address
	}
	c := connect(g.t, configure(g.s, address, g.schema))
	if who == "direct" || who == "watcher" {
		must(g.t, c, "SET lock_wait_timeout = 10") // a plot that waits for itself is to fail
	}
	g.conns[who] = c
	return c
}

// contents are the schema's tables, views and rows as another client sees them.
func (g *stage) contents() string {
	g.t.Helper()
	c := g.connect("watcher")
	reply, err := c.Query("SHOW FULL TABLES FROM " + g.schema)
	if err != nil || reply.Err() != nil {
		return told(reply, err)
	}
	var b strings.Builder
	for _, row := range reply.Results[0].Rows {
		v, _ := rawclient.TextRow(row)
		fmt.Fprintf(&b, "%s (%s): %s; ", v[0], v[1], answer(c.Query(fmt.Sprintf("SELECT * FROM `%s`.`%s` ORDER BY 1", g.schema, v[0]))))
	}
	return b.String()
}

// answer is the part of an answer that has to do with tables: rows, or an error.
func answer(reply rawclient.Reply, err error) string {
	if err != nil || reply.Err() != nil {
		return told(reply, err)
	}
	var b strings.Builder
	for _, result := range reply.Results {
		for _, row := range result.Rows {
			values, _ := rawclient.TextRow(row)
			fmt.Fprintf(&b, "%q", values)
		}
	}
	return b.String()
}

// say has one line of a script said.
func (g *stage) say(line string, hidden bool) {
	g.t.Helper()
	who, text, ok := strings.Cut(line, ":")
	who, how, _ := strings.Cut(who, " (")
	how = strings.TrimSuffix(how, ")")
	text = strings.TrimSpace(text)
	if !ok {
		g.t.Fatalf("no colon: %s", line)
	}
	c := g.connect(who)
	var told string
	switch verb, rest, _ := strings.Cut(how, " "); verb {
	case "":
		told = answer(c.Query(text))
	case "prepare":
		reply, err := c.Prepare(text)
		told = answer(reply, err)
		if reply.Prepared != nil {
			g.prepared[rest] = reply.Prepared.ID
		}
	case "execute":
		id, ok := g.prepared[rest]
		if !ok {
			g.t.Fatalf("%s: not prepared", line)
		}
		told = answer(c.Execute(id, 0))
	case "reset":
		told = answer(c.ResetConnection())
	case "change": // user NAME PASSWORD
		fields := strings.Fields(rest)
		told = answer(c.ChangeUser(fields[1], fields[2], g.schema))
	case "reconnect":
		if err := c.Quit(); err != nil && !rawclient.IsLost(err) && !errors.Is(err, os.ErrClosed) {
			g.t.Logf("quit: %v", err)
		}
		delete(g.conns, who)
		g.connect(who)
	default:
		g.t.Fatalf("%s: how?", line)
	}
	if who == "direct" && strings.HasPrefix(told, "ERR") {
		g.t.Errorf("%s: %s", line, told)
	}
	if hidden {
		told = ""
	}
	g.log = append(g.log, fmt.Sprintf("%s → %s", line, told), "    then there is "+g.contents())
}

// play plays a plot and returns its log.
func (g *stage) play(p *plot) []string {
	g.t.Helper()
	g.conns, g.prepared = map[string]*rawclient.Conn{}, map[string]uint32{}
	expand := strings.NewReplacer(
		"$D", fmt.Sprintf("(id INT PRIMARY KEY, v_%s INT) ENGINE=MEMORY", strings.ReplaceAll(g.schema, "owned_", "")),
		"$P", "(id INT PRIMARY KEY, v INT)", "$S", g.schema)
	executeDirectly(g.t, g.s, "DROP DATABASE IF EXISTS "+g.schema, "CREATE DATABASE "+g.schema)
	for _, text := range p.setup {
		executeDirectly(g.t, g.s, "USE "+g.schema, expand.Replace(text))
	}
	for round := range rounds {
		warmed := false
		for line := range strings.Lines(p.script) {
			line = strings.TrimSpace(expand.Replace(line))
			switch line {
			case "":
			case "WARM":
				app := g.connect("app")
				for range 3 {
					for _, text := range []string{"CREATE TEMPORARY TABLE t " + expand.Replace("$D"), "INSERT INTO t VALUES (1, 1)", "DROP TEMPORARY TABLE t"} {
						if reply, err := app.Query(text); err != nil || reply.Err() != nil && !p.hidden {
							g.t.Fatalf("%s: %s", text, told(reply, err))
						}
					}
				}
				if g.proxy != nil && round == 0 && !warmed {
					warmed = true
					if n := sessions(g.t, g.proxy)[app.Greeting.ThreadID].Parked; n != 1 {
						g.t.Errorf("%d tables are parked after the warming up", n)
					}
				}
			case "PERMANENT":
				g.say("direct: CREATE TABLE "+g.schema+".t (id INT PRIMARY KEY, v INT)", false)
				g.say("direct: INSERT INTO "+g.schema+".t VALUES (101, 1), (102, 2)", false)
			default:
				g.say(line, p.hidden)
			}
		}
	}
	// What the proxy does of its own comes before the answer to this.
	if _, err := g.connect("app").Ping(); err != nil {
		g.t.Errorf("at the end: %v", err)
	}
	g.log = append(g.log, "in the end there is "+g.contents())
	for _, c := range g.conns {
		c.Close()
	}
	return g.log
}

// TestOwnership plays every plot directly and through the proxy: what other clients see in the schema must be the same
// after every statement, and so must what the application sees.
func TestOwnership(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		proxies := map[string]*process.Process{}
		for _, strategy := range []string{"innodb", "keep"} {
			proxies[strategy] = startProxy(t, s.Address, "TMPPROXY_REWRITE_STRATEGY="+strategy)
		}
		for i := range plots {
			p := &plots[i]
			if p.kinds != nil && !slices.Contains(p.kinds, kind) {
				continue
			}
			t.Run(p.name, func(t *testing.T) {
				// A schema of its own: what the proxy has learned of a name must not keep the next plot from it.
				schema := fmt.Sprintf("owned_%d", i)
				t.Cleanup(func() {
					if err := s.Exec(context.Background(), "DROP DATABASE IF EXISTS "+schema, "DROP DATABASE IF EXISTS owned_other"); err != nil {
						t.Error(err)
					}
				})
				direct := (&stage{t: t, s: s, schema: schema}).play(p)
				if !strings.Contains(strings.Join(direct, "\n"), `["101" "1"]`) {
					t.Errorf("there is no permanent row that could be lost:\n%s", strings.Join(direct, "\n"))
				}
				for _, strategy := range []string{"innodb", "keep"} {
					t.Run(strategy, func(t *testing.T) {
						proxied := (&stage{t: t, s: s, schema: schema, proxy: proxies[strategy]}).play(p)
						for i := range direct {
							if i >= len(proxied) || direct[i] != proxied[i] {
								t.Errorf("directly\n%s\nthrough the proxy\n%s", strings.Join(direct[max(0, i-5):i+1], "\n"),
									strings.Join(proxied[max(0, min(i, len(proxied))-5):min(i+1, len(proxied))], "\n"))
								return
							}
						}
					})
				}
			})
		}
	})
}

// TestOwnershipInARace has a permanent table come and go while another session cycles with a temporary one of that name.
func TestOwnershipInARace(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		for _, strategy := range []string{"innodb", "keep"} {
			t.Run(strategy, func(t *testing.T) {
				database(t, s, "owned_race")
				// Checks are never believed for long, names never blocked for long: there is always a race.
				p := startProxy(t, s.Address, "TMPPROXY_REWRITE_STRATEGY="+strategy, "TMPPROXY_REWRITE_MAX_AGE=1s", "TMPPROXY_REWRITE_PARK_TTL=1s")
				app := connect(t, configure(s, p.Address, "owned_race"))
				done := make(chan error)
				stop := make(chan struct{})
				go func() {
					var err error
					defer func() { done <- err }()
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						default:
						}
						for _, text := range []string{"CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, race INT) ENGINE=MEMORY", "INSERT INTO t VALUES (1, 1)",
							[]string{"DROP TEMPORARY TABLE t", "DROP TABLE t"}[n%2]} {
							reply, e := app.Query(text)
							if e == nil {
								e = reply.AsError()
							}
							if e != nil {
								err = fmt.Errorf("%s: %w", text, e)
								return
							}
						}
					}
				}()
				direct := connect(t, configure(s, s.Address, "owned_race"))
				for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
					must(t, direct, "CREATE TABLE t (id INT PRIMARY KEY)")
					must(t, direct, "INSERT INTO t VALUES (101), (102), (103)")
					for range 10 {
						if got := value(t, direct, "SELECT COUNT(*) FROM t"); got != "3" {
							t.Fatalf("%s of 3 rows are left", got)
						}
					}
					must(t, direct, "DROP TABLE t")
				}
				close(stop)
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// TestOwnershipOfMergedTables keeps the tests honest: emptying a MERGE table does empty the tables under it.
func TestOwnershipOfMergedTables(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		s := shared(t, kind)
		database(t, s, "owned_merge")
		c := connect(t, configure(s, s.Address, "owned_merge"))
		for _, text := range []string{"CREATE TABLE p (id INT) ENGINE=MyISAM", "INSERT INTO p VALUES (1)",
			"CREATE TEMPORARY TABLE t (id INT) ENGINE=MERGE UNION=(p)", "TRUNCATE TABLE t"} {
			must(t, c, text)
		}
		if got := value(t, c, "SELECT COUNT(*) FROM p"); got != "0" {
			t.Errorf("%s rows are left", got)
		}
	})
}

// TestOwnershipBehindAScan has a trigger that was made after the bodies of triggers were read take the temporary table away, or put
// another one in its place: permanent tables must keep their rows.
func TestOwnershipBehindAScan(t *testing.T) {
	eachKind(t, func(t *testing.T, kind server.Kind) {
		for name, plot := range map[string]struct{ permanent, body string }{
			"dropped": {"scanned", "DROP TEMPORARY TABLE IF EXISTS scanned"},
			"made a MERGE table": {"victim", "BEGIN DROP TEMPORARY TABLE IF EXISTS scanned; " +
				"CREATE TEMPORARY TABLE scanned (id INT NOT NULL) ENGINE=MERGE UNION=(victim); END"},
		} {
			t.Run(name, func(t *testing.T) {
				s := shared(t, kind)
				database(t, s, "owned_scan")
				executeDirectly(t, s, "USE owned_scan", "CREATE TABLE "+plot.permanent+" (id INT NOT NULL) ENGINE=MyISAM",
					"INSERT INTO "+plot.permanent+" VALUES (101), (102)", "CREATE TABLE base (a INT)")
				user, _ := s.Account()
				p := startProxy(t, s.Address, "TMPPROXY_REWRITE_ROUTINES=scan", "TMPPROXY_BACKEND_MONITOR_USER="+user)
				app := connect(t, configure(s, p.Address, "owned_scan"))
				cycle := func() {
					must(t, app, "CREATE TEMPORARY TABLE scanned (id INT PRIMARY KEY) ENGINE=MEMORY")
					must(t, app, "INSERT INTO scanned VALUES (1)")
					must(t, app, "INSERT INTO base VALUES (1)")
					must(t, app, "DROP TEMPORARY TABLE IF EXISTS scanned")
				}
				parked := func() bool { return sessions(t, p)[app.Greeting.ThreadID].Parked == 1 }
				await(t, "the table is parked", func() bool { cycle(); return parked() })
				for range 3 {
					cycle()
				}
				if !parked() {
					t.Error("the table is not parked any more")
				}
				executeDirectly(t, s, "USE owned_scan", "CREATE TRIGGER late BEFORE INSERT ON base FOR EACH ROW "+plot.body)
				cycle()
				direct := connect(t, configure(s, s.Address, "owned_scan"))
				if got := value(t, direct, "SELECT COUNT(*) FROM "+plot.permanent); got != "2" {
					t.Errorf("%s of 2 rows are left", got)
				}
				must(t, app, "CREATE TEMPORARY TABLE scanned (id INT PRIMARY KEY) ENGINE=MEMORY")
				must(t, app, "DROP TEMPORARY TABLE scanned")
				if got := value(t, direct, "SELECT COUNT(*) FROM "+plot.permanent); got != "2" {
					t.Errorf("%s of 2 rows are left behind another cycle", got)
				}
			})
		}
	})
}
