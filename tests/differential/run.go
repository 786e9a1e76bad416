// Package differential runs scripts of package compare on a server of the tests.
package differential

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/trial/compare"
)

// Variant is a way to run a script.
type Variant struct {
	Name string
	// Probe is a statement that follows every statement on the same connection.
	Probe string
	// Hidden puts a permanent table with rows behind every temporary one. Then the script's expectations do not hold.
	Hidden bool
	// Pause is waited after every step.
	Pause time.Duration
	// Capabilities and MariaDB are what the clients ask for, see rawclient.Config.
	Capabilities, MariaDB uint32
}

// Variants are the ways each script is run.
var Variants = []Variant{
	{Name: "plain", Capabilities: rawclient.Modern},
	{Name: "warnings", Probe: "SHOW WARNINGS", Capabilities: rawclient.Classic},
	{Name: "counts", Probe: "SELECT ROW_COUNT(), FOUND_ROWS(), LAST_INSERT_ID()", Capabilities: rawclient.Modern,
		MariaDB: rawclient.MariaDBExtendedMetadata | rawclient.MariaDBCacheMetadata},
	{Name: "hidden", Hidden: true, Pause: 2 * time.Millisecond, Capabilities: rawclient.Modern},
}

// Target is where the clients of a run connect.
type Target struct{ Network, Address string }

// Outcome is what a run let its clients see, and what it left on the server.
type Outcome struct {
	Events []compare.Event
	// Creates is the number of CREATE statements that reached the server.
	Creates int
	// Faults are violations of the script's own expectations.
	Faults []string
}

