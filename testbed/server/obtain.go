package server

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

//go:embed obtain.sh
var obtainScript []byte

// Obtain returns the folder that holds the server's programs, after downloading and unpacking them if they are not there
// yet (see obtain.sh for where that is). Progress goes to standard error. Several processes may call it at once.
func Obtain(ctx context.Context, kind Kind) (string, error) {
	c := exec.CommandContext(ctx, "bash", "-s", "--", string(kind))
	c.Stdin = bytes.NewReader(obtainScript)
	// The script takes what it began away when it is asked to end, its downloads with it.
	c.SysProcAttr = ChildAttributes()
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	var out, diagnostics bytes.Buffer
	c.Stdout = &out
	c.Stderr = &diagnostics
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("obtain %s: %w\n%s", kind, err, bytes.TrimSpace(diagnostics.Bytes()))
	}
	return strings.TrimSpace(out.String()), nil
}

// pristineData returns a data directory that was never started, made at the first call and kept beside the programs.
func pristineData(ctx context.Context, kind Kind, root string) (string, error) {
	pristine := filepath.Join(root, "pristine")
	if _, err := os.Stat(pristine); err == nil {
		return pristine, nil
	}
	lock, err := os.OpenFile(filepath.Join(root, "pristine.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("initialize %s: %w", kind, err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("initialize %s: lock: %w", kind, err)
	}
	if _, err := os.Stat(pristine); err == nil {
		return pristine, nil
	}
	unfinished := pristine + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", fmt.Errorf("initialize %s: %w", kind, err)
	}
	args := []string{unfinished, "--innodb-flush-log-at-trx-commit=0", "--innodb-use-native-aio=0"}
	if !kind.IsMariaDB() {
		args = append(args, "--innodb-redo-log-capacity=32M")
	} else {
		args = append(args, "--innodb-log-file-size=16M")
	}
	if err := run(exec.CommandContext(ctx, filepath.Join(root, "bin", "initialize"), args...)); err != nil {
		return "", fmt.Errorf("initialize %s: %w", kind, err)
	}
	// Every copy makes a server id of its own.
	if err := os.Remove(filepath.Join(unfinished, "auto.cnf")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("initialize %s: %w", kind, err)
	}
	if err := os.Rename(unfinished, pristine); err != nil {
		return "", fmt.Errorf("initialize %s: %w", kind, err)
	}
	return pristine, nil
}
