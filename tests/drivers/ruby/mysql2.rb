# What Ruby's mysql2 sees. Usage: mysql2.rb HOST PORT USER PASSWORD DATABASE FILE
require 'mysql2'
require 'digest'

HOST, PORT, USER, PASSWORD, DATABASE, FILE = ARGV
CREATE = 'CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY'

def section(*words) = puts("== #{words.join(' ')}")

def connect(**more)
  Mysql2::Client.new(host: HOST, port: PORT.to_i, username: USER, password: PASSWORD, database: DATABASE, encoding: 'utf8mb4', local_infile: true,
                     flags: Mysql2::Client::MULTI_STATEMENTS, database_timezone: :utc, application_timezone: :utc, as: :array, **more)
end

def show(value)
  case value
  when String
    return "string(#{value.bytesize}) #{Digest::MD5.hexdigest(value)}" if value.bytesize > 100

    "#{value.encoding} #{value.dump}"
  when Time then "Time #{value.utc.strftime('%F %T.%N')}"
  when BigDecimal then "BigDecimal #{value.to_s('F')}"
  else "#{value.class} #{value.inspect}"
  end
end

def result(result)
  return if result.nil?

  result.fields.each { |field| puts "  #{field}" }
  puts "  types #{result.field_types.inspect}" if result.respond_to?(:field_types)
  result.each { |row| puts "  #{row.map { |value| show(value) }.join(' | ')}" }
end

def failed(error) = puts("  error #{error.error_number} #{error.sql_state} #{error.message}")

def query(db, text, **options)
  puts text[0, 100]
  result(db.query(text, **options))
  puts "  affected #{db.affected_rows} id #{db.last_id} warnings #{db.warning_count} info #{db.query_info.inspect}"
  while db.next_result
    result(db.store_result)
    puts "  next affected #{db.affected_rows}"
  end
rescue Mysql2::Error => e
  failed(e)
  db.abandon_results!
end

def prepared(db, text, *values)
  puts "prepared #{text[0, 100]}"
  statement = db.prepare(text)
  puts "  parameters #{statement.param_count} fields #{statement.fields&.join(' ')}"
  result(statement.execute(*values))
  puts "  affected #{statement.affected_rows} id #{statement.last_id}"
rescue Mysql2::Error => e
  failed(e)
ensure
  statement&.close
end

# counted returns how many CREATEs and DROPs of this session have reached the server.
def counted(db)
  rows = db.query("SHOW SESSION STATUS WHERE Variable_name IN ('Com_create_table', 'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table')").to_a
  %w[create drop].map { |verb| rows.sum { |name, value| name.start_with?("Com_#{verb}") ? value.to_i : 0 } }
end

# cycles has the same cycle six times and tells how many CREATEs and DROPs the last four cost.
def cycles(db, name)
  section(name)
  before = nil
  (1..6).each do |n|
    before = counted(db) if n == 3
    yield n
  end
  after = counted(db)
  puts "@reuse #{name} #{after[0] - before[0]} #{after[1] - before[1]}"
end

section 'connect'
db = connect
puts db.server_info.inspect, db.encoding, db.ping
query(db, 'SELECT DATABASE(), @@autocommit, @@character_set_client, @@collation_connection, @@sql_mode')
begin
  db.select_db('nosuch')
rescue Mysql2::Error => e
  failed(e)
end
puts db.select_db(DATABASE)

section 'types'
# Ruby's driver takes times of day for times of a day, of which there are 24 hours.
query(db, "UPDATE types SET clock = '23:59:58.25' WHERE id = 1")
query(db, 'SELECT * FROM types ORDER BY id')
query(db, 'SELECT * FROM types ORDER BY id', cast: false)
puts 'streamed'
result(db.query('SELECT id, v, bl FROM types ORDER BY id DESC', stream: true, cache_rows: false))

section 'prepared'
prepared(db, 'SELECT * FROM types ORDER BY id')
prepared(db, 'SELECT * FROM types WHERE id >= ? ORDER BY id', 2)
prepared(db, 'SELECT ?, ?, ?, ?', 7, 'größer', 2.5, nil)

section 'write'
prepared(db, 'INSERT INTO types (tiny, small, big, ubig, yes, f, d, dec1, day, at, clock, v, bl, j) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)',
         -5, 6, -2**63, 2**64 - 1, true, 0.25, 1.5e300, BigDecimal('1.0000000001'), Date.new(2024, 2, 29), Time.utc(2024, 2, 29, 23, 59, 59, 999_999), '12:34:56.78', 'größer 🙂',
         "\x00\x01\xfe\xff".b, '{"a": 1}')
statement = db.prepare('INSERT INTO types (tiny, v) VALUES (?, ?)')
[[1, "it's"], [nil, nil], [3, '\\"']].each do |values|
  statement.execute(*values)
  puts "  affected #{statement.affected_rows} id #{statement.last_id}"
