// Which view is open, with which filters: the address says it, so that a link holds everything.
import { useEffect, useState } from "preact/hooks";

export const BASE = "/console";

function read() {
  const { pathname, search, hash } = window.location;
  const view = pathname.slice(BASE.length).replace(/^\/|\/$/g, "");
  return { view, query: Object.fromEntries(new URLSearchParams(search)), hash: hash.slice(1) };
}

let route = read();
const listeners = new Set();

function changed() {
  route = read();
  for (const each of listeners) each(route);
}
window.addEventListener("popstate", changed);
window.addEventListener("hashchange", changed);

export function useRoute() {
  const [now, set] = useState(route);
  useEffect(() => {
    listeners.add(set);
    set(route);
    return () => listeners.delete(set);
  }, []);
  return now;
}

export function address(view, query = {}, hash = "") {
  const fields = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  const search = fields.size ? `?${fields}` : "";
  return `${BASE}${view && "/"}${view}${search}${hash && `#${hash}`}`;
}

export function go(view, query, hash, { replaces = false } = {}) {
  const url = address(view, query, hash);
  if (url !== window.location.pathname + window.location.search + window.location.hash)
    window.history[replaces ? "replaceState" : "pushState"](null, "", url);
  changed();
}

// Change some fields of the address, as it is now: another field may have changed meanwhile.
export function change(fields, options) {
  go(route.view, { ...route.query, ...fields }, route.hash, options);
}

// Links of the console open without a new page; those with a modifier key are the browser's.
export function follow(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  if (url.origin !== window.location.origin || link.target || link.rel === "external" || !url.pathname.startsWith(BASE)) return;
  if (!(url.pathname === BASE || url.pathname.startsWith(`${BASE}/`)) || url.pathname.startsWith(`${BASE}/help/`)) return;
  event.preventDefault();
  window.history.pushState(null, "", url.href);
  changed();
}

export function decisionOf(hash) {
  return /^decision=([0-9A-Za-z._-]+)$/.exec(hash)?.[1] || "";
}
