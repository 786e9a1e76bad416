package wire

// ResultKind is what a reply turned out to be.
type ResultKind uint8

const (
	ResultNone  ResultKind = iota // not complete yet
	ResultOK                      // an OK packet, or the EOF packet of a command without a result set
	ResultErr                     // an ERR packet, at the start or in the middle of a result
	ResultSet                     // rows, ended by EOF
	ResultOther                   // a string or a list of definitions
)

// Result is what is known of a complete reply. Of several results it is the last that counts, but for the fields that
// say otherwise.
type Result struct {
	Kind               ResultKind
	Code               uint16 // of the ERR packet
	HasStatus          bool   // Status was told: ERR packets, strings and prepare-OKs have none
	Status, Warnings   uint16 // of the last OK or EOF packet; Warnings of a prepare-OK too
	Affected, InsertID uint64 // of the last OK packet, zero behind rows
	Rows               uint64 // rows of all results

	// Of a prepared statement.
	StatementID     uint32
	Params, Columns uint16

	Results int // how many results the reply had: 1, or more with multi-statements and CALL

	// Session state (CLIENT_SESSION_TRACK) in any OK packet of the reply.
	StateChanged bool // SERVER_SESSION_STATE_CHANGED was set
	// StateChange: entries of type STATE_CHANGE, TRANSACTION_CHARACTERISTICS or TRANSACTION_STATE were there, or may have been,
	// but for what MySQL says of transactions unasked.
	StateChange   bool
	SchemaChanged bool   // an entry of type SCHEMA was there, or may have been
	Schema        []byte // the last such entry (empty: no schema), valid until the next Begin; nil if it was not seen whole
}

// Types of session state entries.
const (
	trackSchema          = 1
	trackStateChange     = 2
	trackCharacteristics = 4
	trackTransaction     = 5
)

// progressCode is the error number under which MariaDB reports progress.
const progressCode = 0xffff

// phase is what the next payload of a reply will be.
type phase uint8

const (
	phaseDone           phase = iota // nothing: the reply is complete
	phaseFirst                       // OK, ERR, LOCAL INFILE or a column count
	phaseColumns                     // a column definition
	phaseColumnsEOF                  // the EOF behind the column definitions
	phaseRows                        // a row, or the end of the rows
	phasePrepare                     // prepare-OK
	phaseDefinitions                 // a definition of a parameter or a column of a prepared statement
	phaseDefinitionsEOF              // the EOF behind them
	phaseFields                      // a definition of COM_FIELD_LIST, or their end
	phaseString                      // the string of COM_STATISTICS
	phaseOne                         // OK, ERR or EOF
	phaseAuth                        // a turn of an authentication
	phaseRaw                         // anything
)

const (
	keptPayload = 512 // bytes of a payload that are looked at; only session state can be longer
	keptSchema  = 256 // 64 characters of 4 bytes: no schema has a longer name
)

// ResponseTracker finds the end of a reply and notes what it was. Begin, Scan and Result do not allocate.
type ResponseTracker struct {
	tracked
	head   [keptPayload]byte // beginning of a payload that arrives in pieces
	schema [keptSchema]byte
}

// tracked is what a tracker knows of the present reply, besides the bytes it keeps.
type tracked struct {
	caps    Capability
	mariadb bool
	infile  bool
	query   bool // more results may follow one
	another bool // another result follows, whatever the end of this one says
	omitted bool // the definitions of a prepared statement are left out
	phase   phase
	framer  Framer
	rest    [2]uint16 // definitions of a prepared statement still to come: parameters, columns
	columns uint64    // column definitions still to come
	kept    int       // bytes in head
	schemaN int       // bytes in schema; -1 if it was not seen whole
	result  Result
}

// Begin makes the tracker ready for the reply to a command. caps are the negotiated capabilities.
func (t *ResponseTracker) Begin(cmd Command, caps Capability, mariadb bool) {
	t.tracked = tracked{caps: caps, mariadb: mariadb}
	switch cmd.Shape() {
	case ShapeNone:
		t.phase = phaseDone
	case ShapeQuery:
		t.phase, t.query = phaseFirst, true
	case ShapePrepare:
		t.phase = phasePrepare
	case ShapeFieldList:
		t.phase = phaseFields
	case ShapeFetch:
		t.phase = phaseRows
	case ShapeStatistics:
		t.phase = phaseString
	case ShapeOK, ShapeUnknown:
		t.phase = phaseOne
	case ShapeAuth:
		t.phase = phaseAuth
	default:
		t.phase = phaseRaw
	}
}

// Scan looks at bytes from the server: n of them belong to the present reply. With done set the reply is complete and
// the rest of b belongs to something else.
func (t *ResponseTracker) Scan(b []byte) (n int, done bool) {
	for n < len(b) && t.phase != phaseDone && t.phase != phaseRaw {
		t.infile = false
		if rest := b[n:]; len(rest) >= HeaderSize && t.framer.Between() {
			if length, _ := Header(rest); length < MaxPayload && HeaderSize+length <= len(rest) {
				t.payload(rest[HeaderSize:HeaderSize+min(length, keptPayload)], length)
				n += HeaderSize + length
				continue
			}
		}
		data, used, end := t.framer.next(b[n:])
		n += used
		t.kept += copy(t.head[t.kept:], data)
		if end {
			kept := t.kept
			t.kept = 0
			t.payload(t.head[:kept], t.framer.size)
		}
	}
	if t.phase == phaseRaw {
		return len(b), false
	}
	return n, t.phase == phaseDone
}

