package record

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tmpproxy/rewrite"
	"tmpproxy/wire"
)

// records are one of each kind, with all fields somewhere.
var records = []Record{
	{Kind: Begin, Session: 1, At: 5, User: "u", Schema: "s", Client: "10.0.0.1", Server: "mysql", ServerID: 90700, Collation: 45, Capabilities: 1 << 40, Joined: true},
	{Kind: Query, Session: 1, At: 6, Took: 7, Error: 1146, Text: Text("SELECT '<a> & \u2028 日'")},
	{Kind: Query, Session: 1, At: 6, Text: Text("SELECT '\xff\x00'")},
	{Kind: Prepare, Session: 1, At: 8, Statement: 3, Text: Text("SELECT ?")},
	{Kind: LongData, Session: 1, At: 8, Statement: 3, Number: 1, Text: Text("\xfe")},
	{Kind: Execute, Session: 1, At: 9, Statement: 3, Cursor: 1, Values: []Value{{Type: 8, Unsigned: true, Data: Text("12")}, {Type: 6, Null: true}, {Type: 252, Long: true}, {Type: 253, Data: Text("x")}}},
	{Kind: Bulk, Session: 1, At: 9, Statement: 3, Columns: 1, Number: 128, Values: []Value{{Type: 8, Data: Text("-1")}, {Type: 8, Indicator: 1}}},
	{Kind: Fetch, Session: 1, At: 10, Statement: 3, Number: 10},
	{Kind: Omitted, Session: 1, At: 10},
	{Kind: Gap, Session: 1, At: 11, Reason: "queue", Count: 4},
	{Kind: ChangeUser, Session: 1, At: 12, User: "v", Schema: "w"},
	{Kind: End, Session: 1, At: 13},
	{Kind: Stop, At: 14, Reason: "asked"},
}

func recording() []byte {
	h, err := marshal(Header{Version: Version, Began: time.Unix(1, 0).UTC(), Masked: true})
	if err != nil {
		panic(err)
	}
	for i := range records {
		h = appendRecord(h, &records[i])
	}
	return h
}

// readAll returns the records of a recording.
func readAll(b []byte) (list []Record, parts, torn int, err error) {
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, 0, 0, err
	}
	parts = 1
	for {
		rec, part, err := r.Next()
		if part {
			parts++
		}
		if err == io.EOF {
			return list, parts, r.Torn(), nil
		}
		if err != nil {
			return list, parts, r.Torn(), err
		}
		list = append(list, rec)
	}
}

func TestReadBack(t *testing.T) {
	list, parts, torn, err := readAll(recording())
	if err != nil || parts != 1 || torn != 0 || !reflect.DeepEqual(list, records) {
		t.Fatalf("%v, %d parts, %d torn:\n%+v\nwant\n%+v", err, parts, torn, list, records)
	}
}

