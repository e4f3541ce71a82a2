package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
)

// crowd is a scheduler with as much work as 40,000 GPUs have: 2,000 workloads run, 1,000 wait, and whenever it is asked the first of these has
// started, so that all others are a place further on and expected at another time.
type crowd struct {
	*scripted
	asked atomic.Int64
}

func (c *crowd) Line(context.Context) (answer.QueueList, answer.WorkloadList, error) {
	const run, wait = 2000, 1000
	now, began := time.Now(), int(c.asked.Add(1))
	list := make([]answer.Workload, 0, run+wait)
	for i := range run + wait {
		w := workload(fmt.Sprintf("team-%d", i%7), fmt.Sprintf("gang.train-%d", began+i), []string{"vision", "language", "serving"}[i%3], answer.Running, 16)
		w.CreationTimestamp = metav1.NewTime(time.Unix(1_800_000_000, 0))
		w.Owner = &answer.Owner{Kind: "Job", Name: fmt.Sprintf("train-%d", began+i)}
		if place := i - run; place >= 0 {
			w.State, w.Cause, w.Position = answer.Waiting, why.ClusterFull, &answer.Position{Place: place + 1, Of: wait}
			w.Sentence = "4 pods need 4 GPUs each; 3 of 4750 matching nodes have as many free."
			w.ETA = &answer.ETA{Likely: now.Add(time.Duration(place) * time.Minute), Because: fmt.Sprintf("job/train-%d ends", began+place)}
		}
		list = append(list, w)
	}
	return c.queues, answer.WorkloadList{Items: append(list[run:], list[:run]...)}, nil // the line comes first
}

// large is a server that shows 5,000 nodes with 40,000 GPUs to one viewer, where BERTH_PAGE_SCALE=1 asks for it: what it is for takes minutes.
// before is the heap without it.
func large(t *testing.T) (a *apiServer, s *Server, get func(string) *http.Response, before int64) {
	t.Helper()
	if os.Getenv("BERTH_PAGE_SCALE") == "" {
		t.Skipf("%s runs with BERTH_PAGE_SCALE=1", t.Name())
	}
	a = newAPIServer(t)
	a.fill(5000)
	runtime.GC()
	before = heap()
	s, get = serve(t, a, &crowd{scripted: research()})
	v := view(t, get("/api/stream").Body)
	v.until("the fleet", func() bool { return len(v.values["node"]) == 5000 })
	return a, s, get, before
}

// TestScale measures the page of a large fleet (docs/page.md has what came out).
func TestScale(t *testing.T) {
	a, s, _, before := large(t)
	f, _, _ := s.reader.read()
	began := time.Now()
	nodes := fleetOf(f)
	t.Logf("counting %d nodes: %v; the whole table: %d KiB", len(nodes), time.Since(began).Round(time.Millisecond), len(s.table.missed(0)[0])>>10)
	f, nodes = nil, nil
	runtime.GC()
	t.Logf("heap of the server: %d MiB", (heap()-before)>>20)

	b := browse(t, 1600, 1000)
	spent := b.Clock()
	began = time.Now()
	b.open(s.Link2(t))
	b.Until(`document.querySelector(".stage")?.dataset.painted`)
	t.Logf("first view: %v ms after the page began to load (%v from outside)", b.Number(`+document.querySelector(".stage").dataset.painted`), time.Since(began).Round(time.Millisecond))

	t.Logf("processor time of the page's main thread until then: %.0f ms", spent())
	for _, mark := range []string{"started", "table", "fleet-painted"} {
		t.Logf("    %s: %.0f ms", mark, b.Number(fmt.Sprintf(`performance.getEntriesByName(%q)[0].startTime`, mark)))
	}

	b.keep("scale")
	p50, p95, frames := b.pan()
	t.Logf("main thread in a frame while panning, from the trace: p50 %.2f ms, p95 %.2f ms of processor time, of %d frames", p50, p95, frames)
	var late []float64
	for i := range 20 {
		b.Do(`const s = document.querySelector(".stage"), was = s.dataset.version, t = performance.now(); window.changed = 0; const o = new MutationObserver(() => { if (s.dataset.version !== was) { window.changed = performance.now() - t; o.disconnect() } }); o.observe(s, { attributes: true })`)
		a.put("pods", gpuPod("team-0", fmt.Sprintf("late-%d", i), fmt.Sprintf("gpu-%04d", 4+5*i), 8))
		b.Until(`window.changed > 0`)
		late = append(late, b.Number(`window.changed`))
		time.Sleep(300 * time.Millisecond)
	}
	t.Logf("change to changed pixels, ms: %.0f", late)
	t.Logf("memory of the page: %.0f MiB", b.Heap())
	hour(t, s, b)
	t.Logf("memory of the page after an hour of changes: %.0f MiB", b.Heap())
}

