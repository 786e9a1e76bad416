<?php
// What PHP's mysqli sees. Usage: mysqli.php HOST PORT USER PASSWORD DATABASE FILE
[, $host, $port, $user, $password, $database, $file] = $argv;
mysqli_report(MYSQLI_REPORT_OFF);

const CREATE = "CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY";

function section(string $name): void { echo "== $name\n"; }

function connect(): mysqli {
    global $host, $port, $user, $password, $database;
    $db = mysqli_init();
    $db->options(MYSQLI_OPT_LOCAL_INFILE, 1);
    if (!$db->real_connect($host, $user, $password, $database, (int)$port)) {
        fwrite(STDERR, "connect: " . $db->connect_error . "\n");
        exit(1);
    }
    return $db;
}

// show tells a value with its PHP type, long ones by their digest.
function show($value): string {
    if (is_string($value) && strlen($value) > 100) {
        return 'string(' . strlen($value) . ') ' . md5($value);
    }
    return is_string($value) && !mb_check($value) ? 'hex ' . bin2hex($value) : var_export($value, true);
}

function mb_check(string $s): bool { return preg_match('//u', $s) === 1 && !preg_match('/[\x00-\x08]/', $s); }

function result(mysqli_result $r): void {
    foreach ($r->fetch_fields() as $f) {
        echo "  $f->name/$f->orgname $f->table/$f->orgtable $f->db type $f->type flags $f->flags length $f->length decimals $f->decimals charset $f->charsetnr\n";
    }
    while ($row = $r->fetch_row()) {
        echo '  ', implode(' | ', array_map('show', $row)), "\n";
    }
    $r->free();
}

function failed($on): void { echo "  error $on->errno $on->sqlstate $on->error\n"; }

function outcome(mysqli $db): void {
    echo "  affected $db->affected_rows id $db->insert_id warnings $db->warning_count info $db->info\n";
}

function query(mysqli $db, string $text): void {
    echo substr($text, 0, 100), "\n";
    $r = $db->query($text);
    if ($r === false) {
        failed($db);
    } elseif ($r === true) {
        outcome($db);
    } else {
        result($r);
        outcome($db);
    }
}

function prepared(mysqli $db, string $text, string $types = '', ...$values): void {
    echo 'prepared ', substr($text, 0, 100), "\n";
    $s = $db->prepare($text);
    if (!$s) {
        failed($db);
        return;
    }
    if ($types !== '') {
        $s->bind_param($types, ...$values);
    }
    if (!$s->execute()) {
        failed($s);
    } elseif ($r = $s->get_result()) {
        result($r);
    } else {
        echo "  affected $s->affected_rows id $s->insert_id warnings {$db->warning_count}\n";
    }
    $s->close();
}

function several(mysqli $db, string $text): void {
    echo substr($text, 0, 100), "\n";
    if (!$db->multi_query($text)) {
        failed($db);
        return;
    }
    while (true) {
        if ($r = $db->store_result()) {
            result($r);
        } elseif ($db->errno) {
            failed($db);
        } else {
            outcome($db);
        }
        if (!$db->more_results()) {
            break;
        }
        if (!$db->next_result()) {
            failed($db);
            break;
        }
    }
}

// counted returns how many CREATEs and DROPs of this session have reached the server.
function counted(mysqli $db): array {
    $sum = [0, 0];
    $r = $db->query("SHOW SESSION STATUS WHERE Variable_name IN ('Com_create_table', 'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table')");
    foreach ($r as $row) {
        $sum[str_starts_with($row['Variable_name'], 'Com_create') ? 0 : 1] += (int)$row['Value'];
    }
    return $sum;
}

