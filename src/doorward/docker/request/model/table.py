"""`table.toml` as the types that bodies are read by, and the checks of their values.

A check gives None, or the fields of a value that are of no type with the words for each. It looks
at what is not zero only: of the some sixty fields that clients send, most are.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from doorward.docker.request.model.objects import OBJECTS
from doorward.docker.request.model.values import VALUES, ValueType, words_type
from doorward.docker.request.schema import LOOSE, Array, Map, Struct, Type, fold

__all__ = ["ROUTES", "STRUCTS", "Check", "Faults", "RouteModel", "check_query", "read_type"]

Faults: TypeAlias = list[tuple[str, str]]
Check: TypeAlias = Callable[[Any], Faults | None]

_TABLE: Final = tomllib.loads(Path(__file__).with_name("table.toml").read_text(encoding="utf-8"))
_MAP: Final = re.compile(r"map\[([a-z-]+)\](.+)")
_EMPTY_COUNTS: Final = frozenset(("MaskedPaths", "ReadonlyPaths"))
"""Fields whose empty list is not the daemon's default: it means that no path is protected."""
_STRUCTS: Final[dict[str, tuple[Struct, Check]]] = {}


def _item(prefix: str, faults: Faults) -> Faults:
    return [(prefix + name, text) for name, text in faults]


def _value_check(kind: ValueType) -> Check:
    accepts, fault = kind.accepts, [("", kind.text)]
    if kind.scalar == "boolean":
        return lambda _value: None

    def check(value: Any) -> Faults | None:
        return None if accepts(value) else fault

    return check


def _list_check(inner: Check) -> Check:
    def check(value: list[Any]) -> Faults | None:
        for item in value:
            if item and (faults := inner(item)):
                return _item("[]", faults)
        return None

    return check


def _map_check(key: ValueType, inner: Check) -> Check:
    accepts = key.accepts

    def check(value: dict[str, Any]) -> Faults | None:
        for name, item in value.items():
            if not accepts(name):
                return [("{}", f"named by {key.text}")]
            if item and (faults := inner(item)):
                return _item("{}", faults)
        return None

    return check


def _struct_check(checks: Mapping[str, Check], whole: str) -> Check:
    together = OBJECTS[whole] if whole else None

    def check(value: dict[str, Any]) -> Faults | None:
        wrong: Faults | None = None
        for name, item in value.items():
            if item or (name in _EMPTY_COUNTS and item is not None):
                inner = checks.get(name)
                if inner is not None and (faults := inner(item)):
                    wrong = wrong or []
                    wrong += [(f".{name}{rest}", text) for rest, text in faults]
        if together is not None and not wrong and (fault := together(value)):
            wrong = [(f".{fault[0]}", fault[1])]
        return wrong

    return check


def read_type(text: str) -> tuple[Type, Check]:
    """The type and the check that `text` names."""
    if text.startswith("[]"):
        inner, check = read_type(text[2:])
        return Array(inner), _list_check(check)
    if matched := _MAP.fullmatch(text):
        inner, check = read_type(matched[2])
        return Map(inner), _map_check(VALUES[matched[1]], check)
    if text[0].isupper():
        return _struct(text)
    kind = words_type(text) if text not in VALUES else VALUES[text]
    return kind.scalar, _value_check(kind)


def _struct(name: str) -> tuple[Struct, Check]:
    if name not in _STRUCTS:
        fields: dict[str, Type] = {}
        checks: dict[str, Check] = {}
        for field, text in _fields(name).items():
            fields[field], checks[field] = read_type(text)
        check = _struct_check(checks, _TABLE["objects"].get(name, ""))
        refused = _refused(fields) if name == "ContainerCreate" else frozenset()
        _STRUCTS[name] = Struct(name, fields, refused), check
    return _STRUCTS[name]


def _fields(name: str) -> dict[str, str]:
    base = _TABLE["extends"].get(name)
    return {**(_fields(base) if base else {}), **_TABLE["structs"][name]}


def _refused(fields: Mapping[str, Type]) -> frozenset[str]:
    """What the daemon reads at the top of the body where there is no HostConfig, or always."""
    names = {fold(name) for name in _fields("HostConfig")} | {"cpuset"}
    return frozenset(names - {fold(name) for name in fields})


class RouteModel(NamedTuple):
    """One route of the table."""

    method: str
    path: str
    action: str
    kind: str
    schema: Type
    body: Check | None
    name: Check | None
    """Of the name in the path."""
    query: Mapping[str, Check]


def _route(key: str, entry: Mapping[str, Any]) -> RouteModel:
    method, _, path = key.partition(" ")
    schema: Type = LOOSE
    body: Check | None = None
    if "body" in entry:
        schema, body = read_type(entry["body"])
    query = {name: read_type(text)[1] for name, text in entry.get("query", {}).items()}
    name = read_type(entry["name"])[1] if "name" in entry else None
    return RouteModel(
        method, path, entry["action"], entry.get("kind", "none"), schema, body, name, query
    )


ROUTES: Final = tuple(_route(key, entry) for key, entry in _TABLE["routes"].items())
for _name in _TABLE["structs"]:
    _struct(_name)
STRUCTS: Final[Mapping[str, Struct]] = {name: struct for name, (struct, _) in _STRUCTS.items()}


def check_query(checks: Mapping[str, Check], query: Mapping[str, list[str]]) -> Faults:
    """The parameters that are of no type; those that are not known are reported elsewhere."""
    faults: Faults = []
    for name, values in query.items():
        check = checks.get(name)
        for value in values:
            if check is not None and value and (wrong := check(value)):
                faults += [(f"query.{name}", text) for _, text in wrong]
                break
    return faults
