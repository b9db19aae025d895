"""Which rules OPA does not evaluate at all, since an equation of theirs cannot hold.

No answer depends on it, but which errors show does: what stands before the equation in the body of
such a rule is not looked at either. An equation counts if one side is a parameter, or a path below
`input` or base data, and the other one a scalar, a variable or an array of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tests.oracle.scope import is_root, name_of

from doorward.rego.syntax.nodes import Array, Call, Expr, Object, Ref, Rule, Scalar, Set, Term, Var
from doorward.rego.syntax.walk import walk
from doorward.rego.values import UNDEFINED, equal

__all__ = ["left_in", "say_the_same"]

EQUATIONS: Final = ("eq", "assign", "equal")
_ANY: Final = Var("any")


def left_in(
    chains: Sequence[Sequence[Rule]], args: Sequence[Any], read: Callable[[Ref], Any]
) -> list[tuple[int, list[Rule]]]:
    """The chains, by number, with the rules that the index leaves in, in its order.

    `read` gives the value at a path; LookupError where rules stand on it.
    """
    tests = [[_tests(rule, args, read) for rule in chain] for chain in chains]
    count: Counter[Term] = Counter()
    for rules in tests:
        for of_rule in rules:
            count.update(of_rule.keys())
    # A counter keeps its keys in the order in which they came, and sorting keeps that.
    subjects = sorted(count, key=lambda subject: -count[subject])
    left: list[tuple[tuple[int, ...], int, list[Rule]]] = []
    for number, chain in enumerate(chains):
        pairs = zip(chain, tests[number], strict=True)
        fitting = [(_rank(found, subjects), rule) for rule, found in pairs if _can_hold(found)]
        if fitting:
            left.append((min(rank for rank, _ in fitting), number, [r for _, r in fitting]))
    return [(number, rules) for _, number, rules in sorted(left, key=lambda item: item[:2])]


_Tests = dict[Term, tuple[Any, Term]]
"""What is tested, by its text: its value, and what that is compared with."""


def _tests(rule: Rule, args: Sequence[Any], read: Callable[[Ref], Any]) -> _Tests:
    tests: _Tests = {}
    for expr in rule.body:
        for left, right in _equations(expr):
            subject = _subject(left, rule, args, read)
            if subject is not None and _is_indexed(right):
                # Of several tests of one path OPA keeps the last one.
                tests[subject[0]] = (subject[1], right)
                break
    return tests


def _can_hold(tests: _Tests) -> bool:
    return all(value is not UNDEFINED and _fits(value, term) for value, term in tests.values())


def _rank(tests: _Tests, subjects: Sequence[Term]) -> tuple[int, ...]:
    """Where the index comes by: rules that test nothing first, then those that test less."""
    if not tests:
        return ()
    kinds = [tests[s][1] if s in tests else None for s in subjects]
    return tuple(0 if kind is None else 1 if isinstance(kind, Var) else 2 for kind in kinds)


def say_the_same(rules: Sequence[Rule]) -> bool:
    """Whether all values that the rules can have are one constant: one answer is enough then."""
    values = [rule.head.value for rule in rules if rule.head.value is not None]
    constant = all(
        isinstance(node, Scalar | Array | Object | Set) for value in values for node in walk(value)
    )
    return constant and all(value == values[0] for value in values)


def _equations(expr: Expr) -> Iterator[tuple[Term, Term]]:
    term = expr.term
    if expr.negated or expr.withs:
        return
    if isinstance(term, Ref):
        yield term, _ANY
    elif isinstance(term, Call) and name_of(term) in EQUATIONS and len(term.args) == 2:
        left, right = term.args
        yield left, right
        yield right, left


def _subject(
    term: Term, rule: Rule, args: Sequence[Any], read: Callable[[Ref], Any]
) -> tuple[Term, Any] | None:
    """What is tested and its value, if the index knows it."""
    if isinstance(term, Var):
        for number, parameter in enumerate(rule.head.args or ()):
            if parameter == term:
                return Scalar(number), args[number]
    if not isinstance(term, Ref) or not is_root(term):
        return None
    if not all(isinstance(arg, Scalar) for arg in term.args):
        return None
    try:
        return term, read(term)
    except LookupError:
        return None


def _is_indexed(term: Term) -> bool:
    if isinstance(term, Array):
        return all(isinstance(item, Scalar | Var) for item in term.items)
    return isinstance(term, Scalar | Var)


def _fits(value: Any, term: Term) -> bool:
    match term:
        case Scalar(value=constant):
            return equal(value, constant)
        case Array(items=items):
            if not isinstance(value, list) or len(value) != len(items):
                return False
            return all(map(_fits, value, items))
        case _:
            return True