// cycles has the same cycle six times and tells how many CREATEs and DROPs the last four cost.
function cycles(mysqli $db, string $name, callable $cycle): void {
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

function engine(mysqli $db, string $name): void {
    preg_match('/ENGINE=(\w+)/', $db->query("SHOW CREATE TABLE report")->fetch_row()[1], $m);
    echo "@engine $name $m[1]\n";
}

section('connect');
$db = connect();
echo "$db->server_info $db->server_version $db->protocol_version {$db->character_set_name()} ", $db->get_charset()->collation, "\n";
var_dump($db->set_charset('utf8mb4'), $db->ping(), $db->select_db('nosuch'), $db->errno, $db->select_db($database));
query($db, "SELECT DATABASE(), @@autocommit, @@character_set_client, @@sql_mode");

section('types');
query($db, "SELECT * FROM types ORDER BY id");
$db->options(MYSQLI_OPT_INT_AND_FLOAT_NATIVE, true);
query($db, "SELECT id, tiny, big, ubig, f, d, dec1 FROM types ORDER BY id");
echo "unbuffered\n";
result($db->query("SELECT * FROM types ORDER BY id DESC", MYSQLI_USE_RESULT));

section('prepared');
prepared($db, "SELECT * FROM types ORDER BY id");
prepared($db, "SELECT * FROM types WHERE id >= ? ORDER BY id", 'i', 2);
prepared($db, "SELECT ?, ?, ?, ?", 'isds', 7, "größer", 2.5, null);
$s = $db->prepare("SELECT id, v FROM types ORDER BY id");
$s->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
$s->attr_set(MYSQLI_STMT_ATTR_PREFETCH_ROWS, 2);
var_dump($s->execute(), $s->bind_result($id, $v));
while ($s->fetch()) {
    echo "  cursor $id ", show($v), "\n";
}
$s->close();

section('write');
prepared($db, "INSERT INTO types (tiny, small, big, ubig, yes, f, d, dec1, day, at, clock, v, bl, j) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    'iiisiddsssssss', -5, 6, PHP_INT_MIN, "18446744073709551615", 1, 0.25, 1.5e300, "1.0000000001", "2024-02-29", "2024-02-29 23:59:59.999999", "12:34:56.78", "größer 🙂", "\x00\x01\xfe\xff", '{"a": 1}');
$s = $db->prepare("INSERT INTO types (tiny, v) VALUES (?, ?)");
$s->bind_param('is', $tiny, $v);
foreach ([[1, "it's"], [null, null], [3, '\\"']] as [$tiny, $v]) {
    var_dump($s->execute(), $s->affected_rows, $s->insert_id);
}
$s->close();
query($db, "INSERT INTO types (v) VALUES ('" . $db->real_escape_string("it's \\ \"q\" \0 \n") . "')");
query($db, "SELECT * FROM types WHERE id > 4 ORDER BY id");
query($db, "UPDATE types SET tiny = 9 WHERE id < 4");
query($db, "UPDATE types SET tiny = 9 WHERE id < 4");

section('big');
$big = str_repeat('0123456789abcdef', 17 << 16);
query($db, "INSERT INTO bigs VALUES (1, '$big')");
$s = $db->prepare("INSERT INTO bigs VALUES (2, ?)");
$null = null;
$s->bind_param('b', $null);
for ($at = 0; $at < strlen($big); $at += 1 << 20) {
    $s->send_long_data(0, substr($big, $at, 1 << 20));
}
var_dump($s->execute(), $s->error);
$s->close();
query($db, "SELECT id, LENGTH(v), CRC32(v), v FROM bigs ORDER BY id");
prepared($db, "SELECT id, v FROM bigs WHERE id = ?", 'i', 2);

section('results');
several($db, "SELECT 1; SELECT 'two', 2; UPDATE types SET tiny = 7 WHERE id = 2; SELECT tiny FROM types WHERE id = 2");
several($db, "SELECT 1; SELECT * FROM nosuch; SELECT 3");
several($db, "CALL several(2)");
several($db, "CALL several(0); SELECT 'after'");
echo "prepared CALL\n";
$s = $db->prepare("CALL several(?)");
$n = 2;
$s->bind_param('i', $n);
$s->execute();
do {
    if ($r = $s->get_result()) {
        result($r);
    }
} while ($s->more_results() && $s->next_result());
$s->close();

section('infile');
query($db, "LOAD DATA LOCAL INFILE '$file' INTO TABLE loaded FIELDS TERMINATED BY ','");
query($db, "LOAD DATA LOCAL INFILE '/nonexistent' INTO TABLE loaded");
query($db, "SELECT COUNT(*), SUM(a), MAX(b) FROM loaded");

section('transaction');
var_dump($db->begin_transaction(MYSQLI_TRANS_START_WITH_CONSISTENT_SNAPSHOT));
query($db, "INSERT INTO loaded VALUES (-1, 'rolled back')");
var_dump($db->savepoint('s'), $db->release_savepoint('s'), $db->rollback(), $db->autocommit(false));
query($db, "INSERT INTO loaded VALUES (-2, 'committed')");
var_dump($db->commit(), $db->autocommit(true));
query($db, "SELECT COUNT(*), MIN(a) FROM loaded");

cycles($db, 'cycles', function (int $n) use ($db) {
    query($db, CREATE);
    query($db, "INSERT INTO report VALUES (1, 1.25, 'one'), (2, 2.5, NULL)");
    prepared($db, "INSERT INTO report VALUES (?, ?, ?)", 'iss', $n + 2, '3.75', "cycle $n");
    query($db, "SELECT * FROM report ORDER BY id");
    prepared($db, "SELECT name FROM report WHERE id = ?", 'i', 1);
    $db->begin_transaction();
    query($db, "UPDATE report SET total = total * 2 WHERE id = 2");
    query($db, "SELECT COUNT(*) FROM loaded WHERE a < 0");
    $db->commit();
    query($db, "SELECT SUM(total) FROM report");
    if ($n == 4) {
        engine($db, 'cycles');
    }
    query($db, "DROP TEMPORARY TABLE report");
});
query($db, "SELECT * FROM report");

cycles($db, 'ddl', function (int $n) use ($db) {
    prepared($db, str_replace('report', 'report_prepared', CREATE));
    prepared($db, "INSERT INTO report_prepared VALUES (?, ?, ?)", 'iss', $n, '1.5', "cycle $n");
    prepared($db, "SELECT * FROM report_prepared ORDER BY id");
    prepared($db, "DROP TEMPORARY TABLE report_prepared");
});

// A transaction that has written into tables of two engines is warned of, where one of them was converted.
query($db, "COMMIT");
cycles($db, 'several', function (int $n) use ($db) {
    several($db, str_replace('report', 'report_several', CREATE) . "; INSERT INTO report_several VALUES ($n, 1, 'x'); SELECT * FROM report_several; DROP TEMPORARY TABLE report_several");
});

section('errors');
query($db, "INSERT INTO types (id) VALUES (1)");
query($db, "SELEC 1");
query($db, "DROP TEMPORARY TABLE report");
query($db, "DROP TEMPORARY TABLE IF EXISTS report");
query($db, "SHOW WARNINGS");
prepared($db, "SELECT * FROM nosuch WHERE id = ?");
prepared($db, "INSERT INTO types (id) VALUES (?)", 'i', 1);
query($db, "INSERT IGNORE INTO types (id, tiny, small) VALUES (1, 1000, -1)");
for ($w = $db->get_warnings(); $w; $w = $w->next() ? $w : null) {
    echo "  warning $w->errno $w->sqlstate $w->message\n";
}
query($db, "CREATE TEMPORARY TABLE report (id INT, id INT)");
query($db, CREATE);
query($db, CREATE);
query($db, "INSERT INTO report VALUES (1, 1, 'a'), (1, 2, 'b')");
query($db, "INSERT INTO report VALUES (1, 1, REPEAT('x', 21))");

section('reset');
var_dump($db->change_user($user, $password, $database));
query($db, "SELECT * FROM report");
query($db, CREATE);
query($db, "SELECT COUNT(*) FROM report");
query($db, "DROP TABLE report");
var_dump($db->change_user($user, 'wrong', $database), $db->errno);

section('reconnect');
$db = connect();
query($db, CREATE);
query($db, "DROP TEMPORARY TABLE report");
$killer = connect();
var_dump($killer->kill($db->thread_id));
echo $db->query("SELECT 1") ? "alive\n" : "lost\n";
$db = connect();
query($db, "SELECT 'alive'");
query($db, CREATE);
query($db, "SELECT COUNT(*) FROM report");
query($db, "DROP TEMPORARY TABLE report");
var_dump($db->close(), $killer->close());
section('end');
