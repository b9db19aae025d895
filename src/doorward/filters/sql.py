"""Predicates as SQL with bound parameters, for PostgreSQL, MySQL, SQLite and SQL Server.

Texts are compared by their code points whatever the collation of a column is. `=` with the
collation is beside the exact test, so that indexes are used: equal texts are equal in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any as Anything
from typing import Final, Literal, TypeAlias
from uuid import UUID

from doorward.base.records import record
from doorward.filters.columns import (
    Column,
    Columns,
    Kind,
    Nulls,
    Relation,
    Relations,
    column_of,
    refused,
)
from doorward.filters.columns import Stored as StoredValue
from doorward.filters.conditions import Conditions, Field, checked_text, fault
from doorward.filters.dialects import DIALECTS, SQLDialect
from doorward.filters.exact_numbers import has_fraction, is_double
from doorward.filters.hints import DECLARED
from doorward.filters.logic import to_predicate
from doorward.filters.mappings import Names
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
from doorward.filters.sql_text import quoted_name
from doorward.filters.views import (
    elements_of,
    function_of,
    json_of,
    json_place,
    json_type_of,
)
from doorward.rego import Number
from doorward.rego.shared import number_text

__all__ = ["Clause", "Dialect", "to_sql"]

Dialect: TypeAlias = Literal["mysql", "postgresql", "sqlite", "sqlserver"]
Parameter: TypeAlias = bool | int | float | Decimal | str | UUID | date | datetime

_INT64: Final = 1 << 63
_OPERATORS: Final = {"eq": "=", "ne": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


@record
class Clause:
    """A condition for `WHERE`, with its parameters in the order of their placeholders."""

    text: str
    parameters: tuple[Parameter, ...]


def to_sql(
    conditions: Conditions,
    columns: Columns,
    dialect: Dialect,
    *,
    relations: Relations | None = None,
    names: Names | None = None,
    placeholder: str | None = None,
    nulls: Nulls = "null",
) -> Clause:
    """Return the condition for the rows that the policy allows, with bound parameters.

    `columns` declares every compared column, `relations` every relation, and `names` has the names
    of tables and columns in the database where they differ. `placeholder` is `?` or `%s`, by
    default that of the dialect's drivers. `nulls` is what the policy sees for NULL: the value null,
    or a missing key. Raise FilterError for an undeclared column, or what the dialect cannot decide
    exactly, ValueError for a malformed mapping in `names`.
    """
    known = DIALECTS[dialect]
    schema = _Declared(columns, relations or {}, known)
    writer = _Writer(known, names or Names({}), placeholder or known.mark, schema)
    # The others see to it that columns hold what they are declared to hold.
    predicate = to_predicate(conditions, schema, nulls, stored=known.lax_kinds)
    text = writer.predicate(predicate)
    return Clause(text, tuple(writer.parameters))


class _Declared:
    """The schema of tables that are declared by name; a table is represented by its name."""

    def __init__(self, columns: Columns, relations: Relations, dialect: SQLDialect) -> None:
        self._columns = columns
        self._dialect = dialect
        self._relations = relations

    @property
    def tables(self) -> Iterable[str]:
        return self._columns

    def table(self, name: str) -> str | None:
        return name if name in self._columns else None

    def column(self, table: str, name: str) -> Column | None:
        """Return the declared column; None if it is not declared.

        One of a kind that the dialect's clients store in different ways is returned as a refused
        column, with the reason.
        """
        column = column_of(self._columns.get(table, {}).get(name))
        if column is not None and column.kind not in (None, *self._dialect.kinds):
            message = (
                f"is declared as {column.kind}, which {self._dialect.name} keeps in several ways"
            )
            return refused(message, DECLARED)
        return column

    def related(self, table: str, relation: str) -> tuple[str, bool] | None:
        declared = self.relation(table, relation)
        return None if declared is None else (declared.table, declared.many)

    def relation(self, table: str, relation: str) -> Relation | None:
        return self._relations.get(table, {}).get(relation)


class _Writer:
    """Writes predicates as SQL; `parameters` collects the values of its placeholders in order."""

    def __init__(self, dialect: SQLDialect, names: Names, mark: str, schema: _Declared) -> None:
        self._dialect = dialect
        self._names = names
        self._mark = mark
        self._percent = mark.startswith("%")
        self._schema = schema
        self._rows: dict[str, tuple[str, str]] = {}
        """The table of each related row and its alias in the SQL text, by the name of the row."""
        self._aliases = 0
        tables = {name for table in schema.tables for name in (table, *names.table(table))}
        self._taken = {name.casefold() for name in tables}
        """The names of tables, which no alias may hide: databases differ in which case they see."""
        self._columns: dict[tuple[str, str], str] = {}
        self._elements_of: dict[str, str] = {}
        """The SQL of each element of an array, by the name of its row."""
        self._documents: dict[str, tuple[str, str]] = {}
        """The document and the alias of each element in a JSON document, by the name of its row."""
        self.parameters: list[Parameter] = []

    def predicate(self, predicate: Predicate) -> str:
        """Return a predicate as SQL, which callers put in brackets beside another, and append its
        values to `parameters` in the order of their placeholders. Raise FilterError for what the
        dialect cannot decide exactly.
        """
        match predicate:
            case Compare(field, operator, value, kind):
                if field.function and operator == "eq":  # which no index has
                    return self._equal(self._view(field, kind), value)
                return self._compare(self._view(field, kind), operator, value, kind)
            case All(parts):
                return self._join("AND", parts) or "1 = 1"
            case Any(parts):
                return self._join("OR", parts) or "0 = 1"
            case IsNull(field, negated):
                return f"{self._view(field, 'text')} IS {'NOT ' if negated else ''}NULL"
            case CompareFields(left, operator, right, kind):
                return self._compare_columns(self._field(left), operator, self._field(right), kind)
            case In(field, values, kind, negated):
                return self._in(self._view(field, kind), values, kind, negated=negated)
            case Match(field, operator, text, negated):
                holds = self._match(self._view(field, "text"), operator, text)
                return f"NOT ({holds})" if negated else holds
            case Stored(field, kind, negated):
                return self._dialect.stored_test(kind, negated=negated).format(self._field(field))
            case Related():
                return self._related_rows(predicate)
            case JsonType(field, types, negated):
                column, path = self._json(field)
                return json_type_of(self._dialect, column, path, types, negated=negated)
            case Elements():
                return self._elements(predicate)

    def _view(self, field: Field, kind: Kind) -> str:
        """Return the SQL of an operand, with the field's function applied: a column, an element, or
        a value in a document that is read as `kind`. FilterError if the dialect cannot read it.
        """
        if field.path or field.table in self._documents:
            view = json_of(self._dialect, *self._json(field), kind)
        else:
            view = self._field(field)
        if not field.function:
            return view
        return function_of(self._dialect, field.function, field.operand, self._exact(view))

    def _json(self, field: Field) -> tuple[str, str]:
        """Return the SQL of a field's document, and the path in it in the dialect's notation.
        FilterError if the dialect cannot read documents or a name in the path is not allowed.
        """
        if field.table in self._documents:
            column, element = self._documents[field.table]
        else:
            column, element = self._field(Field(field.table, field.column)), ""
        return json_place(self._dialect, column, element, field.path)

    def _elements(self, elements: Elements) -> str:
        """Return the SQL test that an array or document has an element for which something holds
        or, if negated, has none. Its values are appended to `parameters`.
        """
        alias = self._alias("element")
        if elements.kind == "array":
            source = f"unnest({self._field(elements.field)}) AS {alias}(value)"
            self._elements_of[elements.row] = f"{alias}.value"
        else:
            column, path = self._json(elements.field)
            source = elements_of(self._dialect, column, path, alias)
            self._documents[elements.row] = column, alias
        holds = self.predicate(elements.holds)
        exists = f"EXISTS (SELECT 1 FROM {source} WHERE {holds})"
        return f"NOT {exists}" if elements.negated else exists

    def _join(self, operator: str, parts: Sequence[Predicate]) -> str:
        return f" {operator} ".join([f"({self.predicate(part)})" for part in parts])

    def _alias(self, stem: str) -> str:
        """Return a new alias that is not the name of a table."""
        while True:
            self._aliases += 1
            alias = f"{stem}_{self._aliases}"
            if alias not in self._taken:
                return alias

    def _related_rows(self, related: Related) -> str:
        """Return the SQL test that a relation leads to a row for which something holds or, if
        negated, to none. Its values are appended to `parameters`.
        """
        table, _ = self._rows.get(related.table, (related.table, ""))
        relation = self._schema.relation(table, related.relation)
        assert relation is not None
        alias = self._alias("related")
        self._rows[related.row] = relation.table, alias
        tests = [
            f"{self._field(Field(related.row, here))} = {self._field(Field(related.table, there))}"
            for here, there in relation.on.items()
        ]
        tests.append(f"({self.predicate(related.holds)})")
        del self._rows[related.row]
        name = self._quote_names(self._names.table(relation.table))
        rows = f"FROM {name} {alias} WHERE {' AND '.join(tests)}"
        columns, end = self._dialect.selects
        return f"{'NOT ' if related.negated else ''}EXISTS (SELECT {columns} {rows}{end})"

    def _field(self, field: Field) -> str:
        """Return the SQL of a field's column, quoted: with the alias if its `table` is a related
        row; the element itself if that names one. Its path and function are ignored. FilterError
        for a name that no database can have, or that is ambiguous beside relations.
        """
        if field.table in self._elements_of:
            return self._elements_of[field.table]
        if field.table in self._rows:
            table, alias = self._rows[field.table]
            return self._quote_names((alias, self._names.of(Field(table, field.column))[-1]))
        key = field.table, field.column
        # Not from the cache inside related rows, where `_column` refuses more names.
        if key not in self._columns or self._rows:
            self._columns[key] = self._column(field)
        return self._columns[key]

    def _column(self, field: Field) -> str:
        """Return the quoted SQL name of a column.

        Raise FilterError for one without a table beside relations, since it could be a column of
        the related table.
        """
        names = self._names.of(field)
        if self._rows and len(names) < 2:  # alone it could be a column of the related table
            raise fault(
                f"the column {field.name} must be written with its table where relations are used"
            )
        return self._quote_names(names)

    def _quote_names(self, names: Sequence[str]) -> str:
        """Return names quoted and joined by dots, with `%` doubled for a driver whose placeholder
        is `%s`; raise FilterError for one that no database can have.
        """
        try:
            name = ".".join([quoted_name(part, self._dialect.name) for part in names])
        except ValueError as error:
            raise fault(str(error)) from None
        # A driver whose placeholder is `%s` reads a `%` anywhere in the text.
        return name.replace("%", "%%") if self._percent else name

    def _bind(self, value: StoredValue) -> str:
        """Append a value to `parameters` and return its placeholder."""
        self.parameters.append(self._parameter(value))
        return self._mark

    def _parameter(self, value: StoredValue) -> Parameter:
        """Return a known value as a parameter for the driver. FilterError for a text or number that
        cannot be passed exactly.
        """
        if isinstance(value, date) and self._dialect.dates_are_texts:
            return value.isoformat()
        if isinstance(value, (bool, UUID, date)):
            return value
        if isinstance(value, str):
            return checked_text(value)
        return self._number(value)

    def _number(self, value: int | Number) -> Parameter:
        """Return a number in a form that the driver passes exactly: int, Decimal or float.

        Raise FilterError if there is none.
        """
        if type(value) is int and -_INT64 < value < _INT64:
            return value
        decimal = Decimal(number_text(value))
        if decimal == decimal.to_integral_value() and abs(decimal) < _INT64:
            return int(decimal)
        return self._dialect.to_parameter(decimal)

    def _known_text(self, value: StoredValue) -> str:
        """Append a text to `parameters`; return its SQL, which compares by code points. FilterError
        for a text that databases refuse.
        """
        assert isinstance(value, str)
        self.parameters.append(self._dialect.to_text(checked_text(value)))
        return self._dialect.exact_value(self._mark)

    def _exact(self, text: str) -> str:
        return self._dialect.exact.format(text)

    def _compare(self, name: str, operator: str, value: StoredValue, kind: str) -> str:
        """Return the SQL comparison of an operand, whose SQL is `name`, with a known value of
        `kind`, exact for that kind. The value is appended to `parameters`, once or more often.

        Raise FilterError if the dialect cannot compare the value exactly.
        """
        sign = _OPERATORS[operator]
        if kind == "number" and not is_double(value):  # type: ignore[arg-type]  # a number
            self._dialect.check_number(value)  # type: ignore[arg-type]
            if self._dialect.decimal:
                decimal = self._dialect.decimal.format(name)
                return self._compare_exactly(operator, name, decimal, lambda: self._bind(value))
        if operator == "eq" and self._is_rounded(value, kind):
            return f"{name} >= {self._bind(value)} AND {name} <= {self._bind(value)}"
        if kind == "date" and self._dialect.dates_are_texts:
            return f"CAST({name} AS text) COLLATE BINARY {sign} {self._bind(value)}"
        if kind != "text":
            return f"{name} {sign} {self._bind(value)}"
        if operator == "eq":
            return f"{name} = {self._bind(value)} AND {self._equal(name, value)}"
        if operator == "ne":
            return f"NOT ({self._equal(name, value)})"
        self._check_order()
        return self._dialect.in_order(self._exact(name), sign, self._known_text(value))

    def _is_rounded(self, value: Anything, kind: str) -> bool:
        """Return True if the dialect may round a known value that `=` compares with a column."""
        return self._dialect.rounds_fractions and kind == "number" and has_fraction(value)

    def _compare_exactly(
        self,
        operator: str,
        left: str,
        decimal: str,
        right: Callable[[], str],
        right_decimal: Callable[[], str] | None = None,
    ) -> str:
        """Return the SQL comparison of numbers that may be doubles: `left` and `right` are compared
        as doubles, and equal ones also as decimals, `decimal` and `right_decimal` (by default
        `right`).
        """
        # Each call of `right` appends a parameter: once for each place, in the order of the text.
        exact = right_decimal or right
        sign = _OPERATORS[operator]
        if operator == "eq":
            return f"{left} = {right()} AND {decimal} = {exact()}"
        if operator == "ne":
            return f"{left} <> {right()} OR {decimal} <> {exact()}"
        return f"{left} {sign[0]} {right()} OR ({left} = {right()} AND {decimal} {sign} {exact()})"

    def _equal(self, name: str, value: StoredValue) -> str:
        """Return the SQL test that a text equals a value exactly, trailing spaces included; the
        value becomes one or two parameters.
        """
        same = f"{self._exact(name)} = {self._known_text(value)}"
        if self._dialect.ignores_last_spaces:
            # With the letter both are NVARCHAR: the same text has half the bytes as VARCHAR.
            same += f" AND DATALENGTH({name} + N'.') = DATALENGTH({self._bind(value)} + N'.')"
        return same

    def _check_order(self) -> None:
        """Raise FilterError on a database that cannot order texts exactly: SQL Server, which
        ignores spaces at their end.
        """
        if self._dialect.ignores_last_spaces:
            raise fault(
                "SQL Server ignores spaces at the end of texts, so it cannot order them: compare "
                "them with =="
            )

    def _compare_columns(self, left: str, operator: str, right: str, kind: str) -> str:
        """Return the SQL comparison of two columns, given as SQL, of the same kind, exact for that
        kind. FilterError for an order of texts that the dialect does not have.
        """
        sign = _OPERATORS[operator]
        if kind == "number" and self._dialect.decimal:
            one, other = [self._dialect.decimal.format(each) for each in (left, right)]
            return self._compare_exactly(operator, left, one, lambda: right, lambda: other)
        if kind != "text":
            return f"{left} {sign} {right}"
        if operator not in ("eq", "ne"):
            self._check_order()
            return self._dialect.in_order(self._exact(left), sign, self._exact(right))
        holds = f"{self._exact(left)} {sign} {self._exact(right)}"
        if self._dialect.ignores_last_spaces:
            lengths = f"DATALENGTH({left} + N'.') {sign} DATALENGTH({right} + N'.')"
            holds += f" AND {lengths}" if operator == "eq" else f" OR {lengths}"
        return holds

    def _in(self, name: str, values: Sequence[Anything], kind: str, *, negated: bool) -> str:
        """Return the SQL test that an operand, whose SQL is `name`, is one of known values or, with
        `negated`, none of them; not empty, of `kind`. The values are appended to `parameters`.
        FilterError for one that the dialect cannot compare exactly.
        """
        if kind == "text":
            operator = "ne" if negated else "eq"
            tests = [f"({self._compare(name, operator, value, kind)})" for value in values]
            return (" AND " if negated else " OR ").join(tests)
        plain, others = [], []
        for value in values:
            is_plain = kind != "number" or is_double(value)
            if is_plain and (negated or not self._is_rounded(value, kind)):
                plain.append(value)
            else:
                others.append(value)
        tests = []
        if plain:
            marks = ", ".join([self._bind(value) for value in plain])
            tests.append(f"{name} {'NOT ' if negated else ''}IN ({marks})")
        operator = "ne" if negated else "eq"
        tests += [f"({self._compare(name, operator, value, kind)})" for value in others]
        return (" AND " if negated else " OR ").join(tests)

    def _match(self, name: str, operator: str, text: str) -> str:
        """Return the SQL of a text search by LIKE, or by functions if LIKE is not exact; the
        searched text becomes a parameter. FilterError for a text that databases refuse.
        """
        if self._dialect.has_exact_like:
            return self._like(name, operator, text)
        template = self._dialect.searches[operator]
        known = self._dialect.to_text(checked_text(text))
        self.parameters += [known] * template.count("{1}")
        if self._dialect.searches_bytes:
            return template.format(name, self._mark)
        return template.format(self._exact(name), self._dialect.exact_value(self._mark))

    def _like(self, name: str, operator: str, text: str) -> str:
        """Return the SQL of a text search by LIKE; its pattern, with special characters escaped,
        becomes a parameter.
        """
        # Not by a backslash, which may be an escape in the literal that names it.
        special = "!" + self._dialect.wildcards
        escaped = "".join([f"!{c}" if c in special else c for c in text])
        before, after = {"startswith": ("", "%"), "endswith": ("%", "")}.get(operator, ("%", "%"))
        pattern = self._bind(f"{before}{escaped}{after}")
        return f"{self._exact(name)} LIKE {pattern} ESCAPE '!'"
