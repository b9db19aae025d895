// The first page: what is decided here, how it goes, what changed, and what needs attention.
import { useMemo } from "preact/hooks";
import { useAsked } from "./api.js";
import { Chart } from "./chart.js";
import { counted, micros, number, share } from "./format.js";
import { html } from "./html.js";
import { Ago, Answered, Bar, Empty, silent } from "./parts.js";
import { address } from "./router.js";
import { useSeconds } from "./stream.js";

const SERIES = [
  { label: "decisions/s", color: "--accent" },
  { label: "denied/s", color: "--deny" },
  { label: "errors/s", color: "--warn" },
];

export function Overview() {
  const state = useAsked("state", 5000);
  return html`<div class="overview"><${Answered} of=${state} name="the state">${(data) => (data.live ? html`<${Live} state=${data} error=${state.error} />` : html`<${Nothing} />`)}<//></div>`;
}

const Nothing = () => html`<${Empty} title="Nothing is decided here.">This console has a <a href=${address("playground")}>playground</a> only.<//>`;

function Live({ state, error }) {
  const traffic = useSeconds();
  // A search of thousands of new decisions costs the server what it decides in the same time.
  const isBusy = traffic.seconds.slice(-6, -1).reduce((sum, each) => sum + each[1], 0) > 1000;
  const pace = isBusy ? 30000 : 5000;
  const reasons = useAsked("search?verdict=refused&group=reason&limit=0", pace);
  const paths = useAsked("search?group=path&limit=0", pace);
  const undecided = useAsked("search?verdict=undefined&group=path&limit=0", pace);
  const errors = useAsked("search?verdict=error&group=reason&limit=0", pace);
  const policies = useAsked("policies", 10000);
  const versions = useAsked("versions", 10000);
  const workers = state.workers.filter((each) => !each.is_silent);
  const first = workers[0] || {};
  return html`
    <${Health} workers=${state.workers} error=${error} />
    <${Numbers} seconds=${traffic.seconds} />
    <div class="grid">
      <section class="card wide" aria-label="Traffic"><h2>Last minute</h2><${Traffic} seconds=${traffic.seconds} /></section>
      <section class="card" aria-label="What is decided here"><h2>What is decided here</h2>
        <dl class="facts"><dt>Revision</dt><dd class="code">${first.revision || "none"}</dd>
          <dt>Active</dt><dd>${versions.data?.[0] ? html`since <${Ago} ms=${versions.data[0].since_ms} />` : "no decision yet"}</dd>
          <dt>Policies</dt><dd><a href=${address("policies")}>${counted(first.policies || 0, "file")}</a></dd>
          <dt>Started</dt><dd>${first.since_ms ? html`<${Ago} ms=${first.since_ms} />` : ""}</dd>
          <dt>In memory</dt><dd><a href=${address("decisions")}>${counted(workers.reduce((sum, each) => sum + (each.kept || 0), 0), "decision")}</a></dd>
          <dt>Doorward</dt><dd>${state.version}${state.workers.length > 1 ? `, ${counted(state.workers.length, "worker")}` : ""}</dd></dl>
        <${Answered} of=${paths} name="paths">${(data) => html`<ul class="ranks">${data.groups.slice(0, 4).map((each) => html`<li><a href=${address("decisions", { path: each.name, group: "reason" })}>
          <span class="name code">${each.name || "(query)"}</span><span class="count">${number(each.count)}</span><${Bar} part=${each.count} whole=${data.total} />
          <span class="quiet small">${micros(each.total_us / each.count)} each, ${micros(each.longest_us)} at most</span></a></li>`)}</ul>`}<//></section>
      <section class="card" aria-label="Denied, by reason"><h2>Denied, by reason</h2>
        <${Answered} of=${reasons} name="reasons">${(data) => data.total === 0 ? html`<p class="quiet">Nothing was denied.</p>` : html`
          <p class="quiet">${number(data.total)} denials in memory${silent(data.silent) && `, ${silent(data.silent)}`}</p>
          <ul class="ranks">${data.groups.slice(0, 5).map((each) => html`<li><a href=${address("decisions", { verdict: "refused", reason: each.name })}>
            <span class="name code">${each.name || "no reason noted"}</span><span class="count">${number(each.count)}</span><${Bar} part=${each.count} whole=${data.total} /></a></li>`)}</ul>
          ${data.groups.length > 5 && html`<p><a href=${address("decisions", { verdict: "refused", group: "reason" })}>${number(data.groups.length - 5)} more: ${number(data.groups.slice(5).reduce((sum, each) => sum + each.count, 0))}</a></p>`}`}<//></section>
      <section class="card" aria-label="Needs attention"><h2>Needs attention</h2>
        <${Attention} policies=${policies} undecided=${undecided} errors=${errors} paths=${paths} /></section>
      <section class="card" aria-label="What changed last"><h2>What changed last</h2>
        <${Answered} of=${versions} name="revisions">${(data) => data.length < 2 ? html`<p class="quiet">The same policies have decided since the start.</p>
          <p><a href=${address("revisions")}>What each revision decided</a></p>` : html`<ul class="plain">${data.slice(0, 5).map((each, at) => html`<li>
          <code>${each.revision || "none"}</code> <${Ago} ms=${each.since_ms} />${at > 0 && html` <a href=${address("revisions", { compare: each.revision })}>compare with now</a>`}</li>`)}</ul>`}<//></section>
    </div>
    <details class="card more"><summary><h2>Parts, caches and bundles</h2></summary>${state.workers.map((each) => html`<${Worker} key=${each.worker} of=${each} hasTitle=${state.workers.length > 1} />`)}</details>`;
}

