"""One value out of a collection: how many, how much, the first and the last, in order."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cmp_to_key
from itertools import repeat
from typing import Any, Final

from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.operands import (
    MAX_BITS,
    exact_operand,
    is_number,
    number_result,
    refuse_operand,
)
from doorward.rego.builtins.registry.signature import (
    any_,
    any_of,
    array,
    boolean,
    number,
    object_,
    set_,
    string,
)
from doorward.rego.errors import LimitError
from doorward.rego.numbers import Number, number_text, round_mantissa
from doorward.rego.values import (
    UNDEFINED,
    Key,
    Undefined,
    Value,
    kind_name,
    order_key,
    sorted_values,
    to_key,
)

__all__: list[str] = []

_TRUE: Final = to_key(True)


@builtin("count", any_of(array(any_), object_(any_, any_), set_(any_), string), returns=number)
def count(collection: list[Value] | dict[Key, Value] | frozenset[Key] | str) -> int:
    """How many items a collection has, or characters a string."""
    return len(collection)


@builtin("sum", any_of(set_(number), array(number)), returns=number, context=True)
def sum_(context: Context, collection: list[Value] | frozenset[Key]) -> int | Number:
    """The numbers added up; of no numbers, 0."""
    context.check_deadline()
    numbers = _numbers(collection)
    if set(map(type, numbers)) <= {int}:
        return number_result(sum(numbers))
    total = Fraction(0)
    for n in context.checked_iter(numbers):
        total = round_mantissa(total + exact_operand(n))
    return number_result(total)


@builtin("product", any_of(set_(number), array(number)), returns=number, context=True)
def product(context: Context, collection: list[Value] | frozenset[Key]) -> int | Number:
    """The numbers multiplied; of no numbers, 1."""
    context.check_deadline()
    numbers = _numbers(collection)
    if set(map(type, numbers)) <= {int}:
        # Checked before it is computed: a million factors would take minutes.
        if sum(n.bit_length() - 1 for n in numbers if n) > MAX_BITS and 0 not in numbers:
            raise LimitError("number is too large")
        return number_result(math.prod(numbers))
    total = Fraction(1)
    negative = False
    for n in context.checked_iter(numbers):
        total = round_mantissa(total * exact_operand(n))
        negative ^= number_text(n).startswith("-")
        if max(total.numerator.bit_length(), total.denominator.bit_length()) > MAX_BITS + 64:
            raise LimitError("number is too large")
    if total == 0:
        return Number("-0") if negative else 0
    return number_result(total)


def _numbers(collection: list[Value] | frozenset[Key]) -> list[Any]:
    # The order of floats decides how their sum is rounded.
    items: list[Any] = _values(collection)
    if all(map(is_number, items)):
        return items
    kind = "array" if isinstance(collection, list) else "set"
    odd = next(item for item in items if not is_number(item))
    refuse_operand(1, f"{kind} of numbers", f"{kind} containing {kind_name(odd)}")


@builtin("max", any_of(set_(any_), array(any_)), returns=any_, context=True)
def max_(context: Context, collection: list[Value] | frozenset[Key]) -> Value | Undefined:
    """The last value in Rego's order; of an empty collection, undefined."""
    items = _values(collection)
    if not items:
        return UNDEFINED
    if isinstance(collection, list):
        items = items[::-1]  # of equal numbers OPA returns the last one here
    return max(context.checked_iter(items), key=order_key)


@builtin("min", any_of(set_(any_), array(any_)), returns=any_, context=True)
def min_(context: Context, collection: list[Value] | frozenset[Key]) -> Value | Undefined:
    """The first value in Rego's order; of an empty collection, undefined."""
    items = _values(collection)
    if not items:
        return UNDEFINED
    if isinstance(collection, list):
        items = items[::-1]
    return min(context.checked_iter(items), key=order_key)


@builtin("sort", any_of(set_(any_), array(any_)), returns=array(any_), context=True)
def sort(context: Context, collection: list[Value] | frozenset[Key]) -> list[Value]:
    """The values in Rego's order."""
    context.check_deadline()
    if isinstance(collection, frozenset):
        return sorted_values(collection)
    kinds = set(map(type, collection))
    if len(kinds) <= 1 and kinds <= {str, int}:
        plain: list[Any] = list(collection)
        return sorted(plain)
    checks = context.checked_iter(repeat(None))

    def compare(a: Value, b: Value) -> int:
        next(checks)
        return compare(a, b)

    order = cmp_to_key(compare)
    keys = [order_key(item, order) for item in context.checked_iter(collection)]
    return [collection[n] for n in sorted(range(len(keys)), key=keys.__getitem__)]


def _values(collection: list[Value] | frozenset[Key]) -> list[Value]:
    return sorted_values(collection) if isinstance(collection, frozenset) else collection


@builtin("all", any_of(array(any_), set_(any_)), returns=boolean, deprecated="use `every`")
def all_(collection: list[Value] | frozenset[Key]) -> bool:
    """Whether nothing but `true` is in the collection."""
    if isinstance(collection, frozenset):
        return collection <= {_TRUE}
    return all([item is True for item in collection])


@builtin("any", any_of(array(any_), set_(any_)), returns=boolean, deprecated="use `true in …`")
def any__(collection: list[Value] | frozenset[Key]) -> bool:
    """Whether `true` is in the collection."""
    if isinstance(collection, frozenset):
        return _TRUE in collection
    return any([item is True for item in collection])
