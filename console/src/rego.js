// Highlighting of Rego: the words come from our own lexer, written by scripts/build_console.py.
import { KEYWORDS, ROOTS } from "./words.js";

const words = new Set(KEYWORDS);
const roots = new Set(ROOTS);

export const rego = {
  name: "rego",
  languageData: { commentTokens: { line: "#" }, closeBrackets: { brackets: ["(", "[", "{", '"', "`"] } },
  startState: () => ({ raw: false }),
  token(stream, state) {
    if (state.raw) {
      state.raw = !stream.skipTo("`");
      if (state.raw) stream.skipToEnd();
      else stream.next();
      return "string";
    }
    if (stream.eatSpace()) return null;
    if (stream.match("#")) {
      stream.skipToEnd();
      return "comment";
    }
    if (stream.match("`")) {
      state.raw = true;
      return "string";
    }
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.match(/^-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/)) return "number";
    const word = stream.match(/^[A-Za-z_]\w*/);
    if (word) {
      if (words.has(word[0])) return "keyword";
      if (word[0] === "true" || word[0] === "false" || word[0] === "null") return "atom";
      return roots.has(word[0]) ? "variableName.special" : "variableName";
    }
    if (stream.match(/^(?::=|[=!<>]=|[-+*/%&|<>=])/)) return "operator";
    stream.next();
    return null;
  },
};
