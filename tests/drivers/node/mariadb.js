// What Node's mariadb sees. Usage: mariadb.js HOST PORT USER PASSWORD DATABASE FILE
'use strict';
const mariadb = require('mariadb');
const { host, port, user, password, database, file, CREATE, section, show, failed, cycles, program } = require('./common.js');

const options = { host, port, user, password, database, charset: 'utf8mb4', multipleStatements: true, rowsAsArray: true, timezone: 'Z', permitLocalInfile: true, metaAsArray: false, allowPublicKeyRetrieval: true };

function result(r) {
  if (!Array.isArray(r)) {
    console.log(`  affected ${r.affectedRows} id ${r.insertId} warnings ${r.warningStatus}`);
    return;
  }
  for (const f of r.meta ?? []) console.log(`  ${f.name()}/${f.orgName()} ${f.table()}/${f.orgTable()} ${f.db()} type ${f.columnType} ${f.type} flags ${f.flags} length ${f.columnLength} scale ${f.scale}`);
  for (const row of r) console.log(' ', Array.isArray(row) ? row.map(show).join(' | ') : show(row));
}

// Several results are an array of arrays and OKs; rows are arrays, too, but a result has its meta.
function results(r) {
  if (Array.isArray(r) && r.meta === undefined) r.forEach(result);
  else result(r);
}

async function run(db, way, text, values) {
  console.log(way, (text.sql ?? text).slice(0, 100));
  try {
    results(await db[way](text, values));
  } catch (error) {
    failed(error);
  }
}
const query = (db, text, values) => run(db, 'query', text, values);
const execute = (db, text, values) => run(db, 'execute', text, values);

