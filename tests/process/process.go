// Package process builds tmpproxy, with the race detector unless told otherwise, and runs it as a process of its own, as an
// operator does: configured by its environment, watched through its admin address, ended by a signal.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"tmpproxy/testbed/server"
)

var build struct {
	sync.Mutex
	dir, binary string
	err         error
}

// Race says whether tmpproxy is built with the race detector, which makes it several times slower. It is read at the first
// call of Binary or Start.
var Race = true

// Binary returns the path of tmpproxy, built at the first call. Clean removes it.
func Binary(ctx context.Context) (string, error) {
	build.Lock()
	defer build.Unlock()
	if build.binary != "" || build.err != nil {
		return build.binary, build.err
	}
	build.binary, build.err = compile(ctx)
	return build.binary, build.err
}

func compile(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "tmpproxy-build-")
	if err != nil {
		return "", err
	}
	build.dir = dir
	binary := filepath.Join(dir, "tmpproxy")
	args := []string{"build", "-o", binary}
	if Race {
		args = append(args, "-race")
	}
	out, err := exec.CommandContext(ctx, "go", append(args, "tmpproxy/cmd/tmpproxy")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build tmpproxy: %w\n%s", err, bytes.TrimSpace(out))
	}
	return binary, nil
}

// Clean removes what Binary built.
func Clean() error {
	build.Lock()
	defer build.Unlock()
	dir := build.dir
	build.dir, build.binary, build.err = "", "", nil
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}

// Process is a running tmpproxy. One goroutine at a time may stop it; the rest is for any.
type Process struct {
	Address string // of its one listener
	Admin   string // of its HTTP pages

	command *exec.Cmd
	log     *logBuffer
	exited  chan struct{}
	result  error // of the process, after exited is closed
}

// logBuffer keeps what the process printed.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const (
	startTimeout = 20 * time.Second
	stopTimeout  = 30 * time.Second
)

// Start runs tmpproxy in front of the server at backend (host:port or a socket path), listening on free loopback ports.
// settings are further environment variables, as NAME=value; they win. It returns when the proxy is ready.
func Start(ctx context.Context, backend string, settings ...string) (*Process, error) {
	binary, err := Binary(ctx)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		p, err := start(ctx, binary, backend, settings)
		if err == nil || try == 5 || !strings.Contains(err.Error(), "address already in use") {
			return p, err
		}
		// Somebody else has taken an address that was free a moment ago.
	}
}

func start(ctx context.Context, binary, backend string, settings []string) (*Process, error) {
	p := &Process{log: &logBuffer{}, exited: make(chan struct{})}
	addresses, err := server.FreeAddresses(2)
	if err != nil {
		return nil, fmt.Errorf("start tmpproxy: %w", err)
	}
	p.Address, p.Admin = addresses[0], addresses[1]
	p.command = exec.Command(binary, "serve")
	p.command.Env = append(environment(), append([]string{
		"TMPPROXY_LISTEN_ADDRESSES=" + p.Address,
		"TMPPROXY_ADMIN_ADDRESS=" + p.Admin,
		"TMPPROXY_BACKEND_ADDRESS=" + backend,
		// The race detector's report is looked for in Stop; a race must not pass as an exit status of the proxy's own.
		"GORACE=exitcode=66",
	}, settings...)...)
	p.command.Stdout, p.command.Stderr = p.log, p.log
	p.command.SysProcAttr = server.ChildAttributes()
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start tmpproxy: %w", err)
	}
	go func() {
		p.result = p.command.Wait()
		close(p.exited)
	}()
	if err := p.awaitReady(ctx); err != nil {
		_ = p.command.Process.Kill()
		<-p.exited
		return nil, fmt.Errorf("start tmpproxy: %w; it printed:\n%s", err, p.Log())
	}
	return p, nil
}

// environment is the tests' own without settings of tmpproxy, which are not meant for this one.
func environment() []string {
	var list []string
	for _, assignment := range os.Environ() {
		if !strings.HasPrefix(assignment, "TMPPROXY_") {
			list = append(list, assignment)
		}
	}
	return list
}

// awaitReady asks the admin address: a connection to the listener that leaves without a login would be one more client.
func (p *Process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := p.get(ctx, "/readyz")
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("it ended: %v", p.result)
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		case <-tick.C:
		}
	}
}

func (p *Process) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	return string(body), nil
}

// Get returns a page of the admin address, such as /metrics.
func (p *Process) Get(path string) (string, error) { return p.get(context.Background(), path) }

// PID returns the process id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Log returns what the process has printed so far.
func (p *Process) Log() string { return p.log.String() }

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) error { return p.command.Process.Signal(s) }

// Exited is closed when the process has ended; then ExitCode tells how.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitCode is that of the ended process, -1 when a signal ended it.
func (p *Process) ExitCode() int { return p.command.ProcessState.ExitCode() }

// Stop ends the process with SIGTERM. It is an error when the process had ended before, does not end, or has printed a
// panic or a data race.
func (p *Process) Stop() error {
	select {
	case <-p.exited:
		return fmt.Errorf("tmpproxy had ended before: %v; it printed:\n%s", p.result, p.Log())
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop tmpproxy: %w", err)
	}
	var errs []error
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		_ = p.command.Process.Kill()
		<-p.exited
		errs = append(errs, fmt.Errorf("tmpproxy did not end within %v after SIGTERM", stopTimeout))
	}
	return errors.Join(append(errs, p.Faults())...)
}

// Faults returns an error when the process has printed a panic or a data race.
func (p *Process) Faults() error {
	log := p.Log()
	for _, sign := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} {
		if strings.Contains(log, sign) {
			return fmt.Errorf("tmpproxy printed %q:\n%s", sign, log)
		}
	}
	return nil
}
