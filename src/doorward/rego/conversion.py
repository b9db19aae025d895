"""Python data becomes Rego values, where that has one meaning; the rest is refused by position.

    is a value as it is -> itself          has one meaning -> converted          else InputError

JSON that was parsed consists of values and is only looked through. A tuple or a date is not one: a
policy would ask for an array or a text and silently find neither, and `not forbidden` would hold.
So what stands for one value is converted, and what could stand for two, or for none, is refused.
"""

from __future__ import annotations

import math
import sys
from collections import UserString
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NoReturn, TypeAlias

from doorward.rego.errors import InputError
from doorward.rego.numbers import MAX_DIGITS, Number, parse_number
from doorward.rego.values import (
    UNDEFINED,
    Boxed,
    Key,
    Value,
    from_key,
    make_set,
    operand_text,
    to_key,
    to_rego,
)

__all__ = ["from_python", "is_value"]

MAX_DEPTH: Final = 10_000
"""The most levels of nested collections, as many as OPA reads of JSON."""
_MANY: Final = 1_000
"""From this many collections at one depth on, a collection that occurs several times is checked
once.
"""
_LARGE: Final[int] = 10**MAX_DIGITS
_EXACT: Final = 2.0**53
"""From this number on, a float and its text can be different numbers: the text has the fewest
digits.
"""


def from_python(value: object, name: str = "value", *, copy: bool = False) -> Value:
    """Convert Python data to a Rego value. A Rego value is returned as it is, unless `copy` is set:
    then the result shares no part that the caller may change.

    Sequences become arrays, and sets stay sets. Mappings, dataclasses and pydantic models become
    objects. UUIDs, dates, and times with a zone (as RFC 3339) become strings, and Decimals numbers.
    An Enum member is converted as its value. Raise InputError, with the position below `name`, for
    anything else, such as bytes, NaN or a time without a zone; also for nesting that is too deep
    and for a value that changes meanwhile.
    """
    try:
        if not copy and is_value(value):
            return value  # type: ignore[return-value] # that is what was asked
        return _convert(value, (None, name))
    except RecursionError:
        raise InputError(f"{name} is nested too deeply, or contains itself") from None
    except RuntimeError as error:
        raise InputError(
            f"the Python object of {name} changed while it was read: {error}"
        ) from error


def is_value(value: object) -> bool:
    """Return True if `value` consists of Rego values at every depth, so that it needs no
    conversion: parsed JSON, or a result of `from_python`. False for any other class (subclasses
    too), for an integer of more than `MAX_DIGITS` digits, a float beyond 2**53, for a set with
    members that are not in key form, and for nesting deeper than `MAX_DEPTH`.
    """
    level: list[Any] = [(value,)]
    # Level by level, without recursion: an input may nest deeper than Python's stack.
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for collection in level:
            if type(collection) is dict:
                inside = collection.values()
                for key in collection:
                    if type(key) is not str and not _is_key(key):
                        return False
            else:
                inside = collection
            for item in inside:
                kind = type(item)
                # Written for the many texts that an input has.
                if kind is str:
                    continue
                if kind is dict or kind is list:
                    below.append(item)
                elif kind is frozenset:
                    if not all(map(_is_key, item)):
                        return False
                elif kind not in _PLAIN and not _is_small(item):
                    return False
        if not below:
            return True
        # Parts that are shared at each depth are 2**depth without this.
        level = below if len(below) < _MANY else list({id(each): each for each in below}.values())
    return False


_PLAIN: Final = frozenset({str, bool, type(None), Number})
_KEYS: Final = frozenset({str, Boxed, Number, type(None)})


def _is_key(key: object) -> bool:
    return type(key) in _KEYS or _is_small(key)


def _is_small(value: object) -> bool:
    """Return True if `value` is an `int` of at most `MAX_DIGITS` digits, or a `float` between
    -2**53 and 2**53.
    """
    if type(value) is int:
        return -_LARGE < value < _LARGE
    return type(value) is float and -_EXACT < value < _EXACT


_Position: TypeAlias = "tuple[_Position | None, object]"
"""The position of a value: the position of the enclosing collection (None at the top), and the key
in it.
"""


def _refuse(position: _Position, why: str) -> NoReturn:
    """Raise InputError with the position and the reason `why`."""
    raise InputError(f"{_position_text(position)} {why}")


def _position_text(position: _Position) -> str:
    """Return a position as text, such as `input.a[0]`."""
    keys: list[Any] = []
    above: _Position | None = position
    while above is not None:
        above, key = above
        keys.append(key)
    name: str = keys.pop()
    return name + "".join(map(operand_text, reversed(keys)))


