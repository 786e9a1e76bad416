//go:build !realserver

package tests

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	fmt.Println("real-server tests were not asked for: make test, or go test -tags realserver ./tests/...")
	os.Exit(m.Run())
}
