// Package drivers uses drivers of many languages and the usual command-line programs, directly and through the proxy in every
// strategy, and wants to see the same. Each has a program of its own here that prints all it sees. It does not cover
// authentication, which the tests of the folder above do.
package drivers
