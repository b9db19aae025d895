"""Comparisons to predicates that databases decide as the policy does, NULL included.

SQL has three truth values, Rego two, and Rego orders all values: null, booleans, numbers, texts. So
each comparison becomes a combination of tests that hold only for values that are there, and of
tests for NULL. The opposite of a test is written out, never left to `NOT`: an unknown truth value
can then only make a row fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from doorward.filters.conditions import Comparison, Conditions, Field, fault
from doorward.records import record
from doorward.rego import Number, Value

__all__ = [
    "ALWAYS",
    "NEVER",
    "All",
    "Any",
    "Columns",
    "Compare",
    "CompareFields",
    "In",
    "IsNull",
    "Kind",
    "Match",
    "Nulls",
    "Predicate",
    "to_predicate",
]

Kind: TypeAlias = Literal["boolean", "number", "text"]
Columns: TypeAlias = Mapping[str, Mapping[str, Kind]]
"""The kinds of values in the columns of tables, under the names of the policy."""
Nulls: TypeAlias = Literal["null", "undefined"]
"""What NULL is to the policy: the value null, or a key that is not there."""

_RANKS: Final[dict[Kind, int]] = {"boolean": 1, "number": 2, "text": 3}
_OPPOSITES: Final = {"eq": "ne", "ne": "eq", "lt": "gte", "gte": "lt", "gt": "lte", "lte": "gt"}
_MIRRORED: Final = {"gt": "lt", "gte": "lte"}


@record(frozen=True)
class IsNull:
    field: Field
    negated: bool = False


@record(frozen=True)
class Compare:
    """Holds for no NULL. `value` is of the kind of the column."""

    field: Field
    operator: str
    value: bool | int | Number | str
    kind: Kind


@record(frozen=True)
class CompareFields:
    """Holds where neither is NULL; both are of one kind."""

    left: Field
    operator: str
    right: Field
    kind: Kind


@record(frozen=True)
class In:
    """Holds for no NULL, negated or not. `values` are of the kind of the column, and not empty."""

    field: Field
    values: tuple[bool | int | Number | str, ...]
    kind: Kind
    negated: bool = False


@record(frozen=True)
class Match:
    """`operator`: startswith, endswith or contains. Holds for no NULL, negated or not."""

    field: Field
    operator: str
    text: str
    negated: bool = False


@record(frozen=True)
class All:
    parts: tuple[Predicate, ...]


@record(frozen=True)
class Any:
    parts: tuple[Predicate, ...]


Predicate: TypeAlias = IsNull | Compare | CompareFields | In | Match | All | Any

ALWAYS: Final = All(())
NEVER: Final = Any(())


def to_predicate(conditions: Conditions, columns: Columns, nulls: Nulls = "null") -> Predicate:
    """What rows have to fulfil. FilterError for a column that is not declared."""
    bodies = [_all([_of(each, columns, nulls) for each in body]) for body in conditions]
    return _any(bodies)


def _of(comparison: Comparison, columns: Columns, nulls: Nulls) -> Predicate:
    field, value = comparison.field, comparison.value
    kind = _kind(field, columns, comparison)
    if isinstance(value, Field):
        other = _kind(value, columns, comparison)
        holds = _fields(field, kind, comparison.operator, value, other)
        present = [field, value]
    else:
        holds = _value(field, kind, comparison.operator, value)
        present = [field]
    if nulls == "null":
        return _opposite(holds) if comparison.negated else holds
    there = [IsNull(each, negated=True) for each in present]
    if not comparison.negated:
        return _all([*there, holds])
    if comparison.operator == "eq":
        return _opposite(_all([*there, holds]))
    # `not x < 1` is undefined where x is; `not x == 1` holds there.
    return _all([*there, _opposite(holds)])


def _kind(field: Field, columns: Columns, comparison: Comparison) -> Kind:
    kind = columns.get(field.table, {}).get(field.column)
    if kind is None:
        raise fault(f"the column {field.name} is not declared: {comparison.text()}")
    if kind not in _RANKS:
        raise fault(f"the kind of the column {field.name} cannot be compared: {comparison.text()}")
    return kind


# With known values


def _value(field: Field, kind: Kind, operator: str, value: Value) -> Predicate:
    if operator == "in":
        assert isinstance(value, list)
        return _in(field, kind, value)
    if operator in ("startswith", "endswith", "contains"):
        assert isinstance(value, str)
        if kind != "text":
            return NEVER
        return Match(field, operator, value) if value else IsNull(field, negated=True)
    if operator in ("gt", "gte", "ne"):
        return _opposite(_value(field, kind, _OPPOSITES[operator], value))
    if value is None:
        return NEVER if operator == "lt" else IsNull(field)
    assert isinstance(value, (bool, int, Number, str))
    other = _kind_of(value)
    if other == kind:
        holds = Compare(field, operator, value, kind)
        # null comes before all other values.
        return holds if operator == "eq" else _any([holds, IsNull(field)])
    if operator == "eq":
        return NEVER
    return ALWAYS if _RANKS[kind] < _RANKS[other] else IsNull(field)


def _in(field: Field, kind: Kind, items: list[Value]) -> Predicate:
    values = [each for each in items if isinstance(each, (bool, int, Number, str))]
    fitting = tuple([each for each in values if _kind_of(each) == kind])
    parts: list[Predicate] = [In(field, fitting, kind)] if fitting else []
    if any(each is None for each in items):
        parts.append(IsNull(field))
    return _any(parts)


def _kind_of(value: bool | int | Number | str) -> Kind:
    if isinstance(value, bool):
        return "boolean"
    return "text" if isinstance(value, str) else "number"


# With other columns


def _fields(left: Field, kind: Kind, operator: str, right: Field, other: Kind) -> Predicate:
    if operator in _MIRRORED:
        return _fields(right, other, _MIRRORED[operator], left, kind)
    if operator == "ne":
        return _opposite(_fields(left, kind, "eq", right, other))
    null, there = IsNull(left), IsNull(right, negated=True)
    both_null = _all([null, IsNull(right)])
    if kind == other:
        holds = CompareFields(left, operator, right, kind)
        more = {"eq": both_null, "lt": _all([null, there]), "lte": null}[operator]
        return _any([holds, more])
    if operator == "eq":
        return both_null
    if _RANKS[kind] < _RANKS[other]:
        return there if operator == "lt" else _any([there, null])
    return _all([null, there]) if operator == "lt" else null


# Opposites


def _opposite(predicate: Predicate) -> Predicate:
    match predicate:
        case IsNull(field, negated):
            return IsNull(field, not negated)
        case Compare(field, operator, value, kind):
            return _any([Compare(field, _OPPOSITES[operator], value, kind), IsNull(field)])
        case CompareFields(left, operator, right, kind):
            unlike = CompareFields(left, _OPPOSITES[operator], right, kind)
            return _any([unlike, IsNull(left), IsNull(right)])
        case In(field, values, kind, negated):
            return _any([In(field, values, kind, not negated), IsNull(field)])
        case Match(field, operator, text, negated):
            return _any([Match(field, operator, text, not negated), IsNull(field)])
        case All(parts):
            return _any([_opposite(part) for part in parts])
        case Any(parts):
            return _all([_opposite(part) for part in parts])


def _all(parts: list[Predicate]) -> Predicate:
    flat: list[Predicate] = []
    for part in parts:
        if part == NEVER:
            return NEVER
        flat += part.parts if isinstance(part, All) else (part,)
    unique = tuple(dict.fromkeys(flat))
    return unique[0] if len(unique) == 1 else All(unique)


def _any(parts: list[Predicate]) -> Predicate:
    flat: list[Predicate] = []
    for part in parts:
        if part == ALWAYS:
            return ALWAYS
        flat += part.parts if isinstance(part, Any) else (part,)
    unique = tuple(dict.fromkeys(flat))
    return unique[0] if len(unique) == 1 else Any(unique)
