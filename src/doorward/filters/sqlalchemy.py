"""Predicates as SQLAlchemy 2 expressions: `select(Doc).where(where(conditions, {"docs": Doc}))`.

The kinds of columns are those of their types. What depends on the database is decided when the
statement is compiled for one: PostgreSQL, MySQL and MariaDB, SQLite; others are an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any as Anything
from typing import Final

from doorward.base.exporting import missing

try:
    from sqlalchemy.exc import CompileError, NoInspectionAvailable
except ModuleNotFoundError as error:
    raise missing("doorward[sqlalchemy]", error) from None
from sqlalchemy import (
    ARRAY,
    CHAR,
    JSON,
    NCHAR,
    REAL,
    Boolean,
    ColumnElement,
    Date,
    DateTime,
    Double,
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
    literal_column,
    not_,
    or_,
    true,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import aliased, defer
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from doorward.filters.columns import KINDS, Column, Kind, refused, relations_below, to_document
from doorward.filters.columns import Stored as StoredValue
from doorward.filters.conditions import Conditions, Field, checked_text, fault, to_scalar
from doorward.filters.dialects import SQLDialect, check_decimal, dialect_of
from doorward.filters.hints import BYTES, OWN_TYPE, ZONES
from doorward.filters.hints import JSON as JSON_HINT
from doorward.filters.logic import (
    All,
    Any,
    Compare,
    CompareFields,
    Elements,
    In,
    IsNull,
    JsonType,
    Match,
    Nulls,
    Predicate,
    Related,
    Stored,
    check_double,
    is_double,
    to_predicate,
)
from doorward.filters.views import (
    check_arrays,
    check_zones,
    elements_of,
    function_of,
    json_of,
    json_place,
    json_type_of,
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
SINGLE: Final = 24
"""The bits of precision of a number of single precision."""


def where(
    conditions: Conditions, tables: Mapping[str, Anything], *, nulls: Nulls = "null"
) -> ColumnElement[bool]:
    """Return an SQLAlchemy condition that selects the rows which the policy allows.

    `tables` are mapped classes, aliases or tables by their names in the policy. Raise FilterError
    for a missing column or one whose type has no kind; what the database cannot decide fails when
    the statement is compiled.
    """
    schema = _Mapped({name: _Table(table) for name, table in tables.items()})
    return _Writer(schema).predicate(to_predicate(conditions, schema, nulls))


def document_of(
    row: Anything, relations: Iterable[str] | None = None, *, nulls: Nulls = "null"
) -> dict[Anything, Anything]:
    """Return an instance of a mapped class as the policy sees it, with the names and values that a
    filter compares. `relations` are names with dots for nested ones; None for all relationships of
    the row. They may be loaded here. Columns that no filter can compare are left out.

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
            raise LookupError(f"there is no column {name} to mask")
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
            raise fault(f"{entity!r} is not a mapped class or a table") from None
        self.columns = {each.key: getattr(entity, each.key) for each in mapper.column_attrs}
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
        """Return the condition that the relation leads to a row for which `holds` is true."""
        attribute = getattr(self._entity, relation).of_type(row._entity)
        result: ColumnElement[bool] = (
            attribute.any(holds) if self.is_many(relation) else attribute.has(holds)
        )
        return result


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
    """Return the kind of a column type, or the reason why it has none."""
    columns = [_describe(each) for each in (type_, *type_._variant_mapping.values())]
    if any(each != columns[0] for each in columns[1:]):
        return refused("has types that a policy sees as different values")
    return columns[0]


def _describe(type_: TypeEngine[Anything]) -> Column:
    """Return the kind of a column type without its variants, or the reason why it has none."""
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

    One with a member whose value is not a scalar is refused.
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
    """Return the description of an array type; refused if its elements cannot be compared."""
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


