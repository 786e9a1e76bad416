package judge

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"tmpproxy/trial/compare"
)

// Difference is a kind of difference that clients are told about, in the README's table of what can be noticed.
type Difference struct {
	Name       string
	Strategies []string // nil: all but native
	Servers    []string // prefixes of their names; nil: all
	// Match tells whether a difference of a field other than the status flags is of this kind.
	Match func(*side, *compare.Difference) bool
	// Flags are the status flags that may differ, if MatchFlags does not say otherwise.
	Flags      uint16
	MatchFlags func(s *side, direct, proxied uint16) bool
	// Ends tells that the two sides are no longer in the same state then.
	Ends   bool
	Reason string
}

// Unexplain has Compare take known differences for unexplained ones, so that examples of them are looked for.
func Unexplain(names ...string) {
	Known = slices.DeleteFunc(slices.Clone(Known), func(k Difference) bool { return slices.Contains(names, k.Name) })
}

func (k *Difference) applies(j *Judge) bool {
	if j.strategy == "native" || j.strategy == "observe" || k.Strategies != nil && !slices.Contains(k.Strategies, j.strategy) {
		return false
	}
	return k.Servers == nil || slices.ContainsFunc(k.Servers, func(s string) bool { return strings.HasPrefix(j.server, s) })
}

const slow = 0x0800 // SERVER_QUERY_WAS_SLOW

const inTransReadOnly = 0x2000 // SERVER_STATUS_IN_TRANS_READONLY

// preserve is innodb with rewrite.on_rollback: preserve.
const preserve = "preserve"

var converted = []string{"innodb", preserve}

