// Package judge compares any two runs of the same statements, directly and through a proxy, and names each difference that is in
// the README's list of what can be noticed. Package compare, which it builds on, has scripts declare theirs instead.
package judge

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/trial/compare"
)

// Exchange is what one step let the client see.
type Exchange struct {
	Step    *compare.Step
	Reply   rawclient.Reply // with Raw
	Binary  bool            // rows are of the binary protocol
	Skipped bool            // the step was left out: it might have waited for another connection
	Silent  bool            // the command has no reply
	Failure string          // the connection has ended, or what came makes no sense
}

// Outcome is what a run let its client see, and what it left in the databases.
type Outcome struct {
	Events []Exchange
	State  []string
}

// Codes are the errors that the steps of a run got, 0 for none.
func (o *Outcome) Codes() []uint16 {
	codes := make([]uint16, len(o.Events))
	for i := range o.Events {
		if e := o.Events[i].Reply.Err(); e != nil {
			codes[i] = e.Code
		}
	}
	return codes
}

// The verbs of steps that are told apart, which are those of scripts.
const (
	query   = compare.Query
	prepare = "prepare"
	execute = "execute"
	cursor  = "cursor"
	fetch   = "fetch"
	send    = "send"
	receive = "receive"

	fieldList = "fieldlist"
)

// Verdict is what came of comparing two runs of a sequence.
type Verdict struct {
	// Unexplained are the differences of the first step that has any that no name covers; later steps follow from it.
	Unexplained []compare.Difference
	// Known counts the differences by their names.
	Known map[string]int
	// Codes are the errors that the steps got directly, 0 for none.
	Codes []uint16
	// Compared are the steps whose outcomes were compared: after some known differences the two sides are no longer in the
	// same state.
	Compared int
}

// Judge compares the two runs of a sequence step by step.
type Judge struct {
	server, strategy string
	known            map[string]int
	sides            map[string]*side
}

// New returns the judge of runs on a server ("mysql", "mariadb", "mariadb-11.8" or the like) directly and through a proxy with a
// strategy.
func New(server, strategy string) *Judge {
	return &Judge{server: server, strategy: strategy, known: map[string]int{}, sides: map[string]*side{}}
}

// side is what known differences depend on, of one connection.
type side struct {
	mariadb         bool
	text            string            // of the present step, in upper case; of an execution that of its statement
	sent            []string          // statements whose replies are out
	texts           map[string]string // of prepared statements by their names
	replaced        string            // the text that had the name of the present step's preparation, which keeps it if that fails
	assigned        string            // the text in a variable, to be prepared
	direct, proxied uint16            // last status flags
	kept            bool              // the list of warnings is one that statements since have left alone
	warned          bool              // the lists of warnings are known to differ
	mixed           bool              // MySQL: a write has failed, which may have warned before of mixed engines
	statistics      bool              // MariaDB: an InnoDB table was made
	prepared        bool              // the last step was one that leaves ROW_COUNT() alone, as a preparation is
	counted         bool              // ROW_COUNT() is known to differ
	copied          bool              // user variables hold what differed
	states          bool              // in the present step all that is told of the session's state is whether a transaction is open
	pending         bool              // MySQL: an EXECUTE has failed, and no OK has come since
	rolledBack      bool              // rows were kept by a ROLLBACK that undid others
	partial         bool              // a statement of several rows has failed
	generates       bool              // there was an AUTO_INCREMENT column
	gaps            bool              // its values are known to differ
	subquery        bool              // the last statement that may have set FOUND_ROWS() had a subquery or an aggregate function, or may have had one
	changed         bool              // behind the last statement that set FOUND_ROWS() on purpose, rows were changed or deleted
	unsafe          bool              // a statement was unsafe to be logged as a statement
	readOnce        bool              // SET TRANSACTION READ ONLY was given
}

// protected are the rows that a sequence that touches names leaves alone.
var protected = regexp.MustCompile(`"90000\d"`)

