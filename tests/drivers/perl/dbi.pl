# What Perl's DBI sees with DBD::mysql or DBD::MariaDB. Usage: dbi.pl DRIVER HOST PORT USER PASSWORD DATABASE FILE
use strict;
use warnings;
use utf8;
use DBI;
use Digest::MD5 qw(md5_hex);
binmode STDOUT, ':encoding(UTF-8)';
my ($driver, $host, $port, $user, $password, $database, $file) = @ARGV;
$SIG{__WARN__} = sub { print "  warns @_" };
my $mark = $driver eq 'mysql' ? 'mysql' : 'mariadb';    # the prefix of the driver's own attributes
my $create = "CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY";

sub section { print "== @_\n" }

sub connection {
    my ($prepare) = @_;
    return DBI->connect(
        "DBI:$driver:host=$host;port=$port;database=$database;${mark}_local_infile=1;${mark}_multi_statements=1;${mark}_server_prepare=$prepare",
        $user, $password, { RaiseError => 0, PrintError => 0, $driver eq 'mysql' ? (mysql_enable_utf8mb4 => 1) : () }
    ) || die "connect: $DBI::errstr\n";
}

sub show {
    my ($value) = @_;
    return 'undef' unless defined $value;
    return "string(" . length($value) . ") " . md5_hex(utf8::is_utf8($value) ? do { my $v = $value; utf8::encode($v); $v } : $value) if length($value) > 100;
    return $value =~ /[\x00-\x08\x7f-\xff]/ && $value !~ /[^\x00-\xff]/ ? "hex " . unpack('H*', $value) : "'$value'";
}

sub failed { my ($h) = @_; print "  error ", $h->err, ' ', $h->state, ' ', $h->errstr, "\n" }

