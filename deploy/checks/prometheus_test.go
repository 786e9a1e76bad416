package checks

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// promtool obtains Prometheus' own checker.
func promtool(t *testing.T) string { return obtain(t, "prometheus", "bin/promtool") }

// obtain has a program unpacked from Debian's packages, unless it is there, and returns its path.
func obtain(t *testing.T, kind, program string) string {
	t.Helper()
	command := exec.Command("../../testbed/server/obtain.sh", kind)
	command.Stderr = os.Stderr
	root, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), program)
}

// Prometheus takes the alert rules, and they fire when they should and not otherwise.
func TestAlerts(t *testing.T) {
	program := promtool(t)
	run(t, program, "check", "rules", "../prometheus/alerts.yaml")
	run(t, program, "test", "rules", "../prometheus/alerts_test.yaml")

	// Every rule has both cases.
	alerts, err := os.ReadFile("../prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile("../prometheus/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllSubmatch(alerts, -1) {
		if n := len(regexp.MustCompile(`alertname: `+string(m[1])+`\b`).FindAll(cases, -1)); n != 2 {
			t.Errorf("%s has %d cases, not 2", m[1], n)
		}
	}
}

// Every expression of the dashboard is one to Prometheus, when Grafana has put its own in.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../grafana/tmpproxy.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	type rule map[string]string
	var rules []rule
	grafana := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*")
	add := func(expression string) {
		rules = append(rules, rule{"record": "r" + string(rune('a'+len(rules)/26)) + string(rune('a'+len(rules)%26)), "expr": grafana.Replace(expression)})
	}
	seen, taken := map[int]bool{}, map[[2]int]int{}
	for _, p := range dashboard.Panels {
		if seen[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		seen[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != 0 || x >= 24 {
					t.Fatalf("panel %d lies on panel %d or outside at %d, %d", p.ID, other, x, y)
				}
				taken[[2]int{x, y}] = p.ID
			}
		}
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %d of type %s asks %d questions", p.ID, p.Type, len(p.Targets))
		}
		for _, target := range p.Targets {
			add(target.Expr)
		}
	}
	for _, a := range dashboard.Annotations.List {
		add(a.Expr)
	}
	if len(rules) < 30 {
		t.Errorf("only %d expressions", len(rules))
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	check := func(rules []rule) error {
		text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(promtool(t), "check", "rules", file).CombinedOutput()
		if err != nil {
			t.Logf("%s", out)
		}
		return err
	}
	if err := check(rules); err != nil {
		t.Error(err)
	}
	if check(append(rules, rule{"record": "wrong", "expr": "sum(rate(x[5m]"})) == nil {
		t.Error("no expression is found to be wrong")
	}
}