// Protected compares the outcomes of a sequence that touches names: every protected row has to be there, and the connections.
func Protected(server, strategy string, direct, proxied *Outcome) Verdict {
	j := New(server, strategy)
	v := Verdict{Known: j.known, Codes: direct.Codes(), Compared: len(direct.Events)}
	rows := func(o *Outcome) (list []string) {
		for i := range o.Events {
			if f := o.Events[i].Failure; f != "" {
				list = append(list, f)
			}
		}
		for _, line := range o.State {
			if protected.MatchString(line) {
				list = append(list, line)
			}
		}
		return list
	}
	v.Unexplained = j.state(rows(direct), rows(proxied))
	return v
}

// Compare compares the outcomes of a sequence.
func Compare(server, strategy string, direct, proxied *Outcome) Verdict {
	j := New(server, strategy)
	v := Verdict{Known: j.known, Codes: direct.Codes()}
	if direct.equal(proxied) {
		v.Compared = len(direct.Events)
		return v
	}
	for i := range direct.Events {
		unexplained, ends := j.step(&direct.Events[i], &proxied.Events[i])
		v.Compared++
		if v.Unexplained = unexplained; ends || unexplained != nil {
			return v
		}
	}
	v.Unexplained = j.state(direct.State, proxied.State)
	return v
}

// equal tells whether two runs went the same to the last byte.
func (o *Outcome) equal(p *Outcome) bool {
	for i := range o.Events {
		if d, p := &o.Events[i], &p.Events[i]; !d.Skipped && !d.equal(p) {
			return false
		}
	}
	return slices.Equal(o.State, p.State)
}

func (e *Exchange) equal(p *Exchange) bool {
	return e.Failure == p.Failure && bytes.Equal(e.Reply.Raw, p.Reply.Raw)
}

// Finding is a difference with the name of the known one that it is.
type Finding struct {
	compare.Difference
	Name string // "": no known difference explains it
	Ends bool   // the two sides are no longer in the same state
}

// Findings returns the differences of a step. The steps of a run are given in their order.
func (j *Judge) Findings(direct, proxied *Exchange) []Finding {
	if direct.Skipped {
		return nil
	}
	s := j.side(direct.Step)
	s.begin(direct.Step)
	if direct.Silent && direct.Failure == proxied.Failure {
		return nil
	}
	var findings []Finding
	if !direct.equal(proxied) {
		d, p := fields(direct), fields(proxied)
		s.states = transactionless(direct) == transactionless(proxied)
		for _, difference := range compare.Compare([]compare.Event{d}, []compare.Event{p}) {
			difference.Server, difference.Strategy = j.server, j.strategy
			f := Finding{Difference: difference}
			f.Name, f.Ends = j.explain(s, &difference)
			findings = append(findings, f)
		}
	}
	s.finish(direct, proxied)
	return findings
}

// step returns the unexplained differences of a step, and whether the comparison ends behind it.
func (j *Judge) step(direct, proxied *Exchange) (unexplained []compare.Difference, ends bool) {
	for _, f := range j.Findings(direct, proxied) {
		if f.Name == "" {
			unexplained = append(unexplained, f.Difference)
			continue
		}
		j.known[f.Name]++
		ends = ends || f.Ends
	}
	// A known difference that changes the state may show in several fields, of which not all are told apart.
	if ends {
		unexplained = nil
	}
	return unexplained, ends
}

var trackedTransaction = regexp.MustCompile(`\x05\t\x08[T_]_[R_]_{5}`)

// transactionless is what an event's reply tells of the session's state besides whether BEGIN has opened a transaction, with a
// snapshot or without.
func transactionless(e *Exchange) string {
	return trackedTransaction.ReplaceAllString(string(last(e).State), "")
}

