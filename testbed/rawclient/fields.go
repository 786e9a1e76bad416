package rawclient

import (
	"crypto/sha256"
	"fmt"
	"strconv"
)

// Field is one thing a client can see in a reply.
type Field struct {
	Path  string // for instance result[0].column[1].length
	Value string
	// Column is the name of the column a row's value belongs to, empty for all else and for rows of the binary protocol.
	Column string
}

// Fields takes a reply apart. Two replies that a client could tell apart have different fields. Binary tells that the
// rows are of the binary protocol; they are given whole.
func (r *Reply) Fields(binary bool) []Field {
	var f fields
	for i, turn := range r.Turns {
		f.add(fmt.Sprintf("turn[%d]", i), turn)
	}
	if r.Text != nil {
		f.add("text", quote(*r.Text))
	}
	if s := r.Prepared; s != nil {
		f.add("prepared.id", s.ID)
		f.add("prepared.warnings", s.Warnings)
		f.optional("prepared.metadata", s.Metadata)
		f.columns("prepared.params", s.Params)
		f.ok("prepared.params.eof", s.ParamsEOF)
		f.columns("prepared.columns", s.Columns)
		f.ok("prepared.columns.eof", s.ColumnsEOF)
	}
	for i, result := range r.Results {
		f.result(fmt.Sprintf("result[%d]", i), result, binary)
	}
	for i, g := range r.Progress {
		f.add(fmt.Sprintf("progress[%d]", i), fmt.Sprintf("%d/%d %d %q", g.Stage, g.Stages, g.Done, g.Text))
	}
	for i, fault := range r.Sequence {
		f.add(fmt.Sprintf("sequence[%d]", i), fault)
	}
	f.add("packets", r.Packets)
	return f
}

// quote makes text of a value; of a very long one its beginning, length and hash stand for it.
func quote(s string) string {
	const most, beginning = 16 << 10, 64
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%q… %d bytes, SHA-256 %x", s[:beginning], len(s), sha256.Sum256([]byte(s)))
}

type fields []Field

func (f *fields) add(path string, value any) {
	*f = append(*f, Field{Path: path, Value: fmt.Sprint(value)})
}

func (f *fields) optional(path string, value *byte) {
	if value != nil {
		f.add(path, *value)
	}
}

func (f *fields) result(path string, r Result, binary bool) {
	if r.Infile != nil {
		f.add(path+".infile", quote(*r.Infile))
	}
	if r.ColumnCount > 0 {
		f.add(path+".columns", r.ColumnCount)
	}
	f.optional(path+".metadata", r.Metadata)
	f.columns(path, r.Columns)
	f.ok(path+".columns.eof", r.ColumnsEOF)
	for i, row := range r.Rows {
		f.row(fmt.Sprintf("%s.row[%d]", path, i), r.Columns, row, binary)
	}
	f.ok(path+".end", r.End)
	if r.Err != nil {
		f.add(path+".error.code", r.Err.Code)
		f.add(path+".error.state", r.Err.State)
		f.add(path+".error.message", quote(r.Err.Message))
	}
}

func (f *fields) row(path string, columns []Column, row []byte, binary bool) {
	values, err := TextRow(row)
	if binary || err != nil {
		f.add(path, quote(string(row)))
		return
	}
	for i, value := range values {
		field := Field{Path: fmt.Sprintf("%s[%d]", path, i), Value: "NULL"}
		if i < len(columns) {
			field.Column = columns[i].Name
		}
		if value != nil {
			field.Value = quote(string(value))
		}
		*f = append(*f, field)
	}
}

func (f *fields) columns(path string, columns []Column) {
	for i, c := range columns {
		p := fmt.Sprintf("%s.column[%d].", path, i)
		f.add(p+"name", quote(c.Name))
		f.add(p+"org_name", quote(c.OrgName))
		f.add(p+"table", quote(c.Table))
		f.add(p+"org_table", quote(c.OrgTable))
		f.add(p+"schema", quote(c.Schema))
		f.add(p+"catalog", quote(c.Catalog))
		f.add(p+"type", fmt.Sprintf("%#02x", c.Type))
		f.add(p+"flags", fmt.Sprintf("%#04x", c.Flags))
		f.add(p+"length", c.Length)
		f.add(p+"decimals", c.Decimals)
		f.add(p+"collation", c.Collation)
		if c.Extended != nil {
			f.add(p+"extended", quote(string(c.Extended)))
		}
		if c.HasDefault {
			value := "NULL"
			if c.Default != nil {
				value = quote(string(c.Default))
			}
			f.add(p+"default", value)
		}
	}
}

func (f *fields) ok(path string, o *OK) {
	if o == nil {
		return
	}
	f.add(path+".header", fmt.Sprintf("%#02x", o.Header))
	f.add(path+".status", fmt.Sprintf("%#04x", o.Status))
	f.add(path+".warnings", o.Warnings)
	if o.EOF {
		return
	}
	f.add(path+".affected_rows", o.AffectedRows)
	f.add(path+".insert_id", o.InsertID)
	if o.Info != nil {
		f.add(path+".info", quote(string(o.Info)))
	}
	if o.State != nil {
		f.add(path+".state", quote(string(o.State)))
	}
}
