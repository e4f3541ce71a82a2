package web

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

var viewNames = []string{"fleet", "queues", "why", "ledger", "health"}

// settled is when a view has shown what it has: nothing in it says that it is being read.
const settled = `document.querySelector("main").childElementCount > 0 && !document.querySelector("main .busy:not(.dot)")`

// goTo opens a view and waits until it has settled.
func (b *browser) goTo(hash string) {
	b.T.Helper()
	b.Do(fmt.Sprintf(`if (location.hash === %q) dispatchEvent(new Event("hashchange")); else location.hash = %q`, "#"+hash, "#"+hash))
	b.Until(settled)
	time.Sleep(100 * time.Millisecond)
}

// dress gives the window a size and a theme.
func (b *browser) dress(width, height int64, theme string) {
	b.T.Helper()
	b.Resize(width, height)
	b.Do(fmt.Sprintf(`if (document.documentElement.dataset.theme !== %q) document.querySelector("#theme").click()`, theme))
}

// faults finds what a person could not read, reach or hear. Each is a line.
const faults = `(() => {
  const out = [], seen = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && e.getClientRects().length > 0;
  const name = (e) => (e.getAttribute("aria-label") || (e.getAttribute("aria-labelledby") && document.getElementById(e.getAttribute("aria-labelledby"))?.textContent) || [...(e.labels || [])].map((l) => l.textContent).join(" ") || e.textContent || e.title || "").trim();
  const what = (e) => e.tagName.toLowerCase() + (e.className && typeof e.className === "string" ? "." + e.className.split(" ").join(".") : "") + " " + JSON.stringify((e.textContent || "").trim().slice(0, 40));
  if (document.documentElement.scrollWidth > innerWidth + 1) {
    const wide = [...document.querySelectorAll("main *, header *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, .command, svg, nav"));
    out.push("the page scrolls sideways: " + wide.slice(0, 3).map(what).join("; "));
  }
  for (const e of document.querySelectorAll("a[href], button, input, select, canvas, [tabindex], [role=img], svg")) if (seen(e) && e.tagName !== "MAIN" && !e.closest("[aria-hidden=true]") && !name(e)) out.push("no name: " + what(e));
  for (const e of document.querySelectorAll("table")) if (seen(e) && (!e.caption || !e.querySelector("th[scope]"))) out.push("a table without caption or heads: " + what(e));
  for (const e of document.querySelectorAll("p a[href]:not(.button)")) if (seen(e) && e.closest("p").textContent.trim() !== e.textContent.trim() && !getComputedStyle(e).textDecorationLine.includes("underline")) out.push("a link that only its colour tells from the text: " + what(e));
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of new Set(ids)) if (ids.filter((i) => i === id).length > 1) out.push("id twice: " + id);
  const parse = (s) => (s.match(/[\d.]+/g) || []).map(Number), light = ([r, g, b]) => { const f = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; }; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const over = (top, under) => { const a = top[3] ?? 1; return [0, 1, 2].map((i) => top[i] * a + under[i] * (1 - a)); };
  const rgb = (s) => { if (!s.startsWith("color(")) return parse(s); const p = parse(s.replace(/^color\(srgb/, "")); return [p[0] * 255, p[1] * 255, p[2] * 255, p[3] ?? 1]; };
  const ground = (e) => { const all = []; for (let x = e; x; x = x.parentElement) { const c = rgb(getComputedStyle(x).backgroundColor); all.push(c); if ((c[3] ?? 1) === 1) break; } return all.reverse().reduce((under, c) => over(c, under), [255, 255, 255]); };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), tested = new Set();
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || tested.has(e) || !seen(e) || e.closest("svg, .unseen, noscript, script, :disabled, option")) continue;
    tested.add(e);
    const style = getComputedStyle(e), back = ground(e), front = over(rgb(style.color), back);
    const [a, b] = [light(front), light(back)].sort((p, q) => q - p), ratio = (a + 0.05) / (b + 0.05), large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) out.push("contrast " + ratio.toFixed(2) + ": " + what(e));
  }
  if (innerWidth < 500) for (const e of document.querySelectorAll("button, a.button, select, input")) if (seen(e) && Math.min(e.offsetHeight, e.offsetWidth) < 20) out.push("too small to touch: " + what(e));
  return [...new Set(out)].slice(0, 12).join("\n");
})()`

