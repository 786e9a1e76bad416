<?php
// What PHP's PDO sees. Usage: pdo.php HOST PORT USER PASSWORD DATABASE FILE
[, $host, $port, $user, $password, $database, $file] = $argv;

const CREATE = "CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY";

function section(string $name): void { echo "== $name\n"; }

function connect(bool $emulate): PDO {
    global $host, $port, $user, $password, $database;
    return new PDO("mysql:host=$host;port=$port;dbname=$database;charset=utf8mb4", $user, $password, [
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
        PDO::ATTR_EMULATE_PREPARES => $emulate,
        PDO::MYSQL_ATTR_LOCAL_INFILE => true,
    ]);
}

// show tells a value with its PHP type, long ones by their digest.
function show($value): string {
    if (is_string($value) && strlen($value) > 100) {
        return 'string(' . strlen($value) . ') ' . md5($value);
    }
    return is_string($value) && (preg_match('//u', $value) !== 1 || preg_match('/[\x00-\x08]/', $value)) ? 'hex ' . bin2hex($value) : var_export($value, true);
}

function results(PDOStatement $s): void {
    do {
        for ($i = 0; $i < $s->columnCount(); $i++) {
            echo '  ', json_encode($s->getColumnMeta($i)), "\n";
        }
        if ($s->columnCount() > 0) {
            while ($row = $s->fetch(PDO::FETCH_NUM)) {
                echo '  ', implode(' | ', array_map('show', $row)), "\n";
            }
        }
        echo '  rows ', $s->rowCount(), "\n";
    } while ($s->nextRowset());
    $s->closeCursor();
}

function failed(PDOException $e): void { echo '  error ', implode(' ', array_map('strval', $e->errorInfo)), "\n"; }

function query(PDO $db, string $text): void {
    echo substr($text, 0, 100), "\n";
    try {
        results($db->query($text));
    } catch (PDOException $e) {
        failed($e);
    }
}

function execute(PDO $db, string $text): void {
    echo 'exec ', substr($text, 0, 100), "\n";
    try {
        echo '  ', $db->exec($text), ' id ', $db->lastInsertId(), "\n";
    } catch (PDOException $e) {
        failed($e);
    }
}

function prepared(PDO $db, string $text, array $values = []): void {
    echo 'prepared ', substr($text, 0, 100), "\n";
    try {
        $s = $db->prepare($text);
        foreach ($values as $i => $value) {
            $s->bindValue($i + 1, $value, is_int($value) ? PDO::PARAM_INT : (is_null($value) ? PDO::PARAM_NULL : (is_bool($value) ? PDO::PARAM_BOOL : PDO::PARAM_STR)));
        }
        $s->execute();
        results($s);
    } catch (PDOException $e) {
        failed($e);
    }
}

// counted returns how many CREATEs and DROPs of this session have reached the server.
function counted(PDO $db): array {
    $sum = [0, 0];
    foreach ($db->query("SHOW SESSION STATUS WHERE Variable_name IN ('Com_create_table', 'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table')") as [$name, $value]) {
        $sum[str_starts_with($name, 'Com_create') ? 0 : 1] += (int)$value;
    }
    return $sum;
}

// cycles has the same cycle six times and tells how many CREATEs and DROPs the last four cost.
function cycles(PDO $db, string $name, callable $cycle): void {
    section($name);
    for ($n = 1; $n <= 6; $n++) {
        if ($n == 3) {
            $before = counted($db);
        }
        $cycle($n);
    }
    $after = counted($db);
    echo "@reuse $name ", $after[0] - $before[0], ' ', $after[1] - $before[1], "\n";
}

