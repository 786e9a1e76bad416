// What Node's mysql2 sees. Usage: mysql2.js HOST PORT USER PASSWORD DATABASE FILE
'use strict';
const fs = require('fs');
const mysql = require('mysql2/promise');
const { host, port, user, password, database, file, CREATE, section, show, failed, cycles, program } = require('./common.js');

const connect = (more = {}) => mysql.createConnection({
  host, port, user, password, database, charset: 'utf8mb4', multipleStatements: true, rowsAsArray: true, timezone: 'Z', supportBigNumbers: true, bigNumberStrings: true, ...more,
  infileStreamFactory: (path) => fs.createReadStream(path),
});

function result(rows, fields) {
  if (!Array.isArray(rows)) {
    console.log(`  affected ${rows.affectedRows} changed ${rows.changedRows} id ${rows.insertId} warnings ${rows.warningStatus} info ${rows.info}`);
    return;
  }
  for (const f of fields) console.log(`  ${f.name}/${f.orgName} ${f.table}/${f.orgTable} ${f.db} type ${f.columnType} flags ${f.flags} length ${f.columnLength} decimals ${f.decimals} charset ${f.characterSet}`);
  for (const row of rows) console.log(' ', row.map(show).join(' | '));
}

function results(rows, fields) {
  if (Array.isArray(fields) && fields.some((f) => f === undefined || Array.isArray(f))) rows.forEach((part, i) => result(part, fields[i]));
  else result(rows, fields);
}

async function run(db, way, text, values) {
  console.log(way, text.slice(0, 100));
  try {
    results(...await db[way](text, values));
  } catch (error) {
    failed(error);
  }
}
const query = (db, text, values) => run(db, 'query', text, values);
const execute = (db, text, values) => run(db, 'execute', text, values);