// Known are all differences that may be. The first that matches names one.
var Known = []Difference{
	{
		Name:  "in-trans",
		Flags: mysql.SERVER_STATUS_IN_TRANS | inTransReadOnly,
		MatchFlags: func(s *side, direct, proxied uint16) bool {
			return (direct|proxied)&mysql.SERVER_STATUS_AUTOCOMMIT == 0 && (direct^proxied)&mysql.SERVER_STATUS_IN_TRANS != 0
		},
		Reason: "under autocommit=0 a CREATE or DROP that the proxy answers opens no transaction on the server; with InnoDB, access to the table does",
	},
	{
		Name: "query-was-slow", Flags: slow,
		Reason: "a statement that is answered here, or takes another time, may be slow on one side only",
	},
	{
		Name: "transaction-state", Servers: []string{"mysql"},
		Match: func(s *side, d *compare.Difference) bool {
			return s.states && tellsState(d)
		},
		Flags:      mysql.SERVER_SESSION_STATE_CHANGED,
		MatchFlags: func(s *side, direct, proxied uint16) bool { return s.states },
		Reason: "MySQL tells clients that track the session's state, even with session_track_transaction_info=OFF, that a transaction " +
			"that BEGIN opened has ended when a temporary table is created in it, and else at its end",
	},
	{
		Name: "pending-state", Servers: []string{"mysql"},
		Match:      func(s *side, d *compare.Difference) bool { return s.pending && tellsState(d) },
		Flags:      mysql.SERVER_SESSION_STATE_CHANGED,
		MatchFlags: func(s *side, direct, proxied uint16) bool { return s.pending },
		Reason: "when an EXECUTE fails that ran in another schema than the current one, the next OK tells clients that track the session's " +
			"state of the current schema, and this may be the reply to a statement of the proxy's own",
	},
	{
		Name: "column-definitions", Servers: []string{"mariadb"},
		Match: func(s *side, d *compare.Difference) bool {
			return executesHandle(d.Step()) && leftOut(d)
		},
		Reason: "a client that caches column definitions gets those of a prepared statement again when its table was made anew",
	},
	{
		Name:  "set-transaction",
		Match: func(s *side, d *compare.Difference) bool { return s.openDiffers() && inTransaction(d) },
		Ends:  true,
		Reason: "as the transaction is open only on one side, statements that must not be in one (SET TRANSACTION, XA START, " +
			"SET sql_log_bin) fail only there, and SET SESSION TRANSACTION READ ONLY does not count yet there",
	},
	{
		Name: "syntax-error-text",
		Match: func(s *side, d *compare.Difference) bool {
			told := strings.Contains(s.text, ";") && strings.HasSuffix(d.Path, ".error.message") || readsWarnings.MatchString(s.text) && rowPath.MatchString(d.Path)
			return told && quotesMore(d.Direct, d.Proxied)
		},
		Reason: "of a packet of several statements with temporary-table DDL the server sees one at a time, so a syntax error quotes no more than that",
	},
	{
		Name: "duplicate-index", Strategies: converted, Servers: []string{"mysql"},
		Match:  func(s *side, d *compare.Difference) bool { return addsIndex.MatchString(s.text) && byOne(d) },
		Reason: "an index over the same columns as another one gives note 1831; in MEMORY one may be a hash and the other a tree",
	},
	{
		Name: "hash-note", Strategies: converted, Servers: []string{"mysql"},
		Match:  func(s *side, d *compare.Difference) bool { return altersTable.MatchString(s.text) && byOne(d) },
		Reason: "note 3502 about USING HASH comes when MEMORY becomes InnoDB, which the table is already, or with an index that is added",
	},
	{
		Name: "update-info", Strategies: converted, Servers: []string{"mariadb"},
		Match: func(s *side, d *compare.Difference) bool {
			const none = `Rows matched: 0  Changed: 0  Warnings: 0"`
			return strings.HasSuffix(d.Path, ".info") && (strings.HasSuffix(d.Direct, none) || strings.HasSuffix(d.Proxied, none))
		},
		Reason: "whether an UPDATE that finds no row tells so depends on the engine",
	},
	{
		Name: "rollback-1196", Strategies: []string{"innodb"},
		Match:  func(s *side, d *compare.Difference) bool { return isRollback.MatchString(s.text) && warns(d) },
		Ends:   true,
		Reason: "rows written in a transaction vanish on ROLLBACK; MEMORY and MyISAM keep them, and warn (1196)",
	},
	{
		Name: "rollback-preserved", Strategies: []string{preserve},
		Match:  func(s *side, d *compare.Difference) bool { return isRollback.MatchString(s.text) && warns(d) },
		Reason: "rows outlive a ROLLBACK as those of MEMORY and MyISAM do, but what they were copied to may not be what the server warns of (1196)",
	},
	{
		Name:   "rollback-warnings",
		Match:  func(s *side, d *compare.Difference) bool { return isRollback.MatchString(s.text) && warns(d) },
		Reason: "warnings 1751 and 1752 (MySQL), 1196 (MariaDB) on ROLLBACK tell of the server's own CREATE and DROP",
	},
	{
		Name: "deprecated-engines-mix", Servers: []string{"mysql"},
		Match: func(s *side, d *compare.Difference) bool {
			return writes.MatchString(s.text) && (byOne(d) || quotesMix(d))
		},
		Reason: "MySQL warns (6414) when a transaction combines MEMORY and InnoDB; whether it does depends on what came between",
	},
	{
		Name: "listed-warnings",
		Match: func(s *side, d *compare.Difference) bool {
			if s.mixed && mixes(d) || mixed.MatchString(d.Direct) && mixed.MatchString(d.Proxied) {
				return true
			}
			return s.warned && (s.text == "" && warns(d) || readsDiagnostics.MatchString(s.text) && (data(d) || warns(d)))
		},
		Reason: "what reads the list of warnings sees the warnings of the differences above; commands like COM_PING tell their number",
	},
	{
		Name: "kept-warnings",
		Match: func(s *side, d *compare.Difference) bool {
			return s.mayBeWiped() && readsWarnings.MatchString(s.text) && (data(d) || warns(d))
		},
		Reason: "a statement that leaves the list of warnings alone (MySQL: COM_FIELD_LIST, which adds to it) finds it empty if a parked table had to be dropped before it",
	},
	{
		Name: "copied-warnings",
		Match: func(s *side, d *compare.Difference) bool {
			here := copiesDiagnostics.MatchString(s.text) && (s.mariadb && s.mayBeWiped() || warnsHere(d)) // and reads it in the same packet
			return (s.copied || here) && strings.Contains(s.text, "@") && (data(d) || columnType.MatchString(d.Path))
		},
		Reason: "and so does what reads a variable that holds their number",
	},
	{
		Name: "row-count",
		Match: func(s *side, d *compare.Difference) bool {
			return (s.prepared || runsText.MatchString(s.text)) && strings.Contains(s.text, "ROW_COUNT") && data(d)
		},
		Reason: "ROW_COUNT() in a CALL or EXECUTE, or behind a COM_STMT_PREPARE, COM_FIELD_LIST or (MariaDB) a SHOW that fails, before which a parked table was dropped",
	},
	{
		Name: "row-format", Servers: []string{"mariadb"},
		Flags:      mysql.SERVER_STATUS_NO_INDEX_USED,
		MatchFlags: func(s *side, direct, proxied uint16) bool { return s.unsafe && strings.Contains(s.text, "DELETE") },
		Reason: "behind a statement that is unsafe to be logged as a statement, MariaDB goes over to row format, in which DELETE goes row by row, " +
			"until the session has no temporary table any more; a parked one counts",
	},
	{
		Name: "statistics", Servers: []string{"mariadb"},
		Match: func(s *side, d *compare.Difference) bool {
			sorts := strings.Contains(s.text, "ORDER BY")
			return s.statistics && (sorts && keyFlags(d) || !sorts && sameRows(d))
		},
		Flags:      mysql.SERVER_STATUS_NO_INDEX_USED | mysql.SERVER_STATUS_NO_GOOD_INDEX_USED,
		MatchFlags: func(s *side, direct, proxied uint16) bool { return s.statistics },
		Reason:     "an InnoDB table that was emptied has statistics, one that was just made has none; plans differ",
	},
	{
		Name: "table-maintenance", Servers: []string{"mariadb"},
		Match: func(s *side, d *compare.Difference) bool {
			const fresh, ok = `"Table is already up to date"`, `"OK"`
			return maintains.MatchString(s.text) && rowPath.MatchString(d.Path) && (d.Direct == fresh && d.Proxied == ok || d.Direct == ok && d.Proxied == fresh)
		},
		Reason: "MariaDB up to 10.11 says OK instead of Table is already up to date when a MyISAM table is analyzed that was emptied instead of made anew",
	},
	{
		Name: "engine-name", Strategies: converted,
		Match: func(s *side, d *compare.Difference) bool {
			return rowPath.MatchString(d.Path) && engine.ReplaceAllString(d.Direct, "") == engine.ReplaceAllString(d.Proxied, "")
		},
		Reason: "the table is an InnoDB table",
	},
	{
		Name: "no-index-used", Strategies: converted,
		Flags:  mysql.SERVER_STATUS_NO_INDEX_USED | mysql.SERVER_STATUS_NO_GOOD_INDEX_USED,
		Reason: "engines differ in when they report that no index was used",
	},
	{
		Name: "column-flags", Strategies: converted,
		Match: func(s *side, d *compare.Difference) bool {
			return strings.Contains(s.text, "ORDER BY") && keyFlags(d)
		},
		Reason: "servers tell of a sorted column that it is part of a key only when it needs no temporary table to sort, which is the plan's choice",
	},
	{
		Name: "row-order", Strategies: converted,
		Match: func(s *side, d *compare.Difference) bool {
			return !strings.Contains(statementOf(s.text, d), "ORDER BY") && sameRows(d)
		},
		Reason: "without ORDER BY, InnoDB gives rows in the order of a key",
	},
	{
		Name: "rollback-rows", Strategies: []string{"innodb"},
		Match: func(s *side, d *compare.Difference) bool {
			return s.rolledBack && (!isDDL.MatchString(s.text) || data(d))
		},
		Ends:   true,
		Reason: "what a ROLLBACK has undone is not there any more",
	},
	{
		Name: "read-only-count", Strategies: converted, Servers: []string{"mysql"},
		Match: func(s *side, d *compare.Difference) bool {
			return s.direct&mysql.SERVER_STATUS_IN_TRANS_READONLY != 0 && countsAll.MatchString(s.text) && data(d)
		},
		Ends:   true,
		Reason: "MySQL 9.7 counts the rows of an InnoDB temporary table as they were at the read view of a read-only transaction that has written to it",
	},
	{
		Name: "statement-atomicity", Strategies: converted,
		Match: func(s *side, d *compare.Difference) bool {
			return severalRows.MatchString(s.text) && failed(d) || s.partial && !isDDL.MatchString(s.text)
		},
		Ends:   true,
		Reason: "a failing multi-row statement leaves no partial rows, and strict mode checks every row",
	},
	{
		Name: "table-full", Strategies: converted,
		Match: func(s *side, d *compare.Difference) bool {
			direct, _ := d.DirectEvent.Value("result[0].error.code")
			proxied, _ := d.ProxiedEvent.Value("result[0].error.code")
			return direct == "1114" && proxied != "1114"
		},
		Ends:   true,
		Reason: "InnoDB tables are not limited by max_heap_table_size",
	},
	{
		Name: "safe-updates", Strategies: converted,
		Match: func(s *side, d *compare.Difference) bool {
			direct, _ := d.DirectEvent.Value("result[0].error.code")
			proxied, _ := d.ProxiedEvent.Value("result[0].error.code")
			return direct != proxied && (direct == "1175" || proxied == "1175")
		},
		Ends:   true,
		Reason: "whether sql_safe_updates lets an UPDATE or DELETE pass depends on whether it can use a key, and MEMORY's are hashes",
	},
	{
		Name: "equal-replace", Strategies: converted,
		Match: func(s *side, d *compare.Difference) bool {
			return strings.Contains(s.text, "REPLACE") && strings.HasSuffix(d.Path, ".affected_rows") || s.counted && strings.Contains(s.text, "ROW_COUNT") && data(d)
		},
		Reason: "InnoDB counts 1 for the REPLACE of an equal row, not 2",
	},
	{
		Name: "listing-order", Servers: []string{"mariadb-11.8"},
		Match:  func(s *side, d *compare.Difference) bool { return listsTables.MatchString(s.text) && sameRows(d) },
		Reason: "SHOW TABLES lists temporary tables in the order of their creation on the server",
	},
	{
		Name: "found-rows", Servers: []string{"mariadb"},
		Match: func(s *side, d *compare.Difference) bool {
			return s.subquery && strings.Contains(s.text, "FOUND_ROWS") && data(d)
		},
		Reason: "how a subquery is run depends on the engine, and on whether its table was just made or was emptied; FOUND_ROWS() tells",
	},
	{
		Name: "found-rows-changed", Strategies: converted, Servers: []string{"mysql"},
		Match: func(s *side, d *compare.Difference) bool {
			return s.changed && strings.Contains(s.text, "FOUND_ROWS") && data(d)
		},
		Reason: "FOUND_ROWS() behind an UPDATE or DELETE tells how the engine looked for rows",
	},
	{
		Name: "auto-increment-gaps", Strategies: converted,
		Match:  func(s *side, d *compare.Difference) bool { return s.gaps && data(d) },
		Ends:   true,
		Reason: "InnoDB reserves AUTO_INCREMENT values in blocks",
	},
	{
		Name: "session-read-only", Strategies: converted,
		Flags:      inTransReadOnly,
		MatchFlags: func(s *side, direct, proxied uint16) bool { return s.openDiffers() && chains.MatchString(s.text) },
		Ends:       true,
		Reason: "a transaction that an access to an InnoDB table has opened is not read-only yet behind SET SESSION TRANSACTION READ ONLY, " +
			"nor is one that is chained to it",
	},
	{
		Name: "one-shot", Strategies: converted,
		Match: func(s *side, d *compare.Difference) bool {
			return s.readOnce && strings.Contains(d.Direct+d.Proxied, "1792")
		},
		Flags:      inTransReadOnly,
		MatchFlags: func(s *side, direct, proxied uint16) bool { return s.readOnce },
		Ends:       true,
		Reason:     "access to an InnoDB table uses up a SET TRANSACTION for the next transaction",
	},
	{
		Name: "wider-types", Strategies: converted,
		Match: func(s *side, d *compare.Difference) bool {
			return strings.HasSuffix(d.Path, ".error.code") && d.Direct == "1163"
		},
		Ends:   true,
		Reason: "BLOB, TEXT and others that MEMORY refuses become possible",
	},
}

