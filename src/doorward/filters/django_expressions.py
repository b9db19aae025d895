"""Expressions of Django whose SQL depends on the database.

What differs is asked of the dialect (`dialects`) when a query is compiled. Django compares
expressions by the arguments of their `__init__`, which therefore hold all that the SQL needs.
"""

from __future__ import annotations

from decimal import Decimal
from string import Formatter
from typing import Any as Anything

from django.db import NotSupportedError, models
from django.db.models import Exists, ExpressionWrapper, Func, Value

from doorward.filters.columns import Kind
from doorward.filters.dialects import SQLDialect, dialect_of
from doorward.filters.views import (
    check_arrays,
    elements_of,
    function_of,
    json_of,
    json_place,
    json_type_of,
)

__all__ = [
    "ArrayElement",
    "ExactDecimal",
    "ExactText",
    "ExactValue",
    "HasElement",
    "HasJsonType",
    "InOrder",
    "JsonValue",
    "Matches",
    "ReadDecimal",
    "ReadNumber",
    "RelatedRow",
    "StoredAs",
    "TextFunction",
]


def _dialect_with_texts(connection: Anything) -> SQLDialect:
    """Return the dialect; raise NotSupportedError for a database that cannot compare texts
    exactly.
    """
    dialect = dialect_of(connection.vendor)
    if not dialect.compares_texts:
        raise NotSupportedError(f"texts cannot be compared exactly on {dialect.name}")
    return dialect


class ExactValue(Value):  # type: ignore[misc]  # Django has no types
    """An expression for a number or boolean that the driver passes without rounding."""

    def __init__(self, value: Anything, output_field: Anything = None) -> None:
        if output_field is None and type(value) is int:
            # Django takes any integer for one of 32 bits; where the server binds parameters, the
            # driver passes its last 32.
            output_field = models.BigIntegerField()
        super().__init__(value, output_field=output_field)

    def as_sql(
        self, compiler: Anything, connection: Anything, **options: Anything
    ) -> tuple[str, list[Anything]]:
        """Return the SQL of a boolean or number, and its parameters.

        Raise FilterError for a number that the driver rounds (`SQLDialect.to_parameter`).
        """
        dialect = dialect_of(connection.vendor)
        if dialect.has_decimals:
            return super().as_sql(compiler, connection, **options)  # type: ignore[no-any-return]
        value = self.value
        return "%s", [dialect.to_parameter(value) if isinstance(value, Decimal) else value]

    as_sqlite = as_sql
    """Django's own casts the value to NUMERIC."""


class ExactText(Func):  # type: ignore[misc]  # Django has no types
    """An expression for a text that compares by its code points, whatever its collation."""

    output_field = models.TextField()

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        """Return the SQL of the text, in parentheses unless it is a call, and its parameters. Raise
        NotSupportedError for a database that cannot compare texts exactly.
        """
        dialect = _dialect_with_texts(connection)
        (source,) = self.source_expressions
        if isinstance(source, Value):
            text, parameters = compiler.compile(source)
            return f"({dialect.exact_value(text)})", [dialect.to_text(each) for each in parameters]
        # A field may be one of a `char(n)`, whose spaces programs read.
        is_view = isinstance(source, (JsonValue, TextFunction))
        exact = dialect.exact if is_view else dialect.padded or dialect.exact
        if exact.count("{0}") > 1:
            text, parameters = _plain_sql(compiler, source)
            return f"({exact.format(text)})", parameters
        template = exact.format("%(expressions)s")
        template = template if template.endswith(")") else f"({template})"
        return super().as_sql(compiler, connection, template=template, **options)


class InOrder(Func):  # type: ignore[misc]  # Django has no types
    """A condition: two texts are in an order: `<`, `<=`, `>` or `>=`."""

    output_field = models.BooleanField()

    def __init__(self, left: Anything, right: Anything, sign: str = "<", **options: Anything):
        super().__init__(ExactText(left), ExactText(right), **options)
        self.sign = sign

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        """Return the SQL of the test for the order, and its parameters. Raise NotSupportedError for
        a database that cannot compare texts exactly.
        """
        (left, parameters), (right, more) = map(compiler.compile, self.source_expressions)
        dialect = _dialect_with_texts(connection)
        return f"({dialect.in_order(left, self.sign, right)})", [*parameters, *more]


class ReadNumber(Func):  # type: ignore[misc]  # Django has no types
    """An expression for a number with the value that programs read, which is not the stored one if
    it has single precision.
    """

    output_field = models.FloatField()

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        template = (dialect_of(connection.vendor).single or "{}").format("%(expressions)s")
        return super().as_sql(compiler, connection, template=template, **options)


