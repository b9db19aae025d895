// The live list of decisions, one decision's detail, rates and state. The playground is loaded when
// somebody opens it. Nothing here sets HTML from text: Preact makes text nodes of everything.
import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { html } from "./html.js";

const KEPT = 1000;

const counted = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;

function useDecisions() {
  const [state, set] = useState({ decisions: [], seconds: [], leftOut: 0, silent: [], workers: 1, status: "connecting" });
  const paused = useRef(false);
  useEffect(() => {
    const source = new EventSource("/console/api/decisions");
    source.onmessage = ({ data }) => {
      const batch = JSON.parse(data);
      set((old) => ({
        status: "live",
        seconds: batch.seconds,
        silent: batch.silent,
        workers: batch.workers,
        leftOut: old.leftOut + (paused.current ? 0 : batch.skipped),
        decisions: paused.current
          ? old.decisions
          : [...newest(batch, old.decisions), ...old.decisions].slice(0, KEPT),
      }));
    };
    source.onerror = () => set((old) => ({ ...old, status: "reconnecting" }));
    return () => source.close();
  }, []);
  return [state, paused];
}

// The Docker plugin's decisions come from its log, which a process that starts again reads again:
// what is there is left out, the others are put in the order of time.
function newest(batch, known) {
  const ids = new Set(batch.docker.length ? known.map((each) => each.id) : []);
  const docker = batch.docker.filter((each) => !ids.has(each.id));
  return [...batch.decisions, ...docker].sort((a, b) => b.time_ms - a.time_ms);
}

function matches(decision, filter, verdict) {
  if (verdict && decision.verdict !== verdict) return false;
  if (!filter) return true;
  const text = `${decision.path} ${decision.request} ${decision.id} ${decision.revision}`;
  return filter.toLowerCase().split(/\s+/).every((word) => text.toLowerCase().includes(word));
}

function Live({ open, shown }) {
  const [{ decisions, seconds, leftOut, silent, workers, status }, paused] = useDecisions();
  const [filter, setFilter] = useState("");
  const [verdict, setVerdict] = useState("");
  const [isPaused, setPaused] = useState(false);
  const rows = useMemo(
    () => decisions.filter((each) => matches(each, filter, verdict)).slice(0, 200),
    [decisions, filter, verdict],
  );
  const pause = () => {
    paused.current = !paused.current;
    setPaused(paused.current);
  };
  return html`<section aria-label="Decisions">
    <${Rates} seconds=${seconds} />
    <div class="bar">
      <label>Filter <input type="search" value=${filter} placeholder="path, request, id, revision"
        onInput=${(event) => setFilter(event.target.value)} /></label>
      <label>Answer <${Verdicts} value=${verdict} change=${(event) => setVerdict(event.target.value)} /></label>
      <button onClick=${pause} aria-pressed=${isPaused}>${isPaused ? "Continue" : "Pause"}</button>
      <span class="quiet" role="status">${status}${leftOut ? `, ${leftOut} not shown` : ""}${unanswered(silent)}</span>
    </div>
    <table>
      <thead><tr><th>Time</th><th>Answer</th><th>Path</th><th>Request</th><th>µs</th>${workers > 1 && html`<th>Worker</th>`}</tr></thead>
      <tbody>${rows.map(
        (each) => html`<tr key=${`${each.worker}.${each.number}`} class=${each.id === shown ? "chosen" : ""}>
          <td><button class="link" onClick=${() => open(each.id)}>${clock(each.time_ms)}</button></td>
          <td><span class=${`verdict ${each.verdict}`}>${each.verdict}</span></td>
          <td class="code">${each.path}</td><td class="code">${each.request}</td>
          <td class="number">${each.eval_us.toFixed(1)}</td>
          ${workers > 1 && html`<td class="number">${each.worker ?? ""}</td>`}
        </tr>`,
      )}</tbody>
    </table>
    ${rows.length ? null : html`<p class="quiet">No decision yet.</p>`}
  </section>`;
}

function unanswered(workers) {
  return workers?.length ? `, without ${workers.map((each) => `worker ${each}`).join(", ")}` : "";
}

function clock(ms) {
  return new Date(ms).toISOString().slice(11, 23);
}

