// Package fuzz makes up sequences of statements as applications with temporary tables send them, runs each on a real server
// directly and through the proxy, and compares every field of every packet that the client got. What may differ is in a list
// of named differences, by strategy; anything else is a finding, which is shrunk to the fewest steps that still show it and
// printed as a script of package compare.
//
// It generates no plans and counters (EXPLAIN, SHOW STATUS), which the proxy changes by its nature, nothing global (SET GLOBAL,
// FLUSH TABLES WITH READ LOCK), as several sequences run side by side, and no statements of two connections that wait for
// each other.
package fuzz
