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

from doorward.base.records import record, replace
from doorward.filters.columns import (
    FIRST_NS,
    KINDS,
    LAST_NS,
    RANKS,
    WRITTEN,
    Bound,
    Column,
    Columns,
    Kind,
    decides,
    moment_bound,
    rank_of,
    written_test,
)
from doorward.filters.columns import Stored as StoredValue
from doorward.filters.conditions import (
    Comparison,
    Condition,
    Conditions,
    Field,
    FilterError,
    Group,
    Scalar,
    Some,
    fault,
    to_scalar,
)
from doorward.filters.folding import OBJECT_GET, folding_of
from doorward.filters.hints import COUNTS, DEFAULTS, JSON, MEMBERS, MOMENTS, ROWS
from doorward.rego import Number
from doorward.rego.shared import from_key, number_text

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
    "Related",
    "Relation",
    "Relations",
    "Schema",
    "Stored",
    "check_double",
    "is_double",
    "to_predicate",
]

T = TypeVar("T")
_Row: TypeAlias = "T | _Inside"


@record
class Relation:
    """A relation to the rows of `table`, a name in `Columns`. `on` gives for each column of those
    rows the column of this row that it is equal to. `many`: it leads to any number of rows,
    otherwise to one at most.
    """

    table: str
    on: Mapping[str, str]
    many: bool = True


Relations: TypeAlias = Mapping[str, Mapping[str, Relation]]
"""The relations of tables, by the names that the policy uses."""
Nulls: TypeAlias = Literal["null", "undefined"]
"""What a policy sees for NULL in a column: the value null, or a missing key."""

COUNT: Final = "count"
NANOSECONDS: Final = "time.parse_rfc3339_ns"
_JSON_TYPES: Final = ("null", "boolean", "number", "string", "array", "object")
"""The types of JSON values, in Rego's order of values."""
_JSON_KINDS: Final[dict[str, str]] = {"boolean": "boolean", "number": "number", "text": "string"}
_OPPOSITES: Final = {"eq": "ne", "ne": "eq", "lt": "gte", "gte": "lt", "gt": "lte", "lte": "gt"}
_MIRRORED: Final = {"gt": "lt", "gte": "lte"}


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


