"""Bodies in an order in which each expression finds bound what it needs: OPA's own.

An expression is taken as soon as nothing that it reads is unbound; those that become ready in the
same round keep their order. The bodies were checked before (`opa_diagnostics`), so an order exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from doorward.base.records import replace
from doorward.rego.analysis.flat_terms import FlatTerms
from doorward.rego.analysis.safe_order import Step, take_in_order
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.partial.core import (
    Array,
    Body,
    Call,
    Comprehension,
    Constant,
    Every,
    Expr,
    Object,
    Operator,
    Ref,
    Set,
    Term,
    Var,
    bodies,
    expr_terms,
    is_path,
    parts,
    variables,
)

__all__ = ["expr_variables", "in_safe_order", "outputs_of", "outputs_of_body"]

Arity: TypeAlias = Callable[[Operator], int | None]


def in_safe_order(body: Body, known: Iterable[str], arity: Arity) -> Body:
    """Return `body` in an order in which variables are bound before they are used; inner bodies are
    ordered too. `known` are the variables bound outside. Expressions without such an order are
    placed last.
    """
    steps = [Step(expr, set(expr_variables(expr)), _close_over(expr)) for expr in body]
    around, unsafe = set(ROOTS.union(known)), dict[int, tuple[Expr, set[str]]]()
    ordered = take_in_order(steps, around, lambda e, safe: outputs_of(e, safe, arity), unsafe)
    # The checks let through what is safe in another way.
    ready = {id(expr) for expr in ordered}
    ordered += [expr for expr in body if id(expr) not in ready]
    result = []
    for expr in ordered:
        result.append(_order_inner_bodies(expr, around, arity))
        around.update(expr_variables(expr))
    return tuple(result)


def _order_inner_bodies(expr: Expr, around: set[str], arity: Arity) -> Expr:
    """Return an expression with the bodies inside it (`every`, comprehensions at any depth) in a
    safe order. `around` are the variables bound outside; those of an `every` are added to it.
    """
    if expr.every is not None:
        around.update(_names(expr.every.key), _names(expr.every.value))
        inner = in_safe_order(expr.every.body, around, arity)
        expr = replace(expr, every=replace(expr.every, body=inner))
    if next(bodies(expr), None) is None:
        return expr

    def change(term: Term) -> Term:
        """Order the bodies of comprehensions in a term."""
        if type(term) is Comprehension:
            return replace(term, body=in_safe_order(term.body, around, arity))
        return _map(term, change)

    withs = tuple([replace(item, value=change(item.value)) for item in expr.withs])
    return replace(expr, args=tuple([change(arg) for arg in expr.args]), withs=withs)


def _map(term: Term, change: Callable[[Term], Term]) -> Term:
    """Return `term` with `change` applied to the terms directly inside a reference, array, set or
    object; other terms, comprehensions too, are returned unchanged.
    """
    match term:
        case Ref(items):
            return Ref(tuple(map(change, items)))
        case Array(items):
            return Array(tuple(map(change, items)))
        case Set(items):
            return Set(tuple(map(change, items)))
        case Object(pairs):
            return Object(tuple([(change(key), change(value)) for key, value in pairs]))
    return term


def _names(term: Term) -> Iterator[str]:
    """Yield the variables of a term, once for each occurrence, `data` and `input` included (of a
    path its head alone), but not those in comprehensions.
    """
    if type(term) is Var:
        yield term.name
    elif is_path(term):
        yield term.parts[0].name  # type: ignore[union-attr]  # a reference from a document
    elif type(term) is not Comprehension:
        for part in parts(term):
            yield from _names(part)


def expr_variables(expr: Expr) -> Iterator[str]:
    """Yield the variables of an expression, those of `with` included, but not those inside
    comprehensions or the body of `every`. A path yields its head, `input` or `data`.
    """
    terms = list(expr.args)
    if expr.every is not None:
        terms.append(expr.every.domain)
    for item in expr.withs:
        terms += (item.target, item.value)
    for term in terms:
        yield from _names(term)


def _close_over(expr: Expr) -> set[str]:
    """Return the names of all variables that occur inside the closures of an expression: in bodies
    of `every`, and in comprehensions with their heads.
    """
    names: set[str] = set()
    for closure in bodies(expr):
        if isinstance(closure, Every):
            for inner in closure.body:
                for term in expr_terms(inner):
                    names.update(variables(term))
        else:
            names.update(variables(closure))
    return names


def outputs_of_body(body: Body, safe: set[str], arity: Arity) -> set[str]:
    """Return the variables that `body` binds, from left to right, if those in `safe` are bound
    before it.
    """
    known = set(safe)
    for expr in body:
        known |= outputs_of(expr, known, arity)
    return known - safe


def outputs_of(expr: Expr, safe: AbstractSet[str], arity: Arity) -> set[str]:
    """Return the variables that `expr` binds if those in `safe` are bound; an empty set for a
    negated expression, or if a variable of its `with` is not in `safe`.
    """
    if expr.negated:
        return set()
    for item in expr.withs:
        if not {*_names(item.target), *_names(item.value)} <= safe:
            return set()
    if expr.every is not None:
        return FLAT.walked_names([expr.every.domain], safe)
    if expr.operator is None:
        return FLAT.walked_names(expr.args, safe)
    if expr.is_equation:
        left, right = expr.args
        # What references iterate over is bound before the two sides are unified.
        outputs = FLAT.walked_names(expr.args, safe)
        return (outputs | FLAT.equation_names(left, right, outputs | safe)) - safe
    return FLAT.call_names(expr.args, arity(expr.operator), safe)


def _path(ref: Ref) -> tuple[Term, tuple[Term, ...]]:
    """Return the head and the operands of a reference."""
    return ref.parts[0], ref.parts[1:]


FLAT: Final = FlatTerms(
    var=Var,
    ref=Ref,
    array=Array,
    object_=Object,
    comprehensions=(Comprehension,),
    values=(Constant, Call),
    path=_path,
    parts=parts,
    is_object=lambda term: bool(term.kind == "object"),
)
"""The classes of the terms of partial evaluation, for the shared rules of binding."""
