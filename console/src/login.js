// A token, shown once, for a session; and the end of one.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, send } from "./api.js";
import { html } from "./html.js";
import { keepView, wantedView } from "./next.js";
import { address } from "./router.js";

export function Login() {
  const [token, setToken] = useState("");
  const [state, set] = useState({});
  const [issuers, setIssuers] = useState([]);
  const field = useRef();
  useEffect(() => field.current.focus(), []);
  useEffect(() => { ask("login").then((data) => setIssuers(data.issuers), () => {}); }, []);
  const submit = async (event) => {
    event.preventDefault();
    set({ isSent: true });
    try {
      await send("login", { token: token.trim() });
      window.location.assign(wantedView());
    } catch (error) {
      set({ error: error.message });
    }
  };
  return html`<form class="card login" onSubmit=${submit}><h2>Log in</h2>
    <p class="quiet">Enter the bearer token that you use for the API. You stay logged in for an hour.</p>
    <label>Token<input ref=${field} class="code" type="password" autocomplete="off" spellcheck="false" required value=${token} onInput=${(event) => setToken(event.target.value)} /></label>
    ${state.error && html`<p class="down" role="alert">${state.error}</p>`}
    <button class="main" disabled=${state.isSent}>Log in</button>
    ${issuers.map((name) => html`<a class="issuer" rel="external" onClick=${keepView} key=${name} href=${`/console/oidc/${encodeURIComponent(name)}`}>Log in at ${name}</a>`)}</form>`;
}

export function Logout() {
  const [has, set] = useState(false);
  useEffect(() => {
    const login = () => {
      const { pathname, search, hash } = window.location;
      window.location.assign(address("login", { next: pathname + search }, hash.slice(1)));
    };
    window.addEventListener("doorward-login", login);
    ask("session").then((data) => set(data.login), () => {});
    return () => window.removeEventListener("doorward-login", login);
  }, []);
  const end = () => {
    sessionStorage.clear(); // what the playground and the request page keep
    send("logout", {}).finally(() => window.location.assign(address("login")));
  };
  return has ? html`<button class="logout" onClick=${end}>Log out</button>` : null;
}
