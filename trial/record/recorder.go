package record

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tmpproxy/rewrite"
	"tmpproxy/wire"
)

// Options say what a Recorder writes, and where.
type Options struct {
	File string // created, or appended to
	// Users, Schemas and Hosts choose sessions by what their logins say; each is a list of patterns (path.Match) or, for hosts,
	// addresses and networks (10.0.0.0/8). Empty: all. The host of a unix socket's client is "localhost".
	Users, Schemas, Hosts []string
	Share                 int // of the sessions chosen, in percent, at random
	Mask                  bool
	MaxSize               int64 // bytes of the file
	MaxTime               time.Duration
	Counts                *Counts // counts on over recordings; nil: nobody wants to know
	// Ended is called once, when the file is closed. The reason is asked, max_size, max_time or error.
	Ended func(reason string, err error)
}

// Counts grow.
type Counts struct {
	Sessions, Records, Bytes atomic.Uint64
	Dropped                  atomic.Uint64 // commands that came too fast, or were too long
	Omitted                  atomic.Uint64 // statements left out because of secrets
}

// Client is what a login says.
type Client struct {
	User, Schema string
	Address      string // host:port, or anything else for a unix socket
	MariaDB      bool
	Version      int
	Collation    uint16
	Capabilities wire.Capability // negotiated
	Joined       bool            // it has been there for a while
}

const (
	queueSize  = 8 << 10  // commands that wait to be written
	maxPending = 64 << 20 // bytes of commands that are arriving or wait to be written
	maxCommand = 16 << 20
	flushEvery = time.Second
)

// Recorder writes one recording. Its methods are safe for concurrent use; those of a Session are not, but never wait.
type Recorder struct {
	options Options
	counts  *Counts
	file    *os.File
	out     *bufio.Writer
	size    int64
	began   time.Time
	masker  *Masker
	queue   chan item
	pending atomic.Int64
	over    atomic.Bool // nothing is taken any more
	quit    chan struct{}
	once    sync.Once
	done    chan struct{}
	ids     atomic.Uint64
	reason  string // why it ended, after done is closed
	err     error
	line    []byte
}

// item is a command on its way to the file.
type item struct {
	session  *Session
	kind     string // Begin, Lost, End, or "" for a command
	command  wire.Command
	mode     rewrite.Mode
	at, took time.Duration
	payload  []byte
	user     string // of COM_CHANGE_USER
	schema   string
	code     uint16
	id       uint32
	params   int
	missing  int    // commands dropped before this one
	why      string // they were
}

// Start opens the file and begins.
func Start(o Options) (*Recorder, error) {
	for _, h := range o.Hosts {
		if _, err := network(h); err != nil {
			if _, err := path.Match(h, ""); err != nil {
				return nil, fmt.Errorf("record: host %q: %w", h, err)
			}
		}
	}
	for _, p := range slices.Concat(o.Users, o.Schemas) {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("record: %q: %w", p, err)
		}
	}
	f, err := os.OpenFile(o.File, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	r := &Recorder{
		options: o, counts: o.Counts, file: f, out: bufio.NewWriterSize(f, 256<<10), began: time.Now(),
		queue: make(chan item, queueSize), quit: make(chan struct{}), done: make(chan struct{}),
	}
	if r.counts == nil {
		r.counts = new(Counts)
	}
	if o.Mask {
		r.masker = NewMasker()
	} else {
		r.masker = nil
	}
	if err := r.begin(); err != nil {
		f.Close()
		return nil, fmt.Errorf("record: %w", err)
	}
	go r.run()
	return r, nil
}

// begin writes the header behind what is there.
func (r *Recorder) begin() error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", r.options.File)
	}
	if r.size = info.Size(); r.size >= r.options.MaxSize {
		return fmt.Errorf("%s has %d bytes already, of %d that it may have", r.options.File, r.size, r.options.MaxSize)
	}
	if r.size > 0 {
		if err := continues(r.file, r.size); err != nil {
			return err
		}
		var last [1]byte
		if _, err := r.file.ReadAt(last[:], r.size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			if err := r.write([]byte("\n")); err != nil {
				return err
			}
		}
	}
	h, err := marshal(Header{Version: Version, Began: r.began.UTC(), Masked: r.options.Mask})
	if err != nil {
		return err
	}
	if err := r.write(h); err != nil {
		return err
	}
	return r.out.Flush()
}

