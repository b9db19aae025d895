"""Elements of SQLAlchemy's expressions whose SQL depends on the database.

What differs is asked of the dialect (`dialects`) when a statement is compiled. Each element is a
class with a name of its own, since SQLAlchemy caches compiled statements by classes and clauses: a
value that is not a clause, such as the kind of a column, has a class for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any as Anything
from typing import Final

from sqlalchemy import (
    CHAR,
    JSON,
    NCHAR,
    REAL,
    Boolean,
    ColumnElement,
    DateTime,
    Double,
    Float,
    Integer,
    Numeric,
    Select,
    String,
    literal,
    literal_column,
)
from sqlalchemy.exc import CompileError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.visitors import iterate, replacement_traverse
from sqlalchemy.types import TypeDecorator, TypeEngine

from doorward.filters.columns import KINDS, Kind
from doorward.filters.conditions import fault
from doorward.filters.dialects import SQLDialect, dialect_of
from doorward.filters.hints import JSON as JSON_HINT
from doorward.filters.views import (
    check_arrays,
    check_zones,
    elements_of,
    function_of,
    json_of,
    json_place,
    json_type_of,
)

__all__ = [
    "ArrayElement",
    "EnumLabel",
    "ExactDecimal",
    "ExactNumber",
    "RelatedRow",
    "TextFunction",
    "ZonedTime",
    "correlated",
    "exact_text_of",
    "exact_value_of",
    "has_element",
    "has_json_type",
    "has_subquery",
    "in_order",
    "is_float",
    "is_stored_as",
    "json_value_of",
    "location_of",
    "matches",
    "number_of",
]

_SINGLE: Final = 24
"""The bits of precision of a number of single precision."""


def _dialect_of(compiler: Anything) -> SQLDialect:
    return dialect_of(str(compiler.dialect.name))


def _dialect_with_texts(compiler: Anything) -> SQLDialect:
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


def correlated(clause: Anything, tables: Sequence[Anything]) -> Anything:
    """Return an expression in which each subquery is about the rows of `tables` around it, however
    deep it stands.

    A subquery of a `column_property` or a relationship finds its rows in the statement next around
    it only. In a condition on a related row that is another one: it would be about all rows.
    """

    def correlate_select(element: Anything, **_options: Anything) -> Anything:
        """Return a SELECT that is correlated with those of `tables` from which it selects. None,
        which leaves an element as it is, for anything else, for a SELECT with a correlation of its
        own, and for one that would have no table left.
        """
        if not isinstance(element, Select) or not element._auto_correlate:
            return None
        selected = element.get_final_froms()
        outer = [table for table in selected if table in tables]
        # As SQLAlchemy does: a subquery that would have no table left is about all rows.
        return element.correlate(*outer) if len(outer) < len(selected) else None

    expression = clause.__clause_element__() if hasattr(clause, "__clause_element__") else clause
    return (
        replacement_traverse(expression, {}, correlate_select)
        if has_subquery(expression)
        else clause
    )


def has_subquery(clause: ColumnElement[Anything] | None) -> bool:
    """Return True if an expression contains a SELECT."""
    return clause is not None and any(isinstance(each, Select) for each in iterate(clause))


def exact_text_of(column: ColumnElement[Anything]) -> ColumnElement[str]:
    """Return a text that compares by its code points, whatever its collation.

    Compiling it raises CompileError for a database that cannot compare texts exactly.
    """
    is_padded = isinstance(column.type, (CHAR, NCHAR))
    return _PaddedText(column) if is_padded else _ExactText(column)


class _ExactText(FunctionElement[str]):
    """An expression for a text that compares by its code points, whatever its collation."""

    inherit_cache = True
    name = "exact_text"
    type = String()


@compiles(_ExactText)
def _compile_exact(element: _ExactText, compiler: Anything, **options: Anything) -> str:
    (inner,) = [compiler.process(clause, **options) for clause in element.clauses]
    return _capitalize_types(_dialect_with_texts(compiler).exact).format(inner)


class _PaddedText(_ExactText):
    """An expression for a CHAR with the spaces that the database adds, since programs read them."""

    inherit_cache = True
    name = "padded_text"


@compiles(_PaddedText)
def _compile_padded(element: _PaddedText, compiler: Anything, **options: Anything) -> str:
    dialect = _dialect_with_texts(compiler)
    (inner,) = [compiler.process(clause, **options) for clause in element.clauses]
    return _capitalize_types(dialect.padded or dialect.exact).format(inner)


class _KnownText(TypeDecorator[str]):
    """The type of a text that is passed as the dialect compares it exactly."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: Anything, dialect: Anything) -> Anything:
        return None if value is None else dialect_of(dialect.name).to_text(value)


