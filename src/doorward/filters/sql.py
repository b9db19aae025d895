"""Predicates as SQL with bound parameters, for PostgreSQL, MySQL, SQLite and SQL Server.

Texts are compared by their code points whatever the collation of a column is. `=` with the
collation is beside the exact test, so that indexes are used: equal texts are equal in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any as Anything
from typing import Final, Literal, TypeAlias

from doorward.filters.conditions import Conditions, Field, fault, tables
from doorward.filters.logic import (
    All,
    Any,
    Columns,
    Compare,
    CompareFields,
    In,
    IsNull,
    Match,
    Nulls,
    Predicate,
    to_predicate,
)
from doorward.filters.mappings import Names
from doorward.filters.sql_text import quoted_name
from doorward.records import record
from doorward.rego import Number, number_text

__all__ = ["Clause", "Dialect", "to_sql"]

Dialect: TypeAlias = Literal["mysql", "postgresql", "sqlite", "sqlserver"]
Parameter: TypeAlias = bool | int | float | Decimal | str

_OPERATORS: Final = {"eq": "=", "ne": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_EXACT: Final = {
    "mysql": "CAST(CONVERT({} USING utf8mb4) AS BINARY)",
    "postgresql": 'CAST({} AS text) COLLATE "C"',
    "sqlite": "{} COLLATE BINARY",
    "sqlserver": "{} COLLATE Latin1_General_100_BIN2_UTF8",
}
"""A text as its code points."""
_STORED: Final = {"boolean": "'integer'", "number": "'integer', 'real'", "text": "'text'"}
"""What SQLite calls the values of a kind: it lets any value into any column."""


@record(frozen=True)
class Clause:
    """A condition for `WHERE`, and its parameters in order."""

    text: str
    parameters: tuple[Parameter, ...]


def to_sql(
    conditions: Conditions,
    columns: Columns,
    dialect: Dialect,
    *,
    names: Names | None = None,
    placeholder: str | None = None,
    nulls: Nulls = "null",
) -> Clause:
    """The rows that the policy lets through. `columns` declares every column that is compared.

    `placeholder`: `?` or `%s`; by default what the drivers of the dialect take. FilterError for a
    column that is not declared, and for what the dialect cannot decide exactly.
    """
    mark = placeholder or ("?" if dialect in ("sqlite", "sqlserver") else "%s")
    writer = _Writer(dialect, names or Names({}), mark)
    text = writer.predicate(to_predicate(conditions, columns, nulls))
    if dialect == "sqlite":
        text = writer.guarded(text, _kinds(conditions, columns))
    return Clause(text, tuple(writer.parameters))


def _kinds(conditions: Conditions, columns: Columns) -> Iterator[tuple[Field, str]]:
    for table in tables(conditions):
        fields = [each.field for body in conditions for each in body]
        fields += [e.value for body in conditions for e in body if isinstance(e.value, Field)]
        for field in dict.fromkeys(each for each in fields if each.table == table):
            yield field, columns[field.table][field.column]


class _Writer:
    def __init__(self, dialect: Dialect, names: Names, mark: str) -> None:
        self._dialect = dialect
        self._names = names
        self._mark = mark
        self._percent = mark.startswith("%")
        self.parameters: list[Parameter] = []

    def guarded(self, text: str, kinds: Iterator[tuple[Field, str]]) -> str:
        """Only rows whose columns hold what they are declared to hold."""
        tests = [
            f"typeof({self._field(field)}) IN ({_STORED[kind]}, 'null')" for field, kind in kinds
        ]
        return " AND ".join([*tests, f"({text})"])

    def predicate(self, predicate: Predicate) -> str:
        match predicate:
            case IsNull(field, negated):
                return f"{self._field(field)} IS {'NOT ' if negated else ''}NULL"
            case Compare(field, operator, value, kind):
                return self._compare(self._field(field), operator, value, kind)
            case CompareFields(left, operator, right, kind):
                return self._fields(self._field(left), operator, self._field(right), kind)
            case In(field, values, kind, negated):
                return self._in(self._field(field), values, kind, negated=negated)
            case Match(field, operator, text, negated):
                holds = self._match(self._field(field), operator, text)
                return f"NOT ({holds})" if negated else holds
            case All(parts):
                return self._joined("AND", parts) or "1 = 1"
            case Any(parts):
                return self._joined("OR", parts) or "0 = 1"

    def _joined(self, operator: str, parts: Sequence[Predicate]) -> str:
        return f" {operator} ".join([f"({self.predicate(part)})" for part in parts])

    def _field(self, field: Field) -> str:
        try:
            name = ".".join([quoted_name(part, self._dialect) for part in self._names.of(field)])
        except ValueError as error:
            raise fault(str(error)) from None
        return name.replace("%", "%%") if self._percent else name

    def _bound(self, value: bool | int | Number | str) -> str:
        self.parameters.append(self._parameter(value))
        return self._mark

    def _parameter(self, value: bool | int | Number | str) -> Parameter:
        if isinstance(value, bool):
            return value
        if isinstance(value, str):
            if "\0" in value:
                raise fault("a text with a NUL cannot be compared in a database")
            return value
        return self._number(value)

    def _number(self, value: int | Number) -> Parameter:
        """A number that the driver hands over exactly."""
        decimal = Decimal(number_text(value))
        if decimal == decimal.to_integral_value() and abs(decimal) < 1 << 63:
            return int(decimal)
        if self._dialect != "sqlite":
            return decimal
        double = float(decimal)
        if Decimal(repr(double)) != decimal:
            raise fault(f"SQLite has no exact number {number_text(value)}")
        return double

    def _exact(self, text: str) -> str:
        return _EXACT[self._dialect].format(text)

    def _compare(
        self, name: str, operator: str, value: bool | int | Number | str, kind: str
    ) -> str:
        sign = _OPERATORS[operator]
        if kind != "text":
            return f"{name} {sign} {self._bound(value)}"
        if operator == "eq":
            return f"{name} = {self._bound(value)} AND {self._equal(name, value)}"
        if operator == "ne":
            return f"NOT ({self._equal(name, value)})"
        self._check_order()
        return f"{self._exact(name)} {sign} {self._exact(self._bound(value))}"

    def _equal(self, name: str, value: bool | int | Number | str) -> str:
        same = f"{self._exact(name)} = {self._exact(self._bound(value))}"
        if self._dialect == "sqlserver":  # which ignores spaces at the end
            same += f" AND DATALENGTH({name} + N'.') = DATALENGTH({self._bound(value)} + N'.')"
        return same

    def _check_order(self) -> None:
        if self._dialect == "sqlserver":
            raise fault("SQL Server ignores spaces at the end of texts: it cannot order them")

    def _fields(self, left: str, operator: str, right: str, kind: str) -> str:
        sign = _OPERATORS[operator]
        if kind != "text":
            return f"{left} {sign} {right}"
        if operator not in ("eq", "ne"):
            self._check_order()
        holds = f"{self._exact(left)} {sign} {self._exact(right)}"
        if self._dialect == "sqlserver":
            lengths = f"DATALENGTH({left} + N'.') {sign} DATALENGTH({right} + N'.')"
            holds += f" AND {lengths}" if operator == "eq" else f" OR {lengths}"
        return holds

    def _in(self, name: str, values: Sequence[Anything], kind: str, *, negated: bool) -> str:
        if kind == "text":
            operator = "ne" if negated else "eq"
            tests = [f"({self._compare(name, operator, value, kind)})" for value in values]
            return (" AND " if negated else " OR ").join(tests)
        marks = ", ".join([self._bound(value) for value in values])
        return f"{name} {'NOT ' if negated else ''}IN ({marks})"

    def _match(self, name: str, operator: str, text: str) -> str:
        return _MATCHES[self._dialect](self, name, operator, text)

    def like(self, name: str, operator: str, text: str) -> str:
        escaped = "".join([f"\\{c}" if c in "\\%_[" else c for c in text])
        if self._dialect == "postgresql":
            escaped = escaped.replace("\\[", "[")
        before, after = {"startswith": ("", "%"), "endswith": ("%", "")}.get(operator, ("%", "%"))
        pattern = self._bound(f"{before}{escaped}{after}")
        return f"{self._exact(name)} LIKE {pattern} ESCAPE '\\'"

    def positions(self, name: str, operator: str, text: str) -> str:
        """By functions that know no collation."""
        length, find = (
            ("LENGTH", "LOCATE({1}, {0})")
            if self._dialect == "mysql"
            else (
                "length",
                "instr({0}, {1})",
            )
        )
        subject = self._exact(name) if self._dialect == "mysql" else name

        def bound() -> str:
            mark = self._bound(text)
            return self._exact(mark) if self._dialect == "mysql" else mark

        if operator == "endswith":
            tail = f"substr({subject}, -{length}({bound()}))"
            return f"{tail} = {bound()}"
        position = find.format(subject, bound())
        return f"{position} = 1" if operator == "startswith" else f"{position} > 0"


_MATCHES: Final[dict[str, Callable[[_Writer, str, str, str], str]]] = {
    "mysql": _Writer.positions,
    "postgresql": _Writer.like,
    "sqlite": _Writer.positions,
    "sqlserver": _Writer.like,
}
