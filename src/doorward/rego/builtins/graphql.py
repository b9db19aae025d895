"""GraphQL: parse queries and schemas, and say whether a query is right for a schema.

`gqlparser` reads and validates, as the Go library of this name does. A query or schema may be given
as text or as the object that it becomes. Bounds: `MAX_TEXT` characters and `MAX_QUERY_TOKENS` or
`MAX_SCHEMA_TOKENS` tokens of a text, nesting as deep as Python's stack follows. Schemas used last
stay parsed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Final

from doorward.rego.builtins.gqlparser.nodes import Node, Object, from_object, to_object
from doorward.rego.builtins.gqlparser.parser import parse_query, parse_schema
from doorward.rego.builtins.gqlparser.rules import validate
from doorward.rego.builtins.gqlparser.schemas import Schema, read_schema
from doorward.rego.builtins.registry import builtin, operand_error
from doorward.rego.builtins.registry.context import LONG, Context
from doorward.rego.builtins.registry.signature import any_, any_of, boolean, object_, string, tuple_
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.octets import scrub
from doorward.rego.values import Value, to_python

MAX_TEXT: Final = 512 * 1024
MAX_QUERY_TOKENS: Final = 10_000
"""The most tokens of a query; more is a LimitError. The time of validation grows with the square of
the query's fields.
"""

MAX_SCHEMA_TOKENS: Final = 200_000

_AST: Final = object_(any_, any_)
_TEXT_OR_AST: Final = any_of(string, _AST)


@builtin("graphql.parse_query", string, returns=_AST, context=True)
def graphql_parse_query(context: Context, query: str) -> Object:
    """The AST of a GraphQL query text as an object. A text that is not a query is an error;
    LimitError above `MAX_TEXT` characters or `MAX_QUERY_TOKENS` tokens.
    """
    with _enforce_deadline(context, query):
        return to_object(_query(query))


@builtin("graphql.parse_schema", string, returns=_AST, context=True)
def graphql_parse_schema(context: Context, schema: str) -> Object:
    """The AST of a GraphQL schema text as an object; the schema is parsed but not validated. A text
    that is not a schema is an error; LimitError above `MAX_TEXT` characters or `MAX_SCHEMA_TOKENS`
    tokens.
    """
    with _enforce_deadline(context, schema):
        return to_object(_schema_document(schema))


def _refuse_schema(query: Value, schema: Value) -> None:
    """Read the query, so that its BuiltinError or LimitError comes before the error for a schema
    of the wrong kind, as in OPA. Called by the registry when the operand check failed.
    """
    if isinstance(query, (str, dict)):
        _query(query)


@builtin(
    "graphql.parse",
    _TEXT_OR_AST,
    _TEXT_OR_AST,
    returns=tuple_(_AST, _AST),
    context=True,
    refuse=_refuse_schema,
)
def graphql_parse(context: Context, query: Value, schema: Value) -> list[Value]:
    """`[query, schema]` as AST objects; an error if one of them cannot be read, or if the query is
    not valid for the schema. LimitError for one that is too large.
    """
    with _enforce_deadline(context, query, schema):
        return list(_parse_both(query, schema))


@builtin(
    "graphql.parse_and_verify",
    _TEXT_OR_AST,
    _TEXT_OR_AST,
    returns=tuple_(boolean, _AST, _AST),
    context=True,
    checked=False,
)
def graphql_parse_and_verify(context: Context, query: Value, schema: Value) -> list[Value]:
    """`[true, query, schema]` as AST objects, or `[false, {}, {}]` if the query is not valid for
    the schema, or if one of them cannot be read or is of another kind. LimitError for one that is
    too large.
    """
    try:
        with _enforce_deadline(context, query, schema):
            return [True, *_parse_both(query, schema)]
    except BuiltinError:
        return [False, {}, {}]


@builtin(
    "graphql.is_valid", _TEXT_OR_AST, _TEXT_OR_AST, returns=boolean, context=True, checked=False
)
def graphql_is_valid(context: Context, query: Value, schema: Value) -> bool:
    """Return true if the query is valid for the schema; false also if one of them cannot be read or
    is of another kind. LimitError for one that is too large.
    """
    try:
        with _enforce_deadline(context, query, schema):
            _validate(_query(query), schema)
    except BuiltinError:
        return False
    return True


@builtin("graphql.schema_is_valid", _TEXT_OR_AST, returns=boolean, context=True, checked=False)
def graphql_schema_is_valid(context: Context, schema: Value) -> bool:
    """Return true if the text or AST is a valid GraphQL schema; false also for other kinds. A
    schema without a query type is valid. LimitError for one that is too large.
    """
    try:
        with _enforce_deadline(context, schema):
            _schema(schema)
    except BuiltinError:
        return False
    return True


def _enforce_deadline(context: Context, *texts: Value) -> AbstractContextManager[None]:
    """Return a context manager whose body stops at the decision's deadline if the texts are long.
    The size of an AST object's text is unknown, so it counts as long.
    """
    return context.enforce_deadline(
        sum(len(text) if isinstance(text, str) else LONG for text in texts)
    )


def _parse_both(query: Value, schema: Value) -> tuple[Object, Object]:
    """Validate the query against the schema, and return the AST objects of both. Each operand is a
    text or an AST object. BuiltinError if one is invalid or the query does not match the schema;
    LimitError if one is too large or nested too deeply.
    """
    query_, schema_ = _query(query), _schema_document(schema)
    objects = to_object(query_), to_object(schema_)
    _validate(query_, schema)
    return objects


def _query(query: Value) -> Node:
    return _document(1, query, "QueryDocument")


def _schema_document(schema: Value) -> Node:
    return _document(2, schema, "SchemaDocument")


def _document(position: int, value: Value, struct: str) -> Node:
    """Read a text or an AST object. OperandError for another kind of operand, BuiltinError for what
    is not a document, LimitError for one that is too large or nested too deeply.
    """
    try:
        if isinstance(value, str):
            return _parse(value, struct)
        if isinstance(value, dict):
            return from_object(struct, to_python(value))
    except RecursionError:
        raise LimitError("GraphQL document is nested too deeply") from None
    raise operand_error(position, value, "string", "object")


_PARSERS: Final[dict[str, tuple[Callable[[str, int], Node], int]]] = {
    "QueryDocument": (parse_query, MAX_QUERY_TOKENS),
    "SchemaDocument": (parse_schema, MAX_SCHEMA_TOKENS),
}


def _parse(text: str, struct: str) -> Node:
    """Return the nodes of a GraphQL text, a query or a schema by `struct`; BuiltinError for a
    syntax error, LimitError for too many characters or tokens.
    """
    if len(text) > MAX_TEXT:
        raise LimitError(f"GraphQL string is longer than {MAX_TEXT} characters")
    parse, most = _PARSERS[struct]
    return parse(text if text.isascii() else scrub(text), most)


def _schema(schema: Value) -> Schema:
    """Read and check a schema. BuiltinError if it is invalid, LimitError if it is too large. A
    schema without a query type is accepted. Those of the texts used last are cached.
    """
    if isinstance(schema, str):
        return _schema_of(schema)
    return read_schema(_schema_document(schema))


@lru_cache(maxsize=16)
def _schema_of(text: str) -> Schema:
    return read_schema(_schema_document(text))


def _validate(query: Node, schema: Value) -> None:
    """Raise BuiltinError with what is wrong if the query is not valid for the schema, or if the
    schema is not valid; LimitError if one is too large or nested too deeply.
    """
    try:
        validate(_schema(schema), query)
    except RecursionError:
        raise LimitError("GraphQL query is nested too deeply") from None
