"""Operations on values that generated code is made of: lookups, walks, tests, insertions.

Each is as short as it can be, since each is in the innermost loop of some policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from doorward.rego.errors import CONFLICT_ERROR, LIMIT_ERROR, EvalError
from doorward.rego.golang.octets import combine
from doorward.rego.golang.strings import MAX_TEXT
from doorward.rego.numbers import Number, number_text
from doorward.rego.source import Span
from doorward.rego.values import (
    UNDEFINED,
    Key,
    compare,
    equal,
    from_key,
    lookup,
    sorted_keys,
    sorted_values,
    to_key,
    to_rego,
)

__all__ = [
    "COUNTED",
    "KIND_ERRORS",
    "LOOKUP_ERRORS",
    "MISSING",
    "NOTHING",
    "Candidates",
    "candidates",
    "collect",
    "contains",
    "contains_pair",
    "freeze",
    "getter",
    "insert",
    "insert_at",
    "insert_member_at",
    "is_collection",
    "items",
    "less",
    "less_equal",
    "lookup_data",
    "lookup_data_path",
    "lookup_path",
    "one",
    "one_of_function",
    "open_at",
    "put_path",
    "template",
    "template_text",
    "values",
]

MISSING: Final = object()
"""Stands for an answer that is not computed yet, unlike UNDEFINED, which is an answer."""

NOTHING: Final[dict[Key, Any]] = {}
"""An empty object that is read in place of a value whose path does not exist."""

LOOKUP_ERRORS: Final = (KeyError, TypeError, AttributeError)
"""The exceptions of Python for `value["a"].get("b")` if a value is not an object, or has no such
key. For `value["a"]["b"]` a KeyError means that all values are objects, and the key is missing.
"""


KIND_ERRORS: Final = (AttributeError, TypeError)
"""The exceptions of Python for a call of a string's method on another value."""


def lookup_data(value: Any, key: Any) -> Any:
    """Return the value of base data under a key, as OPA looks it up: a number also finds a member
    named by its text, and a string such as "1" an item of an array. UNDEFINED if there is none.
    """
    value_at = lookup(value, key)
    if value_at is UNDEFINED:
        if type(key) in _NUMBERS and type(value) is dict:
            return value.get(number_text(key), UNDEFINED)
        if type(key) is str and type(value) is list and INDEX.fullmatch(key):
            return lookup(value, int(key))
    return value_at


_NUMBERS: Final = frozenset({int, float, Number})

# As Go's `strconv.Atoi`, which takes a sign and at most the 19 digits of an int64.
INDEX: Final = re.compile("[+-]?[0-9]{1,19}")
"""Matches a key that OPA reads as the index of an item."""


def lookup_path(value: Any, path: Sequence[Any]) -> Any:
    """Return `value[a][b]…`; UNDEFINED if a key on the path is missing."""
    for key in path:
        value = lookup(value, key)
        if value is UNDEFINED:
            return UNDEFINED
    return value


def lookup_data_path(value: Any, path: Sequence[Any]) -> Any:
    """Return `value[a][b]…` in base data, as OPA looks it up: a number also finds a member named by
    its text, and a string such as "1" an item of an array. UNDEFINED if a key is missing.
    """
    for key in path:
        value = lookup_data(value, key)
        if value is UNDEFINED:
            return UNDEFINED
    return value


def getter(value: Any) -> Callable[[str, Any], Any]:
    """Return a function `get(name, default)` for a value that is not an object. For a set it
    returns `name` if that is a member; otherwise it returns `default`.
    """
    if type(value) is frozenset:
        return lambda name, default: name if name in value else default
    return lambda _name, default: default


def values(collection: Any) -> Iterable[Any]:
    """Return the values of an array, object or set in Rego's order; () for other values."""
    kind = type(collection)
    if kind is list:
        return collection  # type: ignore[no-any-return]
    if kind is dict:
        return [collection[k] for k in sorted_keys(collection)]
    if kind is frozenset:
        return sorted_values(collection)
    return ()


