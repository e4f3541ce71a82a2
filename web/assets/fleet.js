import { h, fill, count, plural, ask, say } from "./dom.js";
import { table, onChange, state, now } from "./store.js";
import { link, one, set, time } from "./url.js";
import { layout, groups, cell, gap, cellAt } from "./layout.js";
import { ways, kinds, marked, readTheme, pixels } from "./colour.js";
import { nodeTable } from "./nodetable.js";
import { whyLink } from "./queues.js";
import { clock } from "./chart.js";
import { notSeen } from "./rights.js";

// Bitmaps of blocks are kept at the scale at which they are shown; a block that would be larger is drawn cell by cell, of
// which few are in sight then.
const mostPixels = 3e6;
// frameBudget is how long a frame may spend on bitmaps, in milliseconds. What is not done is shown at the old scale until then.
const frameBudget = 4;
// firstBudget is the same before anything was shown: who waits for the first picture pans nothing.
const firstBudget = 200;

export function show(main, params) {
  // What is drawn: the present, or a moment of the decision log.
  let live = !params.get("at"), nodes = table.node, works = table.workload;
  const work = (key) => works.get(key);
  const canvas = h("canvas", { tabIndex: 0, role: "application", "aria-label": "Fleet. Arrow keys move from node to node, Enter selects, plus and minus zoom. The table below has the same." });
  const ctx = canvas.getContext("2d", { alpha: false });
  const tip = h("div.tip", { hidden: true }), panel = h("aside.detail", { "aria-label": "Selection" }), legend = h("div.legend"), nothing = h("div.nothing", { hidden: true }), stage = h("div.stage", canvas, tip, nothing), sum = h("div.sum"), parts = h("div.parts", { "aria-hidden": "true" }), under = h("div.under");
  const search = h("input", { type: "search", placeholder: "Search ( / )", title: "Node, pod, job, queue, model, rack or state", "aria-label": "Search", value: params.get("q") || "" });
  const colour = h("select", { "aria-label": "Colour by" }, Object.entries(ways).map(([k, w]) => h("option", { value: k, selected: k === params.get("colour") }, w.title)));
  let group = one(params.get("group"), Object.keys(groups));
  const grouping = h("select", { "aria-label": "Group by", onchange: () => { group = grouping.value; set({ group: group === "place" ? "" : group }); moved = false; relayout(); } }, Object.entries(groups).map(([k, [t]]) => h("option", { value: k, selected: k === group }, t)));
  const asTable = h("button", { type: "button", "aria-pressed": "false" }, "Table");
  const fit = fitForm(), replayBar = scrubber();
  main.append(h("div.tools", search, h("label", "Colour ", colour), h("label", "Group ", grouping), fit.form, h("button", { type: "button", title: "Show all (0)", onclick: () => { home(); } }, "All"), asTable, h("a.button.then", { href: link("fleet", { at: "log" }), title: "Move through the decision log" }, "Replay"), sum), replayBar.root, h("div.fleetview", h("div.picture", parts, stage, legend), panel), under);

  let theme = readTheme(), plan = { boxes: [], at: new Map(), w: 1, h: 1 }, view = { x: 0, y: 0, k: 1 }, moved = false;
  let wanted = 0, width = 0, height = 0, ratio = 1, base = 1; // base is how large text is, of 14 pixels
  const bitmaps = new Map(); // block name → {canvas, k, stale}
  const selected = new Set((params.get("sel") || "").split(",").filter(Boolean));
  let focus = "", hover = null, query = "", matches = null, found = new Map(), way = ways[one(params.get("colour"), Object.keys(ways))];
  const mirror = nodeTable(under, { selected, nodes: () => nodes, pick: (name, add) => pick([name], add), summary });

  function relayout() {
    plan = layout(nodes, Math.max(0.4, width / Math.max(1, height)), group);
    bitmaps.clear();
    if (!moved) home(true);
    later();
  }
  function home(keep) {
    const k = Math.min(Math.max(nodes.size <= 24 ? 3.6 : 2.6, Math.min(width, 1.6 * height) / 520), (width - 24) / plan.w, (height - 24) / plan.h);
    view = { k: k > 0 ? k : 1, x: 0, y: 0 };
    view.x = (width - plan.w * view.k) / 2;
    view.y = Math.max(12, (height - plan.h * view.k) / 2);
    if (!keep) moved = false;
    later();
  }

  const later = () => { if (!wanted) wanted = requestAnimationFrame(draw); };

  function paintCells(c, n, k, x0, y0) {
    const node = nodes.get(n.name);
    if (!node) return;
    const dim = matches && !matches.has(n.name), size = Math.max(1, cell * k), step = (cell + gap) * k;
    let i = 0;
    for (const r of node.gpus) {
      const v = way.of(r, node, work);
      const lit = !dim && (!matches || matches.get(n.name) === true || matches.get(n.name).has(r));
      c.globalAlpha = lit ? 1 : 0.13;
      c.fillStyle = v ? way.colour(v) : theme.none;
      for (const end = i + r.n; i < end; i++) {
        const x = x0 + (i % 8) * step, y = y0 + Math.floor(i / 8) * step;
        if (node.mig && size >= 5 && !marked.has(r.stage)) { paintSlices(c, node, i, x, y, size, v); continue; }
        if (size >= 9) { c.beginPath(); c.roundRect(x, y, size, size, size * 0.14); c.fill(); } else c.fillRect(x, y, size, size);
        if (size >= 4 && marked.has(r.stage)) {
          c.strokeStyle = theme.mark;
          c.lineWidth = Math.max(1, size / 8);
          c.beginPath();
          c.moveTo(x + size * 0.22, y + size * 0.78); c.lineTo(x + size * 0.78, y + size * 0.22);
          if (r.stage !== "healthy") { c.moveTo(x + size * 0.22, y + size * 0.22); c.lineTo(x + size * 0.78, y + size * 0.78); }
          c.stroke();
        }
      }
    }
    c.globalAlpha = 1;
  }

  // paintSlices draws a GPU that MIG divides: a column for each instance, as wide as its compute slices. Which of them are held is known
  // by number alone, so the first are.
  function paintSlices(c, node, i, x, y, size, v) {
    const on = c.fillStyle, gpus = node.gpus.reduce((n, r) => n + r.n, 0);
    c.fillStyle = theme.none;
    c.fillRect(x, y, size, size);
    let at = 0;
    for (const m of node.mig) {
      const per = Math.ceil(m.n / Math.max(1, gpus));
      for (let k = 0; k < per && i * per + k < m.n; k++) {
        const wide = Math.min(m.slices, 7 - at);
        if (wide <= 0) break;
        c.fillStyle = i * per + k < m.held ? (v && v !== "schedulable" ? on : theme.allocated) : theme.schedulable;
        c.fillRect(x + (at * size) / 7, y, (wide * size) / 7 - Math.max(0.5, size / 24), size);
        at += wide;
      }
    }
    c.fillStyle = on;
  }

  function paintBlock(c, b, k, x, y, inSight) {
    c.fillStyle = theme.box;
    c.fillRect(x, y, b.w * k, b.h * k);
    if (k > 0.42) {
      c.fillStyle = theme.text;
      const high = Math.min(13 * base, 11 * Math.max(1, k * 0.8));
      c.font = `600 ${high}px system-ui, sans-serif`;
      c.fillText(b.name, Math.round(x + 10 * k), Math.round(y + Math.max(14 * k, high)), b.w * k - 12);
    }
    if (k > 0.75) {
      c.fillStyle = theme.soft;
      c.font = `${Math.min(11 * base, 8 * k)}px system-ui, sans-serif`;
      for (const r of b.racks) if (r.name) c.fillText(r.name, Math.round(x + r.x * k), Math.round(y + (r.y + 7) * k), Math.max(20, r.w * k));
    }
    if (k > 0.9 && b.nodes[0]?.label) {
      c.fillStyle = theme.soft;
      c.font = `${Math.min(11 * base, 6.5 * k)}px system-ui, sans-serif`;
      for (const n of b.nodes) c.fillText(n.name, Math.round(x + n.x * k), Math.round(y + (n.y - 2) * k), Math.max(60, n.w * k));
    }
    for (const n of b.nodes) if (!inSight || inSight(n)) paintCells(c, n, k, x + n.x * k, y + n.y * k);
  }

  function bitmapOf(b) {
    const k = view.k * ratio, w = Math.ceil(b.w * k), hh = Math.ceil(b.h * k);
    let m = bitmaps.get(b.name);
    if (!m) { m = { canvas: document.createElement("canvas") }; bitmaps.set(b.name, m); }
    m.canvas.width = Math.max(1, w);
    m.canvas.height = Math.max(1, hh);
    m.k = k;
    m.stale = false;
    const c = m.canvas.getContext("2d", { alpha: false });
    if (cell * k < 4) { // too small for marks and names: pixels are written at once
      const dots = pixels(m.canvas.width, m.canvas.height, theme.box);
      for (const n of b.nodes) paintDots(dots, n, k);
      c.putImageData(dots.image, 0, 0);
      return m;
    }
    c.fillStyle = theme.box;
    c.fillRect(0, 0, m.canvas.width, m.canvas.height);
    paintBlock(c, b, k, 0, 0);
    return m;
  }

  // paintDots is paintCells for a whole fleet in one picture, where a call of the canvas for each cell takes most of the time.
  function paintDots(dots, n, k) {
    const node = nodes.get(n.name);
    if (!node) return;
    const dim = matches && !matches.has(n.name), size = Math.max(1, cell * k), step = (cell + gap) * k;
    let i = 0;
    for (const r of node.gpus) {
      const v = way.of(r, node, work), lit = !dim && (!matches || matches.get(n.name) === true || matches.get(n.name).has(r)), colour = v ? way.colour(v) : theme.none;
      for (const end = i + r.n; i < end; i++) dots.rect(n.x * k + (i % 8) * step, n.y * k + Math.floor(i / 8) * step, size, colour, lit ? 1 : 0.13);
    }
  }

  function draw() {
    wanted = 0;
    const began = performance.now();
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.fillStyle = getBackground();
    ctx.fillRect(0, 0, canvas.width, canvas.height);
    let behind = false;
    const budget = stage.dataset.painted ? frameBudget : firstBudget;
    for (const b of plan.boxes) {
      const x = (view.x + b.x * view.k) * ratio, y = (view.y + b.y * view.k) * ratio, w = b.w * view.k * ratio, hh = b.h * view.k * ratio;
      if (x > canvas.width || y > canvas.height || x + w < 0 || y + hh < 0) continue;
      if (w * hh > mostPixels) {
        const seen = (n) => { const nx = x + n.x * view.k * ratio, ny = y + n.y * view.k * ratio; return nx < canvas.width && ny < canvas.height && nx + n.w * view.k * ratio > 0 && ny + n.h * view.k * ratio > 0; };
        paintBlock(ctx, b, view.k * ratio, x, y, seen);
        continue;
      }
      let m = bitmaps.get(b.name);
      if (!m || m.stale || m.k !== view.k * ratio) {
        if (!m || performance.now() - began < budget) {
          if (m || performance.now() - began < budget * 2) m = bitmapOf(b); else { behind = true; continue; }
        } else behind = true;
      }
      if (m.k === view.k * ratio) ctx.drawImage(m.canvas, Math.round(x), Math.round(y)); else ctx.drawImage(m.canvas, x, y, w, hh);
    }
    overlay();
    if (behind) later();
    else if (!stage.dataset.painted && plan.at.size) { stage.dataset.painted = String(Math.round(performance.now())); performance.mark("fleet-painted"); }
    stage.dataset.version = state.version;
  }

  let background = "";
  const getBackground = () => background || (background = getComputedStyle(stage).backgroundColor);

  function overlay() {
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    const frame = (n, style, wide) => {
      ctx.strokeStyle = style;
      ctx.lineWidth = wide;
      ctx.strokeRect(view.x + (n.block.x + n.x) * view.k - 2, view.y + (n.block.y + n.y) * view.k - 2, n.w * view.k + 4, n.h * view.k + 4);
    };
    // tag is a word on a ground of its own, left of x: what is below it is part of the frame's own node.
    const tag = (text, x, y) => {
      const high = (10 * base) / ratio;
      ctx.font = `600 ${high}px system-ui, sans-serif`;
      const wide = ctx.measureText(text).width + high * 0.8;
      ctx.fillStyle = theme.accent;
      ctx.fillRect(x - wide, y - high * 0.65, wide, high * 1.3);
      ctx.fillStyle = theme.box;
      ctx.fillText(text, x - wide + high * 0.4, y + high * 0.36);
    };
    for (const [name, pods] of found) {
      const n = plan.at.get(name);
      if (!n) continue;
      frame(n, theme.accent, 2.5);
      if (view.k > 0.9) tag(plural(pods, "pod"), view.x + (n.block.x + n.x + n.w) * view.k + 2, view.y + (n.block.y + n.y + n.h / 2) * view.k);
    }
    for (const name of selected) if (plan.at.has(name)) frame(plan.at.get(name), theme.text, 1.5);
    if (focus && plan.at.has(focus) && document.activeElement === canvas) { ctx.setLineDash([4, 3]); frame(plan.at.get(focus), theme.text, 2); ctx.setLineDash([]); }
    if (hover?.node && plan.at.has(hover.node)) frame(plan.at.get(hover.node), theme.soft, 1);
    if (rubber) { ctx.strokeStyle = theme.accent; ctx.lineWidth = 1; ctx.strokeRect(rubber.x, rubber.y, rubber.w, rubber.h); }
  }

  // What a search means: matches is null where nothing is searched for, else by node what of it is meant: all, or some runs.
  function match() {
    query = search.value.trim().toLowerCase();
    matches = null;
    if (query) {
      matches = new Map();
      const hit = (s) => s && s.toLowerCase().includes(query);
      for (const [name, n] of nodes) {
        if (hit(name) || hit(n.model) || hit(n.rack) || hit(n.block) || hit(n.pool) || hit(n.zone)) { matches.set(name, true); continue; }
        const some = n.gpus.filter((r) => hit(r.cause) || hit(kinds[r.stage]?.[0]) || hit(r.work) || (r.pods || []).some(hit) || hit(work(r.work)?.queue) || hit(work(r.work)?.title));
        if (some.length) matches.set(name, new Set(some));
      }
    }
    for (const m of bitmaps.values()) m.stale = true;
    mirror.filter(matches);
    detail();
    later();
  }

  function totals(names) {
    const by = new Map(), works = new Map(), legendBy = new Map();
    let gpus = 0;
    for (const name of names) for (const r of nodes.get(name)?.gpus || []) {
      if (matches && !(matches.get(name) === true || matches.get(name)?.has(r))) continue;
      gpus += r.n;
      by.set(r.stage, (by.get(r.stage) || 0) + r.n);
      if (r.work) works.set(r.work, (works.get(r.work) || 0) + r.n);
      const v = way.of(r, nodes.get(name), work);
      if (v) legendBy.set(v, (legendBy.get(v) || 0) + r.n);
    }
    return { gpus, by, works, legendBy };
  }

  function summary() {
    const t = totals(nodes.keys());
    const usable = ["schedulable", "allocated", "busy"].reduce((n, s) => n + (t.by.get(s) || 0), 0), held = (t.by.get("allocated") || 0) + (t.by.get("busy") || 0);
    if (!nodes.size) fill(sum); else fill(sum, h("b", plural(t.gpus, "GPU")), matches ? " match" : "", ` on ${plural(matches ? matches.size : nodes.size, "node")}`, usable ? h("span", ` · ${Math.round((100 * held) / usable)} % held`) : "", t.gpus - usable ? h("span.bad", ` · ${count(t.gpus - usable)} not usable`) : "");
    nothing.hidden = nodes.size > 0;
    fill(nothing, nodes.size > 0 ? [] : state.version === 0 ? h("p.busy", "Reading the cluster…") : [h("h2", table.source.get("nodes")?.forbidden ? "Nodes are not shown" : "No node with GPUs"), h("p.hint", table.source.get("nodes")?.forbidden ? [counted(), "Your rights do not let this page show nodes. Queues and Why show what you may see."] : live ? "Nodes appear here as soon as one has GPUs, or says that it should." : "The decision log has none at this time.")]);
    const rank = Object.keys(kinds), items = [...t.legendBy].sort((a, b) => (way === ways.state ? rank.indexOf(a[0]) - rank.indexOf(b[0]) : b[1] - a[1]));
    const rest = t.gpus - items.reduce((n, [, m]) => n + m, 0);
    fill(parts, items.map(([v, n]) => h("i", { style: { background: way.colour(v), flexGrow: String(n) }, title: `${way.label(v, work)}: ${count(n)}` })), rest > 0 && h("i", { style: { background: theme.none, flexGrow: String(rest) }, title: `others: ${count(rest)}` }));
    fill(legend, items.slice(0, 10).map(([v, n]) => h("button.key", { type: "button", title: kinds[v]?.[1] || "", onclick: () => { search.value = search.value === way.label(v, work) ? "" : way.label(v, work); search.dispatchEvent(new Event("input")); } }, h("i", { style: { background: way.colour(v) } }), `${way.label(v, work)} `, h("span.num", count(n)))), items.length > 10 && h("span.key", `and ${items.length - 10} more`), !items.length && t.gpus > 0 && h("span.key", way === ways.why ? "every GPU is schedulable" : "nothing to colour"));
  }

  // counted is the fleet in numbers, for those who may not see it.
  function counted() {
    const t = table.total.get("fleet");
    return t?.nodes > 0 && `The fleet has ${plural(t.nodes, "node")}; ${count(t.reached.allocated || 0)} of ${plural(t.reached.schedulable || 0, "usable GPU")} are held. `;
  }

  function cause(r) { return r.cause && r.cause !== "idle" && r.cause !== "not-measured" ? r.cause : ""; }

  function detail() {
    const names = selected.size ? [...selected].filter((n) => nodes.has(n)) : [];
    if (!names.length && !found.size && !fit.result.firstChild) { panel.hidden = true; return; }
    panel.hidden = false;
    const t = totals(names), one = names.length === 1 && nodes.get(names[0]);
    fill(panel, fit.result, names.length > 0 && [
      h("div.head", h("h2", one ? names[0] : plural(names.length, "node")), h("button", { type: "button", "aria-label": "Clear the selection", onclick: () => pick([]) }, "×")),
      one && h("p.hint", [one.model, one.block, one.rack, one.clique && `clique ${one.clique}`, one.pool && `pool ${one.pool}`, one.parts && `shared by ${one.parts}`].filter(Boolean).join(" · ")),
      one?.mig && h("p.hint", "MIG: ", one.mig.map((m) => `${count(m.held)} of ${count(m.n)} × ${m.profile} held`).join(", ")),
      one?.said && h("p.warn", one.said, one.fix && `: ${one.fix}`),
      h("dl.facts", h("div", h("dt", "GPUs"), h("dd", count(t.gpus))), [...t.by].map(([s, n]) => h("div", h("dt", h("i.dot." + s), kinds[s][0]), h("dd", count(n))))),
      one && h("ul.cells", one.gpus.map((r) => h("li", h("i.dot." + r.stage), h("b", r.n > 1 ? `${r.n} ×` : "1 ×"), " ", kinds[r.stage][0], cause(r) && [" ", h("code", r.cause)], (r.pods || []).map((p) => h("span.pod", p)), r.more && h("span.pod", `and ${plural(r.more, "more pod")}`), r.hidden && h("span.pod", `${plural(r.hidden, "pod")} that you may not see`)))),
      t.works.size > 0 && h("h3", "Work"), h("ul.works", [...t.works].sort((a, b) => b[1] - a[1]).slice(0, 15).map(([w, n]) => h("li", work(w)?.metadata ? h("a", { href: whyLink(work(w)) }, work(w).title) : w.split("/").pop(), h("span", work(w)?.queue || w.split("/")[0]), h("span.num", plural(n, "GPU"))))),
    ]);
  }

  function pick(names, add) {
    if (!add) selected.clear();
    for (const n of names) add && selected.has(n) && names.length === 1 ? selected.delete(n) : selected.add(n);
    set({ sel: selected.size && selected.size <= 20 ? [...selected].join(",") : "" });
    detail();
    mirror.refresh();
    later();
  }

  // --- pointer and keys ---
  const world = (e) => { const r = canvas.getBoundingClientRect(); return [(e.clientX - r.left - view.x) / view.k, (e.clientY - r.top - view.y) / view.k]; };
  function nodeAt(x, y) {
    for (const b of plan.boxes) {
      if (x < b.x || y < b.y || x > b.x + b.w || y > b.y + b.h) continue;
      for (const n of b.nodes) if (x - b.x >= n.x - 1 && x - b.x <= n.x + n.w + 1 && y - b.y >= n.y - 2 && y - b.y <= n.y + n.h + 2) return [n, cellAt(n, x - b.x, y - b.y), b];
      const rack = b.racks.find((r) => x - b.x >= r.x && x - b.x <= r.x + r.w && y - b.y >= r.y && y - b.y < r.y + 10);
      return [null, -1, b, rack];
    }
    return [null, -1, null];
  }
  function zoom(f, cx, cy) {
    const k = Math.min(8, Math.max(0.02, view.k * f));
    view.x = cx - ((cx - view.x) * k) / view.k;
    view.y = cy - ((cy - view.y) * k) / view.k;
    view.k = k;
    moved = true;
    later();
  }
  let drag = null, rubber = null;
  const fingers = new Map();
  canvas.addEventListener("pointerdown", (e) => { fingers.set(e.pointerId, e); canvas.setPointerCapture(e.pointerId); drag = { x: e.clientX, y: e.clientY, vx: view.x, vy: view.y, far: false, band: e.shiftKey }; });
  canvas.addEventListener("pointermove", (e) => {
    if (fingers.size === 2 && fingers.has(e.pointerId)) {
      const [a, b] = [...fingers.values()], before = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
      fingers.set(e.pointerId, e);
      const [c, d] = [...fingers.values()], r = canvas.getBoundingClientRect();
      zoom(Math.hypot(c.clientX - d.clientX, c.clientY - d.clientY) / Math.max(1, before), (c.clientX + d.clientX) / 2 - r.left, (c.clientY + d.clientY) / 2 - r.top);
      return;
    }
    if (drag) {
      const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
      if (Math.abs(dx) + Math.abs(dy) > 4) drag.far = true;
      const r = canvas.getBoundingClientRect();
      if (drag.band) rubber = { x: Math.min(drag.x, e.clientX) - r.left, y: Math.min(drag.y, e.clientY) - r.top, w: Math.abs(dx), h: Math.abs(dy) };
      else if (drag.far) { view.x = drag.vx + dx; view.y = drag.vy + dy; moved = true; }
      tip.hidden = true;
      later();
      return;
    }
    const [n, i] = nodeAt(...world(e));
    const key = n ? `${n.name} ${i}` : "";
    if (key === (hover?.key || "")) return;
    hover = n ? { key, node: n.name } : null;
    tip.hidden = !n;
    if (n) {
      let at = 0;
      const node = nodes.get(n.name), r = node?.gpus.find((r) => i >= at && i < (at += r.n));
      const box = stage.getBoundingClientRect();
      fill(tip, h("b", n.name), h("span", [node?.model, n.rack].filter(Boolean).join(" · ")), r && h("span", h("i.dot." + r.stage), `GPU ${i}: ${kinds[r.stage][0]}`, cause(r) && ` (${r.cause})`), (r?.pods || []).map((p) => h("span.pod", p)), r?.hidden && h("span.pod", "of a namespace that you may not see"), r?.work && work(r.work)?.queue && h("span", `queue ${work(r.work).queue}`));
      tip.style.left = `${Math.min(e.clientX - box.left + 14, box.width - 240)}px`;
      tip.style.top = `${Math.min(e.clientY - box.top + 14, box.height - 110)}px`;
    }
    later();
  });
  const release = (e) => {
    fingers.delete(e.pointerId);
    if (!drag) return;
    if (rubber) {
      const hit = [...plan.at.values()].filter((n) => { const x = view.x + (n.block.x + n.x) * view.k, y = view.y + (n.block.y + n.y) * view.k; return x + n.w * view.k > rubber.x && x < rubber.x + rubber.w && y + n.h * view.k > rubber.y && y < rubber.y + rubber.h; });
      pick(hit.map((n) => n.name), false);
    } else if (!drag.far && e.type === "pointerup") {
      const [n, , b, rack] = nodeAt(...world(e));
      if (n) { focus = n.name; pick([n.name], e.ctrlKey || e.metaKey); } else if (rack) pick(b.nodes.filter((m) => m.rack === rack.name).map((m) => m.name)); else if (b) pick(b.nodes.map((m) => m.name)); else pick([]);
    }
    drag = rubber = null;
    later();
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { hover = null; tip.hidden = true; later(); });
  canvas.addEventListener("wheel", (e) => { e.preventDefault(); const r = canvas.getBoundingClientRect(); zoom(Math.exp(-e.deltaY * 0.0015), e.clientX - r.left, e.clientY - r.top); }, { passive: false });
  canvas.addEventListener("dblclick", (e) => { const r = canvas.getBoundingClientRect(); zoom(2, e.clientX - r.left, e.clientY - r.top); });
  canvas.addEventListener("focus", later);
  canvas.addEventListener("blur", later);
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (e) => {
    if (e.key === "+" || e.key === "=") zoom(1.25, width / 2, height / 2);
    else if (e.key === "-") zoom(0.8, width / 2, height / 2);
    else if (e.key === "0") home();
    else if (e.key === "Escape") pick([]);
    else if ((e.key === "Enter" || e.key === " ") && focus) pick([focus], e.shiftKey);
    else if (steps[e.key]) step(...steps[e.key]);
    else return;
    e.preventDefault();
  });
  // step moves the focus to the nearest node in a direction, and has it said.
  function step(dx, dy) {
    const from = plan.at.get(focus), all = [...plan.at.values()];
    const centre = (n) => [n.block.x + n.x + n.w / 2, n.block.y + n.y + n.h / 2];
    if (!from) focus = all[0]?.name || "";
    else {
      const [fx, fy] = centre(from);
      let best = null, least = Infinity;
      for (const n of all) {
        const [x, y] = centre(n), along = (x - fx) * dx + (y - fy) * dy, off = Math.abs((x - fx) * dy) + Math.abs((y - fy) * dx);
        if (along > 1 && along + off * 3 < least) { least = along + off * 3; best = n; }
      }
      focus = best?.name || focus;
    }
    const n = nodes.get(focus);
    if (n) say(`${focus}: ${n.gpus.map((r) => `${r.n} ${kinds[r.stage][0]}`).join(", ")}${n.said ? ". " + n.said : ""}`);
    later();
  }

  function fitForm() {
    const pods = h("input", { type: "number", min: "1", max: "512", value: params.get("pods") || "4", "aria-label": "Pods" }), gpus = h("input", { type: "number", min: "1", max: "64", value: params.get("gpus") || "8", "aria-label": "GPUs of each pod" });
    const model = h("select", { "aria-label": "GPU model" }, h("option", { value: "" }, "any model")), level = h("select", { "aria-label": "Together in" }, [["", "anywhere"], ["rack", "one rack"], ["block", "one block"]].map(([v, t]) => h("option", { value: v }, t)));
    const result = h("div.fit");
    const form = h("form.fitform", { title: "Where would a gang of this shape start now? The engine answers, as for berth check.", onsubmit: async (e) => {
      e.preventDefault();
      fill(result, h("p.busy", "Asking the engine…"));
      detail();
      try {
        const r = await ask("fit", { pods: pods.value, gpus: gpus.value, model: model.value, level: level.value });
        const w = r.workloads[0];
        found = new Map((w.nodes || []).map((n) => [n.node, n.pods]));
        fill(result, h("div.head", h("h2", `${pods.value} × ${gpus.value} GPUs`), h("button", { type: "button", "aria-label": "Close", onclick: () => { found = new Map(); fill(result); detail(); later(); } }, "×")),
          h("p.verdict." + w.verdict, w.verdict), h("p", w.summary), found.size > 0 && h("p.hint", `${plural(found.size, "node")}: framed in the picture.`), found.size > 0 && h("ul.works", [...found].slice(0, 12).map(([n, p]) => h("li", h("a", { href: link("fleet", { q: n }) }, n), h("span"), h("span.num", plural(p, "pod"))))),
          (w.fixes || []).slice(0, 2).map((f) => h("p.hint", `Would help: ${f.edit}. ${f.outcome}`)), (r.assumes || []).map((a) => h("p.hint", `Assumes: ${a}.`)), notSeen(r.unseen));
        say(w.summary);
      } catch (err) { found = new Map(); fill(result, h("p.bad", err.message)); }
      detail();
      later();
    } }, h("label", "Fits ", pods), h("label", "× ", gpus), model, level, h("button", { type: "submit" }, "Where?"));
    const fillModels = () => {
      const have = table.total.get("models") || [];
      if (have.length + 1 !== model.options.length) { const was = model.value; fill(model, h("option", { value: "" }, "any model"), have.map((m) => h("option", { value: m }, m))); model.value = was; }
    };
    return { form, result, fillModels };
  }

  // scrubber moves through the decision log.
  function scrubber() {
    const slider = h("input", { type: "range", min: "0", max: "1000", value: "1000", "aria-label": "Time in the decision log" }), when = h("output"), root = h("div.replay", { hidden: true }, h("b", "Replay"), h("button", { type: "button", "aria-label": "A step back", onclick: () => nudge(-1) }, "‹"), slider, h("button", { type: "button", "aria-label": "A step on", onclick: () => nudge(1) }, "›"), when, h("a.button", { href: "#fleet", onclick: () => leaveReplay() }, "Live"));
    let since = 0, end = 0, asked = new AbortController(), soon = 0;
    const nudge = (n) => { slider.value = String(Number(slider.value) + n * 10); moveTo(since + ((end - since) * slider.value) / 1000); };
    slider.addEventListener("input", () => { const t = since + ((end - since) * slider.value) / 1000; when.textContent = clock(t, true); clearTimeout(soon); soon = setTimeout(() => moveTo(t), 80); });
    async function moveTo(t) {
      asked.abort();
      asked = new AbortController();
      when.textContent = clock(t, true);
      try {
        const m = await ask("moment", { at: Math.round(t) }, asked.signal);
        nodes = new Map(Object.entries(m.nodes));
        works = new Map(Object.entries(m.workloads));
        set({ at: Math.round(t) });
        root.dataset.at = String(Math.round(t));
        if (query) match();
        relayout();
        summary();
        detail();
        mirror.refresh();
        say(`${clock(t, true)}: ${count(m.sum.held)} of ${count(m.sum.gpus)} GPUs held, ${count(m.sum.waitingWork)} workloads wait`);
      } catch (err) { if (err.name !== "AbortError") when.textContent = err.message; }
    }
    async function begin(at) {
      root.hidden = false;
      main.classList.add("past");
      end = now();
      try { since = (await ask("past", { from: Math.round(end - 2592000000), to: Math.round(end), parts: 1 })).since; } catch (err) { when.textContent = err.message; slider.disabled = true; live = true; return; }
      const t = at > 0 ? Math.min(end, Math.max(since, at)) : end;
      slider.value = String(Math.round((1000 * (t - since)) / Math.max(1, end - since)));
      await moveTo(t);
    }
    return { root, begin, stop: () => { asked.abort(); clearTimeout(soon); } };
  }
  function leaveReplay() { replayBar.stop(); }

  search.addEventListener("input", () => { set({ q: search.value }); match(); summary(); });
  colour.addEventListener("change", () => { way = ways[colour.value]; set({ colour: colour.value === "state" ? "" : colour.value }); for (const m of bitmaps.values()) m.stale = true; summary(); later(); });
  const showTable = (on) => { asTable.setAttribute("aria-pressed", on); main.classList.toggle("tabled", on); set({ view: on ? "table" : "" }); mirror.refresh(); };
  asTable.addEventListener("click", () => showTable(!main.classList.contains("tabled")));

  function size() {
    ratio = Math.min(2, devicePixelRatio || 1);
    base = (ratio * parseFloat(getComputedStyle(document.documentElement).fontSize)) / 14;
    const r = stage.getBoundingClientRect();
    if (Math.round(r.width) === width && Math.round(r.height) === height) return;
    [width, height] = [Math.round(r.width), Math.round(r.height)];
    canvas.width = Math.max(1, width * ratio);
    canvas.height = Math.max(1, height * ratio);
    moved ? later() : relayout();
  }
  const watching = new ResizeObserver(size);
  watching.observe(stage);
  const themed = () => { theme = readTheme(); background = ""; for (const m of bitmaps.values()) m.stale = true; summary(); later(); };
  addEventListener("themed", themed);

  let summed = 0;
  // Of all nodes, the summary is made first: it has a height.
  const stop = onChange((kindsChanged, changed) => {
    if (!live) return;
    if (kindsChanged.has("total")) fit.fillModels();
    if (kindsChanged.has("total") && !nodes.size) summary();
    const named = way === ways.queue || way === ways.job || query || selected.size; // what workloads are called, and whose they are, is shown
    if (!kindsChanged.has("node") && !(kindsChanged.has("workload") && named)) return;
    if (changed === null) { if (query) match(); summary(); size(); relayout(); } else for (const n of changed) { const m = bitmaps.get(plan.at.get(n)?.block.name); if (m) m.stale = true; }
    if (kindsChanged.has("workload") && way === ways.queue) for (const m of bitmaps.values()) m.stale = true;
    if (query && changed?.size) match();
    clearTimeout(summed);
    summed = setTimeout(() => { summary(); detail(); mirror.refresh(); }, 60);
    later();
  });
  size();
  fit.fillModels();
  if (search.value) match();
  summary();
  detail();
  showTable(params.get("view") === "table");
  if (!live) replayBar.begin(time(params.get("at")));
  return () => { stop(); replayBar.stop(); main.classList.remove("past", "tabled"); watching.disconnect(); removeEventListener("themed", themed); cancelAnimationFrame(wanted); clearTimeout(summed); };
}
