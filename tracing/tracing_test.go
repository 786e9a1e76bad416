package tracing

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"tmpproxy/rewrite"
	"tmpproxy/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// attributes of a span, with its name.
func attributes(s *collector.Span) map[string]string {
	all := map[string]string{"": s.Name}
	for _, a := range s.Attributes {
		all[a.Key] = a.Value.GetStringValue()
	}
	return all
}

func TestSpan(t *testing.T) {
	end := time.Unix(1796091289, 5)
	for _, test := range []struct {
		name   string
		s      telemetry.Statement
		want   map[string]string
		parent string // trace and span
		failed bool
	}{
		{"select", telemetry.Statement{Text: []byte("select a from t where b = 's3cr3t-value'"), Schema: "shop", Host: "10.0.0.5", User: "someone"},
			map[string]string{"": "SELECT shop", "db.system.name": "mysql", "db.query.text": "select a from t where b = ?", "db.operation.name": "SELECT", "db.namespace": "shop", "client.address": "10.0.0.5"}, "", false},
		{"MariaDB, failed, no schema", telemetry.Statement{Text: []byte("DELETE FROM t WHERE a IN (1, 2)"), Mode: rewrite.MariaDB, Failed: true},
			map[string]string{"": "DELETE", "db.system.name": "mariadb", "db.query.text": "DELETE FROM t WHERE a IN (?)", "db.operation.name": "DELETE", "error.type": "_OTHER"}, "", true},
		{"of the application's trace", telemetry.Statement{Text: []byte("DO 1 /*traceparent='00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01',route='x'*/")},
			map[string]string{"": "DO", "db.system.name": "mysql", "db.query.text": "DO ?", "db.operation.name": "DO"}, "5bd66ef5095369c7b0d1f8f4bd33716a c532cb4098ac3dd2", false},
		{"not known", telemetry.Statement{Prepared: true}, map[string]string{"": "mysql", "db.system.name": "mysql"}, "", false},
		{"not UTF-8", telemetry.Statement{Text: []byte("DO 1"), Schema: "a\xff"}, map[string]string{"": "DO a�", "db.system.name": "mysql", "db.query.text": "DO ?", "db.operation.name": "DO", "db.namespace": "a�"}, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.s.Took = 3 * time.Second
			test.s.End = end
			s := span(&test.s)
			got := attributes(s)
			for name, value := range test.want {
				if got[name] != value {
					t.Errorf("%q is %q, not %q", name, got[name], value)
				}
			}
			if len(got) != len(test.want) {
				t.Errorf("attributes %v", got)
			}
			if s.Kind != collector.Span_SPAN_KIND_CLIENT || s.EndTimeUnixNano-s.StartTimeUnixNano != 3e9 || s.EndTimeUnixNano != uint64(end.UnixNano()) ||
				len(s.TraceId) != 16 || len(s.SpanId) != 8 {
				t.Errorf("span %v", s)
			}
			if failed := s.Status.GetCode() == collector.Status_STATUS_CODE_ERROR; failed != test.failed {
				t.Errorf("status %v", s.Status)
			}
			switch {
			case test.parent == "" && s.ParentSpanId != nil:
				t.Errorf("parent %x", s.ParentSpanId)
			case test.parent != "" && hex.EncodeToString(s.TraceId)+" "+hex.EncodeToString(s.ParentSpanId) != test.parent:
				t.Errorf("trace %x, parent %x", s.TraceId, s.ParentSpanId)
			}
			if _, err := proto.Marshal(s); err != nil {
				t.Error(err)
			}
		})
	}
}

// receiver is a collector that answers with a status.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	spans  []*collector.Span
	bodies string
	header http.Header // of the last request
}

