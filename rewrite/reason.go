package rewrite

// Reason tells why a CREATE is not eligible; 0 means that it is.
type Reason uint8

// The reasons. Those from ReasonCharset on are not given by Analyze: they depend on
// the session.
const (
	ReasonNone Reason = iota

	// About the text as a whole.
	ReasonParse             // not understood
	ReasonParseWarning      // understood with a warning
	ReasonVerify            // the spliced text would not mean the same
	ReasonTooLong           // longer than Options.MaxCreate
	ReasonExecutableComment // holds an executable comment
	ReasonHint              // holds the hint to leave it alone
	ReasonSetStatement      // does not begin with CREATE
	ReasonMulti             // more than one statement
	ReasonQuotes            // double quotes where ANSI_QUOTES would change the meaning
	ReasonName              // the name is not plain

	// About what is created.
	ReasonAsSelect
	ReasonLike
	ReasonOrReplace // OR REPLACE on MySQL, or with IF NOT EXISTS
	ReasonPartition
	ReasonEngine             // an engine with rows that are not its own, or unknown
	ReasonMyISAM             // MyISAM kept on MySQL: its TRUNCATE costs more than the cycle
	ReasonAriaAutoIncrement  // Aria kept with an AUTO_INCREMENT column: TRUNCATE does not begin at 1 again
	ReasonOption             // a table option that is not on the list of harmless ones
	ReasonAutoIncrementStart // AUTO_INCREMENT=n, n > 1
	ReasonUnion
	ReasonInsertMethod
	ReasonConnection
	ReasonDataDirectory
	ReasonTablespace
	ReasonSequence // the value of a column comes from a sequence, another object of the server

	// About the conversion to InnoDB.
	ReasonForeignKey
	ReasonInnoDBRowFormat
	ReasonInnoDBKeyBlockSize
	ReasonInnoDBAutoIncrement // the AUTO_INCREMENT column is not the first of a key
	ReasonInnoDBFulltext
	ReasonInnoDBKeyLength // a key that the engine and InnoDB may not take alike
	ReasonMemoryRefuses   // MEMORY, or the engine it is, refuses or ignores it, InnoDB would not

	// About the session.
	ReasonCharset             // the client character set is opaque
	ReasonSchemaUnknown       // the name is not qualified, the current schema not known
	ReasonInvisiblePrimaryKey // sql_generate_invisible_primary_key would add a column
	ReasonDefaultEngine       // no ENGINE, and the default was set to one that is not cached
)

// String returns the reason in snake_case, "eligible" for ReasonNone.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "invalid"
}

// Reasons is the number of reasons, ReasonNone included.
const Reasons = len(reasonNames)

var reasonNames = [...]string{
	ReasonNone:                "eligible",
	ReasonParse:               "parse",
	ReasonParseWarning:        "parse_warning",
	ReasonVerify:              "verify",
	ReasonTooLong:             "too_long",
	ReasonExecutableComment:   "executable_comment",
	ReasonHint:                "hint",
	ReasonSetStatement:        "set_statement",
	ReasonMulti:               "multi",
	ReasonQuotes:              "quotes",
	ReasonName:                "name",
	ReasonAsSelect:            "as_select",
	ReasonLike:                "like",
	ReasonOrReplace:           "or_replace",
	ReasonPartition:           "partition",
	ReasonEngine:              "engine",
	ReasonMyISAM:              "myisam",
	ReasonAriaAutoIncrement:   "aria_auto_increment",
	ReasonOption:              "option",
	ReasonAutoIncrementStart:  "auto_increment_start",
	ReasonUnion:               "union",
	ReasonInsertMethod:        "insert_method",
	ReasonConnection:          "connection",
	ReasonDataDirectory:       "data_directory",
	ReasonTablespace:          "tablespace",
	ReasonSequence:            "sequence",
	ReasonForeignKey:          "foreign_key",
	ReasonInnoDBRowFormat:     "innodb_row_format",
	ReasonInnoDBKeyBlockSize:  "innodb_key_block_size",
	ReasonInnoDBAutoIncrement: "innodb_auto_increment",
	ReasonInnoDBFulltext:      "innodb_fulltext",
	ReasonInnoDBKeyLength:     "innodb_key_length",
	ReasonMemoryRefuses:       "memory_refuses",
	ReasonCharset:             "charset",
	ReasonSchemaUnknown:       "schema_unknown",
	ReasonInvisiblePrimaryKey: "invisible_primary_key",
	ReasonDefaultEngine:       "default_engine",
}