// Run runs a script against a server whose clients connect to target. It resets the databases and the accounts whose
// names begin with lab before and after. An error means that the run itself failed.
func Run(ctx context.Context, s *server.Server, target Target, script *compare.Script, variant Variant) (*Outcome, error) {
	control, err := s.DB().Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	r := &run{ctx: ctx, server: s, target: target, script: script, variant: variant, control: control, clients: map[string]*client{}}
	globals, err := r.globals()
	if err != nil {
		return nil, err
	}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	creates, err := r.creates()
	if err != nil {
		return nil, err
	}
	for i := range script.Steps {
		if err := r.step(&script.Steps[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", &script.Steps[i], err)
		}
		if variant.Pause > 0 {
			time.Sleep(variant.Pause)
		}
	}
	if err := r.disconnectAll(); err != nil {
		return nil, err
	}
	after, err := r.creates()
	if err != nil {
		return nil, err
	}
	r.outcome.Creates = after - creates
	if err := r.finalState(); err != nil {
		return nil, fmt.Errorf("final state: %w", err)
	}
	if err := r.direct(script.Teardown); err != nil {
		return nil, fmt.Errorf("teardown: %w", err)
	}
	if err := r.clean(); err != nil {
		return nil, err
	}
	left, err := r.globals()
	if err != nil {
		return nil, err
	}
	for name, value := range globals {
		if left[name] != value {
			return nil, fmt.Errorf("the script leaves the global variable %s changed from %q to %q", name, value, left[name])
		}
	}
	return &r.outcome, nil
}

type run struct {
	ctx     context.Context
	server  *server.Server
	target  Target
	script  *compare.Script
	variant Variant
	control *sql.Conn
	clients map[string]*client
	threads []uint32 // of all connections there were
	outcome Outcome
}

// client is one connection of a script.
type client struct {
	conn       *rawclient.Conn
	statements map[string]uint32
	sent       bool // a statement whose reply was not received
	lost       bool
}

func (r *run) exec(text string) error {
	if _, err := r.control.ExecContext(r.ctx, text); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// strings returns the first column of a query on the control connection.
func (r *run) strings(text string, args ...any) ([]string, error) {
	rows, err := r.control.QueryContext(r.ctx, text, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	into := make([]any, len(columns))
	for i := range into {
		into[i] = new(sql.RawBytes)
	}
	var list []string
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		list = append(list, string(*into[0].(*sql.RawBytes)))
	}
	return list, rows.Err()
}

// clean drops the databases and accounts of scripts.
func (r *run) clean() error {
	databases, err := r.strings(`SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'lab%'`)
	if err != nil {
		return err
	}
	for _, name := range databases {
		if err := r.exec("DROP DATABASE `" + name + "`"); err != nil {
			return err
		}
	}
	accounts, err := r.strings(`SELECT CONCAT(QUOTE(user), '@', QUOTE(host)) FROM mysql.user WHERE user LIKE 'lab%'`)
	if err != nil {
		return err
	}
	for _, name := range accounts {
		if err := r.exec("DROP USER " + name); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) prepare() error {
	if err := r.clean(); err != nil {
		return err
	}
	if err := r.exec("CREATE DATABASE lab"); err != nil {
		return err
	}
	if err := r.exec("USE lab"); err != nil {
		return err
	}
	if err := r.direct(r.script.Setup); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	if r.variant.Hidden {
		if err := r.hide(); err != nil {
			return err
		}
	}
	// Plans, and the flags that tell of them, must not depend on when the server counted the rows.
	tables, err := r.tables()
	if err != nil {
		return err
	}
	for _, table := range tables {
		if _, err := r.strings("ANALYZE TABLE " + table); err != nil {
			return err
		}
	}
	return nil
}

// hide makes permanent tables behind the script's temporary ones.
func (r *run) hide() error {
	for _, name := range r.script.TemporaryTables() {
		// A name may be taken, or belong to a schema that the script never makes.
		if err := r.exec("CREATE TABLE " + name + " (hidden INT PRIMARY KEY)"); err != nil {
			continue
		}
		if err := r.exec("INSERT INTO " + name + " VALUES (1), (2), (3)"); err != nil {
			return err
		}
	}
	return nil
}

// direct runs the statements of setup or teardown.
func (r *run) direct(steps []compare.Step) error {
	for _, step := range steps {
		if step.Verb != compare.Query {
			return fmt.Errorf("%s: only statements are allowed here", &step)
		}
		if err := r.exec(step.Text); err != nil {
			return err
		}
	}
	return nil
}

// noisy global variables change by themselves.
var noisy = regexp.MustCompile(`^(gtid_|timestamp|innodb_buffer_pool_load|pseudo_thread_id|last_gtid|error_count|warning_count|rand_seed|identity|insert_id|last_insert_id|server_uid|innodb_thread_sleep_delay)`)

func (r *run) globals() (map[string]string, error) {
	rows, err := r.control.QueryContext(r.ctx, "SHOW GLOBAL VARIABLES")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	values := map[string]string{}
	for rows.Next() {
		var name string
		var value sql.NullString
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		if !noisy.MatchString(name) {
			values[name] = value.String
		}
	}
	return values, rows.Err()
}

// creates returns the server's count of CREATE [TEMPORARY] TABLE so far.
func (r *run) creates() (int, error) {
	rows, err := r.control.QueryContext(r.ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_create_table', 'Com_create_temporary_table')")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	sum := 0
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, rows.Err()
}

// tables returns the permanent tables of the script's databases.
func (r *run) tables() ([]string, error) {
	return r.strings("SELECT CONCAT('`', table_schema, '`.`', table_name, '`') FROM information_schema.tables " +
		"WHERE table_schema LIKE 'lab%' AND table_type = 'BASE TABLE' ORDER BY 1")
}

// finalState adds an event for what the databases hold after the run.
func (r *run) finalState() error {
	event := compare.Event{Step: &compare.Step{Conn: "control", Verb: "final", Text: "state"}}
	add := func(path, value string) {
		event.Fields = append(event.Fields, rawclient.Field{Path: path, Value: value})
	}
	tables, err := r.tables()
	if err != nil {
		return err
	}
	for _, table := range tables {
		var name, definition string
		if err := r.control.QueryRowContext(r.ctx, "SHOW CREATE TABLE "+table).Scan(&name, &definition); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
		add(table, definition)
		rows, err := r.content(table)
		if err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
		for i, row := range rows {
			add(fmt.Sprintf("%s[%d]", table, i), row)
		}
	}
	r.outcome.Events = append(r.outcome.Events, event)
	return nil
}

// content returns a table's rows as text, sorted.
func (r *run) content(table string) ([]string, error) {
	rows, err := r.control.QueryContext(r.ctx, "SELECT * FROM "+table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var list []string
	for rows.Next() {
		values := make([]sql.RawBytes, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := ""
		for _, value := range values {
			if value == nil {
				row += "NULL "
			} else {
				row += strconv.Quote(string(value)) + " "
			}
		}
		list = append(list, row)
	}
	slices.Sort(list)
	return list, rows.Err()
}

// connect opens the connection of a step. The login's outcome is a reply like others.
func (r *run) connect(name, user, password, schema string) (*client, rawclient.Reply, error) {
	conn, err := rawclient.Connect(rawclient.Config{
		Network: r.target.Network, Address: r.target.Address, User: user, Password: password, Database: schema,
		Capabilities: r.variant.Capabilities, MariaDB: r.variant.MariaDB,
		Attributes:  map[string]string{"program_name": "differential"},
		LocalInfile: func(name string) []byte { return []byte("1\n2\n3\n") },
	})
	if refusal := (*rawclient.ServerError)(nil); errors.As(err, &refusal) {
		return nil, rawclient.Reply{Results: []rawclient.Result{{Err: &refusal.ERR}}}, nil
	}
	if err != nil {
		return nil, rawclient.Reply{}, fmt.Errorf("connect %s: %w", name, err)
	}
	if r.variant.Probe != "" {
		// MariaDB does not set FOUND_ROWS() for a new connection: it is what the thread's last connection left.
		if _, err := conn.Query("SELECT 1"); err != nil {
			return nil, rawclient.Reply{}, fmt.Errorf("connect %s: %w", name, err)
		}
	}
	c := &client{conn: conn, statements: map[string]uint32{}}
	r.clients[name] = c
	r.threads = append(r.threads, conn.Greeting.ThreadID)
	return c, conn.Login, nil
}

// client returns the connection of a step, which is made now if it was not there.
func (r *run) client(s *compare.Step) (*client, error) {
	if c := r.clients[s.Conn]; c != nil {
		return c, nil
	}
	user, password := r.server.Account()
	c, login, err := r.connect(s.Conn, user, password, "lab")
	if err != nil {
		return nil, err
	}
	if err := login.AsError(); err != nil {
		return nil, err
	}
	return c, r.note(s, "(connect)", login, false)
}

// disconnectAll ends the connections and waits until the server has no thread of theirs.
func (r *run) disconnectAll() error {
	for name, c := range r.clients {
		if c.sent {
			return fmt.Errorf("connection %s waits for a reply at the script's end", name)
		}
		if err := c.conn.Quit(); err != nil && !c.lost {
			return fmt.Errorf("connection %s: %w", name, err)
		}
	}
	return r.await("connections of the run are still there", 2*time.Millisecond, func() (bool, error) {
		ids := []string{"0"}
		for _, id := range r.threads {
			ids = append(ids, fmt.Sprint(id))
		}
		left, err := r.strings("SELECT id FROM information_schema.processlist WHERE id IN (" + strings.Join(ids, ", ") + ")")
		return len(left) == 0, err
	})
}

const patience = 10 * time.Second

// await asks until the answer is true.
func (r *run) await(failure string, interval time.Duration, ask func() (bool, error)) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(interval) {
		if ok, err := ask(); ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New(failure)
		}
	}
}

func (r *run) step(s *compare.Step) error {
	text, err := r.substitute(s.Text)
	if err != nil {
		return err
	}
	if s.Verb == "connect" {
		if r.clients[s.Conn] != nil {
			return errors.New("it is connected")
		}
		user, password := r.server.Account()
		args := arguments(text)
		if args[0] != "" {
			user, password = args[0], args[1]
		} else {
			args[2] = "lab"
		}
		_, reply, err := r.connect(s.Conn, user, password, args[2])
		if err != nil {
			return err
		}
		return r.note(s, "", reply, false)
	}
	c, err := r.client(s)
	if err != nil {
		return err
	}
	if c.lost && s.Verb != "disconnect" {
		return r.noteLost(s, "")
	}
	if c.sent && s.Verb != "receive" && s.Verb != "blocked" {
		return errors.New("a reply is still out")
	}
	reply, binary, err := r.perform(c, s, text)
	switch {
	case errors.Is(err, errQuiet):
		return nil
	case isLoss(err):
		c.lost = true
		return r.noteLost(s, "")
	case err != nil:
		return err
	}
	if err := r.note(s, "", reply, binary); err != nil {
		return err
	}
	return r.probe(c, s)
}

func (r *run) probe(c *client, s *compare.Step) error {
	if r.variant.Probe == "" || c.sent || !slices.Contains([]string{compare.Query, "execute", "receive", "ping", "initdb"}, s.Verb) {
		return nil
	}
	reply, err := c.conn.Query(r.variant.Probe)
	if isLoss(err) {
		c.lost = true
		return r.noteLost(s, r.variant.Probe)
	}
	if err != nil {
		return err
	}
	return r.note(s, r.variant.Probe, reply, false)
}

// arguments are user, password and schema.
func arguments(text string) []string {
	args := append(strings.Fields(text), "", "", "")
	for i := range args {
		if args[i] == "-" {
			args[i] = ""
		}
	}
	return args
}

// isLoss tells a connection that ended from a reply that makes no sense.
func isLoss(err error) bool {
	return err != nil && rawclient.IsLost(err)
}

// errQuiet is for commands that show the client nothing.
var errQuiet = errors.New("nothing to see")

// quiet is the outcome of such a command.
func quiet(err error) error {
	if err != nil {
		return err
	}
	return errQuiet
}

func (r *run) perform(c *client, s *compare.Step, text string) (reply rawclient.Reply, binary bool, err error) {
	word, rest, _ := strings.Cut(text, " ")
	switch s.Verb {
	case compare.Query:
		reply, err = c.conn.Query(text)
	case "send":
		c.sent = true
		err = quiet(c.conn.SendQuery(text))
	case "receive":
		c.sent = false
		reply, err = c.conn.ReceiveQuery()
	case "blocked":
		err = quiet(r.awaitBlocked(c))
	case "idle":
		time.Sleep(20 * time.Millisecond)
		err = errQuiet
	case "disconnect":
		delete(r.clients, s.Conn)
		if err = c.conn.Quit(); c.lost {
			err = nil
		}
		err = quiet(err)
	case "cut":
		delete(r.clients, s.Conn)
		err = quiet(c.conn.Close())
	case "ping":
		reply, err = c.conn.Ping()
	case "reset":
		reply, err = c.conn.ResetConnection()
	case "changeuser":
		args := arguments(text)
		if args[0] == "" {
			args[0], args[1] = r.server.Account()
		}
		reply, err = c.conn.ChangeUser(args[0], args[1], args[2])
	case "initdb":
		reply, err = c.conn.InitDB(text)
	case "fieldlist":
		reply, err = c.conn.FieldList(word, rest)
	case "statistics":
		reply, err = c.conn.Statistics()
	case "processinfo":
		reply, err = c.conn.ProcessInfo()
	case "debug":
		reply, err = c.conn.Debug()
	case "setoption":
		reply, err = c.conn.SetOption(text == "on")
	default:
		return r.statement(c, s.Verb, word, rest)
	}
	return reply, false, err
}

// statement performs a command on a prepared statement. One that could not be prepared has no id; 0xFFFFFFF0 stands for it,
// which the servers do not know.
func (r *run) statement(c *client, verb, name, rest string) (reply rawclient.Reply, binary bool, err error) {
	id, ok := c.statements[name]
	if !ok {
		id = 0xfffffff0
	}
	switch verb {
	case "prepare":
		reply, err = c.conn.Prepare(rest)
		if reply.Prepared != nil {
			c.statements[name] = reply.Prepared.ID
		}
	case "execute", "cursor":
		args, err := compare.Values(rest)
		if err != nil {
			return reply, true, err
		}
		cursor := byte(0)
		if verb == "cursor" {
			cursor = 1
		}
		reply, err = c.conn.Execute(id, cursor, args...)
		return reply, true, err
	case "fetch":
		rows, err := strconv.ParseUint(rest, 10, 32)
		if err != nil {
			return reply, true, err
		}
		reply, err = c.conn.Fetch(id, uint32(rows))
		return reply, true, err
	case "longdata":
		number, value, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return reply, false, err
		}
		return reply, false, quiet(c.conn.SendLongData(id, uint16(n), []byte(value)))
	case "resetstatement":
		reply, err = c.conn.ResetStatement(id)
	case "close":
		err = quiet(c.conn.CloseStatement(id))
	default:
		err = fmt.Errorf("@%s", verb)
	}
	return reply, false, err
}

// awaitBlocked waits until a client's statement waits for a lock.
func (r *run) awaitBlocked(c *client) error {
	// The table of transactions is made anew only when nobody has read it for 100 ms.
	return r.await("the statement does not wait for a lock", 110*time.Millisecond, func() (bool, error) {
		waits, err := r.strings("SELECT trx_id FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = ? AND trx_state = 'LOCK WAIT' "+
			"UNION SELECT id FROM information_schema.processlist WHERE id = ? AND (state LIKE 'Waiting for%lock%' OR state LIKE 'User lock%')",
			c.conn.Greeting.ThreadID, c.conn.Greeting.ThreadID)
		return len(waits) > 0, err
	})
}

var (
	idReference = regexp.MustCompile(`\$\{id:(\w+)\}`)
	repeatedX   = regexp.MustCompile(`\$\{x\*(\d+)\}`)
)

func (r *run) substitute(text string) (string, error) {
	var err error
	text = repeatedX.ReplaceAllStringFunc(text, func(m string) string {
		n, _ := strconv.Atoi(repeatedX.FindStringSubmatch(m)[1])
		return strings.Repeat("x", n)
	})
	text = idReference.ReplaceAllStringFunc(text, func(m string) string {
		c := r.clients[idReference.FindStringSubmatch(m)[1]]
		if c == nil {
			err = fmt.Errorf("%s: no such connection", m)
			return m
		}
		return fmt.Sprint(c.conn.Greeting.ThreadID)
	})
	return text, err
}

// note adds what a reply let the client see.
func (r *run) note(s *compare.Step, probe string, reply rawclient.Reply, binary bool) error {
	code := uint16(0)
	if e := reply.Err(); e != nil {
		code = e.Code
	}
	expected := s.Expect
	if len(expected) == 0 || probe != "" {
		expected = []uint16{0}
	}
	if !r.variant.Hidden && !slices.Contains(expected, code) {
		fault := fmt.Sprintf("%s: error %v, want %v", s, reply.Err(), expected)
		if !slices.Contains(r.outcome.Faults, fault) {
			r.outcome.Faults = append(r.outcome.Faults, fault)
		}
	}
	fields := reply.Fields(binary)
	processes := slices.ContainsFunc(fields, func(f rawclient.Field) bool { return strings.EqualFold(f.Column, "command") })
	for i := range fields {
		r.mask(&fields[i], processes)
	}
	r.outcome.Events = append(r.outcome.Events, compare.Event{Step: s, Probe: probe, Fields: fields})
	return nil
}

func (r *run) noteLost(s *compare.Step, probe string) error {
	r.outcome.Events = append(r.outcome.Events, compare.Event{Step: s, Probe: probe, Fields: []rawclient.Field{{Path: "connection", Value: "lost"}}})
	return nil
}

var (
	timeColumn   = regexp.MustCompile(`(?i)^(create_time|update_time|check_time)$`)
	listColumn   = regexp.MustCompile(`(?i)^(id|host|time|time_ms|progress)$`) // of a process list
	threadColumn = regexp.MustCompile(`(?i)^(connection_id\(\)|@@pseudo_thread_id)$`)
	threadText   = regexp.MustCompile(`(?i)(thread id:?|connection|thread) \d+`)
	digits       = regexp.MustCompile(`\d+(\.\d+)?`)
	internalName = regexp.MustCompile(`#sql-[\w-]+`)
)

// mask hides what differs between any two runs: ids, ports and times. A connection's own id must be the one of its greeting.
func (r *run) mask(f *rawclient.Field, processes bool) {
	f.Value = internalName.ReplaceAllString(f.Value, "#sql")
	switch {
	case f.Value == "NULL":
	case f.Path == "prepared.id" && r.server.Kind.IsMariaDB():
		// MariaDB goes on counting where the thread's last connection ended.
		f.Value = "<statement id>"
	case timeColumn.MatchString(f.Column), processes && listColumn.MatchString(f.Column):
		f.Value = "<" + f.Column + ">"
	case threadColumn.MatchString(f.Column):
		for name, c := range r.clients {
			if f.Value == strconv.Quote(fmt.Sprint(c.conn.Greeting.ThreadID)) {
				f.Value = "<thread id of " + name + ">"
				return
			}
		}
	case f.Path == "text":
		f.Value = digits.ReplaceAllString(f.Value, "<number>")
	case strings.HasSuffix(f.Path, ".message"):
		f.Value = threadText.ReplaceAllString(f.Value, "$1 <id>")
	}
}
