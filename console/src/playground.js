// An editor for policies with the answers of the language server, and what they answer and why.
import { autocompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";
import { linter, lintGutter } from "@codemirror/lint";
import { EditorState, Prec, RangeSetBuilder, StateEffect, StateField } from "@codemirror/state";
import { EditorView, gutter, GutterMarker, hoverTooltip, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useRef, useState } from "preact/hooks";
import { send } from "./api.js";
import { dropDraft, readDraft, writeDraft } from "./draft.js";
import { EXAMPLES } from "./examples.js";
import { html } from "./html.js";
import { Properties } from "./parts.js";
import { rego } from "./rego.js";

const nonce = document.querySelector("meta[name=nonce]").content;

const ask = (action, body) => send(`playground/${action}`, body);

// The server counts characters, JavaScript counts halves of some.
const toServer = (text, at) => Array.from(text.slice(0, at)).length;
const fromServer = (text, at) => Array.from(text).slice(0, at).join("").length;

class Mark extends GutterMarker {
  constructor(covered) {
    super();
    this.covered = covered;
    this.elementClass = covered ? "covered" : "missed";
  }
  toDOM() {
    const node = document.createElement("span");
    node.title = this.covered ? "was evaluated" : "";
    return node;
  }
}
const covered = StateEffect.define();
const coverage = StateField.define({
  create: () => new RangeSetBuilder().finish(),
  update(marks, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(covered)) {
        const builder = new RangeSetBuilder();
        for (const row of effect.value) {
          if (row <= transaction.state.doc.lines) {
            const line = transaction.state.doc.line(row);
            builder.add(line.from, line.from, new Mark(true));
          }
        }
        return builder.finish();
      }
    }
    // The marks are of the text that was evaluated.
    return transaction.docChanged ? new RangeSetBuilder().finish() : marks;
  },
});

// The colors of policies elsewhere in the console (`colored.js`).
const colors = HighlightStyle.define([
  { tag: tags.comment, color: "var(--muted)" },
  { tag: tags.keyword, color: "var(--keyword)" },
  { tag: [tags.string, tags.number, tags.bool, tags.null, tags.atom], color: "var(--literal)" },
]);

function editor(parent, text, language, label, extensions) {
  const state = EditorState.create({
    doc: text,
    extensions: [
      lineNumbers(), history(), bracketMatching(), syntaxHighlighting(colors), language,
      EditorView.cspNonce.of(nonce),
      EditorView.contentAttributes.of({ "aria-label": label }),
      keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]),
      ...extensions,
    ],
  });
  return new EditorView({ state, parent });
}

