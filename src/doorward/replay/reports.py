"""A tally as text for a terminal, as JSON, and as Markdown for a pull request."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

from doorward.base.counting import counted
from doorward.replay.compare import KINDS, UNCHANGED
from doorward.replay.tally import Example, Tally

__all__ = [
    "as_json",
    "dimensions",
    "kinds_text",
    "markdown",
    "plain",
    "summary",
    "text",
    "time_text",
]

SHOWN: Final = 10
"""At most this many groups of a dimension are shown in a report."""
_ORDER: Final = ("cause", "rule", "path", "user")
_WIDTH: Final = 30


def text(tally: Tally) -> str:
    """Format a tally for a terminal: the kinds of changes, the largest groups, and examples."""
    return "\n".join(_text_lines(tally)) + "\n"


def _text_lines(tally: Tally) -> Iterator[str]:
    """Yield the lines of the report for a terminal, in which texts of the log are made harmless. At
    most `SHOWN` values of each dimension, reasons and kinds of examples are listed; the number of
    others follows.
    """
    yield summary(tally)
    total = tally.events or 1
    for kind in KINDS:
        number = tally.kinds[kind]
        if number:
            bar = "█" * max(1, round(_WIDTH * number / total))
            yield f"  {kind:<15}{number:>12,}  {number / total:>7.2%}  {bar}"
    for dimension, values in dimensions(tally):
        yield f"\nby {dimension}:"
        for value, kinds in values[:SHOWN]:
            yield f"  {sum(kinds.values()):>12,}  {plain(value) or '(none)'}"
            yield f"  {'':>12}  {kinds_text(kinds)}"
        if len(values) > SHOWN:
            yield f"  {'':>12}  and {len(values) - SHOWN:,} more"
    if tally.missing:
        yield "\nnot replayable, because the log does not contain:"
        for reason, number in tally.missing.most_common(SHOWN):
            yield f"  {number:>12,}  {plain(reason)}"
        if len(tally.missing) > SHOWN:
            yield f"  {'':>12}  and {len(tally.missing) - SHOWN:,} more"
    if tally.examples:
        yield "\nexamples:"
    for (kind, rule, cause), examples in list(tally.examples.items())[:SHOWN]:
        yield f"  {kind}: {plain(cause)}{f' ({plain(rule)})' if rule else ''}"
        for each in examples:
            yield f"    {plain(each.decision_id)} {time_text(each.time_ns)} {plain(each.target)}"
            yield f"      was {_cut(each.before)}, is {_cut(each.now)}"
    if len(tally.examples) > SHOWN:
        yield f"  and {len(tally.examples) - SHOWN:,} more"
    if tally.no_events:
        others = counted(tally.no_events, "line is not an event", "lines are not events")
        yield f"\n{others} of a decision log"


def summary(tally: Tally) -> str:
    """Return one line: how many of the decisions change, how many are not replayable, and their
    time span if it is known.
    """
    span = ""
    if tally.first_ns is not None:
        span = f" from {time_text(tally.first_ns)} to {time_text(tally.last_ns)}"
    change = "changes" if tally.changes == 1 else "change"
    changes = f"{tally.changes:,} of {counted(tally.events, 'decision')} {change}"
    unknown = counted(tally.kinds["not-replayable"], "is not replayable", "are not replayable")
    return f"{changes}, {unknown}{span}"


def as_json(tally: Tally) -> str:
    """Format a tally as indented JSON with a line end: all counts, groups and examples."""
    document = {
        "decisions": tally.events,
        "changes": tally.changes,
        "kinds": {kind: tally.kinds[kind] for kind in KINDS},
        "not_replayable": dict(tally.missing.most_common()),
        "groups": {
            dimension: [
                {"value": value, "decisions": sum(kinds.values()), "kinds": dict(kinds)}
                for value, kinds in values
            ]
            for dimension, values in dimensions(tally)
        },
        "examples": [
            {
                "kind": kind,
                "rule": rule,
                "cause": cause,
                "decisions": [_example(each) for each in examples],
            }
            for (kind, rule, cause), examples in tally.examples.items()
        ],
        "not_events": tally.no_events,
        "first": None if tally.first_ns is None else time_text(tally.first_ns),
        "last": None if tally.last_ns is None else time_text(tally.last_ns),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _example(example: Example) -> dict[str, Any]:
    """Return one example for JSON. `was`, `is` and `input` are missing if they are undefined,
    `{"characters": …}` if they are too long, and `{"error": …}` if the evaluation failed.
    """
    fields = {"was": example.before, "is": example.now, "input": example.input}
    return {
        "decision_id": example.decision_id,
        "timestamp": None if example.time_ns is None else time_text(example.time_ns),
        "target": example.target,
        **{name: json.loads(value) for name, value in fields.items() if isinstance(value, str)},
        **{name: value for name, value in fields.items() if isinstance(value, dict)},
    }


def markdown(tally: Tally) -> str:
    """Format a tally for a pull request: tables of the kinds, of the changes by each dimension, and
    of what the log lacks.
    """
    return "\n".join(_markdown_lines(tally)) + "\n"


def _markdown_lines(tally: Tally) -> Iterator[str]:
    """Yield the lines of the report as Markdown, in which texts of the log are made harmless: a
    table of the kinds, of each dimension and of the reasons, without examples. A table lists at
    most `SHOWN` values, and the number of others.
    """
    yield f"### Replay: {summary(tally)}"
    yield from ("", "| | decisions | |", "|---|---:|---|")
    for kind, meaning in KINDS.items():
        if tally.kinds[kind] or kind in (UNCHANGED, "new-allow", "new-deny"):
            yield f"| {kind} | {tally.kinds[kind]:,} | {meaning} |"
    for dimension, values in dimensions(tally):
        yield from ("", f"| {_cell(dimension)} | decisions | |", "|---|---:|---|")
        for value, kinds in values[:SHOWN]:
            yield f"| {_cell(value)} | {sum(kinds.values()):,} | {kinds_text(kinds)} |"
        if len(values) > SHOWN:
            yield f"| and {len(values) - SHOWN:,} more | | |"
    if tally.missing:
        yield from ("", "| not in the log | decisions |", "|---|---:|")
        for reason, number in tally.missing.most_common(SHOWN):
            yield f"| {_cell(reason)} | {number:,} |"
        if len(tally.missing) > SHOWN:
            yield f"| and {len(tally.missing) - SHOWN:,} more | |"


def _rank(values: Mapping[str, Counter[str]]) -> list[tuple[str, Counter[str]]]:
    """Return the values of a dimension with their counts, those with most events first."""
    return sorted(values.items(), key=lambda each: (-sum(each[1].values()), each[0]))


def dimensions(tally: Tally) -> list[tuple[str, list[tuple[str, Counter[str]]]]]:
    """Return the dimensions in the order of the reports (cause, rule, path, …), each with its
    values and the counts of changes of each value by kind. Dimensions that have no value but "" are
    left out.
    """
    names = [*_ORDER, *sorted(tally.groups.keys() - set(_ORDER))]
    return [
        (name, _rank(tally.groups[name]))
        for name in names
        if any(value for value in tally.groups.get(name, ()))
    ]


def kinds_text(kinds: Counter[str]) -> str:
    """Return the counts of each kind, the most frequent first: `12 new-deny, 3 changed`."""
    return ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common())


def time_text(time_ns: int | None) -> str:
    """Return a time (nanoseconds since the epoch) in UTC to the second: `2026-01-31T12:00:00Z`. ""
    for None and for times that a date cannot have.
    """
    if time_ns is None:
        return ""
    try:
        moment = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC)
    except (OverflowError, ValueError):
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _cut(value: Any) -> str:
    """Return an answer as text of at most 120 characters; `undefined` for None, the message for an
    error, the length for a value that was too long.
    """
    if value is None:
        return "undefined"
    cell = str(value)
    if isinstance(value, dict):
        cell = value.get("error") or length_text(value)
    return plain(cell if len(cell) <= 120 else f"{cell[:119]}…")


def length_text(value: dict[str, int]) -> str:
    """Return the text for `{"characters": …}`, a value that was too long for an example."""
    return f"a value of {counted(value['characters'], 'character')}"


def plain(value: str) -> str:
    """Return a text with `�` in place of each character that is not printable, such as control
    characters of a terminal and line ends.
    """
    return "".join([each if each.isprintable() else "�" for each in value])


def _cell(value: str) -> str:
    """Return a text as a cell of a Markdown table with all markup escaped; `(none)` if it is
    empty.
    """
    text = plain(value).replace("\\", "\\\\").replace("|", "\\|").replace("`", "'")
    for mark in "[]*_@#!":
        text = text.replace(mark, f"\\{mark}")
    return escape(text, quote=False) or "(none)"
