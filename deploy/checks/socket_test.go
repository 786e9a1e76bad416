package checks

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// systemd's own program opens a socket, starts the proxy with the first client, and hands the socket on.
func TestSocketActivation(t *testing.T) {
	activate := obtain(t, "systemd", "bin/systemd-socket-activate")
	program, err := filepath.Abs("../../dist/tmpproxy")
	if err != nil {
		t.Fatal(err)
	}
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	socket := filepath.Join(t.TempDir(), "mysql.sock")
	command := exec.Command(activate, "--listen="+socket, program, "serve", "--listen.addresses=192.0.2.1:1", "--admin.address=none",
		"--backend.address="+backend.Addr().String())
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		command.Process.Kill()
		command.Wait()
	}()
	timeout := time.AfterFunc(30*time.Second, func() { command.Process.Kill() })
	defer timeout.Stop()

	lines := bufio.NewScanner(stderr)
	if !lines.Scan() || !strings.Contains(lines.Text(), "Listening on "+socket) {
		t.Fatalf("the socket is not opened: %s", lines.Text())
	}
	client, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	served := false
	for !served && lines.Scan() {
		var line struct {
			Message string
			Listen  []string
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "serving" {
			served = true
			if len(line.Listen) != 1 || line.Listen[0] != socket {
				t.Errorf("it listens on %v", line.Listen)
			}
		}
	}
	if !served {
		t.Fatal("it does not serve")
	}
	go io.Copy(io.Discard, stderr)
	// What the server says reaches the client that was there first.
	server, err := backend.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := server.Write([]byte("\x17\x00\x00\x00\xff\x10\x04Too many connections")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 27)
	if _, err := io.ReadFull(client, answer); err != nil || !strings.HasSuffix(string(answer), "Too many connections") {
		t.Errorf("%q, %v", answer, err)
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Errorf("the socket is gone: %v", err)
	}
}
