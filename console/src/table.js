// A table of which only the rows in sight are elements, so that 100,000 rows cost what 40 cost.
// Roles are written out, since the rows of a narrow window are cards.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";

const MORE = 12;

export function useNarrow() {
  const query = window.matchMedia("(max-width: 47.99rem)");
  const [is, set] = useState(query.matches);
  useEffect(() => {
    const change = () => set(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return is;
}

export function Table({ label, columns, rows, keyOf, chosen, open, onTop, onEnd, heights = [37, 84], children }) {
  const isNarrow = useNarrow();
  const height = heights[isNarrow ? 1 : 0];
  const box = useRef();
  const [view, setView] = useState({ top: 0, height: 800 });
  useLayoutEffect(() => {
    const measure = () => setView({ top: box.current.scrollTop, height: box.current.clientHeight });
    const resize = new ResizeObserver(measure);
    resize.observe(box.current);
    return () => resize.disconnect();
  }, []);
  const scroll = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    setView({ top: scrollTop, height: clientHeight });
    onTop?.(scrollTop < height);
    if (scrollTop + clientHeight > scrollHeight - 20 * height) onEnd?.();
  };
  const at = rows.findIndex((each) => keyOf(each) === chosen);
  useEffect(() => {
    if (at < 0) return;
    const top = at * height;
    const { scrollTop, clientHeight } = box.current;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + 2 * height > scrollTop + clientHeight) box.current.scrollTop = top + 2 * height - clientHeight;
  }, [chosen]);
  const first = Math.max(0, Math.floor(view.top / height) - MORE);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / height) + MORE);
  return html`<div class="scroll" ref=${box} onScroll=${scroll} tabindex="0" role="group" aria-label=${label}>
    <div class="table" role="table" aria-label=${label} aria-rowcount=${rows.length + 1}>
      <div role="rowgroup" class="head"><div role="row" class="row">${columns.map(
        (each) => html`<div role="columnheader" class=${`cell ${each.name} ${each.kind || ""}`}>${each.title}</div>`)}</div></div>
      <div role="rowgroup" class="body" style=${{ height: `${rows.length * height}px` }}>${rows.slice(first, last).map((row, index) => html`<div
        role="row" key=${keyOf(row)} aria-rowindex=${first + index + 2} class=${`row ${keyOf(row) === chosen ? "chosen" : ""}`}
        style=${{ transform: `translateY(${(first + index) * height}px)`, height: `${height}px` }}
        onClick=${(event) => event.target.closest("a") || open(row)}>${columns.map(
          (each) => html`<div role="cell" class=${`cell ${each.name} ${each.kind || ""}`} title=${each.hint?.(row)}>${each.show(row)}</div>`)}</div>`)}</div>
    </div>
    ${children}
  </div>`;
}
