"""Operations of the type checker: unions, keys and values of types, and whether two can meet.

The words (`ScalarType`, `ArrayType`, …) are those of the built-ins' declarations. Here the options
of an `AnyOf` and the fields of an `ObjectType` are always in OPA's order (`order`), so that equal
types are equal Python objects. `UNKNOWN` stands where nothing could be inferred, and for it alone
nothing unifies. Syntax is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from doorward.rego.builtins.registry.signature import (
    AnyOf,
    ArrayType,
    Function,
    ObjectType,
    ScalarType,
    SetType,
    Type,
    any_,
    boolean,
    null,
    number,
    string,
)
from doorward.rego.numbers import CLASSES, Number, integer_of
from doorward.rego.values import Key, Value, from_key, iterate, to_key

__all__ = [
    "MAX_OPTIONS",
    "UNKNOWN",
    "bounded",
    "canonical",
    "has_function",
    "has_unknown",
    "keys_of",
    "merge",
    "object_of",
    "order",
    "select",
    "type_of",
    "unifies",
    "union",
    "union_of",
    "values_of",
]

UNKNOWN: Final = ScalarType("???")
MAX_OPTIONS: Final = 200
"""A union of more types than this becomes the type of any value, so that large constant data does
not take quadratic time.
"""

MAX_PARTS: Final = 10_000
"""A term whose inferred type has more parts than this gets no type: `[x, x]` has the parts of `x`
twice, and each step of a policy may double them.
"""

MAX_REPEATS: Final = 500
"""At most this many parts of a type may be repetitions of other parts; only doubling repeats so
many, and each step would process all of them.
"""

_RANK: Final = {"null": 0, "boolean": 1, "number": 2, "string": 3}


def order(type_: Type) -> tuple[Any, ...]:
    """Return a sort key for types, in OPA's order of kinds, then by their parts; equal types have
    equal keys. Fields and options must be sorted already.
    """
    match type_:
        case ScalarType(kind):
            return (_RANK.get(kind, -1),)
        case ArrayType(items, rest):
            return (4, _optional(rest), tuple(map(order, items)))
        case ObjectType(fields, rest):
            dynamic = (0,) if rest is None else (1, order(rest[0]), order(rest[1]))
            return (5, dynamic, tuple((_key_order(k), order(t)) for k, t in fields))
        case SetType(of):
            return (6, order(of))
        case Function(args, result):
            return (8, tuple(map(order, args)), _optional(result))
    assert isinstance(type_, AnyOf)
    return (7, tuple(map(order, type_.options)))


def _optional(type_: Type | None) -> tuple[Any, ...]:
    return (0,) if type_ is None else (1, order(type_))


def _key_order(key: object) -> tuple[Any, ...]:
    """Return a sort key for the keys of object types, which are in key form: null, booleans,
    numbers, strings, then collections by their Python text.
    """
    value = from_key(key)  # type: ignore[arg-type]  # fields are declared in key form
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    if isinstance(value, (int, float)):
        return (2, value)
    if isinstance(value, str):
        return (3, value)
    return (4, repr(value))


@lru_cache(maxsize=1024)
def canonical(type_: Type) -> Type:
    """Return a type as built-ins declare it with the options of unions and the fields of objects in
    OPA's order, at any depth, so that equal types are equal Python objects. A function is returned
    unchanged. Cached.
    """
    match type_:
        case AnyOf(options) if options:
            return AnyOf(tuple(sorted(map(canonical, options), key=order)))
        case ArrayType(items, rest):
            return ArrayType(tuple(map(canonical, items)), rest and canonical(rest))
        case ObjectType(fields, rest):
            dynamic = rest and (canonical(rest[0]), canonical(rest[1]))
            return object_of(((k, canonical(t)) for k, t in fields), dynamic)
        case SetType(of):
            return SetType(canonical(of))
    return type_


def object_of(fields: Iterable[tuple[object, Type]], rest: tuple[Type, Type] | None) -> ObjectType:
    """Return an object type with sorted fields; of equal keys the last counts."""
    by_key = dict(fields)
    return ObjectType(tuple(sorted(by_key.items(), key=lambda f: _key_order(f[0]))), rest)


def union(a: Type, b: Type) -> Type:
    """Return the type of values that have type `a` or `b`."""
    return a if a == b else union_of((a, b))


def union_of(types: Iterable[Type]) -> Type:
    """Return the union of `types`: UNKNOWN for none, the type itself for one, any if one is any or
    there are more than `MAX_OPTIONS`. UNKNOWN among them is left out.
    """
    options: list[Type] = []
    for type_ in types:
        if type_ == any_:
            return any_
        if isinstance(type_, AnyOf):
            options += type_.options
        elif type_ != UNKNOWN and not (options and options[-1] is type_):
            options.append(type_)
    # A schema's type can be large: it is compared with the others only where there are some.
    distinct = list(dict.fromkeys(options)) if len(options) > 1 else options
    # Sorting and comparing unions is quadratic in the options of large data.
    if len(distinct) > MAX_OPTIONS:
        return any_
    if len(distinct) < 2:
        return next(iter(distinct), UNKNOWN)
    return AnyOf(tuple(sorted(distinct, key=order)))


def union_functions(a: Function, b: Function) -> Function:
    """Return the type of a function with two clauses; ValueError if they have different numbers of
    operands.
    """
    args = tuple(union(x, y) for x, y in zip(a.args, b.args, strict=True))
    return Function(args, union(a.result or UNKNOWN, b.result or UNKNOWN), a.variadic)


def merge(a: Type | None, b: Type) -> Type:
    """Return the type of a path to which several rules give `a` and then `b`; None as `a` means no
    rule so far. Open objects and sets are merged part by part; if only one is a function, `b` wins.
    """
    if a is None:
        return b
    if isinstance(a, Function) or isinstance(b, Function):
        if isinstance(a, Function) and isinstance(b, Function):
            return union_functions(a, b)
        return b
    if isinstance(a, SetType) and isinstance(b, SetType):
        return SetType(union(a.of, b.of))
    if isinstance(a, AnyOf) and not isinstance(b, AnyOf):
        a, b = b, a
    if isinstance(a, ObjectType) and not a.fields and a.rest is not None:
        if isinstance(b, ObjectType) and not b.fields and b.rest is not None:
            value = merge(a.rest[1], b.rest[1])
            return ObjectType((), (union(a.rest[0], b.rest[0]), value))
        if isinstance(b, AnyOf):
            return _merge_into_options(a.rest, b)
    return union(a, b)


def _merge_into_options(rest: tuple[Type, Type], options: AnyOf) -> Type:
    """Return the union with an open object whose keys and values have the types `rest`: it is
    merged into the first open object among the options, or else is one more option.
    """
    for n, option in enumerate(options.options):
        if isinstance(option, ObjectType) and not option.fields and option.rest is not None:
            merged = ObjectType(
                (), (union(option.rest[0], rest[0]), union(option.rest[1], rest[1]))
            )
            others = options.options[:n] + options.options[n + 1 :]
            return AnyOf(tuple(sorted({*others, merged}, key=order)))
    return union(ObjectType((), rest), options)


def keys_of(type_: Type | None) -> Type:
    """Return the type of the keys of a value of this type (of a set, its members); UNKNOWN for a
    type without keys and for None, any for any.
    """
    match type_:
        case ArrayType():
            return number
        case ObjectType(fields, rest):
            named = union_of(type_of(from_key(k)) for k, _ in fields)  # type: ignore[arg-type]
            return named if rest is None else union(named, rest[0])
        case SetType(of):
            return of
        case AnyOf(options):
            return union_of(map(keys_of, options)) if options else any_
    return UNKNOWN


@lru_cache(maxsize=128)
def values_of(type_: Type | None) -> Type:
    """Return the type of the items or members of a value of this type; UNKNOWN for scalars and
    None, any for any. The members of a set are its values.
    """
    # Kept, since each policy below a schema may ask it of the same large type.
    match type_:
        case ArrayType(items, rest):
            return union(union_of(items), rest or UNKNOWN)
        case ObjectType(fields, rest):
            if any(isinstance(t, Function) for _, t in fields):
                return _values_with_functions(fields, rest)
            named = union_of(t for _, t in fields)
            return named if rest is None else union(named, rest[1])
        case SetType(of):
            return of
        case AnyOf(options):
            return union_of(map(values_of, options)) if options else any_
    return UNKNOWN


def _values_with_functions(
    fields: Sequence[tuple[object, Type]], rest: tuple[Type, Type] | None
) -> Type:
    """Return the type of the members of a package with functions, as OPA unites them one by one: a
    function and another type have no union, so the members up to there are dropped and the next one
    begins a new union (UNKNOWN if there is none). Of functions alone it is the type of the first.
    """
    known: Type = UNKNOWN
    for type_ in [*(type_ for _, type_ in fields), *(rest[1:] if rest else ())]:
        if known == UNKNOWN:
            known = type_
        elif isinstance(known, Function) is not isinstance(type_, Function):
            known = UNKNOWN
        elif not isinstance(type_, Function):
            known = union(known, type_)
    return known


def select(type_: Type | None, key: Value) -> Type:
    """Return the type of the part under the constant `key` in a value of `type_`; UNKNOWN if no
    value of this type has such a part, or if `type_` is UNKNOWN or None. The part of a set is the
    key itself; of any it is any.
    """
    match type_:
        case ArrayType(items, rest):
            # OPA reads `-0` as index 0.
            if type(key) is Number and key.text == "-0":
                key = 0
            if type(key) is not int or key < 0:
                return UNKNOWN
            return items[key] if key < len(items) else rest or UNKNOWN
        case ObjectType(fields, rest):
            key_id = to_key(key)
            for name, field_type in fields:
                if name == key_id and _are_written_alike(
                    from_key(name),  # type: ignore[arg-type] # fields are in key form
                    key,
                ):
                    return field_type
            return rest[1] if rest is not None and _admits(rest[0], type_of(key)) else UNKNOWN
        case SetType(of):
            key_type = type_of(key)
            return key_type if _admits(of, key_type) else UNKNOWN
        case AnyOf(options):
            return union_of(select(option, key) for option in options) if options else any_
    return UNKNOWN


def _are_written_alike(name: Value, key: Value) -> bool:
    """Return False for an equal key that OPA's types do not match, such as `1e0` for `1`."""
    if type(name) not in CLASSES or type(key) not in CLASSES:
        return True
    return integer_of(name) is None or integer_of(key) is not None  # type: ignore[arg-type]


