# What a command-line client sees, CLIENT with FLAGS. Usage: client.sh HOST PORT USER PASSWORD DATABASE FILE
set -u
host=$1 port=$2 user=$3 database=$5 file=$6
export MYSQL_PWD=$4
create='CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY'
counters="SHOW SESSION STATUS WHERE Variable_name IN ('Com_create_table', 'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table');"

section() { printf '== %s\n' "$*"; }

# run feeds what it reads to a client of its own. The numbers of connections are left out.
run() {
  # shellcheck disable=SC2086 # FLAGS are several words
  "$CLIENT" --no-defaults --protocol=TCP --host="$host" --port="$port" --user="$user" --local-infile=1 --force --comments --max-allowed-packet=64M -vv $FLAGS "$@" "$database" 2>&1 |
    sed -e '/^Connection id:/d'
}

# cycles repeats a cycle and tells how many CREATEs and DROPs the last four cost.
cycles() {
  section "$1"
  for n in 1 2 3 4 5 6; do
    [ $n != 3 ] || printf '%s\n' "SELECT '@before';" "$counters" "SELECT '@end';"
    printf '%s\n' "$2"
    [ "$n $1" != "5 cycles" ] || printf '%s\n' "$create;" "SHOW CREATE TABLE report;" "DROP TEMPORARY TABLE report;"
  done | { cat; printf '%s\n' "SELECT '@after';" "$counters" "SELECT '@end';"; } | run --batch | awk -v name="$1" '
    /^(SHOW SESSION STATUS|SELECT .@)/ { next }
    /^@/ { side = $1; next }
    /^Com_create/ { creates += side == "@before" ? -$2 : $2; next }
    /^Com_drop/ { drops += side == "@before" ? -$2 : $2; next }
    /^report\t/ && match($0, /ENGINE=[A-Za-z]+/) { print "@engine " name " " substr($0, RSTART + 7, RLENGTH - 7); next }
    { print }
    END { print "@reuse " name " " creates " " drops }'
}

section connect
run <<SQL
SELECT VERSION(), DATABASE(), @@autocommit, @@character_set_client, @@collation_connection, @@sql_mode;
use nosuch
use $database
SQL

section types
run --table --column-type-info <<SQL
SELECT * FROM types ORDER BY id;
SQL
run --batch <<SQL
SELECT * FROM types ORDER BY id;
SQL
run --xml <<SQL
SELECT id, v, bl FROM types ORDER BY id;
SHOW TABLES;
DESCRIBE types;
SQL

section prepared
run <<SQL
PREPARE p FROM 'SELECT ? + ?, ?';
SET @a = 1, @b = 2, @c = 'c';
EXECUTE p USING @a, @b, @c;
DEALLOCATE PREPARE p;
EXECUTE p;
SQL

section write
run --show-warnings <<SQL
INSERT INTO types (tiny, v, bl) VALUES (1, 'it''s \\\\ "q"', X'000127'), (NULL, NULL, NULL);
SELECT * FROM types WHERE id > 4 ORDER BY id\G
UPDATE types SET tiny = 9 WHERE id < 4;
UPDATE types SET tiny = 9 WHERE id < 4;
INSERT IGNORE INTO types (id, tiny, small) VALUES (1, 1000, -1);
SQL

section big
awk 'BEGIN { printf "INSERT INTO bigs VALUES (1, \047"; for (i = 0; i < 17 * 65536; i++) printf "0123456789abcdef"; print "\047);" }' | run | cut -c1-100
run --batch --quick <<SQL | awk 'length > 100 { print length; next } { print }'
SELECT id, LENGTH(v), CRC32(v) FROM bigs;
SELECT v FROM bigs;
SELECT REPEAT('y', 100000);
SQL

section results
run <<SQL
CALL several(2);
CALL several(0);
delimiter //
SELECT 1; SELECT 'two', 2; UPDATE types SET tiny = 7 WHERE id = 2; SELECT tiny FROM types WHERE id = 2//
SELECT 1; SELECT * FROM nosuch; SELECT 3//
CALL several(1); SELECT 'after'//
SQL

section infile
run <<SQL
LOAD DATA LOCAL INFILE '$file' INTO TABLE loaded FIELDS TERMINATED BY ',';
LOAD DATA LOCAL INFILE '/nonexistent' INTO TABLE loaded;
SELECT COUNT(*), SUM(a), MAX(b) FROM loaded;
SQL

section transaction
run <<SQL
START TRANSACTION;
INSERT INTO loaded VALUES (-1, 'rolled back');
ROLLBACK;
BEGIN;
INSERT INTO loaded VALUES (-2, 'committed');
COMMIT;
SELECT COUNT(*), MIN(a) FROM loaded;
SQL

cycles cycles "$create;
INSERT INTO report VALUES (1, 1.25, 'one'), (2, 2.5, NULL);
SELECT * FROM report ORDER BY id;
BEGIN;
UPDATE report SET total = total * 2 WHERE id = 2;
COMMIT;
SELECT SUM(total) FROM report;
DROP TEMPORARY TABLE report;"

cycles ddl "PREPARE p FROM '$create';
EXECUTE p;
PREPARE p FROM 'INSERT INTO report VALUES (1, 1.5, NULL)';
EXECUTE p;
SELECT * FROM report;
PREPARE p FROM 'DROP TEMPORARY TABLE report';
EXECUTE p;
COMMIT;"

cycles several "delimiter //
$create; INSERT INTO report VALUES (1, 1, 'x'); SELECT * FROM report; DROP TEMPORARY TABLE report//
delimiter ;"

section errors
run <<SQL
INSERT INTO types (id) VALUES (1);
SELEC 1;
SELECT * FROM report;
DROP TEMPORARY TABLE report;
DROP TEMPORARY TABLE IF EXISTS report;
SHOW WARNINGS;
CREATE TEMPORARY TABLE report (id INT, id INT);
$create;
$create;
INSERT INTO report VALUES (1, 1, 'a'), (1, 2, 'b');
INSERT INTO report VALUES (1, 1, REPEAT('x', 21));
DROP TABLE report;
SELECT 'unfinished
SQL

section reconnect
run --reconnect <<SQL
$create;
DROP TEMPORARY TABLE report;
connect
SELECT * FROM report;
$create;
SELECT COUNT(*) FROM report;
SQL
section end
