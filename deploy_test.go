package tmpproxy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"go.yaml.in/yaml/v3"

	"tmpproxy/config"
	"tmpproxy/proxy"
	"tmpproxy/trial"
)

// metric is what a registry knows of a metric before it has a value.
type metric struct {
	name   string
	labels []string
}

// described returns the metrics of collectors. One that has several children may come several times.
func described(all ...prometheus.Collector) []metric {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		for _, c := range all {
			c.Describe(descriptions)
		}
	}()
	form := regexp.MustCompile(`fqName: "([^"]+)".* constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	var found []metric
	for d := range descriptions {
		m := form.FindStringSubmatch(d.String())
		labels := regexp.MustCompile(`=".*?"`).ReplaceAllString(m[2], "") + "," + m[3]
		found = append(found, metric{m[1], strings.FieldsFunc(labels, func(r rune) bool { return r == ',' })})
	}
	return found
}

// metricsOfOurs returns the metrics of the proxy's server and trials, and those of the program, which have to be told here.
func metricsOfOurs(t *testing.T) []metric {
	t.Helper()
	s, err := proxy.NewServer(zap.NewNop(), proxy.Options{Listen: []string{"127.0.0.1:0"}, Backends: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	trials, err := trial.New(zap.NewNop(), trial.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer trials.Close()
	found := append(described(append(s.Collectors(), trials.Collector())...),
		metric{"tmpproxy_build_info", []string{"go", "version"}}, metric{"tmpproxy_strategy", []string{"strategy"}}, metric{"tmpproxy_config_reloads_total", []string{"result"}},
		metric{name: "tmpproxy_config_last_reload_successful"}, metric{name: "tmpproxy_config_last_reload_success_timestamp_seconds"})
	for _, name := range []string{"tmpproxy_recording", "tmpproxy_recorded_sessions_total", "tmpproxy_recorded_records_total",
		"tmpproxy_recorded_bytes_total", "tmpproxy_slow_statements_total", "tmpproxy_spans_total"} {
		found = append(found, metric{name: name})
	}
	found = append(found, metric{"tmpproxy_slow_log_dropped_total", []string{"reason"}}, metric{"tmpproxy_spans_dropped_total", []string{"reason"}})
	return append(found, metric{"tmpproxy_recordings_dropped_total", []string{"reason"}})
}

// expressions are a file's texts in PromQL.
func expressions(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var content any
	if filepath.Ext(file) == ".json" {
		err = json.Unmarshal(text, &content)
	} else {
		err = yaml.Unmarshal(text, &content)
	}
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for k, e := range v {
				if text, ok := e.(string); ok && (k == "expr" || k == "query" && strings.Contains(text, "label_values")) {
					found = append(found, text)
				}
				walk(e)
			}
		}
	}
	walk(content)
	return found
}

var (
	selector = regexp.MustCompile(`\b((?:tmpproxy|process|go)_[a-z0-9_]+|up)\b(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
	grouping = regexp.MustCompile(`\b(?:by|without) \(([^)]*)\)`)
)

// misnamed returns the names of metrics and labels in an expression that there are not. labels are those of every metric.
func misnamed(expression string, labels map[string][]string) []string {
	var wrong []string
	list := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
	}
	given := []string{"instance", "job"} // by Prometheus
	var known []string                   // labels of any metric in the expression
	for _, m := range selector.FindAllStringSubmatch(expression, -1) {
		name := m[1]
		own, ok := labels[name]
		if !ok {
			wrong = append(wrong, name)
			continue
		}
		own = append(slices.Clone(own), given...)
		known = append(known, own...)
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(own, l[1]) {
				wrong = append(wrong, name+"{"+l[1]+"}")
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expression, -1) {
		for _, l := range list(g[1]) {
			if !slices.Contains(known, l) {
				wrong = append(wrong, "by ("+l+")")
			}
		}
	}
	return wrong
}

// The dashboard and the alert rules name only metrics and labels that there are.
func TestDashboardAndAlerts(t *testing.T) {
	labels := map[string][]string{"up": nil}
	all := append(metricsOfOurs(t), described(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))...)
	for _, m := range all {
		labels[m.name] = append(labels[m.name], m.labels...)
	}
	const histogram = "tmpproxy_statement_duration_seconds"
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		labels[histogram+suffix] = append(slices.Clone(labels[histogram]), "le")
	}
	delete(labels, histogram) // never a series of this name

	for _, c := range []struct{ expression, wrong string }{
		{`sum by (reason) (rate(tmpproxy_settles_total{instance=~"$instance"}[1m]))`, ""},
		{`rate(tmpproxy_setles_total[1m])`, "tmpproxy_setles_total"},
		{`tmpproxy_statement_duration_seconds{class="drop"}`, histogram},
		{`tmpproxy_sessions{reason="x"}`, "tmpproxy_sessions{reason}"},
		{`sum by (class) (tmpproxy_sessions)`, "by (class)"},
		{`label_values(tmpproxy_nothing, instance)`, "tmpproxy_nothing"},
	} {
		if got := strings.Join(misnamed(c.expression, labels), " "); got != c.wrong {
			t.Errorf("%s: found %q, not %q", c.expression, got, c.wrong)
		}
	}
	for file, least := range map[string]int{"deploy/grafana/tmpproxy.json": 42, "deploy/prometheus/alerts.yaml": 12} {
		found := expressions(t, file)
		if len(found) < least {
			t.Errorf("%s: %d expressions", file, len(found))
		}
		for _, e := range found {
			if !selector.MatchString(e) {
				t.Errorf("%s: no metric in %s", file, e)
			}
			if wrong := misnamed(e, labels); wrong != nil {
				t.Errorf("%s: there is no %q in %s", file, wrong, e)
			}
		}
	}
}

// The settings that are deployed are valid, and watch first.
func TestDeployedSettings(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-token-for-the-test-only"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, c := range map[string]struct{ strategy, token string }{
		"deploy/deb/config.yaml":               {"observe", "/run/credentials/tmpproxy.service/admin-token"},
		"deploy/compose/config/config.yaml":    {"observe", ""},
		"deploy/kubernetes/config/config.yaml": {"observe", "/etc/tmpproxy-admin/token"},
		"deploy/kubernetes/innodb/config.yaml": {"innodb", "/etc/tmpproxy-admin/token"},
	} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			here := string(text)
			if c.token != "" { // it is there where the settings are used
				if here = strings.Replace(here, "token_file: "+c.token+"\n", "token_file: "+token+"\n", 1); here == string(text) {
					t.Errorf("the token is not in %s", c.token)
				}
			}
			copied := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(copied, []byte(here), 0o600); err != nil {
				t.Fatal(err)
			}
			settings, err := config.Load(copied, nil)
			if err != nil {
				t.Fatal(err)
			}
			if settings.Rewrite.Strategy != c.strategy {
				t.Errorf("strategy %s, not %s", settings.Rewrite.Strategy, c.strategy)
			}
		})
	}
}
