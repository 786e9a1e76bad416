package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"tmpproxy/rewrite"
	"tmpproxy/testbed/rawclient"
	"tmpproxy/trial/compare"
	"tmpproxy/trial/record"
)

// Arm is a way to the server.
type Arm struct {
	Name             string
	Strategy         string // of its proxy, by which differences are known
	Network, Address string
}

// Options say what is run, and where.
type Options struct {
	// Source opens the input. It is called once for each run.
	Source func() (Source, error)
	Server Arm // the server itself
	Arms   []Arm
	// User and Password log in for every session, whoever it was. Schema is that of sessions that tell none.
	User, Password, Schema string
	// Before makes the server's data what they shall be before a run; nil leaves them as they are.
	Before func(ctx context.Context, arm string) error
	// Speed is 0 for as fast as can be, 1 for the time of the recording, 2 for twice as fast.
	Speed float64
	// Parallel has statements of several sessions run at the same time if they did so in the recording. The order in which they are
	// answered is then the server's.
	Parallel bool
	// Patience is how long the next statement waits for one that does not answer; 0 means 2 s.
	Patience time.Duration
	// Listed returns the name and the reason of a listed difference that d is, where package judge knows none; it may be nil.
	// Applies says whether a record is compared in an arm; nil: all are.
	Listed  func(ordinal int, d *compare.Difference) (name, reason string)
	Applies func(ordinal int, arm string) bool
	Log     func(format string, args ...any) // progress; nil: none
}

// Direct and Again are the names of the runs without a proxy.
const (
	Direct = "direct"
	Again  = "direct again"
)

// Run runs everything and compares.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Patience == 0 {
		o.Patience = 2 * time.Second
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	runs := append([]Arm{{Name: Direct, Strategy: "native", Network: o.Server.Network, Address: o.Server.Address}}, o.Arms...)
	runs = append(runs, Arm{Name: Again, Strategy: "native", Network: o.Server.Network, Address: o.Server.Address})
	outcomes := make([]*outcome, len(runs))
	defer func() {
		for _, x := range outcomes {
			if x != nil {
				x.spool.close()
			}
		}
	}()
	for i, arm := range runs {
		if o.Before != nil {
			if err := o.Before(ctx, arm.Name); err != nil {
				return nil, fmt.Errorf("before %s: %w", arm.Name, err)
			}
		}
		o.Log("running: %s", arm.Name)
		x, err := play(ctx, &o, arm)
		if x != nil {
			outcomes[i] = x
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arm.Name, err)
		}
	}
	o.Log("comparing")
	return judgeAll(&o, runs, outcomes)
}

// outcome is what a run came to.
type outcome struct {
	spool    *spool
	latency  latencies
	input    Input
	flavour  string // of the server, as differences know it
	version  string
	sessions int
}

// Input counts what there was to be run.
type Input struct {
	Sessions   int `json:"sessions"`
	Joined     int `json:"joined"`     // whose beginning is not in the recording
	Statements int `json:"statements"` // run
	Omitted    int `json:"omitted"`    // left out of the recording because of passwords
	Missing    int `json:"missing"`    // lost to the recording
	Skipped    int `json:"skipped"`    // not run: of statements whose preparation is not known, or of sessions that could not begin
	Files      int `json:"files"`      // LOCAL INFILE, which found empty files
	Slow       int `json:"slow"`       // statements that others did not wait for any longer
}

// player runs one arm.
type player struct {
	o        *Options
	arm      Arm
	ctx      context.Context
	out      *outcome
	clients  map[uint64]*client
	mu       sync.Mutex // of out
	failures sync.Once
	err      error
}

// play runs the input through an arm.
func play(ctx context.Context, o *Options, arm Arm) (*outcome, error) {
	source, err := o.Source()
	if err != nil {
		return nil, err
	}
	if c, ok := source.(io.Closer); ok {
		defer c.Close()
	}
	s, err := newSpool()
	if err != nil {
		return nil, err
	}
	p := &player{o: o, arm: arm, ctx: ctx, out: &outcome{spool: s, latency: latencies{}}, clients: map[uint64]*client{}}
	defer p.abandon()
	began := time.Now()
	for ordinal := 0; ; ordinal++ {
		rec, newPart, err := source.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return p.out, err
		}
		if newPart {
			p.endAll()
			began = time.Now()
		}
		if o.Speed > 0 {
			due := time.Duration(float64(rec.At) * float64(time.Microsecond) / o.Speed)
			if wait := due - time.Since(began); wait > 0 {
				timer := time.NewTimer(wait)
				select {
				case <-timer.C:
				case <-ctx.Done():
					timer.Stop()
				}
			}
		}
		if err := ctx.Err(); err != nil {
			return p.out, context.Cause(ctx)
		}
		if err := p.take(ordinal, &rec); err != nil {
			return p.out, err
		}
	}
	p.endAll()
	p.out.spool.flush()
	if p.out.sessions == 0 && p.out.input.Sessions > 0 {
		return p.out, fmt.Errorf("no session could begin: %w", p.err)
	}
	return p.out, nil
}

