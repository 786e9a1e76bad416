package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// reply is a made-up server that writes replies as MySQL and MariaDB do under given capabilities.
type reply struct {
	caps    Capability
	mariadb bool
	bytes   []byte
	seq     byte
	infile  []int // offsets behind which the client has to send its file
}

func (r *reply) packet(payload string) {
	r.seq++
	r.bytes = appendPayload(r.bytes, r.seq, []byte(payload))
}

func (r *reply) ok(ok OK) {
	r.seq++
	r.bytes = AppendOK(r.bytes, r.seq, r.caps, ok)
}

func (r *reply) err(code uint16) {
	r.seq++
	r.bytes = AppendErr(r.bytes, r.seq, r.caps, Err{Code: code, State: "42000", Message: "no"})
}

// eof is the end of a list: an EOF packet, or the OK packet that stands for it.
func (r *reply) eof(status, warnings uint16) {
	r.seq++
	if !r.caps.Has(ClientDeprecateEOF) {
		r.bytes = append(r.bytes, 5, 0, 0, r.seq, 0xfe, byte(warnings), byte(warnings>>8), byte(status), byte(status>>8))
		return
	}
	at := len(r.bytes) + HeaderSize
	r.bytes = AppendOK(r.bytes, r.seq, r.caps, OK{Status: status, Warnings: warnings})
	r.bytes[at] = 0xfe
}

// eofBetween is the EOF packet behind definitions, which CLIENT_DEPRECATE_EOF does away with.
func (r *reply) eofBetween(status uint16) {
	if !r.caps.Has(ClientDeprecateEOF) {
		r.eof(status, 0)
	}
}

func (r *reply) definitions(n int) {
	for i := range n {
		r.packet(fmt.Sprintf("\x03def\x00\x00\x00\x02%02d\x00\x0c\x3f\x00\x01\x00\x00\x00\x08\x81\x00\x00\x00\x00", i%100))
	}
}

// hasMetadata tells whether a column count says if definitions follow.
func (r *reply) hasMetadata() bool {
	return r.mariadb && r.caps.Has(MariaDBCacheMetadata) || !r.mariadb && r.caps.Has(ClientOptionalResultsetMeta)
}

// columns is the beginning of a result set up to its rows.
func (r *reply) columns(n int, status uint16) {
	count := string(appendLenenc(nil, uint64(n)))
	if r.hasMetadata() {
		count += "\x01"
	}
	r.packet(count)
	r.definitions(n)
	r.eofBetween(status)
}

// columnsOmitted is columns of a server that trusts the client to know the definitions.
func (r *reply) columnsOmitted(n int, status uint16) {
	if !r.hasMetadata() {
		r.columns(n, status)
		return
	}
	r.packet(string(appendLenenc(nil, uint64(n))) + "\x00")
	r.eofBetween(status)
}

func (r *reply) infileRequest() {
	r.packet("\xfbfile.csv")
	r.infile = append(r.infile, len(r.bytes))
	r.seq += 2
}

// prepared is a prepare-OK.
func (r *reply) prepared(id uint32, columns, params, warnings uint16, metadata bool) {
	b := append([]byte{0}, binary.LittleEndian.AppendUint32(nil, id)...)
	b = binary.LittleEndian.AppendUint16(b, columns)
	b = binary.LittleEndian.AppendUint16(b, params)
	b = append(b, 0, byte(warnings), byte(warnings>>8))
	if !r.mariadb && r.caps.Has(ClientOptionalResultsetMeta) {
		b = append(b, 0)
		if metadata {
			b[len(b)-1] = 1
		}
	}
	r.packet(string(b))
}

const (
	more  = StatusAutocommit | StatusMoreResultsExists
	plain = StatusAutocommit
)

// progress is a report of MariaDB: stage 1 of 2, 3.2 %.
const progress = "\xff\xff\xff\x01\x01\x02\x80\x0c\x00\x0ccopy to temp"

type replyCase struct {
	name     string
	commands []Command
	write    func(r *reply) Result
}

// status is what a Result of a classic reply says and one under CLIENT_DEPRECATE_EOF does not: the flags of the EOF
// behind the definitions of a prepared statement.
func (r *reply) status(status uint16, result Result) Result {
	if !r.caps.Has(ClientDeprecateEOF) {
		result.Status, result.HasStatus = status, true
	}
	return result
}

var (
	queries = []Command{ComQuery, ComStmtExecute, ComStmtBulkExecute, ComProcessInfo}
	singles = []Command{ComInitDB, ComCreateDB, ComDropDB, ComRefresh, ComShutdown, ComProcessKill, ComDebug, ComPing, ComRegisterSlave,
		ComStmtReset, ComSetOption, ComResetConnection, ComSleep, ComTime, 0x22, 0x99, 0xff}
)

