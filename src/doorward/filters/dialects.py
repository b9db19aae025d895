"""The dialects of SQL: one record holds all in which the text of one differs from the others.

A new dialect is a new record; the writers of SQL text and those of expressions for SQLAlchemy and
Django ask for properties, not for names. Databases that are not here (SQLAlchemy and Django know
more) have a record with a name alone: no exact texts, no documents and no arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from decimal import Decimal
from typing import Final

from doorward.base.records import record, replace
from doorward.filters.columns import Kind
from doorward.filters.conditions import fault
from doorward.filters.json_views import (
    ESCAPED_KEY,
    SHORTEST_DOUBLES,
    JsonViews,
    PostgresJson,
    SqliteJson,
)
from doorward.rego import Number
from doorward.rego.shared import number_text

__all__ = ["DIALECTS", "SQLDialect", "check_decimal", "describe_inexact", "dialect_of"]

_LONGEST_SHOWN: Final = 40
# The limits of DECIMAL(65,30), as which a double is compared (`_MYSQL.decimal`): 35 digits before
# the point and, for numbers from 1e-10 on, enough behind it.
_LEAST: Final = Decimal("1e-10")
_MOST: Final = Decimal("1e35")


def check_decimal(value: int | Number) -> None:
    """Raise FilterError for a number that MySQL cannot compare exactly with a double: below 1e-10
    or from 1e35 on, its sign aside, or with more than 26 digits after the point.
    """
    decimal = Decimal(number_text(value))
    exponent = decimal.as_tuple().exponent
    assert isinstance(exponent, int)
    if not _LEAST <= abs(decimal) < _MOST or exponent < -26:
        raise fault(describe_inexact("MySQL", number_text(value)))


def _refuse_number(value: int | Number) -> None:
    """Raise FilterError: SQL Server compares only doubles exactly, and `value` is not one."""
    raise fault(describe_inexact("SQL Server", number_text(value)))


def describe_inexact(database: str, number: str) -> str:
    """Return why a database cannot compare a number with a column; a long number is cut."""
    shown = number if len(number) <= _LONGEST_SHOWN else f"{number[:_LONGEST_SHOWN]}…"
    return f"{database} cannot compare {shown} exactly with a column: use a number of fewer digits"


def _accept(_value: int | Number) -> None:
    """Do nothing: the database compares any number exactly."""


@record
class SQLDialect:
    """The properties of one SQL dialect. In templates `{0}` or `{}` stands for an
    operand.
    """

    name: str
    mark: str = "%s"
    """The placeholder for a parameter that the usual drivers of this database take."""
    quotes: tuple[str, str] = ('"', '"')
    """The characters before and after a quoted name."""
    literal: str = "'{}'"
    """A template of a text literal; quotes in the text are doubled."""
    has_backslashes: bool = False
    """True if a backslash begins an escape sequence in a text literal."""
    booleans: tuple[str, str] = ("FALSE", "TRUE")
    digits: int = 38
    """The most digits that a literal of an exact number may have."""
    has_int64: bool = False
    """True if a literal may be any integer of 64 bits, even with more than `digits` digits."""
    has_decimals: bool = True
    """True if columns store decimal numbers, and drivers pass them, without rounding."""
    has_patterns: bool = True
    """True if OPA supports `startswith`, `endswith` and `contains` for this dialect."""
    wildcards: str = "%_"
    """The characters that have a special meaning in a pattern of LIKE."""
    names_escape: bool = False
    """True if a backslash escapes in a pattern of LIKE only where `ESCAPE` names it."""
    kinds: tuple[Kind, ...] = ()
    """Kinds of columns that every client program stores in the same way."""
    lax_kinds: tuple[Kind, ...] = ()
    """Kinds of columns in which the database may also store values of other kinds."""
    exact: str = ""
    """A template that makes a text compare by its code points, whatever the collation; "" if the
    database is not known to do that.
    """
    padded: str = ""
    """A template like `exact` for a CHAR that keeps the spaces which the database adds; "" if
    `exact` keeps them.
    """
    decimal: str = ""
    """A template for a number of any type with the value that programs read; "" if the database
    compares exactly without one.
    """
    single: str = ""
    """A template for a number of single precision with the digits that programs read; "" if the
    database compares those digits without one.
    """
    float_is_single: bool = False
    """True if a FLOAT without a precision has single precision."""
    check_number: Callable[[int | Number], None] = _accept
    """Raises FilterError for a number that is not a double and that the database cannot compare
    exactly.
    """
    rounds_fractions: bool = False
    """True if `=` with a number that has a fraction may be rounded (`has_fraction`)."""
    ignores_last_spaces: bool = False
    """True if texts that differ only in spaces at the end are equal; their order cannot be asked
    then.
    """
    dates_are_texts: bool = False
    searches: Mapping[str, str] = field(default_factory=dict)
    """Templates that search in the text `{0}` for the text `{1}` by functions, by the name of the
    built-in.
    """
    has_exact_like: bool = True
    """True if LIKE compares an `exact` text by its code points; SQL text has `searches` if not."""
    searches_bytes: bool = False
    """True if `searches` ignore collations, even of a text that is not `exact`."""
    text_of_digits: str = ""
    """A template for a known text, compared by its code points, from its hexadecimal digits in
    UTF-8; "" if the text itself can be passed.
    """
    ordered: str = "{}"
    """A template for the left operand of an order of two `exact` texts."""
    ordered_right: str = ""
    """A template for the right operand; "" if it is `ordered`."""
    selects: tuple[str, str] = ("1", "")
    """The columns that a subquery of EXISTS selects, and the text at its end."""
    stored_types: Mapping[Kind, str] = field(default_factory=dict)
    """The database's name for the type of a value of each kind, if a column may hold a value of any
    type.
    """
    finite: str = ""
    """A template that is true for numbers with a value in Rego: neither infinite nor NaN."""
    booleans_are_numbers: bool = False
    readable: Mapping[Kind, str] = field(default_factory=dict)
    """Templates, by kind, that are true for values that programs can read."""
    json: JsonViews | None = None
    """The SQL for JSON documents; None if the database does not read them as programs do."""
    document_type: str = ""
    """The only type of columns whose documents it reads; "" for any type."""
    has_arrays: bool = False
    has_zones: bool = False
    """True if a column can store times with their zone."""
    trims: Mapping[str, str] = field(default_factory=dict)
    """Templates of the functions that trim texts as Rego does, by the name of the built-in."""

    @property
    def compares_texts(self) -> bool:
        """True if texts can be compared exactly on this database: there are the templates `exact`
        and `searches`, and comparisons do not ignore spaces at the end. Where it is False,
        SQLAlchemy and Django filters refuse to compare texts.
        """
        return bool(self.exact and self.searches) and not self.ignores_last_spaces

    def exact_value(self, mark: str) -> str:
        """Return the SQL of a known text that compares by its code points; `mark` stands for what
        `to_text` returns.
        """
        return (self.text_of_digits or self.exact).format(mark)

    def to_text(self, text: str) -> str:
        """Return the parameter for a known text in `exact_value`."""
        return text.encode().hex() if self.text_of_digits else text

    def in_order(self, left: str, sign: str, right: str) -> str:
        """Return the SQL test for the order of two `exact` texts."""
        other = (self.ordered_right or self.ordered).format(right)
        return f"{self.ordered.format(left)} {sign} {other}"

    def to_parameter(self, number: Decimal) -> Decimal | float:
        """Return a number in the form that drivers pass exactly: a double if they round decimals.
        Raise FilterError if the shortest text of the double is another number.
        """
        if self.has_decimals:
            return number
        double = float(number)
        if Decimal(repr(double)) != number:
            raise fault(describe_inexact(self.name, str(number)))
        return double

    def decimal_of(self, scale: int) -> str:
        """Return a template for a decimal with the digits that its type keeps after the point, as
        programs read it; SQLite stores a double, which may have more.
        """
        return "{0}" if self.has_decimals else f"round({{0}}, {scale})"

    def decimal_test(self, scale: int, *, is_short: bool) -> str:
        """Return a template that is true for a decimal that programs round as `decimal_of` does:
        not in the middle of two numbers of that scale. NULL counts as one; "" if nothing is
        rounded. `is_short`: programs read at most 15 digits (Django).
        """
        if self.has_decimals:
            return ""
        rounded = self.decimal_of(scale)
        same = f"CAST({{0}} AS REAL) = {rounded}"
        distance = f"abs(abs({{0}} - {rounded}) - 0.5e-{scale})"
        apart = f"{distance} > {'1e-15' if is_short else '2.3e-16'} * abs({{0}})"
        if is_short:
            # Doubled, since Django reads the text of a query as a template.
            same += " AND CAST(printf('%%.15g', {0}) AS REAL) = CAST({0} AS REAL)"
            apart += f" AND abs({{0}}) < 1e{15 - scale}"
        return f"coalesce({same} OR {apart}, 1)"

    def stored_test(
        self, kind: Kind, *, negated: bool, is_integer: bool = False, more: str = ""
    ) -> str:
        """Return the SQL test that a column holds a value of its declared kind, or with `negated`
        does not. NULL counts as a value of each kind.

        `{0}` stands for the column; `is_integer`: its type is one of integers; `more`: another test
        that the value has to pass, or "". The test is constant if the database enforces types.
        """
        tests = [more] if more else []
        if kind in self.stored_types:
            tests.append(f"typeof({{0}}) IN ({self.stored_types[kind]}, 'null')")
        if kind == "number" and self.finite and (self.stored_types or not is_integer):
            tests.append(self.finite)
        if kind == "boolean" and self.booleans_are_numbers:
            tests.append("coalesce({0}, 0) IN (0, 1)")
        if kind in self.readable:
            tests.append(self.readable[kind])
        if not tests:
            return "1 = 0" if negated else "1 = 1"
        holds = " AND ".join(tests)
        return f"NOT ({holds})" if negated else f"({holds})"


_MYSQL_DATE: Final = "coalesce(YEAR({0}) > 0 AND MONTH({0}) > 0 AND DAYOFMONTH({0}) > 0, TRUE)"
_MYSQL_EXACT: Final = "CAST(CONVERT({} USING utf8mb4) AS BINARY)"

_MYSQL: Final = SQLDialect(
    "mysql",
    quotes=("`", "`"),
    has_backslashes=True,
    # What DECIMAL holds.
    digits=65,
    kinds=("boolean", "number", "text", "date"),
    # BOOLEAN is TINYINT, and a DATE may be 0000-00-00.
    lax_kinds=("boolean", "date"),
    exact=_MYSQL_EXACT,
    decimal="CAST(CAST({} AS CHAR) AS DECIMAL(65,30))",
    single="CAST(CAST({} AS CHAR) AS DOUBLE)",
    float_is_single=True,
    check_number=check_decimal,
    rounds_fractions=True,
    # They avoid `=`: after `LOCATE('a', s) = 1` MariaDB (10.11) takes `LOCATE('Ä', s)` for 1 as
    # well, since the connection's collation compares the two literals as equal.
    searches={
        "startswith": "ABS(LOCATE({1}, {0}) - 1) < 1",
        "endswith": "ABS(LOCATE(REVERSE({1}), REVERSE({0})) - 1) < 1",
        "contains": "LOCATE({1}, {0}) > 0",
    },
    has_exact_like=False,
    # A literal is converted to the connection's character set, in which it may become `?`. Digits
    # are the same in each, but UNHEX reads no UTF-16. And Django compares a search with TRUE, after
    # which MariaDB takes it for that of another text that its collation finds equal: no two texts
    # are equal in digits.
    text_of_digits="UNHEX(CONVERT({} USING latin1))",
    # MariaDB (10.11) caches the answers of a subquery with one column by the outer row's values as
    # their collation compares them, so that `a` got the answer of `A`; and it rewrites one without
    # aggregates to IN, which has one column again.
    selects=("1, 1", " HAVING COUNT(*) > 0"),
    booleans_are_numbers=True,
    readable={
        "date": _MYSQL_DATE,
        "moment": _MYSQL_DATE,
        "uuid": (
            "coalesce(CONVERT(REPLACE({0}, '-', '') USING utf8mb4) COLLATE utf8mb4_bin"
            " REGEXP '^[0-9a-f]{{32}}$', TRUE)"
        ),
    },
)
_MARIADB: Final = replace(_MYSQL, name="mariadb")
_POSTGRESQL: Final = SQLDialect(
    "postgresql",
    literal="E'{}'",
    has_backslashes=True,
    digits=1000,
    kinds=("boolean", "number", "text", "uuid", "date", "moment", "json", "array"),
    lax_kinds=("number", "date", "moment", "json", "array"),
    # A collation may make texts equal that differ, or order them in its own way; "C" compares
    # bytes.
    exact='CAST({} AS text) COLLATE "C"',
    # A cast drops the spaces.
    padded='CASE WHEN {0} IS NULL THEN NULL ELSE concat({0}) END COLLATE "C"',
    # The bytes that "C" compares are those of the database's encoding.
    ordered="convert_to({}, 'UTF8')",
    decimal="CAST(CAST({} AS text) AS numeric)",
    single="CAST(CAST({} AS TEXT) AS DOUBLE PRECISION)",
    searches={
        "startswith": "strpos({0}, {1}) = 1",
        "endswith": "right({0}, length({1})) = {1}",
        "contains": "strpos({0}, {1}) > 0",
    },
    finite=(
        "coalesce(CAST({0} AS text), '') NOT IN ('NaN', 'Infinity', '-Infinity')"
        f" AND ({SHORTEST_DOUBLES} OR CAST(pg_typeof({{0}}) AS text)"
        " NOT IN ('double precision', 'real'))"
    ),
    readable={
        # Years that programs cannot read, and infinity.
        "date": "coalesce({0} BETWEEN '0001-01-01' AND '9999-12-31', TRUE)",
        "moment": (
            "coalesce({0} BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00',"
            " TRUE)"
        ),
        "array": "coalesce(array_ndims({0}), 1) = 1",
        # A number with a point is compared as the text of its double.
        "json": (f"coalesce({SHORTEST_DOUBLES} OR CAST({{0}} AS text) !~ '[0-9][.][0-9]', TRUE)"),
    },
    json=PostgresJson(),
    document_type="jsonb",  # a `json` column keeps documents that `jsonb` refuses
    has_arrays=True,
    has_zones=True,
    trims={"trim": "btrim", "trim_left": "ltrim", "trim_right": "rtrim"},
)
_SQLITE: Final = SQLDialect(
    "sqlite",
    mark="?",
    # A longer literal is a double, which keeps 15 digits.
    digits=15,
    has_int64=True,
    has_decimals=False,
    has_patterns=False,
    names_escape=True,
    kinds=("boolean", "number", "text", "date", "json"),
    lax_kinds=("boolean", "number", "text", "date", "json"),
    exact="{} COLLATE BINARY",
    # The bytes are those of UTF-16 if the file has that encoding: the query fails with an overflow.
    # NULL would not do, since `NOT EXISTS` selects what no other row answers.
    ordered_right=(
        "CASE WHEN CAST('a' AS BLOB) = X'61' THEN {} ELSE abs(-9223372036854775807 - 1) END"
        " COLLATE BINARY"
    ),
    dates_are_texts=True,
    searches={
        "startswith": "instr({0}, {1}) = 1",
        "endswith": "substr({0}, -length({1})) = {1}",
        "contains": "instr({0}, {1}) > 0",
    },
    has_exact_like=False,
    searches_bytes=True,
    # It lets any value into any column.
    stored_types={
        "boolean": "'integer'",
        "number": "'integer', 'real'",
        "text": "'text'",
        "uuid": "'text'",
        "date": "'text'",
        "moment": "'text'",
        "json": "'text'",
    },
    finite="coalesce({0}, 0) > -9e999 AND coalesce({0}, 0) < 9e999",
    booleans_are_numbers=True,
    readable={
        "uuid": "coalesce(length({0}) = 32 AND CAST({0} AS text) NOT GLOB '*[^0-9a-f]*', 1)",
        # `date` of another text is NULL, which `=` would not tell from a column without a value; a
        # modifier makes it look at the day: 30 February becomes 2 March.
        "date": "{0} IS date({0}, '+0 days')",
        "moment": (
            "substr({0}, 1, 19) IS datetime(substr({0}, 1, 19), '+0 days')"
            " AND ' ' || coalesce(substr({0}, 20), '') NOT GLOB ' [^.]*'"
            " AND coalesce(substr({0}, 21), '') NOT GLOB '*[^0-9]*'"
        ),
        # SQLite ends a text at a NUL. Of two values under one name it takes the first, and programs
        # the second.
        "json": (
            "({0} IS NULL OR json_valid({0}))"
            r" AND coalesce(instr(replace({0}, '\\', ''), '\u0000'), 0) = 0"
            " AND NOT EXISTS (SELECT 1 FROM json_tree(CASE WHEN json_valid({0}) THEN {0} END)"
            " WHERE typeof(key) = 'text' GROUP BY parent, key"
            f" HAVING COUNT(*) > 1 OR MAX({ESCAPED_KEY}))"
        ),
    },
    json=SqliteJson(),
    trims={"trim": "trim", "trim_left": "ltrim", "trim_right": "rtrim"},
)
_SQLSERVER: Final = SQLDialect(
    "sqlserver",
    mark="?",
    quotes=("[", "]"),
    literal="N'{}'",
    booleans=("0", "1"),
    wildcards="%_[",
    names_escape=True,
    kinds=("boolean", "number", "text"),
    exact="{} COLLATE Latin1_General_100_BIN2_UTF8",
    check_number=_refuse_number,
    ignores_last_spaces=True,
)

DIALECTS: Final[Mapping[str, SQLDialect]] = {
    each.name: each for each in (_POSTGRESQL, _MYSQL, _SQLSERVER, _SQLITE)
}
"""The dialects of SQL text by name, in the order in which OPA lists filters in an answer."""
_DATABASES: Final = {**DIALECTS, _MARIADB.name: _MARIADB}
"""Databases by the names that SQLAlchemy and Django have for them."""


def dialect_of(name: str) -> SQLDialect:
    """Return the dialect of a database; one without any special property for an unknown name."""
    return _DATABASES.get(name) or SQLDialect(name)