def _convert(value: Any, position: _Position) -> Value:
    """Return Python data as a Rego value: values as they are, texts and numbers of other classes,
    objects with fields and mappings as objects, sets, and sequences (no bytes) as arrays, each part
    converted in turn. InputError, with the position of the part, if one is of another class or has
    no single meaning; RecursionError for a cycle or nesting that is too deep.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value  # type: ignore[no-any-return] # of these classes by now
    if kind is Boxed:
        return _convert(value.value, position)
    if (scalar := _to_scalar(value, position)) is not UNDEFINED:
        return scalar  # type: ignore[no-any-return] # a text or a number by now
    if (fields := _fields_of(value)) is not None:
        value = fields
        if not isinstance(value, Mapping):
            return _convert(value, position)
    if isinstance(value, Mapping):
        return _to_object(value, position)
    if isinstance(value, AbstractSet):
        member: _Position = (None, f"{_position_text(position)} (a member)")
        return make_set([_convert(item, member) for item in value])
    if isinstance(value, Sequence) and not isinstance(value, _BYTES):
        return [_convert(item, (position, n)) for n, item in enumerate(value)]
    _refuse(position, f"is of the class {kind.__name__}, which cannot be converted to a Rego value")


_BYTES: Final = (bytes, bytearray, memoryview)


def _to_scalar(value: Any, position: _Position) -> Any:
    """Return the string or number for a scalar of Python, also for a date, UUID or Decimal, or the
    converted value of an Enum; UNDEFINED for other objects. InputError for numbers that are not
    finite or too large, a time without a zone, and an Enum whose value is not convertible.
    """
    from enum import Enum

    if isinstance(value, Enum):
        return _convert(value.value, position)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        if not -_LARGE < value < _LARGE:
            _refuse(position, f"is a number of more than {MAX_DIGITS} digits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            _refuse(position, "is a number that is not finite")
        # As its text, as in JSON: Python compares a float and an integer exactly.
        return float(value) if -_EXACT < value < _EXACT else Number(repr(float(value)))
    if isinstance(value, UserString):
        return str(value)
    for module, name, write in _WRITTEN:
        # There is no instance of a class that was not imported.
        home = sys.modules.get(module)
        if home is not None and isinstance(value, getattr(home, name)):
            return write(value, position)
    return UNDEFINED


def _from_decimal(value: Any, position: _Position) -> int | Number:
    """Return the number for a Decimal; InputError if it is not finite or too large."""
    if not value.is_finite():
        _refuse(position, "is a number that is not finite")
    try:
        return parse_number(str(value))
    except ValueError as error:
        _refuse(position, f"is a Decimal that cannot be converted: {error}")


def _from_datetime(value: Any, position: _Position) -> str:
    """Return a time as RFC 3339, in UTC if its offset is not in whole minutes; InputError if it has
    no zone, or if its year in UTC is not one of four digits.
    """
    offset = value.utcoffset()
    if offset is None:
        _refuse(position, "is a time without a time zone: add one")
    if offset.microseconds or offset.seconds % 60:
        from datetime import UTC

        try:
            value = value.astimezone(UTC)  # RFC 3339 has no seconds in an offset
        except OverflowError:
            _refuse(position, "is a time whose year in UTC is before 1 or after 9999")
    text: str = value.isoformat()
    return text[: -len("+00:00")] + "Z" if text.endswith("+00:00") else text


_WRITTEN: Final = (
    ("decimal", "Decimal", _from_decimal),
    ("datetime", "datetime", _from_datetime),
    ("datetime", "date", lambda value, _place: value.isoformat()),
    ("uuid", "UUID", lambda value, _place: str(value)),
)
"""Classes of the standard library that are converted to a text or number, and the function
for it.
"""


def _fields_of(value: Any) -> Any:
    """Return a dict of the fields of a dataclass, or the dumped form of a pydantic model; None for
    other values.
    """
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return value.model_dump()
    if hasattr(type(value), "__dataclass_fields__"):
        from dataclasses import fields

        return {field.name: getattr(value, field.name) for field in fields(value)}
    return None


def _to_object(value: Mapping[Any, Any], position: _Position) -> dict[Key, Value]:
    """Convert a mapping to an object. InputError for a class of mappings that can have several
    values for a key, such as a MultiDict, for two keys that are equal in Rego, and for a key or
    value that is not convertible.
    """
    # Multi-value mappings of web frameworks: a policy would see only one of the values.
    if hasattr(value, "getlist") or hasattr(value, "getall"):
        _refuse(position, f"is a {type(value).__name__}, which can have several values for one key")
    converted: dict[Key, Value] = {}
    for name, item in value.items():
        key = name
        if type(name) is not str:
            key = to_key(_convert(name, (None, f"{_position_text(position)} (a key)")))
        if key in converted:
            _refuse(position, f"has two keys that are {to_rego(from_key(key))}")
        converted[key] = _convert(item, (position, from_key(key)))
    return converted
