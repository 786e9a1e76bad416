-- Cycles of a temporary table with sysbench's own driver: it prints what it sees, and how many CREATEs and DROPs the last four
-- of six cycles cost.
local create = "CREATE TEMPORARY TABLE report (id INT NOT NULL PRIMARY KEY, total DECIMAL(10,2), name VARCHAR(20)) ENGINE=MEMORY"
local n = 0
local before

function thread_init()
  connection = sysbench.sql.driver():connect()
  print("== cycles")
end

local function show(text)
  print(text:sub(1, 100))
  local result = connection:query(text)
  if result == nil then
    return
  end
  for _ = 1, result.nrows do
    local row, values = result:fetch_row(), {}
    for i = 1, result.nfields do
      values[i] = tostring(row[i])
    end
    print("  " .. table.concat(values, " | "))
  end
  result:free()
end

local function counted()
  local creates, drops = 0, 0
  local result = connection:query("SHOW SESSION STATUS WHERE Variable_name IN ('Com_create_table', 'Com_create_temporary_table', 'Com_drop_table', 'Com_drop_temporary_table')")
  for _ = 1, result.nrows do
    local row = result:fetch_row()
    if row[1]:find("Com_create", 1, true) then
      creates = creates + tonumber(row[2])
    else
      drops = drops + tonumber(row[2])
    end
  end
  result:free()
  return creates, drops
end

function event()
  n = n + 1
  if n == 3 then
    before = { counted() }
  end
  show(create)
  show("INSERT INTO report VALUES (1, 1.25, 'one'), (2, 2.5, NULL)")
  show(string.format("INSERT INTO report VALUES (%d, 3.75, 'cycle %d')", n + 2, n))
  show("SELECT * FROM report ORDER BY id")
  show("BEGIN")
  show("UPDATE report SET total = total * 2 WHERE id = 2")
  show("COMMIT")
  show("SELECT SUM(total) FROM report")
  if n == 4 then
    local result = connection:query("SHOW CREATE TABLE report")
    print("@engine cycles " .. result:fetch_row()[2]:match("ENGINE=(%w+)"))
    result:free()
  end
  show("DROP TEMPORARY TABLE report")
  if n == 6 then
    local creates, drops = counted()
    print(string.format("@reuse cycles %d %d", creates - before[1], drops - before[2]))
  end
end

function thread_done()
  connection:disconnect()
end
