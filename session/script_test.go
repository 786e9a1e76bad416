package session

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"tmpproxy/rewrite"
)

// command is one thing that happens in a script: a command of the client, or of the world around it.
type command struct {
	kind   string // query, ping, initdb, user, reset, prepare, execute, close, fields, other, unknown; other session, advance, policy
	text   string
	handle uint32
	now    time.Duration // advance
	after  after
	fault  fault // what becomes of the first statement of ours in this command or behind it
}

// after says what becomes of the statements that are to be sent in the background behind a command.
type after uint8

const (
	runBackground  after = iota // they are sent and answered
	noBackground                // the next command is there before them
	leaveOut                    // one is sent, its answer comes only after the next command
	leaveSecondOut              // one is sent and answered, the second as above
)

// fault is how a statement of ours fails.
type fault uint8

const (
	noFault     fault = iota
	faultBefore       // ERR, nothing was done
	faultAfter        // ERR, but it was done
	faultKilled       // ERR 1317, nothing was done
)

func (c command) String() string {
	s := c.kind
	switch c.kind {
	case "query", "prepare", "initdb", "user", "fields", "other session", "policy":
		s += " " + c.text
	case "execute", "close":
		s += fmt.Sprint(" ", c.handle)
	case "advance":
		s += fmt.Sprint(" ", c.now)
	}
	if c.after != runBackground {
		s += fmt.Sprintf("   -- background: %s", [...]string{"", "later", "out", "second out"}[c.after])
	}
	if c.fault != noFault {
		s += fmt.Sprintf("   -- fault %d", c.fault)
	}
	return s
}

// setup is what a script starts with.
type setup struct {
	mariadb, lists, binlog, foldsCase bool
	strategy                          Strategy
	strict                            bool
	seen                              bool // the process knows the names
	scan                              bool // routines: scan, and no body mentions a managed name
	maxParked                         int
	deletes                           bool   // InnoDB tables are emptied by DELETE
	like                              bool   // tables made by LIKE are cached
	trigger                           string // drop or merge: then nothing but P3 and P4 is looked at
	commands                          []command
}

func (s setup) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mariadb=%v lists=%v binlog=%v foldsCase=%v strategy=%d strict=%v seen=%v scan=%v parked=%d deletes=%v like=%v trigger=%s\n",
		s.mariadb, s.lists, s.binlog, s.foldsCase, s.strategy, s.strict, s.seen, s.scan, s.maxParked, s.deletes, s.like, s.trigger)
	for _, c := range s.commands {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	return b.String()
}

// world runs a script twice: directly on one server, and through a machine on another that began the same.
type world struct {
	setup
	m       *Machine
	l       *memory
	policy  *Policy
	proxied *server
	direct  *server
	now     int64

	// of the command in progress
	command   command
	event     Event
	held      reply
	last      reply // of the last statement of ours
	faulty    bool  // last is a fault
	fault     fault
	visible   reply
	skipped   bool // the command did not reach the server because of a fault
	converted bool // rows of converted tables were written in the open transaction
	stop      bool // a listed difference is about to show
	settled   bool // a settle preceded it
	committed bool // and a COMMIT
	out       *reply
	trace     []string
	tracing   bool
}

// stats count what scripts have come to.
type stats struct {
	commands, replies, injects, releases, waits, faults, stopped int
	notes                                                        [NoteEnd + 1]int
}

func newWorld(s setup, tracing bool) *world {
	convert, _ := rewrite.ParseEngineSet([]string{"MEMORY", "MyISAM"})
	w := &world{setup: s, l: newMemory(), now: int64(time.Hour), tracing: tracing}
	w.policy = &Policy{
		Strategy: s.strategy, Convert: convert, Strict: s.strict, MaxStatement: 1 << 16, MaxParked: s.maxParked,
		ParkTTL: int64(10 * time.Minute), MaxAge: int64(time.Hour),
	}
	w.policy.Deletes, w.l.delete = s.deletes, s.deletes
	w.policy.Measure = true // which changes nothing
	w.policy.CacheLike = s.like
	if s.scan {
		w.policy.Routines = RoutinesScan
		w.l.known = true
		for _, t := range []string{"t1", "T1", "t2"} {
			w.l.name(Key{"d1", t}).Routine = true
			w.l.name(Key{"d2", t}).Routine = true
		}
	}
	if s.seen {
		for _, schema := range []string{"d1", "d2"} {
			for _, t := range []string{"t1", "t2", "t3", "t4", "T1"} {
				w.l.name(Key{schema, t}).Seen = true
			}
		}
	}
	for _, srv := range []**server{&w.proxied, &w.direct} {
		x := newServer()
		x.mariadb, x.lists, x.opensTrans, x.foldsCase, x.trigger = s.mariadb, s.lists, !s.mariadb || s.binlog, s.foldsCase, s.trigger
		*srv = x
	}
	version := 90704
	if s.mariadb {
		version = 101119
		if s.lists {
			version = 110800
		}
	}
	w.m = New(Options{
		Server: Server{MariaDB: s.mariadb, Version: version}, Schema: "d1", Collation: 45, Status: statusAutocommit, Ledger: w.l,
	})
	return w
}

