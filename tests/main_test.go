//go:build realserver

package tests

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"tmpproxy/testbed/server"
	"tmpproxy/tests/process"
)

func TestMain(m *testing.M) {
	flag.Parse()
	process.Race = *race
	code := m.Run()
	if err := server.StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := process.Clean(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// shared returns this run's server of a kind. A server that cannot be had is a failure: these tests were asked for.
func shared(t testing.TB, kind server.Kind) *server.Server {
	t.Helper()
	s, err := server.Shared(context.Background(), kind)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
