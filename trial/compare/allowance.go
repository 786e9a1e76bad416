package compare

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// Allowance is a kind of difference that clients are told about, in the README's table of what can be noticed.
type Allowance struct {
	Strategies []string // nil: all
	Servers    []string // nil: all
	// Match tells whether it covers a difference.
	Match func(*Difference) bool
	// Status returns the status flags whose difference it covers. Several allowances may cover one field together.
	Status func(direct, proxied uint16) uint16
	Reason string
	// Varies marks what depends on whether a reset was done in time, wherever it occurs: a script that allows it may do without.
	Varies bool
}

// converting are the strategies that make tables InnoDB ones.
var converting = []string{"innodb", "preserve"}

// Allowances are all differences that a script may allow, by name.
var Allowances map[string]*Allowance

func init() {
	// A script is parsed with the table, whose functions know scripts.
	Allowances = map[string]*Allowance{
		"in-trans": {
			Status: func(direct, _ uint16) uint16 { return direct & mysql.SERVER_STATUS_IN_TRANS },
			Reason: "under autocommit=0 a CREATE or DROP that the proxy answers does not open a transaction on the server",
		},
		"transaction-state": {
			Servers: []string{"mysql", "mysql-nobinlog"},
			Match:   transactionState,
			Status:  func(_, _ uint16) uint16 { return mysql.SERVER_SESSION_STATE_CHANGED },
			Reason: "with CLIENT_SESSION_TRACK, MySQL's CREATE and DROP TEMPORARY TABLE in a transaction report its state as ended " +
				"(and COMMIT then does not); one that the proxy answers does not",
		},
		"debug-warnings": {
			Servers: []string{"mysql", "mysql-nobinlog"},
			Match: func(d *Difference) bool {
				return d.Step().Verb == "debug" && d.DirectEvent.Probe == "" && strings.HasSuffix(d.Path, ".warnings")
			},
			Reason: "MySQL's answer to COM_DEBUG repeats the warning count of an earlier statement; tables that were given back came between",
		},
		"rollback-warnings": {
			Match:  rollbackWarnings,
			Reason: "warnings 1751 and 1752 (MySQL), 1196 (MariaDB) on ROLLBACK tell of the server's own CREATE and DROP",
		},
		"deprecated-engines-mix": {
			Servers: []string{"mysql", "mysql-nobinlog"},
			Match:   deprecatedMix,
			Varies:  true,
			Reason:  "MySQL warns (6414) when a transaction combines MEMORY and InnoDB; whether it does depends on what came between",
		},
		"engine-name": {
			Strategies: converting,
			Match:      engineName,
			Reason:     "the table is an InnoDB table",
		},
		"no-index-used": {
			Strategies: converting,
			Status: func(_, _ uint16) uint16 {
				return mysql.SERVER_STATUS_NO_INDEX_USED | mysql.SERVER_STATUS_NO_GOOD_INDEX_USED
			},
			Reason: "engines differ in when they report that no index was used",
		},
		"index-type": {
			Strategies: converting,
			Match:      indexType,
			Reason:     "InnoDB's indexes are trees, those of MEMORY hashes unless it is asked for trees",
		},
		"plan-metadata": {
			Strategies: converting,
			Match:      planMetadata,
			Reason:     "whether a column definition says that the column is part of a key depends on the plan, and that on the engine",
		},
		"row-order": {
			Strategies: converting,
			Match:      rowOrder,
			Reason:     "without ORDER BY, InnoDB gives rows in the order of a key",
		},
		"row-choice": {
			Strategies: converting,
			Match:      data,
			Reason:     "LIMIT without ORDER BY takes the first rows in that order",
		},
		"rollback-rows": {
			Strategies: converting,
			Match:      rolledBack,
			Reason:     "rows written in a transaction vanish on ROLLBACK, which MEMORY and MyISAM keep",
		},
		"rollback-1196": {
			Strategies: converting,
			Match:      rollback1196,
			Reason:     "a transactional table can be rolled back, so no warning says that it could not",
		},
		"statement-atomicity": {
			Strategies: converting,
			Match:      whole,
			Reason:     "a failing multi-row statement leaves no partial rows, and strict mode checks every row",
		},
		"auto-increment-gaps": {
			Strategies: converting,
			Match:      gaps,
			Reason:     "InnoDB reserves AUTO_INCREMENT values in blocks",
		},
		"equal-replace": {
			Strategies: converting,
			Match:      data,
			Reason:     "InnoDB counts 1 for the REPLACE of an equal row, not 2",
		},
		"innodb-in-trans": {
			Strategies: converting,
			Status:     func(_, proxied uint16) uint16 { return proxied & mysql.SERVER_STATUS_IN_TRANS },
			Reason:     "under autocommit=0 access to an InnoDB table opens a transaction",
		},
		"read-only-count": {
			Strategies: converting,
			Match:      data,
			Reason:     "MySQL 9.7 counts the rows of an InnoDB temporary table as of the read view of a read-only transaction that has written to it",
		},
		"read-view": {
			Strategies: converting,
			Match:      data,
			Reason:     "a SELECT from an InnoDB table opens the transaction's read view",
		},
		"one-shot": {
			Strategies: converting,
			Match:      whole,
			Reason:     "access to an InnoDB table uses up a SET TRANSACTION for the next transaction",
		},
		"engine-refused": {
			Strategies: converting,
			Match:      whole,
			Reason:     "a server that is told to refuse MEMORY takes what became an InnoDB table",
		},
		"not-preserved": {
			Strategies: []string{"preserve"},
			Match:      whole,
			Reason:     "rows that cannot be copied back under the session's present settings make the statement fail; they are kept",
		},
		"preserve-found-rows": {
			Strategies: []string{"preserve"},
			Match: func(d *Difference) bool {
				return strings.Contains(d.DirectEvent.Probe, "FOUND_ROWS()") && strings.HasSuffix(d.Path, "row[0][1]") &&
					!strings.HasPrefix(strings.ToUpper(d.Step().Text), "SELECT")
			},
			Reason: "FOUND_ROWS() behind a ROLLBACK, or what writes rows next, is the number of rows that were copied before it",
		},
		"set-transaction": {
			Match:  setTransaction,
			Reason: "as no transaction is open after a CREATE or DROP that the proxy answered, SET TRANSACTION succeeds",
		},
		"session-read-only": {
			Strategies: converting,
			Match: func(d *Difference) bool {
				code, _ := d.DirectEvent.Value("result[0].error.code")
				return code == "1792" || d.DirectEvent.Probe != ""
			},
			Status: func(direct, _ uint16) uint16 { return direct & mysql.SERVER_STATUS_IN_TRANS_READONLY },
			Reason: "a transaction that an access to an InnoDB table has opened, and one chained to it, is not read-only yet behind SET SESSION TRANSACTION READ ONLY",
		},
		"row-count-prepare": {
			Match: func(d *Difference) bool {
				return strings.Contains(d.DirectEvent.Text(), "ROW_COUNT()") && rowPath.MatchString(d.Path)
			},
			Reason: "ROW_COUNT() behind a COM_STMT_PREPARE, or a SHOW that fails, is that of the DROP of a parked table that came before it",
		},
		"emptied-statistics": {
			Servers: mariadbs,
			Match: func(d *Difference) bool {
				return d.DirectEvent.Probe == "" && strings.HasPrefix(d.Step().Text, "EXPLAIN ") && rowPath.MatchString(d.Path)
			},
			Reason: "an InnoDB table that was emptied has statistics, and one that was just made has none: plans differ",
		},
		"handler": {
			Strategies: converting,
			Match:      whole,
			Reason:     "HANDLER works with InnoDB tables",
		},
		"safe-updates": {
			Strategies: []string{"innodb"},
			Match:      whole,
			Reason:     "whether sql_safe_updates lets an UPDATE or DELETE pass depends on whether it can use a key, and MEMORY's are hashes",
		},
		"table-full": {
			Strategies: converting,
			Match:      whole,
			Reason:     "InnoDB tables are not limited by max_heap_table_size",
		},
		"wider-types": {
			Strategies: converting,
			Match:      whole,
			Reason:     "BLOB, TEXT and others that MEMORY refuses become possible",
		},
		"deadlock-victim": {
			Strategies: converting,
			Match:      whole,
			Reason:     "the server prefers to keep a transaction that has written to a table it cannot roll back",
		},
		"unsafe-isolation": {
			Strategies: converting,
			Match:      whole,
			Reason:     "binlog_format=STATEMENT with READ COMMITTED refuses to write InnoDB tables (1665)",
		},
		"late-revoke": {
			Match:  whole,
			Reason: "a REVOKE is noticed when the proxy next creates the table",
		},
		"late-alter-database": {
			Match:  whole,
			Reason: "another session's ALTER DATABASE is noticed when the proxy next creates the table",
		},
		"column-definitions": {
			Servers: mariadbs,
			Match:   columnDefinitions,
			Reason:  "a client that caches column definitions gets those of a prepared statement again when its table was made anew",
		},
		"statement-id": {
			Servers: []string{"mysql", "mysql-nobinlog"},
			Match:   func(d *Difference) bool { return d.Path == "prepared.id" },
			Reason:  "MySQL prepares a statement again, which takes one more id, when its table was made anew",
		},
		"found-rows": {
			Servers: mariadbs,
			Match:   func(d *Difference) bool { return strings.Contains(d.DirectEvent.Text(), "FOUND_ROWS") && data(d) },
			Reason:  "how a subquery is run depends on the engine, and on whether its table was just made or was emptied; FOUND_ROWS() tells",
		},
		"found-rows-changed": {
			Strategies: []string{"innodb"},
			Servers:    []string{"mysql", "mysql-nobinlog"},
			Match:      func(d *Difference) bool { return strings.Contains(d.DirectEvent.Text(), "FOUND_ROWS") && data(d) },
			Reason:     "FOUND_ROWS() behind an UPDATE or DELETE tells how the engine looked for rows",
		},
		"duplicate-index": {
			Strategies: []string{"innodb"},
			Servers:    []string{"mysql", "mysql-nobinlog"},
			Match:      func(d *Difference) bool { return notesDiffer(d, "1831") },
			Reason:     "an index over the same columns as another one gives note 1831; in MEMORY one may be a hash and the other a tree",
		},
		"table-maintenance": {
			Servers: []string{"mariadb", "mariadb-binlog", "mariadb-10.5"},
			Match: func(d *Difference) bool {
				const fresh, ok = `"Table is already up to date"`, `"OK"`
				return d.Direct == fresh && d.Proxied == ok || d.Direct == ok && d.Proxied == fresh
			},
			Reason: "a MyISAM table that was emptied says OK when it is analyzed, instead of Table is already up to date",
		},
		"added-warnings": {
			Servers: []string{"mysql", "mysql-nobinlog"},
			Match:   func(d *Difference) bool { return strings.Contains(d.DirectEvent.Text(), "WARNINGS") },
			Reason:  "COM_FIELD_LIST adds a warning to the list, which is empty if a parked table had to be dropped before it",
		},
		"hash-note": {
			Strategies: []string{"innodb"},
			Servers:    []string{"mysql", "mysql-nobinlog"},
			Match:      func(d *Difference) bool { return notesDiffer(d, "3502") },
			Reason:     "note 3502 about USING HASH comes when MEMORY becomes InnoDB, which the table is already, or with an index that is added",
		},
		"late-drop-database": {
			Match:  whole,
			Reason: "another session's DROP DATABASE is noticed when the proxy next creates the table",
		},
		"command-counters": {
			Match:  data,
			Reason: "Com_ and Handler_ counters count what reaches the server",
		},
	}
}