def is_double(value: int | Number) -> bool:
    """Return True if a double is this number, so that databases compare it exactly with doubles.

    An integer must be equal to its double, another number must have the double's shortest text.
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
    """Raise FilterError for an integer that cannot be compared with a column of doubles in the same
    way by all databases.

    Some compare the double's exact value, others its shortest text: 2**63 as a double is shown as
    9223372036854776000. The error is raised if the integer equals only one of the two.
    """
    decimal = Decimal(number_text(value))
    double = float(decimal)
    if not math.isfinite(double) or decimal != decimal.to_integral_value():
        return
    if (Decimal(double) == decimal) != (Decimal(repr(double)) == decimal):
        raise fault(
            f"a column of doubles cannot be compared exactly with {decimal}: use an integer up to "
            "2**53, or a column of integers"
        )


_EXACT: Final = 1 << 53


def check_range(value: Number) -> None:
    """Raise FilterError for a number other than 0 that is nearer to 0 than 1e-30, since MariaDB
    compares it as 0.
    """
    decimal = Decimal(number_text(value))
    if decimal and abs(decimal) < _SMALLEST:
        raise fault("a number nearer to 0 than 1e-30 cannot be compared exactly with a column")


_SMALLEST: Final = Decimal("1e-30")


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
        kinds.

        Where a condition that holds refuses access, rows with other values are added instead.
        """
        compared = self._compared.pop(row).items()
        tests: list[Predicate] = [
            Stored(each, kind, self._refuses)
            for each, kind in compared
            if kind in self._stored and kind != "choice"  # of which each member is named
        ]
        return _any([*tests, holds]) if self._refuses else _all([*tests, holds])

    def conditions(self, conditions: Conditions, rows: Mapping[str, _Row[T]]) -> Predicate:
        return _any([_all([self._of(each, rows) for each in body]) for body in conditions])

    def _of(self, condition: Condition, rows: Mapping[str, _Row[T]]) -> Predicate:
        """Return the predicate for one condition."""
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

    def _some(self, some: Some, rows: Mapping[str, _Row[T]]) -> Predicate:
        """Return the predicate that a relation leads to a row for which the conditions hold or, if
        `some` is negated, to none.

        Raise FilterError if the relation is not declared, or leads to one row instead of many or
        the reverse.
        """
        table = self._table(some.table, rows)
        name = Field(some.table, some.relation).name
        if isinstance(table, _Inside):
            return self._inside(some, _member(table, some.relation), rows)
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
            count = "many rows" if many else "one row"
            raise fault(f"{name} is a relation to {count}: {_text(some)}", ROWS)
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

        Raise FilterError for an array that is used as an object.
        """
        field, column = target.field, target.column
        self._refuses ^= some.negated
        if not some.many:
            if column.kind != "json":
                raise fault(f"{field.name} is an array and not an object: {_text(some)}", ROWS)
            holds = self.conditions(some.conditions, {**rows, some.row: target})
            self._refuses ^= some.negated
            holds = _all([JsonType(field, ("object",)), holds])
            return _opposite(holds) if some.negated else holds
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
        """Return the predicate for a comparison, which holds for no row in which an operand has no
        value.

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
        there = self._presence(field, column)
        is_opposed = comparison.negated and comparison.operator != "eq"
        if column.kind == "json" and not is_opposed:
            there = []  # each test of a document holds only where there is a value
        if isinstance(value, Field):
            other, other_column = self._column(value, rows, comparison)
            holds = _fields(field, column, comparison.operator, other, other_column)
            there += self._presence(other, other_column)
        else:
            field, holds = _compare_constant(field, column, comparison.operator, value)
        if not there:
            return _opposite(holds) if comparison.negated else holds
        if not is_opposed:
            holds = _all([*there, holds])
            return _opposite(holds) if comparison.negated else holds
        # `not x < 1` is undefined where x is; `not x == 1` holds there.
        return _all([*there, _opposite(holds)])

    def _with_default(self, comparison: Comparison, rows: Mapping[str, _Row[T]]) -> Predicate:
        """Return the predicate for a comparison of `object.get`: of a column, or of its default
        without a value.

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
                f"{OBJECT_GET} can only be called with a row: {comparison.text()}", DEFAULTS
            )
        plain = replace(field, function="", default=None)
        there = _all(self._presence(*self._column(plain, rows, comparison)))
        holds = self._comparison(replace(comparison, field=plain, negated=False), rows)
        parts = [_all([there, holds])]
        if decides(to_scalar(from_key(field.default)), comparison.operator, value):
            parts.append(_opposite(there))
        condition = _any(parts)
        return _opposite(condition) if comparison.negated else condition

    def _presence(self, field: Field, column: Column) -> list[Predicate]:
        """Return the predicates that an operand has a value; [] if it always has one."""
        if field.function == NANOSECONDS:
            if column.kind != "moment":
                return [NEVER]
            first = Compare(Field(field.table, field.column), "gte", FIRST_NS, "moment")
            return [first, replace(first, operator="lte", value=LAST_NS)]
        if column.kind == "json":
            types = ("string",) if field.function else _JSON_TYPES
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
        """Return the predicate that a column, value or related row exists."""
        field = comparison.field
        if field.function == COUNT:
            return self._countable(replace(field, function="", operand=""), rows)
        table = self._table(field.table, rows)
        target = None
        if table is not None and not isinstance(table, _Inside) and not field.function:
            target = self._schema.related(table, field.column)
        if target is None:
            return _all(self._presence(*self._column(field, rows, comparison)))
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
        """Return a JSON document, or a value in one, as a field of predicates; None for other
        columns.
        """
        table = self._table(field.table, rows)
        if isinstance(table, _Inside):
            inside = _member(table, field.column) if field.column else table
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
        """Return the predicate for a comparison of `count(…)` with a known number. Only a
        comparison that tells no elements from some, such as `count(x) > 0`, can be translated:
        raise FilterError for others, and for a comparison with a column.
        """
        field, operator, value = comparison.field, comparison.operator, comparison.value
        if isinstance(value, Field):
            raise fault(
                f"count can only be compared with a known number: {comparison.text()}", COUNTS
            )
        rest = {decides(number, operator, value) for number in (1, 2, 3, 1 << 62)}
        known = value if isinstance(value, list) else [value]
        # `== 5` is false for each of these samples, and still not for each count.
        existing = [each for each in known if rank_of(each) == 2 and decides(each, "gte", 1)]
        if len(rest) > 1 or (existing and operator in ("eq", "ne", "in")):
            raise fault(f"count can only tell no rows from some: {comparison.text()}", COUNTS)
        some = Some(
            field.table, field.column, f"{field.column}#count", True, ((),), text=comparison.text
        )
        counted = replace(field, function="", operand="")
        there, is_some = self._countable(counted, rows), self._some(some, rows)
        if document := self._json_field(counted, rows):
            is_some = _any([is_some, JsonType(document, ("characters",))])
        parts: list[Predicate] = [is_some] if rest == {True} else []
        if decides(0, operator, value):
            parts.append(_opposite(is_some))
        holds = _any(parts) if len(parts) < 2 else ALWAYS
        if comparison.negated and operator != "eq":
            return _all([there, _opposite(holds)])
        holds = _all([there, holds])
        return _opposite(holds) if comparison.negated else holds

    def _column(
        self, field: Field, rows: Mapping[str, _Row[T]], comparison: Comparison
    ) -> tuple[Field, Column]:
        """Return a column, or a value inside a document, with its description; record its kind, so
        that the rows are tested for values of this kind.

        Raise FilterError if it is not declared or cannot be compared.
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


