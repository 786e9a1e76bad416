package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A workload is what one legacy application does over and over on a connection that it keeps for long.
type workload interface {
	// name says what is repeated, for people.
	name() string
	// schema returns the statements that make and fill the permanent tables for that many connections at a time.
	schema(connections int) []string
	// open prepares a connection. It is called once.
	open(*session) error
	// cycle runs one cycle and fails when the server's answers are not what they must be.
	cycle(*session) error
}

// A session is one connection of an application: statements go through exec and query, which time them. One goroutine at
// a time uses it.
type session struct {
	conn    *sql.Conn
	number  int           // of this connection among the application's, from 0
	pause   time.Duration // between two statements: the time in which the application does something else
	cycles  int           // made so far
	elapsed time.Duration // of the statements in the present cycle
	seen    samples
}

// kind says under what a statement's time is reported besides the cycle's.
type kind int

const (
	plain kind = iota
	create
	drop
)

// exec runs a statement that returns no rows, and returns the number of rows it changed.
func (s *session) exec(k kind, query string, args ...any) (int64, error) {
	time.Sleep(s.pause)
	begin := time.Now()
	result, err := s.conn.ExecContext(context.Background(), query, args...)
	s.took(k, time.Since(begin))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", summary(query), err)
	}
	return result.RowsAffected()
}

// query runs a statement and returns all its rows, the columns of each joined by a space.
func (s *session) query(query string, args ...any) ([]string, error) {
	time.Sleep(s.pause)
	begin := time.Now()
	rows, err := readRows(s.conn, query, args...)
	s.took(plain, time.Since(begin))
	return rows, err
}

func (s *session) took(k kind, d time.Duration) {
	s.elapsed += d
	switch k {
	case create:
		s.seen.create = append(s.seen.create, d)
	case drop:
		s.seen.drop = append(s.seen.drop, d)
	}
}

// run makes one cycle and notes its time.
func (s *session) run(w workload) error {
	s.elapsed = 0
	if err := w.cycle(s); err != nil {
		return err
	}
	s.seen.cycle = append(s.seen.cycle, s.elapsed)
	s.cycles++
	return nil
}

// take returns what was seen since the last call.
func (s *session) take() samples {
	seen := s.seen
	s.seen = samples{}
	return seen
}

