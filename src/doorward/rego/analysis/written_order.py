"""Rules that are safe in the order in which they are written, as one look at each expression tells.

Most bodies read what precedes them: `x := input.xs[i]`, then tests of `x`. They are not taken apart
to find their order (`safe_order`), which is the written one. What is not said to be plain here may
be so: `not` in closures, patterns of objects, and calls that give back a value are left to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from doorward.rego.analysis.bindings import Arity
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.syntax.nodes import (
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Object,
    ObjectComprehension,
    Ref,
    Rule,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    Term,
    Var,
    is_ground,
)

__all__ = ["is_in_order", "is_rule_in_order"]

_OTHERS: Final = frozenset({"assign", "eq", "internal.print", "internal.test_case", "print"})
"""The operators of equations, which OPA keeps as expressions only, and of calls that are checked
after all others.
"""


def is_rule_in_order(rule: Rule, arity: Arity) -> bool:
    """Return True if a quick check shows that a rule, without its `else`, is safe in its written
    order. False means only that the full check is needed.
    """
    head = rule.head
    bound = set(ROOTS)
    for parameter in head.args or ():
        if not isinstance(parameter, Var):
            return False
        bound.add(parameter.name)
    parts = [part for part in (head.key, head.value, *head.ref.args) if part is not None]
    return _Body(arity, bound).holds(rule.body, parts)


def is_in_order(body: Body, bound: Iterable[str], arity: Arity) -> bool:
    """Return True if a quick check shows that a body is safe as written, with the variables `bound`
    before it. False means only that the full check is needed; a body with a negated expression
    always needs it.
    """
    if any([expr.negated for expr in body]):
        return False
    return _Body(arity, {*ROOTS, *bound}).holds(body, ())


class _Body:
    """The variables bound in one body so far, and those that only its closures bind."""

    def __init__(self, arity: Arity, bound: set[str]) -> None:
        self.arity = arity
        self.bound = bound
        self.inside: set[str] = set()

    def holds(self, body: Body, heads: Sequence[Term]) -> bool:
        """Return True if each expression needs only variables bound before it, and the heads only
        variables bound at the end. Variables that the body binds are added to `bound`. False also
        for some bodies that are in order: the check is quick, not complete.
        """
        return (
            all(map(self._is_ready, body))
            and all([self._is_bound(head, None) for head in heads])
            # A variable of a closure that also is outside of it is the same one.
            and self.inside.isdisjoint(self.bound)
        )

    def _is_ready(self, expr: Expr) -> bool:
        """Return True if `expr` needs only variables that are in `bound`; those it binds are then
        added to `bound`, and those that only its closures (comprehensions, `every`) bind to
        `inside`. A negated one binds none. False also for some expressions that are ready, since
        the check is quick, not complete; then `bound` is unchanged.
        """
        term = expr.term
        for item in expr.withs:
            if not (_is_plain(item.target) and self._is_bound(item.value, None)):
                return False
        if isinstance(term, SomeDecl):
            return True
        names: list[str] = []
        loops: set[str] = set()
        terms: Sequence[object] = (term,)
        if isinstance(term, SomeIn):
            if not all(self._is_new(p, names) for p in (term.key, term.value) if p is not None):
                return False
            terms = (term.domain,)
        elif isinstance(term, Every):
            variables = [v.name for v in (term.key, term.value) if v is not None]
            return self._is_bound(term.domain, None) and self._closes(term.body, (), variables)
        elif isinstance(term, Call) and term.name == "assign" and len(term.args) == 2:
            pattern, value = term.args
            if not self._is_new(pattern, names):
                return False
            if isinstance(pattern, Array) and not isinstance(value, (Var, Ref, Call)):
                return False  # two literals are matched part by part
            terms = (value,)
        elif isinstance(term, Call) and term.name == "eq" and len(term.args) == 2:
            terms = term.args
            for new, value in (term.args, term.args[::-1]):
                if isinstance(new, Var) and new.name not in self.bound:
                    names, terms = [new.name], (value,)
                    break
        if not all([self._is_bound(t, None if expr.negated else loops) for t in terms]):
            return False
        if names and (expr.negated or not loops.isdisjoint(names)):
            return False
        self.bound |= loops
        self.bound.update(names)
        return True

    def _is_new(self, pattern: Term, names: list[str]) -> bool:
        """Return True if `pattern` is an unbound variable, or an array of such patterns and
        constants. Its variables are appended to `names`, some of them also if the result is False.
        """
        match pattern:
            case Var(name):
                names.append(name)
                return name not in self.bound
            case Array(items):
                return all([is_ground(item) or self._is_new(item, names) for item in items])
        return False

    def _is_bound(self, term: object, loops: set[str] | None) -> bool:
        """Return True if all variables of `term` are bound, except those that a reference iterates
        over, which are added to `loops` (if that is None, such variables are not allowed).
        Comprehensions must be in order inside. False also for what this check does not follow, such
        as template strings and calls that give back a value.
        """
        if is_ground(term):
            return True
        match term:
            case Var(name):
                return name in self.bound
            case Ref(head, args):
                return self._is_bound(head, None) and all(
                    [self._is_bound(arg, None) or _add_loop(arg, loops) for arg in args]
                )
            case Call(_, args):
                return (
                    term.name not in _OTHERS
                    and self.arity(term) == len(args)
                    and all([self._is_bound(arg, loops) for arg in args])
                )
            case Array(items) | Set(items):
                return all([self._is_bound(item, None) for item in items])
            case Object(items):
                return all([self._is_bound(part, None) for pair in items for part in pair])
            case ArrayComprehension(head, body) | SetComprehension(head, body):
                return self._closes(body, (head,))
            case ObjectComprehension(key, value, body):
                return self._closes(body, (key, value))
        return False

    def _closes(self, body: Body, heads: Sequence[Term], variables: Iterable[str] = ()) -> bool:
        """Return True if an inner body and its head terms `heads` need only variables bound here or
        in the body, or its own `variables`. The variables that it binds are added to `inside`.
        False also for a body with a negated expression, which needs the full check.
        """
        inner = _Body(self.arity, self.bound.union(variables))
        # What is negated is taken apart when bodies are put in order.
        if any([expr.negated for expr in body]) or not inner.holds(body, heads):
            return False
        self.inside |= (inner.bound - self.bound) | inner.inside
        return True


def _is_plain(target: Ref | Var) -> bool:
    """Return True if a `with` replaces a document at a constant path, and not a function."""
    head, operands = (target.head, target.args) if isinstance(target, Ref) else (target, ())
    return isinstance(head, Var) and head.name in ROOTS and all(map(is_ground, operands))


def _add_loop(operand: Term, loops: set[str] | None) -> bool:
    """Add an operand of a reference to `loops`, the variables that iteration binds, and return True
    if it is a variable; return False for other operands, or if `loops` is None.
    """
    if loops is None or not isinstance(operand, Var):
        return False
    loops.add(operand.name)
    return True