// take runs one record.
func (p *player) take(ordinal int, rec *record.Record) error {
	in := &p.out.input
	switch rec.Kind {
	case record.Begin:
		in.Sessions++
		if rec.Joined {
			in.Joined++
		}
		return p.begin(ordinal, rec)
	case record.Omitted:
		in.Omitted++
		return nil
	case record.Gap:
		in.Missing += max(1, rec.Count)
		return nil
	case record.Stop:
		return nil
	}
	c := p.clients[rec.Session]
	if c == nil {
		if rec.Kind != record.End && rec.Kind != record.Lost {
			p.mu.Lock()
			in.Skipped++
			p.mu.Unlock()
		}
		return nil
	}
	if rec.Kind == record.End || rec.Kind == record.Lost {
		p.end(rec.Session)
		return nil
	}
	p.mu.Lock()
	in.Statements++
	p.mu.Unlock()
	if p.o.Parallel {
		p.wait(c)
		for _, other := range p.clients {
			if other.until <= rec.At {
				p.wait(other)
			}
		}
	}
	c.jobs <- job{ordinal, *rec}
	c.out++
	c.until = rec.At + rec.Took
	if !p.o.Parallel {
		p.wait(c)
	}
	return nil
}

// wait waits for the client's jobs, but not for ever.
func (p *player) wait(c *client) {
	if c.out == 0 {
		return
	}
	timer := time.NewTimer(p.o.Patience)
	defer timer.Stop()
	for c.out > 0 {
		select {
		case <-c.done:
			c.out--
		case <-timer.C:
			p.mu.Lock()
			p.out.input.Slow++
			p.mu.Unlock()
			return
		case <-p.ctx.Done():
			return
		}
	}
}

type job struct {
	ordinal int
	rec     record.Record
}

// client is a session being run.
type client struct {
	p          *player
	conn       *rawclient.Conn
	session    uint64
	jobs       chan job
	done       chan struct{}
	finished   chan struct{}
	out        int   // jobs that are not done
	until      int64 // when the last was done in the recording, in microseconds
	statements map[uint32]prepared
	lost       bool
	cycles     tracker
}

// prepared is a prepared statement of the recording.
type prepared struct {
	id   uint32
	text []byte
	ok   bool
}

// carried are the capabilities of the recorded client that count for what it sees.
const carried = mysql.CLIENT_FOUND_ROWS | mysql.CLIENT_IGNORE_SPACE | mysql.CLIENT_INTERACTIVE | mysql.CLIENT_MULTI_STATEMENTS |
	mysql.CLIENT_MULTI_RESULTS | mysql.CLIENT_PS_MULTI_RESULTS | mysql.CLIENT_SESSION_TRACK | mysql.CLIENT_DEPRECATE_EOF

func (p *player) begin(ordinal int, rec *record.Record) error {
	p.end(rec.Session)
	capabilities := uint32(rawclient.Modern)
	if rec.Capabilities != 0 {
		capabilities = capabilities&^carried | uint32(rec.Capabilities)&carried
	}
	collation := byte(0)
	if rec.Collation < 256 {
		collation = byte(rec.Collation)
	}
	schema := rec.Schema
	if schema == "" {
		schema = p.o.Schema
	}
	conn, err := rawclient.Connect(rawclient.Config{
		Network: p.arm.Network, Address: p.arm.Address, User: p.o.User, Password: p.o.Password, Database: schema,
		Capabilities: capabilities, Collation: collation, Attributes: map[string]string{"program_name": "tmpproxy replay"},
		Timeout: 10 * time.Minute, KeepRaw: true,
	})
	var refusal *rawclient.ServerError
	if err != nil && !errors.As(err, &refusal) {
		return fmt.Errorf("connect to %s: %w", p.arm.Address, err)
	}
	if err != nil {
		p.failures.Do(func() { p.err = err })
		p.put(ordinal, entry{Session: rec.Session, Verb: "connect", Told: refusal.Error()})
		return nil
	}
	p.out.sessions++
	if p.out.flavour == "" {
		p.out.flavour, p.out.version = flavour(conn.Greeting.Version), conn.Greeting.Version
	}
	// MariaDB does not set FOUND_ROWS() for a new connection: it is what the thread's last connection left.
	if _, err := conn.Query("SELECT 1"); err != nil {
		return fmt.Errorf("connect to %s: %w", p.arm.Address, err)
	}
	c := &client{p: p, conn: conn, session: rec.Session, jobs: make(chan job, 4096), done: make(chan struct{}, 4096), finished: make(chan struct{}),
		statements: map[uint32]prepared{}, cycles: tracker{tables: map[string]*cycle{}}}
	p.clients[rec.Session] = c
	go c.run()
	return nil
}

