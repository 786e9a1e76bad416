// Package compare is about scripts of statements that are run twice on the same server, once directly and once through a proxy,
// and about the differences of what the client could see, which is everything in the packets. Differences are allowed only by name, and only where the script says so.
//
// A script is a text file:
//
//	# a comment
//	servers: mysql, mariadb         where it runs; these two when left out
//	strategies: keep, innodb        the proxy's strategies it is run with; these two when left out; preserve is innodb with
//	                                rewrite.on_rollback: preserve
//	settings: rewrite.max_parked=2  further settings of the proxy
//	allow: name, …                  allowances for every step
//	saves: keep, innodb on mariadb  strategies, maybe only on one server, in which fewer CREATEs must reach the server;
//	                                in all others all must
//	setup:                          statements on a direct connection, before either run, in the schema lab
//	run:                            steps
//	teardown:                       statements on a direct connection, after either run
//
// A step is one line; a backslash at its end continues it on the next line, with a line break. It is a statement, or a
// command that begins with @. In front of it may stand, in this order:
//
//	[b]      the connection, a when left out; it is made at its first step, or by @connect
//	!1146    the error code the step must have; alternatives as !1146|0, 0 is success. Without it an error fails the script
//	~name    an allowance for this step only, ~name? one that may not be needed; several may stand
//
// repeat N { and } on lines of their own repeat what is between. ${i} is the number of the innermost repetition, from 1,
// ${id:b} the thread id of connection b, ${x*1000} a thousand x.
//
// Commands (- is an empty argument): @connect [user [password [schema]]], @disconnect, @cut, @ping, @reset, @changeuser user [password [schema]],
// @initdb schema, @fieldlist table [wildcard], @statistics, @processinfo, @debug, @setoption on|off, @prepare name text,
// @execute name [value …], @cursor name [value …] (an execute that opens a cursor), @fetch name rows,
// @longdata name parameter value, @resetstatement name, @close name, @send text (sends a statement and does not wait),
// @receive (its reply), @blocked b (waits until b's statement waits for a lock), @idle (waits a moment, so that work in the
// background may be done). Values are NULL, 12, 1.5, 'text', x'00ff' and LONG for one sent before with @longdata.
package compare

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tmpproxy/testbed/rawclient"
)

// Script is a parsed script.
type Script struct {
	Name       string
	Servers    []string
	Strategies []string
	Settings   []string // key=value
	Saves      []string
	Allow      []string // for every step
	Depends    []string // strategies of saves and names of allow, marked with a ?, that depend on how fast the client is: on whether a reset was done in time
	Setup      []Step
	Steps      []Step
	Teardown   []Step
}

// SavesWith tells whether the script says that a strategy saves CREATEs on a server.
func (s *Script) SavesWith(strategy, server string) bool {
	return slices.Contains(s.Saves, strategy) || slices.Contains(s.Saves, strategy+" on "+server)
}

// Step is one line of a script, once for each repetition.
type Step struct {
	Line    int
	Conn    string
	Expect  []uint16 // error codes, 0 for success; nil: success
	Allow   []string // for this step
	Depends []string // those of Allow, marked with a ?, that may not be needed
	Verb    string   // query, or a command's word
	Text    string   // of a query, or a command's arguments
}

func (s *Step) String() string {
	text := s.Text
	if s.Verb != Query {
		text = strings.TrimSpace("@" + s.Verb + " " + text)
	}
	return fmt.Sprintf("line %d [%s] %s", s.Line, s.Conn, text)
}

// Query is the verb of a statement.
const Query = "query"

var verbs = map[string]bool{
	"connect": true, "disconnect": true, "cut": true, "ping": true, "reset": true, "changeuser": true, "initdb": true,
	"fieldlist": true, "statistics": true, "processinfo": true, "debug": true, "setoption": true, "prepare": true,
	"execute": true, "cursor": true, "fetch": true, "longdata": true, "resetstatement": true, "close": true, "send": true,
	"receive": true, "blocked": true, "idle": true,
}