// Infile tells whether the server has asked for a LOCAL INFILE and said nothing since: the client's packets up to an
// empty one belong to the command, and Scan goes on with the reply.
func (t *ResponseTracker) Infile() bool { return t.infile }

// Raw tells whether the end of the reply cannot be found: everything belongs to it from now on.
func (t *ResponseTracker) Raw() bool { return t.phase == phaseRaw }

// Result returns what is known of the reply; it is whole when Scan has said done.
func (t *ResponseTracker) Result() Result {
	r := t.result
	if r.SchemaChanged && t.schemaN >= 0 {
		r.Schema = t.schema[:t.schemaN:t.schemaN]
	}
	return r
}

// payload takes the first keptPayload bytes of a logical payload of the given size.
func (t *ResponseTracker) payload(p []byte, size int) {
	var first byte
	if size > 0 {
		first = p[0]
	} else if t.phase != phaseRows && t.phase != phaseString && t.phase != phaseAuth {
		t.phase = phaseRaw
		return
	}
	if first == headerErr {
		t.err(p)
		return
	}
	switch t.phase {
	case phaseFirst:
		switch {
		case first == headerOK:
			t.ok(p, ResultOK)
		case first == headerInfile:
			t.infile = true
		case t.isEOF(first, size):
			t.eof(p, size, ResultOK)
		default:
			t.columnCount(p)
		}
	case phaseColumns:
		if t.columns--; t.columns == 0 {
			t.columnsEnd()
		}
	case phaseColumnsEOF:
		t.columnsEOF(p, size)
	case phaseRows:
		if t.isEOF(first, size) {
			t.eof(p, size, ResultSet)
		} else {
			t.result.Rows++
		}
	case phasePrepare:
		t.prepared(p)
	case phaseDefinitions:
		list := t.list()
		if *list--; *list == 0 {
			t.definitionsEnd()
		}
	case phaseDefinitionsEOF:
		status, _, err := ParseEOF(p, t.caps)
		if err != nil {
			t.phase = phaseRaw
			return
		}
		t.result.Status, t.result.HasStatus = status, t.caps.Has(ClientProtocol41)
		t.definitions()
	case phaseFields:
		if t.isEOF(first, size) {
			t.eof(p, size, ResultOther)
		}
	case phaseString:
		t.end(ResultOther)
	case phaseOne:
		switch {
		case first == headerOK:
			t.ok(p, ResultOK)
		case t.isEOF(first, size):
			t.eof(p, size, ResultOK)
		default:
			t.phase = phaseRaw
		}
	case phaseAuth:
		if size > 0 && first == headerOK {
			t.ok(p, ResultOK)
		}
	}
}

// isEOF tells an EOF packet, or the OK packet that stands for it, from a row that begins with the same byte: such a row
// has a first column of 16 MiB or more.
func (t *ResponseTracker) isEOF(first byte, size int) bool {
	if first != headerEOF {
		return false
	}
	if t.caps.Has(ClientDeprecateEOF) {
		return size < MaxPayload
	}
	return size < 9
}

// err takes an ERR packet, which ends the whole reply, or a progress report, which changes nothing.
func (t *ResponseTracker) err(p []byte) {
	v := view{b: p[1:]}
	code := v.uint16()
	// SIGNAL can raise error 65535 too; a report has a count where an error has the '#' of its SQLSTATE.
	if code == progressCode && t.mariadb && t.caps&(MariaDBProgress|ClientProgress) != 0 && v.uint8() != '#' {
		return
	}
	r := &t.result
	r.Code, r.HasStatus = code, false
	r.Status, r.Warnings, r.Affected, r.InsertID = 0, 0, 0, 0
	t.another = false
	t.end(ResultErr)
}

// ok takes an OK packet, whose kept bytes are p and whose header is 0x00 or 0xFE.
func (t *ResponseTracker) ok(p []byte, kind ResultKind) {
	v := view{b: p[1:]}
	r := &t.result
	r.Affected, r.InsertID = v.lenenc(), v.lenenc()
	r.Status, r.Warnings = 0, 0
	r.HasStatus = t.caps&(ClientProtocol41|ClientTransactions) != 0
	if t.caps.Has(ClientProtocol41) {
		r.Status, r.Warnings = v.uint16(), v.uint16()
	} else if t.caps.Has(ClientTransactions) {
		r.Status = v.uint16()
	}
	if v.short {
		t.phase = phaseRaw
		return
	}
	if r.Status&StatusSessionStateChanged != 0 && t.caps.Has(ClientSessionTrack) && len(v.b) > 0 {
		t.state(&v)
	}
	t.end(kind)
}