foreach (['emulated' => true, 'native' => false] as $way => $emulate) {
    section("connect $way");
    $db = connect($emulate);
    foreach ([PDO::ATTR_SERVER_VERSION, PDO::ATTR_CLIENT_VERSION, PDO::ATTR_CONNECTION_STATUS, PDO::ATTR_AUTOCOMMIT] as $attribute) {
        echo show($db->getAttribute($attribute)), "\n";
    }
    $db->exec("DELETE FROM types WHERE id > 4");
    $db->exec("ALTER TABLE types AUTO_INCREMENT = 5");
    $db->exec("DELETE FROM bigs");

    section("types $way");
    query($db, "SELECT * FROM types ORDER BY id");
    $db->setAttribute(PDO::ATTR_STRINGIFY_FETCHES, true);
    query($db, "SELECT * FROM types ORDER BY id");
    $db->setAttribute(PDO::ATTR_STRINGIFY_FETCHES, false);
    $db->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false);
    query($db, "SELECT id, v, bl FROM types ORDER BY id DESC");
    $db->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, true);

    section("prepared $way");
    prepared($db, "SELECT * FROM types WHERE id >= ? ORDER BY id", [2]);
    prepared($db, "SELECT ?, ?, ?, ?", [7, "größer", null, true]);

    section("write $way");
    prepared($db, "INSERT INTO types (tiny, small, big, ubig, yes, f, d, dec1, day, at, clock, v, bl, j) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        [-5, 6, PHP_INT_MIN, "18446744073709551615", true, "0.25", "1.5e300", "1.0000000001", "2024-02-29", "2024-02-29 23:59:59.999999", "12:34:56.78", "größer 🙂", "\x00\x01\x27\x5c", '{"a": 1}']);
    $s = $db->prepare("INSERT INTO types (tiny, v) VALUES (:tiny, :v)");
    foreach ([[1, "it's"], [null, null], [3, '\\"']] as [$tiny, $v]) {
        var_dump($s->execute(['tiny' => $tiny, 'v' => $v]), $s->rowCount(), $db->lastInsertId());
    }
    execute($db, "INSERT INTO types (v) VALUES (" . $db->quote("it's \\ \"q\" \0 \n") . ")");
    query($db, "SELECT * FROM types WHERE id > 4 ORDER BY id");

    section("big $way");
    $big = str_repeat('0123456789abcdef', ($emulate ? 1 : 17) << 16);
    prepared($db, "INSERT INTO bigs VALUES (?, ?)", [1, $big]);
    query($db, "SELECT id, LENGTH(v), CRC32(v), v FROM bigs");
    prepared($db, "SELECT id, v FROM bigs WHERE id = ?", [1]);

    section("results $way");
    if ($emulate) { // otherwise query() prepares, too, and there is no such thing in a prepared statement
        query($db, "SELECT 1; SELECT 'two', 2; UPDATE types SET tiny = 7 WHERE id = 2; SELECT tiny FROM types WHERE id = 2");
    }
    query($db, "SELECT 1; SELECT * FROM nosuch; SELECT 3");
    query($db, "CALL several(2)");
    prepared($db, "CALL several(?)", [0]);

    section("infile $way");
    execute($db, "LOAD DATA LOCAL INFILE '$file' INTO TABLE loaded FIELDS TERMINATED BY ','");
    query($db, "SELECT COUNT(*), SUM(a), MAX(b) FROM loaded");

    section("transaction $way");
    var_dump($db->beginTransaction(), $db->inTransaction());
    execute($db, "INSERT INTO loaded VALUES (-1, 'rolled back')");
    var_dump($db->rollBack(), $db->inTransaction(), $db->beginTransaction());
    execute($db, "INSERT INTO loaded VALUES (-2, 'committed')");
    var_dump($db->commit());
    $db->beginTransaction();
    execute($db, "CREATE TABLE implicit_$way (id INT)");
    var_dump($db->inTransaction());
    query($db, "SELECT COUNT(*), MIN(a) FROM loaded");

    cycles($db, "cycles $way", function (int $n) use ($db, $way) {
        execute($db, CREATE);
        execute($db, "INSERT INTO report VALUES (1, 1.25, 'one'), (2, 2.5, NULL)");
        prepared($db, "INSERT INTO report VALUES (?, ?, ?)", [$n + 2, '3.75', "cycle $n"]);
        query($db, "SELECT * FROM report ORDER BY id");
        prepared($db, "SELECT name FROM report WHERE id = ?", [1]);
        $db->beginTransaction();
        var_dump($db->inTransaction());
        execute($db, "UPDATE report SET total = total * 2 WHERE id = 2");
        query($db, "SELECT COUNT(*) FROM loaded WHERE a < 0");
        var_dump($db->commit(), $db->inTransaction());
        query($db, "SELECT SUM(total) FROM report");
        if ($n == 4) {
            preg_match('/ENGINE=(\w+)/', $db->query("SHOW CREATE TABLE report")->fetch()[1], $m);
            echo "@engine cycles $way $m[1]\n";
        }
        execute($db, "DROP TEMPORARY TABLE report");
    });
    query($db, "SELECT * FROM report");

    cycles($db, "ddl $way", function (int $n) use ($db) {
        prepared($db, str_replace('report', 'report_prepared', CREATE));
        prepared($db, "INSERT INTO report_prepared VALUES (?, ?, ?)", [$n, '1.5', "cycle $n"]);
        query($db, "SELECT * FROM report_prepared ORDER BY id");
        prepared($db, "DROP TEMPORARY TABLE report_prepared");
    });

    if ($emulate) {
        cycles($db, "several $way", function (int $n) use ($db) {
            query($db, str_replace('report', 'report_several', CREATE) . "; INSERT INTO report_several VALUES ($n, 1, 'x'); SELECT * FROM report_several; DROP TEMPORARY TABLE report_several");
        });
    }

    section("errors $way");
    execute($db, "INSERT INTO types (id) VALUES (1)");
    query($db, "SELEC 1");
    execute($db, "DROP TEMPORARY TABLE report");
    execute($db, "DROP TEMPORARY TABLE IF EXISTS report");
    query($db, "SHOW WARNINGS");
    prepared($db, "SELECT * FROM nosuch WHERE id = ?", [1]);
    prepared($db, "INSERT INTO types (id) VALUES (?)", [1]);
    execute($db, "INSERT IGNORE INTO types (id, tiny, small) VALUES (1, 1000, -1)");
    query($db, "SHOW WARNINGS");
    execute($db, CREATE);
    execute($db, CREATE);
    execute($db, "INSERT INTO report VALUES (1, 1, 'a'), (1, 2, 'b')");
    execute($db, "INSERT INTO report VALUES (1, 1, REPEAT('x', 21))");
    execute($db, "DROP TABLE report");

    section("reconnect $way");
    $id = $db->query("SELECT CONNECTION_ID()")->fetchColumn();
    $killer = connect($emulate);
    $killer->exec("KILL $id");
    try {
        @$db->query("SELECT 1");
        echo "alive\n";
    } catch (PDOException) {
        echo "lost\n";
    }
    $db = connect($emulate);
    query($db, "SELECT 'alive'");
    execute($db, CREATE);
    query($db, "SELECT COUNT(*) FROM report");
    execute($db, "DROP TEMPORARY TABLE report");
}
section('end');
