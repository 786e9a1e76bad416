// Package session decides, for one client session, what is done with each command: forwarded, replaced, answered here, or
// preceded by a statement of our own. It is the state machine that makes a parked temporary table look dropped.
//
// It is pure: no I/O, no clock (events carry the time), no randomness, no lock, no goroutine, no logger. One Machine belongs to
// one session and is not safe for concurrent use. What the process knows beyond one session comes through a Ledger. An Observer finds
// out what a Machine would do to a session that is left alone.
package session