// run returns what was wrong, or "".
func (w *world) run(st *stats) string {
	defer func() {
		for i, n := range w.l.counts {
			st.notes[i] += n
		}
	}()
	for i, c := range w.commands {
		w.now += int64(time.Millisecond)
		w.command, w.fault = c, c.fault
		if bad := w.do(c, st); bad != "" {
			return fmt.Sprintf("command %d (%s): %s", i, c, bad)
		}
		if w.stop {
			st.stopped++
			return ""
		}
		if bad := w.compare(); bad != "" {
			return fmt.Sprintf("after command %d (%s): %s", i, c, bad)
		}
		if bad := w.background(c.after, st); bad != "" {
			return fmt.Sprintf("background after command %d (%s): %s", i, c, bad)
		}
		if bad := w.compare(); bad != "" {
			return fmt.Sprintf("after the background of command %d (%s): %s", i, c, bad)
		}
	}
	return ""
}

func (w *world) log(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf(format, args...))
	}
}

func (w *world) do(c command, st *stats) string {
	st.commands++
	switch c.kind {
	case "advance":
		w.now += int64(c.now)
		return ""
	case "policy":
		p := *w.policy
		p.Strategy = map[string]Strategy{"native": StrategyNative, "keep": StrategyKeep, "innodb": StrategyInnoDB}[c.text]
		if w.strategy == StrategyKeep && p.Strategy == StrategyInnoDB {
			p.Strategy = StrategyKeep // such scripts are to be exact
		}
		w.policy = &p
		return ""
	case "other session":
		for _, s := range []*server{w.proxied, w.direct} {
			otherSession(s, c.text)
		}
		return ""
	}
	if w.skip(c) {
		return ""
	}
	w.log("> %s", c)
	counted := w.m.rowCounted
	bad := w.client(c, st)
	if bad != "" || w.stop {
		return bad
	}
	if d := w.direct; w.committed && (len(d.savepoints) > 0 || d.mixed) {
		w.stop = true // the COMMIT behind a settle has ended more than the transaction that the settle opened
		return ""
	}
	if w.skipped {
		// To the client it is as if its own command had failed.
		w.direct.warnings, w.direct.rowCount = w.proxied.warnings, w.proxied.rowCount
		return ""
	}
	want := execute(w.direct, c)
	if w.trigger != "" {
		return ""
	}
	if (w.settled || c.fault != noFault && w.fault == noFault) && !w.clears(c) {
		// The settle, or the failure, has wiped diagnostics that the command left alone: they cannot be restored.
		w.direct.warnings, w.direct.rowCount = w.diagnostics()
	}
	if c.kind == "fields" && counted {
		w.direct.rowCount = w.proxied.rowCount // that of the statement that restored the list: a listed difference
	}
	if w.settled && strings.Contains(w.text(c), "p_read") {
		return "" // the same inside a CALL: a listed difference
	}
	if want.kind == OutcomeErr && w.strategy == StrategyInnoDB {
		// A failing statement of several rows leaves rows in MEMORY, none in InnoDB: a listed difference.
		for k, r := range w.direct.temps() {
			if q := w.proxied.temps()[k]; q != nil && q.engine != r.engine {
				q.rows = slices.Clone(r.rows)
			}
		}
	}
	if got := w.visible; !w.same(got, want) {
		return fmt.Sprintf("the client sees %s, directly %s", got, want)
	}
	return ""
}

// clears says whether a command resets the diagnostics.
func (w *world) clears(c command) bool {
	if c.kind != "query" && c.kind != "execute" {
		return false
	}
	for _, st := range parse(w.text(c)) {
		if st.op == opShowWarnings || w.mariadb && !st.tables {
			return false
		}
	}
	return true
}

// otherSession runs DDL of permanent tables in a session of its own.
func otherSession(s *server, text string) {
	for _, st := range parse(text) {
		k := Key{st.names[0].schema, st.names[0].table}
		switch st.op {
		case opCreateTable:
			if s.permanent[k] == nil && !s.views[k] {
				s.permanent[k] = &relation{engine: "InnoDB", define: "foreign", rows: []int{81, 82}}
			}
		case opCreateView:
			if s.permanent[k] == nil {
				s.views[k] = true
			}
		case opDropTable:
			delete(s.permanent, k)
		case opDropView:
			delete(s.views, k)
		}
	}
}

// execute runs a client's command on a server.
func execute(s *server, c command) reply {
	switch c.kind {
	case "query":
		return s.query(c.text)
	case "prepare":
		return s.prepare(c.text)
	case "execute":
		return s.execute(c.handle)
	case "close":
		delete(s.handles, c.handle)
		return reply{kind: OutcomeNone}
	case "initdb":
		return s.initDB(c.text)
	case "user":
		return s.changeUser(c.text)
	case "reset":
		return s.reset()
	case "fields":
		r, _ := s.resolve(name{"", c.text})
		if r == nil {
			s.warnings, s.rowCount = []string{"error 1146"}, -1
			return fail(1146)
		}
		return reply{kind: OutcomeSet, rows: r.define, status: s.flags()}
	}
	return reply{status: s.flags()} // ping, other, unknown
}

