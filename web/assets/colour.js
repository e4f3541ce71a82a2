// What a cell looks like. Every way to colour has a legend, and what is wrong with a GPU has a mark besides its colour.

// kinds of cells, as the account of GPUs has them: the last step that a GPU reached.
export const kinds = {
  busy: ["busy", "in use, and measured to work"],
  allocated: ["held", "a pod has it"],
  schedulable: ["free", "new work may be placed on it"],
  healthy: ["closed", "the node takes no new work"],
  advertised: ["unhealthy", "the node found it unhealthy"],
  ready: ["not advertised", "the node has it by its pool, type or labels, and does not advertise it"],
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

// parsed are colours as numbers. The canvas reads whatever CSS can say.
const parsed = new Map(), reader = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function numbers(colour) {
  let c = parsed.get(colour);
  if (!c) {
    reader.fillStyle = colour;
    reader.fillRect(0, 0, 1, 1);
    c = reader.getImageData(0, 0, 1, 1).data;
    parsed.set(colour, c);
  }
  return c;
}

// pixels is a picture that squares are written into, blended at their edges as the canvas does it.
export function pixels(width, height, ground) {
  const image = new ImageData(width, height), data = image.data, whole = new Uint32Array(data.buffer), [r, g, b] = numbers(ground);
  data[0] = r; data[1] = g; data[2] = b; data[3] = 255;
  whole.fill(whole[0]);
  function rect(x, y, size, colour, alpha) {
    const c = numbers(colour), left = Math.max(0, Math.floor(x)), right = Math.min(width, Math.ceil(x + size)), top = Math.max(0, Math.floor(y)), bottom = Math.min(height, Math.ceil(y + size));
    for (let py = top; py < bottom; py++) {
      const high = alpha * (Math.min(py + 1, y + size) - Math.max(py, y));
      for (let px = left; px < right; px++) {
        const cover = high * (Math.min(px + 1, x + size) - Math.max(px, x)), at = 4 * (py * width + px);
        data[at] += (c[0] - data[at]) * cover;
        data[at + 1] += (c[1] - data[at + 1]) * cover;
        data[at + 2] += (c[2] - data[at + 2]) * cover;
      }
    }
  }
  return { image, rect };
}
