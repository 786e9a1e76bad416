package rawclient

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// Attribute is a query attribute.
type Attribute struct {
	Name  string
	Value any // as for Execute
}

// do sends a command and reads its reply with read.
func (c *Conn) do(command []byte, read func(*Reply) error) (Reply, error) {
	if err := c.begin(command); err != nil {
		return Reply{}, fmt.Errorf("send command %#x: %w", command[0], err)
	}
	return c.receive(command[0], read)
}

func (c *Conn) receive(command byte, read func(*Reply) error) (reply Reply, err error) {
	c.reply = &reply
	defer func() {
		c.reply = nil
		reply.Sent = c.sent
	}()
	if err := read(&reply); err != nil {
		return reply, fmt.Errorf("read reply to command %#x: %w", command, err)
	}
	return reply, nil
}

// Query sends COM_QUERY. The attributes are left out when CLIENT_QUERY_ATTRIBUTES is not negotiated.
func (c *Conn) Query(text string, attributes ...Attribute) (Reply, error) {
	if err := c.SendQuery(text, attributes...); err != nil {
		return Reply{}, err
	}
	return c.ReceiveQuery()
}

// SendQuery sends COM_QUERY and does not wait for the reply; ReceiveQuery reads it.
func (c *Conn) SendQuery(text string, attributes ...Attribute) error {
	command := []byte{mysql.COM_QUERY}
	if c.Capabilities&mysql.CLIENT_QUERY_ATTRIBUTES != 0 {
		command = appendLenenc(command, uint64(len(attributes)))
		command = append(command, 1) // one set of parameters
		if len(attributes) > 0 {
			var err error
			if command, err = c.appendValues(command, nil, attributes, true); err != nil {
				return err
			}
		}
	}
	if err := c.begin(append(command, text...)); err != nil {
		return fmt.Errorf("send query: %w", err)
	}
	return nil
}

// ReceiveQuery reads the reply to a SendQuery.
func (c *Conn) ReceiveQuery() (Reply, error) { return c.receive(mysql.COM_QUERY, c.results) }

// Raw sends any command whose reply has the shape of a query's: an OK or ERR, or result sets.
func (c *Conn) Raw(command []byte) (Reply, error) { return c.do(command, c.results) }

// Ping sends COM_PING.
func (c *Conn) Ping() (Reply, error) { return c.Raw([]byte{mysql.COM_PING}) }

// InitDB sends COM_INIT_DB.
func (c *Conn) InitDB(schema string) (Reply, error) {
	return c.Raw(append([]byte{mysql.COM_INIT_DB}, schema...))
}

// ResetConnection sends COM_RESET_CONNECTION.
func (c *Conn) ResetConnection() (Reply, error) { return c.Raw([]byte{mysql.COM_RESET_CONNECTION}) }

// SetOption sends COM_SET_OPTION: multi-statements on or off.
func (c *Conn) SetOption(multiStatements bool) (Reply, error) {
	option := byte(mysql.MYSQL_OPTION_MULTI_STATEMENTS_OFF)
	if multiStatements {
		option = mysql.MYSQL_OPTION_MULTI_STATEMENTS_ON
	}
	return c.Raw([]byte{mysql.COM_SET_OPTION, option, 0})
}

// ProcessInfo sends COM_PROCESS_INFO.
func (c *Conn) ProcessInfo() (Reply, error) { return c.Raw([]byte{mysql.COM_PROCESS_INFO}) }

// Debug sends COM_DEBUG.
func (c *Conn) Debug() (Reply, error) { return c.Raw([]byte{mysql.COM_DEBUG}) }

// Kill sends COM_PROCESS_KILL.
func (c *Conn) Kill(thread uint32) (Reply, error) {
	return c.Raw(binary.LittleEndian.AppendUint32([]byte{mysql.COM_PROCESS_KILL}, thread))
}

// Statistics sends COM_STATISTICS, whose answer is one string in Reply.Text.
func (c *Conn) Statistics() (Reply, error) {
	return c.do([]byte{mysql.COM_STATISTICS}, func(reply *Reply) error {
		p, err := c.next(reply)
		if err != nil {
			return err
		}
		text := string(p)
		reply.Text = &text
		return nil
	})
}