// same compares what two clients see, but for the listed differences.
func (w *world) same(a, b reply) bool {
	if a.kind != b.kind || a.code != b.code || a.rows != b.rows || a.handle != b.handle || a.warnings != b.warnings {
		return false
	}
	if a.kind == OutcomeOK && a.affected != b.affected {
		return false
	}
	mask := uint16(statusInTrans | statusAutocommit | statusInTransReadOnly)
	if !w.direct.autocommit {
		mask = statusAutocommit // IN_TRANS after DDL that was answered, or behind a COMMIT of ours
	}
	return a.status&mask == b.status&mask
}

// text returns the statements that a command runs.
func (w *world) text(c command) string {
	switch c.kind {
	case "query":
		return c.text
	case "execute":
		return w.direct.handles[c.handle].text
	}
	return ""
}

// runs returns the statements that a command runs, if need be by an EXECUTE.
func (w *world) runs(c command) string {
	text := w.text(c)
	if list := parse(text); len(list) == 1 && list[0].op == opExecute {
		return w.direct.texts[list[0].word].text
	}
	return text
}

// touchesConverted says whether a statement reads or writes rows of a table that is InnoDB only through the proxy.
func (w *world) touchesConverted(c command) (reads, writes bool) {
	list := parse(w.text(c))
	for _, st := range list {
		if st.op == opExecute {
			list = append(slices.Clone(list), parse(w.direct.texts[st.word].text)...)
		}
	}
	for _, st := range list {
		var names []name
		switch st.op {
		case opSelect, opInsert, opReplace, opUpdate, opDelete:
			names = st.names
		case opCreateTemporary:
			if st.source != nil {
				names = []name{*st.source}
			}
		case opFunction, opCall:
			names = []name{{"d1", "t1"}}
		}
		for _, n := range names {
			k := w.direct.key(n)
			d, p := w.direct.temps()[k], w.proxied.temps()[k]
			if d != nil && p != nil && d.engine != p.engine {
				reads = true
				writes = writes || st.op != opSelect && st.op != opCreateTemporary
			}
		}
	}
	return reads, writes
}

// skip says whether a command is left out because it would show a listed difference, and keeps track of what will.
func (w *world) skip(c command) bool {
	d, p := w.direct, w.proxied
	list := parse(w.text(c))
	for _, st := range list {
		differs := d.inTrans != p.inTrans || d.inTrans && (w.m.mustCommit || w.m.background.out) // a COMMIT of ours may be on its way
		if (differs || !d.autocommit && (!w.m.known || d.oneShot)) && (st.op == opXA || st.op == opSet || st.op == opCall || st.op == opExecute) {
			return true // with autocommit off: SET TRANSACTION and XA fail or not, behind a settle that no COMMIT may follow
		}
	}
	if w.strategy != StrategyInnoDB {
		return false
	}
	reads, writes := w.touchesConverted(c)
	if reads && (d.oneShot || d.oneRead || c.kind == "execute") {
		return true // an access to InnoDB consumes it
	}
	for _, st := range list {
		if w.converted && (st.op == opRollback || st.op == opRollbackTo || st.op == opXA) {
			return true
		}
		if st.op == opCreateTemporary && (d.oneShot || len(list) > 1) {
			return true
		}
		if st.op == opSet && !d.autocommit && len(st.sets) > 0 && st.sets[0].key == "autocommit" && w.converted {
			return true
		}
	}
	if writes && (d.explicit || !d.autocommit || len(list) > 1) {
		w.converted = true
	}
	return false
}

func (w *world) buildEvent(c command) Event {
	kinds := map[string]EventKind{
		"query": EventQuery, "ping": EventQuiet, "initdb": EventInitDB, "user": EventChangeUser, "reset": EventReset,
		"prepare": EventPrepare, "execute": EventExecute, "close": EventCloseHandle, "fields": EventFieldList, "other": EventOther,
		"unknown": EventUnknown,
	}
	ev := Event{Kind: kinds[c.kind], Whole: true, Handle: c.handle, Now: w.now, Policy: w.policy}
	switch c.kind {
	case "query", "prepare", "initdb", "user", "fields":
		ev.Text = []byte(c.text)
	}
	if c.kind == "query" || c.kind == "prepare" {
		a := w.analysis(c.text)
		ev.Statement, ev.Create = a.statement, a.create
	}
	return ev
}

type analysed struct {
	statement rewrite.Statement
	create    *rewrite.Create
}

var analyses [2]sync.Map // by text, for MySQL and MariaDB

