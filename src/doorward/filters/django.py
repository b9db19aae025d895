"""Predicates as a Django `Q`: `Doc.objects.filter(to_q(conditions, Doc, {"docs": ""}))`.

The kinds of columns are those of the fields of models. What depends on the database is decided when
the query is compiled for one (`django_expressions`): PostgreSQL, MySQL, MariaDB and SQLite; others
are an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any as Anything
from typing import Final

from doorward.base.exporting import missing

try:
    from django.core.exceptions import FieldDoesNotExist
except ModuleNotFoundError as error:
    raise missing("doorward[django]", error) from None
from django.conf import settings
from django.db import models, router
from django.db.models import F, Model, OuterRef, Q, QuerySet, Value
from django.db.models.fields.related import ForeignKey, ForeignObjectRel, ManyToManyField
from django.db.models.lookups import (
    Exact,
    GreaterThan,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from doorward.base.records import record
from doorward.filters.columns import Column, Kind, Nulls, refused, relations_below, to_document
from doorward.filters.columns import Stored as StoredValue
from doorward.filters.conditions import Conditions, Field, checked_text, fault
from doorward.filters.dialects import check_decimal
from doorward.filters.django_expressions import (
    ArrayElement,
    ExactDecimal,
    ExactText,
    ExactValue,
    HasElement,
    HasJsonType,
    InOrder,
    JsonValue,
    Matches,
    ReadDecimal,
    ReadNumber,
    RelatedRow,
    StoredAs,
    TextFunction,
)
from doorward.filters.exact_numbers import check_double, has_fraction, is_double
from doorward.filters.hints import BYTES, GENERIC, OWN_TYPE, ZONES
from doorward.filters.logic import to_predicate
from doorward.filters.predicates import (
    All,
    Any,
    Compare,
    CompareFields,
    Elements,
    In,
    JsonType,
    Match,
    Predicate,
    Related,
    Stored,
)
from doorward.filters.predicates import IsNull as Null
from doorward.rego import Number
from doorward.rego.shared import number_text

__all__ = ["columns_of", "document_of", "relations_of", "to_q"]

_LOOKUPS: Final = {
    "eq": Exact,
    "lt": LessThan,
    "lte": LessThanOrEqual,
    "gt": GreaterThan,
    "gte": GreaterThanOrEqual,
}
MAX_KEYS: Final = 16
"""At most this many primary keys in a row that are foreign keys to other models are followed."""
_NUMBERS: Final = (models.IntegerField, models.FloatField, models.DecimalField)
_TEXTS: Final = (models.CharField, models.TextField)


def to_q(
    conditions: Conditions,
    model: type[Model],
    tables: Mapping[str, str],
    *,
    nulls: Nulls = "null",
) -> Q:
    """Return a `Q` on `model` that selects the rows which the policy allows. `tables` has, for each
    table of the policy, its lookup path over relations to one row; "" is the model itself. `nulls`
    is what the policy sees for NULL: the value null, or a missing key.

    Raise FilterError for a missing column or relation, a column or value that cannot be compared,
    or a lookup path over a relation to many rows. What the database cannot decide fails when the
    query is compiled.
    """
    places = {name: _Place(_model_at(model, path), path) for name, path in tables.items()}
    schema = _Models(places)
    return _Writer(schema).predicate(to_predicate(conditions, schema, nulls))


def document_of(
    row: Model, relations: Iterable[str] | None = None, *, nulls: Nulls = "null"
) -> dict[Anything, Anything]:
    """Return a row as the policy sees it, with the names and values that a filter compares.
    `relations` are names with dots for nested ones; None for all relations of the row. Related rows
    are queried. Columns that no filter can compare are left out, and so are NULL columns and
    missing related rows unless `nulls` is "null", which makes them None.

    Raise InputError for a value without a form in Rego, LookupError for an unknown relation.
    """
    document: dict[Anything, Anything] = {}
    for name, column in columns_of(type(row)).items():
        if column.kind is None:
            continue
        value = to_document(column, getattr(row, name), name)
        if value is not None or nulls == "null":
            document[name] = value
    fields = relations_of(type(row))
    for name, below in relations_below(relations, fields).items():
        field = fields[name]
        rows = _related_rows(row, field)
        if not (field.many_to_one or field.one_to_one):
            document[name] = [document_of(each, below, nulls=nulls) for each in rows]
            continue
        one = rows.first()
        if one is not None:
            document[name] = document_of(one, below, nulls=nulls)
        elif nulls == "null":
            document[name] = None
    return document


def _related_rows(row: Model, field: Anything) -> QuerySet:
    """Return the rows to which a relation of `row` leads, in the database of `row`; none without a
    key: that of a row that is not saved would find the rows of no other.
    """
    joined = _join_fields(field)
    assert joined is not None
    lookup, attribute = joined
    related = field.related_model._default_manager
    key = getattr(row, attribute)
    if key is None:
        return related.none()
    return related.using(router.db_for_read(field.related_model, instance=row)).filter(
        **{lookup: key}
    )


def relations_of(model: type[Model]) -> dict[str, Anything]:
    """Return the relations of a model, of its fields and of reverse sides, by their names in
    policies.
    """
    relations: dict[str, Anything] = {}
    for field in model._meta.get_fields(include_hidden=False):
        is_back = isinstance(field, ForeignObjectRel)
        name = field.get_accessor_name() if is_back else field.name
        if name and _relation(model, name) is field:
            relations[name] = field
    return relations


@record
class _Place:
    """A model, and the lookup path to it from the model of the query at `depth`; depth 0 is the
    outermost query.
    """

    model: type[Model]
    path: str = ""
    depth: int = 0

    def column(self, name: str, depth: int) -> F:
        """Return the expression of a field in the query at `depth`: `F`, or nested `OuterRef` in
        inner queries.
        """
        path = f"{self.path}__{name}" if self.path else name
        column: F = F(path) if depth == self.depth else OuterRef(path)
        for _ in range(depth - self.depth - 1):
            column = OuterRef(column)
        return column


class _Models:
    """The schema of `to_predicate` for Django's models."""

    def __init__(self, tables: Mapping[str, _Place]) -> None:
        self._tables = tables

    def table(self, name: str) -> _Place | None:
        return self._tables.get(name)

    def column(self, table: _Place, name: str) -> Column | None:
        return columns_of(table.model).get(name)

    def related(self, table: _Place, relation: str) -> tuple[_Place, bool] | None:
        """Return the place that a relation leads to, and True if it leads to many rows; None if
        there is no such relation.
        """
        field = _relation(table.model, relation)
        if field is None:
            return None
        return _Place(field.related_model), not (field.many_to_one or field.one_to_one)


