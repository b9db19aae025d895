// One chart: lines over time, in the colors of the page.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { html } from "./html.js";

// 24 hours, as everywhere on the page.
const two = (value) => String(value).padStart(2, "0");
const hours = (_, times, __, ___, step) => times.map((each) => {
  const at = new Date(each * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}${step < 60 ? `:${two(at.getSeconds())}` : ""}`;
});

// Steps of the numbers: halves of a decision are none.
const WHOLE = Array.from({ length: 9 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat();

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function resolve(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value || color(name);
}

// `stepped`: each number is that of a whole minute. `series`: [{label, color: "--name", axis}], `columns`: seconds and one list of numbers for each.
export function Chart({ series, columns, height = 140, label, stepped = false }) {
  const host = useRef();
  const plot = useRef();
  useEffect(() => {
    const draw = () => {
      plot.current?.destroy();
      const line = resolve("--line");
      const muted = resolve("--muted");
      const axis = { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui" };
      plot.current = new uPlot({
        width: host.current.clientWidth || 300,
        height,
        legend: { show: false },
        // Half of the last time on the axis.
        padding: [8, 28, 0, null],
        cursor: { y: false, points: { size: 6 } },
        scales: { y: { range: (_, __, high) => [0, Math.max(high, 1) * 1.1] } },
        series: [{}, ...series.map((each) => ({ label: each.label, stroke: resolve(each.color), width: 2, fill: each.fill && resolve(each.fill), points: { show: false }, paths: stepped ? uPlot.paths.stepped({ align: 1 }) : undefined }))],
        axes: [{ ...axis, values: hours, space: 80, size: 28 }, { ...axis, size: 48, incrs: WHOLE }],
      }, columns, host.current);
    };
    draw();
    const scheme = window.matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    const resize = new ResizeObserver(() => plot.current.setSize({ width: host.current.clientWidth, height }));
    resize.observe(host.current);
    return () => {
      resize.disconnect();
      scheme.removeEventListener("change", draw);
      plot.current.destroy();
    };
  }, []);
  useEffect(() => plot.current.setData(columns), [columns]);
  return html`<figure class="chart"><figcaption>${series.map((each) => html`<span class="key"><i class=${`dot ${each.color.slice(2)}`} aria-hidden="true"></i>${each.label}</span>`)}</figcaption>
    <div ref=${host} role="img" aria-label=${label}></div></figure>`;
}
