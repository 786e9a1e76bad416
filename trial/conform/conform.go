// Package conform holds statements whose replies through a proxy are to be those of the server itself: cycles of temporary tables
// as applications have them, types, prepared statements, transactions, errors, warnings, packets of several statements. They run
// as a recording does, in a schema of their own, which is made and dropped.
//
// The scripts are those of the project's own tests, as far as they need nothing but a schema; package compare says how they are
// written. What they expect is not looked at: the server itself is the measure.
package conform

import (
	"embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/trial/compare"
	"tmpproxy/trial/record"
)

//go:embed scripts/*.txt
var files embed.FS

// Scripts returns all scripts, those of a server first that all servers have.
func Scripts() ([]*compare.Script, error) {
	entries, err := files.ReadDir("scripts")
	if err != nil {
		return nil, err
	}
	var list []*compare.Script
	for _, entry := range entries {
		text, err := files.ReadFile("scripts/" + entry.Name())
		if err != nil {
			return nil, err
		}
		script, err := compare.Parse(entry.Name(), string(text))
		if err != nil {
			return nil, err
		}
		list = append(list, script)
	}
	return list, nil
}

// List is what is run on one server.
type List struct {
	records []record.Record
	at      []place // of each record
	scripts int
}

// place is where a record comes from.
type place struct {
	script *compare.Script
	step   *compare.Step // nil for what is done around the steps
}

// control is the session that makes and drops things.
const control = 1

// New makes the list for a kind of server ("mysql" or "mariadb"), in a schema that does not exist.
func New(kind, schema string) (*List, error) {
	scripts, err := Scripts()
	if err != nil {
		return nil, err
	}
	l := &List{}
	name := "`" + strings.ReplaceAll(schema, "`", "``") + "`"
	l.add(place{}, record.Record{Kind: record.Begin, Session: control})
	session := uint64(control)
	for _, script := range scripts {
		if !slices.Contains(script.Servers, kind) {
			continue
		}
		l.scripts++
		at := place{script: script}
		statements := []string{"DROP DATABASE IF EXISTS " + name, "CREATE DATABASE " + name, "USE " + name}
		for _, step := range script.Setup {
			statements = append(statements, step.Text)
		}
		for _, text := range statements {
			l.add(at, record.Record{Kind: record.Query, Session: control, Text: record.Text(text)})
		}
		if session, err = l.script(script, session, schema); err != nil {
			return nil, fmt.Errorf("%s: %w", script.Name, err)
		}
	}
	l.add(place{}, record.Record{Kind: record.Query, Session: control, Text: record.Text("DROP DATABASE " + name)})
	l.add(place{}, record.Record{Kind: record.End, Session: control})
	return l, nil
}

func (l *List) add(at place, rec record.Record) {
	l.records = append(l.records, rec)
	l.at = append(l.at, at)
}

// Len is the number of scripts.
func (l *List) Len() int { return l.scripts }

// conn is a connection of a script.
type conn struct {
	session    uint64
	statements map[string]uint32
}

var repeatedX = regexp.MustCompile(`\$\{x\*(\d+)\}`)

