// Package tmpproxy holds no code: its tests keep the arrows between the packages below it and the tables of the README true.
package tmpproxy

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "tmpproxy"

// arrows says which packages of this module each package may import.
var arrows = map[string][]string{
	"wire":      nil,
	"rewrite":   nil,
	"session":   {"rewrite"},
	"advice":    nil,
	"proxy":     {"advice", "rewrite", "session", "telemetry", "wire"},
	"admin":     nil,
	"config":    nil,
	"telemetry": {"rewrite"},
	"slowlog":   {"rewrite", "telemetry", "trial/record"},
	"tracing":   {"rewrite", "telemetry", "trial/record"},
	"trial":     {"session"},
	// What the program and its tests have in common: the benchmark starts servers, replay and check --compare read every byte.
	"testbed/rawclient": nil,
	"testbed/relay":     nil,
	"testbed/server":    nil,
	"bench":             {"bench/statistics", "testbed/rawclient", "testbed/server"},
	"bench/statistics":  nil,
	"trial/compare":     {"testbed/rawclient"},
	"trial/judge":       {"testbed/rawclient", "trial/compare"},
	"trial/record":      {"rewrite", "wire"},
	"trial/conform":     {"testbed/rawclient", "trial/compare", "trial/record"},
	"trial/replay":      {"rewrite", "testbed/rawclient", "trial/compare", "trial/judge", "trial/record"},
	"cmd/tmpproxy":      {"testbed/rawclient", "trial/compare", "admin", "advice", "bench", "config", "proxy", "rewrite", "session", "slowlog", "telemetry", "tracing", "trial", "trial/conform", "trial/record", "trial/replay", "wire"},
}

// pure are packages that neither do I/O nor know the time, and neither log nor count: what they decide can be tested without
// waiting. All that they import of this module is held to the same.
var pure = []string{"wire", "rewrite", "session", "advice"}

// impure are beginnings of import paths that pure packages do not name. A library that they use may import what it wants.
var impure = []string{
	"net", "os", "time", "log", "syscall", "math/rand", "crypto/rand",
	"golang.org/x/sys", "go.uber.org/zap", "github.com/spf13/viper", "github.com/prometheus",
}

// list is what go list -json says of a package.
type list struct {
	ImportPath string
	Imports    []string
}

// packages returns the packages that make up this module for an operating system, with their imports, by path below the module.
func packages(t *testing.T, system string) map[string][]string {
	t.Helper()
	command := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports", "./...")
	command.Env = append(command.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	out, err := command.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	found := make(map[string][]string)
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p list
		if err := decoder.Decode(&p); err == io.EOF {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		if name, ours := below(p.ImportPath); ours && name != "" {
			found[name] = p.Imports
		}
	}
}

// below returns the path of one of this module's packages below the module.
func below(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

// breaches says what is wrong with the imports of a package.
func breaches(name string, imports []string) []string {
	if strings.HasPrefix(name, "tests/") || name == "tests" {
		return nil // may use everything
	}
	allowed, known := arrows[name]
	if !known {
		return []string{"is not in the list of packages: say what it may import"}
	}
	var wrong []string
	for _, path := range imports {
		if other, ours := below(path); ours {
			if !slices.Contains(allowed, other) {
				wrong = append(wrong, "must not import "+path)
			}
			continue
		}
		if !slices.Contains(pure, name) {
			continue
		}
		for _, begin := range impure {
			if path == begin || strings.HasPrefix(path, begin+"/") {
				wrong = append(wrong, "is pure and must not import "+path)
			}
		}
	}
	return wrong
}

func TestArrows(t *testing.T) {
	for _, system := range []string{"linux", "darwin"} {
		t.Run(system, func(t *testing.T) {
			found := packages(t, system)
			for name := range arrows {
				if _, ok := found[name]; !ok {
					t.Errorf("%s: go list does not know it", name)
				}
			}
			for name, imports := range found {
				for _, wrong := range breaches(name, imports) {
					t.Errorf("%s %s", name, wrong)
				}
			}
		})
	}
}

// TestPureOnPure keeps the list itself honest: what a pure package may import must be pure.
func TestPureOnPure(t *testing.T) {
	for _, name := range pure {
		for _, other := range arrows[name] {
			if !slices.Contains(pure, other) {
				t.Errorf("%s is pure and may import %s, which is not", name, other)
			}
		}
	}
}

func TestBreaches(t *testing.T) {
	for _, test := range []struct {
		name    string
		imports []string
		want    int
	}{
		{"session", []string{"fmt", "tmpproxy/rewrite"}, 0},
		{"session", []string{"tmpproxy/wire"}, 1},
		{"session", []string{"time", "net/http", "go.uber.org/zap/zapcore"}, 3},
		{"wire", []string{"encoding/binary", "github.com/go-mysql-org/go-mysql/mysql", "strings"}, 0},
		{"wire", []string{"tmpproxy/rewrite", "github.com/prometheus/client_golang/prometheus"}, 2},
		{"proxy", []string{"net", "time", "tmpproxy/wire", "go.uber.org/zap"}, 0},
		{"proxy", []string{"tmpproxy/config", "tmpproxy/admin", "tmpproxy/cmd/tmpproxy"}, 3},
		{"admin", []string{"net/http", "tmpproxy/proxy"}, 1},
		{"helpers", nil, 1},
		{"bench", []string{"tmpproxy/testbed/server", "tmpproxy/tests/process"}, 1},
		{"tests/process", []string{"tmpproxy/proxy", "os"}, 0},
	} {
		if got := breaches(test.name, test.imports); len(got) != test.want {
			t.Errorf("%s with %v: %q", test.name, test.imports, got)
		}
	}
}
