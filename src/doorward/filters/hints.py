"""Hints: what to write in place of what is not a condition of a database."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ARRAYS",
    "BYTES",
    "COLUMN",
    "COLUMN_FIRST",
    "COUNTS",
    "DATES",
    "DECLARED",
    "DEFAULTS",
    "ELSE",
    "EVERY",
    "EXCLUSIVE",
    "GENERIC",
    "HEAD",
    "INDEX",
    "JSON",
    "KNOWN_TEXT",
    "KNOWN_VALUE",
    "MASKS",
    "MEMBERS",
    "MOMENTS",
    "OWN_CONDITION",
    "OWN_TYPE",
    "ROWS",
    "RULE",
    "SCALAR",
    "VARIABLE",
    "WITH",
    "ZONES",
    "builtin_hint",
]

ARRAYS: Final = "keep the elements in a related table, or in a document of JSON"
BYTES: Final = "keep what the policy asks of the bytes, such as their type, in a column"
COLUMN: Final = (
    "a column is `input.TABLE.COLUMN`, one of a related row `some row in input.TABLE.RELATION` and "
    "`row.COLUMN`; pass everything else in the input or in data, so that it is known"
)
COLUMN_FIRST: Final = (
    "the column stands first and the known value second: `input.TABLE.COLUMN in known`, "
    '`startswith(input.TABLE.COLUMN, "known")`'
)
DEFAULTS: Final = (
    'write `object.get(ROW, "COLUMN", DEFAULT)` with a row, the name of a column and a known text, '
    "number, boolean or null; in SQL over HTTP the column itself"
)
COUNTS: Final = (
    "compare a count so that it tells no row from some: `count(input.TABLE.RELATION) > 0` or `== 0`"
)
DATES: Final = (
    'compare a date with a text such as "2026-11-23", by `==`, `<`, `<=`, `>`, `>=`, `in` or '
    "`startswith`"
)
DECLARED: Final = (
    "declare it as boolean, number or text where it holds one, or use SQLAlchemy or Django, which "
    "know how they keep their values"
)
ELSE: Final = "write rules whose conditions exclude each other in place of `else`"
EVERY: Final = (
    "write `not other` and a rule `other if { some row in input.TABLE.RELATION; … }` that finds a "
    "row for which it does not hold"
)
EXCLUSIVE: Final = (
    "write conditions that exclude each other: one and the same column with `==` and two texts, or "
    "a condition and `not` before the same condition"
)
GENERIC: Final = (
    "compare its two columns, such as `input.TABLE.content_type_id` and `input.TABLE.object_id`"
)
HEAD: Final = (
    "a rule that filters is true, false, a column or an object whose `allowed` is one of them and "
    "whose other fields are known"
)
INDEX: Final = "rows have no order: write `some row in input.TABLE.RELATION` without the index"
JSON: Final = (
    "compare a value in the document, `input.TABLE.COLUMN.KEY`, with a text, number, boolean or "
    "null, on PostgreSQL in a column of `jsonb`, or on SQLite"
)
KNOWN_TEXT: Final = "the second operand must be known when the filter is made"
KNOWN_VALUE: Final = "compare the field with a known value, or leave out this target"
MASKS: Final = (
    'write `masks.TABLE.COLUMN := {"replace": {"value": null}}` for a column that is masked, and '
    "`{}` for one that is not"
)
MEMBERS: Final = "compare the column with known values by `==`, `!=` and `in`"
MOMENTS: Final = (
    "compare `time.parse_rfc3339_ns(input.TABLE.COLUMN)` with `time.now_ns()` or other nanoseconds"
)
OWN_CONDITION: Final = (
    "write the call as a condition of its own, `not` in front if it must be false"
)
OWN_TYPE: Final = (
    "compare a column whose values are read as they are stored: a text, number, boolean, UUID, "
    "date, time with a zone, enumeration, array or document of JSON"
)
ROWS: Final = (
    "for related rows write `some row in input.TABLE.RELATION` and `row.COLUMN == …`; pass every "
    "other collection in the input or in data, so that it is known"
)
RULE: Final = (
    "use only rules that are true or undefined, or that have a default and whose other values are "
    "known; no `else`"
)
SCALAR: Final = "compare columns with texts, numbers, booleans or null, one by one"
VARIABLE: Final = "a variable must stand for a row of `some row in input.TABLE.RELATION`"
WITH: Final = "leave out `with`, or replace by it only what is known when the filter is made"
ZONES: Final = "declare the column as `DateTime(timezone=True)`, or with Django's `USE_TZ`"

_ARITHMETIC: Final = (
    "calculate with what is known on the other side: `input.TABLE.COLUMN < limit - 1` in place of "
    "`input.TABLE.COLUMN + 1 < limit`"
)
_PATTERNS: Final = "use `startswith`, `endswith`, `contains` or `in` with a known list"
_CASES: Final = "keep a column with the text in one case and compare that"
_COUNT: Final = (
    "ask for one row with `some row in input.TABLE.RELATION`, for none with `not` before a rule "
    "that does"
)
_OTHER: Final = (
    "call it only with what is known, or keep its value in a column; a column can be compared with "
    "`==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `startswith`, `endswith` and `contains`"
)
_BUILTINS: Final = {
    **dict.fromkeys(
        ("plus", "minus", "mul", "div", "rem", "abs", "round", "ceil", "floor"), _ARITHMETIC
    ),
    **dict.fromkeys(("regex.match", "glob.match", "re_match"), _PATTERNS),
    **dict.fromkeys(("lower", "upper"), _CASES),
    **dict.fromkeys(("count", "sum", "max", "min"), _COUNT),
    "object.get": DEFAULTS,
}


def builtin_hint(name: str) -> str:
    """Return a hint on how to replace a call of a built-in with a column."""
    return _BUILTINS.get(name, _OTHER)
