"""Intervals of numbers for the checker of proofs: they show that a comparison cannot hold.

This module shares no code with `ranges`: the intervals of all terms are narrowed together, round by
round. Ends are numbers of the engine, which adds and rounds; large ones are not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any, Final

from doorward.rego import Engine, EvalError, to_rego
from doorward.rego.tools import Call, Scalar
from doorward.search.proofs.reading import Comparison, text_of

__all__ = ["rules_out"]

ROUNDS: Final = 4
"""The number of times that all comparisons narrow the intervals."""
TERMS: Final = 60
"""With more terms than this, no intervals are computed."""
_LIMIT: Final = 2**53
"""Ends of this size or more are not used: floats do not represent every integer beyond it."""
_OPERATIONS: Final = {"plus": "+", "minus": "-", "mul": "*", "div": "/"}

Interval = tuple[Any, Any]
"""The least and the greatest value; None if there is no bound."""


def rules_out(sides: Comparison, comparisons: Sequence[Comparison]) -> bool:
    """Return True if the comparison `sides` cannot hold, by the bounds that `comparisons` set for
    the terms in it. For signs other than `<`, `<=`, `>`, `>=` and `==` the result is False.
    """
    intervals = _intervals([*comparisons, sides])
    (low, high), (other_low, other_high) = (
        _interval_of(side, intervals) for side in (sides[0], sides[2])
    )
    match sides[1]:
        case "<":
            return _is(low, ">=", other_high)
        case "<=":
            return _is(low, ">", other_high)
        case ">":
            return _is(high, "<=", other_low)
        case ">=":
            return _is(high, "<", other_low)
        case "==":
            return _is(low, ">", other_high) or _is(high, "<", other_low)
    return False


def _intervals(comparisons: Sequence[Comparison]) -> dict[str, Interval]:
    """Return the interval of each term that has one, by its text, narrowed by the comparisons and
    by arithmetic in `ROUNDS` rounds. Constants are not listed (`_interval_of`). Empty if there are
    more than `TERMS` terms.
    """
    terms: dict[str, Any] = {}
    for one, _, other in comparisons:
        for term in (one, other):
            terms |= {text_of(each): each for each in _parts(term)}
    intervals: dict[str, Interval] = {}
    for _ in range(ROUNDS if len(terms) <= TERMS else 0):
        for one, sign, other in comparisons:
            left, right = _interval_of(one, intervals), _interval_of(other, intervals)
            if sign in ("<", "<=", "=="):
                _narrow(intervals, one, (None, right[1]))
                _narrow(intervals, other, (left[0], None))
            if sign in (">", ">=", "=="):
                _narrow(intervals, one, (right[0], None))
                _narrow(intervals, other, (None, left[1]))
        for term in terms.values():
            if isinstance(term, Call):
                _narrow(intervals, term, _compute_interval(term, intervals))
    return intervals


def _parts(term: Any) -> Iterator[Any]:
    """Yield a term and the operands of arithmetic in it."""
    yield term
    if isinstance(term, Call) and term.name in (*_OPERATIONS, "round", "ceil", "floor"):
        for arg in term.args:
            yield from _parts(arg)


def _interval_of(term: Any, intervals: dict[str, Interval]) -> Interval:
    """Return the interval of a term from `intervals`, (None, None) if it is not there. The interval
    of a constant begins and ends with its value.
    """
    number = _number(term)
    return (number, number) if number is not None else intervals.get(text_of(term), (None, None))


def _narrow(intervals: dict[str, Interval], term: Any, added: Interval) -> None:
    """Narrow the interval of a term in `intervals` by additional bounds; None means no bound."""
    low, high = intervals.get(text_of(term), (None, None))
    if added[0] is not None and (low is None or _is(added[0], ">", low)):
        low = added[0]
    if added[1] is not None and (high is None or _is(added[1], "<", high)):
        high = added[1]
    intervals[text_of(term)] = low, high


def _compute_interval(call: Call, intervals: dict[str, Interval]) -> Interval:
    """Return the interval of an arithmetic result, from the intervals of its operands, and (0,
    None) for `count`. (None, None) for other calls, for a difference neither side of which has an
    upper bound, for a product without a constant factor, for a quotient without a constant divisor,
    and if that constant is 0.
    """
    parts = [_interval_of(arg, intervals) for arg in call.args]
    if call.name == "count":
        return 0, None
    if call.name in ("round", "ceil", "floor") and len(parts) == 1:
        low, high = parts[0]
        return _round(call.name, low), _round(call.name, high)
    if call.name not in _OPERATIONS or len(parts) != 2:
        return None, None
    (a, b), (c, d) = parts
    sign = _OPERATIONS[call.name]
    if sign == "+":
        return _apply(a, sign, c), _apply(b, sign, d)
    if sign == "-":
        # A difference of sets has operands without an upper end that is a number.
        return (None, None) if b is None and d is None else (_apply(a, sign, d), _apply(b, sign, c))
    numbers = [_number(arg) for arg in call.args]
    if numbers[1] is None and (sign == "/" or numbers[0] is None):
        return None, None
    factor = numbers[1] if numbers[1] is not None else numbers[0]
    if _is(factor, "==", 0):
        return None, None
    # With a constant factor the ends of the result are multiples of the other operand's ends; a
    # negative one exchanges them, and with that which of them is missing.
    ends = [_apply(x, sign, y) for x, y in product((a, b), (c, d)) if None not in (x, y)]
    rises = _is(factor, ">", 0)
    other = (a, b) if numbers[1] is not None else (c, d)
    least, most = other if rises else other[::-1]
    known = [each for each in ends if each is not None]
    if len(known) != len(ends) or not known:
        return None, None
    lowest, highest = _extremes(known)
    return (lowest if least is not None else None), (highest if most is not None else None)


def _extremes(values: Sequence[Any]) -> Interval:
    """Return the least and the greatest of the values: at least one, and none of them None."""
    low = high = values[0]
    for value in values[1:]:
        low = value if _is(value, "<", low) else low
        high = value if _is(value, ">", high) else high
    return low, high


def _number(term: Any) -> Any:
    """Return the value of a term that is a number between `-_LIMIT` and `_LIMIT`; None for other
    terms.
    """
    is_written = isinstance(term, Scalar) and not isinstance(term.value, (bool, str, type(None)))
    return _evaluate_text(text_of(term)) if is_written else None


def _round(name: str, value: Any) -> Any:
    return None if value is None else _evaluate_text(f"{name}({to_rego(value)})")


def _apply(one: Any, sign: str, other: Any) -> Any:
    """Return the value of an arithmetic expression on two numbers; None if one is unknown, the
    evaluation fails (a division by 0), or the result is not between `-_LIMIT` and `_LIMIT`.
    """
    if one is None or other is None:
        return None
    return _evaluate_text(f"{to_rego(one)} {sign} {to_rego(other)}")


def _is(one: Any, sign: str, other: Any) -> bool:
    """Return True if the comparison `one sign other` of two known values holds; False if one is
    None.
    """
    if one is None or other is None:
        return False
    return _evaluate_text(f"{to_rego(one)} {sign} {to_rego(other)}", is_limited=False) is True


@cache
def _evaluate_text(text: str, *, is_limited: bool = True) -> Any:
    """Return the value of a Rego text that compiles; None if its evaluation fails. With
    `is_limited` also None for all but numbers between `-_LIMIT` and `_LIMIT`.
    """
    try:
        value: Any = Engine().prepare(text).value()
    except EvalError:
        return None
    if not is_limited:
        return value
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and -_LIMIT < value < _LIMIT else None
