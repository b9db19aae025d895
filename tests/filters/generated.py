"""Random policies over one table, and random rows of it.

The values are those that databases get wrong: NULL, texts that differ in case, in spaces at their
end or in what `LIKE` reads, numbers as text, and constants of another type than the column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from doorward.rego import CompileError, Engine

__all__ = ["COLUMNS", "compiling", "document", "policy", "rows"]

COLUMNS: Final[dict[str, Any]] = {
    "docs": {"a": "number", "b": "number", "s": "text", "t": "text", "ok": "boolean"}
}
_TEXTS: Final = ["", "a", "A", "b", "ab", "Ab", "a%", "a_", "%", "_", "\\", "'", "a ", "ä", "Ä"]
_VALUES: Final[dict[str, list[Any]]] = {
    "number": [None, 0, 1, 2, -1, 3, 10, 1.5, 0.25],
    "double": [None, 0, 1, 2, -1, 3, 10, 1.5, 0.25, 2.0**53],
    "text": [None, *_TEXTS, "10", "1", "[", "é", "𝄞"],
    "boolean": [None, True, False],
}
_LITERALS: Final = [None, True, False, 0, 1, 2, -1, 1.5, 2**53 + 1, *_TEXTS, "1", "10", "["]
_OPERATORS: Final = ["==", "!=", "<", "<=", ">", ">="]


def policy(draw: Random) -> str:
    """A policy with the rule `include`."""
    bodies = []
    for _ in range(draw.randint(1, 3)):
        body = [_expr(draw) for _ in range(draw.randint(1, 3))]
        if draw.random() < 0.2:
            body.append("not hidden")
        bodies.append(body)
    rules = ["include if {\n\t" + "\n\t".join(body) + "\n}" for body in bodies]
    hidden = _compared(draw, draw.choice(list(COLUMNS["docs"])))
    return "package f\n\n" + "\n\n".join([*rules, f"hidden if {hidden}"]) + "\n"


def _expr(draw: Random) -> str:
    column = draw.choice(list(COLUMNS["docs"]))
    chance = draw.random()
    if chance < 0.6:
        text = _compared(draw, column)
    elif chance < 0.8:
        items = ", ".join([_literal(draw) for _ in range(draw.randint(0, 4))])
        text = f"input.docs.{column} in [{items}]"
    else:
        name = draw.choice(["startswith", "endswith", "contains"])
        column = draw.choice(["s", "t"])
        text = f"{name}(input.docs.{column}, {json.dumps(draw.choice(_TEXTS))})"
    return f"not {text}" if draw.random() < 0.35 else text


def _compared(draw: Random, column: str) -> str:
    operator = draw.choice(_OPERATORS)
    other = _literal(draw)
    if draw.random() < 0.25:
        other = f"input.docs.{draw.choice(list(COLUMNS['docs']))}"
    sides = [f"input.docs.{column}", other]
    if draw.random() < 0.3:
        sides.reverse()
    return f"{sides[0]} {operator} {sides[1]}"


def _literal(draw: Random) -> str:
    return json.dumps(draw.choice(_LITERALS))


def rows(draw: Random, count: int) -> list[tuple[Any, ...]]:
    """Rows of `docs`, each with its number before its columns."""
    kinds = ["number", "double", "text", "text", "boolean"]
    return [(n, *[draw.choice(_VALUES[kind]) for kind in kinds]) for n in range(count)]


def document(row: tuple[Any, ...], *, nulls: str) -> dict[str, Any]:
    """A row as the policy sees it."""
    fields = dict(zip(COLUMNS["docs"], row[1:], strict=True))
    return {k: v for k, v in fields.items() if v is not None or nulls == "null"}


def compiling(policy: Callable[[Random], str], draw: Random, number: int) -> Iterator[str]:
    """`number` policies that `policy` draws; those that do not compile are drawn again."""
    while number:
        text = policy(draw)
        try:
            Engine({"f.rego": text})
        except CompileError:
            continue  # constants of different types, or a variable that is not used
        number -= 1
        yield text
