import { h, fill, count, plural, span, ask, copyable } from "./dom.js";
import { table, onChange, waiting, unread, now } from "./store.js";
import { link, set } from "./url.js";
import { eta, whyLink } from "./queues.js";
import { clock } from "./chart.js";
import { notSeen } from "./rights.js";

const layers = [["L1", "Capacity", "is there a claim on hardware?"], ["L2", "Provisioning", "is it a Ready node with healthy GPUs?"], ["L3", "Scheduling", "can it be placed?"], ["L4", "Workload", "does the placed work start?"]];

export function show(main, params) {
  const list = h("div.waiting"), page = h("article.diagnosis", { "aria-live": "polite" });
  const others = h("div");
  main.append(h("div.split", h("section.panel.side", h("h2", "Waiting"), list, others), h("section.panel", page)));
  let stopped = new AbortController();

  function row(w) {
    const href = whyLink(w);
    return h("a.item", { href, "aria-current": location.hash === href ? "true" : undefined }, h("b", w.title), h("span", `${w.metadata.namespace} · ${plural(w.gpus, "GPU")} · ${eta(w, now())}`), h("code", w.cause || w.state));
  }
  function draw() {
    const all = waiting();
    fill(list, all.length ? all.slice(0, 300).map(row) : h("p.empty", unread() || "Nothing waits for Berth's scheduler."));
  }

  const evidence = (b) => (b.evidence || []).length > 0 && h("details", h("summary", plural(b.evidence.length, "piece of evidence", "pieces of evidence")), h("ul.evidence", b.evidence.slice(0, 12).map((e) => h("li", h("code", e.object), e.field && [" ", h("code.field", e.field)], " ", h("span", e.value)))));

  // ladder shows how far the work has come, in the words of berth why. Nothing is claimed of a layer that was not reached, or could not be
  // looked at.
  function ladder(d) {
    const broken = layers.findIndex(([code]) => code === d.layer), hidden = (resource) => (d.unseen || []).some((u) => u.resource === resource);
    return h("ol.ladder", layers.map(([code, name, question], i) => {
      const mine = (d.blockers || []).filter((b) => b.layer === code), beyond = broken >= 0 && i > broken, unseen = hidden(code === "L4" ? "pods/log" : "nodes");
      const [kind, word] = i === broken ? [".here", plural(mine.length, "finding")] : mine.length ? [".some", `${plural(mine.length, "finding")}, not in the way`] : beyond ? ["", "not reached"] : unseen ? ["", "not seen"] : [".clear", "nothing found"];
      return h("li" + kind, h("div.rung", h("b", code), h("span", name), h("em", word)),
        mine.length ? mine.map((b) => h("div.blocker" + (b.binding ? ".binding" : ""), h("code", b.cause), h("span.tag", b.owner), h("p", b.message), evidence(b))) : h("p.hint", question));
    }));
  }

  // nodesIn finds names of nodes in text, to link them to the fleet.
  function nodesIn(d) {
    const out = new Set();
    for (const b of d.blockers || []) for (const e of b.evidence || []) {
      const name = e.object.split("/").pop();
      if (table.node.has(name)) out.add(name);
    }
    return [...out].slice(0, 12);
  }

  function diagnosis(d, at) {
    const healthy = d.layer === "none" && d.cause !== "unknown";
    const near = nodesIn(d);
    return [
      h("p.crumb", `${d.target.kind.toLowerCase()}/${d.target.name} in ${d.target.namespace}`, h("span.tag", d.state), d.created && h("span", `for ${span(now() - Date.parse(d.created))}`)),
      h("h2.sentence" + (healthy ? ".good" : ""), d.summary),
      h("p.meta", h("code", d.cause), d.owner !== "none" && h("span", `owner: ${d.owner}`), d.eta && h("span", d.eta.likely ? `likely to start ${Date.parse(d.eta.likely) > now() ? "in " + span(Date.parse(d.eta.likely) - now()) : "now"}: ${d.eta.because}` : d.eta.because)),
      (d.fixes || []).length > 0 && h("section.fixes", h("h3", "What would start it"), h("p.hint", "Each was tried on a copy of the cluster first."), d.fixes.map((f, i) => h("div.fix", h("p", h("b", `${i + 1}. `), f.edit, h("span.tag.good", f.verified ? "verified" : ""), h("span.tag", f.side)), f.command && copyable(f.command), h("p.outcome", f.outcome, f.assumes && ` Assumes: ${f.assumes}.`)))),
      !(d.fixes || []).length && !healthy && h("section.fixes", h("h3", "What would start it"), h("p", "No verified fix."), d.advice && h("p.advice", `What usually helps: ${d.advice}`)),
      near.length > 0 && h("p", "Nodes that come closest, or stand in the way: ", near.map((n) => [h("a", { href: link("fleet", { q: n }) }, n), " "])),
      h("h3", "Layers"), ladder(d),
      d.scheduler && h("p.meta", `Scheduler ${d.scheduler.name}: `, d.scheduler.answers ? d.scheduler.sentence || d.scheduler.verdict || "no word about it" : d.scheduler.why),
      (d.history || []).length > 0 && h("section", h("h3", "Before"), h("ul.moments", d.history.map((m) => h("li", h("time", clock(Date.parse(m.at), true)), " ", h("b", m.what), m.times > 1 && ` ${m.times} times`, " ", m.text)))),
      (d.unheeded || []).length > 0 && h("p.warn", `No effect: ${d.unheeded.join("; ")}.`),
      notSeen(d.unseen),
      h("p.hint", `As berth why says it, at ${clock(at, true)}.`),
      copyable(`berth why ${d.target.kind.toLowerCase()}/${d.target.name} -n ${d.target.namespace}`),
    ];
  }

  async function look(quiet) {
    stopped.abort();
    stopped = new AbortController();
    const name = params.get("name");
    if (!name) {
      fill(page, h("p.hint", "Choose a workload, or ask about any pod, job or deployment:"), form());
      return;
    }
    if (!quiet) fill(page, h("p.busy", `Asking why ${name} waits…`));
    try {
      const d = await ask("why", { namespace: params.get("namespace") || "", kind: params.get("kind") || "", name }, stopped.signal);
      fill(page, diagnosis(d, now()));
    } catch (err) { if (err.name !== "AbortError") fill(page, h("p.bad", err.message), form()); }
  }

  function form() {
    const ns = h("input", { placeholder: "namespace", "aria-label": "Namespace", value: params.get("namespace") || "" }), what = h("input", { placeholder: "kind/name", "aria-label": "Kind and name", required: true });
    return h("form.asking", { onsubmit: (e) => { e.preventDefault(); const [a, b] = what.value.includes("/") ? what.value.split("/") : ["", what.value]; location.hash = link("why", { namespace: ns.value, kind: a, name: b }); } }, ns, what, h("button", { type: "submit" }, "Why?"));
  }

  async function everything() {
    fill(others, h("p.busy", "Looking at everything that waits…"));
    try {
      const a = await ask("why", {}, stopped.signal);
      fill(others, h("h3", "All that waits, whoever schedules it"), a.items.length ? a.items.map((d) => h("a.item", { href: link("why", { namespace: d.target.namespace, kind: d.target.kind.toLowerCase(), name: d.target.name }) }, h("b", `${d.target.kind.toLowerCase()}/${d.target.name}`), h("span", d.target.namespace), h("code", `${d.layer} ${d.cause}`))) : h("p.hint", "Nothing that you may see."),
        a.left && h("p.hint", `${count(a.left)} more were not looked at.`), notSeen(a.unseen));
    } catch (err) { if (err.name !== "AbortError") fill(others, h("p.bad", err.message)); }
  }

  draw();
  look();
  fill(others, h("button", { type: "button", onclick: everything }, "Look at the whole cluster"));
  set({});
  const stop = onChange((kinds) => { if (kinds.has("workload") || kinds.has("line")) draw(); });
  const again = setInterval(() => { if (params.get("name") && !document.hidden) look(true); }, 15000);
  return () => { stop(); clearInterval(again); stopped.abort(); };
}
