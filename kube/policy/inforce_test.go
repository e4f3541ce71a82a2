package policy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// slowServer is an API server that takes policies into use late: it stamps users from the third Job on, and guards namespaces
// from the second patch on.
type slowServer struct {
	jobs, patches, stored int
	applied               []string
}

func (s *slowServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answer := func(code int, v any) { w.WriteHeader(code); json.NewEncoder(w).Encode(v) }
	if strings.Contains(r.URL.Path, "admissionregistration") {
		s.applied = append(s.applied, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
		answer(200, map[string]any{})
		return
	}
	if r.URL.Query().Get("dryRun") != "All" {
		s.stored++
	}
	body, _ := io.ReadAll(r.Body)
	meta := map[string]any{"name": "x"}
	switch {
	case strings.HasSuffix(r.URL.Path, "/jobs"):
		if s.jobs++; s.jobs > 2 {
			meta["annotations"] = map[string]string{"berth.dev/user": "admin"}
		}
		answer(201, map[string]any{"kind": "Job", "apiVersion": "batch/v1", "metadata": meta})
	case strings.Contains(string(body), "berth.dev/queues"):
		if s.patches++; s.patches > 1 {
			answer(403, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403})
			return
		}
		answer(200, map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": meta})
	default:
		answer(404, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404})
	}
}

func TestInForceWaits(t *testing.T) {
	s := &slowServer{}
	server := httptest.NewServer(s)
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	api := client.Discovery().RESTClient()
	if err := Install(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	for i, name := range s.applied { // what is asked about comes last
		if late := name == probedMutating || name == probedValidating; late != (i >= len(s.applied)-4) {
			t.Errorf("%s is applied as number %d of %d", name, i+1, len(s.applied))
		}
	}
	if err := InForce(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	if s.jobs != 4 || s.patches != 2 || s.stored != 0 {
		t.Errorf("asked %d and %d times, and stored %d", s.jobs, s.patches, s.stored)
	}
	late := &slowServer{jobs: -1 << 30}
	server.Config.Handler = late
	ctx, cancel := context.WithTimeout(t.Context(), 3*probeEvery)
	defer cancel()
	if err := InForce(ctx, api); err == nil || !strings.Contains(err.Error(), "not in force") || late.jobs > -1<<30+10 {
		t.Errorf("of a server that never enforces them: %v", err)
	}
}
