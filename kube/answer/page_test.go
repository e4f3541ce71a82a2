package answer

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

// shown is a page that says what it was asked, and by whom.
type shown struct{ last *Viewer }

func (s *shown) ServeViewer(w http.ResponseWriter, r *http.Request, v *Viewer) {
	s.last = v
	rights, err := v.Rights(r.Context())
	fmt.Fprintf(w, "%s %+v %v", r.URL, rights, err)
}

const pageOfA = "/apis/" + GroupVersion + "/namespaces/a/pages/berth/proxy/"

// TestPage is shown to who may have it, with the rights that they have.
func TestPage(t *testing.T) {
	c := newCourt(t, &known{workloads: []Workload{waiting()}})
	if code, body := c.ask(tenant(c), pageOfA); code != 404 {
		t.Errorf("a server without a page: %d %s", code, body)
	}
	c.server.PageWith(&shown{})
	if code, body := c.ask(tenant(c), pageOfA); code != 403 || !strings.Contains(body, "no right to get pages/proxy") {
		t.Errorf("without the right: %d %s", code, body)
	}
	who := tenant(c)
	c.rights["tenant"] = append(c.rights["tenant"], "get pages/proxy a")
	c.server.reviews.rights.kept = nil
	c.tokens["secret"] = "tenant"
	for path, want := range map[string]string{
		pageOfA:                   `/ {Namespace:a Workloads:true Queues:true Nodes:false Pods:false PodsHere:true} <nil>`,
		pageOfA + "api/why?x=%2F": `/api/why?x=%2F {Namespace:a Workloads:true Queues:true Nodes:false Pods:false PodsHere:true} <nil>`,
	} {
		for _, who := range []caller{who, {token: "secret"}} { // through the API server, and through an ingress that passes tokens on
			if code, body := c.ask(who, path); code != 200 || body != want {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
	}
	if code, body := c.ask(who, strings.TrimSuffix(pageOfA, "/")); code != 200 || !strings.Contains(body, "url=proxy/") {
		t.Errorf("without the slash: %d %s", code, body)
	}
	for name, ask := range map[string]func() (int, string){
		"401 nobody":        func() (int, string) { return c.ask(caller{}, pageOfA) },
		"401 a wrong token": func() (int, string) { return c.ask(caller{token: "other"}, pageOfA) },
		"403 another's":     func() (int, string) { return c.ask(who, strings.Replace(pageOfA, "/a/", "/b/", 1)) },
		"403 of all":        func() (int, string) { return c.ask(who, PagePath("")) },
		"404 another name":  func() (int, string) { return c.ask(who, strings.Replace(pageOfA, "/berth/", "/other/", 1)) },
		"405 a write":       func() (int, string) { w := who; w.method = "POST"; return c.ask(w, pageOfA) },
	} {
		if code, body := ask(); !strings.HasPrefix(name, fmt.Sprint(code)) {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	c.server.Lead(nil)
	if code, body := c.ask(who, pageOfA); code != 503 {
		t.Errorf("it stands by: %d %s", code, body)
	}
}

// TestEverythingFor is what the lists of the same names say.
func TestEverythingFor(t *testing.T) {
	other := waiting()
	other.Namespace, other.Name = "b", "gang.theirs"
	c := newCourt(t, &known{workloads: []Workload{waiting(), other}, queues: []Queue{{Namespaces: []string{"b"}}, {}}})
	v := &Viewer{Namespace: "a", s: c.server}
	all, err := v.Everything(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	queues, workloads := all.For(Rights{Namespace: "a", Workloads: true, Queues: true, PodsHere: true})
	if diff := cmp.Diff(want[WorkloadList](c, tenant(c), listOfA), workloads); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[QueueList](c, tenant(c), "/apis/"+GroupVersion+"/namespaces/a/queues"), queues); diff != "" {
		t.Error(diff)
	}
	if queues, workloads = all.For(Rights{Pods: true, Nodes: true}); len(queues.Items)+len(workloads.Items) != 0 {
		t.Errorf("told to who may list neither: %v %v", queues, workloads)
	}
}

// TestLimit reads what both may read, and asks the API server first.
func TestLimit(t *testing.T) {
	c := newCourt(t, &known{workloads: []Workload{waiting()}})
	tenant(c)
	c.rights["tenant"] = append(c.rights["tenant"], "get /version", "get pods/log a")
	reached := atomic.Int64{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		if r.Header.Get("Impersonate-User") != "" {
			t.Error("it impersonates")
		}
		fmt.Fprint(w, "read ", r.URL.Path)
	}))
	defer api.Close()
	v := &Viewer{Namespace: "a", s: c.server}
	v.user.Username = "tenant"
	client, err := rest.HTTPClientFor(v.Limit(&rest.Config{Host: api.URL}))
	if err != nil {
		t.Fatal(err)
	}
	get := func(method, path string) (int, string) {
		r := &http.Request{Method: method, URL: &url.URL{Scheme: "http", Host: strings.TrimPrefix(api.URL, "http://")}, Header: http.Header{}}
		r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	for _, path := range []string{"/api/v1/namespaces/a/pods", "/version", "/api/v1/namespaces/a/pods/x/log"} {
		if code, body := get("GET", path); code != 200 || body != "read "+path {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	before := reached.Load()
	for want, asks := range map[int][][2]string{
		403: {{"GET", "/api/v1/pods"}, {"GET", "/api/v1/nodes"}, {"GET", "/api/v1/namespaces/b/pods"}, {"GET", "/api/v1/namespaces/a/secrets"}, {"GET", "/api/v1/namespaces/a/pods?watch=true"}, {"GET", "/api/v1/namespaces/a/pods/x"}, {"GET", "/apis/apps/v1/deployments"}, {"GET", "/metrics"}, {"GET", "/api/v1/namespaces/a/pods/x/exec"}},
		405: {{"POST", "/api/v1/namespaces/a/pods"}, {"DELETE", "/api/v1/namespaces/a/pods"}},
		400: {{"GET", "/api/v1/namespaces/a/pods/../../b/pods"}, {"GET", "/api/v1//pods"}, {"GET", "/version/../api/v1/pods"}},
	} {
		for _, a := range asks {
			if code, body := get(a[0], a[1]); code != want {
				t.Errorf("%s: %d %s", a, code, body)
			}
		}
	}
	// Questions to the scheduler are answered here, as the viewer's own.
	if code, body := get("GET", listOfA); code != 200 || !strings.Contains(body, "gang.mine") || strings.Contains(body, "theirs") {
		t.Errorf("workloads of a: %d %s", code, body)
	}
	if code, _ := get("GET", "/apis/"+GroupVersion+"/queues"); code != 403 {
		t.Errorf("queues of all: %d", code)
	}
	if n := reached.Load() - before; n != 0 {
		t.Errorf("%d requests reached the API server that the viewer may not make", n)
	}
	c.broken = fmt.Errorf("no reviews")
	c.server.reviews.rights.kept = nil
	if _, err := client.Get(api.URL + "/api/v1/namespaces/a/pods"); err == nil {
		t.Error("read without a review")
	}
	if slices.Contains(c.rights["tenant"], "list pods *") {
		t.Error("the test tests nothing")
	}
}
