"""Values in documents, elements and functions as the text of a dialect, or the reason why not."""

from __future__ import annotations

from collections.abc import Sequence

from doorward.filters.conditions import fault
from doorward.filters.dialects import SQLDialect
from doorward.filters.folding import REPLACE, pairs_of
from doorward.filters.hints import ARRAYS, JSON, MEMBERS, MOMENTS
from doorward.filters.json_views import JsonViews, plain_literal

__all__ = [
    "check_arrays",
    "check_zones",
    "elements_of",
    "function_of",
    "json_of",
    "json_place",
    "json_type_of",
]


def _json(dialect: SQLDialect) -> JsonViews:
    """Return the dialect's SQL for values in JSON documents; raise FilterError if its database does
    not read documents as programs do.
    """
    if dialect.json is None:
        raise fault(f"a filter cannot read columns of JSON exactly on {dialect.name}", JSON)
    return dialect.json


def json_place(
    dialect: SQLDialect, column: str, element: str, names: Sequence[str]
) -> tuple[str, str]:
    """Return the SQL of a document and the path to a value in it, in the dialect's notation, for
    the other functions here. `element`: the alias, given by `elements_of`, of the element that
    `names` are in, or "". FilterError if the database does not read documents as programs do, or
    for a name with a quote or the like.
    """
    return _json(dialect).location(column, element, names)


def json_of(dialect: SQLDialect, column: str, path: str, kind: str) -> str:
    """Return the SQL of a value in a document, at what `json_place` returns, as `kind`: text,
    number or boolean. The value must be of this kind: `json_type_of` must test that beside it.
    FilterError if the database does not read documents as programs do.
    """
    return _json(dialect).value(column, path, kind)


def json_type_of(
    dialect: SQLDialect, column: str, path: str, types: Sequence[str], *, negated: bool
) -> str:
    """Return the SQL test that a value is of one of these types, or, if `negated`, is not.
    `characters` means a text that is not empty. FilterError if the database does not read documents
    as programs do.
    """
    return _json(dialect).type_test(column, path, types, negated=negated)


def elements_of(dialect: SQLDialect, column: str, path: str, alias: str) -> str:
    """Return the SQL source of an array's items, or an object's values, at a path. FilterError if
    the database does not read documents as programs do.
    """
    return _json(dialect).elements(column, path, alias)


def check_arrays(dialect: SQLDialect) -> None:
    """Raise FilterError for a database without arrays."""
    if not dialect.has_arrays:
        raise fault(f"{dialect.name} has no arrays", ARRAYS)


def check_zones(dialect: SQLDialect) -> None:
    """Raise FilterError for a database that stores times without their zone."""
    if not dialect.has_zones:
        raise fault(f"{dialect.name} does not store the zone of a time", MOMENTS)


def function_of(dialect: SQLDialect, function: str, operand: str, text: str) -> str:
    """Return the SQL of a function of a text: replaced letters, or trimmed ones.

    Raise FilterError if the dialect does not trim as Rego does, or for letters that databases read
    differently.
    """
    if function == REPLACE:
        for pair in pairs_of(operand):
            one, other = [_letter(dialect, each) for each in pair]
            text = f"replace({text}, {one}, {other})"
        return text
    if not dialect.trims:
        raise fault(f"a filter cannot trim texts exactly on {dialect.name}", MEMBERS)
    return f"{dialect.trims[function]}({text}, {plain_literal(operand)})"


def _letter(dialect: SQLDialect, letter: str) -> str:
    """Return a letter as an SQL literal that compares by its code point; FilterError for one that
    databases read differently.
    """
    if not dialect.text_of_digits:
        return plain_literal(letter)
    return dialect.exact_value(f"'{dialect.to_text(letter)}'")
