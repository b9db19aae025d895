"""Predicates as SQLAlchemy 2 expressions: `select(Doc).where(where(conditions, {"docs": Doc}))`.

The kinds of columns are those of their types. What depends on the database is decided when the
statement is compiled for one: PostgreSQL, MySQL and MariaDB, SQLite; others are an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any as Anything
from typing import Final

from doorward.exporting import missing

try:
    from sqlalchemy.exc import CompileError, NoInspectionAvailable
except ModuleNotFoundError as error:
    raise missing("doorward[sqlalchemy]", error) from None
from sqlalchemy import (
    CHAR,
    NCHAR,
    REAL,
    Boolean,
    ColumnElement,
    Double,
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
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import aliased
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from doorward.filters.conditions import Conditions, Field, checked_text, fault
from doorward.filters.logic import (
    MARIADB_COLUMNS,
    MARIADB_HAVING,
    MARIADB_MATCHES,
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
    Related,
    Stored,
    check_decimal,
    check_double,
    is_double,
    stored_test,
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
SINGLE: Final = 24
"""Bits that a number of single precision has."""


def where(
    conditions: Conditions, tables: Mapping[str, Anything], *, nulls: Nulls = "null"
) -> ColumnElement[bool]:
    """The rows that the policy lets through.

    `tables`: mapped classes, aliases of them or tables, by the names of the policy. FilterError for
    a column that is not there, or whose type has no kind.
    """
    schema = _Mapped({name: _Table(table) for name, table in tables.items()})
    return _Writer(schema).predicate(to_predicate(conditions, schema, nulls))


class _Table:
    """A mapped class, an alias of one or a table."""

    def __init__(self, entity: Anything) -> None:
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
        """None where there is no relation of that name."""
        declared = self._relations.get(relation)
        return None if declared is None else bool(declared.uselist)

    def row(self, relation: str) -> _Table:
        """A row that a relation leads to, under a name of its own."""
        return _Table(aliased(self._relations[relation].entity.entity))

    def leads_to(
        self, relation: str, row: _Table, holds: ColumnElement[bool]
    ) -> ColumnElement[bool]:
        """Whether there is such a row for which that holds."""
        attribute = getattr(self._entity, relation).of_type(row._entity)
        result: ColumnElement[bool] = (
            attribute.any(holds) if self.is_many(relation) else attribute.has(holds)
        )
        return result


class _Mapped:
    def __init__(self, tables: Mapping[str, _Table]) -> None:
        self._tables = tables

    def table(self, name: str) -> _Table | None:
        return self._tables.get(name)

    def kind(self, table: _Table, column: str) -> Kind | None:
        return _kind(table.columns[column].type) if column in table.columns else None

    def related(self, table: _Table, relation: str) -> tuple[_Table, bool] | None:
        many = table.is_many(relation)
        return None if many is None else (table.row(relation), many)


def _kind(type_: TypeEngine[Anything]) -> Kind | None:
    kinds = {_kind_of(each) for each in (type_, *type_._variant_mapping.values())}
    return kinds.pop() if len(kinds) == 1 else None


def _kind_of(type_: TypeEngine[Anything]) -> Kind | None:
    if type(type_).result_processor not in _PLAIN:
        return None  # what it stores is not what the program sees: an enumeration, a SET
    if isinstance(type_, Boolean):
        return "boolean"
    if isinstance(type_, Integer):
        return "number"
    if isinstance(type_, (Float, Numeric)):  # in SQLAlchemy 2.1 a Float is not a Numeric
        # A double as a Decimal is rounded on its way, and so is a decimal as a double.
        return "number" if type_.asdecimal != isinstance(type_, Float) else None
    return "text" if isinstance(type_, String) else None


_PLAIN: Final = frozenset(
    {each.result_processor for each in (Boolean, Integer, Numeric, Float, String)}
)
"""Readings that `_as_seen` and the databases know."""


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
            raise fault("SQLite has no exact number for what a column is compared with")
        return double


class _Writer:
    def __init__(self, schema: _Mapped) -> None:
        self._schema = schema
        self._rows: dict[str, _Table] = {}

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
                    one, other = _exact_text(one), _exact_text(other)
                elif kind == "number":
                    one, other = _as_seen(one), _as_seen(other)
                    if _is_float(one.type) != _is_float(other.type):
                        return self._tied(one, operator, other, _Decimal(one), _Decimal(other))
                return self._operation(one, operator, other)
            case In(field, values, kind, negated):
                column = self._column(field)
                operator = "ne" if negated else "eq"
                tests = [self._compare(column, operator, value, kind) for value in values]
                return and_(*tests) if negated else or_(*tests)
            case Match(field, operator, text, negated):
                holds: ColumnElement[bool] = _MATCHES[operator](
                    _exact_text(self._column(field)), _exact_text(_literal(text))
                )
                return _NoMatch(holds) if negated else holds
            case Stored(field, kind, negated):
                return _STORED_AS[kind, negated](self._column(field))
            case Related():
                return self._related(predicate)
            case All(parts):
                return and_(true(), *[self.predicate(part) for part in parts])
            case Any(parts):
                return or_(false(), *[self.predicate(part) for part in parts])

    def _related(self, related: Related) -> ColumnElement[bool]:
        table = self._table(related.table)
        row = self._rows[related.row] = table.row(related.relation)
        holds = _Related(table.leads_to(related.relation, row, self.predicate(related.holds)))
        return not_(holds) if related.negated else holds

    def _table(self, name: str) -> _Table:
        table = self._rows.get(name) or self._schema.table(name)
        assert table is not None
        return table

    def _column(self, field: Field) -> ColumnElement[Anything]:
        return self._table(field.table).columns[field.column]

    def _compare(
        self,
        column: ColumnElement[Anything],
        operator: str,
        value: bool | int | Number | str,
        kind: Kind,
    ) -> ColumnElement[bool]:
        if kind == "text":
            bound = _literal(str(value))
            exact = self._operation(_exact_text(column), operator, _exact_text(bound))
            return and_(column == bound, exact) if operator == "eq" else exact
        if kind == "number":
            column = _as_seen(column)
            if _is_float(column.type):
                check_double(value)  # type: ignore[arg-type]  # a number
            if _is_float(column.type) and not is_double(value):  # type: ignore[arg-type]  # a number
                check_decimal("mysql", value)  # type: ignore[arg-type]  # for any database
                number = _bound(value)
                return self._tied(column, operator, number, _Decimal(column), number)
        return self._operation(column, operator, _bound(value))

    def _tied(
        self,
        left: ColumnElement[Anything],
        operator: str,
        right: ColumnElement[Anything],
        left_decimal: ColumnElement[Anything],
        right_decimal: ColumnElement[Anything],
    ) -> ColumnElement[bool]:
        """A comparison with doubles: of equal ones the decimals are compared."""
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
        result: ColumnElement[bool] = getattr(left, _OPERATORS[operator])(right)
        return result


def _as_seen(column: ColumnElement[Anything]) -> ColumnElement[Anything]:
    """A column by what programs read from it: 0.1 of single precision is not 0.1 in SQL, and what
    SQLite keeps as a double is read with the digits of its type."""
    if isinstance(column.type, Numeric) and not _is_float(column.type):
        return _Rounded(column)
    is_float = _is_float(column.type) and not isinstance(column.type, Double)
    if not is_float or (column.type.precision or 0) > SINGLE:  # type: ignore[attr-defined]  # a Float
        return column
    return _Single(column)


def _is_float(type_: TypeEngine[Anything]) -> bool:
    return isinstance(type_, Float)


def _bound(value: bool | int | Number | str) -> ColumnElement[Anything]:
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
    """A text as its code points, whatever its collation."""

    inherit_cache = True
    name = "exact_text"
    type = String()


class _PaddedText(_ExactText):
    """With the spaces that PostgreSQL adds, which programs read, and which its casts drop."""

    inherit_cache = True
    name = "padded_text"


class _Decimal(FunctionElement[Decimal]):
    """A number as programs read it."""

    inherit_cache = True
    name = "exact_decimal"
    type = Numeric()


class _Rounded(FunctionElement[Decimal]):
    inherit_cache = True
    name = "rounded"
    type = Numeric()


class _Single(FunctionElement[float]):
    inherit_cache = True
    name = "single"
    type = Double()


class _StoredAs(FunctionElement[bool]):
    """Whether a column holds a value of its kind; or, `negated`, does not."""

    inherit_cache = True
    type = Boolean()
    kind: Kind = "text"
    negated = False


def _stored_as(kind: Kind, *, negated: bool) -> type[_StoredAs]:
    body = {
        "inherit_cache": True,
        "name": f"{'not_' if negated else ''}stored_{kind}",
        "kind": kind,
        "negated": negated,
    }
    return type(f"_{'Not' if negated else ''}Stored{kind.title()}", (_StoredAs,), body)


_STORED_AS: Final = {
    (kind, negated): _stored_as(kind, negated=negated)
    for kind in ("boolean", "number", "text")
    for negated in (False, True)
}


class _Related(FunctionElement[bool]):
    """An EXISTS of a relationship."""

    inherit_cache = True
    type = Boolean()
    name = "related_exists"


class _Match(FunctionElement[bool]):
    inherit_cache = True
    type = Boolean()
    operator = ""

    def self_group(self, against: Anything = None) -> Anything:
        """Itself: SQLAlchemy would compare it with 1 (see `MARIADB_MATCHES`)."""
        return self


class _NoMatch(_Match):
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
_EXACT: Final = {
    "postgresql": 'CAST({} AS TEXT) COLLATE "C"',
    "sqlite": "{} COLLATE BINARY",
    "mysql": "CAST(CONVERT({} USING utf8mb4) AS BINARY)",
}
_PADDED: Final = 'CASE WHEN {0} IS NULL THEN NULL ELSE concat({0}) END COLLATE "C"'
_DECIMALS: Final = {
    "postgresql": "CAST(CAST({} AS TEXT) AS NUMERIC)",
    "sqlite": "{}",  # which compares integers and doubles exactly
    "mysql": "CAST(CAST({} AS CHAR) AS DECIMAL(65,30))",
}
_FIND: Final = {
    "postgresql": "strpos({0}, {1})",
    "sqlite": "instr({0}, {1})",
    "mysql": "LOCATE({1}, {0})",
}
_TAIL: Final = {
    "postgresql": "right({0}, length({1}))",
    "sqlite": "substr({0}, -length({1}))",
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


@compiles(_PaddedText)
def _compile_padded(element: _PaddedText, compiler: Anything, **options: Anything) -> str:
    if _dialect(compiler) != "postgresql":
        return _compile_exact(element, compiler, **options)
    (inner,) = [compiler.process(clause, **options) for clause in element.clauses]
    return _PADDED.format(inner)


@compiles(_Decimal)
def _compile_decimal(element: _Decimal, compiler: Anything, **options: Anything) -> str:
    (inner,) = [compiler.process(clause, **options) for clause in element.clauses]
    return _DECIMALS[_dialect(compiler)].format(inner)


@compiles(_Rounded)
def _compile_rounded(element: _Rounded, compiler: Anything, **options: Anything) -> str:
    (column,) = element.clauses
    inner: str = compiler.process(column, **options)
    if compiler.dialect.name != "sqlite":
        return inner
    stored: Anything = column.type
    scale = stored.scale if stored.scale is not None else stored._default_decimal_return_scale
    return f"round({inner}, {int(scale)})"


@compiles(_Single)
def _compile_single(element: _Single, compiler: Anything, **options: Anything) -> str:
    (column,) = element.clauses
    stored: Anything = column.type
    inner: str = compiler.process(column, **options)
    if compiler.dialect.name in ("mysql", "mariadb"):
        return f"CAST(CAST({inner} AS CHAR) AS DOUBLE)"
    is_real = isinstance(stored, REAL) or stored.precision
    if compiler.dialect.name == "postgresql" and is_real:
        return f"CAST(CAST({inner} AS TEXT) AS DOUBLE PRECISION)"
    return inner


@compiles(_StoredAs)
def _compile_stored(element: _StoredAs, compiler: Anything, **options: Anything) -> str:
    (column,) = element.clauses
    inner: str = compiler.process(column, **options)
    name = {"mariadb": "mysql"}.get(compiler.dialect.name, compiler.dialect.name)
    if name == "postgresql" and isinstance(column.type, Integer):
        name = ""  # no value is refused
    return stored_test(name, element.kind, negated=element.negated).format(inner)


@compiles(_Related)
def _compile_related(element: _Related, compiler: Anything, **options: Anything) -> str:
    (exists,) = element.clauses
    text: str = compiler.process(exists, **options)
    if compiler.dialect.name not in ("mysql", "mariadb"):
        return text
    begin = "EXISTS (SELECT "
    assert text.startswith(f"{begin}1 "), text
    return f"{begin}{MARIADB_COLUMNS}{text[len(begin) + 1 : -1]} {MARIADB_HAVING})"


@compiles(_NoMatch)
def _compile_no_match(element: _NoMatch, compiler: Anything, **options: Anything) -> str:
    (match,) = element.clauses
    return f"(NOT {compiler.process(match, **options)})"


@compiles(_Match)
def _compile_match(element: _Match, compiler: Anything, **options: Anything) -> str:
    return f"({_match_text(element, compiler, **options)})"


def _match_text(element: _Match, compiler: Anything, **options: Anything) -> str:
    name = _dialect(compiler)
    subject, wanted = [compiler.process(clause, **options) for clause in element.clauses]
    operator = element.operator
    if operator == "contains":
        return f"{_FIND[name].format(subject, wanted)} > 0"
    if name == "mysql":
        return MARIADB_MATCHES[operator].format(subject, wanted)
    if operator == "endswith":
        return f"{_TAIL[name].format(subject, wanted)} = {wanted}"
    return f"{_FIND[name].format(subject, wanted)} = 1"
