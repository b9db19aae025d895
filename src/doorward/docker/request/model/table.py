"""`table.toml` as the types and the readers of bodies, names and parameters.

The table is read once, when the plugin starts; a request meets only the closures of its own types.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from doorward.docker.request.model.objects import OBJECTS
from doorward.docker.request.model.readers import (
    Notes,
    Reader,
    judge,
    list_reader,
    map_reader,
    struct_reader,
    value_reader,
)
from doorward.docker.request.model.templates import Templates
from doorward.docker.request.model.values import VALUES, ValueType, words_type
from doorward.docker.request.schema import (
    LOOSE,
    Array,
    FractionError,
    Map,
    Struct,
    Type,
    fold,
    parse_json,
    read_compact,
)

__all__ = [
    "ROUTES",
    "STRUCTS",
    "VIEWS",
    "RouteModel",
    "read_body",
    "read_query",
    "read_type",
]

_TABLE: Final = tomllib.loads(Path(__file__).with_name("table.toml").read_text(encoding="utf-8"))
VIEWS: Final = frozenset(_TABLE["views"])
"""The views of a request that a policy can judge."""
_HARMLESS: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(values) for name, values in _TABLE["harmless"].items()
}
_MAP: Final = re.compile(r"map\[([a-z-]+)\](.+)")
_EMPTY_COUNTS: Final = frozenset(("MaskedPaths", "ReadonlyPaths"))
"""Fields whose empty list is not the daemon's default: it means that no path is protected."""
_MARK: Final = " @"
_STRUCTS: Final[dict[str, tuple[Struct, Reader]]] = {}


def read_type(text: str) -> tuple[Type, Reader]:
    """Return the type that a text of the table describes, and its reader. With ` @VIEW` at the end
    of the text, the reader also notes that a policy has to judge that view.
    """
    base, _, view = text.partition(_MARK)
    type_, reader = _read(base)
    if not view:
        return type_, reader
    assert view in VIEWS, view
    matched = _MAP.fullmatch(base)
    return type_, judge(reader, view, _HARMLESS.get(matched[1] if matched else base))


def _read(text: str) -> tuple[Type, Reader]:
    """Return the type that a text of the table without a view describes, and its reader."""
    if text.startswith("[]"):
        inner, reader = _read(text[2:])
        return Array(inner), list_reader(_value_type(text[2:]), reader)
    if matched := _MAP.fullmatch(text):
        inner, reader = _read(matched[2])
        scalar = inner if isinstance(inner, str) else None
        return Map(inner), map_reader(VALUES[matched[1]], scalar, reader)
    if text[0].isupper():
        return _struct(text)
    kind = _value_type(text)
    assert kind is not None, text
    return kind.scalar, value_reader(kind)


def _value_type(text: str) -> ValueType | None:
    """Return the type of single values that a text of the table names; None for the text of an
    array, map or struct.
    """
    if text[0].isupper() or text[0] == "[" or _MAP.fullmatch(text):
        return None
    return VALUES[text] if text in VALUES else words_type(text)


def _struct(name: str) -> tuple[Struct, Reader]:
    """Return the struct of a name with its reader, read from the table at its first use."""
    if name not in _STRUCTS:
        _STRUCTS[name] = _read_struct(name)
    return _STRUCTS[name]


def _read_struct(name: str) -> tuple[Struct, Reader]:
    """Return the type and the reader of a struct of the table by its name."""
    fields: dict[str, Type] = {}
    readers: dict[str, Reader] = {}
    empty_counts: dict[str, str] = {}
    for field, text in _fields(name).items():
        fields[field], reader = read_type(text)
        if text != "boolean":
            readers[field] = reader
        if field in _EMPTY_COUNTS:
            empty_counts[field] = text.partition(_MARK)[2]
    # Daemons up to 26 read the fields of a HostConfig at the top of the body as well.
    refused = _refused_fields(fields) if name == "ContainerCreate" else frozenset()
    struct = Struct(name, fields, refused)
    together = OBJECTS.get(_TABLE["objects"].get(name, ""))
    return struct, struct_reader(struct, readers, together, empty_counts)


