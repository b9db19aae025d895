"""Outcomes: evaluated expressions with their bindings, and the inputs that would change them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Any, TypeAlias

from doorward.base.records import mutable
from doorward.rego import UNDEFINED
from doorward.rego.tools import Expr, Rule, equal
from doorward.search.inversion.lenses import FALSY, TRUTHY, Lens, Want, is_truthy, near, to_be

__all__ = [
    "Attempt",
    "Changes",
    "Env",
    "Outcome",
    "Visit",
    "are_equal",
    "compare_values",
    "give_value",
    "judge",
    "make_empty",
    "make_equal",
    "no_changes",
    "repeat_repairs",
]

Env: TypeAlias = Mapping[str, Lens]
Changes: TypeAlias = Callable[[Any], Iterator[Any]]
Visit: TypeAlias = "tuple[Rule, Attempt]"
"""A definition that was evaluated, and how it went."""


@mutable
class Outcome:
    """The result of one expression with the bindings `env`. `fix` and `spoil` yield inputs with
    which it may hold, or fail. `is_soft`: the expression lacks a value, but the expressions after
    it are evaluated all the same, to learn which value would help.
    """

    expr: Expr
    env: Env
    holds: bool
    fix: Changes
    spoil: Changes
    is_soft: bool = False


@mutable
class Attempt:
    """The evaluation of one body. `solutions`: the bindings and the outcomes of each solution;
    `failures`: the outcomes that failed, each with the number of expressions that held before it.
    `outer`: the variables that had values before the body.
    """

    outer: frozenset[str] = frozenset()
    solutions: list[tuple[Env, list[Outcome]]] = field(default_factory=list)
    failures: list[tuple[int, Outcome]] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """The number of expressions that held before the one that failed furthest into the body;
        the length of the body if it holds, 0 if nothing was evaluated.
        """
        reached = [behind for behind, _ in self.failures]
        return max([*reached, *[len(outcomes) for _, outcomes in self.solutions]], default=0)

    def fixes(self, input: Any) -> Iterator[Any]:
        """Yield inputs with which the body may hold: for each of up to 8 failures, those furthest
        into the body first, up to 16 inputs.
        """
        deepest = sorted(self.failures, key=lambda each: -each[0])
        for _, outcome in deepest[:8]:
            yield from islice(outcome.fix(input), 16)

    def spoils(self, input: Any, first: Container[str] = ()) -> Iterator[Any]:
        """Yield inputs with which the body may fail, up to 8 for each expression in the first 4
        solutions; nothing if it has no solution. Expressions whose text is in `first` are changed
        first.
        """
        for _, outcomes in self.solutions[:4]:
            for outcome in sorted(outcomes, key=lambda each: each.expr.span.text not in first):
                yield from islice(outcome.spoil(input), 8)


def no_changes(_input: Any) -> Iterator[Any]:
    return iter(())


def judge(expr: Expr, env: Env, lens: Lens) -> Outcome:
    """Return the outcome of a plain expression: it holds if its value is neither false nor
    undefined. To change it, its value is made true or false.
    """

    def fix(input: Any) -> Iterator[Any]:
        return lens.changed(TRUTHY, input)

    def spoil(input: Any) -> Iterator[Any]:
        return lens.changed(FALSY, input)

    return Outcome(expr, env, is_truthy(lens.value), fix, spoil)


def compare_values(expr: Expr, env: Env, a: Lens, b: Lens) -> Outcome:
    """Return the outcome of `a == b`: it holds if both are defined and equal. It is fixed by giving
    one side the other's value, and spoiled by giving it another value or none.
    """

    def spoil(input: Any) -> Iterator[Any]:
        """Yield at most eight inputs with which the two values differ: one of them is close to the
        other, or undefined.
        """
        for one, other in ((a, b), (b, a)):
            if one.put is not None:
                samples = near(other.value)[1:] if other.value is not UNDEFINED else ()
                want = Want(_differs_from(other), (*samples, UNDEFINED))
                yield from islice(one.changed(want, input), 4)

    return Outcome(expr, env, are_equal(a, b), make_equal([(a, b)]), spoil)


def are_equal(a: Lens, b: Lens) -> bool:
    """Return True if two values are defined and equal."""
    return UNDEFINED not in (a.value, b.value) and equal(a.value, b.value)


def _differs_from(lens: Lens) -> Callable[[Any], bool]:
    """Return a predicate for values that differ from the lens's value or are undefined."""

    def differs(value: Any) -> bool:
        return UNDEFINED in (value, lens.value) or not equal(value, lens.value)

    return differs


def make_equal(pairs: Sequence[tuple[Lens, Lens]]) -> Changes:
    """Return a function from an input to inputs with which the values of each pair become equal. It
    changes one side to the other's value, or two undefined sides to the same new value.
    """

    def changes(input: Any) -> Iterator[Any]:
        """Yield inputs in which one side of the first pair, and then one of each further pair, has
        the value that the other had at first; two undefined sides get the same new value. `input`
        itself if there are no pairs.
        """
        if not pairs:
            yield input
            return
        (a, b), rest = pairs[0], make_equal(pairs[1:])
        for one, other in ((a, b), (b, a)):
            if one.put is None:
                continue
            value = other.value if other.value is not UNDEFINED else other.shape
            wants = [to_be(value)] if value is not None and value is not UNDEFINED else []
            if not wants and other.put is not None:
                yield from _both(one, other, input)
                yield from islice(give_value(other)(input), 6)
            for want in wants:
                for changed in islice(one.changed(want, input), 8):
                    yield from islice(rest(changed), 4)

    return changes


def _both(one: Lens, other: Lens, input: Any) -> Iterator[Any]:
    """Yield inputs, at most eight, in which two values that are both undefined become the same text
    or number.
    """
    for value in ("a", 1):
        for changed in islice(other.changed(to_be(value), input), 2):
            yield from islice(one.changed(to_be(value), changed), 2)


def give_value(lens: Lens) -> Changes:
    """Return a function from an input to inputs in which the lens has any value but UNDEFINED."""

    def fix(input: Any) -> Iterator[Any]:
        return lens.changed(Want(lambda v: v is not UNDEFINED, ("a", 1, {}, [])), input)

    return fix


def make_empty(domain: Lens) -> Changes:
    """Return a function from an input to inputs in which the domain is empty or absent."""

    def spoil(input: Any) -> Iterator[Any]:
        return islice(domain.changed(Want(lambda v: not v, ([], UNDEFINED)), input), 2)

    return spoil


def repeat_repairs(attempt: Attempt, more: int, input: Any) -> Iterator[Any]:
    """Yield up to two inputs with which a body may have `more` solutions in addition: each is the
    input after that many fixes, at most 64, one on top of the other. Ends when no fix is found.
    """
    for start in range(2):
        changed = input
        for number in range(min(more, 64)):
            every = list(islice(attempt.fixes(changed), 8))
            if not every:
                return
            changed = every[(start + number) % len(every)]
        yield changed
