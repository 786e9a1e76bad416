package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asMain makes the test binary be the command: what is tested is a process of its own, with signals and exit code.
const asMain = "TMPPROXY_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
	}
	os.Exit(m.Run())
}

// command returns the command as a process that is not started yet.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), path, args...)
	c.Env = append(os.Environ(), asMain+"=1")
	c.Dir = t.TempDir()
	return c
}

// patience bounds what a test waits for; nothing takes that long unless it never comes.
const patience = 30 * time.Second

func TestExitCodes(t *testing.T) {
	faulty := filepath.Join(t.TempDir(), "faulty.yaml")
	if err := os.WriteFile(faulty, []byte("rewrite: {strategy: fast}\nbackend: {connect_timeout: 5, adress: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		args   []string
		env    []string
		code   int
		stdout string
		stderr []string
	}{
		{"version", []string{"version"}, nil, 0, "tmpproxy ", nil},
		{"help", []string{"--help"}, nil, 0, "Exit codes:", nil},
		{"help of serve", []string{"serve", "--help"}, nil, 0, "--rewrite.strategy", nil},
		{"nothing", nil, nil, 2, "", []string{"a command is needed"}},
		{"unknown command", []string{"server"}, nil, 2, "", []string{`unknown command "server"`}},
		{"unknown flag", []string{"serve", "--strategy=keep"}, nil, 2, "", []string{"unknown flag: --strategy"}},
		{"flag without value", []string{"serve", "--config"}, nil, 2, "", []string{"flag needs an argument"}},
		{"arguments", []string{"serve", "now"}, nil, 2, "", []string{`unexpected "now"`}},
		{"arguments of version", []string{"version", "x"}, nil, 2, "", []string{`unexpected "x"`}},
		{"faults of every source at once", []string{"serve", "--config", faulty, "--log.level=loud"}, []string{"TMPPROXY_SHUTDOWN_GRACE=30", "TMPPROXY_X=1"}, 2, "",
			[]string{"6 faults", "backend.adress (faulty.yaml): unknown key", "TMPPROXY_X: unknown environment variable", `"5" has no unit`, `"fast" is none of`,
				`log.level (--log.level): "loud"`, "shutdown.grace (TMPPROXY_SHUTDOWN_GRACE)"}},
		{"check finds the same faults", []string{"check", "--config", faulty}, nil, 2, "", []string{"3 faults"}},
		{"no such file", []string{"serve", "--config", "none.yaml"}, nil, 2, "", []string{"none.yaml: no such file"}},
		{"help of bench", []string{"bench", "--help"}, nil, 0, "--workloads", nil},
		{"unknown workload", []string{"bench", "--quick", "--workloads=sleep"}, nil, 2, "", []string{`"sleep" is none of cycles, `}},
		{"no such server to measure", []string{"bench", "--dsn=root@tcp(127.0.0.1:1)/", "--peers="}, nil, 1, "", []string{"dial tcp 127.0.0.1:1"}},
		{"no place for the report", []string{"bench", "--json=none/report.json"}, nil, 1, "", []string{"none/report.json"}},
		{"no backend to check", []string{"check", "--backend.address=127.0.0.1:1"}, nil, 1, "the settings are valid", []string{"backend 127.0.0.1:1: dial tcp 127.0.0.1:1"}},
		{"address that is not ours", []string{"serve", "--listen.addresses=192.0.2.1:3307", "--admin.address=none"}, nil, 1, "", []string{"192.0.2.1:3307"}},
		{"admin address that is not ours", []string{"serve", "--listen.addresses=127.0.0.1:0", "--admin.address=192.0.2.1:9104"}, nil, 1, "", []string{"admin: listen tcp 192.0.2.1:9104"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := command(t, test.args...)
			c.Env = append(c.Env, test.env...)
			var stdout, stderr bytes.Buffer
			c.Stdout, c.Stderr = &stdout, &stderr
			if code := exitCode(t, c.Run()); code != test.code {
				t.Errorf("exit code %d, want %d\n%s", code, test.code, &stderr)
			}
			if !strings.Contains(stdout.String(), test.stdout) || test.stdout == "" && stdout.Len() > 0 {
				t.Errorf("standard output: %s", &stdout)
			}
			for _, want := range test.stderr {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("standard error lacks %q:\n%s", want, &stderr)
				}
			}
		})
	}
}

// exitCode returns the code that a process ended with; it must have ended by itself.
func exitCode(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Exited() {
		t.Fatalf("the process did not exit by itself: %v", err)
	}
	return exit.ExitCode()
}

// served is a running serve.
type served struct {
	t       *testing.T
	process *exec.Cmd
	pipe    io.ReadCloser       // its standard error
	lines   chan map[string]any // its log, closed at the end
	listen  []string
	admin   string // host:port
	ended   bool
}

// serve starts the command with free ports and these arguments, and waits until it serves.
func serve(t *testing.T, env []string, args ...string) *served {
	t.Helper()
	c := command(t, append([]string{"serve", "--listen.addresses=127.0.0.1:0", "--admin.address=127.0.0.1:0", "--reload.watch=0s"}, args...)...)
	c.Env = append(c.Env, env...)
	return startServed(t, c)
}

// startServed starts a serve that is written out and waits until it serves.
func startServed(t *testing.T, c *exec.Cmd) *served {
	t.Helper()
	pipe, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, process: c, pipe: pipe, lines: make(chan map[string]any, 1000)}
	go func() {
		defer close(s.lines)
		for scanner := bufio.NewScanner(pipe); scanner.Scan(); {
			var line map[string]any
			if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
				line = map[string]any{"message": "not JSON: " + scanner.Text()}
			}
			s.lines <- line
		}
	}()
	t.Cleanup(func() {
		if !s.ended {
			c.Process.Kill()
			io.Copy(io.Discard, pipe)
			c.Wait()
		}
	})
	line := s.await("serving")
	for _, a := range line["listen"].([]any) {
		s.listen = append(s.listen, a.(string))
	}
	s.admin = line["admin"].(string)
	return s
}

// await returns the next log record of that message, and passes over others.
func (s *served) await(message string) map[string]any {
	s.t.Helper()
	var seen []any
	timeout := time.After(patience)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("the log ended without %q: %v", message, seen)
			}
			if line["message"] == message {
				return line
			}
			seen = append(seen, line)
		case <-timeout:
			s.t.Fatalf("the log lacks %q: %v", message, seen)
		}
	}
}

func (s *served) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.process.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// exit waits for the process to end and returns its code.
func (s *served) exit() int {
	s.t.Helper()
	timeout := time.AfterFunc(patience, func() { s.process.Process.Kill() })
	defer timeout.Stop()
	for range s.lines { // until it closes its standard error
	}
	s.ended = true
	return exitCode(s.t, s.process.Wait())
}