class _Exactly(TypeDecorator[Decimal]):
    """An expression for a number that the driver passes without rounding."""

    impl = Numeric
    cache_ok = True

    def load_dialect_impl(self, dialect: Anything) -> TypeEngine[Anything]:
        """Return the type with which the driver passes the number: a double if it rounds
        decimals.
        """
        type_ = Numeric() if dialect_of(dialect.name).has_decimals else Float()
        return dialect.type_descriptor(type_)  # type: ignore[no-any-return]

    def process_bind_param(self, value: Anything, dialect: Anything) -> Anything:
        """Return the parameter; FilterError for a number that the driver rounds."""
        return None if value is None else dialect_of(dialect.name).to_parameter(value)


class _Writer:
    """Writes predicates as SQLAlchemy expressions."""

    def __init__(self, schema: _Mapped) -> None:
        self._schema = schema
        self._rows: dict[str, _Table] = {}
        self._elements: dict[str, tuple[ColumnElement[Anything], str]] = {}
        """The expression (or document) and the alias of each element, by the name of its row."""
        self._count = 0

    def predicate(self, predicate: Predicate) -> ColumnElement[bool]:
        """Return a predicate as an SQLAlchemy condition; raise FilterError for a value that no
        database compares exactly.
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
                    one, other = _exact_text(one), _exact_text(other)
                elif kind == "moment":
                    one, other = _Zoned(one), _Zoned(other)
                elif kind == "number":
                    one, other = _as_seen(one), _as_seen(other)
                    if _is_float(one.type) != _is_float(other.type):
                        return self._compare_exactly(
                            one, operator, other, _Decimal(one), _Decimal(other)
                        )
                return self._operation(one, operator, other)
            case In(field, values, kind, negated):
                column = self._view(field, kind)
                operator = "ne" if negated else "eq"
                tests = [self._compare(column, operator, value, kind) for value in values]
                return and_(*tests) if negated else or_(*tests)
            case Match(field, operator, text, negated):
                holds: ColumnElement[bool] = _MATCHES[operator](
                    _exact_text(self._view(field, "text")), _exact_text(_literal(text))
                )
                return _NoMatch(holds) if negated else holds
            case Stored(field, kind, negated):
                return _STORED_AS[kind, negated](self._column(field))
            case Related():
                return self._related_rows(predicate)
            case JsonType(field, types, negated):
                kinds: ColumnElement[str] = literal_column(",".join(types))
                make = _NotJsonType if negated else _JsonType
                return make(kinds, *self._json(field))
            case Elements():
                return self._exists(predicate)
            case All(parts):
                return and_(true(), *[self.predicate(part) for part in parts])
            case Any(parts):
                return or_(false(), *[self.predicate(part) for part in parts])

    def _view(self, field: Field, kind: Kind) -> ColumnElement[Anything]:
        """Return the operand to compare: a column, a value in a document, or a function of
        either.
        """
        is_element = field.table in self._elements
        if field.path or (is_element and isinstance(self._elements[field.table][0].type, JSON)):
            view: ColumnElement[Anything] = _JSON_VIEWS[kind](*self._json(field))
        else:
            view = self._column(field)
        if not field.function:
            return view
        call: list[ColumnElement[str]]
        call = [literal_column(_quote(each)) for each in (field.function, field.operand)]
        return _Function(_exact_text(view), *call)

    def _json(self, field: Field) -> list[ColumnElement[Anything]]:
        """Return the document, the name of the element that the path is in, and the path."""
        column, element = self._elements.get(field.table, (None, ""))
        if column is None:
            column = self._column(Field(field.table, field.column))
        return [column, *[literal_column(_quote(each)) for each in (element, *field.path)]]

    def _exists(self, elements: Elements) -> ColumnElement[bool]:
        """Return the condition that an array or document has an element for which something
        holds.
        """
        self._count += 1
        name = f"element_{self._count}"
        source = self._json(elements.field)
        if elements.kind == "array":
            of_array: Anything = source[0].type
            self._elements[elements.row] = _Element(literal_column(name), of_array.item_type), name
        else:
            self._elements[elements.row] = source[0], name
        holds = self.predicate(elements.holds)
        make = _ElementsOfArray if elements.kind == "array" else _ElementsOfJson
        exists = make(literal_column(_quote(name)), holds, *source)
        return not_(exists) if elements.negated else exists

    def _related_rows(self, related: Related) -> ColumnElement[bool]:
        """Return the condition that a relation leads to a row for which something holds."""
        table = self._table(related.table)
        row = self._rows[related.row] = table.row(related.relation)
        holds = _Related(table.leads_to(related.relation, row, self.predicate(related.holds)))
        return not_(holds) if related.negated else holds

    def _table(self, name: str) -> _Table:
        """Return the table, or related row, for a name."""
        table = self._rows.get(name) or self._schema.table(name)
        assert table is not None
        return table

    def _column(self, field: Field) -> ColumnElement[Anything]:
        """Return the column, or element, for a field."""
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
        """Return the comparison of a column with a known value, exact for its kind.

        Raise FilterError for a number or text that databases cannot compare exactly.
        """
        if kind == "uuid":
            of_uuid: Anything = column.type
            bound_uuid = literal(value if of_uuid.as_uuid else str(value), column.type)
            return self._operation(column, operator, bound_uuid)
        if kind == "date":
            return self._operation(column, operator, literal(value, Date()))
        if kind == "moment":
            bound_time = literal(value, DateTime(timezone=True))
            return self._operation(_Zoned(column), operator, bound_time)
        if kind == "choice":
            exact_label = _exact_text(_Label(column)) == _exact_text(_literal(str(value)))
            of_enum: Anything = column.type
            member = of_enum._object_lookup[value] if of_enum.enum_class else value
            return and_(column == literal(member, column.type), exact_label)
        if kind == "text":
            bound = _literal(str(value))
            exact = self._operation(_exact_text(column), operator, _exact_text(bound))
            return and_(column == bound, exact) if operator == "eq" else exact
        if kind == "number":
            column = _as_seen(column)
            if _is_float(column.type):
                check_double(value)  # type: ignore[arg-type]  # a number
            if _is_float(column.type) and not is_double(value):  # type: ignore[arg-type]  # a number
                check_decimal(value)  # type: ignore[arg-type]  # for any database
                plain_number: Anything = value
                number = _bound(plain_number)
                return self._compare_exactly(column, operator, number, _Decimal(column), number)
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
        """Return a comparison with doubles: equal ones are compared as decimals."""
        exact = self._operation(left_decimal, operator, right_decimal)
        if operator == "eq":
            return and_(left == right, exact)
        if operator == "ne":
            return or_(left != right, exact)
        strictly = self._operation(left, operator[:2], right)
        return or_(strictly, and_(left == right, exact))

    def _operation(
        self, left: ColumnElement[Anything], operator: str, right: ColumnElement[Anything]
    ) -> ColumnElement[bool]:
        """Return the comparison of two operands by the operator's name."""
        result: ColumnElement[bool] = getattr(left, _OPERATORS[operator])(right)
        return result


