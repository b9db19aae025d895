"""Predicates as SQLAlchemy 2 expressions: `select(Doc).where(where(conditions, {"docs": Doc}))`.

The kinds of columns are those of their types. What depends on the database is decided when the
statement is compiled for one (`sqlalchemy_elements`): PostgreSQL, MySQL and MariaDB, SQLite; others
are an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any as Anything
from typing import Final

from doorward.base.exporting import missing

try:
    from sqlalchemy.exc import NoInspectionAvailable
except ModuleNotFoundError as error:
    raise missing("doorward[sqlalchemy]", error) from None
from sqlalchemy import (
    ARRAY,
    JSON,
    Boolean,
    ColumnElement,
    Date,
    DateTime,
    Enum,
    Float,
    Integer,
    Interval,
    LargeBinary,
    Numeric,
    String,
    Table,
    Time,
    Uuid,
    and_,
    false,
    inspect,
    literal,
    not_,
    or_,
    true,
)
from sqlalchemy.orm import aliased, defer
from sqlalchemy.types import TypeEngine

from doorward.filters.columns import Column, Kind, Nulls, refused, relations_below, to_document
from doorward.filters.columns import Stored as StoredValue
from doorward.filters.conditions import Conditions, Field, checked_text, fault, to_scalar
from doorward.filters.dialects import check_decimal
from doorward.filters.exact_numbers import check_double, has_fraction, is_double
from doorward.filters.hints import BYTES, OWN_TYPE, ZONES
from doorward.filters.logic import to_predicate
from doorward.filters.predicates import (
    All,
    Any,
    Compare,
    CompareFields,
    Elements,
    In,
    IsNull,
    JsonType,
    Match,
    Predicate,
    Related,
    Stored,
)
from doorward.filters.sqlalchemy_elements import (
    ArrayElement,
    EnumLabel,
    ExactDecimal,
    ExactNumber,
    RelatedRow,
    TextFunction,
    ZonedTime,
    correlated,
    exact_text_of,
    exact_value_of,
    has_element,
    has_json_type,
    has_subquery,
    in_order,
    is_float,
    is_stored_as,
    json_value_of,
    location_of,
    matches,
    number_of,
)
from doorward.rego import InputError, Number, from_python
from doorward.rego.shared import number_text

__all__ = ["describe", "document_of", "where", "without_masked"]

_OPERATORS: Final = {
    "eq": "__eq__",
    "ne": "__ne__",
    "lt": "__lt__",
    "lte": "__le__",
    "gt": "__gt__",
    "gte": "__ge__",
}


def where(
    conditions: Conditions, tables: Mapping[str, Anything], *, nulls: Nulls = "null"
) -> ColumnElement[bool]:
    """Return an SQLAlchemy condition that selects the rows which the policy allows.

    `tables` are mapped classes, aliases or tables by their names in the policy. `nulls` is what the
    policy sees for NULL: the value null, or a missing key. Raise FilterError for a missing column
    or relation, or a column or value that cannot be compared; what the database cannot decide fails
    when the statement is compiled.
    """
    schema = _Mapped({name: _Table(table) for name, table in tables.items()})
    return _Writer(schema).predicate(to_predicate(conditions, schema, nulls))


def document_of(
    row: Anything, relations: Iterable[str] | None = None, *, nulls: Nulls = "null"
) -> dict[Anything, Anything]:
    """Return an instance of a mapped class as the policy sees it, with the names and values that a
    filter compares. `relations` are names with dots for nested ones; None for all relationships of
    the row. They may be loaded here. Columns that no filter can compare are left out, and so are
    NULL columns and missing related rows unless `nulls` is "null", which makes them None.

    Raise InputError for a value without a form in Rego, LookupError for an unknown relation.
    """
    mapper: Anything = inspect(type(row))
    document: dict[Anything, Anything] = {}
    for attribute in mapper.column_attrs:
        name, column = attribute.key, describe(attribute.columns[0].type)
        if column.kind is None:
            continue
        value = to_document(column, getattr(row, name), name)
        if value is not None or nulls == "null":
            document[name] = value
    for name, below in relations_below(relations, mapper.relationships.keys()).items():
        related = getattr(row, name)
        if mapper.relationships[name].uselist:
            document[name] = [document_of(each, below, nulls=nulls) for each in related]
        elif related is not None:
            document[name] = document_of(related, below, nulls=nulls)
        elif nulls == "null":
            document[name] = None
    return document


def without_masked(entity: Anything, columns: Iterable[str]) -> list[Anything]:
    """Return query options that do not load the masked columns of a mapped class.

    Reading such a column then raises. Raise LookupError for a missing column.
    """
    attributes = {each.key for each in inspect(entity).mapper.column_attrs}
    for name in columns:
        if name not in attributes:
            raise LookupError(f"{entity!r} has no column {name} to mask")
    return [defer(getattr(entity, name), raiseload=True) for name in columns]


class _Table:
    """The columns and relationships of a mapped class, an alias of one, or a table (without
    relationships).
    """

    def __init__(self, entity: Anything) -> None:
        """Raise FilterError unless `entity` is a mapped class, an alias or a table."""
        self._entity = entity
        if isinstance(entity, Table):
            self.columns: Mapping[str, ColumnElement[Anything]] = dict(entity.c)
            self._relations: Mapping[str, Anything] = {}
            return
        try:
            mapper = inspect(entity).mapper
        except (NoInspectionAvailable, AttributeError):
            raise fault(f"{entity!r} is not a mapped class, an alias of one or a table") from None
        self.columns = {
            each.key: correlated(getattr(entity, each.key), _tables_of(entity))
            for each in mapper.column_attrs
        }
        self._relations = dict(mapper.relationships)

    def is_many(self, relation: str) -> bool | None:
        """Return True if the relation leads to many rows, False for one; None if there is no such
        relation.
        """
        declared = self._relations.get(relation)
        return None if declared is None else bool(declared.uselist)

    def row(self, relation: str) -> _Table:
        """Return a new alias for a row that a relationship leads to."""
        return _Table(aliased(self._relations[relation].entity.entity))

    def leads_to(
        self, relation: str, row: _Table, holds: ColumnElement[bool]
    ) -> ColumnElement[bool]:
        """Return the condition that a relation leads to a row for which `holds` is true. `row` is
        the alias from `row(relation)` that `holds` is about.
        """
        attribute = getattr(self._entity, relation).of_type(row._entity)
        result: ColumnElement[bool] = (
            attribute.any(holds) if self.is_many(relation) else attribute.has(holds)
        )
        joins = self._relations[relation]
        if not has_subquery(joins.primaryjoin) and not has_subquery(joins.secondaryjoin):
            return result
        tables = [*_tables_of(self._entity), *_tables_of(row._entity)]
        return correlated(result, tables)  # type: ignore[no-any-return]


def _tables_of(entity: Anything) -> list[Anything]:
    """Return the tables, or aliases of tables, from which a mapped class or an alias of one is
    selected.
    """
    selectable: Anything = inspect(entity).selectable
    return list(selectable._from_objects)


class _Mapped:
    """The schema of `to_predicate` for mapped classes and tables."""

    def __init__(self, tables: Mapping[str, _Table]) -> None:
        self._tables = tables

    def table(self, name: str) -> _Table | None:
        return self._tables.get(name)

    def column(self, table: _Table, name: str) -> Column | None:
        return describe(table.columns[name].type) if name in table.columns else None

    def related(self, table: _Table, relation: str) -> tuple[_Table, bool] | None:
        many = table.is_many(relation)
        return None if many is None else (table.row(relation), many)


def describe(type_: TypeEngine[Anything]) -> Column:
    """Return the description of a column type: its kind, or the reason why it has none, such as
    variants that a policy sees as different values.
    """
    columns = [_describe(each) for each in (type_, *type_._variant_mapping.values())]
    if any(each != columns[0] for each in columns[1:]):
        return refused("has types that a policy sees as different values")
    return columns[0]


def _describe(type_: TypeEngine[Anything]) -> Column:
    """Return the description of a column type without its variants: its kind, or the reason why
    policies cannot compare it. A type that changes values on their way, such as a TypeDecorator, is
    refused.
    """
    # Only its own classes: a subclass elsewhere may store its values in another way.
    if type(type_).__module__.partition(".")[0] == "sqlalchemy":
        match type_:
            case Enum():
                return _choice(type_)
            case Uuid():
                return Column("uuid")
            case Date():
                return Column("date")
            case DateTime():
                if type_.timezone:
                    return Column("moment")
                return refused("holds times without a time zone, which are not moments", ZONES)
            case JSON():
                return Column("json")
            case ARRAY():
                return _array(type_)
            case LargeBinary():
                return refused("holds bytes, which have no value in Rego", BYTES)
            case Time() | Interval():
                return refused("holds times of a day or spans of time: they have no value in Rego")
    if type(type_).result_processor not in _PLAIN:
        # What it stores is not what the program sees: a SET, a decorated type.
        return refused(f"has the type {type(type_).__name__}, which changes its values", OWN_TYPE)
    kind: Kind | None = None
    if isinstance(type_, Boolean):
        kind = "boolean"
    elif isinstance(type_, Integer):
        kind = "number"
    elif isinstance(type_, (Float, Numeric)):  # in SQLAlchemy 2.1 a Float is not a Numeric
        if type_.asdecimal == isinstance(type_, Float):
            # A double as a Decimal is rounded on its way, and so is a decimal as a double.
            return refused("holds numbers that SQLAlchemy rounds when it reads them", OWN_TYPE)
        kind = "number"
    elif isinstance(type_, String):
        kind = "text"
    if kind is None:
        return refused(f"has the type {type(type_).__name__}, which no policy compares", OWN_TYPE)
    return Column(kind)


def _choice(type_: Anything) -> Column:
    """Return the description of an enumeration: the stored names with the values that policies see.
    An enumeration with a member that is not a scalar gives a refused column.
    """
    members = []
    for label in type_.enums:
        member = type_._object_lookup[label] if type_.enum_class else label
        try:
            members.append((label, to_scalar(from_python(member, label))))
        except (InputError, AssertionError):
            return refused(f"has a member {label} whose value is not a scalar")
    return Column("choice", members=tuple(members))


def _array(type_: Anything) -> Column:
    """Return the description of an array type; refused if its elements cannot be compared or are
    arrays.
    """
    item = describe(type_.item_type)
    if item.kind is None:
        return refused(item.reason, item.hint)
    if item.kind not in ("boolean", "number", "text", "uuid", "date"):
        return refused(f"is an array of the kind {item.kind}, which cannot be compared")
    if (type_.dimensions or 1) > 1:
        return refused("is an array of arrays, which cannot be compared")
    return Column("array", item=item)


_PLAIN: Final = frozenset(
    {each.result_processor for each in (Boolean, Integer, Numeric, Float, String)}
)
"""Result processors of types that a policy sees as they are stored."""


class _Writer:
    """Writes predicates as SQLAlchemy expressions."""

    def __init__(self, schema: _Mapped) -> None:
        self._schema = schema
        self._rows: dict[str, _Table] = {}
        self._elements: dict[str, tuple[ColumnElement[Anything], str]] = {}
        """The expression (or document) and the alias of each element, by the name of its row."""
        self._count = 0

    def predicate(self, predicate: Predicate) -> ColumnElement[bool]:
        """Return a predicate as an SQLAlchemy condition. Raise FilterError for a value that no
        database compares exactly; what one database cannot decide fails when the statement is
        compiled.
        """
        match predicate:
            case IsNull(field, negated):
                column = self._view(field, "text")
                return column.is_not(None) if negated else column.is_(None)
            case Compare(field, operator, value, kind):
                return self._compare(self._view(field, kind), operator, value, kind)
            case CompareFields(left, operator, right, kind):
                one, other = self._column(left), self._column(right)
                if kind == "text":
                    return self._compare_texts(exact_text_of(one), operator, exact_text_of(other))
                if kind == "moment":
                    one, other = ZonedTime(one), ZonedTime(other)
                elif kind == "number":
                    one, other = number_of(one), number_of(other)
                    if is_float(one.type) != is_float(other.type):
                        return self._compare_exactly(
                            one, operator, other, ExactDecimal(one), ExactDecimal(other)
                        )
                return self._operation(one, operator, other)
            case In(field, values, kind, negated):
                column = self._view(field, kind)
                operator = "ne" if negated else "eq"
                tests = [self._compare(column, operator, value, kind) for value in values]
                return and_(*tests) if negated else or_(*tests)
            case Match(field, operator, text, negated):
                searched = exact_text_of(self._view(field, "text"))
                known = exact_value_of(checked_text(text))
                return matches(searched, operator, known, negated=negated)
            case Stored(field, kind, negated):
                return is_stored_as(self._column(field), kind, negated=negated)
            case Related():
                return self._related_rows(predicate)
            case JsonType(field, types, negated):
                return has_json_type(self._location(field), types, negated=negated)
            case Elements():
                return self._exists(predicate)
            case All(parts):
                # A constant first: an empty `or_` is left out of the statement, so `NEVER` would
                # hold.
                return and_(true(), *[self.predicate(part) for part in parts])
            case Any(parts):
                return or_(false(), *[self.predicate(part) for part in parts])

    def _view(self, field: Field, kind: Kind) -> ColumnElement[Anything]:
        """Return the operand to compare: a column, a value in a document, or a function of
        either.
        """
        is_element = field.table in self._elements
        if field.path or (is_element and isinstance(self._elements[field.table][0].type, JSON)):
            view = json_value_of(self._location(field), kind)
        else:
            view = self._column(field)
        if not field.function:
            return view
        return TextFunction(exact_text_of(view), field.function, field.operand)

    def _location(self, field: Field) -> list[ColumnElement[Anything]]:
        """Return the location of a value in a document."""
        column, element = self._elements.get(field.table, (None, ""))
        if column is None:
            column = self._column(Field(field.table, field.column))
        return location_of(column, element, field.path)

    def _exists(self, elements: Elements) -> ColumnElement[bool]:
        """Return the condition that an array or document has an element for which something holds
        or, if negated, has none.
        """
        self._count += 1
        name = f"element_{self._count}"
        location = self._location(elements.field)
        in_document = elements.kind != "array"
        if in_document:
            self._elements[elements.row] = location[0], name
        else:
            of_array: Anything = location[0].type
            self._elements[elements.row] = ArrayElement(name, of_array.item_type), name
        holds = self.predicate(elements.holds)
        exists = has_element(location, name, holds, in_document=in_document)
        return not_(exists) if elements.negated else exists

    def _related_rows(self, related: Related) -> ColumnElement[bool]:
        """Return the condition that a relation leads to a row for which something holds or, if
        negated, to none.
        """
        table = self._table(related.table)
        row = self._rows[related.row] = table.row(related.relation)
        holds = RelatedRow(table.leads_to(related.relation, row, self.predicate(related.holds)))
        return not_(holds) if related.negated else holds

    def _table(self, name: str) -> _Table:
        """Return the table, or related row, for a name."""
        table = self._rows.get(name) or self._schema.table(name)
        assert table is not None
        return table

    def _column(self, field: Field) -> ColumnElement[Anything]:
        """Return the column of a field in its table or related row, or the element that its `table`
        names; its path and function are ignored.
        """
        if field.table in self._elements:
            return self._elements[field.table][0]
        return self._table(field.table).columns[field.column]

    def _compare(
        self,
        column: ColumnElement[Anything],
        operator: str,
        value: StoredValue,
        kind: Kind,
    ) -> ColumnElement[bool]:
        """Return the comparison of an operand (`_view`) with a known value of `kind`, exact in
        every database; it does not hold for NULL. For `choice` the value is a stored name, and the
        comparison always `eq`.

        Raise FilterError for a number or text that databases cannot compare exactly.
        """
        if kind == "uuid":
            of_uuid: Anything = column.type
            bound_uuid = literal(value if of_uuid.as_uuid else str(value), column.type)
            return self._operation(column, operator, bound_uuid)
        if kind == "date":
            operator, value = _without_ends(operator, value, _ENDS["date"])
            return self._operation(column, operator, literal(value, Date()))
        if kind == "moment":
            operator, value = _without_ends(operator, value, _ENDS["moment"])
            bound_time = literal(value, DateTime(timezone=True))
            return self._operation(ZonedTime(column), operator, bound_time)
        if kind == "choice":
            exact_label = exact_text_of(EnumLabel(column)) == exact_value_of(
                checked_text(str(value))
            )
            of_enum: Anything = column.type
            member = of_enum._object_lookup[value] if of_enum.enum_class else value
            return and_(column == literal(member, column.type), exact_label)
        if kind == "text":
            # For `eq` the plain test beside the exact one, since it can use an index; it holds
            # wherever that does.
            text = checked_text(str(value))
            exact = self._compare_texts(exact_text_of(column), operator, exact_value_of(text))
            if operator != "eq" or isinstance(column, TextFunction):
                return exact
            return and_(column == literal(text, String()), exact)
        if kind == "number":
            column = number_of(column)
            if is_float(column.type):
                check_double(value)  # type: ignore[arg-type]  # a number
            if is_float(column.type) and not is_double(value):  # type: ignore[arg-type]  # a number
                check_decimal(value)  # type: ignore[arg-type]  # for any database
                plain_number: Anything = value
                number = _bound(plain_number)
                return self._compare_exactly(column, operator, number, ExactDecimal(column), number)
            if operator == "eq" and has_fraction(value):  # type: ignore[arg-type]  # a number
                fraction: Anything = value
                return and_(column >= _bound(fraction), column <= _bound(fraction))
        plain: Anything = value
        return self._operation(column, operator, _bound(plain))

    def _compare_exactly(
        self,
        left: ColumnElement[Anything],
        operator: str,
        right: ColumnElement[Anything],
        left_decimal: ColumnElement[Anything],
        right_decimal: ColumnElement[Anything],
    ) -> ColumnElement[bool]:
        """Return the comparison of two numbers of which one or both are doubles: `left` and `right`
        are compared as they are, and equal ones also as decimals, `left_decimal` and
        `right_decimal`.
        """
        exact = self._operation(left_decimal, operator, right_decimal)
        if operator == "eq":
            return and_(left == right, exact)
        if operator == "ne":
            return or_(left != right, exact)
        strictly = self._operation(left, operator[:2], right)
        return or_(strictly, and_(left == right, exact))

    def _compare_texts(
        self, left: ColumnElement[str], operator: str, right: ColumnElement[str]
    ) -> ColumnElement[bool]:
        """Return the comparison by code points of two texts from `exact_text_of`, `exact_value_of`
        or `TextFunction`.
        """
        if operator in ("eq", "ne"):
            return self._operation(left, operator, right)
        return in_order(left, operator, right)

    def _operation(
        self, left: ColumnElement[Anything], operator: str, right: ColumnElement[Anything]
    ) -> ColumnElement[bool]:
        """Return the comparison of two operands by the operator's name."""
        result: ColumnElement[bool] = getattr(left, _OPERATORS[operator])(right)
        return result