var replyCases = []replyCase{
	{"ok", queries, func(r *reply) Result {
		r.ok(OK{Affected: 3, InsertID: 70000, Status: plain | StatusInTrans, Warnings: 2})
		return Result{Kind: ResultOK, HasStatus: true, Affected: 3, InsertID: 70000, Status: plain | StatusInTrans, Warnings: 2, Results: 1}
	}},
	{"ok with info", queries, func(r *reply) Result {
		r.ok(OK{Affected: 300, Status: plain, Info: []byte("Records: 300  Duplicates: 0  Warnings: 0")})
		return Result{Kind: ResultOK, HasStatus: true, Affected: 300, Status: plain, Results: 1}
	}},
	{"ok with state", queries, func(r *reply) Result {
		r.ok(OK{Status: plain | StatusSessionStateChanged, Info: []byte("i"), State: []byte("\x00\x0f\x0aautocommit\x03OFF\x02\x011")})
		want := Result{Kind: ResultOK, HasStatus: true, Status: plain | StatusSessionStateChanged, StateChanged: true, Results: 1}
		want.StateChange = r.caps.Has(ClientSessionTrack)
		return want
	}},
	{"err", queries, func(r *reply) Result {
		r.err(1146)
		return Result{Kind: ResultErr, Code: 1146, Results: 1}
	}},
	{"err with an odd sequence number", queries, func(r *reply) Result {
		r.seq = 41
		r.err(3024)
		return Result{Kind: ResultErr, Code: 3024, Results: 1}
	}},
	{"err 65535", queries, func(r *reply) Result {
		r.err(65535)
		return Result{Kind: ResultErr, Code: 65535, Results: 1}
	}},
	{"eof", queries, func(r *reply) Result {
		r.eof(plain, 3)
		return Result{Kind: ResultOK, HasStatus: true, Status: plain, Warnings: 3, Results: 1}
	}},
	{"no rows", queries, func(r *reply) Result {
		r.columns(2, plain)
		r.eof(plain|StatusNoIndexUsed, 1)
		return Result{Kind: ResultSet, HasStatus: true, Status: plain | StatusNoIndexUsed, Warnings: 1, Results: 1}
	}},
	{"rows", queries, func(r *reply) Result {
		r.columns(2, plain)
		r.packet("\x011\x03one")
		r.packet("\xfb\x03NUL")     // NULL is no LOCAL INFILE here
		r.packet("\x00\x00")        // two empty strings are no OK
		r.packet("\x00\x00\x01one") // nor is a row of the binary protocol
		r.packet("\xfc\x04\x00long")
		r.eof(plain, 0)
		return Result{Kind: ResultSet, HasStatus: true, Status: plain, Rows: 5, Results: 1}
	}},
	{"many columns", queries, func(r *reply) Result {
		r.columns(300, plain)
		r.packet("\x00\x00")
		r.eof(plain, 0)
		return Result{Kind: ResultSet, HasStatus: true, Status: plain, Rows: 1, Results: 1}
	}},
	{"definitions left out", queries, func(r *reply) Result {
		r.columnsOmitted(2, plain)
		r.packet("\x011\x03one")
		r.eof(plain, 0)
		return Result{Kind: ResultSet, HasStatus: true, Status: plain, Rows: 1, Results: 1}
	}},
	{"definitions of many columns left out", queries, func(r *reply) Result {
		r.columnsOmitted(300, plain)
		r.eof(plain, 0)
		return Result{Kind: ResultSet, HasStatus: true, Status: plain, Results: 1}
	}},
	{"err after rows", queries, func(r *reply) Result {
		r.columns(1, plain)
		r.packet("\x011")
		r.packet("\x012")
		r.err(1690)
		return Result{Kind: ResultErr, Code: 1690, Rows: 2, Results: 1}
	}},
	{"err among definitions", queries, func(r *reply) Result {
		if r.packet("\x02"); r.hasMetadata() {
			r.bytes, r.seq = nil, 0
			r.packet("\x02\x01")
		}
		r.definitions(1)
		r.err(1041)
		return Result{Kind: ResultErr, Code: 1041, Results: 1}
	}},
	{"cursor", queries, func(r *reply) Result {
		r.columns(1, plain|StatusCursorExists)
		if r.caps.Has(ClientDeprecateEOF) {
			r.eof(plain|StatusCursorExists, 0)
		}
		return Result{Kind: ResultSet, HasStatus: true, Status: plain | StatusCursorExists, Results: 1}
	}},
	{"cursor, definitions left out", queries, func(r *reply) Result {
		r.columnsOmitted(1, plain|StatusCursorExists)
		if r.caps.Has(ClientDeprecateEOF) {
			r.eof(plain|StatusCursorExists, 0)
		}
		return Result{Kind: ResultSet, HasStatus: true, Status: plain | StatusCursorExists, Results: 1}
	}},
	{"several results", queries, func(r *reply) Result {
		r.ok(OK{Affected: 9, InsertID: 9, Status: more, Warnings: 9})
		r.columns(1, more)
		r.packet("\x011")
		r.eof(more, 0)
		r.columns(1, more)
		r.packet("\x011")
		r.packet("\x012")
		r.eof(more, 0)
		r.ok(OK{Affected: 1, Status: plain})
		return Result{Kind: ResultOK, HasStatus: true, Status: plain, Affected: 1, Rows: 3, Results: 4}
	}},
	{"ok, then rows", queries, func(r *reply) Result {
		r.ok(OK{Affected: 9, InsertID: 9, Status: more, Warnings: 9})
		r.columns(1, plain)
		r.packet("\x011")
		r.eof(plain, 0)
		return Result{Kind: ResultSet, HasStatus: true, Status: plain, Rows: 1, Results: 2}
	}},
	{"several results, then err", queries, func(r *reply) Result {
		r.ok(OK{Affected: 9, InsertID: 9, Status: more | StatusInTrans, Warnings: 9})
		r.columns(1, more)
		r.eof(more, 1)
		r.err(1064)
		return Result{Kind: ResultErr, Code: 1064, Results: 3}
	}},
	{"OUT parameters", queries, func(r *reply) Result {
		r.columns(1, more)
		r.packet("\x00\x00\x01\x00\x00\x00")
		r.eof(more, 0)
		r.columns(1, more|StatusPSOutParams)
		r.packet("\x00\x00\x05\x00\x00\x00")
		switch {
		case r.mariadb || r.caps.Has(ClientDeprecateEOF):
			r.eof(more|StatusPSOutParams, 0)
		default:
			r.eof(plain, 0) // MySQL forgets the flags here
		}
		r.ok(OK{Status: plain})
		return Result{Kind: ResultOK, HasStatus: true, Status: plain, Rows: 2, Results: 3}
	}},
	{"OUT parameters, then err", queries, func(r *reply) Result {
		r.columns(1, more|StatusPSOutParams)
		r.err(1317)
		return Result{Kind: ResultErr, Code: 1317, Results: 1}
	}},
	{"LOCAL INFILE", queries, func(r *reply) Result {
		r.infileRequest()
		r.ok(OK{Affected: 2, Status: plain, Info: []byte("Records: 2  Deleted: 0  Skipped: 0  Warnings: 0")})
		return Result{Kind: ResultOK, HasStatus: true, Status: plain, Affected: 2, Results: 1}
	}},
	{"LOCAL INFILE, then err", queries, func(r *reply) Result {
		r.infileRequest()
		r.err(1062)
		return Result{Kind: ResultErr, Code: 1062, Results: 1}
	}},
	{"LOCAL INFILE twice among results", queries, func(r *reply) Result {
		r.infileRequest()
		r.ok(OK{Affected: 2, Status: more})
		r.columns(1, more)
		r.packet("\xfb")
		r.eof(more, 0)
		r.infileRequest()
		r.ok(OK{Affected: 1, Status: plain})
		return Result{Kind: ResultOK, HasStatus: true, Status: plain, Affected: 1, Rows: 1, Results: 3}
	}},
	{"the session's state in several results", queries, func(r *reply) Result {
		r.ok(OK{Status: more | StatusSessionStateChanged, State: []byte("\x01\x02\x01a")})
		r.ok(OK{Status: more | StatusSessionStateChanged, State: []byte("\x05\x09\x08T_R_____\x01\x04\x03lab")})
		r.columns(1, more)
		r.eof(plain, 0)
		want := Result{Kind: ResultSet, HasStatus: true, Status: plain, StateChanged: true, Results: 3}
		if r.caps.Has(ClientSessionTrack) {
			want.StateChange, want.SchemaChanged, want.Schema = true, true, []byte("lab")
		}
		return want
	}},

	{"prepared", []Command{ComStmtPrepare}, func(r *reply) Result {
		r.prepared(7, 0, 0, 0, true)
		return Result{Kind: ResultOK, StatementID: 7, Results: 1}
	}},
	{"prepared with parameters", []Command{ComStmtPrepare}, func(r *reply) Result {
		r.prepared(0x12345678, 0, 2, 1, true)
		r.definitions(2)
		r.eofBetween(plain)
		return r.status(plain, Result{Kind: ResultOK, StatementID: 0x12345678, Params: 2, Warnings: 1, Results: 1})
	}},
	{"prepared with columns", []Command{ComStmtPrepare}, func(r *reply) Result {
		r.prepared(7, 3, 0, 0, true)
		r.definitions(3)
		r.eofBetween(plain | StatusInTrans)
		return r.status(plain|StatusInTrans, Result{Kind: ResultOK, StatementID: 7, Columns: 3, Results: 1})
	}},
	{"prepared with both", []Command{ComStmtPrepare}, func(r *reply) Result {
		r.prepared(7, 3, 2, 0, true)
		r.definitions(2)
		r.eofBetween(plain)
		r.definitions(3)
		r.eofBetween(plain)
		return r.status(plain, Result{Kind: ResultOK, StatementID: 7, Columns: 3, Params: 2, Results: 1})
	}},
	{"prepared, definitions left out", []Command{ComStmtPrepare}, func(r *reply) Result {
		r.prepared(7, 3, 2, 0, false)
		full := r.mariadb || !r.caps.Has(ClientOptionalResultsetMeta)
		if full {
			r.definitions(2)
		}
		r.eofBetween(plain)
		if full {
			r.definitions(3)
		}
		r.eofBetween(plain)
		return r.status(plain, Result{Kind: ResultOK, StatementID: 7, Columns: 3, Params: 2, Results: 1})
	}},
	{"prepared, one list left out", []Command{ComStmtPrepare}, func(r *reply) Result {
		r.prepared(7, 1, 0, 0, false)
		if r.mariadb || !r.caps.Has(ClientOptionalResultsetMeta) {
			r.definitions(1)
		}
		r.eofBetween(plain)
		return r.status(plain, Result{Kind: ResultOK, StatementID: 7, Columns: 1, Results: 1})
	}},
	{"not prepared", []Command{ComStmtPrepare}, func(r *reply) Result {
		r.err(1064)
		return Result{Kind: ResultErr, Code: 1064, Results: 1}
	}},
	{"err among the definitions of parameters", []Command{ComStmtPrepare}, func(r *reply) Result {
		r.prepared(7, 3, 2, 0, true)
		if !r.mariadb && r.caps.Has(ClientOptionalResultsetMeta) {
			r.bytes[len(r.bytes)-1] = 1
		}
		r.definitions(1)
		r.err(1041)
		return Result{Kind: ResultErr, Code: 1041, StatementID: 7, Columns: 3, Params: 2, Results: 1}
	}},

	{"fields", []Command{ComFieldList}, func(r *reply) Result {
		r.definitions(3)
		r.eof(plain, 0)
		return Result{Kind: ResultOther, HasStatus: true, Status: plain, Results: 1}
	}},
	{"no fields", []Command{ComFieldList}, func(r *reply) Result {
		r.eof(plain, 0)
		return Result{Kind: ResultOther, HasStatus: true, Status: plain, Results: 1}
	}},
	{"fields of nothing", []Command{ComFieldList}, func(r *reply) Result {
		r.err(1146)
		return Result{Kind: ResultErr, Code: 1146, Results: 1}
	}},

	{"rows of a cursor", []Command{ComStmtFetch}, func(r *reply) Result {
		r.packet("\x00\x00\x01\x00\x00\x00")
		r.packet("\x00\x00\x02\x00\x00\x00")
		r.eof(plain|StatusCursorExists, 0)
		return Result{Kind: ResultSet, HasStatus: true, Status: plain | StatusCursorExists, Rows: 2, Results: 1}
	}},
	{"no more rows of a cursor", []Command{ComStmtFetch}, func(r *reply) Result {
		r.eof(plain|StatusLastRowSent, 0)
		return Result{Kind: ResultSet, HasStatus: true, Status: plain | StatusLastRowSent, Results: 1}
	}},
	{"no cursor", []Command{ComStmtFetch}, func(r *reply) Result {
		r.err(1421)
		return Result{Kind: ResultErr, Code: 1421, Results: 1}
	}},

	{"statistics", []Command{ComStatistics}, func(r *reply) Result {
		r.packet("Uptime: 1  Threads: 2")
		return Result{Kind: ResultOther, Results: 1}
	}},
	{"empty statistics", []Command{ComStatistics}, func(r *reply) Result {
		r.packet("")
		return Result{Kind: ResultOther, Results: 1}
	}},
	{"no statistics", []Command{ComStatistics}, func(r *reply) Result {
		r.err(1045)
		return Result{Kind: ResultErr, Code: 1045, Results: 1}
	}},

	{"one ok", singles, func(r *reply) Result {
		r.ok(OK{Status: plain, Warnings: 1})
		return Result{Kind: ResultOK, HasStatus: true, Status: plain, Warnings: 1, Results: 1}
	}},
	{"one ok with a schema", singles, func(r *reply) Result {
		r.ok(OK{Status: plain | StatusSessionStateChanged, State: []byte("\x01\x04\x03lab")})
		want := Result{Kind: ResultOK, HasStatus: true, Status: plain | StatusSessionStateChanged, StateChanged: true, Results: 1}
		if r.caps.Has(ClientSessionTrack) {
			want.SchemaChanged, want.Schema = true, []byte("lab")
		}
		return want
	}},
	{"one ok that says more results", singles, func(r *reply) Result {
		r.ok(OK{Status: more})
		return Result{Kind: ResultOK, HasStatus: true, Status: more, Results: 1}
	}},
	{"one eof", singles, func(r *reply) Result {
		r.eof(plain, 0)
		return Result{Kind: ResultOK, HasStatus: true, Status: plain, Results: 1}
	}},
	{"one err", singles, func(r *reply) Result {
		r.err(1047)
		return Result{Kind: ResultErr, Code: 1047, Results: 1}
	}},

	{"switch, then ok", []Command{ComChangeUser}, func(r *reply) Result {
		r.packet("\xfemysql_native_password\x0001234567890123456789\x00")
		r.ok(OK{Status: plain})
		return Result{Kind: ResultOK, HasStatus: true, Status: plain, Results: 1}
	}},
	{"short switch, data, nothing, then ok", []Command{ComChangeUser}, func(r *reply) Result {
		r.packet("\xfe")
		r.packet("\x01\x04")
		r.packet("")
		r.packet("\x02plugin\x00")
		r.packet("\x01\x03")
		r.ok(OK{Status: plain})
		return Result{Kind: ResultOK, HasStatus: true, Status: plain, Results: 1}
	}},
	{"switch, then err", []Command{ComChangeUser}, func(r *reply) Result {
		r.packet("\xfeplugin\x00\x00")
		r.err(1045)
		return Result{Kind: ResultErr, Code: 1045, Results: 1}
	}},
}

