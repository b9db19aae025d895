// Decisions: those that are kept in memory, searched by the server, and new ones as they are made.
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { useAsked } from "./api.js";
import { clock, counted, micros, number, plainName } from "./format.js";
import { html } from "./html.js";
import { Answered, Bar, Clock, Empty, Loading, Verdict, silent } from "./parts.js";
import { address, change as put } from "./router.js";
import { useDecisions } from "./stream.js";
import { Table, useNarrow } from "./table.js";

export const FIELDS = ["text", "verdict", "path", "user", "role", "rule", "reason", "revision", "since", "until"];
const GROUPS = { reason: "Reason of denial", user: "User", role: "Role", rule: "Rule that answered", path: "Rule path", verdict: "Answer" };
const LABELS = { since: "from", until: "to" };
const ANSWERS = [["", "All"], ["allow", "Allowed"], ["refused", "Denied"], ["error", "Errors"]];

const COLUMNS = [
  { name: "time", title: "Time", show: (row) => html`<a href=${`#decision=${row.id}`}><${Clock} ms=${row.time_ms} /></a>` },
  { name: "answer", title: "Answer", show: (row) => html`<${Verdict} of=${row.verdict} />` },
  { name: "request", title: "Request", kind: "code", hint: (row) => row.request, show: (row) => row.request || html`<span class="quiet">${row.path}</span>` },
  { name: "user", title: "User", hint: (row) => row.user, show: (row) => plainName(row.user) },
  { name: "role", title: "Role", hint: (row) => row.role, show: (row) => row.role },
  { name: "reason", title: "Rule, or what failed", kind: "code", hint: (row) => row.reason || row.rules.join(", "), show: (row) => row.reason || html`<span class="quiet">${shortRules(row)}</span>` },
  { name: "path", title: "Rule path", kind: "code", hint: (row) => row.path, show: (row) => row.path },
  { name: "took", title: "Took", kind: "number", show: (row) => micros(row.eval_us) },
];
const WORKER = { name: "worker", title: "Worker", kind: "number", show: (row) => row.worker ?? "" };

const shortRules = (row) => row.rules.map((each) => each.split(".").pop()).join(", ");

export function Decisions({ query, id, open }) {
  const filter = useMemo(() => Object.fromEntries(FIELDS.map((name) => [name, query[name] || ""])), [JSON.stringify(query)]);
  const group = GROUPS[query.group] ? query.group : "reason";
  const state = useDecisions(filter);
  const columns = state?.workers > 1 ? [...COLUMNS, WORKER] : COLUMNS;
  useRowKeys(state?.rows || [], id, open);
  return html`<section class="decisions" aria-label="Decisions">
    <${Filters} filter=${filter} />
    <div class="with-groups">
      <${Groups} filter=${filter} group=${group} />
      <div class="list">
        <${Status} of=${state} filter=${filter} />
        ${!state || (!state.rows.length && state.isLoading) ? html`<${Loading} of="decisions" />` : html`<${Table} label="List of decisions" columns=${columns}
          rows=${state.rows} keyOf=${(row) => row.id} chosen=${id} open=${(row) => open(row.id)} onTop=${state.top} onEnd=${state.more}>
          ${!state.rows.length && (state.error ? html`<div class="state failed" role="alert">${state.error}</div>` : html`<${None} filter=${filter} />`)}
          ${state.rows.length > 0 && html`<p class="end quiet">${state.isLoading ? "Loading older decisions…" : state.hasAll ? "These are all that are kept in memory. Older ones are in the log." : ""}</p>`}
        <//>`}
      </div>
    </div>
  </section>`;
}

function None({ filter }) {
  const isFiltered = Object.values(filter).some(Boolean);
  if (isFiltered) return html`<${Empty} title="No kept decision matches these filters."><button onClick=${() => put(Object.fromEntries(FIELDS.map((name) => [name, ""])))}>Clear all filters</button> or search the <a href=${address("log")}>log</a>.<//>`;
  return html`<${Empty} title="No decision yet.">Ask for one; it appears here at once:
    <pre class="example">curl -d '{"input": {"user": "bob"}}' http://localhost:8181/v1/data/people/allow</pre><//>`;
}

function beforeRestart({ restarted, rows }) {
  const count = restarted ? rows.filter((row) => row.time_ms < restarted).length : 0;
  return count ? `${number(count)} from before the restart at ${clock(restarted)}` : "";
}

function Status({ of, filter }) {
  if (!of) return null;
  const notes = [of.total ? counted(of.total, "decision") : "", of.leftOut ? `${number(of.leftOut)} came too fast to be shown` : "", silent(of.silent), beforeRestart(of)].filter(Boolean);
  return html`<div class="status">
    <span class=${`connection ${of.status}`} role="status">${of.isPaused ? "Paused" : { live: "Live", connecting: "Connecting", reconnecting: "Reconnecting" }[of.status]}${notes.length ? `: ${notes.join(", ")}` : ""}</span>
    <button onClick=${of.pause} aria-pressed=${of.isPaused}>${of.isPaused ? "Continue" : "Pause"}</button>
    ${of.pending.length > 0 && html`<button class="main" onClick=${() => {
      document.querySelector(".scroll").scrollTop = 0;
      of.flush();
    }}>${counted(of.pending.length, "new decision")}</button>`}
    <span class="gap"></span>
    <a class="button" href=${`/console/api/search?${new URLSearchParams(Object.entries(filter).filter(([, value]) => value))}`} target="_blank" title="The newest 500 of these">As JSON</a>
  </div>`;
}

const toInput = (ms) => {
  if (!ms) return "";
  const at = new Date(Number(ms) - new Date(Number(ms)).getTimezoneOffset() * 60000);
  return at.toISOString().slice(0, 16);
};
const fromInput = (value) => (value ? String(new Date(value).getTime()) : "");

function Filters({ filter }) {
  const active = ["path", "user", "role", "rule", "reason", "revision", "since", "until"].filter((name) => filter[name]);
  const [isOpen, setOpen] = useState(false);
  const shown = (name) => (name === "since" || name === "until" ? toInput(filter[name]).replace("T", " ") : filter[name]);
  const field = (name, title) => html`<label>${title}<${Word} value=${filter[name]} change=${(value) => put({ [name]: value }, { replaces: true })} /></label>`;
  return html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
    <div class="line">
      <${Word} value=${filter.text} label="Search" placeholder="Search: bob denied 10:03" isSearch change=${(value) => put(toFilter(value), { replaces: true })} />
      <div class="choice" role="group" aria-label="Answer">${ANSWERS.map(([value, title]) => html`<button type="button"
        aria-pressed=${filter.verdict === value} onClick=${() => put({ verdict: value })}>${title}</button>`)}</div>
      <button type="button" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>Filters</button>
    </div>
    ${isOpen && html`<div class="fields">${field("user", "User")}${field("role", "Role")}${field("rule", "Rule")}${field("path", "Path")}
      <label>From<input type="datetime-local" value=${toInput(filter.since)} onChange=${(event) => put({ since: fromInput(event.target.value) })} /></label>
      <label>To<input type="datetime-local" value=${toInput(filter.until)} onChange=${(event) => put({ until: fromInput(event.target.value) })} /></label></div>`}
    ${active.length > 0 && html`<ul class="chips" aria-label="Filters in use">${active.map((name) => html`<li><span class="quiet">${LABELS[name] || name}</span> ${shown(name)}
      <button type="button" aria-label=${`Remove the filter ${LABELS[name] || name}`} onClick=${() => put({ [name]: "" })}>×</button></li>`)}</ul>`}
  </form>`;
}

const CLOCK = /(?:^|\s)([01]?\d|2[0-3]):([0-5]\d)(?=\s|$)/;

// What a search means: a time of the day among its words is that minute, the last one there was.
function toFilter(text) {
  const clock = CLOCK.exec(text);
  if (!clock) return { text };
  const since = new Date();
  since.setHours(Number(clock[1]), Number(clock[2]), 0, 0);
  if (since > Date.now()) since.setDate(since.getDate() - 1);
  return { text: text.replace(CLOCK, " ").trim(), since: String(since.getTime()), until: String(since.getTime() + 60_000) };
}

// A text that asks the server when the typing pauses.
function Word({ value, change, label, placeholder, isSearch }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return undefined;
    // Somebody may go on to type the rest of a time.
    const timer = setTimeout(() => change(typed), CLOCK.test(typed) ? 700 : 250);
    return () => clearTimeout(timer);
  }, [typed]);
  return html`<input type=${isSearch ? "search" : "text"} class=${isSearch ? "search" : ""} aria-label=${label} placeholder=${placeholder}
    value=${typed} onInput=${(event) => setTyped(event.target.value)} />`;
}

// How often each reason (user, role, …) occurs among all kept decisions that the other filters mean.
function Groups({ filter, group }) {
  const others = Object.fromEntries(Object.entries(filter).filter(([name, value]) => value && name !== group));
  const [pace, setPace] = useState(4000);
  const asked = useAsked(`search?${new URLSearchParams({ ...others, ...(group === "reason" && !others.verdict ? { verdict: "refused" } : {}), group, limit: "0" })}`, pace);
  // A search of many costs the server something.
  useEffect(() => setPace(asked.data?.looked > 2000 ? 20000 : 4000), [asked.data]);
  const isNarrow = useNarrow();
  const [isOpen, setOpen] = useState(false);
  if (isNarrow && !isOpen) return html`<aside class="groups folded" aria-label="Groups"><button type="button" class="fold-groups" aria-expanded="false" onClick=${() => setOpen(true)}>Group by reason, user, role, rule…</button></aside>`;
  return html`<aside class="groups" aria-label="Groups">
    ${isNarrow && html`<button type="button" class="fold-groups" aria-expanded="true" onClick=${() => setOpen(false)}>Close groups</button>`}
    <label class="by">Group by <select value=${group} onChange=${(event) => put({ group: event.target.value })}>
      ${Object.entries(GROUPS).map(([value, title]) => html`<option value=${value} selected=${value === group}>${title}</option>`)}</select></label>
    <${Answered} of=${asked} name="groups">${(data) => {
      const groups = data.groups.filter((each) => each.name);
      if (!groups.length) return html`<p class="quiet">${group === "reason" ? "Nothing was denied." : "Decisions name none."}</p>`;
      return html`<ul>${groups.slice(0, 30).map((each) => html`<li key=${each.name}><button aria-pressed=${filter[group] === each.name}
        onClick=${() => put({ [group]: filter[group] === each.name ? "" : each.name })}>
        <span class=${`name ${group === "user" || group === "role" || group === "verdict" ? "" : "code"}`}>${each.name}</span><span class="count">${number(each.count)}</span>
        <${Bar} part=${each.count} whole=${data.total} /></button></li>`)}</ul>
        ${data.complete ? null : html`<p class="quiet">Of the newest ${number(data.looked)} only.</p>`}`;
    }}<//>
  </aside>`;
}

// j and k go through the rows, Enter opens the first.
export function useRowKeys(rows, id, open) {
  // Before the rows are painted: a key that is pressed when they are seen goes through them.
  useLayoutEffect(() => {
    const press = (event) => {
      if (event.target.closest?.("input, textarea, select, [contenteditable]") || event.ctrlKey || event.metaKey || event.altKey) return;
      const step = { j: 1, k: -1 }[event.key];
      if (!step || !rows.length) return;
      const at = rows.findIndex((row) => row.id === id);
      const next = rows[at < 0 ? 0 : Math.min(Math.max(at + step, 0), rows.length - 1)];
      event.preventDefault();
      open(next.id);
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [rows, id]);
}
