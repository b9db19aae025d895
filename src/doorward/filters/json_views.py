"""Values in documents of JSON and their elements as the text of a database.

A document of PostgreSQL is one of `jsonb`; one of SQLite is read by its functions. Other databases
have no views: MariaDB keeps the text of a document, and takes the first of two values under one
name, where programs take the second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, Protocol

from doorward.filters.conditions import fault
from doorward.filters.hints import JSON

__all__ = [
    "ESCAPED_KEY",
    "SHORTEST_DOUBLES",
    "JsonViews",
    "PostgresJson",
    "SqliteJson",
    "plain_literal",
]

_PLAIN: Final = re.compile(r"[\w\s$@./:+*#!&()=-]*")
"""Matches texts that are written as the same literal for every database and driver."""


SHORTEST_DOUBLES: Final = "current_setting('extra_float_digits') IN ('1', '2', '3')"
"""An SQL test that PostgreSQL's text of a double is that double; otherwise it is cut to some of its
digits, for programs as well.
"""
# CASE and not AND, whose operands PostgreSQL may evaluate in any order: a cast of a text, or of a
# number that no double holds, ends the query with an error.
_NUMBER: Final = (
    "CASE WHEN jsonb_typeof({0}) = 'number' THEN"
    " CASE WHEN ({0} #>> '{{}}') ~ '^-?[0-9]+$' THEN CAST({0} AS numeric)"
    " WHEN abs(CAST({0} AS numeric)) BETWEEN 1e-300 AND 1.797693134862315807e308"
    " THEN CAST(CAST(CAST({0} AS double precision) AS text) AS numeric)"
    " WHEN abs(CAST({0} AS numeric)) > 1 THEN CAST({0} AS numeric)"
    " WHEN abs(CAST({0} AS numeric)) > 2.4703282292062327208e-324"
    " THEN sign(CAST({0} AS numeric)) * 1e-300 ELSE 0 END END"
)
"""An SQL template for a number as programs read it: with a point or an exponent it is a double to
them. A number has no NULL, which `NOT EXISTS` would select; one that is nearer to 0 than any known
number has its sign, or is 0 where its double is.
"""


_ESCAPES: Final = [
    *(r"\/", r"\u00[0-7]", r"\u[A-F]", r"\u[0-9a-f][A-F]", r"\u[0-9a-f][0-9a-f][A-F]"),
    r"\u[0-9a-f][0-9a-f][0-9a-f][A-F]",
]
ESCAPED_KEY: Final = " OR ".join(
    [
        *[f"fullkey GLOB '*{each}*'" for each in _ESCAPES],
        r"fullkey GLOB '*\u*' AND fullkey GLOB '*[^ -~]*'",
    ]
)
"""An SQL test for a row of SQLite's `json_tree`: its key, or one above it, has escapes in another
form than `_escaped` writes. SQLite compares names with the text of a document, escapes and all.
"""


def _escaped(name: str) -> str:
    """Return a name as programs write it in JSON that is ASCII alone, such as `\\u00e4`."""
    return json.dumps(name)[1:-1]


def plain_literal(text: str) -> str:
    """Return a name or letters as an SQL literal in quotes. FilterError unless all are letters,
    digits, spaces or one of a few signs (`_PLAIN`) that every database and driver reads alike;
    commas, `%` and brackets are not among them.
    """
    if not _PLAIN.fullmatch(text):
        message = "a filter cannot use a key or letter with a quote, backslash or similar character"
        raise fault(message, JSON)
    return f"'{text}'"


class JsonViews(Protocol):
    """How one database reads JSON documents. A place is a document with the path to a value in it;
    `location` returns it, and the other functions take it.
    """

    def location(self, column: str, element: str, names: Sequence[str]) -> tuple[str, str]:
        """Return a document and the path of `names` in it. `element`: the alias, given by
        `elements`, of the element that they are in, or "". FilterError for a name with a quote or
        the like.
        """
        ...

    def value(self, column: str, path: str, kind: str) -> str:
        """Return the SQL of the value at a place as a text, number or boolean of the database."""
        ...

    def type_test(self, column: str, path: str, types: Sequence[str], *, negated: bool) -> str:
        """Return the condition that a value is of one of these types, or, if `negated`, is not.
        `characters`, which must be the only one, means a text that is not empty.
        """
        ...

    def elements(self, column: str, path: str, alias: str) -> str:
        """Return the source (after FROM) of the elements of an array, or of the values of an
        object; it has no rows for another value.
        """
        ...


class PostgresJson:
    """Documents of `jsonb`."""

    def location(self, column: str, element: str, names: Sequence[str]) -> tuple[str, str]:
        steps = "".join([f" -> {plain_literal(each)}" for each in names])
        return (f"{element}.value" if element else column), steps

    def value(self, column: str, path: str, kind: str) -> str:
        """Return the SQL of a value as text, boolean or number. `type_test` must test beside it
        that the value has that type: of another type, only a number is certain to be NULL.
        """
        views = {
            "text": "({0} #>> '{{}}')",
            "boolean": "(({0} #>> '{{}}') = 'true')",
            "number": f"({_NUMBER})",
        }
        return views[kind].format(f"({column}{path})")

    def type_test(self, column: str, path: str, types: Sequence[str], *, negated: bool) -> str:
        """Return the condition that a value is, or with `negated` is not, of one of these types,
        for PostgreSQL.
        """
        stored_type = f"jsonb_typeof({column}{path})"
        characters = f"coalesce(({column}{path}) <> '\"\"' AND {stored_type} = 'string', FALSE)"
        return _type_test(stored_type, types, characters, negated=negated)

    def elements(self, column: str, path: str, alias: str) -> str:
        """Return the SQL source of an array's items or an object's values, for PostgreSQL."""
        value = f"({column}{path})"
        # Both functions are called for each value, and either raises an error for what the other
        # one takes.
        arrays = f"CASE WHEN jsonb_typeof({value}) = 'array' THEN {value} ELSE '[]' END"
        objects = f"CASE WHEN jsonb_typeof({value}) = 'object' THEN {value} ELSE '{{}}' END"
        return (
            f"(SELECT value FROM jsonb_array_elements({arrays}) UNION ALL"
            f" SELECT value FROM jsonb_each({objects})) AS {alias}"
        )


class SqliteJson:
    """JSON documents as texts, which SQLite's functions read."""

    _TYPES: Final = {
        "null": ("null",),
        "boolean": ("true", "false"),
        "number": ("integer", "real"),
        "string": ("text",),
        "array": ("array",),
        "object": ("object",),
        "characters": ("characters",),
    }

    def location(self, column: str, element: str, names: Sequence[str]) -> tuple[str, str]:
        """Return the document and the path in SQLite's notation, as an SQL expression. FilterError
        for a name with a quote or the like.
        """
        # The functions raise an error for other texts: one row would end each list.
        document = f"CASE WHEN json_valid({column}) THEN {column} END"
        names = [plain_literal(each)[1:-1] for each in names]
        path = self._path(element, names)
        escaped = self._path(element, [_escaped(each) for each in names])
        if escaped != path:
            path = f"CASE WHEN json_type({document}, {path}) IS NULL THEN {escaped} ELSE {path} END"
        return document, path

    def _path(self, element: str, names: Sequence[str]) -> str:
        """Return a path in SQLite's notation as an SQL expression: `names` below the root of the
        document or, if `element` is not "", below the element with this alias. The names are put in
        as they are.
        """
        steps = "".join([f'."{each}"' for each in names])
        if not element:
            return f"'${steps}'"
        return f"({element}.fullkey || '{steps}')" if steps else f"{element}.fullkey"

    def value(self, column: str, path: str, kind: str) -> str:
        value = f"json_extract({column}, {path})"
        return f"CAST({value} AS text)" if kind == "text" else value

    def type_test(self, column: str, path: str, types: Sequence[str], *, negated: bool) -> str:
        """Return the condition that a value is, or with `negated` is not, of one of these types,
        for SQLite.
        """
        stored_type = f"json_type({column}, {path})"
        value = f"json_extract({column}, {path})"
        characters = f"coalesce({stored_type} = 'text' AND {value} <> '', 0)"
        names = [name for each in types for name in self._TYPES.get(each, ())]
        return _type_test(stored_type, names, characters, negated=negated)

    def elements(self, column: str, path: str, alias: str) -> str:
        # Of a scalar json_each makes one row, of NULL none.
        value = f"CASE WHEN json_type({column}, {path}) IN ('array', 'object') THEN {column} END"
        return f"json_each({value}, {path}) AS {alias}"


def _type_test(stored_type: str, names: Sequence[str], nonempty: str, *, negated: bool) -> str:
    """Return the SQL condition that `stored_type`, an SQL expression, is one of `names`, or with
    `negated` is not. The name "characters" stands alone: for a text that is not empty, whose SQL
    condition is `nonempty`.
    """
    if "characters" in names:
        assert len(names) == 1
        return f"NOT ({nonempty})" if negated else nonempty
    texts = ", ".join([f"'{each}'" for each in names])
    return f"coalesce({stored_type}, '') {'NOT ' if negated else ''}IN ({texts})"