func (w *world) analysis(text string) analysed {
	cache, mode, version := &analyses[0], rewrite.Mode(0), 90704
	if w.mariadb {
		cache, mode, version = &analyses[1], rewrite.MariaDB, 101119
	}
	if a, ok := cache.Load(text); ok {
		return a.(analysed)
	}
	a := analysed{statement: rewrite.Classify([]byte(text), mode)}
	if _, inner, ok := rewrite.ParsePrepare([]byte(text), mode); ok {
		a.create = w.analysis(string(inner)).create
	} else if a.statement.Verb == rewrite.VerbCreateTemporary && !a.statement.Multi {
		a.create = rewrite.Analyze([]byte(text), rewrite.Options{Mode: mode, Convert: w.policy.Convert, Version: version})
	}
	cache.Store(text, a)
	return a
}

// client runs a command of the client through the machine.
func (w *world) client(c command, st *stats) string {
	w.skipped, w.settled, w.committed = false, false, false
	ev := w.buildEvent(c)
	before := w.snapshot()
	step := w.m.Begin(&ev)
	if step.Kind == StepWait {
		st.waits++
		if w.out == nil {
			return "StepWait, but nothing is out"
		}
		if after := w.snapshot(); after != before {
			return fmt.Sprintf("StepWait has changed the state from %s to %s", before, after)
		}
		w.backgroundDone()
		ev = w.buildEvent(c)
		step = w.m.Begin(&ev)
	}
	clear(ev.Text) // it is valid only during Begin
	sent := false
	for range 100 {
		w.log("    %s", step)
		if w.out != nil && (step.Kind == StepForward || step.Kind == StepReplace || step.Kind == StepInject) {
			return "a statement was sent while a background statement is out: " + step.String()
		}
		switch step.Kind {
		case StepForward:
			if sent {
				return "the client's command was sent twice"
			}
			sent = true
			w.visible = w.clients(func() reply { return execute(w.proxied, c) })
			step = w.m.Next(w.visible.outcome(w.now))
		case StepReplace:
			if strings.Contains(step.SQL, "tmpproxy") {
				if bad := w.ours(step, c); bad != "" {
					return bad
				}
				w.held = w.last
			} else {
				w.faulty = false
				w.held = w.clients(func() reply { return w.proxied.query(step.SQL) })
			}
			step = w.m.Next(w.held.outcome(w.now))
		case StepInject:
			st.injects++
			w.settled = w.settled || step.Class == ClassSettle
			w.committed = w.committed || step.SQL == commitSQL
			if bad := w.ours(step, c); bad != "" {
				return bad
			}
			step = w.m.Next(w.last.outcome(w.now))
		case StepRelease:
			w.visible = w.held
			w.skipped = w.faulty && w.held.kind == OutcomeErr
			st.releases++
			return w.failure()
		case StepReply:
			st.replies++
			w.visible = reply{status: step.Status, warnings: int(step.Warnings)}
			return w.failure()
		case StepFail:
			if !w.faulty {
				return fmt.Sprintf("the client's command failed because of ours: %s", w.last)
			}
			st.faults++
			w.skipped = true
			return w.failure()
		case StepDone:
			return w.failure()
		default:
			return "unexpected step " + step.String()
		}
		if bad := w.failure(); bad != "" {
			return bad
		}
	}
	return "no end"
}

func (w *world) failure() string { return w.proxied.failure }

// clients runs a statement of the client's on the server behind the proxy, watching P2.
func (w *world) clients(run func() reply) reply {
	s := w.proxied
	s.resolved = func(k Key, r *relation, temporary bool) {
		if w.trigger != "" {
			return
		}
		for _, t := range w.m.tables {
			tk := t.key
			if w.foldsCase {
				tk.Name = strings.ToLower(tk.Name)
			}
			if t.state == stateParked && tk == k {
				s.failure = fmt.Sprintf("P2: a statement resolves %v, which is parked", k)
			}
		}
	}
	defer func() { s.resolved = nil }()
	return run()
}

// ours runs a statement of ours, watching P3 and P4.
func (w *world) ours(step Step, c command) string {
	s := w.proxied
	w.log("    ours: %s", step.SQL)
	f := w.fault
	w.fault = noFault
	if f == faultAfter && step.Class == ClassReplay {
		f = faultBefore // no server was seen to drop a table and say that it did not
	}
	w.faulty = f != noFault
	switch f {
	case faultBefore, faultKilled:
		w.last = fail(1205)
		if f == faultKilled {
			w.last = fail(1317)
		}
		s.warnings, s.rowCount = []string{fmt.Sprintf("error %d", w.last.code)}, -1
		return ""
	}
	if step.SQL == askSQL {
		step.SQL = "DO 0" // which leaves the model's variables alone
	}
	st := parse(step.SQL)[0]
	committing := st.op == opTruncate && step.Kind == StepReplace && strings.HasPrefix(w.runs(c), "DROP TABLE") // as the client's own
	type trans struct {
		commits          int
		inTrans, oneShot bool
		oneRead, locked  bool
	}
	look := func() trans { return trans{s.commits, s.inTrans, s.oneShot, s.oneRead, s.locked} }
	before := look()
	explicit, undo := s.explicit, len(s.undo)
	w.last = s.query(step.SQL)
	after := look()
	switch st.op {
	case opTruncate, opDelete:
		k := s.key(st.names[0])
		if r := s.temps()[k]; r == nil || r.engine == "MERGE" {
			return fmt.Sprintf("P4: TRUNCATE of ours would not empty the table %v that was made through us", k)
		}
	case opShowCreate, opShowCreateView, opDo:
	case opDropTable:
		if !st.temporary {
			return "ours: DROP without TEMPORARY"
		}
	case opCreateTemporary:
		if step.Class != ClassReplay {
			return "ours: CREATE"
		}
	case opCommit:
		if explicit || undo > 0 {
			return "P3: COMMIT of ours ends the client's transaction"
		}
		after = before
	default:
		return "ours: unexpected statement " + step.SQL
	}
	if !s.autocommit && s.opensTrans && (st.op == opDropTable || st.op == opCreateTemporary) || w.mariadb && st.op == opCreateTemporary {
		after.inTrans = before.inTrans // a COMMIT has to follow: compare looks
	}
	if before != after && !committing {
		return fmt.Sprintf("P3: ours (%s) changes the transaction from %+v to %+v", step.SQL, before, after)
	}
	if f == faultAfter {
		w.last = fail(1205)
		s.warnings, s.rowCount = []string{"error 1205"}, -1
	}
	return s.failure
}

