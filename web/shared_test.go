package web

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/kube/answer"
)

// house is a shared page behind the scheduler's server. People are named by their tokens.
type house struct {
	t       testing.TB
	address string
	page    *Shared

	mu     sync.Mutex
	rights map[string][]string // "verb resource namespace" by person, namespace "*" for all
}

// line is a scheduler that knows what a test says.
type line struct{ *scripted }

func (l line) Workloads(context.Context, string) ([]answer.Workload, error) {
	return l.workloads.Items, nil
}
func (l line) Workload(context.Context, string, string) (answer.Workload, error) {
	return answer.Workload{}, answer.ErrNotFound
}
func (l line) Queues(context.Context) ([]answer.Queue, error) { return l.queues.Items, nil }
func (l line) Configuration() answer.Configuration            { return answer.Configuration{} }
func (l line) Ready() error                                   { return nil }

func newHouse(t testing.TB, a *apiServer, q *scripted) *house {
	t.Helper()
	h := &house{t: t, rights: make(map[string][]string)}
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		r.Status.Authenticated, r.Status.User.Username = true, r.Spec.Token
		return true, r, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		on := r.Spec.ResourceAttributes
		what := on.Verb + " " + on.Resource + " "
		h.mu.Lock()
		defer h.mu.Unlock()
		r.Status.Allowed = slices.Contains(h.rights[r.Spec.User], what+"*") || slices.Contains(h.rights[r.Spec.User], what+on.Namespace)
		return true, r, nil
	})
	server, err := answer.New(client, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	h.page, err = NewShared(SharedOptions{Config: a.config(), Cluster: "a cluster", Grant: "kubectl create clusterrolebinding the-right", Questions: func(*answer.Viewer, answer.Rights) Questions { return q }, idle: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	h.page.assets = os.DirFS("assets")
	server.PageWith(h.page)
	server.Lead(line{q})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	t.Cleanup(func() { h.page.Close(); cancel(); <-done })
	return h
}

func (h *house) let(who string, what ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rights[who] = what
}

func (h *house) admin() {
	h.let("admin", "get pages *", "list workloads *", "list queues *", "list nodes *", "list pods *")
}

func (h *house) tenant() {
	h.let("tenant", "get pages team-0", "list workloads team-0", "list queues team-0", "list pods team-0")
}

func (h *house) get(who, namespace, path string, change ...func(*http.Request)) *http.Response {
	h.t.Helper()
	r, _ := http.NewRequest("GET", "https://"+h.address+answer.PagePath(namespace)+path, nil)
	r.Header.Set("Authorization", "Bearer "+who)
	for _, c := range change {
		c(r)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { resp.Body.Close(); transport.CloseIdleConnections() })
	return resp
}

func (h *house) read(who, namespace, path string, change ...func(*http.Request)) (int, string) {
	h.t.Helper()
	r := h.get(who, namespace, path, change...)
	text, err := io.ReadAll(r.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// TestSharedPage shows each viewer what they may see, and that there is more.
func TestSharedPage(t *testing.T) {
	a := newAPIServer(t)
	a.fill(256) // teams 0 and 1
	a.mu.Lock()
	a.forbidden["daemonsets"] = true
	a.mu.Unlock()
	h := newHouse(t, a, research())
	h.admin()
	h.tenant()
	h.let("operator", "get pages team-0", "list workloads team-0", "list queues team-0", "list pods team-0", "list nodes *")

	admin := view(t, h.get("admin", "", "api/stream").Body)
	admin.until("everything", func() bool {
		return len(admin.values[kindNode]) == 256 && len(admin.values[kindWorkload]) == 17 && len(admin.values[kindQueue]) == 4
	})
	if !admin.has(kindNode, "gpu-0128", "team-1/train-8-0")() || !admin.has(kindSource, "daemonsets", `"ours":true`)() || admin.has(kindSource, podsKind, "forbidden")() {
		t.Errorf("the administrator is not shown all: %s %s", admin.values[kindNode]["gpu-0128"], admin.values[kindSource])
	}

	tenant := view(t, h.get("tenant", "team-0", "api/stream").Body)
	tenant.until("their own", func() bool { return len(tenant.values[kindWorkload]) > 0 && len(tenant.values[kindTotal]) > 0 })
	for name := range tenant.values[kindWorkload] {
		if !strings.HasPrefix(name, "team-0/") {
			t.Errorf("a tenant is shown %s", name)
		}
	}
	if len(tenant.values[kindNode]) != 0 || !tenant.has(kindSource, nodesKind, `"forbidden":true`)() || !tenant.has(kindSource, podsKind, `"only":"team-0"`)() || !tenant.has(kindTotal, "fleet", `"nodes":256`)() {
		t.Errorf("a tenant: %d nodes, %s %s", len(tenant.values[kindNode]), tenant.values[kindSource], tenant.values[kindTotal])
	}

	operator := view(t, h.get("operator", "team-0", "api/stream").Body)
	operator.until("nodes", func() bool { return len(operator.values[kindNode]) == 256 })
	if !operator.has(kindNode, "gpu-0001", "team-0/train-0-1")() || operator.has(kindNode, "gpu-0128", "team-1")() || operator.has(kindNode, "gpu-0128", "train-8")() || !operator.has(kindNode, "gpu-0128", `"hidden":1`)() {
		t.Errorf("an operator of a team: %s %s", operator.values[kindNode]["gpu-0001"], operator.values[kindNode]["gpu-0128"])
	}
	for name, n := range operator.values[kindNode] {
		if strings.Contains(string(n), "team-1") {
			t.Fatalf("%s tells of another team: %s", name, n)
		}
	}

	// A change reaches each of them as far as they may see it.
	a.put("pods", gpuPod("team-1", "arrives", "gpu-0024", 4))
	admin.until("the pod", admin.has(kindNode, "gpu-0024", "team-1/arrives"))
	operator.until("that somebody has it", operator.has(kindNode, "gpu-0024", `"allocated"`))
	if operator.has(kindNode, "gpu-0024", "arrives")() {
		t.Error("another team's pod is named")
	}

	// The whole at once, and questions.
	if code, text := h.read("tenant", "team-0", "api/table"); code != 200 || !strings.Contains(text, `"whole":true`) || strings.Contains(text, "team-1") || strings.Contains(text, "gpu-0") {
		t.Errorf("table: %d %.300s", code, text)
	}
	if code, text := h.read("tenant", "team-0", "api/about"); code != 200 || !strings.Contains(text, `"namespace":"team-0"`) || !strings.Contains(text, `"shared":true`) {
		t.Errorf("about: %d %s", code, text)
	}
	if code, text := h.read("tenant", "team-0", "api/history"); code != 200 || strings.Contains(text, "team-1") {
		t.Errorf("history: %d %s", code, text)
	}
	if code, text := h.read("tenant", "team-0", "api/fit?pods=0"); code != 400 || !strings.Contains(text, "from 1 to") {
		t.Errorf("a bad question: %d %s", code, text)
	}
}

// TestSharedPageStrangers are all who must see nothing.
func TestSharedPageStrangers(t *testing.T) {
	h := newHouse(t, newAPIServer(t), research())
	h.admin()
	index := h.get("admin", "", "")
	text, _ := io.ReadAll(index.Body)
	policy := index.Header.Get("Content-Security-Policy")
	_, nonce, _ := strings.Cut(policy, "'nonce-")
	nonce, _, _ = strings.Cut(nonce, "'")
	if len(nonce) < 32 || strings.Count(string(text), `nonce="`+nonce+`"`) != strings.Count(string(text), "<script ")+strings.Count(string(text), "modulepreload") || strings.Contains(policy, "script-src 'self'") {
		t.Errorf("scripts: %s\n%s", policy, text)
	}
	if again := h.get("admin", "", "").Header.Get("Content-Security-Policy"); again == policy {
		t.Error("the number is the same again")
	}
	for name, c := range map[string]struct {
		path   string
		change func(*http.Request)
		want   int
	}{
		"the page": {"", func(*http.Request) {}, 200},
		"a script": {"app.js", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, 200},
		"a module of the page's": {"app.js", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			r.Header.Set("Origin", "https://where.ever")
		}, 200},
		"another origin":           {"api/about", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		"an opaque origin":         {"api/stream", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		"a script of another site": {"api/table", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"a neighbour":              {"app.js", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		"a frame": {"", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Dest", "iframe")
		}, 403},
		"a link elsewhere": {"", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Dest", "document")
		}, 200},
		"nobody":      {"", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"no such":     {"../../secrets", func(*http.Request) {}, 404},
		"no such api": {"api/none", func(*http.Request) {}, 404},
	} {
		r := h.get("admin", "", c.path, c.change)
		if r.StatusCode != c.want {
			t.Errorf("%s: %d", name, r.StatusCode)
		}
		if r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: another site may read it", name)
		}
		if c.want == 200 && (r.Header.Get("X-Frame-Options") != "DENY" || r.Header.Get("Cross-Origin-Resource-Policy") != "same-origin") {
			t.Errorf("%s: %v", name, r.Header)
		}
	}
	if code, _ := h.read("stranger", "", ""); code != 403 {
		t.Errorf("a stranger: %d", code)
	}
}

// TestSharedStuckViewer reads nothing of a stream that the API server passes on, as one of many on a connection.
func TestSharedStuckViewer(t *testing.T) {
	a := newAPIServer(t)
	a.fill(16)
	h := newHouse(t, a, research())
	h.page.o.stuck = time.Second // less than a beat: the deadline ends a stream of HTTP/2 also while nothing is written
	h.admin()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	r, _ := http.NewRequest("GET", "https://"+h.address+answer.PagePath("")+"api/stream", nil)
	r.Header.Set("Authorization", "Bearer admin")
	resp, err := transport.RoundTrip(r)
	if err != nil || resp.ProtoMajor != 2 {
		t.Fatalf("%v %v", resp, err)
	}
	defer resp.Body.Close()
	h.page.mu.Lock()
	live := h.page.live
	h.page.mu.Unlock()
	for i, end := 0, time.Now().Add(40*time.Second); live.viewers.Load() > 0; i++ {
		if time.Now().After(end) {
			t.Fatal("who reads nothing is not dropped")
		}
		live.mu.Lock()
		for _, c := range live.scopes.held {
			c.table.put(map[string]map[string]json.RawMessage{"x": {"y": encode(strings.Repeat(string(rune('a'+i%26)), 1<<20))}})
		}
		live.mu.Unlock()
		time.Sleep(50 * time.Millisecond)
	}
}

// TestSharedPageRests reads nothing while nobody looks.
func TestSharedPageRests(t *testing.T) {
	a := newAPIServer(t)
	a.fill(8)
	h := newHouse(t, a, research())
	h.admin()
	time.Sleep(100 * time.Millisecond)
	if n := a.asked.Load(); n != 0 {
		t.Errorf("%d requests before anybody looked", n)
	}
	r := h.get("admin", "", "api/stream")
	v := view(t, r.Body)
	v.until("the fleet", func() bool { return len(v.values[kindNode]) == 8 })
	r.Body.Close()
	for range 200 {
		h.page.mu.Lock()
		rests := h.page.live == nil
		h.page.mu.Unlock()
		if rests {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the cluster is still followed")
}
