package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"tmpproxy/tests/server"
)

// installAdvice is what to do on a machine where no server can be had.
const installAdvice = `No server could be started. Install one of these, then run make demo again; nothing else is needed:
  Debian, Ubuntu   apt-get install mariadb-server
  Fedora, RHEL     dnf install mariadb-server
  MySQL            https://dev.mysql.com/downloads/mysql/ (mysqld must be in PATH)`

// durable makes a throw-away server keep its promises as a real one does, for their cost is part of a cycle.
var durable = []string{"--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--innodb-doublewrite=1", "--innodb-buffer-pool-size=128M"}

// startServer starts a throw-away server: with choice auto one of the machine's own programs, MySQL 9.7 when there is none
// that starts; with mysql or mariadb what obtain.sh obtains under that name. It returns the command line client that goes
// with it. Files that outlive it are written into dir; the caller stops the server.
func startServer(ctx context.Context, choice, dir string) (*server.Server, string, error) {
	kind := server.MySQL
	if choice == "mariadb" {
		kind = server.MariaDB
	}
	if choice == "auto" {
		for _, program := range serverPrograms() {
			s, err := startInstalled(ctx, program, dir)
			if err == nil {
				return s, clientProgram(s.Kind), nil
			}
			if ctx.Err() != nil {
				return nil, "", context.Cause(ctx)
			}
			say("%s does not do: %v", program, err)
		}
	}
	say("taking %s from Debian's packages; the first time this downloads about 60 MB into a folder of their own", product(kind))
	s, err := server.Start(ctx, kind, server.Options{Args: durable})
	if ctx.Err() != nil {
		if err == nil {
			err = s.Stop()
		}
		return nil, "", errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w\n%s", err, installAdvice)
	}
	return s, filepath.Join(s.Root(), "bin", clientName(kind)), nil
}

func clientName(kind server.Kind) string {
	if kind.IsMariaDB() {
		return "mariadb"
	}
	return "mysql"
}

// clientProgram returns the installed client that suits a server best.
func clientProgram(kind server.Kind) string {
	for _, name := range []string{clientName(kind), "mysql", "mariadb"} {
		if _, err := exec.LookPath(name); err == nil {
			return name
		}
	}
	return "mysql"
}

// serverPrograms returns the machine's server programs, each once: those in PATH, then those where systems keep them out
// of the PATH of ordinary users.
func serverPrograms() []string {
	var found []string
	known := make(map[string]bool)
	for _, place := range []string{"", "/usr/sbin", "/usr/local/sbin", "/usr/libexec"} {
		for _, name := range []string{"mysqld", "mariadbd"} {
			program, err := exec.LookPath(filepath.Join(place, name))
			if err != nil {
				continue
			}
			if file, err := filepath.EvalSymlinks(program); err == nil && !known[file] {
				known[file] = true
				found = append(found, program)
			}
		}
	}
	return found
}

// startInstalled starts a server program of the machine's, on data of its own.
func startInstalled(ctx context.Context, program, dir string) (*server.Server, error) {
	out, err := exec.CommandContext(ctx, program, "--no-defaults", "--version").Output()
	if err != nil {
		return nil, err
	}
	kind, initialize := server.MySQL, []string{program, "--no-defaults", "--initialize-insecure"}
	if strings.Contains(string(out), "MariaDB") {
		kind = server.MariaDB
		installer, err := lookInstaller(program)
		if err != nil {
			return nil, err
		}
		initialize = []string{installer, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"}
	}
	root, err := os.MkdirTemp(dir, "programs-")
	if err != nil {
		return nil, err
	}
	if err := writePrograms(root, kind, program, initialize); err != nil {
		return nil, err
	}
	return server.Start(ctx, kind, server.Options{Args: durable, Root: root})
}

// lookInstaller returns the program that makes MariaDB's data directory.
func lookInstaller(program string) (string, error) {
	for _, name := range []string{"mariadb-install-db", "mysql_install_db"} {
		for _, place := range []string{"", filepath.Dir(program), filepath.Join(filepath.Dir(program), "../bin"), filepath.Join(filepath.Dir(program), "../scripts")} {
			if installer, err := exec.LookPath(filepath.Join(place, name)); err == nil {
				return installer, nil
			}
		}
	}
	return "", errors.New("no mariadb-install-db to make its data directory")
}

// writePrograms writes the folder of programs that a server is started from: scripts that call the machine's own.
func writePrograms(root string, kind server.Kind, program string, initialize []string) error {
	name := "mysqld"
	if kind.IsMariaDB() {
		name = "mariadbd"
	}
	user := ""
	if os.Geteuid() == 0 {
		user = " --user=root"
	}
	scripts := map[string]string{
		name:         "exec " + quote(program) + ` --no-defaults "$@"`,
		"initialize": "data=$1\nshift\nexec " + quote(initialize...) + user + ` --datadir="$data" "$@"`,
	}
	bin := filepath.Join(root, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return err
	}
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// quote returns words as one piece of a shell script.
func quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
