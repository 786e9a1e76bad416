// Package tests holds the tests that need real servers. They are built with the tag realserver only (make test gives it),
// so that go test ./... stays quick and counts nothing as passed that did not run. The servers are obtained and started
// by the tests themselves, see testbed/server.
package tests
