"""Operands of the built-ins for JSON Schema become documents and schemas, kept once prepared."""

from __future__ import annotations

from functools import lru_cache

from doorward.rego.builtins.json_schema.reader import read_schema
from doorward.rego.builtins.json_schema.rules import Schema
from doorward.rego.builtins.registry.context import Context
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.json import marshal, unmarshal
from doorward.rego.values import Value

__all__ = ["prepare_schema", "read_json"]


def read_json(value: Value) -> Value:
    """The document itself; a string is parsed as JSON. BuiltinError for invalid JSON."""
    if isinstance(value, str):
        try:
            return unmarshal(value)
        except BuiltinError:
            raise BuiltinError("invalid JSON string") from None
    if not isinstance(value, (dict, list)):
        raise BuiltinError("wrong type, expected string or object")
    return value


def prepare_schema(context: Context, schema: Value) -> Schema:
    """Compile a schema for matching documents; BuiltinError for an invalid one."""
    text = _canonical(schema) if isinstance(schema, str) else marshal(read_json(schema))
    with context.enforce_deadline(len(text)):
        return _cached_schema(text)


@lru_cache(maxsize=64)
def _canonical(text: str) -> str:
    """The JSON that a string holds, as it is written where it was an object."""
    return marshal(read_json(text))


@lru_cache(maxsize=64)
def _cached_schema(text: str) -> Schema:
    """Compile the schema in a JSON text; LimitError if it is nested too deeply."""
    try:
        return read_schema(unmarshal(text))
    except RecursionError:
        raise LimitError("schema is nested too deeply") from None
