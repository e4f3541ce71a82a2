// Use over time: GPUs that are held, of those there are, with what waits above them. Drag for a span, click for an instant; with
// the keyboard, arrows move the instant and Shift with arrows makes a span of it.
import { h, fill, svg, count, plural, ask } from "./dom.js";
import { now, table } from "./store.js";

// target is the share of GPUs in use that fleets are held to.
export const target = 0.7;

export const spans = [["15 min", 900], ["1 h", 3600], ["6 h", 21600], ["24 h", 86400], ["7 d", 604800], ["30 d", 2592000]];

// back is how far back an address looks, in seconds.
export const back = (params, unsaid) => { const n = Number(params.get("span")); return n >= 60 && n <= 366 * 86400 ? Math.round(n) : unsaid; };

const day = 86400000;

// clock words a time: with the date where that is not today's.
export function clock(t, long) {
  const d = new Date(t), o = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(long && { second: "2-digit" }) };
  return Math.abs(now() - t) > day / 2 && d.toDateString() !== new Date(now()).toDateString() ? d.toLocaleString("en-GB", { day: "numeric", month: "short", ...o }) : d.toLocaleTimeString("en-GB", o);
}

// past asks for a span: of the decision log, or of what the server has seen itself where there is no log to read.
export async function past(from, to, parts, signal) {
  try {
    const a = await ask("past", { from: Math.round(from), to: Math.round(to), parts }, signal);
    return { logged: true, ...a };
  } catch (err) {
    if (err.name === "AbortError") throw err;
    const a = await ask("history", {}, signal);
    const points = a.samples.filter((s) => s.at >= from && s.at <= to).map((s) => ({ at: s.at, gpus: s.schedulable, held: s.allocated, waiting: s.waitingGPUs, preempted: s.preempted, lost: 0 }));
    return { logged: false, why: err.message, since: a.samples[0]?.at || to, points, waits: { ...a.waits, p90: a.waits.p95, p99: a.waits.p95 }, moments: a.moments };
  }
}

// blind says that use is not known because nodes may not be read: not that there are no GPUs.
export const blind = (points) => table.source.get("nodes")?.forbidden && !points.some((p) => p.gpus > 0);

export const share = (p) => (p.gpus > 0 ? Math.min(1, p.held / p.gpus) : 0);

