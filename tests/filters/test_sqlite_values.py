"""What SQLite keeps and reads otherwise than programs do: no list is wider than decisions, and no
row ends a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import pytest
from sqlalchemy import JSON, Numeric, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from doorward.filters import Conditions, Names, Relation, to_conditions, to_sql
from doorward.filters.sqlalchemy import document_of, where
from doorward.rego import Engine, from_python

LISTED: Final = [
    *(r'{"k":"a"}', r'{"k":"a\\u0000b"}', r'{"k":"\u0061"}', r'{"ä":"a"}', r'{"\u00e4":"a"}'),
    *(r'{"n":{"\u00e4":1}}', r'{"a/b":1}', r'{"n":[{"k":1}]}', r'{"n":[{"\u00e4":1}]}'),
]
UNLISTED: Final = [
    *(r'{"\u006b":"a"}', r'{"k":"a\u0000b"}', r'{"\u00E4":"a"}', r'{"k\u0000":"a"}'),
    *(r'{"a\/b":1}', r'{"n":[{"\u006b":1}]}', r'{"äx\u00e4":1}'),
]
"""Documents in which SQLite cannot find what programs read: they are in no list."""
BODIES: Final = [
    *('docs.j.k == "a"', 'docs.j["ä"] == "a"', 'docs.j.n["ä"] == 1', 'docs.j["a/b"] == 1'),
    *('docs.j["äxä"] == 1', 'docs.j.k == "a\\\\u0000b"', "docs.j.k", "count(docs.j.n) == 0"),
]
VALUES: Final = [
    *('{"k":"b"}', '{"k":"A"}', '{"k":"5"}', '{"k":""}', '{"k":5}', '{"k":true}', '{"k":null}'),
    *('{"k":["a"]}', '{"k":{"a":1}}', "{}", "[]", "null"),
]
CALLS: Final = [
    *('lower(docs.j.k) != "a"', 'lower(docs.j.k) != "A"', 'lower(docs.j.k) == "5"'),
    *('startswith(lower(docs.j.k), "")', 'contains(upper(docs.j.k), "5")'),
    *('trim_space(docs.j.k) != "b"', 'trim(docs.j.k, " ") in ["a", "5"]'),
]
ELEMENTS: Final = '{ some x in docs.j; lower(x) != "q" }'


class Base(DeclarativeBase):
    pass


class Doc(Base):
    __tablename__ = "docs"
    id: Mapped[int] = mapped_column(primary_key=True)
    j: Mapped[Any] = mapped_column(JSON, nullable=True)
    n: Mapped[Decimal | None] = mapped_column(Numeric(9, 3))


@pytest.fixture
def session() -> Iterator[Session]:
    database = create_engine("sqlite://")
    Base.metadata.create_all(database)
    with Session(database) as session:
        yield session
    database.dispose()


def _insert(session: Session, column: str, values: list[Any]) -> None:
    connection: Any = session.connection().connection
    rows = [(each,) for each in values]
    connection.executemany(f"insert into docs ({column}) values (?)", rows)


def _filtered(body: str) -> tuple[Conditions, Any]:
    engine = Engine({"f.rego": f"package f\n\nimport input.docs\n\nallow if {body}\n"})
    left = engine.partial("data.f.allow", ["input.docs"], only_truth=True)
    return to_conditions(left), engine.prepare("data.f.allow")


def _selected(session: Session, conditions: Conditions, how: str) -> set[int]:
    if how == "expression":
        return set(session.scalars(select(Doc.id).where(where(conditions, {"docs": Doc}))))
    clause = to_sql(conditions, {"docs": {"j": "json"}}, "sqlite")
    statement = f"select id from docs where {clause.text}"
    return set(session.connection().exec_driver_sql(statement, clause.parameters).scalars())


@pytest.mark.parametrize("how", ["expression", "clause"])
def test_names_and_texts_are_found_however_they_are_written(session: Session, how: str) -> None:
    _insert(session, "j", [*LISTED, None, *UNLISTED])
    for body in [*BODIES, *[f"not {each}" for each in BODIES]]:
        conditions, query = _filtered(body)
        documents = [from_python({"docs": {"j": json.loads(text)}}) for text in LISTED]
        documents.append(from_python({"docs": {"j": None}}))
        allowed = {n for n, each in enumerate(documents, 1) if query.value(each) is True}
        assert _selected(session, conditions, how) == allowed, body


@pytest.mark.parametrize("how", ["expression", "clause"])
@pytest.mark.parametrize("body", [*CALLS, *[f"not {each}" for each in CALLS], ELEMENTS])
def test_functions_of_texts_hold_for_no_other_value(session: Session, how: str, body: str) -> None:
    _insert(session, "j", VALUES)
    conditions, query = _filtered(body)
    documents = [from_python({"docs": {"j": json.loads(text)}}) for text in VALUES]
    allowed = {n for n, each in enumerate(documents, 1) if query.value(each) is True}
    assert _selected(session, conditions, how) == allowed


@pytest.mark.parametrize("how", ["expression", "clause"])
@pytest.mark.parametrize("text", ['{"k":NaN}', "{k:1}", "", "{", '{"k":1}x'])
def test_a_text_that_is_no_document_ends_no_list(session: Session, how: str, text: str) -> None:
    others = ['{"k":1}', '{"k":2,"n":[1]}']
    _insert(session, "j", [text, *others])
    more = "\n\nsome_one if {\n\tsome each in docs.j.n\n\teach == 1\n}"
    for body in ("docs.j.k == 1", "1 in docs.j.n", "some_one"):
        for sign in ("", "not "):
            conditions, query = _filtered(f"{sign}{body}{more}")
            documents = [from_python({"docs": {"j": json.loads(each)}}) for each in others]
            allowed = {n for n, each in enumerate(documents, 2) if query.value(each) is True}
            assert _selected(session, conditions, how) == allowed, body


def test_decimals_are_compared_as_programs_read_them(session: Session) -> None:
    numbers = [n / 10000 for n in range(-30, 120)] + [1.2345, 2.5, 123456.7895, 1e9 + 0.0005]
    _insert(session, "n", [*numbers, 9007199254740993, None])
    read = {doc.id: document_of(doc) for doc in session.scalars(select(Doc))}
    for operator in ("==", "!=", "<", ">="):
        for known in ("0.001", "0.002", "0", "-0.002", "1.234", "1.235", "123456.79"):
            conditions, query = _filtered(f"docs.n {operator} {known}")
            allowed = {
                n for n, each in read.items() if query.value(from_python({"docs": each})) is True
            }
            selected = _selected(session, conditions, "expression")
            assert selected <= allowed, (operator, known)
            # Not in the middle of two numbers of three digits, which SQLite may round otherwise.
            middle = {n for n, each in enumerate(numbers, 1) if abs(each * 1000 % 1 - 0.5) < 1e-6}
            assert allowed - selected <= middle, (operator, known)


@pytest.mark.parametrize("name", ["related_1", "RELATED_1", "docs"])
def test_a_table_may_have_the_name_of_an_alias(name: str) -> None:
    database = create_engine("sqlite://")
    actual = "related_1" if name == "docs" else name
    engine = Engine(
        {
            "f.rego": "package f\n\nallow if {\n\tsome c in input.docs.comments\n"
            "\tc.author == input.docs.owner\n}\n".replace("input.docs", f"input.{name}")
        }
    )
    left = engine.partial("data.f.allow", [f"input.{name}"], only_truth=True)
    clause = to_sql(
        to_conditions(left),
        {name: {"id": "number", "owner": "text"}, "comments": {"author": "text"}},
        "sqlite",
        relations={name: {"comments": Relation("comments", {"doc_id": "id"})}},
        names=Names({"docs": {"$self": "related_1"}}),
    )
    with database.connect() as connection:
        connection.exec_driver_sql(f"create table {actual} (id integer, owner text)")
        connection.exec_driver_sql(
            "create table comments (id integer, doc_id integer, author text)"
        )
        connection.exec_driver_sql(f"insert into {actual} values (1, 'ann'), (2, 'bob')")
        connection.exec_driver_sql("insert into comments values (1, 1, 'ann'), (2, 2, 'ann')")
        statement = f"select id from {actual} where {clause.text}"
        assert connection.exec_driver_sql(statement, clause.parameters).scalars().all() == [1]
    database.dispose()
