"""Rules that are safe in the order in which they are written, as one look at each expression tells.

Most bodies read what precedes them: `x := input.xs[i]`, then tests of `x`. For these both
questions of safety have the same answer, and neither is asked: OPA's, which variables are unsafe
(`opa_diagnostics.unsafe_variables`), and ours, which order binds every variable before its use
(`body_order`). What is not said to be plain here may be so: closures, patterns, and calls that
give back a value are left to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from doorward.rego.analysis.bindings import Arity
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.syntax.nodes import (
    Array,
    Call,
    Expr,
    Object,
    Ref,
    Rule,
    Set,
    SomeDecl,
    SomeIn,
    Term,
    Var,
    is_ground,
)

__all__ = ["is_safe_as_written"]

_OTHERS: Final = frozenset({"assign", "eq", "internal.print", "internal.test_case", "print"})
"""Equations, which OPA knows as expressions only, and what is looked at behind all else."""


def is_safe_as_written(rule: Rule, arity: Arity) -> bool:
    """Whether a rule, without its `else`, is safe at one look; nothing is said of the others."""
    head = rule.head
    bound = set(ROOTS)
    for parameter in head.args or ():
        if not isinstance(parameter, Var):
            return False
        bound.add(parameter.name)
    for expr in rule.body:
        if not _is_ready(expr, bound, arity):
            return False
    parts = (head.key, head.value, *head.ref.args)
    return all(part is None or _is_bound(part, bound, None, arity) for part in parts)


def _is_ready(expr: Expr, bound: set[str], arity: Arity) -> bool:
    """Whether `expr` needs nothing but what is `bound`; it then adds what it binds."""
    term = expr.term
    for item in expr.withs:
        if not (_is_plain(item.target) and _is_bound(item.value, bound, None, arity)):
            return False
    if isinstance(term, SomeDecl):
        return True
    names: list[str] = []
    loops: set[str] = set()
    terms: Sequence[object] = (term,)
    if isinstance(term, SomeIn):
        for declared in (term.key, term.value):
            if declared is not None:
                if not isinstance(declared, Var) or declared.name in bound:
                    return False
                names.append(declared.name)
        terms = (term.domain,)
    elif isinstance(term, Call) and term.name == "assign" and len(term.args) == 2:
        variable, value = term.args
        if not isinstance(variable, Var) or variable.name in bound:
            return False
        names.append(variable.name)
        terms = (value,)
    elif isinstance(term, Call) and term.name == "eq" and len(term.args) == 2:
        terms = term.args
    if not all(_is_bound(t, bound, None if expr.negated else loops, arity) for t in terms):
        return False
    if expr.negated and names:
        return False
    bound |= loops
    bound.update(names)
    return True


def _is_plain(target: Ref | Var) -> bool:
    """Whether a `with` replaces a document, at a path that is written out."""
    head, operands = (target.head, target.args) if isinstance(target, Ref) else (target, ())
    return isinstance(head, Var) and head.name in ROOTS and all(map(is_ground, operands))


def _is_bound(term: object, bound: set[str], loops: set[str] | None, arity: Arity) -> bool:
    """Whether all variables of `term` are bound, but those that a reference runs through.

    Those go to `loops`; without it there may be none.
    """
    if is_ground(term):
        return True
    match term:
        case Var(name):
            return name in bound
        case Ref(head, args):
            return _is_bound(head, bound, None, arity) and all(
                _is_bound(arg, bound, None, arity) or _runs(arg, loops) for arg in args
            )
        case Call(_, args):
            return (
                term.name not in _OTHERS
                and arity(term) == len(args)
                and all(_is_bound(arg, bound, loops, arity) for arg in args)
            )
        case Array(items) | Set(items):
            return all(_is_bound(item, bound, None, arity) for item in items)
        case Object(items):
            return all(_is_bound(part, bound, None, arity) for pair in items for part in pair)
    return False


def _runs(operand: Term, loops: set[str] | None) -> bool:
    if loops is None or not isinstance(operand, Var):
        return False
    loops.add(operand.name)
    return True
