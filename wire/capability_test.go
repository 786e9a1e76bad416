package wire

import (
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

func TestCapabilityBits(t *testing.T) {
	theirs := map[Capability]uint32{
		ClientLongPassword: mysql.CLIENT_LONG_PASSWORD, ClientFoundRows: mysql.CLIENT_FOUND_ROWS,
		ClientLongFlag: mysql.CLIENT_LONG_FLAG, ClientConnectWithDB: mysql.CLIENT_CONNECT_WITH_DB,
		ClientNoSchema: mysql.CLIENT_NO_SCHEMA, ClientCompress: mysql.CLIENT_COMPRESS, ClientODBC: mysql.CLIENT_ODBC,
		ClientLocalFiles: mysql.CLIENT_LOCAL_FILES, ClientIgnoreSpace: mysql.CLIENT_IGNORE_SPACE,
		ClientProtocol41: mysql.CLIENT_PROTOCOL_41, ClientInteractive: mysql.CLIENT_INTERACTIVE, ClientSSL: mysql.CLIENT_SSL,
		ClientIgnoreSigpipe: mysql.CLIENT_IGNORE_SIGPIPE, ClientTransactions: mysql.CLIENT_TRANSACTIONS,
		ClientReserved: mysql.CLIENT_RESERVED, ClientSecureConnection: mysql.CLIENT_SECURE_CONNECTION,
		ClientMultiStatements: mysql.CLIENT_MULTI_STATEMENTS, ClientMultiResults: mysql.CLIENT_MULTI_RESULTS,
		ClientPSMultiResults: mysql.CLIENT_PS_MULTI_RESULTS, ClientPluginAuth: mysql.CLIENT_PLUGIN_AUTH,
		ClientConnectAttrs:             mysql.CLIENT_CONNECT_ATTRS,
		ClientPluginAuthLenencData:     mysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA,
		ClientCanHandleExpiredPassword: mysql.CLIENT_CAN_HANDLE_EXPIRED_PASSWORDS,
		ClientSessionTrack:             mysql.CLIENT_SESSION_TRACK, ClientDeprecateEOF: mysql.CLIENT_DEPRECATE_EOF,
		ClientOptionalResultsetMeta: mysql.CLIENT_OPTIONAL_RESULTSET_METADATA,
		ClientZstdCompression:       mysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM,
		ClientQueryAttributes:       mysql.CLIENT_QUERY_ATTRIBUTES,
		MultiFactorAuthentication:   mysql.MULTI_FACTOR_AUTHENTICATION,
		ClientProgress:              mysql.CLIENT_CAPABILITY_EXTENSION, // one bit, two meanings
		ClientSSLVerifyServerCert:   mysql.CLIENT_SSL_VERIFY_SERVER_CERT,
		ClientRememberOptions:       mysql.CLIENT_REMEMBER_OPTIONS,
	}
	if len(theirs) != 32 {
		t.Fatalf("%d bits compared, there are 32", len(theirs))
	}
	for ours, bit := range theirs {
		if uint64(ours) != uint64(bit) {
			t.Errorf("%v is %#x, should be %#x", ours, uint64(ours), bit)
		}
	}
}

func TestStatusBits(t *testing.T) {
	for ours, theirs := range map[uint16]uint16{
		StatusInTrans:             mysql.SERVER_STATUS_IN_TRANS,
		StatusAutocommit:          mysql.SERVER_STATUS_AUTOCOMMIT,
		StatusMoreResultsExists:   mysql.SERVER_MORE_RESULTS_EXISTS,
		StatusNoGoodIndexUsed:     mysql.SERVER_STATUS_NO_GOOD_INDEX_USED,
		StatusNoIndexUsed:         mysql.SERVER_STATUS_NO_INDEX_USED,
		StatusCursorExists:        mysql.SERVER_STATUS_CURSOR_EXISTS,
		StatusLastRowSent:         mysql.SERVER_STATUS_LAST_ROW_SEND,
		StatusDBDropped:           mysql.SERVER_STATUS_DB_DROPPED,
		StatusNoBackslashEscapes:  mysql.SERVER_STATUS_NO_BACKSLASH_ESCAPED,
		StatusMetadataChanged:     mysql.SERVER_STATUS_METADATA_CHANGED,
		StatusQueryWasSlow:        mysql.SERVER_QUERY_WAS_SLOW,
		StatusPSOutParams:         mysql.SERVER_PS_OUT_PARAMS,
		StatusInTransReadonly:     mysql.SERVER_STATUS_IN_TRANS_READONLY,
		StatusSessionStateChanged: mysql.SERVER_SESSION_STATE_CHANGED,
	} {
		if ours != theirs {
			t.Errorf("a status flag is %#x, should be %#x", ours, theirs)
		}
	}
}

func TestCapabilityString(t *testing.T) {
	for _, test := range []struct {
		caps Capability
		want string
	}{
		{0, ""},
		{ClientLongPassword, "CLIENT_LONG_PASSWORD"},
		{ClientProtocol41 | ClientDeprecateEOF, "CLIENT_PROTOCOL_41|CLIENT_DEPRECATE_EOF"},
		{ClientRememberOptions | MariaDBProgress, "CLIENT_REMEMBER_OPTIONS|MARIADB_CLIENT_PROGRESS"},
		{MariaDBBulkUnitResults, "MARIADB_CLIENT_BULK_UNIT_RESULTS"},
		{ClientSSL | 1<<38 | 1<<63, "CLIENT_SSL|0x8000004000000000"},
	} {
		if got := test.caps.String(); got != test.want {
			t.Errorf("%#x is %q, want %q", uint64(test.caps), got, test.want)
		}
	}
}

func TestCarried(t *testing.T) {
	for _, bit := range []Capability{ClientSSL, MariaDBComMulti, 1 << 38, 1 << 63} {
		if Carried&bit != 0 {
			t.Errorf("%v is carried", bit)
		}
	}
	for _, bit := range []Capability{
		ClientProtocol41, ClientSecureConnection, ClientPluginAuth, ClientConnectAttrs, ClientPluginAuthLenencData,
		ClientConnectWithDB, ClientSessionTrack, ClientDeprecateEOF, ClientOptionalResultsetMeta, ClientQueryAttributes,
		MultiFactorAuthentication, ClientLocalFiles, ClientCompress, ClientZstdCompression, ClientMultiStatements, ClientMultiResults, ClientPSMultiResults,
		MariaDBProgress, MariaDBStmtBulkOperations, MariaDBExtendedMetadata, MariaDBCacheMetadata, MariaDBBulkUnitResults,
	} {
		if !Carried.Has(bit) {
			t.Errorf("%v is not carried", bit)
		}
	}
	if !(ClientSSL | ClientODBC).Has(ClientSSL) || ClientODBC.Has(ClientSSL|ClientODBC) {
		t.Error("Has does not ask for every bit")
	}
}