program(async () => {
  section('connect');
  const db = await mariadb.createConnection(options);
  console.log(db.serverVersion(), db.info.isMariaDB(), await db.ping());
  await query(db, 'SELECT VERSION(), DATABASE(), @@autocommit, @@character_set_client, @@collation_connection, @@sql_mode');

  section('types');
  await query(db, 'SELECT * FROM types ORDER BY id');
  await query(db, { sql: 'SELECT * FROM types ORDER BY id', dateStrings: true, bigIntAsNumber: true, decimalAsNumber: true });
  for await (const row of db.queryStream('SELECT id, v, bl FROM types ORDER BY id DESC')) console.log('  streamed', row.map(show).join(' | '));

  section('prepared');
  await execute(db, 'SELECT * FROM types ORDER BY id');
  await execute(db, 'SELECT * FROM types WHERE id >= ? ORDER BY id', [2]);
  await execute(db, 'SELECT ?, ?, ?, ?', [7, 'größer', 2.5, null]);

  section('write');
  await execute(db, 'INSERT INTO types (tiny, small, big, ubig, yes, f, d, dec1, day, at, clock, v, bl, j) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)',
    [-5, 6, -(2n ** 63n), '18446744073709551615', true, 0.25, 1.5e300, '1.0000000001', '2024-02-29', new Date(Date.UTC(2024, 1, 29, 23, 59, 59, 999)), '12:34:56.78', 'größer 🙂', Buffer.from([0, 1, 254, 255]), '{"a": 1}']);
  // On MariaDB this is one COM_STMT_BULK_EXECUTE, elsewhere many statements.
  results(await db.batch('INSERT INTO types (tiny, v, bl) VALUES (?, ?, ?)', [[1, "it's", Buffer.from([0, 39, 92])], [null, null, null], [3, '\\"', null]]));
  const statement = await db.prepare('INSERT INTO types (tiny, v) VALUES (?, ?)');
  for (const values of [[4, 'four'], [null, null]]) results(await statement.execute(values));
  statement.close();
  await query(db, 'SELECT * FROM types WHERE id > 4 ORDER BY id');
  await query(db, 'UPDATE types SET tiny = 9 WHERE id < 4');
  await query(db, 'UPDATE types SET tiny = 9 WHERE id < 4');

  section('big');
  const big = '0123456789abcdef'.repeat(17 << 16);
  await query(db, `INSERT INTO bigs VALUES (1, '${big}')`);
  await execute(db, 'INSERT INTO bigs VALUES (?, ?)', [2, Buffer.from(big)]);
  await query(db, 'SELECT id, LENGTH(v), CRC32(v), v FROM bigs ORDER BY id');
  await execute(db, 'SELECT id, v FROM bigs WHERE id = ?', [2]);

  section('results');
  await query(db, "SELECT 1; SELECT 'two', 2; UPDATE types SET tiny = 7 WHERE id = 2; SELECT tiny FROM types WHERE id = 2");
  await query(db, 'SELECT 1; SELECT * FROM nosuch; SELECT 3');
  await query(db, 'CALL several(2)');
  await execute(db, 'CALL several(?)', [1]);
  await query(db, "CALL several(0); SELECT 'after'");

  section('infile');
  await query(db, `LOAD DATA LOCAL INFILE '${file}' INTO TABLE loaded FIELDS TERMINATED BY ','`);
  await query(db, "LOAD DATA LOCAL INFILE '/nonexistent' INTO TABLE loaded");
  await query(db, 'SELECT COUNT(*), SUM(a), MAX(b) FROM loaded');

  section('transaction');
  await db.beginTransaction();
  await query(db, "INSERT INTO loaded VALUES (-1, 'rolled back')");
  await db.rollback();
  await db.beginTransaction();
  await execute(db, "INSERT INTO loaded VALUES (-2, 'committed')");
  await db.commit();
  await query(db, 'SELECT COUNT(*), MIN(a) FROM loaded');

  const rows = (text) => db.query(text);
  await cycles('cycles', rows, async (n) => {
    await query(db, CREATE);
    await query(db, "INSERT INTO report VALUES (1, 1.25, 'one'), (2, 2.5, NULL)");
    await execute(db, 'INSERT INTO report VALUES (?, ?, ?)', [n + 2, '3.75', `cycle ${n}`]);
    await query(db, 'SELECT * FROM report ORDER BY id');
    await execute(db, 'SELECT name FROM report WHERE id = ?', [1]);
    await db.beginTransaction();
    await query(db, 'UPDATE report SET total = total * 2 WHERE id = 2');
    await db.commit();
    await query(db, 'SELECT SUM(total) FROM report');
    if (n === 4) console.log('@engine cycles', (await rows('SHOW CREATE TABLE report'))[0][1].match(/ENGINE=(\w+)/)[1]);
    await query(db, 'DROP TEMPORARY TABLE report');
  });
  await query(db, 'SELECT * FROM report');

  // This driver sends statements without waiting for the replies to the ones before.
  await cycles('several', rows, async (n) => {
    const all = [CREATE, `INSERT INTO report VALUES (1, ${n}, 'pipelined')`, 'SELECT * FROM report', 'DROP TEMPORARY TABLE report'].map((text) => db.query(text));
    for (const one of await Promise.all(all)) results(one);
    await query(db, `${CREATE.replace('report', 'report_several')}; INSERT INTO report_several VALUES (${n}, 1, 'x'); SELECT * FROM report_several; DROP TEMPORARY TABLE report_several`);
  });

  await cycles('ddl', rows, async (n) => {
    await execute(db, CREATE.replace('report', 'report_prepared'));
    await execute(db, 'INSERT INTO report_prepared VALUES (?, ?, ?)', [n, '1.5', 'x']);
    await db.batch('INSERT INTO report_prepared VALUES (?, ?, ?)', [[10, '1.5', 'x'], [11, null, null]]);
    await execute(db, 'SELECT * FROM report_prepared ORDER BY id');
    await execute(db, 'DROP TEMPORARY TABLE report_prepared');
    await query(db, 'COMMIT');
  });

  section('errors');
  for (const text of ['INSERT INTO types (id) VALUES (1)', 'SELEC 1', 'DROP TEMPORARY TABLE report', 'DROP TEMPORARY TABLE IF EXISTS report', 'SHOW WARNINGS']) await query(db, text);
  await execute(db, 'SELECT * FROM nosuch WHERE id = ?', [1]);
  await execute(db, 'INSERT INTO types (id) VALUES (?)', [1]);
  for (const text of ['INSERT IGNORE INTO types (id, tiny, small) VALUES (1, 1000, -1)', 'SHOW WARNINGS', 'CREATE TEMPORARY TABLE report (id INT, id INT)', CREATE, CREATE,
    "INSERT INTO report VALUES (1, 1, 'a'), (1, 2, 'b')", "INSERT INTO report VALUES (1, 1, REPEAT('x', 21))", 'DROP TABLE report', CREATE]) await query(db, text);

  section('reset');
  await db.changeUser({ user, password, database }).catch(failed); // it refuses to with MySQL
  await query(db, 'SELECT * FROM report');
  await query(db, 'DROP TEMPORARY TABLE IF EXISTS report');
  await query(db, CREATE);
  await db.reset().catch(failed);
  await query(db, 'SELECT * FROM report');
  await query(db, 'DROP TEMPORARY TABLE IF EXISTS report');
  await query(db, CREATE);
  await query(db, 'SELECT COUNT(*) FROM report');
  await query(db, 'DROP TEMPORARY TABLE report');

  section('reconnect');
  const pool = mariadb.createPool({ ...options, connectionLimit: 2 });
  const victim = await pool.getConnection();
  await query(victim, CREATE);
  await query(victim, 'DROP TEMPORARY TABLE report');
  await pool.query(`KILL ${victim.threadId}`);
  console.log(await victim.query('DO 1').then(() => 'alive', () => 'lost'));
  await victim.release();
  const fresh = await pool.getConnection();
  await query(fresh, "SELECT 'alive'");
  await query(fresh, CREATE);
  await query(fresh, 'SELECT COUNT(*) FROM report');
  await query(fresh, 'DROP TEMPORARY TABLE report');
  await fresh.release();
  await pool.end();
  const compressed = await mariadb.createConnection({ ...options, compress: true });
  await query(compressed, `SELECT LENGTH('${big.slice(0, 1 << 20)}'), REPEAT('x', 1000000)`);
  await query(compressed, CREATE);
  await query(compressed, 'DROP TEMPORARY TABLE report');
  await compressed.end();
  await db.end();
});
