package session

import (
	"strconv"
	"strings"
	"sync"
)

// op is what a statement of the model does.
type op int

const (
	opNone op = iota
	opCreateTemporary
	opDropTable
	opTruncate
	opInsert
	opReplace
	opUpdate
	opDelete
	opSelect
	opSelectOne
	opSelectRowCount
	opSelectWarningCount
	opShowWarnings
	opShowCreate
	opShowCreateView
	opShowTables
	opDo
	opFunction
	opCall
	opSet
	opUse
	opBegin
	opCommit
	opRollback
	opRollbackTo
	opSavepoint
	opLock
	opUnlock
	opXA
	opFlush
	opCreateTable
	opCreateView
	opDropView
	opAlter
	opRename
	opDatabase
	opPrepare
	opExecute
)

type name struct{ schema, table string }

type assignment struct{ scope, key, value string }

// statement is one statement that the model understands. It is never changed once made.
type statement struct {
	op          op
	names       []name
	values      []int
	columns     string
	engine      string
	union       Key
	source      *name
	like        bool
	orReplace   bool
	ifNotExists bool
	ifExists    bool
	temporary   bool
	readOnly    bool
	chain       bool
	own         bool // it is the proxy's
	tables      bool // it uses tables: MariaDB empties the list of warnings for it
	word, text  string
	sets        []assignment
}

var parsed sync.Map // text -> []*statement

// parse reads the model's few statements; what it does not know has op opNone.
func parse(text string) []*statement {
	if list, ok := parsed.Load(text); ok {
		return list.([]*statement)
	}
	var list []*statement
	quoted := strings.HasPrefix(text, "PREPARE")
	for _, part := range strings.Split(text, ";") {
		if quoted {
			part = text
		}
		p := &parser{st: &statement{}}
		p.read(part)
		list = append(list, p.st)
		if quoted {
			break
		}
	}
	parsed.Store(text, list)
	return list
}

type parser struct {
	words []string
	st    *statement
}

func (p *parser) accept(words ...string) bool {
	if len(p.words) < len(words) {
		return false
	}
	for i, w := range words {
		if !strings.EqualFold(p.words[i], w) {
			return false
		}
	}
	p.words = p.words[len(words):]
	return true
}

