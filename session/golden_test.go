package session

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tmpproxy/rewrite"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt with what the machine does")

// TestGolden runs the scripts of testdata. A file is a list of blocks; a block is commands, a line "----", what they print,
// and an empty line. A command prints at most what its last line below says; "#" begins a comment.
//
//	session [exposed] [mariadb] [version=N] [schema=S] [noauto] [collation=N] POLICY..   a new session; exposed: something that
//	                                     cannot be seen runs behind every command
//	policy POLICY..                      a reload: keep, native, innodb, auto, strict, preserve, deletes, like, select, routines=visible|scan|none, parked=N,
//	                                     measure, unmeasured, ttl=D, age=D, hazard=native, statement=N
//	seen T, routine T, proved, routines  what the ledger knows: of a table db.t, of all shapes, that there are routines
//	query SQL, long SQL, prepare SQL, execute N, close N, initdb S, fields T, ping, setoption, other, unknown, raw, reset, user S [collation=N], quit
//	                                     a command of the client; prints the first step
//	ok [trans] [ro] [noescapes] [noauto|auto] [warnings=N] [rows=N] [handle=N] [tracked] [results=N], set [..] [shows=own|merge|nothing|permanent], err N, none
//	                                     the outcome of what was sent last, SHOW CREATE TABLE shows a definition; prints the
//	                                     next step, but not "done"
//	background                           prints what is sent in the background, and takes its outcome next
//	advance D                            lets time pass; answering D: what the machine answers itself takes so long from here on
//	exposed, calm                        from here on something that cannot be seen runs behind every command, or not
//	choose native|keep|innodb            what the ledger chooses from here on
//	state                                prints the tables; notes: prints what the ledger was told
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runGolden(t, file) })
	}
}

