"""Conditions as the text of a WHERE clause, with literals: what OPA's API answers.

Literals and names are escaped by the rules of the dialect. Comparisons follow SQL: one with NULL
holds for no row, and `NOT` over it neither. A column has to have the type of what it is compared
with; `sql` makes clauses with bound parameters that need not rely on that.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

from doorward.filters.conditions import (
    Comparison,
    Condition,
    Conditions,
    Field,
    comparisons,
    is_always,
)
from doorward.filters.dialects import DIALECTS, SQLDialect, describe_inexact
from doorward.filters.exact_numbers import has_fraction
from doorward.filters.mappings import Names
from doorward.rego import Number
from doorward.rego.shared import number_text

__all__ = ["quoted_name", "to_sql_text"]

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*", re.ASCII)
_OPERATORS: Final = {"eq": "=", "ne": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def to_sql_text(conditions: Conditions, names: Names, dialect: str) -> str | None:
    """Return `WHERE …` with literals; "" for all rows, None for no row.

    Raise ValueError for what the dialect cannot express and for a malformed mapping in `names`,
    FilterError for relations and groups.
    """
    if not conditions:
        return None
    if is_always(conditions):
        return ""
    writer = _Writer(names, DIALECTS[dialect])
    return "WHERE " + _join("OR", [writer.body(body) for body in conditions])


def quoted_name(name: str, dialect: str) -> str:
    """Return the name of a table or column, quoted if it is not a plain word; reserved words are
    not quoted. ValueError if it is empty or unprintable.
    """
    if _PLAIN.fullmatch(name):
        return name
    if not name or not name.isprintable():
        raise ValueError(
            "the name of a column must not be empty or have characters that cannot be printed"
        )
    opening, closing = DIALECTS[dialect].quotes
    return opening + name.replace(closing, closing * 2) + closing


def _join(operator: str, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else "(" + f" {operator} ".join(parts) + ")"


class _Writer:
    """Writes comparisons as SQL text with literals of one dialect."""

    def __init__(self, names: Names, dialect: SQLDialect) -> None:
        self._names = names
        self._dialect = dialect

    def body(self, body: tuple[Condition, ...]) -> str:
        return _join("AND", [self._comparison(each) for each in comparisons(body)])

    def _comparison(self, comparison: Comparison) -> str:
        """Return a comparison as SQL text, with `NOT` if it is negated; a negated `in` without
        values becomes `IS NOT NULL`.
        """
        if comparison.negated and comparison.operator == "in" and not comparison.value:
            # `NOT` over what knows no NULL would let rows through where the column has none.
            return f"{self._field(comparison.field)} IS NOT NULL"
        text = self._compare(comparison)
        return f"NOT {text}" if comparison.negated else text

    def _compare(self, comparison: Comparison) -> str:
        """Return a comparison as SQL text, as if it were not negated; `in` without values becomes
        `0 = 1`.

        ValueError for an order with null, a text with a NUL, or a number with too many digits for
        the dialect.
        """
        field, operator, value = comparison.field, comparison.operator, comparison.value
        name = self._field(field)
        if isinstance(value, Field):
            return f"{name} {_OPERATORS[operator]} {self._field(value)}"
        if operator == "in":
            assert isinstance(value, list)
            # `IN ()` is a syntax error in most databases.
            return self._in(name, value) if value else "0 = 1"
        if operator in _PATTERNS:
            assert isinstance(value, str)
            return f"{name} LIKE {self._pattern(*_PATTERNS[operator], value)}"
        if value is None:
            if operator not in ("eq", "ne"):
                raise ValueError("null value can only be used with 'eq' or 'ne' operators")
            return f"{name} IS NULL" if operator == "eq" else f"{name} IS NOT NULL"
        if operator == "eq" and self._is_rounded(value):
            return self._between(name, value)
        return f"{name} {_OPERATORS[operator]} {self._literal(value)}"

    def _in(self, name: str, values: list[Any]) -> str:
        """Return `IN` with known values; those that the dialect may round are compared apart."""
        plain = [each for each in values if not self._is_rounded(each)]
        tests = [f"{name} IN ({', '.join(map(self._literal, plain))})"] if plain else []
        tests += [self._between(name, each) for each in values if self._is_rounded(each)]
        return _join("OR", tests)

    def _is_rounded(self, value: Any) -> bool:
        """Return True if the dialect may round a known value that `=` compares with a column."""
        is_number = isinstance(value, (int, Number)) and not isinstance(value, bool)
        return self._dialect.rounds_fractions and is_number and has_fraction(value)

    def _between(self, name: str, number: Any) -> str:
        """Return the test that a column is equal to a number that the dialect does not round."""
        literal = self._literal(number)
        return f"({name} >= {literal} AND {name} <= {literal})"

    def _field(self, field: Field) -> str:
        return ".".join([quoted_name(part, self._dialect.name) for part in self._names.of(field)])

    def _literal(self, value: Any) -> str:
        """Return a scalar as an SQL literal; ValueError for a text with a NUL, or a number with too
        many digits for the dialect.
        """
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return self._dialect.booleans[value]
        if isinstance(value, str):
            return self._text(value)
        return self._number(value)

    def _text(self, text: str) -> str:
        """Return a string as an SQL literal; ValueError for one with a NUL."""
        if "\0" in text:
            raise ValueError("a string with a NUL character cannot be written in SQL: remove it")
        if self._dialect.has_backslashes:
            text = _escape_backslashes(text)
        return self._dialect.literal.format(text.replace("'", "''"))

    def _number(self, number: int | Number) -> str:
        """Return a number without an exponent, which would make it a double in some dialects.

        Raise ValueError if it has more digits than the dialect's literals, unless it is an integer
        of 64 bits that the dialect reads exactly.
        """
        decimal = Decimal(number_text(number))
        _, digits, exponent = decimal.as_tuple()
        assert isinstance(exponent, int)
        count = max(len(digits) + max(exponent, 0), -exponent)
        is_integer = exponent >= 0 or not any(digits[exponent:])
        fits = self._dialect.has_int64 and is_integer and abs(decimal) < 1 << 63
        if count > self._dialect.digits and not fits:
            raise ValueError(describe_inexact(self._dialect.name, number_text(number)))
        return format(decimal, "f") if decimal else "0"

    def _pattern(self, before: str, after: str, text: str) -> str:
        """Return the SQL pattern after LIKE: `before`, `text` with its special characters escaped,
        and `after`, where `before` and `after` are `%` or ""; with `ESCAPE` if the dialect needs
        it. ValueError for a text with a NUL.
        """
        # The backslash as well: PostgreSQL and MySQL take it for the escape without being told.
        special = "\\" + self._dialect.wildcards
        escaped = "".join([f"\\{each}" if each in special else each for each in text])
        literal = self._text(f"{before}{escaped}{after}")
        needs_escape = escaped != text and self._dialect.names_escape
        return f"{literal} ESCAPE {self._text(chr(92))}" if needs_escape else literal


_PATTERNS: Final = {"startswith": ("", "%"), "endswith": ("%", ""), "contains": ("%", "%")}


def _escape_backslashes(text: str) -> str:
    """Escape backslashes, line breaks and tabs for dialects in which a backslash begins an
    escape.
    """
    # The backslash first: later it would double those of the other escapes.
    for character, escape in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(character, escape)
    return text
