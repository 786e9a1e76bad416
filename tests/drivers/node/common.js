// What the programs for Node have in common: how what is seen is printed, and what is done with every driver.
'use strict';
const crypto = require('crypto');

const [, , host, port, user, password, database, file] = process.argv;
const CREATE = 'CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY';
const COUNTERS = "SHOW SESSION STATUS WHERE Variable_name IN ('Com_create_table', 'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table')";

const section = (...words) => console.log('==', ...words);

const digest = (data) => crypto.createHash('md5').update(data).digest('hex');

// show tells a value with its type, long ones by their digest.
function show(value) {
  if (value === null || value === undefined) return String(value);
  if (Buffer.isBuffer(value)) return value.length > 100 ? `buffer(${value.length}) ${digest(value)}` : `buffer ${value.toString('hex')}`;
  if (value instanceof Date) return `date ${isNaN(value) ? 'invalid' : value.toISOString()}`;
  if (typeof value === 'string' && value.length > 100) return `string(${value.length}) ${digest(value)}`;
  if (typeof value === 'object') return `${value.constructor.name} ${JSON.stringify(value, (key, v) => (typeof v === 'bigint' ? `${v}n` : v))}`;
  return `${typeof value} ${typeof value === 'string' ? JSON.stringify(value) : value}`;
}

const failed = (error) => console.log(`  error ${error.code} ${error.errno} ${error.sqlState} ${error.sqlMessage}`);

// cycles has the same cycle six times and tells how many CREATEs and DROPs the last four cost. rows asks for rows as arrays.
async function cycles(name, rows, cycle) {
  const counted = async () => {
    const sum = [0, 0];
    for (const [variable, value] of await rows(COUNTERS)) sum[variable.startsWith('Com_create') ? 0 : 1] += Number(value);
    return sum;
  };
  section(name);
  let before;
  for (let n = 1; n <= 6; n++) {
    if (n === 3) before = await counted();
    await cycle(n);
  }
  const after = await counted();
  console.log(`@reuse ${name} ${after[0] - before[0]} ${after[1] - before[1]}`);
}

// program runs main and fails if that does.
function program(main) {
  main().then(() => { section('end'); }, (error) => { console.error(error); process.exit(1); });
}

module.exports = { host, port: Number(port), user, password, database, file, CREATE, section, show, failed, cycles, program };
