import { h, fill, scroll, count, plural, span, ask, copyable, csv } from "./dom.js";
import { one, set, times } from "./url.js";
import { now } from "./store.js";
import { back, chart, clock, past, spanPicker } from "./chart.js";
import { notSeen } from "./rights.js";

const stages = ["paid", "launched", "registered", "ready", "advertised", "healthy", "schedulable", "allocated", "busy"];

// money is amounts in words. What nobody gave a price for is unknown, never zero.
function money(amounts, gpus, unpriced) {
  const known = (amounts || []).map((a) => `${(a.micro / 1e6).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })} ${a.currency}`);
  if (!gpus) return "–";
  if (!known.length || unpriced === gpus) return "unknown";
  return known.concat(unpriced ? [`${plural(unpriced, "GPU")} unknown`] : []).join(" + ");
}

const ways = ["reservation", "pool", "zone", "cause"], accounts = ["queue", "namespace", "user", "experiment"];

export function show(main, params) {
  let by = one(params.get("by"), ways);
  const body = h("div"), select = h("select", { "aria-label": "Rows by", onchange: () => { by = select.value; set({ by }); look(); } }, ways.map((v) => h("option", { value: v, selected: v === by }, v)));
  main.append(h("section.panel", h("div.head", h("h2", "Where paid GPUs go, now"), h("label", "Rows by ", select), csv("capacity", "berth-capacity.csv", () => ({ by })), h("span.grow"), copyable(`berth capacity --by ${by}`)), body));
  const account = costs(main, params);
  let stopped = new AbortController();

  // measured says that somebody told which GPUs work: without it, none being busy is not known.
  const measured = (v) => v.total.reached.busy > 0 || v.lost.some((l) => l.cause === "idle-allocation");

  function waterfall(v) {
    const paid = v.total.reached.paid || 0;
    return h("div.waterfall", { role: "table", "aria-label": "GPUs by step" }, h("div.step.units", { role: "row" }, h("span", { role: "columnheader" }, "step"), h("span.track", { role: "presentation" }), h("span.num", { role: "columnheader" }, "GPUs"), h("span.num.minus", { role: "columnheader" }, "lost here")), stages.map((s, i) => {
      const n = v.total.reached[s] || 0, before = i ? v.total.reached[stages[i - 1]] || 0 : n, lost = before - n;
      const unknown = s === "busy" && !measured(v) && before > 0;
      return h("div.step", { role: "row" }, h("span.label", { role: "rowheader" }, s), h("span.track", { role: "presentation" },
        h("span.reached." + (i > 6 ? "used" : "on"), { style: { width: `${(100 * n) / Math.max(1, paid)}%` } }), h(unknown ? "span.lost.unknown" : "span.lost", { style: { width: `${(100 * lost) / Math.max(1, paid)}%` } })),
      h("span.num", { role: "cell" }, unknown ? "?" : count(n)), h("span.num.minus", { role: "cell" }, unknown ? "not measured" : lost ? `−${count(lost)}` : ""));
    }));
  }

  function draw(v) {
    const at = Date.parse(v.at);
    fill(body,
      v.total.reached.paid ? waterfall(v) : h("p.hint", "No GPU is paid for: no Reservation, and no node with GPUs."),
      h("p.meta", h("span", `Price of all of it, per hour: ${money(v.total.perHour, v.total.reached.paid, v.total.unpricedGPUs)}`), h("span", `read at ${clock(at, true)}`)),
      h("h3", "Lost to"),
      scroll(h("table", h("caption.unseen", "Losses with owner and money"), h("thead", h("tr", ["Not", "GPUs", "Per hour", "Cause", "Owner", "For", "What, and what to do"].map((t, i) => h(i === 1 || i === 2 ? "th.num" : "th", { scope: "col" }, t)))),
        h("tbody", v.lost.length ? v.lost.map((l) => h("tr", h("td", stages[stages.indexOf(l.stage) + 1] || "–"), h("td.num", count(l.gpus)), h("td.num", money(l.perHour, l.gpus, l.unpriced)), h("th", { scope: "row" }, h("code", l.cause)), h("td", l.owner), h("td", l.since ? span(at - Date.parse(l.since)) : "–"),
          h("td.wide", (l.said || []).slice(0, 3).map((t) => h("p", t)), l.fix && h("p.hint", l.fix), l.command && copyable(l.command)))) : h("tr", h("td", { colSpan: 7 }, "Nothing is lost."))))),
      v.rows.length > 0 && h("h3", `By ${v.by}`),
      v.rows.length > 0 && scroll(h("table", h("caption.unseen", "The account"), h("thead", h("tr", h("th", { scope: "col" }, v.by), stages.map((s) => h("th.num", { scope: "col" }, s)), h("th.num", { scope: "col" }, "per hour"))),
        h("tbody", v.rows.map((r) => h("tr", h("th", { scope: "row" }, r.name), stages.map((s) => h("td.num", s === "busy" && !measured(v) && r.reached.allocated > 0 ? "?" : count(r.reached[s] || 0))), h("td.num", money(r.perHour, r.reached.paid, r.unpricedGPUs))))))),
      (v.reservations || []).filter((r) => !r.paid && r.message).map((r) => h("p.warn", `${r.name}: ${r.message}`)),
      notSeen(v.unseen));
    body.dataset.paid = v.total.reached.paid || 0;
  }

  async function look() {
    stopped.abort();
    stopped = new AbortController();
    if (!body.firstChild) fill(body, h("p.busy", "Reading the whole cluster for the account…"));
    try { draw(await ask("capacity", { by }, stopped.signal)); } catch (err) { if (err.name !== "AbortError") fill(body, h("p.bad", err.message)); }
  }
  look();
  const again = setInterval(() => { if (!document.hidden) look(); }, 20000);
  return () => { clearInterval(again); stopped.abort(); account(); };
}

