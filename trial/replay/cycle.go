package replay

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"tmpproxy/rewrite"
	"tmpproxy/trial/record"
)

// tracker follows a session's temporary tables by its texts.
type tracker struct{ tables map[string]*cycle }

// cycle is what the present cycle of a table has taken so far.
type cycle struct{ create, use time.Duration }

func (t *tracker) reset() { clear(t.tables) }

const tableName = "((?:`[^`]+`|[\\w$]+)(?:\\.(?:`[^`]+`|[\\w$]+))?)"

var (
	creates = regexp.MustCompile(`(?i)^CREATE (?:OR REPLACE )?TEMPORARY TABLE (?:IF NOT EXISTS )?` + tableName)
	drops   = regexp.MustCompile(`(?i)^DROP (?:TEMPORARY )?TABLES? (?:IF EXISTS )?(.*)$`)
	writes  = regexp.MustCompile(`(?i)^(INSERT|REPLACE|UPDATE|DELETE|TRUNCATE|LOAD|CREATE|ALTER|DROP|RENAME|CALL|OPTIMIZE|REPAIR|IMPORT|SET GLOBAL|SET PERSIST)\b`)
	reads   = regexp.MustCompile(`(?i)^(SELECT|WITH|TABLE|VALUES|SHOW|DESC|DESCRIBE|EXPLAIN|\()`)
	written = regexp.MustCompile("(?i)^(?:INSERT|REPLACE)(?: LOW_PRIORITY| DELAYED| HIGH_PRIORITY| IGNORE)*(?: INTO)? " + tableName +
		"|^UPDATE(?: LOW_PRIORITY| IGNORE)* " + tableName + "|^DELETE(?: LOW_PRIORITY| QUICK| IGNORE)* FROM " + tableName +
		"|^TRUNCATE(?: TABLE)? " + tableName + "|^LOAD DATA .*? INTO TABLE " + tableName + "|^ALTER(?: IGNORE)? TABLE " + tableName +
		"|^CREATE(?: UNIQUE| FULLTEXT| SPATIAL)? INDEX .*? ON " + tableName)
)

// key is a table's name as texts mention it: without quotes and schema.
func key(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		name = name[i+1:]
	}
	return strings.ToLower(strings.Trim(name, "` "))
}

// dropped are the tables that a DROP names.
func dropped(shape string) []string {
	m := drops.FindStringSubmatch(shape)
	if m == nil {
		return nil
	}
	var names []string
	for name := range strings.SplitSeq(m[1], ",") {
		names = append(names, key(strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(name)), " RESTRICT"), " CASCADE")))
	}
	return names
}

// writesPermanent says whether a statement writes to anything but live temporary tables, or may.
func (t *tracker) writesPermanent(text []byte) bool {
	shape := record.Shape(text, record.Lexical{})
	if !writes.MatchString(shape) || creates.MatchString(shape) {
		return false
	}
	if names := dropped(shape); names != nil {
		temporary := strings.HasPrefix(strings.ToUpper(shape), "DROP TEMPORARY")
		return !temporary && slices.ContainsFunc(names, func(n string) bool { return t.tables[n] == nil })
	}
	m := written.FindStringSubmatch(shape)
	if m == nil {
		return true
	}
	for _, name := range m[1:] {
		if name != "" {
			return t.tables[key(name)] == nil
		}
	}
	return true
}

// statement takes a statement that has taken so long. into may be nil.
func (t *tracker) statement(text []byte, failed bool, took time.Duration, into latencies) {
	shape := record.Shape(text, record.Lexical{})
	if m := creates.FindStringSubmatch(shape); m != nil {
		if !failed {
			t.tables[key(m[1])] = &cycle{create: took}
		}
		into.add("create", took)
		return
	}
	if names := dropped(shape); names != nil {
		mine := false
		for _, name := range names {
			c := t.tables[name]
			if c == nil {
				continue
			}
			mine = true
			if failed {
				continue
			}
			delete(t.tables, name)
			if len(names) == 1 {
				into.add("cycle", c.create+c.use+took)
				into.add("cycle: create + drop", c.create+took)
			}
		}
		if mine || strings.HasPrefix(strings.ToUpper(shape), "DROP TEMPORARY") {
			into.add("drop", took)
			return
		}
	}
	used := false
	for name, c := range t.tables {
		if rewrite.Mentions(text, name) {
			c.use += took
			used = true
		}
	}
	switch {
	case used:
		into.add("use", took)
	case reads.MatchString(shape):
		into.add("other reads", took)
	case writes.MatchString(shape):
		into.add("other writes", took)
	default:
		into.add("other", took)
	}
}

// classes in the order in which they are printed.
var classes = []string{"create", "drop", "use", "cycle", "cycle: create + drop", "other reads", "other writes", "other"}

// latencies are the distributions by class.
type latencies map[string]*distribution

func (l latencies) add(class string, took time.Duration) {
	if l == nil {
		return
	}
	d := l[class]
	if d == nil {
		d = &distribution{counts: map[int]int{}}
		l[class] = d
	}
	d.add(took)
}

// distribution counts durations in buckets whose bounds are 2 % apart.
type distribution struct {
	counts map[int]int
	n      int
	sum    time.Duration
}

const growth = 1.02

func (d *distribution) add(took time.Duration) {
	d.counts[int(math.Floor(math.Log(float64(max(took, 1)))/math.Log(growth)))]++
	d.n++
	d.sum += took
}

// quantile is right to 1 %.
func (d *distribution) quantile(q float64) time.Duration {
	rank := int(q * float64(d.n-1))
	keys := make([]int, 0, len(d.counts))
	for k := range d.counts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if rank -= d.counts[k]; rank < 0 {
			return time.Duration(math.Pow(growth, float64(k)+0.5))
		}
	}
	return 0
}