def _as_seen(column: ColumnElement[Anything]) -> ColumnElement[Anything]:
    """Return a number's column with the value that programs read.

    0.1 in single precision is not 0.1 in SQL, and SQLite's numbers are read with the digits of
    their type.
    """
    if isinstance(column.type, Numeric) and not _is_float(column.type):
        return _Rounded(column)
    is_float = _is_float(column.type) and not isinstance(column.type, Double)
    if not is_float or (column.type.precision or 0) > SINGLE:  # type: ignore[attr-defined]  # a Float
        return column
    return _Single(column)


def _is_float(type_: TypeEngine[Anything]) -> bool:
    return isinstance(type_, Float)


def _bound(value: bool | int | Number | str) -> ColumnElement[Anything]:
    """Return a known boolean or number as an SQL parameter that keeps its exact value."""
    if isinstance(value, bool):
        return literal(value, Boolean())
    decimal = Decimal(number_text(value))  # type: ignore[arg-type]  # a number
    if decimal == decimal.to_integral_value() and abs(decimal) < 1 << 63:
        return literal(int(decimal))
    return literal(decimal, _Exactly())


def _literal(text: str) -> ColumnElement[str]:
    return literal(checked_text(text), String())


def _exact_text(column: ColumnElement[Anything]) -> ColumnElement[str]:
    is_padded = isinstance(column.type, (CHAR, NCHAR))
    return _PaddedText(column) if is_padded else _ExactText(column)


