// What an answer was made without: whose right is missing, and what to ask for.
import { h, fill, ask, copyable } from "./dom.js";
import { state } from "./store.js";

// about is what the server says of itself. Nobody waits for it to draw.
export const about = ask("about").then((a) => { state.about = a; return a; }, () => state.about);

const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`);

const place = (u) => (u.except ? ` outside namespace ${u.except}` : u.namespace ? ` in namespace ${u.namespace}` : "");
const short = (u) => u.resource.split(".")[0] + place(u);
const right = (u) => `to ${u.resource.includes("/") ? "get" : "list"} ${u.resource}${u.except ? " in all namespaces" : place(u)}`;

// mine is, by kind and namespace, whether the viewer may read it themselves. Where they may, and it was not seen, the scheduler may not, which
// makes the page for everybody. A page that one person serves reads with that person's rights, and nothing is asked.
const mine = new Map();
const keyOf = (u) => `${u.resource}:${u.except ? "" : u.namespace || state.about.namespace || ""}`;

async function review(keys) {
  if (!keys.length) return;
  try {
    const a = await ask("rights", keys.map((k) => ["of", k]));
    for (const k of keys) mine.set(k, a.mine.includes(k));
  } catch { /* what was not told counts as the viewer's own */ }
}

// notSeen is made of the field unseen of an answer.
export function notSeen(unseen) {
  if (!unseen?.length) return null;
  const root = h("div"), refused = unseen.filter((u) => u.reason === "forbidden"), other = unseen.filter((u) => u.reason !== "forbidden");
  const draw = () => {
    const ours = refused.filter((u) => mine.get(keyOf(u))), yours = refused.filter((u) => !mine.get(keyOf(u)));
    fill(root,
      yours.length > 0 && h("p.warn", `Not seen, because ${state.about.shared ? "you" : "the user of your kubeconfig"} may not read them: ${listed(yours.map(short))}. Ask an administrator of the cluster for the right ${listed(yours.map(right))}.`),
      ours.length > 0 && [h("p.warn", `Not seen, because the scheduler, which makes this page, may not read them: ${listed(ours.map(short))}. An administrator of the cluster gives it the right${state.about.grant ? " with:" : "."}`), state.about.grant && copyable(state.about.grant)],
      other.length > 0 && h("p.warn", `Not seen: ${other.map((u) => `${u.resource}${place(u)} (${u.reason})`).join("; ")}.`));
  };
  const unknown = () => (state.about.shared ? refused.map(keyOf).filter((k) => !mine.has(k)) : []);
  if (state.about.started && !unknown().length) draw();
  else about.then(() => review(unknown())).then(draw);
  return root;
}
