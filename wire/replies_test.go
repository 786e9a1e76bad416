package wire

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// recording is what a real server answered to one command.
type recording struct {
	name    string
	command Command
	caps    Capability
	mariadb bool
	stream  []byte
	infile  []int // offsets behind which the client sent a file
}

func readRecording(t testing.TB, file string) recording {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := recording{name: strings.TrimSuffix(filepath.Base(file), ".hex")}
	var command byte
	var low, high uint32
	var kind string
	first, rest, _ := strings.Cut(string(text), "\n")
	if _, err := fmt.Sscanf(first, "# command=%v caps=%v mariadb_caps=%v server=%q", &command, &low, &high, &kind); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	r.command, r.caps = Command(command), Capability(low)|Capability(high)<<32
	r.mariadb = strings.HasPrefix(kind, "mariadb ")
	for line := range strings.Lines(rest) {
		switch {
		case strings.HasPrefix(line, "# the client sends its file"):
			r.infile = append(r.infile, len(r.stream))
		case !strings.HasPrefix(line, "#"):
			b, err := hex.DecodeString(strings.TrimSpace(line))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			r.stream = append(r.stream, b...)
		}
	}
	return r
}

// recordings returns what lies in testdata/replies.
func recordings(t testing.TB) []recording {
	t.Helper()
	files, err := filepath.Glob("testdata/replies/*.hex")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no recorded replies")
	}
	var all []recording
	for _, file := range files {
		all = append(all, readRecording(t, file))
	}
	return all
}

// expected tells what a recording's Result is by another way than the tracker's: it looks at the last payload only,
// which by the recording's making ends the reply, and it counts nothing.
func (r recording) expected(t *testing.T) Result {
	t.Helper()
	var first, last []byte
	for rest := r.stream; len(rest) > 0; {
		n, _ := Header(rest)
		last = rest[HeaderSize : HeaderSize+n]
		if first == nil {
			first = last
		}
		rest = rest[HeaderSize+n:]
	}
	var want Result
	switch shape := r.command.Shape(); {
	case last[0] == headerErr:
		e, err := ParseErr(last)
		if err != nil {
			t.Fatal(err)
		}
		want.Kind, want.Code = ResultErr, e.Code
	case shape == ShapeStatistics:
		want.Kind = ResultOther
	case shape == ShapePrepare:
		want.Kind, want.Warnings = ResultOK, uint16(first[10])
		want.StatementID = uint32(first[1]) | uint32(first[2])<<8
		want.Columns, want.Params = uint16(first[5]), uint16(first[7])
		if last[0] == headerEOF {
			want.Status, _, _ = ParseEOF(last, r.caps)
			want.HasStatus = true
		}
	case last[0] == headerEOF:
		want.Kind, want.HasStatus = ResultOK, true
		switch shape {
		case ShapeQuery, ShapeFetch:
			want.Kind = ResultSet
		case ShapeFieldList:
			want.Kind = ResultOther
		}
		var err error
		if want.Status, want.Warnings, err = ParseEOF(last, r.caps); err != nil {
			t.Fatal(err)
		}
	default:
		ok, err := ParseOK(last, r.caps)
		if err != nil {
			t.Fatal(err)
		}
		want.Kind, want.HasStatus = ResultOK, true
		want.Status, want.Warnings, want.Affected, want.InsertID = ok.Status, ok.Warnings, ok.Affected, ok.InsertID
	}
	return want
}

// TestRecordedReplies reads replies of real servers in every split.
func TestRecordedReplies(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range recordings(t) {
		t.Run(r.name, func(t *testing.T) {
			var tracker ResponseTracker
			tracker.Begin(r.command, r.caps, r.mariadb)
			got := feed(t, &tracker, r.stream, len(r.stream), r.infile, func() int { return 9 })
			got.Schema = bytes.Clone(got.Schema)
			everySplit(t, r.command, server{caps: r.caps, mariadb: r.mariadb}, r.stream, r.infile, got)

			seen[fmt.Sprint(r.command, r.mariadb, got.Kind)] = true
			if got.SchemaChanged {
				seen["schema "+string(got.Schema)] = true
			}
			if got.Results > 1 {
				seen["several results"] = true
			}
			if len(r.infile) > 0 {
				seen["infile"] = true
			}
			got.Rows, got.Results = 0, 0
			got.StateChanged, got.StateChange, got.SchemaChanged, got.Schema = false, false, false, nil
			if want := r.expected(t); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
	for _, what := range []string{
		fmt.Sprint(ComQuery, false, ResultSet), fmt.Sprint(ComQuery, true, ResultSet), fmt.Sprint(ComStmtExecute, false, ResultSet),
		fmt.Sprint(ComStmtPrepare, true, ResultOK), fmt.Sprint(ComStmtFetch, false, ResultSet), fmt.Sprint(ComFieldList, true, ResultOther),
		fmt.Sprint(ComChangeUser, false, ResultOK), fmt.Sprint(ComStatistics, true, ResultOther), fmt.Sprint(ComSetOption, false, ResultOK),
		fmt.Sprint(ComStmtBulkExecute, true, ResultOK), "several results", "infile",
	} {
		if !seen[what] {
			t.Errorf("no recording of %s", what)
		}
	}
}

// TestRecordedCounts looks at what a few recordings are known to hold.
func TestRecordedCounts(t *testing.T) {
	for name, want := range map[string]struct {
		results int
		rows    uint64
	}{
		"mysql-call-classic":                     {3, 3},
		"mysql-call-metadata-none-extended":      {3, 3},
		"mariadb-call-extended":                  {3, 3},
		"mysql-execute-out-parameters-classic":   {3, 2},
		"mysql-execute-out-parameters-modern":    {3, 2},
		"mariadb-execute-out-parameters-classic": {3, 2},
		"mysql-execute-cursor-classic":           {1, 0},
		"mysql-execute-cursor-modern":            {1, 0},
		"mariadb-execute-rows-again-extended":    {1, 3},
		"mariadb-progress-extended":              {1, 0},
		"mysql-load-local-infile-modern":         {1, 0},
	} {
		r := readRecording(t, filepath.Join("testdata", "replies", name+".hex"))
		var tracker ResponseTracker
		tracker.Begin(r.command, r.caps, r.mariadb)
		if n, done := tracker.Scan(r.stream); n != len(r.stream) || !done {
			t.Errorf("%s: %d of %d bytes, done %v", name, n, len(r.stream), done)
		}
		if got := tracker.Result(); got.Results != want.results || got.Rows != want.rows {
			t.Errorf("%s: %d results with %d rows, want %d with %d", name, got.Results, got.Rows, want.results, want.rows)
		}
	}
}

// TestRecordedState: USE carries the schema in each way of reading it.
func TestRecordedState(t *testing.T) {
	for _, name := range []string{"mysql-ok-session-track-schema-modern", "mariadb-ok-session-track-schema-extended"} {
		r := readRecording(t, filepath.Join("testdata", "replies", name+".hex"))
		var tracker ResponseTracker
		tracker.Begin(r.command, r.caps, r.mariadb)
		tracker.Scan(r.stream)
		if got := tracker.Result(); !got.StateChanged || !got.SchemaChanged || len(got.Schema) == 0 || got.StateChange {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
