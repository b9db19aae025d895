"""Random policies over rows and the rows that relations lead to, and random rows of each.

A document has one folder or none, any number of comments, and these any number of marks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final, TypeAlias

from doorward.filters import Relation

__all__ = [
    "ALIKE",
    "COLUMNS",
    "RELATIONS",
    "Tables",
    "documents",
    "policy",
    "tables",
]

Tables: TypeAlias = dict[str, list[tuple[Any, ...]]]
"""Rows by table; first the number of each, last the number of what it belongs to."""

COLUMNS: Final[dict[str, Any]] = {
    "docs": {"id": "number", "a": "number", "s": "text", "ok": "boolean", "folder_id": "number"},
    "folders": {"id": "number", "level": "number", "name": "text"},
    "comments": {"id": "number", "n": "number", "t": "text", "ok": "boolean", "doc_id": "number"},
    "marks": {"id": "number", "k": "text", "comment_id": "number"},
}
RELATIONS: Final = {
    "docs": {
        "comments": Relation("comments", {"doc_id": "id"}),
        "folder": Relation("folders", {"id": "folder_id"}, many=False),
    },
    "comments": {"marks": Relation("marks", {"comment_id": "id"})},
}
ALIKE: Final = """package f

include if not named

include if {
	input.docs.s != input.docs.folder.name
	input.docs.a == 1
}