// Parse reads a script; name is for messages.
func Parse(name, text string) (*Script, error) {
	p := parser{script: &Script{
		Name:       strings.TrimSuffix(filepath.Base(name), ".txt"),
		Servers:    []string{"mysql", "mariadb"},
		Strategies: []string{"keep", "innodb"},
	}}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		first := i + 1
		line := strings.TrimRight(lines[i], " \t\r")
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + "\n" + strings.TrimRight(lines[i], " \t\r")
		}
		line = strings.TrimLeft(line, " \t")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := p.line(first, line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, first, err)
		}
	}
	if len(p.blocks) > 0 {
		return nil, fmt.Errorf("%s: a repeat is not closed", name)
	}
	if len(p.script.Steps) == 0 {
		return nil, fmt.Errorf("%s: nothing to run", name)
	}
	for _, word := range p.script.Saves {
		strategy, server, _ := strings.Cut(word, " on ")
		if !slices.Contains(p.script.Strategies, strategy) || server != "" && !slices.Contains(p.script.Servers, server) {
			return nil, fmt.Errorf("%s: saves: %s is not among the strategies and servers", name, word)
		}
	}
	return p.script, nil
}

type parser struct {
	script  *Script
	section string
	blocks  []block
}

// block is an open repeat.
type block struct {
	times int
	steps []Step
}

var (
	headerLine = regexp.MustCompile(`^(servers|strategies|allow|saves|settings):\s*(.*)$`)
	repeatLine = regexp.MustCompile(`^repeat\s+(\d+)\s*\{$`)
	connPrefix = regexp.MustCompile(`^\[(\w+)\]\s+`)
	expectWord = regexp.MustCompile(`^!(\d+(?:\|\d+)*)\s+`)
	allowWord  = regexp.MustCompile(`^~([\w-]+)(\??)\s+`)
	verbWord   = regexp.MustCompile(`^@(\w+)\s*`)
)

func (p *parser) line(number int, line string) error {
	switch line {
	case "setup:", "run:", "teardown:":
		if len(p.blocks) > 0 {
			return fmt.Errorf("%s inside a repeat", line)
		}
		p.section = strings.TrimSuffix(line, ":")
		return nil
	case "}":
		return p.close()
	}
	if p.section == "" {
		m := headerLine.FindStringSubmatch(line)
		if m == nil {
			return fmt.Errorf("neither a header nor a section: %s", line)
		}
		return p.header(m[1], m[2])
	}
	if m := repeatLine.FindStringSubmatch(line); m != nil {
		times, err := strconv.Atoi(m[1])
		if err != nil || times < 1 {
			return fmt.Errorf("repeat %s", m[1])
		}
		p.blocks = append(p.blocks, block{times: times})
		return nil
	}
	step, err := parseStep(number, line)
	if err != nil {
		return err
	}
	p.add(step)
	return nil
}

func (p *parser) header(key, list string) error {
	var values []string
	for value := range strings.SplitSeq(list, ",") {
		if value = strings.TrimSpace(value); value != "" {
			values = append(values, value)
		}
	}
	switch key {
	case "servers":
		p.script.Servers = values
	case "strategies":
		p.script.Strategies = values
	case "settings":
		p.script.Settings = values
	case "saves":
		for _, word := range values {
			if strategy, depends := strings.CutSuffix(word, "?"); depends {
				p.script.Depends = append(p.script.Depends, strategy)
			} else {
				p.script.Saves = append(p.script.Saves, word)
			}
		}
	case "allow":
		for i, word := range values {
			if name, depends := strings.CutSuffix(word, "?"); depends {
				p.script.Depends = append(p.script.Depends, name)
				values[i] = name
			}
		}
		for _, name := range values {
			if Allowances[name] == nil {
				return fmt.Errorf("no allowance is called %s", name)
			}
		}
		p.script.Allow = values
	}
	return nil
}

