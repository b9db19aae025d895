"""Comparison of modules, except for differences that a layout may introduce.

A layout may write or leave out a value or body that is `true`, write `:=` for `=` in a head, change
imports of keywords, and write `z = x + y` for a call with three operands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from doorward.rego.syntax.nodes import (
    Call,
    Expr,
    Module,
    Object,
    Ref,
    Rule,
    Scalar,
    Set,
    Var,
)
from doorward.rego.syntax.term_order import distinct_in_order, pairs_in_order
from doorward.rego.syntax.walk import Node, rewrite

__all__ = ["is_same"]

_TRUE: Final = Scalar(True)
_INFIX: Final = frozenset(
    {"and", "div", "equal", "gt", "gte", "lt", "lte", "minus", "mul", "neq", "or", "plus", "rem"}
)


def is_same(before: Module, after: Module) -> bool:
    """Return True if two modules have the same package, the same comments in any order and, in the
    same order, the same rules, apart from what a layout may change; imports may differ.
    """
    # Sorted: a layout may move a comment to the end of its line or above its rule.
    if _comments(before) != _comments(after) or before.package != after.package:
        return False
    # Most rules are the same as they stand, which takes a tenth of making them plain.
    return len(before.rules) == len(after.rules) and all(
        a == b or _plain(a) == _plain(b) for a, b in zip(before.rules, after.rules, strict=True)
    )


def _comments(module: Module) -> list[str]:
    return sorted(comment.text.rstrip() for comment in module.comments)


def _plain(rule: Rule) -> Rule:
    return rewrite(rule, _plain_node)


def _plain_node(node: Node) -> Node:
    """Return a node in a normal form, equal for nodes that differ only by what a layout may change:
    a value or body `true` is added, `:=` stands for `=` in heads, a call of an operator with three
    operands becomes an equation, wildcards are one, sets and objects are sorted. Only the node
    itself is changed: `rewrite` applies it to all.
    """
    match node:
        case Rule(head=head):
            if not head.args:
                head = replace(head, args=None)
            if head.value is None and head.key is None:
                head = replace(head, value=_TRUE)
            head = replace(head, assign=True)
            return replace(node, head=head, body=node.body or (Expr(_TRUE),))
        case Call(args=(left, right, result)) if node.name in _INFIX:
            return Call(Ref(Var("eq"), ()), (result, Call(node.operator, (left, right))))
        case Var() if node.is_wildcard:
            return Var("_")  # their names are numbers, counted through the module
        case Set(items=items):
            return replace(node, items=tuple(distinct_in_order(items)))
        case Object(items=pairs):
            return replace(node, items=tuple(pairs_in_order(pairs)))
        case _:
            return node
