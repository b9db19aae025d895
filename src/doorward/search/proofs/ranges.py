"""Bounds of sums, differences and multiples, from comparisons of their parts with numbers.

    input.a <= 3, input.b < 4 ─▶ input.a + input.b is at most 7

Bounds are not strict: results are rounded to 64 bits, so that a sum may reach what its parts do
not.
Rounding keeps an order, as long as the bounds are small; a larger one is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from doorward.rego import Engine, EvalError, Value
from doorward.rego.tools import Call, Scalar, Term, compare
from doorward.search.terms import is_constant, term_text

__all__ = ["Link", "failing"]

Link: TypeAlias = tuple[Term, str, Term, int]
"""A comparison: the lower term, `<`, `<=` or `=`, the greater term, and the position of the
expression.
"""

DEPTH: Final = 4
"""At most this many comparisons and operations are followed one after another."""
OTHERS: Final = 8
"""At most this many other comparisons of one term are followed."""
LARGEST: Final = 2**53
"""Bounds of this size or more are not used: floats do not represent every integer beyond it."""
_ARITHMETIC: Final = ("plus", "minus", "mul", "div", "round", "ceil", "floor", "count")


def failing(links: Sequence[Link]) -> int | None:
    """Return the position of a comparison that cannot hold, by the bounds that all comparisons
    together set for its sides. None if there is none, or if no side is arithmetic.
    """
    sides = [side for low, _, high, _ in links for side in (low, high)]
    if not any(isinstance(side, Call) and side.name in _ARITHMETIC for side in sides):
        return None
    bounds = _Bounds(links)
    for low, sign, high, position in links:
        if _is_above(bounds.least(low), bounds.most(high), or_equal=sign == "<"):
            return position
        if sign == "=" and _is_above(bounds.least(high), bounds.most(low), or_equal=False):
            return position
    return None


def _is_above(one: Value | None, other: Value | None, *, or_equal: bool) -> bool:
    """Return True if both values are known and the first is above (or, with `or_equal`, equal to)
    the second.
    """
    if one is None or other is None:
        return False
    order = compare(one, other)
    return order > 0 or (or_equal and order == 0)


class _Bounds:
    """Computes the lower and upper bounds of terms; a bound is None if it is not known."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._above: dict[str, list[Term]] = {}
        self._below: dict[str, list[Term]] = {}
        for low, sign, high, _ in links:
            pairs = [(low, high), (high, low)] if sign == "=" else [(low, high)]
            for one, other in pairs:
                self._above.setdefault(term_text(one), []).append(other)
                self._below.setdefault(term_text(other), []).append(one)

    def most(self, term: Term) -> Value | None:
        """Return the upper bound of a term; None if none is found within `DEPTH` steps."""
        return self._bound(term, 1, DEPTH)

    def least(self, term: Term) -> Value | None:
        """Return the lower bound of a term; None if none is found within `DEPTH` steps."""
        return self._bound(term, -1, DEPTH)

    def _bound(self, term: Term, side: int, depth: int) -> Value | None:
        """Return the best upper (`side` 1) or lower (-1) bound of a term that is found within
        `depth` steps, by the comparisons and by arithmetic; None if there is none. A constant is
        its own bound, unless it is not a small number (`_small`).
        """
        if is_constant(term):
            return _small(term)
        if depth == 0:
            return None
        others = (self._above if side > 0 else self._below).get(term_text(term), ())
        values = [self._bound(other, side, depth - 1) for other in others[:OTHERS]]
        if isinstance(term, Call):
            values.append(self._bound_of_result(term, side, depth - 1))
        best: Value | None = None
        for value in values:
            if value is not None and (best is None or compare(value, best) * side < 0):
                best = value
        return best

    def _bound_of_result(self, call: Call, side: int, depth: int) -> Value | None:
        """Return the upper (`side` 1) or lower (-1) bound of an arithmetic result, from bounds of
        its operands that are found within `depth` steps; 0 as the lower bound of `count`. None if
        it is not known, and for other calls.
        """
        args = call.args
        match call.name, len(args):
            case "plus", 2:
                return self._evaluate(call, args, (side, side), depth)
            case "minus", 2 if self._are_numbers(args, depth):
                return self._evaluate(call, args, (side, -side), depth)
            case (("mul" | "div"), 2):
                for factor, number in ((0, 1), (1, 0)):
                    value = _small(args[number]) if is_constant(args[number]) else None
                    # A constant divided by a term has no bounds of this kind: it jumps at 0.
                    if value is None or (call.name == "div" and number == 0):
                        continue
                    sign = compare(value, 0)
                    if sign:
                        sides = (side * sign, 1) if factor == 0 else (1, side * sign)
                        return self._evaluate(call, args, sides, depth)
            case (("round" | "ceil" | "floor"), 1):
                return self._evaluate(call, args, (side,), depth)
            case "count", 1 if side < 0:
                return 0
        return None

    def _are_numbers(self, args: Sequence[Term], depth: int) -> bool:
        """Return True if the operands of a difference are numbers, and not sets: an operand has an
        upper bound, and in Rego's order sets are above all numbers.
        """
        return any(self._bound(arg, 1, depth) is not None for arg in args)

    def _evaluate(
        self, call: Call, args: Sequence[Term], sides: Sequence[int], depth: int
    ) -> Value | None:
        """Return the call's result for the operands' bounds on these sides; None if a bound is
        unknown, or the result is undefined or `LARGEST` or more in size.
        """
        bounds = [self._bound(arg, side, depth) for arg, side in zip(args, sides, strict=True)]
        if any(each is None for each in bounds):
            return None
        # The engine calculates, so that a bound is rounded just as the result is.
        parts = tuple(Scalar(each) for each in bounds)  # type: ignore[arg-type] # numbers
        return _small(Call(call.operator, parts, infix=call.infix))


def _small(term: Term) -> Value | None:
    """Return the number that a constant term evaluates to; None for other terms, and for numbers
    of `LARGEST` or more, or of `-LARGEST` or less.
    """
    value = _value(term_text(term))
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return value if abs(value) < LARGEST else None


@lru_cache(maxsize=1024)
def _value(text: str) -> Value:
    """Return the value of a Rego text; None if its evaluation fails. Cached."""
    try:
        value: Value = Engine().prepare(text).value()
    except EvalError:
        return None
    return value