// continues says whether a file is a recording: another one is not appended to.
func continues(f *os.File, size int64) error {
	if _, err := NewReader(io.NewSectionReader(f, 0, size)); err != nil {
		return fmt.Errorf("%s is not empty and cannot be appended to: %w", f.Name(), err)
	}
	return nil
}

func (r *Recorder) write(b []byte) error {
	n, err := r.out.Write(b)
	r.size += int64(n)
	r.counts.Bytes.Add(uint64(n))
	return err
}

// Stop ends the recording and returns when the file is closed. It may be called several times.
func (r *Recorder) Stop() error {
	r.once.Do(func() { close(r.quit) })
	<-r.done
	return r.err
}

// Status says how a recording stands.
type Status struct {
	File     string    `json:"file"`
	Began    time.Time `json:"began"`
	Sessions uint64    `json:"sessions"`
	Waiting  int       `json:"waiting"` // commands that are not written yet
	Ended    string    `json:"ended"`   // why; empty while it goes on
}

// Status tells how the recording stands.
func (r *Recorder) Status() Status {
	s := Status{File: r.options.File, Began: r.began, Sessions: r.ids.Load(), Waiting: len(r.queue)}
	select {
	case <-r.done:
		s.Ended = r.reason
	default:
	}
	return s
}

// Session returns what takes the commands of a client, or nil if it is not to be recorded.
func (r *Recorder) Session(c Client) *Session {
	if r.over.Load() || !r.chosen(&c) {
		return nil
	}
	s := &Session{r: r, id: r.ids.Add(1), client: c}
	if !s.send(item{kind: Begin, at: time.Since(r.began)}) {
		return nil
	}
	r.counts.Sessions.Add(1)
	return s
}

func (r *Recorder) chosen(c *Client) bool {
	o := &r.options
	matches := func(list []string, value string) bool {
		return len(list) == 0 || slices.ContainsFunc(list, func(p string) bool { ok, _ := path.Match(p, value); return ok })
	}
	if !matches(o.Users, c.User) || !matches(o.Schemas, c.Schema) || !hostMatches(o.Hosts, c.host()) {
		return false
	}
	return o.Share >= 100 || rand.IntN(100) < o.Share
}

// host is the client's host without its port.
func (c *Client) host() string {
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil || host == "" {
		return "localhost"
	}
	return host
}

