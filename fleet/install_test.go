package fleet

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
)

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pools.berth.dev"

// installServer is an API server as far as Install and Apply look: it serves Pools some requests
// after it has their kind, stores them, and knows whether the fleet is installed.
type installServer struct {
	mu        sync.Mutex
	unserved  int // how often Pools are still unknown
	installed bool
	pools     map[string]v1alpha1.Pool
	requests  []string // "METHOD path", without the lists of Pools
}

func (s *installServer) start(t *testing.T) *rest.Config {
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func (s *installServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	name, isPool := strings.CutPrefix(r.URL.Path, "/apis/berth.dev/v1alpha1/pools")
	switch {
	case isPool && r.Method == http.MethodGet:
		s.list(w)
		return
	case isPool:
		s.changePool(r, strings.TrimPrefix(name, "/"))
	case r.URL.Path == crdPath && strings.HasPrefix(r.Header.Get("Content-Type"), "application/merge-patch"):
		s.installed = true
	}
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	if r.URL.Path == crdPath && s.installed {
		io.WriteString(w, `{"metadata":{"annotations":{"berth.dev/fleet-installed":"true"}}}`)
		return
	}
	io.WriteString(w, `{}`)
}

func (s *installServer) list(w http.ResponseWriter) {
	if s.unserved > 0 {
		s.unserved--
		code := []int{http.StatusNotFound, http.StatusTooManyRequests}[s.unserved%2]
		w.Header().Set("Retry-After", "60") // whoever waits for that fails the test by its time limit
		w.WriteHeader(code)
		return
	}
	list := v1alpha1.PoolList{}
	list.APIVersion, list.Kind = "berth.dev/v1alpha1", "PoolList"
	for _, p := range s.pools {
		list.Items = append(list.Items, p)
	}
	json.NewEncoder(w).Encode(list)
}

func (s *installServer) changePool(r *http.Request, name string) {
	if r.Method == http.MethodDelete {
		delete(s.pools, name)
		return
	}
	var pool v1alpha1.Pool
	json.NewDecoder(r.Body).Decode(&pool)
	s.pools[pool.Name] = pool
}

func (s *installServer) poolNodes() map[string]int32 {
	out := map[string]int32{}
	for name, p := range s.pools {
		out[name] = *p.Spec.Nodes
	}
	return out
}

func (s *installServer) count(method, under string) int {
	n := 0
	for _, r := range s.requests {
		if strings.HasPrefix(r, method+" "+under) {
			n++
		}
	}
	return n
}

func TestInstallOnce(t *testing.T) {
	s := &installServer{unserved: 3, pools: map[string]v1alpha1.Pool{}}
	cfg := s.start(t)
	pools := []v1alpha1.Pool{*plainPool("a", 1), *gpuPool("b", 2)}
	if err := Install(t.Context(), cfg, pools); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int32{"a": 1, "b": 2}, s.poolNodes()); diff != "" {
		t.Error(diff)
	}
	if n := s.count("PATCH", "/apis/apps/v1/namespaces/gpu-operator/daemonsets/"); n != 11 {
		t.Errorf("%d DaemonSets", n)
	}
	if n := s.count("PATCH", "/apis/resource.k8s.io/v1/deviceclasses/gpu.nvidia.com"); n != 1 {
		t.Errorf("%d device classes", n)
	}
	if n := s.count("PATCH", "/apis/rbac.authorization.k8s.io/v1/"); n != 3 {
		t.Errorf("%d objects of RBAC", n)
	}
	namespace, first := -1, len(s.requests)
	for i, r := range s.requests {
		if r == "PATCH /api/v1/namespaces/gpu-operator" {
			namespace = i
		} else if strings.Contains(r, "/namespaces/gpu-operator/") {
			first = min(first, i)
		}
	}
	if namespace < 0 || namespace > first {
		t.Error("something was put into the namespace before it was there")
	}
}

func TestRestartDoesNotUndoUsersEdits(t *testing.T) {
	s := &installServer{installed: true, pools: map[string]v1alpha1.Pool{}}
	if err := Install(t.Context(), s.start(t), []v1alpha1.Pool{*plainPool("a", 1)}); err != nil {
		t.Fatal(err)
	}
	if len(s.pools) > 0 {
		t.Error("a pool that a user removed is back")
	}
	if n := s.count("PATCH", "/api"); n != 6 {
		t.Errorf("want only the kinds and the rights to be written, got %v", s.requests)
	}
}

func TestAnInstallationThatBrokeOffIsFinished(t *testing.T) {
	s := &installServer{pools: map[string]v1alpha1.Pool{"mine": *plainPool("mine", 1)}}
	if err := Install(t.Context(), s.start(t), []v1alpha1.Pool{*plainPool("a", 1)}); err != nil {
		t.Fatal(err)
	}
	if !s.installed || s.count("PATCH", "/apis/apps/v1/") != 11 || len(s.pools) != 1 {
		t.Errorf("installed %t, pools %v, %v", s.installed, s.poolNodes(), s.requests)
	}
}

func TestApply(t *testing.T) {
	s := &installServer{pools: map[string]v1alpha1.Pool{"grown": *plainPool("grown", 1), "gone": *plainPool("gone", 1), "same": *plainPool("same", 1)}}
	cfg := s.start(t)
	target := []v1alpha1.Pool{*plainPool("same", 1), *plainPool("grown", 4), *plainPool("fresh", 2)}
	said := []string{"pool/fresh created", "pool/gone deleted", "pool/grown configured"}
	for _, dryRun := range []bool{true, false} {
		lines, err := Apply(t.Context(), cfg, target, dryRun)
		if diff := cmp.Diff(said, lines); diff != "" || err != nil {
			t.Errorf("dry run %t: %v %s", dryRun, err, diff)
		}
	}
	if diff := cmp.Diff(map[string]int32{"same": 1, "grown": 4, "fresh": 2}, s.poolNodes()); diff != "" {
		t.Error(diff)
	}
	if len(s.requests) != 3 {
		t.Errorf("requests %v", s.requests)
	}
	if lines, err := Apply(t.Context(), cfg, target, false); len(lines) > 0 || err != nil {
		t.Errorf("again: %v %v", lines, err)
	}
	pools, err := Pools(t.Context(), cfg)
	if err != nil || len(pools) != 3 || pools[0].Name != "fresh" {
		t.Errorf("pools %v, %v", pools, err)
	}
}
