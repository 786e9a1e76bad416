// Package proxy runs client sessions: it listens, dials, and carries each session's conversation.
//
// The protocol life of one session is a conversation: a resumable state machine without I/O. It is given the bytes that arrived
// and says which runs of bytes go to which side. Two drivers carry conversations: event loops over epoll (Linux) and a small pump
// of goroutines over net.Conn (everywhere, and for comparison). TLS and the compressed protocol are layers of the
// conversation, below what it understands.
package proxy