// progressCases are replies of MariaDB with reports in between.
var progressCases = []replyCase{
	{"progress, then ok", queries, func(r *reply) Result {
		r.packet(progress)
		r.packet(progress)
		r.ok(OK{Status: plain})
		return Result{Kind: ResultOK, HasStatus: true, Status: plain, Results: 1}
	}},
	{"progress everywhere", queries, func(r *reply) Result {
		r.packet(progress)
		r.columns(1, plain)
		r.packet(progress)
		r.packet("\x011")
		r.packet(progress)
		r.eof(plain, 0)
		return Result{Kind: ResultSet, HasStatus: true, Status: plain, Rows: 1, Results: 1}
	}},
	{"progress, then err", queries, func(r *reply) Result {
		r.packet(progress)
		r.err(65535)
		return Result{Kind: ResultErr, Code: 65535, Results: 1}
	}},
}

// server is one kind of connection.
type server struct {
	name    string
	caps    Capability
	mariadb bool
}

func servers() []server {
	var all []server
	for _, eof := range []Capability{0, ClientDeprecateEOF} {
		for _, track := range []Capability{0, ClientSessionTrack} {
			for _, other := range []struct {
				name    string
				caps    Capability
				mariadb bool
			}{
				{"MySQL", 0, false},
				{"MySQL with optional metadata", ClientOptionalResultsetMeta | ClientQueryAttributes, false},
				{"MariaDB", 0, true},
				{"MariaDB with progress", MariaDBProgress, true},
				{"MariaDB with progress of old", ClientProgress, true},
				{"MariaDB with cached metadata", MariaDBCacheMetadata | MariaDBProgress | MariaDBExtendedMetadata, true},
				{"MariaDB with optional metadata", ClientOptionalResultsetMeta, true}, // it does not know that bit
			} {
				name := other.name
				if eof != 0 {
					name += ", no EOF"
				}
				if track != 0 {
					name += ", tracked"
				}
				all = append(all, server{name, ClientProtocol41 | ClientTransactions | eof | track | other.caps, other.mariadb})
			}
		}
	}
	return all
}

