"""One value out of a collection: how many, how much, the first and the last, in order."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cmp_to_key
from itertools import repeat
from typing import Any, Final

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.operands import (
    MAX_BITS,
    binary_operand,
    binary_result,
    check_size,
    integer_result,
    is_number,
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
from doorward.rego.numbers import (
    DOUBLE_BITS,
    MANTISSA_BITS,
    AnyNumber,
    Number,
    add,
    from_double,
    number_text,
    rounded,
)
from doorward.rego.values import (
    UNDEFINED,
    Key,
    Undefined,
    Value,
    compare,
    extremes,
    from_key,
    in_order,
    kind_name,
    sorted_values,
    to_key,
)

__all__: list[str] = []

_TRUE: Final = to_key(True)


@builtin(
    "count",
    any_of(array(any_), object_(any_, any_), set_(any_), string),
    returns=number,
    inverse=inverse("count"),
)
def count(collection: list[Value] | dict[Key, Value] | frozenset[Key] | str) -> int:
    """Return the number of items of a collection, or of characters of a string."""
    return len(collection)


@builtin(
    "sum",
    any_of(set_(number), array(number)),
    returns=number,
    context=True,
    inverse=inverse("sum"),
)
def sum_(context: Context, collection: list[Value] | frozenset[Key]) -> int | Number:
    """The sum of the numbers in an array or set; 0 for an empty one. It is exact for integers; with
    other numbers each step is rounded to 64 bits of mantissa. An item that is not a number is an
    error; LimitError for a result with too many digits.
    """
    context.check_deadline()
    numbers: Any = collection
    # By class: to Python `True` is an integer, which it would add; here it is refused below.
    if set(map(type, numbers)) <= _INTEGERS:
        return integer_result(sum(numbers))
    forms = [binary_operand(n) for n in context.checked_iter(_numbers(collection))]
    if not any(exponent for _, exponent in forms):
        return integer_result(sum(mantissa for mantissa, _ in forms))
    total = 0, 0
    for form in context.checked_iter(forms):
        total = add(total, rounded(*form))
    return binary_result(*total)


@builtin(
    "product",
    any_of(set_(number), array(number)),
    returns=number,
    context=True,
    inverse=inverse("one_item"),
)
def product(context: Context, collection: list[Value] | frozenset[Key]) -> int | Number:
    """The product of the numbers in an array or set; 1 for an empty one. It is exact for integers,
    otherwise rounded to a double after each multiplication. An item that is not a number is an
    error; LimitError for a result with too many digits, for integers before it is computed.
    """
    context.check_deadline()
    numbers: Any = collection
    if not set(map(type, numbers)) <= _INTEGERS:
        forms = [binary_operand(n) for n in context.checked_iter(_numbers(collection))]
        if any(exponent for _, exponent in forms):
            return _product_of_doubles(context, _numbers(collection))
        numbers = [mantissa for mantissa, _ in forms]
    # Checked before it is computed: a million factors would take minutes.
    if sum(n.bit_length() - 1 for n in numbers if n) > MAX_BITS and 0 not in numbers:
        raise LimitError("number is too large")
    return integer_result(math.prod(numbers))


def _product_of_doubles(context: Context, numbers: list[AnyNumber]) -> int | Number:
    """Multiply the numbers as Go's doubles do, rounding after each factor; 1 for no numbers. The
    sign of a zero is kept (`-0`). LimitError if the result, or a product on the way to it, has too
    many digits. Checks the deadline on the way.
    """
    total = 1, 0
    negative = False
    for n in context.checked_iter(numbers):
        form = binary_operand(n)
        total = rounded(total[0] * form[0], total[1] + form[1], DOUBLE_BITS)
        # Only a zero hides its sign.
        negative ^= form[0] < 0 if form[0] else number_text(n).startswith("-")
        mantissa, exponent = total
        if max(mantissa.bit_length() + max(exponent, 0), 1 - exponent) > MAX_BITS + MANTISSA_BITS:
            raise LimitError("number is too large")
    if total == (0, 0):
        return Number("-0") if negative else 0
    check_size(*total)
    return from_double(*total)


_INTEGERS: Final[set[type]] = {int}
_STRINGS: Final[set[type]] = {str}
_EXACT: Final[set[type]] = {int, Number}


def _numbers(collection: list[Value] | frozenset[Key]) -> list[Any]:
    """Return the items as a list, those of a set in Rego's order. OperandError in OPA's words if an
    item is not a number; it names the kind of the first such item.
    """
    # The order of floats decides how their sum is rounded.
    items: list[Any] = _values(collection)
    if all(map(is_number, items)):
        return items
    kind = "array" if isinstance(collection, list) else "set"
    odd = next(item for item in items if not is_number(item))
    refuse_operand(1, f"{kind} of numbers", f"{kind} containing {kind_name(odd)}")


@builtin(
    "max",
    any_of(set_(any_), array(any_)),
    returns=any_,
    context=True,
    inverse=inverse("one_item"),
)
def max_(context: Context, collection: list[Value] | frozenset[Key]) -> Value | Undefined:
    """The last value in Rego's order; of an empty collection, undefined."""
    return _extreme(context, collection, max)


