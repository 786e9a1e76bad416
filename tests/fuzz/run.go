package fuzz

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/testbed/server"
	"tmpproxy/trial/compare"
	"tmpproxy/trial/judge"
)

// Runner runs sequences, one after the other, in databases of its own. One goroutine at a time may use it.
type Runner struct {
	// Fresh has every run made on connections of its own. Otherwise they are taken up again after COM_CHANGE_USER, which is
	// much faster.
	Fresh bool

	server   *server.Server
	direct   string // address of the server
	proxied  string // address of the proxy
	worker   string // ends the names of the databases
	control  *rawclient.Conn
	idle     map[connection]*client
	sequence int
	broken   bool // the databases may not be as the next run needs them
}

// connection says what a connection is for.
type connection struct{ address, name, client string }

type client struct {
	conn       *rawclient.Conn
	runs       int
	sent       int // statements whose replies have not been read
	statements map[string]uint32
	cursors    map[string]bool // statements that were executed with a cursor
}

// NewRunner makes the databases of a worker, whose number sets them apart from those of others. Close ends it.
func NewRunner(s *server.Server, proxied string, worker int) (*Runner, error) {
	r := &Runner{server: s, direct: s.Address, proxied: proxied, worker: fmt.Sprintf("_%02d", worker), idle: map[connection]*client{}}
	var err error
	if r.control, err = rawclient.Connect(r.config(r.direct, "modern", "")); err != nil {
		return nil, err
	}
	return r, r.prepare()
}

// Close ends the connections. The databases stay with the server.
func (r *Runner) Close() {
	for _, c := range r.idle {
		_ = c.conn.Close()
	}
	_ = r.control.Close()
}

// timeout is how long a packet is waited for; locks are waited for less long.
const timeout = 8 * time.Second

func (r *Runner) config(address, kind, schema string) rawclient.Config {
	c := clients[kind]
	c.Network, c.Address, c.Database = "tcp", address, schema
	c.User, c.Password = r.server.Account()
	c.Timeout = timeout
	c.KeepRaw = true
	c.LocalInfile = func(string) []byte { return []byte("101\t1\n102\t2\n") }
	return c
}

// prepare makes the databases anew.
func (r *Runner) prepare() error {
	r.broken = false
	statements := []string{"XA RECOVER"}
	for _, schema := range []string{"lab2", "lab"} {
		statements = append(statements, "DROP DATABASE IF EXISTS "+schema+r.worker, "CREATE DATABASE "+schema+r.worker+" CHARACTER SET utf8mb4", "USE "+schema+r.worker)
	}
	return r.exec(append(statements, base...)...)
}

