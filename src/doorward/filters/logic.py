"""Conditions to the predicate that a database decides as the policy does, NULL included.

SQL has three truth values, Rego two. So each comparison becomes a combination of tests that hold
only for values that are there, and of tests for NULL (`predicates`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from doorward.base.records import record, replace
from doorward.filters.column_comparisons import NANOSECONDS, compare_columns, compare_with_value
from doorward.filters.columns import (
    FIRST_NS,
    KINDS,
    LAST_NS,
    Column,
    Kind,
    Nulls,
    decides,
    rank_of,
)
from doorward.filters.conditions import (
    Comparison,
    Condition,
    Conditions,
    Field,
    FilterError,
    Group,
    Some,
    fault,
    to_scalar,
)
from doorward.filters.folding import OBJECT_GET
from doorward.filters.hints import COUNTS, DEFAULTS, JSON, MEMBERS, ROWS, ZONES
from doorward.filters.predicates import (
    ALWAYS,
    JSON_TYPES,
    NEVER,
    Compare,
    Elements,
    IsNull,
    JsonType,
    Predicate,
    Related,
    Stored,
    all_of,
    any_of,
    opposite_of,
)
from doorward.rego.shared import from_key

__all__ = ["Schema", "to_predicate"]

T = TypeVar("T")
_Row: TypeAlias = "T | _Inside"

COUNT: Final = "count"


class Schema(Protocol[T]):
    """The declared columns and relations of tables; T is the type that stands for a table, or for
    one of its rows.
    """

    def table(self, name: str) -> T | None:
        """Return the table that the policy calls `name`; None if there is none."""

    def column(self, table: T, name: str) -> Column | None:
        """Return the description of a column; None if there is none of that name."""

    def related(self, table: T, relation: str) -> tuple[T, bool] | None:
        """Return the table to which a relation leads, and True if it leads to many rows; None if
        there is none.
        """


@record
class _Inside:
    """A value inside a column that a policy uses like a row: an object in a JSON document, or an
    element of an array. `field` locates it, `column` describes its type.
    """

    field: Field
    column: Column


def to_predicate(
    conditions: Conditions,
    schema: Schema[T],
    nulls: Nulls = "null",
    *,
    stored: Collection[Kind] = KINDS,
) -> Predicate:
    """Return the predicate that decides on a row as the conditions do, NULL included.

    `stored` are kinds that the database does not enforce: a row that holds something else in a
    compared column of such a kind is refused. Raise FilterError for a missing column or relation,
    or what no database can compare.
    """
    return _Maker(schema, nulls, stored=stored).make(conditions)


class _Maker(Generic[T]):
    """Makes predicates of conditions. The parameter `rows` of its methods has, by name, the related
    rows that the conditions around the present one introduce.
    """

    def __init__(self, schema: Schema[T], nulls: Nulls, *, stored: Collection[Kind]) -> None:
        self._schema = schema
        self._nulls = nulls
        self._stored = stored
        self._compared: dict[str, dict[Field, Kind]] = {}
        """The compared columns with their kinds, by the name of a related row; those of all other
        rows are under ""."""
        self._refuses = False
        """True if a condition that holds here means that access is refused."""

    def make(self, conditions: Conditions) -> Predicate:
        """Return the predicate for rows of the policy's tables."""
        self._compared[""] = {}
        return self._require_declared("", self.conditions(conditions, {}))

    def _require_declared(self, row: str, holds: Predicate) -> Predicate:
        """Return `holds`, restricted to rows whose compared columns hold values of their declared
        kinds. The record of the columns compared on `row` is removed.

        Where a condition that holds refuses access, rows with other values are added instead.
        """
        compared = self._compared.pop(row).items()
        # What a database says of a value of another kind is not what the policy would say: such a
        # row must not pass.
        tests: list[Predicate] = [
            Stored(each, kind, self._refuses)
            for each, kind in compared
            if kind in self._stored and kind != "choice"  # of which each member is named
        ]
        return any_of([*tests, holds]) if self._refuses else all_of([*tests, holds])

    def conditions(self, conditions: Conditions, rows: Mapping[str, _Row[T]]) -> Predicate:
        return any_of([all_of([self._of(each, rows) for each in body]) for body in conditions])

    def _of(self, condition: Condition, rows: Mapping[str, _Row[T]]) -> Predicate:
        """Return the predicate for one condition; FilterError if it has none. `rows`: the tables or
        JSON values to which the names in the condition refer.
        """
        match condition:
            case Comparison():
                return self._comparison(condition, rows)
            case Group(conditions, negated):
                # Behind an even number of negations a condition that holds allows again.
                self._refuses ^= negated
                holds = self.conditions(conditions, rows)
                self._refuses ^= negated
                return opposite_of(holds) if negated else holds
            case Some():
                return self._some(condition, rows)

    def _some(self, some: Some, rows: Mapping[str, _Row[T]]) -> Predicate:
        """Return the predicate that a relation leads to a row, or that a JSON or array column has
        an element, for which the conditions of `some` hold; or, if `some` is negated, to none.

        Raise FilterError if there is no such relation or column, and if `some.many` is not what the
        relation is declared as.
        """
        table = self._table(some.table, rows)
        name = Field(some.table, some.relation).name
        if isinstance(table, _Inside):
            inside = _member(table, some.relation)
            if inside.column.kind not in ("json", "array"):
                raise fault(f"an element of {name} is not a collection: {_text(some)}", ROWS)
            return self._inside(some, inside, rows)
        target = None if table is None else self._schema.related(table, some.relation)
        if target is None:
            column = None if table is None else self._schema.column(table, some.relation)
            if column is not None and column.kind in ("json", "array"):
                field = Field(some.table, some.relation)
                self._compared.get(field.table, self._compared[""])[field] = column.kind
                return self._inside(some, _Inside(field, column), rows)
            if column is not None and column.kind is None:
                raise _refusal(name, column, _text(some))
            raise fault(f"{name} is not a declared relation: {_text(some)}", ROWS)
        row_table, many = target
        if many != some.many:
            use = "read like one row" if many else "iterated over"
            count = "many rows" if many else "one row"
            raise fault(
                f"{name} is declared as a relation to {count}, but {use}: {_text(some)}", ROWS
            )
        self._refuses ^= some.negated
        self._compared[some.row] = {}
        holds = self._require_declared(
            some.row, self.conditions(some.conditions, {**rows, some.row: row_table})
        )
        self._refuses ^= some.negated
        if holds == NEVER:
            return ALWAYS if some.negated else NEVER
        return Related(some.table, some.relation, some.row, holds, some.negated)

    def _inside(self, some: Some, target: _Inside, rows: Mapping[str, _Row[T]]) -> Predicate:
        """Return the predicate that an object in a document, or an element of an array, fulfils the
        conditions or, if `some` is negated, does not.

        Raise FilterError for an array that is used as an object, and for conditions that have no
        predicate.
        """
        field, column = target.field, target.column
        self._refuses ^= some.negated
        if not some.many:
            if column.kind != "json":
                raise fault(f"{field.name} is an array and not an object: {_text(some)}", ROWS)
            holds = self.conditions(some.conditions, {**rows, some.row: target})
            self._refuses ^= some.negated
            holds = all_of([JsonType(field, ("object",)), holds])
            return opposite_of(holds) if some.negated else holds
        item = column.item if column.kind == "array" else column
        assert item is not None
        assert column.kind is not None
        self._compared[some.row] = {}
        element = _Inside(Field(some.row, ""), item)
        holds = self._require_declared(
            some.row, self.conditions(some.conditions, {**rows, some.row: element})
        )
        self._refuses ^= some.negated
        if holds == NEVER:
            return ALWAYS if some.negated else NEVER
        return Elements(field, column.kind, some.row, holds, some.negated)

    def _table(self, name: str, rows: Mapping[str, _Row[T]]) -> _Row[T] | None:
        return rows[name] if name in rows else self._schema.table(name)

    def _comparison(self, comparison: Comparison, rows: Mapping[str, _Row[T]]) -> Predicate:
        """Return the predicate for a comparison, or for a test such as `defined`. It holds for no
        row in which an operand has no value, except a negated `eq`, which holds there, and
        `object.get`, which has its default there. NULL is a value if the policy sees it as null.

        Raise FilterError if a column is not declared or cannot be compared in this way.
        """
        value = comparison.value
        if comparison.field.function == OBJECT_GET:
            return self._with_default(comparison, rows)
        if comparison.operator == "defined":
            return self._is_defined(comparison, rows)
        if comparison.operator == "collection":
            return self._collection(comparison.field, rows)
        if comparison.field.function == COUNT:
            return self._count(comparison, rows)
        is_direct = not isinstance(self._table(comparison.field.table, rows), _Inside)
        if (
            is_direct
            and not comparison.field.column
            and (comparison.operator, value) == ("ne", False)
        ):
            return NEVER if comparison.negated else ALWAYS  # a row is there
        field, column = self._column(comparison.field, rows, comparison)
        # Before the comparison, which may replace the field's function by another one.
        there = self._presence(field, column)
        is_opposed = comparison.negated and comparison.operator != "eq"
        if column.kind == "json" and not field.function and not is_opposed:
            there = []  # each test of a document holds only where there is a value
        if isinstance(value, Field):
            other, other_column = self._column(value, rows, comparison)
            holds = compare_columns(field, column, comparison.operator, other, other_column)
            there += self._presence(other, other_column)
        else:
            field, holds = compare_with_value(field, column, comparison.operator, value)
        if not there:
            return opposite_of(holds) if comparison.negated else holds
        if not is_opposed:
            holds = all_of([*there, holds])
            return opposite_of(holds) if comparison.negated else holds
        # `not x < 1` is undefined where x is; `not x == 1` holds there.
        return all_of([*there, opposite_of(holds)])

    def _with_default(self, comparison: Comparison, rows: Mapping[str, _Row[T]]) -> Predicate:
        """Return the predicate for a comparison of `object.get`: it compares the column or, where
        that has no value, the default. NULL is a value if the policy sees it as null.

        Raise FilterError for a comparison with another column, or inside a document.
        """
        field, value = comparison.field, comparison.value
        if comparison.operator == "defined":
            return ALWAYS
        if isinstance(value, Field):
            raise fault(
                f"{OBJECT_GET} can only be compared with known values: {comparison.text()}", MEMBERS
            )
        if isinstance(self._table(field.table, rows), _Inside):
            raise fault(
                f"the first operand of {OBJECT_GET} must be a row: {comparison.text()}", DEFAULTS
            )
        plain = replace(field, function="", default=None)
        there = all_of(self._presence(*self._column(plain, rows, comparison)))
        holds = self._comparison(replace(comparison, field=plain, negated=False), rows)
        parts = [all_of([there, holds])]
        if decides(to_scalar(from_key(field.default)), comparison.operator, value):
            parts.append(opposite_of(there))
        condition = any_of(parts)
        return opposite_of(condition) if comparison.negated else condition

    def _presence(self, field: Field, column: Column) -> list[Predicate]:
        """Return the predicates that together mean that an operand has a value: [] if it always has
        one, NEVER among them if it never has. Raise FilterError for a function of a kind whose
        values may suit it but are not stored so that a database can compute it: a text function of
        a UUID, the nanoseconds of a text.
        """
        if field.function == NANOSECONDS:
            if column.kind in ("text", "choice", "json"):
                raise fault(
                    f"{NANOSECONDS} can only be called with columns of times: {field.name}", ZONES
                )
            if column.kind != "moment":
                return [NEVER]
            # Beyond these times the built-in is undefined: its result has 64 bits.
            first = Compare(Field(field.table, field.column), "gte", FIRST_NS, "moment")
            return [first, replace(first, operator="lte", value=LAST_NS)]
        if column.kind == "json":
            types = ("string",) if field.function else JSON_TYPES
            return [JsonType(replace(field, function="", operand=""), types)]
        if field.function:
            if column.kind != "text":
                return [_not_a_text(field, column)]
            return [IsNull(Field(field.table, field.column), negated=True)]
        # An element that is NULL is null, whatever a column that is NULL stands for.
        if self._nulls == "null" or not field.column:
            return []
        return [IsNull(field, negated=True)]

    def _is_defined(self, comparison: Comparison, rows: Mapping[str, _Row[T]]) -> Predicate:
        """Return the predicate that the field of a comparison has a value for the policy: a column,
        a value in a document, a `count(…)` or a related row. NULL, and a missing row of a relation
        to one row, count if the policy sees them as null. The comparison's operator, value and
        negation are ignored.
        """
        field = comparison.field
        if field.function == COUNT:
            self._some(_counted(comparison), rows)  # refuses columns of other kinds
            return self._countable(replace(field, function="", operand=""), rows)
        table = self._table(field.table, rows)
        target = None
        if table is not None and not isinstance(table, _Inside) and not field.function:
            target = self._schema.related(table, field.column)
        if target is None:
            return all_of(self._presence(*self._column(field, rows, comparison)))
        if target[1] or self._nulls == "null":
            return ALWAYS
        return Related(field.table, field.column, f"{field.column}#0", ALWAYS)

    def _collection(self, field: Field, rows: Mapping[str, _Row[T]]) -> Predicate:
        """Return the predicate that a value is a collection, perhaps an empty one. It is `ALWAYS`
        for a relation, and for columns that hold no collections, for which `_some` raises the
        error.
        """
        table = self._table(field.table, rows)
        if isinstance(table, _Inside):
            return JsonType(_member(table, field.column).field, ("array", "object"))
        column = None if table is None else self._schema.column(table, field.column)
        if column is not None and column.kind == "array":
            return IsNull(field, negated=True)
        if column is not None and column.kind == "json":
            return JsonType(field, ("array", "object"))
        return ALWAYS

    def _json_field(self, field: Field, rows: Mapping[str, _Row[T]]) -> Field | None:
        """Return the field, as predicates locate it, of a JSON document or a value in one; None for
        other columns and relations. FilterError for a name in an element that is not an object.
        """
        table = self._table(field.table, rows)
        if isinstance(table, _Inside):
            inside = _member(table, field.column)
            return inside.field if inside.column.kind == "json" else None
        column = None if table is None else self._schema.column(table, field.column)
        return field if column is not None and column.kind == "json" else None

    def _countable(self, field: Field, rows: Mapping[str, _Row[T]]) -> Predicate:
        """Return the predicate that `count` is defined for a value: it is a collection or, in a
        JSON document, a text.
        """
        document = self._json_field(field, rows)
        if document is None:
            return self._collection(field, rows)
        return JsonType(document, ("string", "array", "object"))

    def _count(self, comparison: Comparison, rows: Mapping[str, _Row[T]]) -> Predicate:
        """Return the predicate for a comparison of `count(…)` with a known value. Where the operand
        cannot be counted only a negated `eq` holds.

        Only a comparison that tells no elements from some, such as `count(x) > 0`, can be
        translated: raise FilterError for others, and for a comparison with a column.
        """
        field, operator, value = comparison.field, comparison.operator, comparison.value
        if isinstance(value, Field):
            raise fault(
                f"count can only be compared with a known number: {comparison.text()}", COUNTS
            )
        # The last one stands for more rows than any table has.
        rest = {decides(number, operator, value) for number in (1, 2, 3, 1 << 62)}
        known = value if isinstance(value, list) else [value]
        # `== 5` is false for each of these samples, and still not for each count.
        existing = [each for each in known if rank_of(each) == 2 and decides(each, "gte", 1)]
        if len(rest) > 1 or (existing and operator in ("eq", "ne", "in")):
            raise fault(
                "count can only ask whether there are rows, such as `count(x) > 0` or `== 0`: "
                f"{comparison.text()}",
                COUNTS,
            )
        counted = replace(field, function="", operand="")
        there = self._countable(counted, rows)
        is_some = self._some(_counted(comparison), rows)
        if document := self._json_field(counted, rows):
            is_some = any_of([is_some, JsonType(document, ("characters",))])
        parts: list[Predicate] = [is_some] if rest == {True} else []
        if decides(0, operator, value):
            parts.append(opposite_of(is_some))
        holds = any_of(parts) if len(parts) < 2 else ALWAYS
        if comparison.negated and operator != "eq":
            return all_of([there, opposite_of(holds)])
        holds = all_of([there, holds])
        return opposite_of(holds) if comparison.negated else holds

    def _column(
        self, field: Field, rows: Mapping[str, _Row[T]], comparison: Comparison
    ) -> tuple[Field, Column]:
        """Return the field of an operand as predicates locate it, with the description of its
        column, and record that the column is compared, so that rows with values of another kind are
        refused (`_require_declared`).

        Raise FilterError, with the policy's text of `comparison`, if it is not declared or cannot
        be compared.
        """
        table = self._table(field.table, rows)
        if isinstance(table, _Inside):
            inside = _member(table, field.column) if field.column else table
            operand = replace(inside.field, function=field.function, operand=field.operand)
            if operand.table in self._compared and inside.column.kind != "json":
                assert inside.column.kind is not None
                self._compared[operand.table][Field(operand.table, "")] = inside.column.kind
            return operand, inside.column
        column = None if table is None else self._schema.column(table, field.column)
        related = table is not None and self._schema.related(table, field.column) is not None
        if column is None:
            message = (
                f"the column {_safe_name(field, comparison)} is not declared: {comparison.text()}"
            )
            if not field.column:
                message = f"rows cannot be compared whole: {comparison.text()}"
            raise fault(message, ROWS if related or not field.column else None)
        if column.kind is None:
            raise _refusal(_safe_name(field, comparison), column, comparison.text())
        if column.kind == "json" and field.function != NANOSECONDS:
            why = "is a document of JSON"
            raise fault(
                f"the column {_safe_name(field, comparison)} {why}: {comparison.text()}", JSON
            )
        compared = self._compared.get(field.table, self._compared[""])
        compared[replace(field, function="", operand="")] = column.kind
        return field, column