def _relation(model: type[Model], name: str) -> Anything:
    """Return the relation with a name, of a field or of the reverse side; None if there is none, or
    if it is one by content types.
    """
    for field in model._meta.get_fields(include_hidden=False):
        names = {field.name}
        if isinstance(field, ForeignObjectRel):
            names.add(field.get_accessor_name())
        if name in names and field.is_relation and field.related_model is not None:
            return field if _join_fields(field) is not None else None
    return None


def _join_fields(field: Anything) -> tuple[str, str] | None:
    """Return a lookup on the model that a relation leads to, and the field of this model whose
    value it must equal. None unless the relation is a foreign key or many-to-many, from either
    side.
    """
    if isinstance(field, ForeignObjectRel):
        if field.many_to_many:
            other = field.field
            return f"{other.name}__{other.related_model._meta.pk.attname}", "pk"
        if not isinstance(field.field, ForeignKey):
            return None
        return field.field.attname, field.field.target_field.attname
    if isinstance(field, ManyToManyField):
        pk = field.model._meta.pk.attname
        return f"{field.related_query_name()}__{pk}", "pk"
    if isinstance(field, ForeignKey):
        return field.target_field.attname, field.attname
    return None


def _is_to_one(field: Anything) -> bool:
    """Return True for a relation to at most one row of one model; False for one by content types,
    which leads to rows of any model, and for other fields.
    """
    return bool(field.many_to_one or field.one_to_one) and field.related_model is not None