var (
	addsIndex   = regexp.MustCompile(`\bCREATE INDEX\b`)
	maintains   = regexp.MustCompile(`\b(ANALYZE|OPTIMIZE)\b.*\bTABLES?\b`)
	altersTable = regexp.MustCompile(`\bALTER\s+TABLE\b`)
	listsTables = regexp.MustCompile(`^\s*SHOW (FULL )?TABLES\b`)
	runsText    = regexp.MustCompile(`\b(CALL|EXECUTE)\b`)
	columnType  = regexp.MustCompile(`\.column\[\d+\]\.(type|flags|length|decimals|collation)$`)
	columnFlags = regexp.MustCompile(`\.column\[\d+\]\.flags$`)
	rowPath     = regexp.MustCompile(`^(result\[\d+\])\.row\[(\d+)\]`)
	engine      = regexp.MustCompile(`(?i)ENGINE=\w+( USING HASH)?| USING HASH|\b(MEMORY|HEAP|MyISAM|InnoDB)\b`)
	writes      = regexp.MustCompile(`\b(INSERT|REPLACE|UPDATE|DELETE|LOAD|CALL|EXECUTE|COMMIT)\b|AS SELECT`)
	countsAll   = regexp.MustCompile(`\bCOUNT\(|\bCALL\b|\bEXECUTE\b`)
	isDDL       = regexp.MustCompile(`^\s*(CREATE|DROP|ALTER|RENAME)\b`)
)

