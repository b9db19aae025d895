"""Bodies in an order in which each expression finds bound what it needs: OPA's own.

An expression is taken as soon as nothing that it reads is unbound; those that become ready in the
same round keep their order. The bodies were checked before (`opa_diagnostics`), so an order exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from doorward.rego.analysis.variables import ROOTS
from doorward.rego.partial.core import (
    Array,
    Body,
    Comprehension,
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
    """`body` in order, and the bodies of its closures; `known` are bound around it."""
    globals_ = ROOTS.union(known)
    here = {name for expr in body for name in expr_variables(expr)} - globals_
    lacking = [set(expr_variables(expr)) - globals_ for expr in body]
    inside = [_close_over(expr) & here for expr in body]
    safe = set(globals_)
    waiting = list(range(len(body)))
    ordered: list[int] = []
    bound: set[str] = set()
    while waiting:
        left = []
        for index in waiting:
            expr = body[index]
            outputs = outputs_of(expr, safe, arity)
            missing = inside[index] - bound
            if missing == outputs and missing:
                left.append(index)
                continue
            if missing:
                lacking[index] = missing
            lacking[index] -= outputs | safe
            if lacking[index]:
                left.append(index)
                continue
            ordered.append(index)
            safe |= outputs
            bound |= outputs
        if len(left) == len(waiting):
            ordered += left  # the checks let through what is safe in another way
            break
        waiting = left
    around = set(globals_)
    result = []
    for index in ordered:
        result.append(_inside(body[index], around, arity))
        around.update(expr_variables(body[index]))
    return tuple(result)


def _inside(expr: Expr, around: set[str], arity: Arity) -> Expr:
    if expr.every is not None:
        around.update(_names(expr.every.key), _names(expr.every.value))
        inner = in_safe_order(expr.every.body, around, arity)
        expr = replace(expr, every=replace(expr.every, body=inner))
    if next(bodies(expr), None) is None:
        return expr

    def change(term: Term) -> Term:
        if type(term) is Comprehension:
            return replace(term, body=in_safe_order(term.body, around, arity))
        return _map(term, change)

    withs = tuple([replace(item, value=change(item.value)) for item in expr.withs])
    return replace(expr, args=tuple([change(arg) for arg in expr.args]), withs=withs)


def _map(term: Term, change: Callable[[Term], Term]) -> Term:
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
    """Variables of `term` outside of closures."""
    if type(term) is Var:
        yield term.name
    elif is_path(term):
        yield term.parts[0].name  # type: ignore[union-attr]  # a reference from a document
    elif type(term) is not Comprehension:
        for part in parts(term):
            yield from _names(part)


def expr_variables(expr: Expr) -> Iterator[str]:
    """Variables of an expression outside of its closures."""
    terms = list(expr.args)
    if expr.every is not None:
        terms.append(expr.every.domain)
    for item in expr.withs:
        terms += (item.target, item.value)
    for term in terms:
        yield from _names(term)


def _close_over(expr: Expr) -> set[str]:
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
    """Return the variables that `body` binds when `safe` are bound."""
    known = set(safe)
    for expr in body:
        known |= outputs_of(expr, known, arity)
    return known - safe


def outputs_of(expr: Expr, safe: set[str], arity: Arity) -> set[str]:
    """Return the variables that `expr` binds when `safe` are bound."""
    if expr.negated:
        return set()
    for item in expr.withs:
        if not {*_names(item.target), *_names(item.value)} <= safe:
            return set()
    if expr.every is not None:
        return _outputs_of_terms([expr.every.domain], safe)
    outputs = _outputs_of_terms(expr.args, safe)
    if expr.operator is None:
        return outputs
    if expr.is_equation:
        known = outputs | safe
        return (outputs | _Unification(known).outputs(*expr.args)) - safe
    count = arity(expr.operator)
    if count is None:
        return set()
    if count >= len(expr.args):
        return outputs
    inputs = {name for arg in expr.args[:count] for name in _pattern_names(arg)}
    if not inputs <= outputs | safe:
        return set()
    return outputs.union(*[_pattern_names(arg) for arg in expr.args[count:]])


def _outputs_of_terms(terms: Iterable[Term], safe: set[str]) -> set[str]:
    """Variables in brackets of references whose heads are bound."""
    outputs: set[str] = set()
    waiting = list(terms)
    while waiting:
        term = waiting.pop()
        if type(term) is Comprehension:
            continue
        if type(term) is Ref:
            if not _is_safe(term, safe):
                continue
            outputs.update(name for part in term.parts[1:] for name in _without_heads(part))
            waiting += term.parts[1:]
        else:
            waiting += parts(term)
    return outputs


def _without_heads(term: Term) -> Iterator[str]:
    if type(term) is Ref:
        for part in term.parts[1:]:
            yield from _without_heads(part)
    elif type(term) is Var:
        yield term.name
    elif type(term) is not Comprehension:
        for part in parts(term):
            yield from _without_heads(part)


def _pattern_names(term: Term) -> set[str]:
    """Variables outside of closures, sets, keys of objects and heads of references."""
    match term:
        case Var(name):
            return {name}
        case Ref(items):
            return set().union(*map(_pattern_names, items[1:]))
        case Array(items):
            return set().union(*map(_pattern_names, items))
        case Object(pairs):
            return set().union(*[_pattern_names(value) for _, value in pairs])
    return set()


def _is_safe(ref: Ref, safe: set[str]) -> bool:
    head = ref.parts[0]
    return type(head) is not Var or head.name in safe


class _Unification:
    """Which variables of two terms are bound when the terms are made equal."""

    def __init__(self, safe: set[str]) -> None:
        self.safe = safe
        self.bound: set[str] = set()
        self.waiting: dict[str, set[str]] = {}

    def outputs(self, left: Term, right: Term) -> set[str]:
        self.unify(left, right)
        return self.bound

    def is_safe(self, name: str) -> bool:
        return name in self.safe or name in self.bound

    def unify(self, a: Term, b: Term) -> None:
        if type(a) is not Var and type(b) is Var:
            a, b = b, a
        if type(a) is Var:
            if type(b) is Var:
                self.variables(a.name, b.name)
            elif type(b) in (Array, Object):
                self.composite(a.name, b)
            elif type(b) is not Ref or _is_safe(b, self.safe):
                self.mark(a.name)
            return
        if type(a) is Array and type(b) is Array:
            if len(a.items) == len(b.items):
                for left, right in zip(a.items, b.items, strict=True):
                    self.unify(left, right)
        elif type(a) is Object and type(b) is Object:
            others = dict(b.items)
            for key, value in a.items:
                if key in others:
                    self.unify(value, others[key])
        else:
            for term, other in ((a, b), (b, a)):
                is_pattern = type(term) in (Array, Object)
                is_known = type(other) is not Ref or _is_safe(other, self.safe)
                if is_pattern and is_known and type(other) not in (Array, Object, Set):
                    self.mark_all(term)

    def variables(self, a: str, b: str) -> None:
        if self.is_safe(b):
            self.mark(a)
        elif self.is_safe(a):
            self.mark(b)
        else:
            self.waiting.setdefault(a, set()).add(b)
            self.waiting.setdefault(b, set()).add(a)

    def composite(self, name: str, term: Term) -> None:
        if self.is_safe(name):
            self.mark_all(term)
            return
        unsafe = {each for each in _pattern_names(term) if not self.is_safe(each)}
        if unsafe:
            self.waiting.setdefault(name, set()).update(unsafe)
        else:
            self.mark(name)

    def mark_all(self, term: Term) -> None:
        for name in _pattern_names(term):
            self.mark(name)

    def mark(self, name: str) -> None:
        """`name` is bound, and with it what it is made of, and what is made of bound ones alone."""
        if self.is_safe(name):
            return
        self.bound.add(name)
        for other in self.waiting.pop(name, ()):
            self.mark(other)
        for whole, of in list(self.waiting.items()):
            of.discard(name)
            if not of and self.waiting.pop(whole, None) is not None:
                self.mark(whole)
