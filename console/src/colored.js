// A text of Rego as lines of [kind, text], by the tokens of the editor; without the editor, which is
// loaded with the playground alone.
import { useMemo } from "preact/hooks";
import { html } from "./html.js";
import { rego } from "./rego.js";

const MOST = 3000;

// A line as the tokenizer of an editor reads it.
class Line {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  next() {
    this.at += 1;
  }

  skipToEnd() {
    this.at = this.text.length;
  }

  skipTo(character) {
    const at = this.text.indexOf(character, this.at);
    if (at >= 0) this.at = at;
    return at >= 0;
  }

  eatSpace() {
    const [space] = /^\s*/.exec(this.text.slice(this.at));
    this.at += space.length;
    return space.length > 0;
  }

  match(pattern) {
    const rest = this.text.slice(this.at);
    const match = typeof pattern === "string" ? (rest.startsWith(pattern) ? [pattern] : null) : pattern.exec(rest);
    if (match) this.at += match[0].length;
    return match;
  }
}

function pieces(text) {
  const state = rego.startState();
  return text.split("\n").map((each) => {
    const line = new Line(each);
    const found = [];
    while (line.at < each.length) {
      const from = line.at;
      const kind = (rego.token(line, state) || "").split(".")[0];
      const last = found[found.length - 1];
      if (last && last[0] === kind) last[1] += each.slice(from, line.at);
      else found.push([kind, each.slice(from, line.at)]);
    }
    return found;
  });
}

// Each line of a text, ready to be displayed; a very long text has no colors.
export function useColored(text) {
  return useMemo(() => {
    const lines = text.split("\n");
    if (lines.length > MOST) return lines.map((each) => each || " ");
    return pieces(text).map((line) => (line.length ? line.map(([kind, part]) => (kind === "comment" || kind === "keyword" || kind === "string" || kind === "number" || kind === "atom" ? html`<span class=${`t-${kind}`}>${part}</span>` : part)) : " "));
  }, [text]);
}
