"""What jsonschema finds, in the words and the order of the library that OPA uses.

An error has the keys error, type, field and desc; `field` is the path with dots, `(Root)` for the
document itself. A value of the wrong type is not looked at any further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from doorward.rego.builtins.patterns import matcher
from doorward.rego.numbers import number_text
from doorward.rego.values import Value, to_json

__all__ = ["explain", "in_order"]

_ORDER: Final = (
    "$ref",
    "type",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "dependencies",
    "if",
    "items",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minProperties",
    "maxProperties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "minLength",
    "maxLength",
    "pattern",
    "const",
    "enum",
    "format",
    "properties",
)
_RANK: Final = {name: rank for rank, name in enumerate(_ORDER)}


def in_order(schema: Any) -> Any:
    """The schema with its keywords in the order in which they are to be looked at."""
    if isinstance(schema, list):
        return [in_order(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    names = sorted(schema, key=lambda name: (_RANK.get(name, len(_RANK)), name))
    return {name: in_order(schema[name]) for name in names}


_READ: Final = 10
"""How many times the limit is read, since not all that is wrong is listed."""


def explain(errors: Iterable[Any], limit: int, look: Callable[[], None]) -> list[Value]:
    """The first `limit` findings, as objects. `look` is called at each."""
    found: list[Value] = []
    for error in _relevant(list(islice(errors, _READ * limit))):
        look()
        for kind, field, text in _findings(error):
            found.append({"error": f"{field}: {text}", "type": kind, "field": field, "desc": text})
            if len(found) == limit:
                return found
    return found


def _relevant(errors: list[Any]) -> Iterator[Any]:
    """Without what a schema says further of a value that is of the wrong type."""
    mistyped = {
        (tuple(error.absolute_path), tuple(error.absolute_schema_path)[:-1])
        for error in errors
        if error.validator == "type"
    }
    for error in errors:
        place, schema = tuple(error.absolute_path), tuple(error.absolute_schema_path)
        if error.validator == "type" or not any(
            (place, schema[:length]) in mistyped for length in range(len(schema) + 1)
        ):
            yield error


_Finding = tuple[str, str, str]


def _findings(error: Any) -> Iterator[_Finding]:
    field = ".".join(map(str, error.absolute_path)) or "(Root)"
    several = _SEVERAL.get(error.validator)
    if several:
        for kind, text in several(error):
            yield kind, field, text
    else:
        kind, words = _ONE.get(error.validator, ("invalid", "Does not match the schema"))
        yield kind, field, words.format(limit=_text(error.validator_value), field=field)
    if error.validator in {"anyOf", "oneOf", "contains"}:
        yield from _nearest(error)
    elif error.validator in {"if", "propertyNames"}:
        for inner in _relevant(error.context):
            yield from _findings(inner)


def _text(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number_text(value)
    return value if isinstance(value, str) else to_json(value)


_ONE: Final = {
    "allOf": ("number_all_of", "Must validate all the schemas (allOf)"),
    "anyOf": ("number_any_of", "Must validate at least one schema (anyOf)"),
    "oneOf": ("number_one_of", "Must validate one and only one schema (oneOf)"),
    "not": ("number_not", "Must not validate the schema (not)"),
    "const": ("const", "{field} does not match: {limit}"),
    "contains": ("contains", "At least one of the items must match"),
    "exclusiveMaximum": ("number_lt", "Must be less than {limit}"),
    "exclusiveMinimum": ("number_gt", "Must be greater than {limit}"),
    "format": ("format", "Does not match format '{limit}'"),
    "maxItems": ("array_max_items", "Array must have at most {limit} items"),
    "maxLength": ("string_lte", "String length must be less than or equal to {limit}"),
    "maxProperties": ("array_max_properties", "Must have at most {limit} properties"),
    "minItems": ("array_min_items", "Array must have at least {limit} items"),
    "minLength": ("string_gte", "String length must be greater than or equal to {limit}"),
    "minProperties": ("array_min_properties", "Must have at least {limit} properties"),
    "multipleOf": ("multiple_of", "Must be a multiple of {limit}"),
    "pattern": ("pattern", "Does not match pattern '{limit}'"),
    "additionalItems": ("array_no_additional_items", "No additional items allowed on array"),
}


def _nearest(error: Any) -> Iterator[_Finding]:
    """What is wrong with the alternative that comes nearest."""
    branches: dict[Any, list[Any]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    if not branches:
        return
    best = min(branches.values(), key=lambda found: (found[0].validator == "type", len(found)))
    for inner in _relevant(best):
        yield from _findings(inner)


def _type(error: Any) -> Iterator[tuple[str, str]]:
    wanted = error.validator_value
    expected = "/".join(wanted) if isinstance(wanted, list) else wanted
    yield "invalid_type", f"Invalid type. Expected: {expected}, given: {_kind(error.instance)}"


def _kind(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "integer" if value == int(value) else "number"
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names[type(value)]


def _enum(error: Any) -> Iterator[tuple[str, str]]:
    field = ".".join(map(str, error.absolute_path)) or "(Root)"
    values = ", ".join([to_json(value) for value in error.validator_value])
    yield "enum", f"{field} must be one of the following: {values}"


def _required(error: Any) -> Iterator[tuple[str, str]]:
    # One error comes for each name; its message begins with the name's repr.
    for name in error.validator_value:
        if error.message.startswith(f"{name!r} "):
            yield "required", f"{name} is required"


def _dependencies(error: Any) -> Iterator[tuple[str, str]]:
    wanted = [names for names in error.validator_value.values() if isinstance(names, list)]
    missing = [n for names in wanted for n in names if error.message.startswith(f"{n!r} ")]
    yield "missing_dependency", f"Has a dependency on {missing[0]}"


def _additional_properties(error: Any) -> Iterator[tuple[str, str]]:
    schema = error.schema
    patterns = [matcher(pattern) for pattern in schema.get("patternProperties", {})]
    for name in sorted(error.instance):
        if name not in schema.get("properties", {}) and not any(match(name) for match in patterns):
            text = f"Additional property {name} is not allowed"
            yield "additional_property_not_allowed", text


def _unique_items(error: Any) -> Iterator[tuple[str, str]]:
    yield "unique", f"array items[{error.message}] must be unique"


def _if(error: Any) -> Iterator[tuple[str, str]]:
    was = "valid" if error.message == "then" else "not valid"
    yield f"condition_{error.message}", f'Must validate "{error.message}" as "if" was {was}'


def _property_names(error: Any) -> Iterator[tuple[str, str]]:
    yield "invalid_property_name", f"Property name of {to_json(error.message)} does not match"


def _limit(kind: str, exclusive: str, words: str) -> Callable[[Any], Iterator[tuple[str, str]]]:
    """A limit that draft 4 makes exclusive by a boolean beside it."""

    def finding(error: Any) -> Iterator[tuple[str, str]]:
        limit = _text(error.validator_value)
        if error.schema.get(f"exclusive{error.validator.capitalize()}") is True:
            yield exclusive, f"Must be {words} than {limit}"
        else:
            yield kind, f"Must be {words} than or equal to {limit}"

    return finding


_SEVERAL: Final[dict[str, Callable[[Any], Iterator[tuple[str, str]]]]] = {
    "additionalProperties": _additional_properties,
    "dependencies": _dependencies,
    "enum": _enum,
    "if": _if,
    "maximum": _limit("number_lte", "number_lt", "less"),
    "minimum": _limit("number_gte", "number_gt", "greater"),
    "propertyNames": _property_names,
    "required": _required,
    "type": _type,
    "uniqueItems": _unique_items,
}