// background sends what is to be sent behind a command.
func (w *world) background(a after, st *stats) string {
	if a == noBackground || w.out != nil {
		return ""
	}
	for i := 0; ; i++ {
		has := w.m.HasBackground()
		step, ok := w.m.Background(w.now, w.policy)
		if !ok {
			if w.m.HasBackground() {
				return "HasBackground says true, Background false"
			}
			return ""
		}
		if !has {
			return "HasBackground says false, Background true"
		}
		if i > 100 {
			return "the background does not end"
		}
		st.injects++
		w.log("    background: %s", step)
		if bad := w.ours(step, command{}); bad != "" {
			return bad
		}
		r := w.last
		w.out = &r
		if a == leaveOut || a == leaveSecondOut && i == 1 {
			return ""
		}
		w.backgroundDone()
	}
}

func (w *world) backgroundDone() {
	r := w.out
	w.out = nil
	w.log("    background done: %s", *r)
	owed := w.m.owed != owedNothing
	w.m.BackgroundDone(r.outcome(w.now))
	if w.faulty && owed && w.m.owed == owedNothing {
		// Killed, say. The table is left alone from now on, and nothing else could restore what was wiped.
		w.direct.warnings, w.direct.rowCount = w.diagnostics()
	}
}

// snapshot is all that a StepWait must not change.
func (w *world) snapshot() string {
	if w.out == nil {
		return ""
	}
	m := w.m
	s := fmt.Sprint(m.Tables(), m.owed, m.ctx, m.status, m.known, m.untouched, m.oneShot, m.readOnly(), m.locked, m.plain, m.native, w.l.counts)
	for _, t := range m.tables {
		s += fmt.Sprint(t.touched, t.named, t.settle, t.written)
	}
	return s
}

// compare compares what the client does not see at once: the client's world on both servers.
func (w *world) compare() string {
	d, p := w.direct, w.proxied
	if w.trigger != "" {
		return ""
	}
	if !w.converted || d.undo == nil && !d.explicit {
		w.converted = w.converted && (d.explicit || !d.autocommit)
	}
	if d.autocommit && d.inTrans != p.inTrans {
		return fmt.Sprintf("P3: in a transaction: %v, directly %v", p.inTrans, d.inTrans)
	}
	if d.oneShot != p.oneShot || d.oneRead != p.oneRead {
		return fmt.Sprintf("P3: one-shot pending: %v, directly %v", p.oneShot, d.oneShot)
	}
	if d.explicit != p.explicit || d.readTrans != p.readTrans || d.readSess != p.readSess || d.locked != p.locked || d.xa != p.xa {
		return "P3: the transaction is another one"
	}
	names := func(s *server) string {
		var list []string
		for _, sp := range s.savepoints {
			list = append(list, sp.name)
		}
		return strings.Join(list, ",")
	}
	if names(d) != names(p) {
		return fmt.Sprintf("P3: savepoints %s, directly %s", names(p), names(d))
	}
	if d.schema != p.schema || d.thread != p.thread || !maps.Equal(d.variables, p.variables) {
		return "the session's state differs"
	}
	for k, r := range d.permanent {
		q := p.permanent[k]
		if q == nil || !slices.Equal(r.rows, q.rows) {
			return fmt.Sprintf("P4: the permanent table %v differs", k)
		}
		a, inA := d.undo[r]
		b, inB := p.undo[q]
		if inA != inB || !slices.Equal(a, b) {
			return fmt.Sprintf("P3: what ROLLBACK would do to %v differs", k)
		}
	}
	if len(d.permanent) != len(p.permanent) || !maps.Equal(d.views, p.views) {
		return "P4: permanent tables differ"
	}
	if bad := w.compareTables(); bad != "" {
		return bad
	}
	return w.compareDiagnostics()
}