def items(collection: Any) -> Iterable[tuple[Any, Any]]:
    """Return the (key, value) pairs of an array (by index), object or set (each member with itself)
    in Rego's order, keys as values and not in key form; () for other values.
    """
    kind = type(collection)
    if kind is list:
        return enumerate(collection)
    if kind is dict:
        keys = sorted_keys(collection)
        # Boxed keys stand first or last.
        if keys and type(keys[0]) is str and type(keys[-1]) is str:
            return [(k, collection[k]) for k in keys]
        return [(from_key(k), collection[k]) for k in keys]
    if kind is frozenset:
        return [(v, v) for v in sorted_values(collection)]
    return ()


def is_collection(value: Any) -> bool:
    """Return True if `value` is an array, object or set."""
    return type(value) in _COLLECTIONS


_COLLECTIONS: Final = frozenset({list, dict, frozenset})

COUNTED: Final = frozenset({list, dict, frozenset, str})
"""The classes of values that `count` accepts."""


def contains(item: Any, collection: Any) -> bool:
    """Return True if `item` is an item of the array, a value of the object, or a member of the set.
    False if `collection` is none of these.
    """
    kind = type(collection)
    if kind is list:
        # Only a string equals a string, so Python's comparison is exact and fast.
        if type(item) is str:
            return item in collection
        return any(equal(item, other) for other in collection)
    if kind is frozenset:
        return to_key(item) in collection
    if kind is dict:
        return any(equal(item, other) for other in collection.values())
    return False


def contains_pair(key: Any, item: Any, collection: Any) -> bool:
    """Return True for `key, item in collection`: the collection has the item under the key. False
    also for values that are not collections.
    """
    value_at = lookup(collection, key)
    return value_at is not UNDEFINED and equal(value_at, item)


class Candidates(NamedTuple):
    """Functions of definitions with their positions, by the value that the definitions test.
    `others`: those for any other value, and for none.
    """

    by_value: dict[Key, tuple[tuple[Any, Span], ...]]
    others: tuple[tuple[Any, Span], ...]


def as_set(members: Sequence[Any]) -> frozenset[Key]:
    """Return the set of a list of members, in which members may repeat."""
    return frozenset(map(to_key, members))


def candidates(table: Candidates, value: Any) -> tuple[tuple[Any, Span], ...]:
    """Return the definitions that may hold for `value`, each with its position. UNDEFINED selects
    those that do not test the value.
    """
    if value is UNDEFINED:
        # A definition that tests the value cannot hold without it.
        return table.others
    return table.by_value.get(value if type(value) is str else to_key(value), table.others)


def one(before: Any, value: Any, span: Span) -> Any:
    """Return the answer of a complete rule so far: `value`, or `before` if both are equal.
    EvalError at `span` if they differ. UNDEFINED as `before` means no answer yet.
    """
    if before is UNDEFINED or equal(before, value):
        return before if before is not UNDEFINED else value
    raise EvalError(CONFLICT_ERROR, "complete rules must not produce multiple outputs", span)


def one_of_function(before: Any, value: Any, span: Span) -> Any:
    """Return the answer of a function so far: `value`, or `before` if both are equal. EvalError at
    `span` if they differ. UNDEFINED as `before` means no answer yet.
    """
    if before is UNDEFINED or equal(before, value):
        return before if before is not UNDEFINED else value
    raise EvalError(
        CONFLICT_ERROR, "functions must not produce multiple outputs for same inputs", span
    )


def insert(out: dict[Key, Any], key: Any, value: Any, span: Span) -> None:
    """Set `out[key] = value`, with the key, any Rego value, in key form. EvalError at `span` if the
    key has a different value; of equal values the first stays.
    """
    if type(key) is not str:
        key = to_key(key)
    before = out.get(key, MISSING)
    if before is MISSING:
        out[key] = value
    elif not equal(before, value):
        raise EvalError(CONFLICT_ERROR, "object keys must be unique", span)


def collect(out: dict[Key, Any], key: Any, value: Any, span: Span) -> None:
    """Set `out[key] = value` in a comprehension. EvalError at `span` if the key has a different
    value; of equal values the last stays, as in OPA.
    """
    key = to_key(key)
    before = out.get(key, MISSING)
    if before is not MISSING and not equal(before, value):
        raise EvalError(CONFLICT_ERROR, "object keys must be unique", span)
    out[key] = value


