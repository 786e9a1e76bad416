//go:build realserver

package drivers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"tmpproxy/testbed/server"
)

// tools are the places of the programs that others have made.
type tools struct {
	root    string // of the unpacked packages
	arch    string // name of the folders in which they have their libraries
	java    string // the program
	mysql   string // folder of MySQL's client
	dump    string // folder of mysqldump, unless only a few programs are run
	modules string // Node's
	build   string // what was compiled here
}

// obtain downloads what is not there yet and compiles what has to be.
func obtain(ctx context.Context, build string) (*tools, error) {
	t := &tools{build: build}
	var err error
	if t.root, err = server.Obtain(ctx, server.Drivers); err != nil {
		return nil, err
	}
	if t.java, err = one(filepath.Join(t.root, "usr/lib/jvm/java-17-openjdk-*/bin/java")); err != nil {
		return nil, err
	}
	library, err := one(filepath.Join(t.root, "usr/lib/*/libmariadb.so.3"))
	if err != nil {
		return nil, err
	}
	t.arch = filepath.Base(filepath.Dir(library))
	mysql, err := server.Obtain(ctx, server.MySQL)
	if err != nil {
		return nil, err
	}
	t.mysql = filepath.Join(mysql, "bin")
	if *all {
		suite, err := server.Obtain(ctx, server.MySQLTestsuite)
		if err != nil {
			return nil, err
		}
		t.dump = filepath.Join(suite, "bin")
	}
	if *all { // Node's programs are not among the few
		if t.modules, err = obtainModules(ctx, filepath.Dir(t.root)); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"gosqldriver", "gomysql"} {
		if err := run(exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(build, name), "./go/"+name)); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"mariadb", "mariadb-dump", "sysbench"} {
		if err := t.wrap(name); err != nil {
			return nil, err
		}
	}
	if err := run(t.command(t.java, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", t.jar(), "-d", build, "java/Main.java")); err != nil {
		return nil, err
	}
	return t, nil
}

// one returns the one file that a pattern means.
func one(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s: %d files", pattern, len(found))
	}
	return found[0], nil
}

// obtainModules installs the packages of node/package-lock.json into a folder below dir whose name changes with them.
// Node itself looks for its files where its package has them, so it cannot be unpacked elsewhere: it is the system's.
func obtainModules(ctx context.Context, dir string) (string, error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Geteuid() != 0 {
			return "", fmt.Errorf("%s not found: install the packages nodejs and npm", program)
		}
		install := exec.CommandContext(ctx, "sh", "-c", "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends nodejs npm")
		if err := run(install); err != nil {
			return "", err
		}
	}
	lock, err := os.ReadFile("node/package-lock.json")
	if err != nil {
		return "", err
	}
	target := filepath.Join(dir, fmt.Sprintf("drivers-node-%.4x", sha256.Sum256(lock)))
	guard, err := os.OpenFile(target+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer guard.Close()
	if err := syscall.Flock(int(guard.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	modules := filepath.Join(target, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules, nil
	}
	unfinished := target + ".unfinished"
	if err := errors.Join(os.RemoveAll(unfinished), os.RemoveAll(target), os.Mkdir(unfinished, 0o700)); err != nil {
		return "", err
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join("node", name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(unfinished, name), text, 0o600); err != nil {
			return "", err
		}
	}
	install := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = unfinished
	if err := run(install); err != nil {
		return "", err
	}
	return modules, os.Rename(unfinished, target)
}

func (t *tools) jar() string { return filepath.Join(t.root, "usr/share/java/mariadb-java-client.jar") }

// command runs a program of the unpacked packages with the system's loader and the libraries of the packages.
func (t *tools) command(path string, args ...string) *exec.Cmd {
	c := exec.Command(path, args...)
	c.Env = append(environment(), "LC_ALL=C.UTF-8", "TZ=UTC",
		"LD_LIBRARY_PATH="+t.libraries(), "MARIADB_PLUGIN_DIR="+t.plugins())
	return c
}

// wrap makes a program of the unpacked packages one that can be called by a path.
func (t *tools) wrap(name string) error {
	text := fmt.Sprintf("#!/bin/sh\nexport LD_LIBRARY_PATH='%s' MARIADB_PLUGIN_DIR='%s'\nexec '%s' \"$@\"\n", t.libraries(), t.plugins(), filepath.Join(t.root, "usr/bin", name))
	return os.WriteFile(filepath.Join(t.build, name), []byte(text), 0o700)
}

func (t *tools) libraries() string { return t.join(":", "usr/lib/"+t.arch, "lib/"+t.arch) }

func (t *tools) plugins() string { return t.join("", "usr/lib/"+t.arch+"/libmariadb3/plugin") }

// join makes a list of places in the unpacked packages.
func (t *tools) join(separator string, paths ...string) string {
	var list []string
	for _, path := range paths {
		list = append(list, filepath.Join(t.root, path))
	}
	return strings.Join(list, separator)
}

// environment is the tests' own without what would lead interpreters to other libraries and clients to other settings.
func environment() []string {
	var list []string
	for _, assignment := range os.Environ() {
		name, _, _ := strings.Cut(assignment, "=")
		foreign := false
		for _, prefix := range []string{"PYTHON", "PERL", "RUBY", "GEM_", "BUNDLE", "PHP", "NODE_", "JAVA", "CLASSPATH", "JDK_", "_JAVA", "MYSQL", "MARIADB", "ODBC", "LD_", "LC_", "LANG", "TZ"} {
			foreign = foreign || strings.HasPrefix(name, prefix)
		}
		if !foreign {
			list = append(list, assignment)
		}
	}
	return list
}

// run runs a command; its error holds what the command printed.
func run(c *exec.Cmd) error {
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, out)
	}
	return nil
}
