// A token, shown once, for a session; and the end of one.
import { useEffect, useState } from "preact/hooks";
import { ask, send } from "./api.js";
import { html } from "./html.js";
import { address } from "./router.js";

export function Login() {
  const [token, setToken] = useState("");
  const [state, set] = useState({});
  const [issuers, setIssuers] = useState([]);
  useEffect(() => { ask("login").then((data) => setIssuers(data.issuers), () => {}); }, []);
  const submit = async (event) => {
    event.preventDefault();
    set({ isSent: true });
    try {
      await send("login", { token: token.trim() });
      window.location.assign(address(""));
    } catch (error) {
      set({ error: error.message });
    }
  };
  return html`<form class="card login" onSubmit=${submit}><h2>Log in</h2>
    <p class="quiet">The token that the API takes as a bearer. It is sent once; a session of an hour takes its place.</p>
    <label>Token<input class="code" type="password" autocomplete="off" spellcheck="false" required value=${token} onInput=${(event) => setToken(event.target.value)} /></label>
    ${state.error && html`<p class="down" role="alert">${state.error}</p>`}
    <button class="main" disabled=${state.isSent}>Log in</button>
    ${issuers.map((name) => html`<a class="issuer" rel="external" key=${name} href=${`/console/oidc/${encodeURIComponent(name)}`}>Log in at ${name}</a>`)}</form>`;
}

export function Logout() {
  const [has, set] = useState(false);
  useEffect(() => {
    const login = () => window.location.assign(address("login"));
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