// sound fails on what a person could not read, reach or hear, and on requests that leave the origin.
func (b *browser) sound(where string) {
	b.T.Helper()
	if text := b.Text(faults); text != "" {
		b.T.Errorf("%s:\n%s", where, text)
	}
	if out := b.Text(`performance.getEntriesByType("resource").filter((e) => !e.name.startsWith(location.origin + "/")).map((e) => e.name).join(" ")`); out != "" {
		b.T.Errorf("%s: requests left the origin: %s", where, out)
	}
	b.axe(where)
}

// axe runs axe-core where BERTH_AXE names its file (axe.min.js of the npm package axe-core, which is not part of this repository).
func (b *browser) axe(where string) {
	path := os.Getenv("BERTH_AXE")
	if path == "" {
		return
	}
	script, err := os.ReadFile(path)
	if err != nil {
		b.T.Fatal(err)
	}
	b.Do(`if (!window.axe) { ` + string(script) + ` }; window.found = null; window.axe.run(document, { resultTypes: ["violations"] }).then((r) => { window.found = r.violations.map((v) => v.id + " (" + v.impact + "): " + v.help + "\n    " + v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160)).join("\n    ")).join("\n") })`)
	b.Until(`window.found !== null`)
	if text := b.Text(`window.found`); text != "" {
		b.T.Errorf("%s: axe found:\n%s", where, text)
	}
}

// keep writes a picture where BERTH_PAGE_SHOTS names a folder.
func (b *browser) keep(name string) {
	b.T.Helper()
	if folder := os.Getenv("BERTH_PAGE_SHOTS"); folder != "" {
		b.Shoot(filepath.Join(folder, name+".png"))
	}
}

// TestViewsAtAnySize shows every view of a fleet with work on a telephone, a laptop and a large screen, dark and light.
func TestViewsAtAnySize(t *testing.T) {
	a := newAPIServer(t)
	a.fill(64)
	q := research()
	q.steps = told(64, time.Now().Add(-6*time.Hour), time.Now())
	atAnySize(t, a, q, "")
}

// TestFullLabAtAnySize is the same with a lab whose every GPU is held, and a long line with long names.
func TestFullLabAtAnySize(t *testing.T) {
	a := newAPIServer(t)
	atAnySize(t, a, fullLab(a), "full-")
}

func atAnySize(t *testing.T, a *apiServer, q *scripted, name string) {
	s := start(t, a, q, time.Second)
	b := browse(t, 1280, 800)
	b.open(s.Link())
	b.Until(`document.querySelector(".stage")?.dataset.painted`)
	for _, size := range []struct{ w, h int64 }{{360, 740}, {1280, 800}, {3840, 2160}} {
		for _, theme := range []string{"light", "dark"} {
			b.dress(size.w, size.h, theme)
			for _, v := range viewNames {
				hash := v
				if v == "why" {
					hash = "why?namespace=team-0&kind=job&name=llama"
				}
				b.goTo(hash)
				if got := b.Text(`[...document.querySelectorAll(".tiles dd.note")].filter((e) => getComputedStyle(e).backgroundColor !== "rgba(0, 0, 0, 0)").length + ""`); got != "0" { // what is said above the view looks so, and nothing in it
					t.Errorf("%s%s: %s figures look like a warning", name, v, got)
				}
				b.sound(fmt.Sprintf("%s%s at %d, %s", name, v, size.w, theme))
				b.keep(fmt.Sprintf("%s%s-%d-%s", name, v, size.w, theme))
			}
		}
	}
}