func (r *Runner) exec(statements ...string) error {
	for _, text := range statements {
		reply, err := r.control.Query(text)
		if err == nil {
			err = reply.AsError()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// rows returns the rows of a query on the control connection.
func (r *Runner) rows(text string) ([][]string, error) {
	reply, err := r.control.Query(text)
	if err == nil {
		err = reply.AsError()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	var rows [][]string
	for _, p := range reply.Results[0].Rows {
		values, err := rawclient.TextRow(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		row := make([]string, len(values))
		for i, value := range values {
			row[i] = "NULL"
			if value != nil {
				row[i] = strconv.Quote(string(value))
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Both runs a sequence directly and then through the proxy.
func (r *Runner) Both(s *Sequence) (direct, proxied *judge.Outcome, err error) {
	r.sequence++
	if direct, err = r.run(s, r.direct, nil); err != nil {
		return nil, nil, fmt.Errorf("directly: %w", err)
	}
	if proxied, err = r.run(s, r.proxied, direct); err != nil {
		return nil, nil, fmt.Errorf("through the proxy: %w", err)
	}
	return direct, proxied, nil
}

// run runs a sequence. Steps that were left out in an earlier run are left out again.
func (r *Runner) run(s *Sequence, address string, earlier *judge.Outcome) (*judge.Outcome, error) {
	if r.broken {
		if err := r.prepare(); err != nil {
			return nil, err
		}
	}
	r.broken = true
	run := run{Runner: r, sequence: s, address: address, clients: map[string]*client{}, status: mysql.SERVER_STATUS_AUTOCOMMIT}
	// Sessions may go on with the old default of a database that was altered by another one.
	alters := s.mentions(altersDatabase)
	run.fresh = r.Fresh || alters
	// What the first connection may hold is of interest to the second one alone.
	run.watches = earlier == nil && slices.ContainsFunc(s.Steps, func(step compare.Step) bool { return step.Conn != "a" })
	run.names = strings.NewReplacer("~", fmt.Sprintf("_%05d", r.sequence), "^", r.worker)
	o, err := run.steps(earlier)
	run.release(err != nil)
	if err != nil {
		return nil, err
	}
	if o.State, err = r.clean(s); err != nil {
		return nil, fmt.Errorf("clean up: %w", err)
	}
	r.broken = alters
	return o, nil
}

// run is one run of a sequence.
type run struct {
	*Runner
	sequence *Sequence
	address  string
	names    *strings.Replacer
	clients  map[string]*client
	fresh    bool // no connections of earlier runs, none for later ones
	lost     map[string]bool
	watches  bool   // the three below are kept
	status   uint16 // of a's last reply
	locked   bool   // a has locked tables
	failed   bool   // a's last reply was an error, which tells no status
}

func (r *run) steps(earlier *judge.Outcome) (*judge.Outcome, error) {
	if _, err := r.client("a"); err != nil {
		return nil, err
	}
	o := &judge.Outcome{}
	for i := range r.sequence.Steps {
		e := judge.Exchange{Step: &r.sequence.Steps[i]}
		if earlier != nil {
			e.Skipped = earlier.Events[i].Skipped
		} else {
			e.Skipped = r.mightWait(e.Step) || r.outOfTurn(e.Step)
		}
		if !e.Skipped {
			if err := r.perform(&e); err != nil {
				return nil, err
			}
		}
		o.Events = append(o.Events, e)
	}
	return o, nil
}

const maxRuns = 40 // on one connection

// client returns the connection of that name.
func (r *run) client(name string) (*client, error) {
	if c := r.clients[name]; c != nil {
		return c, nil
	}
	key := r.key(name)
	c := r.idle[key]
	delete(r.idle, key)
	if c == nil || r.fresh {
		if c != nil {
			_ = c.conn.Close()
		}
		conn, err := rawclient.Connect(r.config(key.address, key.client, "lab"+r.worker))
		if err != nil {
			return nil, err
		}
		c = &client{conn: conn}
	}
	c.runs++
	c.statements, c.cursors = map[string]uint32{}, map[string]bool{}
	// MariaDB does not set FOUND_ROWS() for a new connection: it is what the thread's last connection left.
	if reply, err := c.conn.Query("SELECT 1"); err != nil {
		return nil, err
	} else if err := reply.AsError(); err != nil {
		return nil, err
	}
	r.clients[name] = c
	return c, nil
}

func (r *run) key(name string) connection {
	key := connection{r.address, name, r.sequence.Client}
	if name == "b" && r.sequence.Outside {
		key.address = r.direct
	}
	return key
}

// release gives the connections back, without anything of the run.
func (r *run) release(abandon bool) {
	for name, c := range r.clients {
		for !abandon && !r.lost[name] && c.sent > 0 { // until the server has done them
			c.sent--
			if _, err := c.conn.ReceiveQuery(); err != nil {
				abandon = true
			}
		}
		if abandon || r.lost[name] {
			_ = c.conn.Close()
			continue
		}
		if r.fresh || c.runs >= maxRuns {
			_ = c.conn.Quit()
			continue
		}
		// COM_RESET_CONNECTION would do but for the collation, which it does not set to that of the login.
		user, password := r.server.Account()
		if reply, err := c.conn.ChangeUser(user, password, "lab"+r.worker); err != nil || reply.AsError() != nil {
			_ = c.conn.Close()
			continue
		}
		r.idle[r.key(name)] = c
	}
}

// outOfTurn says whether a step cannot be done because of replies that are out, or are not.
func (r *run) outOfTurn(s *compare.Step) bool {
	c := r.clients[s.Conn]
	out := c != nil && c.sent > 0
	name, _, _ := strings.Cut(s.Text, " ")
	prepared := false
	if c != nil {
		_, prepared = c.statements[name]
	}
	switch s.Verb {
	case send:
		return false
	case receive:
		return !out
	case execute:
		// No client executes what it could not prepare: how that adds to the list of warnings is not of interest. And MySQL 9.7
		// answers an execution without a cursor that follows one with a cursor with column definitions and an OK, behind which
		// clients wait for rows.
		return out || c != nil && c.cursors[name] || !prepared
	case cursor:
		return out || !prepared
	}
	return out
}

// mightWait says whether a statement of the second connection might wait for a lock of the first one.
func (r *run) mightWait(s *compare.Step) bool {
	if s.Conn == "a" || s.Verb != query || strings.HasPrefix(s.Text, "KILL") {
		return false
	}
	return r.failed || r.locked || r.status&(mysql.SERVER_STATUS_IN_TRANS|mysql.SERVER_STATUS_AUTOCOMMIT) != mysql.SERVER_STATUS_AUTOCOMMIT
}

var (
	takesLocks = regexp.MustCompile(`(?is)\bLOCK\s+TABLE|\bXA\b|\bFLUSH\b|\bCALL\b|\bEXECUTE\b|@execute`)
	dropsLocks = regexp.MustCompile(`(?is)^\s*(UNLOCK TABLES|BEGIN|START TRANSACTION)`)
)

// watch keeps track of what the first connection may hold.
func (r *run) watch(s *compare.Step, reply *rawclient.Reply) {
	if !r.watches || s.Conn != "a" {
		return
	}
	r.failed = reply.Err() != nil
	if status, ok := reply.Status(); ok {
		r.status = status
	}
	switch {
	case s.Verb == reset || s.Verb == changeUser:
		r.locked, r.failed = false, false
		r.status = mysql.SERVER_STATUS_AUTOCOMMIT
	case s.Verb == query && dropsLocks.MatchString(s.Text) && !r.failed:
		r.locked = false
	case takesLocks.MatchString(s.Text):
		r.locked = true
	}
}

// unknownStatement is the id of a statement that could not be prepared.
const unknownStatement = 0xfffffff0

func (r *run) perform(e *judge.Exchange) error {
	s := e.Step
	c, err := r.client(s.Conn)
	if err != nil {
		return err
	}
	if r.lost[s.Conn] {
		e.Failure = "the connection has ended"
		return nil
	}
	text := r.names.Replace(s.Text)
	word, rest, _ := strings.Cut(text, " ")
	id, ok := c.statements[word]
	if !ok {
		id = unknownStatement
	}
	switch s.Verb {
	case query:
		if strings.HasPrefix(text, "KILL") {
			text = strings.Replace(text, "${id:a}", fmt.Sprint(r.clients["a"].conn.Greeting.ThreadID), 1)
		}
		var attributes []rawclient.Attribute
		if r.sequence.Client == "attributes" {
			attributes = []rawclient.Attribute{{Name: "name", Value: "DROP TABLE t1"}}
		}
		e.Reply, err = c.conn.Query(text, attributes...)
	case send:
		e.Silent = true
		c.sent++
		err = c.conn.SendQuery(text)
	case receive:
		c.sent--
		e.Reply, err = c.conn.ReceiveQuery()
	case ping:
		e.Reply, err = c.conn.Ping()
	case statistics:
		e.Reply, err = c.conn.Statistics()
	case reset:
		e.Reply, err = c.conn.ResetConnection()
		clear(c.statements)
	case changeUser:
		user, password := r.server.Account()
		e.Reply, err = c.conn.ChangeUser(user, password, strings.TrimPrefix(text, "- - "))
		clear(c.statements)
	case initDB:
		e.Reply, err = c.conn.InitDB(text)
	case fieldList:
		e.Reply, err = c.conn.FieldList(text, "")
	case setOption:
		e.Reply, err = c.conn.SetOption(text == "on")
	case prepare:
		e.Reply, err = c.conn.Prepare(rest)
		if e.Reply.Prepared != nil {
			delete(c.cursors, word)
			c.statements[word] = e.Reply.Prepared.ID
			e.Reply.Prepared.ID = 0 // MariaDB goes on counting where the thread's last connection ended
		}
	case execute, cursor:
		e.Binary = true
		kind := byte(0)
		if s.Verb == cursor {
			kind = 1
			c.cursors[word] = true
		}
		var parameters []any
		for _, field := range strings.Fields(rest) {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
			parameters = append(parameters, n)
		}
		e.Reply, err = c.conn.Execute(id, kind, parameters...)
	case fetch:
		e.Binary = true
		e.Reply, err = c.conn.Fetch(id, 2)
	case resetStatement:
		e.Reply, err = c.conn.ResetStatement(id)
	case closeStatement:
		e.Silent = true
		delete(c.statements, word)
		err = c.conn.CloseStatement(id)
	case idle:
		e.Silent = true
		time.Sleep(time.Millisecond)
	default:
		return fmt.Errorf("%s: no such command", s)
	}
	if err != nil {
		if r.lost == nil {
			r.lost = map[string]bool{}
		}
		r.lost[s.Conn] = true
		e.Failure = "the connection has ended"
		if !rawclient.IsLost(err) {
			if r.address == r.direct {
				return fmt.Errorf("%s: %w", s, err)
			}
			e.Failure = err.Error()
		}
		return nil
	}
	r.watch(s, &e.Reply)
	return nil
}

// clean takes away what a run may have left and returns what it was, as lines.
func (r *Runner) clean(s *Sequence) (state []string, err error) {
	objects, rows, xa := s.leaves()
	if xa {
		if err := r.rollBack(); err != nil {
			return nil, err
		}
	}
	if objects {
		if state, err = r.objects(); err != nil {
			return nil, err
		}
	}
	if rows {
		left, err := r.rows("SELECT * FROM lab" + r.worker + ".base ORDER BY id")
		if err != nil {
			return nil, err
		}
		for _, row := range left {
			state = append(state, fmt.Sprint("base ", row))
		}
		err = r.exec("DELETE FROM lab"+r.worker+".base", strings.Replace(base[1], "base", "lab"+r.worker+".base", 1))
		if err != nil {
			return nil, err
		}
	}
	return state, nil
}

// rollBack ends the prepared XA transactions of the worker's runs.
func (r *Runner) rollBack() error {
	list, err := r.rows("XA RECOVER")
	if err != nil {
		return err
	}
	for _, row := range list {
		if name := strings.Trim(row[3], `"`); strings.HasSuffix(name, r.worker) {
			const rolledBack = 1402 // already
			if reply, err := r.control.Query("XA ROLLBACK '" + name + "'"); err != nil {
				return err
			} else if e := reply.Err(); e != nil && e.Code != rolledBack {
				return reply.AsError()
			}
		}
	}
	return nil
}

// objects returns the permanent tables, views and routines with their contents, and drops them.
func (r *Runner) objects() ([]string, error) {
	schemas := fmt.Sprintf("('lab%s', 'lab2%s')", r.worker, r.worker)
	list, err := r.rows("SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema IN " + schemas)
	if err != nil {
		return nil, err
	}
	var state, drop []string
	for _, row := range list {
		name := "`" + strings.Trim(row[0], `"`) + "`.`" + strings.Trim(row[1], `"`) + "`"
		if strings.HasSuffix(name, "`base`") {
			continue
		}
		kind := "TABLE"
		if strings.Contains(row[2], "VIEW") {
			kind = "VIEW"
		}
		drop = append(drop, "DROP "+kind+" IF EXISTS "+name)
		definition, err := r.rows("SHOW CREATE TABLE " + name)
		if err != nil {
			definition = [][]string{{name, err.Error()}}
		}
		state = append(state, fmt.Sprint(name, " ", definition))
		if kind == "VIEW" { // reading it might run functions, which might hide tables
			continue
		}
		if rows, err := r.rows("SELECT * FROM " + name); err == nil {
			lines := make([]string, len(rows))
			for i, row := range rows {
				lines[i] = fmt.Sprint(name, " ", row)
			}
			slices.Sort(lines)
			state = append(state, lines...)
		}
	}
	for _, routine := range []struct{ kind, list string }{
		{"", "SELECT routine_schema, routine_name, routine_type FROM information_schema.routines WHERE routine_schema IN " + schemas},
		{"TRIGGER", "SELECT trigger_schema, trigger_name, event_object_table FROM information_schema.triggers WHERE trigger_schema IN " + schemas},
	} {
		list, err := r.rows(routine.list)
		if err != nil {
			return nil, err
		}
		for _, row := range list {
			kind := routine.kind
			if kind == "" {
				kind = strings.Trim(row[2], `"`)
			}
			name := "`" + strings.Trim(row[0], `"`) + "`.`" + strings.Trim(row[1], `"`) + "`"
			drop = append(drop, "DROP "+kind+" IF EXISTS "+name)
			state = append(state, fmt.Sprint(kind, " ", name, " ", row[2]))
		}
	}
	slices.Sort(state)
	return state, r.exec(drop...)
}