// state compares what is left in the databases.
func (j *Judge) state(direct, proxied []string) []compare.Difference {
	if slices.Equal(direct, proxied) {
		return nil
	}
	s := j.side(&compare.Step{Conn: "a"})
	if s.rolledBack && j.strategy != preserve || s.partial || s.gaps {
		j.known["rollback-rows"]++
		return nil
	}
	event := func(lines []string) *compare.Event {
		e := &compare.Event{Step: &compare.Step{Conn: "control", Verb: "final", Text: "state"}}
		for i, line := range lines {
			e.Fields = append(e.Fields, rawclient.Field{Path: fmt.Sprintf("line[%d]", i), Value: line})
		}
		return e
	}
	differences := compare.Compare([]compare.Event{*event(direct)}, []compare.Event{*event(proxied)})
	for i := range differences {
		differences[i].Server, differences[i].Strategy, differences[i].Variant = j.server, j.strategy, "state"
	}
	return differences
}

func (j *Judge) side(step *compare.Step) *side {
	s := j.sides[step.Conn]
	if s == nil {
		s = &side{mariadb: strings.HasPrefix(j.server, "mariadb"), texts: map[string]string{}, direct: mysql.SERVER_STATUS_AUTOCOMMIT, proxied: mysql.SERVER_STATUS_AUTOCOMMIT}
		j.sides[step.Conn] = s
	}
	return s
}

var (
	digits      = regexp.MustCompile(`\d+(\.\d+)?`)
	statementID = regexp.MustCompile(`statement \(\d+\)`)
	threadName  = regexp.MustCompile(`#sql-[0-9a-f]+_[0-9a-f]+`)
)

// fields are those of an event, but for what differs between any two runs.
func fields(e *Exchange) compare.Event {
	out := compare.Event{Step: e.Step}
	if e.Failure != "" {
		out.Fields = []rawclient.Field{{Path: "connection", Value: e.Failure}}
		return out
	}
	out.Fields = e.Reply.Fields(e.Binary)
	for i := range out.Fields {
		f := &out.Fields[i]
		f.Value = threadName.ReplaceAllString(statementID.ReplaceAllString(f.Value, "statement (<id>)"), "#sql-<id>")
		if f.Path == "text" {
			f.Value = digits.ReplaceAllString(f.Value, "<number>")
		}
	}
	return out
}

// explain returns the name of the known difference that d is, "" if it is none, and whether the comparison ends with it.
func (j *Judge) explain(s *side, d *compare.Difference) (name string, ends bool) {
	if strings.HasSuffix(d.Path, ".status") {
		return j.explainStatus(s, d)
	}
	for _, k := range Known {
		if k.applies(j) && k.Match != nil && k.Match(s, d) {
			return k.Name, k.Ends
		}
	}
	return "", false
}

// explainStatus does so for status flags, each of which may have a reason of its own.
func (j *Judge) explainStatus(s *side, d *compare.Difference) (name string, ends bool) {
	direct, err := strconv.ParseUint(d.Direct, 0, 16)
	if err != nil {
		return "", false
	}
	proxied, err := strconv.ParseUint(d.Proxied, 0, 16)
	if err != nil {
		return "", false
	}
	rest := uint16(direct ^ proxied)
	for _, k := range Known {
		if k.applies(j) && k.Flags != 0 && rest&k.Flags != 0 && (k.MatchFlags == nil || k.MatchFlags(s, uint16(direct), uint16(proxied))) {
			rest &^= k.Flags
			name, ends = k.Name, ends || k.Ends
		}
	}
	if rest != 0 {
		return "", false
	}
	return name, ends
}

// begin takes over the text of the step that is to be judged.
func (s *side) begin(step *compare.Step) {
	word, rest, _ := strings.Cut(step.Text, " ")
	switch step.Verb {
	case send:
		s.sent = append(s.sent, strings.ToUpper(step.Text))
		s.text = ""
	case receive:
		s.text, s.sent = s.sent[0], s.sent[1:]
	case query:
		s.text = strings.ToUpper(step.Text)
		s.prepare()
	case prepare:
		s.replaced, s.texts[word] = s.texts[word], strings.ToUpper(rest)
		s.text = ""
	case execute, cursor, fetch:
		s.text = s.texts[word]
	default:
		s.text = ""
	}
}

