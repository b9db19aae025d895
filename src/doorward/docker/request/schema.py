"""The types of the engine API's bodies, and JSON brought into them the way Go's decoder reads it.

Go finds a struct's field by folding the case of the key (ASCII letters, and U+017F and U+212A,
which fold to `s` and `k`); the keys of a map stay as they are. `canonical` renames keys to Go's
field names, checks types as Go would, and refuses what two readers could read differently. What a
type does not know is kept under its own name and reported, since a newer daemon may know it.

Values are never interpreted here: that is for the views.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import orjson

from doorward.docker.request.errors import AmbiguousRequestError, MalformedRequestError
from doorward.rego import Value, from_json

__all__ = [
    "BOOLEAN",
    "INTEGER",
    "LOOSE",
    "STRING",
    "WORDS",
    "Array",
    "Map",
    "Scalar",
    "Struct",
    "Type",
    "canonical",
    "fold",
    "parse_json",
    "read_body",
    "read_compact",
]

MAX_DEPTH: Final = 64
"""Deeper than any body of the engine API, and shallow enough for every reader."""

Scalar: TypeAlias = Literal["string", "boolean", "integer", "words", "loose"]
STRING: Final = "string"
BOOLEAN: Final = "boolean"
INTEGER: Final = "integer"
WORDS: Final = "words"
"""An array of strings that may be given as one string."""
LOOSE: Final = "loose"
"""Whatever it is: kept as it is, after a check that no reader could confuse two of its keys."""


_CLASS: Final[Mapping[str, type]] = {STRING: str, BOOLEAN: bool, INTEGER: int}
_SHOWN: Final = {str: "a string", bool: "a boolean", int: "an integer in range"}
_MIN: Final = -(2**63)
_MAX: Final = 2**64


@dataclass(frozen=True, slots=True)
class Array:
    """A JSON array of one type."""

    item: Type


@dataclass(frozen=True, slots=True)
class Map:
    """An object whose keys are the user's: kept as they are."""

    item: Type


@dataclass(frozen=True, slots=True)
class Struct:
    """An object whose keys are field names; `fields` maps Go's name to the field's type.

    `refused` are names, folded, that the daemon reads at a place where no policy looks.
    """

    name: str
    fields: Mapping[str, Type]
    refused: frozenset[str] = frozenset()
    by_fold: Mapping[str, str] = field(init=False)
    classes: Mapping[str, type] = field(init=False)
    """What the JSON value of each field must be, for those that have one class only."""

    def __post_init__(self) -> None:
        classes = {name: _class_of(type_) for name, type_ in self.fields.items()}
        object.__setattr__(self, "classes", {n: c for n, c in classes.items() if c is not None})
        object.__setattr__(self, "by_fold", {fold(name): name for name in self.fields})


Type: TypeAlias = Scalar | Array | Map | Struct


def _class_of(type_: Type) -> type | None:
    if isinstance(type_, str):
        return _CLASS.get(type_)
    return list if isinstance(type_, Array) else dict


_FOLD: Final = str.maketrans({"\u017f": "s", "\u212a": "k"})
_ZERO: Final[Mapping[str, Value]] = {STRING: "", BOOLEAN: False, INTEGER: 0}
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def fold(key: str) -> str:
    """The key as Go's decoder compares it."""
    if key.isascii():
        return key.lower()
    return "".join([c.lower() if c.isascii() else c for c in key.translate(_FOLD)])


def parse_json(body: bytes) -> Value:
    """The one JSON value that `body` is, in strict UTF-8, with no key named twice."""
    try:
        value = from_json(body, unique_keys=True)
        if _SURROGATE.search(body):
            # A lone surrogate is not a character: Go puts a mark in its place, others fail.
            json.dumps(json.loads(body), ensure_ascii=False).encode()
        return value
    except UnicodeError:
        raise MalformedRequestError("body is not UTF-8") from None
    except ValueError as error:
        if "duplicate key" in str(error):
            raise AmbiguousRequestError("body names a key twice") from None
        raise MalformedRequestError("body is not one JSON value") from None


class _FractionError(Exception):
    """A number whose text was lost."""


def read_compact(content: bytes) -> Any:
    """The value of a JSON text as Go's encoder writes most of them; None for any other text.

    What becomes the same text again has no key twice, no number past 64 bits and nothing between
    its tokens. Only the text of a number with a fraction or an exponent is not kept.
    """
    try:
        value = orjson.loads(content)
        return value if orjson.dumps(value) == content.removesuffix(b"\n") else None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None


def read_body(body: bytes, type_: Type, unknown: list[str]) -> Any:
    """The JSON value that `body` is, as `canonical` gives it."""
    value, before = read_compact(body), len(unknown)
    if value is not None:
        try:
            return canonical(value, type_, unknown)
        except _FractionError:
            del unknown[before:]
    return canonical(parse_json(body), type_, unknown)


