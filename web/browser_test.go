package web

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/capacity/join"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/chromium"
	"github.com/berth-dev/berth/kube/answer"
)

var update = flag.Bool("update", false, "write the screenshots of docs/page")

// browser is a tab that looks at the page.
type browser struct{ *chromium.Tab }

func browse(t testing.TB, width, height int) *browser {
	t.Helper()
	return &browser{chromium.Open(t, width, height)}
}

// open follows the link.
func (b *browser) open(link string) {
	b.T.Helper()
	b.Navigate(link)
	b.Until(`document.querySelector("main")`)
}

// shoot writes a picture for the docs, with -update.
func (b *browser) shoot(name string) {
	b.T.Helper()
	folder := b.T.TempDir()
	if *update {
		folder = filepath.Join("..", "docs", "page")
	}
	b.Shoot(filepath.Join(folder, name+".png"))
}

func gpus(n int64) []why.Amount { return []why.Amount{{Resource: "nvidia.com/gpu", Value: n}} }

func queue(name, parent string, quota, used, borrowed, waiting int64) answer.Queue {
	return answer.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Parent: parent, Quota: gpus(quota), Used: gpus(used), Borrowed: gpus(borrowed), Share: gpus(quota), Waiting: answer.Demand{Workloads: int(waiting), GPUs: waiting * 32}}
}

// research is a cluster of a test: three teams, and work that waits.
func research() *scripted {
	q := &scripted{queues: answer.QueueList{Items: []answer.Queue{queue("research", "", 512, 430, 0, 2), queue("vision", "research", 128, 190, 62, 1), queue("language", "research", 384, 240, 0, 1), queue("serving", "", 96, 64, 0, 0)}}}
	q.queues.Items[2].Lent = gpus(50) // the rest of what vision borrows is of no child of research
	for i := range 16 {
		q.workloads.Items = append(q.workloads.Items, workload(fmt.Sprintf("team-%d", i*16/128%7), fmt.Sprintf("gang.train-%d", i), []string{"vision", "language", "serving"}[i%3], answer.Running, 100))
	}
	wait := workload("team-0", "gang.llama", "vision", answer.Waiting, 32)
	wait.Owner, wait.Cause, wait.Position = &answer.Owner{Kind: "Job", Name: "llama"}, why.ClusterFull, &answer.Position{Place: 1, Of: 2}
	wait.Sentence = "4 pods need 8 GPUs each; 3 of 24 matching nodes have as many free."
	wait.ETA = &answer.ETA{Earliest: time.Now().Add(8 * time.Minute), Likely: time.Now().Add(20 * time.Minute), Because: "job/train-3 ends"}
	q.workloads.Items = append(q.workloads.Items, wait)
	q.why = map[string]any{
		"target": map[string]string{"kind": "Job", "namespace": "team-0", "name": "llama"}, "state": "pending", "layer": "L3", "cause": "cluster-full", "owner": "scheduler",
		"summary":  "4 pods need 8 GPUs each; 3 of 24 matching nodes have 8 free.",
		"blockers": []any{map[string]any{"layer": "L3", "cause": "cluster-full", "owner": "scheduler", "binding": true, "message": "job/train-3 holds 96 GPUs on 12 of the matching nodes", "evidence": []any{map[string]string{"object": "node/gpu-0004", "field": `status.allocatable["nvidia.com/gpu"]`, "value": "8, of which 0 are free"}}}},
		"fixes":    []any{map[string]any{"side": "workload", "edit": "ask for 3 pods instead of 4", "command": "kubectl patch job llama -n team-0 --type=merge -p '{\"spec\":{\"parallelism\":3}}'", "verified": true, "outcome": "the gang starts at once on gpu-0004, gpu-0009 and gpu-0014"}},
	}
	q.fit = map[string]any{"workloads": []any{map[string]any{"verdict": "starts", "summary": "It starts now on 4 nodes of block-0.", "nodes": []any{map[string]any{"node": "gpu-0004", "pods": 1}, map[string]any{"node": "gpu-0009", "pods": 1}, map[string]any{"node": "gpu-0014", "pods": 1}, map[string]any{"node": "gpu-0019", "pods": 1}}}}}
	reached := map[string]int64{"paid": 2048, "launched": 2000, "registered": 2000, "ready": 1976, "advertised": 1976, "healthy": 1972, "schedulable": 1950, "allocated": 1500, "busy": 1320}
	loss := func(stage, cause, owner string, gpus, micro int64, said ...string) any {
		return map[string]any{"stage": stage, "cause": cause, "owner": owner, "gpus": gpus, "unpriced": 0, "perHour": []any{map[string]any{"currency": "USD", "micro": micro}}, "since": time.Now().Add(-5 * time.Hour), "said": said, "fix": strings.TrimSuffix(join.Remedy(cause), ".")}
	}
	q.capacity = map[string]any{
		"at": time.Now(), "by": "pool", "total": map[string]any{"name": "total", "reached": reached, "perHour": []any{map[string]any{"currency": "USD", "micro": 16203776000}}, "unpricedGPUs": 0},
		"rows": []any{map[string]any{"name": "h100", "reached": reached, "perHour": []any{map[string]any{"currency": "USD", "micro": 16203776000}}, "unpricedGPUs": 0}},
		"lost": []any{
			loss("schedulable", "idle", "none", 450, 3560400000),
			loss("paid", "reservation-unused-by-provisioner", "capacity", 48, 379776000, "reservation h100-east has 6 machines that no provisioner asked for"),
			loss("registered", "node-not-ready", "platform", 24, 189888000, "node gpu-0013 is not Ready"),
			loss("healthy", "node-cordoned", "platform", 22, 174064000, "node gpu-0007 is cordoned"),
			loss("allocated", "idle-allocation", "user", 180, 1424160000),
		},
	}
	return q
}

