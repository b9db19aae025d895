"""Readers, one closure for each type: JSON becomes what Go's decoder makes of it, and is judged.

A reader gets a value of JSON, `Notes` and the path of the value. It gives the value with Go's field
names (MalformedRequestError for another class than the daemon's), and notes the fields that it does
not know, the values that are of no type, and the views that a policy has to judge. What is zero is
the daemon's default: of the some sixty fields that clients send, most are, and cost nothing here.
What a value holds becomes part of the result and may be changed: nobody else may have it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from doorward.base.records import mutable
from doorward.docker.request.errors import AmbiguousRequestError, MalformedRequestError
from doorward.docker.request.model.values import ValueType
from doorward.docker.request.schema import (
    BOOLEAN,
    INTEGER,
    LOOSE,
    STRING,
    WORDS,
    FractionError,
    Scalar,
    Struct,
    fold,
)

if TYPE_CHECKING:
    from doorward.docker.request.model.templates import Template

__all__ = [
    "Fault",
    "Notes",
    "Reader",
    "judge",
    "list_reader",
    "map_reader",
    "struct_reader",
    "value_reader",
]

MAX_DEPTH: Final = 64
"""Deeper than any body of the engine API, and shallow enough for every reader."""
MOST_ITEMS: Final = 16_384
"""Of one array or object: more than any client sends, and few enough for every policy."""
_MOST_FIELDS: Final = 128
_MOST_SHAPES: Final = 64
"""Of one struct, that are remembered."""
_CLASS: Final[Mapping[str, type]] = {STRING: str, BOOLEAN: bool, INTEGER: int}
_ZERO: Final[Mapping[str, Any]] = {STRING: "", BOOLEAN: False, INTEGER: 0}
_KIND_NAMES: Final[Mapping[type, str]] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer in range",
    list: "an array",
    dict: "an object",
}
_SCALARS: Final = frozenset((str, bool, int))
# From Go's least int64 to its largest uint64: the daemon has fields of both kinds.
_MIN: Final = -(2**63)
_MAX: Final = 2**64


@mutable
class Notes:
    """The findings that readers collect while they read one request: unknown fields, faults, and
    views that a policy has to judge.
    """

    unknown: list[str] = field(default_factory=list)
    """Paths of fields that a newer daemon may know."""
    faults: list[tuple[str, str]] = field(default_factory=list)
    """Paths of values that their types do not accept, each with the form they must have."""
    views: set[str] = field(default_factory=set)
    """The views with a value that is not harmless."""
    template: Template | None = field(default=None, compare=False)
    """The template that the body was read by; None if it was read in full."""
    host: Any = field(default=None, compare=False)
    """The `HostConfig` of such a body, as it was read."""


Reader: TypeAlias = Callable[[Any, Notes, str], Any]
Fault: TypeAlias = tuple[str, str] | None


def _mismatch(path: str, why: str) -> MalformedRequestError:
    """Return the error for the field at `path`; "" is the whole body."""
    return MalformedRequestError(f"body field {path or '(whole)'} {why}")


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _check_count(value: Any, path: str) -> None:
    """Raise MalformedRequestError if a list or object has more than `MOST_ITEMS` items."""
    if len(value) > MOST_ITEMS:
        raise _mismatch(path, f"holds more than {MOST_ITEMS} items")


# Single values


def value_reader(kind: ValueType) -> Reader:
    """Return the reader of a single value.

    It raises MalformedRequestError for another JSON class, and notes a fault for a value that the
    type does not accept. null and empty values always pass.
    """
    if kind.scalar == LOOSE:
        return _loose_reader(kind)
    if kind.scalar == WORDS:
        return _words_reader(kind)
    accepts, text, class_ = kind.accepts, kind.text, _CLASS[kind.scalar]
    if class_ is int:
        return _integer_reader(kind)

    def read(value: Any, notes: Notes, at: str) -> Any:
        """Return the value if it is None or of the JSON class; raise MalformedRequestError
        otherwise. A value that the type does not accept is added to `notes.faults`.
        """
        if type(value) is not class_ and value is not None:
            raise _mismatch(at, f"must be {_KIND_NAMES[class_]}")
        if value and not accepts(value):
            notes.faults.append((at, text))
        return value

    return read


def _integer_reader(kind: ValueType) -> Reader:
    """Return a reader of integers and null.

    The reader raises MalformedRequestError for another type and for an integer beyond 64 bits. An
    integer that `kind` does not accept, other than 0, is added to the faults of its `Notes`.
    """
    accepts, text = kind.accepts, kind.text

    def read(value: Any, notes: Notes, at: str) -> Any:
        """Return the value if it is None or an integer of 64 bits; raise MalformedRequestError
        otherwise. A value that the type does not accept is added to `notes.faults`.
        """
        if value is None:
            return None
        if type(value) is not int or not _MIN <= value < _MAX:
            raise _mismatch(at, f"must be {_KIND_NAMES[int]}")
        if value and not accepts(value):
            notes.faults.append((at, text))
        return value

    return read


def _loose_reader(kind: ValueType) -> Reader:
    """Return a reader of values of any JSON type; it notes a fault for one that `kind` does not
    accept. It raises AmbiguousRequestError, FractionError or MalformedRequestError for a value that
    readers may read differently.
    """
    accepts, text = kind.accepts, kind.text

    def read(value: Any, notes: Notes, at: str) -> Any:
        """Return the value, whatever its JSON type; `check_loose` raises for one that readers may
        read differently. A value that the type does not accept is added to `notes.faults`.
        """
        check_loose(value, at)
        if value and not accepts(value):
            notes.faults.append((at, text))
        return value

    return read


def _words_reader(kind: ValueType) -> Reader:
    """Return the reader of an array of strings that may also be one string, which is read as an
    array of one.
    """
    read_list = list_reader(ValueType("", STRING, "", bool), _accept)
    accepts, text = kind.accepts, kind.text

    def read(value: Any, notes: Notes, at: str) -> Any:
        """Return the value as a list of strings, a string as a list of one, or None for null; raise
        MalformedRequestError for another type or other items. A list that the type does not accept
        is added to `notes.faults`.
        """
        words = [value] if type(value) is str else read_list(value, notes, at)
        if words and not accepts(words):
            notes.faults.append((at, text))
        return words

    return read


def _accept(value: Any, _notes: Notes, _at: str) -> Any:
    return value


def check_loose(value: Any, path: str, depth: int = 1) -> None:
    """Raise an error for a value of any form that two JSON readers may read differently.

    AmbiguousRequestError for keys that differ only in case, FractionError for fractions, and
    MalformedRequestError for deep nesting, too many members and numbers out of range. `path` names
    the value in the message.
    """
    if depth > MAX_DEPTH:
        raise MalformedRequestError(f"body is nested deeper than {MAX_DEPTH} levels")
    if type(value) in (dict, list):
        _check_count(value, path)
    if type(value) is dict:
        folded = {fold(key) for key in value if type(key) is str}
        # Go's decoder takes fields in any case, and the last one wins: a policy would see both.
        if len(folded) != len(value):
            raise AmbiguousRequestError(f"body names a field of {path or 'its top level'} twice")
        for item in value.values():
            check_loose(item, path, depth + 1)
    elif type(value) is list:
        for item in value:
            check_loose(item, path, depth + 1)
    elif type(value) is float:
        raise FractionError
    elif isinstance(value, float) and not math.isfinite(value):
        raise MalformedRequestError("body has a number that is out of range")


# Arrays and maps


def list_reader(item: ValueType | None, inner: Reader) -> Reader:
    """Return the reader of an array, with `inner` for its items; `item` is the type of single
    values, None for others.
    """
    if item is not None and item.scalar == STRING:
        return _text_list_reader(item)

    def read(value: Any, notes: Notes, at: str) -> Any:
        """Return the list with each item read, or None for null; raise MalformedRequestError for
        another type or too many items.
        """
        if value is None:
            return None
        if type(value) is not list:
            raise _mismatch(at, "must be an array")
        _check_count(value, at)
        path = f"{at}[]"
        return [inner(each, notes, path) for each in value]

    return read


def _text_list_reader(item: ValueType) -> Reader:
    """Return the reader of an array of texts of the type `item`. A text that the type does not
    accept is noted as a fault, only the first one of an array; "" and null always pass.
    """
    accepts, text = item.accepts, item.text

    def read(value: Any, notes: Notes, at: str) -> Any:
        """Return the list with "" in place of each null, or None for null; raise
        MalformedRequestError for another type, other items or too many items. The first item that
        the type does not accept is added to `notes.faults`.
        """
        if value is None:
            return None
        if type(value) is not list:
            raise _mismatch(at, "must be an array")
        _check_count(value, at)
        for each in value:
            if type(each) is not str:
                if each is not None:
                    raise _mismatch(at, "must hold strings only")
                value = ["" if each is None else each for each in value]
        for each in value:
            if each and not accepts(each):
                notes.faults.append((f"{at}[]", text))
                break
        return value

    return read


def map_reader(key: ValueType, scalar: Scalar | None, inner: Reader) -> Reader:
    """Return the reader of an object whose keys the user chooses; `inner` reads each value.

    Keys that `key` does not accept are noted as faults. A null value becomes the empty value of
    `scalar`, as in Go; `scalar` is None if values are objects.
    """
    accepts, text = key.accepts, f"named by {key.text}"
    zero = _ZERO.get(scalar) if scalar is not None else None

    def read(value: Any, notes: Notes, at: str) -> Any:
        """Return the object with each value read and the zero value in place of null, or None for
        null; raise MalformedRequestError for another type or too many members. Keys that are not
        accepted are added to `notes.faults`.
        """
        if value is None:
            return None
        if type(value) is not dict:
            raise _mismatch(at, "must be an object")
        _check_count(value, at)
        path = at + "{}"
        members = {}
        for name, item in value.items():
            if not accepts(name):
                notes.faults.append((path, text))
            known = inner(item, notes, path)
            members[name] = zero if known is None else known
        return members

    return read


# Structs


class _Shapes:
    """A cache of the shapes of objects (names and JSON classes of their fields) that
    `_check_classes` accepted, each with the names of its null fields. The same client sends the
    same shape each time.
    """

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[tuple[Any, ...], tuple[str, ...]] = {}

    def add(self, shape: tuple[Any, ...], nulls: tuple[str, ...]) -> None:
        """Store a shape with the names of its null fields; a full cache is emptied first."""
        if len(self.known) >= _MOST_SHAPES:
            self.known.clear()
        self.known[shape] = nulls


def struct_reader(
    struct: Struct,
    readers: Mapping[str, Reader],
    together: Callable[[Mapping[str, Any]], Fault] | None,
    empty_counts: Mapping[str, str],
) -> Reader:
    """Return the reader of an object with the fields of `struct`; `readers` has the readers of
    fields by name, and a field without one is taken as it is.

    `together` checks fields against each other, if each alone has no fault; None: nothing to check.
    `empty_counts` names, for each field whose empty array has a meaning, the view that a policy
    must judge if the field is there.
    """
    shapes = _Shapes()
    known = shapes.known

    def read(value: Any, notes: Notes, at: str) -> Any:
        """Return the object with each field read, under Go's field names and without nulls that
        mean nothing; None for null. The object is changed in place unless a field has to be
        renamed.

        Raise MalformedRequestError for another type and too many members, AmbiguousRequestError for
        a field that is named twice. Faults, unknown fields and views to judge are added to `notes`.
        """
        if value is None:
            return None
        if type(value) is not dict:
            raise _mismatch(at, "must be an object")
        # Read in place: bodies have some sixty fields, and nobody else has this object.
        keyed = value
        before = len(notes.faults)
        # Not of large objects: clients choose the names, and a shape holds them all.
        shape = (*keyed, *map(type, keyed.values())) if len(keyed) <= _MOST_FIELDS else ()
        nulls = known.get(shape)
        if nulls is None:
            _check_count(keyed, at)
            if not keyed.keys() <= struct.fields.keys():
                keyed, shape = _rename(keyed, struct, notes.unknown, at), ()
            nulls, is_usual = _check_classes(keyed, struct, at)
            if shape and is_usual:
                shapes.add(shape, nulls)
        # To Go null leaves a field at its zero value, as if it had not been sent.
        for name in nulls:
            del keyed[name]
        # A list, since readers replace values while the object is gone through.
        for name in [*compress(keyed, keyed.values())]:
            reader = readers.get(name)
            if reader is not None:
                keyed[name] = reader(keyed[name], notes, f"{at}.{name}" if at else name)
        for name, view in empty_counts.items():
            if keyed.get(name) is not None:
                notes.views.add(view)
        if (
            together is not None
            and len(notes.faults) == before
            and (fault := together(keyed)) is not None
        ):
            notes.faults.append((_at(at, fault[0]), fault[1]))
        return keyed

    return read


def _check_classes(
    keyed: dict[str, Any], struct: Struct, path: str
) -> tuple[tuple[str, ...], bool]:
    """Check the JSON classes of an object's fields. In `keyed`, an empty value of a field that may
    have several types is replaced by the one that stands for it.

    Return the names of null fields that Go leaves at their zero value, and True if any other object
    with these names and classes is right too. Raise MalformedRequestError for a wrong class.
    """
    nulls: list[str] = []
    is_usual = True
    for name, item in keyed.items():
        class_ = struct.classes.get(name)
        if item is None:
            if class_ in _SCALARS:
                nulls.append(name)
        elif class_ is None:
            is_usual = is_usual and type(item) is list
            if name in struct.fields and not item:
                keyed[name] = _check_empty(item, struct.fields[name], _at(path, name))
        elif type(item) is not class_:
            raise _mismatch(_at(path, name), f"must be {_KIND_NAMES[class_]}")
    return tuple(nulls), is_usual


def _check_empty(value: Any, type_: object, path: str) -> Any:
    """Check an empty value (`""`, `[]`, `{}`, 0 or false) of a field that may have several JSON
    types, and return it; `""` becomes `[""]` unless the field is LOOSE.

    Raise MalformedRequestError if `check_loose` does for a LOOSE field, and in any other field for
    a value that is neither `""` nor an array.
    """
    if type_ == LOOSE:
        check_loose(value, path)
        return value
    if value == "":
        return [""]
    if type(value) is not list:
        raise _mismatch(path, "must be an array")
    return value


def _rename(
    keyed: Mapping[str, Any], struct: Struct, unknown: list[str], path: str
) -> dict[str, Any]:
    """Return an object with its keys in the struct's spelling; the daemon ignores their case.

    Unknown keys stay and are added to `unknown`. Raise AmbiguousRequestError if two keys name the
    same field, or for a HostConfig field outside of HostConfig, and the errors of `check_loose` for
    the value of an unknown key: AmbiguousRequestError, FractionError or MalformedRequestError.
    """
    members: dict[str, Any] = {}
    folded: list[str] = []
    unknown_here: list[str] = []
    for key, item in keyed.items():
        name = key if key in struct.fields else struct.by_fold.get(fold(key))
        if name is None:
            if fold(key) in struct.refused:
                raise AmbiguousRequestError(
                    f"body has the field {fold(key)} outside of HostConfig: move it there"
                )
            check_loose(item, _at(path, "(unknown)"))
            unknown_here.append(key)
        elif key != name:
            folded.append(name)
        members[name or key] = item
    for name in folded:
        # No key was there twice as it is, so only one that was renamed can meet another.
        if name in keyed or folded.count(name) > 1:
            raise AmbiguousRequestError(f"body names the field {_at(path, name)} twice")
    if unknown_here:
        if len({fold(key) for key in unknown_here}) != len(unknown_here):
            raise AmbiguousRequestError(f"body names a field of {path or 'its top level'} twice")
        unknown += [_at(path, key[:80]) for key in unknown_here]
    return members


# What a policy judges


def judge(read: Reader, view: str, harmless: frozenset[str] | None) -> Reader:
    """Return a reader like `read` that also adds `view` to `notes.views`, so that a policy has to
    judge it, unless the value is harmless.

    `harmless` has the harmless strings or keys of an object; None if no value is harmless.
    """
    if harmless is None:

        def reader(value: Any, notes: Notes, at: str) -> Any:
            notes.views.add(view)
            return read(value, notes, at)

    else:

        def reader(value: Any, notes: Notes, at: str) -> Any:
            if not harmless.issuperset((value,) if type(value) is str else value):
                notes.views.add(view)
            return read(value, notes, at)

    return reader
