// What is looked at is in the address, so that it can be sent to somebody: #view?key=value.

export function read() {
  const [view, query] = location.hash.slice(1).split("?");
  return { view: view || "fleet", params: new URLSearchParams(query || "") };
}

// set changes some of the parameters; "" or null takes one out. Steps back go over views, not over letters of a search.
export function set(changes) {
  const { view, params } = read();
  for (const [k, v] of Object.entries(changes)) v === "" || v === null || v === undefined ? params.delete(k) : params.set(k, v);
  const query = params.toString();
  history.replaceState(null, "", `#${view}${query ? "?" + query : ""}`);
}

// time reads an instant of the address, in milliseconds; 0 where it is none.
export const time = (text) => { const n = Number(text); return n > 0 && n < 8.64e15 ? Math.round(n) : 0; };

// times reads a span of it. One that ends before it begins is none.
export function times(params) {
  const from = time(params.get("from")), to = time(params.get("to"));
  return from && to >= from ? [from, to] : [0, 0];
}

// one reads one of the values that there are, the first where the address has another. What it has is in commands to copy.
export const one = (text, values) => (values.includes(text) ? text : values[0]);

export const link = (view, params) => {
  const query = new URLSearchParams(params || {}).toString();
  return `#${view}${query ? "?" + query : ""}`;
};