// prepare keeps the texts of statements that are prepared by name, and adds them to those that execute them.
func (s *side) prepare() {
	if m := assignsText.FindStringSubmatch(s.text); m != nil {
		s.assigned = m[1]
		return
	}
	if m := preparesText.FindStringSubmatch(s.text); m != nil {
		name, text := "TEXT "+m[2], m[3]
		if strings.HasPrefix(text, "@") {
			text = s.assigned
		}
		if m[1] != "" { // in a routine, which is not known to run
			text = s.texts[name] + " " + text
		}
		s.texts[name] = strings.Trim(text, `'"`)
		return
	}
	for _, m := range executesText.FindAllStringSubmatch(s.text, -1) {
		s.text += " " + s.texts["TEXT "+m[1]]
	}
}

var (
	readsDiagnostics  = regexp.MustCompile(`WARNINGS|ERRORS|GET DIAGNOSTICS|WARNING_COUNT|ERROR_COUNT|ROW_COUNT`)
	readsWarnings     = regexp.MustCompile(`WARNINGS|ERRORS|GET DIAGNOSTICS|WARNING_COUNT|ERROR_COUNT`)
	copiesDiagnostics = regexp.MustCompile(`GET DIAGNOSTICS|SET @`)
	readsTables       = regexp.MustCompile(`\b(FROM|INTO|UPDATE|TABLE|TABLES|TRUNCATE|VIEW|DESCRIBE|SHOW)\b`)
	// On MariaDB, these leave the list of warnings alone, or may do so, whatever else is in them.
	keepsDiagnostics = regexp.MustCompile(`(?:^|;)\s*(SET|USE|SAVEPOINT|RELEASE|ROLLBACK|COMMIT|BEGIN|START|DO|PREPARE|DEALLOCATE|XA|UNLOCK|ALTER DATABASE|CREATE FUNCTION|CREATE PROCEDURE|CALL|EXECUTE)\b|/\*[!M]`)
	severalRows      = regexp.MustCompile(`(?s)\b(INSERT|REPLACE)\b.*(SELECT|\),\s*\()|\bUPDATE\b|\bLOAD\b|\bCALL\b|\bEXECUTE\b`)
	changesRows      = regexp.MustCompile(`\b(UPDATE|DELETE|CALL|EXECUTE)\b`)
	looksUp          = regexp.MustCompile(`^\s*(SHOW|DESC|DESCRIBE)\b`)
	insertsRows      = regexp.MustCompile(`\b(INSERT|REPLACE|LOAD|CALL|EXECUTE)\b`)
	leavesGaps       = regexp.MustCompile(`(?s)\b(INSERT|REPLACE)\b.*(SELECT|IGNORE|DUPLICATE)|\b(CALL|EXECUTE|LOAD)\b`)
	isRollback       = regexp.MustCompile(`(^|;)\s*(XA )?ROLLBACK\b`)
	unsafe           = regexp.MustCompile(`\b(LOAD|SELECT|CALL|EXECUTE|LIMIT)\b|@`)
	preparesText     = regexp.MustCompile(`(?s)^(.*?)\bPREPARE\s+` + "`?(\\w+)`?" + `\s+FROM\s+(.*)$`)
	executesText     = regexp.MustCompile(`\bEXECUTE\s+` + "`?(\\w+)`?")
	assignsText      = regexp.MustCompile(`(?s)^SET @V = '(.*)'$`)
	mayHaveSubquery  = regexp.MustCompile(`\(SELECT\b|\bCALL\b|\b(COUNT|SUM)\(`)
	setsFoundRows    = regexp.MustCompile(`^\s*(EXECUTE \S+ )?SELECT\b`)
	chains           = regexp.MustCompile(`^\s*(COMMIT|ROLLBACK)\b.*\bAND\s+CHAIN\b|\b(CALL|EXECUTE)\b`)
	oneShotRead      = regexp.MustCompile(`SET TRANSACTION.*READ ONLY|@@TRANSACTION_READ_ONLY|@@TX_READ_ONLY|CALL|EXECUTE`)
)