// covers tells whether the allowance covers a whole difference, or which of the status flags left it covers.
func (a *Allowance) covers(d *Difference, left uint16) (whole bool, flags uint16) {
	if a.Servers != nil && !slices.Contains(a.Servers, d.Server) || a.Strategies != nil && !slices.Contains(a.Strategies, d.Strategy) {
		return false, 0
	}
	if a.Match != nil && a.Match(d) {
		return true, left
	}
	direct, proxied, ok := numbers(d)
	if a.Status == nil || !ok || !strings.HasSuffix(d.Path, ".status") {
		return false, 0
	}
	flags = a.Status(direct, proxied) & left
	return false, flags
}

// whole is for steps whose whole outcome changes. Allowances that use it are for single steps.
func whole(*Difference) bool { return true }

var rowPath = regexp.MustCompile(`^(result\[\d+\])\.row\[(\d+)\]`)

// data matches rows, the number of rows and what a statement counts, but no error and no warning.
func data(d *Difference) bool {
	return rowPath.MatchString(d.Path) || d.Path == "packets" ||
		strings.HasSuffix(d.Path, ".affected_rows") || strings.HasSuffix(d.Path, ".insert_id") || strings.HasSuffix(d.Path, ".info")
}

// setTransaction matches a SET TRANSACTION that fails directly with 1568, and only so, and what is read of that, which on MariaDB a
// ROLLBACK leaves to be read.
func setTransaction(d *Difference) bool {
	if d.Step().Text == "ROLLBACK" && d.DirectEvent.Probe == "SHOW WARNINGS" {
		return data(d) || strings.HasSuffix(d.Path, ".warnings") || d.Path == "packets"
	}
	if !strings.HasPrefix(d.Step().Text, "SET TRANSACTION ") {
		return false
	}
	if d.DirectEvent.Probe != "" {
		return data(d) || strings.HasSuffix(d.Path, ".warnings")
	}
	direct, _ := d.DirectEvent.Value("result[0].error.code")
	_, failed := d.ProxiedEvent.Value("result[0].error.code")
	return direct == "1568" && !failed
}