def exact_value_of(text: str) -> ColumnElement[str]:
    """Return a known text that compares by its code points, whatever the collation of the
    connection.

    Compiling it raises CompileError for a database that cannot compare texts exactly.
    """
    return _ExactValue(literal(text, _KnownText()))


class _ExactValue(FunctionElement[str]):
    """An expression for a known text that compares by its code points."""

    inherit_cache = True
    name = "exact_value"
    type = String()


@compiles(_ExactValue)
def _compile_exact_value(element: _ExactValue, compiler: Anything, **options: Anything) -> str:
    (inner,) = [compiler.process(clause, **options) for clause in element.clauses]
    return _capitalize_types(_dialect_with_texts(compiler).exact_value(inner))


class EnumLabel(FunctionElement[str]):
    """An expression for the stored form of a member of an enumeration."""

    inherit_cache = True
    name = "label"
    type = String()


@compiles(EnumLabel)
def _compile_label(element: EnumLabel, compiler: Anything, **options: Anything) -> str:
    (column,) = element.clauses
    return compiler.process(column, **options)  # type: ignore[no-any-return]


class TextFunction(FunctionElement[str]):
    """An expression for the value of a function of an exact text, by the name of the function and
    its operand.
    """

    inherit_cache = True
    name = "text_function"
    type = String()

    def __init__(self, text: ColumnElement[str], function: str, operand: str) -> None:
        super().__init__(text, *_names(function, operand))


@compiles(TextFunction)
def _compile_function(element: TextFunction, compiler: Anything, **options: Anything) -> str:
    text, (function, operand) = _parts(element.clauses, compiler, **options)
    return function_of(_dialect_with_texts(compiler), function, operand, text)


def matches(
    text: ColumnElement[str], operator: str, pattern: ColumnElement[str], *, negated: bool = False
) -> ColumnElement[bool]:
    """Return the condition that an exact text begins with another, ends with it or contains it, or,
    if `negated`, does not. `operator` is the name of the built-in.
    """
    match = _MATCHES[operator](text, pattern)
    return _NoMatch(match) if negated else match


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


class _StartsWith(_Match):
    """A condition: a text begins with another."""

    inherit_cache = True
    name = "text_starts_with"
    operator = "startswith"


class _EndsWith(_Match):
    """A condition: a text ends with another."""

    inherit_cache = True
    name = "text_ends_with"
    operator = "endswith"


class _Contains(_Match):
    """A condition: a text contains another."""

    inherit_cache = True
    name = "text_contains"
    operator = "contains"


_MATCHES: Final[dict[str, type[_Match]]] = {
    each.operator: each for each in (_StartsWith, _EndsWith, _Contains)
}


@compiles(_Match)
def _compile_match(element: _Match, compiler: Anything, **options: Anything) -> str:
    dialect = _dialect_with_texts(compiler)
    subject, pattern = [compiler.process(clause, **options) for clause in element.clauses]
    return f"({dialect.searches[element.operator].format(subject, pattern)})"


class _NoMatch(_Match):
    """A condition: a text search does not hold."""

    inherit_cache = True
    name = "text_matches_not"


@compiles(_NoMatch)
def _compile_no_match(element: _NoMatch, compiler: Anything, **options: Anything) -> str:
    (match,) = element.clauses
    return f"(NOT {compiler.process(match, **options)})"


def in_order(
    left: ColumnElement[str], operator: str, right: ColumnElement[str]
) -> ColumnElement[bool]:
    """Return the condition that two exact texts are in the order of an operator: lt, lte, gt or
    gte.
    """
    return _ORDERS[operator](left, right)


class _Order(_Match):
    """A condition: two exact texts are in an order."""

    inherit_cache = True
    sign = ""


