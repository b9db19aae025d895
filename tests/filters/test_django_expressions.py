"""The SQL of each expression, by database; no server is asked.

Django's settings are those of the process: they are configured when a test runs, since another
module may need its own, and the expressions are imported after that.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from types import ModuleType
from typing import Any, Final

import pytest

from doorward.filters import FilterError

EXACT: Final = ("sqlite", "postgresql", "mysql")
UNKNOWN: Final = "acme"


@pytest.fixture(scope="module")
def expressions() -> ModuleType:
    import django
    from django.apps import apps
    from django.conf import settings

    if not settings.configured:
        settings.configure(DATA_UPLOAD_MAX_NUMBER_FIELDS=None)  # as `tests.enforcement.forms`
    if not apps.ready:
        django.setup()
    from doorward.filters import django_expressions

    return django_expressions


def column(name: str = "s", kind: str = "TextField") -> Any:
    """A column without a table."""
    from django.db import models
    from django.db.models.expressions import RawSQL

    return RawSQL(name, [], output_field=getattr(models, kind)())


@cache
def row_model() -> Any:
    """A model; a process can declare one only once."""
    from django.db import models

    class Row(models.Model):  # type: ignore[misc]  # Django has no types
        id = models.IntegerField(primary_key=True)

        class Meta:
            app_label = "rows_of_expressions"

    return Row


def sql(expression: Any, vendor: str) -> tuple[str, list[Any]]:
    """The SQL and the parameters of an expression for a database."""
    from django.db.utils import ConnectionHandler

    databases = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
    connection = ConnectionHandler(databases)["default"]
    connection.vendor = vendor
    compiler = connection.ops.compiler("SQLCompiler")(None, connection, None)
    text, parameters = compiler.compile(expression)
    return text, list(parameters)


def text_of(expression: Any, vendor: str) -> str:
    """The SQL of an expression without parameters."""
    text, parameters = sql(expression, vendor)
    assert not parameters
    return text


def test_texts_are_exact_by_the_template_of_the_database(expressions: Any) -> None:
    texts = [text_of(expressions.ExactText(column()), vendor) for vendor in EXACT]
    assert texts == [
        "((s) COLLATE BINARY)",
        '(CASE WHEN (s) IS NULL THEN NULL ELSE concat((s)) END COLLATE "C")',
        "CAST(CONVERT((s) USING utf8mb4) AS BINARY)",
    ]


def test_other_databases_do_not_compare_texts(expressions: Any) -> None:
    from django.db import NotSupportedError

    for expression in (
        expressions.ExactText(column()),
        expressions.ExactDecimal(column("n", "FloatField")),
        expressions.Matches(column(), column("t")),
        expressions.TextFunction(column(), "trim", " "),
    ):
        with pytest.raises(NotSupportedError, match="cannot be compared exactly on acme"):
            sql(expression, UNKNOWN)


def test_a_number_is_passed_as_a_decimal_or_as_the_same_double(expressions: Any) -> None:
    for vendor in (*EXACT, UNKNOWN):
        text, (number,) = sql(expressions.ExactValue(Decimal("0.1")), vendor)
        assert text == "%s"
        assert isinstance(number, float) == (vendor == "sqlite")
        assert sql(expressions.ExactValue(5), vendor) == ("%s", [5])
        assert sql(expressions.ExactValue(True), vendor) == ("%s", [True])
    with pytest.raises(FilterError, match="use a number of fewer digits"):
        sql(expressions.ExactValue(Decimal("0.10000000000000000555")), "sqlite")


def test_numbers_of_different_types_are_compared_as_decimals(expressions: Any) -> None:
    decimal = expressions.ExactDecimal(column("n", "FloatField"))
    # The cast is Django's own, for every decimal of SQLite.
    assert text_of(decimal, "sqlite") == "(CAST((n) AS NUMERIC))"
    assert text_of(decimal, "postgresql") == "CAST(CAST((n) AS text) AS numeric)"
    assert text_of(decimal, "mysql") == "CAST(CAST((n) AS CHAR) AS DECIMAL(65,30))"


@pytest.mark.parametrize("operator", ["startswith", "endswith", "contains"])
def test_the_parameters_of_a_search_are_in_the_order_of_its_template(
    expressions: Any, operator: str
) -> None:
    from django.db.models import Value

    for vendor in EXACT:
        search = expressions.Matches(Value("text"), Value("part"), operator)
        text, parameters = sql(search, vendor)
        assert text.count("%s") == len(parameters)
        if vendor == "mysql":
            assert parameters == [b"part".hex(), b"text".hex()]
            assert "UNHEX(CONVERT(%s USING latin1))" in text
        else:
            wanted = ["text", "part", "part"] if operator == "endswith" else ["text", "part"]
            assert parameters == wanted
        negated = expressions.Matches(Value("text"), Value("part"), operator, negated=True)
        assert sql(negated, vendor) == (f"(NOT {text})", parameters)


def test_functions_of_texts_are_those_of_the_database(expressions: Any) -> None:
    trimmed = expressions.TextFunction(column(), "trim", " ")
    assert text_of(trimmed, "sqlite") == "trim(((s) COLLATE BINARY), ' ')"
    assert text_of(trimmed, "postgresql").startswith("btrim(")
    with pytest.raises(FilterError, match="cannot trim texts exactly on mysql"):
        sql(trimmed, "mysql")


def test_stored_values_are_tested_where_databases_let_others_in(expressions: Any) -> None:
    number = expressions.StoredAs(column("n", "DecimalField"), "number")
    integer = expressions.StoredAs(column("n", "IntegerField"), "number")
    other = expressions.StoredAs(column("n", "IntegerField"), "number", negated=True)
    assert "'NaN'" in text_of(number, "postgresql")
    for vendor in ("postgresql", "mysql", UNKNOWN):
        assert text_of(integer, vendor) == "1 = 1"
        assert text_of(other, vendor) == "1 = 0"
    assert "typeof((n)) IN ('integer', 'real', 'null')" in text_of(integer, "sqlite")
    assert text_of(other, "sqlite") == f"NOT {text_of(integer, 'sqlite')}"


def test_values_in_documents_are_read_by_kind_and_tested_by_type(expressions: Any) -> None:
    value = expressions.JsonValue(column("m", "JSONField"), "", ("a",), "number")
    document = "CASE WHEN json_valid((m)) THEN (m) END"
    assert text_of(value, "sqlite") == f"json_extract({document}, '$.\"a\"')"
    assert "jsonb_typeof" in text_of(value, "postgresql")
    holds = expressions.HasJsonType(column("m", "JSONField"), "e", (), ("null",))
    other = expressions.HasJsonType(column("m", "JSONField"), "e", (), ("null",), negated=True)
    assert text_of(holds, "postgresql") == "(coalesce(jsonb_typeof(e.value), '') IN ('null'))"
    assert text_of(other, "postgresql") == "(coalesce(jsonb_typeof(e.value), '') NOT IN ('null'))"
    for expression in (value, holds):
        with pytest.raises(FilterError, match="cannot read columns of JSON exactly on mysql"):
            sql(expression, "mysql")


def test_elements_are_those_of_arrays_and_of_documents(expressions: Any) -> None:
    from django.db import models
    from django.db.models import Value
    from django.db.models.lookups import Exact

    element = expressions.ArrayElement("e", models.TextField())
    holds = Exact(element, Value("x"))
    of_array = expressions.HasElement(column("g"), holds, name="e")
    no_element = expressions.HasElement(column("g"), holds, name="e", negated=True)
    exists = "EXISTS (SELECT 1 FROM unnest((g)) AS e(value) WHERE e.value = %s)"
    assert sql(of_array, "postgresql") == (f"({exists})", ["x"])
    assert sql(no_element, "postgresql") == (f"(NOT {exists})", ["x"])
    with pytest.raises(FilterError, match="sqlite has no arrays"):
        sql(of_array, "sqlite")
    of_document = expressions.HasElement(
        column("m", "JSONField"), holds, path=("a",), name="e", in_document=True
    )
    assert "json_each(" in sql(of_document, "sqlite")[0]
    assert "jsonb_array_elements(" in sql(of_document, "postgresql")[0]


def test_an_exists_has_the_columns_that_mariadb_does_not_cache(expressions: Any) -> None:
    row = expressions.RelatedRow(row_model().objects.filter(id=1))
    text, parameters = sql(row, "sqlite")
    assert text.startswith("EXISTS(SELECT %s AS ")
    assert text.endswith(" LIMIT 1)")
    assert sql(row, UNKNOWN) == (text, parameters)
    begin, _, rest = text.partition(" FROM ")
    end = rest.removesuffix(" LIMIT 1)")
    assert sql(row, "mysql") == (
        f"{begin}, 1, 1 FROM {end} HAVING COUNT(*) > 0)",
        parameters,
    )
