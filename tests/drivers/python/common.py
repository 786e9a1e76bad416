"""What the programs for Python have in common: how what is seen is printed, and what is done through DB-API 2.0."""
import hashlib
import re
import sys

HOST, PORT, USER, PASSWORD, DATABASE, FILE = sys.argv[1:]

CREATE = "CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY"
COUNTERS = ("SHOW SESSION STATUS WHERE Variable_name IN "
            "('Com_create_table', 'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table')")


def section(*words):
    print("==", *words)


def show(value):
    """A value with its type, long ones by their digest."""
    if isinstance(value, (str, bytes, bytearray)) and len(value) > 100:
        data = value.encode() if isinstance(value, str) else bytes(value)
        return f"{type(value).__name__}({len(value)}) {hashlib.md5(data).hexdigest()}"
    if isinstance(value, (set, frozenset)):
        return f"set {sorted(value)!r}"
    return f"{type(value).__name__} {value!r}"


class Session:
    """One connection of a driver (module)."""

    def __init__(self, module, connection, mark):
        self.module, self.connection, self.mark = module, connection, mark

    def marked(self, text):
        return text.replace("?", self.mark)

    def results(self, cursor):
        while True:
            for column in cursor.description or ():
                print("  column", *map(repr, column))
            if cursor.description:
                for row in cursor.fetchall():
                    print(" ", " | ".join(map(show, row)))
            print("  rows", cursor.rowcount, "id", getattr(cursor, "lastrowid", None))
            if not hasattr(cursor, "nextset") or not cursor.nextset():
                return

    def failed(self, error):
        print("  error", type(error).__name__, error.args)

    def execute(self, text, *values):
        """Runs one statement or several; what it finds wrong is printed."""
        print(text[:100])
        cursor = self.connection.cursor()
        try:
            if values:
                cursor.execute(self.marked(text), *self.arguments(values))
            else:
                cursor.execute(text)
            self.results(cursor)
        except self.module.Error as error:
            self.failed(error)
        cursor.close()

    def arguments(self, values):
        return (values,)

    def value(self, text, column=0):
        cursor = self.connection.cursor()
        cursor.execute(text)
        value = cursor.fetchone()[column]
        cursor.close()
        return value

    def counted(self):
        """How many CREATEs and DROPs of this session have reached the server."""
        cursor = self.connection.cursor()
        cursor.execute(COUNTERS)
        rows = cursor.fetchall()
        cursor.close()
        creates = sum(int(value) for name, value in rows if name.startswith("Com_create"))
        return creates, sum(int(value) for _, value in rows) - creates

    def cycles(self, name, cycle):
        """Has the same cycle six times and tells how many CREATEs and DROPs the last four cost."""
        section(name)
        for n in range(1, 7):
            if n == 3:
                creates, drops = self.counted()
                self.connection.commit()  # what was read is not the cycle's
            cycle(n)
        after = self.counted()
        print("@reuse", name, after[0] - creates, after[1] - drops)

    def engine(self, name):
        print("@engine", name, re.search(r"ENGINE=(\w+)", self.value("SHOW CREATE TABLE report", 1))[1])

    # What follows is done with every driver. TYPES is what is selected from the table of all types.

    TYPES = "*"
    WARNINGS = "SHOW WARNINGS"

    def tidy(self):
        for text in ("DELETE FROM types WHERE id > 4", "ALTER TABLE types AUTO_INCREMENT = 5", "DELETE FROM bigs"):
            self.execute(text)
        self.connection.commit()

    def types(self):
        self.execute(f"SELECT {self.TYPES} FROM types ORDER BY id")

    def prepared(self):
        self.execute(f"SELECT {self.TYPES} FROM types WHERE id >= ? ORDER BY id", 2)
        self.execute("SELECT ?, ?, ?", 7, "größer", 2.5)

    def write(self):
        self.execute("INSERT INTO types (tiny, small, big, ubig, yes, f, d, dec1, day, at, clock, v, bl, j) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                     -5, 6, -2**63, 2**63 - 1, True, 0.25, 1.5e300, "1.0000000001", "2024-02-29", "2024-02-29 23:59:59.999999", "12:34:56.78", "größer 🙂",
                     b"\x00\x01\xfe\xff", '{"a": 1}')
        self.execute("INSERT INTO types (tiny, v) VALUES (?, ?)", None, None)
        cursor = self.connection.cursor()
        cursor.executemany(self.marked("INSERT INTO types (tiny, v) VALUES (?, ?)"), [(1, "it's"), (2, '\\"'), (3, "")])
        print("  many", cursor.rowcount)
        cursor.close()
        self.connection.commit()
        self.execute(f"SELECT {self.TYPES} FROM types WHERE id > 4 ORDER BY id")
        self.execute("UPDATE types SET tiny = 9 WHERE id < 4")
        self.execute("UPDATE types SET tiny = 9 WHERE id < 4")
        self.connection.commit()

    def big(self, megabytes):
        self.execute("INSERT INTO bigs VALUES (?, ?)", 1, b"0123456789abcdef" * (megabytes << 16))
        self.execute("SELECT id, LENGTH(v), CRC32(v), v FROM bigs")
        self.connection.commit()

    def infile(self):
        self.execute(f"LOAD DATA LOCAL INFILE '{FILE}' INTO TABLE loaded FIELDS TERMINATED BY ','")
        self.execute("SELECT COUNT(*), SUM(a), MAX(b) FROM loaded")
        self.connection.commit()

    def transaction(self):
        self.execute("INSERT INTO loaded VALUES (-1, 'rolled back')")
        self.connection.rollback()
        self.execute("INSERT INTO loaded VALUES (-2, 'committed')")
        self.connection.commit()
        self.execute("SELECT COUNT(*), MIN(a) FROM loaded")
        self.connection.commit()

    def report(self, name):
        """Cycles as the driver's own transactions have them: autocommit is off, unless it was turned on."""
        def cycle(n):
            self.execute(CREATE)
            self.execute("INSERT INTO report VALUES (1, 1.25, 'one'), (2, 2.5, NULL)")
            self.execute("INSERT INTO report VALUES (?, ?, ?)", n + 2, "3.75", f"cycle {n}")
            self.execute("SELECT * FROM report ORDER BY id")
            self.execute("SELECT name FROM report WHERE id = ?", 1)
            self.connection.commit()
            self.execute("UPDATE report SET total = total * 2 WHERE id = 2")
            self.execute("SELECT SUM(total) FROM report")
            if n == 4:
                self.engine(name)
            self.execute("DROP TEMPORARY TABLE report")
            self.connection.commit()
        self.cycles(name, cycle)
        self.execute("SELECT * FROM report")

    def errors(self):
        for text in ("INSERT INTO types (id) VALUES (1)", "SELEC 1", "DROP TEMPORARY TABLE report", "DROP TEMPORARY TABLE IF EXISTS report", self.WARNINGS):
            self.execute(text)
        self.execute("SELECT * FROM nosuch WHERE id = ?", 1)
        self.execute("INSERT INTO types (id) VALUES (?)", 1)
        for text in ("INSERT IGNORE INTO types (id, tiny, small) VALUES (1, 1000, -1)", self.WARNINGS, "CREATE TEMPORARY TABLE report (id INT, id INT)", CREATE, CREATE,
                     "INSERT INTO report VALUES (1, 1, 'a'), (1, 2, 'b')", "INSERT INTO report VALUES (1, 1, REPEAT('x', 21))", "DROP TABLE report"):
            self.execute(text)
        self.connection.rollback()

    def reconnect(self, again):
        """Loses the connection to a KILL by another and makes a new one by calling again, which returns a session."""
        identity = self.value("SELECT CONNECTION_ID()")
        killer = again()
        killer.connection.cursor().execute(f"KILL {identity}")
        try:
            self.connection.cursor().execute("DO 1")
            print("alive")
        except self.module.Error:
            print("lost")
        fresh = again()
        fresh.execute("SELECT 'alive'")
        fresh.execute(CREATE)
        fresh.execute("SELECT COUNT(*) FROM report")
        fresh.execute("DROP TEMPORARY TABLE report")
        fresh.connection.close()
        killer.connection.close()
