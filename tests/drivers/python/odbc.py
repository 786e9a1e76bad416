"""What MariaDB's ODBC driver sees, by way of pyodbc."""
import os

import pyodbc as module

from common import CREATE, DATABASE, HOST, PASSWORD, PORT, USER, Session, section

module.pooling = False


class ODBC(Session):
    # The driver does not know MySQL's JSON, and loses its place in the replies where MySQL will not prepare a statement, such
    # as SHOW WARNINGS.
    TYPES = "id, tiny, small, medium, big, ubig, yes, f, d, dec1, b, day, at, stamp, clock, year, c, v, l, bin, vbin, t, mt, bl, e, s, CAST(j AS CHAR) AS j, p"
    WARNINGS = "DO 1"

    def arguments(self, values):
        return values


def connect(autocommit=False, more=""):
    # OPTION: 67108864 is several statements in one text.
    text = f"DRIVER={os.environ['TMPPROXY_ODBC']};SERVER={HOST};PORT={PORT};UID={USER};PWD={PASSWORD};DATABASE={DATABASE};CHARSET=utf8mb4;OPTION=67108864;{more}"
    return ODBC(module, module.connect(text, autocommit=autocommit), "?")


for way, more in (("server", ""), ("client", "PREPONCLIENT=1;")):
    section("connect", way)
    s = connect(more=more)
    for name in ("SQL_DBMS_NAME", "SQL_DBMS_VER", "SQL_DRIVER_NAME", "SQL_DRIVER_VER", "SQL_DATABASE_NAME", "SQL_TXN_CAPABLE"):
        print(name, s.connection.getinfo(getattr(module, name)))
    s.execute("SELECT DATABASE(), @@autocommit, @@character_set_client, @@sql_mode")
    s.tidy()

    section("types", way)
    # The driver hands times of day to Python as if they were hours of a day.
    s.execute("UPDATE types SET clock = '23:59:58.25' WHERE id = 1")
    s.types()
    cursor = s.connection.cursor()
    for call in (lambda: cursor.tables(), lambda: cursor.columns("types"), lambda: cursor.primaryKeys("types"), lambda: cursor.statistics("types"), lambda: cursor.procedures()):
        for row in call():
            print("  catalog", row)
    cursor.close()

    section("prepared", way)
    s.prepared()

    section("write", way)
    s.write()

    section("big", way)
    s.big(17 if way == "server" else 1)

    section("results", way)
    s.execute("SELECT 1; SELECT 'two', 2; UPDATE types SET tiny = 7 WHERE id = 2; SELECT tiny FROM types WHERE id = 2")
    s.execute("SELECT 1; SELECT * FROM nosuch; SELECT 3")
    s.execute("CALL several(2)")
    s.execute("{CALL several(?)}", 1)
    s.connection.commit()

    section("infile", way)
    s.infile()

    section("transaction", way)
    s.transaction()

    s.report("cycles " + way)
    s.connection.autocommit = True
    s.report("cycles autocommit " + way)

    # A parameter that is there makes the driver prepare the statement.
    def ddl(n):
        s.execute(CREATE.replace("report", "report_prepared"))
        s.execute("INSERT INTO report_prepared VALUES (?, ?, ?)", n, "1.5", "x")
        s.execute("SELECT * FROM report_prepared WHERE id > ?", 0)
        s.execute("DROP TEMPORARY TABLE report_prepared")
    s.cycles("ddl " + way, ddl)

    s.cycles("several " + way, lambda n: s.execute(CREATE.replace("report", "report_several") +
             f"; INSERT INTO report_several VALUES ({n}, 1, 'x'); SELECT * FROM report_several; DROP TEMPORARY TABLE report_several"))

    s.connection.autocommit = False

    section("errors", way)
    s.errors()

    section("reconnect", way)
    s.reconnect(lambda: connect(True, more))
section("end")
