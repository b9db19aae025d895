"""Policies with one small fault each, which a complete set of tests would detect.

    not X -> X        X -> not X        X left out        == -> !=, < -> <=, …
    "a" -> "a~"       1 -> 2            true -> false     a definition left out

A mutant is the text of its file with one change; it may not compile, which the caller must check.
Tests and properties (`never_`) are not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from doorward.rego.shared import Span
from doorward.rego.tools import Call, Expr, Module, Rule, Scalar, SomeDecl, SomeIn, walk

__all__ = ["Mutant", "mutants_of"]

_OPERATORS: Final = {
    "==": "!=",
    "!=": "==",
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
}


class Mutant(NamedTuple):
    """A changed policy: `text` is the whole new text of the file; `change` describes the difference
    on one line, `row` is where it is.
    """

    file: str
    row: int
    rule: str
    change: str
    text: str

    @property
    def kind(self) -> str:
        """The kind of change, such as `negated`, without the changed text."""
        return self.change.rpartition(": ")[2]


def mutants_of(trees: Mapping[str, Module]) -> Iterator[Mutant]:
    """Yield the mutants of all files, sorted by name, except `_test.rego` files, tests and
    properties.
    """
    for file, tree in sorted(trees.items()):
        if file.endswith("_test.rego"):
            continue
        for rule in tree.rules:
            name = rule.head.ref.span.text or rule.head.span.text
            if not name.startswith(("test_", "todo_test_", "never_")):
                yield from _of_rule(file, rule, name)


def _of_rule(file: str, rule: Rule, name: str) -> Iterator[Mutant]:
    """Yield the mutants of a rule: the rule left out, unless it is a default, and each change in it
    once.
    """
    if rule.span.text and not rule.default:
        yield _mutant(file, rule.span, name, "", "left out")
    seen: set[tuple[int, int, str]] = set()
    for node in walk(rule):
        for span, new, change in _changes(node):
            key = span.start, span.end, new
            if span.text and key not in seen:
                seen.add(key)
                yield _mutant(file, span, name, new, change)


def _changes(node: object) -> Iterator[tuple[Span, str, str]]:
    """Yield the changes of one node itself: the span, the text in its place, and the kind of
    change. Nothing for nodes that are not changed.
    """
    match node:
        case Expr(term=SomeDecl() | SomeIn()):
            return
        case Expr():
            text = node.span.text
            yield node.span, "true", "left out"
            is_bare = not isinstance(node.term, Call) or node.term.name != "assign"
            if node.negated and text.startswith("not "):
                yield node.span, text[4:], "not left out"
            elif is_bare and not node.withs and "{" not in text:
                yield node.span, f"not {text}", "negated"
        case Call(infix=True):
            span = node.operator.span
            if span.text in _OPERATORS:
                yield span, _OPERATORS[span.text], "another operator"
        case Scalar(value):
            if isinstance(value, bool):
                yield node.span, "false" if value else "true", "the opposite"
            elif isinstance(value, int):
                yield node.span, str(value + 1), "one more"
            elif isinstance(value, str) and node.span.text.startswith('"'):
                yield node.span, f'{node.span.text[:-1]}~"', "another text"


def _mutant(file: str, span: Span, rule: str, new: str, change: str) -> Mutant:
    """Return the mutant in which `new` replaces the text of `span`."""
    source = span.source.text
    before = " ".join(span.text.split())
    excerpt = before if len(before) <= 60 else f"{before[:59]}…"
    text = f"{source[: span.start]}{new}{source[span.end :]}"
    return Mutant(file, span.row, rule, f"`{excerpt}`: {change}", text)
