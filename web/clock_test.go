package web

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestClock hears answers of an API server whose clock is another one, over networks of all speeds, and while clocks are set.
func TestClock(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 22))
		at := time.Unix(1_800_000_000, r.Int64N(1e9))
		ahead := time.Duration(r.Int64N(int64(200*time.Hour))) - 100*time.Hour
		if seed%4 == 0 {
			ahead = 0
		}
		c := &clock{own: func() time.Time { return at }}
		if got := c.now(); !got.Equal(at) {
			t.Fatalf("seed %d: before anything was heard: %s", seed, got.Sub(at))
		}
		slow := time.Duration(1 + r.Int64N(int64(3*time.Second)))
		for i := range 40 {
			if i == 20 && ahead != 0 {
				ahead += time.Duration(r.Int64N(int64(4*time.Hour))) - 2*time.Hour // somebody set one of them
			}
			asked, to, from := at, time.Duration(r.Int64N(int64(slow))), time.Duration(r.Int64N(int64(slow)))
			at = at.Add(to)
			date := at.Add(ahead).Truncate(time.Second)
			at = at.Add(from)
			c.hear(date, asked, at)
			off := c.now().Sub(at.Add(ahead)).Abs()
			if ahead == 0 && off != 0 || off > time.Second/2+slow {
				t.Fatalf("seed %d, answer %d: %s off, on a network of %s with the clocks %s apart", seed, i, off, slow, ahead)
			}
			at = at.Add(time.Duration(r.Int64N(int64(time.Minute))))
		}
	}
}

// TestClusterClock serves the page on a machine whose clock is hours off that of the cluster. Everything goes by the cluster's: what the page
// is told, what is made of objects, and when something happened.
func TestClusterClock(t *testing.T) {
	for _, ahead := range []time.Duration{2 * time.Hour, -26 * time.Hour} {
		a := newAPIServer(t)
		a.ahead = ahead
		pool := poolOf("h100", 1, 8)
		pool.CreationTimestamp = metav1.NewTime(time.Now().Add(ahead - time.Minute)) // its machine is not late
		a.put("pools", pool)
		a.fill(2)
		q := research().at(ahead)
		s, get := serve(t, a, q)
		near := func(what string, got time.Time) {
			t.Helper()
			if off := got.Sub(time.Now().Add(ahead)).Abs(); off > 5*time.Second {
				t.Errorf("%s: %s off the cluster's clock, with the machine's %s off", what, off, -ahead)
			}
		}
		v := view(t, get("/api/stream").Body)
		v.until("the fleet", func() bool { return len(v.values[kindNode]) == 2 })
		f, _, _ := s.reader.read()
		near("facts", f.At)
		r := get("/api/about")
		date, err := http.ParseTime(r.Header.Get("Date"))
		if err != nil {
			t.Fatal(err)
		}
		near("the answer", date)
		stream := bufferOf(t, get("/api/stream"))
		at, _, _ := strings.Cut(stream[strings.Index(stream, "event: now")+len("event: now\ndata: "):], "\n")
		var ms int64
		if err := json.Unmarshal([]byte(at), &ms); err != nil {
			t.Fatalf("%v: %.200s", err, stream)
		}
		near("the stream", time.UnixMilli(ms))
		s.past.tick(s.clock.now().Add(time.Hour))
		s.past.line(s.clock.now(), q.workloads)
		q.workloads.Items = nil
		s.past.line(s.clock.now(), q.workloads)
		near("what happened", time.UnixMilli(s.past.history().Moments[0].At))
		a.setDown(true)
		a.cut()
		v.until("that nothing can be read", v.has(kindSource, nodesKind, `"since"`))
		var lost source
		if err := json.Unmarshal(v.values[kindSource][nodesKind], &lost); err != nil {
			t.Fatal(err)
		}
		near("since when nothing could be read", time.UnixMilli(lost.Since))
	}
}

