"""Rego values as Python objects: kinds, equality, order, keys, and the way out as JSON.

    null     None          number   int, Number (or float)     array   list
    boolean  True, False   string   str                        object  dict     set  frozenset

JSON that was parsed by Python is a value as it is: no conversion on the way into a decision.
Two things Python would get wrong are kept right here. First, `True == 1` in Python: `equal` and
`compare` know that a boolean is not a number. Second, dict keys and set members must be hashable:
they are held in *key form*, which is the value itself for null, strings and numbers, and a
`Boxed` value for booleans, composites and integers of which Python gives many one hash (`to_key`,
`from_key`).

INVARIANT: a value is never changed once it can be seen by anyone else; lists and dicts included.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cmp_to_key, lru_cache
from itertools import chain, repeat
from operator import is_
from typing import Any, Final, TypeAlias, TypeVar, Union

from doorward.rego.clock import count_step
from doorward.rego.numbers import (
    CLASSES,
    HASH_MODULUS,
    AnyNumber,
    Number,
    binary,
    compare_numbers,
    hash_integer,
    integer_of,
    is_large,
    number_text,
)

__all__ = [
    "CONTROL_ESCAPES",
    "KINDS",
    "SYSTEM",
    "UNDEFINED",
    "Boxed",
    "Key",
    "Number",
    "Undefined",
    "Value",
    "classes_of",
    "compare",
    "equal",
    "from_key",
    "in_order",
    "item_at",
    "iterate",
    "json_key",
    "kind_name",
    "lookup",
    "make_object",
    "make_set",
    "operand_text",
    "order_key",
    "scrub",
    "sorted_keys",
    "sorted_values",
    "to_json",
    "to_key",
    "to_python",
    "to_rego",
]


class Undefined:
    """The type of `UNDEFINED`, the absence of any value, which is not `null`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNDEFINED"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "UNDEFINED"


UNDEFINED: Final = Undefined()

SYSTEM: Final = "system"
"""The key below `data` of the server's own documents, which are not part of `data` as a whole."""

Value: TypeAlias = Union[
    bool, int, float, str, "list[Value]", "dict[Key, Value]", "frozenset[Key]", None
]


