"""Comparisons of a column, with a known value or with another column, as predicates.

Rego orders all values: null, booleans, numbers, texts. A database compares values of one type only.
So a comparison with a value of another type is decided here, and what is left for the database are
tests of the column's own type, and tests for NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from doorward.base.records import replace
from doorward.filters.columns import (
    RANKS,
    WRITTEN,
    Bound,
    Column,
    Kind,
    decides,
    moment_bound,
    rank_of,
    written_test,
)
from doorward.filters.conditions import Field, Scalar, fault
from doorward.filters.exact_numbers import check_range
from doorward.filters.folding import folding_of
from doorward.filters.hints import MEMBERS, MOMENTS
from doorward.filters.predicates import (
    ALWAYS,
    JSON_TYPES,
    NEVER,
    OPPOSITES,
    Compare,
    CompareFields,
    In,
    IsNull,
    JsonType,
    Match,
    Predicate,
    all_of,
    any_of,
    opposite_of,
)
from doorward.rego import Number

__all__ = ["NANOSECONDS", "compare_columns", "compare_with_value"]

NANOSECONDS: Final = "time.parse_rfc3339_ns"
_JSON_KINDS: Final[dict[str, str]] = {"boolean": "boolean", "number": "number", "text": "string"}
_MIRRORED: Final = {"gt": "lt", "gte": "lte"}


def compare_with_value(
    field: Field, column: Column, operator: str, value: Scalar | list[Scalar]
) -> tuple[Field, Predicate]:
    """Return the field as predicates name it, and the predicate that compares it with a known
    value. Raise FilterError if no database can compare them in this way.
    """
    if field.function == NANOSECONDS:
        plain = Field(field.table, field.column)
        return plain, _compare_nanoseconds(plain, operator, value)
    if field.function:
        return field, _compare_function(field, column, operator, value)
    if column.kind == "json":
        return field, _compare_json(field, operator, value)
    return field, _compare_value(field, column, operator, value)


def _compare_value(
    field: Field, column: Column, operator: str, value: Scalar | list[Scalar]
) -> Predicate:
    """Return the predicate that compares a column with a known value in Rego's order of all types.
    NULL counts as null, so that it holds for `lt 1`: callers add a test where NULL is a missing
    value.

    `value` is a list for `in`, a text for searches such as `startswith`. Raise FilterError if no
    database can compare the column's kind with it in this way.
    """
    kind = column.kind
    assert kind is not None
    if kind == "choice":
        return _choice(field, column, operator, value)
    if operator == "in":
        assert isinstance(value, list)
        return _in(field, column, value)
    assert not isinstance(value, list)
    if operator in ("startswith", "endswith", "contains"):
        assert isinstance(value, str)
        if RANKS[kind] != RANKS["text"]:
            return NEVER
        if not value:
            return IsNull(field, negated=True)
        if kind in WRITTEN:
            return _within_bounds(field, kind, written_test(kind, operator, value))
        return Match(field, operator, value)
    # In a total order `gt` is exactly what `lte` is not: three operators are written, three
    # derived.
    if operator in ("gt", "gte", "ne"):
        return opposite_of(_compare_value(field, column, OPPOSITES[operator], value))
    if value is None:
        return NEVER if operator == "lt" else IsNull(field)
    other = _kind_of(value)
    if RANKS[other] == RANKS[kind]:
        if kind in WRITTEN:
            assert isinstance(value, str)
            holds = _within_bounds(field, kind, written_test(kind, operator, value))
        else:
            holds = Compare(field, operator, value, kind)
        # null comes before all other values.
        return holds if operator == "eq" else any_of([holds, IsNull(field)])
    if operator == "eq":
        return NEVER
    # `lt` and `lte` are left: all values of a lower type are less, and null is in any case.
    return ALWAYS if RANKS[kind] < RANKS[other] else IsNull(field)


def _within_bounds(field: Field, kind: Kind, bounds: Sequence[Bound]) -> Predicate:
    """Return the predicate that a column fulfils all bounds, each an operator with a stored value;
    True as a bound means any value but NULL, False none.
    """
    parts: list[Predicate] = []
    for bound in bounds:
        if isinstance(bound, bool):
            parts.append(IsNull(field, negated=True) if bound else NEVER)
        else:
            parts.append(Compare(field, bound[0], bound[1], kind))
    return all_of(parts)


def _in(field: Field, column: Column, items: Sequence[Scalar]) -> Predicate:
    """Return the predicate that a column is one of known values; those of another kind are left
    out. FilterError for a number or text that databases cannot compare with the column.
    """
    kind = column.kind
    assert kind is not None
    values = [each for each in items if each is not None]
    parts: list[Predicate] = []
    if kind in WRITTEN:
        parts += [_compare_value(field, column, "eq", each) for each in values]
    else:
        fitting = tuple([each for each in values if _kind_of(each) == kind])
        parts += [In(field, fitting, kind)] if fitting else []
    if len(values) < len(items):
        parts.append(IsNull(field))
    return any_of(parts)


def _choice(field: Field, column: Column, operator: str, value: Scalar | list[Scalar]) -> Predicate:
    """Return the predicate that a column is one of the enumeration's members for which the
    comparison holds, or NULL if it holds for null.
    """
    domain = tuple([stored for stored, _ in column.members])
    # Member by member: databases order an enumeration by its declaration, or by what they store.
    holds = tuple([stored for stored, seen in column.members if decides(seen, operator, value)])
    parts: list[Predicate] = [In(field, holds, "choice", domain=domain)] if holds else []
    if decides(None, operator, value):
        parts.append(IsNull(field))
    return any_of(parts)


def _compare_nanoseconds(field: Field, operator: str, value: Scalar | list[Scalar]) -> Predicate:
    """Return the predicate that compares a time, as nanoseconds since 1970, with a known value;
    values of other types are decided by Rego's order of types. It may hold for NULL: callers add
    the test that there is a time.
    """
    if operator == "in":
        assert isinstance(value, list)
        return any_of([_compare_nanoseconds(field, "eq", each) for each in value])
    if operator in ("startswith", "endswith", "contains"):
        return NEVER
    assert not isinstance(value, list)
    if operator in ("gt", "gte", "ne"):
        return opposite_of(_compare_nanoseconds(field, OPPOSITES[operator], value))
    if rank_of(value) != RANKS["number"]:
        before = RANKS["number"] < rank_of(value)
        return IsNull(field, negated=True) if before and operator != "eq" else NEVER
    assert not isinstance(value, (str, bool))
    assert value is not None
    return _within_bounds(field, "moment", [moment_bound(operator, value)])


def _compare_function(
    field: Field, column: Column, operator: str, value: Scalar | list[Scalar]
) -> Predicate:
    """Return the predicate that compares the text which the field's function gives for a column
    with a known value. It may hold for NULL: callers add the test that there is a text.

    Raise FilterError for a comparison by order, or if too many letters of `value` have two cases.
    """
    if operator == "in":
        assert isinstance(value, list)
        return any_of([_compare_function(field, column, "eq", each) for each in value])
    assert not isinstance(value, list)
    if operator == "ne":
        return opposite_of(_compare_function(field, column, "eq", value))
    is_search = operator in ("startswith", "endswith", "contains")
    if operator != "eq" and not is_search:
        raise fault(
            f"the value of {field.function} cannot be compared by order in a "
            "database: use == or !=",
            MEMBERS,
        )
    if not isinstance(value, str):
        return NEVER
    folded = folding_of(field.function, field.operand, value)
    if folded is None:
        return NEVER
    function, operand = folded
    folded_field = replace(field, function=function, operand=operand)
    if is_search:
        return Match(folded_field, operator, value) if value else ALWAYS
    return Compare(folded_field, "eq", value, "text")


def _compare_json(field: Field, operator: str, value: Scalar | list[Scalar]) -> Predicate:
    """Return the predicate that compares the value at a path of a JSON document with a known value,
    in Rego's order of all types. It holds only where the document has a value there, which may be
    null.
    """
    if operator == "in":
        assert isinstance(value, list)
        return any_of([_compare_json(field, "eq", each) for each in value])
    assert not isinstance(value, list)
    if operator in ("startswith", "endswith", "contains"):
        assert isinstance(value, str)
        there = JsonType(field, ("string",))
        return all_of([there, Match(field, operator, value)]) if value else there
    if operator in ("ne", "gt", "gte"):
        holds = _compare_json(field, OPPOSITES[operator], value)
        return all_of([JsonType(field, JSON_TYPES), opposite_of(holds)])
    rank = rank_of(value)
    same: list[Predicate] = []
    if value is None:
        same = [] if operator == "lt" else [JsonType(field, ("null",))]
    else:
        kind = _kind_of(value)
        there = JsonType(field, (_JSON_KINDS[kind],))
        if kind == "boolean" and operator != "eq":
            constants = tuple([each for each in (False, True) if decides(each, operator, value)])
            same = [all_of([there, Compare(field, "eq", each, kind)]) for each in constants]
        else:
            same = [all_of([there, Compare(field, operator, value, kind)])]
    # `lt` and `lte` are left: all values of the types before that of the value are less.
    if operator != "eq" and rank:
        same.append(JsonType(field, JSON_TYPES[:rank]))
    return any_of(same)


def _kind_of(value: bool | int | Number | str) -> Kind:
    """Return the kind of a known scalar: boolean, number or text. Raise FilterError for a number so
    small that MariaDB compares it as 0.
    """
    match value:
        case bool():
            return "boolean"
        case int():
            return "number"
        case Number():
            check_range(value)
            return "number"
        case str():
            return "text"
        case _:
            assert_never(value)


def compare_columns(
    left: Field, column: Column, operator: str, right: Field, other: Column
) -> Predicate:
    """Return the predicate that compares two columns in Rego's order of all types. NULL counts as
    null, so that two NULLs are equal: callers add tests where NULL is a missing value. `operator`
    is eq, ne, lt, lte, gt or gte.

    Raise FilterError for enumerations, values in JSON documents, two arrays, different kinds that a
    policy sees as texts, the order of UUIDs or times, and for a function, unless both are
    `NANOSECONDS`.
    """
    if operator in _MIRRORED:
        return compare_columns(right, other, _MIRRORED[operator], left, column)
    if operator == "ne":
        return opposite_of(compare_columns(left, column, "eq", right, other))
    if left.function == right.function == NANOSECONDS:
        one, two = Field(left.table, left.column), Field(right.table, right.column)
        return CompareFields(one, operator, two, "moment")
    if left.function or right.function:
        raise fault(
            f"{left.function or right.function} can only be compared with known values", MOMENTS
        )
    kind, other_kind = column.kind, other.kind
    assert kind is not None
    assert other_kind is not None
    if kind not in RANKS or other_kind not in RANKS:
        message = (
            "an enumeration or a value in a JSON document can only be compared with known values"
        )
        raise fault(f"{message}: {left.name} and {right.name}", MEMBERS)
    null, there = IsNull(left), IsNull(right, negated=True)
    both_null = all_of([null, IsNull(right)])
    if kind == other_kind and kind != "array":
        # The policy sees texts, whose order is another: `…:00.5Z` comes before `…:00Z`.
        if operator != "eq" and kind in ("uuid", "moment"):
            raise fault(
                f"{left.name} and {right.name} can only be compared with == and !=", MOMENTS
            )
        holds = CompareFields(left, operator, right, kind)
        more = {"eq": both_null, "lt": all_of([null, there]), "lte": null}[operator]
        return any_of([holds, more])
    if RANKS[kind] == RANKS[other_kind]:
        message = "columns of different types cannot be compared with each other"
        raise fault(f"{message}: {left.name} and {right.name}", MEMBERS)
    if operator == "eq":
        return both_null
    if RANKS[kind] < RANKS[other_kind]:
        # Any value on the left is less than any on the right, and null is less than both.
        return there if operator == "lt" else any_of([there, null])
    return all_of([null, there]) if operator == "lt" else null
