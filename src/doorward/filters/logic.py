"""Comparisons to predicates that databases decide as the policy does, NULL included.

SQL has three truth values, Rego two, and Rego orders all values: null, booleans, numbers, texts. So
each comparison becomes a combination of tests that hold only for values that are there, and of
tests for NULL. The opposite of a test is written out, never left to `NOT`: an unknown truth value
can then only make a row fail.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar, assert_never

from doorward.filters.conditions import (
    Comparison,
    Condition,
    Conditions,
    Field,
    Group,
    Scalar,
    Some,
    fault,
)
from doorward.filters.hints import ROWS
from doorward.records import record
from doorward.rego import Number, number_text

__all__ = [
    "ALWAYS",
    "MARIADB_COLUMNS",
    "MARIADB_HAVING",
    "MARIADB_MATCHES",
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
    "Related",
    "Relation",
    "Relations",
    "Schema",
    "Stored",
    "check_decimal",
    "check_double",
    "is_double",
    "stored_test",
    "to_predicate",
]

T = TypeVar("T")

Kind: TypeAlias = Literal["boolean", "number", "text"]
Columns: TypeAlias = Mapping[str, Mapping[str, Kind]]
"""The kinds of values in the columns of tables, under the names of the policy."""


@record(frozen=True)
class Relation:
    """To the rows of `table`, a name in `Columns`, in which each column (a key of `on`) is equal to
    the column of the row that the relation is of (its value). `many`: to any number of rows."""

    table: str
    on: Mapping[str, str]
    many: bool = True


Relations: TypeAlias = Mapping[str, Mapping[str, Relation]]
"""The relations of tables, under the names of the policy."""
Nulls: TypeAlias = Literal["null", "undefined"]
"""What NULL is to the policy: the value null, or a key that is not there."""

KINDS: Final[tuple[Kind, ...]] = ("boolean", "number", "text")
_RANKS: Final[dict[Kind, int]] = {"boolean": 1, "number": 2, "text": 3}
_OPPOSITES: Final = {"eq": "ne", "ne": "eq", "lt": "gte", "gte": "lt", "gt": "lte", "lte": "gt"}
_MIRRORED: Final = {"gt": "lt", "gte": "lte"}


@record
class IsNull:
    field: Field
    negated: bool = False


@record
class Compare:
    """Holds for no NULL. `value` is of the kind of the column."""

    field: Field
    operator: str
    value: bool | int | Number | str
    kind: Kind


@record
class CompareFields:
    """Holds where neither is NULL; both are of one kind."""

    left: Field
    operator: str
    right: Field
    kind: Kind


@record
class In:
    """Holds for no NULL, negated or not. `values` are of the kind of the column, and not empty."""

    field: Field
    values: tuple[bool | int | Number | str, ...]
    kind: Kind
    negated: bool = False


@record
class Match:
    """`operator`: startswith, endswith or contains. Holds for no NULL, negated or not."""

    field: Field
    operator: str
    text: str
    negated: bool = False


@record
class Stored:
    """A column holds NULL or a value of its kind, which SQLite does not see to; `negated`: not."""

    field: Field
    kind: Kind
    negated: bool = False


@record
class Related:
    """A relation leads to a row, `row` in `holds`, for which that holds; or, `negated`, to none."""

    table: str
    relation: str
    row: str
    holds: Predicate
    negated: bool = False


@record
class All:
    parts: tuple[Predicate, ...]


@record
class Any:
    parts: tuple[Predicate, ...]


Predicate: TypeAlias = IsNull | Compare | CompareFields | In | Match | Stored | Related | All | Any

ALWAYS: Final = All(())
NEVER: Final = Any(())


class Schema(Protocol[T]):
    """What is known of tables; T is what stands for one, or for a row of one."""

    def table(self, name: str) -> T | None:
        """The table of a name of the policy."""

    def kind(self, table: T, column: str) -> Kind | None:
        """The kind of a column; None where there is none that can be compared."""

    def related(self, table: T, relation: str) -> tuple[T, bool] | None:
        """Where a relation leads, and whether to many rows."""


_TYPES: Final[dict[Kind, str]] = {
    "boolean": "'integer'",
    "number": "'integer', 'real'",
    "text": "'text'",
}
"""What SQLite calls the values of a kind: it lets any value into any column."""


_FINITE: Final = {
    "postgresql": "coalesce(CAST({0} AS text), '') NOT IN ('NaN', 'Infinity', '-Infinity')",
    "sqlite": "coalesce({0}, 0) > -9e999 AND coalesce({0}, 0) < 9e999",
}
"""What databases take for numbers and policies do not."""


def is_double(value: int | Number) -> bool:
    """Whether a number of double precision is this one, to who reads it as its shortest text.

    Databases compare columns of doubles with any other number by the double that is next to it.
    """
    if type(value) is int and -_EXACT < value < _EXACT:
        return True
    decimal = Decimal(number_text(value))
    double = float(decimal)
    if not math.isfinite(double):
        return False
    if decimal == decimal.to_integral_value():
        return Decimal(double) == decimal
    return Decimal(repr(double)) == decimal


def check_double(value: int | Number) -> None:
    """FilterError for an integer that a column of doubles holds, and whose double has the text of
    another integer: 2**63 is 9223372036854776000 to who reads that text."""
    decimal = Decimal(number_text(value))
    double = float(decimal)
    if not math.isfinite(double) or decimal != decimal.to_integral_value():
        return
    if (Decimal(double) == decimal) != (Decimal(repr(double)) == decimal):
        raise fault("a column of doubles has no one number for what it is compared with")


_EXACT: Final = 1 << 53
_LEAST: Final = Decimal("1e-10")
_MOST: Final = Decimal("1e35")


def check_decimal(dialect: str, value: int | Number) -> None:
    """FilterError for a number that is not a double, and that MySQL cannot compare with the decimal
    that it makes of a double: 30 digits behind the point and 35 before it."""
    if dialect != "mysql":
        return
    decimal = Decimal(number_text(value))
    exponent = decimal.as_tuple().exponent
    assert isinstance(exponent, int)
    if not _LEAST <= abs(decimal) < _MOST or exponent < -26:
        raise fault("MySQL has no exact number for what a column is compared with")


def check_range(value: Number) -> None:
    """FilterError for a number next to 0 that MariaDB compares with integers and decimals as 0."""
    decimal = Decimal(number_text(value))
    if decimal and abs(decimal) < _SMALLEST:
        raise fault("databases have no exact number for what a column is compared with")


_SMALLEST: Final = Decimal("1e-30")

MARIADB_COLUMNS: Final = "1, 1"
MARIADB_HAVING: Final = "HAVING COUNT(*) > 0"
"""What an EXISTS selects, and its end: MariaDB (10.11) keeps the answers of a subquery with one
column by the values of the row outside, as their collation compares them, so that `a` got the
answer of `A`. One without aggregates it makes a subquery of IN, which has one column again."""
MARIADB_MATCHES: Final = {
    "startswith": "ABS(LOCATE({1}, {0}) - 1) < 1",
    "endswith": "ABS(LOCATE(REVERSE({1}), REVERSE({0})) - 1) < 1",
}
"""No equality: after `LOCATE('a', s) = 1` MariaDB (10.11) takes `LOCATE('Ä', s)` for 1 as well: the
literals are equal by the collation of the connection, however exactly they are searched for."""


def stored_test(dialect: str, kind: Kind, *, negated: bool) -> str:
    """`Stored` as a template for the name of a column; what always or never holds where the
    database sees to it. To MySQL and SQLite a boolean is a number, which may be 2."""
    tests = []
    if dialect == "sqlite":
        tests.append(f"typeof({{0}}) IN ({_TYPES[kind]}, 'null')")
    if kind == "number" and dialect in _FINITE:
        tests.append(_FINITE[dialect])
    if kind == "boolean" and dialect in ("mysql", "sqlite"):
        tests.append("coalesce({0}, 0) IN (0, 1)")
    if not tests:
        return "1 = 0" if negated else "1 = 1"
    holds = " AND ".join(tests)
    return f"NOT ({holds})" if negated else f"({holds})"


def to_predicate(
    conditions: Conditions,
    schema: Schema[T],
    nulls: Nulls = "null",
    *,
    stored: Collection[Kind] = KINDS,
) -> Predicate:
    """What rows have to fulfil. FilterError for a column or relation that is not there.

    `stored`: a row that holds something else than declared in a column of one of these kinds that
    is compared is not let through, nor because of a related row that does.
    """
    return _Maker(schema, nulls, stored=stored).whole(conditions)


class _Maker(Generic[T]):
    """`rows` are the tables of rows that relations lead to."""

    def __init__(self, schema: Schema[T], nulls: Nulls, *, stored: Collection[Kind]) -> None:
        self._schema = schema
        self._nulls = nulls
        self._stored = stored
        self._compared: dict[str, dict[Field, Kind]] = {}
        """The columns of related rows; those of all others are under ""."""
        self._refuses = False
        """Whether what holds here refuses."""

    def whole(self, conditions: Conditions) -> Predicate:
        """For the rows of the tables."""
        self._compared[""] = {}
        return self._kept("", self.conditions(conditions, {}))

    def _kept(self, row: str, holds: Predicate) -> Predicate:
        """`holds`, but what is not as declared never lets through."""
        compared = self._compared.pop(row).items()
        tests: list[Predicate] = [
            Stored(each, kind, self._refuses) for each, kind in compared if kind in self._stored
        ]
        return _any([*tests, holds]) if self._refuses else _all([*tests, holds])

    def conditions(self, conditions: Conditions, rows: Mapping[str, T]) -> Predicate:
        return _any([_all([self._of(each, rows) for each in body]) for body in conditions])

    def _of(self, condition: Condition, rows: Mapping[str, T]) -> Predicate:
        match condition:
            case Comparison():
                return self._comparison(condition, rows)
            case Group(conditions, negated):
                self._refuses ^= negated
                holds = self.conditions(conditions, rows)
                self._refuses ^= negated
                return _opposite(holds) if negated else holds
            case Some():
                return self._some(condition, rows)

    def _some(self, some: Some, rows: Mapping[str, T]) -> Predicate:
        table = rows[some.table] if some.table in rows else self._schema.table(some.table)
        target = None if table is None else self._schema.related(table, some.relation)
        name = Field(some.table, some.relation).name
        if target is None:
            raise fault(f"{name} is not a declared relation: {_text(some)}", ROWS)
        row_table, many = target
        if many != some.many:
            shown = "many rows" if many else "one row"
            raise fault(f"{name} is a relation to {shown}: {_text(some)}", ROWS)
        self._refuses ^= some.negated
        self._compared[some.row] = {}
        holds = self._kept(
            some.row, self.conditions(some.conditions, {**rows, some.row: row_table})
        )
        self._refuses ^= some.negated
        if holds == NEVER:
            return ALWAYS if some.negated else NEVER
        return Related(some.table, some.relation, some.row, holds, some.negated)

    def _comparison(self, comparison: Comparison, rows: Mapping[str, T]) -> Predicate:
        field, value = comparison.field, comparison.value
        if comparison.operator == "defined":
            return self._defined(comparison, rows)
        kind = self._kind(field, rows, comparison)
        if isinstance(value, Field):
            other = self._kind(value, rows, comparison)
            holds = _fields(field, kind, comparison.operator, value, other)
            present = [field, value]
        else:
            holds = _value(field, kind, comparison.operator, value)
            present = [field]
        if self._nulls == "null":
            return _opposite(holds) if comparison.negated else holds
        there = [IsNull(each, negated=True) for each in present]
        if not comparison.negated:
            return _all([*there, holds])
        if comparison.operator == "eq":
            return _opposite(_all([*there, holds]))
        # `not x < 1` is undefined where x is; `not x == 1` holds there.
        return _all([*there, _opposite(holds)])

    def _defined(self, comparison: Comparison, rows: Mapping[str, T]) -> Predicate:
        field = comparison.field
        table = rows[field.table] if field.table in rows else self._schema.table(field.table)
        target = None if table is None else self._schema.related(table, field.column)
        if target is None:
            self._kind(field, rows, comparison)
            return ALWAYS if self._nulls == "null" else IsNull(field, negated=True)
        if target[1] or self._nulls == "null":
            return ALWAYS
        return Related(field.table, field.column, f"{field.column}#0", ALWAYS)

    def _kind(self, field: Field, rows: Mapping[str, T], comparison: Comparison) -> Kind:
        compared = self._compared.get(field.table, self._compared[""])
        kind = compared.get(field)
        if kind is not None:
            return kind
        table = rows[field.table] if field.table in rows else self._schema.table(field.table)
        kind = None if table is None else self._schema.kind(table, field.column)
        if kind is None:
            related = table is not None and self._schema.related(table, field.column) is not None
            why = "is not declared, or is not a number, text or boolean"
            shown = f"the column {_shown(field, comparison)} {why}: {comparison.text()}"
            raise fault(shown, ROWS if related else None)
        if kind not in _RANKS:
            name = _shown(field, comparison)
            raise fault(f"the kind of the column {name} cannot be compared: {comparison.text()}")
        compared[field] = kind
        return kind


def _shown(field: Field, comparison: Comparison) -> str:
    """The name of a column, unless the input chose it: it may be secret."""
    return field.name if field.column in comparison.text() else "…"


def _text(condition: Condition) -> str:
    """The first expression about a related row."""
    match condition:
        case Comparison():
            return condition.text()
        case Some(conditions=conditions) | Group(conditions):
            return next((_text(each) for body in conditions for each in body), "its rows")


# With known values


def _value(field: Field, kind: Kind, operator: str, value: Scalar | list[Scalar]) -> Predicate:
    if operator == "in":
        assert isinstance(value, list)
        return _in(field, kind, value)
    assert not isinstance(value, list)
    if operator in ("startswith", "endswith", "contains"):
        assert isinstance(value, str)
        if kind != "text":
            return NEVER
        return Match(field, operator, value) if value else IsNull(field, negated=True)
    if operator in ("gt", "gte", "ne"):
        return _opposite(_value(field, kind, _OPPOSITES[operator], value))
    if value is None:
        return NEVER if operator == "lt" else IsNull(field)
    other = _kind_of(value)
    if other == kind:
        holds = Compare(field, operator, value, kind)
        # null comes before all other values.
        return holds if operator == "eq" else _any([holds, IsNull(field)])
    if operator == "eq":
        return NEVER
    return ALWAYS if _RANKS[kind] < _RANKS[other] else IsNull(field)


def _in(field: Field, kind: Kind, items: Sequence[Scalar]) -> Predicate:
    values = [each for each in items if each is not None]
    fitting = tuple([each for each in values if _kind_of(each) == kind])
    parts: list[Predicate] = [In(field, fitting, kind)] if fitting else []
    if len(values) < len(items):
        parts.append(IsNull(field))
    return _any(parts)


def _kind_of(value: bool | int | Number | str) -> Kind:
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
        case Stored(field, kind, negated):
            return Stored(field, kind, not negated)
        case Related(table, relation, row, holds, negated):
            return Related(table, relation, row, holds, not negated)
        case All(parts):
            return _any([_opposite(part) for part in parts])
        case Any(parts):
            return _all([_opposite(part) for part in parts])


def _all(parts: list[Predicate]) -> Predicate:
    flat: list[Predicate] = []
    for part in parts:
        if type(part) is Any and not part.parts:
            return NEVER
        flat += part.parts if type(part) is All else (part,)
    unique = _without_repetition(flat)
    return unique[0] if len(unique) == 1 else All(unique)


def _any(parts: list[Predicate]) -> Predicate:
    flat: list[Predicate] = []
    for part in parts:
        if type(part) is All and not part.parts:
            return ALWAYS
        flat += part.parts if type(part) is Any else (part,)
    unique = _without_repetition(flat)
    return unique[0] if len(unique) == 1 else Any(unique)


def _without_repetition(parts: list[Predicate]) -> tuple[Predicate, ...]:
    """Tests for NULL are what comes twice."""
    nulls: set[tuple[str, str, bool]] = set()
    unique: list[Predicate] = []
    for part in parts:
        if type(part) is IsNull:
            key = part.field.table, part.field.column, part.negated
            if key in nulls:
                continue
            nulls.add(key)
        unique.append(part)
    return tuple(unique)