// TestReplayInThePage compares two instants, looks at the fleet of one of them, and goes through the log with the keyboard.
func TestReplayInThePage(t *testing.T) {
	a := newAPIServer(t)
	a.fill(64)
	q := research()
	q.steps = told(64, time.Now().Add(-6*time.Hour), time.Now())
	s := start(t, a, q, time.Second)
	b := browse(t, 1440, 900)
	b.open(s.Link())
	b.goTo("health?span=21600")
	b.Until(`document.querySelector(".chart path.use") && document.querySelector(".tiles")?.innerText.includes("GPU-h")`)
	drag := `const c = document.querySelector(".chart svg"), r = c.getBoundingClientRect(), e = (k, f) => c.dispatchEvent(new PointerEvent(k, { clientX: r.left + r.width * f, clientY: r.top + 80, pointerId: 1, bubbles: true }));
		e("pointerdown", 0.3); e("pointermove", 0.5); e("pointerup", 0.6)`
	b.Do(drag)
	b.Until(`document.querySelector(".differ[data-done] table")?.innerText.includes("starts")`)
	b.Until(`/from=\d+&to=\d+/.test(location.hash) && document.querySelector(".moments").innerText.includes("train-3")`)
	b.sound("difference")
	b.shoot("difference")
	b.Do(`document.querySelector(".side-by a.button").click()`)
	b.Until(`document.querySelector(".replay")?.dataset.at && document.querySelector(".sum").innerText.startsWith("512 GPUs on 64 nodes")`)
	was := b.Text(`document.querySelector(".replay").dataset.at`)
	b.sound("replay")
	b.shoot("replay")
	b.Do(`document.querySelector(".replay button[aria-label='A step back']").click()`)
	b.Until(fmt.Sprintf(`document.querySelector(".replay").dataset.at !== %q`, was))
	b.Do(`document.querySelector(".replay a.button").click()`)
	b.Until(`!location.hash.includes("at=") && document.querySelector(".replay").hidden`)
	b.goTo("ledger?span=21600")
	b.Until(`document.querySelector("table.costs tbody")?.innerText.includes("vision")`)
	all := b.Number(`parseFloat([...document.querySelectorAll("tr.sum td.num")][0].innerText.replace(",", ""))`)
	b.Do(drag)
	b.Until(fmt.Sprintf(`location.hash.includes("from=") && parseFloat([...document.querySelectorAll("tr.sum td.num")][0].innerText.replace(",", "")) < %f`, all/2))
	b.Do(`document.querySelector("button[title='Save berth-cost.csv']").click()`)
	b.Until(`performance.getEntriesByType("resource").some((e) => e.name.includes("api/cost?") && e.name.includes("format=csv") && e.name.includes("from=" + new URLSearchParams(location.hash.split("?")[1]).get("from")))`)
	// Every step is the one before less what was lost there; the figures are those of the bill of the span, and what is held adds up.
	b.Do(`const p = new URLSearchParams(location.hash.split("?")[1]); fetch("api/cost?" + new URLSearchParams({ by: "queue", from: p.get("from"), to: p.get("to") }), { headers: { "Berth-Key": JSON.parse(localStorage.berth).key } }).then((r) => r.json()).then((v) => { window.bill = v })`)
	b.Until(`window.bill && (() => {
		const v = window.bill, by = Object.fromEntries(v.unusedBy.map((r) => [r.name, r.gpuMilliseconds])), steps = ["paid", "registered", "ready", "advertised", "healthy", "schedulable", "allocated"];
		let left = v.paid.gpuMilliseconds;
		const want = steps.map((s, i) => [s, left -= by[steps[i - 1]] || 0]).concat([["kept", left - v.paid.lostGPUMilliseconds]]);
		const got = [...document.querySelectorAll(".hours [data-ms]")].map((e) => [e.dataset.step, Number(e.dataset.ms)]);
		return JSON.stringify(want) === JSON.stringify(got) && v.rows.reduce((n, r) => n + r.gpuMilliseconds, 0) === got[6][1] && got[6][1] > 0 && got[1][1] > got[2][1] && got[2][1] > got[3][1];
	})()`)
	b.Until(`document.querySelector(".hours [data-step=busy]").innerText.includes("?")`) // nobody measured
	was = b.Text(`document.querySelector(".hours").innerText + location.hash`)
	b.Do(`location.reload()`) // the span is in the address
	b.Until(fmt.Sprintf(`document.querySelector(".hours") && document.querySelector(".hours").innerText + location.hash === %q`, was))
	b.Until(`document.querySelector(".chart svg")`)
	b.Do(`document.querySelector(".chart svg").focus()`)
	b.Press(kb.Escape)
	b.Until(`!location.hash.includes("from=")`)
	for range 3 {
		b.Do(`document.querySelector(".chart svg").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }))`)
	}
	for range 3 {
		b.Do(`document.querySelector(".chart svg").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", shiftKey: true, bubbles: true }))`)
	}
	b.Until(`/from=\d+/.test(location.hash)`)
	b.Do(fmt.Sprintf(`location.hash = %q`, was[strings.LastIndex(was, "#"):]))
	b.Until(`document.querySelector("table.costs tbody")?.innerText.includes("vision")`)
	b.sound("costs")
	b.Do(`document.querySelector("table.costs").scrollIntoView({ block: "end" })`)
	b.shoot("costs")
}

