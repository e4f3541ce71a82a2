// The table of nodes that mirrors the picture, for screen readers and for who would rather read. Only rows in sight exist.
import { h, fill, count } from "./dom.js";
import { kinds } from "./colour.js";

const high = 28, extra = 8;
const natural = new Intl.Collator("en", { numeric: true });
const columns = ["Node", "Block", "Rack", "Model", "GPUs", "Free", "Held", "Not usable", "What is wrong"];

export function nodeTable(where, { selected, pick, nodes }) {
  const body = h("tbody"), above = h("tr", { "aria-hidden": "true" }, h("td", { colSpan: 9 })), below = above.cloneNode(true);
  const grid = h("table.nodes", { "aria-rowcount": "0" }, h("caption.unseen", "Nodes with GPUs"), h("thead", h("tr", columns.map((c, i) => h(i > 3 && i < 8 ? "th.num" : "th", { scope: "col" }, c)))), body);
  const box = h("div.scroll.tall", { tabIndex: 0, role: "region", "aria-label": "Table of nodes" }, grid);
  where.append(box);
  let names = [], matches = null;

  function window() {
    const first = Math.max(0, Math.floor(box.scrollTop / high) - extra), last = Math.min(names.length, first + Math.ceil((box.clientHeight || 400) / high) + 2 * extra);
    above.firstChild.style.height = `${first * high}px`;
    below.firstChild.style.height = `${(names.length - last) * high}px`;
    fill(body, first > 0 && above, names.slice(first, last).map((name, i) => row(name, first + i)), last < names.length && below);
  }
  function row(name, i) {
    const n = nodes().get(name), by = { free: 0, held: 0, bad: 0 };
    for (const r of n.gpus) by[r.stage === "schedulable" ? "free" : r.stage === "allocated" || r.stage === "busy" ? "held" : "bad"] += r.n;
    const wrong = n.said || [...new Set(n.gpus.filter((r) => !["schedulable", "allocated", "busy"].includes(r.stage)).map((r) => r.cause || kinds[r.stage][0]))].join(", ");
    return h("tr", { "aria-rowindex": String(i + 2), "aria-selected": selected.has(name) ? "true" : undefined }, h("th", { scope: "row" }, h("button.name", { type: "button", onclick: (e) => pick(name, e.ctrlKey || e.metaKey) }, name)), h("td", n.block || "–"), h("td", n.rack || "–"), h("td", n.model || "–"), [by.free + by.held + by.bad, by.free, by.held, by.bad].map((v) => h("td.num", count(v))), h("td", wrong));
  }
  function refresh() {
    if (box.offsetParent === null) return; // it is made when it is shown
    names = [...nodes().keys()].filter((n) => !matches || matches.has(n)).sort(natural.compare);
    grid.setAttribute("aria-rowcount", String(names.length + 1));
    window();
  }
  box.addEventListener("scroll", window, { passive: true });
  return { refresh, filter: (m) => { matches = m; refresh(); } };
}
