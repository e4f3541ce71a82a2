import { copyable, fill, h, span } from "./dom.js";
import { admitted } from "./first.js";
import { about } from "./rights.js";
import { clocked, onChange, silent, state, table, now } from "./store.js";
import { link, one, read } from "./url.js";
import * as fleet from "./fleet.js";
import * as queues from "./queues.js";
import * as why from "./why.js";
import * as ledger from "./ledger.js";
import * as health from "./health.js";

const views = { fleet: ["Fleet", fleet], queues: ["Queues", queues], why: ["Why", why], ledger: ["Ledger", ledger], health: ["Health", health] };
const main = document.getElementById("main");
let leave = () => {};
let shown = "", shownAt = 0; // by how much the server's clock was ahead

function route() {
  const { view, params } = read();
  shownAt = state.skew;
  leave();
  shown = one(view, Object.keys(views));
  const [title, module] = views[shown];
  document.title = `${title} · Berth`;
  document.getElementById("title").textContent = title;
  for (const a of document.querySelectorAll("#tabs a")) a.toggleAttribute("aria-current", a.dataset.view === shown);
  main.className = shown;
  main.replaceChildren();
  leave = module.show(main, params) || (() => {});
}

fill(document.getElementById("tabs"), Object.entries(views).map(([name, [title]], i) =>
  h("a", { href: link(name), "data-view": name, title: `${title} (${i + 1})` }, title)));

addEventListener("hashchange", route);
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
  const at = Object.keys(views)[Number(e.key) - 1];
  if (at) location.hash = link(at);
  if (e.key === "d") turn();
  if (e.key === "/") { document.querySelector("input[type=search]")?.focus(); e.preventDefault(); }
});

// Theme: what the system says, until somebody chooses.
function paint() {
  const chosen = localStorage.getItem("theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.getElementById("theme").textContent = dark ? "Light" : "Dark";
  dispatchEvent(new Event("themed"));
}
function turn() {
  localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  paint();
}
document.getElementById("theme").addEventListener("click", turn);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; dispatchEvent(new Event("themed")); });
addEventListener("afterprint", paint);
paint();

// How old what is shown is, and what cannot be read.
const age = document.getElementById("age"), notes = document.getElementById("notes");
let said = "";
function tell() {
  const { shared, grant } = state.about;
  const quiet = silent(), live = state.connected && quiet < 12000;
  age.className = live ? "live" : "stale";
  age.textContent = live ? "live" : state.sorry ? "not live" : state.heard ? `${span(quiet)} old` : "connecting";
  const lines = [];
  if (state.refused) lines.push(["bad", shared ? "You are not signed in any more, or may not see this page any more. Sign in and load it again." : admitted() || state.ended ? "This page is not signed in any more: the server was started again, or no page was open for 12 hours. Run `berth ui` and open its link." : "This browser has no key for the page: run `berth ui`, and open in it the link that this prints. Each link works once."]);
  else if (!live && state.sorry) lines.push(["bad", `${state.sorry}${state.heard ? ` What is shown is ${span(quiet)} old.` : ""}`]);
  else if (!live && state.ended) lines.push(["bad", `The server of this page has ended. Run \`berth ui\` and open its link. What is shown is ${span(quiet)} old.`]);
  else if (!live && state.heard) lines.push(["bad", `The server does not answer. What is shown is ${span(quiet)} old.`]);
  if (Math.abs(state.skew) > 5000) lines.push(["", `The clocks of this browser and of the cluster are ${span(Math.abs(state.skew))} apart. Times are the cluster's.`]);
  const all = (names) => (names.length < 2 ? names[0] : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`);
  const never = [], partly = new Map(), ours = [];
  for (const [name, s] of table.source) {
    if (s.ours) ours.push(name);
    else if (s.forbidden && s.only) partly.set(s.only, [...(partly.get(s.only) || []), name]);
    else if (s.forbidden) never.push(name);
    else if (s.error) lines.push(["bad", `${name} could not be read for ${span(now() - s.since)}: ${s.error}`]);
  }
  if (never.length) lines.push(["", `Your rights: you may not read ${all(never)}. What depends on them is not shown. An administrator of the cluster can give you the right to list them.`]);
  for (const [only, names] of partly) lines.push(["", `Your rights: you may read ${all(names)} in namespace ${only} alone. There may be more than is shown: the right to list them in all namespaces shows it.`]);
  if (ours.length) lines.push(["", `The scheduler makes this page, and has no right to list ${all(ours)} of the whole cluster: what they would explain is not shown, whoever looks.${grant ? " An administrator gives it the right; viewers without it still see none of them:" : ""}`, grant]);
  const line = table.line.get("scheduler");
  if (line?.error) lines.push(["", `Queues and the line: ${line.error}`]);
  const text = JSON.stringify(lines);
  if (text === said) return;
  said = text;
  fill(notes, lines.map(([kind, text, command]) => h("div" + (kind ? "." + kind : ""), h("p", text.split("`").map((t, i) => (i % 2 ? h("code", t) : t))), command && copyable(command))));
}
onChange(tell);
setInterval(tell, 1000);

about.then((a) => { tell(); document.getElementById("cluster").textContent = [a.cluster, a.shared && a.namespace && `namespace ${a.namespace}`].filter(Boolean).join(" · "); });
performance.mark("started");
await Promise.race([clocked, new Promise((done) => setTimeout(done, 1000))]);
route();
onChange(() => { if (Math.abs(state.skew - shownAt) > 5000) route(); }); // what the view asked for is of another time
