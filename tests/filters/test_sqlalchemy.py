"""SQLAlchemy expressions: the rows that the policy lets through one by one, on real databases."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Boolean,
    Date,
    DateTime,
    Float,
    Integer,
    Numeric,
    Text,
    create_engine,
    select,
)
from sqlalchemy import (
    Engine as Database,
)
from sqlalchemy.dialects import mysql, oracle, postgresql
from sqlalchemy.exc import CompileError
from sqlalchemy.orm import DeclarativeBase, Mapped, aliased, mapped_column
from sqlalchemy.types import String
from tests.filters.generated import document, policy, rows

from doorward.filters import Conditions, FilterError, to_conditions
from doorward.filters.sqlalchemy import where
from doorward.rego import CompileError as PolicyError
from doorward.rego import Engine, from_python

POLICIES = 25
POSTGRESQL: Any = postgresql.dialect
TABLE = rows(Random(7), 300)


class Base(DeclarativeBase):
    pass


class Doc(Base):
    __tablename__ = "documents"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    a: Mapped[float | None] = mapped_column(Numeric())
    b: Mapped[float | None] = mapped_column("bb", Float)
    s: Mapped[str | None] = mapped_column(Text().with_variant(Text(collation="NOCASE"), "sqlite"))
    t: Mapped[str | None] = mapped_column(String(20))
    ok: Mapped[bool | None] = mapped_column(Boolean)
    more: Mapped[Any] = mapped_column(JSON, nullable=True)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    url = "sqlite://"
    if request.param == "postgresql":
        address = request.getfixturevalue("postgresql")
        url = address.replace("postgresql://", "postgresql+psycopg://")
    database = create_engine(url)
    Base.metadata.drop_all(database)
    Base.metadata.create_all(database)
    names = ("id", "a", "b", "s", "t", "ok")
    with database.begin() as connection:
        table = Doc.__table__
        keys = ("id", "a", "bb", "s", "t", "ok")
        connection.execute(
            table.insert(),  # type: ignore[attr-defined]
            [dict(zip(keys, row, strict=True)) for row in TABLE],
        )
    assert len(names) == len(keys)
    yield database
    database.dispose()


def conditions(body: str) -> Conditions:
    engine = Engine({"f.rego": f"package f\n\ninclude if {{\n{body}\n}}\n"})
    return to_conditions(engine.partial("data.f.include", ["input.docs"], only_truth=True))


@pytest.mark.long
@pytest.mark.parametrize("nulls", ["null", "undefined"])
def test_the_expression_decides_as_the_policy(database: Database, nulls: Any) -> None:
    draw = Random(f"sqlalchemy {nulls}")
    documents = [from_python({"docs": document(row, nulls=nulls)}) for row in TABLE]
    compared = 0
    for _ in range(2 * POLICIES):
        text = policy(draw)
        try:
            engine = Engine({"f.rego": text})
            partial = engine.partial("data.f.include", ["input.docs"], only_truth=True)
            clause = where(to_conditions(partial), {"docs": Doc}, nulls=nulls)
        except (FilterError, PolicyError):
            continue
        query = engine.prepare("data.f.include")
        expected = {n for n, each in enumerate(documents) if query.value(each) is True}
        with database.connect() as connection:
            selected = set(connection.scalars(select(Doc.id).where(clause)))
        assert selected == expected, (text, str(clause.compile(database)))
        compared += 1
    assert compared > POLICIES // 2


def test_tables_and_aliases_are_taken(database: Database) -> None:
    filtered = conditions("input.docs.a == 1.5")
    other = aliased(Doc)
    with database.connect() as connection:
        one = set(connection.scalars(select(other.id).where(where(filtered, {"docs": other}))))
        table = Doc.__table__
        two = set(connection.scalars(select(table.c.id).where(where(filtered, {"docs": table}))))
    assert one == two == {row[0] for row in TABLE if row[1] == 1.5}


@pytest.mark.parametrize(
    ("column", "reason"), [("zz", "is not declared"), ("more", "is a document of JSON")]
)
def test_a_column_without_a_kind_is_an_error(column: str, reason: str) -> None:
    with pytest.raises(FilterError, match=f"docs.{column} {reason}"):
        where(conditions(f'input.docs.{column} == "x"'), {"docs": Doc})


def test_other_databases_are_an_error() -> None:
    clause = where(conditions('input.docs.s == "x"'), {"docs": Doc})
    assert "AS BINARY" in str(clause.compile(dialect=mysql.dialect()))
    with pytest.raises(CompileError, match="cannot be compared exactly on oracle"):
        clause.compile(dialect=oracle.dialect())  # type: ignore[no-untyped-call]


class Ended(Base):
    """A row whose dates may be the first and the last."""

    __tablename__ = "ended"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    day: Mapped[datetime.date | None] = mapped_column(Date)
    at: Mapped[datetime.datetime | None] = mapped_column(DateTime(timezone=True))


@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">="])
def test_the_first_and_the_last_date_are_no_parameters(database: Database, operator: str) -> None:
    """Some drivers pass them as infinite."""
    first, last = datetime.date.min, datetime.date.max
    day = datetime.timedelta(days=1)
    days = [first, first + day, datetime.date(2026, 11, 29), last - day, last, None]
    with database.begin() as connection:
        table: Any = Ended.__table__
        connection.execute(table.delete())
        connection.execute(table.insert(), [{"id": n, "day": each} for n, each in enumerate(days)])
        for known in days[:-1]:
            body = f'input.docs.day {operator} "{known}"'
            clause = where(conditions(body), {"docs": Ended})
            passed = clause.compile(dialect=POSTGRESQL()).params.values()
            assert not {first, last} & set(passed)
            query = Engine({"f.rego": f"package f\n\ninclude if {body}\n"}).prepare(
                "data.f.include"
            )
            seen = [str(each) if each else None for each in days]
            wanted = {
                n
                for n, each in enumerate(seen)
                if query.value(from_python({"docs": {"day": each}})) is True
            }
            assert set(connection.scalars(select(Ended.id).where(clause))) == wanted, body


@pytest.mark.parametrize("known", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
def test_the_first_and_the_last_time_are_no_parameters(known: str) -> None:
    for operator in ("==", "!="):
        clause = where(conditions(f'input.docs.at {operator} "{known}"'), {"docs": Ended})
        (passed,) = clause.compile(dialect=POSTGRESQL()).params.values()
        assert passed.replace(tzinfo=None) not in (datetime.datetime.min, datetime.datetime.max)
