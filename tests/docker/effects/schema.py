"""The engine API's description becomes trees of fields: no list of fields stands in our code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

__all__ = ["DESCRIPTION", "Field", "body_field", "leaves", "query_names"]

DESCRIPTION: Final = Path("/usr/share/gocode/src/github.com/docker/docker/api/swagger.yaml")
"""Of Debian's package golang-github-docker-docker-dev."""
_MAX_DEPTH: Final = 12


@dataclass(frozen=True, slots=True)
class Field:
    """One node: `kind` is object, map, array, string, boolean, integer or number."""

    name: str
    kind: str
    values: tuple[Any, ...] = ()
    fields: tuple[Field, ...] = ()
    item: Field | None = None


def _description() -> dict[str, Any]:
    document = yaml.safe_load(DESCRIPTION.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


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
    parameters = document["paths"][path][method]["parameters"]
    [body] = [parameter for parameter in parameters if parameter["in"] == "body"]
    return _field(document, "", body["schema"], 0)


def query_names(path: str, method: str = "post") -> list[str]:
    """The parameters of a route's query."""
    parameters = _description()["paths"][path][method]["parameters"]
    return [parameter["name"] for parameter in parameters if parameter["in"] == "query"]


def leaves(field: Field, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of each field that has a value of its own."""
    here = (*path, field.name) if field.name else path
    if field.fields:
        for each in field.fields:
            yield from leaves(each, here)
    elif field.kind == "array" and field.item is not None and field.item.fields:
        for each in field.item.fields:
            yield from leaves(each, here)
    else:
        yield here