// TestPage walks through every view as a person would.
func TestPage(t *testing.T) {
	a := newAPIServer(t)
	a.fill(256)
	q := research()
	q.steps = told(256, time.Now().Add(-6*time.Hour), time.Now())
	s := start(t, a, q, time.Second)
	b := browse(t, 1440, 900)
	b.open(s.Link())
	b.Until(`document.querySelector(".stage")?.dataset.painted && document.querySelector(".sum").innerText.startsWith("2,048 GPUs")`)
	b.Until(`document.querySelector("#age").innerText === "live"`)
	b.shoot("fleet")

	// A pod arrives while the page watches.
	a.put("pods", gpuPod("team-0", "arrives", "gpu-0024", 8))
	b.Do(`const s = document.querySelector("input[type=search]"); s.value = "arrives"; s.dispatchEvent(new Event("input"))`)
	b.Until(`document.querySelector(".sum").innerText.startsWith("8 GPUs match on 1 node")`)
	b.Do(`const s = document.querySelector("input[type=search]"); s.value = ""; s.dispatchEvent(new Event("input"))`)
	b.Do(`document.querySelector(".fitform").requestSubmit()`)
	b.Until(`document.querySelector(".verdict")?.innerText === "starts"`)
	b.Do(`const s = document.querySelector("select[aria-label='Colour by']"); s.value = "job"; s.dispatchEvent(new Event("change"))`)
	b.Until(`location.hash.includes("colour=job")`)
	b.Until(`(() => { const all = [...document.querySelectorAll(".parts i")].map((e) => Number(e.style.flexGrow)); return all.length > 2 && all.reduce((a, n) => a + n, 0) === 2048 })()`) // GPUs that no job has are part of the bar
	b.shoot("fit")

	// The table says the same as the picture.
	b.Do(`location.hash = "#fleet?view=table&q=gpu-0013"`)
	b.Until(`document.querySelectorAll("table.nodes tbody th").length === 1 && document.querySelector("table.nodes tbody").innerText.includes("is not Ready")`)

	b.Do(`location.hash = "#queues"`)
	b.Until(`document.querySelectorAll("table.queues tbody tr").length === 4 && document.querySelector("table.line tbody").innerText.includes("job/llama")`)
	b.Until(`document.querySelector(".loans").innerText.includes("vision borrows 62: 50 lent by language and 12 from what research has beyond its children's quotas, or from above.")`)
	b.shoot("queues")
	b.Do(`document.querySelector("table.line a").click()`)
	b.Until(`document.querySelector(".sentence")?.innerText.startsWith("4 pods need 8 GPUs")`)
	b.Until(`document.querySelectorAll(".ladder > li").length === 4 && document.querySelector(".ladder .here b").innerText === "L3"`)
	b.shoot("why")
	b.Do(`location.hash = "#ledger?by=pool"`)
	b.Until(`document.querySelectorAll(".waterfall:not(.hours) .step:not(.units)").length === 9`)
	b.shoot("ledger")
	b.Do(`location.hash = "#health?span=21600"`)
	b.Until(`document.querySelector(".chart path.use") && document.querySelector(".tiles").childElementCount === 6`)
	b.shoot("health")

	// Dark, and as narrow as a telephone.
	b.Resize(360, 740)
	b.Do(`document.querySelector("#theme").click(); location.hash = "#fleet"`)
	b.Until(`document.documentElement.dataset.theme === "dark" && document.querySelector(".stage")?.dataset.painted`)
	b.Until(`document.documentElement.scrollWidth <= 360`)
	b.shoot("narrow")

	// An API server that is away hurts one source and not the page.
	a.setDown(true)
	a.cut()
	b.Until(`document.querySelector("#notes").innerText.includes("could not be read") && document.querySelector(".sum").innerText.startsWith("2,048 GPUs")`)
	a.setDown(false)
	b.Until(`performance.getEntriesByType("resource").every((e) => e.name.startsWith(location.origin + "/"))`)
	b.Until(`!document.querySelector("#notes").innerText.includes("could not be read")`)
}

