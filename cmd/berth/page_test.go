package main

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/chromium"
)

var updatePage = flag.Bool("update-page", false, "write the screenshot of README.md")

// linkIn finds the link to the page in what `berth up` prints.
var linkIn = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=[0-9a-f]+`)

// TestPageShowsAGangStart is the first ten minutes of a new user: the link that `berth up` prints is opened, a gang is submitted with the
// command of README.md, and the page shows it start and says why the other waits.
func TestPageShowsAGangStart(t *testing.T) {
	b := chromium.Open(t, 1280, 860) // before a cluster is started: it may be that there is none
	c := startClusterOf(t, "lab")
	w := &whyWorld{whyCluster: c, story: &whyStory{}}
	b.Navigate(c.link)
	b.Until(`document.querySelector("#age")?.innerText === "live"`)
	b.Until(`document.querySelector(".sum")?.innerText.startsWith("32 GPUs on 5 nodes · 0 % held")`)
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w.must(t, "berth kubectl apply -f "+filepath.Join(examples, "gang.yaml"))
	b.Until(`document.querySelector(".sum").innerText.startsWith("32 GPUs on 5 nodes · 25 % held")`)
	t.Logf("shown %.1f s after kubectl apply began", time.Since(began).Seconds())
	b.Do(`location.hash = "#fleet?colour=job&sel=kwok-gpu-h100-0"`)
	const one = `/job\/(first|second)/.exec(document.querySelector(".legend")?.innerText)?.[0]` // whichever the scheduler was told of first
	b.Until(`document.querySelector(".detail").innerText.includes(` + one + ` || "neither")`)
	started := b.Text(one)
	waits := map[string]string{"job/first": "job/second", "job/second": "job/first"}[started]
	if *updatePage {
		b.Shoot(filepath.Join("..", "..", "docs", "page", "start.png"))
	}

	// Where would a shape fit? The picture frames the nodes that `berth check` names, and says what it says.
	for _, shape := range [][2]int{{2, 4}, {9, 8}} {
		w := items(field((&page{run: c.run}).fit(shape[0], shape[1], "", "", "").command(), "workloads"))
		if len(w) != 1 {
			t.Fatalf("berth check of %v says %v", shape, w)
		}
		var nodes []string
		for _, n := range items(w[0]["nodes"]) {
			nodes = append(nodes, fmt.Sprintf("%v %v", n["node"], n["pods"]))
		}
		want := strings.Join([]string{fmt.Sprint(w[0]["verdict"]), fmt.Sprint(w[0]["summary"]), strings.Join(nodes, ",")}, " | ")
		b.Do(fmt.Sprintf(`const f = document.querySelector(".fitform"); f.querySelector("[aria-label=Pods]").value = "%d"; f.querySelector("[aria-label='GPUs of each pod']").value = "%d"; f.requestSubmit()`, shape[0], shape[1]))
		b.Until(fmt.Sprintf(`document.querySelector(".fit h2")?.innerText === "%d × %d GPUs"`, shape[0], shape[1]))
		got := b.Text(`[document.querySelector(".verdict").innerText, document.querySelector(".verdict + p").innerText, [...document.querySelectorAll(".fit .works li")].map((li) => li.querySelector("a").innerText + " " + parseInt(li.querySelector(".num").innerText)).join(",")].join(" | ")`)
		if times.ReplaceAllString(got, "T") != times.ReplaceAllString(want, "T") {
			t.Errorf("where would %v fit? The page says %q, and berth check %q", shape, got, want)
		}
	}
	b.Do(`location.hash = "#queues"`)
	b.Until(fmt.Sprintf(`document.querySelector("table.line tbody").innerText.includes(%q)`, waits))
	b.Do(`document.querySelector("table.line a").click()`)
	b.Until(`document.querySelector(".sentence") && document.querySelectorAll(".fix").length > 0`)
	if out := b.Text(`performance.getEntriesByType("resource").filter((e) => !e.name.startsWith(location.origin + "/")).map((e) => e.name).join(" ")`); out != "" {
		t.Errorf("requests left the origin: %s", out)
	}
	// The link works once.
	if r, err := http.Get(c.link); err != nil || r.StatusCode != http.StatusForbidden {
		t.Errorf("the link a second time: %v %v", r, err)
	}
}

// TestPageInTheCluster is a tenant's page: behind the API server, through kubectl proxy, with the rights of the role view in one
// namespace.
func TestPageInTheCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("played by make stories")
	}
	b := chromium.Open(t, 1280, 860)
	c := startClusterOf(t, "lab")
	w := &whyWorld{whyCluster: c, story: &whyStory{}}
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	w.must(t, "kubectl create namespace team-a; kubectl create serviceaccount alice -n team-a; kubectl create rolebinding alice -n team-a --clusterrole=view --serviceaccount=team-a:alice")
	w.must(t, "kubectl apply -n team-a -f "+filepath.Join(examples, "gang.yaml"))
	token, err := w.sh("kubectl create token alice -n team-a")
	if err != nil {
		t.Fatal(err)
	}
	proxy := exec.Command("berth", "kubectl", "proxy", "--port=0", "--token="+strings.TrimSpace(token))
	proxy.Env = c.env
	out, err := proxy.StdoutPipe()
	if err == nil {
		err = proxy.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Process.Kill(); _ = proxy.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if err != nil || address == "" {
		t.Fatalf("kubectl proxy says %q: %v", line, err)
	}
	base := "http://" + address + "/apis/answers.berth.dev/v1alpha1/namespaces/team-a/pages/berth/proxy"
	b.Navigate(base) // without the slash, as people write it
	b.Until(`document.querySelector("#age")?.innerText === "live"`)
	b.Until(`document.querySelector("#notes").innerText.includes("you may not read nodes") && document.querySelector("#notes").innerText.includes("pods in namespace team-a alone")`)
	b.Do(`location.hash = "#queues"`)
	b.Until(`document.querySelectorAll("table.line tbody a").length === 1`)
	waits := b.Text(`document.querySelector("table.line a").innerText`)
	b.Do(`document.querySelector("table.line a").click()`)
	b.Until(`document.querySelector(".sentence")?.innerText.length > 20 && document.querySelector(".diagnosis").innerText.includes("Not seen")`)
	if *updatePage {
		b.Shoot(filepath.Join("..", "..", "docs", "page", "tenant.png"))
	}
	if out := b.Text(`performance.getEntriesByType("resource").filter((e) => !e.name.startsWith(location.origin + "/")).map((e) => e.name).join(" ")`); out != "" {
		t.Errorf("requests left the origin: %s", out)
	}

	// What changes in the cluster comes through both proxies.
	b.Do(`location.hash = "#queues"`)
	b.Until(`document.querySelectorAll("table.line tbody a").length === 1`)
	began := time.Now()
	w.must(t, "kubectl delete job -n team-a --wait=false "+map[string]string{"job/first": "second", "job/second": "first"}[waits])
	b.Until(`document.querySelector("table.line tbody").innerText.includes("Nothing waits.")`)
	t.Logf("shown %.1f s after kubectl delete began", time.Since(began).Seconds())

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