func (p *parser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

func (p *parser) name() name {
	w := p.next()
	if schema, table, ok := strings.Cut(w, "."); ok {
		return name{schema, table}
	}
	return name{"", w}
}

func (p *parser) read(text string) {
	st := p.st
	st.own = strings.Contains(text, "tmpproxy */")
	if i := strings.Index(text, "*/"); i >= 0 {
		text = text[i+2:]
	}
	p.words = strings.Fields(strings.NewReplacer("`", "", "(", " ( ", ")", " ) ", ",", " , ", "=", " = ").Replace(text))
	switch {
	case p.accept("CREATE", "OR", "REPLACE", "TEMPORARY", "TABLE"):
		st.orReplace = true
		p.createTemporary()
	case p.accept("CREATE", "TEMPORARY", "TABLE"):
		p.createTemporary()
	case p.accept("CREATE", "TABLE"):
		st.op, st.tables = opCreateTable, true
		st.ifNotExists = p.accept("IF", "NOT", "EXISTS")
		st.names = []name{p.name()}
	case p.accept("CREATE", "VIEW"):
		st.op, st.tables, st.names = opCreateView, true, []name{p.name()}
	case p.accept("CREATE", "DATABASE"):
		st.op, st.word, st.text = opDatabase, "CREATE", p.next()
	case p.accept("ALTER", "DATABASE"):
		st.op, st.word, st.text = opDatabase, "ALTER", p.next()
		p.accept("CHARACTER", "SET")
		st.engine = p.next()
	case p.accept("DROP", "DATABASE"):
		st.op, st.word, st.text = opDatabase, "DROP", p.next()
	case p.accept("DROP", "VIEW"):
		st.op, st.tables, st.names = opDropView, true, []name{p.name()}
	case p.accept("DROP", "TEMPORARY", "TABLE"), p.accept("DROP", "TABLE"):
		st.op, st.tables = opDropTable, true
		st.temporary = strings.Contains(strings.ToUpper(text), "TEMPORARY")
		st.ifExists = p.accept("IF", "EXISTS")
		st.names = append(st.names, p.name())
		for p.accept(",") {
			st.names = append(st.names, p.name())
		}
	case p.accept("TRUNCATE", "TABLE"):
		st.op, st.tables, st.names = opTruncate, true, []name{p.name()}
	case p.accept("INSERT", "INTO"), p.accept("REPLACE", "INTO"):
		st.op, st.tables, st.names = opInsert, true, []name{p.name()}
		if strings.HasPrefix(strings.TrimSpace(strings.ToUpper(text)), "REPLACE") {
			st.op = opReplace
		}
		for _, w := range p.words {
			if v, err := strconv.Atoi(w); err == nil {
				st.values = append(st.values, v)
			}
		}
	case p.accept("UPDATE"):
		st.op, st.tables, st.names = opUpdate, true, []name{p.name()}
	case p.accept("DELETE", "FROM"):
		st.op, st.tables, st.names = opDelete, true, []name{p.name()}
	case p.accept("SELECT", "*", "FROM"):
		st.op, st.tables, st.names = opSelect, true, []name{p.name()}
	case p.accept("SELECT", "1"):
		st.op = opSelectOne
	case p.accept("SELECT", "ROW_COUNT"):
		st.op = opSelectRowCount
	case p.accept("SELECT", "@@warning_count"):
		st.op = opSelectWarningCount
	case p.accept("SELECT"):
		st.op, st.word = opFunction, p.next()
	case p.accept("SHOW", "WARNINGS"):
		st.op = opShowWarnings
	case p.accept("SHOW", "CREATE", "TABLE"):
		st.op, st.tables, st.names = opShowCreate, true, []name{p.name()}
	case p.accept("SHOW", "CREATE", "VIEW"):
		st.op, st.tables, st.names = opShowCreateView, true, []name{p.name()}
	case p.accept("SHOW", "TABLES"):
		st.op, st.tables = opShowTables, true
	case p.accept("DO", "0"):
		st.op = opDo
	case p.accept("CALL"):
		st.op, st.word = opCall, p.next()
	case p.accept("SET"):
		p.set()
	case p.accept("USE"):
		st.op, st.word = opUse, p.next()
	case p.accept("BEGIN"):
		st.op = opBegin
	case p.accept("START", "TRANSACTION"):
		st.op, st.readOnly = opBegin, p.accept("READ", "ONLY")
	case p.accept("COMMIT"):
		st.op, st.chain = opCommit, p.accept("AND", "CHAIN")
	case p.accept("ROLLBACK", "TO"):
		st.op, st.word = opRollbackTo, p.next()
	case p.accept("ROLLBACK"):
		st.op = opRollback
	case p.accept("SAVEPOINT"):
		st.op, st.word = opSavepoint, p.next()
	case p.accept("LOCK", "TABLES"):
		st.op, st.tables, st.names = opLock, true, []name{p.name()}
	case p.accept("UNLOCK", "TABLES"):
		st.op = opUnlock
	case p.accept("XA"):
		st.op, st.word = opXA, p.next()
	case p.accept("FLUSH"):
		st.op = opFlush
	case p.accept("ALTER", "TABLE"):
		st.op, st.tables, st.names = opAlter, true, []name{p.name()}
		switch {
		case p.accept("RENAME", "TO"):
			st.word, st.names = "RENAME", append(st.names, p.name())
		case p.accept("UNION", "=", "("):
			st.word, st.names = "UNION", append(st.names, p.name())
		}
	case p.accept("RENAME", "TABLE"):
		st.op, st.tables, st.names = opRename, true, []name{p.name()}
		p.accept("TO")
		st.names = append(st.names, p.name())
	case p.accept("PREPARE"):
		st.op, st.word = opPrepare, p.next()
		_, st.text, _ = strings.Cut(text, "'")
		st.text = strings.TrimSuffix(st.text, "'")
		st.tables = parse(st.text)[0].tables
	case p.accept("EXECUTE"):
		st.op, st.word = opExecute, p.next()
	}
}

func (p *parser) createTemporary() {
	st := p.st
	st.op, st.tables = opCreateTemporary, true
	st.ifNotExists = p.accept("IF", "NOT", "EXISTS")
	st.names = []name{p.name()}
	if p.accept("LIKE") {
		n := p.name()
		st.source, st.like = &n, true
		return
	}
	depth := 0
	var columns []string
	for len(p.words) > 0 && (depth > 0 || p.words[0] == "(") {
		w := p.next()
		switch w {
		case "(":
			depth++
		case ")":
			depth--
		}
		columns = append(columns, w)
	}
	st.columns = strings.ReplaceAll(strings.Join(columns, " "), "INT ( 5 )", "INT(5)")
	for len(p.words) > 0 {
		switch {
		case p.accept("ENGINE"):
			p.accept("=")
			st.engine = map[string]string{"INNODB": "InnoDB", "MEMORY": "MEMORY", "MYISAM": "MyISAM", "MERGE": "MERGE"}[strings.ToUpper(p.next())]
		case p.accept("UNION", "=", "("):
			n := p.name()
			st.union = Key{n.schema, n.table}
			p.accept(")")
		case p.accept("AS", "SELECT", "*", "FROM"), p.accept("SELECT", "*", "FROM"):
			n := p.name()
			st.source = &n
		default:
			p.next()
		}
	}
}

func (p *parser) set() {
	st := p.st
	st.op = opSet
	scope := ""
	switch {
	case p.accept("SESSION"):
		scope = "session"
	case p.accept("GLOBAL"):
		scope = "global"
	}
	if p.accept("TRANSACTION") {
		st.sets = append(st.sets, assignment{scope, "transaction", strings.ToUpper(strings.Join(p.words, " "))})
		return
	}
	if p.accept("NAMES") {
		st.sets = append(st.sets, assignment{scope, "names", p.next()})
		return
	}
	for len(p.words) > 0 {
		key := strings.ToLower(p.next())
		if !p.accept("=") {
			st.op = opNone
			return
		}
		value := strings.Trim(p.next(), "'")
		if key == "@@transaction_isolation" {
			key, value = "transaction", "ISOLATION LEVEL"
		}
		st.sets = append(st.sets, assignment{scope, key, value})
		if !p.accept(",") {
			return
		}
	}
}
