"""Predicates: the tests of which a filter consists, each decided by a database for every row.

No test is unknown where its opposite is known to hold: the opposite of a test is written out, never
left to `NOT`. An unknown truth value can then only make a row fail.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from doorward.base.records import record, replace
from doorward.filters.columns import Kind
from doorward.filters.columns import Stored as StoredValue
from doorward.filters.conditions import Field

__all__ = [
    "ALWAYS",
    "JSON_TYPES",
    "NEVER",
    "OPPOSITES",
    "All",
    "Any",
    "Compare",
    "CompareFields",
    "Elements",
    "In",
    "IsNull",
    "JsonType",
    "Match",
    "Predicate",
    "Related",
    "Stored",
    "all_of",
    "any_of",
    "opposite_of",
]

JSON_TYPES: Final = ("null", "boolean", "number", "string", "array", "object")
"""The types of JSON values, in Rego's order of values."""
OPPOSITES: Final = {"eq": "ne", "ne": "eq", "lt": "gte", "gte": "lt", "gt": "lte", "lte": "gt"}
"""The operators of comparisons, each with the one that holds where it does not."""


@record
class IsNull:
    """A condition: a column or value is NULL; or, `negated`, is not."""

    field: Field
    negated: bool = False


@record
class Compare:
    """A condition: a column is compared with a known `value` of the column's kind. It does not hold
    for NULL.
    """

    field: Field
    operator: str
    value: StoredValue
    kind: Kind


@record
class CompareFields:
    """A condition: two columns of the same kind are compared. It does not hold if one of them is
    NULL.
    """

    left: Field
    operator: str
    right: Field
    kind: Kind


@record
class In:
    """A condition: a column is one of `values`; or, `negated`, none of them. It does not hold for
    NULL. `values` are of the column's kind, and not empty. `domain`: all values that the column may
    hold, where these are few.
    """

    field: Field
    values: tuple[StoredValue, ...]
    kind: Kind
    negated: bool = False
    domain: tuple[StoredValue, ...] = ()


@record
class Match:
    """A condition: a text begins with another, ends with it or contains it (`operator`: startswith,
    endswith or contains). It does not hold for NULL, negated or not.
    """

    field: Field
    operator: str
    text: str
    negated: bool = False


@record
class Stored:
    """A condition: a column holds NULL or a value of its declared kind, which SQLite does not
    enforce; or, `negated`, a value of another kind.
    """

    field: Field
    kind: Kind
    negated: bool = False


@record
class Related:
    """A condition: a relation leads to a row, named `row` in `holds`, for which `holds` is true;
    or, `negated`, to none.
    """

    table: str
    relation: str
    row: str
    holds: Predicate
    negated: bool = False


@record
class JsonType:
    """A condition: a JSON document has at a path a value of one of these types; or, `negated`, has
    not. Besides the types of JSON there is `characters`: a text that is not empty.
    """

    field: Field
    types: tuple[str, ...]
    negated: bool = False


@record
class Elements:
    """A condition: an array, in a column or at a path of JSON, has an element, named `row` in
    `holds`, for which `holds` is true; or, `negated`, has none.
    """

    field: Field
    kind: Kind
    row: str
    holds: Predicate
    negated: bool = False


@record
class All:
    """A condition: all parts hold; without parts it always holds."""

    parts: tuple[Predicate, ...]


@record
class Any:
    """A condition: one of the parts holds; without parts it never holds."""

    parts: tuple[Predicate, ...]


Predicate: TypeAlias = (
    IsNull
    | Compare
    | CompareFields
    | In
    | Match
    | Stored
    | Related
    | JsonType
    | Elements
    | All
    | Any
)

ALWAYS: Final = All(())
NEVER: Final = Any(())


def opposite_of(predicate: Predicate) -> Predicate:
    """Return the predicate for exactly the rows that the given one does not allow."""
    match predicate:
        case IsNull(field, negated):
            return IsNull(field, not negated)
        case Compare(field, operator, value, kind):
            # The test is unknown for NULL, and its opposite as well: the row is selected by its
            # own test.
            return any_of([Compare(field, OPPOSITES[operator], value, kind), IsNull(field)])
        case CompareFields(left, operator, right, kind):
            unlike = CompareFields(left, OPPOSITES[operator], right, kind)
            return any_of([unlike, IsNull(left), IsNull(right)])
        case In(field, values, kind, negated, domain):
            if domain:
                rest = tuple([each for each in domain if each not in values])
                parts: list[Predicate] = [replace(predicate, values=rest)] if rest else []
                return any_of([*parts, IsNull(field)])
            return any_of([In(field, values, kind, not negated), IsNull(field)])
        case Match(field, operator, text, negated):
            return any_of([Match(field, operator, text, not negated), IsNull(field)])
        # INVARIANT: these and the tests below are never unknown in SQL (EXISTS, `coalesce`, see
        # `dialects` and `json_views`), so that their opposites need no test for NULL.
        case Stored(field, kind, negated):
            return Stored(field, kind, not negated)
        case Related(table, relation, row, holds, negated):
            return Related(table, relation, row, holds, not negated)
        case JsonType(field, types, negated):
            return JsonType(field, types, not negated)
        case Elements(field, kind, row, holds, negated):
            return Elements(field, kind, row, holds, not negated)
        case All():
            return any_of([opposite_of(part) for part in predicate.parts])
        case Any():
            return all_of([opposite_of(part) for part in predicate.parts])


def all_of(parts: list[Predicate]) -> Predicate:
    """Return the predicate that all parts hold, simplified: `ALWAYS` without parts, `NEVER` if a
    part never holds.
    """
    flat: list[Predicate] = []
    for part in parts:
        if type(part) is Any and not part.parts:
            return NEVER
        flat += part.parts if type(part) is All else (part,)
    unique = _without_repetition(flat)
    return unique[0] if len(unique) == 1 else All(unique)


def any_of(parts: list[Predicate]) -> Predicate:
    """Return the predicate that one of the parts holds, simplified: `NEVER` without parts, `ALWAYS`
    if a part always holds.
    """
    flat: list[Predicate] = []
    for part in parts:
        if type(part) is All and not part.parts:
            return ALWAYS
        flat += part.parts if type(part) is Any else (part,)
    unique = _without_repetition(flat)
    return unique[0] if len(unique) == 1 else Any(unique)


def _without_repetition(parts: list[Predicate]) -> tuple[Predicate, ...]:
    """Return the parts in order without repeated tests for NULL of one field; other repeated parts
    stay.
    """
    nulls: set[tuple[Field, bool]] = set()
    unique: list[Predicate] = []
    for part in parts:
        if type(part) is IsNull:
            key = part.field, part.negated
            if key in nulls:
                continue
            nulls.add(key)
        unique.append(part)
    return tuple(unique)
