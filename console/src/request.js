// A request that somebody pastes and changes, decided as one types; and what would have to change.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, send, useAsked } from "./api.js";
import { Decision, Edits } from "./detail.js";
import { html } from "./html.js";
import { Answered, Empty, Loading } from "./parts.js";
import { address } from "./router.js";

const EXAMPLES = {
  curl: `curl -X POST http://localhost/people \\
  -H "Authorization: Bearer TOKEN" \\
  -H "Content-Type: application/json" \\
  -d '{"firstname": "Charlie"}'`,
  HTTP: `GET /people?page=2 HTTP/1.1
Host: localhost
Authorization: Bearer TOKEN
`,
  Docker: "docker run --rm -v /etc:/host:ro alpine cat /host/passwd",
  JSON: `{
  "method": "GET",
  "path": "/people",
  "user": "bob"
}`,
};
const isExample = (text) => Object.values(EXAMPLES).includes(text);
const NAME = "doorward-request";
const readDraft = () => {
  try {
    return JSON.parse(sessionStorage.getItem(NAME)) || {};
  } catch {
    return {};
  }
};
const isDocker = (text) => /^\s*docker\s/.test(text);

export function Try({ query }) {
  const paths = useAsked("search?group=path&limit=0");
  return html`<section class="try" aria-label="Request"><${Answered} of=${paths} name="the paths">${(data) => {
    // What a plugin's own log says has no path that could be asked about; its numbers are negative.
    const names = data.groups.filter((each) => each.number > 0 && each.name).map((each) => each.name);
    if (!names.length) return html`<${Empty} title="No decision yet.">A request is tried against a path that clients have asked for.<//>`;
    return html`<${Form} paths=${names} from=${query.from} />`;
  }}<//></section>`;
}

function Form({ paths, from }) {
  // What was typed is there again when one comes back, unless another decision was chosen.
  const draft = useMemo(() => {
    const known = readDraft();
    return from && known.from !== from ? {} : known;
  }, []);
  const [text, setText] = useState(draft.text || "");
  const [path, setPath] = useState(paths.includes(draft.path) ? draft.path : paths[0]);
  const [changes, setChanges] = useState(draft.changes === true);
  const [user, setUser] = useState(draft.user || "");
  const [state, set] = useState({});
  const turn = useRef(0);
  useEffect(() => {
    if (!from || draft.text) return;
    ask(`decisions/${encodeURIComponent(from)}`).then((decision) => {
      if (paths.includes(decision.path)) setPath(decision.path);
      setText(JSON.stringify(decision.input ?? {}, null, 2));
    }, (error) => set({ error: error.message }));
  }, [from]);
  useEffect(() => {
    try {
      if (text || draft.text) sessionStorage.setItem(NAME, JSON.stringify({ text, path, changes, user, from }));
    } catch {
      // Larger than the browser keeps.
    }
  }, [text, path, changes, user]);
  const begin = (example) => (!text.trim() || isExample(text) || window.confirm("Replace your request with the example?")) && setText(example);
  // The plugin's path, where clients ask about one that is named after Docker.
  useEffect(() => {
    const ofDocker = isDocker(text) && paths.find((each) => each.includes("docker"));
    if (ofDocker) setPath(ofDocker);
  }, [isDocker(text)]);
  useEffect(() => {
    const mine = ++turn.current;
    if (!text.trim()) return void set({});
    const timer = setTimeout(async () => {
      set((old) => ({ ...old, isAsked: true }));
      try {
        const decision = await send("request", { text, path, changes, user: isDocker(text) ? user.trim() : "" });
        if (mine === turn.current) set({ decision });
      } catch (error) {
        if (mine === turn.current) set({ error: error.message });
      }
    }, 400);
    return () => clearTimeout(timer);
  }, [text, path, changes, user]);
  return html`<div class="panes">
    <div class="side"><label class="pick">Path <select value=${path} onChange=${(event) => setPath(event.target.value)}>${paths.map((each) => html`<option value=${each} selected=${each === path}>${each}</option>`)}</select></label>
      <label class="paste">A command of curl or docker, an HTTP request, or an input as JSON<textarea class="code" spellcheck="false" rows="14" value=${text} placeholder=${EXAMPLES.curl} onInput=${(event) => setText(event.target.value)}></textarea></label>
      ${isDocker(text) && html`<label class="pick">User of the Docker daemon <input value=${user} placeholder="none" spellcheck="false" autocapitalize="off" onInput=${(event) => setUser(event.target.value)} /></label>`}
      <div class="bar"><span class="quiet">Begin with</span>${Object.entries(EXAMPLES).map(([name, example]) => html`<button type="button" onClick=${() => begin(example)}>${name}</button>`)}
        <a class="button" href=${address("decisions")}>a decision</a></div>
      <label class="toggle"><input type="checkbox" checked=${changes} onChange=${() => setChanges(!changes)} /> Find the smallest change that would be allowed</label>
      <p class="quiet">Only this server reads the text; nothing is forwarded, logged or counted. Credentials of a decision from the list are left out of its input.</p></div>
    <div class="side answer" aria-live="polite">${state.error ? html`<div class="state failed" role="alert">${state.error}</div>`
      : state.decision ? html`${state.decision.change && html`<${Edits} of=${state.decision.change} />`}<${Decision} of=${state.decision} isTried />`
      : state.isAsked ? html`<${Loading} of="the decision" />` : html`<${Empty} title="Paste a request.">The active policies decide it as you type. A decision of the list has a button <em>Try changes</em>.<//>`}</div>
  </div>`;
}
