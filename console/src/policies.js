// The policies in force, with what decisions reached of them since the revision.
import { useEffect, useState } from "preact/hooks";
import { send, useAsked } from "./api.js";
import { useColored } from "./colored.js";
import { counted, number } from "./format.js";
import { html } from "./html.js";
import { Answered, Empty, Properties, silent } from "./parts.js";
import { address } from "./router.js";

export function Policies({ hash }) {
  const asked = useAsked("policies", 2000);
  return html`<div class="policies"><${Answered} of=${asked} name="the policies">${(data) => html`<${Files} of=${data} hash=${hash} />`}<//></div>`;
}

const isTest = (name) => name.endsWith("_test.rego");
const isProperty = ({ path }) => path.split(".").pop().startsWith("never_");

function Files({ of, hash }) {
  const names = Object.keys(of.files).sort((a, b) => isTest(a) - isTest(b) || (a < b ? -1 : 1));
  const wanted = decodeURIComponent(hash).split(":")[0];
  const [name, setName] = useState(names.includes(wanted) ? wanted : names[0]);
  if (!names.length) return html`<${Empty} title="No policy is active." />`;
  const all = names.filter((each) => !isTest(each)).flatMap((each) => of.files[each].definitions.filter((definition) => definition.counted));
  const never = names.filter((each) => !isTest(each)).flatMap((each) => of.files[each].definitions.filter((d) => d.counted && !d.answered).map((d) => ({ ...d, file: each })));
  const file = of.files[name] || of.files[names[0]];
  return html`<section aria-label="Policies">
    <p class="summary" role="status">${counted(of.decisions, "decision")} by revision <code>${of.revision || "none"}</code>:
      ${" "}${all.filter((each) => each.answered).length} of ${counted(all.length, "definition")} answered${silent(of.missing) && `, ${silent(of.missing)}`}.</p>
    ${of.decisions > 0 && never.length > 0 && html`<details class="card never" open=${never.length < 6}><summary><h2>Never held</h2> <span class="quiet">${never.length}</span></summary><ul class="plain">${never.map((each) => html`<li>
      <button class="link code" onClick=${() => {
        setName(each.file);
        requestAnimationFrame(() => document.querySelector(`[data-row="${each.row}"]`)?.scrollIntoView({ block: "center" }));
      }}>${each.path}</button> <span class="quiet">${each.file}:${each.row}, ${each.failed ? `its conditions failed ${counted(each.failed, "time")}` : "no decision reached it"}</span></li>`)}</ul></details>`}
    ${names.length > 1 && html`<label class="pick">File <select value=${name} onChange=${(event) => setName(event.target.value)}>${names.map((each) => html`<option value=${each} selected=${each === name}>${each}</option>`)}</select></label>`}
    ${file.notes?.length > 0 && html`<details class="card notes"><summary><h2>Description</h2></summary><dl class="facts">${file.notes.map((each) => html`<dt>${each.scope}, line ${each.row}</dt><dd>
      ${each.title && html`<strong>${each.title}</strong> `}${each.description && html`<span>${each.description}</span>`}
      ${Object.entries(each.others).map(([key, value]) => html`<div><span class="quiet">${key}</span> <code>${value}</code></div>`)}</dd>`)}</dl></details>`}
    ${names.some((each) => isTest(each) || of.files[each].definitions.some(isProperty)) && html`<${Tests} />`}
    <${Heat} name=${name} of=${file} hash=${hash} />
    <p class="quiet summary">Functions, defaults and rules that depend on data alone are not counted. The stronger the green of a line, the more often it held. <a href=${address("revisions")}>Compare with an earlier revision</a></p>
  </section>`;
}

function Tests() {
  const [state, set] = useState({});
  const run = async () => {
    set({ isAsked: true });
    try {
      set({ isAsked: true, data: await send("tests", {}) });
    } catch (error) {
      set({ error: error.message });
    }
  };
  const failed = (state.data?.tests || []).filter((each) => each.outcome !== "PASS");
  return html`<section class="card tests" aria-label="Tests"><div class="bar"><h2>Tests</h2>
    <button onClick=${run} disabled=${state.isAsked && !state.data && !state.error}>${state.data ? "Run again" : state.isAsked && !state.error ? "Running…" : "Run the tests"}</button></div>
    ${state.error && html`<p class="down" role="alert">${state.error}</p>`}
    ${state.data && html`<p role="status">${!state.data.tests.length && !state.data.error ? "There are no tests." : html`${counted(state.data.tests.length - failed.length, "test")} passed, ${failed.length} did not${state.data.error ? `; ${state.data.error}` : ""}.`}</p>
      <ul class="outcomes">${failed.map((each) => html`<li><span class="down">${each.outcome}</span> <code>${each.name}</code> <span class="quiet">${each.file}:${each.row}</span>${each.why && html`<pre tabindex="0">${each.why}</pre>`}</li>`)}</ul>
      ${state.data.properties?.length > 0 && html`<h3>Rules that must never hold</h3><${Properties} of=${state.data.properties} />`}`}</section>`;
}

// The text with how often each definition answered, and each condition held and failed.
function Heat({ name, of, hash }) {
  const colored = useColored(of.text);
  const heads = new Map();
  for (const each of of.definitions) heads.set(each.row, each);
  const most = Math.max(1, ...of.definitions.map((each) => each.answered), ...Object.values(of.rows).map(([held]) => held));
  const target = Number(decodeURIComponent(hash).split(":")[1]) || 0;
  useEffect(() => {
    if (target) document.querySelector(`.heat [data-row="${target}"]`)?.scrollIntoView({ block: "center" });
  }, [target, name]);
  return html`<div class="heat card" tabindex="0" role="group" aria-label=${`${name} with counts`}><table><caption class="hidden">${name}: lines with how often they held and failed</caption>
    <thead><tr><th class="number">Held</th><th class="number">Failed</th><th class="number">Line</th><th>${name}</th></tr></thead>
    <tbody>${colored.map((line, at) => {
      const row = at + 1;
      const head = heads.get(row);
      const counts = head?.counted ? [head.answered, head.failed] : of.rows[row];
      const state = !counts ? "" : counts[0] ? "held" : counts[1] ? "failed" : "unreached";
      const level = counts?.[0] ? Math.ceil((4 * Math.log1p(counts[0])) / Math.log1p(most)) : 0;
      return html`<tr class=${`${state} ${head ? "head" : ""} heat-${level} ${target === row ? "target" : ""}`} data-row=${row}>
        <td class="number">${counts ? number(counts[0]) : ""}</td><td class="number">${counts ? number(counts[1]) : ""}</td>
        <td class="number row-number">${row}</td><td class="code">${line}</td></tr>`;
    })}</tbody></table></div>`;
}
