"""A tally as one HTML page: plots as SVG, tables, examples. It loads nothing and has no scripts.

Every text of a log is escaped, and the page's content security policy forbids scripts and requests,
so that nothing in a log can run when somebody opens the page.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from doorward.replay.compare import KINDS, UNCHANGED
from doorward.replay.reports import dimensions, kinds_text, length_text, plain, summary, time_text
from doorward.replay.tally import Example, Tally, Timeline

__all__ = ["page"]

MOST: Final = 50
"""The maximum number of groups of a dimension, and of reasons, on the page."""
_COLORS: Final = {
    UNCHANGED: "#8a8f98",
    "new-allow": "#c62828",
    "new-deny": "#ef8f00",
    "new-error": "#7b1fa2",
    "changed": "#1565c0",
    "not-replayable": "#b0a990",
}
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% }
td, th { border-bottom: 1px solid var(--line); padding: .25rem .5rem; text-align: left }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
td.v, pre { font-family: ui-monospace, monospace; font-size: .85rem; overflow-wrap: anywhere }
pre { white-space: pre-wrap; border: 1px solid var(--line); padding: .5rem }
svg { width: 100%; height: auto } svg text { fill: currentColor; font-size: 11px }
"""


def page(tally: Tally, *, title: str = "Replay of a decision log") -> str:
    """Return a tally as a complete HTML page."""
    return "".join(_page(tally, title))


def _page(tally: Tally, title: str) -> Iterator[str]:
    """Yield the parts of the HTML page, with the first `MOST` values of each dimension and the
    `MOST` most frequent reasons why events are missing.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>{_escape(title)}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{_escape(title)}</h1><p>{_escape(summary(tally))}.</p>"
    yield _bars(tally)
    if tally.times.counts:
        yield f"<h2>Over time</h2>{_timeline(tally.times)}"
    for dimension, values in dimensions(tally):
        yield f"<h2>By {_escape(dimension)}</h2>"
        rows = [
            [f"{sum(kinds.values()):,}", value or "(none)", kinds_text(kinds)]
            for value, kinds in values[:MOST]
        ]
        yield _table(["decisions", dimension, "kinds"], rows)
        if len(values) > MOST:
            yield f"<p>and {len(values) - MOST:,} more</p>"
    if tally.missing:
        yield "<h2>Not replayable, because the log does not contain</h2>"
        rows = [[f"{number:,}", reason, ""] for reason, number in tally.missing.most_common(MOST)]
        yield _table(["decisions", "what is missing", ""], rows)
        if len(tally.missing) > MOST:
            yield f"<p>and {len(tally.missing) - MOST:,} more</p>"
    if tally.examples:
        yield "<h2>Examples</h2>"
    for (kind, rule, cause), examples in tally.examples.items():
        yield f"<h3>{_escape(kind)}: {_escape(cause)}</h3><p>{_escape(rule)}</p>"
        yield from map(_example, examples)
    yield "</body></html>\n"


def _escape(text: str) -> str:
    """Return a text with HTML escaped and characters that are not printable replaced; line ends
    stay.
    """
    return html.escape("\n".join([plain(line) for line in text.split("\n")]))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table with three columns: a number, a value and a remark. All cells are
    escaped.
    """
    cells = "".join([f"<th>{_escape(each)}</th>" for each in head])
    body = "".join(
        [
            f'<tr><td class="n">{_escape(number)}</td><td class="v">{_escape(value)}</td>'
            f"<td>{_escape(more)}</td></tr>"
            for number, value, more in rows
        ]
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _example(example: Example) -> str:
    """Return the HTML of one example, its input folded away."""
    head = f"{example.decision_id} {time_text(example.time_ns)} {example.target}"
    change_text = f"was {_value(example.before)}\nis  {_value(example.now)}"
    summary_html = f"<summary>{_escape(head)}</summary><pre>{_escape(change_text)}</pre>"
    return f"<details>{summary_html}<pre>{_escape(_value(example.input, indent=2))}</pre></details>"


def _value(value: Any, *, indent: int | None = None) -> str:
    """Return an answer or an input (JSON text) as text; `undefined` for None, `error: …` for an
    error, the length for a value that was too long.
    """
    if isinstance(value, dict):
        return f"error: {value['error']}" if "error" in value else length_text(value)
    if value is None:
        return "undefined"
    return json.dumps(json.loads(value), indent=indent, ensure_ascii=False)


def _bars(tally: Tally) -> str:
    """Return the counts of each kind as an SVG with horizontal bars."""
    kinds = [kind for kind in KINDS if tally.kinds[kind]]
    most = max([tally.kinds[kind] for kind in kinds], default=1)
    parts = []
    for row, kind in enumerate(kinds):
        number, top = tally.kinds[kind], row * 24
        width = max(1.0, 480 * number / most)
        parts.append(
            f'<text x="110" y="{top + 15}" text-anchor="end">{kind}</text>'
            f'<rect x="120" y="{top + 3}" width="{width:.1f}" height="16" '
            f'fill="{_COLORS[kind]}"/>'
            f'<text x="{126 + width:.1f}" y="{top + 15}">{number:,}</text>'
        )
    return _svg("Decisions by kind", 720, 24 * len(kinds) + 4, parts)


def _timeline(times: Timeline) -> str:
    """Return an SVG with a bar for the decisions in each interval, and one in front for those that
    change.
    """
    first, last = min(times.counts), max(times.counts)
    most = max(events for events, _ in times.counts.values())
    width = 700 / (last - first + 1)
    parts = []
    for number, (events, changes) in sorted(times.counts.items()):
        left = 10 + (number - first) * width
        for count, color in ((events, _COLORS[UNCHANGED]), (changes, _COLORS["new-allow"])):
            if count:
                height = max(0.5, 120 * count / most)
                parts.append(
                    f'<rect x="{left:.2f}" y="{130 - height:.2f}" width="{width * 0.9:.2f}" '
                    f'height="{height:.2f}" fill="{color}"/>'
                )
    ends = [time_text(number * times.width * 1_000_000_000) for number in (first, last + 1)]
    parts.append(f'<text x="10" y="146">{ends[0]}</text>')
    parts.append(f'<text x="710" y="146" text-anchor="end">{ends[1]}</text>')
    parts.append(f'<text x="360" y="146" text-anchor="middle">{times.width:,} s a bar</text>')
    return _svg("Decisions over time; those that change in front", 720, 150, parts)


def _svg(label: str, width: int, height: int, parts: Sequence[str]) -> str:
    """Return an SVG element with an accessible label."""
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{_escape(label)}">'
        f"{''.join(parts)}</svg>"
    )