// state reads what follows the warnings of an OK packet: the info and the session state entries.
func (t *ResponseTracker) state(v *view) {
	r := &t.result
	v.lenencString()
	length := v.lenenc()
	whole := length <= uint64(len(v.b))
	if whole {
		v.b = v.b[:length]
	}
	for len(v.b) > 0 {
		kind, data := v.uint8(), v.lenencString()
		if v.short {
			break
		}
		switch kind {
		case trackSchema:
			name := view{b: data}
			schema := name.lenencString()
			r.SchemaChanged = true
			t.schemaN = copy(t.schema[:], schema)
			if name.short || len(schema) > keptSchema {
				t.schemaN = -1
			}
		case trackStateChange, trackCharacteristics:
			r.StateChange = true
		case trackTransaction:
			// MySQL tells of a START TRANSACTION, and takes that back with DDL in it, whether it was asked to or not
			// (observed on 9.7 with session_track_transaction_info=OFF). Only more than that tells that it was.
			told := view{b: data}
			if now := string(told.lenencString()); now != "T_______" && now != "________" {
				r.StateChange = true
			}
		}
	}
	if v.short || !whole { // what was not kept may be any entry
		r.StateChange, r.SchemaChanged = true, true
		t.schemaN = -1
	}
}

// eof takes an EOF packet, or the OK packet that stands for it.
func (t *ResponseTracker) eof(p []byte, size int, kind ResultKind) {
	if t.caps.Has(ClientDeprecateEOF) && size >= 7 {
		t.ok(p, kind)
		return
	}
	status, warnings, err := ParseEOF(p, t.caps)
	if err != nil {
		t.phase = phaseRaw
		return
	}
	r := &t.result
	r.Status, r.Warnings = status, warnings
	r.HasStatus = t.caps.Has(ClientProtocol41)
	r.Affected, r.InsertID = 0, 0
	t.end(kind)
}

// end notes the end of a result, and of the reply if no other result follows.
func (t *ResponseTracker) end(kind ResultKind) {
	r := &t.result
	r.Kind = kind
	r.Results++
	if r.Status&StatusSessionStateChanged != 0 {
		r.StateChanged = true
	}
	t.phase = phaseDone
	if t.query && (t.another || r.Status&StatusMoreResultsExists != 0) {
		t.phase = phaseFirst
	}
	t.another = false
}

// columnCount takes the first payload of a result set.
func (t *ResponseTracker) columnCount(p []byte) {
	v := view{b: p}
	t.columns = v.lenenc()
	follow := true
	if t.mariadb && t.caps.Has(MariaDBCacheMetadata) || !t.mariadb && t.caps.Has(ClientOptionalResultsetMeta) {
		follow = v.uint8() != 0
	}
	switch {
	case v.short || len(v.b) > 0 || t.columns == 0:
		t.phase = phaseRaw
	case follow:
		t.phase = phaseColumns
	default:
		t.columnsEnd()
	}
}

// columnsEnd goes on behind the column definitions of a result set.
func (t *ResponseTracker) columnsEnd() {
	t.phase = phaseRows
	if !t.caps.Has(ClientDeprecateEOF) {
		t.phase = phaseColumnsEOF
	}
}

// columnsEOF takes the EOF packet between the column definitions and the rows.
func (t *ResponseTracker) columnsEOF(p []byte, size int) {
	status, _, err := ParseEOF(p, t.caps)
	switch {
	case err != nil:
		t.phase = phaseRaw
	case status&StatusCursorExists != 0: // the rows wait for COM_STMT_FETCH
		t.eof(p, size, ResultSet)
	default:
		// Behind the values of OUT parameters an OK follows, but MySQL says so only here and not after the row.
		const out = StatusPSOutParams | StatusMoreResultsExists
		t.another = status&out == out
		t.phase = phaseRows
	}
}

// prepared takes a prepare-OK.
func (t *ResponseTracker) prepared(p []byte) {
	v := view{b: p}
	r := &t.result
	header := v.uint8()
	r.StatementID, r.Columns, r.Params = v.uint32(), v.uint16(), v.uint16()
	if v.short || header != headerOK {
		t.phase = phaseRaw
		return
	}
	v.uint8()
	r.Warnings = v.uint16()
	if !t.mariadb && t.caps.Has(ClientOptionalResultsetMeta) {
		t.omitted = v.uint8() == 0
	}
	t.rest = [2]uint16{r.Params, r.Columns}
	t.definitions()
}

// list returns the count of the list of definitions that comes next: parameters, then columns.
func (t *ResponseTracker) list() *uint16 {
	if t.rest[0] > 0 {
		return &t.rest[0]
	}
	return &t.rest[1]
}

// definitions goes on with the next list of definitions of a prepared statement, if there is another.
func (t *ResponseTracker) definitions() {
	switch list := t.list(); {
	case *list == 0:
		t.end(ResultOK)
	case t.omitted: // but for the EOF behind them
		*list = 0
		t.definitionsEnd()
	default:
		t.phase = phaseDefinitions
	}
}

// definitionsEnd goes on behind a list of definitions.
func (t *ResponseTracker) definitionsEnd() {
	if t.caps.Has(ClientDeprecateEOF) {
		t.definitions()
	} else {
		t.phase = phaseDefinitionsEOF
	}
}