function Health({ workers, error }) {
  if (error) return html`<p class="health" role="status"><span class="dot warn" aria-hidden="true"></span>Health is not known: ${error}.</p>`;
  const problems = workers.flatMap((each) => {
    const name = workers.length > 1 ? `worker ${each.worker}: ` : "";
    if (each.is_silent) return [`${name}does not answer`];
    const parts = Object.entries(each.parts).filter(([, value]) => value !== "OK").map(([part, value]) => `${name}${part} is ${value}`);
    const threads = Object.entries(each.threads).filter(([, problem]) => problem).map(([part, problem]) => `${name}${part}: ${problem}`);
    return [...parts, ...threads];
  });
  if (!problems.length) return html`<p class="health up" role="status"><span class="dot allow" aria-hidden="true"></span>Healthy: all parts are running.</p>`;
  return html`<div class="health down" role="status"><p><span class="dot deny" aria-hidden="true"></span>Not healthy</p><ul>${problems.map((each) => html`<li>${each}</li>`)}</ul></div>`;
}

function Numbers({ seconds }) {
  const done = seconds.slice(0, -1);
  const sum = (at) => done.reduce((total, each) => total + each[at], 0);
  const decisions = sum(1);
  const last = done[done.length - 1] || [0, 0, 0, 0, 0, 0];
  const mean = done.reduce((total, each) => total + each[1] * each[4], 0) / Math.max(decisions, 1) / 1000;
  const longest = Math.max(0, ...done.map((each) => each[5])) / 1000;
  const tiles = [
    ["Decisions", `${number(last[1])}/s`, `${number(decisions)} in the last minute`],
    ["Denied", decisions ? share(sum(2), decisions) : "–", `${number(sum(2))} in the last minute`],
    ["Errors", number(sum(3)), "in the last minute"],
    ["Evaluation", decisions ? micros(mean) : "–", decisions ? `${micros(longest)} at most` : "nothing decided"],
  ];
  return html`<dl class="tiles">${tiles.map(([name, value, note]) => html`<div><dt>${name}</dt><dd class="big">${value}</dd><dd class="quiet">${note}</dd></div>`)}</dl>`;
}

