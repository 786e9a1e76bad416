package wire

import (
	"fmt"
	"strings"
)

// Capability is a set of protocol features, as offered in a greeting or asked for in a login. The low 32 bits are the
// CLIENT_* flags, the high 32 bits MariaDB's extended capabilities.
type Capability uint64

const (
	ClientLongPassword             Capability = 1 << 0 // MariaDB calls it CLIENT_MYSQL: unset, the extended capabilities follow
	ClientFoundRows                Capability = 1 << 1
	ClientLongFlag                 Capability = 1 << 2
	ClientConnectWithDB            Capability = 1 << 3
	ClientNoSchema                 Capability = 1 << 4
	ClientCompress                 Capability = 1 << 5
	ClientODBC                     Capability = 1 << 6
	ClientLocalFiles               Capability = 1 << 7
	ClientIgnoreSpace              Capability = 1 << 8
	ClientProtocol41               Capability = 1 << 9
	ClientInteractive              Capability = 1 << 10
	ClientSSL                      Capability = 1 << 11
	ClientIgnoreSigpipe            Capability = 1 << 12
	ClientTransactions             Capability = 1 << 13
	ClientReserved                 Capability = 1 << 14
	ClientSecureConnection         Capability = 1 << 15
	ClientMultiStatements          Capability = 1 << 16
	ClientMultiResults             Capability = 1 << 17
	ClientPSMultiResults           Capability = 1 << 18
	ClientPluginAuth               Capability = 1 << 19
	ClientConnectAttrs             Capability = 1 << 20
	ClientPluginAuthLenencData     Capability = 1 << 21
	ClientCanHandleExpiredPassword Capability = 1 << 22
	ClientSessionTrack             Capability = 1 << 23
	ClientDeprecateEOF             Capability = 1 << 24
	ClientOptionalResultsetMeta    Capability = 1 << 25
	ClientZstdCompression          Capability = 1 << 26
	ClientQueryAttributes          Capability = 1 << 27
	MultiFactorAuthentication      Capability = 1 << 28
	ClientProgress                 Capability = 1 << 29 // MariaDB before its extended capabilities; MySQL reserves the bit
	ClientSSLVerifyServerCert      Capability = 1 << 30
	ClientRememberOptions          Capability = 1 << 31

	MariaDBProgress           Capability = 1 << 32
	MariaDBComMulti           Capability = 1 << 33
	MariaDBStmtBulkOperations Capability = 1 << 34
	MariaDBExtendedMetadata   Capability = 1 << 35
	MariaDBCacheMetadata      Capability = 1 << 36
	MariaDBBulkUnitResults    Capability = 1 << 37
)

// Carried is everything the relay can carry. Missing are TLS (each leg decides for itself), MariaDB's COM_MULTI and every
// bit that has no name here.
const Carried = (1<<38 - 1) &^ (ClientSSL | MariaDBComMulti)

var capabilityNames = [...]string{
	"CLIENT_LONG_PASSWORD", "CLIENT_FOUND_ROWS", "CLIENT_LONG_FLAG", "CLIENT_CONNECT_WITH_DB",
	"CLIENT_NO_SCHEMA", "CLIENT_COMPRESS", "CLIENT_ODBC", "CLIENT_LOCAL_FILES",
	"CLIENT_IGNORE_SPACE", "CLIENT_PROTOCOL_41", "CLIENT_INTERACTIVE", "CLIENT_SSL",
	"CLIENT_IGNORE_SIGPIPE", "CLIENT_TRANSACTIONS", "CLIENT_RESERVED", "CLIENT_SECURE_CONNECTION",
	"CLIENT_MULTI_STATEMENTS", "CLIENT_MULTI_RESULTS", "CLIENT_PS_MULTI_RESULTS", "CLIENT_PLUGIN_AUTH",
	"CLIENT_CONNECT_ATTRS", "CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA", "CLIENT_CAN_HANDLE_EXPIRED_PASSWORDS", "CLIENT_SESSION_TRACK",
	"CLIENT_DEPRECATE_EOF", "CLIENT_OPTIONAL_RESULTSET_METADATA", "CLIENT_ZSTD_COMPRESSION_ALGORITHM", "CLIENT_QUERY_ATTRIBUTES",
	"MULTI_FACTOR_AUTHENTICATION", "CLIENT_PROGRESS", "CLIENT_SSL_VERIFY_SERVER_CERT", "CLIENT_REMEMBER_OPTIONS",
	"MARIADB_CLIENT_PROGRESS", "MARIADB_CLIENT_COM_MULTI", "MARIADB_CLIENT_STMT_BULK_OPERATIONS",
	"MARIADB_CLIENT_EXTENDED_METADATA", "MARIADB_CLIENT_CACHE_METADATA", "MARIADB_CLIENT_BULK_UNIT_RESULTS",
}

// Has tells whether every bit of x is set.
func (c Capability) Has(x Capability) bool { return c&x == x }

// String returns the manuals' names, joined by "|"; bits without a name come last as one hexadecimal number.
func (c Capability) String() string {
	var names []string
	for i, name := range capabilityNames {
		if bit := Capability(1) << i; c&bit != 0 {
			names = append(names, name)
			c &^= bit
		}
	}
	if c != 0 {
		names = append(names, fmt.Sprintf("%#x", uint64(c)))
	}
	return strings.Join(names, "|")
}

// Status flags of OK and EOF packets.
const (
	StatusInTrans             uint16 = 1 << 0
	StatusAutocommit          uint16 = 1 << 1
	StatusMoreResultsExists   uint16 = 1 << 3
	StatusNoGoodIndexUsed     uint16 = 1 << 4
	StatusNoIndexUsed         uint16 = 1 << 5
	StatusCursorExists        uint16 = 1 << 6
	StatusLastRowSent         uint16 = 1 << 7
	StatusDBDropped           uint16 = 1 << 8
	StatusNoBackslashEscapes  uint16 = 1 << 9
	StatusMetadataChanged     uint16 = 1 << 10
	StatusQueryWasSlow        uint16 = 1 << 11
	StatusPSOutParams         uint16 = 1 << 12
	StatusInTransReadonly     uint16 = 1 << 13
	StatusSessionStateChanged uint16 = 1 << 14
	StatusAnsiQuotes          uint16 = 1 << 15 // MariaDB
)