class _ExactText(FunctionElement[str]):
    """An expression for a text that compares by its code points, whatever its collation."""

    inherit_cache = True
    name = "exact_text"
    type = String()


class _PaddedText(_ExactText):
    """An expression for a CHAR with the spaces that the database adds, since programs read them."""

    inherit_cache = True
    name = "padded_text"


class _Decimal(FunctionElement[Decimal]):
    """An expression for a number with the value that programs read."""

    inherit_cache = True
    name = "exact_decimal"
    type = Numeric()


class _Label(FunctionElement[str]):
    """An expression for the stored form of a member of an enumeration."""

    inherit_cache = True
    name = "label"
    type = String()


class _Zoned(FunctionElement[Anything]):
    """An expression for a time with a zone; compiling it fails where the database stores no
    zone.
    """

    inherit_cache = True
    name = "zoned"
    type = DateTime(timezone=True)


class _Function(FunctionElement[str]):
    """An expression for the value of a function of a text: the text, the name of the function and
    its operand.
    """

    inherit_cache = True
    name = "text_function"
    type = String()


class _JsonText(FunctionElement[str]):
    """An expression for a value in a JSON document: the document, an element in it, and the
    path.
    """

    inherit_cache = True
    name = "json_text"
    type: TypeEngine[Anything] = String()
    kind = "text"


class _JsonNumber(_JsonText):
    inherit_cache = True
    name = "json_number"
    type = Integer()
    kind = "number"


class _JsonBoolean(_JsonText):
    inherit_cache = True
    name = "json_boolean"
    type = Boolean()
    kind = "boolean"


_JSON_VIEWS: Final[dict[str, type[_JsonText]]] = {
    "text": _JsonText,
    "number": _JsonNumber,
    "boolean": _JsonBoolean,
}


class _JsonType(FunctionElement[bool]):
    """A condition: a JSON document has a value of one of some types: the types, and the path as in
    `_JsonText`.
    """

    inherit_cache = True
    name = "json_type"
    type = Boolean()
    negated = False


class _NotJsonType(_JsonType):
    inherit_cache = True
    name = "json_type_not"
    negated = True


class _Element(FunctionElement[Anything]):
    """An expression for an element of an array, by the name of its row."""

    inherit_cache = True
    name = "array_element"

    def __init__(self, name: ColumnElement[Anything], type_: TypeEngine[Anything]) -> None:
        super().__init__(name)
        self.type = type_


class _ElementsOfArray(FunctionElement[bool]):
    """A condition: an array has an element that fulfils another condition: the name of the element,
    that condition, and the path of the array.
    """

    inherit_cache = True
    name = "array_elements"
    type = Boolean()


class _ElementsOfJson(_ElementsOfArray):
    inherit_cache = True
    name = "json_elements"


class _Rounded(FunctionElement[Decimal]):
    """An expression for a decimal as programs read it: rounded to the digits of its type if it is
    stored as a double.
    """

    inherit_cache = True
    name = "rounded"
    type = Numeric()


class _Single(FunctionElement[float]):
    """An expression for a number of single precision, by the digits that programs read."""

    inherit_cache = True
    name = "single"
    type = Double()


class _StoredAs(FunctionElement[bool]):
    """A condition: a column holds a value of its declared kind; or, `negated`, of another kind."""

    inherit_cache = True
    type = Boolean()
    kind: Kind = "text"
    negated = False


def _stored_as(kind: Kind, *, negated: bool) -> type[_StoredAs]:
    """Return the class of the test that a column holds a value of the kind, or does not."""
    body = {
        "inherit_cache": True,
        "name": f"{'not_' if negated else ''}stored_{kind}",
        "kind": kind,
        "negated": negated,
    }
    return type(f"_{'Not' if negated else ''}Stored{kind.title()}", (_StoredAs,), body)


_STORED_AS: Final = {
    (kind, negated): _stored_as(kind, negated=negated)
    for kind in KINDS
    for negated in (False, True)
}


class _Related(FunctionElement[bool]):
    """A condition (EXISTS): a relationship leads to a row that fulfils the conditions."""

    inherit_cache = True
    type = Boolean()
    name = "related_exists"


