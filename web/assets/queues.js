import { h, fill, scroll, count, plural, span, ask } from "./dom.js";
import { table, onChange, waiting, unread, now, keyOf } from "./store.js";
import { link, set } from "./url.js";
import { clock } from "./chart.js";
import { notSeen } from "./rights.js";

// gpus is how many GPUs amounts have, of all names that GPUs go by; "unset" where they name none.
export function gpus(amounts, unset = 0) {
  const mine = (amounts || []).filter((a) => a.resource.includes("gpu") || a.resource.includes("nvidia.com/"));
  return mine.length ? mine.reduce((n, a) => n + a.value + (a.milli || 0) / 1000, 0) : unset;
}

const tidy = (n) => (n === null ? "–" : Number.isInteger(n) ? count(n) : n.toFixed(2));

export function eta(w, at) {
  if (w.promise) return `by ${clock(Date.parse(w.promise.start))}`;
  if (w.eta?.likely) {
    const early = w.eta.earliest ? Date.parse(w.eta.earliest) - at : 0, likely = Date.parse(w.eta.likely) - at;
    return likely <= 0 ? "now" : early > 0 && early < likely * 0.8 ? `${span(early)} to ${span(likely)}` : `~${span(likely)}`;
  }
  return w.eta?.cause ? "blocked" : "unknown";
}

export function whyLink(w) {
  const pod = w.metadata.name.startsWith("pod.");
  const [kind, name] = w.owner && !pod ? [w.owner.kind.toLowerCase(), w.owner.name] : [w.metadata.name.split(".")[0], w.metadata.name.slice(w.metadata.name.indexOf(".") + 1)];
  return link("why", { namespace: w.metadata.namespace, kind: kind === "gang" ? "" : kind, name });
}

// lending says who lends to whom, siblings by siblings, as the engine's account has it: what the siblings of a queue borrow comes from
// those among them that lend, and the rest from what none of them is promised, or from above. What they lend beyond that goes out of
// their parent. Which of several borrowers has whose GPUs is nobody's to say: they are of one pool.
export function lending(queues) {
  const of = new Map();
  for (const q of queues) { const all = of.get(q.parent || ""); if (all) all.push(q); else of.set(q.parent || "", [q]); }
  const out = [];
  for (const [parent, all] of of) {
    const part = (field) => all.map((q) => ({ name: q.metadata.name, n: gpus(q[field]) })).filter((p) => p.n > 0);
    const borrowers = part("borrowed"), lenders = part("lent"), sum = (list) => list.reduce((n, p) => n + p.n, 0);
    if (!borrowers.length && !lenders.length) continue;
    const inside = Math.min(sum(borrowers), sum(lenders));
    out.push({ parent, borrowers, lenders, inside, others: sum(borrowers) - inside, away: sum(lenders) - inside });
  }
  return out;
}

// mostRows bounds what is drawn of a list: who has more searches.
const mostRows = 500;

const listed = (words) => (words.length > 20 ? `${words.slice(0, 20).join(", ")} and ${count(words.length - 20)} more` : words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`);

// lends is one line of it.
function lends(l) {
  const who = (list) => listed(list.map((p) => `${p.name} ${tidy(p.n)}`));
  const rest = l.parent ? `from what ${l.parent} has beyond its children's quotas, or from above` : "from capacity that is no queue's quota";
  if (!l.borrowers.length) return `${who(l.lenders)}: lent to queues outside ${l.parent || "the tree"}.`;
  const from = [l.inside > 0 && `${tidy(l.inside)} lent by ${listed(l.lenders.map((p) => p.name))}`, l.others > 0 && `${tidy(l.others)} ${rest}`].filter(Boolean);
  return `${listed(l.borrowers.map((p) => `${p.name} borrows ${tidy(p.n)}`))}: ${listed(from)}.${l.away > 0 ? ` ${tidy(l.away)} more of what they lend is used outside ${l.parent || "the tree"}.` : ""}`;
}

