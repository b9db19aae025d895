"""What a connection or a database is set to widens no list: character sets, digits, encodings."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any, Final

import pytest

from doorward.filters import Clause, Column, Conditions, Dialect, FilterError, to_conditions, to_sql
from doorward.rego import Engine, from_python

LETTERS: Final = ["", "a", "?", "????", "É", "é", "ÿ", "Ÿ", "€", "中", "😀", "[", "~", "я", "Я"]
COLUMNS: Final[Any] = {"docs": {"s": "text", "d": "number", "m": "json"}}
CONNECTIONS: Final = [
    "latin1_swedish_ci", "cp1251_general_ci", "utf8mb3_general_ci", "swe7_swedish_ci",
    "ucs2_bin", "utf16_general_ci", "utf32_general_ci", "utf8mb4_bin",
]  # fmt: skip
ENCODINGS: Final = {
    "KOI8R": "aабвяюцйЯАХ", "WIN1252": "aéÿ€Ÿž", "EUC_JP": "aあ漢字ｱ日", "LATIN1": "aéÿÀ",
}  # fmt: skip
NUMBERS: Final = [1 / 3, 0.333333333333333, 0.30000000000000004, 0.3, 1e20, None]
OPERATORS: Final = ["==", "!=", "<", "<=", ">", ">="]
Select = Callable[[Clause], set[int]]


def selected(body: str, rows: Sequence[Any], select: Select, dialect: Dialect) -> tuple[Any, Any]:
    """The rows that a filter selects, and those that the policy allows."""
    known, allowed = decided(body, json.dumps(rows))
    return select(to_sql(known, COLUMNS, dialect)), allowed


@cache
def decided(body: str, rows: str) -> tuple[Conditions, set[int]]:
    """The conditions of the filter, and which of the rows, a JSON array, the policy allows."""
    name = next(name for name in COLUMNS["docs"] if f"docs.{name}" in body)
    engine = Engine({"f.rego": f"package f\n\ninclude if {body}\n"})
    query = engine.prepare("data.f.include")
    allowed = {
        number
        for number, row in enumerate(json.loads(rows))
        if query.value(from_python({"docs": {name: row}}, copy=True)) is True
    }
    return conditions(engine), allowed


def conditions(engine: Engine) -> Conditions:
    return to_conditions(engine.partial("data.f.include", ["input.docs"], only_truth=True))


def comparisons_of(texts: Sequence[str]) -> list[str]:
    """Comparisons with each of these texts."""
    bodies = []
    for known in map(json.dumps, texts):
        bodies += [f"input.docs.s {operator} {known}" for operator in OPERATORS]
        bodies += [f"input.docs.s in [{known}]", f"not input.docs.s in [{known}]"]
        for name in ("startswith", "endswith", "contains"):
            bodies += [f"{name}(input.docs.s, {known})", f"not {name}(input.docs.s, {known})"]
        for name in ("lower", "upper"):
            bodies += [f"{name}(input.docs.s) == {known}", f"{name}(input.docs.s) != {known}"]
    return bodies


@pytest.mark.parametrize("collation", CONNECTIONS)
def test_letters_that_a_connection_cannot_say_are_no_others(mariadb: int, collation: str) -> None:
    """MariaDB made `?` of them."""
    import pymysql

    connection = pymysql.connect(
        host="127.0.0.1", port=mariadb, user="root", database="test", charset="utf8mb4"
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "create temporary table docs (id int, s varchar(9)) character set utf8mb4"
            " collate utf8mb4_general_ci"
        )
        cursor.executemany("insert into docs values (%s, %s)", list(enumerate(LETTERS)))
        cursor.execute(f"set collation_connection = {collation}")

        def select(clause: Clause) -> set[int]:
            cursor.execute(f"select id from docs where {clause.text}", clause.parameters)
            return {number for (number,) in cursor.fetchall()}

        for body in comparisons_of(LETTERS):
            rows, allowed = selected(body, LETTERS, select, "mysql")
            # `=` beside the exact test, for an index, finds fewer.
            is_equal = "s ==" in body or body.startswith("input.docs.s in")
            assert rows <= allowed if is_equal else rows == allowed, body


def test_letters_of_four_bytes_are_no_others_to_utf8mb3(mariadb: int) -> None:
    import pymysql

    connection = pymysql.connect(
        host="127.0.0.1", port=mariadb, user="root", database="test", charset="utf8"
    )
    engine = Engine({"f.rego": 'package f\n\ninclude if contains(input.docs.s, "😀")\n'})
    clause = to_sql(conditions(engine), COLUMNS, "mysql")
    with connection, connection.cursor() as cursor:
        cursor.execute("create temporary table docs (id int, s varchar(9)) charset utf8mb4")
        cursor.execute("insert into docs values (1, '????'), (2, '?')")
        cursor.execute(f"select id from docs where {clause.text}", clause.parameters)
        assert cursor.fetchall() == ()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_encoding_of_a_database_changes_no_order(postgresql: str, encoding: str) -> None:
    import psycopg

    name = f"of_{encoding.lower()}"
    with psycopg.connect(postgresql, autocommit=True) as server:
        server.execute(f"drop database if exists {name}".encode())
        create = f"create database {name} encoding '{encoding}' template template0"
        server.execute(f"{create} lc_collate 'C' lc_ctype 'C'".encode())
        texts = list(ENCODINGS[encoding])
        with psycopg.connect(f"{postgresql.rpartition('/')[0]}/{name}") as connection:
            connection.execute("set client_encoding = utf8")
            connection.execute("create table docs (id int, s text)")
            with connection.cursor() as cursor:
                cursor.executemany("insert into docs values (%s, %s)", list(enumerate(texts)))
            select = of_postgresql(connection)
            for operator, text in product(OPERATORS, texts):
                body = f"input.docs.s {operator} {json.dumps(text)}"
                rows, allowed = selected(body, texts, select, "postgresql")
                assert rows == allowed, body
        server.execute(f"drop database {name}".encode())


def of_postgresql(connection: Any) -> Select:
    def select(clause: Clause) -> set[int]:
        text = f"select id from docs where {clause.text}"
        return {number for (number,) in connection.execute(text, clause.parameters)}

    return select


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
def test_the_encoding_of_a_file_widens_no_order(encoding: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"pragma encoding = '{encoding}'")
    connection.execute("create table docs (id integer, s text)")
    connection.executemany("insert into docs values (?, ?)", list(enumerate(LETTERS)))

    def select(clause: Clause) -> set[int]:
        text = f"select id from docs where {clause.text}"
        return {number for (number,) in connection.execute(text, clause.parameters)}

    for body in comparisons_of(LETTERS):
        is_order = any(f" {sign} " in body for sign in ("<", "<=", ">", ">="))
        if is_order and encoding != "UTF-8":
            with pytest.raises(sqlite3.OperationalError, match="overflow"):
                selected(body, LETTERS, select, "sqlite")
            continue
        rows, allowed = selected(body, LETTERS, select, "sqlite")
        assert rows == allowed, body
    connection.close()


@pytest.mark.parametrize("digits", [3, 1, 0, -5])
def test_doubles_whose_digits_are_cut_are_not_let_through(postgresql: str, digits: int) -> None:
    """Programs read the cut digits, and a policy decides on them."""
    import psycopg

    with psycopg.connect(postgresql) as connection:
        connection.execute("create temporary table docs (id int, d double precision, m jsonb)")
        documents = [json.dumps({"k": each, "l": [each]}) for each in NUMBERS]
        rows = list(zip(range(len(NUMBERS)), NUMBERS, documents, strict=True))
        with connection.cursor() as cursor:
            cursor.executemany("insert into docs values (%s, %s, %s)", rows)
        connection.execute(f"set extra_float_digits = {digits}".encode())
        read = connection.execute("select d, m from docs order by id").fetchall()
        select = of_postgresql(connection)
        for number, (column, operator) in product(
            [*NUMBERS[:-1], 0.3333333333, 5], product(("d", "m.k"), OPERATORS)
        ):
            body = f"input.docs.{column} {operator} {json.dumps(number)}"
            seen = [row[column != "d"] for row in read]
            filtered, allowed = selected(body, seen, select, "postgresql")
            if digits > 0:
                assert filtered == allowed, body
            else:
                assert filtered <= allowed, body
        for body in ("0.3 in input.docs.m.l", "not 0.30000000000000004 in input.docs.m.l"):
            seen = [row[1] for row in read]
            filtered, allowed = selected(body, seen, select, "postgresql")
            assert filtered <= allowed, body


def test_the_elements_of_arrays_in_arrays_are_not_those_of_the_array(postgresql: str) -> None:
    import psycopg

    columns: Any = {"docs": {"g": Column("array", item=Column("text"))}}
    with psycopg.connect(postgresql) as connection:
        connection.execute("create temporary table docs (id int, g text[])")
        connection.execute("""insert into docs values (1, '{{a},{b}}'), (2, '{a}'), (3, '{b}')""")
        for body, wanted in (('"a" in input.docs.g', {2}), ('not "a" in input.docs.g', {3})):
            engine = Engine({"f.rego": f"package f\n\ninclude if {body}\n"})
            clause = to_sql(conditions(engine), columns, "postgresql")
            assert of_postgresql(connection)(clause) == wanted


def test_decimals_do_not_depend_on_the_digits_of_doubles(postgresql: str) -> None:
    import psycopg

    with psycopg.connect(postgresql) as connection:
        connection.execute("create temporary table docs (id int, d numeric)")
        connection.execute("insert into docs values (1, 0.3), (2, 0.30000000000000004)")
        connection.execute("set extra_float_digits = 0")
        engine = Engine({"f.rego": "package f\n\ninclude if input.docs.d == 0.3\n"})
        clause = to_sql(conditions(engine), COLUMNS, "postgresql")
        assert of_postgresql(connection)(clause) == {1}


def test_a_text_with_nul_is_refused() -> None:
    engine = Engine({"f.rego": 'package f\n\ninclude if input.docs.s < "\\u0000"\n'})
    with pytest.raises(FilterError, match="NUL"):
        to_sql(conditions(engine), COLUMNS, "mysql")
