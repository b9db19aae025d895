"""What the writers of SQL ask of a dialect."""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from typing import get_args

import pytest

from doorward.base.records import replace
from doorward.filters import FilterError, to_conditions, to_sql
from doorward.filters.columns import Kind
from doorward.filters.dialects import DIALECTS, SQLDialect, dialect_of
from doorward.filters.sql import Dialect
from doorward.filters.views import check_arrays, check_zones, function_of, json_of, json_place
from doorward.rego import Engine


def test_a_database_that_is_not_known_sees_to_its_columns_and_has_no_views() -> None:
    other = dialect_of("oracle")
    assert other == SQLDialect("oracle")
    assert other.stored_test("number", negated=False) == "1 = 1"
    assert other.stored_test("number", negated=True) == "1 = 0"
    with pytest.raises(FilterError, match="oracle has no arrays"):
        check_arrays(other)
    with pytest.raises(FilterError, match="oracle does not store the zone of a time"):
        check_zones(other)
    with pytest.raises(FilterError, match="cannot read columns of JSON exactly on oracle"):
        json_place(other, "c", "", ["a"])
    with pytest.raises(FilterError, match="cannot trim texts exactly on oracle"):
        function_of(other, "trim", " ", "c")


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_a_kind_that_may_hold_other_values_is_one_that_is_tested(dialect: SQLDialect) -> None:
    assert set(dialect.lax_kinds) <= set(dialect.kinds)
    for kind in dialect.lax_kinds:
        assert dialect.stored_test(kind, negated=False) != "1 = 1"
        template = dialect.stored_test(kind, negated=True)
        assert template == f"NOT {dialect.stored_test(kind, negated=False)}"
    for kind in set(dialect.kinds) - set(dialect.lax_kinds) - {"uuid", "array"}:
        assert dialect.json is not None or kind != "json"


def test_the_type_of_dialects_has_their_names() -> None:
    assert set(get_args(Dialect)) == set(DIALECTS)


def test_mariadb_is_a_mysql_with_a_name_of_its_own() -> None:
    assert dialect_of("mariadb") == replace(DIALECTS["mysql"], name="mariadb")
    assert "mariadb" not in DIALECTS


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_a_dialect_without_an_exact_like_searches_by_functions(dialect: SQLDialect) -> None:
    assert dialect.has_exact_like or dialect.searches
    for operator, template in dialect.searches.items():
        assert operator in ("startswith", "endswith", "contains")
        assert "{0}" in template
        assert "{1}" in template


def test_a_database_compares_texts_if_their_last_spaces_and_all_searches_are_exact() -> None:
    assert [name for name, each in DIALECTS.items() if each.compares_texts] == [
        "postgresql",
        "mysql",
        "sqlite",
    ]
    assert not dialect_of("oracle").compares_texts
    assert not replace(DIALECTS["mysql"], ignores_last_spaces=True).compares_texts
    assert not replace(DIALECTS["mysql"], searches={}).compares_texts


def test_a_number_that_a_driver_rounds_is_passed_as_a_double_or_refused() -> None:
    number = Decimal("0.1")
    assert DIALECTS["postgresql"].to_parameter(number) is number
    double = DIALECTS["sqlite"].to_parameter(number)
    assert type(double) is float
    assert double == 0.1
    with pytest.raises(FilterError, match=r"sqlite cannot compare 0\.10000000000000000555"):
        DIALECTS["sqlite"].to_parameter(Decimal("0.10000000000000000555"))


def test_an_integer_is_finite_unless_its_column_may_hold_other_values() -> None:
    for name, test in (("postgresql", "1 = 1"), ("mysql", "1 = 1"), ("oracle", "1 = 1")):
        assert dialect_of(name).stored_test("number", negated=False, is_integer=True) == test
    sqlite = DIALECTS["sqlite"]
    assert sqlite.stored_test("number", negated=False, is_integer=True) == sqlite.stored_test(
        "number", negated=False
    )


def test_a_place_in_a_document_is_written_by_its_dialect() -> None:
    postgresql, sqlite = DIALECTS["postgresql"], DIALECTS["sqlite"]
    assert json_place(postgresql, "c", "", ["a", "b"]) == ("c", " -> 'a' -> 'b'")
    assert json_place(postgresql, "c", "e", ["a"]) == ("e.value", " -> 'a'")
    document = "CASE WHEN json_valid(c) THEN c END"
    assert json_place(sqlite, "c", "", ["a"]) == (document, "'$.\"a\"'")
    assert json_place(sqlite, "c", "e", []) == (document, "e.fullkey")
    _, path = json_place(sqlite, "c", "e", ["ä"])
    assert path.endswith("""(e.fullkey || '."\\u00e4"') ELSE (e.fullkey || '."ä"') END""")
    assert json_of(sqlite, "c", "'$'", "text") == "CAST(json_extract(c, '$') AS text)"
    with pytest.raises(FilterError, match="a quote, backslash"):
        json_place(postgresql, "c", "", ["it's"])


_TEXTS = (
    *("2026-01-01", "2024-02-29", "2026-02-29", "2026-02-30", "2026-1-1", "abc", "", "now"),
    *("2026-01-01 10:00:00", "2026-01-01 10:00:00.123456", "2026-01-01 10:00:00.5x", "2451545"),
    *("2026-01-01 24:00:00", "2026-02-30 10:00:00", "2026-01-01T10:00:00", "12:00"),
    *("2026-01-01 10:00:00xyz", "2026-01-01 10:00:00+02:00"),
)
_DAYS = {"2026-01-01", "2024-02-29"}
_TIMES = {"2026-01-01 10:00:00", "2026-01-01 10:00:00.123456"}


@pytest.mark.parametrize(("kind", "valid"), [("date", _DAYS), ("moment", _TIMES)])
def test_sqlite_has_a_date_only_where_its_text_is_one(kind: Kind, valid: set[str]) -> None:
    """A condition that holds for all dates must not hold for another text in the column."""
    database = sqlite3.connect(":memory:")
    for negated in (False, True):
        test = dialect_of("sqlite").stored_test(kind, negated=negated).format("?1")
        query = f"SELECT {test}"
        texts = {each for each in _TEXTS if database.execute(query, (each,)).fetchone() == (1,)}
        assert texts == ({*_TEXTS} - valid if negated else valid)
        assert database.execute(query, (None,)).fetchone() == (int(not negated),)
    database.close()


def test_a_row_whose_text_is_no_date_is_not_selected() -> None:
    """By a condition on the text of a date that every date fulfils."""
    engine = Engine({"p.rego": 'package p\n\nallow if not startswith(input.docs.day, "a")\n'})
    partial = engine.partial("data.p.allow", ["input.docs"], only_truth=True)
    clause = to_sql(to_conditions(partial), {"docs": {"day": "date"}}, "sqlite")
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE docs (day)")
    rows = [("2026-01-01",), ("abc",), ("2026-02-30",)]
    database.executemany("INSERT INTO docs VALUES (?)", rows)
    query = f"SELECT day FROM docs WHERE {clause.text}"
    assert database.execute(query, clause.parameters).fetchall() == rows[:1]
    database.close()
