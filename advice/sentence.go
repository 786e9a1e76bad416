package advice

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	none    = "none"
	keep    = "keep"
	innodb  = "innodb"
	trial   = "trial"
	unknown = "unknown"
)

// Bounds of the judgements.
const (
	few      = 3    // cycles per session below which a cache of the session's gains nothing: one makes the table, another parks it
	often    = 0.5  // part of the cycles from which on something is the rule
	always   = 0.95 // and from which on it is always so
	hardly   = 0.02 // part of the sessions' time below which a gain is not worth mentioning
	randomly = 0.5  // new names per cycle
)

// judge fills in the choice and the sentence.
func (v *Advice) judge() {
	facts, choice, because := v.reason()
	v.Choice = choice
	if v.Sentence = strings.Join(facts, ", "); v.Sentence != "" {
		v.Sentence += ": "
	}
	v.Sentence += because
}

func (v *Advice) reason() (facts []string, choice, because string) {
	c := &v.Counts
	part := func(n int64) float64 { return per(float64(n), c.Cycles) }
	perSession := number(v.PerSession) + " cycles per session"
	if v.PerSession == 1 {
		perSession = "1 cycle per session"
	}
	if c.Cycles == 0 {
		return nil, unknown, "no cycle has ended yet"
	}
	if reason, n := most(c.Fallbacks); permanent[reason] != "" && float64(sum(c.Fallbacks)) >= often*float64(c.Create.Count) && n > 0 {
		return []string{perSession}, none, "left to the server: " + permanent[reason]
	}
	switch {
	case c.Cycles >= enough && part(c.Names) >= randomly:
		return []string{perSession, "nearly always a new name"}, none, "no table could be used twice, no gain to expect"
	case v.PerSession < few && c.Sessions > 1:
		return []string{perSession}, none, "no gain to expect"
	case c.Cycles < enough:
		return []string{perSession}, unknown, fmt.Sprintf("too few yet to say anything, %d of %d", c.Cycles, enough)
	}
	facts = append([]string{v.name(), perSession}, v.hazards()...)
	if reason, n := most(c.Taints); part(n) >= often {
		return facts, none, "no gain to expect: " + word(taints, reason)
	}
	if settled := sum(c.Settles) + c.Replays; c.Churned || settled > c.Reuses {
		reason, n := most(c.Settles)
		if c.Replays > n {
			reason = "replay"
		}
		return facts, none, "no gain to expect: a parked table would mostly have to be dropped before it is reused, " + word(settles, reason)
	}
	if reason, n := most(c.Fallbacks); part(n) >= often && reason != "shape_native" {
		return facts, none, "mostly left to the server: " + word(fallbacks, reason)
	}
	best := v.best()
	switch {
	case best == nil:
		return facts, none, "left to the server: neither cached as it is nor converted (" + words(c.Keep) + ")"
	case part(c.Reuses) < often:
		return facts, none, fmt.Sprintf("no gain to expect: only %s of the CREATEs would find a table to reuse", percent(part(c.Reuses)))
	case best.Saved <= 0:
		return facts, none, "no gain to expect: to empty the table would take as long as CREATE and DROP do now"
	case best.Gain <= 0:
		return facts, none, fmt.Sprintf("not worth it: %s statements per cycle each pay for the way through the proxy; it gains up to %s",
			number(v.Statements), number(v.BreakEven))
	}
	gain := fmt.Sprintf("estimated gain %s per cycle, %s of the time these sessions wait", duration(best.Gain), percent(best.Part))
	if best.Part < hardly {
		gain = fmt.Sprintf("hardly worth it, estimated gain %s per cycle, %s of the time these sessions wait", duration(best.Gain), percent(best.Part))
	}
	kept := v.AsKept != nil && v.AsKept.Gain > 0
	switch hazards := c.RolledBack + c.Deadlocks + c.FailedWrites; {
	case v.AsInnoDB == nil && v.Convert != "":
		return facts, keep, "keep (innodb cannot convert it and does the same); " + gain
	case v.AsInnoDB == nil:
		return facts, keep, "keep (innodb does the same); " + gain
	case kept && hazards > 0:
		return facts, keep, "keep, not innodb; " + v.gain(v.AsKept, gain, best)
	case kept && c.Unordered > 0:
		return facts, keep, "keep (with innodb rows may come in another order); " + v.gain(v.AsKept, gain, best)
	case hazards > 0 && hazards == c.RolledBack:
		return facts, innodb, "innodb only with on_rollback: preserve, or leave it; " + gain
	case hazards > 0:
		return facts, none, "only innodb could cache it, and it would show: leave it; " + gain
	case kept:
		return facts, keep, "keep, or innodb if a trial shows that it gains more; " + v.gain(v.AsKept, gain, best)
	case c.Commits > 0:
		return facts, trial, fmt.Sprintf("only innodb could cache it, and would commit %s writes per cycle outside transactions, which may cost more than it saves: "+
			"only a trial can tell; %s without that", number(per(float64(c.Commits), c.Cycles)), gain)
	case c.Unordered > 0:
		return facts, innodb, "innodb, if nothing relies on the order of rows; " + gain
	}
	return facts, innodb, "innodb; " + gain
}

// gain says what an estimate gains that is not the best one.
func (v *Advice) gain(e *Estimate, text string, best *Estimate) string {
	if e == best {
		return text
	}
	return fmt.Sprintf("estimated gain %s per cycle, %s of the time these sessions wait", duration(e.Gain), percent(e.Part))
}

func (v *Advice) name() string {
	if v.Names == 1 {
		return "fixed name"
	}
	return number(float64(v.Names)) + " names"
}

