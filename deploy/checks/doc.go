// Package checks holds no code: its tests look at what lies in deploy with the tools that will read it. It is a module of its own, so
// that the program's own module needs none of these.
package checks