# results prints what an executed statement has brought.
sub results {
    my ($s) = @_;
    while (1) {
        if ($s->{NUM_OF_FIELDS}) {
            for my $i (0 .. $s->{NUM_OF_FIELDS} - 1) {
                print "  $s->{NAME}[$i] type $s->{TYPE}[$i] precision ", $s->{PRECISION}[$i] // '', " scale ", $s->{SCALE}[$i] // '', " nullable $s->{NULLABLE}[$i]",
                    map({ " $_ " . ($s->{"${mark}_$_"}[$i] // '') } qw(table type_name length is_pri_key is_num is_blob)), "\n";
            }
            while (my $row = $s->fetchrow_arrayref) {
                print "  ", join(' | ', map { show($_) } @$row), "\n";
            }
            failed($s) if $s->err;
        }
        print "  rows ", $s->rows, " id ", $s->{"${mark}_insertid"} // '', " warnings ", $s->{"${mark}_warning_count"} // '', "\n";
        last unless $s->more_results;
    }
    failed($s) if $s->err;
    $s->finish;
}

# query prepares as the driver is told to, and executes.
sub query {
    my ($db, $text, @values) = @_;
    print substr($text, 0, 100), "\n";
    my $s = $db->prepare($text);
    return failed($db) unless $s;
    return failed($s) unless $s->execute(@values);
    results($s);
}

sub execute {
    my ($db, $text, @values) = @_;
    print "do ", substr($text, 0, 100), "\n";
    my $n = $db->do($text, undef, @values);
    return failed($db) unless defined $n;
    print "  $n info ", $db->{"${mark}_info"} // '', "\n";
}

# counted returns how many CREATEs and DROPs of this session have reached the server.
sub counted {
    my ($db) = @_;
    my %count = (create => 0, drop => 0);
    my $rows = $db->selectall_arrayref("SHOW SESSION STATUS WHERE Variable_name IN ('Com_create_table', 'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table')");
    $_->[0] =~ /^Com_(create|drop)/ and $count{$1} += $_->[1] for @$rows;
    return @count{qw(create drop)};
}

# cycles has the same cycle six times and tells how many CREATEs and DROPs the last four cost. The name begins with ddl where
# they are prepared statements.
sub cycles {
    my ($db, $name, $cycle) = @_;
    my @before;
    for my $n (1 .. 6) {
        @before = counted($db) if $n == 3;
        $cycle->($n);
    }
    my @after = counted($db);
    print "\@reuse $name ", $after[0] - $before[0], ' ', $after[1] - $before[1], "\n";
}

for my $way (qw(client server)) {
    my $prepare = $way eq 'server' ? 1 : 0;
    my $db = connection($prepare);
    section("connect $way");
    print $db->{"${mark}_serverinfo"}, ' ', $db->{"${mark}_serverversion"}, ' ', $db->{"${mark}_protoversion"} // $db->{"${mark}_protoinfo"}, ' ', $db->get_info(17), ' ', $db->ping, "\n";
    query($db, "SELECT DATABASE(), \@\@autocommit, \@\@character_set_client, \@\@sql_mode");
    execute($db, $_) for ("DELETE FROM types WHERE id > 4", "ALTER TABLE types AUTO_INCREMENT = 5", "DELETE FROM bigs");

    section("types $way");
    query($db, "SELECT * FROM types ORDER BY id");
    print join(' ', sort $db->tables(undef, $database, '%', 'TABLE')), "\n";
    my $columns = $db->column_info(undef, $database, 'types', '%');    # there are none where the driver does not know a type
    if ($columns) {
        while (my $row = $columns->fetchrow_hashref) {
            print "  catalog ", join(' ', map { "$_=" . ($row->{$_} // '') } qw(COLUMN_NAME DATA_TYPE TYPE_NAME COLUMN_SIZE NULLABLE)), "\n";
        }
    }
    print join(' ', $db->primary_key(undef, $database, 'types')), "\n";

    section("prepared $way");
    query($db, "SELECT * FROM types WHERE id >= ? ORDER BY id", 2);
    query($db, "SELECT ?, ?, ?", 7, "größer", undef);

    section("write $way");
    execute($db, "INSERT INTO types (tiny, small, big, ubig, yes, f, d, dec1, day, at, clock, v, bl, j) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        -5, 6, '-9223372036854775808', '18446744073709551615', 1, 0.25, '1.5e300', '1.0000000001', '2024-02-29', '2024-02-29 23:59:59.999999', '12:34:56.78', "größer 🙂", "bytes", '{"a": 1}');
    my $s = $db->prepare("INSERT INTO types (tiny, v) VALUES (?, ?)");
    for my $values ([1, "it's"], [undef, undef], [3, '\\"']) {
        print "  ", $s->execute(@$values), " id ", $s->{"${mark}_insertid"}, "\n";
    }
    execute($db, "INSERT INTO types (v) VALUES (" . $db->quote("it's \\ \"q\" \n") . ")");
    query($db, "SELECT * FROM types WHERE id > 4 ORDER BY id");
    execute($db, "UPDATE types SET tiny = 9 WHERE id < 4");
    execute($db, "UPDATE types SET tiny = 9 WHERE id < 4");

    section("big $way");
    execute($db, "INSERT INTO bigs VALUES (?, ?)", 1, '0123456789abcdef' x (($prepare ? 17 : 1) << 16));
    $db->{LongReadLen} = 32 << 20;
    query($db, "SELECT id, LENGTH(v), CRC32(v), v FROM bigs");

    section("results $way");
    if (!$prepare) {
        query($db, "SELECT 1; SELECT 'two', 2; UPDATE types SET tiny = 7 WHERE id = 2; SELECT tiny FROM types WHERE id = 2");
        query($db, "SELECT 1; SELECT * FROM nosuch; SELECT 3");
    }
    query($db, "CALL several(2)") if !$prepare;    # with the other way the drivers do not read on
    query($db, "SELECT 'after'");

    section("infile $way");
    execute($db, "LOAD DATA LOCAL INFILE '$file' INTO TABLE loaded FIELDS TERMINATED BY ','");
    execute($db, "LOAD DATA LOCAL INFILE '/nonexistent' INTO TABLE loaded");
    query($db, "SELECT COUNT(*), SUM(a), MAX(b) FROM loaded");

    section("transaction $way");
    $db->begin_work;
    execute($db, "INSERT INTO loaded VALUES (-1, 'rolled back')");
    print $db->{AutoCommit} ? 1 : 0, $db->rollback, $db->{AutoCommit}, "\n";
    $db->{AutoCommit} = 0;
    execute($db, "INSERT INTO loaded VALUES (-2, 'committed')");
    print $db->commit, "\n";
    $db->{AutoCommit} = 1;
    query($db, "SELECT COUNT(*), MIN(a) FROM loaded");

    section("cycles $way");
    cycles($db, $prepare ? 'ddl by do' : 'cycles', sub {
        my ($n) = @_;
        execute($db, $create);
        execute($db, "INSERT INTO report VALUES (1, 1.25, 'one'), (2, 2.5, NULL)");
        execute($db, "INSERT INTO report VALUES (?, ?, ?)", $n + 2, '3.75', "cycle $n");
        query($db, "SELECT * FROM report ORDER BY id");
        query($db, "SELECT name FROM report WHERE id = ?", 1);
        $db->begin_work;
        execute($db, "UPDATE report SET total = total * 2 WHERE id = 2");
        $db->commit;
        query($db, "SELECT SUM(total) FROM report");
        if ($n == 4) {
            my ($text) = ($db->selectrow_array("SHOW CREATE TABLE report"))[1];
            print "\@engine cycles ", $text =~ /ENGINE=(\w+)/, "\n" if !$prepare;
        }
        execute($db, "DROP TEMPORARY TABLE report");
    });
    query($db, "SELECT * FROM report");

    section("ddl $way");
    cycles($db, "ddl $way", sub {
        my ($n) = @_;
        query($db, $create =~ s/report/report_prepared/r);
        query($db, "INSERT INTO report_prepared VALUES (?, ?, ?)", $n, '1.5', 'x');
        query($db, "SELECT * FROM report_prepared");
        query($db, "DROP TEMPORARY TABLE report_prepared");
        query($db, "COMMIT");
    });

    section("several $way") if !$prepare;
    cycles($db, "several", sub {
        my ($n) = @_;
        query($db, ($create =~ s/report/report_several/r) . "; INSERT INTO report_several VALUES ($n, 1, 'x'); SELECT * FROM report_several; DROP TEMPORARY TABLE report_several");
    }) if !$prepare;

    section("errors $way");
    execute($db, "INSERT INTO types (id) VALUES (1)");
    query($db, "SELEC 1");
    execute($db, "DROP TEMPORARY TABLE report");
    execute($db, "DROP TEMPORARY TABLE IF EXISTS report");
    query($db, "SHOW WARNINGS") if !$prepare;
    query($db, "SELECT * FROM nosuch WHERE id = ?", 1);
    execute($db, "INSERT INTO types (id) VALUES (?)", 1);
    execute($db, "INSERT IGNORE INTO types (id, tiny, small) VALUES (1, 1000, -1)");
    query($db, "SHOW WARNINGS") if !$prepare;
    execute($db, "CREATE TEMPORARY TABLE report (id INT, id INT)");
    execute($db, $create);
    execute($db, $create);
    execute($db, "INSERT INTO report VALUES (1, 1, 'a'), (1, 2, 'b')");
    execute($db, "INSERT INTO report VALUES (1, 1, REPEAT('x', 21))");
    execute($db, "DROP TABLE report");

    section("reset $way");
    $db->{"${mark}_auto_reconnect"} = 1;
    execute($db, $create);
    my $id = $db->selectrow_array("SELECT CONNECTION_ID()");
    my $killer = connection($prepare);
    $killer->do("KILL $id");
    # The driver connects again, unseen: the temporary table is gone.
    query($db, "SELECT 'again'");
    query($db, "SELECT * FROM report");

    section("reconnect $way");
    $db = connection($prepare);
    $id = $db->selectrow_array("SELECT CONNECTION_ID()");
    $killer->do("KILL $id");
    print $db->do("DO 1") ? "alive\n" : "lost\n";
    print $db->ping ? "alive\n" : "lost\n";
    $db = connection($prepare);
    query($db, "SELECT 'alive'");
    execute($db, $create);
    query($db, "SELECT COUNT(*) FROM report");
    execute($db, "DROP TEMPORARY TABLE report");
    $db->disconnect;
    $killer->disconnect;
}
section('end');
