package fuzz

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/trial/compare"
)

// Sequence is what one client does: one connection, a, and maybe a second one, b.
//
// In the texts of its steps ~ stands behind the names of tables, routines and XA transactions and ^ behind those of
// databases: a run puts something unique there, since the proxy remembers names and shapes beyond a session.
type Sequence struct {
	Steps   []compare.Step
	Client  string // what the connections negotiate: a key of clients
	Outside bool   // b goes to the server itself
	Touches bool   // triggers and functions of views use the names, as the proxy trusts them not to: only protected rows are compared
}

// The verbs of steps, which are those of scripts.
const (
	query          = "query"
	prepare        = "prepare"
	execute        = "execute"
	cursor         = "cursor"
	fetch          = "fetch"
	resetStatement = "resetstatement"
	closeStatement = "close"
	ping           = "ping"
	reset          = "reset"
	changeUser     = "changeuser"
	initDB         = "initdb"
	fieldList      = "fieldlist"
	statistics     = "statistics"
	setOption      = "setoption"
	idle           = "idle"
	send           = "send"
	receive        = "receive"
)

// clients are the kinds of clients, by what they negotiate.
var clients = map[string]rawclient.Config{
	"modern":     {Capabilities: rawclient.Modern},
	"attributes": {Capabilities: rawclient.Modern}, // every query has an attribute
	"classic":    {Capabilities: rawclient.Classic},
	"mariadb":    {Capabilities: rawclient.Modern, MariaDB: rawclient.MariaDBExtendedMetadata | rawclient.MariaDBCacheMetadata},
}

// base is the permanent table that is always there, and its rows.
var base = []string{
	"CREATE TABLE base (id INT PRIMARY KEY, v INT, w VARCHAR(20)) ENGINE=InnoDB",
	"INSERT INTO base VALUES (1, 10, 'one'), (2, 20, 'two'), (3, 30, NULL)",
}

// Script is the sequence as a script of package differential, to be put among the tests. codes are the errors that its steps
// got directly, 0 for none; nil: they are not known.
func (s *Sequence) Script(server, strategy string, codes []uint16) string {
	var b strings.Builder
	b.WriteString("servers: " + server + "\nstrategies: " + strategy + "\nsetup:\n")
	text := s.text(codes)
	if strings.Contains(text, "lab2") {
		b.WriteString("CREATE DATABASE lab2\n")
	}
	if strings.Contains(text, "base") {
		b.WriteString(strings.Join(base, "\n") + "\n")
	}
	if s.Client != "modern" {
		b.WriteString("# the client is " + s.Client + "\n")
	}
	if s.Outside {
		b.WriteString("# b is connected to the server itself\n")
	}
	if s.Touches {
		b.WriteString("# only the rows of permanent tables count\n")
	}
	b.WriteString("run:\n" + text)
	return b.String()
}

var (
	marks = strings.NewReplacer("~", "", "^", "", "\n", "\\\n")
	manyX = regexp.MustCompile(`x{100,}`)
)

// text is the steps, one a line.
func (s *Sequence) text(codes []uint16) string {
	var b strings.Builder
	for i, step := range s.Steps {
		if step.Conn != "a" {
			b.WriteString("[" + step.Conn + "] ")
		}
		if codes != nil && codes[i] != 0 {
			fmt.Fprintf(&b, "!%d ", codes[i])
		}
		text := manyX.ReplaceAllStringFunc(marks.Replace(step.Text), func(x string) string { return fmt.Sprintf("${x*%d}", len(x)) })
		if step.Verb != query {
			text = strings.TrimSpace("@" + step.Verb + " " + text)
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

// mentions tells whether a text of the sequence matches.
func (s *Sequence) mentions(pattern *regexp.Regexp) bool {
	return slices.ContainsFunc(s.Steps, func(step compare.Step) bool { return pattern.MatchString(step.Text) })
}

var (
	permanent      = regexp.MustCompile(`(?is)\bCREATE\s+(OR\s+REPLACE\s+)?(ALGORITHM=\w+\s+)?(TABLE|VIEW|PROCEDURE|FUNCTION|TRIGGER|UNIQUE|INDEX)\b`)
	altersDatabase = regexp.MustCompile(`(?is)\bALTER\s+(DATABASE|SCHEMA)\b`)
	writesBase     = regexp.MustCompile(`(?is)\b(INTO|UPDATE|DELETE\s+FROM|TRUNCATE\s+TABLE)\s+(lab\^\.)?base\b`)
	preparesXA     = regexp.MustCompile(`(?is)\bXA\s+PREPARE\b`)
)

// leaves says what the sequence may leave on the server: permanent tables, routines and the like, rows in base, prepared XA
// transactions.
func (s *Sequence) leaves() (objects, rows, xa bool) {
	for _, step := range s.Steps {
		objects = objects || permanent.MatchString(step.Text)
		rows = rows || writesBase.MatchString(step.Text)
		xa = xa || preparesXA.MatchString(step.Text)
	}
	return objects, objects || rows, xa
}