const gpuHours = (ms) => { const n = ms / 3600000; return n === 0 ? "0" : n < 100 ? n.toFixed(2) : count(n); };

// unheld are the steps before a pod holds a GPU: which one it had reached, which it did not, and why, as far as a decision log tells.
const unheld = [
  ["paid", "registered", "reserved machines that were no node"], ["registered", "ready", "the node was not Ready"], ["ready", "advertised", "the node did not offer them"],
  ["advertised", "healthy", "marked unhealthy"], ["healthy", "schedulable", "the node took no new work"], ["schedulable", "allocated", "nobody held them"],
];

// costs is who used the GPUs in a span, and what that comes to: `berth cost`. It returns how to stop.
function costs(main, params) {
  let by = one(params.get("who"), accounts), seconds = back(params, 86400), [from, to] = times(params), stopped = new AbortController(), reading = new AbortController();
  if (from === to) from = to = 0; // the account of an instant is none
  const drawn = h("div.chart"), body = h("div", h("p.busy", "Reading the decision log…")), command = h("div");
  const select = h("select", { "aria-label": "A line per", onchange: () => { by = select.value; set({ who: by === "queue" ? "" : by }); look(); } }, accounts.map((v) => h("option", { value: v, selected: v === by }, v)));
  const picture = chart(drawn, { high: 150, pick: (a, b) => { [from, to] = b > a ? [a, b] : [0, 0]; set({ from: from || "", to: to || "" }); look(); } });
  main.append(h("section.panel", h("div.head", h("h2", "Over time, and who used them"), h("label", "A line per ", select), csv("cost", "berth-cost.csv", asked), h("span.grow"), spanPicker(seconds, (n) => { seconds = n; set({ span: n === 86400 ? "" : n }); picture.choose([0, 0]); draw(); })), h("p.hint", "Drag over the chart for the account of that time; with the keyboard, Shift and the arrows."), drawn, body, command));

  const cost = (r, amounts) => { const known = (amounts || []).map((a) => `${(a.micro / 1e6).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })} ${a.currency}`); if (r.unpricedGPUMilliseconds > 0) known.push(known.length ? `${gpuHours(r.unpricedGPUMilliseconds)} h unknown` : "unknown"); return known.join(" + ") || "–"; };
  // hours is where the GPU-hours of the span went, step by step as `berth cost` divides them. The log has who held GPUs; whether those
  // worked is unknown, but for what somebody measured to be idle.
  function hours(v) {
    const paid = v.paid.gpuMilliseconds, lost = v.paid.lostGPUMilliseconds || 0, idle = v.paid.idleGPUMilliseconds || 0, by = new Map((v.unusedBy || []).map((r) => [r.name, r]));
    const wide = (n) => ({ width: `${(100 * n) / Math.max(1, paid)}%` });
    const row = (name, n, gone, note, cls = "on") => h("div.step", { role: "row", "data-step": name, "data-ms": n }, h("span.label", { role: "rowheader" }, name), h("span.track", { role: "presentation" }, h("span.reached." + cls, { style: wide(n) }), h("span.lost", { style: wide(gone) })), h("span.num", { role: "cell" }, gpuHours(n)), h("span.num.minus", { role: "cell" }, gone ? `−${gpuHours(gone)}` : ""), h("span.minus.said", { role: "cell" }, gone ? note : ""));
    let left = paid;
    const steps = [row("paid", paid, 0)];
    for (const [from, to, why] of unheld) {
      const r = by.get(from), gone = r?.gpuMilliseconds || 0;
      left -= gone;
      steps.push(row(to, left, gone, r && `${why}: ${cost(r, r.cost)}`, to === "allocated" ? "used" : "on"));
    }
    steps.push(row("kept", left - lost, lost, "preemption: work to do again", "used"));
    const most = left - idle;
    steps.push(h("div.step", { role: "row", "data-step": "busy" }, h("span.label", { role: "rowheader" }, "busy"), h("span.track", { role: "presentation" }, h("span.lost.unknown", { style: wide(v.idleMeasured ? most : left) }), v.idleMeasured && h("span.lost", { style: wide(idle) })), h("span.num", { role: "cell" }, v.idleMeasured ? `≤ ${gpuHours(most)}` : "?"), h("span.num.minus", { role: "cell" }, v.idleMeasured && idle ? `−${gpuHours(idle)}` : ""), h("span.minus.said", { role: "cell" }, v.idleMeasured ? "held and measured to be idle; of the rest the log does not tell" : "not measured: the decision log has who held GPUs, not whether they worked")));
    return paid > 0 && h("div.waterfall.hours", { role: "table", "aria-label": "GPU-hours by step" }, h("div.step.units", { role: "row" }, h("span", { role: "columnheader" }, "step"), h("span.track", { role: "presentation" }), h("span.num", { role: "columnheader" }, "GPU-hours"), h("span.num.minus", { role: "columnheader" }, "lost here"), h("span.minus.said", { role: "columnheader" }, "to, and its cost")), steps);
  }
  function asked() {
    const end = to || Math.round(now());
    return { by, from: from || end - seconds * 1000, to: end };
  }
  async function look() {
    stopped.abort();
    stopped = new AbortController();
    const q = asked();
    fill(command, copyable(`berth cost --by ${by} --since ${new Date(q.from).toISOString()} --until ${new Date(q.to).toISOString()}`));
    try {
      const v = await ask("cost", q, stopped.signal);
      const most = Math.max(1, ...v.rows.map((r) => r.gpuMilliseconds), v.unused.gpuMilliseconds);
      const line = (r, name, cls) => h("tr" + (cls ? "." + cls : ""), h("th", { scope: "row" }, name), h("td", h("div.bar.small", { role: "img", "aria-label": `${gpuHours(r.gpuMilliseconds)} GPU-hours` }, h("span.own", { style: { width: cls === "sum" ? "0" : `${(100 * r.gpuMilliseconds) / most}%` } }))), h("td.num", gpuHours(r.gpuMilliseconds)), h("td.num", cost(r, r.cost)), h("td.num", cls ? "" : gpuHours(r.waitingGPUMilliseconds)), h("td.num", r.waitedPods ? span(r.meanWaitMilliseconds) : "–"), h("td.num", r.preemptedPods ? `${gpuHours(r.lostGPUMilliseconds)} (${plural(r.preemptedPods, "pod")})` : "–"), h("td.num", cost({}, r.shareOfUnused)));
      fill(body, h("p.meta", h("span", `${clock(Date.parse(v.from), true)} to ${clock(Date.parse(v.to), true)}`), v.unseenMilliseconds > 0 && h("span", `${span(v.unseenMilliseconds)} of it was not recorded`)),
        hours(v), scroll(h("table.costs", h("caption.unseen", "GPU-hours and money"), h("thead", h("tr", [by[0].toUpperCase() + by.slice(1), "", "GPU-hours", "Cost", "GPU-hours waited for", "Mean wait", "GPU-hours lost to preemption", "Cost of unused, shared"].map((t, i) => h(i > 1 ? "th.num" : "th", { scope: "col" }, t || h("span.unseen", "GPU-hours as a bar"))))),
          h("tbody", v.rows.map((r) => line(r, r.name || `(no ${by})`)), line(v.unused, "nobody", "nobody"), line(v.paid, "paid", "sum")))),
        (v.problems || []).map((t) => h("p.hint", `Missing: ${t}.`)));
      body.dataset.rows = v.rows.length;
    } catch (err) { if (err.name !== "AbortError") fill(body, h("p.warn", err.message)); }
  }
  async function draw() {
    reading.abort();
    reading = new AbortController();
    const end = now();
    try { const p = await past(end - seconds * 1000, end, 240, reading.signal); picture.set(p, Math.max(end - seconds * 1000, p.since), end, [from, to]); } catch (err) { if (err.name !== "AbortError") fill(drawn, h("p.hint", err.message)); }
  }
  draw();
  look();
  const again = setInterval(() => { if (!document.hidden && !from) { draw(); look(); } }, 60000);
  return () => { clearInterval(again); stopped.abort(); reading.abort(); picture.stop(); };
}