// feed gives the tracker stream in chunks, whose sizes come from next, and fails unless the reply is complete exactly
// at the given end.
func feed(t *testing.T, tracker *ResponseTracker, stream []byte, end int, infile []int, next func() int) Result {
	t.Helper()
	total := 0
	for total < end {
		chunk := stream[total:min(total+next(), len(stream))]
		n, done := tracker.Scan(chunk)
		if total += n; total > end {
			t.Fatalf("%d bytes were taken, the reply has %d", total, end)
		}
		if done != (total == end) || tracker.Raw() || !done && n < len(chunk) {
			t.Fatalf("after %d of %d bytes: done %v, raw %v, %d of %d bytes of the chunk taken", total, end, done, tracker.Raw(), n, len(chunk))
		}
		if tracker.Infile() != slices.Contains(infile, total) {
			t.Fatalf("after %d of %d bytes: LOCAL INFILE is %v", total, end, tracker.Infile())
		}
	}
	if n, done := tracker.Scan(stream[end:]); n != 0 || !done {
		t.Fatalf("behind the end: %d bytes taken, done %v", n, done)
	}
	return tracker.Result()
}

// everySplit checks a reply in chunks of every size, and in two chunks split at every byte.
func everySplit(t *testing.T, cmd Command, s server, stream []byte, infile []int, want Result) {
	t.Helper()
	var tracker ResponseTracker
	end := len(stream)
	stream = append(stream, "\x10\x00\x00\x00\xff\x4d\x04#08S01bye..."...) // what a server says when it goes
	check := func(how string, size int, next func() int) {
		tracker.Begin(cmd, s.caps, s.mariadb)
		if got := feed(t, &tracker, stream, end, infile, next); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s %d:\ngot  %+v\nwant %+v\nfrom %x", how, size, got, want, stream[:end])
		}
	}
	sizes := end
	if end > 4000 {
		sizes = 300
	}
	for size := 1; size <= sizes; size++ {
		check("chunks of", size, func() int { return size })
	}
	check("all at once", len(stream), func() int { return len(stream) })
	for at := 1; at < sizes; at++ {
		first := true
		check("split at", at, func() int {
			if first {
				first = false
				return at
			}
			return len(stream)
		})
	}
}

