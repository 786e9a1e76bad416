package record

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// Version is that of the format written here.
const Version = 1

// Header is the first line of a part of a recording.
type Header struct {
	Version int       `json:"tmpproxy_recording"`
	Began   time.Time `json:"began"`
	Masked  bool      `json:"masked,omitempty"`
}

// The kinds of records.
const (
	Begin          = "begin"
	Query          = "query"
	Prepare        = "prepare"
	Execute        = "execute"
	Bulk           = "bulk"
	LongData       = "longdata"
	Fetch          = "fetch"
	Close          = "close"
	ResetStatement = "resetstatement"
	InitDB         = "initdb"
	FieldList      = "fieldlist"
	Ping           = "ping"
	Statistics     = "statistics"
	SetOption      = "setoption"
	Reset          = "reset"
	ChangeUser     = "changeuser"
	Omitted        = "omitted"
	Gap            = "gap"
	Lost           = "lost"
	End            = "end"
	Stop           = "stop"
)

// Record is one line: something that a session sent, or that happened to it.
type Record struct {
	Kind    string `json:"kind"`
	Session uint64 `json:"session,omitempty"`
	At      int64  `json:"at"`              // microseconds since the part began
	Took    int64  `json:"took,omitempty"`  // microseconds until the reply was complete
	Error   uint16 `json:"error,omitempty"` // that the server answered with

	Text      Text    `json:"text,omitempty"`      // of a statement; a schema of initdb; a table of fieldlist; the data of longdata
	Statement uint32  `json:"statement,omitempty"` // the number of a prepared statement, as the server told it in the recorded session
	Cursor    byte    `json:"cursor,omitempty"`    // the flags of an execute
	Values    []Value `json:"values,omitempty"`    // of execute; of bulk, row by row
	Columns   int     `json:"columns,omitempty"`   // of bulk: values in a row
	Number    uint32  `json:"number,omitempty"`    // rows of fetch, the parameter of longdata, 1 for multi-statements off, the flags of bulk
	Reason    string  `json:"reason,omitempty"`    // of gap and stop
	Count     int     `json:"count,omitempty"`     // statements of a gap

	// Of begin; user and schema of changeuser as well.
	User         string `json:"user,omitempty"`
	Schema       string `json:"schema,omitempty"`
	Client       string `json:"client,omitempty"` // its host
	Server       string `json:"server,omitempty"` // mysql or mariadb
	ServerID     int    `json:"version,omitempty"`
	Collation    uint16 `json:"collation,omitempty"`
	Capabilities uint64 `json:"capabilities,omitempty"` // negotiated
	Joined       bool   `json:"joined,omitempty"`       // the session was there before the recording: what it had prepared and SET is not known
}

// Text is any bytes, which most often are UTF-8.
type Text []byte

type encoded struct {
	Base64 *string `json:"base64"`
}

// MarshalJSON makes a string, or an object with the base64 form.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.Valid(t) {
		return marshal(string(t))
	}
	s := base64.StdEncoding.EncodeToString(t)
	return marshal(encoded{&s})
}

// UnmarshalJSON reads either form.
func (t *Text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*t = Text(s)
		return nil
	}
	var e encoded
	if err := json.Unmarshal(b, &e); err != nil {
		return err
	}
	if e.Base64 == nil {
		return errors.New("a text is neither a string nor base64")
	}
	raw, err := base64.StdEncoding.DecodeString(*e.Base64)
	*t = raw
	return err
}

// marshal is json.Marshal without escapes for browsers.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// maxLine bounds a line: a packet of 16 MiB, in which every byte may take six.
const maxLine = 128 << 20

// Reader reads a recording.
type Reader struct {
	in     *bufio.Reader
	header Header
	lines  int
	torn   int
	queued []byte // a line that was read ahead
}

// NewReader reads the header.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, 16<<10)}
	line, err := r.line()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	h, ok, err := parseHeader(line)
	switch {
	case err != nil:
		return nil, fmt.Errorf("header: %w", err)
	case !ok:
		return nil, errors.New("header: this is no recording")
	}
	r.header = h
	return r, nil
}

// Header is that of the present part.
func (r *Reader) Header() Header { return r.header }

// Torn is the number of lines that were not whole and were passed over.
func (r *Reader) Torn() int { return r.torn }

// line returns the next line that ends, without its end; io.EOF behind the last.
func (r *Reader) line() ([]byte, error) {
	if line := r.queued; line != nil {
		r.queued = nil
		return line, nil
	}
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(line) > maxLine {
				return nil, fmt.Errorf("line %d is longer than %d bytes", r.lines+1, maxLine)
			}
			continue
		case err == io.EOF && len(line) > 0:
			r.torn++
			return nil, io.EOF
		case err != nil:
			return nil, err
		}
		r.lines++
		return line[:len(line)-1], nil
	}
}

func parseHeader(line []byte) (h Header, ok bool, err error) {
	if !bytes.HasPrefix(line, []byte(`{"tmpproxy_recording":`)) {
		return h, false, nil
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, false, err
	}
	if h.Version != Version {
		return h, false, fmt.Errorf("version %d of the format is not known here, only %d", h.Version, Version)
	}
	return h, true, nil
}

// Next returns the next record. newPart says that a header stood in front of it. io.EOF is the end.
func (r *Reader) Next() (rec Record, newPart bool, err error) {
	for {
		line, err := r.line()
		if err != nil {
			return Record{}, newPart, err
		}
		h, ok, err := parseHeader(line)
		if err != nil {
			return Record{}, newPart, fmt.Errorf("line %d: %w", r.lines, err)
		}
		if ok {
			r.header, newPart = h, true
			continue
		}
		var rec Record
		if err = json.Unmarshal(line, &rec); err == nil && rec.Kind == "" {
			err = errors.New("no kind")
		}
		if err == nil {
			return rec, newPart, nil
		}
		at := r.lines
		following, ahead := r.line()
		if ahead != nil && ahead != io.EOF {
			return Record{}, newPart, ahead
		}
		// A line that ends and makes no sense was torn and appended to.
		if _, isHeader, _ := parseHeader(following); ahead == nil && !isHeader {
			return Record{}, newPart, fmt.Errorf("line %d: %w", at, err)
		}
		r.torn++
		r.queued = following
		if ahead == io.EOF {
			return Record{}, newPart, io.EOF
		}
	}
}

// appendRecord appends a record's line.
func appendRecord(dst []byte, rec *Record) []byte {
	b, err := marshal(rec)
	if err != nil {
		panic(err) // no field can fail
	}
	return append(dst, b...)
}