// rolledBack matches a result of which one side has some of the other's rows and no others, and how many there are.
func rolledBack(d *Difference) bool {
	if d.DirectEvent.Probe != "" {
		return strings.Contains(d.DirectEvent.Probe, "FOUND_ROWS") && data(d)
	}
	result := "result[0]"
	if m := rowPath.FindStringSubmatch(d.Path); m != nil {
		result = m[1]
	} else if d.Path != "packets" {
		return false
	}
	more, fewer := d.DirectEvent.Rows(result), d.ProxiedEvent.Rows(result)
	if len(more) < len(fewer) {
		more, fewer = fewer, more
	}
	return !slices.ContainsFunc(fewer, func(row string) bool { return !slices.Contains(more, row) })
}

// gaps matches a number that is greater than it is directly, in a row or as the id of an INSERT.
func gaps(d *Difference) bool {
	number := func(value string) (uint64, bool) {
		n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 64)
		return n, err == nil
	}
	direct, one := number(d.Direct)
	proxied, two := number(d.Proxied)
	return one && two && proxied > direct && (rowPath.MatchString(d.Path) || strings.HasSuffix(d.Path, ".insert_id"))
}

// rowOrder matches the rows of a result when both sides have the same ones.
func rowOrder(d *Difference) bool {
	m := rowPath.FindStringSubmatch(d.Path)
	if m == nil {
		return false
	}
	direct, proxied := d.DirectEvent.Rows(m[1]), d.ProxiedEvent.Rows(m[1])
	slices.Sort(direct)
	slices.Sort(proxied)
	return slices.Equal(direct, proxied)
}

