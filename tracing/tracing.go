// Package tracing sends statements as OpenTelemetry spans to a collector: OTLP over HTTP in protobuf, with the names of the semantic
// conventions for databases. No value is sent: of a statement only its digest. It takes what OpenTelemetry has for the protocol and does
// the rest itself: there are no spans in progress, no propagation and no metrics here. What cannot be sent is dropped and counted,
// not tried again.
package tracing

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"tmpproxy/rewrite"
	"tmpproxy/telemetry"
	"tmpproxy/trial/record"
)

// Options say where spans go and what is told with all of them.
type Options struct {
	Endpoint string      // http://collector:4318/v1/traces
	Headers  http.Header // of every request, beside the content's type; secrets
	Version  string      // of the program
	Counts   *Counts
	// Failed is told of the first of several batches in a row that the collector has not got.
	Failed func(error)
}

// Counts grow.
type Counts struct {
	Sent    atomic.Uint64 // spans
	TooFast atomic.Uint64 // spans that were dropped as they came faster than they could be sent
	Failed  atomic.Uint64 // spans that the collector has not got
}

// Bounds of what waits to be sent, and how it is.
const (
	maxWaiting      = 2048
	maxWaitingBytes = 16 << 20
	maxBatch        = 512
	sendEvery       = 2 * time.Second
	sendTimeout     = 10 * time.Second
	farewell        = 2 * time.Second // for the last batches, at the end
)

// Tracer sends to one collector, in a goroutine of its own. Add is safe for concurrent use.
type Tracer struct {
	options Options
	client  http.Client
	every   time.Duration
	queue   *telemetry.Queue
	quit    chan struct{}
	done    chan struct{}
	broken  bool
}

// Start begins. Nothing is sent before there is a statement.
func Start(o Options) *Tracer { return start(o, sendEvery) }

func start(o Options, every time.Duration) *Tracer {
	t := &Tracer{options: o, every: every,
		client: http.Client{
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1},
			// Whoever is named by a redirection is not given the headers.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		queue: telemetry.NewQueue(maxWaiting, maxWaitingBytes), quit: make(chan struct{}), done: make(chan struct{})}
	go t.run()
	return t
}

// Add never waits. The text is the tracer's from then on.
func (t *Tracer) Add(s telemetry.Statement) {
	if !t.queue.Add(s) {
		t.options.Counts.TooFast.Add(1)
	}
}

// Close sends what waits, for a short while. It may be called once; nothing may be added any more.
func (t *Tracer) Close() {
	close(t.quit)
	<-t.done
}

func (t *Tracer) run() {
	defer close(t.done)
	defer t.client.CloseIdleConnections()
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	var batch []*trace.Span
	send := func(limit time.Duration) {
		if len(batch) > 0 && limit > 0 {
			t.send(batch, limit)
		} else {
			t.options.Counts.Failed.Add(uint64(len(batch)))
		}
		batch = nil
	}
	take := func(s telemetry.Statement) {
		t.queue.Taken(&s)
		batch = append(batch, span(&s))
	}
	for {
		select {
		case s := <-t.queue.Waiting():
			if take(s); len(batch) >= maxBatch {
				send(sendTimeout)
			}
		case <-tick.C:
			send(sendTimeout)
		case <-t.quit:
			end := time.Now().Add(farewell)
			t.queue.Drain(func(s telemetry.Statement) {
				if take(s); len(batch) >= maxBatch {
					send(time.Until(end))
				}
			})
			send(time.Until(end))
			return
		}
	}
}

// send gives a batch to the collector, once.
func (t *Tracer) send(batch []*trace.Span, limit time.Duration) {
	err := t.post(batch, limit)
	if err == nil {
		t.broken = false
		t.options.Counts.Sent.Add(uint64(len(batch)))
		return
	}
	t.options.Counts.Failed.Add(uint64(len(batch)))
	if !t.broken {
		t.options.Failed(err)
	}
	t.broken = true
}

func (t *Tracer) post(batch []*trace.Span, limit time.Duration) error {
	// An ExportTraceServiceRequest is the same on the wire.
	body, err := proto.Marshal(&trace.TracesData{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{text("service.name", "tmpproxy"), text("service.version", t.options.Version)}},
		ScopeSpans: []*trace.ScopeSpans{{
			Scope: &common.InstrumentationScope{Name: "tmpproxy", Version: t.options.Version},
			Spans: batch,
		}},
	}}})
	if err != nil {
		return fmt.Errorf("spans: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.options.Endpoint, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("spans: %w", err)
	}
	maps.Copy(request.Header, t.options.Headers)
	request.Header.Set("Content-Type", "application/x-protobuf")
	response, err := t.client.Do(request)
	if err != nil {
		return fmt.Errorf("spans: %w", err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // so that the connection serves again
	if response.StatusCode/100 != 2 {
		return errors.New("spans: the collector answers " + response.Status)
	}
	return nil
}

// parent is how a statement's comment names the span that it belongs to: sqlcommenter's traceparent.
var parent = regexp.MustCompile(`traceparent='00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}'`)

// span makes a statement's.
func span(e *telemetry.Statement) *trace.Span {
	lexical := record.Lexical{NoBackslashEscapes: e.Mode&rewrite.NoBackslashEscapes != 0, ANSIQuotes: e.Mode&rewrite.ANSIQuotes != 0}
	digest := record.Shape(e.Text, lexical)
	operation, _, _ := strings.Cut(digest, " ")
	operation = strings.ToUpper(operation)
	system := "mysql"
	if e.Mode&rewrite.MariaDB != 0 {
		system = "mariadb"
	}
	s := &trace.Span{
		TraceId: random(16), SpanId: random(8), Name: system, Kind: trace.Span_SPAN_KIND_CLIENT,
		StartTimeUnixNano: uint64(e.End.Add(-e.Took).UnixNano()), EndTimeUnixNano: uint64(e.End.UnixNano()),
		Attributes: []*common.KeyValue{text("db.system.name", system)},
	}
	if m := parent.FindSubmatch(e.Text); m != nil {
		s.TraceId, _ = hex.DecodeString(string(m[1]))
		s.ParentSpanId, _ = hex.DecodeString(string(m[2]))
	}
	for _, a := range []struct{ name, value string }{
		{"db.query.text", digest}, {"db.operation.name", operation}, {"db.namespace", e.Schema}, {"client.address", e.Host},
	} {
		if a.value != "" {
			s.Attributes = append(s.Attributes, text(a.name, a.value))
		}
	}
	if operation != "" {
		s.Name = strings.ToValidUTF8(strings.TrimSpace(operation+" "+e.Schema), "�")
	}
	if e.Failed {
		s.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR}
		s.Attributes = append(s.Attributes, text("error.type", "_OTHER"))
	}
	return s
}

func text(name, value string) *common.KeyValue {
	return &common.KeyValue{Key: name, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(value, "�")}}}
}

// random returns n random bytes, which are not all 0.
func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	b[0] |= 1
	return b
}
