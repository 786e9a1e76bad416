package checks

import (
	"bufio"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"fmt"
	"go/version"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// toolchain returns the oldest Go that the program is to be built with.
func toolchain(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^toolchain (go[0-9.]+)$`).FindSubmatch(contents(t, "../../go.mod"))
	if found == nil {
		t.Fatal("go.mod has no toolchain")
	}
	return string(found[1])
}

// The image with Go in it neither has an older one nor downloads another.
func TestDockerfile(t *testing.T) {
	want := "golang:" + strings.TrimPrefix(toolchain(t), "go") + "-bookworm\n"
	if !strings.Contains(string(contents(t, "../Dockerfile")), want) {
		t.Errorf("deploy/Dockerfile does not build with %s", want)
	}
}

// The program runs as the image has it: alone in an otherwise empty root that it cannot write to, not as root, without capabilities.
// Somebody who is not root has it run in an empty folder instead.
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

	built, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if oldest := toolchain(t); version.Compare(built.GoVersion, oldest) < 0 {
		// make says so where there is no other.
		command := exec.Command("go", "version")
		command.Dir, command.Env = "../..", append(os.Environ(), "GOTOOLCHAIN=auto")
		if out, err := command.CombinedOutput(); err == nil {
			t.Errorf("built by %s, whose faults %s does not have, although there is %s", built.GoVersion, oldest, out)
		} else {
			t.Logf("built by %s, as %s cannot be had: %s", built.GoVersion, oldest, out)
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
	if err := os.Chmod(root, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(root, 0o755)
	command := exec.Command(filepath.Join(root, "tmpproxy"), "serve", "--listen.addresses=127.0.0.1:0", "--admin.address=127.0.0.1:0", "--backend.address=127.0.0.1:1")
	command.Dir, command.Env = root, []string{}
	if os.Geteuid() == 0 {
		command.Path, command.Dir = "/tmpproxy", "/"
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
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
	// What only root may read is nobody else's, of the same user or not: the kernel writes no core file of it either.
	environ, err := os.Stat(fmt.Sprintf("/proc/%d/environ", command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if owner := environ.Sys().(*syscall.Stat_t).Uid; owner != 0 {
		t.Errorf("the process can be dumped: its environment is user %d's", owner)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, lines)
	if command.Wait(); command.ProcessState.ExitCode() != 143 {
		t.Errorf("ended with %s", command.ProcessState)
	}
}