// steps is the list that the next step belongs to.
func (p *parser) steps() *[]Step {
	if n := len(p.blocks); n > 0 {
		return &p.blocks[n-1].steps
	}
	switch p.section {
	case "setup":
		return &p.script.Setup
	case "teardown":
		return &p.script.Teardown
	}
	return &p.script.Steps
}

func (p *parser) add(steps ...Step) { list := p.steps(); *list = append(*list, steps...) }

func (p *parser) close() error {
	n := len(p.blocks)
	if n == 0 {
		return fmt.Errorf("} without a repeat")
	}
	b := p.blocks[n-1]
	p.blocks = p.blocks[:n-1]
	for i := range b.times {
		for _, step := range b.steps {
			step.Text = strings.ReplaceAll(step.Text, "${i}", strconv.Itoa(i+1))
			p.add(step)
		}
	}
	return nil
}

func parseStep(number int, line string) (Step, error) {
	s := Step{Line: number, Conn: "a", Verb: Query}
	if m := connPrefix.FindStringSubmatch(line); m != nil {
		s.Conn = m[1]
		line = line[len(m[0]):]
	}
	if m := expectWord.FindStringSubmatch(line); m != nil {
		for code := range strings.SplitSeq(m[1], "|") {
			n, err := strconv.ParseUint(code, 10, 16)
			if err != nil {
				return s, fmt.Errorf("error code %s", code)
			}
			s.Expect = append(s.Expect, uint16(n))
		}
		line = line[len(m[0]):]
	}
	for m := allowWord.FindStringSubmatch(line); m != nil; m = allowWord.FindStringSubmatch(line) {
		if Allowances[m[1]] == nil {
			return s, fmt.Errorf("no allowance is called %s", m[1])
		}
		s.Allow = append(s.Allow, m[1])
		if m[2] != "" {
			s.Depends = append(s.Depends, m[1])
		}
		line = line[len(m[0]):]
	}
	if m := verbWord.FindStringSubmatch(line); m != nil {
		if !verbs[m[1]] {
			return s, fmt.Errorf("no command is called @%s", m[1])
		}
		s.Verb = m[1]
		line = line[len(m[0]):]
	}
	s.Text = line
	return s, nil
}

var valueWord = regexp.MustCompile(`^(?:'((?:[^']|'')*)'|x'([0-9a-fA-F]*)'|(\S+))\s*`)

// Values parses the arguments of @execute and its like.
func Values(text string) ([]any, error) {
	var list []any
	for text != "" {
		m := valueWord.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("values %s", text)
		}
		text = text[len(m[0]):]
		value, err := parseValue(m)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

func parseValue(m []string) (any, error) {
	word := m[3]
	switch {
	case strings.HasPrefix(m[0], "'"):
		return strings.ReplaceAll(m[1], "''", "'"), nil
	case strings.HasPrefix(m[0], "x'"):
		return hex.DecodeString(m[2])
	case word == "NULL":
		return nil, nil
	case word == "LONG":
		return rawclient.LongData{}, nil
	}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return n, nil
	}
	if f, err := strconv.ParseFloat(word, 64); err == nil {
		return f, nil
	}
	return nil, fmt.Errorf("value %s", word)
}

var temporary = regexp.MustCompile("(?is)CREATE\\s+(?:OR\\s+REPLACE\\s+)?TEMPORARY\\s+TABLE\\s+(?:IF\\s+NOT\\s+EXISTS\\s+)?((?:`[^`]+`|\\w+)(?:\\.(?:`[^`]+`|\\w+))?)")

// TemporaryTables returns the names of the temporary tables that the script's own text creates, as it writes them.
func (s *Script) TemporaryTables() []string {
	var names []string
	for _, step := range s.Steps {
		for _, m := range temporary.FindAllStringSubmatch(step.Text, -1) {
			if !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
	}
	return names
}