_READ_LOOSE: Final = value_reader(ValueType("", LOOSE, "", lambda _value: True))


def _fields(name: str) -> dict[str, str]:
    """Return the fields of a structure and their types, with those of the structures that it
    extends.
    """
    base = _TABLE["extends"].get(name)
    return {**(_fields(base) if base else {}), **_TABLE["structs"][name]}


def _refused_fields(fields: Mapping[str, Type]) -> frozenset[str]:
    """Return, with their case folded, the names of fields that the daemon may read at the top of a
    body though they are not in `fields`: those of a HostConfig, and `cpuset`.
    """
    names = {fold(name) for name in _fields("HostConfig")} | {"cpuset"}
    return frozenset(names - {fold(name) for name in fields})


class RouteModel(NamedTuple):
    """The model of one route of the engine API: its action, and the readers of its name, query and
    body.
    """

    method: str
    path: str
    action: str
    kind: str
    schema: Type
    body: Reader | None
    name: Reader | None
    """Of the name in the path."""
    query: Mapping[str, Reader]
    judged: frozenset[str] = VIEWS
    """The views that a policy judges whatever the body says."""
    templates: Templates | None = None
    """Of bodies that differ little from each other."""


def _route(key: str, entry: Mapping[str, Any]) -> RouteModel:
    """Return the model of a route: its parameters, its body and their readers."""
    method, _, path = key.partition(" ")
    schema: Type = LOOSE
    body: Reader | None = None
    if "body" in entry:
        schema, body = read_type(entry["body"])
    query = {name: read_type(text)[1] for name, text in entry.get("query", {}).items()}
    name = read_type(entry["name"])[1] if "name" in entry else None
    kind = entry.get("kind", "none")
    judged = frozenset(entry.get("judged", VIEWS))
    templates = _templates(entry["body"]) if entry.get("body") == "ContainerCreate" else None
    return RouteModel(
        method, path, entry["action"], kind, schema, body, name, query, judged, templates
    )


def _templates(name: str) -> Templates:
    struct, read = _struct(name)
    return Templates(struct, read, read_type(_fields("HostConfig")["Binds"])[1])


ROUTES: Final = tuple(_route(key, entry) for key, entry in _TABLE["routes"].items())
for _name in _TABLE["structs"]:
    _struct(_name)
STRUCTS: Final[Mapping[str, Struct]] = {name: struct for name, (struct, _) in _STRUCTS.items()}


def read_body(
    body: bytes, read: Reader | None, notes: Notes, templates: Templates | None = None
) -> Any:
    """Return the JSON value in `body`, read by `read`, or faster by one of the `templates` if it
    fits. Raise RequestError if it is malformed, ambiguous or of other types; faults and unknown
    fields are added to `notes`.
    """
    read = read or _READ_LOOSE
    if templates is not None:
        value = templates.read(body, notes)
        if value is not None:
            return value
    value = read_compact(body)
    if value is not None:
        unknown, faults = len(notes.unknown), len(notes.faults)
        try:
            return read(value, notes, "")
        except FractionError:
            pass  # the texts of its numbers are needed
        # What the broken-off reading noted would be noted twice.
        del notes.unknown[unknown:], notes.faults[faults:]
    return read(parse_json(body), notes, "")


def read_query(readers: Mapping[str, Reader], query: Mapping[str, list[str]], notes: Notes) -> None:
    """Note the parameters of a query that are unknown, and as faults the values that their types do
    not accept.
    """
    for name, values in query.items():
        if name not in readers:
            notes.unknown.append(f"query.{name[:80]}")
            continue
        for value in values:
            if value:
                readers[name](value, notes, f"query.{name}")