var engine = regexp.MustCompile(`(?i)ENGINE=\w+|\b(MEMORY|HEAP|MyISAM|InnoDB)\b`)

// engineName matches texts that are equal but for the name of an engine.
func engineName(d *Difference) bool {
	return rowPath.MatchString(d.Path) && engine.ReplaceAllString(d.Direct, "E") == engine.ReplaceAllString(d.Proxied, "E")
}

var isRollback = regexp.MustCompile(`(?i)^\s*ROLLBACK\b`)

// warningsDiffer matches the number of warnings of a step, and a SHOW WARNINGS after it, when the two sides' lists are
// equal but for the codes given. Where nobody looked at the list, the number alone must do.
func warningsDiffer(d *Difference, codes ...string) bool {
	if !isShowWarnings(d) {
		return strings.HasSuffix(d.Path, ".warnings")
	}
	if !rowPath.MatchString(d.Path) && d.Path != "packets" && !strings.HasSuffix(d.Path, ".warnings") {
		return false
	}
	without := func(e *Event) []string {
		return slices.DeleteFunc(e.Rows("result[0]"), func(row string) bool {
			return slices.ContainsFunc(codes, func(code string) bool { return strings.Contains(row, `"`+code+`"`) })
		})
	}
	return slices.Equal(without(d.DirectEvent), without(d.ProxiedEvent))
}

// The list of a ROLLBACK may live on: some statements leave it alone.

func rollbackWarnings(d *Difference) bool {
	return (isRollback.MatchString(d.Step().Text) || isShowWarnings(d)) && warningsDiffer(d, "1751", "1752", "1196")
}

func rollback1196(d *Difference) bool {
	return (isRollback.MatchString(d.Step().Text) || isShowWarnings(d)) && warningsDiffer(d, "1196")
}