class Boxed:
    """A boolean, large integer, array, object or set in key form: hashable, and equal as in
    Rego.
    """

    __slots__ = ("_hash", "value")

    def __init__(self, value: Value) -> None:
        self.value = value
        self._hash = _hash(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return type(other) is Boxed and self._hash == other._hash and equal(self.value, other.value)

    def __repr__(self) -> str:
        return f"Boxed({self.value!r})"


Key: TypeAlias = int | float | str | Boxed | None
T = TypeVar("T")

_TRUE: Final = Boxed.__new__(Boxed)
_FALSE: Final = Boxed.__new__(Boxed)
_TRUE.value, _TRUE._hash = True, hash("rego true")
_FALSE.value, _FALSE._hash = False, hash("rego false")


def to_key(value: Value) -> Key:
    """Return a value in key form, in which it is a dict key or a member of a set: itself for a
    string, null and most numbers, otherwise Boxed; equal values become equal keys. `from_key` is
    the way back.
    """
    if type(value) is str:
        return value
    if value is True:
        return _TRUE
    if value is False:
        return _FALSE
    if type(value) is int:
        return value if -HASH_MODULUS < value < HASH_MODULUS else Boxed(value)
    if value is None:
        return None
    # `1.0` becomes a Number, whose hash and equality are those of the integer 1.
    if isinstance(value, float):
        number = value if type(value) is Number else Number(repr(value))
        return Boxed(number) if is_large(number) else number
    return Boxed(value)


def from_key(key: Key) -> Value:
    """Return the value of a dict key or set member in key form."""
    return key.value if type(key) is Boxed else key  # type: ignore[return-value]


def _hash(value: Any) -> int:
    """Return a hash of a value, equal for equal values; each array or object in it counts a step of
    the limit on work. A boolean may have the hash of a number.
    """
    # Equal values have equal hashes: a boolean may have that of a number.
    kind = type(value)
    if kind is dict:
        # Most parts are strings: they are told apart here, before a call.
        parts = [v if type(v) is str else _hash_part(v) for v in value.values()]
        return hash(frozenset(zip(value, parts, strict=True)))
    if kind is list:
        return hash(tuple([v if type(v) is str else _hash_part(v) for v in value]))
    return hash_integer(value) if kind is int else hash(value)


def _hash_part(value: Any) -> Hashable:
    """Return a hashable object for one value of a collection, for the hash of the collection: equal
    for equal values.
    """
    kind = type(value)
    if kind is int:
        return value if -HASH_MODULUS < value < HASH_MODULUS else to_key(value)
    if kind is dict or kind is list:
        count_step()
        return _hash(value)
    if kind is float:
        return Number(repr(value))
    return value  # type: ignore[no-any-return]


def lookup(value: Any, key: Any) -> Any:
    """Return `value[key]` of an object or array; for a set, the key itself if it is a member.
    UNDEFINED if there is no such item, and for values that are not collections.
    """
    kind = type(value)
    if kind is dict:
        if type(key) is not str:
            key = to_key(key)
        return value.get(key, UNDEFINED)
    if kind is list:
        return item_at(value, key)
    if kind is frozenset and to_key(key) in value:
        return key
    return UNDEFINED


def item_at(items: Sequence[T], key: Any) -> T | Undefined:
    """Return the item of an array at an index, which may be written `1.0`; UNDEFINED if there is
    none.
    """
    if type(key) is not int:
        key = integer_of(key) if type(key) in CLASSES else None
    return items[key] if key is not None and 0 <= key < len(items) else UNDEFINED


def make_set(items: Iterable[Value]) -> frozenset[Key]:
    """Return a Rego set; of equal members the first one stays."""
    return frozenset([to_key(item) for item in items])


def make_object(items: Iterable[tuple[Value, Value]]) -> dict[Key, Value]:
    """Return a Rego object; of equal keys the last value wins, as in an object literal."""
    return {to_key(key): value for key, value in items}


_RANK: Final[dict[type, int]] = {
    type(None): 0,
    bool: 1,
    int: 2,
    float: 2,
    Number: 2,
    str: 3,
    list: 4,
    dict: 5,
    frozenset: 6,
}
KINDS: Final = ("null", "boolean", "number", "string", "array", "object", "set")


def kind_name(value: Value) -> str:
    """Return OPA's name of the value's type: null, boolean, number, string, array, object or set.
    KeyError for other classes.
    """
    return KINDS[_RANK[type(value)]]


def classes_of(kind: str) -> tuple[type, ...]:
    """Return the Python classes of values of OPA's `kind`; ValueError for an unknown kind."""
    rank = KINDS.index(kind)
    return tuple(cls for cls, number in _RANK.items() if number == rank)


def equal(a: Value, b: Value) -> bool:
    """Return True if two values are equal in Rego: `1` and `1.0` are, `1` and `true` are not.
    EvalError if the deadline of the thread has passed, which is checked for collections.
    """
    if a is b:
        return True
    kind = type(a)
    if kind is str:
        return a == b
    if kind is list or kind is dict:
        return type(b) is kind and _equal_parts(a, b)
    if kind is bool or a is None or type(b) is bool or b is None:
        return False
    if kind is frozenset:
        # Members that are boxed come back here.
        count_step()
    return a == b


def _equal_parts(a: Any, b: Any) -> bool:
    """Return True if two arrays, or two objects, are equal in Rego; both must be of the same class.
    Python's own comparison would take booleans for numbers and ignore the deadline, which is
    checked here (EvalError).
    """
    if len(a) != len(b):
        return False
    count_step()
    pairs = zip(a, b, strict=True) if type(a) is list else _pairs(a, b)
    for x, y in pairs:
        if x is y:
            continue
        kind = type(x)
        if kind is str:
            if x != y:
                return False
        elif kind is list or kind is dict:
            if type(y) is not kind or not _equal_parts(x, y):
                return False
        elif not equal(x, y):
            return False
    return True


def _pairs(a: dict[Key, Value], b: dict[Key, Value]) -> Iterator[tuple[Any, Any]]:
    """Yield the values of two objects under each key of the first; UNDEFINED in place of the second
    value if the second object lacks the key.
    """
    for key, value in a.items():
        yield value, b.get(key, UNDEFINED)


def compare(a: Value, b: Value) -> int:
    """Return -1, 0 or 1 in Rego's order: null < boolean < number < string < array < object < set.
    EvalError if the deadline of the thread has passed, which is checked for collections.
    """
    if a is b:
        return 0
    rank, other = _RANK[type(a)], _RANK[type(b)]
    if rank != other:
        return -1 if rank < other else 1
    order: int = _COMPARE[rank](a, b)
    return order


def _compare_plain(a: Any, b: Any) -> int:
    order: int = (a > b) - (a < b)
    return order


def _compare_numbers(a: AnyNumber, b: AnyNumber) -> int:
    """Return -1, 0 or 1 in the order of the exact values of two numbers, of whichever classes."""
    if type(a) is int and type(b) is int:
        return _compare_plain(a, b)
    return _compare_plain(compare_numbers(a, b), 0)


def _compare_arrays(a: Sequence[Value], b: Sequence[Value]) -> int:
    """Compare two arrays item by item: -1, 0 or 1. If all items of the shorter one are equal to
    those of the other, it comes first.
    """
    count_step()
    for x, y in zip(a, b, strict=False):
        order = compare(x, y)
        if order:
            return order
    return (len(a) > len(b)) - (len(a) < len(b))


def _compare_objects(a: dict[Key, Value], b: dict[Key, Value]) -> int:
    """Compare two objects pair by pair, in the order of their keys, key before value: -1, 0 or 1.
    If all pairs of the smaller one are equal to the first ones of the other, it comes first.
    """
    count_step()
    keys = sorted_keys(a)
    others = keys if len(a) == len(b) and a.keys() == b.keys() else sorted_keys(b)
    for k, m in zip(keys, others, strict=False):
        if type(k) is str and type(m) is str:
            if k != m:
                return -1 if k < m else 1
            order = compare(a[k], b[m])
        else:
            order = compare(from_key(k), from_key(m)) or compare(a[k], b[m])
        if order:
            return order
    return (len(a) > len(b)) - (len(a) < len(b))


def _compare_sets(a: frozenset[Key], b: frozenset[Key]) -> int:
    return _compare_arrays(sorted_values(a), sorted_values(b))


_COMPARE: Final[tuple[Callable[[Any, Any], int], ...]] = (
    lambda _a, _b: 0,
    _compare_plain,
    _compare_numbers,
    _compare_plain,
    _compare_arrays,
    _compare_objects,
    _compare_sets,
)

# Sorting. Python compares integers, strings and tuples of them many times faster than `compare`
# does. So each value gets a key that Python can compare as far as it goes; where values are objects
# with the same keys, or arrays of strings or of integers, a key is made of all of them at once.

_ORDER: Final = cmp_to_key(compare)
_AHEAD: Final = 16, 8, 4
"""By depth, how many parts of a collection are in its sort key. Deeper or later parts are compared
by `compare` if all before them is equal.
"""


def order_key(value: Value, order: Callable[[Value], Any] = _ORDER, depth: int = 0) -> Any:
    """Return a tuple by which Python sorts values in Rego's order, mostly without calling
    `compare`. `order` makes the key of a collection that is nested deeper than the levels of
    `_AHEAD`, or of one whose first parts do not decide.
    """
    kind = type(value)
    if kind is str:
        return 3, value
    if kind in CLASSES:
        return _number_key(value)
    if kind is list or kind is dict or kind is frozenset:
        if depth == len(_AHEAD):
            return _RANK[kind], order(value)
        return _collection_key(value, order, depth)
    return _RANK[kind], value is True


def _number_key(number: Any) -> tuple[int, float, float]:
    """Return the sort key of a number: the rank of numbers, the nearest float, which Python
    compares fast, and the exact number, which decides between numbers with the same float.
    """
    if type(number) is int and -_FLOAT < number < _FLOAT:
        return 2, number, number
    count_step()
    mantissa, exponent = binary(number)
    try:
        nearest = math.ldexp(mantissa, exponent)
    # Beyond the range of floats; the third part of the key decides among them.
    except OverflowError:
        nearest = math.inf if mantissa > 0 else -math.inf
    return 2, nearest, number if type(number) in (int, Number) else Number(repr(number))


_FLOAT: Final = 1 << 53
"""Every integer up to this one has an exact float."""


def _collection_key(value: Any, order: Callable[[Value], Any], depth: int) -> Any:
    """Return the sort key of a collection: its rank, the keys of its first parts, and `order` of
    the whole collection if it has more parts than these.
    """
    count_step()
    ahead = _AHEAD[depth]
    if type(value) is dict:
        keys = sorted_keys(value)[: ahead // 2]
        parts = [part for key in keys for part in (from_key(key), value[key])]
        is_cut = len(value) > ahead // 2
    else:
        items = value if type(value) is list else sorted_values(value)
        parts = items[:ahead]
        is_cut = len(items) > ahead
    tops = tuple([order_key(part, order, depth + 1) for part in parts])
    # Of two with equal parts the one that has no more of them comes first.
    return _RANK[type(value)], tops, is_cut, order(value) if is_cut else None


def in_order(values: Sequence[Value], order: Callable[[Value], Any] = _ORDER) -> Sequence[int]:
    """Return the positions of the values in Rego's order: `[3, 1, 2]` gives `[1, 2, 0]`. Equal
    values stay in their order. `order` returns the sort key of a part that is nested too deeply, or
    of a collection that is too long, for the keys made here; by default one that compares by
    `compare`.
    """
    count = len(values)
    if count < 2:
        return range(count)
    kinds = set(map(type, values))
    keys: Any = values
    if kinds == _OBJECTS:
        objects: Any = values
        names = objects[0].keys()
        # Rows with the same columns: sorting by column avoids a key for each row.
        if all([each.keys() == names for each in objects]):
            return _by_columns(objects, sorted_keys(names), order)
        keys = [order_key(each, order) for each in objects]
    elif kinds != _STRINGS and kinds != _INTEGERS:
        if count == 2:
            return (1, 0) if compare(*values) > 0 else (0, 1)
        ranks = {_RANK[kind] for kind in kinds}
        if len(ranks) > 1:
            return _by_ranks(values, sorted(ranks), order)
        arrays: Any = values
        if kinds == _ARRAYS and sum(map(len, arrays)) <= _AT_ONCE and _is_plain(arrays):
            keys = list(map(tuple, arrays))  # Python compares tuples faster than lists
        else:
            keys = [order_key(each, order) for each in values]
    return sorted(range(count), key=keys.__getitem__)


_AT_ONCE: Final = 30_000
"""The most parts of arrays that Python sorts without a check of the deadline: at most 10 ms."""


def _is_plain(arrays: Sequence[Any]) -> bool:
    """Return True if Python compares these arrays, as tuples, as Rego does: they contain only
    strings, only integers, or (if all have one length) one of both at each position.
    """
    inside = set(map(type, chain.from_iterable(arrays)))
    if inside in (_STRINGS, _INTEGERS):
        return True
    if inside != _TEXTS_AND_INTEGERS or len(set(map(len, arrays))) != 1:
        return False
    return all([len(set(map(type, column))) == 1 for column in zip(*arrays, strict=True)])


def _by_ranks(
    values: Sequence[Value], ranks: Sequence[int], order: Callable[[Value], Any]
) -> Sequence[int]:
    """Return the positions of values of several kinds in Rego's order. `ranks` are the kinds in
    order (`_RANK`); the values of each kind are sorted by themselves.
    """
    positions: dict[int, list[int]] = {rank: [] for rank in ranks}
    for number, value in enumerate(values):
        positions[_RANK[type(value)]].append(number)
    ordered: list[int] = []
    for group in positions.values():
        ordered += [group[n] for n in in_order([values[n] for n in group], order)]
    return ordered


def extremes(values: Sequence[Any], choose: Callable[[Iterable[Any]], Any]) -> Sequence[Any]:
    """Return the least values in Rego's order if `choose` is `min`, the greatest if it is `max`:
    all that are equal to it, in the order of `values`, which must not be empty.
    """
    ranks = set(map(_RANK.__getitem__, set(map(type, values))))
    if len(ranks) > 1:
        rank = choose(ranks)
        values = [each for each in values if _RANK[type(each)] == rank]
    kinds = set(map(type, values))
    if kinds == _STRINGS or kinds <= _EXACT:
        best = choose(values)
        return [each for each in values if each == best]
    if kinds == _OBJECTS and all([each.keys() == values[0].keys() for each in values]):
        count_step()
        return _extremes_by_columns(values, sorted_keys(values[0]), choose)
    if kinds == _ARRAYS and len(set(map(len, values))) == 1:
        count_step()
        return _extremes_by_columns(values, range(len(values[0])), choose)
    best = choose(map(_ORDER, values)).obj
    return [each for each in values if each is best or not compare(each, best)]


def _extremes_by_columns(
    values: Sequence[Any], names: Sequence[Any], choose: Callable[[Iterable[Any]], Any]
) -> Sequence[Any]:
    """Return the least or greatest (`choose`) of arrays of one length or of objects with the same
    keys. `names` are the indexes or keys, in order: values are compared at the first one, those
    that are equal there at the next one, and so on.
    """
    for name in names:
        if len(values) == 1:
            break
        count_step()
        column = [each[name] for each in values]
        if _are_same(column):
            continue
        best = {id(each) for each in extremes(column, choose)}
        values = [each for each, part in zip(values, column, strict=True) if id(part) in best]
    return values


_OBJECTS: Final = {dict}
_ARRAYS: Final = {list}
_STRINGS: Final = {str}
_TEXTS_AND_INTEGERS: Final = {str, int}
_EXACT: Final = {int, Number}
"""The number classes that Python compares by their exact values."""
_INTEGERS: Final = {int}


def _by_columns(
    objects: Sequence[dict[Key, Any]], names: Sequence[Key], order: Callable[[Value], Any]
) -> Sequence[int]:
    """Return the positions, in order, of objects with the same keys: sorted by the first key's
    values, then the next, only among equal ones.
    """
    count_step()
    for depth, name in enumerate(names, start=1):
        column = [each[name] for each in objects]
        if _are_same(column):
            continue
        positions = in_order(column, order)
        runs = _runs(column, positions)
        if runs and depth < len(names):
            ordered: list[int] = []
            for run in runs:
                rest = _by_columns([objects[n] for n in run], names[depth:], order)
                ordered += [run[n] for n in rest]
            return ordered
        return positions
    return range(len(objects))


def _runs(column: Sequence[Value], positions: Sequence[int]) -> list[list[int]]:
    """Group the positions of a sorted column so that equal values are together: `[a, b, b]` at the
    positions 0, 1, 2 gives `[[0], [1, 2]]`. Return [] if all values differ.
    """
    runs: list[list[int]] = []
    before: Value | Undefined = UNDEFINED
    for n in positions:
        value = column[n]
        if runs and equal(value, before):  # type: ignore[arg-type] # not undefined by now
            runs[-1].append(n)
        else:
            runs.append([n])
        before = value
    return runs if len(runs) < len(positions) else []


_SAME: Final = 256
"""The most parts of a value that Python compares without deadline checks."""


def _are_same(column: Sequence[Value]) -> bool:
    """Return True if all values of a column are certainly the same. False does not mean that they
    differ: values that take long to compare are not compared.
    """
    first = column[0]
    if all(map(is_, column, repeat(first))):
        return True
    if type(first) is not str and not _compares_exactly(first):
        return False
    return column[-1] == first and column.count(first) == len(column)


_AMBIGUOUS: Final = frozenset({bool, float, frozenset})


def _compares_exactly(value: Value) -> bool:
    """Return True if Python's `==` decides about this value as Rego does, and fast: it has at most
    `_SAME` parts, and none is a boolean, 0, 1, a float or a set.
    """
    parts: list[Any] = [value]
    for part in parts:
        kind = type(part)
        if kind is dict:
            parts += part.values()
        elif kind is list:
            parts += part
        elif kind in _AMBIGUOUS or (kind in CLASSES and part in (0, 1)):
            return False
        if len(parts) > _SAME:
            return False
    return True


def sorted_values(items: Iterable[Key]) -> list[Value]:
    """Return the members of a set, or other values in key form, as values in Rego's order, in a new
    list. EvalError if the deadline of the thread passes.
    """
    keys = sorted_keys(items)
    # In Rego's order collections come last, and in key form only they and booleans are boxed.
    if keys and type(keys[0]) is str and type(keys[-1]) is str:
        return keys  # type: ignore[return-value]
    return [from_key(key) for key in keys]


def sorted_keys(items: Iterable[Key]) -> list[Key]:
    """Return keys of an object or members of a set in Rego's order, in key form, as a new list.
    EvalError if the deadline of the thread passes.
    """
    keys = list(items)
    if len(keys) < 2:
        return keys
    # Nearly all objects have only string keys, which Python sorts as Rego does.
    if type(keys[0]) is str:
        try:
            # Nothing but strings can be put in order with a string.
            keys.sort()
        except TypeError:
            pass
        else:
            return keys
    if set(map(type, keys)) == _INTEGERS:
        return sorted(keys)  # type: ignore[type-var]
    return [keys[n] for n in in_order([from_key(key) for key in keys])]


def distinct(values: list[Value]) -> list[Value]:
    """Return the values in Rego's order without repetitions; of equal ones the first stays. A list
    of at most one value is returned itself.
    """
    if len(values) < 2:
        return values
    result: list[Value] = []
    before: Any = UNDEFINED
    for n in in_order(values):
        value = values[n]
        if not result or not equal(value, before):
            result.append(value)
            before = value
    return result


def iterate(collection: Value) -> Iterator[tuple[Value, Value]]:
    """Yield the (key, value) pairs of a collection in Rego's order: an array's keys are its
    indexes, a set's members are keys and values. Nothing for other values.
    """
    if isinstance(collection, list):
        yield from enumerate(collection)
    elif isinstance(collection, dict):
        for key in sorted_keys(collection):
            yield from_key(key), collection[key]
    elif isinstance(collection, frozenset):
        for item in sorted_values(collection):
            yield item, item


def to_python(value: Value) -> Any:
    """Convert a value to Python data for JSON: sets become lists in Rego's order, keys strings.
    Numbers stay; EvalError if the deadline of the thread passes.
    """
    if isinstance(value, dict):
        count_step()
        if all(map(_is_str, value)):
            return {k: to_python(v) for k, v in value.items()}
        return {json_key(k): to_python(value[k]) for k in sorted_keys(value)}
    if isinstance(value, list):
        count_step()
        return [to_python(item) for item in value]
    if isinstance(value, frozenset):
        return [to_python(item) for item in sorted_values(value)]
    return value


def _is_str(key: object) -> bool:
    return type(key) is str


def json_key(key: Key) -> str:
    """Return the name of a key in JSON: a string itself, other keys as JSON text with `<`, `>` and
    `&` escaped.
    """
    if type(key) is str:
        return key
    # Go's JSON: keys in order as strings, and what HTML reads is escaped.
    return to_json(to_python(from_key(key))).translate(_ESCAPED_IN_KEYS)


_ESCAPED_IN_KEYS: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


# A lone surrogate in a string stands for a byte that is not UTF-8 (`builtins.octets`), so none may
# come in by its escape, and none goes out.
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def scrub(text: str) -> str:
    """Return `text` with U+FFFD in place of each lone surrogate."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def to_json(value: Value) -> str:
    """Return compact JSON with sorted keys and numbers as written; sets become arrays. Text outside
    ASCII is not escaped, and lone surrogates become U+FFFD.
    """
    out: list[str] = []
    _write(value, out.append)
    return scrub("".join(out))


def to_rego(value: Value) -> str:
    """Return the value as Rego text, as OPA's `%v` prints it: `{"a": {1, 2}}`, `set()`."""
    return _REGO_TEXTS[type(value)](value)


def operand_text(value: Value) -> str:
    """Return the text of a key in a reference: `.a`, `["b c"]`, `[0]`; different keys have
    different texts.
    """
    if isinstance(value, str) and value.isascii() and value.isidentifier():
        return f".{value}"
    return f"[{to_rego(value)}]"


_Put: TypeAlias = Callable[[str], None]
_quote: Final = json.JSONEncoder(ensure_ascii=False).encode


def _write(value: Value, put: _Put) -> None:
    """Write a value as compact JSON, piece by piece, by calling `put`: keys as strings in Rego's
    order, sets as arrays, numbers as written. EvalError if the deadline of the thread has passed.
    """
    if isinstance(value, str):
        put(_quote(value))
    elif value is None or isinstance(value, bool):
        put({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, list):
        count_step()
        put("[")
        for n, item in enumerate(value):
            if n:
                put(",")
            _write(item, put)
        put("]")
    elif isinstance(value, dict):
        count_step()
        put("{")
        for n, key in enumerate(sorted_keys(value)):
            put(("," if n else "") + _json_object_key(from_key(key)) + ":")
            _write(value[key], put)
        put("}")
    elif isinstance(value, frozenset):
        put(to_json(sorted_values(value)))
    else:
        put(number_text(value))


def _quote_rego(text: str) -> str:
    """Return a string as a literal in double quotes, as Go's `strconv.Quote` writes it: characters
    that cannot be printed, quotes and backslashes are escaped, other characters beyond ASCII stay.
    """
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return (
        '"' + "".join([c if c.isprintable() and c not in '"\\' else _escape(c) for c in text]) + '"'
    )


CONTROL_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
"""The control characters as Go writes them in quotes, for those with an escape letter."""

_ESCAPES: Final = {**CONTROL_ESCAPES, '"': '\\"', "\\": "\\\\"}


SHORT_NAMES: Final = 512
"""The texts of an object's names are cached if they have at most this many characters together."""

_cached_name: Final = lru_cache(maxsize=1024)(_quote_rego)


def _escape(character: str) -> str:
    r"""Return the escape sequence of Go's `strconv.Quote` for a character: a short one where there
    is one, `\x1b`, `\u00ad` or `\U000e0001`, and `\x80` for a byte that is not UTF-8 (held as a
    surrogate).
    """
    code = ord(character)
    if code < 0x80:
        return _ESCAPES.get(character, f"\\x{code:02x}")
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _list_text(value: list[Value]) -> str:
    count_step()
    return "[" + ", ".join([_REGO_TEXTS[type(item)](item) for item in value]) + "]"


def _object_text(value: dict[Key, Value]) -> str:
    """Return an object as Rego text, its keys in Rego's order, as OPA prints it. Each object counts
    a step: EvalError if the deadline of the thread passes.
    """
    count_step()
    texts = _REGO_TEXTS
    keys: list[Any] = sorted_keys(value)
    if not keys or (type(keys[0]) is str and type(keys[-1]) is str):
        name = _cached_name if sum(map(len, keys)) <= SHORT_NAMES else _quote_rego
        parts = [f"{name(key)}: {texts[type(value[key])](value[key])}" for key in keys]
    else:
        parts = [f"{to_rego(from_key(key))}: {to_rego(value[key])}" for key in keys]
    return "{" + ", ".join(parts) + "}"


def _set_text(value: frozenset[Key]) -> str:
    """Return a set as Rego text, its members in order."""
    if not value:
        return "set()"
    return "{" + ", ".join([to_rego(item) for item in sorted_values(value)]) + "}"


_REGO_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    type(None): lambda _value: "null",
    bool: lambda value: "true" if value else "false",
    int: str,
    float: number_text,
    Number: number_text,
    str: _quote_rego,
    list: _list_text,
    dict: _object_text,
    frozenset: _set_text,
}


def _json_object_key(key: Value) -> str:
    return _quote(key if type(key) is str else to_json(key))