// TestTorn cuts a recording at every byte: what was whole before is read; and then goes on writing.
func TestTorn(t *testing.T) {
	whole := recording()
	header := bytes.IndexByte(whole, '\n') + 1
	for n := range whole {
		list, _, torn, err := readAll(whole[:n])
		if n < header {
			if err == nil {
				t.Fatalf("cut at %d, in the header: no error", n)
			}
			continue
		}
		lines := bytes.Count(whole[:n], []byte("\n")) - 1
		if err != nil || len(list) != lines || !reflect.DeepEqual(list, records[:lines:lines]) && lines > 0 {
			t.Fatalf("cut at %d: %d records of %d, %v", n, len(list), lines, err)
		}
		if want := whole[n-1] != '\n'; (torn == 1) != want {
			t.Fatalf("cut at %d: %d torn", n, torn)
		}
		more := append(append(bytes.Clone(whole[:n]), '\n'), whole...)
		if whole[n-1] == '\n' {
			more = append(bytes.Clone(whole[:n]), whole...)
		}
		list, parts, _, err := readAll(more)
		// A line that lacks nothing but its end counts.
		if err != nil || parts != 2 || len(list) != lines+len(records) && len(list) != lines+len(records)+1 {
			t.Fatalf("cut at %d and appended to: %d records, %d parts, %v", n, len(list), parts, err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":           {"", "header: unexpected EOF"},
		"something else":  {"SELECT 1\n", "this is no recording"},
		"another version": {`{"tmpproxy_recording":2,"began":"2026-01-01T00:00:00Z"}` + "\n", "version 2 of the format is not known"},
		"nonsense inside": {string(recording()[:bytes.IndexByte(recording(), '\n')+1]) + "{\"kind\":\n" + `{"kind":"ping","at":1}` + "\n", "line 2: unexpected end"},
		"no kind":         {string(recording()[:bytes.IndexByte(recording(), '\n')+1]) + "{}\n" + `{"kind":"ping","at":1}` + "\n", "line 2: no kind"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, _, err := readAll([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func FuzzReader(f *testing.F) {
	f.Add(recording())
	f.Add([]byte(`{"tmpproxy_recording":1,"began":"2026-01-01T00:00:00Z"}` + "\n{}\n{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, _, _, err := readAll(b)
		if err != nil {
			return
		}
		out := recording()[:bytes.IndexByte(recording(), '\n')+1]
		for i := range list {
			out = appendRecord(out, &list[i])
			for j := range list[i].Values {
				_, _ = list[i].Values[j].AppendData(nil)
			}
			_, _ = list[i].AppendExecute(nil, 1, true)
			_, _ = list[i].AppendBulk(nil, 1)
		}
		again, _, _, err := readAll(out)
		if err != nil || len(again) != len(list) {
			t.Fatalf("%d records, written and read %d: %v", len(list), len(again), err)
		}
	})
}

const caps = wire.ClientProtocol41 | wire.ClientQueryAttributes

// packet is a command as the client sends it.
func packet(payload string) []byte {
	b := make([]byte, wire.HeaderSize, wire.HeaderSize+len(payload))
	wire.PutHeader(b, len(payload), 0)
	return append(b, payload...)
}

// recorder is one that writes to a file of the test's.
func recorder(t *testing.T, o Options) (*Recorder, string) {
	t.Helper()
	o.File = filepath.Join(t.TempDir(), "r.jsonl")
	if o.Share == 0 {
		o.Share = 100
	}
	if o.MaxSize == 0 {
		o.MaxSize = 1 << 20
	}
	if o.MaxTime == 0 {
		o.MaxTime = time.Hour
	}
	r, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop() })
	return r, o.File
}

func (s *Session) tell(c wire.Command, payload string, code uint16, id uint32, params int) {
	s.Command(c, 0)
	p := packet(payload)
	for len(p) > 0 { // in pieces
		n := min(len(p), 3)
		s.Bytes(p[:n])
		p = p[n:]
	}
	s.Done(code, id, params)
}

// kinds is a recording in a few words.
func kinds(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	list, _, _, err := readAll(b)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, rec := range list {
		s := rec.Kind
		if len(rec.Text) > 0 {
			s += " " + string(rec.Text)
		}
		for _, v := range rec.Values {
			s += " " + string(v.Data)
			if v.Null {
				s += "NULL"
			}
			if v.Long {
				s += "LONG"
			}
		}
		if rec.Reason != "" {
			s += " " + rec.Reason
		}
		all = append(all, s)
	}
	return all
}

func TestRecorder(t *testing.T) {
	var counts Counts
	r, file := recorder(t, Options{Counts: &counts})
	s := r.Session(Client{User: "app", Schema: "shop", Address: "10.0.0.1:4000", Capabilities: caps})
	s.tell(wire.ComQuery, "\x03\x00\x01SELECT 'plain'", 0, 0, 0)
	s.tell(wire.ComQuery, "\x03\x00\x01SET PASSWORD = 'hunter2'", 0, 0, 0)
	s.tell(wire.ComQuery, "\x03\x00\x01SELECT * FROM users WHERE password = 'hunter2'", 0, 0, 0)
	s.tell(wire.ComStmtPrepare, "\x16SELECT ?, ?", 0, 1, 2)
	// Two parameters: a BIGINT -2 and a string, with query attributes' layout.
	s.tell(wire.ComStmtExecute, "\x17\x01\x00\x00\x00\x08\x01\x00\x00\x00\x02\x00\x01\x08\x00\x00\xfd\x00\x00"+"\xfe\xff\xff\xff\xff\xff\xff\xff\x02ab", 0, 0, 0)
	// The types are those told before.
	s.tell(wire.ComStmtExecute, "\x17\x01\x00\x00\x00\x08\x01\x00\x00\x00\x02\x01\x00"+"\x01c", 0, 0, 0)
	s.tell(wire.ComStmtSendLongData, "\x18\x01\x00\x00\x00\x01\x00long", 0, 0, 0)
	s.tell(wire.ComStmtExecute, "\x17\x01\x00\x00\x00\x08\x01\x00\x00\x00\x02\x00\x00"+"\x05\x00\x00\x00\x00\x00\x00\x00", 0, 0, 0)
	s.tell(wire.ComStmtPrepare, "\x16ALTER USER u IDENTIFIED BY ?", 0, 2, 1)
	s.tell(wire.ComStmtExecute, "\x17\x02\x00\x00\x00\x08\x01\x00\x00\x00\x01\x00\x01\xfd\x00\x00\x07hunter2", 0, 0, 0)
	s.tell(wire.ComStmtPrepare, "\x16UPDATE users SET password = ?", 0, 3, 1)
	s.tell(wire.ComStmtExecute, "\x17\x03\x00\x00\x00\x08\x01\x00\x00\x00\x01\x00\x01\xfd\x00\x00\x07hunter2", 0, 0, 0)
	s.tell(wire.ComStmtExecute, "\x17\x09\x00\x00\x00\x00\x01\x00\x00\x00", 0, 0, 0)
	s.tell(wire.ComStmtClose, "\x19\x01\x00\x00\x00", 0, 0, 0)
	s.tell(wire.ComInitDB, "\x02other", 0, 0, 0)
	s.Command(wire.ComChangeUser, 0)
	s.Account("v", "w")
	s.Done(0, 0, 0)
	s.End()
	s.End()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	got := kinds(t, file)
	want := []string{"begin", "query SELECT 'plain'", "omitted", "query SELECT * FROM users WHERE password = '*******'", "prepare SELECT ?, ?", "execute -2 ab",
		"execute NULL c", "longdata long", "execute 5 LONG", "omitted", "omitted", "prepare UPDATE users SET password = ?", "execute *******",
		"gap unknown", "close", "initdb other", "changeuser", "end", "stop asked"}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) {
			t.Fatalf("got %q\nwant %q", got, want)
		}
		pattern := strings.Split(want[i], "*******")
		if len(pattern) == 2 && strings.HasPrefix(got[i], pattern[0]) && strings.HasSuffix(got[i], pattern[1]) && len(got[i]) == len(want[i]) && !strings.Contains(got[i], "hunter2") {
			continue
		}
		if got[i] != want[i] {
			t.Errorf("%d: %q, want %q", i, got[i], want[i])
		}
	}
	if b, _ := os.ReadFile(file); bytes.Contains(b, []byte("hunter")) || bytes.Contains(b, []byte("aHVudGVyMg")) {
		t.Errorf("a password is in\n%s", b)
	}
	if counts.Omitted.Load() != 3 || counts.Sessions.Load() != 1 || int64(counts.Bytes.Load()) != size(t, file) {
		t.Errorf("%d omitted, %d sessions, %d bytes", counts.Omitted.Load(), counts.Sessions.Load(), counts.Bytes.Load())
	}
	if n := r.pending.Load(); n != 0 {
		t.Errorf("%d bytes still counted", n)
	}
	if r.Session(Client{}) != nil {
		t.Error("a session after the end")
	}
	s.tell(wire.ComPing, "\x0e", 0, 0, 0) // is of no consequence
}

func size(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestRecorderMasks has nothing of the values in the file.
func TestRecorderMasks(t *testing.T) {
	r, file := recorder(t, Options{Mask: true})
	s := r.Session(Client{User: "app", Capabilities: caps})
	s.tell(wire.ComQuery, "\x03\x00\x01INSERT INTO t VALUES ('needle', 4711471147)", 0, 0, 0)
	s.tell(wire.ComStmtPrepare, "\x16SELECT ?", 0, 1, 1)
	s.tell(wire.ComStmtExecute, "\x17\x01\x00\x00\x00\x08\x01\x00\x00\x00\x01\x00\x01\xfd\x00\x00\x06needle", 0, 0, 0)
	s.tell(wire.ComStmtSendLongData, "\x18\x01\x00\x00\x00\x00\x00needle", 0, 0, 0)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	got := kinds(t, file)
	if len(got) != 6 || strings.Contains(strings.Join(got, " "), "needle") || strings.Contains(got[1], "4711471147") {
		t.Fatalf("got %q", got)
	}
	inserted := got[1][len("query INSERT INTO t VALUES ('"):][:6]
	if got[3] != "execute "+inserted || got[4] != "longdata "+inserted {
		t.Errorf("the same value becomes several ones: %q", got)
	}
}

// TestRecorderBounds has a recording end by its size, drop what comes too fast and what is too long.
func TestRecorderBounds(t *testing.T) {
	ended := make(chan string, 1)
	r, file := recorder(t, Options{MaxSize: 4096, Ended: func(reason string, err error) { ended <- reason }})
	s := r.Session(Client{User: "app"})
	for range 100 {
		s.tell(wire.ComQuery, "\x03SELECT '"+strings.Repeat("x", 100)+"'", 0, 0, 0)
	}
	if reason := <-ended; reason != "max_size" {
		t.Errorf("ended by %s", reason)
	}
	if n := size(t, file); n > 4096 || n < 3500 {
		t.Errorf("%d bytes", n)
	}
	if got := kinds(t, file); got[len(got)-1] != "stop max_size" {
		t.Errorf("last is %q", got[len(got)-1])
	}

	var counts Counts
	r, file = recorder(t, Options{Counts: &counts, MaxTime: time.Hour})
	s = r.Session(Client{User: "app"})
	r.pending.Store(maxPending - 50)
	s.tell(wire.ComQuery, "\x03SELECT '"+strings.Repeat("x", 100)+"'", 0, 0, 0)
	r.pending.Store(0)
	s.tell(wire.ComQuery, "\x03SELECT 2", 0, 0, 0)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(kinds(t, file), "|"); got != "begin|gap queue|query SELECT 2|stop asked" || counts.Dropped.Load() != 1 {
		t.Errorf("got %s, %d dropped", got, counts.Dropped.Load())
	}

	for name, o := range map[string]Options{"time": {MaxTime: time.Nanosecond}} {
		ended := make(chan string, 1)
		o.Ended = func(reason string, err error) { ended <- reason }
		recorder(t, o)
		if reason := <-ended; reason != "max_time" {
			t.Errorf("%s: ended by %s", name, reason)
		}
	}
}

// TestQueueIsBounded has a recorder whose worker does not come by: nobody waits, and what is missing is told.
func TestQueueIsBounded(t *testing.T) {
	r := &Recorder{options: Options{Share: 100}, counts: new(Counts), queue: make(chan item, 2), began: time.Now()}
	s := r.Session(Client{})
	for range 5 {
		s.tell(wire.ComPing, "\x0e", 0, 0, 0)
	}
	if n := r.counts.Dropped.Load(); n != 4 || s.missing != 4 || r.pending.Load() != 1 {
		t.Fatalf("%d dropped, %d missing, %d bytes pending", n, s.missing, r.pending.Load())
	}
	<-r.queue
	s.tell(wire.ComPing, "\x0e", 0, 0, 0)
	<-r.queue
	if it := <-r.queue; it.missing != 4 || it.why != "queue" {
		t.Errorf("the gap is told as %+v", it)
	}
}

func TestAppendsToARecording(t *testing.T) {
	r, file := recorder(t, Options{})
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b[:len(b)-5], 0o600); err != nil { // torn
		t.Fatal(err)
	}
	o := Options{File: file, Share: 100, MaxSize: 1 << 20, MaxTime: time.Hour}
	if r, err = Start(o); err != nil {
		t.Fatal(err)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	b, err = os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if list, parts, torn, err := readAll(b); err != nil || parts != 2 || torn != 1 || len(list) != 1 {
		t.Errorf("%d records, %d parts, %d torn, %v", len(list), parts, torn, err)
	}
	o.MaxSize = 10
	if _, err := Start(o); err == nil || !strings.Contains(err.Error(), "bytes already") {
		t.Errorf("over its size: %v", err)
	}
	o.File, o.MaxSize = filepath.Join(t.TempDir(), "notes.txt"), 1<<20
	if err := os.WriteFile(o.File, []byte("my notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(o); err == nil || !strings.Contains(err.Error(), "cannot be appended to") {
		t.Errorf("something else: %v", err)
	}
	if b, _ := os.ReadFile(o.File); string(b) != "my notes\n" {
		t.Errorf("it is now %q", b)
	}
}

func TestChosen(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		client  Client
		want    bool
	}{
		"all":             {Options{}, Client{User: "a"}, true},
		"user":            {Options{Users: []string{"b", "a"}}, Client{User: "a"}, true},
		"another user":    {Options{Users: []string{"b"}}, Client{User: "a"}, false},
		"pattern":         {Options{Schemas: []string{"shop*"}}, Client{Schema: "shop_2"}, true},
		"no schema":       {Options{Schemas: []string{"shop*"}}, Client{}, false},
		"network":         {Options{Hosts: []string{"10.0.0.0/8"}}, Client{Address: "10.1.2.3:4"}, true},
		"another network": {Options{Hosts: []string{"10.0.0.0/8"}}, Client{Address: "11.1.2.3:4"}, false},
		"address":         {Options{Hosts: []string{"::1"}}, Client{Address: "[::1]:4"}, true},
		"socket":          {Options{Hosts: []string{"localhost"}}, Client{Address: "/run/x"}, true},
	} {
		c.options.Share = 100
		r := &Recorder{options: c.options}
		if got := r.chosen(&c.client); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	r := &Recorder{options: Options{Share: 30}}
	n := 0
	for range 10000 {
		if r.chosen(&Client{}) {
			n++
		}
	}
	if n < 2500 || n > 3500 {
		t.Errorf("30 %% of 10000 sessions are %d", n)
	}
}

// TestValues writes parameters as the protocol has them and reads them back.
func TestValues(t *testing.T) {
	values := []Value{
		{Type: 1, Data: Text("-128")}, {Type: 1, Unsigned: true, Data: Text("255")}, {Type: 2, Data: Text("-32768")}, {Type: 3, Data: Text("-1")},
		{Type: 8, Unsigned: true, Data: Text("18446744073709551615")}, {Type: 4, Data: Text("1.5")}, {Type: 5, Data: Text("-2.25e+100")},
		{Type: 12, Data: Text("e8070c1f173b3b")}, {Type: 253, Data: Text(strings.Repeat("x", 70000))}, {Type: 6, Null: true}, {Type: 252, Long: true}, {Type: 246, Data: Text("1.00")},
	}
	for _, attributes := range []bool{false, true} {
		rec := Record{Kind: Execute, Values: values, Cursor: 1}
		p, err := rec.AppendExecute(nil, 7, attributes)
		if err != nil {
			t.Fatal(err)
		}
		e, err := parseExecute(p, len(values), nil, attributes, func(i int) bool { return i == 10 })
		if err != nil || e.statement != 7 || e.cursor != 1 || !reflect.DeepEqual(e.values, values) {
			t.Errorf("attributes %v: %v, %+v", attributes, err, e)
		}
		for n := range p[:100] { // cut anywhere it is an error, not a panic
			if _, err := parseExecute(p[:n], len(values), nil, attributes, func(int) bool { return false }); err == nil {
				t.Errorf("cut at %d: no error", n)
			}
		}
	}
	rows := Record{Kind: Bulk, Columns: 2, Values: []Value{{Type: 8, Data: Text("1")}, {Type: 253, Data: Text("a")}, {Type: 8, Data: Text("2")}, {Type: 253, Indicator: 1}}}
	p, err := rows.AppendBulk(nil, 7)
	if err != nil {
		t.Fatal(err)
	}
	if e, _, err := parseBulk(p, 2, nil); err != nil || !reflect.DeepEqual(e.values, rows.Values) {
		t.Errorf("%v, %+v", err, e.values)
	}
	m := NewMasker()
	for i, v := range values {
		got := m.Value(v)
		if len(got.Data) != len(v.Data) && v.Type != 5 || got.Type != v.Type || got.Null != v.Null {
			t.Errorf("%d: %+v becomes %+v", i, v, got)
		}
		if !got.Null && !got.Long {
			if _, err := got.AppendData(nil); err != nil {
				t.Errorf("%d: %+v becomes %+v: %v", i, v, got, err)
			}
		}
	}
}

func TestLexicalOfMode(t *testing.T) {
	if got := lexical(rewrite.NoBackslashEscapes | rewrite.ANSIQuotes); !got.ANSIQuotes || !got.NoBackslashEscapes {
		t.Errorf("%+v", got)
	}
}

func BenchmarkSession(b *testing.B) {
	o := Options{File: filepath.Join(b.TempDir(), "r.jsonl"), Share: 100, MaxSize: 1 << 40, MaxTime: time.Hour}
	r, err := Start(o)
	if err != nil {
		b.Fatal(err)
	}
	s := r.Session(Client{Capabilities: caps})
	p := packet("\x03\x00\x01INSERT INTO t (a, b, c) VALUES (1, 'two', 'three')")
	b.ReportAllocs()
	for b.Loop() {
		s.Command(wire.ComQuery, 0)
		s.Bytes(p)
		s.Done(0, 0, 0)
	}
	b.StopTimer()
	b.ReportMetric(float64(r.counts.Dropped.Load())/float64(b.N), "dropped/op")
	if err := r.Stop(); err != nil {
		b.Fatal(err)
	}
}
