package checks

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// run runs a program and returns all that it prints.
func run(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	out, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// thePackage returns the package that make deb has built.
func thePackage(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("../../dist/*.deb")
	if err != nil || len(found) != 1 {
		t.Fatalf("packages in dist: %q, %v; make deb builds one", found, err)
	}
	return found[0]
}

// machine is a folder that dpkg takes for a system of its own.
type machine struct {
	t    *testing.T
	root string
}

func newMachine(t *testing.T) machine {
	m := machine{t, t.TempDir()}
	for _, folder := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(m.path("/var/lib/dpkg", folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(m.path("/var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m machine) path(parts ...string) string { return filepath.Join(m.root, filepath.Join(parts...)) }

// dpkg installs and removes for real. The package's scripts run outside the folder, which has no shell, and are told where it is.
func (m machine) dpkg(arguments ...string) string {
	m.t.Helper()
	arguments = append([]string{"dpkg", "--root=" + m.root, "--force-script-chrootless"}, arguments...)
	if os.Geteuid() != 0 {
		arguments = append([]string{"unshare", "--map-root-user"}, arguments...) // files have to belong to root
	}
	return run(m.t, arguments[0], arguments[1:]...)
}

func (m machine) read(path string) string {
	m.t.Helper()
	text, err := os.ReadFile(m.path(path))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

// files returns what is below a folder, folders aside.
func (m machine) files(folder string) []string {
	var found []string
	_ = filepath.WalkDir(m.path(folder), func(path string, e os.DirEntry, err error) error { // what is not there has none
		if err == nil && !e.IsDir() {
			found = append(found, strings.TrimPrefix(path, m.root))
		}
		return nil
	})
	return found
}

func TestPackage(t *testing.T) {
	file := thePackage(t)
	version := strings.TrimSpace(run(t, "dpkg-deb", "--field", file, "Version"))
	if want := os.Getenv("VERSION"); version != want {
		t.Errorf("the package is of version %s, not %s", version, want)
	}
	m := newMachine(t)
	m.dpkg("--install", file)

	for path, mode := range map[string]os.FileMode{
		"/usr/bin/tmpproxy":                                  0o755,
		"/usr/lib/systemd/system/tmpproxy.service":           0o644,
		"/usr/lib/systemd/system/tmpproxy.socket":            0o644,
		"/etc/tmpproxy/config.yaml":                          0o644,
		"/etc/tmpproxy/admin.token":                          0o600,
		"/usr/share/man/man1/tmpproxy.1.gz":                  0o644,
		"/usr/share/bash-completion/completions/tmpproxy":    0o644,
		"/usr/share/zsh/vendor-completions/_tmpproxy":        0o644,
		"/usr/share/fish/vendor_completions.d/tmpproxy.fish": 0o644,
		"/usr/share/doc/tmpproxy/copyright":                  0o644,
		"/usr/share/doc/tmpproxy/changelog.gz":               0o644,
		"/usr/share/lintian/overrides/tmpproxy":              0o644,
		"/usr/share/doc/tmpproxy/README.md":                  0o644,
		"/usr/share/doc/tmpproxy/SECURITY.md":                0o644,
		"/usr/share/doc/tmpproxy/config.yaml":                0o644,
		"/usr/share/doc/tmpproxy/examples/grafana.json":      0o644,
		"/usr/share/doc/tmpproxy/examples/alerts.yaml":       0o644,
	} {
		if info, err := os.Stat(m.path(path)); err != nil {
			t.Error(err)
		} else if info.Mode() != mode {
			t.Errorf("%s: mode %v", path, info.Mode())
		}
	}
	if got := run(t, m.path("/usr/bin/tmpproxy"), "version"); !strings.HasPrefix(got, "tmpproxy "+version+" go") {
		t.Errorf("the program is %q", got)
	}
	if got := strings.Fields(run(t, "dpkg-query", "--admindir="+m.path("/var/lib/dpkg"), "--show", "--showformat=${db:Status-Abbrev} ${Conffiles}", "tmpproxy")); len(got) != 3 || got[0] != "ii" || got[1] != "/etc/tmpproxy/config.yaml" {
		t.Errorf("status and files of settings: %q", got)
	}
	if text := m.read("/usr/share/doc/tmpproxy/copyright"); strings.Count(text, "\nLicense: ") < 20 || !strings.Contains(text, "github.com/pingcap/tidb/pkg/parser@") || !strings.Contains(text, "Leon Sorokin") {
		t.Errorf("the licences of the modules and of uPlot are not in %d bytes of copyright", len(text))
	}
	manual, err := os.Open(m.path("/usr/share/man/man1/tmpproxy.1.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer manual.Close()
	if unpacked, err := gzip.NewReader(manual); err != nil {
		t.Error(err)
	} else if text, err := io.ReadAll(unpacked); err != nil || !strings.Contains(string(text), "tmpproxy serve") {
		t.Errorf("manual page: %d bytes, %v", len(text), err)
	}

	// An upgrade keeps the settings and the token.
	token := m.read("/etc/tmpproxy/admin.token")
	if !regexp.MustCompile(`^[0-9a-f]{48}$`).MatchString(token) {
		t.Errorf("token %q", token)
	}
	mine := strings.Replace(m.read("/etc/tmpproxy/config.yaml"), "127.0.0.1:3306", "db.example:3306", 1)
	if err := os.WriteFile(m.path("/etc/tmpproxy/config.yaml"), []byte(mine), 0o644); err != nil {
		t.Fatal(err)
	}
	m.dpkg("--install", file)
	if m.read("/etc/tmpproxy/config.yaml") != mine || m.read("/etc/tmpproxy/admin.token") != token {
		t.Error("installed once more it does not have its settings or its token any more")
	}

	m.dpkg("--remove", "tmpproxy")
	if left := m.files("/usr"); len(left) > 0 {
		t.Errorf("left in /usr: %q", left)
	}
	if got := fmt.Sprint(m.files("/etc")); got != "[/etc/tmpproxy/admin.token /etc/tmpproxy/config.yaml]" {
		t.Errorf("in /etc after the removal: %s", got)
	}
	m.dpkg("--purge", "tmpproxy")
	if left := m.files("/etc"); len(left) > 0 {
		t.Errorf("left in /etc: %q", left)
	}
}

// systemd takes every line of the unit, and its own measure of what the service could do stays low.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile("../systemd/tmpproxy.service")
	if err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs("../../dist/tmpproxy")
	if err != nil {
		t.Fatal(err)
	}
	analyze := obtain(t, "systemd", "bin/systemd-analyze")
	verify := func(text string) string {
		unit := filepath.Join(t.TempDir(), "tmpproxy.service")
		if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", unit).CombinedOutput() // what it prints counts
		return string(out)
	}
	here := strings.Replace(string(text), "ExecStart=/usr/bin/tmpproxy ", "ExecStart="+program+" ", 1)
	if out := verify(here); out != "" {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	if out := verify(strings.Replace(here, "DynamicUser=yes", "DynamicUsr=yes", 1)); !strings.Contains(out, "DynamicUsr") {
		t.Errorf("a key that there is not is taken: %q", out)
	}
	socket := filepath.Join(t.TempDir(), "tmpproxy.socket")
	for from, to := range map[string]string{here: filepath.Join(filepath.Dir(socket), "tmpproxy.service"), string(contents(t, "../systemd/tmpproxy.socket")): socket} {
		if err := os.WriteFile(to, []byte(from), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, _ := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", socket).CombinedOutput(); len(out) > 0 {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	for _, line := range []string{"Type=notify\n", "WatchdogSec=", "Restart=on-failure\n"} {
		if !strings.Contains(string(text), "\n"+line) {
			t.Errorf("the unit lacks %q: a proxy that hangs would not be started again", line)
		}
	}
	run(t, analyze, "security", "--no-pager", "--offline=true", "--threshold=12", "../systemd/tmpproxy.service")
}

func contents(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
