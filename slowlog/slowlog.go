// Package slowlog writes statements that took long as MySQL's slow query log has them, for the programs that read it: mysqldumpslow,
// pt-query-digest, and tmpproxy replay. Unless asked for, no value is written: of a statement only its digest, with ? for each literal.
// It does not tell what only the server knows: times of locks and numbers of rows are 0. It decides nothing about which statements
// are slow, and does not rotate files: whoever does renames them and has them opened anew.
package slowlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"tmpproxy/rewrite"
	"tmpproxy/telemetry"
	"tmpproxy/trial/record"
)

// Counts grow.
type Counts struct {
	Written atomic.Uint64 // statements
	TooFast atomic.Uint64 // statements that were dropped as they came faster than they could be written
	Failed  atomic.Uint64 // statements that could not be written
}

// Bounds of what waits to be written.
const (
	maxWaiting      = 1024
	maxWaitingBytes = 16 << 20
)

// Log writes one file, in a goroutine of its own. Its methods are safe for concurrent use.
type Log struct {
	file    string
	version string
	counts  *Counts
	failed  func(error)

	full  atomic.Bool
	queue *telemetry.Queue
	next  chan *os.File // to go on with
	gone  chan struct{} // it has
	quit  chan struct{}
	done  chan struct{}
}

// Open opens the file, which is appended to, and begins. failed is told of the first of several statements in a row that cannot be
// written.
func Open(file, version string, counts *Counts, failed func(error)) (*Log, error) {
	f, err := open(file, version)
	if err != nil {
		return nil, err
	}
	l := &Log{file: file, version: version, counts: counts, failed: failed,
		queue: telemetry.NewQueue(maxWaiting, maxWaitingBytes), next: make(chan *os.File), gone: make(chan struct{}), quit: make(chan struct{}), done: make(chan struct{})}
	go l.run(f)
	return l, nil
}

// open opens a file for its owner alone, with the head that readers know a slow log by: it has to begin with the path of a program.
func open(file, version string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("slow log: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		_, err = fmt.Fprintf(f, "/usr/bin/tmpproxy, Version: %s. started with:\nTcp port: 0  Unix socket: \nTime                 Id Command    Argument\n", version)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("slow log: %w", err)
	}
	return f, nil
}

// SetFull says whether statements are written with their values.
func (l *Log) SetFull(full bool) { l.full.Store(full) }

// Add never waits. The text is the log's from then on.
func (l *Log) Add(s telemetry.Statement) {
	if !l.queue.Add(s) {
		l.counts.TooFast.Add(1)
	}
}

// Reopen goes on with the file that has the name now; the old one is closed when it returns. With an error it goes on with the one that it has.
func (l *Log) Reopen() error {
	f, err := open(l.file, l.version)
	if err != nil {
		return err
	}
	select {
	case l.next <- f:
		<-l.gone
		return nil
	case <-l.done:
		f.Close()
		return errors.New("slow log: it is closed")
	}
}

// Close writes what waits and closes the file. It may be called once; nothing may be added any more.
func (l *Log) Close() {
	close(l.quit)
	<-l.done
}

func (l *Log) run(f *os.File) {
	defer close(l.done)
	w := writer{log: l, file: f, out: bufio.NewWriter(f)}
	for {
		select {
		case s := <-l.queue.Waiting():
			w.take(s)
		case f := <-l.next:
			l.queue.Drain(w.take)
			w.goOn(f)
			l.gone <- struct{}{}
		case <-l.quit:
			l.queue.Drain(w.take)
			w.flush()
			w.file.Close()
			return
		}
	}
}

// writer belongs to the log's goroutine.
type writer struct {
	log      *Log
	file     *os.File
	out      *bufio.Writer
	schema   string // that was named last
	buffered uint64 // statements that are in out
	broken   bool   // the last ones could not be written
}

func (w *writer) take(s telemetry.Statement) {
	w.log.queue.Taken(&s)
	w.buffered++
	w.out.Write(w.format(&s)) // an error stays in out, until flush
	if len(w.log.queue.Waiting()) == 0 || w.out.Buffered() > 64<<10 {
		w.flush()
	}
}

// goOn goes on with another file.
func (w *writer) goOn(f *os.File) {
	w.flush()
	w.file.Close()
	w.file, w.schema, w.broken = f, "", false
	w.out.Reset(f)
}

func (w *writer) flush() {
	err := w.out.Flush()
	if err == nil {
		w.log.counts.Written.Add(w.buffered)
		w.buffered, w.broken = 0, false
		return
	}
	w.log.counts.Failed.Add(w.buffered)
	if !w.broken {
		w.log.failed(err)
	}
	w.buffered, w.broken, w.schema = 0, true, ""
	w.out.Reset(w.file) // the disk may have room again
}

// format makes a record.
func (w *writer) format(s *telemetry.Statement) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Time: %s\n", s.End.UTC().Format("2006-01-02T15:04:05.000000Z"))
	user, host := clean(s.User), clean(s.Host)
	name := ""
	if host == "" {
		name = "localhost"
	}
	fmt.Fprintf(&b, "# User@Host: %s[%s] @ %s [%s]  Id: %5d\n", user, user, name, host, s.Thread)
	fmt.Fprintf(&b, "# Query_time: %.6f  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0\n", s.Took.Seconds())
	if s.Schema != "" && s.Schema != w.schema {
		fmt.Fprintf(&b, "use %s;\n", quoted(s.Schema))
		w.schema = s.Schema
	}
	fmt.Fprintf(&b, "SET timestamp=%d;\n", s.End.Unix())
	b.WriteString(w.text(s))
	b.WriteString(";\n")
	return b.Bytes()
}

// text is what is written of a statement's text.
func (w *writer) text(s *telemetry.Statement) string {
	if len(s.Text) == 0 {
		if s.Prepared {
			return "# administrator command: Execute"
		}
		return "# administrator command: Query"
	}
	lexical := record.Lexical{NoBackslashEscapes: s.Mode&rewrite.NoBackslashEscapes != 0, ANSIQuotes: s.Mode&rewrite.ANSIQuotes != 0}
	if !w.log.full.Load() || record.Sensitive(s.Text, lexical) != record.Keep {
		return strings.Map(blank, record.Shape(s.Text, lexical))
	}
	text := strings.TrimRight(string(s.Text), "; \t\r\n")
	if !s.Whole {
		text += "…"
	}
	return text
}

// blank makes a blank of a control character: a line of somebody else's is none of ours.
func blank(r rune) rune {
	if r < ' ' || r == 0x7F {
		return ' '
	}
	return r
}

// clean is a name as it stands in a line of its own.
func clean(s string) string { return strings.Map(blank, s) }

// quoted is a schema's name, in backticks where they are needed.
func quoted(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !(r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z')
	}) {
		return "`" + strings.ReplaceAll(clean(s), "`", "``") + "`"
	}
	return s
}
