"""The children of a node, all nodes below one, and trees with parts replaced.

The order is that of the grammar. The meaning of nodes is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Final, TypeAlias, TypeVar

from doorward.base.records import replace
from doorward.rego.syntax import nodes
from doorward.rego.syntax.nodes import (
    And,
    Annotations,
    Comment,
    Every,
    Expr,
    Head,
    Import,
    Module,
    Not,
    Or,
    Package,
    Rule,
    SomeDecl,
    SomeIn,
    Term,
    With,
)

__all__ = ["Node", "children", "rewrite", "walk"]

Node: TypeAlias = (
    And
    | Annotations
    | Comment
    | Every
    | Expr
    | Head
    | Import
    | Module
    | Not
    | Or
    | Package
    | Rule
    | SomeDecl
    | SomeIn
    | Term
    | With
)
N = TypeVar("N", bound=Node)


_PLAIN: Final = frozenset(
    {"bool", "str", "str | None", "tuple[str, ...]", "dict[str, object]"}
    | {"bool | int | Number | str | None"}
)


def _node_types() -> dict[type, tuple[str, ...]]:
    """Return the names of the fields that can contain nodes, by node type; spans, comments and
    annotations are left out.
    """
    names: dict[type, tuple[str, ...]] = {}
    for name in nodes.__all__:
        kind = getattr(nodes, name)
        if isinstance(kind, type):
            # INVARIANT: what `nodes` does not compare (spans, comments, annotations) is not walked.
            # `f.type` is the text of the annotation there, since `nodes` postpones them.
            names[kind] = tuple(f.name for f in fields(kind) if f.compare and f.type not in _PLAIN)
    return names


_FIELDS: Final = _node_types()


def children(node: Node) -> list[Node]:
    """Return the nodes directly below `node`, in the order of the grammar. Comments, annotations,
    the terms of a package and the operator of a `SomeIn` are left out, here and in `walk` and
    `rewrite`.
    """
    below: list[Node] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name)
        if type(value) is tuple:
            for item in value:
                if type(item) is tuple:
                    below += item
                elif type(item) in _FIELDS:
                    below.append(item)
        elif type(value) in _FIELDS:
            below.append(value)
    return below


def walk(node: Node) -> Iterator[Node]:
    """Yield `node` and all nodes below it, parents before children, in the order of the grammar."""
    waiting = [node]
    while waiting:
        top = waiting.pop()
        yield top
        # Most nodes are variables and constants, which have nothing below them.
        if _FIELDS[type(top)]:
            # A list instead of recursion: chains of operators are deeper than Python's stack.
            below = children(top)
            below.reverse()
            waiting += below


def rewrite(node: N, replacement: Callable[[Node], Node]) -> N:
    """Return `node` with `replacement` applied to all nodes below it, then to itself. An unchanged
    node is kept: a tree without changes is returned as the same object.
    """
    changes: dict[str, object] = {}
    for name in _FIELDS[type(node)]:
        old = getattr(node, name)
        new = _rewrite_value(old, replacement)
        if new is not old:
            changes[name] = new
    if changes:
        node = replace(node, **changes)
    return replacement(node)  # type: ignore[return-value]  # a replacement fits where the old one was


def _rewrite_value(value: object, replacement: Callable[[Node], Node]) -> object:
    """Return a field's value with the nodes in it rewritten by `rewrite`, in tuples too; an
    unchanged value is returned as the same object.
    """
    if type(value) is tuple:
        new = tuple(_rewrite_value(item, replacement) for item in value)
        return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
    if type(value) in _FIELDS:
        return rewrite(value, replacement)  # type: ignore[type-var]  # `_FIELDS` are the nodes
    return value
