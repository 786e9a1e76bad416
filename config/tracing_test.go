package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTracingHeaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "headers")
	for _, test := range []struct {
		text  string
		want  map[string][]string
		fault string
	}{
		{"", map[string][]string{}, ""},
		{"# of the team\n\nauthorization:  Bearer s3cr3t==  \r\nX-Scope-OrgID: shop\nX-Scope-OrgID: other", map[string][]string{
			"Authorization": {"Bearer s3cr3t=="}, "X-Scope-Orgid": {"shop", "other"}}, ""},
		{"A: b:c", map[string][]string{"A": {"b:c"}}, ""},
		{"A: b\ns3cr3t", nil, "line 2 of " + file + " is not of the form"},
		{"A:", nil, "line 1"},
		{": s3cr3t", nil, "line 1"},
		{"A b: s3cr3t", nil, "line 1"},
		{"A: s3cr3t\u00e9", nil, "line 1"},
		{"A: s3cr3t\rB: c", nil, "line 1"},
		{"content-type: s3cr3t", nil, "Content-Type cannot be chosen"},
		{"HOST: s3cr3t", nil, "Host cannot be chosen"},
	} {
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var c Config
		c.Tracing.HeadersFile = file
		got, err := c.TracingHeaders()
		switch {
		case test.fault != "":
			if err == nil || !strings.Contains(err.Error(), test.fault) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("%q: %v", test.text, err)
			}
		case err != nil || !maps.EqualFunc(got, test.want, slices.Equal[[]string]):
			t.Errorf("%q: %v, %v", test.text, got, err)
		}
	}
	if _, err := load(t, "", nil, "--tracing.headers_file=/nowhere/headers"); err == nil || !strings.Contains(err.Error(), "tracing.headers_file") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestTracingWarnings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const open, listened = "can be read by others", "can be read on their way"
	for _, test := range []struct {
		endpoint string
		mode     os.FileMode
		want     []string
	}{
		{"https://collector/v1/traces", 0o600, nil},
		{"http://127.0.0.1:4318/v1/traces", 0o400, nil},
		{"http://localhost/v1/traces", 0o600, nil},
		{"http://[::1]/v1/traces", 0o600, nil},
		{"http://collector:4318/v1/traces", 0o600, []string{listened}},
		{"http://collector/v1/traces", 0o640, []string{open, listened}},
	} {
		if err := os.Chmod(file, test.mode); err != nil {
			t.Fatal(err)
		}
		var c Config
		c.Tracing.Endpoint, c.Tracing.HeadersFile = test.endpoint, file
		got := c.tracingWarnings()
		if !slices.EqualFunc(got, test.want, strings.Contains) {
			t.Errorf("%s, %v: %q", test.endpoint, test.mode, got)
		}
		if c.Tracing.HeadersFile = ""; len(c.tracingWarnings()) > 0 {
			t.Errorf("%s without headers: %q", test.endpoint, c.tracingWarnings())
		}
	}
}
