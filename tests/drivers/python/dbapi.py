"""What mysqlclient (MySQLdb) or PyMySQL sees: dbapi.py MODULE HOST PORT USER PASSWORD DATABASE FILE"""
import importlib
import sys
import warnings

module = importlib.import_module(sys.argv.pop(1))
from common import CREATE, DATABASE, HOST, PASSWORD, PORT, USER, Session, section  # noqa: E402

cursors = importlib.import_module(module.__name__ + ".cursors")
warnings.simplefilter("ignore")


def connect(**more):
    options = dict(host=HOST, port=int(PORT), user=USER, password=PASSWORD, database=DATABASE, charset="utf8mb4", local_infile=True, **more)
    if module.__name__ == "MySQLdb":
        options["client_flag"] = 1 << 16  # several statements in one text
    else:
        options["client_flag"] = module.constants.CLIENT.MULTI_STATEMENTS
    return Session(module, module.connect(**options), "%s")


section("connect")
s = connect()
c = s.connection
print(c.get_server_info(), c.get_proto_info(), c.character_set_name(), c.get_autocommit(), c.ping())
s.execute("SELECT DATABASE(), @@autocommit, @@character_set_client, @@collation_connection, @@sql_mode")
try:
    c.select_db("nosuch")
except module.Error as error:
    s.failed(error)
c.select_db(DATABASE)

section("types")
s.types()
for kind in (cursors.DictCursor, cursors.SSCursor):
    cursor = c.cursor(kind)
    cursor.execute("SELECT id, v, bl, at FROM types ORDER BY id DESC")
    for row in cursor:
        print(" ", row)
    cursor.close()

section("prepared")  # the driver puts the parameters into the text; PREPARE does not
s.prepared()
for text in ("PREPARE p FROM 'SELECT ? + ?, ?'", "SET @a = 1, @b = 2, @c = 'c'", "EXECUTE p USING @a, @b, @c", "DEALLOCATE PREPARE p", "EXECUTE p"):
    s.execute(text)

section("write")
s.write()
print(c.escape_string("it's \\ \"q\" \0 \n"))

section("big")
s.big(17)

section("results")
s.execute("SELECT 1; SELECT 'two', 2; UPDATE types SET tiny = 7 WHERE id = 2; SELECT tiny FROM types WHERE id = 2")
s.execute("SELECT 1; SELECT * FROM nosuch; SELECT 3")
s.execute("CALL several(2)")
cursor = c.cursor()
print(cursor.callproc("several", (1,)))
s.results(cursor)
cursor.execute("SELECT @_several_0")
print(cursor.fetchall())
cursor.close()
c.commit()

section("infile")
s.infile()
s.execute("LOAD DATA LOCAL INFILE '/nonexistent' INTO TABLE loaded")

section("transaction")
s.transaction()
c.begin()
s.execute("INSERT INTO loaded VALUES (-3, 'begun')")
c.rollback()

s.report("cycles off")  # autocommit is off
c.autocommit(True)
print(c.get_autocommit())
s.report("cycles on")


def text_prepared(n):
    for text in (CREATE.replace("report", "report_prepared"), f"INSERT INTO report_prepared VALUES ({n}, 1.5, 'x')", "SELECT * FROM report_prepared", "DROP TEMPORARY TABLE report_prepared"):
        s.execute(f"PREPARE p FROM '{text}'".replace("'x'", "''x''"))
        s.execute("EXECUTE p")
        s.execute("DEALLOCATE PREPARE p")


s.cycles("ddl", text_prepared)
s.cycles("several", lambda n: s.execute(CREATE.replace("report", "report_several") +
         f"; INSERT INTO report_several VALUES ({n}, 1, 'x'); SELECT * FROM report_several; DROP TEMPORARY TABLE report_several"))

section("errors")
s.errors()
s.execute("INSERT IGNORE INTO types (id, tiny, small) VALUES (1, 1000, -1)")
print(c.show_warnings())

section("reset")
if module.__name__ == "MySQLdb":
    s.execute(CREATE)
    print(c.change_user(USER, PASSWORD, DATABASE))
    s.execute("SELECT * FROM report")
    s.execute(CREATE)
    s.execute("DROP TEMPORARY TABLE report")
    print(c.stat() != "", c.thread_id() > 0)
else:
    s.execute(CREATE)
    c.close()
    c.ping(reconnect=True)
    s.execute("SELECT * FROM report")

section("reconnect")
s.reconnect(lambda: connect(autocommit=True))
section("end")
