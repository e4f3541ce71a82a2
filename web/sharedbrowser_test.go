package web

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/proxy"

	"github.com/berth-dev/berth/kube/answer"
)

// front is what an API server does with a request for an API that somebody else serves: it passes it on for the person that it found
// behind it (k8s.io/kube-aggregator v0.37.1, pkg/apiserver/handler_proxy.go).
func (h *house) front(person string) string {
	h.t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := &url.URL{Scheme: "https", Host: h.address, Path: r.URL.Path, RawQuery: r.URL.Query().Encode()}
		next := r.Clone(r.Context())
		next.URL = at
		proxy.NewUpgradeAwareHandler(at, known{transport, person}, true, false, failing{w}).ServeHTTP(w, next)
	}))
	h.t.Cleanup(func() { server.CloseClientConnections(); server.Close(); transport.CloseIdleConnections() })
	return server.URL
}

// known says who asks.
type known struct {
	next   http.RoundTripper
	person string
}

func (k known) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.person)
	return k.next.RoundTrip(r)
}

type failing struct{ w http.ResponseWriter }

func (f failing) Error(_ http.ResponseWriter, _ *http.Request, err error) {
	http.Error(f.w, err.Error(), http.StatusServiceUnavailable)
}

// TestSharedPageInTheBrowser is a tenant's page below a path of the API server.
func TestSharedPageInTheBrowser(t *testing.T) {
	a := newAPIServer(t)
	a.fill(16)
	q := research()
	q.why.(map[string]any)["unseen"] = []any{
		map[string]string{"resource": "nodes", "reason": "forbidden"}, map[string]string{"resource": "events", "reason": "forbidden"}, map[string]string{"resource": "pods", "except": "team-0", "reason": "forbidden"},
		map[string]string{"resource": "clusterqueues.kueue.x-k8s.io", "reason": "no answer in time"},
	}
	h := newHouse(t, a, q)
	h.admin()
	h.tenant()
	h.let("tenant", append(h.rights["tenant"], "list events team-0")...)
	for _, kind := range []string{"daemonsets", "pools"} {
		a.forbidden[kind] = true
	}
	b := browse(t, 1280, 800)
	b.Before(`window.violations = []; document.addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective + " " + e.blockedURI))`)
	base := h.front("tenant") + strings.TrimSuffix(answer.PagePath("team-0"), "/")
	b.Navigate(base) // as people write it, without the slash
	b.Until(`document.querySelector("#age")?.innerText === "live" && location.pathname.endsWith("/proxy/")`)
	b.Until(`document.querySelector("#cluster").innerText === "a cluster · namespace team-0"`)
	b.Until(`document.querySelector("#notes").innerText.includes("you may not read nodes") && document.querySelector("#notes").innerText.includes("pods in namespace team-0 alone")`)
	b.Until(`document.querySelector(".nothing").innerText.includes("The fleet has 16 nodes")`)
	b.goTo("queues")
	b.Until(`document.querySelector("table.line tbody").innerText.includes("job/llama")`)
	b.Do(`document.querySelector("table.line a").click()`)
	b.Until(`document.querySelector(".sentence")?.innerText.startsWith("4 pods need 8 GPUs")`)
	for _, want := range []string{ // the viewer's rights, and the scheduler's
		"Not seen, because you may not read them: nodes and pods outside namespace team-0.", "for the right to list nodes and to list pods in all namespaces.",
		"Not seen, because the scheduler, which makes this page, may not read them: events.", "Not seen: clusterqueues.kueue.x-k8s.io (no answer in time).",
	} {
		b.Until(fmt.Sprintf(`document.querySelector(".diagnosis").innerText.includes(%q)`, want))
	}
	for _, v := range viewNames {
		b.goTo(v)
		b.Until(`document.body.innerText.split("The scheduler makes this page, and has no right to list daemonsets and pools of the whole cluster").length === 2 && document.querySelector("#notes .command code").innerText === "kubectl create clusterrolebinding the-right"`)
		b.sound("tenant " + v)
		b.keep("shared-" + v)
	}
	if got := b.Text(`window.violations.join("; ")`); got != "" {
		t.Errorf("against the page's own policy: %s", got)
	}

	// An administrator's, where a pod arrives.
	b.Navigate(h.front("admin") + answer.PagePath(""))
	b.Until(`document.querySelector(".sum")?.innerText.startsWith("128 GPUs on 16 nodes")`)
	a.put("pods", gpuPod("team-0", "arrives", "gpu-0004", 8))
	b.Do(`const s = document.querySelector("input[type=search]"); s.value = "arrives"; s.dispatchEvent(new Event("input"))`)
	b.Until(`document.querySelector(".sum").innerText.startsWith("8 GPUs match on 1 node")`)
	if !testing.Short() { // for longer than the scheduler's server lets an answer take
		time.Sleep(35 * time.Second)
		a.put("pods", gpuPod("team-0", "arrives-late", "gpu-0009", 8))
		b.Until(`document.querySelector(".sum").innerText.startsWith("16 GPUs match on 2 nodes")`)
		if n := b.Number(`performance.getEntriesByType("resource").filter((e) => e.name.includes("api/stream")).length`); n > 1 {
			t.Errorf("the stream was begun %v times", n)
		}
	}

	// A page of another origin reads nothing of it.
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>other</title><body><script>
			window.read = []; const base = %q, ask = (how, p) => p.then((v) => { if (v) read.push(how + ": " + v) }, () => {}).finally(() => { window.asked = (window.asked || 0) + 1 });
			ask("fetch", fetch(base + "/api/table").then((r) => r.text()));
			ask("no-cors", fetch(base + "/api/table", { mode: "no-cors" }).then((r) => r.text()));
			ask("frame", new Promise((done) => { const f = document.createElement("iframe"); f.src = base + "/"; f.onload = () => { let t = ""; try { t = f.contentDocument?.title } catch {} done(t === "Berth" ? t : "") }; document.body.append(f) }));
			ask("events", new Promise((done) => { const e = new EventSource(base + "/api/stream"); e.onmessage = e.onopen = () => done("open"); e.onerror = () => done("") }));
			ask("script", new Promise((done) => { const s = document.createElement("script"); s.src = base + "/app.js"; s.onload = () => done("loaded"); s.onerror = () => done(""); document.body.append(s) }));
		</script>`, base)
	}))
	defer other.Close()
	b.Navigate(other.URL)
	b.Until(`window.asked === 5`)
	if got := b.Text(`window.read.join("; ")`); got != "" {
		t.Errorf("a page of another origin read %.400s", got)
	}
}
