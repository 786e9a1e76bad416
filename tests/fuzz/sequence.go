package fuzz

import (
	"regexp"
	"strings"

	"tmpproxy/tests/differential"
	"tmpproxy/tests/rawclient"
)

// Sequence is what one client does: one connection, a, and maybe a second one, b.
//
// In the texts of its steps ~ stands behind the names of tables, routines and XA transactions and ^ behind those of
// databases: a run puts something unique there, since the proxy remembers names and shapes beyond a session.
type Sequence struct {
	Steps   []differential.Step
	Client  string // what the connections negotiate: a key of clients
	Outside bool   // b goes to the server itself
}

// The verbs of steps that this package knows besides those of scripts: none. These are the ones it uses.
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
	"modern":  {Capabilities: rawclient.Modern},
	"classic": {Capabilities: rawclient.Classic},
	"mariadb": {Capabilities: rawclient.Modern, MariaDB: rawclient.MariaDBExtendedMetadata | rawclient.MariaDBCacheMetadata},
}

// base is the permanent table that is always there, and its rows.
var base = []string{
	"CREATE TABLE base (id INT PRIMARY KEY, v INT, w VARCHAR(20)) ENGINE=InnoDB",
	"INSERT INTO base VALUES (1, 10, 'one'), (2, 20, 'two'), (3, 30, NULL)",
}

var marks = strings.NewReplacer("~", "", "^", "")

// Script is the sequence as a script of package differential, to be put among the tests.
func (s *Sequence) Script(server, strategy string) string {
	var b strings.Builder
	b.WriteString("servers: " + server + "\nstrategies: " + strategy + "\nsetup:\n")
	text := marks.Replace(s.text())
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
	b.WriteString("run:\n" + text)
	return b.String()
}

// text is the steps, one a line.
func (s *Sequence) text() string {
	var b strings.Builder
	for _, step := range s.Steps {
		if step.Conn != "a" {
			b.WriteString("[" + step.Conn + "] ")
		}
		text := step.Text
		if len(text) > 1000 {
			text = text[:1000] + "…"
		}
		if step.Verb != query {
			text = strings.TrimSpace("@" + step.Verb + " " + text)
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

var (
	permanent      = regexp.MustCompile(`(?is)\bCREATE\s+(OR\s+REPLACE\s+)?(ALGORITHM=\w+\s+)?(TABLE|VIEW|PROCEDURE|FUNCTION|TRIGGER|UNIQUE|INDEX)\b`)
	altersDatabase = regexp.MustCompile(`(?is)\bALTER\s+(DATABASE|SCHEMA)\b`)
	writesBase     = regexp.MustCompile(`(?is)\b(INTO|UPDATE|FROM|TABLE|TRIGGER\b.*ON)\s+(lab\^\.)?base\b`)
	preparesXA     = regexp.MustCompile(`(?is)\bXA\s+PREPARE\b`)
)

// leaves says what the sequence may leave on the server: permanent tables, routines and the like, rows in base, prepared XA
// transactions.
func (s *Sequence) leaves() (objects, rows, xa bool) {
	for _, step := range s.Steps {
		objects = objects || permanent.MatchString(step.Text)
		rows = rows || writesBase.MatchString(step.Text) && !strings.HasPrefix(step.Text, "SELECT")
		xa = xa || preparesXA.MatchString(step.Text)
	}
	return objects, objects || rows, xa
}
