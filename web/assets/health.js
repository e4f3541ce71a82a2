import { h, fill, scroll, count, plural, span, ask } from "./dom.js";
import { onChange, waiting, unread, now } from "./store.js";
import { link, set, times } from "./url.js";
import { back, blind, chart, clock, past, share, spanPicker, target } from "./chart.js";

const hours = (n) => (n === 0 ? "0" : n < 10 ? n.toFixed(2) : count(n));

export function show(main, params) {
  let seconds = back(params, 3600), [from, to] = times(params);
  let data = { points: [], waits: { n: 0 } }, stopped = new AbortController(), reading = new AbortController();
  const drawn = h("div.chart"), facts = h("dl.tiles"), causes = h("div"), events = h("div"), moments = h("ul.moments"), said = h("p.hint"), differ = h("section.panel.differ", { hidden: true, "aria-live": "polite" });
  const picture = chart(drawn, { pick: (a, b) => { from = a; to = b; set({ from: a || "", to: b || "" }); compare(); list(); } });
  main.append(
    h("section.panel", h("div.head", h("h2", "Use over time"), h("span.grow"), spanPicker(seconds, (n) => { seconds = n; set({ span: n === 3600 ? "" : n }); look(); })), said, drawn, facts),
    differ,
    h("div.columns", h("section.panel", h("h2", "What holds work up"), causes), h("section.panel", h("h2", "What happened"), events, moments)));

  const tile = (t, d, note, cls) => h("div" + (cls ? "." + cls : ""), h("dt", t), h("dd", d), h("dd.note", note || "\u00a0"));
  function figures() {
    const s = data.points.filter((p) => p.gpus !== null), last = s[s.length - 1];
    if (!last) { fill(facts); return; }
    const had = s.filter((p) => p.gpus > 0), mean = had.reduce((n, p) => n + share(p), 0) / Math.max(1, had.length), preempted = s.reduce((n, p) => n + p.preempted, 0), lost = s.reduce((n, p) => n + p.lost, 0), long = Math.max(1, last.at - s[0].at) / 3600000;
    const wait = (v) => (data.waits.n ? span(1000 * v) : "–"), starts = data.waits.n ? plural(data.waits.n, "start") : "no start in this time";
    fill(facts,
      tile("Use now", last.gpus > 0 ? `${Math.round(100 * share(last))} %` : "–", blind(s) ? "nodes may not be read" : `${count(last.held)} of ${plural(last.gpus, "GPU")}`),
      had.length ? tile("Mean use", `${Math.round(100 * mean)} %`, mean < target ? "below the 70 % target" : "at or above 70 %", mean < target ? "short" : "fine") : tile("Mean use", "–", blind(s) ? "not known" : "no GPUs in this time"),
      tile("Wait, median", wait(data.waits.p50), starts), tile("Wait, p95", wait(data.waits.p95), data.waits.n ? `p99 ${wait(data.waits.p99)}` : ""),
      tile("Preemptions", count(preempted), long > 0.05 ? `${(preempted / long).toFixed(1)} pods an hour` : "pods that lost work", preempted ? "short" : ""),
      tile("Lost work", data.logged ? `${hours(lost)} GPU-h` : "unknown", data.logged ? "to do again after preemption" : "needs the decision log"));
  }

  function bottleneck() {
    const by = new Map();
    for (const w of waiting()) { const c = by.get(w.cause || "unknown") || [0, 0]; by.set(w.cause || "unknown", [c[0] + 1, c[1] + w.gpus]); }
    const all = [...by].sort((a, b) => b[1][1] - a[1][1]), most = Math.max(1, ...all.map(([, [, g]]) => g));
    fill(causes, h("p.hint", all.length ? "GPUs that waiting work asks for, by the cause that binds it now." : ""), all.length ? all.map(([c, [n, g]]) => h("div.cause", h("code", c), h("span.track", h("span.lost", { style: { width: `${(100 * g) / most}%` } })), h("span.num", `${plural(n, "workload")}, ${plural(g, "GPU")}`))) : h("p.empty", unread() || "Nothing waits."));
  }

  const side = (t, s) => h("div.side-by", h("h3", t), h("p.big", `${count(s.held)} of ${count(s.gpus)}`), h("p.hint", `GPUs held on ${plural(s.nodes, "node")}`), h("p.hint", `${plural(s.running, "workload")} with GPUs, ${count(s.waitingWork)} waiting for ${plural(s.waiting, "GPU")}`), h("a.button", { href: link("fleet", { at: s.at }) }, "See the fleet then"));
  const arrow = (b, a) => (b === a ? count(a) : `${count(b)} → ${count(a)}`);
  async function compare() {
    reading.abort();
    reading = new AbortController();
    differ.hidden = !from;
    if (!from) return;
    fill(differ, h("p.busy", "Reading the decision log…"));
    const close = h("button", { type: "button", "aria-label": "Clear the choice", onclick: () => picture.choose([0, 0]) }, "×");
    try {
      const d = await ask("difference", { from, to }, reading.signal);
      const one = from === to;
      const names = (list) => list.slice(0, 12).join(", ") + (list.length > 12 ? ` and ${list.length - 12} more` : "");
      fill(differ, h("div.head", h("h2", one ? `At ${clock(from, true)}` : `Between ${clock(from, true)} and ${clock(to, true)}`), close),
        h("div.pair", side(one ? "Then" : clock(from, true), d.before), !one && side(clock(to, true), d.after)),
        !one && (d.work.length ? scroll(h("table", h("caption.unseen", "Work that differs"), h("thead", h("tr", ["Workload", "Queue", "Became", "GPUs", "Waiting for", "Nodes"].map((t, i) => h(i > 2 ? "th.num" : "th", { scope: "col" }, t)))),
          h("tbody", d.work.slice(0, 200).map((w) => h("tr", h("th", { scope: "row" }, w.key), h("td", w.after.queue || w.before.queue || "–"), h("td", h("b.became." + w.what.replace(/ /g, "-"), w.what)), h("td.num", arrow(w.before.held, w.after.held)), h("td.num", arrow(w.before.waiting, w.after.waiting)), h("td.num", arrow(w.before.nodes, w.after.nodes))))))) : h("p.empty", "No work differs between the two.")),
        d.work.length > 200 && h("p.hint", `and ${count(d.work.length - 200)} more`),
        d.came.length > 0 && h("p.hint", `Nodes that came: ${names(d.came)}`), d.went.length > 0 && h("p.hint", `Nodes that went: ${names(d.went)}`));
      differ.dataset.done = `${from}-${to}`;
    } catch (err) { if (err.name !== "AbortError") fill(differ, h("div.head", h("h2", `At ${clock(from, true)}`), close), h("p.warn", err.message)); }
  }

  async function list() {
    if (!from || from === to) {
      const seen = data.moments || [];
      fill(events, h("p.hint", seen.length ? "What this page has seen, the latest first." : "Nothing has happened since this page was opened. Drag over the chart to read the decisions of that time."));
      fill(moments, seen.slice(0, 200).map((m) => line(m.at, m.what, m.title, m.text || (m.gpus ? plural(m.gpus, "GPU") : ""))));
      return;
    }
    fill(events, h("p.busy", "Reading the decision log…"));
    try {
      const a = await ask("happened", { from, to }, reading.signal);
      fill(events, h("p.hint", `Decision log, ${clock(from, true)} to ${clock(to, true)}: ${plural(a.Items.length, "change")}.`));
      fill(moments, a.Items.slice(0, 500).map((m) => line(Date.parse(m.now), m.what, m.workload, m.what === "starts" ? `${m.kind}: ${plural(m.placements?.length || 0, "pod")} on ${plural(new Set((m.placements || []).map((p) => p.node)).size, "node")}` : m.sentence || "")));
    } catch (err) { if (err.name !== "AbortError") fill(events, h("p.warn", err.message)); }
  }
  const line = (at, what, title, text) => h("li." + what.replace(" ", "-"), h("time", clock(at, true)), h("b", what), h("span", title), h("em", text));

  async function look() {
    stopped.abort();
    stopped = new AbortController();
    const end = now();
    try {
      const [p, seen] = await Promise.all([past(end - seconds * 1000, end, Math.min(360, Math.max(60, seconds / 5)), stopped.signal), ask("history", {}, stopped.signal)]);
      data = { ...p, moments: seen.moments };
      said.textContent = p.logged ? `GPUs that pods hold, of all there are, from the decision log${p.since > end - seconds * 1000 ? `, which begins at ${clock(p.since)}` : ""}. Drag over the chart to compare two instants; click for one.` : `GPUs that pods hold, of those that can be used, as this page has seen it: ${p.why}.`;
      picture.set(data, Math.max(end - seconds * 1000, p.since), end, [from, to]);
      figures();
      if (!from || from === to) list();
    } catch (err) {
      if (err.name === "AbortError") return;
      fill(drawn, h("p.bad", err.message));
      if (!events.firstChild) fill(events, h("p.hint", "Not known."));
    }
  }
  look();
  bottleneck();
  if (from) { compare(); list(); }
  const again = setInterval(() => { if (!document.hidden) look(); }, 10000);
  const stop = onChange((kinds) => { if (kinds.has("workload") || kinds.has("line")) bottleneck(); });
  return () => { clearInterval(again); stop(); picture.stop(); stopped.abort(); reading.abort(); };
}
