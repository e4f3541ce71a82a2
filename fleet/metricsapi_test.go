package fleet

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// The API server is told where metrics.k8s.io is served, unless nobody wants it or a metrics-server is there.
func TestAnnounceMetrics(t *testing.T) {
	_, bundle, err := newMetricsCertificate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		have    string // "": there is none
		written bool
	}{
		"ours":             {`{"spec":{"service":{"name":"berth-fleet-metrics","namespace":"kube-system"}}}`, true},
		"a metrics-server": {`{"spec":{"service":{"name":"metrics-server","namespace":"kube-system"}}}`, false},
		"local":            {`{"spec":{}}`, false},
		"removed":          {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			var wrote []byte
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case r.URL.Path != metricsPath || tc.have == "":
					w.WriteHeader(http.StatusNotFound)
				case r.Method == http.MethodPatch:
					wrote, _ = io.ReadAll(r.Body)
					io.WriteString(w, "{}")
				case r.Header.Get("Accept") != "application/json": // as the API server does for who prefers protobuf
					io.WriteString(w, "k8s\x00")
				default:
					io.WriteString(w, tc.have)
				}
			}))
			defer server.Close()
			client, err := newClient(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			m := &metricsAPI{client: client.CoreV1().RESTClient(), log: slog.New(slog.DiscardHandler), bundle: bundle}
			m.announce(t.Context(), 4711)
			if (wrote != nil) != tc.written {
				t.Fatalf("it wrote %s", wrote)
			}
			if !tc.written {
				return
			}
			var got struct {
				Spec struct {
					CABundle []byte
					Service  struct{ Port int }
				}
			}
			if err := json.Unmarshal(wrote, &got); err != nil || got.Spec.Service.Port != 4711 || !bytes.Equal(got.Spec.CABundle, bundle) {
				t.Errorf("%s, %v", wrote, err)
			}
		})
	}
}