func runGolden(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	g := &golden{t: t}
	for i, block := range strings.Split(strings.TrimRight(string(text), "\n"), "\n\n") {
		if isComment(block) {
			out = append(out, block)
			continue
		}
		script, want, found := strings.Cut(block, "\n----")
		if !found && !*update {
			t.Fatalf("block %d has no ----:\n%s", i, block)
		}
		want = strings.TrimPrefix(want, "\n")
		var got []string
		for _, line := range strings.Split(script, "\n") {
			if line != "" && !strings.HasPrefix(line, "#") {
				got = append(got, g.command(line)...)
			}
		}
		g.checkEnd()
		result := strings.Join(got, "\n")
		if result != want && !*update {
			t.Errorf("%s: block\n%s\n---- got\n%s\n---- want\n%s", file, script, result, want)
		}
		b := script + "\n----"
		if result != "" {
			b += "\n" + result
		}
		out = append(out, b)
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func isComment(block string) bool {
	for _, line := range strings.Split(block, "\n") {
		if !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

type golden struct {
	t       *testing.T
	m       *Machine
	l       *memory
	policy  *Policy
	mariadb bool
	now     int64
	auto    bool
	exposed bool
	out     bool // a background statement is out
	open    bool // an outcome is awaited
	event   Event
	waiting bool // the event is to be begun again
}

func (g *golden) checkEnd() {
	if g.open {
		g.t.Fatal("a block ends while an outcome is awaited")
	}
}

func (g *golden) command(line string) []string {
	g.now += int64(time.Millisecond)
	word, rest, _ := strings.Cut(line, " ")
	args := strings.Fields(rest)
	switch word {
	case "session":
		g.session(args)
	case "policy":
		p := *g.policy
		g.policy = &p
		g.configure(args)
	case "seen":
		g.l.name(key(rest)).Seen = true
	case "routine":
		g.l.name(key(rest)).Routine = true
		g.l.known, g.l.any = true, true
	case "routines":
		g.l.any = true
	case "scanned":
		g.l.known = true
	case "choose":
		g.l.arm = map[string]Strategy{"native": StrategyNative, "keep": StrategyKeep, "innodb": StrategyInnoDB}[rest]
	case "exposed", "calm":
		g.exposed = word == "exposed"
	case "advance":
		d, err := time.ParseDuration(rest)
		if err != nil {
			g.t.Fatal(err)
		}
		g.now += int64(d)
	case "answering":
		d, err := time.ParseDuration(rest)
		if err != nil {
			g.t.Fatal(err)
		}
		g.l.answering = int64(d)
	case "state":
		return g.state()
	case "notes":
		var list []string
		for _, n := range g.l.notes {
			list = append(list, n.String())
		}
		g.l.notes = nil
		return list
	case "background":
		s, ok := g.m.Background(g.now, g.policy)
		if !ok {
			if g.m.HasBackground() {
				g.t.Error("HasBackground says true, Background false")
			}
			return []string{"nothing"}
		}
		g.out, g.open = true, true
		return []string{s.String()}
	case "ok", "set", "err", "none":
		return g.outcome(word, args)
	default:
		return g.begin(word, rest)
	}
	return nil
}

func key(name string) Key {
	schema, table, _ := strings.Cut(name, ".")
	return Key{schema, table}
}

func (g *golden) session(args []string) {
	convert, _ := rewrite.ParseEngineSet([]string{"MEMORY", "MyISAM"})
	g.policy = &Policy{Strategy: StrategyInnoDB, Convert: convert, MaxStatement: 1 << 16, MaxParked: 8, ParkTTL: int64(time.Hour), MaxAge: int64(24 * time.Hour)}
	g.l = newMemory()
	g.l.record = true
	g.auto, g.mariadb, g.out, g.open, g.exposed = true, false, false, false, false
	g.now = int64(time.Minute)
	o := Options{Server: Server{Version: 90704}, Schema: "db", Collation: 45, Status: statusAutocommit, Ledger: g.l}
	rest := args[:0]
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "mariadb":
			o.Server = Server{MariaDB: true, Version: 101119}
			g.mariadb = true
		case "version":
			o.Server.Version = number(g.t, v)
		case "schema":
			o.Schema = v
		case "noauto":
			o.Status, g.auto = 0, false
		case "exposed":
			g.exposed = true
		case "collation":
			o.Collation = uint16(number(g.t, v))
		default:
			rest = append(rest, a)
		}
	}
	g.configure(rest)
	g.m = New(o)
}

func (g *golden) configure(args []string) {
	p := g.policy
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "keep":
			p.Strategy = StrategyKeep
		case "native":
			p.Strategy = StrategyNative
		case "innodb":
			p.Strategy = StrategyInnoDB
		case "auto":
			p.Strategy, p.Measure = StrategyAuto, true
		case "measure":
			p.Measure = true
		case "unmeasured":
			p.Measure = false
		case "strict":
			p.Strict = true
		case "preserve":
			p.Preserve = true
		case "deletes":
			p.Deletes = true
			g.l.delete = true
		case "like":
			p.CacheLike = true
		case "select":
			p.ConvertSelect = true
		case "parked":
			p.MaxParked = number(g.t, v)
		case "hazard":
			p.OnHazard = HazardNative
		case "routines":
			p.Routines = map[string]Routines{"visible": RoutinesVisible, "scan": RoutinesScan, "none": RoutinesNone}[v]
		case "ttl", "age":
			d, err := time.ParseDuration(v)
			if err != nil {
				g.t.Fatal(err)
			}
			if k == "ttl" {
				p.ParkTTL = int64(d)
			} else {
				p.MaxAge = int64(d)
			}
		default:
			g.t.Fatalf("unknown setting %q", a)
		}
	}
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (g *golden) mode() rewrite.Mode {
	if g.mariadb {
		return rewrite.MariaDB
	}
	return 0
}

func (g *golden) begin(word, rest string) []string {
	if g.open && !g.out {
		g.t.Fatalf("%s %s: an outcome is awaited", word, rest)
	}
	ev := Event{Whole: true, Now: g.now, Policy: g.policy}
	switch word {
	case "query", "long":
		ev.Kind, ev.Text, ev.Whole = EventQuery, []byte(rest), word == "query"
		ev.Statement = rewrite.Classify(ev.Text, g.mode())
		ev.Create = g.analyse(ev.Text, &ev)
		if _, inner, ok := rewrite.ParsePrepare(ev.Text, g.mode()); ok {
			ev.Create = g.analyse(inner, &ev)
		}
	case "prepare":
		ev.Kind, ev.Text = EventPrepare, []byte(rest)
		ev.Statement = rewrite.Classify(ev.Text, g.mode())
		ev.Create = g.analyse(ev.Text, &ev)
	case "execute", "close":
		ev.Kind, ev.Handle = EventExecute, uint32(number(g.t, rest))
		if word == "close" {
			ev.Kind = EventCloseHandle
		}
	case "initdb", "user", "fields":
		ev.Kind = map[string]EventKind{"initdb": EventInitDB, "user": EventChangeUser, "fields": EventFieldList}[word]
		name, collation, _ := strings.Cut(rest, " collation=")
		if ev.Text = []byte(name); collation != "" {
			ev.Collation = uint16(number(g.t, collation))
		}
	default:
		kinds := map[string]EventKind{
			"ping": EventQuiet, "setoption": EventSetOption, "other": EventOther, "unknown": EventUnknown, "raw": EventRaw, "reset": EventReset, "quit": EventQuit,
		}
		k, ok := kinds[word]
		if !ok {
			g.t.Fatalf("unknown command %q", word)
		}
		ev.Kind = k
	}
	g.event = ev
	for _, t := range g.m.tables {
		t.exposed = t.exposed || g.exposed
	}
	return g.step(g.m.Begin(&ev))
}

// analyse is what the caller does of a text before it asks the machine.
func (g *golden) analyse(text []byte, ev *Event) *rewrite.Create {
	if s := rewrite.Classify(text, g.mode()); s.Verb != rewrite.VerbCreateTemporary || s.Multi || !ev.Whole {
		return nil
	}
	return rewrite.Analyze(text, rewrite.Options{Mode: g.mode(), Convert: g.policy.Convert, ConvertSelect: g.policy.ConvertSelect, Version: g.m.server.Version})
}

// step notes what a step asks for.
func (g *golden) step(s Step) []string {
	g.waiting = s.Kind == StepWait
	if !g.out {
		switch s.Kind {
		case StepForward, StepReplace, StepInject:
			g.open = true
		default:
			g.open = false
		}
	}
	if s.Kind == StepDone {
		return nil
	}
	return []string{s.String()}
}

func (g *golden) outcome(word string, args []string) []string {
	if !g.open {
		g.t.Fatalf("%s: nothing was sent", word)
	}
	o := Outcome{Now: g.now}
	switch word {
	case "set":
		o.Kind = OutcomeSet
	case "err":
		o.Kind, o.Code = OutcomeErr, uint16(number(g.t, args[0]))
		args = nil
	case "none":
		o.Kind = OutcomeNone
	}
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "trans":
			o.Status |= statusInTrans
		case "ro":
			o.Status |= statusInTransReadOnly
		case "noescapes":
			o.Status |= statusNoBackslashEscapes
		case "auto", "noauto":
			g.auto = k == "auto"
		case "warnings":
			o.Warnings = uint16(number(g.t, v))
		case "rows":
			o.Affected = uint64(number(g.t, v))
		case "handle":
			o.Handle = uint32(number(g.t, v))
		case "results":
			o.Results = number(g.t, v)
		case "tracked":
			o.StateTracked = true
		case "shows":
			o.Definition = rewrite.Definition(map[string]string{
				"own": "CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=MEMORY", "merge": "CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=MRG_MyISAM",
				"nothing":   "CREATE TEMPORARY TABLE `t` (\n  `a` int\n)",
				"permanent": "CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB",
				"source":    "CREATE TABLE `b` (\n  `a` int\n) ENGINE=MEMORY AUTO_INCREMENT=7",
				"altered":   "CREATE TABLE `b` (\n  `a` int,\n  `c` int\n) ENGINE=MEMORY",
				"hidden":    "CREATE TEMPORARY TABLE `b` (\n  `a` int\n) ENGINE=MEMORY",
				"aria":      "CREATE TEMPORARY TABLE `t` (\n  `a` int(11) NOT NULL AUTO_INCREMENT\n) ENGINE=Aria",
			}[v])
		default:
			g.t.Fatalf("unknown outcome %q", a)
		}
	}
	if g.auto && o.Kind != OutcomeErr {
		o.Status |= statusAutocommit
	}
	if g.out {
		g.out, g.open = false, false
		g.m.BackgroundDone(&o)
		if g.waiting {
			ev := g.event
			ev.Began, ev.Now = ev.Now, g.now
			return g.step(g.m.Begin(&ev))
		}
		return nil
	}
	return g.step(g.m.Next(&o))
}

func (g *golden) state() []string {
	var list []string
	for _, t := range g.m.Tables() {
		s := t.Key.Schema + "." + t.Key.Name + " " + t.State
		if t.Condition != "" {
			s += " " + t.Condition
		}
		if t.Converted {
			s += " converted"
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		list = []string{"no tables"}
	}
	if o := g.m.owed; o != owedNothing {
		list = append(list, fmt.Sprintf("owed %s", [...]string{"", "plain", "create", "note"}[o]))
	}
	return list
}
