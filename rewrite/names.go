package rewrite

// Mentions tells whether text could refer to a table called name.
func Mentions(text []byte, name string) bool { return true }

// CallsFunction tells whether text could call a function that is not built in.
func CallsFunction(text []byte, mode Mode) bool { return true }

// ReadsDiagnostics tells whether text could read the diagnostics area or ROW_COUNT().
func ReadsDiagnostics(text []byte) bool { return true }

// ReadsTables tells whether text could list tables.
func ReadsTables(text []byte) bool { return true }

// OpaqueCharset tells whether a trail byte of the character set name can be taken
// for a backslash or a quote.
func OpaqueCharset(name string) bool { return true }

// OpaqueCollation is OpaqueCharset for the character set of the collation id.
func OpaqueCollation(id uint16) bool { return true }
