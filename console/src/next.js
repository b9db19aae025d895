// Where somebody wanted to go before the login: a view of this console, and nothing else.
import { BASE } from "./router.js";

const NAME = "doorward-next";
const CLOSED = ["login", "api", "oidc", "static"];

// The address if it is one of a view or of the documentation here; the first page otherwise.
export function viewOf(text) {
  const { origin } = window.location;
  let url;
  try {
    url = new URL(text, origin);
  } catch {
    return BASE;
  }
  const [first, second] = url.pathname.slice(1).split("/");
  const isView = url.origin === origin && `/${first}` === BASE && !url.pathname.includes("//") && !CLOSED.includes(second);
  return isView ? url.pathname + url.search + url.hash : BASE;
}

export const wantedView = () => {
  const wanted = new URLSearchParams(window.location.search).get("next") || BASE;
  return viewOf(wanted.includes("#") ? wanted : wanted + window.location.hash);
};

// An issuer's page lies between the login and the console: the tab keeps the address meanwhile.
export const keepView = () => sessionStorage.setItem(NAME, wantedView());

export function takeView() {
  const kept = sessionStorage.getItem(NAME);
  if (kept === null || window.location.pathname !== BASE) return;
  sessionStorage.removeItem(NAME);
  const view = viewOf(kept);
  if (view !== BASE) window.location.replace(view);
}