class _Less(_Order):
    """A condition: a text comes before another."""

    inherit_cache = True
    name = "text_less"
    sign = "<"


class _LessOrEqual(_Order):
    """A condition: a text is another or comes before it."""

    inherit_cache = True
    name = "text_less_or_equal"
    sign = "<="


class _Greater(_Order):
    """A condition: a text comes after another."""

    inherit_cache = True
    name = "text_greater"
    sign = ">"


class _GreaterOrEqual(_Order):
    """A condition: a text is another or comes after it."""

    inherit_cache = True
    name = "text_greater_or_equal"
    sign = ">="


_ORDERS: Final = {"lt": _Less, "lte": _LessOrEqual, "gt": _Greater, "gte": _GreaterOrEqual}


@compiles(_Order)
def _compile_order(element: _Order, compiler: Anything, **options: Anything) -> str:
    left, right = [compiler.process(clause, **options) for clause in element.clauses]
    return f"({_dialect_with_texts(compiler).in_order(left, element.sign, right)})"


class ExactNumber(TypeDecorator[Decimal]):
    """The type of a number that the driver passes without rounding."""

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


def is_float(type_: TypeEngine[Anything]) -> bool:
    return isinstance(type_, Float)


def number_of(column: ColumnElement[Anything]) -> ColumnElement[Anything]:
    """Return a number's column with the value that programs read.

    0.1 in single precision is not 0.1 in SQL, and SQLite's numbers are read with the digits of
    their type.
    """
    if isinstance(column.type, Numeric) and not is_float(column.type):
        return _Rounded(column)
    is_short = is_float(column.type) and not isinstance(column.type, Double)
    if not is_short or (column.type.precision or 0) > _SINGLE:  # type: ignore[attr-defined]  # a Float
        return column
    return _Single(column)


class _Rounded(FunctionElement[Decimal]):
    """An expression for a decimal as programs read it: rounded to the digits of its type if it is
    stored as a double.
    """

    inherit_cache = True
    name = "rounded"
    type = Numeric()