func isShowWarnings(d *Difference) bool {
	return strings.HasPrefix(strings.ToUpper(d.DirectEvent.Text()), "SHOW WARNINGS")
}

var warningsInInfo = regexp.MustCompile(`Warnings: \d+`)

// deprecatedMix matches the number of warnings, also in the text of an OK, and the list.
func deprecatedMix(d *Difference) bool {
	if verb := d.Step().Verb; verb != Query && verb != "execute" && verb != "receive" {
		return false
	}
	if strings.HasSuffix(d.Path, ".info") {
		return warningsInInfo.ReplaceAllString(d.Direct, "") == warningsInInfo.ReplaceAllString(d.Proxied, "")
	}
	return warningsDiffer(d, "6414")
}

// transactionState matches a notice of the transaction's state that only one side has, with the flag that announces it.
func transactionState(d *Difference) bool {
	const noticeOfOne = `"\x05\t\b`
	switch {
	case strings.HasSuffix(d.Path, ".state"):
		nothing := func(value string) bool { return value == absent || value == `""` }
		return strings.HasPrefix(d.Direct, noticeOfOne) && nothing(d.Proxied) || nothing(d.Direct) && strings.HasPrefix(d.Proxied, noticeOfOne)
	case strings.HasSuffix(d.Path, ".info"):
		return d.Direct == `""` && d.Proxied == absent || d.Direct == absent && d.Proxied == `""`
	}
	return false
}

var showIndex = regexp.MustCompile(`(?i)^\s*SHOW\s+(INDEX|INDEXES|KEYS)\b`)

// indexType matches the columns Collation and Index_type of SHOW INDEX.
func indexType(d *Difference) bool {
	return rowPath.MatchString(d.Path) && showIndex.MatchString(d.DirectEvent.Text()) && (d.Column == "Collation" || d.Column == "Index_type")
}

// planMetadata matches column flags that differ in MULTIPLE_KEY and PART_KEY only.
func planMetadata(d *Difference) bool {
	const keys = 0x0008 | mysql.PART_KEY_FLAG
	direct, proxied, ok := numbers(d)
	return ok && strings.HasSuffix(d.Path, ".flags") && (direct^proxied)&^keys == 0
}

var mariadbs = []string{"mariadb", "mariadb-binlog", "mariadb-10.5", "mariadb-11.8"}

var ofResult = regexp.MustCompile(`^(result\[\d+\])\.(metadata$|column\[)`)

// columnDefinitions matches the definitions of an execution's result that were left out as the client has them.
func columnDefinitions(d *Difference) bool {
	if d.Step().Verb != "execute" {
		return false
	}
	result := "result[0]"
	if m := ofResult.FindStringSubmatch(d.Path); m != nil {
		result = m[1]
	} else if d.Path != "packets" {
		return false
	}
	sent, _ := d.DirectEvent.Value(result + ".metadata")
	kept, _ := d.ProxiedEvent.Value(result + ".metadata")
	return sent == "1" && kept == "0" && (!strings.Contains(d.Path, "column[") || d.Proxied == absent)
}

// notesDiffer matches the number and the list of the warnings of a statement that gets a note on one side only.
func notesDiffer(d *Difference, code string) bool {
	if strings.HasSuffix(d.Path, ".info") {
		return warningsInInfo.ReplaceAllString(d.Direct, "") == warningsInInfo.ReplaceAllString(d.Proxied, "")
	}
	return warningsDiffer(d, code)
}

// numbers returns the two values of a field of flags.
func numbers(d *Difference) (direct, proxied uint16, ok bool) {
	one, err := strconv.ParseUint(d.Direct, 0, 16)
	if err != nil {
		return 0, 0, false
	}
	two, err := strconv.ParseUint(d.Proxied, 0, 16)
	return uint16(one), uint16(two), err == nil
}

// Covering returns the first of the allowances named that covers a difference, alone or, of status flags, together with those
// before it; "" if they do not.
func Covering(names []string, d *Difference) string {
	direct, proxied, _ := numbers(d)
	left := direct ^ proxied
	for _, name := range names {
		whole, flags := Allowances[name].covers(d, left)
		left &^= flags
		if whole || flags != 0 && left == 0 {
			return name
		}
	}
	return ""
}
