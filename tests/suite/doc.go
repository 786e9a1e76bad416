// Package suite runs MySQL's own regression tests, the files of the main suite of Debian's package mysql-testsuite and the
// C API test mysql_client_test, directly against a server and through tmpproxy, and compares what they print. The tests
// were written by others for others; what matters here is only that the proxy changes nothing in what they see.
//
// Left out: files that a plain server cannot run (they need options, plugins, a debug build, restarts or replication).
// They are not listed anywhere: each says so itself, by skipping or failing without the proxy.
package suite