// finish takes over what the step has changed.
func (s *side) finish(direct, proxied *Exchange) {
	reads := readsDiagnostics.MatchString(s.text)
	switch {
	case reads:
		differs := s.warned || s.mayBeWiped() || s.mixed || s.prepared && strings.Contains(s.text, "ROW_COUNT")
		s.copied = s.copied || differs && copiesDiagnostics.MatchString(s.text)
	case direct.Step.Verb == fieldList && !s.mariadb:
		s.kept = true
	case s.text == "":
	case s.mariadb && (keepsDiagnostics.MatchString(s.text) || !readsTables.MatchString(s.text)):
		s.kept = true
	default:
		s.kept, s.warned, s.counted = false, false, false
	}
	d, p := warnings(direct), warnings(proxied)
	if d != p && !reads {
		s.warned = true
	}
	if affected(direct) != affected(proxied) {
		s.counted = true
	}
	failed := direct.Reply.Err() != nil || proxied.Reply.Err() != nil
	if failed && direct.Step.Verb == prepare {
		name, _, _ := strings.Cut(direct.Step.Text, " ")
		s.texts[name] = s.replaced
	}
	s.pending = (s.pending || executesText.MatchString(s.text) || executesHandle(direct.Step)) && direct.Reply.Err() != nil && !s.mariadb
	s.mixed = s.mixed && reads || failed && !s.mariadb && writes.MatchString(s.text)
	s.prepared = direct.Step.Verb == prepare || direct.Step.Verb == fieldList || s.prepared && s.text == "" ||
		s.mariadb && failed && looksUp.MatchString(s.text)
	s.statistics = s.statistics || s.mariadb && makesInnoDB(s.text)
	if isRollback.MatchString(s.text) && (d > 0 || p > 0) {
		s.rolledBack = true
	}
	if failed && severalRows.MatchString(s.text) || d != p && severalRows.MatchString(s.text) {
		s.partial = true
	}
	s.generates = s.generates || strings.Contains(s.text, "AUTO_INCREMENT")
	if s.generates && (failed && insertsRows.MatchString(s.text) || leavesGaps.MatchString(s.text)) {
		s.gaps = true
	}
	switch {
	case mayHaveSubquery.MatchString(s.text):
		s.subquery = true
	case !failed && setsFoundRows.MatchString(s.text):
		s.subquery = false
	}
	s.changed = !(!failed && setsFoundRows.MatchString(s.text)) && (s.changed || changesRows.MatchString(s.text))
	s.unsafe = s.unsafe || unsafe.MatchString(s.text)
	s.readOnce = s.readOnce || oneShotRead.MatchString(s.text)
	if status, ok := direct.Reply.Status(); ok {
		s.direct = status
	}
	if status, ok := proxied.Reply.Status(); ok {
		s.proxied = status
	}
}

// makesInnoDB tells whether a statement may make a temporary InnoDB table.
func makesInnoDB(text string) bool {
	return createsTemporary.MatchString(text) && !otherEngine.MatchString(text) || runsText.MatchString(text)
}

var (
	createsTemporary = regexp.MustCompile(`\bCREATE\b.*\bTEMPORARY\b`)
	otherEngine      = regexp.MustCompile(`\b(MEMORY|HEAP|MYISAM|ARIA)\b`)
)

// last is the OK that ends an event's reply, or an empty one.
func last(e *Exchange) rawclient.OK {
	if n := len(e.Reply.Results); n > 0 && e.Reply.Results[n-1].End != nil {
		return *e.Reply.Results[n-1].End
	}
	return rawclient.OK{}
}

func warnings(e *Exchange) uint16 { return last(e).Warnings }
func affected(e *Exchange) uint64 { return last(e).AffectedRows }