class ReadDecimal(Func):  # type: ignore[misc]  # Django has no types
    """An expression for a decimal with the digits that programs read; the database may store
    more, of a value that it has calculated.
    """

    def __init__(self, column: Anything, scale: int = 0, **options: Anything) -> None:
        field = models.DecimalField(max_digits=65, decimal_places=scale)
        super().__init__(column, **{"output_field": field, **options})
        self.scale = scale

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        template = dialect_of(connection.vendor).decimal_of(self.scale).format("%(expressions)s")
        return super().as_sql(compiler, connection, template=template, **options)


class ExactDecimal(Func):  # type: ignore[misc]  # Django has no types
    """An expression for a number with the value that programs read."""

    output_field = models.DecimalField(max_digits=65, decimal_places=30)

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        template = (_dialect_with_texts(connection).decimal or "{}").format("%(expressions)s")
        return super().as_sql(compiler, connection, template=template, **options)


class StoredAs(Func):  # type: ignore[misc]  # Django has no types
    """A condition: a column holds NULL or a value of its declared kind; if `negated`, a value of
    another kind.
    """

    output_field = models.BooleanField()

    def __init__(
        self, column: Anything, kind: Kind = "text", negated: bool = False, **options: Anything
    ) -> None:
        super().__init__(column, **options)
        self.kind = kind
        self.negated = negated

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        """Return the SQL of the test that the stored value is, or if `negated` is not, of the
        declared kind, and its parameters.
        """
        column = self.source_expressions[0]
        is_integer = isinstance(column.output_field, models.IntegerField)
        dialect = dialect_of(connection.vendor)
        field = getattr(column.output_field, "target_field", column.output_field)
        more = ""
        if isinstance(field, models.DecimalField):
            more = dialect.decimal_test(field.decimal_places, is_short=True)
        template = dialect.stored_test(
            self.kind, negated=self.negated, is_integer=is_integer, more=more
        )
        text, parameters = compiler.compile(column)
        return template.format(text), list(parameters) * template.count("{0}")


class TextFunction(Func):  # type: ignore[misc]  # Django has no types
    """An expression for the value of a function of a text, such as `lower`."""

    output_field = models.TextField()

    def __init__(self, text: Anything, call: str = "", operand: str = "", **options: Anything):
        super().__init__(ExactText(text), **options)
        self.call = call
        self.operand = operand

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        """Return the SQL of a function of a text, and its parameters. Raise FilterError if the
        database cannot compute it as Rego does.
        """
        text, parameters = compiler.compile(self.source_expressions[0])
        # The text is put in last, for a letter that no SQL has: it may have braces.
        template = function_of(dialect_of(connection.vendor), self.call, self.operand, "\0")
        return template.replace("\0", text), parameters


class JsonValue(Func):  # type: ignore[misc]  # Django has no types
    """An expression for a value in a JSON document, as a text, number or boolean."""

    def __init__(
        self,
        document: Anything,
        element: str = "",
        path: tuple[str, ...] = (),
        kind: Kind = "text",
        **options: Anything,
    ) -> None:
        fields = {"boolean": models.BooleanField, "number": models.FloatField}
        options.setdefault("output_field", fields.get(kind, models.TextField)())
        super().__init__(document, **options)
        self.element = element
        self.path = path
        self.kind = kind

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        """Return the SQL of a value in a document, and its parameters. Raise FilterError if the
        database does not read documents as programs do, or for a name with a quote or the like.
        """
        text, parameters = _plain_sql(compiler, self.source_expressions[0])
        dialect = dialect_of(connection.vendor)
        document_path = json_place(dialect, text, self.element, self.path)
        return json_of(dialect, *document_path, self.kind), parameters


class HasJsonType(Func):  # type: ignore[misc]  # Django has no types
    """A condition: a JSON document has at a path a value of one of some types; if `negated`, it has
    not.
    """

    output_field = models.BooleanField()

    def __init__(
        self,
        document: Anything,
        element: str = "",
        path: tuple[str, ...] = (),
        types: tuple[str, ...] = (),
        *,
        negated: bool = False,
        **options: Anything,
    ) -> None:
        super().__init__(document, **options)
        self.element = element
        self.path = path
        self.types = types
        self.negated = negated

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        """Return the SQL of the test for the type of a value in a document, which `negated`
        reverses, and its parameters. Raise FilterError if the database does not read documents as
        programs do, or for a name with a quote or the like.
        """
        text, parameters = _plain_sql(compiler, self.source_expressions[0])
        dialect = dialect_of(connection.vendor)
        document_path = json_place(dialect, text, self.element, self.path)
        return (
            f"({json_type_of(dialect, *document_path, self.types, negated=self.negated)})",
            parameters,
        )