// data matches rows, the number of rows and what a statement counts, but no error and no warning.
func data(d *compare.Difference) bool {
	return rowPath.MatchString(d.Path) || d.Path == "packets" ||
		strings.HasSuffix(d.Path, ".affected_rows") || strings.HasSuffix(d.Path, ".insert_id") || strings.HasSuffix(d.Path, ".info")
}

func warns(d *compare.Difference) bool { return strings.HasSuffix(d.Path, ".warnings") }

// mayBeWiped tells whether a parked table may have been dropped before the present step, or before an earlier one, that left
// the list of warnings alone.
func (s *side) mayBeWiped() bool {
	return s.kept || s.mariadb && keepsDiagnostics.MatchString(s.text)
}

// warnsHere tells whether the numbers of warnings of a result of the same packet differ.
func warnsHere(d *compare.Difference) bool {
	for i := 0; ; i++ {
		field := "result[" + strconv.Itoa(i) + "].end.warnings"
		direct, ok := d.DirectEvent.Value(field)
		proxied, ok2 := d.ProxiedEvent.Value(field)
		if !ok || !ok2 || direct != proxied {
			return ok && ok2
		}
	}
}

func executesHandle(s *compare.Step) bool { return s.Verb == execute || s.Verb == cursor }

// leftOut matches column definitions that only one side got, directly, and that the client may have from earlier on.
func leftOut(d *compare.Difference) bool {
	m := ofResult.FindStringSubmatch(d.Path)
	if d.Path == "packets" {
		m = []string{"", "result[0]", ""}
	}
	if m == nil {
		return false
	}
	sent, _ := d.DirectEvent.Value(m[1] + ".metadata")
	kept, _ := d.ProxiedEvent.Value(m[1] + ".metadata")
	if sent != "1" || kept != "0" {
		return false
	}
	if d.Path != "packets" {
		return strings.HasPrefix(m[2], "column[") && d.Proxied == "(absent)" || m[2] == "metadata"
	}
	columns, _ := d.DirectEvent.Value(m[1] + ".columns")
	n, err := strconv.Atoi(columns)
	direct, err1 := strconv.Atoi(d.Direct)
	proxied, err2 := strconv.Atoi(d.Proxied)
	return err == nil && err1 == nil && err2 == nil && direct-proxied == n
}