function Rates({ seconds }) {
  const host = useRef();
  const plot = useRef();
  useEffect(() => {
    const series = [
      {},
      { label: "decisions/s", stroke: "#3572b0", width: 1.5 },
      { label: "refused/s", stroke: "#c62828", width: 1.5 },
      { label: "errors/s", stroke: "#7b1fa2", width: 1.5 },
      { label: "slowest µs", stroke: "#8a8f98", width: 1, scale: "us" },
    ];
    const color = getComputedStyle(document.body).color;
    const grid = { stroke: "#8884", width: 1 };
    const axes = [{ stroke: color, grid }, { stroke: color, grid }, { stroke: color, scale: "us", side: 1, size: 70, grid: { show: false } }];
    const width = host.current.clientWidth || 600;
    plot.current = new uPlot({ width, height: 150, series, axes }, [[], [], [], [], []], host.current);
    const resize = new ResizeObserver(() => plot.current.setSize({ width: host.current.clientWidth, height: 150 }));
    resize.observe(host.current);
    return () => {
      resize.disconnect();
      plot.current.destroy();
    };
  }, []);
  useEffect(() => {
    const column = (at, scale = 1) => seconds.map((each) => each[at] / scale);
    plot.current.setData([column(0), column(1), column(2), column(3), column(5, 1000)]);
  }, [seconds]);
  const last = seconds[seconds.length - 2] || [0, 0, 0, 0, 0, 0];
  return html`<figure>
    <figcaption>${last[1]} decisions/s, ${last[2]} refused, ${counted(last[3], "error")},
      ${" "}${(last[4] / 1000).toFixed(1)} µs each</figcaption>
    <div ref=${host} aria-hidden="true"></div>
  </figure>`;
}

function Detail({ id, close }) {
  const [state, set] = useState(null);
  useEffect(() => {
    set(null);
    let current = true;
    fetch(`/console/api/decisions/${encodeURIComponent(id)}`)
      .then((response) => response.json())
      .then((document) => current && set(document))
      .catch((error) => current && set({ error: String(error) }));
    return () => (current = false);
  }, [id]);
  return html`<aside aria-label="One decision" class="detail">
    <button onClick=${close} class="close">Close</button>
    <h2>Decision <code>${id}</code></h2>
    ${state === null ? html`<p class="quiet">Loading…</p>` : html`<${Shown} of=${state} />`}
  </aside>`;
}

function Shown({ of }) {
  const error = of.error && html`<h3>Error</h3><pre>${text(of.error)}</pre>`;
  if (!of.path && of.error) return error;
  return html`<p><span class=${`verdict ${of.verdict}`}>${of.verdict}</span>
      ${" "}<code>${of.path}</code>, ${of.eval_us.toFixed(1)} µs, revision <code>${of.revision || "none"}</code></p>
    ${error}
    ${of.from_log && html`<p class="quiet">From the log: what is not kept in memory is not explained again.</p>`}
    ${of.why && html`<h3>Why</h3><pre>${of.why}</pre>`}
    ${of.failed?.length > 0 && html`<h3>Failed</h3><${Locations} of=${of.failed} />`}
    ${of.rules?.length > 0 && html`<h3>Rules that answered</h3><${Locations} of=${of.rules} />`}
    <h3>Result</h3><pre>${"result" in of ? text(of.result) : "undefined"}</pre>
    <h3>Input</h3>${of.hidden?.length > 0 && html`<p class="quiet">Masked: ${of.hidden.join(", ")}</p>`}
    <pre>${of.has_input ? ("input" in of ? text(of.input) : "none") : "too large to be kept"}</pre>`;
}