// compareTables compares the temporary tables that the client has.
func (w *world) compareTables() string {
	d, p := w.direct, w.proxied
	parked := map[Key]bool{}
	for _, t := range w.m.tables {
		k := t.key
		if w.foldsCase {
			k.Name = strings.ToLower(k.Name)
		}
		if t.state == stateParked {
			parked[k] = true
		}
		if t.state == stateParked && t.condition == clean && p.temps()[k] != nil && len(p.temps()[k].rows) > 0 {
			return fmt.Sprintf("%v is clean, but has rows", k)
		}
	}
	for k, r := range d.temps() {
		q := p.temps()[k]
		switch {
		case q == nil:
			return fmt.Sprintf("the client's table %v does not exist", k)
		case parked[k]:
			return fmt.Sprintf("the client's table %v is parked", k)
		case r.define != q.define:
			return fmt.Sprintf("the client's table %v is %q, directly %q", k, q.define, r.define)
		case d.rowsOf(r) != p.rowsOf(q):
			return fmt.Sprintf("the client's table %v has the rows %s, directly %s", k, p.rowsOf(q), d.rowsOf(r))
		case w.strategy != StrategyInnoDB && r.engine != q.engine:
			return fmt.Sprintf("the client's table %v is %s, directly %s", k, q.engine, r.engine)
		}
	}
	for k := range p.temps() {
		if d.temps()[k] == nil && !parked[k] {
			return fmt.Sprintf("the client has dropped %v, but sees it", k)
		}
	}
	return ""
}

// diagnostics is what SHOW WARNINGS and ROW_COUNT() would say through the machine.
func (w *world) diagnostics() (warnings []string, rowCount int) {
	warnings, rowCount = w.proxied.warnings, w.proxied.rowCount
	if w.m.owed == owedNothing {
		return warnings, rowCount
	}
	if !w.m.rowCounted {
		rowCount = 0
	}
	switch w.m.owed {
	case owedNote:
		return []string{"note 1051"}, rowCount
	case owedCreate:
		return []string{"warning 1681", "warning 9999"}[:w.m.owedTable.warnings], rowCount
	}
	return nil, rowCount
}

// compareDiagnostics compares what SHOW WARNINGS and ROW_COUNT() would say (P6).
func (w *world) compareDiagnostics() string {
	if w.out != nil {
		return ""
	}
	warnings, rowCount := w.diagnostics()
	if !slices.Equal(warnings, w.direct.warnings) || rowCount != w.direct.rowCount {
		return fmt.Sprintf("P6: warnings %q, ROW_COUNT() %d, directly %q, %d", warnings, rowCount, w.direct.warnings, w.direct.rowCount)
	}
	return ""
}

// generate makes a random script.
func generate(seed uint64) setup {
	r := rand.New(rand.NewPCG(seed, 0))
	s := setup{
		mariadb: r.IntN(2) == 0, lists: r.IntN(4) == 0, binlog: r.IntN(2) == 0, foldsCase: r.IntN(5) == 0,
		strategy: StrategyKeep, seen: r.IntN(4) > 0, scan: r.IntN(8) == 0, maxParked: 1 + r.IntN(3), strict: r.IntN(10) == 0,
	}
	s.lists = s.lists && s.mariadb
	s.deletes = r.IntN(5) == 0
	s.like = r.IntN(5) == 0
	if r.IntN(20) == 0 {
		s.trigger = []string{"drop", "merge"}[r.IntN(2)]
	}
	if r.IntN(3) == 0 {
		s.strategy = StrategyInnoDB
	}
	g := generator{r: r, table: "t1", shape: shapes[r.IntN(5)], noauto: r.IntN(4) == 0, wild: r.IntN(3)}
	if s.like && r.IntN(2) == 0 {
		g.shape = "LIKE base"
	}
	if g.noauto {
		s.commands = append(s.commands, command{kind: "query", text: "SET autocommit=0"})
	}
	for range 5 + r.IntN(40) {
		c := g.next()
		switch r.IntN(8) {
		case 0:
			c.after = noBackground
		case 1:
			c.after = leaveOut
		case 2:
			c.after = leaveSecondOut
		}
		if r.IntN(60) == 0 {
			c.fault = fault(1 + r.IntN(3))
		}
		s.commands = append(s.commands, c)
	}
	return s
}

// generator makes the commands of one script. Most are steps of the cycles of one table.
type generator struct {
	r      *rand.Rand
	table  string
	shape  string
	noauto bool
	wild   int // how much else happens
	step   int
}

var shapes = []string{
	"(a INT PRIMARY KEY) ENGINE=MEMORY", "(a INT) ENGINE=MEMORY", "(a INT PRIMARY KEY)", "(a INT) ENGINE=InnoDB",
	"(a INT(5)) ENGINE=MEMORY", "(a SMALLINT) ENGINE=MEMORY", "(a INT, b INT) ENGINE=MEMORY", "(a INT) ENGINE=MyISAM",
}

var names = []string{"t1", "t2", "t3", "d2.t1", "d1.t1", "T1", "`t1`"}

