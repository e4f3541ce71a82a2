package web

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
)

// situation is a state that a cluster, its server and its viewer can be in.
type situation struct {
	name   string
	world  func(*apiServer) *scripted
	before string                                   // a script that runs before those of the page
	then   func(s *Server, stop func(), b *browser) // what happens while the page is open
	// reads is what each view has to say, in its own part of the page.
	reads map[string]string
}

const forbiddenLine = "you may not look at the line"

var situations = []situation{
	{name: "empty", world: func(*apiServer) *scripted {
		return &scripted{capacity: map[string]any{"at": time.Now(), "by": "reservation", "total": map[string]any{"reached": map[string]int64{}}, "rows": []any{}, "lost": []any{}}}
	}, reads: map[string]string{
		"fleet": "No node with GPUs", "queues": "There are no queues", "why": "Nothing waits for", "ledger": "No GPU is paid for", "health": "There were no GPUs in this time.",
	}},
	{name: "one", world: func(a *apiServer) *scripted {
		a.fill(1)
		reached := map[string]int64{"paid": 8, "launched": 8, "registered": 8, "ready": 8, "advertised": 8, "healthy": 8, "schedulable": 8, "allocated": 8}
		q := &scripted{steps: []bill.Step{{Now: time.Now().Add(-time.Hour), Fresh: true}}}
		q.capacity = map[string]any{"at": time.Now(), "by": "reservation", "total": map[string]any{"reached": reached, "unpricedGPUs": 8}, "rows": []any{map[string]any{"name": "none", "reached": reached, "unpricedGPUs": 8}}, "lost": []any{}}
		return q
	}, reads: map[string]string{
		"fleet": "8 GPUs on 1 node", "queues": "Nothing waits.", "why": "Nothing waits for", "ledger": "8\t?\tunknown", "health": "no GPUs in this time",
	}},
	{name: "full", world: fullLab, reads: map[string]string{
		"fleet": "64 GPUs on 8 nodes · 100 % held", "queues": "and 20 more", "why": "job/train-the-model-with-a-name-that-is-as-long-as-they-get-000", "ledger": "unknown", "health": "cluster-full",
	}},
	{name: "large", world: func(a *apiServer) *scripted {
		a.fill(5000)
		q := research()
		q.steps = told(64, time.Now().Add(-6*time.Hour), time.Now())
		return q
	}, reads: map[string]string{
		"fleet": "40,000 GPUs on 5,000 nodes", "queues": "job/llama", "why": "job/llama", "ledger": "2,048", "health": "cluster-full",
	}},
	{name: "tenant", world: func(a *apiServer) *scripted {
		for _, k := range watchedKinds {
			a.forbidden[k.resource] = true
		}
		a.fill(4)
		return &scripted{err: errors.New(forbiddenLine)}
	}, reads: map[string]string{
		"fleet": "Nodes are not shown", "queues": forbiddenLine, "why": forbiddenLine, "ledger": forbiddenLine, "health": "Use is not known: your rights do not let this page read nodes.",
	}},
	{name: "restarted", world: func(a *apiServer) *scripted {
		a.fill(8)
		return research()
	}, then: func(s *Server, stop func(), b *browser) {
		b.Until(`document.querySelector(".sum")?.innerText.startsWith("64 GPUs")`)
		stop()
		b.Until(`document.querySelector("#age").className === "stale"`)
		b.Until(`document.querySelector(".sum").innerText.startsWith("64 GPUs")`)
		startAt(b.T, newAPIServer(b.T), research(), s.listener.Addr().String())
		b.Until(`document.querySelector("#notes").innerText.includes("not signed in any more")`)
	}, reads: map[string]string{ // what it has is kept, and what it would have to ask for is said to be missing
		"fleet": "64 GPUs on 8 nodes", "queues": "job/llama", "why": "job/llama", "ledger": "not signed in any more", "health": "not signed in any more",
	}},
	{name: "clock", before: `const real = Date.now; Date.now = () => real() - 7200000`, world: func(a *apiServer) *scripted {
		a.fill(8)
		q := research()
		q.steps = told(8, time.Now().Add(-time.Hour), time.Now())
		return q
	}, then: func(_ *Server, _ func(), b *browser) {
		b.Until(`document.querySelector("#notes").innerText.includes("clocks of this browser and of the cluster are 2 h apart")`)
	}, reads: map[string]string{
		"fleet": "64 GPUs on 8 nodes", "queues": "4 min|5 min|6 min", "why": "6 min to 18 min|7 min to 19 min|8 min to 20 min", "ledger": "vision", "health": "of 64 GPUs",
	}},
	{name: "laptop", world: func(a *apiServer) *scripted { // the server's clock is the browser's, and not the cluster's
		a.ahead = -26 * time.Hour
		a.fill(8)
		return research().at(a.ahead)
	}, then: func(_ *Server, _ func(), b *browser) {
		b.Until(`document.querySelector("#notes").innerText.includes("clocks of this browser and of the cluster are 26 h apart")`)
	}, reads: map[string]string{
		"fleet": "64 GPUs on 8 nodes", "queues": "4 min|5 min|6 min", "why": "6 min to 18 min|7 min to 19 min|8 min to 20 min", "ledger": "2,048", "health": "of 62 GPUs",
	}},
}