// bufferOf is the beginning of a stream.
func bufferOf(t *testing.T, r *http.Response) string {
	t.Helper()
	b := make([]byte, 400)
	n, err := r.Body.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// at moves everything that is said of workloads to another clock.
func (s *scripted) at(ahead time.Duration) *scripted {
	for i := range s.workloads.Items {
		w := &s.workloads.Items[i]
		w.CreationTimestamp = metav1.NewTime(w.CreationTimestamp.Add(ahead))
		if w.ETA != nil {
			w.ETA.Earliest, w.ETA.Likely = w.ETA.Earliest.Add(ahead), w.ETA.Likely.Add(ahead)
		}
	}
	return s
}

// TestWrongClock opens every view in a browser whose clock is hours ahead, or behind: nothing that is drawn, from the first picture on, and
// nothing that is asked, goes by that clock.
func TestWrongClock(t *testing.T) {
	a := newAPIServer(t)
	a.fill(8)
	q := research()
	q.steps = told(8, time.Now().Add(-2*time.Hour), time.Now())
	s := start(t, a, q, time.Second)
	for _, off := range []time.Duration{2 * time.Hour, -26 * time.Hour} {
		b := browse(t, 1280, 800)
		if off < 0 { // the key of the first browser
			b.Before(fmt.Sprintf(`if (location.pathname !== "/favicon.ico") try { localStorage.berth = '{"path":%q,"key":%q}' } catch {}`, s.guard.path, s.guard.key))
			b.Navigate("http://" + s.listener.Addr().String() + s.guard.path)
		} else {
			b.open(s.Link())
		}
		b.Until(`document.querySelector("#age")?.innerText === "live"`)
		b.Before(fmt.Sprintf(`(() => { const real = Date.now; window.realNow = real; Date.now = () => real() + %d; window.drawn = new Set();
			new MutationObserver(() => { for (const e of document.querySelectorAll("table.line tbody td:nth-of-type(5), .waiting .item span")) window.drawn.add(e.textContent) }).observe(document, { subtree: true, childList: true, characterData: true }) })()`, off.Milliseconds()))
		for _, c := range []struct{ view, asks string }{{"health", "past"}, {"ledger", "cost"}, {"ledger", "past"}, {"fleet?at=log", "past"}, {"queues", ""}, {"why", ""}} {
			b.Do(fmt.Sprintf(`location.hash = %q; location.reload()`, c.view))
			b.Until(`document.readyState === "complete" && window.realNow && document.querySelector("#age")?.innerText === "live"`)
			b.Until(settled)
			if c.asks == "" {
				b.Until(`window.drawn.size > 0`)
				if got := b.Text(`[...window.drawn].join("; ")`); !soon.MatchString(got) {
					t.Errorf("%s with a clock %s wrong draws %s", c.view, off, got)
				}
				continue
			}
			b.Until(fmt.Sprintf(`performance.getEntriesByType("resource").some((e) => e.name.includes("api/%s?"))`, c.asks))
			worst := b.Number(fmt.Sprintf(`Math.max(...performance.getEntriesByType("resource").filter((e) => e.name.includes("api/%s?")).map((e) => Math.abs(Number(new URL(e.name).searchParams.get("to")) - (performance.timeOrigin + e.startTime))))`, c.asks))
			if worst > 5000 {
				t.Errorf("%s with a clock %s wrong asks api/%s for a time that is %.0f s away", c.view, off, c.asks, worst/1000)
			}
		}
	}
}

// soon is what is drawn of work that was submitted four minutes before the test began and starts twenty after.
var soon = regexp.MustCompile(`^(([4-6] min|team-0 · 32 GPUs · [6-8] min to (18|19|20) min)(; |$))+$`)

// TestSilence has the connection die without a word, while the clock of the day is set back. The page says how old it is, and comes back by
// itself.
func TestSilence(t *testing.T) {
	a := newAPIServer(t)
	a.fill(8)
	s := start(t, a, research(), time.Second)
	b := browse(t, 1280, 800)
	b.Before(`(() => { const real = Date.now; window.shift = 0; Date.now = () => real() + window.shift;
		const fetched = window.fetch; window.fetch = async (at, o) => { const r = await fetched(at, o);
			if (!String(at).includes("stream")) return r;
			const from = r.body.getReader();
			const body = new ReadableStream({ async pull(c) { const v = await from.read(); if (window.deaf) await new Promise((_, no) => o.signal?.addEventListener("abort", () => no(new Error("aborted")))); v.done ? c.close() : c.enqueue(v.value) } });
			return new Response(body, { status: r.status, headers: r.headers }) } })()`)
	b.open(s.Link())
	b.Until(`document.querySelector("#age")?.innerText === "live"`)
	b.Do(`window.deaf = true; window.shift = -7200000`)
	b.Until(`document.querySelector("#age").className === "stale" && /^1[0-9] s old$/.test(document.querySelector("#age").innerText)`)
	b.Do(`window.deaf = false`)
	b.Until(`document.querySelector("#age").innerText === "live" && document.querySelector("#notes").innerText.includes("2 h apart")`)
}