var ofResult = regexp.MustCompile(`^(result\[\d+\])\.(.*)$`)

var nearText = regexp.MustCompile(`^(.* near ')(.*)(' at line \d+")$`)

// quotesMore tells whether two messages are about the same syntax error, of whose statement the first quotes more.
func quotesMore(direct, proxied string) bool {
	d, p := nearText.FindStringSubmatch(direct), nearText.FindStringSubmatch(proxied)
	return d != nil && p != nil && d[1] == p[1] && d[3] == p[3] && strings.HasPrefix(d[2], p[2])
}

// mixed is MySQL's warning 6414, which names the table that had been written to when the engines were first combined.
var mixed = regexp.MustCompile(`^"Combining the storage engines \w+ and \w+ is deprecated, `)

// quotesMix tells whether two messages differ by that warning, which ERR 1175 quotes.
func quotesMix(d *compare.Difference) bool {
	const warning = "Combining the storage engines "
	long, short := strings.Trim(d.Direct, `"`), strings.Trim(d.Proxied, `"`)
	if len(long) < len(short) {
		long, short = short, long
	}
	return strings.HasSuffix(d.Path, ".error.message") && strings.HasPrefix(long, short) && strings.HasPrefix(strings.TrimSpace(long[len(short):]), warning)
}

// mixes matches a list of warnings of which one has MySQL's 6414, and the number of its entries.
func mixes(d *compare.Difference) bool {
	direct, proxied := d.DirectEvent.Rows("result[0]"), d.ProxiedEvent.Rows("result[0]")
	tells := func(rows []string) bool { return strings.Contains(strings.Join(rows, ""), `"6414"`) }
	return data(d) && tells(direct) != tells(proxied)
}