class _Match(FunctionElement[bool]):
    """A condition: a text begins with, ends with or contains another, by code points."""

    inherit_cache = True
    type = Boolean()
    operator = ""

    def self_group(self, against: Anything = None) -> Anything:
        """Return itself: in a group SQLAlchemy would compare it with 1 by `=` (see `searches` of
        MySQL's dialect).
        """
        return self


class _NoMatch(_Match):
    """A condition: a text search does not hold."""

    inherit_cache = True
    name = "text_matches_not"


class _StartsWith(_Match):
    inherit_cache = True
    name = "text_starts_with"
    operator = "startswith"


class _EndsWith(_Match):
    inherit_cache = True
    name = "text_ends_with"
    operator = "endswith"


class _Contains(_Match):
    inherit_cache = True
    name = "text_contains"
    operator = "contains"


_MATCHES: Final[dict[str, type[_Match]]] = {
    "startswith": _StartsWith,
    "endswith": _EndsWith,
    "contains": _Contains,
}


def _dialect_of(compiler: Anything) -> SQLDialect:
    return dialect_of(str(compiler.dialect.name))


def _exact_dialect_of(compiler: Anything) -> SQLDialect:
    """Return the dialect; raise SQLAlchemy's CompileError for a database that cannot compare texts
    exactly.
    """
    dialect = _dialect_of(compiler)
    if not dialect.compares_texts:
        raise CompileError(f"texts cannot be compared exactly on {dialect.name}")
    return dialect


def _capitalize_types(template: str) -> str:
    """Return a template with the names of types in capitals, as SQLAlchemy writes them."""
    return template.replace(" AS text)", " AS TEXT)").replace(" AS numeric)", " AS NUMERIC)")


@compiles(_ExactText)
def _compile_exact(element: _ExactText, compiler: Anything, **options: Anything) -> str:
    (inner,) = [compiler.process(clause, **options) for clause in element.clauses]
    return _capitalize_types(_exact_dialect_of(compiler).exact).format(inner)