def _model_at(model: type[Model], path: str) -> type[Model]:
    """Return the model at the end of a lookup path of relations to one row.

    Raise FilterError for a missing relation or one to many rows.
    """
    for name in filter(None, path.split("__")):
        try:
            relation = model._meta.get_field(name)
        except FieldDoesNotExist:
            fields = [each for each in model._meta.get_fields() if _is_to_one(each)]
            names = ", ".join(sorted(each.name for each in fields)) or "none"
            message = f"{model.__name__} has no relation {name}: to one row it has {names}"
            raise fault(message) from None
        if not _is_to_one(relation):
            raise fault(
                f"{model.__name__}.{name} is not a relation to one row, as a ForeignKey or a "
                "OneToOneField is"
            )
        model = relation.related_model
    return model


def columns_of(model: type[Model]) -> dict[str, Column]:
    """Return the columns of a model by their names in policies, the primary key also as `pk`; those
    that no policy can compare have no kind, but a reason.
    """
    columns: dict[str, Column] = {}
    for field in [*model._meta.concrete_fields, model._meta.pk]:
        # The column of a relation to one row is that of the key on the other side.
        columns[field.attname] = _describe(_target(field))
        if field is model._meta.pk:
            columns["pk"] = columns[field.attname]
    for field in model._meta.private_fields:
        generic = f"{type(field).__name__} leads to rows of any model"
        columns[field.name] = refused(f"({generic})", GENERIC)
    return columns


def _target(field: Anything) -> Anything:
    """Return the field whose values a column holds: for a foreign key the one it refers to, through
    at most `MAX_KEYS` keys.
    """
    seen = 0
    while isinstance(field, ForeignKey) and seen < MAX_KEYS:
        field, seen = field.target_field, seen + 1
    return field


def _describe(field: Anything) -> Column:
    """Return the description of a field's column: its kind, or the reason why policies cannot
    compare it. Subclasses of Django's fields count as these, unless they have `from_db_value`. A
    DateTimeField has a kind only with `USE_TZ`, a foreign key never: see `_target`.
    """
    # JSONField and ArrayField first, since they may have `from_db_value`, which refuses all others.
    name = type(field).__name__
    if isinstance(field, models.JSONField):
        is_plain = type(field) is models.JSONField and not (field.encoder or field.decoder)
        return Column("json") if is_plain else refused("has a codec of its own", OWN_TYPE)
    if name == "ArrayField" and type(field).__module__.startswith("django."):
        item = _describe(field.base_field)
        if item.kind not in ("boolean", "number", "text", "uuid", "date"):
            return refused("is an array whose items cannot be compared", OWN_TYPE)
        return Column("array", item=item)
    if hasattr(field, "from_db_value"):
        # What it stores is not what the program sees.
        return refused(f"has the type {name}, which changes its values", OWN_TYPE)
    if isinstance(field, models.BooleanField):
        return Column("boolean")
    if isinstance(field, _NUMBERS):
        return Column("number")
    if isinstance(field, _TEXTS):
        return Column("text")
    if isinstance(field, models.UUIDField):
        return Column("uuid")
    if isinstance(field, models.DateTimeField):  # which is a DateField, too
        if settings.USE_TZ:
            return Column("moment")
        return refused("holds times without a time zone, which are not moments", ZONES)
    if isinstance(field, models.DateField):
        return Column("date")
    if isinstance(field, models.BinaryField):
        return refused("holds bytes, which have no value in Rego", BYTES)
    return refused(f"has the type {name}, which no policy compares", OWN_TYPE)