@compiles(_Rounded)
def _compile_rounded(element: _Rounded, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of a decimal, rounded to the scale of its type if the database stores decimals
    as doubles.
    """
    (column,) = element.clauses
    inner: str = compiler.process(column, **options)
    return _dialect_of(compiler).decimal_of(_scale_of(column.type)).format(inner)


def _scale_of(type_: Anything) -> int:
    """Return the number of digits after the point with which SQLAlchemy reads a decimal."""
    return int(type_.scale if type_.scale is not None else type_._default_decimal_return_scale)


class _Single(FunctionElement[float]):
    """An expression for a column of single precision with the value that programs read."""

    inherit_cache = True
    name = "single"
    type = Double()


@compiles(_Single)
def _compile_single(element: _Single, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of the number; that of the column itself if the database stores its type in
    double precision, or if the driver reads the number and not its text (asyncpg).
    """
    (column,) = element.clauses
    stored: Anything = column.type
    inner: str = compiler.process(column, **options)
    dialect = _dialect_of(compiler)
    if getattr(compiler.dialect, "driver", "") == "asyncpg":
        return inner  # it reads the number itself, and not its text
    is_single = isinstance(stored, REAL) or stored.precision or dialect.float_is_single
    return dialect.single.format(inner) if is_single and dialect.single else inner


class ExactDecimal(FunctionElement[Decimal]):
    """An expression for a number with the value that programs read, as a decimal."""

    inherit_cache = True
    name = "exact_decimal"
    type = Numeric()


@compiles(ExactDecimal)
def _compile_decimal(element: ExactDecimal, compiler: Anything, **options: Anything) -> str:
    (inner,) = [compiler.process(clause, **options) for clause in element.clauses]
    return _capitalize_types(_dialect_with_texts(compiler).decimal or "{}").format(inner)


class ZonedTime(FunctionElement[Anything]):
    """An expression for a time with a zone; compiling it raises FilterError for a database that
    stores no zone.
    """

    inherit_cache = True
    name = "zoned"
    type = DateTime(timezone=True)


@compiles(ZonedTime)
def _compile_zoned(element: ZonedTime, compiler: Anything, **options: Anything) -> str:
    (column,) = element.clauses
    check_zones(_dialect_of(compiler))
    return compiler.process(column, **options)  # type: ignore[no-any-return]


def is_stored_as(
    column: ColumnElement[Anything], kind: Kind, *, negated: bool
) -> ColumnElement[bool]:
    """Return the condition that a column holds a value of its declared kind, or NULL; or, if
    `negated`, a value of another kind.
    """
    return _STORED_AS[kind, negated](column)


class _StoredAs(FunctionElement[bool]):
    """A condition: a column holds a value of its declared kind; or, `negated`, of another kind."""

    inherit_cache = True
    type = Boolean()
    kind: Kind = "text"
    negated = False


def _stored_as(kind: Kind, *, negated: bool) -> type[_StoredAs]:
    """Return the class of the test that a column holds a value of the kind or, if `negated`, does
    not.
    """
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


@compiles(_StoredAs)
def _compile_stored(element: _StoredAs, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of the condition; FilterError for an array if the database has none."""
    (column,) = element.clauses
    inner: str = compiler.process(column, **options)
    dialect = _dialect_of(compiler)
    if element.kind == "array":
        check_arrays(dialect)
    is_integer = isinstance(column.type, Integer)
    more = ""
    if isinstance(column.type, Numeric) and not is_float(column.type):
        more = dialect.decimal_test(_scale_of(column.type), is_short=False)
    test = dialect.stored_test(
        element.kind, negated=element.negated, is_integer=is_integer, more=more
    )
    return test.format(inner)


class RelatedRow(FunctionElement[bool]):
    """A condition (EXISTS): a relationship leads to a row that fulfils the conditions."""

    inherit_cache = True
    type = Boolean()
    name = "related_exists"


@compiles(RelatedRow)
def _compile_related(element: RelatedRow, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of an EXISTS that selects the columns which the dialect names."""
    (exists,) = element.clauses
    text: str = compiler.process(exists, **options)
    begin = "EXISTS (SELECT "
    assert text.startswith(f"{begin}1 "), text
    columns, end = _dialect_of(compiler).selects
    return f"{begin}{columns}{text[len(begin) + 1 : -1]}{end})"


def location_of(
    document: ColumnElement[Anything], element: str, path: Iterable[str]
) -> list[ColumnElement[Anything]]:
    """Return the location of a value in a document for `json_value_of`, `has_json_type` and
    `has_element`. `element` is the name of the element of an array that the path is in, or "".
    """
    return [document, *_names(element, *path)]


def _names(*names: str) -> list[ColumnElement[str]]:
    """Return names as clauses, so that they are part of the key in SQLAlchemy's cache."""
    # INVARIANT: never compiled, though they may have quotes: `_parts` takes the names back, and
    # `plain_literal` checks what of them becomes SQL.
    return [literal_column(f"'{each}'") for each in names]


def _parts(clauses: Anything, compiler: Anything, **options: Anything) -> tuple[str, Anything]:
    """Return the SQL of a document, and as texts the names that `_names` turned into clauses.

    Raise FilterError for a column of a type whose documents the database does not read.
    """
    column, *names = list(clauses)
    texts = [each.name[1:-1] for each in names]
    readable = _dialect_of(compiler).document_type
    if readable and isinstance(column.type, JSON):
        stored = column.type._unwrapped_dialect_impl(compiler.dialect).__visit_name__.lower()
        if stored != readable:
            message = f"a column of type {stored} may hold documents that {readable} refuses"
            raise fault(message, JSON_HINT)
    return compiler.process(column, **options), texts


def json_value_of(
    location: Sequence[ColumnElement[Anything]], kind: Kind
) -> ColumnElement[Anything]:
    """Return a value in a document as a text, number or boolean."""
    return _JSON_VALUES[kind](*location)


class _JsonText(FunctionElement[str]):
    """An expression for a value in a JSON document, as a text."""

    inherit_cache = True
    name = "json_text"
    type: TypeEngine[Anything] = String()
    kind = "text"


class _JsonNumber(_JsonText):
    """An expression for a value in a JSON document, as a number."""

    inherit_cache = True
    name = "json_number"
    type = Integer()
    kind = "number"


class _JsonBoolean(_JsonText):
    """An expression for a value in a JSON document, as a boolean."""

    inherit_cache = True
    name = "json_boolean"
    type = Boolean()
    kind = "boolean"


_JSON_VALUES: Final[dict[str, type[_JsonText]]] = {
    each.kind: each for each in (_JsonText, _JsonNumber, _JsonBoolean)
}


@compiles(_JsonText)
@compiles(_JsonNumber)
@compiles(_JsonBoolean)
def _compile_json(element: _JsonText, compiler: Anything, **options: Anything) -> str:
    dialect = _dialect_of(compiler)
    column, (inside, *path) = _parts(element.clauses, compiler, **options)
    return json_of(dialect, *json_place(dialect, column, inside, path), element.kind)


def has_json_type(
    location: Sequence[ColumnElement[Anything]], types: Iterable[str], *, negated: bool
) -> ColumnElement[bool]:
    """Return the condition that a value in a document is of one of some types, or, if `negated`, is
    not.
    """
    return (_NotJsonType if negated else _JsonType)(types, location)


class _JsonType(FunctionElement[bool]):
    """A condition: a JSON document has a value of one of some types."""

    inherit_cache = True
    name = "json_type"
    type = Boolean()
    negated = False

    def __init__(self, types: Iterable[str], location: Sequence[ColumnElement[Anything]]) -> None:
        joined: ColumnElement[str] = literal_column(",".join(types))
        super().__init__(joined, *location)


class _NotJsonType(_JsonType):
    """A condition: a JSON document has no value of one of some types."""

    inherit_cache = True
    name = "json_type_not"
    negated = True


@compiles(_JsonType)
@compiles(_NotJsonType)
def _compile_json_type(element: _JsonType, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of the test for the type of a value in a document. FilterError if the database
    does not read documents as programs do, or for a name with a quote or the like.
    """
    dialect = _dialect_of(compiler)
    types: Anything
    types, *location = list(element.clauses)
    column, (inside, *path) = _parts(location, compiler, **options)
    document, steps = json_place(dialect, column, inside, path)
    return json_type_of(dialect, document, steps, types.name.split(","), negated=element.negated)


class ArrayElement(FunctionElement[Anything]):
    """An expression for an element of an array, by the name of its row."""

    inherit_cache = True
    name = "array_element"

    def __init__(self, name: str, type_: TypeEngine[Anything]) -> None:
        super().__init__(literal_column(name))
        self.type = type_


@compiles(ArrayElement)
def _compile_element(element: ArrayElement, compiler: Anything, **options: Anything) -> str:
    name: Anything
    (name,) = element.clauses
    return f"{name.name}.value"


def has_element(
    location: Sequence[ColumnElement[Anything]],
    name: str,
    holds: ColumnElement[bool],
    *,
    in_document: bool,
) -> ColumnElement[bool]:
    """Return the condition that an array, or with `in_document` a value in a document, has an
    element called `name` for which `holds` is true.
    """
    return (_ElementsOfJson if in_document else _ElementsOfArray)(*_names(name), holds, *location)


class _ElementsOfArray(FunctionElement[bool]):
    """A condition: an array has an element that fulfils another condition."""

    inherit_cache = True
    name = "array_elements"
    type = Boolean()


class _ElementsOfJson(_ElementsOfArray):
    """A condition: a value in a JSON document has an element that fulfils another condition."""

    inherit_cache = True
    name = "json_elements"


@compiles(_ElementsOfArray)
@compiles(_ElementsOfJson)
def _compile_elements(element: _ElementsOfArray, compiler: Anything, **options: Anything) -> str:
    """Return the SQL of the condition; FilterError if the database has no arrays or documents."""
    alias: Anything
    alias, holds, *location = list(element.clauses)
    dialect = _dialect_of(compiler)
    column, (inside, *path) = _parts(location, compiler, **options)
    row = alias.name[1:-1]
    if isinstance(element, _ElementsOfJson):
        source = elements_of(dialect, *json_place(dialect, column, inside, path), row)
    else:
        check_arrays(dialect)
        source = f"unnest({column}) AS {row}(value)"
    return f"EXISTS (SELECT 1 FROM {source} WHERE {compiler.process(holds, **options)})"