// hazards are what was seen of transactions and of what conversion would meet.
func (v *Advice) hazards() []string {
	var list []string
	add := func(n int64, what string) {
		switch p := per(float64(n), v.Cycles); {
		case n == 0:
		case p >= always:
			list = append(list, "always "+what)
		default:
			list = append(list, what+" in "+percent(p))
		}
	}
	add(v.Transactions, "in transactions")
	if v.Convert == "" {
		return list // nothing is converted
	}
	add(v.RolledBack, "rolled back after writes")
	add(v.Deadlocks, "deadlocked after writes")
	add(v.FailedWrites, "failing in writes of several rows")
	add(v.Unordered, "read without ORDER BY")
	return list
}

// permanent are the reasons for which a CREATE is never cached, whatever the session does.
var permanent = map[string]string{
	"as_select":             "made AS SELECT, which is never cached",
	"like":                  "made LIKE another table, which is cached only with rewrite.cache_like",
	"parse":                 "its text is not understood",
	"parse_warning":         "its text is not understood for certain",
	"verify":                "its text cannot be changed for certain",
	"too_long":              "its text is longer than rewrite.max_create",
	"executable_comment":    "its text has an executable comment",
	"hint":                  "its text says so",
	"set_statement":         "it is part of a SET STATEMENT",
	"quotes":                "what its double quotes mean is not certain",
	"name":                  "its name is not of plain letters and digits",
	"or_replace":            "CREATE OR REPLACE with IF NOT EXISTS",
	"partition":             "it is partitioned",
	"engine":                "its engine's rows may not be its own",
	"myisam":                "a MyISAM table that is kept costs more to empty than to make on MySQL",
	"aria_auto_increment":   "to empty an Aria table does not begin AUTO_INCREMENT anew",
	"option":                "one of its options is not known to be harmless",
	"auto_increment_start":  "it begins AUTO_INCREMENT beyond 1",
	"union":                 "it is a UNION of other tables",
	"insert_method":         "it inserts into other tables",
	"connection":            "its rows are on another server",
	"data_directory":        "it has a directory of its own",
	"tablespace":            "it has a tablespace of its own",
	"sequence":              "a sequence fills a column",
	"charset":               "the client's character set cannot be read byte by byte",
	"invisible_primary_key": "the server would add a primary key",
	"default_engine":        "the default engine is one that is not cached",
	"session":               "the session moves temporary tables about, or has the server tell of each",
	"prepared":              "the prepared statement cannot be seen through",
	"routine":               "a routine or trigger mentions the name",
	"routines":              "the server has routines",
}

var fallbacks = map[string]string{
	"read_only":      "in read-only transactions, or in XA",
	"strict":         "in transactions, with rewrite.fidelity: strict",
	"name_native":    "the table was found not to be what it was made as",
	"lock_tables":    "under LOCK TABLES",
	"one_shot":       "behind a SET TRANSACTION",
	"exists":         "the table exists already",
	"tables":         "too many tables in a session",
	"schema_unknown": "the current schema is not known",
	"unseen":         "its text was not seen whole",
}

var settles = map[string]string{
	"mentioned":   "because a statement names it in between",
	"opaque":      "because a CALL, a stored function or the like runs in between",
	"multi":       "because of packets of several statements",
	"long":        "because of statements longer than rewrite.max_statement",
	"context":     "because of a SET or USE in between",
	"shape":       "because its name gets another definition",
	"not_quiet":   "because a transaction is open when it is made again",
	"limit":       "because there are more than rewrite.max_parked",
	"expired":     "because it is too old by then",
	"read_only":   "because of read-only transactions",
	"database":    "because of DDL of databases",
	"variable":    "because of a SET that moves temporary tables about",
	"letter_case": "because its name is written in other letters",
	"listed":      "because tables are listed in between",
	"command":     "because of an unusual command in between",
	"replay":      "because warnings are asked for behind CREATE or DROP",
}

var taints = map[string]string{
	"statement":   "it is altered, indexed or locked after its creation",
	"opaque":      "a CALL, a stored function or the like runs while it is there",
	"drop_failed": "its DROP fails",
	"not_ours":    "it was found not to be what it was made as",
	"source":      "the table that it is like is changed",
}

// word returns what list says of a reason.
func word(list map[string]string, reason string) string {
	for _, l := range []map[string]string{list, permanent} {
		if w := l[reason]; w != "" {
			return w
		}
	}
	return words(reason)
}

func words(reason string) string { return strings.ReplaceAll(reason, "_", " ") }

// number writes a number with at most one decimal, and thousands apart.
func number(x float64) string {
	if x < 9.95 && math.Abs(x-math.Round(x)) >= 0.05 {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// percent writes a part with one significant place below 10 %.
func percent(x float64) string {
	x *= 100
	switch {
	case x > 0 && x < 0.1:
		return "less than 0.1 %"
	case x != 0 && math.Abs(x) < 0.95:
		return strconv.FormatFloat(x, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(x, 'f', 0, 64) + " %"
}

// duration writes seconds with three significant places.
func duration(s float64) string {
	sign := ""
	if s < 0 {
		sign, s = "-", -s
	}
	for _, u := range []struct {
		name string
		of   float64
	}{{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}} {
		if s >= 0.9995*u.of || u.of == 1e-6 {
			x := s / u.of
			places := 0
			switch {
			case x < 9.995:
				places = 2
			case x < 99.95:
				places = 1
			}
			return sign + strconv.FormatFloat(x, 'f', places, 64) + " " + u.name
		}
	}
	return sign + "0 s"
}