end
statement.close
query(db, "INSERT INTO types (v) VALUES ('#{db.escape("it's \\ \"q\" \0 \n")}')")
query(db, 'SELECT * FROM types WHERE id > 4 ORDER BY id')
query(db, 'UPDATE types SET tiny = 9 WHERE id < 4')
query(db, 'UPDATE types SET tiny = 9 WHERE id < 4')

section 'big'
big = '0123456789abcdef' * (17 << 16)
query(db, "INSERT INTO bigs VALUES (1, '#{big}')")
prepared(db, 'INSERT INTO bigs VALUES (?, ?)', 2, big)
query(db, 'SELECT id, LENGTH(v), CRC32(v), v FROM bigs ORDER BY id')
prepared(db, 'SELECT id, v FROM bigs WHERE id = ?', 2)

section 'results'
query(db, "SELECT 1; SELECT 'two', 2; UPDATE types SET tiny = 7 WHERE id = 2; SELECT tiny FROM types WHERE id = 2")
query(db, 'SELECT 1; SELECT * FROM nosuch; SELECT 3')
query(db, 'CALL several(2)')
query(db, "CALL several(0); SELECT 'after'")

section 'infile'
query(db, "LOAD DATA LOCAL INFILE '#{FILE}' INTO TABLE loaded FIELDS TERMINATED BY ','")
query(db, "LOAD DATA LOCAL INFILE '/nonexistent' INTO TABLE loaded")
query(db, 'SELECT COUNT(*), SUM(a), MAX(b) FROM loaded')

section 'transaction'
['START TRANSACTION', "INSERT INTO loaded VALUES (-1, 'rolled back')", 'ROLLBACK', 'BEGIN', "INSERT INTO loaded VALUES (-2, 'committed')", 'COMMIT', 'SELECT COUNT(*), MIN(a) FROM loaded'].each { |text| query(db, text) }

cycles(db, 'cycles') do |n|
  query(db, CREATE)
  query(db, "INSERT INTO report VALUES (1, 1.25, 'one'), (2, 2.5, NULL)")
  prepared(db, 'INSERT INTO report VALUES (?, ?, ?)', n + 2, '3.75', "cycle #{n}")
  query(db, 'SELECT * FROM report ORDER BY id')
  prepared(db, 'SELECT name FROM report WHERE id = ?', 1)
  query(db, 'BEGIN')
  query(db, 'UPDATE report SET total = total * 2 WHERE id = 2')
  query(db, 'COMMIT')
  query(db, 'SELECT SUM(total) FROM report')
  puts "@engine cycles #{db.query('SHOW CREATE TABLE report').first[1][/ENGINE=(\w+)/, 1]}" if n == 4
  query(db, 'DROP TEMPORARY TABLE report')
end
query(db, 'SELECT * FROM report')

cycles(db, 'ddl') do |n|
  prepared(db, CREATE.sub('report', 'report_prepared'))
  prepared(db, 'INSERT INTO report_prepared VALUES (?, ?, ?)', n, '1.5', 'x')
  prepared(db, 'SELECT * FROM report_prepared')
  prepared(db, 'DROP TEMPORARY TABLE report_prepared')
  query(db, 'COMMIT')
end

cycles(db, 'several') do |n|
  query(db, "#{CREATE.sub('report', 'report_several')}; INSERT INTO report_several VALUES (#{n}, 1, 'x'); SELECT * FROM report_several; DROP TEMPORARY TABLE report_several")
end

section 'errors'
query(db, 'INSERT INTO types (id) VALUES (1)')
query(db, 'SELEC 1')
query(db, 'DROP TEMPORARY TABLE report')
query(db, 'DROP TEMPORARY TABLE IF EXISTS report')
query(db, 'SHOW WARNINGS')
prepared(db, 'SELECT * FROM nosuch WHERE id = ?', 1)
prepared(db, 'INSERT INTO types (id) VALUES (?)', 1)
query(db, 'INSERT IGNORE INTO types (id, tiny, small) VALUES (1, 1000, -1)')
query(db, 'SHOW WARNINGS')
query(db, 'CREATE TEMPORARY TABLE report (id INT, id INT)')
query(db, CREATE)
query(db, CREATE)
query(db, "INSERT INTO report VALUES (1, 1, 'a'), (1, 2, 'b')")
query(db, "INSERT INTO report VALUES (1, 1, REPEAT('x', 21))")

section 'reset' # the driver connects again, unseen: the temporary table is gone
killer = connect
db = connect(reconnect: true)
query(db, CREATE)
killer.query("KILL #{db.thread_id}")
puts db.ping
query(db, 'SELECT * FROM report')
query(db, "SELECT 'again'")

section 'reconnect'
db = connect
killer.query("KILL #{db.thread_id}")
begin
  db.query('DO 1')
  puts 'alive'
rescue Mysql2::Error
  puts 'lost'
end
db = connect
query(db, "SELECT 'alive'")
query(db, CREATE)
query(db, 'SELECT COUNT(*) FROM report')
query(db, 'DROP TEMPORARY TABLE report')
puts db.close.inspect, killer.close.inspect
section 'end'
