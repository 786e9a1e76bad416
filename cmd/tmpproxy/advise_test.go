package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"tmpproxy/admin"
	"tmpproxy/advice"
)

// advise prints what a running proxy says, whatever kind of address that has.
func TestAdvise(t *testing.T) {
	report := advice.New(advice.Report{Observing: true, Seconds: 60, Sessions: 10, Busy: advice.Took{Count: 100, Seconds: 1}}, []advice.Counts{
		{Shape: "(a INT) ENGINE=MEMORY", Server: "MySQL", Engine: "MEMORY", Keep: "eligible", Convert: "eligible", Sessions: 10, Cycles: 12, Names: 1},
	})
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "admin.sock")} {
		t.Run(network, func(t *testing.T) {
			s := admin.New(zap.NewNop(), admin.Options{
				Network: network, Address: address, Metrics: prometheus.NewRegistry(),
				Pages: map[string]func() any{"/api/advice": func() any { return report }},
			})
			if err := s.Listen(); err != nil {
				t.Fatal(err)
			}
			go s.Serve()
			defer s.Shutdown(t.Context())
			var out, failure bytes.Buffer
			if code := run([]string{"advise", "--admin.address=" + s.Addr().String()}, &out, &failure); code != exitOK {
				t.Fatalf("exit code %d: %s", code, &failure)
			}
			if out.String() != report.Text() || !strings.Contains(out.String(), " 1  1.2 cycles per session: no gain to expect\n") {
				t.Errorf("printed\n%s", &out)
			}
			out.Reset()
			if code := run([]string{"advise", "--json", "--admin.address=" + s.Addr().String()}, &out, &failure); code != exitOK {
				t.Fatalf("exit code %d: %s", code, &failure)
			}
			var got advice.Report
			if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Text() != report.Text() {
				t.Errorf("%v:\n%s", err, &out)
			}
		})
	}
	var out, failure bytes.Buffer
	if code := run([]string{"advise", "--admin.address=none"}, &out, &failure); code == exitOK || !strings.Contains(failure.String(), "admin.address") {
		t.Errorf("exit code %d: %s", code, &failure)
	}
}
