// Examples with recorded decisions: #doorward-examples lists all, [data-example] displays one.
// No server is asked. A link that was shared from a playground is displayed, without an answer.
(() => {
  "use strict";
  const EXAMPLES = window.doorwardExamples || [];
  const LONGEST = 2 << 20;
  const PLAYGROUND = "http://127.0.0.1:8484/console/playground";

  // Text is always a text node: nothing in an example or a link becomes markup.
  function element(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value === true) node.setAttribute(key, "");
      else if (value !== false && value !== undefined) node.setAttribute(key, value);
    }
    node.append(...children.flat().filter((each) => each !== null && each !== undefined && each !== ""));
    return node;
  }

  const pretty = (value) => JSON.stringify(value, null, 2);

  const WORDS = { held: "held", failed: "did not hold", unreached: "not reached" };

  function source(files, file, states) {
    const lines = files[file].replace(/\n$/, "").split("\n");
    return element("pre", { class: "dw-source", tabindex: "0", "aria-label": file }, lines.map((line, at) =>
      element("span", { class: `dw-line dw-${states[at + 1] || "plain"}`, title: WORDS[states[at + 1]] }, element("span", { class: "dw-row", "aria-hidden": "true" }, String(at + 1)), `${line || " "}\n`)));
  }

  function rowsOf(name, rows) {
    if (!rows.length) return element("p", {}, `No row of ${name} stays.`);
    const names = Object.keys(rows[0]);
    return element("table", {}, element("caption", {}, `Rows of ${name}`),
      element("thead", {}, element("tr", {}, names.map((each) => element("th", {}, each)))),
      element("tbody", {}, rows.map((row) => element("tr", {}, names.map((each) => element("td", {}, String(row[each])))))));
  }

  function answerOf(each) {
    if ("sql" in each) {
      const sql = each.sql === null ? "no row" : each.sql || "every row";
      return [element("pre", { class: "dw-result", tabindex: "0" }, sql), ...Object.entries(each.rows || {}).map(([name, rows]) => rowsOf(name, rows))];
    }
    const isRefused = !each.defined || each.result[0] === false;
    const isAllowed = each.defined && each.result[0] === true;
    const result = each.defined ? each.result.map(pretty).join("\n") : "undefined";
    return [
      element("pre", { class: `dw-result ${isAllowed ? "dw-allow" : isRefused ? "dw-deny" : ""}`, tabindex: "0" }, result),
      element("h2", {}, "Why"), element("pre", { class: "dw-why", tabindex: "0" }, each.why || ""),
    ];
  }

  function outcomes(title, list, line) {
    return list.length ? [element("h2", {}, title), element("ul", { class: "dw-outcomes" }, list.map(line))] : [];
  }

  function choices(label, names, current, choose) {
    return element("div", { class: "dw-choices", role: "group", "aria-label": label }, names.map((name, at) =>
      element("button", { type: "button", "aria-pressed": String(at === current), onclick: () => choose(at) }, name)));
  }

  // One example, with the input and the file that are chosen.
  function display(host, example, chosen, change) {
    const files = Object.keys(example.files);
    const first = files.findIndex((each) => !each.endsWith("_test.rego"));
    const at = { file: chosen.file ?? Math.max(first, 0), input: chosen.input ?? 0 };
    const each = example.inputs[at.input];
    const put = (fields) => change({ ...at, ...fields });
    host.replaceChildren(
      element("div", { class: "dw-panes" },
        element("div", { class: "dw-pane" },
          files.length > 1 ? choices("File", files, at.file, (file) => put({ file })) : element("h2", {}, files[0]),
          source(example.files, files[at.file], each?.states?.[files[at.file]] || {}),
          each?.states && !files[at.file].endsWith("_test.rego") ? element("p", { class: "dw-legend" }, element("span", { class: "dw-held" }, "held"), element("span", { class: "dw-failed" }, "did not hold"), element("span", {}, "others were not reached")) : null,
          example.data === undefined ? null : element("details", {}, element("summary", {}, "Data"), element("pre", { tabindex: "0" }, typeof example.data === "string" ? example.data : pretty(example.data)))),
        element("div", { class: "dw-pane" },
          element("h2", {}, "Input"),
          example.inputs.length > 1 ? choices("Input", example.inputs.map((one) => one.name), at.input, (input) => put({ input })) : null,
          element("pre", { class: "dw-input", tabindex: "0" }, each ? (typeof each.input === "string" ? each.input : pretty(each.input)) : ""),
          element("h2", {}, element("code", {}, example.query)),
          element("div", { "aria-live": "polite" }, each && ("result" in each || "sql" in each) ? answerOf(each) : element("p", {}, "Not recorded: evaluate it in your own playground.")),
          ...outcomes("Tests", example.tests || [], (test) => element("li", {}, element("b", {}, test.outcome), " ", element("code", {}, test.name))),
          ...outcomes("What must never be", example.properties || [], (property) => element("li", {}, element("b", {}, property.outcome), " ", element("code", {}, property.name),
            property.input ? element("pre", { tabindex: "0" }, pretty(property.input)) : null)))));
  }

  // The same in little: inputs, the answer, and the policy.
  function displayShort(host, example, chosen, change) {
    const [file] = Object.keys(example.files);
    const at = chosen.input ?? 0;
    const each = example.inputs[at];
    const [answer] = answerOf(each);
    host.replaceChildren(choices("Input", example.inputs.map((one) => one.name), at, (input) => change({ input })),
      element("div", { class: "dw-pane" }, element("div", { "aria-live": "polite" }, answer), source(example.files, file, each.states[file] || {})));
  }

  async function pack(document) {
    const stream = new Blob([JSON.stringify(document)]).stream().pipeThrough(new CompressionStream("gzip"));
    const octets = new Uint8Array(await new Response(stream).arrayBuffer());
    const text = btoa(Array.from(octets, (each) => String.fromCharCode(each)).join(""));
    return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  }

  async function unpack(text) {
    const octets = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
    const reader = new Blob([octets]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
    const parts = [];
    let size = 0;
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      size += part.value.length;
      if (size > LONGEST) throw new Error("it is too large");
      parts.push(part.value);
    }
    const shared = JSON.parse(await new Blob(parts).text());
    const texts = [shared.query, shared.input, shared.data, ...Object.values(shared.files)];
    if (!texts.every((each) => each === undefined || typeof each === "string")) throw new Error("its parts are not texts");
    return { name: "A shared link", query: shared.query || "", files: shared.files, data: shared.data || undefined, inputs: [{ name: "shared", input: shared.input || "" }] };
  }

  async function link(example, input) {
    const text = (value) => (value === undefined ? "" : typeof value === "string" ? value : `${pretty(value)}\n`);
    const shared = { files: example.files, query: example.query, action: example.action, input: text(example.inputs[input]?.input), data: text(example.data) };
    return `${PLAYGROUND}#share=${await pack(shared)}`;
  }

  // All examples, with the chosen one in the address: #example=people/1
  async function list(host) {
    const show = async () => {
      const fragment = window.location.hash.slice(1);
      const [, id, input] = /^example=([a-z]+)\/?(\d*)$/.exec(fragment) || [];
      let example = EXAMPLES.find((each) => each.id === id) || EXAMPLES[0];
      let problem = "";
      if (fragment.startsWith("share=")) {
        try {
          example = await unpack(fragment.slice(6));
        } catch (error) {
          problem = `The link cannot be read: ${error.message}`;
        }
      }
      const chosen = { input: Math.min(Number(input) || 0, example.inputs.length - 1) };
      const body = element("div");
      const open = element("a", { href: PLAYGROUND, class: "dw-open" }, "Open in your playground");
      const draw = (state) => {
        if (example.id && (state.input ?? 0) !== chosen.input) {
          chosen.input = state.input;
          window.history.replaceState(null, "", `#example=${example.id}/${state.input}`);
        }
        display(body, example, state, draw);
        link(example, state.input ?? 0).then((url) => open.setAttribute("href", url), () => {});
      };
      draw(chosen);
      host.replaceChildren(
        element("div", { class: "dw-bar" },
          element("label", {}, "Example ", element("select", { onchange: (event) => { window.location.hash = `example=${event.target.value}`; } },
            example.id ? null : element("option", { selected: true }, example.name),
            EXAMPLES.map((each) => element("option", { value: each.id, selected: each === example }, each.name)))),
          open),
        problem ? element("p", { role: "alert" }, problem) : "", body);
    };
    window.addEventListener("hashchange", show);
    await show();
  }

  const all = document.getElementById("doorward-examples");
  if (all) list(all);
  for (const host of document.querySelectorAll("[data-example]")) {
    const example = EXAMPLES.find((each) => each.id === host.dataset.example);
    if (!example) continue;
    const draw = (state) => displayShort(host, example, state, draw);
    draw({});
  }
})();