function read(text, what) {
  if (!text.trim()) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} is not JSON: ${error.message}`);
  }
}

// A link is from anybody: what it holds is bounded, and of the types that the page writes.
const LONGEST = 2 << 20;

async function shared() {
  if (!window.location.hash.startsWith("#share=")) return null;
  const text = window.location.hash.slice("#share=".length).replaceAll("-", "+").replaceAll("_", "/");
  const octets = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  const reader = new Blob([octets]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  const parts = [];
  let size = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    size += part.value.length;
    if (size > LONGEST) {
      await reader.cancel();
      throw new Error("it is too large");
    }
  }
  const given = JSON.parse(await new Blob(parts).text());
  const texts = [given.query, given.input, given.data, given.action, ...Object.values(given.files)];
  if (!texts.every((each) => each === undefined || typeof each === "string")) throw new Error("its parts are not texts");
  return given;
}

async function share(document) {
  const stream = new Blob([JSON.stringify(document)]).stream().pipeThrough(new CompressionStream("gzip"));
  const octets = new Uint8Array(await new Response(stream).arrayBuffer());
  const text = btoa(Array.from(octets, (each) => String.fromCharCode(each)).join(""));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

const pretty = (value) => (value === undefined ? "" : `${JSON.stringify(value, null, 2)}\n`);
// The input of the newest decision about a query, masked as the list of decisions has it.
async function decidedInput(query) {
  const path = query.replace(/^data\./, "").replaceAll(".", "/");
  const found = await fetch(`/console/api/search?limit=1&path=${encodeURIComponent(path)}`);
  const id = found.ok && (await found.json()).rows?.[0]?.id;
  if (!id) return undefined;
  const decision = await fetch(`/console/api/decisions/${encodeURIComponent(id)}`);
  return decision.ok ? (await decision.json()).input : undefined;
}

const DROPPED = 512 << 10;
const SAVED_AFTER = 300;
const BY_HAND = ["input", "delete", "move", "undo", "redo"];

// The package of a new file: its name, as far as Rego takes it.
const packageOf = (file) => file.split("/").pop().replace(/\.rego$/, "").replace(/\W+/g, "_").replace(/^(?=\d|$)/, "_");
const textOfNew = (file) => `package ${packageOf(file)}\n`;

// What is open: files, query, input, data and switches. The texts of editors are read when asked for.
export function Playground() {
  const hosts = { policy: useRef(), input: useRef(), data: useRef() };
  const views = useRef({});
  const files = useRef({});
  const current = useRef("");
  const [names, setNames] = useState([]);
  const [name, setName] = useState("");
  const [query, setQuery] = useState("");
  const [switches, setSwitches] = useState({ v0: false, strict: false });
  const [action, setAction] = useState("evaluate");
  const [answer, setAnswer] = useState(null);
  const [python, setPython] = useState(null);
  const [renamed, setRenamed] = useState(null);
  const [note, setNote] = useState("");
  const [cases, setCases] = useState([]);
  const now = useRef({});
  // The new file that no query was suggested for yet, and the input as it was.
  const fresh = useRef(null);
  const answered = useRef();
  const turn = useRef(0);
  // The number of the evaluation whose answers are awaited.
  const round = useRef(0);
  const [isBusy, setBusy] = useState(false);
  const [isEdited, setEdited] = useState(false);
  const [example, setExample] = useState("");
  // Something that only this page has: a draft.
  const isDraft = useRef(false);
  const saving = useRef(0);
  now.current = { query, switches, action };

  const put = (view, text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
  const textOf = (name) => views.current[name].state.doc.toString();
  const all = () => {
    if (current.current) files.current[current.current] = textOf("policy");
    return files.current;
  };
  const show = (name) => {
    current.current = name;
    setName(name);
    setNames(Object.keys(files.current));
    put(views.current.policy, files.current[name] ?? "");
  };
  const choose = (name) => {
    all();
    show(name);
  };
  const save = () => {
    clearTimeout(saving.current);
    if (isDraft.current && views.current.policy) writeDraft({ files: all(), file: current.current, query: now.current.query, input: textOf("input"), data: textOf("data"), action: now.current.action, ...now.current.switches });
  };
  // An answer is about what was evaluated, not about what was typed since.
  const changed = ({ isByHand = true } = {}) => {
    setEdited(true);
    if (!isByHand) return;
    isDraft.current = true;
    clearTimeout(saving.current);
    saving.current = setTimeout(save, SAVED_AFTER);
  };
  const body = () => {
    const document = { files: all(), query: now.current.query, ...now.current.switches };
    for (const each of ["data", "input"]) {
      const value = read(textOf(each), each);
      if (value !== undefined) document[each] = value;
    }
    return document;
  };
  // A query that belongs to the open file, and an input for which it is true.
  const begin = async (file, { keepsInput = false } = {}) => {
    const mine = ++turn.current;
    const given = await ask("begin", { files: all(), file, data: read(textOf("data"), "data"), ...now.current.switches });
    const isEmpty = !Object.keys(given.input || {}).length;
    const input = (isEmpty && (await decidedInput(given.query))) || given.input;
    // Something else was opened meanwhile.
    if (mine !== turn.current) return;
    if (given.query) {
      now.current.query = given.query;
      setQuery(given.query);
    }
    if (!keepsInput) put(views.current.input, pretty(input));
    return given.query;
  };
  // The query is still that of another file, when a new one is evaluated for the first time.
  const beginFresh = async () => {
    const { file, input } = fresh.current || {};
    if (!file || file !== current.current) return;
    if (await begin(file, { keepsInput: textOf("input") !== input })) fresh.current = null;
  };
  const open = async (given) => {
    turn.current += 1;
    round.current += 1;
    setBusy(false);
    fresh.current = null;
    files.current = { ...given.files };
    const first = given.file in given.files ? given.file : Object.keys(given.files).find((each) => !each.endsWith("_test.rego")) || Object.keys(given.files)[0];
    current.current = "";
    show(first);
    setAction(given.action || "evaluate");
    setAnswer(null);
    setPython(null);
    put(views.current.data, typeof given.data === "string" ? given.data : pretty(given.data));
    setCases(given.inputs || []);
    const input = given.input ?? given.inputs?.[0].input;
    if (input !== undefined) put(views.current.input, typeof input === "string" ? input : pretty(input));
    setSwitches({ v0: given.v0 === true, strict: given.strict === true });
    if (given.query) setQuery(given.query);
    else await begin(first);
  };
  // The answer first; what takes longer comes after it, the rules of the open file before others.
  const evaluate = async () => {
    const mine = ++round.current;
    const isCurrent = () => mine === round.current;
    const add = (fields) => isCurrent() && setAnswer((old) => ({ ...old, ...fields }));
    setBusy(true);
    try {
      await beginFresh();
      const sent = body();
      const file = current.current;
      const evaluated = await ask(now.current.action, sent);
      if (!isCurrent()) return;
      setEdited(false);
      setAnswer({ ...evaluated, file });
      const rows = (evaluated.covered || []).filter(([each]) => each === current.current).map(([, row]) => row);
      views.current.policy.dispatch({ effects: covered.of([...new Set(rows)].sort((a, b) => a - b)) });
      setBusy(false);
      if (evaluated.errors) return;
      add({ waits: "Running the tests…" });
      add(await ask("test", sent));
      if (!Object.values(sent.files).some((text) => text.includes("never_"))) return add({ waits: "" });
      add({ waits: "Proving the rules of this file…" });
      const near = await ask("prove", { ...sent, file });
      add({ properties: near.properties, unproved: near.error, waits: "Proving the rules of other files…" });
      const others = Object.keys(sent.files).length > 1 ? await ask("prove", { ...sent, file, others: true }) : { properties: [] };
      add({ others: others.properties, unproved: near.error || others.error, waits: "" });
    } catch (error) {
      if (isCurrent()) setAnswer((old) => ({ ...old, waits: "", errors: [{ message: error.message }] }));
    } finally {
      if (isCurrent()) setBusy(false);
    }
  };
  const chooseExample = async (at) => {
    if (isDraft.current && !window.confirm("Replace your files, input and data with the example?")) return;
    isDraft.current = false;
    dropDraft();
    setNote("");
    setExample(at);
    return open(EXAMPLES[Number(at)]);
  };
  const startOver = async () => {
    isDraft.current = false;
    dropDraft();
    setNote("");
    setExample("");
    return openServed();
  };
  const openServed = async () => {
    const served = await fetch("/console/api/files").then((response) => response.json()).catch(() => ({}));
    return open(served.files && Object.keys(served.files).length ? served : EXAMPLES[0]);
  };
  const take = (each) => {
    put(views.current.input, pretty(each.input));
    return evaluate();
  };
  const format = async () => {
    const { text } = await ask("format", { files: all(), file: current.current });
    if (text === null) setNote("Not formatted: the policy has an error.");
    else put(views.current.policy, text);
  };
  const showPython = async () => {
    const shown = await ask("python", body());
    setPython(shown.python ? shown.python[current.current] || "" : shown.errors.map((each) => each.message).join("\n"));
  };
  const copyLink = async () => {
    const fragment = await share({ files: all(), query, input: textOf("input"), data: textOf("data"), ...switches });
    window.history.replaceState(null, "", `#share=${fragment}`);
    try {
      await navigator.clipboard.writeText(window.location.href);
      setNote("The link is copied.");
    } catch {
      setNote("The link is in the address.");
    }
  };
  const add = (name = "", text = "") => {
    all();
    let number = 1;
    while (!name && `policy${number}.rego` in files.current) number += 1;
    const file = name || `policy${number}.rego`;
    files.current[file] = text || textOfNew(file);
    show(file);
    changed();
    if (name) return;
    fresh.current = { file, input: textOf("input") };
    setRenamed(file);
  };
  const rename = (to) => {
    const file = to.trim();
    setRenamed(null);
    if (!file || file === current.current) return;
    if (file in all()) return setNote(`There is a file ${file} already.`);
    const before = current.current;
    if (files.current[before] === textOfNew(before)) files.current[before] = textOfNew(file);
    if (fresh.current?.file === before) fresh.current.file = file;
    files.current = Object.fromEntries(Object.entries(files.current).map(([each, text]) => [each === before ? file : each, text]));
    show(file);
    changed();
  };
  const remove = () => {
    const { [current.current]: _, ...others } = all();
    if (!Object.keys(others).length) return setNote("The last file stays.");
    files.current = others;
    current.current = "";
    show(Object.keys(others)[0]);
    changed();
  };
  const drop = async (event) => {
    event.preventDefault();
    for (const each of event.dataTransfer.files) {
      if (each.size > DROPPED) setNote(`${each.name} is too large.`);
      else if (each.name.endsWith(".rego")) add(each.name, await each.text());
      else if (each.name.endsWith(".json")) {
        put(views.current[each.name.startsWith("data") ? "data" : "input"], await each.text());
        changed();
      }
      else setNote(`${each.name} is neither .rego nor .json.`);
    }
  };

  // On a phone the answer is below what asked for it.
  useEffect(() => {
    const { top } = answered.current.getBoundingClientRect();
    if (answer !== null && top > window.innerHeight - 64) answered.current.scrollIntoView();
  }, [answer]);
  useEffect(() => {
    const asked = (view, at) => ({ files: all(), file: current.current, offset: toServer(view.state.doc.toString(), at) });
    const lint = linter(async (view) => {
      if (now.current.switches.v0 || !current.current) return [];
      const { diagnostics } = await ask("check", { files: all() });
      const text = view.state.doc.toString();
      return (diagnostics[current.current] || []).map((each) => ({
        from: Math.min(fromServer(text, each.start), text.length),
        to: Math.min(Math.max(fromServer(text, each.end), fromServer(text, each.start)), text.length),
        severity: "error",
        message: each.hint ? `${each.message}\n${each.hint}` : each.message,
      }));
    }, { delay: 400 });
    const hover = hoverTooltip(async (view, at) => {
      const { text } = await ask("hover", asked(view, at));
      if (!text) return null;
      const dom = document.createElement("pre");
      dom.className = "hover";
      dom.textContent = text;
      return { pos: at, create: () => ({ dom }) };
    });
    const complete = autocompletion({
      override: [async (context) => {
        const word = context.matchBefore(/[\w.]*/);
        if (!context.explicit && (!word || word.from === word.to)) return null;
        const { completions } = await ask("complete", asked(context.state ? { state: context.state } : context, context.pos));
        const from = context.matchBefore(/\w*/)?.from ?? context.pos;
        return { from, options: completions.map((each) => ({ label: each.text.split(".").pop(), apply: each.text.split(".").pop(), detail: each.text, info: each.detail || undefined })) };
      }],
    });
    // Before the keys of editors, of which one adds a line at Mod-Enter.
    const run = [Prec.highest(keymap.of(["Mod-Enter", "Mod-s"].map((key) => ({ key, run: () => (evaluate(), true), preventDefault: true })))), keymap.of([indentWithTab])];
    const watch = EditorView.updateListener.of(({ docChanged, transactions }) => {
      if (docChanged) changed({ isByHand: transactions.some((each) => BY_HAND.some((kind) => each.isUserEvent(kind))) });
    });
    views.current.policy = editor(hosts.policy.current, "", StreamLanguage.define(rego), "Policy", [
      run, watch, coverage, gutter({ class: "coverage", markers: (view) => view.state.field(coverage) }), lintGutter(), lint, hover, complete,
    ]);
    views.current.input = editor(hosts.input.current, "", json(), "Input", [run, watch]);
    views.current.data = editor(hosts.data.current, "", json(), "Data", [run, watch]);
    (async () => {
      let problem = "";
      const given = await shared().catch((error) => {
        problem = `The link cannot be read: ${error.message}`;
        return null;
      });
      const draft = given ? null : readDraft();
      isDraft.current = draft !== null;
      if (draft) setNote("Your draft of this tab.");
      await (given || draft ? open(given || draft) : openServed()).catch((error) => (problem ||= error.message));
      if (problem) setAnswer({ errors: [{ message: problem }] });
    })();
    const press = (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.defaultPrevented) return;
      event.preventDefault();
      evaluate();
    };
    window.addEventListener("keydown", press);
    window.addEventListener("pagehide", save);
    return () => {
      save();
      window.removeEventListener("keydown", press);
      window.removeEventListener("pagehide", save);
      Object.values(views.current).forEach((view) => view.destroy());
      views.current = {};
    };
  }, []);

  const toggle = (name) => html`<label class="toggle"><input type="checkbox" checked=${switches[name]} onChange=${() => {
    setSwitches({ ...switches, [name]: !switches[name] });
    changed();
  }} /> ${name}</label>`;
  return html`<section class="playground" aria-label="Playground" onDragOver=${(event) => event.preventDefault()} onDrop=${drop}>
    <div class="bar">
      <label class="example-choice">Example <select value=${example ?? ""} onChange=${(event) => {
        const { value } = event.target;
        event.target.value = example ?? "";
        if (value) chooseExample(value).catch((error) => setNote(error.message));
      }}>
        <option value="">choose…</option>${EXAMPLES.map((each, at) => html`<option value=${at} selected=${String(at) === example}>${each.name}</option>`)}</select></label>
      <label class="wide">Query <input value=${query} onInput=${(event) => {
        fresh.current = null;
        setQuery(event.target.value);
        changed();
      }}
        onKeyDown=${(event) => event.key === "Enter" && !event.ctrlKey && !event.metaKey && evaluate()} /></label>
      <button onClick=${() => begin(name).catch((error) => setNote(error.message))} title="A query about this file, and an input for which it is true">Suggest query</button>
      <button class="main" aria-busy=${isBusy} onClick=${evaluate}>${isBusy ? "Evaluating…" : "Evaluate"}</button>
      <label>as <select value=${action} onChange=${(event) => setAction(event.target.value)}><option value="evaluate">answer</option><option value="filter">filter (SQL)</option></select></label>
      ${toggle("v0")}${toggle("strict")}
    </div>
    <div class="panes">
      <div class="policies-pane">
        <div class="bar">
          ${renamed !== null ? html`<input class="rename" aria-label="Name of the file" autofocus ref=${(node) => node?.focus()} defaultValue=${renamed}
            onBlur=${(event) => rename(event.target.value)} onKeyDown=${(event) => {
              if (event.key === "Enter") event.target.blur();
              if (event.key === "Escape") setRenamed(null);
            }} />`
          : html`<label>File <select value=${name} onChange=${(event) => choose(event.target.value)}>
            ${names.map((each) => html`<option value=${each} selected=${each === name}>${each}</option>`)}</select></label>`}
          <button onClick=${() => add()}>New file</button><button onClick=${() => setRenamed(name)}>Rename</button><button onClick=${remove}>Delete</button>
          <span class="gap"></span>
          <button onClick=${format}>Format</button><button onClick=${showPython}>Python</button><button onClick=${copyLink}>Share as link</button>
          ${note && html`<span class="quiet" role="note">${note}</span>`}${note.startsWith("Your draft") && html`<button onClick=${() => startOver().catch((error) => setNote(error.message))}>Start over</button>`}
        </div>
        <div class="editor" ref=${hosts.policy}></div>
      </div>
      <div class="side">
        <div class="bar"><h2>Input</h2>${cases.length > 1 && html`<span class="gap"></span><label>Case <select onChange=${(event) => take(cases[Number(event.target.value)])}>
          ${cases.map((each, at) => html`<option value=${at}>${each.name}</option>`)}</select></label>`}</div>
        <div class="editor small" ref=${hosts.input}></div>
        <h2>Data</h2><div class="editor small" ref=${hosts.data}></div>
        <h2 ref=${answered}>Answer</h2><div role="status" aria-live="polite" class=${isEdited && answer ? "earlier" : ""}>${isEdited && answer && html`<p class="quiet">Of an earlier text: evaluate again.</p>`}<${Answer} of=${answer} /></div>
        ${python !== null && html`<h2>Python</h2><pre class="python" tabindex="0">${python}</pre>`}
      </div>
    </div>
  </section>`;
}