// script adds a script's steps. last is the number of the last session.
func (l *List) script(script *compare.Script, last uint64, schema string) (uint64, error) {
	conns := map[string]*conn{}
	for i := range script.Steps {
		step := &script.Steps[i]
		at := place{script, step}
		c := conns[step.Conn]
		if c == nil {
			last++
			c = &conn{session: last, statements: map[string]uint32{}}
			conns[step.Conn] = c
			l.add(at, record.Record{Kind: record.Begin, Session: c.session, Schema: schema})
		}
		text := repeatedX.ReplaceAllStringFunc(step.Text, func(m string) string {
			n, _ := strconv.Atoi(repeatedX.FindStringSubmatch(m)[1])
			return strings.Repeat("x", n)
		})
		rec := record.Record{Session: c.session}
		word, rest, _ := strings.Cut(text, " ")
		if id, ok := c.statements[word]; ok {
			rec.Statement = id
		}
		switch step.Verb {
		case compare.Query:
			rec.Kind, rec.Text = record.Query, record.Text(text)
		case "prepare":
			c.statements[word] = uint32(len(c.statements) + 1)
			rec.Kind, rec.Statement, rec.Text = record.Prepare, c.statements[word], record.Text(rest)
		case "execute", "cursor":
			rec.Kind = record.Execute
			if step.Verb == "cursor" {
				rec.Cursor = 1
			}
			list, err := compare.Values(rest)
			if err != nil {
				return last, err
			}
			for _, v := range list {
				rec.Values = append(rec.Values, value(v))
			}
		case "fetch":
			n, err := strconv.ParseUint(rest, 10, 32)
			if err != nil {
				return last, err
			}
			rec.Kind, rec.Number = record.Fetch, uint32(n)
		case "longdata":
			number, data, _ := strings.Cut(rest, " ")
			n, err := strconv.ParseUint(number, 10, 16)
			if err != nil {
				return last, err
			}
			rec.Kind, rec.Number, rec.Text = record.LongData, uint32(n), record.Text(data)
		case "resetstatement":
			rec.Kind = record.ResetStatement
		case "close":
			rec.Kind = record.Close
		case "ping":
			rec.Kind = record.Ping
		case "reset":
			rec.Kind = record.Reset
		case "initdb":
			rec.Kind, rec.Text = record.InitDB, record.Text(text)
		case "fieldlist":
			rec.Kind, rec.Text = record.FieldList, record.Text(word)
		case "setoption":
			rec.Kind = record.SetOption
			if text == "off" {
				rec.Number = 1
			}
		case "disconnect":
			rec.Kind = record.End
			delete(conns, step.Conn)
		case "idle":
			continue
		default:
			return last, fmt.Errorf("%s cannot be run here", step)
		}
		l.add(at, rec)
	}
	for _, name := range slices.Sorted(keys(conns)) {
		l.add(place{script: script}, record.Record{Kind: record.End, Session: conns[name].session})
	}
	return last, nil
}

func keys(m map[string]*conn) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// value is a parameter as clients send it.
func value(v any) record.Value {
	switch v := v.(type) {
	case int64:
		return record.Value{Type: mysql.MYSQL_TYPE_LONGLONG, Data: strconv.AppendInt(nil, v, 10)}
	case float64:
		return record.Value{Type: mysql.MYSQL_TYPE_DOUBLE, Data: strconv.AppendFloat(nil, v, 'g', -1, 64)}
	case string:
		return record.Value{Type: mysql.MYSQL_TYPE_VAR_STRING, Data: record.Text(v)}
	case []byte:
		return record.Value{Type: mysql.MYSQL_TYPE_LONG_BLOB, Data: v}
	case rawclient.LongData:
		return record.Value{Type: mysql.MYSQL_TYPE_LONG_BLOB, Long: true}
	}
	return record.Value{Type: mysql.MYSQL_TYPE_NULL, Null: true}
}

// Reader reads the list from its beginning.
type Reader struct {
	list *List
	next int
}

// Reader returns a new one.
func (l *List) Reader() *Reader { return &Reader{list: l} }

// Next returns the next record; io.EOF is the end.
func (r *Reader) Next() (record.Record, bool, error) {
	if r.next == len(r.list.records) {
		return record.Record{}, false, io.EOF
	}
	r.next++
	return r.list.records[r.next-1], false, nil
}

// Applies says whether a record is of a script that is meant for a strategy.
func (l *List) Applies(ordinal int, strategy string) bool {
	s := l.at[ordinal].script
	return s == nil || strategy == "native" || slices.Contains(s.Strategies, strategy)
}

// Listed returns the name and the reason of the listed difference that a script declares at a record, if it covers d.
func (l *List) Listed(ordinal int, d *compare.Difference) (name, reason string) {
	at := l.at[ordinal]
	if at.script == nil {
		return "", ""
	}
	names := at.script.Allow
	if at.step != nil {
		names = append(slices.Clone(at.step.Allow), names...)
	}
	if name = compare.Covering(names, d); name != "" {
		reason = compare.Allowances[name].Reason
	}
	return name, reason
}