// readRows returns all rows of a query's result, the columns of each joined by a space.
func readRows(from *sql.Conn, query string, args ...any) ([]string, error) {
	rows, err := from.QueryContext(context.Background(), query, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", summary(query), err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var lines []string
	for rows.Next() {
		values := make([]string, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, fmt.Errorf("%s: %w", summary(query), err)
		}
		lines = append(lines, strings.Join(values, " "))
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", summary(query), err)
	}
	return lines, nil
}

// summary returns the first words of a statement, for messages.
func summary(query string) string {
	words := strings.Fields(query)
	return strings.Join(words[:min(5, len(words))], " ")
}

const (
	objects     = 1000 // per connection
	batch       = 10   // objects that one transaction stores
	stateSize   = 400  // bytes of one object
	days        = 20
	salesPerDay = 200
	customers   = 40
	topN        = 10
)

// relstorage is RelStorage 2.0 storing a transaction without history: its own temporary tables, made anew each time, on
// connections with autocommit off. (Blobs are rare, so its second table stays empty; its lock around COMMIT is left out.)
type relstorage struct {
	transaction atomic.Uint64 // the last one's id, of all connections
	state       []byte
}

func newRelstorage() *relstorage {
	state := make([]byte, stateSize+objects)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range state {
		state[i] = byte(random.Uint32())
	}
	return &relstorage{state: state}
}

func (*relstorage) name() string { return "RelStorage transaction" }

// schema also stores the objects of that many connections, so that transactions change objects and make none.
func (r *relstorage) schema(connections int) []string {
	statements := []string{`
        CREATE TABLE object_state (
            zoid        BIGINT UNSIGNED NOT NULL PRIMARY KEY,
            tid         BIGINT UNSIGNED NOT NULL,
            state_size  BIGINT UNSIGNED NOT NULL,
            state       LONGBLOB,
            KEY object_state_tid (tid)
        ) ENGINE = InnoDB`}
	for number := range connections {
		values := make([]string, objects)
		for i := range values {
			values[i] = fmt.Sprintf("(%d, 0, %d, x'%x')", zoid(number, i), stateSize, r.state[i:][:stateSize])
		}
		statements = append(statements, `INSERT INTO object_state (zoid, tid, state_size, state) VALUES `+strings.Join(values, ", "))
	}
	return statements
}

func (*relstorage) open(s *session) error {
	_, err := s.exec(plain, "SET autocommit = 0")
	return err
}

// zoid returns the id of a connection's i-th object. No two connections that work at the same time share one: RelStorage
// resolves conflicts, which is not what is looked at here.
func zoid(connection, i int) int { return connection*100*objects + i%objects }

func (r *relstorage) cycle(s *session) error {
	for _, statement := range []struct {
		kind kind
		text string
	}{
		{plain, `ROLLBACK`},
		{drop, `DROP TEMPORARY TABLE IF EXISTS temp_store`},
		{drop, `DROP TEMPORARY TABLE IF EXISTS temp_blob_chunk`},
		{create, `
        CREATE TEMPORARY TABLE temp_store (
            zoid        BIGINT UNSIGNED NOT NULL PRIMARY KEY,
            prev_tid    BIGINT UNSIGNED NOT NULL,
            md5         CHAR(32),
            state       LONGBLOB
        ) ENGINE MyISAM
        `},
		{create, `
        CREATE TEMPORARY TABLE temp_blob_chunk (
            zoid        BIGINT UNSIGNED NOT NULL,
            chunk_num   BIGINT UNSIGNED NOT NULL,
                        PRIMARY KEY (zoid, chunk_num),
            chunk       LONGBLOB
        ) ENGINE MyISAM
        `},
	} {
		if _, err := s.exec(statement.kind, statement.text); err != nil {
			return err
		}
	}

	tid := r.transaction.Add(1)
	args := make([]any, 0, 4*batch)
	for i := range batch {
		object := s.cycles*batch + i
		args = append(args, zoid(s.number, object), tid-1, nil, r.state[object%objects:][:stateSize])
	}
	if _, err := s.exec(plain, `REPLACE INTO temp_store (zoid, prev_tid, md5, state) VALUES `+
		strings.Repeat("(?, ?, ?, ?), ", batch-1)+"(?, ?, ?, ?)", args...); err != nil {
		return err
	}
	changed, err := s.exec(plain, `
        INSERT INTO object_state (zoid, tid, state_size, state)
        SELECT zoid, ?, COALESCE(LENGTH(state), 0), state
        FROM temp_store
        ORDER BY zoid
        ON DUPLICATE KEY UPDATE
            tid = VALUES(tid),
            state_size = VALUES(state_size),
            state = VALUES(state)
        `, tid)
	if err != nil {
		return err
	}
	if changed != 2*batch { // the server counts 2 for a row that it updates
		return fmt.Errorf("a transaction of %d objects changed %d rows, counted twice: temp_store held something else", batch, changed)
	}
	_, err = s.exec(plain, `COMMIT`)
	return err
}

// report is a report generator that gathers rows in a MEMORY table, reads the first of them and drops the table, on
// connections with autocommit on.
type report struct {
	cents    [days][salesPerDay]int // what was sold; sale i is customer i%customers
	expected [days][]string         // the rows of each day's report
}

func newReport() *report {
	r := new(report)
	random := rand.New(rand.NewPCG(3, 4))
	for day := range days {
		var total [customers]int
		var order [customers]int
		for i := range salesPerDay {
			r.cents[day][i] = random.IntN(100_000)
			total[i%customers] += r.cents[day][i]
		}
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order[:], func(a, b int) int { return cmp.Or(total[b]-total[a], a-b) })
		for _, customer := range order[:topN] {
			r.expected[day] = append(r.expected[day],
				fmt.Sprintf("%d %d %s", customer, salesPerDay/customers, decimal(total[customer])))
		}
	}
	return r
}

func decimal(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

func (*report) name() string { return "Report in a MEMORY table" }

func (r *report) schema(int) []string {
	statements := []string{
		`CREATE TABLE sales (
			id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
			day INT UNSIGNED NOT NULL,
			customer INT UNSIGNED NOT NULL,
			amount DECIMAL(10,2) NOT NULL,
			KEY (day)
		) ENGINE = InnoDB`,
	}
	for day := range days {
		values := make([]string, salesPerDay)
		for i := range values {
			values[i] = fmt.Sprintf("(%d, %d, %s)", day, i%customers, decimal(r.cents[day][i]))
		}
		statements = append(statements, `INSERT INTO sales (day, customer, amount) VALUES `+strings.Join(values, ", "))
	}
	return append(statements, `ANALYZE TABLE sales`)
}

func (*report) open(*session) error { return nil }

func (r *report) cycle(s *session) error {
	if _, err := s.exec(create, `CREATE TEMPORARY TABLE report_totals (
		customer INT UNSIGNED NOT NULL PRIMARY KEY,
		sales INT UNSIGNED NOT NULL,
		amount DECIMAL(12,2) NOT NULL
	) ENGINE=MEMORY`); err != nil {
		return err
	}
	day := (s.number + s.cycles) % days
	if _, err := s.exec(plain, `INSERT INTO report_totals (customer, sales, amount)
		SELECT customer, COUNT(*), SUM(amount) FROM sales WHERE day = ? GROUP BY customer`, day); err != nil {
		return err
	}
	rows, err := s.query(`SELECT customer, sales, amount FROM report_totals ORDER BY amount DESC, customer LIMIT ?`, topN)
	if err != nil {
		return err
	}
	if !slices.Equal(rows, r.expected[day]) {
		return fmt.Errorf("the report on day %d is wrong: %q instead of %q", day, rows, r.expected[day])
	}
	_, err = s.exec(drop, `DROP TEMPORARY TABLE report_totals`)
	return err
}
