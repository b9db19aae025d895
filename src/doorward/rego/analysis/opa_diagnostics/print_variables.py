"""The variables in operands of `print`. OPA checks them before it puts bodies in order: what is
written before a `print` must bind them, since what a policy prints depends on where it prints.

Variables that are declared (`:=`, `some`) need to be written before it only: where nothing binds
them, the check of all variables reports them.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.opa_diagnostics.flat_variables import (
    all_vars,
    closures_of,
    expr_vars,
    heads_and_bodies,
)
from doorward.rego.analysis.opa_diagnostics.flattening import Flattener
from doorward.rego.analysis.safe_order import SafeOrder
from doorward.rego.analysis.scope import source_name
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.errors import COMPILE_ERROR, Diagnostic
from doorward.rego.syntax.nodes import (
    Array,
    ArrayComprehension,
    Body,
    Every,
    Expr,
    ObjectComprehension,
    Rule,
    SetComprehension,
)
from doorward.rego.syntax.walk import Node, children, walk

__all__ = ["undeclared_in_query", "undeclared_in_rule"]

Comprehension: TypeAlias = ArrayComprehension | SetComprehension | ObjectComprehension
_COMPREHENSIONS: Final = (ArrayComprehension, SetComprehension, ObjectComprehension)


def undeclared_in_rule(rule: Rule, callees: Callees) -> list[Diagnostic]:
    """Return the errors for the calls of `print` in a rule without its `else`: those of the first
    body and the first call that have any, as in OPA; [] if there are none. Where a comprehension
    stands in a head, that of the rule or of another comprehension, only the rule's parameters are
    bound before its body.
    """
    if not _prints(rule.span.text):
        return []
    head = rule.head
    known = ROOTS.union(v.name for arg in head.args or () for v in all_vars(arg))
    check = _Check(callees)
    terms = [part for part in (head.key, head.value, *head.ref.args) if part is not None]
    nested = [part for node in (*terms, *rule.body) for part in _comprehensions_in(node)]
    heads = [*terms, *(term for each in nested for term in heads_and_bodies(each)[0])]
    for body in (rule.body, *(each.body for term in heads for each in _outermost_in(term))):
        errors = check.errors(check.flattener.body(body), known)
        if errors:
            return errors
    return []


def undeclared_in_query(body: Body, callees: Callees) -> list[Diagnostic]:
    """Return the errors for the calls of `print` in a query: those of the first body and the first
    call that have any; [] if there are none.
    """
    if not any(_prints(expr.span.text) for expr in body):
        return []
    check = _Check(callees)
    return check.errors(check.flattener.body(body), ROOTS)


def _prints(text: str) -> bool:
    return "print" in text


def _comprehensions_in(node: Node) -> Iterator[Comprehension]:
    """Yield the comprehensions in a node, those inside others included."""
    return (each for each in walk(node) if isinstance(each, _COMPREHENSIONS))


def _outermost_in(node: Node) -> Iterator[Comprehension]:
    """Yield the comprehensions in a node, those inside others left out."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, _COMPREHENSIONS):
            yield each
        else:
            waiting += children(each)


class _Check:
    """The check of one rule or query, whose flat bodies are in the order in which they are written.

    Comprehensions stand for the operands of `print` there, one for each.
    """

    def __init__(self, callees: Callees) -> None:
        self.flattener = Flattener(callees.arity, unify_equals=False)
        self._order = SafeOrder(callees.operands, self.flattener.templates)

    def errors(self, body: Body, known: AbstractSet[str]) -> list[Diagnostic]:
        """Return the errors of the first closure in a flat body that has any, else of the first
        call of `print` in it; [] if there are none. `known` are the variables bound before it.
        """
        bound = set(known)
        written: set[str] = set()
        calls: list[Diagnostic] = []
        for expr in body:
            errors = self._in_closures(expr, bound)
            if errors:
                return errors
            calls = calls or [*self._in_call(expr, bound, written)]
            bound |= self._order.outputs(expr, bound)
            written.update(v.name for v in expr_vars(expr, closures=True))
        return calls

    def _in_closures(self, expr: Expr, bound: AbstractSet[str]) -> list[Diagnostic]:
        """Return the errors for calls of `print` in the bodies inside a flat expression, those
        inside operands of `print` included. `bound` are the variables bound before the expression;
        in the body of an `every` its key and value are bound too.
        """
        errors: list[Diagnostic] = []
        for closure in closures_of(expr):
            _, bodies = heads_and_bodies(closure)
            if id(closure) in self.flattener.prints:
                # An operand: its expressions stand in the body of the call.
                for inner in bodies[0]:
                    errors += self._in_closures(inner, bound)
                continue
            inside = set(bound)
            if isinstance(closure, Every):
                inside |= {v.name for v in (closure.key, closure.value) if v is not None}
            for body in bodies:
                errors += self.errors(body, inside)
        return errors

    def _in_call(
        self, expr: Expr, bound: AbstractSet[str], written: AbstractSet[str]
    ) -> Iterator[Diagnostic]:
        """Yield an error for each variable in a call of `print`, by operand and name, that is
        neither in `bound` nor, if it is declared, in `written`; none for other expressions.
        """
        operands = expr.term.items if isinstance(expr.term, Array) else ()
        for operand in operands:
            span = self.flattener.prints.get(id(operand))
            if span is None or not isinstance(operand, SetComprehension):
                continue
            names = {v.name for inner in operand.body for v in expr_vars(inner)} - bound
            for name in sorted(names):
                is_declared = "@" in name and name in written
                if not is_declared and not name.startswith("__local"):
                    message = f"var {source_name(name)} is undeclared"
                    yield Diagnostic(COMPILE_ERROR, message, span)
