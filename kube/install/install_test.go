package install

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func objects(t *testing.T) []Object {
	t.Helper()
	list, err := Objects(Defaults(released))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What others failed with is not among the objects: a webhook that is down, a Job that must end first, a chart's hook.
func TestNothingCanHoldUpACluster(t *testing.T) {
	for _, o := range objects(t) {
		if strings.Contains(o.Kind, "Webhook") || o.Kind == "Job" || strings.Contains(string(o.Text), "helm.sh/hook") {
			t.Errorf("%s", o)
		}
		if o.Namespace != "" && o.Namespace != "kube-system" {
			t.Errorf("%s is in another namespace than the policies say", o)
		}
		if !strings.Contains(string(o.Text), "app.kubernetes.io/managed-by: berth") && o.Kind != "CustomResourceDefinition" {
			t.Errorf("%s does not say whose it is", o)
		}
	}
}

// server is an API server that keeps what is applied and says no where it is told to.
type server struct {
	mu      sync.Mutex
	kept    map[string]bool
	writes  []string
	refuse  string // a part of a path that is forbidden
	unknown string // a part of a path that is not served
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	no := func(code int, reason string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason + " " + r.URL.Path})
	}
	dry := r.URL.Query().Get("dryRun") == "All"
	switch {
	case s.unknown != "" && strings.Contains(r.URL.Path, s.unknown):
		no(404, "NotFound")
	case r.Method == http.MethodGet && !s.kept[r.URL.Path] && !strings.HasPrefix(r.URL.Path, "/apis/berth.dev/"):
		no(404, "NotFound")
	case r.Method != http.MethodGet && s.refuse != "" && strings.Contains(r.URL.Path, s.refuse):
		no(403, "Forbidden")
	case r.Method == http.MethodDelete && !s.kept[r.URL.Path]:
		no(404, "NotFound")
	default:
		if r.Method != http.MethodGet && !dry {
			s.writes = append(s.writes, r.Method+" "+r.URL.Path)
			s.kept[r.URL.Path] = r.Method == http.MethodPatch
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}})
	}
}

func start(t *testing.T, s *server) rest.Interface {
	t.Helper()
	s.kept = map[string]bool{}
	at := httptest.NewServer(s)
	t.Cleanup(at.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: at.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return client.Discovery().RESTClient()
}

func counted(results []Result) map[string]int {
	out := map[string]int{}
	for _, r := range results {
		out[r.Did]++
	}
	return out
}

func TestApplyThenRemove(t *testing.T) {
	ctx, s, list := context.Background(), &server{}, objects(t)
	client := start(t, s)
	var results []Result
	tell := func(r Result) { results = append(results, r) }
	if err := Apply(ctx, client, list, true, tell); err != nil || len(s.writes) > 0 {
		t.Fatalf("dry: %v, wrote %v", err, s.writes)
	}
	for _, want := range []map[string]int{{"applied": len(list)}, {"unchanged": len(list) - 1, "kept": 1}} {
		results = nil
		if err := Apply(ctx, client, list, false, tell); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, counted(results)); diff != "" {
			t.Error(diff)
		}
	}
	if first, last := list[0].Kind, list[len(list)-1].Kind; first != "CustomResourceDefinition" || last != "APIService" {
		t.Errorf("%s is first and %s last", first, last)
	}
	stay := 0
	for _, o := range list {
		if o.Lasting != "" {
			stay++
		}
	}
	if stay != 3 {
		t.Errorf("%d objects stay, want two kinds and the secret", stay)
	}
	for _, step := range []struct {
		purge, dry bool
		want       map[string]int
	}{
		{false, true, map[string]int{"removed": len(list) - stay, "kept": stay}},
		{false, false, map[string]int{"removed": len(list) - stay, "kept": stay}},
		{false, false, map[string]int{"absent": len(list) - stay, "kept": stay}},
		{true, false, map[string]int{"absent": len(list) - stay, "removed": stay}},
	} {
		results = nil
		if err := Remove(ctx, client, list, step.purge, step.dry, tell); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, counted(results)); diff != "" {
			t.Errorf("%+v: %s", step, diff)
		}
	}
}

func TestApplyStopsWhereItIsRefused(t *testing.T) {
	s := &server{refuse: "/clusterroles/"}
	err := Apply(context.Background(), start(t, s), objects(t), false, func(Result) {})
	if err == nil || !strings.HasPrefix(err.Error(), "apply ClusterRole berth-scheduler: ") {
		t.Errorf("%v", err)
	}
	for _, w := range s.writes {
		if strings.Contains(w, "deployments") {
			t.Errorf("a scheduler without its role: %s", w)
		}
	}
}

// A cluster before 1.36 has no mutating policies and is installed without; nothing else may be missing.
func TestKindsThatAClusterLacks(t *testing.T) {
	var results []Result
	err := Apply(context.Background(), start(t, &server{unknown: "mutatingadmission"}), objects(t), false, func(r Result) { results = append(results, r) })
	if n := counted(results); err != nil || n["skipped"] == 0 || n["skipped"]%2 != 0 {
		t.Errorf("%v, %v", err, n)
	}
	if err := Apply(context.Background(), start(t, &server{unknown: "validatingadmission"}), objects(t), false, func(Result) {}); err == nil {
		t.Error("a cluster without validating policies was installed")
	}
}

func TestRightsAreAllSaidAtOnce(t *testing.T) {
	s := &server{refuse: "/kube-system/"}
	found, err := checkRights(context.Background(), start(t, s), objects(t))
	if err != nil || len(found) < 5 || len(s.writes) > 0 {
		t.Fatalf("%v, %d findings, wrote %v", err, len(found), s.writes)
	}
	for _, f := range found {
		if f.Level != Fail || f.What != "rights" || !strings.Contains(f.Text, "Forbidden /") {
			t.Errorf("%+v", f)
		}
	}
}
