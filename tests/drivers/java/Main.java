import java.io.ByteArrayInputStream;
import java.io.StringReader;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.sql.*;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What MariaDB Connector/J sees. Usage: Main HOST PORT USER PASSWORD DATABASE FILE */
public class Main {
    static final String CREATE = "CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY";

    final String way, url, user, password, database, file;
    Connection db;

    interface Action {
        void run(int n) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        System.setOut(new java.io.PrintStream(System.out, true, StandardCharsets.UTF_8));
        String common = "allowMultiQueries=true&allowLocalInfile=true&allowPublicKeyRetrieval=true&serverTimezone=UTC&useServerPrepStmts=";
        new Main("client", args, common + "false&rewriteBatchedStatements=true").all();
        new Main("server", args, common + "true&useBatchMultiSend=false").all();
        new Main("pipeline", args, common + "true&useBulkStmts=true&useBatchMultiSend=true").all();
        System.out.println("== end");
    }

    Main(String way, String[] args, String options) {
        this.way = way;
        user = args[2];
        password = args[3];
        database = args[4];
        file = args[5];
        url = "jdbc:mariadb://" + args[0] + ":" + args[1] + "/" + database + "?" + options;
    }

    Connection connect() throws SQLException {
        return DriverManager.getConnection(url, user, password);
    }

    void section(String name) {
        System.out.println("== " + name + " " + way);
    }

    static void tell(Object... words) {
        StringBuilder line = new StringBuilder(" ");
        for (Object word : words) line.append(' ').append(word);
        System.out.println(line);
    }

    static String brief(String text) {
        return text.substring(0, Math.min(text.length(), 100));
    }