// chart draws into an element. pick(from, to) is told what was chosen; with from === to, an instant; 0, 0 for nothing.
export function chart(where, { pick, high = 230, label = "Use over time" }) {
  let data = null, chosen = [0, 0], from = 0, to = 1, dragged = false;
  const text = (x, y, s, anchor, cls) => { const e = svg("text", { x, y, "text-anchor": anchor, class: cls }); e.textContent = s; return e; };

  function draw() {
    if (!data || dragged) return; // what is being dragged stays; it is drawn again when it is let go
    const focused = where.contains(document.activeElement);
    const large = parseFloat(getComputedStyle(document.documentElement).fontSize) / 14, height = high * large;
    const w = Math.max(280, where.clientWidth), left = 44 * large, right = 12, top = 14 * large, bottom = 24 * large, s = data.points.filter((p) => p.gpus > 0); // of no GPUs no share is held
    if (s.length < 2) { fill(where, h("p.empty", blind(data.points) ? "Use is not known: your rights do not let this page read nodes." : data.points.some((p) => p.gpus === 0) ? "There were no GPUs in this time." : "Nothing was recorded in this time yet. A point is added every few seconds.")); return; }
    const x = (t) => left + ((w - left - right) * (t - from)) / Math.max(1, to - from), y = (v) => top + (height - bottom - top) * (1 - Math.min(1, Math.max(0, v)));
    const runs = [];
    for (const p of data.points) { if (!p.gpus) runs.push([]); else if (runs.length) runs[runs.length - 1].push(p); else runs.push([p]); }
    const path = (r, f) => r.map((p, i) => `${i ? "L" : "M"}${x(p.at).toFixed(1)} ${y(f(p)).toFixed(1)}`).join("");
    const most = Math.max(1, ...s.map((p) => p.waiting)), full = runs.filter((r) => r.length);
    const last = s[s.length - 1];
    const ticks = [0, 0.25, 0.5, 0.75, 1], times = Array.from({ length: w > 700 ? 6 : 3 }, (_, i, n = w > 700 ? 5 : 2) => from + ((to - from) * i) / n);
    const [a, b] = chosen;
    const mark = svg("line", { class: "cursor", y1: top, y2: height - bottom, x1: -9, x2: -9 }), note = text(-9, top - 3, "", "middle", "cursor");
    const root = svg("svg", { viewBox: `0 0 ${w} ${height}`, width: w, height, role: "img", "aria-label": `${label}: ${Math.round(100 * share(last))} percent of GPUs are held, of ${count(last.gpus)}; work that waits asks for ${count(last.waiting)}. Arrow keys move along it, Shift and arrow keys choose a span.`, tabindex: "0" },
      ticks.map((t) => [svg("line", { x1: left, x2: w - right, y1: y(t), y2: y(t), class: "grid" }), text(left - 8, y(t) + 4, `${t * 100} %`, "end")]).flat(),
      full.map((r) => [svg("path", { d: `${path(r, share)}L${x(r[r.length - 1].at).toFixed(1)} ${y(0)}L${x(r[0].at).toFixed(1)} ${y(0)}Z`, class: "area" }), svg("path", { d: path(r, (p) => p.waiting / most), class: "waits" }), svg("path", { d: path(r, share), class: "use" })]).flat(),
      svg("line", { x1: left, x2: w - right, y1: y(target), y2: y(target), class: "target" }), text(left + 6, y(target) - 5, "70 % target", "start", "target"),
      s.filter((p) => p.preempted).map((p) => svg("path", { d: `M${x(p.at).toFixed(1)} ${y(0)}l-4 -8h8z`, class: "preempted" })),
      a > 0 && b > a && svg("rect", { x: x(Math.max(from, a)), width: Math.max(2, x(Math.min(to, b)) - x(Math.max(from, a))), y: top, height: height - bottom - top, class: "brush" }),
      a > 0 && b === a && svg("line", { x1: x(a), x2: x(a), y1: top, y2: height - bottom, class: "instant" }),
      times.map((t, i) => text(x(t), height - 6 * large, clock(t, to - from < 600000), i === 0 ? "start" : i === times.length - 1 ? "end" : "middle")), mark, note);
    const time = (e) => { const r = root.getBoundingClientRect(); return Math.min(to, Math.max(from, from + ((((e.clientX - r.left) * w) / r.width - left) / (w - left - right)) * (to - from))); };
    const nearest = (t) => s.reduce((m, p) => (Math.abs(p.at - t) < Math.abs(m.at - t) ? p : m), s[0]);
    const point = (t) => {
      const p = nearest(t), at = x(p.at);
      for (const k of ["x1", "x2"]) mark.setAttribute(k, at);
      note.setAttribute("x", Math.min(w - 170 * large, Math.max(170 * large, at)));
      note.textContent = `${clock(p.at, true)} · ${Math.round(100 * share(p))} % · ${count(p.held)} of ${count(p.gpus)} held · ${count(p.waiting)} asked for${p.preempted ? ` · ${plural(p.preempted, "pod")} preempted` : ""}`;
      root.classList.add("pointed");
    };
    root.addEventListener("pointermove", (e) => { point(time(e)); if (began) { const t = time(e); band.setAttribute("x", x(Math.min(t, began))); band.setAttribute("width", Math.abs(x(t) - x(began))); } });
    root.addEventListener("pointerleave", () => root.classList.remove("pointed"));
    let began = 0;
    const band = svg("rect", { y: top, height: height - bottom - top, width: 0, class: "brush" });
    root.append(band);
    root.addEventListener("pointercancel", () => { began = 0; dragged = false; draw(); });
    root.addEventListener("pointerdown", (e) => { began = time(e); dragged = true; try { root.setPointerCapture(e.pointerId); } catch { /* a pointer of a test */ } });
    root.addEventListener("pointerup", (e) => {
      if (!began) return;
      const [m, n] = [began, time(e)].sort((p, q) => p - q), drag = x(n) - x(m) > 5;
      began = 0;
      dragged = false;
      choose(drag ? [Math.round(m), Math.round(n)] : [Math.round(m), Math.round(m)]);
    });
    root.addEventListener("keydown", (e) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 }[e.key] * ((to - from) / 60);
      if (e.key === "Escape") choose([0, 0]);
      else if (step && e.shiftKey) choose([chosen[0] || Math.round(to), Math.round(Math.min(to, Math.max(chosen[0] || to, (chosen[1] || to) + step)))]);
      else if (step) { const t = Math.round(Math.min(to, Math.max(from, (chosen[0] || to) + step))); choose([t, t]); }
      else return;
      e.preventDefault();
    });
    fill(where, root, h("p.legend", h("span.key.use", "held"), h("span.key.waits", `asked for by waiting work (top: ${plural(most, "GPU")})`), h("span.key.preempted", "preemption")));
    if (focused) root.focus({ preventScroll: true });
  }
  function choose(next) { chosen = next; draw(); pick(...next); }
  const resized = new ResizeObserver(draw);
  resized.observe(where);
  return { set: (d, a, b, c = chosen) => { data = d; from = Math.max(a, d.logged === false && d.points.length ? d.points[0].at : a); to = b; chosen = c; draw(); }, choose, stop: () => resized.disconnect() };
}

// spanPicker chooses how far back to look.
export function spanPicker(seconds, pick) {
  const root = h("div.spans", { role: "group", "aria-label": "How far back" });
  const draw = (s) => fill(root, spans.map(([t, n]) => h("button", { type: "button", "aria-pressed": String(n === s), onclick: () => { draw(n); pick(n); } }, t)));
  draw(seconds);
  return root;
}