func TestReplies(t *testing.T) {
	for _, s := range servers() {
		t.Run(s.name, func(t *testing.T) {
			cases := replyCases
			if s.caps&(MariaDBProgress|ClientProgress) != 0 {
				cases = slices.Concat(cases, progressCases)
			}
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					r := &reply{caps: s.caps, mariadb: s.mariadb}
					want := c.write(r)
					for i, cmd := range c.commands {
						if i == 0 {
							everySplit(t, cmd, s, r.bytes, r.infile, want)
							continue
						}
						var tracker ResponseTracker
						for _, size := range []int{1, 5, len(r.bytes)} {
							tracker.Begin(cmd, s.caps, s.mariadb)
							if got := feed(t, &tracker, r.bytes, len(r.bytes), r.infile, func() int { return size }); !reflect.DeepEqual(got, want) {
								t.Errorf("%v in chunks of %d:\ngot  %+v\nwant %+v", cmd, size, got, want)
							}
						}
					}
				})
			}
		})
	}
}

// TestProgressNotAsked: without the capability error 65535 is an error, whatever follows its number.
func TestProgressNotAsked(t *testing.T) {
	for _, s := range []server{
		{"MariaDB", ClientProtocol41, true},
		{"MySQL", ClientProtocol41 | ClientProgress, false},
	} {
		r := &reply{caps: s.caps}
		r.packet(progress)
		everySplit(t, ComQuery, s, r.bytes, nil, Result{Kind: ResultErr, Code: 65535, Results: 1})
	}
}

