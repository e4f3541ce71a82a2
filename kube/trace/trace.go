// Package trace sends spans to an OpenTelemetry collector: OTLP over HTTP, in JSON, as its specification 1.x says
// (opentelemetry-proto: docs/specification.md, "OTLP/HTTP" and "JSON Protobuf Encoding"). It keeps what it is given for a
// moment, sends it in batches, and drops what a collector does not take: nothing waits for it. The OpenTelemetry SDK would make
// kubectl-berth a quarter larger for the one span that the scheduler makes of each workload. kube/scheduler calls it.
package trace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Span is one piece of work.
type Span struct {
	// Seed makes the identity: two spans with one seed are one to a collector, which is what a second leader that traces the same
	// workload wants.
	Seed       string
	Name       string
	Start, End time.Time
	Attributes []Attribute
	Events     []Event
	Failed     string // why it did not end well; "": it did
}

// Attribute is a key with a string, or with a number where Text is empty.
type Attribute struct {
	Key    string
	Text   string
	Number int64
}

// Event is a moment within a span.
type Event struct {
	Name string
	At   time.Time
}

// Exporter sends spans to one collector.
type Exporter struct {
	url     string
	version string
	log     *slog.Logger
	spans   chan Span
	dropped atomic.Int64
	client  http.Client
}

const (
	kept    = 4096 // spans that wait to be sent; what comes beyond is dropped
	batch   = 512
	every   = time.Second
	sendFor = 5 * time.Second
)

// ParseEndpoint reads the base URL of a collector, to which /v1/traces is added unless it ends so.
func ParseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q: give the URL of an OpenTelemetry collector, such as http://collector.monitoring:4318", strings.TrimSpace(text))
	}
	if !strings.HasSuffix(u.Path, "/v1/traces") {
		u.Path = strings.TrimSuffix(u.Path, "/") + "/v1/traces"
	}
	return u, nil
}

// New makes an exporter; Run makes it send.
func New(endpoint *url.URL, version string, log *slog.Logger) *Exporter {
	return &Exporter{url: endpoint.String(), version: version, log: log, spans: make(chan Span, kept), client: http.Client{Timeout: sendFor, CheckRedirect: stay}}
}

// stay follows no redirection: spans name workloads, and are for the collector that was named.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Send hands a span over, and never waits. A nil exporter takes none.
func (e *Exporter) Send(s Span) {
	if e == nil {
		return
	}
	select {
	case e.spans <- s:
	default:
		e.dropped.Add(1)
	}
}

// Run sends until ctx ends, and then once more what is left.
func (e *Exporter) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			e.flush(context.WithoutCancel(ctx))
			return
		case <-tick.C:
			e.flush(ctx)
		}
	}
}

// flush sends what is there now. A batch that is not taken is dropped, and said once for each.
func (e *Exporter) flush(ctx context.Context) {
	for {
		var list []Span
		for len(list) < batch && len(e.spans) > 0 {
			list = append(list, <-e.spans)
		}
		if len(list) == 0 {
			return
		}
		if err := e.post(ctx, list); err != nil {
			e.dropped.Add(int64(len(list)))
			e.log.Warn("traces", "dropped", e.dropped.Load(), "reason", err)
			return
		}
	}
}

func (e *Exporter) post(ctx context.Context, list []Span) error {
	text, err := encode(list, e.version)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 256))
		return fmt.Errorf("%s: %q", answer.Status, said)
	}
	return nil
}

// encode is the request's body. Identities are hexadecimal there, and numbers of 64 bits strings.
func encode(list []Span, version string) ([]byte, error) {
	type object = map[string]any
	attribute := func(a Attribute) object {
		if a.Text == "" {
			return object{"key": a.Key, "value": object{"intValue": strconv.FormatInt(a.Number, 10)}}
		}
		return object{"key": a.Key, "value": object{"stringValue": a.Text}}
	}
	spans := make([]object, 0, len(list))
	for _, s := range list {
		id := sha256.Sum256([]byte(s.Seed))
		const internal, ok, failed = 1, 1, 2 // of SpanKind and StatusCode
		span := object{
			"traceId": hex.EncodeToString(id[:16]), "spanId": hex.EncodeToString(id[16:24]), "name": s.Name, "kind": internal,
			"startTimeUnixNano": nano(s.Start), "endTimeUnixNano": nano(s.End), "status": object{"code": ok},
		}
		if s.Failed != "" {
			span["status"] = object{"code": failed, "message": s.Failed}
		}
		var attributes, events []object
		for _, a := range s.Attributes {
			attributes = append(attributes, attribute(a))
		}
		for _, v := range s.Events {
			events = append(events, object{"name": v.Name, "timeUnixNano": nano(v.At)})
		}
		if span["attributes"] = attributes; attributes == nil {
			delete(span, "attributes")
		}
		if span["events"] = events; events == nil {
			delete(span, "events")
		}
		spans = append(spans, span)
	}
	resource := object{"attributes": []object{attribute(Attribute{Key: "service.name", Text: "berth-scheduler"}), attribute(Attribute{Key: "service.version", Text: version})}}
	return json.Marshal(object{"resourceSpans": []object{{"resource": resource, "scopeSpans": []object{{"scope": object{"name": "github.com/berth-dev/berth/kube/scheduler"}, "spans": spans}}}}})
}

func nano(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
