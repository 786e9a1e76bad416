package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"tmpproxy/testbed/server"
)

const (
	readyTimeout = 10 * time.Second
	proxyGrace   = 2 * time.Second // for transactions of whoever is still connected
)

// A proxy is a tmpproxy process with one strategy.
type proxy struct {
	program  string
	strategy string
	address  string // where clients connect
	admin    string // where the dashboard is
	token    string // file
	log      string // file
	process  *exec.Cmd
	exited   chan struct{} // closed when process has ended
}

// buildProxy compiles tmpproxy into dir and returns the program's path.
func buildProxy(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "tmpproxy")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "tmpproxy/cmd/tmpproxy")
	build.Env = append(os.Environ(), "GOTMPDIR="+dir)
	build.SysProcAttr = server.ChildAttributes()
	// The compilers end with it.
	build.Cancel = func() error { return syscall.Kill(-build.Process.Pid, syscall.SIGKILL) }
	// The first time it downloads modules, and says so.
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("go build ./cmd/tmpproxy: %w", err)
	}
	return program, nil
}

// startProxy starts tmpproxy before the server at backend and returns when it is ready. Its log is written into dir; token
// is the file with what changes need. The caller stops it.
func startProxy(ctx context.Context, program, dir, strategy, backend, token string) (*proxy, error) {
	addresses, err := server.FreeAddresses(2)
	if err != nil {
		return nil, fmt.Errorf("start tmpproxy: %w", err)
	}
	p := &proxy{
		program: program, strategy: strategy, address: addresses[0], admin: addresses[1], token: token, log: filepath.Join(dir, strategy+".log"),
	}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("start tmpproxy: %w", err)
	}
	defer log.Close()
	p.process = exec.Command(program, "serve")
	p.process.Dir = dir
	p.process.Stdout, p.process.Stderr = log, log
	p.process.SysProcAttr = server.ChildAttributes()
	p.process.Env = p.environment(
		"TMPPROXY_LISTEN_ADDRESSES="+p.address,
		"TMPPROXY_BACKEND_ADDRESS="+backend,
		"TMPPROXY_REWRITE_STRATEGY="+strategy,
		"TMPPROXY_SHUTDOWN_GRACE="+proxyGrace.String(),
	)
	if err := p.process.Start(); err != nil {
		return nil, fmt.Errorf("start tmpproxy: %w", err)
	}
	p.exited = make(chan struct{})
	go func() {
		_ = p.process.Wait() // how it ended is in its log
		close(p.exited)
	}()
	if err := p.awaitReady(ctx); err != nil {
		err = fmt.Errorf("tmpproxy with strategy %s: %w; its log ends:\n%s", strategy, err, logTail(p.log))
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// environment is this process's, without what the user set for a tmpproxy of his own, and with the settings.
func (p *proxy) environment(settings ...string) []string {
	rest := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "TMPPROXY_") })
	return append(rest, append(settings, "TMPPROXY_ADMIN_ADDRESS="+p.admin, "TMPPROXY_ADMIN_TOKEN_FILE="+p.token)...)
}

// command runs tmpproxy with args, which asks this proxy, and returns what it prints.
func (p *proxy) command(ctx context.Context, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, p.program, args...)
	command.Env = p.environment()
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("tmpproxy %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return out, err
}

func (p *proxy) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready after %v", readyTimeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/readyz", nil)
	if err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.exited:
			return errors.New("ended before it was ready")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// running returns an error when the process has ended by itself.
func (p *proxy) running() error {
	select {
	case <-p.exited:
		return fmt.Errorf("tmpproxy with strategy %s ended; its log ends:\n%s", p.strategy, logTail(p.log))
	default:
		return nil
	}
}

// stop ends the process.
func (p *proxy) stop() error {
	if err := p.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop tmpproxy: %w", err)
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(proxyGrace + 3*time.Second):
	}
	_ = p.process.Process.Kill()
	<-p.exited
	return fmt.Errorf("tmpproxy with strategy %s had to be killed", p.strategy)
}

// logTail returns the last lines of a file.
func logTail(file string) string {
	log, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-10):], []byte("\n")))
}
