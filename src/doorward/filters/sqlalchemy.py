"""Predicates as SQLAlchemy 2 expressions: `select(Doc).where(where(conditions, {"docs": Doc}))`.

The kinds of columns are those of their types. What depends on the database is decided when the
statement is compiled for one: PostgreSQL, MySQL and MariaDB, SQLite; others are an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any as Anything
from typing import Final

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Enum,
    Float,
    Integer,
    Numeric,
    String,
    Table,
    and_,
    false,
    inspect,
    literal,
    not_,
    or_,
    true,
)
from sqlalchemy.exc import CompileError, NoInspectionAvailable
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from doorward.filters.conditions import Conditions, Field, fault
from doorward.filters.logic import (
    All,
    Any,
    Compare,
    CompareFields,
    In,
    IsNull,
    Kind,
    Match,
    Nulls,
    Predicate,
    to_predicate,
)
from doorward.rego import Number, number_text

__all__ = ["where"]

_OPERATORS: Final = {
    "eq": "__eq__",
    "ne": "__ne__",
    "lt": "__lt__",
    "lte": "__le__",
    "gt": "__gt__",
    "gte": "__ge__",
}
_STORED: Final = {"boolean": "'integer'", "number": "'integer', 'real'", "text": "'text'"}


def where(
    conditions: Conditions, tables: Mapping[str, Anything], *, nulls: Nulls = "null"
) -> ColumnElement[bool]:
    """The rows that the policy lets through.

    `tables`: mapped classes, aliases of them or tables, by the names of the policy. FilterError for
    a column that is not there, or whose type has no kind.
    """
    columns = {name: _columns(table) for name, table in tables.items()}
    kinds = {
        name: {key: kind for key, c in each.items() if (kind := _kind(c.type)) is not None}
        for name, each in columns.items()
    }
    writer = _Writer(columns, kinds)
    expression = writer.predicate(to_predicate(conditions, kinds, nulls))
    return and_(*writer.stored.values(), expression)


def _columns(table: Anything) -> Mapping[str, ColumnElement[Anything]]:
    if isinstance(table, Table):
        return dict(table.c)
    try:
        mapper = inspect(table).mapper
    except (NoInspectionAvailable, AttributeError):
        raise fault(f"{table!r} is not a mapped class or a table") from None
    return {each.key: getattr(table, each.key) for each in mapper.column_attrs}


def _kind(type_: TypeEngine[Anything]) -> Kind | None:
    if isinstance(type_, Boolean):
        return "boolean"
    if isinstance(type_, (Integer, Numeric)):
        return "number"
    # What an enumeration stores is not what the program sees.
    return "text" if isinstance(type_, String) and not isinstance(type_, Enum) else None


class _Exactly(TypeDecorator[Decimal]):
    """A number that the driver hands over exactly."""

    impl = Numeric
    cache_ok = True

    def load_dialect_impl(self, dialect: Anything) -> TypeEngine[Anything]:
        lossy = dialect.name == "sqlite"
        return dialect.type_descriptor(Float() if lossy else Numeric())  # type: ignore[no-any-return]

    def process_bind_param(self, value: Anything, dialect: Anything) -> Anything:
        if dialect.name != "sqlite" or value is None:
            return value
        double = float(value)
        if Decimal(repr(double)) != value:
            raise fault(f"SQLite has no exact number {value}")
        return double


class _Writer:
    def __init__(
        self,
        columns: Mapping[str, Mapping[str, ColumnElement[Anything]]],
        kinds: Mapping[str, Mapping[str, Kind]],
    ) -> None:
        self._columns = columns
        self._kinds = kinds
        self.stored: dict[Field, ColumnElement[bool]] = {}
        """That columns hold what they are declared to hold, which SQLite does not see to."""

    def predicate(self, predicate: Predicate) -> ColumnElement[bool]:
        match predicate:
            case IsNull(field, negated):
                column = self._column(field)
                return column.is_not(None) if negated else column.is_(None)
            case Compare(field, operator, value, kind):
                return self._compare(self._column(field), operator, value, kind)
            case CompareFields(left, operator, right, kind):
                one, other = self._column(left), self._column(right)
                if kind == "text":
                    one, other = _ExactText(one), _ExactText(other)
                return self._operation(one, operator, other)
            case In(field, values, kind, negated):
                column = self._column(field)
                operator = "ne" if negated else "eq"
                tests = [self._compare(column, operator, value, kind) for value in values]
                return and_(*tests) if negated else or_(*tests)
            case Match(field, operator, text, negated):
                holds: ColumnElement[bool] = _MATCHES[operator](
                    self._column(field), literal(_text(text), String())
                )
                return not_(holds) if negated else holds
            case All(parts):
                return and_(true(), *[self.predicate(part) for part in parts])
            case Any(parts):
                return or_(false(), *[self.predicate(part) for part in parts])

    def _column(self, field: Field) -> ColumnElement[Anything]:
        column = self._columns[field.table][field.column]
        if field not in self.stored:
            self.stored[field] = _STORED_AS[self._kinds[field.table][field.column]](column)
        return column

    def _compare(
        self,
        column: ColumnElement[Anything],
        operator: str,
        value: bool | int | Number | str,
        kind: Kind,
    ) -> ColumnElement[bool]:
        if kind == "text":
            bound = literal(_text(str(value)), String())
            exact = self._operation(_ExactText(column), operator, _ExactText(bound))
            return and_(column == bound, exact) if operator == "eq" else exact
        return self._operation(column, operator, _bound(value))

    def _operation(
        self, left: ColumnElement[Anything], operator: str, right: ColumnElement[Anything]
    ) -> ColumnElement[bool]:
        result: ColumnElement[bool] = getattr(left, _OPERATORS[operator])(right)
        return result


def _bound(value: bool | int | Number | str) -> ColumnElement[Anything]:
    if isinstance(value, bool):
        return literal(value, Boolean())
    decimal = Decimal(number_text(value))  # type: ignore[arg-type]  # a number
    if decimal == decimal.to_integral_value() and abs(decimal) < 1 << 63:
        return literal(int(decimal))
    return literal(decimal, _Exactly())


def _text(text: str) -> str:
    if "\0" in text:
        raise fault("a text with a NUL cannot be compared in a database")
    return text


class _ExactText(FunctionElement[str]):
    """A text as its code points, whatever its collation."""

    inherit_cache = True
    name = "exact_text"
    type = String()


class _StoredAs(FunctionElement[bool]):
    inherit_cache = True
    type = Boolean()
    kinds = ""


class _StoredBoolean(_StoredAs):
    inherit_cache = True
    name = "stored_boolean"
    kinds = _STORED["boolean"]


class _StoredNumber(_StoredAs):
    inherit_cache = True
    name = "stored_number"
    kinds = _STORED["number"]


class _StoredText(_StoredAs):
    inherit_cache = True
    name = "stored_text"
    kinds = _STORED["text"]


_STORED_AS: Final[dict[Kind, type[_StoredAs]]] = {
    "boolean": _StoredBoolean,
    "number": _StoredNumber,
    "text": _StoredText,
}


class _Match(FunctionElement[bool]):
    inherit_cache = True
    type = Boolean()


class _StartsWith(_Match):
    inherit_cache = True
    name = "text_starts_with"


class _EndsWith(_Match):
    inherit_cache = True
    name = "text_ends_with"


class _Contains(_Match):
    inherit_cache = True
    name = "text_contains"


_MATCHES: Final[dict[str, type[_Match]]] = {
    "startswith": _StartsWith,
    "endswith": _EndsWith,
    "contains": _Contains,
}
_EXACT: Final = {
    "postgresql": 'CAST({} AS TEXT) COLLATE "C"',
    "sqlite": "{} COLLATE BINARY",
    "mysql": "CAST(CONVERT({} USING utf8mb4) AS BINARY)",
}
_FIND: Final = {
    "postgresql": "strpos({0}, {1})",
    "sqlite": "instr({0}, {1})",
    "mysql": "LOCATE({1}, {0})",
}
_TAIL: Final = {
    "postgresql": "right({0}, length({1}))",
    "sqlite": "substr({0}, -length({1}))",
    "mysql": "substr({0}, -LENGTH({1}))",
}


def _dialect(compiler: Anything) -> str:
    name = str(compiler.dialect.name)
    name = {"mariadb": "mysql"}.get(name, name)
    if name not in _EXACT:
        raise CompileError(f"texts cannot be compared exactly on {name}")
    return name


@compiles(_ExactText)
def _compile_exact(element: _ExactText, compiler: Anything, **options: Anything) -> str:
    (inner,) = [compiler.process(clause, **options) for clause in element.clauses]
    return _EXACT[_dialect(compiler)].format(inner)


@compiles(_StoredAs)
def _compile_stored(element: _StoredAs, compiler: Anything, **options: Anything) -> str:
    if compiler.dialect.name != "sqlite":
        return "1 = 1"
    (inner,) = [compiler.process(clause, **options) for clause in element.clauses]
    return f"typeof({inner}) IN ({element.kinds}, 'null')"


@compiles(_Match)
def _compile_match(element: _Match, compiler: Anything, **options: Anything) -> str:
    name = _dialect(compiler)
    subject, wanted = [
        _EXACT[name].format(compiler.process(clause, **options)) for clause in element.clauses
    ]
    if isinstance(element, _EndsWith):
        return f"{_TAIL[name].format(subject, wanted)} = {wanted}"
    position = _FIND[name].format(subject, wanted)
    return f"{position} = 1" if isinstance(element, _StartsWith) else f"{position} > 0"
