package tmpproxy

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"tmpproxy/config"
	"tmpproxy/proxy"
	"tmpproxy/trial"
)

// The README's tables name exactly the settings and the metrics that there are.
func TestREADMETables(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := func(pattern string) []string {
		var all []string
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			all = append(all, string(m[1]))
		}
		slices.Sort(all)
		return all
	}
	var keys []string
	for _, k := range config.Keys() {
		keys = append(keys, k.Name)
	}
	slices.Sort(keys)
	if got := named("(?m)^\\| `([a-z]+\\.[a-z_.]+)` \\| "); !slices.Equal(got, keys) {
		t.Errorf("settings in the README\n%q\nsettings that there are\n%q", got, keys)
	}

	s, err := proxy.NewServer(zap.NewNop(), proxy.Options{Listen: []string{"127.0.0.1:0"}, Backend: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	trials, err := trial.New(zap.NewNop(), trial.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer trials.Close()
	metrics := []string{"tmpproxy_build_info", "tmpproxy_config_reloads_total",
		"tmpproxy_recording", "tmpproxy_recorded_sessions_total", "tmpproxy_recorded_records_total", "tmpproxy_recorded_bytes_total", "tmpproxy_recordings_dropped_total"} // the program's own
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		for _, c := range append(s.Collectors(), trials.Collector()) {
			c.Describe(descriptions)
		}
	}()
	for d := range descriptions {
		metrics = append(metrics, regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1])
	}
	slices.Sort(metrics)
	metrics = slices.Compact(metrics)
	if got := named("(?m)^\\| `(tmpproxy_[a-z_]+)` \\| "); !slices.Equal(got, metrics) {
		t.Errorf("metrics in the README\n%q\nmetrics that there are\n%q", got, metrics)
	}
}
