package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tmpproxy/testbed/server"
)

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 5 * time.Second
)

// A process is a program that was started to be measured. One goroutine at a time stops it.
type process struct {
	name    string
	address string // where its clients connect
	admin   string // tmpproxy's HTTP pages; empty for others
	log     string // file of what it printed
	command *exec.Cmd
	exited  chan struct{} // closed when it has ended
	grace   time.Duration // in which it may end when it is asked to
}

var errEarly = errors.New("ended before it was ready")

// start runs a program and returns when ready does so without an error. Its output goes into a file in dir.
func start(ctx context.Context, dir, name string, command *exec.Cmd, ready func(context.Context, *process) error) (*process, error) {
	log, err := os.CreateTemp(dir, strings.ReplaceAll(name, " ", "-")+"-*.log")
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	p := &process{name: name, log: log.Name(), command: command, exited: make(chan struct{}), grace: stopTimeout}
	command.Dir = dir
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = server.ChildAttributes()
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = command.Wait() // how it ended is in its log
		close(p.exited)
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready after %v", readyTimeout))
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = ready(ctx, p); err == nil {
			return p, nil
		}
		select {
		case <-p.exited:
			err = errEarly
		case <-ctx.Done():
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
			continue
		}
		return nil, errors.Join(fmt.Errorf("start %s: %w; it printed:\n%s", name, err, p.tail()), p.stop())
	}
}

// tail returns the last lines of what the process printed.
func (p *process) tail() string {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-10):], []byte("\n")))
}

// running returns an error when the process has ended by itself.
func (p *process) running() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended; it printed:\n%s", p.name, p.tail())
	default:
		return nil
	}
}

// stop ends the process.
func (p *process) stop() error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.exited:
	case <-time.After(p.grace): // some wait for their clients
		_ = p.command.Process.Kill()
		<-p.exited
	}
	return nil
}

// time returns how long the process has used processors.
func (p *process) time() (time.Duration, error) { return processTime(p.command.Process.Pid) }

// resident returns how many bytes of the process are in memory.
func (p *process) resident() (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm of %s: %q", p.name, text)
	}
	pages, err := strconv.Atoi(fields[1])
	return pages * os.Getpagesize(), err
}

// allocations returns how many objects tmpproxy has allocated since its start, and the reading of it has made some.
func (p *process) allocations(ctx context.Context) (float64, error) {
	page, err := p.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(line, "go_memstats_mallocs_total "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New("the metrics have no count of allocations")
}

// chosen says whether tmpproxy's strategy auto has chosen for every shape that it chooses for.
func (p *process) chosen(ctx context.Context) (bool, error) {
	text, err := p.get(ctx, "/api/shapes")
	if err != nil {
		return false, err
	}
	var shapes []struct{ Choice *struct{ Settled bool } }
	if err := json.Unmarshal([]byte(text), &shapes); err != nil {
		return false, fmt.Errorf("/api/shapes: %w", err)
	}
	for _, s := range shapes {
		if s.Choice != nil && !s.Choice.Settled {
			return false, nil
		}
	}
	return true, nil
}

func (p *process) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+path, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Accept-Encoding", "identity") // what compressing allocates is no constant
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, response.Status)
	}
	return string(body), err
}

// environment is this process's own without settings of tmpproxy, which are not meant for the ones that are measured.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "TMPPROXY_") })
}

// startProxy runs tmpproxy with a strategy before the server at backend. settings are flags that win.
func startProxy(ctx context.Context, dir, program, strategy, backend string, settings ...string) (*process, error) {
	addresses, err := server.FreeAddresses(2)
	if err != nil {
		return nil, err
	}
	command := exec.Command(program, append([]string{"serve",
		"--listen.addresses=" + addresses[0],
		"--admin.address=" + addresses[1],
		"--backend.address=" + backend,
		"--backend.allow_peer_identity",
		"--rewrite.strategy=" + strategy,
		"--log.level=warn",
		"--shutdown.grace=0s",
	}, settings...)...)
	command.Env = environment()
	return start(ctx, dir, "tmpproxy "+strategy, command, func(ctx context.Context, p *process) error {
		p.address, p.admin = addresses[0], addresses[1]
		_, err := p.get(ctx, "/readyz")
		return err
	})
}

// startHAProxy runs HAProxy as a relay of bytes for that many clients.
func startHAProxy(ctx context.Context, dir, program, backend string, clients int) (*process, error) {
	addresses, err := server.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	return startConfigured(ctx, dir, "HAProxy", addresses[0], fmt.Sprintf(`global
  maxconn %d
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen bench
  bind %s
  server backend %s
`, clients+100, addresses[0], backend), program, "-db", "-f")
}

// startRouter runs MySQL Router as a relay of classic protocol for that many clients, with TLS on both sides if id is not nil.
// plugins is its plugin_folder, empty for the one that it was built with.
func startRouter(ctx context.Context, dir, program, plugins, backend string, clients int, id *identity) (*process, error) {
	addresses, err := server.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		return nil, err
	}
	folder := ""
	if plugins != "" {
		folder = "plugin_folder=" + plugins + "\n"
	}
	if os.Geteuid() == 0 {
		folder += "user=root\n"
	}
	security := "client_ssl_mode=DISABLED\nserver_ssl_mode=DISABLED"
	if id != nil {
		security = "client_ssl_mode=REQUIRED\nserver_ssl_mode=REQUIRED\nserver_ssl_verify=DISABLED\nclient_ssl_cert=" + id.certificate + "\nclient_ssl_key=" + id.key
	}
	return startConfigured(ctx, dir, "MySQL Router", addresses[0], fmt.Sprintf(`[DEFAULT]
%slogging_folder=
runtime_folder=%s
data_folder=%s
max_total_connections=%d
[logger]
level=WARNING
[routing:bench]
bind_address=%s
bind_port=%s
destinations=%s
routing_strategy=first-available
protocol=classic
%s
`, folder, dir, dir, clients+100, host, port, backend, security), program, "-c")
}

// startConfigured runs a program with a configuration file, whose name is its last argument.
func startConfigured(ctx context.Context, dir, name, address, configuration, program string, args ...string) (*process, error) {
	file, err := os.MkdirTemp(dir, "configuration-")
	if err != nil {
		return nil, err
	}
	file = filepath.Join(file, "bench.conf")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		return nil, err
	}
	return start(ctx, dir, name, exec.Command(program, append(args, file)...), func(ctx context.Context, p *process) error {
		p.address = address
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}
