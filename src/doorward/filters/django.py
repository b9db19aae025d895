"""Predicates as a Django `Q`: `Doc.objects.filter(to_q(conditions, Doc, {"docs": ""}))`.

The kinds of columns are those of the fields of models. What depends on the database is decided when
the query is compiled for one: PostgreSQL, MySQL, MariaDB and SQLite; others are an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any as Anything
from typing import Final

from django.core.exceptions import FieldDoesNotExist
from django.db import NotSupportedError, models
from django.db.models import F, Func, Model, Q, Value
from django.db.models.lookups import (
    Exact,
    GreaterThan,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from doorward.filters.conditions import Conditions, Field, fault
from doorward.filters.logic import (
    All,
    Any,
    Compare,
    CompareFields,
    In,
    Kind,
    Match,
    Nulls,
    Predicate,
    to_predicate,
)
from doorward.filters.logic import IsNull as Null
from doorward.rego import Number, number_text

__all__ = ["to_q"]

_LOOKUPS: Final = {
    "eq": Exact,
    "lt": LessThan,
    "lte": LessThanOrEqual,
    "gt": GreaterThan,
    "gte": GreaterThanOrEqual,
}
_NUMBERS: Final = (models.IntegerField, models.FloatField, models.DecimalField)
_TEXTS: Final = (models.CharField, models.TextField)
_STORED: Final = {"boolean": "'integer'", "number": "'integer', 'real'", "text": "'text'"}


def to_q(
    conditions: Conditions,
    model: type[Model],
    tables: Mapping[str, str],
    *,
    nulls: Nulls = "null",
) -> Q:
    """The rows of `model` that the policy lets through.

    `tables`: where the tables of the policy are from there: "" is the model, anything
    else a lookup path of relations to one other row each. FilterError for a column that is not
    there, whose type has no kind, or behind a relation to many rows.
    """
    columns = {name: _kinds(_related(model, path)) for name, path in tables.items()}
    writer = _Writer(tables, columns)
    condition = writer.predicate(to_predicate(conditions, columns, nulls))
    for stored in writer.stored.values():
        condition = Q(stored) & condition
    return condition


def _related(model: type[Model], path: str) -> type[Model]:
    """The model behind relations to one row each."""
    for name in filter(None, path.split("__")):
        try:
            relation = model._meta.get_field(name)
        except FieldDoesNotExist:
            raise fault(f"{model.__name__} has no relation {name}") from None
        if not (relation.many_to_one or relation.one_to_one):
            raise fault(f"{model.__name__}.{name} is not a relation to one row")
        model = relation.related_model
    return model


def _kinds(model: type[Model]) -> dict[str, Kind]:
    fields = {each.name: _kind(each) for each in model._meta.concrete_fields}
    return {name: kind for name, kind in fields.items() if kind is not None}


def _kind(field: Anything) -> Kind | None:
    if isinstance(field, models.BooleanField):
        return "boolean"
    if isinstance(field, _NUMBERS):
        return "number"
    return "text" if isinstance(field, _TEXTS) else None


class _Writer:
    def __init__(
        self, tables: Mapping[str, str], columns: Mapping[str, Mapping[str, Kind]]
    ) -> None:
        self._tables = tables
        self._columns = columns
        self.stored: dict[Field, Func] = {}
        """That columns hold what they are declared to hold, which SQLite does not see to."""

    def predicate(self, predicate: Predicate) -> Q:
        match predicate:
            case Null(field, negated):
                return Q(IsNull(self._column(field), not negated))
            case Compare(field, operator, value, kind):
                return self._compare(self._column(field), operator, value, kind)
            case CompareFields(left, operator, right, kind):
                return self._fields(self._column(left), operator, self._column(right), kind)
            case In(field, values, kind, negated):
                operator = "ne" if negated else "eq"
                condition = Q()
                for value in values:
                    test = self._compare(self._column(field), operator, value, kind)
                    condition = condition & test if negated or not condition else condition | test
                return condition
            case Match(field, operator, text, negated):
                column, wanted = self._column(field), _text(text)
                return Q(Exact(_Matches(column, wanted, operator), Value(not negated)))
            case All(parts):
                condition = Q(Exact(Value(1), Value(1)))
                for part in parts:
                    condition &= self.predicate(part)
                return condition
            case Any(parts):
                condition = Q(Exact(Value(0), Value(1)))
                for part in parts:
                    condition |= self.predicate(part)
                return condition

    def _column(self, field: Field) -> F:
        prefix = self._tables[field.table]
        column = F(f"{prefix}__{field.column}" if prefix else field.column)
        if field not in self.stored:
            self.stored[field] = _Stored(column, self._columns[field.table][field.column])
        return column

    def _compare(self, column: F, operator: str, value: bool | int | Number | str, kind: Kind) -> Q:
        if kind == "text":
            bound = _text(str(value))
            exact = self._fields(column, operator, bound, kind)
            return Q(Exact(column, bound)) & exact if operator == "eq" else exact
        return self._fields(column, operator, _Known(_bound(value)), kind)

    def _fields(self, left: Anything, operator: str, right: Anything, kind: Kind) -> Q:
        if kind == "text":
            left, right = _ExactText(left), _ExactText(right)
        if operator == "ne":  # two tests that hold for no NULL, without a `NOT`
            return Q(LessThan(left, right)) | Q(GreaterThan(left, right))
        return Q(_LOOKUPS[operator](left, right))


def _bound(value: Anything) -> bool | int | Decimal:
    if isinstance(value, bool):
        return value
    decimal = Decimal(number_text(value))
    if decimal == decimal.to_integral_value() and abs(decimal) < 1 << 63:
        return int(decimal)
    return decimal


def _text(text: str) -> Value:
    if "\0" in text:
        raise fault("a text with a NUL cannot be compared in a database")
    return Value(text, output_field=models.TextField())


class _Known(Value):  # type: ignore[misc]  # Django has no types
    """A number or boolean that the driver hands over exactly."""

    def as_sqlite(
        self, compiler: Anything, connection: Anything, **options: Anything
    ) -> tuple[str, list[Anything]]:
        value = self.value
        if isinstance(value, Decimal):
            value = float(value)
            if Decimal(repr(value)) != self.value:
                raise fault(f"SQLite has no exact number {self.value}")
        return "%s", [value]


class _PerDatabase(Func):  # type: ignore[misc]  # Django has no types
    """A template for each database, and an error for the others."""

    templates: Mapping[str, str] = {}

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        template = self.templates.get(connection.vendor)
        if template is None:
            raise NotSupportedError(f"texts cannot be compared exactly on {connection.vendor}")
        return super().as_sql(compiler, connection, template=template, arg_joiner=", ", **options)


class _ExactText(_PerDatabase):
    """A text as its code points, whatever its collation."""

    output_field = models.TextField()
    templates: Mapping[str, str] = {
        "postgresql": '(CAST(%(expressions)s AS text) COLLATE "C")',
        "sqlite": "(%(expressions)s COLLATE BINARY)",
        "mysql": "CAST(CONVERT(%(expressions)s USING utf8mb4) AS BINARY)",
    }


class _Stored(_PerDatabase):
    """Whether SQLite holds a value of the kind of a column."""

    output_field = models.BooleanField()

    def __init__(self, column: Anything, kind: str = "text", **options: Anything) -> None:
        super().__init__(column, **options)
        self.kind = kind

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        if connection.vendor != "sqlite":
            return "1 = 1", []
        text, parameters = compiler.compile(self.source_expressions[0])
        return f"typeof({text}) IN ({_STORED[self.kind]}, 'null')", parameters


class _Matches(_PerDatabase):
    """Whether a text begins with another, ends with it or has it inside."""

    output_field = models.BooleanField()

    def __init__(
        self, column: Anything, wanted: Anything, operator: str = "contains", **options: Anything
    ) -> None:
        super().__init__(_ExactText(column), _ExactText(wanted), **options)
        self.operator = operator

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        subject, wanted = self.source_expressions
        text, parameters = compiler.compile(subject)
        other, more = compiler.compile(wanted)
        vendor = connection.vendor
        if self.operator == "endswith":
            length = "LENGTH" if vendor == "mysql" else "length"
            tail = "right({0}, {2}({1}))" if vendor == "postgresql" else "substr({0}, -{2}({1}))"
            test = f"({tail.format(text, other, length)} = {other})"
            return test, [*parameters, *more, *more]
        position = {"postgresql": "strpos({0}, {1})", "sqlite": "instr({0}, {1})"}.get(
            vendor, "LOCATE({1}, {0})"
        )
        bound = [*more, *parameters] if vendor == "mysql" else [*parameters, *more]
        sign = "= 1" if self.operator == "startswith" else "> 0"
        return f"({position.format(text, other)} {sign})", bound
