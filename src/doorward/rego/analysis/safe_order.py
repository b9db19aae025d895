"""The order in which each expression of a flat body finds bound what it needs: OPA's own.

An expression is taken as soon as all that it needs is bound by those before it; expressions that
become ready in the same round keep their order. Nothing is guessed about values:
`[x, y] = [1, x + 1]` has no order, since the sum is computed before the two sides meet. This order
decides what is reported as unsafe (`opa_diagnostics.unsafe_variables`) and the order of evaluation
(`body_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from doorward.base.records import record
from doorward.rego.analysis.bindings import Arity
from doorward.rego.analysis.opa_diagnostics.flat_variables import (
    FLAT,
    all_vars,
    closure_vars,
    closures_of,
    expr_vars,
    heads_and_bodies,
)
from doorward.rego.syntax.nodes import Array, Body, Call, Every, Expr, Term, Var

__all__ = ["Ordered", "SafeOrder", "Step", "Unsafe", "take_in_order"]

Unsafe: TypeAlias = dict[int, tuple[Any, set[str]]]
"""The expressions that cannot be put in order, by identity, with the variables that nothing
binds.
"""


@record(guarded=False)
class Ordered:
    """The expressions of one flat body that can be put in order, and the variables bound around the
    body.
    """

    body: Body
    exprs: list[Expr]
    around: AbstractSet[str]

    @property
    def is_as_written(self) -> bool:
        """True if every expression has a place in the safe order, and that order is the written
        one.
        """
        return len(self.exprs) == len(self.body) and all(
            [a is b for a, b in zip(self.exprs, self.body, strict=True)]
        )


class Step:
    """One expression with its variables: those outside of its closures and those inside."""

    __slots__ = ("expr", "inside", "names")

    def __init__(self, expr: Any, names: set[str], inside: set[str]) -> None:
        self.expr = expr
        self.names = names
        self.inside = inside


def take_in_order(
    steps: Sequence[Step],
    around: AbstractSet[str],
    outputs: Callable[[Any, AbstractSet[str]], set[str]],
    unsafe: Unsafe,
) -> list[Any]:
    """Return the expressions of `steps` in the order in which they become ready, with the variables
    `around` bound before. `outputs(expr, safe)` returns the variables that an expression binds.
    Expressions that never become ready are left out and put into `unsafe`.
    """
    here: set[str] = set()
    for step in steps:
        here |= step.names
        if not step.names <= around:
            unsafe[id(step.expr)] = step.expr, step.names - around
    return _Rounds(here & around, here - around, outputs, unsafe).take(steps)


class _Rounds:
    """The rounds in which the expressions of one body become ready to be evaluated."""

    def __init__(
        self,
        safe: set[str],
        here: set[str],
        outputs: Callable[[Any, AbstractSet[str]], set[str]],
        unsafe: Unsafe,
    ) -> None:
        self.safe = safe
        self.here = here
        self.outputs = outputs
        self.unsafe = unsafe
        self.bound: set[str] = set()

    def take(self, waiting: Sequence[Step]) -> list[Any]:
        """Return the expressions that become ready, in that order, and add the variables that they
        bind to `safe` and `bound`. An expression that never becomes ready is left out and stays in
        `unsafe`.
        """
        ordered: list[Any] = []
        fresh: set[str] | None = None
        while waiting and (fresh is None or fresh):
            rest, added = [], set[str]()
            for step in waiting:
                outputs = None
                # What names nothing that has been bound since then would fail again.
                if fresh is None or not _is_apart(step, fresh, added):
                    outputs = self._try(step)
                if outputs is None:
                    rest.append(step)
                    continue
                ordered.append(step.expr)
                self.safe |= outputs
                self.bound |= outputs
                added |= outputs
            waiting, fresh = rest, added
        return ordered

    def _try(self, step: Step) -> set[str] | None:
        """Return the variables that an expression binds, maybe none, if all it needs is bound; it
        is then removed from `unsafe`. Otherwise return None, and the variables it still lacks stay
        in `unsafe`.
        """
        expr, unsafe = step.expr, self.unsafe
        outputs = self.outputs(expr, self.safe)
        inside = step.inside & self.here
        if not inside <= self.bound:
            if inside - self.bound == outputs:
                return None  # it closes over what it binds itself
            unsafe[id(expr)] = expr, inside - self.bound
        known = unsafe.get(id(expr))
        if known is not None:
            lacking = known[1]
            lacking -= outputs | self.safe
            if lacking:
                return None
            del unsafe[id(expr)]
        return outputs


def _is_apart(step: Step, fresh: set[str], added: set[str]) -> bool:
    """Return True if it is useless to try an expression again: it has none of the variables that
    were bound in the last round (`fresh`) or in this one (`added`).
    """
    return not any(
        names & recent for names in (step.names, step.inside) for recent in (fresh, added)
    )


class SafeOrder:
    """Puts the flat bodies of one rule or query in order. `arity`: the number of operands that a
    call declares. `templates`: the comprehensions made from the parts of template strings, by
    identity; their variables must be bound outside of them.
    """

    def __init__(self, arity: Arity, templates: AbstractSet[int]) -> None:
        self._arity = arity
        self._templates = templates
        # By identity; a Step holds its expression, so that the `id` is not reused.
        self._steps: dict[int, Step] = {}
        self.orders: dict[int, Ordered] = {}
        """The order of each body, those in closures included, by the identity of the body."""

    def body(self, body: Body, around: AbstractSet[str]) -> Unsafe:
        """Put a body and the bodies inside it in order, with `around` bound before it; the orders
        go into `orders`. Return the expressions without an order, empty if the body is safe.
        """
        unsafe: Unsafe = {}
        ordered = take_in_order([*map(self._step, body)], around, self.outputs, unsafe)
        self.orders[id(body)] = Ordered(body, ordered, frozenset(around))
        inner = set(around)
        for expr in ordered:
            self._closures(expr, inner, unsafe)
            inner |= self._step(expr).names
        return unsafe

    def _step(self, expr: Expr) -> Step:
        """Return an expression with the names of its variables, those inside and outside of
        closures apart. The result is cached by the identity of `expr`.
        """
        step = self._steps.get(id(expr))
        if step is None:
            names = {v.name for v in expr_vars(expr)}
            inside = {v.name for closure in closures_of(expr) for v in closure_vars(closure)}
            step = self._steps[id(expr)] = Step(expr, names, inside)
        return step

    def is_template(self, expr: Expr) -> bool:
        """Return True if an expression holds the parts of a template string."""
        term = expr.term
        return isinstance(term, Array) and any(id(each) in self._templates for each in term.items)

    def lacking(self, expr: Expr, bound: AbstractSet[str], here: AbstractSet[str]) -> set[str]:
        """Return the variables that an expression still needs where those in `bound` are bound. Of
        the variables inside its closures only those in `here` count, the names that its body uses
        outside of closures.
        """
        step = self._step(expr)
        return (step.names | (step.inside & here)) - self.outputs(expr, bound) - bound

    def names(self, expr: Expr) -> set[str]:
        """Return the variables of an expression outside of its closures."""
        return self._step(expr).names

    def outputs(self, expr: Expr, safe: AbstractSet[str]) -> set[str]:
        """Return the variables that `expr` binds if `safe` are bound; some of `safe` may be among
        them. An empty set for a negated expression, `not`, `and`, `or` and `some x`, and if a
        variable of its `with` is not in `safe`. Of `every` only the domain counts.
        """
        if expr.negated:
            return set()
        if expr.withs:
            withs = Expr(Var("input"), withs=expr.withs)
            if any(v.name not in safe for v in expr_vars(withs)):
                return set()
        term = expr.term
        if isinstance(term, Call):
            return self._call_outputs(term, safe)
        if isinstance(term, Every):
            return FLAT.walked_names([term.domain], safe)
        return FLAT.walked_names([term], safe) if isinstance(term, Term) else set()

    def _call_outputs(self, call: Call, safe: AbstractSet[str]) -> set[str]:
        """Return the variables that a call or equation binds if `safe` are bound: those its
        references iterate over, those of a side of an equation that is made equal to a known one,
        and those in the output of a call. In `:=`, the right side gets nothing from the left one.
        """
        if call.name in ("eq", "assign"):
            if len(call.args) != 2:
                return set()
            left, right = call.args
            outputs = FLAT.walked_names(call.args, safe)
            known = outputs | safe
            if call.name == "assign":
                # Nothing goes from the left side to the right one.
                known -= {v.name for v in all_vars(left)}
            return (outputs | FLAT.equation_names(left, right, known)) - safe
        return FLAT.call_names(call.args, self._arity(call), safe)

    def _closures(self, expr: Expr, around: set[str], unsafe: Unsafe) -> None:
        """Put the bodies inside an expression (comprehensions, `every`, `not { … }`, …) in order,
        with the variables `around` bound before them; the orders go into `orders`. The key and
        value of an `every` are added to `around`. Added to `unsafe`: `expr`, with the variables of
        heads that nothing binds; the inner expressions that have no order; and those of the
        comprehension of a template string that read unbound variables (generated ones excepted).
        """
        for closure in closures_of(expr):
            if isinstance(closure, Every):
                around |= {v.name for v in (closure.key, closure.value) if v is not None}
            heads, bodies = heads_and_bodies(closure)
            if heads:
                lacking = self._head_names(heads, bodies) - around
                if lacking:
                    known = unsafe.get(id(expr), (expr, set[str]()))[1]
                    unsafe[id(expr)] = expr, known | lacking
            for body in bodies:
                unsafe.update(self.body(body, around))
            if id(closure) in self._templates:
                for inner in bodies[0]:
                    names = self.names(inner) - around
                    free = {name for name in names if not name.startswith("__local")}
                    if free:
                        unsafe[id(inner)] = inner, free

    def _head_names(self, heads: Iterable[Term], bodies: Iterable[Body]) -> set[str]:
        """Return the names of the variables in the heads of a comprehension that no expression of
        its bodies has outside of its own closures, so that nothing binds them there.
        """
        names = {v.name for head in heads for v in all_vars(head)}
        return names.difference(*[self.names(expr) for body in bodies for expr in body])
