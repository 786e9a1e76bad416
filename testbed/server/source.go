package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// installAdvice is what to do on a machine where no server can be had.
const installAdvice = `No server could be started. Install one of these, then try again; nothing else is needed:
  Debian, Ubuntu   apt-get install mariadb-server
  Fedora, RHEL     dnf install mariadb-server
  MySQL            https://dev.mysql.com/downloads/mysql/ (mysqld must be in PATH)`

// Durable are options that make a throw-away server keep its promises as a real one does.
var Durable = []string{"--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--innodb-doublewrite=1", "--innodb-buffer-pool-size=128M"}

// StartAny starts a throw-away server with further options: with choice auto one of the machine's own programs, MySQL 9.7
// when there is none that starts; with any other choice the server that obtain.sh obtains under that name. Files that
// outlive it are written into dir. say is told what takes time or fails. The caller stops the server.
func StartAny(ctx context.Context, choice, dir string, args []string, say func(format string, args ...any)) (*Server, error) {
	kind := Kind(choice)
	if choice == "auto" {
		kind = MySQL
		for _, program := range serverPrograms() {
			s, err := startInstalled(ctx, program, dir, args)
			if err == nil {
				return s, nil
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			say("%s does not do: %v", program, err)
		}
	}
	say("taking %s from Debian's packages; the first time this downloads about 60 MB into a folder of their own", kind.Product())
	s, err := Start(ctx, kind, Options{Args: args})
	if ctx.Err() != nil {
		if err == nil {
			err = s.Stop()
		}
		return nil, errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, installAdvice)
	}
	return s, nil
}

// Product returns the server's name for people.
func (k Kind) Product() string {
	if k.IsMariaDB() {
		return "MariaDB"
	}
	return "MySQL"
}

// ClientProgram returns the command line client that goes with the server: the one that was obtained with it, else the
// installed one that suits it best.
func (s *Server) ClientProgram() string {
	name := clientName(s.Kind)
	if own := filepath.Join(s.root, "bin", name); s.root != "" && isExecutable(own) {
		return own
	}
	for _, name := range []string{name, "mysql", "mariadb"} {
		if _, err := exec.LookPath(name); err == nil {
			return name
		}
	}
	return "mysql"
}

func isExecutable(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}

func clientName(kind Kind) string {
	if kind.IsMariaDB() {
		return "mariadb"
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
func startInstalled(ctx context.Context, program, dir string, args []string) (*Server, error) {
	out, err := exec.CommandContext(ctx, program, "--no-defaults", "--version").Output()
	if err != nil {
		return nil, err
	}
	kind, initialize := MySQL, []string{program, "--no-defaults", "--initialize-insecure"}
	if strings.Contains(string(out), "MariaDB") {
		kind = MariaDB
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
	return Start(ctx, kind, Options{Args: args, Root: root})
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
func writePrograms(root string, kind Kind, program string, initialize []string) error {
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