// TestSituations visits every view in every situation. A view that does not say what it should in one of them fails, and so does one
// that is not asked.
func TestSituations(t *testing.T) {
	for _, c := range situations {
		t.Run(c.name, func(t *testing.T) {
			a := newAPIServer(t)
			s, stop := startAt(t, a, c.world(a), "127.0.0.1:0")
			b := browse(t, 1280, 800)
			if c.before != "" {
				b.Before(c.before)
			}
			b.open(s.Link())
			b.Until(`document.querySelector("#age").innerText === "live"`)
			if c.then != nil {
				c.then(s, stop, b)
			}
			for _, v := range viewNames {
				if c.reads[v] == "" {
					t.Fatalf("what does %s say?", v)
				}
				b.goTo(v)
				b.Until(fmt.Sprintf(`%q.split("|").some((t) => document.querySelector("main").innerText.includes(t))`, c.reads[v]))
				b.sound(c.name + " " + v)
				b.keep(c.name + "-" + v)
			}
			if c.name == "restarted" { // the link of the other server is not known here: its own page is opened by its own link
				return
			}
			if got := b.Text(`document.querySelector("#age").innerText`); got != "live" {
				t.Errorf("the page is %s", got)
			}
		})
	}
}

// fullLab is a cluster without a free GPU: queues in a deep tree, a line of hundreds, and names as long as Kubernetes lets them be.
func fullLab(a *apiServer) *scripted {
	q := research()
	for i := range 8 {
		n := gpuNode(fmt.Sprintf("gpu-%04d", i), "block-0", fmt.Sprintf("rack-%d", i/2), 8)
		a.put("nodes", n)
		a.put("pods", gpuPod("team-0", fmt.Sprintf("train-%d", i), n.Name, 8))
	}
	parent := ""
	for i := range 40 {
		name := fmt.Sprintf("department-of-applied-research-%d", i)
		q.queues.Items = append(q.queues.Items, queue(name, parent, 64, 8, 0, 4))
		if parent = name; i%8 == 7 {
			parent = ""
		}
	}
	for i := range 520 {
		name := fmt.Sprintf("train-the-model-with-a-name-that-is-as-long-as-they-get-%03d-%s", i, strings.Repeat("x", 180))
		w := workload(fmt.Sprintf("team-%d", i%9), "gang."+name, fmt.Sprintf("department-of-applied-research-%d", i%40), answer.Waiting, int64(8*(1+i%16)))
		w.Owner, w.Cause, w.Position = &answer.Owner{Kind: "Job", Name: name}, []why.Cause{why.ClusterFull, why.Fragmented, why.TopologyFragmented}[i%3], &answer.Position{Place: i + 1, Of: 520}
		w.Sentence = "16 pods need 8 GPUs each; the 8 matching nodes have 0 of 64 free, and what runs there ends in the next days."
		q.workloads.Items = append(q.workloads.Items, w)
	}
	q.workloads.Items = append(q.workloads.Items[:16], q.workloads.Items[17:]...) // the line is these
	reached := map[string]int64{"paid": 64, "launched": 64, "registered": 64, "ready": 64, "advertised": 64, "healthy": 64, "schedulable": 64, "allocated": 64}
	q.capacity = map[string]any{"at": time.Now(), "by": "pool", "total": map[string]any{"reached": reached, "unpricedGPUs": 64}, "rows": []any{map[string]any{"name": "h100", "reached": reached, "unpricedGPUs": 64}}, "lost": []any{}}
	q.steps = told(8, time.Now().Add(-6*time.Hour), time.Now())
	return q
}

// acting finds characters in what is shown, or read out, that do something besides being read.
const acting = `(() => { const bad = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/, out = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) if (bad.test(texts.currentNode.data)) out.push(JSON.stringify(texts.currentNode.data.slice(0, 60)));
	for (const e of document.querySelectorAll("[title], [aria-label]")) if (bad.test(e.title + e.getAttribute("aria-label"))) out.push(e.tagName + JSON.stringify((e.title || e.getAttribute("aria-label")).slice(0, 60)));
	return out.slice(0, 4).join("; ") })()`

