"""JSON Schema (drafts 4, 6 and 7): is a document as its schema says, and if not, why not.

The package `json_schema` reads schemas and matches documents with them, in OPA's words and order.
References reach only into the schema itself: nothing is fetched. Patterns are RE2, so a document
cannot make one slow. The schemas used last stay prepared.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from doorward.rego.builtins.json_schema.reader import read_schema
from doorward.rego.builtins.json_schema.rules import Schema, findings
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.signature import (
    ObjectType,
    any_,
    any_of,
    array,
    boolean,
    null,
    object_,
    string,
    tuple_,
)
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.json import marshal, unmarshal
from doorward.rego.values import Value, to_python

MAX_ERRORS: Final = 1000
"""Most findings that json.match_schema lists."""

_JSON: Final = any_of(string, object_(any_, any_))
_FINDING: Final = ObjectType(
    fields=(("error", string), ("type", string), ("field", string), ("desc", string))
)


@builtin(
    "json.match_schema",
    _JSON,
    _JSON,
    returns=tuple_(boolean, array(_FINDING)),
    context=True,
    checked=False,
)
def json_match_schema(context: Context, document: Value, schema: Value) -> list[Value]:
    """`[true, []]`, or `[false, errors]` for a document that is not as its schema says.

    Both are objects, or strings that hold JSON.
    """
    instance = _loaded(document)
    read = _schema(context, schema)
    try:
        found = findings(read, to_python(instance), MAX_ERRORS, context.check_deadline)
    except RecursionError:
        raise LimitError("document or schema is nested too deeply") from None
    return [not found, found]


@builtin(
    "json.verify_schema",
    _JSON,
    returns=tuple_(boolean, any_of(string, null)),
    context=True,
    checked=False,
)
def json_verify_schema(context: Context, schema: Value) -> list[Value]:
    """`[true, null]`, or `[false, why]` for what is not a JSON Schema."""
    try:
        _schema(context, schema)
    except BuiltinError as error:
        return [False, f"jsonschema: {error}"]
    return [True, None]


def _loaded(value: Value) -> Value:
    if isinstance(value, str):
        try:
            return unmarshal(value)
        except BuiltinError:
            raise BuiltinError("invalid JSON string") from None
    if not isinstance(value, (dict, list)):
        raise BuiltinError("wrong type, expected string or object")
    return value


def _schema(context: Context, schema: Value) -> Schema:
    text = marshal(_loaded(schema))
    with context.watching(len(text)):
        return _kept_schema(text)


@lru_cache(maxsize=64)
def _kept_schema(text: str) -> Schema:
    try:
        return read_schema(unmarshal(text))
    except RecursionError:
        raise LimitError("schema is nested too deeply") from None
