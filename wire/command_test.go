package wire

import (
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

func TestCommandBytes(t *testing.T) {
	theirs := map[Command]byte{
		ComSleep: mysql.COM_SLEEP, ComQuit: mysql.COM_QUIT, ComInitDB: mysql.COM_INIT_DB, ComQuery: mysql.COM_QUERY,
		ComFieldList: mysql.COM_FIELD_LIST, ComCreateDB: mysql.COM_CREATE_DB, ComDropDB: mysql.COM_DROP_DB,
		ComRefresh: mysql.COM_REFRESH, ComShutdown: mysql.COM_SHUTDOWN, ComStatistics: mysql.COM_STATISTICS,
		ComProcessInfo: mysql.COM_PROCESS_INFO, ComConnect: mysql.COM_CONNECT, ComProcessKill: mysql.COM_PROCESS_KILL,
		ComDebug: mysql.COM_DEBUG, ComPing: mysql.COM_PING, ComTime: mysql.COM_TIME,
		ComDelayedInsert: mysql.COM_DELAYED_INSERT, ComChangeUser: mysql.COM_CHANGE_USER,
		ComBinlogDump: mysql.COM_BINLOG_DUMP, ComTableDump: mysql.COM_TABLE_DUMP, ComConnectOut: mysql.COM_CONNECT_OUT,
		ComRegisterSlave: mysql.COM_REGISTER_SLAVE, ComStmtPrepare: mysql.COM_STMT_PREPARE,
		ComStmtExecute: mysql.COM_STMT_EXECUTE, ComStmtSendLongData: mysql.COM_STMT_SEND_LONG_DATA,
		ComStmtClose: mysql.COM_STMT_CLOSE, ComStmtReset: mysql.COM_STMT_RESET, ComSetOption: mysql.COM_SET_OPTION,
		ComStmtFetch: mysql.COM_STMT_FETCH, ComDaemon: mysql.COM_DAEMON, ComBinlogDumpGTID: mysql.COM_BINLOG_DUMP_GTID,
		ComResetConnection: mysql.COM_RESET_CONNECTION, ComClone: mysql.COM_CLONE,
		ComSubscribeGroupReplicationStream: mysql.COM_SUBSCRIBE_GROUP_REPLICATION_STREAM,
	}
	if len(theirs) != 0x22 {
		t.Fatalf("%d commands compared, MySQL has %d", len(theirs), 0x22)
	}
	for ours, b := range theirs {
		if byte(ours) != b {
			t.Errorf("%v is %#02x, should be %#02x", ours, byte(ours), b)
		}
	}
}

func TestCommand(t *testing.T) {
	tests := []struct {
		command Command
		name    string
		shape   Shape
	}{
		{ComSleep, "COM_SLEEP", ShapeUnknown},
		{ComQuit, "COM_QUIT", ShapeNone},
		{ComInitDB, "COM_INIT_DB", ShapeOK},
		{ComQuery, "COM_QUERY", ShapeQuery},
		{ComFieldList, "COM_FIELD_LIST", ShapeFieldList},
		{ComCreateDB, "COM_CREATE_DB", ShapeOK},
		{ComDropDB, "COM_DROP_DB", ShapeOK},
		{ComRefresh, "COM_REFRESH", ShapeOK},
		{ComShutdown, "COM_SHUTDOWN", ShapeOK},
		{ComStatistics, "COM_STATISTICS", ShapeStatistics},
		{ComProcessInfo, "COM_PROCESS_INFO", ShapeQuery},
		{ComConnect, "COM_CONNECT", ShapeUnknown},
		{ComProcessKill, "COM_PROCESS_KILL", ShapeOK},
		{ComDebug, "COM_DEBUG", ShapeOK},
		{ComPing, "COM_PING", ShapeOK},
		{ComTime, "COM_TIME", ShapeUnknown},
		{ComDelayedInsert, "COM_DELAYED_INSERT", ShapeUnknown},
		{ComChangeUser, "COM_CHANGE_USER", ShapeAuth},
		{ComBinlogDump, "COM_BINLOG_DUMP", ShapeRaw},
		{ComTableDump, "COM_TABLE_DUMP", ShapeRaw},
		{ComConnectOut, "COM_CONNECT_OUT", ShapeUnknown},
		{ComRegisterSlave, "COM_REGISTER_SLAVE", ShapeOK},
		{ComStmtPrepare, "COM_STMT_PREPARE", ShapePrepare},
		{ComStmtExecute, "COM_STMT_EXECUTE", ShapeQuery},
		{ComStmtSendLongData, "COM_STMT_SEND_LONG_DATA", ShapeNone},
		{ComStmtClose, "COM_STMT_CLOSE", ShapeNone},
		{ComStmtReset, "COM_STMT_RESET", ShapeOK},
		{ComSetOption, "COM_SET_OPTION", ShapeOK},
		{ComStmtFetch, "COM_STMT_FETCH", ShapeFetch},
		{ComDaemon, "COM_DAEMON", ShapeUnknown},
		{ComBinlogDumpGTID, "COM_BINLOG_DUMP_GTID", ShapeRaw},
		{ComResetConnection, "COM_RESET_CONNECTION", ShapeOK},
		{ComClone, "COM_CLONE", ShapeRaw},
		{ComSubscribeGroupReplicationStream, "COM_SUBSCRIBE_GROUP_REPLICATION_STREAM", ShapeRaw},
		{0x22, "COM_0x22", ShapeUnknown},
		{0xf9, "COM_0xf9", ShapeUnknown},
		{0xfa, "COM_STMT_BULK_EXECUTE", ShapeQuery},
		{0xfb, "COM_SLAVE_WORKER", ShapeUnknown},
		{0xfc, "COM_SLAVE_IO", ShapeUnknown},
		{0xfd, "COM_SLAVE_SQL", ShapeUnknown},
		{0xfe, "COM_MULTI", ShapeUnknown},
		{0xff, "COM_0xff", ShapeUnknown},
	}
	for _, test := range tests {
		if got := test.command.String(); got != test.name {
			t.Errorf("%#02x is %q, want %q", byte(test.command), got, test.name)
		}
		if got := test.command.Shape(); got != test.shape {
			t.Errorf("%v has shape %d, want %d", test.command, got, test.shape)
		}
	}
}
