"""Results of a query in the formats of `opa eval`: values and bindings to text, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from doorward.pdp.solutions import Solution
from doorward.rego import Value
from doorward.rego.golang import indent, marshal, object_text

__all__ = ["FORMATS", "frame_rows", "table", "to_document"]


def to_document(result: Solution) -> str:
    """Return the JSON of one result on one line; `bindings` is left out if it is empty."""
    expressions = []
    for expr, value in result.expressions:
        span = expr.span
        location = object_text({"row": str(span.row), "col": str(span.col)})
        fields = {"value": marshal(value), "text": marshal(span.text), "location": location}
        expressions.append(object_text(fields))
    fields = {"expressions": "[" + ",".join(expressions) + "]"}
    if result.bindings:
        fields["bindings"] = marshal(_as_value(result.bindings))
    return object_text(fields)


def _as_value(bindings: dict[str, Value]) -> Value:
    return {name: value for name, value in bindings.items()}


def _values(results: Sequence[Solution], limit: int) -> str:
    lists: list[Value] = [[value for _, value in result.expressions] for result in results]
    return "".join([_pretty_json(each) for each in lists])


def _bindings(results: Sequence[Solution], limit: int) -> str:
    return "".join([_pretty_json(_as_value(result.bindings)) for result in results])


def _raw(results: Sequence[Solution], limit: int) -> str:
    lines = [" ".join([_bare(value) for _, value in each.expressions]) for each in results]
    return "".join([f"{line}\n" for line in lines])


def _bare(value: Value) -> str:
    return value if isinstance(value, str) else marshal(value)


def _pretty_json(value: Value) -> str:
    return indent(marshal(value), "", "  ") + "\n"


def _pretty(results: Sequence[Solution], limit: int) -> str:
    """Return a single value as indented JSON, several columns as a table, no result as `undefined`.

    `limit` is the maximum width of a cell; 0 for no limit.
    """
    if not results:
        return "undefined\n"
    first = results[0]
    values = [value for _, value in first.expressions]
    one = len(values) == 1 or all(isinstance(value, bool) for value in values)
    if len(results) == 1 and not first.bindings and one:
        return _pretty_json(values[0])
    columns = [(name, _of_binding(name)) for name in sorted(first.bindings)]
    columns += [
        (expr.span.text, _of_expression(number))
        for number, (expr, value) in enumerate(first.expressions)
        if not isinstance(value, bool)
    ]
    rows = [[_cut(marshal(of(result)), limit) for _, of in columns] for result in results]
    return table([name for name, _ in columns], rows)


def _of_binding(name: str) -> Callable[[Solution], Value]:
    return lambda result: result.bindings[name]


def _of_expression(number: int) -> Callable[[Solution], Value]:
    return lambda result: result.expressions[number][1]


def _cut(text: str, limit: int) -> str:
    """Return a text cut to `limit` characters with `...` at its end; 0 for no limit."""
    return text if limit <= 0 or len(text) <= limit else text[: max(limit - 3, 0)] + "..."


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows in a frame with centred column names, as OPA prints them."""
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    rule = "+" + "+".join(["-" * (width + 2) for width in widths]) + "+\n"
    head = [_centre(name, width) for name, width in zip(names, widths, strict=True)]
    lines = [rule, "| " + " | ".join(head) + " |\n", rule]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("| " + " | ".join(cells) + " |\n")
    return "".join([*lines, rule])


def frame_rows(*rows: tuple[str, str]) -> str:
    """Return rows of name and value in a frame, without column names."""
    left, right = (max(map(len, column)) for column in zip(*rows, strict=True))
    rule = f"+{'-' * (left + 2)}+{'-' * (right + 2)}+\n"
    lines = [f"| {name:<{left}} | {value:<{right}} |\n" for name, value in rows]
    return "".join([rule, *lines, rule])


def _centre(text: str, width: int) -> str:
    left = (width - len(text)) // 2
    return " " * left + text + " " * (width - len(text) - left)


FORMATS: Final[dict[str, Callable[[Sequence[Solution], int], str]]] = {
    "values": _values,
    "bindings": _bindings,
    "pretty": _pretty,
    "raw": _raw,
}
"""The formats that are not JSON documents; each takes the results and the width of a cell."""
