// The table of the server, kept up to date by its stream: values by kind and name.
import { first, forget, get, renewed } from "./first.js";

export const table = { node: new Map(), workload: new Map(), queue: new Map(), source: new Map(), total: new Map(), line: new Map() };
export const state = { connected: false, heard: 0, heardAt: 0, skew: 0, version: 0, whole: 0, refused: false, ended: false, sorry: "", about: {} };

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
  if (message.whole) { state.whole++; of = message.of; }
  notify();
}

let of = ""; // the table that the version is of
let retry = 500, again = false;

// clocked is kept once the cluster's clock is known, which the server goes by: to a second, by its first answer, and then by its stream. Views
// ask for spans of time, so a browser whose clock is wrong must not ask before.
export const clocked = first.then((answer) => {
  const off = Date.parse(answer.headers.get("Date")) + 500 - Date.now();
  if (!state.heard && Math.abs(off) > 2000) state.skew = off;
}, () => { /* the stream says what is the matter */ });

// begin takes the whole table, which was asked for before this script was there, and then its changes.
export async function begin() {
  try {
    const answer = await first;
    if (answer.status === 200) take(await answer.json());
  } catch { /* the stream says what is the matter */ }
  for (;;) {
    try { await follow(); } catch { /* it is begun again */ }
    if (again) { again = false; continue; } // the server asked for it
    state.connected = false;
    touched.add("now");
    notify();
    await new Promise((done) => setTimeout(done, retry));
    retry = Math.min(retry * 2, 15000);
  }
}

// follow reads the stream to its end. An EventSource would do the same, but cannot carry the key.
async function follow() {
  const given = new AbortController(), began = performance.now();
  // A connection can die without a word, in a tunnel or while the machine sleeps: nothing is heard, and reading goes on for ever.
  const watch = setInterval(() => { if (Math.min(silent() || Infinity, performance.now() - began) > deaf) given.abort(); }, 1000);
  try { await listen(given.signal); } finally { clearInterval(watch); }
}

// deaf is after how many milliseconds of silence the stream is begun again. The server says something every 5 seconds.
const deaf = 20000;

async function listen(signal) {
  const answer = await get(`stream${of ? `?since=${state.version}&of=${of}` : ""}`, { headers: { Accept: "text/event-stream" }, signal });
  state.refused = [401, 403].includes(answer.status);
  if (state.refused) renewed();
  if (answer.status === 503) hear("sorry", JSON.stringify((await answer.json().catch(() => ({}))).error || ""));
  if (!answer.ok) return;
  const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let parts = []; ;) {
    const { value, done } = await text.read();
    if (done) return;
    parts.push(value);
    if (!value.endsWith("\n")) continue; // an event is in many parts, and ends with an empty line
    const events = parts.join("").split("\n\n");
    parts = [events.pop()];
    for (const e of events) hear(/^event: (.*)$/m.exec(e)?.[1], e.slice(e.indexOf("data: ") + 6));
  }
}

function hear(event, data) {
  if (event === "table") take(JSON.parse(data));
  if (event === "sorry") { state.sorry = JSON.parse(data); retry = 15000; } // others have the places for viewers
  if (event === "again") again = true;
  if (event === "bye") { state.ended = true; forget(); }
  if (event !== "now") return;
  state.sorry = "";
  state.heard = Date.now();
  state.heardAt = performance.now();
  state.skew = Number(data) - state.heard;
  state.connected = true;
  retry = 500;
  touched.add("now");
  notify();
}

// silent is for how many milliseconds the server has said nothing. The clock of the day may be set while the page is open, and the other one
// may stand while the machine sleeps: the longer time is shown.
export const silent = () => (state.heard ? Math.max(Date.now() - state.heard, performance.now() - state.heardAt) : 0);

// now is the cluster's clock.
export const now = () => Date.now() + state.skew;

export const waiting = () => [...table.workload.values()].filter((w) => w.state === "waiting").sort((a, b) => a.order - b.order);

// unread says why it is not known what waits: "" where it is. A scheduler that does not answer is no empty line.
export function unread() {
  const line = table.line.get("scheduler");
  return line ? (line.error ? `Not known: ${line.error}` : "") : "Asking the scheduler…";
}

export const keyOf = (w) => `${w.metadata.namespace}/${w.metadata.name}`;
