package suite

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Strategies are those of the proxy, in the order in which files are run.
var Strategies = []string{"native", "keep", "innodb"}

// Way is how a test file is run.
type Way struct {
	Arguments []string                 // of mysqltest
	Rewrite   func(text string) string // makes another file of it; nil: as it is
}

// Ways are all ways by name.
var Ways = map[string]Way{
	"text":     {},
	"prepared": {Arguments: []string{"--ps-protocol"}},
	"cursor":   {Arguments: []string{"--ps-protocol", "--cursor-protocol"}},
	// Twice in one session: what the first run has left parked the second may find.
	"twice": {Rewrite: func(text string) string { return text + "\n" + text }},
	// All tables are temporary and made twice, whatever comes of it.
	"temporary":          {Rewrite: temporaryTwice},
	"temporary-prepared": {Arguments: []string{"--ps-protocol"}, Rewrite: temporaryTwice},
}

var wayNames = []string{"text", "prepared", "cursor", "twice", "temporary", "temporary-prepared"}

func temporaryTwice(text string) string {
	text = temporary(text)
	return "--disable_abort_on_error\n" + text + "\n" + text
}

var (
	createTable     = regexp.MustCompile(`(?i)\bcreate\s+table\b`)
	createTemporary = regexp.MustCompile("(?ims)^[ \\t]*create\\s+temporary\\s+table\\s+(?:if\\s+not\\s+exists\\s+)?([\\w.`$]+).*?;")
	// Errors come where the file expects none, and the other way round.
	errorExpected = regexp.MustCompile(`(?im)^[ \t]*(--)?[ \t]*error[ \t].*$`)
	// What stops a file that does not go on as its authors thought.
	abortOnError = regexp.MustCompile(`(?im)^[ \t]*(--)?[ \t]*enable_abort_on_error.*$`)
)

// temporary makes the tables of a test file temporary, drops and creates each again before it is used, and takes the file's
// expectations away.
func temporary(text string) string {
	text = createTable.ReplaceAllString(text, "CREATE TEMPORARY TABLE")
	text = createTemporary.ReplaceAllString(text, "$0\nDROP TEMPORARY TABLE $1;\n$0")
	return abortOnError.ReplaceAllString(errorExpected.ReplaceAllString(text, ""), "")
}