// tellsState matches the state of a session, and the empty info that an OK has only for its sake.
func tellsState(d *compare.Difference) bool {
	return strings.HasSuffix(d.Path, ".state") || strings.HasSuffix(d.Path, ".info") && strings.Trim(d.Direct+d.Proxied, `"`) == "(absent)"
}

var warningsInfo = regexp.MustCompile(`^(.* Warnings: )(\d+)"$`)

// byOne tells whether two numbers of warnings differ by one.
func byOne(d *compare.Difference) bool {
	direct, proxied := d.Direct, d.Proxied
	if strings.HasSuffix(d.Path, ".info") {
		a, b := warningsInfo.FindStringSubmatch(direct), warningsInfo.FindStringSubmatch(proxied)
		if a == nil || b == nil || a[1] != b[1] {
			return false
		}
		direct, proxied = a[2], b[2]
	} else if !warns(d) {
		return false
	}
	a, err := strconv.Atoi(direct)
	if err != nil {
		return false
	}
	b, err := strconv.Atoi(proxied)
	return err == nil && (a-b == 1 || b-a == 1)
}

// failed tells whether either side got an error, or warnings that the other did not get.
func failed(d *compare.Difference) bool {
	_, direct := d.DirectEvent.Value("result[0].error.code")
	_, proxied := d.ProxiedEvent.Value("result[0].error.code")
	return direct || proxied || warns(d)
}

// keyFlags matches flags of a column that tell of keys.
func keyFlags(d *compare.Difference) bool {
	const keys = 0x8 | mysql.PRI_KEY_FLAG | mysql.UNIQUE_KEY_FLAG | mysql.PART_KEY_FLAG | mysql.AUTO_INCREMENT_FLAG
	direct, err := strconv.ParseUint(d.Direct, 0, 16)
	proxied, err2 := strconv.ParseUint(d.Proxied, 0, 16)
	return columnFlags.MatchString(d.Path) && err == nil && err2 == nil && (direct^proxied)&^keys == 0
}

// inTransaction tells whether just one side refused because of an open transaction, or of one that is not open.
func inTransaction(d *compare.Difference) bool {
	for _, e := range []*compare.Event{d.DirectEvent, d.ProxiedEvent} {
		code, _ := e.Value("result[0].error.code")
		if slices.Contains([]string{"1568", "1400", "1694", "1560", "1766", "1679", "1792"}, code) {
			return true
		}
	}
	return false
}

// openDiffers tells whether only one side has a transaction open.
func (s *side) openDiffers() bool { return (s.direct^s.proxied)&mysql.SERVER_STATUS_IN_TRANS != 0 }

// sameRows matches the rows of a result when both sides have the same ones in another order.
func sameRows(d *compare.Difference) bool {
	m := rowPath.FindStringSubmatch(d.Path)
	if m == nil {
		return false
	}
	direct, proxied := d.DirectEvent.Rows(m[1]), d.ProxiedEvent.Rows(m[1])
	slices.Sort(direct)
	slices.Sort(proxied)
	return slices.Equal(direct, proxied)
}

var resultNumber = regexp.MustCompile(`^result\[(\d+)\]`)

// statementOf returns the statement of a packet that a difference is in the result of, if statements and results go together.
func statementOf(packet string, d *compare.Difference) string {
	m := resultNumber.FindStringSubmatch(d.Path)
	if m == nil {
		return packet
	}
	statements := strings.Split(packet, ";")
	if n, err := strconv.Atoi(m[1]); err == nil && n < len(statements) {
		return statements[n]
	}
	return packet
}