def _admits(type_: Type, other: Type) -> bool:
    """Return True if a type equals `other`, or is any or a union with that option."""
    if isinstance(type_, AnyOf):
        return not type_.options or other in type_.options
    return type_ == other


def type_of(value: Value) -> Type:
    """Return the type of a constant with the types of all its parts, exact as to positions and
    keys. Sets count as arrays, as in JSON, in Rego's order.
    """
    if value is None:
        return null
    if isinstance(value, bool):
        return boolean
    if isinstance(value, (int, float)):
        return number
    if isinstance(value, str):
        return string
    if isinstance(value, dict):
        return object_of(((k, type_of(v)) for k, v in value.items()), None)
    return ArrayType(tuple(type_of(item) for item in _members(value)))


def _members(value: list[Value] | frozenset[Key]) -> Iterator[Value]:
    return iter(value) if isinstance(value, list) else iter([v for _, v in iterate(value)])


def bounded(type_: Type) -> Type:
    """Return `type_`, or any if it has more than `MAX_PARTS` parts at all depths, or more than
    `MAX_REPEATS` parts that are objects met before (shared parts count each time).
    """
    waiting, count, repeats = [type_], 0, 0
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        count += 1
        if not isinstance(part, ScalarType):
            repeats += id(part) in seen
            seen.add(id(part))
        if count > MAX_PARTS or repeats > MAX_REPEATS:
            return any_
        match part:
            case ArrayType(items, rest):
                # A slice: an array of a million items is not copied in order to be found too large.
                waiting += items[:MAX_PARTS] if rest is None else (*items[:MAX_PARTS], rest)
            case ObjectType(fields, rest_of):
                waiting += [value for _, value in fields[:MAX_PARTS]]
                waiting += rest_of or ()
            case SetType(of):
                waiting.append(of)
            case AnyOf(options):
                waiting += options
    return type_


