// What a candidate decides otherwise, with the rule and the condition that make the difference.
import { useAsked } from "./api.js";
import { counted } from "./format.js";
import { html } from "./html.js";
import { Answered, Clock, Empty, silent } from "./parts.js";
import { Table } from "./table.js";

const UNKNOWN = html`<span class="quiet" title="The cause is looked for once a second">not examined</span>`;
const COLUMNS = [
  { name: "time", title: "Time", show: (row) => html`<a href=${`#decision=${row.id}`}><${Clock} ms=${row.time_ms} /></a>` },
  { name: "kind", title: "Kind", show: (row) => html`<span class=${`verdict ${row.kind === "new-allow" ? "allow" : "deny"}`}>${row.kind}</span>` },
  { name: "rule", title: "Rule", kind: "code", hint: (row) => row.rule, show: (row) => row.rule || UNKNOWN },
  { name: "reason", title: "Cause", kind: "code", hint: (row) => row.cause, show: (row) => row.cause },
  { name: "path", title: "Path", kind: "code", hint: (row) => row.path, show: (row) => row.path },
];

export function Shadow({ id, open }) {
  const asked = useAsked("shadow", 2000);
  if (asked.data?.candidate === null) return html`<section aria-label="Shadow"><${Empty} title="No candidate decides here.">Name one in the configuration, to compare its answers without effect:
    <pre class="example">shadow:
  paths: [candidate.rego]</pre><//></section>`;
  return html`<section class="shadow" aria-label="Shadow"><${Answered} of=${asked} name="the candidate">${(data) => html`
    <p class="summary" role="status">Candidate <code>${data.candidate}</code>: ${[...Object.entries(data.kinds), ...Object.entries(data.dropped).map(([name, count]) => [`dropped (${name})`, count])].map(([name, count]) => `${counted(count, "decision")} ${name}`).join(", ") || "nothing compared yet"}${silent(data.silent) && `, ${silent(data.silent)}`}.</p>
    <div class="list"><${Table} label="Differences" columns=${COLUMNS} rows=${data.differences} keyOf=${(row) => row.id} chosen=${id} open=${(row) => open(row.id)}>
      ${data.differences.length ? null : html`<${Empty} title="No difference yet.">The candidate decides as the active policies do.<//>`}<//></div>`}<//></section>`;
}