func network(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

func hostMatches(list []string, host string) bool {
	if len(list) == 0 {
		return true
	}
	a, err := netip.ParseAddr(host)
	for _, h := range list {
		if n, e := network(h); e == nil && err == nil && n.Contains(a.Unmap()) {
			return true
		}
		if ok, _ := path.Match(h, host); ok {
			return true
		}
	}
	return false
}

// run writes until the recording ends.
func (r *Recorder) run() {
	defer close(r.done)
	end := time.NewTimer(r.options.MaxTime)
	defer end.Stop()
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	for r.reason == "" {
		select {
		case it := <-r.queue:
			r.take(&it)
		case <-flush.C:
			r.failed(r.out.Flush())
		case <-end.C:
			r.reason = "max_time"
		case <-r.quit:
			r.over.Store(true)
			for r.reason == "" {
				select {
				case it := <-r.queue:
					r.take(&it)
					continue
				default:
				}
				r.reason = "asked"
			}
		}
	}
	r.over.Store(true)
	for len(r.queue) > 0 { // of sessions that have not noticed yet
		<-r.queue
	}
	if r.err == nil {
		r.failed(r.write(appendRecord(nil, &Record{Kind: Stop, At: time.Since(r.began).Microseconds(), Reason: r.reason})))
	}
	r.failed(r.out.Flush())
	r.failed(r.file.Sync())
	r.failed(r.file.Close())
	if r.options.Ended != nil {
		r.options.Ended(r.reason, r.err)
	}
}

// failed ends the recording with the first error.
func (r *Recorder) failed(err error) {
	if err != nil && r.err == nil {
		r.reason, r.err = "error", err
	}
}

// room is what is left of the file for the line that says that it is full.
const room = 128

// take writes what comes of an item.
func (r *Recorder) take(it *item) {
	r.pending.Add(-int64(len(it.payload)))
	emit := func(rec *Record) {
		rec.Session = it.session.id
		rec.At = it.at.Microseconds()
		r.line = appendRecord(r.line[:0], rec)
		if r.size+int64(len(r.line))+room > r.options.MaxSize {
			r.reason = "max_size"
		}
		if r.reason == "" {
			r.failed(r.write(r.line))
			r.counts.Records.Add(1)
		}
	}
	if it.missing > 0 {
		emit(&Record{Kind: Gap, Reason: it.why, Count: it.missing})
	}
	s := it.session
	switch it.kind {
	case Begin:
		c := &s.client
		server := "mysql"
		if c.MariaDB {
			server = "mariadb"
		}
		s.decoder = decoder{masker: r.masker, statements: map[uint32]*prepared{}}
		emit(&Record{Kind: Begin, User: c.User, Schema: c.Schema, Client: c.host(), Server: server, ServerID: c.Version, Collation: c.Collation,
			Capabilities: uint64(c.Capabilities), Joined: c.Joined})
	case Lost, End:
		emit(&Record{Kind: it.kind})
	default:
		rec, ok := s.decoder.decode(it, s.client.Capabilities)
		if !ok {
			return
		}
		if rec.Kind == Omitted {
			r.counts.Omitted.Add(1)
		}
		rec.Took, rec.Error = it.took.Microseconds(), it.code
		emit(&rec)
	}
}

// Session takes what one client sends. Its methods are called by whoever carries the session, and never wait.
type Session struct {
	r      *Recorder
	id     uint64
	client Client

	active   bool
	command  wire.Command
	mode     rewrite.Mode
	at       time.Duration
	payload  []byte
	header   [wire.HeaderSize]byte
	have     int // bytes of the header
	left     int // bytes of the packet still to come
	lost     string
	user     string
	schema   string
	missing  int
	why      string
	finished bool

	decoder decoder // the worker's
}

// send hands an item over, or notes that it is missing.
func (s *Session) send(it item) bool {
	it.session, it.missing, it.why = s, s.missing, s.why
	select {
	case s.r.queue <- it:
		s.missing, s.why = 0, ""
		return true
	default:
		s.drop("queue", len(it.payload))
		return false
	}
}

func (s *Session) drop(why string, pending int) {
	s.r.pending.Add(-int64(pending))
	s.r.counts.Dropped.Add(1)
	s.missing++
	s.why = why
}

// Command begins a command.
func (s *Session) Command(c wire.Command, mode rewrite.Mode) {
	if s.finished || s.r.over.Load() {
		return
	}
	s.abandon()
	s.active, s.command, s.mode, s.at = true, c, mode, time.Since(s.r.began)
	s.have, s.left, s.lost, s.user, s.schema = 0, 0, "", "", ""
}

// abandon forgets a command that has not ended.
func (s *Session) abandon() {
	s.r.pending.Add(-int64(len(s.payload)))
	s.active, s.payload = false, nil
}

// Bytes takes the next bytes of the command's packets, headers included. b stays the caller's.
func (s *Session) Bytes(b []byte) {
	if !s.active || s.lost != "" {
		return
	}
	for len(b) > 0 {
		if s.left == 0 {
			k := copy(s.header[s.have:], b)
			b = b[k:]
			if s.have += k; s.have == len(s.header) {
				s.left, _ = wire.Header(s.header[:])
				s.have = 0
			}
			continue
		}
		k := min(s.left, len(b))
		switch {
		case len(s.payload)+k > maxCommand:
			s.lost = "size"
		case s.r.pending.Add(int64(k)) > maxPending:
			s.r.pending.Add(-int64(k))
			s.lost = "queue"
		}
		if s.lost != "" {
			s.r.pending.Add(-int64(len(s.payload)))
			s.payload = nil
			return
		}
		if s.payload == nil {
			s.payload = make([]byte, 0, s.left)
		}
		s.payload = append(s.payload, b[:k]...)
		b = b[k:]
		s.left -= k
	}
}

// Account is what a COM_CHANGE_USER says, of which nothing else is taken.
func (s *Session) Account(user, schema string) { s.user, s.schema = user, schema }

// Done ends the command: the reply was an ERR with this code, or 0; of a COM_STMT_PREPARE with the statement's id and the number
// of its parameters.
func (s *Session) Done(code uint16, id uint32, params int) {
	if !s.active {
		return
	}
	s.active = false
	p := s.payload
	s.payload = nil
	switch {
	case s.r.over.Load():
		return
	case s.lost != "":
		s.drop(s.lost, 0)
		return
	}
	s.send(item{command: s.command, mode: s.mode, at: s.at, took: time.Since(s.r.began) - s.at, payload: p, user: s.user, schema: s.schema,
		code: code, id: id, params: params})
}

// Lost says that nothing of the session is understood from here on.
func (s *Session) Lost() { s.end(Lost) }

// End is the session's end. It may be called several times.
func (s *Session) End() { s.end(End) }

func (s *Session) end(kind string) {
	if s.finished {
		return
	}
	s.abandon()
	s.finished = true
	if !s.r.over.Load() {
		s.send(item{kind: kind, at: time.Since(s.r.began)})
	}
}

// decoder makes records of a session's commands.
type decoder struct {
	masker     *Masker
	secrets    *Masker // masks what has to be, where values are not masked
	statements map[uint32]*prepared
	last       uint32
}

// prepared is what has to be known of a prepared statement.
type prepared struct {
	handling Handling
	params   int
	types    []Value
	long     map[int]bool
}

// mask returns the masker for something of this handling; nil: it stays.
func (d *decoder) mask(h Handling) *Masker {
	if d.masker == nil && h == Mask {
		if d.secrets == nil {
			d.secrets = NewMasker()
		}
		return d.secrets
	}
	return d.masker
}

func lexical(m rewrite.Mode) Lexical {
	return Lexical{NoBackslashEscapes: m&rewrite.NoBackslashEscapes != 0, ANSIQuotes: m&rewrite.ANSIQuotes != 0}
}

func (d *decoder) text(t []byte, l Lexical) (Text, Handling) {
	h := Sensitive(t, l)
	if h == Omit {
		return nil, h
	}
	if m := d.mask(h); m != nil {
		t = m.Statement(t, l)
	}
	return Text(t), h
}

var errUnknown = errors.New("not understood")

// decode returns false for what leaves nothing to do again.
func (d *decoder) decode(it *item, caps wire.Capability) (Record, bool) {
	rec, err := d.record(it, caps)
	if err != nil {
		return Record{Kind: Gap, Reason: "unknown", Count: 1}, true
	}
	return rec, rec.Kind != ""
}

func (d *decoder) record(it *item, caps wire.Capability) (Record, error) {
	p := it.payload
	if len(p) == 0 && it.command != wire.ComChangeUser {
		return Record{}, errUnknown
	}
	switch it.command {
	case wire.ComQuery:
		_, t, err := wire.SplitQuery(p, caps)
		if err != nil {
			return Record{}, err
		}
		kept, h := d.text(t, lexical(it.mode))
		if h == Omit {
			return Record{Kind: Omitted}, nil
		}
		return Record{Kind: Query, Text: kept}, nil
	case wire.ComStmtPrepare:
		kept, h := d.text(p[1:], lexical(it.mode))
		if it.code == 0 {
			d.statements[it.id] = &prepared{handling: h, params: it.params}
			d.last = it.id
		}
		if h == Omit {
			return Record{Kind: Omitted}, nil
		}
		return Record{Kind: Prepare, Text: kept, Statement: it.id}, nil
	case wire.ComStmtExecute, wire.ComStmtBulkExecute, wire.ComStmtSendLongData, wire.ComStmtFetch, wire.ComStmtClose, wire.ComStmtReset:
		return d.statement(it, caps)
	case wire.ComInitDB:
		return Record{Kind: InitDB, Text: Text(p[1:])}, nil
	case wire.ComFieldList:
		table := p[1:]
		for i, c := range table {
			if c == 0 {
				table = table[:i]
				break
			}
		}
		return Record{Kind: FieldList, Text: Text(table)}, nil
	case wire.ComPing:
		return Record{Kind: Ping}, nil
	case wire.ComStatistics:
		return Record{Kind: Statistics}, nil
	case wire.ComSetOption:
		if len(p) < 2 {
			return Record{}, errUnknown
		}
		return Record{Kind: SetOption, Number: uint32(p[1])}, nil
	case wire.ComResetConnection:
		clear(d.statements)
		return Record{Kind: Reset}, nil
	case wire.ComChangeUser:
		clear(d.statements)
		return Record{Kind: ChangeUser, User: it.user, Schema: it.schema}, nil
	case wire.ComQuit:
		return Record{}, nil
	}
	return Record{}, errUnknown
}

// lastPrepared is MariaDB's number for the statement that was prepared last.
const lastPrepared = 0xFFFFFFFF

func (d *decoder) statement(it *item, caps wire.Capability) (Record, error) {
	p := it.payload
	if len(p) < 5 {
		return Record{}, errUnknown
	}
	id := uint32(p[1]) | uint32(p[2])<<8 | uint32(p[3])<<16 | uint32(p[4])<<24
	if id == lastPrepared {
		id = d.last
	}
	s := d.statements[id]
	if it.command == wire.ComStmtClose {
		delete(d.statements, id)
		if s == nil || s.handling == Omit {
			return Record{}, nil
		}
		return Record{Kind: Close, Statement: id}, nil
	}
	if s == nil {
		return Record{}, errUnknown // prepared before the recording
	}
	if s.handling == Omit {
		return Record{Kind: Omitted}, nil
	}
	m := d.mask(s.handling)
	switch it.command {
	case wire.ComStmtFetch:
		if len(p) < 9 {
			return Record{}, errUnknown
		}
		rows := uint32(p[5]) | uint32(p[6])<<8 | uint32(p[7])<<16 | uint32(p[8])<<24
		return Record{Kind: Fetch, Statement: id, Number: rows}, nil
	case wire.ComStmtReset:
		s.long = nil
		return Record{Kind: ResetStatement, Statement: id}, nil
	case wire.ComStmtSendLongData:
		if len(p) < 7 {
			return Record{}, errUnknown
		}
		n := int(p[5]) | int(p[6])<<8
		if s.long == nil {
			s.long = map[int]bool{}
		}
		s.long[n] = true
		data := p[7:]
		if m != nil {
			data = m.Text(data)
		}
		return Record{Kind: LongData, Statement: id, Number: uint32(n), Text: Text(data)}, nil
	case wire.ComStmtBulkExecute:
		e, flags, err := parseBulk(p, s.params, s.types)
		if err != nil {
			return Record{}, err
		}
		s.types = e.types
		return Record{Kind: Bulk, Statement: id, Columns: s.params, Number: uint32(flags), Values: masked(e.values, m)}, nil
	}
	e, err := parseExecute(p, s.params, s.types, caps.Has(wire.ClientQueryAttributes), func(i int) bool { return s.long[i] })
	s.long = nil
	if err != nil {
		return Record{}, err
	}
	s.types = e.types
	return Record{Kind: Execute, Statement: id, Cursor: e.cursor, Values: masked(e.values, m)}, nil
}

func masked(values []Value, m *Masker) []Value {
	if m != nil {
		for i := range values {
			values[i] = m.Value(values[i])
		}
	}
	return values
}