def has_unknown(type_: Type) -> bool:
    """Return True if the type, or a part of it, could not be inferred. Parts of unions and
    functions are not examined.
    """
    return type_ == UNKNOWN or any(map(has_unknown, _parts(type_)))


def has_function(type_: Type) -> bool:
    """Return True if the type, or a part of it, is a function. Parts of unions and functions are
    not examined.
    """
    return isinstance(type_, Function) or any(map(has_function, _parts(type_)))


def _parts(type_: Type) -> Iterator[Type]:
    """Yield the types of the items, members or values of an array, set or object type, and of open
    keys; nothing for other types.
    """
    match type_:
        case ArrayType(items, rest):
            yield from items
            yield from () if rest is None else (rest,)
        case ObjectType(fields, rest):
            yield from (of for _, of in fields)
            yield from rest or ()
        case SetType(of):
            yield of


def unifies(a: Type | None, b: Type | None) -> bool:
    """Return True if some value may have both types: equal scalars, arrays, objects and sets whose
    parts unify, functions with functions, or one option of an `AnyOf`. False if either is None or
    UNKNOWN.
    """
    if a is None or b is None or a == UNKNOWN or b == UNKNOWN:
        return False
    if isinstance(a, Function) or isinstance(b, Function):
        return isinstance(a, Function) and isinstance(b, Function) and _functions(a, b)
    if isinstance(a, AnyOf):
        if _meets(a, b):
            return True
        return isinstance(b, AnyOf) and _meets(b, a)
    if isinstance(b, AnyOf):
        return _meets(b, a)
    match a, b:
        case ScalarType(), ScalarType():
            return a == b
        case ArrayType(), ArrayType():
            return _arrays(a, b)
        case ObjectType(), ObjectType():
            return _objects(a, b)
        case SetType(), SetType():
            return unifies(a.of, b.of)
    return False


