// Package replay runs what was recorded of sessions, or what a general or slow log holds, on a server: directly, and through
// proxies, the arms. It measures how long statements and cycles of temporary tables take in each arm, and finds every difference
// that a client can see between an arm and the server itself.
//
// The arms run one after another, each with all sessions. Within an arm one statement runs at a time, in the order of the
// recording, so that every run does the same; one that does not answer in time (it waits for a lock) is left running while the
// others go on. The server is run directly once more at the end: what differs between the two direct runs is not the arms' doing.
//
// It starts no proxies and knows no strategies; that is for its caller.
package replay
