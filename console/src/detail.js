// One decision: the answer, why as a tree, the policy with its rows colored, what would change it.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, send } from "./api.js";
import { micros, plainName, text } from "./format.js";
import { html } from "./html.js";
import { Copy, Failed, Loading, Time, Verdict } from "./parts.js";
import { address } from "./router.js";
import { Source, Tree } from "./tree.js";

export function Detail({ id, close }) {
  const [state, set] = useState({});
  const title = useRef();
  const load = () => {
    let isCurrent = true;
    set({});
    ask(`decisions/${encodeURIComponent(id)}`)
      .then((data) => isCurrent && set({ data }))
      .catch((error) => isCurrent && set({ error: error.message }));
    return () => (isCurrent = false);
  };
  useEffect(load, [id]);
  return html`<aside class="detail" aria-label="One decision">
    <header><h2 ref=${title} tabindex="-1">Decision <code>${id.slice(0, 8)}</code></h2>
      <${Copy} text=${id}>Copy id<//><${Copy} text=${window.location.href}>Copy link<//>
      <button onClick=${close}>Close</button></header>
    <div class="inner" tabindex="0" role="group" aria-label="What was decided and why">
    ${state.error ? html`<${Failed} error=${state.error} retry=${load} />` : state.data ? html`<${Decision} key=${id} of=${state.data} />` : html`<${Loading} of="the decision" />`}
    </div></aside>`;
}

export function Decision({ of, isTried = false }) {
  const [place, setPlace] = useState(null);
  const error = of.error && html`<h3>Error</h3><pre>${text(of.error)}</pre>`;
  if (!of.path && of.error) return error;
  const sources = of.sources || {};
  const show = (file, row) => setPlace({ file, row, at: Date.now() });
  return html`<dl class="facts">
      <dt>Answer</dt><dd><${Verdict} of=${of.verdict} /></dd>
      <dt>Time</dt><dd><${Time} ms=${of.time_ms} /></dd>
      <dt>Rule path</dt><dd class="code">${of.path}</dd>
      ${of.request && html`<dt>Request</dt><dd class="code">${of.request}</dd>`}
      ${of.user && html`<dt>User</dt><dd title=${of.user}>${plainName(of.user)}</dd>`}
      ${of.role && html`<dt>Role</dt><dd>${of.role}</dd>`}
      ${of.reason && html`<dt>Reason</dt><dd class="code">${of.reason}</dd>`}
      ${of.response && html`<${Response} of=${of.response} />`}
      <dt>Revision</dt><dd class="code">${of.revision || "none"}</dd>
      <dt>Took</dt><dd>${micros(of.eval_us)}</dd></dl>
    ${(of.user?.endsWith("?") || of.role?.endsWith("?")) && html`<p class="quiet">? The policy did not verify the token that claims this.</p>`}
    ${error}
    ${of.from_log && html`<p class="quiet">From the log: what is not kept in memory is not explained again. <a href=${address("request", { from: of.id })}>Explain with the active policies</a></p>`}
    ${of.tree?.length > 0 ? html`<section class="why"><h3>Why</h3><${Tree} of=${of.tree} show=${show} />${of.cut && html`<p class="quiet">More was tried than is displayed.</p>`}</section>`
      : of.why && html`<h3>Why</h3><pre class="text">${of.why}</pre>`}
    ${of.from_log && of.failed?.length > 0 && html`<h3>Failed</h3><${Locations} of=${of.failed} />`}
    ${of.from_log && of.rules?.length > 0 && html`<h3>Rules that answered</h3><${Locations} of=${of.rules} />`}
    ${of.tree && html`<div class="actions">${!isTried && of.path && html`<a class="button" href=${address("request", { from: of.id })}>Try changes</a>`}${!isTried && of.verdict !== "allow" && of.verdict !== "value" && html`<${Change} id=${of.id} />`}
      ${of.test && html`<${Copy} text=${of.test}>Copy as Rego test<//>`}<${Copy} text=${of.why}>Copy as text<//></div>`}
    ${Object.entries(sources).map(([file, source]) => html`<${Source} key=${file} file=${file} of=${source} place=${place?.file === file ? place : null} />`)}
    <h3>Result</h3><pre tabindex="0">${"result" in of ? text(of.result) : "undefined"}</pre>
    <h3>Input</h3>${of.hidden?.length > 0 && html`<p class="quiet">Masked: ${of.hidden.join(", ")}</p>`}
    <pre tabindex="0">${of.has_input ? ("input" in of ? text(of.input) : "none") : "too large to be kept"}</pre>`;
}

// What became of a response that was decided about.
function Response({ of }) {
  const size = of.size === null ? "" : `, ${of.size.toLocaleString("en")} bytes`;
  return html`<dt>Response</dt><dd>${of.outcome}${of.reason && html` <code>${of.reason}</code>`}, body ${of.body_state}${size}${of.left_out && ", left out of the log"}</dd>
    ${of.lists.map((each) => html`<dt>List</dt><dd><code>${each.name}</code>: ${each.shown.toLocaleString("en")} of ${each.items.toLocaleString("en")} items stay</dd>`)}`;
}

function Change({ id }) {
  const [state, set] = useState({});
  const find = async () => {
    set({ isAsked: true });
    try {
      set({ found: await send(`decisions/${encodeURIComponent(id)}/change`, {}) });
    } catch (error) {
      set({ error: error.message });
    }
  };
  if (state.found) return html`<${Edits} of=${state.found} />`;
  return html`<button class="main" onClick=${find} disabled=${state.isAsked}>${state.isAsked ? "Searching for a second…" : "What would have to change?"}</button>
    ${state.error && html`<span role="alert">${state.error}</span>`}`;
}

export function Edits({ of }) {
  if (of.error) return html`<p role="status">${of.error}</p>`;
  if (!of.found) return html`<p role="status">No change of the input that allows it was found; ${of.tried} inputs were tried.</p>`;
  return html`<div class="edits" role="status"><h4>It would be allowed with</h4><ul>${of.edits.map((each) => html`<li>
    <code>input.${each.path.join(".")}</code> ${each.removed ? "left out" : html`<b>${each.signed ? "a token that claims " : ""}<code>${JSON.stringify(each.value)}</code></b>`}
    ${each.was !== undefined && html`<span class="quiet"> (is <code>${JSON.stringify(each.was)}</code>)</span>`}${each.signed && html`<span class="quiet"> (a caller cannot sign it)</span>`}</li>`)}</ul></div>`;
}

function Locations({ of }) {
  return html`<ul>${of.map((each) => html`<li><code>${each.text}</code> <span class="quiet">${each.file}:${each.row} ${each.rule}</span></li>`)}</ul>`;
}
