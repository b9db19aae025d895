"""The schemas of JSON Schema itself, of drafts 4, 6 and 7: a `$ref` may name one by its URL.

They are written here from their common parts, since nothing is fetched.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["DRAFTS", "metaschema"]

DRAFTS: Final = {f"http://json-schema.org/draft-0{n}/schema": n for n in (4, 6, 7)}
"""The URLs of the schemas, each with its draft."""

_KINDS: Final = ("array", "boolean", "integer", "null", "number", "object", "string")


def metaschema(address: str) -> dict[str, Any]:
    """Return a new document that is the schema of JSON Schema at `address`, one of the URLs in
    `DRAFTS` without a fragment; KeyError for another one.
    """
    draft = DRAFTS[address]
    document: dict[str, Any] = {
        "id" if draft == 4 else "$id": f"{address}#",
        "$schema": f"{address}#",
        "description" if draft == 4 else "title": "Core schema meta-schema",
        "definitions": _definitions(draft),
        "type": "object" if draft == 4 else ["object", "boolean"],
        "properties": {**_annotations(draft), **_limits(draft), **_parts(draft), **_values(draft)},
        "default": _any(draft),
    }
    if draft == 4:
        names = ("maximum", "minimum")
        document["dependencies"] = {f"exclusive{each.capitalize()}": [each] for each in names}
    return document


def _any(draft: int) -> Any:
    return True if draft == 7 else {}


def _refer(name: str) -> dict[str, Any]:
    return {"$ref": f"#/definitions/{name}"}


def _size(draft: int) -> str:
    """The name of the definition of a length."""
    return "positiveInteger" if draft == 4 else "nonNegativeInteger"


def _definitions(draft: int) -> dict[str, Any]:
    """Return the `definitions` of a draft's schema: the parts that several of its keywords refer
    to.
    """
    names: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    return {
        "schemaArray": {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
        _size(draft): {"type": "integer", "minimum": 0},
        f"{_size(draft)}Default0": {"allOf": [_refer(_size(draft)), {"default": 0}]},
        "simpleTypes": {"enum": list(_KINDS)},
        "stringArray": {**names, **({"minItems": 1} if draft == 4 else {"default": []})},
    }


def _annotations(draft: int) -> dict[str, Any]:
    """Return the properties in the schema of a draft (4, 6 or 7) that name and describe a schema,
    such as `title`, `default` and `$id` (`id` in draft 4).
    """
    text = {"type": "string"}
    properties: dict[str, Any] = {name: text for name in ("title", "description", "format")}
    properties["default"] = _any(draft)
    if draft == 4:
        return {**properties, "id": text, "$schema": text}
    reference = {"type": "string", "format": "uri-reference"}
    properties |= {
        "$id": reference,
        "$ref": reference,
        "$schema": {"type": "string", "format": "uri"},
    }
    properties["examples"] = {"type": "array", "items": _any(draft)}
    if draft == 7:
        properties |= {name: text for name in ("$comment", "contentMediaType", "contentEncoding")}
        properties["readOnly"] = {"type": "boolean", "default": False}
    return properties


def _limits(draft: int) -> dict[str, Any]:
    """Return the properties in the schema of a draft (4, 6 or 7) that bound a number or a size,
    such as `multipleOf`, `exclusiveMinimum` (a boolean in draft 4) and `maxItems`.
    """
    number = {"type": "number"}
    exclusive: dict[str, Any] = {"type": "boolean", "default": False} if draft == 4 else number
    above: dict[str, Any] = (
        {"minimum": 0, "exclusiveMinimum": True} if draft == 4 else {"exclusiveMinimum": 0}
    )
    properties: dict[str, Any] = {"multipleOf": {**number, **above}}
    for name in ("Maximum", "Minimum"):
        properties |= {name.lower(): number, f"exclusive{name}": exclusive}
    for name in ("Length", "Items", "Properties"):
        properties[f"max{name}"] = _refer(_size(draft))
        properties[f"min{name}"] = _refer(f"{_size(draft)}Default0")
    return properties


def _parts(draft: int) -> dict[str, Any]:
    """Return the properties in the schema of a draft (4, 6 or 7) whose values are schemas or
    contain them.
    """
    schema = {"$ref": "#"}
    other: dict[str, Any] = (
        {"anyOf": [{"type": "boolean"}, schema], "default": {}} if draft == 4 else schema
    )
    by_name: dict[str, Any] = {"type": "object", "additionalProperties": schema, "default": {}}
    dependency = {"anyOf": [schema, _refer("stringArray")]}
    properties: dict[str, Any] = {
        "additionalItems": other,
        "additionalProperties": other,
        "items": {"anyOf": [schema, _refer("schemaArray")], "default": _any(draft)},
        "definitions": by_name,
        "properties": by_name,
        "patternProperties": by_name,
        "dependencies": {"type": "object", "additionalProperties": dependency},
        "not": schema,
        **{name: _refer("schemaArray") for name in ("allOf", "anyOf", "oneOf")},
    }
    if draft >= 6:
        properties |= {"contains": schema, "propertyNames": schema}
    if draft == 7:
        properties |= {name: schema for name in ("if", "then", "else")}
        properties["patternProperties"] = {**by_name, "propertyNames": {"format": "regex"}}
    return properties


def _values(draft: int) -> dict[str, Any]:
    """Return the properties in the schema of a draft (4, 6 or 7) that say which values are valid:
    `pattern`, `uniqueItems`, `required`, `enum`, `type`, and `const` from draft 6 on.
    """
    several = {"type": "array", "minItems": 1, "uniqueItems": True}
    kind = _refer("simpleTypes")
    properties: dict[str, Any] = {
        "pattern": {"type": "string", "format": "regex"},
        "uniqueItems": {"type": "boolean", "default": False},
        "required": _refer("stringArray"),
        "enum": {**several, "items": True} if draft == 7 else several,
        "type": {"anyOf": [kind, {**several, "items": kind}]},
    }
    if draft >= 6:
        properties["const"] = _any(draft)
    return properties