@compiles(_PaddedText)
def _compile_padded(element: _PaddedText, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of a text with the spaces that a CHAR adds; CompileError for a database
    without exact texts.
    """
    dialect = _exact_dialect_of(compiler)
    (inner,) = [compiler.process(clause, **options) for clause in element.clauses]
    return _capitalize_types(dialect.padded or dialect.exact).format(inner)


@compiles(_Decimal)
def _compile_decimal(element: _Decimal, compiler: Anything, **options: Anything) -> str:
    (inner,) = [compiler.process(clause, **options) for clause in element.clauses]
    return _capitalize_types(_exact_dialect_of(compiler).decimal or "{}").format(inner)


def _quote(text: str) -> str:
    return f"'{text}'"


def _parts(element: Anything, compiler: Anything, **options: Anything) -> tuple[str, Anything]:
    """Return a document as SQL, and the texts of its other clauses (element and path).

    Raise FilterError for a column of a type whose documents the database does not read.
    """
    column, *names = list(element)
    texts = [each.name[1:-1] for each in names]
    readable = _dialect_of(compiler).document_type
    if readable and isinstance(column.type, JSON):
        stored = column.type._unwrapped_dialect_impl(compiler.dialect).__visit_name__.lower()
        if stored != readable:
            message = f"a column of type {stored} may hold documents that {readable} refuses"
            raise fault(message, JSON_HINT)
    return compiler.process(column, **options), texts


@compiles(_Label)
def _compile_label(element: _Label, compiler: Anything, **options: Anything) -> str:
    (column,) = element.clauses
    return compiler.process(column, **options)  # type: ignore[no-any-return]


@compiles(_Zoned)
def _compile_zoned(element: _Zoned, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of a time with a zone; FilterError for a database that stores no zone."""
    (column,) = element.clauses
    check_zones(_dialect_of(compiler))
    return compiler.process(column, **options)  # type: ignore[no-any-return]


@compiles(_Function)
def _compile_function(element: _Function, compiler: Anything, **options: Anything) -> str:
    text, (function, operand) = _parts(element.clauses, compiler, **options)
    return function_of(_exact_dialect_of(compiler), function, operand, text)


@compiles(_JsonText)
@compiles(_JsonNumber)
@compiles(_JsonBoolean)
def _compile_json(element: _JsonText, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of a value in a document."""
    dialect = _dialect_of(compiler)
    column, (inside, *path) = _parts(element.clauses, compiler, **options)
    return json_of(dialect, *json_place(dialect, column, inside, path), element.kind)


@compiles(_JsonType)
@compiles(_NotJsonType)
def _compile_json_type(element: _JsonType, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of the test for the type of a value in a document."""
    dialect = _dialect_of(compiler)
    types: Anything
    types, *where_ = list(element.clauses)
    column, (inside, *path) = _parts(where_, compiler, **options)
    document, steps = json_place(dialect, column, inside, path)
    return json_type_of(dialect, document, steps, types.name.split(","), negated=element.negated)


@compiles(_Element)
def _compile_element(element: _Element, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of an array's element."""
    name: Anything
    (name,) = element.clauses
    return f"{name.name}.value"


@compiles(_ElementsOfArray)
@compiles(_ElementsOfJson)
def _compile_elements(element: _ElementsOfArray, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of the test for an element of an array or document."""
    alias: Anything
    alias, holds, *where_ = list(element.clauses)
    dialect = _dialect_of(compiler)
    column, (inside, *path) = _parts(where_, compiler, **options)
    row = alias.name[1:-1]
    if isinstance(element, _ElementsOfJson):
        source = elements_of(dialect, *json_place(dialect, column, inside, path), row)
    else:
        check_arrays(dialect)
        source = f"unnest({column}) AS {row}(value)"
    return f"EXISTS (SELECT 1 FROM {source} WHERE {compiler.process(holds, **options)})"


@compiles(_Rounded)
def _compile_rounded(element: _Rounded, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of a decimal; rounded to the digits of its type if it is stored as a
    double.
    """
    (column,) = element.clauses
    inner: str = compiler.process(column, **options)
    if _dialect_of(compiler).has_decimals:
        return inner
    stored: Anything = column.type
    scale = stored.scale if stored.scale is not None else stored._default_decimal_return_scale
    return f"round({inner}, {int(scale)})"


@compiles(_Single)
def _compile_single(element: _Single, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of a number of single precision with the digits that programs read."""
    (column,) = element.clauses
    stored: Anything = column.type
    inner: str = compiler.process(column, **options)
    dialect = _dialect_of(compiler)
    is_single = isinstance(stored, REAL) or stored.precision or dialect.float_is_single
    return dialect.single.format(inner) if is_single and dialect.single else inner


@compiles(_StoredAs)
def _compile_stored(element: _StoredAs, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of the test that the stored value is of the declared kind."""
    (column,) = element.clauses
    inner: str = compiler.process(column, **options)
    dialect = _dialect_of(compiler)
    if element.kind == "array":
        check_arrays(dialect)
    is_integer = isinstance(column.type, Integer)
    test = dialect.stored_test(element.kind, negated=element.negated, is_integer=is_integer)
    return test.format(inner)


@compiles(_Related)
def _compile_related(element: _Related, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of an EXISTS that selects the columns which the dialect names."""
    (exists,) = element.clauses
    text: str = compiler.process(exists, **options)
    begin = "EXISTS (SELECT "
    assert text.startswith(f"{begin}1 "), text
    columns, end = _dialect_of(compiler).selects
    return f"{begin}{columns}{text[len(begin) + 1 : -1]}{end})"


@compiles(_NoMatch)
def _compile_no_match(element: _NoMatch, compiler: Anything, **options: Anything) -> str:
    (match,) = element.clauses
    return f"(NOT {compiler.process(match, **options)})"


@compiles(_Match)
def _compile_match(element: _Match, compiler: Anything, **options: Anything) -> str:
    return f"({_match_text(element, compiler, **options)})"


def _match_text(element: _Match, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of a text search without regard to collations."""
    dialect = _exact_dialect_of(compiler)
    subject, pattern = [compiler.process(clause, **options) for clause in element.clauses]
    return dialect.searches[element.operator].format(subject, pattern)
