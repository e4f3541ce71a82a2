// Small tools to build the document. Text is always text: nothing that a cluster says is ever read as HTML.
import { get } from "./first.js";

// acting are characters that do something besides being read: controls, and marks that turn the direction of writing, of what follows too.
// They stand as their codes, as the commands print them (cli/printable.go).
const acting = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|[\u{e0000}-\u{e007f}]/gu;

export const plain = (text) => String(text).replace(acting, (c) => [...Array(c.length).keys()].map((i) => "\\u" + c.charCodeAt(i).toString(16).padStart(4, "0")).join(""));

// inner is what may stand in an element: text is plain, and nothing for what is missing.
const inner = (children) => children.flat(3).filter((c) => c !== undefined && c !== null && c !== false).map((c) => (c instanceof Node ? c : plain(c)));

// h makes an element: h("p.note", {title: "x", onclick: f}, "text", child, [children]).
export function h(what, ...rest) {
  const [tag, ...classes] = what.split(".");
  const e = document.createElement(tag || "div");
  if (classes.length) e.className = classes.join(" ");
  if (rest[0] && typeof rest[0] === "object" && !(rest[0] instanceof Node) && !Array.isArray(rest[0])) {
    for (const [k, v] of Object.entries(rest.shift())) {
      if (v === undefined || v === null || v === false) continue;
      if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
      else if (k === "style") Object.assign(e.style, v);
      else if (k in e && k !== "list" && typeof v !== "string") e[k] = v;
      else e.setAttribute(k, v === true ? "" : k === "title" || k === "aria-label" ? plain(v) : v);
    }
  }
  e.append(...inner(rest));
  return e;
}

const svgNS = "http://www.w3.org/2000/svg";

export function svg(tag, attrs, ...children) {
  const e = document.createElementNS(svgNS, tag);
  for (const [k, v] of Object.entries(attrs || {})) if (v !== undefined) e.setAttribute(k, v);
  e.append(...children.flat().filter(Boolean));
  return e;
}

// fill gives an element other children. What is drawn again while somebody uses it stays theirs: a child that says the same as the one before
// is that one, with what is selected in it, and else the focus goes to what has its words, and what was unfolded is unfolded.
export function fill(e, ...children) {
  const was = [...e.childNodes], given = inner(children), next = given.map((c, i) => (was[i] && (c instanceof Node ? was[i].isEqualNode(c) : was[i].nodeType === Node.TEXT_NODE && was[i].data === c) ? was[i] : c));
  const on = document.activeElement, used = on !== e && e.contains(on) ? on : null, open = [...e.querySelectorAll("details[open]")].map((d) => d.textContent);
  if (next.some((c, i) => c === was[i]) && !next.some((c, i) => c !== was[i] && c.parentNode === e)) {
    for (const [i, c] of next.entries()) if (c !== was[i]) was[i] ? was[i].replaceWith(c) : e.append(c);
    for (const gone of was.slice(next.length)) gone.remove();
  } else e.replaceChildren(...next);
  if (open.length) for (const d of e.querySelectorAll("details")) d.open ||= open.includes(d.textContent);
  if (used && document.activeElement !== used) (e.contains(used) ? used : [...e.querySelectorAll(used.tagName)].find((x) => words(x) === words(used)))?.focus({ preventScroll: true });
}

const words = (e) => [e.getAttribute("href"), e.getAttribute("aria-label"), e.textContent].join(" ");

export const count = (n) => Math.round(n).toLocaleString("en-US");

export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

// span words a time in milliseconds: "12 s", "3 min", "4 h".
export function span(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

// scroll puts a table where it can be scrolled sideways, with the keyboard too.
export const scroll = (table) => h("div.scroll", { tabIndex: 0, role: "region", "aria-label": table.caption.textContent }, table);

// copyable is a command with a button that copies it.
export function copyable(text) {
  const button = h("button.copy", { type: "button", onclick: async () => {
    try { await navigator.clipboard.writeText(code.textContent); button.textContent = "Copied"; } catch { select(code); button.textContent = "Selected"; }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  } }, "Copy");
  const code = h("code", text);
  return h("div.command", code, button);
}

function select(e) {
  const range = document.createRange();
  range.selectNodeContents(e);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}

// ask puts a question to the server. Errors have the server's sentence.
export async function ask(path, params, signal) {
  return (await answerTo(path, params, signal)).json();
}

async function answerTo(path, params, signal) {
  const query = new URLSearchParams(params).toString();
  const answer = await get(`${path}${query ? "?" + query : ""}`, { signal });
  if (answer.status === 401) throw new Error("This page is not signed in any more.");
  if (answer.ok) return answer;
  const value = await answer.json().catch(() => ({}));
  throw new Error(value.error || value.message || `The server answered ${answer.status}.`);
}

// csv is a button that saves an answer as a file. which() is what is asked for at that time. A link could not: it has no key.
export function csv(path, name, which) {
  const button = h("button", { type: "button", title: `Save ${name}`, onclick: async () => {
    button.disabled = true;
    try {
      const url = URL.createObjectURL(await (await answerTo(path, { ...which(), format: "csv" })).blob());
      h("a", { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60000);
    } catch (err) { button.title = err.message; say(err.message); button.textContent = "CSV: no answer"; setTimeout(() => { button.textContent = "CSV"; }, 4000); }
    button.disabled = false;
  } }, "CSV");
  return button;
}

export const say = (text) => { document.getElementById("live").textContent = plain(text); };