// names returns the temporary tables that a test file creates, in the order of their first mention; not those of other
// databases or whose names are variables.
func names(text string) []string {
	var list []string
	for _, match := range createTemporary.FindAllStringSubmatch(text, -1) {
		if name := strings.Trim(match[1], "`"); plainName.MatchString(name) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

var plainName = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// topics are what the list is complete about: of the files that a plain server runs, it has all that are about them.
var topics = map[string]*regexp.Regexp{
	"temporary tables":    regexp.MustCompile(`(?i)temporary\s+table`),
	"MEMORY":              regexp.MustCompile(`(?i)engine\s*=?\s*['"]?(heap|memory)`),
	"prepared statements": regexp.MustCompile(`(?im)^\s*(prepare\s+\w+\s+from|execute\s+\w+)`),
	"transactions":        regexp.MustCompile(`(?im)^\s*(start transaction|begin\s*(work)?\s*;|rollback|savepoint|set .*autocommit\s*=\s*(0|off)|xa\s+(start|begin))`),
	"LOAD":                regexp.MustCompile(`(?i)load\s+(data|xml)`),
	// Statements that stand on lines of their own go together when the delimiter is not a semicolon.
	"multi-statements": regexp.MustCompile(`(?im)multi_statement|^\s*delimiter\s+(\|\|\|\||'abcd')`),
}

// about names the topics of a test file, sorted.
func about(text string) []string {
	var list []string
	for topic, sign := range topics {
		if sign.MatchString(text) {
			list = append(list, topic)
		}
	}
	slices.Sort(list)
	return list
}

// Entry is a line of the list: a test file and how it is run. A file may have several, of different ways.
type Entry struct {
	File       string
	Strategies []string
	Ways       []string
	Long       bool // takes too long to be run every time
}

// overlaps tells whether two entries of a file have a way in common, or one has none.
func (e *Entry) overlaps(other *Entry) bool {
	return len(e.Ways) == 0 || len(other.Ways) == 0 || slices.ContainsFunc(e.Ways, func(way string) bool { return slices.Contains(other.Ways, way) })
}

// Reuses tells whether the proxy must find tables to reuse in a file that is run in a way.
func (e *Entry) Reuses(way string) bool {
	return !e.Long && strings.HasPrefix(way, "temporary") && slices.Contains(e.Ways, way)
}

//go:embed files.txt
var listed string

// Listed returns the test files that are run every time.
func Listed() ([]Entry, error) { return parseList(listed) }

// parseList reads lines of a file's name, its strategies and its ways, where a star stands for all of these and a dash for
// none, and the word long for a file that takes too long for every time. What follows # is a remark.
func parseList(text string) ([]Entry, error) {
	var list []Entry
	for i, line := range lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		long := len(fields) == 4 && fields[3] == "long"
		if len(fields) != 3 && !long {
			return nil, fmt.Errorf("line %d: want a file, strategies and ways", i+1)
		}
		entry := Entry{File: fields[0], Long: long}
		for _, choice := range []struct {
			given string
			known []string
			into  *[]string
		}{{fields[1], Strategies, &entry.Strategies}, {fields[2], wayNames, &entry.Ways}} {
			switch choice.given {
			case "*":
				*choice.into = choice.known
				continue
			case "-":
				continue
			}
			for _, word := range strings.Split(choice.given, ",") {
				if !slices.Contains(choice.known, word) {
					return nil, fmt.Errorf("line %d: unknown %q", i+1, word)
				}
				*choice.into = append(*choice.into, word)
			}
		}
		if slices.ContainsFunc(list, func(e Entry) bool { return e.File == entry.File && e.overlaps(&entry) }) {
			return nil, fmt.Errorf("line %d: %s is there twice", i+1, entry.File)
		}
		list = append(list, entry)
	}
	return list, nil
}

// Expected is a difference that a strategy makes in a test file, with its reason.
type Expected struct {
	Reason string
	Diff   string
}

// unexplained is the reason that -suite.update gives.
const unexplained = "not explained yet"

// expectedPath is where the difference lies in this folder.
func expectedPath(file, strategy, way string) string {
	if way != "text" {
		file += "." + way
	}
	return "expected/" + strategy + "/" + file + ".diff"
}

// ExpectedOf returns the difference that is known of a file, nil if none is.
func ExpectedOf(file, strategy, way string) (*Expected, error) {
	text, err := os.ReadFile(expectedPath(file, strategy, way))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseExpected(string(text))
}

// parseExpected reads lines of a reason, each behind "# ", and what Describe made.
func parseExpected(text string) (*Expected, error) {
	var reason []string
	for {
		line, rest, _ := strings.Cut(text, "\n")
		words, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		reason, text = append(reason, words), rest
	}
	if len(reason) == 0 {
		return nil, errors.New("an expected difference without a reason")
	}
	return &Expected{strings.Join(reason, " "), text}, nil
}

// mostLines is how many lines of one side of a difference are shown: where a file gives up, all the rest is missing.
const mostLines = 12

// Describe writes differences down, without the places where they are: another version of a file may move them.
func Describe(differences []Difference) string {
	var b strings.Builder
	for _, d := range differences {
		b.WriteString("@@\n")
		side(&b, "-", d.Direct)
		side(&b, "+", d.Proxied)
	}
	return b.String()
}

func side(b *strings.Builder, sign string, list []string) {
	for i, line := range list {
		if i == mostLines {
			fmt.Fprintf(b, "%s … %d more lines\n", sign, len(list)-i)
			break
		}
		b.WriteString(sign + line + "\n")
	}
}
