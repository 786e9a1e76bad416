package wire

import "fmt"

// Command is the first byte of a client's request in the command phase.
type Command byte

// The commands of MySQL and MariaDB, by the names of the manuals.
const (
	ComSleep                           Command = 0x00
	ComQuit                            Command = 0x01
	ComInitDB                          Command = 0x02
	ComQuery                           Command = 0x03
	ComFieldList                       Command = 0x04
	ComCreateDB                        Command = 0x05
	ComDropDB                          Command = 0x06
	ComRefresh                         Command = 0x07
	ComShutdown                        Command = 0x08
	ComStatistics                      Command = 0x09
	ComProcessInfo                     Command = 0x0a
	ComConnect                         Command = 0x0b
	ComProcessKill                     Command = 0x0c
	ComDebug                           Command = 0x0d
	ComPing                            Command = 0x0e
	ComTime                            Command = 0x0f
	ComDelayedInsert                   Command = 0x10
	ComChangeUser                      Command = 0x11
	ComBinlogDump                      Command = 0x12
	ComTableDump                       Command = 0x13
	ComConnectOut                      Command = 0x14
	ComRegisterSlave                   Command = 0x15
	ComStmtPrepare                     Command = 0x16
	ComStmtExecute                     Command = 0x17
	ComStmtSendLongData                Command = 0x18
	ComStmtClose                       Command = 0x19
	ComStmtReset                       Command = 0x1a
	ComSetOption                       Command = 0x1b
	ComStmtFetch                       Command = 0x1c
	ComDaemon                          Command = 0x1d
	ComBinlogDumpGTID                  Command = 0x1e
	ComResetConnection                 Command = 0x1f
	ComClone                           Command = 0x20
	ComSubscribeGroupReplicationStream Command = 0x21

	ComStmtBulkExecute Command = 0xfa // MariaDB
	ComSlaveWorker     Command = 0xfb // MariaDB, never sent by a client
	ComSlaveIO         Command = 0xfc // MariaDB, never sent by a client
	ComSlaveSQL        Command = 0xfd // MariaDB, never sent by a client
	ComMulti           Command = 0xfe // MariaDB 10.2 only; the relay clears its capability
)

// Shape is what the reply to a command looks like.
type Shape uint8

const (
	ShapeNone       Shape = iota // no reply, but for MySQL's ERR 1835 to a COM_STMT_CLOSE of less than 5 bytes or a COM_STMT_SEND_LONG_DATA of less than 7
	ShapeQuery                   // OK, ERR, LOCAL INFILE, result sets
	ShapePrepare                 // ERR, or prepare-OK and the definitions of parameters and columns
	ShapeFieldList               // ERR, or column definitions straight away, ended like rows
	ShapeFetch                   // ERR, or rows straight away
	ShapeStatistics              // one string, or ERR
	ShapeOK                      // one packet: OK, ERR or EOF
	ShapeAuth                    // the turns of an authentication, ended by OK or ERR
	ShapeRaw                     // a stream without an end that could be found
	ShapeUnknown                 // not on the list: OK, ERR or EOF ends it, anything else makes the stream raw
)

type commandInfo struct {
	name  string
	shape Shape
}

var commands = [256]commandInfo{
	ComSleep:                           {"COM_SLEEP", ShapeUnknown},
	ComQuit:                            {"COM_QUIT", ShapeNone},
	ComInitDB:                          {"COM_INIT_DB", ShapeOK},
	ComQuery:                           {"COM_QUERY", ShapeQuery},
	ComFieldList:                       {"COM_FIELD_LIST", ShapeFieldList},
	ComCreateDB:                        {"COM_CREATE_DB", ShapeOK},
	ComDropDB:                          {"COM_DROP_DB", ShapeOK},
	ComRefresh:                         {"COM_REFRESH", ShapeOK},
	ComShutdown:                        {"COM_SHUTDOWN", ShapeOK},
	ComStatistics:                      {"COM_STATISTICS", ShapeStatistics},
	ComProcessInfo:                     {"COM_PROCESS_INFO", ShapeQuery},
	ComConnect:                         {"COM_CONNECT", ShapeUnknown},
	ComProcessKill:                     {"COM_PROCESS_KILL", ShapeOK},
	ComDebug:                           {"COM_DEBUG", ShapeOK},
	ComPing:                            {"COM_PING", ShapeOK},
	ComTime:                            {"COM_TIME", ShapeUnknown},
	ComDelayedInsert:                   {"COM_DELAYED_INSERT", ShapeUnknown},
	ComChangeUser:                      {"COM_CHANGE_USER", ShapeAuth},
	ComBinlogDump:                      {"COM_BINLOG_DUMP", ShapeRaw},
	ComTableDump:                       {"COM_TABLE_DUMP", ShapeRaw},
	ComConnectOut:                      {"COM_CONNECT_OUT", ShapeUnknown},
	ComRegisterSlave:                   {"COM_REGISTER_SLAVE", ShapeOK},
	ComStmtPrepare:                     {"COM_STMT_PREPARE", ShapePrepare},
	ComStmtExecute:                     {"COM_STMT_EXECUTE", ShapeQuery},
	ComStmtSendLongData:                {"COM_STMT_SEND_LONG_DATA", ShapeNone},
	ComStmtClose:                       {"COM_STMT_CLOSE", ShapeNone},
	ComStmtReset:                       {"COM_STMT_RESET", ShapeOK},
	ComSetOption:                       {"COM_SET_OPTION", ShapeOK},
	ComStmtFetch:                       {"COM_STMT_FETCH", ShapeFetch},
	ComDaemon:                          {"COM_DAEMON", ShapeUnknown},
	ComBinlogDumpGTID:                  {"COM_BINLOG_DUMP_GTID", ShapeRaw},
	ComResetConnection:                 {"COM_RESET_CONNECTION", ShapeOK},
	ComClone:                           {"COM_CLONE", ShapeRaw},
	ComSubscribeGroupReplicationStream: {"COM_SUBSCRIBE_GROUP_REPLICATION_STREAM", ShapeRaw},
	ComStmtBulkExecute:                 {"COM_STMT_BULK_EXECUTE", ShapeQuery},
	ComSlaveWorker:                     {"COM_SLAVE_WORKER", ShapeUnknown},
	ComSlaveIO:                         {"COM_SLAVE_IO", ShapeUnknown},
	ComSlaveSQL:                        {"COM_SLAVE_SQL", ShapeUnknown},
	ComMulti:                           {"COM_MULTI", ShapeUnknown},
}

// String returns the manual's name, such as "COM_QUERY", or "COM_0x42" for a byte that is no command.
func (c Command) String() string {
	if name := commands[c].name; name != "" {
		return name
	}
	return fmt.Sprintf("COM_0x%02x", byte(c))
}

// Shape returns the shape of the command's reply.
func (c Command) Shape() Shape {
	if commands[c].name == "" {
		return ShapeUnknown
	}
	return commands[c].shape
}