// "2 proved, 1 cannot say"
const outcomes = (all) => {
  const names = all.map((each) => (each.outcome === "none exists" ? "proved" : each.outcome));
  return [...new Set(names)].map((name) => `${names.filter((each) => each === name).length} ${name}`).join(", ");
};

function Answer({ of }) {
  if (of === null) return html`<p class="quiet">Evaluate with Ctrl-Enter. Escape, then Tab, leaves an editor. Files can be dropped here. A rule whose name begins with <code>never_</code> is proved, or an input is found that makes it true.</p>`;
  if (of.errors) {
    return html`<ul class="errors">${of.errors.map((each) => html`<li>${each.file ? `${each.file}:${each.row}: ` : ""}${each.message}</li>`)}</ul>`;
  }
  return html`${"sql" in of ? html`<${Filtered} of=${of} />` : html`<${Evaluated} of=${of} />`}
    ${of.waits && html`<p class="quiet waits">${of.waits}</p>`}
    ${(of.properties?.length > 0 || of.others?.length > 0) && html`<h3>Rules that must never hold</h3><${Properties} of=${of.properties || []} />`}
    ${of.others?.length > 0 && html`<details open=${!of.properties.length || of.others.some((each) => each.outcome === "counterexample")}><summary>${of.others.length} in other files: ${outcomes(of.others)}</summary><${Properties} of=${of.others} /></details>`}
    ${of.unproved && html`<p class="quiet">${of.unproved}</p>`}
    ${of.tests?.length > 0 && html`<h3>Tests</h3><ul class="outcomes">${of.tests.map((each) => html`<li><span class=${each.outcome === "PASS" ? "up" : "down"}>${each.outcome}</span> <code>${each.name}</code>
      ${each.why && html`<pre>${each.why}</pre>`}</li>`)}</ul>`}`;
}

function Evaluated({ of }) {
  const shown = of.defined ? of.result.map((each) => JSON.stringify(each, null, 2)).join("\n") : "undefined";
  return html`<pre class="result" tabindex="0">${shown}</pre>
    ${of.printed?.length > 0 && html`<pre>${of.printed.join("\n")}</pre>`}
    <h3>Why</h3><pre tabindex="0">${of.why}</pre>`;
}

function Filtered({ of }) {
  const tables = Object.entries(of.rows || {});
  return html`<pre class="result">${of.sql === null || of.sql === undefined ? "no row" : of.sql || "every row"}</pre>
    ${tables.map(([name, rows]) => html`<h3>Rows of ${name}</h3><div class="aside-scroll" tabindex="0" role="group" aria-label=${`Rows of ${name}`}>${rows.length === 0 ? html`<p class="quiet">none</p>` : html`<table class="plain-table">
      <thead><tr>${Object.keys(rows[0]).map((each) => html`<th>${each}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr>${Object.values(row).map((each) => html`<td>${String(each)}</td>`)}</tr>`)}</tbody></table>`}</div>`)}`;
}
