"""Words of the errors of GraphQL queries: values as text, and names that may be meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from doorward.rego.builtins.gqlparser.nodes import Node
from doorward.rego.builtins.gqlparser.parser import VALUES
from doorward.rego.golang.json import quote

__all__ = ["any_of", "quoted_any_of", "similar", "suggest", "value_text"]


def any_of(names: Sequence[str]) -> str:
    """`a`, `a or b`, or `a, b, or c`, of the first five names."""
    names = names[:5]
    if len(names) < 3:
        return " or ".join(names)
    return f"{', '.join(names[:-1])}, or {names[-1]}"


def quoted_any_of(names: Iterable[str]) -> str:
    return any_of([f'"{name}"' for name in names])


def suggest(prefix: str, typed: str, names: Iterable[str]) -> str:
    """` PREFIX "a" or "b"?` with the names that are like `typed`; "" if there are none."""
    near = similar(typed, names)
    return f" {prefix} {quoted_any_of(near)}?" if near else ""


def similar(typed: str, names: Iterable[str]) -> list[str]:
    """The names that are few edits away from `typed`, the nearest ones first."""
    most = max(int(len(typed) * 0.4 + 1), 1)
    near = [(_distance(typed, name, most), name) for name in names]
    return [name for distance, name in sorted(near, key=lambda one: one[0]) if distance <= most]


def _distance(one: str, other: str, most: int) -> int:
    """Return how many characters must be inserted, removed or replaced to make one name of the
    other; a difference in case alone counts as 1, and with other differences not at all. For more
    than `most` any greater number.
    """
    if one == other:
        return 0
    one, other = one.lower(), other.lower()
    if one == other:
        return 1
    if abs(len(one) - len(other)) > most:
        return most + 1
    row = list(range(len(other) + 1))
    for index, character in enumerate(one, 1):
        before, row[0] = row[0], index
        for column, each in enumerate(other, 1):
            cost = before if character == each else 1 + min(before, row[column], row[column - 1])
            before, row[column] = row[column], cost
    return row[-1]


def value_text(value: Node | None) -> str:
    """Return a literal of a query as the library writes it in errors: `$x`, quoted strings,
    `[1,2]`, `{a:1}`, other scalars as in the source; `<nil>` for None.
    """
    if value is None:
        return "<nil>"
    kind, raw = value["Kind"], str(value["Raw"])
    if kind == VALUES["variable"]:
        return f"${raw}"
    if kind in (VALUES["string"], VALUES["block"]):
        return quote(raw)
    children = value["Children"]
    if kind == VALUES["list"]:
        return f"[{','.join([value_text(child['Value']) for child in children])}]"
    if kind == VALUES["object"]:
        fields = [f"{child['Name']}:{value_text(child['Value'])}" for child in children]
        return "{" + ",".join(fields) + "}"
    return raw