// TestChartIsNotTakenAway draws the chart again, as new data does every ten seconds, while somebody has the focus on it, and while they drag.
func TestChartIsNotTakenAway(t *testing.T) {
	a := newAPIServer(t)
	a.fill(16)
	q := research()
	q.steps = told(16, time.Now().Add(-6*time.Hour), time.Now())
	s := start(t, a, q, time.Second)
	b := browse(t, 1280, 800)
	b.open(s.Link())
	b.goTo("ledger?span=21600")
	b.Until(`document.querySelector(".chart path.use")`)
	b.Do(`window.first = document.querySelector(".chart svg"); first.focus()`)
	b.Resize(1200, 800)
	b.Until(`!document.contains(window.first) && document.activeElement === document.querySelector(".chart svg")`)
	b.Do(`window.second = document.querySelector(".chart svg"); const r = second.getBoundingClientRect(); window.drag = (k, f) => window.second.dispatchEvent(new PointerEvent(k, { clientX: r.left + r.width * f, clientY: r.top + 80, pointerId: 1, bubbles: true })); drag("pointerdown", 0.3); drag("pointermove", 0.4)`)
	b.Resize(1100, 800)
	time.Sleep(200 * time.Millisecond)
	b.Do(`drag("pointermove", 0.5); drag("pointerup", 0.6)`)
	b.Until(`/from=\d+&to=\d+/.test(location.hash) && !document.contains(window.second)`)
}

// TestOtherOrigin is a page from elsewhere in the same browser, which is signed in: it can read nothing, and embed nothing.
func TestOtherOrigin(t *testing.T) {
	a := newAPIServer(t)
	a.fill(8)
	s := start(t, a, research(), time.Second)
	b := browse(t, 800, 600)
	b.open(s.Link())
	b.Until(`document.querySelector("#age").innerText === "live"`)
	mine := "http://" + s.listener.Addr().String()
	b.Navigate(elsewhere(t))
	b.Do(fmt.Sprintf(`window.got = {}; const mine = %q;
		const tell = (k) => [(r) => { window.got[k] = "read " + (r.status ?? "") }, () => { window.got[k] = "refused" }];
		fetch(mine + "/api/about", { credentials: "include" }).then(...tell("fetch"));
		fetch(mine + "/api/about", { credentials: "include", mode: "no-cors" }).then((r) => r.text()).then((t) => { window.got.opaque = t ? "read" : "refused" }, () => { window.got.opaque = "refused" });
		const script = document.createElement("script"); script.src = mine + "/app.js"; script.onload = () => { window.got.script = "read" }; script.onerror = () => { window.got.script = "refused" }; document.head.append(script);
		const image = new Image(); image.onload = () => { window.got.image = "read" }; image.onerror = () => { window.got.image = "refused" }; image.src = mine + "/icon.svg";
		const e = new EventSource(mine + "/api/stream", { withCredentials: true }); e.onopen = () => { window.got.stream = "read" }; e.onerror = () => { window.got.stream = "refused"; e.close() };
		const f = document.createElement("iframe"); f.src = mine + "/"; f.onload = () => { try { window.got.frame = f.contentDocument?.body.innerText ? "read" : "refused" } catch { window.got.frame = "refused" } }; document.body.append(f)`, mine))
	b.Until(`["fetch", "opaque", "script", "image", "stream", "frame"].every((k) => window.got[k])`)
	for _, k := range []string{"fetch", "opaque", "script", "image", "stream", "frame"} {
		if got := b.Text(`window.got.` + k); got != "refused" {
			t.Errorf("%s from another origin: %s", k, got)
		}
	}
}