# A class of its own, because a finished object must not take more keys: `p[x].b := 1` conflicts
# with `p[x] := {"c": 2}`, though both could be one object.
class Building(dict[Key, Any]):
    """An object that rules are still filling, inside the object of their document; other objects in
    it are finished values.
    """

    __slots__ = ()


def insert_at(out: dict[Key, Any], path: Sequence[Any], value: Any, span: Span) -> None:
    """Set `out[a][b]… = value` for a rule with several open operands. EvalError at `span` if a
    different value is there or in the way.
    """
    insert(_descend(out, path, span), path[-1], value, span)


def open_at(out: dict[Key, Any], path: Sequence[Any], span: Span) -> None:
    """Make `out[a][b]…` an object, empty if there is none yet. EvalError at `span` if another value
    is there.
    """
    _descend(out, (*path, None), span)


def insert_member_at(out: dict[Key, Any], path: Sequence[Any], member: Any, span: Span) -> None:
    """Add a member to the set at a path, which is created if missing. EvalError at `span` if
    another value is there.
    """
    target = _descend(out, path, span)
    key = to_key(path[-1])
    members = target.setdefault(key, set())
    if type(members) is not set:
        raise EvalError(CONFLICT_ERROR, "object keys must be unique", span)
    members.add(to_key(member))


def _descend(out: dict[Key, Any], path: Sequence[Any], span: Span) -> dict[Key, Any]:
    """Return the object that holds the last key of `path`; it and those above it are created if
    missing. EvalError if a finished value is in the way.
    """
    target = out
    for key in path[:-1]:
        inner = target.setdefault(to_key(key), _NEW)
        if inner is _NEW:
            inner = target[to_key(key)] = Building()
        elif type(inner) is not Building:
            raise EvalError(CONFLICT_ERROR, "object keys must be unique", span)
        target = inner
    return target


_NEW: Final = object()


def freeze(out: dict[Key, Any]) -> dict[Key, Any]:
    """Return `out` as a value: objects and sets under construction become finished ones."""
    return {key: _freeze(value) for key, value in out.items()}


def _freeze(value: Any) -> Any:
    """Return an object or set under construction as a finished value; any other value as it is."""
    if type(value) is set:
        return frozenset(value)
    return freeze(value) if type(value) is Building else value


def put_path(value: Any, path: Sequence[Any], new: Any) -> Any:
    """Return a copy of `value` with `new` at `path`, or `new` itself for an empty path; values that
    are not objects on the way are replaced by objects. UNDEFINED as `new` removes the value at the
    path. ValueError if a key of the path is not a string, as in OPA.
    """
    if not path:
        return new
    if type(path[0]) is not str:
        raise ValueError("bad document path")
    copy = dict(value) if type(value) is dict else {}
    key = path[0]
    if new is not UNDEFINED:
        copy[key] = put_path(copy.get(key), path[1:], new)
    elif len(path) == 1:
        copy.pop(key, None)
    elif key in copy:
        copy[key] = put_path(copy[key], path[1:], new)
    return copy


def less(a: Any, b: Any) -> bool:
    """Return True if `a` is before `b` in Rego's order. EvalError if the deadline has passed."""
    if type(a) is int and type(b) is int:
        return a < b
    return compare(a, b) < 0


def less_equal(a: Any, b: Any) -> bool:
    """Return True if `a` is before or equal to `b` in Rego's order."""
    if type(a) is int and type(b) is int:
        return a <= b
    return compare(a, b) <= 0


def template(parts: Sequence[str], span: Span) -> str:
    """Return the parts of a template string joined. EvalError at `span` if it is longer than
    `MAX_TEXT` characters.
    """
    if sum(map(len, parts)) > MAX_TEXT:
        text = f"template-string is longer than {MAX_TEXT} characters"
        raise EvalError(LIMIT_ERROR, text, span)
    return combine("".join(parts))


def template_text(value: Any) -> str:
    """Return a value as a template string shows it: strings without quotes, others as Rego text,
    UNDEFINED as `<undefined>`.
    """
    if value is UNDEFINED:
        return "<undefined>"
    return value if type(value) is str else to_rego(value)