def _counted(comparison: Comparison) -> Some:
    """Return the condition that what a `count(…)` counts has an element."""
    field = comparison.field
    name = f"{field.column}#count"
    return Some(field.table, field.column, name, True, ((),), text=comparison.text)


def _member(inside: _Inside, name: str) -> _Inside:
    """Return the value under a name in a JSON document or object, `inside` itself for the name "";
    raise FilterError if `inside` is an element of another type.
    """
    if not name:
        return inside
    if inside.column.kind != "json":
        raise fault(f"{inside.field.name} is not an object: it has no {name}", ROWS)
    return _Inside(replace(inside.field, path=(*inside.field.path, name)), inside.column)


def _not_a_text(field: Field, column: Column) -> Predicate:
    """Return NEVER for a text function of a column that holds no texts.

    Raise FilterError for a kind whose values a policy sees as texts, such as a UUID.
    """
    if column.kind in ("boolean", "number", "array"):
        return NEVER
    message = f"{field.function} can only be called with columns of texts: {field.name}"
    raise fault(message, MEMBERS)


def _refusal(name: str, column: Column, text: str) -> FilterError:
    return fault(f"the column {name} {column.reason}: {text}", column.hint)


def _safe_name(field: Field, comparison: Comparison) -> str:
    """Return the name of a column, or `…` if the input chose it, since it may be secret."""
    return field.name if field.column in comparison.text() else "…"


def _text(condition: Condition) -> str:
    """Return the policy's text of the first comparison in a condition, for error messages; `its
    rows` if there is no comparison.
    """
    match condition:
        case Comparison():
            return condition.text()
        case Some(conditions=conditions) | Group(conditions):
            return next((_text(each) for body in conditions for each in body), "its rows")