// TestHostile is a cluster whose names are no names: markup, controls that turn text around, names of what every object has, and far more
// of everything than anybody reads. The page shows text, runs nothing, and stays quick.
func TestHostile(t *testing.T) {
	const markup = `<img src=x onerror="window.owned = 1"><script>window.owned = 1</script>`
	a := newAPIServer(t)
	q := research()
	for i, name := range []string{markup, "\u202etxt.exe\u202c", "__proto__", "constructor", strings.Repeat("n", 5000), "a\nb\tc\x00d"} {
		n := gpuNode(name, markup, name, 8)
		n.Labels["nvidia.com/gpu.product"] = markup
		a.put("nodes", n)
		a.put("pods", gpuPod(markup, name, n.Name, 4))
		w := workload(name, "gang."+name, name, answer.Waiting, 8)
		w.Owner, w.Cause, w.Sentence, w.Position = &answer.Owner{Kind: markup, Name: name}, why.Cause(markup), markup, &answer.Position{Place: i + 1, Of: 6}
		q.workloads.Items = append(q.workloads.Items, w)
	}
	for i := range 3000 {
		q.queues.Items = append(q.queues.Items, queue(fmt.Sprintf("q%d", i), []string{markup, "__proto__", ""}[i%3], 8, 8, 1, 1))
	}
	q.queues.Items = append(q.queues.Items, queue(markup, "", 1, 1, 0, 0), queue("__proto__", markup, 1, 1, 0, 0))
	q.why = map[string]any{
		"target": map[string]string{"kind": markup, "namespace": markup, "name": strings.Repeat("long", 2000)}, "state": markup, "layer": markup, "cause": markup, "owner": markup, "summary": markup,
		"blockers": []any{map[string]any{"layer": "L3", "cause": markup, "owner": markup, "message": markup, "evidence": []any{map[string]string{"object": markup, "field": markup, "value": markup}}}},
		"fixes":    []any{map[string]any{"side": markup, "edit": markup, "command": markup, "verified": true, "outcome": markup}},
	}
	s := start(t, a, q, time.Second)
	b := browse(t, 1280, 800)
	b.Before(`window.violations = []; document.addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective + " " + e.blockedURI))`)
	b.open(s.Link())
	b.Until(`document.querySelector(".sum")?.innerText.startsWith("48 GPUs on 6 nodes")`)
	for _, size := range []int64{1280, 360} {
		b.dress(size, 740, "light")
		for _, v := range append([]string{"why?namespace=x&kind=&name=" + "x", "fleet?view=table", "fleet?colour=job&q=%3Cimg", "queues?queue=%3Cimg", "fleet?sel=__proto__", "no-such-view?x=%3Cscript%3E"}, viewNames...) {
			b.goTo(v)
			if got := b.Text(acting); got != "" {
				t.Errorf("%.20s at %d: characters that turn text around, or are no text: %s", v, size, got)
			}
			if v != "queues" && v != "queues?queue=%3Cimg" { // thousands of rows are looked at once, below
				b.sound(fmt.Sprintf("hostile %.20s at %d", v, size))
			}
		}
	}
	b.goTo("queues?q=%3Cimg") // what is not drawn is found
	b.Until(`document.querySelectorAll("table.queues tbody tr").length === 1 && document.querySelector("table.queues tbody").innerText.includes("<img src=x onerror")`)
	b.goTo("queues")
	b.Until(`document.querySelector("table.queues tbody").innerText.includes("more: search for a name")`)
	spent := b.Clock() // processor time: what else the machine does is no matter
	b.Do(`dispatchEvent(new Event("hashchange")); document.body.offsetHeight`)
	if took := spent(); took > 1000 {
		t.Errorf("3,000 queues take %.0f ms of the main thread to show", took)
	} else {
		t.Logf("3,000 queues take %.0f ms of the main thread to show", took)
	}
	if rows := b.Number(`document.querySelectorAll("table.queues tbody tr").length`); rows > 501 {
		t.Errorf("%.0f rows of queues", rows)
	}
	b.goTo("queues?q=exe") // a name can be chosen though it is drawn otherwise
	b.Do(`document.querySelector("table.line a").click()`)
	b.Until(`new URLSearchParams(location.hash.split("?")[1]).get("name") === "\u202etxt.exe\u202c"`)
	if got := b.Text(`[window.owned && "a script ran", ...window.violations, document.querySelector("main img, main script") && "markup became an element"].filter(Boolean).join("; ")`); got != "" {
		t.Error(got)
	}
}
