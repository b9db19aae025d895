"""Values in documents of JSON, elements and functions as the text of each dialect.

A document of PostgreSQL is one of `jsonb`; one of SQLite is read by its functions. Other databases
are an error: MariaDB keeps the text of a document, and takes the first of two values under one
name, where programs take the second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from doorward.filters.conditions import fault
from doorward.filters.folding import REPLACE, pairs_of
from doorward.filters.hints import ARRAYS, JSON, MEMBERS

__all__ = ["check_arrays", "elements_of", "function_of", "json_of", "json_place", "json_type_of"]

_EXACT: Final = {
    "mysql": "CAST(CONVERT({} USING utf8mb4) AS BINARY)",
    "postgresql": "{}",
    "sqlite": "{}",
    "sqlserver": "{}",
}
_TYPES: Final = {
    "sqlite": {
        "null": ("null",),
        "boolean": ("true", "false"),
        "number": ("integer", "real"),
        "string": ("text",),
        "array": ("array",),
        "object": ("object",),
    },
}
_NUMBER: Final = (
    "CASE WHEN jsonb_typeof({0}) = 'number' THEN"
    " CASE WHEN ({0} #>> '{{}}') ~ '^-?[0-9]+$' THEN CAST({0} AS numeric)"
    " WHEN abs(CAST({0} AS numeric)) BETWEEN 1e-300 AND 1e300"
    " THEN CAST(CAST(CAST({0} AS double precision) AS text) AS numeric)"
    " WHEN CAST({0} AS numeric) = 0 THEN 0 END END"
)
"""A number as programs read it: one with a point or an exponent is a double to them."""
_VIEWS: Final = {
    ("postgresql", "text"): "({0} #>> '{{}}')",
    ("postgresql", "boolean"): "(({0} #>> '{{}}') = 'true')",
    ("postgresql", "number"): f"({_NUMBER})",
    ("sqlite", "text"): "CAST(json_extract({0}, {1}) AS text)",
    ("sqlite", "boolean"): "json_extract({0}, {1})",
    ("sqlite", "number"): "json_extract({0}, {1})",
}
_PLAIN: Final = re.compile(r"[\w\s$@./:+*#!&()=-]*")
"""Texts that are the same literal to every database and driver."""


def _literal(text: str) -> str:
    if not _PLAIN.fullmatch(text):
        raise fault("a name or letter with a quote, a backslash or the like", JSON)
    return f"'{text}'"


def json_place(dialect: str, column: str, element: str, names: Sequence[str]) -> tuple[str, str]:
    """A document, and the path to a value in it, as other functions take them.

    `element`: what `elements_of` calls the element that `names` are in, if they are in one.
    """
    if not element:
        return column, _path(dialect, "", names)
    if dialect == "postgresql":
        return f"{element}.value", _path(dialect, "", names)
    return column, _path(dialect, f"{element}.fullkey", names)


def _path(dialect: str, before: str, names: Sequence[str]) -> str:
    """Steps on PostgreSQL, a text on SQLite."""
    if dialect == "postgresql":
        return before + "".join([f" -> {_literal(each)}" for each in names])
    if dialect != "sqlite":
        raise fault(f"{dialect} does not read documents of JSON as programs do", JSON)
    steps = "".join([f'."{_literal(each)[1:-1]}"' for each in names])
    if not before:
        return f"'${steps}'"
    return f"({before} || '{steps}')" if steps else before


def json_of(dialect: str, column: str, path: str, kind: str) -> str:
    """A value in a document as a text, number or boolean of the database."""
    value = f"({column}{path})" if dialect == "postgresql" else column
    return _VIEWS[dialect, kind].format(value, path)


def json_type_of(
    dialect: str, column: str, path: str, types: Sequence[str], *, negated: bool
) -> str:
    """Return a condition that there is a value of one of these types; or, `negated`, none.
    `characters` stands for a text that is not empty."""
    if dialect == "postgresql":
        stored_type = f"jsonb_typeof({column}{path})"
        names = list(types)
        characters = f"coalesce(({column}{path}) <> '\"\"' AND {stored_type} = 'string', FALSE)"
    else:
        stored_type = f"json_type({column}, {path})"
        names = [name for each in types for name in _TYPES[dialect].get(each, ())]
        value = f"json_extract({column}, {path})"
        characters = f"coalesce({stored_type} = 'text' AND {value} <> '', 0)"
    if "characters" in types:
        assert len(types) == 1
        return f"NOT ({characters})" if negated else characters
    texts = ", ".join([f"'{each}'" for each in names])
    return f"coalesce({stored_type}, '') {'NOT ' if negated else ''}IN ({texts})"


def elements_of(dialect: str, column: str, path: str, alias: str) -> str:
    """Return the source to select from for the elements of an array, or the values of an object, at
    a path."""
    if dialect == "postgresql":
        value = f"({column}{path})"
        arrays = f"CASE WHEN jsonb_typeof({value}) = 'array' THEN {value} ELSE '[]' END"
        objects = f"CASE WHEN jsonb_typeof({value}) = 'object' THEN {value} ELSE '{{}}' END"
        return (
            f"(SELECT value FROM jsonb_array_elements({arrays}) UNION ALL"
            f" SELECT value FROM jsonb_each({objects})) AS {alias}"
        )
    value = f"CASE WHEN json_type({column}, {path}) IN ('array', 'object') THEN {column} END"
    return f"json_each({value}, {path}) AS {alias}"


def check_arrays(dialect: str) -> None:
    """FilterError for a database without arrays."""
    if dialect != "postgresql":
        raise fault(f"{dialect} has no arrays", ARRAYS)


def function_of(dialect: str, function: str, operand: str, text: str) -> str:
    """The value of a function of a text that is compared by its code points."""
    if function == REPLACE:
        for pair in pairs_of(operand):
            one, other = [_EXACT[dialect].format(_literal(each)) for each in pair]
            text = f"replace({text}, {one}, {other})"
        return text
    if dialect not in ("postgresql", "sqlite"):
        raise fault(f"{dialect} does not trim texts as Rego does", MEMBERS)
    sides = {"trim": "trim", "trim_left": "ltrim", "trim_right": "rtrim"}[function]
    name = "btrim" if (dialect, sides) == ("postgresql", "trim") else sides
    return f"{name}({text}, {_literal(operand)})"
