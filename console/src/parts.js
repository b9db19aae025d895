// The small parts that every view is made of: answers, times, states, buttons.
import { useState } from "preact/hooks";
import { ago, clock, exact, useNow } from "./format.js";
import { html } from "./html.js";

const WORDS = { allow: "Allowed", deny: "Denied", undefined: "Undefined", error: "Error", value: "Value" };

export function Verdict({ of }) {
  return html`<span class=${`verdict ${of}`}>${WORDS[of] || of}</span>`;
}

export function Time({ ms }) {
  const now = useNow();
  return html`<time datetime=${new Date(ms).toISOString()} title=${exact(ms)}>${clock(ms)} <span class="quiet">${ago(ms, now)}</span></time>`;
}

// The same without words, which nothing has to keep up to date: lists have many.
export const Clock = ({ ms }) => html`<time datetime=${new Date(ms).toISOString()} title=${exact(ms)}>${clock(ms)}</time>`;

export function Ago({ ms }) {
  const now = useNow();
  return html`<time datetime=${new Date(ms).toISOString()} title=${exact(ms)}>${ago(ms, now)}</time>`;
}

export const Loading = ({ of = "" }) => html`<div class="state" role="status"><span class="spinner" aria-hidden="true"></span>Loading${of && ` ${of}`}…</div>`;

export const Empty = ({ title, children }) => html`<div class="state empty"><p><strong>${title}</strong></p>${children && html`<div class="quiet">${children}</div>`}</div>`;

export const Failed = ({ error, retry }) => html`<div class="state failed" role="alert"><p><strong>This could not be loaded:</strong> ${error}</p>
  ${retry && html`<button onClick=${retry}>Try again</button>`}</div>`;

// What is displayed although the last question failed.
export function Stale({ of }) {
  if (!of.error || !of.data) return null;
  return html`<div class="banner" role="status"><span>Not updated since <${Ago} ms=${of.at} />: ${of.error}</span>
    <button onClick=${of.reload}>Try again</button></div>`;
}

// The four states of a question: loading, failed, stale, answered.
export function Answered({ of, name, children }) {
  if (of.data === null) return of.error ? html`<${Failed} error=${of.error} retry=${of.reload} />` : html`<${Loading} of=${name} />`;
  return html`<${Stale} of=${of} />${children(of.data)}`;
}

const PROVED = "none exists";
const COLORS = { [PROVED]: "up", counterexample: "down", ERROR: "down" };

// `never_` rules: whether an input makes them true, or why that is not known.
export const Properties = ({ of }) => html`<ul class="outcomes">${of.map((each) => html`<li><span class=${COLORS[each.outcome] || "unknown"}>${each.outcome === PROVED ? "proved" : each.outcome}</span> <code>${each.name}</code>
  ${each.input !== null && html`<pre tabindex="0">${JSON.stringify(each.input, null, 2)}</pre>`}${each.text && html`<pre tabindex="0">${each.text}</pre>`}${each.outcome === PROVED && html`<span class="quiet"> no input makes it true, with this data</span>`}</li>`)}</ul>`;

export function Copy({ text, children = "Copy" }) {
  const [word, set] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      set("Copied");
    } catch {
      set("Could not copy");
    }
    setTimeout(() => set(""), 2000);
  };
  return html`<button onClick=${copy}>${word || children}</button>`;
}

export const Bar = ({ part, whole }) => html`<meter class="share" min="0" max=${Math.max(whole, 1)} value=${part} aria-hidden="true"></meter>`;

export const silent = (workers) => (workers?.length ? `without ${workers.map((each) => `worker ${each}`).join(", ")}` : "");
