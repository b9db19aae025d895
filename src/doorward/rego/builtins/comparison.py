"""`==`, `!=`, `<`, `<=`, `>`, `>=`, `=`, `:=` as functions, and `in`: Rego's equality and order.

Generated code compiles the operators itself where it can; these are what it calls elsewhere, and
what a policy calls by name. No kind is refused: any two values compare.
"""

from __future__ import annotations

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.signature import any_, boolean
from doorward.rego.values import Undefined, Value, compare, equal, item_at, to_key

__all__: list[str] = []


@builtin("equal", any_, any_, returns=boolean, infix="==", inverse=inverse("equal"))
def equal_(x: Value, y: Value) -> bool:
    """Return true if `x` and `y` are the same value; `1` and `1.0` are, `1` and `true` are not."""
    return equal(x, y)


@builtin("eq", any_, any_, returns=boolean, infix="=", inverse=inverse("equal"))
def eq(x: Value, y: Value) -> bool:
    """Return true if `x` and `y` unify; two values do if they are the same."""
    return equal(x, y)


@builtin("assign", any_, any_, returns=boolean, infix=":=", inverse=inverse("equal"))
def assign(x: Value, y: Value) -> bool:
    """Return true if `x` can be assigned `y`; of two values, if they are the same."""
    return equal(x, y)


@builtin("neq", any_, any_, returns=boolean, infix="!=", inverse=inverse("neq"))
def neq(x: Value, y: Value) -> bool:
    """Return true if `x` and `y` are different values."""
    return not equal(x, y)


@builtin("lt", any_, any_, returns=boolean, infix="<", inverse=inverse("order"))
def lt(x: Value, y: Value) -> bool:
    """Return true if `x` comes before `y` in Rego's order of all values."""
    if type(x) is int and type(y) is int:
        return x < y
    return compare(x, y) < 0


@builtin("lte", any_, any_, returns=boolean, infix="<=", inverse=inverse("order"))
def lte(x: Value, y: Value) -> bool:
    """Return true if `x` comes before `y`, or is the same."""
    if type(x) is int and type(y) is int:
        return x <= y
    return compare(x, y) <= 0


@builtin("gt", any_, any_, returns=boolean, infix=">", inverse=inverse("order"))
def gt(x: Value, y: Value) -> bool:
    """Return true if `x` comes after `y` in Rego's order of all values."""
    if type(x) is int and type(y) is int:
        return x > y
    return compare(x, y) > 0


@builtin("gte", any_, any_, returns=boolean, infix=">=", inverse=inverse("order"))
def gte(x: Value, y: Value) -> bool:
    """Return true if `x` comes after `y`, or is the same."""
    if type(x) is int and type(y) is int:
        return x >= y
    return compare(x, y) >= 0


@builtin("internal.member_2", any_, any_, returns=boolean, infix="in", inverse=inverse("member"))
def member_2(x: Value, collection: Value) -> bool:
    """Return true if `x` is an item of an array, a value of an object, or a member of a set; false
    for another kind of collection.
    """
    if type(collection) is list:
        # Only a string equals a string, in Python too.
        return x in collection if type(x) is str else any([equal(x, i) for i in collection])
    if type(collection) is frozenset:
        return to_key(x) in collection
    if type(collection) is dict:
        return any([equal(x, item) for item in collection.values()])
    return False


@builtin(
    "internal.member_3",
    any_,
    any_,
    any_,
    returns=boolean,
    infix="in",
    inverse=inverse("member"),
)
def member_3(key: Value, x: Value, collection: Value) -> bool:
    """Return true if `x` is under `key` in an array, object or set (whose members are their own
    keys); false for another kind of collection.
    """
    if type(collection) is list:
        item = item_at(collection, key)
        return not isinstance(item, Undefined) and equal(x, item)
    if type(collection) is dict:
        position = to_key(key)
        return position in collection and equal(x, collection[position])
    if type(collection) is frozenset:
        return to_key(key) in collection and equal(key, x)
    return False
