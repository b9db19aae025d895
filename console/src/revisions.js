// What each revision decided, by the minute, and what the policies in force changed since.
import { useEffect, useMemo, useState } from "preact/hooks";
import { send, useAsked } from "./api.js";
import { Chart } from "./chart.js";
import { counted, micros, number, share } from "./format.js";
import { html } from "./html.js";
import { Ago, Answered, Clock, Empty, Failed, Loading, Time } from "./parts.js";
import { go } from "./router.js";

const SERIES = [{ label: "decisions/min", color: "--accent" }, { label: "denied/min", color: "--deny" }];

export function Revisions({ query, open }) {
  const asked = useAsked("revisions", 5000);
  const versions = useAsked("versions", 5000);
  const compared = query.compare;
  const current = versions.data?.[0]?.revision;
  const before = versions.data?.[1]?.revision;
  const kept = new Set((versions.data || []).map((each) => each.revision));
  return html`<section class="revisions" aria-label="Revisions"><${Answered} of=${asked} name="revisions">${(data) => data.length === 0 ? html`<${Empty} title="No decision yet.">A revision appears with its first decision.<//>` : html`
    ${compared !== undefined && html`<${Comparison} key=${compared} revision=${compared} open=${open} />`}
    ${inForceFirst(data, current).map((each) => html`<article class="card" key=${each.revision}><h2>Revision <code>${each.revision || "none"}</code>${each.revision === current && html` <span class="tag">in force</span>`}</h2>
      <p>${counted(each.decisions, "decision")}, the last <${Ago} ms=${each.to * 1000} />: ${share(each.refused, each.decisions)} denied, ${share(each.errors, each.decisions)} errors, ${micros(each.mean_us)} each</p>
      <${Minutes} of=${each.minutes} />
      ${each.revision === current && before && html`<button onClick=${() => go("revisions", { compare: before })}>What did it change?</button>`}
      ${each.revision !== current && kept.has(each.revision) && html`<button onClick=${() => go("revisions", { compare: each.revision })}>Compare with the active policies</button>`}
    </article>`)}`}<//></section>`;
}

// The server orders revisions by their last minute, which two of them may share.
const inForceFirst = (revisions, current) => [...revisions].sort((one, other) => (other.revision === current) - (one.revision === current));

// Minutes without a decision are zeros, and not a line from one to the next.
function withZeros(minutes) {
  const known = new Map(minutes.map((each) => [each[0], each]));
  const last = minutes[minutes.length - 1][0];
  const first = Math.max(minutes[0][0] - 60, last - 1440 * 60);
  const all = [];
  for (let at = first; at <= last + 60; at += 60) all.push(known.get(at) || [at, 0, 0, 0]);
  return [0, 1, 2].map((column) => all.map((each) => each[column]));
}

function Minutes({ of }) {
  const columns = useMemo(() => withZeros(of), [of]);
  return html`<${Chart} series=${SERIES} columns=${columns} height=${96} stepped label="Decisions and denials of each minute" />
    <details><summary>By the minute</summary><div class="aside-scroll" tabindex="0" role="group" aria-label="Decisions by the minute"><table class="plain-table minutes"><thead><tr><th>Minute</th><th class="number">Decisions</th><th class="number">Denied</th><th class="number">Errors</th></tr></thead>
      <tbody>${of.slice(-60).reverse().map(([at, count, refused, errors]) => html`<tr key=${at}><td><${Time} ms=${at * 1000} /></td>
        <td class="number">${number(count)}</td><td class="number">${number(refused)}</td><td class="number">${number(errors)}</td></tr>`)}</tbody></table></div></details>`;
}

function Comparison({ revision, open }) {
  const [state, set] = useState({});
  const load = () => {
    set({});
    send("compare", { revision }).then((data) => set({ data }), (error) => set({ error: error.message }));
  };
  useEffect(load, [revision]);
  return html`<article class="card comparison" aria-label="What changed"><div class="bar"><h2>From <code>${revision || "none"}</code> to the active policies</h2>
    <button onClick=${() => go("revisions", {})}>Close</button></div>
    ${state.error ? html`<${Failed} error=${state.error} retry=${load} />` : !state.data ? html`<${Loading} of="the comparison" />` : html`<${Changed} of=${state.data} open=${open} />`}</article>`;
}

const FIRST = 10;

// The lines of the policies, then the decisions that they changed.
function Changed({ of, open }) {
  const lines = of.lines.length > 0 ? html`<pre class="diff" tabindex="0">${of.lines.map((line) => html`<span class=${line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : line.startsWith("@") ? "quiet" : ""}>${line}${"\n"}</span>`)}</pre>` : html`<p class="quiet">The texts of the policies are the same; data or bundles differ.</p>`;
  return html`<p role="status">${of.compared ? `Of ${counted(of.compared, "kept decision")} of that revision ${of.different === 0 ? "none is" : of.different === 1 ? "1 is" : `${number(of.different)} are`} decided differently now.` : "No decision of that revision is kept."}</p>
    ${lines}
    ${of.changed.length > 0 && html`<h3>Decided differently now</h3><${Rows} of=${of.changed.slice(0, FIRST)} open=${open} />
      ${of.changed.length > FIRST && html`<details><summary>${counted(of.changed.length - FIRST, "more decision")}</summary><${Rows} of=${of.changed.slice(FIRST)} open=${open} /></details>`}`}`;
}

const Rows = ({ of, open }) => html`<ul class="changes">${of.map((each) => html`<li key=${each.id}><button class="link" onClick=${() => open(each.id)}><${Clock} ms=${each.time_ms} /></button>
  <code>${each.request || each.path}</code><span>${each.user}</span><span class="code"><del>${each.was}</del> → <ins>${each.is}</ins></span></li>`)}</ul>`;