func (g *generator) pick(list ...string) string { return list[g.r.IntN(len(list))] }

func (g *generator) next() command {
	if g.r.IntN(100) < [...]int{85, 65, 40}[g.wild] {
		return command{kind: "query", text: g.cycle()}
	}
	if g.r.IntN(3) == 0 {
		g.table, g.shape = g.pick(names...), g.pick(shapes...)
	}
	if g.r.IntN(4) == 0 {
		return g.rare()
	}
	return command{kind: "query", text: g.statement()}
}

// cycle is the next statement of a cycle.
func (g *generator) cycle() string {
	t := g.table
	g.step++
	switch g.step % 6 {
	case 0:
		if g.noauto {
			return g.pick("COMMIT", "ROLLBACK", "COMMIT")
		}
		return g.pick("BEGIN", "COMMIT", "SELECT 1", "SELECT * FROM base")
	case 1:
		return "CREATE TEMPORARY TABLE " + g.pick("", "", "IF NOT EXISTS ") + t + " " + g.shape
	case 2:
		return "INSERT INTO " + t + " VALUES (1),(2)"
	case 3:
		return g.pick("SELECT * FROM "+t, "SHOW WARNINGS", "SELECT ROW_COUNT()", "INSERT INTO base VALUES (5)")
	case 4:
		return "DROP " + g.pick("TEMPORARY ", "TEMPORARY ", "") + "TABLE " + g.pick("", "IF EXISTS ") + t
	}
	return g.pick("COMMIT", "DROP TEMPORARY TABLE IF EXISTS "+t, "DROP TABLE IF EXISTS "+t, "SELECT 1", "SHOW WARNINGS", "ROLLBACK")
}

func (g *generator) statement() string {
	t, u := g.pick(names...), g.pick(names...)
	switch g.r.IntN(24) {
	case 0:
		return "CREATE TEMPORARY TABLE " + g.pick("", "IF NOT EXISTS ") + t + " " + g.pick(shapes...)
	case 1:
		return "DROP TEMPORARY TABLE " + g.pick("", "IF EXISTS ") + t + g.pick("", "", ", "+u)
	case 2:
		return "DROP TABLE " + g.pick("", "IF EXISTS ") + g.pick("t1", "t2", "T1", "d1.t1") + g.pick("", "", ", t2")
	case 3:
		return "SELECT * FROM " + t
	case 4:
		return g.pick("INSERT INTO ", "REPLACE INTO ") + t + " VALUES (" + g.pick("1", "7", "2000") + ")" + g.pick("", ",(8),(1)")
	case 5:
		return g.pick("UPDATE "+t+" SET a = a + 100", "DELETE FROM "+t, "TRUNCATE TABLE t1", "TRUNCATE TABLE d2.t1")
	case 6:
		return g.pick("BEGIN", "START TRANSACTION", "START TRANSACTION READ ONLY", "SAVEPOINT s1", "ROLLBACK TO s1")
	case 7:
		return g.pick("COMMIT", "ROLLBACK", "COMMIT AND CHAIN")
	case 8:
		return g.pick("SHOW WARNINGS", "SELECT ROW_COUNT()", "SELECT @@warning_count")
	case 9:
		return g.pick("SET TRANSACTION READ ONLY", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET @@transaction_isolation = 'SERIALIZABLE'",
			"SET SESSION TRANSACTION READ ONLY", "SET SESSION TRANSACTION READ WRITE")
	case 10:
		return g.pick("SET autocommit=0", "SET autocommit=1", "SET @x=1", "DO 0")
	case 11:
		return g.pick("SET sql_mode='X'", "SET sql_mode=''", "SET sql_mode=DEFAULT", "SET sql_notes=0", "SET sql_notes=1", "SET GLOBAL sql_mode='X'",
			"SET NAMES utf8mb4", "SET NAMES gbk", "SET default_tmp_storage_engine=MEMORY", "SET default_tmp_storage_engine=MERGE")
	case 12:
		return g.pick("USE d1", "USE d2", "USE d9")
	case 13:
		return g.pick("LOCK TABLES base WRITE", "UNLOCK TABLES", "LOCK TABLES nothing WRITE", "LOCK TABLES t1 WRITE", "FLUSH TABLES")
	case 14:
		return g.pick("INSERT INTO base VALUES (6)", "SELECT * FROM base", "SELECT 1", "DELETE FROM base")
	case 15:
		return g.pick("SHOW CREATE TABLE ", "SELECT * FROM ") + t
	case 16:
		return "DROP TEMPORARY TABLE IF EXISTS " + t
	case 17:
		return g.pick("SHOW TABLES", "FOO BAR", "SELECT 1; SELECT * FROM t1", "INSERT INTO t1 VALUES (3); COMMIT",
			"SET sql_mode='X'; SELECT 1", "DROP TEMPORARY TABLE t1; SELECT 1", "USE d2; SELECT 1", "SELECT * FROM t1; DROP TEMPORARY TABLE t1",
			"SET TRANSACTION READ ONLY; SELECT 1", "BEGIN; INSERT INTO t1 VALUES (4)")
	}
	return g.cycle()
}

