"""GraphQL: parse queries and schemas, and say whether a query is right for a schema.

graphql-core reads and validates; the objects are those of `gqlparser`. A query or schema may be
given as text or as such an object. Bounds: `MAX_TEXT` characters and `MAX_QUERY_TOKENS` or
`MAX_SCHEMA_TOKENS` tokens of a text, nesting as deep as Python's stack follows, a hundred findings.
Schemas used last stay parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from inspect import signature
from typing import Any, Final

from doorward.rego.builtins.gqlparser.documents import (
    Object,
    from_query,
    from_schema,
    query_text,
    schema_text,
    unexpected_string,
)
from doorward.rego.builtins.registry import builtin, operand_error
from doorward.rego.builtins.registry.context import LONG, Context
from doorward.rego.builtins.registry.signature import any_, any_of, boolean, object_, string, tuple_
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.values import Value

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
        return from_query(_parse(query, MAX_QUERY_TOKENS))


@builtin("graphql.parse_schema", string, returns=_AST, context=True)
def graphql_parse_schema(context: Context, schema: str) -> Object:
    """The AST of a GraphQL schema text as an object; the schema is parsed but not validated. A text
    that is not a schema is an error; LimitError above `MAX_TEXT` characters or `MAX_SCHEMA_TOKENS`
    tokens.
    """
    with _enforce_deadline(context, schema):
        return from_schema(_parse(schema, MAX_SCHEMA_TOKENS))


def _refuse_schema(query: Value, schema: Value) -> None:
    """Parse the query, so that its BuiltinError or LimitError comes before the error for a schema
    of the wrong kind, as in OPA. Called by the registry when the operand check failed.
    """
    if isinstance(query, str):
        _parse(query, MAX_QUERY_TOKENS)


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
            _validate(_query_text(query), _schema_text(schema))
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
            _schema(_schema_text(schema))
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
    query_, schema_ = _query_text(query), _schema_text(schema)
    _validate(query_, schema_)
    return (
        from_query(_parse(query_, MAX_QUERY_TOKENS)),
        from_schema(_parse(schema_, MAX_SCHEMA_TOKENS)),
    )


def _query_text(query: Value) -> str:
    return _text(1, query, query_text)


def _schema_text(schema: Value) -> str:
    return _text(2, schema, schema_text)


def _text(position: int, value: Value, write: Callable[[Value], str]) -> str:
    """Return `value` itself if it is a string, or the text that `write` returns for an AST object.
    OperandError for another kind of operand, BuiltinError for an object that is not an AST,
    LimitError for one nested too deeply.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise operand_error(position, value, "string", "object")
    try:
        return write(value)
    except RecursionError:
        raise LimitError("GraphQL AST is nested too deeply") from None


def _parse(text: str, max_tokens: int) -> Any:
    """Parse GraphQL text and return graphql-core's document; an empty text gives an empty document.
    BuiltinError for a syntax error, LimitError for a text with too many characters or tokens or too
    much nesting.
    """
    # only policies that use GraphQL need it
    from graphql import DocumentNode, GraphQLSyntaxError, parse

    if len(text) > MAX_TEXT:
        raise LimitError(f"GraphQL string is longer than {MAX_TEXT} characters")
    if not text.strip():
        return DocumentNode(definitions=())
    try:
        return parse(text, **_parser_options(parse), max_tokens=max_tokens)
    except GraphQLSyntaxError as error:
        raise _syntax_error(error) from None
    except RecursionError:  # pragma: no cover - newer versions of the library count themselves
        raise LimitError("GraphQL string is nested too deeply") from None


@lru_cache(maxsize=1)
def _parser_options(parse: Callable[..., Any]) -> dict[str, Any]:
    """Return the keyword arguments that make graphql-core's `parse` accept what OPA accepts, such
    as variables of fragments; only those that the installed release has, since releases name them
    differently.
    """
    readers = {
        "allow_empty_selection_sets": False,
        "allow_legacy_fragment_variables": True,
        "experimental_fragment_arguments": True,
    }
    known = signature(parse).parameters
    return {name: value for name, value in readers.items() if name in known}


_INVALID: Final = ("Invalid character", "Invalid number", "Unterminated", "Unexpected character")
_NAMED: Final = re.compile(r"(Name|Int|Float|String|BlockString) ['\"](.*?)['\"]", re.DOTALL)
_FOUND: Final = re.compile(r"(, found \w+) ['\"].*", re.DOTALL)
_WORD: Final = re.compile(r"Expected '(\w+)'")
_PUNCTUATION: Final = re.compile(r"['\"](\W|\.\.\.)['\"]")


