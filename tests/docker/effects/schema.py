"""The engine API's description becomes trees of fields: no list of fields stands in our code.

Bodies and parameters come from Docker's own `swagger.yaml`. The daemon reads a few parameters that
the description leaves out: those come from the source of its routers, in the same package.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

__all__ = [
    "DESCRIPTION",
    "Field",
    "Path_",
    "body_field",
    "body_routes",
    "leaves",
    "log_options",
    "parameters",
    "source_parameters",
]

SOURCE: Final = Path("/usr/share/gocode/src/github.com/docker/docker")
DESCRIPTION: Final = SOURCE / "api/swagger.yaml"
"""Of Debian's package golang-github-docker-docker-dev."""
_MAX_DEPTH: Final = 12
Path_ = tuple[str, ...]
"""The names on the way to a field; those of array items have none of their own."""


@dataclass(frozen=True, slots=True)
class Field:
    """One node: `kind` is object, map, array, string, boolean, integer or number."""

    name: str
    kind: str
    values: tuple[Any, ...] = ()
    fields: tuple[Field, ...] = ()
    item: Field | None = None


@functools.cache
def _description() -> dict[str, Any]:
    document = yaml.load(DESCRIPTION.read_text(encoding="utf-8"), Loader=_Loader)
    assert isinstance(document, dict)
    return document


_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _resolve(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        schema = dict(document["definitions"][name])
    return schema


def _properties(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Of a schema and of those that it is made of."""
    properties: dict[str, Any] = {}
    for part in schema.get("allOf", ()):
        properties |= _properties(document, _resolve(document, part))
    properties |= schema.get("properties", {})
    return properties


def _field(document: dict[str, Any], name: str, schema: dict[str, Any], depth: int) -> Field:
    schema = _resolve(document, schema)
    kind = schema.get("type", "object")
    if depth > _MAX_DEPTH:
        return Field(name, "object")
    if kind == "array":
        return Field(name, "array", item=_field(document, name, schema["items"], depth + 1))
    properties = _properties(document, schema)
    if properties:
        fields = tuple(_field(document, k, v, depth + 1) for k, v in properties.items())
        return Field(name, "object", fields=fields)
    if kind == "object":
        inner = schema.get("additionalProperties")
        item = _field(document, name, inner, depth + 1) if isinstance(inner, dict) else None
        return Field(name, "map", item=item)
    return Field(name, kind, values=tuple(schema.get("enum", ())))


def body_field(path: str, method: str = "post") -> Field:
    """The body of a route."""
    document = _description()
    [body] = [each for each in document["paths"][path][method]["parameters"] if _is_body(each)]
    return _field(document, "", body["schema"], 0)


def _is_body(parameter: dict[str, Any]) -> bool:
    return bool(parameter["in"] == "body" and parameter["schema"].get("format") != "binary")


def body_routes() -> list[tuple[str, str]]:
    """Every method and path whose body is an object."""
    return [
        (method, path)
        for path, methods in _description()["paths"].items()
        for method, operation in methods.items()
        if any(_is_body(each) for each in operation.get("parameters", ()))
        if body_field(path, method).fields
    ]


def parameters(path: str, method: str = "post") -> list[str]:
    """The names in a route's query, of the description and of the daemon's source."""
    operation = _description()["paths"][path][method]
    named = [each["name"] for each in operation["parameters"] if each["in"] == "query"]
    return sorted({*named, *source_parameters(path, method)})


_ROUTE: Final = re.compile(r'New(\w+)Route\("([^"]+)",\s*\w+\.(\w+)')
_FUNCTION: Final = re.compile(r"^func (?:\([^)]*\) )?(\w+)\(", re.MULTILINE)
_READ: Final = re.compile(
    r"(?:r\.Form(?:Value\(|\.Get\(|\[)|Value(?:OrZero|OrDefault)?\(r, )\"([^\"]+)\""
)


@functools.cache
def source_parameters(path: str, method: str) -> frozenset[str]:
    """What the daemon's code for a route reads of the query: empty without the source."""
    wanted = re.sub(r"\{\w+\}", "{name:.*}", path)
    for folder in sorted((SOURCE / "api/server/router").glob("*/")):
        text = "\n".join(file.read_text() for file in sorted(folder.glob("*.go")))
        for verb, route, handler in _ROUTE.findall(text):
            if (verb.lower(), route) == (method, wanted):
                return _read_by(_functions(text), handler, set())
    return frozenset()


def _functions(text: str) -> dict[str, str]:
    starts = [(each.start(), each[1]) for each in _FUNCTION.finditer(text)]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    return {name: text[start:end] for (start, name), end in zip(starts, ends, strict=True)}


def _read_by(functions: dict[str, str], name: str, seen: set[str]) -> frozenset[str]:
    """The parameters that a function reads, and those that it calls with the request."""
    seen.add(name)
    code = functions.get(name, "")
    names = set(_READ.findall(code))
    for other in functions.keys() - seen:
        if re.search(rf"\b{other}\([^)]*\br\b", code):
            names |= _read_by(functions, other, seen)
    return frozenset(names)


_OPTION: Final = re.compile(r'"([a-z]+(?:-[a-z0-9]+)+)"')


@functools.cache
def log_options() -> dict[str, tuple[str, ...]]:
    """The options that each log driver's source names."""
    options: dict[str, tuple[str, ...]] = {}
    for folder in sorted((SOURCE / "daemon/logger").glob("*/")):
        files = [each for each in sorted(folder.glob("*.go")) if "_test" not in each.name]
        names = {name for file in files for name in _OPTION.findall(file.read_text())}
        if names:
            options[folder.name.removesuffix("log")] = tuple(sorted(names))
    return options


def leaves(field: Field, path: Path_ = ()) -> Iterator[Path_]:
    """The path of each field that has a value of its own."""
    here = (*path, field.name) if field.name else path
    inner = field.item if field.kind in ("array", "map") else field
    while inner is not None and inner.kind in ("array", "map"):
        inner = inner.item
    if inner is not None and inner.fields:
        for each in inner.fields:
            yield from leaves(each, here)
    else:
        yield here