// TestPageOfTenant says what may not be read.
func TestPageOfTenant(t *testing.T) {
	a := newAPIServer(t)
	for _, k := range watchedKinds {
		a.forbidden[k.resource] = true
	}
	s := start(t, a, &scripted{err: errors.New("you may not look at the line")}, time.Second)
	b := browse(t, 1000, 700)
	b.open(s.Link())
	b.Until(`document.querySelector("#notes").innerText.includes("you may not read nodes") && document.querySelector("#notes").innerText.includes("pods, replicasets") && document.querySelector("#notes").innerText.includes("in namespace team alone")`)
	b.Until(`document.querySelector("#notes").innerText.includes("you may not look at the line")`)
}

// TestWhyClaimsNothing holds the ladder to that of `berth why`: what was not reached or could not be read is not in order, and what has no
// effect is said.
func TestWhyClaimsNothing(t *testing.T) {
	a := newAPIServer(t)
	q := research()
	q.why = map[string]any{
		"target": map[string]string{"kind": "Job", "namespace": "team-0", "name": "llama"}, "state": "pending", "layer": "L2", "cause": "node-not-ready", "owner": "platform", "summary": "no node is Ready",
		"blockers": []any{
			map[string]any{"layer": "L2", "cause": "node-not-ready", "owner": "platform", "binding": true, "message": "node gpu-0 is not Ready"},
			map[string]any{"layer": "L4", "cause": "image-not-pulled", "owner": "user", "message": "noticed"},
		},
		"advice": "ask who runs the nodes", "unheeded": []string{"annotation berth.dev/prioritiy is not known"}, "unseen": []any{
			map[string]string{"resource": "nodes", "reason": "forbidden"}, map[string]string{"resource": "pods", "except": "team", "reason": "forbidden"},
			map[string]string{"resource": "pods/log", "namespace": "team-0", "reason": "forbidden"}, map[string]string{"resource": "decisions", "reason": "not read before noon"},
		},
	}
	q.capacity.(map[string]any)["unseen"] = []any{map[string]string{"resource": "reservations.berth.dev", "reason": "forbidden"}}
	s := start(t, a, q, time.Second)
	b := browse(t, 1000, 700)
	b.open(s.Link())
	b.goTo("why?namespace=team-0&kind=job&name=llama")
	b.Until(`document.querySelectorAll(".ladder > li").length === 4`)
	if got, want := b.Text(`[...document.querySelectorAll(".rung em")].map((e) => e.innerText).join("; ")`), "not seen; 1 finding; not reached; 1 finding, not in the way"; got != want {
		t.Errorf("the ladder says %q, want %q", got, want)
	}
	for _, want := range []string{"No verified fix.", "What usually helps: ask who runs the nodes", "No effect: annotation berth.dev/prioritiy is not known.", "Not seen: decisions (not read before noon).",
		"Not seen, because the user of your kubeconfig may not read them: nodes, pods outside namespace team and pods/log in namespace team-0.",
		"Ask an administrator of the cluster for the right to list nodes, to list pods in all namespaces and to get pods/log in namespace team-0."} {
		b.Until(fmt.Sprintf(`document.querySelector(".diagnosis").innerText.includes(%q)`, want))
	}
	b.sound("the ladder")
	b.goTo("ledger")
	b.Until(`document.querySelector("main").innerText.includes("may not read them: reservations.") && document.querySelector("main").innerText.includes("for the right to list reservations.berth.dev.")`)
	b.sound("what the ledger does not see")
}
