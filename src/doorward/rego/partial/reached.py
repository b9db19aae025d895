"""What the evaluation of an expression may reach: expressions inside it, and rules with theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from doorward.rego.partial.core import (
    DATA,
    Comprehension,
    Constant,
    Expr,
    Ref,
    Rule,
    Term,
    expr_terms,
    inner_terms,
    is_path,
)
from doorward.rego.partial.program import Program

__all__ = ["data_references", "has_body", "reached"]


def has_body(expr: Expr) -> bool:
    """Return True if an expression has a body inside it, which is saved as it is: it is an `every`,
    or has a comprehension or a `with`.
    """
    if expr.withs or expr.every is not None:
        return True
    # Most operands are constants and paths.
    terms = [each for each in expr.args if type(each) is not Constant and not is_path(each)]
    return bool(terms) and any(type(each) is Comprehension for each in inner_terms(terms))


def data_references(expr: Expr) -> Iterator[Ref]:
    """Yield the references below `data` in an expression and in the bodies inside it (`every`,
    comprehensions), the functions that it calls among them, in no particular order.
    """
    exprs = [expr]
    while exprs:
        each = exprs.pop()
        for term in inner_terms(_terms_of(each)):
            if type(term) is Comprehension:
                exprs += term.body
            elif type(term) is Ref and term.parts[0] == DATA:
                yield term
        exprs += () if each.every is None else each.every.body


def _terms_of(expr: Expr) -> list[Term]:
    """Return the terms of an expression, a policy's function that it calls among them."""
    operator = expr.operator
    return [*expr_terms(expr), *([operator] if type(operator) is Ref else [])]


def reached(program: Program, expr: Expr) -> Iterator[Expr | Rule]:
    """Yield the expression, those inside it, and each rule (once) that their references below
    `data` may lead to, with the expressions of its branches. Rules that a call names as its
    operator count too; the order is that of a search with a stack, not of the text.
    """
    exprs, rules, seen = [expr], list[Rule](), set[int]()

    def read(terms: Iterable[Term]) -> None:
        """Add to `exprs` the bodies of the comprehensions in terms, and to `rules` the rules that
        their references below `data` may lead to.
        """
        for term in inner_terms(terms):
            if type(term) is Comprehension:
                exprs.extend(term.body)
            elif type(term) is Ref and term.parts[0] == DATA:
                rules.extend(program.reachable(term.parts))

    while exprs or rules:
        while exprs:
            each = exprs.pop()
            yield each
            read(_terms_of(each))
            exprs += () if each.every is None else each.every.body
        if rules and id(rule := rules.pop()) not in seen:
            seen.add(id(rule))
            yield rule
            for branch in rule.branches():
                heads = (*branch.path[1:], *(branch.args or ()), branch.key, branch.value)
                read([term for term in heads if term is not None])
                exprs += branch.body
