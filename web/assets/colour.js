// What a cell looks like. Every way to colour has a legend, and what is wrong with a GPU has a mark besides its colour.

// kinds of cells, as the account of GPUs has them: the last step that a GPU reached.
export const kinds = {
  busy: ["busy", "in use, and measured to work"],
  allocated: ["held", "a pod has it"],
  schedulable: ["free", "new work may be placed on it"],
  healthy: ["closed", "the node takes no new work"],
  advertised: ["unhealthy", "the node found it unhealthy"],
  ready: ["not offered", "the node is Ready and does not offer it"],
  registered: ["not ready", "the node is not Ready"],
  launched: ["no node", ""], paid: ["no machine", ""],
};

// marked are the kinds that are drawn with a stroke through them.
export const marked = new Set(["advertised", "ready", "registered", "healthy"]);

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let theme = {};
export function readTheme() {
  theme = Object.fromEntries(["busy", "allocated", "schedulable", "healthy", "advertised", "ready", "registered", "launched", "paid"].map((k) => [k, css(`--${k}`)]));
  Object.assign(theme, { text: css("--text"), soft: css("--soft"), box: css("--box"), mark: css("--mark"), accent: css("--accent"), good: css("--busy"), none: css("--none"), dark: document.documentElement.dataset.theme === "dark" });
  cache.clear();
  return theme;
}

// hues are for names: the same name has the same colour everywhere, in all sessions.
const cache = new Map();
export function hue(name) {
  let c = cache.get(name);
  if (!c) {
    let n = 2166136261;
    for (let i = 0; i < name.length; i++) n = Math.imul(n ^ name.charCodeAt(i), 16777619);
    n = Math.imul(n ^ (n >>> 16), 0x85ebca6b);
    n = Math.imul(n ^ (n >>> 13), 0xc2b2ae35);
    const u = (n ^ (n >>> 16)) >>> 0;
    c = `hsl(${u % 360} ${45 + ((u >> 9) % 25)}% ${theme.dark ? 52 + ((u >> 15) % 14) : 44 + ((u >> 15) % 14)}%)`;
    cache.set(name, c);
  }
  return c;
}

const lost = (r) => r.stage !== "schedulable" && r.stage !== "allocated" && r.stage !== "busy";

// ways to colour: what a cell is called in the legend ("" for nothing to tell).
export const ways = {
  state: { title: "state", of: (r) => r.stage, colour: (v) => theme[v] || theme.none, label: (v) => kinds[v]?.[0] || v },
  queue: { title: "queue", of: (r, n, work) => (r.work ? work(r.work)?.queue || "no queue" : ""), colour: (v) => (v === "no queue" ? theme.soft : hue("q" + v)), label: (v) => v },
  job: { title: "job", of: (r) => r.work || "", colour: (v) => hue(v), label: (v, work) => work(v)?.title || v.split("/").pop() },
  health: { title: "health", of: (r, n) => (lost(r) ? r.stage : n.said ? "warned" : "well"), colour: (v) => ({ well: theme.good, warned: theme.healthy })[v] || theme[v] || theme.none, label: (v) => ({ well: "healthy", warned: "node reports a problem" })[v] || kinds[v]?.[0] || v },
  model: { title: "GPU model", of: (r, n) => n.model || "unknown", colour: (v) => hue("m" + v), label: (v) => v },
  why: { title: "why not schedulable", of: (r) => (lost(r) ? r.cause || r.stage : ""), colour: (v) => hue("c" + v), label: (v) => v },
};