func TestNoReply(t *testing.T) {
	var tracker ResponseTracker
	for _, cmd := range []Command{ComStmtClose, ComStmtSendLongData, ComQuit} {
		tracker.Begin(cmd, capsModern, false)
		if n, done := tracker.Scan([]byte("\x07\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00")); n != 0 || !done || tracker.Raw() {
			t.Errorf("%v: %d bytes, done %v, raw %v", cmd, n, done, tracker.Raw())
		}
	}
}

func TestRaw(t *testing.T) {
	for _, test := range []struct {
		name     string
		commands []Command
		stream   string
	}{
		{"a stream", []Command{ComBinlogDump, ComBinlogDumpGTID, ComClone, ComTableDump, ComSubscribeGroupReplicationStream}, "\x01\x00\x00\x01\x00"},
		{"another first byte", []Command{ComPing, ComInitDB, 0x22, 0xfe}, "\x02\x00\x00\x01\x01\x02"},
		{"a result set that nobody asked for", []Command{ComPing, 0x22}, "\x01\x00\x00\x01\x01"},
		{"LOCAL INFILE that nobody asked for", []Command{ComPing, 0x22}, "\x02\x00\x00\x01\xfbf"},
		{"an empty packet", []Command{ComQuery, ComPing, ComStmtPrepare, ComFieldList, 0x22}, "\x00\x00\x00\x01"},
		{"a short OK", []Command{ComQuery, ComPing, 0x22}, "\x03\x00\x00\x01\x00\x00\x00"},
		{"a short EOF", []Command{ComPing, ComStmtFetch, ComFieldList, 0x22}, "\x03\x00\x00\x01\xfe\x00\x00"},
		{"a short prepare-OK", []Command{ComStmtPrepare}, "\x05\x00\x00\x01\x00\x01\x00\x00\x00"},
		{"no prepare-OK", []Command{ComStmtPrepare}, "\x0c\x00\x00\x01\x01\x01\x00\x00\x00\x01\x00\x01\x00\x00\x00\x00"},
		{"bytes behind the column count", []Command{ComQuery}, "\x03\x00\x00\x01\x01\x01\x01"},
		{"no column count", []Command{ComQuery}, "\x02\x00\x00\x01\xfc\x01"},
		{"no EOF behind the definitions", []Command{ComQuery}, "\x01\x00\x00\x01\x01\x04\x00\x00\x02\x03def\x01\x00\x00\x03\x31"},
		{"no EOF behind the parameters", []Command{ComStmtPrepare}, "\x0c\x00\x00\x01\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x04\x00\x00\x02\x03def\x01\x00\x00\x03\x31"},
	} {
		for _, cmd := range test.commands {
			for size := 1; size <= len(test.stream); size++ {
				var tracker ResponseTracker
				tracker.Begin(cmd, ClientProtocol41, false)
				for rest := []byte(test.stream); len(rest) > 0; {
					chunk := rest[:min(size, len(rest))]
					if n, done := tracker.Scan(chunk); n != len(chunk) || done {
						t.Fatalf("%s, %v in chunks of %d: %d of %d bytes, done %v", test.name, cmd, size, n, len(chunk), done)
					}
					rest = rest[len(chunk):]
				}
				if !tracker.Raw() {
					t.Fatalf("%s, %v in chunks of %d: not raw", test.name, cmd, size)
				}
				if n, done := tracker.Scan(make([]byte, 1000)); n != 1000 || done {
					t.Fatalf("%s, %v in chunks of %d: then %d bytes, done %v", test.name, cmd, size, n, done)
				}
			}
		}
	}
}

