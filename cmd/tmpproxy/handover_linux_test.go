package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tmpproxy/wire"
)

// visit is a short session: login, one query, quit. Nothing in it may fail.
func visit(network, address string) error {
	conn, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if _, _, err := readPacket(conn); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	login := binary.LittleEndian.AppendUint32(nil, uint32(testCapabilities))
	login = append(login, 0, 0, 0, 1, 45)
	login = append(login, make([]byte, 23)...)
	login = append(login, "somebody\x00\x00mysql_native_password\x00"...)
	for _, packet := range [][]byte{framed(1, login), framed(0, append([]byte{byte(wire.ComQuery)}, "SELECT 1"...))} {
		if _, err := conn.Write(packet); err != nil {
			return err
		}
		payload, _, err := readPacket(conn)
		if err == nil && payload[0] != 0 {
			err = fmt.Errorf("%q", payload)
		}
		if err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	_, err = conn.Write(framed(0, []byte{byte(wire.ComQuit)}))
	return err
}

// storm has clients come one after another, on several connections at once, until stop is called, which says how many came and
// what failed.
func storm(t *testing.T, network, address string) (visited *atomic.Int64, stop func() []error) {
	t.Helper()
	visited = new(atomic.Int64)
	var (
		over    atomic.Bool
		running sync.WaitGroup
		mu      sync.Mutex
		failed  []error
	)
	for range 16 {
		running.Go(func() {
			for !over.Load() {
				if err := visit(network, address); err != nil {
					mu.Lock()
					failed = append(failed, err)
					mu.Unlock()
				}
				visited.Add(1)
			}
		})
	}
	return visited, func() []error {
		over.Store(true)
		running.Wait()
		return failed
	}
}

// TestHandOver starts processes beside one another, three times over, while clients come without a pause: none is refused, reset or
// left without an answer.
func TestHandOver(t *testing.T) {
	backend := startBackend(t)
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "p.sock")
			}
			args := []string{"--backend.address=" + backend.address(), "--listen.reuseport", "--shutdown.finish=1m", "--shutdown.exit_zero"}
			present := serve(t, nil, append(args, "--listen.addresses="+address)...)
			address = present.listen[0]
			visited, stop := storm(t, network, address)
			for range 3 {
				next := serve(t, nil, append(args, "--listen.addresses="+address, "--admin.address="+present.admin)...)
				for before := visited.Load(); visited.Load() < before+100; {
					time.Sleep(time.Millisecond) // both serve
				}
				present.signal(syscall.SIGTERM)
				if code := present.exit(); code != 0 {
					t.Errorf("exit code %d", code)
				}
				present = next
				for before := visited.Load(); visited.Load() < before+100; {
					time.Sleep(time.Millisecond)
				}
			}
			if status, _ := present.get("/healthz"); status != 200 {
				t.Errorf("the last one's admin address: %d", status)
			}
			failed := stop()
			t.Logf("%d sessions", visited.Load())
			for i, err := range failed {
				if i < 5 {
					t.Error(err)
				}
			}
			if len(failed) > 0 {
				t.Errorf("%d of %d sessions failed", len(failed), visited.Load())
			}
			if network == "unix" {
				present.signal(syscall.SIGTERM)
				present.exit()
				if _, err := os.Lstat(address); !os.IsNotExist(err) {
					t.Errorf("the socket is left: %v", err)
				}
			}
		})
	}
}

// TestInherit has the service manager's sockets passed on, to one process after another: clients wait in their queues meanwhile.
func TestInherit(t *testing.T) {
	backend := startBackend(t)
	listen := func(network, address string) (string, *os.File) {
		t.Helper()
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		file, err := l.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return l.Addr().String(), file
	}
	tcp, first := listen("tcp", "127.0.0.1:0")
	admin, second := listen("tcp", "127.0.0.1:0")
	unix, third := listen("unix", filepath.Join(t.TempDir(), "p.sock"))
	start := func(args ...string) *served {
		t.Helper()
		real := command(t, append([]string{"serve", "--backend.address=" + backend.address(), "--listen.addresses=192.0.2.1:1", "--reload.watch=0s"}, args...)...)
		c := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `LISTEN_PID=$$ exec "$@"`, "sh"}, real.Args...)...)
		c.Env, c.Dir = append(real.Env, "LISTEN_FDS=3", "LISTEN_FDNAMES=clients:admin:clients"), real.Dir
		c.ExtraFiles = []*os.File{first, second, third}
		return startServed(t, c)
	}
	s := start()
	if fmt.Sprint(s.listen) != fmt.Sprint([]string{tcp, unix}) || s.admin != admin {
		t.Fatalf("listens on %v, admin %s", s.listen, s.admin)
	}
	for range 2 {
		connect(t, "tcp", tcp).query("SELECT 1")
		connect(t, "unix", unix).query("SELECT 1")
		if status, body := s.get("/readyz"); status != 200 {
			t.Errorf("ready: %d %s", status, body)
		}
		s.signal(syscall.SIGTERM)
		if code := s.exit(); code != 143 {
			t.Errorf("exit code %d", code)
		}
		waiting := make(chan error, 2) // nobody accepts now
		go func() { waiting <- visit("tcp", tcp) }()
		go func() { waiting <- visit("unix", unix) }()
		s = start()
		for range 2 {
			if err := <-waiting; err != nil {
				t.Error(err)
			}
		}
	}
}

func TestInheritFaults(t *testing.T) {
	for _, test := range []struct {
		env  string
		want string
	}{
		{"LISTEN_FDS=x", `LISTEN_FDS is "x"`},
		{"LISTEN_FDS=1", "inherited socket 1: "}, // it is no socket
	} {
		real := command(t, "serve")
		c := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `LISTEN_PID=$$ ` + test.env + ` exec "$@" 3</dev/null`, "sh"}, real.Args...)...)
		c.Env, c.Dir = real.Env, real.Dir
		var stderr bytes.Buffer
		c.Stderr = &stderr
		if code := exitCode(t, c.Run()); code != 1 || !strings.Contains(stderr.String(), test.want) {
			t.Errorf("%s: %d %s", test.env, code, &stderr)
		}
	}
	// What is meant for another process is nobody's business here.
	c := command(t, "serve", "--listen.addresses=127.0.0.1:0", "--admin.address=none")
	c.Env = append(c.Env, "LISTEN_PID=1", "LISTEN_FDS=7")
	startServed(t, c)
}