def _member(inside: _Inside, name: str) -> _Inside:
    """Return the value under a name in a JSON document or object; raise FilterError if `inside` is
    an element of another type.
    """
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


# With known values


def _compare_constant(
    field: Field, column: Column, operator: str, value: Scalar | list[Scalar]
) -> tuple[Field, Predicate]:
    """Return the predicate that compares a field with a known value, and the field as predicates
    name it.
    """
    if field.function == NANOSECONDS:
        plain = Field(field.table, field.column)
        return plain, _nanoseconds(plain, operator, value)
    if field.function:
        return field, _of_function(field, column, operator, value)
    if column.kind == "json":
        return field, _json(field, operator, value)
    return field, _value(field, column, operator, value)


def _value(field: Field, column: Column, operator: str, value: Scalar | list[Scalar]) -> Predicate:
    """Return the predicate that compares a column with a known value, in Rego's order of all types.

    Raise FilterError if the database cannot compare the column's kind in this way.
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
    if operator in ("gt", "gte", "ne"):
        return _opposite(_value(field, column, _OPPOSITES[operator], value))
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
        return holds if operator == "eq" else _any([holds, IsNull(field)])
    if operator == "eq":
        return NEVER
    return ALWAYS if RANKS[kind] < RANKS[other] else IsNull(field)


def _within_bounds(field: Field, kind: Kind, bounds: Sequence[Bound]) -> Predicate:
    """Return the predicate that all bounds hold for a column."""
    parts: list[Predicate] = []
    for bound in bounds:
        if isinstance(bound, bool):
            parts.append(IsNull(field, negated=True) if bound else NEVER)
        else:
            parts.append(Compare(field, bound[0], bound[1], kind))
    return _all(parts)


def _in(field: Field, column: Column, items: Sequence[Scalar]) -> Predicate:
    """Return the predicate that a column is one of known values."""
    kind = column.kind
    assert kind is not None
    values = [each for each in items if each is not None]
    parts: list[Predicate] = []
    if kind in WRITTEN:
        parts += [_value(field, column, "eq", each) for each in values]
    else:
        fitting = tuple([each for each in values if _kind_of(each) == kind])
        parts += [In(field, fitting, kind)] if fitting else []
    if len(values) < len(items):
        parts.append(IsNull(field))
    return _any(parts)


def _choice(field: Field, column: Column, operator: str, value: Scalar | list[Scalar]) -> Predicate:
    """Return the predicate that a column is one of the enumeration's members for which the
    comparison holds.
    """
    domain = tuple([stored for stored, _ in column.members])
    holds = tuple([stored for stored, seen in column.members if decides(seen, operator, value)])
    parts: list[Predicate] = [In(field, holds, "choice", domain=domain)] if holds else []
    if decides(None, operator, value):
        parts.append(IsNull(field))
    return _any(parts)


def _nanoseconds(field: Field, operator: str, value: Scalar | list[Scalar]) -> Predicate:
    """Return the predicate that compares the nanoseconds of a time with a known value of any
    type.
    """
    if operator == "in":
        assert isinstance(value, list)
        return _any([_nanoseconds(field, "eq", each) for each in value])
    if operator in ("startswith", "endswith", "contains"):
        return NEVER
    assert not isinstance(value, list)
    if operator in ("gt", "gte", "ne"):
        return _opposite(_nanoseconds(field, _OPPOSITES[operator], value))
    if rank_of(value) != RANKS["number"]:
        before = RANKS["number"] < rank_of(value)
        return IsNull(field, negated=True) if before and operator != "eq" else NEVER
    assert not isinstance(value, (str, bool))
    assert value is not None
    return _within_bounds(field, "moment", [moment_bound(operator, value)])


def _of_function(
    field: Field, column: Column, operator: str, value: Scalar | list[Scalar]
) -> Predicate:
    """Return the predicate for a comparison of the text that a built-in makes of a column.

    Raise FilterError for a comparison by order, or if too many letters have two cases.
    """
    if operator == "in":
        assert isinstance(value, list)
        return _any([_of_function(field, column, "eq", each) for each in value])
    assert not isinstance(value, list)
    if operator == "ne":
        return _opposite(_of_function(field, column, "eq", value))
    is_search = operator in ("startswith", "endswith", "contains")
    if operator != "eq" and not is_search:
        raise fault(
            f"the value of {field.function} cannot be compared by order in a database", MEMBERS
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


def _json(field: Field, operator: str, value: Scalar | list[Scalar]) -> Predicate:
    """Return the predicate for a comparison of a value in a JSON document."""
    if operator == "in":
        assert isinstance(value, list)
        return _any([_json(field, "eq", each) for each in value])
    assert not isinstance(value, list)
    if operator in ("startswith", "endswith", "contains"):
        assert isinstance(value, str)
        there = JsonType(field, ("string",))
        return _all([there, Match(field, operator, value)]) if value else there
    if operator in ("ne", "gt", "gte"):
        holds = _json(field, _OPPOSITES[operator], value)
        return _all([JsonType(field, _JSON_TYPES), _opposite(holds)])
    rank = rank_of(value)
    same: list[Predicate] = []
    if value is None:
        same = [] if operator == "lt" else [JsonType(field, ("null",))]
    else:
        kind = _kind_of(value)
        there = JsonType(field, (_JSON_KINDS[kind],))
        if kind == "boolean" and operator != "eq":
            constants = tuple([each for each in (False, True) if decides(each, operator, value)])
            same = [_all([there, Compare(field, "eq", each, kind)]) for each in constants]
        else:
            same = [_all([there, Compare(field, operator, value, kind)])]
    if operator != "eq" and rank:
        same.append(JsonType(field, _JSON_TYPES[:rank]))
    return _any(same)


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


# With other columns


def _fields(left: Field, column: Column, operator: str, right: Field, other: Column) -> Predicate:
    """Return the predicate that compares two columns in Rego's order.

    Raise FilterError if their kinds cannot be compared in a database.
    """
    if operator in _MIRRORED:
        return _fields(right, other, _MIRRORED[operator], left, column)
    if operator == "ne":
        return _opposite(_fields(left, column, "eq", right, other))
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
    both_null = _all([null, IsNull(right)])
    if kind == other_kind and kind != "array":
        if operator != "eq" and kind in ("uuid", "moment"):
            raise fault(
                f"{left.name} and {right.name} can only be compared with == and !=", MOMENTS
            )
        holds = CompareFields(left, operator, right, kind)
        more = {"eq": both_null, "lt": _all([null, there]), "lte": null}[operator]
        return _any([holds, more])
    if RANKS[kind] == RANKS[other_kind]:
        message = "columns of different types cannot be compared with each other"
        raise fault(f"{message}: {left.name} and {right.name}", MEMBERS)
    if operator == "eq":
        return both_null
    if RANKS[kind] < RANKS[other_kind]:
        return there if operator == "lt" else _any([there, null])
    return _all([null, there]) if operator == "lt" else null


# Opposites


def _opposite(predicate: Predicate) -> Predicate:
    """Return the predicate for exactly the rows that the given one does not allow."""
    match predicate:
        case IsNull(field, negated):
            return IsNull(field, not negated)
        case Compare(field, operator, value, kind):
            # The test is unknown for NULL, and its opposite as well: the row is selected by its
            # own test.
            return _any([Compare(field, _OPPOSITES[operator], value, kind), IsNull(field)])
        case CompareFields(left, operator, right, kind):
            unlike = CompareFields(left, _OPPOSITES[operator], right, kind)
            return _any([unlike, IsNull(left), IsNull(right)])
        case In(field, values, kind, negated, domain):
            if domain:
                rest = tuple([each for each in domain if each not in values])
                parts: list[Predicate] = [replace(predicate, values=rest)] if rest else []
                return _any([*parts, IsNull(field)])
            return _any([In(field, values, kind, not negated), IsNull(field)])
        case Match(field, operator, text, negated):
            return _any([Match(field, operator, text, not negated), IsNull(field)])
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
            return _any([_opposite(part) for part in predicate.parts])
        case Any():
            return _all([_opposite(part) for part in predicate.parts])


def _all(parts: list[Predicate]) -> Predicate:
    """Return the predicate that all parts hold, simplified."""
    flat: list[Predicate] = []
    for part in parts:
        if type(part) is Any and not part.parts:
            return NEVER
        flat += part.parts if type(part) is All else (part,)
    unique = _without_repetition(flat)
    return unique[0] if len(unique) == 1 else All(unique)


def _any(parts: list[Predicate]) -> Predicate:
    """Return the predicate that one of the parts holds, simplified."""
    flat: list[Predicate] = []
    for part in parts:
        if type(part) is All and not part.parts:
            return ALWAYS
        flat += part.parts if type(part) is Any else (part,)
    unique = _without_repetition(flat)
    return unique[0] if len(unique) == 1 else Any(unique)


def _without_repetition(parts: list[Predicate]) -> tuple[Predicate, ...]:
    """Return the parts without repeated tests for NULL."""
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
