import { h, fill, svg, count, plural, span, ask } from "./dom.js";
import { onChange, waiting, now } from "./store.js";
import { link, set } from "./url.js";

// target is the share of GPUs in use that fleets are held to.
const target = 0.7;

export function show(main, params) {
  const chart = h("div.chart"), facts = h("dl.facts"), causes = h("div"), events = h("div"), moments = h("ul.moments");
  main.append(
    h("section.panel", h("h2", "Use over time"), h("p.hint", "GPUs that pods hold, of those that can be used. Kept in memory since `berth ui` was started. Drag over the chart to see the decisions of that time."), chart, facts),
    h("section.panel", h("h2", "What holds work up"), causes),
    h("section.panel", h("h2", "Decisions"), events, moments));
  let data = { samples: [], moments: [] }, from = Number(params.get("from")) || 0, to = Number(params.get("to")) || 0;
  let stopped = new AbortController();

  function plot() {
    const w = Math.max(280, chart.clientWidth), height = 220, left = 40, bottom = 22, s = data.samples;
    if (s.length < 2) { fill(chart, h("p.hint", "The first minute has not passed: a sample is kept every 5 seconds.")); return; }
    const first = s[0].at, last = s[s.length - 1].at, x = (t) => left + ((w - left - 8) * (t - first)) / Math.max(1, last - first), y = (v) => 8 + (height - bottom - 8) * (1 - Math.min(1, v));
    const share = (p) => (p.schedulable > 0 ? Math.min(1, p.allocated / p.schedulable) : 0);
    const path = s.map((p, i) => `${i ? "L" : "M"}${x(p.at).toFixed(1)} ${y(share(p)).toFixed(1)}`).join("");
    const most = Math.max(1, ...s.map((p) => p.waitingGPUs));
    const wait = s.map((p, i) => `${i ? "L" : "M"}${x(p.at).toFixed(1)} ${y(p.waitingGPUs / most).toFixed(1)}`).join("");
    const ticks = [0, 0.25, 0.5, 0.75, 1];
    const root = svg("svg", { viewBox: `0 0 ${w} ${height}`, width: w, height, role: "img", "aria-label": `Use is ${Math.round(100 * share(s[s.length - 1]))} percent now` },
      ticks.map((t) => [svg("line", { x1: left, x2: w - 8, y1: y(t), y2: y(t), class: "grid" }), text(left - 6, y(t) + 4, `${t * 100}%`, "end")]).flat(),
      svg("path", { d: `${path}L${x(last)} ${y(0)}L${x(first)} ${y(0)}Z`, class: "area" }), svg("path", { d: path, class: "use" }),
      svg("path", { d: wait, class: "waits" }),
      svg("line", { x1: left, x2: w - 8, y1: y(target), y2: y(target), class: "target" }), text(w - 10, y(target) - 5, "70 %", "end", "target"),
      s.filter((p) => p.preempted).map((p) => svg("line", { x1: x(p.at), x2: x(p.at), y1: y(0), y2: y(0) - 12, class: "preempted" })),
      from && svg("rect", { x: x(Math.max(first, from)), width: Math.max(2, x(Math.min(last, to)) - x(Math.max(first, from))), y: 8, height: height - bottom - 8, class: "brush" }),
      [first, (first + last) / 2, last].map((t, i) => text(x(t), height - 6, new Date(t).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" }), ["start", "middle", "end"][i])));
    const time = (e) => first + ((e.offsetX * (w / root.clientWidth || 1) - left) / (w - left - 8)) * (last - first);
    root.addEventListener("pointerdown", (e) => {
      const begin = time(e);
      const up = (e) => { root.removeEventListener("pointerup", up); const a = Math.round(Math.min(begin, time(e))), b = Math.round(Math.max(begin, time(e))); [from, to] = b - a > 1000 ? [a, b] : [0, 0]; set({ from: from || "", to: to || "" }); plot(); list(); };
      root.addEventListener("pointerup", up);
    });
    fill(chart, root, h("p.legend", h("span.key.use", "held"), h("span.key.waits", `GPUs that waiting work asks for (top: ${count(most)})`), h("span.key.preempted", "preemptions")));
    const lately = s.slice(-Math.ceil(3600000 / data.every)), mean = lately.reduce((n, p) => n + share(p), 0) / lately.length, hours = (last - first) / 3600000, preempted = s.reduce((n, p) => n + p.preempted, 0);
    fill(facts, pair("Use now", `${Math.round(100 * share(s[s.length - 1]))} %`), pair("Mean, last hour", `${Math.round(100 * mean)} %`, mean < target ? "below 70 %" : ""), pair("Wait, half less than", data.waits.n ? span(1000 * data.waits.p50) : "–"), pair("Wait, 95 % less than", data.waits.n ? span(1000 * data.waits.p95) : "–", data.waits.n ? plural(data.waits.n, "start") : "no start seen yet"), pair("Preemptions", count(preempted), hours > 0.05 ? `${(preempted / hours).toFixed(1)} an hour` : ""));
  }
  const pair = (t, d, note) => h("div", h("dt", t), h("dd", d), note && h("dd.note", note));
  const text = (x, y, s, anchor, cls) => { const e = svg("text", { x, y, "text-anchor": anchor, class: cls }); e.textContent = s; return e; };

  function bottleneck() {
    const by = new Map();
    for (const w of waiting()) { const c = by.get(w.cause || "unknown") || [0, 0]; by.set(w.cause || "unknown", [c[0] + 1, c[1] + w.gpus]); }
    const all = [...by].sort((a, b) => b[1][1] - a[1][1]), most = Math.max(1, ...all.map(([, [, g]]) => g));
    fill(causes, all.length ? all.map(([c, [n, g]]) => h("div.cause", h("code", c), h("span.track", h("span.lost", { style: { width: `${(100 * g) / most}%` } })), h("span.num", `${plural(n, "workload")}, ${plural(g, "GPU")}`))) : h("p.hint", "Nothing waits."));
  }

  async function list() {
    stopped.abort();
    stopped = new AbortController();
    if (!from) {
      fill(events, h("p.hint", data.moments.length ? "What the page has seen, the latest first." : "Nothing has happened since the page looks."));
      fill(moments, data.moments.slice(0, 200).map((m) => line(m.at, m.what, m.title, m.text || (m.gpus ? plural(m.gpus, "GPU") : ""))));
      return;
    }
    fill(events, h("p.busy", "Reading the decision log…"));
    try {
      const a = await ask("happened", { from, to }, stopped.signal);
      fill(events, h("p.hint", `Decision log, ${new Date(from).toLocaleTimeString()} to ${new Date(to).toLocaleTimeString()}: ${plural(a.Items.length, "change")}.`), h("button", { type: "button", onclick: () => { from = to = 0; set({ from: "", to: "" }); plot(); list(); } }, "All"));
      fill(moments, a.Items.slice(0, 500).map((m) => line(Date.parse(m.now), m.what, m.workload, m.what === "starts" ? `${m.kind}: ${plural(m.placements?.length || 0, "pod")} on ${plural(new Set((m.placements || []).map((p) => p.node)).size, "node")}` : m.sentence || "")));
    } catch (err) { if (err.name !== "AbortError") fill(events, h("p.bad", err.message)); }
  }
  const line = (at, what, title, text) => h("li." + what.replace(" ", "-"), h("time", new Date(at).toLocaleTimeString()), h("b", what), h("span", title), h("em", text));

  async function look() {
    try { data = await ask("history", {}); plot(); if (!from) list(); } catch (err) { fill(events, h("p.bad", err.message)); }
  }
  look();
  bottleneck();
  if (from) list();
  const again = setInterval(() => { if (!document.hidden) look(); }, 5000);
  const stop = onChange((kinds) => { if (kinds.has("workload")) bottleneck(); });
  const resized = new ResizeObserver(() => { if (data.samples.length) plot(); });
  resized.observe(main);
  return () => { clearInterval(again); stop(); resized.disconnect(); stopped.abort(); };
}
