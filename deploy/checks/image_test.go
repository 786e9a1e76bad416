package checks

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The program runs as the image has it: alone in an otherwise empty root that cannot be written, not as root, without capabilities.
func TestImage(t *testing.T) {
	program := "../../dist/tmpproxy"
	binary, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is not static: it has %v", p.Type)
		}
	}

	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "tmpproxy"), text, 0o755); err != nil {
		t.Fatal(err)
	}
	// Somebody who is not root is root in a name space of his own, where there are no other users to become.
	enter, become := []string{"--mount"}, "--userspec=65532:65532 --groups=''"
	if os.Geteuid() != 0 {
		enter, become = []string{"--mount", "--map-root-user"}, ""
	}
	script := `mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit
if touch "$1/written" 2>/dev/null; then echo the root can be written >&2; exit 1; fi
exec chroot ` + become + ` "$1" /tmpproxy serve --listen.addresses=127.0.0.1:0 --admin.address=127.0.0.1:0 --backend.address=127.0.0.1:1`
	command := exec.Command("unshare", append(enter, "sh", "-c", script, "sh", root)...)
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(5*time.Minute, func() { command.Process.Kill() })
	defer kill.Stop()
	defer command.Process.Kill()

	lines := bufio.NewReader(stderr)
	var serving struct{ Message, Admin string }
	line, err := lines.ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &serving) != nil || serving.Message != "serving" {
		rest, _ := io.ReadAll(lines)
		t.Fatalf("%s%s: %v", line, rest, err)
	}
	response, err := http.Get("http://" + serving.Admin + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("not alive: %s", response.Status)
	}
	if os.Geteuid() == 0 {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", command.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"Uid:\t65532\t65532\t65532\t65532\n", "Gid:\t65532\t65532\t65532\t65532\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n"} {
			if !strings.Contains(string(status), line) {
				t.Errorf("no %q in\n%s", line, status)
			}
		}
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, lines)
	if command.Wait(); command.ProcessState.ExitCode() != 143 {
		t.Errorf("ended with %s", command.ProcessState)
	}
}