// elsewhere is a page of another origin.
func elsewhere(t *testing.T) string {
	t.Helper()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<!doctype html><title>elsewhere</title><body></body>")
	}))
	t.Cleanup(other.Close)
	return other.URL
}

// TestFaultsAreFound holds the search for faults to pages that have them.
func TestFaultsAreFound(t *testing.T) {
	s := start(t, newAPIServer(t), research(), time.Second)
	b := browse(t, 400, 700)
	b.open(s.Link())
	b.Until(`document.querySelector("#age").innerText === "live"`)
	b.dress(400, 700, "light")
	for want, script := range map[string]string{
		"contrast":           `x.textContent = "pale"; x.style.color = "rgb(200, 200, 200)"; x.style.background = "white"`,
		"no name":            `x.append(document.createElement("button"))`,
		"only its colour":    `const p = document.createElement("p"), y = document.createElement("a"); y.href = "#fleet"; y.textContent = "fleet"; y.style.textDecoration = "none"; p.append("See the ", y, "."); x.append(p)`,
		"scrolls sideways":   `x.textContent = "wide"; x.style.width = "4000px"; document.documentElement.append(x)`,
		"without caption":    `x.append(document.createElement("table")); x.firstChild.insertRow().insertCell().textContent = "1"`,
		"id twice":           `x.id = "main"; x.textContent = "again"`,
		"too small to touch": `const y = document.createElement("button"); y.textContent = "x"; y.style.minHeight = y.style.height = "9px"; y.style.padding = "0"; x.append(y)`,
	} {
		b.Do(`document.querySelectorAll(".x-test").forEach((e) => e.remove()); const x = document.createElement("div"); x.className = "x-test"; document.body.append(x); ` + script)
		if text := b.Text(faults); !strings.Contains(text, want) {
			t.Errorf("%s is not found: %q", want, text)
		}
	}
}

