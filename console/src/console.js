// The frame of all views. Nothing here sets HTML from text: Preact makes text nodes of everything.
import { render } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { Decisions } from "./decisions.js";
import { Detail } from "./detail.js";
import { html } from "./html.js";
import { Keys } from "./keys.js";
import { Log } from "./log.js";
import { Login, Logout } from "./login.js";
import { takeView } from "./next.js";
import { Overview } from "./overview.js";
import { Empty, Failed, Loading } from "./parts.js";
import { Policies } from "./policies.js";
import { Revisions } from "./revisions.js";
import { address, decisionOf, follow, go, useRoute } from "./router.js";
import { Try } from "./request.js";
import { Shadow } from "./shadow.js";

// The server of a playground alone decides nothing that other views could show.
const IS_ALONE = document.body.dataset.alone !== undefined;
const VIEWS = [
  ["", "Overview"],
  ["decisions", "Decisions"],
  ["log", "Log"],
  ["request", "Request"],
  ["policies", "Policies"],
  ["revisions", "Revisions"],
  ["shadow", "Shadow"],
  ["playground", "Playground"],
].filter(([each]) => !IS_ALONE || each === "playground");
const HOME = VIEWS[0][0];

// The documentation is a part of an installed package, and of a clone after `make site`: pages of their own.
const HAS_HELP = document.body.dataset.help !== undefined;
const HELP = ["help", "Help"];

function Later({ of, name }) {
  const [state, set] = useState({});
  const load = () => of().then((component) => set({ component }), () => set({ error: "the server does not answer" }));
  useEffect(() => void load(), []);
  if (state.error) return html`<${Failed} error=${state.error} retry=${load} />`;
  return state.component ? html`<${state.component} />` : html`<${Loading} of=${name} />`;
}

function App() {
  const { view, query, hash } = useRoute();
  const [isOpen, setOpen] = useState(false);
  // The address of a decision was the first page's once.
  const id = decisionOf(hash);
  const name = view === "" && id ? "decisions" : view;
  const title = [...VIEWS, HELP].find(([each]) => each === name)?.[1];
  const subject = view === "login" ? "Log in" : title;
  const open = (id) => go(name, query, id ? `decision=${id}` : "");
  const close = useCallback(() => decisionOf(window.location.hash.slice(1)) && go(name, query, ""), [name, JSON.stringify(query)]);
  useEffect(() => {
    document.title = subject ? `${subject} – Doorward` : "Doorward";
    setOpen(false);
  }, [name]);
  useEffect(() => {
    document.addEventListener("click", follow);
    return () => document.removeEventListener("click", follow);
  }, []);
  const views = {
    "": () => html`<${Overview} />`,
    decisions: () => html`<${Decisions} query=${query} id=${id} open=${open} />`,
    log: () => html`<${Log} query=${query} id=${id} open=${open} />`,
    policies: () => html`<${Policies} hash=${hash} />`,
    revisions: () => html`<${Revisions} query=${query} open=${open} />`,
    request: () => html`<${Try} query=${query} />`,
    shadow: () => html`<${Shadow} id=${id} open=${open} />`,
    playground: () => html`<${Later} key="playground" of=${() => import("./playground.js").then((module) => module.Playground)} name="the playground" />`,
    help: () => html`<${Empty} title="The documentation is not part of this installation."><code>make site</code> in the clone builds it; packages and images have it.<//>`,
  };
  if (view === "login") return html`<header class="top"><span class="brand"><span class="mark" aria-hidden="true"></span>Doorward</span></header><main id="main" class="view-login"><h1>Console</h1><${Login} /></main>`;
  return html`<a class="skip" href="#main">Skip to the view</a>
    <header class="top"><a class="brand" href=${address(HOME)}><span class="mark" aria-hidden="true"></span>Doorward</a>
      ${title && html`<span class="here" aria-hidden="true">${title}</span>`}<button class="menu" aria-expanded=${isOpen} aria-controls="views" onClick=${() => setOpen(!isOpen)}>Menu</button>
      <nav id="views" class=${isOpen ? "open" : ""} aria-label="Views">${VIEWS.map(([each, title]) => html`<a href=${address(each)} aria-current=${each === name ? "page" : null}>${title}</a>`)}<a href=${address(HAS_HELP ? "help/index.html" : HELP[0])} rel=${HAS_HELP ? "external" : null} aria-current=${name === HELP[0] ? "page" : null}>${HELP[1]}</a></nav>
      <button class="keys" aria-label="Keys" title="Keys: ?" onClick=${() => window.dispatchEvent(new Event("doorward-keys"))}>?</button><${Logout} /></header>
    <div class=${`frame ${id ? "two" : ""}`}>
      <main id="main" class=${`view-${name || "overview"}`} tabindex="-1"><h1>${title || "Nothing here"}</h1>${title && views[name] ? views[name]() : html`<${Empty} title="There is no such view."><a href=${address(HOME)}>${VIEWS[0][1]}</a><//>`}</main>
      ${id && html`<${Detail} id=${id} close=${() => open("")} />`}
    </div>
    <${Keys} close=${close} />`;
}

takeView();
const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} />`, root);
