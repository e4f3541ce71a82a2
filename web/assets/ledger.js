import { h, fill, count, plural, span, ask, copyable } from "./dom.js";
import { set } from "./url.js";

const stages = ["paid", "launched", "registered", "ready", "advertised", "healthy", "schedulable", "allocated", "busy"];

// money is amounts in words. What nobody gave a price for is unknown, never zero.
function money(amounts, gpus, unpriced) {
  const known = (amounts || []).map((a) => `${(a.micro / 1e6).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })} ${a.currency}`);
  if (!gpus) return "–";
  if (!known.length || unpriced === gpus) return "unknown";
  return known.concat(unpriced ? [`${plural(unpriced, "GPU")} unknown`] : []).join(" + ");
}

export function show(main, params) {
  let by = params.get("by") || "reservation";
  const body = h("div"), select = h("select", { "aria-label": "Rows by", onchange: () => { by = select.value; set({ by }); look(); } }, ["reservation", "pool", "zone", "cause"].map((v) => h("option", { value: v, selected: v === by }, v)));
  main.append(h("section.panel", h("div.head", h("h2", "Where paid GPUs go"), h("label", "Rows by ", select), h("a.button", { href: `/api/capacity?by=${by}&format=csv`, download: "berth-capacity.csv" }, "CSV"), h("span.grow"), copyable(`berth capacity --by ${by}`)), body));
  let stopped = new AbortController();

  function waterfall(v) {
    const paid = v.total.reached.paid || 0, measured = v.total.reached.busy > 0 || v.lost.some((l) => l.cause === "idle-allocation");
    return h("div.waterfall", { role: "table", "aria-label": "GPUs by step" }, stages.map((s, i) => {
      const n = v.total.reached[s] || 0, before = i ? v.total.reached[stages[i - 1]] || 0 : n, lost = before - n;
      const unknown = s === "busy" && !measured && before > 0;
      return h("div.step", { role: "row" }, h("span.label", { role: "rowheader" }, s), h("span.track", { role: "presentation" },
        h("span.reached." + (i > 6 ? "used" : "on"), { style: { width: `${(100 * n) / Math.max(1, paid)}%` } }), h(unknown ? "span.lost.unknown" : "span.lost", { style: { width: `${(100 * lost) / Math.max(1, paid)}%` } })),
      h("span.num", { role: "cell" }, unknown ? "?" : count(n)), h("span.num.minus", { role: "cell" }, unknown ? "not measured" : lost ? `−${count(lost)}` : ""));
    }));
  }

  function draw(v) {
    const at = Date.parse(v.at);
    fill(body,
      v.total.reached.paid ? waterfall(v) : h("p.hint", "No GPU is paid for: no Reservation, and no node with GPUs."),
      h("p.meta", h("span", `All of it: ${money(v.total.perHour, v.total.reached.paid, v.total.unpricedGPUs)} an hour`), h("span", `read at ${new Date(at).toLocaleTimeString()}`)),
      h("h3", "Lost to"),
      h("div.scroll", h("table", h("caption.unseen", "Losses with owner and money"), h("thead", h("tr", ["Not", "GPUs", "Per hour", "Cause", "Owner", "For", "What, and what to do"].map((t, i) => h(i === 1 || i === 2 ? "th.num" : "th", { scope: "col" }, t)))),
        h("tbody", v.lost.length ? v.lost.map((l) => h("tr", h("td", stages[stages.indexOf(l.stage) + 1] || "–"), h("td.num", count(l.gpus)), h("td.num", money(l.perHour, l.gpus, l.unpriced)), h("th", { scope: "row" }, h("code", l.cause)), h("td", l.owner), h("td", l.since ? span(at - Date.parse(l.since)) : "–"),
          h("td.wide", (l.said || []).slice(0, 3).map((t) => h("p", t)), l.fix && h("p.hint", l.fix), l.command && copyable(l.command)))) : h("tr", h("td", { colSpan: 7 }, "Nothing is lost."))))),
      h("h3", `By ${v.by}`),
      h("div.scroll", h("table", h("caption.unseen", "The account"), h("thead", h("tr", h("th", { scope: "col" }, v.by), stages.map((s) => h("th.num", { scope: "col" }, s)), h("th.num", { scope: "col" }, "per hour"))),
        h("tbody", v.rows.map((r) => h("tr", h("th", { scope: "row" }, r.name), stages.map((s) => h("td.num", count(r.reached[s] || 0))), h("td.num", money(r.perHour, r.reached.paid, r.unpricedGPUs))))))),
      (v.reservations || []).filter((r) => !r.paid && r.message).map((r) => h("p.warn", `${r.name}: ${r.message}`)),
      (v.unseen || []).length > 0 && h("p.warn", `Not seen: ${v.unseen.map((u) => `${u.resource} (${u.reason})`).join("; ")}`));
    body.dataset.paid = v.total.reached.paid || 0;
  }

  async function look() {
    stopped.abort();
    stopped = new AbortController();
    if (!body.firstChild) fill(body, h("p.busy", "Reading the whole cluster for the account…"));
    main.querySelector("a.button").href = `/api/capacity?by=${encodeURIComponent(by)}&format=csv`;
    try { draw(await ask("capacity", { by }, stopped.signal)); } catch (err) { if (err.name !== "AbortError") fill(body, h("p.bad", err.message)); }
  }
  look();
  const again = setInterval(() => { if (!document.hidden) look(); }, 20000);
  return () => { clearInterval(again); stopped.abort(); };
}