def canonical(value: Value, type_: Type, unknown: list[str], path: str = "", depth: int = 0) -> Any:
    """`value` with Go's field names; the paths of fields that are not known go into `unknown`.

    What `value` holds becomes part of the result, and may be changed: nobody else may have it.
    """
    if depth > MAX_DEPTH:
        raise MalformedRequestError("body is nested too deeply")
    if isinstance(type_, Struct):
        return _struct(value, type_, unknown, path, depth)
    if isinstance(type_, Array):
        return _array(value, type_, unknown, path, depth)
    if isinstance(type_, Map):
        return _map(value, type_, unknown, path, depth)
    if type_ == WORDS:
        return [value] if type(value) is str else _array(value, _STRINGS, unknown, path, depth)
    if type_ == LOOSE:
        _check_loose(value, path, depth)
        return value
    if type(value) is not _CLASS[type_] and value is not None:
        raise _mismatch(path, f"must be {_SHOWN[_CLASS[type_]]}")
    if type_ == INTEGER and value is not None and not _MIN <= value < _MAX:  # type: ignore[operator]  # an int by the line above
        raise _mismatch(path, "is out of range")
    return value


_STRINGS: Final = Array(STRING)


def _mismatch(path: str, why: str) -> MalformedRequestError:
    return MalformedRequestError(f"body field {path or '(whole)'} {why}")


def _struct(value: Value, type_: Struct, unknown: list[str], path: str, depth: int) -> Any:
    if value is None:
        return None
    if type(value) is not dict:
        raise _mismatch(path, "must be an object")
    keyed: dict[str, Any] = value  # type: ignore[assignment]  # JSON's keys are texts
    fields, classes = type_.fields, type_.classes
    if not keyed.keys() <= fields.keys():
        keyed = _renamed(keyed, type_, unknown, path, depth)
    nulls: list[str] = []
    for name, item in keyed.items():
        kind, class_ = type(item), classes.get(name)
        if kind is class_:
            if not item or class_ is str or class_ is bool:
                continue
            if class_ is not int:
                keyed[name] = canonical(item, fields[name], unknown, _at(path, name), depth + 1)
            elif not _MIN <= item < _MAX:
                raise _mismatch(_at(path, name), f"must be {_SHOWN[class_]}")
        elif item is None:
            if class_ in _SHOWN:
                nulls.append(name)  # to Go, null leaves a field as it is
        elif class_ in _SHOWN:
            raise _mismatch(_at(path, name), f"must be {_SHOWN[class_]}")
        elif name in fields:
            keyed[name] = canonical(item, fields[name], unknown, _at(path, name), depth + 1)
    for name in nulls:
        del keyed[name]
    return keyed


def _renamed(
    keyed: Mapping[str, Any], type_: Struct, unknown: list[str], path: str, depth: int
) -> dict[str, Any]:
    """An object under the names of its fields, with those that are not known as they are."""
    members: dict[str, Any] = {}
    folded: list[str] = []
    unknown_here: list[str] = []
    for key, item in keyed.items():
        name = key if key in type_.fields else type_.by_fold.get(fold(key))
        if name is None:
            _unknown(key, item, type_, path, depth)
            unknown_here.append(key)
        elif key != name:
            folded.append(name)
        members[name or key] = item
    if folded:
        _check_twice(keyed, type_, folded, path)
    if unknown_here:
        if len({fold(key) for key in unknown_here}) != len(unknown_here):
            raise AmbiguousRequestError(f"body names a field below {path or '(whole)'} twice")
        unknown += [_at(path, key[:80]) for key in unknown_here]
    return members


def _check_twice(value: Mapping[Any, Any], type_: Struct, folded: list[str], path: str) -> None:
    """No key was there twice as it is, so only one that was renamed can meet another."""
    for name in folded:
        if name in value or folded.count(name) > 1:
            raise AmbiguousRequestError(f"body names the field {_at(path, name)} twice")


def _unknown(key: str, item: Value, type_: Struct, path: str, depth: int) -> None:
    if fold(key) in type_.refused:
        raise AmbiguousRequestError("body has a HostConfig field outside of HostConfig")
    _check_loose(item, _at(path, None), depth + 1)


def _at(path: str, name: str | None) -> str:
    name = name or "(unknown)"
    return f"{path}.{name}" if path else name


def _array(value: Value, type_: Array, unknown: list[str], path: str, depth: int) -> Any:
    if value is None:
        return None
    if type(value) is not list:
        raise _mismatch(path, "must be an array")
    item_type = type_.item
    if item_type == STRING:
        for item in value:
            if type(item) is not str and item is not None:
                raise _mismatch(path, "must hold strings only")
        return ["" if item is None else item for item in value] if None in value else value
    return [
        canonical(item, item_type, unknown, f"{path}[{n}]", depth + 1)
        for n, item in enumerate(value)
    ]


def _map(value: Value, type_: Map, unknown: list[str], path: str, depth: int) -> Any:
    if value is None:
        return None
    if type(value) is not dict:
        raise _mismatch(path, "must be an object")
    item_type = type_.item
    zero = _ZERO.get(item_type) if isinstance(item_type, str) else None
    members = {}
    for key, item in value.items():
        inner = canonical(item, item_type, unknown, f"{path}[]", depth + 1)
        members[key] = zero if inner is None else inner
    return members


def _check_loose(value: Value, path: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise MalformedRequestError("body is nested too deeply")
    if type(value) is dict:
        folded = {fold(key) for key in value if type(key) is str}
        if len(folded) != len(value):
            raise AmbiguousRequestError(f"body names a field below {path or '(whole)'} twice")
        for item in value.values():
            _check_loose(item, path, depth + 1)
    elif type(value) is list:
        for item in value:
            _check_loose(item, path, depth + 1)
    elif type(value) is float:
        raise _FractionError
    elif isinstance(value, float) and not math.isfinite(value):
        raise MalformedRequestError("body has a number that is out of range")