// FieldList sends COM_FIELD_LIST. The definitions are in the reply's only result.
func (c *Conn) FieldList(table, wildcard string) (Reply, error) {
	command := append([]byte{mysql.COM_FIELD_LIST}, table...)
	command = append(append(command, 0), wildcard...)
	return c.do(command, func(reply *Reply) error {
		result := Result{}
		defer func() { reply.Results = append(reply.Results, result) }()
		for {
			p, err := c.next(reply)
			if err != nil {
				return err
			}
			if c.isEnd(p) || len(p) > 0 && p[0] == mysql.ERR_HEADER {
				return c.endOf(&result, p)
			}
			column, err := c.parseColumn(p, true)
			if err != nil {
				return err
			}
			result.Columns = append(result.Columns, column)
		}
	})
}

// ChangeUser sends COM_CHANGE_USER and takes the turns of the new account's authentication. The first answer is made
// with the last scramble seen; an ERR is in the reply.
func (c *Conn) ChangeUser(user, password, schema string) (Reply, error) {
	plugin := c.Greeting.Plugin
	first, err := c.answerFor(plugin, password)
	if err != nil {
		plugin, first = mysql.AUTH_NATIVE_PASSWORD, nil
	}
	command := append([]byte{mysql.COM_CHANGE_USER}, user...)
	command = append(command, 0, byte(len(first)))
	command = append(command, first...)
	command = append(append(command, schema...), 0)
	command = append(command, c.config.Collation, 0)
	if c.Capabilities&mysql.CLIENT_PLUGIN_AUTH != 0 {
		command = append(append(command, plugin...), 0)
	}
	if c.Capabilities&mysql.CLIENT_CONNECT_ATTRS != 0 {
		command = c.appendAttributes(command)
	}
	var reply Reply
	if err := c.begin(command); err != nil {
		return reply, fmt.Errorf("change user: %w", err)
	}
	err = c.authenticate(&reply, plugin, password)
	reply.Sent = c.sent
	if err != nil {
		return reply, fmt.Errorf("change user: %w", err)
	}
	return reply, nil
}

// Prepare sends COM_STMT_PREPARE.
func (c *Conn) Prepare(text string) (Reply, error) {
	return c.do(append([]byte{mysql.COM_STMT_PREPARE}, text...), c.prepared)
}

func (c *Conn) prepared(reply *Reply) error {
	p, err := c.next(reply)
	if err != nil {
		return err
	}
	if len(p) == 0 || p[0] != mysql.OK_HEADER {
		return c.parseEnd(reply, p)
	}
	r := reader{p: p[1:]}
	s := &Prepared{ID: r.uint32()}
	columns, params := uint64(r.uint16()), uint64(r.uint16())
	r.bytes(1)
	s.Warnings = r.uint16()
	definitions := true
	if len(r.p) > 0 {
		follows := r.byte()
		s.Metadata = &follows
		definitions = follows != 0
	}
	if r.err != nil || len(r.p) > 0 {
		return fmt.Errorf("prepare answer of %d bytes", len(p))
	}
	reply.Prepared = s
	if params > 0 {
		if s.Params, s.ParamsEOF, err = c.columns(reply, params, definitions); err != nil {
			return err
		}
	}
	if columns > 0 {
		if s.Columns, s.ColumnsEOF, err = c.columns(reply, columns, definitions); err != nil {
			return err
		}
	}
	return nil
}

// LongData marks a parameter of Execute whose value was sent with SendLongData.
type LongData struct{}

// Execute sends COM_STMT_EXECUTE. A parameter is nil, an int64, a float64, a string, a []byte or LongData. cursor is a
// CURSOR_TYPE_ value.
func (c *Conn) Execute(id uint32, cursor byte, parameters ...any) (Reply, error) {
	return c.ExecuteWith(id, cursor, nil, parameters...)
}

// ExecuteWith is Execute with query attributes, which are left out when they were not negotiated.
func (c *Conn) ExecuteWith(id uint32, cursor byte, attributes []Attribute, parameters ...any) (Reply, error) {
	named := c.Capabilities&mysql.CLIENT_QUERY_ATTRIBUTES != 0
	if !named {
		attributes = nil
	}
	count := len(parameters) + len(attributes)
	flags := cursor
	if named && count > 0 {
		flags |= mysql.PARAMETER_COUNT_AVAILABLE
	}
	command := binary.LittleEndian.AppendUint32([]byte{mysql.COM_STMT_EXECUTE}, id)
	command = append(command, flags, 1, 0, 0, 0)
	if count > 0 {
		if named {
			command = appendLenenc(command, uint64(count))
		}
		var err error
		if command, err = c.appendValues(command, parameters, attributes, named); err != nil {
			return Reply{}, err
		}
	}
	return c.do(command, c.results)
}

