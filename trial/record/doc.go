// Package record writes what chosen sessions of a proxy send, so that it can be run again elsewhere, and reads it back. It also
// reads the general and the slow logs of MySQL and MariaDB as recordings.
//
// # Format, version 1
//
// A recording is a text file of lines, each a JSON object. It begins with a header:
//
//	{"tmpproxy_recording":1,"began":"2026-03-01T12:00:00Z","masked":false}
//
// A program that does not know the version must not read on. Fields that are not known are to be passed over. A recording may be
// appended to: another header begins another part, whose session numbers and times begin anew. Each other line is a [Record]:
//
//	{"kind":"begin","session":1,"at":120,"user":"shop","schema":"shop","client":"10.0.0.7","server":"mysql","version":90700,"collation":45,"capabilities":…}
//	{"kind":"query","session":1,"at":1300,"took":210,"text":"SELECT 1"}
//	{"kind":"prepare","session":1,"at":1900,"took":150,"statement":1,"text":"SELECT * FROM t WHERE a = ?"}
//	{"kind":"execute","session":1,"at":2300,"took":90,"statement":1,"values":[{"type":8,"data":"12"}]}
//	{"kind":"end","session":1,"at":9000}
//
// Times are in microseconds since "began"; "took" is until the reply was complete, as the proxy saw it. Lines stand in the order
// in which the replies were complete: run one after another in this order, no statement waits for one behind it. Texts are JSON
// strings, or {"base64":"…"} where they are no UTF-8.
//
// What a session sent besides statements is the kinds longdata, fetch, close, resetstatement, initdb, fieldlist, ping,
// statistics, setoption, reset and changeuser (user and schema alone). "omitted" stands for a statement that was left out
// because it may hold a password, "gap" for one that could not be kept (reason: queue, size, unknown), "lost" for the end of what
// can be understood of a session, "stop" for the end of the recording (reason: asked, max_size, max_time).
//
// The last line may be torn; so may one in front of another header. A reader passes over it.
//
// Never written are: anything of a login or of a COM_CHANGE_USER but user and schema, and statements that give accounts or
// servers their passwords, see [Sensitive]. Query attributes and the files of LOCAL INFILE are not written either.
package record