// TestKeyboard uses the page without a mouse: every view, the search, the fleet, a chart, and the way through all there is to reach.
func TestKeyboard(t *testing.T) {
	a := newAPIServer(t)
	a.fill(64)
	q := research()
	q.steps = told(64, time.Now().Add(-6*time.Hour), time.Now())
	s := start(t, a, q, time.Second)
	b := browse(t, 1280, 800)
	b.open(s.Link())
	b.Until(`document.querySelector(".stage")?.dataset.painted`)
	for i, v := range viewNames {
		b.Press(fmt.Sprint(i + 1))
		b.Until(fmt.Sprintf(`document.querySelector("main").className.startsWith(%q) && document.querySelector("#tabs a[aria-current]").dataset.view === %q`, v, v))
	}
	b.Press("1")
	b.Until(`document.querySelector("main").className.startsWith("fleet")`)
	b.Press("/")
	b.Until(`document.activeElement.type === "search"`)
	b.Do(`document.activeElement.value = ""`) // a key of the protocol types its letter even where the page takes the key
	b.Press("gpu-0013")
	b.Until(`document.querySelector(".sum").innerText.startsWith("8 GPUs match on 1 node") && location.hash.includes("q=gpu-0013")`)
	b.Do(`const s = document.querySelector("input[type=search]"); s.value = ""; s.dispatchEvent(new Event("input")); document.querySelector("canvas").focus()`)
	b.Press(kb.ArrowRight)
	b.Press(kb.ArrowRight)
	b.Until(`/^gpu-\d+: \d+ /.test(document.querySelector("#live").textContent)`)
	b.Press("\r")
	b.Until(`location.hash.includes("sel=gpu-") && !document.querySelector(".detail").hidden`)
	b.Press(kb.Escape)
	b.Until(`!location.hash.includes("sel=")`)
	b.goTo("health?span=21600")
	b.Until(`document.querySelector(".chart path.use")`)
	b.Do(`document.querySelector(".chart svg").focus()`)
	b.Press(kb.ArrowLeft)
	b.Until(`document.querySelector(".differ:not([hidden])")?.dataset.done`)
	// Tab goes from the top through everything once, and everything that has the focus shows it.
	b.goTo("queues")
	b.Do(`document.querySelector(".skip").focus(); window.tabbed = []; addEventListener("focusin", (e) => { const s = getComputedStyle(e.target); window.tabbed.push([e.target.tagName, (e.target.textContent || "").slice(0, 20), s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0]) })`)
	for range 14 {
		b.Press("\t")
	}
	order := b.Text(`window.tabbed.map((t) => t[1] || t[0]).join(" | ")`)
	if !strings.HasPrefix(order, "Fleet | Queues | Why | Ledger | Health | Dark | Queues with quota an | research | ") {
		t.Errorf("Tab goes %s", order)
	}
	if blind := b.Text(`window.tabbed.filter((t) => !t[2]).map((t) => t[0] + " " + t[1]).join(" | ")`); blind != "" {
		t.Errorf("no sign of the focus on %s", blind)
	}
}

// TestPrint has every view on paper: light, without what only a screen is for, and not cut off.
func TestPrint(t *testing.T) {
	a := newAPIServer(t)
	a.fill(16)
	q := research()
	q.steps = told(16, time.Now().Add(-time.Hour), time.Now())
	s := start(t, a, q, time.Second)
	b := browse(t, 1000, 700)
	b.open(s.Link())
	b.Until(`document.querySelector(".stage")?.dataset.painted`)
	b.dress(1000, 700, "dark")
	for _, v := range viewNames {
		b.goTo(v)
		b.Do(`dispatchEvent(new Event("beforeprint"))`)
		b.Media("print")
		b.Until(`document.documentElement.dataset.theme === "light" && document.querySelector("nav").getClientRects().length === 0`)
		b.Until(`getComputedStyle(document.querySelector("main")).overflow === "visible" && document.querySelector("main").scrollHeight <= document.documentElement.scrollHeight`)
		if v == "fleet" { // the legend has the colours of the picture
			b.Until(`(() => { const probe = document.createElement("i"); probe.style.background = "var(--allocated)"; document.body.append(probe); const want = getComputedStyle(probe).backgroundColor; probe.remove(); return getComputedStyle(document.querySelector(".legend i")).backgroundColor === want })()`)
		}
		if b.Text(`document.querySelector("main").innerText.trim()`) == "" {
			t.Errorf("%s prints nothing", v)
		}
		b.keep("print-" + v)
		b.Media("")
		b.Do(`dispatchEvent(new Event("afterprint"))`)
		b.Until(`document.documentElement.dataset.theme === "dark"`)
	}
}

