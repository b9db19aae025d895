// Why as a tree that opens: rule, definitions, conditions with their values, the rules that they read.
import { useEffect, useRef, useState } from "preact/hooks";
import { useColored } from "./colored.js";
import { html } from "./html.js";

const SIGNS = { held: "✓", failed: "✗", unreached: "·" };
const WORDS = { held: "held", failed: "did not hold", unreached: "was not reached" };

const Sign = ({ of }) => html`<span class=${`sign ${of}`} aria-label=${WORDS[of]} role="img">${SIGNS[of]}</span>`;

export function Tree({ of, show }) {
  return html`<ul class="tree">${of.map((each) => html`<${Rule} of=${each} show=${show} isOpen />`)}</ul>`;
}

// A line with what is below it, which opens.
function Fold({ name, state, isOpen, line, children }) {
  const [is, set] = useState(isOpen);
  return html`<li class=${state}><div class="fold"><button class="twist" aria-expanded=${is} aria-label=${`What is below ${name}`} onClick=${() => set(!is)}></button><div>${line}</div></div>
    ${is && html`<ul>${children}</ul>`}</li>`;
}

const isRefused = (rule) => rule.answer === undefined || rule.answer === "false";

function Rule({ of, show, isOpen }) {
  const answer = of.answer === undefined ? "is undefined" : `is ${of.answer}`;
  const definitions = of.definitions.filter((each) => !each.default);
  const isDefault = of.definitions.some((each) => each.default && each.state === "held");
  const head = html`<code class="rule">${of.rule}${of.operands ? `(${of.operands.join(", ")})` : ""}</code> <span class="answer code">${answer}</span>${isDefault && html`<span class="quiet">, its default</span>`}`;
  if (!definitions.length) return html`<li class="leaf">${head}</li>`;
  return html`<${Fold} name=${of.rule} isOpen=${isOpen} line=${head}>${definitions.map((each) => html`<${Definition} of=${each} show=${show} isOpen=${isOpen} />`)}<//>`;
}

function Definition({ of, show, isOpen }) {
  const isTelling = isOpen && (of.state === "held" || of.conditions.some((each) => each.state !== "unreached"));
  const line = html`<${Sign} of=${of.state} /> <code>${of.head}</code> <${At} file=${of.file} row=${of.row} show=${show} />`;
  if (!of.conditions.length && !of.rules.length) return html`<li class="leaf">${line}</li>`;
  return html`<${Fold} name=${`the definition in row ${of.row}`} isOpen=${isTelling} line=${line}>
    ${of.conditions.map((each) => html`<${Condition} of=${each} file=${of.file} show=${show} />`)}
    ${of.rules.map((each) => html`<${Rule} of=${each} show=${show} />`)}<//>`;
}

function Condition({ of, file, show }) {
  const values = Object.entries(of.values || {}).filter(([label]) => label !== of.text || !of.rules?.length);
  const below = (of.rules || []).filter((each) => each.definitions.length);
  const line = html`<${Sign} of=${of.state} /> <code>${of.text}</code> <${At} file=${file} row=${of.row} show=${show} />
    ${of.rounds > 1 && of.state === "failed" && html` <span class="quiet">in none of ${of.rounds} rounds</span>`}
    ${of.state !== "unreached" && values.length > 0 && html`<span class="values">${values.map(([label, value]) => html`<span><code class="quiet">${label}</code> <code>${value}</code></span>`)}</span>`}`;
  if (!below.length) return html`<li class=${`leaf ${of.state}`}>${line}</li>`;
  const isOpen = of.state === "failed" && below.some(isRefused);
  // One rule, of which the condition says the answer: its definitions come at once.
  if (below.length === 1 && !below[0].operands) {
    return html`<${Fold} name=${of.text} state=${of.state} isOpen=${isOpen} line=${line}>
      ${below[0].definitions.filter((each) => !each.default).map((each) => html`<${Definition} of=${each} show=${show} isOpen=${isOpen} />`)}<//>`;
  }
  return html`<${Fold} name=${of.text} state=${of.state} isOpen=${isOpen} line=${line}>
    ${below.map((each) => html`<${Rule} of=${each} show=${show} isOpen=${of.state === "failed" && isRefused(each)} />`)}<//>`;
}

function At({ file, row, show }) {
  return html`<button class="link at" onClick=${() => show(file, row)} title=${`${file}, row ${row}`}>${file.split("/").pop()}:${row}</button>`;
}

// The policy with each row in the color of what became of it.
export function Source({ file, of, place }) {
  const host = useRef();
  const box = useRef();
  const colored = useColored(of.text);
  useEffect(() => {
    if (!place) return;
    box.current.open = true;
    const row = host.current.querySelector(`[data-row="${place.row}"]`);
    row?.scrollIntoView({ block: "center" });
    row?.focus({ preventScroll: true });
  }, [place?.at]);
  return html`<details class="policy" ref=${box}><summary><h3>Policy <code>${file}</code></h3></summary>
    <p class="legend quiet"><span class="held">held</span> <span class="failed">did not hold</span> <span class="unreached">not reached</span></p>
    <div class="source" ref=${host} tabindex="0" role="group" aria-label=${`Text of ${file}`}>${colored.map((line, at) => {
      const state = of.rows[at + 1] || "";
      return html`<div class=${`line ${state} ${place?.row === at + 1 ? "target" : ""}`} data-row=${at + 1} tabindex="-1"><span class="row-number">${at + 1}</span><code>${line}</code>${state && html`<span class="hidden">${WORDS[state]}</span>`}</div>`;
    })}</div></details>`;
}
