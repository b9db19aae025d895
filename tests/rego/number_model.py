"""Numbers and order written down plainly: a slow model that the fast ones are compared with.

Fractions are rounded and printed by definition, digit by digit; values are compared one part after
another. Shares nothing with `doorward.rego` but the classes of values.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from doorward.rego.numbers import Number
from doorward.rego.values import Boxed

__all__ = ["compare_values", "computed", "exact", "in_order", "rounded", "shortest"]


def rounded(value: Fraction) -> Fraction:
    """`value` with the nearest mantissa of 64 bits, half to even."""
    if value == 0:
        return value
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    unit = Fraction(2) ** (bits - 64)
    if abs(value) / unit >= 2**64:
        unit *= 2
    return round(value / unit) * unit


def shortest(value: Fraction) -> str:
    """The fewest digits that round back to `value`, which is rounded and not zero."""
    magnitude = abs(value)
    power = len(str(value.numerator)) - len(str(value.denominator)) - 2
    while magnitude >= Fraction(10) ** (power + 1):
        power += 1
    count = 1
    while True:
        unit = Fraction(10) ** (power + 1 - count)
        digits = round(magnitude / unit)
        if rounded(digits * unit) == magnitude:
            break
        count += 1
    text = str(digits)
    power += len(text) - count
    text = text.rstrip("0")
    sign = "-" if value < 0 else ""
    if -4 <= power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{text}"
    if 0 <= power < 6:
        return f"{sign}{text[: power + 1]}.{text[power + 1 :]}"
    point = "." if len(text) > 1 else ""
    return f"{sign}{text[0]}{point}{text[1:]}e{'-' if power < 0 else '+'}{abs(power):02}"


def exact(number: Any) -> Fraction:
    """The value that is computed with: an integer as it is, what the mantissa holds of others."""
    value = Fraction(number if type(number) is int else repr(number))
    return value if value.denominator == 1 else rounded(value)


def computed(value: Fraction, *, whole: bool) -> str:
    """The text of a result, where `whole` tells whether all operands were integers."""
    if value.denominator == 1 and whole:
        return str(value.numerator)
    value = rounded(value)
    if value.denominator > 1:
        return shortest(value)
    small = abs(value.numerator) < 2**64
    return str(value.numerator if small else int(Fraction(shortest(value))))


_RANKS = {type(None): 0, bool: 1, int: 2, float: 2, Number: 2, str: 3, list: 4, dict: 5}


def compare_values(a: Any, b: Any) -> int:
    """-1, 0 or 1 in Rego's order."""
    ranks = [_RANKS.get(type(each), 6) for each in (a, b)]
    if ranks[0] != ranks[1]:
        return -1 if ranks[0] < ranks[1] else 1
    if ranks[0] < 4:
        plain: Callable[[Any], Any] = exact if ranks[0] == 2 else lambda each: each or ""
        if a is None or isinstance(a, bool):
            plain = bool
        x, y = plain(a), plain(b)
        return int(x > y) - int(x < y)
    one, other = _parts(a), _parts(b)
    for x, y in zip(one, other, strict=False):
        if compare_values(x, y):
            return compare_values(x, y)
    return (len(one) > len(other)) - (len(one) < len(other))


def _parts(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    keys = {id(key): key.value if isinstance(key, Boxed) else key for key in value}
    ordered = sorted(value, key=cmp_to_key(lambda k, m: compare_values(keys[id(k)], keys[id(m)])))
    if isinstance(value, frozenset):
        return [keys[id(key)] for key in ordered]
    return [part for key in ordered for part in (keys[id(key)], value[key])]


def in_order(values: list[Any]) -> list[Any]:
    """The values sorted; equal ones stay in the order in which they stand."""
    return sorted(values, key=cmp_to_key(compare_values))