def _meets(a: AnyOf, b: Type) -> bool:
    return not a.options or any(unifies(option, b) for option in a.options)


def _functions(a: Function, b: Function) -> bool:
    return len(a.args) == len(b.args) and all(map(unifies, a.args, b.args))


def _arrays(a: ArrayType, b: ArrayType) -> bool:
    """Return True if some array has both types: the types at each position that either names unify,
    and the types of further items, if both allow some. False if one names more items than the other
    allows.
    """
    length = max(len(a.items), len(b.items))
    if not all(unifies(_item(a, n), _item(b, n)) for n in range(length)):
        return False
    return a.rest is None or b.rest is None or unifies(a.rest, b.rest)


def _item(array: ArrayType, index: int) -> Type | None:
    return array.items[index] if index < len(array.items) else array.rest


def _objects(a: ObjectType, b: ObjectType) -> bool:
    """Return True if some object may have both types: the types of each key that either names
    unify, and the types of other values do if both allow other keys. A key that only one type names
    is an error only if neither allows other keys.
    """
    # What is known of an open object (a document, to which base data may add) is not a promise.
    closed = a.rest is None and b.rest is None
    for name, _ in (*a.fields, *b.fields):
        value = from_key(name)  # type: ignore[arg-type]  # fields are in key form
        x, y = select(a, value), select(b, value)
        if not unifies(x, y) and (closed or (x != UNKNOWN and y != UNKNOWN)):
            return False
    return a.rest is None or b.rest is None or unifies(a.rest[1], b.rest[1])