_UTC_MIN: Final = datetime.min.replace(tzinfo=UTC)
_UTC_MAX: Final = datetime.max.replace(tzinfo=UTC)
_ENDS: Final[dict[str, tuple[Anything, Anything, timedelta]]] = {
    "date": (date.min, date.max, timedelta(days=1)),
    "moment": (_UTC_MIN, _UTC_MAX, timedelta(microseconds=1)),
}
"""The first and the last value of a kind, with the least difference of two."""
_OF_FIRST: Final = {"eq": "lt", "lte": "lt", "ne": "gte", "gt": "gte"}
_OF_LAST: Final = {"eq": "gt", "gte": "gt", "ne": "lte", "lt": "lte"}


def _without_ends(
    operator: str, value: Anything, ends: tuple[Anything, Anything, timedelta]
) -> tuple[str, Anything]:
    """Return the comparison with the first or last date or time as one with its neighbour, since
    asyncpg passes those two as infinite; any other unchanged.
    """
    first, last, least = ends
    if value == first and operator in _OF_FIRST:
        return _OF_FIRST[operator], value + least
    if value == last and operator in _OF_LAST:
        return _OF_LAST[operator], value - least
    return operator, value


def _bound(value: bool | int | Number | str) -> ColumnElement[Anything]:
    """Return a known boolean or number as an SQL parameter that keeps its exact value."""
    if isinstance(value, bool):
        return literal(value, Boolean())
    decimal = Decimal(number_text(value))  # type: ignore[arg-type]  # a number
    if decimal == decimal.to_integral_value() and abs(decimal) < 1 << 63:
        return literal(int(decimal))
    return literal(decimal, ExactNumber())
