"""Arrays out of arrays. Nothing is changed in place: an answer is a new array."""

from __future__ import annotations

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin, operand_error
from doorward.rego.builtins.registry.operands import machine_integer
from doorward.rego.builtins.registry.signature import any_, array, number
from doorward.rego.values import Value

__all__: list[str] = []


@builtin(
    "array.concat",
    array(any_),
    array(any_),
    returns=array(any_),
    checks_deadline=True,
    inverse=inverse("array_concat"),
)
def array_concat(x: list[Value], y: list[Value]) -> list[Value]:
    """The items of `x`, then the items of `y`."""
    return x + y


@builtin(
    "array.slice",
    array(any_),
    number,
    number,
    returns=array(any_),
    checked=False,
    inverse=inverse("array_slice"),
)
def array_slice(items: Value, start: Value, stop: Value) -> list[Value]:
    """Items from `start` up to, not including, `stop`. Bounds outside of the array are clamped to
    it; a `start` at or after `stop` gives []. A bound that is not an integer of 64 bits is an
    error, also one with an exponent (`1e0`).
    """
    if not isinstance(items, list):
        raise operand_error(1, items, "array")
    first = max(machine_integer(2, start), 0)
    return items[first : max(machine_integer(3, stop), 0)]


@builtin(
    "array.reverse",
    array(any_),
    returns=array(any_),
    checks_deadline=True,
    inverse=inverse("array_reverse"),
)
def array_reverse(items: list[Value]) -> list[Value]:
    """The items, last one first."""
    return items[::-1]


@builtin(
    "array.flatten",
    array(any_),
    returns=array(any_),
    checks_deadline=True,
    inverse=inverse("flatten"),
)
def array_flatten(items: list[Value]) -> list[Value]:
    """The items of the array, with each nested array replaced by its items, one level deep."""
    flat: list[Value] = []
    for item in items:
        if isinstance(item, list):
            flat.extend(item)
        else:
            flat.append(item)
    return flat
