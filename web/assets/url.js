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

export const link = (view, params) => {
  const query = new URLSearchParams(params || {}).toString();
  return `#${view}${query ? "?" + query : ""}`;
};
