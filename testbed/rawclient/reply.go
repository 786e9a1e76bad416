package rawclient

import (
	"errors"
	"fmt"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// Reply is everything a server sent in answer to one command.
type Reply struct {
	Results  []Result
	Prepared *Prepared  // COM_STMT_PREPARE answered OK
	Text     *string    // COM_STATISTICS
	Turns    []string   // of an authentication
	Progress []Progress // reports that came in between, MariaDB only
	Packets  int        // protocol packets, of at most 2^24-1 bytes each
	Sequence []string   // packets whose sequence number was not the next one
	// Raw is the byte stream of the reply and Sent that of the client, when Config.KeepRaw is set. A client sends only its
	// command, but for LOCAL INFILE, whose file goes out when RawBeforeFile bytes have come.
	Raw, Sent     []byte
	RawBeforeFile int
}

// Result is one result of a reply, in the order its parts came.
type Result struct {
	Infile   *string // a LOCAL INFILE request; the result after the file is in End or Err
	Metadata *byte   // the byte behind the column count that tells whether definitions follow
	// Columns is nil when there is no result set, and when definitions were left out.
	Columns     []Column
	ColumnCount uint64
	ColumnsEOF  *OK      // after the definitions, without CLIENT_DEPRECATE_EOF
	Rows        [][]byte // payloads
	End         *OK      // OK, or the OK / EOF that ends a result set
	Err         *ERR
}

// OK is an OK or EOF packet.
type OK struct {
	Header       byte // 0x00 or 0xFE
	EOF          bool // the five-byte EOF, which has no affected rows, insert id, info and state
	AffectedRows uint64
	InsertID     uint64
	Status       uint16
	Warnings     uint16
	Info         []byte // nil when the packet ends before it
	State        []byte // session state changes
}

// ERR is an ERR packet.
type ERR struct {
	Code    uint16
	State   string // empty when the packet has none
	Message string
}

// Progress is a MariaDB progress report.
type Progress struct {
	Stage, Stages byte
	Done          uint32 // in thousandths of a percent
	Text          string
}

// Column is a column definition with all its fields.
type Column struct {
	Catalog, Schema, Table, OrgTable, Name, OrgName string

	Extended   []byte // MariaDB's extended type information; nil when not negotiated
	Collation  uint16
	Length     uint32
	Type       byte
	Flags      uint16
	Decimals   byte
	Default    []byte // COM_FIELD_LIST only
	HasDefault bool   // a default, maybe NULL, was in the packet
}

// Prepared is the answer to a COM_STMT_PREPARE.
type Prepared struct {
	ID         uint32
	Warnings   uint16
	Metadata   *byte // with CLIENT_OPTIONAL_RESULTSET_METADATA
	Params     []Column
	ParamsEOF  *OK
	Columns    []Column
	ColumnsEOF *OK
}

// Err returns the reply's ERR, nil when there is none. An ERR is always in the last result.
func (r *Reply) Err() *ERR {
	if n := len(r.Results); n > 0 {
		return r.Results[n-1].Err
	}
	return nil
}

// AsError returns the reply's ERR as a Go error, nil when there is none.
func (r *Reply) AsError() error {
	if e := r.Err(); e != nil {
		return &ServerError{*e}
	}
	return nil
}

// Status returns the status flags of the reply's last packet, and whether it had any.
func (r *Reply) Status() (uint16, bool) {
	if n := len(r.Results); n > 0 {
		last := r.Results[n-1]
		if last.End != nil {
			return last.End.Status, true
		}
		if last.ColumnsEOF != nil {
			return last.ColumnsEOF.Status, true
		}
	}
	return 0, false
}

// TextRow splits a row of the text protocol; nil stands for NULL.
func TextRow(row []byte) ([][]byte, error) {
	var values [][]byte
	r := reader{p: row}
	for len(r.p) > 0 && r.err == nil {
		value := r.lenencBytes()
		values = append(values, value)
	}
	return values, r.err
}

func parseERR(p []byte, handshake bool) (ERR, error) {
	r := reader{p: p[1:]}
	e := ERR{Code: r.uint16()}
	if len(r.p) > 0 && r.p[0] == '#' && !handshake {
		r.bytes(1)
		e.State = string(r.bytes(5))
	}
	e.Message = string(r.rest())
	return e, r.err
}

// parseOK reads an OK, or an EOF.
func (c *Conn) parseOK(p []byte) (*OK, error) {
	r := reader{p: p}
	o := &OK{Header: r.byte()}
	if o.Header == mysql.EOF_HEADER && len(p) == 5 {
		o.EOF = true
		o.Warnings = r.uint16()
		o.Status = r.uint16()
		return o, r.err
	}
	o.AffectedRows = r.number()
	o.InsertID = r.number()
	o.Status = r.uint16()
	o.Warnings = r.uint16()
	if c.Capabilities&mysql.CLIENT_SESSION_TRACK == 0 {
		if len(r.p) > 0 {
			o.Info = r.rest()
		}
		return o, r.err
	}
	if len(r.p) > 0 {
		o.Info = r.lenencBytes()
		if o.Status&mysql.SERVER_SESSION_STATE_CHANGED != 0 {
			o.State = r.lenencBytes()
		}
	}
	if len(r.p) > 0 && r.err == nil {
		return o, fmt.Errorf("%d bytes behind an OK", len(r.p))
	}
	return o, r.err
}

// parseEnd puts an OK or ERR into a result of its own.
func (c *Conn) parseEnd(reply *Reply, p []byte) error {
	var result Result
	if err := c.endOf(&result, p); err != nil {
		return err
	}
	reply.Results = append(reply.Results, result)
	return nil
}

func (c *Conn) endOf(result *Result, p []byte) error {
	if len(p) == 0 {
		return errors.New("empty packet instead of OK, EOF or ERR")
	}
	if p[0] == mysql.ERR_HEADER {
		e, err := parseERR(p, false)
		result.Err = &e
		return err
	}
	if p[0] != mysql.OK_HEADER && p[0] != mysql.EOF_HEADER {
		return fmt.Errorf("packet %#x instead of OK, EOF or ERR", p[0])
	}
	var err error
	result.End, err = c.parseOK(p)
	return err
}

func (c *Conn) parseColumn(p []byte, fieldList bool) (Column, error) {
	var d Column
	r := reader{p: p}
	for _, s := range []*string{&d.Catalog, &d.Schema, &d.Table, &d.OrgTable, &d.Name, &d.OrgName} {
		*s = string(r.lenencBytes())
	}
	if c.MariaDB&MariaDBExtendedMetadata != 0 {
		d.Extended = r.lenencBytes()
	}
	if fixed := r.number(); fixed != 0x0c && r.err == nil {
		return d, fmt.Errorf("column definition with %d fixed bytes", fixed)
	}
	d.Collation = r.uint16()
	d.Length = r.uint32()
	d.Type = r.byte()
	d.Flags = r.uint16()
	d.Decimals = r.byte()
	r.bytes(2)
	if fieldList && len(r.p) > 0 {
		d.HasDefault = true
		d.Default = r.lenencBytes()
	}
	if len(r.p) > 0 && r.err == nil {
		return d, fmt.Errorf("%d bytes behind a column definition", len(r.p))
	}
	return d, r.err
}

// isEnd tells an OK or EOF that ends rows from a row: a row may begin with 0xFE, but then its first value is so long that
// the packet is a full one.
func (c *Conn) isEnd(p []byte) bool {
	if len(p) == 0 || p[0] != mysql.EOF_HEADER {
		return false
	}
	if c.Capabilities&mysql.CLIENT_DEPRECATE_EOF != 0 {
		return len(p) < maxPayload
	}
	return len(p) < 9
}

// isProgress tells a progress report from an error.
func isProgress(p []byte) bool {
	return len(p) > 3 && p[0] == mysql.ERR_HEADER && p[1] == 0xff && p[2] == 0xff
}

// next returns the next packet of a reply, noting progress reports on the way.
func (c *Conn) next(reply *Reply) ([]byte, error) {
	for {
		p, err := c.readPacket()
		if err != nil || !isProgress(p) {
			return p, err
		}
		r := reader{p: p[3:]}
		r.bytes(1) // number of strings, always 1
		g := Progress{Stage: r.byte(), Stages: r.byte()}
		b := r.bytes(3)
		g.Done = uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		g.Text = string(r.lenencBytes())
		if r.err != nil {
			return nil, fmt.Errorf("progress report: %w", r.err)
		}
		reply.Progress = append(reply.Progress, g)
	}
}

// columns reads count definitions, unless the server left them out, and the EOF behind them, which comes without
// CLIENT_DEPRECATE_EOF even then.
func (c *Conn) columns(reply *Reply, count uint64, definitions bool) ([]Column, *OK, error) {
	var columns []Column
	if !definitions {
		count = 0
	}
	for range count {
		p, err := c.next(reply)
		if err != nil {
			return columns, nil, err
		}
		column, err := c.parseColumn(p, false)
		if err != nil {
			return columns, nil, err
		}
		columns = append(columns, column)
	}
	if c.Capabilities&mysql.CLIENT_DEPRECATE_EOF != 0 {
		return columns, nil, nil
	}
	p, err := c.next(reply)
	if err != nil {
		return columns, nil, err
	}
	eof, err := c.parseOK(p)
	return columns, eof, err
}

// results reads the reply to COM_QUERY, COM_STMT_EXECUTE and their like.
func (c *Conn) results(reply *Reply) error {
	for {
		more, err := c.result(reply)
		if err != nil || !more {
			return err
		}
	}
}

// result reads one result and tells whether another follows.
func (c *Conn) result(reply *Reply) (more bool, err error) {
	reply.Results = append(reply.Results, Result{})
	result := &reply.Results[len(reply.Results)-1]
	p, err := c.next(reply)
	if err != nil {
		return false, err
	}
	if len(p) == 0 {
		return false, errors.New("empty first packet of a reply")
	}
	switch p[0] {
	case mysql.OK_HEADER, mysql.ERR_HEADER, mysql.EOF_HEADER:
		return c.end(result, p)
	case mysql.LocalInFile_HEADER:
		name := string(p[1:])
		result.Infile = &name
		reply.RawBeforeFile = len(reply.Raw)
		if err := c.sendFile(name); err != nil {
			return false, err
		}
		if p, err = c.next(reply); err != nil {
			return false, err
		}
		return c.end(result, p)
	}
	r := reader{p: p}
	result.ColumnCount = r.number()
	definitions := true
	if c.Capabilities&mysql.CLIENT_OPTIONAL_RESULTSET_METADATA != 0 || c.MariaDB&MariaDBCacheMetadata != 0 {
		follows := r.byte()
		result.Metadata = &follows
		definitions = follows != 0
	}
	if r.err != nil || len(r.p) > 0 {
		return false, fmt.Errorf("column count packet of %d bytes", len(p))
	}
	if result.Columns, result.ColumnsEOF, err = c.columns(reply, result.ColumnCount, definitions); err != nil {
		return false, err
	}
	if eof := result.ColumnsEOF; eof != nil && eof.Status&mysql.SERVER_STATUS_CURSOR_EXISTS != 0 {
		return false, nil // the rows are for COM_STMT_FETCH
	}
	more, err = c.rows(reply, result)
	// MySQL tells in the first EOF only that something follows the result of OUT parameters, as libmysql knows, too.
	if eof := result.ColumnsEOF; eof != nil && result.Err == nil {
		const out = mysql.SERVER_PS_OUT_PARAMS | mysql.SERVER_MORE_RESULTS_EXISTS
		more = more || eof.Status&out == out
	}
	return more, err
}

// rows reads rows up to their end.
func (c *Conn) rows(reply *Reply, result *Result) (more bool, err error) {
	for {
		p, err := c.next(reply)
		if err != nil {
			return false, err
		}
		if c.isEnd(p) || len(p) > 0 && p[0] == mysql.ERR_HEADER {
			return c.end(result, p)
		}
		result.Rows = append(result.Rows, p)
	}
}

func (c *Conn) end(result *Result, p []byte) (more bool, err error) {
	if err := c.endOf(result, p); err != nil {
		return false, err
	}
	return result.End != nil && result.End.Status&mysql.SERVER_MORE_RESULTS_EXISTS != 0, nil
}

func (c *Conn) sendFile(name string) error {
	if c.config.LocalInfile != nil {
		// In packets of a few bytes, as a client that reads a file piecewise.
		content := c.config.LocalInfile(name)
		for len(content) > 0 {
			n := min(len(content), 4096)
			if err := c.writePacket(content[:n]); err != nil {
				return err
			}
			content = content[n:]
		}
	}
	return c.writePacket(nil)
}