named if {
	input.docs.s == input.docs.folder.name
	input.docs.s < "b"
}
"""
"""What MariaDB answered for `a` it answered for `A` of the same folder, too."""
_TEXTS: Final = ["", "a", "A", "b", "ab", "a ", "1"]
_NUMBERS: Final = [0, 1, 2, 1.5]
_VALUES: Final[dict[str, list[Any]]] = {
    "number": [None, *_NUMBERS],
    "text": [None, *_TEXTS],
    "boolean": [None, True, False],
}
_LITERALS: Final = [None, True, False, *_NUMBERS, *_TEXTS]
_FIELDS: Final = {
    "input.docs": ["a", "s", "ok"],
    "input.docs.folder": ["level", "name"],
    "c": ["n", "t", "ok"],
    "d": ["n", "t", "ok"],
    "m": ["k"],
}


def tables(draw: Random, count: int) -> Tables:
    """Rows of each table for `count` documents."""

    def value(kind: str) -> Any:
        return draw.choice(_VALUES[kind])

    folders = [(n, value("number"), value("text")) for n in range(1, 7)]
    docs: list[tuple[Any, ...]] = []
    comments: list[tuple[Any, ...]] = []
    marks: list[tuple[Any, ...]] = []
    for number in range(1, count + 1):
        folder = draw.choice([None, *range(1, 7)])
        docs.append((number, value("number"), value("text"), value("boolean"), folder))
        for _ in range(draw.choice([0, 0, 1, 2, 3])):
            comment = len(comments) + 1
            comments.append((comment, value("number"), value("text"), value("boolean"), number))
            for _ in range(draw.choice([0, 1, 2])):
                marks.append((len(marks) + 1, value("text"), comment))
    return {"docs": docs, "folders": folders, "comments": comments, "marks": marks}


def documents(rows: Tables, nulls: str) -> list[Any]:
    """What the policy sees of each document."""

    def row(table: str, values: tuple[Any, ...], **more: Any) -> dict[str, Any]:
        fields = {**dict(zip(COLUMNS[table], values, strict=True)), **more}
        return {k: v for k, v in fields.items() if v is not None or nulls == "null"}

    def comment(values: tuple[Any, ...]) -> dict[str, Any]:
        marks = [row("marks", each) for each in rows["marks"] if each[-1] == values[0]]
        return row("comments", values, marks=marks)

    selection = []
    for values in rows["docs"]:
        folder = values[-1]
        selection.append(
            row(
                "docs",
                values,
                folder=None if folder is None else row("folders", rows["folders"][folder - 1]),
                comments=[comment(each) for each in rows["comments"] if each[-1] == values[0]],
            )
        )
    return selection


def policy(draw: Random) -> str:
    """A policy with the rule `include`."""
    return "package f\n\n" + "\n\n".join(_Policy(draw).rules()) + "\n"


class _Policy:
    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self._others: list[str] = []

    def rules(self) -> list[str]:
        bodies = [self._body(2, ["input.docs"]) for _ in range(self._draw.randint(1, 2))]
        return [*[_rule("include", body) for body in bodies], *self._others]

    def _body(self, depth: int, rows: list[str]) -> list[str]:
        lines: list[str] = []
        for _ in range(self._draw.randint(1, 3)):
            lines += self._part(depth, rows)
        return lines

    def _part(self, depth: int, rows: list[str]) -> list[str]:
        draw = self._draw
        if depth == 0 or draw.random() < 0.35:
            return [self._compared(rows)]
        kind = draw.choice(["some", "some", "rule", "function", "every", "set", "bracket", "truth"])
        return list(getattr(self, f"_{kind}")(depth, rows))

    def _some(self, depth: int, rows: list[str]) -> Iterator[str]:
        var, collection = self._collection(rows)
        yield f"some {var} in {collection}"
        yield from self._body(depth - 1, [*rows, var])

    def _every(self, depth: int, rows: list[str]) -> Iterator[str]:
        var, collection = self._collection(rows)
        yield f"every {var} in {collection} {{ {'; '.join(self._body(depth - 1, [*rows, var]))} }}"

    def _rule(self, depth: int, rows: list[str]) -> Iterator[str]:
        name = f"r{len(self._others)}"
        self._others.append("")
        at = len(self._others) - 1
        bodies = [
            self._body(depth - 1, ["input.docs"]) for _ in range(self._draw.choice([1, 1, 2]))
        ]
        default = f"default {name} := false\n\n" if self._draw.random() < 0.2 else ""
        self._others[at] = default + "\n\n".join([_rule(name, body) for body in bodies])
        yield self._perhaps_not(name)

    def _function(self, depth: int, rows: list[str]) -> Iterator[str]:
        name = f"r{len(self._others)}"
        self._others.append("")
        at = len(self._others) - 1
        row = rows[-1]
        body = self._body(depth - 1, ["input.docs", row] if row != "input.docs" else [row])
        parameter = "p" if row == "input.docs" else row
        arg = f"input.docs.{self._draw.choice(_FIELDS['input.docs'])}"
        tests = [self._against("x"), f'lower(x) == "{_text(self._draw)}"', "upper(x)"]
        test = self._draw.choice([tests[0], *tests])
        self._others[at] = _rule(f"{name}({parameter}, x)", [*body, test])
        yield self._perhaps_not(f"{name}({row}, {arg})")

    def _set(self, depth: int, rows: list[str]) -> Iterator[str]:
        name = f"r{len(self._others)}"
        field = self._draw.choice(_FIELDS["c"])
        self._others.append(f"{name} contains c.{field} if {{\n\tsome c in input.docs.comments\n}}")
        wanted = self._draw.choice([_literal(self._draw), self._column(rows)])
        yield self._perhaps_not(f"{wanted} in {name}")

    def _bracket(self, depth: int, rows: list[str]) -> Iterator[str]:
        draw = self._draw
        one, other = draw.choice(_FIELDS["c"]), draw.choice(_FIELDS["c"])
        if draw.random() < 0.5:
            yield self._against(f"input.docs.comments[_].{one}")
        else:
            index = f"i{draw.randrange(10**6)}"
            yield f"some {index}"
            yield self._against(f"input.docs.comments[{index}].{one}")
            yield self._perhaps_not(self._against(f"input.docs.comments[{index}].{other}"))

    def _truth(self, depth: int, rows: list[str]) -> Iterator[str]:
        yield self._perhaps_not(self._column(rows))

    def _collection(self, rows: list[str]) -> tuple[str, str]:
        if "c" in rows and "m" not in rows and self._draw.random() < 0.6:
            return "m", "c.marks"
        return ("d" if "c" in rows else "c"), "input.docs.comments"

    def _column(self, rows: list[str]) -> str:
        row = self._draw.choice([*rows, rows[-1], "input.docs.folder"])
        return f"{row}.{self._draw.choice(_FIELDS[row])}"

    def _compared(self, rows: list[str]) -> str:
        draw, column = self._draw, self._column(rows)
        chance = draw.random()
        if chance < 0.2:
            items = ", ".join([_literal(draw) for _ in range(draw.randint(0, 3))])
            return self._perhaps_not(f"{column} in [{items}]")
        if chance < 0.4:
            operator = draw.choice(["==", "!=", "<", ">="])
            return self._perhaps_not(f"{column} {operator} {self._column(rows)}")
        if chance < 0.55:
            return self._perhaps_not(self._called(rows))
        return self._perhaps_not(self._against(column))

    def _called(self, rows: list[str]) -> str:
        """What a built-in says of a column, or of how many rows there are."""
        draw, column, text = self._draw, self._column(rows), _text(self._draw)
        row = draw.choice([each for each in rows if each != "m"] or ["input.docs"])
        name = draw.choice(_FIELDS[row])
        collection = "c.marks" if "c" in rows and draw.random() < 0.5 else "input.docs.comments"
        return draw.choice(
            [
                f'regex.match("^{text}$", {column})',
                f'glob.match("{text}", null, {column})',
                f'startswith({column}, "{text}")',
                f'lower({column}) == "{text}"',
                f'lower({column}) in ["{text}", 1, null]',
                f'startswith(upper({column}), "{text.upper()}")',
                f"lower({column})",
                f"count({collection}) {draw.choice(['>', '==', '!='])} 0",
                f'object.get({row}, "{name}", {_literal(draw)}) == {_literal(draw)}',
            ]
        )

    def _against(self, column: str) -> str:
        operator = self._draw.choice(["==", "==", "!=", "<", "<=", ">", ">="])
        return f"{column} {operator} {_literal(self._draw)}"

    def _perhaps_not(self, text: str) -> str:
        return f"not {text}" if self._draw.random() < 0.35 else text


def _text(draw: Random) -> str:
    """A text of few letters."""
    return draw.choice(["a", "b", "ab", "1"])


def _rule(head: str, body: list[str]) -> str:
    return f"{head} if {{\n\t" + "\n\t".join(body) + "\n}"


def _literal(draw: Random) -> str:
    return json.dumps(draw.choice(_LITERALS))