// TestLongRows: the length of a row, not its first byte, tells it from an EOF, and a full packet is followed by another.
func TestLongRows(t *testing.T) {
	field := func(n int) []byte {
		return append(appendLenenc(make([]byte, 0, n+9), uint64(n)), make([]byte, n)...)
	}
	rows := []struct {
		name string
		row  []byte
	}{
		{"begins with 0xFE", field(1 << 24)},
		{"of 0xFFFFFF bytes", field(MaxPayload - 4)},
		{"of 0xFFFFFF bytes beginning with 0xFE", append([]byte{0xfe}, make([]byte, MaxPayload-1)...)},
		{"one byte less", field(MaxPayload - 5)},
		{"of twice 0xFFFFFF bytes", append([]byte{0xfe}, make([]byte, 2*MaxPayload-1)...)},
	}
	for _, caps := range []Capability{caps41, capsModern} {
		for _, row := range rows {
			t.Run(fmt.Sprintf("%s, no EOF %v", row.name, caps.Has(ClientDeprecateEOF)), func(t *testing.T) {
				r := &reply{caps: caps}
				r.columns(1, plain)
				r.packet("\x011")
				r.bytes = appendPayload(r.bytes, r.seq+1, row.row)
				r.packet("\x012")
				r.eof(plain, 1)
				want := Result{Kind: ResultSet, HasStatus: true, Status: plain, Warnings: 1, Rows: 3, Results: 1}
				random := rand.New(rand.NewPCG(1, 2))
				for name, next := range map[string]func() int{
					"at once":       func() int { return len(r.bytes) },
					"16 KiB":        func() int { return 16 << 10 },
					"full packets":  func() int { return MaxPayload + HeaderSize },
					"random chunks": func() int { return 1 + random.IntN(1<<random.IntN(24)) },
				} {
					var tracker ResponseTracker
					tracker.Begin(ComQuery, caps, false)
					if got := feed(t, &tracker, r.bytes, len(r.bytes), nil, next); !reflect.DeepEqual(got, want) {
						t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, want)
					}
				}
			})
		}
	}
}

// TestShortFE: without CLIENT_DEPRECATE_EOF a payload of nine bytes that begins with 0xFE is a row, one of eight is none.
func TestShortFE(t *testing.T) {
	eof := &reply{caps: caps41}
	eof.columns(1, plain)
	eof.packet("\xfe\x00\x00\x02\x00\x00\x00\x00")
	everySplit(t, ComQuery, server{caps: caps41}, eof.bytes, nil, Result{Kind: ResultSet, HasStatus: true, Status: plain, Results: 1})
	r := &reply{caps: caps41}
	r.columns(1, plain)
	r.packet("\xfe12345678")
	r.eof(plain, 0)
	everySplit(t, ComQuery, server{caps: caps41}, r.bytes, nil, Result{Kind: ResultSet, HasStatus: true, Status: plain, Rows: 1, Results: 1})
}

func TestState(t *testing.T) {
	entry := func(kind byte, data string) string { return string([]byte{kind}) + lenencString(data) }
	variable := func(name, value string) string { return entry(0, lenencString(name)+lenencString(value)) }
	filler := func(n int) string { return variable("optimizer_switch", strings.Repeat("x", n)) }
	schema := func(name string) string { return entry(1, lenencString(name)) }
	type state struct {
		stateChange, schemaChanged bool
		schema                     []byte
	}
	// Header, numbers, flags and an empty info take 8 bytes, the length of a state above 250 bytes 3, the filler 21 or 24.
	const room = keptPayload - 8 - 3 - 24
	tests := []struct {
		name  string
		state string
		want  state
	}{
		{"nothing", "", state{}},
		{"variable", variable("autocommit", "ON"), state{}},
		{"schema", schema("lab"), state{false, true, []byte("lab")}},
		{"no schema any more", schema(""), state{false, true, []byte{}}},
		{"two schemas", schema("a") + schema("lab"), state{false, true, []byte("lab")}},
		{"state change", entry(2, "1"), state{true, false, nil}},
		{"gtids", entry(3, "\x00"+lenencString("uuid:1")), state{}},
		{"transaction characteristics", entry(4, "\x12START TRANSACTION;"), state{true, false, nil}},
		{"transaction state", entry(5, "\x08T___w___"), state{true, false, nil}},
		{"transaction, unasked", entry(5, "\x08T_______"), state{}},
		{"DDL in a transaction, unasked", entry(5, "\x08________"), state{}},
		{"an entry of the future", entry(9, "x"), state{}},
		{"all", variable("a", "b") + schema("lab") + entry(2, "1") + entry(5, "\x08T_R_____"), state{true, true, []byte("lab")}},
		{"long name", schema(strings.Repeat("é", 128)), state{false, true, []byte(strings.Repeat("é", 128))}},
		{"too long a name", schema(strings.Repeat("x", keptSchema+1)), state{false, true, nil}},
		{"long, seen whole", filler(room-6) + schema("lab"), state{false, true, []byte("lab")}},
		{"one byte too long", filler(room-5) + schema("lab"), state{true, true, nil}},
		{"cut between two entries", filler(room) + schema("lab"), state{true, true, nil}},
		{"much too long", filler(3000), state{true, true, nil}},
		{"schema first, then too long", schema("lab") + filler(3000), state{true, true, nil}},
		{"malformed", "\x01\x09\x03lab", state{true, true, nil}},
		{"malformed schema", "\x01\x04\x09lab", state{false, true, nil}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, caps := range []Capability{capsTracked, capsModern} {
				r := &reply{caps: caps}
				r.ok(OK{Status: plain | StatusSessionStateChanged, State: []byte(test.state)})
				everySplit(t, ComQuery, server{caps: caps}, r.bytes, nil, Result{
					Kind: ResultOK, HasStatus: true, Status: plain | StatusSessionStateChanged, StateChanged: true, Results: 1,
					StateChange: test.want.stateChange, SchemaChanged: test.want.schemaChanged, Schema: test.want.schema,
				})
			}
		})
	}
	t.Run("behind a long info", func(t *testing.T) {
		r := &reply{caps: capsTracked}
		r.ok(OK{Status: plain | StatusSessionStateChanged, Info: bytes.Repeat([]byte{'i'}, keptPayload), State: []byte(schema("lab"))})
		everySplit(t, ComQuery, server{caps: capsTracked}, r.bytes, nil, Result{
			Kind: ResultOK, HasStatus: true, Status: plain | StatusSessionStateChanged, StateChanged: true, Results: 1, StateChange: true, SchemaChanged: true,
		})
	})
	t.Run("at the end of rows", func(t *testing.T) {
		r := &reply{caps: capsModern}
		r.columns(1, plain)
		at := len(r.bytes) + HeaderSize
		r.ok(OK{Status: plain | StatusSessionStateChanged, State: []byte(entry(5, "\x08T_R_____"))})
		r.bytes[at] = 0xfe
		everySplit(t, ComQuery, server{caps: capsModern}, r.bytes, nil, Result{
			Kind: ResultSet, HasStatus: true, Status: plain | StatusSessionStateChanged, StateChanged: true, StateChange: true, Results: 1,
		})
	})
	t.Run("the flag without entries", func(t *testing.T) {
		r := &reply{caps: capsTracked}
		r.packet("\x00\x00\x00\x02\x40\x00\x00")
		everySplit(t, ComQuery, server{caps: capsTracked}, r.bytes, nil, Result{
			Kind: ResultOK, HasStatus: true, Status: plain | StatusSessionStateChanged, StateChanged: true, Results: 1,
		})
	})
}