var mariaVersion = regexp.MustCompile(`(\d+\.\d+)\.\d+-MariaDB`)

// Flavour is a server's kind as scripts name it, mysql or mariadb, by its version.
func Flavour(version string) string {
	kind, _, _ := strings.Cut(flavour(version), "-")
	return kind
}

// flavour is a server's name in the lists of known differences.
func flavour(version string) string {
	m := mariaVersion.FindStringSubmatch(version)
	switch {
	case m != nil && m[1] == "10.5":
		return "mariadb-10.5"
	case m != nil && m[1] != "10.6" && m[1] != "10.11": // those that list temporary tables in SHOW TABLES
		return "mariadb-11.8"
	case strings.Contains(version, "MariaDB"):
		return "mariadb"
	}
	return "mysql"
}

// end ends a session if it is there, and waits until it has ended.
func (p *player) end(session uint64) {
	c := p.clients[session]
	if c == nil {
		return
	}
	delete(p.clients, session)
	close(c.jobs)
	<-c.finished
}

func (p *player) endAll() {
	for session := range p.clients {
		p.end(session)
	}
}

// abandon cuts what still runs.
func (p *player) abandon() {
	for session, c := range p.clients {
		delete(p.clients, session)
		_ = c.conn.Close()
		close(c.jobs)
		<-c.finished
	}
}

func (p *player) put(ordinal int, e entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.spool.put(ordinal, &e)
}

// run does the client's jobs.
func (c *client) run() {
	defer close(c.finished)
	for j := range c.jobs {
		c.do(&j)
		c.done <- struct{}{}
	}
	_ = c.conn.Quit() // the server closes: nothing of the session is left then
}