class _Writer:
    """Writes predicates as Django's `Q`; subqueries are written by the same object."""

    def __init__(self, schema: _Models) -> None:
        self._schema = schema
        self._rows: dict[str, _Place] = {}
        self._depth = 0
        self._elements: dict[str, tuple[Anything, str, bool]] = {}
        """The expression (or document) of each element, its alias, and True if it is in a document,
        by the name of its row."""
        self._count = 0

    def predicate(self, predicate: Predicate) -> Q:
        """Return a predicate as a `Q` for the query that is being written, which may be a subquery.
        Raise FilterError for a value that no database compares exactly; what one database cannot
        decide fails when the query is compiled.
        """
        match predicate:
            case Null(field, negated):
                return Q(IsNull(self._view(field, "text"), not negated))
            case Compare(field, operator, value, kind):
                self._check(field, value)
                return self._compare(self._view(field, kind), operator, value, kind)
            case CompareFields(left, operator, right, kind):
                return self._compare_operands(
                    self._view(left, kind), operator, self._view(right, kind), kind
                )
            case In(field, values, kind, negated):
                operator = "ne" if negated else "eq"
                condition = Q()
                for value in values:
                    self._check(field, value)
                    test = self._compare(self._view(field, kind), operator, value, kind)
                    condition = condition & test if negated or not condition else condition | test
                return condition
            case Match(field, operator, text, negated):
                column, pattern = self._view(field, "text"), _text(text)
                return Q(Matches(column, pattern, operator, negated=negated))
            case Stored(field, kind, negated):
                return Q(StoredAs(self._column(field), kind, negated))
            case Related():
                return self._related(predicate)
            case JsonType(field, types, negated):
                document, element = self._document(field)
                return Q(HasJsonType(document, element, field.path, types, negated=negated))
            case Elements():
                return self._exists(predicate)
            case All(parts):
                # Not an empty `Q`, which Django leaves out of an `|`: `x` or all would be `x`.
                condition = Q(Exact(Value(1), Value(1)))
                for part in parts:
                    condition &= self.predicate(part)
                return condition
            case Any(parts):
                # An empty `Q` would select all rows, where none is meant.
                condition = Q(Exact(Value(0), Value(1)))
                for part in parts:
                    condition |= self.predicate(part)
                return condition

    def _view(self, field: Field, kind: Kind) -> Anything:
        """Return the expression of an operand, with the field's function applied: a column, an
        element, or a value in a document that is read as `kind`. A number has the value that
        programs read.
        """
        if field.path or (field.table in self._elements and self._elements[field.table][2]):
            view: Anything = JsonValue(*self._document(field), field.path, kind)
        else:
            view = self._column(field)
            if kind == "number" and field.table not in self._elements:
                stored = self._field_of(field)
                if isinstance(stored, models.DecimalField):
                    view = ReadDecimal(view, stored.decimal_places)
            if kind == "number" and self._is_double(field):
                view = ReadNumber(view)
        return TextFunction(view, field.function, field.operand) if field.function else view

    def _document(self, field: Field) -> tuple[Anything, str]:
        """Return the JSON document of a field as an expression, and the alias of the element in
        which the field's path begins; "" if it begins in the document itself.
        """
        if field.table in self._elements:
            document, element, _ = self._elements[field.table]
            return document, element
        return self._column(Field(field.table, field.column)), ""

    def _exists(self, elements: Elements) -> Q:
        """Return the test that an array or document has an element for which a condition holds or,
        if negated, has none.
        """
        self._count += 1
        name = f"element_{self._count}"
        document, element = self._document(elements.field)
        in_document = elements.kind == "json"
        if in_document:
            self._elements[elements.row] = document, name, True
        else:
            array: Anything = self._field_of(elements.field)
            self._elements[elements.row] = ArrayElement(name, array.base_field), name, False
        holds = self.predicate(elements.holds)
        path = elements.field.path
        exists = HasElement(document, holds, element, path, name, in_document, elements.negated)
        return Q(exists)

    def _field_of(self, field: Field) -> Anything:
        """Return Django's field object for a column; for a foreign key, that of the key it refers
        to.
        """
        meta = self._table(field.table).model._meta
        return _target(meta.get_field(meta.pk.name if field.column == "pk" else field.column))

    def _related(self, related: Related) -> Q:
        """Return the condition (EXISTS) that a relation leads to a row for which a predicate holds
        or, if negated, to none.
        """
        table = self._table(related.table)
        field = _relation(table.model, related.relation)
        lookup, attribute = _join_fields(field) or ("", "")
        # As the inner query names it, for which this row is one outside.
        outer = table.column(attribute, self._depth + 1)
        # INVARIANT: `document_of` reads related rows by the same manager, which may leave some out.
        rows: QuerySet = field.related_model._default_manager.filter(**{lookup: outer})
        self._depth += 1
        self._rows[related.row] = _Place(field.related_model, depth=self._depth)
        rows = rows.filter(self.predicate(related.holds))
        self._depth -= 1
        selection = RelatedRow(rows)
        return Q(~selection if related.negated else selection)

    def _table(self, name: str) -> _Place:
        """Return the model, or the related row, for a table's name."""
        table = self._rows.get(name) or self._schema.table(name)
        assert table is not None
        return table

    def _column(self, field: Field) -> F:
        """Return the expression of a field's column in the query that is being written, or of the
        element that its `table` names; its path and function are ignored.
        """
        if field.table in self._elements:
            return self._elements[field.table][0]
        return self._table(field.table).column(field.column, self._depth)

    def _check(self, field: Field, value: StoredValue) -> None:
        """Raise FilterError if `field` is a column of doubles and databases disagree whether it
        equals the number `value` (`check_double`).
        """
        if not isinstance(value, (int, Number)) or isinstance(value, bool):
            return
        if not field.path and field.table not in self._elements and self._is_double(field):
            check_double(value)

    def _is_double(self, field: Field) -> bool:
        """Return True if a column (for a foreign key the one that it refers to), or an element of
        an array, is a double or of single precision. Not for elements in documents.
        """
        if field.table in self._elements:
            return isinstance(self._elements[field.table][0].output_field, models.FloatField)
        return isinstance(self._field_of(field), models.FloatField)

    def _compare(self, column: Anything, operator: str, value: StoredValue, kind: Kind) -> Q:
        """Return the comparison of an operand (`_view`) with a known value of `kind`, exact in
        every database; it does not hold for NULL.

        Raise FilterError for a text that databases refuse, and for a number that MySQL cannot
        compare exactly with a double.
        """
        if kind in _FIELDS:
            return self._operation(column, operator, Value(value, output_field=_FIELDS[kind]()))
        if kind == "text":
            bound = _text(str(value))
            # Beside the exact test the plain one, which can use an index and holds wherever the
            # other does.
            exact = self._compare_operands(column, operator, bound, kind)
            if operator != "eq" or isinstance(column, TextFunction):
                return exact
            return Q(Exact(column, bound)) & exact
        operand = ExactValue(_to_parameter(value))
        if kind == "number" and not is_double(value):  # type: ignore[arg-type]  # a number
            check_decimal(value)  # type: ignore[arg-type]  # for any database
            return self._compare_exactly(column, operator, operand)
        if kind == "number" and operator == "eq" and has_fraction(value):  # type: ignore[arg-type]
            return Q(GreaterThanOrEqual(column, operand)) & Q(LessThanOrEqual(column, operand))
        return self._operation(column, operator, operand)

    def _compare_operands(self, left: Anything, operator: str, right: Anything, kind: Kind) -> Q:
        """Return the comparison of two operands of the same kind, exact in every database: texts by
        code points, numbers as programs read them. It does not hold if one is NULL.
        """
        if kind == "text":
            if operator not in ("eq", "ne"):
                return Q(InOrder(left, right, _SIGNS[operator]))
            left, right = ExactText(left), ExactText(right)
        if kind == "number":
            return self._compare_exactly(left, operator, right)
        return self._operation(left, operator, right)

    def _compare_exactly(self, left: Anything, operator: str, right: Anything) -> Q:
        """Return the comparison of numbers that may be doubles: equal ones are compared as
        decimals.
        """
        exact = self._operation(ExactDecimal(left), operator, ExactDecimal(right))
        if operator == "eq":
            return self._operation(left, "eq", right) & exact
        if operator == "ne":
            return self._operation(left, "ne", right) | exact
        strictly = self._operation(left, operator[:2], right)
        return strictly | (self._operation(left, "eq", right) & exact)

    def _operation(self, left: Anything, operator: str, right: Anything) -> Q:
        """Return the comparison of two operands; `ne` as two tests, neither of which holds for
        NULL.
        """
        if operator == "ne":  # two tests that hold for no NULL, without a `NOT`
            return Q(LessThan(left, right)) | Q(GreaterThan(left, right))
        return Q(_LOOKUPS[operator](left, right))


_SIGNS: Final = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_FIELDS: Final = {
    "uuid": models.UUIDField,
    "date": models.DateField,
    "moment": models.DateTimeField,
}


def _to_parameter(value: Anything) -> bool | int | Decimal:
    """Return a known value as a boolean, an integer of 64 bits or a Decimal."""
    if isinstance(value, bool):
        return value
    decimal = Decimal(number_text(value))
    if decimal == decimal.to_integral_value() and abs(decimal) < 1 << 63:
        return int(decimal)
    return decimal


def _text(text: str) -> Value:
    return Value(checked_text(text), output_field=models.TextField())
