package web

import (
	"fmt"
	"testing"
	"time"
)

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
				if got := b.Text(`[...window.drawn].join("; ")`); got != "4 min" && got != "team-0 · 32 GPUs · 8 min to 20 min" && got != "team-0 · 32 GPUs · 7 min to 19 min" {
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
