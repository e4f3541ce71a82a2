// The table of the server, kept up to date by its stream: values by kind and name.

export const table = { node: new Map(), workload: new Map(), queue: new Map(), source: new Map(), total: new Map(), line: new Map() };
export const state = { connected: false, heard: 0, skew: 0, version: 0, whole: 0, refused: false };

const listeners = new Set();
let touched = new Set();
let frame = 0;

// onChange calls back at most once a frame, with the kinds that changed and the names of nodes that did; all of them where nodes
// is null. It returns how to stop.
export function onChange(f) {
  listeners.add(f);
  return () => listeners.delete(f);
}

let nodes = new Set();

function notify() {
  if (frame) return;
  frame = requestAnimationFrame(flush);
  setTimeout(() => { if (frame) flush(); }, 250); // hidden pages have no frames
}

function flush() {
  cancelAnimationFrame(frame);
  frame = 0;
  const kinds = touched, changed = nodes;
  touched = new Set();
  nodes = new Set();
  for (const f of listeners) f(kinds, changed);
}

function take(message) {
  if (message.whole) performance.mark("table");
  for (const [kind, map] of Object.entries(table)) {
    if (message.whole) {
      map.clear();
      touched.add(kind);
      if (kind === "node") nodes = null;
    }
    for (const [name, value] of Object.entries(message.set?.[kind] || {})) {
      if (kind === "node" && nodes && !map.has(name)) nodes = null; // the layout changes
      map.set(name, value);
      touched.add(kind);
      if (kind === "node" && nodes) nodes.add(name);
    }
    for (const name of message.gone?.[kind] || []) {
      map.delete(name);
      touched.add(kind);
      if (kind === "node") nodes = null;
    }
  }
  state.version = message.to;
  if (message.whole) state.whole++;
  notify();
}

let stream;
let retry = 500;

// begin reads the whole table at once, which the document asks for before any script runs, and then its changes.
export async function begin() {
  let since = "";
  try {
    const first = await fetch("api/table?wait=0");
    if (first.status === 200) {
      const whole = await first.json();
      take(whole);
      since = `?since=${whole.to}&of=${whole.of}`;
    }
  } catch { /* the stream says what is the matter */ }
  connect(since);
}

function connect(since = "") {
  stream?.close();
  stream = new EventSource("api/stream" + since);
  stream.addEventListener("now", (e) => {
    state.heard = Date.now();
    state.skew = Number(e.data) - state.heard;
    state.connected = true;
    retry = 500;
    touched.add("now");
    notify();
  });
  stream.addEventListener("table", (e) => take(JSON.parse(e.data)));
  stream.onerror = async () => {
    state.connected = false;
    touched.add("now");
    notify();
    if (stream.readyState !== EventSource.CLOSED) return;
    stream.close();
    try { state.refused = [401, 403].includes((await fetch("api/about")).status); } catch { state.refused = false; }
    notify();
    retry = Math.min(retry * 2, 15000);
    setTimeout(() => connect(), retry);
  };
}

// now is the server's clock.
export const now = () => Date.now() + state.skew;

export const waiting = () => [...table.workload.values()].filter((w) => w.state === "waiting").sort((a, b) => a.order - b.order);

// unread says why it is not known what waits: "" where it is. A scheduler that does not answer is no empty line.
export function unread() {
  const line = table.line.get("scheduler");
  return line ? (line.error ? `Not known: ${line.error}` : "") : "Asking the scheduler…";
}

export const keyOf = (w) => `${w.metadata.namespace}/${w.metadata.name}`;