export function show(main, params) {
  const tree = h("tbody"), line = h("tbody"), loans = h("ul.loans"), answer = h("div.answer", { "aria-live": "polite" });
  const find = h("input", { type: "search", placeholder: "Find ( / )", title: "Queue, workload or namespace", "aria-label": "Find a queue or workload", value: params.get("q") || "" });
  let chosen = params.get("queue") || "";
  main.append(
    h("section.panel", h("div.head", h("h2", "Queues"), h("span.grow"), find), h("p.hint", "GPUs. The bar is what a queue uses; the tick is its quota, the end of the track its limit or all GPUs of the fleet."),
      scroll(h("table.queues", h("caption.unseen", "Queues with quota and use"), h("thead", h("tr", ["Queue", "Use", "Quota", "Used", "Borrowed", "Lent", "Limit", "Fair share", "Waiting"].map((t, i) => h(i > 1 ? "th.num" : "th", { scope: "col" }, t)))), tree)), loans, answer),
    h("section.panel", h("h2", "Line"), h("p.hint", "Workloads that wait, in the order in which the scheduler looks at them."),
      scroll(h("table.line", h("caption.unseen", "Waiting workloads in order"), h("thead", h("tr", ["#", "Workload", "Namespace", "Queue", "GPUs", "Waits", "Starts", "Why"].map((t, i) => h(i === 0 || i === 4 ? "th.num" : "th", { scope: "col" }, t)))), line))));

  find.addEventListener("input", () => { set({ q: find.value }); draw(); });

  function bar(q, full) {
    const used = gpus(q.used), quota = gpus(q.quota, null), borrowed = gpus(q.borrowed), limit = gpus(q.limits, null);
    const track = limit ?? full, part = (n) => `${Math.min(100, (100 * n) / Math.max(track, used, quota || 0, 1))}%`;
    return h("div.bar", { role: "img", "aria-label": `uses ${tidy(used)} of quota ${tidy(quota)}` },
      h("span.own", { style: { width: part(used - borrowed) } }), h("span.borrowed", { style: { width: part(borrowed) } }),
      quota !== null && h("span.quota", { style: { left: part(quota) } }));
  }

  function simulate(q) {
    const n = h("input", { type: "number", min: "0", max: "10000", value: String(gpus(q.quota)), "aria-label": `Quota of ${q.metadata.name}` });
    const go = async (e) => {
      e.preventDefault();
      fill(result, h("p.busy", "Planning with the engine…"));
      try {
        const a = await ask("whatif", { queue: q.metadata.name, quota: n.value });
        const changed = (a.workloads || []).filter((w) => w.before.state !== w.after.state || w.before.cause !== w.after.cause);
        fill(result, h("p", `GPUs that start: ${count(a.before.starting)} before, ${count(a.after.starting)} after. Waiting workloads: ${a.before.waitingWorkloads} before, ${a.after.waitingWorkloads} after.`),
          changed.length ? h("ul", changed.slice(0, 20).map((w) => h("li", `${w.target.kind.toLowerCase()}/${w.target.name} (${plural(w.gpus, "GPU")}): ${w.before.state} → ${w.after.state}${w.after.cause ? ", " + w.after.cause : ""}`))) : h("p", "Nothing that waits is helped or held up."), notSeen(a.unseen));
      } catch (err) { fill(result, h("p.bad", err.message)); }
    };
    const result = h("div");
    return h("form.simulate", { onsubmit: go }, h("label", `What if ${q.metadata.name} had a quota of `, n, " GPUs? "), h("button", { type: "submit" }, "Plan"), result);
  }

  function draw() {
    const queues = [...table.queue.values()].sort((a, b) => a.order - b.order);
    const byName = new Map(queues.map((q) => [q.metadata.name, q]));
    const depth = (q) => { let d = 0; for (let p = byName.get(q.parent); p && d < 8; p = byName.get(p.parent)) d++; return d; };
    const full = table.total.get("fleet")?.reached?.schedulable || 0, wanted = find.value.trim().toLowerCase(), shown = wanted ? queues.filter((q) => q.metadata.name.toLowerCase().includes(wanted)) : queues;
    find.hidden = queues.length + waiting().length < 12 && !wanted;
    fill(tree, shown.length ? shown.slice(0, mostRows).map((q) => h("tr", { "aria-selected": q.metadata.name === chosen ? "true" : undefined },
      h("th", { scope: "row" }, h("button.name", { type: "button", style: { marginLeft: `calc(${depth(q)} * var(--indent))` }, onclick: () => { chosen = chosen === q.metadata.name ? "" : q.metadata.name; set({ queue: chosen }); open(); draw(); } }, q.metadata.name),
        q.missing && h("span.tag.bad", "missing"), q.problem && h("span.tag.bad", { title: q.problem }, "no effect")),
      h("td", bar(q, full)), [gpus(q.quota, null), gpus(q.used), gpus(q.borrowed), gpus(q.lent), gpus(q.limits, null), gpus(q.share, null)].map((n) => h("td.num", tidy(n))),
      h("td.num", q.waiting.workloads ? `${count(q.waiting.workloads)} (${plural(q.waiting.gpus, "GPU")})` : "0"))) : h("tr", h("td", { colSpan: 9 }, (wanted && queues.length ? "No queue has that in its name." : "") || unread() || "There are no queues, or none that you may see: workloads that name none are not limited.")), shown.length > mostRows && h("tr", h("td", { colSpan: 9 }, `and ${count(shown.length - mostRows)} more: search for a name`)));
    fill(loans, lending(queues).slice(0, 100).map((l) => h("li", lends(l))));
    loans.hidden = !loans.firstChild;
    const hit = (s) => s && s.toLowerCase().includes(wanted), all = waiting().filter((w) => (!chosen || w.queue === chosen) && (!wanted || hit(w.title) || hit(w.queue) || hit(w.metadata.namespace))), at = now();
    fill(line, all.slice(0, mostRows).map((w) => h("tr", { "data-work": keyOf(w) }, h("td.num", w.position?.place ?? "–"), h("th", { scope: "row" }, h("a", { href: whyLink(w) }, w.title)), h("td", w.metadata.namespace), h("td", w.queue || "–"), h("td.num", count(w.gpus)),
      h("td", w.metadata.creationTimestamp ? span(at - Date.parse(w.metadata.creationTimestamp)) : "–"), h("td", { title: w.eta?.because }, eta(w, at)), h("td.wide", h("code", w.cause || ""), " ", w.sentence || ""))),
    all.length > mostRows && h("tr", h("td", { colSpan: 8 }, `and ${count(all.length - mostRows)} more`)), !all.length && h("tr", h("td", { colSpan: 8 }, (wanted ? "Nothing that waits has that in its name, queue or namespace." : "") || unread() || "Nothing waits.")));
  }
  function open() {
    const q = table.queue.get(chosen);
    fill(answer, q && [(q.warnings || []).map((t) => h("p.warn", t)), q.problem && h("p.bad", q.problem), simulate(q)]);
  }
  draw();
  open();
  const stop = onChange((kinds) => { if (["queue", "workload", "total", "line"].some((k) => kinds.has(k))) { const empty = !answer.firstChild; draw(); if (empty) open(); } });
  const tick = setInterval(draw, 10000);
  return () => { stop(); clearInterval(tick); };
}
