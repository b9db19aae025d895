// Decisions of the past, from the log: the newest at once, then those that were asked for.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "./api.js";
import { counted, day, micros, plainName } from "./format.js";
import { html } from "./html.js";
import { Clock, Empty, Failed, Loading, Verdict } from "./parts.js";
import { useRowKeys } from "./decisions.js";
import { change as put } from "./router.js";
import { Table } from "./table.js";

const FIELDS = ["text", "verdict", "path", "since", "until"];
const ANSWERS = { allow: "Allowed", deny: "Denied", undefined: "Undefined", error: "Error", value: "Value" };
const COLUMNS = [
  { name: "date", title: "Date", show: (row) => html`<a href=${`#decision=${row.id}`}>${day(row.time_ms)}</a>` },
  { name: "time", title: "Time", show: (row) => html`<${Clock} ms=${row.time_ms} />` },
  { name: "answer", title: "Answer", show: (row) => html`<${Verdict} of=${row.verdict} />` },
  { name: "request", title: "Request", kind: "code", hint: (row) => row.request, show: (row) => row.request },
  { name: "user", title: "User", hint: (row) => row.user, show: (row) => plainName(row.user) },
  { name: "role", title: "Role", hint: (row) => row.role, show: (row) => row.role },
  { name: "reason", title: "Reason", kind: "code", hint: (row) => row.reason, show: (row) => row.reason },
  { name: "path", title: "Rule path", kind: "code", hint: (row) => row.path, show: (row) => row.path },
  { name: "revision", title: "Revision", kind: "code", hint: (row) => row.revision, show: (row) => row.revision },
  { name: "took", title: "Took", kind: "number", show: (row) => micros(row.eval_us) },
];
const MOST = 100_000;

// The log has moments of UTC, a reader has those of the clock beside the page.
const toUtc = (local) => (local ? new Date(local).toISOString().slice(0, 19) : "");
const toLocal = (utc) => {
  const at = new Date(`${utc}Z`);
  if (!utc || Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
};
// What is asked is in the address, so that a link holds it.
const read = (query) => Object.fromEntries(FIELDS.map((name) => [name, name === "since" || name === "until" ? toLocal(query[name]) : query[name] || ""]));

export function Log({ query, id, open }) {
  const [question, set] = useState(() => read(query));
  const [state, setState] = useState({ rows: [], isAsked: true });
  const turn = useRef(0);
  const change = (name) => (event) => set({ ...question, [name]: event.target.value });
  const search = async (older) => {
    const mine = ++turn.current;
    const question = read(query);
    setState((old) => ({ ...old, isAsked: true, rows: older ? old.rows : [] }));
    const fields = { ...question, since: toUtc(question.since), until: older || toUtc(question.until) };
    try {
      const answer = await ask(`log?${new URLSearchParams(Object.entries(fields).map(([name, value]) => [name, value.trim()]).filter(([, value]) => value))}`);
      if (mine !== turn.current) return;
      setState((old) => ({ rows: older ? [...old.rows, ...answer.decisions].slice(0, MOST) : answer.decisions, more: answer.more, unread: answer.unread }));
    } catch (error) {
      if (mine === turn.current) setState((old) => ({ rows: older ? old.rows : [], error: error.message }));
    }
  };
  const asked = JSON.stringify(FIELDS.map((name) => query[name]));
  useEffect(() => {
    set(read(query));
    search();
  }, [asked]);
  const submit = () => {
    const fields = { ...question, since: toUtc(question.since), until: toUtc(question.until) };
    if (JSON.stringify(FIELDS.map((name) => fields[name] || undefined)) === asked) search();
    else put(fields);
  };
  useRowKeys(state.rows, id, open);
  const end = () => {
    const last = state.rows[state.rows.length - 1];
    if (state.more && !state.isAsked && last?.moment) search(last.moment);
  };
  const note = state.isAsked ? "Searching…" : state.error ? "" : `${counted(state.rows.length, "decision")}${state.more ? ", and more" : ""}${state.unread ? `, ${counted(state.unread, "file was", "files were")} not read` : ""}`;
  return html`<section class="log" aria-label="Log">
    ${!(isUnconfigured(state.error) && !state.rows.length) && html`<form class="filters" role="search" onSubmit=${(event) => {
      event.preventDefault();
      submit();
    }}>
      <div class="line"><input type="search" class="search" aria-label="Text" value=${question.text} placeholder="bob DELETE denied" onInput=${change("text")} />
        <label>Answer <select value=${question.verdict} onChange=${change("verdict")}><option value="">any</option>${Object.entries(ANSWERS).map(([each, title]) => html`<option value=${each} selected=${each === question.verdict}>${title}</option>`)}</select></label>
        <button class="main">Search the log</button><span class="quiet" role="status">${note}</span></div>
      <div class="fields"><label class="broad">Rule path<input value=${question.path} onInput=${change("path")} /></label>
        <label>From<input type="datetime-local" value=${question.since} onChange=${change("since")} /></label>
        <label>To<input type="datetime-local" value=${question.until} onChange=${change("until")} /></label></div>
    </form>`}
    <div class="list">${state.error && !state.rows.length ? html`<${Problem} error=${state.error} retry=${() => search()} />`
      : !state.rows.length && state.isAsked ? html`<${Loading} of="the newest decisions of the log" />`
      : html`<${Table} label="Decisions in the log" columns=${COLUMNS} rows=${state.rows} keyOf=${(row) => row.id} chosen=${id} open=${(row) => open(row.id)} onEnd=${end} heights=${[37, 84]}>
        ${state.rows.length ? null : html`<${Empty} title="No decision in the log matches." />`}<//>`}</div>
  </section>`;
}

const isUnconfigured = (error) => Boolean(error?.includes("decision_logs.file"));

function Problem({ error, retry }) {
  if (!isUnconfigured(error)) return html`<${Failed} error=${error} retry=${retry} />`;
  return html`<${Empty} title="No log is kept here.">Put this into the configuration and start again:
    <pre class="example">decision_logs:
  file:
    path: decisions.jsonl</pre><//>`;
}