// TestViewers measures what 50 viewers of a large fleet cost its server, in processor time and memory.
func TestViewers(t *testing.T) {
	a, _, get, before := large(t)
	for range 50 {
		r := get("/api/stream")
		go func(r *http.Response) {
			for lines := bufio.NewReader(r.Body); ; {
				if _, err := lines.ReadSlice('\n'); err != nil && err != bufio.ErrBufferFull {
					return
				}
			}
		}(r)
	}
	time.Sleep(3 * time.Second)
	cpu, began, pods := used(), time.Now(), 0
	for ; time.Since(began) < 10*time.Second; pods++ {
		a.put("pods", gpuPod("team-1", fmt.Sprintf("busy-%d", pods), fmt.Sprintf("gpu-%04d", pods%5000), 1))
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("50 viewers and %.0f pods a second: %.0f %% of a core (with the API server of the test, and its viewers)", float64(pods)/time.Since(began).Seconds(), 100*(used()-cpu).Seconds()/time.Since(began).Seconds())
	runtime.GC()
	t.Logf("heap of the server with them: %d MiB", (heap()-before)>>20)
}

// pan moves the fleet for four seconds. It returns percentiles of the main thread's processor time in a frame, in milliseconds.
func (b *browser) pan() (p50, p95 float64, frames int) {
	b.T.Helper()
	all := b.Frames(func() {
		b.Do(`const c = document.querySelector("canvas"), e = (k, x, y) => new PointerEvent(k, { clientX: x, clientY: y, pointerId: 1, bubbles: true }); c.setPointerCapture = () => {};
			c.dispatchEvent(e("pointerdown", 800, 500)); let i = 0; window.panned = false;
			const step = () => { i++; c.dispatchEvent(e("pointermove", 800 + 300 * Math.sin(i / 20), 500 + 200 * Math.cos(i / 15))); if (i < 240) setTimeout(step, 16); else { c.dispatchEvent(e("pointerup", 800, 500)); window.panned = true } }; step()`)
		b.Until(`window.panned`)
	})
	slices.Sort(all)
	if len(all) < 60 {
		b.T.Fatalf("the trace has %d frames", len(all))
	}
	return all[len(all)/2], all[len(all)*95/100], len(all)
}

// TestPanning pans 5,000 nodes with 40,000 GPUs, while the whole line moves on once a second. The bar is 8 ms of the main thread's processor
// time in a frame at p95, from the trace; it fails at twice that, because processors differ (docs/page.md has what was measured).
func TestPanning(t *testing.T) {
	a := newAPIServer(t)
	a.fill(5000)
	s := start(t, a, &crowd{scripted: research()}, time.Second)
	b := browse(t, 1600, 1000)
	b.open(s.Link())
	b.Until(`document.querySelector(".stage")?.dataset.painted`)
	p50, p95, frames := b.pan()
	t.Logf("main thread in a frame: p50 %.2f ms, p95 %.2f ms, of %d frames", p50, p95, frames)
	if p95 > 16 {
		t.Errorf("the main thread works %.2f ms in a frame at p95, of %d frames", p95, frames)
	}
}

// hour has a viewer told as many changes as an hour of a busy fleet has: 100 nodes a second.
func hour(t *testing.T, s *Server, b *browser) {
	t.Helper()
	s.table.mu.Lock()
	nodes := maps.Clone(s.table.values[kindNode])
	s.table.mu.Unlock()
	names := slices.Sorted(maps.Keys(nodes))
	for i := range 3600 {
		next := maps.Clone(nodes)
		for k := range 100 {
			name := names[(i*100+k)%len(names)]
			next[name] = encode(&node{Block: "block-0", Rack: "rack-0", GPUs: []run{{N: 8, Stage: "allocated", Pods: []string{fmt.Sprintf("team-%d/pod-%d", i%7, i)}, Work: fmt.Sprintf("team-%d/gang.hour-%d", i%7, i/10)}}})
		}
		s.table.put(map[string]map[string]json.RawMessage{kindNode: next})
		nodes = next
		if i%300 == 299 { // in an hour the page keeps up
			b.shows(s.table)
		}
	}
	t.Logf("an hour of changes: %d", b.shows(s.table))
}

// shows waits until the page has drawn the table as it is. It returns the table's version.
func (b *browser) shows(t *table) (version int64) {
	b.T.Helper()
	t.mu.Lock()
	version = t.version
	t.mu.Unlock()
	b.Until(fmt.Sprintf(`Number(document.querySelector(".stage").dataset.version) >= %d`, version))
	return version
}

// Link2 is a second link, for a second browser.
func (s *Server) Link2(t *testing.T) string {
	t.Helper()
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	s.guard.token, s.guard.entered = random(), make(chan struct{})
	return "http://" + s.listener.Addr().String() + "/?token=" + s.guard.token
}

func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func used() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
