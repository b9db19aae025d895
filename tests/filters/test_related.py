"""Related rows: filters let through what the policy lets through one by one, on real databases.

`DOORWARD_FILTERS` is the number of policies for each database and reading of NULL (by default 40).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest
from sqlalchemy import (
    REAL,
    Boolean,
    Double,
    Float,
    ForeignKey,
    Integer,
    Numeric,
    String,
    create_engine,
    select,
)
from sqlalchemy import Engine as Database
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    aliased,
    joinedload,
    mapped_column,
    relationship,
    selectinload,
    with_loader_criteria,
)
from tests.filters.generated import compiling
from tests.filters.related import ALIKE, COLUMNS, RELATIONS, documents, policy, tables

from doorward.filters import Conditions, FilterError, to_conditions, to_sql
from doorward.filters.sqlalchemy import where
from doorward.rego import Engine, from_python

pytestmark = pytest.mark.long

POLICIES: Final = int(os.environ.get("DOORWARD_FILTERS", "40"))
ROWS: Final = tables(Random(20261123), 80)
DIALECTS: Final[dict[str, Any]] = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "mariadb": "mysql",
}
_TEXT: Final = String(20).with_variant(String(20, collation="NOCASE"), "sqlite")


class Base(DeclarativeBase):
    pass


class Folder(Base):
    __tablename__ = "folders"
    id: Mapped[int] = mapped_column(primary_key=True)
    level: Mapped[float | None] = mapped_column(Float)
    name: Mapped[str | None] = mapped_column(_TEXT)


class Doc(Base):
    __tablename__ = "docs"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    a: Mapped[float | None] = mapped_column(Numeric(9, 3))
    s: Mapped[str | None] = mapped_column(_TEXT)
    ok: Mapped[bool | None] = mapped_column(Boolean)
    folder_id: Mapped[int | None] = mapped_column(ForeignKey("folders.id"))
    folder: Mapped[Folder | None] = relationship()
    comments: Mapped[list[Comment]] = relationship(back_populates="doc")


class Comment(Base):
    __tablename__ = "comments"
    id: Mapped[int] = mapped_column(primary_key=True)
    n: Mapped[float | None] = mapped_column(Float)
    t: Mapped[str | None] = mapped_column(_TEXT)
    ok: Mapped[bool | None] = mapped_column(Boolean)
    doc_id: Mapped[int] = mapped_column(ForeignKey("docs.id"))
    doc: Mapped[Doc | None] = relationship(back_populates="comments")
    marks: Mapped[list[Mark]] = relationship()


class Mark(Base):
    __tablename__ = "marks"
    id: Mapped[int] = mapped_column(primary_key=True)
    k: Mapped[str | None] = mapped_column(_TEXT)
    comment_id: Mapped[int] = mapped_column(ForeignKey("comments.id"))


@pytest.fixture(scope="module", params=list(DIALECTS))
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    url = "sqlite://"
    if request.param == "postgresql":
        address = request.getfixturevalue("postgresql")
        url = address.replace("postgresql://", "postgresql+psycopg://")
    elif request.param == "mariadb":
        url = f"mariadb+pymysql://root@127.0.0.1:{request.getfixturevalue('mariadb')}/test"
    database = create_engine(url)
    Base.metadata.drop_all(database)
    Base.metadata.create_all(database)
    with database.begin() as connection:
        for model in (Folder, Doc, Comment, Mark):
            table: Any = model.__table__
            rows = [dict(zip(COLUMNS[table.name], row, strict=True)) for row in ROWS[table.name]]
            connection.execute(table.insert(), rows)
    yield database
    Base.metadata.drop_all(database)
    database.dispose()


def conditions(text: str, input: Any = None) -> Conditions:
    engine = Engine({"f.rego": text})
    return to_conditions(
        engine.partial("data.f.include", ["input.docs"], input or {}, only_truth=True)
    )


def included(body: str, more: str = "") -> Conditions:
    return conditions(f"package f\n\ninclude if {{\n{body}\n}}\n{more}\n", {"user": "a"})


@pytest.mark.parametrize("nulls", ["null", "undefined"])
def test_filters_decide_as_the_policy(database: Database, nulls: Any) -> None:
    draw = Random(f"related {nulls}")
    rows = [from_python({"docs": each}) for each in documents(ROWS, nulls)]
    dialect = DIALECTS[database.dialect.name]
    compared = 0
    refused: list[tuple[str, FilterError]] = []
    for text in [ALIKE, *compiling(policy, draw, POLICIES)]:
        try:
            filtered = conditions(text)
            clause = to_sql(filtered, COLUMNS, dialect, relations=RELATIONS, nulls=nulls)
        except FilterError as error:
            refused.append((text, error))
            continue
        query = Engine({"f.rego": text}).prepare("data.f.include")
        expected = {number for number, each in enumerate(rows, 1) if query.value(each) is True}
        expression = where(filtered, {"docs": Doc}, nulls=nulls)
        with database.connect() as connection:
            raw = f"SELECT id FROM docs WHERE {clause.text}"
            selection = {n for (n,) in connection.exec_driver_sql(raw, clause.parameters)}
            assert selection == expected, (text, clause)
            selected = set(connection.scalars(select(Doc.id).where(expression)))
            assert selected == expected, (text, str(expression.compile(database)))
        compared += 1
    assert compared > POLICIES // 2
    assert all("every " in text for text, _ in refused), refused


MINE: Final = "some c in input.docs.comments\nc.t == input.user\nc.n > 1"


def expected(body: str, more: str = "") -> set[int]:
    engine = Engine({"f.rego": f"package f\n\ninclude if {{\n{body}\n}}\n{more}\n"})
    query = engine.prepare("data.f.include")
    rows = [from_python({"docs": row, "user": "a"}) for row in documents(ROWS, "null")]
    selection = {number for number, row in enumerate(rows, 1) if query.value(row) is True}
    assert 0 < len(selection) < len(rows)
    return selection


def test_two_conditions_are_about_one_row(database: Database) -> None:
    clause = where(included(MINE), {"docs": Doc})
    assert str(clause.compile(database)).count("EXISTS") == 1
    with database.connect() as connection:
        assert set(connection.scalars(select(Doc.id).where(clause))) == expected(MINE)
        apart = MINE.replace("c.n >", "some d in input.docs.comments\nd.n >")
        other = where(included(apart), {"docs": Doc})
        assert str(other.compile(database)).count("EXISTS") == 2
        assert set(connection.scalars(select(Doc.id).where(other))) == expected(apart)
        assert expected(apart) > expected(MINE)


def test_loader_criteria_hold_for_every_way_to_a_document(database: Database) -> None:
    mine = expected(MINE)
    clause = where(included(MINE), {"docs": Doc})
    option = with_loader_criteria(Doc, clause, include_aliases=True)
    with Session(database) as session:
        assert {doc.id for doc in session.scalars(select(Doc).options(option))} == mine
        other = aliased(Doc)
        assert set(session.scalars(select(other.id).options(option))) == mine
        for load in (joinedload, selectinload):
            session.expunge_all()
            comments = session.scalars(select(Comment).options(load(Comment.doc), option)).unique()
            seen = {doc.id for doc in [comment.doc for comment in comments] if doc is not None}
            assert seen == mine
        session.expunge_all()
        joined = select(Doc.id).join(Comment, Comment.doc_id == Doc.id).options(option)
        assert set(session.scalars(joined)) == mine


def test_aliases_and_the_same_table_twice(database: Database) -> None:
    other = aliased(Doc)
    clause = where(included(MINE), {"docs": other})
    with database.connect() as connection:
        assert set(connection.scalars(select(other.id).where(clause))) == expected(MINE)
        both = select(Doc.id).join(other, other.id == Doc.id).where(clause)
        assert set(connection.scalars(both)) == expected(MINE)


class Measure(Base):
    __tablename__ = "measures"
    id: Mapped[int] = mapped_column(primary_key=True)
    single: Mapped[float | None] = mapped_column(Float)
    real: Mapped[float | None] = mapped_column(REAL)
    double: Mapped[float | None] = mapped_column(Double)


def test_numbers_of_single_precision_are_those_that_programs_read(database: Database) -> None:
    values = [0.1, 1.5, 1024.5, 0.3, None]
    with database.begin() as connection:
        connection.execute(Measure.__table__.delete())  # type: ignore[attr-defined]  # a table
        rows = [{"id": n, "single": v, "real": v, "double": v} for n, v in enumerate(values, 1)]
        connection.execute(Measure.__table__.insert(), rows)  # type: ignore[attr-defined]  # a table
        for column in ("single", "real", "double"):
            for text, holds in (
                ("not input.docs.{} == 0.1", [2, 3, 4, 5]),
                ("input.docs.{} != 0.1", [2, 3, 4, 5]),
                ("input.docs.{} == 0.3", [4]),
                ("input.docs.{} > 0.1", [2, 3, 4]),
                ("not input.docs.{} in [0.1, 0.3]", [2, 3, 5]),
                ("input.docs.{} == input.docs.double", [1, 2, 3, 4, 5]),
            ):
                clause = where(included(text.format(column)), {"docs": Measure})
                query = select(Measure.id).where(clause).order_by(Measure.id)
                assert list(connection.scalars(query)) == holds, (column, text)


@pytest.mark.parametrize(
    ("body", "more", "wanted"),
    [
        ("some i, c in input.docs.comments\ni > 2", "", "invalid ref operand"),
        ("input.docs.comments[0].n == 1", "", "invalid ref operand"),
        ('"x" in input.docs.comments', "", "rows cannot be compared whole"),
        ("input.docs.comments == []", "", "non-scalar"),
        ("count(input.docs.comments) > 1", "", "count can only ask whether there are rows"),
        ("count(input.docs.a)", "", "docs.a is not a declared relation"),
        ("count(input.docs.folder)", "", "is declared as a relation to one row"),
        (
            "some c in input.docs.comments\ncount(c.ok)",
            "",
            "comments.ok is not a declared relation",
        ),
        ("input.docs.folder.nothing == 1", "", "folder.nothing is not declared"),
        ("input.docs.zz.name == 1", "", "docs.zz is not a declared relation: eq("),
        (
            "some f in input.docs.folder\nf.level == 1",
            "",
            "docs.folder is declared as a relation to one row",
        ),
        ("input.docs.comments.n == 1", "", "docs.comments is declared as a relation to many rows"),
        (
            "some c in input.docs.comments\nsome d in input.docs.comments\nc == d",
            "",
            "cannot be compared whole",
        ),
        ("some i\ninput.docs.comments[i].n == 1\ninput.docs.other[i].n == 1", "", "operand"),
    ],
)
def test_what_cannot_be_said_is_an_error_with_a_hint(body: str, more: str, wanted: str) -> None:
    with pytest.raises(FilterError) as caught:
        to_sql(included(body, more), COLUMNS, "sqlite", relations=RELATIONS)
    assert wanted in str(caught.value)
    if "declared" not in wanted or "relation" in wanted:
        assert "hint: " in str(caught.value)
    with pytest.raises(FilterError):
        where(included(body, more), {"docs": Doc})


def test_values_of_another_kind_in_related_rows_let_nothing_through() -> None:
    import sqlite3

    connection = sqlite3.connect(":memory:")
    connection.executescript(
        "create table docs (id integer, a, s, ok, folder_id);"
        "create table comments (id integer, n, t, ok, doc_id);"
        "insert into docs (id) values (1), (2), (3), (4);"
        "insert into comments (n, doc_id) values ('x', 1), (1, 2), ('x', 2), (5, 3);"
    )

    def selection(body: str, more: str) -> list[int]:
        clause = to_sql(included(body, more), COLUMNS, "sqlite", relations=RELATIONS)
        rows = connection.execute(f"select id from docs where {clause.text}", clause.parameters)
        return [number for (number,) in rows]

    some = "some c in input.docs.comments\nc.n != 7"
    assert selection(some, "") == [2, 3]
    assert selection("not other", f"other if {{\n{some}\n}}") == [4]
    assert selection("not other", "other if {\nsome c in input.docs.comments\nc.n == 7\n}") == [
        3,
        4,
    ]
    connection.close()
