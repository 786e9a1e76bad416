package replay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tmpproxy/trial/record"
)

// Source gives records one after the other; io.EOF is the end. newPart says that sessions and times begin anew.
type Source interface {
	Next() (rec record.Record, newPart bool, err error)
}

// The kinds of inputs.
const (
	Recording  = "recording"
	GeneralLog = "general log"
	SlowLog    = "slow log"
)

// Open tells what kind of input it is and reads it: a recording, or a general or slow log of MySQL or MariaDB.
func Open(in io.Reader) (Source, string, error) {
	b := bufio.NewReaderSize(in, 64<<10)
	head, err := b.Peek(64 << 10)
	if err != nil && err != io.EOF {
		return nil, "", err
	}
	if bytes.HasPrefix(head, []byte(`{"tmpproxy_recording":`)) {
		r, err := record.NewReader(b)
		return r, Recording, err
	}
	for line := range bytes.Lines(head) {
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case generalLine.Match(line):
			return &generalLog{lines: lines{in: b}, sessions: map[uint64]*logged{}}, GeneralLog, nil
		case bytes.HasPrefix(line, []byte("# User@Host:")), bytes.HasPrefix(line, []byte("# Query_time:")):
			return &slowLog{lines: lines{in: b}, sessions: map[uint64]*logged{}}, SlowLog, nil
		}
	}
	return nil, "", errors.New("this is neither a recording nor a general or slow log of MySQL or MariaDB")
}

// lines reads lines, with one that can be given back.
type lines struct {
	in   *bufio.Reader
	back []byte
	has  bool
}

const maxLogLine = 64 << 20

func (l *lines) next() ([]byte, error) {
	if l.has {
		l.has = false
		return l.back, nil
	}
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		line = append(line, part...)
		if err == bufio.ErrBufferFull {
			if len(line) > maxLogLine {
				return nil, fmt.Errorf("a line is longer than %d bytes", maxLogLine)
			}
			continue
		}
		if err == io.EOF && len(line) > 0 {
			err = nil
		}
		return bytes.TrimRight(line, "\r\n"), err
	}
}

func (l *lines) giveBack(line []byte) { l.back, l.has = line, true }

// logged is what is known of a session of a log.
type logged struct {
	schema string
}

var (
	generalLine = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)|\d{6}\s+\d{1,2}:\d\d:\d\d|\t)\t\s*(\d+) ` +
		`(Connect|Query|Quit|Init DB|Prepare|Execute|Close stmt|Reset stmt|Fetch|Long Data|Field List|Change user|Ping|Statistics|Set option|` +
		`Reset Connection|Reset connection|Create DB|Drop DB|Refresh|Shutdown|Processlist|Kill|Debug|Binlog Dump|Binlog Dump GTID|Register Slave|` +
		`Register Replica|Daemon|Table Dump|Connect Out|Delayed insert|Error|Sleep|Time|Bulk_execute)(?:\t(.*))?$`)
	connectText  = regexp.MustCompile(`^(.*?)@(\S*)(?: as \S+)? on (.*?)(?: using .*)?$`)
	runsPrepared = regexp.MustCompile(`(?is)^\s*(/\*.*?\*/\s*)*(EXECUTE|PREPARE|DEALLOCATE)\b`)
)

// times makes times of a log relative to its first.
type times struct {
	began time.Time
	last  int64
}

var timeForms = []string{time.RFC3339Nano, "060102 15:04:05", "060102  15:04:05"}

func (t *times) at(text string) int64 {
	text = strings.TrimSpace(text)
	for _, form := range timeForms {
		when, err := time.Parse(form, text)
		if err != nil {
			continue
		}
		if t.began.IsZero() {
			t.began = when
		}
		t.last = max(t.last, when.Sub(t.began).Microseconds())
		break
	}
	return t.last
}

// generalLog reads a general log.
type generalLog struct {
	lines    lines
	times    times
	sessions map[uint64]*logged
	queue    []record.Record
}

func (g *generalLog) Next() (record.Record, bool, error) {
	for len(g.queue) == 0 {
		line, err := g.lines.next()
		if err != nil {
			return record.Record{}, false, err
		}
		m := generalLine.FindSubmatch(line)
		if m == nil {
			continue // a header, or something in front of the first command
		}
		text := append([]byte(nil), m[4]...)
		for {
			more, err := g.lines.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return record.Record{}, false, err
			}
			if generalLine.Match(more) || serverHeader.Match(more) {
				g.lines.giveBack(more)
				break
			}
			text = append(append(text, '\n'), more...)
		}
		id, err := strconv.ParseUint(string(m[2]), 10, 64)
		if err != nil {
			continue
		}
		g.command(g.times.at(string(m[1])), id, string(m[3]), text)
	}
	rec := g.queue[0]
	g.queue = g.queue[1:]
	return rec, false, nil
}

var serverHeader = regexp.MustCompile(`, Version: .* started with:$|^Tcp port: |^Time\s+Id Command\s+Argument`)

func (g *generalLog) command(at int64, id uint64, command string, text []byte) {
	s := g.sessions[id]
	add := func(rec record.Record) {
		rec.Session, rec.At = id, at
		g.queue = append(g.queue, rec)
	}
	begin := func(rec record.Record) {
		rec.Kind = record.Begin
		s = &logged{schema: rec.Schema}
		g.sessions[id] = s
		add(rec)
	}
	if command == "Connect" {
		m := connectText.FindSubmatch(text)
		if m == nil {
			return // a login that was refused
		}
		begin(record.Record{User: string(m[1]), Schema: string(m[3]), Client: string(m[2])})
		return
	}
	if s == nil {
		begin(record.Record{Joined: true})
	}
	switch command {
	case "Query":
		// What EXECUTE runs is logged once more, with its values; MySQL hides what PREPARE prepares.
		if !runsPrepared.Match(text) {
			add(statement(text))
		}
	case "Execute":
		add(statement(text))
	case "Init DB":
		add(record.Record{Kind: record.InitDB, Text: text})
	case "Field List":
		name, _, _ := bytes.Cut(text, []byte("\t"))
		add(record.Record{Kind: record.FieldList, Text: bytes.TrimSpace(name)})
	case "Change user":
		if m := connectText.FindSubmatch(text); m != nil {
			add(record.Record{Kind: record.ChangeUser, User: string(m[1]), Schema: string(m[3])})
		}
	case "Reset Connection", "Reset connection":
		add(record.Record{Kind: record.Reset})
	case "Ping":
		add(record.Record{Kind: record.Ping})
	case "Quit":
		add(record.Record{Kind: record.End})
		delete(g.sessions, id)
	}
}

// statement is the record of a statement of a log.
func statement(text []byte) record.Record {
	text = bytes.TrimRight(text, " \t\r\n;")
	if record.Sensitive(text, record.Lexical{}) == record.Omit {
		return record.Record{Kind: record.Omitted}
	}
	return record.Record{Kind: record.Query, Text: text}
}

var (
	slowUser   = regexp.MustCompile(`^# User@Host: (.*?)\[.*?\] @ (\S*) *\[(.*?)\](?:\s+Id:\s*(\d+))?`)
	slowThread = regexp.MustCompile(`^# Thread_id: (\d+)\s+Schema: (\S*)`)
	slowTime   = regexp.MustCompile(`^# Query_time: ([\d.]+)`)
	slowUse    = regexp.MustCompile("^use `?(.*?)`?;$")
	slowStamp  = regexp.MustCompile(`^SET (?:last_insert_id=\d+,|insert_id=\d+,)*timestamp=[\d.]+;$`)
)

