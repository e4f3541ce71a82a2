// The table is asked for before any other script is there: who waits for the first picture waits for both at once.

// pass is what the link gave this origin, for a page that somebody serves to their own browser. Its key, in a header, is all that lets
// requests in: unlike cookies, the storage of an origin is not shared with other ports of the machine. A page behind an API server has none.
function pass() {
  try { return JSON.parse(localStorage.getItem("berth") || "{}"); } catch { return {}; }
}

// admitted says that this origin was given a key for this page, by a server that may be gone.
export const admitted = () => pass().path === location.pathname;

// forget drops the key of this page, because its server ended: whoever serves this origin next finds nothing.
export function forget() {
  try { if (admitted()) localStorage.removeItem("berth"); } catch { /* nothing was kept */ }
}

// get asks the page's own server.
export function get(path, options) {
  const { path: mine, key } = pass();
  return fetch(`api/${path}`, { ...options, headers: { ...(mine === location.pathname && { "Berth-Key": key }), ...options?.headers } });
}

// renewed goes on to the page of the server that has this port now, where its link was opened in another tab since.
export function renewed() {
  const ours = /^\/[0-9a-f]{48}\/$/, { path } = pass();
  if (ours.test(location.pathname) && ours.test(path) && path !== location.pathname) location.replace(path + location.hash);
}

export const first = get("table?wait=0");
first.catch(() => { /* who waits for it hears of it */ });
