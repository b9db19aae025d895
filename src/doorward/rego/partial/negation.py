"""`not`: what is left of the negated expression is negated in the residual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from doorward.rego.analysis.variables import ROOTS
from doorward.rego.partial.context import SearchContext, Site, Solutions
from doorward.rego.partial.core import (
    DATA,
    TRUE,
    Body,
    Comprehension,
    Constant,
    Expr,
    Ref,
    Rule,
    Term,
    Var,
    expr_terms,
    negated_as,
    parts,
    variables,
)
from doorward.rego.partial.order import expr_variables
from doorward.rego.partial.propagation import Propagation
from doorward.rego.partial.replacing import kept
from doorward.rego.partial.state import Bindings, Saved, body_of

MAX_INLINED: Final = 16
"""The most conjunctions that a negation may be replaced by; more become rules of the support."""


def negated(search: SearchContext, site: Site) -> Solutions:
    """Yield for each solution of `not e`. If `e` is known, yield once if it has no solution.
    Otherwise save the opposite of its residual: in place if that is small and exact, else as the
    negation of a generated rule in the support.
    """
    positive = negated_as(site.expr, negated=False, withs=())
    if not search.is_unknown_expr(site.expr, site.bindings):
        with search.disabled.suspended():
            for _ in search.body((positive,), site.bindings, search.number()):
                return
        yield
        return
    number = search.number()
    unknown = search.unknown_names()
    solve = partial(search.body, (positive,), site.bindings, number)
    residuals = _residuals(search, solve, unknown)
    yield from _without(search, residuals, site, number, unknown)


def in_turn(search: SearchContext, rule: Rule, own: Bindings) -> Solutions:
    """Yield for each solution of an `else` branch: its body holds and none of the rules before it
    does.
    """
    return _after(search, rule.before, rule, own)


def _after(search: SearchContext, before: Sequence[Rule], rule: Rule, own: Bindings) -> Solutions:
    """Yield the solutions of `rule` under the condition that the rules in `before` do not apply."""
    if not before:
        yield from search.rule(rule, own)
        return
    for _ in _fails(search, before[0], rule, own):
        yield from _after(search, before[1:], rule, own)


def _fails(search: SearchContext, earlier: Rule, rule: Rule, own: Bindings) -> Solutions:
    """Yield for each way in which the rule `earlier` does not apply to the operands of `rule`, read
    in `own`.
    """
    number = search.number()
    unknown = search.unknown_names()
    site = Site(Expr((TRUE,), span=earlier.span), 0, own, number)
    solve = partial(_apply, search, earlier, rule, site)
    yield from _without(search, _residuals(search, solve, unknown), site, number, unknown)


def _apply(search: SearchContext, earlier: Rule, rule: Rule, site: Site) -> Solutions:
    """Yield for each way in which `earlier` applies to the operands of `rule`."""
    inner = search.child()
    operands, parameters = rule.args or (), earlier.args or ()
    for _ in search.unify_all(operands, parameters, site.bindings, inner, site):
        yield from search.rule(earlier, inner)


def _without(
    search: SearchContext, residuals: Sequence[Body], site: Site, number: int, unknown: set[str]
) -> Solutions:
    """Save conditions under which none of `residuals` holds, and yield once for each set of them;
    yield once without conditions if `residuals` is empty. `unknown`: the names of the unknown
    variables; `number` is for the name of a support rule.
    """
    if not residuals:
        yield
    elif _can_stand_in_place(unknown, residuals):
        for exprs in _complements(residuals):
            yield from _save(search, exprs, site)
    else:
        yield from _by_support(search, residuals, site, number, unknown)


def _residuals(
    search: SearchContext, solve: Callable[[], Solutions], unknown: set[str]
) -> list[Body]:
    """Return the residuals of all solutions of `solve`, simplified unless `settings.shallow`,
    without those that never hold by their types.
    """
    residuals = []
    propagation = Propagation(search.program, unknown, whole=True)
    with search.apart() as saved:
        for _ in solve():
            body = search.well_typed(body_of(saved, search.names))
            if body is not None:
                residuals.append(body if search.settings.shallow else propagation.apply(body))
    return residuals


def _save(search: SearchContext, exprs: Sequence[Expr], site: Site) -> Solutions:
    """Save `exprs` in the residual, under the `with` of the site that replaces documents, yield
    once, and take them out again when the caller continues.
    """
    withs = tuple(
        [
            replace(item, value=search.names.plug(item.value, site.bindings))
            for item in kept(search, site)
        ]
    )
    search.saved[-1] += [
        Saved(negated_as(expr, negated=expr.negated, withs=withs), None, None) for expr in exprs
    ]
    try:
        yield
    finally:
        del search.saved[-1][-len(exprs) :]


def _complements(residuals: Sequence[Body]) -> Iterator[list[Expr]]:
    """Yield each list of negated expressions that makes all `residuals` false: one expression of
    each residual is negated. The number of lists is the product of the residuals' lengths.
    """
    if not residuals:
        yield []
        return
    first, *rest = residuals
    for expr in first:
        other = negated_as(expr, negated=not expr.negated, withs=expr.withs)
        for following in _complements(rest):
            yield [other, *following]


def _by_support(
    search: SearchContext, residuals: Sequence[Body], site: Site, number: int, unknown: set[str]
) -> Solutions:
    """Add one rule to the support for each residual, with the unknown variables that they use as
    parameters. Save the negated reference to these rules, and yield once. `number` is a part of
    their name.
    """
    # OPA's name for it: the numbers of the body, of the expression in it, and of this evaluation.
    name = f"__not{site.number}_{site.index}_{number}__"
    path: tuple[Term, ...] = (DATA, Constant(search.settings.name), Constant(name))
    used = {n for body in residuals for expr in body for n in _all_variables(expr)}
    args = tuple([Var(n) for n in sorted(unknown & used)])
    for body in residuals:
        search.support.add(Rule(path, args or None, None, TRUE, body, 2))
    term = Ref(path)
    refers = Expr(args, term, negated=True) if args else Expr((term,), negated=True)
    yield from _save(search, [refers], site)


def _all_variables(expr: Expr) -> Iterator[str]:
    for term in expr_terms(expr):
        yield from variables(term)


def _can_stand_in_place(safe: set[str], residuals: Sequence[Body]) -> bool:
    """Return True if each expression can be negated in the residual itself: exactly one of the
    expression and its `not` holds, the variables of one without `not` are in `safe`, and at most
    `MAX_INLINED` conjunctions result. An expression under `with` cannot: if the value is undefined,
    neither holds.
    """
    size = 1
    for body in residuals:
        # De Morgan: one conjunction for each choice of an expression from every residual.
        size *= len(body)
        for expr in body:
            if expr.withs or _nests(expr):
                return False
            # `not` over a variable that only this residual binds is unsafe in Rego.
            if not expr.negated and not set(expr_variables(expr)) <= safe | ROOTS:
                return False
    return size <= MAX_INLINED


def _nests(expr: Expr) -> bool:
    """Return True for an `every`, and for an expression with an operand that Rego evaluates before
    the negation: if that operand is undefined, so is the negation. `not f(input.x)` has one; a
    reference that is the whole expression or a side of an equation counts only if one of its keys
    is evaluated.
    """
    if expr.every is not None:
        return True
    if expr.operator is None or expr.is_equation:
        return any(_nests_in(arg) for arg in expr.args)
    return any(_is_evaluated(arg) for arg in expr.args)


def _nests_in(term: Term) -> bool:
    """Return True if something in a term has to be evaluated: a reference, call or comprehension;
    of a term that is itself a reference, only its keys count.
    """
    if type(term) is Ref:
        return any(_is_evaluated(part) for part in term.parts[1:])
    return _is_evaluated(term)


def _is_evaluated(term: Term) -> bool:
    """Return True if the term is or contains, at any depth, a reference, call or comprehension."""
    if type(term) in (Constant, Var):
        return False
    if type(term) is Comprehension:
        return True
    return type(term).__name__ in ("Ref", "Call") or any(map(_is_evaluated, parts(term)))