// rare is something that ends the fiction, or may.
func (g *generator) rare() command {
	q := func(text string) command { return command{kind: "query", text: text} }
	t := g.pick(names...)
	switch g.r.IntN(16) {
	case 0:
		return q("CALL " + g.pick("p_drop()", "p_make()", "p_merge()", "p_swap()", "p_perm()", "p_notes()", "p_mode()", "p_shot()", "p_begin()", "p_read()"))
	case 1:
		return q("SELECT " + g.pick("f_write()", "f_drop()"))
	case 2:
		return q(g.pick("PREPARE p FROM 'DROP TEMPORARY TABLE t1'", "PREPARE p FROM 'SELECT * FROM t1'", "EXECUTE p", "EXECUTE p",
			"PREPARE p FROM 'SET TRANSACTION READ ONLY'", "PREPARE p FROM 'CALL p_make()'", "EXECUTE q", "EXECUTE q",
			"PREPARE q FROM 'CREATE TEMPORARY TABLE t1 (a INT) ENGINE=MEMORY'", "PREPARE q FROM 'DROP TABLE IF EXISTS t1'"))
	case 3:
		return q(g.pick("ALTER TABLE ", "ALTER TABLE ") + t + g.pick(" ADD c INT", " RENAME TO t4", " UNION=(base)"))
	case 4:
		return q(g.pick("RENAME TABLE t1 TO t4", "RENAME TABLE t3 TO t1", "CREATE TABLE t1 (a INT)", "CREATE TABLE IF NOT EXISTS t2 (a INT)"))
	case 5:
		return q(g.pick("CREATE VIEW t1 AS SELECT 1", "DROP VIEW t1", "CREATE TEMPORARY TABLE t4 LIKE t1",
			"CREATE TEMPORARY TABLE t4 AS SELECT * FROM t1", "CREATE TEMPORARY TABLE t1 (a INT) ENGINE=MERGE UNION=(base)"))
	case 6:
		return q(g.pick("DROP DATABASE d2", "CREATE DATABASE d2", "ALTER DATABASE d1 CHARACTER SET latin1", "ALTER DATABASE d1 CHARACTER SET utf8mb4"))
	case 7:
		return q(g.pick("SET pseudo_thread_id=1", "SET SESSION sql_mode='X', sql_notes=0", "XA START 'x'", "XA END 'x'", "XA ROLLBACK 'x'"))
	case 8:
		return command{kind: "reset"}
	case 9:
		return command{kind: "user", text: g.pick("d1", "d2", "no")}
	case 10:
		return command{kind: "initdb", text: g.pick("d1", "d2", "d9")}
	case 11:
		return command{kind: "prepare", text: g.pick("SELECT * FROM t1", "INSERT INTO t1 VALUES (9)", "DROP TEMPORARY TABLE t1", "COMMIT",
			"CREATE TEMPORARY TABLE t1 (a INT) ENGINE=MEMORY", "CALL p_drop()", "DROP TEMPORARY TABLE IF EXISTS t1", "SET sql_mode='X'", "BEGIN")}
	case 12:
		return command{kind: g.pick("execute", "execute", "execute", "close"), handle: uint32(1 + g.r.IntN(4))}
	case 13:
		return command{kind: g.pick("ping", "ping", "other", "unknown", "fields"), text: "t1"}
	case 14:
		switch g.r.IntN(3) {
		case 0:
			return command{kind: "advance", now: time.Duration(g.r.IntN(40)) * time.Minute}
		case 1:
			return command{kind: "policy", text: g.pick("native", "keep", "innodb")}
		}
		return command{kind: "advance", now: time.Duration(g.r.IntN(10)) * time.Second}
	}
	return command{kind: "other session", text: g.pick("CREATE TABLE d1.t1 (a INT)", "DROP TABLE d1.t1", "CREATE TABLE d1.t2 (a INT)",
		"CREATE VIEW d1.t1 AS SELECT 1", "DROP VIEW d1.t1", "CREATE TABLE d2.t1 (a INT)")}
}

// shrink returns a shorter script that goes wrong as well.
func shrink(s setup, wrong func(setup) bool) setup {
	for again := true; again; {
		again = false
		try := func(t setup) {
			if wrong(t) {
				s, again = t, true
			}
		}
		for n := max(len(s.commands)/2, 1); n > 0; n /= 2 {
			for i := 0; i+n <= len(s.commands); i++ {
				t := s
				t.commands = slices.Delete(slices.Clone(s.commands), i, i+n)
				try(t)
			}
		}
		for i := range s.commands {
			for _, simplify := range []func(*command){
				func(c *command) { c.after = runBackground },
				func(c *command) { c.fault = noFault },
			} {
				t := s
				t.commands = slices.Clone(s.commands)
				simplify(&t.commands[i])
				if t.commands[i] != s.commands[i] {
					try(t)
				}
			}
		}
	}
	return s
}