@builtin(
    "min",
    any_of(set_(any_), array(any_)),
    returns=any_,
    context=True,
    inverse=inverse("one_item"),
)
def min_(context: Context, collection: list[Value] | frozenset[Key]) -> Value | Undefined:
    """The first value in Rego's order; of an empty collection, undefined."""
    return _extreme(context, collection, min)


def _extreme(
    context: Context, collection: list[Value] | frozenset[Key], choose: Callable[..., Any]
) -> Value | Undefined:
    """The item that `choose` (`min` or `max`) picks in Rego's order, of any kinds; UNDEFINED for an
    empty collection. Of equal items the last one of an array is picked.
    """
    if not collection:
        return UNDEFINED
    classes = set(map(type, collection))
    if classes in (_INTEGERS, _STRINGS):
        # Equal ones are one and the same, and need no key.
        return choose(collection)  # type: ignore[no-any-return]
    if isinstance(collection, frozenset):
        members = list(map(from_key, collection))
        return extremes(members, choose)[0]  # type: ignore[no-any-return]
    if classes <= _EXACT:
        return _extreme_number(collection, choose)
    # Equal numbers may have different texts (`1` and `1.0`), and OPA returns the last.
    return extremes(collection, choose)[-1]  # type: ignore[no-any-return]


def _extreme_number(numbers: list[Any], choose: Callable[..., Any]) -> Value:
    """Return the item that `choose` (`min` or `max`) picks; of equal numbers the last one, as in
    OPA.
    """
    if any([type(n) is int and not -_FLOAT < n < _FLOAT for n in numbers]):
        return choose(reversed(numbers))  # type: ignore[no-any-return]
    # Python compares floats at once. The one nearest to a number never stands on the other side of
    # the one nearest to another number, but two numbers that round to one value may have two.
    nearest = list(map(float, numbers))
    best = choose(nearest)
    close = math.nextafter(best, -math.inf if choose is max else math.inf)
    pairs = zip(numbers, nearest, strict=True)
    candidates = [n for n, each in pairs if choose(each, close) == each]
    return choose(reversed(candidates))  # type: ignore[no-any-return]


_FLOAT: Final = 1 << 53
"""Every integer up to this one has an exact float."""


@builtin(
    "sort",
    any_of(set_(any_), array(any_)),
    returns=array(any_),
    context=True,
    inverse=inverse("sorted"),
)
def sort(context: Context, collection: list[Value] | frozenset[Key]) -> list[Value]:
    """The values of an array or set as an array in Rego's order."""
    context.check_deadline()
    if isinstance(collection, frozenset):
        return sorted_values(collection)
    classes = set(map(type, collection))
    if classes in (_INTEGERS, _STRINGS):
        plain: list[Any] = list(collection)
        return sorted(plain)
    deadline_checks = context.checked_iter(repeat(None))

    def compare_paced(a: Value, b: Value) -> int:
        next(deadline_checks)
        return compare(a, b)

    positions = in_order(collection, cmp_to_key(compare_paced))
    return [collection[n] for n in positions]


def _values(collection: list[Value] | frozenset[Key]) -> list[Value]:
    """The items as a list: the array itself, or a set's members in Rego's order."""
    return sorted_values(collection) if isinstance(collection, frozenset) else collection


@builtin(
    "all",
    any_of(array(any_), set_(any_)),
    returns=boolean,
    deprecated="use `every`",
    inverse=inverse("all"),
)
def all_(collection: list[Value] | frozenset[Key]) -> bool:
    """Return true if every item of the collection is `true`; an empty collection gives true."""
    if isinstance(collection, frozenset):
        return collection <= {_TRUE}
    return all([item is True for item in collection])


@builtin(
    "any",
    any_of(array(any_), set_(any_)),
    returns=boolean,
    deprecated="use `true in …`",
    inverse=inverse("all"),
)
def any__(collection: list[Value] | frozenset[Key]) -> bool:
    """Return true if at least one item of the collection is `true`; an empty collection gives
    false.
    """
    if isinstance(collection, frozenset):
        return _TRUE in collection
    return any([item is True for item in collection])