// TestNothingIsTakenAway has everything drawn again, as it is from time to time, while somebody is in the midst of it: the focus stays where it
// is, what is unfolded stays unfolded, and what is selected stays selected.
func TestNothingIsTakenAway(t *testing.T) {
	a := newAPIServer(t)
	a.fill(16)
	q := research()
	s := start(t, a, q, time.Second)
	b := browse(t, 1280, 800)
	b.open(s.Link())
	b.goTo("fleet?view=table")
	b.Until(`document.querySelectorAll("table.nodes button.name").length === 16`)
	b.Do(`document.querySelectorAll("table.nodes button.name")[4].focus()`)
	for _, node := range []string{"gpu-0004", "gpu-0009", "gpu-0014"} { // the row itself, too
		a.put("pods", gpuPod("team-0", "arrives-"+node, node, 8))
	}
	b.Until(`[...document.querySelectorAll("table.nodes tbody tr")].filter((r) => /\s8\s+0\s+8\s/.test(r.innerText)).length >= 3`)
	if got := b.Text(`document.activeElement.textContent`); got != "gpu-0004" {
		t.Errorf("in the table of nodes the focus went to %.40q", got)
	}
	b.goTo("queues")
	b.Until(`document.querySelectorAll("table.queues button.name").length === 4`)
	b.Do(`window.drawn = 0; new MutationObserver(() => window.drawn++).observe(document.querySelector("table.line tbody"), { childList: true, subtree: true });
		window.at = document.querySelectorAll("table.queues button.name")[2]; at.focus(); getSelection().selectAllChildren(document.querySelector("table.queues tbody tr:last-child"));
		const age = document.querySelectorAll("table.line tbody td")[4]; age.textContent = "long ago"`) // so that it is seen when it is drawn again
	b.Until(`window.drawn > 0 && !document.querySelector("table.line tbody").innerText.includes("long ago")`)
	if got := b.Text(`document.activeElement.textContent + " | " + getSelection().toString().split(/\s/)[0]`); got != "language | serving" {
		t.Errorf("the focus and the selection went to %.60q", got)
	}
	b.goTo("why?namespace=team-0&kind=job&name=llama")
	b.Until(`document.querySelector("details summary")`)
	b.Do(`window.asked = performance.getEntriesByType("resource").length; document.querySelector("details summary").click(); document.querySelector(".fix .copy").focus()`)
	b.Until(`performance.getEntriesByType("resource").slice(window.asked).some((e) => e.name.includes("api/why?") && e.responseEnd > 0)`)
	time.Sleep(300 * time.Millisecond)
	if got := b.Text(`document.activeElement.textContent + " " + document.querySelector("details").open`); got != "Copy true" {
		t.Errorf("the diagnosis that is asked for again: %q", got)
	}
}

// TestEveryViewByKeyboard goes through each view with Tab alone: everything that can be used is reached, shows that it has the focus, has a name,
// and is left again.
func TestEveryViewByKeyboard(t *testing.T) {
	a := newAPIServer(t)
	a.fill(16)
	q := research()
	q.steps = told(16, time.Now().Add(-6*time.Hour), time.Now())
	s := start(t, a, q, time.Second)
	b := browse(t, 1280, 800)
	b.open(s.Link())
	b.Until(`document.querySelector("#age").innerText === "live"`)
	for _, v := range []string{"fleet", "fleet?view=table&sel=gpu-0001", "fleet?at=log", "queues?queue=vision", "why", "why?namespace=team-0&kind=job&name=llama", "ledger", "health?span=21600"} {
		b.goTo(v)
		time.Sleep(400 * time.Millisecond)
		b.Do(`document.activeElement.blur(); getSelection().removeAllRanges(); window.reached = new Set(); window.round = 0; window.unseen = [];
			window.use = () => [...document.querySelectorAll("a[href], button, input, select, canvas, summary, [tabindex='0']")].filter((e) => e.checkVisibility() && !e.disabled && e.tabIndex >= 0);
			if (window.watching) removeEventListener("focusin", window.watching);
			addEventListener("focusin", window.watching = (e) => { if (reached.has(e.target)) round++; reached.add(e.target); const s = getComputedStyle(e.target); if (!(s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0) && !e.target.matches(".skip")) unseen.push(e.target.outerHTML.slice(0, 60)) });
			document.querySelector(".skip").focus()`)
		for i := 0; i < 200 && b.Number(`window.use().every((e) => reached.has(e)) ? 1 : 0`) == 0; i++ {
			b.Press("\t")
		}
		if got := b.Text(`window.use().filter((e) => !reached.has(e)).map((e) => e.outerHTML.slice(0, 80)).join("; ")`); got != "" {
			t.Errorf("%s: Tab does not reach %.400s", v, got)
		}
		if got := b.Text(`window.unseen.join("; ")`); got != "" {
			t.Errorf("%s: no sign of the focus on %.400s", v, got)
		}
	}
}
