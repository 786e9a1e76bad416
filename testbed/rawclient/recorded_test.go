package rawclient

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestRecorded reads every recorded reply of a real server to its last byte, and no further.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("../../wire/testdata/replies/*.hex")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 500 {
		t.Fatalf("%d recorded replies", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var command byte
			c := &Conn{}
			first, rest, _ := strings.Cut(string(text), "\n")
			if _, err := fmt.Sscanf(first, "# command=%v caps=%v mariadb_caps=%v", &command, &c.Capabilities, &c.MariaDB); err != nil {
				t.Fatal(err)
			}
			var stream []byte
			for line := range strings.Lines(rest) {
				if strings.HasPrefix(line, "#") {
					continue
				}
				p, err := hex.DecodeString(strings.TrimSpace(line))
				if err != nil {
					t.Fatal(err)
				}
				stream = append(stream, p...)
			}
			reply := answerWith(t, c, command, stream)
			if !bytes.Equal(reply.Raw, stream) {
				t.Errorf("read %d of %d bytes", len(reply.Raw), len(stream))
			}
			if len(reply.Fields(command == mysql.COM_STMT_EXECUTE)) < 2 {
				t.Errorf("nothing was seen in %x", stream)
			}
		})
	}
}

// script is a connection to a server that sends what it has and takes everything.
type script struct {
	net.Conn
	*bytes.Reader
}

func (s *script) Read(p []byte) (int, error)  { return s.Reader.Read(p) }
func (s *script) Write(p []byte) (int, error) { return len(p), nil }
func (s *script) SetDeadline(time.Time) error { return nil }

// answerWith lets a server that sends stream and closes answer a command.
func answerWith(t *testing.T, c *Conn, command byte, stream []byte) Reply {
	t.Helper()
	d := newConn(&script{Reader: bytes.NewReader(stream)}, Config{KeepRaw: true})
	d.Capabilities, d.MariaDB = c.Capabilities, c.MariaDB
	var reply Reply
	var err error
	switch command {
	case mysql.COM_FIELD_LIST:
		reply, err = d.FieldList("t", "")
	case mysql.COM_STATISTICS:
		reply, err = d.Statistics()
	case mysql.COM_STMT_PREPARE:
		reply, err = d.Prepare("p")
	case mysql.COM_STMT_FETCH:
		reply, err = d.Fetch(1, 1)
	case mysql.COM_CHANGE_USER:
		d.scramble = slices.Repeat([]byte{1}, 20)
		reply, err = d.ChangeUser("u", "p", "s")
	default:
		reply, err = d.Raw([]byte{command})
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := d.in.Read(make([]byte, 1)); n > 0 {
		t.Error("bytes were left over")
	}
	return reply
}

// TestFields tells apart replies that differ in one thing only.
func TestFields(t *testing.T) {
	reply := func() *Reply {
		return &Reply{Packets: 3, Results: []Result{
			{ColumnCount: 1, Columns: []Column{{Name: "a", Type: 3}}, ColumnsEOF: &OK{Header: 0xfe, EOF: true},
				Rows: [][]byte{{1, 'x'}, {0xfb}}, End: &OK{Header: 0xfe, Status: mysql.SERVER_MORE_RESULTS_EXISTS}},
			{Err: &ERR{Code: 1146, State: "42S02", Message: "m"}},
		}}
	}
	one := byte(1)
	changes := map[string]func(*Reply){
		"packets":        func(r *Reply) { r.Packets++ },
		"sequence":       func(r *Reply) { r.Sequence = []string{"odd"} },
		"turn":           func(r *Reply) { r.Turns = []string{"full"} },
		"progress":       func(r *Reply) { r.Progress = []Progress{{Stage: 1}} },
		"text":           func(r *Reply) { r.Text = new(string) },
		"prepared":       func(r *Reply) { r.Prepared = &Prepared{} },
		"result":         func(r *Reply) { r.Results = r.Results[:1] },
		"row":            func(r *Reply) { r.Results[0].Rows = r.Results[0].Rows[:1] },
		"value":          func(r *Reply) { r.Results[0].Rows[0][1] = 'y' },
		"null":           func(r *Reply) { r.Results[0].Rows[1] = []byte{0} },
		"column name":    func(r *Reply) { r.Results[0].Columns[0].Name = "b" },
		"column table":   func(r *Reply) { r.Results[0].Columns[0].Table = "t" },
		"column type":    func(r *Reply) { r.Results[0].Columns[0].Type = 4 },
		"column flags":   func(r *Reply) { r.Results[0].Columns[0].Flags = 1 },
		"column length":  func(r *Reply) { r.Results[0].Columns[0].Length = 1 },
		"column default": func(r *Reply) { r.Results[0].Columns[0].HasDefault = true },
		"metadata":       func(r *Reply) { r.Results[0].Metadata = &one },
		"columns eof":    func(r *Reply) { r.Results[0].ColumnsEOF.Status = 2 },
		"no columns eof": func(r *Reply) { r.Results[0].ColumnsEOF = nil },
		"header":         func(r *Reply) { r.Results[0].End.Header = 0 },
		"status":         func(r *Reply) { r.Results[0].End.Status |= mysql.SERVER_STATUS_IN_TRANS },
		"warnings":       func(r *Reply) { r.Results[0].End.Warnings = 1 },
		"affected":       func(r *Reply) { r.Results[0].End.AffectedRows = 1 },
		"insert id":      func(r *Reply) { r.Results[0].End.InsertID = 1 },
		"info":           func(r *Reply) { r.Results[0].End.Info = []byte{} },
		"state":          func(r *Reply) { r.Results[0].End.State = []byte{1} },
		"eof form":       func(r *Reply) { r.Results[0].End.EOF = true },
		"error code":     func(r *Reply) { r.Results[1].Err.Code = 1051 },
		"error state":    func(r *Reply) { r.Results[1].Err.State = "HY000" },
		"error message":  func(r *Reply) { r.Results[1].Err.Message = "n" },
		"infile":         func(r *Reply) { r.Results[1].Infile = new(string) },
	}
	original := reply().Fields(false)
	if !slices.Equal(original, reply().Fields(false)) {
		t.Fatal("equal replies have different fields")
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			changed := reply()
			change(changed)
			if slices.Equal(original, changed.Fields(false)) {
				t.Error("the difference is not seen")
			}
		})
	}
}
