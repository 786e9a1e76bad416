package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/zap"

	"tmpproxy/proxy"
	"tmpproxy/session"
	"tmpproxy/trial"
)

// labels are the label names that metrics may have. The values of each come from a fixed list, or are the arms of the present
// trial or the backends of the settings: never from a client, a statement or a name of the server's.
var labels = []string{"answered_by", "arm", "backend", "class", "reason", "result", "side", "strategy"}

var descPattern = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*)", unit: "[^"]*", constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}\}$`)

// ownCollectors returns the collectors of all metrics that begin with tmpproxy_, but for the build.
func ownCollectors(t *testing.T) []prometheus.Collector {
	t.Helper()
	server, err := proxy.NewServer(zap.NewNop(), proxy.Options{
		Listen: []string{"127.0.0.1:0"}, Backends: []string{"127.0.0.1:1"}, Policy: &session.Policy{Strategy: session.StrategyNative},
	})
	if err != nil {
		t.Fatal(err)
	}
	trials, err := trial.New(zap.NewNop(), trial.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { trials.Close() })
	all := append(server.Collectors(), newReloadMetrics(prometheus.NewRegistry(), time.Now()).collectors()...)
	all = append(all, newStrategyMetric(func() strategyStatus { return strategyStatus{InForce: "keep"} }))
	all = append(all, new(statementLogs).collectors()...)
	return append(append(all, trials.Collector()), new(recordings).collectors()...)
}

func TestMetricNames(t *testing.T) {
	descs := make(chan *prometheus.Desc)
	list := ownCollectors(t)
	go func() {
		defer close(descs)
		for _, c := range list {
			c.Describe(descs)
		}
	}()
	seen := 0
	for desc := range descs {
		seen++
		match := descPattern.FindStringSubmatch(desc.String())
		if match == nil {
			t.Errorf("cannot read %s", desc)
			continue
		}
		name, help := match[1], match[2]
		if !strings.HasPrefix(name, "tmpproxy_") {
			t.Errorf("%s lacks the prefix", name)
		}
		if help == "" || !strings.HasSuffix(help, ".") {
			t.Errorf("%s: help is no sentence: %q", name, help)
		}
		for part := range strings.SplitSeq(name, "_") {
			if slices.Contains([]string{"ms", "us", "ns", "milliseconds", "microseconds", "nanoseconds", "minutes", "kb", "mb", "kib", "mib", "kilobytes", "percent"}, part) {
				t.Errorf("%s: %s is no base unit", name, part)
			}
		}
		for label := range strings.SplitSeq(match[3]+","+match[4], ",") {
			label, _, _ = strings.Cut(label, "=") // constant ones have their value behind them
			if label != "" && !slices.Contains(labels, label) {
				t.Errorf("%s: label %s is not on the list of bounded ones", name, label)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d metrics", seen)
	}
}

// TestStrategyMetric switches and reads what is served.
func TestStrategyMetric(t *testing.T) {
	in := "keep"
	registry := prometheus.NewRegistry()
	registry.MustRegister(newStrategyMetric(func() strategyStatus { return strategyStatus{InForce: in} }))
	for _, in = range []string{"keep", "native"} {
		families, err := registry.Gather()
		if err != nil || len(families) != 1 {
			t.Fatal(families, err)
		}
		for _, m := range families[0].GetMetric() {
			name := m.GetLabel()[0].GetValue()
			if got := m.GetGauge().GetValue() == 1; got != (name == in) {
				t.Errorf("%s in force: that %s is, is said to be %v", in, name, got)
			}
		}
		if len(families[0].GetMetric()) != len(strategies) {
			t.Errorf("%d strategies", len(families[0].GetMetric()))
		}
	}
}

// TestIOURing asks whether writes are bundled: never when it is switched off, else as the kernel allows.
func TestIOURing(t *testing.T) {
	for _, wanted := range []string{"true", "false"} {
		s := serve(t, nil, "--relay.io_uring="+wanted, "--backend.address="+startBackend(t).address())
		connect(t, "tcp", s.listen[0]) // the loops are there
		_, text := s.get("/api/status")
		var all status
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
		_, metrics := s.get("/metrics")
		if counted := strings.Contains(metrics, "\ntmpproxy_io_uring 1\n"); counted != all.IOURing || counted && wanted == "false" {
			t.Errorf("relay.io_uring %s: the status says %v, the metric %v", wanted, all.IOURing, counted)
		}
	}
}

// TestMetricLint reads what is really served.
func TestMetricLint(t *testing.T) {
	s := serve(t, nil, "--backend.address="+startBackend(t).address())
	c := connect(t, "tcp", s.listen[0])
	c.query("SELECT 1")
	c.query("CREATE TEMPORARY TABLE d.t (a INT) ENGINE=MEMORY") // a backend that answers everything with OK will do
	_, text := s.get("/metrics")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, family := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(text, -1) {
		name := family[1]
		if !slices.ContainsFunc([]string{"tmpproxy_", "go_", "process_"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			t.Errorf("%s: whose is it?", name)
		}
	}
}

// TestMetricsAreDocumented has the README's table say of every metric what the metric says of itself: by what it is registered with, and by
// what a running proxy serves.
func TestMetricsAreDocumented(t *testing.T) {
	type row struct{ kind, labels, help string }
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]row{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(tmpproxy_[a-z_]+)` \\| (\\w+) \\| (.*?) \\| (.*) \\|$").FindAllStringSubmatch(string(readme), -1) {
		documented[m[1]] = row{m[2], strings.NewReplacer("`", "", " ", "").Replace(m[3]), m[4]}
	}

	descs := make(chan *prometheus.Desc)
	list := ownCollectors(t)
	go func() {
		defer close(descs)
		for _, c := range list {
			c.Describe(descs)
		}
	}()
	for desc := range descs {
		match := descPattern.FindStringSubmatch(desc.String())
		if match == nil {
			t.Errorf("cannot read %s", desc)
			continue
		}
		var names []string
		for label := range strings.SplitSeq(match[3]+","+match[4], ",") {
			if label, _, _ = strings.Cut(label, "="); label != "" {
				names = append(names, label)
			}
		}
		if got, want := documented[match[1]], strings.Join(names, ","); got.labels != want || got.help != match[2] {
			t.Errorf("%s: the README says %+v; labels are %q, help is %q", match[1], got, want, match[2])
		}
	}

	s := serve(t, nil, "--backend.address="+startBackend(t).address())
	_, text := s.get("/metrics")
	families := regexp.MustCompile(`(?m)^# HELP (tmpproxy_\S+) (.*)\n# TYPE \S+ (\w+)$`).FindAllStringSubmatch(text, -1)
	if len(families) < 30 {
		t.Errorf("only %d metrics are served", len(families))
	}
	for _, m := range families {
		if got := documented[m[1]]; got.kind != m[3] || got.help != m[2] {
			t.Errorf("%s: the README says %+v; it is a %s, its help %q", m[1], got, m[3], m[2])
		}
	}
}