class ArrayElement(Func):  # type: ignore[misc]  # Django has no types
    """An expression for an element of an array, by the name of its row."""

    def __init__(self, name: str = "", field: Anything = None, **options: Anything) -> None:
        super().__init__(**{"output_field": field, **options})
        self.name = name

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        return f"{self.name}.value", []


class HasElement(Func):  # type: ignore[misc]  # Django has no types
    """A condition: an array has an element that fulfils another condition; if `negated`, it has
    none.
    """

    output_field = models.BooleanField()

    def __init__(
        self,
        document: Anything,
        holds: Anything,
        element: str = "",
        path: tuple[str, ...] = (),
        name: str = "",
        in_document: bool = False,
        negated: bool = False,
        **options: Anything,
    ) -> None:
        """`holds` is the condition of an element called `name`. With `in_document`, `element` and
        `path` lead to the array in the JSON column `document`; otherwise `document` is a column of
        arrays.
        """
        condition = ExpressionWrapper(holds, output_field=models.BooleanField())
        super().__init__(document, condition, **options)
        self.element = element
        self.path = path
        self.name = name
        self.in_document = in_document
        self.negated = negated

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        """Return the SQL of the test for an element of an array or document, which `negated`
        reverses, and its parameters. Raise FilterError if the database has no arrays or does not
        read documents as programs do, or for a name with a quote or the like.
        """
        document, holds = self.source_expressions
        text, parameters = _plain_sql(compiler, document)
        dialect = dialect_of(connection.vendor)
        if self.in_document:
            source = elements_of(
                dialect, *json_place(dialect, text, self.element, self.path), self.name
            )
        else:
            check_arrays(dialect)
            source = f"unnest({text}) AS {self.name}(value)"
        condition, more = compiler.compile(holds)
        no = "NOT " if self.negated else ""
        exists = f"({no}EXISTS (SELECT 1 FROM {source} WHERE {condition}))"
        return exists, [*parameters, *more]


def _plain_sql(compiler: Anything, document: Anything) -> tuple[str, list[Anything]]:
    """Return the SQL of a column and [], its parameters. AssertionError if it has any: the SQL is
    repeated in a template.
    """
    text, parameters = compiler.compile(document)
    assert not parameters, text
    return text, []


class RelatedRow(Exists):  # type: ignore[misc] # Django has no types
    """A condition (EXISTS): a relation leads to a row that fulfils the conditions."""

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        """Return the SQL of an EXISTS that selects also the columns which the dialect names, and
        its parameters.
        """
        text, parameters = super().as_sql(compiler, connection, **options)
        columns, end = dialect_of(connection.vendor).selects
        if not end:
            return text, parameters
        # Django writes `EXISTS(SELECT 1 AS "a" FROM … LIMIT 1)`; behind LIMIT no HAVING may stand.
        begin, _, rest = text.partition(" FROM ")
        assert rest.endswith(" LIMIT 1)"), text
        return f"{begin}, {columns} FROM {rest.removesuffix(' LIMIT 1)')}{end})", parameters


class Matches(Func):  # type: ignore[misc]  # Django has no types
    """A condition: a text begins with another, ends with it or contains it; if `negated`, it does
    not.
    """

    output_field = models.BooleanField()

    def __init__(
        self,
        column: Anything,
        pattern: Anything,
        operator: str = "contains",
        *,
        negated: bool = False,
        **options: Anything,
    ) -> None:
        super().__init__(ExactText(column), ExactText(pattern), **options)
        self.operator = operator
        self.negated = negated

    def as_sql(self, compiler: Anything, connection: Anything, **options: Anything) -> Anything:
        text, parameters = self._test(compiler, connection)
        return (f"(NOT {text})" if self.negated else text), parameters

    def _test(self, compiler: Anything, connection: Anything) -> Anything:
        """Return the SQL of the search, before `negated` is applied, and its parameters. It
        compares by code points, whatever the collations of the columns are.
        """
        subject, pattern = self.source_expressions
        text, parameters = compiler.compile(subject)
        other, more = compiler.compile(pattern)
        dialect = dialect_of(connection.vendor)
        template = dialect.searches[self.operator]
        operands = {"0": parameters, "1": more}
        # In the order of the template: the pattern stands first in MySQL's LOCATE.
        fields = [name for _, name, _, _ in Formatter().parse(template) if name]
        values = [value for name in fields for value in operands[name]]
        return f"({template.format(text, other)})", values