func startReceiver(t *testing.T, status int) *receiver {
	t.Helper()
	r := &receiver{status: status}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		var data collector.TracesData
		if err := proto.Unmarshal(body, &data); err != nil || request.Method != "POST" || request.URL.Path != "/v1/traces" ||
			request.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s: %v", request.Method, request.URL, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bodies += string(body)
		r.header = request.Header
		for _, resource := range data.ResourceSpans {
			if got := resource.Resource.Attributes[0].Value.GetStringValue(); got != "tmpproxy" {
				t.Errorf("of service %q", got)
			}
			for _, scope := range resource.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func TestSend(t *testing.T) {
	r := startReceiver(t, http.StatusOK)
	counts := new(Counts)
	tracer := start(Options{Endpoint: r.URL + "/v1/traces", Version: "1.2.3", Counts: counts, Failed: func(err error) { t.Error(err) }}, time.Hour)
	const n = maxBatch + 7
	for range n {
		tracer.Add(telemetry.Statement{Text: []byte("SELECT 's3cr3t-value'")})
	}
	tracer.Close()
	if len(r.spans) != n || counts.Sent.Load() != n || counts.Failed.Load()+counts.TooFast.Load() != 0 {
		t.Errorf("%d spans of %d arrived, %d counted", len(r.spans), n, counts.Sent.Load())
	}
	if strings.Contains(r.bodies, "s3cr3t-value") {
		t.Error("a value is sent")
	}
}

// TestSendHeaders has a collector that wants to know who sends, and one that sends on to somebody else.
func TestSendHeaders(t *testing.T) {
	r := startReceiver(t, http.StatusOK)
	elsewhere := httptest.NewServer(http.RedirectHandler(r.URL+"/v1/traces", http.StatusTemporaryRedirect))
	defer elsewhere.Close()
	for _, test := range []struct {
		endpoint, failure string
		sent              uint64
	}{{r.URL + "/v1/traces", "", 1}, {elsewhere.URL, "the collector answers 307", 0}} {
		r.header = nil
		counts, failure := new(Counts), ""
		tracer := start(Options{Endpoint: test.endpoint, Counts: counts, Failed: func(err error) { failure = err.Error() },
			Headers: http.Header{"Authorization": {"Bearer s3cr3t"}, "X-Scope-Orgid": {"a", "b"}}}, time.Hour)
		tracer.Add(telemetry.Statement{Text: []byte("SELECT 1")})
		tracer.Close()
		if counts.Sent.Load() != test.sent || !strings.Contains(failure, test.failure) || (failure == "") != (test.failure == "") || strings.Contains(failure, "s3cr3t") {
			t.Errorf("%d sent, told %q", counts.Sent.Load(), failure)
		}
		if test.sent == 0 {
			if r.header != nil {
				t.Errorf("somebody else has got %v", r.header)
			}
		} else if got := r.header; got.Get("Authorization") != "Bearer s3cr3t" || strings.Join(got["X-Scope-Orgid"], ",") != "a,b" {
			t.Errorf("headers %v", got)
		}
	}
}

// TestSendFails has a collector that refuses, and none.
func TestSendFails(t *testing.T) {
	r := startReceiver(t, http.StatusServiceUnavailable)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, test := range []struct{ endpoint, want string }{{r.URL + "/v1/traces", "the collector answers 503"}, {gone.URL, "connection refused"}} {
		counts, failures := new(Counts), []string(nil)
		tracer := start(Options{Endpoint: test.endpoint, Counts: counts, Failed: func(err error) { failures = append(failures, err.Error()) }}, time.Hour)
		for range 2 * maxBatch {
			tracer.Add(telemetry.Statement{Text: []byte("SELECT 1")})
		}
		tracer.Close()
		if counts.Failed.Load() != 2*maxBatch || counts.Sent.Load() != 0 || len(failures) != 1 || !strings.Contains(failures[0], test.want) {
			t.Errorf("%s: %d failed, told %q", test.want, counts.Failed.Load(), failures)
		}
	}
}

// TestTooFast fills the queue of a tracer that sends nothing.
func TestTooFast(t *testing.T) {
	counts := new(Counts)
	tracer := &Tracer{options: Options{Counts: counts}, queue: telemetry.NewQueue(3, 1<<10)}
	for range 5 {
		tracer.Add(telemetry.Statement{Text: []byte("SELECT 1")})
	}
	if n := counts.TooFast.Load(); n != 2 {
		t.Errorf("%d spans were dropped", n)
	}
}
