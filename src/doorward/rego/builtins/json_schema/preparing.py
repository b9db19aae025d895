"""Operands of the built-ins for JSON Schema become documents and schemas, kept once prepared."""

from __future__ import annotations

from functools import lru_cache

from doorward.rego.builtins.json_schema.reader import read_schema
from doorward.rego.builtins.json_schema.rules import Schema
from doorward.rego.builtins.registry.context import Context
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.json import is_valid, marshal, unmarshal
from doorward.rego.values import Value

__all__ = ["prepare_schema", "read_json"]


def read_json(value: Value) -> Value:
    """Return the document itself, or parse a string as JSON. BuiltinError for invalid JSON, or for
    a value that is not a string, object or array; LimitError for JSON that nests too deeply or has
    a number that is too large.
    """
    if isinstance(value, str):
        if not is_valid(value):  # `unmarshal` allows a `null` behind the value
            raise BuiltinError("invalid JSON string")
        return unmarshal(value)
    if not isinstance(value, (dict, list)):
        raise BuiltinError("wrong type, expected string or object")
    return value


def prepare_schema(context: Context, schema: Value) -> Schema:
    """Compile a schema, an object or its JSON text, for matching documents; the schemas used last
    are cached. BuiltinError for an invalid one or another kind of value, LimitError for one nested
    too deeply or with a number or pattern that is too large. Stops at the decision's deadline.
    """
    text = _canonical(schema) if isinstance(schema, str) else marshal(read_json(schema))
    with context.enforce_deadline(len(text)):
        return _cached_schema(text)


@lru_cache(maxsize=64)
def _canonical(text: str) -> str:
    """The JSON text that an object with the content of this JSON string would have, so that both
    share a cached schema. BuiltinError for invalid JSON, LimitError for JSON that nests too deeply
    or has a number that is too large.
    """
    return marshal(read_json(text))


@lru_cache(maxsize=64)
def _cached_schema(text: str) -> Schema:
    """Compile the schema in a JSON text. BuiltinError if it is invalid, LimitError if it is nested
    too deeply. Cached.
    """
    try:
        return read_schema(unmarshal(text))
    except RecursionError:
        raise LimitError("schema is nested too deeply") from None
