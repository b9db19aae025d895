"""On real databases: the filtered rows are those that the policy lets through one by one.

`DOORWARD_FILTERS` is the number of policies for each database and reading of NULL (by default 40),
`DOORWARD_FILTER_ROWS` the number of rows (by default 400).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from itertools import cycle, product
from random import Random
from typing import Any, Final

import pytest
from tests.filters.generated import COLUMNS, compiling, document, policy, rows

from doorward.filters import Clause, Dialect, FilterError, to_conditions, to_sql
from doorward.rego import Engine, from_python

POLICIES: Final = int(os.environ.get("DOORWARD_FILTERS", "40"))
ROWS: Final = int(os.environ.get("DOORWARD_FILTER_ROWS", "400"))
SEED: Final = 20261122
Select = Callable[[Clause], set[int]]


@pytest.fixture(scope="module")
def table() -> list[tuple[Any, ...]]:
    return rows(Random(SEED), ROWS)


@pytest.fixture(scope="module")
def sqlite(table: list[tuple[Any, ...]]) -> Iterator[Select]:
    connection = sqlite3.connect(":memory:")
    # A collation that ignores case, and affinities that convert.
    columns = "id integer, a numeric, b real, s text collate nocase, t varchar(9), ok boolean"
    connection.execute(f"create table docs ({columns})")
    connection.executemany("insert into docs values (?, ?, ?, ?, ?, ?)", table)

    def select(clause: Clause) -> set[int]:
        selected = connection.execute(f"select id from docs where {clause.text}", clause.parameters)
        return {number for (number,) in selected}

    yield select
    connection.close()


@pytest.fixture(scope="module")
def postgres(postgresql: str, table: list[tuple[Any, ...]]) -> Iterator[Select]:
    import psycopg

    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("drop table if exists docs")
        connection.execute("drop collation if exists nocase")
        connection.execute(
            "create collation nocase "
            "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        columns = "id int, a numeric, b double precision, s text collate nocase, t text, ok boolean"
        connection.execute(f"create table docs ({columns})")
        with connection.cursor() as cursor:
            cursor.executemany("insert into docs values (%s, %s, %s, %s, %s, %s)", table)

        def select(clause: Clause) -> set[int]:
            text: Any = f"select id from docs where {clause.text}"
            return {number for (number,) in connection.execute(text, clause.parameters)}

        yield select


MODES: Final = ["", "ansi_quotes,no_backslash_escapes", "oracle,pad_char_to_full_length"]
"""Of MariaDB: what quotes and backslashes are depends on them."""


@pytest.fixture(scope="module")
def maria(mariadb: int, table: list[tuple[Any, ...]]) -> Iterator[Select]:
    """With collations that ignore case; each clause in one mode after the other."""
    import pymysql

    connection = pymysql.connect(
        host="127.0.0.1", port=mariadb, user="root", database="test", autocommit=True
    )
    modes = cycle(MODES)
    with connection, connection.cursor() as cursor:
        cursor.execute("drop table if exists docs")
        columns = (
            "id int, a decimal(9,3), b double, s varchar(20) collate utf8mb4_general_ci, "
            "t varchar(20) collate utf8mb4_unicode_nopad_ci, ok boolean"
        )
        cursor.execute(f"create table docs ({columns}) character set utf8mb4")
        marks = ", ".join(["%s"] * 6)
        cursor.executemany(f"insert into docs values ({marks})", table)

        def select(clause: Clause) -> set[int]:
            cursor.execute("set session sql_mode = %s", (next(modes),))
            cursor.execute(f"select id from docs where {clause.text}", clause.parameters)
            return {number for (number,) in cursor.fetchall()}

        yield select


@pytest.mark.parametrize("nulls", ["null", "undefined"])
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql"])
def test_the_filter_decides_as_the_policy(
    dialect: Dialect, nulls: Any, table: list[tuple[Any, ...]], request: pytest.FixtureRequest
) -> None:
    name = {"sqlite": "sqlite", "postgresql": "postgres", "mysql": "maria"}[dialect]
    select: Select = request.getfixturevalue(name)
    draw = Random(f"{SEED} {nulls}")
    documents = [from_python({"docs": document(row, nulls=nulls)}) for row in table]
    compared = 0
    for text in compiling(policy, draw, POLICIES):
        engine = Engine({"f.rego": text})
        partial = engine.partial("data.f.include", ["input.docs"], only_truth=True)
        try:
            clause = to_sql(to_conditions(partial), COLUMNS, dialect, nulls=nulls)
        except FilterError:
            continue  # `not hidden` over a call is a rule of its own
        query = engine.prepare("data.f.include")
        expected = {n for n, each in enumerate(documents) if query.value(each) is True}
        assert select(clause) == expected, (text, clause)
        compared += 1
    assert compared > POLICIES // 2


@pytest.mark.parametrize("first", ["startswith", "endswith", "contains", "=="])
def test_two_searches_for_texts_that_a_collation_finds_equal_are_two(
    first: str, maria: Select, table: list[tuple[Any, ...]]
) -> None:
    """MariaDB took the second for the first: `startswith(s, "a")` and `contains(s, "Ä")`."""
    texts = ["", " ", "a", "A", "Ä", "a "]
    documents = [from_python({"docs": document(row, nulls="null")}) for row in table[:200]]
    for one, other in product(texts, texts):
        for second in ("startswith", "endswith", "contains", "not startswith", "not endswith"):
            wanted = [f'{first}(input.docs.s, "{one}")', f'{second}(input.docs.s, "{other}")']
            if first == "==":
                wanted[0] = f'input.docs.s == "{one}"'
            text = "package f\n\ninclude if {\n\t" + "\n\t".join(wanted) + "\n}\n"
            engine = Engine({"f.rego": text})
            conditions = to_conditions(
                engine.partial("data.f.include", ["input.docs"], only_truth=True)
            )
            query = engine.prepare("data.f.include")
            expected = {n for n, each in enumerate(documents) if query.value(each) is True}
            clause = to_sql(conditions, COLUMNS, "mysql")
            assert {n for n in maria(clause) if n < 200} == expected, wanted


def test_a_column_that_is_not_declared_is_an_error() -> None:
    engine = Engine({"f.rego": "package f\n\ninclude if input.docs.zz == 1\n"})
    conditions = to_conditions(engine.partial("data.f.include", ["input.docs"], only_truth=True))
    with pytest.raises(FilterError, match=r"docs\.zz is not declared"):
        to_sql(conditions, COLUMNS, "sqlite")


def test_a_boolean_that_is_neither_true_nor_false_is_not_let_through(mariadb: int) -> None:
    import pymysql

    engine = Engine({"f.rego": "package f\n\ninclude if not input.docs.ok == true\n"})
    conditions = to_conditions(engine.partial("data.f.include", ["input.docs"], only_truth=True))
    lite = sqlite3.connect(":memory:")
    maria = pymysql.connect(host="127.0.0.1", port=mariadb, user="root", database="test")
    with maria, maria.cursor() as cursor:
        runs: list[tuple[Any, Dialect]] = [(lite.execute, "sqlite"), (cursor.execute, "mysql")]
        for run, dialect in runs:
            clause = to_sql(conditions, COLUMNS, dialect)
            run("create temporary table docs (id integer, ok boolean)")
            run("insert into docs values (1, 0), (2, 1), (3, 2), (4, null)")
            rows = run(f"select id from docs where {clause.text}", clause.parameters)
            selected = cursor.fetchall() if dialect == "mysql" else rows
            assert [number for (number,) in selected] == [1, 4]
    lite.close()


def test_values_in_columns_of_another_kind_are_not_let_through(sqlite: Select) -> None:
    engine = Engine({"f.rego": 'package f\n\ninclude if input.docs.a != "x"\n'})
    connection = sqlite3.connect(":memory:")
    connection.execute("create table docs (id integer, a integer)")
    connection.execute("insert into docs values (1, 'x'), (2, 5), (3, null)")
    conditions = to_conditions(engine.partial("data.f.include", ["input.docs"], only_truth=True))
    clause = to_sql(conditions, COLUMNS, "sqlite")
    rows = connection.execute(f"select id from docs where {clause.text}", clause.parameters)
    assert [number for (number,) in rows] == [2, 3]
    connection.close()