function Locations({ of }) {
  return html`<ul>${of.map(
    (each) => html`<li><code>${each.text}</code> <span class="quiet">${each.file}:${each.row} ${each.rule}</span></li>`,
  )}</ul>`;
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function State() {
  const [state, set] = useState(null);
  useEffect(() => {
    const read = () =>
      fetch("/console/api/state").then((response) => response.json()).then(set, () => set(null));
    read();
    const timer = setInterval(read, 5000);
    return () => clearInterval(timer);
  }, []);
  if (!state) return null;
  return html`<section aria-label="State"><h2>State</h2>
    <p>Doorward ${state.version}${state.workers.length > 1 ? `, ${state.workers.length} workers` : ""}</p>
    ${state.workers.map((each) => html`<${Worker} key=${each.worker} of=${each} title=${state.workers.length > 1} />`)}
  </section>`;
}

// What one process says of itself: in force, at work, decided.
function Worker({ of, title }) {
  const name = title && html`<h3>Worker ${of.worker}</h3>`;
  if (of.is_silent) return html`${name}<p><span class="down">does not answer</span></p>`;
  const parts = [...Object.entries(of.parts), ...Object.entries(of.threads).map(([part, problem]) => [part, problem || "OK"])];
  const { minute } = of;
  return html`<div class="worker">${name}
    <p>Revision <code>${of.revision || "none"}</code>${minute && html`; in the last minute ${counted(minute.decisions, "decision")},
      ${" "}${minute.refused} refused, ${counted(minute.errors, "error")}, ${minute.mean_us.toFixed(1)} µs each, ${minute.longest_us.toFixed(1)} at most`}</p>
    <ul>${parts.map(([part, value]) => html`<li><span class=${value === "OK" ? "up" : "down"}>${value}</span> ${part}</li>`)}</ul>
    ${Object.keys(of.caches).length > 0 && html`<table class="caches"><caption>Caches</caption>
      <thead><tr><th>Cache</th><th>Entries</th><th>Hits</th><th>Misses</th><th>Share of hits</th></tr></thead>
      <tbody>${Object.entries(of.caches).map(([cache, { entries, hits, misses }]) => html`<tr key=${cache}><td>${cache}</td>
        <td class="number">${entries}</td><td class="number">${hits ?? "not counted"}</td><td class="number">${misses}</td>
        <td class="number">${hits === null || hits + misses === 0 ? "" : share(hits, hits + misses)}</td></tr>`)}</tbody></table>`}
    ${Object.keys(of.bundles).length > 0 && html`<pre tabindex="0">${text(of.bundles)}</pre>`}
    ${Object.keys(of.status).length > 0 && html`<details><summary>Status of bundles, discovery and uploads</summary>
      <pre tabindex="0">${text(of.status)}</pre></details>`}
  </div>`;
}

const share = (part, whole) => `${((100 * part) / Math.max(whole, 1)).toFixed(1)} %`;

function usePolled(url, ms) {
  const [document, set] = useState(null);
  useEffect(() => {
    const read = () =>
      fetch(url).then((response) => response.json()).then(set, (error) => set({ error: String(error) }));
    read();
    const timer = setInterval(read, ms);
    return () => clearInterval(timer);
  }, [url]);
  return document;
}

function Policies() {
  const state = usePolled("/console/api/policies", 2000);
  if (!state) return html`<p class="quiet">Loading…</p>`;
  if (state.error) return html`<section><p class="quiet">${state.error}</p></section>`;
  const all = Object.values(state.files).flatMap((file) => file.definitions);
  const never = all.filter((each) => !each.answered);
  return html`<section aria-label="Policies">
    <p role="status">${counted(state.decisions, "decision")} by revision <code>${state.revision || "none"}</code>:
      ${" "}${all.length - never.length} of ${counted(all.length, "definition")} answered${unanswered(state.missing)}.</p>
    <p class="quiet">Functions, defaults and rules that depend on data alone are not counted.</p>
    ${never.length > 0 && html`<h2>Never answered</h2><ul class="never">${never.map((each) => html`<li>
      <code>${each.path}</code> <span class="quiet">row ${each.row}, ${each.failed ? `its conditions failed ${counted(each.failed, "time")}` : "never asked"}</span></li>`)}</ul>`}
    ${Object.entries(state.files).map(([name, file]) => html`<h2>${name}</h2><${Source} of=${file} />`)}
  </section>`;
}

function Source({ of }) {
  const at = new Map();
  for (const each of of.definitions) {
    const known = at.get(each.row) || { answered: 0, failed: 0 };
    at.set(each.row, { answered: known.answered + each.answered, failed: known.failed + each.failed });
  }
  return html`<table class="source"><caption class="hidden">Rows with how often they answered and failed</caption>
    <thead><tr><th>Answered</th><th>Failed</th><th>Row</th><th>Policy</th></tr></thead>
    <tbody>${of.text.split("\n").map((line, row) => {
      const counts = at.get(row + 1);
      const mark = counts ? (counts.answered ? "answered" : "unanswered") : "";
      return html`<tr class=${mark}><td class="number">${counts ? counts.answered : ""}</td>
        <td class="number">${counts ? counts.failed : ""}</td>
        <td class="number quiet">${row + 1}</td><td class="code">${line}</td></tr>`;
    })}</tbody></table>`;
}

function ShadowView({ open }) {
  const state = usePolled("/console/api/shadow", 2000);
  if (!state) return html`<p class="quiet">Loading…</p>`;
  if (!state.differences) return html`<section><p class="quiet">No candidate decides here: \`shadow\` in the configuration names one.</p></section>`;
  const counts = [...Object.entries(state.kinds), ...Object.entries(state.dropped).map(([name, count]) => [`dropped: ${name}`, count])];
  return html`<section aria-label="Shadow">
    <p role="status">What the candidate, revision <code>${state.candidate}</code>, decides otherwise${unanswered(state.silent)}.</p>
    <ul>${counts.map(([name, count]) => html`<li>${name}: ${count}</li>`)}</ul>
    <table class="shadow"><thead><tr><th>Time</th><th>Kind</th><th>Path</th><th>Rule</th><th>Cause</th></tr></thead>
      <tbody>${state.differences.map((each) => html`<tr key=${each.id}>
        <td><button class="link" onClick=${() => open(each.id)}>${clock(each.time_ms)}</button></td>
        <td><span class=${`verdict ${each.kind === "new-allow" ? "allow" : "deny"}`}>${each.kind}</span></td>
        <td class="code">${each.path}</td><td class="code">${each.rule}</td><td class="code">${each.cause}</td></tr>`)}</tbody></table>
    ${state.differences.length ? null : html`<p class="quiet">No difference yet.</p>`}
  </section>`;
}

// Decisions of the past, from the log: asked for, not followed.
function Past({ open, shown }) {
  const [question, set] = useState({ path: "", verdict: "", text: "", since: "", until: "" });
  const [answer, setAnswer] = useState(null);
  const change = (name) => (event) => set({ ...question, [name]: event.target.value.trim() });
  const ask = (event) => {
    event.preventDefault();
    setAnswer({ isAsked: true });
    const fields = new URLSearchParams(Object.entries(question).filter(([, value]) => value));
    fetch(`/console/api/log?${fields}`)
      .then((response) => response.json())
      .then(setAnswer, (error) => setAnswer({ error: String(error) }));
  };
  const decisions = answer?.decisions || [];
  const said = !answer ? "" : answer.isAsked ? "searching…" : answer.error ? answer.error
    : `${counted(decisions.length, "decision")}${answer.more ? ", there are more" : ""}${answer.unread ? `, ${counted(answer.unread, "file was", "files were")} not read` : ""}`;
  return html`<section aria-label="Log">
    <form class="bar" onSubmit=${ask}>
      <label>Path <input type="search" value=${question.path} onInput=${change("path")} /></label>
      <label>Answer <${Verdicts} value=${question.verdict} change=${change("verdict")} /></label>
      <label>Text <input type="search" value=${question.text} placeholder="request, user, id" onInput=${change("text")} /></label>
      <label>From (UTC) <input value=${question.since} placeholder="2026-11-23T10:00" onInput=${change("since")} /></label>
      <label>To <input value=${question.until} onInput=${change("until")} /></label>
      <button>Search the log</button>
      <span class="quiet" role="status">${said}</span>
    </form>
    <table>
      <thead><tr><th>Time</th><th>Answer</th><th>Path</th><th>Request</th><th>Revision</th></tr></thead>
      <tbody>${decisions.map((each) => html`<tr key=${each.number} class=${each.id === shown ? "chosen" : ""}>
        <td><button class="link" onClick=${() => open(each.id)}>${new Date(each.time_ms).toISOString().slice(0, 23)}</button></td>
        <td><span class=${`verdict ${each.verdict}`}>${each.verdict}</span></td>
        <td class="code">${each.path}</td><td class="code">${each.request}</td><td class="code">${each.revision}</td></tr>`)}</tbody>
    </table>
  </section>`;
}

function Verdicts({ value, change }) {
  return html`<select value=${value} onChange=${change}>
    ${["", "allow", "deny", "undefined", "error", "value"].map((each) => html`<option value=${each}>${each || "any"}</option>`)}
  </select>`;
}

// One line for each revision: the share of what it refused, by the minute.
function Revisions() {
  const state = usePolled("/console/api/revisions", 5000);
  if (!state) return html`<p class="quiet">Loading…</p>`;
  if (!Array.isArray(state)) return html`<section><p class="quiet">Nothing is decided here.</p></section>`;
  const day = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
  return html`<section aria-label="Revisions">
    <p role="status">What each revision decided, by the minute (UTC).</p>
    ${state.map((each) => html`<h2>Revision <code>${each.revision || "none"}</code></h2>
      <p>${counted(each.decisions, "decision")} from ${day(each.from)} to ${day(each.to)}: ${share(each.refused, each.decisions)} refused,
        ${" "}${share(each.errors, each.decisions)} errors, ${each.mean_us.toFixed(1)} µs each</p>
      <${Minutes} of=${each.minutes} />
      <details><summary>By the minute</summary><table class="minutes">
        <thead><tr><th>Minute</th><th>Decisions</th><th>Refused</th><th>Errors</th></tr></thead>
        <tbody>${each.minutes.slice(-60).reverse().map(([at, count, refused, errors]) => html`<tr key=${at}>
          <td>${day(at)}</td><td class="number">${count}</td><td class="number">${refused}</td><td class="number">${errors}</td></tr>`)}</tbody>
      </table></details>`)}
    ${state.length ? null : html`<p class="quiet">No decision yet.</p>`}
  </section>`;
}

function Minutes({ of }) {
  const host = useRef();
  const plot = useRef();
  useEffect(() => {
    const color = getComputedStyle(document.body).color;
    const grid = { stroke: "#8884", width: 1 };
    const series = [{}, { label: "decisions/min", stroke: "#3572b0", width: 1.5 }, { label: "refused/min", stroke: "#c62828", width: 1.5 }];
    const width = host.current.clientWidth || 600;
    plot.current = new uPlot({ width, height: 110, series, axes: [{ stroke: color, grid }, { stroke: color, grid }] }, [[], [], []], host.current);
    return () => plot.current.destroy();
  }, []);
  useEffect(() => plot.current.setData([0, 1, 2].map((at) => of.map((each) => each[at]))), [of]);
  return html`<div ref=${host} aria-hidden="true"></div>`;
}

function useLocation() {
  const [at, set] = useState(() => window.location.pathname + window.location.hash);
  useEffect(() => {
    const changed = () => set(window.location.pathname + window.location.hash);
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return at;
}

function Playground() {
  const [component, set] = useState(null);
  useEffect(() => {
    import("./playground.js").then((module) => set(() => module.Playground));
  }, []);
  return component ? html`<${component} />` : html`<p class="quiet">Loading…</p>`;
}

function App() {
  const at = useLocation();
  const view = ["log", "playground", "policies", "revisions", "shadow"].find((name) => window.location.pathname.endsWith(`/${name}`)) || "";
  const id = /#decision=([0-9A-Za-z._-]+)$/.exec(at)?.[1];
  const open = (id) => (window.location.hash = id ? `decision=${id}` : "");
  return html`<header>
      <h1>Doorward</h1>
      <nav>${[["", "Decisions"], ["log", "Log"], ["policies", "Policies"], ["revisions", "Revisions"], ["shadow", "Shadow"], ["playground", "Playground"]].map(
        ([name, title]) => html`<a href=${`/console${name && "/"}${name}`} aria-current=${view === name ? "page" : null}>${title}</a>`,
      )}</nav>
    </header>
    ${view === "playground"
      ? html`<${Playground} />`
      : html`<div class=${id ? "two" : "one"}>
          <div>${{
            "": () => html`<${Live} open=${open} shown=${id} /><${State} />`,
            log: () => html`<${Past} open=${open} shown=${id} />`,
            policies: () => html`<${Policies} />`,
            revisions: () => html`<${Revisions} />`,
            shadow: () => html`<${ShadowView} open=${open} />`,
          }[view]()}</div>
          ${id && html`<${Detail} id=${id} close=${() => open("")} />`}
        </div>`}`;
}

const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} />`, root);