func lenencString(s string) string { return string(appendLenenc(nil, uint64(len(s)))) + s }

// TestBeginForgets: nothing of a reply that broke off is left in the next one.
func TestBeginForgets(t *testing.T) {
	next := []replyCase{
		{"prepared", []Command{ComStmtPrepare}, func(r *reply) Result {
			r.prepared(5, 1, 1, 0, true)
			r.definitions(1)
			r.eof(plain, 0)
			r.definitions(1)
			r.eof(plain, 0)
			return Result{Kind: ResultOK, HasStatus: true, Status: plain, StatementID: 5, Params: 1, Columns: 1, Results: 1}
		}},
		{"ok", []Command{ComQuery}, func(r *reply) Result {
			r.ok(OK{Status: plain})
			return Result{Kind: ResultOK, HasStatus: true, Status: plain, Results: 1}
		}},
		{"one ok", []Command{ComPing}, func(r *reply) Result {
			r.ok(OK{Status: more})
			return Result{Kind: ResultOK, HasStatus: true, Status: more, Results: 1}
		}},
	}
	for _, s := range []server{{caps: capsModern | ClientOptionalResultsetMeta}, {caps: caps41 | ClientOptionalResultsetMeta}} {
		for _, c := range replyCases {
			broken := &reply{caps: s.caps}
			c.write(broken)
			for at := range min(len(broken.bytes), 400) {
				for _, n := range next {
					var tracker ResponseTracker
					tracker.Begin(c.commands[0], s.caps, false)
					tracker.Scan(broken.bytes[:at])
					r := &reply{caps: caps41}
					want := n.write(r)
					tracker.Begin(n.commands[0], r.caps, false)
					if tracker.Infile() || tracker.Raw() {
						t.Fatalf("%s, broken off at %d: infile %v, raw %v", c.name, at, tracker.Infile(), tracker.Raw())
					}
					if got := feed(t, &tracker, r.bytes, len(r.bytes), nil, func() int { return 6 }); !reflect.DeepEqual(got, want) {
						t.Fatalf("%s, broken off at %d, then %s:\ngot  %+v\nwant %+v", c.name, at, n.name, got, want)
					}
				}
			}
		}
	}
}

func TestTrackerAllocates(t *testing.T) {
	s := server{caps: capsModern}
	var tracker ResponseTracker
	var sum uint64
	for _, c := range replyCases {
		r := &reply{caps: s.caps}
		c.write(r)
		for _, size := range []int{7, len(r.bytes)} {
			if n := testing.AllocsPerRun(10, func() {
				tracker.Begin(c.commands[0], s.caps, s.mariadb)
				for b := r.bytes; len(b) > 0; {
					n, _ := tracker.Scan(b[:min(size, len(b))])
					b = b[n:]
				}
				result := tracker.Result()
				sum += result.Rows + uint64(len(result.Schema))
			}); n != 0 {
				t.Errorf("%s in chunks of %d: %v allocations", c.name, size, n)
			}
		}
	}
	if sum == 0 {
		t.Error("nothing was seen")
	}
}

func BenchmarkTracker(b *testing.B) {
	for _, rows := range []int{0, 1, 1000} {
		b.Run(fmt.Sprintf("%d rows", rows), func(b *testing.B) {
			r := &reply{caps: capsModern}
			r.columns(3, plain)
			for range rows {
				r.packet("\x011\x051.000\x0cabcdefghijkl")
			}
			r.eof(plain, 0)
			b.SetBytes(int64(len(r.bytes)))
			b.ReportAllocs()
			var tracker ResponseTracker
			for b.Loop() {
				tracker.Begin(ComQuery, r.caps, false)
				if _, done := tracker.Scan(r.bytes); !done {
					b.Fatal("not done")
				}
			}
		})
	}
}