// slowLog reads a slow log.
type slowLog struct {
	lines    lines
	times    times
	sessions map[uint64]*logged
	schema   string // that the log told last, of whatever session
	queue    []record.Record
}

func (l *slowLog) Next() (record.Record, bool, error) {
	for len(l.queue) == 0 {
		if err := l.entry(); err != nil {
			return record.Record{}, false, err
		}
	}
	rec := l.queue[0]
	l.queue = l.queue[1:]
	return rec, false, nil
}

// entry reads one entry: lines of comments, then statements.
func (l *slowLog) entry() error {
	var user, host string
	var id uint64
	var at, took int64
	at = l.times.last
	seen := false
	var text []byte
	for {
		line, err := l.lines.next()
		if err == io.EOF && seen {
			break
		}
		if err != nil {
			return err
		}
		switch {
		case text != nil && !bytes.HasSuffix(text, []byte(";")): // a statement goes on, whatever its lines look like
			text = append(append(text, '\n'), line...)
		case bytes.HasPrefix(line, []byte("# Time:")):
			if text != nil {
				l.lines.giveBack(line)
				goto done
			}
			at = l.times.at(string(line[len("# Time:"):]))
		case bytes.HasPrefix(line, []byte("# User@Host:")):
			if text != nil {
				l.lines.giveBack(line)
				goto done
			}
			if m := slowUser.FindSubmatch(line); m != nil {
				seen = true
				user, host = string(m[1]), string(m[2])
				id, _ = strconv.ParseUint(string(m[4]), 10, 64)
			}
		case slowThread.Match(line):
			m := slowThread.FindSubmatch(line)
			id, _ = strconv.ParseUint(string(m[1]), 10, 64)
			if len(m[2]) > 0 {
				l.schema = string(m[2])
			}
		case slowTime.Match(line):
			seconds, _ := strconv.ParseFloat(string(slowTime.FindSubmatch(line)[1]), 64)
			took = int64(seconds * 1e6)
		case bytes.HasPrefix(line, []byte("# administrator command: Quit")):
			if l.sessions[id] != nil {
				l.queue = append(l.queue, record.Record{Kind: record.End, Session: id, At: at})
				delete(l.sessions, id)
			}
			if seen {
				return nil
			}
		case bytes.HasPrefix(line, []byte("# ")) && text == nil, !seen, serverHeader.Match(line):
		case text == nil && slowUse.Match(line):
			l.schema = string(slowUse.FindSubmatch(line)[1])
		case text == nil && slowStamp.Match(line):
		default:
			if text != nil {
				text = append(text, '\n')
			}
			text = append(text, line...)
		}
	}
done:
	text = bytes.TrimSuffix(bytes.TrimRight(text, " \t\n"), []byte(";"))
	if len(text) == 0 || runsPrepared.Match(text) {
		return nil
	}
	add := func(rec record.Record) {
		rec.Session, rec.At = id, max(0, at-took)
		l.queue = append(l.queue, rec)
	}
	s := l.sessions[id]
	if s == nil {
		s = &logged{schema: l.schema}
		l.sessions[id] = s
		add(record.Record{Kind: record.Begin, User: user, Client: host, Schema: l.schema, Joined: true})
	}
	if s.schema != l.schema {
		s.schema = l.schema
		add(record.Record{Kind: record.InitDB, Text: record.Text(l.schema)})
	}
	rec := statement(text)
	rec.Took = took
	add(rec)
	return nil
}
