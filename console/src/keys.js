// Keys that work everywhere, and the list of them.
import { useEffect, useRef } from "preact/hooks";
import { html } from "./html.js";

const KEYS = [
  ["j / k", "the next or the previous decision"],
  ["/", "search"],
  ["Esc", "close what is open"],
  ["?", "this list"],
  ["Ctrl-Enter", "evaluate, in the playground"],
];

export function Keys({ close }) {
  const dialog = useRef();
  useEffect(() => {
    const show = () => dialog.current.showModal();
    window.addEventListener("doorward-keys", show);
    return () => window.removeEventListener("doorward-keys", show);
  }, []);
  useEffect(() => {
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
      if (event.key === "Escape" && !dialog.current.open) {
        if (isTyping && event.target.matches("input")) event.target.blur();
        else if (!isTyping) close();
      }
      if (isTyping) return;
      if (event.key === "?") dialog.current.showModal();
      const search = event.key === "/" && document.querySelector("input.search");
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [close]);
  return html`<dialog ref=${dialog} aria-labelledby="keys"><h2 id="keys">Keys</h2><dl class="facts">${KEYS.map(([key, meaning]) => html`<dt><kbd>${key}</kbd></dt><dd>${meaning}</dd>`)}</dl>
    <form method="dialog"><button autofocus>Close</button></form></dialog>`;
}