program(async () => {
  section('connect');
  const db = await connect();
  await query(db, 'SELECT VERSION(), DATABASE(), @@autocommit, @@character_set_client, @@collation_connection, @@sql_mode');
  console.log(await db.ping());

  section('types');
  await query(db, 'SELECT * FROM types ORDER BY id');
  await query(db, { sql: 'SELECT * FROM types ORDER BY id', dateStrings: true, slice: () => 'with dates as strings' });

  section('prepared');
  await execute(db, 'SELECT * FROM types ORDER BY id');
  await execute(db, 'SELECT * FROM types WHERE id >= ? ORDER BY id', [2]);
  await execute(db, 'SELECT ?, ?, ?, ?', [7, 'größer', 2.5, null]);

  section('write');
  await execute(db, 'INSERT INTO types (tiny, small, big, ubig, yes, f, d, dec1, day, at, clock, v, bl, j) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)',
    [-5, 6, '-9223372036854775808', '18446744073709551615', true, 0.25, 1.5e300, '1.0000000001', '2024-02-29', new Date(Date.UTC(2024, 1, 29, 23, 59, 59, 999)), '12:34:56.78', 'größer 🙂', Buffer.from([0, 1, 254, 255]), '{"a": 1}']);
  await query(db, 'INSERT INTO types (tiny, v, bl, at) VALUES ?', [[[1, "it's", Buffer.from([0, 39, 92]), new Date(0)], [null, null, null, null], [3, '\\"', null, null]]]);
  const statement = await db.prepare('INSERT INTO types (tiny, v) VALUES (?, ?)');
  for (const values of [[4, 'four'], [null, null]]) results(...await statement.execute(values));
  await statement.close();
  await query(db, 'SELECT * FROM types WHERE id > 4 ORDER BY id');
  await query(db, 'UPDATE types SET tiny = 9 WHERE id < 4');
  await query(db, 'UPDATE types SET tiny = 9 WHERE id < 4');

  section('big');
  const big = '0123456789abcdef'.repeat(17 << 16);
  await query(db, `INSERT INTO bigs VALUES (1, '${big}')`);
  await execute(db, 'INSERT INTO bigs VALUES (?, ?)', [2, Buffer.from(big.slice(0, 1 << 20))]);
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
  await query(db, 'SELECT COUNT(*), SUM(a), MAX(b) FROM loaded');

  section('transaction');
  await db.beginTransaction();
  await query(db, "INSERT INTO loaded VALUES (-1, 'rolled back')");
  await db.rollback();
  await db.beginTransaction();
  await execute(db, "INSERT INTO loaded VALUES (-2, 'committed')");
  await db.commit();
  await query(db, 'SELECT COUNT(*), MIN(a) FROM loaded');

  const rows = async (text) => (await db.query(text))[0];
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

  // The statements are sent one after the other, without waiting: the driver itself waits for each reply.
  await cycles('cycles queued', rows, async (n) => {
    const all = [CREATE, `INSERT INTO report VALUES (1, ${n}, 'queued')`, 'SELECT * FROM report', 'DROP TEMPORARY TABLE report'].map((text) => db.query(text));
    for (const one of await Promise.all(all)) results(...one);
  });

  await cycles('ddl', rows, async (n) => {
    await execute(db, CREATE.replace('report', 'report_prepared'));
    await execute(db, 'INSERT INTO report_prepared VALUES (?, ?, ?)', [n, '1.5', 'x']);
    await execute(db, 'SELECT * FROM report_prepared');
    await execute(db, 'DROP TEMPORARY TABLE report_prepared');
    await query(db, 'COMMIT');
  });

  await cycles('several', rows, (n) => query(db, `${CREATE.replace('report', 'report_several')}; INSERT INTO report_several VALUES (${n}, 1, 'x'); SELECT * FROM report_several; DROP TEMPORARY TABLE report_several`));

  section('errors');
  for (const text of ['INSERT INTO types (id) VALUES (1)', 'SELEC 1', 'DROP TEMPORARY TABLE report', 'DROP TEMPORARY TABLE IF EXISTS report', 'SHOW WARNINGS']) await query(db, text);
  await execute(db, 'SELECT * FROM nosuch WHERE id = ?', [1]);
  await execute(db, 'INSERT INTO types (id) VALUES (?)', [1]);
  for (const text of ['INSERT IGNORE INTO types (id, tiny, small) VALUES (1, 1000, -1)', 'SHOW WARNINGS', 'CREATE TEMPORARY TABLE report (id INT, id INT)', CREATE, CREATE,
    "INSERT INTO report VALUES (1, 1, 'a'), (1, 2, 'b')", "INSERT INTO report VALUES (1, 1, REPEAT('x', 21))"]) await query(db, text);

  section('reset');
  await db.changeUser({ user, password, database });
  await query(db, 'SELECT * FROM report');
  await query(db, CREATE);
  if (db.reset) await db.reset();
  await query(db, 'SELECT * FROM report');
  await query(db, CREATE);
  await query(db, 'SELECT COUNT(*) FROM report');
  await query(db, 'DROP TEMPORARY TABLE report');
  await db.changeUser({ user, password: 'wrong', database }).catch(failed);

  section('reconnect');
  const pool = mysql.createPool({ host, port, user, password, database, connectionLimit: 2, rowsAsArray: true });
  const victim = await pool.getConnection();
  victim.connection.on('error', () => {});
  await query(victim, CREATE);
  await query(victim, 'DROP TEMPORARY TABLE report');
  await pool.query(`KILL ${victim.threadId}`);
  console.log(await victim.query('DO 1').then(() => 'alive', () => 'lost'));
  victim.release();
  const fresh = await pool.getConnection();
  await query(fresh, "SELECT 'alive'");
  await query(fresh, CREATE);
  await query(fresh, 'SELECT COUNT(*) FROM report');
  await query(fresh, 'DROP TEMPORARY TABLE report');
  fresh.release();
  await pool.end();
  const compressed = await connect({ compress: true });
  await query(compressed, `SELECT LENGTH('${big.slice(0, 1 << 20)}'), REPEAT('x', 1000000)`);
  await query(compressed, CREATE);
  await query(compressed, 'DROP TEMPORARY TABLE report');
  await compressed.end();
  db.destroy();
});