// appendValues appends the null bitmap, the types and the values of parameters and attributes.
func (c *Conn) appendValues(p []byte, parameters []any, attributes []Attribute, named bool) ([]byte, error) {
	values := append([]any{}, parameters...)
	names := make([]string, len(parameters))
	for _, a := range attributes {
		values = append(values, a.Value)
		names = append(names, a.Name)
	}
	nulls := make([]byte, (len(values)+7)/8)
	var types, data []byte
	for i, value := range values {
		if value == nil {
			nulls[i/8] |= 1 << (i % 8)
		}
		kind, bytes, err := encodeValue(value)
		if err != nil {
			return nil, err
		}
		types = append(types, kind, 0)
		if named {
			types = appendLenencString(types, []byte(names[i]))
		}
		data = append(data, bytes...)
	}
	p = append(append(p, nulls...), 1)
	return append(append(p, types...), data...), nil
}

func encodeValue(value any) (kind byte, data []byte, err error) {
	switch v := value.(type) {
	case nil:
		return mysql.MYSQL_TYPE_NULL, nil, nil
	case LongData:
		return mysql.MYSQL_TYPE_LONG_BLOB, nil, nil
	case int64:
		return mysql.MYSQL_TYPE_LONGLONG, binary.LittleEndian.AppendUint64(nil, uint64(v)), nil
	case float64:
		return mysql.MYSQL_TYPE_DOUBLE, binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)), nil
	case string:
		return mysql.MYSQL_TYPE_VAR_STRING, appendLenencString(nil, []byte(v)), nil
	case []byte:
		return mysql.MYSQL_TYPE_LONG_BLOB, appendLenencString(nil, v), nil
	}
	return 0, nil, fmt.Errorf("parameter of type %T", value)
}

// BulkExecute sends MariaDB's COM_STMT_BULK_EXECUTE. All rows have the first row's types.
func (c *Conn) BulkExecute(id uint32, unitResults bool, rows ...[]any) (Reply, error) {
	const (
		command     = 0xfa
		sendTypes   = 128
		unitReplies = 64
		null        = 1
	)
	flags := uint16(sendTypes)
	if unitResults {
		flags |= unitReplies
	}
	p := binary.LittleEndian.AppendUint32([]byte{command}, id)
	p = binary.LittleEndian.AppendUint16(p, flags)
	for i, row := range rows {
		if i == 0 {
			for _, value := range row {
				kind, _, err := encodeValue(value)
				if err != nil {
					return Reply{}, err
				}
				p = append(p, kind, 0)
			}
		}
		for _, value := range row {
			_, data, err := encodeValue(value)
			if err != nil {
				return Reply{}, err
			}
			if value == nil {
				p = append(p, null)
				continue
			}
			p = append(append(p, 0), data...)
		}
	}
	return c.do(p, c.results)
}

// SendLongData sends COM_STMT_SEND_LONG_DATA, which has no reply.
func (c *Conn) SendLongData(id uint32, parameter uint16, data []byte) error {
	p := binary.LittleEndian.AppendUint32([]byte{mysql.COM_STMT_SEND_LONG_DATA}, id)
	p = binary.LittleEndian.AppendUint16(p, parameter)
	return c.begin(append(p, data...))
}

// Fetch sends COM_STMT_FETCH. Its rows are in the reply's only result.
func (c *Conn) Fetch(id, rows uint32) (Reply, error) {
	p := binary.LittleEndian.AppendUint32([]byte{mysql.COM_STMT_FETCH}, id)
	return c.do(binary.LittleEndian.AppendUint32(p, rows), func(reply *Reply) error {
		reply.Results = append(reply.Results, Result{})
		_, err := c.rows(reply, &reply.Results[0])
		return err
	})
}

// ResetStatement sends COM_STMT_RESET.
func (c *Conn) ResetStatement(id uint32) (Reply, error) {
	return c.Raw(binary.LittleEndian.AppendUint32([]byte{mysql.COM_STMT_RESET}, id))
}

// CloseStatement sends COM_STMT_CLOSE, which has no reply.
func (c *Conn) CloseStatement(id uint32) error {
	return c.begin(binary.LittleEndian.AppendUint32([]byte{mysql.COM_STMT_CLOSE}, id))
}