    static String digest(byte[] data) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("MD5").digest(data));
    }

    /** A value with its type, long ones by their digest. */
    static String show(Object value) throws Exception {
        if (value == null) return "null";
        if (value instanceof byte[] b) return b.length > 100 ? "bytes(" + b.length + ") " + digest(b) : "bytes " + HexFormat.of().formatHex(b);
        if (value instanceof Blob b) return show(b.getBytes(1, (int) b.length()));
        if (value instanceof String s && s.length() > 100) return "string(" + s.length() + ") " + digest(s.getBytes(StandardCharsets.UTF_8));
        return value.getClass().getSimpleName() + " " + value;
    }

    static void failed(SQLException e) {
        if (e instanceof BatchUpdateException b) tell("counts", java.util.Arrays.toString(b.getUpdateCounts()));
        // The driver's messages begin with the number of the connection.
        tell("error", e.getClass().getSimpleName(), e.getErrorCode(), e.getSQLState(), brief(e.getMessage().replaceAll("\\(conn=\\d+\\) ", "")));
    }

    static void result(ResultSet r) throws Exception {
        ResultSetMetaData m = r.getMetaData();
        for (int i = 1; i <= m.getColumnCount(); i++)
            tell(m.getColumnLabel(i), m.getColumnName(i), m.getTableName(i), m.getCatalogName(i), m.getColumnTypeName(i), m.getColumnType(i), m.getColumnClassName(i), m.getPrecision(i),
                    m.getScale(i), m.getColumnDisplaySize(i), m.isNullable(i), m.isSigned(i), m.isAutoIncrement(i));
        while (r.next()) {
            List<String> row = new ArrayList<>();
            for (int i = 1; i <= m.getColumnCount(); i++) row.add(show(r.getObject(i)));
            tell(String.join(" | ", row));
        }
        r.close();
    }

    static void warnings(SQLWarning w) {
        for (; w != null; w = w.getNextWarning()) tell("warning", w.getErrorCode(), w.getSQLState(), w.getMessage());
    }

    static void results(Statement s, boolean isResult) throws Exception {
        while (true) {
            if (isResult) result(s.getResultSet());
            else if (s.getUpdateCount() == -1) return;
            else tell("updated", s.getUpdateCount());
            warnings(s.getWarnings());
            isResult = s.getMoreResults();
        }
    }

    void run(String text) throws Exception {
        System.out.println(brief(text));
        try (Statement s = db.createStatement()) {
            results(s, s.execute(text, Statement.RETURN_GENERATED_KEYS));
        } catch (SQLException e) {
            failed(e);
        }
    }

    void prepared(String text, Object... values) throws Exception {
        System.out.println("prepared " + brief(text));
        try (PreparedStatement s = db.prepareStatement(text, Statement.RETURN_GENERATED_KEYS)) {
            for (int i = 0; i < values.length; i++) s.setObject(i + 1, values[i]);
            boolean isResult = s.execute();
            if (!isResult) {
                try (ResultSet keys = s.getGeneratedKeys()) {
                    while (keys.next()) tell("key", keys.getObject(1));
                }
            }
            results(s, isResult);
        } catch (SQLException e) {
            failed(e);
        }
    }

    String value(String text, int column) throws SQLException {
        try (Statement s = db.createStatement(); ResultSet r = s.executeQuery(text)) {
            r.next();
            return r.getString(column);
        }
    }

    /** How many CREATEs and DROPs of this session have reached the server. */
    int[] counted() throws SQLException {
        int[] sum = {0, 0};
        try (Statement s = db.createStatement();
                ResultSet r = s.executeQuery("SHOW SESSION STATUS WHERE Variable_name IN ('Com_create_table', 'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table')")) {
            while (r.next()) sum[r.getString(1).startsWith("Com_create") ? 0 : 1] += r.getInt(2);
        }
        return sum;
    }

    /** Has the same cycle six times and tells how many CREATEs and DROPs the last four cost. */
    void cycles(String name, Action cycle) throws Exception {
        section(name);
        int[] before = null;
        for (int n = 1; n <= 6; n++) {
            if (n == 3) before = counted();
            cycle.run(n);
        }
        int[] after = counted();
        System.out.println("@reuse " + name + " " + way + " " + (after[0] - before[0]) + " " + (after[1] - before[1]));
    }

    void all() throws Exception {
        db = connect();
        section("connect");
        DatabaseMetaData meta = db.getMetaData();
        tell(meta.getDatabaseProductName(), meta.getDatabaseProductVersion(), meta.getDriverName(), meta.getDriverVersion(), db.getAutoCommit(), db.getTransactionIsolation(), db.getCatalog(), db.isValid(5));
        run("SELECT DATABASE(), @@autocommit, @@character_set_client, @@sql_mode");
        for (String text : new String[] {"DELETE FROM types WHERE id > 4", "ALTER TABLE types AUTO_INCREMENT = 5", "DELETE FROM bigs"}) run(text);

        section("types");
        run("SELECT * FROM types ORDER BY id");
        result(meta.getTables(database, null, "%", null));
        result(meta.getColumns(database, null, "types", "%"));
        result(meta.getPrimaryKeys(database, null, "types"));

        section("prepared");
        prepared("SELECT * FROM types ORDER BY id");
        prepared("SELECT * FROM types WHERE id >= ? ORDER BY id", 2);
        prepared("SELECT ?, ?, ?, ?", 7, "größer", 2.5, null);
        try (Statement s = db.createStatement()) {
            s.setFetchSize(1);
            try (ResultSet r = s.executeQuery("SELECT id, v FROM types ORDER BY id DESC")) {
                while (r.next()) tell("streamed", r.getInt(1), show(r.getObject(2)));
            }
        }

        section("write");
        prepared("INSERT INTO types (tiny, small, big, ubig, yes, f, d, dec1, day, at, clock, v, bl, j) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)", -5, 6, Long.MIN_VALUE, new BigDecimal("18446744073709551615"), true,
                0.25f, 1.5e300, new BigDecimal("1.0000000001"), Date.valueOf("2024-02-29"), Timestamp.valueOf("2024-02-29 22:58:59.999999"), Time.valueOf("12:34:56"), "größer 🙂",
                new byte[] {0, 1, -2, -1}, "{\"a\": 1}");
        try (PreparedStatement s = db.prepareStatement("INSERT INTO types (tiny, v, bl, t) VALUES (?, ?, ?, ?)", Statement.RETURN_GENERATED_KEYS)) {
            for (int i = 1; i <= 5; i++) {
                s.setInt(1, i);
                s.setString(2, i == 3 ? null : "it's \\ " + i);
                s.setBinaryStream(3, new ByteArrayInputStream(new byte[] {1, 39, 92}));
                s.setCharacterStream(4, new StringReader("größer"));
                s.addBatch();
            }
            tell("batch", java.util.Arrays.toString(s.executeBatch()));
            try (ResultSet keys = s.getGeneratedKeys()) {
                while (keys.next()) tell("key", keys.getObject(1));
            }
        }
        try (PreparedStatement s = db.prepareStatement("INSERT INTO types (id) VALUES (?)")) {
            for (int id : new int[] {100, 1, 101}) {
                s.setInt(1, id);
                s.addBatch();
            }
            tell("batch", java.util.Arrays.toString(s.executeBatch()));
        } catch (SQLException e) {
            failed(e);
        }
        run("SELECT * FROM types WHERE id > 4 ORDER BY id");
        try (Statement s = db.createStatement()) {
            for (int i = 0; i < 3; i++) s.addBatch("UPDATE types SET tiny = " + i + " WHERE id < 4");
            tell("batch", java.util.Arrays.toString(s.executeBatch()));
        }
        try (Statement s = db.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE); ResultSet r = s.executeQuery("SELECT id, v FROM types WHERE id = 4")) {
            r.first();
            r.updateString(2, "updated");
            r.updateRow();
            tell(r.getString(2));
        }

        section("big");
        byte[] big = "0123456789abcdef".repeat((way.equals("server") ? 17 : 1) << 16).getBytes(StandardCharsets.US_ASCII);
        prepared("INSERT INTO bigs VALUES (?, ?)", 1, big);
        run("SELECT id, LENGTH(v), CRC32(v), v FROM bigs");
        prepared("SELECT id, v FROM bigs WHERE id = ?", 1);

        section("results");
        run("SELECT 1; SELECT 'two', 2; UPDATE types SET tiny = 7 WHERE id = 2; SELECT tiny FROM types WHERE id = 2");
        run("SELECT 1; SELECT * FROM nosuch; SELECT 3");
        run("CALL several(2)");
        try (CallableStatement s = db.prepareCall("{CALL several(?)}")) {
            s.setInt(1, 1);
            results(s, s.execute());
        }
        run("CALL several(0); SELECT 'after'");

        section("infile");
        run("LOAD DATA LOCAL INFILE '" + file + "' INTO TABLE loaded FIELDS TERMINATED BY ','");
        run("SELECT COUNT(*), SUM(a), MAX(b) FROM loaded");

        section("transaction");
        db.setAutoCommit(false);
        run("INSERT INTO loaded VALUES (-1, 'rolled back')");
        Savepoint p = db.setSavepoint("s");
        run("INSERT INTO loaded VALUES (-1, 'too')");
        db.rollback(p);
        db.rollback();
        run("INSERT INTO loaded VALUES (-2, 'committed')");
        db.commit();
        db.setAutoCommit(true);
        db.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        tell(db.getTransactionIsolation());
        run("SELECT COUNT(*), MIN(a) FROM loaded");

        for (boolean autocommit : new boolean[] {true, false}) {
            String name = autocommit ? "cycles" : "cycles off";
            db.setAutoCommit(autocommit);
            cycles(name, n -> {
                run(CREATE);
                run("INSERT INTO report VALUES (1, 1.25, 'one'), (2, 2.5, NULL)");
                prepared("INSERT INTO report VALUES (?, ?, ?)", n + 2, "3.75", "cycle " + n);
                run("SELECT * FROM report ORDER BY id");
                prepared("SELECT name FROM report WHERE id = ?", 1);
                run("UPDATE report SET total = total * 2 WHERE id = 2");
                run("SELECT SUM(total), (SELECT COUNT(*) FROM types) FROM report"); // the driver commits only what the server calls a transaction
                if (n == 4) {
                    Matcher m = Pattern.compile("ENGINE=(\\w+)").matcher(value("SHOW CREATE TABLE report", 2));
                    m.find();
                    System.out.println("@engine " + name + " " + way + " " + m.group(1));
                }
                run("DROP TEMPORARY TABLE report");
                if (!autocommit) db.commit();
            });
            run("SELECT * FROM report");
        }
        db.commit();
        db.setAutoCommit(true);

        cycles("ddl", n -> {
            prepared(CREATE.replace("report", "report_prepared"));
            prepared("INSERT INTO report_prepared VALUES (?, ?, ?)", n, "1.5", "x");
            prepared("SELECT * FROM report_prepared");
            prepared("DROP TEMPORARY TABLE report_prepared");
            run("COMMIT");
        });
        cycles("several", n -> run(CREATE.replace("report", "report_several") + "; INSERT INTO report_several VALUES (" + n + ", 1, 'x'); SELECT * FROM report_several; DROP TEMPORARY TABLE report_several"));

        section("errors");
        for (String text : new String[] {"INSERT INTO types (id) VALUES (1)", "SELEC 1", "DROP TEMPORARY TABLE report", "DROP TEMPORARY TABLE IF EXISTS report", "SHOW WARNINGS"}) run(text);
        prepared("SELECT * FROM nosuch WHERE id = ?", 1);
        prepared("INSERT INTO types (id) VALUES (?)", 1);
        for (String text : new String[] {"INSERT IGNORE INTO types (id, tiny, small) VALUES (1, 1000, -1)", "SHOW WARNINGS", "CREATE TEMPORARY TABLE report (id INT, id INT)", CREATE, CREATE,
                "INSERT INTO report VALUES (1, 1, 'a'), (1, 2, 'b')", "INSERT INTO report VALUES (1, 1, REPEAT('x', 21))", "DROP TABLE report"}) run(text);
        try (Statement s = db.createStatement()) {
            s.setQueryTimeout(1);
            s.execute("SELECT SLEEP(30)");
            tell("slept");
        } catch (SQLException e) {
            tell("timeout", e.getSQLState());
        }
        db.close();

        section("reconnect");
        db = connect();
        run(CREATE);
        run("DROP TEMPORARY TABLE report");
        String id = value("SELECT CONNECTION_ID()", 1);
        try (Connection killer = connect(); Statement s = killer.createStatement()) {
            s.execute("KILL " + id);
        }
        try (Statement s = db.createStatement()) {
            s.execute("DO 1");
            tell("alive");
        } catch (SQLException e) {
            tell("lost", db.isValid(1));
        }
        db = connect();
        run("SELECT 'alive'");
        run(CREATE);
        run("SELECT COUNT(*) FROM report");
        run("DROP TEMPORARY TABLE report");
        db.close();
    }
}