def _syntax_error(error: Any) -> BuiltinError | LimitError:
    """Translate graphql-core's syntax error to the words of the library that OPA uses, with line
    and column. The result is a LimitError if the parser stopped at a limit. Returns the error; does
    not raise it.
    """
    from graphql import Lexer, Source  # loaded by now

    text = error.message.removeprefix("Syntax Error: ").removesuffix(".")
    if text.startswith(("Document contains more than", "Document is nested too deeply")):
        return LimitError(f"GraphQL: {text}")
    source, offset = error.source.body, error.positions[0]
    here = source[offset : offset + 1]
    where = error.locations[0]
    column = where.column
    if text.startswith(_INVALID):
        text = "Unexpected <Invalid>"
    elif text.startswith("Unexpected variable"):
        text = "Unexpected $"
    elif text.startswith("Unexpected description"):
        text = unexpected_string(Lexer(Source(source[offset:])).advance())
    elif here in {"}", ")"} and source[:offset].rstrip().endswith(("{", "(")):
        text = f"expected at least one definition, found {here}"
    # In place of a word the text of the token is named, elsewhere its kind alone.
    is_word = _WORD.match(text) is not None
    text = _WORD.sub(r'Expected "\1"', text if is_word else _FOUND.sub(r"\1", text))
    text = _NAMED.sub(lambda m: f'{m[1]} "{m[2]}"', _PUNCTUATION.sub(r"\1", text))
    if "String" in text and here == '"':
        column += 3 if source.startswith('"""', offset) else 1
    return BuiltinError(f"{text} in GraphQL string at location {where.line}:{column}")


def _locate(text: str, error: Any) -> BuiltinError:
    """Build, but do not raise, the error `TEXT in GraphQL string at location LINE:COLUMN`, with the
    place of graphql-core's error, or 0:0 if it has none.
    """
    where = error.locations[0] if error.locations else None
    location = f"{where.line}:{where.column}" if where else "0:0"
    return BuiltinError(f"{text} in GraphQL string at location {location}")


@lru_cache(maxsize=16)
def _schema(text: str) -> Any:
    """Parse and validate a schema text, and return graphql-core's schema. BuiltinError if it is
    invalid, LimitError if it is too large. A schema without a query type is accepted. The 16
    schemas used last are cached.
    """
    from graphql import GraphQLError, build_ast_schema, validate_schema

    document = _parse(text, MAX_SCHEMA_TOKENS)
    from_schema(document)
    try:
        schema = build_ast_schema(_with_definitions(document))
        wrong = [
            error
            for error in validate_schema(schema)
            if not error.message.startswith("Query root type must be provided")
        ]
    except TypeError as error:
        raise _not_a_schema(str(error)) from None
    except GraphQLError as error:
        raise _not_a_schema(error.message) from None
    except RecursionError:  # pragma: no cover - as above
        raise LimitError("GraphQL schema is nested too deeply") from None
    if wrong:
        raise _not_a_schema(wrong[0].message)
    return schema


def _with_definitions(document: Any) -> Any:
    """Return a copy of the document in which the first extension of a type that the document does
    not define is that type's definition, as in OPA's library.
    """
    import graphql  # loaded by now

    known = {n.name.value for n in document.definitions if n.kind.endswith("type_definition")}
    definitions: list[Any] = []
    for node in document.definitions:
        if node.kind.endswith("type_extension") and node.name.value not in known:
            known.add(node.name.value)
            defining = type(node).__name__.replace("Extension", "Definition")
            parts = {key: getattr(node, key, None) for key in node.keys if key != "description"}
            node = getattr(graphql, defining)(**parts)
        definitions.append(node)
    return graphql.DocumentNode(definitions=tuple(definitions))


def _not_a_schema(why: str) -> BuiltinError:
    return BuiltinError(f"Error in gqlparser SchemaDocument to Schema conversion: {why}")


_REQUIRED: Final = re.compile(r"Argument '(?:\w+\.)?(\w+)\((\w+):\)'")


def _validate(query: str, schema: str) -> None:
    """Raise BuiltinError with the first problem if the text `query` is not valid for the schema
    text `schema`, or if one of them cannot be parsed; LimitError if one is too large or nested too
    deeply. Validation stops after 100 problems.
    """
    from graphql import validate

    document = _parse(query, MAX_QUERY_TOKENS)
    from_query(document)
    prepared = _schema(schema)
    for node in document.definitions:
        if node.kind == "operation_definition" and not prepared.get_root_type(node.operation):
            kind = node.operation.value
            raise BuiltinError(f'Schema does not support operation type "{kind}"')
    # What is left to say of a schema without queries does not concern the query.
    prepared._validation_errors = []
    try:
        errors = validate(prepared, document, max_errors=100)
    except RecursionError:  # pragma: no cover - as above
        raise LimitError("GraphQL string is nested too deeply") from None
    if errors:
        text = _REQUIRED.sub(r"Field '\1' argument '\2'", errors[0].message).replace("'", '"')
        raise _locate(text.removesuffix(".") if len(errors) == 1 else text, errors[0])
