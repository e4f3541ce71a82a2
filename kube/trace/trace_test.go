package trace

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func at(s int64) time.Time { return time.Unix(s, 5) }

func TestSpansAreWhatACollectorReads(t *testing.T) {
	var body, kind, path string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		body, kind, path = string(text), r.Header.Get("Content-Type"), r.URL.Path
	}))
	defer server.Close()
	u, err := ParseEndpoint(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	e := New(u, "v1", slog.New(slog.DiscardHandler))
	e.Send(Span{
		Seed: "team/gang/a", Name: "workload", Start: at(1), End: at(3), Events: []Event{{"decided", at(2)}},
		Attributes: []Attribute{{Key: "berth.workload", Text: "team/gang/a"}, {Key: "berth.pods", Number: 4}}, Failed: "gone",
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e.Run(ctx) // sends what is left
	const want = `{"resourceSpans":[{"resource":{"attributes":[
		{"key":"service.name","value":{"stringValue":"berth-scheduler"}},{"key":"service.version","value":{"stringValue":"v1"}}]},
		"scopeSpans":[{"scope":{"name":"github.com/berth-dev/berth/kube/scheduler"},"spans":[{
			"attributes":[{"key":"berth.workload","value":{"stringValue":"team/gang/a"}},{"key":"berth.pods","value":{"intValue":"4"}}],
			"endTimeUnixNano":"3000000005","events":[{"name":"decided","timeUnixNano":"2000000005"}],"kind":1,"name":"workload",
			"spanId":"SPAN","startTimeUnixNano":"1000000005","status":{"code":2,"message":"gone"},"traceId":"TRACE"}]}]}]}`
	var got, expected any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	span := got.(map[string]any)["resourceSpans"].([]any)[0].(map[string]any)["scopeSpans"].([]any)[0].(map[string]any)["spans"].([]any)[0].(map[string]any)
	if len(span["traceId"].(string)) != 32 || len(span["spanId"].(string)) != 16 {
		t.Errorf("identities %v %v", span["traceId"], span["spanId"])
	}
	span["traceId"], span["spanId"] = "TRACE", "SPAN"
	if err := json.Unmarshal([]byte(want), &expected); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Error(diff)
	}
	if kind != "application/json" || path != "/v1/traces" {
		t.Errorf("%s to %s", kind, path)
	}
}

// A collector that is down, or says no, or is slow costs spans and nothing else.
func TestNothingWaitsForACollector(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "full", http.StatusServiceUnavailable) }))
	defer server.Close()
	u, err := ParseEndpoint(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	e := New(u, "v1", slog.New(slog.NewTextHandler(&said, nil)))
	for range kept + 10 {
		e.Send(Span{Seed: "a"})
	}
	if got := e.dropped.Load(); got != 10 {
		t.Errorf("%d dropped, want 10", got)
	}
	e.flush(context.Background())
	if !strings.Contains(said.String(), "503") || e.dropped.Load() != 10+batch {
		t.Errorf("%d dropped, said %s", e.dropped.Load(), said.String())
	}
	var none *Exporter
	none.Send(Span{})
}

// Spans name workloads: who answers for the collector cannot have them sent elsewhere.
func TestSpansStayWithTheirCollector(t *testing.T) {
	asked := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	u, err := ParseEndpoint(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	e := New(u, "v1", slog.New(slog.DiscardHandler))
	e.Send(Span{Seed: "a"})
	e.flush(context.Background())
	if asked || e.dropped.Load() != 1 {
		t.Errorf("asked %v, dropped %d", asked, e.dropped.Load())
	}
}

func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"http://c:4318": "http://c:4318/v1/traces", "https://c/otlp/": "https://c/otlp/v1/traces", "http://c/v1/traces": "http://c/v1/traces",
		"c:4318": "", "": "", "ftp://c": "", "http://u:p@c": "", "http://c?x=1": "", "http://": "",
	} {
		u, err := ParseEndpoint(text)
		if want == "" {
			if err == nil {
				t.Errorf("%q is taken as %s", text, u)
			}
			continue
		}
		if err != nil || u.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, u, err, want)
		}
	}
}

func FuzzParseEndpoint(f *testing.F) {
	f.Add("http://collector:4318")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseEndpoint(text)
		if err == nil && (u.Host == "" || !strings.HasSuffix(u.Path, "/v1/traces")) {
			t.Errorf("%q: %v", text, u)
		}
	})
}