// do runs a record and keeps what came of it.
func (c *client) do(j *job) {
	rec := &j.rec
	e := entry{Session: rec.Session, Verb: rec.Kind, Text: string(rec.Text), Capabilities: c.conn.Capabilities}
	if c.lost {
		return
	}
	began := time.Now()
	reply, err := c.perform(rec, &e)
	took := time.Since(began)
	if errors.Is(err, errSkipped) {
		c.p.mu.Lock()
		c.p.out.input.Skipped++
		c.p.out.input.Statements--
		c.p.mu.Unlock()
		return
	}
	switch {
	case err != nil && rawclient.IsLost(err):
		c.lost = true
		e.Told = "the connection has ended"
	case err != nil:
		c.lost = true
		e.Told = "no reply that makes sense: " + err.Error()
		_ = c.conn.Close()
	case e.Told == "":
		e.Raw = reply.Raw
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for _, r := range reply.Results {
		if r.Infile != nil {
			c.p.out.input.Files++
		}
	}
	if rec.Kind == record.Query || rec.Kind == record.Execute || rec.Kind == record.Bulk {
		c.cycles.statement([]byte(e.Text), reply.Err() != nil || err != nil, took, c.p.out.latency)
	}
	c.p.out.spool.put(j.ordinal, &e)
}

var errSkipped = errors.New("what it is about is not known")

func (c *client) perform(rec *record.Record, e *entry) (reply rawclient.Reply, err error) {
	conn := c.conn
	s := c.statements[rec.Statement]
	handle := fmt.Sprintf("s%d", rec.Statement)
	quiet := func(err error) (rawclient.Reply, error) {
		e.Told = "(no reply)"
		return rawclient.Reply{}, err
	}
	switch rec.Kind {
	case record.Execute, record.Bulk, record.Fetch, record.LongData, record.Close, record.ResetStatement:
		if !s.ok {
			return reply, errSkipped
		}
		e.Handle, e.Text = handle, string(s.text)
	}
	switch rec.Kind {
	case record.Query:
		return conn.Query(string(rec.Text))
	case record.Prepare:
		e.Handle = handle
		if reply, err = conn.Prepare(string(rec.Text)); err == nil && rec.Statement != 0 {
			p := prepared{text: rec.Text}
			if reply.Prepared != nil {
				p.id, p.ok = reply.Prepared.ID, true
			}
			c.statements[rec.Statement] = p
		}
		return reply, err
	case record.Execute:
		command, err := rec.AppendExecute(nil, s.id, conn.Capabilities&mysql.CLIENT_QUERY_ATTRIBUTES != 0)
		if err != nil {
			return reply, errSkipped
		}
		return conn.Raw(command)
	case record.Bulk:
		command, err := rec.AppendBulk(nil, s.id)
		if err != nil {
			return reply, errSkipped
		}
		return conn.Raw(command)
	case record.Fetch:
		return conn.Fetch(s.id, rec.Number)
	case record.LongData:
		return quiet(conn.SendLongData(s.id, uint16(rec.Number), rec.Text))
	case record.Close:
		delete(c.statements, rec.Statement)
		return quiet(conn.CloseStatement(s.id))
	case record.ResetStatement:
		return conn.ResetStatement(s.id)
	case record.InitDB:
		return conn.InitDB(string(rec.Text))
	case record.FieldList:
		return conn.FieldList(string(rec.Text), "")
	case record.Ping:
		return conn.Ping()
	case record.Statistics:
		reply, err = conn.Statistics()
		e.Told = "(numbers)"
		return reply, err
	case record.SetOption:
		return conn.SetOption(rec.Number == 0)
	case record.Reset:
		clear(c.statements)
		c.cycles.reset()
		return conn.ResetConnection()
	case record.ChangeUser:
		clear(c.statements)
		c.cycles.reset()
		schema := rec.Schema
		if schema == "" {
			schema = c.p.o.Schema
		}
		if reply, err = conn.ChangeUser(c.p.o.User, c.p.o.Password, schema); err == nil {
			e.Told = "OK"
			if refused := reply.AsError(); refused != nil {
				e.Told = refused.Error()
			}
		}
		return reply, err
	}
	return reply, errSkipped
}

// step is the entry's step, as differences know steps.
func (e *entry) step() *compare.Step {
	s := &compare.Step{Conn: fmt.Sprint(e.Session), Verb: e.Verb, Text: e.Text}
	switch e.Verb {
	case record.Prepare:
		s.Text = e.Handle + " " + e.Text
	case record.Execute, record.Fetch, record.Bulk:
		s.Text = e.Handle
		if e.Verb == record.Bulk {
			s.Verb = record.Execute
		}
	}
	return s
}

// Permanent looks for statements that write to anything but temporary tables of their session: their number, and the first.
func Permanent(source Source) (n int, first string, err error) {
	type session struct {
		tables tracker
		texts  map[uint32][]byte
	}
	sessions := map[uint64]*session{}
	for {
		rec, newPart, err := source.Next()
		if err == io.EOF {
			return n, first, nil
		}
		if err != nil {
			return n, first, err
		}
		if newPart {
			clear(sessions)
		}
		s := sessions[rec.Session]
		if s == nil || rec.Kind == record.Begin {
			s = &session{tracker{tables: map[string]*cycle{}}, map[uint32][]byte{}}
			sessions[rec.Session] = s
		}
		text := []byte(rec.Text)
		switch rec.Kind {
		case record.Prepare:
			s.texts[rec.Statement] = text
			continue
		case record.Execute, record.Bulk:
			text = s.texts[rec.Statement]
		case record.Query:
		case record.Reset, record.ChangeUser:
			s.tables.reset()
			continue
		default:
			continue
		}
		for _, one := range rewrite.Statements(text, 0) {
			if s.tables.writesPermanent(one) {
				if n++; n == 1 {
					first = record.Shape(one, record.Lexical{})
				}
			}
			s.tables.statement(one, false, 0, nil)
		}
	}
}

// File opens an input in a file.
func File(name string) (Source, string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, "", err
	}
	s, kind, err := Open(f)
	if err != nil {
		f.Close()
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	return opened{s, f}, kind, nil
}

type opened struct {
	Source
	io.Closer
}