function Traffic({ seconds }) {
  const columns = useMemo(() => [0, 1, 2, 3].map((at) => seconds.slice(0, -1).map((each) => each[at])), [seconds]);
  return html`<${Chart} series=${SERIES} columns=${columns} label="Decisions, denials and errors of each second of the last minute" />`;
}

const SLOW = 20_000;

function Attention({ policies, undecided, errors, paths }) {
  const all = Object.entries(policies.data?.files || {}).flatMap(([file, each]) => each.definitions.map((definition) => ({ ...definition, file })));
  const never = all.filter((each) => each.counted && !each.answered && !each.file.endsWith("_test.rego"));
  const notes = [];
  if (errors.data?.total) notes.push(html`<li class="deny"><a href=${address("decisions", { verdict: "error" })}>${counted(errors.data.total, "decision")} ended with an error</a></li>`);
  for (const each of undecided.data?.groups || [])
    notes.push(html`<li><a href=${address("decisions", { verdict: "undefined", path: each.name })}><code>${each.name || "a query"}</code> had no answer ${counted(each.count, "time")}</a></li>`);
  if (policies.data?.decisions && never.length)
    notes.push(html`<li><a href=${address("policies")}>${counted(never.length, "definition")} of ${all.length} were never true</a> with this revision</li>`);
  for (const each of paths.data?.groups || [])
    if (each.longest_us > SLOW) notes.push(html`<li><a href=${address("decisions", { path: each.name })}><code>${each.name || "a query"}</code> took ${micros(each.longest_us)} at most</a>, ${micros(each.total_us / each.count)} on average</li>`);
  if (!notes.length && !policies.data?.decisions) return html`<p class="quiet">Nothing yet: this revision has made no decision.</p>`;
  return notes.length ? html`<ul class="plain">${notes}</ul>` : html`<p class="quiet">Nothing: no error, no undecided path, every rule was used.</p>`;
}

// What one process says of itself: in force, at work, decided.
function Worker({ of, hasTitle }) {
  const name = hasTitle && html`<h3>Worker ${of.worker}</h3>`;
  if (of.is_silent) return html`${name}<p><span class="down">does not answer</span></p>`;
  const parts = [...Object.entries(of.parts), ...Object.entries(of.threads).map(([part, problem]) => [part, problem || "OK"])];
  return html`<section class="worker" aria-label=${`State of worker ${of.worker}`}>${name}
    <ul class="parts">${parts.map(([part, value]) => html`<li><span class=${value === "OK" ? "up" : "down"}>${value}</span> ${part}</li>`)}</ul>
    ${Object.keys(of.caches).length > 0 && html`<div class="aside-scroll" tabindex="0" role="group" aria-label="Caches"><table class="plain-table"><caption>Caches</caption>
      <thead><tr><th>Cache</th><th class="number">Entries</th><th class="number">Hits</th><th class="number">Misses</th><th class="number">Share of hits</th></tr></thead>
      <tbody>${Object.entries(of.caches).map(([cache, { entries, hits, misses }]) => html`<tr key=${cache}><td>${cache}</td>
        <td class="number">${number(entries)}</td><td class="number">${hits === null ? "–" : number(hits)}</td><td class="number">${number(misses)}</td>
        <td class="number">${hits === null || hits + misses === 0 ? "–" : share(hits, hits + misses)}</td></tr>`)}</tbody></table></div>`}
    ${Object.keys(of.bundles).length > 0 && html`<h4>Bundles</h4><pre tabindex="0">${JSON.stringify(of.bundles, null, 2)}</pre>`}
    ${Object.keys(of.status).length > 0 && html`<details><summary>Status of bundles, discovery and uploads</summary>
      <pre tabindex="0">${JSON.stringify(of.status, null, 2)}</pre></details>`}
  </section>`;
}
