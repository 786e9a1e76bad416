package tmpproxy

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"tmpproxy/config"
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
	if got := named("(?m)^\\| `([a-z_]+\\.[a-z_.]+)` \\| "); !slices.Equal(got, keys) {
		t.Errorf("settings in the README\n%q\nsettings that there are\n%q", got, keys)
	}

	var metrics []string
	for _, m := range metricsOfOurs(t) {
		metrics = append(metrics, m.name)
	}
	slices.Sort(metrics)
	metrics = slices.Compact(metrics)
	if got := named("(?m)^\\| `(tmpproxy_[a-z_]+)` \\| "); !slices.Equal(got, metrics) {
		t.Errorf("metrics in the README\n%q\nmetrics that there are\n%q", got, metrics)
	}
}
