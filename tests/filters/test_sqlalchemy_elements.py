"""The SQL of each element of an expression, by database."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pytest
from sqlalchemy import (
    ARRAY,
    CHAR,
    JSON,
    REAL,
    Boolean,
    ColumnElement,
    DateTime,
    Double,
    Float,
    Integer,
    Numeric,
    String,
    Text,
    Uuid,
    column,
    create_engine,
    exists,
    literal,
    literal_column,
    not_,
    select,
    table,
)
from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite
from sqlalchemy.dialects.mysql.mariadb import MariaDBDialect
from sqlalchemy.exc import CompileError

from doorward.filters import FilterError
from doorward.filters.sqlalchemy_elements import (
    ArrayElement,
    EnumLabel,
    ExactDecimal,
    ExactNumber,
    RelatedRow,
    TextFunction,
    ZonedTime,
    exact_text_of,
    has_element,
    has_json_type,
    is_float,
    is_stored_as,
    json_value_of,
    location_of,
    matches,
    number_of,
)

DIALECTS: Final[dict[str, Any]] = {
    "sqlite": sqlite.dialect(),
    "postgresql": postgresql.dialect(),  # type: ignore[no-untyped-call]
    "mysql": mysql.dialect(),
    "mariadb": MariaDBDialect(),
    "oracle": oracle.dialect(),  # type: ignore[no-untyped-call]
    "mssql": mssql.dialect(),  # type: ignore[no-untyped-call]
}
ALL: Final = list(DIALECTS)
UNKNOWN: Final = ["oracle", "mssql"]
EXACT: Final = ["sqlite", "postgresql", "mysql", "mariadb"]
TEXT: Final = column("s", Text())


def sql(element: ColumnElement[Any], name: str) -> str:
    options = {"literal_binds": True}
    return str(element.compile(dialect=DIALECTS[name], compile_kwargs=options)).replace("%%", "%")


def texts(element: ColumnElement[Any], names: list[str]) -> list[str]:
    return [sql(element, name) for name in names]


def test_texts_are_exact_by_the_template_of_the_database() -> None:
    binary = "CAST(CONVERT(s USING utf8mb4) AS BINARY)"
    assert texts(exact_text_of(TEXT), EXACT) == [
        "s COLLATE BINARY",
        'CAST(s AS TEXT) COLLATE "C"',
        binary,
        binary,
    ]


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize(
    "element",
    [
        exact_text_of(TEXT),
        exact_text_of(column("c", CHAR(4))),
        ExactDecimal(column("n", Numeric())),
        TextFunction(column("s", String()), "trim", " "),
        matches(column("s", String()), "contains", literal("a")),
    ],
)
def test_other_databases_do_not_compare_texts(element: ColumnElement[Any], name: str) -> None:
    with pytest.raises(CompileError, match=f"texts cannot be compared exactly on {name}"):
        sql(element, name)


def test_a_char_keeps_the_spaces_that_postgresql_adds() -> None:
    padded = exact_text_of(column("c", CHAR(4)))
    assert sql(padded, "postgresql") == (
        'CASE WHEN c IS NULL THEN NULL ELSE concat(c) END COLLATE "C"'
    )
    assert sql(padded, "sqlite") == "c COLLATE BINARY"


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("operator", ["startswith", "endswith", "contains"])
def test_a_search_stands_in_parentheses_and_is_never_compared(operator: str, name: str) -> None:
    search = matches(column("s", String()), operator, literal("a"))
    no_search = matches(column("s", String()), operator, literal("a"), negated=True)
    text = sql(search, name)
    assert text.startswith("(")
    assert sql(no_search, name) == f"(NOT {text})"
    assert sql(search & no_search, name) == f"{text} AND (NOT {text})"


def test_a_search_is_by_code_points_on_a_database() -> None:
    database = create_engine("sqlite://")
    with database.connect() as connection:
        for operator, wanted in (("startswith", "Ab"), ("endswith", "bC"), ("contains", "b")):
            for pattern, holds in ((wanted, True), (wanted.swapcase(), False)):
                search = matches(literal("AbC"), operator, literal(pattern))
                assert connection.scalar(select(search)) is holds
    database.dispose()


def test_functions_of_texts_are_those_of_the_database() -> None:
    trimmed = TextFunction(column("s", String()), "trim", " ")
    assert texts(trimmed, ["sqlite", "postgresql"]) == ["trim(s, ' ')", "btrim(s, ' ')"]
    with pytest.raises(FilterError, match="cannot trim texts exactly on mariadb"):
        sql(trimmed, "mariadb")


@pytest.mark.parametrize("name", ALL)
def test_a_label_and_an_element_are_written_alike_everywhere(name: str) -> None:
    assert sql(EnumLabel(column("k", String())), name) == "k"
    assert sql(ArrayElement("element_1", Text()), name) == "element_1.value"


def test_numbers_of_single_precision_are_those_that_programs_read() -> None:
    single = "CAST(CAST(r AS CHAR) AS DOUBLE)"
    double = "CAST(CAST(r AS TEXT) AS DOUBLE PRECISION)"
    for type_ in (REAL(), Float(24)):
        number = number_of(column("r", type_))
        assert texts(number, ALL) == ["r", double, single, single, "r", "r"]
    # A FLOAT is one of double precision in PostgreSQL alone.
    number = number_of(column("r", Float()))
    assert texts(number, ALL) == ["r", "r", single, single, "r", "r"]
    for of_double in (column("r", Double()), column("r", Float(53)), column("r", Integer())):
        assert number_of(of_double) is of_double


def test_decimals_are_rounded_where_they_are_doubles() -> None:
    assert texts(number_of(column("n", Numeric(9, 3))), ALL) == ["round(n, 3)", *["n"] * 5]
    assert sql(number_of(column("n", Numeric())), "sqlite") == "round(n, 10)"


def test_numbers_of_different_types_are_compared_as_decimals() -> None:
    assert is_float(Float())
    assert is_float(Double())
    assert not is_float(Numeric())
    mysql_decimal = "CAST(CAST(d AS CHAR) AS DECIMAL(65,30))"
    assert texts(ExactDecimal(column("d", Double())), EXACT) == [
        "d",
        "CAST(CAST(d AS TEXT) AS NUMERIC)",
        mysql_decimal,
        mysql_decimal,
    ]


def test_a_number_is_passed_as_a_decimal_or_as_the_same_double() -> None:
    number = ExactNumber()
    for name in ALL:
        is_lossy = name == "sqlite"
        passed = number.process_bind_param(Decimal("0.1"), DIALECTS[name])
        assert type(passed) is (float if is_lossy else Decimal)
        loaded = number.load_dialect_impl(DIALECTS[name])
        assert isinstance(loaded, Float) == is_lossy
        assert number.process_bind_param(None, DIALECTS[name]) is None
    with pytest.raises(FilterError, match="use a number of fewer digits"):
        number.process_bind_param(Decimal("0.10000000000000000555"), DIALECTS["sqlite"])


def test_zones_are_those_of_postgresql() -> None:
    zoned = ZonedTime(column("e", DateTime(timezone=True)))
    assert sql(zoned, "postgresql") == "e"
    for name in set(ALL) - {"postgresql"}:
        with pytest.raises(FilterError, match=f"{name} does not store the zone of a time"):
            sql(zoned, name)


def test_stored_values_are_tested_where_databases_let_others_in() -> None:
    number = is_stored_as(column("n", Numeric()), "number", negated=False)
    integer = is_stored_as(column("i", Integer()), "number", negated=False)
    assert "'NaN'" in sql(number, "postgresql")
    assert texts(integer, ALL)[1:] == ["1 = 1"] * 5
    for each, name in ((number, "n"), (integer, "i")):
        assert f"typeof({name}) IN ('integer', 'real', 'null')" in sql(each, "sqlite")
    other = is_stored_as(column("i", Integer()), "number", negated=True)
    assert sql(other, "sqlite") == f"NOT {sql(integer, 'sqlite')}"
    assert sql(other, "mysql") == "1 = 0"
    with pytest.raises(FilterError, match="mariadb has no arrays"):
        sql(is_stored_as(column("g", ARRAY(Text)), "array", negated=False), "mariadb")


def test_an_exists_has_the_columns_that_mariadb_does_not_cache() -> None:
    rows: Any = select(literal_column("1")).where(table("t", column("x")).c.x == column("y"))
    row = RelatedRow(exists(rows))
    for name in ALL:
        is_mysql = name in ("mysql", "mariadb")
        begin, end = ("1, 1", " HAVING COUNT(*) > 0)") if is_mysql else ("1", "t.x = y)")
        text = " ".join(sql(row, name).split())
        assert text.startswith(f"EXISTS (SELECT {begin} FROM t WHERE t.x = y")
        assert text.endswith(end)


DOCUMENT: Final[Any] = column("m", JSON().with_variant(postgresql.JSONB(), "postgresql"))


def test_values_in_documents_are_read_by_kind() -> None:
    location = location_of(DOCUMENT, "", ["a", "b"])
    value = 'json_extract(CASE WHEN json_valid(m) THEN m END, \'$."a"."b"\')'
    assert sql(json_value_of(location, "text"), "sqlite") == f"CAST({value} AS text)"
    assert sql(json_value_of(location, "number"), "sqlite") == value
    assert sql(json_value_of(location, "boolean"), "postgresql") == (
        "(((m -> 'a' -> 'b') #>> '{}') = 'true')"
    )
    for name in ("mysql", "mariadb", *UNKNOWN):
        with pytest.raises(FilterError, match=f"cannot read columns of JSON exactly on {name}"):
            sql(json_value_of(location, "text"), name)


def test_a_column_of_json_is_refused_where_it_keeps_more_than_jsonb() -> None:
    location = location_of(column("m", JSON()), "", ["a"])
    assert sql(json_value_of(location, "text"), "sqlite")
    with pytest.raises(FilterError, match="of type json may hold documents that jsonb refuses"):
        sql(json_value_of(location, "text"), "postgresql")


def test_types_of_values_in_documents_are_tested() -> None:
    location = location_of(DOCUMENT, "e", [])
    holds = has_json_type(location, ("string", "null"), negated=False)
    other = has_json_type(location, ("string", "null"), negated=True)
    assert sql(holds, "postgresql") == "coalesce(jsonb_typeof(e.value), '') IN ('string', 'null')"
    assert sql(other, "postgresql") == (
        "coalesce(jsonb_typeof(e.value), '') NOT IN ('string', 'null')"
    )


def test_elements_are_those_of_arrays_and_of_documents() -> None:
    holds = ArrayElement("e", Text()) == literal("x")
    of_array = has_element(
        location_of(column("g", ARRAY(Text)), "", []), "e", holds, in_document=False
    )
    assert sql(of_array, "postgresql") == (
        "EXISTS (SELECT 1 FROM unnest(g) AS e(value) WHERE e.value = 'x')"
    )
    assert sql(not_(of_array), "postgresql") == f"NOT {sql(of_array, 'postgresql')}"
    with pytest.raises(FilterError, match="sqlite has no arrays"):
        sql(of_array, "sqlite")
    inside = json_value_of(location_of(DOCUMENT, "e", ["k"]), "number") == 1
    of_document = has_element(location_of(DOCUMENT, "", ["a"]), "e", inside, in_document=True)
    assert "json_each(" in sql(of_document, "sqlite")
    assert "jsonb_array_elements(" in sql(of_document, "postgresql")


def test_elements_of_different_kinds_have_different_keys_in_the_cache() -> None:
    location = location_of(DOCUMENT, "", ["a"])
    elements = [
        *[json_value_of(location, kind) for kind in ("text", "number", "boolean")],
        *[has_json_type(location, ("null",), negated=negated) for negated in (False, True)],
        has_json_type(location, ("string",), negated=False),
        json_value_of(location_of(DOCUMENT, "", ["b"]), "text"),
        *[
            is_stored_as(TEXT, kind, negated=negated)
            for kind in ("text", "uuid")
            for negated in (False, True)
        ],
        *[
            matches(TEXT, operator, TEXT, negated=negated)
            for operator in ("startswith", "endswith", "contains")
            for negated in (False, True)
        ],
        TextFunction(TEXT, "trim", "a"),
        TextFunction(TEXT, "trim", "b"),
        exact_text_of(column("u", Uuid())),
        exact_text_of(column("u", CHAR(4))),
        is_stored_as(column("b", Boolean()), "boolean", negated=False),
    ]
    keys = {select(each)._generate_cache_key().key for each in elements}  # type: ignore[union-attr]
    assert len(keys) == len(elements)
