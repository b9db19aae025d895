"""What databases compare otherwise than programs do: never wider than deciding each row.

Numbers that no double is, doubles that are not numbers, padded texts, halves of surrogate pairs,
and the modes of servers that change what a text or a backslash is.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any, Final, get_args

import pytest
import sqlalchemy
from sqlalchemy import CHAR, BigInteger, Double, Numeric, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from doorward.filters import Conditions, FilterError, Names, to_conditions, to_sql, to_sql_text
from doorward.filters.sql import Dialect
from doorward.filters.sqlalchemy import where
from doorward.rego import CompileError, Engine, InputError, from_python

BIG: Final = 1 << 53
COLUMNS: Final[Any] = {"docs": {"i": "number", "n": "number", "d": "number", "s": "text"}}
VALUES: Final[dict[str, list[Any]]] = {
    "i": [None, 0, 1, BIG, BIG + 1, BIG + 2, -BIG - 1, (1 << 63) - 1],
    "n": [None, 0, 1, BIG, BIG + 1, 10**20, 10**20 + 1, Decimal("0.1"), Decimal("0.10001")],
    "d": [
        None,
        0.0,
        1.0,
        float(BIG),
        BIG + 2.0,
        1e20,
        0.1,
        1 / 3,
        math.inf,
        -math.inf,
        math.nan,
        2.0**63,
        -(2.0**63),
        2.0**64,
        1e300,
        -1e300,
        1e-300,
        5e-324,
        2.5e-308,
        1.7e308,
    ],
    "s": [None, "", "a", "a ", "\\", "\\\\", "!", "%", "a!b", "é", "e"],
}
CONSTANTS: Final = ["0", "1", "0.1", str(BIG), str(BIG + 1), str(BIG + 2), str(10**20)]
EDGES: Final = [
    *("1e300", "5e-324", "1.7e308", "2.5e-308", "1e-300", "9223372036854775807", "1e-40"),
    *("9223372036854775000", "1152921504606846977", "1e-29", "1e-31"),
]
MORE: Final = [*EDGES, str(10**20 + 1), "0.10000000000000000555", "0.33333333333333331", "0.10001"]
OPERATORS: Final = ["==", "!=", "<", "<=", ">", ">="]
POLICIES: Final = 60


def policy(draw: Random) -> str:
    rules = []
    for _ in range(draw.randint(1, 2)):
        lines = []
        for _ in range(draw.randint(1, 2)):
            column = draw.choice(["i", "n", "d", "s"])
            if column == "s":
                text = json.dumps(draw.choice(VALUES["s"][1:]))
                name = draw.choice(["startswith", "endswith", "contains", *OPERATORS])
                call = f"input.docs.s {name} {text}" if name in OPERATORS else ""
                lines.append(call or f"{name}(input.docs.s, {text})")
            elif draw.random() < 0.2:
                items = ", ".join(draw.choices(CONSTANTS + MORE, k=3))
                lines.append(f"input.docs.{column} in [{items}]")
            else:
                other = draw.choice([*CONSTANTS, *MORE, "input.docs.i", "input.docs.n"])
                other = draw.choice([other, other, "input.docs.d"])
                lines.append(f"input.docs.{column} {draw.choice(OPERATORS)} {other}")
        body = "\n\t".join(f"not {each}" if draw.random() < 0.3 else each for each in lines)
        rules.append(f"include if {{\n\t{body}\n}}")
    return "package f\n\n" + "\n\n".join(rules) + "\n"


def rows() -> list[dict[str, Any]]:
    draw = Random(5)
    return [
        {"id": number, **{name: draw.choice(values) for name, values in VALUES.items()}}
        for number in range(1, 300)
    ]


ROWS: Final = rows()


def decided(text: str, seen: list[dict[str, Any]]) -> set[int]:
    """The rows, as a program reads them, that the policy lets through; no other is one."""
    query = Engine({"f.rego": text}).prepare("data.f.include")
    allowed = set()
    for row in seen:
        # A value that is none counts where the policy compares it.
        fields = {name: row[name] for name in COLUMNS["docs"] if f"docs.{name}" in text}
        try:
            if query.value(from_python({"docs": fields})) is True:
                allowed.add(row["id"])
        except InputError:
            continue  # NaN and infinity are not values
    return allowed


def conditions(text: str) -> Conditions:
    engine = Engine({"f.rego": text})
    return to_conditions(engine.partial("data.f.include", ["input.docs"], only_truth=True))


class Base(DeclarativeBase):
    pass


class Doc(Base):
    __tablename__ = "exact_documents"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    i: Mapped[int | None] = mapped_column(BigInteger)
    n: Mapped[Any] = mapped_column(Numeric(40, 5), nullable=True)
    d: Mapped[float | None] = mapped_column(Double)
    s: Mapped[str | None] = mapped_column(Text().with_variant(mysql.VARCHAR(20), "mysql"))
    c: Mapped[str | None] = mapped_column(CHAR(4))


def _stored(row: dict[str, Any], dialect: str) -> dict[str, Any]:
    stored = {**row, "c": "ab" if row["s"] == "a" else "abcd"}
    if dialect == "mysql" and stored["d"] is not None and not math.isfinite(stored["d"]):
        stored["d"] = None  # it has none
    return stored


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[sqlalchemy.Engine]:
    url = "sqlite://"
    if request.param == "postgresql":
        address: str = request.getfixturevalue("postgresql")
        url = address.replace("postgresql://", "postgresql+psycopg://")
    elif request.param == "mysql":
        port = request.getfixturevalue("mariadb")
        url = f"mysql+pymysql://root@127.0.0.1:{port}/test?charset=utf8mb4"
    database = sqlalchemy.create_engine(url)
    Base.metadata.drop_all(database)
    Base.metadata.create_all(database)
    with database.begin() as connection:
        table: Any = Doc.__table__
        connection.execute(table.insert(), [_stored(row, request.param) for row in ROWS])
    yield database
    Base.metadata.drop_all(database)
    database.dispose()


@pytest.mark.filterwarnings("ignore:Dialect sqlite.*does \\*not\\* support Decimal")
@pytest.mark.parametrize("how", ["expression", "clause"])
def test_numbers_and_texts_are_compared_exactly(database: sqlalchemy.Engine, how: str) -> None:
    draw = Random(f"exactness {how}")
    dialect: Any = {"mariadb": "mysql"}.get(database.dialect.name, database.dialect.name)
    with database.connect() as connection:
        seen = [row._asdict() for row in connection.execute(sqlalchemy.select(Doc.__table__))]
        if dialect == "sqlite" and how == "clause":
            # SQLAlchemy rounds what SQLite keeps as a double.
            raw = connection.exec_driver_sql("select id, i, n, d, s from exact_documents")
            seen = [row._asdict() for row in raw]
        compared = 0
        for _ in range(POLICIES):
            text = policy(draw)
            try:
                filtered = conditions(text)
                if how == "expression":
                    clause: Any = where(filtered, {"docs": Doc})
                    statement: Any = sqlalchemy.select(Doc.id).where(clause)
                    selected = set(connection.scalars(statement))
                else:
                    condition = to_sql(filtered, COLUMNS, dialect)
                    names = "exact_documents as docs"
                    statement = f"select id from {names} where {condition.text}"
                    matches = connection.exec_driver_sql(statement, condition.parameters)
                    selected = {number for (number,) in matches}
            except (FilterError, CompileError):
                continue  # what a database has no exact number for
            except sqlalchemy.exc.StatementError as error:
                if not isinstance(error.orig, FilterError):
                    raise
                continue
            assert selected == decided(text, seen), text
            compared += 1
    assert compared > POLICIES // 3


def test_the_spaces_that_a_column_adds_count_as_programs_read_them(
    database: sqlalchemy.Engine,
) -> None:
    with database.connect() as connection:
        read = {n: c for n, c in connection.execute(sqlalchemy.select(Doc.id, Doc.c))}
        for wanted in ("ab", "ab  ", "abcd"):
            for body in (f'input.docs.c == "{wanted}"', f'endswith(input.docs.c, "{wanted}")'):
                filtered = conditions(f"package f\n\ninclude if {body}\n")
                clause = where(filtered, {"docs": Doc})
                selected = set(connection.scalars(sqlalchemy.select(Doc.id).where(clause)))
                assert selected == {number for number, text in read.items() if text == wanted}


def test_what_a_type_makes_of_a_stored_value_is_not_compared() -> None:
    class Shouting(sqlalchemy.String):
        def result_processor(self, dialect: Any, coltype: Any) -> Any:
            return lambda value: value and value.upper()

    class Halved(sqlalchemy.Integer):
        def result_processor(self, dialect: Any, coltype: Any) -> Any:
            return lambda value: value and value // 2

    table = sqlalchemy.Table(
        "t",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("a", mysql.SET("x", "y")),
        sqlalchemy.Column("b", Shouting()),
        sqlalchemy.Column("c", sqlalchemy.String().with_variant(sqlalchemy.JSON(), "sqlite")),
        sqlalchemy.Column("d", sqlalchemy.Float(asdecimal=True)),
        sqlalchemy.Column("e", Numeric(asdecimal=False)),
        sqlalchemy.Column("f", Halved()),
    )
    for column in "abcdef":
        filtered = conditions(f'package f\n\ninclude if input.docs.{column} == "x"\n')
        with pytest.raises(FilterError, match=r"changes its|rounds|as different"):
            where(filtered, {"docs": table})


@pytest.mark.parametrize("test", ["== data.half", "in [data.half]"])
def test_half_a_surrogate_pair_is_refused(test: str) -> None:
    engine = Engine(
        {"f.rego": f"package f\n\ninclude if input.docs.s {test}\n"}, data={"half": "\ud800"}
    )
    filtered = to_conditions(engine.partial("data.f.include", ["input.docs"], only_truth=True))
    with pytest.raises(FilterError, match="surrogate"):
        to_sql(filtered, COLUMNS, "postgresql")
    with pytest.raises(FilterError, match="surrogate"):
        where(filtered, {"docs": Doc})


def test_backslashes_mean_the_same_in_old_strings_of_postgresql(postgresql: str) -> None:
    import psycopg

    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("drop table if exists slashes")
        connection.execute("create table slashes (id int, s text)")
        texts = ["\\", "\\\\", "a\\b", "!", "a!", "%", "a%", "_"]
        with connection.cursor() as cursor:
            cursor.executemany("insert into slashes values (%s, %s)", list(enumerate(texts)))
        for mode in ("on", "off"):
            connection.execute(f"set standard_conforming_strings = {mode}")
            for wanted in ("\\", "!", "%", "_"):
                for name in ("startswith", "endswith", "contains"):
                    call = f"{name}(input.docs.s, {json.dumps(wanted)})"
                    filtered = conditions(f"package f\n\ninclude if {call}\n")
                    condition = to_sql(filtered, COLUMNS, "postgresql")
                    statement: Any = f"select id from slashes docs where {condition.text}"
                    selected = {n for (n,) in connection.execute(statement, condition.parameters)}
                    check = {
                        "startswith": str.startswith,
                        "endswith": str.endswith,
                        "contains": str.__contains__,
                    }[name]
                    assert selected == {n for n, each in enumerate(texts) if check(each, wanted)}
        connection.execute("drop table slashes")


def test_an_empty_text_that_is_null_lets_nothing_more_through(mariadb: int) -> None:
    import pymysql

    connection = pymysql.connect(
        host="127.0.0.1", port=mariadb, user="root", database="test", autocommit=True
    )
    draw = Random("empty texts")
    with connection, connection.cursor() as cursor:
        cursor.execute("drop table if exists empties")
        cursor.execute("create table empties (id int, s varchar(9), i bigint) charset utf8mb4")
        stored = [(n, draw.choice(["", "a", "b", None]), draw.choice([0, 1])) for n in range(60)]
        cursor.executemany("insert into empties values (%s, %s, %s)", stored)
        cursor.execute("set session sql_mode = 'empty_string_is_null'")
        seen = [{"id": n, "i": i, "n": None, "d": None, "s": s} for n, s, i in stored]
        wider = 0
        for text in (policy(draw) for _ in range(150)):
            if "docs.n" in text or "docs.d" in text:
                continue
            try:
                condition = to_sql(conditions(text), COLUMNS, "mysql")
            except (FilterError, CompileError):
                continue
            cursor.execute(
                f"select id from empties docs where {condition.text}", condition.parameters
            )
            assert {n for (n,) in cursor.fetchall()} <= decided(text, seen), text
            wider += 1
    assert wider > 10


def test_the_values_that_sqlite_keeps_in_any_column_are_not_let_through() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table docs (id integer, d)")
    connection.execute("insert into docs values (1, 9e999), (2, 5), (3, -9e999), (4, x'00')")
    for body, wanted in (("> 1", [2]), ("!= 7", [2]), ("< 9", [2])):
        condition = to_sql(
            conditions(f"package f\n\ninclude if input.docs.d {body}\n"), COLUMNS, "sqlite"
        )
        matches = connection.execute(
            f"select id from docs where {condition.text}", condition.parameters
        )
        assert [number for (number,) in matches] == wanted
    connection.close()


def test_the_smallest_numbers_of_documents_are_as_programs_read_them(postgresql: str) -> None:
    import psycopg

    texts = ["0", "0.0", "1e-400", "-1e-400", "5e-324", "-5e-324", "1e-310", "1e-200", "1e-29"]
    texts += ["0.5", "1e300", "2.5e307", "1234567.5e299", "-1e305", f"{'9' * 305}.5"]
    columns: Any = {"docs": {"m": "json"}}
    with psycopg.connect(postgresql) as connection:
        connection.execute("create temporary table docs (id int, m jsonb)")
        with connection.cursor() as cursor:
            stored = [(n, f'{{"k": {each}, "l": [{each}]}}') for n, each in enumerate(texts)]
            cursor.executemany("insert into docs values (%s, %s)", stored)
        read: dict[int, Any] = dict(connection.execute("select id, m from docs").fetchall())
        for known in ("0", "1e-29", "-1e-29", "0.5", "1e300", "2.5e307"):
            bodies = [f"input.docs.m.k {operator} {known}" for operator in OPERATORS]
            bodies += [f"not {each}" for each in bodies]
            bodies += [f"every x in input.docs.m.l {{ x {sign} {known} }}" for sign in OPERATORS]
            bodies += [f"{known} in input.docs.m.l", f"not {known} in input.docs.m.l"]
            for body in bodies:
                text = f"package f\n\ninclude if {{\n{body}\n}}\n"
                query = Engine({"f.rego": text}).prepare("data.f.include")
                wanted = {
                    n
                    for n, each in read.items()
                    if query.value(from_python({"docs": {"m": each}}, copy=True)) is True
                }
                clause = to_sql(conditions(text), columns, "postgresql")
                statement: Any = f"select id from docs where {clause.text}"
                selected = {n for (n,) in connection.execute(statement, clause.parameters)}
                assert selected == wanted, body


@pytest.mark.parametrize(
    "number", ["9223372036854775808", "9223372036854776000", "-1.8446744073709552e19"]
)
def test_an_integer_that_is_two_numbers_to_a_column_of_doubles_is_refused(number: str) -> None:
    for body in (f"input.docs.d < {number}", f"input.docs.d in [1, {number}]"):
        filtered = conditions(f"package f\n\ninclude if {body}\n")
        with pytest.raises(FilterError, match="a column of doubles cannot be compared exactly"):
            where(filtered, {"docs": Doc})
    where(conditions(f"package f\n\ninclude if input.docs.i < {number}\n"), {"docs": Doc})


@pytest.mark.parametrize("number", ["5e-324", "1e-300", "-1e-31"])
def test_a_number_next_to_nothing_is_refused(number: str) -> None:
    filtered = conditions(f"package f\n\ninclude if input.docs.i < {number}\n")
    for dialect in get_args(Dialect):
        with pytest.raises(FilterError, match="nearer to 0 than 1e-30"):
            to_sql(filtered, COLUMNS, dialect)


FRACTIONS: Final = ["input.docs.n == 1.5", "input.docs.n in [4.4, 7]", "not input.docs.n == 11.5"]


@pytest.mark.parametrize("how", ["clause", "text", "expression"])
def test_an_index_rounds_no_number(mariadb: int, how: str) -> None:
    """MariaDB finds 2 where an index of integers is asked for 1.5."""
    url = f"mysql+pymysql://root@127.0.0.1:{mariadb}/test?charset=utf8mb4"
    database = sqlalchemy.create_engine(url)
    table = sqlalchemy.Table(
        "docs",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("n", sqlalchemy.BigInteger, index=True),
    )
    for body in FRACTIONS:
        engine = Engine({"f.rego": f"package f\n\ninclude if {body}\n"})
        left = engine.partial("data.f.include", ["input.docs"], only_truth=True)
        filtered = to_conditions(left)
        with database.connect() as connection:
            table.create(connection)
            connection.execute(table.insert(), [{"n": n % 13} for n in range(130)])
            if how == "expression":
                selected = connection.scalars(
                    sqlalchemy.select(table.c.n).where(where(filtered, {"docs": table}))
                )
            else:
                clause = to_sql(filtered, {"docs": {"n": "number"}}, "mysql")
                text = clause.text
                if how == "text":
                    text = (to_sql_text(filtered, Names({}), "mysql") or "").removeprefix("WHERE ")
                values = clause.parameters if how == "clause" else ()
                selected = connection.exec_driver_sql(
                    f"select n from docs force index (ix_docs_n) where {text}", values
                ).scalars()
            query = engine.prepare("data.f.include")
            decided = [query.value(from_python({"docs": {"n": n}})) is True for n in range(13)]
            assert set(selected) == {n for n, allowed in enumerate(decided) if allowed}
            table.drop(connection)
    database.dispose()
