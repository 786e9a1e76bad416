// Package wire reads and writes the MySQL client/server protocol as far as a relay needs it: packet framing, views of
// the greeting and the login, the turns of an authentication, and where a reply ends.
//
// Nothing here does I/O, keeps time or starts goroutines: bytes are passed in, in chunks of any size, and answers are
// passed out. Values are not safe for concurrent use; each belongs to one connection.
//
// Left out on purpose: rows and column definitions are never decoded, sequence numbers are never checked (servers send
// odd ones), and compressed or encrypted streams are not understood (they are undone before bytes get here).
package wire
