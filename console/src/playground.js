// An editor for policies with the answers of the language server, and what they answer and why.
import { autocompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { bracketMatching, defaultHighlightStyle, HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { linter, lintGutter } from "@codemirror/lint";
import { EditorState, RangeSetBuilder, StateEffect, StateField } from "@codemirror/state";
import { EditorView, gutter, GutterMarker, hoverTooltip, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { rego } from "./rego.js";

const EXAMPLE = {
  "policy.rego": `package app

default allow := false

allow if {
	input.method == "GET"
	is_reader
}

is_reader if input.user in data.readers
`,
  "policy_test.rego": `package app_test

test_ann_reads if data.app.allow with input as {"user": "ann", "method": "GET"} with data.readers as ["ann"]
`,
};
const nonce = document.querySelector("meta[name=nonce]").content;

async function ask(action, body) {
  const response = await fetch(`/console/api/playground/${action}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const type = response.headers.get("content-type") || "";
  if (!type.startsWith("application/json")) throw new Error(await response.text());
  const document = await response.json();
  if (!response.ok) throw new Error(document.error);
  return document;
}

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
    return transaction.docChanged ? marks.map(transaction.changes) : marks;
  },
});

// The colors of CodeMirror, and the same ones lighter where the page is dark.
const colors = HighlightStyle.define(
  defaultHighlightStyle.specs.map((spec) =>
    spec.color ? { ...spec, color: `light-dark(${spec.color}, hsl(from ${spec.color} h 70% 78%))` } : spec,
  ),
);

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
  const texts = [given.query, given.input, given.data, ...Object.values(given.files)];
  if (!texts.every((each) => each === undefined || typeof each === "string")) throw new Error("its parts are not texts");
  return given;
}

async function share(document) {
  const stream = new Blob([JSON.stringify(document)]).stream().pipeThrough(new CompressionStream("gzip"));
  const octets = new Uint8Array(await new Response(stream).arrayBuffer());
  const text = btoa(Array.from(octets, (each) => String.fromCharCode(each)).join(""));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export function Playground() {
  const hosts = { policy: useRef(), input: useRef(), data: useRef() };
  const views = useRef({});
  const files = useRef({ ...EXAMPLE });
  const [names, setNames] = useState(Object.keys(EXAMPLE));
  const [name, setName] = useState("policy.rego");
  const current = useRef("policy.rego");
  const [query, setQuery] = useState("data.app.allow");
  const queryNow = useRef(query);
  queryNow.current = query;
  const [answer, setAnswer] = useState(null);
  const [python, setPython] = useState(null);

  const all = () => {
    files.current[current.current] = views.current.policy.state.doc.toString();
    return files.current;
  };
  const choose = (name) => {
    all();
    current.current = name;
    setName(name);
    const { policy } = views.current;
    policy.dispatch({ changes: { from: 0, to: policy.state.doc.length, insert: files.current[name] } });
  };
  const evaluate = async () => {
    try {
      const body = { files: all(), query: queryNow.current };
      const data = read(views.current.data.state.doc.toString(), "data");
      const input = read(views.current.input.state.doc.toString(), "input");
      if (data !== undefined) body.data = data;
      if (input !== undefined) body.input = input;
      const [evaluated, tested] = await Promise.all([ask("evaluate", body), ask("test", body)]);
      setAnswer({ ...evaluated, tests: tested.tests });
      const rows = (evaluated.covered || []).filter(([file]) => file === current.current).map(([, row]) => row);
      views.current.policy.dispatch({ effects: covered.of([...new Set(rows)].sort((a, b) => a - b)) });
    } catch (error) {
      setAnswer({ errors: [{ message: error.message }] });
    }
    return true;
  };
  const format = async () => {
    const { text } = await ask("format", { files: all(), file: current.current });
    const { policy } = views.current;
    if (text !== null) policy.dispatch({ changes: { from: 0, to: policy.state.doc.length, insert: text } });
  };
  const showPython = async () => {
    const shown = await ask("python", { files: all() });
    setPython(shown.python ? shown.python[current.current] || "" : shown.errors.map((each) => each.message).join("\n"));
  };
  const copyLink = async () => {
    const text = (name) => views.current[name].state.doc.toString();
    const fragment = await share({ files: all(), query, input: text("input"), data: text("data") });
    window.history.replaceState(null, "", `#share=${fragment}`);
  };

  useEffect(() => {
    const asked = (view, at) => ({ files: all(), file: current.current, offset: toServer(view.state.doc.toString(), at) });
    const lint = linter(async (view) => {
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
    const run = keymap.of([{ key: "Mod-Enter", run: () => (evaluate(), true) }, { key: "Mod-s", run: () => (evaluate(), true), preventDefault: true }, indentWithTab]);
    views.current.policy = editor(hosts.policy.current, files.current["policy.rego"], StreamLanguage.define(rego), "Policy", [
      run, coverage, gutter({ class: "coverage", markers: (view) => view.state.field(coverage) }), lintGutter(), lint, hover, complete,
    ]);
    views.current.input = editor(hosts.input.current, '{"user": "ann", "method": "GET"}\n', json(), "Input", [run]);
    views.current.data = editor(hosts.data.current, '{"readers": ["ann"]}\n', json(), "Data", [run]);
    const put = (view, text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    (async () => {
      const broken = (error) => setAnswer({ errors: [{ message: `The link cannot be read: ${error.message}` }] });
      const given = (await shared().catch(broken)) || (await fetch("/console/api/files").then((response) => response.json()));
      if (given.files && Object.keys(given.files).length) {
        files.current = { ...given.files };
        const first = Object.keys(given.files)[0];
        current.current = first;
        setName(first);
        setNames(Object.keys(given.files));
        put(views.current.policy, given.files[first]);
        if (given.query) setQuery(given.query);
        if (typeof given.input === "string") put(views.current.input, given.input);
        if (given.data !== undefined) put(views.current.data, typeof given.data === "string" ? given.data : JSON.stringify(given.data, null, 2));
      }
    })();
    return () => Object.values(views.current).forEach((view) => view.destroy());
  }, []);

  return html`<section class="playground" aria-label="Playground">
    <div class="bar">
      <label>File <select value=${name} onChange=${(event) => choose(event.target.value)}>
        ${names.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
      <label class="wide">Query <input value=${query} onInput=${(event) => setQuery(event.target.value)}
        onKeyDown=${(event) => event.key === "Enter" && evaluate()} /></label>
      <button class="main" onClick=${evaluate}>Evaluate</button>
      <button onClick=${format}>Format</button>
      <button onClick=${showPython}>Python</button>
      <button onClick=${copyLink}>Share as link</button>
    </div>
    <div class="panes">
      <div class="editor" ref=${hosts.policy}></div>
      <div class="side">
        <h2>Input</h2><div class="editor small" ref=${hosts.input}></div>
        <h2>Data</h2><div class="editor small" ref=${hosts.data}></div>
        <h2>Answer</h2><div role="status" aria-live="polite"><${Answer} of=${answer} /></div>
        ${python !== null && html`<h2>Python</h2><pre>${python}</pre>`}
      </div>
    </div>
  </section>`;
}

function Answer({ of }) {
  if (of === null) return html`<p class="quiet">Evaluate with Ctrl-Enter. Escape, then Tab, leaves an editor.</p>`;
  if (of.errors) {
    return html`<ul class="errors">${of.errors.map((each) => html`<li>${each.file ? `${each.file}:${each.row}: ` : ""}${each.message}</li>`)}</ul>`;
  }
  const shown = of.defined ? of.result.map((each) => JSON.stringify(each, null, 2)).join("\n") : "undefined";
  return html`<pre class="result">${shown}</pre>
    ${of.printed?.length > 0 && html`<pre>${of.printed.join("\n")}</pre>`}
    <h3>Why</h3><pre>${of.why}</pre>
    ${of.tests?.length > 0 && html`<h3>Tests</h3><ul>${of.tests.map((each) => html`<li><span class=${each.outcome === "PASS" ? "up" : "down"}>${each.outcome}</span> ${each.name}</li>`)}</ul>`}`;
}
